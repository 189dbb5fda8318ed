/* SPDX-License-Identifier: Apache-2.0 */
#include "host_cm.h"

#include <string.h>

#include "check.h"
#include "conn.h"
#include "host_ud.h"
#include "world.h"
#include "proxy/util/bytes.h"
#include "proxy/roce/cm.h"

/* Offsets within a MAD: header of 24 bytes, then the message. IBTA 12.6, as in the kernel's cm_msgs.h. */
#define MAD_LEN  256
#define MAD_DATA 24

enum { ATTR_REQ = 0x10, ATTR_REP = 0x13, ATTR_RTU = 0x14, ATTR_DREQ = 0x15, ATTR_DREP = 0x16 };

static uint64_t now_of(const struct conn *c)
{
	return c->w->q.now_ns;
}

static struct host *host_of_conn(const struct conn *c, int side)
{
	return &c->w->host[side][c->cfg.host[side]];
}

static void mad_header(uint8_t *mad, uint16_t attr, uint64_t transaction)
{
	memset(mad, 0, MAD_LEN);
	mad[0] = 1; /* base version */
	mad[1] = 7; /* class: communication management */
	mad[2] = 2; /* class version */
	mad[3] = 3; /* send */
	put_be64(mad + 8, transaction);
	put_be16(mad + 16, attr);
}

static uint8_t pmtu_code(uint16_t pmtu)
{
	uint8_t code = 1;

	while ((256u << (code - 1)) < pmtu)
		code++;
	return code;
}

static void put_req(const struct conn *c, uint8_t *d)
{
	const struct qp *a = c->qp[0];

	put_be32(d, c->comm_id[0]);
	put_be24(d + 32, a->qpn);
	d[35] = (uint8_t)c->cfg.max_rd;
	d[39] = (uint8_t)c->cfg.max_rd;
	put_be24(d + 44, c->qp[1]->req.psn_start); /* what the passive side sends with */
	d[47] = 7;                                 /* retry count */
	put_be16(d + 48, c->cfg.pkey);
	d[50] = (uint8_t)(pmtu_code(c->cfg.pmtu) << 4 | c->cfg.rnr_retry); /* path MTU, RNR retry count */
	d[51] = 15 << 4;                                                   /* CM retries */
	memcpy(d + 56, a->addr.b, 16);
	memcpy(d + 72, a->peer_addr.b, 16);
	d[93] = 64;
	d[95] = 14 << 3; /* local ACK timeout */
}

static void put_rep(const struct conn *c, uint8_t *d)
{
	put_be32(d, c->comm_id[1]);
	put_be32(d + 4, c->comm_id[0]);
	put_be24(d + 12, c->qp[1]->qpn);
	put_be24(d + 20, c->qp[0]->req.psn_start); /* what the active side sends with */
	d[24] = (uint8_t)c->cfg.max_rd;
	d[25] = (uint8_t)c->cfg.max_rd;
	d[27] = (uint8_t)(c->cfg.rnr_retry << 5); /* RNR retry count */
}

static void send_mad(struct conn *c, int side, uint16_t attr, uint64_t transaction)
{
	const struct qp *q = c->qp[side];
	uint8_t mad[MAD_LEN], *d = mad + MAD_DATA;
	struct roce_pkt pkt;
	struct pkt *p;

	mad_header(mad, attr, transaction);
	put_be32(d, c->comm_id[side]);
	if (attr == ATTR_REQ)
		put_req(c, d);
	else
		put_be32(d + 4, c->comm_id[!side]);
	if (attr == ATTR_REP)
		put_rep(c, d);
	if (attr == ATTR_DREQ)
		put_be24(d + 8, q->dest_qpn);
	qp_packet(q, &pkt, UD_SEND_ONLY, 0);
	pkt.udp_sport = 55410;
	pkt.dest_qpn = 1;
	pkt.deth_qkey = 0x80010000;
	pkt.deth_src_qpn = 1;
	p = qp_build(q, &pkt, mad, MAD_LEN);
	if (c->cfg.cm_echo_ns && (attr == ATTR_REQ || attr == ATTR_REP) && !c->mad[side])
		c->mad[side] = pkt_dup(p);
	host_send_mad(q->host, p);
}

/* Copies that a network kept for long: of this life's REQ and REP, and of those of the life before. */
static void on_echo(void *obj)
{
	struct conn *c = obj;

	for (int side = 0; side < 2; side++) {
		if (c->mad[side])
			host_send_mad(host_of_conn(c, side), pkt_dup(c->mad[side]));
		if (c->old_mad[side])
			host_send_mad(host_of_conn(c, side), pkt_dup(c->old_mad[side]));
	}
	if (++c->echoes < 8 && c->state != CONN_OVER)
		evtimer_set(&c->echo, now_of(c) + c->cfg.cm_echo_ns);
}

static void age_mads(struct conn *c)
{
	for (int side = 0; side < 2; side++) {
		if (c->old_mad[side])
			pkt_free(c->old_mad[side]);
		c->old_mad[side] = c->mad[side];
		c->mad[side] = NULL;
	}
	c->echoes = 0;
	if (c->cfg.cm_echo_ns)
		evtimer_set(&c->echo, now_of(c) + c->cfg.cm_echo_ns);
}

void host_cm_free(struct conn *c)
{
	c->cfg.cm_echo_ns = 0;
	age_mads(c);
	age_mads(c);
}

/* --- the two sides --- */

static void arm_resend(struct conn *c, uint8_t side)
{
	c->resend_side = side;
	evtimer_set(&c->resend, now_of(c) + c->w->cfg.cm_retry_ns);
}

static void on_resend(void *obj)
{
	struct conn *c = obj;

	if (c->state == CONN_OVER)
		return;
	if (c->cfg.ud) {
		host_ud_resend(c);
		return;
	}
	if (c->dreq_sent)
		send_mad(c, 0, ATTR_DREQ, c->dreq_transaction);
	else if (c->resend_side == 0)
		send_mad(c, 0, ATTR_REQ, c->transaction);
	else
		send_mad(c, 1, ATTR_REP, c->transaction);
	arm_resend(c, c->resend_side);
}

void host_cm_init(struct conn *c)
{
	evtimer_init(&c->resend, &c->w->q, on_resend, c);
	evtimer_init(&c->echo, &c->w->q, on_echo, c);
}

void host_cm_open(struct conn *c)
{
	uint64_t h = rng_hash(rng_hash(c->w->cfg.seed, 0xc3), (uint64_t)c->id << 32 | c->round);

	c->comm_id[0] = (c->id << 8 | (c->round & 0x7f)) ^ 0x5a000000;
	c->comm_id[1] = c->comm_id[0] ^ 0x00800000;
	c->transaction = h;
	c->dreq_transaction = h + 1;
	c->rtu_seen = c->dreq_sent = c->dreq_seen = c->drep_sent = false;
	age_mads(c);
	send_mad(c, 0, ATTR_REQ, c->transaction);
	arm_resend(c, 0);
}

void host_cm_close(struct conn *c)
{
	if (c->dreq_sent)
		return;
	c->dreq_sent = true;
	c->dreq_completed = c->qp[0]->req.msg_completed;
	send_mad(c, 0, ATTR_DREQ, c->dreq_transaction);
	arm_resend(c, 0);
}

static void on_req(struct conn *c)
{
	if (c->rtu_seen || c->dreq_seen)
		return;
	conn_ready(c, 1, false);
	send_mad(c, 1, ATTR_REP, c->transaction);
	if (c->qp[0]->state == QP_INIT)
		arm_resend(c, 1);
}

static void on_rep(struct conn *c)
{
	send_mad(c, 0, ATTR_RTU, c->transaction);
	if (c->resend_side == 0 && !c->dreq_sent)
		evtimer_cancel(&c->resend);
	conn_ready(c, 0, true);
}

static void on_rtu(struct conn *c)
{
	c->rtu_seen = true;
	if (!c->dreq_sent)
		evtimer_cancel(&c->resend);
	conn_ready(c, 1, true);
}

void host_cm_try_drep(struct conn *c)
{
	if (c->qp[1]->req.msg_completed < c->qp[1]->req.plan.nmsgs)
		return;
	c->drep_sent = true;
	send_mad(c, 1, ATTR_DREP, c->dreq_transaction);
}

static void on_dreq(struct conn *c)
{
	if (!c->dreq_seen)
		check_dreq(c);
	c->dreq_seen = true;
	host_cm_try_drep(c);
}

static void on_drep(struct conn *c)
{
	if (c->dreq_sent && c->state == CONN_CLOSING)
		conn_disconnected(c);
}

static struct conn *find_conn(struct world *w, uint8_t site, uint32_t remote_comm_id)
{
	for (uint32_t i = 0; i < w->nconns; i++)
		if (w->conn[i].cfg.cm && w->conn[i].comm_id[!site] == remote_comm_id && w->conn[i].state != CONN_OVER &&
		    w->conn[i].state != CONN_WAITING)
			return &w->conn[i];
	return NULL;
}

void host_cm_rx(struct host *h, const uint8_t *l3, const struct roce_pkt *pkt)
{
	struct cm_msg msg;
	struct conn *c;

	cm_parse(l3, pkt, &msg);
	/* the sender's id; late copies of an earlier round's messages find nothing */
	c = find_conn(h->w, h->site, msg.local_comm_id);
	if (!c || msg.type == CM_NONE)
		return;
	switch (msg.type) {
	case CM_REQ:
		on_req(c);
		break;
	case CM_REP:
		on_rep(c);
		break;
	case CM_RTU:
		on_rtu(c);
		break;
	case CM_DREQ:
		on_dreq(c);
		break;
	case CM_DREP:
		on_drep(c);
		break;
	default:
		break;
	}
}
