/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Responses of READ and ATOMIC come across by position, are put together from their pieces, committed, and handed to
 * the host in order. The last one of an operation answers it, and acknowledges it.
 *
 * What the host asks for again starts with a FIRST (or ONLY) at its position, whatever stood there before. */
#include "near_priv.h"

#include "barrier.h"
#include "cnp_rate.h"
#include "mouth.h"
#include "wan_lane.h"

#define ASKING_NS 200000ull /* more than a NIC takes between two requests that it repeats */

/* --- from the other edge --- */

static void response_here(struct proxy *p, struct near_flow *f, const struct rd_op *op, uint32_t slot,
                          const struct roce_pkt *pkt)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);

	if (f->pmtu == 0 && (pkt->opcode == RC_READ_RESP_FIRST || pkt->opcode == RC_READ_RESP_MIDDLE))
		near_learn_pmtu(p, f, pkt->payload_len);
	if (f->psns_unknown && pkt->opcode == RC_READ_RESP_ONLY && h->pos + 1 == f->pos_next)
		near_set_psns(p, f, 1);
	if (h->pos == op->next)
		dlist_append_once(&p->resp_list, &f->resp_node);
}

/* All pieces are there: is it a response that the flow's responder can have sent? */
static void complete(struct proxy *p, struct near_flow *f, const struct rd_op *op, uint32_t slot, uint16_t vlan_tci)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct roce_pkt pkt;

	if (roce_parse(arena_data(p->arena, slot), h->len, &pkt) != DROP_NONE || pkt.len != h->len ||
	    pkt.class != ROCE_RC_RESPONSE || pkt.opcode == RC_ACK || pkt.psn != pos_psn(h->pos) ||
	    !ip_addr_eq(&pkt.src, &f->dst) || !ip_addr_eq(&pkt.dst, &f->src)) {
		slot_release(p, slot);
		drop(p, DROP_WAN_BAD_FRAME);
		return;
	}
	slot_describe(p, slot, &pkt, vlan_tci);
	arena_commit(p->arena, slot);
	response_here(p, f, op, slot, &pkt);
}

/* The one whose length in PSNs is not known owns what comes behind it. */
struct rd_op *near_resp_op(const struct near_flow *f, uint64_t pos)
{
	struct rd_op *op = near_op_at(f, pos);

	return op || !f->psns_unknown || pos < f->pos_next ? op : near_op_at(f, f->pos_next - 1);
}

static uint32_t take_slot(struct proxy *p, struct near_flow *f, struct rd_op *op, const struct lane *l,
                          const struct wan_packet *w)
{
	uint32_t slot = slot_take(p, SLOT_RESP_NEAR, f->idx, f->inc, w->pos, w->total, l->id,
	                          op->room || w->pos == op->next);

	if (slot == SLOT_NONE)
		return slot;
	near_room_use(p, f, op);
	dlist_append(&(near_resp_op(f, w->pos) ? near_resp_op(f, w->pos) : op)->resps,
	             &arena_meta(p->arena, slot)->node);
	return slot;
}

bool near_on_packet(struct proxy *p, struct lane *l, const struct wan_packet *w)
{
	struct near_flow *f = near_by_id(p, w->flow, w->inc);
	struct rd_op *op = f ? near_op_at(f, w->pos) : NULL;
	uint32_t slot;

	if (!f)
		return true;
	if (!op && f->psns_unknown)
		op = near_op_open(f); /* its length in PSNs comes with the first response */
	near_heard(p, f); /* a response is a sign of life, too */
	near_demotion_look(p, f);
	slot = arena_find(p->arena, SLOT_RESP_NEAR, f->idx, w->pos);
	if (!op || (op->done_ns && slot == SLOT_NONE)) {
		drop(p, DROP_WAN_POSITION_OLD);
		return true;
	}
	if (slot == SLOT_NONE)
		slot = take_slot(p, f, op, l, w);
	if (slot == SLOT_NONE) {
		near_ops_retire(p, f, false);
		return false;
	}
	if (arena_hdr(p->arena, slot)->state == SLOT_COMMITTED || arena_hdr(p->arena, slot)->len != w->total) {
		drop(p, DROP_WAN_POSITION_OLD);
		return true;
	}
	if (wan_piece_take(p, slot, w))
		complete(p, f, op, slot, w->vlan_tci);
	return true;
}

/* --- to the host --- */

/* Unknown requests: answered when the responder has acknowledged them. */
static bool answered_by_ack(const struct near_flow *f, const struct rd_op *op)
{
	return !(roce_op(op->opcode)->flags & ROP_VALID) && f->pos_reported >= op->pos + op->psns;
}

/* The host has been given all of an operation, for the first time or again. */
static void op_given(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	near_op_given(p, f, op);
	if (f->pos_reported < op->pos + op->psns)
		f->pos_reported = min_u64(op->pos + op->psns, f->pos_next);
	barrier_mark(p, f);
	near_settle(p, f);
	near_ops_retire(p, f, false);
	near_fail_if_answered(p, f);
	if (near_ceiling(p, f) > f->pos_acked || (f->ack_owed && !f->repeats)) {
		f->ack_owed = false;
		near_speak(p, f, DUE_ACK);
	}
}

/* MIDDLE or LAST becomes FIRST or ONLY at the place that the host asked from. The stored ICRC is checked before a new
 * one is made over the same bytes, so that a flipped bit is still refused. */
static bool reframe(const struct slot_hdr *h, const uint8_t *data, struct lan_tx *tx)
{
	struct roce_pkt pkt;
	uint8_t whole[LAN_PKT_MAX + 8];
	const uint8_t *payload = data + h->hdr_len;
	size_t len;

	if (h->opcode != RC_READ_RESP_LAST && h->opcode != RC_READ_RESP_MIDDLE)
		return true; /* FIRST and ONLY are right as they are */
	if (roce_parse(data, h->len, &pkt) != DROP_NONE || !icrc_check(data, &pkt, NULL))
		return false;
	pkt.opcode = pkt.opcode == RC_READ_RESP_LAST ? RC_READ_RESP_ONLY : RC_READ_RESP_FIRST;
	len = roce_build(whole, sizeof(whole), &pkt, payload, pkt.payload_len);
	if (!len)
		return false;
	memcpy(tx->hdr, whole, pkt.hdr_len);
	tx->hdr_len = pkt.hdr_len;
	memcpy(tx->trailer, whole + len - ROCE_ICRC_LEN, ROCE_ICRC_LEN);
	return true;
}

/* The last response acknowledges the operation itself. */
static void acked_with_response(struct proxy *p, struct near_flow *f, const struct rd_op *op)
{
	if (op->pos + op->psns <= f->pos_acked)
		return;
	f->pos_acked = op->pos + op->psns;
	f->acked_ns = p->now_ns;
	f->msn_acked = op->msn;
	barrier_mark(p, f);
}

/* A host that has gone back asks again for one operation after the other: a response behind those that it is about to
 * ask for would be an implied NAK of them. Returns until when to wait, 0: not at all. */
static uint64_t until_asked(const struct proxy *p, const struct near_flow *f, const struct rd_op *op)
{
	uint64_t until = f->asked_again_ns + ASKING_NS;

	return f->asked_again_ns && op->pos > f->asked_again && p->now_ns < until ? until : 0;
}

size_t near_resp_tx(struct proxy *p, struct near_flow *f, struct lan_tx *tx)
{
	struct rd_op *op = near_op_due(f);
	uint32_t slot;
	const struct slot_hdr *h;
	uint64_t wait_ns;
	size_t aeth_off;
	uint8_t opcode;

	while (op && answered_by_ack(f, op)) {
		op_given(p, f, op);
		op = near_op_due(f);
	}
	slot = op && op->pos + op->psns <= f->pos_next && f->pairing != PAIR_LEARNING && f->msn_known
	           ? arena_find(p->arena, SLOT_RESP_NEAR, f->idx, op->next)
	           : SLOT_NONE;
	if (slot == SLOT_NONE || arena_hdr(p->arena, slot)->state != SLOT_COMMITTED || f->gone) {
		dlist_remove(&f->resp_node);
		return 0;
	}
	wait_ns = until_asked(p, f, op);
	if (!wait_ns)
		wait_ns = cnp_rate_wait_until(p, &f->resp_rate);
	if (wait_ns) {
		dlist_remove(&f->resp_node);
		timer_set(&p->timers, &f->resp_pace, wait_ns);
		return 0;
	}
	h = arena_hdr(p->arena, slot);
	cnp_rate_sent(p, &f->resp_rate, h->len);
	slot_to_tx(p, slot, tx);
	tx->vlan_tci = f->vlan_tci;
	tx->dst = f->src;
	if (op->from == op->next && !FAULT(FAULT_NO_REFRAME) && !reframe(h, arena_data(p->arena, slot), tx)) {
		dlist_remove(&f->resp_node);
		return 0;
	}
	opcode = tx->hdr[h->bth_off];
	aeth_off = (size_t)h->bth_off + ROCE_BTH_LEN;
	put_be16(tx->hdr + h->bth_off - 2, 0); /* a UDP checksum would be wrong with another AETH */
	if (roce_op(opcode)->flags & ROP_AETH)
		mouth_response(p, f, tx->hdr + aeth_off, (size_t)tx->hdr_len - aeth_off - 4 + tx->body_len, op->msn,
		               op->pos, tx->trailer);
	op->next++;
	if (op->next >= op->pos + op->psns) {
		acked_with_response(p, f, op);
		op_given(p, f, op);
	}
	return (size_t)tx->hdr_len + tx->body_len + tx->trailer_len;
}
