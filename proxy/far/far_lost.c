/* SPDX-License-Identifier: Apache-2.0 */
/* far_lost.c - what a near edge that lost its arena owed, and nobody has.
 *
 * Theory of operation
 *
 * A near edge that comes back without its arena has acknowledged early, in mode near, what nobody has any more: how
 * far, only it knew. What this edge knows of such a life when the next session begins:
 *
 *     acked ...... rx ........ rx_max ..........?
 *     delivered: far_stale.c
 *                  | a hole: it was accepted there and is lost, the flow has failed
 *                             | whatever was accepted there is lost, and whether there was anything is not known
 *
 * Every flow of that life that the near edge may have ACKed is named, as failed or as in doubt. Then the host itself
 * tells: one that goes on with the queue pair sends what it has not been ACKed. The near edge takes that for the
 * beginning of a flow, the responder waits for an earlier packet and says so (a sequence NAK), and that is where the
 * life before has ended here, however far before (far_lost_awaited()). A host that has the packet sends it when it is asked to. One that was ACKed past it
 * cannot, and after LOST_WAIT_NS on a line that was heard all the time the flow has failed: nothing behind the hole is
 * executed, the near edge is told, and its host meets silence as from a dead responder. A responder says once what it
 * waits for, and the near edge may begin several lives of the flow meanwhile, as the host insists: they inherit the
 * question. A queue pair that was reset begins elsewhere, or fills the hole.
 *
 * Where lives have ended is noted in a table of its own, as their flows' places are needed; volatile, since a far edge
 * that loses its process as well has only the responder's word: nothing is executed behind the hole, either way. */
#include "far_priv.h"

#define LOST_WAIT_NS 5000000000ull /* a NAK that got lost, and the host's own timeout of up to 4 s */
#define LOOK_NS      500000000ull
#define PLACES       8             /* in which a life can be noted */

static struct lost_life *place_of(struct proxy *p, const struct far_flow *f, uint32_t i)
{
	return &p->lost[(far_dest_hash(&f->src, &f->dst, f->dest_qpn) + i) & (p->nlost - 1)];
}

static struct lost_life *find(struct proxy *p, const struct far_flow *f)
{
	for (uint32_t i = 0; i < PLACES; i++) {
		struct lost_life *l = place_of(p, f, i);

		if (l->session && l->dest_qpn == f->dest_qpn && ip_addr_eq(&l->src, &f->src) &&
		    ip_addr_eq(&l->dst, &f->dst))
			return l;
	}
	return NULL;
}

/* That of an earlier life of the queue pair, a free one, or the oldest. */
static struct lost_life *take_place(struct proxy *p, const struct far_flow *f)
{
	struct lost_life *l = find(p, f);

	for (uint32_t i = 0; !l && i < PLACES; i++)
		if (!place_of(p, f, i)->session)
			l = place_of(p, f, i);
	if (l)
		return l;
	l = place_of(p, f, 0);
	for (uint32_t i = 1; i < PLACES; i++)
		if (place_of(p, f, i)->session < l->session)
			l = place_of(p, f, i);
	return l;
}

static uint64_t bytes_of(const struct far_flow *f, uint64_t positions)
{
	return positions * (f->pmtu ? f->pmtu : LAN_MTU_PAYLOAD_MAX);
}

bool far_lost_may_owe(const struct proxy *p, const struct far_flow *f)
{
	return !p->session.peer_kept_arena && f->open && !f->failed && !f->stale_epoch && f->pairing != PAIR_LEARNING &&
	       proxy_mode_for(&p->cfg, &f->dst, &f->src) == ACK_MODE_NEAR && !FAULT(FAULT_LOST_UNTOLD);
}

void far_lost_note(struct proxy *p, const struct far_flow *f)
{
	uint64_t hole = f->pos_rx_max > f->pos_rx ? bytes_of(f, f->pos_rx_max - f->pos_rx) : 0;

	*take_place(p, f) = (struct lost_life){.src = f->src,
	                                       .dst = f->dst,
	                                       .dest_qpn = f->dest_qpn,
	                                       .session = p->sessions,
	                                       .from = f->pos_acked,
	                                       .to = f->pos_rx};
	if (hole)
		count(p, CTR_BYTES_FAILED, hole);
	proxy_failure_push(p, hole ? FAILURE_BUFFER_LOST : FAILURE_PERHAPS_LOST, NULL, f, f->pos_rx, hole);
}

/* The host has been asked for what is missing, and the line could have brought it, since then. The near edge may have
 * begun a new life of the flow meanwhile, as the host insists on its place ahead: it is the same question. */
static void ask(const struct proxy *p, struct lost_life *l)
{
	if (!l->asked_ns || p->now_ns > l->looked_ns + LOST_WAIT_NS || !p->wan_up ||
	    p->wan_heard_since_ns > l->asked_ns)
		l->asked_ns = p->now_ns;
	l->looked_ns = p->now_ns;
}

static void wait_for(struct proxy *p, struct far_flow *f, uint64_t pos)
{
	f->lost_pos = pos;
	f->lost_to = f->pos_base;
	timer_set(&p->timers, &f->ask, p->now_ns + LOOK_NS);
}

/* A responder that waits for that PSN (24 bits) waits for what the life lacked here when it was lost. */
static bool ended_at(const struct lost_life *l, uint32_t psn)
{
	uint64_t pos = pos_near(l->to, psn);

	return pos >= l->from && pos <= l->to;
}

bool far_lost_awaited(struct proxy *p, const struct far_flow *f, uint32_t psn)
{
	const struct lost_life *l = find(p, f);

	return l && ended_at(l, psn);
}

void far_lost_look(struct proxy *p, struct far_flow *f, uint64_t pos)
{
	struct lost_life *l = find(p, f);

	if (!l || f->lost_pos || !ended_at(l, pos_psn(pos)))
		return;
	l->asked_psn = pos_psn(pos);
	ask(p, l);
	wait_for(p, f, pos);
}

void far_lost_successor(struct proxy *p, struct far_flow *f)
{
	struct lost_life *l = find(p, f);
	uint64_t pos;

	if (!l || !l->asked_ns || p->now_ns > l->looked_ns + LOST_WAIT_NS)
		return;
	pos = pos_near(f->pos_base, l->asked_psn);
	if (pos < f->pos_base && f->pos_base - pos < FLOW_SPAN_MAX)
		wait_for(p, f, pos);
}

void far_lost_over(struct proxy *p, struct far_flow *f)
{
	struct lost_life *l = find(p, f);

	f->lost_pos = 0;
	if (l)
		l->session = 0;
}

bool far_lost_failed(struct proxy *p, struct far_flow *f)
{
	struct lost_life *l;

	if (!f->lost_pos || f->failed)
		return false;
	if (f->pos_acked > f->pos_base || (f->pos_base <= f->lost_pos && f->pos_rx > f->lost_pos)) {
		far_lost_over(p, f); /* its host had it */
		return false;
	}
	l = find(p, f);
	if (!l) {
		f->lost_pos = 0;
		return false;
	}
	ask(p, l);
	timer_set(&p->timers, &f->ask, p->now_ns + LOOK_NS);
	if (p->now_ns < l->asked_ns + LOST_WAIT_NS)
		return false;
	far_fail_lost(p, f, bytes_of(f, max_u64(f->lost_to, f->lost_pos + 1) - f->lost_pos));
	return true;
}
