/* SPDX-License-Identifier: Apache-2.0 */
/* far_answer.c - ACKs and NAKs of the responder.
 *
 * Theory of operation
 *
 * An ACK or NAK also acknowledges everything before its PSN (IBTA 9.7.5.1). These positions are settled: the descriptor
 * is stored, slots are freed, the near edge is told. An RNR NAK stops the flow for the time that it carries, a sequence
 * NAK makes it go back, any other NAK ends it.
 *
 * An answer counts only for packets that were sent, and only for the flow that it is for (pair.c). A flow's first
 * answer makes the pair and tells the responder's MSN. That answer becomes the template of the ACKs that the near edge
 * sends. */
#include "far_priv.h"

#include "proxy/carry/barrier.h"
#include "proxy/carry/end_to_end.h"
#include "lan_host.h"
#include "pair.h"
#include "proxy/carry/raw.h"
#include "proxy/util/probe.h"
#include "proxy/wan/share.h"

/* Counts messages and bytes of [pos_acked, upto), which was acknowledged. Returns how far the work of this call
 * reached. */
static uint64_t settle_counts(struct proxy *p, struct far_flow *f, uint64_t upto)
{
	uint64_t pos = f->pos_acked;

	while (pos < upto && work_take(p)) {
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
	return min_u64(pos, upto);
}

/* Frees slots of settled requests as far as this call's work allows. */
static void free_some(struct proxy *p, struct far_flow *f)
{
	uint64_t from = f->pos_freed, held = f->held_bytes;

	while (f->pos_freed < f->pos_acked && work_take(p)) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, f->pos_freed), psns = 1;

		if (slot != SLOT_NONE) {
			const struct slot_hdr *h = arena_hdr(p->arena, slot);

			psns = h->psns ? h->psns : 1;
			count(p, CTR_BYTES_DELIVERED,
			      (uint64_t)(slot_packet_len(h) - h->hdr_len - ROCE_ICRC_LEN - h->pad));
			slot_release(p, slot);
		}
		f->pos_freed += psns;
	}
	if (f->pos_freed > from)
		share_drained(p, &f->share, held - f->held_bytes, f->pos_freed - from);
	if (f->pos_freed < f->pos_acked)
		far_work_later(p, f);
}

/* The responder has acknowledged that many bytes in flight: it is alive, and its window grows by an eighth of them. */
static void note_progress(struct proxy *p, struct far_flow *f, uint32_t acked_bytes)
{
	far_rtt_end(p, f);
	if (f->pos_acked > f->leaving_pos)
		f->leaving = false;
	f->retries = 0;
	f->last_progress_ns = p->now_ns;
	if (f->window_bytes < p->cfg.lan_window_bytes)
		f->window_bytes += (uint32_t)min_u64(acked_bytes / 8, p->cfg.lan_window_bytes - f->window_bytes);
	if (f->stalled) {
		f->stalled = false;
		proxy_event_push(p, EV_FLOW_RESUMED, NULL, f, f->pos_acked, 0);
	}
	if (f->rnr_bytes)
		f->rnr_bytes = f->rnr_bytes < f->window_bytes / 2 ? 2 * f->rnr_bytes + 512 : 0;
	if (f->rnr)
		; /* f->rto ends the wait of the RNR NAK */
	else if (f->pos_tx > f->pos_acked)
		far_arm_rto(p, f);
	else
		timer_cancel(&p->timers, &f->rto);
}

void far_settle(struct proxy *p, struct far_flow *f, uint64_t upto)
{
	uint64_t from = f->pos_acked, come;
	uint32_t out;

	if (f->stale_epoch)
		upto = min_u64(upto, f->pos_rx); /* packets beyond were sent, and given up by far_stale() */
	if (upto > f->pos_rx && upto > f->pos_tx)
		upto = max_u64(f->pos_rx, f->pos_tx); /* evicted packets come again, and are ACKed again */
	if (upto <= from)
		return;
	out = f->bytes_out;
	come = settle_counts(p, f, upto);
	if (come < upto) {
		f->settling = true;
		f->pos_ack_seen = max_u64(f->pos_ack_seen, upto);
		far_work_later(p, f);
		upto = come;
	}
	PROBE3(delivered, f->idx, from, upto);
	f->pos_acked = upto;
	f->pos_tx = max_u64(f->pos_tx, upto);
	f->pos_tx_max = max_u64(f->pos_tx_max, upto);
	f->base_fixed = true;
	far_drop_below_base(p, f);
	if (!FAULT(FAULT_FAR_FREES_FIRST))
		far_store(p, f);
	free_some(p, f);
	note_progress(p, f, out - f->bytes_out);
	lan_host_less(p, f);
	lan_host_acked(p, f, out - f->bytes_out);
	if (f->stale_epoch && f->pos_acked >= f->pos_rx)
		timer_set(&p->timers, &f->rto, p->now_ns); /* the stale flow is over; the caller still uses f */
	far_report(p, f, f->mode == ACK_MODE_HOST || f->pair_due);
	barrier_progress(p, f);
}

/* Settles a portion of what was acknowledged: far_stop_at_op() takes work, too, and some must be left for
 * far_settle(). */
static void settle_some(struct proxy *p, struct far_flow *f)
{
	uint64_t upto = min_u64(f->pos_ack_seen, f->pos_acked + CALL_WORK / 4), stop = far_stop_at_op(p, f, upto);

	far_settle(p, f, stop);
	/* If packets were evicted since, pos_acked < upto: they come again, and so does their ACK. */
	if (stop == upto && f->pos_acked == upto && upto < f->pos_ack_seen) {
		f->settling = true;
		far_work_later(p, f);
	}
}

void far_work(struct proxy *p, struct far_flow *f)
{
	bool settling = f->settling;

	dlist_remove(&f->work_node);
	f->settling = false;
	free_some(p, f);
	if (f->base_fixed)
		far_drop_below_base(p, f);
	if (far_has_failed(f))
		return;
	if (far_is_open(f))
		far_advance_rx(p, f);
	if (settling && f->pos_ack_seen > f->pos_acked)
		settle_some(p, f);
	far_schedule(p, f);
}

static void fail_flow(struct proxy *p, struct far_flow *f, uint64_t pos, uint8_t syndrome, enum proxy_failure why,
                      uint64_t bytes)
{
	far_become(p, f, why == FAILURE_BUFFER_LOST ? FAR_LOST : FAR_FAILED);
	f->syndrome = syndrome;
	f->nak_pos = pos;
	proxy_failure_push(p, why, NULL, f, pos, bytes);
	far_store(p, f);
	if (!f->stale_epoch)
		far_free_requests(p, f);
	far_free_ops(p, f);
	pair_leave(p, f);
	far_report(p, f, true);
	barrier_progress(p, f);
	if (f->stale_epoch)
		far_stale_failed(p, f, f->state == FAR_LOST ? 0 : bytes); /* far_fail_lost() has counted the bytes */
}

void far_fail(struct proxy *p, struct far_flow *f, uint64_t pos, uint8_t syndrome)
{
	fail_flow(p, f, pos, syndrome, syndrome ? FAILURE_REFUSED : FAILURE_SILENT, f->held_bytes);
}

void far_fail_lost(struct proxy *p, struct far_flow *f, uint64_t bytes)
{
	count(p, CTR_BYTES_FAILED, bytes);
	fail_flow(p, f, f->lost_pos, 0, FAILURE_BUFFER_LOST, bytes);
}

bool far_look_replaced(struct proxy *p, struct far_flow *f, bool comes)
{
	if (!far_is_replaced(f) || f->state != FAR_OPEN)
		return false;
	if (!comes && f->pos_acked >= f->pos_rx_max)
		return false;
	fail_flow(p, f, f->pos_acked, 0, FAILURE_REPLACED, f->held_bytes);
	return true;
}

void far_mispaired(struct proxy *p, struct far_flow *f, uint32_t requester_qpn)
{
	proxy_event_push(p, EV_PAIR_WRONG, NULL, f, f->pos_acked, requester_qpn);
	fail_flow(p, f, f->pos_acked, 0, FAILURE_MISPAIRED, f->held_bytes);
}

/* --- ACK and NAK --- */

/* The first answer of a flow: notes the template and the responder's MSN, from which the near edge computes the MSN of
 * every ACK. The MSN of a READ response counts its READ. If the host repeats that READ, the MSN may also count messages
 * that the responder executed behind it. Neither edge can tell if both have lost their arenas. */
static void learn_pair(struct far_flow *f, const struct roce_pkt *pkt, uint64_t at_pos)
{
	struct roce_pkt ack = *pkt;

	ack.opcode = RC_ACK;
	ack.aeth_syndrome = AETH_ACK_NO_CREDITS;
	f->template_len = (uint8_t)roce_build(f->template, TEMPLATE_MAX, &ack, NULL, 0);
	f->pair_at_pos = at_pos;
	f->pair_msn = pkt->aeth_msn;
	f->pair_count = pkt->opcode != RC_ACK && !FAULT(FAULT_LATE_MSN_TRUSTED) ? COUNT_LATE : COUNT_BY_ACK;
	if (pkt->opcode != RC_ACK) /* a response's MSN counts its READ or ATOMIC */
		f->pair_msn = (f->pair_msn - 1) & ROCE_PSN_MASK;
	else if ((pkt->aeth_syndrome & AETH_TYPE_MASK) == AETH_ACK)
		f->pair_at_pos++;
}

/* The responder expects a PSN below pos_base: the flow begins there. */
static enum proxy_drop nak_below_base(struct proxy *p, struct far_flow *f, uint64_t pos)
{
	far_begin_at(p, f, pos);
	f->base_fixed = true;
	f->pair_at_pos = pos;
	far_advance_rx(p, f);
	far_store(p, f);
	far_report(p, f, true);
	return DROP_NONE;
}

static enum proxy_drop rx_nak(struct proxy *p, struct far_flow *f, const struct roce_pkt *pkt, uint64_t pos)
{
	uint8_t type = pkt->aeth_syndrome & AETH_TYPE_MASK;
	const struct rd_op *op;

	if (pos < f->pos_base && !f->base_fixed && pkt->aeth_syndrome == AETH_NAK_PSN_SEQ)
		far_lost_look(p, f, pos);
	if (pos < f->pos_base && f->pos_base - pos <= BELOW_BASE_REACH && !f->base_fixed &&
	    pkt->aeth_syndrome == AETH_NAK_PSN_SEQ)
		return nak_below_base(p, f, pos);
	if (pos < f->pos_acked)
		return drop(p, DROP_LAN_ACK_STALE);
	if (pos > f->pos_tx_max)
		return drop(p, DROP_LAN_ACK_UNSENT);
	far_settle(p, f, far_stop_at_op(p, f, pos));
	op = far_first_op(f);
	if (type == AETH_RNR_NAK) {
		count(p, CTR_RNR_NAKS_RX, 1);
		if ((pkt->aeth_syndrome & 0x1f) == 0)
			count(p, CTR_RNR_TIMER_ZERO_RX, 1);
		f->notes.n.rnr_naks++;
		f->notes.rnr_ns = p->now_ns;
		f->notes.rnr_timer = pkt->aeth_syndrome & 0x1f;
		f->last_progress_ns = p->now_ns; /* an RNR NAK is a sign of life, which the near edge is told */
		far_report(p, f, false);
		f->rnr = true;
		f->rnr_bytes = 1; /* one packet at first: the responder may post only one receive */
		barrier_progress(p, f);
		far_go_back(p, f, pos);
		timer_set(&p->timers, &f->rto, p->now_ns + roce_rnr_timer_ns(pkt->aeth_syndrome & 0x1f));
		return DROP_NONE;
	}
	if (pkt->aeth_syndrome != AETH_NAK_PSN_SEQ) {
		count(p, CTR_ERR_NAKS_RX, 1);
		if (f->stale_epoch)
			learn_pair(f, pkt, pos); /* for learn_refusal() */
		far_fail(p, f, op && op->pos < pos ? op->pos : pos, pkt->aeth_syndrome); /* op's response was lost */
		return DROP_NONE;
	}
	count(p, CTR_NAKS_RX, 1);
	if (f->rnr)
		return DROP_NONE; /* about packets behind the one that was not ready */
	f->notes.n.seq_naks++;
	far_on_loss(p, f);
	far_go_back(p, f, pos);
	return DROP_NONE;
}

#define AHEAD_RETRIES 2 /* a late answer of another incarnation does not come twice after so many retries */

/* The responder may have more than was sent since the edge's start: from an arena that is gone, or from before there
 * was an edge. Such a responder answers a repeated packet with an ACK of its last PSN. Packets here before that PSN
 * need not be sent. If f->resumed does not say so, the responder is believed when it ACKs the same PSN twice. */
static void catch_up(struct far_flow *f, uint64_t pos)
{
	if (!f->resumed && pos >= f->pos_tx_max && f->retries >= AHEAD_RETRIES) {
		f->resumed = pos == f->pos_ahead;
		f->pos_ahead = pos;
	}
	if (!f->resumed)
		return;
	if (pos < f->pos_tx_max)
		f->resumed = false; /* the responder is not ahead any more */
	else
		f->pos_tx_max = max_u64(f->pos_tx_max, min_u64(pos + 1, f->pos_rx));
}

static enum proxy_drop rx_ack(struct proxy *p, struct far_flow *f, const struct roce_pkt *pkt)
{
	uint64_t pos = pos_near(f->pos_acked, pkt->psn), upto;

	if ((pkt->aeth_syndrome & AETH_TYPE_MASK) != AETH_ACK)
		return rx_nak(p, f, pkt, pos);
	count(p, CTR_ACKS_RX, 1);
	if (pos + 1 <= f->pos_acked)
		return drop(p, DROP_LAN_ACK_STALE);
	catch_up(f, pos);
	if (pos >= f->pos_tx_max && !f->resumed && !FAULT(FAULT_UNSENT_ACK_TAKEN))
		return drop(p, DROP_LAN_ACK_UNSENT);
	f->pos_ack_seen = max_u64(f->pos_ack_seen, pos + 1);
	upto = far_stop_at_op(p, f, pos + 1);
	far_settle(p, f, upto);
	far_schedule(p, f);
	return DROP_NONE;
}

/* --- which flow an answer is for --- */

/* A second answer at another PSN confirms a provisional pair. */
static void confirm_pair(struct proxy *p, struct far_flow *f, uint64_t before)
{
	if (f->pairing != PAIR_PROVISIONAL || f->pos_acked == before || before == f->pos_base)
		return;
	f->pairing = PAIR_CONFIRMED;
	f->pair_due = true;
	far_store(p, f);
	far_report(p, f, false);
}

/* rx_ack(), for a flow whose first answer was a response: the MSN of an ACK counts exactly the messages up to its PSN,
 * that of a NAK those before its PSN. The MSN is noted first, as rx_ack() may store f: a responder that has no more to
 * acknowledge would never tell the MSN again. */
static enum proxy_drop rx_ack_counting(struct proxy *p, struct far_flow *f, const struct roce_pkt *pkt, uint64_t at_pos)
{
	uint64_t was_pos = f->pair_at_pos;
	uint32_t was_msn = f->pair_msn;
	enum pair_count was = f->pair_count;
	enum proxy_drop d;

	f->pair_at_pos = at_pos + ((pkt->aeth_syndrome & AETH_TYPE_MASK) == AETH_ACK);
	f->pair_msn = pkt->aeth_msn;
	f->pair_count = COUNT_EXACT;
	d = rx_ack(p, f, pkt);
	if (d != DROP_NONE) {
		f->pair_at_pos = was_pos;
		f->pair_msn = was_msn;
		f->pair_count = was;
	} else if (was == COUNT_LATE) {
		f->pair_due = true;
		far_store(p, f);
		far_report(p, f, true);
	}
	return d;
}

/* The position that a first answer is about. For a response it is the start of its READ. */
static uint64_t answered_pos(const struct far_flow *f, const struct roce_pkt *pkt)
{
	uint64_t pos = pos_near(f->pos_acked, pkt->psn), start = pos;

	if (pkt->opcode == RC_ACK)
		return pos;
	for (const struct dnode *n = f->ops.next; n != &f->ops; n = n->next) {
		const struct rd_op *op = dlist_entry(n, struct rd_op, node);

		if (op->pos > pos)
			break;
		start = op->pos;
	}
	return start;
}

/* True if no answer to the flow is under way. */
static bool asks_nothing(const struct far_flow *f)
{
	return f->pos_tx_max <= f->pos_acked && !f->nops && !f->nagains;
}

enum proxy_drop far_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	struct far_flow *f = FAULT(FAULT_PAIRED_QPN_PROBED) ? NULL : pair_find(p, &pkt->dst, &pkt->src, pkt->dest_qpn);
	enum pair_answer_to to;
	bool first = false;
	enum proxy_drop d;
	uint64_t before, at_pos;

	if ((!f || asks_nothing(f)) && end_to_end_asked(p, &pkt->dst, &pkt->src) && !FAULT(FAULT_END_TO_END_CLAIMED))
		return raw_rx(p, l3, pkt, vlan_tci); /* perhaps an answer to a request without a flow */
	to = f ? pair_answer_to(p, f, pkt) : PAIR_ANSWER_TO_PROBED;
	if (to == PAIR_ANSWER_AMBIGUOUS)
		return drop(p, DROP_LAN_ACK_UNMATCHED);
	if (to == PAIR_ANSWER_TO_PROBED) {
		f = pair_claim(p, pkt);
		first = f != NULL;
	}
	if (!f && FAULT(FAULT_PAIRED_QPN_PROBED))
		f = pair_find(p, &pkt->dst, &pkt->src, pkt->dest_qpn);
	if (!f)
		return drop(p, DROP_LAN_ACK_UNMATCHED);
	f->forward_only = !pkt->migreq;
	before = f->pos_acked;
	at_pos = answered_pos(f, pkt);
	if (first && !FAULT(FAULT_PAIR_STORED_HALF)) /* rx_ack() may store f: after a kill no pair is told */
		learn_pair(f, pkt, at_pos);
	if (pkt->opcode == RC_ACK && !first && f->pair_count != COUNT_BY_ACK)
		d = rx_ack_counting(p, f, pkt, at_pos);
	else if (pkt->opcode == RC_ACK)
		d = rx_ack(p, f, pkt);
	else
		d = far_rx_response(p, f, l3, pkt, vlan_tci);
	if (first && !f->lost_pos)
		far_lost_over(p, f);
	if (first) {
		if (FAULT(FAULT_PAIR_STORED_HALF))
			learn_pair(f, pkt, at_pos);
		f->pair_due = true;
		far_store(p, f);
		far_report(p, f, true);
	} else {
		confirm_pair(p, f, before);
	}
	return d;
}
