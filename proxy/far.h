/* SPDX-License-Identifier: Apache-2.0 */
/* far.h - the requester's role beside the responder: puts requests in order, sends them within a window made for the
 * LAN, retries, takes the responder's answers, reports what is delivered. */
#ifndef PROXY_FAR_H
#define PROXY_FAR_H

#include "core.h"
#include "wan_frame.h"

/* --- from the other edge --- */
void far_on_open(struct proxy *p, struct lane *l, const struct wan_flow_open *o);
void far_on_close(struct proxy *p, const struct wan_flow_close *c);
/* A request or a piece of one. False: no room, the datagram is to be refused. */
bool far_on_packet(struct proxy *p, struct lane *l, const struct wan_packet *w);

/* --- from hosts --- */
/* An answer of a local host. */
enum proxy_drop far_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci);

/* --- to hosts --- */
/* Next request for the host; 0: none now (and off the list of ready flows). */
size_t far_lan_tx(struct proxy *p, struct far_flow *f, struct lan_tx *tx);
/* Puts the flow on the list of ready ones if it may send. */
void far_kick(struct proxy *p, struct far_flow *f);

/* --- to the other edge --- */
void far_report_frame(struct proxy *p, struct far_flow *f, struct wan_flow_report *r);
void far_pair_frame(const struct far_flow *f, struct wan_flow_pair *r);
/* Reports at once, or within the coalescing time. */
void far_report(struct proxy *p, struct far_flow *f, bool at_once);

/* --- life --- */
struct far_flow *far_by_peer(struct proxy *p, uint32_t peer_flow);
void far_close(struct proxy *p, struct far_flow *f);
void far_session_start(struct proxy *p, struct far_flow *f);
void far_on_timer(struct proxy *p, struct far_flow *f);
void far_rebuild(struct proxy *p);
void far_rebuild_finish(struct proxy *p);
void far_store(struct proxy *p, const struct far_flow *f);

#endif
