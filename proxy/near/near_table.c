/* SPDX-License-Identifier: Apache-2.0 */
/* near_table.c - the table of near flows, and those without a pair. */
/* Which near flow a packet, a frame or a QPN belongs to, and which place a new one gets.
 *
 * The table has a fixed number of places. An index is used again, but never with the same incarnation: near_inc counts
 * on over all lives of a place, also over restarts, so that a late frame about an earlier flow can be told. */
#include "near_priv.h"

#include "near_fp.h"

#define IDLE_PAIRED_NS   1000000000ull  /* silent for so long, a flow may make room for one that CM has told of ... */
#define IDLE_UNPAIRED_NS 10000000000ull /* ... and for one that has yet to show that it is real */
#define LOOK_AGAIN_NS    10000000ull    /* a table full of busy flows is not searched more often */

uint32_t near_flow_hash(const struct near_flow *f)
{
	return near_key_hash(&f->src, &f->dst, f->dest_qpn, f->vlan_tci & 0xfff);
}

static uint32_t requester_hash(const struct near_flow *f)
{
	return near_key_hash(&f->src, &f->src, f->requester_qpn, 0);
}

static bool same_key(const struct near_flow *a, const struct near_flow *b)
{
	return a->dest_qpn == b->dest_qpn && a->vlan_tci % 4096 == b->vlan_tci % 4096 && ip_addr_eq(&a->dst, &b->dst);
}

void near_requester_enter(struct proxy *p, struct near_flow *f)
{
	uint32_t h = requester_hash(f), i = h, idx;

	while ((idx = idx_hash_next(&p->near_by_requester, h, &i)) != NONE) {
		struct near_flow *other = &p->near[idx], *younger, *older;

		if (other == f || other->requester_qpn != f->requester_qpn || !ip_addr_eq(&other->src, &f->src) ||
		    same_key(other, f) || FAULT(FAULT_REQUESTER_SHARED))
			continue;
		younger = other->born < f->born ? f : other;
		older = younger == f ? other : f;
		if (younger->pairing != PAIR_CONFIRMED)
			continue;
		count(p, CTR_REQUESTERS_SUPERSEDED, !older->superseded);
		older->superseded = true;
		dlist_remove(&older->ack_tx_node);
		dlist_remove(&older->resp_node);
	}
	if (!f->requester_known)
		idx_hash_put(&p->near_by_requester, h, f->idx);
	f->requester_known = true;
}

bool near_requester_younger(struct proxy *p, const struct near_flow *f)
{
	uint32_t h = requester_hash(f), i = h, idx;

	while ((idx = idx_hash_next(&p->near_by_requester, h, &i)) != NONE) {
		const struct near_flow *n = &p->near[idx];

		if (n->born > f->born && n->pairing != PAIR_LEARNING && n->requester_qpn == f->requester_qpn &&
		    ip_addr_eq(&n->src, &f->src) && ip_addr_eq(&n->dst, &f->dst))
			return true;
	}
	return false;
}

void near_requester_leave(struct proxy *p, struct near_flow *f)
{
	if (f->requester_known)
		idx_hash_del(&p->near_by_requester, requester_hash(f), f->idx);
	f->requester_known = false;
}

struct near_flow *near_by_id(struct proxy *p, uint32_t flow, uint32_t inc)
{
	uint32_t idx = flow & 0xffffff;
	struct near_flow *f;

	if (flow >> 24 != p->cfg.shard || idx >= p->cfg.max_flows || !p->near[idx].used) {
		drop(p, DROP_WAN_UNKNOWN_FLOW);
		return NULL;
	}
	f = &p->near[idx];
	if (f->inc != inc && !FAULT(FAULT_STALE_INCARNATION)) {
		drop(p, DROP_WAN_STALE_INCARNATION);
		return NULL;
	}
	return f;
}

void near_flow_init(struct proxy *p, struct near_flow *f, uint32_t idx)
{
	dlist_remove(&f->free_node);
	memset(f, 0, sizeof(*f));
	f->used = true;
	f->idx = idx;
	dlist_init(&f->ops_dead);
	f->rnr_retry = p->cfg.rnr_retry_infinite ? RNR_RETRY_INFINITE : 0;
	dlist_init(&f->ops);
	dlist_init(&f->resps);
	timer_init(&f->patience, TK_PATIENCE, idx);
	timer_init(&f->retire, TK_RETIRE, idx);
	timer_init(&f->drain, TK_DRAIN, idx);
	timer_init(&f->resp_pace, TK_RESP_PACE, idx);
	timer_init(&f->liveness, TK_LIVENESS, idx);
	timer_init(&f->fail_timer, TK_FAIL, idx);
	timer_init(&f->turn, TK_TURN, idx);
	timer_set(&p->timers, &f->retire, p->now_ns + FORSAKEN_NS);
}

/* A paired flow that was silent for idle_ns at least, of the next ones in the table the one that was for longest:
 * forgetting it loses nothing that was ACKed, and if it speaks again it is opened and paired again. */
static struct near_flow *find_victim(struct proxy *p, uint64_t idle_ns)
{
	struct near_flow *victim = NULL;

	while (work_take(p)) {
		struct near_flow *f = &p->near[p->near_evict_at];

		p->near_evict_at = (p->near_evict_at + 1) % p->cfg.max_flows;
		if (p->near_evict_at == 0 && !victim)
			p->near_full_until_ns = p->now_ns + LOOK_AGAIN_NS; /* unless one is found now */
		if (!f->used || f->pos_settled != f->pos_next || f->older || f->newer || f->ooo_pkts)
			continue;
		if (p->now_ns < f->last_rx_ns + idle_ns)
			continue;
		if (!victim || f->last_rx_ns < victim->last_rx_ns)
			victim = f;
	}
	return victim;
}

/* A place in a full table: of an unpaired flow, else of one that is idle. */
static bool make_place(struct proxy *p, bool paired)
{
	struct near_flow *victim;

	if (near_unpaired_evict(p))
		return true;
	if (p->now_ns < p->near_full_until_ns)
		return false;
	victim = find_victim(p, paired ? IDLE_PAIRED_NS : IDLE_UNPAIRED_NS);
	if (victim)
		near_close(p, victim);
	return victim != NULL;
}

struct near_flow *near_flow_take(struct proxy *p, const struct ip_addr *src, uint16_t lane, bool paired)
{
	struct near_flow *f;
	uint32_t idx;

	if (!paired && !near_unpaired_admit(p, src))
		return NULL;
	if (dlist_empty(&p->near_free) && !make_place(p, paired))
		return NULL;
	if (dlist_empty(&p->near_free))
		return NULL; /* there will be one when its slots are free */
	f = dlist_entry(dlist_first(&p->near_free), struct near_flow, free_node);
	idx = (uint32_t)(f - p->near);
	near_flow_init(p, f, idx);
	f->inc = ++p->near_inc[idx];
	f->born = ++p->births;
	near_fp_reset(p, f);
	f->src = *src;
	f->lane = lane;
	f->last_rx_ns = p->now_ns;
	p->near_used++;
	count(p, CTR_FLOWS_OPENED, 1);
	return f;
}
