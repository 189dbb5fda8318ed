/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * 256 queue pairs of 32 hosts write to one host, without end.
 *
 *     32 hosts --100G--+                                                    +--100G--> host 0
 *        ...           switch --400G--> edge A ==200G==> edge B --400G--> switch
 *     8 queue pairs each                                               shallow queues
 *
 * Every switch drops the tail and marks with ECN as it is set up for DCQCN; NICs answer marks with CNPs and obey those
 * that they get. So there are two incasts: into edge A's port, where edge A must answer the marks, and into the port of
 * host 0, where edge B is the only sender and must obey.
 *
 * Measured from when the queue pairs are paired and the windows have settled. */
#include "incast.h"

#include <stdio.h>

#include "named.h"
#include "runner.h"
#include "scenario.h"

#define GBIT    1000000000ull
#define MSEC    1000000ull
#define HOSTS   32
#define QPS     256
#define PORT    (100 * GBIT)
#define FROM_NS (30 * MSEC)
#define TO_NS   (70 * MSEC)

#define JAIN_WANTED  0.9
#define SHARE_WANTED 0.95
#define SLOWEST_WANTED 0.8 /* of an equal share */
#define DROPS_MOST   10 /* at either port, once the windows have settled: of 120,000 packets */

static const uint64_t queues[] = {200 << 10, 500 << 10, 1 << 20};

static struct world world;

static void prepare(struct scenario *s, struct conn_cfg *conn, uint64_t queue_bytes)
{
	struct world_cfg *c = &s->cfg;

	scenario_plain(s, 200 * GBIT, 250000, 4096);
	c->nhosts[0] = HOSTS;
	for (uint32_t h = 0; h < HOSTS; h++)
		c->model[0][h] = &host_model_cx;
	scenario_shallow_ports(c, PORT, queue_bytes);
	c->max_flows = 4096;
	c->conn = conn;
	c->nconns = QPS;
	for (uint32_t i = 0; i < QPS; i++) {
		conn[i] = s->conn[0];
		conn[i].host[0] = (uint8_t)(i % HOSTS);
		conn[i].tos = 26 << 2 | 2; /* ECT(0) */
		conn[i].depth[0] = 16;
		conn[i].open_ns = i * 20000; /* else each sends all it may into nothing before anybody is paired */
	}
}

static bool run_one(uint64_t queue_bytes)
{
	struct scenario s;
	struct conn_cfg conn[QPS];
	struct crowd_seen seen;
	uint64_t hosts_cut = 0;
	double ceiling, share;
	bool ok;

	prepare(&s, conn, queue_bytes);
	ceiling = (double)PORT * 4096 / (4096 + 44 + 16.0 * 4096 / 65536 + s.cfg.lan.overhead_bytes);
	world_start(&world, &s.cfg);
	world_run_until(&world, FROM_NS);
	if (!world.violation[0])
		crowd_mark(&world);
	world_run_until(&world, TO_NS);
	if (world.violation[0]) {
		run_report(&world, "incast", false);
		world_end(&world);
		return false;
	}
	for (uint32_t i = 0; i < QPS; i++)
		hosts_cut += world.conn[i].qp[0]->rp.cuts;
	crowd_see(&world, &seen);
	share = (double)seen.bytes * 8e9 / ((double)(TO_NS - FROM_NS) * ceiling);
	ok = seen.jain >= JAIN_WANTED && share >= SHARE_WANTED && seen.slowest >= SLOWEST_WANTED &&
	     seen.dropped_in <= DROPS_MOST && seen.dropped_out <= DROPS_MOST;
	printf(
	    "incast, queue %4llu KiB: Jain %.3f (wanted %.2f), slowest %3.0f %% of its share (%.0f %%), port %5.1f %% "
	    "(%.0f %%), no QP lost;\n",
	    (unsigned long long)(queue_bytes >> 10), seen.jain, JAIN_WANTED, 100 * seen.slowest, 100 * SLOWEST_WANTED,
	    100 * share, 100 * SHARE_WANTED);
	printf("  edge B: %llu CNPs obeyed, %llu sent again, %llu timeouts; port of host 0: %llu dropped (at most %d), "
	       "queue up to %llu KiB\n",
	       (unsigned long long)edge_counter(&world.edge[1], CTR_CNPS_RX),
	       (unsigned long long)edge_counter(&world.edge[1], CTR_LAN_RETRIES),
	       (unsigned long long)edge_counter(&world.edge[1], CTR_LAN_TIMEOUTS), (unsigned long long)seen.dropped_out,
	       DROPS_MOST, (unsigned long long)(world.down[1][0].stats.queue_most_bytes >> 10));
	printf("  edge A: %llu CNPs said, %llu obeyed by hosts, %llu RNR NAKs; its port: %llu dropped "
	       "(at most %d): %s\n",
	       (unsigned long long)edge_counter(&world.edge[0], CTR_CNPS_TX), (unsigned long long)hosts_cut,
	       (unsigned long long)edge_counter(&world.edge[0], CTR_RNR_NAKS_TX), (unsigned long long)seen.dropped_in,
	       DROPS_MOST, ok ? "ok" : "MISSED");
	fflush(stdout);
	world_end(&world);
	return ok;
}

static bool run_nth(size_t i)
{
	return run_one(queues[i]);
}

int incast_run(void)
{
	static const struct named_runs all = {.n = sizeof(queues) / sizeof(queues[0]), .run = run_nth};

	return named_run(&all, "all", &world);
}
