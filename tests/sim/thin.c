/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Queue pairs between 1 to 1,000 pairs of hosts WRITE in both directions over a line of 1 Gbit/s from A to B and a tenth,
 * a hundredth or a thousandth of that from B to A, 300 km long. What B tells A of A's datagrams has to cross the thin
 * way, beside B's own data.
 *
 *     no queue pair dies;
 *     control takes no more than its part of the thin way: 5 % (wan_pacer.h), a quarter where 5 % are less than
 *     250 kbit/s, and some for what is sent past all bounds (probes);
 *     the data of B gets what is left of it, and each pair something;
 *     the data of A gets what the run says of the payload ceiling of its way.
 *
 * What 1:1000 can be. A NIC that nobody answers gives up after 230 ms, in which 1 Mbit/s carries six packets of 4 KiB.
 * So of queue pairs that begin all at once without CM no more than that live there, with edges or without: there are
 * four. Where there are 32 they begin a tenth of a second apart, or have CM, which names who is to be held off; so have
 * 1,000, from 1:10 on. Of those control takes more than its part on ways of 10 and 1 Mbit/s; what goes past the bound
 * was not looked for, and their limits are what was measured, with some room. */
#include "thin.h"

#include <stdio.h>
#include <string.h>

#include "fullscale.h"
#include "named.h"
#include "proxy/wan/cc/rate.h"
#include "runner.h"
#include "scenario.h"

#define MBIT       1000000ull
#define SEC        1000000000ull
#define WIDE       (1000 * MBIT)
#define ONE_WAY_NS 1500000ull
#define PMTU       4096
#define PAIRS_MOST 1000
#define HOSTS_MOST 32 /* of a site: each of them speaks with all of the other one */
#define FROM_NS    (5 * SEC)
#define JUDGED_NS  (6 * SEC)
#define WANT_THIN  0.97 /* of what control may leave */
#define SLACK      0.01 /* of the rate, for what control may have too much */

static const struct thin {
	const char *name;
	uint32_t ratio, pairs;
	double control, wide; /* at most, of the thin way; at least, of the payload ceiling */
	double thin;          /* at least, of its payload ceiling; 0: of what control may leave */
	bool few;             /* the thin way carries two packets a pair in the time, or none: some have none meanwhile */
	bool cm;
	uint64_t every_ns; /* a pair begins; 0: 100 us */
	uint64_t from_ns;  /* and is judged for JUDGED_NS; 0: FROM_NS */
} runs[] = {
    {.name = "thin-10-1", .ratio = 10, .pairs = 1, .control = 0.05, .wide = 0.97},
    {.name = "thin-10-32", .ratio = 10, .pairs = 32, .control = 0.05, .wide = 0.97},
    {.name = "thin-100-1", .ratio = 100, .pairs = 1, .control = 0.05, .wide = 0.97},
    {.name = "thin-100-32", .ratio = 100, .pairs = 32, .control = 0.05, .wide = 0.97},
    {.name = "thin-1000-1", .ratio = 1000, .pairs = 1, .control = 0.25, .wide = 0.9},
    {.name = "thin-1000-4", .ratio = 1000, .pairs = 4, .control = 0.25, .wide = 0.9},
    {.name = "thin-1000-32", .ratio = 1000, .pairs = 32, .control = 0.25, .wide = 0.9, .every_ns = 100000000},
    {.name = "thin-10-1000", .ratio = 10, .pairs = 1000, .control = 0.05, .wide = 0.97, .cm = true},
    {.name = "thin-100-1000", .ratio = 100, .pairs = 1000, .control = 0.08, .wide = 0.97, .thin = 0.85, .few = true, .cm = true, .from_ns = 12 * SEC},
    {.name = "thin-1000-1000", .ratio = 1000, .pairs = 1000, .control = 0.35, .wide = 0.9, .thin = 0.1, .few = true, .cm = true},
    {.name = "thin-1000-32-cm", .ratio = 1000, .pairs = 32, .control = 0.25, .wide = 0.9, .cm = true},
};

static struct world world;
static struct conn_cfg conns[PAIRS_MOST];

struct counted {
	uint64_t wide, thin, control;
	uint64_t each[2][PAIRS_MOST];
};

/* With the message that is under way: on the thin way one lasts as long as what is judged. */
static uint64_t taken(const struct qp *qp)
{
	return qp ? qp->resp.bytes_executed + qp->resp.off : 0;
}

static void count(const struct thin *t, struct counted *c)
{
	const struct wan_path_stats *st = proxy_path_stats(world.edge[1].shard[0].p, 0);

	memset(c, 0, sizeof(*c));
	for (uint32_t i = 0; i < t->pairs; i++) {
		for (int to = 0; to < 2; to++)
			c->each[to][i] = taken(world.conn[i].qp[to]);
		c->wide += c->each[1][i];
		c->thin += c->each[0][i];
	}
	c->control = st->tx_control_bytes + st->tx_control * world.cfg.wan_overhead;
}

static void start(const struct thin *t)
{
	uint64_t thin_bps = WIDE / t->ratio;
	uint32_t hosts = t->pairs < HOSTS_MOST ? t->pairs : HOSTS_MOST;
	struct scenario s;

	scenario_plain(&s, WIDE, ONE_WAY_NS, PMTU);
	s.cfg.lan.rate_bps = 10 * WIDE;
	s.cfg.nlanes = 64;
	if (t->pairs > HOSTS_MOST) {
		s.cfg.max_flows = 4 * PAIRS_MOST;
		s.cfg.arena_len = 256ull << 20;
	}
	s.cfg.nhosts[0] = s.cfg.nhosts[1] = hosts;
	s.cfg.conn = conns;
	s.cfg.nconns = t->pairs;
	s.cfg.errors_allowed = true;
	s.cfg.wan.queue_bytes = 2 * WIDE / 8000 * (2 * ONE_WAY_NS / 1000) / 1000;
	for (uint32_t i = 0; i < hosts; i++)
		s.cfg.model[0][i] = s.cfg.model[1][i] = &host_model_cx;
	for (uint32_t i = 0; i < t->pairs; i++) {
		conns[i] = s.conn[0];
		conns[i].host[0] = (uint8_t)(i % hosts);
		conns[i].host[1] = (uint8_t)((i * 7 + i / hosts) % hosts); /* else all pairs are of one lane */
		conns[i].depth[0] = conns[i].depth[1] = 8;
		conns[i].plan[1] = conns[i].plan[0];
		conns[i].open_ns = i * (t->every_ns ? t->every_ns : 100000);
		conns[i].cm = t->cm;
	}
	world_start(&world, &s.cfg);
	world.wan[1].cfg.rate_bps = thin_bps;
	rate_choose(&world.edge[1].pacer[0].control, RATE_fixed, thin_bps);
}

static double ceiling_bytes(uint64_t bps, uint64_t ns)
{
	struct world_cfg c = world.cfg;

	c.pacer_bps = bps;
	return fullscale_ceiling_gbps(&c, PMTU) / 8 * (double)ns;
}

static bool run_nth(size_t i)
{
	const struct thin *t = &runs[i];
	uint64_t thin_bps = WIDE / t->ratio, least[2] = {UINT64_MAX, UINT64_MAX};
	uint64_t from_ns = t->from_ns ? t->from_ns : FROM_NS;
	struct counted a, b;
	uint32_t dead = 0;
	double wide, thin, control, want = t->thin > 0 ? t->thin : WANT_THIN * (1 - t->control - SLACK);
	bool ok;

	start(t);
	world_run_until(&world, from_ns);
	count(t, &a);
	world_run_until(&world, from_ns + JUDGED_NS);
	count(t, &b);
	if (world.violation[0]) {
		run_report(&world, t->name, false);
		world_end(&world);
		return false;
	}
	for (uint32_t j = 0; j < t->pairs; j++) {
		for (int side = 0; side < 2; side++) {
			uint64_t got = b.each[side][j] - a.each[side][j];

			dead += !world.conn[j].qp[side] || world.conn[j].qp[side]->req.failed;
			least[side] = got < least[side] ? got : least[side];
		}
	}
	wide = (double)(b.wide - a.wide) / ceiling_bytes(WIDE, JUDGED_NS);
	thin = (double)(b.thin - a.thin) / ceiling_bytes(thin_bps, JUDGED_NS);
	control = (double)(b.control - a.control) * 8e9 / (double)(JUDGED_NS) / (double)thin_bps;
	ok = !dead && control <= t->control + SLACK && thin >= want && wide >= t->wide &&
	     (t->few || (least[0] && least[1]));
	printf("%-18s %u dead; of the wide way %.3f, wanted %.2f; of the thin one data %.3f, wanted %.2f, control "
	       "%.4f, at "
	       "most %.2f; the least of a pair %llu and %llu KiB: %s\n",
	       t->name, dead, wide, t->wide, thin, want, control, t->control + SLACK,
	       (unsigned long long)(least[1] >> 10), (unsigned long long)(least[0] >> 10), ok ? "ok" : "MISSED");
	fflush(stdout);
	world_end(&world);
	return ok;
}

static const char *name_of(size_t i)
{
	return runs[i].name;
}

int thin_run(const char *name)
{
	static const struct named_runs all = {
	    .option = "--thin", .n = sizeof(runs) / sizeof(runs[0]), .name = name_of, .run = run_nth};

	return named_run(&all, name, &world);
}
