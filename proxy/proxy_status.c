/* SPDX-License-Identifier: Apache-2.0 */
/* proxy_status.c - counters, link and flow status; and the audit for tests. */
#include "proxy/carry/barrier.h"
#include "proxy/carry/end_to_end.h"
#include "proxy/far/far.h"
#include "proxy/near/near.h"
#include "proxy/relay/relay.h"
#include "proxy/wan/wan_fec.h"

/* --- status --- */

const struct proxy_counters *proxy_counters(const struct proxy *p)
{
	return &p->counters;
}

/* Ends at the last flow: a shard without flows walks nothing. */
static void count_flows(const struct proxy *p, struct proxy_link_status *s)
{
	uint32_t near_left = p->near_used, far_left = p->far_used;

	for (uint32_t i = 0; i < p->cfg.max_flows && (near_left || far_left); i++) {
		const struct near_flow *n = &p->near[i];
		const struct far_flow *f = &p->far[i];

		near_left -= near_in_use(n);
		far_left -= f->state != FAR_FREE;
		s->flows_learning += f->state != FAR_FREE && f->pairing == PAIR_LEARNING;
		s->flows_rnr_back_pressure += near_in_use(n) && n->rnr_back_pressure;
		s->flows_stalled += near_in_use(n) && near_is_stalled(n);
		s->flows_stalled += f->state != FAR_FREE && f->stalled;
		s->flows_rnr += f->state != FAR_FREE && f->rnr;
	}
}

/* The usable path with the least round trip. Before the first session no path is usable: the first path. */
static const struct wan_rtt *fastest(const struct proxy *p)
{
	const struct wan_rtt *best = &p->wan->path[0].rtt;
	bool found = false;

	for (uint32_t i = 0; i < p->wan->npaths; i++) {
		const struct wan_rtt *r = &p->wan->path[i].rtt;

		if (!(p->wan->paths_usable & 1u << i) || !r->samples || (found && r->smoothed_ns >= best->smoothed_ns))
			continue;
		best = r;
		found = true;
	}
	return best;
}

bool proxy_holds(const struct proxy *p)
{
	return arena_used(p->arena, POOL_LAN) > 0 || arena_used(p->arena, POOL_WAN) > 0;
}

void proxy_link_status(const struct proxy *p, uint64_t now_ns, struct proxy_link_status *s)
{
	const struct wan_rtt *rtt = fastest(p);

	memset(s, 0, sizeof(*s));
	s->wan_up = p->wan_up && now_ns < p->last_rx_ns + p->cfg.dead_peer_ns && !wan_paths_unheard(p, now_ns);
	s->mismatch = p->mismatch;
	s->npaths = p->wan->npaths;
	for (uint32_t i = 0; i < p->wan->npaths; i++)
		s->fec[i] = (struct proxy_fec_status){.plan = p->wan->path[i].fec.plan,
		                                        .measured = p->wan->path[i].fec.measure.numbers,
		                                        .loss = fec_measure_loss(&p->wan->path[i].fec.measure),
		                                        .burst = fec_measure_burst(&p->wan->path[i].fec.measure),
		                                        .burst_known = p->wan->path[i].fec.measure.bursts > 0,
		                                        .load = p->wan->path[i].fec.load,
		                                        .full = p->wan->path[i].fec.full};
	s->keys_used_up = p->wan->keys_used_up;
	s->rtt_min_ns = rtt->min_ns;
	s->rtt_smoothed_ns = rtt->smoothed_ns;
	for (uint32_t i = 0; i < p->cfg.nlanes; i++)
		for (uint32_t k = 0; k < p->wan->npaths && proxy_owns_lane(p, i); k++)
			s->wan_in_flight_bytes += p->wan->lanes[i].space[k].sent.bytes_in_flight;
	for (int i = 0; i < POOL_COUNT; i++) {
		s->pool_used[i] = arena_used(p->arena, (enum arena_pool)i);
		s->pool_capacity[i] = arena_capacity(p->arena, (enum arena_pool)i);
		s->pool_stuck[i] = p->stuck[i];
	}
	s->near_flows = p->near_used;
	s->far_flows = p->far_used;
	s->max_flows = p->cfg.max_flows;
	s->pairs_end_to_end = end_to_end_pairs(p, now_ns);
	s->barrier = p->cfg.barrier;
	s->barrier_waiting = p->barrier.waiting;
	s->ip_used_bytes = p->barrier.ip_near.used_bytes + p->barrier.ip_far.used_bytes;
	s->ip_capacity_bytes = p->barrier.ip_near.capacity_bytes + p->barrier.ip_far.capacity_bytes;
	count_flows(p, s);
}

bool proxy_flow_next(const struct proxy *p, uint32_t *cursor, struct proxy_flow_status *s)
{
	for (; *cursor < 2 * p->cfg.max_flows; (*cursor)++) {
		uint32_t i = *cursor % p->cfg.max_flows;

		if (*cursor < p->cfg.max_flows && near_in_use(&p->near[i]))
			near_flow_status(p, &p->near[i], s);
		else if (*cursor >= p->cfg.max_flows && p->far[i].state != FAR_FREE)
			far_flow_status(&p->far[i], s);
		else
			continue;
		(*cursor)++;
		return true;
	}
	return false;
}

void proxy_flow_facts(const struct proxy *p, const struct proxy_flow_status *s, struct flow_facts *facts)
{
	if (s->side == FLOW_NEAR)
		near_flow_facts(p, &p->near[s->flow], facts);
	else
		far_flow_facts(&p->far[s->flow], facts);
	facts->connection_ns = proxy_host_heard(p, s->side == FLOW_NEAR ? &s->src : &s->dst);
}

bool proxy_flow_find(struct proxy *p, enum flow_side side, const struct ip_addr *src, const struct ip_addr *dst,
                     uint32_t dest_qpn, uint16_t vlan_tci, struct proxy_flow_view *v)
{
	uint32_t i = far_dest_hash(p, src, dst, dest_qpn);
	const struct far_flow *f = side == FLOW_FAR ? far_by_dest(p, src, dst, dest_qpn, &i) : NULL;
	const struct near_flow *n = side == FLOW_NEAR ? near_find(p, src, dst, dest_qpn, vlan_tci) : NULL;

	if (n)
		near_flow_status(p, n, &v->status);
	else if (f)
		far_flow_status(f, &v->status);
	else
		return false;
	proxy_flow_facts(p, &v->status, &v->facts);
	return true;
}

/* --- for tests --- */

bool proxy_ceiling(const struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t dest_qpn,
                   uint64_t *ceiling_pos, uint64_t *delivered_pos)
{
	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		const struct near_flow *f = &p->near[i];

		if (!near_in_use(f) || f->newer || f->dest_qpn != dest_qpn || !ip_addr_eq(&f->src, src) ||
		    !ip_addr_eq(&f->dst, dst))
			continue;
		*ceiling_pos = near_ceiling(p, f);
		*delivered_pos = f->pos_reported;
		return true;
	}
	return false;
}

static int audit_near(const struct near_flow *f)
{
	uint64_t room = 0;

	if (f->pos_settled > f->pos_next || f->pos_acked > f->pos_next || f->pos_wan > f->pos_next)
		return -101;
	if (f->pos_reported > f->pos_next)
		return -102;
	if (f->held_bytes == f->kept_bytes && f->pos_settled < f->pos_next)
		return -103;
	if (f->kept_bytes > f->held_bytes || f->repeats > f->ops_done || f->ops_done > f->nops)
		return -104;
	for (const struct dnode *n = f->ops.next; n != &f->ops; n = n->next) {
		const struct rd_op *op = dlist_entry(n, struct rd_op, node);

		room += (uint64_t)op->room * op->room_each;
	}
	if (room != f->reserved_bytes)
		return -105;
	return 0;
}

static int audit_far(const struct far_flow *f)
{
	if (!far_is_open(f))
		return 0;
	if (f->pos_acked > f->pos_tx || f->pos_tx > f->pos_tx_max || f->pos_acked > f->pos_rx)
		return -111;
	if (f->pos_tx > f->pos_rx + 1) /* one READ of unknown length; nothing else is sent before it is counted */
		return -112;
	return 0;
}

static uint64_t list_bytes(struct proxy *p, const struct dnode *head)
{
	uint64_t bytes = 0;

	for (const struct dnode *n = head->next; n != head; n = n->next)
		bytes += arena_class_bytes(
		    arena_hdr(p->arena, slot_of_meta(p, dlist_entry(n, struct slot_meta, node)))->len);
	return bytes;
}

/* Each response here is on its flow's list or on the list of given ones. */
static int audit_responses(struct proxy *p)
{
	for (uint32_t i = 0; i < p->cfg.max_flows; i++)
		if (near_in_use(&p->near[i]) && list_bytes(p, &p->near[i].resps) != p->near[i].resp_bytes)
			return -106;
	return list_bytes(p, &p->given_resps) == p->given_bytes ? 0 : -107;
}

/* Flows that hold requests which their responders do not have yet, or want sending time; those that are closed may still have some to free. */
static int audit_busy(const struct proxy *p)
{
	uint32_t busy = 0, wanting = 0;

	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		busy += near_held(&p->near[i]) != 0;
		wanting += near_wants_line(&p->near[i]);
	}
	return busy == p->near_busy && wanting == p->near_wanting ? 0 : -108;
}

/* Flows with responses to send are counted in their lanes. */
static int audit_waiting(const struct proxy *p)
{
	uint32_t flows = 0;

	for (uint32_t i = 0; i < p->cfg.max_flows; i++)
		flows += p->far[i].resps_to_go != 0;
	for (uint32_t i = 0; i < p->cfg.nlanes; i++)
		if (proxy_owns_lane(p, i))
			flows -= p->wan->lanes[i].nwaiting[SOURCE_FAR];
	return flows == 0 ? 0 : -109;
}

/* A host's bytes_out is the sum of its flows' counted_out. */
static int audit_lan_hosts(const struct proxy *p)
{
	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		const struct lan_host *h = &p->lan_hosts[i];
		uint64_t out = 0;

		for (const struct dnode *n = h->out.next; h->used && n != &h->out; n = n->next)
			out += dlist_entry(n, struct far_flow, out_node)->counted_out;
		if (h->used && (out != h->bytes_out || (dlist_empty(&h->waiting) && timer_armed(&h->overdue))))
			return -131;
	}
	for (uint32_t i = 0; i < p->cfg.max_flows; i++)
		if (p->far[i].state != FAR_FREE && p->far[i].counted_out > p->far[i].bytes_out)
			return -132;
	return 0;
}

static uint32_t list_len(const struct dnode *head)
{
	uint32_t len = 0;

	for (const struct dnode *n = head->next; n != head; n = n->next)
		len++;
	return len;
}

/* Host pairs without flows, free places and those of hosts: each on the list that it is sought on. */
static int audit_pairs(const struct proxy *p)
{
	uint32_t used = 0, idle = 0, hosts = 0;

	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		const struct hostpair *hp = &p->pairs[i];

		used += hp->used;
		idle += hp->used && !hp->flows;
		hosts += p->lan_hosts[i].used;
		if (dnode_on(&hp->place_node) != (!hp->used || !hp->flows))
			return -133;
	}
	return list_len(&p->pairs_free) + used == p->cfg.max_flows &&
	               list_len(&p->pairs_unasked) + list_len(&p->pairs_left) == idle &&
	               list_len(&p->hosts_free) + hosts == p->cfg.max_flows
	           ? 0
	           : -134;
}

/* The counts of each source's unpaired flows agree with its rank, and make up those of all. */
static int audit_sources(const struct proxy *p)
{
	const struct near_unpaired *u = &p->unpaired;
	uint32_t n[UNPAIRED_KINDS] = {0};

	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		const struct unpaired_source *s = &u->source[i];

		for (uint32_t kind = 0; kind < UNPAIRED_KINDS; kind++) {
			n[kind] += s->n[kind];
			if (dnode_on(&s->rank_node[kind]) != (s->n[kind] != 0) || s->n[kind] > s->n[UNPAIRED_ALL])
				return -107;
		}
	}
	return n[UNPAIRED_ALL] == u->n[UNPAIRED_ALL] && n[UNPAIRED_UNKNOWN] == u->n[UNPAIRED_UNKNOWN] ? 0 : -107;
}

/* The counts of unpaired flows are right. */
static int audit_unpaired(const struct proxy *p)
{
	uint64_t bytes = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		const struct near_flow *f = &p->near[i];

		if (!near_in_use(f) || f->pairing != PAIR_LEARNING)
			continue;
		n++;
		bytes += f->held_bytes;
		if (!f->unpaired_source || !ip_addr_eq(&f->unpaired_source->addr, &f->src))
			return -104;
		if (dnode_on(&f->between_node) == (f->state == NEAR_FAILED && !f->nak_syndrome))
			return -104;
	}
	return n == p->unpaired.n[UNPAIRED_ALL] && bytes == p->unpaired.bytes ? audit_sources(p) : -104;
}

int proxy_audit(struct proxy *p)
{
	uint64_t held = 0;
	int rc = arena_audit(p->arena);

	for (uint32_t i = 0; i < p->cfg.max_flows && rc == 0; i++) {
		if (near_in_use(&p->near[i]))
			rc = audit_near(&p->near[i]);
		if (rc == 0 && p->far[i].state != FAR_FREE)
			rc = audit_far(&p->far[i]);
	}
	if (rc == 0)
		rc = audit_unpaired(p);
	if (rc == 0)
		rc = audit_responses(p);
	if (rc == 0)
		rc = audit_busy(p);
	if (rc == 0)
		rc = audit_waiting(p);
	if (rc == 0)
		rc = audit_lan_hosts(p);
	if (rc == 0)
		rc = audit_pairs(p);
	if (rc == 0)
		rc = barrier_audit(p);
	if (rc == 0)
		rc = wan_fec_audit(p);
	if (rc == 0)
		rc = relay_audit(p);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < p->cfg.nlanes; i++)
		if (proxy_owns_lane(p, i))
			held += p->wan->lanes[i].rx_held_bytes;
	return held == arena_used(p->arena, POOL_WAN) ? 0 : -121;
}
