// SPDX-License-Identifier: Apache-2.0
/* answer.c - what a responder has to say.
 *
 * Answers (ACK, NAK, READ response, ATOMIC ACK) wait in one queue and leave in order. ACKs that follow each other are
 * merged, so that a batch of packets draws one. */
#include "engine.h"

static struct answer *answer_at(struct responder *r, uint32_t i)
{
	return &r->answers[(r->answer_head + i) % ANSWERS_MAX];
}

struct answer *answer_push(struct engine *e, struct qp *qp, enum answer_kind kind, uint32_t psn)
{
	struct responder *r = &qp->rsp;
	struct answer *a = answer_at(r, r->answer_n++);

	*a = (struct answer){.kind = kind, .syndrome = AETH_ACK_NO_CREDITS, .psn = psn, .msn = r->msn};
	engine_mark_ready(e, qp);
	return a;
}

bool answers_full(const struct responder *r)
{
	return r->answer_n == ANSWERS_MAX;
}

/* Acknowledges everything executed so far. */
void answer_push_ack(struct engine *e, struct qp *qp)
{
	struct responder *r = &qp->rsp;
	uint32_t psn = (r->epsn - 1) & ROCE_PSN_MASK;

	if (r->answer_n > 0 && answer_at(r, r->answer_n - 1)->kind == ANSWER_ACK) {
		struct answer *a = answer_at(r, r->answer_n - 1);

		a->psn = psn;
		a->msn = r->msn;
		return;
	}
	if (!answers_full(r))
		answer_push(e, qp, ANSWER_ACK, psn);
}

void answer_push_nak(struct engine *e, struct qp *qp, uint8_t syndrome)
{
	struct responder *r = &qp->rsp;

	r->nak_sent = true;
	if (!answers_full(r))
		answer_push(e, qp, ANSWER_NAK, r->epsn)->syndrome = syndrome;
}

static void send_aeth(struct engine *e, struct qp *qp, const struct answer *a)
{
	struct roce_pkt p = qp->head;

	p.opcode = a->kind == ANSWER_ATOMIC ? RC_ATOMIC_ACK : RC_ACK;
	p.psn = a->psn;
	p.aeth_syndrome = a->syndrome;
	p.aeth_msn = a->msn;
	p.atomic_orig = a->orig;
	engine_send(e, &p, NULL, 0);
	if (a->kind == ANSWER_ACK)
		e->stats.acks_tx++;
}

/* Sends one packet of a READ response; true if it was the last. */
static bool send_read_packet(struct engine *e, struct qp *qp, struct answer *a)
{
	struct roce_pkt p = qp->head;
	uint32_t len = a->left < e->pmtu ? a->left : e->pmtu;
	bool last = len == a->left;

	if (a->started)
		p.opcode = last ? RC_READ_RESP_LAST : RC_READ_RESP_MIDDLE;
	else
		p.opcode = last ? RC_READ_RESP_ONLY : RC_READ_RESP_FIRST;
	p.psn = a->psn;
	p.aeth_syndrome = AETH_ACK_NO_CREDITS;
	p.aeth_msn = a->msn;
	engine_send(e, &p, qp->rsp.mem + (a->va - qp->rsp.va), len);
	a->started = true;
	a->psn = (a->psn + 1) & ROCE_PSN_MASK;
	a->va += len;
	a->left -= len;
	return last;
}

bool rsp_pump(struct engine *e, struct qp *qp, unsigned budget)
{
	struct responder *r = &qp->rsp;

	while (r->answer_n > 0) {
		struct answer *a = answer_at(r, 0);
		bool done = true;

		if (budget-- == 0 || !engine_tx_room(e))
			return true;
		if (a->kind == ANSWER_READ)
			done = send_read_packet(e, qp, a);
		else
			send_aeth(e, qp, a);
		if (done) {
			r->answer_head = (r->answer_head + 1) % ANSWERS_MAX;
			r->answer_n--;
		}
	}
	return false;
}
