/* SPDX-License-Identifier: Apache-2.0 */
/* The relay's thread between a program and a worker: descriptors, answers, what is given up. The worker's end of the
 * rings is played here; `grants` says how many slots it gives in a turn. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "toy_gpu.h"
#include "no_log.h"
#include "no_log_limit.h"
#include "no_rdma.h"

#include "daemon/relay/relay_channel.c"
#include "daemon/relay/relay_execute.c"
#include "daemon/relay/relay_op.c"
#include "daemon/relay/relay_pieces.c"
#include "daemon/privileged/privileged_wire.c"
#include "daemon/relay/relay_wire.c"
#include "lib/lr_strerror.c"

#define REGION_BYTES 100000
#define SENT_MAX     4096

static int client_open(struct relay_thread *r, unsigned i);
static void client_ready(struct relay_thread *r, unsigned i);
static int export_to(struct relay_thread *r, const char *name, int fd);

/* The worker: what it was told, and what it has committed. */
struct relay_port {
	struct relay_command c[8192];
	uint32_t n;
	uint32_t grants; /* slots given in a turn */
	bool told;       /* notes of commits are given */
	uint32_t ncommitted, nsaid, nvoid, nfinished, finished[SENT_MAX];
	struct {
		uint32_t channel;
		struct relay_head head;
		size_t len;
		uint8_t data[64], last; /* the first of len, and the last one */
	} sent[SENT_MAX];
};

bool relay_port_command(struct relay_port *p, const struct relay_command *c)
{
	assert_true(p->n < 8192);
	p->c[p->n++] = *c;
	return true;
}

bool relay_port_has_room(struct relay_port *p)
{
	return p->n < 4096;
}

static unsigned nhellos;

void relay_say_hello(struct relay_thread *r)
{
	(void)r;
	nhellos++;
}

static void grant(struct relay_thread *r, const struct relay_command *c)
{
	static uint8_t slot[RELAY_CHUNK_MAX];
	struct relay_port *p = r->port[0];
	struct relay_note note = {.type = RELAY_TAKEN, .channel = c->channel, .token = c->token};
	uint32_t before = p->n;
	const uint8_t *data;
	size_t len;

	note.chunk = (struct relay_chunk){c->channel, 7, p->ncommitted + p->nvoid, slot, c->len};
	relay_channel_note(r, &note);
	for (uint32_t i = before; i < p->n; i++)
		if (p->c[i].type == RELAY_COMMIT && p->nsaid < SENT_MAX) {
			p->sent[p->nsaid].channel = c->channel;
			assert_true(relay_head_get(slot, c->len, &p->sent[p->nsaid].head, &data, &len));
			p->sent[p->nsaid].len = len;
			p->sent[p->nsaid].last = len > 0 ? data[len - 1] : 0;
			memcpy(p->sent[p->nsaid++].data, data, len < 64 ? len : 64);
		}
}

/* Some turns of the worker and of the thread. */
static void work_off(struct relay_thread *r, unsigned turns)
{
	static struct relay_command now[8192], kept[8192];
	struct relay_port *p = r->port[0];

	while (turns-- > 0) {
		uint32_t n, nkept = 0, ngranted = 0;

		relay_gpu_turn(r);
		relay_files_turn(r);
		relay_execute_deferred(r);
		relay_channels_pump(r);
		n = p->n;
		memcpy(now, p->c, n * sizeof(now[0]));
		p->n = 0;
		for (uint32_t i = 0; i < n; i++) {
			struct relay_note note = {.type = RELAY_COMMITTED, .channel = now[i].channel, .token = now[i].token};

			if ((now[i].type == RELAY_TAKE && ngranted == p->grants) || (now[i].type == RELAY_COMMIT && now[i].tell && !p->told)) {
				kept[nkept++] = now[i];
			} else if (now[i].type == RELAY_TAKE) {
				grant(r, &now[i]);
				ngranted++;
			} else if (now[i].type == RELAY_COMMIT) {
				p->ncommitted++;
				if (now[i].tell)
					relay_channel_note(r, &note);
			} else if (now[i].type == RELAY_GIVE_UP) {
				p->nvoid++;
			} else {
				assert_true(p->nfinished < SENT_MAX);
				p->finished[p->nfinished++] = now[i].slot;
			}
		}
		assert_true(p->n + nkept <= 8192);
		memcpy(p->c + p->n, kept, nkept * sizeof(kept[0]));
		p->n += nkept;
	}
}

static unsigned nsent(const struct relay_thread *r, uint8_t type)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < r->port[0]->nsaid; i++)
		n += r->port[0]->sent[i].head.type == type;
	return n;
}

static bool is_finished(const struct relay_thread *r, uint32_t slot)
{
	for (uint32_t i = 0; i < r->port[0]->nfinished; i++)
		if (r->port[0]->finished[i] == slot)
			return true;
	return false;
}

/* --- a thread with two programs --- */

static int program[2]; /* the programs' ends */

static int setup(void **state)
{
	struct relay_thread *r = calloc(1, sizeof(*r));

	r->config.lanes = 4;
	r->config.relay_gpu = true;
	memset(&toy, 0, sizeof(toy));
	r->nworkers = 1;
	r->nchannels = 4;
	r->instance = 1;
	r->started_ns = 0;
	r->region = calloc(RELAY_REGIONS, sizeof(*r->region));
	r->port[0] = calloc(1, sizeof(*r->port[0]));
	r->port[0]->grants = 1000;
	r->port[0]->told = true;
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	relay_thread_init(r);
	r->notify_fd = -1;
	for (unsigned i = 0; i < 2; i++)
		program[i] = client_open(r, i);
	nhellos = 0;
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct relay_thread *r = *state;

	for (uint32_t i = 0; i < 2; i++)
		relay_client_drop(r, &r->client[i]);
	for (uint32_t i = 0; i < RELAY_OPS; i++)
		if (r->op[i])
			relay_op_end(r, r->op[i]->id, LR_CANCELLED);
	for (uint32_t i = 0; i < r->nchannels; i++)
		relay_channel_free(r, &r->channel[i]);
	toy_finish(GPU_OK);
	for (int i = 0; i < 4; i++)
		relay_gpu_turn(r);
	assert_int_equal(toy.nopen + toy.ntaken, 0);
	assert_true(dlist_empty(&r->memories) && dlist_empty(&r->copies) && dlist_empty(&r->readers) && dlist_empty(&r->written[0]) &&
	            dlist_empty(&r->written[1]));
	for (uint32_t i = 0; i < RELAY_CALLS; i++)
		free(r->call[i].data);
	close(program[0]);
	close(program[1]);
	close(r->epoll_fd);
	free(r->port[0]);
	relay_files_close(r);
	free(r->region);
	free(r);
	return 0;
}

static int memory(size_t bytes)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	return fd;
}

static void send_to_daemon(unsigned i, const void *m, size_t len, int fd)
{
	assert_true(privileged_wire_send(program[i], m, len, fd, 0) >= 0);
}

/* The next message of that kind to the program; false: there is none. */
static bool hear(unsigned i, enum lr_msg_type type, struct lr_msg *m)
{
	static uint8_t buf[LR_MSG_MAX];

	while (recv(program[i], buf, sizeof(buf), MSG_DONTWAIT) >= (ssize_t)sizeof(*m)) {
		memcpy(m, buf, sizeof(*m));
		if (m->type == type)
			return true;
	}
	return false;
}

/* A request, and its answer's result. */
static int ask(struct relay_thread *r, unsigned i, const struct lr_msg *m, int fd, uint64_t *id)
{
	struct lr_msg a;

	send_to_daemon(i, m, sizeof(*m), fd);
	client_ready(r, i);
	assert_true(hear(i, LRM_ANSWER, &a));
	if (id)
		*id = a.id;
	return a.result;
}

/* A chunk of the other site comes; its slot is that number. */
static void come_bytes(struct relay_thread *r, uint32_t channel, const struct relay_head *h, const void *data, size_t len,
                       uint32_t slot)
{
	static uint8_t slots[32][RELAY_CHUNK_MAX];
	uint8_t *chunk = slots[slot % 32];
	struct relay_chunk c = {channel, slot, 0, chunk, (uint16_t)(RELAY_HEAD_LEN + len)};

	relay_head_put(chunk, h);
	if (len > 0)
		memcpy(chunk + RELAY_HEAD_LEN, data, len);
	relay_execute(r, &c);
}

static void come(struct relay_thread *r, uint32_t channel, const struct relay_head *h, const char *data, uint32_t slot)
{
	come_bytes(r, channel, h, data, data ? strlen(data) : 0, slot);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static unsigned open_files(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += is_open(fd);
	return n;
}

/* --- descriptors --- */

/* One number, one owner: what the thread has closed once it never closes again, as it is another's by then. */
static void closes_nothing_of_others(struct relay_thread *r, const struct lr_msg *m)
{
	unsigned before = open_files();
	int fd = memory(4096), other;
	uint64_t id;

	assert_int_equal(ask(r, 0, m, fd, &id), 0);
	close(fd);
	for (other = dup(program[1]); (unsigned)other < before; other = dup(program[1]))
		;
	for (int i = 0; i < 8; i++)
		other = dup(program[1]);
	before = open_files();
	relay_op_end(r, id, LR_NO_ROOM);
	work_off(r, 8);
	assert_int_equal(open_files(), before);
	for (int i = other; i > program[1] + 1; i--)
		if (i != r->epoll_fd)
			close(i);
}

static void serve_request__call_with_a_descriptor(void **state)
{
	closes_nothing_of_others(*state, &(struct lr_msg){.type = LRM_CALL, .serial = 1, .name = "s"});
}

static void serve_request__put_of_nothing_with_a_descriptor(void **state)
{
	closes_nothing_of_others(*state, &(struct lr_msg){.type = LRM_PUT, .serial = 1, .name = "r"});
}

static void receive__empty_message_with_a_descriptor(void **state)
{
	struct relay_thread *r = *state;
	unsigned before;
	int fd = memory(4096);

	send_to_daemon(0, NULL, 0, fd);
	before = open_files();
	client_ready(r, 0);
	assert_false(r->client[0].used);
	assert_int_equal(open_files(), before - 1); /* the client's */
	close(fd);
}

/* However they came about: a link has so many that are not closed, and takes no more. */
static void receive__no_descriptors_beyond_those_that_are_not_closed(void **state)
{
	struct lr_msg m = {.type = LRM_PUT, .serial = 1, .name = "r", .length = 4096};
	struct relay_thread *r = *state;
	int fd = memory(4096);
	unsigned before = open_files();
	uint64_t id;

	r->files.nunclosed = RELAY_UNCLOSED;
	assert_int_equal(ask(r, 0, &m, fd, NULL), -EIO);
	assert_int_equal(open_files(), before);
	assert_int_equal(r->count.relay_descriptors_refused, 1);
	assert_true(r->client[0].used);
	assert_int_equal(ask(r, 0, &(struct lr_msg){.type = LRM_CALL, .serial = 2, .name = "s"}, -1, &id), 0); /* needs none */
	r->files.nunclosed = RELAY_UNCLOSED - 1;
	assert_int_equal(ask(r, 0, &m, fd, &id), 0);
	assert_int_equal(r->count.relay_descriptors_refused, 1);
	r->files.nunclosed = 0;
	close(fd);
}

/* --- answers --- */

static struct relay_head put_end_of(uint64_t op)
{
	return (struct relay_head){.fence = true, .type = RW_PUT_END, .op = op, .length = 5, .name = "r"};
}

/* A kill between the end of a request and its answer may not leave the other site without: it would wait for ever. */
static void put_end__is_finished_when_its_answer_is_committed(void **state)
{
	struct relay_thread *r = *state;
	struct relay_head h = put_end_of(77);
	int fd = memory(REGION_BYTES);

	assert_int_equal(export_to(r, "r", fd), 0);
	r->port[0]->grants = 0;
	come(r, 0, &h, NULL, 11);
	work_off(r, 8);
	assert_false(is_finished(r, 11));
	r->port[0]->grants = 1000;
	r->port[0]->told = false;
	work_off(r, 8);
	assert_false(is_finished(r, 11));
	r->port[0]->told = true;
	work_off(r, 8);
	assert_true(is_finished(r, 11));
	assert_int_equal(nsent(r, RW_STATUS), 1);
	assert_int_equal(r->port[0]->nfinished, 1);
	close(fd);
}

/* What failed is remembered by the arena alone: after a kill the put's end would be answered with success. */
static void put__failed_chunk_is_finished_when_that_is_committed(void **state)
{
	struct relay_thread *r = *state;
	struct relay_head h = {.type = RW_PUT, .op = 77, .length = 5, .name = "nowhere"};

	r->port[0]->grants = 0;
	come(r, 0, &h, "bytes", 11);
	work_off(r, 8);
	assert_false(is_finished(r, 11));
	r->port[0]->grants = 1000;
	work_off(r, 8);
	assert_true(is_finished(r, 11));
	assert_int_equal(r->port[0]->sent[0].head.status, LR_NO_REGION);
}

static void on_refused__finishes_what_was_answered(void **state)
{
	struct relay_thread *r = *state;
	struct relay_head h = put_end_of(77);
	struct relay_note note = {.type = RELAY_REFUSED, .channel = 1};

	r->port[0]->grants = 0;
	come(r, 0, &h, NULL, 11);
	work_off(r, 1);
	note.token = r->port[0]->c[0].token;
	r->port[0]->n = 0;
	relay_channel_note(r, &note);
	work_off(r, 2);
	assert_true(is_finished(r, 11));
}

/* A get, and a put's chunk that was written, have nobody else to tell. */
static void relay_execute_has_room__for_the_end_and_for_the_word_of_it(void **state)
{
	struct relay_thread *r = *state;
	struct relay_write put = {.chunk = {.channel = 2}, .status = LR_IO_REMOTE}, written = {.chunk = {.channel = 2}};
	struct relay_write get = {.chunk = {.channel = 2}, .is_get = true, .status = LR_IO_LOCAL};

	assert_true(relay_execute_has_room(r, &put) && relay_execute_has_room(r, &get));
	r->channel[3].nmessages = RELAY_MESSAGES - 1;
	assert_true(relay_execute_has_room(r, &put));
	r->channel[3].nmessages = RELAY_MESSAGES;
	assert_false(relay_execute_has_room(r, &put));
	assert_true(relay_execute_has_room(r, &written));
	assert_true(relay_execute_has_room(r, &get));
	r->channel[3].nmessages = 0;
	r->port[0]->n = 4096; /* the worker's ring */
	assert_false(relay_execute_has_room(r, &written));
	assert_false(relay_execute_has_room(r, &get));
	r->port[0]->n = 0;
}

/* --- what is given up --- */

static uint64_t begin(struct relay_thread *r, unsigned i, uint32_t type, uint64_t length, int fd)
{
	struct lr_msg m = {.type = type, .serial = 1, .length = length, .name = "r"};
	uint64_t id;

	assert_int_equal(ask(r, i, &m, fd, &id), 0);
	return id;
}

static void relay_op_cancel__nothing_more_is_read_of_a_put(void **state)
{
	struct relay_thread *r = *state;
	int fd = memory(64 << 20);
	uint64_t id = begin(r, 0, LRM_PUT, 64 << 20, fd);

	r->port[0]->grants = 0;
	work_off(r, 3);
	assert_int_equal(ask(r, 0, &(struct lr_msg){.type = LRM_CANCEL, .serial = 2, .id = id}, -1, NULL), 0);
	r->port[0]->grants = RELAY_TAKES / 4;
	work_off(r, 40);
	assert_int_equal(r->port[0]->ncommitted, 0);
	assert_true(r->port[0]->nvoid <= RELAY_TAKES);
	close(fd);
}

static void cancel_get__nothing_more_is_read(void **state)
{
	struct relay_thread *r = *state;
	struct relay_head h = {.type = RW_GET, .op = 77, .name = "r"}, over = {.type = RW_CANCEL, .op = 77};
	int fd = memory(REGION_BYTES * 100);

	assert_int_equal(export_to(r, "r", fd), 0);
	r->region[0].size = REGION_BYTES * 100;
	r->port[0]->grants = 0;
	come(r, 0, &h, NULL, 11);
	work_off(r, 3);
	come(r, 0, &over, NULL, 12);
	r->port[0]->grants = RELAY_TAKES / 4;
	work_off(r, 40);
	assert_true(r->port[0]->nvoid + r->port[0]->ncommitted <= RELAY_TAKES);
	assert_false(r->get[0].used);
	close(fd);
}

static void relay_client_drop__get_is_cancelled_there(void **state)
{
	struct relay_thread *r = *state;
	int fd = memory(4096);

	begin(r, 0, LRM_GET, 4096, fd);
	work_off(r, 3);
	assert_int_equal(nsent(r, RW_GET), 1);
	relay_client_drop(r, &r->client[0]);
	work_off(r, 3);
	assert_int_equal(nsent(r, RW_CANCEL), 1);
	close(fd);
}

/* A program that comes and goes while the line is down. */
static void relay_op_end__nothing_is_left_to_be_said(void **state)
{
	struct relay_thread *r = *state;
	int fd = memory(4096);

	r->port[0]->grants = 0;
	for (int i = 0; i < 300; i++) {
		uint64_t id = begin(r, 0, i % 2 ? LRM_CALL : LRM_GET, 4096, i % 2 ? -1 : fd);

		work_off(r, 1);
		assert_int_equal(ask(r, 0, &(struct lr_msg){.type = LRM_CANCEL, .serial = 2, .id = id}, -1, NULL), 0);
	}
	assert_true(r->channel[0].nmessages + r->channel[2].nmessages <= 2 * RELAY_TAKES);
	r->port[0]->grants = 1000;
	work_off(r, 10);
	assert_int_equal(nsent(r, RW_GET) + nsent(r, RW_CALL), 0);
	assert_int_equal(r->channel[0].nmessages + r->channel[2].nmessages, 0);
	close(fd);
}

/* A program's end tells nothing to a socket that is closed: its number may be another's. */
static void relay_client_drop__tells_nobody(void **state)
{
	struct relay_thread *r = *state;
	int fd = memory(4096);
	uint64_t first = begin(r, 0, LRM_PUT, 4096, fd);
	struct lr_msg m = {.type = LRM_PUT, .serial = 3, .name = "r", .after = first};

	assert_int_equal(ask(r, 0, &m, -1, NULL), 0);
	relay_client_drop(r, &r->client[0]);
	assert_null(r->client[0].unsent);
	assert_int_equal(r->client[0].unsent_bytes, 0);
	close(fd);
}

/* --- order --- */

static void relay_op_begin__after_one_that_has_failed(void **state)
{
	struct relay_thread *r = *state;
	int fd = memory(4096);
	uint64_t first = begin(r, 0, LRM_PUT, 4096, fd);
	struct lr_msg m = {.type = LRM_PUT, .serial = 3, .name = "r", .after = first}, ev;

	relay_op_end(r, first, LR_IO_REMOTE);
	work_off(r, 4);
	assert_int_equal(ask(r, 0, &m, -1, NULL), 0);
	while (hear(0, LRM_EVENT, &ev) && ev.id == first)
		;
	assert_int_equal(ev.type, LRM_EVENT);
	assert_int_equal(ev.status, LR_BEFORE_FAILED);
	assert_int_equal(r->nops, 0);
	work_off(r, 4);
	assert_int_equal(nsent(r, RW_PUT_END), 0);
	close(fd);
}

/* A file that is not in memory. */
static int disk(void)
{
	int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	assert_true(fd >= 0 && ftruncate(fd, REGION_BYTES) == 0);
	return fd;
}

/* What is got would wait for the other site to take answers, and the other site the same way. */
static void relay_files_turn__a_get_does_not_wait_behind_a_put_that_failed(void **state)
{
	struct relay_thread *r = *state;
	unsigned before = open_files();
	int theirs = disk(), mine = disk();
	uint64_t id;

	assert_int_equal(export_to(r, "r", theirs), 0);
	id = begin(r, 0, LRM_GET, 4096, mine);
	work_off(r, 2);
	come(r, 0, &(struct relay_head){.type = RW_PUT, .op = 9ull << 32 | 1, .length = 3, .name = "r"}, "put", 31);
	relay_region_drop(r, relay_region_find(r, (char[LR_NAME_MAX]){"r"}));
	r->channel[1].nmessages += RELAY_MESSAGES;
	work_off(r, 1); /* the put has failed */
	come(r, 1, &(struct relay_head){.type = RW_GET_DATA, .op = id, .length = 4}, "data", 32);
	for (int i = 0; i < 2000 && !is_finished(r, 32); i++) {
		work_off(r, 1);
		usleep(1000);
	}
	assert_true(is_finished(r, 32));
	assert_false(is_finished(r, 31));
	r->channel[1].nmessages -= RELAY_MESSAGES;
	work_off(r, 3);
	assert_true(is_finished(r, 31));
	relay_op_end(r, id, LR_CANCELLED);
	work_off(r, 3);
	close(theirs);
	close(mine);
	for (int i = 0; i < 2000 && open_files() > before; i++)
		usleep(1000); /* the mount's thread closes what the relay had of them; other tests count descriptors */
	assert_int_equal(open_files(), before);
}

/* --- starts --- */

static void hello(struct relay_thread *r, uint32_t instance)
{
	struct relay_head h = {.fence = true, .type = RW_HELLO, .value = instance};

	come(r, 1, &h, NULL, 5);
}

/* An edge that started after the other one has heard nothing of it: it is told, or it cannot know of the next start. */
static void relay_op_answer__start_is_answered(void **state)
{
	struct relay_thread *r = *state;

	hello(r, 9);
	assert_int_equal(nhellos, 1);
	hello(r, 9);
	assert_int_equal(nhellos, 1);
	hello(r, 11);
	assert_int_equal(nhellos, 2);
}

static void relay_op_answer__start_ends_what_the_one_before_asked(void **state)
{
	struct relay_thread *r = *state;
	struct relay_head get_9 = {.type = RW_GET, .op = 9ull << 32 | 1, .name = "r"},
	                  get_11 = {.type = RW_GET, .op = 11ull << 32 | 1, .name = "r"},
	                  call_9 = {.type = RW_CALL, .op = 9ull << 32 | 2, .value = 10, .name = "s"};
	int fd = memory(REGION_BYTES);

	assert_int_equal(export_to(r, "r", fd), 0);
	assert_int_equal(relay_execute_serve(r, &r->client[0], (char[LR_NAME_MAX]){"s"}), 0);
	r->port[0]->grants = 0;
	hello(r, 9);
	come(r, 0, &get_9, NULL, 1);
	come(r, 0, &call_9, "part", 2);
	come(r, 0, &get_11, NULL, 3);
	hello(r, 11);
	assert_null(get_find(r, get_9.op));
	assert_non_null(get_find(r, get_11.op));
	assert_false(r->call[0].used);
	close(fd);
}

/* --- channels --- */

static void hello_of_a_spreader(struct relay_thread *r, uint32_t instance)
{
	struct relay_head h = {.fence = true, .type = RW_HELLO, .value = instance, .length = RELAY_KNOWS_SPREAD};

	come(r, 1, &h, NULL, 5);
}

/* Workers of so many that have a channel of requests, a bit each. */
static unsigned asked(const struct relay_thread *r, uint32_t nworkers)
{
	unsigned workers = 0;

	for (uint32_t ch = 0; ch < RELAY_CHANNELS_MAX; ch++)
		if (relay_is_for_requests(r, ch))
			workers |= 1u << ch % nworkers;
	return workers;
}

/* The bytes of puts would keep half of the workers busy, and the others would idle. */
static void channels__requests_reach_all_workers(void **state)
{
	struct relay_thread *r = *state;

	hello(r, 9);
	assert_int_equal(asked(r, 4), 5); /* a relay of the first version looks for requests on even channels alone */
	hello_of_a_spreader(r, 10);
	for (uint32_t n = 1; n <= 32; n *= 2)
		assert_int_equal(asked(r, n), (1ull << n) - 1);
	for (uint32_t ch = 0; ch < RELAY_CHANNELS_MAX; ch++)
		assert_true(relay_is_for_requests(r, ch) != relay_is_for_requests(r, ch ^ 1));
}

/* Puts go on channels 0 and 2, later on 0 and 3. */
static void channels__follow_what_the_peer_knows(void **state)
{
	struct relay_thread *r = *state;
	struct lr_msg m = {.type = LRM_PUT, .serial = 1, .name = "r"};
	unsigned before = 0, after = 0;
	uint64_t id;

	hello(r, 9);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ask(r, 0, &m, -1, &id), 0);
		before |= 1u << relay_op_find(r, id)->ch->idx;
	}
	assert_int_equal(before, 1u << 0 | 1u << 2);
	hello_of_a_spreader(r, 10);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ask(r, 0, &m, -1, &id), 0);
		after |= 1u << relay_op_find(r, id)->ch->idx;
	}
	assert_int_equal(after, 1u << 0 | 1u << 3);
}

/* A request that came on channel 3 is answered on 2; a slot for an answer is asked for as such. */
static void channels__answer_goes_on_the_other_one(void **state)
{
	struct relay_thread *r = *state;
	struct relay_head end = {.fence = true, .type = RW_PUT_END, .value = r->instance, .op = 9ull << 32 | 1, .name = "r"};

	hello_of_a_spreader(r, 9);
	work_off(r, 2);
	come(r, 3, &end, NULL, 6);
	assert_int_equal(r->channel[2].nmessages, 1);
	assert_int_equal(r->channel[3].nmessages, 0);
	relay_channels_pump(r);
	assert_int_equal(r->port[0]->n, 1);
	assert_true(r->port[0]->c[0].answer);
}

/* 1 carries answers by either numbering, 0 requests. */
static void channels__carry_what_is_theirs(void **state)
{
	struct relay_thread *r = *state;

	come(r, 1, &(struct relay_head){.type = RW_GET, .op = 9ull << 32 | 1, .name = "r"}, NULL, 7);
	assert_int_equal(r->malformed, 1);
	come(r, 0, &(struct relay_head){.type = RW_STATUS, .op = 9ull << 32 | 1}, NULL, 8);
	assert_int_equal(r->malformed, 2);
}

/* --- GPU memory --- */

static void begin_gpu_export(unsigned i, const char *name, uint64_t size)
{
	struct {
		struct lr_msg m;
		struct lr_gpu memory;
	} x = {{.type = LRM_EXPORT_GPU, .serial = 70, .flags = LR_PEER_READ | LR_PEER_WRITE}, {.size = size}};

	memcpy(x.m.name, name, strlen(name));
	send_to_daemon(i, &x, sizeof(x), -1);
}

static void export_gpu(struct relay_thread *r, unsigned i, const char *name, uint64_t size)
{
	struct lr_msg a;

	begin_gpu_export(i, name, size);
	client_ready(r, i);
	relay_gpu_turn(r);
	assert_true(hear(i, LRM_ANSWER, &a));
	assert_int_equal(a.result, 0);
	assert_int_equal(a.serial, 70);
}

static void come_put(struct relay_thread *r, uint64_t op, uint64_t offset, const char *data, uint32_t slot)
{
	struct relay_head h = {.type = RW_PUT, .op = op, .offset = offset, .length = strlen(data), .name = "gpu"};

	come(r, 0, &h, data, slot);
}

static void break_gpu(struct relay_thread *r, enum gpu_end end)
{
	struct relay_memory *mem = dlist_entry(dlist_first(&r->memories), struct relay_memory, node);

	mem->gpu.end = end;
	toy_note((struct gpu_note){.type = GPU_BROKEN, .memory = &mem->gpu, .end = end});
}

static unsigned nsent_for(const struct relay_thread *r, uint8_t type, uint64_t op)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < r->port[0]->nsaid; i++)
		n += r->port[0]->sent[i].head.type == type && r->port[0]->sent[i].head.op == op;
	return n;
}

static uint8_t status_for(const struct relay_thread *r, uint64_t op)
{
	for (uint32_t i = 0; i < r->port[0]->nsaid; i++)
		if (r->port[0]->sent[i].head.type == RW_STATUS && r->port[0]->sent[i].head.op == op)
			return r->port[0]->sent[i].head.status;
	return LR_OK;
}

static void relay_gpu_export__is_answered_when_it_is_open(void **state)
{
	struct relay_thread *r = *state;
	struct lr_msg a;

	begin_gpu_export(0, "gpu", 1000);
	begin_gpu_export(1, "gpu", 1000);
	client_ready(r, 0);
	assert_false(hear(0, LRM_ANSWER, &a));
	assert_null(relay_region_find(r, (char[LR_NAME_MAX]){"gpu"}));
	client_ready(r, 1);
	assert_true(hear(1, LRM_ANSWER, &a)); /* but its name is taken */
	assert_int_equal(a.result, -EEXIST);
	assert_int_equal(ask(r, 1, &(struct lr_msg){.type = LRM_REGIONS}, -1, NULL), 0);
	relay_gpu_turn(r);
	assert_true(hear(0, LRM_ANSWER, &a));
	assert_int_equal(a.result, 0);
	assert_non_null(relay_region_find(r, (char[LR_NAME_MAX]){"gpu"}));
	assert_int_equal(ask(r, 1, &(struct lr_msg){.type = LRM_REGIONS}, -1, NULL), 1);
}

static void relay_gpu_export__refused(void **state)
{
	struct relay_thread *r = *state;
	struct lr_msg a;

	toy.open_rc = -ENODEV;
	begin_gpu_export(0, "gpu", 1000);
	client_ready(r, 0);
	relay_gpu_turn(r);
	assert_true(hear(0, LRM_ANSWER, &a));
	assert_int_equal(a.result, -ENODEV);
	toy.open_rc = 0;
	for (unsigned i = 0; i < 4; i++)
		export_gpu(r, 0, (char[LR_NAME_MAX]){(char)('a' + i)}, 1000);
	begin_gpu_export(0, "gpu", 1000); /* more than there can be */
	client_ready(r, 0);
	assert_true(hear(0, LRM_ANSWER, &a));
	assert_int_equal(a.result, -ENOSPC);
	r->config.relay_gpu = false;
	begin_gpu_export(0, "gpu", 1000);
	client_ready(r, 0);
	assert_true(hear(0, LRM_ANSWER, &a));
	assert_int_equal(a.result, -EOPNOTSUPP);
}

/* A program that goes while its memory is being opened. */
/* Its descriptor is held until the memory is mapped, and not longer: it holds the program's allocation. */
static void relay_gpu_export__of_a_descriptor(void **state)
{
	struct relay_thread *r = *state;
	struct {
		struct lr_msg m;
		struct lr_gpu memory;
	} x = {{.type = LRM_EXPORT_GPU, .serial = 70, .length = 8192, .name = "gpu"}, {.offset = 4096, .size = 4097}};
	unsigned before;
	int fd = memory(8192);
	struct lr_msg a;

	before = open_files();
	send_to_daemon(1, &x, sizeof(x), fd);
	client_ready(r, 1);
	assert_true(hear(1, LRM_ANSWER, &a));
	assert_int_equal(a.result, -EINVAL); /* beyond the allocation */
	x.memory.size = 4096;
	send_to_daemon(1, &x, sizeof(x), fd);
	client_ready(r, 1);
	assert_int_equal(open_files(), before + 1);
	relay_gpu_turn(r);
	assert_true(hear(1, LRM_ANSWER, &a));
	assert_int_equal(a.result, 0);
	assert_int_equal(open_files(), before);
	memcpy(x.m.name, "gp2", 4);
	toy.open_rc = -ENOMEM;
	send_to_daemon(1, &x, sizeof(x), fd);
	client_ready(r, 1);
	relay_gpu_turn(r);
	assert_true(hear(1, LRM_ANSWER, &a));
	assert_int_equal(a.result, -ENOMEM);
	assert_int_equal(open_files(), before);
	close(fd);
}

static void relay_gpu_export__program_goes(void **state)
{
	struct relay_thread *r = *state;

	begin_gpu_export(0, "gpu", 1000);
	client_ready(r, 0);
	relay_client_drop(r, &r->client[0]);
	relay_gpu_turn(r);
	relay_gpu_turn(r);
	assert_int_equal(toy.nopen, 0);
}

/* A kill between has it written once more. */
static void put__is_finished_when_it_is_in_the_gpu(void **state)
{
	struct relay_thread *r = *state;

	export_gpu(r, 1, "gpu", 1000);
	toy.waits = true;
	come_put(r, 77, 100, "bytes", 11);
	come_put(r, 77, 105, "more", 12);
	come_put(r, 77, 998, "out", 13);
	work_off(r, 3);
	assert_false(is_finished(r, 11) || is_finished(r, 12));
	assert_int_equal(toy.nunder_way, 1); /* both, in one run */
	assert_int_equal(toy.under_way[0]->nruns, 1);
	assert_int_equal(status_for(r, 77), LR_OUT_OF_BOUNDS);
	toy_finish(GPU_OK);
	work_off(r, 1);
	assert_true(is_finished(r, 11) && is_finished(r, 12));
	assert_memory_equal(toy.memory + 100, "bytesmore", 9);
}

/* The program hears of it as well, and may take the region back before the block is given back: it is too late then. */
static void on_broken__is_said_before_the_region_goes(void **state)
{
	struct relay_thread *r = *state;
	struct lr_msg ev;

	export_gpu(r, 1, "gpu", 1000);
	toy.waits = true;
	come_put(r, 77, 100, "bytes", 11);
	work_off(r, 1);
	break_gpu(r, GPU_LOST);
	relay_gpu_turn(r);
	assert_true(hear(1, LRM_EVENT, &ev));
	assert_int_equal(ev.flags, LR_EV_LOST);
	assert_int_equal(ev.status, LR_GPU_LOST);
	come_put(r, 78, 100, "bytes", 12);
	relay_client_drop(r, &r->client[1]);
	come_put(r, 79, 100, "bytes", 13);
	work_off(r, 3);
	assert_int_equal(status_for(r, 77), LR_GPU_LOST);
	assert_int_equal(status_for(r, 78), LR_GPU_LOST);
	assert_int_equal(status_for(r, 79), LR_NO_REGION);
	assert_true(is_finished(r, 11) && is_finished(r, 12) && is_finished(r, 13));
	assert_int_equal(toy.nopen, 1); /* its copy is under way */
	toy_finish(GPU_LOST);
	work_off(r, 1);
	assert_int_equal(toy.nopen, 0);
}

static void plan_stream__others_go_while_a_gpu_is_slow(void **state)
{
	struct relay_thread *r = *state;
	struct relay_head gpu = {.type = RW_GET, .op = 77, .name = "gpu"}, file = {.type = RW_GET, .op = 78, .name = "r"};
	int fd = memory(REGION_BYTES);

	assert_int_equal(export_to(r, "r", fd), 0);
	export_gpu(r, 1, "gpu", TOY_BYTES);
	toy.waits = true;
	come(r, 0, &gpu, NULL, 11);
	come(r, 0, &file, NULL, 12);
	work_off(r, 10);
	assert_int_equal(nsent_for(r, RW_GET_DATA, 77), 0);
	assert_int_equal(nsent_for(r, RW_GET_DATA, 78), (REGION_BYTES + RELAY_DATA_MAX - 1) / RELAY_DATA_MAX);
	assert_int_equal(nsent_for(r, RW_GET_END, 78), 1);
	assert_int_equal(toy.nunder_way, RELAY_AHEAD);
	toy.waits = false;
	toy_finish(GPU_OK);
	work_off(r, 60);
	assert_int_equal(nsent_for(r, RW_GET_DATA, 77), TOY_BYTES / RELAY_DATA_MAX);
	assert_int_equal(nsent_for(r, RW_GET_END, 77), 1);
	close(fd);
}

static void relay_client_drop__ends_what_its_gpu_does(void **state)
{
	struct relay_thread *r = *state;
	struct relay_head get = {.type = RW_GET, .op = 78, .name = "gpu"};

	export_gpu(r, 1, "gpu", TOY_BYTES);
	toy.waits = true;
	come_put(r, 77, 100, "bytes", 11);
	come(r, 0, &get, NULL, 12);
	work_off(r, 3);
	relay_client_drop(r, &r->client[1]);
	work_off(r, 3);
	assert_int_equal(status_for(r, 78), LR_NO_REGION);
	assert_int_equal(toy.nopen, 1);
	toy_finish(GPU_OK);
	work_off(r, 3);
	assert_int_equal(toy.nopen, 0);
	assert_true(is_finished(r, 11));
}

static void relay_region_remove__is_answered_when_it_is_closed(void **state)
{
	struct relay_thread *r = *state;
	struct lr_msg m = {.type = LRM_UNEXPORT, .serial = 71, .name = "gpu"}, a;

	export_gpu(r, 1, "gpu", 1000);
	toy.waits = true;
	come_put(r, 77, 100, "bytes", 11);
	work_off(r, 1);
	send_to_daemon(1, &m, sizeof(m), -1);
	client_ready(r, 1);
	work_off(r, 2);
	assert_false(hear(1, LRM_ANSWER, &a));
	toy_finish(GPU_OK);
	work_off(r, 2);
	assert_true(hear(1, LRM_ANSWER, &a));
	assert_int_equal(a.serial, 71);
	assert_int_equal(a.result, 0);
}

/* A program's own memory in place of a descriptor, and nobody else's. */
static void use_local__of_the_program_itself(void **state)
{
	struct relay_thread *r = *state;
	struct lr_msg m = {.type = LRM_PUT, .serial = 1, .name = "r", .length = 5000, .local = "gpu"}, get = m;
	uint64_t id;

	export_gpu(r, 1, "gpu", 8192);
	assert_int_equal(ask(r, 0, &m, -1, NULL), -ENOENT);
	assert_int_equal(ask(r, 1, &m, -1, &id), 0);
	work_off(r, 5);
	assert_int_equal(nsent_for(r, RW_PUT, id), 2);
	assert_int_equal(nsent_for(r, RW_PUT_END, id), 1);
	m.offset = 8000;
	assert_int_equal(ask(r, 1, &m, -1, NULL), -ERANGE);
	get.type = LRM_GET;
	get.length = 0; /* to the memory's end */
	assert_int_equal(ask(r, 1, &get, -1, &id), 0);
	work_off(r, 2);
	toy.waits = true;
	come(r, 1, &(struct relay_head){.type = RW_GET_DATA, .op = id, .offset = 4096, .length = 4}, "here", 21);
	work_off(r, 2);
	assert_false(is_finished(r, 21));
	toy_finish(GPU_OK);
	work_off(r, 2);
	assert_true(is_finished(r, 21));
	assert_memory_equal(toy.memory + 4096, "here", 4);
	come(r, 1, &(struct relay_head){.type = RW_GET_DATA, .op = id, .offset = 8190, .length = 4}, "over", 22);
	work_off(r, 1);
	assert_true(is_finished(r, 22));
	assert_null(relay_op_find(r, id));
}

/* Unexports "gpu" of program 1. Returns whether it was answered, which it is when the memory is closed. */
static bool unexport_gpu(struct relay_thread *r)
{
	struct lr_msg m = {.type = LRM_UNEXPORT, .serial = 71, .name = "gpu"}, a;

	send_to_daemon(1, &m, sizeof(m), -1);
	client_ready(r, 1);
	work_off(r, 3);
	return hear(1, LRM_ANSWER, &a) && a.serial == 71 && a.result == 0 && toy.nopen == 0;
}

/* The line may be down for hours: RW_STATUS comes as late. */
static void relay_op_stream_over__put_in_the_buffer_needs_no_memory(void **state)
{
	struct lr_msg m = {.type = LRM_PUT, .serial = 1, .name = "r", .length = 5000, .local = "gpu", .flags = LR_NEAR};
	struct lr_msg ev;
	struct relay_thread *r = *state;
	uint64_t id;

	export_gpu(r, 1, "gpu", 8192);
	assert_int_equal(ask(r, 1, &m, -1, &id), 0);
	work_off(r, 5);
	assert_true(hear(1, LRM_EVENT, &ev));
	assert_int_equal(ev.status, LR_OK);
	assert_true(unexport_gpu(r));
	assert_non_null(relay_op_find(r, id));
	come(r, 1, &(struct relay_head){.fence = true, .type = RW_STATUS, .op = id, .status = LR_NO_REGION}, NULL, 21);
	assert_true(hear(1, LRM_EVENT, &ev)); /* its failure is still told */
	assert_int_equal(ev.flags, LR_EV_LATE);
}

static void relay_client_drop__put_in_the_buffer_needs_no_memory(void **state)
{
	struct lr_msg m = {.type = LRM_PUT, .serial = 1, .name = "r", .length = 5000, .local = "gpu", .flags = LR_NEAR};
	struct relay_thread *r = *state;
	uint64_t id;

	export_gpu(r, 1, "gpu", 8192);
	assert_int_equal(ask(r, 1, &m, -1, &id), 0);
	work_off(r, 5);
	relay_client_drop(r, &r->client[1]);
	work_off(r, 3);
	assert_int_equal(toy.nopen, 0);
	assert_non_null(relay_op_find(r, id));
}

static void relay_gpu_forget__ends_operations_that_need_the_memory(void **state)
{
	struct lr_msg get = {.type = LRM_GET, .serial = 1, .name = "r", .length = 5000, .local = "gpu"}, put = get, ev;
	struct relay_thread *r = *state;
	unsigned nended = 0;
	uint64_t id[2];

	export_gpu(r, 1, "gpu", 8192);
	assert_int_equal(ask(r, 1, &get, -1, &id[0]), 0);
	put.type = LRM_PUT;
	put.after = id[0];
	assert_int_equal(ask(r, 1, &put, -1, &id[1]), 0);
	work_off(r, 3);
	relay_region_drop(r, relay_region_find(r, (char[LR_NAME_MAX]){"gpu"}));
	work_off(r, 3);
	assert_int_equal(toy.nopen, 0);
	while (hear(1, LRM_EVENT, &ev)) {
		assert_int_equal(ev.flags, LR_EV_DONE);
		assert_int_equal(ev.status, ev.id == id[0] ? LR_NO_REGION : LR_BEFORE_FAILED);
		nended++;
	}
	assert_int_equal(nended, 2);
	assert_int_equal(nsent_for(r, RW_CANCEL, id[0]), 1);
	come(r, 1, &(struct relay_head){.type = RW_GET_DATA, .op = id[0], .length = 4}, "late", 21);
	assert_true(is_finished(r, 21) || (work_off(r, 1), is_finished(r, 21)));
}

/* It waits for one that needs no memory, and may do so for long. */
static void relay_gpu_forget__ends_what_has_not_begun(void **state)
{
	struct lr_msg m = {.type = LRM_PUT, .serial = 1, .name = "r", .length = 5000, .local = "gpu"}, ev;
	struct relay_thread *r = *state;
	int fd = memory(4096);
	uint64_t id;

	export_gpu(r, 1, "gpu", 8192);
	m.after = begin(r, 1, LRM_GET, 4096, fd);
	assert_int_equal(ask(r, 1, &m, -1, &id), 0);
	assert_true(r->nwaiting == 1 && relay_op_find(r, id));
	relay_region_drop(r, relay_region_find(r, (char[LR_NAME_MAX]){"gpu"}));
	work_off(r, 3);
	assert_int_equal(toy.nopen, 0);
	assert_int_equal(r->nwaiting, 0);
	assert_true(hear(1, LRM_EVENT, &ev));
	assert_int_equal(ev.id, id);
	assert_int_equal(ev.status, LR_NO_REGION);
	close(fd);
}

/* --- memory that is withdrawn in the middle of a put --- */

static void withdraw(struct relay_thread *r, const char *name)
{
	char n[LR_NAME_MAX] = {0};

	memcpy(n, name, strlen(name));
	relay_region_drop(r, relay_region_find(r, n));
}

static void come_put_of(struct relay_thread *r, uint64_t op, const char *region, const char *data, uint32_t slot)
{
	struct relay_head h = {.type = RW_PUT, .op = op, .length = strlen(data)};

	memcpy(h.name, region, strlen(region));
	come(r, 0, &h, data, slot);
}

static void come_end_of(struct relay_thread *r, uint64_t op, const char *region, uint32_t slot)
{
	struct relay_head h = {.fence = true, .type = RW_PUT_END, .op = op, .length = 5};

	memcpy(h.name, region, strlen(region));
	come(r, 0, &h, "notice", slot);
}

static bool has_notice(void)
{
	struct lr_msg ev;

	return hear(1, LRM_EVENT, &ev) && ev.flags == LR_EV_NOTICE;
}

/* The first half lies in memory that nobody has any more. */
static void put_end__of_memory_that_was_withdrawn(void **state)
{
	struct relay_thread *r = *state;
	int first = memory(REGION_BYTES), second = memory(REGION_BYTES);
	const uint64_t start = 9ull << 32, op = start | 77;

	assert_int_equal(export_to(r, "r", first), 0);
	come_put_of(r, op, "r", "bytes", 11);
	come_put_of(r, op + 1, "r", "bytes", 12);
	withdraw(r, "r");
	assert_int_equal(export_to(r, "r", second), 0);
	come_end_of(r, op, "r", 13);
	come_put_of(r, op + 1, "r", "wrong", 14);
	work_off(r, 3);
	assert_int_equal(status_for(r, op), LR_NO_REGION);
	assert_int_equal(status_for(r, op + 1), LR_NO_REGION);
	assert_false(has_notice());
	come_put_of(r, op + 2, "r", "bytes", 15); /* one that begins now */
	come_end_of(r, op + 2, "r", 16);
	/* the same place of the other site's table, where the first put is over */
	come_put_of(r, op + RELAY_OPS, "r", "bytes", 17);
	come_end_of(r, op + RELAY_OPS, "r", 18);
	work_off(r, 3);
	assert_int_equal(status_for(r, op + 2), LR_OK);
	assert_int_equal(status_for(r, op + RELAY_OPS), LR_OK);
	assert_true(has_notice() && is_finished(r, 18));
	close(first);
	close(second);
}

static void put_end__of_gpu_memory_that_was_withdrawn(void **state)
{
	struct relay_thread *r = *state;
	int fd = memory(REGION_BYTES);

	export_gpu(r, 1, "gpu", 1000);
	come_put_of(r, 77, "gpu", "bytes", 11);
	come_put_of(r, 78, "gpu", "bytes", 12);
	work_off(r, 3);
	assert_true(is_finished(r, 11) && is_finished(r, 12));
	withdraw(r, "gpu");
	export_gpu(r, 1, "gpu", 1000);
	come_end_of(r, 77, "gpu", 13);
	work_off(r, 3);
	assert_int_equal(status_for(r, 77), LR_NO_REGION);
	withdraw(r, "gpu");
	assert_int_equal(export_to(r, "gpu", fd), 0); /* other memory under its name */
	come_end_of(r, 78, "gpu", 14);
	work_off(r, 3);
	assert_int_equal(status_for(r, 78), LR_NO_REGION);
	assert_false(has_notice());
	close(fd);
}

/* It keeps its bytes: a program that exports it again goes on where it was. */
static void put_end__of_a_file_that_was_withdrawn(void **state)
{
	struct relay_thread *r = *state;
	char path[] = "/dev/shm/longreach-test.XXXXXX", on_disk[] = "/tmp/longreach-test.XXXXXX";
	int fd[2] = {mkstemp(path), mkstemp(on_disk)};

	for (unsigned i = 0; i < 2; i++) {
		assert_true(fd[i] >= 0 && ftruncate(fd[i], REGION_BYTES) == 0);
		assert_int_equal(export_to(r, "r", fd[i]), 0);
		come_put_of(r, 77 + i, "r", "bytes", 11 + 2 * i);
		for (int tries = 0; tries < 500 && !is_finished(r, 11 + 2 * i); tries++, usleep(10000))
			work_off(r, 1);
		withdraw(r, "r");
		assert_int_equal(export_to(r, "r", fd[i]), 0);
		come_end_of(r, 77 + i, "r", 12 + 2 * i);
		work_off(r, 3);
		assert_int_equal(nsent_for(r, RW_STATUS, 77 + i), 1);
		assert_int_equal(status_for(r, 77 + i), LR_OK);
		assert_true(has_notice());
		withdraw(r, "r");
		close(fd[i]);
	}
	unlink(path);
	unlink(on_disk);
}

/* Puts survive starts of the other relay, and each start numbers anew. */
static void bind_put__same_number_of_several_starts(void **state)
{
	struct relay_thread *r = *state;
	int first = memory(REGION_BYTES), second = memory(REGION_BYTES);

	assert_int_equal(export_to(r, "r", first), 0);
	for (uint64_t start = 1; start <= RELAY_STARTS; start++)
		come_put_of(r, start << 32 | 77, "r", "bytes", 10 + (uint32_t)start);
	withdraw(r, "r");
	assert_int_equal(export_to(r, "r", second), 0);
	for (uint64_t start = 1; start <= RELAY_STARTS; start++)
		come_end_of(r, start << 32 | 77, "r", 20 + (uint32_t)start);
	work_off(r, 3);
	for (uint64_t start = 1; start <= RELAY_STARTS; start++)
		assert_int_equal(status_for(r, start << 32 | 77), LR_NO_REGION);
	close(first);
	close(second);
}

/* This relay has started again. A put that began before may have written into memory that went with its program. */
static void bound_check__put_of_a_start_before(void **state)
{
	static const struct {
		uint32_t began, lived;
		enum lr_status status;
	} row[] = {{5, 0, LR_PEER_RESTARTED}, {5, 6, LR_PEER_RESTARTED}, {5, 5, LR_OK}, {1, 0, LR_OK}, {0, 0, LR_OK}};
	struct relay_thread *r = *state;

	for (uint32_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct relay_head h = {.type = RW_PUT, .op = 77 + i, .length = 5, .value = row[i].began, .name = "r"};
		struct lr_msg m = {.type = LRM_EXPORT, .flags = LR_PEER_WRITE, .length = 4096, .name = "r"};
		int fd = memory(4096);
		char byte = 0;

		memcpy(m.local + 8, &row[i].lived, sizeof(row[i].lived));
		assert_int_equal(ask(r, 1, &m, fd, NULL), 0);
		if (i % 2 == 0) /* else all its bytes were written before */
			come(r, 0, &h, "bytes", 2 * i);
		h.type = RW_PUT_END;
		h.fence = true;
		come(r, 0, &h, "notice", 2 * i + 1);
		work_off(r, 3);
		assert_int_equal(status_for(r, h.op), row[i].status);
		assert_int_equal(has_notice(), row[i].status == LR_OK);
		assert_int_equal(pread(fd, &byte, 1, 0), 1);
		assert_int_equal(byte, row[i].status == LR_OK && i % 2 == 0 ? 'b' : 0);
		withdraw(r, "r");
		close(fd);
	}
}

static void start_put__says_which_start_it_knows(void **state)
{
	struct relay_thread *r = *state;
	int fd = memory(4096);
	uint64_t before = begin(r, 0, LRM_PUT, 4096, fd), after;

	work_off(r, 2);
	hello(r, 9);
	after = begin(r, 0, LRM_PUT, 4096, fd);
	work_off(r, 2);
	for (uint32_t i = 0; i < r->port[0]->nsaid; i++)
		if (r->port[0]->sent[i].head.op == after)
			assert_int_equal(r->port[0]->sent[i].head.value, 9);
	assert_int_equal(nsent_for(r, RW_PUT_END, after), 1);
	hello(r, 11);
	assert_null(relay_op_find(r, before)); /* the other relay cannot know which start it belongs to */
	assert_non_null(relay_op_find(r, after));
	close(fd);
}

/* --- names of exports --- */

static int serve_as(struct relay_thread *r, unsigned i, const char *service)
{
	struct lr_msg m = {.type = LRM_SERVE, .serial = 80};

	memcpy(m.name, service, strlen(service));
	return ask(r, i, &m, -1, NULL);
}

static int export_by(struct relay_thread *r, unsigned i, const char *name)
{
	struct lr_msg m = {.type = LRM_EXPORT, .serial = 81, .flags = LR_PEER_WRITE, .length = 4096};
	int fd = memory(4096), rc;

	memcpy(m.name, name, strlen(name));
	rc = ask(r, i, &m, fd, NULL);
	close(fd);
	return rc;
}

/* A member of Group= could otherwise be there first when the daemon has started, and take an export's files. */
static void may_name__exports_are_of_root_and_the_daemon(void **state)
{
	struct relay_thread *r = *state;

	assert_int_equal(serve_as(r, 0, "copy:x"), -EPERM);
	assert_int_equal(serve_as(r, 0, "push:x"), -EPERM);
	assert_int_equal(serve_as(r, 0, "copy:pull.x"), -EPERM); /* [Export pull.x] */
	assert_int_equal(export_by(r, 0, "copy.0123456789abcdef"), -EPERM);
	assert_int_equal(serve_as(r, 0, "copier"), 0);
	assert_int_equal(export_by(r, 0, "copied"), 0);
	r->client[1].is_privileged = true;
	assert_int_equal(serve_as(r, 1, "copy:x"), 0);
	assert_int_equal(serve_as(r, 1, "push:x"), 0);
	assert_int_equal(export_by(r, 1, "copy.0123456789abcdef"), 0);
}

/* longreach copy from the other site: any program may be the one that is filled, but not in the name of an export. */
static void may_name__copies_to_here_are_anybodys(void **state)
{
	struct relay_thread *r = *state;

	assert_int_equal(export_by(r, 0, "copy.pull.0123456789abcdef"), -EPERM);
	assert_int_equal(serve_as(r, 0, "copy:pull.0123456789abcdef"), 0);
	assert_int_equal(export_by(r, 0, "copy.pull.0123456789abcdef"), 0);
	assert_int_equal(export_by(r, 0, "copy.0123456789abcdef"), -EPERM);
	assert_int_equal(serve_as(r, 0, "copy:x"), -EPERM);
}

/* --- vectors --- */

static uint8_t pattern(uint64_t at)
{
	return (uint8_t)(at * 2654435761u >> 13);
}

static int patterned(size_t bytes)
{
	int fd = memory(bytes);

	for (size_t i = 0; i < bytes; i++) {
		uint8_t b = pattern(i);

		assert_int_equal(pwrite(fd, &b, 1, (off_t)i), 1);
	}
	return fd;
}

/* A request of pieces, and a notice behind them. */
static int ask_vector(struct relay_thread *r, struct lr_msg *m, const struct lr_piece *piece, size_t n, const char *notice, int fd,
                      uint64_t *id)
{
	static uint8_t message[LR_MSG_MAX];
	struct lr_msg a = {0};

	m->id = n;
	m->length = 0;
	for (size_t i = 0; i < n; i++)
		m->length += piece[i].length;
	memcpy(message, m, sizeof(*m));
	memcpy(message + sizeof(*m), piece, n * sizeof(*piece));
	memcpy(message + sizeof(*m) + n * sizeof(*piece), notice, strlen(notice));
	send_to_daemon(1, message, sizeof(*m) + n * sizeof(*piece) + strlen(notice), fd);
	client_ready(r, 1);
	assert_true(hear(1, LRM_ANSWER, &a));
	*id = a.id;
	return a.result;
}

static void expect_chunk(const struct relay_thread *r, uint32_t i, uint8_t type, uint64_t offset, size_t len, uint64_t from)
{
	const struct relay_head *h = &r->port[0]->sent[i].head;

	assert_int_equal(h->type, type);
	assert_int_equal(h->offset, offset);
	assert_int_equal(r->port[0]->sent[i].len, len);
	for (uint64_t b = 0; b < len && b < 64; b++)
		assert_int_equal(r->port[0]->sent[i].data[b], pattern(from + b));
	assert_int_equal(r->port[0]->sent[i].last, pattern(from + len - 1));
}

static void vector__put_says_where_each_piece_belongs(void **state)
{
	static const struct lr_piece piece[] = {{10, 5000, 5000}, {7000, 0, 3}, {0, 20000, 4096}};
	struct relay_thread *r = *state;
	struct lr_msg m = {.type = LRM_PUTV, .serial = 1, .name = "r"};
	int fd = patterned(20000);
	struct relay_head *end;
	uint64_t id;

	assert_int_equal(ask_vector(r, &m, piece, 3, "all", fd, &id), 0);
	work_off(r, 5);
	assert_int_equal(r->port[0]->nsaid, 5);
	expect_chunk(r, 0, RW_PUT, 5000, 4096, 10);
	expect_chunk(r, 1, RW_PUT, 9096, 904, 4106);
	expect_chunk(r, 2, RW_PUT, 0, 3, 7000);
	expect_chunk(r, 3, RW_PUT, 20000, 4096, 0);
	end = &r->port[0]->sent[4].head;
	assert_int_equal(end->type, RW_PUT_END);
	assert_int_equal(end->offset, 0);
	assert_int_equal(end->length, 24096); /* what encloses all of them */
	assert_memory_equal(r->port[0]->sent[4].data, "all", 3);
	come(r, 1, &(struct relay_head){.fence = true, .type = RW_STATUS, .op = id}, NULL, 3);
	assert_true(hear(1, LRM_EVENT, &m));
	assert_int_equal(m.status, LR_OK);
	assert_int_equal(m.length, 9099);
	close(fd);
}

static void vector__get_puts_each_piece_in_its_place(void **state)
{
	static const struct lr_piece piece[] = {{100, 70, 10}, {0, 9000, 4}};
	static const uint8_t asked[] = {0, 0, 0, 0, 0, 0, 0, 70,   0, 0, 0, 0, 0, 0, 0, 10,
	                                0, 0, 0, 0, 0, 0, 35, 40, 0, 0, 0, 0, 0, 0, 0, 4};
	struct relay_thread *r = *state;
	struct lr_msg m = {.type = LRM_GETV, .serial = 1, .name = "r"};
	int fd = memory(4096);
	char text[128] = {0};
	uint64_t id;

	assert_int_equal(ask_vector(r, &m, piece, 2, "", fd, &id), 0);
	work_off(r, 2);
	assert_int_equal(r->port[0]->sent[0].head.type, RW_GET);
	assert_int_equal(r->port[0]->sent[0].head.value, 2);
	assert_int_equal(r->port[0]->sent[0].head.length, 14);
	assert_int_equal(r->port[0]->sent[0].len, sizeof(asked));
	assert_memory_equal(r->port[0]->sent[0].data, asked, sizeof(asked));
	come(r, 1, &(struct relay_head){.type = RW_GET_DATA, .op = id, .offset = 10}, "four", 1);
	come(r, 1, &(struct relay_head){.type = RW_GET_DATA, .op = id, .offset = 0}, "ten bytes!", 2);
	assert_int_equal(pread(fd, text, 128, 0), 128);
	assert_memory_equal(text, "four", 4);
	assert_memory_equal(text + 100, "ten bytes!", 10);
	assert_int_equal(text[4] | text[99] | text[110], 0);
	come(r, 1, &(struct relay_head){.fence = true, .type = RW_GET_END, .op = id, .length = 14}, NULL, 3);
	assert_true(hear(1, LRM_EVENT, &m));
	assert_int_equal(m.status, LR_OK);
	close(fd);
}

/* Bytes of two pieces in one chunk would be written over what lies behind the first. */
static void vector__chunk_over_two_pieces_ends_the_get(void **state)
{
	static const struct lr_piece piece[] = {{100, 70, 10}, {0, 9000, 4}};
	struct relay_thread *r = *state;
	struct lr_msg m = {.type = LRM_GETV, .serial = 1, .name = "r"};
	int fd = memory(4096);
	char text[128] = {0};
	uint64_t id;

	assert_int_equal(ask_vector(r, &m, piece, 2, "", fd, &id), 0);
	work_off(r, 2);
	come(r, 1, &(struct relay_head){.type = RW_GET_DATA, .op = id, .offset = 8}, "over", 1);
	assert_true(hear(1, LRM_EVENT, &m));
	assert_int_equal(m.status, LR_OUT_OF_BOUNDS);
	assert_int_equal(pread(fd, text, 128, 0), 128);
	assert_int_equal(text[108] | text[110] | text[0], 0);
	close(fd);
}

static void piece_of(uint8_t *to, uint64_t offset, uint64_t length)
{
	put_be64(to, offset);
	put_be64(to + 8, length);
}

static void vector__the_other_sites_get_is_read_piece_by_piece(void **state)
{
	struct relay_thread *r = *state;
	struct relay_head h = {.type = RW_GET, .op = 77, .name = "r", .value = 2, .length = 4100 + 7};
	int fd = patterned(REGION_BYTES);
	uint8_t pieces[2 * RELAY_PIECE_LEN];

	assert_int_equal(export_to(r, "r", fd), 0);
	piece_of(pieces, 50000, 4100);
	piece_of(pieces + RELAY_PIECE_LEN, 3, 7);
	come_bytes(r, 0, &h, pieces, sizeof(pieces), 1);
	work_off(r, 5);
	assert_int_equal(r->port[0]->nsaid, 4);
	expect_chunk(r, 0, RW_GET_DATA, 0, 4096, 50000);
	expect_chunk(r, 1, RW_GET_DATA, 4096, 4, 54096);
	expect_chunk(r, 2, RW_GET_DATA, 4100, 7, 3);
	assert_int_equal(r->port[0]->sent[3].head.type, RW_GET_END);
	assert_int_equal(r->port[0]->sent[3].head.length, 4107);
	close(fd);
}

/* Each piece must lie in the region, and what is said of them must be so. */
static void vector__the_other_sites_get_out_of_bounds(void **state)
{
	struct relay_thread *r = *state;
	struct relay_head h = {.type = RW_GET, .op = 77, .name = "r", .value = 2, .length = 17};
	static const uint64_t bad[][4] = {{0, 10, REGION_BYTES, 7},   {REGION_BYTES - 9, 10, 0, 7}, {0, 10, 0, 8},
	                                  {0, 17, 0, 0},              {0, 10, UINT64_MAX, 7},       {0, UINT64_MAX, 0, 18}};
	int fd = memory(REGION_BYTES);
	uint8_t pieces[2 * RELAY_PIECE_LEN];
	unsigned n = 0;

	assert_int_equal(export_to(r, "r", fd), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		piece_of(pieces, bad[i][0], bad[i][1]);
		piece_of(pieces + RELAY_PIECE_LEN, bad[i][2], bad[i][3]);
		h.op++;
		come_bytes(r, 0, &h, pieces, sizeof(pieces), 1);
		n++;
	}
	piece_of(pieces, 0, 10);
	piece_of(pieces + RELAY_PIECE_LEN, 0, 7);
	h.op++;
	come_bytes(r, 0, &h, pieces, sizeof(pieces) - 1, 1); /* cut short */
	h.op++;
	h.value = LR_PIECES_MAX + 1;
	come_bytes(r, 0, &h, pieces, sizeof(pieces), 1);
	h.op++;
	h.value = 2;
	h.offset = REGION_BYTES; /* what lies behind the region in its file */
	come_bytes(r, 0, &h, pieces, sizeof(pieces), 1);
	n += 3;
	work_off(r, 5);
	assert_int_equal(nsent(r, RW_GET_DATA), 0);
	assert_int_equal(nsent(r, RW_STATUS), n);
	for (uint32_t i = 0; i < r->port[0]->nsaid; i++)
		assert_int_equal(r->port[0]->sent[i].head.status, LR_OUT_OF_BOUNDS);
	close(fd);
}

/* Blocks of a GPU end where no chunk does. */
static void vector__of_gpu_memory(void **state)
{
	static const struct lr_piece piece[] = {{1, 0, (1u << 20) + 5}, {3u << 20, 2u << 20, 10}, {100, 4u << 20, (1u << 20) - 1}};
	struct relay_thread *r = *state;
	struct lr_msg m = {.type = LRM_PUTV, .serial = 1, .name = "r", .local = "gpu"};
	uint64_t id, got = 0;

	export_gpu(r, 1, "gpu", TOY_BYTES);
	for (uint32_t i = 0; i < TOY_BYTES; i++)
		toy.memory[i] = pattern(i);
	assert_int_equal(ask_vector(r, &m, piece, 3, "", -1, &id), 0);
	work_off(r, 60);
	for (uint32_t i = 0; i < r->port[0]->nsaid; i++) {
		uint64_t at = r->port[0]->sent[i].head.offset;

		if (r->port[0]->sent[i].head.type != RW_PUT)
			continue;
		got += r->port[0]->sent[i].len;
		expect_chunk(r, i, RW_PUT, at, r->port[0]->sent[i].len,
		             at < 2u << 20   ? at + 1
		             : at < 4u << 20 ? at + (1u << 20)
		                             : at - (4u << 20) + 100);
	}
	assert_int_equal(got, m.length);
	assert_int_equal(nsent(r, RW_PUT_END), 1);
}

static void vector__that_makes_no_sense_is_refused(void **state)
{
	static const struct lr_piece good[LR_PIECES_MAX + 1] = {{0, 0, 8}}, empty[] = {{0, 0, 8}, {9, 9, 0}},
	                             wraps[] = {{0, INT64_MAX, 8}}, far[] = {{0, 0, 8}, {8190, 8, 4}};
	struct relay_thread *r = *state;
	struct lr_msg m = {.type = LRM_PUTV, .serial = 1, .name = "r"}, local = m;
	int fd = memory(4096);
	uint64_t id;

	assert_int_equal(ask_vector(r, &m, good, 0, "", fd, &id), -EINVAL);
	assert_int_equal(ask_vector(r, &m, good, LR_PIECES_MAX + 1, "", fd, &id), -EINVAL);
	assert_int_equal(ask_vector(r, &m, empty, 2, "", fd, &id), -EINVAL);
	assert_int_equal(ask_vector(r, &m, wraps, 1, "", fd, &id), -EINVAL);
	assert_int_equal(ask_vector(r, &m, good, 1, "", -1, &id), -EINVAL);
	m.offset = 1;
	assert_int_equal(ask_vector(r, &m, good, 1, "", fd, &id), -EINVAL);
	m.offset = 0;
	m.type = LRM_GETV;
	assert_int_equal(ask_vector(r, &m, good, 1, "notice", fd, &id), -EINVAL);
	export_gpu(r, 1, "gpu", 8192);
	memcpy(local.local, "gpu", 4);
	assert_int_equal(ask_vector(r, &local, far, 2, "", -1, &id), -ERANGE);
	assert_int_equal(ask_vector(r, &local, good, 1, "", -1, &id), 0);
	close(fd);
}

/* It would take a get of pieces for one of its first bytes, or do nothing. */
static void vector__get_of_a_relay_that_knows_none(void **state)
{
	static const struct lr_piece piece[] = {{0, 0, 8}};
	struct relay_thread *r = *state;
	struct lr_msg m = {.type = LRM_GETV, .serial = 1, .name = "r"}, ev;
	int fd = memory(4096);
	uint64_t id;

	assert_int_equal(ask_vector(r, &m, piece, 1, "", fd, &id), 0); /* it has not said yet */
	work_off(r, 2);
	hello(r, 9);
	assert_true(hear(1, LRM_EVENT, &ev));
	assert_int_equal(ev.status, LR_OLD_PEER);
	assert_int_equal(ask_vector(r, &m, piece, 1, "", fd, &id), 0);
	client_ready(r, 1);
	assert_null(relay_op_find(r, id));
	come(r, 1, &(struct relay_head){.fence = true, .type = RW_HELLO, .value = 10, .length = RELAY_KNOWS_PIECES}, NULL, 5);
	assert_int_equal(ask_vector(r, &m, piece, 1, "", fd, &id), 0);
	assert_non_null(relay_op_find(r, id));
	close(fd);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(serve_request__call_with_a_descriptor),
	    TEST(serve_request__put_of_nothing_with_a_descriptor),
	    TEST(receive__empty_message_with_a_descriptor),
	    TEST(receive__no_descriptors_beyond_those_that_are_not_closed),
	    TEST(put_end__is_finished_when_its_answer_is_committed),
	    TEST(put__failed_chunk_is_finished_when_that_is_committed),
	    TEST(on_refused__finishes_what_was_answered),
	    TEST(relay_execute_has_room__for_the_end_and_for_the_word_of_it),
	    TEST(relay_op_cancel__nothing_more_is_read_of_a_put),
	    TEST(cancel_get__nothing_more_is_read),
	    TEST(relay_client_drop__get_is_cancelled_there),
	    TEST(relay_op_end__nothing_is_left_to_be_said),
	    TEST(relay_client_drop__tells_nobody),
	    TEST(relay_op_begin__after_one_that_has_failed),
	    TEST(relay_files_turn__a_get_does_not_wait_behind_a_put_that_failed),
	    TEST(relay_op_answer__start_is_answered),
	    TEST(relay_op_answer__start_ends_what_the_one_before_asked),
	    TEST(channels__requests_reach_all_workers),
	    TEST(channels__follow_what_the_peer_knows),
	    TEST(channels__answer_goes_on_the_other_one),
	    TEST(channels__carry_what_is_theirs),
	    TEST(relay_gpu_export__is_answered_when_it_is_open),
	    TEST(relay_gpu_export__refused),
	    TEST(relay_gpu_export__of_a_descriptor),
	    TEST(relay_gpu_export__program_goes),
	    TEST(put__is_finished_when_it_is_in_the_gpu),
	    TEST(on_broken__is_said_before_the_region_goes),
	    TEST(plan_stream__others_go_while_a_gpu_is_slow),
	    TEST(relay_client_drop__ends_what_its_gpu_does),
	    TEST(relay_region_remove__is_answered_when_it_is_closed),
	    TEST(use_local__of_the_program_itself),
	    TEST(relay_op_stream_over__put_in_the_buffer_needs_no_memory),
	    TEST(relay_client_drop__put_in_the_buffer_needs_no_memory),
	    TEST(relay_gpu_forget__ends_operations_that_need_the_memory),
	    TEST(relay_gpu_forget__ends_what_has_not_begun),
	    TEST(put_end__of_memory_that_was_withdrawn),
	    TEST(put_end__of_gpu_memory_that_was_withdrawn),
	    TEST(put_end__of_a_file_that_was_withdrawn),
	    TEST(bind_put__same_number_of_several_starts),
	    TEST(bound_check__put_of_a_start_before),
	    TEST(start_put__says_which_start_it_knows),
	    TEST(may_name__exports_are_of_root_and_the_daemon),
	    TEST(may_name__copies_to_here_are_anybodys),
	    TEST(vector__put_says_where_each_piece_belongs),
	    TEST(vector__get_puts_each_piece_in_its_place),
	    TEST(vector__chunk_over_two_pieces_ends_the_get),
	    TEST(vector__the_other_sites_get_is_read_piece_by_piece),
	    TEST(vector__the_other_sites_get_out_of_bounds),
	    TEST(vector__of_gpu_memory),
	    TEST(vector__that_makes_no_sense_is_refused),
	    TEST(vector__get_of_a_relay_that_knows_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* relay_client.c has names in common with relay_execute.c: behind all others. */
#define finish  client_finish
#define request client_request
#define answer  client_answer
#define cancel  client_cancel
#define receive client_receive
#define watch   client_watch
#include "daemon/relay/relay_region.c"
#include "daemon/relay/relay_client.c"
#undef finish
#undef answer
#undef watch
#define take_notes gpu_take_notes
#include "daemon/relay/relay_gpu.c"

static int client_open(struct relay_thread *r, unsigned i)
{
	struct relay_client *cl = &r->client[i];
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	*cl = (struct relay_client){.used = true, .greeted = true, .fd = pair[0]};
	cl->unsent_last = &cl->unsent;
	dlist_init(&cl->ops);
	return pair[1];
}

static void client_ready(struct relay_thread *r, unsigned i)
{
	relay_client_ready(r, &r->client[i], EPOLLIN);
}

static int export_to(struct relay_thread *r, const char *name, int fd)
{
	struct lr_msg m = {.length = REGION_BYTES, .flags = LR_PEER_READ | LR_PEER_WRITE};

	memcpy(m.name, name, strlen(name));
	return relay_region_add(r, &r->client[1], &m, dup(fd));
}
