/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - one endpoint: its port, its QPs, and the loop that serves them.
 *
 * A step receives what there is, answers, sends what may be sent, and sleeps when there is nothing to do (other
 * processes share the cores). Requester and responder of a QP are separate; requester.h and responder.h say what the
 * engine calls. */
#ifndef RCPERF_ENGINE_H
#define RCPERF_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "hist.h"
#include "meter.h"
#include "opt.h"
#include "plan.h"
#include "port.h"
#include "requester.h"
#include "responder.h"
#include "stats.h"

#define NEVER UINT64_MAX

struct qp {
	struct requester req;
	struct responder rsp;
	struct roce_pkt head; /* addresses, QPN, P_Key... of all packets to the peer */
	uint32_t index, qpn;
	bool ready; /* in the engine's queue of QPs with something to send */
};

struct engine {
	const struct opt *opt;
	struct plan plan;
	struct port port;
	struct qp *qps;
	uint32_t nqps, qpn_base;
	uint32_t pmtu;
	uint64_t now_ns;
	uint64_t next_timer_ns;
	uint64_t hang_at_ns;
	/* how busy it is: see take_nap() */
	bool deep;
	uint64_t window_ns;
	uint32_t window_packets, recent_packets;
	/* QPs that have something to send, first come first served */
	struct qp **ready;
	uint32_t ready_head, ready_n;
	/* a descriptor to watch beside the port */
	int ctl_fd;
	bool ctl_readable;
	uint64_t ctl_look_ns;
	/* QP1, if somebody listens to it */
	void (*on_mad)(void *ctx, const uint8_t *l3, const struct roce_pkt *pkt);
	void *mad_ctx;
	struct stats stats;
	struct meter done, exec; /* completions, executions */
	struct hist latency;
	FILE *times; /* of --times; NULL: none */
	char failure[256]; /* why the first QP failed; empty: none did */
};

uint64_t clock_ns(void);

/* Opens the port and makes opt->qps QPs. 0 or -errno with a sentence in err. */
int engine_open(struct engine *e, const struct opt *o, char err[256]);
void engine_close(struct engine *e);

/* Points a QP at its peer. */
void engine_connect(struct engine *e, struct qp *qp, uint32_t peer_qpn);

/* One turn of the loop; sleeps at most until `until_ns`. */
void engine_step(struct engine *e, uint64_t until_ns);

void engine_mark_ready(struct engine *e, struct qp *qp);
void engine_wake_at(struct engine *e, uint64_t at_ns);

/* Sends a packet made from qp->head, `pkt`'s opcode fields and len payload bytes that fill() wrote in place. */
bool engine_tx_room(struct engine *e);
uint8_t *engine_payload(struct engine *e, const struct qp *qp, uint8_t opcode);
void engine_send(struct engine *e, struct roce_pkt *pkt, const uint8_t *payload, uint32_t len);

/* The QP cannot go on; the first reason is kept. */
void engine_fail(struct engine *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

#endif
