// SPDX-License-Identifier: Apache-2.0
/* completer.c - what a requester does with the answers: ACKs, NAKs, READ responses, results of atomics.
 *
 * requester.c tells the rules. Each answer is held against what was sent: its PSN (never one that was not sent), its
 * MSN, the opcode that its latest request calls for, its bytes. */
#include <inttypes.h>

#include "engine.h"
#include "pattern.h"

/* The position nearest to pos_una that has this PSN; may lie below 0. */
static int64_t pos_of(const struct requester *r, uint32_t psn)
{
	return (int64_t)r->pos_una + psn_diff(psn, req_psn(r, r->pos_una));
}

static void progress(struct engine *e, struct qp *qp)
{
	struct requester *r = &qp->req;

	if (r->pos_nxt < r->pos_una)
		r->pos_nxt = r->pos_una;
	if (r->msg_cur < r->msg_una)
		r->msg_cur = r->msg_una;
	r->retries = 0;
	r->rnr_retries = 0;
	r->progress_ns = e->now_ns;
	r->went_back_to = NEVER;
	r->deadline_ns = 0;
	if (r->pos_una < r->pos_nxt)
		req_arm(e, r);
	engine_mark_ready(e, qp);
}

static void complete(struct engine *e, struct requester *r, struct msg *m)
{
	if (req_own_response(m) && m->epoch == r->epoch)
		r->reads_out--;
	r->pos_una = m->pos + m->npos;
	r->msg_una++;
	e->stats.msgs_done++;
	e->stats.bytes_done += m->plan.len;
	meter_add(&e->done, e->now_ns, m->plan.len);
	hist_add(&e->latency, e->now_ns - m->posted_ns);
	if (e->times != NULL)
		fprintf(e->times, "%" PRIu64 " %" PRIu64 "\n", m->posted_ns, e->now_ns);
}

/* Settles all positions below `upto` as far as ACKs can. False if a READ or atomic is in the way. */
static bool settle(struct engine *e, struct qp *qp, uint64_t upto)
{
	struct requester *r = &qp->req;
	uint64_t before = r->pos_una;
	bool clear = true;

	while (r->pos_una < upto && r->msg_una < r->msg_end) {
		struct msg *m = req_msg(r, r->msg_una);

		if (req_own_response(m)) {
			clear = false;
			break;
		}
		if (m->pos + m->npos > upto)
			r->pos_una = upto;
		else
			complete(e, r, m);
	}
	if (r->pos_una != before)
		progress(e, qp);
	return clear;
}

static void implied_nak(struct engine *e, struct qp *qp)
{
	struct requester *r = &qp->req;

	if (r->went_back_to == r->pos_una)
		return; /* what comes now may have been under way before */
	e->stats.implied_naks++;
	e->stats.retries++;
	req_go_back(e, qp);
}

/* After settling what an ACK or NAK settles, the MSN must be the number of messages completed; a READ counts as soon as
 * the responder begins it. */
static void check_msn(struct engine *e, const struct requester *r, uint32_t msn)
{
	uint32_t want = (uint32_t)r->msg_una & ROCE_PSN_MASK;
	bool read_next = r->msg_una < r->msg_end && req_own_response(req_msg(r, r->msg_una));

	if (msn != want && !(read_next && msn == ((want + 1) & ROCE_PSN_MASK)))
		e->stats.msn_wrong++;
}

/* A response's MSN lies between its own message and the last one begun. */
static void check_response_msn(struct engine *e, const struct requester *r, const struct msg *m, uint32_t msn)
{
	int32_t over = psn_diff(msn, (uint32_t)(m->no + 1) & ROCE_PSN_MASK);

	if (over < 0 || (uint64_t)over > r->started - (m->no + 1))
		e->stats.msn_wrong++;
}

static void take_ack(struct engine *e, struct qp *qp, uint64_t pos, uint32_t msn)
{
	e->stats.acks_rx++;
	if (settle(e, qp, pos + 1))
		check_msn(e, &qp->req, msn);
	else
		implied_nak(e, qp);
}

static void take_rnr_nak(struct engine *e, struct qp *qp, uint8_t timer)
{
	struct requester *r = &qp->req;

	e->stats.rnr_rx++;
	if (e->opt->rnr_retry != RETRY_INFINITE && r->rnr_retries++ >= e->opt->rnr_retry) {
		req_fail(e, qp, "RNR retries exhausted, the responder posts no receives");
		return;
	}
	req_go_back(e, qp);
	r->rnr_until_ns = e->now_ns + roce_rnr_timer_ns(timer);
	engine_wake_at(e, r->rnr_until_ns);
}

static const char *nak_text(uint8_t syndrome)
{
	switch (syndrome) {
	case AETH_NAK_INV_REQ:
		return "remote invalid request error";
	case AETH_NAK_REM_ACCESS:
		return "remote access error";
	case AETH_NAK_REM_OP:
		return "remote operation error";
	default:
		return "NAK of an unknown kind";
	}
}

static void take_nak(struct engine *e, struct qp *qp, uint64_t pos, const struct roce_pkt *pkt)
{
	uint8_t syndrome = pkt->aeth_syndrome;

	if (settle(e, qp, pos))
		check_msn(e, &qp->req, pkt->aeth_msn);
	if ((syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK) {
		take_rnr_nak(e, qp, syndrome & 0x1f);
	} else if (syndrome == AETH_NAK_PSN_SEQ) {
		e->stats.naks_rx++;
		req_retry(e, qp, "retries exhausted, the responder asks for the same packet again and again");
	} else {
		req_fail(e, qp, nak_text(syndrome));
	}
}

/* The opcode that a response packet at pos must have, as its latest request frames it. */
static uint8_t read_opcode(const struct msg *m, uint64_t pos)
{
	bool last = pos + 1 == m->pos + m->npos;

	if (pos == m->read_pos)
		return last ? RC_READ_RESP_ONLY : RC_READ_RESP_FIRST;
	return last ? RC_READ_RESP_LAST : RC_READ_RESP_MIDDLE;
}

static bool read_bytes_right(const struct engine *e, const struct requester *r, const struct msg *m,
                             const uint8_t *data, uint32_t len)
{
	uint64_t off = (r->pos_una - m->pos) * e->pmtu;
	uint64_t base = m->plan.source == PLAN_INITIAL ? pat_base(r->peer_init_seed, m->plan.slot)
	                                               : pat_base(r->seed, m->plan.source);

	return pat_check(data, len, base, off);
}

static void take_read_packet(struct engine *e, struct qp *qp, struct msg *m, const uint8_t *l3,
                             const struct roce_pkt *pkt)
{
	struct requester *r = &qp->req;
	uint8_t want = read_opcode(m, r->pos_una);
	uint64_t off = (r->pos_una - m->pos) * e->pmtu;
	uint32_t left = m->plan.len - (uint32_t)off;

	if (pkt->opcode != want && r->pos_una == m->read_pos && r->pos_una > m->pos) {
		e->stats.resp_stale++;
		return;
	}
	if (pkt->opcode != want || pkt->payload_len != (left < e->pmtu ? left : e->pmtu)) {
		e->stats.resp_malformed++;
		return;
	}
	if ((roce_op(pkt->opcode)->flags & ROP_AETH) != 0)
		check_response_msn(e, r, m, pkt->aeth_msn);
	if (read_bytes_right(e, r, m, l3 + pkt->hdr_len, pkt->payload_len))
		e->stats.read_bytes_verified += pkt->payload_len;
	else
		e->stats.read_wrong++;
	r->pos_una++;
	if (r->pos_una == m->pos + m->npos)
		complete(e, r, m);
	progress(e, qp);
}

static void take_atomic(struct engine *e, struct qp *qp, struct msg *m, const struct roce_pkt *pkt)
{
	check_response_msn(e, &qp->req, m, pkt->aeth_msn);
	if (pkt->atomic_orig != m->expected_orig)
		e->stats.atomic_wrong++;
	complete(e, &qp->req, m);
	progress(e, qp);
}

/* A READ response or ATOMIC ACK: settles what was before its message, then takes it if it is the next one. */
static void take_response(struct engine *e, struct qp *qp, uint64_t pos, const uint8_t *l3, const struct roce_pkt *pkt)
{
	struct requester *r = &qp->req;
	struct msg *m;

	while (r->msg_una < r->msg_end && !req_own_response(req_msg(r, r->msg_una)) &&
	       req_msg(r, r->msg_una)->pos + req_msg(r, r->msg_una)->npos <= pos)
		settle(e, qp, req_msg(r, r->msg_una)->pos + req_msg(r, r->msg_una)->npos);
	m = req_msg(r, r->msg_una);
	if (req_own_response(m) && pos > r->pos_una)
		implied_nak(e, qp);
	else if (rc_op_is_read(m->plan.op) && pkt->opcode != RC_ATOMIC_ACK)
		take_read_packet(e, qp, m, l3, pkt);
	else if (rc_op_is_atomic(m->plan.op) && pkt->opcode == RC_ATOMIC_ACK)
		take_atomic(e, qp, m, pkt);
	else
		e->stats.resp_malformed++;
}

static bool is_nak(const struct roce_pkt *pkt)
{
	return pkt->opcode == RC_ACK && (pkt->aeth_syndrome & AETH_TYPE_MASK) != AETH_ACK;
}

void req_response(struct engine *e, struct qp *qp, const uint8_t *l3, const struct roce_pkt *pkt)
{
	struct requester *r = &qp->req;
	int64_t pos = pos_of(r, pkt->psn);

	if (r->failed)
		return;
	if (pos >= (int64_t)r->pos_max)
		e->stats.ghost_acks++;
	else if (pos < (int64_t)r->pos_una)
		e->stats.acks_stale++;
	else if (is_nak(pkt))
		take_nak(e, qp, (uint64_t)pos, pkt);
	else if (pkt->opcode == RC_ACK)
		take_ack(e, qp, (uint64_t)pos, pkt->aeth_msn);
	else
		take_response(e, qp, (uint64_t)pos, l3, pkt);
}
