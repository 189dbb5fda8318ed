/* SPDX-License-Identifier: Apache-2.0 */
/* near_ceiling.c - the bound of ACKs to a host (the ceiling); and whether its responder is heard.
 *
 * Theory of operation
 *
 * near_ceiling() is the first position that may not be ACKed to the host:
 *
 *     ceiling = min( mode near: next | mode far: far | mode host: reported, first unanswered READ/ATOMIC/unknown )
 *
 * Mode far has "reported", as mode host, until a FLOW_REPORT has said that the far edge keeps all (far_keeps).
 *
 * Within a READ that was answered in part, the ceiling is the position from which the host has asked again. A NAK or RNR
 * NAK may carry that PSN, an ACK never does (near_inside_read()).
 *
 * Requests before "next" are committed here, those before "far" at the far edge, too, and those before "reported" are
 * ACKed by the responder. Any mode counts as host while the responder is silent for StallAfter or not heard (below), or
 * the peer's config disagrees. The ceiling never goes below what was ACKed: if the far edge loses its arena, its
 * requests are still here, because no slot is freed before the responder has its request. Until the responder has
 * answered (or CM has told) neither the requester's QPN nor the responder's MSN is known, and nothing is ACKed. The
 * ceiling of a failed flow is the position of its NAK. */
#include "near_priv.h"

#include "proxy/carry/barrier.h"
#include "proxy/wan/wan_lane.h"

#define HEARD_STORE_NS 50000000ull /* the arena's alive_ns is at most so old while a host is ACKed */

enum ack_mode near_mode(const struct proxy *p, const struct near_flow *f)
{
	if (FAULT(FAULT_EARLY_ACKS))
		return ACK_MODE_NEAR;
	return proxy_early_acks_off(p) || (near_demoted(p, f) && !FAULT(FAULT_NO_DEMOTION)) ? ACK_MODE_HOST : f->mode;
}

void near_early_look(struct proxy *p, struct near_flow *f)
{
	if (f->early_stored && near_mode(p, f) != ACK_MODE_NEAR)
		near_store(p, f);
}

/* The position up to which the mode allows ACKs, without regard to open operations. */
static uint64_t mode_point(const struct near_flow *f, enum ack_mode mode)
{
	switch (mode) {
	case ACK_MODE_NEAR:
		return f->pos_next;
	case ACK_MODE_FAR:
		if (FAULT(FAULT_FAR_AS_NEAR))
			return f->pos_next;
		return min_u64(f->far_keeps ? f->pos_far : f->pos_reported, f->pos_next);
	default:
		return min_u64(f->pos_reported, f->pos_next);
	}
}

uint64_t near_ceiling_in(const struct near_flow *f, enum ack_mode mode)
{
	uint64_t pos = mode_point(f, mode);
	const struct rd_op *op = near_op_open(f);

	if (f->pairing == PAIR_LEARNING || f->msn == MSN_UNKNOWN)
		return f->pos_acked;
	if (f->state == NEAR_FAILED)
		return f->fail_pos;
	if (f->msn == MSN_LATE)
		return f->pos_acked;
	if (op && op->from == op->next && op->next > op->pos)
		return op->next; /* the host has asked from here, so it has everything before */
	if (op && op->pos < pos && !FAULT(FAULT_PAST_READ))
		pos = op->pos;
	return max_u64(pos, f->pos_acked);
}

uint64_t near_ceiling(const struct proxy *p, const struct near_flow *f)
{
	return near_ceiling_in(f, near_mode(p, f));
}

bool near_inside_read(const struct near_flow *f, uint64_t pos)
{
	return f->op_open && pos > f->op_open->pos && pos < f->op_open->pos + f->op_open->psns;
}

bool near_may_begin_inside(const struct near_flow *f)
{
	const struct rd_op *op = near_op_open(f);

	return op && op->pos == f->pos_base && !f->begins_inside && !f->cm_tag && op->opcode == RC_READ_REQUEST;
}

uint32_t near_msn_at(const struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	const struct rd_op *op = near_op_open(f);
	uint32_t slot;

	if (f->state == NEAR_FAILED)
		return f->fail_msn;
	if (f->begins_inside && pos == f->pos_base)
		return 1; /* a READ counts from its start */
	if (pos == f->pos_next)
		return f->msn_next;
	if (pos == f->pos_settled)
		return f->msn_settled;
	if (pos == f->pos_acked)
		return f->msn_acked;
	if (op && pos >= op->pos && pos < op->pos + op->psns)
		return op->msn - (pos == op->pos); /* a READ counts from its start */
	op = near_op_at(f, pos - 1); /* behind an operation of several PSNs, or in it: it is counted at its start */
	if (op)
		return op->msn;
	slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, pos - 1);
	return slot == SLOT_NONE ? f->msn_acked : arena_hdr(p->arena, slot)->msn;
}

static bool begins_early(const struct proxy *p, const struct near_flow *f)
{
	return f->mode == ACK_MODE_NEAR && !f->early_stored && near_mode(p, f) == ACK_MODE_NEAR;
}

void near_acked(struct proxy *p, struct near_flow *f, uint64_t pos)
{
	if (pos <= f->pos_acked)
		return;
	f->msn_acked = near_msn_at(p, f, pos);
	if (f->pos_next - f->pos_acked > f->notes.most_unacked)
		f->notes.most_unacked = (uint32_t)(f->pos_next - f->pos_acked);
	f->pos_acked = pos;
	f->acked_ns = p->now_ns;
	/* A rebuild finds pos_acked without a store: everything in the arena in mode near, pos_settled in mode host.
	 * Which of the two is in force (early_stored) is stored before the first early ACK. */
	if (f->mode == ACK_MODE_FAR || p->now_ns >= f->stored_ns + HEARD_STORE_NS || begins_early(p, f))
		near_store(p, f);
	barrier_mark(p, f);
}

void near_ack_schedule(struct proxy *p, struct near_flow *f, enum near_due due)
{
	if (f->newer || f->superseded || (f->pairing == PAIR_LEARNING && !near_may_back_pressure(f, due)))
		return;
	if (due > f->due)
		f->due = due;
	dlist_append_once(&p->ack_tx, &f->ack_tx_node);
}

/* --- whether a flow's responder is heard.
 *
 * Theory of operation
 *
 * A program's keepalive must not be ACKed for a responder that may be dead. A flow is demoted, which ends early ACKs,
 * in two cases: while the far edge reports that the responder makes no progress; and while the responder owes an answer
 * and nothing was heard of it for StallAfter and two round trips. Then the responder, its edge or the line may be dead.
 * near_mode() checks this at each ACK. The timer here only raises the event that tells an operator. There is one timer
 * per flow; it runs while an answer is owed, and is set again when it finds that the responder was heard meanwhile.
 *
 * While the whole line is silent, one flow raises the event for all. */

static uint64_t patience_ns(const struct proxy *p)
{
	return p->cfg.stall_ns + 2 * proxy_rtt_ns(p);
}

static bool answer_is_owed(const struct near_flow *f)
{
	return f->pos_reported < f->pos_next;
}

bool near_demoted(const struct proxy *p, const struct near_flow *f)
{
	return near_is_stalled(f) || (answer_is_owed(f) && p->now_ns >= f->heard_ns + patience_ns(p));
}

/* False: the line is silent, and another flow has raised the event already. */
static bool worth_saying(struct proxy *p)
{
	bool line_silent = p->now_ns >= p->last_rx_ns + p->cfg.stall_ns, said = p->silence_said_ns == p->last_rx_ns;

	if (line_silent)
		p->silence_said_ns = p->last_rx_ns;
	return !(line_silent && said);
}

void near_demotion_look(struct proxy *p, struct near_flow *f)
{
	bool early = f->mode != ACK_MODE_HOST && f->pairing != PAIR_LEARNING, now = early && near_demoted(p, f);

	if (now && f->demotion == DEMOTED_NOT) {
		count(p, CTR_DEMOTIONS, 1);
		f->notes.n.stalls++;
		f->demotion = worth_saying(p) ? DEMOTED_SAID : DEMOTED_UNSAID;
		if (f->demotion == DEMOTED_SAID)
			proxy_event_push(p, EV_FLOW_DEMOTED, f, NULL, f->pos_reported, near_held(f));
	} else if (!now) {
		if (f->demotion == DEMOTED_SAID)
			proxy_event_push(p, EV_FLOW_RESUMED, f, NULL, f->pos_reported, 0);
		f->demotion = DEMOTED_NOT;
	}
	if (now)
		near_early_look(p, f);
}

void near_liveness_seen(struct proxy *p, struct near_flow *f)
{
	f->heard_ns = p->now_ns;
	if (answer_is_owed(f) && !timer_armed(&f->liveness))
		timer_set(&p->timers, &f->liveness, f->heard_ns + patience_ns(p));
}

/* The far edge may have forgotten the flow to make room for another one, and its last reports may be lost. Then neither
 * edge has anything to send. So the oldest packet that the far edge is believed to have is sent once more: a far edge
 * that does not know the flow reports credit 0 (begin_far_flow_again()), one that does drops the packet. The packet is
 * not sent while the far edge reports the flow as stalled, while the line is silent, or while the flow has no pair: a
 * far flow without a pair waits for its responder's answer and is not forgotten. */
static void ask_far_edge(struct proxy *p, struct near_flow *f)
{
	uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, f->pos_settled);

	if (slot != SLOT_NONE && f->pos_wan > f->pos_settled && !near_is_stalled(f) && f->pairing != PAIR_LEARNING &&
	    p->now_ns < p->last_rx_ns + p->cfg.stall_ns)
		wan_lane_send_again(p, lane_of(p, f->lane), slot);
}

void near_liveness_on_timer(struct proxy *p, struct near_flow *f)
{
	uint64_t from_ns = f->heard_ns;

	near_demotion_look(p, f);
	if (!answer_is_owed(f))
		return;
	if (near_demoted(p, f)) {
		ask_far_edge(p, f);
		from_ns = p->now_ns;
	}
	timer_set(&p->timers, &f->liveness, from_ns + patience_ns(p));
}
