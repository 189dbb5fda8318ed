/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin itself, by its table: frames land in places of a lender, and lent parts go out, between a port of
 * net_vhost and one of net_virtio_user that is its host. No rights and no huge pages are needed.
 *
 *     virtio (nothing can be lent to it) <-- socket, memory of this process --> vhost (is lent places)
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "daemon/lan/nic_engine.h"

enum { PLACES = 4096, ROUNDS = 5000, PARTS = 256, BURST = 16, FRAME_MAX = 4198, TRIES = 20000 };

static const struct nic_engine *engine;
static struct nic_device *vhost, *virtio;
static char dir[] = "/tmp/test_nic_lend.XXXXXX", err[512];

/* --- a lender --- */

static struct lender {
	uint8_t (*place)[NIC_PLACE_BYTES];
	bool lent[PLACES];
	uint32_t next; /* places are given in turn, so that each is used again late */
	unsigned nlent, most;
	unsigned limit;        /* places that there are */
	unsigned parts[PARTS]; /* how often the device has each */
	unsigned nparts;
} lender;

static bool give_place(void *arg, struct nic_place *out)
{
	struct lender *l = arg;

	if (l->nlent >= l->limit)
		return false;
	while (l->lent[l->next])
		l->next = (l->next + 1) % PLACES;
	l->lent[l->next] = true;
	if (++l->nlent > l->most)
		l->most = l->nlent;
	*out = (struct nic_place){.at = l->place[l->next], .tag = l->next};
	l->next = (l->next + 1) % PLACES;
	return true;
}

static void place_back(void *arg, uint32_t tag)
{
	struct lender *l = arg;

	assert_true(tag < PLACES && l->lent[tag]);
	l->lent[tag] = false;
	l->nlent--;
}

static void part_back(void *arg, uint32_t tag)
{
	struct lender *l = arg;

	assert_true(tag < PARTS && l->parts[tag] > 0);
	l->parts[tag]--;
	l->nparts--;
}

static const struct nic_lender calls = {
    .arg = &lender, .place = give_place, .place_back = place_back, .part_back = part_back};

/* --- frames --- */

static void fill(uint8_t *at, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)(seed * 31 + i * 7);
}

static size_t len_of(unsigned n)
{
	return 60 + n * 977u % (FRAME_MAX - 60 + 1);
}

struct seen {
	unsigned n, landed;
	bool keep; /* the place of each, and give another one for it */
};

static void expect_frame(void *arg, const uint8_t *frame, size_t len, uint16_t tci, struct nic_place *place)
{
	static uint8_t want[FRAME_MAX];
	struct seen *s = arg;

	assert_int_equal(tci, 0);
	assert_int_equal(len, len_of(s->n));
	fill(want, len, s->n);
	assert_memory_equal(frame, want, len);
	s->n++;
	if (!place)
		return;
	s->landed++;
	assert_true(place->tag < PLACES && lender.lent[place->tag]);
	assert_ptr_equal(place->at, lender.place[place->tag]);
	assert_ptr_equal(frame, place->at + NIC_PLACE_HEADROOM);
	if (s->keep) {
		struct nic_place kept = *place;

		lender.limit = PLACES; /* it gives one for one */
		assert_true(give_place(&lender, place));
		place_back(&lender, kept.tag);
	}
}

static void forget(void *arg, const uint8_t *frame, size_t len, uint16_t tci, struct nic_place *place)
{
	(void)arg;
	(void)frame;
	(void)len;
	(void)tci;
	(void)place;
}

static void send_one(struct nic_device *d, const struct nic_frame *f)
{
	for (unsigned i = 0; i < TRIES && engine->tx_pending(d); i++) {
		engine->tx_retry(d);
		usleep(10);
	}
	assert_false(engine->tx_pending(d));
	engine->tx(d, f, 1);
}

static void receive_until(struct nic_device *d, struct seen *s, unsigned n)
{
	for (unsigned i = 0; i < TRIES && s->n < n; i++)
		if (engine->rx(d, 64, expect_frame, s) == 0)
			usleep(10);
	assert_int_equal(s->n, n);
}

/* --- cases --- */

static int start(void **state)
{
	char devargs[256];

	(void)state;
	lender.place = malloc(PLACES * sizeof(*lender.place));
	engine = nic_engine_table();
	if (!lender.place || !mkdtemp(dir) || engine->start("--no-huge -m 512", 0, err, sizeof(err)) < 0)
		return -1;
	snprintf(devargs, sizeof(devargs), "net_vhost0,iface=%s/socket", dir);
	if (engine->open(&vhost, &(struct nic_wanted){devargs, 4224, true}, err, sizeof(err)) < 0)
		return -1;
	snprintf(devargs, sizeof(devargs), "net_virtio_user0,path=%s/socket,queue_size=256,mrg_rxbuf=0", dir);
	return engine->open(&virtio, &(struct nic_wanted){devargs, 4224, true}, err, sizeof(err));
}

static int stop(void **state)
{
	(void)state;
	engine->stop();
	free(lender.place);
	return rmdir(dir); /* which the device's socket would be in the way of */
}

static int begin(void **state)
{
	(void)state;
	for (unsigned quiet = 0; quiet < 50;) {
		quiet = engine->rx(vhost, 64, forget, NULL) + engine->rx(virtio, 64, forget, NULL) ? 0 : quiet + 1;
		usleep(200);
	}
	memset(lender.lent, 0, sizeof(lender.lent));
	lender.nlent = lender.most = lender.next = 0;
	lender.limit = PLACES;
	return 0;
}

/* A burst at a time: so many mbufs are on their way at once. */
static void cross(struct nic_device *from, struct nic_device *to, struct seen *s, unsigned n)
{
	static uint8_t bytes[FRAME_MAX];

	for (unsigned end = s->n + n; s->n < end;) {
		unsigned burst = end - s->n < BURST ? end - s->n : BURST, next = s->n;

		for (unsigned i = next; i < next + burst; i++) {
			struct nic_frame f = {.part = {{bytes, len_of(i)}}, .nparts = 1, .lent = NIC_NO_PART};

			fill(bytes, len_of(i), i);
			send_one(from, &f);
		}
		receive_until(to, s, next + burst);
	}
}

static void lend__frames_land_and_all_comes_back(void **state)
{
	struct seen s = {.keep = true};

	(void)state;
	cross(virtio, vhost, &s, 10);
	assert_int_equal(s.landed, 0);
	assert_int_equal(engine->lend(vhost, &calls, err, sizeof(err)), 0);
	cross(virtio, vhost, &s, ROUNDS);
	assert_true(s.landed > ROUNDS / 2);
	assert_true(lender.nlent > 0);
	assert_int_equal(engine->take_back(vhost, err, sizeof(err)), 0);
	assert_int_equal(lender.nlent, 0);
	s.landed = 0;
	cross(virtio, vhost, &s, 1000);
	assert_int_equal(s.landed, 0);
}

static void lend__a_full_buffer_lends_fewer(void **state)
{
	struct seen s = {0};

	(void)state;
	lender.limit = 3;
	assert_int_equal(engine->lend(vhost, &calls, err, sizeof(err)), 0);
	cross(virtio, vhost, &s, ROUNDS);
	assert_int_equal(lender.most, 3);
	assert_true(s.landed > 0);
	assert_int_equal(engine->take_back(vhost, err, sizeof(err)), 0);
	assert_int_equal(lender.nlent, 0);
}

/* What is longer than a place has nowhere to overflow to: the bytes around each are as they were. */
static void lend__no_frame_writes_past_its_place(void **state)
{
	static uint8_t bytes[8000];
	struct nic_frame f = {.part = {{bytes, sizeof(bytes)}}, .nparts = 1, .lent = NIC_NO_PART};
	struct nic_stats before, after;
	struct seen s = {0};

	(void)state;
	lender.limit = 200;
	assert_int_equal(engine->lend(vhost, &calls, err, sizeof(err)), 0);
	cross(virtio, vhost, &s, 2000);
	for (unsigned i = 0; i < PLACES; i++)
		if (!lender.lent[i])
			memset(lender.place[i], 0x5c, NIC_PLACE_BYTES);
	engine->stats(vhost, &before);
	memset(bytes, 0xee, sizeof(bytes));
	for (unsigned i = 0; i < 300; i++) {
		send_one(virtio, &f);
		usleep(50);
		engine->rx(vhost, 64, forget, NULL);
	}
	engine->stats(vhost, &after);
	assert_true(after.rx_split > before.rx_split);
	for (unsigned i = 0; i < PLACES; i++)
		for (unsigned k = 0; !lender.lent[i] && k < NIC_PLACE_BYTES; k++)
			assert_int_equal(lender.place[i][k], 0x5c);
	assert_int_equal(engine->take_back(vhost, err, sizeof(err)), 0);
	assert_int_equal(lender.nlent, 0);
}

static void lend__parts_go_out_from_where_they_are(void **state)
{
	static uint8_t bytes[PARTS][FRAME_MAX];
	struct seen s = {0};

	(void)state;
	assert_int_equal(engine->lend(vhost, &calls, err, sizeof(err)), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint8_t *at = bytes[i % PARTS];
		size_t len = len_of(i), tail = i % 3 ? 4 : 0, head = 54;
		struct nic_frame f = {
		    .part = {{at, 14}, {at + 14, head - 14}, {at + head, len - head - tail}, {at + len - tail, tail}},
		    .nparts = tail ? 4 : 3,
		    .lent = len - head - tail > 100 ? 2 : NIC_NO_PART,
		    .tag = i % PARTS};

		fill(at, len, i);
		if (f.lent != NIC_NO_PART) {
			lender.parts[f.tag]++;
			lender.nparts++;
		}
		send_one(vhost, &f);
		receive_until(virtio, &s, i + 1);
	}
	assert_int_equal(s.landed, 0);
	assert_int_equal(engine->take_back(vhost, err, sizeof(err)), 0);
	assert_int_equal(lender.nparts, 0);
}

/* With no host to take them: frames wait, and their parts are given back with the device. */
static void lend__parts_of_frames_that_wait_come_back(void **state)
{
	static uint8_t bytes[FRAME_MAX];
	struct nic_frame f[NIC_TX_BATCH];
	unsigned batches = 0;

	(void)state;
	assert_int_equal(engine->lend(vhost, &calls, err, sizeof(err)), 0);
	for (; batches < 1000 && !engine->tx_pending(vhost); batches++) {
		for (unsigned i = 0; i < NIC_TX_BATCH; i++) {
			f[i] = (struct nic_frame){
			    .part = {{bytes, 54}, {bytes + 54, 4000}}, .nparts = 2, .lent = 1, .tag = i};
			lender.parts[i]++;
			lender.nparts++;
		}
		engine->tx(vhost, f, NIC_TX_BATCH);
	}
	assert_true(engine->tx_pending(vhost));
	assert_true(lender.nparts > 0);
	assert_int_equal(engine->take_back(vhost, err, sizeof(err)), 0);
	assert_int_equal(lender.nparts, 0);
	assert_false(engine->tx_pending(vhost));
}

/* --- net_af_packet, on the loopback interface: takes CAP_NET_RAW --- */

static unsigned largest, on_places;

static void note_frame(void *arg, const uint8_t *frame, size_t len, uint16_t tci, struct nic_place *place)
{
	(void)arg;
	(void)frame;
	(void)tci;
	if (!place)
		return;
	on_places++;
	largest = len > largest ? (unsigned)len : largest;
}

static void flood_loopback(void)
{
	static uint8_t bytes[30000];
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	memset(bytes, 0xee, sizeof(bytes));
	for (unsigned i = 0; i < 16; i++)
		if (sendto(fd, bytes, sizeof(bytes), MSG_DONTWAIT, (void *)&to, sizeof(to)) < 0)
			break;
	close(fd);
}

/* The kernel cuts a longer frame off where the ring's frame ends, which is before the place does. */
static void lend__ring_frames_that_fit_a_place_land(void **state)
{
	static const struct nic_wanted large = {"net_af_packet1,iface=lo,framesz=8192,blocksz=65536,framecnt=64", 4224, true};
	static const struct nic_wanted fits = {"net_af_packet2,iface=lo,framesz=4288,blocksz=274432,framecnt=256", 4224, true};
	struct nic_device *ring;

	(void)state;
	if (geteuid() != 0)
		skip();
	if (engine->open(&ring, &large, err, sizeof(err)) < 0)
		skip();
	assert_int_equal(engine->lend(ring, &calls, err, sizeof(err)), -EMSGSIZE);
	assert_non_null(strstr(err, "framesz=4288,blocksz=274432"));
	assert_int_equal(engine->open(&ring, &fits, err, sizeof(err)), 0);
	assert_int_equal(engine->lend(ring, &calls, err, sizeof(err)), 0);
	on_places = largest = 0;
	memset(lender.place, 0x5c, PLACES * sizeof(*lender.place));
	lender.limit = 64;
	for (unsigned i = 0; i < TRIES && on_places < 500; i++) {
		flood_loopback();
		engine->rx(ring, 64, note_frame, NULL);
	}
	assert_true(on_places >= 500);
	assert_int_equal(largest, 4288 - 66);
	for (unsigned i = 1; i < PLACES; i++) /* in front of each there is headroom, behind the last of a row nothing */
		for (unsigned k = 0; k < 64; k++)
			assert_int_equal(lender.place[i][k], 0x5c);
	assert_int_equal(engine->take_back(ring, err, sizeof(err)), 0);
	assert_int_equal(lender.nlent, 0);
}

static void lend__not_to_a_device_that_another_process_writes_for(void **state)
{
	(void)state;
	assert_int_equal(engine->lend(virtio, &calls, err, sizeof(err)), -EOPNOTSUPP);
	assert_non_null(strstr(err, "net_virtio_user would write into the link's buffer by DMA"));
}

/* --- frames in the device's own memory --- */

static void send_own(struct nic_device *d, unsigned n)
{
	struct nic_own f;

	for (unsigned i = 0; i < TRIES && engine->tx_pending(d); i++) {
		engine->tx_retry(d);
		usleep(10);
	}
	assert_false(engine->tx_pending(d));
	assert_true(engine->own(d, &f));
	assert_true(f.len >= 4224 + 128);
	f.at += 100 + n % 28;
	f.len = len_of(n);
	fill(f.at, f.len, n);
	engine->tx_own(d, &f, 1);
}

static unsigned receive_own(struct nic_device *d, unsigned next)
{
	static uint8_t want[FRAME_MAX];
	struct nic_own got[64];
	unsigned n = engine->rx_own(d, got, 64);

	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(got[i].len, len_of(next + i));
		fill(want, got[i].len, next + i);
		assert_memory_equal(got[i].at, want, got[i].len);
		memset(got[i].at, 0xee, got[i].len); /* it may be written into */
	}
	engine->own_back(d, got, n);
	return n;
}

/* Far more of them than the device has memory for: none is lost on the way. */
static void own__frames_go_out_and_come_in_where_they_are(void **state)
{
	unsigned n = 0;

	(void)state;
	for (unsigned end = 0; end < ROUNDS;) {
		for (unsigned burst = 0; burst < BURST; burst++)
			send_own(vhost, end++);
		for (unsigned i = 0; i < TRIES && n < end; i++) {
			unsigned got = receive_own(virtio, n);

			n += got;
			if (!got)
				usleep(10);
		}
		assert_int_equal(n, end);
	}
}

/* What waits is dropped, counted, and its memory is free again. */
static void own__what_the_device_does_not_take_is_dropped(void **state)
{
	struct nic_stats before, after;
	unsigned dropped = 0;

	(void)state;
	engine->stats(vhost, &before);
	while (dropped < 5000) { /* nobody reads */
		struct nic_own f;

		assert_true(engine->own(vhost, &f));
		f.len = 60;
		engine->tx_own(vhost, &f, 1);
		if (engine->tx_pending(vhost)) {
			engine->tx_drop(vhost);
			dropped++;
		}
		assert_false(engine->tx_pending(vhost));
	}
	engine->stats(vhost, &after);
	assert_int_equal(after.tx_errors - before.tx_errors, dropped);
}

/* Of a WAN's MTU, with ring frames that are longer than any of a LAN's. */
static void own__rooms_hold_a_path_mtu(void **state)
{
	static const struct nic_wanted wan = {"net_af_packet3,iface=lo,framesz=9216,blocksz=36864,framecnt=64", 9000, false};
	struct nic_device *ring;
	struct nic_own f;

	(void)state;
	if (geteuid() != 0 || engine->open(&ring, &wan, err, sizeof(err)) < 0)
		skip();
	assert_true(engine->own(ring, &f));
	assert_true(f.len >= 9000 + 128);
	engine->own_back(ring, &f, 1);
	assert_int_equal(engine->lend(ring, &calls, err, sizeof(err)), -EMSGSIZE);
}

/* --- what cannot be opened --- */

static int listen_at(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	assert_int_equal(bind(fd, (void *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

/* As a killed process that is not dead yet. */
static void hold_for_a_while(int fd)
{
	pid_t pid = fork();

	if (pid == 0) {
		usleep(500000);
		_exit(0);
	}
	assert_true(pid > 0);
	close(fd);
}

static int open_at(const char *path, const char *name)
{
	struct nic_device *d;
	char devargs[256];

	snprintf(devargs, sizeof(devargs), "%s,queues=1,iface=%s", name, path);
	return engine->open(&d, &(struct nic_wanted){devargs, 4224, true}, err, sizeof(err));
}

static void open__only_a_socket_that_nobody_listens_on_is_removed(void **state)
{
	char path[64], words[128];
	struct stat st;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/other", dir);
	fd = listen_at(path);
	assert_int_equal(open_at(path, "net_vhost4"), -EADDRINUSE);
	snprintf(words, sizeof(words), "a process listens at %s", path);
	assert_non_null(strstr(err, words));
	assert_int_equal(lstat(path, &st), 0);
	close(fd); /* as if killed: the file stays */
	assert_int_equal(open_at(path, "net_vhost5"), 0);
	snprintf(path, sizeof(path), "%s/dying", dir);
	hold_for_a_while(listen_at(path));
	assert_int_equal(open_at(path, "net_vhost8"), 0);
	snprintf(path, sizeof(path), "%s/file", dir);
	assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
	assert_int_equal(open_at(path, "net_vhost6"), -EADDRINUSE);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/none/socket", dir);
	assert_int_equal(open_at(path, "net_vhost7"), -ENOENT);
	assert_non_null(strstr(err, "/none/socket: No such file or directory"));
}

/* Its ring's frames are longer than mbufs: it fails once its pools exist. */
static void open__a_device_that_fails_leaves_nothing(void **state)
{
	static const char *const ring[] = {"net_af_packet4,iface=lo,framesz=16384,blocksz=65536,framecnt=64",
	                                   "net_af_packet5,iface=lo,framesz=4288,blocksz=274432,framecnt=64"};
	struct nic_device *d;

	(void)state;
	if (geteuid() != 0)
		skip();
	if (engine->open(&d, &(struct nic_wanted){ring[0], 4224, true}, err, sizeof(err)) == 0)
		fail_msg("%s opens", ring[0]);
	if (!strstr(err, "cannot configure")) /* no driver, or no right */
		skip();
	assert_int_equal(engine->open(&d, &(struct nic_wanted){ring[1], 4224, true}, err, sizeof(err)), 0);
	assert_int_equal(engine->lend(d, &calls, err, sizeof(err)), 0);
	assert_int_equal(engine->take_back(d, err, sizeof(err)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(lend__frames_land_and_all_comes_back, begin),
	    cmocka_unit_test_setup(lend__a_full_buffer_lends_fewer, begin),
	    cmocka_unit_test_setup(lend__no_frame_writes_past_its_place, begin),
	    cmocka_unit_test_setup(lend__parts_go_out_from_where_they_are, begin),
	    cmocka_unit_test_setup(lend__parts_of_frames_that_wait_come_back, begin),
	    cmocka_unit_test_setup(lend__ring_frames_that_fit_a_place_land, begin),
	    cmocka_unit_test_setup(lend__not_to_a_device_that_another_process_writes_for, begin),
	    cmocka_unit_test_setup(own__frames_go_out_and_come_in_where_they_are, begin),
	    cmocka_unit_test_setup(own__what_the_device_does_not_take_is_dropped, begin),
	    cmocka_unit_test_setup(own__rooms_hold_a_path_mtu, begin),
	    cmocka_unit_test_setup(open__a_device_that_fails_leaves_nothing, begin),
	    cmocka_unit_test_setup(open__only_a_socket_that_nobody_listens_on_is_removed, begin),
	};
	int failed = cmocka_run_group_tests_name("nic_lend", tests, start, stop);

	if (err[0] && failed)
		fprintf(stderr, "%s\n", err);
	return failed;
}
