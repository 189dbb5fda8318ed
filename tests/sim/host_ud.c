/* SPDX-License-Identifier: Apache-2.0 */
#include "host_ud.h"

#include "check.h"
#include "conn.h"
#include "world.h"
#include "proxy/util/bytes.h"

#define WIREUP_LEN 64

/* As UCX does it: who was asked sends only once it knows that the other end listens. */
enum wireup { UD_HELLO = 1, UD_WELCOME, UD_DONE, UD_BYE, UD_READY };

static void say(struct conn *c, int side, enum wireup what)
{
	const struct qp *q = c->qp[side];
	uint8_t body[WIREUP_LEN] = {(uint8_t)what};
	struct roce_pkt pkt;

	put_be32(body + 4, c->id);
	put_be32(body + 8, c->round);
	put_be64(body + 16, q->req.msg_completed);
	qp_packet(q, &pkt, UD_SEND_ONLY, 0);
	pkt.dest_qpn = UD_QPN;
	pkt.deth_qkey = 0x1ee7;
	pkt.deth_src_qpn = UD_QPN;
	host_send_mad(q->host, qp_build(q, &pkt, body, sizeof(body)));
}

static void ask(struct conn *c, int side, enum wireup what)
{
	say(c, side, what);
	c->resend_side = (uint8_t)side;
	evtimer_set(&c->resend, c->w->q.now_ns + c->w->cfg.cm_retry_ns);
}

void host_ud_open(struct conn *c)
{
	c->dreq_sent = c->dreq_seen = false;
	ask(c, 0, UD_HELLO);
}

void host_ud_close(struct conn *c)
{
	c->dreq_sent = true;
	c->dreq_completed = c->qp[0]->req.msg_completed;
	ask(c, 0, UD_DONE);
}

void host_ud_resend(struct conn *c)
{
	if (c->resend_side)
		ask(c, 1, UD_WELCOME);
	else
		ask(c, 0, c->dreq_sent ? UD_DONE : UD_HELLO);
}

void host_ud_rx(struct host *h, const uint8_t *l3, const struct roce_pkt *pkt)
{
	const uint8_t *body = l3 + pkt->hdr_len;
	struct conn *c;

	if (pkt->payload_len < WIREUP_LEN || get_be32(body + 4) >= h->w->nconns) {
		check_fail(h->w, "ud-bytes", "a UD message of %u bytes that nobody sent", pkt->payload_len);
		return;
	}
	c = &h->w->conn[get_be32(body + 4)];
	if (c->state == CONN_WAITING || c->state == CONN_OVER || get_be32(body + 8) != c->round)
		return; /* a late copy */
	switch (body[0]) {
	case UD_HELLO:
		conn_ready(c, 1, false);
		say(c, 1, UD_WELCOME);
		break;
	case UD_WELCOME:
		conn_ready(c, 0, true);
		if (!c->dreq_sent && !c->qp[1]->can_send) { /* HELLO is said no more, and WELCOME is until READY comes */
			c->resend_side = 1;
			evtimer_set(&c->resend, c->w->q.now_ns + c->w->cfg.cm_retry_ns);
		}
		say(c, 0, UD_READY);
		break;
	case UD_READY:
		if (!c->dreq_sent)
			evtimer_cancel(&c->resend);
		conn_ready(c, 1, true);
		break;
	case UD_DONE:
		if (!c->dreq_seen)
			check_ud_done(c);
		c->dreq_seen = true;
		if (conn_side_done(c, 1))
			say(c, 1, UD_BYE);
		break;
	case UD_BYE:
		if (c->dreq_sent && c->state == CONN_CLOSING)
			conn_disconnected(c);
		break;
	default:
		break;
	}
}
