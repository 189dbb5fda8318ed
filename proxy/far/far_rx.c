/* SPDX-License-Identifier: Apache-2.0 */
/* far_rx.c - requests from the WAN, put into the order of their flow.
 *
 * Theory of operation
 *
 * FLOW_OPEN says where a flow begins, and its hosts and QPNs. Packets are put together from their pieces in the slot of
 * their position, checked once they are whole, and committed. pos_rx moves over contiguous packets.
 *
 * In mode far the near edge ACKs what is committed here: each advance is reported, at once if the host asked for an
 * ACK.
 *
 * Frames with values that no near edge could send are dropped: the first frame or packet fixes the flow's hosts and
 * DestQP, and positions and bases must lie within reach of the known ones. Loops over positions rely on this.
 *
 * A READ owns as many PSNs as its response has packets, a number that is not known before the PMTU is. Such a READ is
 * committed with psns 0 and stands at pos_rx until a payload, the near edge or its first response has told the
 * number. */
#include "far_priv.h"

#include "proxy/carry/barrier.h"
#include "pair.h"
#include "proxy/wan/wan_lane.h"

#define URGENT_BACKLOG 16 /* a flow may use the reserve while no more than this waits for its host */

void far_advance_rx(struct proxy *p, struct far_flow *f)
{
	uint64_t from = f->pos_rx;
	bool asked = false;
	uint32_t slot;

	while (f->pos_rx < f->pos_rx_max &&
	       (slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, f->pos_rx)) != SLOT_NONE) {
		struct slot_hdr *h = arena_hdr(p->arena, slot);

		if (h->state != SLOT_COMMITTED || h->psns == 0)
			break; /* psns 0: a READ whose PMTU is not known yet */
		if (!work_take(p)) {
			far_work_later(p, f);
			break;
		}
		asked |= (h->flags & SF_ACK_REQ) != 0;
		f->pos_rx += h->psns;
	}
	if (f->mode == ACK_MODE_FAR && f->pos_rx > from)
		far_report(p, f, asked); /* the host's ACK depends on it */
	if (f->stale_epoch)
		barrier_mark_stale(p, f);
}

/* --- READs whose length in PSNs is not known yet --- */

/* The READ at pos_rx whose length in PSNs was not known owns psns of them. */
static void set_psns(struct proxy *p, struct far_flow *f, uint32_t slot, uint32_t psns)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	bool sent = f->pos_tx > h->pos;

	arena_amend(p->arena, slot, psns, h->msn);
	if (sent) { /* pos_rx moves over a READ that was sent, whatever work is left: its response frees the slot */
		f->pos_tx = f->pos_rx = h->pos + psns;
		f->pos_tx_max = max_u64(f->pos_tx_max, f->pos_tx);
	}
	for (struct dnode *n = f->ops.next; n != &f->ops; n = n->next) {
		struct rd_op *op = dlist_entry(n, struct rd_op, node);

		if (op->pos == h->pos)
			op->psns = psns;
	}
	far_advance_rx(p, f);
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

void far_learn_from_response(struct proxy *p, struct far_flow *f, const struct roce_pkt *pkt)
{
	uint32_t slot = unknown_read(p, f);

	bool more = pkt->opcode == RC_READ_RESP_FIRST || (pkt->opcode == RC_READ_RESP_MIDDLE && !FAULT(FAULT_LAST_UNCOUNTED));

	if (more && pkt->payload_len >= 256)
		learn_pmtu(p, f, pkt->payload_len);
	else if (!more && pkt->opcode != RC_READ_RESP_MIDDLE && slot != SLOT_NONE) /* LAST: of rxe, for the rest of a READ */
		set_psns(p, f, slot, 1);
}

/* --- FLOW_OPEN --- */

void far_drop_below_base(struct proxy *p, struct far_flow *f)
{
	for (; f->pos_low < f->pos_base; f->pos_low++) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, f->pos_low);

		if (!work_take(p)) {
			far_work_later(p, f);
			return;
		}
		if (slot != SLOT_NONE)
			slot_release(p, slot);
	}
}

/* True if hosts and DestQP are the flow's. The first frame or packet of the flow fixes them. */
static bool key_matches(struct proxy *p, struct far_flow *f, const struct ip_addr *src, const struct ip_addr *dst,
                        uint32_t dest_qpn)
{
	if (far_is_keyed(f))
		return f->dest_qpn == dest_qpn && ip_addr_eq(&f->src, src) && ip_addr_eq(&f->dst, dst);
	f->src = *src;
	f->dst = *dst;
	f->dest_qpn = dest_qpn;
	far_become(p, f, FAR_KEYED);
	return true;
}

/* True for a base that a near edge could send: near the packets that came, and not far below the base sent before.
 * Loops over positions rely on it. */
static bool base_possible(const struct far_flow *f, uint64_t base)
{
	if (base >= POS_END)
		return false;
	if (far_is_open(f))
		return base >= f->pos_base || f->pos_base - base <= BELOW_BASE_REACH;
	return f->pos_low == POS_NEVER || (base < f->pos_low + FLOW_SPAN_MAX && f->pos_low < base + FLOW_SPAN_MAX);
}

/* True for a FLOW_OPEN that may be sent to this edge: between the link's prefixes, on the lane of its hosts. */
static bool open_fits(const struct proxy *p, const struct lane *l, const struct wan_flow_open *o)
{
	return ip_prefix_any(p->cfg.local, p->cfg.nlocal, &o->dst) &&
	       ip_prefix_any(p->cfg.remote, p->cfg.nremote, &o->src) &&
	       proxy_lane_between(&p->cfg, &o->src, &o->dst) == l->id;
}

/* The first FLOW_OPEN. False: no place for its host pair, the flow is gone. */
static bool open_first(struct proxy *p, struct far_flow *f, const struct wan_flow_open *o)
{
	f->vlan_tci = o->vlan_tci;
	f->base_fixed = o->flags & WOF_BASE_FIXED;
	far_begin_at(p, f, o->pos_base);
	if (!pair_join(p, f)) {
		far_close(p, f);
		drop(p, DROP_WAN_FLOW_TABLE_FULL);
		return false;
	}
	far_become(p, f, FAR_OPEN);
	f->resumed = o->flags & WOF_RESUMED;
	f->doubted = o->flags & WOF_DOUBTED;
	far_stale_first(p, f);
	far_lost_successor(p, f);
	if (o->flags & WOF_PAIRED) {
		f->pairing = PAIR_CONFIRMED;
		pair_enter(p, f, o->requester_qpn);
	}
	return true;
}

void far_on_open(struct proxy *p, struct lane *l, const struct wan_flow_open *o)
{
	bool full;
	struct far_flow *f;

	if (!open_fits(p, l, o)) {
		drop(p, DROP_WAN_BAD_FRAME);
		return;
	}
	f = far_flow_for(p, l, o->flow, o->inc, &full);
	if (full)
		far_open_refused(p, o->flow, o->inc);
	if (!f)
		return;
	if (!base_possible(f, o->pos_base)) {
		drop(p, DROP_WAN_BAD_FRAME);
		return;
	}
	f->mode = o->flags & WOF_HOST_MODE ? ACK_MODE_HOST : o->flags & WOF_FAR_MODE ? ACK_MODE_FAR : ACK_MODE_NEAR;
	f->was_near |= f->mode == ACK_MODE_NEAR;
	f->keeps_all |= (o->flags & WOF_FAR_MODE) != 0;
	if (!key_matches(p, f, &o->src, &o->dst, o->dest_qpn)) {
		drop(p, DROP_WAN_BAD_FRAME);
		return;
	}
	if (!far_is_open(f)) {
		if (!open_first(p, f, o))
			return;
	} else if (!f->base_fixed && o->pos_base < f->pos_base && f->pos_acked == f->pos_base && !f->nops) {
		far_begin_at(p, f, o->pos_base); /* something was overtaken at the start */
	}
	if (f->pairing == PAIR_LEARNING && f->pos_acked == f->pos_base && (o->flags & WOF_DOUBTED))
		f->doubted = f->resumed = true; /* as in open_first(), which may have been before a restart */
	if (o->cm_tag)
		f->cm_tag = o->cm_tag;
	if (o->pmtu && !f->pmtu)
		learn_pmtu(p, f, o->pmtu);
	if (f->pairing != PAIR_LEARNING && f->template_len && !(o->flags & WOF_PAIRED))
		f->pair_due = true;
	far_advance_rx(p, f);
	if (far_look_replaced(p, f, false))
		return;
	far_store(p, f);
	far_report(p, f, false);
	barrier_progress(p, f);
	far_schedule(p, f);
}

/* --- packets --- */

/* True if whole barrier entries, or none, follow the packet; entries only if the packet begins a message. *n: their
 * number. */
static bool entries_behind(const struct slot_hdr *h, const struct roce_pkt *pkt, uint32_t *n)
{
	uint32_t more = (uint32_t)h->len - pkt->len;

	*n = more / BARRIER_ENTRY_LEN;
	return more == 0 || (more % BARRIER_ENTRY_LEN == 0 && *n <= UINT8_MAX && barrier_may_wait(pkt));
}

/* All pieces are here: checks the packet and commits it; else drops it. */
static bool complete_request(struct proxy *p, struct far_flow *f, uint32_t slot, uint16_t vlan_tci)
{
	struct slot_hdr *h = arena_hdr(p->arena, slot);
	uint32_t waits;
	struct roce_pkt pkt;

	if (roce_parse(arena_data_of(p->arena, slot, h), h->len, &pkt) != DROP_NONE || !entries_behind(h, &pkt, &waits) ||
	    (pkt.class != ROCE_RC_REQUEST && pkt.class != ROCE_RC_UNKNOWN) || pkt.psn != pos_psn(h->pos) ||
	    !key_matches(p, f, &pkt.src, &pkt.dst, pkt.dest_qpn)) {
		slot_release(p, slot);
		drop(p, DROP_WAN_BAD_FRAME);
		return false;
	}
	slot_describe(h, &pkt, vlan_tci);
	h->waits = (uint8_t)waits;
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

static uint32_t slot_for_piece(struct proxy *p, struct lane *l, struct far_flow *f, const struct wan_packet *w)
{
	uint32_t slot = w->pos < f->pos_rx_max ? arena_find(p->arena, SLOT_REQ_FAR, f->idx, w->pos) : SLOT_NONE;
	bool next = !far_is_open(f) || w->pos == f->pos_rx;
	bool urgent = next && f->pos_rx - f->pos_acked < URGENT_BACKLOG && !FAULT(FAULT_NO_MINIMUM);

	if (slot != SLOT_NONE)
		return slot;
	far_evict_for(p);
	slot = slot_take(p, SLOT_REQ_FAR, f->idx, f->inc, w->pos, w->total, l->id, urgent);
	if (slot == SLOT_NONE && next && far_evict_own(p, f))
		slot = slot_take(p, SLOT_REQ_FAR, f->idx, f->inc, w->pos, w->total, l->id, true);
	return slot;
}

/* True for a position that the flow may have: within its span, and not further below its base than a near edge goes. */
static bool in_reach(const struct far_flow *f, uint64_t pos)
{
	if (pos >= POS_END)
		return false;
	if (far_is_open(f))
		return pos < f->pos_acked + FLOW_SPAN_MAX && (f->base_fixed || pos + BELOW_BASE_REACH >= f->pos_base);
	return f->pos_low == POS_NEVER || (pos + BELOW_BASE_REACH >= f->pos_low && pos < f->pos_low + FLOW_SPAN_MAX);
}

bool far_on_packet(struct proxy *p, struct lane *l, const struct wan_packet *w)
{
	bool full;
	struct far_flow *f = far_flow_for(p, l, w->flow, w->inc, &full);
	uint32_t slot;

	if (!f)
		return !full;
	if (f->lane != l->id || !in_reach(f, w->pos)) {
		drop(p, DROP_WAN_BAD_FRAME);
		return true;
	}
	/* A packet below the base is kept while the flow may still begin earlier: FLOW_OPEN will tell. */
	if (far_is_open(f) && w->pos < f->pos_rx && (f->base_fixed || w->pos >= f->pos_base) &&
	    !FAULT(FAULT_DELIVERED_AGAIN)) {
		drop(p, DROP_WAN_POSITION_OLD);
		return true;
	}
	if (far_is_replaced(f))
		far_look_replaced(p, f, true);
	if (far_has_failed(f)) {
		drop(p, DROP_WAN_FAILED);
		return true;
	}
	if (f->again_round && w->pos >= f->pos_credit) { /* sent before the near edge heard of the new again_round */
		drop(p, DROP_WAN_BEYOND_CREDIT);
		return true;
	}
	slot = slot_for_piece(p, l, f, w);
	if (slot == SLOT_NONE)
		return false;
	if (arena_hdr(p->arena, slot)->state == SLOT_COMMITTED || arena_hdr(p->arena, slot)->len != w->total) {
		drop(p, DROP_WAN_POSITION_OLD);
		return true;
	}
	f->pos_rx_max = max_u64(f->pos_rx_max, w->pos + 1);
	f->pos_low = min_u64(f->pos_low, w->pos);
	if (!wan_piece_take(p, slot, w) || !complete_request(p, f, slot, w->vlan_tci))
		return true;
	if (far_is_open(f) && w->pos == f->pos_rx) {
		far_advance_rx(p, f);
		far_schedule(p, f);
	}
	return true;
}
