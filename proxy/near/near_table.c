/* SPDX-License-Identifier: Apache-2.0 */
/* near_table.c - the table of near flows, and the bounds on flows without a pair.
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

/* No answer goes to the older flow's host any more, and the table of requesters forgets it: a host may connect one QPN as
 * often as it likes. */
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
		if (o->pairing == PAIR_LEARNING || o->requester_qpn != f->requester_qpn || !ip_addr_eq(&o->src, &f->src))
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
		if (!f->used || f->pos_settled != f->pos_next || f->older || f->newer || f->ooo_pkts)
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
	p->near_used++;
	count(p, CTR_FLOWS_OPENED, 1);
	return f;
}

/* --- bounds on flows without a pair.
 *
 * Theory of operation
 *
 * A sender in the local prefixes can open a flow by sending one packet to a QPN that does not exist. Such a flow stays
 * unpaired: no responder ever answers it. Bounds on unpaired flows keep a host that sprays QPNs from taking the places
 * of others:
 *
 *     an eighth of the table, half of that for one source, half of it for sources without any paired flow,
 *     a sixteenth of the LAN pool (but one packet each)
 *
 * Nothing of an unpaired flow has been ACKed, so it may be closed at any time: its host repeats what it sent. When a
 * share is used up, a new flow takes the place of the flow that has been quiet for longest: of its own source if that
 * source has its half, else of the source that has most. If that source has more flows than the new flow's source even
 * with the new one, its flow is closed at once: sources end up with equal numbers, whatever one of them sends. Else
 * only a flow quiet for QUIET_NS is closed, or the new flow's packet is dropped and its host repeats it.
 *
 * A host that forges the addresses of its whole LAN can keep hosts without any paired flow from getting one. Hosts that
 * have a paired flow go on, and open more.
 *
 * Sources are counted by a hash of their address. Two that share a bucket share its half. */

#define QUIET_NS 100000000ull /* longer than an honest flow waits for its pair, and than hosts wait to repeat */
#define FLOOR    32           /* flows, however small the table */

static struct unpaired_source *source_of(struct proxy *p, const struct ip_addr *src)
{
	return &p->unpaired.source[addr_hash(p->cfg.hash_seed, src) % UNPAIRED_BUCKETS];
}

/* The number of paired flows of the source, and of the few sources that share its hash. */
static uint32_t *paired_of(struct proxy *p, const struct ip_addr *src)
{
	return &p->unpaired.paired[addr_hash(p->cfg.hash_seed, src) / UNPAIRED_BUCKETS % UNPAIRED_KNOWN];
}

/* A part of the table, but not less than FLOOR. */
static uint32_t share_of(const struct proxy *p, uint32_t part)
{
	uint32_t share = p->cfg.max_flows / part;

	return share > FLOOR ? share : FLOOR;
}

void near_unpaired_init(struct near_unpaired *u)
{
	for (uint32_t i = 0; i < UNPAIRED_BUCKETS; i++)
		dlist_init(&u->source[i].flows);
}

/* True if the responder has not answered until GiveUp. */
static bool is_given_up(const struct near_flow *f)
{
	return f->failed && !f->nak_syndrome;
}

static uint32_t hosts_hash(const struct proxy *p, const struct near_flow *f)
{
	return near_key_hash(p, &f->src, &f->dst, 0, 0);
}

/* The first flow of the ring between the flow's hosts; NULL: there is none. */
static struct near_flow *between_first(struct proxy *p, const struct near_flow *f)
{
	uint32_t h = hosts_hash(p, f), i = h, idx;

	while ((idx = idx_hash_next(&p->unpaired.by_hosts, h, &i)) != NONE)
		if (ip_addr_eq(&p->near[idx].src, &f->src) && ip_addr_eq(&p->near[idx].dst, &f->dst))
			return &p->near[idx];
	return NULL;
}

static struct near_flow *between_prev(const struct near_flow *f)
{
	return dlist_entry(f->between_node.prev, struct near_flow, between_node);
}

static void between_lead(struct proxy *p, struct near_flow *f)
{
	f->between_first = true;
	idx_hash_put(&p->unpaired.by_hosts, hosts_hash(p, f), f->idx);
}

/* Enters the flow into its ring, in order of age. Only the first flow of a rebuilt ring may have any age. */
static void between_enter(struct proxy *p, struct near_flow *f)
{
	struct near_flow *first = between_first(p, f), *at = first;

	if (!first) {
		dlist_init(&f->between_node);
		between_lead(p, f);
		return;
	}
	while (between_prev(at) != first && between_prev(at)->born > f->born)
		at = between_prev(at);
	dlist_insert_before(&at->between_node, &f->between_node);
}

static void between_leave(struct proxy *p, struct near_flow *f)
{
	struct near_flow *next;

	if (!dnode_on(&f->between_node))
		return;
	next = dlist_entry(f->between_node.next, struct near_flow, between_node);
	dlist_remove(&f->between_node);
	if (!f->between_first)
		return;
	f->between_first = false;
	idx_hash_del(&p->unpaired.by_hosts, hosts_hash(p, f), f->idx);
	if (next != f)
		between_lead(p, next);
}

void near_unpaired_enter(struct proxy *p, struct near_flow *f)
{
	struct unpaired_source *s = source_of(p, &f->src);

	if (f->pairing != PAIR_LEARNING) {
		++*paired_of(p, &f->src);
		return;
	}
	dlist_append(&s->flows, &f->unpaired_node);
	if (!is_given_up(f))
		between_enter(p, f);
	s->n++;
	f->src_unknown = !*paired_of(p, &f->src);
	s->n_unknown += f->src_unknown;
	p->unpaired.n++;
	p->unpaired.n_unknown += f->src_unknown;
	p->unpaired.bytes += f->held_bytes;
}

static void leave_unpaired(struct proxy *p, struct near_flow *f)
{
	if (!dnode_on(&f->unpaired_node))
		return;
	dlist_remove(&f->unpaired_node);
	between_leave(p, f);
	source_of(p, &f->src)->n--;
	source_of(p, &f->src)->n_unknown -= f->src_unknown;
	p->unpaired.n--;
	p->unpaired.n_unknown -= f->src_unknown;
	p->unpaired.bytes -= f->held_bytes;
}

void near_unpaired_over(struct proxy *p, struct near_flow *f, enum flow_pairing pairing)
{
	leave_unpaired(p, f);
	if (f->pairing == PAIR_LEARNING)
		++*paired_of(p, &f->src);
	f->pairing = pairing;
}

void near_unpaired_leave(struct proxy *p, struct near_flow *f)
{
	leave_unpaired(p, f);
	if (f->pairing != PAIR_LEARNING)
		--*paired_of(p, &f->src);
}

void near_unpaired_seen(struct proxy *p, struct near_flow *f)
{
	if (!dnode_on(&f->unpaired_node))
		return;
	dlist_remove(&f->unpaired_node);
	dlist_append(&source_of(p, &f->src)->flows, &f->unpaired_node);
}

void near_unpaired_given_up(struct proxy *p, struct near_flow *f)
{
	between_leave(p, f);
}

bool near_unpaired_younger(struct proxy *p, const struct near_flow *f)
{
	const struct near_flow *first = between_first(p, f);

	return first && max_u64(first->born, between_prev(first)->born) > f->born;
}

static uint32_t flows_of(const struct unpaired_source *s, bool unknown)
{
	return unknown ? s->n_unknown : s->n;
}

/* The source with most unpaired flows; unknown: with most of those opened while the source had no paired flow. */
static struct unpaired_source *greediest_source(struct proxy *p, bool unknown)
{
	struct unpaired_source *s = &p->unpaired.source[0];

	for (uint32_t i = 1; i < UNPAIRED_BUCKETS; i++)
		if (flows_of(&p->unpaired.source[i], unknown) > flows_of(s, unknown))
			s = &p->unpaired.source[i];
	return s;
}

/* The source's unpaired flow that was heard longest ago, but none with an older or newer incarnation. */
static struct near_flow *quietest_unpaired(struct proxy *p, const struct unpaired_source *s, bool unknown)
{
	for (struct dnode *n = s->flows.next; n != &s->flows && work_take(p); n = n->next) {
		struct near_flow *f = dlist_entry(n, struct near_flow, unpaired_node);

		if (!f->older && !f->newer && (f->src_unknown || !unknown) && !near_loss_is_fresh(p, f))
			return f;
	}
	return NULL;
}

/* Closes the source's quietest unpaired flow if it has been quiet for quiet_ns. */
static bool evict_quietest(struct proxy *p, const struct unpaired_source *s, bool unknown, uint64_t quiet_ns)
{
	struct near_flow *f = quietest_unpaired(p, s, unknown);

	if (!f || p->now_ns < f->last_rx_ns + quiet_ns)
		return false;
	count(p, CTR_UNPAIRED_EVICTED, 1);
	near_close(p, f);
	return true;
}

bool near_unpaired_evict(struct proxy *p)
{
	return evict_quietest(p, greediest_source(p, false), false, QUIET_NS);
}

/* Makes room for a flow of source s at the cost of the source that has most: at once if that one has more even then. */
static bool evict_for(struct proxy *p, const struct unpaired_source *s, bool unknown)
{
	const struct unpaired_source *g = greediest_source(p, unknown);

	return evict_quietest(p, g, unknown, flows_of(g, unknown) > flows_of(s, unknown) + 1 ? 0 : QUIET_NS);
}

bool near_unpaired_admit(struct proxy *p, const struct ip_addr *src)
{
	struct unpaired_source *s = source_of(p, src);

	if (FAULT(FAULT_UNPAIRED_UNBOUNDED))
		return true;
	if (s->n >= share_of(p, 16) && !evict_quietest(p, s, false, QUIET_NS))
		return false;
	if (!*paired_of(p, src) && p->unpaired.n_unknown >= share_of(p, 16))
		return evict_for(p, s, true);
	return p->unpaired.n < share_of(p, 8) || evict_for(p, s, false);
}

bool near_unpaired_may_hold(const struct proxy *p, const struct near_flow *f, uint32_t bytes)
{
	uint64_t share = arena_capacity(p->arena, POOL_LAN) / 16;
	uint64_t left = share > p->unpaired.bytes ? share - p->unpaired.bytes : 0;

	if (!f->held_bytes)
		return true; /* the flow is probed with its first packet */
	return bytes <= left && f->held_bytes + bytes <= 3 * left;
}
