/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * With the barrier on the link takes all IP between the hosts, so it has to carry all of it: TCP, UDP, ICMP, fragments,
 * jumbo frames larger than a slot of the arena. Each comes from the kernel of one edge, which has routed it here, and
 * goes to that of the other, which routes it to its host (lan_tx.routed). Such packets are expendable. Expendable
 * packets lie in memory of their own (ip_pool.h), cross once and are never repaired - no TCP over a reliable transport
 * - and are dropped where there is no room: towards the WAN, behind the barrier, or after IP_STALE_NS of waiting for a
 * WAN that is cut or full. So such packets do not hold RC up: they take turns with requests, a datagram each, and are
 * never refused.
 *
 * A packet goes in pieces if no datagram can hold it. Pieces are cut at multiples of PIECE_UNIT and put together by
 * their number; each datagram is taken once, so no piece comes twice. A packet that lacks a piece is dropped when
 * IP_PARTIAL_MAX later packets have begun. */
#include "ip_carry.h"

#include "barrier.h"
#include "proxy/shard/flow_history.h"
#include "proxy/wan/wan_lane.h"
#include "proxy/wan/dgram/wan_units.h"

#define IP_STALE_NS 1000000000ull

/* --- from hosts --- */

static bool skips_barrier(const struct proxy *p, const struct ip_pkt *pkt)
{
	for (uint32_t i = 0; i < p->cfg.nbarrier_skip && pkt->has_ports; i++)
		if (pkt->sport == p->cfg.barrier_skip[i] || pkt->dport == p->cfg.barrier_skip[i])
			return true;
	return false;
}

/* True if no program can take the packet for a message, or BarrierSkip= exempts it. Both edges call this. */
static bool is_exempt(const struct proxy *p, const struct ip_pkt *pkt)
{
	return pkt->bare_ack || skips_barrier(p, pkt);
}

enum proxy_drop ip_carry(struct proxy *p, const uint8_t *l3, const struct ip_pkt *pkt, uint16_t vlan_tci, bool exempt)
{
	struct lane *l = lane_of(p, proxy_lane_between(&p->cfg, &pkt->src, &pkt->dst));
	uint32_t lagging = exempt ? 0 : barrier_lagging(p, &pkt->src, &pkt->dst);
	uint32_t n = lagging < BARRIER_ENTRIES_MAX ? lagging : BARRIER_ENTRIES_MAX;
	size_t before = (size_t)n * BARRIER_ENTRY_LEN;
	struct ip_buf *b = p->session_on ? ip_pool_take(&p->barrier.ip_near, before + pkt->len) : NULL;

	if (!b)
		return drop(p, DROP_LAN_IP_NO_ROOM);
	if (lagging > n)
		count(p, CTR_BARRIER_WAIVED, 1);
	b->entries = (uint16_t)barrier_snapshot(p, &pkt->src, &pkt->dst, b->data, n);
	memcpy(b->data + before, l3, pkt->len);
	if (pkt->to_roce) /* the kernel has taken a hop from all other packets when it routed them here */
		ip_dec_ttl(b->data + before, pkt->ip6);
	b->total = (uint16_t)(before + pkt->len);
	b->sent = 0;
	b->vlan_tci = vlan_tci;
	b->taken_ns = p->now_ns;
	dlist_append(&l->ready[SOURCE_IP], &b->node);
	count(p, CTR_IP_CARRIED, 1);
	wan_lane_schedule(p, l);
	return DROP_NONE;
}

enum proxy_drop ip_rx(struct proxy *p, const uint8_t *l3, size_t len, uint16_t vlan_tci, enum proxy_drop not_roce)
{
	struct ip_pkt pkt;
	enum proxy_drop d = ip_parse(l3, len, &pkt);
	bool exempt;

	if (d != DROP_NONE)
		return drop(p, d);
	if (pkt.to_roce) /* an RC packet must not pass by its flow */
		return drop(p, not_roce);
	if (pkt.len > LAN_IP_MAX)
		return drop(p, DROP_LAN_TOO_BIG);
	if (!proxy_carries(p, &pkt.src, &pkt.dst))
		return drop(p, DROP_LAN_FOREIGN);
	if (pkt.ttl == 0)
		return drop(p, DROP_LAN_TTL);
	if (pkt.begins_or_ends)
		flow_history_heard(p, &pkt.src);
	exempt = is_exempt(p, &pkt);
	if (exempt)
		count(p, CTR_BARRIER_EXEMPT, 1);
	return ip_carry(p, l3, &pkt, vlan_tci, exempt);
}

/* --- to the other edge --- */

static struct ip_buf *first_partial(struct dnode *list)
{
	struct dnode *n = dlist_first(list);

	return n ? dlist_entry(n, struct ip_buf, node) : NULL;
}

/* Next piece for a datagram: at most room bytes into buf. Returns the bytes of its frame, 0: none, or it does not fit.
 * max: what an empty datagram has room for. */
static size_t put_piece(struct proxy *p, struct lane *l, uint8_t *buf, size_t room, size_t max)
{
	struct ip_lane *ip = &p->ip_lanes[l->id];
	struct ip_buf *b;
	struct wan_ip w;
	size_t put, left;

	while ((b = first_partial(&l->ready[SOURCE_IP])) && p->now_ns > b->taken_ns + IP_STALE_NS) {
		drop(p, DROP_IP_STALE);
		ip_pool_give(&p->barrier.ip_near, b);
	}
	if (!b || room < WAN_IP_OVERHEAD + PIECE_UNIT)
		return 0;
	left = (size_t)b->total - b->sent;
	if (WAN_IP_OVERHEAD + left > room) {
		if (b->sent == 0 && WAN_IP_OVERHEAD + left <= max)
			return 0; /* whole, in the next datagram */
		left = (room - WAN_IP_OVERHEAD) / PIECE_UNIT * PIECE_UNIT;
	}
	if (b->sent == 0)
		b->seq = ++ip->seq_tx;
	w = (struct wan_ip){.seq = b->seq,
	                    .total = b->total,
	                    .offset = b->sent,
	                    .entries = b->entries,
	                    .vlan_tci = b->vlan_tci,
	                    .len = (uint16_t)left,
	                    .data = b->data + b->sent};
	put = wan_ip_put(buf, room, &w);
	b->sent = (uint16_t)(b->sent + left);
	if (b->sent == b->total)
		ip_pool_give(&p->barrier.ip_near, b);
	return put;
}

static void put_new(struct proxy *p, struct lane *l, struct wan_build *b)
{
	size_t max = wan_build_room_max(b), room, n;

	if (!wan_build_keeps_order(b))
		return;
	do {
		uint8_t *at = wan_build_room(b, &room);

		n = put_piece(p, l, at, room, max);
		if (n)
			wan_build_expendable(b, n);
	} while (n);
}

/* --- from the other edge --- */

static void drop_partial(struct proxy *p, struct ip_lane *ip, struct ip_buf *b, enum proxy_drop why)
{
	ip->npartial--;
	ip_pool_give(&p->barrier.ip_far, b);
	drop(p, why);
}

static struct ip_buf *begin_partial(struct proxy *p, struct ip_lane *ip, const struct wan_ip *w)
{
	struct ip_buf *b;

	if (ip->npartial == IP_PARTIAL_MAX)
		drop_partial(p, ip, first_partial(&ip->partial), DROP_IP_PIECES);
	b = ip_pool_take(&p->barrier.ip_far, w->total);
	if (!b) {
		drop(p, DROP_BARRIER_FULL);
		return NULL;
	}
	b->seq = w->seq;
	b->total = w->total;
	b->entries = w->entries;
	b->vlan_tci = w->vlan_tci;
	b->units_got = 0;
	memset(b->units, 0, sizeof(b->units));
	dlist_append(&ip->partial, &b->node);
	ip->npartial++;
	return b;
}

static struct ip_buf *find_partial(struct ip_lane *ip, const struct wan_ip *w)
{
	for (struct dnode *n = ip->partial.next; n != &ip->partial; n = n->next) {
		struct ip_buf *b = dlist_entry(n, struct ip_buf, node);

		if (b->seq == w->seq)
			return b->total == w->total && b->entries == w->entries ? b : NULL;
	}
	return NULL;
}

/* True if all pieces are here now. */
static bool take_piece(struct ip_buf *b, const struct wan_ip *w)
{
	unsigned end = units_of((uint16_t)(w->offset + w->len));

	memcpy(b->data + w->offset, w->data, w->len);
	for (unsigned u = w->offset / PIECE_UNIT; u < end; u++) {
		if (b->units[u / 64] >> (u % 64) & 1)
			continue;
		b->units[u / 64] |= 1ull << (u % 64);
		b->units_got++;
	}
	return b->units_got == units_of(b->total);
}

/* True for a whole packet that the other edge may send to this one: between the link's prefixes, of this lane, and not
 * RC, which has a way of its own. */
static bool ip_is_deliverable(const struct proxy *p, const struct lane *l, const struct ip_buf *b, struct ip_pkt *pkt)
{
	size_t before = (size_t)b->entries * BARRIER_ENTRY_LEN;
	struct roce_pkt roce;

	if (ip_parse(b->data + before, b->total - before, pkt) != DROP_NONE || pkt->len != b->total - before)
		return false;
	if (pkt->to_roce &&
	    (roce_parse(b->data + before, pkt->len, &roce) != DROP_NONE || roce.class == ROCE_RC_REQUEST ||
	     roce.class == ROCE_RC_RESPONSE || roce.class == ROCE_RC_UNKNOWN))
		return false;
	return ip_prefix_any(p->cfg.local, p->cfg.nlocal, &pkt->dst) &&
	       ip_prefix_any(p->cfg.remote, p->cfg.nremote, &pkt->src) &&
	       proxy_lane_between(&p->cfg, &pkt->src, &pkt->dst) == l->id;
}

static bool on_frame(struct proxy *p, struct lane *l, const struct wan_frame *f)
{
	struct ip_lane *ip = &p->ip_lanes[l->id];
	struct wan_ip w;
	struct ip_buf *b;
	struct ip_pkt pkt;
	struct held_packet what = {.ip = true};

	if (!wan_ip_get(f, &w))
		return false;
	b = find_partial(ip, &w);
	if (!b && !(b = begin_partial(p, ip, &w)))
		return true;
	if (!take_piece(b, &w))
		return true;
	ip->npartial--;
	dlist_remove(&b->node);
	what.id = (uint32_t)(b - p->barrier.ip_far.bufs);
	what.n = b->entries;
	if (!ip_is_deliverable(p, l, b, &pkt)) {
		ip_pool_give(&p->barrier.ip_far, b);
		return false;
	}
	what.held = !is_exempt(p, &pkt);
	if (!barrier_admit(p, &what, &pkt.src, &pkt.dst)) {
		drop(p, DROP_BARRIER_FULL);
		ip_pool_give(&p->barrier.ip_far, b);
	}
	return true;
}

/* Forgets packets that wait for the WAN and packets that lack pieces. */
static void session_start(struct proxy *p, struct lane *l)
{
	struct ip_lane *ip = &p->ip_lanes[l->id];
	struct ip_buf *b;

	while ((b = first_partial(&l->ready[SOURCE_IP]))) {
		drop(p, DROP_IP_STALE);
		ip_pool_give(&p->barrier.ip_near, b);
	}
	while ((b = first_partial(&ip->partial)))
		drop_partial(p, ip, b, DROP_IP_PIECES);
}

const struct wan_source ip_source = {
    .name = "IP",
    .frames_taken = 1ull << WF_IP,
    .frames_quiet = 1ull << WF_IP,
    .put_new = put_new,
    .on_frame = on_frame,
    .session_start = session_start,
};
