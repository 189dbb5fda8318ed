/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario.h"

#include <stdio.h>
#include <string.h>

#include "rng.h"
#include "scenario_failed.h"
#include "scenario_late.h"
#include "scenario_lives.h"
#include "scenario_paths.h"
#include "scenario_rare.h"
#include "scenario_reads.h"
#include "scenario_refusals.h"
#include "scenario_scarce.h"
#include "scenario_timed.h"
#include "scenario_work.h"

/* Ethernet header, FCS, preamble and gap of a LAN packet; UDP, IPv4 and the same of a datagram. */
#define LAN_OVERHEAD 38
#define WAN_OVERHEAD (28 + 38)

#define PACKETS_MAX 20000 /* of requests, in all connections together */
#define SEC         1000000000ull

static uint16_t pick_pmtu(struct rng *r)
{
	return (uint16_t)(256u << rng_below(r, 5));
}

/* --- wires --- */

static void pick_wan(struct scenario *s, struct rng *r, uint16_t pmtu)
{
	struct link_cfg *l = &s->cfg.wan;
	uint64_t bdp_pkts = rng_log_range(r, 200, 5000), rtt_ns;

	l->rate_bps = rng_log_range(r, 1000000000ull, 100000000000ull);
	rtt_ns = (uint64_t)((double)bdp_pkts * (pmtu + 100) * 8e9 / (double)l->rate_bps);
	l->delay_ns = rtt_ns / 2 < 20000 ? 20000 : rtt_ns / 2 > 20000000 ? 20000000 : rtt_ns / 2;
	l->overhead_bytes = s->cfg.direct ? LAN_OVERHEAD : WAN_OVERHEAD;
	if (rng_chance(r, 0.4))
		l->queue_bytes = rng_log_range(r, 30000, 2000000);
	s->cfg.pacer_bps = l->rate_bps;
}

static void pick_wan_troubles(struct scenario *s, struct rng *r)
{
	struct link_cfg *l = &s->cfg.wan;

	if (rng_chance(r, 0.4))
		l->loss = (double)rng_log_range(r, 100, 30000) / 1e6;
	if (rng_chance(r, 0.2)) {
		l->burst_enter = (double)rng_log_range(r, 50, 3000) / 1e6;
		l->burst_leave = (double)rng_range(r, 2, 30) / 100;
		l->burst_loss = (double)rng_range(r, 30, 100) / 100;
	}
	l->reorder_ns = rng_log_range(r, 1000, 500000);
	if (rng_chance(r, 0.3))
		l->reorder = (double)rng_log_range(r, 1000, 200000) / 1e6;
	if (rng_chance(r, 0.2))
		l->duplicate = (double)rng_log_range(r, 1000, 20000) / 1e6;
	if (rng_chance(r, 0.2))
		l->corrupt = (double)rng_log_range(r, 100, 10000) / 1e6;
}

static void pick_cuts(struct scenario *s, struct rng *r)
{
	struct link_cfg *l = &s->cfg.wan;
	uint64_t at_ns = rng_log_range(r, 100000, 50000000);

	for (l->ncuts = 0; l->ncuts < rng_range(r, 1, 2); l->ncuts++) {
		l->cut[l->ncuts].from_ns = at_ns;
		l->cut[l->ncuts].to_ns = at_ns + rng_log_range(r, 100000000ull, 10 * SEC);
		at_ns = l->cut[l->ncuts].to_ns + rng_log_range(r, 1000000, 500000000);
	}
}

static void pick_lan(struct scenario *s, struct rng *r)
{
	struct link_cfg *l = &s->cfg.lan;

	l->rate_bps = (uint64_t)((double)s->cfg.wan.rate_bps * (double)rng_range(r, 50, 400) / 100);
	l->delay_ns = rng_log_range(r, 500, 20000);
	l->overhead_bytes = LAN_OVERHEAD;
	l->reorder_ns = rng_range(r, 500, 20000);
	s->cfg.lan_clean = true;
	if (rng_chance(r, 0.1))
		l->loss = (double)rng_log_range(r, 50, 5000) / 1e6;
	if (rng_chance(r, 0.05))
		l->corrupt = (double)rng_log_range(r, 50, 2000) / 1e6;
	if (rng_chance(r, 0.15))
		l->reorder = (double)rng_log_range(r, 1000, 100000) / 1e6;
	if (rng_chance(r, 0.05))
		l->duplicate = (double)rng_log_range(r, 100, 5000) / 1e6;
	s->cfg.lan_clean = l->loss + l->corrupt + l->reorder + l->duplicate == 0;
}

/* --- hosts and edges --- */

static void pick_hosts(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = &s->cfg;
	uint64_t kind = rng_below(r, 3); /* all rxe, all cx, mixed */

	for (int site = 0; site < 2; site++) {
		c->nhosts[site] = (uint32_t)rng_range(r, 1, 3);
		for (uint32_t h = 0; h < c->nhosts[site]; h++) {
			bool cx = kind == 1 || (kind == 2 && rng_chance(r, 0.5));

			c->model[site][h] = cx ? &host_model_cx : &host_model_rxe;
			if (rng_chance(r, 0.3))
				c->skip_qpns[site][h] = (uint32_t)rng_below(r, 50);
		}
	}
}

static void pick_edges(struct scenario *s, struct rng *r)
{
	static const uint16_t mtu[] = {1500, 1500, 4000, 9000, 9000, 9000};
	struct world_cfg *c = &s->cfg;

	c->mode = rng_chance(r, 0.5) ? ACK_MODE_NEAR : rng_chance(r, 0.5) ? ACK_MODE_HOST : ACK_MODE_FAR;
	c->nlanes = 8;
	c->nshards[0] = (uint32_t)rng_range(r, 1, 3);
	c->nshards[1] = (uint32_t)rng_range(r, 1, 3);
	c->wan_payload_max = (uint16_t)(mtu[rng_below(r, 6)] - 28);
	c->wan_overhead = WAN_OVERHEAD;
	c->chunk_size = 64u << 10 << rng_below(r, 3);
	c->max_flows = 128;
	if (rng_chance(r, 0.3))
		c->lan_window_bytes = (uint32_t)rng_log_range(r, 16384, 1 << 20);
}

static void pick_crashes(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = &s->cfg;
	uint64_t at_ns = world_cfg_rtt_ns(c) + rng_log_range(r, 1000, 20000000);

	for (c->ncrashes = 0; c->ncrashes < rng_range(r, 1, 3); c->ncrashes++) {
		c->crash[c->ncrashes].at_ns = at_ns;
		c->crash[c->ncrashes].down_ns = rng_log_range(r, 10000, 100000000);
		c->crash[c->ncrashes].sites = (uint8_t)rng_range(r, 1, 3);
		c->crash[c->ncrashes].lost = rng_chance(r, c->mode == ACK_MODE_FAR ? 0.5 : 0.1);
		at_ns += c->crash[c->ncrashes].down_ns + 4 * c->wan.delay_ns + rng_log_range(r, 100000, 50000000);
	}
}

/* Many of the kills strike in the middle of a call, for which kill -9 does not wait, most of them between two stores. */
static void pick_kills(struct scenario *s)
{
	struct world_cfg *c = &s->cfg;
	struct rng r;

	rng_init(&r, rng_hash(c->seed, 0x4b11));
	for (uint32_t i = 0; i < c->ncrashes; i++) {
		uint32_t steps = (uint32_t)rng_log_range(&r, 1, 20000), stores = (uint32_t)rng_range(&r, 1, 40);
		bool within = rng_chance(&r, 0.6), at_store = rng_chance(&r, 0.7);
		uint64_t over_ns = c->crash[i].at_ns + c->crash[i].down_ns, wait_ns = SEC / 100;

		if (i + 1 < c->ncrashes && (c->crash[i + 1].at_ns - over_ns) / 2 < wait_ns)
			wait_ns = (c->crash[i + 1].at_ns - over_ns) / 2;
		c->crash[i].wait_ns = within ? wait_ns : 0;

		c->crash[i].steps = within && !at_store ? steps : 0;
		c->crash[i].stores = within && at_store ? stores : 0;
	}
}

/* Sessions that are replaced while both edges live, as keys change or the control connection is lost. */
static void pick_resessions(struct scenario *s)
{
	struct world_cfg *c = &s->cfg;
	uint64_t at_ns = 0;
	struct rng r;

	rng_init(&r, rng_hash(c->seed, 0x5e51));
	if (c->direct || !rng_chance(&r, 0.15))
		return;
	c->resession.n = (uint32_t)rng_range(&r, 1, 8);
	c->resession.apart_ns = rng_chance(&r, 0.3) ? 1 : 2 * c->wan.delay_ns;
	for (uint32_t i = 0; i < c->resession.n; i++) {
		at_ns += rng_log_range(&r, 1000, 20000000) + (i ? 0 : world_cfg_rtt_ns(c));
		c->resession.at_ns[i] = at_ns;
	}
}

static const char *kills(const struct world_cfg *c)
{
	for (uint32_t i = 0; i < c->ncrashes; i++)
		if ((c->crash[i].steps || c->crash[i].stores) && !c->crash[i].lost)
			return ", crashes within calls";
	return c->ncrashes ? ", crashes" : "";
}

/* --- work --- */

static void pick_ops(struct msg_plan *plan, struct rng *r)
{
	uint64_t kind = rng_below(r, 4);

	memset(plan->weight, 0, sizeof(plan->weight));
	if (kind == 0)
		plan->weight[OP_WRITE] = 1;
	else if (kind == 1)
		plan->weight[OP_SEND] = plan->weight[OP_SEND_IMM] = 1;
	else
		for (int i = 0; i < (kind == 2 ? OP_READ : OP_CMP_SWAP + 1); i++)
			plan->weight[i] = (uint8_t)rng_below(r, 4);
}

static void pick_plan(struct msg_plan *plan, struct rng *r, uint16_t pmtu, uint64_t packets)
{
	uint64_t mean;

	pick_ops(plan, r);
	plan->len_min = rng_chance(r, 0.5) ? 0 : 1;
	plan->len_max = (uint32_t)rng_log_range(r, 8, 300ull * pmtu);
	if (plan->len_max > 1 << 20)
		plan->len_max = 1 << 20;
	if (rng_chance(r, 0.2))
		plan->len_min = plan->len_max;
	/* log-uniform lengths: the mean is near len_max / ln(len_max) */
	mean = 1 + plan->len_max / (plan->len_min == plan->len_max ? 1 : 8) / pmtu;
	plan->nmsgs = 1 + packets / mean;
}

static uint32_t pick_psn(struct rng *r)
{
	uint64_t kind = rng_below(r, 3);

	if (kind == 0)
		return 0;
	return (uint32_t)(kind == 1 ? rng_u64(r) : 0x1000000 - rng_below(r, 3000)) & ROCE_PSN_MASK;
}

/* An edge is lost for good, and in mode far the other one has ACKed bytes that a slow responder still lacks. */
static bool loses_far_promise(const struct world_cfg *c)
{
	for (uint32_t i = 0; i < c->ncrashes; i++)
		if (c->mode == ACK_MODE_FAR && c->crash[i].lost && c->crash[i].sites != 3)
			return true;
	return false;
}

static void pick_conn(struct scenario *s, struct rng *r, struct conn_cfg *k, uint16_t pmtu, uint64_t packets)
{
	const struct world_cfg *c = &s->cfg;

	for (int side = 0; side < 2; side++) {
		k->host[side] = (uint8_t)rng_below(r, c->nhosts[side]);
		k->psn_start[side] = pick_psn(r);
		k->depth[side] = (uint32_t)rng_log_range(r, 1, 64);
	}
	k->pmtu = pmtu;
	k->ip6 = rng_chance(r, 0.25);
	k->cm = rng_chance(r, 0.4);
	k->vlan_tci = rng_chance(r, 0.2) ? (uint16_t)rng_range(r, 2, 4000) : 0;
	k->pkey = rng_chance(r, 0.8) ? 0xffff : 0x8001;
	k->tos = rng_chance(r, 0.5) ? 26 << 2 : 0;
	k->rnr_timer = (uint8_t)rng_range(r, 1, 14);
	k->rnr_retry = k->cm && rng_chance(r, 0.25) ? (uint8_t)rng_range(r, 1, 6) : 7;
	if (!c->direct && c->lan_clean && rng_chance(r, 0.15))
		k->confuse = 0.03;
	k->rounds = rng_chance(r, 0.3) ? (uint32_t)rng_range(r, 2, 4) : 1;
	k->reuse = !k->cm && c->lan_clean && c->ncrashes == 0 && rng_chance(r, 0.3);
	if (k->reuse)
		k->psn_start[0] = k->psn_start[1] = 0;
	if (c->host_dies_ns != SIM_NEVER && k->host[1] == 0 && rng_chance(r, 0.9))
		k->post_every_ns = rng_log_range(r, 10000000, 80000000);
	if (rng_chance(r, 0.15))
		k->receive_every_ns = rng_log_range(r, 10000, 3000000);
	if (loses_far_promise(c))
		k->receive_every_ns = rng_log_range(r, 1000000, 20000000);
	if (k->receive_every_ns)
		k->receives = (uint32_t)rng_range(r, 1, 16);
	k->max_rd = (uint32_t)rng_log_range(r, 1, 64);
	k->open_ns = rng_chance(r, 0.5) ? 0 : rng_log_range(r, 1000, 20000000);
	/* nothing of the old life may be under way on a LAN any more */
	k->pause_ns = 8 * (c->lan.delay_ns + c->lan.reorder_ns) + rng_log_range(r, 100000, 5000000);
	if (!c->lan_clean || c->ncrashes > 0)
		k->pause_ns += LOST_ACK_NS;
	packets /= k->rounds;
	pick_plan(&k->plan[0], r, pmtu, packets);
	if (rng_chance(r, 0.5))
		pick_plan(&k->plan[1], r, pmtu, packets / 2);
	if (rng_chance(r, 0.1)) { /* all the other way */
		k->plan[1] = k->plan[0];
		k->plan[0].nmsgs = 0;
	}
}

static void pick_conns(struct scenario *s, struct rng *r, uint16_t pmtu)
{
	struct world_cfg *c = &s->cfg;
	uint64_t packets = rng_log_range(r, 200, PACKETS_MAX * 3 / 4);

	c->nconns = (uint32_t)rng_log_range(r, 1, 12);
	c->conn = s->conn;
	for (uint32_t i = 0; i < c->nconns; i++)
		pick_conn(s, r, &s->conn[i], rng_chance(r, 0.8) ? pmtu : pick_pmtu(r), packets / c->nconns);
}

/* What one connection needs if its messages go one by one, each round trip lost once more, each receive waited for. */
static uint64_t patience(const struct world_cfg *c, const struct conn_cfg *k)
{
	uint64_t each_ns = 3 * world_cfg_rtt_ns(c) + k->receive_every_ns + k->post_every_ns + 2000000;
	uint64_t msgs = k->plan[0].nmsgs > k->plan[1].nmsgs ? k->plan[0].nmsgs : k->plan[1].nmsgs;

	return k->rounds * msgs * each_ns;
}

/* Generous: this finds what hangs, not what is slow. */
static uint64_t deadline(const struct world_cfg *c)
{
	uint64_t ns = (c->direct ? 3000 : 60) * SEC, most = 0, gaps = 0, gap;

	for (uint32_t i = 0; i < c->wan.ncuts; i++)
		ns += 4 * (c->wan.cut[i].to_ns - c->wan.cut[i].from_ns);
	for (uint32_t i = 0; i < c->nconns; i++)
		if (patience(c, &c->conn[i]) > most)
			most = patience(c, &c->conn[i]);
	for (uint32_t i = 0; i < c->nconns; i++) {
		gap = c->conn[i].gap_ns + 2 * c->conn[i].pause_ns; /* before a round closes, and before the next opens */
		if (c->conn[i].rounds * gap > gaps)
			gaps = c->conn[i].rounds * gap;
	}
	for (uint32_t i = 0; i < c->nconns; i++)
		if (c->conn[i].heir_of)
			ns += c->conn[i].open_ns + c->conn[i].within_ns;
	return ns + most + gaps;
}

static void describe(struct scenario *s, const char *program, const char *paths)
{
	const struct world_cfg *c = &s->cfg;

	snprintf(s->text, sizeof(s->text),
	         "%s, %.1f Gbit/s, %.3f ms one way, loss %.4f%s, %u:%u hosts, %u:%u shards, %u connections, PMTU "
	         "%u%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s",
	         c->direct                  ? "direct"
	         : c->mode == ACK_MODE_NEAR ? "near"
	         : c->mode == ACK_MODE_FAR  ? "far"
	                                    : "host",
	         (double)c->wan.rate_bps / 1e9, (double)c->wan.delay_ns / 1e6, c->wan.loss,
	         c->wan.burst_enter > 0 ? " + bursts" : "", c->nhosts[0], c->nhosts[1], c->nshards[0], c->nshards[1],
	         c->nconns, s->conn[0].pmtu, c->wan.ncuts ? ", cuts" : "", kills(c),
	         c->fec.mode == FEC_OFF     ? ""
	         : c->fec.mode == FEC_AUTO ? ", FEC auto"
	                                   : ", FEC",
	         c->attack_pps ? ", an attack" : "", c->lan_clean ? "" : ", LAN trouble",
	         c->host_dies_ns != SIM_NEVER ? ", a host dies" : "", c->recycle ? ", QPNs again" : "",
	         c->late_ports ? ", late ports" : "", c->tick_late_ns ? ", busy workers" : "",
	         c->batch_ns[0] || c->batch_ns[1] ? ", batches" : "",
	         c->resession.n ? ", sessions anew" : "",
	         c->arena_chunks ? ", little memory" : "", c->barrier == BARRIER_CAUSAL ? ", causal" : "",
	         c->barrier == BARRIER_OFF      ? ""
	         : c->groups == GROUPS_NONE   ? ", barrier"
	         : c->groups == GROUPS_HOST   ? ", barrier, hosts of two addresses"
	                                      : ", barrier, sites of one machine",
	         program, paths);
}

/* Programs that say over TCP what is complete. */
static void pick_barrier(struct scenario *s, struct rng *r)
{
	if (s->cfg.direct || rng_chance(r, 0.3))
		return;
	s->cfg.word_every = (uint32_t)rng_log_range(r, 1, 100);
	s->cfg.barrier = rng_chance(r, 0.6) ? BARRIER_PAIR : BARRIER_CAUSAL;
	s->cfg.groups = rng_chance(r, 0.5) ? GROUPS_NONE : rng_chance(r, 0.5) ? GROUPS_HOST : GROUPS_SITE;
}

/* A host more at each site, with no work but to do harm. */
static void add_attacker(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = &s->cfg;

	for (int site = 0; site < 2; site++)
		c->model[site][c->nhosts[site]++] = &host_model_rxe;
	c->attack_pps = rng_log_range(r, 1000, 200000);
	c->attack_pkts = 5000;
	c->attack_ns = rng_log_range(r, 1, 50000000);
}

/* From a generator of its own: the rest of a scenario does not move with it. */
static void pick_fec(struct scenario *s, uint64_t seed)
{
	struct fec_config *f = &s->cfg.fec;
	struct rng r;

	rng_init(&r, rng_hash(seed, 0xfec));
	if (s->cfg.direct || !rng_chance(&r, 0.5))
		return;
	f->mode = rng_chance(&r, 0.6) ? FEC_FIXED : FEC_AUTO;
	f->k = (uint8_t)rng_log_range(&r, 1, 64);
	f->m = (uint8_t)rng_range(&r, 1, f->k < 8 ? f->k : 8);
}

/* Switches that mark, and hosts that are ECN-capable: CNPs go both ways. Draws of its own, so that other seeds stay as
 * they are. */
static void pick_marks(struct scenario *s, uint64_t seed)
{
	struct link_cfg *l = &s->cfg.lan;
	struct rng r;

	rng_init(&r, rng_hash(seed, 0xec4));
	if (!rng_chance(&r, 0.12))
		return;
	l->mark_from_bytes = rng_log_range(&r, 1000, 100000);
	l->mark_to_bytes = l->mark_from_bytes * rng_range(&r, 2, 8);
	for (uint32_t i = 0; i < s->cfg.nconns; i++)
		s->conn[i].tos |= 2; /* ECT(0) */
}

/* FLUSH and ATOMIC WRITE among the rest. */
static void pick_flushes(struct scenario *s, uint64_t seed)
{
	struct rng r;

	rng_init(&r, rng_hash(seed, 0xf1a5));
	if (!rng_chance(&r, 0.15))
		return;
	for (uint32_t i = 0; i < s->cfg.nconns; i++)
		for (int side = 0; side < 2; side++) {
			struct msg_plan *plan = &s->conn[i].plan[side];
			uint32_t sum = 0;

			for (int op = 0; op < OP_COUNT; op++)
				sum += plan->weight[op];
			if (!sum)
				plan->weight[OP_WRITE] = 2;
			plan->weight[OP_FLUSH] = (uint8_t)rng_range(&r, 1, 3);
			plan->weight[OP_ATOMIC_WRITE] = (uint8_t)rng_range(&r, 0, 3);
		}
}

/* The WAN's routers mark, or clear the field, or mark everything. */
static void pick_wan_marks(struct scenario *s, uint64_t seed)
{
	struct link_cfg *l = &s->cfg.wan;
	struct rng r;

	rng_init(&r, rng_hash(seed, 0xec5));
	if (s->cfg.direct || !rng_chance(&r, 0.5))
		return;
	l->bleach = rng_chance(&r, 0.3);
	l->mark_from_bytes = rng_chance(&r, 0.2) ? 1 : rng_log_range(&r, 500, 100000);
	l->mark_to_bytes = l->mark_from_bytes * rng_range(&r, 2, 8);
}

void scenario_make(struct scenario *s, uint64_t seed, bool direct)
{
	struct rng r, r_work;
	const char *program, *paths, *timed, *failed;
	uint16_t pmtu;

	memset(s, 0, sizeof(*s));
	rng_init(&r, rng_hash(seed, 0x5ce7));
	s->cfg.seed = seed;
	s->cfg.direct = direct;
	s->cfg.audit = true;
	s->cfg.host_dies_ns = SIM_NEVER;
	pmtu = pick_pmtu(&r);
	pick_wan(s, &r, pmtu);
	pick_wan_troubles(s, &r);
	if (rng_chance(&r, 0.15))
		pick_cuts(s, &r);
	pick_lan(s, &r);
	pick_hosts(s, &r);
	pick_edges(s, &r);
	if (rng_chance(&r, 0.2) && !direct)
		pick_crashes(s, &r);
	if (rng_chance(&r, 0.04))
		s->cfg.host_dies_ns = rng_log_range(&r, 1000000, 20000000);
	pick_conns(s, &r, pmtu);
	rng_init(&r_work, rng_hash(seed, 0x3042));
	program = scenario_programs(s, &r_work);
	scenario_lives(s, &r_work);
	if (!direct && rng_chance(&r, 0.05))
		add_attacker(s, &r);
	if (!*program && !s->cfg.recycle) {
		scenario_reads(s);
		scenario_big_reads(s);
	}
	if (!*program && !s->cfg.recycle)
		scenario_refusals(s);
	paths = scenario_paths(s, seed);
	pick_marks(s, seed);
	pick_wan_marks(s, seed);
	s->cfg.cm_retry_ns = rng_log_range(&r, 50000000, SEC) + world_cfg_rtt_ns(&s->cfg);
	s->cfg.errors_allowed = direct;
	if (!*program && !s->cfg.recycle)
		program = scenario_rare(s);
	if (!*program && !s->cfg.recycle)
		program = scenario_words(s);
	if (!*program && !s->cfg.recycle)
		program = scenario_scarce(s);
	if (!*program)
		pick_flushes(s, seed);
	pick_barrier(s, &r);
	pick_fec(s, seed);
	if (rng_hash(seed, 0x4a7e) % 4 == 0)
		s->cfg.control = RATE_auto;
	timed = scenario_timed(s);
	failed = *timed ? "" : scenario_failed(s);
	if (*failed)
		timed = failed;
	if (!*timed && !*program)
		program = scenario_late(s);
	if (!direct && rng_hash(seed, 0x4e1a) % 6 == 0)
		s->cfg.relay_channels = (uint16_t)(1 + rng_hash(seed, 0x4e1b) % RELAY_PEER_CHANNELS);
	if (!direct && !*timed && rng_hash(seed, 0x71c4) % 8 == 0)
		s->cfg.tick_late_ns = 100000ull << rng_hash(seed, 0x71c5) % 7;
	for (unsigned site = 0; site < 2 && !direct && !*timed && rng_hash(seed, 0xba7c) % 8 == 0; site++) {
		s->cfg.batch_ns[site] = rng_hash(seed, 0xba70 + site) % 4 ? 2000ull << rng_hash(seed, 0xba72 + site) % 10 : 0;
		s->cfg.batch_wan_first[site] = rng_hash(seed, 0xba74 + site) & 1;
	}
	s->cfg.late_ports = !direct && rng_hash(seed, 0x9027) % 4 == 0;
	if (!*timed)
		pick_resessions(s);
	pick_kills(s);
	s->cfg.deadline_ns = deadline(&s->cfg);
	describe(s, *timed ? timed : program, *timed ? "" : paths);
}

void scenario_plain(struct scenario *s, uint64_t rate_bps, uint64_t one_way_ns, uint16_t pmtu)
{
	struct world_cfg *c = &s->cfg;

	memset(s, 0, sizeof(*s));
	c->seed = 1;
	c->host_dies_ns = SIM_NEVER;
	c->wan = (struct link_cfg){.rate_bps = rate_bps, .delay_ns = one_way_ns, .overhead_bytes = WAN_OVERHEAD};
	c->lan = (struct link_cfg){.rate_bps = 2 * rate_bps, .delay_ns = 1000, .overhead_bytes = LAN_OVERHEAD};
	c->lan_clean = true;
	c->pacer_bps = rate_bps;
	c->nhosts[0] = c->nhosts[1] = 1;
	c->model[0][0] = c->model[1][0] = &host_model_cx;
	c->nshards[0] = c->nshards[1] = 1;
	c->nlanes = 8;
	c->wan_payload_max = 9000 - 28;
	c->wan_overhead = WAN_OVERHEAD;
	c->chunk_size = 2 << 20;
	c->max_flows = 64;
	c->mode = ACK_MODE_NEAR;
	c->cm_retry_ns = SEC;
	c->conn = s->conn;
	c->nconns = 1;
	s->conn[0] = (struct conn_cfg){.pmtu = pmtu,
	                               .pkey = 0xffff,
	                               .rounds = 1,
	                               .rnr_retry = 7,
	                               .pause_ns = 10000000,
	                               .psn_start = {0, 0},
	                               .depth = {128, 128},
	                               .max_rd = 16,
	                               .plan[0] = {.nmsgs = UINT64_MAX / 2, .len_min = 65536, .len_max = 65536}};
}

void scenario_shallow_ports(struct world_cfg *c, uint64_t rate_bps, uint64_t queue_bytes)
{
	c->lan.rate_bps = rate_bps;
	c->lan.queue_bytes = queue_bytes;
	c->lan.mark_from_bytes = queue_bytes / 8;
	c->lan.mark_to_bytes = queue_bytes / 2;
	c->port = c->lan;
	c->port.rate_bps = 4 * rate_bps;
}
