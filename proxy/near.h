/* SPDX-License-Identifier: Apache-2.0 */
/* near.h - the responder's role beside the requester: takes requests in order, buffers them, says how far they may be
 * ACKed, delivers responses. */
#ifndef PROXY_NEAR_H
#define PROXY_NEAR_H

#include "core.h"
#include "wan_frame.h"

/* --- from hosts --- */
/* A request of a local host. payload_crc: from icrc_check(). */
enum proxy_drop near_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci,
                        uint32_t payload_crc);
/* CM has described a new connection: requester src (local) sends from start_psn to dest_qpn at dst. */
struct near_cm_info {
	struct ip_addr src, dst;
	uint32_t dest_qpn, requester_qpn, start_psn;
	uint16_t pmtu, vlan_tci;
	uint16_t pkey;
	uint8_t rnr_retry;
	struct cm_traits responder;
};
void near_cm_open(struct proxy *p, const struct near_cm_info *ci);

/* Takes in order what was held behind pos_next. */
void near_absorb_held(struct proxy *p, struct near_flow *f);

/* --- from the other edge --- */
void near_on_report(struct proxy *p, const struct wan_flow_report *r);
void near_on_pair(struct proxy *p, const struct wan_flow_pair *r);
/* A response or a piece of one. False: no room, the datagram is to be refused. */
bool near_on_packet(struct proxy *p, struct lane *l, const struct wan_packet *w);
struct near_flow *near_by_id(struct proxy *p, uint32_t flow, uint32_t inc);
uint32_t near_wire_id(const struct proxy *p, const struct near_flow *f);

/* --- to hosts --- */
/* The bound: ACK PSN < ceiling, NAK PSN <= ceiling. */
uint64_t near_ceiling(const struct proxy *p, const struct near_flow *f);
/* Relative MSN of everything before pos; pos is one of ceiling, next, settled, acked. */
uint32_t near_msn_at(const struct proxy *p, const struct near_flow *f, uint64_t pos);
/* The mouth has said that everything before pos is acknowledged. */
void near_acked(struct proxy *p, struct near_flow *f, uint64_t pos);
/* Asks the mouth to speak; a stronger reason replaces a weaker one. */
void near_speak(struct proxy *p, struct near_flow *f, enum near_due due);

/* --- to the other edge --- */
/* Puts the flow on its lane's list if it has something that may be sent. */
void near_wan_kick(struct proxy *p, struct near_flow *f);
/* True if the request at pos_wan may be sent now; *slot is it. */
bool near_wan_next(struct proxy *p, struct near_flow *f, uint32_t *slot);
void near_wan_sent(struct near_flow *f, const struct slot_hdr *h);
void near_open_frame(const struct proxy *p, const struct near_flow *f, struct wan_flow_open *o);

/* --- life --- */
struct near_flow *near_find(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t dest_qpn,
                            uint16_t vlan_tci);
/* A flow between two hosts with bytes that were ACKed and not delivered yet, NULL if there is none. Slow. */
struct near_flow *near_undelivered(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst);
void near_close(struct proxy *p, struct near_flow *f);
void near_store(struct proxy *p, const struct near_flow *f);
void near_session_start(struct proxy *p, struct near_flow *f);
void near_settle(struct proxy *p, struct near_flow *f);
void near_on_timer(struct proxy *p, struct near_flow *f, enum timer_kind kind);
void near_rebuild(struct proxy *p);
/* Slots committed by an earlier life, one by one, after near_rebuild(). */
void near_rebuild_finish(struct proxy *p);

/* --- READ and ATOMIC: near_read.c --- */
struct rd_op *near_op_at(const struct near_flow *f, uint64_t pos);
struct rd_op *near_op_open(const struct near_flow *f);
bool near_op_begin(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t psns,
                   uint32_t msn, uint32_t fp);
/* The host asks again. True if it was answered or will be. */
bool near_op_again(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t fp);
/* Next response for the host; 0: none now (and off the list). */
size_t near_resp_tx(struct proxy *p, struct near_flow *f, struct lan_tx *tx);
void near_ops_retire(struct proxy *p, struct near_flow *f, bool all);
/* The last READ, whose length in PSNs was not known, owns so many. */
void near_set_psns(struct proxy *p, struct near_flow *f, uint32_t psns);
void near_learn_pmtu(struct proxy *p, struct near_flow *f, uint16_t pmtu);

#endif
