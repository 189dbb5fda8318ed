/* SPDX-License-Identifier: Apache-2.0 */
/* host_responder.c - the responder half of a queue pair: takes packets in order, executes, answers.
 *
 * It knows from the plan what the next packet must be, down to the last byte, so it finds at once what is lost,
 * repeated, out of order, of another flow or of an earlier life. */
#include "host.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "conn.h"
#include "refuse.h"
#include "world.h"

static uint64_t now_of(const struct qp *q)
{
	return q->host->w->q.now_ns;
}

/* --- replies wait here for the wire --- */

static struct reply *reply_push(struct responder *r)
{
	struct reply *p;

	if (r->reply_n == REPLIES_MAX)
		return NULL;
	p = &r->reply[(r->reply_head + r->reply_n++) % REPLIES_MAX];
	*p = (struct reply){0};
	return p;
}

static void reply_pop(struct responder *r)
{
	r->reply_head = (r->reply_head + 1) % REPLIES_MAX;
	r->reply_n--;
}

static void reply_aeth(struct qp *q, uint8_t syndrome, uint64_t pos)
{
	struct responder *r = &q->resp;
	struct reply *p = reply_push(r);

	if (!p)
		return;
	p->kind = REPLY_AETH;
	p->syndrome = syndrome;
	p->pos = pos;
	p->msn = r->msn;
	qp_activate(q);
}

uint32_t aeth_credits(uint8_t code)
{
	return code < 2 ? code : (code & 1 ? 3u : 2u) << (code / 2 - 1);
}

/* rxe says that it has no credits to tell of; others count their receives, and nobody may be led astray by that. */
static uint8_t ack_syndrome(const struct qp *q)
{
	uint32_t receives = q->resp.receive_every_ns ? q->resp.receives : 1024;
	uint8_t code = 0;

	if (!q->model->credits)
		return AETH_ACK_NO_CREDITS;
	while (code < 30 && aeth_credits(code + 1) <= receives)
		code++;
	return code;
}

/* A responder that cannot send as fast as it is asked coalesces: the newest ACK is never the one that is missing. */
static bool coalesced(struct qp *q)
{
	struct responder *r = &q->resp;
	struct reply *last = &r->reply[(r->reply_head + r->reply_n - 1) % REPLIES_MAX];

	if (r->reply_n < REPLIES_MAX || last->kind != REPLY_AETH || (last->syndrome & AETH_TYPE_MASK) != AETH_ACK)
		return false;
	last->pos = r->pos_expected - 1;
	last->msn = r->msn;
	return true;
}

static void reply_ack(struct qp *q)
{
	uint64_t pos = q->resp.pos_expected - 1;

	if (q->model->ack_from_zero && q->resp.pos_expected == 0)
		pos = 0ull - 1 - q->resp.psn_start;
	if (!coalesced(q))
		reply_aeth(q, ack_syndrome(q), pos);
}

void responder_refuse(struct qp *q, uint8_t syndrome)
{
	q->resp.dying = true;
	reply_aeth(q, syndrome, q->resp.pos_expected);
}

void responder_take_nothing(struct qp *q)
{
	q->resp.pos_expected++;
	reply_ack(q);
}

static void reply_read(struct qp *q, uint64_t pos_first, uint64_t va, uint32_t len, uint32_t msn, bool goes_on)
{
	struct reply *p = reply_push(&q->resp);

	if (!p)
		return;
	p->kind = REPLY_READ;
	p->pos = p->pos_first = pos_first;
	p->pos_last = pos_first + packets_of(len, q->pmtu) - 1;
	p->goes_on = goes_on;
	p->va = va;
	p->len = len;
	p->msn = msn;
	qp_activate(q);
}

/* kind: REPLY_ATOMIC or REPLY_EMPTY. */
static void reply_one(struct qp *q, enum reply_kind kind, uint64_t pos, uint64_t orig, uint32_t msn)
{
	struct reply *p = reply_push(&q->resp);

	if (!p)
		return;
	p->kind = kind;
	p->pos = pos;
	p->orig = orig;
	p->msn = msn;
	qp_activate(q);
}

static enum roce_opcode read_opcode(const struct reply *p)
{
	if (p->pos == p->pos_first && !p->goes_on)
		return p->pos == p->pos_last ? RC_READ_RESP_ONLY : RC_READ_RESP_FIRST;
	return p->pos == p->pos_last ? RC_READ_RESP_LAST : RC_READ_RESP_MIDDLE;
}

static struct pkt *build_read_response(struct qp *q, const struct reply *p)
{
	uint32_t off = (uint32_t)(p->pos - p->pos_first) * q->pmtu, left = p->len - off;
	uint32_t len = left < q->pmtu ? left : q->pmtu;
	struct roce_pkt pkt;

	qp_packet(q, &pkt, read_opcode(p), (uint32_t)(q->resp.psn_start + p->pos));
	pkt.aeth_syndrome = ack_syndrome(q);
	pkt.aeth_msn = p->msn;
	payload_fill(payload_key(&q->resp.plan, p->va + off), p->va + off, q->host->scratch, len);
	return qp_build(q, &pkt, q->host->scratch, len);
}

static struct pkt *build_aeth(struct qp *q, const struct reply *p)
{
	static const enum roce_opcode opcode[] = {
	    [REPLY_AETH] = RC_ACK, [REPLY_ATOMIC] = RC_ATOMIC_ACK, [REPLY_EMPTY] = RC_READ_RESP_ONLY};
	struct roce_pkt pkt;

	qp_packet(q, &pkt, opcode[p->kind], (uint32_t)(q->resp.psn_start + p->pos));
	pkt.aeth_syndrome = p->kind == REPLY_AETH ? p->syndrome : ack_syndrome(q);
	pkt.aeth_msn = p->msn;
	pkt.atomic_orig = p->orig;
	return qp_build(q, &pkt, NULL, 0);
}

static void note_acked(struct responder *r, uint64_t pos)
{
	if (pos > r->pos_acked)
		r->pos_acked = pos;
}

struct pkt *responder_next(struct qp *q)
{
	struct responder *r = &q->resp;
	struct reply *p;
	struct pkt *out;

	if (r->reply_n == 0 || q->state != QP_READY || now_of(q) < r->silent_until_ns)
		return NULL;
	p = &r->reply[r->reply_head];
	if (p->kind == REPLY_READ) {
		if (host_cnp_waits(q))
			return NULL;
		out = build_read_response(q, p);
		note_acked(r, p->pos + 1);
		if (p->pos++ == p->pos_last)
			reply_pop(r);
		return out;
	}
	out = build_aeth(q, p);
	if (p->pos <= r->pos_expected) /* the ACK of a duplicate before anything was taken has position -1 or less */
		note_acked(r, p->pos + (p->kind != REPLY_AETH || (p->syndrome & AETH_TYPE_MASK) == AETH_ACK));
	if (p->kind == REPLY_AETH) {
		r->named[r->nnamed++ % RESPONDER_NAMED] = p->pos;
		refuse_said(q, p->syndrome);
	}
	reply_pop(r);
	return out;
}

/* --- duplicates --- */

static struct own_kept *find_kept(struct responder *r, uint64_t pos)
{
	for (uint64_t i = 0; i < r->kept_max && i < r->kept_n; i++) {
		struct own_kept *k = &r->kept[(r->kept_n - 1 - i) % r->kept_max];

		if (pos >= k->pos_first && pos <= k->pos_last)
			return k;
	}
	return NULL;
}

static void keep(struct responder *r, uint64_t pos_first, uint64_t pos_last, uint64_t orig, enum reply_kind kind)
{
	r->kept[r->kept_n++ % r->kept_max] = (struct own_kept){pos_first, pos_last, orig, pos_first, r->msn, kind};
}

static void on_duplicate(struct qp *q, uint64_t pos, const struct roce_pkt *pkt)
{
	struct responder *r = &q->resp;
	struct own_kept *k;

	r->duplicates++;
	if (!(roce_op(pkt->opcode)->flags & ROP_OWN_RESPONSE)) {
		if (q->model->ack_each_duplicate || pkt->ack_req)
			reply_ack(q);
		return;
	}
	k = find_kept(r, pos);
	if (!k)
		return;
	if (k->kind != REPLY_READ)
		reply_one(q, k->kind, pos, k->orig, k->msn);
	else if (pkt->opcode == RC_READ_REQUEST && !(q->model->forward_only && pos < k->pos_asked))
		reply_read(q, k->pos_asked = pos, pkt->reth_va, pkt->reth_len, q->model->msn_by_now ? r->msn : k->msn,
		           q->model->rest_is_middle && pos != k->pos_first);
}

/* --- the next packet in order --- */

static void on_repost(void *obj, uint64_t arg)
{
	struct qp *q = obj;

	(void)arg;
	q->resp.receives++;
}

/* A receive for this packet, if it needs one. False: none posted. */
static bool take_receive(struct qp *q, const struct msg *m, bool first, bool last)
{
	struct responder *r = &q->resp;
	bool needs = m->op == OP_WRITE_IMM ? last : msg_takes_receive(m) && first;

	if (!needs || r->receive_every_ns == 0)
		return true;
	if (r->receives == 0)
		return false;
	r->receives--;
	eventq_at(&q->host->w->q, now_of(q) + r->receive_every_ns, on_repost, q, 0);
	return true;
}

static void wrong(struct qp *q, const char *what, const struct roce_pkt *pkt)
{
	if (q->peer->req.wrong_rounds) {
		conn_abandon(q->conn); /* what has lost count can fit by chance: its host has harmed itself */
		return;
	}
	check_fail(q->host->w, "execution",
	           "QPN %06x message %llu offset %u position %llu: %s (%s, psn %06x, %u bytes)", q->qpn,
	           (unsigned long long)q->resp.msg, q->resp.off, (unsigned long long)q->resp.pos_expected, what,
	           roce_op(pkt->opcode)->name, pkt->psn, pkt->payload_len);
}

/* The kind of an opcode without its place in the message. */
static bool opcode_fits(const struct msg *m, bool first, bool last, uint8_t opcode)
{
	const struct roce_opinfo *op = roce_op(opcode);
	bool is_send = opcode <= RC_SEND_ONLY_IMM, want_send = m->op == OP_SEND || m->op == OP_SEND_IMM;
	bool want_imm = last && (m->op == OP_SEND_IMM || m->op == OP_WRITE_IMM);

	return (op->flags & ROP_REQUEST) && opcode <= RC_WRITE_ONLY_IMM && is_send == want_send &&
	       !(op->flags & ROP_START) == !first && !(op->flags & ROP_END) == !last &&
	       !(op->flags & ROP_IMM) == !want_imm;
}

static const char *data_wrong(const struct qp *q, const struct msg *m, bool first, bool last, const uint8_t *l3,
                              const struct roce_pkt *pkt)
{
	const struct responder *r = &q->resp;
	uint32_t left = m->len - r->off;
	uint16_t flags = roce_op(pkt->opcode)->flags;

	if (!opcode_fits(m, first, last, pkt->opcode))
		return "another operation was due";
	if (pkt->payload_len != (left < q->pmtu ? left : q->pmtu))
		return "another length was due";
	if ((flags & ROP_RETH) && (pkt->reth_va != m->va || pkt->reth_len != m->len || pkt->reth_rkey != m->rkey))
		return "RETH of another message";
	if ((flags & ROP_IMM) && pkt->imm != m->imm)
		return "immediate data of another message";
	if (!payload_right(payload_key(&r->plan, m->va + r->off), m->va + r->off, l3 + pkt->hdr_len, pkt->payload_len))
		return "wrong bytes";
	return NULL;
}

static void executed(struct qp *q, const struct msg *m)
{
	struct responder *r = &q->resp;

	r->msg++;
	r->msn = (r->msn + 1) & 0xffffff;
	r->off = 0;
	r->in_message = false;
	r->bytes_executed += m->op == OP_READ || m->op > OP_READ ? 0 : m->len;
	r->executed_ns = now_of(q);
	conn_executed(q->conn, q->side);
}

static void rnr_nak(struct qp *q)
{
	reply_aeth(q, (uint8_t)(AETH_RNR_NAK | q->conn->cfg.rnr_timer), q->resp.pos_expected);
	q->resp.nak_sent = !q->model->nak_behind_rnr;
}

static void take_data(struct qp *q, const struct msg *m, const uint8_t *l3, const struct roce_pkt *pkt)
{
	struct responder *r = &q->resp;
	bool first = !r->in_message, last = m->len - r->off <= q->pmtu;
	const char *why = data_wrong(q, m, first, last, l3, pkt);

	if (why) {
		wrong(q, why, pkt);
		return;
	}
	if (!take_receive(q, m, first, last)) {
		rnr_nak(q);
		return;
	}
	r->pos_expected++;
	r->nak_sent = false;
	r->in_message = true;
	r->in_send = m->op == OP_SEND || m->op == OP_SEND_IMM;
	r->off += pkt->payload_len;
	if (last)
		executed(q, m);
	if (pkt->ack_req)
		reply_ack(q);
}

static void take_read(struct qp *q, const struct msg *m, const struct roce_pkt *pkt)
{
	struct responder *r = &q->resp;
	uint64_t pos = r->pos_expected;

	if (m->op != OP_READ || pkt->reth_va != m->va || pkt->reth_len != m->len || pkt->reth_rkey != m->rkey) {
		wrong(q, "another request was due than this READ", pkt);
		return;
	}
	r->pos_expected += packets_of(m->len, q->pmtu);
	r->nak_sent = false;
	executed(q, m);
	keep(r, pos, r->pos_expected - 1, 0, REPLY_READ);
	reply_read(q, pos, m->va, m->len, r->msn, false);
}

static bool atomic_fits(const struct responder *r, const struct msg *m, const struct roce_pkt *pkt)
{
	if (pkt->atomic_va != m->va || pkt->atomic_rkey != m->rkey || pkt->atomic_swap_add != m->swap_add)
		return false;
	if (m->op == OP_FETCH_ADD)
		return pkt->opcode == RC_FETCH_ADD;
	return m->op == OP_CMP_SWAP && pkt->opcode == RC_CMP_SWAP &&
	       pkt->atomic_compare == (m->compare_hits ? r->counter : m->compare);
}

static void take_atomic(struct qp *q, const struct msg *m, const struct roce_pkt *pkt)
{
	struct responder *r = &q->resp;
	uint64_t pos = r->pos_expected, orig = r->counter;

	if (!atomic_fits(r, m, pkt)) {
		wrong(q, "another request was due than this ATOMIC", pkt);
		return;
	}
	r->counter = msg_counter_after(m, r->counter);
	r->pos_expected++;
	r->nak_sent = false;
	executed(q, m);
	keep(r, pos, pos, orig, REPLY_ATOMIC);
	reply_one(q, REPLY_ATOMIC, pos, orig, r->msn);
}

static bool flush_or_atomic_write_fits(const struct msg *m, const uint8_t *l3, const struct roce_pkt *pkt)
{
	if (pkt->reth_va != m->va || pkt->reth_rkey != m->rkey)
		return false;
	if (m->op == OP_FLUSH)
		return pkt->opcode == RC_FLUSH && pkt->feth == (uint32_t)m->compare &&
		       pkt->reth_len == (uint32_t)(m->compare >> 32) && pkt->payload_len == 0;
	return m->op == OP_ATOMIC_WRITE && pkt->opcode == RC_ATOMIC_WRITE && pkt->reth_len == 8 &&
	       pkt->payload_len == 8 && memcmp(l3 + pkt->hdr_len, &m->swap_add, 8) == 0;
}

/* Neither is executed twice, and both are answered by a READ response without a byte (IBTA annex A19, rxe_resp.c). rxe
 * finds no FLUSH that it has executed and is silent when it is repeated: no network could help a program there. */
static void take_flush_or_atomic_write(struct qp *q, const struct msg *m, const uint8_t *l3,
                                       const struct roce_pkt *pkt)
{
	struct responder *r = &q->resp;
	uint64_t pos = r->pos_expected;

	if (!flush_or_atomic_write_fits(m, l3, pkt)) {
		wrong(q, "another request was due", pkt);
		return;
	}
	r->counter = msg_counter_after(m, r->counter);
	r->pos_expected++;
	r->nak_sent = false;
	executed(q, m);
	keep(r, pos, pos, 0, REPLY_EMPTY);
	reply_one(q, REPLY_EMPTY, pos, 0, r->msn);
}

static void take(struct qp *q, const uint8_t *l3, const struct roce_pkt *pkt)
{
	struct responder *r = &q->resp;
	struct msg m;

	if (refuse_packet(q, pkt) || refuse_impossible(q, pkt))
		return;
	if (r->msg >= r->plan.nmsgs) {
		wrong(q, "more than was ever sent", pkt);
		return;
	}
	msg_describe(&r->plan, r->msg, &m);
	if (pkt->opcode == RC_READ_REQUEST)
		take_read(q, &m, pkt);
	else if (pkt->opcode == RC_FETCH_ADD || pkt->opcode == RC_CMP_SWAP)
		take_atomic(q, &m, pkt);
	else if (pkt->opcode == RC_FLUSH || pkt->opcode == RC_ATOMIC_WRITE)
		take_flush_or_atomic_write(q, &m, l3, pkt);
	else
		take_data(q, &m, l3, pkt);
}

static void on_awake(void *obj, uint64_t arg)
{
	(void)arg;
	qp_activate(obj);
}

void responder_rx(struct qp *q, const uint8_t *l3, const struct roce_pkt *pkt)
{
	struct responder *r = &q->resp;
	int32_t diff = psn_diff(pkt->psn, (uint32_t)(r->psn_start + r->pos_expected) & ROCE_PSN_MASK);

	if (r->dying)
		return;
	conn_heard(q->conn, q->side);
	if (!r->silent_until_ns) {
		r->silent_until_ns = now_of(q) + q->conn->cfg.answer_late_ns;
		eventq_at(&q->host->w->q, r->silent_until_ns, on_awake, q, 0);
	}
	if (diff < 0) {
		on_duplicate(q, r->pos_expected + (uint64_t)(int64_t)diff, pkt);
	} else if (diff > 0) {
		if (!r->nak_sent)
			reply_aeth(q, AETH_NAK_PSN_SEQ, r->pos_expected);
		r->nak_sent = true;
	} else {
		take(q, l3, pkt);
	}
}

void responder_init(struct qp *q, const struct msg_plan *plan, uint32_t psn_start, uint32_t kept_max)
{
	struct responder *r = &q->resp;
	struct reply *reply = r->reply ? r->reply : calloc(REPLIES_MAX, sizeof(*reply));

	*r = (struct responder){.plan = *plan, .psn_start = psn_start, .reply = reply};
	r->kept_max = kept_max < 1 ? 1 : kept_max > OWN_KEPT_MAX ? OWN_KEPT_MAX : kept_max;
	r->receive_every_ns = q->conn->cfg.receive_every_ns;
	r->receives = q->conn->cfg.receives;
}

void responder_free(struct qp *q)
{
	free(q->resp.reply);
	q->resp.reply = NULL;
}
