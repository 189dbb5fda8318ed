/* SPDX-License-Identifier: Apache-2.0 */
/* near_priv.h - interface between the files of the near role, in the order of a request's way. Only near*.c and
 * ack_tx.c include it. */
#ifndef PROXY_NEAR_PRIV_H
#define PROXY_NEAR_PRIV_H

#include "near.h"

#define HELD_OOO_MAX       (4 * PATIENCE_PKTS) /* positions past a gap that may be held */
#define BASE_REACH         4096                /* how far below the first packet seen an overtaken one may lie */
#define HELD_SPAN          (2 * BASE_REACH + HELD_OOO_MAX) /* from the base to the last slot, holes included */
#define DRAIN_STALL_NS     150000000ull /* a replaced flow fails after its responder was silent for so long */
#define DRAIN_LOOK_NS      10000000ull  /* a replaced flow is checked each time this and two round trips have passed */
#define FORSAKEN_NS        5000000000ull       /* longer than hosts wait between two repetitions */
#define LOSS_FETCHED_NS    100000000ull /* the daemon records a failure sooner, on a busy machine too */

/* --- places: near_table.c --- */

/* f->requester_qpn was set: by one answer (PAIR_PROVISIONAL) or for certain (PAIR_CONFIRMED). A queue pair has one
 * connection, so of two flows from one QPN of a host the older one is superseded once the younger one is confirmed.
 * Requests of the superseded flow that were ACKed are still delivered. The host of the superseded flow gets no packet
 * for it any more: the QPN may belong to another queue pair by now, and the PSNs would be wrong there. The table of
 * requesters forgets a superseded flow, so that the cost does not grow with the connections of a QPN. */
enum { UNCERTAIN_MOST = 16 }; /* flows of one QPN beside another that one answer has paired: the rest is superseded */
void near_requester_enter(struct proxy *p, struct near_flow *f);
void near_requester_leave(struct proxy *p, struct near_flow *f);
/* The flow that uses the requester's QPN now, as far as this edge has seen. */
enum requester_owner {
	REQUESTER_ITS_OWN,
	REQUESTER_YOUNGER,   /* the QPN was seen in a younger connection between the same hosts */
	REQUESTER_ELSEWHERE, /* the QPN was seen in a connection with another host that is younger, or was used since
	                        the flow failed; or the QPN has more flows than are looked at */
};

enum requester_owner near_requester_owner(struct proxy *p, const struct near_flow *f);
/* Makes place idx an empty flow (NEAR_FREE): lists and timers initialised, retries as configured. */
void near_flow_init(struct proxy *p, struct near_flow *f, uint32_t idx);
/* Takes a place for a new flow of that source, with a new incarnation, not in the table of keys yet; may close an idle
 * flow for it. paired: CM has told its pair. NULL: the table, or the share of unpaired flows, is full of busy flows. */
struct near_flow *near_flow_take(struct proxy *p, const struct ip_addr *src, uint16_t lane, bool paired);

/* The flow of that wire id and incarnation; NULL: none (dropped and counted). */
struct near_flow *near_by_id(struct proxy *p, uint32_t flow, uint32_t inc);

/* --- flows without a pair: near_unpaired.c --- */

/* Called when f->src is set: counts the flow from here on, as unpaired or as paired. */
void near_unpaired_enter(struct proxy *p, struct near_flow *f);
/* Called when the flow has got its pair. */
void near_unpaired_over(struct proxy *p, struct near_flow *f, enum flow_pairing pairing);
/* Called when the flow ends. */
void near_unpaired_leave(struct proxy *p, struct near_flow *f);
/* Called when the flow's host has sent a packet. */
void near_unpaired_seen(struct proxy *p, struct near_flow *f);
/* True if one more unpaired flow of that source may be opened; a quiet flow may have been closed for it. */
bool near_unpaired_admit(struct proxy *p, const struct ip_addr *src);
/* Called when the flow's responder has not answered until GiveUp: the responder is not expected to answer any more. */
void near_unpaired_given_up(struct proxy *p, struct near_flow *f);
/* True if a younger flow between the flow's hosts has no pair yet, and was not given up. */
bool near_unpaired_younger(struct proxy *p, const struct near_flow *f);
/* Closes the quietest unpaired flow of the source that has most. False: that flow is not quiet. */
bool near_unpaired_evict(struct proxy *p);
/* True if the unpaired flow may hold so many slot bytes more. */
bool near_unpaired_may_hold(const struct proxy *p, const struct near_flow *f, uint32_t bytes);

/* --- lives: near.c --- */

/* Lets the flow begin at pos, with nothing taken, ACKed or sent. */
void near_set_base(struct near_flow *f, uint64_t pos);
/* Opens a flow that begins at this packet, and enters it into the table. NULL: the table is full. */
struct near_flow *near_open(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci);
/* Replaces `old` after a reset of the host's QP: `old` drains, and a new flow that begins at psn (24 bits) takes its
 * key. NULL: the table is full. */
struct near_flow *near_succeed(struct proxy *p, struct near_flow *old, uint32_t psn, uint16_t vlan_tci);
/* Like near_succeed(), but the host perhaps only repeats what it sent from psn on: the responder's answer decides.
 * rest: the packet at psn asks for the rest of a READ. NULL: table full. */
struct near_flow *near_succeed_in_doubt(struct proxy *p, struct near_flow *old, uint32_t psn, uint16_t vlan_tci,
                                        bool rest);
/* Links f as the incarnation after `older`, which drains. The far edge is told to forget `older` before it hears of
 * f. */
static inline void near_link_lives(const struct proxy *p, struct near_flow *older, struct near_flow *f)
{
	older->newer = f;
	f->older = older;
	f->replaces = true;
	f->replaced_flow = near_wire_id(p, older);
	f->replaced_inc = older->inc;
}
/* True if the responder has all that was ACKed to the host, or the flow has failed. */
static inline bool near_acked_is_delivered(const struct near_flow *f)
{
	return f->state == NEAR_FAILED || f->pos_acked <= f->pos_reported;
}
/* Forgets the flow and all that it holds; tells the far edge, and the incarnation after it may begin to send. */
void near_close(struct proxy *p, struct near_flow *f);
/* Gives back all slots and operations of the flow. */
void near_free_slots(struct proxy *p, struct near_flow *f);

/* --- what a packet is in its flow --- */

/* True if a message may begin with the packet; an unknown opcode may be anything. */
static inline bool near_starts_message(const struct roce_pkt *pkt)
{
	return pkt->class == ROCE_RC_UNKNOWN || (roce_op(pkt->opcode)->flags & ROP_START);
}

/* True if the opcode may follow op_last. The responder would refuse any other, and its QP would fail. */
static inline bool near_in_sequence(const struct near_flow *f, uint8_t opcode)
{
	return !f->op_known || roce_may_follow(f->op_last, opcode);
}

/* --- another life? near_reset.c --- */

enum reset_verdict {
	RESET_NO,        /* the packet belongs to the known incarnation */
	RESET_YES,       /* the host has reset its QP */
	RESET_SUSPECTED, /* the packet is neither taken nor answered until more is known */
};
/* The packet at pos, below pos_next, has the fingerprint of the packet that was there. True if it can only be a
 * repetition and may be answered from memory. False: a new incarnation may begin with the same bytes, and the responder
 * must decide. */
bool near_surely_again(const struct proxy *p, const struct near_flow *f, uint64_t pos);
/* Notes that the packet at pos can only belong to the known incarnation. */
static inline void near_alive(const struct proxy *p, struct near_flow *f, uint64_t pos)
{
	f->alive_ns = p->now_ns;
	f->reset.lost_count_ns = 0;
	f->alive_pos = pos;
}
/* Suspects a reset of the QP: no packet is taken and no answer sent until the suspicion is decided. */
void near_reset_wait(const struct proxy *p, struct near_flow *f, uint64_t pos, uint32_t fp);
/* Judges a packet at pos, below pos_next, that differs from the packet that was there. */
enum reset_verdict near_reset_below(struct proxy *p, struct near_flow *f, uint64_t pos, uint32_t fp);
/* Judges a packet beyond pos_next, or further from pos_next than FLOW_SPAN_MAX on either side. */
enum reset_verdict near_reset_ahead(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos,
                                    uint32_t fp);
/* Counts a packet at pos_next whose opcode cannot follow op_last. True if the host has sent the packet in several
 * rounds: the host is not wrong for a moment only, and needs an answer. */
bool near_reset_wrong_opcode(struct proxy *p, struct near_flow *f, uint32_t fp);
/* True if the first of these rounds came so soon after the last packet in order that it cannot begin a new
 * incarnation. */
bool near_reset_too_soon(const struct near_flow *f);
/* True if a packet out of order came lately that is known one position lower: its host has lost count, and begins no
 * new incarnation. */
bool near_reset_lost_count(const struct proxy *p, const struct near_flow *f);
/* True if the first packet of the flow came longer ago than one packet overtakes another. Then the packet that comes
 * now was not overtaken: the host repeats, or its QP was reset. */
bool near_reset_goes_back(const struct proxy *p, const struct near_flow *f);
/* True if the host of an unpaired flow has been silent for so long, now or before, that its QP may have been reset.
 * Then the responder's answer that came just now may be of the next incarnation. */
bool near_reset_is_possible(const struct proxy *p, const struct near_flow *f);
/* Called when a packet of an unpaired flow came: notes whether silent_ns was long enough for a reset of the QP. */
void near_reset_note_silence(struct near_flow *f);
/* Called when the host has come back to pos_next or below: the known incarnation is alive. */
static inline void near_reset_came_back(struct near_flow *f)
{
	f->reset.ahead.n = 0;
}
/* Judges any packet that comes while f->reset.suspected. */
enum reset_verdict near_reset_judge(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos,
                                    uint32_t fp);

/* --- taking: near_take.c --- */

/* True if a packet of len bytes may have a slot: by the flow's fair share of what is free, and its span of PSNs. */
bool near_admit(const struct proxy *p, const struct near_flow *f, uint16_t len);
/* Commits the packet at pos. SLOT_NONE: no room. */
uint32_t near_commit(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt, uint64_t pos,
                     uint32_t psns, uint32_t fp, uint16_t vlan_tci);
/* Gives up the packet in that slot, held beyond a gap. The packet was not ACKed, so its host sends it again. */
void near_drop_held(struct proxy *p, struct near_flow *f, uint32_t slot);
/* Gives up packets held in [from, upto): a READ owns these positions. */
void near_drop_inside(struct proxy *p, struct near_flow *f, uint64_t from, uint64_t upto);
/* True if the packet held at pos_next may ask for the rest of the READ before it. */
bool near_held_may_be_rest(struct proxy *p, const struct near_flow *f, uint32_t slot);
/* Counts the committed slot at pos_next as in order, and moves pos_next behind it. */
void near_in_order(struct proxy *p, struct near_flow *f, uint32_t slot);
/* Sends the host an RNR NAK; no_room: and before its first one a CNP. */
void near_send_away(struct proxy *p, struct near_flow *f, bool no_room);
/* Takes the held packets that are in order from pos_next on. */
void near_absorb_held(struct proxy *p, struct near_flow *f);
/* Takes the expected packet, whose opcode may follow op_last (near_in_sequence()), with the held packets behind it; or
 * has an RNR NAK sent to its host. */
enum proxy_drop near_take_next(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                               uint16_t vlan_tci, uint32_t fp);

/* --- gaps: near_rx.c --- */

/* Called when the patience with a gap is over: schedules one NAK for pos_next (IBTA 9.7.5.1.1), if the host may be sent
 * one. */
void near_nak_gap(struct proxy *p, struct near_flow *f);
/* Calls near_nak_gap() if there is a gap that was not NAKed. */
void near_gap_look(struct proxy *p, struct near_flow *f);

/* --- operations: near_read.c --- */

/* The operation that owns pos, open or kept; NULL if there is none. */
struct rd_op *near_op_at(const struct near_flow *f, uint64_t pos);
/* The oldest operation whose responses are owed to the host, again or for the first time; NULL: none. */
struct rd_op *near_op_due(const struct near_flow *f);
/* A new record, not in the flow's list yet. NULL: the flow, or the shard, has too many. */
struct rd_op *near_op_new(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t psns,
                          uint32_t msn, uint32_t fp, enum rd_op_use use);
/* Inserts op into f->ops, in order of positions. */
void near_op_insert(struct near_flow *f, struct rd_op *op);
/* Makes the operation of a READ, ATOMIC or unknown request at pos that is about to be taken. msn: relative MSN with the
 * operation counted. False: too many operations. */
bool near_op_begin(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t psns,
                   uint32_t msn, uint32_t fp, enum rd_op_use use);
/* The READ in that slot is in order now. Sets op->psns by the PMTU, which may have been unknown when the READ was held;
 * sets psns_unknown if the PMTU still is. */
void near_op_measure(struct proxy *p, struct near_flow *f, struct rd_op *op, uint32_t slot);
/* Makes the operation of the request in that slot, at pos_next. The request has a slot but no record: it was held
 * beyond a gap, or the edge has restarted. False: too many operations. */
bool near_op_begin_held(struct proxy *p, struct near_flow *f, uint32_t slot, enum rd_op_use use);
/* Marks an operation that began before a restart of this edge: the edge does not know how much of the answer the host
 * was given. */
static inline void near_op_resume(struct rd_op *op)
{
	op->resumed = true;
}
/* Takes back near_op_begin(): there is no room for the request at pos. */
void near_op_unbegin(struct proxy *p, struct near_flow *f, uint64_t pos);
/* Called when the host was given all responses of op. */
void near_op_given(struct proxy *p, struct near_flow *f, struct rd_op *op);
/* The host asks again for the operation at pos. True if the request was answered or will be; false: the packet is
 * another request. */
bool near_op_again(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t fp);
/* Called when the host repeats the request at pos after later ones. A host repeats from the oldest request that it lacks
 * an answer of. So where a row of repetitions begins, the host has all answers before: earlier operations that are owed
 * again count as given, and do not hold back ACKs. */
void near_row_begins(struct proxy *p, struct near_flow *f, uint64_t pos);
/* True if the packet, at pos, asks for the rest of a READ that is open or kept. */
bool near_op_is_rest(const struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos);
/* True if the packet, at pos_next or beyond, may ask for the rest of the last READ, whose length in PSNs is not
 * known. */
bool near_op_may_be_rest(const struct near_flow *f, const struct roce_pkt *pkt);
/* Sets the length of the last READ, which was not known, to psns PSNs. */
void near_set_psns(struct proxy *p, struct near_flow *f, uint32_t psns);
/* Sets the flow's PMTU, in bytes: 256, 512, 1024, 2048 or 4096. */
void near_learn_pmtu(struct proxy *p, struct near_flow *f, uint16_t pmtu);

/* --- answers that are kept: near_keep.c --- */

/* Forgets op: frees its record, and the slot of its request if that slot is below pos_freed. */
void near_op_free(struct proxy *p, struct near_flow *f, struct rd_op *op);

/* Forgets operations that were answered and kept for long enough, with their answers. all: every operation, also open
 * ones. */
void near_ops_retire(struct proxy *p, struct near_flow *f, bool all);
/* Counts one more answered operation that the host is owed again. It ends, at the latest, some time after the host has
 * last asked and the responder has last answered. */
void near_repeat_begins(struct proxy *p, struct near_flow *f);
/* Lets the host have the answer that is due, if it is here: one before it has ended. */
void near_next_answer(struct proxy *p, struct near_flow *f);
/* The slot of the response at pos, committed or still coming; SLOT_NONE. */
uint32_t near_resp_find(struct proxy *p, const struct near_flow *f, uint64_t pos);
/* True if the response at pos is here, whole. */
bool near_resp_at_hand(struct proxy *p, const struct near_flow *f, uint64_t pos);
/* True if the host still waits for the response at pos of op. An earlier operation may be owed first. */
static inline bool near_resp_awaited(const struct rd_op *op, uint64_t pos)
{
	return op->due && pos >= op->next;
}
/* Called when a slot for a response of the flow was taken. */
void near_resp_taken(struct proxy *p, struct near_flow *f, uint32_t slot);
/* Takes from a committed response the PMTU, or the length of the READ in front of pos_next, if the flow lacks one of
 * them. */
void near_resp_tells(struct proxy *p, struct near_flow *f, uint32_t slot);
/* Frees the slot of a response; the host need not have been given it. */
void near_resp_drop(struct proxy *p, struct near_flow *f, uint32_t slot);
/* Like near_resp_drop(), for a response of the READ op, which can be read again. */
void near_resp_drop_reread(struct proxy *p, struct near_flow *f, struct rd_op *op, uint32_t slot);
/* Called when the host was given the response of a READ: the slot counts as free, and stays while no packet needs
 * it. */
void near_resp_given(struct proxy *p, struct near_flow *f, uint32_t slot);
/* Frees a READ's response beyond pos, to make room for the response at pos: the freed one can be read again. False:
 * there is none. */
bool near_resp_evict(struct proxy *p, struct near_flow *f, uint64_t pos);

/* --- read again: near_again.c --- */

/* If the response at op->next was here and is not any more, asks the responder for it again. */
void near_again_look(struct proxy *p, struct near_flow *f, struct rd_op *op);
/* Called when the host has asked for a response that is not here: tells the far edge from where, by READ_AGAIN, if that
 * edge waits for the response and its responder is rxe. */
void near_again_tell(struct proxy *p, struct near_flow *f, struct rd_op *op);
/* Called when the operation is over, or forgotten. */
void near_again_end(struct near_flow *f, struct rd_op *op);

/* --- is its responder alive? near_ceiling.c --- */

/* True while no request may be ACKed early, because the responder is silent or makes no progress. */
bool near_demoted(const struct proxy *p, const struct near_flow *f);
/* Called when the responder was heard, or begins to owe an answer: the time until near_demoted() runs from here. */
void near_liveness_seen(struct proxy *p, struct near_flow *f);
/* Raises an event if near_demoted() has changed. */
void near_demotion_look(struct proxy *p, struct near_flow *f);
void near_liveness_on_timer(struct proxy *p, struct near_flow *f);

/* --- room for answers: near_reserve.c --- */

/* Reserves room for the responses of the request at pos, which is about to cross. False: there is no room, and
 * near_wan_schedule() is called for the flow when there is. */
bool near_reserve_take(struct proxy *p, struct near_flow *f, uint64_t pos);
/* True if the flow may cross without room: the first that waits, if no other did so within WAIT_MAX_NS and the line is
 * heard; or one whose host gives up. */
bool near_reserve_waited_enough(const struct proxy *p, const struct near_flow *f);
/* Returns for how many responses of one operation room is reserved at most. */
uint32_t near_reserve_most(const struct proxy *p, const struct near_flow *f, const struct rd_op *op);
/* Called when a response of op has come. True: room was reserved for the response. */
bool near_reserve_use(struct proxy *p, struct near_flow *f, struct rd_op *op);
/* Called when the host was given a response of op: if op is `windowed`, reserves room for one more. */
void near_reserve_renew(struct proxy *p, struct near_flow *f, struct rd_op *op);
/* Reserves room for n responses of op that are to be read again, as far as there is room now, but at least for one.
 * Returns the number of responses. */
uint32_t near_reserve_again(struct proxy *p, struct near_flow *f, struct rd_op *op, uint32_t n);
/* Called when no more responses of op come: gives back its room. */
void near_reserve_end(struct proxy *p, struct near_flow *f, struct rd_op *op);
/* Called when op->psns or the PMTU has become known: reserves room for as many responses as come. */
void near_reserve_resize(struct proxy *p, struct near_flow *f, struct rd_op *op);
/* Called when the flow ends, or its responder is silent: gives back all the room reserved for the flow. */
void near_reserve_leave(struct proxy *p, struct near_flow *f);
/* Called when some of POOL_WAN was freed. */
void near_reserve_freed(struct proxy *p);

/* --- room for the responses of a large READ, told to the far edge: near_credit.c --- */

/* Schedules a RESP_CREDIT if the credit differs enough from the last one sent. */
void near_credit_look(struct proxy *p, struct near_flow *f);
/* Called when op->next has moved: the host was given more responses, or is owed them again. */
void near_credit_moved(struct proxy *p, struct near_flow *f, const struct rd_op *op);
/* Called when the response at pos lies beyond the window: schedules RESP_CREDIT again if the far edge should know the
 * credit by now. */
void near_credit_exceeded(struct proxy *p, struct near_flow *f, uint64_t pos);
/* Fills in the fields of RESP_CREDIT, and notes that the frame was put into a datagram. */
void near_credit_frame(struct proxy *p, struct near_flow *f, struct wan_resp_credit *c);
void near_credit_sent(struct proxy *p, struct near_flow *f, const struct wan_resp_credit *c);
/* A new session begins: the far edge knows no credit of the flow. */
void near_credit_session_start(struct proxy *p, struct near_flow *f);

/* --- turns of hosts that were sent away: near_turn.c --- */

/* Books a turn for the flow's host, which is sent away for want of room, unless the flow has a turn or is stuck
 * (near_turn_stuck()). Returns the ns until the turn, or until a stuck flow's host is to ask again; 0: turns are not in
 * force, or the host may come at once. */
uint64_t near_turn_book(struct proxy *p, struct near_flow *f);
/* Called when a packet of len bytes was taken from the flow's host, which may have been away: a booked turn is over. */
void near_turn_took(struct proxy *p, struct near_flow *f, uint16_t len);
/* Called when an RNR NAK has told the host to come back after for_ns. */
void near_turn_away(struct proxy *p, struct near_flow *f, uint64_t for_ns);
/* Cancels a booked turn: the host came back, the flow ends, or the host is not waited for any more. */
void near_turn_leave(struct proxy *p, struct near_flow *f);
/* True if the host came back before its turn and the buffer has not run low. */
bool near_turn_comes_early(const struct proxy *p, const struct near_flow *f);
/* The quantum: slot bytes that a flow may take in its turn. 0: turns are not in force, shares decide (share.c). */
uint64_t near_turn_quantum_now(const struct proxy *p);
static inline uint64_t near_turn_quantum(const struct proxy *p)
{
	bool none_away = p->now_ns >= p->turns.in_force_until_ns && p->turns.away <= 1; /* nearly always */

	return none_away ? 0 : near_turn_quantum_now(p);
}
/* True if none of the bytes that the flow holds has drained in the time in which the whole pool could have. */
bool near_turn_stuck(const struct proxy *p, const struct near_flow *f);
/* True if the quantum decides what the flow may hold. For a flow whose responder takes nothing shares decide. */
static inline bool near_turn_rules(const struct proxy *p, const struct near_flow *f)
{
	return near_turn_quantum(p) && !near_turn_stuck(p, f);
}
/* While near_turn_rules(): true if the flow may hold that many slot bytes more. */
bool near_turn_admits(const struct proxy *p, const struct near_flow *f, uint64_t bytes);
/* True if all flows together drain at least three quarters of what the line can carry. */
bool near_turn_line_full(const struct proxy *p);
/* Slot bytes that each flow may hold however full the pool is: CREDIT_MIN_BYTES, or less, an equal part of half of the
 * pool's reserve, but at least one packet. */
uint64_t near_turn_minimum(const struct proxy *p);
void near_turn_on_timer(struct proxy *p, struct near_flow *f);

/* --- life: near_state.c --- */

/* True if a flow may go from one state to the other. */
bool near_may_become(enum near_state from, enum near_state to);
/* The flow enters that state: counts flows in use, sets or cancels fail_timer. Slots, lists and the descriptor are the
 * caller's. A step that near_may_become() forbids is a fault of this program: the simulator ends there. */
void near_become(struct proxy *p, struct near_flow *f, enum near_state to);

/* --- failures: near_error.c --- */

static inline bool near_is_telling(const struct near_flow *f)
{
	return f->tell >= TELL_TRYING;
}

/* Called when the responder refused the packet at pos, or is silent for good (syndrome 0). */
void near_refused(struct proxy *p, struct near_flow *f, uint64_t pos, uint8_t syndrome);
/* Called when the responder waits for the packet at pos, which was in an arena that this edge has lost. The packet may
 * have been ACKed. */
void near_buffer_lost(struct proxy *p, struct near_flow *f, uint64_t pos);
/* Called when requests that were ACKed, or may have been, will not be delivered: raises a failure. A rebuild raises the
 * failure again while it is fresh. */
void near_loss_raise(struct proxy *p, struct near_flow *f, enum proxy_failure why, uint64_t pos, uint64_t bytes);
/* True if the daemon may not have fetched the failure's event yet. */
bool near_loss_is_fresh(const struct proxy *p, const struct near_flow *f);
/* Called when the flow has failed: its descriptor names the failure until the event was fetched. If the host is to be
 * told, the descriptor is stored again when that is over. */
void near_loss_wait(struct proxy *p, struct near_flow *f);
/* Called when an operation has been answered, perhaps the last one that a refusal waited for. */
void near_fail_if_answered(struct proxy *p, struct near_flow *f);
void near_fail_on_timer(struct proxy *p, struct near_flow *f);

/* Called when the flow has failed, and with it requests that were ACKed: its host is to be told, even if it is idle. */
void near_error_begin(struct proxy *p, struct near_flow *f);
/* near_error_begin() after a restart, for a flow that failed, or was heard last, at failed_ns. If that is more than
 * TELL_MAX_NS ago the host is not told any more, and an event says so. */
void near_error_resume(struct proxy *p, struct near_flow *f, uint64_t failed_ns);
/* Called when the flow is closed: its host is not told any more. */
void near_error_end(struct proxy *p, struct near_flow *f);
/* Called when the host has sent something, so it is not idle: the wait before it is told starts again. */
void near_error_later(struct proxy *p, struct near_flow *f);
void near_error_on_timer(struct proxy *p, struct near_flow *f);

/* --- promises: near_ceiling.c, near_wan.c, near_rebuild.c --- */

/* A response to op carries this MSN: lowers msn_offset if the MSN says so (MSN_LATE). */
void near_count_at_most(struct proxy *p, struct near_flow *f, const struct rd_op *op, uint32_t msn);
/* The msn_offset of a flow in doubt, if it continues the incarnation before. False: that one's MSN is not known, or the
 * flow has not come as far as the position of the hint yet. */
bool near_hinted_offset(const struct proxy *p, const struct near_flow *f, uint32_t *offset);
/* Frees the slots of requests that the responder has, up to the first open operation. */
void near_settle(struct proxy *p, struct near_flow *f);
/* Writes the flow's descriptor. Call it before an ACK that the descriptor must vouch for is sent, and before a slot is
 * freed that the descriptor makes superfluous. */
void near_store(struct proxy *p, struct near_flow *f);

/* --- near_status.c --- */

/* Called before the flow is forgotten: adds it to the history of flows that have ended. */
void near_note_end(struct proxy *p, const struct near_flow *f);
/* Called when the host repeats the packet at pos; f->pos_last_rx is still that of the packet before. */
void near_note_repeat(const struct proxy *p, struct near_flow *f, uint64_t pos);

#endif
