/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Hosts send until the near edge has no room for them any more, as the responders' host stands still or the WAN is cut.
 * Then that is over, and there is "room" when the near edge gives back the first slot. From there on the link is to be
 * as good as a server of 90 % of the line's rate that begins late: how late is what is measured, as the largest lag of
 * the bytes completed at the requesters, and of those executed at the responders, behind such a server.
 *
 *     bytes |            completed . /  / 90 % of the line
 *           |                  . ' /  /
 *           |              . '  /  /
 *           |___________.-'__/ <--> lag: at most 2 round trips
 *                      room
 *
 * (A rate over some window would not do: what was buffered is executed at the rate of the LAN, a flow without early
 * ACKs catches up with them at once, and hosts that fill an empty buffer are faster than the line.) At the end
 * everything that was posted must be executed, once, with the right bytes, and no queue pair lost. */
#include "full_arena.h"

#include <stdio.h>

#include "fullscale.h"
#include "named.h"
#include "runner.h"
#include "scenario.h"

#define GBIT      1000000000ull
#define MSEC      1000000ull
#define RTTS_MOST 2.0
#define RATE_BACK 0.9
#define QPS       8
#define RATE      (10 * GBIT)
#define STEP_NS   10000
#define WORK_RTTS 34
#define LOOK_RTTS 12

struct full {
	const char *name;
	uint64_t one_way_ns, for_ns;
	bool cut; /* of the WAN; else the responders' host stands still */
	enum ack_mode mode;
};

static const struct full runs[] = {
    {"frozen host, 300 km, near", 1500000, 70 * MSEC, false, ACK_MODE_NEAR},
    {"frozen host, 300 km, host", 1500000, 70 * MSEC, false, ACK_MODE_HOST},
    {"frozen host, 1000 km, near", 5000000, 200 * MSEC, false, ACK_MODE_NEAR},
    {"WAN cut, 300 km, near", 1500000, 2200 * MSEC, true, ACK_MODE_NEAR}, /* until the other edge counts as gone */
    {"WAN cut, 1000 km, far", 5000000, 200 * MSEC, true, ACK_MODE_FAR},
};

static struct world world;

/* Bytes that are completed at the requesters (0), executed at the responders (1). */
static uint64_t bytes_at(int where)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < QPS; i++)
		bytes += where ? world.conn[i].qp[1]->resp.bytes_executed : world.conn[i].qp[0]->req.bytes_completed;
	return bytes;
}

static uint64_t near_used(double *percent)
{
	struct proxy_link_status st;

	proxy_link_status(world.edge[0].shard[0].p, world.q.now_ns, &st);
	*percent = 100.0 * (double)st.pool_used[POOL_LAN] / (double)st.pool_capacity[POOL_LAN];
	return st.pool_used[POOL_LAN];
}

static void freeze(void *obj, uint64_t for_ns)
{
	host_freeze(obj, for_ns);
}

static void prepare(const struct full *f, struct scenario *s, uint64_t from_ns, uint64_t to_ns)
{
	struct world_cfg *c = &s->cfg;

	scenario_plain(s, RATE, f->one_way_ns, 4096);
	c->mode = f->mode;
	c->lan.mark_from_bytes = 100 << 10;
	c->lan.mark_to_bytes = 400 << 10;
	c->nconns = QPS;
	c->deadline_ns = 10 * GBIT;
	for (uint32_t i = 0; i < QPS; i++) {
		s->conn[i] = s->conn[0];
		s->conn[i].tos = 26 << 2 | 2;
		s->conn[i].plan[0].nmsgs = (uint64_t)(WORK_RTTS * 2 * (double)f->one_way_ns * RATE / 8e9 / 65536 / QPS);
	}
	if (f->cut) {
		c->wan.ncuts = 1;
		c->wan.cut[0].from_ns = from_ns;
		c->wan.cut[0].to_ns = to_ns;
	}
}

static bool report(const struct full *f, double rtts, double full_percent, uint64_t rnrs)
{
	uint64_t errors = 0;

	world_run(&world); /* to the end: nothing may be missing */
	for (uint32_t i = 0; i < QPS; i++)
		errors += world.conn[i].qp[0]->req.failed;
	if (world.violation[0])
		run_report(&world, f->name, false);
	printf("full arena, %-27s held off with %2.0f %% of the pool used, %llu RNR NAKs; from room on %.0f %% of the "
	       "line after %4.2f round trips (at most %.0f); nothing lost, %llu QPs lost: %s\n",
	       f->name, full_percent, (unsigned long long)rnrs, 100 * RATE_BACK, rtts, RTTS_MOST,
	       (unsigned long long)errors,
	       rtts <= RTTS_MOST && rnrs > 0 && !errors && !world.violation[0] ? "ok" : "MISSED");
	fflush(stdout);
	return rtts <= RTTS_MOST && rnrs > 0 && !errors && !world.violation[0];
}

/* Lag of both behind the server, in nanoseconds: bytes_per_ns from now on for so long. */
static double largest_lag_ns(double bytes_per_ns, uint64_t for_ns)
{
	uint64_t from_ns = world.q.now_ns, from[2] = {bytes_at(0), bytes_at(1)};
	double most = 0;

	while (world.q.now_ns < from_ns + for_ns && !world.violation[0]) {
		world_run_until(&world, world.q.now_ns + STEP_NS);
		for (int where = 0; where < 2; where++) {
			double lag = (double)(world.q.now_ns - from_ns) -
			             (double)(bytes_at(where) - from[where]) / bytes_per_ns;

			most = lag > most ? lag : most;
		}
	}
	return most;
}

static bool run_one(const struct full *f)
{
	struct scenario s;
	uint64_t rtt = 2 * f->one_way_ns, from_ns = 8 * rtt, to_ns = from_ns + f->for_ns, used, least, rnrs;
	double percent, full_percent, line;
	bool ok;

	prepare(f, &s, from_ns, to_ns);
	world_start(&world, &s.cfg);
	if (!f->cut)
		eventq_at(&world.q, from_ns, freeze, &world.host[1][0], to_ns - from_ns);
	world_run_until(&world, to_ns);
	least = near_used(&full_percent);
	do {
		world_run_until(&world, world.q.now_ns + STEP_NS);
		used = near_used(&percent);
	} while (used >= least && world.q.now_ns < to_ns + GBIT && !world.violation[0]);
	rnrs = edge_counter(&world.edge[0], CTR_RNR_NAKS_TX);
	line = fullscale_ceiling_gbps(&s.cfg, 4096) / 8;
	ok = report(f, largest_lag_ns(RATE_BACK * line, LOOK_RTTS * rtt) / (double)rtt, full_percent, rnrs);
	world_end(&world);
	return ok;
}

static bool run_nth(size_t i)
{
	return run_one(&runs[i]);
}

int full_arena_run(void)
{
	static const struct named_runs all = {.n = sizeof(runs) / sizeof(runs[0]), .run = run_nth};

	return named_run(&all, "all", &world);
}
