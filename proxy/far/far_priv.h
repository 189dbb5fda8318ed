/* SPDX-License-Identifier: Apache-2.0 */
/* far_priv.h - interface between the files of the far role. Only far*.c and pair.c include it.
 *
 * far.c (table, life) -> far_rx.c (from the WAN) -> far_tx.c (to the host) -> far_answer.c and far_read.c (its answers)
 * -> far_report.c (to the near edge) -> far_rebuild.c (descriptors, and a flow after a restart). */
#ifndef PROXY_FAR_PRIV_H
#define PROXY_FAR_PRIV_H

#include "far.h"

#define POS_NEVER POS_END /* of a lowest position: there is none yet */

/* --- life: far_state.c --- */

/* True if a flow may go from one state to the other. */
bool far_may_become(enum far_state from, enum far_state to);
/* The flow enters that state: enters or leaves the indexes by peer_flow (FAR_NAMED) and by key (FAR_KEYED), which are set
 * before; a failed flow is not retried. Slots, lists and the descriptor are the caller's. A step that far_may_become()
 * forbids is a fault of this program: the simulator ends there. */
void far_become(struct proxy *p, struct far_flow *f, enum far_state to);

/* --- table: far.c --- */

/* Makes place idx an empty flow (FAR_FREE). */
void far_flow_init(struct proxy *p, struct far_flow *f, uint32_t idx);
/* Lets the flow begin at pos: nothing before pos is sent, acked or awaited. */
void far_begin_at(struct proxy *p, struct far_flow *f, uint64_t pos);
/* Returns the flow of that incarnation, and makes it if there is none. NULL: the incarnation is stale, or the table is
 * full (then *full). */
struct far_flow *far_flow_for(struct proxy *p, struct lane *l, uint32_t peer_flow, uint32_t inc, bool *full);
/* The flow's FLOW_OPEN found no place. As it has arrived it is not repaired: it is asked for at once when a packet
 * makes the flow. */
void far_open_refused(struct proxy *p, uint32_t peer_flow, uint32_t inc);
/* Forgets the flow and all that it holds. Raises no event: the caller does so before, if one is due. */
void far_close(struct proxy *p, struct far_flow *f);
/* Gives back the slots of all requests, in the next ticks. */
void far_free_requests(struct proxy *p, struct far_flow *f);
/* The next tick goes on with the flow (far_work()). */
static inline void far_work_later(struct proxy *p, struct far_flow *f)
{
	dlist_append_once(&p->far_work, &f->work_node);
}

/* --- after the near edge: far_stale.c --- */

/* Called when the near edge has lost its arena: makes the flow a stale flow, which delivers the requests that came
 * before. False: no request is left to deliver, and the caller closes the flow. */
bool far_stale(struct proxy *p, struct far_flow *f);
/* Called when the stale flow has failed with so many bytes, and an event told so. The timer of the flow closes it: at
 * once, but not within this call; or after a round trip, if its responder refused. */
void far_stale_failed(struct proxy *p, struct far_flow *f, uint64_t bytes);
/* Called whenever the stale flow's timer runs out. True: the flow has ended, and was closed or will be in the next
 * ticks. */
bool far_stale_over(struct proxy *p, struct far_flow *f);
/* Called when the stale flow is closed: the flow that waited for it may send. */
void far_stale_forgotten(struct proxy *p, const struct far_flow *stale_epoch);
/* Called when a flow has opened: the flow waits if there is a stale flow of the same queue pair. */
void far_stale_first(struct proxy *p, struct far_flow *f);

/* --- requests ACKed and lost: far_lost.c --- */

/* True if the near edge has lost its arena and may have ACKed more of the flow than came here. */
bool far_lost_may_owe(const struct proxy *p, const struct far_flow *f);
/* Raises an event about the flow, and notes where it has ended. */
void far_lost_note(struct proxy *p, const struct far_flow *f);
/* Called when the responder waits for pos, below the flow's base: if a lost incarnation ended there, f waits for
 * pos. */
void far_lost_look(struct proxy *p, struct far_flow *f, uint64_t pos);
/* Called when f has opened: if an incarnation before waited for a lost PSN, f waits for that PSN, too. */
void far_lost_successor(struct proxy *p, struct far_flow *f);
/* Called when the responder expects a packet that the near edge sends: no packet is missing. */
void far_lost_over(struct proxy *p, struct far_flow *f);
/* True if the flow has just failed, because the lost packet did not come. Called from far_ask(). */
bool far_lost_failed(struct proxy *p, struct far_flow *f);

/* --- in order: far_rx.c --- */

/* Moves pos_rx over what is committed and contiguous. */
void far_advance_rx(struct proxy *p, struct far_flow *f);
/* Learns the READ's length in PSNs from its first response: from the payload of a FIRST, or 1 from an ONLY. */
void far_learn_from_response(struct proxy *p, struct far_flow *f, const struct roce_pkt *pkt);
/* Frees the slots of packets below the base, once base_fixed. */
void far_drop_below_base(struct proxy *p, struct far_flow *f);

/* --- retries: far_tx.c --- */

/* How long the responder is given to answer: LanTimeout, or as long as it was seen to take (RFC 6298), up to 25 times
 * LanTimeout. */
uint64_t far_answer_ns(const struct proxy *p, const struct far_flow *f);
/* Starts the retry timer: far_answer_ns(), doubled with each retry. */
void far_arm_rto(struct proxy *p, struct far_flow *f);
/* Ends the measurement of the responder's time if the measured packet is acked. RFC 6298 2. */
void far_rtt_end(const struct proxy *p, struct far_flow *f);
/* Sends again from pos on, but no packet that is acked. */
void far_go_back(struct proxy *p, struct far_flow *f, uint64_t pos);
/* Called when the packet at pos_acked was lost: halves the flow's window, once per window sent, and the host's. */
void far_on_loss(struct proxy *p, struct far_flow *f);

/* --- answers: far_answer.c --- */

/* Called when the responder has everything before `upto`: stores the descriptor, then frees slots. Later ticks do what
 * this call has no work left for. */
void far_settle(struct proxy *p, struct far_flow *f, uint64_t upto);
/* Called when the responder refused at pos, or (syndrome 0) will never answer: the flow fails, and the near edge is
 * told. */
void far_fail(struct proxy *p, struct far_flow *f, uint64_t pos, uint8_t syndrome);
/* Called when the packet at lost_pos did not come: the flow fails, with `bytes` as an estimate of the lost bytes. */
void far_fail_lost(struct proxy *p, struct far_flow *f, uint64_t bytes);
#define TAG_OF_ANOTHER UINT32_MAX /* far_flow.replaced_by after a restart, which keeps no tags */

/* True if CM has opened another connection of the flow's responder's queue pair. */
static inline bool far_is_replaced(const struct far_flow *f)
{
	return f->replaced_by && f->replaced_by != f->cm_tag;
}
/* Fails the flow if CM has opened another connection of its responder's queue pair and requests are here or (comes) one
 * arrives. A CM set-up repeated after a restart names the flow's own connection, and does not count. True: the flow has
 * failed. */
bool far_look_replaced(struct proxy *p, struct far_flow *f, bool comes);

/* --- READ and ATOMIC: far_read.c --- */

/* Called when a request that needs its own response goes to the host, for the first time or again. The caller has
 * checked rd_op_left(). */
void far_op_begin(struct proxy *p, struct far_flow *f, const struct slot_hdr *h);
/* The oldest operation without all of its responses, NULL if there is none. */
struct rd_op *far_first_op(const struct far_flow *f);
/* Returns how far an ACK of everything before `upto` counts: up to the first READ or ATOMIC without a response. */
uint64_t far_stop_at_op(struct proxy *p, struct far_flow *f, uint64_t upto);
/* Forgets all operations. */
void far_free_ops(struct proxy *p, struct far_flow *f);
/* Takes a READ response or ATOMIC acknowledge of the host. */
enum proxy_drop far_rx_response(struct proxy *p, struct far_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                                uint16_t vlan_tci);

/* Builds a READ for a part of one of the host's. The READ looks like the host's own packets (f->requester_hdr). */
size_t far_build_read(const struct far_flow *f, uint64_t pos, uint64_t va, uint32_t rkey, uint32_t len,
                      struct lan_tx *tx);
/* The first READ is to be sent again for its missing responses alone: by the timer, once in OP_AGAIN_QUIET_NS; or now,
 * as far as the near edge's credit allows. False: the first operation cannot be sent in part. */
void far_part_later(struct proxy *p, struct far_flow *f);
bool far_part_now(struct proxy *p, struct far_flow *f);
/* rxe is asked from that position, and answers nothing before it of that READ any more (rd_op_ask_from()): whatever else
 * is asked of the READ begins there too. */
void far_asked_from(struct far_flow *f, uint64_t from);
/* The host of rxe has asked from that position, and so has everything before, from an earlier life of this edge. rxe may
 * have been asked from there, too. */
void far_host_asks_from(struct proxy *p, struct far_flow *f, uint64_t from);
/* True if the first READ waits until the near edge has room for its next response. */
bool far_awaits_credit(const struct far_flow *f);
/* A new session: the near edge's credit is not known. */
void far_credit_session_start(struct proxy *p, struct far_flow *f);
/* The READ for the missing part into tx; 0: not now. Its length: FAR_PART_LEN. */
#define FAR_PART_LEN 100
size_t far_part_tx(struct proxy *p, struct far_flow *f, struct lan_tx *tx);
/* Commits a response and sends it to the near edge; true also if it is on its way already. False: no room. `urgent`:
 * may use the pool's reserve. */
bool far_keep_response(struct proxy *p, struct far_flow *f, const uint8_t *l3, const struct roce_pkt *pkt, uint64_t pos,
                       uint16_t vlan_tci, bool urgent);

/* --- READ_AGAIN of the near edge: far_again.c --- */

/* The oldest READ that is to go to the responder once more, NULL if there is none; true if there is one; and the READ
 * into tx, returns its L3 length. */
struct rd_op *far_again_first_due(const struct far_flow *f);
static inline bool far_again_due(const struct far_flow *f)
{
	return f->nagains && far_again_first_due(f);
}
size_t far_again_tx(struct proxy *p, struct far_flow *f, struct lan_tx *tx);
/* Takes a response at pos to a READ that is read again. False: it belongs to none of these. */
bool far_again_rx(struct proxy *p, struct far_flow *f, const uint8_t *l3, const struct roce_pkt *pkt, uint64_t pos,
                  uint16_t vlan_tci);
/* far_asked_from() for READs that are read again. */
void far_agains_from(struct far_flow *f, uint64_t from);
/* Forgets READs that are read again: those without progress for AGAIN_NS; all. */
void far_again_expire(struct proxy *p, struct far_flow *f);
void far_again_free(struct proxy *p, struct far_flow *f);

/* --- marks on responses: far_cnp.c --- */

/* Called when the READ or ATOMIC in that slot goes to the responder: notes the header fields of the requester's packets
 * (f->requester_hdr). */
void far_cnp_learn(const struct proxy *p, struct far_flow *f, uint32_t slot);
/* Called when a response came with CE: a CNP to the responder is due. */
void far_cnp_due(struct proxy *p, struct far_flow *f);

/* --- room for others: far_evict.c --- */

/* If the pool runs low: makes flows that drain nothing give up packets beyond their minimum, some at a time. */
void far_evict_for(struct proxy *p);
/* Makes room for the packet that the flow needs next: gives up its highest packets beyond a gap. False: it has none. */
bool far_evict_own(struct proxy *p, struct far_flow *f);

/* --- what survives: far_rebuild.c --- */

/* Writes the flow's descriptor. Call it before a slot is freed that the descriptor makes superfluous, and before the
 * near edge is told. */
void far_store(struct proxy *p, const struct far_flow *f);

/* A packet that looks like the requester's own. The caller sets the fields that the opcode needs. */
static inline struct roce_pkt far_as_requester(const struct far_flow *f, uint8_t opcode)
{
	return (struct roce_pkt){
	    .src = f->src,
	    .dst = f->dst,
	    .ip6 = !ip_addr_is4(&f->src),
	    .tos = f->requester_hdr.tos,
	    .ttl = 64,
	    .udp_sport = f->requester_hdr.sport,
	    .opcode = opcode,
	    .migreq = f->requester_hdr.migreq,
	    .pkey = f->requester_hdr.pkey,
	    .dest_qpn = f->dest_qpn,
	};
}

/* --- far_status.c --- */

/* Called before the flow is forgotten: adds it to the history of flows that have ended. */
void far_note_end(struct proxy *p, const struct far_flow *f);

#endif
