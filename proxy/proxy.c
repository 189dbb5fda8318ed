/* SPDX-License-Identifier: Apache-2.0 */
/* proxy.c - the entrance of the core: memory, sessions, who gets which packet, whose turn it is. */
#include "far.h"
#include "mouth.h"
#include "near.h"
#include "pair.h"
#include "raw.h"
#include "wan_lane.h"
#include "wan_seal.h"

#ifdef PROXY_FAULTS
unsigned proxy_faults;
#endif

/* --- configuration --- */

void proxy_config_defaults(struct proxy_config *c)
{
	memset(c, 0, sizeof(*c));
	c->nshards = 1;
	c->nlanes = 64;
	c->mode = ACK_MODE_HOST;
	c->max_flows = 4096;
	c->wan_payload_max = 9000 - 28;
	c->rtt_hint_ns = 10000000;
	c->rate_hint_bps = 10000000000ull;
	c->dead_peer_ns = 2000000000ull;
	c->keepalive_ns = 250000000ull;
	c->reorder_ns = 30000;
	c->lan_window_bytes = 1u << 20;
	c->lan_timeout_ns = 20000000ull;
	c->stall_ns = 500000000ull;
	c->give_up_ns = 60000000000ull;
	c->held_max_ns = 1000000000ull;
	c->quarantine_ns = 100000000ull;
	c->rnr_retry_infinite = true;
}

static bool config_sane(const struct proxy_config *c)
{
	return c->nshards >= 1 && c->nshards <= SHARDS_MAX && c->shard < c->nshards && c->nlanes >= 1 &&
	       c->nlanes <= LANES_MAX && c->nlanes >= c->nshards && c->mode <= ACK_MODE_NEAR &&
	       c->nlocal <= PREFIXES_MAX && c->nremote <= PREFIXES_MAX && c->max_flows >= 16 &&
	       c->max_flows <= FLOWS_MAX && c->wan_payload_max >= WAN_MTU_MIN - 48 &&
	       c->wan_payload_max <= WAN_MTU_MAX && c->rate_hint_bps > 0 && c->rtt_hint_ns > 0 &&
	       c->lan_window_bytes >= LAN_PKT_MAX && c->lan_timeout_ns > 0 && c->keepalive_ns > 0;
}

bool ip_prefix_holds(const struct ip_prefix *p, const struct ip_addr *a)
{
	unsigned bytes = p->len / 8, bits = p->len % 8;

	if (p->len > 128 || memcmp(p->addr.b, a->b, bytes) != 0)
		return false;
	return bits == 0 || ((p->addr.b[bytes] ^ a->b[bytes]) & (0xff00 >> bits) & 0xff) == 0;
}

bool ip_prefix_any(const struct ip_prefix *list, uint32_t n, const struct ip_addr *a)
{
	for (uint32_t i = 0; i < n; i++)
		if (ip_prefix_holds(&list[i], a))
			return true;
	return false;
}

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

static uint32_t sent_pages(const struct proxy_config *c)
{
	uint64_t bytes = c->rate_hint_bps / 8 * (c->rtt_hint_ns / 1000) / 1000000 * 4;
	uint64_t pages = bytes / c->wan_payload_max / SENT_PAGE_ENTRIES + 1;
	uint64_t floor = SENT_PAGES_OWN * ((uint64_t)c->nlanes / c->nshards + 1) + 64;

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

struct blocks {
	struct proxy *p;
	struct near_flow *near;
	struct far_flow *far;
	struct hostpair *pairs;
	struct lane *lanes;
	struct rd_op *ops;
	uint32_t *near_inc;
	struct idx_hash_cell *cells[4];
	struct cm_conn *conns;
	struct timer **timers;
	struct sent_page *pages;
	uint32_t *rings;
	uint64_t *rx_bits;
	void *arena_heap;
	uint32_t nops, ntimers, own_lanes;
};

static void carve(struct bump *b, const struct proxy_config *c, const struct arena_geometry *g, struct blocks *k)
{
	uint32_t n = c->max_flows;

	k->own_lanes = (uint32_t)(c->nlanes + c->nshards - 1) / c->nshards;
	k->nops = 4 * n + 1024;
	k->ntimers = 6 * n + c->nlanes + 4;
	k->p = bump_take(b, sizeof(*k->p));
	k->near = bump_take(b, n * sizeof(*k->near));
	k->far = bump_take(b, n * sizeof(*k->far));
	k->pairs = bump_take(b, n * sizeof(*k->pairs));
	k->lanes = bump_take(b, c->nlanes * sizeof(*k->lanes));
	k->ops = bump_take(b, k->nops * sizeof(*k->ops));
	k->near_inc = bump_take(b, n * sizeof(*k->near_inc));
	for (int i = 0; i < 4; i++)
		k->cells[i] = bump_take(b, idx_hash_size(n) * sizeof(struct idx_hash_cell));
	k->conns = bump_take(b, CM_CONNS * sizeof(*k->conns));
	k->timers = bump_take(b, k->ntimers * sizeof(*k->timers));
	k->pages = bump_take(b, sent_pages(c) * sizeof(*k->pages));
	k->rings = bump_take(b, (size_t)ring_len(c) * k->own_lanes * sizeof(uint32_t));
	k->rx_bits = bump_take(b, (size_t)k->own_lanes * WAN_RECV_WORDS * sizeof(uint64_t));
	k->arena_heap = bump_take(b, arena_heap_size(g));
}

size_t proxy_heap_size(const struct proxy_config *c, const struct arena_geometry *g)
{
	struct bump b = {0};
	struct blocks k;

	if (!config_sane(c) || g->max_flows != c->max_flows || arena_heap_size(g) == 0)
		return 0;
	carve(&b, c, g, &k);
	return b.used;
}

static void init_tables(struct proxy *p, const struct blocks *k)
{
	uint32_t size = idx_hash_size(p->cfg.max_flows);

	p->near = k->near;
	p->far = k->far;
	p->pairs = k->pairs;
	p->lanes = k->lanes;
	p->near_inc = k->near_inc;
	idx_hash_init(&p->near_by_key, k->cells[0], size);
	idx_hash_init(&p->far_by_peer, k->cells[1], size);
	idx_hash_init(&p->far_by_qpn, k->cells[2], size);
	idx_hash_init(&p->pair_by_hosts, k->cells[3], size);
	dlist_init(&p->ops_free);
	for (uint32_t i = 0; i < k->nops; i++)
		dlist_append(&p->ops_free, &k->ops[i].node);
	dlist_init(&p->mouth);
	dlist_init(&p->resp_list);
	dlist_init(&p->raw_rx);
	dlist_init(&p->lan_ready);
	dlist_init(&p->lane_list);
	cm_table_init(&p->cm, k->conns, CM_CONNS);
	timer_heap_init(&p->timers, k->timers, k->ntimers);
	timer_init(&p->keepalive, TK_KEEPALIVE, 0);
	sent_pool_init(&p->sent_pool, k->pages, sent_pages(&p->cfg), k->own_lanes);
	wan_rtt_init(&p->rtt, p->cfg.rtt_hint_ns);
}

static bool own_lane(const struct proxy *p, uint32_t lane)
{
	return lane < p->cfg.nlanes && lane % p->cfg.nshards == p->cfg.shard;
}

static void init_lanes(struct proxy *p, const struct blocks *k)
{
	uint32_t own = 0, len = ring_len(&p->cfg);

	for (uint32_t i = 0; i < p->cfg.nlanes; i++) {
		if (!own_lane(p, i))
			continue;
		wan_lane_init(p, &p->lanes[i], (uint8_t)i, k->rings + (size_t)len * own, len,
		              k->rx_bits + (size_t)WAN_RECV_WORDS * own);
		own++;
	}
}

/* Takes stock of the slots that an earlier life left: bytes held per flow and lane. */
static void adopt_slots(struct proxy *p)
{
	uint32_t cursor = 0, slot;

	while ((slot = arena_next_committed(p->arena, &cursor)) != SLOT_NONE) {
		const struct slot_hdr *h = arena_hdr(p->arena, slot);
		bool near = h->kind == SLOT_REQ_NEAR || h->kind == SLOT_RESP_NEAR;
		bool known = h->flow < p->cfg.max_flows &&
		             (near ? p->near[h->flow].used && p->near[h->flow].inc == h->inc
		                   : p->far[h->flow].used && p->far[h->flow].inc == h->inc);
		bool settled = known && (near ? h->pos < p->near[h->flow].pos_settled
		                              : h->kind == SLOT_REQ_FAR && h->pos < p->far[h->flow].pos_acked);
		uint32_t bytes = arena_class_bytes(h->len);

		if (!known || settled) {
			arena_free(p->arena, slot);
			continue;
		}
		arena_meta(p->arena, slot)->lane = (uint8_t)(near ? p->near[h->flow].lane : p->far[h->flow].lane);
		if (h->kind == SLOT_REQ_NEAR) {
			p->near[h->flow].held_bytes += bytes;
			p->near[h->flow].ooo_pkts++;
		} else if (h->kind == SLOT_REQ_FAR) {
			p->far[h->flow].held_bytes += bytes;
			p->far[h->flow].pos_rx_max = max_u64(p->far[h->flow].pos_rx_max, h->pos + 1);
		}
		if (h->kind == SLOT_REQ_FAR || h->kind == SLOT_RESP_NEAR)
			p->lanes[arena_meta(p->arena, slot)->lane].rx_held_bytes += bytes;
	}
}

static void rebuild(struct proxy *p)
{
	near_rebuild(p);
	far_rebuild(p);
	adopt_slots(p);
	near_rebuild_finish(p);
	far_rebuild_finish(p);
	proxy_event_push(p, EV_REBUILT, NULL, NULL, 0, p->near_used + p->far_used);
}

int proxy_init(struct proxy **out, void *heap, void *region, const struct proxy_config *c,
               const struct arena_geometry *g, enum proxy_start start, uint64_t epoch, uint64_t now_ns)
{
	struct bump b = {.base = heap};
	struct blocks k;
	struct proxy *p;
	int rc;

	if (!proxy_heap_size(c, g) || !c->pacer)
		return -EINVAL;
	carve(&b, c, g, &k);
	p = k.p;
	p->cfg = *c;
	p->now_ns = now_ns;
	rc = start == PROXY_START_FRESH ? arena_format(&p->arena, region, g, epoch, k.arena_heap)
	                                : arena_attach(&p->arena, region, g, k.arena_heap);
	if (rc < 0)
		return rc;
	init_tables(p, &k);
	init_lanes(p, &k);
	if (start == PROXY_START_REBUILD)
		rebuild(p);
	*out = p;
	return 0;
}

int proxy_reconfigure(struct proxy *p, const struct proxy_config *c, uint64_t now_ns)
{
	struct proxy_config want = *c;

	if (!config_sane(c) || c->shard != p->cfg.shard || c->nshards != p->cfg.nshards || c->nlanes != p->cfg.nlanes ||
	    c->max_flows != p->cfg.max_flows || c->pacer != p->cfg.pacer ||
	    c->wan_payload_max != p->cfg.wan_payload_max || c->nlocal != p->cfg.nlocal ||
	    c->nremote != p->cfg.nremote || memcmp(c->local, p->cfg.local, sizeof(c->local)) != 0 ||
	    memcmp(c->remote, p->cfg.remote, sizeof(c->remote)) != 0)
		return -EINVAL;
	want.rtt_hint_ns = p->cfg.rtt_hint_ns; /* they sized memory at the start */
	want.rate_hint_bps = p->cfg.rate_hint_bps;
	p->now_ns = now_ns;
	p->cfg = want;
	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		if (!p->near[i].used || p->near[i].mode == want.mode)
			continue;
		p->near[i].mode = want.mode;
		p->near[i].open_due = true; /* the far edge reports as the mode needs */
		near_wan_kick(p, &p->near[i]);
		near_speak(p, &p->near[i], DUE_ACK);
	}
	return 0;
}

/* --- session --- */

/* Whatever waits for the peer is sent again: it may have lost its memory of this session's numbers. */
static void requeue_slots(struct proxy *p)
{
	uint32_t cursor = 0, slot;

	while ((slot = arena_next_committed(p->arena, &cursor)) != SLOT_NONE) {
		const struct slot_hdr *h = arena_hdr(p->arena, slot);
		struct slot_meta *m = arena_meta(p->arena, slot);

		if (h->kind != SLOT_REQ_NEAR && h->kind != SLOT_RESP_FAR && h->kind != SLOT_RAW_LAN)
			continue;
		m->units[0] = m->units[1] = m->lost[0] = m->lost[1] = 0;
		m->sends = m->in_flight = m->copies = 0;
		if (h->kind == SLOT_REQ_NEAR || m->queued == SQ_HELD)
			continue;
		wan_lane_queue_first(p, lane_of(p, m->lane), slot);
	}
}

void proxy_session_start(struct proxy *p, const struct proxy_session *s, uint64_t now_ns)
{
	p->now_ns = now_ns;
	p->session = *s;
	p->session_on = true;
	p->mismatch = s->mismatch;
	p->wan_up = false;
	p->last_rx_ns = now_ns;
	for (uint32_t i = 0; i < p->cfg.nlanes; i++)
		if (own_lane(p, i))
			wan_lane_session_start(p, &p->lanes[i]);
	requeue_slots(p);
	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		if (p->near[i].used)
			near_session_start(p, &p->near[i]);
		if (p->far[i].used)
			far_session_start(p, &p->far[i]);
	}
	timer_set(&p->timers, &p->keepalive, now_ns + p->cfg.keepalive_ns);
}

/* --- steering --- */

static uint32_t fold(const struct ip_addr *a)
{
	if (ip_addr_is4(a))
		return get_be32(a->b + 12);
	return get_be32(a->b) ^ get_be32(a->b + 4) ^ get_be32(a->b + 8) ^ get_be32(a->b + 12);
}

uint16_t proxy_lane(const struct ip_addr *a, const struct ip_addr *b, uint16_t nlanes)
{
	uint32_t h = (fold(a) ^ fold(b)) * 0x9e3779b1u;

	return (uint16_t)((h >> 16) % nlanes);
}

int proxy_wan_lane(const uint8_t *dgram, size_t len)
{
	struct wan_hdr h;

	return wan_hdr_get(dgram, len, &h) == DROP_NONE ? h.lane : -1;
}

/* --- packets in --- */

enum proxy_drop proxy_lan_rx(struct proxy *p, uint64_t now_ns, const uint8_t *l3, size_t len, uint16_t vlan_tci)
{
	struct roce_pkt pkt;
	enum proxy_drop d = roce_parse(l3, len, &pkt);
	uint32_t payload_crc;

	p->now_ns = now_ns;
	if (d != DROP_NONE)
		return drop(p, d);
	if (!ip_prefix_any(p->cfg.local, p->cfg.nlocal, &pkt.src) ||
	    !ip_prefix_any(p->cfg.remote, p->cfg.nremote, &pkt.dst) ||
	    !own_lane(p, proxy_lane(&pkt.src, &pkt.dst, p->cfg.nlanes)))
		return drop(p, DROP_LAN_FOREIGN);
	if (pkt.ttl <= 1)
		return drop(p, DROP_LAN_TTL);
	if (!icrc_check(l3, &pkt, &payload_crc))
		return drop(p, DROP_LAN_BAD_ICRC);
	count(p, CTR_LAN_RX_PKTS, 1);
	count(p, CTR_LAN_RX_BYTES, pkt.len);
	switch (pkt.class) {
	case ROCE_RC_REQUEST:
	case ROCE_RC_UNKNOWN:
		return near_rx(p, l3, &pkt, vlan_tci, payload_crc);
	case ROCE_RC_RESPONSE:
		return far_rx(p, l3, &pkt, vlan_tci);
	default:
		return raw_rx(p, l3, &pkt, vlan_tci);
	}
}

enum proxy_drop proxy_wan_rx(struct proxy *p, uint64_t now_ns, const uint8_t *dgram, size_t len, bool ce)
{
	struct wan_hdr h;
	enum proxy_drop d = wan_hdr_get(dgram, len, &h);

	(void)ce; /* for the rate controllers to come */
	p->now_ns = now_ns;
	if (d != DROP_NONE)
		return drop(p, d);
	if (!own_lane(p, h.lane))
		return drop(p, DROP_WAN_BAD_LANE);
	if (!p->session_on || h.epoch != p->session.epoch_rx)
		return drop(p, DROP_WAN_BAD_EPOCH);
	d = wan_open(dgram, &len);
	if (d != DROP_NONE)
		return drop(p, d);
	if (h.wan_pn >> 62)
		return drop(p, DROP_WAN_BAD_FRAME);
	count(p, CTR_WAN_RX_DGRAMS, 1);
	count(p, CTR_WAN_RX_BYTES, len);
	p->last_rx_ns = now_ns;
	if (!p->wan_up) {
		p->wan_up = true;
		proxy_event_push(p, EV_WAN_UP, NULL, NULL, 0, 0);
	}
	return wan_lane_rx(p, &p->lanes[h.lane], &h, dgram, len);
}

/* --- time --- */

static void on_keepalive(struct proxy *p)
{
	if (p->wan_up && p->now_ns >= p->last_rx_ns + p->cfg.dead_peer_ns) {
		p->wan_up = false;
		proxy_event_push(p, EV_WAN_DEAD, NULL, NULL, 0, p->now_ns - p->last_rx_ns);
	}
	if (p->now_ns >= p->last_tx_ns + p->cfg.keepalive_ns || !p->wan_up) {
		struct lane *l = &p->lanes[p->cfg.shard]; /* the shard's first lane */

		l->ping_due = true;
		wan_lane_kick(p, l);
	}
	timer_set(&p->timers, &p->keepalive, p->now_ns + p->cfg.keepalive_ns);
}

static void on_timer(struct proxy *p, const struct timer *t)
{
	switch (t->kind) {
	case TK_RTO:
		far_on_timer(p, &p->far[t->owner]);
		break;
	case TK_QUARANTINE:
		pair_on_timer(p, &p->pairs[t->owner]);
		break;
	case TK_LANE:
		wan_lane_on_timer(p, &p->lanes[t->owner]);
		break;
	case TK_KEEPALIVE:
		on_keepalive(p);
		break;
	default:
		near_on_timer(p, &p->near[t->owner], t->kind);
		break;
	}
}

void proxy_tick(struct proxy *p, uint64_t now_ns)
{
	struct timer *t;

	p->now_ns = now_ns;
	while ((t = timer_pop(&p->timers, now_ns)))
		on_timer(p, t);
}

uint64_t proxy_next_wake(const struct proxy *p, uint64_t now_ns)
{
	uint64_t next = timer_next(&p->timers);

	if (!dlist_empty(&p->mouth) || !dlist_empty(&p->lan_ready) || !dlist_empty(&p->raw_rx) ||
	    !dlist_empty(&p->resp_list))
		return now_ns;
	if (!dlist_empty(&p->lane_list))
		next = min_u64(next, p->pacer_blocked ? wan_pacer_next_ns(p->cfg.pacer) : now_ns);
	return next;
}

/* --- packets out --- */

static size_t tx_mouth(struct proxy *p, struct lan_tx *tx)
{
	struct dnode *n;
	size_t len;

	while ((n = dlist_first(&p->mouth))) {
		dlist_remove(n);
		len = mouth_speak(p, dlist_entry(n, struct near_flow, mouth_node), tx);
		if (len)
			return len;
	}
	return 0;
}

static size_t tx_response(struct proxy *p, struct lan_tx *tx)
{
	struct dnode *n;
	size_t len;

	while ((n = dlist_first(&p->resp_list))) {
		len = near_resp_tx(p, dlist_entry(n, struct near_flow, resp_node), tx);
		if (len) {
			dlist_rotate(&p->resp_list);
			return len;
		}
	}
	return 0;
}

static size_t tx_request(struct proxy *p, struct lan_tx *tx)
{
	struct dnode *n;
	size_t len;

	while ((n = dlist_first(&p->lan_ready))) {
		len = far_lan_tx(p, dlist_entry(n, struct far_flow, lan_node), tx);
		if (len)
			return len;
	}
	return 0;
}

size_t proxy_lan_tx(struct proxy *p, uint64_t now_ns, struct lan_tx *tx)
{
	size_t len;

	p->now_ns = now_ns;
	len = tx_mouth(p, tx);
	if (!len)
		len = raw_lan_tx(p, tx);
	if (!len)
		len = tx_response(p, tx);
	if (!len)
		len = tx_request(p, tx);
	if (len) {
		count(p, CTR_LAN_TX_PKTS, 1);
		count(p, CTR_LAN_TX_BYTES, len);
	}
	return len;
}

size_t proxy_wan_tx(struct proxy *p, uint64_t now_ns, uint8_t *buf, size_t cap, struct wan_tx *tx)
{
	bool ready = wan_pacer_ready(p->cfg.pacer, now_ns);
	struct dnode *n, *last = p->lane_list.prev;
	bool more = true;

	p->now_ns = now_ns;
	p->pacer_blocked = false;
	if (cap < p->cfg.wan_payload_max)
		return 0;
	while (more && (n = dlist_first(&p->lane_list))) {
		struct lane *l = dlist_entry(n, struct lane, node);
		size_t len = wan_lane_build(p, l, buf, cap, ready);

		more = n != last;
		if (len) {
			wan_pacer_take(p->cfg.pacer, now_ns, len);
			p->last_tx_ns = now_ns;
			tx->lane = l->id;
			tx->path = 0;
			if (ready)
				dlist_rotate(&p->lane_list);
			return len;
		}
		dlist_remove(n);
		if (!ready && wan_lane_has_data(l)) {
			dlist_append(&p->lane_list, n);
			p->pacer_blocked = true;
		}
	}
	return 0;
}

/* --- what happened, what is --- */

void proxy_event_push(struct proxy *p, enum proxy_event_type type, const struct near_flow *n, const struct far_flow *f,
                      uint64_t pos, uint64_t value)
{
	struct proxy_event *ev = &p->events[p->ev_head % EVENT_RING];

	if (p->ev_head - p->ev_tail >= EVENT_RING)
		return; /* nobody reads: the oldest are worth more */
	*ev = (struct proxy_event){.type = type, .now_ns = p->now_ns, .pos = pos, .value = value};
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
	}
	p->ev_head++;
}

bool proxy_event_next(struct proxy *p, struct proxy_event *ev)
{
	if (p->ev_tail == p->ev_head)
		return false;
	*ev = p->events[p->ev_tail++ % EVENT_RING];
	return true;
}

const struct proxy_counters *proxy_counters(const struct proxy *p)
{
	return &p->counters;
}

void proxy_link_status(const struct proxy *p, uint64_t now_ns, struct proxy_link_status *s)
{
	memset(s, 0, sizeof(*s));
	s->wan_up = p->wan_up && now_ns < p->last_rx_ns + p->cfg.dead_peer_ns;
	s->mismatch = p->mismatch;
	s->rtt_min_ns = p->rtt.min_ns;
	s->rtt_smoothed_ns = p->rtt.smoothed_ns;
	for (uint32_t i = 0; i < p->cfg.nlanes; i++)
		if (own_lane(p, i))
			s->wan_in_flight_bytes += p->lanes[i].sent.bytes_in_flight;
	for (int i = 0; i < POOL_COUNT; i++) {
		s->pool_used[i] = arena_used(p->arena, (enum arena_pool)i);
		s->pool_capacity[i] = arena_capacity(p->arena, (enum arena_pool)i);
	}
	s->near_flows = p->near_used;
	s->far_flows = p->far_used;
	s->max_flows = p->cfg.max_flows;
	for (uint32_t i = 0; i < p->cfg.max_flows; i++)
		s->flows_learning += p->far[i].used && p->far[i].pairing == PAIR_LEARNING;
}

static void near_status(const struct proxy *p, const struct near_flow *f, struct proxy_flow_status *s)
{
	*s = (struct proxy_flow_status){
	    .side = FLOW_NEAR,
	    .flow = f->idx,
	    .inc = f->inc,
	    .src = f->src,
	    .dst = f->dst,
	    .vlan_tci = f->vlan_tci,
	    .dest_qpn = f->dest_qpn,
	    .requester_qpn = f->requester_qpn,
	    .pairing = f->pairing,
	    .mode = f->stalled || p->mismatch ? ACK_MODE_HOST : f->mode,
	    .pmtu = f->pmtu,
	    .pos_base = f->pos_base,
	    .pos_next = f->pos_next,
	    .pos_acked = f->pos_acked,
	    .pos_delivered = f->pos_reported,
	    .buffered_bytes = f->held_bytes,
	    .bytes = f->bytes,
	    .messages = f->messages,
	    .held_off = f->held_off,
	    .stalled = f->stalled,
	};
}

static void far_status(const struct far_flow *f, struct proxy_flow_status *s)
{
	*s = (struct proxy_flow_status){
	    .side = FLOW_FAR,
	    .flow = f->idx,
	    .inc = f->inc,
	    .src = f->src,
	    .dst = f->dst,
	    .vlan_tci = f->vlan_tci,
	    .dest_qpn = f->dest_qpn,
	    .requester_qpn = f->requester_qpn,
	    .pairing = f->pairing,
	    .mode = f->host_mode ? ACK_MODE_HOST : ACK_MODE_NEAR,
	    .pmtu = f->pmtu,
	    .pos_base = f->pos_base,
	    .pos_next = f->pos_rx,
	    .pos_acked = f->pos_tx,
	    .pos_delivered = f->pos_acked,
	    .buffered_bytes = f->held_bytes,
	    .bytes = f->bytes,
	    .messages = f->messages,
	    .stalled = f->stalled,
	    .rnr = f->rnr,
	};
}

bool proxy_flow_next(const struct proxy *p, uint32_t *cursor, struct proxy_flow_status *s)
{
	for (; *cursor < 2 * p->cfg.max_flows; (*cursor)++) {
		uint32_t i = *cursor % p->cfg.max_flows;

		if (*cursor < p->cfg.max_flows && p->near[i].used)
			near_status(p, &p->near[i], s);
		else if (*cursor >= p->cfg.max_flows && p->far[i].used)
			far_status(&p->far[i], s);
		else
			continue;
		(*cursor)++;
		return true;
	}
	return false;
}

/* --- for tests --- */

bool proxy_ceiling(const struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t dest_qpn,
                   uint64_t *ceiling_pos, uint64_t *delivered_pos)
{
	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		const struct near_flow *f = &p->near[i];

		if (!f->used || f->newer || f->dest_qpn != dest_qpn || !ip_addr_eq(&f->src, src) ||
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
	if (f->pos_settled > f->pos_next || f->pos_acked > f->pos_next || f->pos_wan > f->pos_next)
		return -101;
	if (f->pos_reported > f->pos_next)
		return -102;
	if (f->held_bytes == 0 && f->pos_settled < f->pos_next)
		return -103;
	return 0;
}

static int audit_far(const struct far_flow *f)
{
	if (!f->open)
		return 0;
	if (f->pos_acked > f->pos_tx || f->pos_tx > f->pos_tx_max || f->pos_acked > f->pos_rx)
		return -111;
	return 0;
}

int proxy_audit(struct proxy *p)
{
	uint64_t held = 0;
	int rc = arena_audit(p->arena);

	for (uint32_t i = 0; i < p->cfg.max_flows && rc == 0; i++) {
		if (p->near[i].used)
			rc = audit_near(&p->near[i]);
		if (rc == 0 && p->far[i].used)
			rc = audit_far(&p->far[i]);
	}
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < p->cfg.nlanes; i++)
		if (own_lane(p, i))
			held += p->lanes[i].rx_held_bytes;
	return held == arena_used(p->arena, POOL_WAN) ? 0 : -121;
}

struct rd_op *rd_op_take(struct proxy *p)
{
	struct dnode *n = dlist_first(&p->ops_free);

	if (!n)
		return NULL;
	dlist_remove(n);
	return dlist_entry(n, struct rd_op, node);
}

void rd_op_give(struct proxy *p, struct rd_op *op)
{
	dlist_remove(&op->node);
	dlist_append(&p->ops_free, &op->node);
}
