/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * The far edge is a sender on a shared LAN. When the responder's host says by CNP that a switch on the way has marked
 * packets of a queue pair, the flow's rate goes down as the requester's own NIC would take it down: the reaction point
 * of DCQCN (Zhu et al., SIGCOMM 2015, section 5).
 *
 *     CNP                    target = rate;  rate *= 1 - alpha / 2;  alpha = (1 - g) alpha + g
 *     each step without one  alpha *= 1 - g                                        (g = 1/256)
 *         the first 5        rate = (rate + target) / 2                            fast recovery
 *         then               target += line / 256;  rate = (rate + target) / 2     additive increase
 *     rate near the line     the flow is free again: nothing is reckoned for it any more
 *
 * A flow begins at the line's rate with alpha 1, so that the first CNP halves it. CNPs that come within CNP_GAP_NS of
 * one that counted say nothing new. Steps that have passed are made up for when the flow is looked at next; no timer
 * runs for them. What a rate means: between two packets as long passes as the first one takes at that rate. */
#include "far_priv.h"

#include "pair.h"

#define CNP_GAP_NS     50000ull
#define STEP_NS        300000ull /* of alpha and rate */
#define FAST_STEPS     5
#define ALPHA_ONE      (1u << 16)
#define G_SHIFT        8
#define INCREASE_SHIFT 8
#define FLOOR_SHIFT    10 /* of the line: no flow is stopped by CNPs */
#define STEPS_MAX      4096

static uint64_t line_bps(const struct proxy *p)
{
	return p->cfg.rate_hint_bps;
}

static void step(const struct proxy *p, struct far_rate *r)
{
	r->alpha -= r->alpha >> G_SHIFT;
	if (r->steps < FAST_STEPS)
		r->steps++;
	else
		r->target_bps = min_u64(r->target_bps + (line_bps(p) >> INCREASE_SHIFT), line_bps(p));
	r->rate_bps = (r->rate_bps + r->target_bps + 1) / 2;
}

/* The steps that have passed since it was looked at last. */
static void catch_up(const struct proxy *p, struct far_rate *r)
{
	uint64_t n = (p->now_ns - r->step_ns) / STEP_NS;

	if (!r->rate_bps)
		return;
	r->step_ns += n * STEP_NS;
	for (n = min_u64(n, STEPS_MAX); n && r->rate_bps; n--) {
		step(p, r);
		if (r->rate_bps >= line_bps(p) - (line_bps(p) >> INCREASE_SHIFT))
			*r = (struct far_rate){0};
	}
}

void far_rate_cnp(struct proxy *p, struct far_flow *f)
{
	struct far_rate *r = &f->rate;

	catch_up(p, r);
	if (r->rate_bps && p->now_ns < r->cnp_ns + CNP_GAP_NS)
		return;
	if (!r->rate_bps)
		*r = (struct far_rate){.rate_bps = line_bps(p), .alpha = ALPHA_ONE};
	r->target_bps = r->rate_bps;
	r->rate_bps -= r->rate_bps / 2 * r->alpha / ALPHA_ONE;
	r->rate_bps = max_u64(r->rate_bps, max_u64(line_bps(p) >> FLOOR_SHIFT, 1));
	r->alpha += (ALPHA_ONE - r->alpha) >> G_SHIFT;
	r->steps = 0;
	r->cnp_ns = r->step_ns = p->now_ns;
}

bool far_rate_waits(struct proxy *p, struct far_flow *f)
{
	catch_up(p, &f->rate);
	if (!f->rate.rate_bps || p->now_ns >= f->rate.next_ns)
		return false;
	timer_set(&p->timers, &f->pace, f->rate.next_ns);
	return true;
}

void far_rate_sent(const struct proxy *p, struct far_flow *f, size_t len)
{
	if (f->rate.rate_bps)
		f->rate.next_ns = p->now_ns + len * 8000000000ull / f->rate.rate_bps;
}

enum proxy_drop far_rx_cnp(struct proxy *p, const struct roce_pkt *pkt, bool *cross)
{
	struct far_flow *f = pair_find(p, &pkt->dst, &pkt->src, pkt->dest_qpn);

	*cross = !f || f->mode == ACK_MODE_HOST;
	if (!f)
		return DROP_NONE;
	count(p, CTR_CNPS_RX, 1);
	far_rate_cnp(p, f);
	return DROP_NONE;
}
