/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A path lives as long as the peer answers on it what is sent on it: a REPORT comes by the path that it speaks of, so a
 * REPORT that tells of an arrival proves both directions.
 *
 *   new    at the beginning of a session. Used like a live path as long as no path is known to live. The patience with
 *          a new path follows the longest live path's round trip if the path's own, which is only a hint, is longer.
 *   up     a datagram was answered.
 *   dead   a datagram was sent, and no answer came for wan_path_patience_ns() after it: a round trip and a floor if
 *          DEAD_BUSY datagrams or more are waiting (no loss takes all of those), else two round trips and the floor,
 *          which leaves time for a probe of the lane (check_pto()) to be answered. A cut is noticed by its first
 *          victim, the datagram after the last one that was answered, which is sent within a round trip after it: so a
 *          death is found within three round trips and the floor.
 *
 * A wrong verdict shows itself: the answer to a datagram sent before the death comes after all. Such a path is used
 * again at once, and its floor doubles, up to HASTY_MAX times; the floor halves with each death after STEADY_NS of
 * life.
 *
 * When a path dies, everything that is under way on it goes again on the other paths at once; doubles are harmless.
 * From then on the path is probed, first every PROBE_MIN_NS, at last every PROBE_MAX_NS, and is used again when TRIALS
 * probes in a row were answered; more probes if the path has died repeatedly. Each PROBES_MOVE probes without an answer
 * take another source port: of a bundle (LAG, ECMP) only the member below the first one may be dead.
 *
 * If all paths are dead, so is the link: the path that died last stays in use, as if it were the only one, and its
 * packets stay on it. A link with one path needs none of this. */
#include "wan.h"
#include "wan_fec.h"
#include "wan_lane_priv.h"
#include "wan_path_sched.h"

#include "proxy/util/probe.h"

#define PTO_CAP_NS    100000000ull
#define PTO_DOUBLINGS 8
#define DEAD_FLOOR_NS 10000000ull /* a peer's report delay, a held-up worker at the other end */
#define LATE_NS       1000000ull  /* a timer this late: this worker itself was held up. Forgiven once in a silence: a
                                   * worker that is always late would else find no death */
#define DEAD_BUSY     32
#define HASTY_MAX     4u
#define PROBE_MIN_NS  10000000ull
#define PROBE_MAX_NS  50000000ull /* twenty datagrams of 36 bytes a second */
#define TRIALS        2u
#define TRIALS_MAX    32u
#define STEADY_NS     10000000000ull /* up for so long: earlier deaths are forgotten */
#define PROBES_KEPT   128
#define PROBES_MOVE   8u
#define RATE_WINDOW_MIN_NS 10000000ull
#define LOSSES_KEPT 256  /* at so many losses found_lost and found_spurious are halved */
#define LOSS_OVER   512u /* datagrams that loss_ppm is of */
#define LOSS_STEP_PPM (1000000u / LOSS_OVER)
#define ACTIVE_NS     10000000ull /* a shard that has sent packets so lately wants its part of the line */

void wan_path_init(struct wan_path *path, uint8_t id, const struct wan_path_config *c, uint64_t rtt_hint_ns)
{
	path->id = id;
	path->pacer = c->pacer;
	wan_pmtu_init(&path->pmtu, c->payload_max, c->payload_search);
	path->payload_max = wan_pmtu_in_force(&path->pmtu);
	path->weight = c->weight;
	wan_rtt_init(&path->rtt, rtt_hint_ns);
	timer_init(&path->look, TK_PATH, id);
}

/* --- packet number spaces --- */

void pn_space_init(struct pn_space *s, uint8_t path, struct sent_pool *pool, uint32_t *page_ring, uint32_t ring_len,
                   uint64_t *rx_bits)
{
	s->path = path;
	wan_sent_init(&s->sent, pool, page_ring, ring_len);
	wan_recv_init(&s->recv, rx_bits);
	s->reorder_ns = REORDER_MIN_NS;
}

void pn_space_reset(struct pn_space *s, uint64_t now_ns)
{
	wan_sent_reset(&s->sent);
	wan_recv_reset(&s->recv);
	s->ecn_heard = (struct wan_ecn_counts){0};
	s->acked_end = s->moved_end = 0;
	s->reorder_ns = REORDER_MIN_NS;
	s->found_lost = s->found_spurious = 0;
	s->pto_count = 0;
	s->asked_ns = 0;
	s->last_progress_ns = now_ns;
	s->probe_due = s->report_due = s->moving = false;
	s->told_late_ns = 0;
	s->moves_in_vain = 0;
	s->rest.words = s->refused_rest.words = 0;
	s->ect_acked = 0;
	s->ping_due = true;
	s->unmarked = s->unasked = 0;
}

uint64_t pn_space_pto_ns(const struct pn_space *s, const struct wan_path *path)
{
	uint64_t once = wan_rtt_pto_ns(&path->rtt);

	if (path->answered_ns > s->last_progress_ns)
		return once; /* other lanes were answered since: it was a loss, and no reason to hold back */
	return min_u64(once << (s->pto_count < PTO_DOUBLINGS ? s->pto_count : PTO_DOUBLINGS),
	               max_u64(PTO_CAP_NS, 2 * once));
}

void pn_space_found_lost(struct pn_space *s)
{
	if (++s->found_lost < LOSSES_KEPT)
		return;
	s->found_lost /= 2;
	s->found_spurious /= 2;
}

bool pn_space_mostly_spurious(const struct pn_space *s)
{
	return s->found_spurious > s->found_lost / 2;
}

void pn_space_adapt_reorder(struct pn_space *s, const struct wan_path *path, const struct wan_sent_result *res)
{
	uint64_t quarter = wan_rtt_min_ns(&path->rtt) / 4, rtt = max_u64(wan_rtt_ns(&path->rtt), REORDER_MIN_NS);
	uint64_t most = max_u64(pn_space_mostly_spurious(s) ? rtt : quarter, REORDER_MIN_NS), want;

	if (res->spurious) {
		want = max_u64(res->spurious_ns + res->spurious_ns / 4, 2 * s->reorder_ns);
		s->reorder_ns = max_u64(s->reorder_ns, min_u64(want, most));
	} else {
		s->reorder_ns -= s->reorder_ns / (s->reorder_ns > most ? 64 : 1024);
	}
	s->reorder_ns = clamp_u64(s->reorder_ns, REORDER_MIN_NS, rtt);
}

/* --- which may be used --- */

/* Paths in a state; if any of them has a weight, only the paths with weight. */
static uint32_t in_state(const struct proxy *p, enum path_state state)
{
	uint32_t all = 0, weighty = 0;

	for (uint32_t i = 0; i < p->wan->npaths; i++) {
		if (p->wan->path[i].state != state)
			continue;
		all |= 1u << i;
		if (p->wan->path[i].weight)
			weighty |= 1u << i;
	}
	return weighty ? weighty : all;
}

/* Repairs go by paths in use only: gives up the blocks of paths that are in use no more. */
static void abandon_blocks(struct proxy *p, uint32_t paths)
{
	for (; paths; paths &= paths - 1)
		for (uint32_t i = 0; i < p->cfg.nlanes; i++)
			if (proxy_owns_lane(p, i))
				wan_fec_abandon(p, &p->wan->lanes[i],
				                &p->wan->lanes[i].space[__builtin_ctz(paths)]);
}

static void work_out_usable(struct proxy *p)
{
	uint32_t up = in_state(p, PATH_UP), fresh = in_state(p, PATH_NEW), before = p->wan->paths_usable;

	p->wan->paths_usable = up ? up : fresh ? fresh : 1u << p->wan->path_last;
	abandon_blocks(p, before & ~p->wan->paths_usable);
	wan_path_sched_sort(p);
}

uint32_t wan_paths_usable(const struct proxy *p)
{
	return p->wan->paths_usable;
}

uint64_t wan_line_bps(const struct proxy *p)
{
	uint32_t usable = wan_paths_usable(p);
	uint64_t bps = 0;

	for (uint32_t i = 0; i < p->wan->npaths; i++)
		if (usable & 1u << i)
			bps += atomic_load_explicit(&p->wan->path[i].pacer->rate_bps, memory_order_relaxed);
	return min_u64(bps, p->cfg.rate_hint_bps);
}

/* Flows of all sources that want sending time. A lane with packets of no flow (IP, raw) counts as one. */
static uint32_t flows_wanting(const struct proxy *p)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < WAN_SOURCES_MAX; i++)
		if (p->wan->transport.source[i] && p->wan->transport.source[i]->wanting)
			n += p->wan->transport.source[i]->wanting(p);
	for (const struct dnode *d = p->wan->lane_list.next; d != &p->wan->lane_list; d = d->next) {
		const struct lane *l = dlist_entry(d, struct lane, node);

		for (unsigned i = 0; i < WAN_SOURCES_MAX; i++)
			if (p->wan->transport.source[i] && !p->wan->transport.source[i]->wanting)
				n += l->nwaiting[i];
		n += !wan_lane_waiting(l) && wan_lane_has_packets(l);
	}
	return n;
}

void wan_paths_tell_flows(struct proxy *p)
{
	bool active = p->wan->pacer_blocked || p->now_ns < p->wan->packets_sent_ns + ACTIVE_NS;
	uint32_t flows, usable = wan_paths_usable(p);

	if (p->cfg.nshards == 1 || !pacer_part_is_old(&p->wan->path[0].part, p->now_ns))
		return;
	flows = flows_wanting(p);
	for (uint32_t i = 0; i < p->wan->npaths; i++)
		pacer_part_tell(&p->wan->path[i].part, p->wan->path[i].pacer, p->cfg.shard, p->cfg.nshards, flows,
		                active && usable & 1u << i, p->now_ns);
}

/* The shard's part of the first path in use: nobody tells flows on others. */
static const struct pacer_part *line_part(const struct proxy *p)
{
	uint32_t usable = wan_paths_usable(p);

	return &p->wan->path[usable ? __builtin_ctz(usable) : 0].part;
}

uint64_t wan_line_part_bps(const struct proxy *p)
{
	return pacer_part_bps(line_part(p), p->cfg.nshards, wan_line_bps(p));
}

uint32_t wan_line_flows(const struct proxy *p)
{
	return line_part(p)->all;
}

/* With several paths each path is judged by its own wan_path_patience_ns(). */
bool wan_paths_unheard(const struct proxy *p, uint64_t now_ns)
{
	const struct wan_path *one = &p->wan->path[0];

	if (p->wan->npaths == 1)
		return one->waiting_ns && now_ns >= one->waiting_ns + p->cfg.dead_peer_ns + wan_rtt_ns(&one->rtt);
	for (uint32_t i = 0; i < p->wan->npaths; i++)
		if (p->wan->path[i].state != PATH_DEAD)
			return false;
	return true;
}

/* --- life and death --- */

/* A path that has not answered yet is assumed to be no longer than the longest path that has. */
static uint64_t supposed_rtt_ns(const struct proxy *p, const struct wan_path *path)
{
	uint64_t longest = 0;

	for (uint32_t i = 0; path->state == PATH_NEW && i < p->wan->npaths; i++)
		if (p->wan->path[i].state == PATH_UP)
			longest = max_u64(longest, p->wan->path[i].rtt.smoothed_ns);
	return longest ? min_u64(longest, wan_rtt_ns(&path->rtt)) : wan_rtt_ns(&path->rtt);
}

uint64_t wan_path_patience_ns(const struct proxy *p, const struct wan_path *path)
{
	uint64_t rtt = supposed_rtt_ns(p, path);
	uint64_t floor = max_u64(DEAD_FLOOR_NS << path->wrong_deaths, 4 * path->rtt.var_ns);

	return (path->waiting >= DEAD_BUSY ? rtt : 2 * rtt) + floor;
}

static void set_state(struct proxy *p, struct wan_path *path, enum path_state state)
{
	PROBE3(path_state, path->id, path->state, state);
	path->state = state;
	path->since_ns = p->now_ns;
	work_out_usable(p);
}

void wan_paths_session_start(struct proxy *p)
{
	for (uint32_t i = 0; i < p->wan->npaths; i++) {
		struct wan_path *path = &p->wan->path[i];

		path->waiting_ns = path->waiting = path->answers = path->flaps = path->wrong_deaths = 0;
		path->unanswered = 0;
		path->probe_ns = PROBE_MIN_NS;
		path->asked_ns = p->now_ns;
		path->state = PATH_NEW;
		path->since_ns = p->now_ns;
		wan_pmtu_restart(&path->pmtu, p->now_ns);
		wan_ecn_restart(&path->ecn);
		path->payload_max = wan_pmtu_in_force(&path->pmtu);
		if (p->wan->npaths > 1)
			timer_set(&p->timers, &path->look, p->now_ns + p->cfg.keepalive_ns);
	}
	p->wan->path_last = 0;
	work_out_usable(p);
}

/* Everything under way on dead paths goes again, on a path that is in use. */
static void resend_from_dead_paths(struct proxy *p)
{
	for (uint32_t k = 0; k < p->wan->npaths; k++) {
		if (p->wan->path[k].state != PATH_DEAD || p->wan->paths_usable & 1u << k)
			continue;
		for (uint32_t i = 0; i < p->cfg.nlanes; i++)
			if (proxy_owns_lane(p, i))
				wan_move_all(p, &p->wan->lanes[i], &p->wan->lanes[i].space[k]);
	}
}

static void path_dies(struct proxy *p, struct wan_path *path)
{
	if (path->state == PATH_UP && p->now_ns >= path->since_ns + STEADY_NS) {
		path->flaps = 0;
		path->wrong_deaths /= 2;
	}
	path->flaps++;
	path->answers = path->unanswered = 0;
	path->probe_ns = PROBE_MIN_NS;
	path->stats.deaths++;
	p->wan->path_last = path->id;
	set_state(p, path, PATH_DEAD);
	proxy_event_push(p, EV_PATH_DEAD, NULL, NULL, path->id, p->now_ns - path->waiting_ns);
	resend_from_dead_paths(p);
}

/* Wakes the lanes with datagrams under way on the path. These lanes waited until the path died (wan_move_all() moves
 * them) or answered (probe timeouts run again). */
static void wake_lanes(struct proxy *p, const struct wan_path *path)
{
	for (uint32_t i = 0; i < p->cfg.nlanes; i++)
		if (proxy_owns_lane(p, i) && p->wan->lanes[i].space[path->id].sent.entries_in_flight &&
		    !FAULT(FAULT_PATH_UNWOKEN))
			wan_lane_wake_at(p, &p->wan->lanes[i], p->now_ns);
}

static void path_lives(struct proxy *p, struct wan_path *path)
{
	set_state(p, path, PATH_UP);
	wake_lanes(p, path);
	proxy_event_push(p, EV_PATH_UP, NULL, NULL, path->id, wan_rtt_ns(&path->rtt));
	resend_from_dead_paths(p); /* datagrams of dead paths that no usable path could take before */
}

void wan_path_was_slow(struct proxy *p, struct wan_path *path)
{
	p->counters.ctr[CTR_WAN_PATH_SLOW]++;
	path->wrong_deaths = path->wrong_deaths < HASTY_MAX ? path->wrong_deaths + 1 : HASTY_MAX;
	path->flaps -= path->flaps > 0;
	path_lives(p, path);
}

static uint32_t answers_needed(const struct wan_path *path)
{
	return path->flaps > 4 ? TRIALS_MAX : TRIALS << (path->flaps ? path->flaps - 1 : 0);
}

/* Sends a PING on the path, by the shard's first lane. */
static void ping_path(struct proxy *p, struct wan_path *path)
{
	struct lane *l = &p->wan->lanes[p->cfg.shard];

	l->space[path->id].ping_due = true;
	wan_lane_schedule(p, l);
}

static uint64_t look_dead(struct proxy *p, struct wan_path *path)
{
	struct lane *l = &p->wan->lanes[p->cfg.shard];

	if (p->now_ns < path->asked_ns + path->probe_ns)
		return path->asked_ns + path->probe_ns;
	if (path->waiting_ns && p->now_ns >= path->waiting_ns + wan_path_patience_ns(p, path)) {
		path->answers = 0;
		path->waiting_ns = 0;
	}
	if (l->space[path->id].sent.entries_in_flight >= PROBES_KEPT)
		wan_move_all(p, l, &l->space[path->id]); /* probes that are not answered any more */
	if (path->unanswered && path->unanswered % PROBES_MOVE == 0)
		l->space[path->id].moves++;
	path->unanswered++;
	ping_path(p, path);
	path->asked_ns = p->now_ns;
	if (path->answers == 0)
		path->probe_ns = min_u64(2 * path->probe_ns, PROBE_MAX_NS);
	return p->now_ns + path->probe_ns;
}

void wan_path_on_timer(struct proxy *p, struct wan_path *path)
{
	uint64_t next = path->asked_ns + p->cfg.keepalive_ns;

	if (!p->session_on || p->wan->npaths == 1)
		return;
	if (path->state != PATH_DEAD && path->waiting_ns) {
		uint64_t until = path->waiting_ns + wan_path_patience_ns(p, path);

		if (p->now_ns > until + LATE_NS && (!path->late_excused || FAULT(FAULT_PATH_SILENCE_EXCUSED))) {
			path->late_excused = true;
			path->waiting_ns += p->now_ns - until + LATE_NS; /* the worker was late, the path was not
			                                                  * silent */
			until = p->now_ns + LATE_NS;
		} else if (p->now_ns >= until) {
			path_dies(p, path);
		}
		next = min_u64(next, until);
	}
	if (path->state == PATH_DEAD) {
		next = look_dead(p, path);
	} else if (p->now_ns >= path->asked_ns + p->cfg.keepalive_ns) {
		ping_path(p, path);
		next = p->now_ns + p->cfg.keepalive_ns;
	}
	timer_set(&p->timers, &path->look, max_u64(next, p->now_ns + 1));
}

/* --- what happens on it --- */

uint64_t wan_path_sent(struct proxy *p, struct wan_path *path, size_t bytes, bool asks)
{
	path->stats.tx_dgrams++;
	path->stats.tx_bytes += bytes;
	if (asks) {
		path->asked_ns = p->now_ns;
		path->waiting++;
		if (!path->waiting_ns) {
			path->waiting_ns = p->now_ns;
			path->waiting = 1;
			path->late_excused = false;
			if (p->wan->npaths > 1)
				timer_set_earlier(&p->timers, &path->look, p->now_ns + wan_path_patience_ns(p, path));
		} else if (path->waiting == DEAD_BUSY && p->wan->npaths > 1) {
			timer_set_earlier(&p->timers, &path->look, path->waiting_ns + wan_path_patience_ns(p, path));
		}
	}
	return path->places++;
}

static void measure_rate(struct proxy *p, struct wan_path *path)
{
	uint64_t span = p->now_ns - path->rate_from_ns;

	if (span < max_u64(wan_rtt_ns(&path->rtt), RATE_WINDOW_MIN_NS))
		return;
	path->rate_bps = (path->stats.acked_bytes - path->rate_from_bytes) * 8000000 / (span / 1000);
	path->rate_from_ns = p->now_ns;
	path->rate_from_bytes = path->stats.acked_bytes;
}

void wan_path_answered(struct proxy *p, struct wan_path *path, const struct wan_sent_result *res)
{
	path->stats.acked_bytes += res->newly_acked_bytes;
	path->stats.spurious += res->spurious;
	for (uint64_t i = 0; i < res->spurious && path->loss_ppm; i++)
		path->loss_ppm -= path->loss_ppm < LOSS_STEP_PPM ? path->loss_ppm : LOSS_STEP_PPM;
	for (uint64_t i = 0; i < res->newly_acked && path->loss_ppm >= LOSS_OVER; i++)
		path->loss_ppm -= path->loss_ppm / LOSS_OVER;
	measure_rate(p, path);
	if (!res->newly_acked)
		return;
	path->waiting_ns = path->waiting = path->unanswered = 0;
	path->answered_ns = p->now_ns;
	if (path->state == PATH_UP)
		return;
	if (path->state == PATH_DEAD) {
		path->probe_ns = PROBE_MIN_NS;
		timer_set_earlier(&p->timers, &path->look, path->asked_ns + path->probe_ns);
		if (++path->answers < answers_needed(path))
			return;
		wan_rtt_again(&path->rtt);
		rate_again(&path->pacer->control, p->now_ns);
	}
	path_lives(p, path);
}

void wan_path_round_trip(struct proxy *p, struct wan_path *path, uint64_t rtt_ns, uint64_t peer_delay_ns)
{
	bool first = !path->rtt.smoothed_ns;

	wan_rtt_sample(&path->rtt, p->now_ns, rtt_ns, peer_delay_ns);
	for (uint32_t i = 0; first && i < p->wan->npaths; i++)
		if (p->wan->path[i].state == PATH_NEW) /* a new path may have exceeded its time by now */
			timer_set_earlier(&p->timers, &p->wan->path[i].look, p->now_ns + 1);
}

bool wan_path_probe_lane(const struct proxy *p, const struct lane *l)
{
	return l == &p->wan->lanes[p->cfg.shard];
}

static void size_changed(struct proxy *p, struct wan_path *path, bool probe_due)
{
	path->payload_max = wan_pmtu_in_force(&path->pmtu);
	if (probe_due)
		wan_lane_schedule(p, &p->wan->lanes[p->cfg.shard]);
}

void wan_path_size_came(struct proxy *p, struct wan_path *path, uint32_t bytes, bool probe)
{
	size_changed(p, path, wan_pmtu_came(&path->pmtu, bytes, probe, p->now_ns));
}

void wan_path_size_lost(struct proxy *p, struct wan_path *path, uint32_t bytes, bool probe)
{
	uint64_t holes = path->pmtu.holes;

	size_changed(p, path, wan_pmtu_lost(&path->pmtu, bytes, probe, wan_rtt_ns(&path->rtt), p->now_ns));
	if (path->pmtu.holes != holes)
		proxy_event_push(p, EV_PATH_NARROWER, NULL, NULL, path->id, bytes);
}

void wan_path_lost(struct wan_path *path, uint64_t place)
{
	path->stats.lost++;
	path->loss_ppm += (1000000 - path->loss_ppm) / LOSS_OVER;
	loss_runs_note(&path->runs, place);
}
