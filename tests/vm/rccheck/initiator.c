/* SPDX-License-Identifier: Apache-2.0 */
/* initiator.c - posts requests and checks how they complete: in order, with what they brought back. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rccheck.h"

#define NO_WRITE UINT32_MAX

static size_t slot_of(const struct check *c, size_t area, uint32_t per_qp, const struct qp *q, uint32_t i)
{
	return area + ((size_t)q->index * per_qp + i % per_qp) * c->at.stride;
}

static uint64_t *result_of(struct check *c, const struct qp *q, uint32_t seq)
{
	return (uint64_t *)(void *)(c->mem + c->at.results +
	                            ((size_t)q->index * c->opt.depth + seq % c->opt.depth) * 8);
}

static uint8_t *landing_of(struct check *c, const struct qp *q, uint32_t seq)
{
	return c->mem + slot_of(c, c->at.landing, c->opt.depth, q, seq);
}

void initiator_start(struct check *c, struct qp *q)
{
	(void)c;
	q->next_post = q->next_done = 0;
	q->fadds_posted = q->fadds_done = q->cas_posted = q->cas_done = 0;
	q->last_write = NO_WRITE;
}

bool initiator_done(const struct check *c, const struct qp *q)
{
	return q->next_done > c->opt.iters;
}

static void choose(struct check *c, struct qp *q, struct posted *p, uint64_t key)
{
	p->seq = q->next_post;
	p->read_of = NO_WRITE;
	if (p->seq == c->opt.iters) {
		p->op = OP_MARKER;
		p->len = MARKER_BYTES;
		return;
	}
	p->op = op_of(c, key);
	p->len = message_len(c, key);
	if (op_writes_slot(p->op))
		q->last_write = p->seq;
	if (p->op == OP_READBACK) {
		p->read_of = q->last_write;
		if (p->read_of == NO_WRITE)
			p->op = OP_READ;
		else
			p->len = message_len(c, message_key(c, c->server, q->index, p->read_of));
	}
}

static void set_atomic(struct check *c, struct qp *q, const struct posted *p, struct ibv_send_wr *wr)
{
	wr->wr.atomic.remote_addr = c->peer_mem + cell_offset(c, q->index, p->op);
	wr->wr.atomic.rkey = c->peer_rkey;
	if (p->op == OP_CAS) {
		uint32_t n = q->cas_posted++;

		wr->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		wr->wr.atomic.compare_add = cas_must_miss(n) ? ~0ULL : cas_value_before(n);
		wr->wr.atomic.swap = cas_value_before(n) + 1;
		return;
	}
	wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr->wr.atomic.compare_add = 1;
	if (p->op == OP_FADD_SHARED)
		c->shared_posted++;
	else
		q->fadds_posted++;
}

static void set_request(struct check *c, struct qp *q, const struct posted *p, struct ibv_send_wr *wr,
                        struct ibv_sge *sge)
{
	uint32_t slot = p->op == OP_READBACK ? p->read_of : p->seq;
	size_t area = p->op == OP_READ ? c->at.source : c->at.window;

	wr->wr.rdma.remote_addr = c->peer_mem + slot_of(c, area, c->opt.iters, q, slot);
	wr->wr.rdma.rkey = c->peer_rkey;
	switch (p->op) {
	case OP_SEND:
	case OP_MARKER:
		wr->opcode = IBV_WR_SEND;
		break;
	case OP_WRITE:
		wr->opcode = IBV_WR_RDMA_WRITE;
		break;
	case OP_IMM:
		wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr->imm_data = htonl(p->seq);
		break;
	case OP_READ:
	case OP_READBACK:
		wr->opcode = IBV_WR_RDMA_READ;
		sge->addr = (uintptr_t)landing_of(c, q, p->seq);
		memset(landing_of(c, q, p->seq), FILL_BACKGROUND, c->at.stride);
		break;
	default:
		sge->addr = (uintptr_t)result_of(c, q, p->seq);
		sge->length = 8;
		wr->num_sge = 1;
		*result_of(c, q, p->seq) = ~0ULL;
		set_atomic(c, q, p, wr);
	}
}

/* A checker that finds nothing is worth nothing: --break makes the initiator do one thing wrong. */
static void misbehave(struct check *c, struct qp *q, struct ibv_send_wr *wr, uint8_t *tx, struct posted *p)
{
	switch (c->opt.misbehave) {
	case BREAK_BYTE:
		if (p->seq == 5 && p->len > 0)
			tx[p->len - 1] ^= 0x10;
		break;
	case BREAK_ORDER:
		if (p->seq == 4 || p->seq == 5)
			pattern_fill(tx, p->len, message_key(c, c->server, q->index, p->seq ^ 1));
		break;
	case BREAK_ATOMIC:
		if (p->op == OP_FADD && q->fadds_posted == 3)
			wr->wr.atomic.compare_add = 2;
		break;
	case BREAK_LATE: /* a verified slot is written once more, in the phase behind */
		if (c->phase == PHASE_READ && p->seq == 0) {
			wr->opcode = IBV_WR_RDMA_WRITE;
			wr->wr.rdma.remote_addr = c->peer_mem + slot_of(c, c->at.window, c->opt.iters, q, 3);
		}
		break;
	default:
		break;
	}
}

static void post_one(struct check *c, struct qp *q)
{
	struct posted *p = &q->posted[q->next_post % c->opt.depth];
	uint64_t key = message_key(c, c->server, q->index, q->next_post);
	uint8_t *tx = c->mem + slot_of(c, c->at.tx, c->opt.depth, q, q->next_post);
	struct ibv_sge sge = {.addr = (uintptr_t)tx, .lkey = c->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge}, *bad;

	choose(c, q, p, key);
	pattern_fill(tx, p->len, key);
	sge.length = p->len;
	wr.num_sge = p->len > 0; /* a length of 0 in an SGE means 2 GiB to some hardware */
	wr.wr_id = (uint64_t)q->index << 32 | p->seq;
	set_request(c, q, p, &wr, &sge);
	misbehave(c, q, &wr, tx, p);
	p->post_ns = now_ns();
	if (ibv_post_send(q->qp, &wr, &bad))
		fatal("ibv_post_send: %s", strerror(errno));
	q->next_post++;
}

void initiator_post(struct check *c, struct qp *q)
{
	uint32_t depth = c->phase == PHASE_LAT ? 1 : c->opt.depth;

	while (q->next_post <= c->opt.iters && q->next_post - q->next_done < depth)
		post_one(c, q);
}

static void check_landing(struct check *c, const struct qp *q, const struct posted *p)
{
	const uint8_t *got = landing_of(c, q, p->seq);
	uint64_t key;
	size_t at;

	if (p->op == OP_READ) {
		enum phase_id phase = c->phase;
		uint32_t round = c->round;

		c->phase = PHASES, c->round = 0; /* the source's own, which never changes */
		key = message_key(c, !c->server, q->index, p->seq);
		c->phase = phase, c->round = round;
	} else {
		key = message_key(c, c->server, q->index, p->read_of);
	}
	at = pattern_check(got, p->len, key);
	if (at < p->len)
		complain(c, "qp %u seq %u: READ of %u bytes%s: byte %zu is 0x%02x, wrong", q->index, p->seq, p->len,
		         p->op == OP_READBACK ? " just written" : "", at, got[at]);
	at = p->len + fill_check(got + p->len, c->at.stride - p->len, FILL_BACKGROUND);
	if (at < c->at.stride)
		complain(c, "qp %u seq %u: READ of %u bytes wrote byte %zu", q->index, p->seq, p->len, at);
}

static void check_shared(struct check *c, const struct qp *q, const struct posted *p)
{
	uint64_t got = *result_of(c, q, p->seq);

	if (got >= (uint64_t)c->opt.qps * c->opt.iters || c->shared_seen[got]) {
		complain(c, "qp %u seq %u: FETCH_ADD on the shared cell returned %llu%s", q->index, p->seq,
		         (unsigned long long)got, got == ~0ULL ? ": no answer written" : ", not for the first time");
		return;
	}
	c->shared_seen[got] = 1;
}

static void check_atomic(struct check *c, struct qp *q, const struct posted *p)
{
	uint64_t got = *result_of(c, q, p->seq), want;

	if (p->op == OP_FADD_SHARED) {
		check_shared(c, q, p);
		return;
	}
	want = p->op == OP_FADD ? q->fadds_done++ : cas_value_before(q->cas_done++);
	if (got != want)
		complain(c, "qp %u seq %u: %s returned %llu, must be %llu", q->index, p->seq,
		         p->op == OP_FADD ? "FETCH_ADD" : "CMP_SWAP", (unsigned long long)got,
		         (unsigned long long)want);
}

static void count(struct check *c, const struct posted *p, uint64_t lat_ns)
{
	struct phase_result *r = &c->result[c->phase];

	if (p->op == OP_MARKER)
		return;
	r->messages++;
	r->bytes += p->op >= OP_FADD ? 8 : p->len;
	r->lat_sum_ns += lat_ns;
	if (!r->lat_min_ns || lat_ns < r->lat_min_ns)
		r->lat_min_ns = lat_ns;
	if (lat_ns > r->lat_max_ns)
		r->lat_max_ns = lat_ns;
	c->lat_samples[c->nlat++ % LAT_SAMPLES] = lat_ns;
	if (c->opt.lat_min_us && lat_ns < c->opt.lat_min_us * 1000ULL)
		complain(c, "seq %u completed after %llu us: too early to be true", p->seq,
		         (unsigned long long)lat_ns / 1000);
}

/* Tells the target how far it may look, if completions mean what they say. */
static void tell_target(struct check *c, const struct qp *q, const struct posted *p)
{
	struct ctl m = {.w = {q->index, p->seq}};

	if (c->opt.early_acks)
		return;
	if (p->op == OP_WRITE && p->seq % PROBE_EVERY == 0) {
		m.type = CTL_PROBE;
		control_send(c, &m);
	}
	if (p->seq + 1 == c->opt.iters) {
		m.type = CTL_DONE;
		control_send(c, &m);
	}
}

void initiator_completion(struct check *c, struct qp *q, const struct ibv_wc *wc)
{
	uint32_t seq = (uint32_t)wc->wr_id;
	struct posted *p = &q->posted[seq % c->opt.depth];

	if (wc->status != IBV_WC_SUCCESS)
		fatal("qp %u seq %u of phase %s round %u failed: %s (vendor 0x%x)", q->index, seq,
		      phase_names[c->phase], c->round, ibv_wc_status_str(wc->status), wc->vendor_err);
	if (seq != q->next_done)
		complain(c, "qp %u: seq %u completed where %u was due", q->index, seq, q->next_done);
	count(c, p, now_ns() - p->post_ns);
	if (p->op == OP_READ || p->op == OP_READBACK)
		check_landing(c, q, p);
	if (p->op == OP_FADD || p->op == OP_FADD_SHARED || p->op == OP_CAS)
		check_atomic(c, q, p);
	tell_target(c, q, p);
	q->next_done++;
}

void initiator_finish(struct check *c)
{
	for (uint32_t v = 0; v < c->opt.qps * c->opt.iters; v++)
		if (c->shared_seen[v] != (v < c->shared_posted))
			complain(c, "the shared cell %s %u after %u FETCH_ADDs",
			         c->shared_seen[v] ? "returned" : "never returned", v, c->shared_posted);
}
