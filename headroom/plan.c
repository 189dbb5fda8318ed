/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - what follows from a link: times, the priorities' buffers, the pool. */
#include <errno.h>
#include <string.h>

#include "headroom/headroom.h"
#include "headroom/model.h"
#include "headroom/physics.h"

#define PAUSE_QUANTA_MAX 65535u
#define SHP_PRIVATE_BYTES                                                                                              \
	(10u * 1024) /* sonic-swss buffer_pool_mellanox.lua: a port's own share comes off the pool                     \
	              */

static void add_event(struct headroom_plan *plan, const char *what, uint64_t bytes, uint64_t rate_bps)
{
	plan->events[plan->n_events++] = (struct headroom_event){
	    .what = what, .at_ns = physics_ns(bytes, rate_bps), .arrived_bytes = bytes};
}

static void time_line(const struct headroom_in *in, const struct physics_parts *p, struct headroom_plan *plan)
{
	uint64_t at = 0;

	add_event(plan, "the fill passes the threshold: XOFF is wanted", at, in->rate_bps);
	add_event(plan, "the receiver has finished the frame that it was sending", at += p->own_frame, in->rate_bps);
	add_event(plan, "the pause frame is on the wire", at += p->pause_frame, in->rate_bps);
	add_event(plan, "the pause frame is at the peer", at += p->devices + p->fibre, in->rate_bps);
	add_event(plan, "the peer begins no more frames", at += p->peer, in->rate_bps);
	add_event(plan, "the peer has finished its last frame", at += p->peer_frame, in->rate_bps);
	add_event(plan, "the frame's last byte has arrived: silence", at + p->fibre + p->devices, in->rate_bps);
}

static void times(const struct headroom_in *in, struct headroom_plan *plan)
{
	struct headroom_in wire = *in;
	struct headroom_result physics;
	char why[HEADROOM_ERROR_MAX];
	struct physics_parts p;

	if (wire.lossless_mtu == 0)
		wire.lossless_mtu = wire.port_mtu;
	physics_work_out(&wire, &p);
	plan->one_way_ns = physics_fibre_ns(in) + in->gearbox_ns + in->transponder_ns;
	plan->loop_ns = physics_ns(physics_loop(&p), in->rate_bps);
	plan->bdp_bytes = physics_bytes(2 * plan->one_way_ns, in->rate_bps);
	plan->deep_buffer_bytes = HEADROOM_DEEP_BDPS * plan->bdp_bytes;
	plan->qps_at_once = headroom_qps_at_once(plan->deep_buffer_bytes);
	plan->qps_in_turns = headroom_qps_in_turns(plan->deep_buffer_bytes, in->rate_bps);
	headroom_compute(HEADROOM_PHYSICS, in, &physics, why); /* it takes what another model took */
	plan->no_underrun_xon_bytes = physics.xon_fill_bytes;
	plan->pause_ns = PAUSE_QUANTA_MAX * (uint64_t)QUANTUM_BYTES * 8000000000ull / in->rate_bps;
	plan->refresh_ns = plan->pause_ns / 2;
	plan->pauses_in_flight = plan->refresh_ns == 0 ? 0 : (plan->loop_ns + plan->refresh_ns - 1) / plan->refresh_ns;
	time_line(&wire, &p, plan);
}

static int priorities(enum headroom_model model, const struct headroom_in *in, struct headroom_plan *plan, char *why)
{
	struct headroom_result r;
	int err;

	for (unsigned i = 0; i < in->n_priorities; i++) {
		struct headroom_in one = *in;

		if (in->priorities[i].lossless_mtu != 0)
			one.lossless_mtu = in->priorities[i].lossless_mtu;
		err = headroom_compute(model, &one, &r, why);
		if (err < 0)
			return err;
		plan->priorities[plan->n_priorities++] = (struct headroom_priority_plan){
		    in->priorities[i].number, one.lossless_mtu, r.headroom_bytes};
		plan->port_bytes += r.headroom_bytes;
	}
	return 0;
}

static void pool(enum headroom_model model, const struct headroom_in *in, struct headroom_plan *plan)
{
	uint64_t largest = 1, total = plan->port_bytes, own = model == HEADROOM_SONIC_MELLANOX ? SHP_PRIVATE_BYTES : 0;

	total = total > own ? total - own : 0;
	plan->pool_bytes = mul_div_up(total, in->ports, in->oversubscribe);
	for (unsigned i = 0; i < plan->n_priorities; i++)
		if (plan->priorities[i].headroom_bytes > largest)
			largest = plan->priorities[i].headroom_bytes;
	plan->pool_pauses = plan->pool_bytes / largest;
}

int headroom_plan_link(enum headroom_model model, const struct headroom_in *in, struct headroom_plan *plan,
                       char why[HEADROOM_ERROR_MAX])
{
	int err;

	*plan = (struct headroom_plan){0};
	err = priorities(model, in, plan, why);
	if (err < 0)
		return err;
	times(in, plan);
	pool(model, in, plan);
	return 0;
}
