/* SPDX-License-Identifier: Apache-2.0 */
/* far.h - the requester's role beside the responder: puts requests in order, sends them within a window made for the
 * LAN, retries, takes the responder's answers, reports what is delivered.
 *
 * The way of a request, in call order:
 *
 *     far_on_open()        where the flow begins and whose it is                       far.c, far_rx.c
 *     far_on_packet()      put in place by position
 *     far_schedule()           it may be sent: the flow waits for its turn                  far_tx.c
 *     lan_drr_tx()        whose turn is it?                                           lan_drr.c, lan_host.c
 *     far_lan_tx()         to the host                                                 far_tx.c
 *     far_rx()             the host's answer                                           far_answer.c, far_read.c
 *     far_report()         the near edge is to be told                                 far_report.c
 *
 * Positions are 64-bit (flow.h). */
#ifndef PROXY_FAR_H
#define PROXY_FAR_H

#include "proxy/wan/wan.h"
#include "proxy/shard/flow_find.h"
#include "proxy/shard/flow_frame.h"

#define BELOW_BASE_REACH 4096 /* as far as a near edge extends a flow downwards */

/* Called when a slot of the place was freed. If nothing of the place is left and the flow is over, the place itself
 * becomes free. */
static inline void far_place_left(struct proxy *p, struct far_flow *f)
{
	if (f->state == FAR_FREE && !f->held_bytes && !f->nresps && !dnode_on(&f->free_node))
		dlist_append(&p->far_free, &f->free_node);
}

/* Frees and settles slots of the flow as far as this call's work allows; the next tick does the rest. */
void far_work(struct proxy *p, struct far_flow *f);
/* Notes that there is a slot for the response at pos. far_read.c. */
void far_response_here(struct far_flow *f, uint64_t pos);
/* The slot holds a refused response that may go again. Returns the slot of the flow's first refused response, which is
 * sent instead: a near edge without room for all takes the first one, for which its host waits. */
uint32_t far_refused_first(struct proxy *p, uint32_t slot);
/* --- from the other edge --- */

/* Opens a flow, or tells something new about it. A frame with impossible values is dropped and counted. */
void far_on_open(struct proxy *p, struct lane *l, const struct wan_flow_open *o);
/* A request or a piece of one. False: no room, the datagram is to be refused. */
bool far_on_packet(struct proxy *p, struct lane *l, const struct wan_packet *w);
/* Takes READ_AGAIN: a part of an answered READ is to be read again. far_again.c. */
void far_on_again(struct proxy *p, struct lane *l, const struct wan_read_again *r);
void far_again_on_timer(struct proxy *p, struct far_flow *f);
/* Takes RESP_CREDIT: the position up to which the near edge has room for the responses of a READ. */
void far_on_resp_credit(struct proxy *p, struct lane *l, const struct wan_resp_credit *c);
/* Takes FLOW_CLOSE: the near edge has forgotten the flow. */
void far_on_close(struct proxy *p, const struct wan_flow_close *c);

/* --- to hosts --- */

/* Puts the flow on the list of ready ones if it may send: window, RNR wait, its turn to be paired. */
void far_schedule(struct proxy *p, struct far_flow *f);
/* Called when an answer could be another flow's: the probed flow is asked once more, with its next packet if it has
 * one. */
void far_ask_again(struct proxy *p, struct far_flow *f);
/* Raises an event if the flow made no progress for stall_ns. True: none for give_up_ns, the flow has failed. */
bool far_overdue(struct proxy *p, struct far_flow *f);
/* Called when the flow's responder answers to another QPN than the one whose answers have counted: the flow fails, with
 * an event. */
void far_mispaired(struct proxy *p, struct far_flow *f, uint32_t requester_qpn);
/* True if an incarnation of the flow's queue pair was lost with the near edge's arena, and ended here before this PSN
 * (24 bits). */
bool far_lost_awaited(struct proxy *p, const struct far_flow *f, uint32_t psn);
/* L3 length of the next request, if it may go to the host now; 0: none may. *slot: the request, or SLOT_NONE for a READ
 * that asks for missing responses. */
uint16_t far_lan_next(struct proxy *p, struct far_flow *f, uint32_t *slot);
/* Writes the next request, with the slot that far_lan_next() has just found, into tx. Returns its L3 length in bytes. */
size_t far_lan_tx(struct proxy *p, struct far_flow *f, uint32_t slot, struct lan_tx *tx);

/* The next CNP to a responder whose responses were marked. Returns its L3 length, 0: none. far_cnp.c. */
size_t far_cnp_tx(struct proxy *p, struct lan_tx *tx);

/* --- from hosts --- */

/* An answer of a local host: ACK, NAK, READ response or ATOMIC acknowledge (IBTA 9.7.5). DROP_NONE: the answer counted;
 * else the drop reason, already counted. */
enum proxy_drop far_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci);

/* A CNP of a local host: requests and responses that this edge sends to its queue pair slow down. *cross: the CNP is to
 * cross the WAN, in mode host, or if it is about no flow here. */
enum proxy_drop cnp_rx(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci, bool *cross);

/* --- to the other edge --- */

extern const struct wan_source far_source;

/* Reports at once, or within the coalescing time: 50 us to 1 ms, by the round trip. */
void far_report(struct proxy *p, struct far_flow *f, bool at_once);
/* These fill in FLOW_REPORT and FLOW_PAIR with the flow's present state. */
void far_report_frame(struct proxy *p, struct far_flow *f, struct wan_flow_report *r);
void far_pair_frame(const struct far_flow *f, struct wan_flow_pair *r);

/* --- for queries: far_status.c --- */

void far_flow_status(const struct far_flow *f, struct proxy_flow_status *s);
void far_flow_facts(const struct far_flow *f, struct flow_facts *s);

/* --- time, sessions, restart --- */

/* Called when the flow's timer has run out: retry, end of an RNR wait, another turn to be paired. */
void far_on_timer(struct proxy *p, struct far_flow *f);
/* Called when the flow's ask timer has run out: a flow that never opened, or is idle, reports, so that a near edge that
 * does not know the flow closes it. */
void far_ask(struct proxy *p, struct far_flow *f);
/* A new session: the flow reports everything again. A flow of an arena that the peer has lost becomes stale or ends. */
void far_session_start(struct proxy *p, struct far_flow *f);
/* Makes flows from the descriptors in the arena. */
void far_rebuild(struct proxy *p);
/* Rebuilds the flows from their slots, after these were counted (held_bytes, pos_rx_max). */
void far_rebuild_finish(struct proxy *p);

/* CM has opened a connection of a local responder's queue pair. Earlier flows to that queue pair fail if they hold
 * requests, or once one arrives: these must not reach the new connection, whose answers must not count for them. */
void far_cm_open(struct proxy *p, const struct near_cm_info *ci);

#endif
