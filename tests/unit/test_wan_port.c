/* SPDX-License-Identifier: Apache-2.0 */
/* A WAN port's sockets on the loopback interface: which of them gets a datagram, and when it comes out. */
#define _GNU_SOURCE
#include <sys/socket.h>

/* The kernel's sendmsg(), or one that refuses. */
static ssize_t fake_sendmsg(int fd, const struct msghdr *m, int flags);
#define sendmsg fake_sendmsg
#include "daemon/wan/wan_port.c" /* before cmocka.h, which has a fail() too */
#undef sendmsg

#include "daemon/util/addr.c"
#include "daemon/util/port_holder.c"
#include "daemon/privileged/held_sockets.c"
#include "daemon/util/units.c"
#include "daemon/wan/wan_filter.c"
#include "daemon/wan/wan_socket.c"
#include "no_parent.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { NSHARDS = 2, EPOCH = 0x11223344, LEN = 100 };

static int refuses_segments, refuses_all; /* errno, 0: none */
static unsigned nsegmented, nsingle;      /* messages that went through */

static ssize_t fake_sendmsg(int fd, const struct msghdr *m, int flags)
{
	bool segmented = m->msg_controllen > 0;
	int refused = segmented && refuses_segments ? refuses_segments : refuses_all;
	ssize_t n;

	if (refused) {
		errno = refused;
		return -1;
	}
	n = sendmsg(fd, m, flags);
	nsegmented += segmented && n > 0;
	nsingle += !segmented && n > 0;
	return n;
}

/* wan_port.c logs through this. */
bool log_limit_pass(struct log_limit *l, uint64_t now_ns, uint32_t *missed)
{
	(void)l;
	(void)now_ns;
	(void)missed;
	return true;
}

void log_at(enum log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
}

static const struct ip_addr here = {.b = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
static const struct ip_addr peer = {.b = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 2}};
static const struct ip_addr other = {.b = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 3}};
static const struct ip_addr here6 = {.b = {[15] = 1}};
static const struct ip_addr other6 = {.b = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}};

struct fixture {
	struct wan_port *port[NSHARDS];
	uint16_t number;
	struct ip_addr local;
};

static struct fixture f;
static uint8_t seen[64]; /* lanes of the datagrams that came out, in order */
static unsigned nseen;

/* --- a port --- */

/* 0: there is no such address here. */
static uint16_t free_port(const struct ip_addr *local)
{
	union sock_addr sa;
	socklen_t len = wan_sock_addr(&sa, local, 0);
	int fd = socket(sa.sa.sa_family, SOCK_DGRAM, 0);
	uint16_t number;

	number = bind(fd, &sa.sa, len) == 0 ? wan_socket_port(fd) : 0;
	close(fd);
	return number;
}

static void open_ports(const struct ip_addr *local, const struct ip_addr *remote)
{
	struct wan_port_params params = {.npaths = 1, .nshards = NSHARDS};
	char err[200];

	f.local = *local;
	f.number = free_port(local);
	assert_int_not_equal(f.number, 0);
	params.path[0] = (struct wan_port_path){
	    .local = *local, .remote = *remote, .port = f.number, .mtu = 1280, .source_ports = 1};
	for (params.shard = 0; params.shard < NSHARDS; params.shard++)
		assert_int_equal(wan_port_open(&f.port[params.shard], &params, err, sizeof(err)), 0);
}

static void start_session(uint32_t epoch)
{
	for (unsigned i = 0; i < NSHARDS; i++)
		wan_port_session(f.port[i], epoch);
}

static int open_v4(void **state)
{
	(void)state;
	open_ports(&here, &peer);
	start_session(EPOCH);
	return 0;
}

static int close_ports(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NSHARDS; i++)
		wan_port_close(f.port[i]);
	return 0;
}

/* --- datagrams --- */

static void fill(uint8_t d[LEN], uint8_t lane, uint32_t epoch)
{
	struct wan_hdr h = {.lane = lane, .epoch = epoch};

	memset(d, 0, LEN);
	wan_hdr_put(d, &h);
}

static void send_from(const struct ip_addr *from, uint8_t *d, size_t len, uint16_t seg_len)
{
	union sock_addr src, dst;
	socklen_t slen = wan_sock_addr(&src, from, 0);
	int fd = socket(src.sa.sa_family, SOCK_DGRAM, 0);

	wan_sock_addr(&dst, &f.local, f.number);
	assert_int_equal(bind(fd, &src.sa, slen), 0);
	assert_int_equal(connect(fd, &dst.sa, slen), 0);
	assert_int_equal(send_once(fd, d, len, seg_len), 0);
	close(fd);
}

static void send_one(const struct ip_addr *from, uint8_t lane, uint32_t epoch)
{
	uint8_t d[LEN];

	fill(d, lane, epoch);
	send_from(from, d, LEN, 0);
}

static bool note(void *arg, uint8_t path, uint16_t sport, uint8_t *dgram, size_t len, uint8_t ecn)
{
	(void)arg, (void)path, (void)sport, (void)len, (void)ecn;
	seen[nseen++] = dgram[WAN_LANE_BYTE];
	return get_be32(dgram + WAN_EPOCH_WORD) == EPOCH;
}

/* How many datagrams came out, and in `taken` how many of them note() took. */
static unsigned deliver(unsigned shard, unsigned *taken)
{
	nseen = 0;
	*taken = wan_port_deliver(f.port[shard], note, NULL);
	return nseen;
}

static bool wakes(unsigned shard)
{
	struct pollfd p = {.fd = wan_port_rx_fd(f.port[shard], 0), .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static uint64_t foreign(unsigned shard)
{
	struct wan_port_stats s;

	wan_port_stats(f.port[shard], &s);
	return s.rx_foreign;
}

/* One datagram was sent: it must be this shard's, and no stray. */
static void assert_ours(unsigned shard)
{
	unsigned taken;

	assert_true(wakes(shard));
	assert_false(wakes(1 - shard));
	assert_int_equal(wan_port_receive(f.port[shard]), WAN_BATCH_PART);
	assert_int_equal(wan_port_receive_unmatched(f.port[shard]), WAN_BATCH_EMPTY);
	assert_int_equal(deliver(shard, &taken), 1);
	assert_int_equal(taken, 1);
}

static void assert_stray(unsigned shard)
{
	for (unsigned i = 0; i < NSHARDS; i++) {
		assert_false(wakes(i));
		assert_int_equal(wan_port_receive(f.port[i]), WAN_BATCH_EMPTY);
		assert_int_equal(wan_port_receive_unmatched(f.port[i]), i == shard ? WAN_BATCH_PART : WAN_BATCH_EMPTY);
	}
}

/* --- tests --- */

static void lanes_go_to_their_workers(void **state)
{
	(void)state;
	for (uint8_t lane = 0; lane < 5; lane++) {
		send_one(&peer, lane, EPOCH);
		assert_ours(lane % NSHARDS);
		assert_int_equal(seen[0], lane);
	}
}

/* It comes out all the same, for the reason that it is dropped for. */
static void header_of_another_make_is_a_stray(void **state)
{
	static const struct {
		uint8_t at, value;
		unsigned delivered;
		uint64_t foreign;
	} make[] = {
	    {0, WAN_VERSION + 1, 1, 0},
	    {WAN_PATH_BYTE, 1, 0, 1},
	    {WAN_EPOCH_WORD, 0x12, 1, 0},
	    {WAN_EPOCH_WORD + 3, 0x45, 1, 0},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(make) / sizeof(make[0]); i++) {
		uint64_t before = foreign(1);
		uint8_t d[LEN];
		unsigned taken;

		fill(d, 3, EPOCH);
		d[make[i].at] = make[i].value;
		send_from(&peer, d, LEN, 0);
		assert_stray(1);
		assert_int_equal(deliver(1, &taken), make[i].delivered);
		assert_int_equal(foreign(1) - before, make[i].foreign);
	}
}

static void short_ones_are_strays(void **state)
{
	uint8_t d[LEN];
	unsigned taken;

	(void)state;
	fill(d, 3, EPOCH);
	for (size_t len = 1; len < WAN_HDR_LEN + WAN_TAG_LEN; len++) {
		send_from(&peer, d, len, 0);
		assert_stray(0);
		assert_int_equal(deliver(0, &taken), 1);
	}
	send_from(&peer, d, WAN_HDR_LEN + WAN_TAG_LEN, 0);
	assert_ours(1);
}

static void other_hosts_are_strays(void **state)
{
	uint64_t before = foreign(1);
	unsigned taken;

	(void)state;
	send_one(&other, 3, EPOCH);
	assert_stray(1);
	assert_int_equal(deliver(1, &taken), 0);
	assert_int_equal(foreign(1) - before, 1);
}

/* Of what the kernel has joined it judges the first alone. */
static void behind_a_stray_nothing_is_lost(void **state)
{
	uint8_t d[3][LEN];
	unsigned taken;

	(void)state;
	fill(d[0], 0, EPOCH + 1);
	fill(d[1], 2, EPOCH);
	fill(d[2], 4, EPOCH);
	send_from(&peer, d[0], sizeof(d), LEN);
	assert_stray(0);
	assert_int_equal(deliver(0, &taken), 3);
	assert_int_equal(taken, 2);
}

static void early_ones_of_a_session_are_late(void **state)
{
	unsigned taken;

	(void)state;
	start_session(EPOCH + 1);
	send_one(&peer, 0, EPOCH);
	start_session(EPOCH);
	assert_stray(0);
	deliver(0, &taken);
	assert_int_equal(taken, 1);
	send_one(&peer, 0, EPOCH);
	assert_ours(0);
}

static void strays_take_the_places_that_are_left(void **state)
{
	unsigned taken;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		send_one(&peer, 2, EPOCH + 1);
	for (unsigned i = 0; i < RX_MSGS + 2; i++)
		send_one(&peer, 0, EPOCH);
	assert_int_equal(wan_port_receive(f.port[0]), WAN_BATCH_FULL);
	assert_int_equal(wan_port_receive_unmatched(f.port[0]), WAN_BATCH_FULL);
	assert_int_equal(deliver(0, &taken), RX_MSGS);
	assert_int_equal(taken, RX_MSGS);
	assert_int_equal(wan_port_receive(f.port[0]), WAN_BATCH_PART);
	assert_int_equal(wan_port_receive_unmatched(f.port[0]), WAN_BATCH_PART);
	assert_int_equal(deliver(0, &taken), 5);
	assert_int_equal(taken, 2);
}

/* A flood fills its own buffer, and is counted apart from what ours loses. */
static void a_flood_leaves_ours_alone(void **state)
{
	enum { FLOOD = 40000, SEGS = 40 };
	static uint8_t d[SEGS][LEN];
	struct wan_port_stats s;
	unsigned taken;

	(void)state;
	for (unsigned i = 0; i < SEGS; i++)
		fill(d[i], 0, EPOCH + 1);
	for (unsigned i = 0; i < FLOOD; i++)
		send_from(&peer, d[0], sizeof(d), LEN);
	wan_port_stats(f.port[0], &s);
	assert_true(s.rx_unmatched_drops > 0);
	assert_int_equal(s.rx_kernel_drops, 0);
	send_one(&peer, 0, EPOCH);
	assert_true(wakes(0));
	assert_int_equal(wan_port_receive(f.port[0]), WAN_BATCH_PART);
	assert_int_equal(deliver(0, &taken), 1);
	assert_int_equal(taken, 1);
}

static void v6_source_is_looked_at(void **state)
{
	unsigned taken;

	(void)state;
	if (free_port(&here6) == 0) {
		print_message("skipped: no IPv6 here\n");
		skip();
	}
	open_ports(&here6, &here6);
	start_session(EPOCH);
	send_one(&here6, 1, EPOCH);
	assert_ours(1);
	close_ports(NULL);
	open_ports(&here6, &other6);
	start_session(EPOCH);
	send_one(&here6, 1, EPOCH);
	assert_stray(1);
	assert_int_equal(deliver(1, &taken), 0);
	assert_int_equal(foreign(1), 1);
	close_ports(NULL);
}

#define ON_V4(test) cmocka_unit_test_setup_teardown(test, open_v4, close_ports)

/* A lane that the core moves sends from another source port from then on, and stays there. */
static void wan_port__a_moved_lane_has_another_source_port(void **state)
{
	struct wan_tx tx = {.lane = 2};
	uint16_t sport[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		size_t cap;
		uint8_t *buf = wan_port_stage(f.port[0], &cap);

		tx.moves = i > 0 ? 7 : 0;
		fill(buf, tx.lane, EPOCH);
		wan_port_staged(f.port[0], &tx, LEN);
		wan_port_flush(f.port[0]);
		sport[i] = wan_port_lane_sport(f.port[0], &tx);
		assert_int_not_equal(sport[i], 0);
	}
	assert_int_not_equal(sport[0], sport[1]);
	assert_int_equal(sport[1], sport[2]);
}

/* A batch of three datagrams: how many messages it took, segmented and single. */
static void send_batch_of_3(unsigned segmented, unsigned single)
{
	struct wan_tx tx = {.lane = 1};
	size_t cap;

	nsegmented = nsingle = 0;
	for (unsigned i = 0; i < 3; i++) {
		fill(wan_port_stage(f.port[0], &cap), tx.lane, EPOCH);
		wan_port_staged(f.port[0], &tx, LEN);
	}
	wan_port_flush(f.port[0]);
	assert_int_equal(nsegmented, segmented);
	assert_int_equal(nsingle, single);
}

static uint64_t tx_errors(void)
{
	struct wan_port_stats s;

	wan_port_stats(f.port[0], &s);
	return s.tx_errors;
}

static void wan_port__a_refused_segmentation_is_tried_again(void **state)
{
	(void)state;
	send_batch_of_3(1, 0);
	refuses_segments = EIO;
	send_batch_of_3(0, 3);
	refuses_segments = 0;
	send_batch_of_3(0, 3);
	assert_true(f.port[0]->way[0].no_gso_until_ns > clock_now_ns());
	f.port[0]->way[0].no_gso_until_ns = 1; /* 10 s later */
	send_batch_of_3(1, 0);
	send_batch_of_3(1, 0);
	assert_int_equal(tx_errors(), 0);
}

/* As of an interface whose MTU is too small: not a word about segmentation. */
static void wan_port__datagrams_that_are_refused_singly_too_do_not_end_segmentation(void **state)
{
	(void)state;
	refuses_segments = EINVAL;
	refuses_all = EMSGSIZE;
	send_batch_of_3(0, 0);
	refuses_segments = refuses_all = 0;
	assert_int_equal(tx_errors(), 3);
	send_batch_of_3(1, 0);
}

/* The other path carries all the same, and the missing one is like a line that is cut. */
static void wan_port__opens_with_a_path_whose_address_is_missing(void **state)
{
	static const struct ip_addr missing = {.b = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 77}};
	struct wan_port_params params = {.npaths = 2, .nshards = 1};
	struct wan_tx tx = {.path = 1};
	struct wan_port_stats s;
	char err[400];
	size_t cap;

	(void)state;
	assert_int_equal(free_port(&missing), 0);
	params.path[0] = (struct wan_port_path){
	    .local = here, .remote = peer, .port = free_port(&here), .mtu = 1280, .source_ports = 1};
	params.path[1] = params.path[0];
	params.path[1].local = missing;
	assert_int_equal(wan_port_open(&f.port[0], &params, err, sizeof(err)), 0);
	assert_true(wan_port_rx_fd(f.port[0], 1) >= 0);
	fill(wan_port_stage(f.port[0], &cap), 0, EPOCH);
	wan_port_staged(f.port[0], &tx, LEN);
	wan_port_flush(f.port[0]);
	assert_false(wan_port_blocked(f.port[0]));
	wan_port_stats(f.port[0], &s);
	assert_int_equal(s.tx_no_socket, 1);
	wan_port_close(f.port[0]);
}

/* A socket of somebody else's on a port that a link wants then; its descriptor. */
static int take_port(const struct ip_addr *at, uint16_t number)
{
	union sock_addr sa;
	socklen_t len = wan_sock_addr(&sa, at, number);
	int fd = socket(sa.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, &sa.sa, len), 0);
	return fd;
}

static void assert_port_is_taken(const struct ip_addr *by, const struct ip_addr *wanted)
{
	struct wan_port_params params = {.npaths = 1, .nshards = 1};
	char err[400], holder[PORT_HOLDER_TEXT_MAX];
	uint16_t number = free_port(wanted);
	int fd = take_port(by, number);

	params.path[0] =
	    (struct wan_port_path){.local = *wanted, .remote = *wanted, .port = number, .mtu = 1280, .source_ports = 1};
	assert_int_equal(wan_port_open(&f.port[0], &params, err, sizeof(err)), -EADDRINUSE);
	snprintf(holder, sizeof(holder), "UDP port %u is held by process %d (", number, (int)getpid());
	assert_non_null(strstr(err, holder));
	close(fd);
	assert_int_equal(wan_port_open(&f.port[0], &params, err, sizeof(err)), 0);
	wan_port_close(f.port[0]);
}

static void wan_port__says_who_has_its_port(void **state)
{
	static const struct ip_addr any = {.b = {[10] = 0xff, [11] = 0xff}};
	static const struct ip_addr any6;

	(void)state;
	assert_port_is_taken(&here, &here);
	assert_port_is_taken(&any, &here);
	if (free_port(&here6) == 0)
		return; /* no IPv6 here */
	assert_port_is_taken(&here6, &here6);
	assert_port_is_taken(&any6, &here6);
	assert_port_is_taken(&any6, &here); /* it takes both families */
}

static void port_holder__a_free_port_has_none(void **state)
{
	char text[PORT_HOLDER_TEXT_MAX];
	uint16_t number = free_port(&here);
	int fd = take_port(&other, number);

	(void)state;
	assert_string_equal(port_holder_text(PORT_UDP, &here, number, text), "");
	assert_string_equal(port_holder_text(PORT_TCP, &other, number, text), "");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wan_port__opens_with_a_path_whose_address_is_missing),
	    cmocka_unit_test(wan_port__says_who_has_its_port),
	    cmocka_unit_test(port_holder__a_free_port_has_none),
	    cmocka_unit_test_setup_teardown(wan_port__a_moved_lane_has_another_source_port, open_v4, close_ports),
	    ON_V4(wan_port__a_refused_segmentation_is_tried_again),
	    ON_V4(wan_port__datagrams_that_are_refused_singly_too_do_not_end_segmentation),
	    ON_V4(lanes_go_to_their_workers),
	    ON_V4(header_of_another_make_is_a_stray),
	    ON_V4(short_ones_are_strays),
	    ON_V4(other_hosts_are_strays),
	    ON_V4(behind_a_stray_nothing_is_lost),
	    ON_V4(early_ones_of_a_session_are_late),
	    ON_V4(strays_take_the_places_that_are_left),
	    ON_V4(a_flood_leaves_ours_alone),
	    cmocka_unit_test(v6_source_is_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
