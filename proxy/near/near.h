/* SPDX-License-Identifier: Apache-2.0 */
/* near.h - the responder's role beside the requester: takes requests in order, buffers them, says how far they may be
 * ACKed, delivers responses.
 *
 * The way of a WRITE and of its ACK, in call order:
 *
 *     near_rx()          a packet of the host: taken, held, repeated, or refused            near_rx.c, near_take.c
 *     near_ack_schedule()       an AETH is due: ack_tx.c asks near_ceiling() how far        near_ceiling.c
 *     near_wan_next()    the lane fetches what may be sent to the far edge                  near_wan.c
 *     near_on_pair()     the responder has answered: the flow may be ACKed
 *     near_on_report()   the responder has so much: slots are freed
 *
 * and of a READ: near_rx(), near_on_packet() for each response, near_resp_tx() to the host (near_read.c, near_resp.c).
 *
 * Positions are 64-bit (flow.h); a PSN is 24 bits and occurs only in packets. */
#ifndef PROXY_NEAR_H
#define PROXY_NEAR_H

#include "proxy/wan/wan.h"
#include "proxy/shard/flow_find.h"
#include "proxy/shard/flow_frame.h"

/* Ranks of each ranking of unpaired flows. */
uint32_t near_unpaired_ranks(uint32_t max_flows);
/* Makes the table of unpaired flows empty; source and each rank are given, and by_source is empty. */
void near_unpaired_init(struct near_unpaired *u, uint32_t max_flows);

/* Slot bytes of requests that the responder does not have yet. */
static inline uint64_t near_held(const struct near_flow *f)
{
	return f->held_bytes - f->kept_bytes;
}

/* True if the flow has something to send now, or its host is away for want of room, and will. Requests that are under
 * way, or have no credit, want no sending time. */
static inline bool near_wants_line(const struct near_flow *f)
{
	return dnode_on(&f->wan_node) || f->turn_ns != 0;
}

/* Adds to the slot bytes in use by requests of the flow (held), and to those of answered operations that are kept
 * (kept); negative: fewer. A flow that holds nothing but kept operations is not busy. */
static inline void near_count_held(struct proxy *p, struct near_flow *f, int64_t held, int64_t kept)
{
	p->near_busy -= near_held(f) != 0;
	f->held_bytes += (uint64_t)held;
	f->kept_bytes += (uint64_t)kept;
	p->near_busy += near_held(f) != 0;
}

/* The part of near_held() that was not sent to the far edge yet. */
static inline uint64_t near_unsent(const struct near_flow *f)
{
	return near_held(f) - f->out_bytes;
}

/* --- from hosts --- */

/* A request of a local host, whole, with a good ICRC. payload_crc: from icrc_check(). Opens the flow if there is none.
 * DROP_NONE: committed, or held behind a gap; else the reason, already counted. Order of PSNs: IBTA 9.7.4. */
enum proxy_drop near_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci,
                        uint32_t payload_crc);

/* CM has described a new connection. Opens its flow, paired; a flow of the same key that has sent something is
 * replaced. Does nothing if the flow is already open by this connection (cm_tag), or open and unused, so a repeated
 * message is harmless. Does nothing if the table is full. */
void near_cm_open(struct proxy *p, const struct near_cm_info *ci);

/* The config names another mode for the flow. The flow's descriptor is stored before the first ACK in the new mode: it
 * says how far was ACKed, or that everything may have been. */
void near_take_mode(struct proxy *p, struct near_flow *f, enum ack_mode mode);

/* CM has ended the connection. A flow that was never used is forgotten, so that the next owner of the QPN is not taken
 * for its requester. For a flow that was used near_reset.c recognises the next incarnation. */
void near_cm_over(struct proxy *p, const struct near_cm_info *ci);

/* Called when a slot of the place, or its descriptor, was freed. If nothing of the place is left and the flow is over,
 * the place itself becomes free. */
static inline void near_place_left(struct proxy *p, struct near_flow *f)
{
	if (f->state == NEAR_FREE && !f->held_bytes && !dnode_on(&f->work_node) && !dnode_on(&f->free_node))
		dlist_append(&p->near_free, &f->free_node);
}

/* Frees, takes back and absorbs slots of the flow as far as this call's work allows; the next tick does the rest. */
void near_work(struct proxy *p, struct near_flow *f);

/* Looks at an answer of a local host, while p->telling. True: the answer is for a request that near_error.c has made up
 * to tell the host of a failure. */
bool near_error_answered(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci);

/* --- to hosts --- */

/* True if the host of a flow in doubt may be sent an RNR NAK. Such an RNR NAK acknowledges nothing, whichever
 * incarnation the host is in. */
static inline bool near_may_back_pressure(const struct near_flow *f, enum near_due due)
{
	bool rxe_inside_read = f->begins_inside && !f->migreq; /* it takes nothing but responses there, see ack_tx.c */

	return f->doubted && f->template_len && due == DUE_RNR && !rxe_inside_read;
}
/* Asks ack_tx.c for an AETH; a stronger reason replaces a weaker one. Does nothing for a flow without a pair, except
 * what near_may_back_pressure() allows, nor for one that drains or is superseded. */
void near_ack_schedule(struct proxy *p, struct near_flow *f, enum near_due due);
/* The mode in force: the configured one, or host while the responder is silent or the edges disagree. */
enum ack_mode near_mode(const struct proxy *p, const struct near_flow *f);
/* Called when near_mode() may have changed: once the mode is not ACK_MODE_NEAR any more, stores how far the flow was
 * ACKed. */
void near_early_look(struct proxy *p, struct near_flow *f);
/* The bound, a position: ACK PSN < ceiling, NAK PSN <= ceiling (both acknowledge all before: IBTA 9.7.5.1). */
uint64_t near_ceiling(const struct proxy *p, const struct near_flow *f);
/* near_ceiling() if that mode were in force. */
uint64_t near_ceiling_in(const struct near_flow *f, enum ack_mode mode);
/* True if pos is within the first unanswered READ, not at its start. */
bool near_inside_read(const struct near_flow *f, uint64_t pos);
/* True if the flow begins with an unanswered READ, and CM has not said that the flow begins there. The READ may be the
 * rest of one that the responder has counted already: its host asks again after an edge has lost its arena. Until the
 * READ is answered, this edge knows neither which MSN a NAK in front of it must carry, nor whether the host accepts
 * anything but responses. */
bool near_may_begin_inside(const struct near_flow *f);
/* Relative MSN of everything before pos; pos is one of ceiling, next, settled, acked. */
uint32_t near_msn_at(const struct proxy *p, const struct near_flow *f, uint64_t pos);
/* Notes that ack_tx.c has built an AETH that acknowledges everything before pos. */
void near_acked(struct proxy *p, struct near_flow *f, uint64_t pos);

/* The oldest operation whose responses the host does not have, NULL: all are answered. */
struct rd_op *near_op_open(const struct near_flow *f);
/* Next response for the host into tx. Returns its L3 length in bytes; 0: none now (and off the list). */
size_t near_resp_tx(struct proxy *p, struct near_flow *f, struct lan_tx *tx);

/* --- to the other edge --- */

extern const struct wan_source near_source;

/* A FLOW_OPEN of the flow is to go: the first one of the session, or another one. */
static inline void near_announce(struct near_flow *f)
{
	f->announce = f->announce >= ANNOUNCE_DONE ? ANNOUNCE_AGAIN : ANNOUNCE_FIRST;
}

static inline bool near_open_is_due(const struct near_flow *f)
{
	return f->announce == ANNOUNCE_FIRST || f->announce == ANNOUNCE_AGAIN;
}

/* Queues a FLOW_CLOSE, by which the far edge forgets a flow. The FLOW_CLOSE may be lost: the next incarnation of the
 * place ends the flow, too. */
void near_queue_close(struct proxy *p, struct lane *l, uint32_t flow, uint32_t inc);

/* Puts the flow on its lane's list if it has something that may be sent. */
void near_wan_schedule(struct proxy *p, struct near_flow *f);
/* Takes the flow off that list, because the flow has nothing more that may be sent. */
void near_wan_leave(struct proxy *p, struct near_flow *f);
/* Fills in the FLOW_OPEN frame of the flow. */
void near_open_frame(const struct proxy *p, const struct near_flow *f, struct wan_flow_open *o);
/* True if the request at pos_wan may be sent now, by credit and window; *slot is the slot of that request. */
bool near_wan_next(struct proxy *p, struct near_flow *f, uint32_t *slot);
/* TK_ROOM: flows that wait for room for their responses try again. near_reserve.c. */
void near_reserve_look(struct proxy *p);
/* True if an older incarnation of the queue pair still drains: no packet of this one is sent. */
static inline bool near_wan_waits_for_older(const struct near_flow *f)
{
	return f->older && !FAULT(FAULT_OLD_LIFE_OVERTAKEN);
}
/* True if the flow has credit for the request at pos_wan and does not wait for room: only the lane's window
 * stops it. */
bool near_wan_awaits_lane(const struct proxy *p, const struct near_flow *f);
/* Gives the next READ_AGAIN, of the oldest operation that has one due, and makes its packet in buf (LAN_PKT_MAX bytes).
 * The READ_AGAIN is not due any more then. False: none is due. near_again.c. */
bool near_again_frame(struct proxy *p, struct near_flow *f, uint8_t *buf, struct wan_read_again *r);
/* The operation whose response the host waits for next, if that response is being read again; else NULL. */
const struct rd_op *near_again_awaited(struct proxy *p, const struct near_flow *f);
/* Called when a datagram with a READ_AGAIN of the flow was lost. */
void near_again_lost(struct proxy *p, struct near_flow *f);
/* Called when the request in that slot was put into a datagram. */
static inline void near_wan_sent(struct near_flow *f, const struct slot_hdr *h)
{
	f->pos_wan += h->psns;
}

/* --- from the other edge --- */

/* Takes FLOW_PAIR: the requester's QPN, the position where the flow begins, and the responder's MSN at a position. A
 * frame that does not fit the flow is dropped. */
void near_on_pair(struct proxy *p, const struct wan_flow_pair *r);
/* Takes FLOW_REPORT: progress, credit and state of the flow at its responder. May close the flow. */
void near_on_report(struct proxy *p, struct lane *l, const struct wan_flow_report *r);
/* Takes a response or a piece of one. False: there is no free slot, and the datagram is to be refused. */
bool near_on_packet(struct proxy *p, struct lane *l, const struct wan_packet *w);

/* --- for queries: near_status.c --- */

void near_flow_status(const struct proxy *p, const struct near_flow *f, struct proxy_flow_status *s);
void near_flow_facts(const struct proxy *p, const struct near_flow *f, struct flow_facts *s);

/* --- time, sessions, restart --- */

/* A timer of the flow (TK_PATIENCE, TK_RETIRE, TK_DRAIN, TK_RESP_PACE, TK_LIVENESS, TK_FAIL, TK_TURN) has run out. May
 * close the flow. */
void near_on_timer(struct proxy *p, struct near_flow *f, enum timer_kind kind);
/* A new session begins: everything that is not settled is sent again. */
void near_session_start(struct proxy *p, struct near_flow *f);
/* Makes flows from the descriptors in the arena. */
void near_rebuild(struct proxy *p);
/* Takes up a request below pos_settled that was found in the arena: its operation was answered, and is kept. */
void near_ops_adopt(struct proxy *p, struct near_flow *f, uint32_t slot);
/* Takes up a response that was found in the arena, after near_rebuild_finish(): frees it unless its operation waits for
 * it. */
void near_resp_adopt(struct proxy *p, uint32_t slot);
/* Rebuilds the flows from their slots, after these were counted (held_bytes; ooo_pkts: all of them). */
void near_rebuild_finish(struct proxy *p);
/* Called when the slot at pos_next was damaged in the arena, and may have been ACKed: the flow fails. */
void near_damaged(struct proxy *p, struct near_flow *f);

#endif
