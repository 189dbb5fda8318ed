/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: one virtual clock per path says when the line is free again. A sender that takes a datagram's
 * worth of line time moves the clock on; whoever finds the clock ahead of now waits. All shards of a link share the
 * clock through one atomic word, so that any one of them can use the whole rate and together they cannot pass it.
 * Time that nobody used is saved up to burst_ns, no more.
 *
 * It counts in fractions of a nanosecond and rounds up: whole ones, rounded down, were 0.4 % too fast at 400 Gbit/s,
 * and the queue in front of such a line grew for as long as there was a backlog.
 *
 * The path's controller (rate.h) sets the rate and how much may be in flight. */
#include "wan_pacer.h"

#define ROOM_LOOK_NS 100000

void wan_pacer_init(struct wan_pacer *p, uint64_t rate_bps, uint32_t overhead_bytes, uint32_t burst_ns)
{
	atomic_init(&p->next, 0);
	atomic_init(&p->rate_bps, rate_bps);
	atomic_init(&p->data_bytes, 0);
	atomic_init(&p->other_bytes, 0);
	p->overhead_bytes = overhead_bytes;
	atomic_init(&p->burst_ns, burst_ns);
	rate_init(&p->control, p, rate_bps);
}

void wan_pacer_set_burst(struct wan_pacer *p, uint32_t burst_ns)
{
	atomic_store_explicit(&p->burst_ns, burst_ns, memory_order_relaxed);
}

uint64_t wan_pacer_next_ns(struct wan_pacer *p)
{
	uint64_t next = atomic_load_explicit(&p->next, memory_order_relaxed);

	return next / PACER_FRACTION + (next % PACER_FRACTION != 0);
}

uint64_t wan_pacer_look_ns(struct wan_pacer *p, uint64_t now_ns)
{
	uint64_t next_ns = wan_pacer_next_ns(p);

	/* What makes room may be told to another shard. */
	return next_ns > now_ns || rate_has_room(&p->control) ? next_ns : now_ns + ROOM_LOOK_NS;
}

bool wan_pacer_ready(struct wan_pacer *p, uint64_t now_ns)
{
	return wan_pacer_next_ns(p) <= now_ns && rate_has_room(&p->control);
}

void wan_pacer_take(struct wan_pacer *p, uint64_t now_ns, size_t payload_len)
{
	uint64_t rate = atomic_load_explicit(&p->rate_bps, memory_order_relaxed);
	uint64_t bits = (payload_len + p->overhead_bytes) * 8;
	uint64_t cost = rate ? (bits * 1000000000 * PACER_FRACTION + rate - 1) / rate
	                     : bits * 1000000000 * PACER_FRACTION;
	uint64_t saved_ns = atomic_load_explicit(&p->burst_ns, memory_order_relaxed);
	uint64_t floor = (now_ns > saved_ns ? now_ns - saved_ns : 0) * PACER_FRACTION;
	uint64_t old = atomic_load_explicit(&p->next, memory_order_relaxed), from;

	if (old < floor)
		rate_time_unused(&p->control);
	rate_time_taken(&p->control);
	do {
		from = old > floor ? old : floor;
	} while (!atomic_compare_exchange_weak_explicit(&p->next, &old, from + cost, memory_order_relaxed,
	                                                memory_order_relaxed));
}
