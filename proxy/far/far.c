/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A far flow acts as the requester towards its host. Requests come over the WAN in any order and are put in place by
 * position (far_rx.c). Contiguous ones go to the host in order (far_tx.c). The host's answers move pos_acked
 * (far_answer.c, far_read.c), which is reported to the near edge (far_report.c):
 *
 *     base ....... acked ............ tx ............ rx ............ rx_max
 *          freed         in flight       ready to go      with holes
 *
 * The first frame that names a flow makes it, be it FLOW_OPEN or a packet. A flow whose FLOW_OPEN has not come keeps
 * packets but sends none, as its beginning is not known. A frame of a later incarnation ends the flow, with an event if
 * its responder lacks bytes; a frame of an earlier incarnation is dropped as stale.
 *
 * FLOW_CLOSE ends a flow. FLOW_CLOSE may be lost, and a late copy of a packet may make the flow again after it. So a
 * flow that never opened, makes no progress, or is idle, reports from time to time, and the near edge closes again
 * flows that it does not know.
 *
 * A near edge that comes back without its arena has forgotten its flows. far_stale.c handles requests that came before,
 * far_lost.c those that did not come. */
#include "far_priv.h"

#include "proxy/carry/barrier.h"
#include "lan_host.h"
#include "pair.h"
#include "proxy/wan/wan_lane.h"

#define EVICT_IDLE_NS  100000000ull  /* a flow without progress for so long may be closed for another one: ConnectX gives up after 300 ms */
#define EVICT_RTTS     2             /* ... and round trips, at most EVICT_MOST_NS: what its host has sent meanwhile is here then */
#define EVICT_MOST_NS  1000000000ull
#define ASK_WAITING_NS 1000000000ull /* by then a lost FLOW_OPEN is repaired, and a live responder has answered */
#define ASK_LOOK_NS    10000000000ull
#define ASK_IDLE_NS    30000000000ull /* the near edge may have forgotten a flow without progress for so long */

void far_flow_init(struct proxy *p, struct far_flow *f, uint32_t idx)
{
	dlist_remove(&f->free_node);
	memset(f, 0, sizeof(*f));
	f->idx = idx;
	dlist_init(&f->slots);
	f->hostpair = f->successor_of = NONE;
	f->resp_credit = RESP_CREDIT_ALL;
	f->pos_low = POS_NEVER;
	f->window_bytes = p->cfg.lan_window_bytes;
	f->last_progress_ns = f->notes.opened_ns = p->now_ns;
	dlist_init(&f->ops);
	dlist_init(&f->agains);
	timer_init(&f->rto, TK_RTO, idx);
	timer_init(&f->pace, TK_PACE, idx);
	timer_init(&f->ask_near, TK_ASK_NEAR, idx);
	timer_init(&f->read_again, TK_READ_AGAIN, idx);
	timer_set(&p->timers, &f->ask_near, p->now_ns + ASK_WAITING_NS);
}

void far_begin_at(struct proxy *p, struct far_flow *f, uint64_t pos)
{
	far_free_ops(p, f); /* operations that were sent came too early for the responder to answer */
	f->pos_base = f->pos_freed = f->pos_acked = f->pos_tx = f->pos_tx_max = f->pos_rx = pos;
	f->pos_rx_max = max_u64(f->pos_rx_max, pos);
	f->msgs_acked = 0;
	f->bytes_out = 0;
	lan_host_less(p, f);
	f->resp_next = f->pos_ack_seen = 0;
	memset(f->resp_got, 0, sizeof(f->resp_got));
}

void far_free_requests(struct proxy *p, struct far_flow *f)
{
	dlist_move_all(&p->dead_slots, &f->slots);
	f->pos_freed = f->pos_acked;
}

/* how: FAR_EVICTED or FAR_GONE. */
static void end_flow(struct proxy *p, struct far_flow *f, enum far_leaving how)
{
	barrier_flow_gone(p, f, how);
	far_note_end(p, f);
	far_free_requests(p, f);
	far_free_ops(p, f);
	pair_remove(p, f);
	pair_leave(p, f);
	dlist_remove(&f->lan_node);
	dlist_remove(&f->report_node);
	dlist_remove(&f->cnp_node);
	dlist_remove(&f->stale_node);
	timer_cancel(&p->timers, &f->rto);
	timer_cancel(&p->timers, &f->pace);
	timer_cancel(&p->timers, &f->ask_near);
	timer_cancel(&p->timers, &f->read_again);
	dlist_remove(&f->work_node);
	far_become(p, f, FAR_FREE);
	far_store(p, f);
	far_place_left(p, f);
	if (f->stale_epoch)
		far_stale_forgotten(p, f);
}

void far_close(struct proxy *p, struct far_flow *f)
{
	end_flow(p, f, FAR_GONE);
}

static struct evicted_flow *evicted_at(struct proxy *p, uint32_t peer_flow)
{
	return &p->evicted[far_peer_hash(peer_flow) % EVICTED_PLACES];
}

void far_open_refused(struct proxy *p, uint32_t peer_flow, uint32_t inc)
{
	*evicted_at(p, peer_flow) = (struct evicted_flow){peer_flow, inc};
}

/* The table is full: closes the flow idle for longest, at least EVICT_IDLE_NS and EVICT_RTTS round trips, of those that
 * this call's work allows to look at. If the host of that flow sends again, the flow is opened again. */
static void evict_idle(struct proxy *p)
{
	uint64_t idle_ns = clamp_u64(EVICT_RTTS * proxy_rtt_ns(p), EVICT_IDLE_NS, EVICT_MOST_NS);
	struct far_flow *victim = NULL;

	while (work_take(p)) {
		struct far_flow *f = &p->far[p->far_idle_at];

		p->far_idle_at = (p->far_idle_at + 1) % p->cfg.max_flows;
		if (f->state == FAR_FREE || f->held_bytes || f->nops || f->nresps || p->now_ns < f->last_progress_ns + idle_ns)
			continue;
		if (!victim || f->last_progress_ns < victim->last_progress_ns)
			victim = f;
	}
	if (!victim)
		return;
	*evicted_at(p, victim->peer_flow) = (struct evicted_flow){victim->peer_flow, victim->inc};
	end_flow(p, victim, !far_has_failed(victim) && !FAULT(FAULT_EVICTED_IS_GONE) ? FAR_EVICTED : FAR_GONE);
}

static struct far_flow *far_new(struct proxy *p, struct lane *l, uint32_t peer_flow, uint32_t inc)
{
	struct evicted_flow *e;
	struct far_flow *f;

	if (dlist_empty(&p->far_free))
		evict_idle(p);
	if (dlist_empty(&p->far_free))
		return NULL;
	f = dlist_entry(dlist_first(&p->far_free), struct far_flow, free_node);
	far_flow_init(p, f, (uint32_t)(f - p->far));
	f->peer_flow = peer_flow;
	f->peer_epoch = p->session.peer_arena_epoch;
	f->inc = inc;
	f->lane = l->id;
	far_become(p, f, FAR_NAMED);
	e = evicted_at(p, peer_flow);
	if (e->peer_flow == peer_flow && e->inc == inc)
		far_report(p, f, true); /* the near edge is to open it again at once */
	return f;
}

/* Closes an earlier incarnation of the flow, with an event if the responder lacks bytes of it. */
static void supersede_flow(struct proxy *p, struct far_flow *f, enum proxy_failure why)
{
	bool had_pair = f->pairing != PAIR_LEARNING || f->was_paired; /* else nothing of it was ACKed */

	if (far_is_open(f) && f->pos_acked < f->pos_rx && had_pair)
		proxy_failure_push(p, why, NULL, f, f->pos_acked, f->held_bytes);
	far_close(p, f);
}

void far_cm_open(struct proxy *p, const struct near_cm_info *ci)
{
	uint32_t i = far_dest_hash(p, &ci->src, &ci->dst, ci->dest_qpn);
	struct far_flow *f;

	while ((f = far_by_dest(p, &ci->src, &ci->dst, ci->dest_qpn, &i))) {
		if (f->replaced_by != TAG_OF_ANOTHER)
			f->replaced_by = ci->tag;
		if (!far_look_replaced(p, f, false) && far_is_open(f))
			far_store(p, f);
	}
}

struct far_flow *far_flow_for(struct proxy *p, struct lane *l, uint32_t peer_flow, uint32_t inc, bool *full)
{
	struct far_flow *f = far_by_peer(p, peer_flow);

	*full = false;
	if (f && f->inc != inc) {
		if ((int32_t)(inc - f->inc) < 0) {
			if (FAULT(FAULT_STALE_INCARNATION))
				return f;
			drop(p, DROP_WAN_STALE_INCARNATION);
			return NULL;
		}
		if (FAULT(FAULT_STALE_INCARNATION))
			return f;
		supersede_flow(p, f, FAILURE_REPLACED);
		f = NULL;
	}
	if (!f)
		f = far_new(p, l, peer_flow, inc);
	if (!f) {
		drop(p, DROP_WAN_FLOW_TABLE_FULL);
		*full = true;
	}
	return f;
}

void far_on_close(struct proxy *p, const struct wan_flow_close *c)
{
	struct far_flow *f = far_by_peer(p, c->flow);

	if (f && f->inc == c->inc)
		far_close(p, f);
}

void far_ask(struct proxy *p, struct far_flow *f)
{
	bool waits = !far_is_open(f) || f->held_bytes;

	far_again_expire(p, f);
	if (far_lost_failed(p, f))
		waits = false;
	if (p->now_ns >= f->last_progress_ns + (waits ? ASK_WAITING_NS : ASK_IDLE_NS))
		far_report(p, f, true);
	if (!f->lost_pos || far_has_failed(f))
		timer_set(&p->timers, &f->ask_near, p->now_ns + (waits ? ASK_WAITING_NS : ASK_LOOK_NS));
}

void far_session_start(struct proxy *p, struct far_flow *f)
{
	far_credit_session_start(p, f);
	f->again_round = 0; /* the near edge counts from 0 as well, and sends all that is not settled again */
	f->again_from = 0;
	if (p->session.peer_arena_epoch && f->peer_epoch && f->peer_epoch != p->session.peer_arena_epoch &&
	    !FAULT(FAULT_ARENA_EPOCH)) {
		if (far_lost_may_owe(p, f))
			far_lost_note(p, f);
		if (!FAULT(FAULT_STALE_FLOW_DROPPED) && far_stale(p, f))
			return;
		supersede_flow(p, f, FAILURE_BUFFER_LOST); /* the peer has lost the arena in which f was numbered */
		return;
	}
	if (!f->peer_epoch && p->session.peer_arena_epoch) {
		f->peer_epoch = p->session.peer_arena_epoch;
		if (far_is_open(f))
			far_store(p, f);
	}
	if (f->pairing != PAIR_LEARNING && f->template_len)
		f->pair_due = true;
	far_report(p, f, true);
}
