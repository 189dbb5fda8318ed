/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Three hosts at each site, each with queue pairs to each of the other site, all hosts faster than the line: both edges
 * hold as much as they may in both directions, towards host 0 of B and from it, too. Then that host stands still, and
 * later goes on. The same world runs twice more: with that host never standing still, and without its queue pairs.
 *
 *     A0 A1 A2 <===> edge A <====> edge B <===> B0 (stands still) B1 B2
 *
 * While it stands still every queue pair between the others keeps 90 % of what it has while it does not. They could
 * have more, as nothing is executed at B0 now; but what is sent to it is still carried until its credit is used up, in
 * turns with the others of its lane, so beside the world without it they have a little less. A fifth of a second after
 * it goes on, every queue pair of that host goes on as well, none was lost, and the line is full again: nothing waits
 * for something that waits for it. */
#include "frozen.h"

#include <stdio.h>
#include <stdlib.h>

#include "fullscale.h"
#include "named.h"
#include "runner.h"
#include "scenario.h"

#define GBIT      1000000000ull
#define MSEC      1000000ull
#define HOSTS     3
#define EACH      2 /* queue pairs of each pair of hosts and direction */
#define RATE      (10 * GBIT)
#define FROZEN_NS (30 * MSEC)
#define FROM_NS   (50 * MSEC) /* measured from here ... */
#define TO_NS     (130 * MSEC) /* ... to here, when it goes on */
#define AGAIN_NS  (330 * MSEC) /* and again from here */
#define END_NS    (370 * MSEC)
#define WANTED    0.9
#define WANTED_WITHOUT 0.85

struct frozen {
	const char *name;
	enum ack_mode mode;
};

static const struct frozen runs[] = {
    {"near", ACK_MODE_NEAR},
    {"far", ACK_MODE_FAR},
    {"host", ACK_MODE_HOST},
};

static struct world world;

struct measured {
	uint64_t bytes[2 * HOSTS * HOSTS * EACH];
	double full[2]; /* percent of the edges' pools, the fuller one of each */
};

static bool of_frozen(const struct conn_cfg *c)
{
	return c->host[1] == 0;
}

static uint32_t fill(const struct scenario *s, struct conn_cfg *conn, bool with)
{
	uint32_t n = 0;

	for (int from = 0; from < 2; from++)
		for (uint32_t i = 0; i < HOSTS * HOSTS * EACH; i++) {
			struct conn_cfg c = s->conn[0];

			c.host[0] = (uint8_t)(i % HOSTS);
			c.host[1] = (uint8_t)(i / HOSTS % HOSTS);
			c.tos = 26 << 2 | 2;
			c.plan[1] = (struct msg_plan){0};
			if (from) {
				c.plan[1] = c.plan[0];
				c.plan[0] = (struct msg_plan){0};
			}
			if (with || !of_frozen(&c))
				conn[n++] = c;
		}
	return n;
}

static void note_pools(struct measured *m)
{
	for (int site = 0; site < 2; site++) {
		struct proxy_link_status st;

		proxy_link_status(world.edge[site].shard[0].p, world.q.now_ns, &st);
		m->full[site] = 0;
		for (int pool = 0; pool < POOL_COUNT; pool++) {
			double full = 100.0 * (double)st.pool_used[pool] / (double)st.pool_capacity[pool];

			m->full[site] = full > m->full[site] ? full : m->full[site];
		}
	}
}

static void freeze(void *obj, uint64_t for_ns)
{
	host_freeze(obj, for_ns);
}

/* What each has executed between the two times. */
static void measure(struct measured *m, uint64_t from_ns, uint64_t to_ns)
{
	world_run_until(&world, from_ns);
	for (uint32_t i = 0; i < world.nconns; i++)
		m->bytes[i] = conn_bytes_executed(&world.conn[i]);
	note_pools(m);
	world_run_until(&world, to_ns);
	for (uint32_t i = 0; i < world.nconns; i++)
		m->bytes[i] = conn_bytes_executed(&world.conn[i]) - m->bytes[i];
}

enum host_0 { ABSENT, RUNNING, FREEZES };

static void start(const struct frozen *f, struct scenario *s, struct conn_cfg *conn, enum host_0 host_0)
{
	struct world_cfg *c = &s->cfg;

	scenario_plain(s, RATE, 1500000, 4096);
	c->mode = f->mode;
	c->nhosts[0] = c->nhosts[1] = HOSTS;
	for (int site = 0; site < 2; site++)
		for (int h = 0; h < HOSTS; h++)
			c->model[site][h] = &host_model_cx;
	c->lan.mark_from_bytes = 100 << 10;
	c->lan.mark_to_bytes = 400 << 10;
	c->chunk_size = 256 << 10;
	c->max_flows = 256;
	c->conn = conn;
	c->nconns = fill(s, conn, host_0 != ABSENT);
	world_start(&world, c);
	if (host_0 == FREEZES)
		eventq_at(&world.q, FROZEN_NS, freeze, &world.host[1][0], TO_NS - FROZEN_NS);
}

/* The least that one of the others keeps of what it has in another world; `all`: that world has host 0. */
static double worst_kept(const struct conn_cfg *conn, const struct measured *m, const struct measured *other, bool all)
{
	double worst = 1e9;

	for (uint32_t i = 0, k = 0; i < 2 * HOSTS * HOSTS * EACH; i++) {
		double kept;

		if (of_frozen(&conn[i]))
			continue;
		kept = (double)m->bytes[i] / ((double)other->bytes[all ? i : k++] + 1);
		worst = kept < worst ? kept : worst;
	}
	return worst;
}

/* Share of the line, in the worse direction; *stuck: queue pairs that do not go on. */
static double line_share(const struct conn_cfg *conn, const struct scenario *s, const struct measured *m,
                         uint32_t *stuck)
{
	double line = fullscale_ceiling_gbps(&s->cfg, 4096) / 8 * (double)(END_NS - AGAIN_NS), share[2] = {0, 0};

	*stuck = 0;
	for (uint32_t i = 0; i < 2 * HOSTS * HOSTS * EACH; i++) {
		share[conn[i].plan[0].nmsgs == 0] += (double)m->bytes[i] / line;
		*stuck += m->bytes[i] == 0;
	}
	return share[0] < share[1] ? share[0] : share[1];
}

static bool run_one(const struct frozen *f)
{
	struct conn_cfg conn[2 * HOSTS * HOSTS * EACH];
	struct measured without, running, frozen, again;
	struct scenario s;
	double kept, kept_without, share;
	uint32_t stuck;
	bool ok;

	start(f, &s, conn, ABSENT);
	measure(&without, FROM_NS, TO_NS);
	world_end(&world);
	start(f, &s, conn, RUNNING);
	measure(&running, FROM_NS, TO_NS);
	world_end(&world);
	start(f, &s, conn, FREEZES);
	measure(&frozen, FROM_NS, TO_NS);
	measure(&again, AGAIN_NS, END_NS);
	kept = worst_kept(conn, &frozen, &running, true);
	kept_without = worst_kept(conn, &frozen, &without, false);
	share = line_share(conn, &s, &again, &stuck);
	ok = !world.violation[0] && kept >= WANTED && kept_without >= WANTED_WITHOUT && share >= WANTED && stuck == 0;
	if (world.violation[0])
		run_report(&world, f->name, false);
	printf("frozen host, %-4s pools up to %2.0f and %2.0f %% full; the worst of the others keeps %5.1f %% (wanted "
	       "%.0f), "
	       "%5.1f %% of what it has without that host (%.0f); then %u QPs stand still, the line is %5.1f %% full "
	       "(%.0f): "
	       "%s\n",
	       f->name, frozen.full[0], frozen.full[1], 100 * kept, 100 * WANTED, 100 * kept_without,
	       100 * WANTED_WITHOUT, stuck, 100 * share, 100 * WANTED, ok ? "ok" : "MISSED");
	fflush(stdout);
	world_end(&world);
	return ok;
}

static bool run_nth(size_t i)
{
	return run_one(&runs[i]);
}

int frozen_run(void)
{
	static const struct named_runs all = {.n = sizeof(runs) / sizeof(runs[0]), .run = run_nth};

	return named_run(&all, "all", &world);
}
