/* SPDX-License-Identifier: Apache-2.0 */
/* proxy_init.c - a shard's memory, and its start: empty, or from the arena of an earlier process.
 *
 * Theory of operation
 *
 * All memory comes from one block of heap, cut by carve(); the same function counts the bytes, so that the two cannot
 * differ. Nothing is allocated later.
 *
 * Rebuild: flows are made from their descriptors. Then all committed slots are looked at once: those of unknown flows
 * and those settled already are freed, the others are counted for flow and lane. Then each flow walks its slots up to
 * the first hole. */
#include "proxy/carry/barrier.h"
#include "proxy/far/far.h"
#include "proxy/carry/ip_carry.h"
#include "proxy/far/lan_host.h"
#include "proxy/near/near.h"
#include "proxy/far/pair.h"
#include "proxy/carry/raw.h"
#include "proxy/relay/relay.h"
#include "proxy/shard/flow_history.h"
#include "proxy/wan/share.h"
#include "proxy/wan/wan_fec.h"
#include "proxy/wan/wan_lane.h"

#ifdef PROXY_FAULTS
bool proxy_faults[FAULT_COUNT], proxy_fault_asked[FAULT_COUNT];
uint64_t proxy_pos_origin = 1ull << 40;
#endif

/* --- memory --- */

/* Takes pieces off a block; with base NULL it only counts. */
struct bump {
	uint8_t *base;
	size_t used;
};

static void *bump_take(struct bump *b, size_t n)
{
	size_t at = b->used;

	b->used += (n + 63) & ~(size_t)63;
	return b->base ? b->base + at : NULL;
}

/* The least that full datagrams may turn out to be: a search may find that a path carries no more than PMTU_BASE. */
static uint16_t payload_min(const struct proxy_config *c)
{
	uint16_t least = UINT16_MAX;

	for (uint32_t i = 0; i < c->npaths; i++) {
		uint16_t payload = c->path[i].payload_max;

		if (c->path[i].payload_search && payload > PMTU_BASE)
			payload = PMTU_BASE;
		if (payload < least)
			least = payload;
	}
	return least;
}

static uint32_t sent_pages(const struct proxy_config *c)
{
	uint64_t bytes = c->rate_hint_bps / 8 * (c->rtt_hint_ns / 1000) / 1000000 * 4;
	uint64_t pages = bytes / payload_min(c) / SENT_PAGE_ENTRIES + 1;
	uint64_t floor = SENT_PAGES_OWN * c->npaths * ((uint64_t)c->nlanes / c->nshards + 1) + 256;

	if (pages > WAN_PN_SPAN / SENT_PAGE_ENTRIES) /* of one lane; more would never be used by one */
		pages = WAN_PN_SPAN / SENT_PAGE_ENTRIES;
	return (uint32_t)(pages > floor ? pages : floor);
}

static uint32_t ring_len(const struct proxy_config *c)
{
	uint32_t n = 16;

	while (n < sent_pages(c) + 1)
		n *= 2;
	return n;
}

#define NCELLS 13 /* tables of keys; the last one is of the barrier's queues */

struct blocks {
	struct proxy *p;
	struct near_flow *near;
	struct far_flow *far;
	struct unpaired_source *unpaired;
	struct dnode *ranks[UNPAIRED_KINDS];
	struct hostpair *pairs;
	struct lan_host *lan_hosts;
	struct wan *wan;
	struct lane *lanes;
	struct near_lane *near_lanes;
	struct far_lane *far_lanes;
	struct raw_lane *raw_lanes;
	struct ip_lane *ip_lanes;
	struct rd_op *ops;
	uint32_t *near_inc;
	struct idx_hash_cell *cells[NCELLS];
	struct barrier_pair *bpairs;
	struct barrier_far_pair *bfar_pairs;
	struct barrier_queue *bqueues;
	struct held_packet *held_packets;
	struct ip_buf *ip_bufs[2];
	uint8_t *ip_data[2];
	struct cm_conn *conns;
	struct idx_hash_cell *conn_cells;
	struct timer **timers;
	struct sent_page *pages;
	uint32_t *rings;
	uint64_t *rx_bits;
	void *arena_heap, *relay;
	struct proxy_event *failures;
	struct lost_life *lost;
	struct proxy_flow_view *ended;
	struct fec_shard *fec;
	struct fec_space *fec_spaces;
	uint64_t *fec_cells;
	uint8_t *fec_pool, *fec_data, *fec_out;
	uint32_t *fec_free;
	struct fec_kept *fec_kept;
	uint32_t nops, ntimers, own_lanes, nheld_packets;
};

static void carve_barrier(struct bump *b, const struct proxy_config *c, struct blocks *k)
{
	uint32_t bytes = c->ip_pool_bytes / 2, n = ip_pool_bufs(bytes);

	k->bpairs = bump_take(b, c->max_flows * sizeof(*k->bpairs));
	k->bfar_pairs = bump_take(b, c->max_flows * sizeof(*k->bfar_pairs));
	k->bqueues = bump_take(b, BARRIER_QUEUES * sizeof(*k->bqueues));
	k->nheld_packets = BARRIER_RAW_PARCELS + n;
	k->held_packets = bump_take(b, k->nheld_packets * sizeof(*k->held_packets));
	for (int i = 0; i < 2; i++) {
		k->ip_bufs[i] = bump_take(b, n * sizeof(*k->ip_bufs[i]));
		k->ip_data[i] = bump_take(b, ip_pool_data_bytes(bytes));
	}
}

static void carve_fec(struct bump *b, const struct proxy_config *c, struct blocks *k)
{
	uint32_t stride = wan_fec_stride(c), bufs = wan_fec_pool_bufs(c), kept = wan_fec_kept(c);
	size_t spaces = (size_t)k->own_lanes * c->npaths;

	if (!stride)
		return;
	k->fec = bump_take(b, sizeof(*k->fec));
	k->fec_spaces = bump_take(b, spaces * sizeof(*k->fec_spaces));
	k->fec_cells = bump_take(b, spaces * fec_rx_cells(kept) * sizeof(*k->fec_cells));
	k->fec_pool = bump_take(b, (size_t)bufs * stride);
	k->fec_free = bump_take(b, bufs * sizeof(*k->fec_free));
	k->fec_data = bump_take(b, (size_t)kept * stride);
	k->fec_kept = bump_take(b, kept * sizeof(*k->fec_kept));
	k->fec_out = bump_take(b, (size_t)FEC_M_MAX * (stride + WAN_HDR_LEN));
}

static void carve(struct bump *b, const struct proxy_config *c, const struct arena_geometry *g, struct blocks *k)
{
	uint32_t n = c->max_flows;

	k->own_lanes = (uint32_t)(c->nlanes + c->nshards - 1) / c->nshards;
	k->nops = OPS_PER_FLOW * n + 4096;
	k->ntimers = 13 * n + c->nlanes + BARRIER_QUEUES + PATHS_MAX + 6;
	k->p = bump_take(b, sizeof(*k->p));
	k->near = bump_take(b, n * sizeof(*k->near));
	k->far = bump_take(b, n * sizeof(*k->far));
	k->unpaired = bump_take(b, n * sizeof(*k->unpaired));
	for (int i = 0; i < UNPAIRED_KINDS; i++)
		k->ranks[i] = bump_take(b, near_unpaired_ranks(n) * sizeof(*k->ranks[i]));
	k->pairs = bump_take(b, n * sizeof(*k->pairs));
	k->lan_hosts = bump_take(b, n * sizeof(*k->lan_hosts));
	k->wan = bump_take(b, sizeof(*k->wan));
	k->lanes = bump_take(b, c->nlanes * sizeof(*k->lanes));
	k->near_lanes = bump_take(b, c->nlanes * sizeof(*k->near_lanes));
	k->far_lanes = bump_take(b, c->nlanes * sizeof(*k->far_lanes));
	k->raw_lanes = bump_take(b, c->nlanes * sizeof(*k->raw_lanes));
	k->ip_lanes = bump_take(b, c->nlanes * sizeof(*k->ip_lanes));
	k->ops = bump_take(b, k->nops * sizeof(*k->ops));
	k->near_inc = bump_take(b, n * sizeof(*k->near_inc));
	for (int i = 0; i < NCELLS; i++)
		k->cells[i] = bump_take(b, idx_hash_size(i < NCELLS - 1 ? n : BARRIER_QUEUES) *
		                               sizeof(struct idx_hash_cell));
	carve_barrier(b, c, k);
	k->conns = bump_take(b, CM_CONNS * sizeof(*k->conns));
	k->conn_cells = bump_take(b, 2 * idx_hash_size(CM_CONNS) * sizeof(*k->conn_cells));
	k->timers = bump_take(b, k->ntimers * sizeof(*k->timers));
	k->pages = bump_take(b, sent_pages(c) * sizeof(*k->pages));
	k->rings = bump_take(b, (size_t)ring_len(c) * c->npaths * k->own_lanes * sizeof(uint32_t));
	k->rx_bits = bump_take(b, (size_t)k->own_lanes * c->npaths * WAN_RECV_WORDS * sizeof(uint64_t));
	k->arena_heap = bump_take(b, arena_heap_size(g));
	k->lost = bump_take(b, idx_hash_size(n) * sizeof(*k->lost));
	k->failures = bump_take(b, 2 * (size_t)n * sizeof(*k->failures));
	k->ended = bump_take(b, 2 * (size_t)flow_history_len(c) * sizeof(*k->ended));
	carve_fec(b, c, k);
	k->relay = bump_take(b, relay_heap_size(c));
}

size_t proxy_heap_size(const struct proxy_config *c, const struct arena_geometry *g)
{
	struct bump b = {0};
	struct blocks k = {0};

	if (!proxy_config_sane(c) || g->max_flows != c->max_flows || arena_heap_size(g) == 0)
		return 0;
	carve(&b, c, g, &k);
	return b.used;
}

/* --- beginning --- */

static const struct role_calls role_calls = {
    .cm_open = near_cm_open,
    .cm_over = near_cm_over,
    .far_cm_open = far_cm_open,
    .far_schedule = far_schedule,
    .end_to_end_asked = pair_end_to_end_asked,
};

static void init_tables(struct proxy *p, const struct blocks *k)
{
	uint32_t size = idx_hash_size(p->cfg.max_flows);

	p->near = k->near;
	p->failures = k->failures;
	p->lost_lives = k->lost;
	flow_history_init(p, k->ended);
	p->nlost_lives = size;
	p->far = k->far;
	p->pairs = k->pairs;
	p->lan_hosts = k->lan_hosts;
	p->wan = k->wan;
	p->roles = &role_calls;
	p->wan->lanes = k->lanes;
	p->near_lanes = k->near_lanes;
	p->far_lanes = k->far_lanes;
	p->raw_lanes = k->raw_lanes;
	p->ip_lanes = k->ip_lanes;
	p->near_inc = k->near_inc;
	idx_hash_init(&p->near_by_key, k->cells[0], size);
	idx_hash_init(&p->far_by_peer, k->cells[1], size);
	idx_hash_init(&p->far_by_qpn, k->cells[2], size);
	idx_hash_init(&p->pair_by_hosts, k->cells[3], size);
	pair_init(p);
	lan_host_init(p);
	p->unpaired.source = k->unpaired;
	for (int i = 0; i < UNPAIRED_KINDS; i++)
		p->unpaired.ranking[i].rank = k->ranks[i];
	near_unpaired_init(&p->unpaired, p->cfg.max_flows);
	idx_hash_init(&p->barrier.pairs.by_machines, k->cells[4], size);
	idx_hash_init(&p->host_by_addr, k->cells[5], size);
	idx_hash_init(&p->near_by_requester, k->cells[6], size);
	idx_hash_init(&p->far_by_dest, k->cells[7], size);
	idx_hash_init(&p->unpaired.by_hosts, k->cells[8], size);
	idx_hash_init(&p->barrier.far_pairs.by_machines, k->cells[9], size);
	idx_hash_init(&p->barrier.stale_by_dest, k->cells[10], size);
	idx_hash_init(&p->unpaired.by_source, k->cells[11], size);
	idx_hash_init(&p->barrier.queues.by_machines, k->cells[NCELLS - 1], idx_hash_size(BARRIER_QUEUES));
	barrier_table_init(&p->barrier.pairs, k->bpairs, sizeof(*k->bpairs), p->cfg.max_flows);
	barrier_table_init(&p->barrier.far_pairs, k->bfar_pairs, sizeof(*k->bfar_pairs), p->cfg.max_flows);
	barrier_table_init(&p->barrier.queues, k->bqueues, sizeof(*k->bqueues), BARRIER_QUEUES);
	barrier_init(p, k->held_packets, k->nheld_packets);
	ip_pool_init(&p->barrier.ip_near, k->ip_bufs[0], k->ip_data[0], p->cfg.ip_pool_bytes / 2);
	ip_pool_init(&p->barrier.ip_far, k->ip_bufs[1], k->ip_data[1], p->cfg.ip_pool_bytes / 2);
	dlist_init(&p->ops_free);
	for (uint32_t i = 0; i < k->nops; i++)
		dlist_append(&p->ops_free, &k->ops[i].node);
	p->nops_free = p->nops = k->nops;
	dlist_init(&p->reserve_waiting);
	dlist_init(&p->reserve_unheld);
	dlist_init(&p->given_resps);
	timer_init(&p->reserve_timer, TK_ROOM, 0);
	timer_init(&p->end_to_end.hold, TK_RAW_HOLD, 0);
	timer_init(&p->given_timer, TK_GIVEN, 0);
	dlist_init(&p->ack_tx);
	dlist_init(&p->resp_list);
	dlist_init(&p->held_packets);
	dlist_init(&p->far_cnps);
	dlist_init(&p->lan_ready);
	dlist_init(&p->wan->lane_list);
	dlist_init(&p->stale_flows);
	dlist_init(&p->near_work);
	dlist_init(&p->far_work);
	dlist_init(&p->dead_slots);
	dlist_init(&p->near_free);
	dlist_init(&p->far_free);
	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		dlist_append(&p->near_free, &p->near[i].free_node);
		dlist_append(&p->far_free, &p->far[i].free_node);
	}
	cm_table_init(&p->cm, k->conns, k->conn_cells, CM_CONNS, p->cfg.hash_seed);
	timer_heap_init(&p->timers, k->timers, k->ntimers);
	timer_init(&p->keepalive, TK_KEEPALIVE, 0);
	sent_pool_init(&p->wan->sent_pool, k->pages, sent_pages(&p->cfg), k->own_lanes * p->cfg.npaths);
	p->wan->npaths = p->cfg.npaths;
	for (uint8_t i = 0; i < p->wan->npaths; i++)
		wan_path_init(&p->wan->path[i], i, &p->cfg.path[i], p->cfg.rtt_hint_ns);
}

static void init_sources(struct proxy *p)
{
	transport_register(&p->wan->transport, SOURCE_NEAR, &near_source);
	transport_register(&p->wan->transport, SOURCE_FAR, &far_source);
	transport_register(&p->wan->transport, SOURCE_RAW, &raw_source);
	transport_register(&p->wan->transport, SOURCE_IP, &ip_source);
	if (p->cfg.relay_channels)
		transport_register(&p->wan->transport, SOURCE_RELAY, &relay_source);
	for (uint32_t i = 0; i < p->cfg.nlanes; i++) {
		dlist_init(&p->near_lanes[i].closes);
		dlist_init(&p->far_lanes[i].reports);
		dlist_init(&p->raw_lanes[i].partial);
		dlist_init(&p->raw_lanes[i].held);
		dlist_init(&p->ip_lanes[i].partial);
	}
}

static void init_lanes(struct proxy *p, const struct blocks *k)
{
	uint32_t own = 0, len = ring_len(&p->cfg);

	for (uint32_t i = 0; i < p->cfg.nlanes; i++) {
		if (!proxy_owns_lane(p, i))
			continue;
		wan_lane_init(p, &p->wan->lanes[i], (uint8_t)i, k->rings + (size_t)len * p->wan->npaths * own, len,
		              k->rx_bits + (size_t)WAN_RECV_WORDS * p->wan->npaths * own);
		own++;
	}
}

static void init_fec(struct proxy *p, const struct blocks *k)
{
	uint32_t stride = wan_fec_stride(&p->cfg), kept = wan_fec_kept(&p->cfg), n = 0;

	if (!stride)
		return;
	p->wan->fec = k->fec;
	fec_code_init(&p->wan->fec->code);
	fec_pool_init(&p->wan->fec->pool, k->fec_pool, k->fec_free, wan_fec_pool_bufs(&p->cfg), stride);
	fec_rx_init(&p->wan->fec->rx, &p->wan->fec->code, &p->wan->fec->solver, k->fec_data, k->fec_kept, kept, stride, k->fec_out);
	for (uint32_t i = 0; i < p->cfg.nlanes; i++)
		for (uint32_t path = 0; path < p->wan->npaths && proxy_owns_lane(p, i); path++, n++)
			wan_fec_init_space(&p->wan->lanes[i].space[path], k->fec_spaces + n,
			                   k->fec_cells + (size_t)fec_rx_cells(kept) * n, n);
}

/* A request without a flow, whose descriptor was damaged. The packet itself has its hosts and QPN. */
static void name_stale_epoch(struct proxy *p, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct near_flow unknown = {.idx = h->flow, .inc = h->inc};
	struct roce_pkt pkt;

	if (h->kind != SLOT_REQ_NEAR || p->near[h->flow].state != NEAR_FREE ||
	    roce_parse(arena_data(p->arena, slot), h->len, &pkt) != DROP_NONE)
		return;
	unknown.src = pkt.src;
	unknown.dst = pkt.dst;
	unknown.dest_qpn = pkt.dest_qpn;
	count(p, CTR_BYTES_FAILED, h->len);
	proxy_failure_push(p, FAILURE_DAMAGED, &unknown, NULL, h->pos, h->len);
}

/* Counts the slots in the arena: bytes held per flow and lane. */
static void adopt_slots(struct proxy *p)
{
	uint32_t cursor = 0, slot;

	while ((slot = arena_next_committed(p->arena, &cursor)) != SLOT_NONE) {
		const struct slot_hdr *h = arena_hdr(p->arena, slot);
		bool near = h->kind == SLOT_REQ_NEAR || h->kind == SLOT_RESP_NEAR;
		bool known = h->flow < p->cfg.max_flows &&
		             (near ? near_in_use(&p->near[h->flow]) && p->near[h->flow].inc == h->inc
		                   : p->far[h->flow].state != FAR_FREE && p->far[h->flow].inc == h->inc);
		bool settled = known && (near ? h->kind == SLOT_REQ_NEAR && h->pos < p->near[h->flow].pos_settled
		                              : h->kind == SLOT_REQ_FAR && h->pos < p->far[h->flow].pos_acked);
		uint32_t bytes = arena_class_bytes(h->len);

		if (relay_slot(h)) {
			relay_adopt(p, slot);
			continue;
		}
		if (!known && arena_damaged(p->arena))
			name_stale_epoch(p, slot);
		if (!known || (near && h->kind == SLOT_REQ_NEAR && !settled && p->near[h->flow].state == NEAR_FAILED) ||
		    (h->kind == SLOT_REQ_FAR && far_has_failed(&p->far[h->flow])) ||
		    (settled && !(near && (h->flags & SF_OWN_RESPONSE)))) {
			arena_free(p->arena, slot);
			continue;
		}
		arena_meta(p->arena, slot)->lane = (uint8_t)(near ? p->near[h->flow].lane : p->far[h->flow].lane);
		if (settled) {
			near_ops_adopt(p, &p->near[h->flow], slot);
			continue;
		}
		if (h->kind == SLOT_REQ_NEAR) {
			near_count_held(p, &p->near[h->flow], bytes, 0);
			p->near[h->flow].ooo_pkts++;
			p->near[h->flow].pos_held = max_u64(p->near[h->flow].pos_held, h->pos + h->psns);
		} else if (h->kind == SLOT_REQ_FAR) {
			if (!p->far[h->flow].held_bytes)
				share_begin(p, &p->far[h->flow].share);
			p->far[h->flow].held_bytes += bytes;
			p->far[h->flow].pos_rx_max = max_u64(p->far[h->flow].pos_rx_max, h->pos + 1);
			dlist_append(&p->far[h->flow].slots, &arena_meta(p->arena, slot)->node);
		} else if (h->kind == SLOT_RESP_FAR) {
			far_response_here(&p->far[h->flow], h->pos);
		}
		if (h->kind == SLOT_REQ_FAR || h->kind == SLOT_RESP_NEAR)
			p->wan->lanes[arena_meta(p->arena, slot)->lane].rx_held_bytes += bytes;
	}
}

/* Takes up the responses, once it is known for which of them operations still wait. */
static void adopt_responses(struct proxy *p)
{
	uint32_t cursor = 0, slot;

	while ((slot = arena_next_committed(p->arena, &cursor)) != SLOT_NONE) {
		const struct slot_hdr *h = arena_hdr(p->arena, slot);

		if (h->kind == SLOT_RESP_NEAR)
			near_resp_adopt(p, slot);
	}
}

/* A near flow with packets behind a hole may have ACKed the packets in the hole, which its host does not repeat. A hole
 * at the far edge is filled again by the near edge. */
static void fail_damaged(struct proxy *p)
{
	uint32_t n = arena_damaged(p->arena), flow;
	uint64_t pos;

	if (!n)
		return;
	count(p, CTR_ARENA_DAMAGED, n);
	proxy_event_push(p, EV_ARENA_DAMAGED, NULL, NULL, 0, n);
	for (uint32_t i = 0; i < p->cfg.max_flows; i++)
		if (near_in_use(&p->near[i]) && p->near[i].pairing != PAIR_LEARNING && p->near[i].pos_held > p->near[i].pos_next)
			near_damaged(p, &p->near[i]);
	for (uint32_t i = 0; arena_hurt(p->arena, i, &flow, &pos); i++)
		if (near_in_use(&p->near[flow]) && p->near[flow].pairing != PAIR_LEARNING && p->near[flow].pos_next == pos)
			near_damaged(p, &p->near[flow]);
}

static void rebuild(struct proxy *p)
{
	near_rebuild(p);
	far_rebuild(p);
	relay_rebuild(p);
	adopt_slots(p);
	near_rebuild_finish(p);
	adopt_responses(p);
	far_rebuild_finish(p);
	fail_damaged(p);
	proxy_event_push(p, EV_REBUILT, NULL, NULL, 0, p->near_used + p->far_used);
}

int proxy_init(struct proxy **out, void *heap, void *region, const struct proxy_config *c,
               const struct arena_geometry *g, enum proxy_start start, uint64_t epoch, uint64_t now_ns)
{
	struct bump b = {.base = heap};
	struct blocks k = {0};
	struct proxy *p;
	int rc;

	if (!proxy_heap_size(c, g) || !c->path[0].pacer)
		return -EINVAL;
	carve(&b, c, g, &k);
	p = k.p;
	p->cfg = *c;
	p->now_ns = now_ns;
	p->work_left = UINT32_MAX; /* a start has a promise of its own */
	p->last_rx_ns = now_ns; /* silence counts from here */
	rc = start == PROXY_START_FRESH ? arena_format(&p->arena, region, g, epoch, k.arena_heap)
	                                : arena_attach(&p->arena, region, g, k.arena_heap);
	if (rc < 0)
		return rc;
	init_tables(p, &k);
	init_sources(p);
	init_lanes(p, &k);
	init_fec(p, &k);
	relay_init(p, k.relay);
	if (start == PROXY_START_REBUILD)
		rebuild(p);
	*out = p;
	return 0;
}
