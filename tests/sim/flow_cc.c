/* SPDX-License-Identifier: Apache-2.0 */
/* flow_cc.c - what model senders go by: longreach's own controller, CUBIC (RFC 9438), and one like BBR, version 1
 * (draft-cardwell-iccrg-bbr-congestion-control-00), which takes no notice of losses. */
#include <math.h>

#include "flow.h"

/* --- longreach --- */

static void auto_start(struct flow *f)
{
	wan_pacer_init(&f->lr.pacer, f->ceiling_bps, FLOW_OVERHEAD, f->burst_ns);
	rate_choose(&f->lr.pacer.control, RATE_auto, f->ceiling_bps);
	rate_waits(&f->lr.pacer.control, true);
	rate_again(&f->lr.pacer.control, f->q->now_ns + f->id * 7919u);
}

static bool auto_may_send(struct flow *f, uint64_t *when_ns)
{
	if (wan_pacer_ready(&f->lr.pacer, f->q->now_ns))
		return true;
	*when_ns = rate_has_room(&f->lr.pacer.control) ? wan_pacer_next_ns(&f->lr.pacer) : SIM_NEVER;
	return false;
}

static void auto_sent(struct flow *f, uint64_t seq)
{
	rate_on_sent(&f->lr.pacer.control, &flow_entry(f, seq)->mark, f->q->now_ns, FLOW_WIRE);
	wan_pacer_take(&f->lr.pacer, f->q->now_ns, FLOW_PKT_BYTES);
}

static void auto_acked(struct flow *f, uint64_t seq, uint64_t rtt_ns)
{
	const struct flow_sent *e = flow_entry(f, seq);

	(void)rtt_ns;
	rate_on_arrived(&f->lr.pacer.control, &f->lr.pick, &e->mark, e->sent_ns, f->q->now_ns);
}

static void auto_lost(struct flow *f, uint64_t seq)
{
	rate_on_lost(&f->lr.pacer.control, &flow_entry(f, seq)->mark, f->q->now_ns);
}

static void auto_told(struct flow *f, uint64_t rtt_ns)
{
	rate_on_report(&f->lr.pacer.control, &f->lr.pick, f->q->now_ns, rtt_ns, f->marks);
	f->lr.pick = (struct rate_pick){.sent_ns = 0};
}

static void auto_timeout(struct flow *f)
{
	(void)f;
}

const struct flow_cc flow_auto = {"auto",        64,        true,       true,      auto_start,  auto_may_send,
                                  auto_sent, auto_acked, auto_lost, auto_told, auto_timeout};

/* --- CUBIC --- */

#define CUBIC_C    0.4
#define CUBIC_BETA 0.7

static void cubic_start(struct flow *f)
{
	f->cubic = (struct cubic){.cwnd = 10, .ssthresh = 1e9};
}

static bool cubic_may_send(struct flow *f, uint64_t *when_ns)
{
	(void)when_ns;
	return (double)f->in_flight < f->cubic.cwnd;
}

static void cubic_sent(struct flow *f, uint64_t seq)
{
	(void)f;
	(void)seq;
}

static void cubic_acked(struct flow *f, uint64_t seq, uint64_t rtt_ns)
{
	struct cubic *c = &f->cubic;
	double t, target;

	if (seq < c->recover)
		return;
	if (c->cwnd < c->ssthresh) {
		c->cwnd++;
		return;
	}
	if (!c->epoch_ns) {
		c->epoch_ns = f->q->now_ns;
		c->k = c->w_max > c->cwnd ? cbrt((c->w_max - c->cwnd) / CUBIC_C) : 0;
		c->w_max = c->w_max > c->cwnd ? c->w_max : c->cwnd;
		c->reno = c->cwnd;
	}
	t = (double)(f->q->now_ns - c->epoch_ns + rtt_ns) / 1e9 - c->k;
	target = c->w_max + CUBIC_C * t * t * t;
	c->reno += (c->reno < c->w_max ? 3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA) : 1) / c->cwnd;
	target = target > 1.5 * c->cwnd ? 1.5 * c->cwnd : target;
	if (target > c->cwnd)
		c->cwnd += (target - c->cwnd) / c->cwnd;
	if (c->reno > c->cwnd)
		c->cwnd = c->reno;
}

static void cubic_cut(struct cubic *c, double to)
{
	c->w_max = c->cwnd < c->w_max ? c->cwnd * (1 + CUBIC_BETA) / 2 : c->cwnd; /* fast convergence */
	c->ssthresh = c->cwnd * CUBIC_BETA < 2 ? 2 : c->cwnd * CUBIC_BETA;
	c->cwnd = to > 0 ? to : c->ssthresh;
	c->epoch_ns = 0;
}

static void cubic_lost(struct flow *f, uint64_t seq)
{
	if (seq < f->cubic.recover)
		return;
	f->cubic.recover = f->next;
	cubic_cut(&f->cubic, 0);
}

static void cubic_told(struct flow *f, uint64_t rtt_ns)
{
	(void)f;
	(void)rtt_ns;
}

static void cubic_timeout(struct flow *f)
{
	cubic_cut(&f->cubic, 1);
	f->cubic.recover = f->next;
}

const struct flow_cc flow_cubic = {"cubic",    1,           false,      false,      cubic_start, cubic_may_send,
                                   cubic_sent, cubic_acked, cubic_lost, cubic_told,  cubic_timeout};

/* --- like BBR --- */

#define BBR_MIN_RTT_KEPT_NS 10000000000ull
#define BBR_PROBE_RTT_NS    200000000ull

static const double bbr_gain[8] = {1.25, 0.75, 1, 1, 1, 1, 1, 1};

static void bbr_start(struct flow *f)
{
	f->bbr = (struct bbr){.pace = 2.89, .hold = 2.89, .phase = f->id * 3u % 8};
}

static double bbr_held(const struct bbr *b)
{
	return b->found * (double)b->min_rtt_ns;
}

static bool bbr_may_send(struct flow *f, uint64_t *when_ns)
{
	const struct bbr *b = &f->bbr;
	double room = b->found > 0 ? b->hold * bbr_held(b) + 4 : 10;

	if (b->probe_until_ns)
		room = 4;
	if ((double)f->in_flight >= room)
		return false;
	if (b->next_ns <= f->q->now_ns)
		return true;
	*when_ns = b->next_ns;
	return false;
}

static void bbr_sent(struct flow *f, uint64_t seq)
{
	struct bbr *b = &f->bbr;
	uint64_t from = b->next_ns > f->q->now_ns ? b->next_ns : f->q->now_ns;

	(void)seq;
	if (b->found > 0)
		b->next_ns = from + (uint64_t)(1 / (b->pace * b->found));
}

static void bbr_round(struct flow *f)
{
	struct bbr *b = &f->bbr;

	b->round_end = f->delivered;
	b->round++;
	b->bw[b->round % 10] = 0;
	if (b->filled)
		return;
	if (b->found >= b->full * 1.25) {
		b->full = b->found;
		b->flat = 0;
	} else if (++b->flat >= 3) {
		b->filled = true;
		b->pace = 1 / 2.89;
	}
}

static void bbr_cycle(struct flow *f)
{
	struct bbr *b = &f->bbr;
	uint64_t now_ns = f->q->now_ns;

	if (b->filled && !b->drained && (double)f->in_flight <= bbr_held(b)) {
		b->drained = true;
		b->hold = 2;
		b->phase_ns = now_ns;
	}
	if (b->drained && now_ns >= b->phase_ns + b->min_rtt_ns) {
		b->phase = (b->phase + 1) % 8;
		b->phase_ns = now_ns;
	}
	if (b->drained)
		b->pace = bbr_gain[b->phase];
	if (b->probe_until_ns && now_ns >= b->probe_until_ns) {
		b->probe_until_ns = 0;
		b->min_rtt_at_ns = now_ns;
	} else if (!b->probe_until_ns && now_ns > b->min_rtt_at_ns + BBR_MIN_RTT_KEPT_NS) {
		b->probe_until_ns = now_ns + BBR_PROBE_RTT_NS + f->srtt_ns;
		b->min_rtt_ns = UINT64_MAX;
	}
}

static void bbr_acked(struct flow *f, uint64_t seq, uint64_t rtt_ns)
{
	struct bbr *b = &f->bbr;
	const struct flow_sent *e = flow_entry(f, seq);
	double bw = (double)(f->delivered - e->delivered) / (double)(f->q->now_ns - e->delivered_ns);

	if (!b->min_rtt_ns || rtt_ns <= b->min_rtt_ns) {
		b->min_rtt_ns = rtt_ns;
		b->min_rtt_at_ns = f->q->now_ns;
	}
	if (e->delivered >= b->round_end)
		bbr_round(f);
	if (bw > b->bw[b->round % 10])
		b->bw[b->round % 10] = bw;
	b->found = 0;
	for (int i = 0; i < 10; i++)
		b->found = b->bw[i] > b->found ? b->bw[i] : b->found;
	bbr_cycle(f);
}

const struct flow_cc flow_bbr = {"bbr",    1,         false,      false,      bbr_start,  bbr_may_send,
                                 bbr_sent, bbr_acked, cubic_sent, cubic_told, auto_timeout};
