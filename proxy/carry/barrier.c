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

void barrier_init(struct proxy *p, struct barrier_pair *pairs, struct barrier_far_pair *far_pairs,
                  struct barrier_queue *queues, struct held_packet *held_packets, uint32_t nheld_packets)
{
	struct barrier *b = &p->barrier;

	b->pairs = pairs;
	b->far_pairs = far_pairs;
	b->queues = queues;
	dlist_init(&b->far_pairs_free);
	for (uint32_t i = 0; i < p->cfg.max_flows; i++)
		dlist_append(&b->far_pairs_free, &far_pairs[i].free_node);
	dlist_init(&b->held_packets_free);
	dlist_init(&b->starts);
	dlist_init(&b->waking);
	timer_init(&b->starts_limit, TK_STARTS, 0);
	for (uint32_t i = 0; i < nheld_packets; i++)
		dlist_append(&b->held_packets_free, &held_packets[i].node);
	for (uint32_t i = 0; i < BARRIER_QUEUES; i++)
		timer_init(&queues[i].limit, TK_BARRIER, i);
}

const struct ip_addr *barrier_host(const struct proxy *p, const struct ip_addr *a)
{
	return FAULT(FAULT_ALIASES_SEPARATE) ? a : proxy_machine(&p->cfg, a);
}

static struct barrier_pair *find_pair(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	uint32_t h, i, idx;

	src = barrier_host(p, src);
	dst = barrier_host(p, dst);
	h = i = barrier_hash(p, src, dst);
	while ((idx = idx_hash_next(&p->barrier.pair_by_hosts, h, &i)) != NONE) {
		struct barrier_pair *bp = &p->barrier.pairs[idx];

		if (ip_addr_eq(&bp->src, src) && ip_addr_eq(&bp->dst, dst))
			return bp;
	}
	return NULL;
}

/* A free place always exists: each used one has a lagging flow, and there are as many places as flows. */
static struct barrier_pair *new_pair(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	struct barrier *b = &p->barrier;
	uint32_t idx;

	do
		idx = b->pair_hint++ % p->cfg.max_flows;
	while (b->pairs[idx].used);
	b->pairs[idx] = (struct barrier_pair){.used = true, .src = *barrier_host(p, src), .dst = *barrier_host(p, dst)};
	dlist_init(&b->pairs[idx].lagging);
	idx_hash_put(&b->pair_by_hosts, barrier_hash(p, &b->pairs[idx].src, &b->pairs[idx].dst), idx);
	return &b->pairs[idx];
}

static bool flow_lags(const struct near_flow *f)
{
	return f->used && !f->failed && f->pos_acked > f->pos_reported;
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
	if (--bp->nlagging == 0) {
		bp->used = false;
		idx_hash_del(&p->barrier.pair_by_hosts, barrier_hash(p, &bp->src, &bp->dst),
		             (uint32_t)(bp - p->barrier.pairs));
	}
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
	uint32_t lagging = 0, listed = 0, waiting = 0;

	for (const struct dnode *d = p->barrier.starts.next; d != &p->barrier.starts; d = d->next)
		if (!dlist_entry(d, struct far_flow, start_node)->used)
			return -135;
	if (!dlist_empty(&p->barrier.starts) && !timer_armed(&p->barrier.starts_limit))
		return -136;

	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		if (flow_lags(&p->near[i]) != dnode_on(&p->near[i].lag_node))
			return -131;
		lagging += flow_lags(&p->near[i]);
		if (!p->barrier.pairs[i].used)
			continue;
		if (p->barrier.pairs[i].nlagging != list_length(&p->barrier.pairs[i].lagging))
			return -132;
		listed += p->barrier.pairs[i].nlagging;
	}
	for (uint32_t i = 0; i < BARRIER_QUEUES; i++)
		if (p->barrier.queues[i].used)
			waiting += list_length(&p->barrier.queues[i].waiting);
	if (lagging != listed)
		return -133;
	return waiting == p->barrier.waiting ? barrier_far_audit(p) : -134;
}
