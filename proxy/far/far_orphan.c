/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A near edge that lost its arena (power, kernel panic) knows nothing of its flows any more. What came from it before
 * is here, and in mode far it was ACKed because it is here: it must reach the responder. So the flow becomes an orphan:
 * the peer's frames do not find it any more, as names mean something else now (entries of the barrier that are of its
 * life do), it reports to nobody, and goes on delivering what is contiguous, up to the first READ or ATOMIC: that and
 * what is behind it was never ACKed, and its responses have no way back.
 *
 * The host goes on with the same queue pair, and the new near edge opens a flow for it, which begins somewhere in what
 * the orphan holds, or right behind it. That one, the heir, sends nothing until the orphan is gone; then the responder
 * says where it stands, as for any flow whose beginning was not seen. No snapshot of the new life can name an orphan,
 * so whatever heeds the barrier waits for all orphans between its machines (barrier_far.c).
 *
 * An orphan whose responder makes no progress for StallAfter has failed, loudly. */
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

bool far_orphan(struct proxy *p, struct far_flow *f)
{
	uint64_t end;

	if (f->orphan)
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
	f->orphan = true;
	f->orphan_since = p->sessions;
	dlist_append(&p->orphans, &f->orphan_node);
	f->pair_due = false;
	f->last_progress_ns = p->now_ns;
	proxy_event_push(p, EV_FLOW_ORPHANED, NULL, f, f->pos_acked, f->held_bytes);
	far_go_back(p, f, f->pos_acked);
	if (!timer_armed(&f->rto))
		far_arm_rto(p, f);
	return true;
}

bool far_orphan_over(struct proxy *p, struct far_flow *f)
{
	if (f->pos_acked < f->pos_rx && p->now_ns < f->last_progress_ns + p->cfg.stall_ns)
		return false;
	if (f->pos_acked < f->pos_rx) {
		count(p, CTR_BYTES_FAILED, f->held_bytes);
		proxy_failure_push(p, FAILURE_SILENT, NULL, f, f->pos_acked, f->held_bytes);
	}
	far_close(p, f);
	return true;
}

void far_orphan_gone(struct proxy *p, const struct far_flow *orphan)
{
	uint32_t i = far_dest_hash(&orphan->src, &orphan->dst, orphan->dest_qpn);
	struct far_flow *f;

	while ((f = far_by_dest(p, &orphan->src, &orphan->dst, orphan->dest_qpn, &i))) {
		if (f->heir_of != orphan->idx)
			continue;
		f->heir_of = NONE;
		far_kick(p, f);
	}
}

void far_orphan_first(struct proxy *p, struct far_flow *f)
{
	uint32_t i = far_dest_hash(&f->src, &f->dst, f->dest_qpn);
	const struct far_flow *o;

	while ((o = far_by_dest(p, &f->src, &f->dst, f->dest_qpn, &i)))
		if (o->orphan)
			f->heir_of = o->idx;
}
