/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_history.h"

enum ring { TROUBLED, UNEVENTFUL };

uint32_t flow_history_len(const struct proxy_config *c)
{
	return (uint32_t)clamp_u64(c->max_flows / 16, FLOWS_ENDED_MIN, FLOWS_ENDED_MAX);
}

void flow_history_init(struct proxy *p, struct proxy_flow_view *views)
{
	p->history.n = flow_history_len(&p->cfg);
	p->history.ring[TROUBLED] = views;
	p->history.ring[UNEVENTFUL] = views + p->history.n;
}

/* TROUBLED: an operator may ask what was wrong with the flow. A flow that was never answered is UNEVENTFUL: a host can
 * make as many of those as it likes. */
static enum ring ring_of(const struct proxy_flow_view *v)
{
	const struct flow_counts *n = &v->facts.n;
	bool counted = n->repeats || n->gaps || n->refused_packets || n->rnr_told || n->seq_naks || n->rnr_naks ||
	               n->timeouts || n->stalls;

	if (v->status.pairing == PAIR_LEARNING)
		return UNEVENTFUL;
	return v->facts.failed || v->facts.undelivered || counted ? TROUBLED : UNEVENTFUL;
}

void flow_history_add(struct proxy *p, const struct proxy_flow_view *v)
{
	enum ring r = ring_of(v);
	struct proxy_flow_view *place = &p->history.ring[r][p->history.count[r]++ % p->history.n];

	*place = *v;
	place->facts.ended_ns = p->now_ns;
}

const struct proxy_flow_view *proxy_flow_ended_next(const struct proxy *p, uint32_t *cursor)
{
	const struct flow_history *h = &p->history;

	for (; *cursor < 2 * h->n; (*cursor)++) {
		uint32_t ring = *cursor / h->n, i = *cursor % h->n;

		if (i >= h->count[ring])
			continue;
		(*cursor)++;
		return &h->ring[ring][i];
	}
	return NULL;
}

/* --- hosts --- */

static uint32_t place_of(const struct proxy *p, const struct ip_addr *host)
{
	return addr_hash(p->cfg.hash_seed, host) % HOSTS_HEARD;
}

void flow_history_heard(struct proxy *p, const struct ip_addr *host)
{
	p->hosts_heard[place_of(p, host)] = (struct host_heard){.addr = *host, .at_ns = p->now_ns};
}

uint64_t proxy_host_heard(const struct proxy *p, const struct ip_addr *host)
{
	const struct host_heard *h = &p->hosts_heard[place_of(p, host)];

	return h->at_ns && ip_addr_eq(&h->addr, host) ? h->at_ns : 0;
}
