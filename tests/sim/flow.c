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

static void send_all(void *obj)
{
	struct flow *f = obj;
	uint64_t when_ns = SIM_NEVER;

	while (f->next - f->floor < FLOW_RING && f->cc->may_send(f, &when_ns))
		send_one(f);
	if (when_ns != SIM_NEVER)
		evtimer_set(&f->wake, when_ns);
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
	send_all(f);
}

static void report(void *obj)
{
	struct flow *f = obj;

	eventq_at(f->q, f->q->now_ns + f->back_ns, told, f, f->narrived);
}

static void timed_out(void *obj)
{
	struct flow *f = obj;

	lose_below(f, f->next);
	f->cc->on_timeout(f);
	send_all(f);
}

void flow_arrived(struct flow *f, struct pkt *p)
{
	uint64_t seq, wait_ns = f->rtt_ns / 16;

	memcpy(&seq, p->data, sizeof(seq));
	if (p->ecn == 3) {
		seq |= FLOW_MARKED;
		f->marked++;
	}
	pkt_free(p);
	f->arrived[f->narrived++ % FLOW_RING] = seq;
	if (f->narrived % f->cc->ack_every == 0 || !f->cc->ack_waits) {
		evtimer_cancel(&f->report);
		report(f);
		return;
	}
	wait_ns = wait_ns < REPORT_MIN_NS ? REPORT_MIN_NS : wait_ns > REPORT_MAX_NS ? REPORT_MAX_NS : wait_ns;
	if (!evtimer_armed(&f->report))
		evtimer_set(&f->report, f->q->now_ns + wait_ns);
}

void flow_start(struct flow *f, uint8_t id, const struct flow_cc *cc, struct eventq *q, struct link *link,
                uint64_t ceiling_bps)
{
	memset(f, 0, sizeof(*f));
	f->sent = calloc(FLOW_RING, sizeof(*f->sent));
	f->arrived = calloc(FLOW_RING, sizeof(*f->arrived));
	if (!f->sent || !f->arrived) {
		fprintf(stderr, "lrsim: out of memory\n");
		exit(2);
	}
	f->id = id;
	f->cc = cc;
	f->q = q;
	f->link = link;
	f->back_ns = link->cfg.delay_ns;
	f->rtt_ns = 2 * link->cfg.delay_ns;
	f->ceiling_bps = ceiling_bps;
	evtimer_init(&f->wake, q, send_all, f);
	evtimer_init(&f->timeout, q, timed_out, f);
	evtimer_init(&f->report, q, report, f);
	cc->start(f);
	send_all(f);
}

void flow_end(struct flow *f)
{
	free(f->sent);
	free(f->arrived);
}
