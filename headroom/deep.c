/* SPDX-License-Identifier: Apache-2.0 */
/* deep.c - the deep buffer of an edge: the size that a line of that length and rate needs, and the share that one flow
 * may hold.
 *
 * Bytes stay in the buffer until the other side has them, so at full rate it holds a bandwidth-delay product at least;
 * a loss holds it for a round trip more, and the loss of a repair for another: HEADROOM_DEEP_BDPS of them. One flow may
 * hold `alpha` times what is free, as in a switch with dynamic thresholds: alone it gets alpha / (1 + alpha) of the
 * buffer, n of them alpha / (1 + n alpha) each. At that share a host is held off (XOFF). It returns after half a round
 * trip; if the fill is below the no-underrun XON, the line idles meanwhile. */
#include <errno.h>
#include <stdio.h>

#include "headroom/headroom.h"
#include "headroom/model.h"
#include "headroom/physics.h"

#define ARENA_FLOOR (64ull << 20)

uint64_t headroom_deep_arena_bytes(uint64_t rate_bps, uint64_t rtt_ns)
{
	struct headroom_deep_in in = {.rate_bps = rate_bps, .rtt_ns = rtt_ns, .alpha = 1, .flows = 1};
	char why[HEADROOM_ERROR_MAX];
	struct headroom_deep d;
	uint64_t want = headroom_deep(&in, &d, why) == 0 ? 2 * d.wanted_bytes : 0;

	return want < ARENA_FLOOR ? ARENA_FLOOR : want;
}

uint64_t headroom_qps_at_once(uint64_t capacity_bytes)
{
	return capacity_bytes / HEADROOM_QPS_PART / HEADROOM_SLOT_BYTES;
}

uint64_t headroom_qps_in_turns(uint64_t capacity_bytes, uint64_t rate_bps)
{
	uint64_t turns = physics_bytes(HEADROOM_TURN_NS, rate_bps) / HEADROOM_TURN_BYTES;
	uint64_t once = headroom_qps_at_once(capacity_bytes);

	return turns > once ? turns : once;
}

int headroom_deep(const struct headroom_deep_in *in, struct headroom_deep *d, char why[HEADROOM_ERROR_MAX])
{
	*d = (struct headroom_deep){0};
	if (in->rate_bps < HEADROOM_RATE_MIN_BPS || in->rate_bps > HEADROOM_RATE_MAX_BPS || in->rtt_ns == 0 ||
	    in->rtt_ns > HEADROOM_RTT_MAX_NS || in->alpha == 0 || in->flows == 0) {
		snprintf(
		    why, HEADROOM_ERROR_MAX,
		    "a deep buffer needs a rate from 1M to 10T, a round trip of at most 10s, and flows to share it");
		return -EINVAL;
	}
	d->bdp_bytes = physics_bytes(in->rtt_ns, in->rate_bps);
	d->wanted_bytes = HEADROOM_DEEP_BDPS * d->bdp_bytes;
	d->no_underrun_xon_bytes = d->bdp_bytes + d->bdp_bytes / 2;
	d->capacity_bytes = in->capacity_bytes != 0 ? in->capacity_bytes : d->wanted_bytes;
	d->xoff_bytes = mul_div_down(d->capacity_bytes, in->alpha, 1 + in->alpha);
	d->flow_share_bytes = mul_div_down(d->capacity_bytes, in->alpha, 1 + (uint64_t)in->alpha * in->flows);
	d->qps_at_once = headroom_qps_at_once(d->capacity_bytes);
	d->qps_in_turns = headroom_qps_in_turns(d->capacity_bytes, in->rate_bps);
	d->fills_the_line = d->xoff_bytes >= d->no_underrun_xon_bytes;
	d->stands_loss = d->capacity_bytes >= d->wanted_bytes;
	return 0;
}
