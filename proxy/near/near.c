/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A near flow acts as the responder towards its host. Requests come in PSN order and are committed to the arena. Only
 * committed requests may be ACKed, and only up to the ceiling (near_ceiling.c):
 *
 *     base ........ settled ........ [reported] ........ next ........ max
 *          freed            held                 expected     out of order
 *
 * One key (VLAN, hosts, destination QPN) may have two incarnations at a time. A host that resets its QP begins a new
 * one. The older one leaves the table of keys, is not ACKed any more, and drains. Packets of the newer one are not sent
 * to the far edge before all that was ACKed of the older one is delivered, or has failed with an event because its
 * responder was silent for too long (drain_limit()). A third incarnation ends the second one, which has sent nothing
 * yet. If CM had told the pair of the second one, requests of it may have been ACKed: they fail, with an event. A third
 * incarnation in doubt does not end the second one while it may still owe such requests.
 *
 * A packet that may be a repetition, or the first packet of a new incarnation with the same bytes, begins an
 * incarnation in doubt (near_reset.c): the packet crosses, and the responder's answer decides. If the packet was a
 * repetition, the responder is ahead, and the far edge catches up with it.
 *
 * A flow is closed when it was replaced and has drained, when no responder answered and its host has given up, or when
 * the table is full and the flow was idle for longest. A flow with requests ACKed and not delivered is never closed
 * without an event. The descriptor of the flow stays until the daemon has surely fetched that event (LOSS_FETCHED_NS):
 * after a kill the rebuild raises the event again. */
#include "near_priv.h"

#include "proxy/carry/barrier.h"
#include "ack_tx.h"
#include "near_fp.h"
#include "proxy/wan/wan_lane.h"

void near_set_base(struct near_flow *f, uint64_t pos)
{
	f->pos_base = f->pos_next = f->pos_acked = f->pos_far = f->pos_reported = f->pos_settled = f->pos_wan = pos;
	f->pos_freed = f->pos_free_to = pos;
	f->msn_next = f->msn_settled = f->msn_acked = 0;
	f->begins_inside = ((pos_psn(pos) - f->inside_psn) & ROCE_PSN_MASK) < f->inside_n;
	f->template_len = f->doubted ? 0 : f->template_len; /* no RNR NAK: its MSN was counted from another place */
	f->op_known = false;
	if (f->pos_max < pos)
		f->pos_max = pos;
}

/* Sets the rest of the key of a new flow, and the position where the flow begins. */
static void begin_flow(struct proxy *p, struct near_flow *f, const struct ip_addr *dst, uint32_t dest_qpn,
                       uint16_t vlan_tci, uint32_t psn)
{
	f->dst = *dst;
	f->dest_qpn = dest_qpn;
	f->vlan_tci = vlan_tci;
	f->mode = proxy_mode_for(&p->cfg, &f->src, dst);
	near_set_base(f, POS_ORIGIN + psn);
	f->psn_origin = psn;
	near_announce(f);
}

struct near_flow *near_open(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	struct near_flow *f = near_flow_take(p, &pkt->src, proxy_lane_between(&p->cfg, &pkt->src, &pkt->dst), false);

	if (!f)
		return NULL;
	begin_flow(p, f, &pkt->dst, pkt->dest_qpn, vlan_tci, pkt->psn);
	near_unpaired_enter(p, f);
	f->pos_last_rx = f->pos_base;
	near_key_put(p, f);
	near_store(p, f);
	proxy_event_push(p, EV_FLOW_OPENED, f, NULL, f->pos_base, 0);
	return f;
}

void near_free_slots(struct proxy *p, struct near_flow *f)
{
	near_ops_retire(p, f, true);
	f->pos_free_to = max_u64(max_u64(f->pos_next, f->pos_held), f->pos_free_to);
	f->back_at = f->back_to = 0;
	f->absorbing = false;
	near_work(p, f);
}

void near_close(struct proxy *p, struct near_flow *f)
{
	struct near_flow *newer = f->newer;

	proxy_event_push(p, EV_FLOW_CLOSED, f, NULL, f->pos_settled, f->pos_next - f->pos_settled);
	near_note_end(p, f);
	count(p, CTR_FLOWS_CLOSED, 1);
	if (f->newer)
		f->newer->older = NULL;
	else
		near_key_del(p, f);
	if (f->older)
		f->older->newer = NULL;
	near_queue_close(p, lane_of(p, f->lane), near_wire_id(p, f), f->inc);
	near_error_end(p, f);
	if (near_loss_is_fresh(p, f)) {
		near_become(p, f, NEAR_ENDED);
		near_store(p, f); /* before slots are freed: after a kill only this tells of the failure */
	}
	near_free_slots(p, f);
	near_unpaired_leave(p, f);
	near_requester_leave(p, f);
	near_reserve_leave(p, f);
	near_turn_leave(p, f);
	dlist_remove(&f->ack_tx_node);
	dlist_remove(&f->resp_node);
	near_wan_leave(p, f);
	timer_cancel(&p->timers, &f->patience);
	timer_cancel(&p->timers, &f->retire);
	timer_cancel(&p->timers, &f->drain);
	timer_cancel(&p->timers, &f->resp_pace);
	timer_cancel(&p->timers, &f->liveness);
	if (f->state != NEAR_ENDED || dlist_empty(&p->near_free)) /* in a full table a new flow needs the place */
		near_become(p, f, NEAR_FREE);
	barrier_mark(p, f);
	if (f->state == NEAR_FREE) {
		near_store(p, f);
		near_place_left(p, f);
	} else {
		timer_set(&p->timers, &f->drain, f->loss.ns + LOSS_FETCHED_NS);
	}
	if (newer)
		near_wan_schedule(p, newer);
}

/* The time until which a replaced flow may wait for its responder: DRAIN_STALL_NS and four round trips after the
 * responder was last heard, or after the line came back. Silence before the replacement counts, too: the host of the
 * new flow gets no answer meanwhile, and ConnectX gives up after 300 ms. */
static uint64_t drain_limit(const struct proxy *p, const struct near_flow *old)
{
	uint64_t from = max_u64(old->heard_ns, max_u64(p->wan_heard_since_ns, old->line_back_ns));

	return from + DRAIN_STALL_NS + 4 * proxy_rtt_ns(p);
}

/* f replaces `old`: `old` leaves the table of keys, and the far edge is to forget `old` before it hears of f. */
static void drain_before(struct proxy *p, struct near_flow *old, struct near_flow *f)
{
	if (!old->newer)
		near_key_del(p, old);
	near_link_lives(p, old, f);
	near_turn_leave(p, old);
	dlist_remove(&old->ack_tx_node);
	timer_set(&p->timers, &old->drain, p->now_ns);
}

/* The flow is about to be closed. Raises a failure if requests of it were ACKed and not delivered, unless
 * near_refused() has done so already. */
static void fail_replaced(struct proxy *p, struct near_flow *f)
{
	if (!near_acked_is_delivered(f) && f->state != NEAR_FAILING)
		near_loss_raise(p, f, FAILURE_REPLACED, f->pos_reported, near_held(f));
}

static struct near_flow *succeed_flow(struct proxy *p, struct near_flow *old, uint32_t psn, uint16_t vlan_tci)
{
	struct ip_addr src = old->src, dst = old->dst;
	uint32_t qpn = old->dest_qpn;
	struct near_flow *f, *drains = old;

	if (old->older) {
		drains = old->older;
		fail_replaced(p, old);
		near_close(p, old);
		near_key_put(p, drains); /* until the next one is there */
	}
	/* near_flow_take() may close `drains`, which is unused then, or is f itself. */
	f = near_flow_take(p, &src, drains->lane, false);
	if (!f)
		return NULL;
	begin_flow(p, f, &dst, qpn, vlan_tci, psn);
	near_unpaired_enter(p, f);
	if (near_in_use(drains) && drains != f)
		drain_before(p, drains, f);
	near_key_put(p, f);
	return f;
}

/* Closes the older incarnation if all that was ACKed of it is delivered: no host waits for the rest. */
static void close_older_if_kept(struct proxy *p, struct near_flow *f)
{
	if (f->older && near_acked_is_delivered(f->older))
		near_close(p, f->older);
}

/* Opens the next incarnation when a reset of the QP is certain. */
static struct near_flow *succeed_for_sure(struct proxy *p, struct near_flow *old, uint32_t psn, uint16_t vlan_tci)
{
	struct near_flow *f = succeed_flow(p, old, psn, vlan_tci);

	if (!f)
		return NULL;
	count(p, CTR_INCARNATIONS, 1);
	near_store(p, f);
	proxy_event_push(p, EV_FLOW_RESET, f, NULL, f->pos_base, 0);
	close_older_if_kept(p, f);
	return f;
}

struct near_flow *near_succeed(struct proxy *p, struct near_flow *old, uint32_t psn, uint16_t vlan_tci)
{
	if (old->doubted) /* the packet may belong to the incarnation before `old`, too */
		return near_succeed_in_doubt(p, old, psn, vlan_tci, false);
	return succeed_for_sure(p, old, psn, vlan_tci);
}

/* Facts about psn from the incarnation before; valid if the incarnation in doubt turns out to be the same one. */
struct before {
	bool known, inside; /* inside: psn is within a READ */
	uint32_t inside_psn, inside_n;
	uint64_t pos;
	struct fp_memory memory; /* fingerprints below psn: the host may go back further */
	uint32_t msn, after;     /* the responder's MSN at psn, as on the wire; messages from psn on */
	uint32_t requester_qpn, origin;
	uint8_t rnr_retry, template_len, template[TEMPLATE_MAX];
};

static void note_before(struct proxy *p, const struct near_flow *old, uint32_t psn, bool rest, struct before *b)
{
	uint64_t pos = pos_near(old->pos_next, psn);
	const struct rd_op *op = near_op_at(old, pos), *read = op ? op : near_op_at(old, pos - 1);
	uint32_t offset = old->msn_offset;

	b->pos = pos;
	near_fp_save(p, old, pos, &b->memory);
	b->inside_psn = read ? pos_psn(read->pos + 1) : 0;
	b->inside_n = read && read->opcode == RC_READ_REQUEST && read->psns ? read->psns - 1 : 0;
	b->known = (old->msn == MSN_EXACT || near_hinted_offset(p, old, &offset)) &&
	           near_fp_messages_from(p, old, pos, &b->after);
	b->inside = op ? op->pos < pos : rest;
	b->msn = offset + old->msn_next - b->after;
	b->requester_qpn = old->requester_qpn;
	b->origin = old->psn_origin;
	b->rnr_retry = old->rnr_retry;
	b->template_len = b->known ? old->template_len : 0;
	memcpy(b->template, old->template, b->template_len);
}

/* Copies the facts about the incarnation before into f. With the template f's host may be sent RNR NAKs while the
 * responder is asked: an RNR NAK at the flow's first PSN acknowledges nothing, whichever incarnation the host is in. */
static void take_over_before(struct proxy *p, struct near_flow *f, const struct before *b)
{
	near_fp_restore(p, f, &b->memory, (uint32_t)(f->pos_base - b->pos));
	f->psn_origin = b->origin;
	f->begins_inside = b->inside;
	f->inside_psn = b->inside_psn; /* the base may still move down into the READ */
	f->inside_n = b->inside_n;
	f->rnr_retry = b->rnr_retry;
	f->requester_qpn = b->requester_qpn;
	f->template_len = b->template_len;
	memcpy(f->template, b->template, b->template_len);
	if (!b->known)
		return;
	f->msn_offset = (b->msn - b->inside) & ROCE_PSN_MASK; /* a READ is counted at its start */
	f->msn_hint = b->msn & ROCE_PSN_MASK;
	f->msn_hint_pos = f->pos_base;
	f->msn_hint_span = b->after + 1;
}

struct near_flow *near_succeed_in_doubt(struct proxy *p, struct near_flow *old, uint32_t psn, uint16_t vlan_tci,
                                        bool rest)
{
	struct near_flow *f;
	struct before b;

	note_before(p, old, psn, rest, &b);
	f = succeed_flow(p, old, psn, vlan_tci);
	if (!f)
		return NULL;
	f->doubted = true;
	f->sent_before = true; /* the responder may be ahead of it */
	take_over_before(p, f, &b);
	count(p, CTR_DOUBTS, 1);
	near_store(p, f);
	proxy_event_push(p, EV_FLOW_DOUBTED, f, NULL, f->pos_base, 0);
	close_older_if_kept(p, f);
	return f;
}

void near_cm_open(struct proxy *p, const struct near_cm_info *ci)
{
	struct near_flow *f = near_find(p, &ci->src, &ci->dst, ci->dest_qpn, ci->vlan_tci);

	if (f && f->cm_tag && f->cm_tag == ci->tag && !FAULT(FAULT_CM_REPEATED))
		return;
	if (f && f->pos_next == f->pos_base && f->requester_qpn == ci->requester_qpn && f->base_fixed &&
	    pos_psn(f->pos_base) == ci->start_psn && !FAULT(FAULT_CM_REPEATED))
		return;
	if (f) {
		f = succeed_for_sure(p, f, ci->start_psn, ci->vlan_tci);
	} else {
		f = near_flow_take(p, &ci->src, proxy_lane_between(&p->cfg, &ci->src, &ci->dst), true);
		if (f) {
			begin_flow(p, f, &ci->dst, ci->dest_qpn, ci->vlan_tci, ci->start_psn);
			near_key_put(p, f);
		}
	}
	if (!f)
		return;
	f->cm_tag = ci->tag;
	f->requester_qpn = ci->requester_qpn;
	f->pmtu = ci->pmtu;
	f->rnr_retry = ci->rnr_retry;
	f->base_fixed = true;
	f->msn = MSN_EXACT;
	near_unpaired_over(p, f, PAIR_CONFIRMED);
	near_requester_enter(p, f);
	f->template_len = (uint8_t)ack_tx_template_from_cm(f->template, ci);
	near_store(p, f);
	count(p, CTR_PAIRED_CM, 1);
	proxy_event_push(p, EV_FLOW_PAIRED, f, NULL, f->pos_base, 0);
}

void near_cm_over(struct proxy *p, const struct near_cm_info *ci)
{
	struct near_flow *f = near_find(p, &ci->src, &ci->dst, ci->dest_qpn, ci->vlan_tci);

	if (f && !f->older && f->pos_max == f->pos_base && pos_psn(f->pos_base) == ci->start_psn &&
	    f->pairing == PAIR_CONFIRMED && f->requester_qpn == ci->requester_qpn)
		near_close(p, f);
}

/* --- timers --- */

/* The interval of drain_check(): long enough for an answer of the far edge. */
static uint64_t drain_look_ns(const struct proxy *p)
{
	return DRAIN_LOOK_NS + 2 * proxy_rtt_ns(p);
}

/* True if the far edge was heard within drain_look_ns(). Else a PING is sent; if one was sent before, the line counts
 * as silent until now (line_back_ns). */
static bool line_is_heard(struct proxy *p, struct near_flow *f)
{
	struct lane *l = lane_of(p, f->lane);

	if (p->now_ns <= p->last_rx_ns + drain_look_ns(p)) {
		f->drain_pinged = false;
		return true;
	}
	if (f->drain_pinged)
		f->line_back_ns = p->now_ns;
	f->drain_pinged = true;
	l->space[0].ping_due = true;
	wan_lane_schedule(p, l);
	return false;
}

/* True if the newer flow is in doubt and begins behind what the responder has. The host may only be repeating; closing
 * the older flow would lose the requests between, and the newer one could not go on without them. */
static bool may_be_the_same(const struct near_flow *f)
{
	const struct near_flow *newer = f->newer;

	return newer && newer->doubted && pos_near(f->pos_reported, pos_psn(newer->pos_base)) > f->pos_reported;
}

/* A replaced flow fails when its responder was silent until drain_limit() while the line was heard. */
static void drain_check(struct proxy *p, struct near_flow *f)
{
	if (!line_is_heard(p, f) || p->now_ns < drain_limit(p, f) || may_be_the_same(f)) {
		timer_set(&p->timers, &f->drain, p->now_ns + drain_look_ns(p));
		return;
	}
	fail_replaced(p, f);
	near_close(p, f);
}

/* The failure of a closed flow was fetched: the descriptor and the place are free. */
static void end_of_loss(struct proxy *p, struct near_flow *f)
{
	near_become(p, f, NEAR_FREE);
	near_store(p, f);
	near_place_left(p, f);
}

/* Closes an unpaired flow whose host has been silent for FORSAKEN_NS. Nothing of the flow was ACKed. */
static bool requester_gave_up(struct proxy *p, struct near_flow *f)
{
	if (p->now_ns < f->last_rx_ns + FORSAKEN_NS) {
		timer_set(&p->timers, &f->retire, f->last_rx_ns + FORSAKEN_NS);
		return false;
	}
	near_close(p, f);
	return true;
}

void near_on_timer(struct proxy *p, struct near_flow *f, enum timer_kind kind)
{
	switch (kind) {
	case TK_PATIENCE:
		near_gap_look(p, f);
		break;
	case TK_RETIRE:
		if (f->pairing == PAIR_LEARNING && requester_gave_up(p, f))
			break;
		near_ops_retire(p, f, false);
		break;
	case TK_DRAIN:
		if (f->state == NEAR_ENDED)
			end_of_loss(p, f);
		else
			drain_check(p, f);
		break;
	case TK_LIVENESS:
		near_liveness_on_timer(p, f);
		break;
	case TK_RESP_PACE:
		dlist_append_once(&p->resp_list, &f->resp_node);
		break;
	case TK_FAIL:
		near_fail_on_timer(p, f);
		break;
	case TK_TURN:
		near_turn_on_timer(p, f);
		break;
	default:
		break;
	}
}
