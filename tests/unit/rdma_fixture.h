/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_fixture.h - RDMA clients of the relay: the library at one end of fake_verbs.h and the relay's thread at the other. The
 * worker's end of the rings is played here, as in test_relay_thread.c. Whatever ends how: no slot, no object of the device
 * and no operation is left. */
#ifndef TESTS_RDMA_FIXTURE_H
#define TESTS_RDMA_FIXTURE_H

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_verbs.h"
#include "toy_gpu.h"

#include "daemon/relay/relay_priv.h"
#include "daemon/util/addr.h"
#include "daemon/util/clock.h"
#include "lib/lr_rdma.h"
#include "lib/lr_rdma_wire.h"

#define SLOTS    512
#define BYTES    100000u
#define SENT_MAX 4096

/* --- the log --- */

static unsigned nlogged; /* lines */

void log_at(enum log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
	nlogged++;
}

/* One window without end. */
bool log_limit_pass(struct log_limit *l, uint64_t now_ns, uint32_t *missed)
{
	(void)now_ns;
	if (missed)
		*missed = 0;
	return l->passed++ < l->burst;
}

/* --- time --- */

static uint64_t passed_ns; /* beside the clock */

int clock_gettime(clockid_t id, struct timespec *t)
{
	int r = (int)syscall(SYS_clock_gettime, id, t);
	uint64_t ns = (uint64_t)t->tv_nsec + passed_ns % NS_PER_S;

	t->tv_sec += (time_t)(passed_ns / NS_PER_S + ns / NS_PER_S);
	t->tv_nsec = (long)(ns % NS_PER_S);
	return r;
}

static int timer_fd = -1; /* the timer that was set last */
static struct itimerspec timer_at;

/* To the kernel's clock. */
static inline void set_timer(void)
{
	uint64_t at = (uint64_t)timer_at.it_value.tv_sec * NS_PER_S + (uint64_t)timer_at.it_value.tv_nsec;
	struct itimerspec real = {0};

	at = at > passed_ns ? at - passed_ns : 1;
	real.it_value.tv_sec = (time_t)(at / NS_PER_S);
	real.it_value.tv_nsec = (long)(at % NS_PER_S);
	syscall(SYS_timerfd_settime, timer_fd, TFD_TIMER_ABSTIME, &real, NULL);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old)
{
	(void)flags;
	(void)old;
	timer_fd = fd;
	timer_at = *at;
	set_timer();
	return 0;
}

static inline void passes(uint64_t ns)
{
	passed_ns += ns;
	if (timer_fd >= 0)
		set_timer();
}

/* The library waits. */
int usleep(useconds_t us)
{
	passes(us * 1000ull);
	return 0;
}

/* --- the worker --- */

static uint8_t arena[SLOTS][RELAY_CHUNK_MAX];
static bool slot_used[SLOTS];

struct relay_port {
	struct relay_command c[8192];
	uint32_t n;
	bool full;
	uint32_t nsent, nvoid, nfinished;
	struct {
		struct relay_head head;
		uint8_t data[RELAY_DATA_MAX];
		size_t len;
	} sent[SENT_MAX];
};

static struct relay_thread *r;

bool relay_port_command(struct relay_port *p, const struct relay_command *c)
{
	assert_true(p->n < 8192);
	p->c[p->n++] = *c;
	return true;
}

bool relay_port_has_room(struct relay_port *p)
{
	return !p->full && p->n < 4096;
}

void *worker_relay_arena(const struct worker *w, size_t *len)
{
	(void)w;
	*len = sizeof(arena);
	return arena;
}

void relay_say_hello(struct relay_thread *t)
{
	(void)t;
}

static inline uint32_t slots_in_use(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < SLOTS; i++)
		n += slot_used[i];
	return n;
}

static inline void note_sent(struct relay_port *p, uint32_t slot, uint16_t len)
{
	const uint8_t *data;
	size_t n;

	assert_true(p->nsent < SENT_MAX);
	assert_true(relay_head_get(arena[slot], len, &p->sent[p->nsent].head, &data, &n));
	memcpy(p->sent[p->nsent].data, data, n);
	p->sent[p->nsent++].len = n;
}

static uint16_t slot_len[SLOTS];

/* Slots of a channel as the core keeps them: positions are sent in order, an uncommitted one holds up those behind it,
 * and no more than out_window of them are taken. 0: slots are free at once. */
static uint32_t out_window;
static struct {
	uint32_t next, freed, slot[1 << 14];
	bool committed[1 << 14], is_void[1 << 14];
} core_out[4];

static inline void out_committed(struct relay_port *p, uint32_t slot, bool is_void)
{
	for (uint32_t c = 0; c < 4; c++)
		for (uint32_t i = core_out[c].freed; i < core_out[c].next; i++)
			if (core_out[c].slot[i] == slot && !core_out[c].committed[i]) {
				core_out[c].committed[i] = true;
				core_out[c].is_void[i] = is_void;
			}
	for (uint32_t c = 0; c < 4; c++)
		while (core_out[c].freed < core_out[c].next && core_out[c].committed[core_out[c].freed]) {
			uint32_t i = core_out[c].freed++;

			if (!core_out[c].is_void[i])
				note_sent(p, core_out[c].slot[i], slot_len[core_out[c].slot[i]]);
			slot_used[core_out[c].slot[i]] = false;
		}
}

static inline void run(struct relay_port *p, const struct relay_command *c)
{
	struct relay_note note = {.channel = c->channel, .token = c->token};

	if (c->type == RELAY_TAKE) {
		uint32_t s = 0;

		if (out_window && core_out[c->channel].next - core_out[c->channel].freed >= out_window) {
			p->c[p->n++] = *c; /* tried again in the next turn */
			return;
		}
		while (slot_used[s])
			assert_true(++s < SLOTS);
		if (out_window)
			core_out[c->channel].slot[core_out[c->channel].next++] = s;
		slot_used[s] = true;
		slot_len[s] = c->len;
		memset(arena[s], 0xee, sizeof(arena[s]));
		note.type = RELAY_TAKEN;
		note.chunk = (struct relay_chunk){c->channel, s, p->nsent, arena[s], c->len};
		relay_channel_note(r, &note);
		return;
	}
	assert_true(slot_used[c->slot]);
	if (out_window && c->type != RELAY_FINISH) {
		p->nvoid += c->type == RELAY_GIVE_UP;
		out_committed(p, c->slot, c->type == RELAY_GIVE_UP);
		note.type = RELAY_COMMITTED;
		if (c->type == RELAY_COMMIT && c->tell)
			relay_channel_note(r, &note);
		return;
	}
	slot_used[c->slot] = false;
	p->nvoid += c->type == RELAY_GIVE_UP;
	p->nfinished += c->type == RELAY_FINISH;
	if (c->type != RELAY_COMMIT)
		return;
	note_sent(p, c->slot, slot_len[c->slot]);
	note.type = RELAY_COMMITTED;
	if (c->tell)
		relay_channel_note(r, &note);
}

static bool working;

/* Turns of the thread and of the worker, until nothing happens. Not within itself, when the edge posts. */
static inline void work(void)
{
	static struct relay_command now[8192];
	struct relay_port *p = r->port[0];

	if (working)
		return;
	working = true;
	for (unsigned turn = 0; turn < 40; turn++) {
		uint32_t n;

		relay_rdma_ready(r);
		relay_rdma_turn(r);
		relay_execute_deferred(r);
		relay_channels_pump(r);
		n = p->n;
		memcpy(now, p->c, n * sizeof(now[0]));
		p->n = 0;
		for (uint32_t i = 0; i < n; i++)
			run(p, &now[i]);
	}
	working = false;
}

static inline unsigned nsent(uint8_t type)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < r->port[0]->nsent; i++)
		n += r->port[0]->sent[i].head.type == type;
	return n;
}

static inline const struct relay_head *sent(uint8_t type)
{
	for (uint32_t i = 0; i < r->port[0]->nsent; i++)
		if (r->port[0]->sent[i].head.type == type)
			return &r->port[0]->sent[i].head;
	fail_msg("nothing of type %u was sent", type);
	return NULL;
}

/* A chunk of the other site comes. */
static inline void come(uint32_t channel, const struct relay_head *h, const void *data, size_t len)
{
	uint32_t s = 0;
	bool was = working;

	while (slot_used[s])
		s++;
	slot_used[s] = true;
	relay_head_put(arena[s], h);
	if (len > 0)
		memcpy(arena[s] + RELAY_HEAD_LEN, data, len);
	working = true; /* the device completes nothing within ibv_post_send() */
	relay_execute(r, &(struct relay_chunk){channel, s, 0, arena[s], (uint16_t)(RELAY_HEAD_LEN + len)});
	working = was;
}

static inline void status_comes(uint64_t op, enum lr_status status)
{
	come(1, &(struct relay_head){.fence = true, .type = RW_STATUS, .op = op, .status = (uint8_t)status}, NULL, 0);
	work();
}

/* --- set up --- */

static uint8_t memory[BYTES], expected[BYTES];
static int base; /* objects of the listener */

static inline void allow(const char *prefix, unsigned access, const char *name)
{
	struct relay_allow *a = &r->config.relay_allow[r->config.nrelay_allow++];

	assert_int_equal(addr_read_prefix(prefix, &a->prefix), 0);
	a->access = access;
	snprintf(a->name, sizeof(a->name), "%s", name);
}

static inline int setup(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	memset(slot_used, 0, sizeof(slot_used));
	r = calloc(1, sizeof(*r));
	r->config.relay = true;
	r->config.lanes = 4;
	r->config.relay_port = LR_RDMA_PORT;
	addr_read("10.1.1.1", &r->config.relay_listen);
	allow("10.1.1.0/24", 3, "t*");
	allow("10.1.1.0/24", 1, "readonly");
	r->nworkers = 1;
	r->worker = (struct worker *const[]){NULL};
	r->nchannels = 4;
	r->instance = 1;
	r->region = calloc(RELAY_REGIONS, sizeof(*r->region));
	r->port[0] = calloc(1, sizeof(*r->port[0]));
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	relay_thread_init(r);
	r->notify_fd = -1;
	for (uint32_t i = 0; i < BYTES; i++) {
		memory[i] = 0;
		expected[i] = (uint8_t)(i * 2654435761u >> 15);
	}
	out_window = 0;
	working = false;
	memset(core_out, 0, sizeof(core_out));
	fake.pump = work;
	fake.passes = passes;
	passed_ns = 0;
	timer_fd = -1;
	relay_rdma_open(r, &fake_verbs);
	base = fake.live;
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	fake.fail = NULL;
	work();
	assert_int_equal(slots_in_use(), 0);
	relay_rdma_close(r);
	assert_int_equal(fake.live, 0);
	for (uint32_t i = 0; i < RELAY_OPS; i++)
		if (r->op[i])
			relay_op_end(r, r->op[i]->id, LR_CANCELLED);
	for (uint32_t i = 0; i < r->nchannels; i++) {
		assert_int_equal(r->channel[i].nremote, 0);
		relay_channel_free(r, &r->channel[i]);
	}
	close(r->epoll_fd);
	free(r->port[0]);
	free(r->region);
	free(r);
	return 0;
}

static inline struct lr_rdma *client(void)
{
	struct lr_rdma *c = NULL;

	assert_int_equal(lr_rdma_open("10.1.1.1", &fake_verbs, &c), 0);
	work();
	return c;
}

static inline uint64_t begin(struct lr_rdma *c, uint32_t type, enum lr_promise promise)
{
	struct lr_transfer t = {.fd = -1,
	                        .memory = memory,
	                        .length = BYTES,
	                        .region = "target",
	                        .region_offset = 7,
	                        .promise = promise,
	                        .notice = type == LRM_PUT ? "done" : NULL,
	                        .notice_len = type == LRM_PUT ? 4 : 0};
	uint64_t op = 0;

	assert_int_equal(lr_rdma_transfer(c, type, &t, &op), 0);
	return op;
}

static inline void expect_end(struct lr_rdma *c, uint64_t op, enum lr_status status)
{
	struct lr_event ev = {0};

	assert_int_equal(lr_rdma_wait(c, &ev, 0), 1);
	assert_int_equal(ev.type, LR_EV_DONE);
	assert_int_equal(ev.id, op);
	assert_int_equal(ev.status, status);
}

static inline void finish(struct lr_rdma *c)
{
	lr_rdma_close(c);
	work();
	assert_int_equal(fake.live, base);
	assert_int_equal(r->nops, 0);
}

static inline uint64_t counted(const _Atomic uint64_t *counter)
{
	return atomic_load(counter);
}

static inline off_t size_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_size;
}

static inline void data_comes(uint64_t op, uint32_t from, uint32_t to)
{
	for (uint32_t at = from; at < to; at += RELAY_DATA_MAX) {
		size_t len = to - at < RELAY_DATA_MAX ? to - at : RELAY_DATA_MAX;

		come(1, &(struct relay_head){.type = RW_GET_DATA, .op = op, .offset = at, .length = len}, expected + at, len);
	}
	work();
}

/* A client that exports `memory`. */
static inline struct lr_rdma *exporter(const char *name, unsigned access)
{
	struct lr_rdma *c;

	allow("10.1.1.0/24", RELAY_ALLOW_EXPORT, "t*");
	c = client();
	assert_int_equal(lr_rdma_export(c, name, -1, memory, 0, BYTES, access), 0);
	return c;
}

/* The other site asks for something of a region. */
static inline void request_comes(uint32_t channel, struct relay_head h, const char *name, const void *data, size_t len)
{
	snprintf(h.name, sizeof(h.name), "%s", name);
	come(channel, &h, data, len);
	work();
}

static inline void chunk_comes(uint64_t op, const char *name, uint32_t at, uint32_t len)
{
	request_comes(0, (struct relay_head){.type = RW_PUT, .op = op, .offset = at, .length = len}, name, expected + at, len);
}

static inline void end_comes(uint64_t op, const char *name, uint64_t length)
{
	request_comes(0, (struct relay_head){.fence = true, .type = RW_PUT_END, .op = op, .length = length}, name, "over", 4);
}

static inline void get_comes_on(uint32_t channel, uint64_t op, const char *name, uint64_t length)
{
	request_comes(channel, (struct relay_head){.type = RW_GET, .op = op, .length = length}, name, NULL, 0);
}

/* Answers of that status to the operation; 0: to any. */
static inline unsigned nanswered(uint64_t op, enum lr_status status)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < r->port[0]->nsent; i++) {
		const struct relay_head *h = &r->port[0]->sent[i].head;

		n += h->type == RW_STATUS && h->status == status && (!op || h->op == op);
	}
	return n;
}

static inline void void_all_keys(void)
{
	for (uint32_t i = 0; i < FAKE_MRS; i++)
		fake.access[i] &= ~(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
}

static inline void expect_over(struct lr_rdma *c)
{
	struct lr_event ev;

	assert_int_equal(lr_rdma_wait(c, &ev, 0), -EPIPE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
