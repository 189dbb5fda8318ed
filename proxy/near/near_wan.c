/* SPDX-License-Identifier: Apache-2.0 */
/* near_wan.c - frames between a near flow and its far edge: FLOW_OPEN, FLOW_REPORT, FLOW_PAIR and credit.
 *
 * Theory of operation
 *
 * A near flow sends the far edge its requests, in order, within credit and window, and FLOW_OPEN when something about
 * the flow is new. The far edge sends back reports of what the responder has.
 *
 * pos_settled follows the `delivered` of these reports, but never passes an unanswered operation: a rebuild needs the
 * operation's request to know which responses to wait for. The descriptor is stored before a slot is freed. */
#include "near_priv.h"

#include "proxy/carry/barrier.h"
#include "near_fp.h"
#include "proxy/wan/share.h"
#include "proxy/wan/wan_lane.h"

#define BEGIN_AHEAD_NS 250000000ull /* begins_ns is at most so far ahead: a host without an answer gives up sooner */

/* The request of an operation is kept as long as its answer: a rebuild needs both to know what was answered. */
static void settle_slot(struct proxy *p, struct near_flow *f, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);

	if ((h->flags & SF_OWN_RESPONSE) && near_op_at(f, h->pos)) {
		near_count_held(p, f, 0, arena_class_bytes(h->len));
		slot_keep(p, slot);
	} else {
		slot_release(p, slot);
	}
}

void near_settle(struct proxy *p, struct near_flow *f)
{
	const struct rd_op *op = near_op_open(f);
	uint64_t target = min_u64(f->pos_reported, f->pos_next);

	if (f->msn == MSN_UNKNOWN)
		return;
	if (op && op->pos < target && !f->newer && !f->superseded) /* else no host waits for op's answer any more */
		target = op->pos;
	if (target <= f->pos_settled)
		return;
	f->msn_settled = near_msn_at(p, f, target);
	f->pos_settled = target; /* first the descriptor ... */
	if (!FAULT(FAULT_NEAR_FREES_FIRST))
		near_store(p, f);
	f->pos_free_to = max_u64(f->pos_free_to, target);
	f->last_progress_ns = p->now_ns;
	f->pos_wan = max_u64(f->pos_wan, f->pos_settled);
	near_work(p, f); /* ... then the slots */
}

/* --- what is left for later --- */

static void near_drained(struct proxy *p, struct near_flow *f, uint64_t bytes, uint64_t positions)
{
	share_drained(p, &f->share, bytes, positions);
	share_drained(p, &p->turns.drain, bytes, positions);
}

static void free_below(struct proxy *p, struct near_flow *f, uint64_t upto)
{
	while (f->pos_freed < upto && work_take(p)) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, f->pos_freed), psns = 1;

		if (slot != SLOT_NONE) {
			psns = arena_hdr(p->arena, slot)->psns;
			settle_slot(p, f, slot);
		}
		f->pos_freed += psns;
		if (!f->held_bytes)
			f->pos_freed = max_u64(f->pos_freed, upto);
	}
}

/* Slots below pos_settled count as drained: the responder has their requests. Slots behind it are given up, because the
 * flow is closed or has failed; pos_settled of a failed flow is beyond all slots, so none of them counts. */
static void free_some(struct proxy *p, struct near_flow *f)
{
	uint64_t from = f->pos_freed, held = near_held(f);

	if (f->state != NEAR_FAILED)
		free_below(p, f, min_u64(f->pos_free_to, f->pos_settled));
	if (f->pos_freed > from)
		near_drained(p, f, held - near_held(f), f->pos_freed - from);
	free_below(p, f, f->pos_free_to);
}

/* Requests of forgotten operations. */
static void free_dead_ops(struct proxy *p, struct near_flow *f)
{
	struct dnode *n;

	while ((n = dlist_first(&f->ops_dead)) && work_take(p))
		near_op_free(p, f, dlist_entry(n, struct rd_op, node));
}

/* The far edge has given up requests that were sent. The slots of these requests become unsent (m->gen++):
 * acknowledgement or loss of a datagram under way tells no more whether the far edge has them. */
static void mark_some_unsent(struct proxy *p, struct near_flow *f)
{
	f->back_at = max_u64(f->back_at, f->pos_settled);
	while (f->back_at < f->back_to && work_take(p)) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, f->back_at);
		struct slot_meta *m;

		if (slot == SLOT_NONE) {
			f->back_at++;
			continue;
		}
		m = arena_meta(p->arena, slot);
		f->back_at += arena_hdr(p->arena, slot)->psns;
		slot_unsent(p, slot);
		dlist_remove(&m->node);
		m->queued = SQ_NONE;
		m->units[0] = m->units[1] = m->lost[0] = m->lost[1] = 0;
		m->in_flight = m->copies = 0;
		m->gen++;
	}
}

static bool work_is_left(const struct near_flow *f)
{
	return f->pos_freed < f->pos_free_to || !dlist_empty(&f->ops_dead) || f->back_at < f->back_to || f->absorbing;
}

void near_work(struct proxy *p, struct near_flow *f)
{
	bool later = dnode_on(&f->work_node);

	free_some(p, f);
	free_dead_ops(p, f);
	mark_some_unsent(p, f);
	if (f->absorbing)
		near_absorb_held(p, f);
	if (work_is_left(f)) {
		dlist_append_once(&p->near_work, &f->work_node);
		return;
	}
	dlist_remove(&f->work_node);
	near_place_left(p, f);
	if (later && near_in_use(f))
		near_wan_schedule(p, f);
}

/* The far edge has given up the requests at and beyond `from`, to make room for other flows. These requests are sent
 * again as credit allows. */
static void mark_unsent_from(struct proxy *p, struct near_flow *f, uint64_t from)
{
	from = max_u64(from, f->pos_settled);
	if (from < f->pos_wan || f->back_at < f->back_to) {
		f->back_to = max_u64(f->back_at < f->back_to ? f->back_to : 0, f->pos_wan);
		f->back_at = from; /* slots that were taken back already are taken back again */
	}
	f->pos_wan = min_u64(f->pos_wan, from);
	f->pos_far = max_u64(f->pos_reported, min_u64(f->pos_far, from));
	count(p, CTR_CREDIT_REVOKED, 1);
	near_work(p, f);
}

/* Credit only grows within a round, as reports may overtake each other. A new round may lower it. Reports of an older
 * round are ignored. */
static void on_credit(struct proxy *p, struct near_flow *f, const struct wan_flow_report *r)
{
	int16_t newer = (int16_t)(r->again_round - f->again_round);

	if (newer < 0)
		return;
	if (newer > 0)
		mark_unsent_from(p, f, r->again_from);
	f->pos_far = max_u64(f->pos_far, min_u64(r->received, f->pos_next));
	if (newer > 0 || !f->credit_known || r->credit > f->pos_credit)
		f->pos_credit = r->credit;
	f->far_keeps |= r->keeps_all;
	f->again_round = r->again_round;
	f->credit_known = true;
}

/* A report with credit 0: the far edge does not know where the flow begins. Either FLOW_OPEN has not reached it, or the
 * far edge has forgotten the flow to make room for another one. In the second case the flow's last reports may be lost,
 * so this edge does not know what was delivered, and again_round starts from 0. All requests that are not settled are
 * sent again, as in a new session; the responder recognises duplicates. */
static void begin_far_flow_again(struct proxy *p, struct near_flow *f)
{
	near_announce(f);
	if (FAULT(FAULT_FORGOTTEN_NOT_RESENT))
		return;
	f->sent_before |= f->pos_wan > f->pos_base;
	mark_unsent_from(p, f, f->pos_settled);
	f->again_round = 0;
	f->credit_known = f->far_keeps = false;
}

/* After progress at the responder: settles, updates the barrier, closes a drained flow, or schedules an ACK. */
static void after_progress(struct proxy *p, struct near_flow *f)
{
	if (near_op_open(f)) /* an ACK may have answered op, or its response may have waited for the pair */
		dlist_append_once(&p->resp_list, &f->resp_node);
	near_settle(p, f);
	barrier_mark(p, f);
	if (f->newer && near_acked_is_delivered(f)) {
		near_close(p, f);
		return;
	}
	if (near_ceiling(p, f) > f->pos_acked && (near_mode(p, f) != ACK_MODE_NEAR || f->ack_asked))
		near_ack_schedule(p, f, DUE_ACK);
	if (lane_of(p, f->lane)->node.next == NULL)
		wan_lane_schedule(p, lane_of(p, f->lane));
}

void near_on_report(struct proxy *p, struct lane *l, const struct wan_flow_report *r)
{
	struct near_flow *f = near_by_id(p, r->flow, r->inc);
	uint64_t delivered;

	if (!f) {
		if (r->flow >> 24 == p->cfg.shard) /* the far edge has not heard that the flow ended */
			near_queue_close(p, l, r->flow, r->inc);
		return;
	}
	if (!r->credit) {
		begin_far_flow_again(p, f);
		near_wan_schedule(p, f);
		return;
	}
	delivered = min_u64(r->delivered, f->pos_next);
	if (delivered > f->pos_reported || r->state == WFS_RNR)
		near_liveness_seen(p, f);
	f->pos_reported = max_u64(f->pos_reported, delivered);
	f->pos_far = max_u64(f->pos_far, f->pos_reported);
	on_credit(p, f, r);
	f->responder_behind = r->received - r->delivered >
	                      share_positions(p, &f->share, POOL_LAN, f->held_bytes) / SHARE_REPAIRS;
	if (r->state == WFS_RNR) {
		f->notes.n.rnr_told++;
		f->notes.rnr_ns = p->now_ns;
	}
	if (r->state != WFS_STALLED && r->state != WFS_FAILED)
		f->stalled_ns = 0;
	else if (!near_is_stalled(f))
		f->stalled_ns = p->now_ns;
	if (near_is_stalled(f))
		near_reserve_leave(p, f);
	near_demotion_look(p, f);
	if (r->state == WFS_FAILED && r->lost)
		near_buffer_lost(p, f, r->nak_pos);
	else if (r->state == WFS_FAILED)
		near_refused(p, f, r->nak_pos, r->syndrome);
	near_wan_schedule(p, f);
	after_progress(p, f);
}

/* True if the template is an ACK from this flow's responder to this flow's requester, and nothing else. */
static bool template_fits(const struct near_flow *f, const struct wan_flow_pair *r)
{
	struct roce_pkt pkt;

	return roce_parse(r->template, r->template_len, &pkt) == DROP_NONE && pkt.len == r->template_len &&
	       pkt.opcode == RC_ACK && ip_addr_eq(&pkt.src, &f->dst) && ip_addr_eq(&pkt.dst, &f->src);
}

/* The responder waits for a PSN below pos_base that never came here: moves the base down, and NAKs to the host. */
static void lower_base(struct proxy *p, struct near_flow *f, uint64_t pos)
{
	f->ooo_pkts += (uint32_t)(f->pos_next - f->pos_base);
	near_set_base(f, pos);
	near_fp_trim(p, f, pos);
	near_announce(f);
	count(p, CTR_BASE_LOWERED, 1);
	near_ack_schedule(p, f, DUE_NAK);
}

bool near_hinted_offset(const struct proxy *p, const struct near_flow *f, uint32_t *offset)
{
	if (!f->doubted || !f->msn_hint_span || f->msn_hint_pos > f->pos_next)
		return false;
	*offset = (f->msn_hint - near_msn_at(p, f, f->msn_hint_pos)) & ROCE_PSN_MASK;
	return true;
}

/* True if the responder's MSN is the one at which the incarnation before ended. The host repeats only a part of that
 * incarnation: it may lack a READ's answer and send nothing more before that comes. */
static bool ends_as_before(const struct near_flow *f, const struct wan_flow_pair *r)
{
	return f->doubted && f->msn_hint_span && ((f->msn_hint + f->msn_hint_span - 1) & ROCE_PSN_MASK) == r->msn;
}

/* *offset: how many messages the responder's MSN is ahead of the relative MSN here. A responder may answer a repeated
 * READ with the MSN of all that it has executed by now (rxe does). Then the offset is too large, and *late is set; it
 * is never too small. An offset of 0 is exact, because it is the sum of the messages before the flow and of those
 * behind the READ. The hint of the incarnation before is exact if it agrees with the MSN. False: not known yet. */
static bool msn_offset_of(const struct proxy *p, const struct near_flow *f, const struct wan_flow_pair *r,
                          uint32_t *offset, bool *late)
{
	uint32_t at, said, hinted = 0;
	bool hint = near_hinted_offset(p, f, &hinted);

	*late = false;
	if (r->at_pos > f->pos_next && f->doubted) {
		*offset = hinted;
		return hint && ends_as_before(f, r);
	}
	at = r->at_pos == f->pos_base ? 0 : near_msn_at(p, f, r->at_pos); /* 0 even if the flow begins inside a READ */
	said = (r->msn - at) & ROCE_PSN_MASK;
	hint = hint && ((said - hinted) & ROCE_PSN_MASK) < f->msn_hint_span;
	*offset = hint ? hinted : said;
	*late = r->msn_late && !hint && said != 0;
	return true;
}

static void count_is_known(struct proxy *p, struct near_flow *f)
{
	f->msn = MSN_EXACT;
	f->gap_naked = 0; /* no NAK was sent while MSN_LATE */
	near_store(p, f);
}

/* True if MSN a is larger than MSN b. */
static bool msn_after(uint32_t a, uint32_t b)
{
	uint32_t ahead = (a - b) & ROCE_PSN_MASK;

	return ahead != 0 && ahead <= ROCE_PSN_MASK / 2;
}

/* While MSN_LATE: the host's READ may be one that the responder executed before, with other requests behind it, e.g.
 * after a restart of an edge without its arena. The MSN in a response is never smaller than that of its operation, so
 * msn_offset can only be lowered. The MSN moves only when the responder executes a new message. Once it has moved, that
 * message was taken here, and the responder has executed none behind those that were taken here. So msn_offset is at
 * least the MSN minus msn_next, and is exact if it is no more. That responses to two operations differ by as many
 * messages as the operations do is no proof: one of them may have been repeated twice, with these messages executed in
 * between. */
void near_count_at_most(struct proxy *p, struct near_flow *f, const struct rd_op *op, uint32_t msn)
{
	bool moved = f->msn_late_first && msn_after(msn, f->msn_late_first - 1);
	uint32_t offset = (msn - op->msn) & ROCE_PSN_MASK;

	if (!f->msn_late_first)
		f->msn_late_first = msn + 1;
	if (msn_after(f->msn_offset, offset))
		f->msn_offset = offset;
	if (!moved || f->msn_offset != ((msn - f->msn_next) & ROCE_PSN_MASK))
		return;
	count_is_known(p, f);
	if (f->ack_owed)
		near_ack_schedule(p, f, DUE_ACK);
}

/* An ACK of the responder tells the MSN of a flow whose first answer was a response. */
static void count_exactly(struct proxy *p, struct near_flow *f, const struct wan_flow_pair *r)
{
	if (r->at_pos < f->pos_settled || r->at_pos > f->pos_next) {
		near_announce(f); /* FLOW_OPEN makes the far edge send FLOW_PAIR once more, with its newest ACK */
		near_wan_schedule(p, f);
		return;
	}
	f->msn_offset = (r->msn - near_msn_at(p, f, r->at_pos)) & ROCE_PSN_MASK;
	count_is_known(p, f);
}

/* The first FLOW_PAIR of a flow. False: its position lies outside of the flow, its MSN cannot be used yet, or the flow
 * was closed. */
static bool learn_pair(struct proxy *p, struct near_flow *f, const struct wan_flow_pair *r)
{
	bool lower = r->pos_base < f->pos_base && f->pos_base - r->pos_base < BASE_REACH;
	uint32_t offset;
	bool late;

	/* The host has gone back below the position from which the responder took requests: the responder has those
	 * below from before this flow. The far edge takes them no more in this incarnation. Nothing was ACKed, so the
	 * host begins another one. */
	if (r->pos_base > f->pos_base) {
		if (!f->doubted || !near_succeed_in_doubt(p, f, pos_psn(f->pos_base), f->vlan_tci, f->begins_inside))
			near_close(p, f);
		return false;
	}
	/* The responder may have been reset as well, and wait for the first request of the next life. The requests held
	 * here would count as that life's. Nothing was ACKed, so the host begins another flow. */
	if (lower && near_reset_is_possible(p, f)) {
		near_close(p, f);
		return false;
	}
	if (lower && !FAULT(FAULT_BASE_NOT_LOWERED) && !FAULT(FAULT_UNCONFIRMED_ACKED))
		lower_base(p, f, r->pos_base);
	if (lower) /* the host comes to the lower base, of which nothing is known that may differ */
		f->reset.suspected = f->reset.counts = false;
	if ((r->at_pos > f->pos_max && !f->doubted) || (r->at_pos < f->pos_base && !FAULT(FAULT_UNCONFIRMED_ACKED)))
		return false;
	f->pair_wanted = !msn_offset_of(p, f, r, &offset, &late);
	if (f->pair_wanted)
		return false;
	f->requester_qpn = r->requester_qpn;
	memcpy(f->template, r->template, r->template_len);
	f->template_len = (uint8_t)r->template_len;
	f->base_fixed = true;
	f->msn = late ? MSN_LATE : MSN_EXACT;
	f->msn_late_first = 0;
	f->msn_offset = offset;
	f->doubted = f->replaces = false;
	near_unpaired_over(p, f, PAIR_PROVISIONAL);
	near_requester_enter(p, f);
	f->notes.paired_ns = p->now_ns;
	count(p, CTR_PAIRED_PROBE, 1);
	proxy_event_push(p, EV_FLOW_PAIRED, f, NULL, r->at_pos, 0);
	return true;
}

/* True if an ACK or a response was sent to requester_qpn. */
static bool requester_was_answered(const struct near_flow *f)
{
	return f->pos_acked > f->pos_base || f->ops_done || (f->op_open && f->op_open->next > f->op_open->pos);
}

/* The far edge has found another requester QPN for the flow. If ACKs or responses were sent to the old QPN, another
 * queue pair may have taken them for answers to its own requests: then the flow fails (false), and an event names the
 * QPN. If none were sent, the pair is corrected. */
static bool correct_pair(struct proxy *p, struct near_flow *f, const struct wan_flow_pair *r)
{
	if (FAULT(FAULT_PAIR_UNCORRECTED))
		return false;
	if (requester_was_answered(f) || r->pos_base != f->pos_base || r->at_pos > f->pos_max ||
	    r->at_pos < f->pos_base) {
		proxy_event_push(p, EV_PAIR_WRONG, f, NULL, f->pos_acked, r->requester_qpn);
		near_refused(p, f, f->pos_settled, 0);
		return false;
	}
	near_requester_leave(p, f);
	f->requester_qpn = r->requester_qpn;
	memcpy(f->template, r->template, r->template_len);
	f->template_len = (uint8_t)r->template_len;
	f->superseded = false;
	f->pairing = PAIR_PROVISIONAL;
	near_requester_enter(p, f);
	f->msn_offset = (r->msn - near_msn_at(p, f, r->at_pos)) & ROCE_PSN_MASK;
	f->msn = r->msn_late && f->msn_offset != 0 ? MSN_LATE : MSN_EXACT;
	f->msn_late_first = 0;
	count(p, CTR_PAIRS_CORRECTED, 1);
	proxy_event_push(p, EV_FLOW_PAIRED, f, NULL, r->at_pos, 0);
	return true;
}

void near_on_pair(struct proxy *p, const struct wan_flow_pair *r)
{
	struct near_flow *f = near_by_id(p, r->flow, r->inc);
	bool other = f && f->pairing != PAIR_LEARNING && f->requester_qpn != r->requester_qpn;

	if (!f || (other ? near_is_refused(f) : f->pairing == PAIR_CONFIRMED && f->msn != MSN_LATE))
		return;
	if (!template_fits(f, r)) {
		drop(p, DROP_WAN_BAD_FRAME);
		return;
	}
	if (other && !correct_pair(p, f, r))
		return;
	if (f->pairing == PAIR_LEARNING && !learn_pair(p, f, r))
		return;
	if (f->msn == MSN_LATE && !r->msn_late && f->state != NEAR_FAILED)
		count_exactly(p, f, r);
	if (r->confirmed) {
		f->pairing = PAIR_CONFIRMED;
		near_requester_enter(p, f);
	}
	near_store(p, f); /* pair and MSN in one store: after a kill the far edge does not tell the MSN again */
	if (f->rnr_back_pressure)
		near_send_away(p, f, true); /* without a pair, packets were refused in silence */
	else if (f->gap_naked == 0 && f->pos_max > f->pos_next)
		near_nak_gap(p, f);
	f->ack_asked = true;
	after_progress(p, f);
}

/* --- to the far edge --- */

/* Puts the flow on its lane's list: behind the flows that begin if it begins itself, else at the end. */
static void wait_for_lane(struct proxy *p, struct lane *l, struct near_flow *f, bool begins)
{
	struct dnode *at = &l->ready[SOURCE_NEAR];

	f->goes_first = begins;
	if (begins) {
		l->nfirst++;
		for (at = at->next;
		     at != &l->ready[SOURCE_NEAR] && dlist_entry(at, struct near_flow, wan_node)->goes_first;)
			at = at->next;
	}
	dlist_insert_before(at, &f->wan_node);
	l->nwaiting[SOURCE_NEAR]++;
	p->near_wanting += f->turn_ns == 0;
}

void near_wan_leave(struct proxy *p, struct near_flow *f)
{
	struct lane *l = lane_of(p, f->lane);

	if (!dnode_on(&f->wan_node))
		return;
	dlist_remove(&f->wan_node);
	l->nwaiting[SOURCE_NEAR]--;
	p->near_wanting -= f->turn_ns == 0;
	l->nfirst -= f->goes_first;
	f->goes_first = false;
}

/* A flow's first packet goes in front of others: until a responder answers, the host cannot be sent an RNR NAK, and its
 * retries last 200 ms, which is one turn of 32 lanes at 10 Mbit/s. First packets get at most half of the line's rate,
 * so a host that opens many flows does not stop the others. */
static bool may_go_first(struct proxy *p, const struct near_flow *f)
{
	const struct wan_pacer *pacer = p->wan->path[0].pacer;
	uint64_t rate = atomic_load_explicit(&pacer->rate_bps, memory_order_relaxed);

	if (f->announce != ANNOUNCE_FIRST || f->pos_wan != f->pos_settled || p->begins_ns > p->now_ns + BEGIN_AHEAD_NS)
		return false;
	p->begins_ns = max_u64(p->begins_ns, p->now_ns) +
	               2 * (LAN_PKT_MAX + pacer->overhead_bytes) * 8000000000ull / (rate + 1);
	return true;
}

void near_wan_schedule(struct proxy *p, struct near_flow *f)
{
	struct lane *l = lane_of(p, f->lane);

	if (near_wan_waits_for_older(f) || !p->session_on)
		return;
	if (f->pos_wan < f->pos_next || f->announce == ANNOUNCE_AGAIN || f->agains_due || f->resp_credit_due) {
		if (!dnode_on(&f->wan_node))
			wait_for_lane(p, l, f, may_go_first(p, f));
		wan_lane_schedule(p, l);
	}
}

static uint64_t credit_of(const struct proxy *p, const struct near_flow *f)
{
	uint64_t initial = p->wan->lanes[f->lane].flow_initial_bytes;
	uint32_t slot_bytes;

	if (f->credit_known)
		return f->pos_credit;
	slot_bytes = arena_class_bytes((uint16_t)((f->pmtu ? f->pmtu : LAN_MTU_PAYLOAD_MAX) + 84));
	return f->pos_settled + max_u64(initial / slot_bytes, 4);
}

bool near_wan_next(struct proxy *p, struct near_flow *f, uint32_t *slot)
{
	struct lane *l = lane_of(p, f->lane);

	while (f->pos_wan < f->pos_next && f->back_at >= f->back_to) {
		const struct slot_hdr *h;

		*slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, f->pos_wan);
		if (*slot == SLOT_NONE) {
			if (!work_take(p))
				return false;
			f->pos_wan++;
			continue;
		}
		h = arena_hdr(p->arena, *slot);
		if ((f->pos_wan >= credit_of(p, f) || l->out_bytes + arena_class_bytes(h->len) > l->window_bytes) &&
		    !FAULT(FAULT_CREDIT_IGNORED))
			return false;
		return !(h->flags & SF_OWN_RESPONSE) || near_reserve_take(p, f, f->pos_wan);
	}
	return false;
}

bool near_wan_awaits_lane(const struct proxy *p, const struct near_flow *f)
{
	return f->pos_wan < f->pos_next && f->pos_wan < credit_of(p, f) &&
	       (!dnode_on(&f->reserve_node) || near_reserve_waited_enough(p, f));
}

void near_open_frame(const struct proxy *p, const struct near_flow *f, struct wan_flow_open *o)
{
	enum ack_mode mode = f->mode;

	*o = (struct wan_flow_open){
	    .flow = near_wire_id(p, f),
	    .inc = f->inc,
	    .pos_base = f->pos_settled,
	    .dest_qpn = f->dest_qpn,
	    .requester_qpn = f->requester_qpn,
	    .vlan_tci = f->vlan_tci,
	    .pmtu = f->pmtu,
	    .cm_tag = f->cm_tag,
	    .src = f->src,
	    .dst = f->dst,
	};
	if (f->base_fixed)
		o->flags |= WOF_BASE_FIXED;
	if (f->pairing != PAIR_LEARNING && f->msn != MSN_LATE)
		o->flags |= WOF_PAIRED;
	/* A responder that is silent now may be heard the next moment, without another FLOW_OPEN. */
	if (FAULT(FAULT_MODE_OF_THE_MOMENT))
		mode = near_mode(p, f);
	if (mode == ACK_MODE_HOST || proxy_early_acks_off(p))
		o->flags |= WOF_HOST_MODE;
	if (mode == ACK_MODE_FAR)
		o->flags |= WOF_FAR_MODE;
	if (f->sent_before)
		o->flags |= WOF_RESUMED;
	if (f->doubted)
		o->flags |= WOF_DOUBTED;
}

void near_session_start(struct proxy *p, struct near_flow *f)
{
	f->sent_before |= f->pos_wan > f->pos_base;
	f->pos_wan = f->pos_settled;
	f->pos_far = f->pos_reported; /* the far edge may have come back without its arena */
	f->out_bytes = 0;
	f->credit_known = f->far_keeps = false;
	if (!FAULT(FAULT_ROUNDS_KEPT))
		f->again_round = 0;
	f->announce = ANNOUNCE_FIRST;
	f->stalled_ns = 0;
	f->goes_first = false;
	near_early_look(p, f); /* the edges may disagree from here on */
	near_credit_session_start(p, f);
	near_wan_schedule(p, f);
}
