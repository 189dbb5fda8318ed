/* SPDX-License-Identifier: Apache-2.0 */
/* path_status.c - one path as its shard sees it. */
#include "proxy/wan/wan.h"

/* The only path of a link is not watched: its state is the link's. */
static enum path_state state_of(const struct proxy *p, const struct wan_path *path, uint64_t now_ns)
{
	if (!p->session_on)
		return PATH_NEW;
	if (p->wan->npaths > 1)
		return path->state;
	if (!p->wan_up)
		return path->rtt.samples ? PATH_DEAD : PATH_NEW;
	if (wan_paths_unheard(p, now_ns))
		return PATH_DEAD;
	return now_ns < p->last_rx_ns + p->cfg.dead_peer_ns ? PATH_UP : PATH_DEAD;
}

const struct wan_path_stats *proxy_path_stats(const struct proxy *p, uint32_t path)
{
	return &p->wan->path[path].stats;
}

bool proxy_path_status(const struct proxy *p, uint32_t i, uint64_t now_ns, struct proxy_path_status *s)
{
	const struct wan_path *path = &p->wan->path[i];
	const struct wan_path_stats *st = &path->stats;
	const struct rate_control *control;

	if (i >= p->wan->npaths)
		return false;
	control = &path->pacer->control;
	*s = (struct proxy_path_status){.state = state_of(p, path, now_ns),
	                                .since_ns = path->since_ns,
	                                .ecn = path->ecn.state,
	                                .usable = p->session_on && p->wan->paths_usable & 1u << i,
	                                .epoch_tx = p->session_on ? p->session.epoch_tx : 0,
	                                .payload_max = path->payload_max,
	                                .searching = path->pmtu.probe != 0,
	                                .black_holes = path->pmtu.holes,
	                                .rtt_min_ns = path->rtt.min_ns,
	                                .rtt_smoothed_ns = path->rtt.smoothed_ns,
	                                .rtt_p99_ns = wan_rtt_quantile_ns(&path->rtt, 990),
	                                .rtt_age_ns = path->rtt.at_ns ? now_ns - path->rtt.at_ns : 0,
	                                .loss_age_ns = path->answered_ns ? now_ns - path->answered_ns : 0,
	                                .loss_ppm = path->loss_ppm,
	                                .loss_runs = path->runs.runs,
	                                .loss_run_longest = path->runs.longest,
	                                .control = atomic_load(&control->ops)->name,
	                                .control_state = atomic_load(&control->state_name),
	                                .pace_bps = atomic_load(&path->pacer->rate_bps),
	                                .in_flight_max_bytes = atomic_load(&control->in_flight_max_bytes),
	                                .stats = *st};
	if (now_ns < path->rate_from_ns + 2 * max_u64(wan_rtt_ns(&path->rtt), 1000000000))
		s->delivery_bps = path->rate_bps;
	for (uint32_t lane = 0; lane < p->cfg.nlanes; lane++) {
		if (!proxy_owns_lane(p, lane))
			continue;
		s->in_flight_bytes += p->wan->lanes[lane].space[i].sent.bytes_in_flight;
		s->reorder_window_ns = max_u64(s->reorder_window_ns, p->wan->lanes[lane].space[i].reorder_ns);
	}
	return true;
}
