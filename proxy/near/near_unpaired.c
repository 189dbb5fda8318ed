/* SPDX-License-Identifier: Apache-2.0 */
/* near_unpaired.c - the bounds on near flows without a pair.
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
 * Each source that has an unpaired flow has a place of its own (struct unpaired_source), found by its address: no
 * source pays for another one whose address has the same hash. Two rankings hold the sources by their numbers of flows,
 * so that the source with most is found in one step. Numbers change by one, so the top of a ranking moves by one. */
#include "near_priv.h"

#define QUIET_NS 100000000ull /* longer than an honest flow waits for its pair, and than hosts wait to repeat */
#define FLOOR    32           /* flows, however small the table */

/* The source's place; NULL: it has no unpaired flow. */
static struct unpaired_source *source_find(struct proxy *p, const struct ip_addr *src)
{
	struct near_unpaired *u = &p->unpaired;
	uint32_t h = addr_hash(p->cfg.hash_seed, src), i = h, idx;

	while ((idx = idx_hash_next(&u->by_source, h, &i)) != NONE)
		if (ip_addr_eq(&u->source[idx].addr, src))
			return &u->source[idx];
	return NULL;
}

/* A place for the source: its own, or a new one without flows. There are as many places as flows. */
static struct unpaired_source *source_take(struct proxy *p, const struct ip_addr *src)
{
	struct near_unpaired *u = &p->unpaired;
	struct unpaired_source *s = source_find(p, src);

	if (s)
		return s;
	s = dlist_entry(dlist_first(&u->sources_free), struct unpaired_source, flows);
	dlist_remove(&s->flows);
	dlist_init(&s->flows);
	s->addr = *src;
	idx_hash_put(&u->by_source, addr_hash(p->cfg.hash_seed, src), (uint32_t)(s - u->source));
	return s;
}

static void source_release(struct proxy *p, struct unpaired_source *s)
{
	struct near_unpaired *u = &p->unpaired;

	idx_hash_del(&u->by_source, addr_hash(p->cfg.hash_seed, &s->addr), (uint32_t)(s - u->source));
	s->flows = (struct dnode){0};
	dlist_append(&u->sources_free, &s->flows);
}

/* Puts the source at the end of its rank: of sources with equal numbers the one heard longest ago comes first. */
static void rank(struct near_unpaired *u, struct unpaired_source *s, enum unpaired_kind kind)
{
	struct unpaired_ranking *r = &u->ranking[kind];
	uint32_t at = (uint32_t)min_u64(s->n[kind], r->len - 1);

	dlist_remove(&s->rank_node[kind]);
	if (at)
		dlist_append(&r->rank[at], &s->rank_node[kind]);
	r->top = at > r->top ? at : r->top;
	while (r->top && dlist_empty(&r->rank[r->top]))
		r->top--;
}

static void count_flow(struct near_unpaired *u, struct unpaired_source *s, enum unpaired_kind kind, int change)
{
	s->n[kind] += (uint32_t)change;
	u->n[kind] += (uint32_t)change;
	rank(u, s, kind);
}

/* The number of paired flows of the source, and of the few that share its hash. */
static uint32_t *paired_of(struct proxy *p, const struct ip_addr *src)
{
	return &p->unpaired.paired[addr_hash(p->cfg.hash_seed, src) % UNPAIRED_KNOWN];
}

/* A part of the table, but not less than FLOOR. */
static uint32_t share_of(uint32_t max_flows, uint32_t part)
{
	uint32_t share = max_flows / part;

	return share > FLOOR ? share : FLOOR;
}

uint32_t near_unpaired_ranks(uint32_t max_flows)
{
	return share_of(max_flows, 16) + 2;
}

void near_unpaired_init(struct near_unpaired *u, uint32_t max_flows)
{
	dlist_init(&u->sources_free);
	for (uint32_t i = 0; i < max_flows; i++)
		dlist_append(&u->sources_free, &u->source[i].flows);
	for (uint32_t i = 0; i < UNPAIRED_KINDS; i++) {
		struct unpaired_ranking *r = &u->ranking[i];

		r->len = near_unpaired_ranks(max_flows);
		r->top = 0;
		for (uint32_t k = 0; k < r->len; k++)
			dlist_init(&r->rank[k]);
	}
}

/* True if the responder has not answered until GiveUp. */
static bool is_given_up(const struct near_flow *f)
{
	return f->state == NEAR_FAILED && !f->nak_syndrome;
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
	struct near_unpaired *u = &p->unpaired;
	struct unpaired_source *s;

	if (f->pairing != PAIR_LEARNING) {
		++*paired_of(p, &f->src);
		return;
	}
	s = source_take(p, &f->src);
	f->unpaired_source = s;
	dlist_append(&s->flows, &f->unpaired_node);
	if (!is_given_up(f))
		between_enter(p, f);
	count_flow(u, s, UNPAIRED_ALL, 1);
	f->src_unknown = !*paired_of(p, &f->src);
	if (f->src_unknown)
		count_flow(u, s, UNPAIRED_UNKNOWN, 1);
	u->bytes += f->held_bytes;
}

static void leave_unpaired(struct proxy *p, struct near_flow *f)
{
	struct near_unpaired *u = &p->unpaired;
	struct unpaired_source *s = f->unpaired_source;

	if (!s)
		return;
	f->unpaired_source = NULL;
	dlist_remove(&f->unpaired_node);
	between_leave(p, f);
	count_flow(u, s, UNPAIRED_ALL, -1);
	if (f->src_unknown)
		count_flow(u, s, UNPAIRED_UNKNOWN, -1);
	u->bytes -= f->held_bytes;
	if (!s->n[UNPAIRED_ALL])
		source_release(p, s);
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
	struct unpaired_source *s = f->unpaired_source;

	if (!s)
		return;
	dlist_remove(&f->unpaired_node);
	dlist_append(&s->flows, &f->unpaired_node);
	rank(&p->unpaired, s, UNPAIRED_ALL);
	rank(&p->unpaired, s, UNPAIRED_UNKNOWN);
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

/* The source with most unpaired flows of that kind; NULL: there is none. */
static struct unpaired_source *greediest_source(struct proxy *p, enum unpaired_kind kind)
{
	const struct unpaired_ranking *r = &p->unpaired.ranking[kind];

	return r->top ? dlist_entry(dlist_first(&r->rank[r->top]), struct unpaired_source, rank_node[kind]) : NULL;
}

/* The source's unpaired flow that was heard longest ago, but none with an older or newer incarnation. */
static struct near_flow *quietest_unpaired(struct proxy *p, const struct unpaired_source *s, enum unpaired_kind kind)
{
	for (struct dnode *n = s->flows.next; n != &s->flows && work_take(p); n = n->next) {
		struct near_flow *f = dlist_entry(n, struct near_flow, unpaired_node);

		if (!f->older && !f->newer && (f->src_unknown || kind == UNPAIRED_ALL) && !near_loss_is_fresh(p, f))
			return f;
	}
	return NULL;
}

/* Closes the source's quietest unpaired flow if it has been quiet for quiet_ns. */
static bool evict_quietest(struct proxy *p, const struct unpaired_source *s, enum unpaired_kind kind, uint64_t quiet_ns)
{
	struct near_flow *f = quietest_unpaired(p, s, kind);

	if (!f || p->now_ns < f->last_rx_ns + quiet_ns)
		return false;
	count(p, CTR_UNPAIRED_EVICTED, 1);
	near_close(p, f);
	return true;
}

bool near_unpaired_evict(struct proxy *p)
{
	const struct unpaired_source *s = greediest_source(p, UNPAIRED_ALL);

	return s && evict_quietest(p, s, UNPAIRED_ALL, QUIET_NS);
}

/* Makes room for a flow of a source that has n, at the cost of the source that has most: at once if that one has more
 * even then. */
static bool evict_for(struct proxy *p, uint32_t n, enum unpaired_kind kind)
{
	const struct unpaired_source *g = greediest_source(p, kind);

	return g && evict_quietest(p, g, kind, g->n[kind] > n + 1 ? 0 : QUIET_NS);
}

static uint32_t flows_of(struct proxy *p, const struct ip_addr *src, enum unpaired_kind kind)
{
	const struct unpaired_source *s = source_find(p, src);

	return s ? s->n[kind] : 0;
}

bool near_unpaired_admit(struct proxy *p, const struct ip_addr *src)
{
	const struct near_unpaired *u = &p->unpaired;

	if (FAULT(FAULT_UNPAIRED_UNBOUNDED))
		return true;
	if (flows_of(p, src, UNPAIRED_ALL) >= share_of(p->cfg.max_flows, 16) &&
	    !evict_quietest(p, source_find(p, src), UNPAIRED_ALL, QUIET_NS))
		return false;
	if (!*paired_of(p, src) && u->n[UNPAIRED_UNKNOWN] >= share_of(p->cfg.max_flows, 16))
		return evict_for(p, flows_of(p, src, UNPAIRED_UNKNOWN), UNPAIRED_UNKNOWN);
	return u->n[UNPAIRED_ALL] < share_of(p->cfg.max_flows, 8) ||
	       evict_for(p, flows_of(p, src, UNPAIRED_ALL), UNPAIRED_ALL);
}

bool near_unpaired_may_hold(const struct proxy *p, const struct near_flow *f, uint32_t bytes)
{
	uint64_t share = arena_capacity(p->arena, POOL_LAN) / 16;
	uint64_t left = share > p->unpaired.bytes ? share - p->unpaired.bytes : 0;

	if (!f->held_bytes)
		return true; /* the flow is probed with its first packet */
	return bytes <= left && f->held_bytes + bytes <= 3 * left;
}
