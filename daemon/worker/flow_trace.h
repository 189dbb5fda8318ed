/* SPDX-License-Identifier: Apache-2.0 */
/* flow_trace.h - the time line of one flow, while a client watches: its packets at the hosts' side, and changes of its
 * state.
 *
 * Theory of operation
 *
 * The worker shows each packet from and to hosts to a watch, if it has one; else it looks at one pointer. The watch
 * picks the packets of its flow, and writes a row with the core's verdict and the flow's positions afterwards. Effects
 * of the WAN or of timers show as differences between two looks at the flow (flow_watch_look()), of which there is one
 * in each turn of the worker.
 *
 * A row has no byte of a payload. Rows go to the main thread through a ring; when the ring is full, rows are dropped
 * and counted, and the worker never waits. The main thread makes a watch, hands it to the worker by a command and frees
 * it when the worker has given it back. */
#ifndef DAEMON_FLOW_TRACE_H
#define DAEMON_FLOW_TRACE_H

#include <stdatomic.h>

#include "daemon/util/spsc.h"
#include "proxy/proxy.h"

#define FLOW_TRACE_ROWS 8192u /* 1 MiB: a second of a flow at 300 Mbit/s */

/* X(enumerator, printed name, what happened since the row before) */
#define FLOW_TRACE_MARKS(X)                                                                                            \
	X(BEGINS, "begins", "the flow, or a new life of the flow, begins")                                             \
	X(PAIRED, "paired", "the requester's QPN is known: ACKs may begin")                                            \
	X(CROSSED, "crossed", "the other edge has committed more packets")                                             \
	X(DELIVERED, "delivered", "the other edge reports that the responder has acknowledged more packets")           \
	X(ARRIVED, "arrived", "more packets have come over the WAN")                                                   \
	X(RNR, "rnr", "the other edge reports that the responder is in RNR")                                           \
	X(STALLED, "stalled", "the responder makes no progress")                                                       \
	X(RESUMED, "resumed", "the responder makes progress again")                                                    \
	X(HELD_OFF, "held_off", "no room, or not its turn: RNR NAKs hold the requester off")                             \
	X(LET_IN, "let_in", "the buffer has room again: the requester is let in")                                      \
	X(CEILING, "ceiling", "another reason bounds the ACKs now")                                                    \
	X(FAILED, "failed", "the responder refused, or the edge gave it up")                                           \
	X(RESENT, "resent", "the packet was sent before")                                                              \
	X(ENDED, "ended", "the flow is gone")

#define X(e, name, text) FLOW_TRACE_##e,
enum flow_trace_mark { FLOW_TRACE_MARKS(X) FLOW_TRACE_MARK_COUNT };
#undef X

const char *flow_trace_mark_name(enum flow_trace_mark m);

enum flow_trace_what { FLOW_TRACE_IN, FLOW_TRACE_OUT, FLOW_TRACE_STATE };

struct flow_trace_row {
	uint64_t now_ns;   /* CLOCK_MONOTONIC */
	uint64_t pos_next, pos_acked, pos_delivered, pos_ceiling;
	uint32_t marks;    /* bits of enum flow_trace_mark */
	uint32_t psn, msn; /* of a packet; MSN of one with AETH */
	uint16_t len;      /* from its IP header on */
	uint8_t what;      /* enum flow_trace_what */
	uint8_t side;      /* enum flow_side */
	uint8_t opcode, syndrome;
	bool aeth, ack_req;
	uint8_t drop;      /* enum proxy_drop, of one that came */
	uint8_t why;       /* enum ceiling_reason */
};

struct flow_key {
	struct ip_addr src, dst; /* requester, responder */
	uint32_t dest_qpn;
	uint16_t vlan_tci;
};

struct flow_watch {
	struct flow_key key;
	struct spsc rows;
	_Atomic uint64_t missed; /* rows for which there was no room */
	/* the worker's */
	struct proxy_flow_view last[2]; /* by side, if `here` */
	bool here[2];
	uint32_t sent_psn[2]; /* the one behind the highest sent to the responder, and to the requester */
	bool sent[2];
};

/* NULL: no memory. */
struct flow_watch *flow_watch_new(const struct flow_key *key);
void flow_watch_free(struct flow_watch *w);

/* Worker. A packet from a host, and the core's verdict. */
void flow_watch_in(struct flow_watch *w, struct proxy *p, uint64_t now_ns, const uint8_t *l3, size_t len,
                   enum proxy_drop d);
/* Worker. A packet for a host, before it is sent. */
void flow_watch_out(struct flow_watch *w, struct proxy *p, uint64_t now_ns, const struct lan_tx *tx);
/* Worker. Notes changes of the flow that no packet of a host has caused. */
void flow_watch_look(struct flow_watch *w, struct proxy *p, uint64_t now_ns);

#endif
