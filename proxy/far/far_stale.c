/* SPDX-License-Identifier: Apache-2.0 */
/* far_stale.c - flows of an earlier arena of the near edge: they drain before their successors send.
 *
 * Theory of operation
 *
 * A near edge that lost its arena (power, kernel panic) knows its flows no more. Requests that came before are here,
 * and in mode far they were ACKed because they are here: they must reach the responder. So the far flow becomes a stale
 * flow. Frames of the peer do not find a stale flow any more, as wire ids have new meanings. Barrier entries written in
 * its epoch still find it. A stale flow reports to no edge, and delivers its contiguous requests up to the first READ
 * or ATOMIC: that operation and requests behind it were never ACKed, and its responses would have no way back.
 *
 * The host goes on with the same queue pair, and the near edge opens a new flow for it, which begins within the
 * requests of the stale flow, or right behind them. This successor sends nothing until the stale flow is gone. Then the
 * responder's answer tells what it has, as for any flow whose beginning was not seen. No snapshot written in the new
 * epoch can name a stale flow, so a packet that the barrier holds waits for all stale flows between its machines
 * (barrier_far.c).
 *
 * A stale flow whose responder makes no progress for StallAfter fails, with an event. Such a flow is closed at once
 * (far_stale_failed()), because its near edge, which closes other failed flows, does not know it.
 *
 * A stale flow whose responder refuses fails, too. The refusal moves the responder's queue pair to the error state
 * (IBTA 9.9.3), whichever incarnation that queue pair was in, and the responder sends its NAK once. So the successor
 * fails as well: no responder would answer it, and if it went on sending, a recovered queue pair could take its bytes.
 * The successor reports the NAK as if it had got it, together with the pair and the MSN, which its near edge does not
 * know. The stale flow stays for a round trip: the host of a flow that opens until then could not have heard of the
 * refusal. A flow that CM has paired is another incarnation of the queue pair, which the refusal was not about.
 *
 *     stale      acked = refused ........... rx ......?
 *     successor  base ..... or ..... base ......... or base
 *                NAK at refused      NAK at base    NAK at rx
 *
 * If the successor begins behind the refused position, its host was ACKed past that position early, in mode near or
 * far: the NAK acknowledges no more than what was committed here. A host that was ACKed beyond that ignores the NAK,
 * and gets no other answer. */
#include "far_priv.h"

#include "proxy/carry/barrier.h"
#include "pair.h"
#include "proxy/wan/wan.h"

/* The position of the first request from pos_acked on that needs its own response; pos_rx if there is none. */
static uint64_t first_own(struct proxy *p, const struct far_flow *f)
{
	for (uint64_t pos = f->pos_acked; pos < f->pos_rx;) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, pos);

		if (slot == SLOT_NONE || (arena_hdr(p->arena, slot)->flags & SF_OWN_RESPONSE))
			return pos;
		pos += arena_hdr(p->arena, slot)->psns;
	}
	return f->pos_rx;
}

/* Frees the slots of requests from `from` on, which will not be delivered. */
static void free_from(struct proxy *p, struct far_flow *f, uint64_t from)
{
	for (uint64_t pos = from; f->held_bytes && pos < f->pos_rx_max; pos++) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, pos);

		if (slot != SLOT_NONE)
			slot_release(p, slot);
	}
	f->pos_rx = f->pos_rx_max = from;
}

/* Sets successor_of for successors that were here before a restart of this edge: no descriptor has it. */
static void find_successors(struct proxy *p, const struct far_flow *stale)
{
	uint32_t i = far_dest_hash(p, &stale->src, &stale->dst, stale->dest_qpn);
	struct far_flow *f;

	while ((f = far_by_dest(p, &stale->src, &stale->dst, stale->dest_qpn, &i)))
		if (f->pairing == PAIR_LEARNING && far_is_open(f) && !f->stale_epoch && f->peer_epoch != stale->peer_epoch) {
			f->successor_of = stale->idx;
			pair_put_off(p, f);
		}
}

bool far_stale(struct proxy *p, struct far_flow *f)
{
	uint64_t end;

	if (f->stale_epoch)
		return true;
	if (f->state != FAR_OPEN || f->pairing == PAIR_LEARNING)
		return false;
	end = first_own(p, f);
	if (end == f->pos_acked)
		return false;
	far_free_ops(p, f);
	free_from(p, f, end);
	f->resp_next = f->pos_ack_seen = 0;
	dlist_remove(&f->report_node);
	f->stale_epoch = true;
	f->stale_since = p->sessions;
	dlist_append(&p->stale_flows, &f->stale_node);
	barrier_flow_stale(p, f);
	find_successors(p, f);
	f->pair_due = false;
	f->last_progress_ns = p->now_ns;
	proxy_event_push(p, EV_FLOW_EPOCH_STALE, NULL, f, f->pos_acked, f->held_bytes);
	far_go_back(p, f, f->pos_acked);
	if (!timer_armed(&f->rto))
		far_arm_rto(p, f);
	return true;
}

/* The end, at most `end`, of the requests from the refused position on that the stale flow's host may have been ACKed;
 * *msgs: the messages that end in them. */
static uint64_t acked_early(struct proxy *p, const struct far_flow *stale, uint64_t end, uint32_t *msgs)
{
	uint64_t pos = stale->nak_pos;

	while ((stale->was_near || stale->keeps_all) && pos < end && pos < stale->pos_rx && work_take(p)) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, stale->idx, pos);

		if (slot == SLOT_NONE)
			break;
		*msgs += (arena_hdr(p->arena, slot)->flags & SF_MSG_END) != 0;
		pos += arena_hdr(p->arena, slot)->psns;
	}
	return pos;
}

/* Gives the successor f the stale flow's pair, and the NAK at pos, where the responder would count msgs messages more
 * than at the refused position. Does nothing if the near edge could not use pos, or another flow has the requester's
 * QPN. */
static void learn_refusal(struct proxy *p, const struct far_flow *stale, struct far_flow *f, uint64_t pos,
                          uint32_t msgs)
{
	if (pos > f->pos_rx || pos + BELOW_BASE_REACH <= f->pos_base ||
	    pair_find(p, &stale->src, &stale->dst, stale->requester_qpn))
		return;
	if (pos < f->pos_base)
		far_begin_at(p, f, pos);
	f->base_fixed = true;
	f->pairing = PAIR_PROVISIONAL;
	pair_enter(p, f, stale->requester_qpn);
	f->template_len = stale->template_len;
	memcpy(f->template, stale->template, stale->template_len);
	f->forward_only = stale->forward_only;
	f->pair_at_pos = pos;
	f->pair_msn = (stale->pair_msn + msgs) & ROCE_PSN_MASK;
	f->pair_due = true;
}

static void refuse_successor(struct proxy *p, const struct far_flow *stale, struct far_flow *f)
{
	uint64_t pos = pos_near(f->pos_base, pos_psn(stale->nak_pos));
	uint32_t msgs = 0;

	if (pos < f->pos_base)
		pos += acked_early(p, stale, stale->nak_pos + (f->pos_base - pos), &msgs) - stale->nak_pos;
	learn_refusal(p, stale, f, pos, msgs);
	far_fail(p, f, pos, stale->syndrome);
}

/* Refuses all successors. False: no work is left in this call for the rest of them. */
static bool refuse_successors(struct proxy *p, const struct far_flow *stale)
{
	uint32_t i = far_dest_hash(p, &stale->src, &stale->dst, stale->dest_qpn);
	struct far_flow *f;

	while ((f = far_by_dest(p, &stale->src, &stale->dst, stale->dest_qpn, &i))) {
		if (f->successor_of != stale->idx || far_has_failed(f) || f->pairing != PAIR_LEARNING)
			continue;
		if (!work_take(p))
			return false;
		refuse_successor(p, stale, f);
	}
	return true;
}

bool far_stale_over(struct proxy *p, struct far_flow *f)
{
	bool owes = f->pos_acked < f->pos_rx && !far_has_failed(f); /* a failed flow delivers nothing any more */

	if (owes && p->now_ns < f->last_progress_ns + p->cfg.stall_ns)
		return false;
	if (owes) {
		count(p, CTR_BYTES_FAILED, f->held_bytes);
		proxy_failure_push(p, FAILURE_SILENT, NULL, f, f->pos_acked, f->held_bytes);
	}
	if (far_has_failed(f) && f->syndrome && !refuse_successors(p, f)) {
		timer_set(&p->timers, &f->rto, p->now_ns);
		return true;
	}
	far_close(p, f);
	return true;
}

void far_stale_failed(struct proxy *p, struct far_flow *f, uint64_t bytes)
{
	count(p, CTR_BYTES_FAILED, bytes); /* for flows that are not stale the near edge counts them */
	timer_set(&p->timers, &f->rto, p->now_ns + (f->syndrome ? proxy_rtt_min_ns(p) : 0));
}

void far_stale_forgotten(struct proxy *p, const struct far_flow *stale_epoch)
{
	uint32_t i = far_dest_hash(p, &stale_epoch->src, &stale_epoch->dst, stale_epoch->dest_qpn);
	struct far_flow *f;

	while ((f = far_by_dest(p, &stale_epoch->src, &stale_epoch->dst, stale_epoch->dest_qpn, &i))) {
		if (f->successor_of != stale_epoch->idx)
			continue;
		f->successor_of = NONE;
		far_schedule(p, f);
	}
}

void far_stale_first(struct proxy *p, struct far_flow *f)
{
	uint32_t i = far_dest_hash(p, &f->src, &f->dst, f->dest_qpn);
	const struct far_flow *o;

	while ((o = far_by_dest(p, &f->src, &f->dst, f->dest_qpn, &i)))
		if (o->stale_epoch)
			f->successor_of = o->idx;
}
