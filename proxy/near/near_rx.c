/* SPDX-License-Identifier: Apache-2.0 */
/* near_rx.c - a request from a host: expected, ahead, behind, or of another incarnation.
 *
 * Theory of operation
 *
 * A packet from the host is one of four things:
 *   next      taken, with what was held behind it (near_take.c)
 *   gap       held for a while (adaptive routing reorders), then NAKed once; then only the missing one helps
 *   again     its fingerprint (near_reset.c) is the one seen at that position: ACKed again if it can only be a repetition,
 *             else the responder decides
 *   reset?    its fingerprint differs: if it comes again, the host reset its QP and a new incarnation begins
 *             (near_reset.c, near.c)
 *
 * A READ, an ATOMIC or an unknown request beyond a gap is not held, but it proves the gap like any other (pos_lacking).
 * If it merely overtook what was missing, it is missing itself then, and its host is asked for it.
 *
 * Until the responder has answered (or CM has told), the base is not known: the first packet seen may have been
 * overtaken, so lower PSNs extend the flow downwards, and nothing is ACKed. */
#include "near_priv.h"

#include "proxy/carry/barrier.h"
#include "proxy/carry/end_to_end.h"
#include "ack_tx.h"
#include "near_fp.h"

#define NAK_AGAIN_NS    100000ull     /* a LAN round trip: what was NAKed is not yet repeated within */
#define FAILED_QUIET_NS 2000000000ull /* a QP is not used again so soon after it failed, with packets never seen before */

/* When a host that was sent a NAK has had the time to go back. */
static uint64_t gone_back_ns(const struct proxy *p, const struct near_flow *f)
{
	return f->naked_ns + NAK_AGAIN_NS + 2 * p->cfg.reorder_ns;
}

/* Each NAK costs the host a retry, and it sends again all that follows the last one. So what was lost in front of that, or
 * was dropped since then for its sake, is no gap until the host has had the time to go back. */
void near_nak_gap(struct proxy *p, struct near_flow *f)
{
	timer_cancel(&p->timers, &f->patience);
	if (f->pairing == PAIR_LEARNING || f->rnr_back_pressure || f->psns_unknown || near_may_begin_inside(f))
		return; /* psns_unknown: it may be no gap, the READ in front of it owns the place */
	if (f->naked_ns && p->now_ns < gone_back_ns(p, f) && !FAULT(FAULT_NAK_REPEATED)) {
		timer_set(&p->timers, &f->patience, gone_back_ns(p, f));
		return;
	}
	f->gap_naked = f->pos_next;
	f->naked_ns = p->now_ns;
	f->notes.n.gaps++;
	f->pos_lacking = 0; /* the host sends all of that again */
	near_ack_schedule(p, f, DUE_NAK);
}

void near_gap_look(struct proxy *p, struct near_flow *f)
{
	if ((f->ooo_pkts || f->pos_lacking > f->pos_next) && f->gap_naked != f->pos_next)
		near_nak_gap(p, f);
}

/* What owns several PSNs or opens an operation waits for its turn beyond a gap: the host sends it again. But behind a
 * READ whose length in PSNs is not known yet there is no gap, and no host would have a reason to. */
static bool may_be_held(const struct near_flow *f, const struct roce_pkt *pkt)
{
	return pkt->class == ROCE_RC_REQUEST && (f->psns_unknown || !(roce_op(pkt->opcode)->flags & ROP_OWN_RESPONSE));
}

static enum proxy_drop rx_gap(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                              uint64_t pos, uint16_t vlan_tci, uint32_t fp)
{
	bool new_round = pos < f->pos_last_rx;
	uint32_t slot;

	f->pos_last_rx = pos;
	f->pos_max = max_u64(f->pos_max, pos + 1);
	if (f->rnr_back_pressure)
		return drop(p, DROP_LAN_NO_ROOM);
	if (f->gap_naked == f->pos_next) {
		/* The host went back and the missing one was lost again; reordering alone does not last so long. */
		if (FAULT(FAULT_NAK_REPEATED))
			near_ack_schedule(p, f, DUE_NAK);
		if (new_round && p->now_ns >= gone_back_ns(p, f)) {
			f->naked_ns = p->now_ns;
			near_ack_schedule(p, f, DUE_NAK);
		}
		return drop(p, DROP_LAN_GAP);
	}
	slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, pos);
	if (slot != SLOT_NONE && arena_hdr(p->arena, slot)->fp == fp)
		return drop(p, DROP_LAN_DUPLICATE);
	if (slot != SLOT_NONE) { /* neither of the two is believed: what comes after the NAK will tell */
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
		f->ooo_pkts += (uint32_t)(f->pos_next - f->pos_base); /* all single PSNs: see below */
	near_set_base(f, pos);
	near_fp_trim(p, f, pos);
	count(p, CTR_BASE_LOWERED, 1);
	f->pos_last_rx = pos;
	f->open_due = true;
	near_store(p, f);
	return near_take_next(p, f, l3, pkt, vlan_tci, fp);
}

static bool may_extend_down(const struct near_flow *f, uint64_t pos)
{
	return !FAULT(FAULT_FIRST_SEEN_IS_FIRST) && !f->base_fixed && f->pos_acked == f->pos_base &&
	       f->pos_reported == f->pos_base && !f->nops && pos < f->pos_base && f->pos_base - pos < BASE_REACH &&
	       f->pos_next - f->pos_base < BASE_REACH && f->pos_held - pos <= HELD_SPAN;
}

/* How often the host has come back to what it must wait for. Its first repetitions are met with silence, as the answer
 * is on its way; being sent away then would only make it sleep past the answer. */
static bool repeats_in_vain(const struct proxy *p, struct near_flow *f, uint64_t ceiling)
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
		if (new_round && repeats_in_vain(p, f, ceiling) &&
		    (f->rnr_retry == RNR_RETRY_INFINITE || FAULT(FAULT_RNR_TO_FINITE)))
			near_ack_schedule(p, f, DUE_RNR);
	} else if (ack_req || new_round) {
		near_ack_schedule(p, f, DUE_ACK);
	}
}

/* A new life of a flow could not be opened; or a flow, and its source may not have one more that learns. */
static enum proxy_drop no_place(struct proxy *p)
{
	proxy_event_push(p, EV_TABLE_FULL, NULL, NULL, 0, p->near_used);
	return drop(p, p->near_used == p->cfg.max_flows ? DROP_LAN_FLOW_TABLE_FULL : DROP_LAN_UNPAIRED_FULL);
}

/* The flow that is to learn its pair, opened if f is NULL. NULL: there is no place, or its hosts' queue pairs go end to
 * end, and this one with them. */
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

static enum proxy_drop without_flow(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	if (p->near_used == p->cfg.max_flows || end_to_end_begun(p, &pkt->src, &pkt->dst))
		return end_to_end_rx(p, l3, pkt, vlan_tci);
	return no_place(p);
}

/* The host has lost count of its PSNs for ever (near_reset.c). It is refused as a responder would refuse it (IBTA
 * 9.7.4.1.2), after all before it is done: nothing that was ACKed is given up for it. */
static enum proxy_drop refuse_lost_count(struct proxy *p, struct near_flow *f)
{
	if (!f->failing && f->pairing != PAIR_LEARNING && f->pos_settled == f->pos_next) {
		f->pos_max = max_u64(f->pos_max, f->pos_next + 1);
		near_refused(p, f, f->pos_next, AETH_NAK_INV_REQ);
	}
	return drop(p, DROP_LAN_SEQUENCE);
}

/* A new life of the QP begins with this packet, unless the host has lost count. */
static enum proxy_drop begin_anew(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                                  uint16_t vlan_tci, uint32_t fp)
{
	uint64_t pos = pos_near(f->pos_next, pkt->psn);
	bool rest = near_op_is_rest(f, pkt, pos);
	struct near_flow *next;

	if (near_reset_lost_count(p, f))
		return refuse_lost_count(p, f);
	next = near_succeed(p, f, pkt->psn, vlan_tci);
	if (next)
		next->begins_inside = rest;
	if (!next) { /* it will insist; until then the rest of its window would pass for the old life's */
		if (f->used)
			near_reset_wait(p, f, pos, fp);
		return no_place(p);
	}
	return near_take_next(p, next, l3, pkt, vlan_tci, fp);
}

/* A READ that begins where none did: the rest of one, of which the host has the beginning. */
static bool asks_for_rest(struct proxy *p, const struct near_flow *f, const struct roce_pkt *pkt)
{
	return pkt->opcode == RC_READ_REQUEST && !near_fp_has(p, f, pos_near(f->pos_next, pkt->psn));
}

/* Perhaps the host repeats this, perhaps a new life of its QP begins with it: the responder knows, and gets it. */
static enum proxy_drop in_doubt(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                                uint16_t vlan_tci, uint32_t fp)
{
	struct near_flow *next;

	if (f->older && !near_kept_its_word(f)) /* another life would end this one: asked when the older one has drained */
		return drop(p, DROP_LAN_RESET_SUSPECTED);
	next = near_succeed_in_doubt(p, f, pkt->psn, vlan_tci, asks_for_rest(p, f, pkt));
	return next ? near_take_next(p, next, l3, pkt, vlan_tci, fp) : no_place(p);
}

/* The packet at pos was there before, or one that looks like it. */
static enum proxy_drop rx_same(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                               uint64_t pos, uint16_t vlan_tci, uint32_t fp)
{
	if (!near_surely_again(p, f, pos))
		return in_doubt(p, f, l3, pkt, vlan_tci, fp);
	answer_again(p, f, pos, pkt->ack_req);
	near_note_repeat(p, f, pos);
	f->pos_last_rx = pos;
	near_alive(p, f, pos);
	return drop(p, DROP_LAN_DUPLICATE);
}

/* A READ, ATOMIC or unknown request at the place of one: answered from what is kept if it can only be a repetition. An
 * answer that is not kept any more is the responder's to give again: it executes no ATOMIC twice. */
static bool answers_again(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t fp,
                          bool *doubt)
{
	bool op = near_op_at(f, pos) != NULL, sure = near_surely_again(p, f, pos);

	*doubt = op ? !sure : near_fp_check(p, f, pos, fp, true) == FP_SAME || (f->fp_before && pos < f->pos_base);
	if (!op || !sure || !near_op_again(p, f, pkt, pos, fp))
		return false;
	near_note_repeat(p, f, pos);
	near_alive(p, f, pos);
	return true;
}

static enum proxy_drop rx_again(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                                uint64_t pos, uint16_t vlan_tci, uint32_t fp)
{
	bool doubt;

	if (may_extend_down(f, pos))
		return rx_below(p, f, l3, pkt, pos, vlan_tci, fp);
	if (roce_op(pkt->opcode)->flags & ROP_OWN_RESPONSE) {
		if (answers_again(p, f, pkt, pos, fp, &doubt))
			return drop(p, DROP_LAN_READ_RETRY);
		if (doubt && f->failing)
			return drop(p, DROP_LAN_FAILED); /* its responder has refused: the host hears of it soon */
		if (doubt)
			return in_doubt(p, f, l3, pkt, vlan_tci, fp);
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
	case FP_STRANGE:
		break;
	}
	if (near_reset_below(p, f, pos, fp) == LIFE_UNSURE)
		return drop(p, DROP_LAN_RESET_SUSPECTED);
	return begin_anew(p, f, l3, pkt, vlan_tci, fp);
}

/* An opcode at pos_next that cannot follow the one before it. A host that is confused for a moment is right again in its
 * next round. One that insists has had its QP reset in the middle of a message, or has lost count. */
static enum proxy_drop rx_wrong_opcode(struct proxy *p, struct near_flow *f, const uint8_t *l3,
                                       const struct roce_pkt *pkt, uint16_t vlan_tci, uint32_t fp)
{
	if (!near_reset_wrong_opcode(p, f, fp) || f->failing)
		return drop(p, DROP_LAN_SEQUENCE);
	if (near_starts_message(pkt) && !near_reset_too_soon(f))
		return begin_anew(p, f, l3, pkt, vlan_tci, fp);
	return refuse_lost_count(p, f);
}

/* --- of a QP that failed nothing more is taken. Its own packets are refused as the first one was. That NAK acknowledges
 * all before fail_pos, so it must not meet a new life: a packet unlike what was at its place begins one, one that may be
 * of either goes to the responder, and one that says nothing of itself gets no answer. A packet that was never there
 * before counts as the old life's for FAILED_QUIET_NS after the last one that surely was. --- */

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

	return p->now_ns > heard_ns + FAILED_QUIET_NS || pos > f->pos_max + HELD_OOO_MAX || pos + BASE_REACH < f->pos_next;
}

/* Of a READ that was refused the host may ask for a part: behind its beginning. */
static bool rest_of_refused(const struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos)
{
	return pos > f->pos_acked && pkt->opcode == RC_READ_REQUEST;
}

static enum proxy_drop rx_failed(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                                 uint16_t vlan_tci, uint32_t fp)
{
	uint64_t pos = pos_near(f->pos_next, pkt->psn);
	enum fp_verdict is = pos < f->pos_next ? near_fp_check(p, f, pos, fp, near_starts_message(pkt)) : FP_STALE;

	if ((is == FP_SAME || (is == FP_STRANGE && rest_of_refused(f, pkt, pos))) && !near_surely_again(p, f, pos))
		return in_doubt(p, f, l3, pkt, vlan_tci, fp);
	if (is == FP_SAME) {
		near_alive(p, f, pos);
		return refuse_failed(p, f, pos);
	}
	if (begins_incarnation(p, f, pos) || (is == FP_STRANGE && !rest_of_refused(f, pkt, pos)))
		return begin_anew(p, f, l3, pkt, vlan_tci, fp);
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
			return without_flow(p, l3, pkt, vlan_tci);
	}
	if (f->superseded)
		f = near_succeed(p, f, pkt->psn, vlan_tci);
	if (!f)
		return no_place(p);
	f->silent_ns = p->now_ns - f->last_rx_ns;
	f->last_rx_ns = p->now_ns;
	near_unpaired_seen(p, f);
	f->migreq = pkt->migreq;
	if (f->failed)
		return rx_failed(p, f, l3, pkt, vlan_tci, fp);
	if ((pkt->tos & ECN_MASK) == ECN_CE)
		ack_tx_cnp(p, f); /* the responder's part, IBTA A17.9: the mark itself stays on this LAN */
	pos = pos_near(f->pos_next, pkt->psn);
	if (f->reset.waits) {
		enum near_life life = near_reset_judge(p, f, pkt, pos, fp);

		if (life == LIFE_NEW)
			return begin_anew(p, f, l3, pkt, vlan_tci, fp);
		if (life == LIFE_UNSURE)
			return drop(p, DROP_LAN_RESET_SUSPECTED);
	}
	possible = pos <= f->pos_next + FLOW_SPAN_MAX && pos + FLOW_SPAN_MAX >= f->pos_next;
	if (pos <= f->pos_next && possible)
		near_reset_came_back(f);
	else if (near_reset_ahead(p, f, pkt, pos, fp) == LIFE_NEW)
		return begin_anew(p, f, l3, pkt, vlan_tci, fp);
	if (!possible)
		return drop(p, DROP_LAN_WINDOW);
	if (pos >= f->pos_next && near_op_may_be_rest(f, pkt))
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
