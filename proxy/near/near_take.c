/* SPDX-License-Identifier: Apache-2.0 */
/* near_take.c - takes a request in order: admission, commit, and the steps that follow.
 *
 * Theory of operation
 *
 * A request is taken in three steps. near_admit() checks that the flow may hold one more packet. near_commit() copies
 * the packet into a slot and commits the slot. near_in_order() counts the request as in order, once everything before
 * the request is here. So the slot is committed before the request can be ACKed.
 *
 * A host whose flow comes near the limit of what it may hold gets CNPs. A host for which there is no room gets RNR NAKs
 * (ack_tx.c). Such a host never gets sequence NAKs, and silence only when its RNR retries are finite and used up,
 * because both use up its retries. The packet that a flow needs next is taken as long as packets of the same flow
 * beyond a gap can be given up for it. */
#include "near_priv.h"

#include "proxy/carry/barrier.h"
#include "ack_tx.h"
#include "near_fp.h"
#include "proxy/util/probe.h"
#include "proxy/wan/share.h"

#define ADMIT_WORK      2 /* near_admit() counts for so much work */
#define SLOW_EVERY_PKTS 8 /* slow_down() looks once in so many packets */
#define CNP_LASTS_NS    20000000ull
#define ACK_SLOW_NS     500000ull /* ConnectX may repeat after 2 ms */
#define SLOW_LOOK_NS    300000ull /* least time between two looks: a NIC recovers by half (DCQCN) */

/* True if that many bytes more are within n eighths of what the flow may hold. The first test suffices for most
 * flows. */
static bool within_share(const struct proxy *p, const struct near_flow *f, uint64_t bytes, unsigned n)
{
	uint64_t held = near_held(f), unsent = near_unsent(f);
	enum share_depth depth = f->responder_behind ? SHARE_PLAIN : SHARE_REPAIRS;

	if (held + bytes <= share_open_part(p, POOL_LAN, held) / 8 * n)
		return true;
	if (held + bytes <= share_limit(p, &f->share, POOL_LAN, held, SHARE_BACKLOG) / 8 * n)
		return true;
	return held + bytes <= share_limit(p, &f->share, POOL_LAN, held, depth) / 8 * n &&
	       unsent + bytes <= share_limit(p, &f->share, POOL_LAN, unsent, SHARE_BACKLOG) / 8 * n;
}

bool near_admit(const struct proxy *p, const struct near_flow *f, uint16_t len)
{
	uint64_t bytes = arena_class_bytes(len);

	if (f->pos_next - f->pos_settled >= FLOW_SPAN_MAX - LAN_PKT_MAX)
		return false;
	if (f->pairing == PAIR_LEARNING && !near_unpaired_may_hold(p, f, (uint32_t)bytes))
		return false;
	return near_turn_rules(p, f) ? near_turn_admits(p, f, bytes) : within_share(p, f, bytes, 8);
}

/* Asks the host by a CNP to send more slowly before it has to be sent away: when the flow holds half of what it may,
 * and not less than at the last look. The time between two looks lets each CNP take effect. */
static void slow_down(struct proxy *p, struct near_flow *f)
{
	uint64_t held = near_held(f);

	if (near_turn_rules(p, f)) {
		if (2 * f->turn_left <= near_turn_quantum(p) && !FAULT(FAULT_NO_SOFT_CNP))
			ack_tx_cnp(p, f);
		return;
	}
	if (f->pos_next % SLOW_EVERY_PKTS || p->now_ns < f->slow_look_ns || within_share(p, f, 0, 4) ||
	    FAULT(FAULT_NO_SOFT_CNP))
		return;
	if (held >= f->slow_held)
		ack_tx_cnp(p, f);
	f->slow_held = held;
	f->slow_look_ns = p->now_ns + max_u64(SLOW_LOOK_NS, proxy_rtt_ns(p) / 8);
}

void near_drop_held(struct proxy *p, struct near_flow *f, uint32_t slot)
{
	uint64_t pos = arena_hdr(p->arena, slot)->pos;
	const struct rd_op *op = near_op_at(f, pos);

	if (op && op->pos == pos)
		near_op_unbegin(p, f, pos);
	slot_release(p, slot);
	f->ooo_pkts--;
}

/* Gives up the highest packet beyond the gap: it was not ACKed, so its host sends it again. False: there is none. */
static bool evict_highest(struct proxy *p, struct near_flow *f)
{
	if (FAULT(FAULT_NO_EVICT))
		return false;
	while (f->ooo_pkts && f->pos_held > f->pos_next + 1 && work_take(p)) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, --f->pos_held);

		if (slot == SLOT_NONE)
			continue;
		near_drop_held(p, f, slot);
		count(p, CTR_EVICTED, 1);
		return true;
	}
	return false;
}

/* Makes room for the packet that the flow needs next: gives up as many packets beyond the gap as necessary. */
static bool admit_next(struct proxy *p, struct near_flow *f, uint16_t len)
{
	while (!near_admit(p, f, len)) {
		work_done(p, ADMIT_WORK);
		if (!evict_highest(p, f))
			return false;
	}
	return true;
}

/* With Barrier=causal: writes the entries that the message beginning with this packet waits for at the far edge, one
 * per other flow between the two machines with requests ACKed early. Returns their number. */
static uint32_t waits_of(struct proxy *p, const struct near_flow *f, const struct roce_pkt *pkt, uint8_t *out)
{
	uint32_t room = (uint32_t)(LAN_PKT_MAX - pkt->len) / BARRIER_ENTRY_LEN, n;
	bool more;

	if (p->cfg.barrier != BARRIER_CAUSAL || !barrier_may_wait(pkt))
		return 0;
	n = barrier_snapshot_others(p, f, out, room < UINT8_MAX ? room : UINT8_MAX, &more);
	if (more)
		count(p, CTR_BARRIER_WAIVED, 1);
	return n;
}

/* True if the packet at pos may use the pool's reserve: it is the one the flow needs next. Half of the reserve is only
 * for the first packets of flows without a pair, whose hosts cannot be sent RNR NAKs. */
static bool is_urgent(const struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	if (pos != f->pos_next)
		return false;
	if (f->pairing == PAIR_LEARNING && !f->held_bytes)
		return true;
	return near_held(f) < near_turn_minimum(p) && pool_free(p, POOL_LAN) > pool_reserve(p, POOL_LAN) / 2;
}

uint32_t near_commit(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt, uint64_t pos,
                     uint32_t psns, uint32_t fp, uint16_t vlan_tci)
{
	uint8_t entries[LAN_PKT_MAX];
	uint32_t waits = waits_of(p, f, pkt, entries);
	uint16_t len = (uint16_t)(pkt->len + waits * BARRIER_ENTRY_LEN);
	uint32_t slot = slot_take(p, SLOT_REQ_NEAR, f->idx, f->inc, pos, len, f->lane, false);
	struct slot_hdr *h;

	if (slot == SLOT_NONE && is_urgent(p, f, pos))
		slot = slot_take(p, SLOT_REQ_NEAR, f->idx, f->inc, pos, len, f->lane, true);
	if (slot == SLOT_NONE)
		return SLOT_NONE;
	h = slot_fill(p, &slot, l3, pkt, vlan_tci);
	h->waits = (uint8_t)waits;
	h->psns = psns;
	h->fp = fp;
	h->msn = f->msn_next + ((h->flags & (SF_MSG_END | SF_OWN_RESPONSE)) != 0);
	if (waits)
		memcpy(arena_data_of(p->arena, slot, h) + pkt->len, entries, (size_t)waits * BARRIER_ENTRY_LEN);
	arena_commit(p->arena, slot);
	f->pos_max = max_u64(f->pos_max, pos + psns);
	f->pos_held = max_u64(f->pos_held, pos + psns);
	return slot;
}

static void learn_pmtu_from_request(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt)
{
	uint16_t fl = roce_op(pkt->opcode)->flags;

	if (f->pmtu == 0 && (fl & ROP_PAYLOAD) && !(fl & ROP_END) && pkt->payload_len >= 256)
		near_learn_pmtu(p, f, pkt->payload_len);
}

void near_drop_inside(struct proxy *p, struct near_flow *f, uint64_t from, uint64_t upto)
{
	for (uint64_t pos = from; f->ooo_pkts && pos < min_u64(upto, f->pos_held); pos++) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, pos);

		if (slot != SLOT_NONE)
			near_drop_held(p, f, slot);
	}
}

void near_in_order(struct proxy *p, struct near_flow *f, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	bool owed_nothing = f->pos_reported == f->pos_next;

	PROBE4(request_rx, f->idx, h->pos, h->opcode, h->len);
	near_drop_inside(p, f, h->pos + 1, h->pos + h->psns);
	f->msn_next = h->msn;
	f->op_last = h->opcode;
	f->op_known = true;
	near_fp_note(p, f, h);
	if (h->flags & SF_ACK_REQ) {
		f->ack_asked = true;
		f->pos_ack_asked = f->pos_next + h->psns;
	}
	if (h->flags & SF_MSG_END)
		f->messages++;
	f->bytes += h->len;
	f->pos_next += h->psns;
	if (owed_nothing)
		near_liveness_seen(p, f); /* the responder begins to owe an answer */
}

bool near_held_may_be_rest(struct proxy *p, const struct near_flow *f, uint32_t slot)
{
	struct roce_pkt pkt;

	return f->psns_unknown &&
	       roce_parse(arena_data(p->arena, slot), arena_hdr(p->arena, slot)->len, &pkt) == DROP_NONE &&
	       near_op_may_be_rest(f, &pkt);
}

void near_absorb_held(struct proxy *p, struct near_flow *f)
{
	f->absorbing = false;
	while (f->ooo_pkts) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, f->pos_next);
		struct slot_hdr *h;

		if (slot == SLOT_NONE)
			break;
		if (!work_take(p)) {
			f->absorbing = true;
			dlist_append_once(&p->near_work, &f->work_node);
			return;
		}
		h = arena_hdr(p->arena, slot);
		if (near_held_may_be_rest(p, f, slot)) {
			near_drop_held(p, f, slot);
			break;
		}
		if (!near_in_sequence(f, h->opcode)) {
			near_drop_held(p, f, slot);
			drop(p, DROP_LAN_SEQUENCE);
			break;
		}
		arena_amend(p->arena, slot, h->psns, f->msn_next + ((h->flags & (SF_MSG_END | SF_OWN_RESPONSE)) != 0));
		f->psns_unknown = false; /* a READ in front of it owned one PSN */
		if (h->flags & SF_OWN_RESPONSE) { /* from before the base moved down, or held behind a READ */
			struct rd_op *op = near_op_at(f, f->pos_next);

			if (op) {
				op->msn = h->msn;
				near_op_measure(p, f, op, slot);
			} else if (!near_op_begin_held(p, f, slot, OP_FOR_NEAR)) { /* too many operations: the host repeats it */
				near_drop_held(p, f, slot);
				break;
			}
		}
		f->ooo_pkts--;
		near_in_order(p, f, slot);
		f->pos_max = max_u64(f->pos_max, f->pos_next); /* pos_max had only the first PSN of a held READ */
	}
	if (!f->ooo_pkts && f->pos_lacking <= f->pos_next)
		timer_cancel(&p->timers, &f->patience);
	else
		timer_set(&p->timers, &f->patience, p->now_ns + p->cfg.reorder_ns);
}

void near_send_away(struct proxy *p, struct near_flow *f, bool no_room)
{
	if (no_room && !f->cnp_sent_ns && !FAULT(FAULT_NO_SOFT_CNP))
		ack_tx_cnp(p, f); /* other flows took the room before slow_down() sent this host a CNP */
	near_ack_schedule(p, f, DUE_RNR);
}

static enum proxy_drop back_pressure(struct proxy *p, struct near_flow *f, enum proxy_drop why)
{
	if (!f->rnr_back_pressure)
		proxy_event_push(p, EV_FLOW_RNR_BACK_PRESSURE, f, NULL, f->pos_next, near_held(f));
	f->rnr_back_pressure = true;
	f->pos_lacking = 0; /* after the RNR NAK the host sends everything from pos_next on */
	f->pos_max = max_u64(f->pos_max, f->pos_next + 1); /* the host has sent pos_next */
	near_send_away(p, f, why == DROP_LAN_NO_ROOM);
	f->notes.n.refused_packets++;
	return drop(p, why);
}

/* PSNs that the packet owns; 1 for a READ whose PMTU is not known (psns_unknown is set then). */
static uint32_t psns_of(struct near_flow *f, const struct roce_pkt *pkt, bool *unknown)
{
	*unknown = false;
	if (pkt->opcode != RC_READ_REQUEST)
		return 1;
	if (f->pmtu)
		return roce_read_psns(pkt->reth_len, f->pmtu);
	*unknown = pkt->reth_len > 256 && !FAULT(FAULT_PMTU_GUESSED);
	return 1;
}

/* Refuses a READ of more than FLOW_SPAN_MAX / 2 PSNs. pos_near() takes the position nearest to a PSN, so a flow may
 * span a quarter of all PSNs at most, and one READ half of that. With a PMTU of 1024 the limit is the longest message
 * that IBTA allows, 2 GiB; with 512 the limit is 1 GiB, with 256 it is 512 MiB. Once everything before the READ is
 * settled the host gets the NAK by which a responder refuses a request (IBTA 9.7.4.1.5), and its QP fails. Silence
 * would fail the QP as well, but would not tell the reason. */
static enum proxy_drop refuse_read(struct proxy *p, struct near_flow *f)
{
	f->pos_max = max_u64(f->pos_max, f->pos_next + 1);
	if (f->pairing == PAIR_LEARNING)
		return drop(p, DROP_LAN_BAD_LENGTH); /* the requester's QPN is not known yet; the host repeats */
	if (f->pos_settled < f->pos_next)
		return back_pressure(p, f, DROP_LAN_BAD_LENGTH);
	near_refused(p, f, f->pos_next, AETH_NAK_INV_REQ);
	return drop(p, DROP_LAN_BAD_LENGTH);
}

/* True for a host that a CNP has slowed down: its packet with AckReq may come after its ACK timer has run out. */
static bool sends_slowly(const struct proxy *p, const struct near_flow *f)
{
	return f->cnp_sent_ns && p->now_ns < f->cnp_sent_ns + CNP_LASTS_NS && p->now_ns >= f->acked_ns + ACK_SLOW_NS;
}

static void ack_after_rx(struct proxy *p, struct near_flow *f, bool ack_req)
{
	if ((ack_req || f->pos_next - f->pos_acked >= ACK_EVERY_PKTS || sends_slowly(p, f)) &&
	    near_ceiling(p, f) > f->pos_acked)
		near_ack_schedule(p, f, DUE_ACK);
}

enum proxy_drop near_take_next(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                               uint16_t vlan_tci, uint32_t fp)
{
	bool own = pkt->class == ROCE_RC_UNKNOWN || (roce_op(pkt->opcode)->flags & ROP_OWN_RESPONSE);
	uint64_t pos = f->pos_next;
	bool unknown;
	uint32_t psns = psns_of(f, pkt, &unknown), slot;

	if (f->absorbing)
		return drop(p, DROP_LAN_DUPLICATE); /* near_absorb_held() is about to take it */
	if (psns > FLOW_SPAN_MAX / 2)
		return refuse_read(p, f);
	if (near_turn_comes_early(p, f) || !admit_next(p, f, pkt->len))
		return back_pressure(p, f, DROP_LAN_NO_ROOM);
	if (own && !near_op_begin(p, f, pkt, pos, psns, f->msn_next + 1, fp, OP_FOR_NEAR))
		return back_pressure(p, f, DROP_LAN_READS_FULL);
	while ((slot = near_commit(p, f, l3, pkt, pos, psns, fp, vlan_tci)) == SLOT_NONE && evict_highest(p, f))
		;
	if (slot == SLOT_NONE) {
		if (own)
			near_op_unbegin(p, f, pos);
		return back_pressure(p, f, DROP_LAN_NO_ROOM);
	}
	near_alive(p, f, pos);
	f->rnr_back_pressure = false;
	near_turn_took(p, f, pkt->len);
	f->gap_naked = 0;
	f->psns_unknown = unknown;
	near_in_order(p, f, slot);
	learn_pmtu_from_request(p, f, pkt);
	if (f->ooo_pkts || f->pos_lacking > f->pos_next || timer_armed(&f->patience))
		near_absorb_held(p, f);
	if (f->pair_wanted) {
		f->pair_wanted = false;
		near_announce(f);
	}
	if (FAULT(FAULT_DROP_SLOT) && !own && pos % 61 == 0 && f->pos_next > pos + 1)
		slot_release(p, slot);
	near_wan_schedule(p, f);
	slow_down(p, f);
	ack_after_rx(p, f, pkt->ack_req);
	arena_fetch(p->arena);
	return DROP_NONE;
}
