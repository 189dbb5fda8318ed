/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Each path has a pacer that hands out the sending time of the path. The quickest path that has sending time now gets
 * the next datagram. Quickest means the least round trip, plus about three round trips for each loss, divided by the
 * path's weight. So a link that is not full uses its best path, and one that is full uses every path at its own rate.
 * Packets of one flow go by all paths; the far edge puts them into order by position. A packet number space belongs to
 * one path, so no datagram is called lost because its path is longer.
 *
 * Frames about a packet number space go by the space's own path, even if this path is not in use: so a dead path is
 * found to live again. Frames about flows go by the quickest path without asking its pacer.
 *
 * IP packets that are not RoCEv2 keep to one path per lane, because TCP takes reordering for loss: one of the paths
 * that are nearly as quick as the quickest. */
#include "wan_path_sched.h"

#include "wan_lane_priv.h"

static uint64_t path_cost(const struct wan_path *path)
{
	uint64_t rtt = wan_rtt_ns(&path->rtt);

	return (rtt + rtt / 1000 * 3 * path->loss_ppm / 1000) / (path->weight ? path->weight : 1);
}

/* The quickest path of a set that is not empty. */
static struct wan_path *quickest_path(struct proxy *p, uint32_t set)
{
	struct wan_path *best = NULL;

	for (uint32_t i = 0; i < p->wan->npaths; i++)
		if (set & 1u << i && (!best || path_cost(&p->wan->path[i]) < path_cost(best)))
			best = &p->wan->path[i];
	return best;
}

bool wan_path_sched_has_time(const struct wan_path *path, bool begins, uint64_t now_ns)
{
	return begins ? wan_pacer_ready(path->pacer, now_ns) : pacer_part_ready(&path->part, path->pacer, now_ns);
}

/* Paths of the set with sending time for the lane. */
static uint32_t with_time(const struct proxy *p, const struct lane *l, uint32_t set)
{
	uint32_t ready = 0;

	for (uint32_t i = 0; i < p->wan->npaths; i++)
		if (set & 1u << i && wan_path_sched_has_time(&p->wan->path[i], l->nfirst != 0, p->now_ns))
			ready |= 1u << i;
	return ready;
}

static bool size_probe_due(const struct proxy *p, const struct lane *l, uint32_t path)
{
	return wan_path_probe_lane(p, l) && wan_pmtu_due(&p->wan->path[path].pmtu);
}

/* True if packets of the lane wait for sending time. */
static bool lane_waits(const struct proxy *p, const struct lane *l, uint32_t set)
{
	bool due = false;

	for (uint32_t i = 0; i < p->wan->npaths; i++)
		due |= set & 1u << i && size_probe_due(p, l, i);
	return set && (due || wan_lane_has_data(l));
}

/* Paths of the set with frames due about the lane's own packet numbers. */
static uint32_t with_frames(const struct proxy *p, const struct lane *l)
{
	uint32_t set = 0;

	for (uint32_t i = 0; i < p->wan->npaths; i++) {
		const struct pn_space *s = &l->space[i];

		if (s->report_due || s->probe_due || s->ping_due || s->recv.refused_bits || size_probe_due(p, l, i))
			set |= 1u << i;
	}
	return set;
}

static size_t build_on_path(struct proxy *p, struct lane *l, uint32_t i, uint32_t usable, uint32_t ready, uint8_t *buf,
                            size_t cap, struct wan_path **by)
{
	enum wan_contents what = !(usable & 1u << i) ? WAN_OF_PATH : !(ready & 1u << i) ? WAN_CONTROL : WAN_ALL;

	*by = &p->wan->path[i];
	return wan_lane_build(p, l, *by, buf, cap, what);
}

size_t wan_path_sched_build(struct proxy *p, struct lane *l, uint8_t *buf, size_t cap, struct wan_path **by, bool *held)
{
	uint32_t usable = wan_paths_usable(p), ready = with_time(p, l, usable), own = with_frames(p, l), left;
	size_t len = 0;

	for (left = own; !len && left; left &= left - 1)
		len = build_on_path(p, l, (uint32_t)__builtin_ctz(left), usable, ready, buf, cap, by);
	for (left = ready & ~own; !len && left; left &= ~(1u << (*by)->id)) {
		*by = quickest_path(p, left);
		len = build_on_path(p, l, (*by)->id, usable, ready, buf, cap, by);
	}
	if (!len && !ready)
		len = build_on_path(p, l, quickest_path(p, usable)->id, usable, ready, buf, cap, by);
	*held = !len && lane_waits(p, l, usable & ~ready);
	return len;
}

/* True if the lane that is next has the first packet of a flow. */
static bool first_lane_begins(const struct proxy *p)
{
	const struct dnode *list = &p->wan->lane_list;

	return list->next != list && dlist_entry(list->next, struct lane, node)->before_others;
}

uint64_t wan_path_sched_next_ns(const struct proxy *p)
{
	bool begins = first_lane_begins(p);
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < p->wan->npaths; i++) {
		const struct wan_path *path = &p->wan->path[i];
		uint64_t at = begins ? wan_pacer_look_ns(path->pacer, p->now_ns)
		                     : pacer_part_look_ns(&path->part, path->pacer, p->now_ns);

		if (wan_paths_usable(p) & 1u << i && (at > p->now_ns || p->wan->npaths == 1))
			next = min_u64(next, at);
	}
	return next == UINT64_MAX ? p->now_ns : next;
}

size_t wan_path_sched_payload_max(const struct proxy *p)
{
	size_t most = 0;

	for (uint32_t i = 0; i < p->wan->npaths; i++)
		most = max_u64(most, p->cfg.path[i].payload_max);
	return most;
}

/* --- IP --- */

void wan_path_sched_sort(struct proxy *p)
{
	uint32_t usable = wan_paths_usable(p);
	uint64_t least = path_cost(quickest_path(p, usable));

	p->wan->paths_ip = 0;
	for (uint32_t i = 0; i < p->wan->npaths; i++)
		if (usable & 1u << i && path_cost(&p->wan->path[i]) <= least + least / 4)
			p->wan->paths_ip |= 1u << i;
}

bool wan_path_sched_keeps_order(const struct proxy *p, const struct lane *l, const struct wan_path *path)
{
	uint32_t set = p->wan->paths_ip, n = 0, before = 0; /* number of paths, and of paths with a lower id than this
	                                                     * one */

	if (!(set & 1u << path->id))
		return false;
	for (; set; set &= set - 1, n++)
		before += (set & -set) < 1u << path->id;
	return l->id % n == before;
}
