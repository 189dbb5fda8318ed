/* SPDX-License-Identifier: Apache-2.0 */
/* near_unpaired.c - flows without a pair: how much they may take.
 *
 * Theory of operation
 *
 * Anything with a source in the local prefixes can open a flow by sending one packet to a QPN that nobody has. Such a
 * flow stays unpaired: no responder ever answers it. What unpaired flows may take is bounded, so that a host that
 * sprays QPNs costs itself its place and nobody else theirs:
 *
 *     an eighth of the table, half of that for one source, half of it for sources without any paired flow,
 *     a sixteenth of the LAN pool (but one packet each)
 *
 * Nothing of an unpaired flow has been ACKed, so it may go at any time: its host repeats what it sent. Who comes when
 * the share is used up takes the place of the flow that has been quiet for longest, of its own source if that one has
 * its half, else of the source that has most. At once if that source has more than the newcomer's even so: sources end
 * up with equal numbers, whatever one of them sends. Else only a flow that is quiet goes, or the newcomer is dropped
 * and comes again.
 *
 * A host that forges the addresses of its whole LAN can keep hosts that have no paired flow from getting one; those
 * that have go on, and open more.
 *
 * Sources are counted by a hash of their address. Two that share a bucket share its half. */
#include "near_priv.h"

#define QUIET_NS 100000000ull /* longer than an honest flow waits for its pair, and than hosts wait to repeat */
#define FLOOR    32           /* flows, however small the table */

static struct unpaired_source *source_of(struct proxy *p, const struct ip_addr *src)
{
	return &p->unpaired.source[addr_hash(src) % UNPAIRED_BUCKETS];
}

/* Paired flows of the source, and of those few that share its place. */
static uint32_t *paired_of(struct proxy *p, const struct ip_addr *src)
{
	return &p->unpaired.paired[addr_hash(src) / UNPAIRED_BUCKETS % UNPAIRED_KNOWN];
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

void near_unpaired_enter(struct proxy *p, struct near_flow *f)
{
	struct unpaired_source *s = source_of(p, &f->src);

	if (f->pairing != PAIR_LEARNING) {
		++*paired_of(p, &f->src);
		return;
	}
	dlist_append(&s->flows, &f->unpaired_node);
	s->n++;
	f->src_unknown = !*paired_of(p, &f->src);
	s->n_unknown += f->src_unknown;
	p->unpaired.n++;
	p->unpaired.n_unknown += f->src_unknown;
	p->unpaired.bytes += f->held_bytes;
}

static void leave(struct proxy *p, struct near_flow *f)
{
	if (!dnode_on(&f->unpaired_node))
		return;
	dlist_remove(&f->unpaired_node);
	source_of(p, &f->src)->n--;
	source_of(p, &f->src)->n_unknown -= f->src_unknown;
	p->unpaired.n--;
	p->unpaired.n_unknown -= f->src_unknown;
	p->unpaired.bytes -= f->held_bytes;
}

void near_unpaired_over(struct proxy *p, struct near_flow *f, enum flow_pairing pairing)
{
	leave(p, f);
	if (f->pairing == PAIR_LEARNING)
		++*paired_of(p, &f->src);
	f->pairing = pairing;
}

void near_unpaired_leave(struct proxy *p, struct near_flow *f)
{
	leave(p, f);
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

static uint32_t flows_of(const struct unpaired_source *s, bool unknown)
{
	return unknown ? s->n_unknown : s->n;
}

/* The source with most unpaired flows; or with most of those that were opened while it had no pair. */
static struct unpaired_source *greediest(struct proxy *p, bool unknown)
{
	struct unpaired_source *s = &p->unpaired.source[0];

	for (uint32_t i = 1; i < UNPAIRED_BUCKETS; i++)
		if (flows_of(&p->unpaired.source[i], unknown) > flows_of(s, unknown))
			s = &p->unpaired.source[i];
	return s;
}

/* The source's flow that was heard longest ago. Not one that an older life waits for, or that waits for a newer one. */
static struct near_flow *quietest(struct proxy *p, const struct unpaired_source *s, bool unknown)
{
	for (struct dnode *n = s->flows.next; n != &s->flows && work_take(p); n = n->next) {
		struct near_flow *f = dlist_entry(n, struct near_flow, unpaired_node);

		if (!f->older && !f->newer && (f->src_unknown || !unknown))
			return f;
	}
	return NULL;
}

/* Forgets the source's quietest flow, if it has been quiet for so long. */
static bool evict(struct proxy *p, const struct unpaired_source *s, bool unknown, uint64_t quiet_ns)
{
	struct near_flow *f = quietest(p, s, unknown);

	if (!f || p->now_ns < f->last_rx_ns + quiet_ns)
		return false;
	count(p, CTR_UNPAIRED_EVICTED, 1);
	near_close(p, f);
	return true;
}

bool near_unpaired_evict(struct proxy *p)
{
	return evict(p, greediest(p, false), false, QUIET_NS);
}

/* Room for one of the source's at the cost of whoever has most: at once if that one has more even then. */
static bool evict_for(struct proxy *p, const struct unpaired_source *s, bool unknown)
{
	const struct unpaired_source *g = greediest(p, unknown);

	return evict(p, g, unknown, flows_of(g, unknown) > flows_of(s, unknown) + 1 ? 0 : QUIET_NS);
}

bool near_unpaired_admit(struct proxy *p, const struct ip_addr *src)
{
	struct unpaired_source *s = source_of(p, src);

	if (FAULT(FAULT_UNPAIRED_UNBOUNDED))
		return true;
	if (s->n >= share_of(p, 16) && !evict(p, s, false, QUIET_NS))
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
		return true; /* its first packet is what it is probed with */
	return bytes <= left && f->held_bytes + bytes <= 3 * left;
}
