/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * One side takes chunks of 4 KiB of data on one channel whenever the core gives a slot, the other executes them at once.
 * The ceiling is what datagrams full of such chunks leave of the line's rate. The edges have the memory that the daemon
 * takes by itself, and the relay the part of it that is the default. */
#include "relay_rate.h"

#include <stdio.h>
#include <string.h>

#include "daemon/relay/relay_wire.h"
#include "headroom/headroom.h"
#include "proxy/wan/dgram/wan_frame.h"
#include "runner.h"
#include "scenario.h"

#define GBIT      1000000000ull
#define WARM_RTTS 6
#define LOOK_RTTS 12

static const struct rate_row {
	const char *name;
	uint64_t rate, one_way_ns;
	double loss, want; /* share of the ceiling */
} rows[] = {
    {"10g-300km", 10 * GBIT, 1500000, 0, 0.97},
    {"10g-300km-loss1", 10 * GBIT, 1500000, 0.01, 0.9},
    {"100g-1000km", 100 * GBIT, 5000000, 0, 0.97},
    {"100g-1000km-loss1", 100 * GBIT, 5000000, 0.01, 0.9},
    {"400g-1000km", 400 * GBIT, 5000000, 0, 0.97},
    {"400g-1000km-loss1", 400 * GBIT, 5000000, 0.01, 0.9},
};

static struct world world;

/* Data bytes of a byte on the wire, in datagrams that are full. */
static double efficiency(const struct world_cfg *c)
{
	uint32_t chunk = RELAY_HEAD_LEN + RELAY_DATA_MAX + WAN_PACKET_OVERHEAD,
	         room = (uint32_t)c->wan_payload_max - WAN_HDR_LEN - WAN_TAG_LEN, n = room / chunk;

	return (double)(n * RELAY_DATA_MAX) / (double)(n * chunk + WAN_HDR_LEN + WAN_TAG_LEN + c->wan_overhead);
}

static bool run_row(const struct rate_row *row)
{
	struct scenario s;
	uint64_t rtt, bytes;
	double ceiling, share;
	bool sound;

	scenario_plain(&s, row->rate, row->one_way_ns, 4096);
	s.cfg.wan.loss = row->loss;
	s.cfg.nconns = 0;
	s.cfg.relay_channels = 1;
	s.cfg.relay_bulk = true;
	s.cfg.arena_len = headroom_deep_arena_bytes(row->rate, 2 * row->one_way_ns);
	rtt = world_cfg_rtt_ns(&s.cfg);
	world_start(&world, &s.cfg);
	world_run_until(&world, WARM_RTTS * rtt);
	bytes = world.relay.bytes;
	world_run_until(&world, (WARM_RTTS + LOOK_RTTS) * rtt);
	bytes = world.relay.bytes - bytes;
	sound = world.violation[0] == 0;
	if (!sound)
		run_report(&world, row->name, false);
	world_end(&world);
	ceiling = (double)row->rate / 1e9 * efficiency(&s.cfg);
	share = (double)bytes * 8 / (double)(LOOK_RTTS * rtt) / ceiling;
	printf("%-4s %-20s %8.2f Gbit/s of data, %.3f of %.2f (at least %.2f)\n", sound && share >= row->want ? "ok" : "FAIL",
	       row->name, share * ceiling, share, ceiling, row->want);
	fflush(stdout);
	return sound && share >= row->want;
}

int relay_rate_run(const char *name)
{
	int failed = 0, known = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strcmp(name, "list") == 0)
			puts(rows[i].name);
		else if (strcmp(name, "all") == 0 || strcmp(name, rows[i].name) == 0)
			failed += !run_row(&rows[i]);
		else
			continue;
		known++;
	}
	world_free(&world);
	if (!known)
		fprintf(stderr, "lrsim: no such run: %s\n", name);
	return failed || !known;
}
