/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * near_ack_schedule() puts a flow on the list proxy.ack_tx, with what is due: an ACK, a sequence NAK or an RNR NAK
 * (enum near_due). ack_tx_next() builds the packet when the port takes packets, so the packet shows the flow's newest
 * state. The first row that applies decides:
 *
 *     a CNP is due                   the CNP; the AETH goes in the next call
 *     near_error.c tells the host    the invalid request
 *     the flow has no pair           nothing; in doubt an RNR NAK (near_may_back_pressure())
 *     the flow has failed            the responder's NAK once more; silence, if the responder was silent
 *     repeated responses are owed    an RNR NAK for a response that is read again; else nothing, since an ACK would be
 *                                    an implied NAK of the responses
 *     MSN_LATE                       an RNR NAK; neither an ACK nor a sequence NAK, since their MSN may be wrong
 *     ACK                            of everything before the ceiling; but the ACK stops in front of a READ or ATOMIC
 *                                    whose answer the host may lack (answer_in_doubt())
 *     sequence NAK                   at pos_next, or at the ceiling if that is lower
 *     RNR NAK                        at the same position, with a wait (rnr_syndrome()); an ACK or nothing where the
 *                                    host must not or need not get an RNR NAK
 *
 * Before a packet leaves that acknowledges more than before, near_acked() stores the descriptor where a rebuild would
 * not know that position otherwise.
 *
 * Every packet looks like the responder's own: its header fields come from the flow's template, which is an ACK of the
 * responder or was built from CM messages. */
#include "ack_tx.h"

#include "near_priv.h"
#include "proxy/util/probe.h"
#include "proxy/wan/share.h"
#include "proxy/wan/wan_path.h"

/* 0.64 ms: short against a host's patience, long against a LAN round trip. IBTA table 45. */
#define RNR_WAIT_MIN_NS 640000ull
#define RNR_WAIT_MAX_NS 10240000ull
#define SILENT_AFTER_NS 10000000000ull /* for so long RNR NAKs are sent for a stalled responder, which may go on */
#define RNR_DOUBLINGS   4
#define RNR_QUIET_NS    300000ull    /* one RNR NAK for all packets of a burst */
#define RNR_WAIT_CUT_NS 122880000ull /* while the other edge does not answer */
#define RNR_CUT_MIN_NS  2560000ull
#define COUNT_WAIT_NS   100000000ull /* less than hosts are known to stand without an answer (ConnectX: 7 x 16 ms) */
#define CNP_GAP_NS      50000ull     /* a reaction point cuts its rate once in so long: more CNPs have no effect */
#define MANY            256          /* flows that want the line */

static uint32_t msn_on_wire(const struct near_flow *f, uint32_t relative)
{
	return (f->msn_offset + relative + (FAULT(FAULT_WRONG_MSN) ? 1 : 0)) & ROCE_PSN_MASK;
}

/* Counts one more RNR NAK at this ceiling. False: the host's RNR Retry Count (told by CM) is used up, and one more RNR
 * NAK without progress would fail its QP. Silence is better then, as it uses another retry count. For a host with a
 * finite count only whole messages are progress, so a READ given in part is none. */
static bool may_send_away(const struct proxy *p, struct near_flow *f, uint64_t ceiling)
{
	bool counts = f->rnr_retry != RNR_RETRY_INFINITE;
	const struct rd_op *in = near_op_at(f, ceiling);
	uint32_t msn = near_msn_at(p, f, in ? in->pos : min_u64(f->pos_next, ceiling));

	if (f->rnr_at != ceiling && (!counts || f->rnr_msn != msn))
		f->rnr_row = 0;
	f->rnr_at = ceiling;
	f->rnr_msn = msn;
	if (counts && f->rnr_row >= f->rnr_retry && !FAULT(FAULT_RNR_TO_FINITE))
		return false;
	if (f->rnr_row < UINT8_MAX)
		f->rnr_row++;
	return true;
}

/* The longest wait of an RNR NAK. A requester with infinite RNR retries is to be back within one round trip after room
 * is made; after a cut within two, because making room takes one. A requester with finite RNR retries gets longer
 * waits, so that they last. */
static uint64_t rnr_wait_max_ns(const struct proxy *p, const struct near_flow *f)
{
	uint64_t rtt = proxy_rtt_ns(p);

	if (f->rnr_retry != RNR_RETRY_INFINITE)
		return p->wan_up ? RNR_WAIT_MAX_NS : RNR_WAIT_CUT_NS;
	if (!p->wan_up)
		return clamp_u64(2 * rtt, RNR_CUT_MIN_NS, RNR_WAIT_CUT_NS);
	return clamp_u64(rtt, RNR_WAIT_MIN_NS, RNR_WAIT_MAX_NS);
}

/* Nanoseconds until the answer to a request of asked_ns can be here; when it is late, a quarter of its delay.
 * Never 0. */
static uint64_t answer_after_ns(const struct proxy *p, uint64_t asked_ns)
{
	uint64_t at_ns = asked_ns + proxy_rtt_ns(p);

	return max_u64(at_ns > p->now_ns ? at_ns - p->now_ns : (p->now_ns - at_ns) / 4, 1);
}

/* answer_after_ns() for the oldest open operation. 0: the host waits for no answer, or the time is not known. */
static uint64_t answer_in_ns(const struct proxy *p, const struct near_flow *f)
{
	const struct rd_op *op = near_op_open(f);

	if (!op || !p->wan_up || f->rnr_retry != RNR_RETRY_INFINITE)
		return 0;
	return answer_after_ns(p, op->begun_ns);
}

/* True if the host asks again so shortly before the answer that an RNR NAK, during which the host sends no new
 * requests, would cost more than silence. */
static bool answer_is_near(const struct proxy *p, const struct near_flow *f)
{
	uint64_t answer = answer_in_ns(p, f);

	return answer != 0 && answer < RNR_WAIT_MIN_NS && p->now_ns < near_op_open(f)->begun_ns + 2 * proxy_rtt_ns(p);
}

/* The code of the longest wait that is not more than ns, but RNR_WAIT_MIN_NS at least. */
static uint8_t rnr_code_within(uint64_t ns)
{
	uint8_t code = roce_rnr_timer_code(max_u64(ns, RNR_WAIT_MIN_NS));

	return roce_rnr_timer_ns(code) > ns && roce_rnr_timer_ns((uint8_t)(code - 1)) >= RNR_WAIT_MIN_NS
	           ? (uint8_t)(code - 1)
	           : code;
}

static bool many_want_the_line(const struct proxy *p)
{
	return (p->cfg.nshards == 1 ? p->near_wanting : wan_line_flows(p)) >= MANY;
}

/* A host whose flow has much to send should not come back for every bit of room that a report brings, because each time
 * everything that the host has under way is lost. While the line is full the wait is the time in which half of the
 * flow's backlog drains at the flow's latest rate, at most RNR_WAIT_MAX_NS, for the flow gets faster once others stop.
 * With only the eighth below, hosts sent 3.38 packets for each one delivered (10 QPs of 256 KiB each, 8 MiB, 1 Gbit/s,
 * 300 km). If MANY flows want the line, others fill it when one of them runs dry, so three quarters may drain: 1.90
 * packets instead of 2.12 (1,000 QPs, 1 GiB, 400 Gbit/s). With few flows that wait took 10 % from the newer of them
 * (lrsim --fair dead-near). While the line is not full the flow may be slow for want of room, and a longer wait would
 * keep it slow (lrsim --fair dead-small). In any case the wait is at least the time of an eighth of the backlog at the
 * line's rate. */
static uint64_t backlog_ns(const struct proxy *p, const struct near_flow *f)
{
	double bytes = (double)near_unsent(f);
	uint64_t rate = f->share.last_bytes ? share_rate(p, &f->share) : 0; /* known after a whole span, not before */
	uint64_t eighth = (uint64_t)(bytes / 8 * 8e9 / (double)p->cfg.rate_hint_bps), most = 0;

	if (!f->rnr_back_pressure || !p->wan_up || f->rnr_retry != RNR_RETRY_INFINITE)
		return 0;
	if (rate && near_turn_line_full(p) && !near_turn_quantum(p))
		most = (uint64_t)(bytes / 4 * (many_want_the_line(p) ? 3 : 2) * 1e9 / (double)rate);
	return min_u64(max_u64(eighth, min_u64(most, RNR_WAIT_MAX_NS)), RNR_WAIT_CUT_NS);
}

/* The AETH syndrome with the wait of an RNR NAK: about the time until a report can bring room, doubled each time that
 * the host comes back in vain. A host that waits for an answer is to be back when the answer comes, or before: while
 * away it sends no new requests. */
static uint8_t rnr_syndrome(struct proxy *p, struct near_flow *f)
{
	uint64_t longest = rnr_wait_max_ns(p, f), wait = max_u64(proxy_rtt_ns(p) / 2, RNR_WAIT_MIN_NS);
	uint64_t answer = answer_in_ns(p, f);

	if (answer)
		return (uint8_t)(AETH_RNR_NAK | rnr_code_within(min_u64(answer, longest)));
	wait <<= f->rnr_row < RNR_DOUBLINGS ? f->rnr_row - 1 : RNR_DOUBLINGS;
	wait = p->wan_up ? max_u64(min_u64(wait, longest), backlog_ns(p, f)) : longest;
	if (f->rnr_back_pressure && p->wan_up && f->rnr_retry == RNR_RETRY_INFINITE)
		wait = max_u64(wait, near_turn_book(p, f));
	near_turn_away(p, f, roce_rnr_timer_ns(roce_rnr_timer_code(wait)));
	return (uint8_t)(AETH_RNR_NAK | roce_rnr_timer_code(wait));
}

/* Fills pkt like the responder's own packets, from the template: MigReq, P_Key, DSCP, addresses, source port. */
static bool as_responder(const struct near_flow *f, struct roce_pkt *pkt)
{
	if (roce_parse(f->template, f->template_len, pkt) != DROP_NONE || pkt->opcode != RC_ACK)
		return false;
	pkt->dest_qpn = f->requester_qpn;
	if (FAULT(FAULT_TEMPLATE_IGNORED))
		pkt->pkey = 0xffff, pkt->migreq = true, pkt->tos = 0;
	pkt->ttl = 64;
	pkt->ack_req = false;
	return true;
}

static size_t to_host(const struct near_flow *f, struct roce_pkt *pkt, size_t payload_len, struct lan_tx *tx)
{
	static const uint8_t zeroes[ROCE_CNP_PAYLOAD];

	tx->hdr_len = (uint16_t)roce_build(tx->hdr, sizeof(tx->hdr), pkt, zeroes, payload_len);
	tx->body_len = tx->trailer_len = 0;
	tx->body = NULL;
	tx->vlan_tci = f->vlan_tci;
	tx->dst = f->src;
	tx->dscp_ecn = pkt->tos;
	return tx->hdr_len;
}

static size_t build(const struct near_flow *f, uint64_t psn_pos, uint8_t syndrome, uint32_t msn, struct lan_tx *tx)
{
	struct roce_pkt pkt;

	if (!as_responder(f, &pkt))
		return 0;
	pkt.psn = pos_psn(psn_pos);
	pkt.aeth_syndrome = FAULT(FAULT_AETH_CREDIT_SENT) && syndrome == AETH_ACK_NO_CREDITS ? 1 : syndrome;
	pkt.aeth_msn = msn;
	PROBE5(ack_tx, f->idx, f->requester_qpn, pkt.psn, syndrome, msn);
	return to_host(f, &pkt, 0, tx);
}

/* IBTA A17.9.3: opcode 0x81, BECN, PSN 0, 16 reserved bytes. A CNP answers no PSN and acknowledges nothing, so the
 * ceiling does not apply. The CNP is sent as not ECN-capable: no host answers a mark on a CNP. */
static size_t build_cnp(struct proxy *p, struct near_flow *f, struct lan_tx *tx)
{
	struct roce_pkt pkt;

	f->cnp_due = false;
	if (!as_responder(f, &pkt))
		return 0;
	pkt.opcode = ROCE_CNP;
	pkt.becn = true;
	pkt.psn = 0;
	pkt.tos &= (uint8_t)~ECN_MASK;
	f->cnp_sent_ns = p->now_ns;
	count(p, CTR_CNPS_TX, 1);
	return to_host(f, &pkt, ROCE_CNP_PAYLOAD, tx);
}

void ack_tx_cnp(struct proxy *p, struct near_flow *f)
{
	if (f->state == NEAR_FAILED || !f->template_len || f->pairing == PAIR_LEARNING ||
	    (f->cnp_sent_ns && p->now_ns < f->cnp_sent_ns + CNP_GAP_NS))
		return;
	f->cnp_due = true;
	near_ack_schedule(p, f, f->due);
}

/* The invalid request without payload by which an idle host is told of a failure: near_error.c. */
static size_t build_invalid_request(struct near_flow *f, struct lan_tx *tx)
{
	struct roce_pkt pkt;

	f->tell = TELL_TRYING;
	if (!as_responder(f, &pkt))
		return 0;
	pkt.opcode = f->error_tries & 1 ? RC_SEND_MIDDLE : RC_WRITE_MIDDLE;
	pkt.psn = f->error_psn;
	pkt.ack_req = true;
	return to_host(f, &pkt, 0, tx);
}

/* The first answered READ or ATOMIC below the ceiling in front of which an ACK must stop. There are two cases: the host
 * has gone back to before the request, so it may lack the answer; or the ACK would end on the request, whose own answer
 * acknowledges it already. An ACK with the PSN of such a request completes that request in rxe with the bytes that are
 * in memory (check_ack() of rxe_comp.c), and is an implied NAK elsewhere. The host asks again for what it lacks. The
 * ACK stops in front of a whole row of such requests: else its PSN would be that of the last but one. */
static const struct rd_op *answer_in_doubt(const struct near_flow *f, uint64_t ceiling)
{
	const struct rd_op *run = NULL; /* the first of consecutive operations */
	uint64_t run_end = 0;

	if (FAULT(FAULT_ACK_OVER_ANSWER))
		return NULL;
	for (struct dnode *n = f->ops.next; n != &f->ops; n = n->next) {
		const struct rd_op *op = dlist_entry(n, struct rd_op, node);

		if (op->pos >= ceiling)
			break;
		if (!(roce_op(op->opcode)->flags & ROP_VALID))
			continue; /* an unknown request has no answer but the ACK */
		if (!run || run_end != op->pos)
			run = op;
		run_end = op->pos + op->psns;
		if (op->pos > f->pos_last_rx || run_end == ceiling)
			return run;
	}
	return NULL;
}

static size_t build_ack(struct proxy *p, struct near_flow *f, uint64_t ceiling, struct lan_tx *tx)
{
	const struct rd_op *op = answer_in_doubt(f, ceiling);
	uint64_t upto = op ? op->pos : ceiling;
	uint32_t msn = op ? op->msn - 1 : near_msn_at(p, f, ceiling);

	if (upto == f->pos_base || near_inside_read(f, ceiling))
		return 0;
	if (f->pos_ack_asked <= ceiling)
		f->ack_asked = false;
	if (op && op->pos <= f->pos_last_rx && op->pos < f->pos_acked)
		return 0; /* op's answer has acknowledged everything before */
	near_acked(p, f, upto);
	count(p, CTR_ACKS_TX, 1);
	return build(f, upto - 1 + (FAULT(FAULT_ACK_TOO_FAR) ? 1 : 0), AETH_ACK_NO_CREDITS, msn_on_wire(f, msn), tx);
}

static size_t build_nak(struct proxy *p, struct near_flow *f, uint64_t ceiling, uint8_t syndrome, struct lan_tx *tx)
{
	uint64_t pos = FAULT(FAULT_NAK_TOO_FAR) ? f->pos_next : min_u64(f->pos_next, ceiling);
	uint32_t msn = near_msn_at(p, f, pos);

	if (pos >= f->pos_max && pos > f->pos_base && f->state != NEAR_FAILED)
		return build_ack(p, f, ceiling, tx); /* no NAK of a PSN that the host has not sent */
	near_acked(p, f, pos);
	count(p, (syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK ? CTR_RNR_NAKS_TX : CTR_NAKS_TX, 1);
	return build(f, pos, syndrome, msn_on_wire(f, msn), tx);
}

/* True if no RNR NAK may be sent because the host is taking responses of a READ (IBTA 9.7.7.1.2: a response is due). A
 * host that has asked again from op->next has begun the READ anew: ConnectX may then be sent an RNR NAK, and would give
 * up without one. An rxe host, recognised by MigReq, must not: its completer fails the QP (check_ack() of rxe_comp.c),
 * and its requester never gives up. So it is also for the READ that a flow begins with, if that may be, or is, the rest
 * of a READ whose beginning the host has. */
static bool inside_response(const struct near_flow *f)
{
	const struct rd_op *op = near_op_open(f);
	bool begins = near_may_begin_inside(f) || (f->begins_inside && op && op->pos == f->pos_base);

	if (begins && !f->migreq && !FAULT(FAULT_RNR_IN_REST))
		return true;
	return op && op->next > op->pos && !(op->from == op->next && f->migreq);
}

/* True while repeated responses are owed. Positions behind them are ACKed already, but an ACK before the host has the
 * responses would be an implied NAK of them (IBTA 9.7.5.1.4), and the host would ask once more. */
static bool answering_again(const struct near_flow *f)
{
	return f->repeats != 0;
}

static bool responder_silent(const struct proxy *p, const struct near_flow *f)
{
	/* The responder is silent for good: the edge is silent, too, so that the host notices. */
	if (near_is_stalled(f) && p->now_ns >= f->stalled_ns + SILENT_AFTER_NS)
		return true;
	/* The other site is gone: the edge is silent, so that the host may fail over. */
	return (!p->wan_up && p->now_ns >= p->last_rx_ns + p->cfg.give_up_ns) || FAULT(FAULT_HOLD_BY_SILENCE);
}

/* An RNR NAK for a host that lost responses which are being read again. The PSN of this RNR NAK is the one that the
 * host asked from: the host has everything before, so the RNR NAK acknowledges nothing new. The host waits for the
 * answer and not for room: it gets no turn, and is back when the answer can be here. */
static size_t build_rnr_for_response(struct proxy *p, struct near_flow *f, struct lan_tx *tx)
{
	const struct rd_op *op = near_again_awaited(p, f);
	uint64_t wait;

	if (!op || op->next != op->from || (op->next > op->pos && !f->migreq) || responder_silent(p, f) ||
	    p->now_ns < f->rnr_sent_ns + RNR_QUIET_NS || !may_send_away(p, f, op->next))
		return 0;
	f->rnr_sent_ns = p->now_ns;
	f->notes.n.rnr_sent++;
	count(p, CTR_RNR_NAKS_TX, 1);
	wait = min_u64(answer_after_ns(p, op->again_heard_ns), rnr_wait_max_ns(p, f));
	return build(f, op->next, (uint8_t)(AETH_RNR_NAK | rnr_code_within(wait)),
	             msn_on_wire(f, op->msn - (op->next == op->pos)), tx);
}

/* True while MSN_LATE if an RNR NAK at the ceiling is better not sent, as its MSN would be wrong: the responder's next
 * ACK, of requests behind the ceiling, will tell msn_offset. In front of a READ the responder may never send an ACK. So
 * there the edge is silent for COUNT_WAIT_NS only, in which the READ's response mostly comes; a host that is left
 * without an RNR NAK for longer may give up. */
static bool awaits_count(const struct proxy *p, const struct near_flow *f, uint64_t ceiling)
{
	return f->msn == MSN_LATE && ceiling < f->pos_next &&
	       (!near_op_at(f, ceiling) || p->now_ns < max_u64(f->notes.paired_ns, f->rebuilt_ns) + COUNT_WAIT_NS);
}

size_t ack_tx_next(struct proxy *p, struct near_flow *f, struct lan_tx *tx)
{
	enum near_due due = f->due;
	uint64_t ceiling = near_ceiling(p, f);

	if (f->cnp_due) {
		if (due != DUE_NONE)
			near_ack_schedule(p, f, due); /* the AETH goes in the next call */
		return build_cnp(p, f, tx);
	}
	f->due = DUE_NONE;
	if (f->tell == TELL_DUE)
		return build_invalid_request(f, tx);
	if ((f->pairing == PAIR_LEARNING && !near_may_back_pressure(f, due)) || !f->template_len)
		return 0;
	if (f->state == NEAR_FAILED) /* silence for a silent responder; and no NAK of a PSN that the host has not sent */
		return f->nak_syndrome && ceiling < f->pos_max ? build_nak(p, f, ceiling, f->nak_syndrome, tx) : 0;
	if (answering_again(f)) {
		f->ack_owed = true;
		return due == DUE_RNR ? build_rnr_for_response(p, f, tx) : 0;
	}
	if (f->msn == MSN_LATE && due != DUE_RNR) {
		f->ack_owed = true; /* near_on_pair() schedules a NAK anew when the count is known */
		return 0;
	}
	switch (due) {
	case DUE_ACK:
		return build_ack(p, f, ceiling, tx);
	case DUE_NAK:
		return build_nak(p, f, ceiling, AETH_NAK_PSN_SEQ, tx);
	case DUE_RNR:
		if (responder_silent(p, f) || awaits_count(p, f, ceiling))
			return 0;
		if ((inside_response(f) && !FAULT(FAULT_RNR_IN_READ)) || p->now_ns < f->rnr_sent_ns + RNR_QUIET_NS ||
		    answer_is_near(p, f))
			return ceiling > f->pos_acked ? build_ack(p, f, ceiling, tx) : 0; /* it may have been due as well */
		if (ceiling >= f->pos_max || !may_send_away(p, f, ceiling))
			return build_ack(p, f, ceiling, tx); /* nothing to refuse, or RNR retries are used up */
		f->rnr_sent_ns = p->now_ns;
		f->notes.n.rnr_sent++;
		return build_nak(p, f, ceiling, rnr_syndrome(p, f), tx);
	default:
		return 0;
	}
}

void ack_tx_response(struct proxy *p, struct near_flow *f, uint8_t *aeth, size_t after, uint32_t msn,
                     uint64_t acks_before, uint8_t icrc[4])
{
	uint8_t now[4], diff[4];
	uint32_t crc = (uint32_t)icrc[0] | (uint32_t)icrc[1] << 8 | (uint32_t)icrc[2] << 16 | (uint32_t)icrc[3] << 24;

	now[0] = AETH_ACK_NO_CREDITS;
	put_be24(now + 1, msn_on_wire(f, msn));
	for (int i = 0; i < 4; i++)
		diff[i] = aeth[i] ^ now[i];
	memcpy(aeth, now, 4);
	crc = icrc_patch(crc, diff, 4, after);
	for (int i = 0; i < 4; i++)
		icrc[i] = (uint8_t)(crc >> (8 * i));
	near_acked(p, f, acks_before);
}

size_t ack_tx_template_from_cm(uint8_t *buf, const struct near_cm_info *ci)
{
	struct roce_pkt pkt = {
	    .src = ci->dst,
	    .dst = ci->src,
	    .ip6 = !ip_addr_is4(&ci->src),
	    .tos = ci->responder.tos,
	    .ttl = 64,
	    .udp_sport = (uint16_t)(0xc000 | ((ci->dest_qpn ^ ci->requester_qpn) & 0x3fff)),
	    .opcode = RC_ACK,
	    .migreq = ci->responder.migreq,
	    .pkey = ci->pkey,
	    .dest_qpn = ci->requester_qpn,
	    .psn = ci->start_psn,
	    .aeth_syndrome = AETH_ACK_NO_CREDITS,
	};

	return roce_build(buf, TEMPLATE_MAX, &pkt, NULL, 0);
}
