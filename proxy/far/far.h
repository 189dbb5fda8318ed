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
 * Positions are 64-bit (core.h). */
#ifndef PROXY_FAR_H
#define PROXY_FAR_H

#include "proxy/wan/wan.h"
#include "proxy/shard/flow_find.h"
#include "proxy/shard/flow_frame.h"

#define BELOW_BASE_REACH 4096 /* as far as a near edge extends a flow downwards */

/* A slot of the place is free. If it was the last one, and the flow is over, the place is. */
static inline void far_place_left(struct proxy *p, struct far_flow *f)
{
	if (!f->used && !f->held_bytes && !f->nresps && !dnode_on(&f->free_node))
		dlist_append(&p->far_free, &f->free_node);
}

/* Goes on with what a call has left of the flow, or has just begun. Leaves the rest for the next tick. */
void far_work(struct proxy *p, struct far_flow *f);
/* There is a slot for the response at pos. far_read.c. */
void far_response_here(struct far_flow *f, uint64_t pos);
/* The slot of a response was refused and may go again: returns the one of its flow that goes instead, the first that was
 * refused as well. A near edge without room for all takes the first one, for which its host waits. */
uint32_t far_refused_first(struct proxy *p, uint32_t slot);
/* --- from the other edge --- */

/* Opens a flow, or tells something new about it. What cannot be is dropped and counted. */
void far_on_open(struct proxy *p, struct lane *l, const struct wan_flow_open *o);
/* A request or a piece of one. False: no room, the datagram is to be refused. */
bool far_on_packet(struct proxy *p, struct lane *l, const struct wan_packet *w);
/* A part of a READ that was answered is to be read again. far_again.c. */
void far_on_again(struct proxy *p, struct lane *l, const struct wan_read_again *r);
void far_again_on_timer(struct proxy *p, struct far_flow *f);
/* How far the near edge has room for responses of a READ. */
void far_on_resp_credit(struct proxy *p, struct lane *l, const struct wan_resp_credit *c);
/* The near edge has forgotten the flow. */
void far_on_close(struct proxy *p, const struct wan_flow_close *c);

/* --- to hosts --- */

/* Puts the flow on the list of ready ones if it may send: window, RNR wait, its turn to be paired. */
void far_schedule(struct proxy *p, struct far_flow *f);
/* Its answer could be another flow's: it is asked once more, with its next packet if there is one. */
void far_ask_again(struct proxy *p, struct far_flow *f);
/* No progress for long? Says so; true if it was given up. */
bool far_overdue(struct proxy *p, struct far_flow *f);
/* Its responder answers to another QPN than the one whose answers have counted for it: it has failed, loudly. */
void far_mispaired(struct proxy *p, struct far_flow *f, uint32_t requester_qpn);
/* True if a life of the flow's queue pair was lost with its near edge's arena, and lacked this PSN (24 bits) here. */
bool far_lost_awaited(struct proxy *p, const struct far_flow *f, uint32_t psn);
/* L3 length of the next request, if it may go to the host now; 0: none may. */
uint16_t far_lan_next(struct proxy *p, struct far_flow *f);
/* That request into tx. Returns its L3 length in bytes. */
size_t far_lan_tx(struct proxy *p, struct far_flow *f, struct lan_tx *tx);

/* The next CNP to a responder whose responses were marked. Returns its L3 length, 0: none. far_cnp.c. */
size_t far_cnp_tx(struct proxy *p, struct lan_tx *tx);

/* --- from hosts --- */

/* An answer of a local host: ACK, NAK, READ response or ATOMIC acknowledge (IBTA 9.7.5). DROP_NONE: it counted; else
 * why not, counted already. */
enum proxy_drop far_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci);

/* A CNP of a local host: whatever is sent to it from that queue pair slows down. It does not cross, but in mode host,
 * or if it is about no flow of ours: *cross. */
enum proxy_drop cnp_rx(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci, bool *cross);

/* --- to the other edge --- */

extern const struct wan_source far_source;

/* Reports at once, or within the coalescing time: 50 us to 1 ms, by the round trip. */
void far_report(struct proxy *p, struct far_flow *f, bool at_once);
/* What FLOW_REPORT and FLOW_PAIR say now. */
void far_report_frame(struct proxy *p, struct far_flow *f, struct wan_flow_report *r);
void far_pair_frame(const struct far_flow *f, struct wan_flow_pair *r);

/* --- for whoever asks. far_status.c --- */

void far_flow_status(const struct far_flow *f, struct proxy_flow_status *s);
void far_flow_facts(const struct far_flow *f, struct flow_facts *s);

/* --- time, sessions, restart --- */

/* The flow's timer has run out: retry, end of an RNR wait, another try to be paired. */
void far_on_timer(struct proxy *p, struct far_flow *f);
/* The flow's time to ask is there: one that never opened, or is idle, asks whether the near edge still knows it. */
void far_ask(struct proxy *p, struct far_flow *f);
/* The peer is told everything again; a flow of a memory that the peer has lost ends. */
void far_session_start(struct proxy *p, struct far_flow *f);
/* Flows from their descriptors. */
void far_rebuild(struct proxy *p);
/* And from their slots, after these have been counted (held_bytes, pos_rx_max). */
void far_rebuild_finish(struct proxy *p);

/* CM has opened a connection of a local responder's queue pair. What earlier flows hold for that queue pair fails, and so
 * does what comes of them from now on: it must not reach the new connection, nor may that one's answers count for it. */
void far_cm_open(struct proxy *p, const struct near_cm_info *ci);

#endif
