/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * READ, ATOMIC and unknown requests own a place in the flow that only the responder can fill: the ceiling stands in
 * front of the first one that is open. An unknown request counts as answered once the responder has acknowledged it.
 *
 * Answered operations are kept for a while with their responses: a host whose response got lost on its LAN asks again,
 * possibly for the rest only, and is answered from here (near_resp.c). A repeated request goes back to its position;
 * everything behind it is delivered again in order, which is what the host will ask for next anyway.
 *
 * A READ owns as many PSNs as its response has packets. While the PMTU is not known it is taken for one, and the flow
 * says so (psns_unknown) until a payload or the first response has told. */
#include "near_priv.h"

#define OPS_KEPT       128           /* answered ones kept per flow: the most that a host has outstanding (rxe) */
#define KEEP_NS        5000000000ull /* longer than a host goes on asking at LAN distance */
#define AGAIN_QUIET_NS 200000ull     /* a LAN round trip: repeated requests within are one */

struct rd_op *near_op_at(const struct near_flow *f, uint64_t pos)
{
	for (struct dnode *n = f->ops.next; n != &f->ops; n = n->next) {
		struct rd_op *op = dlist_entry(n, struct rd_op, node);

		if (pos >= op->pos && pos < op->pos + op->psns)
			return op;
	}
	return NULL;
}

struct rd_op *near_op_open(const struct near_flow *f)
{
	for (struct dnode *n = f->ops.prev; n != &f->ops; n = n->prev) {
		struct rd_op *op = dlist_entry(n, struct rd_op, node);

		if (op->done_ns && n->next == &f->ops)
			return NULL; /* the newest is answered, so all are */
		if (op->done_ns)
			return dlist_entry(n->next, struct rd_op, node);
		if (n->prev == &f->ops)
			return op;
	}
	return NULL;
}

bool near_op_begin(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t psns,
                   uint32_t msn, uint32_t fp)
{
	struct rd_op *op;

	if (f->nops >= READS_PER_FLOW)
		near_ops_retire(p, f, false);
	if (f->nops >= READS_PER_FLOW)
		return false;
	op = rd_op_take(p);
	if (!op)
		return false;
	op->pos = pos;
	op->psns = psns;
	op->msn = msn;
	op->len = pkt->opcode == RC_READ_REQUEST ? pkt->reth_len : 0;
	op->opcode = pkt->opcode;
	op->rkey = pkt->reth_rkey;
	op->end_va = pkt->reth_va + pkt->reth_len;
	op->fp = fp;
	op->done_ns = op->again_ns = 0;
	if (!near_op_open(f))
		f->resp_pos = pos;
	dlist_append(&f->ops, &op->node);
	f->nops++;
	return true;
}

static void release_responses(struct proxy *p, struct near_flow *f, const struct rd_op *op)
{
	for (uint32_t i = 0; i < op->psns; i++) {
		uint32_t slot = arena_find(p->arena, SLOT_RESP_NEAR, f->idx, op->pos + i);

		if (slot != SLOT_NONE)
			slot_release(p, slot);
	}
}

static bool keep(const struct proxy *p, const struct near_flow *f, const struct rd_op *op, bool all)
{
	if (all)
		return false;
	if (!op->done_ns)
		return true;
	if (f->ops_done > OPS_KEPT || pool_free(p, POOL_WAN) < arena_capacity(p->arena, POOL_WAN) / 2)
		return false;
	return p->now_ns < op->done_ns + KEEP_NS;
}

void near_ops_retire(struct proxy *p, struct near_flow *f, bool all)
{
	while (!dlist_empty(&f->ops)) {
		struct rd_op *op = dlist_entry(dlist_first(&f->ops), struct rd_op, node);

		if (keep(p, f, op, all))
			break;
		release_responses(p, f, op);
		if (op->done_ns)
			f->ops_done--;
		f->nops--;
		rd_op_give(p, op);
	}
	if (f->ops_done) {
		struct rd_op *op = dlist_entry(dlist_first(&f->ops), struct rd_op, node);

		timer_set(&p->timers, &f->retire, max_u64(op->done_ns + KEEP_NS, p->now_ns + KEEP_NS / 16));
	}
}

void near_set_psns(struct proxy *p, struct near_flow *f, uint32_t psns)
{
	struct rd_op *op = dlist_empty(&f->ops) ? NULL : dlist_entry(f->ops.prev, struct rd_op, node);
	uint32_t slot;

	f->psns_unknown = false;
	if (!op || op->pos + 1 != f->pos_next)
		return;
	slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, op->pos);
	op->psns = psns;
	if (slot != SLOT_NONE) {
		arena_hdr(p->arena, slot)->psns = psns;
		arena_amend(p->arena, slot);
	}
	if (f->pos_wan == f->pos_next)
		f->pos_wan = op->pos + psns;
	f->pos_next = op->pos + psns;
	f->pos_max = max_u64(f->pos_max, f->pos_next);
	near_absorb_held(p, f);
	near_wan_kick(p, f);
}

void near_learn_pmtu(struct proxy *p, struct near_flow *f, uint16_t pmtu)
{
	const struct rd_op *op = dlist_empty(&f->ops) ? NULL : dlist_entry(f->ops.prev, struct rd_op, node);

	f->pmtu = pmtu;
	f->open_due = true;
	near_store(p, f);
	if (f->psns_unknown && op)
		near_set_psns(p, f, roce_read_psns(op->len, pmtu));
	near_wan_kick(p, f);
}

/* A READ may be asked for again from its middle: then address and length differ, its end and key do not. */
static bool same_op(const struct rd_op *op, const struct roce_pkt *pkt, uint32_t fp)
{
	if (op->opcode != pkt->opcode)
		return false;
	if (pkt->opcode != RC_READ_REQUEST)
		return op->fp == fp;
	return op->rkey == pkt->reth_rkey && op->end_va == pkt->reth_va + pkt->reth_len;
}

bool near_op_again(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t fp)
{
	struct rd_op *op = near_op_at(f, pos);

	if (!op || !same_op(op, pkt, fp))
		return false;
	if (f->pairing == PAIR_LEARNING)
		return true;
	if (pos >= f->resp_pos && !op->done_ns) { /* it is on its way */
		if (f->rnr_retry == 7)
			near_speak(p, f, DUE_RNR);
		return true;
	}
	if (op->again_ns && p->now_ns < op->again_ns + AGAIN_QUIET_NS)
		return true;
	op->again_ns = p->now_ns;
	f->resp_pos = pos;
	f->reframe_pos = pos > op->pos ? pos : 0;
	for (struct dnode *n = &op->node; n != &f->ops; n = n->next) {
		struct rd_op *later = dlist_entry(n, struct rd_op, node);

		if (later->done_ns)
			f->ops_done--;
		later->done_ns = 0;
	}
	dlist_append_once(&p->resp_list, &f->resp_node);
	return true;
}
