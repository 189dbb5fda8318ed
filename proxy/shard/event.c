/* SPDX-License-Identifier: Apache-2.0 */
/* event.c - events: a ring that drops new ones when it is full, and a larger ring for failed flows alone, so that other
 * events do not crowd those out. */
#include "core.h"

#include "proxy/util/probe.h"

static void describe(struct proxy_event *ev, const struct near_flow *n, const struct far_flow *f)
{
	if (n) {
		ev->src = n->src;
		ev->dst = n->dst;
		ev->dest_qpn = n->dest_qpn;
		ev->requester_qpn = n->requester_qpn;
		ev->flow = n->idx;
	} else if (f) {
		ev->src = f->src;
		ev->dst = f->dst;
		ev->dest_qpn = f->dest_qpn;
		ev->requester_qpn = f->requester_qpn;
		ev->flow = f->idx;
		ev->side = FLOW_FAR;
	}
}

void proxy_event_push(struct proxy *p, enum proxy_event_type type, const struct near_flow *n, const struct far_flow *f,
                      uint64_t pos, uint64_t value)
{
	struct proxy_event *ev = &p->events[p->ev_head % EVENT_RING];

	if (p->ev_head - p->ev_tail >= EVENT_RING) {
		p->events_lost++; /* nobody reads: the oldest are worth more */
		return;
	}
	*ev = (struct proxy_event){.type = type, .now_ns = p->now_ns, .pos = pos, .value = value};
	describe(ev, n, f);
	p->ev_head++;
	PROBE5(event, type, ev->side, ev->flow, pos, value);
}

void proxy_failure_push(struct proxy *p, enum proxy_failure why, const struct near_flow *n, const struct far_flow *f,
                        uint64_t pos, uint64_t bytes)
{
	struct proxy_event *ev = &p->failures[p->failures_head % (2 * p->cfg.max_flows)];

	if (p->failures_head - p->failures_tail >= 2 * p->cfg.max_flows) {
		p->failures_lost++;
		return;
	}
	*ev = (struct proxy_event){
	    .type = why == FAILURE_PERHAPS_LOST ? EV_FLOW_IN_DOUBT : EV_FLOW_FAILED, .now_ns = p->now_ns, .pos = pos, .value = bytes, .failure = why};
	describe(ev, n, f);
	ev->syndrome = n ? n->nak_syndrome : f ? f->syndrome : 0;
	p->failures_head++;
}

bool proxy_event_next(struct proxy *p, struct proxy_event *ev)
{
	if (p->failures_tail != p->failures_head) {
		*ev = p->failures[p->failures_tail++ % (2 * p->cfg.max_flows)];
		return true;
	}
	if (p->ev_tail == p->ev_head)
		return false;
	*ev = p->events[p->ev_tail++ % EVENT_RING];
	return true;
}

uint64_t proxy_failures_lost(const struct proxy *p)
{
	return p->failures_lost;
}

uint64_t proxy_events_lost(const struct proxy *p)
{
	return p->events_lost;
}
