/* SPDX-License-Identifier: Apache-2.0 */
/* fullscale_paths.c - two paths of 200 Gbit/s as one of 400, and one of them dying.
 *
 * What a death costs is counted in bytes: what would have been delivered by the end at the ceiling of both paths before
 * (and for as long as what left before is under way) and of one after, less what was. As time at the dead path's rate
 * it may be a round trip and the stated detection time: three round trips and 10 ms (proxy/wan_path.c). */
#include <stdio.h>
#include <string.h>

#include "fullscale.h"
#include "runner.h"
#include "scenario.h"

#define GBIT     1000000000ull
#define FLOOR_NS 10000000ull

struct paths_run {
	const char *name;
	uint64_t one_way_ns[2];
	double loss, want; /* share of the ceiling */
	bool dies;         /* the second one, and comes back */
};

static const struct paths_run runs[] = {
    {"200g-1000km-control", {5000000, 0}, 0, 0.97, false},
    {"2x200g-1000km", {5000000, 5000000}, 0, 0.97, false},
    {"2x200g-1000km-loss0.1", {5000000, 5000000}, 0.001, 0.94, false},
    {"2x200g-1000km+300km", {5000000, 1500000}, 0, 0.97, false},
    {"2x200g-1000km-one-dies", {5000000, 5000000}, 0, 0.97, true},
};

static struct world world;

static void make(struct scenario *s, const struct paths_run *r)
{
	scenario_plain(s, 200 * GBIT, r->one_way_ns[0], 4096);
	s->cfg.lan.rate_bps = 800 * GBIT;
	s->cfg.wan.loss = r->loss;
	s->cfg.more[0].wan = s->cfg.wan;
	s->cfg.more[0].wan.delay_ns = r->one_way_ns[1];
	s->cfg.more[0].pacer_bps = s->cfg.pacer_bps;
	s->cfg.more[0].payload_max = s->cfg.wan_payload_max;
	s->cfg.more[0].weight = 1;
	s->cfg.nmore = r->one_way_ns[1] > 0;
}

static uint64_t delivered(void)
{
	return world.conn[0].qp[1]->resp.bytes_executed;
}

/* Bytes delivered within ns. */
static uint64_t deliver_for(uint64_t ns)
{
	uint64_t before = delivered();

	world_run_until(&world, world.q.now_ns + ns);
	return delivered() - before;
}

static bool end(const struct scenario *s, const char *name)
{
	bool clean = !world.violation[0];

	if (!clean)
		run_report(&world, name, s->cfg.direct);
	world_end(&world);
	return clean;
}

/* Work goes from A to B: all that B sends, and what A sends without packets in it, is control. */
struct control {
	uint64_t dgrams, bytes, forward_dgrams, forward_bytes;
};

static struct control control(void)
{
	struct control c = {.dgrams = edge_counter(&world.edge[1], CTR_WAN_TX_DGRAMS),
	                    .bytes = edge_counter(&world.edge[1], CTR_WAN_TX_BYTES),
	                    .forward_dgrams = edge_counter(&world.edge[0], CTR_WAN_TX_DGRAMS),
	                    .forward_bytes = edge_counter(&world.edge[0], CTR_WAN_TX_BYTES)};

	for (uint32_t i = 0; i <= world.cfg.nmore; i++) {
		struct proxy_path_status s;

		proxy_path_status(world.edge[0].shard[0].p, i, world.q.now_ns, &s);
		c.dgrams += s.stats.tx_control;
		c.bytes += s.stats.tx_control_bytes;
	}
	return c;
}

/* Reports, probes and window updates: less than 1 % of datagrams and 0.5 % of bytes. */
static bool say_control(const struct control *a, const struct control *b)
{
	double dgrams = (double)(b->dgrams - a->dgrams) / (double)(b->forward_dgrams - a->forward_dgrams);
	double bytes = (double)(b->bytes - a->bytes) / (double)(b->forward_bytes - a->forward_bytes);
	bool ok = dgrams < 0.01 && bytes < 0.005;

	printf("    control: %.3f %% of forward datagrams, %.4f %% of bytes; wanted less than 1 and 0.5: %s\n",
	       100 * dgrams, 100 * bytes, ok ? "ok" : "MISSED");
	return ok;
}

static bool run_steady(const struct paths_run *r)
{
	struct scenario s;
	struct control before, during;
	double ceiling, gbps;
	uint64_t rtt_ns;
	bool ok;

	make(&s, r);
	rtt_ns = world_cfg_rtt_ns(&s.cfg);
	ceiling = (1 + s.cfg.nmore) * fullscale_ceiling_gbps(&s.cfg, 4096);
	world_start(&world, &s.cfg);
	world_run_until(&world, 5 * rtt_ns);
	before = control();
	gbps = (double)deliver_for(20 * rtt_ns) * 8 / (20.0 * (double)rtt_ns);
	during = control();
	ok = gbps >= r->want * ceiling && say_control(&before, &during);
	printf("%-26s %8.2f Gbit/s = %5.2f %% of the ceiling of both %6.2f; wanted %.0f %%: %s\n", r->name, gbps,
	       100 * gbps / ceiling, ceiling, 100 * r->want, ok ? "ok" : "MISSED");
	return end(&s, r->name) && ok;
}

/* Longest time without a byte for the responder, from now on for ns. */
static uint64_t longest_pause(uint64_t ns)
{
	uint64_t until = world.q.now_ns + ns, longest = 0, since = world.q.now_ns;

	while (world.q.now_ns < until && !world.violation[0]) {
		if (deliver_for(100000)) {
			longest = world.q.now_ns - since > longest ? world.q.now_ns - since : longest;
			since = world.q.now_ns;
		}
	}
	return longest;
}

static bool run_death(const struct paths_run *r)
{
	struct scenario s;
	uint64_t rtt_ns, cut_ns, from, got, pause_ns;
	double ceiling, cost_ms, may_ms, back;

	make(&s, r);
	rtt_ns = world_cfg_rtt_ns(&s.cfg);
	ceiling = fullscale_ceiling_gbps(&s.cfg, 4096);
	cut_ns = 15 * rtt_ns;
	s.cfg.more[0].wan.ncuts = 1;
	s.cfg.more[0].wan.cut[0].from_ns = cut_ns;
	s.cfg.more[0].wan.cut[0].to_ns = cut_ns + 40 * rtt_ns;
	s.cfg.paths_survive = true;
	world_start(&world, &s.cfg);
	world_run_until(&world, 5 * rtt_ns);
	from = delivered();
	world_run_until(&world, cut_ns);
	pause_ns = longest_pause(30 * rtt_ns);
	got = delivered() - from;
	cost_ms = ((2 * ceiling * 10.5 + ceiling * 29.5) * (double)rtt_ns / 8 - (double)got) * 8 / ceiling / 1e6;
	may_ms = (4.0 * (double)rtt_ns + FLOOR_NS) / 1e6;
	world_run_until(&world, cut_ns + 52 * rtt_ns);
	back = (double)deliver_for(10 * rtt_ns) * 8 / (10.0 * (double)rtt_ns);
	printf("%-26s costs %.1f ms of one path's rate, allowed are %.1f; longest pause %.1f ms; back: %5.2f %%, "
	       "wanted %.0f %%: %s\n",
	       r->name, cost_ms, may_ms, (double)pause_ns / 1e6, 50 * back / ceiling, 100 * r->want,
	       cost_ms <= may_ms && back >= 2 * r->want * ceiling ? "ok" : "MISSED");
	return end(&s, r->name) && cost_ms <= may_ms && back >= 2 * r->want * ceiling;
}

int fullscale_paths(const char *name, bool *found)
{
	bool ok = true;

	pktlog_init(&world.log, 1024);
	world.log_packets = false;
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		if (strcmp(name, "list") == 0)
			printf("%s\n", runs[i].name);
		if (strcmp(name, "all") != 0 && strcmp(name, runs[i].name) != 0)
			continue;
		*found = true;
		ok &= runs[i].dies ? run_death(&runs[i]) : run_steady(&runs[i]);
		fflush(stdout);
	}
	world_free(&world);
	return ok ? 0 : 1;
}
