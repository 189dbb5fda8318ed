/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * All shards of a link take sending time from one pacer. If the first that comes were served, shards that have much to
 * send would get equal parts of the line, whatever their number of flows: 100 flows that a hash spreads over 4 workers
 * got between 18 % and 200 % of an equal share.
 *
 * So each shard tells how many of its flows want sending time, and has a clock of its own, which each datagram moves on
 * by its cost multiplied by all flows and divided by the shard's flows. While its clock is ahead of now, the shard has
 * had its part. It may borrow then (as a class of Linux's HTB may), but only time that no other shard has taken for a
 * quarter of what the pacer saves up, or on a slow line for a datagram's time: shards that have not had their part come
 * first, and no time is lost.
 *
 * Flows that want time and can take none (their responders are stuck, the peer grants no credit) must not make all
 * other shards borrowers, among which the first that comes is served. So only a shard that sends, or waits for the
 * pacer, tells its flows.
 *
 * A clock is ahead by a datagram's part of the line and AHEAD_NS at most: what a shard has borrowed while others had
 * little to send, or while the line was slower, is not held against it. */
#include "pacer_part.h"

#define TOLD_NS   100000ull
#define AHEAD_NS  2000000ull
#define STALE_NS  10000000ull
#define YIELD_NS  100000ull
#define STAMP_LOG 20 /* stamps count in 2^20 ns */

/* The line time of the largest datagram. */
static uint64_t datagram_ns(const struct wan_pacer *p)
{
	return wan_pacer_cost(p, WAN_MTU_MAX) / PACER_FRACTION;
}

static uint64_t told(uint32_t flows, uint64_t now_ns)
{
	return now_ns >> STAMP_LOG << 32 | flows;
}

/* The flows that another shard has told; 0 if it has not told them for so long that it sleeps, or hangs. */
static uint32_t told_flows(const struct wan_pacer *p, uint32_t shard, uint64_t now_ns)
{
	uint64_t t = atomic_load_explicit(&p->flows[shard], memory_order_relaxed);
	uint64_t burst_ns = atomic_load_explicit(&p->burst_ns, memory_order_relaxed);
	uint64_t stale_ns = 2 * burst_ns > STALE_NS ? 2 * burst_ns : STALE_NS;
	int32_t age = (int32_t)((uint32_t)(now_ns >> STAMP_LOG) - (uint32_t)(t >> 32)); /* may be negative */

	return age > (int32_t)(stale_ns >> STAMP_LOG) ? 0 : (uint32_t)t;
}

bool pacer_part_is_old(const struct pacer_part *q, uint64_t now_ns)
{
	return now_ns >= q->told_ns + TOLD_NS || q->told_ns == 0;
}

/* What a cost of the line is on the shard's own clock. */
static uint64_t times_flows(const struct pacer_part *q, uint64_t cost)
{
	return (uint64_t)((double)cost * q->all / (q->own ? q->own : 1));
}

void pacer_part_tell(struct pacer_part *q, struct wan_pacer *p, uint32_t shard, uint32_t nshards, uint32_t flows,
                     bool active, uint64_t now_ns)
{
	uint64_t all = flows, most;

	atomic_store_explicit(&p->flows[shard], told(active ? flows : 0, now_ns), memory_order_relaxed);
	for (uint32_t i = 0; i < nshards; i++)
		all += i == shard ? 0 : told_flows(p, i, now_ns);
	q->own = flows;
	q->all = all < UINT32_MAX ? (uint32_t)all : UINT32_MAX;
	most = (now_ns + AHEAD_NS + times_flows(q, datagram_ns(p))) * PACER_FRACTION;
	if (q->next > most)
		q->next = most;
	q->told_ns = now_ns;
}

uint64_t pacer_part_bps(const struct pacer_part *q, uint32_t nshards, uint64_t bps)
{
	uint64_t own = q->own ? q->own : 1, all = q->own ? q->all : q->all + 1ull;

	if (q->told_ns == 0)
		return bps / nshards;
	return (uint64_t)((double)bps * (double)own / (double)all);
}

static bool has_had_its_part(const struct pacer_part *q, uint64_t now_ns)
{
	return q->own < q->all && q->next > now_ns * PACER_FRACTION;
}

/* The time for which a shard that has had its part leaves the pacer to others. */
static uint64_t yield_ns(const struct pacer_part *q, struct wan_pacer *p, uint64_t now_ns)
{
	uint64_t quarter_ns, most_ns;

	if (!has_had_its_part(q, now_ns))
		return 0;
	quarter_ns = atomic_load_explicit(&p->burst_ns, memory_order_relaxed) / 4;
	most_ns = datagram_ns(p) > YIELD_NS ? datagram_ns(p) : YIELD_NS;
	return quarter_ns < most_ns ? quarter_ns : most_ns;
}

bool pacer_part_ready(const struct pacer_part *q, struct wan_pacer *p, uint64_t now_ns)
{
	return wan_pacer_next_ns(p) + yield_ns(q, p, now_ns) <= now_ns && rate_has_room(&p->control);
}

uint64_t pacer_part_look_ns(const struct pacer_part *q, struct wan_pacer *p, uint64_t now_ns)
{
	uint64_t part_ns = q->next / PACER_FRACTION + 1, next_ns = wan_pacer_next_ns(p);
	uint64_t yielded_ns = next_ns + yield_ns(q, p, now_ns);

	if (yielded_ns > part_ns && part_ns > now_ns)
		return part_ns > next_ns ? part_ns : next_ns;
	return yielded_ns > now_ns ? yielded_ns : wan_pacer_look_ns(p, now_ns);
}

void pacer_part_take(struct pacer_part *q, struct wan_pacer *p, uint64_t now_ns, size_t payload_len)
{
	if (q->own < q->all) {
		uint64_t cost = wan_pacer_cost(p, payload_len),
		         burst_ns = atomic_load_explicit(&p->burst_ns, memory_order_relaxed);
		uint64_t least = (now_ns > burst_ns ? now_ns - burst_ns : 0) * PACER_FRACTION;
		uint64_t most = (now_ns + AHEAD_NS) * PACER_FRACTION;

		q->next = q->next < least ? least : q->next > most ? most : q->next;
		q->next += times_flows(q, cost);
	}
	wan_pacer_take(p, now_ns, payload_len);
}
