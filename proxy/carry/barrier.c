/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A program may see a completion and then tell the other side by another channel (TCP, UD, a disconnect). In mode near
 * this can be early: the completion means that the near edge has the bytes, not that the other host has. So packets
 * that are not RC wait for RC requests ACKed early before them, in the same direction between the same two machines:
 *
 *     host A     edge A (near)                                edge B (far)                        host B
 *       | WRITE ---> ACK at pos 7 of flow 3
 *       | TCP "done" ---> snapshot: (flow 3, inc 1, pos 7)
 *                         packet + snapshot ========> flow 3 of inc 1 acked by host B below 7? wait
 *                                                     ... ACK of host B for 7: go --------------> TCP "done"
 *
 * The near edge knows which requests were ACKed early: a flow *lags* while pos_acked > pos_reported. Lagging flows are
 * on the list of their pair of machines (barrier_mark(), constant time), and a packet that leaves carries their ACKed
 * positions as its snapshot. Work and bytes are proportional to the number of lagging flows. The pair's entry exists
 * only while a flow of it lags.
 *
 * The packet waits at the *far* edge. At the near edge it would wait a round trip for a report of the requests that
 * were out when it came, and then cross: 1.5 round trips for every TCP segment beside busy RC, and TCP's window would
 * count twice. At the far edge the packet waits only for the requests of its snapshot. These requests left before the
 * packet on the same line, so without loss the packet waits for one turn of the far LAN. The far edge is also the first
 * to know when waiting is pointless: RNR, a stalled or refused flow, a host that disconnects. And no message back is
 * needed.
 *
 * Packets that no program can take for a message never wait: CNPs, bare TCP ACKs, CM messages except DREQ and DREP. Nor
 * do packets that the operator exempts (BarrierSkip=). Such packets overtake others, which does not disturb TCP.
 *
 * With Barrier=causal an RC message carries a snapshot, too, of the other flows of its pair. The snapshot lies behind
 * the bytes of the message's first packet, in the slot (slot_hdr.waits), so that it is repaired, kept and rebuilt with
 * the packet. Entries without room there are waived.
 *
 * DREQ and DREP wait even with the barrier off: they end the queue pair to which the requests are on their way.
 *
 * The barrier does not cover messages that no edge sees: those around the link, over a third host, or to another
 * address of a machine that is not configured as one (struct host_alias). Addresses that are have one lane, so that one
 * shard sees all of them. */
#include "barrier.h"
#include "proxy/shard/flow_find.h"

void barrier_init(struct proxy *p, struct held_packet *held_packets, uint32_t nheld_packets)
{
	struct barrier *b = &p->barrier;

	dlist_init(&b->held_packets_free);
	dlist_init(&b->starts);
	dlist_init(&b->waking);
	timer_init(&b->starts_limit, TK_STARTS, 0);
	for (uint32_t i = 0; i < nheld_packets; i++)
		dlist_append(&b->held_packets_free, &held_packets[i].node);
	for (uint32_t i = 0; i < BARRIER_QUEUES; i++)
		timer_init(&((struct barrier_queue *)b->queues.places)[i].limit, TK_BARRIER, i);
}

const struct ip_addr *barrier_host(const struct proxy *p, const struct ip_addr *a)
{
	return FAULT(FAULT_ALIASES_SEPARATE) ? a : proxy_machine(&p->cfg, a);
}

/* --- tables --- */

static uint32_t hash_of(const struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	uint64_t seed = p->cfg.hash_seed;

	return (uint32_t)hash_mix((uint64_t)addr_hash(seed, src) << 32 | addr_hash(seed, dst));
}

struct barrier_way *barrier_way_at(const struct barrier_table *t, uint32_t idx)
{
	return (struct barrier_way *)(void *)((char *)t->places + idx * t->size);
}

void barrier_table_init(struct barrier_table *t, void *places, size_t size, uint32_t n)
{
	t->places = places;
	t->size = size;
	dlist_init(&t->free);
	for (uint32_t i = 0; i < n; i++)
		dlist_append(&t->free, &barrier_way_at(t, i)->free_node);
}

void *barrier_find(struct proxy *p, const struct barrier_table *t, const struct ip_addr *src, const struct ip_addr *dst)
{
	uint32_t h, i, idx;

	src = barrier_host(p, src);
	dst = barrier_host(p, dst);
	h = i = hash_of(p, src, dst);
	while ((idx = idx_hash_next(&t->by_machines, h, &i)) != NONE) {
		struct barrier_way *w = barrier_way_at(t, idx);

		if (ip_addr_eq(&w->src, src) && ip_addr_eq(&w->dst, dst))
			return w;
	}
	return NULL;
}

static uint32_t place_of(const struct barrier_table *t, const struct barrier_way *w)
{
	return (uint32_t)((size_t)((const char *)w - (const char *)t->places) / t->size);
}

void *barrier_take(struct proxy *p, struct barrier_table *t, const struct ip_addr *src, const struct ip_addr *dst)
{
	struct dnode *n = dlist_first(&t->free);
	struct barrier_way *w;

	if (!n)
		return NULL;
	dlist_remove(n);
	w = dlist_entry(n, struct barrier_way, free_node);
	w->src = *barrier_host(p, src);
	w->dst = *barrier_host(p, dst);
	idx_hash_put(&t->by_machines, hash_of(p, &w->src, &w->dst), place_of(t, w));
	t->used++;
	return w;
}

void barrier_release(struct proxy *p, struct barrier_table *t, struct barrier_way *w)
{
	idx_hash_del(&t->by_machines, hash_of(p, &w->src, &w->dst), place_of(t, w));
	dlist_append(&t->free, &w->free_node);
	t->used--;
}

/* --- flows that lag --- */

static struct barrier_pair *find_pair(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	return barrier_find(p, &p->barrier.pairs, src, dst);
}

/* A free place always exists: each used one has a lagging flow, and there are as many places as flows. */
static struct barrier_pair *new_pair(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	struct barrier_pair *bp = barrier_take(p, &p->barrier.pairs, src, dst);

	dlist_init(&bp->lagging);
	bp->nlagging = 0;
	return bp;
}

static bool flow_lags(const struct near_flow *f)
{
	return near_in_use(f) && f->state != NEAR_FAILED && f->pos_acked > f->pos_reported;
}

void barrier_mark(struct proxy *p, struct near_flow *f)
{
	struct barrier_pair *bp;

	if (flow_lags(f) == dnode_on(&f->lag_node))
		return;
	bp = find_pair(p, &f->src, &f->dst);
	if (!dnode_on(&f->lag_node)) {
		if (!bp)
			bp = new_pair(p, &f->src, &f->dst);
		dlist_append(&bp->lagging, &f->lag_node);
		bp->nlagging++;
		return;
	}
	dlist_remove(&f->lag_node);
	if (--bp->nlagging == 0)
		barrier_release(p, &p->barrier.pairs, &bp->way);
}

uint32_t barrier_lagging(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	const struct barrier_pair *bp = find_pair(p, src, dst);

	return bp ? bp->nlagging : 0;
}

void barrier_entry(const struct proxy *p, const struct near_flow *f, uint8_t *out)
{
	put_be32(out, near_wire_id(p, f));
	put_be32(out + 4, f->inc);
	put_be64(out + 8, f->pos_acked);
}

uint32_t barrier_snapshot(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint8_t *out,
                          uint32_t max)
{
	const struct barrier_pair *bp = find_pair(p, src, dst);
	uint32_t n = 0;

	if (!bp)
		return 0;
	for (const struct dnode *d = bp->lagging.next; d != &bp->lagging && n < max; d = d->next, n++)
		barrier_entry(p, dlist_entry(d, struct near_flow, lag_node), out + (size_t)n * BARRIER_ENTRY_LEN);
	return n;
}

uint32_t barrier_snapshot_others(struct proxy *p, const struct near_flow *f, uint8_t *out, uint32_t max, bool *more)
{
	const struct barrier_pair *bp = find_pair(p, &f->src, &f->dst);
	uint32_t n = 0;

	*more = false;
	for (const struct dnode *d = bp ? bp->lagging.next : NULL; bp && d != &bp->lagging; d = d->next) {
		const struct near_flow *other = dlist_entry(d, struct near_flow, lag_node);

		if (other == f)
			continue;
		if (n == max) {
			*more = true;
			break;
		}
		barrier_entry(p, other, out + (size_t)n++ * BARRIER_ENTRY_LEN);
	}
	return n;
}

static uint32_t list_length(const struct dnode *head)
{
	uint32_t n = 0;

	for (const struct dnode *d = head->next; d != head; d = d->next)
		n++;
	return n;
}

int barrier_audit(struct proxy *p)
{
	const struct barrier_pair *pairs = p->barrier.pairs.places;
	const struct barrier_queue *queues = p->barrier.queues.places;
	uint32_t lagging = 0, listed = 0, waiting = 0;

	for (const struct dnode *d = p->barrier.starts.next; d != &p->barrier.starts; d = d->next)
		if (dlist_entry(d, struct far_flow, start_node)->state == FAR_FREE)
			return -135;
	if (!dlist_empty(&p->barrier.starts) && !timer_armed(&p->barrier.starts_limit))
		return -136;

	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		if (flow_lags(&p->near[i]) != dnode_on(&p->near[i].lag_node))
			return -131;
		lagging += flow_lags(&p->near[i]);
		if (dnode_on(&pairs[i].way.free_node))
			continue;
		if (pairs[i].nlagging != list_length(&pairs[i].lagging))
			return -132;
		listed += pairs[i].nlagging;
	}
	for (uint32_t i = 0; i < BARRIER_QUEUES; i++)
		if (!dnode_on(&queues[i].way.free_node))
			waiting += list_length(&queues[i].waiting);
	if (lagging != listed)
		return -133;
	return waiting == p->barrier.waiting ? barrier_far_audit(p) : -134;
}
