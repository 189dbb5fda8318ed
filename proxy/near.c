/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A near flow is a responder that keeps its promises by proxy. Requests come in PSN order, are committed to the arena
 * and only then may be ACKed, and only up to the ceiling:
 *
 *     base ........ settled ........ [reported] ........ next ........ max
 *          freed            held                 expected     out of order
 *
 *     ceiling = min( mode near: next | mode host: reported, first unanswered READ/ATOMIC/unknown )
 *
 * "settled" follows what the far edge reports as delivered, but never passes an unanswered operation, so that a rebuild
 * finds the operation's request and knows what to wait for.
 *
 * A packet is one of four things:
 *   next      taken, with what was held behind it
 *   gap       held for a while (adaptive routing reorders), then NAKed once; then only the missing one helps
 *   again     its fingerprint (opcode, length, payload CRC) is the one seen at that position: ACKed again
 *   stranger  its fingerprint differs: the host reset its QP. A new incarnation begins; it is not sent on before the
 * old one's bytes are delivered, and not ACKed before the responder has answered in it.
 *
 * Until the responder has answered (or CM has told), the base is not known: the first packet seen may have been
 * overtaken, so lower PSNs extend the flow downwards, and nothing is ACKed.
 *
 * Ordering rule: descriptor, then free slot; commit, then ACK. */
#include "near.h"

#include "mouth.h"
#include "near_fp.h"
#include "wan_lane.h"

#define HELD_OOO_MAX       (4 * PATIENCE_PKTS) /* positions past a gap that may be held */
#define BASE_REACH         4096                /* how far below the first packet seen an overtaken one may lie */
#define FORSAKEN_NS        5000000000ull       /* longer than hosts wait between two repetitions */
#define FAILED_QUIET_NS    2000000000ull       /* a failed QP is silent so long before it can be used again */
#define OLD_DRAIN_STALL_NS 500000000ull        /* an old incarnation without progress for so long has failed */

/* What survives a restart. */
struct near_desc {
	uint32_t state; /* 1: in use */
	uint32_t inc;
	struct ip_addr src, dst;
	uint32_t dest_qpn, requester_qpn;
	uint64_t pos_base, pos_settled;
	uint32_t msn_settled, msn_offset;
	uint16_t lane, vlan_tci, pmtu;
	uint8_t pairing, base_fixed, msn_known, failed, rnr_retry, template_len;
	uint8_t template[TEMPLATE_MAX];
};
_Static_assert(sizeof(struct near_desc) <= ARENA_DESC_MAX, "near descriptor fits");

static uint32_t key_hash(const struct ip_addr *src, const struct ip_addr *dst, uint32_t qpn, uint16_t vlan)
{
	uint64_t a, b, c, d;

	memcpy(&a, src->b, 8);
	memcpy(&b, src->b + 8, 8);
	memcpy(&c, dst->b, 8);
	memcpy(&d, dst->b + 8, 8);
	return (uint32_t)hash_mix(a ^ hash_mix(b ^ hash_mix(c ^ hash_mix(d ^ ((uint64_t)vlan << 32 | qpn)))));
}

static uint32_t flow_hash(const struct near_flow *f)
{
	return key_hash(&f->src, &f->dst, f->dest_qpn, f->vlan_tci & 0xfff);
}

struct near_flow *near_find(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t dest_qpn,
                            uint16_t vlan_tci)
{
	uint16_t vid = vlan_tci & 0xfff;
	uint32_t h = key_hash(src, dst, dest_qpn, vid), i = h, idx;

	while ((idx = idx_hash_next(&p->near_by_key, h, &i)) != NONE) {
		struct near_flow *f = &p->near[idx];

		if (f->dest_qpn == dest_qpn && (f->vlan_tci & 0xfff) == vid && ip_addr_eq(&f->src, src) &&
		    ip_addr_eq(&f->dst, dst))
			return f;
	}
	return NULL;
}

struct near_flow *near_undelivered(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		struct near_flow *f = &p->near[i];

		if (f->used && f->pos_acked > f->pos_reported && ip_addr_eq(&f->src, src) && ip_addr_eq(&f->dst, dst))
			return f;
	}
	return NULL;
}

uint32_t near_wire_id(const struct proxy *p, const struct near_flow *f)
{
	return (uint32_t)p->cfg.shard << 24 | f->idx;
}

struct near_flow *near_by_id(struct proxy *p, uint32_t flow, uint32_t inc)
{
	uint32_t idx = flow & 0xffffff;
	struct near_flow *f;

	if (flow >> 24 != p->cfg.shard || idx >= p->cfg.max_flows || !p->near[idx].used) {
		drop(p, DROP_WAN_UNKNOWN_FLOW);
		return NULL;
	}
	f = &p->near[idx];
	if (f->inc != inc && !FAULT(FAULT_STALE_INCARNATION)) {
		drop(p, DROP_WAN_STALE_INCARNATION);
		return NULL;
	}
	return f;
}

/* --- descriptors --- */

void near_store(struct proxy *p, const struct near_flow *f)
{
	struct near_desc d = {
	    .state = f->used,
	    .inc = f->inc,
	    .src = f->src,
	    .dst = f->dst,
	    .dest_qpn = f->dest_qpn,
	    .requester_qpn = f->requester_qpn,
	    .pos_base = f->pos_base,
	    .pos_settled = f->pos_settled,
	    .msn_settled = f->msn_settled,
	    .msn_offset = f->msn_offset,
	    .lane = f->lane,
	    .vlan_tci = f->vlan_tci,
	    .pmtu = f->pmtu,
	    .pairing = (uint8_t)f->pairing,
	    .base_fixed = f->base_fixed,
	    .msn_known = f->msn_known,
	    .failed = f->failed,
	    .rnr_retry = f->rnr_retry,
	    .template_len = f->template_len,
	};

	memcpy(d.template, f->template, f->template_len);
	arena_desc_store(p->arena, DESC_NEAR, f->idx, &d, offsetof(struct near_desc, template) + f->template_len);
}

/* --- opening and closing --- */

static uint32_t take_index(struct proxy *p)
{
	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		uint32_t idx = p->near_free_hint++ % p->cfg.max_flows;

		if (!p->near[idx].used)
			return idx;
	}
	return NONE;
}

static void flow_init(struct proxy *p, struct near_flow *f, uint32_t idx)
{
	memset(f, 0, sizeof(*f));
	f->used = true;
	f->idx = idx;
	f->mode = p->cfg.mode;
	f->rnr_retry = p->cfg.rnr_retry_infinite ? 7 : 0;
	dlist_init(&f->ops);
	dlist_init(&f->held);
	timer_init(&f->patience, TK_PATIENCE, idx);
	timer_init(&f->retire, TK_RETIRE, idx);
	timer_init(&f->held_timer, TK_HELD, idx);
	timer_init(&f->drain, TK_DRAIN, idx);
}

static void set_base(struct near_flow *f, uint64_t pos)
{
	f->pos_base = f->pos_next = f->pos_acked = f->pos_reported = f->pos_settled = f->pos_wan = pos;
	f->msn_next = f->msn_settled = f->msn_acked = 0;
	if (f->pos_max < pos)
		f->pos_max = pos;
}

/* An idle flow that may be forgotten to make room: unpaired ones first, never a paired one for an unpaired one. */
static struct near_flow *find_victim(struct proxy *p)
{
	struct near_flow *victim = NULL;

	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		struct near_flow *f = &p->near[i];

		if (!f->used || f->pos_settled != f->pos_next || f->older || f->newer || f->ooo_pkts)
			continue;
		if (p->now_ns < f->last_rx_ns + 1000000000ull)
			continue;
		if (!victim || f->last_rx_ns < victim->last_rx_ns)
			victim = f;
	}
	return victim;
}

static struct near_flow *flow_take(struct proxy *p, uint16_t lane)
{
	uint32_t idx = take_index(p);
	struct near_flow *f;

	if (idx == NONE) {
		struct near_flow *victim = find_victim(p);

		if (!victim)
			return NULL;
		near_close(p, victim);
		idx = victim->idx;
	}
	f = &p->near[idx];
	flow_init(p, f, idx);
	timer_set(&p->timers, &f->retire, p->now_ns + FORSAKEN_NS);
	f->inc = ++p->near_inc[idx];
	near_fp_reset(p, f);
	f->lane = lane;
	f->last_rx_ns = p->now_ns;
	p->near_used++;
	count(p, CTR_FLOWS_OPENED, 1);
	return f;
}

static struct near_flow *near_open(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	struct near_flow *f = flow_take(p, proxy_lane(&pkt->src, &pkt->dst, p->cfg.nlanes));

	if (!f)
		return NULL;
	f->src = pkt->src;
	f->dst = pkt->dst;
	f->dest_qpn = pkt->dest_qpn;
	f->vlan_tci = vlan_tci;
	set_base(f, POS_ORIGIN + pkt->psn);
	f->pos_last_rx = f->pos_base;
	f->open_due = true;
	idx_hash_put(&p->near_by_key, flow_hash(f), f->idx);
	near_store(p, f);
	proxy_event_push(p, EV_FLOW_OPENED, f, NULL, f->pos_base, 0);
	return f;
}

static void free_slots(struct proxy *p, struct near_flow *f)
{
	uint64_t end = min_u64(f->pos_max, f->pos_next + HELD_OOO_MAX + 1);

	near_ops_retire(p, f, true);
	for (uint64_t pos = f->pos_settled; pos < end && f->held_bytes; pos++) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, pos);

		if (slot != SLOT_NONE)
			slot_release(p, slot);
	}
	while (!dlist_empty(&f->held))
		slot_release(p, slot_of_meta(p, dlist_entry(dlist_first(&f->held), struct slot_meta, node)));
}

void near_close(struct proxy *p, struct near_flow *f)
{
	struct near_flow *newer = f->newer;

	proxy_event_push(p, EV_FLOW_CLOSED, f, NULL, f->pos_settled, f->pos_next - f->pos_settled);
	count(p, CTR_FLOWS_CLOSED, 1);
	if (f->newer)
		f->newer->older = NULL;
	else
		idx_hash_del(&p->near_by_key, flow_hash(f), f->idx);
	if (f->older)
		f->older->newer = NULL;
	wan_lane_queue_close(p, lane_of(p, f->lane), near_wire_id(p, f), f->inc);
	free_slots(p, f);
	dlist_remove(&f->mouth_node);
	dlist_remove(&f->resp_node);
	dlist_remove(&f->wan_node);
	timer_cancel(&p->timers, &f->patience);
	timer_cancel(&p->timers, &f->retire);
	timer_cancel(&p->timers, &f->held_timer);
	timer_cancel(&p->timers, &f->drain);
	f->used = false;
	near_store(p, f);
	p->near_used--;
	if (newer)
		near_wan_kick(p, newer);
}

/* The host reset its QP: the flow that is there drains, a new one takes its place for what comes now. */
static struct near_flow *succeed(struct proxy *p, struct near_flow *old, uint32_t psn, uint16_t vlan_tci)
{
	struct ip_addr src = old->src, dst = old->dst;
	uint32_t qpn = old->dest_qpn;
	struct near_flow *f, *drains = old;

	if (old->older) {
		drains = old->older;
		near_close(p, old);
	}
	f = flow_take(p, drains->lane); /* may have to forget the drained one: then it is not used, or is f itself */
	if (!f)
		return NULL;
	count(p, CTR_INCARNATIONS, 1);
	f->src = src;
	f->dst = dst;
	f->dest_qpn = qpn;
	f->vlan_tci = vlan_tci;
	set_base(f, POS_ORIGIN + psn);
	f->open_due = true;
	if (drains->used && drains != f) {
		if (!drains->newer)
			idx_hash_del(&p->near_by_key, flow_hash(drains), drains->idx);
		drains->newer = f;
		f->older = drains;
		dlist_remove(&drains->mouth_node);
		drains->last_progress_ns = p->now_ns;
		timer_set(&p->timers, &drains->drain, p->now_ns + OLD_DRAIN_STALL_NS);
	}
	idx_hash_put(&p->near_by_key, flow_hash(f), f->idx);
	near_store(p, f);
	proxy_event_push(p, EV_FLOW_RESET, f, NULL, f->pos_base, 0);
	if (f->older && drains->pos_settled == drains->pos_next)
		near_close(p, drains);
	return f;
}

/* --- the ceiling --- */

static bool acks_early(const struct proxy *p, const struct near_flow *f)
{
	return f->mode == ACK_MODE_NEAR && !f->stalled && !p->mismatch;
}

uint64_t near_ceiling(const struct proxy *p, const struct near_flow *f)
{
	uint64_t pos = acks_early(p, f) ? f->pos_next : min_u64(f->pos_reported, f->pos_next);
	const struct rd_op *op = near_op_open(f);

	if (f->pairing == PAIR_LEARNING || !f->msn_known)
		return f->pos_acked;
	if (f->failed)
		return f->fail_pos;
	if (op && op->pos < pos)
		pos = op->pos;
	return max_u64(pos, f->pos_acked);
}

uint32_t near_msn_at(const struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	const struct rd_op *op = near_op_open(f);
	uint32_t slot;

	if (f->failed)
		return f->fail_msn;
	if (pos == f->pos_next)
		return f->msn_next;
	if (pos == f->pos_settled)
		return f->msn_settled;
	if (pos == f->pos_acked)
		return f->msn_acked;
	if (op && pos == op->pos)
		return op->msn - 1;
	slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, pos - 1);
	return slot == SLOT_NONE ? f->msn_acked : arena_hdr(p->arena, slot)->msn;
}

void near_acked(struct proxy *p, struct near_flow *f, uint64_t pos)
{
	if (pos <= f->pos_acked)
		return;
	f->msn_acked = near_msn_at(p, f, pos);
	f->pos_acked = pos;
}

void near_speak(struct proxy *p, struct near_flow *f, enum near_due due)
{
	if (f->pairing == PAIR_LEARNING || f->newer)
		return;
	if (due > f->due)
		f->due = due;
	dlist_append_once(&p->mouth, &f->mouth_node);
}

/* --- requests from the host --- */

static bool admit(const struct proxy *p, const struct near_flow *f, uint16_t len)
{
	uint64_t free_bytes = pool_free(p, POOL_LAN);
	uint64_t share = max_u64(3 * free_bytes, CREDIT_MIN_BYTES);

	if (f->pos_next - f->pos_settled >= FLOW_SPAN_MAX - LAN_PKT_MAX)
		return false;
	return f->held_bytes + arena_class_bytes(len) <= share;
}

/* Commits the packet at pos. SLOT_NONE: no room. */
static uint32_t store(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt, uint64_t pos,
                      uint32_t psns, uint32_t fp, uint16_t vlan_tci)
{
	bool urgent = pos == f->pos_next && f->held_bytes < CREDIT_MIN_BYTES;
	uint32_t slot = slot_take(p, SLOT_REQ_NEAR, f->idx, f->inc, pos, pkt->len, f->lane, urgent);
	struct slot_hdr *h;

	if (slot == SLOT_NONE)
		return SLOT_NONE;
	memcpy(arena_data(p->arena, slot), l3, pkt->len);
	roce_dec_ttl(arena_data(p->arena, slot), pkt);
	slot_describe(p, slot, pkt, vlan_tci);
	h = arena_hdr(p->arena, slot);
	h->psns = psns;
	h->fp = fp;
	h->msn = f->msn_next + ((h->flags & (SF_MSG_END | SF_OWN_RESPONSE)) != 0);
	arena_commit(p->arena, slot);
	f->pos_max = max_u64(f->pos_max, pos + psns);
	return slot;
}

static void learn_pmtu_from_request(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt)
{
	uint16_t fl = roce_op(pkt->opcode)->flags;

	if (f->pmtu == 0 && (fl & ROP_PAYLOAD) && !(fl & ROP_END) && pkt->payload_len >= 256)
		near_learn_pmtu(p, f, pkt->payload_len);
}

/* The slot at pos_next is committed: it is in order now. */
static void take_in_order(struct proxy *p, struct near_flow *f, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);

	f->msn_next = h->msn;
	near_fp_note(p, f, h);
	if (h->flags & SF_ACK_REQ) {
		f->ack_asked = true;
		f->pos_ack_asked = f->pos_next + h->psns;
	}
	if (h->flags & SF_MSG_END)
		f->messages++;
	f->bytes += h->len;
	f->pos_next += h->psns;
}

void near_absorb_held(struct proxy *p, struct near_flow *f)
{
	while (f->ooo_pkts) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, f->pos_next);
		struct slot_hdr *h;

		if (slot == SLOT_NONE)
			break;
		h = arena_hdr(p->arena, slot);
		h->msn = f->msn_next + ((h->flags & (SF_MSG_END | SF_OWN_RESPONSE)) != 0);
		arena_amend(p->arena, slot);
		if (h->flags & SF_OWN_RESPONSE) { /* it was there before the flow's base moved below it */
			struct rd_op *op = near_op_at(f, f->pos_next);

			if (op)
				op->msn = h->msn;
		}
		f->ooo_pkts--;
		take_in_order(p, f, slot);
	}
	if (!f->ooo_pkts)
		timer_cancel(&p->timers, &f->patience);
	else
		timer_set(&p->timers, &f->patience, p->now_ns + p->cfg.reorder_ns);
}

static enum proxy_drop hold_off(struct proxy *p, struct near_flow *f)
{
	if (!f->held_off)
		proxy_event_push(p, EV_FLOW_HELD_OFF, f, NULL, f->pos_next, f->held_bytes);
	f->held_off = true;
	f->pos_max = max_u64(f->pos_max, f->pos_next + 1); /* the host did send it */
	near_speak(p, f, DUE_RNR);
	return drop(p, DROP_LAN_NO_ROOM);
}

/* PSNs that the packet owns; 1 for a READ whose PMTU is not known (psns_unknown is set then). */
static uint32_t psns_of(struct near_flow *f, const struct roce_pkt *pkt, bool *unknown)
{
	*unknown = false;
	if (pkt->opcode != RC_READ_REQUEST)
		return 1;
	if (f->pmtu)
		return roce_read_psns(pkt->reth_len, f->pmtu);
	*unknown = pkt->reth_len > 256;
	return 1;
}

static void speak_after_rx(struct proxy *p, struct near_flow *f, bool ack_req)
{
	if ((ack_req || f->pos_next - f->pos_acked >= ACK_EVERY_PKTS) && near_ceiling(p, f) > f->pos_acked)
		near_speak(p, f, DUE_ACK);
}

static enum proxy_drop rx_next(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                               uint16_t vlan_tci, uint32_t fp)
{
	bool own = pkt->class == ROCE_RC_UNKNOWN || (roce_op(pkt->opcode)->flags & ROP_OWN_RESPONSE);
	uint64_t pos = f->pos_next;
	bool unknown;
	uint32_t psns = psns_of(f, pkt, &unknown), slot;

	if (psns > FLOW_SPAN_MAX / 2)
		return drop(p, DROP_LAN_BAD_LENGTH);
	if (!admit(p, f, pkt->len))
		return hold_off(p, f);
	if (own && !near_op_begin(p, f, pkt, pos, psns, f->msn_next + 1, fp))
		return drop(p, DROP_LAN_READS_FULL);
	slot = store(p, f, l3, pkt, pos, psns, fp, vlan_tci);
	if (slot == SLOT_NONE) {
		if (own)
			rd_op_give(p, dlist_entry(f->ops.prev, struct rd_op, node)), f->nops--;
		return hold_off(p, f);
	}
	f->held_off = false;
	f->gap_naked = 0;
	f->psns_unknown = unknown;
	take_in_order(p, f, slot);
	learn_pmtu_from_request(p, f, pkt);
	near_absorb_held(p, f);
	if (FAULT(FAULT_DROP_SLOT) && !own && pos % 61 == 0 && f->pos_next > pos + 1)
		slot_release(p, slot);
	near_wan_kick(p, f);
	speak_after_rx(p, f, pkt->ack_req);
	return DROP_NONE;
}

static void nak_gap(struct proxy *p, struct near_flow *f)
{
	timer_cancel(&p->timers, &f->patience);
	if (f->pairing == PAIR_LEARNING || f->held_off || f->psns_unknown)
		return; /* psns_unknown: it may be no gap, the READ in front of it owns the place */
	f->gap_naked = f->pos_next;
	near_speak(p, f, DUE_NAK);
}

static enum proxy_drop rx_gap(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                              uint64_t pos, uint16_t vlan_tci, uint32_t fp)
{
	bool new_round = pos < f->pos_last_rx;

	f->pos_last_rx = pos;
	f->pos_max = max_u64(f->pos_max, pos + 1);
	if (f->held_off)
		return drop(p, DROP_LAN_NO_ROOM);
	if (f->gap_naked == f->pos_next) {
		if (new_round) /* the host went back and the missing one was lost again */
			near_speak(p, f, DUE_NAK);
		return drop(p, DROP_LAN_GAP);
	}
	if (arena_find(p->arena, SLOT_REQ_NEAR, f->idx, pos) != SLOT_NONE)
		return drop(p, DROP_LAN_DUPLICATE);
	/* What owns several PSNs or opens an operation waits for its turn: the host sends it again. */
	if (pos - f->pos_next < HELD_OOO_MAX && pkt->class == ROCE_RC_REQUEST &&
	    !(roce_op(pkt->opcode)->flags & ROP_OWN_RESPONSE) && admit(p, f, pkt->len) &&
	    store(p, f, l3, pkt, pos, 1, fp, vlan_tci) != SLOT_NONE)
		f->ooo_pkts++;
	if (f->ooo_pkts >= PATIENCE_PKTS || pos - f->pos_next >= HELD_OOO_MAX)
		nak_gap(p, f);
	else if (!timer_armed(&f->patience))
		timer_set(&p->timers, &f->patience, p->now_ns + p->cfg.reorder_ns);
	return DROP_NONE;
}

/* Below the base of a flow whose base is not known yet. */
static enum proxy_drop rx_below(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                                uint64_t pos, uint16_t vlan_tci, uint32_t fp)
{
	bool had = f->pos_max > f->pos_base;

	if (had)
		f->ooo_pkts += (uint32_t)(f->pos_next - f->pos_base); /* all single PSNs: see below */
	set_base(f, pos);
	near_fp_reset(p, f);
	f->pos_last_rx = pos;
	f->open_due = true;
	near_store(p, f);
	return rx_next(p, f, l3, pkt, vlan_tci, fp);
}

static bool may_extend_down(const struct near_flow *f, uint64_t pos)
{
	return !f->base_fixed && f->pos_acked == f->pos_base && f->pos_reported == f->pos_base && !f->nops &&
	       pos < f->pos_base && f->pos_base - pos < BASE_REACH && f->pos_next - f->pos_base < BASE_REACH;
}

/* How often the host has come back to what it must wait for. Its first repetitions are met with silence, as the answer
 * is on its way; being sent away then would only make it sleep past the answer. */
static bool tired_of_waiting(const struct proxy *p, struct near_flow *f, uint64_t ceiling)
{
	if (f->waits_at != ceiling) {
		f->waits_at = ceiling;
		f->waits = 0;
	}
	if (f->waits < UINT8_MAX)
		f->waits++;
	return f->waits >= 3 || !p->wan_up;
}

/* The host repeats what is here already. What was ACKed is ACKed again; what must not be ACKed yet is no reason for
 * long silence, which burns the host's retries: it is sent away for a while. */
static void answer_again(struct proxy *p, struct near_flow *f, uint64_t pos, bool ack_req)
{
	bool new_round = pos <= f->pos_last_rx;
	uint64_t ceiling = near_ceiling(p, f);

	if (pos >= ceiling) {
		if (new_round && tired_of_waiting(p, f, ceiling) && f->rnr_retry == 7)
			near_speak(p, f, DUE_RNR);
	} else if (ack_req || new_round) {
		near_speak(p, f, DUE_ACK);
	}
}

static bool starts_message(const struct roce_pkt *pkt)
{
	return pkt->class == ROCE_RC_UNKNOWN || (roce_op(pkt->opcode)->flags & (ROP_START | ROP_OWN_RESPONSE));
}

static enum proxy_drop rx_again(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                                uint64_t pos, uint16_t vlan_tci, uint32_t fp)
{
	if (may_extend_down(f, pos))
		return rx_below(p, f, l3, pkt, pos, vlan_tci, fp);
	if ((roce_op(pkt->opcode)->flags & ROP_OWN_RESPONSE) && near_op_again(p, f, pkt, pos, fp))
		return drop(p, DROP_LAN_READ_RETRY);
	switch (near_fp_check(p, f, pos, fp, starts_message(pkt))) {
	case FP_SAME:
		answer_again(p, f, pos, pkt->ack_req);
		f->pos_last_rx = pos;
		return drop(p, DROP_LAN_DUPLICATE);
	case FP_STALE:
		return drop(p, DROP_LAN_DUPLICATE);
	case FP_STRANGE:
		break;
	}
	f = succeed(p, f, pkt->psn, vlan_tci);
	if (!f)
		return drop(p, DROP_LAN_FLOW_TABLE_FULL);
	return rx_next(p, f, l3, pkt, vlan_tci, fp);
}

/* Nothing more is taken from a QP that failed; but a stranger after a while is a new life of it. */
static enum proxy_drop refuse_failed(struct proxy *p, struct near_flow *f, uint32_t psn)
{
	f->pos_max = max_u64(f->pos_max, pos_near(f->pos_next, psn) + 1);
	if (f->nak_syndrome)
		near_speak(p, f, DUE_NAK);
	return drop(p, DROP_LAN_FAILED);
}

static bool reborn(const struct proxy *p, const struct near_flow *f, const struct roce_pkt *pkt)
{
	uint64_t pos = pos_near(f->pos_next, pkt->psn);

	return p->now_ns > f->last_rx_ns + FAILED_QUIET_NS || pos > f->pos_max + HELD_OOO_MAX ||
	       pos + BASE_REACH < f->pos_next;
}

enum proxy_drop near_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci,
                        uint32_t payload_crc)
{
	struct near_flow *f = near_find(p, &pkt->src, &pkt->dst, pkt->dest_qpn, vlan_tci);
	uint32_t fp = near_fp_of(l3, pkt, payload_crc);
	uint64_t pos;

	if (!f)
		f = near_open(p, pkt, vlan_tci);
	if (!f) {
		proxy_event_push(p, EV_TABLE_FULL, NULL, NULL, 0, p->near_used);
		return drop(p, DROP_LAN_FLOW_TABLE_FULL);
	}
	if (f->failed && reborn(p, f, pkt))
		f = succeed(p, f, pkt->psn, vlan_tci);
	if (!f)
		return drop(p, DROP_LAN_FLOW_TABLE_FULL);
	f->last_rx_ns = p->now_ns;
	if (f->failed)
		return refuse_failed(p, f, pkt->psn);
	pos = pos_near(f->pos_next, pkt->psn);
	if (pos > f->pos_next + FLOW_SPAN_MAX || pos + FLOW_SPAN_MAX < f->pos_next)
		return drop(p, DROP_LAN_WINDOW);
	if (pos == f->pos_next) {
		f->pos_last_rx = pos;
		return rx_next(p, f, l3, pkt, vlan_tci, fp);
	}
	if (pos > f->pos_next)
		return rx_gap(p, f, l3, pkt, pos, vlan_tci, fp);
	return rx_again(p, f, l3, pkt, pos, vlan_tci, fp);
}

void near_cm_open(struct proxy *p, const struct near_cm_info *ci)
{
	struct near_flow *f = near_find(p, &ci->src, &ci->dst, ci->dest_qpn, ci->vlan_tci);

	if (f && f->pos_next == f->pos_base && f->requester_qpn == ci->requester_qpn && f->base_fixed)
		return;
	if (f) {
		f = succeed(p, f, ci->start_psn, ci->vlan_tci);
	} else {
		f = flow_take(p, proxy_lane(&ci->src, &ci->dst, p->cfg.nlanes));
		if (f) {
			f->src = ci->src;
			f->dst = ci->dst;
			f->dest_qpn = ci->dest_qpn;
			f->vlan_tci = ci->vlan_tci;
			set_base(f, POS_ORIGIN + ci->start_psn);
			f->open_due = true;
			idx_hash_put(&p->near_by_key, flow_hash(f), f->idx);
		}
	}
	if (!f)
		return;
	f->requester_qpn = ci->requester_qpn;
	f->pmtu = ci->pmtu;
	f->rnr_retry = ci->rnr_retry;
	f->base_fixed = f->msn_known = true;
	f->pairing = PAIR_CONFIRMED;
	f->template_len = (uint8_t)mouth_template_from_cm(f->template, ci);
	near_store(p, f);
	count(p, CTR_PAIRED_CM, 1);
	proxy_event_push(p, EV_FLOW_PAIRED, f, NULL, f->pos_base, 0);
}

/* --- reports from the far edge --- */

static void release_held(struct proxy *p, struct near_flow *f, bool waived)
{
	if (dlist_empty(&f->held))
		return;
	timer_cancel(&p->timers, &f->held_timer);
	while (!dlist_empty(&f->held)) {
		struct slot_meta *m = dlist_entry(dlist_first(&f->held), struct slot_meta, node);

		dlist_remove(&m->node);
		if (waived)
			count(p, CTR_HELD_WAIVED, 1);
		wan_lane_queue_first(p, lane_of(p, f->lane), slot_of_meta(p, m));
	}
}

void near_settle(struct proxy *p, struct near_flow *f)
{
	const struct rd_op *op = near_op_open(f);
	uint64_t target = min_u64(f->pos_reported, f->pos_next), pos = f->pos_settled;
	uint32_t msn = f->msn_settled;

	if (!f->msn_known)
		return;
	if (op && op->pos < target)
		target = op->pos;
	if (target <= f->pos_settled)
		return;
	while (pos < target) { /* first what the descriptor must say ... */
		uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, pos);

		if (slot == SLOT_NONE) {
			pos++;
			continue;
		}
		msn = arena_hdr(p->arena, slot)->msn;
		pos += arena_hdr(p->arena, slot)->psns;
	}
	pos = f->pos_settled;
	f->pos_settled = target;
	f->msn_settled = msn;
	near_store(p, f);
	while (pos < target) { /* ... then free */
		uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, pos), psns = 1;

		if (slot != SLOT_NONE) {
			psns = arena_hdr(p->arena, slot)->psns;
			slot_release(p, slot);
		}
		pos += psns;
	}
	f->last_progress_ns = p->now_ns;
	f->pos_wan = max_u64(f->pos_wan, f->pos_settled);
}

/* What follows from progress at the responder. */
static void after_progress(struct proxy *p, struct near_flow *f)
{
	if (near_op_open(f)) /* it may be answered by an ACK, or its response have waited for the pair */
		dlist_append_once(&p->resp_list, &f->resp_node);
	near_settle(p, f);
	if (f->pos_reported >= f->held_until_pos)
		release_held(p, f, false);
	if (f->newer && f->pos_settled == f->pos_next) {
		near_close(p, f);
		return;
	}
	if (near_ceiling(p, f) > f->pos_acked && (!acks_early(p, f) || f->ack_asked))
		near_speak(p, f, DUE_ACK);
	if (lane_of(p, f->lane)->node.next == NULL)
		wan_lane_kick(p, lane_of(p, f->lane));
}

/* The responder refused, or has not answered for very long (syndrome 0): what is held can reach nobody any more. With a
 * syndrome the host is told; without one it meets silence, as it would from a dead responder. */
static void far_failed(struct proxy *p, struct near_flow *f, const struct wan_flow_report *r)
{
	if (f->failed)
		return;
	f->failed = true;
	f->nak_syndrome = r->syndrome;
	if (f->pos_acked > f->pos_settled) {
		count(p, CTR_BYTES_FAILED, f->held_bytes);
		proxy_event_push(p, EV_FLOW_FAILED, f, NULL, r->nak_pos, f->held_bytes);
	}
	f->pos_reported = max_u64(f->pos_reported, min_u64(r->delivered, f->pos_next));
	near_settle(p, f);
	f->fail_pos = max_u64(min_u64(r->nak_pos, f->pos_next), f->pos_acked);
	f->fail_msn = f->pos_acked >= f->pos_settled ? f->msn_acked : f->msn_settled;
	free_slots(p, f);
	f->ooo_pkts = 0;
	f->pos_settled = f->pos_wan = f->pos_next;
	f->msn_settled = f->msn_next;
	near_store(p, f);
	if (f->nak_syndrome)
		near_speak(p, f, DUE_NAK);
}

void near_on_report(struct proxy *p, const struct wan_flow_report *r)
{
	struct near_flow *f = near_by_id(p, r->flow, r->inc);
	uint64_t delivered;

	if (!f)
		return;
	delivered = min_u64(r->delivered, f->pos_next);
	if (delivered > f->pos_reported)
		f->pos_reported = delivered;
	if (!f->credit_known || r->credit > f->pos_credit)
		f->pos_credit = r->credit;
	f->credit_known = true;
	if (!f->stalled)
		f->stalled_ns = p->now_ns;
	f->stalled = r->state == WFS_STALLED || r->state == WFS_FAILED;
	if (r->state == WFS_FAILED)
		far_failed(p, f, r);
	near_wan_kick(p, f);
	after_progress(p, f);
}

void near_on_pair(struct proxy *p, const struct wan_flow_pair *r)
{
	struct near_flow *f = near_by_id(p, r->flow, r->inc);

	if (!f || f->pairing == PAIR_CONFIRMED)
		return;
	if (f->pairing == PAIR_LEARNING) {
		if (r->pos_base < f->pos_base && f->pos_base - r->pos_base < BASE_REACH) {
			/* The responder waits for something that we never saw: tell the host. */
			f->ooo_pkts += (uint32_t)(f->pos_next - f->pos_base);
			set_base(f, r->pos_base);
			near_fp_reset(p, f);
			f->open_due = true;
			near_speak(p, f, DUE_NAK);
		}
		if (r->at_pos > f->pos_max || r->at_pos < f->pos_base)
			return;
		f->requester_qpn = r->requester_qpn;
		memcpy(f->template, r->template, r->template_len);
		f->template_len = (uint8_t)r->template_len;
		f->base_fixed = true;
		f->msn_known = true;
		f->pairing = PAIR_PROVISIONAL;
		near_store(p, f);
		f->msn_offset = (r->msn - near_msn_at(p, f, r->at_pos)) & ROCE_PSN_MASK;
		count(p, CTR_PAIRED_PROBE, 1);
		proxy_event_push(p, EV_FLOW_PAIRED, f, NULL, r->at_pos, 0);
	}
	if (r->confirmed)
		f->pairing = PAIR_CONFIRMED;
	near_store(p, f);
	if (f->gap_naked == 0 && f->pos_max > f->pos_next)
		nak_gap(p, f);
	f->ack_asked = true;
	after_progress(p, f);
}

/* --- to the far edge --- */

void near_wan_kick(struct proxy *p, struct near_flow *f)
{
	struct lane *l = lane_of(p, f->lane);

	if (f->older || !p->session_on)
		return;
	if (f->pos_wan < f->pos_next || (f->open_due && f->open_sent)) {
		dlist_append_once(&l->near_list, &f->wan_node);
		wan_lane_kick(p, l);
	}
}

static uint64_t credit_of(const struct proxy *p, const struct near_flow *f)
{
	uint32_t slot_bytes = arena_class_bytes((uint16_t)((f->pmtu ? f->pmtu : LAN_MTU_PAYLOAD_MAX) + 84));
	uint64_t initial = p->lanes[f->lane].flow_initial_bytes;

	if (f->credit_known)
		return f->pos_credit;
	return f->pos_settled + max_u64(initial / slot_bytes, 4);
}

bool near_wan_next(struct proxy *p, struct near_flow *f, uint32_t *slot)
{
	struct lane *l = lane_of(p, f->lane);

	while (f->pos_wan < f->pos_next) {
		const struct slot_hdr *h;

		*slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, f->pos_wan);
		if (*slot == SLOT_NONE) {
			f->pos_wan++;
			continue;
		}
		h = arena_hdr(p->arena, *slot);
		return f->pos_wan < credit_of(p, f) && l->out_bytes + arena_class_bytes(h->len) <= l->window_bytes;
	}
	return false;
}

void near_wan_sent(struct near_flow *f, const struct slot_hdr *h)
{
	f->pos_wan += h->psns;
}

void near_open_frame(const struct proxy *p, const struct near_flow *f, struct wan_flow_open *o)
{
	*o = (struct wan_flow_open){
	    .flow = near_wire_id(p, f),
	    .inc = f->inc,
	    .pos_base = f->pos_settled,
	    .dest_qpn = f->dest_qpn,
	    .requester_qpn = f->requester_qpn,
	    .vlan_tci = f->vlan_tci,
	    .pmtu = f->pmtu,
	    .src = f->src,
	    .dst = f->dst,
	};
	if (f->base_fixed)
		o->flags |= WOF_BASE_FIXED;
	if (f->pairing != PAIR_LEARNING)
		o->flags |= WOF_PAIRED;
	if (!acks_early(p, f))
		o->flags |= WOF_HOST_MODE;
}

void near_session_start(struct proxy *p, struct near_flow *f)
{
	f->pos_wan = f->pos_settled;
	f->credit_known = false;
	f->open_due = true;
	f->open_sent = false;
	f->stalled = false;
	near_wan_kick(p, f);
}

/* --- timers --- */

static void drain_check(struct proxy *p, struct near_flow *f)
{
	if (p->now_ns < f->last_progress_ns + OLD_DRAIN_STALL_NS) {
		timer_set(&p->timers, &f->drain, f->last_progress_ns + OLD_DRAIN_STALL_NS);
		return;
	}
	if (f->pos_acked > f->pos_settled) {
		count(p, CTR_BYTES_FAILED, f->held_bytes);
		proxy_event_push(p, EV_FLOW_FAILED, f, NULL, f->pos_settled, f->held_bytes);
	}
	near_close(p, f);
}

/* A flow that never got an answer and whose host has given up. Nothing of it was ACKed: it may go. */
static bool forsaken(struct proxy *p, struct near_flow *f)
{
	if (p->now_ns < f->last_rx_ns + FORSAKEN_NS) {
		timer_set(&p->timers, &f->retire, f->last_rx_ns + FORSAKEN_NS);
		return false;
	}
	near_close(p, f);
	return true;
}

void near_on_timer(struct proxy *p, struct near_flow *f, enum timer_kind kind)
{
	switch (kind) {
	case TK_PATIENCE:
		if (f->ooo_pkts && f->gap_naked != f->pos_next)
			nak_gap(p, f);
		break;
	case TK_RETIRE:
		if (f->pairing == PAIR_LEARNING && forsaken(p, f))
			break;
		near_ops_retire(p, f, false);
		break;
	case TK_HELD:
		release_held(p, f, true);
		break;
	case TK_DRAIN:
		drain_check(p, f);
		break;
	default:
		break;
	}
}

/* --- rebuild --- */

static void rebuild_flow(struct proxy *p, uint32_t idx, const struct near_desc *d)
{
	struct near_flow *f = &p->near[idx];

	flow_init(p, f, idx);
	f->inc = d->inc;
	f->lane = d->lane;
	f->vlan_tci = d->vlan_tci;
	f->src = d->src;
	f->dst = d->dst;
	f->dest_qpn = d->dest_qpn;
	f->requester_qpn = d->requester_qpn;
	f->pairing = d->pairing;
	f->pmtu = d->pmtu;
	f->base_fixed = d->base_fixed;
	f->msn_known = d->msn_known;
	f->failed = d->failed;
	f->rnr_retry = d->rnr_retry;
	set_base(f, d->pos_settled);
	f->pos_base = d->pos_base;
	f->msn_settled = f->msn_next = f->msn_acked = d->msn_settled;
	f->msn_offset = d->msn_offset;
	f->template_len = d->template_len;
	memcpy(f->template, d->template, d->template_len);
	f->last_rx_ns = p->now_ns;
	p->near_used++;
}

void near_rebuild(struct proxy *p)
{
	for (uint32_t idx = 0; idx < p->cfg.max_flows; idx++) {
		struct near_desc d;

		if (!arena_desc_load(p->arena, DESC_NEAR, idx, &d, sizeof(d)))
			continue;
		p->near_inc[idx] = d.inc;
		if (d.state == 1 && d.lane < p->cfg.nlanes && d.template_len <= TEMPLATE_MAX)
			rebuild_flow(p, idx, &d);
	}
}

/* Two lives of one key: the one with the lower index is older only by its incarnation order; the descriptor of the
 * later one was stored last, but only positions count: the paired one that is not drained came first. */
static void link_lives(struct proxy *p, struct near_flow *f)
{
	struct near_flow *other = near_find(p, &f->src, &f->dst, f->dest_qpn, f->vlan_tci);

	if (!other) {
		idx_hash_put(&p->near_by_key, flow_hash(f), f->idx);
		return;
	}
	if (other->pairing == PAIR_LEARNING && f->pairing != PAIR_LEARNING) {
		f->newer = other;
		other->older = f;
		timer_set(&p->timers, &f->drain, p->now_ns + OLD_DRAIN_STALL_NS);
		return;
	}
	idx_hash_del(&p->near_by_key, flow_hash(other), other->idx);
	idx_hash_put(&p->near_by_key, flow_hash(f), f->idx);
	other->newer = f;
	f->older = other;
	timer_set(&p->timers, &other->drain, p->now_ns + OLD_DRAIN_STALL_NS);
}

static void rebuild_run(struct proxy *p, struct near_flow *f)
{
	uint32_t slot;

	near_fp_recover(p, f);
	while ((slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, f->pos_next)) != SLOT_NONE) {
		const struct slot_hdr *h = arena_hdr(p->arena, slot);

		if (h->flags & SF_OWN_RESPONSE) {
			struct roce_pkt pkt;

			if (roce_parse(arena_data(p->arena, slot), h->len, &pkt) != DROP_NONE ||
			    !near_op_begin(p, f, &pkt, f->pos_next, h->psns, f->msn_next + 1, h->fp))
				break;
			f->psns_unknown = pkt.opcode == RC_READ_REQUEST && !f->pmtu && pkt.reth_len > 256;
		}
		take_in_order(p, f, slot);
		f->ooo_pkts--;
	}
	f->pos_max = f->pos_next + (f->ooo_pkts ? HELD_OOO_MAX : 0);
	f->pos_last_rx = f->pos_next;
	if (f->pairing != PAIR_LEARNING && near_ceiling(p, f) > f->pos_acked)
		near_acked(p, f,
		           near_ceiling(p, f)); /* it may have been ACKed: a repeated packet is ACKed up to here */
}

void near_rebuild_finish(struct proxy *p)
{
	for (uint32_t idx = 0; idx < p->cfg.max_flows; idx++) {
		struct near_flow *f = &p->near[idx];

		if (!f->used)
			continue;
		rebuild_run(p, f);
		link_lives(p, f);
		if (f->resp_pos)
			dlist_append_once(&p->resp_list, &f->resp_node);
	}
}
