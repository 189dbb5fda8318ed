/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "conn.h"
#include "host.h"
#include "refuse.h"
#include "word.h"
#include "world.h"
#include "proxy/roce/icrc.h"
#include "proxy/roce/ip.h"
#include "proxy/wan/dgram/wan_pmtu.h"

#define INTERRUPTION_REPAIR_NS 20000000ull
#define CNP_GAP_NS 50000 /* between two CNPs to one queue pair */

static const char *ignored;

void check_ignore(const char *invariants)
{
	ignored = invariants;
}

bool check_named(const char *list, const char *invariant)
{
	size_t len = strcspn(invariant, ":");

	for (; *list; list += strcspn(list, ", ")) {
		list += strspn(list, ", ");
		if (len && strcspn(list, ", ") == len && memcmp(list, invariant, len) == 0)
			return true;
	}
	return false;
}

void check_fail(struct world *w, const char *invariant, const char *fmt, ...)
{
	int n;
	va_list ap;

	if (w->violation[0] || (ignored && check_named(ignored, invariant)))
		return;
	n = snprintf(w->violation, sizeof(w->violation), "%s: ", invariant);
	va_start(ap, fmt);
	vsnprintf(w->violation + n, sizeof(w->violation) - (size_t)n, fmt, ap);
	va_end(ap);
	pktlog_note(&w->log, w->q.now_ns, 0, "VIOLATION %.70s", w->violation);
}

/* --- what an edge hears from a host --- */

static void note_at_edge(struct requester *r, uint64_t pos)
{
	if (pos < r->pos_at_edge || pos >= r->pos_at_edge + AT_EDGE_BITS)
		return;
	r->at_edge[pos % AT_EDGE_BITS / 64] |= 1ull << (pos % 64);
	while (r->at_edge[r->pos_at_edge % AT_EDGE_BITS / 64] >> (r->pos_at_edge % 64) & 1) {
		r->at_edge[r->pos_at_edge % AT_EDGE_BITS / 64] &= ~(1ull << (r->pos_at_edge % 64));
		r->pos_at_edge++;
	}
}

void check_edge_rx(struct world *w, const struct pkt *p, const struct roce_pkt *pkt)
{
	uint8_t site, host;
	struct qp *q;
	int64_t pos;
	uint32_t n = 1;

	if (pkt->class != ROCE_RC_REQUEST || p->strange || !world_host_of(w, &pkt->dst, &site, &host))
		return;
	q = host_find_qp(&w->host[site][host], pkt->dest_qpn);
	if (!q || !q->peer || !ip_addr_eq(&q->peer_addr, &pkt->src) || (p->damaged && !icrc_check(p->data, pkt, NULL)))
		return;
	pos = requester_pos(&q->peer->req, pkt->psn);
	if (pkt->opcode == RC_READ_REQUEST)
		n = packets_of(pkt->reth_len, q->pmtu);
	for (uint32_t i = 0; i < n && pos >= 0; i++)
		note_at_edge(&q->peer->req, (uint64_t)pos + i);
}

/* --- what an edge says to a host --- */

struct said {
	struct world *w;
	struct qp *q; /* to whom */
	const struct roce_pkt *pkt;
	int64_t pos;
	bool is_ack; /* the packet acknowledges its own position; a NAK only what is before */
};

/* The edge takes this queue pair for the requester of another one's flow: then what it says to it is wrong in every
 * other way, too, but this is why. */
static bool is_mispaired(const struct said *s)
{
	const struct qp *q = s->q;
	struct proxy_flow_status f;
	uint32_t cursor = 0;

	if (s->w->cfg.recycle || s->w->cfg.failed_reuse || s->w->edge[q->host->site].down)
		return false;
	while (proxy_flow_next(edge_shard_of(&s->w->edge[q->host->site], &q->addr, &q->peer_addr)->p, &cursor, &f))
		if (f.side == FLOW_NEAR && f.pairing != PAIR_LEARNING && f.requester_qpn == q->qpn &&
		    f.dest_qpn != q->dest_qpn && ip_addr_eq(&f.src, &q->addr) && ip_addr_eq(&f.dst, &q->peer_addr))
			return true;
	return false;
}

static void fail_said(const struct said *s, const char *invariant, const char *why)
{
	const struct roce_pkt *pkt = s->pkt;

	check_fail(s->w, is_mispaired(s) ? "mispaired" : invariant, "%s for QPN %06x, psn %06x (position %lld of %llu sent), syndrome %02x, msn %u: %s",
	           roce_op(pkt->opcode)->name, s->q->qpn, pkt->psn, (long long)s->pos,
	           (unsigned long long)s->q->req.pos_sent, pkt->aeth_syndrome, pkt->aeth_msn, why);
}

static void check_range(const struct said *s)
{
	if (s->pos < 0)
		fail_said(s, "ack-below-start", "before the first PSN of the queue pair");
	else if ((uint64_t)s->pos + s->is_ack > s->q->req.pos_sent)
		fail_said(s, "ack-unsent", "the host has not sent that");
}

static void check_ceiling(const struct said *s)
{
	struct qp *q = s->q;
	struct edge *e = &s->w->edge[q->host->site];
	uint64_t ceiling, delivered;

	if (s->w->cfg.no_place && (uint64_t)s->pos + s->is_ack <= q->peer->resp.pos_acked)
		return; /* the responder has said so itself, perhaps to a queue pair without a flow */
	if (!proxy_ceiling(edge_shard_of(e, &q->addr, &q->peer_addr)->p, &q->addr, &q->peer_addr, q->dest_qpn, &ceiling,
	                   &delivered))
		fail_said(s, "ack-no-flow", "the edge has no such flow");
	else if (psn_diff(s->pkt->psn, (uint32_t)ceiling & ROCE_PSN_MASK) + s->is_ack > 0)
		fail_said(s, "ack-ceiling", "beyond the flow's ceiling");
}

/* What the far edge says of itself that it has committed. Of several lives the one that is farthest counts. */
static void note_at_far(struct world *w, struct qp *q)
{
	const struct edge *far = &w->edge[!q->host->site];
	struct requester *r = &q->req;
	struct proxy_flow_status f;
	uint32_t cursor = 0;

	if (far->down || !q->peer)
		return;
	while (proxy_flow_next(edge_shard_of(&w->edge[!q->host->site], &q->addr, &q->peer_addr)->p, &cursor, &f)) {
		int64_t pos = requester_pos(r, (uint32_t)f.pos_next & ROCE_PSN_MASK);

		if (f.side == FLOW_FAR && f.dest_qpn == q->dest_qpn && ip_addr_eq(&f.src, &q->addr) &&
		    ip_addr_eq(&f.dst, &q->peer_addr) && pos > (int64_t)r->pos_at_far)
			r->pos_at_far = (uint64_t)pos;
	}
}

/* The far edge has all that the host completed. */
static bool far_has(struct world *w, struct qp *q)
{
	uint64_t before = q->req.pos_at_far;
	bool has;

	q->req.pos_at_far = 0;
	note_at_far(w, q);
	has = q->req.pos_at_far >= q->req.pos_una;
	q->req.pos_at_far = before > q->req.pos_at_far ? before : q->req.pos_at_far;
	return has;
}

/* Arenas are lost. What was completed and not executed must outlive the loss of the near edge's, in mode far; but not
 * that of the far edge's as well, be it at the same time, after that, or so short before that it has not come again. */
static void note_loss(struct world *w, struct qp *q, bool near_lost, bool far_lost)
{
	struct requester *r = &q->req;
	bool due = r->completed_at_loss > q->peer->resp.msg;

	if (r->msg_completed > q->peer->resp.msg &&
	    ((near_lost && far_lost) || (far_lost && due) || (near_lost && r->only_near && !far_has(w, q))))
		r->gone_for_good = true;
	if (far_lost)
		r->only_near = true;
	if (near_lost) {
		r->completed_at_loss = r->msg_completed;
		r->executed_at_loss = q->peer->resp.msg;
		r->loss_ns = w->q.now_ns;
	}
}

void check_crash(struct world *w, uint8_t sites, bool lost)
{
	for (uint32_t i = 0; i < w->nconns; i++) {
		for (int side = 0; side < 2; side++) {
			struct qp *q = w->conn[i].qp[side];

			if (!q)
				continue;
			if (w->cfg.mode == ACK_MODE_FAR && !w->cfg.direct)
				note_at_far(w, q);
			if (lost && w->cfg.mode == ACK_MODE_FAR && q->peer)
				note_loss(w, q, sites & 1u << side, sites & 1u << !side);
		}
	}
}

bool check_relies(const struct conn *c, int side)
{
	if (!c->excused)
		return true;
	return c->given_up_later && c->w->cfg.mode == ACK_MODE_FAR && !c->qp[side]->req.gone_for_good &&
	       c->qp[0]->state == QP_READY && c->qp[1]->state == QP_READY && !c->refused_ns &&
	       !host_is_dead(c->qp[!side]->host);
}

/* Its program takes messages so slowly that they are still on their way to it: what is missing takes it longer than
 * that, or what was missing at the loss did, and it took one after the other until its connection was given up. */
static bool takes_its_time(const struct requester *r, const struct qp *q)
{
	const struct conn *c = q->conn;
	uint64_t receive_ns = q->resp.receive_every_ns;
	uint64_t each_ns = receive_ns + roce_rnr_timer_ns(c->cfg.rnr_timer); /* the RNR NAK that it waits behind */
	uint64_t until_ns = c->abandoned_ns ? c->abandoned_ns : c->w->q.now_ns;
	uint64_t had_ns = until_ns > r->loss_ns ? until_ns - r->loss_ns : 0;

	if ((r->completed_at_loss - q->resp.msg) * receive_ns > 1000000000)
		return true;
	return receive_ns && (r->completed_at_loss - r->executed_at_loss) * each_ns > had_ns &&
	       (q->resp.msg - r->executed_at_loss) * each_ns > had_ns / 2;
}

void check_outlived(struct conn *c)
{
	for (int side = 0; side < 2; side++) {
		const struct requester *r = &c->qp[side]->req;
		const struct qp *peer = c->qp[!side];

		if (c->w->cfg.mode == ACK_MODE_FAR && !r->gone_for_good && !c->refused_ns &&
		    !host_is_dead(peer->host) && r->completed_at_loss > peer->resp.msg &&
		    !takes_its_time(r, peer))
			check_fail(
			    c->w, "far-promise",
			    "connection %u from %c: %llu messages were completed when the near edge was lost, %llu "
			    "executed since",
			    c->id, 'A' + side, (unsigned long long)r->completed_at_loss,
			    (unsigned long long)peer->resp.msg);
	}
}

/* When the WAN was back from its last cut; 0: it was not cut. */
static uint64_t uncut_ns(const struct world *w)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < w->cfg.wan.ncuts; i++)
		if (w->cfg.wan.cut[i].from_ns <= w->q.now_ns && w->cfg.wan.cut[i].to_ns > ns)
			ns = w->cfg.wan.cut[i].to_ns;
	return ns;
}

/* A responder may be silent for StallAfter, its edge ask again for as long, and the news of it take a while; then
 * nothing new is ACKed for it. Only where something is asked of it again and again: it owes an answer from the first
 * on. Over a cut nothing can be asked. */
#define SILENT_MAX_NS 1200000000ull

static void check_alive(const struct said *s)
{
	uint64_t every_ns = s->q->conn->cfg.post_every_ns, dead_ns = s->q->peer->host->dead_ns;
	uint64_t owed_ns = dead_ns > s->q->req.asked_ns ? dead_ns : s->q->req.asked_ns;

	if (owed_ns < uncut_ns(s->w))
		owed_ns = uncut_ns(s->w);
	if (every_ns && dead_ns != SIM_NEVER &&
	    s->w->q.now_ns > owed_ns + every_ns + SILENT_MAX_NS + 2 * world_rtt_ns(s->w) &&
	    (uint64_t)s->pos + s->is_ack > s->q->req.pos_una)
		fail_said(s, "ack-for-dead", "its responder's host is dead and has owed an answer for long");
}

/* Mode near: only what the edge was given at all. Mode far: only what the far edge has committed. Mode host: only what
 * the responder has acknowledged itself. */
static void check_promise(const struct said *s)
{
	if (s->w->cfg.mode == ACK_MODE_FAR) {
		note_at_far(s->w, s->q);
		if ((uint64_t)s->pos + s->is_ack > s->q->req.pos_at_far &&
		    (uint64_t)s->pos + s->is_ack > s->q->peer->resp.pos_acked)
			fail_said(s, "ack-promise", "the far edge has never had that");
	}
	if ((uint64_t)s->pos + s->is_ack > s->q->req.pos_at_edge)
		fail_said(s, "ack-promise", "that has never reached the edge");
	if (s->w->cfg.mode == ACK_MODE_HOST && (uint64_t)s->pos + s->is_ack > s->q->peer->resp.pos_acked)
		fail_said(s, "ack-promise", "the responder has not acknowledged that");
}

/* To a READ that was repeated, and where they send one away, some responders say what they have executed since, and an
 * edge that has not known the flow before can say nothing else. */
static bool said_by_now(const struct said *s, uint32_t msn)
{
	int32_t over = psn_diff(s->pkt->aeth_msn, msn);
	bool is_ack = s->pkt->opcode == RC_ACK && (s->pkt->aeth_syndrome & AETH_TYPE_MASK) != AETH_RNR_NAK;

	return !is_ack && s->q->peer->model->msn_by_now && over > 0 &&
	       over <= psn_diff(s->q->peer->resp.msn, msn);
}

static bool is_fatal(uint8_t syndrome)
{
	return (syndrome & AETH_TYPE_MASK) == AETH_NAK && syndrome != AETH_NAK_PSN_SEQ;
}

static void check_aeth(const struct said *s)
{
	uint8_t syndrome = s->pkt->aeth_syndrome;
	uint32_t msn;

	if (requester_msn_before(&s->q->req, (uint64_t)s->pos + s->is_ack, &msn) && msn != s->pkt->aeth_msn &&
	    !said_by_now(s, msn))
		fail_said(s, "msn", "not the number of messages up to there");
	if ((syndrome & AETH_TYPE_MASK) == AETH_ACK && syndrome != AETH_ACK_NO_CREDITS)
		fail_said(s, "credits", "an edge cannot know the responder's credits");
	if (is_fatal(syndrome) && !s->q->conn->excused)
		fail_said(s, "fatal-nak", "no responder refused anything");
	if ((syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK && s->w->cfg.warned && s->q->cnp_ns[1] == 0)
		fail_said(s, "unwarned", "it is sent away, and was not asked to send more slowly");
}

static void check_answer(struct world *w, struct qp *q, const struct roce_pkt *pkt)
{
	struct said s = {w, q, pkt, requester_pos(&q->req, pkt->psn), true};

	if (!q->req.asked) {
		fail_said(&s, "answer-unasked", "the queue pair has never sent anything");
		return;
	}
	if (q->req.wrong_rounds) /* its numbers are not those that it is judged by */
		return;
	if (pkt->opcode == RC_ACK)
		s.is_ack = (pkt->aeth_syndrome & AETH_TYPE_MASK) == AETH_ACK;
	check_range(&s);
	if (w->violation[0])
		return;
	if (pkt->opcode == RC_ACK) {
		check_ceiling(&s);
		check_promise(&s);
		check_alive(&s);
	}
	if (roce_op(pkt->opcode)->flags & ROP_AETH)
		check_aeth(&s);
}

/* An edge means the owner that the QPN had before. It does harm if it is what comes next. */
static bool told_another(struct world *w, const struct qp *q, const struct roce_pkt *pkt)
{
	if (!q->conn->cfg.heir_of || q->side != 0 || !refuse_tells(pkt))
		return false;
	if (pkt->psn == ((q->resp.psn_start + q->resp.pos_expected) & ROCE_PSN_MASK))
		check_fail(w, "told-another",
		           "QPN %06x, which has sent %llu, is told of a failure that was its former owner's", q->qpn,
		           (unsigned long long)q->req.pos_sent);
	return true;
}

/* True if the request is one that the former owner of the QPNs has sent before it gave up. The edges may hold it: nobody
 * tells them that its owner is gone, and they ask whoever has the number now (release_qpns()). It is harmless unless it is
 * what the heir waits for. */
static bool from_former_owner(const struct world *w, const struct qp *q, const struct roce_pkt *pkt)
{
	const struct conn *before;
	const struct qp *former;
	int64_t pos;

	if (!q->conn->cfg.heir_of)
		return false;
	before = &w->conn[q->conn->cfg.heir_of - 1];
	former = before->qp[q->peer->side];
	if (!before->excused || !former || former->qpn != q->peer->qpn || before->qp[q->side]->qpn != q->qpn)
		return false;
	pos = requester_pos(&former->req, pkt->psn);
	return pos >= 0 && (uint64_t)pos < former->req.pos_sent &&
	       pkt->psn != ((q->resp.psn_start + q->resp.pos_expected) & ROCE_PSN_MASK);
}

/* A request must be one that its requester has sent in this incarnation. */
static void check_request(struct world *w, const struct qp *q, const struct roce_pkt *pkt)
{
	const struct requester *r = &q->peer->req;
	int64_t pos = requester_pos(r, pkt->psn);

	if (refuse_may_tell(q, pkt) || conn_life_is_over(q->conn) || told_another(w, q, pkt) || from_former_owner(w, q, pkt))
		return;
	if (r->wrong_rounds)
		return; /* one too high: it is not asked whether that was sent */
	if (pos < 0 || (uint64_t)pos >= r->pos_sent)
		check_fail(w, "request-unsent", "%s for QPN %06x psn %06x: position %lld, its requester has sent %llu",
		           roce_op(pkt->opcode)->name, q->qpn, pkt->psn, (long long)pos,
		           (unsigned long long)r->pos_sent);
}

static void check_cnp(struct world *w, struct qp *q, const struct roce_pkt *pkt)
{
	if (!pkt->becn || pkt->psn != 0 || pkt->payload_len != ROCE_CNP_PAYLOAD)
		check_fail(w, "cnp-form", "CNP for QPN %06x: BECN %d, psn %06x, %u bytes", q->qpn, pkt->becn, pkt->psn,
		           pkt->payload_len);
	/* one of the edge beside it, and those of the other host's while their pair is not known and CNPs cross */
	if (q->cnp_ns[0] && w->q.now_ns < q->cnp_ns[0] + CNP_GAP_NS) {
		if (!q->peer || !q->peer->cnps_sent)
			check_fail(w, "cnp-often",
			           "QPN %06x: %llu ns after the last but one, and its responder has sent none", q->qpn,
			           (unsigned long long)(w->q.now_ns - q->cnp_ns[0]));
		else
			q->peer->cnps_sent--;
	}
	q->cnp_ns[0] = q->cnp_ns[1];
	q->cnp_ns[1] = w->q.now_ns;
}

/* The edge beside it knows this owner of the QPN: a flow of its that is where it is. */
static bool owner_known(const struct world *w, const struct qp *q)
{
	struct edge *e = (struct edge *)&w->edge[q->host->site];
	struct proxy_flow_status f;
	uint32_t cursor = 0;

	while (proxy_flow_next(edge_shard_of(e, &q->addr, &q->peer_addr)->p, &cursor, &f)) {
		int64_t pos = requester_pos(&q->req, (uint32_t)f.pos_next & ROCE_PSN_MASK);

		if (f.side == FLOW_NEAR && f.pairing == PAIR_CONFIRMED && f.requester_qpn == q->qpn &&
		    f.dest_qpn == q->dest_qpn && ip_addr_eq(&f.src, &q->addr) && ip_addr_eq(&f.dst, &q->peer_addr) &&
		    pos >= 0 && (uint64_t)pos <= q->req.pos_sent)
			return true;
	}
	return false;
}

static bool edge_has_heard(const struct qp *q)
{
	return q->req.pos_at_edge > 0;
}

/* Somebody new has the QPN, or nobody, and the edge does not know yet: a NAK about the old one's PSNs says nothing to
 * the new one. An ACK would, if the new one had sent that. A CNP asks for a little patience at most. A refusal is for
 * nobody but who sent what was refused, once the edge has heard the new one. */
static bool about_another(const struct world *w, const struct qp *q, const struct roce_pkt *pkt)
{
	int64_t pos;

	bool reused = w->cfg.recycle || w->cfg.failed_reuse;

	if (reused && pkt->class == ROCE_CNP_CLASS)
		return !q || !ip_addr_eq(&q->peer_addr, &pkt->src);
	if (!reused || pkt->opcode != RC_ACK || (pkt->aeth_syndrome & AETH_TYPE_MASK) == AETH_ACK)
		return false;
	if (!q || !ip_addr_eq(&q->peer_addr, &pkt->src) || !q->req.asked)
		return true;
	pos = requester_pos(&q->req, pkt->psn);
	if (pos >= 0 && (uint64_t)pos <= q->req.pos_sent)
		return false;
	if (w->cfg.failed_reuse && is_fatal(pkt->aeth_syndrome))
		return !edge_has_heard(q);
	return !owner_known(w, q);
}

static void check_rc(struct world *w, struct host *h, const struct pkt *p, const struct roce_pkt *pkt)
{
	struct qp *q = host_find_qp(h, pkt->dest_qpn);

	if (about_another(w, q, pkt))
		return;
	if (!q || !ip_addr_eq(&q->peer_addr, &pkt->src)) {
		if (w->cfg.attack_pps)
			return; /* it is carried as what it seems to be, and its host drops it */
		check_fail(w, "stray",
		           "%s psn %06x for QPN %06x of host %u, site %c: no such queue pair with that peer",
		           roce_op(pkt->opcode)->name, pkt->psn, pkt->dest_qpn, h->index, 'A' + h->site);
		return;
	}
	if (p->vlan_tci != q->vlan_tci || pkt->pkey != q->pkey || pkt->migreq != q->peer->model->migreq ||
	    (pkt->tos >> 2 != q->tos >> 2 && w->cfg.lan.corrupt == 0)) /* the ICRC does not cover it */
		check_fail(w, "template", "%s for QPN %06x: VLAN %u P_Key %04x MigReq %d DSCP %u are not its peer's",
		           roce_op(pkt->opcode)->name, q->qpn, p->vlan_tci, pkt->pkey, pkt->migreq, pkt->tos >> 2);
	else if (q->state != QP_READY || q->peer->state == QP_INIT)
		return; /* closed meanwhile: late copies are harmless */
	else if (pkt->class == ROCE_CNP_CLASS)
		check_cnp(w, q, pkt);
	else if (pkt->class == ROCE_RC_RESPONSE)
		check_answer(w, q, pkt);
	else if (pkt->class == ROCE_RC_REQUEST)
		check_request(w, q, pkt);
}

bool check_odd_ip(const struct world *w, const struct pkt *p)
{
	struct ip_pkt ip;

	return (w->cfg.attack_pps || w->cfg.lan.corrupt > 0) && ip_parse(p->data, p->len, &ip) == DROP_NONE &&
	       !ip.to_roce;
}

void check_edge_tx(struct world *w, uint8_t site, uint8_t host, const struct pkt *p)
{
	struct roce_pkt pkt;
	enum proxy_drop d = roce_parse(p->data, p->len, &pkt);

	if (d != DROP_NONE && w->cfg.barrier != BARRIER_OFF && (word_is(p) || check_odd_ip(w, p)))
		return; /* not RoCE, but IP */
	if (d != DROP_NONE) {
		check_fail(w, "malformed", "packet of %u bytes from edge %c: %s", p->len, 'A' + site,
		           proxy_drop_name(d));
		return;
	}
	if ((w->cfg.audit || pkt.class == ROCE_RC_RESPONSE) && !icrc_check(p->data, &pkt, NULL)) {
		check_fail(w, "icrc", "%s psn %06x from edge %c has a wrong ICRC", roce_op(pkt.opcode)->name, pkt.psn,
		           'A' + site);
		return;
	}
	if (pkt.class == ROCE_RC_REQUEST || pkt.class == ROCE_RC_RESPONSE || pkt.class == ROCE_CNP_CLASS)
		check_rc(w, &w->host[site][host], p, &pkt);
}

/* --- what hosts see --- */

void check_stray(struct host *h, const struct roce_pkt *pkt)
{
	if (h->w->cfg.attack_pps || about_another(h->w, NULL, pkt))
		return;
	check_fail(h->w, "stray",
	           "%s psn %06x arrived for QPN %06x of host %u, site %c: no such queue pair with that peer",
	           roce_op(pkt->opcode)->name, pkt->psn, pkt->dest_qpn, h->index, 'A' + h->site);
}

void check_completion(struct qp *q, const struct wqe *w)
{
	struct world *world = q->host->w;

	if (w->pos_last >= q->req.pos_sent)
		check_fail(world, "completion-unsent", "QPN %06x completed position %llu and has sent %llu", q->qpn,
		           (unsigned long long)w->pos_last, (unsigned long long)q->req.pos_sent);
	if ((world->cfg.direct || world->cfg.mode == ACK_MODE_HOST) && w->pos_last >= q->peer->resp.pos_acked)
		check_fail(world, "completion-early", "QPN %06x completed position %llu, the responder has ACKed %llu",
		           q->qpn, (unsigned long long)w->pos_last, (unsigned long long)q->peer->resp.pos_acked);
}

/* What the responder itself has said before there were edges may still be on its way. */
static bool from_before_edges(const struct world *w)
{
	return w->cfg.edges_from_ns && w->q.now_ns < w->cfg.edges_from_ns + world_rtt_ns(w);
}

/* A queue pair without a flow: its responder's own ACK was carried. A responder answers a duplicate SEND or WRITE by an
 * ACK of the last PSN that it has executed (IBTA C9-105; duplicate_request() of rxe_resp.c), be that a READ's, and says so
 * without edges, too. */
static bool said_by_responder(const struct qp *q, uint64_t pos)
{
	const struct responder *r = &q->peer->resp;

	for (uint32_t i = 0; i < r->nnamed && i < RESPONDER_NAMED; i++)
		if (r->named[i] == pos)
			return q->host->w->cfg.no_place;
	return false;
}

void check_ack_of_answer(struct qp *q, const struct wqe *w)
{
	if (!q->host->w->cfg.direct && q->req.confusions == 0 && !from_before_edges(q->host->w) &&
	    !said_by_responder(q, w->pos_last))
		check_fail(q->host->w, "ack-of-answer",
		           "QPN %06x has no answer to its READ or ATOMIC at position %llu, and an ACK names it", q->qpn,
		           (unsigned long long)w->pos_last);
}

/* `last_ns`: when the requester asked last for a READ; 0: it is an ATOMIC. An edge that was not there to hear it goes
 * on with the responses that were asked for before, in their old framing: it cannot know that a FIRST is due. Nor can it
 * know that an answer which its former life had in hand when it was killed has never left: the host asks once more. */
void check_implied_nak(struct qp *q, uint64_t last_ns)
{
	struct world *w = q->host->w;
	const struct edge *e = &w->edge[q->host->site];
	bool knows = last_ns ? last_ns >= e->up_ns : !e->killed_within;

	if (w->cfg.lan_clean && !w->cfg.direct && q->req.confusions == 0 && w->cfg.edges_from_ns == 0 &&
	    (e->restarts == 0 || knows))
		check_fail(w, "implied-nak", "QPN %06x was ACKed past its unanswered READ or ATOMIC at position %llu",
		           q->qpn, (unsigned long long)q->req.pos_una);
}

/* A wire carries less from some time on: whatever is larger is lost, the message by which a host tells the other one to
 * be ready, too, until so many losses have told the edge, each found a round trip after it was sent. */
static bool narrowed_since(const struct world *w, const struct link_cfg *l, uint64_t from_ns, uint64_t repair_ns)
{
	return w->cfg.mtu_search && l->mtu_from_ns && l->mtu_from_ns <= w->q.now_ns &&
	       l->mtu_from_ns + PMTU_HOLE * world_rtt_ns(w) + repair_ns >= from_ns;
}

/* Nothing crossed, or an edge was down, at some time since then; what was lost meanwhile has to be found and
 * repaired. */
static bool interrupted_since(const struct world *w, uint64_t from_ns)
{
	uint64_t now_ns = w->q.now_ns, repair_ns = INTERRUPTION_REPAIR_NS + 4 * world_rtt_ns(w);

	for (uint32_t i = 0; i < w->cfg.nmore; i++)
		if (narrowed_since(w, &w->cfg.more[i].wan, from_ns, repair_ns))
			return true;
	if (narrowed_since(w, &w->cfg.wan, from_ns, repair_ns))
		return true;
	for (uint32_t i = 0; i < w->cfg.wan.ncuts && !w->cfg.paths_survive; i++)
		if (w->cfg.wan.cut[i].from_ns <= now_ns && w->cfg.wan.cut[i].to_ns + repair_ns >= from_ns)
			return true;
	for (uint32_t i = 0; i < w->cfg.ncrashes; i++)
		if (w->cfg.crash[i].at_ns <= now_ns &&
		    world_cfg_crash_over_ns(&w->cfg, i) + repair_ns >= from_ns)
			return true;
	return false;
}

/* CM tells an edge how often a host comes back after an RNR NAK; one that was down meanwhile, or not in the way yet,
 * takes it for a host that does for ever. */
static bool retries_untold(const struct conn *c)
{
	const struct world_cfg *w = &c->w->cfg;

	if (c->opening_ns < w->edges_from_ns)
		return true;
	for (uint32_t i = 0; i < w->ncrashes; i++)
		if ((!c->opened_ns || w->crash[i].at_ns <= c->opened_ns) &&
		    world_cfg_crash_over_ns(w, i) >= c->opening_ns)
			return true;
	return false;
}

/* A responder has gone without a word: its flow is given up after StallAfter, and what has to wait for it (with
 * Barrier=causal for what waits for it, too) till then or for the barrier's limit. */
static bool somebody_is_silent(const struct world *w)
{
	if (w->q.now_ns >= w->cfg.host_dies_ns) /* with all its responders */
		return true;
	for (uint32_t i = 0; i < w->nconns; i++)
		if (w->conn[i].refused_ns && w->conn[i].cfg.refuse_syndrome == 0)
			return true;
	return false;
}

/* Nobody can hold a host off while the WAN is cut or an edge is down if its QPN is not known yet (without CM the
 * responder's first answer tells it; an edge that was down may have missed CM), or if it will not be held off for as
 * long as that takes. With Barrier=causal the first message of a queue pair waits for others, too, and who is not known
 * yet cannot be told. */
static bool may_die(const struct qp *q)
{
	const struct world *w = q->host->w;
	bool counts = q->conn->cfg.rnr_retry < 7;

	if (w->cfg.edges_from_ns && w->q.now_ns < w->cfg.edges_from_ns + 500000000) /* it has lost much already */
		return true;
	if (w->cfg.lan.queue_bytes && q->req.pos_at_edge <= q->req.pos_una) /* its LAN's full queue dropped each try */
		return true;
	if (counts && retries_untold(q->conn))
		return true;
	if (w->cfg.barrier == BARRIER_CAUSAL && q->req.pos_una == 0 && !q->conn->cfg.cm && somebody_is_silent(w))
		return true;
	if (!interrupted_since(w, q->req.waits_ns))
		return false;
	return counts || (q->req.pos_una == 0 && (!q->conn->cfg.cm || w->cfg.ncrashes > 0));
}

void check_qp_error(struct qp *q, const char *why)
{
	struct world *w = q->host->w;

	if (!w->cfg.errors_allowed && !q->conn->excused && !may_die(q))
		check_fail(w, "qp-error", "QPN %06x of host %u, site %c, position %llu: %s", q->qpn, q->host->index,
		           'A' + q->host->site, (unsigned long long)q->req.pos_una, why);
	else if (!q->conn->given_up_later) /* till then its responder may still get what the edges have of it */
		conn_abandon(q->conn);
}

/* The edge heard the count from CM, counts with it, and falls silent then; unless the responder itself sends it away.
 */
void check_rnr_spent(struct qp *q)
{
	struct world *w = q->host->w;

	if (!w->cfg.direct && w->cfg.ncrashes == 0 && w->cfg.edges_from_ns == 0 && !q->conn->cfg.receive_every_ns)
		check_fail(w, "rnr-spent", "QPN %06x stands %u RNR NAKs in a row, and got one more", q->qpn,
		           q->conn->cfg.rnr_retry);
}

/* It was idle, and what its peer had completed before has been executed: unless there are no receives for that. */
void check_told(struct qp *q)
{
	struct world *w = q->host->w;

	if (q->req.pos_una < q->req.pos_sent)
		check_fail(w, "told-busy", "QPN %06x has requests outstanding, which could be refused", q->qpn);
	if (w->cfg.lan_clean && !q->resp.receive_every_ns && w->cfg.ncrashes == 0 &&
	    q->resp.msg < q->peer->req.msg_completed)
		check_fail(w, "told-early", "QPN %06x has executed %llu messages, its peer has completed %llu", q->qpn,
		           (unsigned long long)q->resp.msg, (unsigned long long)q->peer->req.msg_completed);
	conn_abandon(q->conn);
}

bool check_waits_in_vain(const struct conn *c)
{
	const struct world *w = c->w;

	return world_cfg_is_cut(&w->cfg) || w->cfg.ncrashes > 0 || c->cfg.receive_every_ns || somebody_is_silent(w);
}

/* The edges may let a DREQ go before the bytes in front of it only when those cannot get through. */
static bool waived(const struct world *w)
{
	return edge_waived(&w->edge[0]) + edge_waived(&w->edge[1]) > 0;
}

void check_dreq(struct conn *c)
{
	struct world *w = c->w;

	if (c->qp[1]->resp.msg >= c->dreq_completed || w->cfg.direct || !check_relies(c, 0))
		return;
	if (waived(w) && check_waits_in_vain(c))
		c->excused = true;
	else
		check_fail(w, waived(w) ? "dreq-waived" : "dreq-overtakes",
		           "connection %u: DREQ arrived, %llu messages completed at A, %llu executed at B", c->id,
		           (unsigned long long)c->dreq_completed, (unsigned long long)c->qp[1]->resp.msg);
}

void check_ud_done(struct conn *c)
{
	struct world *w = c->w;

	if (c->qp[1]->resp.msg < c->dreq_completed && (w->cfg.direct || w->cfg.mode == ACK_MODE_HOST) && !c->excused)
		check_fail(w, "done-early", "connection %u: side A says done after %llu messages, %llu executed at B",
		           c->id, (unsigned long long)c->dreq_completed, (unsigned long long)c->qp[1]->resp.msg);
}

void check_late(struct conn *c)
{
	if (!c->excused)
		check_fail(
		    c->w, "late",
		    "connection %u: %.3f ms after it was opened A>B %llu messages are complete and %llu executed of "
		    "%llu, B>A %llu and %llu of %llu",
		    c->id, (double)c->cfg.within_ns / 1e6, (unsigned long long)c->qp[0]->req.msg_completed,
		    (unsigned long long)c->qp[1]->resp.msg, (unsigned long long)c->cfg.plan[0].nmsgs,
		    (unsigned long long)c->qp[1]->req.msg_completed, (unsigned long long)c->qp[0]->resp.msg,
		    (unsigned long long)c->cfg.plan[1].nmsgs);
}

static void check_direction(struct conn *c, int side)
{
	const struct requester *r = &c->qp[side]->req;
	const struct responder *s = &c->qp[!side]->resp;

	if (r->msg_completed != r->plan.nmsgs || s->msg != s->plan.nmsgs)
		check_fail(c->w, "incomplete", "connection %u from %c: %llu messages, %llu completed, %llu executed",
		           c->id, 'A' + side, (unsigned long long)r->plan.nmsgs, (unsigned long long)r->msg_completed,
		           (unsigned long long)s->msg);
	else if (r->counter != s->counter)
		check_fail(c->w, "atomic-counter",
		           "connection %u from %c: counter is %llx, executed once in order it is %llx", c->id,
		           'A' + side, (unsigned long long)s->counter, (unsigned long long)r->counter);
}

void check_conn_done(struct conn *c)
{
	if (c->excused)
		return;
	check_direction(c, 0);
	check_direction(c, 1);
}

/* --- the edges as a whole --- */

/* Its queue pair goes from life to life, and its peer's does not. */
static bool recurs_alone(const struct qp *q)
{
	return q->conn->cfg.reuse && q->conn->cfg.recur == 1u << q->side;
}

static void check_pairing(struct world *w, const struct proxy_flow_status *st)
{
	uint8_t site, host;
	const struct qp *q;

	if (st->side != FLOW_NEAR || st->pairing == PAIR_LEARNING || w->cfg.recycle || w->cfg.failed_reuse)
		return;
	q = world_host_of(w, &st->src, &site, &host) ? host_find_qp(&w->host[site][host], st->requester_qpn) : NULL;
	if (q && recurs_alone(q))
		return; /* it may have talked to that one in an earlier life */
	if (!q || q->dest_qpn != st->dest_qpn || !ip_addr_eq(&q->peer_addr, &st->dst))
		check_fail(w, "mispaired", "flow to QPN %06x is paired with QPN %06x, which talks to QPN %06x",
		           st->dest_qpn, st->requester_qpn, q ? q->dest_qpn : 0);
}

/* Its responder's queue pair has one life: what the near edge holds for delivered it has executed. */
static void check_delivered(struct world *w, const struct proxy_flow_status *st)
{
	uint8_t site, host;
	const struct qp *q;
	int64_t pos;

	if (!w->cfg.failed_reuse || st->side != FLOW_NEAR || st->pos_delivered == st->pos_base ||
	    !world_host_of(w, &st->dst, &site, &host))
		return;
	q = host_find_qp(&w->host[site][host], st->dest_qpn);
	if (!q || !q->peer || q->conn->take_qpn[q->side] || !ip_addr_eq(&q->peer_addr, &st->src))
		return;
	pos = requester_pos(&q->peer->req, (uint32_t)st->pos_delivered & ROCE_PSN_MASK);
	if (pos > (int64_t)q->resp.pos_expected)
		check_fail(w, "delivered-unexecuted",
		           "QPN %06x has executed all before position %llu, the edge of its requester says %lld",
		           q->qpn, (unsigned long long)q->resp.pos_expected, (long long)pos);
}

static bool is_about(const struct conn *c, int side, const struct proxy_event *ev)
{
	const struct qp *q = c->qp[side];

	return q && q->dest_qpn == ev->dest_qpn && ip_addr_eq(&q->addr, &ev->src) &&
	       ip_addr_eq(&q->peer_addr, &ev->dst);
}

void check_event(struct world *w, const struct proxy_event *ev)
{
	if (ev->type != EV_FLOW_FAILED && ev->type != EV_FLOW_IN_DOUBT)
		return;
	for (uint32_t i = 0; i < w->nconns; i++)
		for (int side = 0; side < 2; side++)
			if (is_about(&w->conn[i], side, ev))
				w->conn[i].named[side] = true;
}

/* What is complete and was never executed has been reported, by QPN, when the edges hold nothing of it any more. A host
 * that was told is no report: what was complete is complete. */
static void check_failures_named(struct world *w)
{
	for (uint32_t i = 0; i < w->nconns; i++) {
		const struct conn *c = &w->conn[i];

		for (int side = 0; side < 2 && c->excused && !c->given_up_later; side++)
			if (c->qp[side] && c->qp[side]->req.msg_completed > c->qp[!side]->resp.msg && !c->named[side])
				check_fail(
				    w, "unnamed",
				    "connection %u from %c: %llu messages are complete, %llu were executed, and no "
				    "edge has reported it",
				    c->id, 'A' + side, (unsigned long long)c->qp[side]->req.msg_completed,
				    (unsigned long long)c->qp[!side]->resp.msg);
	}
}

static void audit_shard(struct world *w, struct edge_shard *s)
{
	struct proxy_link_status st;
	struct proxy_flow_status flow;
	uint32_t cursor = 0;
	int err = proxy_audit(s->p);

	if (err)
		check_fail(w, "audit", "proxy_audit() of edge %c shard %u: %d", 'A' + s->edge->site, s->cfg.shard, err);
	proxy_link_status(s->p, w->q.now_ns, &st);
	for (int pool = 0; pool < POOL_COUNT; pool++)
		if (st.pool_used[pool] > st.pool_capacity[pool])
			check_fail(w, "memory", "edge %c pool %d uses %llu of %llu bytes", 'A' + s->edge->site, pool,
			           (unsigned long long)st.pool_used[pool], (unsigned long long)st.pool_capacity[pool]);
	while (proxy_flow_next(s->p, &cursor, &flow)) {
		check_pairing(w, &flow);
		check_delivered(w, &flow);
	}
}

/* Of a READ that is larger than the pool more may come than there is room for, while a host's loss is mended. Then what
 * is refused is little of what the line carries: a twelfth at most in 20,000 seeds, with eight such READs at once whose
 * hosts cannot be held off (seed 144941). */
static bool refused_gently(const struct world *w, uint64_t refused)
{
	double line = (double)world_cfg_pacers_bps(&w->cfg) / 8e9 * (double)w->q.now_ns;

	return w->cfg.big_reads && (double)refused * 512 < line / 8;
}

/* For what an edge has asked for it has room, so that being refused is the exception; but flows are not asked for, and
 * the far edge's table may be full, of an attacker's at the latest. A host that goes back in a READ larger than its
 * window, on a line that has little else to carry, makes half of the datagrams refused ones (seed 8505). */
static void check_refused(struct world *w)
{
	for (int site = 0; site < 2 && !w->edge[site].down; site++) {
		uint64_t sent = edge_counter(&w->edge[site], CTR_WAN_TX_DGRAMS);
		uint64_t refused = edge_counter(&w->edge[site], CTR_WAN_REFUSED);

		if (refused > 1000 && refused > sent / 8 * 5 && !w->cfg.max_flows_b && !w->cfg.attack_pps &&
		    !refused_gently(w, refused))
			check_fail(w, "refused", "the other edge refused %llu of the %llu datagrams of edge %c",
			           (unsigned long long)refused, (unsigned long long)sent, 'A' + site);
	}
}

void check_audit(struct world *w)
{
	for (int site = 0; site < 2; site++)
		for (uint32_t i = 0; i < w->edge[site].nshards && !w->edge[site].down; i++)
			audit_shard(w, &w->edge[site].shard[i]);
	check_refused(w);
}

/* What is on its way to a queue pair that died stays until its flow is forgotten. */
static bool all_sound(const struct world *w)
{
	for (uint32_t i = 0; i < w->nconns; i++)
		if (w->conn[i].excused)
			return false;
	return true;
}

/* No queue pair was reset, so no flow has begun again. */
static void check_lives(struct world *w, const struct edge *e)
{
	uint64_t n = edge_counter(e, CTR_INCARNATIONS);

	if (n == 0 || w->cfg.recycle || w->cfg.failed_reuse || !w->cfg.lan_clean || w->cfg.ncrashes > 0 ||
	    w->cfg.attack_pps || w->cfg.edges_from_ns || !all_sound(w))
		return;
	for (uint32_t i = 0; i < w->nconns; i++)
		if (w->conn[i].cfg.reuse || w->conn[i].cfg.lives > 1 || w->conn[i].cfg.confuse > 0)
			return;
	check_fail(w, "lives", "edge %c saw %llu queue pairs begin again, and none did", 'A' + e->site,
	           (unsigned long long)n);
}

/* The smallest datagrams of any path. A path whose MTU is searched for begins with PMTU_BASE, and is back there in
 * doubt. */
static uint32_t payload_least(const struct world_cfg *c)
{
	uint32_t least = c->wan_payload_max;

	if (c->mtu_search)
		return PMTU_BASE;
	for (uint32_t i = 0; i < c->nmore; i++)
		if (c->more[i].payload_max < least)
			least = c->more[i].payload_max;
	return least;
}

/* What was sent once and not lost, refused or given up has come once; but where a life began lower than was thought, as
 * the LAN let packets overtake each other or the first ones were taken for those of the life before under the same
 * numbers, what was sent of it goes again. Of a READ that is read again from a hole on some of what follows may be here. */
static void check_twice(struct world *w, const struct edge *e, const struct edge *from)
{
	uint64_t old = edge_drops(e, DROP_WAN_POSITION_OLD);
	uint64_t pieces = 1 + LAN_PKT_MAX / (payload_least(&w->cfg) / 2); /* of what a flow asks with */

	if (old > pieces * edge_counter(from, CTR_FLOWS_ASKED) && w->cfg.ncrashes == 0 && w->cfg.resession.n == 0 &&
	    edge_counter(from, CTR_BASE_LOWERED) == 0 && edge_counter(from, CTR_WAN_REPAIRS) == 0 &&
	    edge_counter(from, CTR_WAN_REFUSED) == 0 && edge_counter(e, CTR_EVICTED) == 0 &&
	    edge_counter(e, CTR_READS_AGAIN) == 0)
		check_fail(w, "twice", "edge %c was sent %llu packets again though none was lost", 'A' + e->site,
		           (unsigned long long)old);
}

/* Drops that only a damaged packet or a bug can cause. */
static void check_drops(struct world *w, const struct edge *e)
{
	static const enum proxy_drop lan[] = {DROP_LAN_TRUNCATED, DROP_LAN_NOT_IP,     DROP_LAN_FRAGMENT,
	                                      DROP_LAN_NOT_ROCE,  DROP_LAN_BAD_LENGTH, DROP_LAN_BAD_ICRC,
	                                      DROP_LAN_FOREIGN};
	static const enum proxy_drop wan[] = {DROP_WAN_TRUNCATED, DROP_WAN_BAD_VERSION, DROP_WAN_BAD_TAG,
	                                      DROP_WAN_BAD_LANE,  DROP_WAN_BAD_FRAME,   DROP_WAN_UNKNOWN_FRAME};

	for (size_t i = 0; i < sizeof(lan) / sizeof(lan[0]) && w->cfg.lan.corrupt == 0 && !w->cfg.attack_pps; i++)
		if (edge_drops(e, lan[i]))
			check_fail(w, "drop", "edge %c counted %s", 'A' + e->site, proxy_drop_name(lan[i]));
	for (size_t i = 0; i < sizeof(wan) / sizeof(wan[0]) && w->cfg.wan.corrupt == 0; i++)
		if (edge_drops(e, wan[i]))
			check_fail(w, "drop", "edge %c counted %s", 'A' + e->site, proxy_drop_name(wan[i]));
}

static void note_held(struct world *w, const struct edge_shard *s)
{
	struct proxy_link_status st;
	struct proxy_flow_status f;
	uint32_t cursor = 0;

	proxy_link_status(s->p, w->q.now_ns, &st);
	world_note(w, s->edge->site, "shard %u holds %llu bytes from the LAN, %llu from the WAN", s->cfg.shard,
	           (unsigned long long)st.pool_used[POOL_LAN], (unsigned long long)st.pool_used[POOL_WAN]);
	while (proxy_flow_next(s->p, &cursor, &f))
		if (f.buffered_bytes)
			world_note(w, s->edge->site,
			           "%s flow %u/%u QPN %06x: next %llx acked %llx delivered %llx, %llu bytes",
			           f.side == FLOW_NEAR ? "near" : "far", f.flow, f.inc, f.dest_qpn,
			           (unsigned long long)f.pos_next, (unsigned long long)f.pos_acked,
			           (unsigned long long)f.pos_delivered, (unsigned long long)f.buffered_bytes);
}

/* DREQ and DREP wait for the responder of their own queue pair in RNR, too, since it may live on. One that takes a
 * message now and then keeps them for as long as they may be kept. */
static bool dreq_waits_in_rnr(const struct world *w)
{
	for (uint32_t i = 0; i < w->nconns; i++)
		if (w->conn[i].cfg.cm && w->conn[i].cfg.receive_every_ns)
			return true;
	return false;
}

/* A responder that only takes its time, be it with its receives, is not waited for that long; but with Barrier=causal
 * messages wait for one that waits for the next. */
static void check_expired(struct world *w, const struct edge *e)
{
	uint64_t n = edge_counter(e, CTR_BARRIER_EXPIRED);

	if (n && w->cfg.barrier != BARRIER_CAUSAL && !dreq_waits_in_rnr(w) && w->cfg.wan.ncuts == 0 &&
	    w->cfg.ncrashes == 0 && w->cfg.host_dies_ns == SIM_NEVER && w->cfg.lan_clean && all_sound(w))
		check_fail(w, "barrier-expired", "edge %c let %llu packets go that had waited for BarrierMax",
		           'A' + e->site, (unsigned long long)n);
}

static void check_barrier_empty(struct world *w, const struct edge_shard *s)
{
	struct proxy_link_status st;

	proxy_link_status(s->p, w->q.now_ns, &st);
	if (st.barrier_waiting)
		check_fail(w, "barrier-leak", "edge %c: %u packets wait behind the barrier after all is done",
		           'A' + s->edge->site, st.barrier_waiting);
}

static void check_empty(struct world *w, struct edge *e)
{
	uint64_t used = edge_used(e);

	for (uint32_t i = 0; i < e->nshards && used; i++)
		note_held(w, &e->shard[i]);
	for (uint32_t i = 0; i < e->nshards; i++)
		check_barrier_empty(w, &e->shard[i]);
	/* A host that hears the end of it past its flow, which has just begun to learn, repeats nothing more: what the flow
	 * holds, none of it ACKed, goes with GiveUp. */
	if (used && !w->cfg.no_place)
		check_fail(w, "slot-leak", "edge %c holds %llu bytes of slots after all is done", 'A' + e->site,
		           (unsigned long long)used);
}

void check_end(struct world *w)
{
	if (w->cfg.direct)
		return;
	check_audit(w);
	if (w->cfg.failed_reuse && !edge_holds(&w->edge[0]) && !edge_holds(&w->edge[1]))
		check_failures_named(w);
	relay_peer_end(w);
	for (int site = 0; site < 2; site++) {
		if (all_sound(w))
			check_empty(w, &w->edge[site]);
		check_drops(w, &w->edge[site]);
		check_twice(w, &w->edge[site], &w->edge[!site]);
		check_lives(w, &w->edge[site]);
		check_expired(w, &w->edge[site]);
	}
}
