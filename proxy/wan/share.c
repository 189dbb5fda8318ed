/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * share.c bounds the part of a pool that a flow may hold. Both roles ask it: the near edge before it takes a packet of
 * a host (ACKed packets must be kept), the far edge before it grants credit (granted packets will come). A quarter of
 * the pool is for any flow, as bursts and cuts of the WAN need it, five eighths only for flows that drain, and the last
 * eighth for minimums (slot.c):
 *
 *     limit = the largest of
 *         depth x the bytes that the flow drained in a round trip, but not the last eighth of what is left for it
 *         half of what is left of the quarter
 *         TRUST bandwidth-delay products, but not the last quarter of what is left for it: while it is young
 *         CREDIT_MIN_BYTES
 *
 * A flow is young for YOUNG round trips after it was empty: its drain is not known yet. enum share_depth says how many
 * round trips of its drain a flow may hold: with losses, packets wait for repairs of earlier ones, together with a
 * round trip and more of all that came behind.
 *
 * So flows whose responders have died hold, all together, no more than a quarter of the pool and some round trips at
 * their last rates. The far edge can take even that back (far_evict.c).
 *
 * "Drained in a round trip" is the larger of the last complete span and the running one: losses make the in-order end
 * of a flow move in jumps. A span is a round trip plus SPAN_MORE_NS for the delays of hosts and reports. */
#include "share.h"

#include "wan_path.h"

#define KEPT_8THS    5
#define TRUST        3
#define YOUNG        3
#define SPAN_MORE_NS 2000000ull

static uint64_t span_ns(const struct proxy *p)
{
	uint64_t rtt = proxy_rtt_ns(p);

	return rtt + rtt / 4 + SPAN_MORE_NS;
}

void share_begin(const struct proxy *p, struct share *s)
{
	s->since_ns = p->now_ns;
}

static void roll(const struct proxy *p, struct share *s)
{
	uint64_t span = span_ns(p), age = p->now_ns - s->span_ns;

	if (age < span)
		return;
	s->last_bytes = age < 2 * span ? s->bytes : 0;
	s->last_positions = age < 2 * span ? s->positions : 0;
	s->bytes = s->positions = 0;
	s->span_ns = p->now_ns;
}

void share_drained(const struct proxy *p, struct share *s, uint64_t bytes, uint64_t positions)
{
	roll(p, s);
	s->bytes += bytes;
	s->positions += positions;
}

/* Drained bytes (or positions) of a span, from the sums of the last span and the running one. */
static uint64_t recent(const struct proxy *p, const struct share *s, uint64_t now, uint64_t last)
{
	uint64_t span = span_ns(p), age = p->now_ns - s->span_ns;

	if (age >= 2 * span)
		return 0;
	return age >= span ? now : max_u64(now, last);
}

static bool young(const struct proxy *p, const struct share *s, uint64_t held)
{
	return held == 0 || p->now_ns < s->since_ns + YOUNG * span_ns(p);
}

/* Packets of the LAN pool wait for the rate that the line carries now; packets of the WAN pool may come at the
 * configured rate. */
static uint64_t line_bytes(const struct proxy *p, enum arena_pool pool)
{
	uint64_t found = pool == POOL_LAN ? wan_line_bps(p) : 0, bps = found ? found : p->cfg.rate_hint_bps;

	return (uint64_t)((double)bps / 8e9 * (double)proxy_rtt_ns(p));
}

/* Half of what is left in the part of the pool for any flow, so that the next flow finds as much. */
uint64_t share_open_part(const struct proxy *p, enum arena_pool pool, uint64_t held)
{
	uint64_t kept = arena_capacity(p->arena, pool) / 8 * KEPT_8THS, left = share_left(p, pool);

	return (held + (left > kept ? left - kept : 0)) / 2;
}

uint64_t share_limit(const struct proxy *p, const struct share *s, enum arena_pool pool, uint64_t held,
                     enum share_depth depth)
{
	uint64_t room = held + share_left(p, pool);
	uint64_t limit = depth * recent(p, s, s->bytes, s->last_bytes);

	if (FAULT(FAULT_NO_CREDIT))
		return room;
	limit = max_u64(min_u64(limit, room / 8 * 7), share_open_part(p, pool, held));
	if (young(p, s, held))
		limit = max_u64(limit, min_u64(TRUST * line_bytes(p, pool), room / 4 * 3));
	return FAULT(FAULT_NO_MINIMUM) ? limit : max_u64(limit, CREDIT_MIN_BYTES);
}

uint64_t share_positions(const struct proxy *p, const struct share *s, enum arena_pool pool, uint64_t held)
{
	uint64_t room = held + share_left(p, pool);

	return min_u64(SHARE_REPAIRS * recent(p, s, s->positions, s->last_positions),
	               room / 8 * 7 / arena_class_bytes(1));
}

uint64_t share_rate(const struct proxy *p, const struct share *s)
{
	return (uint64_t)((double)recent(p, s, s->bytes, s->last_bytes) * 1e9 / (double)span_ns(p));
}

bool share_stuck(const struct proxy *p, const struct share *s, uint64_t held)
{
	return !young(p, s, held) && recent(p, s, s->bytes, s->last_bytes) == 0;
}
