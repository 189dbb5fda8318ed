/* SPDX-License-Identifier: Apache-2.0 */
/* refuse.c - a request among good ones that the responder refuses, or does not hear any more. What was before it must
 * be executed, nothing behind it, and the requester must learn of it: by that request's completion or, if completions
 * come early, by a later request's (busy, next) or from its queue pair without asking (idle). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rccheck.h"

#define IDLE_S      1 /* many round trips: what happens then happens to an idle queue pair */
#define SIGN_WAIT_S 10
#define THERE_MS    5000 /* for the WRITEs before the queue pair goes, which may have completed early */

/* What the completion of the refused one says, or of one behind it. For a receive that is too short IBTA has "invalid
 * request", rxe 6.1 "operation error". */
static const enum ibv_wc_status told_by[REFUSALS][2] = {
    [REFUSAL_RKEY] = {IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR},
    [REFUSAL_LENGTH] = {IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_OP_ERR},
    [REFUSAL_GONE] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_RETRY_EXC_ERR},
};

/* Slots up to here are written with the right key. */
static uint32_t bad_slot(const struct check *c)
{
	return c->opt.iters / 2;
}

/* What is posted from the bad one on goes round in the second half, which must stay as it is. */
static uint32_t slot_of_seq(const struct check *c, uint32_t seq)
{
	uint32_t bad = bad_slot(c);

	return seq < bad ? seq : bad + (seq - bad) % (c->opt.iters - bad);
}

static bool async_event(const struct check *c)
{
	struct ibv_async_event ev;

	if (ibv_get_async_event(c->dev, &ev))
		return false;
	printf("async event: %s\n", ibv_event_type_str(ev.event_type));
	ibv_ack_async_event(&ev);
	return true;
}

/* How the queue pair told of the refusal. */
struct sign {
	bool come;
	bool of_send; /* by the completion of send seq; else by a flushed receive or an event */
	uint32_t seq;
	enum ibv_wc_status status;
};

static struct sign look(struct check *c, struct qp *q)
{
	struct sign s = {0};
	struct ibv_wc wc;

	if (!drill_poll(c, q, &wc)) {
		s.come = async_event(c);
		return s;
	}
	if (!(wc.wr_id >> 63))
		q->next_done++;
	if (wc.status == IBV_WC_SUCCESS) {
		if ((uint32_t)wc.wr_id == bad_slot(c) && !c->opt.early_acks)
			complain(c, "qp %u: the request that is to be refused completed with success", q->index);
		return s;
	}
	s = (struct sign){.come = true, .of_send = !(wc.wr_id >> 63), .seq = (uint32_t)wc.wr_id, .status = wc.status};
	return s;
}

/* The other side's queue pair goes, once all before has been executed. */
static void make_gone(struct check *c)
{
	struct ctl m = {.type = CTL_TOLD};

	control_send(c, &m);
	control_expect(c, CTL_TOLD, &m);
}

static void post(struct check *c, struct qp *q)
{
	uint32_t seq = q->next_post;

	if (seq != bad_slot(c) || c->opt.refusal == REFUSAL_GONE)
		drill_post(c, q, slot_of_seq(c, seq), c->peer_rkey);
	else if (c->opt.refusal == REFUSAL_RKEY)
		drill_post(c, q, slot_of_seq(c, seq), c->peer_rkey ^ 0xff);
	else
		drill_post_too_long(c, q);
}

/* Whether the next one may be posted: the queue pair goes when nothing is under way. */
static bool may_post(struct check *c, const struct qp *q)
{
	if (c->opt.refusal != REFUSAL_GONE || q->next_post != bad_slot(c))
		return q->next_post - q->next_done < c->opt.depth;
	if (q->next_done < q->next_post)
		return false;
	make_gone(c);
	return true;
}

/* Posts up to `end` and goes on until there is a sign, or all have completed, or the time is over. */
static struct sign post_until(struct check *c, struct qp *q, uint32_t end, bool all_done_ends)
{
	uint64_t start_ns = now_ns();
	struct sign s;

	for (;;) {
		while (q->next_post < end && may_post(c, q))
			post(c, q);
		s = look(c, q);
		if (s.come || (all_done_ends && q->next_done == end) ||
		    now_ns() - start_ns > SIGN_WAIT_S * 1000000000ULL)
			return s;
	}
}

static struct sign provoke(struct check *c, struct qp *q)
{
	uint32_t after_bad = bad_slot(c) + 1;
	struct sign s;

	if (c->opt.drill == DRILL_REFUSE_BUSY)
		return post_until(c, q, UINT32_MAX, false);
	s = post_until(c, q, after_bad, true);
	if (s.come)
		return s;
	if (c->opt.drill == DRILL_REFUSE_IDLE)
		return post_until(c, q, after_bad, false);
	sleep(IDLE_S);
	return post_until(c, q, after_bad + 1, false);
}

static void judge(struct check *c, const struct qp *q, const struct sign *s, uint64_t took_ns)
{
	if (!s->come) {
		complain(c, "qp %u: nothing told of the refused request in %u s", q->index, SIGN_WAIT_S);
		return;
	}
	printf("qp %u: told by %s %u: %s, %llu ms after the first was posted\n", q->index,
	       s->of_send ? "send" : "receive or event", s->seq, s->of_send ? ibv_wc_status_str(s->status) : "flushed",
	       (unsigned long long)took_ns / 1000000);
	if (s->of_send && s->seq < bad_slot(c))
		complain(c, "qp %u: WRITE %u before the refused one failed", q->index, s->seq);
	/* An idle queue pair may have been put into its error state by then: the request behind is flushed. */
	if (s->of_send && s->status != told_by[c->opt.refusal][0] && s->status != told_by[c->opt.refusal][1] &&
	    (c->opt.drill != DRILL_REFUSE_NEXT || s->status != IBV_WC_WR_FLUSH_ERR))
		complain(c, "qp %u: refused for its %s, the requester was told: %s", q->index,
		         refusal_names[c->opt.refusal], ibv_wc_status_str(s->status));
	if (!s->of_send && !c->opt.early_acks)
		complain(c, "qp %u: no completion told of it", q->index);
}

static void inspect(struct check *c, const struct qp *q)
{
	for (uint32_t slot = 0; slot < c->opt.iters; slot++) {
		if (slot < bad_slot(c) && !drill_slot_right(c, q, slot))
			complain(c, "qp %u: WRITE %u before the refused one is not there", q->index, slot);
		if (slot >= bad_slot(c) && !drill_slot_untouched(c, q, slot))
			complain(c, "qp %u: slot %u was written by or after the refused WRITE", q->index, slot);
	}
}

static void go(struct check *c, struct qp *q)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	struct ctl m = {.type = CTL_TOLD};
	uint32_t slot = 0;

	control_expect(c, CTL_TOLD, &m);
	for (int ms = 0; slot < bad_slot(c) && ms < THERE_MS; ms++) {
		while (slot < bad_slot(c) && drill_slot_right(c, q, slot))
			slot++;
		usleep(1000);
	}
	if (ibv_modify_qp(q->qp, &a, IBV_QP_STATE))
		fatal("queue pair %u to ERR: %s", q->index, strerror(errno));
	control_send(c, &m);
}

void refuse(struct check *c, struct qp *q)
{
	struct ctl m = {.type = CTL_TOLD};

	if (c->server && c->opt.refusal == REFUSAL_GONE)
		go(c, q);
	if (c->server) {
		control_expect(c, CTL_TOLD, &m);
		inspect(c, q);
	} else {
		uint64_t start_ns = now_ns();
		struct sign s;

		fcntl(c->dev->async_fd, F_SETFL, O_NONBLOCK);
		q->next_post = q->next_done = 0;
		s = provoke(c, q);
		judge(c, q, &s, now_ns() - start_ns);
		control_send(c, &m);
	}
	control_sync(c, q->index);
}
