/* SPDX-License-Identifier: Apache-2.0 */
/* far_read.c - responses of the responder.
 *
 * Theory of operation
 *
 * READ and ATOMIC: their responses are taken in PSN order, committed, and cross as packets of their own. Responses that
 * overtake others are noted in a bitmap.
 *
 * A READ that lost a response is sent again for the missing ones, as requesters do (IBTA 9.7.5.1.3): with the PSN of
 * the first missing response, the address moved on, and the length cut to the room here. So a READ larger than the pool
 * comes in parts. The READ was sent whole first: the responder counts it once, and all later requests have the PSNs and
 * MSNs that they would have without an edge. Responses of later READs that were dropped meanwhile are asked for in the
 * same way, each when its READ is the first. A response that comes twice is dropped by position. rxe as responder is
 * asked from further back (rd_op_ask_from()).
 *
 * FLUSH and ATOMIC WRITE are operations of one PSN like ATOMICs; their answer is a READ response without a byte.
 *
 * Responses beyond the near edge's room (RESP_CREDIT, near_credit.c) are dropped here, as they would take the room of
 * all other flows, and are asked for in the same way once the near edge has room. The READ waits for that without a
 * timer, and its responder does not count as silent meanwhile.
 *
 * ACKs count only up to an operation without its responses: an ACK past it is an implied NAK (IBTA 9.7.5.1.4). */
#include "far_priv.h"

#include "proxy/roce/icrc.h"
#include "lan_host.h"
#include "proxy/wan/share.h"
#include "proxy/wan/wan_lane.h"

#define PART_MIN         16 /* responses that are asked for at least, however full the pool is */
#define OP_AGAIN_QUIET_NS 500000ull /* one repetition of a READ per so long */

void far_op_begin(struct proxy *p, struct far_flow *f, const struct slot_hdr *h)
{
	struct rd_op *op;

	for (struct dnode *n = f->ops.next; n != &f->ops; n = n->next)
		if (dlist_entry(n, struct rd_op, node)->pos == h->pos)
			return;
	op = rd_op_take(p, OP_FOR_FAR);
	if (!op)
		return; /* cannot be: next_slot() has checked rd_op_left() */
	*op = (struct rd_op){.node = op->node, .pos = h->pos, .psns = h->psns, .opcode = h->opcode};
	op->from = h->pos;
	op->again_ns = p->now_ns;
	if (dlist_empty(&f->ops) && f->resp_next < op->pos)
		f->resp_next = op->pos;
	dlist_append(&f->ops, &op->node);
	f->nops++;
}

struct rd_op *far_first_op(const struct far_flow *f)
{
	return dlist_empty(&f->ops) ? NULL : dlist_entry(dlist_first(&f->ops), struct rd_op, node);
}

static void op_end(struct proxy *p, struct far_flow *f, struct rd_op *op)
{
	rd_op_give(p, op);
	f->nops--;
	op = far_first_op(f);
	f->resp_next = op ? op->pos : 0;
	f->part_end = 0;
	f->part_due = f->part_wanted = false;
	if (op && f->resp_next < f->resp_lost && op->opcode == RC_READ_REQUEST && op->psns)
		far_part_now(p, f);
}

/* After a restart of the edge a responder answers the first repeated request with an ACK of the last one it ever had.
 * Requests that were not sent again have no operation yet. Returns the position of the first of them before upto that
 * needs its own response, else upto. */
static uint64_t stop_at_unsent(struct proxy *p, struct far_flow *f, uint64_t upto)
{
	for (uint64_t pos = max_u64(f->pos_tx, f->pos_acked); pos < min_u64(upto, f->pos_rx);) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, pos);
		const struct slot_hdr *h = slot == SLOT_NONE ? NULL : arena_hdr(p->arena, slot);

		if (!h || h->state != SLOT_COMMITTED)
			break; /* cannot be: everything before pos_rx is here */
		if (h->flags & SF_OWN_RESPONSE && roce_op(h->opcode)->flags & ROP_VALID)
			return pos;
		if (!work_take(p)) {
			f->settling = true;
			f->pos_ack_seen = max_u64(f->pos_ack_seen, upto);
			far_work_later(p, f);
			return pos;
		}
		pos += max_u64(h->psns, 1);
	}
	return upto;
}

uint64_t far_stop_at_op(struct proxy *p, struct far_flow *f, uint64_t upto)
{
	struct rd_op *op;

	while (!FAULT(FAULT_FAR_PAST_READ) && (op = far_first_op(f)) && upto > op->pos) {
		if (!(roce_op(op->opcode)->flags & ROP_VALID)) { /* unknown: an ACK is its answer */
			op_end(p, f, op);
			continue;
		}
		/* An ACK past op is an implied NAK: op's response was lost here. IBTA 9.7.5.1.4. */
		if (p->now_ns >= op->again_ns + OP_AGAIN_QUIET_NS) {
			op->again_ns = p->now_ns;
			far_settle(p, f, op->pos);
			far_go_back(p, f, op->pos);
		}
		return op->pos;
	}
	return FAULT(FAULT_FAR_PAST_READ) ? upto : stop_at_unsent(p, f, upto);
}

void far_free_ops(struct proxy *p, struct far_flow *f)
{
	while (!dlist_empty(&f->ops))
		rd_op_give(p, dlist_entry(dlist_first(&f->ops), struct rd_op, node));
	f->nops = 0;
	f->part_due = f->part_wanted = false;
	f->part_end = f->resp_lost = 0;
	far_again_free(p, f);
}

/* --- a READ in parts --- */

/* The number of responses that the flow may take now: by half of what is left of the pool, at least PART_MIN. */
static uint32_t part_room(const struct proxy *p, const struct far_flow *f)
{
	uint32_t each = arena_class_bytes((uint16_t)(f->pmtu + 84));

	return (uint32_t)clamp_u64(share_left(p, POOL_LAN) / 2 / each, PART_MIN, FLOW_SPAN_MAX);
}

bool far_awaits_credit(const struct far_flow *f)
{
	return f->part_wanted && far_first_op(f) && f->resp_next >= f->resp_credit;
}

bool far_part_now(struct proxy *p, struct far_flow *f)
{
	const struct rd_op *op = far_first_op(f);

	if (!op || op->opcode != RC_READ_REQUEST || !op->psns || !f->pmtu || far_has_failed(f) || f->hostpair == NONE ||
	    f->pairing == PAIR_LEARNING)
		return false;
	if (f->resp_next >= f->resp_credit) {
		f->part_wanted = true;
		return true;
	}
	f->part_due = true;
	lan_drr_ready(p, f);
	return true;
}

void far_part_later(struct proxy *p, struct far_flow *f)
{
	const struct rd_op *op = far_first_op(f);

	f->part_wanted = true;
	if (!far_awaits_credit(f))
		timer_set(&p->timers, &f->rto, max_u64(p->now_ns + 4 * p->cfg.reorder_ns, op->again_ns + OP_AGAIN_QUIET_NS));
}

size_t far_build_read(const struct far_flow *f, uint64_t pos, uint64_t va, uint32_t rkey, uint32_t len,
                      struct lan_tx *tx)
{
	struct roce_pkt pkt = far_as_requester(f, RC_READ_REQUEST);

	pkt.ack_req = true;
	pkt.psn = pos_psn(pos);
	pkt.reth_va = va;
	pkt.reth_rkey = rkey;
	pkt.reth_len = len;
	tx->hdr_len = (uint16_t)roce_build(tx->hdr, sizeof(tx->hdr), &pkt, NULL, 0);
	tx->body_len = tx->trailer_len = 0;
	tx->body = NULL;
	tx->vlan_tci = f->vlan_tci;
	tx->dst = f->dst;
	tx->dscp_ecn = pkt.tos;
	return tx->hdr_len;
}

void far_asked_from(struct far_flow *f, uint64_t from)
{
	struct rd_op *first = far_first_op(f);

	if (!f->forward_only)
		return;
	if (first && from > first->from && from < first->pos + first->psns)
		first->from = from;
	far_agains_from(f, from);
}

size_t far_part_tx(struct proxy *p, struct far_flow *f, struct lan_tx *tx)
{
	struct rd_op *op = far_first_op(f);
	uint32_t slot = op ? arena_find(p->arena, SLOT_REQ_FAR, f->idx, op->pos) : SLOT_NONE;
	uint64_t from, skip, n;
	struct roce_pkt pkt;
	const uint8_t *data;

	f->part_due = f->part_wanted = false;
	if (slot == SLOT_NONE)
		return 0;
	if (f->resp_next >= f->resp_credit) { /* the credit became less */
		f->part_wanted = true;
		return 0;
	}
	data = arena_data(p->arena, slot);
	n = min_u64(part_room(p, f), min_u64(op->pos + op->psns, f->resp_credit) - f->resp_next);
	from = f->forward_only ? rd_op_ask_from(op, f->resp_next, f->pmtu, n) : f->resp_next;
	skip = (from - op->pos) * f->pmtu;
	if (roce_parse(data, slot_packet_len(arena_hdr(p->arena, slot)), &pkt) != DROP_NONE ||
	    !icrc_check(data, &pkt, NULL) || skip > pkt.reth_len)
		return 0;
	f->part_end = f->resp_next + n;
	op->again_ns = p->now_ns;
	far_asked_from(f, from);
	far_cnp_learn(p, f, slot);
	count(p, CTR_LAN_RETRIES, 1);
	f->retried_ns = p->now_ns;
	far_arm_rto(p, f);
	return far_build_read(f, from, pkt.reth_va + skip, pkt.reth_rkey,
	                      (uint32_t)min_u64(pkt.reth_len - skip, (f->part_end - from) * f->pmtu), tx);
}

/* --- RESP_CREDIT --- */

void far_credit_session_start(struct proxy *p, struct far_flow *f)
{
	f->resp_credit = RESP_CREDIT_ALL;
	f->resp_credit_round = 0;
	if (f->part_wanted)
		far_part_now(p, f);
}

void far_on_resp_credit(struct proxy *p, struct lane *l, const struct wan_resp_credit *c)
{
	struct far_flow *f = far_by_peer(p, c->flow);
	bool waited;

	if (!f || f->inc != c->inc || !far_is_open(f))
		return; /* the near edge sends it again if it is needed */
	if (f->lane != l->id || c->round == 0) {
		drop(p, DROP_WAN_BAD_FRAME);
		return;
	}
	if (f->resp_credit_round && (int32_t)(c->round - f->resp_credit_round) <= 0)
		return; /* a copy, or overtaken by a newer one */
	waited = far_awaits_credit(f);
	f->resp_credit_round = c->round;
	f->resp_credit = c->credit;
	if (!waited || far_awaits_credit(f))
		return;
	f->last_progress_ns = p->now_ns; /* the responder was asked nothing meanwhile */
	far_part_now(p, f);
}

/* --- responses --- */

static void resp_forget(struct far_flow *f, uint64_t pos)
{
	f->resp_got[pos % RESP_AHEAD / 64] &= ~(1ull << (pos % 64));
}

/* Notes a response at pos >= resp_next. False: it came before. */
static bool resp_note(struct far_flow *f, uint64_t pos)
{
	uint64_t *w = &f->resp_got[pos % RESP_AHEAD / 64], bit = 1ull << (pos % 64);

	if (*w & bit)
		return false;
	*w |= bit;
	return true;
}

/* Moves resp_next over responses that are here. True if a response has overtaken a missing one. */
static bool resp_advance(struct far_flow *f)
{
	uint64_t any = 0;

	while (f->resp_got[f->resp_next % RESP_AHEAD / 64] >> (f->resp_next % 64) & 1) {
		f->resp_got[f->resp_next % RESP_AHEAD / 64] &= ~(1ull << (f->resp_next % 64));
		f->resp_next++;
	}
	for (size_t i = 0; i < RESP_AHEAD / 64; i++)
		any |= f->resp_got[i];
	return any != 0;
}

/* Sets the retry timer: soon if responses of the READ are missing, else the usual time. */
static void arm_after_response(struct proxy *p, struct far_flow *f, bool hole)
{
	f->retries = 0;
	f->part_wanted = false;
	if (f->rnr)
		return;
	if (hole || (f->resp_next < f->resp_lost && f->part_end <= f->resp_next))
		far_part_later(p, f);
	else
		far_arm_rto(p, f);
}

/* The part that was asked for is here and later responses were dropped: asks for the next part. */
static void next_part(struct proxy *p, struct far_flow *f)
{
	if (f->part_end && f->resp_next >= f->part_end && far_first_op(f) && f->resp_next < f->resp_lost) {
		f->part_end = 0;
		far_part_now(p, f);
	}
}

static void end_if_answered(struct proxy *p, struct far_flow *f, struct rd_op *op)
{
	uint64_t end = op->pos + op->psns;

	if (f->resp_next >= end) {
		op_end(p, f, op);
		far_settle(p, f, end);
		if (f->pos_ack_seen > f->pos_acked) /* an ACK was here before the response */
			far_settle(p, f, far_stop_at_op(p, f, f->pos_ack_seen));
	}
	far_schedule(p, f);
}

void far_host_asks_from(struct proxy *p, struct far_flow *f, uint64_t from)
{
	const struct rd_op *first = far_first_op(f);

	if (!f->forward_only)
		return;
	far_asked_from(f, from);
	if (!first || from < first->pos || from >= first->pos + first->psns || from <= f->resp_next)
		return;
	for (uint64_t n = min_u64(from - f->resp_next, RESP_AHEAD), pos = from - n; pos < from; pos++)
		resp_forget(f, pos);
	f->resp_next = from;
	resp_advance(f);
	end_if_answered(p, f, far_first_op(f));
	if (far_first_op(f) == first && !f->rnr)
		far_part_now(p, f);
}

/* DROP_NONE if a response at pos can be one of the first operation; else the reason. */
static enum proxy_drop response_fits(const struct far_flow *f, const struct rd_op *op, const struct roce_pkt *pkt,
                                     uint64_t pos)
{
	if (pos >= f->pos_tx_max)
		return DROP_LAN_ACK_UNSENT;
	if (pos >= op->pos + op->psns || pos >= f->resp_next + RESP_AHEAD)
		return DROP_LAN_RESP_ORDER;
	if (!roce_answers(op->opcode, pkt->opcode) ||
	    (FAULT(FAULT_FLUSH_UNANSWERED) && op->opcode != RC_READ_REQUEST && pkt->opcode != RC_ATOMIC_ACK))
		return DROP_LAN_ACK_UNSENT;
	return DROP_NONE;
}

void far_response_here(struct far_flow *f, uint64_t pos)
{
	if (!f->nresps++ || pos < f->resp_una)
		f->resp_una = f->resp_retry = pos;
}

uint32_t far_refused_first(struct proxy *p, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct far_flow *f = &p->far[h->flow];

	if (h->kind != SLOT_RESP_FAR || h->inc != f->inc || h->pos > f->resp_una + FLOW_SPAN_MAX)
		return slot;
	if (p->now_ns >= f->resp_retry_ns + proxy_rtt_ns(p)) {
		f->resp_retry = f->resp_una;
		f->resp_retry_ns = p->now_ns;
	}
	while (f->resp_retry < h->pos && work_take(p)) {
		uint32_t first = arena_find(p->arena, SLOT_RESP_FAR, h->flow, f->resp_retry);
		const struct slot_meta *m = first == SLOT_NONE ? NULL : arena_meta(p->arena, first);

		f->resp_una += !m && f->resp_una == f->resp_retry;
		f->resp_retry++;
		if (m && m->queued == SQ_REFUSED && m->due_ns <= p->now_ns)
			return first;
	}
	return slot;
}

bool far_keep_response(struct proxy *p, struct far_flow *f, const uint8_t *l3, const struct roce_pkt *pkt, uint64_t pos,
                       uint16_t vlan_tci, bool urgent)
{
	uint32_t slot = arena_find(p->arena, SLOT_RESP_FAR, f->idx, pos);

	if (slot != SLOT_NONE)
		return true;
	slot = slot_take(p, SLOT_RESP_FAR, f->idx, f->inc, pos, pkt->len, f->lane, urgent);
	if (slot == SLOT_NONE)
		return false;
	slot_fill(p, &slot, l3, pkt, vlan_tci);
	arena_commit(p->arena, slot);
	wan_lane_queue_first(p, lane_of(p, f->lane), slot);
	return true;
}

/* There was no room for the response at pos: the READ is to be sent again from there. */
static void response_found_no_room(struct proxy *p, struct far_flow *f, uint64_t pos)
{
	f->resp_lost = max_u64(f->resp_lost, pos + 1);
	f->last_progress_ns = p->now_ns; /* the responder is alive */
	if (!f->rnr && !f->part_wanted)
		far_part_later(p, f);
}

/* The responder answers what it was asked for before resp_next as well (rd_op_ask_from()). */
static void wanted_one_is_on_its_way(struct proxy *p, struct far_flow *f)
{
	f->last_progress_ns = p->now_ns;
	if (timer_armed(&f->rto) && !f->rnr)
		far_arm_rto(p, f);
}

enum proxy_drop far_rx_response(struct proxy *p, struct far_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                                uint16_t vlan_tci)
{
	struct rd_op *op = far_first_op(f);
	enum proxy_drop d;
	uint64_t pos;

	if ((pkt->tos & ECN_MASK) == ECN_CE)
		far_cnp_due(p, f);
	if (!op)
		return far_again_rx(p, f, l3, pkt, pos_near(f->pos_acked, pkt->psn), vlan_tci)
		           ? DROP_NONE
		           : drop(p, DROP_LAN_ACK_STALE);
	if (op->psns == 0 && pkt->psn == pos_psn(op->pos))
		far_learn_from_response(p, f, pkt);
	if (op->psns == 0)
		return drop(p, DROP_LAN_RESP_ORDER);
	pos = pos_near(f->resp_next, pkt->psn);
	if (pos < f->resp_next) {
		if (far_again_rx(p, f, l3, pkt, pos, vlan_tci))
			return DROP_NONE;
		if (FAULT(FAULT_RESPONSES_TWICE))
			far_keep_response(p, f, l3, pkt, pos, vlan_tci, true);
		if (f->forward_only && pos >= op->from)
			wanted_one_is_on_its_way(p, f);
		end_if_answered(p, f, op); /* an earlier life of the edge may have taken all of it */
		return drop(p, DROP_LAN_ACK_STALE);
	}
	d = response_fits(f, op, pkt, pos);
	if (d == DROP_LAN_RESP_ORDER)
		f->resp_lost = max_u64(f->resp_lost, pos + 1);
	if (d != DROP_NONE)
		return drop(p, d);
	if (pos >= f->resp_credit && op->opcode == RC_READ_REQUEST) {
		response_found_no_room(p, f, pos);
		return drop(p, DROP_LAN_RESP_CREDIT);
	}
	if (!resp_note(f, pos))
		return drop(p, DROP_LAN_ACK_STALE);
	/* The responder executed the request after everything before it. The near edge frees these requests once it has
	 * the response, so this edge first stores that they are delivered. */
	far_settle(p, f, op->pos);
	if (!far_keep_response(p, f, l3, pkt, pos, vlan_tci, pkt->opcode == RC_ATOMIC_ACK)) {
		resp_forget(f, pos);
		response_found_no_room(p, f, pos);
		return drop(p, DROP_LAN_NO_ROOM); /* the READ is repeated later */
	}
	f->last_progress_ns = p->now_ns;
	arm_after_response(p, f, resp_advance(f));
	next_part(p, f);
	end_if_answered(p, f, op);
	return DROP_NONE;
}
