/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_rtt.h"

#include <string.h>

enum {
	RTT_WINDOW_NS = 1000000000, /* the minimum forgets what is older than one to two of these: a protection switch
	                               to a longer fibre is believed within seconds */
	RTT_FLOOR_NS = 1000,
	REPORT_DELAY_MAX_NS = 2000000, /* a peer holds a report back for at most 1 ms; twice that for a busy machine */
	PTO_MIN_NS = 1000000,
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

void wan_rtt_sample(struct wan_rtt *r, uint64_t now_ns, uint64_t rtt_ns, uint64_t peer_delay_ns)
{
	uint64_t err;

	/* A peer cannot make the path shorter than it was ever seen: RFC 9002 5.3. */
	if (rtt_ns > peer_delay_ns && (!r->min_ns || rtt_ns - peer_delay_ns >= r->min_ns / 2))
		rtt_ns -= peer_delay_ns;
	if (rtt_ns < RTT_FLOOR_NS)
		rtt_ns = RTT_FLOOR_NS;
	r->latest_ns = rtt_ns;
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

uint64_t wan_rtt_ns(const struct wan_rtt *r)
{
	return r->smoothed_ns ? r->smoothed_ns : r->hint_ns;
}

uint64_t wan_rtt_min_ns(const struct wan_rtt *r)
{
	return r->min_ns ? r->min_ns : r->hint_ns;
}

uint64_t wan_rtt_pto_ns(const struct wan_rtt *r)
{
	uint64_t pto = wan_rtt_ns(r) + 4 * r->var_ns + REPORT_DELAY_MAX_NS;

	return pto > PTO_MIN_NS ? pto : PTO_MIN_NS;
}
