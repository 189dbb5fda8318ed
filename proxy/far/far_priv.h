/* SPDX-License-Identifier: Apache-2.0 */
/* far_priv.h - what the parts of the far role share: far*.c and pair.c.
 *
 * far.c (table, life) -> far_rx.c (from the WAN) -> far_tx.c (to the host) -> far_answer.c and far_read.c (its answers)
 * -> far_report.c (to the near edge) -> far_rebuild.c (what survives). */
#ifndef PROXY_FAR_PRIV_H
#define PROXY_FAR_PRIV_H

#include "far.h"

#define POS_NEVER POS_END /* of a lowest position: there is none yet */

/* --- table and life: far.c --- */

/* Makes place idx an empty flow. */
void far_flow_init(struct proxy *p, struct far_flow *f, uint32_t idx);
/* The flow begins at pos: nothing before it is sent, acked or awaited. */
void far_begin_at(struct proxy *p, struct far_flow *f, uint64_t pos);
/* The flow of that life, made if need be; NULL: stale, or no room (then *full). */
struct far_flow *far_flow_for(struct proxy *p, struct lane *l, uint32_t peer_flow, uint32_t inc, bool *full);
/* Forgets the flow and all that it holds. Silent: who has something to say about it says it before. */
void far_close(struct proxy *p, struct far_flow *f);
/* Gives back the slots of all requests, in the next ticks. */
void far_free_requests(struct proxy *p, struct far_flow *f);
/* Something of the flow is left for the next tick. */
static inline void far_work_later(struct proxy *p, struct far_flow *f)
{
	dlist_append_once(&p->far_work, &f->work_node);
}

/* --- after the near edge: far_stale.c --- */

/* The near edge has lost its arena: the flow goes on for what came before, unknown to the new near edge. False: there
 * is nothing left to deliver, it may go. */
bool far_stale(struct proxy *p, struct far_flow *f);
/* The stale flow has failed with so many bytes, and been told as failed: it is closed when its timer runs out, which is
 * at once, but not in the caller's hands; or after a round trip, if its responder refused. */
void far_stale_failed(struct proxy *p, struct far_flow *f, uint64_t bytes);
/* True if the stale flow has come to its end, and is closed, or will be in the next ticks. To be asked whenever its timer
 * runs out. */
bool far_stale_over(struct proxy *p, struct far_flow *f);
/* The stale flow is closed: the flow that waited for it may send. */
void far_stale_forgotten(struct proxy *p, const struct far_flow *stale_epoch);
/* A flow has opened: it waits if there is a stale flow of the same queue pair. */
void far_stale_first(struct proxy *p, struct far_flow *f);

/* --- what nobody has any more: far_lost.c --- */

/* The near edge has lost its arena, and may have ACKed more of the flow than came here. */
bool far_lost_may_owe(const struct proxy *p, const struct far_flow *f);
/* Names it, and notes where it has ended. */
void far_lost_note(struct proxy *p, const struct far_flow *f);
/* The responder waits for pos, below the beginning of the flow: is it what a lost life had? */
void far_lost_look(struct proxy *p, struct far_flow *f, uint64_t pos);
/* A flow has opened: if a life before it was asked for what is missing, it is, too. */
void far_lost_successor(struct proxy *p, struct far_flow *f);
/* The responder goes on where the near edge does: nothing is missing. */
void far_lost_over(struct proxy *p, struct far_flow *f);
/* True if the flow has just failed, because what is missing did not come. To be asked now and then. */
bool far_lost_failed(struct proxy *p, struct far_flow *f);

/* --- in order: far_rx.c --- */

/* Moves pos_rx over what is committed and contiguous. */
void far_advance_rx(struct proxy *p, struct far_flow *f);
/* A READ's length in PSNs from its first response: FIRST says it by its length, ONLY by being one. */
void far_learn_from_response(struct proxy *p, struct far_flow *f, const struct roce_pkt *pkt);
/* Frees what arrived below the base, once it is known for good. */
void far_drop_below_base(struct proxy *p, struct far_flow *f);

/* --- retries: far_tx.c --- */

/* The retry timer starts anew: as long as the responder was seen to take, doubled with each retry. RFC 6298. */
void far_arm_rto(struct proxy *p, struct far_flow *f);
/* A measurement of the responder ends if its packet is acked. RFC 6298 2. */
void far_rtt_end(const struct proxy *p, struct far_flow *f);
/* Sends again from pos on, but nothing that is acked. */
void far_go_back(struct proxy *p, struct far_flow *f, uint64_t pos);
/* What is at pos_acked was lost: half the window, once per window sent; and that of the host. */
void far_on_loss(struct proxy *p, struct far_flow *f);

/* --- answers: far_answer.c --- */

/* Everything before `upto` is the responder's. Descriptor first, then the slots. The rest follows if it is very much. */
void far_settle(struct proxy *p, struct far_flow *f, uint64_t upto);
/* The responder refused at pos, or (syndrome 0) will never answer: the flow's bytes have failed, loudly. */
void far_fail(struct proxy *p, struct far_flow *f, uint64_t pos, uint8_t syndrome);
/* What was ACKed at lost_pos and behind it is lost, so many bytes as far as can be told. */
void far_fail_lost(struct proxy *p, struct far_flow *f, uint64_t bytes);
/* If CM has opened another connection of its responder's queue pair the flow fails with what is here, or comes. A set-up
 * that is repeated after a restart, which has forgotten the first, names the flow's own connection. True: it has failed. */
bool far_look_replaced(struct proxy *p, struct far_flow *f, bool comes);

/* --- READ and ATOMIC: far_read.c --- */

/* A request that needs its own response goes to the host, for the first time or again. The caller has looked that
 * p->ops_free is not empty. */
void far_op_begin(struct proxy *p, struct far_flow *f, const struct slot_hdr *h);
/* The oldest operation without all of its responses, NULL if there is none. */
struct rd_op *far_first_op(const struct far_flow *f);
/* An ACK of everything before `upto` counts so far: it ends in front of a READ or ATOMIC that has no response. */
uint64_t far_stop_at_op(struct proxy *p, struct far_flow *f, uint64_t upto);
/* Forgets all operations. */
void far_free_ops(struct proxy *p, struct far_flow *f);
/* A READ response or ATOMIC acknowledge of the host. */
enum proxy_drop far_rx_response(struct proxy *p, struct far_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                                uint16_t vlan_tci);

/* A READ that the far edge makes for a part of one of the host's, as the host's own look (f->asks). */
size_t far_build_read(const struct far_flow *f, uint64_t pos, uint64_t va, uint32_t rkey, uint32_t len,
                      struct lan_tx *tx);
/* The first operation is to be sent again for what it lacks, nothing else. Once in OP_AGAIN_QUIET_NS, by the timer. */
void far_part_later(struct proxy *p, struct far_flow *f);
bool far_part_now(struct proxy *p, struct far_flow *f);
/* It waits for the near edge to have room for what is next. */
bool far_awaits_credit(const struct far_flow *f);
/* Nothing is known of that room any more. */
void far_credit_session_start(struct proxy *p, struct far_flow *f);
/* It goes into tx; 0: not now. Its length: FAR_PART_LEN. */
#define FAR_PART_LEN 100
size_t far_part_tx(struct proxy *p, struct far_flow *f, struct lan_tx *tx);
/* Commits a response and sends it on; true also if it is on its way already. False: no room. `urgent`: the reserve of the
 * pool may be used. */
bool far_keep_response(struct proxy *p, struct far_flow *f, const uint8_t *l3, const struct roce_pkt *pkt, uint64_t pos,
                       uint16_t vlan_tci, bool urgent);

/* --- READs of the near edge's: far_again.c --- */

/* One that is to go to the responder; and into tx. Returns its L3 length. */
bool far_again_due(const struct far_flow *f);
size_t far_again_tx(struct proxy *p, struct far_flow *f, struct lan_tx *tx);
/* A response at pos. False: it is none of theirs. */
bool far_again_rx(struct proxy *p, struct far_flow *f, const uint8_t *l3, const struct roce_pkt *pkt, uint64_t pos,
                  uint16_t vlan_tci);
/* Forgets those that have not moved for long; all of them. */
void far_again_expire(struct proxy *p, struct far_flow *f);
void far_again_free(struct proxy *p, struct far_flow *f);

/* --- marks on responses: far_cnp.c --- */

/* The READ or ATOMIC in that slot goes to the responder. */
void far_cnp_learn(const struct proxy *p, struct far_flow *f, uint32_t slot);
/* A response was marked on the responder's LAN. */
void far_cnp_due(struct proxy *p, struct far_flow *f);

/* --- room for others: far_evict.c --- */

/* When the pool runs low: flows that drain nothing give up what they hold beyond their minimum, some at a time. */
void far_evict_for(struct proxy *p);
/* For the packet that the flow needs next: its own highest ones beyond a gap are given up. False: it has none. */
bool far_evict_own(struct proxy *p, struct far_flow *f);

/* --- what survives: far_rebuild.c --- */

/* Writes the flow's descriptor. Before a slot is freed that it makes superfluous, and before the near edge is told. */
void far_store(struct proxy *p, const struct far_flow *f);

/* A packet in the requester's name, as its own ones look: all but what the opcode asks for. */
static inline struct roce_pkt far_as_requester(const struct far_flow *f, uint8_t opcode)
{
	return (struct roce_pkt){
	    .src = f->src,
	    .dst = f->dst,
	    .ip6 = !ip_addr_is4(&f->src),
	    .tos = f->asks.tos,
	    .ttl = 64,
	    .udp_sport = f->asks.sport,
	    .opcode = opcode,
	    .migreq = f->asks.migreq,
	    .pkey = f->asks.pkey,
	    .dest_qpn = f->dest_qpn,
	};
}

/* --- far_status.c --- */

/* The flow is about to be forgotten: it is remembered among those that have ended. */
void far_note_end(struct proxy *p, const struct far_flow *f);

#endif
