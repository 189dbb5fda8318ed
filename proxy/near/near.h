/* SPDX-License-Identifier: Apache-2.0 */
/* near.h - the responder's role beside the requester: takes requests in order, buffers them, says how far they may be
 * ACKed, delivers responses.
 *
 * The way of a WRITE and of its ACK, in call order:
 *
 *     near_rx()          a packet of the host: taken, held, repeated, or refused            near_rx.c, near_take.c
 *     near_ack_schedule()       something is to be said: ack_tx.c asks near_ceiling() how far       near_ceiling.c
 *     near_wan_next()    the lane fetches what may be sent to the far edge                  near_wan.c
 *     near_on_pair()     the responder has answered: the flow may be ACKed
 *     near_on_report()   the responder has so much: slots are freed
 *
 * and of a READ: near_rx(), near_on_packet() for each response, near_resp_tx() to the host (near_read.c, near_resp.c).
 *
 * Positions are 64-bit (core.h); a PSN is 24 bits and occurs only in packets. */
#ifndef PROXY_NEAR_H
#define PROXY_NEAR_H

#include "proxy/wan/wan.h"
#include "proxy/shard/flow_find.h"
#include "proxy/shard/flow_frame.h"

/* Makes the table of unpaired flows empty. */
void near_unpaired_init(struct near_unpaired *u);

/* Slot bytes of requests that the responder does not have yet. */
static inline uint64_t near_held(const struct near_flow *f)
{
	return f->held_bytes - f->kept_bytes;
}

/* So many slot bytes more (negative: fewer) are in use by requests of the flow; and, of all these, by operations that
 * were answered and are kept. A flow that has nothing but such is not busy. */
static inline void near_count_held(struct proxy *p, struct near_flow *f, int64_t held, int64_t kept)
{
	p->near_busy -= near_held(f) != 0;
	f->held_bytes += (uint64_t)held;
	f->kept_bytes += (uint64_t)kept;
	p->near_busy += near_held(f) != 0;
}

/* Of near_held(): not sent to the far edge yet. */
static inline uint64_t near_unsent(const struct near_flow *f)
{
	return near_held(f) - f->out_bytes;
}

/* --- from hosts --- */

/* A request of a local host, whole, with a good ICRC. payload_crc: from icrc_check(). Opens the flow if there is none.
 * DROP_NONE: committed, or held behind a gap; else why not, counted already. Order of PSNs: IBTA 9.7.4. */
enum proxy_drop near_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci,
                        uint32_t payload_crc);

/* CM has described a new connection. Opens that flow, paired; a flow of the same key that has sent something is replaced. Does nothing if it is open and
 * fresh, so that a repeated message is harmless; nor if the table is full. */
void near_cm_open(struct proxy *p, const struct near_cm_info *ci);

/* The config names another mode for the flow. Its descriptor says how far was ACKed, or that all may have been, and says it
 * in front of the first ACK in the new mode. */
void near_take_mode(struct proxy *p, struct near_flow *f, enum ack_mode mode);

/* Its end, which both sides have agreed to. A flow that was never used is forgotten, so that nobody who gets the QPN
 * next is taken for its owner; one that was used tells a new life by itself (near_reset.c). */
void near_cm_over(struct proxy *p, const struct near_cm_info *ci);

/* A slot of the place is free. If it was the last one, and the flow is over, the place is. */
static inline void near_place_left(struct proxy *p, struct near_flow *f)
{
	if (!f->used && !f->held_bytes && !dnode_on(&f->work_node) && !dnode_on(&f->free_node))
		dlist_append(&p->near_free, &f->free_node);
}

/* Goes on with what a call has left of the flow, or has just begun. Leaves the rest for the next tick. */
void near_work(struct proxy *p, struct near_flow *f);

/* An answer of a local host, while p->telling. True: it is to a request that the edge has made up to tell it of a
 * failure. near_error.c. */
bool near_error_answered(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci);

/* --- to hosts --- */

/* While nobody knows whether the host repeats what it sent or begins a new life, it may be sent away for a while, as the
 * life before would be: that acknowledges nothing. */
static inline bool near_may_back_pressure(const struct near_flow *f, enum near_due due)
{
	bool rxe_inside_read = f->begins_inside && !f->migreq; /* it takes nothing but responses there, see ack_tx.c */

	return f->doubted && f->template_len && due == DUE_RNR && !rxe_inside_read;
}
/* Asks the ACK generator to speak; a stronger reason replaces a weaker one. Nothing for a flow without a pair, or an
 * old life. */
void near_ack_schedule(struct proxy *p, struct near_flow *f, enum near_due due);
/* The mode in force: the configured one, or host while the responder is silent or the edges disagree. */
enum ack_mode near_mode(const struct proxy *p, const struct near_flow *f);
/* Nothing may be ACKed early any more, perhaps: the flow's descriptor then says how far was. */
void near_early_look(struct proxy *p, struct near_flow *f);
/* The bound, a position: ACK PSN < ceiling, NAK PSN <= ceiling (both acknowledge all before: IBTA 9.7.5.1). */
uint64_t near_ceiling(const struct proxy *p, const struct near_flow *f);
/* The same if that mode were in force. */
uint64_t near_ceiling_in(const struct near_flow *f, enum ack_mode mode);
/* True if pos is within the first unanswered READ, not at its start. */
bool near_inside_read(const struct near_flow *f, uint64_t pos);
/* The flow begins with a READ that is not answered, and CM has not told that it begins there. It may be the rest of one that
 * the responder has counted, asked for again from where an edge that has lost its memory left off. Until it is answered nobody knows which count a NAK in front
 * of it must name, nor whether its host takes anything but responses. */
bool near_may_begin_inside(const struct near_flow *f);
/* Relative MSN of everything before pos; pos is one of ceiling, next, settled, acked. */
uint32_t near_msn_at(const struct proxy *p, const struct near_flow *f, uint64_t pos);
/* The ACK generator has said that everything before pos is acknowledged. */
void near_acked(struct proxy *p, struct near_flow *f, uint64_t pos);

/* The oldest operation whose responses the host does not have, NULL: all are answered. */
struct rd_op *near_op_open(const struct near_flow *f);
/* Next response for the host into tx. Returns its L3 length in bytes; 0: none now (and off the list). */
size_t near_resp_tx(struct proxy *p, struct near_flow *f, struct lan_tx *tx);

/* --- to the other edge --- */

extern const struct wan_source near_source;

/* The far edge is to forget a flow. May be lost: it is told again when the place is used again. */
void near_queue_close(struct proxy *p, struct lane *l, uint32_t flow, uint32_t inc);

/* Puts the flow on its lane's list if it has something that may be sent. */
void near_wan_schedule(struct proxy *p, struct near_flow *f);
/* It has nothing more that may go. */
void near_wan_leave(struct proxy *p, struct near_flow *f);
/* What FLOW_OPEN says. */
void near_open_frame(const struct proxy *p, const struct near_flow *f, struct wan_flow_open *o);
/* True if the request at pos_wan may be sent now, by credit and window; *slot is it. */
bool near_wan_next(struct proxy *p, struct near_flow *f, uint32_t *slot);
/* Those that wait for room for their answers look again: TK_ROOM. near_reserve.c. */
void near_reserve_look(struct proxy *p);
/* An older life of its queue pair still drains: nothing of this one is sent. */
static inline bool near_wan_waits_for_older(const struct near_flow *f)
{
	return f->older && !FAULT(FAULT_OLD_LIFE_OVERTAKEN);
}
/* True if the flow has credit for the request at pos_wan, and the lane has no window for it. */
bool near_wan_awaits_lane(const struct proxy *p, const struct near_flow *f);
/* What is to be read again, the oldest operation first; its packet is made in buf (LAN_PKT_MAX bytes). False: nothing
 * is. Takes it off. near_again.c. */
bool near_again_frame(struct proxy *p, struct near_flow *f, uint8_t *buf, struct wan_read_again *r);
/* The operation that the host asked for again and that is being read again; NULL: it waits for none. */
const struct rd_op *near_again_awaited(struct proxy *p, const struct near_flow *f);
/* The datagram with one of those was lost. */
void near_again_lost(struct proxy *p, struct near_flow *f);
/* It has been put into a datagram. */
void near_wan_sent(struct near_flow *f, const struct slot_hdr *h);

/* --- from the other edge --- */

/* A pair was learned: whose the flow is, where it begins, from which the responder counts MSNs. One that does not fit
 * the flow is dropped. */
void near_on_pair(struct proxy *p, const struct wan_flow_pair *r);
/* Progress, credit and state of the flow at its responder. May close the flow. */
void near_on_report(struct proxy *p, struct lane *l, const struct wan_flow_report *r);
/* A response or a piece of one. False: no room, the datagram is to be refused. */
bool near_on_packet(struct proxy *p, struct lane *l, const struct wan_packet *w);

/* --- for whoever asks. near_status.c --- */

void near_flow_status(const struct proxy *p, const struct near_flow *f, struct proxy_flow_status *s);
void near_flow_facts(const struct proxy *p, const struct near_flow *f, struct flow_facts *s);

/* --- time, sessions, restart --- */

/* A timer of the flow (TK_PATIENCE, TK_RETIRE, TK_DRAIN, TK_RESP_PACE, TK_LIVENESS, TK_FAIL, TK_TURN) has run out. May
 * close the flow. */
void near_on_timer(struct proxy *p, struct near_flow *f, enum timer_kind kind);
/* Everything that is not settled is sent again. */
void near_session_start(struct proxy *p, struct near_flow *f);
/* Flows from their descriptors. */
void near_rebuild(struct proxy *p);
/* A request below pos_settled, found in the arena: its operation was answered, and is kept. */
void near_ops_adopt(struct proxy *p, struct near_flow *f, uint32_t slot);
/* A response found in the arena, after near_rebuild_finish(): it is freed unless its operation waits for it. */
void near_resp_adopt(struct proxy *p, uint32_t slot);
/* And from their slots, after these have been counted (held_bytes; ooo_pkts: all of them). */
void near_rebuild_finish(struct proxy *p);
/* What comes next of the flow was damaged in the arena, and may have been ACKed. */
void near_damaged(struct proxy *p, struct near_flow *f);

#endif
