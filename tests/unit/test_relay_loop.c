/* SPDX-License-Identifier: Apache-2.0 */
/* The library, the relay's thread and `longreach copy` as they are, with one relay for both sites: what a channel commits
 * comes to the same thread. Chunks come in the order of their positions, a fence when all before it are done. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "no_log.h"
#include "no_log_limit.h"
#include "still_fuse.h"
#include "toy_gpu.h"

#include "copy/back/copy_pull.h"
#include "copy/back/copy_push.h"
#include "copy/server/copy_serve.h"
#include "daemon/config/link_plan.h"
#include "daemon/relay/relay.h"
#include "daemon/relay/relay_file.h"
#include "daemon/util/clock.h"
#include "daemon/relay/relay_priv.h"
#include "lib/longreach.h"
#include "lib/lr_wire.h"

#define SLOTS    1024
#define CHANNELS 16

/* --- the worker, and the line: both are here --- */

struct slot {
	bool used, came;
	uint32_t channel;
	uint16_t len;
	uint64_t pos;
	uint8_t bytes[RELAY_CHUNK_MAX];
};

struct relay_port {
	int notify_fd;
	struct slot slot[SLOTS];
	uint64_t pos[CHANNELS], next[CHANNELS]; /* given to the next commit; handed over next */
	uint32_t under_way[CHANNELS];
	struct relay_note note[4 * SLOTS];
	uint32_t first, n;
	struct relay_command waiting[4 * SLOTS]; /* takes without a slot */
	uint32_t nwaiting;
};

static struct relay_port port;

static void tell(const struct relay_note *n)
{
	assert_true(port.n < 4 * SLOTS);
	port.note[(port.first + port.n++) % (4 * SLOTS)] = *n;
	eventfd_write(port.notify_fd, 1);
}

static struct relay_chunk chunk_of(uint32_t i)
{
	struct slot *s = &port.slot[i];

	return (struct relay_chunk){s->channel, i, s->pos, s->bytes, s->len};
}

/* Hands over what may be. */
static void hand_over(uint32_t channel)
{
	for (;;) {
		uint32_t i = 0;

		while (i < SLOTS && !(port.slot[i].used && port.slot[i].came && port.slot[i].channel == channel &&
		                      port.slot[i].pos == port.next[channel]))
			i++;
		if (i == SLOTS || (port.slot[i].bytes[0] & RELAY_FENCE && port.under_way[channel] > 0))
			return;
		port.next[channel]++;
		port.under_way[channel]++;
		tell(&(struct relay_note){.type = RELAY_CAME, .chunk = chunk_of(i)});
	}
}

static bool take(const struct relay_command *c)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		if (port.slot[i].used)
			continue;
		port.slot[i].used = true;
		port.slot[i].came = false;
		port.slot[i].channel = c->channel;
		port.slot[i].len = c->len;
		tell(&(struct relay_note){.type = RELAY_TAKEN, .channel = c->channel, .token = c->token, .chunk = chunk_of(i)});
		return true;
	}
	return false;
}

static void take_waiting(void)
{
	uint32_t n = 0;

	while (n < port.nwaiting && take(&port.waiting[n]))
		n++;
	port.nwaiting -= n;
	memmove(port.waiting, port.waiting + n, port.nwaiting * sizeof(port.waiting[0]));
}

struct relay_port *relay_port_new(int notify_fd)
{
	memset(&port, 0, sizeof(port));
	port.notify_fd = notify_fd;
	return &port;
}

void relay_port_free(struct relay_port *p)
{
	(void)p;
}

bool relay_port_command(struct relay_port *p, const struct relay_command *c)
{
	struct slot *s = &p->slot[c->slot % SLOTS];

	if (c->type == RELAY_TAKE) {
		if (!take(c))
			p->waiting[p->nwaiting++] = *c;
		return true;
	}
	if (c->type == RELAY_COMMIT) {
		s->pos = p->pos[s->channel]++;
		s->came = true;
		if (c->tell)
			tell(&(struct relay_note){.type = RELAY_COMMITTED, .channel = c->channel, .token = c->token});
		hand_over(s->channel);
		return true;
	}
	s->used = false;
	if (c->type == RELAY_FINISH) {
		p->under_way[s->channel]--;
		hand_over(s->channel);
	}
	take_waiting();
	return true;
}

bool relay_port_note(struct relay_port *p, struct relay_note *n)
{
	if (p->n == 0)
		return false;
	*n = p->note[p->first];
	p->first = (p->first + 1) % (4 * SLOTS);
	p->n--;
	return true;
}

bool relay_port_has_room(struct relay_port *p)
{
	(void)p;
	return true;
}

void relay_port_wake(struct worker *w)
{
	(void)w;
}

void worker_relay_open(struct worker *w, struct relay_port *p)
{
	(void)w;
	(void)p;
}

void *worker_relay_arena(const struct worker *w, size_t *len)
{
	(void)w;
	*len = 0;
	return NULL;
}

void link_plan_relay_socket(const struct link_config *c, char *path, size_t cap)
{
	snprintf(path, cap, "%s", c->relay_socket);
}

/* --- set up --- */

static char top[32], socket_path[64];
static struct relay_thread *relay;
static pid_t child[2];

static const char *in_top(const char *name)
{
	static char path[8][128];
	static unsigned i;

	i = (i + 1) % 8;
	snprintf(path[i], sizeof(path[i]), "%s/%s", top, name);
	return path[i];
}

static void start_relay(void)
{
	static struct worker *const workers[1]; /* outlives this function */
	static struct link_config c;
	char err[CONFIG_ERR_MAX];

	c = (struct link_config){.name = "loop", .relay = true, .lanes = 1};
	snprintf(c.relay_socket, sizeof(c.relay_socket), "%s", socket_path);
	assert_int_equal(relay_open(&relay, &c, workers, 1, err), 0);
	assert_int_equal(relay_run(relay, err), 0);
}

/* The two processes of an export, "there", as longreachd --exports starts them; but for the user and the root. */
static void start_export(void)
{
	for (int i = 0; i < 2; i++) {
		child[i] = fork();
		assert_true(child[i] >= 0);
		if (child[i] == 0) {
			struct copy_export e = {.name = "there", .writable = true};
			struct lr *h;

			prctl(PR_SET_PDEATHSIG, SIGKILL); /* of a test that fails */
			for (int tries = 0; lr_open("loop", NULL, &h) < 0; tries++) {
				if (tries == 300)
					_exit(0); /* the test was over before */
				usleep(10000);
			}
			if (chdir(in_top("there")) < 0)
				_exit(1);
			e.root = open(".", O_PATH | O_DIRECTORY);
			_exit(i == 0 ? copy_serve(h, &e) != -EPIPE : copy_push_serve(h, "there") != -EPIPE);
		}
	}
}

static int setup(void **state)
{
	(void)state;
	snprintf(top, sizeof(top), "/tmp/relay_loop.XXXXXX");
	assert_non_null(mkdtemp(top));
	snprintf(socket_path, sizeof(socket_path), "%s/socket", top);
	setenv("LONGREACH_RELAY", socket_path, 1);
	assert_int_equal(mkdir(in_top("there"), 0755), 0);
	memset(child, 0, sizeof(child));
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	still_close();
	relay_stop(relay);
	relay_close(relay);
	for (int i = 0; i < 2; i++) {
		int status = 0;

		if (child[i] > 0) {
			waitpid(child[i], &status, 0); /* the daemon has gone: they end */
			assert_int_equal(status, 0);
		}
	}
	nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}

/* --- vectors --- */

static int bytes_of(size_t n, uint8_t **at)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0 && ftruncate(fd, (off_t)n) == 0);
	*at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(*at != MAP_FAILED);
	return fd;
}

static void wait_for(struct lr *h, uint64_t op, enum lr_status status)
{
	struct lr_event ev;

	do
		assert_int_equal(lr_wait(h, &ev, 5000), 1);
	while (ev.type != LR_EV_DONE || ev.id != op);
	assert_int_equal(ev.status, status);
}

static void vector__crosses_both_ways(void **state)
{
	static const struct lr_piece piece[] = {{0, 70000, 9000}, {90000, 0, 1}, {20000, 30000, 12345}};
	struct lr *a, *b;
	uint8_t *from, *region, *back;
	int from_fd, region_fd, back_fd;
	struct lr_event ev;
	uint64_t op;

	(void)state;
	start_relay();
	assert_int_equal(lr_open("loop", NULL, &a), 0);
	assert_int_equal(lr_open("loop", NULL, &b), 0);
	from_fd = bytes_of(100000, &from);
	region_fd = bytes_of(80000, &region);
	back_fd = bytes_of(100000, &back);
	for (uint32_t i = 0; i < 100000; i++)
		from[i] = (uint8_t)(1 + i % 251);
	assert_int_equal(lr_export(b, "region", region_fd, 0, 80000, LR_PEER_READ | LR_PEER_WRITE), 0);
	assert_int_equal(lr_putv(a, &(struct lr_transfer){.fd = from_fd, .region = "region", .promise = LR_DONE, .notice = "n", .notice_len = 1},
	                         piece, 3, &op),
	                 0);
	wait_for(a, op, LR_OK);
	assert_int_equal(lr_wait(b, &ev, 5000), 1);
	assert_int_equal(ev.type, LR_EV_NOTICE);
	assert_int_equal(ev.offset, 0);
	assert_int_equal(ev.bytes, 79000);
	for (unsigned i = 0; i < 3; i++)
		assert_memory_equal(region + piece[i].region_offset, from + piece[i].offset, piece[i].length);
	assert_int_equal(region[1] | region[29999] | region[30000 + 12345] | region[69999] | region[79000], 0);
	assert_int_equal(lr_getv(a, &(struct lr_transfer){.fd = back_fd, .region = "region"}, piece, 3, &op), 0);
	wait_for(a, op, LR_OK);
	for (unsigned i = 0; i < 3; i++)
		assert_memory_equal(back + piece[i].offset, from + piece[i].offset, piece[i].length);
	assert_int_equal(back[9000] | back[19999] | back[20000 + 12345] | back[89999] | back[90001], 0);
	assert_int_equal(lr_getv(a, &(struct lr_transfer){.fd = back_fd, .region = "region"}, &(struct lr_piece){0, 79999, 2}, 1, &op), 0);
	wait_for(a, op, LR_OUT_OF_BOUNDS);
	lr_close(a);
	lr_close(b);
	munmap(from, 100000);
	munmap(region, 80000);
	munmap(back, 100000);
	close(from_fd);
	close(region_fd);
	close(back_fd);
}

/* --- copies --- */

static void write_file(const char *path, size_t bytes)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	for (size_t i = 0; i < bytes; i++)
		fputc((int)(i * 2654435761u >> 11) & 0xff, f);
	assert_int_equal(fclose(f), 0);
}

static void make_tree(const char *path)
{
	char name[160];
	struct timespec then[2] = {{1000000000, 5}, {1000000000, 5}};

	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(name, sizeof(name), "%s/sub", path);
	assert_int_equal(mkdir(name, 0755), 0);
	snprintf(name, sizeof(name), "%s/sub/large", path);
	write_file(name, (3u << 20) + 17);
	assert_int_equal(utimensat(AT_FDCWD, name, then, 0), 0);
	snprintf(name, sizeof(name), "%s/small", path);
	write_file(name, 100);
	assert_int_equal(chmod(name, 0640), 0);
	snprintf(name, sizeof(name), "%s/--odd\nname", path);
	write_file(name, 1);
	snprintf(name, sizeof(name), "%s/link", path);
	assert_int_equal(symlink("/nowhere", name), 0);
}

static bool same_files(const char *a, const char *b)
{
	char command[300];

	snprintf(command, sizeof(command), "diff -r --no-dereference '%s' '%s' >/dev/null", a, b);
	return system(command) == 0;
}

static int copy(const char *first, const char *second, const char *option)
{
	char *argv[] = {strdup("copy"), strdup(option ? option : "--json"), strdup(first), strdup(second), NULL};
	int code, null = open("/dev/null", O_WRONLY), out = dup(1), err = dup(2);

	fflush(stdout);
	dup2(null, 1);
	dup2(null, 2);
	code = copy_main(4, argv);
	fflush(stdout);
	dup2(out, 1);
	dup2(err, 2);
	close(out);
	close(err);
	close(null);
	for (int i = 0; i < 4; i++)
		free(argv[i]);
	return code;
}

static void copy__to_the_other_site(void **state)
{
	struct stat st;

	(void)state;
	start_export();
	start_relay();
	make_tree(in_top("src"));
	assert_int_equal(copy(in_top("src"), "loop:there", NULL), 0);
	assert_true(same_files(in_top("src"), in_top("there/src")));
	assert_int_equal(stat(in_top("there/src/sub/large"), &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, 1000000000);
}

static void copy__from_the_other_site(void **state)
{
	struct stat st;

	(void)state;
	start_export();
	start_relay();
	make_tree(in_top("there/tree"));
	assert_int_equal(copy("loop:there/tree", in_top("here"), NULL), 0);
	assert_true(same_files(in_top("there/tree"), in_top("here/tree")));
	assert_int_equal(stat(in_top("here/tree/sub/large"), &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, 1000000000);
	assert_int_equal(stat(in_top("here/tree/small"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	/* one file, under another name; what is in a directory, into one that is there; and all of the export */
	assert_int_equal(copy("loop:there/tree/small", in_top("one"), NULL), 0);
	assert_true(same_files(in_top("there/tree/small"), in_top("one")));
	assert_int_equal(mkdir(in_top("into"), 0755), 0);
	assert_int_equal(copy("loop:there/tree/", in_top("into"), NULL), 0);
	assert_true(same_files(in_top("there/tree"), in_top("into")));
	assert_int_equal(copy("loop:there", in_top("all"), NULL), 0);
	assert_true(same_files(in_top("there"), in_top("all")));
}

static void copy__from_there_removes_and_leaves_out(void **state)
{
	(void)state;
	start_export();
	start_relay();
	make_tree(in_top("there/tree"));
	assert_int_equal(mkdir(in_top("here"), 0755), 0);
	write_file(in_top("here/extra"), 5);
	assert_int_equal(copy("loop:there/tree/", in_top("here"), "--dry-run"), 0);
	assert_int_not_equal(access(in_top("here/small"), F_OK), 0);
	assert_int_equal(copy("loop:there/tree/", in_top("here"), "--exclude=small"), 0);
	assert_int_not_equal(access(in_top("here/small"), F_OK), 0);
	assert_int_equal(access(in_top("here/extra"), F_OK), 0);
	assert_int_equal(copy("loop:there/tree/", in_top("here"), "--delete"), 0);
	assert_true(same_files(in_top("there/tree"), in_top("here")));
}

static void copy__from_there_of_what_is_not(void **state)
{
	(void)state;
	start_export();
	start_relay();
	assert_int_equal(copy("loop:there/nothing", in_top("here"), NULL), 23);
	assert_int_equal(copy("loop:there/x", in_top("no/such/place"), NULL), 3);
	assert_int_equal(copy("loop:there/../x", in_top("here"), NULL), 1);
}

/* --- a file that does not answer --- */

struct still {
	struct lr *a, *b;
	uint8_t *alive, *from;
	int file, alive_fd, from_fd; /* file: on the mount */
};

/* A region of the mount and one in memory, of one program; false: no FUSE here. */
static bool still_setup(struct still *s)
{
	char path[160];

	if (!still_open(in_top("mnt")))
		return false;
	start_relay();
	snprintf(path, sizeof(path), "%s/file", fuse->dir);
	s->file = open(path, O_RDWR | O_CLOEXEC);
	assert_true(s->file >= 0);
	s->alive_fd = bytes_of(STILL_BYTES, &s->alive);
	s->from_fd = bytes_of(STILL_BYTES, &s->from);
	for (uint32_t i = 0; i < STILL_BYTES; i++)
		s->from[i] = (uint8_t)(1 + i % 251);
	assert_int_equal(lr_open("loop", NULL, &s->a), 0);
	assert_int_equal(lr_open("loop", NULL, &s->b), 0);
	assert_int_equal(lr_export(s->b, "still", s->file, 0, STILL_BYTES, LR_PEER_READ | LR_PEER_WRITE), 0);
	assert_int_equal(lr_export(s->b, "alive", s->alive_fd, 0, STILL_BYTES, LR_PEER_READ | LR_PEER_WRITE), 0);
	return true;
}

static void still_teardown(struct still *s)
{
	lr_close(s->a);
	lr_close(s->b);
	fuse->still = false;
	close(s->file);
	close(s->alive_fd);
	close(s->from_fd);
	munmap(s->alive, STILL_BYTES);
	munmap(s->from, STILL_BYTES);
	still_close();
}

static uint64_t put(struct still *s, const char *region, int fd, uint64_t length)
{
	uint64_t op;

	assert_int_equal(lr_put(s->a, &(struct lr_transfer){.fd = fd, .region = region, .length = length, .promise = LR_DONE}, &op), 0);
	return op;
}

static uint64_t get(struct still *s, const char *region, int fd)
{
	uint64_t op;

	assert_int_equal(lr_get(s->a, &(struct lr_transfer){.fd = fd, .region = region, .length = STILL_BYTES}, &op), 0);
	return op;
}

/* Another program's, in time. */
static void goes_on(struct still *s)
{
	uint64_t from_ns = clock_now_ns();

	for (unsigned i = 0; i < 8; i++) { /* on every channel */
		memset(s->alive, 0, STILL_BYTES);
		wait_for(s->a, put(s, "alive", s->from_fd, STILL_BYTES), LR_OK);
		assert_memory_equal(s->alive, s->from, STILL_BYTES);
	}
	assert_true(clock_now_ns() - from_ns < 2000000000ull);
}

/* Whatever it is that waits: the daemon's main thread does not. */
static void relay_stop__leaves_a_file_that_does_not_answer(void **state)
{
	struct still s;
	uint64_t from_ns;

	(void)state;
	if (!still_setup(&s))
		skip();
	fuse->still = true;
	put(&s, "still", s.from_fd, STILL_BYTES);
	put(&s, "alive", s.file, STILL_BYTES);
	get(&s, "still", s.from_fd);
	get(&s, "alive", s.file);
	usleep(100000);
	from_ns = clock_now_ns();
	relay_stop(relay);
	relay_close(relay);
	assert_true(clock_now_ns() - from_ns < 1000000000ull);
	start_relay(); /* and may come back */
	still_teardown(&s);
}

static void file__that_does_not_answer_fails_alone(void **state)
{
	struct relay_counts counts;
	struct still s;
	uint64_t op[4];

	(void)state;
	relay_silent_ns = 400000000ull;
	if (!still_setup(&s))
		skip();
	wait_for(s.a, put(&s, "still", s.from_fd, STILL_BYTES), LR_OK);
	assert_memory_equal(fuse->bytes, s.from, STILL_BYTES);
	fuse->still = true;
	op[0] = put(&s, "still", s.from_fd, STILL_BYTES);
	wait_for(s.a, op[0], LR_IO_REMOTE);
	goes_on(&s);
	op[1] = get(&s, "still", s.alive_fd);
	wait_for(s.a, op[1], LR_IO_REMOTE);
	op[2] = put(&s, "alive", s.file, STILL_BYTES);
	wait_for(s.a, op[2], LR_IO_LOCAL);
	op[3] = get(&s, "alive", s.file);
	wait_for(s.a, op[3], LR_IO_LOCAL);
	goes_on(&s);
	relay_counts(relay, &counts);
	assert_string_equal(counts.silent_file, "region still");
	assert_int_equal(counts.relay_files_silent, 1);
	fuse->still = false;
	usleep(1300000); /* the relay looks once a second */
	relay_counts(relay, &counts);
	assert_string_equal(counts.silent_file, "");
	fuse->writes = 0;
	memset(s.from, 7, STILL_BYTES);
	wait_for(s.a, put(&s, "still", s.from_fd, STILL_BYTES), LR_OK);
	assert_memory_equal(fuse->bytes, s.from, STILL_BYTES);
	assert_int_equal(fuse->writes, STILL_BYTES / 4096); /* what had failed did not come after it */
	memset(s.alive, 0, STILL_BYTES);
	wait_for(s.a, get(&s, "still", s.alive_fd), LR_OK);
	assert_memory_equal(s.alive, s.from, STILL_BYTES);
	wait_for(s.a, put(&s, "alive", s.file, STILL_BYTES), LR_OK);
	still_teardown(&s);
}

static unsigned open_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* A program that goes on trying. Each try brings the daemon, which is this process as well, a descriptor. */
static void file__that_does_not_answer_has_few_descriptors_of_the_daemon(void **state)
{
	struct lr_transfer t = {.region = "alive", .length = STILL_BYTES, .promise = LR_DONE};
	struct relay_counts counts;
	unsigned before, refused = 0;
	struct still s;
	struct lr *stubborn;
	uint64_t op;

	(void)state;
	relay_silent_ns = 400000000ull;
	if (!still_setup(&s))
		skip();
	assert_int_equal(lr_open("loop", NULL, &stubborn), 0);
	fuse->still = true;
	t.fd = s.file;
	before = open_descriptors();
	for (unsigned i = 0; i < 300; i++) {
		int rc = lr_put(stubborn, &t, &op);

		if (rc == 0)
			wait_for(stubborn, op, LR_IO_LOCAL);
		else
			assert_int_equal(rc, -EIO);
		refused += rc != 0;
	}
	assert_true(open_descriptors() <= before + RELAY_UNCLOSED_SILENT + 2);
	assert_true(refused >= 300 - RELAY_UNCLOSED_SILENT - 2);
	relay_counts(relay, &counts);
	assert_int_equal(counts.relay_descriptors_refused, refused);
	assert_true(counts.unclosed >= RELAY_UNCLOSED_SILENT && counts.unclosed <= RELAY_UNCLOSED_SILENT + 1);
	assert_string_not_equal(counts.silent_file, "");
	assert_int_equal(lr_put(s.a, &t, &op), -EIO); /* no other program may add any ... */
	relay_counts(relay, &counts);
	assert_true(counts.unclosed <= RELAY_UNCLOSED_SILENT + 2);
	t.fd = s.from_fd;
	assert_int_equal(lr_put(s.b, &t, &op), 0); /* ... and one that has none of the mount has all others */
	wait_for(s.b, op, LR_OK);
	fuse->still = false;
	usleep(1300000);
	relay_counts(relay, &counts);
	assert_int_equal(counts.unclosed, 0);
	assert_string_equal(counts.silent_file, "");
	t.fd = s.file;
	assert_int_equal(lr_put(stubborn, &t, &op), 0);
	wait_for(stubborn, op, LR_OK);
	lr_close(stubborn);
	still_teardown(&s);
}

/* Nor is it called silent for ever when nobody has a file there any more. */
static void file__that_answers_again_is_silent_no_more(void **state)
{
	struct relay_counts counts;
	struct still s;

	(void)state;
	relay_silent_ns = 400000000ull;
	if (!still_setup(&s))
		skip();
	fuse->still = true;
	wait_for(s.a, put(&s, "still", s.from_fd, STILL_BYTES), LR_IO_REMOTE);
	assert_int_equal(lr_unexport(s.b, "still"), 0);
	relay_counts(relay, &counts);
	assert_string_equal(counts.silent_file, "region still");
	fuse->still = false;
	usleep(1300000);
	relay_counts(relay, &counts);
	assert_string_equal(counts.silent_file, "");
	still_teardown(&s);
}

/* Regions in memory go on at once while a mount stands still, and is not given up yet. */
static void restart_relay(void)
{
	relay_stop(relay);
	relay_close(relay);
	start_relay();
}

static void reopen(struct lr *h)
{
	struct lr_event ev;

	assert_int_equal(lr_wait(h, &ev, 5000), -EPIPE);
	assert_int_equal(lr_reopen(h), 0);
}

/* The relay's starts in which a handle has exported the same memory, without a gap. */
static void lr_reopen__says_since_when_memory_is_exported(void **state)
{
	uint32_t start[4];
	uint8_t *bytes;
	struct lr *h;
	int fd;

	(void)state;
	fd = bytes_of(4096, &bytes);
	start_relay();
	assert_int_equal(lr_open("loop", NULL, &h), 0);
	for (unsigned i = 0; i < 3; i++) {
		start[i] = relay->instance;
		assert_int_equal(lr_export(h, "memory", fd, 0, 4096, LR_PEER_WRITE), 0);
		for (unsigned j = 0; j < LR_STARTS; j++)
			assert_int_equal(relay->region[0].lived[j], j < i ? start[i - 1 - j] : 0);
		restart_relay();
		reopen(h);
	}
	restart_relay(); /* in which it was not exported */
	reopen(h);
	assert_int_equal(lr_export(h, "memory", fd, 0, 4096, LR_PEER_WRITE), 0);
	assert_int_equal(relay->region[0].lived[0], 0);
	assert_int_equal(lr_unexport(h, "memory"), 0);
	assert_int_equal(lr_export(h, "memory", fd, 0, 4096, LR_PEER_WRITE), 0);
	assert_int_equal(lr_unexport(h, "memory"), 0); /* it may be other memory after that */
	restart_relay();
	reopen(h);
	assert_int_equal(lr_export(h, "memory", fd, 0, 4096, LR_PEER_WRITE), 0);
	assert_int_equal(relay->region[0].lived[0], 0);
	assert_int_equal(lr_reopen(h), 0); /* the relay has withdrawn it */
	for (int tries = 0; lr_export(h, "memory", fd, 0, 4096, LR_PEER_WRITE) == -EEXIST && tries < 500; tries++)
		usleep(10000);
	assert_int_equal(relay->region[0].lived[0], 0);
	lr_close(h);
	munmap(bytes, 4096);
	close(fd);
}

static volatile sig_atomic_t nsignals;

static void on_signal(int n)
{
	static const struct itimerval never;

	(void)n;
	if (++nsignals == 40)
		setitimer(ITIMER_REAL, &never, NULL);
}

/* Each signal began the time anew. */
static void lr_wait__ends_in_time_with_signals(void **state)
{
	static const struct itimerval often = {{0, 50000}, {0, 50000}}, never;
	struct sigaction act = {.sa_handler = on_signal}, old;
	uint64_t since, took;
	struct lr_event ev;
	struct lr *h;
	int rc;

	(void)state;
	start_relay();
	assert_int_equal(lr_open("loop", NULL, &h), 0);
	nsignals = 0;
	sigaction(SIGALRM, &act, &old);
	setitimer(ITIMER_REAL, &often, NULL);
	since = clock_now_ns();
	rc = lr_wait(h, &ev, 200);
	took = clock_now_ns() - since;
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	assert_int_equal(rc, 0);
	assert_true(nsignals > 0 && took >= 190000000 && took < 1500000000);
	lr_close(h);
}

/* A program that is refused hears why, whether its request came before the relay closed the connection or after. */
static void lr_open__tells_why_it_is_refused(void **state)
{
	struct lr *h[RELAY_CLIENTS + 1] = {0};
	unsigned n = 0;
	int rc = 0;

	(void)state;
	start_relay();
	while (n <= RELAY_CLIENTS && (rc = lr_open("loop", NULL, &h[n])) == 0)
		n++;
	assert_int_equal(rc, -EMFILE);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(lr_open("loop", NULL, &h[n]), -EMFILE);
	while (n > 0)
		lr_close(h[--n]);
}

/* As a relay of before did it: the request is unread when the connection is closed. */
static void lr_open__hears_a_refusal_behind_a_reset(void **state)
{
	struct lr_msg no = {.type = LRM_ANSWER, .serial = 1, .result = -EACCES};
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	const char *path = in_top("refuses");

	(void)state;
	start_relay();
	for (int early = 0; early < 2; early++) {
		int at = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		struct lr *h = NULL;
		pid_t pid;

		snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
		assert_int_equal(bind(at, (struct sockaddr *)&sun, sizeof(sun)), 0);
		assert_int_equal(listen(at, 1), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			int fd = accept(at, NULL, NULL);
			struct pollfd p = {.fd = fd, .events = POLLIN};

			if (!early)
				poll(&p, 1, 5000);
			send(fd, &no, sizeof(no), 0);
			close(fd);
			_exit(0);
		}
		assert_int_equal(lr_open("loop", path, &h), -EACCES);
		waitpid(pid, NULL, 0);
		close(at);
		unlink(path);
	}
}

static void file__that_does_not_answer_keeps_nobody_waiting(void **state)
{
	struct still s;

	(void)state;
	relay_silent_ns = 10000000000ull;
	if (!still_setup(&s))
		skip();
	fuse->still = true;
	put(&s, "alive", s.file, STILL_BYTES); /* read */
	get(&s, "still", s.from_fd);
	usleep(50000);
	goes_on(&s);
	still_teardown(&s);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(vector__crosses_both_ways),
	    TEST(copy__to_the_other_site),
	    TEST(copy__from_the_other_site),
	    TEST(copy__from_there_removes_and_leaves_out),
	    TEST(copy__from_there_of_what_is_not),
	    TEST(relay_stop__leaves_a_file_that_does_not_answer),
	    TEST(file__that_does_not_answer_keeps_nobody_waiting),
	    TEST(lr_reopen__says_since_when_memory_is_exported),
	    TEST(lr_wait__ends_in_time_with_signals),
	    TEST(lr_open__tells_why_it_is_refused),
	    TEST(lr_open__hears_a_refusal_behind_a_reset),
	    TEST(file__that_does_not_answer_fails_alone),
	    TEST(file__that_answers_again_is_silent_no_more),
	    TEST(file__that_does_not_answer_has_few_descriptors_of_the_daemon),
	};

	if (!still_namespace())
		print_message("no mount namespace: no file that does not answer\n");

	return cmocka_run_group_tests(tests, NULL, NULL);
}
