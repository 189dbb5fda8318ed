// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* ppoll */
#include "engine.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/util/sched_latency.h"
#include "pattern.h"
#include "proxy/roce/icrc.h"

enum {
	RX_BATCH = 128,
	QP_BUDGET = 16,        /* packets of one QP before the next gets its turn */
	NICE = -10,            /* a NIC does not wait for its turn */
	CTL_LOOK_NS = 1000000, /* how often a busy loop looks at the control connection */
	LONGEST_SLEEP_NS = 100000000,
	NAP_NS = 50000,
	NAP_WINDOW_NS = 1000000, /* packets are counted over that long */
	NAP_PACKETS = 8,         /* that many in it: more will come soon */
	NAP_DEPTH = 256,         /* packets in flight that a nap does not make wait */
};

uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void engine_fail(struct engine *e, const char *fmt, ...)
{
	va_list ap;

	if (e->failure[0] != 0)
		return;
	va_start(ap, fmt);
	vsnprintf(e->failure, sizeof(e->failure), fmt, ap);
	va_end(ap);
}

/* ---- set-up ---- */

static void make_head(const struct engine *e, struct qp *qp)
{
	const struct opt *o = e->opt;

	qp->head = (struct roce_pkt){.src = o->addr,
	                             .dst = o->peer,
	                             .ip6 = !ip_addr_is4(&o->addr),
	                             .tos = o->tos,
	                             .ttl = o->ttl,
	                             .pkey = 0xffff,
	                             .migreq = true};
}

int engine_open(struct engine *e, const struct opt *o, char err[256])
{
	int r;

	*e = (struct engine){.opt = o, .nqps = o->qps, .pmtu = o->mtu, .next_timer_ns = NEVER, .ctl_fd = -1};
	e->deep = (uint64_t)roce_read_psns(o->size, o->mtu) * o->depth * o->qps >= NAP_DEPTH;
	sched_low_latency(NICE);
	e->now_ns = clock_ns();
	r = port_open(&e->port, o, err);
	if (r != 0)
		return r;
	if (o->times != NULL && (e->times = fopen(o->times, "w")) == NULL) {
		r = -errno;
		snprintf(err, 256, "cannot write %s: %s", o->times, strerror(-r));
		return r;
	}
	e->qps = calloc(o->qps, sizeof(*e->qps));
	e->ready = calloc(o->qps, sizeof(struct qp *));
	if (e->qps == NULL || e->ready == NULL) {
		snprintf(err, 256, "no memory for %u QPs", o->qps);
		return -ENOMEM;
	}
	e->qpn_base = o->qpn != QPN_RANDOM ? o->qpn
	                                   : (uint32_t)(pat_mix(e->now_ns ^ (uint64_t)getpid()) % 0xff0000) + 16;
	for (uint32_t i = 0; i < e->nqps; i++) {
		e->qps[i].index = i;
		e->qps[i].qpn = e->qpn_base + i;
		make_head(e, &e->qps[i]);
	}
	return 0;
}

void engine_close(struct engine *e)
{
	for (uint32_t i = 0; e->qps != NULL && i < e->nqps; i++) {
		req_free(&e->qps[i].req);
		rsp_free(&e->qps[i].rsp);
	}
	free(e->qps);
	free(e->ready);
	e->qps = NULL;
	e->ready = NULL;
	if (e->times != NULL)
		fclose(e->times);
	e->times = NULL;
	port_close(&e->port);
}

/* The source port gives ECMP its entropy; the same both ways, as rxe does it. */
void engine_connect(struct engine *e, struct qp *qp, uint32_t peer_qpn)
{
	uint64_t h = pat_mix((uint64_t)(qp->qpn ^ peer_qpn) << 32 | (qp->qpn + peer_qpn));

	(void)e;
	qp->head.dest_qpn = peer_qpn;
	qp->head.udp_sport = (uint16_t)(0xc000 | (h & 0x3fff));
}

/* ---- sending ---- */

bool engine_tx_room(struct engine *e)
{
	return port_tx_ready(&e->port, e->now_ns) && port_tx_buf(&e->port) != NULL;
}

uint8_t *engine_payload(struct engine *e, const struct qp *qp, uint8_t opcode)
{
	size_t l3 = qp->head.ip6 ? 40 : 20;

	return port_tx_buf(&e->port) + l3 + 8 + ROCE_BTH_LEN + roce_op(opcode)->ext_len;
}

void engine_send(struct engine *e, struct roce_pkt *pkt, const uint8_t *payload, uint32_t len)
{
	uint8_t *buf = port_tx_buf(&e->port);
	size_t n = roce_build(buf, PORT_FRAME - PORT_ETH_LEN, pkt, payload, len);

	if (n == 0)
		engine_fail(e, "packet of %u bytes does not fit", len);
	else
		port_tx_commit(&e->port, n, e->now_ns);
}

void engine_mark_ready(struct engine *e, struct qp *qp)
{
	if (qp->ready)
		return;
	qp->ready = true;
	e->ready[(e->ready_head + e->ready_n++) % e->nqps] = qp;
}

static struct qp *pop_ready(struct engine *e)
{
	struct qp *qp = e->ready[e->ready_head];

	e->ready_head = (e->ready_head + 1) % e->nqps;
	e->ready_n--;
	qp->ready = false;
	return qp;
}

/* One round over the QPs that have something to send. */
static void serve_ready(struct engine *e)
{
	for (uint32_t n = e->ready_n; n > 0 && port_tx_ready(&e->port, e->now_ns); n--) {
		struct qp *qp = pop_ready(e);

		if (rsp_pump(e, qp, QP_BUDGET) || req_pump(e, qp, QP_BUDGET))
			engine_mark_ready(e, qp);
	}
	port_flush(&e->port);
}

/* ---- receiving ---- */

static struct qp *find_qp(struct engine *e, const struct roce_pkt *pkt)
{
	uint32_t i = pkt->dest_qpn - e->qpn_base;

	if (i >= e->nqps || !ip_addr_eq(&pkt->src, &e->opt->peer) || !ip_addr_eq(&pkt->dst, &e->opt->addr))
		return NULL;
	return &e->qps[i];
}

static void dispatch(struct engine *e, struct qp *qp, const uint8_t *l3, const struct roce_pkt *pkt)
{
	if ((pkt->tos & 3) == 3)
		e->stats.ce_rx++;
	switch (pkt->class) {
	case ROCE_RC_REQUEST:
		rsp_request(e, qp, l3, pkt);
		break;
	case ROCE_RC_RESPONSE:
		req_response(e, qp, l3, pkt);
		break;
	case ROCE_CNP_CLASS:
		e->stats.cnps_rx++;
		req_cnp(e, qp);
		break;
	default:
		e->stats.rx_unsound++;
		break;
	}
}

static void take_packet(void *ctx, const uint8_t *l3, size_t len)
{
	struct engine *e = ctx;
	struct roce_pkt pkt;
	struct qp *qp;

	if (roce_parse(l3, len, &pkt) != DROP_NONE) {
		e->stats.rx_unsound++;
		return;
	}
	if (!icrc_check(l3, &pkt, NULL)) {
		e->stats.rx_bad_icrc++;
		return;
	}
	if (pkt.dest_qpn == 1 && e->on_mad != NULL) {
		e->on_mad(e->mad_ctx, l3, &pkt);
		return;
	}
	qp = find_qp(e, &pkt);
	if (qp == NULL)
		e->stats.rx_foreign++;
	else
		dispatch(e, qp, l3, &pkt);
}

/* ---- time ---- */

void engine_wake_at(struct engine *e, uint64_t at_ns)
{
	if (at_ns < e->next_timer_ns)
		e->next_timer_ns = at_ns;
}

static void run_timers(struct engine *e)
{
	if (e->now_ns < e->next_timer_ns)
		return;
	e->next_timer_ns = NEVER;
	for (uint32_t i = 0; i < e->nqps; i++) {
		engine_wake_at(e, req_timer(e, &e->qps[i]));
		engine_wake_at(e, rsp_timer(e, &e->qps[i]));
	}
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* While packets keep coming and the window is deep, a short blind sleep beats poll(): nobody has to wake us for each
 * packet, and the next batch is larger. */
static bool take_nap(struct engine *e)
{
	struct timespec t = {.tv_nsec = NAP_NS};

	if (!e->deep || e->recent_packets < NAP_PACKETS || e->port.tx_blocked)
		return false;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	return true;
}

static void count_recent(struct engine *e, unsigned got)
{
	if (e->now_ns - e->window_ns > NAP_WINDOW_NS) {
		e->recent_packets = e->now_ns - e->window_ns > 2 * NAP_WINDOW_NS ? 0 : e->window_packets;
		e->window_packets = 0;
		e->window_ns = e->now_ns;
	}
	e->window_packets += got;
}

/* Sleeps until a packet, the control connection or a timer wants something. */
static void wait_for_work(struct engine *e, uint64_t until_ns)
{
	struct pollfd fds[2] = {{.fd = e->port.fd, .events = POLLIN}, {.fd = e->ctl_fd, .events = POLLIN}};
	uint64_t wake = earlier(earlier(until_ns, e->next_timer_ns), e->now_ns + LONGEST_SLEEP_NS);
	struct timespec t;

	if (e->port.tx_blocked)
		fds[0].events |= POLLOUT;
	else if (e->ready_n > 0)
		wake = earlier(wake, e->port.tx_free_ns);
	wake = wake > e->now_ns ? wake - e->now_ns : 0;
	t = (struct timespec){.tv_sec = (time_t)(wake / 1000000000), .tv_nsec = (long)(wake % 1000000000)};
	if (ppoll(fds, 2, &t, NULL) > 0) {
		if ((fds[0].revents & POLLOUT) != 0)
			e->port.tx_blocked = false;
		e->ctl_readable |= (fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
	}
	e->ctl_look_ns = clock_ns() + CTL_LOOK_NS;
}

static void look_at_ctl(struct engine *e)
{
	struct pollfd fd = {.fd = e->ctl_fd, .events = POLLIN};

	if (e->now_ns < e->ctl_look_ns)
		return;
	e->ctl_look_ns = e->now_ns + CTL_LOOK_NS;
	if (poll(&fd, 1, 0) > 0)
		e->ctl_readable = true;
}

static void maybe_hang(struct engine *e)
{
	if (e->hang_at_ns == 0 || e->now_ns < e->hang_at_ns)
		return;
	e->hang_at_ns = 0;
	usleep((useconds_t)(e->opt->hang_ns / 1000));
}

void engine_step(struct engine *e, uint64_t until_ns)
{
	unsigned got;

	e->now_ns = clock_ns();
	maybe_hang(e);
	got = port_rx(&e->port, RX_BATCH, take_packet, e);
	count_recent(e, got);
	run_timers(e);
	serve_ready(e);
	if (got > 0 || (e->ready_n > 0 && port_tx_ready(&e->port, e->now_ns)) || take_nap(e))
		look_at_ctl(e);
	else
		wait_for_work(e, until_ns);
}
