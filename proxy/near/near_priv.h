/* SPDX-License-Identifier: Apache-2.0 */
/* near_priv.h - what the parts of the near role share: near*.c and nobody else. In the order of a request's way. */
#ifndef PROXY_NEAR_PRIV_H
#define PROXY_NEAR_PRIV_H

#include "near.h"

#define HELD_OOO_MAX       (4 * PATIENCE_PKTS) /* positions past a gap that may be held */
#define BASE_REACH         4096                /* how far below the first packet seen an overtaken one may lie */
#define HELD_SPAN          (2 * BASE_REACH + HELD_OOO_MAX) /* as far behind the base as that leaves slots, with holes */
#define DRAIN_STALL_NS     150000000ull /* a life that was replaced has failed after such a silence of its responder */
#define DRAIN_LOOK_NS      10000000ull  /* it is looked at so often, and two round trips */
#define FORSAKEN_NS        5000000000ull       /* longer than hosts wait between two repetitions */

/* --- places: near_table.c --- */

/* It is known now which QPN the requester has, by one answer or for certain. A queue pair has one connection: of two
 * flows from one QPN of a host the older one is over (gone), whether or not anybody has said so, once the younger one
 * is certain. What is ACKed of it is still delivered, but to answer in its name would be to answer, with its PSNs, the
 * queue pair that has the number now. */
void near_requester_enter(struct proxy *p, struct near_flow *f);
void near_requester_leave(struct proxy *p, struct near_flow *f);
/* Whose the requester's QPN is, as far as it shows. */
enum requester_owner {
	REQUESTER_ITS_OWN,
	REQUESTER_YOUNGER,   /* it was seen in a younger connection between the same hosts */
	REQUESTER_ELSEWHERE, /* or in one with another host that is younger, or was used since the flow failed; or it has too
	                        many flows to say */
};

enum requester_owner near_requester_owner(struct proxy *p, const struct near_flow *f);
/* Makes place idx an empty flow: lists and timers initialised, retries as configured. */
void near_flow_init(struct proxy *p, struct near_flow *f, uint32_t idx);
/* A place for a new flow of that source, with a new incarnation, not in the table of keys yet; an idle flow may have to
 * go for it. paired: CM has told its pair. NULL: the table, or the share of the unpaired, is full of busy ones. */
struct near_flow *near_flow_take(struct proxy *p, const struct ip_addr *src, uint16_t lane, bool paired);

/* The flow of that wire id and incarnation; NULL: none (dropped and counted). */
struct near_flow *near_by_id(struct proxy *p, uint32_t flow, uint32_t inc);

/* --- those without a pair: near_table.c --- */

/* The flow has got its source, and counts from here on. */
void near_unpaired_enter(struct proxy *p, struct near_flow *f);
/* It has got its pair. */
void near_unpaired_over(struct proxy *p, struct near_flow *f, enum flow_pairing pairing);
/* It ends. */
void near_unpaired_leave(struct proxy *p, struct near_flow *f);
/* Its host spoke. */
void near_unpaired_seen(struct proxy *p, struct near_flow *f);
/* True if one more of that source may be opened; a quiet one may have been forgotten for it. */
bool near_unpaired_admit(struct proxy *p, const struct ip_addr *src);
/* Its responder has not answered until GiveUp, and never will. */
void near_unpaired_given_up(struct proxy *p, struct near_flow *f);
/* True if a younger flow between the flow's hosts has no pair yet, and was not given up. */
bool near_unpaired_younger(struct proxy *p, const struct near_flow *f);
/* Forgets the quietest of all. False: none is quiet. */
bool near_unpaired_evict(struct proxy *p);
/* True if the unpaired flow may hold so many slot bytes more. */
bool near_unpaired_may_hold(const struct proxy *p, const struct near_flow *f, uint32_t bytes);

/* --- lives: near.c --- */

/* The flow begins at pos, with nothing taken, ACKed or sent. */
void near_set_base(struct near_flow *f, uint64_t pos);
/* A flow that begins at this packet, entered into the table. NULL: table full. */
struct near_flow *near_open(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci);
/* The host reset its QP: the flow that is there drains, a new one, which begins at psn (24 bits), takes its place for
 * what comes now. NULL: table full. */
struct near_flow *near_succeed(struct proxy *p, struct near_flow *old, uint32_t psn, uint16_t vlan_tci);
/* The same, but perhaps the host only repeats what it sent from psn on: the responder will tell. rest:
 * psn asks for the rest of a READ. NULL: table full. */
struct near_flow *near_succeed_in_doubt(struct proxy *p, struct near_flow *old, uint32_t psn, uint16_t vlan_tci,
                                        bool rest);
/* f is the life after `older`, which drains, and which the far edge is to forget before it hears of f. */
static inline void near_link_lives(const struct proxy *p, struct near_flow *older, struct near_flow *f)
{
	older->newer = f;
	f->older = older;
	f->replaces = true;
	f->replaced_flow = near_wire_id(p, older);
	f->replaced_inc = older->inc;
}
/* True if the responder has all that was ACKed to the host, or has refused it. */
static inline bool near_kept_its_word(const struct near_flow *f)
{
	return f->failed || f->pos_acked <= f->pos_reported;
}
/* Forgets the flow and all that it holds; the far edge is told, and the life after it may begin to send. */
void near_close(struct proxy *p, struct near_flow *f);
/* Gives back all slots and operations of the flow. */
void near_free_slots(struct proxy *p, struct near_flow *f);

/* --- what a packet is in its flow --- */

/* True if a message may begin with it; an unknown opcode may be anything. */
static inline bool near_starts_message(const struct roce_pkt *pkt)
{
	return pkt->class == ROCE_RC_UNKNOWN || (roce_op(pkt->opcode)->flags & ROP_START);
}

/* Whether the opcode may be the next one: the responder would refuse another, and its QP be lost. */
static inline bool near_in_sequence(const struct near_flow *f, uint8_t opcode)
{
	return !f->op_known || roce_may_follow(f->op_last, opcode);
}

/* --- another life? near_reset.c --- */

enum near_life {
	LIFE_SAME,   /* the packet is of the life that is known */
	LIFE_NEW,    /* the host has reset its QP */
	LIFE_UNSURE, /* it may not count, nor be answered, until more is known */
};
/* The packet at pos, below pos_next, is what was there before, or looks like it. True if it can only be a repetition,
 * and may be answered from memory; false: a new life may begin with the same words, and the responder must decide. */
bool near_surely_again(const struct proxy *p, const struct near_flow *f, uint64_t pos);
/* The packet at pos can only be of the life that is known. */
static inline void near_alive(const struct proxy *p, struct near_flow *f, uint64_t pos)
{
	f->alive_ns = p->now_ns;
	f->reset.lost_count_ns = 0;
	f->alive_pos = pos;
}
/* The QP was perhaps reset: nothing is taken or said from here until that is known. */
void near_reset_wait(const struct proxy *p, struct near_flow *f, uint64_t pos, uint32_t fp);
/* A packet at a place below pos_next that held another one. */
enum near_life near_reset_below(struct proxy *p, struct near_flow *f, uint64_t pos, uint32_t fp);
/* A packet beyond pos_next, or too far from it to be anything. */
enum near_life near_reset_ahead(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos,
                                uint32_t fp);
/* A packet at pos_next whose opcode cannot follow the one before it. True if the host has come with it round after round:
 * it is not confused for a moment, and wants an answer. */
bool near_reset_wrong_opcode(struct proxy *p, struct near_flow *f, uint32_t fp);
/* The first of these rounds came soon after the last packet that was in order: no other life begins there by then. */
bool near_reset_too_soon(const struct near_flow *f);
/* A packet out of order that came lately is known one place lower: its host has lost count, and begins no life. */
bool near_reset_lost_count(const struct proxy *p, const struct near_flow *f);
/* The host has come back to pos_next or below: it is the life that is known. */
void near_reset_came_back(struct near_flow *f);
/* Any packet while f->reset.waits. */
enum near_life near_reset_judge(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos,
                                uint32_t fp);

/* --- taking: near_take.c --- */

/* True if a packet of len bytes may have a slot: by the flow's fair share of what is free, and its span of PSNs. */
bool near_admit(const struct proxy *p, const struct near_flow *f, uint16_t len);
/* Commits the packet at pos. SLOT_NONE: no room. */
uint32_t near_commit(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt, uint64_t pos,
                     uint32_t psns, uint32_t fp, uint16_t vlan_tci);
/* What was held beyond a gap is given up: its host has it still. */
void near_drop_held(struct proxy *p, struct near_flow *f, uint32_t slot);
/* The slot at pos_next is committed: it is in order now. */
void near_in_order(struct proxy *p, struct near_flow *f, uint32_t slot);
/* Takes in order what was held behind pos_next. */
void near_absorb_held(struct proxy *p, struct near_flow *f);
/* The packet that is expected: taken, with what was held behind it, or its host is held off. */
enum proxy_drop near_take_next(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                               uint16_t vlan_tci, uint32_t fp);

/* --- gaps: near_rx.c --- */

/* Patience is over: one NAK for pos_next (IBTA 9.7.5.1.1), if the host can be told at all. */
void near_nak_gap(struct proxy *p, struct near_flow *f);
/* The same if there is a gap that was not NAKed. */
void near_gap_look(struct proxy *p, struct near_flow *f);

/* --- operations: near_read.c --- */

/* The operation that owns pos, open or kept; NULL if there is none. */
struct rd_op *near_op_at(const struct near_flow *f, uint64_t pos);
/* The oldest operation whose responses are owed to the host, be it again or for the first time; NULL: none. */
struct rd_op *near_op_due(const struct near_flow *f);
/* A new record, not in the flow's list yet. NULL: the flow, or the shard, has too many. */
struct rd_op *near_op_new(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t psns,
                          uint32_t msn, uint32_t fp, enum rd_op_use use);
/* Into the list, in order of positions. */
void near_op_insert(struct near_flow *f, struct rd_op *op);
/* A READ, ATOMIC or unknown request at pos is about to be taken. msn: relative, with it counted. False: too many. */
bool near_op_begin(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t psns,
                   uint32_t msn, uint32_t fp);
/* The turn of a READ in that slot has come: it owns as many PSNs as the PMTU says, which may have been unknown when it
 * was taken, or says that it still is. */
void near_op_measure(struct proxy *p, struct near_flow *f, struct rd_op *op, uint32_t slot);
/* The one in that slot, at pos_next: it waited beyond a gap while the edge restarted, and has nothing but its slot. */
bool near_op_begin_held(struct proxy *p, struct near_flow *f, uint32_t slot);
/* The operation is from an earlier life of this edge: how much of its answer the host was given is not known. */
static inline void near_op_resume(struct rd_op *op)
{
	op->resumed = true;
}
/* It was not taken: there is no room for its request. */
void near_op_unbegin(struct proxy *p, struct near_flow *f, uint64_t pos);
/* The host was given all of it. */
void near_op_given(struct proxy *p, struct near_flow *f, struct rd_op *op);
/* The host asks again for the operation at pos. True if it was answered or will be; false: it is another one. */
bool near_op_again(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t fp);
/* The packet, at pos, asks for the rest of a READ that is open or kept. */
bool near_op_is_rest(const struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos);
/* The packet, at pos_next or beyond, may ask for the rest of the last READ, whose length in PSNs is not known. */
bool near_op_may_be_rest(const struct near_flow *f, const struct roce_pkt *pkt);
/* The last READ, whose length in PSNs was not known, owns so many. */
void near_set_psns(struct proxy *p, struct near_flow *f, uint32_t psns);
/* pmtu in bytes: 256, 512, 1024, 2048 or 4096. */
void near_learn_pmtu(struct proxy *p, struct near_flow *f, uint16_t pmtu);

/* --- answers that are kept: near_keep.c --- */

/* An operation that is forgotten: gives back its request and its record. */
void near_op_free(struct proxy *p, struct near_flow *f, struct rd_op *op);

/* Forgets answered operations with what is kept of their answers: those kept for long enough, or all, open ones too. */
void near_ops_retire(struct proxy *p, struct near_flow *f, bool all);
/* The slot of the response at pos, committed or still coming; SLOT_NONE. */
uint32_t near_resp_find(struct proxy *p, const struct near_flow *f, uint64_t pos);
/* True if the response at pos is here, whole. */
bool near_resp_at_hand(struct proxy *p, const struct near_flow *f, uint64_t pos);
/* Of the operation at least, the host still waits for the response at pos. */
static inline bool near_resp_awaited(const struct rd_op *op, uint64_t pos)
{
	return op->due && pos >= op->next;
}
/* A slot for a response of the flow was taken; it goes without having been given. */
void near_resp_taken(struct proxy *p, struct near_flow *f, uint32_t slot);
void near_resp_drop(struct proxy *p, struct near_flow *f, uint32_t slot);
/* The host was given the response of a READ: it stays while nobody needs room. */
void near_resp_given(struct proxy *p, struct near_flow *f, uint32_t slot);
/* A response beyond pos goes for the one at pos: it can be read again. False: there is none. */
bool near_resp_evict(struct proxy *p, struct near_flow *f, uint64_t pos);

/* --- read again: near_again.c --- */

/* The response that the host waits for next was here and is not any more: the responder is asked for it again. */
void near_again_look(struct proxy *p, struct near_flow *f, struct rd_op *op);
/* The operation is over, or forgotten. */
void near_again_end(struct near_flow *f, struct rd_op *op);

/* --- is its responder alive? near_ceiling.c --- */

/* True while nothing may be ACKed early, as nothing is heard of the responder, or no progress. */
bool near_demoted(const struct proxy *p, const struct near_flow *f);
/* It was heard; or it begins to owe an answer. */
void near_liveness_seen(struct proxy *p, struct near_flow *f);
/* Says it if that has changed. */
void near_demotion_look(struct proxy *p, struct near_flow *f);
void near_liveness_on_timer(struct proxy *p, struct near_flow *f);

/* --- room for answers: near_reserve.c --- */

/* The request at pos is about to cross. False, if it brings an answer for which there is no room: the flow is kicked
 * when there is. */
bool near_reserve_take(struct proxy *p, struct near_flow *f, uint64_t pos);
/* So many responses of one operation are kept room for at most. */
uint32_t near_reserve_most(const struct proxy *p, const struct near_flow *f, const struct rd_op *op);
/* A response of the operation has come. True: it had room reserved. */
bool near_reserve_use(struct proxy *p, struct near_flow *f, struct rd_op *op);
/* The host was given one. */
void near_reserve_renew(struct proxy *p, struct near_flow *f, struct rd_op *op);
/* So many come once more: returns for how many of these, one at least, there is room now, which is reserved. */
uint32_t near_reserve_again(struct proxy *p, struct near_flow *f, struct rd_op *op, uint32_t n);
/* No more of them come. */
void near_reserve_end(struct proxy *p, struct near_flow *f, struct rd_op *op);
/* It is known now how many come. */
void near_reserve_resize(struct proxy *p, struct near_flow *f, struct rd_op *op);
/* The flow ends, or its responder is silent: nothing is reserved for it any more. */
void near_reserve_leave(struct proxy *p, struct near_flow *f);
/* Something of the pool was freed. */
void near_reserve_freed(struct proxy *p);

/* --- room for the responses of a large READ, told to the far edge: near_credit.c --- */

/* Looks whether the far edge is to be told another credit. */
void near_credit_look(struct proxy *p, struct near_flow *f);
/* The operation has been given more of its responses, or is to have them again. */
void near_credit_moved(struct proxy *p, struct near_flow *f, const struct rd_op *op);
/* There was no room for the response at pos: if the far edge should know by now, it is told again. */
void near_credit_passed(struct proxy *p, struct near_flow *f, uint64_t pos);
/* The frame; and it has gone. */
void near_credit_frame(struct proxy *p, struct near_flow *f, struct wan_resp_credit *c);
void near_credit_told(struct proxy *p, struct near_flow *f, const struct wan_resp_credit *c);
/* The far edge knows nothing of it. */
void near_credit_session_start(struct proxy *p, struct near_flow *f);

/* --- turns of hosts that were sent away: near_turn.c --- */

/* Its host is sent away for want of room: a turn is booked, unless it has one. Returns how long until then; 0: turns do
 * not matter, or it may come at once. */
uint64_t near_turn_book(struct proxy *p, struct near_flow *f);
/* Its host came back, or never left: a packet of len bytes was taken. */
void near_turn_took(struct proxy *p, struct near_flow *f, uint16_t len);
/* It was told to come back after so long. */
void near_turn_away(struct proxy *p, struct near_flow *f, uint64_t for_ns);
/* Its host came back, the flow ends, or its host is forgotten. */
void near_turn_leave(struct proxy *p, struct near_flow *f);
/* Its host came back before its turn, and the buffer has not run low. */
bool near_turn_comes_early(const struct proxy *p, const struct near_flow *f);
/* What one flow may hold while so many wait for their turns that shares do not decide; 0: shares do. */
uint64_t near_turn_quantum_now(const struct proxy *p);
static inline uint64_t near_turn_quantum(const struct proxy *p)
{
	bool none_away = p->now_ns >= p->turns.in_force_until_ns && p->turns.away <= 1; /* nearly always */

	return none_away ? 0 : near_turn_quantum_now(p);
}
/* The flow holds something, and nothing of that has gone while all that the pool holds could have. */
bool near_turn_stuck(const struct proxy *p, const struct near_flow *f);
/* True if the quantum decides what the flow may hold; it does not for one whose responder takes nothing. */
static inline bool near_turn_rules(const struct proxy *p, const struct near_flow *f)
{
	return near_turn_quantum(p) && !near_turn_stuck(p, f);
}
/* And whether so many bytes more are within it. */
bool near_turn_admits(const struct proxy *p, const struct near_flow *f, uint64_t bytes);
/* All flows together drain three quarters of what the line can carry: none lacks bytes to send. */
bool near_turn_line_full(const struct proxy *p);
/* What each flow may hold however full the pool is: CREDIT_MIN_BYTES, or what the reserve has for each. */
uint64_t near_turn_minimum(const struct proxy *p);
void near_turn_on_timer(struct proxy *p, struct near_flow *f);

/* --- failures: near_error.c --- */

/* The responder refused what is at pos, or is silent for good (syndrome 0). */
void near_refused(struct proxy *p, struct near_flow *f, uint64_t pos, uint8_t syndrome);
/* What was ACKed at pos and behind it was in the arena of an earlier life of this edge, and is lost. */
void near_buffer_lost(struct proxy *p, struct near_flow *f, uint64_t pos);
/* An operation has been answered: perhaps the last one that a refusal waited for. */
void near_fail_if_answered(struct proxy *p, struct near_flow *f);
void near_fail_on_timer(struct proxy *p, struct near_flow *f);

/* The flow has failed, work that was ACKed with it: its host is to be told, also if it is idle. */
void near_error_begin(struct proxy *p, struct near_flow *f);
/* The same after a restart, for a flow that failed, or was heard, at failed_ns: if that is too long ago its host is not
 * told any more, which an event says. */
void near_error_resume(struct proxy *p, struct near_flow *f, uint64_t failed_ns);
/* No more of that: the flow is closed. */
void near_error_end(struct proxy *p, struct near_flow *f);
/* Its host has sent something, and so is not idle. */
void near_error_later(struct proxy *p, struct near_flow *f);
void near_error_on_timer(struct proxy *p, struct near_flow *f);

/* --- promises: near_ceiling.c, near_wan.c, near_rebuild.c --- */

/* A response to op has named this MSN. */
void near_count_at_most(struct proxy *p, struct near_flow *f, const struct rd_op *op, uint32_t msn);
/* msn_offset of a life in doubt, if it is the life before. False: nothing is known, or not all of it is here yet. */
bool near_hinted_offset(const struct proxy *p, const struct near_flow *f, uint32_t *offset);
/* Frees what the responder has, up to the first open operation. */
void near_settle(struct proxy *p, struct near_flow *f);
/* Writes the flow's descriptor. Before what it promises is said; before a slot is freed that it makes superfluous. */
void near_store(struct proxy *p, struct near_flow *f);

/* --- near_status.c --- */

/* The flow is about to be forgotten: it is remembered among those that have ended. */
void near_note_end(struct proxy *p, const struct near_flow *f);
/* The host repeats what is at pos; f->pos_last_rx is still the packet before. */
void near_note_repeat(const struct proxy *p, struct near_flow *f, uint64_t pos);

#endif
