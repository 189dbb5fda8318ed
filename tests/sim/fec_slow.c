/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A line of 400 Mbit/s, as in bench_wan.sh: a datagram takes 0.18 ms, a message of 64 KiB eight of them. Random losses,
 * both ways.
 *
 *   full   Four queue pairs with as much as they may have out. What FEC=auto carries beside FEC=off, from when the
 *          line is full: over the first second, and after it. Each repair takes the place of a datagram, and
 *          repetition costs the losses and no more: so there is to be no difference. Where nothing is lost, not even
 *          the 26 bytes that a datagram of a group leaves free: 0.3 %. With RateControl=auto as well: its rate may be
 *          above what is carried, and yet the line is full.
 *   msgs   Messages of 64 KiB, evenly over a quarter of the line, in mode host: until the sender knows. The 99.9th
 *          percentile beside that of the same line without losses, the median, and the share of lost datagrams that
 *          was rebuilt, from one second after the first loss on: by then the other edge has told of it. Before it
 *          nothing is spent on a line (fec_plan.h), so what is lost first is sent again. With more load, and in bursts,
 *          FEC can do less, and is to do no harm.
 *   beside The same with messages of 4 KiB on 4 % of the line, while one queue pair with messages of 16 KiB takes half.
 *   clean  No losses: not a single repair.
 *
 * What can be reached. Late is a message if more datagrams of its group are lost than there are repairs, and all of its
 * queue pair that come within a round trip behind it: at a quarter of the line and 3000 km seven. So at 1 % no more
 * than 0.1 % / 8 / 8 / 1 % = 1.6e-3 of the lost ones may be left over, which 8+3 leaves below and 8+2 does not. Each
 * repair is 0.18 ms more for a message that lost something. At 100 km, where a message without losses takes 2.4 ms, its
 * group goes out in two parts, as a group waits for no more than a round trip; two repairs of each make x 1.3. At
 * 300 km beside half of the line, repairs for each message of 16 KiB, two datagrams, would fill it: messages wait for
 * others until there are enough for two repairs, x 1.3 again. On 80 % of the line 15 % are free for repairs of groups
 * of 13: two each leave one loss of 200 over. On 90 % there is no group of so few that fits.
 */
#include "fec_slow.h"

#include <stdio.h>
#include <string.h>

#include "runner.h"
#include "scenario.h"

#define LINE_BPS     400000000ull
#define LAN_BPS      10000000000ull
#define SEC_NS       1000000000ull
#define PMTU         4096
#define WANT_GOODPUT 0.997
#define WANT_FIRST   0.98 /* of the first second */
#define WANT_CLEAN   0.998 /* where nothing is lost: not even what datagrams leave free for repairs */
#define WANT_REBUILT 0.99
#define WANT_LAT     1.2
#define WANT_HARM    1.05 /* no more than so many times what it is with FEC=off */
#define FIRST_SECS   30 /* in which the first loss has to come */
#define CONNS        4

enum kind { FULL, MSGS, BESIDE, CLEAN };

static const struct slow_run {
	const char *name;
	enum kind kind;
	uint32_t km;
	double loss, burst;
	double load; /* of messages */
	uint32_t secs; /* that are measured */
	double want_lat; /* 0: no worse than with FEC=off */
	enum rate_controller control;
} runs[] = {
    {"slow-full-1000km-0", FULL, 1000, 0, 1, 0, 20, 0, RATE_fixed},
    {"slow-full-100km-1", FULL, 100, 0.01, 1, 0, 8, 0, RATE_fixed},
    {"slow-full-300km-0.1", FULL, 300, 0.001, 1, 0, 8, 0, RATE_fixed},
    {"slow-full-300km-1", FULL, 300, 0.01, 1, 0, 8, 0, RATE_fixed},
    {"slow-full-1000km-0.1", FULL, 1000, 0.001, 1, 0, 8, 0, RATE_fixed},
    {"slow-full-1000km-1", FULL, 1000, 0.01, 1, 0, 8, 0, RATE_fixed},
    {"slow-full-3000km-0.1", FULL, 3000, 0.001, 1, 0, 8, 0, RATE_fixed},
    {"slow-full-3000km-1", FULL, 3000, 0.01, 1, 0, 8, 0, RATE_fixed},
    {"slow-full-1000km-1-burst3", FULL, 1000, 0.01, 3, 0, 8, 0, RATE_fixed},
    {"slow-full-100km-1-auto", FULL, 100, 0.01, 1, 0, 30, 0, RATE_auto},
    {"slow-full-1000km-0.1-auto", FULL, 1000, 0.001, 1, 0, 30, 0, RATE_auto},
    {"slow-full-1000km-1-auto", FULL, 1000, 0.01, 1, 0, 30, 0, RATE_auto},
    {"slow-full-3000km-1-auto", FULL, 3000, 0.01, 1, 0, 30, 0, RATE_auto},
    {"slow-msgs-100km-1", MSGS, 100, 0.01, 1, 0.25, 60, 1.4, RATE_fixed},
    {"slow-msgs-300km-0.01", MSGS, 300, 0.0001, 1, 0.25, 60, WANT_LAT, RATE_fixed},
    {"slow-msgs-300km-0.1", MSGS, 300, 0.001, 1, 0.25, 60, WANT_LAT, RATE_fixed},
    {"slow-msgs-300km-1", MSGS, 300, 0.01, 1, 0.25, 60, WANT_LAT, RATE_fixed},
    {"slow-msgs-1000km-0.01", MSGS, 1000, 0.0001, 1, 0.25, 60, WANT_LAT, RATE_fixed},
    {"slow-msgs-1000km-0.1", MSGS, 1000, 0.001, 1, 0.25, 60, WANT_LAT, RATE_fixed},
    {"slow-msgs-1000km-1", MSGS, 1000, 0.01, 1, 0.25, 60, WANT_LAT, RATE_fixed},
    {"slow-msgs-3000km-0.01", MSGS, 3000, 0.0001, 1, 0.25, 60, WANT_LAT, RATE_fixed},
    {"slow-msgs-3000km-0.1", MSGS, 3000, 0.001, 1, 0.25, 60, WANT_LAT, RATE_fixed},
    {"slow-msgs-3000km-1", MSGS, 3000, 0.01, 1, 0.25, 60, WANT_LAT, RATE_fixed},
    {"slow-msgs-300km-1-auto", MSGS, 300, 0.01, 1, 0.25, 60, WANT_LAT, RATE_auto},
    {"slow-msgs-1000km-1-auto", MSGS, 1000, 0.01, 1, 0.25, 60, WANT_LAT, RATE_auto},
    {"slow-msgs-1000km-1-load50", MSGS, 1000, 0.01, 1, 0.5, 60, WANT_LAT, RATE_fixed},
    {"slow-msgs-1000km-1-load80", MSGS, 1000, 0.01, 1, 0.8, 60, WANT_LAT, RATE_fixed},
    {"slow-msgs-1000km-1-load90", MSGS, 1000, 0.01, 1, 0.9, 60, 0, RATE_fixed},
    {"slow-msgs-1000km-1-load97", MSGS, 1000, 0.01, 1, 0.97, 60, 0, RATE_fixed},
    {"slow-msgs-300km-1-burst3", MSGS, 300, 0.01, 3, 0.25, 60, 0, RATE_fixed},
    {"slow-msgs-1000km-1-burst3", MSGS, 1000, 0.01, 3, 0.25, 60, 0, RATE_fixed},
    {"slow-msgs-3000km-1-burst3", MSGS, 3000, 0.01, 3, 0.25, 60, 1.3, RATE_fixed},
    {"slow-beside-100km-0.01", BESIDE, 100, 0.0001, 1, 0.5, 30, WANT_LAT, RATE_fixed},
    {"slow-beside-1000km-0.01", BESIDE, 1000, 0.0001, 1, 0.5, 30, WANT_LAT, RATE_fixed},
    {"slow-beside-300km-1", BESIDE, 300, 0.01, 1, 0.5, 30, 1.35, RATE_fixed},
    {"slow-beside-1000km-1", BESIDE, 1000, 0.01, 1, 0.5, 30, WANT_LAT, RATE_fixed},
    {"slow-beside-3000km-1", BESIDE, 3000, 0.01, 1, 0.5, 30, WANT_LAT, RATE_fixed},
    {"slow-clean-1000km", CLEAN, 1000, 0, 1, 0.25, 10, 0, RATE_fixed},
};

static struct conn_cfg conns[CONNS];
static struct latency latency;

struct measured {
	double first_mbps, mbps, rebuilt, sent_again, repairs, datagrams;
	uint64_t repairs_ever;
	uint64_t p50_ns, p999_ns, max_ns;
	struct proxy_fec_status fec;
};

/* --- what is done --- */

static void evenly(struct conn_cfg *c, uint32_t len, double share, uint64_t from_ns)
{
	c->plan[0].len_min = c->plan[0].len_max = len;
	c->depth[0] = 2048;
	c->post_every_ns = (uint64_t)(len * 8.0 * 1e9 / (share * LINE_BPS));
	c->post_from_ns = from_ns;
}

static uint64_t set_up(const struct slow_run *r, enum fec_mode mode, double loss, struct scenario *s)
{
	uint64_t one_way_ns = r->km * 5000ull, begins_ns = 10 * one_way_ns + SEC_NS / 10;

	scenario_plain(s, LINE_BPS, one_way_ns, PMTU);
	s->cfg.lan.rate_bps = LAN_BPS;
	s->cfg.fec.mode = mode;
	s->cfg.mode = r->kind == FULL ? ACK_MODE_NEAR : ACK_MODE_HOST;
	s->cfg.conn = conns;
	s->cfg.nconns = r->kind == FULL ? CONNS : r->kind == BESIDE ? 2 : 1;
	s->cfg.control = r->control;
	link_lossy(&s->cfg.wan, loss, r->burst);
	for (uint32_t i = 0; i < s->cfg.nconns; i++) {
		conns[i] = s->conn[0];
		conns[i].depth[0] = 16;
	}
	if (r->kind == BESIDE) {
		evenly(&conns[0], 4096, 0.04, begins_ns);
		evenly(&conns[1], 16384, r->load, begins_ns + SEC_NS / 1000);
	} else if (r->kind != FULL) {
		evenly(&conns[0], 65536, r->load, begins_ns);
	}
	return begins_ns;
}

static double executed_bits(const struct world *w)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < w->nconns; i++)
		bytes += w->conn[i].qp[1] ? w->conn[i].qp[1]->resp.bytes_executed : 0;
	return 8.0 * (double)bytes;
}

/* Of what goes from A to B. What was rebuilt and sent again all the same, as word of it was lost, was rebuilt. */
static void take(const struct world *w, struct measured *m, double sign)
{
	m->mbps += sign * executed_bits(w);
	m->rebuilt += sign * (double)edge_counter(&w->edge[1], CTR_FEC_REBUILT);
	m->sent_again += sign * (double)(edge_counter(&w->edge[0], CTR_WAN_LOST) -
	                                 edge_counter(&w->edge[0], CTR_FEC_LATE));
	m->repairs += sign * (double)edge_counter(&w->edge[0], CTR_FEC_TX);
	m->datagrams += sign * (double)edge_counter(&w->edge[0], CTR_WAN_TX_DGRAMS);
}

/* When the line has lost something. */
static uint64_t first_loss_ns(struct world *w, double loss)
{
	uint64_t until_ns = w->q.now_ns + FIRST_SECS * SEC_NS;

	while (loss > 0 && !w->wan[0].stats.lost && w->q.now_ns < until_ns)
		world_run_until(w, w->q.now_ns + SEC_NS / 1000);
	return w->q.now_ns;
}

static bool measure(struct world *w, const struct slow_run *r, enum fec_mode mode, double loss, struct measured *m)
{
	uint64_t begins_ns, first_ns;
	struct proxy_link_status st;
	struct scenario s;
	bool ok;

	memset(m, 0, sizeof(*m));
	memset(&latency, 0, sizeof(latency));
	begins_ns = set_up(r, mode, loss, &s);
	world_start(w, &s.cfg);
	latency.from_ns = UINT64_MAX;
	latency.completed = r->kind != FULL;
	latency.conn = 0;
	w->latency = &latency;
	world_run_until(w, begins_ns);
	m->first_mbps = -executed_bits(w);
	first_ns = r->kind == FULL ? begins_ns : first_loss_ns(w, loss);
	world_run_until(w, first_ns + SEC_NS);
	latency.from_ns = first_ns + SEC_NS;
	m->first_mbps = (m->first_mbps + executed_bits(w)) * 1e3 / (double)SEC_NS;
	take(w, m, -1);
	world_run_until(w, first_ns + (1 + r->secs) * SEC_NS);
	take(w, m, 1);
	m->mbps /= 1e6 * r->secs;
	m->p50_ns = latency_quantile_ns(&latency, 0.5);
	m->p999_ns = latency_quantile_ns(&latency, 0.999);
	m->max_ns = latency_quantile_ns(&latency, 1);
	m->repairs_ever = edge_counter(&w->edge[0], CTR_FEC_TX) + edge_counter(&w->edge[1], CTR_FEC_TX);
	proxy_link_status(w->edge[0].shard[0].p, w->q.now_ns, &st);
	m->fec = st.fec[0];
	ok = !w->violation[0];
	if (!ok)
		run_report(w, r->name, false);
	world_end(w);
	return ok;
}

/* --- what is wanted --- */

static bool full(struct world *w, const struct slow_run *r)
{
	struct measured off, with;
	double first, later;
	bool ok;

	if (!measure(w, r, FEC_OFF, r->loss, &off) || !measure(w, r, FEC_AUTO, r->loss, &with))
		return false;
	first = with.first_mbps / off.first_mbps;
	later = with.mbps / off.mbps;
	ok = first >= WANT_FIRST && later >= (r->loss > 0 ? WANT_GOODPUT : WANT_CLEAN);
	printf("%-22s %.1f Mbit/s, FEC=off %.1f: x %.4f; in the first second %.1f, off %.1f: x %.4f; repairs %.2f %% of "
	       "datagrams: %s\n",
	       r->name, with.mbps, off.mbps, later, with.first_mbps, off.first_mbps, first,
	       100 * with.repairs / with.datagrams, ok ? "ok" : "MISSED");
	return ok;
}

static bool msgs(struct world *w, const struct slow_run *r)
{
	struct measured clean, off, with;
	double ratio, share;
	bool ok;

	if (!measure(w, r, FEC_OFF, 0, &clean) || !measure(w, r, FEC_OFF, r->loss, &off) ||
	    !measure(w, r, FEC_AUTO, r->loss, &with))
		return false;
	ratio = (double)with.p999_ns / (double)clean.p999_ns;
	share = with.rebuilt / (with.rebuilt + with.sent_again);
	if (r->want_lat > 0)
		ok = ratio <= r->want_lat && (double)with.p50_ns <= WANT_LAT * (double)clean.p50_ns &&
		     share >= WANT_REBUILT;
	else
		ok = (double)with.p999_ns <= WANT_HARM * (double)off.p999_ns &&
		     (double)with.p50_ns <= WANT_HARM * (double)off.p50_ns;
	printf("%-22s FEC %u+%u x %u at load %.3f: %.0f rebuilt, %.0f sent again: %.2f %%; p50 %.2f p99.9 %.2f most %.2f "
	       "ms, FEC=off %.2f %.2f, without losses %.2f %.2f: x %.3f; repairs %.1f %% of datagrams: %s\n",
	       r->name, with.fec.plan.k, with.fec.plan.m, with.fec.plan.depth, with.fec.load, with.rebuilt,
	       with.sent_again, 100 * share, (double)with.p50_ns / 1e6, (double)with.p999_ns / 1e6,
	       (double)with.max_ns / 1e6, (double)off.p50_ns / 1e6, (double)off.p999_ns / 1e6,
	       (double)clean.p50_ns / 1e6, (double)clean.p999_ns / 1e6, ratio, 100 * with.repairs / with.datagrams,
	       ok ? "ok" : "MISSED");
	return ok;
}

static bool clean(struct world *w, const struct slow_run *r)
{
	struct measured m;
	bool ok;

	if (!measure(w, r, FEC_AUTO, 0, &m))
		return false;
	ok = m.repairs_ever == 0;
	printf("%-22s %llu repairs, %.0f datagrams: %s\n", r->name, (unsigned long long)m.repairs_ever, m.datagrams,
	       ok ? "ok" : "MISSED");
	return ok;
}

const char *fec_slow_name(size_t i)
{
	return i < sizeof(runs) / sizeof(runs[0]) ? runs[i].name : NULL;
}

bool fec_slow_run(struct world *w, size_t i)
{
	const struct slow_run *r = &runs[i];
	bool ok = r->kind == FULL ? full(w, r) : r->kind == CLEAN ? clean(w, r) : msgs(w, r);

	fflush(stdout);
	return ok;
}
