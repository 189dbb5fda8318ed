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
	struct msg *m = req_msg(r, r->msg_end);

	m->no = r->msg_end++;
	plan_get(&e->plan, m->no, &m->plan);
	m->pos = r->pos_end;
	m->npos = rc_op_is_atomic(m->plan.op) ? 1 : roce_read_psns(m->plan.len, e->pmtu);
	m->epoch = r->epoch - 1;
	m->read_pos = m->pos;
	m->posted_ns = e->opt->every_ns ? r->first_ns + m->no * e->opt->every_ns : e->now_ns;
	if (rc_op_is_atomic(m->plan.op))
		plan_atomic(r, m);
	r->pos_end += m->npos;
	e->stats.msgs_posted++;
}

static bool has_room(const struct requester *r)
{
	return r->msg_end < r->goal && r->msg_end - r->msg_una < r->depth;
}

/* When the next message may be posted: 0 at once, NEVER without room. */
static uint64_t next_due_ns(const struct engine *e, const struct requester *r)
{
	if (!has_room(r))
		return NEVER;
	return r->first_ns && e->opt->every_ns ? r->first_ns + r->msg_end * e->opt->every_ns : 0;
}

static void post(struct engine *e, struct requester *r)
{
	if (r->first_ns == 0)
		r->first_ns = e->now_ns;
	while (next_due_ns(e, r) <= e->now_ns)
		post_one(e, r);
	engine_wake_at(e, next_due_ns(e, r));
}

/* NEVER: not before something else happens. */
static uint64_t post_timer(struct engine *e, struct qp *qp)
{
	uint64_t due_ns = qp->req.first_ns != 0 ? next_due_ns(e, &qp->req) : NEVER;

	if (due_ns > e->now_ns)
		return due_ns;
	engine_mark_ready(e, qp);
	return NEVER;
}

/* ---- timers ---- */

static uint64_t timeout_ns(const struct engine *e, const struct requester *r)
{
	uint32_t doublings = r->retries < ADAPTIVE_STEPS ? r->retries : ADAPTIVE_STEPS;

	if (e->opt->adaptive_retrans)
		return (uint64_t)ADAPTIVE_FIRST_MS * 1000000u << doublings;
	return e->opt->timeout_ns;
}

void req_arm(struct engine *e, struct requester *r)
{
	r->deadline_ns = e->now_ns + timeout_ns(e, r);
	engine_wake_at(e, r->deadline_ns);
}

void req_go_back(struct engine *e, struct qp *qp)
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

void req_fail(struct engine *e, struct qp *qp, const char *why)
{
	struct requester *r = &qp->req;

	r->failed = true;
	r->deadline_ns = 0;
	r->rnr_until_ns = 0;
	engine_fail(e, "QP %u (QPN 0x%x to 0x%x): %s at PSN 0x%06x, message %llu", qp->index, qp->qpn,
	            qp->head.dest_qpn, why, req_psn(r, r->pos_una), (unsigned long long)r->msg_una);
}

/* ConnectX repeats early and often, but gives up no sooner than it would with the timeout it was given. */
static bool exhausted(const struct engine *e, const struct requester *r)
{
	if (r->retries < e->opt->retry)
		return false;
	return !e->opt->adaptive_retrans || e->now_ns - r->progress_ns >= e->opt->retry * e->opt->timeout_ns;
}

/* NAK or timeout: goes back, as long as there are retries left. */
void req_retry(struct engine *e, struct qp *qp, const char *last_words)
{
	struct requester *r = &qp->req;

	if (exhausted(e, r)) {
		req_fail(e, qp, last_words);
		return;
	}
	r->retries++;
	e->stats.retries++;
	req_go_back(e, qp);
}

/* ---- congestion notifications ---- */

void req_cnp(struct engine *e, struct qp *qp)
{
	if (e->opt->dcqcn_bps > 0)
		reaction_cnp(&qp->req.reaction, e->opt->dcqcn_bps, e->now_ns);
}

/* True if the QP's reduced rate does not allow a packet now: it is sent later. */
static bool waits_for_rate(struct engine *e, struct requester *r)
{
	uint64_t next_ns = reaction_next_ns(&r->reaction, e->opt->dcqcn_bps, e->now_ns); /* 0 before the first CNP */

	if (next_ns)
		engine_wake_at(e, next_ns);
	return next_ns != 0;
}

/* The time at which a QP that waits for its rate goes on. NEVER: it does not wait. */
static uint64_t rate_timer(struct engine *e, struct qp *qp)
{
	uint64_t next_ns = qp->req.reaction.next_ns;

	if (next_ns == 0)
		return NEVER;
	if (e->now_ns < next_ns)
		return next_ns;
	qp->req.reaction.next_ns = 0;
	engine_mark_ready(e, qp);
	return NEVER;
}

uint64_t req_timer(struct engine *e, struct qp *qp)
{
	struct requester *r = &qp->req;
	uint64_t due_ns, rate_ns;

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
		req_retry(e, qp, "retries exhausted, the responder does not answer");
	}
	due_ns = post_timer(e, qp);
	rate_ns = rate_timer(e, qp);
	if (rate_ns < due_ns)
		due_ns = rate_ns;
	return r->deadline_ns != 0 && r->deadline_ns < due_ns ? r->deadline_ns : due_ns;
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
	p.psn = req_psn(r, r->pos_nxt);
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
	reaction_sent(&r->reaction, len, e->now_ns);
	r->pos_nxt++;
}

static void send_read(struct engine *e, struct qp *qp, struct msg *m)
{
	struct requester *r = &qp->req;
	struct roce_pkt p = qp->head;
	uint64_t off = (r->pos_nxt - m->pos) * e->pmtu;

	p.opcode = RC_READ_REQUEST;
	p.psn = req_psn(r, r->pos_nxt);
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
	p.psn = req_psn(r, r->pos_nxt);
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
	if (req_own_response(m)) {
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
		req_arm(e, r);
	}
}

static bool may_send(const struct engine *e, const struct requester *r)
{
	if (r->failed || r->rnr_until_ns != 0 || r->msg_cur == r->msg_end)
		return false;
	return r->reads_out < e->opt->rd_atomic || !req_own_response(req_msg(r, r->msg_cur));
}

bool req_pump(struct engine *e, struct qp *qp, unsigned budget)
{
	struct requester *r = &qp->req;

	post(e, r);
	while (may_send(e, r) && !waits_for_rate(e, r)) {
		if (budget-- == 0 || !engine_tx_room(e))
			return true;
		send_packet(e, qp, req_msg(r, r->msg_cur));
	}
	return false;
}

void req_stop(struct requester *r)
{
	if (r->goal > r->msg_end)
		r->goal = r->msg_end;
}
