/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Nobody can answer a READ before the responder has: a requester gets at most what it has outstanding per round trip,
 * with longreach or without. So the ceiling is
 *
 *     min( queue pairs x outstanding READs x their length / round trip,  what the line carries of responses )
 *
 * and what is measured is how near to it the requesters come, in spite of NICs that ask again after 2 ms whatever the
 * distance is; and how many packets that costs on the near LAN: at least one for each response and one for each
 * READ. */
#include "reads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fullscale.h"
#include "named.h"
#include "runner.h"
#include "scenario.h"

#define GBIT        1000000000ull
#define RATE        (400 * GBIT)
#define LEN         (1u << 20)
#define OUTSTANDING 16
#define PMTU        4096u
#define WARM_RTTS   4 /* QPNs cross, the first READs come */
#define LOOK_RTTS   6
#define QPS_MAX     32

struct read_run {
	const char *name;
	uint64_t one_way_ns;
	uint32_t qps;
	double loss;
	double want;      /* share of the ceiling */
	double want_pkts; /* packets on the near LAN, at most so many times the least */
};

static const struct read_run runs[] = {
    {"300km-4qp", 1500000, 4, 0, 0.9, 1.1},
    {"300km-4qp-loss0.1", 1500000, 4, 0.001, 0.5,
     1.3}, /* a round trip of 16 READs mostly has one loss, and waits for it */
    {"300km-16qp", 1500000, 16, 0, 0.9, 1.1},
    {"1000km-8qp", 5000000, 8, 0, 0.9, 1.1},
};

static struct world world;

static uint64_t completed(void)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < world.nconns; i++)
		bytes += world.conn[i].qp[0] ? world.conn[i].qp[0]->req.bytes_completed : 0;
	return bytes;
}

/* From and to hosts at the near edge; nothing else is on that LAN. */
static uint64_t near_packets(void)
{
	return world.up[0][0].stats.sent + world.down[0][0].stats.sent;
}

/* Gbit/s at the requesters; *pkts: on the near LAN for each MiB. Negative: a violation. */
static double measure(const struct read_run *f, struct scenario *s, double *pkts)
{
	uint64_t rtt = world_cfg_rtt_ns(&s->cfg), bytes, n;

	world_start(&world, &s->cfg);
	world_run_until(&world, WARM_RTTS * rtt);
	bytes = completed();
	n = near_packets();
	world_run_until(&world, (WARM_RTTS + LOOK_RTTS) * rtt);
	bytes = completed() - bytes;
	n = near_packets() - n;
	if (world.violation[0])
		run_report(&world, f->name, s->cfg.direct);
	world_end(&world);
	*pkts = (double)n * LEN / ((double)bytes + 1);
	return world.violation[0] ? -1 : (double)bytes * 8 / (LOOK_RTTS * (double)rtt);
}

static bool run_one(const struct read_run *f)
{
	struct conn_cfg conn[QPS_MAX];
	struct scenario s;
	double own, line, ceiling, with, direct, pkts, direct_pkts, least = LEN / PMTU + 1;
	bool ok;

	scenario_plain(&s, RATE, f->one_way_ns, PMTU);
	s.cfg.wan.loss = f->loss;
	s.cfg.conn = conn;
	s.cfg.nconns = f->qps;
	for (uint32_t i = 0; i < f->qps; i++) {
		conn[i] = s.conn[0];
		conn[i].max_rd = OUTSTANDING;
		conn[i].depth[0] = 2 * OUTSTANDING;
		conn[i].plan[0].len_min = conn[i].plan[0].len_max = LEN;
		conn[i].plan[0].weight[OP_READ] = 1;
	}
	own = 8.0 * f->qps * OUTSTANDING * LEN / (double)world_cfg_rtt_ns(&s.cfg);
	line = fullscale_ceiling_gbps(&s.cfg, PMTU);
	ceiling = own < line ? own : line;
	with = measure(f, &s, &pkts);
	s.cfg.direct = true;
	s.cfg.errors_allowed = true;
	direct = measure(f, &s, &direct_pkts);
	ok = with >= f->want * ceiling && pkts <= f->want_pkts * least;
	printf("READ %-18s %6.1f Gbit/s = %5.1f %% of %6.1f (%s; wanted %.0f %%); %5.1f packets on the near LAN per "
	       "MiB, %4.2f "
	       "of the least (at most %.1f); direct %6.1f Gbit/s, %5.1f packets: %s\n",
	       f->name, with, 100 * with / ceiling, ceiling, own < line ? "what is outstanding" : "the line",
	       100 * f->want, pkts, pkts / least, f->want_pkts, direct, direct_pkts, ok ? "ok" : "MISSED");
	fflush(stdout);
	return ok;
}

static const char *name_of(size_t i)
{
	return runs[i].name;
}

static bool run_nth(size_t i)
{
	return run_one(&runs[i]);
}

int reads_run(const char *name)
{
	static const struct named_runs all = {
	    .option = "--reads", .n = sizeof(runs) / sizeof(runs[0]), .name = name_of, .run = run_nth};

	return named_run(&all, name, &world);
}
