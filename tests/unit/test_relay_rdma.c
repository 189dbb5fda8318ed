/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA clients of the relay: the library at one end of fake_verbs.h and the relay's thread at the other. The worker's end
 * of the rings is played here, as in test_relay_thread.c. Whatever ends how: no slot, no object of the device and no
 * operation is left. */
#define _GNU_SOURCE
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
#define SENT_MAX 1024

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
static void set_timer(void)
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

static void passes(uint64_t ns)
{
	passed_ns += ns;
	if (timer_fd >= 0)
		set_timer();
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

static uint32_t slots_in_use(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < SLOTS; i++)
		n += slot_used[i];
	return n;
}

static void note_sent(struct relay_port *p, uint32_t slot, uint16_t len)
{
	const uint8_t *data;
	size_t n;

	assert_true(p->nsent < SENT_MAX);
	assert_true(relay_head_get(arena[slot], len, &p->sent[p->nsent].head, &data, &n));
	memcpy(p->sent[p->nsent].data, data, n);
	p->sent[p->nsent++].len = n;
}

static uint16_t slot_len[SLOTS];

static void run(struct relay_port *p, const struct relay_command *c)
{
	struct relay_note note = {.channel = c->channel, .token = c->token};

	if (c->type == RELAY_TAKE) {
		uint32_t s = 0;

		while (slot_used[s])
			assert_true(++s < SLOTS);
		slot_used[s] = true;
		slot_len[s] = c->len;
		memset(arena[s], 0xee, sizeof(arena[s]));
		note.type = RELAY_TAKEN;
		note.chunk = (struct relay_chunk){c->channel, s, p->nsent, arena[s], c->len};
		relay_channel_note(r, &note);
		return;
	}
	assert_true(slot_used[c->slot]);
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

/* Turns of the thread and of the worker, until nothing happens. Not within itself, when the edge posts. */
static void work(void)
{
	static bool working;
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
		for (uint32_t i = 0; i < r->nchannels; i++)
			relay_channel_pump(r, &r->channel[i]);
		n = p->n;
		memcpy(now, p->c, n * sizeof(now[0]));
		p->n = 0;
		for (uint32_t i = 0; i < n; i++)
			run(p, &now[i]);
	}
	working = false;
}

static unsigned nsent(uint8_t type)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < r->port[0]->nsent; i++)
		n += r->port[0]->sent[i].head.type == type;
	return n;
}

static const struct relay_head *sent(uint8_t type)
{
	for (uint32_t i = 0; i < r->port[0]->nsent; i++)
		if (r->port[0]->sent[i].head.type == type)
			return &r->port[0]->sent[i].head;
	fail_msg("nothing of type %u was sent", type);
	return NULL;
}

/* A chunk of the other site comes. */
static void come(uint32_t channel, const struct relay_head *h, const void *data, size_t len)
{
	uint32_t s = 0;

	while (slot_used[s])
		s++;
	slot_used[s] = true;
	relay_head_put(arena[s], h);
	if (len > 0)
		memcpy(arena[s] + RELAY_HEAD_LEN, data, len);
	relay_execute(r, &(struct relay_chunk){channel, s, 0, arena[s], (uint16_t)(RELAY_HEAD_LEN + len)});
}

static void status_comes(uint64_t op, enum lr_status status)
{
	come(1, &(struct relay_head){.fence = true, .type = RW_STATUS, .op = op, .status = (uint8_t)status}, NULL, 0);
	work();
}

/* --- set up --- */

static uint8_t memory[BYTES], expected[BYTES];
static int base; /* objects of the listener */

static void allow(const char *prefix, unsigned access, const char *name)
{
	struct relay_allow *a = &r->config.relay_allow[r->config.nrelay_allow++];

	assert_int_equal(addr_read_prefix(prefix, &a->prefix), 0);
	a->access = access;
	snprintf(a->name, sizeof(a->name), "%s", name);
}

static int setup(void **state)
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
	dlist_init(&r->deferred);
	dlist_init(&r->memories);
	dlist_init(&r->readers);
	dlist_init(&r->copies);
	dlist_init(&r->written);
	relay_files_init(r);
	relay_ops_init(r);
	r->notify_fd = -1;
	for (uint32_t i = 0; i < r->nchannels; i++)
		relay_channel_init(r, i);
	for (uint32_t i = 0; i < BYTES; i++) {
		memory[i] = 0;
		expected[i] = (uint8_t)(i * 2654435761u >> 15);
	}
	fake.pump = work;
	fake.passes = passes;
	passed_ns = 0;
	timer_fd = -1;
	relay_rdma_open(r, &fake_verbs);
	base = fake.live;
	return 0;
}

static int teardown(void **state)
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

static struct lr_rdma *client(void)
{
	struct lr_rdma *c = NULL;

	assert_int_equal(lr_rdma_open("10.1.1.1", &fake_verbs, &c), 0);
	work();
	return c;
}

static uint64_t begin(struct lr_rdma *c, uint32_t type, enum lr_promise promise)
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

static void expect_end(struct lr_rdma *c, uint64_t op, enum lr_status status)
{
	struct lr_event ev = {0};

	assert_int_equal(lr_rdma_wait(c, &ev, 0), 1);
	assert_int_equal(ev.type, LR_EV_DONE);
	assert_int_equal(ev.id, op);
	assert_int_equal(ev.status, status);
}

static void finish(struct lr_rdma *c)
{
	lr_rdma_close(c);
	work();
	assert_int_equal(fake.live, base);
	assert_int_equal(r->nops, 0);
}

static uint64_t counted(const _Atomic uint64_t *counter)
{
	return atomic_load(counter);
}

/* --- what works --- */

static void put__crosses_whole_and_its_end_behind(void **state)
{
	struct lr_rdma *c = client();
	struct relay_port *p = r->port[0];
	uint64_t op, got = 0;
	struct lr_event ev;

	(void)state;
	memcpy(memory, expected, BYTES);
	op = begin(c, LRM_PUT, LR_DONE);
	work();
	assert_int_equal(nsent(RW_PUT), (BYTES + RELAY_DATA_MAX - 1) / RELAY_DATA_MAX);
	for (uint32_t i = 0; i < p->nsent; i++) {
		if (p->sent[i].head.type != RW_PUT)
			continue;
		assert_string_equal(p->sent[i].head.name, "target");
		assert_memory_equal(p->sent[i].data, expected + p->sent[i].head.offset - 7, p->sent[i].len);
		got += p->sent[i].len;
	}
	assert_int_equal(got, BYTES);
	assert_int_equal(counted(&r->count.relay_rdma_read_bytes), BYTES);
	assert_int_equal(counted(&r->count.relay_copied_bytes), 0);
	assert_int_equal(counted(&r->count.relay_rdma_connections), 1);
	assert_int_equal(r->count.rdma_clients, 1);
	assert_int_equal(p->sent[p->nsent - 1].head.type, RW_PUT_END);
	assert_memory_equal(p->sent[p->nsent - 1].data, "done", 4);
	assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
	status_comes(op, LR_OK);
	expect_end(c, op, LR_OK);
	finish(c);
	assert_int_equal(r->count.rdma_clients, 0);
	assert_int_equal(counted(&r->count.relay_rdma_requests), 1);
	assert_int_equal(counted(&r->count.relay_operations), 1);
	assert_int_equal(counted(&r->count.relay_operations_failed), 0);
	assert_int_equal(counted(&r->count.relay_rdma_broken), 0);
}

static void put__near_ends_when_it_is_committed(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_PUT, LR_NEAR);

	(void)state;
	work();
	expect_end(c, op, LR_OK);
	status_comes(op, LR_OK);
	finish(c);
}

/* The end of the put would count what is void as done. */
static void put__end_waits_for_reads(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op;

	(void)state;
	fake.hold = true;
	op = begin(c, LRM_PUT, LR_NEAR);
	work();
	assert_int_equal(nsent(RW_PUT) + nsent(RW_PUT_END), 0);
	assert_true(slots_in_use() > 0 && slots_in_use() <= RDMA_AHEAD);
	fake_release();
	work();
	assert_int_equal(nsent(RW_PUT_END), 1);
	expect_end(c, op, LR_OK);
	status_comes(op, LR_OK);
	finish(c);
}

static void data_comes(uint64_t op, uint32_t from, uint32_t to)
{
	for (uint32_t at = from; at < to; at += RELAY_DATA_MAX) {
		size_t len = to - at < RELAY_DATA_MAX ? to - at : RELAY_DATA_MAX;

		come(1, &(struct relay_head){.type = RW_GET_DATA, .op = op, .offset = at, .length = len}, expected + at, len);
	}
	work();
}

static void get__is_written_and_each_slot_finished(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);

	(void)state;
	work();
	assert_int_equal(sent(RW_GET)->length, BYTES);
	fake.hold = true;
	data_comes(op, 0, BYTES);
	assert_int_equal(r->port[0]->nfinished, 0);
	fake_release();
	work();
	assert_int_equal(r->port[0]->nfinished, (BYTES + RELAY_DATA_MAX - 1) / RELAY_DATA_MAX);
	come(1, &(struct relay_head){.fence = true, .type = RW_GET_END, .op = op, .length = BYTES}, NULL, 0);
	work();
	expect_end(c, op, LR_OK);
	assert_memory_equal(memory, expected, BYTES);
	assert_int_equal(counted(&r->count.relay_rdma_written_bytes), BYTES);
	assert_int_equal(counted(&r->count.relay_copied_bytes), 0);
	finish(c);
}

static void put__of_a_file(void **state)
{
	struct lr_rdma *c = client();
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct lr_transfer t = {.fd = fd, .offset = 100, .length = 5000, .region = "target", .promise = LR_NEAR};
	uint64_t op;

	(void)state;
	assert_true(pwrite(fd, expected, 6000, 0) == 6000);
	assert_int_equal(lr_rdma_transfer(c, LRM_PUT, &t, &op), 0);
	work();
	assert_memory_equal(r->port[0]->sent[0].data, expected + 100, RELAY_DATA_MAX);
	expect_end(c, op, LR_OK);
	t.length = 7000;
	assert_int_equal(lr_rdma_transfer(c, LRM_PUT, &t, &op), -ERANGE);
	status_comes(sent(RW_PUT_END)->op, LR_OK);
	close(fd);
	finish(c);
}

static off_t size_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_size;
}

static uint64_t get_into(struct lr_rdma *c, int fd, uint64_t offset)
{
	struct lr_transfer t = {.fd = fd, .offset = offset, .length = 5000, .region = "target"};
	uint64_t op;

	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &t, &op), 0);
	work();
	return op;
}

static void get_ends(struct lr_rdma *c, uint64_t op, enum lr_status status)
{
	come(1,
	     &(struct relay_head){
	         .fence = true, .type = RW_GET_END, .op = op, .status = (uint8_t)status, .length = 5000},
	     NULL, 0);
	work();
	expect_end(c, op, status);
}

/* A get that fails leaves its file as it was. */
static void get__into_a_file_that_is_shorter(void **state)
{
	struct lr_rdma *c = client();
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct lr_transfer refused = {.fd = fd, .offset = 2000, .length = 5000, .region = "other"};
	uint64_t op;

	(void)state;
	assert_int_equal(ftruncate(fd, 1000), 0);
	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &refused, &op), -EACCES);
	assert_int_equal(size_of(fd), 1000);
	op = get_into(c, fd, 500);
	assert_int_equal(size_of(fd), 5500);
	get_ends(c, op, LR_NO_REGION);
	assert_int_equal(size_of(fd), 1000);
	get_ends(c, get_into(c, fd, 500), LR_OK);
	assert_int_equal(size_of(fd), 5500);
	get_ends(c, get_into(c, fd, 0), LR_NO_REGION); /* it has not enlarged the file */
	assert_int_equal(size_of(fd), 5500);
	close(fd);
	finish(c);
}

/* What others have written in the meantime stays. */
static void get__that_fails_cuts_off_its_own_bytes_only(void **state)
{
	struct lr_rdma *c = client();
	int fd = memfd_create("test", MFD_CLOEXEC);
	uint64_t op, first, second;

	(void)state;
	op = get_into(c, fd, 6000);
	get_ends(c, get_into(c, fd, 0), LR_OK);
	get_ends(c, op, LR_NO_REGION);
	assert_int_equal(size_of(fd), 6000);
	first = get_into(c, fd, 6000);
	second = get_into(c, fd, 11000);
	get_ends(c, first, LR_NO_REGION);
	assert_int_equal(size_of(fd), 16000);
	get_ends(c, second, LR_NO_REGION);
	assert_int_equal(size_of(fd), 11000);
	get_into(c, fd, 11000); /* is given up with its handle */
	finish(c);
	assert_int_equal(size_of(fd), 11000);
	close(fd);
}

static void put__fails_at_the_other_site(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_PUT, LR_DONE);

	(void)state;
	work();
	status_comes(op, LR_NO_REGION);
	expect_end(c, op, LR_NO_REGION);
	finish(c);
}

/* --- memory that cannot be reached --- */

static void void_all_keys(void)
{
	for (uint32_t i = 0; i < FAKE_MRS; i++)
		fake.access[i] &= ~(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
}

static void expect_over(struct lr_rdma *c)
{
	struct lr_event ev;

	assert_int_equal(lr_rdma_wait(c, &ev, 0), -EPIPE);
}

static void put__with_a_wrong_key(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op;

	(void)state;
	fake.hold = true;
	op = begin(c, LRM_PUT, LR_NEAR);
	void_all_keys();
	fake_release();
	work();
	assert_int_equal(nsent(RW_PUT_END), 0);
	expect_end(c, op, LR_CLIENT_MEMORY);
	assert_int_equal(counted(&r->count.relay_rdma_broken), 1);
	expect_over(c);
	finish(c);
}

static void get__with_a_wrong_key(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);

	(void)state;
	work();
	void_all_keys();
	data_comes(op, 0, BYTES);
	assert_int_equal(r->port[0]->nfinished, (BYTES + RELAY_DATA_MAX - 1) / RELAY_DATA_MAX);
	assert_int_equal(nsent(RW_CANCEL), 1);
	expect_end(c, op, LR_CLIENT_MEMORY);
	finish(c);
}

static void client_gone_while_it_is_read(void **state)
{
	struct lr_rdma *c = client();

	(void)state;
	fake.hold = true;
	begin(c, LRM_PUT, LR_NEAR);
	work();
	assert_true(slots_in_use() > 0);
	finish(c);
	assert_int_equal(slots_in_use(), 0);
	assert_int_equal(nsent(RW_PUT_END), 0);
	assert_true(r->port[0]->nvoid > 0);
}

static void client_gone_while_it_is_written(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);

	(void)state;
	work();
	fake.hold = true;
	data_comes(op, 0, BYTES);
	assert_true(slots_in_use() > 0);
	finish(c);
	assert_int_equal(slots_in_use(), 0);
}

/* The edge says that it is over before anything that it had not posted: the program may use its memory again. */
static void cancel__nothing_is_written_behind_it(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);
	unsigned before;

	(void)state;
	work();
	fake.hold = true;
	for (unsigned i = 0; i < 4; i++)
		data_comes(op, 0, BYTES); /* more than RDMA_WORKS */
	assert_true(slots_in_use() > RDMA_WORKS);
	assert_int_equal(lr_rdma_cancel(c, op), 0);
	expect_end(c, op, LR_CANCELLED);
	before = fake.nheld;
	work();
	assert_int_equal(fake.nheld, before);
	fake.hold = false;
	for (uint32_t k = 0; k < fake.nheld; k++) /* what was posted before: its key is void, and in truth it came before */
		if (fake.held[k].from)
			fake_complete(fake.held[k].from, fake.held[k].wr.wr_id, IBV_WC_SUCCESS, 0);
	fake.nheld = 0;
	work();
	assert_int_equal(slots_in_use(), 0);
	finish(c);
}

/* Rings that are full: what ended waits, and is ended later. */
static void completions__wait_for_room(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op;

	(void)state;
	fake.hold = true;
	op = begin(c, LRM_PUT, LR_NEAR);
	work();
	r->port[0]->full = true;
	fake_release();
	assert_true(relay_rdma_turn(r) || (relay_rdma_ready(r), relay_rdma_turn(r)));
	assert_int_equal(nsent(RW_PUT), 0);
	r->port[0]->full = false;
	work();
	expect_end(c, op, LR_OK);
	status_comes(op, LR_OK);
	finish(c);
}

/* --- who may --- */

static void open__from_elsewhere_is_refused(void **state)
{
	struct lr_rdma *c = NULL;
	uint32_t own = fake_client_address;

	(void)state;
	fake_client_address = 0x0202010au;
	assert_int_equal(lr_rdma_open("10.1.1.1", &fake_verbs, &c), -EACCES);
	fake_client_address = own;
	work();
	assert_int_equal(counted(&r->count.relay_rdma_refused_address), 1);
	assert_int_equal(counted(&r->count.relay_rdma_connections), 0);
	assert_int_equal(fake.live, base);
}

/* The address in the private data is an allowed one, and the path leads to another host of the LAN. */
static void open__by_another_name_is_refused(void **state)
{
	struct lr_rdma *c = NULL;
	uint32_t own = fake_client_gid;

	(void)state;
	fake_client_gid = 0x0202010au;
	assert_int_equal(lr_rdma_open("10.1.1.1", &fake_verbs, &c), -EACCES);
	fake_client_gid = own;
	work();
	assert_int_equal(counted(&r->count.relay_rdma_refused_address), 1);
	assert_int_equal(counted(&r->count.relay_rdma_connections), 0);
	assert_int_equal(fake.live, base);
}

static void transfer__of_regions_of_others_is_refused(void **state)
{
	struct lr_rdma *c = client();
	struct lr_transfer t = {.fd = -1, .memory = memory, .length = 10, .region = "other"};
	uint64_t op;

	(void)state;
	assert_int_equal(lr_rdma_transfer(c, LRM_PUT, &t, &op), -EACCES);
	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &t, &op), -EACCES);
	t.region = "readonly";
	assert_int_equal(lr_rdma_transfer(c, LRM_PUT, &t, &op), -EACCES);
	t.region = "readonly2";
	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &t, &op), -EACCES);
	assert_int_equal(counted(&r->count.relay_rdma_requests_refused_region), 4);
	t.region = "readonly";
	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &t, &op), 0);
	assert_int_equal(counted(&r->count.relay_rdma_requests), 5);
	assert_int_equal(lr_rdma_cancel(c, op + 1), -ENOENT);
	assert_int_equal(counted(&r->count.relay_rdma_requests_refused), 1);
	finish(c);
	assert_int_equal(counted(&r->count.relay_operations_failed), 1);
}

static void open__nobody_listens(void **state)
{
	struct lr_rdma *c = NULL;

	(void)state;
	fake.listener = NULL;
	assert_int_equal(lr_rdma_open("10.1.1.1", &fake_verbs, &c), -ECONNREFUSED);
	assert_int_equal(fake.live, base);
}

/* --- bounds --- */

static void open__too_many_of_a_host(void **state)
{
	struct lr_rdma *c[RDMA_CLIENTS_OF_HOST], *more = NULL;

	(void)state;
	for (unsigned i = 0; i < RDMA_CLIENTS_OF_HOST; i++)
		c[i] = client();
	assert_int_equal(lr_rdma_open("10.1.1.1", &fake_verbs, &more), -EMFILE);
	assert_int_equal(counted(&r->count.relay_rdma_refused_too_many), 1);
	assert_int_equal(r->count.rdma_clients, RDMA_CLIENTS_OF_HOST);
	for (unsigned i = 0; i < RDMA_CLIENTS_OF_HOST; i++)
		lr_rdma_close(c[i]);
	work();
	assert_int_equal(fake.live, base);
	finish(client());
}

static void transfer__too_many_under_way(void **state)
{
	struct lr_rdma *c = client();
	struct lr_transfer t = {.fd = -1, .memory = memory, .length = 10, .region = "target"};
	uint64_t op;

	(void)state;
	for (unsigned i = 0; i < RDMA_OPS_OF_CLIENT; i++)
		assert_int_equal(lr_rdma_transfer(c, LRM_GET, &t, &op), 0);
	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &t, &op), -EAGAIN);
	assert_int_equal(counted(&r->count.relay_rdma_requests_refused_too_many), 1);
	finish(c);
}

/* A put that is in the buffer stays until the other edge answers, and its client may go and connect again: while the
 * line is down, one host must not take the place of all others. */
static void transfer__too_many_of_clients_that_have_gone(void **state)
{
	struct lr_transfer t = {.fd = -1, .region = "target", .promise = LR_NEAR, .notice = "x", .notice_len = 1};
	struct lr_transfer get = {.fd = -1, .memory = memory, .length = 10, .region = "target"};
	uint64_t op, first = 0;
	struct lr_rdma *c;

	(void)state;
	for (unsigned i = 0; i < RELAY_OPS_GONE; i++) {
		if (i % RDMA_OPS_OF_CLIENT == 0)
			c = client();
		assert_int_equal(lr_rdma_transfer(c, LRM_PUT, &t, &op), 0);
		first = first ? first : op;
		if (i % RDMA_OPS_OF_CLIENT == RDMA_OPS_OF_CLIENT - 1) {
			work();
			lr_rdma_close(c);
			work();
			r->port[0]->nsent = 0;
		}
	}
	assert_int_equal(r->nops, RELAY_OPS_GONE);
	c = client();
	assert_int_equal(lr_rdma_transfer(c, LRM_PUT, &t, &op), -EAGAIN);
	assert_int_equal(counted(&r->count.relay_rdma_requests_refused_too_many), 1);
	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &get, &op), 0);
	assert_int_equal(lr_rdma_cancel(c, op), 0);
	status_comes(first, LR_OK);
	assert_int_equal(lr_rdma_transfer(c, LRM_PUT, &t, &op), 0);
	status_comes(op, LR_OK);
	nlogged = 0;
	for (uint32_t i = 0; i < RELAY_OPS; i++)
		if (r->op[i])
			status_comes(r->op[i]->id, LR_NO_REGION);
	assert_int_equal(nlogged, 10);
	finish(c);
}

/* --- a client that says anything --- */

struct raw {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t buffer[1024];
	bool connected;
};

static void raw_open(struct raw *w, const void *hello, uint8_t len, uint8_t reads)
{
	struct ibv_pd pd;
	struct rdma_conn_param p = {.private_data = hello, .private_data_len = len, .responder_resources = reads};
	struct ibv_qp_init_attr attr;
	struct rdma_cm_event *ev;

	w->events = fake_create_event_channel();
	fake_create_id(w->events, &w->id, NULL, RDMA_PS_TCP);
	w->comp = fake_create_comp_channel(NULL);
	w->cq = fake_create_cq(NULL, 1, NULL, w->comp, 0);
	attr = (struct ibv_qp_init_attr){.send_cq = w->cq, .recv_cq = w->cq};
	w->mr = fake_reg_mr(&pd, w->buffer, sizeof(w->buffer), IBV_ACCESS_LOCAL_WRITE);
	fake_create_qp(w->id, &pd, &attr);
	fake_connect(w->id, &p);
	assert_int_equal(fake_get_cm_event(w->events, &ev), 0);
	w->connected = ev->event == RDMA_CM_EVENT_ESTABLISHED;
	work();
}

static void raw_send(struct raw *w, const void *data, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)data, .length = len};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	fake_post_send(w->id->qp, &wr, &bad);
	work();
}

static void raw_close(struct raw *w)
{
	fake_disconnect(w->id);
	fake_destroy_qp(w->id);
	fake_dereg_mr(w->mr);
	fake_destroy_cq(w->cq);
	fake_destroy_comp_channel(w->comp);
	fake_destroy_id(w->id);
	fake_destroy_event_channel(w->events);
	work();
	assert_int_equal(fake.live, base);
}

static void hello_of(uint8_t out[LR_RDMA_HELLO_LEN], uint32_t number)
{
	lr_rdma_hello_put(out, &(struct lr_rdma_hello){.value = number});
}

static void open__of_another_version_is_refused(void **state)
{
	uint8_t hello[LR_RDMA_HELLO_LEN];
	struct raw w = {0};

	(void)state;
	for (unsigned byte = 0; byte < 8; byte++) { /* magic, version, length */
		memset(&w, 0, sizeof(w));
		hello_of(hello, 1);
		hello[byte] ^= 0x80;
		raw_open(&w, hello, sizeof(hello), 16);
		assert_false(w.connected);
		raw_close(&w);
	}
	memset(&w, 0, sizeof(w));
	raw_open(&w, NULL, 0, 16);
	assert_false(w.connected);
	raw_close(&w);
	assert_int_equal(counted(&r->count.relay_rdma_refused_version), 9);
}

static void open__that_cannot_be_read_is_refused(void **state)
{
	uint8_t hello[LR_RDMA_HELLO_LEN];
	struct raw w = {0};

	(void)state;
	hello_of(hello, 1);
	raw_open(&w, hello, sizeof(hello), 0);
	assert_false(w.connected);
	raw_close(&w);
	assert_int_equal(counted(&r->count.relay_rdma_refused_no_reads), 1);
}

static void request__that_is_none_ends_the_connection(void **state)
{
	struct lr_rdma_request good = {.type = LRM_PUT, .promise = LR_NEAR, .bytes = 10, .rkey = 1, .name = "target"}, q[9];
	uint8_t hello[LR_RDMA_HELLO_LEN], bytes[LR_RDMA_REQUEST_MAX];

	(void)state;
	for (unsigned i = 0; i < 9; i++)
		q[i] = good;
	q[0].type = LRM_EXPORT;
	q[1].promise = LR_DONE + 1;
	q[2].bytes = (uint64_t)INT64_MAX + 1;
	q[3].region_offset = INT64_MAX;
	q[4].address = UINT64_MAX - 8;
	q[5].name[0] = '\0';
	q[6].type = LRM_GET, q[6].bytes = 0;
	for (unsigned i = 0; i < 9; i++) {
		size_t len = lr_rdma_request_put(bytes, &q[i]);
		struct raw w = {0};

		if (i == 7)
			len--; /* and says another length */
		if (i == 8)
			bytes[LR_RDMA_REQUEST_LEN - 1] = 'x'; /* a name without its end */
		hello_of(hello, i + 1); /* the end of one before is told to its own number */
		raw_open(&w, hello, sizeof(hello), 16);
		assert_true(w.connected);
		raw_send(&w, bytes, (uint32_t)len);
		assert_int_equal(r->malformed, i + 1);
		assert_false(((struct fake_id *)w.id)->connected);
		raw_close(&w);
	}
}

/* It posts no receives: messages wait, up to a bound. */
static void client__that_takes_no_messages_is_let_go(void **state)
{
	struct lr_rdma_request q = {.type = LRM_CANCEL, .id = 5};
	uint8_t hello[LR_RDMA_HELLO_LEN], bytes[LR_RDMA_REQUEST_MAX];
	struct raw w = {0};
	size_t len = lr_rdma_request_put(bytes, &q);

	(void)state;
	hello_of(hello, 1);
	raw_open(&w, hello, sizeof(hello), 16);
	for (unsigned i = 0; i < RDMA_SENDS + RDMA_UNSENT; i++)
		raw_send(&w, bytes, (uint32_t)len);
	assert_true(((struct fake_id *)w.id)->connected);
	raw_send(&w, bytes, (uint32_t)len);
	assert_false(((struct fake_id *)w.id)->connected);
	raw_close(&w);
}

/* --- time passes --- */

static void turn_after(uint64_t ns)
{
	passes(ns);
	relay_rdma_turn(r);
}

static bool is_connected(const struct raw *w)
{
	return ((struct fake_id *)w->id)->connected;
}

static void raw_takes(struct raw *w, unsigned n)
{
	struct ibv_sge sge = {.addr = (uintptr_t)w->buffer, .length = sizeof(w->buffer), .lkey = w->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	for (unsigned i = 0; i < n; i++)
		assert_int_equal(fake_post_recv(w->id->qp, &wr, &bad), 0);
}

/* A client that opens, and begins a put whose READs are under way. */
static void raw_put(struct raw *w)
{
	struct lr_rdma_request q = {.type = LRM_PUT,
	                            .promise = LR_NEAR,
	                            .bytes = 2 * RELAY_DATA_MAX,
	                            .address = (uintptr_t)memory,
	                            .name = "target"};
	uint8_t hello[LR_RDMA_HELLO_LEN], bytes[LR_RDMA_REQUEST_MAX];

	hello_of(hello, 1);
	raw_open(w, hello, sizeof(hello), 16);
	raw_takes(w, 16);
	q.rkey = fake_reg_mr((struct ibv_pd *)w, memory, sizeof(memory), IBV_ACCESS_REMOTE_READ)->rkey;
	fake.hold = true;
	raw_send(w, bytes, (uint32_t)lr_rdma_request_put(bytes, &q));
	assert_true(fake.nheld >= 2);
}

static void raw_end(struct raw *w)
{
	fake_release();
	work();
	for (uint32_t i = 0; i < FAKE_MRS; i++)
		if (fake.mr[i].pd == (struct ibv_pd *)w)
			fake_dereg_mr(&fake.mr[i]);
	raw_close(w);
}

/* An id does not take its listener's option, and the REQ's timeout is the client's. */
static void open__the_accepted_end_has_the_ack_timeout(void **state)
{
	uint8_t hello[LR_RDMA_HELLO_LEN];
	struct raw w = {0};

	(void)state;
	hello_of(hello, 1);
	raw_open(&w, hello, sizeof(hello), 16);
	assert_ptr_equal(fake.timeout_of, &((struct fake_id *)w.id)->peer->id);
	raw_close(&w);
}

/* Of what is posted each one has its time: others that complete say nothing of those behind them. */
static void client__that_completes_a_little_is_let_go(void **state)
{
	struct raw w = {0};

	(void)state;
	raw_put(&w);
	turn_after(9 * NS_PER_S);
	fake_run(&fake.held[0]);
	fake.held[0].from = NULL;
	relay_rdma_ready(r);
	turn_after(NS_PER_S / 2);
	assert_true(is_connected(&w));
	turn_after(NS_PER_S);
	assert_false(is_connected(&w));
	raw_end(&w);
}

/* A thread that did not run finds what has come meanwhile. */
static void client__does_not_pay_for_a_late_thread(void **state)
{
	struct raw w = {0};

	(void)state;
	raw_put(&w);
	fake_release();
	turn_after(11 * NS_PER_S);
	assert_true(is_connected(&w));
	raw_end(&w);
}

static void client__whose_rtu_is_lost_is_connected(void **state)
{
	struct lr_rdma_request q = {.type = LRM_CANCEL, .id = 5};
	uint8_t hello[LR_RDMA_HELLO_LEN], bytes[LR_RDMA_REQUEST_MAX];
	struct raw w = {0};

	(void)state;
	fake.rtu_is_lost = true;
	for (unsigned says = 0; says < 2; says++) {
		hello_of(hello, 1 + says);
		raw_open(&w, hello, sizeof(hello), 16);
		if (says) {
			raw_takes(&w, 1);
			raw_send(&w, bytes, (uint32_t)lr_rdma_request_put(bytes, &q));
		}
		turn_after(6 * NS_PER_S);
		assert_int_equal(is_connected(&w), says);
		raw_close(&w);
	}
}

static void request__that_is_too_long_ends_the_connection(void **state)
{
	uint8_t hello[LR_RDMA_HELLO_LEN], bytes[513] = {0};
	struct raw w = {0};

	(void)state;
	hello_of(hello, 1);
	raw_open(&w, hello, sizeof(hello), 16);
	raw_send(&w, bytes, sizeof(bytes));
	assert_false(is_connected(&w));
	assert_int_equal(r->malformed, 1);
	raw_close(&w);
}

/* A REQ may name a host that does not answer: rdma_accept() asks for it, and the thread stands still. */
static void open__the_thread_does_not_stand_still_for_ever(void **state)
{
	uint8_t hello[LR_RDMA_HELLO_LEN];
	struct raw w = {0};

	(void)state;
	hello_of(hello, 1);
	fake.accept_ns = NS_PER_S;
	raw_open(&w, hello, sizeof(hello), 16);
	assert_true(w.connected);
	raw_close(&w);
	fake.accept_ns = 0;
	passes(18 * NS_PER_S);
	raw_open(&w, hello, sizeof(hello), 16);
	assert_false(w.connected);
	raw_close(&w);
	passes(3 * NS_PER_S);
	raw_open(&w, hello, sizeof(hello), 16);
	assert_true(w.connected);
	raw_close(&w);
}

/* --- a device that fails --- */

static void open__each_call_that_fails(void **state)
{
	static const char *const names[] = {"reg_mr", "create_cq", "req_notify_cq", "create_qp", "post_recv", "query_device", "accept"};
	uint8_t hello[LR_RDMA_HELLO_LEN];

	(void)state;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct raw w = {0};

		hello_of(hello, 1);
		/* of those that the client makes as well, the edge's is the next */
		fake.fail = names[i];
		fake.fail_after = strcmp(names[i], "reg_mr") == 0 || strcmp(names[i], "create_cq") == 0 ||
		                  strcmp(names[i], "create_qp") == 0;
		raw_open(&w, hello, sizeof(hello), 16);
		fake.fail = NULL;
		if (w.connected)
			fail_msg("connected although %s failed", names[i]);
		raw_close(&w);
	}
	finish(client());
}

static void relay_rdma_open__each_call_that_fails(void **state)
{
	static const char *const names[] = {"create_event_channel", "create_id", "bind_addr", "device", "alloc_pd", "reg_mr",
	                                    "create_comp_channel", "listen"};

	(void)state;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		relay_rdma_close(r);
		fake.fail = names[i];
		relay_rdma_open(r, &fake_verbs);
		assert_int_equal(fake.live, 0);
		assert_null(fake.listener);
		fake.fail = NULL;
	}
	relay_rdma_close(r);
	relay_rdma_open(r, &fake_verbs);
	finish(client());
}

static void post__that_fails_ends_the_connection(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);

	(void)state;
	work();
	fake.fail = "post_send";
	data_comes(op, 0, BYTES);
	fake.fail = NULL;
	expect_end(c, op, LR_RDMA_FAILED);
	finish(c);
}

static void device__that_goes_takes_its_clients(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op;

	(void)state;
	fake.hold = true;
	op = begin(c, LRM_PUT, LR_NEAR);
	work();
	fake.fail = "create_event_channel"; /* it is not back yet */
	fake_event(fake.listener, RDMA_CM_EVENT_DEVICE_REMOVAL, NULL);
	work();
	assert_null(fake.listener);
	assert_int_equal(slots_in_use(), 0);
	expect_end(c, op, LR_CLIENT_GONE); /* nobody is there to say more */
	lr_rdma_close(c);
	assert_int_equal(fake.live, 0);
	assert_int_equal(r->nops, 0);
}

static unsigned nsignals;

static void on_signal(int n)
{
	(void)n;
	nsignals++;
}

/* A program may have signal handlers: they neither break the connection nor end the wait. */
static void wait__goes_on_after_a_signal(void **state)
{
	struct sigaction act = {.sa_handler = on_signal}, old;
	struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
	struct lr_rdma *c = client();
	uint64_t since = clock_now_ns();
	struct lr_event ev;
	int rc;

	(void)state;
	nsignals = 0;
	sigaction(SIGALRM, &act, &old);
	setitimer(ITIMER_REAL, &often, NULL);
	rc = lr_rdma_wait(c, &ev, 200);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	assert_int_equal(rc, 0);
	assert_true(nsignals > 0 && clock_now_ns() - since >= 190000000);
	finish(c);
}

/* --- an edge that goes without a word --- */

/* The edge's machine loses power: no DREQ comes, and the client's queue pair has nothing to send. */
static void finish_deaf(struct lr_rdma *c)
{
	lr_rdma_close(c);
	/* the edge is there after all, and has noticed by itself that the client has gone */
	fake.silent = false;
	assert_non_null(fake.deaf);
	fake_event(fake.deaf, RDMA_CM_EVENT_DISCONNECTED, NULL);
	work();
	assert_int_equal(fake.live, base);
}

static void wait__ends_when_the_edge_is_silent(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);
	struct lr_event ev;

	(void)state;
	work();
	assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
	fake.silent = true;
	passes(9 * NS_PER_S);
	assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
	assert_int_equal(fake.nheld, 0);
	passes(NS_PER_S);
	assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
	assert_int_equal(fake.nheld, 1);
	passes(9 * NS_PER_S);
	assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
	passes(NS_PER_S);
	expect_end(c, op, LR_CLIENT_GONE);
	expect_over(c);
	finish_deaf(c);
}

static bool is_readable(const struct lr_rdma *c, int ms)
{
	struct pollfd p = {.fd = lr_rdma_fd(c), .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* A program that waits in the library, or polls lr_fd(), is woken. */
static void fd__is_readable_when_the_edge_is_to_be_asked(void **state)
{
	struct lr_rdma *c = client();
	struct lr_event ev;

	(void)state;
	assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
	fake.silent = true;
	assert_false(is_readable(c, 0));
	passes(10 * NS_PER_S - 50000000);
	assert_int_equal(lr_rdma_wait(c, &ev, 200), 0);
	assert_int_equal(fake.nheld, 1);
	assert_false(is_readable(c, 0));
	passes(10 * NS_PER_S);
	assert_true(is_readable(c, 1000));
	expect_over(c);
	finish_deaf(c);
}

static void transfer__ends_when_the_edge_is_silent(void **state)
{
	struct lr_transfer t = {.fd = -1, .memory = memory, .length = 10, .region = "target"};
	struct lr_rdma *c = client();
	uint64_t op, since = clock_now_ns();

	(void)state;
	fake.silent = true;
	fake.silent_ns = 10 * NS_PER_S - 50000000;
	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &t, &op), -EPIPE);
	assert_in_range(clock_now_ns() - since, 10 * NS_PER_S - 50000000, 20 * NS_PER_S);
	expect_over(c);
	finish_deaf(c);
}

/* An edge that has nothing to say for long, but answers; and a program that does not call the library for long. */
static void wait__goes_on_while_the_edge_answers(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);
	struct lr_event ev;

	(void)state;
	work();
	for (unsigned i = 0; i < 4; i++) {
		/* posts a probe, and the next time takes its completion */
		assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
		assert_int_equal(fake.nprobes, (i + 1) / 2);
		passes(30 * NS_PER_S);
	}
	come(1, &(struct relay_head){.fence = true, .type = RW_GET_END, .op = op, .length = BYTES}, NULL, 0);
	work();
	expect_end(c, op, LR_OK);
	finish(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(put__crosses_whole_and_its_end_behind),
	    TEST(put__near_ends_when_it_is_committed),
	    TEST(put__end_waits_for_reads),
	    TEST(get__is_written_and_each_slot_finished),
	    TEST(put__of_a_file),
	    TEST(get__into_a_file_that_is_shorter),
	    TEST(get__that_fails_cuts_off_its_own_bytes_only),
	    TEST(put__fails_at_the_other_site),
	    TEST(put__with_a_wrong_key),
	    TEST(get__with_a_wrong_key),
	    TEST(client_gone_while_it_is_read),
	    TEST(client_gone_while_it_is_written),
	    TEST(cancel__nothing_is_written_behind_it),
	    TEST(completions__wait_for_room),
	    TEST(open__from_elsewhere_is_refused),
	    TEST(open__by_another_name_is_refused),
	    TEST(transfer__of_regions_of_others_is_refused),
	    TEST(open__nobody_listens),
	    TEST(open__too_many_of_a_host),
	    TEST(transfer__too_many_under_way),
	    TEST(transfer__too_many_of_clients_that_have_gone),
	    TEST(open__of_another_version_is_refused),
	    TEST(open__that_cannot_be_read_is_refused),
	    TEST(request__that_is_none_ends_the_connection),
	    TEST(client__that_takes_no_messages_is_let_go),
	    TEST(open__the_accepted_end_has_the_ack_timeout),
	    TEST(client__that_completes_a_little_is_let_go),
	    TEST(client__does_not_pay_for_a_late_thread),
	    TEST(client__whose_rtu_is_lost_is_connected),
	    TEST(request__that_is_too_long_ends_the_connection),
	    TEST(open__the_thread_does_not_stand_still_for_ever),
	    TEST(open__each_call_that_fails),
	    TEST(relay_rdma_open__each_call_that_fails),
	    TEST(post__that_fails_ends_the_connection),
	    TEST(device__that_goes_takes_its_clients),
	    TEST(wait__goes_on_after_a_signal),
	    TEST(wait__ends_when_the_edge_is_silent),
	    TEST(fd__is_readable_when_the_edge_is_to_be_asked),
	    TEST(transfer__ends_when_the_edge_is_silent),
	    TEST(wait__goes_on_while_the_edge_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
