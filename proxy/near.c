/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A near flow is a responder that keeps its promises by proxy. Requests come in PSN order, are committed to the arena
 * and only then may be ACKed, and only up to the ceiling (near_ceiling.c):
 *
 *     base ........ settled ........ [reported] ........ next ........ max
 *          freed            held                 expected     out of order
 *
 * One key (VLAN, hosts, destination QPN) may have two lives at a time. A host that resets its QP begins a new one; the
 * old one leaves the table of keys, is not ACKed any more and drains: the new one's packets are not sent on before the
 * old one's bytes are delivered, or have failed loudly because nothing moved for OLD_DRAIN_STALL_NS. A third life ends
 * the second one, which has sent nothing yet.
 *
 * A flow is closed when it was replaced and has drained, when it never got an answer and its host has given up, or when
 * the table is full and it has been idle for longest. Nothing that was ACKed and not delivered is closed silently. */
#include "near_priv.h"

#include "barrier.h"
#include "mouth.h"
#include "wan_lane.h"

void near_set_base(struct near_flow *f, uint64_t pos)
{
	f->pos_base = f->pos_next = f->pos_acked = f->pos_far = f->pos_reported = f->pos_settled = f->pos_wan = pos;
	f->msn_next = f->msn_settled = f->msn_acked = 0;
	f->op_known = false;
	if (f->pos_max < pos)
		f->pos_max = pos;
}

/* Gives a new flow the rest of its key, and where it begins. */
static void begin(struct proxy *p, struct near_flow *f, const struct ip_addr *dst, uint32_t dest_qpn, uint16_t vlan_tci,
                  uint32_t psn)
{
	f->dst = *dst;
	f->dest_qpn = dest_qpn;
	f->vlan_tci = vlan_tci;
	f->mode = proxy_mode_for(&p->cfg, &f->src, dst);
	near_set_base(f, POS_ORIGIN + psn);
	f->open_due = true;
}

struct near_flow *near_open(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	struct near_flow *f = near_flow_take(p, &pkt->src, proxy_lane_between(&p->cfg, &pkt->src, &pkt->dst), false);

	if (!f)
		return NULL;
	begin(p, f, &pkt->dst, pkt->dest_qpn, vlan_tci, pkt->psn);
	near_unpaired_enter(p, f);
	f->pos_last_rx = f->pos_base;
	idx_hash_put(&p->near_by_key, near_flow_hash(f), f->idx);
	near_store(p, f);
	proxy_event_push(p, EV_FLOW_OPENED, f, NULL, f->pos_base, 0);
	return f;
}

void near_free_slots(struct proxy *p, struct near_flow *f)
{
	near_ops_retire(p, f, true);
	for (uint64_t pos = f->pos_settled; f->held_bytes && pos < f->pos_held; pos++) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, pos);

		if (slot != SLOT_NONE)
			slot_release(p, slot);
	}
}

void near_close(struct proxy *p, struct near_flow *f)
{
	struct near_flow *newer = f->newer;

	proxy_event_push(p, EV_FLOW_CLOSED, f, NULL, f->pos_settled, f->pos_next - f->pos_settled);
	count(p, CTR_FLOWS_CLOSED, 1);
	if (f->newer)
		f->newer->older = NULL;
	else
		idx_hash_del(&p->near_by_key, near_flow_hash(f), f->idx);
	if (f->older)
		f->older->newer = NULL;
	wan_lane_queue_close(p, lane_of(p, f->lane), near_wire_id(p, f), f->inc);
	near_free_slots(p, f);
	near_unpaired_leave(p, f);
	near_requester_leave(p, f);
	near_tell_end(p, f);
	near_room_leave(p, f);
	dlist_remove(&f->mouth_node);
	dlist_remove(&f->resp_node);
	dlist_remove(&f->wan_node);
	timer_cancel(&p->timers, &f->patience);
	timer_cancel(&p->timers, &f->retire);
	timer_cancel(&p->timers, &f->drain);
	timer_cancel(&p->timers, &f->resp_pace);
	timer_cancel(&p->timers, &f->unheard);
	f->used = false;
	barrier_mark(p, f);
	near_store(p, f);
	p->near_used--;
	if (newer)
		near_wan_kick(p, newer);
}

/* `old` has been replaced by f: it leaves the table of keys and has OLD_DRAIN_STALL_NS from its last progress on. */
static void drain_before(struct proxy *p, struct near_flow *old, struct near_flow *f)
{
	if (!old->newer)
		idx_hash_del(&p->near_by_key, near_flow_hash(old), old->idx);
	old->newer = f;
	f->older = old;
	dlist_remove(&old->mouth_node);
	old->last_progress_ns = p->now_ns;
	timer_set(&p->timers, &old->drain, p->now_ns + OLD_DRAIN_STALL_NS);
}

struct near_flow *near_succeed(struct proxy *p, struct near_flow *old, uint32_t psn, uint16_t vlan_tci)
{
	struct ip_addr src = old->src, dst = old->dst;
	uint32_t qpn = old->dest_qpn;
	struct near_flow *f, *drains = old;

	if (old->older) {
		drains = old->older;
		near_close(p, old);
	}
	/* This may have to forget the drained one: then it is not used, or is f itself. */
	f = near_flow_take(p, &src, drains->lane, false);
	if (!f)
		return NULL;
	count(p, CTR_INCARNATIONS, 1);
	begin(p, f, &dst, qpn, vlan_tci, psn);
	near_unpaired_enter(p, f);
	if (drains->used && drains != f)
		drain_before(p, drains, f);
	idx_hash_put(&p->near_by_key, near_flow_hash(f), f->idx);
	near_store(p, f);
	proxy_event_push(p, EV_FLOW_RESET, f, NULL, f->pos_base, 0);
	if (f->older && near_drained(drains))
		near_close(p, drains);
	return f;
}

void near_cm_open(struct proxy *p, const struct near_cm_info *ci)
{
	struct near_flow *f = near_find(p, &ci->src, &ci->dst, ci->dest_qpn, ci->vlan_tci);

	if (f && f->pos_next == f->pos_base && f->requester_qpn == ci->requester_qpn && f->base_fixed &&
	    !FAULT(FAULT_CM_REPEATED))
		return;
	if (f) {
		f = near_succeed(p, f, ci->start_psn, ci->vlan_tci);
	} else {
		f = near_flow_take(p, &ci->src, proxy_lane_between(&p->cfg, &ci->src, &ci->dst), true);
		if (f) {
			begin(p, f, &ci->dst, ci->dest_qpn, ci->vlan_tci, ci->start_psn);
			idx_hash_put(&p->near_by_key, near_flow_hash(f), f->idx);
		}
	}
	if (!f)
		return;
	f->requester_qpn = ci->requester_qpn;
	f->pmtu = ci->pmtu;
	f->rnr_retry = ci->rnr_retry;
	f->base_fixed = f->msn_known = true;
	near_unpaired_over(p, f, PAIR_CONFIRMED);
	near_requester_enter(p, f);
	f->template_len = (uint8_t)mouth_template_from_cm(f->template, ci);
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

static void drain_check(struct proxy *p, struct near_flow *f)
{
	if (p->now_ns < f->last_progress_ns + OLD_DRAIN_STALL_NS) {
		timer_set(&p->timers, &f->drain, f->last_progress_ns + OLD_DRAIN_STALL_NS);
		return;
	}
	if (f->pos_acked > f->pos_settled) {
		count(p, CTR_BYTES_FAILED, near_held(f));
		proxy_event_push(p, EV_FLOW_FAILED, f, NULL, f->pos_settled, near_held(f));
	}
	near_close(p, f);
}

/* A flow that never got an answer and whose host has given up. Nothing of it was ACKed: it may go. */
static bool forsaken(struct proxy *p, struct near_flow *f)
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
		if (f->ooo_pkts && f->gap_naked != f->pos_next)
			near_nak_gap(p, f);
		break;
	case TK_RETIRE:
		if (f->pairing == PAIR_LEARNING && forsaken(p, f))
			break;
		near_ops_retire(p, f, false);
		break;
	case TK_DRAIN:
		drain_check(p, f);
		break;
	case TK_UNHEARD:
		near_unheard_on_timer(p, f);
		break;
	case TK_RESP_PACE:
		dlist_append_once(&p->resp_list, &f->resp_node);
		break;
	case TK_FAIL:
		near_fail_on_timer(p, f);
		break;
	default:
		break;
	}
}
