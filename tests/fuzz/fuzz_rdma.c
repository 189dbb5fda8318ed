/* SPDX-License-Identifier: Apache-2.0 */
/* A client by RDMA that may say anything: private data of its REQ, and messages. Input: length(1) of the private data, that,
 * then records of what(1) length(2) and bytes. what: a message, a chunk of the other site (an answer to an operation, or a
 * request for a region of the client), keys that are void from now on, READs and WRITEs that stay under way. When it has gone, no slot, no operation and no object of
 * the device is left. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <sys/epoll.h>

#include "fuzz.h"
#include "tests/unit/fake_verbs.h"
#include "tests/unit/no_log.h"
#include "tests/unit/no_log_limit.h"
#include "tests/unit/toy_gpu.h"

#include "daemon/relay/relay_priv.h"
#include "daemon/util/addr.h"
#include "proxy/util/bytes.h"

#define SLOTS 1024

static uint8_t arena[SLOTS][RELAY_CHUNK_MAX];
static bool slot_used[SLOTS];

struct relay_port {
	struct relay_command c[8192];
	uint32_t n;
};

bool relay_port_command(struct relay_port *p, const struct relay_command *c)
{
	REQUIRE(p->n < 8192);
	p->c[p->n++] = *c;
	return true;
}

bool relay_port_has_room(struct relay_port *p)
{
	return p->n < 4096;
}

void *worker_relay_arena(const struct worker *w, size_t *len)
{
	(void)w;
	*len = sizeof(arena);
	return arena;
}

void relay_say_hello(struct relay_thread *r)
{
	(void)r;
}

static struct relay_thread *r;

static int slot_new(void)
{
	for (int s = 0; s < SLOTS; s++)
		if (!slot_used[s]) {
			slot_used[s] = true;
			return s;
		}
	return -1;
}

static void run_command(const struct relay_command *c)
{
	struct relay_note note = {.channel = c->channel, .token = c->token};

	if (c->type == RELAY_TAKE) {
		int s = slot_new();

		REQUIRE(s >= 0);
		note.type = RELAY_TAKEN;
		note.chunk = (struct relay_chunk){c->channel, (uint32_t)s, 0, arena[s], c->len};
		relay_channel_note(r, &note);
		return;
	}
	REQUIRE(c->slot < SLOTS && slot_used[c->slot]);
	slot_used[c->slot] = false;
	note.type = RELAY_COMMITTED;
	if (c->type == RELAY_COMMIT && c->tell)
		relay_channel_note(r, &note);
}

static void work(void)
{
	static struct relay_command now[8192];
	static bool working;
	struct relay_port *p = r->port[0];

	if (working)
		return;
	working = true;
	for (unsigned turn = 0; turn < 16; turn++) {
		uint32_t n = p->n;

		memcpy(now, p->c, n * sizeof(now[0]));
		p->n = 0;
		for (uint32_t i = 0; i < n; i++)
			run_command(&now[i]);
		relay_rdma_ready(r);
		relay_rdma_turn(r);
		relay_execute_deferred(r);
		relay_channels_pump(r);
	}
	working = false;
}

static void start(void)
{
	memset(&fake, 0, sizeof(fake));
	memset(slot_used, 0, sizeof(slot_used));
	r = calloc(1, sizeof(*r));
	REQUIRE(r);
	r->config.relay = true;
	r->config.lanes = 4;
	addr_read("10.1.1.1", &r->config.relay_listen);
	addr_read_prefix("10.1.1.0/24", &r->config.relay_allow[0].prefix);
	r->config.relay_allow[0].access = LR_PEER_READ | LR_PEER_WRITE | RELAY_ALLOW_EXPORT;
	strcpy(r->config.relay_allow[0].name, "*");
	r->config.nrelay_allow = 1;
	r->nworkers = 1;
	r->worker = (struct worker *const[]){NULL};
	r->nchannels = 4;
	r->instance = 1;
	r->region = calloc(RELAY_REGIONS, sizeof(*r->region));
	r->port[0] = calloc(1, sizeof(*r->port[0]));
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	relay_thread_init(r);
	r->notify_fd = -1;
	fake.pump = work;
	relay_rdma_open(r, &fake_verbs);
}

static void come(uint32_t channel, const uint8_t *data, size_t len)
{
	int s = len >= RELAY_HEAD_LEN ? slot_new() : -1;
	uint8_t *at;

	if (s < 0)
		return;
	len = len < RELAY_CHUNK_MAX ? len : RELAY_CHUNK_MAX;
	at = arena[s];
	memcpy(at, data, len);
	if (channel == 1)
		put_be32(at + 8, r->instance); /* so that it is of an operation now and then */
	relay_execute(r, &(struct relay_chunk){channel, (uint32_t)s, 0, at, (uint16_t)len});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t memory[1 << 16];
	struct rdma_event_channel *events;
	struct ibv_comp_channel *comp;
	struct ibv_qp_init_attr attr;
	struct rdma_conn_param p;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_pd pd;
	struct ibv_mr *mr;
	int base;

	if (size < 1 || size < 1u + data[0] % 57u)
		return 0;
	start();
	base = fake.live;
	events = fake_create_event_channel();
	fake_create_id(events, &id, NULL, RDMA_PS_TCP);
	comp = fake_create_comp_channel(NULL);
	cq = fake_create_cq(NULL, 1, NULL, comp, 0);
	attr = (struct ibv_qp_init_attr){.send_cq = cq, .recv_cq = cq};
	mr = fake_reg_mr(&pd, memory, sizeof(memory),
	                 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE);
	fake_create_qp(id, &pd, &attr);
	for (unsigned i = 0; i < 48; i++) { /* what is sent to the client beyond these waits */
		struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 512, .lkey = mr->lkey};
		struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

		REQUIRE(fake_post_recv(id->qp, &wr, &bad) == 0);
	}
	p = (struct rdma_conn_param){
	    .private_data = data + 1, .private_data_len = data[0] % 57, .responder_resources = data[0] / 57};
	data += 1 + p.private_data_len;
	size -= 1u + p.private_data_len;
	fake_connect(id, &p);
	work();
	while (size >= 3) {
		uint8_t what = data[0];
		size_t len = (size_t)data[1] << 8 | data[2];

		data += 3;
		size -= 3;
		len = len < size ? len : size;
		if (what % 8 < 5) {
			static uint8_t message[512];
			size_t n = len < sizeof(message) ? len : sizeof(message);
			struct ibv_sge sge = {.addr = (uintptr_t)message, .length = (uint32_t)n};
			struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

			memcpy(message, data, n);
			if (what & 128 && n >= 32) { /* an address that fits now and then */
				uint64_t in = (uintptr_t)memory + (message[30] << 8 | message[31]);

				put_be64(message + 24, in);
				if (n >= 52)
					put_be32(message + 48, mr->rkey);
			}
			if (((struct fake_cq *)cq)->n < FAKE_WCS - 64)
				fake_post_send(id->qp, &wr, &bad);
		} else if (what % 8 == 5) {
			come(what & 128 ? 0 : 1, data, len);
		} else if (what % 8 == 6) {
			fake.hold = !fake.hold;
			if (!fake.hold)
				fake_release();
		} else {
			fake.access[mr - fake.mr] = what & 128 ? 0 : IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
		}
		work();
		data += len;
		size -= len;
	}
	fake_disconnect(id);
	fake_destroy_qp(id);
	fake_dereg_mr(mr);
	fake_destroy_cq(cq);
	fake_destroy_comp_channel(comp);
	fake_destroy_id(id);
	fake_destroy_event_channel(events);
	fake_release();
	for (unsigned i = 0; i < 8; i++)
		work();
	REQUIRE(fake.live == base);
	for (int s = 0; s < SLOTS; s++)
		REQUIRE(!slot_used[s]);
	relay_rdma_close(r);
	REQUIRE(fake.live == 0);
	for (uint32_t i = 0; i < RELAY_OPS; i++)
		if (r->op[i])
			relay_op_end(r, r->op[i]->id, LR_CANCELLED);
	for (uint32_t i = 0; i < r->nchannels; i++)
		relay_channel_free(r, &r->channel[i]);
	close(r->epoll_fd);
	free(r->port[0]);
	free(r->region);
	free(r);
	return 0;
}
