/* SPDX-License-Identifier: Apache-2.0 */
/* near_resp.c - gives responses to the host, in PSN order.
 *
 * Theory of operation
 *
 * Responses of READ and ATOMIC cross the WAN by position, are put together from their pieces, committed, and given to
 * the host in order. The last response of an operation answers and acknowledges it.
 *
 * reframe() sets the opcode that the host expects. A host that asks again gets a FIRST (or ONLY) at the position it
 * asks from, whatever opcode the response had. A part that is read again (near_again.c) may come as FIRST or LAST of
 * that part, and is given as MIDDLE where it lies in the middle for the host. */
#include "near_priv.h"

#include "proxy/carry/barrier.h"
#include "proxy/shard/cnp_rate.h"
#include "ack_tx.h"
#include "proxy/wan/wan_lane.h"

#define ASKING_NS 200000ull /* more than a NIC takes between two requests that it repeats */

/* --- from the other edge --- */

void near_resp_tells(struct proxy *p, struct near_flow *f, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct roce_pkt pkt;

	if (f->pmtu == 0 && (h->opcode == RC_READ_RESP_FIRST || h->opcode == RC_READ_RESP_MIDDLE) &&
	    roce_parse(arena_data(p->arena, slot), h->len, &pkt) == DROP_NONE)
		near_learn_pmtu(p, f, pkt.payload_len);
	if (f->psns_unknown && h->opcode == RC_READ_RESP_ONLY && h->pos + 1 == f->pos_next)
		near_set_psns(p, f, 1);
}

/* All pieces are here. Commits the packet if the flow's responder can have sent it as a response; else drops it. */
static void complete_response(struct proxy *p, struct near_flow *f, const struct rd_op *op, uint32_t slot,
                              uint16_t vlan_tci)
{
	struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct roce_pkt pkt;

	if (roce_parse(arena_data_of(p->arena, slot, h), h->len, &pkt) != DROP_NONE || pkt.len != h->len ||
	    pkt.class != ROCE_RC_RESPONSE || pkt.opcode == RC_ACK || pkt.psn != pos_psn(h->pos) ||
	    !ip_addr_eq(&pkt.src, &f->dst) || !ip_addr_eq(&pkt.dst, &f->src)) {
		near_resp_drop(p, f, slot);
		drop(p, DROP_WAN_BAD_FRAME);
		return;
	}
	slot_describe(h, &pkt, vlan_tci);
	arena_commit(p->arena, slot);
	near_resp_tells(p, f, slot);
	if (h->pos == op->next)
		dlist_append_once(&p->resp_list, &f->resp_node);
}

/* A slot for the response w at hand, though there is no room: READ responses of the flow beyond pos are freed for it. */
static uint32_t take_evicting(struct proxy *p, struct near_flow *f, const struct lane *l, const struct wan_packet *w,
                              uint64_t pos)
{
	uint32_t slot = SLOT_NONE;

	while (slot == SLOT_NONE && work_take(p) && near_resp_evict(p, f, pos))
		slot = slot_take(p, SLOT_RESP_NEAR, f->idx, f->inc, w->pos, w->total, l->id, true);
	return slot;
}

/* A slot for a response. The response at op->next always finds one, and other responses of the operation that the host
 * waits for come before those of later operations: if there is no room, a READ's response further back is freed, which
 * can be read again. Responses of a READ beyond near_reserve_most() are refused: they would leave no room for those
 * that the host waits for. */
static uint32_t take_slot(struct proxy *p, struct near_flow *f, struct rd_op *op, const struct lane *l,
                          const struct wan_packet *w)
{
	bool next = w->pos == op->next, urgent = op->room || next;
	uint64_t end = op->next + near_reserve_most(p, f, op);
	uint32_t slot;

	if (w->pos >= end && !next) {
		near_credit_exceeded(p, f, w->pos);
		return SLOT_NONE;
	}
	slot = slot_take(p, SLOT_RESP_NEAR, f->idx, f->inc, w->pos, w->total, l->id, urgent);
	if (slot == SLOT_NONE && next)
		slot = take_evicting(p, f, l, w, w->pos);
	else if (slot == SLOT_NONE && near_op_due(f) == op)
		slot = take_evicting(p, f, l, w, min_u64(end, op->pos + op->psns) - 1);
	if (slot == SLOT_NONE)
		return SLOT_NONE;
	near_resp_taken(p, f, slot);
	near_reserve_use(p, f, op);
	return slot;
}

/* The slot of the response at w->pos; SLOT_NONE: none is here. An incomplete response of another length is a late copy
 * of one that was complete once. The other pieces of that copy do not come, so its slot is freed for w. */
static uint32_t find_slot(struct proxy *p, struct near_flow *f, const struct wan_packet *w)
{
	uint32_t slot = near_resp_find(p, f, w->pos);

	if (slot == SLOT_NONE || arena_hdr(p->arena, slot)->state == SLOT_COMMITTED ||
	    arena_hdr(p->arena, slot)->len == w->total)
		return slot;
	near_resp_drop(p, f, slot);
	return SLOT_NONE;
}

/* A response that was read again has come and found room: the rest of READ_AGAIN's range is on its way, too. */
static void note_again(const struct proxy *p, struct rd_op *op, uint64_t pos)
{
	if (pos >= op->again_from && pos < op->again_upto)
		op->again_heard_ns = p->now_ns;
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
	near_liveness_seen(p, f);     /* a response is a sign of life, too */
	near_demotion_look(p, f);
	if (!op || !near_resp_awaited(op, w->pos)) {
		drop(p, DROP_WAN_POSITION_OLD);
		return true;
	}
	if (f->superseded || f->newer) {
		drop(p, DROP_WAN_UNWANTED);
		return true;
	}
	slot = find_slot(p, f, w);
	if (slot == SLOT_NONE)
		slot = take_slot(p, f, op, l, w);
	if (slot == SLOT_NONE) {
		near_ops_retire(p, f, false);
		return false;
	}
	if (arena_hdr(p->arena, slot)->state == SLOT_COMMITTED) {
		drop(p, DROP_WAN_POSITION_OLD);
		return true;
	}
	note_again(p, op, w->pos);
	if (wan_piece_take(p, slot, w))
		complete_response(p, f, op, slot, w->vlan_tci);
	return true;
}

/* --- to the host --- */

/* True for an unknown request that the responder has acknowledged: it is answered. */
static bool answered_by_ack(const struct near_flow *f, const struct rd_op *op)
{
	return !(roce_op(op->opcode)->flags & ROP_VALID) && f->pos_reported >= op->pos + op->psns;
}

/* The host has been given all of an operation, for the first time or again. */
static void op_given(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	bool begins = op->pos == f->pos_base && !op->done_ns && op->opcode == RC_READ_REQUEST;

	near_op_given(p, f, op);
	if (f->pos_reported < op->pos + op->psns)
		f->pos_reported = min_u64(op->pos + op->psns, f->pos_next);
	barrier_mark(p, f);
	near_settle(p, f);
	near_ops_retire(p, f, false);
	near_fail_if_answered(p, f);
	if (begins && !timer_armed(&f->patience))
		near_gap_look(p, f); /* no gap was NAKed while near_may_begin_inside() */
	if (near_ceiling(p, f) > f->pos_acked || (f->ack_owed && !f->repeats)) {
		f->ack_owed = false;
		near_ack_schedule(p, f, DUE_ACK);
	}
}

/* The opcode that the host expects at op->next, for an answer that begins at op->from. */
static uint8_t opcode_for(const struct rd_op *op)
{
	bool first = op->next == op->from, last = op->next + 1 == op->pos + op->psns;

	if (first)
		return last ? RC_READ_RESP_ONLY : RC_READ_RESP_FIRST;
	return last ? RC_READ_RESP_LAST : RC_READ_RESP_MIDDLE;
}

/* Clears bytes on the stack: a core dump contains the stack, and must contain no payload of hosts. The compiler may not
 * leave these stores out. */
static void wipe(uint8_t *bytes, size_t len)
{
	memset(bytes, 0, len);
	__asm__ volatile("" : : "r"(bytes) : "memory");
}

/* Gives the packet that opcode. The stored ICRC is checked before a new one is computed, so that the host does not get
 * a flipped bit with a good ICRC. */
static bool reframe(const struct slot_hdr *h, const uint8_t *data, uint8_t opcode, struct lan_tx *tx)
{
	struct roce_pkt pkt;
	uint8_t whole[LAN_PKT_MAX + 8];
	const uint8_t *payload = data + h->hdr_len;
	size_t len;

	if (h->opcode == opcode || h->opcode == RC_ATOMIC_ACK || FAULT(FAULT_NO_REFRAME))
		return true;
	if (roce_parse(data, h->len, &pkt) != DROP_NONE || !icrc_check(data, &pkt, NULL))
		return false;
	pkt.opcode = opcode;
	len = roce_build(whole, sizeof(whole), &pkt, payload, pkt.payload_len);
	if (!len)
		return false;
	memcpy(tx->hdr, whole, pkt.hdr_len);
	tx->hdr_len = pkt.hdr_len;
	memcpy(tx->trailer, whole + len - ROCE_ICRC_LEN, ROCE_ICRC_LEN);
	wipe(whole, len);
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

/* A host that has gone back repeats one request after the other. A response beyond the last repeated one would be an
 * implied NAK of those that the host is about to repeat. Returns the time until which to wait; 0: there is no wait. */
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
	slot = op && op->pos + op->psns <= f->pos_next && f->pairing != PAIR_LEARNING && f->msn != MSN_UNKNOWN
	           ? near_resp_find(p, f, op->next)
	           : SLOT_NONE;
	if (slot == SLOT_NONE || arena_hdr(p->arena, slot)->state != SLOT_COMMITTED || f->superseded || f->newer) {
		if (op && slot == SLOT_NONE && !f->superseded && !f->newer)
			near_again_look(p, f, op);
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
	slot_to_tx(p, slot, h, tx);
	tx->vlan_tci = f->vlan_tci;
	tx->dst = f->src;
	if (!reframe(h, arena_data_of(p->arena, slot, h), opcode_for(op), tx)) {
		near_resp_drop_reread(p, f, op, slot); /* the next call reads it again */
		return 0;
	}
	f->forward_only = !(tx->hdr[h->bth_off + 1] & BTH_MIGREQ);
	opcode = tx->hdr[h->bth_off];
	aeth_off = (size_t)h->bth_off + ROCE_BTH_LEN;
	put_be16(tx->hdr + h->bth_off - 2, 0); /* a UDP checksum would be wrong with another AETH */
	if (f->msn == MSN_LATE && (roce_op(h->opcode)->flags & ROP_AETH))
		near_count_at_most(p, f, op, get_be24(tx->hdr + aeth_off + 1));
	if (roce_op(opcode)->flags & ROP_AETH)
		ack_tx_response(p, f, tx->hdr + aeth_off, (size_t)tx->hdr_len - aeth_off - 4 + tx->body_len, op->msn,
		                op->pos, tx->trailer);
	op->next++;
	op->seen_upto = max_u64(op->seen_upto, op->next);
	if (op->opcode == RC_READ_REQUEST) {
		near_resp_given(p, f, slot);
		near_reserve_renew(p, f, op);
		near_credit_moved(p, f, op);
	}
	if (op->next >= op->pos + op->psns) {
		acked_with_response(p, f, op);
		op_given(p, f, op);
	}
	return (size_t)tx->hdr_len + tx->body_len + tx->trailer_len;
}
