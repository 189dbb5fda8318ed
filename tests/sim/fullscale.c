/* SPDX-License-Identifier: Apache-2.0 */
/* fullscale.c - 400 Gbit/s x 1000 km and other measurements.
 *
 * The payload ceiling of the framing: a datagram of `wan_payload_max` bytes has 16 bytes of header and a tag of 16;
 * what is between is filled with packets, each with 28 bytes in front of it, whole or in pieces. So each payload byte
 * costs on the line
 *
 *     (packet + 28) / payload  x  (datagram + overhead) / (datagram - 32)
 *
 * bytes, and the ceiling is the line rate divided by that. It assumes full datagrams and pieces that cost nothing
 * extra; "uncut" is the ceiling if packets were never cut: floor((datagram - 32) / (packet + 28)) of them in each. */
#include "fullscale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "scenario.h"
#include "proxy/wan/dgram/wan_frame.h"

#define GBIT 1000000000ull
#define STARTUP_RTTS 16 /* in which an adaptive controller finds the line: proxy/rate_auto.c */

struct full_run {
	const char *name;
	uint16_t pmtu;
	double loss;
	double burst; /* mean length of bursts of losses, all lost in one; 1: at random */
	double want;  /* share of the ceiling */
	enum rate_controller control;
	enum fec_mode fec;
};

static const struct full_run runs[] = {
    {"400g-1000km-4096", 4096, 0, 1, 0.98, RATE_fixed, FEC_OFF},
    {"400g-1000km-4096-loss0.1", 4096, 0.001, 1, 0.97, RATE_fixed, FEC_OFF},
    {"400g-1000km-4096-loss1", 4096, 0.01, 1, 0.92, RATE_fixed, FEC_OFF},
    {"400g-1000km-4096-loss0.1-burst8", 4096, 0.001, 8, 0.97, RATE_fixed, FEC_OFF},
    {"400g-1000km-4096-loss1-burst8", 4096, 0.01, 8, 0.92, RATE_fixed, FEC_OFF},
    {"400g-1000km-1024", 1024, 0, 1, 0.98, RATE_fixed, FEC_OFF},
    {"400g-1000km-1024-loss0.1", 1024, 0.001, 1, 0.97, RATE_fixed, FEC_OFF},
    {"400g-1000km-1024-loss1", 1024, 0.01, 1, 0.92, RATE_fixed, FEC_OFF},
    {"400g-1000km-auto", 4096, 0, 1, 0.97, RATE_auto, FEC_OFF},
    {"400g-1000km-auto-loss0.1", 4096, 0.001, 1, 0.97, RATE_auto, FEC_OFF},
    {"400g-1000km-auto-loss1", 4096, 0.01, 1, 0.90, RATE_auto, FEC_OFF},
    {"400g-1000km-fec", 4096, 0, 1, 0.98, RATE_fixed, FEC_AUTO},
    {"400g-1000km-fec-loss1", 4096, 0.01, 1, 0.92, RATE_fixed, FEC_AUTO},
    {"400g-1000km-fec-loss1-burst8", 4096, 0.01, 8, 0.92, RATE_fixed, FEC_AUTO},
    {"400g-1000km-auto-fec-loss1", 4096, 0.01, 1, 0.90, RATE_auto, FEC_AUTO},
};

static struct world world;

/* Bytes of a packet in a message of 64 KiB, on average: one in len/pmtu has a RETH. */
static double packet_bytes(uint16_t pmtu)
{
	return 20 + 8 + 12 + 4 + pmtu + 16.0 * pmtu / 65536;
}

double fullscale_ceiling_gbps(const struct world_cfg *c, uint16_t pmtu)
{
	double room = c->wan_payload_max - WAN_HDR_LEN - WAN_TAG_LEN;
	double wire = c->wan_payload_max + c->wan_overhead;

	return (double)c->pacer_bps / 1e9 * (pmtu / (packet_bytes(pmtu) + WAN_PACKET_OVERHEAD)) * (room / wire);
}

static double whole_ceiling_gbps(const struct world_cfg *c, uint16_t pmtu)
{
	double room = c->wan_payload_max - WAN_HDR_LEN - WAN_TAG_LEN;
	double each = packet_bytes(pmtu) + WAN_PACKET_OVERHEAD;
	double n = (double)(int)(room / each), wire = WAN_HDR_LEN + n * each + WAN_TAG_LEN + c->wan_overhead;

	return (double)c->pacer_bps / 1e9 * n * pmtu / wire;
}

static double datagram_ns(const struct world_cfg *c)
{
	return (c->wan_payload_max + c->wan_overhead) * 8e9 / (double)c->pacer_bps;
}

void fullscale_pace(struct world_cfg *c)
{
	c->pacer_burst_ns = (uint32_t)(PACER_BURST * datagram_ns(c));
}

double fullscale_burst(const struct world *w, bool *ok)
{
	double n = (double)w->wan[0].stats.queue_peak_ps / 1e3 / datagram_ns(&w->cfg);

	*ok = n <= PACER_BURST + CONTROL_BURST;
	return n;
}

/* Goodput at the responder from 3 RTT over 20 RTT. Negative: a violation. */
static double measure_gbps(struct scenario *s, double *burst, bool *smooth)
{
	uint64_t rtt_ns = world_cfg_rtt_ns(&s->cfg), from_bytes, bytes;

	world_start(&world, &s->cfg);
	world_run_until(&world, 3 * rtt_ns + rtt_ns * 3 / 2); /* QPNs cross first */
	if (s->cfg.control == RATE_auto)
		world_run_until(&world, world.q.now_ns + STARTUP_RTTS * rtt_ns);
	from_bytes = world.conn[0].qp[1]->resp.bytes_executed;
	world_run_until(&world, world.q.now_ns + 20 * rtt_ns);
	bytes = world.conn[0].qp[1]->resp.bytes_executed - from_bytes;
	*burst = fullscale_burst(&world, smooth);
	if (world.violation[0])
		run_report(&world, "full scale", s->cfg.direct);
	world_end(&world);
	return world.violation[0] ? -1 : (double)bytes * 8 / (20.0 * (double)rtt_ns);
}

static bool run_full(const struct full_run *f)
{
	struct scenario s;
	double direct, with, ceiling, burst, unpaced;
	bool smooth, any, ok;

	scenario_plain(&s, 400 * GBIT, 5000000, f->pmtu);
	link_lossy(&s.cfg.wan, f->loss, f->burst);
	s.cfg.control = f->control;
	s.cfg.fec.mode = f->fec;
	ceiling = fullscale_ceiling_gbps(&s.cfg, f->pmtu);
	fullscale_pace(&s.cfg);
	with = measure_gbps(&s, &burst, &smooth);
	s.cfg.direct = true;
	s.cfg.errors_allowed = true;
	direct = measure_gbps(&s, &unpaced, &any);
	ok = with >= f->want * ceiling && smooth;
	printf("%-32s %8.2f Gbit/s = %5.2f %% of the ceiling %6.2f (uncut packets %6.2f); direct %6.2f; ratio %5.1f; "
	       "wanted %.0f %%; bursts of at most %.1f datagrams, wanted %d: %s\n",
	       f->name, with, 100 * with / ceiling, ceiling, whole_ceiling_gbps(&s.cfg, f->pmtu), direct,
	       direct > 0 ? with / direct : 0, 100 * f->want, burst, PACER_BURST + CONTROL_BURST, ok ? "ok" : "MISSED");
	fflush(stdout);
	return ok;
}

static void prepare(bool log_packets)
{
	pktlog_init(&world.log, 1024);
	world.log_packets = log_packets;
	run_guard(&world);
}

int fullscale_run(const char *name)
{
	bool found = false, ok = true;

	prepare(false);
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		if (strcmp(name, "list") == 0)
			printf("%s\n", runs[i].name);
		if (strcmp(name, "all") != 0 && strcmp(name, runs[i].name) != 0)
			continue;
		found = true;
		ok &= run_full(&runs[i]);
	}
	world_free(&world);
	ok &= fullscale_paths(name, &found) == 0;
	if (!found && strcmp(name, "list") != 0) {
		fprintf(stderr, "lrsim: no full-scale run is called '%s'; try --full list\n", name);
		return 2;
	}
	return ok ? 0 : 1;
}

/* --- many queue pairs --- */

static uint32_t count_paired(const struct world *w)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->edge[0].nshards; i++) {
		struct proxy_flow_status st;
		uint32_t cursor = 0;

		while (proxy_flow_next(w->edge[0].shard[i].p, &cursor, &st))
			n += st.side == FLOW_NEAR && st.pairing == PAIR_CONFIRMED;
	}
	return n;
}

int fullscale_many_qps(uint32_t n)
{
	struct conn_cfg *conn = calloc(n ? n : 1, sizeof(*conn));
	struct scenario s;
	uint32_t paired;

	if (!conn || n == 0 || n > 16384) {
		fprintf(stderr, "lrsim: --many-qps takes 1 to 16384\n");
		free(conn);
		return 2;
	}
	scenario_plain(&s, 100 * GBIT, 1500000, 4096);
	s.cfg.conn = conn;
	s.cfg.nconns = n;
	s.cfg.max_flows = 16 * n + 64; /* so that one source may have them all open without a pair */
	s.cfg.deadline_ns = 120 * GBIT;
	for (uint32_t i = 0; i < n; i++) {
		conn[i] = s.conn[0];
		conn[i].depth[0] = conn[i].depth[1] = 8;
		conn[i].plan[0] = (struct msg_plan){.nmsgs = 20, .len_min = 64, .len_max = 20000};
		conn[i].plan[1] = conn[i].plan[0];
		conn[i].pause_ns = 200000000;
	}
	prepare(true);
	world_start(&world, &s.cfg);
	world_run(&world);
	if (world.violation[0])
		run_report(&world, "many queue pairs", false);
	paired = count_paired(&world);
	printf("many-qps: %u queue pairs from PSN 0, QPNs equal at both ends: %u flows paired at edge A, done at %.3f "
	       "ms: %s\n",
	       n, paired, (double)world.done_ns / 1e6, world.violation[0] ? "FAILED" : "ok");
	world_end(&world);
	world_free(&world);
	free(conn);
	return world.violation[0] ? 1 : 0;
}

/* --- latency --- */

static double latency_us(enum ack_mode mode, uint64_t km, double *max_us)
{
	struct scenario s;
	const struct conn *c = &world.conn[0];
	double us;

	scenario_plain(&s, 100 * GBIT, km * 5000 + 1000, 4096);
	s.cfg.mode = mode;
	s.cfg.deadline_ns = 60 * GBIT;
	s.conn[0].depth[0] = 1;
	s.conn[0].plan[0] = (struct msg_plan){.nmsgs = 1000, .len_min = 4096, .len_max = 4096};
	world_start(&world, &s.cfg);
	c = &world.conn[0];
	world_run(&world);
	us = (double)c->latency_sum_ns / 1e3 / 1000;
	*max_us = (double)c->latency_max_ns / 1e3;
	if (world.violation[0])
		run_report(&world, "latency", false);
	world_end(&world);
	return world.violation[0] ? -1 : us;
}

int fullscale_latency(void)
{
	static const uint64_t km[] = {0, 100, 300, 1000, 3000};
	bool ok = true;

	prepare(true);
	printf("completion latency of 4 KiB WRITEs, one at a time, us (mean / worst):\n%8s %22s %22s\n", "km", "near",
	       "host");
	for (size_t i = 0; i < sizeof(km) / sizeof(km[0]); i++) {
		double near_max, host_max, near = latency_us(ACK_MODE_NEAR, km[i], &near_max);
		double host = latency_us(ACK_MODE_HOST, km[i], &host_max);

		printf("%8llu %10.1f / %9.1f %10.1f / %9.1f\n", (unsigned long long)km[i], near, near_max, host,
		       host_max);
		ok &= near >= 0 && host >= 0;
	}
	world_free(&world);
	return ok ? 0 : 1;
}
