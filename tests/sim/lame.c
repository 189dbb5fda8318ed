/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 *   one way   Nothing crosses from A to B for a while, and all that B sends arrives. After SAID_NS both edges say that
 *             the line is dead, busy or idle: B hears nothing, and A hears that nothing is answered. A second after it
 *             is mended both say that it is up.
 *   member    The line is a bundle of four (LAG, ECMP), which take datagrams by lane and source port. One of them takes
 *             what it gets and delivers nothing. Within MOVED_NS every pair of hosts has again what it had before, no
 *             queue pair dies, and the edges have said so lane by lane. */
#include "lame.h"

#include <stdio.h>
#include <string.h>

#include "named.h"
#include "runner.h"
#include "scenario.h"

#define MBIT       1000000ull
#define SEC        1000000000ull
#define RATE       (1000 * MBIT)
#define PMTU       4096
#define HOSTS      16
#define MEMBERS    4
#define FAILS_NS   (2 * SEC)
#define SAID_NS    (3 * SEC)
#define MOVED_NS   (1 * SEC)
#define LOOK_NS    (1 * SEC)
#define WANT_SHARE 0.5 /* each pair, of what it had before */

static const struct lame {
	const char *name;
	uint64_t one_way_ns;
	int way; /* that is lame: 0 from A to B, 1 back */
	bool member, idle;
} runs[] = {
    {"one-way-busy", 1500000, 0, false, false}, {"one-way-idle", 1500000, 0, false, true},
    {"one-way-back", 1500000, 1, false, false}, {"one-way-150ms", 150000000, 0, false, false},
    {"member", 1500000, 0, true, false},        {"member-back", 1500000, 1, true, false},
    {"member-25ms", 25000000, 0, true, false},
};

static struct world world;
static struct conn_cfg conns[HOSTS];

static bool is_up(int site)
{
	struct proxy_link_status st;
	struct proxy_path_status path;

	proxy_link_status(world.edge[site].shard[0].p, world.q.now_ns, &st);
	proxy_path_status(world.edge[site].shard[0].p, 0, world.q.now_ns, &path);
	return st.wan_up && path.state == PATH_UP;
}

static void start(const struct lame *r)
{
	struct scenario s;

	scenario_plain(&s, RATE, r->one_way_ns, PMTU);
	s.cfg.lan.rate_bps = 10 * RATE;
	s.cfg.nlanes = 64;
	s.cfg.nhosts[0] = s.cfg.nhosts[1] = HOSTS;
	s.cfg.conn = conns;
	s.cfg.nconns = r->idle ? 0 : HOSTS;
	s.cfg.errors_allowed = true;
	for (uint32_t i = 0; i < HOSTS; i++) {
		s.cfg.model[0][i] = s.cfg.model[1][i] = &host_model_cx;
		conns[i] = s.conn[0];
		conns[i].host[0] = (uint8_t)i;
		conns[i].host[1] = (uint8_t)(i * 7 % HOSTS);
		conns[i].depth[0] = 8;
	}
	world_start(&world, &s.cfg);
}

static bool run_one_way(const struct lame *r)
{
	struct link *l = &world.wan[r->way];
	bool before, said, after;

	world_run_until(&world, FAILS_NS);
	before = is_up(0) && is_up(1);
	l->cfg.cut[0].from_ns = FAILS_NS;
	l->cfg.cut[0].to_ns = SIM_NEVER;
	l->cfg.ncuts = 1;
	world_run_until(&world, FAILS_NS + SAID_NS);
	said = !is_up(0) && !is_up(1);
	l->cfg.ncuts = 0;
	world_run_until(&world, FAILS_NS + SAID_NS + LOOK_NS);
	after = is_up(0) && is_up(1);
	printf("%-16s both say up before: %s; dead after %.0f s: %s; up %.0f s after it is mended: %s: %s\n", r->name,
	       before ? "yes" : "NO", (double)SAID_NS / 1e9, said ? "yes" : "NO", (double)LOOK_NS / 1e9,
	       after ? "yes" : "NO", before && said && after ? "ok" : "MISSED");
	return before && said && after;
}

static void executed(uint64_t bytes[HOSTS])
{
	for (uint32_t i = 0; i < HOSTS; i++)
		bytes[i] = world.conn[i].qp[1] ? world.conn[i].qp[1]->resp.bytes_executed : 0;
}

/* The one that takes the datagrams of the first pair. */
static uint8_t member_of_first(void)
{
	struct ip_addr a = world_addr(0, conns[0].host[0], false), b = world_addr(1, conns[0].host[1], false);

	return edge_member(proxy_lane(&a, &b, world.cfg.nlanes), 0) % MEMBERS;
}

static bool run_member(const struct lame *r)
{
	struct link *l = &world.wan[r->way];
	uint64_t a[HOSTS], b[HOSTS], c[HOSTS], d[HOSTS];
	uint32_t dead = 0, slow = 0;
	double least = 1e9;
	bool ok;

	world_run_until(&world, FAILS_NS - LOOK_NS);
	executed(a);
	world_run_until(&world, FAILS_NS);
	executed(b);
	l->cfg.members = MEMBERS;
	l->cfg.dead_member = member_of_first();
	world_run_until(&world, FAILS_NS + MOVED_NS);
	executed(c);
	world_run_until(&world, FAILS_NS + MOVED_NS + LOOK_NS);
	executed(d);
	for (uint32_t i = 0; i < HOSTS; i++) {
		double share = (double)(d[i] - c[i]) / ((double)(b[i] - a[i]) + 1);

		dead += !world.conn[i].qp[0] || world.conn[i].qp[0]->req.failed;
		slow += share < WANT_SHARE;
		least = share < least ? share : least;
	}
	ok = !dead && !slow && world.edge[r->way].events[EV_LANE_MOVED] > 0;
	printf("%-16s %u of %d pairs dead, %u below %.1f of what they had, the least %.2f, from %.0f s on; lanes "
	       "moved: A %llu, "
	       "B %llu: %s\n",
	       r->name, dead, HOSTS, slow, WANT_SHARE, least, (double)MOVED_NS / 1e9,
	       (unsigned long long)world.edge[0].events[EV_LANE_MOVED],
	       (unsigned long long)world.edge[1].events[EV_LANE_MOVED], ok ? "ok" : "MISSED");
	return ok;
}

static bool run_nth(size_t i)
{
	const struct lame *r = &runs[i];
	bool ok;

	start(r);
	ok = r->member ? run_member(r) : run_one_way(r);
	if (world.violation[0]) {
		run_report(&world, r->name, false);
		ok = false;
	}
	fflush(stdout);
	world_end(&world);
	return ok;
}

static const char *name_of(size_t i)
{
	return runs[i].name;
}

int lame_run(const char *name)
{
	static const struct named_runs all = {
	    .option = "--lame", .n = sizeof(runs) / sizeof(runs[0]), .name = name_of, .run = run_nth};

	return named_run(&all, name, &world);
}
