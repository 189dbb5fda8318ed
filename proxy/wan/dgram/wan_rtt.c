/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_rtt.h"

#include <string.h>

enum {
	RTT_WINDOW_NS = 1000000000, /* the minimum forgets measurements older than one to two windows: a protection
	                               switch to a longer fibre is believed within seconds */
	RTT_FLOOR_NS = 1000,
	REPORT_DELAY_MAX_NS = 2000000, /* a peer holds a report back for at most 1 ms; twice that for a busy machine */
	DELAY_COUNTS_NS = 100000000, /* two clocks 100 ppm apart: 10 us of error */
	PTO_MIN_NS = 1000000,
	RTT_SAMPLES = 16384, /* at so many samples all buckets are halved */
};

void wan_rtt_init(struct wan_rtt *r, uint64_t hint_ns)
{
	memset(r, 0, sizeof(*r));
	r->hint_ns = hint_ns > RTT_FLOOR_NS ? hint_ns : RTT_FLOOR_NS;
}

static void track_min(struct wan_rtt *r, uint64_t now_ns, uint64_t rtt_ns)
{
	if (now_ns >= r->window_end_ns) {
		r->min_ns = r->window_end_ns && r->window_min_ns < UINT64_MAX ? r->window_min_ns : rtt_ns;
		r->window_min_ns = UINT64_MAX;
		r->window_end_ns = now_ns + RTT_WINDOW_NS;
	}
	if (rtt_ns < r->window_min_ns)
		r->window_min_ns = rtt_ns;
	if (rtt_ns < r->min_ns)
		r->min_ns = rtt_ns;
}

/* Bucket 8 e + m counts round trips between (8 + m) and (9 + m) x 2^e x 125 ns. */
static uint32_t bucket_of(uint64_t rtt_ns)
{
	uint64_t units = rtt_ns / 125;
	uint32_t e;

	if (units < 8)
		return 0;
	e = 60 - (uint32_t)__builtin_clzll(units);
	e = 8 * e + (uint32_t)(units >> e) - 8;
	return e < RTT_BUCKETS ? e : RTT_BUCKETS - 1;
}

static void note_sample(struct wan_rtt *r, uint64_t rtt_ns)
{
	r->bucket[bucket_of(rtt_ns)]++;
	if (++r->samples < RTT_SAMPLES)
		return;
	r->samples = 0;
	for (uint32_t i = 0; i < RTT_BUCKETS; i++)
		r->samples += r->bucket[i] /= 2;
}

uint64_t wan_rtt_quantile_ns(const struct wan_rtt *r, uint32_t permille)
{
	uint64_t below = 0, want = ((uint64_t)r->samples * permille + 999) / 1000;

	for (uint32_t i = 0; i < RTT_BUCKETS && r->samples; i++) {
		below += r->bucket[i];
		if (below >= want)
			return (125ull * (9 + i % 8)) << i / 8;
	}
	return 0;
}

void wan_rtt_again(struct wan_rtt *r)
{
	wan_rtt_init(r, wan_rtt_ns(r));
}

void wan_rtt_sample(struct wan_rtt *r, uint64_t now_ns, uint64_t rtt_ns, uint64_t peer_delay_ns)
{
	uint64_t err;

	/* The peer's delay must not make the round trip shorter than the least seen: RFC 9002 5.3. */
	if (rtt_ns > peer_delay_ns && (!r->min_ns || rtt_ns - peer_delay_ns >= r->min_ns / 2))
		rtt_ns -= peer_delay_ns;
	if (rtt_ns < RTT_FLOOR_NS)
		rtt_ns = RTT_FLOOR_NS;
	r->latest_ns = rtt_ns;
	r->at_ns = now_ns;
	note_sample(r, rtt_ns);
	track_min(r, now_ns, rtt_ns);
	if (!r->smoothed_ns) {
		r->smoothed_ns = rtt_ns;
		r->var_ns = rtt_ns / 2;
		return;
	}
	err = r->smoothed_ns > rtt_ns ? r->smoothed_ns - rtt_ns : rtt_ns - r->smoothed_ns;
	r->var_ns = (3 * r->var_ns + err) / 4;
	r->smoothed_ns = (7 * r->smoothed_ns + rtt_ns) / 8;
}

bool wan_rtt_delay_counts(uint64_t peer_delay_ns)
{
	return peer_delay_ns <= DELAY_COUNTS_NS;
}

uint64_t wan_rtt_pto_ns(const struct wan_rtt *r)
{
	uint64_t pto = wan_rtt_ns(r) + 4 * r->var_ns + REPORT_DELAY_MAX_NS;

	return pto > PTO_MIN_NS ? pto : PTO_MIN_NS;
}
