/* SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DUP_THRESH      3
#define FLOW_HEAD_BYTES 9
#define RTO_MIN_NS      200000000ull
#define REPORT_MIN_NS   50000ull
#define REPORT_MAX_NS   1000000ull

/* --- threads that are late --- */

static uint64_t lateness(struct flow_worker *w)
{
	const struct flow_lateness *l = &w->lateness;

	return rng_chance(&w->rng, l->share) ? rng_log_range(&w->rng, l->least_ns, l->most_ns)
	                                     : rng_below(&w->rng, l->usual_ns);
}

static void when_awake(struct flow *f, struct flow_worker *w, event_fn *fn, uint64_t arg)
{
	if (!w->lateness.usual_ns) {
		fn(f, arg);
		return;
	}
	if (f->q->now_ns >= w->wakes_ns)
		w->wakes_ns = f->q->now_ns + lateness(w);
	eventq_at(f->q, w->wakes_ns, fn, f, arg);
}

/* --- the sender --- */

static void send_one(struct flow *f)
{
	struct pkt *p = pkt_new(FLOW_HEAD_BYTES); /* what is behind its head nobody reads, and memory costs time */
	struct flow_sent *e = flow_entry(f, f->next);

	*e = (struct flow_sent){.sent_ns = f->q->now_ns, .delivered = f->delivered, .delivered_ns = f->delivered_ns};
	if (f->in_flight == 0)
		e->delivered_ns = f->delivered_ns = f->q->now_ns;
	f->cc->on_sent(f, f->next);
	f->in_flight++;
	p->len = FLOW_PKT_BYTES;
	memcpy(p->data, &f->next, sizeof(f->next));
	p->data[8] = f->id;
	p->dgram = true;
	p->ecn = f->cc->ecn ? 2 : 0;
	f->next++;
	if (!evtimer_armed(&f->timeout))
		evtimer_set(&f->timeout, f->q->now_ns + RTO_MIN_NS + 2 * f->srtt_ns);
	link_send(f->link, p);
}

static void send_all(void *obj, uint64_t unused)
{
	struct flow *f = obj;
	uint64_t when_ns = SIM_NEVER;

	(void)unused;
	while (f->next - f->floor < FLOW_RING && f->cc->may_send(f, &when_ns))
		send_one(f);
	if (when_ns != SIM_NEVER)
		evtimer_set(&f->wake, when_ns);
}

static void on_wake(void *obj)
{
	struct flow *f = obj;

	when_awake(f, &f->sender, send_all, 0);
}

static void lose_below(struct flow *f, uint64_t end)
{
	for (; f->floor < end; f->floor++) {
		struct flow_sent *e = flow_entry(f, f->floor);

		if (e->fate != FLOW_OUT)
			continue;
		e->fate = FLOW_LOST;
		f->in_flight--;
		f->lost++;
		f->cc->on_lost(f, f->floor);
	}
}

static void on_ack(struct flow *f, uint64_t seq)
{
	struct flow_sent *e = flow_entry(f, seq);

	if (seq < f->floor || e->fate != FLOW_OUT)
		return;
	e->fate = FLOW_ACKED;
	f->in_flight--;
	f->delivered++;
	f->delivered_ns = f->q->now_ns;
	f->highest = seq;
	f->cc->on_acked(f, seq, f->q->now_ns - e->sent_ns);
}

/* What has arrived, up to the given one in order, is told to the sender. */
static void told(void *obj, uint64_t until)
{
	struct flow *f = obj;
	uint64_t rtt_ns = 0;

	f->marks = 0;
	while (f->ntold < until) {
		uint64_t told = f->arrived[f->ntold++ % FLOW_RING], seq = told & ~FLOW_MARKED;

		f->marks += seq != told;
		rtt_ns = f->q->now_ns - flow_entry(f, seq)->sent_ns;
		on_ack(f, seq);
	}
	if (f->highest >= DUP_THRESH)
		lose_below(f, f->highest - DUP_THRESH + 1);
	f->srtt_ns = f->srtt_ns ? (7 * f->srtt_ns + rtt_ns) / 8 : rtt_ns;
	f->cc->on_told(f, rtt_ns);
	evtimer_set(&f->timeout, f->q->now_ns + RTO_MIN_NS + 2 * f->srtt_ns);
	send_all(f, 0);
}

static void on_report(void *obj, uint64_t until)
{
	struct flow *f = obj;

	when_awake(f, &f->sender, told, until);
}

static void time_out(void *obj, uint64_t unused)
{
	struct flow *f = obj;

	(void)unused;
	lose_below(f, f->next);
	f->cc->on_timeout(f);
	send_all(f, 0);
}

static void on_timeout(void *obj)
{
	struct flow *f = obj;

	when_awake(f, &f->sender, time_out, 0);
}

/* --- the receiver --- */

static void report(void *obj, uint64_t unused)
{
	struct flow *f = obj;

	(void)unused;
	eventq_at(f->q, f->q->now_ns + f->back_ns, on_report, f, f->narrived);
}

static void on_report_due(void *obj)
{
	struct flow *f = obj;

	when_awake(f, &f->receiver, report, 0);
}

static void received(void *obj, uint64_t seq)
{
	struct flow *f = obj;
	uint64_t wait_ns = f->rtt_ns / 16;

	f->arrived[f->narrived++ % FLOW_RING] = seq;
	if (f->narrived % f->cc->ack_every == 0 || !f->cc->ack_waits) {
		evtimer_cancel(&f->report);
		report(f, 0);
		return;
	}
	wait_ns = wait_ns < REPORT_MIN_NS ? REPORT_MIN_NS : wait_ns > REPORT_MAX_NS ? REPORT_MAX_NS : wait_ns;
	if (!evtimer_armed(&f->report))
		evtimer_set(&f->report, f->q->now_ns + wait_ns);
}

void flow_arrived(struct flow *f, struct pkt *p)
{
	uint64_t seq;

	memcpy(&seq, p->data, sizeof(seq));
	if (p->ecn == 3) {
		seq |= FLOW_MARKED;
		f->marked++;
	}
	pkt_free(p);
	when_awake(f, &f->receiver, received, seq);
}

static void worker_init(struct flow_worker *w, const struct flow_cfg *cfg, uint64_t which)
{
	*w = (struct flow_worker){.lateness = cfg->lateness};
	rng_init(&w->rng, rng_hash(cfg->seed, 2u * cfg->id + which));
}

void flow_start(struct flow *f, const struct flow_cfg *cfg, struct eventq *q, struct link *link)
{
	memset(f, 0, sizeof(*f));
	f->sent = calloc(FLOW_RING, sizeof(*f->sent));
	f->arrived = calloc(FLOW_RING, sizeof(*f->arrived));
	if (!f->sent || !f->arrived) {
		fprintf(stderr, "lrsim: out of memory\n");
		exit(2);
	}
	f->id = cfg->id;
	f->cc = cfg->cc;
	f->q = q;
	f->link = link;
	f->back_ns = link->cfg.delay_ns;
	f->rtt_ns = 2 * link->cfg.delay_ns;
	f->ceiling_bps = cfg->ceiling_bps;
	f->burst_ns = cfg->burst_ns;
	evtimer_init(&f->wake, q, on_wake, f);
	evtimer_init(&f->timeout, q, on_timeout, f);
	evtimer_init(&f->report, q, on_report_due, f);
	worker_init(&f->sender, cfg, 0);
	worker_init(&f->receiver, cfg, 1);
	cfg->cc->start(f);
	send_all(f, 0);
}

void flow_end(struct flow *f)
{
	free(f->sent);
	free(f->arrived);
}
