/* SPDX-License-Identifier: Apache-2.0 */
/* far_lost.c - requests that a near edge has ACKed and lost with its arena.
 *
 * Theory of operation
 *
 * A near edge that comes back without its arena may have ACKed requests early, in mode near, that are on no edge any
 * more. Only the lost arena said how far. When the next session begins, this edge knows of such an incarnation:
 *
 *     acked ...... rx ........ rx_max ..........?
 *     delivered: far_stale.c
 *                  | a hole: the near edge took these requests and has lost them: the flow has failed
 *                             | requests taken by the near edge and not sent are lost; their number is not known
 *
 * Every flow of the lost arena of which requests may have been ACKed raises an event, as failed or in doubt. Then the
 * host shows what is missing. A host that goes on with the queue pair sends the requests that were not ACKed. The near
 * edge opens a flow that begins there. The responder waits for an earlier packet and sends a sequence NAK; its PSN lies
 * where the lost incarnation has ended here, however far below the new flow (far_lost_awaited()). A host that still has
 * the packet sends it when it is asked to. A host that was ACKed past it cannot. After LOST_WAIT_NS on a line that was
 * heard all the time the flow fails: no request behind the hole is executed, the near edge is told, and the host gets
 * silence as from a dead responder. A responder sends the NAK only once, and the near edge may begin several
 * incarnations meanwhile, as the host repeats: each waits for the same PSN (far_lost_successor()). A queue pair that
 * was reset begins elsewhere, or fills the hole.
 *
 * The ends of lost incarnations are noted in a table of their own (struct lost_life), as the places of their flows are
 * needed. The table is volatile: after a restart the far edge has only the responder's NAK, and in either case no
 * request behind the hole is executed. */
#include "far_priv.h"

#define LOST_WAIT_NS 5000000000ull /* a NAK that got lost, and the host's own timeout of up to 4 s */
#define LOOK_NS      500000000ull
#define PLACES       8             /* in which one queue pair can be noted */

static struct lost_life *place_of(struct proxy *p, const struct far_flow *f, uint32_t i)
{
	return &p->lost_lives[(far_dest_hash(p, &f->src, &f->dst, f->dest_qpn) + i) & (p->nlost_lives - 1)];
}

static struct lost_life *find_lost(struct proxy *p, const struct far_flow *f)
{
	for (uint32_t i = 0; i < PLACES; i++) {
		struct lost_life *l = place_of(p, f, i);

		if (l->session && l->dest_qpn == f->dest_qpn && ip_addr_eq(&l->src, &f->src) &&
		    ip_addr_eq(&l->dst, &f->dst))
			return l;
	}
	return NULL;
}

/* The place of an earlier incarnation of the queue pair; else a free one; else the oldest. */
static struct lost_life *take_place(struct proxy *p, const struct far_flow *f)
{
	struct lost_life *l = find_lost(p, f);

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
	return !p->session.peer_kept_arena && f->state == FAR_OPEN && !f->stale_epoch && f->pairing != PAIR_LEARNING &&
	       (f->was_near || proxy_mode_for(&p->cfg, &f->dst, &f->src) == ACK_MODE_NEAR) && !FAULT(FAULT_LOST_UNTOLD);
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

/* Sets asked_ns: the time since which the host has been asked for the missing packet while the line could have brought
 * it. The time goes on if the near edge begins another incarnation meanwhile, as the host repeats from its PSN
 * ahead. */
static void note_host_asked(const struct proxy *p, struct lost_life *l)
{
	if (!l->asked_ns || p->now_ns > l->looked_ns + LOST_WAIT_NS || !p->wan_up ||
	    p->wan_heard_since_ns > l->asked_ns)
		l->asked_ns = p->now_ns;
	l->looked_ns = p->now_ns;
}

static void wait_for_lost(struct proxy *p, struct far_flow *f, uint64_t pos)
{
	f->lost_pos = pos;
	f->lost_to = f->pos_base;
	timer_set(&p->timers, &f->ask_near, p->now_ns + LOOK_NS);
}

/* True if a responder that waits for that PSN (24 bits) waits for a packet that this edge lacked of the lost flow. */
static bool lost_awaits_psn(const struct lost_life *l, uint32_t psn)
{
	uint64_t pos = pos_near(l->to, psn);

	return pos >= l->from && pos <= l->to;
}

bool far_lost_awaited(struct proxy *p, const struct far_flow *f, uint32_t psn)
{
	const struct lost_life *l = find_lost(p, f);

	return l && lost_awaits_psn(l, psn);
}

void far_lost_look(struct proxy *p, struct far_flow *f, uint64_t pos)
{
	struct lost_life *l = find_lost(p, f);

	if (!l || f->lost_pos || !lost_awaits_psn(l, pos_psn(pos)))
		return;
	l->asked_psn = pos_psn(pos);
	note_host_asked(p, l);
	wait_for_lost(p, f, pos);
}

void far_lost_successor(struct proxy *p, struct far_flow *f)
{
	struct lost_life *l = find_lost(p, f);
	uint64_t pos;

	if (!l || !l->asked_ns || p->now_ns > l->looked_ns + LOST_WAIT_NS)
		return;
	pos = pos_near(f->pos_base, l->asked_psn);
	if (pos < f->pos_base && f->pos_base - pos < FLOW_SPAN_MAX)
		wait_for_lost(p, f, pos);
}

void far_lost_over(struct proxy *p, struct far_flow *f)
{
	struct lost_life *l = find_lost(p, f);

	f->lost_pos = 0;
	if (l)
		l->session = 0;
}

bool far_lost_failed(struct proxy *p, struct far_flow *f)
{
	struct lost_life *l;

	if (!f->lost_pos || far_has_failed(f))
		return false;
	if (f->pos_acked > f->pos_base || (f->pos_base <= f->lost_pos && f->pos_rx > f->lost_pos)) {
		far_lost_over(p, f); /* its host had it */
		return false;
	}
	l = find_lost(p, f);
	if (!l) {
		f->lost_pos = 0;
		return false;
	}
	note_host_asked(p, l);
	timer_set(&p->timers, &f->ask_near, p->now_ns + LOOK_NS);
	if (p->now_ns < l->asked_ns + LOST_WAIT_NS)
		return false;
	far_fail_lost(p, f, bytes_of(f, max_u64(f->lost_to, f->lost_pos + 1) - f->lost_pos));
	return true;
}
