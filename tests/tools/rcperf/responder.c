// SPDX-License-Identifier: Apache-2.0
/* responder.c - the receiving side of a QP.
 *
 * Theory of operation
 *
 * Requests are executed strictly in PSN order. A packet ahead of the expected PSN draws one NAK and is dropped, and so
 * is everything until the expected one comes. A packet behind it is a duplicate: WRITEs and SENDs are acknowledged
 * again and not executed, READs are answered again from memory, atomics from the saved result.
 *
 * Every payload byte is checked where it was placed, against what the plan says the message that is due must hold. So a
 * message that is executed twice, left out or moved shows as wrong bytes or a wrong operation, length or
 * address. */
#include "responder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "pattern.h"

#define SYN_NONE 0xff /* check_request() found nothing to refuse */

int rsp_init(struct engine *e, struct qp *qp, uint64_t init_seed, uint32_t rkey, uint64_t va)
{
	struct responder *r = &qp->rsp;
	uint64_t slots = (uint64_t)e->plan.nslots * e->plan.slot_bytes;

	*r = (struct responder){.init_seed = init_seed, .rkey = rkey, .va = va, .posted = e->opt->recv_depth};
	r->mem_bytes = plan_region_bytes(&e->plan);
	r->mem = aligned_alloc(64, r->mem_bytes);
	r->recv_mem = aligned_alloc(64, (size_t)RECV_BUFFERS * e->plan.slot_bytes);
	if (r->mem == NULL || r->recv_mem == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < e->plan.nslots; i++)
		pat_fill(r->mem + (uint64_t)i * e->plan.slot_bytes, e->plan.slot_bytes, pat_base(init_seed, i), 0);
	memset(r->mem + slots, 0, ATOMIC_WORDS * 8);
	return 0;
}

void rsp_free(struct responder *r)
{
	free(r->mem);
	free(r->recv_mem);
	r->mem = r->recv_mem = NULL;
}

/* ---- receives ---- */

static bool needs_receive(uint8_t opcode)
{
	unsigned flags = roce_op(opcode)->flags;

	if (opcode == RC_WRITE_LAST_IMM || opcode == RC_WRITE_ONLY_IMM)
		return true;
	return opcode <= RC_SEND_ONLY_IMM && (flags & ROP_START) != 0;
}

/* The program takes what was received and posts the receive again, unless it is frozen just now. */
static void program_takes(struct engine *e, struct responder *r)
{
	const struct opt *o = e->opt;

	if (o->freeze_ns > 0 && !r->froze && r->due >= o->freeze_after) {
		r->froze = true;
		r->frozen_until_ns = e->now_ns + o->freeze_ns;
		engine_wake_at(e, r->frozen_until_ns);
	}
	if (e->now_ns < r->frozen_until_ns)
		r->held++;
	else
		r->posted++;
}

uint64_t rsp_timer(struct engine *e, struct qp *qp)
{
	struct responder *r = &qp->rsp;

	if (r->held == 0)
		return NEVER;
	if (e->now_ns < r->frozen_until_ns)
		return r->frozen_until_ns;
	r->posted += r->held;
	r->held = 0;
	return NEVER;
}

/* ---- checks before execution: IBTA 9.7.4.1 ---- */

static bool sequence_sound(const struct responder *r, uint8_t opcode)
{
	unsigned flags = roce_op(opcode)->flags;
	bool send = opcode <= RC_SEND_ONLY_IMM;

	if ((flags & ROP_START) != 0)
		return !r->in_msg;
	return r->in_msg && r->is_send == send;
}

/* Payload lengths against the path MTU and against the length that the message announced. */
static bool lengths_sound(const struct engine *e, const struct responder *r, const struct roce_pkt *pkt)
{
	unsigned flags = roce_op(pkt->opcode)->flags;
	bool start = (flags & ROP_START) != 0, end = (flags & ROP_END) != 0;
	uint64_t total = (flags & ROP_RETH) != 0 ? pkt->reth_len : r->total;
	uint64_t done = (start ? 0 : (uint64_t)r->done) + pkt->payload_len;

	if ((flags & ROP_PAYLOAD) == 0)
		return pkt->payload_len == 0;
	if (pkt->payload_len > e->pmtu || (!end && pkt->payload_len != e->pmtu))
		return false;
	if (end && !start && pkt->payload_len == 0)
		return false;
	if (pkt->opcode <= RC_SEND_ONLY_IMM)
		return done <= e->plan.slot_bytes;
	return end ? done == total : done < total;
}

static bool region_holds(const struct responder *r, uint32_t rkey, uint64_t va, uint64_t len)
{
	uint64_t off = va - r->va;

	return rkey == r->rkey && off <= r->mem_bytes && len <= r->mem_bytes - off;
}

static bool access_sound(const struct responder *r, const struct roce_pkt *pkt)
{
	unsigned flags = roce_op(pkt->opcode)->flags;

	if ((flags & ROP_ATOMICETH) != 0)
		return region_holds(r, pkt->atomic_rkey, pkt->atomic_va, 8);
	if ((flags & ROP_RETH) != 0 && pkt->reth_len > 0)
		return region_holds(r, pkt->reth_rkey, pkt->reth_va, pkt->reth_len);
	return true;
}

/* The syndrome to refuse the request with, or SYN_NONE. */
static uint8_t check_request(const struct engine *e, const struct responder *r, const struct roce_pkt *pkt)
{
	if (pkt->opcode == RC_SEND_LAST_INV || pkt->opcode == RC_SEND_ONLY_INV)
		return AETH_NAK_INV_REQ;
	if (!sequence_sound(r, pkt->opcode) || !lengths_sound(e, r, pkt))
		return AETH_NAK_INV_REQ;
	if ((roce_op(pkt->opcode)->flags & ROP_ATOMICETH) != 0 && pkt->atomic_va % 8 != 0)
		return AETH_NAK_INV_REQ;
	return access_sound(r, pkt) ? SYN_NONE : AETH_NAK_REM_ACCESS;
}

/* ---- execution ---- */

static void count_executed(struct engine *e, uint32_t bytes)
{
	e->stats.msgs_exec++;
	e->stats.bytes_exec += bytes;
	meter_add(&e->exec, e->now_ns, bytes);
}

static struct saved *save(const struct engine *e, struct responder *r, const struct roce_pkt *pkt)
{
	uint32_t keep = e->opt->rd_atomic;
	struct saved *s = &r->saved[r->nsaved++ % keep];

	*s = (struct saved){.opcode = pkt->opcode, .psn = pkt->psn, .npsn = 1};
	return s;
}

static bool due_is(const struct responder *r, enum rc_op op, uint64_t va, uint64_t due_va, uint64_t len)
{
	return r->plan.op == op && va == due_va && len == r->plan.len;
}

static uint64_t slot_va(const struct engine *e, const struct responder *r)
{
	return r->va + (uint64_t)r->plan.slot * e->plan.slot_bytes;
}

static void next_due(struct engine *e, struct responder *r)
{
	plan_get(&e->plan, r->due++, &r->plan);
}

static void execute_read(struct engine *e, struct qp *qp, const struct roce_pkt *pkt)
{
	struct responder *r = &qp->rsp;
	struct saved *s = save(e, r, pkt);
	struct answer *a;

	next_due(e, r);
	if (!due_is(r, OP_READ, pkt->reth_va, slot_va(e, r), pkt->reth_len))
		e->stats.order_wrong++;
	s->va = pkt->reth_va;
	s->len = pkt->reth_len;
	s->npsn = roce_read_psns(pkt->reth_len, e->pmtu);
	r->epsn = (pkt->psn + s->npsn) & ROCE_PSN_MASK;
	r->msn = (r->msn + 1) & ROCE_PSN_MASK;
	a = answer_push(e, qp, ANSWER_READ, pkt->psn);
	a->va = pkt->reth_len > 0 ? pkt->reth_va : r->va;
	a->left = pkt->reth_len;
	count_executed(e, pkt->reth_len);
}

static void execute_atomic(struct engine *e, struct qp *qp, const struct roce_pkt *pkt)
{
	struct responder *r = &qp->rsp;
	struct saved *s = save(e, r, pkt);
	uint64_t *word = (void *)(r->mem + (pkt->atomic_va - r->va));
	uint64_t words_va = r->va + (uint64_t)e->plan.nslots * e->plan.slot_bytes;

	next_due(e, r);
	if (!due_is(r, pkt->opcode == RC_FETCH_ADD ? OP_FADD : OP_CSWAP, pkt->atomic_va, words_va + 8 * r->plan.word,
	            8))
		e->stats.order_wrong++;
	s->atomic = true;
	s->va = pkt->atomic_va;
	s->operand = pkt->atomic_swap_add;
	s->compare = pkt->atomic_compare;
	s->orig = *word;
	if (pkt->opcode == RC_FETCH_ADD)
		*word += pkt->atomic_swap_add;
	else if (*word == pkt->atomic_compare)
		*word = pkt->atomic_swap_add;
	r->epsn = (r->epsn + 1) & ROCE_PSN_MASK;
	r->msn = (r->msn + 1) & ROCE_PSN_MASK;
	answer_push(e, qp, ANSWER_ATOMIC, pkt->psn)->orig = s->orig;
	count_executed(e, 8);
}

/* First packet of a WRITE or SEND: is it the message that is due, and where do its bytes go? */
static void begin_data(struct engine *e, struct responder *r, const struct roce_pkt *pkt)
{
	next_due(e, r);
	r->in_msg = true;
	r->is_send = pkt->opcode <= RC_SEND_ONLY_IMM;
	r->done = 0;
	if (r->is_send) {
		r->posted--;
		r->total = 0;
		r->dst = r->recv_mem + (r->due % RECV_BUFFERS) * e->plan.slot_bytes;
		return;
	}
	r->total = pkt->reth_len;
	r->dst = r->mem + (pkt->reth_len > 0 ? pkt->reth_va - r->va : 0);
	if (!rc_op_writes(r->plan.op) || (pkt->reth_len > 0 && pkt->reth_va != slot_va(e, r)) ||
	    pkt->reth_len != r->plan.len)
		e->stats.order_wrong++;
}

static bool has_imm(uint8_t opcode)
{
	return (roce_op(opcode)->flags & ROP_IMM) != 0;
}

static void end_data(struct engine *e, struct responder *r, const struct roce_pkt *pkt)
{
	bool imm = has_imm(pkt->opcode);

	r->in_msg = false;
	r->msn = (r->msn + 1) & ROCE_PSN_MASK;
	if (r->is_send == rc_op_writes(r->plan.op) || r->done != r->plan.len || imm != rc_op_has_imm(r->plan.op) ||
	    (imm && pkt->imm != (uint32_t)(r->due - 1)))
		e->stats.order_wrong++;
	if (!r->is_send && imm)
		r->posted--;
	if (r->is_send || imm)
		program_takes(e, r);
	count_executed(e, r->done);
}

static void execute_data(struct engine *e, struct qp *qp, const uint8_t *l3, const struct roce_pkt *pkt)
{
	struct responder *r = &qp->rsp;
	unsigned flags = roce_op(pkt->opcode)->flags;
	uint8_t *at;

	if ((flags & ROP_START) != 0)
		begin_data(e, r, pkt);
	at = r->dst + r->done;
	memcpy(at, l3 + pkt->hdr_len, pkt->payload_len);
	if (pat_check(at, pkt->payload_len, pat_base(r->seed, r->due - 1), r->done))
		e->stats.bytes_verified += pkt->payload_len;
	else
		e->stats.packets_wrong++;
	r->done += pkt->payload_len;
	r->epsn = (r->epsn + 1) & ROCE_PSN_MASK;
	if ((flags & ROP_END) != 0)
		end_data(e, r, pkt);
	if (pkt->ack_req)
		answer_push_ack(e, qp);
}

static void execute(struct engine *e, struct qp *qp, const uint8_t *l3, const struct roce_pkt *pkt)
{
	qp->rsp.nak_sent = false;
	if (pkt->opcode == RC_READ_REQUEST)
		execute_read(e, qp, pkt);
	else if ((roce_op(pkt->opcode)->flags & ROP_ATOMICETH) != 0)
		execute_atomic(e, qp, pkt);
	else
		execute_data(e, qp, l3, pkt);
}

/* ---- out of order ---- */

static void replay_read(struct engine *e, struct qp *qp, const struct saved *s, const struct roce_pkt *pkt)
{
	uint64_t off = (uint64_t)((pkt->psn - s->psn) & ROCE_PSN_MASK) * e->pmtu;
	struct answer *a;

	if (pkt->opcode != s->opcode || pkt->reth_va != s->va + off || pkt->reth_len > s->len - off) {
		e->stats.dup_unknown++;
		return;
	}
	e->stats.reads_replayed++;
	a = answer_push(e, qp, ANSWER_READ, pkt->psn);
	a->va = pkt->reth_len > 0 ? pkt->reth_va : qp->rsp.va;
	a->left = pkt->reth_len;
}

static void replay_atomic(struct engine *e, struct qp *qp, const struct saved *s, const struct roce_pkt *pkt)
{
	if (pkt->opcode != s->opcode || pkt->atomic_va != s->va || pkt->atomic_swap_add != s->operand ||
	    pkt->atomic_compare != s->compare) {
		e->stats.dup_unknown++;
		return;
	}
	e->stats.atomics_replayed++;
	answer_push(e, qp, ANSWER_ATOMIC, pkt->psn)->orig = s->orig;
}

static const struct saved *find_saved(const struct engine *e, const struct responder *r, uint32_t psn)
{
	uint32_t keep = e->opt->rd_atomic, n = r->nsaved < keep ? r->nsaved : keep;

	for (uint32_t i = 0; i < n; i++)
		if (((psn - r->saved[i].psn) & ROCE_PSN_MASK) < r->saved[i].npsn)
			return &r->saved[i];
	return NULL;
}

static void take_duplicate(struct engine *e, struct qp *qp, const struct roce_pkt *pkt)
{
	const struct saved *s;

	e->stats.duplicates++;
	if ((roce_op(pkt->opcode)->flags & ROP_OWN_RESPONSE) == 0) {
		answer_push_ack(e, qp);
		return;
	}
	s = find_saved(e, &qp->rsp, pkt->psn);
	if (s == NULL)
		e->stats.dup_unknown++;
	else if (s->atomic)
		replay_atomic(e, qp, s, pkt);
	else
		replay_read(e, qp, s, pkt);
}

static void take_ahead(struct engine *e, struct qp *qp)
{
	if (qp->rsp.nak_sent) {
		e->stats.behind_gap++;
		return;
	}
	e->stats.gaps++;
	e->stats.naks_tx++;
	answer_push_nak(e, qp, AETH_NAK_PSN_SEQ);
}

static void refuse(struct engine *e, struct qp *qp, const struct roce_pkt *pkt, uint8_t syndrome)
{
	struct responder *r = &qp->rsp;

	answer_push_nak(e, qp, syndrome);
	r->failed = true;
	e->stats.refused_tx++;
	engine_fail(e, "QP %u (QPN 0x%x): responder refused %s at PSN 0x%06x, message %llu: %s", qp->index, qp->qpn,
	            roce_op(pkt->opcode)->name, pkt->psn, (unsigned long long)r->due,
	            syndrome == AETH_NAK_REM_ACCESS ? "no access" : "invalid request");
}

static void take_in_order(struct engine *e, struct qp *qp, const uint8_t *l3, const struct roce_pkt *pkt)
{
	struct responder *r = &qp->rsp;
	uint8_t syndrome = check_request(e, r, pkt);

	if (syndrome != SYN_NONE) {
		refuse(e, qp, pkt, syndrome);
	} else if (needs_receive(pkt->opcode) && r->posted == 0) {
		e->stats.rnr_tx++;
		answer_push_nak(e, qp, (uint8_t)(AETH_RNR_NAK | roce_rnr_timer_code(e->opt->rnr_timer_ns)));
	} else {
		execute(e, qp, l3, pkt);
	}
}

void rsp_request(struct engine *e, struct qp *qp, const uint8_t *l3, const struct roce_pkt *pkt)
{
	struct responder *r = &qp->rsp;
	int32_t ahead = psn_diff(pkt->psn, r->epsn);

	if (r->failed)
		return;
	if (answers_full(r))
		e->stats.queue_full++;
	else if (ahead > 0)
		take_ahead(e, qp);
	else if (ahead < 0)
		take_duplicate(e, qp, pkt);
	else
		take_in_order(e, qp, l3, pkt);
}
