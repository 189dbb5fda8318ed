/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "conn.h"
#include "host_cm.h"
#include "host_ud.h"
#include "word.h"
#include "world.h"
#include "proxy/roce/icrc.h"

const struct host_model host_model_rxe = {
    .name = "rxe",
    .window_psns = 129,
    .ack_req_every = 66,
    .timeout_ns = 72000000,
    .retries = UINT32_MAX,
    .one_retry = true,
    .nak_behind_rnr = true,
    .rnr_in_read_kills = true,
    .rest_is_middle = true,
    .forward_only = true,
    .takes_middle_again = true,
    .ack_each_duplicate = true,
    .ghost_ack_completes = true,
    .ack_from_zero = true,
    .msn_by_now = true,
    .confused_retry = true,
};

#define CX_TRAITS                                                                                                      \
	.migreq = true, .ack_req_every = 64, .timeout_ns = 67108864, .adaptive = true, .retries = 7,                   \
	.rnr_nak_waits = true, .checks_msn = true, .credits = true

const struct host_model host_model_cx = {.name = "cx", CX_TRAITS};
const struct host_model host_model_cx_window = {.name = "cx_window", .window_psns = 100, CX_TRAITS};

/* How far ahead of the wire the NIC works: keeps a fast wire busy without an event per nanosecond. */
#define TX_AHEAD_NS 200

bool host_is_dead(const struct host *h)
{
	return h->w->q.now_ns >= h->dead_ns;
}

bool host_is_frozen(const struct host *h)
{
	return h->w->q.now_ns < h->frozen_until_ns;
}

static void on_thaw(void *obj, uint64_t arg)
{
	struct host *h = obj;

	(void)arg;
	if (host_is_frozen(h))
		return; /* it stands still again already */
	for (uint32_t i = 0; i < h->nqps; i++)
		if (h->qps[i] && h->qps[i]->state == QP_READY)
			qp_activate(h->qps[i]);
	h->keeps = false;
	while (h->kept_head) {
		struct pkt *p = h->kept_head;

		h->kept_head = p->next;
		p->next = NULL;
		host_rx(h, p);
	}
	host_kick(h);
}

void host_freeze(struct host *h, uint64_t for_ns)
{
	h->frozen_until_ns = h->w->q.now_ns + for_ns;
	eventq_at(&h->w->q, h->frozen_until_ns, on_thaw, h, 0);
}

void host_pause(struct host *h, uint64_t for_ns)
{
	h->keeps = true;
	host_freeze(h, for_ns);
}

static void keep_for_later(struct host *h, struct pkt *p)
{
	p->next = NULL;
	if (h->kept_head)
		h->kept_tail->next = p;
	else
		h->kept_head = p;
	h->kept_tail = p;
}

/* --- sending --- */

/* The next packet of the queue pair whose turn it is; replies go first. */
static struct pkt *next_of_active(struct host *h)
{
	while (h->active_tail) {
		struct qp *q = h->active_tail->next_active;
		struct pkt *p = responder_next(q);

		if (!p)
			p = requester_next(q);
		if (p) {
			host_cnp_sent(q, p->len);
			h->active_tail = q;
			return p;
		}
		q->active = false;
		if (h->active_tail == q)
			h->active_tail = NULL;
		else
			h->active_tail->next_active = q->next_active;
	}
	return NULL;
}

static struct pkt *next_packet(struct host *h)
{
	struct pkt *p = h->mad_head;

	if (!p)
		return next_of_active(h);
	h->mad_head = p->next;
	p->next = NULL;
	return p;
}

static void host_transmit(void *obj)
{
	struct host *h = obj;
	uint64_t now_ns = h->w->q.now_ns;

	if (host_is_dead(h) || host_is_frozen(h))
		return;
	while (link_free_ns(h->up) <= now_ns + TX_AHEAD_NS) {
		struct pkt *p = next_packet(h);

		if (!p)
			return;
		world_log(h->w, LOG_LAN, p->lost ? "first lost" : "host tx", h->site, h->index, p);
		if (p->lost)
			pkt_free(p);
		else
			link_send(h->up, p);
	}
	evtimer_set(&h->tx, link_free_ns(h->up) - TX_AHEAD_NS);
}

void host_kick(struct host *h)
{
	if (!evtimer_armed(&h->tx))
		evtimer_set(&h->tx, h->w->q.now_ns);
}

void qp_activate(struct qp *q)
{
	struct host *h = q->host;

	if (!q->active) {
		q->active = true;
		if (h->active_tail) {
			q->next_active = h->active_tail->next_active;
			h->active_tail->next_active = q;
		} else {
			q->next_active = q;
		}
		h->active_tail = q;
	}
	host_kick(h);
}

void host_send_mad(struct host *h, struct pkt *p)
{
	p->next = NULL;
	if (h->mad_head)
		h->mad_tail->next = p;
	else
		h->mad_head = p;
	h->mad_tail = p;
	host_kick(h);
}

/* --- packets --- */

void qp_packet(const struct qp *q, struct roce_pkt *pkt, enum roce_opcode op, uint32_t psn)
{
	*pkt = (struct roce_pkt){
	    .src = q->addr,
	    .dst = q->peer_addr,
	    .ip6 = q->ip6,
	    .tos = q->tos,
	    .ttl = 64,
	    .udp_sport = q->sport,
	    .opcode = (uint8_t)op,
	    .migreq = q->model->migreq, /* ConnectX sets it, rxe does not */
	    .pkey = q->pkey,
	    .dest_qpn = q->dest_qpn,
	    .psn = psn & ROCE_PSN_MASK,
	};
}

struct pkt *qp_build(const struct qp *q, struct roce_pkt *pkt, const uint8_t *payload, size_t len)
{
	struct pkt *p = pkt_new(ROCE_HDR_MAX + len + 3 + ROCE_ICRC_LEN);

	p->len = (uint32_t)roce_build(p->data, p->cap, pkt, payload, len);
	p->vlan_tci = q->vlan_tci;
	if (p->len == 0)
		check_fail(q->host->w, "codec", "roce_build() of %s with %zu bytes failed", roce_op(pkt->opcode)->name,
		           len);
	return p;
}

/* --- receiving --- */

struct qp *host_find_qp(const struct host *h, uint32_t qpn)
{
	uint32_t i = qpn - QPN_FIRST;

	return qpn >= QPN_FIRST && i < h->nqps ? h->qps[i] : NULL;
}

static void host_take(struct host *h, const struct pkt *p, const struct roce_pkt *pkt)
{
	struct qp *q;

	if (pkt->dest_qpn == 1) {
		host_cm_rx(h, p->data, pkt);
		return;
	}
	if (pkt->dest_qpn == UD_QPN && pkt->opcode == UD_SEND_ONLY) {
		host_ud_rx(h, p->data, pkt);
		return;
	}
	q = host_find_qp(h, pkt->dest_qpn);
	if (!q || !ip_addr_eq(&q->peer_addr, &pkt->src) || pkt->pkey != q->pkey) {
		check_stray(h, pkt);
		return;
	}
	if (q->state != QP_READY)
		return;
	host_cnp_rx(q, pkt);
	if (pkt->class == ROCE_RC_REQUEST)
		responder_rx(q, p->data, pkt);
	else if (pkt->class == ROCE_RC_RESPONSE)
		requester_rx(q, p->data, pkt);
}

void host_rx(struct host *h, struct pkt *p)
{
	struct roce_pkt pkt;

	world_log(h->w, LOG_LAN, "host rx", h->site, h->index, p);
	if (host_is_frozen(h)) {
		if (h->keeps)
			keep_for_later(h, p);
		else
			pkt_free(p);
		return;
	}
	h->rx_sent_ns = p->sent_ns;
	if (!host_is_dead(h) && word_is(p))
		word_heard(h, p);
	else if (!host_is_dead(h) && roce_parse(p->data, p->len, &pkt) == DROP_NONE && icrc_check(p->data, &pkt, NULL))
		host_take(h, p, &pkt);
	pkt_free(p);
}

/* --- life --- */

void host_init(struct host *h, struct world *w, uint8_t site, uint8_t index, const struct host_model *model)
{
	*h = (struct host){.w = w, .site = site, .index = index, .model = model, .dead_ns = SIM_NEVER};
	rng_init(&h->rng, rng_hash(w->cfg.seed, 0x4057 + site * 256u + index));
	evtimer_init(&h->tx, &w->q, host_transmit, h);
}

static void free_qp(struct qp *q)
{
	if (!q)
		return;
	requester_free(q);
	responder_free(q);
	free(q);
}

void host_free(struct host *h)
{
	for (uint32_t i = 0; i < h->nqps; i++)
		free_qp(h->qps[i]);
	free(h->qps);
	while (h->gone) {
		struct qp *q = h->gone;

		h->gone = q->next_gone;
		free_qp(q);
	}
	while (h->mad_head) {
		struct pkt *p = h->mad_head;

		h->mad_head = p->next;
		pkt_free(p);
	}
	while (h->kept_head) {
		struct pkt *p = h->kept_head;

		h->kept_head = p->next;
		pkt_free(p);
	}
}

void host_release_qpn(struct host *h, uint32_t qpn)
{
	if (h->nfree < FREE_QPNS)
		h->free_qpn[h->nfree++] = qpn;
}

/* A number that was given back, by chance which; else the next one. */
static uint32_t take_qpn(struct host *h)
{
	uint32_t i, qpn;

	if (h->nfree == 0)
		return QPN_FIRST + h->nqps;
	i = (uint32_t)rng_below(&h->rng, h->nfree);
	qpn = h->free_qpn[i];
	h->free_qpn[i] = h->free_qpn[--h->nfree];
	return qpn;
}

static void add_qp(struct host *h, struct qp *q)
{
	if (h->nqps == h->qps_cap) {
		h->qps_cap = h->qps_cap ? 2 * h->qps_cap : 16;
		h->qps = realloc(h->qps, h->qps_cap * sizeof(struct qp *));
		if (!h->qps) {
			perror("lrsim: queue pairs");
			exit(2);
		}
	}
	h->qps[h->nqps++] = q;
}

static void enter_qp(struct host *h, struct qp *q)
{
	struct qp **place;

	if (q->qpn == QPN_FIRST + h->nqps) {
		add_qp(h, q);
		return;
	}
	place = &h->qps[q->qpn - QPN_FIRST];
	(*place)->next_gone = h->gone;
	h->gone = *place;
	*place = q;
}

void host_skip_qpns(struct host *h, uint32_t n)
{
	while (n-- > 0)
		add_qp(h, NULL);
}

/* rxe's source port: the same both ways, and all that ECMP sees of a connection. */
static uint16_t source_port(uint32_t qpn, uint32_t peer)
{
	return (uint16_t)(0xc000 | (rng_hash(qpn < peer ? qpn : peer, qpn < peer ? peer : qpn) & 0x3fff));
}

void qp_create(struct qp *q, struct host *h, struct conn *c, int side)
{
	const struct conn_cfg *cfg = &c->cfg;

	q->host = h;
	q->conn = c;
	q->side = side;
	q->qpn = c->take_qpn[side] ? c->take_qpn[side] : take_qpn(h);
	q->model = h->model;
	q->ip6 = cfg->ip6;
	q->addr = world_addr((uint8_t)side, cfg->host[side], cfg->ip6);
	q->peer_addr = world_addr((uint8_t)!side, cfg->host[!side], cfg->ip6);
	q->vlan_tci = cfg->vlan_tci;
	q->pkey = cfg->pkey;
	q->pmtu = cfg->pmtu;
	q->tos = cfg->tos;
	q->sport = source_port(q->qpn, q->qpn);
	enter_qp(h, q);
}
