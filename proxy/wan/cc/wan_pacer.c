/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: one virtual clock per path says when the line is free again. A sender that takes a datagram's
 * worth of line time moves the clock on; a sender that finds the clock ahead of now waits. All shards of a link share
 * the clock through one atomic word, so that any shard can use the whole rate and all together cannot exceed it. Unused
 * time is saved, up to burst_ns.
 *
 * Time beyond burst_ns that went unused because a worker was woken late is not made up for at once, which a short queue
 * would not hold, but little by little, as far as the controller allows (rate_catch_up()) and never above the ceiling.
 * Otherwise, of two links that share a line, the link whose worker is late more often would get less: 5 ms late out of
 * each 50 cost it a tenth, and the other link takes that.
 *
 * Control does not wait for the clock, but moves it on like data, as long as control takes no more than half of the
 * line's time: on a second clock (control_next) each control datagram lasts twice as long, and a datagram that finds
 * the second clock CONTROL_AHEAD_NS ahead of now moves neither clock. The reason: a controller measures what data gets.
 * If control took all of a rate that was found too low, the clock would run away, data would wait for ever, and the
 * rate would never rise.
 *
 * This is an upper bound only: 32 lanes that each report as often as their round trip asks for would take half of a
 * line with a tenth of the other direction's rate, and all of a line with a hundredth. So control has a part of the
 * rate, and a third clock (reports_next) tells how far control is ahead of its part (wan_pacer_reports_ahead_ns()).
 * Reports are cumulative: a later report is little longer, and delay costs nothing but time. Probes do not wait for the
 * third clock, and they repeat while no report comes. So that clock is never more than REPORTS_AHEAD_NS ahead of now:
 * otherwise the probes of this edge would hold up the reports that the other edge's probes ask for.
 *
 * The clock counts in fractions of a nanosecond and rounds up: whole nanoseconds, rounded down, were 0.4 % too fast at
 * 400 Gbit/s, and the queue in front of such a line grew for as long as there was a backlog.
 *
 * The path's controller (rate.h) sets the rate and how much may be in flight. */
#include "wan_pacer.h"

#define ROOM_LOOK_NS      100000
#define CONTROL_AHEAD_NS  10000000ull /* reports that many lanes send together count in full */
#define REPORTS_PART      20          /* of the rate */
#define REPORTS_LEAST_BPS 250000ull
#define REPORTS_SLACK_NS  1000000ull   /* reports of many lanes come together */
#define REPORTS_AHEAD_NS  150000000ull /* less than hosts wait for an answer, and than a lane does before it moves */
#define CATCH_UP          3            /* 1/CATCH_UP of a datagram's time is made up for: half as fast again */

void wan_pacer_init(struct wan_pacer *p, uint64_t rate_bps, uint32_t overhead_bytes, uint32_t burst_ns)
{
	atomic_init(&p->next, 0);
	atomic_init(&p->rate_bps, rate_bps);
	atomic_init(&p->behind, 0);
	atomic_init(&p->control_next, 0);
	atomic_init(&p->reports_next, 0);
	atomic_init(&p->data_bytes, 0);
	atomic_init(&p->other_bytes, 0);
	p->overhead_bytes = overhead_bytes;
	atomic_init(&p->burst_ns, burst_ns);
	for (uint32_t i = 0; i < SHARDS_MAX; i++)
		atomic_init(&p->flows[i], 0);
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

	/* Another shard may take the report that makes room: look again. */
	return next_ns > now_ns || rate_has_room(&p->control) ? next_ns : now_ns + ROOM_LOOK_NS;
}

bool wan_pacer_ready(struct wan_pacer *p, uint64_t now_ns)
{
	return wan_pacer_next_ns(p) <= now_ns && rate_has_room(&p->control);
}

static uint64_t line_time(uint64_t bits, uint64_t rate_bps)
{
	return rate_bps ? (bits * 1000000000 * PACER_FRACTION + rate_bps - 1) / rate_bps
	                : bits * 1000000000 * PACER_FRACTION;
}

uint64_t wan_pacer_cost(const struct wan_pacer *p, size_t payload_len)
{
	return line_time((payload_len + p->overhead_bytes) * 8, atomic_load_explicit(&p->rate_bps, memory_order_relaxed));
}

/* Not atomic: if two shards do this at once, one of the two times is forgotten and a little less is made up for. */
static void note_unused(struct wan_pacer *p, uint64_t unused)
{
	uint64_t most = rate_catch_up_ns(&p->control) * PACER_FRACTION;
	uint64_t behind = atomic_load_explicit(&p->behind, memory_order_relaxed);

	if (!rate_is_late(&p->control)) {
		rate_time_unused(&p->control);
		return;
	}
	behind += unused;
	if (behind > most) { /* the time beyond `most` is lost */
		rate_time_unused(&p->control);
		behind = most;
	}
	atomic_store_explicit(&p->behind, behind, memory_order_relaxed);
}

/* The part of its cost by which a datagram is made cheaper to catch up. */
static uint64_t catch_up(struct wan_pacer *p, uint64_t bits, uint64_t cost)
{
	uint64_t behind = atomic_load_explicit(&p->behind, memory_order_relaxed), least, less;

	if (!behind)
		return 0;
	least = line_time(bits, rate_ceiling_bps(&p->control));
	less = cost > least ? cost - least : 0;
	less = less < cost / CATCH_UP ? less : cost / CATCH_UP;
	less = less < behind ? less : behind;
	atomic_store_explicit(&p->behind, behind - less, memory_order_relaxed);
	return less;
}

void wan_pacer_take(struct wan_pacer *p, uint64_t now_ns, size_t payload_len)
{
	uint64_t rate = atomic_load_explicit(&p->rate_bps, memory_order_relaxed);
	uint64_t bits = (payload_len + p->overhead_bytes) * 8;
	uint64_t cost = line_time(bits, rate);
	uint64_t saved_ns = atomic_load_explicit(&p->burst_ns, memory_order_relaxed);
	uint64_t floor = (now_ns > saved_ns ? now_ns - saved_ns : 0) * PACER_FRACTION;
	uint64_t old = atomic_load_explicit(&p->next, memory_order_relaxed), from;

	if (old < floor)
		note_unused(p, floor - old);
	rate_time_taken(&p->control);
	cost -= catch_up(p, bits, cost);
	do {
		from = old > floor ? old : floor;
	} while (!atomic_compare_exchange_weak_explicit(&p->next, &old, from + cost, memory_order_relaxed,
	                                                memory_order_relaxed));
}

void wan_pacer_take_past(struct wan_pacer *p, uint64_t now_ns, size_t payload_len)
{
	uint64_t cost = wan_pacer_cost(p, payload_len), now = now_ns * PACER_FRACTION;
	uint64_t next = atomic_load_explicit(&p->control_next, memory_order_relaxed);

	if (next > now + CONTROL_AHEAD_NS * PACER_FRACTION)
		return;
	/* if two shards do this at once, the store of one may be lost */
	atomic_store_explicit(&p->control_next, (next > now ? next : now) + 2 * cost, memory_order_relaxed);
	wan_pacer_take(p, now_ns, payload_len);
}

static uint64_t reports_bps(const struct wan_pacer *p)
{
	uint64_t rate = atomic_load_explicit(&p->rate_bps, memory_order_relaxed), least = rate / 4;

	if (!rate_is_waited_for(&p->control))
		return rate / 2 + 1;
	if (least > REPORTS_LEAST_BPS)
		least = REPORTS_LEAST_BPS;
	return (rate / REPORTS_PART > least ? rate / REPORTS_PART : least) + 1;
}

void wan_pacer_reported(struct wan_pacer *p, uint64_t now_ns, size_t payload_len)
{
	uint64_t cost = (payload_len + p->overhead_bytes) * 8000000000ull / reports_bps(p);
	uint64_t next = atomic_load_explicit(&p->reports_next, memory_order_relaxed), most = now_ns + REPORTS_AHEAD_NS;

	next = (next > now_ns ? next : now_ns) + cost;
	/* if two shards do this at once, the store of one may be lost */
	atomic_store_explicit(&p->reports_next, next < most ? next : most, memory_order_relaxed);
}

uint64_t wan_pacer_reports_ahead_ns(struct wan_pacer *p, uint64_t now_ns)
{
	uint64_t next = atomic_load_explicit(&p->reports_next, memory_order_relaxed);

	return next > now_ns + REPORTS_SLACK_NS ? next - now_ns : 0;
}
