/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Such packets cross in slots of their own, named by a sequence number of their lane: repaired when a datagram is lost
 * (a CM request would otherwise be missing for seconds), delivered in the order of arrival, each at most once.
 *
 * CM messages are read on their way, at both edges, so that each knows the QPN pairs of its own hosts before the
 * first packet. A DREQ or DREP waits at its near edge for the bytes that were ACKed before it: a host must not tear
 * down the QP that they are on their way to. */
#include "raw.h"

#include "near.h"
#include "wan_lane.h"

#define RAW_WINDOW      1024
#define RAW_PARTIAL_MAX 64

static bool is_local(const struct proxy *p, const struct ip_addr *a)
{
	for (uint32_t i = 0; i < p->cfg.nlocal; i++)
		if (ip_prefix_holds(&p->cfg.local[i], a))
			return true;
	return false;
}

static void open_direction(struct proxy *p, const struct cm_conn *c, bool from_a, uint16_t vlan_tci)
{
	struct near_cm_info ci = {
	    .src = from_a ? c->a : c->b,
	    .dst = from_a ? c->b : c->a,
	    .dest_qpn = from_a ? c->qpn_b : c->qpn_a,
	    .requester_qpn = from_a ? c->qpn_a : c->qpn_b,
	    .start_psn = from_a ? c->psn_a : c->psn_b,
	    .pmtu = c->pmtu,
	    .vlan_tci = vlan_tci,
	    .rnr_retry = from_a ? c->rnr_retry_a : c->rnr_retry_b,
	    .pkey = c->pkey,
	    .responder = from_a ? c->traits_b : c->traits_a,
	};

	if (is_local(p, &ci.src))
		near_cm_open(p, &ci);
}

/* Returns the near flow behind whose bytes the message must wait, NULL if it need not. */
static struct near_flow *observe_cm(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	struct cm_msg msg;
	struct cm_conn *c = NULL;
	enum cm_change change;
	bool from_a;

	cm_parse(l3, pkt, &msg);
	if (msg.type == CM_NONE)
		return NULL;
	change = cm_observe(&p->cm, &pkt->src, &pkt->dst, &msg, &c);
	if (c && msg.type == CM_REQ)
		c->traits_a = (struct cm_traits){pkt->tos, pkt->migreq};
	if (c && msg.type == CM_REP)
		c->traits_b = (struct cm_traits){pkt->tos, pkt->migreq};
	if (change == CM_OPENED) {
		open_direction(p, c, true, vlan_tci);
		open_direction(p, c, false, vlan_tci);
	}
	if (msg.type != CM_DREQ && msg.type != CM_DREP)
		return NULL;
	if (!c) /* set up before this edge's memory began */
		return msg.type == CM_DREQ ? near_find(p, &pkt->src, &pkt->dst, msg.qpn, vlan_tci)
		                           : near_undelivered(p, &pkt->src, &pkt->dst);
	from_a = ip_addr_eq(&c->a, &pkt->src) && (!ip_addr_eq(&c->a, &c->b) || msg.local_comm_id == c->comm_a);
	return near_find(p, &pkt->src, &pkt->dst, from_a ? c->qpn_b : c->qpn_a, vlan_tci);
}

static void hold(struct proxy *p, struct near_flow *f, uint32_t slot)
{
	struct slot_meta *m = arena_meta(p->arena, slot);

	count(p, CTR_HELD_DREQ, 1);
	f->held_until_pos = max_u64(f->held_until_pos, f->pos_acked);
	m->queued = SQ_HELD;
	dlist_append(&f->held, &m->node);
	if (!timer_armed(&f->held_timer))
		timer_set(&p->timers, &f->held_timer, p->now_ns + p->cfg.held_max_ns);
}

enum proxy_drop raw_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	uint16_t lane = proxy_lane(&pkt->src, &pkt->dst, p->cfg.nlanes);
	struct lane *l = lane_of(p, lane);
	struct near_flow *f = NULL;
	uint32_t slot;

	if (pkt->opcode == UD_SEND_ONLY && pkt->dest_qpn == 1)
		f = observe_cm(p, l3, pkt, vlan_tci);
	if (!p->session_on)
		return drop(p, DROP_LAN_RAW_NO_ROOM);
	slot = slot_take(p, SLOT_RAW_LAN, l->id, 0, l->raw_seq_tx, pkt->len, lane, false);
	if (slot == SLOT_NONE)
		return drop(p, DROP_LAN_RAW_NO_ROOM);
	l->raw_seq_tx++;
	memcpy(arena_data(p->arena, slot), l3, pkt->len);
	roce_dec_ttl(arena_data(p->arena, slot), pkt);
	arena_hdr(p->arena, slot)->vlan_tci = vlan_tci;
	arena_commit(p->arena, slot);
	count(p, CTR_RAW_CARRIED, 1);
	if (f && f->pos_acked > f->pos_reported)
		hold(p, f, slot);
	else
		wan_lane_queue_first(p, l, slot);
	return DROP_NONE;
}

/* --- from the other edge --- */

static bool raw_seen(const struct lane *l, uint64_t seq)
{
	if (seq >= l->raw_seq_rx)
		return false;
	if (l->raw_seq_rx - seq > RAW_WINDOW)
		return true;
	return l->raw_seen[(seq / 64) % (RAW_WINDOW / 64)] >> (seq % 64) & 1;
}

static void raw_mark(struct lane *l, uint64_t seq)
{
	if (seq >= l->raw_seq_rx) {
		uint64_t from = l->raw_seq_rx;

		if (seq - from > RAW_WINDOW)
			from = seq - RAW_WINDOW;
		for (uint64_t s = from; s <= seq; s++)
			l->raw_seen[(s / 64) % (RAW_WINDOW / 64)] &= ~(1ull << (s % 64));
		l->raw_seq_rx = seq + 1;
	}
	l->raw_seen[(seq / 64) % (RAW_WINDOW / 64)] |= 1ull << (seq % 64);
}

static bool deliverable(struct proxy *p, uint32_t slot, struct roce_pkt *pkt)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);

	return roce_parse(arena_data(p->arena, slot), h->len, pkt) == DROP_NONE && pkt->len == h->len &&
	       pkt->class != ROCE_RC_REQUEST && pkt->class != ROCE_RC_RESPONSE && is_local(p, &pkt->dst);
}

static void drop_oldest_partial(struct proxy *p, struct lane *l)
{
	l->nraw_partial--;
	slot_release(p, slot_of_meta(p, dlist_entry(dlist_first(&l->raw_partial), struct slot_meta, node)));
}

void raw_forget_partial(struct proxy *p, struct lane *l)
{
	while (!dlist_empty(&l->raw_partial))
		drop_oldest_partial(p, l);
}

/* A slot for a packet of which the first piece has come. The other edge gives such packets up after some tries, so
 * those that wait for pieces are bounded. */
static uint32_t begin_partial(struct proxy *p, struct lane *l, const struct wan_packet *w)
{
	uint32_t slot;

	if (l->nraw_partial >= RAW_PARTIAL_MAX)
		drop_oldest_partial(p, l);
	slot = slot_take(p, SLOT_RAW_WAN, l->id, 0, w->pos, w->total, l->id, false);
	if (slot == SLOT_NONE)
		return slot;
	dlist_append(&l->raw_partial, &arena_meta(p->arena, slot)->node);
	l->nraw_partial++;
	return slot;
}

bool raw_on_packet(struct proxy *p, struct lane *l, const struct wan_packet *w)
{
	uint32_t slot = arena_find(p->arena, SLOT_RAW_WAN, l->id, w->pos);
	struct roce_pkt pkt;

	if (w->pos >> 62) {
		drop(p, DROP_WAN_BAD_FRAME);
		return true;
	}
	if (raw_seen(l, w->pos)) {
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
	raw_mark(l, w->pos);
	dlist_remove(&arena_meta(p->arena, slot)->node);
	l->nraw_partial--;
	if (!deliverable(p, slot, &pkt)) {
		drop(p, DROP_WAN_BAD_FRAME);
		slot_release(p, slot);
		return true;
	}
	arena_hdr(p->arena, slot)->vlan_tci = w->vlan_tci;
	if (pkt.opcode == UD_SEND_ONLY && pkt.dest_qpn == 1)
		observe_cm(p, arena_data(p->arena, slot), &pkt, w->vlan_tci);
	arena_meta(p->arena, slot)->queued = SQ_RAW_RX;
	dlist_append(&p->raw_rx, &arena_meta(p->arena, slot)->node);
	return true;
}

size_t raw_lan_tx(struct proxy *p, struct lan_tx *tx)
{
	struct dnode *n = dlist_first(&p->raw_rx);
	const struct slot_hdr *h;
	struct roce_pkt pkt;
	uint32_t slot;

	if (!n)
		return 0;
	slot = slot_of_meta(p, dlist_entry(n, struct slot_meta, node));
	h = arena_hdr(p->arena, slot);
	roce_parse(arena_data(p->arena, slot), h->len, &pkt);
	tx->hdr_len = pkt.hdr_len;
	memcpy(tx->hdr, arena_data(p->arena, slot), pkt.hdr_len);
	tx->body = arena_data(p->arena, slot) +
	           pkt.hdr_len; /* freed slots keep their bytes until the next packet comes in */
	tx->body_len = (uint16_t)(h->len - pkt.hdr_len);
	tx->trailer_len = 0;
	tx->vlan_tci = h->vlan_tci;
	tx->dst = pkt.dst;
	tx->dscp_ecn = pkt.tos;
	slot_release(p, slot);
	return (size_t)tx->hdr_len + tx->body_len;
}
