/* SPDX-License-Identifier: Apache-2.0 */
/* near_rx.c - a request from a host: expected, ahead, behind, or of another incarnation.
 *
 * Theory of operation
 *
 * A packet from the host is one of four things:
 *   next      taken, with what was held behind it (near_take.c)
 *   gap       held for a while (adaptive routing reorders), then NAKed once; after the NAK only the missing packet is
 *             taken
 *   again     its fingerprint (near_reset.c) is the one seen at that position: ACKed again if it can only be a
 *             repetition, else the responder decides
 *   reset?    its fingerprint differs: if it comes again, the host reset its QP and a new incarnation begins
 *             (near_reset.c, near.c)
 *
 * A READ, ATOMIC or unknown request beyond a gap is not held, but proves the gap like any other packet (pos_lacking).
 * If the request merely overtook the missing packet, the request itself is missing afterwards, and a NAK asks for it.
 *
 * The base is not known until the responder has answered or CM has told it: the first packet seen may have overtaken
 * others. Until then lower PSNs extend the flow downwards, and nothing is ACKed.
 *
 * Only a packet that was overtaken may extend the flow, within ROUND_NS of the first one seen. A host that begins at a
 * lower PSN later repeats requests of which the edge has seen the later ones only, or its QP was reset. In the second
 * case the requests held here belong to the life before: once the new life has filled the gap below them, the host
 * would get an ACK of PSNs that it has not sent, and the responder would execute the old bytes. The far edge may hold
 * these requests, too. So the flow is closed, and another one begins at the lower PSN (near_reset_goes_back()). Nothing
 * was ACKed, so a host that only repeats sends the later requests again. */
#include "near_priv.h"

#include "proxy/carry/barrier.h"
#include "proxy/carry/end_to_end.h"
#include "ack_tx.h"
#include "near_fp.h"

#define NAKS_MOST       3 /* in a row at one ceiling; a host stands 7 retries at most */
#define NAK_AGAIN_NS    100000ull     /* a LAN round trip: the host's answer to a NAK takes at least so long */
#define FAILED_QUIET_NS 2000000000ull /* no QP that failed is reset and used again sooner */

/* The time by which a host has gone back after the last NAK. */
static uint64_t gone_back_ns(const struct proxy *p, const struct near_flow *f)
{
	return f->naked_ns + NAK_AGAIN_NS + 2 * p->cfg.reorder_ns;
}

/* True if NAKS_MOST NAKs went out at the same ceiling below pos_next. Such a NAK has the PSN of what the responder has
 * not answered, mostly a READ or ATOMIC, however much was taken behind it: the host counts no progress before the
 * answer, and gives up after its Retry Count. */
static bool naks_in_vain(const struct proxy *p, struct near_flow *f)
{
	uint64_t ceiling = near_ceiling(p, f);

	if (ceiling >= f->pos_next || FAULT(FAULT_NAK_REPEATED))
		return false;
	if (f->naks_at != ceiling)
		f->naks_row = 0;
	f->naks_at = ceiling;
	if (f->naks_row < UINT8_MAX)
		f->naks_row++;
	return f->naks_row > NAKS_MOST;
}

/* Sends the NAK of a gap. If it would be in vain, an RNR NAK, which costs no retry, lets the host wait for the answer,
 * or the host gets nothing; then the gap in front of pos is looked at again. False: no NAK was sent. */
static bool nak_gap_now(struct proxy *p, struct near_flow *f, uint64_t pos)
{
	uint64_t rtt = proxy_rtt_ns(p);

	f->naked_ns = p->now_ns;
	if (!naks_in_vain(p, f)) {
		near_ack_schedule(p, f, DUE_NAK);
		return true;
	}
	if (f->rnr_retry == RNR_RETRY_INFINITE && p->now_ns >= f->rnr_sent_ns + rtt / 2)
		near_ack_schedule(p, f, DUE_RNR);
	f->gap_naked = 0;
	f->pos_lacking = max_u64(f->pos_lacking, pos + 1);
	if (!near_is_stalled(f))
		timer_set(&p->timers, &f->patience, max_u64(p->now_ns + rtt / 2, gone_back_ns(p, f)));
	return false;
}

/* Each NAK costs the host a retry and makes it send again everything from the NAKed PSN on. Until gone_back_ns() a
 * packet missing there may still come by the last NAK, so no new NAK is sent before. */
void near_nak_gap(struct proxy *p, struct near_flow *f)
{
	timer_cancel(&p->timers, &f->patience);
	if (f->pairing == PAIR_LEARNING || f->state == NEAR_FAILED || f->superseded || f->rnr_back_pressure || f->psns_unknown ||
	    near_may_begin_inside(f))
		return; /* psns_unknown: perhaps there is no gap, and the READ in front of it owns these PSNs */
	if (f->naked_ns && p->now_ns < gone_back_ns(p, f) && !FAULT(FAULT_NAK_REPEATED)) {
		timer_set(&p->timers, &f->patience, gone_back_ns(p, f));
		return;
	}
	if (!nak_gap_now(p, f, f->pos_next))
		return;
	f->gap_naked = f->pos_next;
	f->notes.n.gaps++;
	f->pos_lacking = 0; /* the host sends everything behind the gap again */
}

void near_gap_look(struct proxy *p, struct near_flow *f)
{
	if ((f->ooo_pkts || f->pos_lacking > f->pos_next) && f->gap_naked != f->pos_next)
		near_nak_gap(p, f);
}

/* A request with its own response is not held beyond a gap: the host sends it again after the NAK. Behind a READ of
 * unknown length in PSNs such a request is held: there is no gap, so the host would not send it again. */
static bool may_be_held(const struct near_flow *f, const struct roce_pkt *pkt)
{
	return pkt->class == ROCE_RC_REQUEST && (f->psns_unknown || !(roce_op(pkt->opcode)->flags & ROP_OWN_RESPONSE));
}

static enum proxy_drop rx_gap(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                              uint64_t pos, uint16_t vlan_tci, uint32_t fp)
{
	bool new_round = pos < f->pos_last_rx || f->pos_last_rx < f->pos_next;
	uint32_t slot;

	f->pos_last_rx = pos;
	f->pos_max = max_u64(f->pos_max, pos + 1);
	if (f->rnr_back_pressure)
		return drop(p, DROP_LAN_NO_ROOM);
	if (f->gap_naked == f->pos_next) {
		/* The host went back and the missing packet was lost again; reordering alone does not last so long. */
		if (FAULT(FAULT_NAK_REPEATED))
			near_ack_schedule(p, f, DUE_NAK);
		if (new_round && p->now_ns >= gone_back_ns(p, f))
			nak_gap_now(p, f, pos);
		return drop(p, DROP_LAN_GAP);
	}
	slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, pos);
	if (slot != SLOT_NONE && arena_hdr(p->arena, slot)->fp == fp)
		return drop(p, DROP_LAN_DUPLICATE);
	if (slot != SLOT_NONE) { /* drop both: the packet that comes after the NAK decides */
		near_drop_held(p, f, slot);
		return drop(p, DROP_LAN_RESET_SUSPECTED);
	}
	if (pos - f->pos_next < HELD_OOO_MAX && may_be_held(f, pkt) && near_admit(p, f, pkt->len) &&
	    near_commit(p, f, l3, pkt, pos, 1, fp, vlan_tci) != SLOT_NONE)
		f->ooo_pkts++;
	else
		f->pos_lacking = max_u64(f->pos_lacking, pos + 1);
	if (f->ooo_pkts >= PATIENCE_PKTS || pos - f->pos_next >= HELD_OOO_MAX)
		near_nak_gap(p, f);
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
		f->ooo_pkts += (uint32_t)(f->pos_next - f->pos_base); /* each owns one PSN: may_extend_down() */
	near_set_base(f, pos);
	near_fp_trim(p, f, pos);
	count(p, CTR_BASE_LOWERED, 1);
	f->pos_last_rx = pos;
	near_announce(f);
	near_store(p, f);
	return near_take_next(p, f, l3, pkt, vlan_tci, fp);
}

static bool may_extend_down(const struct near_flow *f, uint64_t pos)
{
	return !FAULT(FAULT_FIRST_SEEN_IS_FIRST) && !f->base_fixed && f->pos_acked == f->pos_base &&
	       f->pos_reported == f->pos_base && !f->nops && pos < f->pos_base && f->pos_base - pos < BASE_REACH &&
	       f->pos_next - f->pos_base < BASE_REACH && f->pos_held - pos <= HELD_SPAN;
}

/* True from the third time on that the host comes back to this ceiling, or while the line is down. The first
 * repetitions get no answer: the ACK is on its way, and an RNR NAK would make the host sleep past it. */
static bool repeats_in_vain(const struct proxy *p, struct near_flow *f, uint64_t ceiling)
{
	if (f->repeated_ceiling != ceiling) {
		f->repeated_ceiling = ceiling;
		f->ceiling_repeats = 0;
	}
	if (f->ceiling_repeats < UINT8_MAX)
		f->ceiling_repeats++;
	return f->ceiling_repeats >= 3 || !p->wan_up;
}

/* The host repeats a packet that is here. Below the ceiling the packet is ACKed again. At or beyond the ceiling silence
 * would use up the host's retries, so the host gets an RNR NAK once repeats_in_vain(). */
static void answer_repetition(struct proxy *p, struct near_flow *f, uint64_t pos, bool ack_req)
{
	bool new_round = pos <= f->pos_last_rx;
	uint64_t ceiling = near_ceiling(p, f);

	if (pos >= ceiling) {
		if (new_round && repeats_in_vain(p, f, ceiling) &&
		    (f->rnr_retry == RNR_RETRY_INFINITE || FAULT(FAULT_RNR_TO_FINITE)))
			near_ack_schedule(p, f, DUE_RNR);
	} else if (ack_req || new_round) {
		near_ack_schedule(p, f, DUE_ACK);
	}
}

/* No flow could be opened: the table is full, or the source has its share of unpaired flows. */
static enum proxy_drop drop_without_place(struct proxy *p)
{
	proxy_event_push(p, EV_TABLE_FULL, NULL, NULL, 0, p->near_used);
	return drop(p, p->near_used == p->cfg.max_flows ? DROP_LAN_FLOW_TABLE_FULL : DROP_LAN_UNPAIRED_FULL);
}

/* Returns the flow that is to learn its pair; opens one if f is NULL. Returns NULL if there is no place, or if queue
 * pairs between these hosts go end to end; in the second case f, if any, was closed. */
static struct near_flow *learning_flow(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt,
                                       uint16_t vlan_tci)
{
	if (!end_to_end_begun(p, &pkt->src, &pkt->dst))
		return f ? f : near_open(p, pkt, vlan_tci);
	if (f && !end_to_end_settled(p, &pkt->src, &pkt->dst))
		return f;
	if (f)
		near_close(p, f);
	return NULL;
}

static enum proxy_drop rx_without_flow(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt,
                                       uint16_t vlan_tci)
{
	if (p->near_used == p->cfg.max_flows || end_to_end_begun(p, &pkt->src, &pkt->dst))
		return end_to_end_rx(p, l3, pkt, vlan_tci);
	return drop_without_place(p);
}

/* The host's PSNs are one too high for ever (near_reset.c). The host's packet is refused as a responder would refuse it
 * (IBTA 9.7.4.1.2), but only when everything before it is settled: no ACKed request is given up. */
static enum proxy_drop refuse_lost_count(struct proxy *p, struct near_flow *f)
{
	if (f->state != NEAR_FAILING && f->pairing != PAIR_LEARNING && f->pos_settled == f->pos_next) {
		f->pos_max = max_u64(f->pos_max, f->pos_next + 1);
		near_refused(p, f, f->pos_next, AETH_NAK_INV_REQ);
	}
	return drop(p, DROP_LAN_SEQUENCE);
}

/* A new life of the QP begins with this packet, unless the host has lost count. */
static enum proxy_drop rx_new_incarnation(struct proxy *p, struct near_flow *f, const uint8_t *l3,
                                          const struct roce_pkt *pkt, uint16_t vlan_tci, uint32_t fp)
{
	uint64_t pos = pos_near(f->pos_next, pkt->psn);
	bool rest = near_op_is_rest(f, pkt, pos);
	struct near_flow *next;

	if (near_reset_lost_count(p, f))
		return refuse_lost_count(p, f);
	next = near_succeed(p, f, pkt->psn, vlan_tci);
	if (next)
		next->begins_inside = rest;
	if (!next) { /* the host repeats; until then the rest of its window must not pass for the old incarnation's */
		if (near_in_use(f))
			near_reset_wait(p, f, pos, fp);
		return drop_without_place(p);
	}
	return near_take_next(p, next, l3, pkt, vlan_tci, fp);
}

/* Opens another flow, which begins with this packet, below f, which is learning its pair. Nothing of f was ACKed. So if
 * the table is full, f is closed: the next packet of the host opens a flow, or goes end to end. */
static enum proxy_drop rx_incarnation_below(struct proxy *p, struct near_flow *f, const uint8_t *l3,
                                            const struct roce_pkt *pkt, uint16_t vlan_tci, uint32_t fp)
{
	struct near_flow *next = near_succeed(p, f, pkt->psn, vlan_tci);

	if (next)
		return near_take_next(p, next, l3, pkt, vlan_tci, fp);
	if (near_in_use(f) && !f->older)
		near_close(p, f);
	return drop_without_place(p);
}

/* A READ at a position where no message began: it asks for the rest of a READ whose beginning the host has. */
static bool asks_for_rest(struct proxy *p, const struct near_flow *f, const struct roce_pkt *pkt)
{
	return pkt->opcode == RC_READ_REQUEST && !near_fp_has(p, f, pos_near(f->pos_next, pkt->psn));
}

/* The packet is a repetition or begins a new incarnation. Only the responder knows, so the packet is sent to it. */
static enum proxy_drop rx_in_doubt(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                                   uint16_t vlan_tci, uint32_t fp)
{
	struct near_flow *next;

	if (f->older && !near_acked_is_delivered(f)) /* a third one would end f: wait until the older one has drained */
		return drop(p, DROP_LAN_RESET_SUSPECTED);
	next = near_succeed_in_doubt(p, f, pkt->psn, vlan_tci, asks_for_rest(p, f, pkt));
	return next ? near_take_next(p, next, l3, pkt, vlan_tci, fp) : drop_without_place(p);
}

/* The packet at pos has the fingerprint of the one that was there before. */
static enum proxy_drop rx_same(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                               uint64_t pos, uint16_t vlan_tci, uint32_t fp)
{
	if (!near_surely_again(p, f, pos))
		return rx_in_doubt(p, f, l3, pkt, vlan_tci, fp);
	if (pos <= f->pos_last_rx)
		near_row_begins(p, f, pos);
	answer_repetition(p, f, pos, pkt->ack_req);
	near_note_repeat(p, f, pos);
	f->pos_last_rx = pos;
	near_alive(p, f, pos);
	return drop(p, DROP_LAN_DUPLICATE);
}

/* A READ, ATOMIC or unknown request at the position of an earlier one is answered from the kept answer if it can only
 * be a repetition. If the answer is not kept any more, *doubt is set and the responder answers: it executes no ATOMIC
 * twice. */
static bool answer_op_again(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t fp,
                            bool *doubt)
{
	bool op = near_op_at(f, pos) != NULL, sure = near_surely_again(p, f, pos);

	*doubt = op ? !sure : near_fp_check(p, f, pos, fp, true) == FP_SAME || (f->fp_before && pos < f->pos_base);
	if (!op || !sure || !near_op_again(p, f, pkt, pos, fp))
		return false;
	near_note_repeat(p, f, pos);
	f->pos_last_rx = pos;
	near_alive(p, f, pos);
	return true;
}

static enum proxy_drop rx_again(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                                uint64_t pos, uint16_t vlan_tci, uint32_t fp)
{
	bool doubt;

	if (may_extend_down(f, pos) && near_reset_goes_back(p, f))
		return rx_incarnation_below(p, f, l3, pkt, vlan_tci, fp);
	if (may_extend_down(f, pos))
		return rx_below(p, f, l3, pkt, pos, vlan_tci, fp);
	if (roce_op(pkt->opcode)->flags & ROP_OWN_RESPONSE) {
		if (answer_op_again(p, f, pkt, pos, fp, &doubt))
			return drop(p, DROP_LAN_READ_RETRY);
		if (doubt && f->state == NEAR_FAILING)
			return drop(p, DROP_LAN_FAILED); /* the responder has refused: the host gets the NAK soon */
		if (doubt)
			return rx_in_doubt(p, f, l3, pkt, vlan_tci, fp);
	}
	switch (near_fp_check(p, f, pos, fp, near_starts_message(pkt))) {
	case FP_SAME:
		return rx_same(p, f, l3, pkt, pos, vlan_tci, fp);
	case FP_OPEN:
		if (pkt->ack_req || pos <= f->pos_last_rx)
			return rx_same(p, f, l3, pkt, pos, vlan_tci, fp);
		return drop(p, DROP_LAN_DUPLICATE);
	case FP_STALE:
		return drop(p, DROP_LAN_DUPLICATE);
	case FP_DIFFERENT:
		break;
	}
	if (near_reset_below(p, f, pos, fp) == RESET_SUSPECTED)
		return drop(p, DROP_LAN_RESET_SUSPECTED);
	return rx_new_incarnation(p, f, l3, pkt, vlan_tci, fp);
}

/* An opcode at pos_next that cannot follow op_last. A host with a passing error sends the right opcode in its next
 * round. A host that repeats the packet round after round has reset its QP in the middle of a message, or has lost
 * count. */
static enum proxy_drop rx_wrong_opcode(struct proxy *p, struct near_flow *f, const uint8_t *l3,
                                       const struct roce_pkt *pkt, uint16_t vlan_tci, uint32_t fp)
{
	if (!near_reset_wrong_opcode(p, f, fp) || f->state == NEAR_FAILING)
		return drop(p, DROP_LAN_SEQUENCE);
	if (near_starts_message(pkt) && !near_reset_too_soon(f))
		return rx_new_incarnation(p, f, l3, pkt, vlan_tci, fp);
	return refuse_lost_count(p, f);
}

/* --- a QP that failed: no packet of it is taken any more.
 *
 * Packets of the failed incarnation get the NAK again. That NAK acknowledges everything before fail_pos, so a new
 * incarnation must not get it:
 *   - a packet whose fingerprint differs from the one at its position begins a new incarnation;
 *   - a packet with the same fingerprint that may belong to either goes to the responder;
 *   - a packet whose fingerprint is forgotten, below pos_acked, gets no answer;
 *   - a packet at a position never seen counts as the old incarnation's until FAILED_QUIET_NS after its last certain
 *     packet. */

static enum proxy_drop refuse_failed(struct proxy *p, struct near_flow *f, uint64_t pos)
{
	f->pos_max = max_u64(f->pos_max, pos + 1);
	if (f->nak_syndrome)
		near_ack_schedule(p, f, DUE_NAK);
	near_error_later(p, f);
	return drop(p, DROP_LAN_FAILED);
}

static bool begins_incarnation(const struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	uint64_t heard_ns = max_u64(max_u64(f->alive_ns, f->acked_ns), f->rebuilt_ns);

	return p->now_ns > heard_ns + FAILED_QUIET_NS || pos > f->pos_max + HELD_OOO_MAX ||
	       pos + BASE_REACH < f->pos_next;
}

/* The host may ask for a part of the READ that was refused: that packet lies behind the READ's beginning. */
static bool rest_of_refused(const struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos)
{
	return pos > f->pos_acked && pkt->opcode == RC_READ_REQUEST;
}

static enum proxy_drop rx_failed(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                                 uint16_t vlan_tci, uint32_t fp)
{
	uint64_t pos = pos_near(f->pos_next, pkt->psn);
	enum fp_verdict is = pos < f->pos_next ? near_fp_check(p, f, pos, fp, near_starts_message(pkt)) : FP_STALE;

	if ((is == FP_SAME || (is == FP_DIFFERENT && rest_of_refused(f, pkt, pos))) && !near_surely_again(p, f, pos))
		return rx_in_doubt(p, f, l3, pkt, vlan_tci, fp);
	if (is == FP_SAME) {
		near_alive(p, f, pos);
		return refuse_failed(p, f, pos);
	}
	if (begins_incarnation(p, f, pos) || (is == FP_DIFFERENT && !rest_of_refused(f, pkt, pos)))
		return rx_new_incarnation(p, f, l3, pkt, vlan_tci, fp);
	if (pos >= f->pos_acked)
		return refuse_failed(p, f, pos);
	near_error_later(p, f);
	return drop(p, DROP_LAN_FAILED);
}

enum proxy_drop near_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci,
                        uint32_t payload_crc)
{
	struct near_flow *f = near_find(p, &pkt->src, &pkt->dst, pkt->dest_qpn, vlan_tci);
	uint32_t fp = near_fp_of(l3, pkt, payload_crc);
	uint64_t pos;
	bool possible;

	if (!f || (f->pairing == PAIR_LEARNING && !f->older)) {
		f = learning_flow(p, f, pkt, vlan_tci);
		if (!f)
			return rx_without_flow(p, l3, pkt, vlan_tci);
	}
	if (f->superseded)
		f = near_succeed(p, f, pkt->psn, vlan_tci);
	if (!f)
		return drop_without_place(p);
	f->silent_ns = p->now_ns - f->last_rx_ns;
	if (f->pairing == PAIR_LEARNING)
		near_reset_note_silence(f);
	f->last_rx_ns = p->now_ns;
	if (f->unpaired_source)
		near_unpaired_seen(p, f);
	f->migreq = pkt->migreq;
	if (f->state == NEAR_FAILED)
		return rx_failed(p, f, l3, pkt, vlan_tci, fp);
	if ((pkt->tos & ECN_MASK) == ECN_CE)
		ack_tx_cnp(p, f); /* the responder's part, IBTA A17.9: the mark itself stays on this LAN */
	pos = pos_near(f->pos_next, pkt->psn);
	if (f->reset.suspected) {
		enum reset_verdict verdict = near_reset_judge(p, f, pkt, pos, fp);

		if (verdict == RESET_YES)
			return rx_new_incarnation(p, f, l3, pkt, vlan_tci, fp);
		if (verdict == RESET_SUSPECTED)
			return drop(p, DROP_LAN_RESET_SUSPECTED);
	}
	possible = pos <= f->pos_next + FLOW_SPAN_MAX && pos + FLOW_SPAN_MAX >= f->pos_next;
	if (pos <= f->pos_next && possible)
		near_reset_came_back(f);
	else if (near_reset_ahead(p, f, pkt, pos, fp) == RESET_YES)
		return rx_new_incarnation(p, f, l3, pkt, vlan_tci, fp);
	if (!possible)
		return drop(p, DROP_LAN_WINDOW);
	if (f->psns_unknown && pos >= f->pos_next && near_op_may_be_rest(f, pkt))
		return drop(p, DROP_LAN_READ_RETRY);
	if (pos == f->pos_next) {
		f->pos_last_rx = pos;
		if (!f->absorbing && !near_in_sequence(f, pkt->opcode))
			return rx_wrong_opcode(p, f, l3, pkt, vlan_tci, fp);
		return near_take_next(p, f, l3, pkt, vlan_tci, fp);
	}
	if (pos > f->pos_next)
		return rx_gap(p, f, l3, pkt, pos, vlan_tci, fp);
	return rx_again(p, f, l3, pkt, pos, vlan_tci, fp);
}
