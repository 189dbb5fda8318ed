/* SPDX-License-Identifier: Apache-2.0 */
/* host_requester.c - the requester half of a queue pair: sends, retries, completes.
 *
 * Theory of operation
 *
 *     completed | una ... next ... sent ... posted |  not posted yet
 *
 * Everything below pos_una is acknowledged, pos_next is what goes out next (a retry moves it back to pos_una), pos_sent
 * is the highest ever sent. An ACK completes SENDs and WRITEs; a READ or ATOMIC is completed only by its
 * response, and an ACK or response beyond an unanswered one means that the response was lost (implied NAK). What
 * breaks a rule that holds on every network is reported to the checker; what a lossy network may cause is handled as
 * the real thing would. */
#include "host.h"

#include <stdlib.h>

#include "check.h"
#include "conn.h"
#include "flag.h"
#include "workload.h"
#include "world.h"

#define CROSSING_NS 1000000ull /* a repeated request may be under way for so long, while the edge goes on answering */

static uint64_t now_of(const struct qp *q)
{
	return q->host->w->q.now_ns;
}

static struct wqe *wqe_at(const struct requester *r, uint64_t msg)
{
	return &r->ring[msg & r->ring_mask];
}

int64_t requester_pos(const struct requester *r, uint32_t psn)
{
	uint32_t ref = (uint32_t)(r->psn_start + r->pos_sent) & ROCE_PSN_MASK;

	return (int64_t)r->pos_sent + psn_diff(psn, ref);
}

/* --- when nothing comes back --- */

static uint64_t retry_after_ns(const struct qp *q)
{
	const struct requester *r = &q->req;

	if (q->model->adaptive && r->tries < 4)
		return 2000000ull << r->tries;
	return q->model->timeout_ns;
}

static void arm_retry(struct qp *q)
{
	struct requester *r = &q->req;

	if (r->pos_una < r->pos_sent)
		evtimer_set(&r->retry, now_of(q) + retry_after_ns(q));
	else
		evtimer_cancel(&r->retry);
}

static void requester_fail(struct qp *q, const char *why)
{
	q->req.failed = true;
	q->req.failed_ns = now_of(q);
	q->conn->excused |= q->req.wrong_rounds > 0;
	q->req.flushed = q->req.msg_posted - q->req.msg_completed;
	q->state = QP_ERROR;
	evtimer_cancel(&q->req.retry);
	evtimer_cancel(&q->req.rnr_wait);
	check_qp_error(q, why);
}

/* Next to send is the oldest one that is not acknowledged. */
static void go_back(struct qp *q)
{
	struct requester *r = &q->req;

	r->resent += r->pos_next - r->pos_una;
	r->pos_next = r->pos_una;
	r->msg_next = r->msg_completed;
	r->retrying = true;
	qp_activate(q);
}

/* One retry used up. False if it was the last. */
static bool use_retry(struct qp *q, const char *why)
{
	if (++q->req.tries <= q->model->retries)
		return true;
	requester_fail(q, why);
	return false;
}

/* Numbered one too high for ever: an ACK met it in a confused round, and ended a message of that round's numbers. It
 * repeats, as rxe does, until it is refused. */
static void begin_wrong_round(struct qp *q)
{
	struct requester *r = &q->req;

	r->wrong_rounds++;
	r->timeouts++;
	r->confused_until = r->pos_sent;
	r->confused_start = true;
	r->pos_next = r->pos_una;
	r->msg_next = r->msg_completed;
	evtimer_set(&r->retry, now_of(q) + q->model->timeout_ns);
	qp_activate(q);
}

static void on_retry_timer(void *obj)
{
	struct qp *q = obj;

	if (q->state != QP_READY || evtimer_armed(&q->req.rnr_wait))
		return;
	if (host_is_frozen(q->host)) {
		evtimer_set(&q->req.retry, q->host->frozen_until_ns + retry_after_ns(q));
		return;
	}
	if (q->req.lost_count) {
		begin_wrong_round(q);
		return;
	}
	q->req.confused_until = 0;
	q->req.timeouts++;
	q->req.implied_at = 0;
	if (!use_retry(q, "retries exhausted"))
		return;
	go_back(q);
	arm_retry(q);
}

/* What is under way is worth a confused retry: no READ or ATOMIC (its answer would be missed), and no empty message
 * next (the strange one would be the real one, to everybody). */
static bool can_confuse(const struct requester *r, const struct wqe *done)
{
	if (r->msg_completed == r->msg_posted || r->pos_una != done->pos_last + 1 || msg_own_response(&done->msg) ||
	    wqe_at(r, r->msg_completed)->msg.len == 0)
		return false;
	for (uint64_t i = r->msg_completed; i < r->msg_posted && wqe_at(r, i)->pos_first < r->pos_sent; i++)
		if (msg_own_response(&wqe_at(r, i)->msg))
			return false;
	return r->pos_sent > r->pos_una;
}

/* rxe 6.1, when a timeout overtakes the completion of a message: what is left of that message, which is nothing, goes
 * out as an empty one at the PSN of the next message, and everything behind it is numbered one too high. Meanwhile it
 * hears no ACK, and its next retry is right again. */
static void confuse(struct qp *q, const struct wqe *done)
{
	struct requester *r = &q->req;

	if (!q->model->confused_retry || r->confusions >= 4 || !can_confuse(r, done) ||
	    !rng_chance(&q->host->rng, q->conn->cfg.confuse))
		return;
	r->confusions++;
	r->confused_until = r->pos_sent;
	r->confused_start = true;
	r->lost_count = q->conn->cfg.loses_count && done->pos_last > done->pos_first;
	r->pos_next = r->pos_una;
	r->msg_next = r->msg_completed;
	evtimer_set(&r->retry, now_of(q) + q->model->timeout_ns);
	qp_activate(q);
}

static void on_rnr_timer(void *obj)
{
	struct qp *q = obj;

	if (q->state != QP_READY)
		return;
	if (host_is_frozen(q->host)) {
		evtimer_set(&q->req.rnr_wait, q->host->frozen_until_ns);
		return;
	}
	go_back(q);
	arm_retry(q);
}

/* --- posting --- */

static void post_one(struct qp *q)
{
	struct requester *r = &q->req;
	struct wqe *w = wqe_at(r, r->msg_posted);

	*w = (struct wqe){.pos_first = r->pos_posted, .own_before = r->own_posted, .posted_ns = now_of(q)};
	msg_describe(&r->plan, r->msg_posted, &w->msg);
	w->pos_last = w->pos_first + (w->msg.op >= OP_FETCH_ADD ? 1 : packets_of(w->msg.len, q->pmtu)) - 1;
	w->orig = r->counter;
	r->counter = msg_counter_after(&w->msg, r->counter);
	if (msg_own_response(&w->msg))
		r->own_posted++;
	r->pos_posted = w->pos_last + 1;
	r->msg_posted++;
	flag_posted(q->conn, q->side, r->msg_posted - 1);
}

/* What the program waits for before it asks for the next message. */
static bool may_post(const struct qp *q)
{
	struct msg_needs n;

	workload_needs(&q->req.plan, q->req.msg_posted, &n);
	return q->resp.msg >= n.executed && q->req.msg_completed >= n.completed;
}

static void on_post_time(void *obj, uint64_t arg)
{
	struct qp *q = obj;

	(void)arg;
	if (q->state == QP_READY && q->can_send)
		requester_post(q);
}

/* A program that has something to say only now and then, such as that it lives. */
static bool post_time(struct qp *q)
{
	struct requester *r = &q->req;

	if (q->conn->cfg.post_every_ns == 0)
		return true;
	if (now_of(q) < r->post_ns)
		return false;
	r->post_ns = now_of(q) + q->conn->cfg.post_every_ns;
	if (r->post_ns < q->conn->cfg.post_from_ns)
		r->post_ns = q->conn->cfg.post_from_ns;
	eventq_at(&q->host->w->q, r->post_ns, on_post_time, q, 0);
	return true;
}

void requester_post(struct qp *q)
{
	struct requester *r = &q->req;

	while (r->msg_posted < r->plan.nmsgs && r->msg_posted < r->msg_completed + r->depth && may_post(q) &&
	       post_time(q))
		post_one(q);
	qp_activate(q);
}

/* --- sending --- */

static bool own_window_open(const struct requester *r, const struct wqe *w)
{
	uint64_t completed = r->msg_completed < r->msg_posted ? wqe_at(r, r->msg_completed)->own_before : r->own_posted;

	return w->own_before - completed < r->max_rd;
}

/* IBTA 9.7.7.2.5: without a credit one message may be under way, to ask. */
static bool has_credit(const struct requester *r)
{
	return r->msg_next < r->credit_msgs || r->pos_next == r->pos_una ||
	       r->pos_next > wqe_at(r, r->msg_next)->pos_first || !msg_takes_receive(&wqe_at(r, r->msg_next)->msg);
}

static bool may_send(const struct qp *q)
{
	const struct requester *r = &q->req;

	if (q->state != QP_READY || !q->can_send || evtimer_armed(&r->rnr_wait) || r->pos_next >= r->pos_posted)
		return false;
	if (q->model->window_psns && r->pos_next >= r->pos_una + q->model->window_psns)
		return false;
	if (r->confused_until)
		return r->pos_next < r->confused_until && !msg_own_response(&wqe_at(r, r->msg_next)->msg);
	if (!has_credit(r))
		return false;
	return !msg_own_response(&wqe_at(r, r->msg_next)->msg) || own_window_open(r, wqe_at(r, r->msg_next));
}

static enum roce_opcode data_opcode(const struct msg *m, bool first, bool last)
{
	static const enum roce_opcode write[4] = {RC_WRITE_MIDDLE, RC_WRITE_LAST, RC_WRITE_FIRST, RC_WRITE_ONLY};
	static const enum roce_opcode send[4] = {RC_SEND_MIDDLE, RC_SEND_LAST, RC_SEND_FIRST, RC_SEND_ONLY};
	int which = (first ? 2 : 0) + (last ? 1 : 0);
	bool imm = last && (m->op == OP_SEND_IMM || m->op == OP_WRITE_IMM);

	if (m->op == OP_SEND || m->op == OP_SEND_IMM)
		return imm ? (first ? RC_SEND_ONLY_IMM : RC_SEND_LAST_IMM) : send[which];
	return imm ? (first ? RC_WRITE_ONLY_IMM : RC_WRITE_LAST_IMM) : write[which];
}

/* The packet of pos, with the number of pos + shift. */
static struct pkt *build_data(struct qp *q, const struct wqe *w, uint64_t pos, uint32_t shift)
{
	struct requester *r = &q->req;
	uint64_t index = pos - w->pos_first;
	uint32_t off = (uint32_t)index * q->pmtu, left = w->msg.len - off, len = left < q->pmtu ? left : q->pmtu;
	bool last = pos == w->pos_last;
	struct roce_pkt pkt;

	qp_packet(q, &pkt, data_opcode(&w->msg, index == 0, last), (uint32_t)(r->psn_start + pos) + shift);
	pkt.ack_req = last || (index + 1) % q->model->ack_req_every == 0;
	pkt.solicited = last && w->msg.op == OP_SEND;
	pkt.reth_va = w->msg.va;
	pkt.reth_rkey = w->msg.rkey;
	pkt.reth_len = w->msg.len;
	pkt.imm = w->msg.imm;
	payload_fill(payload_key(&r->plan, w->msg.va + off), w->msg.va + off, q->host->scratch, len);
	return qp_build(q, &pkt, q->host->scratch, len);
}

/* A READ that goes on where its responses stopped. */
static struct pkt *build_read(struct qp *q, struct wqe *w)
{
	struct requester *r = &q->req;
	uint32_t off = (uint32_t)(r->pos_next - w->pos_first) * q->pmtu;
	struct roce_pkt pkt;

	qp_packet(q, &pkt, RC_READ_REQUEST, (uint32_t)(r->psn_start + r->pos_next));
	pkt.ack_req = true;
	pkt.reth_va = w->msg.va + off;
	pkt.reth_rkey = w->msg.rkey;
	pkt.reth_len = w->msg.len - off;
	w->pos_request = r->pos_next;
	w->request_ns = now_of(q);
	return qp_build(q, &pkt, NULL, 0);
}

static struct pkt *build_atomic(struct qp *q, const struct wqe *w)
{
	struct roce_pkt pkt;

	qp_packet(q, &pkt, w->msg.op == OP_FETCH_ADD ? RC_FETCH_ADD : RC_CMP_SWAP,
	          (uint32_t)(q->req.psn_start + q->req.pos_next));
	pkt.ack_req = true;
	pkt.atomic_va = w->msg.va;
	pkt.atomic_rkey = w->msg.rkey;
	pkt.atomic_swap_add = w->msg.swap_add;
	pkt.atomic_compare = w->msg.op == OP_FETCH_ADD ? 0 : w->msg.compare_hits ? w->orig : w->msg.compare;
	return qp_build(q, &pkt, NULL, 0);
}

/* Every bit of a FLUSH and its range means something to the responder; an ATOMIC WRITE has its 8 bytes as payload. */
static struct pkt *build_flush_or_atomic_write(struct qp *q, const struct wqe *w)
{
	bool flush = w->msg.op == OP_FLUSH;
	struct roce_pkt pkt;

	qp_packet(q, &pkt, flush ? RC_FLUSH : RC_ATOMIC_WRITE, (uint32_t)(q->req.psn_start + q->req.pos_next));
	pkt.ack_req = true;
	pkt.feth = (uint32_t)w->msg.compare;
	pkt.reth_va = w->msg.va;
	pkt.reth_rkey = w->msg.rkey;
	pkt.reth_len = flush ? (uint32_t)(w->msg.compare >> 32) : 8;
	return qp_build(q, &pkt, (const uint8_t *)&w->msg.swap_add, flush ? 0 : 8);
}

/* What is left of the message before: nothing. */
static struct pkt *build_nothing(struct qp *q)
{
	struct requester *r = &q->req;
	const struct msg *m = &wqe_at(r, r->msg_next - 1)->msg;
	struct roce_pkt pkt;

	qp_packet(q, &pkt, data_opcode(m, true, true), (uint32_t)(r->psn_start + r->pos_next));
	pkt.ack_req = true;
	pkt.reth_va = m->va;
	pkt.reth_rkey = m->rkey;
	pkt.imm = m->imm;
	return qp_build(q, &pkt, NULL, 0);
}

static struct pkt *next_confused(struct qp *q)
{
	struct requester *r = &q->req;
	struct wqe *w = wqe_at(r, r->msg_next);
	struct pkt *p;

	if (r->confused_start) {
		const struct wqe *before = wqe_at(r, r->msg_next - 1);

		r->confused_start = false;
		p = r->wrong_rounds ? build_data(q, before, before->pos_last, 1) : build_nothing(q);
	} else {
		p = build_data(q, w, r->pos_next, 1);
		if (++r->pos_next > w->pos_last)
			r->msg_next++;
	}
	p->strange = true;
	return p;
}

struct pkt *requester_next(struct qp *q)
{
	struct requester *r = &q->req;
	struct wqe *w;
	struct pkt *p;

	if (!may_send(q) || host_cnp_waits(q))
		return NULL;
	q->host->requests_sent++;
	if (r->confused_until)
		return next_confused(q);
	w = wqe_at(r, r->msg_next);
	if (w->msg.op == OP_READ) {
		p = build_read(q, w);
		r->pos_next = w->pos_last + 1;
	} else {
		p = msg_empty_response(&w->msg) ? build_flush_or_atomic_write(q, w)
		    : w->msg.op > OP_READ       ? build_atomic(q, w)
		                                : build_data(q, w, r->pos_next, 0);
		r->pos_next++;
	}
	if (r->pos_next > w->pos_last)
		r->msg_next++;
	p->lost = r->pos_sent == 0 && q->conn->cfg.first_lost;
	p->late = r->pos_sent == 0 && q->conn->cfg.first_late;
	if (r->pos_una == r->pos_sent)
		r->waits_ns = now_of(q);
	if (r->pos_next > r->pos_sent)
		r->pos_sent = r->pos_next;
	if (!r->asked)
		r->asked_ns = now_of(q);
	r->asked = true;
	if (!evtimer_armed(&r->retry))
		arm_retry(q);
	return p;
}

/* --- what comes back --- */

static void complete(struct qp *q, struct wqe *w)
{
	struct requester *r = &q->req;

	r->pos_una = w->pos_last + 1;
	r->msg_completed++;
	r->bytes_completed += w->msg.len;
	conn_completed(q->conn, q->side, w);
	r->rnr_tries = 0;
	r->waits_ns = now_of(q);
}

/* What is acknowledged need not be sent again. */
static void skip_acked(struct requester *r)
{
	if (r->pos_next >= r->pos_una)
		return;
	r->pos_next = r->pos_una;
	while (r->msg_next < r->msg_posted && wqe_at(r, r->msg_next)->pos_last < r->pos_next)
		r->msg_next++;
}

/* Everything before pos is acknowledged, but for READs and ATOMICs. True if that moved something. */
static bool ack_before(struct qp *q, uint64_t pos)
{
	struct requester *r = &q->req;
	uint64_t una = r->pos_una;

	while (r->msg_completed < r->msg_posted && r->pos_una < pos) {
		struct wqe *w = wqe_at(r, r->msg_completed);

		if (msg_own_response(&w->msg))
			break;
		if (w->pos_last < pos)
			complete(q, w);
		else
			r->pos_una = pos;
	}
	return r->pos_una > una;
}

static void progress(struct qp *q)
{
	struct requester *r = &q->req;

	r->tries = 0;
	r->retrying = false;
	skip_acked(r);
	arm_retry(q);
	requester_post(q);
}

/* Something in front of an acknowledged position was never answered. Costs a retry like a sequence NAK; what follows in
 * the same stream says the same again and is ignored until there is progress or the timer fires. */
static void implied_nak(struct qp *q)
{
	struct requester *r = &q->req;

	r->implied_naks++;
	if (r->implied_at == r->pos_una + 1)
		return;
	check_implied_nak(q, wqe_at(r, r->msg_completed)->request_ns);
	if (q->model->one_retry && r->retrying)
		return;
	r->implied_at = r->pos_una + 1;
	if (use_retry(q, "retries exhausted by implied NAKs"))
		go_back(q);
}

static void on_ack(struct qp *q, uint64_t pos)
{
	struct requester *r = &q->req;

	if (pos >= r->pos_sent && !q->model->ghost_ack_completes) {
		requester_fail(q, "ACK of what was never sent");
		return;
	}
	if (pos >= r->pos_posted)
		pos = r->pos_posted - 1;
	for (uint64_t i = r->msg_completed; pos >= r->pos_una && i < r->msg_posted; i++)
		if (wqe_at(r, i)->pos_last == pos && msg_own_response(&wqe_at(r, i)->msg))
			check_ack_of_answer(q, wqe_at(r, i));
	if (ack_before(q, pos + 1)) {
		progress(q);
		if (r->pos_una == pos + 1 && r->msg_completed > 0)
			confuse(q, wqe_at(r, r->msg_completed - 1));
	}
	if (r->pos_una < pos + 1)
		implied_nak(q);
}

/* rxe takes nothing but responses within a READ; others may be sent away where they have asked again from. One that
 * names what is behind the READ says that a response was lost. */
static bool rnr_nak_kills(const struct qp *q, uint64_t pos)
{
	const struct requester *r = &q->req;
	const struct wqe *w = wqe_at(r, r->msg_completed);

	return requester_inside_read(r) && pos <= w->pos_last && (q->model->rnr_in_read_kills || pos != w->pos_request);
}

static void on_rnr_nak(struct qp *q, uint64_t pos, uint8_t code)
{
	struct requester *r = &q->req;

	if (rnr_nak_kills(q, pos)) {
		requester_fail(q, "RNR NAK within the responses of a READ");
		return;
	}
	if (ack_before(q, pos))
		progress(q);
	r->rnrs++;
	r->tries = 0;
	if (q->conn->cfg.rnr_retry < 7 && ++r->rnr_tries > q->conn->cfg.rnr_retry) {
		check_rnr_spent(q);
		requester_fail(q, "RNR retries exhausted");
		return;
	}
	evtimer_cancel(&r->retry);
	evtimer_set(&r->rnr_wait, now_of(q) + roce_rnr_timer_ns(code));
}

static void on_seq_nak(struct qp *q, uint64_t pos)
{
	struct requester *r = &q->req;

	if (ack_before(q, pos))
		progress(q);
	r->naks++;
	if (evtimer_armed(&r->rnr_wait) && q->model->rnr_nak_waits)
		return;
	if (q->model->one_retry && r->retrying)
		return;
	if (!use_retry(q, "retries exhausted by sequence NAKs"))
		return;
	evtimer_cancel(&r->rnr_wait);
	go_back(q);
	arm_retry(q);
}

/* False: the packet is not what a responder would say. */
static bool msn_fits(const struct qp *q, uint64_t upto, const struct roce_pkt *pkt)
{
	uint32_t msn;

	return !q->model->checks_msn || upto > q->req.pos_sent || !requester_msn_before(&q->req, upto, &msn) ||
	       msn == pkt->aeth_msn;
}

static void note_credits(struct qp *q, const struct roce_pkt *pkt)
{
	struct requester *r = &q->req;
	uint8_t code = pkt->aeth_syndrome & 0x1f;
	int32_t ahead = psn_diff(pkt->aeth_msn, (uint32_t)r->msg_completed & ROCE_PSN_MASK);

	if (!q->model->credits || (pkt->aeth_syndrome & AETH_TYPE_MASK) != AETH_ACK)
		return;
	r->credit_msgs = code == (AETH_ACK_NO_CREDITS & 0x1f)
	                     ? UINT64_MAX
	                     : r->msg_completed + (uint64_t)(int64_t)ahead + aeth_credits(code);
	qp_activate(q);
}

static void on_aeth(struct qp *q, const struct roce_pkt *pkt)
{
	int64_t pos = requester_pos(&q->req, pkt->psn);
	bool is_ack = (pkt->aeth_syndrome & AETH_TYPE_MASK) == AETH_ACK;

	if (q->req.wrong_rounds && pkt->aeth_syndrome == AETH_NAK_INV_REQ && pos >= (int64_t)q->req.pos_una)
		requester_fail(q, "lost count, and was refused");
	if (pos + is_ack < (int64_t)q->req.pos_una || pos < 0 || q->req.confused_until)
		return;
	if (!msn_fits(q, (uint64_t)pos + is_ack, pkt))
		return;
	note_credits(q, pkt);
	if (is_ack) {
		if ((uint64_t)pos >= q->req.pos_una)
			on_ack(q, (uint64_t)pos);
	} else if ((uint64_t)pos > q->req.pos_sent) {
		return;
	} else if ((pkt->aeth_syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK) {
		on_rnr_nak(q, (uint64_t)pos, pkt->aeth_syndrome & 0x1f);
	} else if (pkt->aeth_syndrome == AETH_NAK_PSN_SEQ) {
		on_seq_nak(q, (uint64_t)pos);
	} else {
		requester_fail(q, "fatal NAK");
	}
}

/* A response must be framed as the latest request for its position asked. */
static bool read_framed_right(const struct wqe *w, uint64_t pos, uint8_t opcode)
{
	bool last = pos == w->pos_last, opens = opcode == RC_READ_RESP_FIRST || opcode == RC_READ_RESP_ONLY;
	bool ends = opcode == RC_READ_RESP_LAST || opcode == RC_READ_RESP_ONLY;

	return ends == last && (opens ? pos == w->pos_request : pos > w->pos_first);
}

static void on_read_response(struct qp *q, struct wqe *w, uint64_t pos, const uint8_t *l3, const struct roce_pkt *pkt)
{
	struct requester *r = &q->req;
	uint32_t off = (uint32_t)(pos - w->pos_first) * q->pmtu, left = w->msg.len - off;

	uint64_t unseen_ns = q->host->w->cfg.batch_ns[q->host->site]; /* until the edge looks at its port */

	if (!q->model->takes_middle_again && pkt->opcode == RC_READ_RESP_MIDDLE && pos == w->pos_request &&
	    q->host->rx_sent_ns > w->request_ns + CROSSING_NS + unseen_ns)
		return; /* a FIRST is due, and this is not of before it asked again */
	if (w->msg.op != OP_READ || !read_framed_right(w, pos, pkt->opcode) ||
	    pkt->payload_len != (left < q->pmtu ? left : q->pmtu)) {
		check_fail(q->host->w, "response-framing", "QPN %06x position %llu: opcode %02x with %u bytes", q->qpn,
		           (unsigned long long)pos, pkt->opcode, pkt->payload_len);
		return;
	}
	if (!payload_right(payload_key(&r->plan, w->msg.va + off), w->msg.va + off, l3 + pkt->hdr_len,
	                   pkt->payload_len)) {
		check_fail(q->host->w, "response-bytes", "QPN %06x READ at position %llu returned wrong bytes", q->qpn,
		           (unsigned long long)pos);
		return;
	}
	r->pos_una = pos + 1;
	if (pos == w->pos_last)
		complete(q, w);
	progress(q);
}

static void on_atomic_response(struct qp *q, struct wqe *w, uint64_t pos, const struct roce_pkt *pkt)
{
	if ((w->msg.op != OP_FETCH_ADD && w->msg.op != OP_CMP_SWAP) || pkt->atomic_orig != w->orig) {
		check_fail(q->host->w, "atomic-result",
		           "QPN %06x position %llu: got %llx, executed once in order it is %llx", q->qpn,
		           (unsigned long long)pos, (unsigned long long)pkt->atomic_orig, (unsigned long long)w->orig);
		return;
	}
	complete(q, w);
	progress(q);
}

static void on_empty_response(struct qp *q, struct wqe *w, uint64_t pos, const struct roce_pkt *pkt)
{
	if (pkt->opcode != RC_READ_RESP_ONLY || pkt->payload_len) {
		check_fail(q->host->w, "response-framing", "QPN %06x position %llu: opcode %02x with %u bytes for a %s",
		           q->qpn, (unsigned long long)pos, pkt->opcode, pkt->payload_len,
		           w->msg.op == OP_FLUSH ? "FLUSH" : "ATOMIC WRITE");
		return;
	}
	complete(q, w);
	progress(q);
}

static void on_response(struct qp *q, const uint8_t *l3, const struct roce_pkt *pkt)
{
	struct requester *r = &q->req;
	int64_t pos = requester_pos(r, pkt->psn);

	if (pos < (int64_t)r->pos_una || r->confused_until)
		return;
	if (pos >= (int64_t)r->pos_sent) {
		check_fail(q->host->w, "response-unasked", "QPN %06x got a response for position %lld of %llu sent",
		           q->qpn, (long long)pos, (unsigned long long)r->pos_sent);
		return;
	}
	if (ack_before(q, (uint64_t)pos))
		progress(q);
	if ((int64_t)r->pos_una < pos)
		implied_nak(q);
	else if (pkt->opcode == RC_ATOMIC_ACK)
		on_atomic_response(q, wqe_at(r, r->msg_completed), (uint64_t)pos, pkt);
	else if (msg_empty_response(&wqe_at(r, r->msg_completed)->msg))
		on_empty_response(q, wqe_at(r, r->msg_completed), (uint64_t)pos, pkt);
	else
		on_read_response(q, wqe_at(r, r->msg_completed), (uint64_t)pos, l3, pkt);
}

void requester_rx(struct qp *q, const uint8_t *l3, const struct roce_pkt *pkt)
{
	if (!q->req.asked && !q->host->w->cfg.recycle && !q->host->w->cfg.failed_reuse) {
		check_fail(q->host->w, "response-unasked", "QPN %06x got %s and has never sent anything", q->qpn,
		           roce_op(pkt->opcode)->name);
		return;
	}
	if (pkt->opcode == RC_ACK)
		on_aeth(q, pkt);
	else
		on_response(q, l3, pkt);
}

/* --- for the checker --- */

/* The message that pos is in; it is among those that the ring still knows. */
static uint64_t find_msg(const struct requester *r, uint64_t lo, uint64_t pos)
{
	uint64_t hi = r->msg_posted;

	while (hi - lo > 1) {
		uint64_t mid = lo + (hi - lo) / 2;

		if (wqe_at(r, mid)->pos_first <= pos)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

bool requester_msn_before(const struct requester *r, uint64_t pos, uint32_t *msn)
{
	uint64_t lo = r->msg_posted > r->ring_mask ? r->msg_posted - r->ring_mask - 1 : 0, msg;
	const struct wqe *w;

	*msn = 0;
	if (pos == 0)
		return true;
	if (r->msg_posted == 0 || pos > r->pos_posted || pos <= wqe_at(r, lo)->pos_first)
		return false;
	msg = find_msg(r, lo, pos - 1);
	w = wqe_at(r, msg);
	/* a READ or ATOMIC counts from its start, all else at its end */
	if (msg_own_response(&w->msg) || w->pos_last < pos)
		msg++;
	*msn = (uint32_t)msg & 0xffffff;
	return true;
}

bool requester_inside_read(const struct requester *r)
{
	return requester_wants_answer(r) && wqe_at(r, r->msg_completed)->msg.op == OP_READ &&
	       r->pos_una > wqe_at(r, r->msg_completed)->pos_first;
}

bool requester_wants_answer(const struct requester *r)
{
	return r->msg_completed < r->msg_posted && msg_own_response(&wqe_at(r, r->msg_completed)->msg);
}

/* --- life --- */

void requester_init(struct qp *q, const struct msg_plan *plan, uint32_t psn_start, uint32_t depth, uint32_t max_rd)
{
	struct requester *r = &q->req;
	uint64_t size = 16;

	while (size < 4ull * depth)
		size *= 2;
	if (r->ring) {
		evtimer_cancel(&r->retry);
		evtimer_cancel(&r->rnr_wait);
		size = r->ring_mask + 1;
	} else {
		evtimer_init(&r->retry, &q->host->w->q, on_retry_timer, q);
		evtimer_init(&r->rnr_wait, &q->host->w->q, on_rnr_timer, q);
		r->ring = calloc(size, sizeof(*r->ring));
	}
	*r = (struct requester){.plan = *plan,
	                        .psn_start = psn_start,
	                        .depth = depth,
	                        .max_rd = max_rd,
	                        .credit_msgs = UINT64_MAX,
	                        .ring = r->ring,
	                        .ring_mask = size - 1,
	                        .retry = r->retry,
	                        .rnr_wait = r->rnr_wait};
}

void requester_free(struct qp *q)
{
	free(q->req.ring);
	q->req.ring = NULL;
}
