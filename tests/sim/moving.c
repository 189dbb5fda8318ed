/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * One queue pair of WRITEs in mode near over a line that changes once, in both directions, with the core of both edges.
 * What it carries is compared with the payload ceiling of the line as it is then.
 *
 *   step      RateControl=auto. The rate or the round trip changes at STEP_NS. From SETTLE_RTTS round trips after that,
 *             at least SETTLE_NS, for JUDGED_NS at least WANT of what is possible is carried and less than WANT_LOST of
 *             the datagrams overflow the queue. From the step on, less than HALF of it is carried for no longer than
 *             HALF_NS, or HALF_RTTS round trips where that is more: auto probes every 1.5 s, and a probe adds a quarter
 *             each round trip. The queue holds two products of the larger rate and the larger round trip, so a line
 *             that becomes ten times slower has twenty. The one of "satellite" holds five seconds.
 *   policer   What is above half of the rate and a bucket is dropped, from the beginning on: the same figures. A
 *             policer has no queue.
 *   paused    The machine of the far edge stands still for five seconds. A second after that the same figures, and it
 *             has not said that the line was dead.
 *   idle      Nobody sends for ten minutes, then all at once: from a second on the same.
 *   lossy     30 % of all datagrams are lost for a minute: at least LOSSY_SHARE (auto: LOSSY_AUTO) of what is left of
 *             the line meanwhile, no queue pair dies, and a second after it the same figures.
 *   reorder   The same share of the datagrams is late by up to so much, and nothing is lost. At least WANT_ORDER of
 *             what is carried without that, and the loss that status shows stays below WANT_PPM. */
#include "moving.h"

#include <string.h>

#include "fullscale.h"
#include "runner.h"
#include "scenario.h"

#define MBIT        1000000ull
#define USEC        1000ull
#define MSEC        1000000ull
#define SEC         1000000000ull
#define PMTU        4096
#define TRACE_NS    (20 * MSEC)
#define STEP_NS     (8 * SEC)
#define SETTLE_RTTS 20
#define SETTLE_NS   (1 * SEC)
#define JUDGED_NS   (10 * SEC)
#define SLICE_NS    (100 * MSEC)
#define WANT        0.9
#define WANT_LOST   0.05
#define HALF        0.5
#define HALF_NS     (2 * SEC)
#define HALF_RTTS   12
#define WANT_ORDER  0.95
#define WANT_PPM    1000
#define ORDER_NS    (6 * SEC)
#define PAUSED_NS   (5 * SEC)
#define IDLE_NS     (600 * SEC)
#define LOSSY_NS    (60 * SEC)
#define LOSS_SHARE  0.3
#define LOSSY_SHARE 0.5 /* of what is left, at a fixed rate; auto takes it for congestion: */
#define LOSSY_AUTO  0.1
#define PATIENT_NS  (200 * MSEC) /* from there on no NIC waits for who answers to be found out: CM tells */

struct line {
	uint64_t bps, rtt_ns;
};

static const struct moving {
	const char *name;
	struct line before, after;
	uint64_t jitter_ns;   /* of each datagram */
	uint64_t queue_bytes; /* 0: two products */
	/* reordering, instead of a step */
	double reorder;
	uint64_t reorder_ns;
	enum rate_controller control;
	/* what happens at STEP_NS and is over LASTS_NS later, instead of a step */
	enum happens { NOTHING, POLICED, PAUSED, IDLE, LOSSY } happens;
	uint64_t bucket_bytes; /* of a policer to half of the rate */
} runs[] = {
    {.name = "step-rate-1000-500",
     .before = {1000 * MBIT, 10 * MSEC},
     .after = {500 * MBIT, 10 * MSEC},
     .control = RATE_auto},
    {.name = "step-rate-1000-100",
     .before = {1000 * MBIT, 10 * MSEC},
     .after = {100 * MBIT, 10 * MSEC},
     .control = RATE_auto},
    {.name = "step-rate-1000-10",
     .before = {1000 * MBIT, 10 * MSEC},
     .after = {10 * MBIT, 10 * MSEC},
     .control = RATE_auto},
    {.name = "step-rate-400-40",
     .before = {400 * MBIT, 10 * MSEC},
     .after = {40 * MBIT, 10 * MSEC},
     .control = RATE_auto},
    {.name = "step-rate-1000-100-short",
     .before = {1000 * MBIT, 10 * MSEC},
     .after = {100 * MBIT, 10 * MSEC},
     .queue_bytes = 125000,
     .control = RATE_auto},
    {.name = "step-rate-1000-100-middle",
     .before = {1000 * MBIT, 10 * MSEC},
     .after = {100 * MBIT, 10 * MSEC},
     .queue_bytes = 625000,
     .control = RATE_auto},
    {.name = "step-rate-400-40-short",
     .before = {400 * MBIT, 10 * MSEC},
     .after = {40 * MBIT, 10 * MSEC},
     .queue_bytes = 250000,
     .control = RATE_auto},
    {.name = "step-rate-500-1000",
     .before = {500 * MBIT, 10 * MSEC},
     .after = {1000 * MBIT, 10 * MSEC},
     .control = RATE_auto},
    {.name = "step-rate-100-1000",
     .before = {100 * MBIT, 10 * MSEC},
     .after = {1000 * MBIT, 10 * MSEC},
     .control = RATE_auto},
    {.name = "step-rate-10-1000",
     .before = {10 * MBIT, 10 * MSEC},
     .after = {1000 * MBIT, 10 * MSEC},
     .control = RATE_auto},
    {.name = "step-delay-400", .before = {400 * MBIT, 1 * MSEC}, .after = {400 * MBIT, 5 * MSEC}, .control = RATE_auto},
    {.name = "step-delay-1000",
     .before = {1000 * MBIT, MSEC / 2},
     .after = {1000 * MBIT, 5 * MSEC},
     .control = RATE_auto},
    {.name = "step-delay-1000-jitter",
     .before = {1000 * MBIT, MSEC / 2},
     .after = {1000 * MBIT, 5 * MSEC},
     .jitter_ns = 30 * USEC,
     .control = RATE_auto},
    {.name = "step-delay-5-10",
     .before = {400 * MBIT, 5 * MSEC},
     .after = {400 * MBIT, 10 * MSEC},
     .control = RATE_auto},
    {.name = "step-delay-10-5",
     .before = {400 * MBIT, 10 * MSEC},
     .after = {400 * MBIT, 5 * MSEC},
     .control = RATE_auto},
    {.name = "step-delay-1-10",
     .before = {400 * MBIT, 1 * MSEC},
     .after = {400 * MBIT, 10 * MSEC},
     .control = RATE_auto},
    {.name = "step-delay-10-1",
     .before = {400 * MBIT, 10 * MSEC},
     .after = {400 * MBIT, 1 * MSEC},
     .control = RATE_auto},
    {.name = "step-delay-1-100",
     .before = {400 * MBIT, 1 * MSEC},
     .after = {400 * MBIT, 100 * MSEC},
     .control = RATE_auto},
    {.name = "step-delay-100-1",
     .before = {400 * MBIT, 100 * MSEC},
     .after = {400 * MBIT, 1 * MSEC},
     .control = RATE_auto},
    {.name = "step-rate-300ms",
     .before = {400 * MBIT, 300 * MSEC},
     .after = {100 * MBIT, 300 * MSEC},
     .control = RATE_auto},
    {.name = "step-up-300ms",
     .before = {100 * MBIT, 300 * MSEC},
     .after = {400 * MBIT, 300 * MSEC},
     .control = RATE_auto},
    {.name = "step-delay-600-300ms",
     .before = {100 * MBIT, 600 * MSEC},
     .after = {100 * MBIT, 300 * MSEC},
     .control = RATE_auto},
    {.name = "satellite",
     .before = {100 * MBIT, 600 * MSEC},
     .after = {50 * MBIT, 600 * MSEC},
     .queue_bytes = 62500000,
     .control = RATE_auto},
    {.name = "policer-small",
     .before = {400 * MBIT, 10 * MSEC},
     .happens = POLICED,
     .bucket_bytes = 50000,
     .control = RATE_auto},
    {.name = "policer-large",
     .before = {400 * MBIT, 10 * MSEC},
     .happens = POLICED,
     .bucket_bytes = 10000000,
     .control = RATE_auto},
    {.name = "paused-fixed", .before = {400 * MBIT, 10 * MSEC}, .happens = PAUSED, .control = RATE_fixed},
    {.name = "paused-auto", .before = {400 * MBIT, 10 * MSEC}, .happens = PAUSED, .control = RATE_auto},
    {.name = "idle-auto", .before = {400 * MBIT, 10 * MSEC}, .happens = IDLE, .control = RATE_auto},
    {.name = "lossy-fixed", .before = {400 * MBIT, 10 * MSEC}, .happens = LOSSY, .control = RATE_fixed},
    {.name = "lossy-auto", .before = {400 * MBIT, 10 * MSEC}, .happens = LOSSY, .control = RATE_auto},
    {.name = "reorder-fixed",
     .before = {400 * MBIT, 3 * MSEC},
     .reorder = 0.5,
     .reorder_ns = 2500 * USEC,
     .control = RATE_fixed},
    {.name = "reorder-auto",
     .before = {400 * MBIT, 3 * MSEC},
     .reorder = 0.5,
     .reorder_ns = 2500 * USEC,
     .control = RATE_auto},
    {.name = "reorder-rtt",
     .before = {400 * MBIT, 3 * MSEC},
     .reorder = 0.5,
     .reorder_ns = 3 * MSEC,
     .control = RATE_auto},
    {.name = "reorder-few",
     .before = {400 * MBIT, 3 * MSEC},
     .reorder = 0.001,
     .reorder_ns = 2500 * USEC,
     .control = RATE_auto},
};

static struct world world;

static uint64_t max_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void set_line(const struct line *l)
{
	for (int site = 0; site < 2; site++) {
		world.wan[site].cfg.rate_bps = l->bps;
		world.wan[site].cfg.delay_ns = l->rtt_ns / 2;
	}
}

/* Edges that are configured for the longer and the faster of the two lines. */
static void start(const struct moving *m, bool reorders)
{
	uint64_t bps = max_of(m->before.bps, m->after.bps), rtt_ns = max_of(m->before.rtt_ns, m->after.rtt_ns);
	struct scenario s;

	scenario_plain(&s, bps, rtt_ns / 2, PMTU);
	s.cfg.lan.rate_bps = 10000 * MBIT;
	s.cfg.control = m->control;
	s.cfg.wan.queue_bytes = m->queue_bytes ? m->queue_bytes : 2 * bps / 8000 * (rtt_ns / 1000) / 1000;
	if (m->jitter_ns) {
		s.cfg.wan.reorder = 1;
		s.cfg.wan.reorder_ns = m->jitter_ns;
	}
	if (reorders) {
		s.cfg.wan.reorder = m->reorder;
		s.cfg.wan.reorder_ns = m->reorder_ns;
	}
	s.conn[0].cm = rtt_ns >= PATIENT_NS;
	if (m->happens == IDLE) {
		s.conn[0].post_every_ns = 1;
		s.conn[0].post_from_ns = STEP_NS + IDLE_NS;
	}
	s.cfg.wan.police_bps = m->happens == POLICED ? m->before.bps / 2 : 0;
	s.cfg.wan.police_bytes = m->bucket_bytes;
	pktlog_init(&world.log, 1024);
	run_guard(&world);
	world_start(&world, &s.cfg);
	set_line(&m->before);
}

static bool end(const struct moving *m)
{
	bool clean = !world.violation[0];

	if (!clean)
		run_report(&world, m->name, false);
	world_end(&world);
	return clean;
}

static uint64_t executed(void)
{
	const struct qp *qp = world.conn[0].qp[1];

	return qp ? qp->resp.bytes_executed : 0;
}

/* Payload that a line of that rate carries. */
static double possible_bytes(uint64_t bps, uint64_t ns)
{
	struct world_cfg c = world.cfg;

	c.pacer_bps = bps;
	return fullscale_ceiling_gbps(&c, PMTU) / 8 * (double)ns;
}

static void trace_row(const struct moving *m, FILE *trace, uint64_t bytes)
{
	struct proxy_path_status st;
	struct wan_pacer *p = &world.edge[0].pacer[0];

	proxy_path_status(world.edge[0].shard[0].p, 0, world.q.now_ns, &st);
	fprintf(trace, "%s,0,auto,%.6f,%.3f,%.3f,%.3f,%llu,%llu,%s\n", m->name, (double)world.q.now_ns / 1e9,
	        (double)bytes * 8e3 / (double)TRACE_NS, (double)atomic_load(&p->rate_bps) / 1e6,
	        (double)st.rtt_smoothed_ns / 1e6, (unsigned long long)atomic_load(&p->control.in_flight_bytes),
	        (unsigned long long)atomic_load(&p->control.lost_bytes), atomic_load(&p->control.state_name));
}

static uint64_t run_for(const struct moving *m, FILE *trace, uint64_t ns)
{
	uint64_t from = executed(), until_ns = world.q.now_ns + ns;

	while (trace && world.q.now_ns + TRACE_NS <= until_ns && !world.violation[0]) {
		uint64_t before = executed();

		world_run_until(&world, world.q.now_ns + TRACE_NS);
		trace_row(m, trace, executed() - before);
	}
	world_run_until(&world, until_ns);
	return executed() - from;
}

/* Slices one after the other that carry less than half, at most; *judged: what is carried from settle_ns on. */
struct slices {
	uint64_t now, most, judged;
};

static void run_slice(const struct moving *m, FILE *trace, struct slices *s)
{
	uint64_t bytes = run_for(m, trace, SLICE_NS);

	s->now = (double)bytes < HALF * possible_bytes(m->after.bps, SLICE_NS) ? s->now + 1 : 0;
	s->most = max_of(s->most, s->now);
	s->judged += bytes;
}

static bool run_step(const struct moving *m, FILE *trace)
{
	uint64_t settle_ns = max_of(SETTLE_RTTS * m->after.rtt_ns, SETTLE_NS), before, sent, dropped;
	uint64_t half_ns = max_of(HALF_RTTS * m->after.rtt_ns, HALF_NS);
	struct slices s = {0, 0, 0};
	double share, lost, first;
	bool ok;

	start(m, false);
	run_for(m, trace, STEP_NS / 2);
	before = run_for(m, trace, STEP_NS / 2);
	first = (double)before / possible_bytes(m->before.bps, STEP_NS / 2);
	set_line(&m->after);
	for (uint64_t ns = 0; ns < settle_ns; ns += SLICE_NS)
		run_slice(m, trace, &s);
	sent = world.wan[0].stats.sent;
	dropped = world.wan[0].stats.overflowed;
	s.judged = 0;
	for (uint64_t ns = 0; ns < JUDGED_NS; ns += SLICE_NS)
		run_slice(m, trace, &s);
	share = (double)s.judged / possible_bytes(m->after.bps, JUDGED_NS);
	sent = world.wan[0].stats.sent - sent;
	dropped = world.wan[0].stats.overflowed - dropped;
	lost = (double)dropped / (double)(sent + dropped + 1);
	ok = share >= WANT && lost < WANT_LOST && s.most * SLICE_NS <= half_ns;
	printf("%-22s before %.3f of what is possible; after %.3f, wanted %.1f; lost %5.2f %%, wanted less than %.0f; "
	       "below half for %.1f s, at most %.1f: %s\n",
	       m->name, first, share, WANT, 100 * lost, 100 * WANT_LOST, (double)(s.most * SLICE_NS) / 1e9,
	       (double)half_ns / 1e9, ok ? "ok" : "MISSED");
	return end(m) && ok;
}

static void set_loss(double loss)
{
	world.wan[0].cfg.loss = world.wan[1].cfg.loss = loss;
}

/* What is carried meanwhile. */
static uint64_t let_happen(const struct moving *m, FILE *trace)
{
	uint64_t bytes = 0;

	switch (m->happens) {
	case PAUSED:
		edge_pause(&world.edge[1]);
		bytes = run_for(m, trace, PAUSED_NS);
		edge_resume(&world.edge[1]);
		break;
	case IDLE:
		bytes = run_for(m, NULL, IDLE_NS);
		break;
	case LOSSY:
		set_loss(LOSS_SHARE);
		bytes = run_for(m, trace, LOSSY_NS);
		set_loss(0);
		break;
	default:
		break;
	}
	return bytes;
}

static bool run_event(const struct moving *m, FILE *trace)
{
	uint64_t bps = m->happens == POLICED ? m->before.bps / 2 : m->before.bps, during, sent, dropped, bytes;
	double share, lost, then;
	bool ok, dead;

	start(m, false);
	run_for(m, trace, STEP_NS);
	during = let_happen(m, trace);
	dead = m->happens == PAUSED && world.edge[1].events[EV_WAN_DEAD] > 0;
	run_for(m, trace, SETTLE_NS);
	sent = world.wan[0].stats.sent;
	dropped = world.wan[0].stats.overflowed;
	bytes = run_for(m, trace, JUDGED_NS);
	sent = world.wan[0].stats.sent - sent;
	dropped = world.wan[0].stats.overflowed - dropped;
	share = (double)bytes / possible_bytes(bps, JUDGED_NS);
	then = m->happens == LOSSY ? (double)during / possible_bytes(bps, LOSSY_NS) / (1 - LOSS_SHARE) : 1;
	lost = (double)dropped / (double)(sent + dropped + 1);
	ok = share >= WANT && lost < WANT_LOST && !dead &&
	     then >= (m->control == RATE_auto ? LOSSY_AUTO : LOSSY_SHARE) && !world.conn[0].qp[0]->req.failed;
	printf("%-22s after %.3f of what is possible, wanted %.1f; lost %5.2f %%, wanted less than %.0f; meanwhile "
	       "%.3f of what "
	       "was left; queue pair %s%s: %s\n",
	       m->name, share, WANT, 100 * lost, 100 * WANT_LOST, then,
	       world.conn[0].qp[0]->req.failed ? "DEAD" : "lives", dead ? ", said dead too early" : "",
	       ok ? "ok" : "MISSED");
	return end(m) && ok;
}

static double order_mbps(const struct moving *m, FILE *trace, bool reorders, uint32_t *loss_ppm, bool *clean)
{
	struct proxy_path_status st;
	double mbps;

	start(m, reorders);
	run_for(m, trace, ORDER_NS / 3);
	mbps = (double)run_for(m, trace, ORDER_NS) * 8e3 / (double)ORDER_NS;
	proxy_path_status(world.edge[0].shard[0].p, 0, world.q.now_ns, &st);
	*loss_ppm = st.loss_ppm;
	*clean &= end(m);
	return mbps;
}

static bool run_reorder(const struct moving *m, FILE *trace)
{
	bool clean = true, ok;
	uint32_t ppm;
	double without = order_mbps(m, NULL, false, &ppm, &clean), with = order_mbps(m, trace, true, &ppm, &clean);

	ok = clean && with >= WANT_ORDER * without && ppm < WANT_PPM;
	printf("%-22s %.1f Mbit/s, in order %.1f: x %.3f, wanted %.2f; loss shown %u ppm, wanted less than %d: %s\n",
	       m->name, with, without, with / without, WANT_ORDER, ppm, WANT_PPM, ok ? "ok" : "MISSED");
	return ok;
}

const char *moving_name(size_t i)
{
	return i < sizeof(runs) / sizeof(runs[0]) ? runs[i].name : NULL;
}

bool moving_run(size_t i, FILE *trace)
{
	const struct moving *m = &runs[i];
	bool ok = m->happens ? run_event(m, trace) : m->after.bps ? run_step(m, trace) : run_reorder(m, trace);

	fflush(stdout);
	return ok;
}
