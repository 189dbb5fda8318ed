/* SPDX-License-Identifier: Apache-2.0 */
#include "conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "flag.h"
#include "host_cm.h"
#include "host_ud.h"
#include "word.h"
#include "world.h"

static uint64_t now_of(const struct conn *c)
{
	return c->w->q.now_ns;
}

static struct host *host_of(const struct conn *c, int side)
{
	return &c->w->host[side][c->cfg.host[side]];
}

/* --- opening --- */

static struct qp *new_qp(struct conn *c, int side)
{
	struct qp *q = calloc(1, sizeof(*q));

	if (!q) {
		perror("lrsim: queue pair");
		exit(2);
	}
	qp_create(q, host_of(c, side), c, side);
	return q;
}

/* The connection whose words it says. */
static uint32_t speaker(const struct conn *c)
{
	while (c->cfg.heir_of && c->cfg.inherits_words)
		c = &c->w->conn[c->cfg.heir_of - 1];
	return c->id;
}

static struct msg_plan round_plan(const struct conn *c, int side)
{
	struct msg_plan plan = c->cfg.plan[side];

	if (c->cfg.same_start)
		plan.key_first = rng_hash(c->w->cfg.seed, c->id * 2 + (uint64_t)side + 77) | 1;
	plan.key = rng_hash(rng_hash(c->w->cfg.seed, speaker(c)),
	                    (uint64_t)(c->cfg.same_words ? 0 : c->round) * 2 + (uint64_t)side);
	return plan;
}

/* Fresh queue pairs take the PSNs of the configuration, moved on; reset ones begin at 0. */
static uint32_t round_psn(const struct conn *c, int side)
{
	if (c->cfg.reuse && c->round > 0)
		return 0;
	return (c->cfg.psn_start[side] + c->round * 0x1000u) & ROCE_PSN_MASK;
}

static void reset_qps(struct conn *c)
{
	struct msg_plan plan[2] = {round_plan(c, 0), round_plan(c, 1)};

	for (int side = 0; side < 2; side++) {
		struct qp *q = c->qp[side];

		q->peer = c->qp[!side];
		q->dest_qpn = q->peer->qpn;
		q->state = QP_INIT;
		q->can_send = false;
		q->pmtu = c->round % 2 && c->cfg.pmtu_next ? c->cfg.pmtu_next : c->cfg.pmtu;
		requester_init(q, &plan[side], round_psn(c, side), c->cfg.depth[side], c->cfg.max_rd);
		responder_init(q, &plan[!side], round_psn(c, !side), c->cfg.max_rd);
	}
}

static void on_promised(void *obj, uint64_t round)
{
	struct conn *c = obj;

	if (c->state == CONN_OPEN && c->round == round)
		check_late(c);
}

/* The side goes on with the queue pair that it has. */
static bool recurs(const struct conn *c, int side)
{
	return c->round > 0 && c->cfg.reuse && (!c->cfg.recur || c->cfg.recur & 1u << side);
}

static void open_round(struct conn *c)
{
	for (int side = 0; side < 2; side++)
		if (!recurs(c, side))
			c->qp[side] = new_qp(c, side);
	reset_qps(c);
	c->state = CONN_OPENING;
	c->opening_ns = now_of(c);
	c->opened_ns = 0;
	c->life[0] = c->life[1] = 0;
	world_note(c->w, 0, "conn %u round %u: QPN %06x and %06x, PSN %06x and %06x", c->id, c->round, c->qp[0]->qpn,
	           c->qp[1]->qpn, c->qp[0]->req.psn_start, c->qp[1]->req.psn_start);
	if (c->cfg.cm)
		host_cm_open(c);
	else if (c->cfg.ud)
		host_ud_open(c);
	else
		evtimer_set(&c->step, now_of(c) + world_rtt_ns(c->w) * 3 / 2); /* QPNs cross out of band */
}

static void on_left(void *obj, uint64_t arg)
{
	(void)arg;
	conn_abandon(obj);
}

void conn_leaves(struct conn *c)
{
	if (c->cfg.leaves)
		eventq_at(&c->w->q, now_of(c) + c->cfg.leaves_ns, on_left, c, 0);
}

void conn_ready(struct conn *c, int side, bool can_send)
{
	struct qp *q = c->qp[side];

	if (q->state == QP_INIT)
		q->state = QP_READY;
	if (q->state != QP_READY || !can_send || q->can_send)
		return;
	q->can_send = true;
	if (c->qp[!side]->can_send) {
		c->state = CONN_OPEN;
		c->opened_ns = now_of(c);
		if (c->cfg.within_ns)
			eventq_at(&c->w->q, now_of(c) + c->cfg.within_ns, on_promised, c, c->round);
		if (!c->cfg.refuse_msg)
			conn_leaves(c);
	}
	requester_post(q);
}

void conn_heard(struct conn *c, int side)
{
	/* "communication established": the first packet stands for a lost RTU */
	if ((c->cfg.cm || c->cfg.ud) && c->state == CONN_OPENING)
		conn_ready(c, side, true);
}

/* --- one life after the other --- */

#define RESET_NS 5000 /* what a program needs to see that all is done, and to reset its queue pair */

static bool last_life(const struct conn *c, int side)
{
	return c->life[side] + 1 >= c->cfg.lives;
}

static struct msg_plan next_plan(struct conn *c, int side)
{
	struct msg_plan plan = round_plan(c, 0);

	plan.key = rng_hash(plan.key, ++c->life[side]);
	return plan;
}

static void reset_requester(void *obj, uint64_t arg)
{
	struct conn *c = obj;
	struct qp *q = c->qp[0];
	struct msg_plan plan = next_plan(c, 0);

	(void)arg;
	if (q->state != QP_READY)
		return;
	requester_init(q, &plan, 0, c->cfg.depth[0], c->cfg.max_rd);
	requester_post(q);
}

static void reset_responder(void *obj, uint64_t arg)
{
	struct conn *c = obj;
	struct qp *q = c->qp[1];
	struct msg_plan plan = next_plan(c, 1);

	(void)arg;
	if (q->state == QP_READY)
		responder_init(q, &plan, 0, c->cfg.max_rd);
}

bool conn_life_is_over(const struct conn *c)
{
	return c->life[1] < c->life[0];
}

/* --- closing --- */

bool conn_side_done(const struct conn *c, int side)
{
	const struct qp *q = c->qp[side];

	return q->req.msg_completed == q->req.plan.nmsgs && q->resp.msg == q->resp.plan.nmsgs;
}

static void close_qp(struct qp *q)
{
	if (q->state != QP_ERROR)
		q->state = QP_CLOSED;
	evtimer_cancel(&q->req.retry);
	evtimer_cancel(&q->req.rnr_wait);
}

/* A responder's QPN that comes again without CM is one more life of the same flow, and only an answer tells the edges
 * that the life before is over: of a queue pair that is gone without a word they bring what they have. */
static bool may_pass_on(const struct conn *c, int side)
{
	return side == 0 || c->cfg.cm || !c->excused || (c->refused_ns && c->cfg.refuse_syndrome);
}

static void call_heir(struct conn *c)
{
	for (uint32_t i = 0; i < c->w->nconns; i++) {
		struct conn *heir = &c->w->conn[i];

		if (heir->cfg.heir_of != c->id + 1)
			continue;
		for (int side = 0; side < 2; side++)
			if (heir->cfg.inherits & 1u << side && c->qp[side] && may_pass_on(c, side))
				heir->take_qpn[side] = c->qp[side]->qpn;
		evtimer_set(&heir->step, now_of(c) + heir->cfg.open_ns);
	}
}

static void conn_over(struct conn *c)
{
	world_note(c->w, 0, "conn %u over%s", c->id, c->excused ? ", given up" : "");
	c->state = CONN_OVER;
	evtimer_cancel(&c->step);
	world_conn_over(c->w);
	call_heir(c);
}

/* Not that of a queue pair that was given up: its edges hold requests that its host repeated until then, nobody tells
 * them that it is gone, and they go on asking whoever has the number, for GiveUp if need be. Real hosts hand numbers
 * out in turn (rxe: the next of 131,056), so that one comes back when all of that is over. */
static void release_qpns(struct conn *c)
{
	for (int side = 0; side < 2 && c->w->cfg.recycle && !c->excused; side++)
		host_release_qpn(c->qp[side]->host, c->qp[side]->qpn);
}

static void end_round(struct conn *c)
{
	close_qp(c->qp[0]);
	close_qp(c->qp[1]);
	release_qpns(c);
	evtimer_cancel(&c->resend);
	if (++c->round < c->cfg.rounds && !c->excused) {
		c->state = CONN_WAITING;
		evtimer_set(&c->step, now_of(c) + c->cfg.gap_ns + (c->cfg.reuse ? 0 : c->cfg.pause_ns));
		return;
	}
	conn_over(c);
}

void conn_disconnected(struct conn *c)
{
	if (c->state == CONN_OVER)
		return;
	check_conn_done(c);
	end_round(c);
}

/* With CM side 0 disconnects when it is done itself; without, the programs agree out of band. */
static void maybe_close(struct conn *c)
{
	if (c->state != CONN_OPEN || !last_life(c, 0) || !last_life(c, 1))
		return;
	if (c->cfg.cm || c->cfg.ud ? !conn_side_done(c, 0) : !conn_side_done(c, 0) || !conn_side_done(c, 1))
		return;
	c->state = CONN_CLOSING;
	evtimer_set(&c->step, now_of(c) + c->cfg.pause_ns);
}

void conn_completed(struct conn *c, int side, const struct wqe *w)
{
	uint64_t latency_ns = now_of(c) - w->posted_ns;

	c->w->completions++;
	if (side == 0) {
		c->latency_sum_ns += latency_ns;
		if (latency_ns > c->latency_max_ns)
			c->latency_max_ns = latency_ns;
	}
	if (side == 0 && c->w->latency && c->w->latency->completed && c->w->latency->conn == c->id)
		latency_note(c->w->latency, w->posted_ns, now_of(c));
	check_completion(c->qp[side], w);
	word_on_completion(c, side);
	if (side == 0 && c->qp[0]->req.msg_completed == c->qp[0]->req.plan.nmsgs && !last_life(c, 0))
		eventq_at(&c->w->q, now_of(c) + RESET_NS, reset_requester, c, 0);
	maybe_close(c);
	if (c->dreq_seen)
		host_cm_try_drep(c);
}

void conn_executed(struct conn *c, int side)
{
	struct qp *q = c->qp[side];
	const struct requester *r = &c->qp[!side]->req;

	flag_executed(c, !side, q->resp.msg - 1);
	if (c->w->latency && !c->w->latency->completed && side == 1)
		latency_note(c->w->latency, r->ring[(q->resp.msg - 1) & r->ring_mask].posted_ns, now_of(c));
	if (side == 1 && q->resp.msg == q->resp.plan.nmsgs && !last_life(c, 1))
		eventq_at(&c->w->q, now_of(c) + RESET_NS, reset_responder, c, 0);
	maybe_close(c);
	if (q->can_send && q->state == QP_READY && q->req.plan.workload != WORK_CHANCE)
		requester_post(q);
}

void conn_abandon(struct conn *c)
{
	if (c->state == CONN_OVER)
		return;
	c->excused = true;
	c->abandoned_ns = now_of(c);
	if (c->qp[0])
		end_round(c);
	else
		conn_over(c);
}

static void on_step(void *obj)
{
	struct conn *c = obj;

	switch (c->state) {
	case CONN_WAITING:
		open_round(c);
		break;
	case CONN_OPENING:
		if (c->cfg.cm || c->cfg.ud)
			break;
		conn_ready(c, 0, false);
		conn_ready(c, 1, false);
		conn_ready(c, 0, true);
		conn_ready(c, 1, true);
		break;
	case CONN_CLOSING:
		if (c->cfg.cm)
			host_cm_close(c);
		else if (c->cfg.ud)
			host_ud_close(c);
		else
			conn_disconnected(c);
		break;
	default:
		break;
	}
}

static void on_given_up(void *obj, uint64_t arg)
{
	(void)arg;
	conn_abandon(obj);
}

/* The process is gone that owned the responder. */
static void on_death(void *obj, uint64_t arg)
{
	struct conn *c = obj;
	struct qp *q = c->qp[c->cfg.plan[0].nmsgs ? 1 : 0];

	(void)arg;
	c->excused = true;
	if (q)
		q->state = QP_CLOSED;
	eventq_at(&c->w->q, now_of(c) + DEATH_NS, on_given_up, c, 0);
}

void conn_init(struct conn *c, struct world *w, uint32_t id, const struct conn_cfg *cfg)
{
	*c = (struct conn){.w = w, .cfg = *cfg, .id = id};
	evtimer_init(&c->step, &w->q, on_step, c);
	host_cm_init(c);
	if (!cfg->heir_of)
		evtimer_set(&c->step, cfg->open_ns);
	if (cfg->dies_ns)
		eventq_at(&w->q, cfg->dies_ns, on_death, c, 0);
}

uint64_t conn_bytes_executed(const struct conn *c)
{
	int to = c->cfg.plan[0].nmsgs ? 1 : 0;

	return c->qp[to] ? c->qp[to]->resp.bytes_executed : 0;
}
