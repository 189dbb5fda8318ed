/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A far flow is a requester that sends another's requests. Packets come over the WAN in any order and are put in place
 * by position; what is contiguous goes to the host in order:
 *
 *     base ....... acked ............ tx ............ rx ............ rx_max
 *          freed         in flight       ready to go      with holes
 *
 * The window is made for the LAN (bytes in flight, halved on loss, growing with ACKs). The host's own AckReq bits stay;
 * one is added where the window would otherwise run dry without an answer. Retries go back to what the responder asks
 * for (NAK), wait as it says (RNR), or to the oldest unanswered packet (timeout, doubling). Packets are sent as they
 * are stored: only AckReq is ever changed, and the ICRC patched for it, so a bit flipped in memory is refused by the
 * host.
 *
 * READ and ATOMIC: their responses are taken in PSN order, committed, and cross as packets of their own. A READ that
 * lost a response is sent again whole; what was already taken is dropped by position.
 *
 * A flow whose FLOW_OPEN is still under way keeps what arrives but sends nothing: where it begins is not known. */
#include "far.h"

#include "wan_lane.h"

#define ACKREQ_EVERY_PKTS 32
#define POS_NEVER         (1ull << 62)
#define URGENT_BACKLOG    16   /* a flow may use the reserve while no more than this waits for its host */
#define BELOW_BASE_REACH  4096 /* as far as a near edge extends a flow downwards */
#define REPORT_MIN_NS     50000ull
#define REPORT_MAX_NS     1000000ull
#define WINDOW_MIN_BYTES  16384u
#define OP_AGAIN_QUIET_NS 500000ull /* one repetition of a READ per so long */

struct far_desc {
	uint32_t state; /* 1: in use */
	uint32_t inc;
	struct ip_addr src, dst;
	uint32_t peer_flow, dest_qpn, requester_qpn, msgs_acked;
	uint64_t pos_base, pos_acked, resp_next;
	uint64_t pair_at_pos, peer_epoch;
	uint32_t pair_msn;
	uint16_t lane, vlan_tci, pmtu;
	uint8_t pairing, base_fixed, failed, syndrome, host_mode, template_len;
	uint8_t template[TEMPLATE_MAX];
};
_Static_assert(sizeof(struct far_desc) <= ARENA_DESC_MAX, "far descriptor fits");

static uint32_t peer_hash(uint32_t peer_flow)
{
	return (uint32_t)hash_mix(peer_flow);
}

struct far_flow *far_by_peer(struct proxy *p, uint32_t peer_flow)
{
	uint32_t h = peer_hash(peer_flow), i = h, idx;

	while ((idx = idx_hash_next(&p->far_by_peer, h, &i)) != NONE)
		if (p->far[idx].peer_flow == peer_flow)
			return &p->far[idx];
	return NULL;
}

void far_store(struct proxy *p, const struct far_flow *f)
{
	struct far_desc d = {
	    .state = f->used && f->open,
	    .inc = f->inc,
	    .src = f->src,
	    .dst = f->dst,
	    .peer_flow = f->peer_flow,
	    .peer_epoch = f->peer_epoch,
	    .dest_qpn = f->dest_qpn,
	    .requester_qpn = f->requester_qpn,
	    .msgs_acked = f->msgs_acked,
	    .pos_base = f->pos_base,
	    .pos_acked = f->pos_acked,
	    .resp_next = f->resp_next,
	    .pair_at_pos = f->pair_at_pos,
	    .pair_msn = f->pair_msn,
	    .lane = f->lane,
	    .vlan_tci = f->vlan_tci,
	    .pmtu = f->pmtu,
	    .pairing = (uint8_t)f->pairing,
	    .base_fixed = f->base_fixed,
	    .failed = f->failed,
	    .syndrome = f->syndrome,
	    .host_mode = f->host_mode,
	    .template_len = f->template_len,
	};

	memcpy(d.template, f->template, f->template_len);
	arena_desc_store(p->arena, DESC_FAR, f->idx, &d, offsetof(struct far_desc, template) + f->template_len);
}

/* --- life --- */

static void flow_init(struct proxy *p, struct far_flow *f, uint32_t idx)
{
	memset(f, 0, sizeof(*f));
	f->used = true;
	f->idx = idx;
	f->hostpair = NONE;
	f->pos_low = POS_NEVER;
	f->window_bytes = p->cfg.lan_window_bytes;
	f->last_progress_ns = p->now_ns;
	dlist_init(&f->ops);
	timer_init(&f->rto, TK_RTO, idx);
}

/* Table full: the flow that has been idle for longest is forgotten. If it speaks again it is opened again. */
static struct far_flow *evict(struct proxy *p)
{
	struct far_flow *victim = NULL;

	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		struct far_flow *f = &p->far[i];

		if (f->held_bytes || f->nops || p->now_ns < f->last_progress_ns + 1000000000ull)
			continue;
		if (!victim || f->last_progress_ns < victim->last_progress_ns)
			victim = f;
	}
	if (!victim)
		return NULL;
	far_close(p, victim);
	flow_init(p, victim, victim->idx);
	return victim;
}

static struct far_flow *far_new(struct proxy *p, struct lane *l, uint32_t peer_flow, uint32_t inc)
{
	struct far_flow *f = NULL;

	for (uint32_t i = 0; i < p->cfg.max_flows && !f; i++) {
		uint32_t idx = p->far_free_hint++ % p->cfg.max_flows;

		if (!p->far[idx].used) {
			f = &p->far[idx];
			flow_init(p, f, idx);
		}
	}
	if (!f)
		f = evict(p);
	if (!f)
		return NULL;
	f->peer_flow = peer_flow;
	f->peer_epoch = p->session.peer_arena_epoch;
	f->inc = inc;
	f->lane = l->id;
	idx_hash_put(&p->far_by_peer, peer_hash(peer_flow), f->idx);
	p->far_used++;
	return f;
}

static void free_ops(struct proxy *p, struct far_flow *f)
{
	while (!dlist_empty(&f->ops))
		rd_op_give(p, dlist_entry(dlist_first(&f->ops), struct rd_op, node));
	f->nops = 0;
}

static void free_requests(struct proxy *p, struct far_flow *f)
{
	uint64_t from = f->open ? min_u64(f->pos_low, f->pos_acked) : f->pos_low;

	for (uint64_t pos = from; f->held_bytes && pos < f->pos_rx_max; pos++) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, pos);

		if (slot != SLOT_NONE)
			slot_release(p, slot);
	}
}

/* Responses that still wait for the WAN: they belong to a life that has ended. */
static void free_responses(struct proxy *p, struct far_flow *f)
{
	struct lane *l = lane_of(p, f->lane);
	struct dnode *lists[] = {&l->first, &l->repair, &l->spaced};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		for (struct dnode *n = lists[i]->next, *next; n != lists[i]; n = next) {
			uint32_t slot = slot_of_meta(p, dlist_entry(n, struct slot_meta, node));
			const struct slot_hdr *h = arena_hdr(p->arena, slot);

			next = n->next;
			if (h->kind == SLOT_RESP_FAR && h->flow == f->idx)
				slot_release(p, slot);
		}
	}
}

void far_close(struct proxy *p, struct far_flow *f)
{
	free_requests(p, f);
	free_responses(p, f);
	free_ops(p, f);
	pair_remove(p, f);
	pair_leave(p, f);
	dlist_remove(&f->lan_node);
	dlist_remove(&f->report_node);
	timer_cancel(&p->timers, &f->rto);
	idx_hash_del(&p->far_by_peer, peer_hash(f->peer_flow), f->idx);
	f->used = false;
	far_store(p, f);
	p->far_used--;
}

/* Closes an earlier life of the flow, loudly if the responder lacks bytes of it. */
static void supersede(struct proxy *p, struct far_flow *f)
{
	if (f->open && f->pos_acked < f->pos_rx)
		proxy_event_push(p, EV_FLOW_FAILED, NULL, f, f->pos_acked, f->held_bytes);
	far_close(p, f);
}

/* The flow of that life; NULL: stale, or no room (then *full). */
static struct far_flow *flow_for(struct proxy *p, struct lane *l, uint32_t peer_flow, uint32_t inc, bool *full)
{
	struct far_flow *f = far_by_peer(p, peer_flow);

	*full = false;
	if (f && f->inc != inc) {
		if ((int32_t)(inc - f->inc) < 0) {
			if (FAULT(FAULT_STALE_INCARNATION))
				return f;
			drop(p, DROP_WAN_STALE_INCARNATION);
			return NULL;
		}
		if (FAULT(FAULT_STALE_INCARNATION))
			return f;
		supersede(p, f);
		f = NULL;
	}
	if (!f)
		f = far_new(p, l, peer_flow, inc);
	if (!f) {
		drop(p, DROP_WAN_FLOW_TABLE_FULL);
		*full = true;
	}
	return f;
}

/* --- what can go to the host --- */

static void advance_rx(struct proxy *p, struct far_flow *f)
{
	uint32_t slot;

	while ((slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, f->pos_rx)) != SLOT_NONE) {
		struct slot_hdr *h = arena_hdr(p->arena, slot);

		if (h->state != SLOT_COMMITTED || h->psns == 0)
			break; /* psns 0: a READ whose PMTU is not known yet */
		f->pos_rx += h->psns;
	}
}

/* A READ of unknown length in PSNs may be sent, nothing behind it. */
static bool tx_available(struct proxy *p, const struct far_flow *f)
{
	uint32_t slot;

	if (f->pos_tx < f->pos_rx)
		return true;
	if (f->pos_tx > f->pos_rx)
		return false;
	slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, f->pos_rx);
	return slot != SLOT_NONE && arena_hdr(p->arena, slot)->state == SLOT_COMMITTED;
}

/* A responder that has not answered twice is asked with one packet, not with all that may be in flight. */
static uint32_t window_of(const struct far_flow *f)
{
	return f->retries >= 2 ? 1 : f->window_bytes;
}

void far_kick(struct proxy *p, struct far_flow *f)
{
	if (!f->open || f->failed || f->rnr || !tx_available(p, f))
		return;
	if (f->bytes_out && f->bytes_out >= window_of(f))
		return;
	if (f->pairing == PAIR_LEARNING && !pair_turn(p, f))
		return;
	dlist_append_once(&p->lan_ready, &f->lan_node);
}

/* A responder that is slower than LanTimeout is given the time that it was seen to take. RFC 6298. */
static uint64_t lan_rto(const struct proxy *p, const struct far_flow *f)
{
	uint64_t rto = max_u64(p->cfg.lan_timeout_ns, f->lan_srtt_ns + 4 * f->lan_var_ns);

	if (f->pairing == PAIR_LEARNING)
		return p->cfg.lan_timeout_ns; /* others wait for the end of its turn */
	return min_u64(rto, 25 * p->cfg.lan_timeout_ns) << (f->retries < 4 ? f->retries : 4);
}

static void arm_rto(struct proxy *p, struct far_flow *f)
{
	timer_set(&p->timers, &f->rto, p->now_ns + lan_rto(p, f));
}

static void rtt_begin(const struct proxy *p, struct far_flow *f, uint64_t pos)
{
	if (f->rtt_pos || pos < f->pos_tx_max)
		return; /* Karn: what is repeated measures nothing */
	f->rtt_pos = pos;
	f->rtt_sent_ns = p->now_ns;
}

static void rtt_end(const struct proxy *p, struct far_flow *f)
{
	uint64_t rtt = p->now_ns - f->rtt_sent_ns, err;

	if (!f->rtt_pos || f->pos_acked <= f->rtt_pos)
		return;
	f->rtt_pos = 0;
	err = rtt > f->lan_srtt_ns ? rtt - f->lan_srtt_ns : f->lan_srtt_ns - rtt;
	f->lan_var_ns = f->lan_srtt_ns ? (3 * f->lan_var_ns + err) / 4 : rtt / 2;
	f->lan_srtt_ns = f->lan_srtt_ns ? (7 * f->lan_srtt_ns + rtt) / 8 : rtt;
}

/* --- from the other edge --- */

/* The READ at pos_rx whose length in PSNs was not known owns so many. */
static void set_psns(struct proxy *p, struct far_flow *f, uint32_t slot, uint32_t psns)
{
	struct slot_hdr *h = arena_hdr(p->arena, slot);
	bool sent = f->pos_tx > h->pos;

	h->psns = psns;
	arena_amend(p->arena, slot);
	if (sent) {
		f->pos_tx = h->pos + psns;
		f->pos_tx_max = max_u64(f->pos_tx_max, f->pos_tx);
	}
	for (struct dnode *n = f->ops.next; n != &f->ops; n = n->next) {
		struct rd_op *op = dlist_entry(n, struct rd_op, node);

		if (op->pos == h->pos)
			op->psns = psns;
	}
	advance_rx(p, f);
}

/* The READ of unknown length that stands at pos_rx, SLOT_NONE if there is none. */
static uint32_t unknown_read(struct proxy *p, struct far_flow *f)
{
	uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, f->pos_rx);
	const struct slot_hdr *h = slot == SLOT_NONE ? NULL : arena_hdr(p->arena, slot);

	return h && h->state == SLOT_COMMITTED && h->psns == 0 ? slot : SLOT_NONE;
}

static void learn_pmtu(struct proxy *p, struct far_flow *f, uint16_t pmtu)
{
	uint32_t slot;

	f->pmtu = pmtu;
	while ((slot = unknown_read(p, f)) != SLOT_NONE) {
		struct roce_pkt pkt;

		if (roce_parse(arena_data(p->arena, slot), arena_hdr(p->arena, slot)->len, &pkt) != DROP_NONE)
			return;
		set_psns(p, f, slot, roce_read_psns(pkt.reth_len, pmtu));
	}
}

/* Its first response says it: FIRST by its length, ONLY by being one. */
static void learn_from_response(struct proxy *p, struct far_flow *f, const struct roce_pkt *pkt)
{
	uint32_t slot = unknown_read(p, f);

	if (pkt->opcode == RC_READ_RESP_FIRST && pkt->payload_len >= 256)
		learn_pmtu(p, f, pkt->payload_len);
	else if (pkt->opcode == RC_READ_RESP_ONLY && slot != SLOT_NONE)
		set_psns(p, f, slot, 1);
}

/* What arrived below the base, once it is known for good. */
static void drop_below_base(struct proxy *p, struct far_flow *f)
{
	for (; f->pos_low < f->pos_base; f->pos_low++) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, f->pos_low);

		if (slot != SLOT_NONE)
			slot_release(p, slot);
	}
}

static void begin_at(struct proxy *p, struct far_flow *f, uint64_t pos)
{
	free_ops(p, f); /* what was sent was too early to be answered */
	f->pos_base = f->pos_acked = f->pos_tx = f->pos_tx_max = f->pos_rx = pos;
	f->pos_rx_max = max_u64(f->pos_rx_max, pos);
	f->msgs_acked = 0;
	f->bytes_out = 0;
	f->resp_next = f->pos_ack_seen = 0;
	memset(f->resp_got, 0, sizeof(f->resp_got));
}

/* The first to name the flow fixes its name; what bears another is not of this flow. */
static bool same_name(struct far_flow *f, const struct ip_addr *src, const struct ip_addr *dst, uint32_t dest_qpn)
{
	if (f->named)
		return f->dest_qpn == dest_qpn && ip_addr_eq(&f->src, src) && ip_addr_eq(&f->dst, dst);
	f->named = true;
	f->src = *src;
	f->dst = *dst;
	f->dest_qpn = dest_qpn;
	return true;
}

/* A beginning that a near edge could tell of: near the packets that came before it, and not far below the one told
 * before. Whatever walks positions of a flow relies on it. */
static bool base_possible(const struct far_flow *f, uint64_t base)
{
	if (base >> 42)
		return false;
	if (f->open)
		return base >= f->pos_base || f->pos_base - base <= BELOW_BASE_REACH;
	return f->pos_low == POS_NEVER || (base < f->pos_low + FLOW_SPAN_MAX && f->pos_low < base + FLOW_SPAN_MAX);
}

void far_on_open(struct proxy *p, struct lane *l, const struct wan_flow_open *o)
{
	bool full;
	struct far_flow *f;

	if (!ip_prefix_any(p->cfg.local, p->cfg.nlocal, &o->dst) ||
	    !ip_prefix_any(p->cfg.remote, p->cfg.nremote, &o->src) ||
	    proxy_lane(&o->src, &o->dst, p->cfg.nlanes) != l->id) {
		drop(p, DROP_WAN_BAD_FRAME);
		return;
	}
	f = flow_for(p, l, o->flow, o->inc, &full);
	if (!f)
		return;
	if (!base_possible(f, o->pos_base)) {
		drop(p, DROP_WAN_BAD_FRAME);
		return;
	}
	f->host_mode = o->flags & WOF_HOST_MODE;
	if (!same_name(f, &o->src, &o->dst, o->dest_qpn)) {
		drop(p, DROP_WAN_BAD_FRAME);
		return;
	}
	if (!f->open) {
		f->vlan_tci = o->vlan_tci;
		f->base_fixed = o->flags & WOF_BASE_FIXED;
		begin_at(p, f, o->pos_base);
		if (!pair_join(p, f)) {
			far_close(p, f);
			drop(p, DROP_WAN_FLOW_TABLE_FULL);
			return;
		}
		f->open = true;
		if (o->flags & WOF_PAIRED) {
			f->pairing = PAIR_CONFIRMED;
			pair_enter(p, f, o->requester_qpn);
		}
	} else if (!f->base_fixed && o->pos_base < f->pos_base && f->pos_acked == f->pos_base && !f->nops) {
		begin_at(p, f, o->pos_base); /* something was overtaken at the start */
	}
	if (o->pmtu && !f->pmtu)
		learn_pmtu(p, f, o->pmtu);
	advance_rx(p, f);
	far_store(p, f);
	far_report(p, f, false);
	far_kick(p, f);
}

void far_on_close(struct proxy *p, const struct wan_flow_close *c)
{
	struct far_flow *f = far_by_peer(p, c->flow);

	if (f && f->inc == c->inc)
		far_close(p, f);
}

/* All pieces are there: what is it, and may it count? */
static bool complete(struct proxy *p, struct far_flow *f, uint32_t slot, uint16_t vlan_tci)
{
	struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct roce_pkt pkt;

	if (roce_parse(arena_data(p->arena, slot), h->len, &pkt) != DROP_NONE || pkt.len != h->len ||
	    (pkt.class != ROCE_RC_REQUEST && pkt.class != ROCE_RC_UNKNOWN) || pkt.psn != pos_psn(h->pos) ||
	    !same_name(f, &pkt.src, &pkt.dst, pkt.dest_qpn)) {
		slot_release(p, slot);
		drop(p, DROP_WAN_BAD_FRAME);
		return false;
	}
	slot_describe(p, slot, &pkt, vlan_tci);
	if (!f->pmtu && (roce_op(pkt.opcode)->flags & ROP_PAYLOAD) && !(h->flags & SF_MSG_END) &&
	    pkt.payload_len >= 256)
		f->pmtu = pkt.payload_len;
	if (pkt.opcode == RC_READ_REQUEST)
		h->psns = f->pmtu ? roce_read_psns(pkt.reth_len, f->pmtu) : pkt.reth_len > 256 ? 0 : 1;
	arena_commit(p->arena, slot);
	f->bytes += h->len;
	if (h->flags & SF_MSG_END)
		f->messages++;
	return true;
}

static uint32_t place(struct proxy *p, struct lane *l, struct far_flow *f, const struct wan_packet *w)
{
	uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, w->pos);
	bool urgent = !f->open || (w->pos == f->pos_rx && f->pos_rx - f->pos_acked < URGENT_BACKLOG);

	if (slot == SLOT_NONE)
		return slot_take(p, SLOT_REQ_FAR, f->idx, f->inc, w->pos, w->total, l->id, urgent);
	return slot;
}

/* A position that the flow may have: not absurd, and not further below its beginning than a near edge would go. */
static bool in_reach(const struct far_flow *f, uint64_t pos)
{
	if (pos >> 42)
		return false;
	if (f->open)
		return pos < f->pos_acked + FLOW_SPAN_MAX && (f->base_fixed || pos + BELOW_BASE_REACH >= f->pos_base);
	return f->pos_low == POS_NEVER || (pos + BELOW_BASE_REACH >= f->pos_low && pos < f->pos_low + FLOW_SPAN_MAX);
}

bool far_on_packet(struct proxy *p, struct lane *l, const struct wan_packet *w)
{
	bool full;
	struct far_flow *f = flow_for(p, l, w->flow, w->inc, &full);
	uint32_t slot;

	if (!f)
		return !full;
	if (f->lane != l->id || !in_reach(f, w->pos)) {
		drop(p, DROP_WAN_BAD_FRAME);
		return true;
	}
	/* Before the base of a flow that may still begin earlier it is kept; a FLOW_OPEN will say so. */
	if (f->open && w->pos < f->pos_rx && (f->base_fixed || w->pos >= f->pos_base)) {
		drop(p, DROP_WAN_POSITION_OLD);
		return true;
	}
	if (f->failed) {
		drop(p, DROP_WAN_FAILED);
		return true;
	}
	slot = place(p, l, f, w);
	if (slot == SLOT_NONE)
		return false;
	if (arena_hdr(p->arena, slot)->state == SLOT_COMMITTED || arena_hdr(p->arena, slot)->len != w->total) {
		drop(p, DROP_WAN_POSITION_OLD);
		return true;
	}
	f->pos_rx_max = max_u64(f->pos_rx_max, w->pos + 1);
	f->pos_low = min_u64(f->pos_low, w->pos);
	if (!wan_piece_take(p, slot, w) || !complete(p, f, slot, w->vlan_tci))
		return true;
	if (f->open && w->pos == f->pos_rx) {
		advance_rx(p, f);
		far_kick(p, f);
	}
	return true;
}

/* --- to the host --- */

static void op_begin(struct proxy *p, struct far_flow *f, const struct slot_hdr *h)
{
	struct rd_op *op;

	for (struct dnode *n = f->ops.next; n != &f->ops; n = n->next)
		if (dlist_entry(n, struct rd_op, node)->pos == h->pos)
			return;
	op = rd_op_take(p);
	if (!op)
		return; /* far_lan_tx asked for one before */
	op->pos = h->pos;
	op->psns = h->psns;
	op->opcode = h->opcode;
	op->again_ns = p->now_ns;
	if (dlist_empty(&f->ops) && f->resp_next < op->pos)
		f->resp_next = op->pos;
	dlist_append(&f->ops, &op->node);
	f->nops++;
}

static bool wants_ackreq(const struct far_flow *f, const struct slot_hdr *h)
{
	if ((h->flags & SF_ACK_REQ) || f->pkts_since_ackreq + 1 >= ACKREQ_EVERY_PKTS)
		return true;
	if (f->bytes_out + h->len >= window_of(f))
		return true;
	return h->pos + h->psns >= f->pos_rx; /* nothing behind it to ask with */
}

static void set_ackreq(const struct slot_hdr *h, struct lan_tx *tx)
{
	size_t at = (size_t)h->bth_off + 8;
	uint8_t diff = 0x80;
	uint32_t crc;

	if (tx->hdr[at] & 0x80)
		return;
	tx->hdr[at] |= 0x80;
	put_be16(tx->hdr + h->bth_off - 2, 0); /* a UDP checksum would be wrong now */
	crc = (uint32_t)tx->trailer[0] | (uint32_t)tx->trailer[1] << 8 | (uint32_t)tx->trailer[2] << 16 |
	      (uint32_t)tx->trailer[3] << 24;
	crc = icrc_patch(crc, &diff, 1, (size_t)tx->hdr_len - at - 1 + tx->body_len);
	for (int i = 0; i < 4; i++)
		tx->trailer[i] = (uint8_t)(crc >> (8 * i));
}

static void fill_tx(const struct far_flow *f, const struct slot_hdr *h, const uint8_t *data, struct lan_tx *tx)
{
	memcpy(tx->hdr, data, h->hdr_len);
	tx->hdr_len = h->hdr_len;
	tx->body = data + h->hdr_len;
	tx->body_len = (uint16_t)(h->len - h->hdr_len - ROCE_ICRC_LEN);
	memcpy(tx->trailer, data + h->len - ROCE_ICRC_LEN, ROCE_ICRC_LEN);
	tx->trailer_len = ROCE_ICRC_LEN;
	tx->vlan_tci = h->vlan_tci;
	tx->dst = f->dst;
}

size_t far_lan_tx(struct proxy *p, struct far_flow *f, struct lan_tx *tx)
{
	uint32_t slot;
	const struct slot_hdr *h;

	dlist_remove(&f->lan_node);
	if (f->failed || f->rnr || !tx_available(p, f) || (f->bytes_out && f->bytes_out >= window_of(f)))
		return 0;
	slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, f->pos_tx);
	if (slot == SLOT_NONE)
		return 0;
	h = arena_hdr(p->arena, slot);
	if ((h->flags & SF_OWN_RESPONSE) && (f->nops >= READS_PER_FLOW || dlist_empty(&p->ops_free)))
		return 0; /* an answer to an earlier one kicks the flow again */
	fill_tx(f, h, arena_data(p->arena, slot), tx);
	if (wants_ackreq(f, h)) {
		set_ackreq(h, tx);
		rtt_begin(p, f, h->pos);
		f->pkts_since_ackreq = 0;
	} else {
		f->pkts_since_ackreq++;
	}
	if (h->flags & SF_OWN_RESPONSE)
		op_begin(p, f, h);
	if (f->pos_tx < f->pos_tx_max) {
		count(p, CTR_LAN_RETRIES, 1);
		f->retried_ns = p->now_ns;
	}
	f->bytes_out += h->len;
	f->pos_tx += h->psns ? h->psns : 1;
	f->pos_tx_max = max_u64(f->pos_tx_max, f->pos_tx);
	if (!timer_armed(&f->rto))
		arm_rto(p, f);
	far_kick(p, f);
	return (size_t)tx->hdr_len + tx->body_len + tx->trailer_len;
}

/* --- answers of the host --- */

static uint64_t credit_for(const struct proxy *p, const struct far_flow *f)
{
	uint64_t share = pool_free(p, POOL_WAN) * 3 / 4;
	uint32_t slot_bytes = arena_class_bytes((uint16_t)((f->pmtu ? f->pmtu : LAN_MTU_PAYLOAD_MAX) + 84));

	return f->pos_acked + max_u64(share, CREDIT_MIN_BYTES) / slot_bytes;
}

void far_report_frame(struct proxy *p, struct far_flow *f, struct wan_flow_report *r)
{
	uint64_t credit = min_u64(credit_for(p, f), f->pos_acked + FLOW_SPAN_MAX / 2);

	f->pos_credit = max_u64(f->pos_credit, credit);
	*r = (struct wan_flow_report){
	    .flow = f->peer_flow,
	    .inc = f->inc,
	    .received = f->pos_rx,
	    .delivered = f->pos_acked,
	    .credit = f->pos_credit,
	    .nak_pos = f->nak_pos,
	    .state = WFS_OK,
	    .syndrome = f->syndrome,
	};
	if (f->rnr)
		r->state = WFS_RNR;
	if (f->stalled)
		r->state = WFS_STALLED;
	if (f->failed)
		r->state = WFS_FAILED;
}

void far_pair_frame(const struct far_flow *f, struct wan_flow_pair *r)
{
	*r = (struct wan_flow_pair){
	    .flow = f->peer_flow,
	    .inc = f->inc,
	    .pos_base = f->pos_base,
	    .at_pos = f->pair_at_pos,
	    .msn = f->pair_msn,
	    .requester_qpn = f->requester_qpn,
	    .confirmed = f->pairing == PAIR_CONFIRMED,
	    .template_len = f->template_len,
	    .template = f->template,
	};
}

void far_report(struct proxy *p, struct far_flow *f, bool at_once)
{
	struct lane *l = lane_of(p, f->lane);
	uint64_t delay = wan_rtt_min_ns(&p->rtt) / 16;

	if (delay < REPORT_MIN_NS)
		delay = REPORT_MIN_NS;
	if (delay > REPORT_MAX_NS)
		delay = REPORT_MAX_NS;
	if (!f->open)
		return;
	if (!at_once) {
		if (dnode_on(&f->report_node))
			return;
		f->report_at_ns = p->now_ns + delay;
		dlist_append(&l->reports, &f->report_node);
		wan_lane_wake_at(p, l, f->report_at_ns);
		return;
	}
	dlist_remove(&f->report_node);
	f->report_at_ns = 0;
	dlist_append(l->reports.next, &f->report_node); /* in front of the first */
	wan_lane_kick(p, l);
}

/* Everything before `upto` is the responder's. Descriptor first, then the slots. */
static void settle(struct proxy *p, struct far_flow *f, uint64_t upto)
{
	uint64_t pos = f->pos_acked, from = pos;

	if (upto <= f->pos_acked)
		return;
	while (pos < upto) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, pos);
		const struct slot_hdr *h;

		if (slot == SLOT_NONE) {
			pos++;
			continue;
		}
		h = arena_hdr(p->arena, slot);
		f->msgs_acked += (h->flags & (SF_MSG_END | SF_OWN_RESPONSE)) != 0;
		if (pos < f->pos_tx)
			f->bytes_out -= h->len <= f->bytes_out ? h->len : f->bytes_out;
		pos += h->psns ? h->psns : 1;
	}
	f->pos_acked = upto;
	f->pos_tx = max_u64(f->pos_tx, upto);
	f->base_fixed = true;
	drop_below_base(p, f);
	far_store(p, f);
	for (pos = from; pos < upto;) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, pos), psns = 1;

		if (slot != SLOT_NONE) {
			const struct slot_hdr *h = arena_hdr(p->arena, slot);

			psns = h->psns ? h->psns : 1;
			count(p, CTR_BYTES_DELIVERED, (uint64_t)(h->len - h->hdr_len - ROCE_ICRC_LEN - h->pad));
			slot_release(p, slot);
		}
		pos += psns;
	}
	rtt_end(p, f);
	f->retries = 0;
	f->last_progress_ns = p->now_ns;
	if (f->window_bytes < p->cfg.lan_window_bytes)
		f->window_bytes += (uint32_t)min_u64((upto - from) * 512, p->cfg.lan_window_bytes - f->window_bytes);
	if (f->stalled) {
		f->stalled = false;
		proxy_event_push(p, EV_FLOW_RESUMED, NULL, f, f->pos_acked, 0);
	}
	if (f->rnr)
		; /* the timer ends the wait that the responder asked for */
	else if (f->pos_tx > f->pos_acked)
		arm_rto(p, f);
	else
		timer_cancel(&p->timers, &f->rto);
	far_report(p, f, f->host_mode || f->pair_due);
}

static void go_back(struct proxy *p, struct far_flow *f, uint64_t pos)
{
	if (pos < f->pos_acked)
		pos = f->pos_acked;
	if (pos < f->pos_tx)
		f->pos_tx = pos;
	f->bytes_out = 0;
	f->rtt_pos = 0;
	for (uint64_t at = f->pos_acked; at < f->pos_tx;) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, at);

		if (slot == SLOT_NONE)
			break;
		f->bytes_out += arena_hdr(p->arena, slot)->len;
		at += arena_hdr(p->arena, slot)->psns ? arena_hdr(p->arena, slot)->psns : 1;
	}
	far_kick(p, f);
}

static void on_loss(struct far_flow *f)
{
	if (f->pos_acked < f->pos_recover)
		return;
	f->pos_recover = f->pos_tx_max;
	f->window_bytes = f->window_bytes / 2 > WINDOW_MIN_BYTES ? f->window_bytes / 2 : WINDOW_MIN_BYTES;
}

static struct rd_op *first_op(const struct far_flow *f)
{
	return dlist_empty(&f->ops) ? NULL : dlist_entry(dlist_first(&f->ops), struct rd_op, node);
}

static void op_end(struct proxy *p, struct far_flow *f, struct rd_op *op)
{
	rd_op_give(p, op);
	f->nops--;
	op = first_op(f);
	f->resp_next = op ? op->pos : 0;
}

/* ACK up to (not including) `upto`: ends in front of a READ or ATOMIC that has no response. */
static uint64_t stop_at_op(struct proxy *p, struct far_flow *f, uint64_t upto)
{
	struct rd_op *op;

	while ((op = first_op(f)) && upto > op->pos) {
		if (!(roce_op(op->opcode)->flags & ROP_VALID)) { /* unknown: an ACK is its answer */
			op_end(p, f, op);
			continue;
		}
		/* An ACK past it is an implied NAK: its response was lost here. IBTA 9.7.5.1.4. */
		if (p->now_ns >= op->again_ns + OP_AGAIN_QUIET_NS) {
			op->again_ns = p->now_ns;
			settle(p, f, op->pos);
			go_back(p, f, op->pos);
		}
		return op->pos;
	}
	return upto;
}

static void fail(struct proxy *p, struct far_flow *f, uint64_t pos, uint8_t syndrome)
{
	f->failed = true;
	f->syndrome = syndrome;
	f->nak_pos = pos;
	timer_cancel(&p->timers, &f->rto);
	proxy_event_push(p, EV_FLOW_FAILED, NULL, f, pos, f->held_bytes);
	far_store(p, f);
	free_requests(p, f);
	free_ops(p, f);
	pair_leave(p, f);
	far_report(p, f, true);
}

/* The responder expects something below what we took for the beginning. */
static enum proxy_drop nak_below_base(struct proxy *p, struct far_flow *f, uint64_t pos)
{
	begin_at(p, f, pos);
	f->base_fixed = true;
	f->pair_at_pos = pos;
	advance_rx(p, f);
	far_store(p, f);
	far_report(p, f, true);
	return DROP_NONE;
}

static enum proxy_drop rx_nak(struct proxy *p, struct far_flow *f, const struct roce_pkt *pkt, uint64_t pos)
{
	uint8_t type = pkt->aeth_syndrome & AETH_TYPE_MASK;

	if (pos < f->pos_base && f->pos_base - pos <= BELOW_BASE_REACH && !f->base_fixed &&
	    pkt->aeth_syndrome == AETH_NAK_PSN_SEQ)
		return nak_below_base(p, f, pos);
	if (pos < f->pos_acked)
		return drop(p, DROP_LAN_ACK_STALE);
	if (pos > f->pos_tx_max)
		return drop(p, DROP_LAN_ACK_UNSENT);
	settle(p, f, stop_at_op(p, f, pos));
	if (type == AETH_RNR_NAK) {
		count(p, CTR_RNR_NAKS_RX, 1);
		f->last_progress_ns = p->now_ns; /* it lives */
		f->rnr = true;
		go_back(p, f, pos);
		timer_set(&p->timers, &f->rto, p->now_ns + roce_rnr_timer_ns(pkt->aeth_syndrome & 0x1f));
		return DROP_NONE;
	}
	if (pkt->aeth_syndrome != AETH_NAK_PSN_SEQ) {
		count(p, CTR_ERR_NAKS_RX, 1);
		fail(p, f, pos, pkt->aeth_syndrome);
		return DROP_NONE;
	}
	count(p, CTR_NAKS_RX, 1);
	if (f->rnr)
		return DROP_NONE; /* about what was behind the packet that is waited for */
	on_loss(f);
	go_back(p, f, pos);
	return DROP_NONE;
}

static enum proxy_drop rx_ack(struct proxy *p, struct far_flow *f, const struct roce_pkt *pkt)
{
	uint64_t pos = pos_near(f->pos_acked, pkt->psn), upto;

	if ((pkt->aeth_syndrome & AETH_TYPE_MASK) != AETH_ACK)
		return rx_nak(p, f, pkt, pos);
	count(p, CTR_ACKS_RX, 1);
	if (pos + 1 <= f->pos_acked)
		return drop(p, DROP_LAN_ACK_STALE);
	if (pos >= f->pos_tx_max)
		return drop(p, DROP_LAN_ACK_UNSENT);
	f->pos_ack_seen = max_u64(f->pos_ack_seen, pos + 1);
	upto = stop_at_op(p, f, pos + 1);
	settle(p, f, upto);
	far_kick(p, f);
	return DROP_NONE;
}

/* Notes a response at pos >= resp_next. False: it is there already. */
static bool resp_note(struct far_flow *f, uint64_t pos)
{
	uint64_t *w = &f->resp_got[pos % RESP_AHEAD / 64], bit = 1ull << (pos % 64);

	if (*w & bit)
		return false;
	*w |= bit;
	return true;
}

/* Moves resp_next over what is there. True if something behind it has overtaken what is missing. */
static bool resp_advance(struct far_flow *f)
{
	uint64_t any = 0;

	while (f->resp_got[f->resp_next % RESP_AHEAD / 64] >> (f->resp_next % 64) & 1) {
		f->resp_got[f->resp_next % RESP_AHEAD / 64] &= ~(1ull << (f->resp_next % 64));
		f->resp_next++;
	}
	for (size_t i = 0; i < RESP_AHEAD / 64; i++)
		any |= f->resp_got[i];
	return any != 0;
}

/* With a hole in a READ's responses the READ is sent again soon, else the usual time after the last sign of life. */
static void arm_after_response(struct proxy *p, struct far_flow *f, const struct rd_op *op, bool hole)
{
	f->retries = 0;
	if (f->rnr)
		return;
	if (hole)
		timer_set(&p->timers, &f->rto,
		          max_u64(p->now_ns + 4 * p->cfg.reorder_ns, op->again_ns + OP_AGAIN_QUIET_NS));
	else
		arm_rto(p, f);
}

static void end_if_answered(struct proxy *p, struct far_flow *f, struct rd_op *op)
{
	uint64_t end = op->pos + op->psns;

	if (f->resp_next >= end) {
		op_end(p, f, op);
		settle(p, f, end);
		if (f->pos_ack_seen > f->pos_acked) /* an ACK was here before the response */
			settle(p, f, stop_at_op(p, f, f->pos_ack_seen));
	}
	far_kick(p, f);
}

static enum proxy_drop rx_response(struct proxy *p, struct far_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                                   uint16_t vlan_tci)
{
	struct rd_op *op = first_op(f);
	uint64_t pos;
	uint32_t slot;

	if (!op)
		return drop(p, DROP_LAN_ACK_STALE);
	if (op->psns == 0 && pkt->psn == pos_psn(op->pos))
		learn_from_response(p, f, pkt);
	if (op->psns == 0)
		return drop(p, DROP_LAN_RESP_ORDER);
	pos = pos_near(f->resp_next, pkt->psn);
	if (pos < f->resp_next) {
		end_if_answered(p, f, op); /* an earlier life of the edge may have taken all of it */
		return drop(p, DROP_LAN_ACK_STALE);
	}
	if (pos >= f->pos_tx_max)
		return drop(p, DROP_LAN_ACK_UNSENT);
	if (pos >= op->pos + op->psns || pos >= f->resp_next + RESP_AHEAD)
		return drop(p, DROP_LAN_RESP_ORDER);
	if ((op->opcode == RC_READ_REQUEST) == (pkt->opcode == RC_ATOMIC_ACK))
		return drop(p, DROP_LAN_ACK_UNSENT);
	if (!resp_note(f, pos))
		return drop(p, DROP_LAN_ACK_STALE);
	slot = slot_take(p, SLOT_RESP_FAR, f->idx, f->inc, pos, pkt->len, f->lane, true);
	if (slot == SLOT_NONE) {
		f->resp_got[pos % RESP_AHEAD / 64] &= ~(1ull << (pos % 64));
		return drop(p, DROP_LAN_NO_ROOM); /* the READ is repeated later */
	}
	memcpy(arena_data(p->arena, slot), l3, pkt->len);
	roce_dec_ttl(arena_data(p->arena, slot), pkt);
	slot_describe(p, slot, pkt, vlan_tci);
	arena_commit(p->arena, slot);
	f->last_progress_ns = p->now_ns;
	wan_lane_queue_first(p, lane_of(p, f->lane), slot);
	arm_after_response(p, f, op, resp_advance(f));
	settle(p, f, op->pos); /* it was executed after everything before it */
	end_if_answered(p, f, op);
	return DROP_NONE;
}

/* A second answer at another PSN makes a provisional pair a fact. */
static void confirm_pair(struct proxy *p, struct far_flow *f, uint64_t before)
{
	if (f->pairing != PAIR_PROVISIONAL || f->pos_acked == before || before == f->pos_base)
		return;
	f->pairing = PAIR_CONFIRMED;
	f->pair_due = true;
	far_store(p, f);
	far_report(p, f, false);
}

/* First answer ever: whose QPN it names, and how many messages the responder has counted, from which the near edge
 * works out the MSN of every ACK. A READ response counts its READ already. */
static void first_answer(struct proxy *p, struct far_flow *f, const struct roce_pkt *pkt)
{
	struct roce_pkt ack = *pkt;

	ack.opcode = RC_ACK;
	ack.aeth_syndrome = AETH_ACK_NO_CREDITS;
	f->template_len = (uint8_t)roce_build(f->template, TEMPLATE_MAX, &ack, NULL, 0);
	f->pair_at_pos = pos_near(f->pos_acked, pkt->psn);
	f->pair_msn = pkt->aeth_msn;
	if (pkt->opcode != RC_ACK) /* it counts its READ or ATOMIC already */
		f->pair_msn = (f->pair_msn - 1) & ROCE_PSN_MASK;
	else if ((pkt->aeth_syndrome & AETH_TYPE_MASK) == AETH_ACK)
		f->pair_at_pos++;
	f->pair_due = true;
	far_store(p, f);
	far_report(p, f, true);
}

enum proxy_drop far_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	struct far_flow *f = pair_find(p, &pkt->dst, &pkt->src, pkt->dest_qpn);
	bool first = false;
	enum proxy_drop d;
	uint64_t before;

	if (!f || !pair_holds(p, f, pkt)) {
		f = pair_claim(p, pkt);
		first = f != NULL;
	}
	if (!f)
		return drop(p, DROP_LAN_ACK_UNMATCHED);
	if (f->failed)
		return drop(p, DROP_LAN_ACK_STALE);
	before = f->pos_acked;
	if (pkt->opcode == RC_ACK)
		d = rx_ack(p, f, pkt);
	else
		d = rx_response(p, f, l3, pkt, vlan_tci);
	if (first)
		first_answer(p, f, pkt);
	else
		confirm_pair(p, f, before);
	return d;
}

/* --- timers, sessions --- */

static void check_stall(struct proxy *p, struct far_flow *f)
{
	if (f->stalled || p->now_ns < f->last_progress_ns + p->cfg.stall_ns)
		return;
	f->stalled = true;
	proxy_event_push(p, EV_FLOW_STALLED, NULL, f, f->pos_acked, f->held_bytes);
	far_report(p, f, true);
}

void far_on_timer(struct proxy *p, struct far_flow *f)
{
	if (f->pairing == PAIR_LEARNING && !f->probing) { /* has waited for another try */
		far_kick(p, f);
		return;
	}
	check_stall(p, f);
	if (p->now_ns >= f->last_progress_ns + p->cfg.give_up_ns && f->pos_rx > f->pos_acked) {
		fail(p, f, f->pos_acked, 0);
		return;
	}
	if (f->rnr) {
		f->rnr = false;
		go_back(p, f, f->pos_acked);
		return;
	}
	if (f->pos_tx == f->pos_acked && !f->nops)
		return;
	count(p, CTR_LAN_TIMEOUTS, 1);
	if (f->retries < UINT8_MAX)
		f->retries++;
	if (f->pairing == PAIR_LEARNING) {
		dlist_remove(&f->lan_node);
		f->pos_tx = f->pos_acked;
		f->bytes_out = 0;
		pair_unanswered(p, f);
		return;
	}
	if (first_op(f))
		first_op(f)->again_ns = p->now_ns;
	on_loss(f);
	arm_rto(p, f);
	go_back(p, f, f->pos_acked);
}

void far_session_start(struct proxy *p, struct far_flow *f)
{
	if (p->session.peer_arena_epoch && f->peer_epoch && f->peer_epoch != p->session.peer_arena_epoch) {
		supersede(p, f); /* the peer has lost its memory of it: its numbers begin anew */
		return;
	}
	if (!f->peer_epoch)
		f->peer_epoch = p->session.peer_arena_epoch;
	if (f->pairing != PAIR_LEARNING && f->template_len)
		f->pair_due = true;
	far_report(p, f, true);
}

/* --- rebuild --- */

static void rebuild_flow(struct proxy *p, uint32_t idx, const struct far_desc *d)
{
	struct far_flow *f = &p->far[idx];

	flow_init(p, f, idx);
	f->inc = d->inc;
	f->src = d->src;
	f->dst = d->dst;
	f->peer_flow = d->peer_flow;
	f->peer_epoch = d->peer_epoch;
	f->dest_qpn = d->dest_qpn;
	f->lane = d->lane;
	f->vlan_tci = d->vlan_tci;
	f->pmtu = d->pmtu;
	f->base_fixed = d->base_fixed;
	f->failed = d->failed;
	f->syndrome = d->syndrome;
	f->host_mode = d->host_mode;
	begin_at(p, f, d->pos_acked);
	f->pos_base = d->pos_base;
	f->msgs_acked = d->msgs_acked;
	f->resp_next = d->resp_next;
	f->pair_at_pos = d->pair_at_pos;
	f->pair_msn = d->pair_msn;
	f->template_len = d->template_len;
	memcpy(f->template, d->template, d->template_len);
	idx_hash_put(&p->far_by_peer, peer_hash(f->peer_flow), idx);
	p->far_used++;
	f->named = true;
	f->open = pair_join(p, f);
	f->pairing = d->pairing;
	if (f->pairing != PAIR_LEARNING)
		pair_enter(p, f, d->requester_qpn);
}

void far_rebuild(struct proxy *p)
{
	for (uint32_t idx = 0; idx < p->cfg.max_flows; idx++) {
		struct far_desc d;

		if (arena_desc_load(p->arena, DESC_FAR, idx, &d, sizeof(d)) && d.state == 1 && d.lane < p->cfg.nlanes &&
		    d.template_len <= TEMPLATE_MAX)
			rebuild_flow(p, idx, &d);
	}
}

/* Where the responses of the first operation were: after the last one that is still here, or as the descriptor says. */
void far_rebuild_finish(struct proxy *p)
{
	for (uint32_t idx = 0; idx < p->cfg.max_flows; idx++) {
		struct far_flow *f = &p->far[idx];

		if (!f->used)
			continue;
		advance_rx(p, f);
		while (f->resp_next && arena_find(p->arena, SLOT_RESP_FAR, idx, f->resp_next) != SLOT_NONE)
			f->resp_next++;
		f->pos_tx_max = f->pos_rx; /* it may all have been sent: answers to it count */
		far_kick(p, f);
	}
}
