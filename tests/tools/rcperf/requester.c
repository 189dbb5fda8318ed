// SPDX-License-Identifier: Apache-2.0
/* requester.c - the sending side of a QP.
 *
 * Theory of operation
 *
 * Messages are posted into a ring of `depth`; each owns one position per packet (a READ one per response packet). What
 * the responder says settles positions from the bottom: an ACK everything up to its PSN, a NAK everything below. The
 * next packet to send is pos_nxt; going back (NAK, timeout, RNR NAK over, an answer that skipped one) sets it to
 * pos_una and everything from there is sent again. A WRITE or SEND goes on in the middle; a READ is requested again for
 * the part that is missing, at that part's PSN.
 *
 * READs and atomics are settled only by their own responses. An ACK, or a response of a later one, that arrives while
 * one is unanswered says that its response was lost: an implied NAK (IBTA 9.9.2.4.2).
 *
 * Retries are finite: retry_cnt for NAKs and timeouts, rnr_retry for RNR NAKs, both full again after any progress. */
#include "requester.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "pattern.h"

enum {
	ACK_REQ_EVERY = 64, /* packets of a long message between requests for an ACK */
	ADAPTIVE_FIRST_MS = 2,
	ADAPTIVE_STEPS = 3, /* 2, 4, 8, 16 ms */
};

int req_init(struct engine *e, struct qp *qp, uint32_t psn_base)
{
	struct requester *r = &qp->req;

	*r = (struct requester){.psn_base = psn_base, .went_back_to = NEVER};
	r->depth = plan_depth(&e->plan, e->opt->depth);
	r->ring_size = 1;
	while (r->ring_size < r->depth)
		r->ring_size *= 2;
	r->ring = calloc(r->ring_size, sizeof(*r->ring));
	return r->ring == NULL ? -ENOMEM : 0;
}

void req_free(struct requester *r)
{
	free(r->ring);
	r->ring = NULL;
}

static struct msg *msg_at(const struct requester *r, uint64_t no)
{
	return &r->ring[no & (r->ring_size - 1)];
}

static bool own_response(const struct msg *m)
{
	return rc_op_is_read(m->plan.op) || rc_op_is_atomic(m->plan.op);
}

static uint32_t psn_of(const struct requester *r, uint64_t pos)
{
	return (uint32_t)(r->psn_base + pos) & ROCE_PSN_MASK;
}

/* The position nearest to pos_una that has this PSN; may lie below 0. */
static int64_t pos_of(const struct requester *r, uint32_t psn)
{
	return (int64_t)r->pos_una + psn_diff(psn, psn_of(r, r->pos_una));
}

/* ---- posting ---- */

/* Works out what an atomic must find, and what it leaves. One compare in four is meant to fail. */
static void plan_atomic(struct requester *r, struct msg *m)
{
	uint64_t *word = &r->words[m->plan.word];

	m->expected_orig = *word;
	m->compare = *word;
	if (m->plan.op == OP_FADD)
		*word += m->plan.operand;
	else if (m->no % 4 == 3)
		m->compare = ~*word;
	else
		*word = m->plan.operand;
}

static void post_one(struct engine *e, struct requester *r)
{
	struct msg *m = msg_at(r, r->msg_end);

	m->no = r->msg_end++;
	plan_get(&e->plan, m->no, &m->plan);
	m->pos = r->pos_end;
	m->npos = rc_op_is_atomic(m->plan.op) ? 1 : roce_read_psns(m->plan.len, e->pmtu);
	m->epoch = r->epoch - 1;
	m->read_pos = m->pos;
	m->posted_ns = e->now_ns;
	if (rc_op_is_atomic(m->plan.op))
		plan_atomic(r, m);
	r->pos_end += m->npos;
	e->stats.msgs_posted++;
}

static void post(struct engine *e, struct requester *r)
{
	while (r->msg_end < r->goal && r->msg_end - r->msg_una < r->depth)
		post_one(e, r);
}

/* ---- timers ---- */

static uint64_t timeout_ns(const struct engine *e, const struct requester *r)
{
	uint32_t doublings = r->retries < ADAPTIVE_STEPS ? r->retries : ADAPTIVE_STEPS;

	if (e->opt->adaptive_retrans)
		return (uint64_t)ADAPTIVE_FIRST_MS * 1000000u << doublings;
	return e->opt->timeout_ns;
}

static void arm(struct engine *e, struct requester *r)
{
	r->deadline_ns = e->now_ns + timeout_ns(e, r);
	engine_wake_at(e, r->deadline_ns);
}

static void go_back(struct engine *e, struct qp *qp)
{
	struct requester *r = &qp->req;

	r->pos_nxt = r->pos_una;
	r->msg_cur = r->msg_una;
	r->epoch++;
	r->reads_out = 0;
	r->deadline_ns = 0;
	r->went_back_to = r->pos_una;
	engine_mark_ready(e, qp);
}

static void fail(struct engine *e, struct qp *qp, const char *why)
{
	struct requester *r = &qp->req;

	r->failed = true;
	r->deadline_ns = 0;
	r->rnr_until_ns = 0;
	engine_fail(e, "QP %u (QPN 0x%x to 0x%x): %s at PSN 0x%06x, message %llu", qp->index, qp->qpn,
	            qp->head.dest_qpn, why, psn_of(r, r->pos_una), (unsigned long long)r->msg_una);
}

/* ConnectX repeats early and often, but gives up no sooner than it would with the timeout it was given. */
static bool exhausted(const struct engine *e, const struct requester *r)
{
	if (r->retries < e->opt->retry)
		return false;
	return !e->opt->adaptive_retrans || e->now_ns - r->progress_ns >= e->opt->retry * e->opt->timeout_ns;
}

/* NAK or timeout: goes back, as long as there are retries left. */
static void retry(struct engine *e, struct qp *qp, const char *last_words)
{
	struct requester *r = &qp->req;

	if (exhausted(e, r)) {
		fail(e, qp, last_words);
		return;
	}
	r->retries++;
	e->stats.retries++;
	go_back(e, qp);
}

uint64_t req_timer(struct engine *e, struct qp *qp)
{
	struct requester *r = &qp->req;

	if (r->failed)
		return NEVER;
	if (r->rnr_until_ns != 0) {
		if (e->now_ns < r->rnr_until_ns)
			return r->rnr_until_ns;
		r->rnr_until_ns = 0;
		engine_mark_ready(e, qp);
	}
	if (r->deadline_ns != 0 && e->now_ns >= r->deadline_ns) {
		e->stats.timeouts++;
		retry(e, qp, "retries exhausted, the responder does not answer");
	}
	return r->deadline_ns != 0 ? r->deadline_ns : NEVER;
}

/* ---- sending ---- */

static uint8_t data_opcode(const struct msg *m, bool first, bool last)
{
	bool write = rc_op_writes(m->plan.op);
	unsigned base = write ? RC_WRITE_FIRST : RC_SEND_FIRST;
	unsigned imm = last && rc_op_has_imm(m->plan.op) ? 1 : 0;

	if (first && last)
		return (uint8_t)(base + (RC_SEND_ONLY - RC_SEND_FIRST) + imm);
	if (last)
		return (uint8_t)(base + (RC_SEND_LAST - RC_SEND_FIRST) + imm);
	return (uint8_t)(base + (first ? 0 : RC_SEND_MIDDLE - RC_SEND_FIRST));
}

static uint32_t rkey_for(const struct engine *e, const struct requester *r, const struct msg *m)
{
	return (int64_t)m->no == e->opt->bad_rkey_at ? ~r->peer_rkey : r->peer_rkey;
}

static void send_data(struct engine *e, struct qp *qp, const struct msg *m)
{
	struct requester *r = &qp->req;
	struct roce_pkt p = qp->head;
	uint64_t off = (r->pos_nxt - m->pos) * e->pmtu;
	bool last = r->pos_nxt + 1 == m->pos + m->npos;
	uint32_t len = last ? m->plan.len - (uint32_t)off : e->pmtu;
	uint8_t *payload;

	p.opcode = data_opcode(m, off == 0, last);
	p.psn = psn_of(r, r->pos_nxt);
	p.ack_req = last || r->pos_nxt % ACK_REQ_EVERY == ACK_REQ_EVERY - 1;
	p.reth_va = r->peer_va + (uint64_t)m->plan.slot * e->plan.slot_bytes;
	p.reth_rkey = rkey_for(e, r, m);
	p.reth_len = m->plan.len;
	p.imm = (uint32_t)m->no;
	payload = engine_payload(e, qp, p.opcode);
	pat_fill(payload, len, pat_base(r->seed, m->no), off);
	if (last && len > 0 && (int64_t)m->no == e->opt->bad_byte_at)
		payload[len - 1] ^= 1;
	engine_send(e, &p, payload, len);
	r->pos_nxt++;
}

static void send_read(struct engine *e, struct qp *qp, struct msg *m)
{
	struct requester *r = &qp->req;
	struct roce_pkt p = qp->head;
	uint64_t off = (r->pos_nxt - m->pos) * e->pmtu;

	p.opcode = RC_READ_REQUEST;
	p.psn = psn_of(r, r->pos_nxt);
	p.ack_req = true;
	p.reth_va = r->peer_va + (uint64_t)m->plan.slot * e->plan.slot_bytes + off;
	p.reth_rkey = rkey_for(e, r, m);
	p.reth_len = m->plan.len - (uint32_t)off;
	m->read_pos = r->pos_nxt;
	engine_send(e, &p, NULL, 0);
	r->pos_nxt = m->pos + m->npos;
}

static void send_atomic(struct engine *e, struct qp *qp, const struct msg *m)
{
	struct requester *r = &qp->req;
	struct roce_pkt p = qp->head;

	p.opcode = m->plan.op == OP_FADD ? RC_FETCH_ADD : RC_CMP_SWAP;
	p.psn = psn_of(r, r->pos_nxt);
	p.ack_req = true;
	p.atomic_va = r->peer_va + (uint64_t)e->plan.nslots * e->plan.slot_bytes + 8 * m->plan.word;
	p.atomic_rkey = rkey_for(e, r, m);
	p.atomic_swap_add = m->plan.operand;
	p.atomic_compare = m->plan.op == OP_FADD ? 0 : m->compare;
	engine_send(e, &p, NULL, 0);
	r->pos_nxt++;
}

static void send_packet(struct engine *e, struct qp *qp, struct msg *m)
{
	struct requester *r = &qp->req;

	if (r->pos_nxt < r->pos_max)
		e->stats.packets_resent++;
	if (own_response(m)) {
		m->epoch = r->epoch;
		r->reads_out++;
	}
	if (rc_op_is_read(m->plan.op))
		send_read(e, qp, m);
	else if (rc_op_is_atomic(m->plan.op))
		send_atomic(e, qp, m);
	else
		send_data(e, qp, m);
	if (r->started <= m->no)
		r->started = m->no + 1;
	if (r->pos_max < r->pos_nxt)
		r->pos_max = r->pos_nxt;
	if (r->pos_nxt == m->pos + m->npos)
		r->msg_cur++;
	if (r->deadline_ns == 0) {
		if (r->retries == 0)
			r->progress_ns = e->now_ns;
		arm(e, r);
	}
}

static bool may_send(const struct engine *e, const struct requester *r)
{
	if (r->failed || r->rnr_until_ns != 0 || r->msg_cur == r->msg_end)
		return false;
	return r->reads_out < e->opt->rd_atomic || !own_response(msg_at(r, r->msg_cur));
}

bool req_pump(struct engine *e, struct qp *qp, unsigned budget)
{
	struct requester *r = &qp->req;

	post(e, r);
	while (may_send(e, r)) {
		if (budget-- == 0 || !engine_tx_room(e))
			return true;
		send_packet(e, qp, msg_at(r, r->msg_cur));
	}
	return false;
}

/* ---- answers ---- */

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
		arm(e, r);
	engine_mark_ready(e, qp);
}

static void complete(struct engine *e, struct requester *r, struct msg *m)
{
	if (own_response(m) && m->epoch == r->epoch)
		r->reads_out--;
	r->pos_una = m->pos + m->npos;
	r->msg_una++;
	e->stats.msgs_done++;
	e->stats.bytes_done += m->plan.len;
	meter_add(&e->done, e->now_ns, m->plan.len);
	hist_add(&e->latency, e->now_ns - m->posted_ns);
}

/* Settles all positions below `upto` as far as ACKs can. False if a READ or atomic is in the way. */
static bool settle(struct engine *e, struct qp *qp, uint64_t upto)
{
	struct requester *r = &qp->req;
	uint64_t before = r->pos_una;
	bool clear = true;

	while (r->pos_una < upto && r->msg_una < r->msg_end) {
		struct msg *m = msg_at(r, r->msg_una);

		if (own_response(m)) {
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
	go_back(e, qp);
}

/* After settling what an ACK or NAK settles, the MSN must be the number of messages completed; a READ counts as soon as
 * the responder begins it. */
static void check_msn(struct engine *e, const struct requester *r, uint32_t msn)
{
	uint32_t want = (uint32_t)r->msg_una & ROCE_PSN_MASK;
	bool read_next = r->msg_una < r->msg_end && own_response(msg_at(r, r->msg_una));

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
		fail(e, qp, "RNR retries exhausted, the responder posts no receives");
		return;
	}
	go_back(e, qp);
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
		retry(e, qp, "retries exhausted, the responder asks for the same packet again and again");
	} else {
		fail(e, qp, nak_text(syndrome));
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

	while (r->msg_una < r->msg_end && !own_response(msg_at(r, r->msg_una)) &&
	       msg_at(r, r->msg_una)->pos + msg_at(r, r->msg_una)->npos <= pos)
		settle(e, qp, msg_at(r, r->msg_una)->pos + msg_at(r, r->msg_una)->npos);
	m = msg_at(r, r->msg_una);
	if (own_response(m) && pos > r->pos_una)
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

void req_stop(struct requester *r)
{
	if (r->goal > r->msg_end)
		r->goal = r->msg_end;
}

bool req_finished(const struct requester *r)
{
	return r->msg_una == r->goal;
}
