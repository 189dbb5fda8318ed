/* SPDX-License-Identifier: Apache-2.0 */
/* near_table.c - the table of near flows.
 *
 * The table tells which near flow a packet, a frame or a QPN belongs to, and gives a place to a new flow.
 *
 * The table has a fixed number of places. An index is used again, but never with the same incarnation: near_inc counts
 * up over all incarnations of a place, also across restarts, so that a late frame about an earlier flow is
 * recognised. */
#include "near_priv.h"

#include "near_fp.h"

#define IDLE_PAIRED_NS   1000000000ull  /* a flow silent for so long may be closed for one whose pair CM has told */
#define IDLE_UNPAIRED_NS 10000000000ull /* a flow silent for so long may be closed for a new one without a pair */
#define LOOK_AGAIN_NS    10000000ull    /* a table full of busy flows is not searched more often */

static uint32_t requester_hash(const struct proxy *p, const struct near_flow *f)
{
	return near_key_hash(p, &f->src, &f->src, f->requester_qpn, 0);
}

static bool same_key(const struct near_flow *a, const struct near_flow *b)
{
	return a->dest_qpn == b->dest_qpn && a->vlan_tci % 4096 == b->vlan_tci % 4096 && ip_addr_eq(&a->dst, &b->dst);
}

/* No answer goes to the older flow's host any more, and the table of requesters forgets it: a host may connect one QPN
 * as often as it likes. */
static void supersede(struct proxy *p, struct near_flow *older)
{
	count(p, CTR_REQUESTERS_SUPERSEDED, !older->superseded);
	older->superseded = true;
	dlist_remove(&older->ack_tx_node);
	dlist_remove(&older->resp_node);
	near_requester_leave(p, older);
}

/* Supersedes f or a flow that shares f's requester. False: there is nothing to supersede. */
static bool supersede_one(struct proxy *p, struct near_flow *f)
{
	uint32_t h = requester_hash(p, f), i = h, idx, n = 0;

	while ((idx = idx_hash_next(&p->near_by_requester, h, &i)) != NONE) {
		struct near_flow *other = &p->near[idx], *younger, *older;

		if (other == f || other->requester_qpn != f->requester_qpn || !ip_addr_eq(&other->src, &f->src) ||
		    same_key(other, f) || FAULT(FAULT_REQUESTER_SHARED))
			continue;
		younger = other->born < f->born ? f : other;
		older = younger == f ? other : f;
		if (younger->pairing != PAIR_CONFIRMED && ++n <= UNCERTAIN_MOST)
			continue;
		supersede(p, older);
		return true;
	}
	return false;
}

void near_requester_enter(struct proxy *p, struct near_flow *f)
{
	while (!f->superseded && supersede_one(p, f))
		;
	if (!f->superseded && !f->requester_known) {
		idx_hash_put(&p->near_by_requester, requester_hash(p, f), f->idx);
		f->requester_known = true;
	}
}

enum requester_owner near_requester_owner(struct proxy *p, const struct near_flow *f)
{
	uint32_t h = requester_hash(p, f), i = h, idx, n = 0;
	bool elsewhere = f->superseded || f->elsewhere_ns > f->last_rx_ns;

	while ((idx = idx_hash_next(&p->near_by_requester, h, &i)) != NONE) {
		const struct near_flow *o = &p->near[idx];

		if (++n > REQUESTER_LOOKS)
			return REQUESTER_ELSEWHERE;
		if (o->pairing == PAIR_LEARNING || o->requester_qpn != f->requester_qpn ||
		    !ip_addr_eq(&o->src, &f->src))
			continue;
		if (!ip_addr_eq(&o->dst, &f->dst))
			elsewhere |= o->born > f->born || o->last_rx_ns > f->error_ns;
		else if (o->born > f->born)
			return REQUESTER_YOUNGER;
	}
	return elsewhere ? REQUESTER_ELSEWHERE : REQUESTER_ITS_OWN;
}

void near_requester_leave(struct proxy *p, struct near_flow *f)
{
	if (f->requester_known)
		idx_hash_del(&p->near_by_requester, requester_hash(p, f), f->idx);
	f->requester_known = false;
}

struct near_flow *near_by_id(struct proxy *p, uint32_t flow, uint32_t inc)
{
	uint32_t idx = flow & 0xffffff;
	struct near_flow *f;

	if (flow >> 24 != p->cfg.shard || idx >= p->cfg.max_flows || !near_in_use(&p->near[idx])) {
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

/* A settled flow that was silent for idle_ns at least: the one silent for longest among the next places that this
 * call's work allows to look at. Closing it loses nothing that was ACKed; if its host sends again, the flow is opened
 * and paired again. */
static struct near_flow *find_victim(struct proxy *p, uint64_t idle_ns)
{
	struct near_flow *victim = NULL;

	while (work_take(p)) {
		struct near_flow *f = &p->near[p->near_evict_at];

		p->near_evict_at = (p->near_evict_at + 1) % p->cfg.max_flows;
		if (p->near_evict_at == 0 && !victim)
			p->near_full_until_ns = p->now_ns + LOOK_AGAIN_NS; /* the whole table was searched in vain */
		if (!near_in_use(f) || f->pos_settled != f->pos_next || f->older || f->newer || f->ooo_pkts)
			continue;
		if (near_loss_is_fresh(p, f))
			continue;
		if (p->now_ns < f->last_rx_ns + idle_ns)
			continue;
		if (!victim || f->last_rx_ns < victim->last_rx_ns)
			victim = f;
	}
	return victim;
}

/* Makes a place in a full table: closes a quiet unpaired flow, else an idle one. */
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
		return NULL; /* the place is free once the slots of its flow are */
	f = dlist_entry(dlist_first(&p->near_free), struct near_flow, free_node);
	idx = (uint32_t)(f - p->near);
	near_flow_init(p, f, idx);
	f->inc = ++p->near_inc[idx];
	f->born = ++p->births;
	near_fp_reset(p, f);
	f->src = *src;
	f->lane = lane;
	f->last_rx_ns = f->notes.opened_ns = p->now_ns;
	near_become(p, f, NEAR_OPEN);
	count(p, CTR_FLOWS_OPENED, 1);
	return f;
}
