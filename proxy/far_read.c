/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * READ and ATOMIC: their responses are taken in PSN order, committed, and cross as packets of their own. Those that
 * overtake others are noted in a bitmap. A READ that lost a response is sent again whole, with its own PSN and length;
 * what was already taken is dropped by position.
 *
 * FLUSH and ATOMIC WRITE are operations of one PSN like ATOMICs; their answer is a READ response without a byte.
 *
 * ACKs stop in front of an operation without its responses: one past it is an implied NAK (IBTA 9.7.5.1.4). */
#include "far_priv.h"

#include "wan_lane.h"

#define OP_AGAIN_QUIET_NS 500000ull /* one repetition of a READ per so long */

void far_op_begin(struct proxy *p, struct far_flow *f, const struct slot_hdr *h)
{
	struct rd_op *op;

	for (struct dnode *n = f->ops.next; n != &f->ops; n = n->next)
		if (dlist_entry(n, struct rd_op, node)->pos == h->pos)
			return;
	op = rd_op_take(p, OP_FOR_FAR);
	if (!op)
		return; /* far_lan_tx asked for one before */
	op->pos = h->pos;
	op->psns = h->psns;
	op->opcode = h->opcode;
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
}

/* A responder knows more than an edge that has been restarted: it answers the first request that is repeated with an
 * ACK of the last one it ever had. What has not been sent again is not among the operations yet. Returns the first one
 * with responses of its own before upto, else upto. */
static uint64_t stop_at_unsent(struct proxy *p, struct far_flow *f, uint64_t upto)
{
	for (uint64_t pos = max_u64(f->pos_tx, f->pos_acked); pos < min_u64(upto, f->pos_rx);) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, pos);
		const struct slot_hdr *h = slot == SLOT_NONE ? NULL : arena_hdr(p->arena, slot);

		if (!h || h->state != SLOT_COMMITTED)
			break; /* cannot be: all before pos_rx is here */
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
		/* An ACK past it is an implied NAK: its response was lost here. IBTA 9.7.5.1.4. */
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
}

/* --- responses --- */

/* Notes a response at pos >= resp_next. False: it is there already. */
static bool resp_note(struct far_flow *f, uint64_t pos)
{
	uint64_t *w = &f->resp_got[pos % RESP_AHEAD / 64], bit = 1ull << (pos % 64);

	if (*w & bit)
		return false;
	*w |= bit;
	return true;
}

/* Moves resp_next over what is there. True if something behind it has overtaken what is missing. */
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

/* With a hole in a READ's responses the READ is sent again soon, else the usual time after the last sign of life. */
static void arm_after_response(struct proxy *p, struct far_flow *f, const struct rd_op *op, bool hole)
{
	f->retries = 0;
	if (f->rnr)
		return;
	if (hole)
		timer_set(&p->timers, &f->rto,
		          max_u64(p->now_ns + 4 * p->cfg.reorder_ns, op->again_ns + OP_AGAIN_QUIET_NS));
	else
		far_arm_rto(p, f);
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
	far_kick(p, f);
}

/* Whether a response at pos can be one of the first operation's. */
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

/* Commits a response and sends it on. False: no room. */
static bool keep_response(struct proxy *p, struct far_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                          uint64_t pos, uint16_t vlan_tci)
{
	uint32_t slot = slot_take(p, SLOT_RESP_FAR, f->idx, f->inc, pos, pkt->len, f->lane, true);

	if (slot == SLOT_NONE)
		return false;
	slot_describe(p, slot, pkt, vlan_tci);
	slot_fill(p, slot, l3, pkt);
	arena_commit(p->arena, slot);
	wan_lane_queue_first(p, lane_of(p, f->lane), slot);
	return true;
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
		return drop(p, DROP_LAN_ACK_STALE);
	if (op->psns == 0 && pkt->psn == pos_psn(op->pos))
		far_learn_from_response(p, f, pkt);
	if (op->psns == 0)
		return drop(p, DROP_LAN_RESP_ORDER);
	pos = pos_near(f->resp_next, pkt->psn);
	if (pos < f->resp_next) {
		if (FAULT(FAULT_RESPONSES_TWICE))
			keep_response(p, f, l3, pkt, pos, vlan_tci);
		end_if_answered(p, f, op); /* an earlier life of the edge may have taken all of it */
		return drop(p, DROP_LAN_ACK_STALE);
	}
	d = response_fits(f, op, pkt, pos);
	if (d != DROP_NONE)
		return drop(p, d);
	if (!resp_note(f, pos))
		return drop(p, DROP_LAN_ACK_STALE);
	if (!keep_response(p, f, l3, pkt, pos, vlan_tci)) {
		f->resp_got[pos % RESP_AHEAD / 64] &= ~(1ull << (pos % 64));
		return drop(p, DROP_LAN_NO_ROOM); /* the READ is repeated later */
	}
	f->last_progress_ns = p->now_ns;
	arm_after_response(p, f, op, resp_advance(f));
	far_settle(p, f, op->pos); /* it was executed after everything before it */
	end_if_answered(p, f, op);
	return DROP_NONE;
}
