/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Responders that die with the edges full of their bytes must cost the others nothing. The same world runs twice: with
 * the flows that die, and without them; what the others deliver in the same time is compared, flow by flow.
 *
 *     host 0 of A  -- dying, old, new -->  host 0 of B       and the same from B to A, at the same time:
 *     host 1 of A  -- old, new -------->   host 1 of B       both edges are full in both directions
 *
 * A dying flow's responder (a queue pair whose process was killed) answers nothing from its time on; its requester goes
 * on until its retries are used up. Old flows were there before, new ones open afterwards: between the very hosts of
 * the dead ones, and between others. */
#include "fair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "named.h"
#include "runner.h"
#include "scenario.h"

#define GBIT 1000000000ull
#define MSEC 1000000ull

struct fair {
	const char *name;
	enum ack_mode mode;
	uint32_t dying;          /* in each direction */
	uint64_t every_ns;       /* one after the other; 0: all at once */
	uint64_t new_ns;         /* the new ones open ... */
	uint64_t from_ns, to_ns; /* ... and in that time is measured */
	uint32_t chunks;         /* of the arena, beside what it needs at least; 0: as many as the line asks for */
	uint32_t percent;        /* of their rate that the others must keep */
};

static const struct fair runs[] = {
    {"dead-near", ACK_MODE_NEAR, 32, 0, 60 * MSEC, 80 * MSEC, 160 * MSEC, 0, 90},
    {"dead-host", ACK_MODE_HOST, 32, 0, 60 * MSEC, 80 * MSEC, 160 * MSEC, 0, 90},
    /* an arena of two round trips' worth, and dead flows that would have all of it */
    {"dead-small", ACK_MODE_NEAR, 48, 0, 60 * MSEC, 80 * MSEC, 160 * MSEC, 128, 40},
    {"dead-one-by-one", ACK_MODE_NEAR, 16, 5 * MSEC, 110 * MSEC, 130 * MSEC, 200 * MSEC, 0, 90},
};

#define EACH    4 /* old and new flows of each pair of hosts and direction */
#define DIES_NS (30 * MSEC)

static struct world world;

struct measured {
	uint32_t n;
	bool is_new[4 * 2 * EACH];
	uint64_t bytes[4 * 2 * EACH]; /* per flow that lives */
	uint64_t held[2][POOL_COUNT], capacity[2][POOL_COUNT];
};

static struct conn_cfg one_way(const struct scenario *s, uint8_t host, int from)
{
	struct conn_cfg c = s->conn[0];

	c.host[0] = c.host[1] = host;
	c.plan[!from] = (struct msg_plan){0};
	c.plan[from] = s->conn[0].plan[0];
	return c;
}

static uint32_t fill(const struct fair *f, const struct scenario *s, struct conn_cfg *conn, bool with_dying)
{
	uint32_t n = 0;

	for (int from = 0; from < 2; from++)
		for (uint8_t host = 0; host < 2; host++)
			for (int i = 0; i < 2 * EACH; i++, n++) {
				conn[n] = one_way(s, host, from);
				conn[n].open_ns = i < EACH ? 0 : f->new_ns;
			}
	for (uint32_t i = 0; i < 2 * f->dying && with_dying; i++, n++) {
		conn[n] = one_way(s, 0, i % 2 ? 1 : 0);
		conn[n].dies_ns = DIES_NS + i / 2 * f->every_ns;
	}
	return n;
}

static void note_pools(struct measured *m)
{
	for (int site = 0; site < 2; site++) {
		struct proxy_link_status st;

		proxy_link_status(world.edge[site].shard[0].p, world.q.now_ns, &st);
		for (int pool = 0; pool < POOL_COUNT; pool++) {
			m->held[site][pool] = st.pool_used[pool];
			m->capacity[site][pool] = st.pool_capacity[pool];
		}
	}
}

/* False: a violation. */
static bool measure(const struct fair *f, bool with_dying, struct measured *m)
{
	struct scenario s;
	struct conn_cfg *conn = calloc(4 * 2 * EACH + 2 * f->dying, sizeof(*conn));
	bool ok;

	if (!conn)
		exit(2);
	scenario_plain(&s, 40 * GBIT, 1500000, 4096);
	s.cfg.mode = f->mode;
	s.cfg.nhosts[0] = s.cfg.nhosts[1] = 2;
	s.cfg.model[0][1] = s.cfg.model[1][1] = &host_model_cx;
	s.cfg.chunk_size = 256 << 10;
	s.cfg.max_flows = 256;
	s.cfg.arena_chunks = f->chunks;
	s.cfg.conn = conn;
	s.cfg.nconns = fill(f, &s, conn, with_dying);
	world_start(&world, &s.cfg);
	world_run_until(&world, f->from_ns);
	m->n = 4 * 2 * EACH;
	for (uint32_t i = 0; i < m->n; i++) {
		m->is_new[i] = conn[i].open_ns > 0;
		m->bytes[i] = conn_bytes_executed(&world.conn[i]);
	}
	note_pools(m);
	world_run_until(&world, f->to_ns);
	for (uint32_t i = 0; i < m->n; i++)
		m->bytes[i] = conn_bytes_executed(&world.conn[i]) - m->bytes[i];
	ok = world.violation[0] == 0;
	if (!ok)
		run_report(&world, f->name, false);
	world_end(&world);
	free(conn);
	return ok;
}

static void sums(const struct measured *m, uint64_t *old, uint64_t *new)
{
	*old = *new = 0;
	for (uint32_t i = 0; i < m->n; i++)
		*(m->is_new[i] ? new : old) += m->bytes[i];
}

static bool run_dead(const struct fair *f)
{
	struct measured with, without;
	uint64_t old[2], new[2];
	double worst = 1e9, wanted = f->percent / 100.0, old_ratio, new_ratio;
	bool ok;

	if (!measure(f, false, &without) || !measure(f, true, &with))
		return false;
	sums(&without, &old[0], &new[0]);
	sums(&with, &old[1], &new[1]);
	for (uint32_t i = 0; i < with.n; i++) {
		double r = (double)with.bytes[i] / ((double)without.bytes[i] + 1);

		worst = r < worst ? r : worst;
	}
	old_ratio = (double)old[1] / ((double)old[0] + 1);
	new_ratio = (double)new[1] / ((double)new[0] + 1);
	ok = old_ratio >= wanted && new_ratio >= wanted && worst >= wanted;
	printf("%-16s %u dead flows each way; pools before measuring, %% full: A %2.0f %2.0f, B %2.0f %2.0f; of their "
	       "rate "
	       "keep old flows %5.1f %%, new ones %5.1f %%, the worst %5.1f %%; wanted %u %%: %s\n",
	       f->name, f->dying, 100.0 * (double)with.held[0][0] / (double)with.capacity[0][0],
	       100.0 * (double)with.held[0][1] / (double)with.capacity[0][1],
	       100.0 * (double)with.held[1][0] / (double)with.capacity[1][0],
	       100.0 * (double)with.held[1][1] / (double)with.capacity[1][1], 100 * old_ratio, 100 * new_ratio,
	       100 * worst, f->percent, ok ? "ok" : "MISSED");
	fflush(stdout);
	return ok;
}

static const char *name_of(size_t i)
{
	return runs[i].name;
}

static bool run_nth(size_t i)
{
	return run_dead(&runs[i]);
}

int fair_run(const char *name)
{
	static const struct named_runs all = {
	    .option = "--fair", .n = sizeof(runs) / sizeof(runs[0]), .name = name_of, .run = run_nth};

	return named_run(&all, name, &world);
}
