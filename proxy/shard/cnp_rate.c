/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * An edge is a sender on a shared LAN: of requests as far edge, of READ responses as near edge. When a CNP of a host
 * says that a switch on the way has marked packets of a queue pair, the edge slows down towards that queue pair as the
 * NIC at the other end would slow down: the reaction point of DCQCN (Zhu et al., SIGCOMM 2015, section 5).
 *
 *     CNP                    target = rate;  rate *= 1 - alpha / 2;  alpha = (1 - g) alpha + g
 *     each step without one  alpha *= 1 - g                                        (g = 1/256)
 *         the first 5        rate = (rate + target) / 2                            fast recovery
 *         then               target += line / 256;  rate = (rate + target) / 2     additive increase
 *     rate near the line the flow is free again: no rate is computed for it any more
 *
 * One of many flows to a host is not cut while it has no more under way than it may send in a turn: all flows together
 * fill the queue, and the window of their host is cut for that (lan_host.c).
 *
 * A flow begins at the line's rate with alpha 1, so that the first CNP halves it. CNPs within CNP_GAP_NS of one that
 * counted are ignored. Steps that are due are made when the flow is looked at next; no timer runs for them. The rate
 * sets the time between two packets: as long as the first one takes at that rate. */
#include "cnp_rate.h"

#define CNP_GAP_NS     50000ull
#define STEP_NS        300000ull /* of alpha and rate */
#define FAST_STEPS     5
#define ALPHA_ONE      (1u << 16)
#define G_SHIFT        8
#define INCREASE_SHIFT 8
#define FLOOR_SHIFT    10 /* of the line: no flow is stopped by CNPs */
#define STEPS_MAX      4096
#define SLACK_NS       10000ull /* waits that are shorter are made up for later: no worker sleeps for less */

static uint64_t line_bps(const struct proxy *p)
{
	return p->cfg.rate_hint_bps;
}

static void step(const struct proxy *p, struct cnp_rate *r)
{
	r->alpha -= r->alpha >> G_SHIFT;
	if (r->steps < FAST_STEPS)
		r->steps++;
	else
		r->target_bps = min_u64(r->target_bps + (line_bps(p) >> INCREASE_SHIFT), line_bps(p));
	r->rate_bps = (r->rate_bps + r->target_bps + 1) / 2;
}

/* Makes the steps that have passed since the last look at the rate. */
static void catch_up(const struct proxy *p, struct cnp_rate *r)
{
	uint64_t n = (p->now_ns - r->step_ns) / STEP_NS;

	if (!r->rate_bps)
		return;
	r->step_ns += n * STEP_NS;
	for (n = min_u64(n, STEPS_MAX); n && r->rate_bps; n--) {
		step(p, r);
		if (r->rate_bps >= line_bps(p) - (line_bps(p) >> INCREASE_SHIFT))
			*r = (struct cnp_rate){0};
	}
}

void cnp_rate_cut(const struct proxy *p, struct cnp_rate *r)
{
	catch_up(p, r);
	if (r->rate_bps && p->now_ns < r->cnp_ns + CNP_GAP_NS)
		return;
	if (!r->rate_bps)
		*r = (struct cnp_rate){.rate_bps = line_bps(p), .alpha = ALPHA_ONE};
	r->target_bps = r->rate_bps;
	r->rate_bps -= r->rate_bps / 2 * r->alpha / ALPHA_ONE;
	r->rate_bps = max_u64(r->rate_bps, max_u64(line_bps(p) >> FLOOR_SHIFT, 1));
	r->alpha += (ALPHA_ONE - r->alpha) >> G_SHIFT;
	r->steps = 0;
	r->cnp_ns = r->step_ns = p->now_ns;
}

uint64_t cnp_rate_slowed_until(const struct proxy *p, struct cnp_rate *r)
{
	catch_up(p, r);
	return r->rate_bps && p->now_ns + SLACK_NS < r->next_ns ? r->next_ns : 0;
}
