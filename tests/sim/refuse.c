/* SPDX-License-Identifier: Apache-2.0 */
#include "refuse.h"

#include "conn.h"
#include "host.h"
#include "world.h"

/* GiveUp, a requester that is sent away until then, its retries, and the tries of the edge to tell it. */
#define LEARNED_NS(w) ((w)->cfg.give_up_ns + 20000000000ull + 10 * world_rtt_ns(w))

static uint64_t now_of(const struct qp *q)
{
	return q->host->w->q.now_ns;
}

static void die(struct qp *q)
{
	q->state = QP_ERROR;
	q->req.flushed = q->req.msg_posted - q->req.msg_completed;
	evtimer_cancel(&q->req.retry);
	evtimer_cancel(&q->req.rnr_wait);
}

/* rxe asks for ever, and nobody refuses what it asks for. */
static bool never_learns(const struct qp *q)
{
	return q->model->retries == UINT32_MAX && q->req.pos_una < q->req.pos_posted;
}

static void on_learned(void *obj, uint64_t arg)
{
	struct conn *c = obj;
	const struct qp *q = c->qp[0];

	(void)arg;
	if (c->state == CONN_OVER)
		return;
	if (q->state != QP_ERROR && !never_learns(q))
		check_fail(
		    c->w, "late-error",
		    "QPN %06x: message %llu was refused at %.3f s, and its requester, which has completed %llu of "
		    "%llu, does not know",
		    q->qpn, (unsigned long long)c->cfg.refuse_msg - 1, (double)c->refused_ns / 1e9,
		    (unsigned long long)q->req.msg_completed, (unsigned long long)q->req.plan.nmsgs);
	else
		conn_abandon(c);
}

static void refused(struct qp *q)
{
	struct conn *c = q->conn;
	struct world *w = c->w;
	uint64_t from_ns = now_of(q);

	for (uint32_t i = 0; i < w->cfg.ncrashes; i++)
		if (world_cfg_crash_over_ns(&w->cfg, i) > from_ns)
			from_ns = world_cfg_crash_over_ns(&w->cfg, i);
	c->excused = true;
	c->refused_ns = now_of(q);
	world_note(w, 1, "conn %u: QPN %06x refuses message %llu, syndrome %02x", c->id, q->qpn,
	           (unsigned long long)q->resp.msg, c->cfg.refuse_syndrome);
	eventq_at(&w->q, from_ns + LEARNED_NS(w), on_learned, c, 0);
}

bool refuse_packet(struct qp *q, const struct roce_pkt *pkt)
{
	const struct conn_cfg *k = &q->conn->cfg;

	if (q->resp.dying)
		return true;
	if (q->side != 1 || !k->refuse_msg || q->resp.msg + 1 < k->refuse_msg ||
	    !(roce_op(pkt->opcode)->flags & ROP_START))
		return false;
	refused(q);
	if (k->refuse_syndrome) {
		responder_refuse(q, k->refuse_syndrome);
	} else {
		die(q);
		conn_leaves(q->conn);
	}
	return true;
}

void refuse_said(struct qp *q, uint8_t syndrome)
{
	if ((syndrome & AETH_TYPE_MASK) != AETH_NAK || syndrome == AETH_NAK_PSN_SEQ)
		return;
	die(q);
	if (q->side == 0)
		check_told(q);
	else
		conn_leaves(q->conn);
}

static bool out_of_sequence(const struct qp *q, const struct roce_pkt *pkt)
{
	bool starts = roce_op(pkt->opcode)->flags & ROP_START, send = pkt->opcode <= RC_SEND_ONLY_IMM;

	return q->resp.in_message ? starts || send != q->resp.in_send : !starts;
}

bool refuse_impossible(struct qp *q, const struct roce_pkt *pkt)
{
	if (!refuse_may_tell(q, pkt))
		return false;
	if (out_of_sequence(q, pkt))
		responder_refuse(q, AETH_NAK_INV_REQ);
	else
		responder_take_nothing(q);
	return true;
}

bool refuse_tells(const struct roce_pkt *pkt)
{
	return (pkt->opcode == RC_SEND_MIDDLE || pkt->opcode == RC_WRITE_MIDDLE) && pkt->payload_len == 0;
}

bool refuse_may_tell(const struct qp *q, const struct roce_pkt *pkt)
{
	return q->side == 0 && q->conn->refused_ns && refuse_tells(pkt);
}
