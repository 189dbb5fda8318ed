// SPDX-License-Identifier: Apache-2.0
/* cmlink.c - connection management messages: IBTA vol. 1, 12.6 (formats) and 12.9 (who sends what when). */
#include "cmlink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pattern.h"
#include "proxy/util/bytes.h"
#include "proxy/roce/cm.h"

enum {
	MAD_LEN = 256,
	MAD_DATA = 24,
	REQ_PRIVATE = 140,
	DREQ_PRIVATE = 12,
	OUTSTANDING_MAX = 32, /* requests out at a time */
	TRIES_MAX = 40,
	CM_SPORT = 55410,
};

#define CM_QKEY    0x80010000u
#define RETRY_NS   500000000u
#define LOOK_NS    20000000u
#define MAGIC      0x72637066u /* "rcpf": our private data */
#define SERVICE_ID 0x0000000001060000u

enum attribute { ATTR_REQ = 0x10, ATTR_REP = 0x13, ATTR_RTU = 0x14, ATTR_DREQ = 0x15, ATTR_DREP = 0x16 };

int cmlink_init(struct cmlink *l, struct engine *e, bool active)
{
	uint64_t r = pat_mix(clock_ns() ^ (uint64_t)getpid());

	*l = (struct cmlink){.e = e, .active = active, .comm_base = (uint32_t)r, .transaction = r & ~0xffffull};
	l->qps = calloc(e->nqps, sizeof(*l->qps));
	return l->qps == NULL ? -ENOMEM : 0;
}

void cmlink_free(struct cmlink *l)
{
	free(l->qps);
	l->qps = NULL;
}

/* ---- messages ---- */

static void begin_mad(uint8_t mad[MAD_LEN], enum attribute attr, uint64_t transaction, uint32_t local, uint32_t remote)
{
	memset(mad, 0, MAD_LEN);
	mad[0] = 1; /* base version */
	mad[1] = 7; /* class: communication management */
	mad[2] = 2; /* class version */
	mad[3] = 3; /* method: Send */
	put_be64(mad + 8, transaction);
	put_be16(mad + 16, (uint16_t)attr);
	put_be32(mad + MAD_DATA, local);
	if (attr != ATTR_REQ)
		put_be32(mad + MAD_DATA + 4, remote);
}

static bool send_mad(struct engine *e, const struct qp *qp, const uint8_t mad[MAD_LEN])
{
	struct roce_pkt p = qp->head;

	if (!engine_tx_room(e))
		return false;
	p.opcode = UD_SEND_ONLY;
	p.dest_qpn = 1;
	p.udp_sport = CM_SPORT;
	p.deth_qkey = CM_QKEY;
	p.deth_src_qpn = 1;
	engine_send(e, &p, mad, MAD_LEN);
	port_flush(&e->port);
	return true;
}

static uint32_t timeout_exponent(uint64_t ns)
{
	uint32_t x = 0;

	while (x < 31 && (4096ull << x) < ns)
		x++;
	return x;
}

static uint8_t mtu_code(uint32_t mtu)
{
	return (uint8_t)(__builtin_ctz(mtu) - 7);
}

static bool send_req(struct cmlink *l, uint32_t i)
{
	const struct qp *qp = &l->e->qps[i];
	const struct opt *o = l->e->opt;
	uint8_t mad[MAD_LEN], *d = mad + MAD_DATA;

	begin_mad(mad, ATTR_REQ, l->transaction + i, l->comm_base + i, 0);
	put_be64(d + 8, SERVICE_ID + o->ctl_port);
	put_be24(d + 32, qp->qpn);
	d[35] = (uint8_t)o->rd_atomic;
	d[39] = (uint8_t)o->rd_atomic;
	d[43] = 20 << 3 | 0 << 1;       /* remote CM response timeout; transport RC */
	put_be24(d + 44, qp->rsp.epsn); /* what the passive side starts to send with */
	d[47] = (uint8_t)(20 << 3 | o->retry);
	put_be16(d + 48, 0xffff);
	d[50] = (uint8_t)((uint32_t)mtu_code(o->mtu) << 4 | o->rnr_retry);
	d[51] = 15 << 4;
	memcpy(d + 56, o->addr.b, 16);
	memcpy(d + 72, o->peer.b, 16);
	d[93] = o->ttl;
	d[95] = (uint8_t)(timeout_exponent(o->timeout_ns) << 3);
	put_be32(d + REQ_PRIVATE, MAGIC);
	put_be32(d + REQ_PRIVATE + 4, i);
	return send_mad(l->e, qp, mad);
}

static void send_rep(struct cmlink *l, uint32_t i, uint64_t transaction)
{
	const struct qp *qp = &l->e->qps[i];
	uint8_t mad[MAD_LEN], *d = mad + MAD_DATA;

	begin_mad(mad, ATTR_REP, transaction, l->comm_base + i, l->qps[i].peer_comm);
	put_be24(d + 12, qp->qpn);
	put_be24(d + 20, qp->rsp.epsn);
	d[24] = d[25] = (uint8_t)l->e->opt->rd_atomic;
	d[27] = (uint8_t)(l->e->opt->rnr_retry << 5);
	(void)send_mad(l->e, qp, mad);
}

static bool send_short(struct cmlink *l, uint32_t i, enum attribute attr, uint64_t transaction)
{
	const struct qp *qp = &l->e->qps[i];
	uint8_t mad[MAD_LEN], *d = mad + MAD_DATA;

	begin_mad(mad, attr, transaction, l->comm_base + i, l->qps[i].peer_comm);
	if (attr == ATTR_DREQ) {
		put_be24(d + 8, qp->head.dest_qpn);
		put_be32(d + DREQ_PRIVATE, MAGIC);
		put_be64(d + DREQ_PRIVATE + 4, qp->req.msg_una);
	}
	return send_mad(l->e, qp, mad);
}

/* ---- receiving ---- */

static void arrive(struct cmlink *l, uint32_t i)
{
	l->qps[i].state = l->goal;
	l->reached++;
	l->waiting--;
	l->look_ns = 0;
}

static void check_peer(struct cmlink *l, uint32_t i, const struct cm_msg *m)
{
	const struct qp *qp = &l->e->qps[i];

	if (m->qpn != qp->head.dest_qpn || m->starting_psn != qp->req.psn_base)
		engine_fail(l->e, "CM message for QP %u has QPN 0x%x and PSN 0x%x, not 0x%x and 0x%x", i, m->qpn,
		            m->starting_psn, qp->head.dest_qpn, qp->req.psn_base);
}

static void take_req(struct cmlink *l, const uint8_t *d, const struct cm_msg *m)
{
	uint32_t i = get_be32(d + REQ_PRIVATE + 4);

	if (get_be32(d + REQ_PRIVATE) != MAGIC || i >= l->e->nqps || l->active)
		return;
	check_peer(l, i, m);
	l->qps[i].peer_comm = m->local_comm_id;
	send_rep(l, i, m->transaction);
}

static void take_rep(struct cmlink *l, uint32_t i, const struct cm_msg *m)
{
	if (l->qps[i].state == CMS_REQ_SENT) {
		check_peer(l, i, m);
		l->qps[i].peer_comm = m->local_comm_id;
		arrive(l, i);
	}
	if (l->qps[i].state == CMS_UP)
		(void)send_short(l, i, ATTR_RTU, m->transaction);
}

/* The active side had all its completions: is everything executed that they stand for? */
static void take_dreq(struct cmlink *l, uint32_t i, const uint8_t *d, const struct cm_msg *m)
{
	const struct responder *r = &l->e->qps[i].rsp;
	uint64_t sent = get_be64(d + DREQ_PRIVATE + 4), executed = r->due - (r->in_msg ? 1 : 0);

	if (l->qps[i].state != CMS_DOWN && get_be32(d + DREQ_PRIVATE) == MAGIC && sent > executed)
		l->e->stats.missing_at_dreq += sent - executed;
	l->qps[i].state = CMS_DOWN;
	(void)send_short(l, i, ATTR_DREP, m->transaction);
}

static void on_mad(void *ctx, const uint8_t *l3, const struct roce_pkt *pkt)
{
	struct cmlink *l = ctx;
	const uint8_t *d = l3 + pkt->hdr_len + MAD_DATA;
	struct cm_msg m;
	uint32_t i;

	cm_parse(l3, pkt, &m);
	if (m.type == CM_REQ) {
		take_req(l, d, &m);
		return;
	}
	i = m.remote_comm_id - l->comm_base;
	if (m.type == CM_NONE || m.type == CM_OTHER || i >= l->e->nqps)
		return;
	if (m.type == CM_REP && l->active)
		take_rep(l, i, &m);
	else if (m.type == CM_DREQ && !l->active)
		take_dreq(l, i, d, &m);
	else if (m.type == CM_DREP && l->qps[i].state == CMS_DREQ_SENT)
		arrive(l, i);
}

/* ---- the active side ---- */

void cmlink_begin(struct cmlink *l, enum cm_state goal)
{
	l->goal = goal;
	l->reached = l->waiting = 0;
	l->look_ns = 0;
	l->began_ns = clock_ns();
	l->e->on_mad = on_mad;
	l->e->mad_ctx = l;
}

static void send_request(struct cmlink *l, uint32_t i)
{
	struct cm_qp *q = &l->qps[i];
	bool up = l->goal == CMS_UP, sent;
	/* connecting and disconnecting are different transactions */
	uint64_t transaction = l->transaction + i + (up ? 0 : 0x8000);

	sent = up ? send_req(l, i) : send_short(l, i, ATTR_DREQ, transaction);
	if (!sent)
		return;
	if (q->state != CMS_REQ_SENT && q->state != CMS_DREQ_SENT) {
		q->tries = 0;
		l->waiting++;
	}
	q->state = up ? CMS_REQ_SENT : CMS_DREQ_SENT;
	q->sent_ns = l->e->now_ns;
	if (q->tries++ == TRIES_MAX)
		engine_fail(l->e, "no answer to CM %s of QP %u", up ? "REQ" : "DREQ", i);
}

static bool is_waiting(const struct cm_qp *q)
{
	return q->state == CMS_REQ_SENT || q->state == CMS_DREQ_SENT;
}

bool cmlink_tick(struct cmlink *l)
{
	struct engine *e = l->e;

	if (l->reached == e->nqps || e->now_ns < l->look_ns)
		return l->reached == e->nqps;
	l->look_ns = e->now_ns + LOOK_NS;
	for (uint32_t i = 0; i < e->nqps; i++) {
		const struct cm_qp *q = &l->qps[i];

		if (is_waiting(q) ? e->now_ns - q->sent_ns >= RETRY_NS
		                  : q->state != l->goal && l->waiting < OUTSTANDING_MAX)
			send_request(l, i);
	}
	return false;
}
