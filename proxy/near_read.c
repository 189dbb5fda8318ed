/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * READ, ATOMIC and unknown requests own a place in the flow that only the responder can fill: the ceiling stands in
 * front of the first one that is open. Their responses come across by position, are committed here and handed to the
 * host in order. An unknown request counts as answered once the responder has acknowledged it.
 *
 * Answered operations are kept for a while with their responses: a host whose response got lost on its LAN asks again,
 * possibly for the rest only, and is answered from here. A repeated request goes back to its position; everything
 * behind it is delivered again in order, which is what the host will ask for next anyway. What the host asks for again
 * starts with a FIRST (or ONLY) at its position, whatever stood there before. */
#include "near.h"

#include "mouth.h"

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

void near_on_response(struct proxy *p, struct near_flow *f, uint32_t slot, const struct roce_pkt *pkt)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);

	if (f->pmtu == 0 && (pkt->opcode == RC_READ_RESP_FIRST || pkt->opcode == RC_READ_RESP_MIDDLE))
		near_learn_pmtu(p, f, pkt->payload_len);
	if (f->psns_unknown && pkt->opcode == RC_READ_RESP_ONLY && h->pos + 1 == f->pos_next)
		near_set_psns(p, f, 1);
	if (h->pos == f->resp_pos)
		dlist_append_once(&p->resp_list, &f->resp_node);
}

/* Unknown requests: answered when the responder has acknowledged them. */
static bool answered_by_ack(const struct near_flow *f, const struct rd_op *op)
{
	return !(roce_op(op->opcode)->flags & ROP_VALID) && f->pos_reported >= op->pos + op->psns;
}

static void op_done(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	struct rd_op *next;

	op->done_ns = p->now_ns;
	f->ops_done++;
	if (f->pos_reported < op->pos + op->psns)
		f->pos_reported = min_u64(op->pos + op->psns, f->pos_next);
	next = near_op_open(f);
	if (next)
		f->resp_pos = next->pos;
	near_settle(p, f);
	near_ops_retire(p, f, false);
	if (near_ceiling(p, f) > f->pos_acked || (f->ack_owed && (!next || next->pos >= f->pos_acked))) {
		f->ack_owed = false;
		near_speak(p, f, DUE_ACK);
	}
}

static void fill_tx(struct near_flow *f, const struct slot_hdr *h, const uint8_t *data, struct lan_tx *tx)
{
	memcpy(tx->hdr, data, h->hdr_len);
	tx->hdr_len = h->hdr_len;
	tx->body = data + h->hdr_len;
	tx->body_len = (uint16_t)(h->len - h->hdr_len - ROCE_ICRC_LEN);
	memcpy(tx->trailer, data + h->len - ROCE_ICRC_LEN, ROCE_ICRC_LEN);
	tx->trailer_len = ROCE_ICRC_LEN;
	tx->vlan_tci = f->vlan_tci;
	tx->dst = f->src;
}

/* MIDDLE or LAST becomes FIRST or ONLY at the place that the host asked from. The stored ICRC is checked before a new
 * one is made over the same bytes, so that a flipped bit is still refused. */
static bool reframe(const struct slot_hdr *h, const uint8_t *data, struct lan_tx *tx)
{
	struct roce_pkt pkt;
	uint8_t whole[LAN_PKT_MAX + 8];
	const uint8_t *payload = data + h->hdr_len;
	size_t len;

	if (roce_parse(data, h->len, &pkt) != DROP_NONE || !icrc_check(data, &pkt, NULL))
		return false;
	if (pkt.opcode == RC_READ_RESP_LAST)
		pkt.opcode = RC_READ_RESP_ONLY;
	else if (pkt.opcode == RC_READ_RESP_MIDDLE)
		pkt.opcode = RC_READ_RESP_FIRST;
	else
		return true; /* FIRST and ONLY are right as they are */
	len = roce_build(whole, sizeof(whole), &pkt, payload, pkt.payload_len);
	if (!len)
		return false;
	memcpy(tx->hdr, whole, pkt.hdr_len);
	tx->hdr_len = pkt.hdr_len;
	memcpy(tx->trailer, whole + len - ROCE_ICRC_LEN, ROCE_ICRC_LEN);
	return true;
}

/* The last response acknowledges the operation itself. */
static void near_acked_op(struct near_flow *f, const struct rd_op *op)
{
	if (op->pos + op->psns <= f->pos_acked)
		return;
	f->pos_acked = op->pos + op->psns;
	f->msn_acked = op->msn;
}

size_t near_resp_tx(struct proxy *p, struct near_flow *f, struct lan_tx *tx)
{
	struct rd_op *op = near_op_open(f);
	uint32_t slot;
	const struct slot_hdr *h;
	size_t aeth_off;
	uint8_t opcode;

	while (op && answered_by_ack(f, op)) {
		op_done(p, f, op);
		op = near_op_open(f);
	}
	slot = op && f->pairing != PAIR_LEARNING && f->msn_known
	           ? arena_find(p->arena, SLOT_RESP_NEAR, f->idx, f->resp_pos)
	           : SLOT_NONE;
	if (slot == SLOT_NONE || arena_hdr(p->arena, slot)->state != SLOT_COMMITTED) {
		dlist_remove(&f->resp_node);
		return 0;
	}
	h = arena_hdr(p->arena, slot);
	fill_tx(f, h, arena_data(p->arena, slot), tx);
	if (f->reframe_pos == f->resp_pos && !reframe(h, arena_data(p->arena, slot), tx)) {
		dlist_remove(&f->resp_node);
		return 0;
	}
	opcode = tx->hdr[h->bth_off];
	aeth_off = (size_t)h->bth_off + ROCE_BTH_LEN;
	put_be16(tx->hdr + h->bth_off - 2, 0); /* a UDP checksum would be wrong with another AETH */
	if (roce_op(opcode)->flags & ROP_AETH)
		mouth_response(p, f, tx->hdr + aeth_off, (size_t)tx->hdr_len - aeth_off - 4 + tx->body_len, op->msn,
		               op->pos, tx->trailer);
	f->resp_pos++;
	if (f->resp_pos >= op->pos + op->psns) {
		near_acked_op(f, op);
		f->reframe_pos = 0;
		op_done(p, f, op);
	}
	return (size_t)tx->hdr_len + tx->body_len + tx->trailer_len;
}
