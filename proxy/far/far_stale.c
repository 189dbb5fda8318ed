/* SPDX-License-Identifier: Apache-2.0 */
/* far_stale.c - flows of an earlier arena of the near edge: they drain before their successors send.
 *
 * Theory of operation
 *
 * A near edge that lost its arena (power, kernel panic) knows nothing of its flows any more. What came from it before
 * is here, and in mode far it was ACKed because it is here: it must reach the responder. So the flow becomes a stale
 * flow: the peer's frames do not find it any more, as names mean something else now (entries of the barrier that are of
 * its life do), it reports to nobody, and goes on delivering what is contiguous, up to the first READ or ATOMIC: that
 * and what is behind it was never ACKed, and its responses have no way back.
 *
 * The host goes on with the same queue pair, and the new near edge opens a flow for it, which begins somewhere in what
 * the stale flow holds, or right behind it. That one, the successor, sends nothing until the stale flow is gone; then
 * the responder says where it stands, as for any flow whose beginning was not seen. No snapshot of the new life can
 * name a stale flow, so whatever heeds the barrier waits for all stale flows between its machines (barrier_far.c).
 *
 * A stale flow whose responder makes no progress for StallAfter has failed, loudly. So has one whose responder refuses,
 * and it is closed at once (far_stale_failed()): its near edge, which closes other failed flows, does not know it. */
#include "far_priv.h"

/* Where the first request at or behind pos_acked lies that needs its own response, pos_rx if there is none. */
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

/* Gives back the slots of what will not be delivered. */
static void free_from(struct proxy *p, struct far_flow *f, uint64_t from)
{
	for (uint64_t pos = from; f->held_bytes && pos < f->pos_rx_max; pos++) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, pos);

		if (slot != SLOT_NONE)
			slot_release(p, slot);
	}
	f->pos_rx = f->pos_rx_max = from;
}

bool far_stale(struct proxy *p, struct far_flow *f)
{
	uint64_t end;

	if (f->stale_epoch)
		return true;
	if (!f->open || f->failed || f->pairing == PAIR_LEARNING)
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
	f->pair_due = false;
	f->last_progress_ns = p->now_ns;
	proxy_event_push(p, EV_FLOW_EPOCH_STALE, NULL, f, f->pos_acked, f->held_bytes);
	far_go_back(p, f, f->pos_acked);
	if (!timer_armed(&f->rto))
		far_arm_rto(p, f);
	return true;
}

bool far_stale_over(struct proxy *p, struct far_flow *f)
{
	bool owes = f->pos_acked < f->pos_rx && !f->failed; /* of one that has failed nothing is left to deliver */

	if (owes && p->now_ns < f->last_progress_ns + p->cfg.stall_ns)
		return false;
	if (owes) {
		count(p, CTR_BYTES_FAILED, f->held_bytes);
		proxy_failure_push(p, FAILURE_SILENT, NULL, f, f->pos_acked, f->held_bytes);
	}
	far_close(p, f);
	return true;
}

void far_stale_failed(struct proxy *p, struct far_flow *f, uint64_t bytes)
{
	count(p, CTR_BYTES_FAILED, bytes); /* of other flows the near edge counts them */
	timer_set(&p->timers, &f->rto, p->now_ns);
}

void far_stale_forgotten(struct proxy *p, const struct far_flow *stale_epoch)
{
	uint32_t i = far_dest_hash(&stale_epoch->src, &stale_epoch->dst, stale_epoch->dest_qpn);
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
	uint32_t i = far_dest_hash(&f->src, &f->dst, f->dest_qpn);
	const struct far_flow *o;

	while ((o = far_by_dest(p, &f->src, &f->dst, f->dest_qpn, &i)))
		if (o->stale_epoch)
			f->successor_of = o->idx;
}
