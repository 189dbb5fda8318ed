// SPDX-License-Identifier: Apache-2.0
/* reaction.c - DCQCN (Zhu et al., SIGCOMM 2015), the reaction point: a CNP cuts the rate by alpha / 2, at most once in
 * 50 us; the rate recovers by half of what it lacks every 300 us (rpg_time_reset of ConnectX), and after five such steps
 * the target grows as well. Written from the paper, not from the core's. */
#include "reaction.h"

#define CUT_GAP_NS 50000
#define STEP_NS    300000
#define FAST_STEPS 5
#define GAIN       (1.0 / 256)
#define LEAST_PART 4096 /* of the NIC's rate */

static void recover(struct reaction *r, double nic_bps, uint64_t now_ns)
{
	for (; r->rate_bps > 0 && now_ns >= r->step_ns + STEP_NS; r->step_ns += STEP_NS) {
		r->alpha *= 1 - GAIN;
		if (r->steps++ >= FAST_STEPS)
			r->target_bps += nic_bps / 200;
		if (r->target_bps > nic_bps)
			r->target_bps = nic_bps;
		r->rate_bps = (r->rate_bps + r->target_bps) / 2;
		if (r->rate_bps > 0.995 * nic_bps)
			r->rate_bps = 0;
	}
}

void reaction_cnp(struct reaction *r, double nic_bps, uint64_t now_ns)
{
	recover(r, nic_bps, now_ns);
	if (r->cuts && now_ns < r->cut_ns + CUT_GAP_NS)
		return;
	if (r->rate_bps <= 0) {
		r->rate_bps = nic_bps;
		r->alpha = 1;
	}
	r->target_bps = r->rate_bps;
	r->rate_bps *= 1 - r->alpha / 2;
	r->alpha = (1 - GAIN) * r->alpha + GAIN;
	if (r->rate_bps < nic_bps / LEAST_PART)
		r->rate_bps = nic_bps / LEAST_PART;
	r->steps = 0;
	r->cut_ns = r->step_ns = now_ns;
	r->cuts++;
}

uint64_t reaction_next_ns(struct reaction *r, double nic_bps, uint64_t now_ns)
{
	recover(r, nic_bps, now_ns);
	return r->rate_bps > 0 && now_ns < r->next_ns ? r->next_ns : 0;
}

void reaction_sent(struct reaction *r, uint32_t bytes, uint64_t now_ns)
{
	if (r->rate_bps > 0)
		r->next_ns = now_ns + (uint64_t)(bytes * 8e9 / r->rate_bps);
}
