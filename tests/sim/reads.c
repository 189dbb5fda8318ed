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
 * READ.
 *
 * Rows named after a rate have the memory that the daemon takes by itself (Size=auto) and run for much longer than any
 * edge keeps an answer: goodput must not hang on how long that is. */
#include "reads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fullscale.h"
#include "headroom/headroom.h"
#include "named.h"
#include "runner.h"
#include "scenario.h"

#define GBIT        1000000000ull
#define MS          1000000ull
#define LEN         (1u << 20)
#define OUTSTANDING 16
#define PMTU        4096u
#define WARM_RTTS   4 /* QPNs cross, the first READs come */
#define LOOK_RTTS   6
#define QPS_MAX     32
#define SAME_TURNS  0.8

struct read_run {
	const char *name;
	uint64_t rate;       /* bit/s of the WAN */
	uint64_t look_ns;    /* measured for so long, with the daemon's own memory; 0: LOOK_RTTS, with plenty of it */
	uint64_t one_way_ns;
	uint32_t qps;
	double loss;
	double want;      /* share of the ceiling */
	double want_pkts; /* packets on the near LAN, at most so many times the least; 0: any */
	uint32_t len;     /* of the READs of every other queue pair, which the others must survive; 0: all LEN */
	uint64_t memory;  /* of each edge, bytes; 0: as look_ns says */
};

static const struct read_run runs[] = {
    {"300km-4qp", 400 * GBIT, 0, 1500000, 4, 0, 0.9, 1.1, 0, 0},
    {"300km-4qp-loss0.1", 400 * GBIT, 0, 1500000, 4, 0.001, 0.5,
     1.3, 0, 0}, /* a round trip of 16 READs mostly has one loss, and waits for it */
    {"300km-16qp", 400 * GBIT, 0, 1500000, 16, 0, 0.9, 1.1, 0, 0},
    {"1000km-8qp", 400 * GBIT, 0, 5000000, 8, 0, 0.9, 1.1, 0, 0},
    {"10g-300km-2qp", 10 * GBIT, 1000 * MS, 1500000, 2, 0, 0.97, 0, 0, 0},
    {"10g-300km-16qp", 10 * GBIT, 1000 * MS, 1500000, 16, 0, 0.97, 0, 0, 0},
    {"10g-1000km-2qp", 10 * GBIT, 1000 * MS, 5000000, 2, 0, 0.97, 0, 0, 0},
    {"10g-1000km-16qp", 10 * GBIT, 1000 * MS, 5000000, 16, 0, 0.97, 0, 0, 0},
    {"100g-300km-2qp", 100 * GBIT, 1000 * MS, 1500000, 2, 0, 0.97, 0, 0, 0},
    {"100g-300km-16qp", 100 * GBIT, 1000 * MS, 1500000, 16, 0, 0.97, 0, 0, 0},
    {"100g-1000km-2qp", 100 * GBIT, 1000 * MS, 5000000, 2, 0, 0.97, 0, 0, 0},
    {"100g-1000km-16qp", 100 * GBIT, 1000 * MS, 5000000, 16, 0, 0.97, 0, 0, 0},
    {"400g-300km-2qp", 400 * GBIT, 400 * MS, 1500000, 2, 0, 0.97, 0, 0, 0},
    {"400g-300km-16qp", 400 * GBIT, 400 * MS, 1500000, 16, 0, 0.97, 0, 0, 0},
    {"400g-1000km-2qp", 400 * GBIT, 1000 * MS, 5000000, 2, 0, 0.97, 0, 0, 0},
    {"400g-1000km-16qp", 400 * GBIT, 400 * MS, 5000000, 16, 0, 0.97, 0, 0, 0},
    {"larger-than-pool", 10 * GBIT, 1000 * MS, 1500000, 2, 0, 0.5, 0, 3000 * PMTU, 16 << 20},
    {"larger-than-pool-loss1", 10 * GBIT, 1000 * MS, 1500000, 4, 0.01, 0.4, 0, 3000 * PMTU, 16 << 20},
    {"10g-300km-16qp-loss1", 10 * GBIT, 1000 * MS, 1500000, 16, 0.01, 0.9, 0, 0, 0},
    {"100g-300km-16qp-loss1", 100 * GBIT, 1000 * MS, 1500000, 16, 0.01, 0.9, 0, 0, 0},
    {"100g-1000km-16qp-loss1", 100 * GBIT, 1000 * MS, 5000000, 16, 0.01, 0.9, 0, 0, 0},
    {"400g-1000km-16qp-loss1", 400 * GBIT, 400 * MS, 5000000, 16, 0.01, 0.9, 0, 0, 0},
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
	uint64_t rtt = world_cfg_rtt_ns(&s->cfg), look_ns = f->look_ns ? f->look_ns : LOOK_RTTS * rtt, bytes, n;
	double reads[QPS_MAX], most = 0;

	world_start(&world, &s->cfg);
	world_run_until(&world, WARM_RTTS * rtt);
	bytes = completed();
	n = near_packets();
	world_run_until(&world, WARM_RTTS * rtt + look_ns);
	bytes = completed() - bytes;
	n = near_packets() - n;
	for (uint32_t i = 0; i < f->qps && f->len; i++) {
		const struct requester *r = world.conn[i].qp[0] ? &world.conn[i].qp[0]->req : NULL;

		reads[i] = r ? (double)r->bytes_completed / s->cfg.conn[i].plan[0].len_max : 0;
		most = reads[i] > most ? reads[i] : most;
		printf("     QP %u: %.0f READs of %.1f MiB\n", i, reads[i], (double)s->cfg.conn[i].plan[0].len_max / LEN);
	}
	for (uint32_t i = 0; i < f->qps && f->len; i++) /* they wait in order of arrival, large and small alike */
		if (reads[i] < SAME_TURNS * most)
			bytes = 0;
	if (world.violation[0])
		run_report(&world, f->name, s->cfg.direct);
	world_end(&world);
	*pkts = (double)n * LEN / ((double)bytes + 1);
	return world.violation[0] ? -1 : (double)bytes * 8 / (double)look_ns;
}

/* The memory that the daemon would take, in chunks as it would have them, and FEC=auto, as it is if nothing is said. */
static void own_settings(const struct read_run *f, struct world_cfg *c)
{
	c->fec.mode = FEC_AUTO;
	c->arena_len = f->memory ? f->memory : headroom_deep_arena_bytes(f->rate, 2 * f->one_way_ns);
	while (c->arena_len / c->chunk_size < 128)
		c->chunk_size /= 2;
}

static bool run_one(const struct read_run *f)
{
	struct conn_cfg conn[QPS_MAX];
	struct scenario s;
	double own, line, ceiling, with, direct = 0, pkts, direct_pkts = 0, least = LEN / PMTU + 1;
	bool ok;

	scenario_plain(&s, f->rate, f->one_way_ns, PMTU);
	s.cfg.wan.loss = f->loss;
	s.cfg.conn = conn;
	s.cfg.nconns = f->qps;
	for (uint32_t i = 0; i < f->qps; i++) {
		conn[i] = s.conn[0];
		conn[i].max_rd = OUTSTANDING;
		conn[i].depth[0] = 2 * OUTSTANDING;
		conn[i].plan[0].len_min = conn[i].plan[0].len_max = LEN;
		conn[i].plan[0].weight[OP_READ] = 1;
		if (f->len) {
			conn[i].max_rd = 4;
			conn[i].plan[0].len_min = conn[i].plan[0].len_max = i % 2 ? LEN / 8 : f->len;
		}
	}
	if (f->look_ns)
		own_settings(f, &s.cfg);
	own = 8.0 * f->qps * OUTSTANDING * LEN / (double)world_cfg_rtt_ns(&s.cfg);
	line = fullscale_ceiling_gbps(&s.cfg, PMTU);
	ceiling = own < line ? own : line;
	with = measure(f, &s, &pkts);
	s.cfg.direct = true;
	s.cfg.errors_allowed = true;
	if (!f->look_ns)
		direct = measure(f, &s, &direct_pkts);
	ok = with >= f->want * ceiling && (f->want_pkts == 0 || pkts <= f->want_pkts * least);
	printf("READ %-22s %6.1f Gbit/s = %5.1f %% of %6.1f (%s; wanted %.0f %%); %5.1f packets on the near LAN per "
	       "MiB, %4.2f of the least",
	       f->name, with, 100 * with / ceiling, ceiling, own < line ? "what is outstanding" : "the line",
	       100 * f->want, pkts, pkts / least);
	if (f->want_pkts > 0)
		printf(" (at most %.1f)", f->want_pkts);
	if (!f->look_ns)
		printf("; direct %6.1f Gbit/s, %5.1f packets", direct, direct_pkts);
	printf(": %s\n", ok ? "ok" : "MISSED");
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
