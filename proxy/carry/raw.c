/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * RoCEv2 packets that are not RC cross in slots of their own, with a sequence number of their lane. The transport
 * repairs them when a datagram is lost (a CM request would otherwise be missing for seconds), except CNPs. Such packets
 * are delivered in the order of arrival, each at most once while neither edge restarts: a new session continues the
 * numbers of the one before (session_start()). An edge that restarts knows no earlier numbers, and may deliver once
 * more packets that it had delivered just before its end.
 *
 * CM messages are read on their way, at both edges, so that each knows the QPN pairs of its own hosts before the
 * first packet.
 *
 * RC packets without a flow (end_to_end.c) cross in the same way, but are delivered in order: a responder takes a
 * packet ahead of others for a loss, and the requester would repeat all of them over the whole distance. A packet that
 * overtook others, on another path or because they were lost, waits for them for two round trips (raw_lane.held).
 *
 * A packet that has to wait for RC requests at the other edge (barrier.c) carries its snapshot behind its own
 * bytes in the slot. A DREQ or DREP always waits, at least for the flow of its connection: a host must not tear
 * down the QP to which requests are on their way. A packet without room for the snapshot in its slot goes the
 * way of IP (ip_carry.c); RC packets and a DREQ or DREP, which the other edge has to know, wait for as many flows as
 * there is room for. */
#include "raw.h"

#include "barrier.h"
#include "end_to_end.h"
#include "ip_carry.h"
#include "proxy/wan/wan_lane.h"
#include "proxy/shard/flow_find.h"
#include "proxy/shard/flow_history.h"

#define RAW_WINDOW       RAW_SEEN_MAX
#define RAW_SENDS_MAX    6
#define RAW_PARTIAL_MAX  64
#define RAW_HELD_MAX     512        /* of a lane */
#define CM_WORK          16         /* of CALL_WORK: a CM message may open a flow in either direction */
#define RAW_HOLD_MORE_NS 1000000ull /* and two round trips, within which a repair comes */

static bool is_local(const struct proxy *p, const struct ip_addr *a)
{
	for (uint32_t i = 0; i < p->cfg.nlocal; i++)
		if (ip_prefix_holds(&p->cfg.local[i], a))
			return true;
	return false;
}

/* A near flow is known by the VLAN id of its requester's LAN, so by that host's own tag. */
static struct near_cm_info cm_direction(const struct cm_conn *c, bool from_a)
{
	return (struct near_cm_info){
	    .tag = cm_tag(c),
	    .src = from_a ? c->a : c->b,
	    .dst = from_a ? c->b : c->a,
	    .dest_qpn = from_a ? c->qpn_b : c->qpn_a,
	    .requester_qpn = from_a ? c->qpn_a : c->qpn_b,
	    .start_psn = from_a ? c->psn_a : c->psn_b,
	    .pmtu = c->pmtu,
	    .vlan_tci = from_a ? c->traits_a.vlan_tci : c->traits_b.vlan_tci,
	    .rnr_retry = from_a ? c->rnr_retry_a : c->rnr_retry_b,
	    .pkey = c->pkey,
	    .responder = from_a ? c->traits_b : c->traits_a,
	};
}

enum cm_end { REQUESTERS, RESPONDERS };

/* Calls `tell` for each direction of the connection whose requester or responder (end) is local. */
static void for_local_directions(struct proxy *p, const struct cm_conn *c, enum cm_end end,
                                 void (*tell)(struct proxy *p, const struct near_cm_info *ci))
{
	for (int from_a = 1; from_a >= 0; from_a--) {
		struct near_cm_info ci = cm_direction(c, from_a);

		if (is_local(p, end == REQUESTERS ? &ci.src : &ci.dst))
			tell(p, &ci);
	}
}

/* The meaning of a CM message for the flows between its hosts. */
struct cm_news {
	bool ends;         /* DREQ or DREP: waits for what was ACKed before it */
	bool known;        /* of a connection whose set-up was seen, or that a DREQ names */
	uint32_t dest_qpn; /* known: of the flow from the sender */
	bool dreq;
	bool dreq_first;        /* no DREQ or DREP of the connection came before */
	uint32_t requester_qpn; /* DREQ: of the flow to the sender */
	uint32_t sender_qpn;    /* DREQ, if cm_tag is not 0: of the flow to the sender */
	uint32_t cm_tag;        /* cm_tag() of the connection; 0: its set-up was not seen */
};

static struct cm_news observe_cm(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	struct cm_news news = {0};
	struct cm_msg msg;
	struct cm_conn *c = NULL;
	enum cm_change change;
	bool from_a;

	cm_parse(l3, pkt, &msg);
	if (msg.type == CM_NONE)
		return news;
	change = cm_observe(&p->cm, &pkt->src, &pkt->dst, &msg, &c);
	if (c && msg.type == CM_REQ)
		c->traits_a = (struct cm_traits){pkt->tos, pkt->migreq, vlan_tci};
	if (c && msg.type == CM_REP)
		c->traits_b = (struct cm_traits){pkt->tos, pkt->migreq, vlan_tci};
	if (change == CM_OPENED) {
		for_local_directions(p, c, REQUESTERS, p->roles->cm_open);
		/* Nothing of this connection has come yet: neither host sends before it has the other one's REP or RTU. */
		for_local_directions(p, c, RESPONDERS, p->roles->far_cm_open);
	}
	if (c && msg.type == CM_DREP)
		for_local_directions(p, c, REQUESTERS, p->roles->cm_over);
	if (msg.type != CM_DREQ && msg.type != CM_DREP)
		return news;
	news.ends = true;
	news.dreq = msg.type == CM_DREQ;
	news.dreq_first = news.dreq && change == CM_DISCONNECTING_;
	news.requester_qpn = news.dest_qpn = msg.qpn;
	news.known = news.dreq;
	if (c) {
		from_a = ip_addr_eq(&c->a, &pkt->src) && (!ip_addr_eq(&c->a, &c->b) || msg.local_comm_id == c->comm_a);
		news.dest_qpn = from_a ? c->qpn_b : c->qpn_a;
		news.sender_qpn = from_a ? c->qpn_a : c->qpn_b;
		news.cm_tag = cm_tag(c);
		news.known = true;
	}
	return news;
}

/* True if the flow to the sender of a DREQ is of the connection that the DREQ ends. A CM repeats a DREQ until it has
 * the DREP, and the flow that was found by the requester's QPN may be of a later connection. A DREQ of a connection
 * whose set-up was not seen says no more than the QPN. */
static bool is_of_dreq(const struct far_flow *f, const struct cm_news *news)
{
	if (!news->cm_tag)
		return true;
	return f->cm_tag ? f->cm_tag == news->cm_tag : news->dreq_first && f->dest_qpn == news->sender_qpn;
}

/* The sender of a DREQ takes its queue pair down: the barrier does not wait for requests to it any more. */
static void host_leaves(struct proxy *p, const struct roce_pkt *pkt, const struct cm_news *news)
{
	struct far_flow *f = pair_find(p, &pkt->dst, &pkt->src, news->requester_qpn);

	if (!f || !is_of_dreq(f, news))
		return;
	f->leaving = true;
	f->leaving_pos = f->pos_rx_max;
	barrier_progress(p, f);
}

/* The snapshot of all flows between the hosts, as far as there is room. */
static uint32_t snapshot_of_all(struct proxy *p, const struct roce_pkt *pkt, uint8_t *out, uint32_t max)
{
	uint32_t n = barrier_snapshot(p, &pkt->src, &pkt->dst, out, max);

	if (barrier_lagging(p, &pkt->src, &pkt->dst) > n)
		count(p, CTR_BARRIER_WAIVED, 1);
	return n;
}

/* The snapshot of a DREQ or DREP: first its own flow, whose requests the host would refuse once it has taken its queue
 * pair down; then the others, unless the barrier is off. Of all flows if its own is not known. */
static uint32_t snapshot_of_end(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci,
                                const struct cm_news *news, uint8_t *out, uint32_t max)
{
	const struct near_flow *f =
	    news->known ? near_find(p, &pkt->src, &pkt->dst, news->dest_qpn, vlan_tci) : NULL;
	uint32_t n = 0;
	bool more;

	if (f && dnode_on(&f->lag_node) && max) {
		barrier_entry(p, f, out);
		n = 1;
	}
	if (news->known && p->cfg.barrier == BARRIER_OFF)
		return n;
	if (!f)
		return snapshot_of_all(p, pkt, out, max);
	n += barrier_snapshot_others(p, f, out + (size_t)n * BARRIER_ENTRY_LEN, max - n, &more);
	if (more)
		count(p, CTR_BARRIER_WAIVED, 1);
	return n;
}

/* True if the packet waits at the barrier. Both edges call waits_at_barrier(). An RC request without a flow waits like
 * one with a flow: with Barrier=causal, for other queue pairs. The answer to such a request never waits. */
static bool waits_at_barrier(const struct proxy *p, const struct roce_pkt *pkt, const struct cm_news *news)
{
	if (news->ends)
		return true;
	if (is_rc(pkt))
		return p->cfg.barrier == BARRIER_CAUSAL && pkt->class != ROCE_RC_RESPONSE;
	return p->cfg.barrier != BARRIER_OFF && pkt->class != ROCE_CNP_CLASS && pkt->dest_qpn != 1;
}

/* Writes the snapshot that the packet takes along. Returns its entries. */
static uint32_t raw_snapshot(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci, const struct cm_news *news,
                             uint8_t *out, uint32_t max)
{
	if (!waits_at_barrier(p, pkt, news))
		return 0;
	return news->ends ? snapshot_of_end(p, pkt, vlan_tci, news, out, max) : snapshot_of_all(p, pkt, out, max);
}

/* True for a packet whose snapshot finds no room in its slot, and that the other edge need not know for what it is. The
 * other edge must see that a packet is RC, or ends a connection: these wait for as many flows as there is room for. */
static bool goes_by_ip(struct proxy *p, const struct roce_pkt *pkt, const struct cm_news *news, uint32_t room)
{
	return p->cfg.barrier != BARRIER_OFF && !is_rc(pkt) && !news->ends && waits_at_barrier(p, pkt, news) &&
	       barrier_lagging(p, &pkt->src, &pkt->dst) > room;
}

enum proxy_drop raw_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	uint16_t lane = proxy_lane_between(&p->cfg, &pkt->src, &pkt->dst);
	uint32_t room = (uint32_t)(LAN_PKT_MAX - pkt->len) / BARRIER_ENTRY_LEN, n, slot, bytes;
	uint8_t entries[LAN_PKT_MAX];
	struct lane *l = lane_of(p, lane);
	struct raw_lane *r = &p->raw_lanes[lane];
	struct cm_news news = {0};
	struct ip_pkt ip;

	if (pkt->opcode == UD_SEND_ONLY && pkt->dest_qpn == 1) {
		flow_history_heard(p, &pkt->src);
		news = observe_cm(p, l3, pkt, vlan_tci);
	}
	if (news.dreq)
		host_leaves(p, pkt, &news);
	if (!p->session_on)
		return drop(p, DROP_LAN_RAW_NO_ROOM);
	if (goes_by_ip(p, pkt, &news, room) && ip_parse(l3, pkt->len, &ip) == DROP_NONE)
		return ip_carry(p, l3, &ip, vlan_tci, false);
	n = raw_snapshot(p, pkt, vlan_tci, &news, entries, room);
	bytes = is_rc(pkt) ? arena_class_bytes((uint16_t)(pkt->len + n * BARRIER_ENTRY_LEN)) : 0;
	if (bytes && !end_to_end_may_hold(p, bytes))
		return drop(p, DROP_LAN_RAW_NO_ROOM);
	slot = slot_take(p, SLOT_RAW_LAN, l->id, 0, r->seq_tx, (uint16_t)(pkt->len + n * BARRIER_ENTRY_LEN), lane,
	                 false);
	if (slot == SLOT_NONE)
		return drop(p, DROP_LAN_RAW_NO_ROOM);
	r->seq_tx++;
	memcpy(arena_data(p->arena, slot), l3, pkt->len);
	memcpy(arena_data(p->arena, slot) + pkt->len, entries, (size_t)n * BARRIER_ENTRY_LEN);
	roce_dec_ttl(arena_data(p->arena, slot), pkt);
	if (!bytes) /* else the responder itself answers the mark */
		roce_clear_ce(arena_data(p->arena, slot), pkt);
	arena_hdr(p->arena, slot)->vlan_tci = vlan_tci;
	arena_hdr(p->arena, slot)->flags = bytes ? SF_END_TO_END : 0;
	p->end_to_end.held_bytes += bytes;
	arena_commit(p->arena, slot);
	count(p, bytes ? CTR_END_TO_END : CTR_RAW_CARRIED, 1);
	wan_lane_queue_first(p, l, slot);
	return DROP_NONE;
}

/* --- from the other edge --- */

static uint64_t *seen_word(struct raw_lane *r, uint64_t seq)
{
	return &r->seen[(seq / 64) % (RAW_WINDOW / 64)];
}

static bool raw_seen(struct raw_lane *r, uint64_t seq)
{
	if (seq >= r->seq_rx)
		return false;
	if (r->seq_rx - seq > RAW_WINDOW)
		return true;
	return *seen_word(r, seq) >> (seq % 64) & 1;
}

static void raw_mark(struct raw_lane *r, uint64_t seq)
{
	if (seq >= r->seq_rx) {
		uint64_t s = seq - r->seq_rx > RAW_WINDOW ? seq - RAW_WINDOW : r->seq_rx;

		for (uint64_t last; s <= seq; s = last + 1) { /* beyond seq the word has the oldest of the window */
			last = min_u64(s | 63, seq);
			*seen_word(r, s) &= ~(~0ull << s % 64 & ~0ull >> (63 - last % 64));
		}
		r->seq_rx = seq + 1;
	}
	*seen_word(r, seq) |= 1ull << (seq % 64);
}

/* The first number from `seq` on that has not come; at most seq_rx. */
static uint64_t first_unseen(struct raw_lane *r, uint64_t seq)
{
	while (seq < r->seq_rx) {
		uint64_t lacking = ~*seen_word(r, seq) >> (seq % 64);

		if (lacking)
			return min_u64(seq + (uint64_t)__builtin_ctzll(lacking), r->seq_rx);
		seq = (seq / 64 + 1) * 64;
	}
	return r->seq_rx;
}

/* True for a whole packet that the other edge may send to this one, with whole entries behind it. */
static bool raw_is_deliverable(struct proxy *p, uint32_t slot, struct roce_pkt *pkt)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);

	return roce_parse(arena_data(p->arena, slot), h->len, pkt) == DROP_NONE &&
	       (h->len - pkt->len) % BARRIER_ENTRY_LEN == 0 && is_local(p, &pkt->dst);
}

static void drop_oldest_partial(struct proxy *p, struct raw_lane *r)
{
	r->npartial--;
	slot_release(p, slot_of_meta(p, dlist_entry(dlist_first(&r->partial), struct slot_meta, node)));
}

/* A slot for a packet of which the first piece has come. The other edge gives such packets up after some tries, so
 * those that wait for pieces are bounded. */
static uint32_t begin_partial(struct proxy *p, struct lane *l, const struct wan_packet *w)
{
	struct raw_lane *r = &p->raw_lanes[l->id];
	uint32_t slot;

	if (r->npartial >= RAW_PARTIAL_MAX)
		drop_oldest_partial(p, r);
	slot = slot_take(p, SLOT_RAW_WAN, l->id, 0, w->pos, w->total, l->id, false);
	if (slot == SLOT_NONE)
		return slot;
	dlist_append(&r->partial, &arena_meta(p->arena, slot)->node);
	r->npartial++;
	return slot;
}

/* A whole packet goes to its host, or to the barrier. */
static void raw_deliver(struct proxy *p, uint32_t slot, const struct roce_pkt *pkt)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct held_packet what = {.id = slot, .n = (uint16_t)((h->len - pkt->len) / BARRIER_ENTRY_LEN)};
	struct cm_news news = {0};

	if (is_rc(pkt) && !end_to_end_admit(p, pkt)) {
		drop(p, DROP_WAN_UNKNOWN_FLOW);
		slot_release(p, slot);
		return;
	}
	if (pkt->opcode == UD_SEND_ONLY && pkt->dest_qpn == 1) {
		news = observe_cm(p, arena_data(p->arena, slot), pkt, h->vlan_tci);
		work_done(p, CM_WORK);
	}
	what.patient = news.ends;
	what.ends_qpn = news.known ? news.dest_qpn : NONE;
	what.held = waits_at_barrier(p, pkt, &news);
	what.in_order = is_rc(pkt) && what.held;
	if (!barrier_admit(p, &what, &pkt->src, &pkt->dst)) {
		drop(p, DROP_BARRIER_FULL);
		slot_release(p, slot);
	}
}

static uint64_t seq_of(struct proxy *p, const struct dnode *n)
{
	return arena_hdr(p->arena, slot_of_meta(p, dlist_entry(n, struct slot_meta, node)))->pos;
}

static void hold_overtaking(struct proxy *p, struct raw_lane *r, uint32_t slot)
{
	struct slot_meta *m = arena_meta(p->arena, slot);
	struct dnode *n = r->held.prev;

	while (n != &r->held && seq_of(p, n) > arena_hdr(p->arena, slot)->pos)
		n = n->prev;
	dlist_append(n->next, &m->node);
	m->due_ns = p->now_ns + 2 * proxy_rtt_ns(p) + RAW_HOLD_MORE_NS;
	r->nheld++;
}

/* Delivers held packets that need not wait any more: all packets before them have come, or they have waited for long
 * enough. Packets beyond the work of one call are delivered in the next. */
static void deliver_held(struct proxy *p, struct raw_lane *r)
{
	uint64_t more_ns = 0;
	struct dnode *n;

	while ((n = dlist_first(&r->held))) {
		struct slot_meta *m = dlist_entry(n, struct slot_meta, node);
		uint32_t slot = slot_of_meta(p, m);
		struct roce_pkt pkt;

		if (r->seq_rx > RAW_WINDOW)
			r->next = max_u64(r->next, r->seq_rx - RAW_WINDOW);
		if (r->next < r->seq_rx)
			r->next = first_unseen(r, r->next);
		if (seq_of(p, n) >= r->next && p->now_ns < m->due_ns && r->nheld <= RAW_HELD_MAX && p->session_on)
			break;
		if (r->nheld <= RAW_HELD_MAX && !work_take(p)) {
			more_ns = p->now_ns;
			break;
		}
		r->next = max_u64(r->next, seq_of(p, n) + 1);
		dlist_remove(n);
		r->nheld--;
		roce_parse(arena_data(p->arena, slot), arena_hdr(p->arena, slot)->len, &pkt); /* it was sound */
		raw_deliver(p, slot, &pkt);
	}
	if (n)
		timer_set_earlier(&p->timers, &p->end_to_end.hold,
		                  more_ns ? more_ns : dlist_entry(n, struct slot_meta, node)->due_ns);
}

void raw_on_timer(struct proxy *p)
{
	for (uint32_t i = 0; i < p->cfg.nlanes; i++)
		if (proxy_owns_lane(p, i))
			deliver_held(p, &p->raw_lanes[i]);
}

/* Gives up the packets that lack pieces: all of their pieces come again. The numbers go on with those of the session
 * before while neither edge has started again: a packet that was delivered comes once more if the other edge did not
 * hear of the delivery, and is recognised by its number. Otherwise the numbers start over, and no packet is waited
 * for. */
static void session_start(struct proxy *p, struct lane *l)
{
	struct raw_lane *r = &p->raw_lanes[l->id];
	bool goes_on = p->session.peer_boot_id && p->session.peer_boot_id == r->peer_boot_id;

	while (!dlist_empty(&r->partial))
		drop_oldest_partial(p, r);
	if (goes_on)
		return;
	r->peer_boot_id = p->session.peer_boot_id;
	r->next = UINT64_MAX;
	deliver_held(p, r);
	r->seq_rx = 0;
	memset(r->seen, 0, sizeof(r->seen));
	r->next = 0;
}

static bool on_packet(struct proxy *p, struct lane *l, const struct wan_packet *w)
{
	uint32_t slot = arena_find(p->arena, SLOT_RAW_WAN, l->id, w->pos);
	struct raw_lane *r = &p->raw_lanes[l->id];
	struct roce_pkt pkt;

	if (w->pos >> 62) {
		drop(p, DROP_WAN_BAD_FRAME);
		return true;
	}
	if (raw_seen(r, w->pos)) {
		drop(p, DROP_WAN_POSITION_OLD);
		return true;
	}
	if (slot == SLOT_NONE)
		slot = begin_partial(p, l, w);
	if (slot == SLOT_NONE)
		return false;
	if (arena_meta(p->arena, slot)->queued == SQ_RAW_RX) { /* whole, from an earlier session */
		drop(p, DROP_WAN_POSITION_OLD);
		return true;
	}
	if (arena_hdr(p->arena, slot)->len != w->total || !wan_piece_take(p, slot, w))
		return true;
	raw_mark(r, w->pos);
	dlist_remove(&arena_meta(p->arena, slot)->node);
	r->npartial--;
	if (!raw_is_deliverable(p, slot, &pkt)) {
		drop(p, DROP_WAN_BAD_FRAME);
		slot_release(p, slot);
		return true;
	}
	arena_hdr(p->arena, slot)->vlan_tci = w->vlan_tci;
	arena_meta(p->arena, slot)->queued = SQ_RAW_RX;
	if (is_rc(&pkt))
		hold_overtaking(p, r, slot);
	else
		raw_deliver(p, slot, &pkt);
	deliver_held(p, r);
	return true;
}

/* --- the source --- */

static void name_packet(struct proxy *p, const struct slot_hdr *h, struct wan_packet *w)
{
	(void)p;
	(void)h;
	w->kind = WP_RAW;
	w->flow = 0;
}

/* True if a lost packet is not sent again: it was sent RAW_SENDS_MAX times, or is a CNP. A CNP tells of a queue as it
 * is now, and all CNPs that a round trip lost would be repaired together and come at once. */
static bool gives_up(struct proxy *p, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct roce_pkt pkt;

	if (arena_meta(p->arena, slot)->sends < RAW_SENDS_MAX &&
	    (roce_parse(arena_data(p->arena, slot), h->len, &pkt) != DROP_NONE || pkt.class != ROCE_CNP_CLASS))
		return false;
	drop(p, DROP_RAW_LOST);
	return true;
}

static void slot_held(struct proxy *p, uint32_t slot, const struct slot_hdr *h, int64_t bytes)
{
	(void)slot;
	if (bytes < 0 && (h->flags & SF_END_TO_END))
		p->end_to_end.held_bytes -= (uint64_t)-bytes;
}

const struct wan_source raw_source = {
    .name = "raw",
    .packets_taken = 1u << WP_RAW,
    .slot_kinds = 1u << SLOT_RAW_LAN | 1u << SLOT_RAW_WAN,
    .name_packet = name_packet,
    .gives_up = gives_up,
    .on_packet = on_packet,
    .slot_held = slot_held,
    .session_start = session_start,
};
