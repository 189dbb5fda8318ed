/* SPDX-License-Identifier: Apache-2.0 */
/* near_error.c - delivers a responder's refusal to its requester, busy or idle.
 *
 * Theory of operation
 *
 * A responder may refuse, or vanish, when its requester has been ACKed already. A requester with something outstanding
 * is told by a NAK of that, or by the silence that it gets from a dead responder. One that is idle has nothing that
 * could be refused, and would believe its completions for ever. But it is a responder as well: a request that no
 * requester can have sent is refused by that half of it as invalid, and its whole queue pair fails, with what is posted
 * there flushed and, where the NIC has one, an event (IBTA 9.7.4.1.3, 9.9.3; check_op_seq() of rxe_resp.c).
 *
 *     failed --wait--> idle still, nothing on its way to it? --MIDDLE--> the host's answer
 *                                                               ^            | sequence NAK: the PSN that it expects
 *                                                               |            | ACK: too old, or taken
 *                                                               +------------+ any other NAK: it is told
 *
 * The request is a MIDDLE where no message has begun. It counts only at the PSN that the host expects next, which is
 * known if the other direction was used; else whatever is tried first is answered with it. A host whose one NAK was
 * lost says no more about what lies ahead, but still answers what lies behind, half of all PSNs away. A host that is
 * within a message that its peer never finished may take one kind of MIDDLE, so SEND and WRITE take turns. Neither has
 * a payload: whatever the host thinks of it, no byte of its memory changes.
 *
 * It must not meet a queue pair that has got the number meanwhile. Nothing is sent once another flow between the two
 * hosts has it, nor while a younger flow between them has no pair yet and may have it. Nor is anything sent once the
 * number was seen in a connection with another host: the operator is told instead of the requester then. The tries
 * are over after a second, and are not taken up again later than TRIES_NS. An edge that was down for longer than
 * TELL_MAX_NS does not begin to tell. The first PSN is not one that queue pairs are likely to begin at.
 *
 * A younger flow without a pair gets one, or is closed when its requester has given up (near.c), or is given up by its
 * far edge after GiveUp. One that was given up is waited for no longer, whatever its requester's number: nobody answers
 * that requester any more. So the wait for younger flows ends soon after GiveUp, unless more and more of them begin. After
 * twice that time the operator is told instead of the requester. The longer it lasts, the less often is looked whether
 * it is over. */
#include "near_priv.h"

#include "proxy/carry/barrier.h"

#define IDLE_NS 100000000ull     /* and two round trips: a host whose last requests were lost asks for them again, */
                                 /* after 67 ms with the usual timeout of 14, and these can be refused */
#define WAIT_NS      10000000ull /* as well: what the responder's host sent before its QP failed is under way */
#define FIRST_GAP_NS 4000000ull  /* between tries that are not answered; doubles */
#define TRIES        8
#define TRIES_NS     2000000000ull /* all of them are over by then */
#define PAIR_LOOK_MAX_NS 1000000000ull /* between two looks whether younger flows have their pairs */
#define TELL_MAX_NS  5000000000ull /* after the failure: later than that another queue pair may have the number, ... */
				   /* ... which no flow has shown; unless the edge has seen all that began since */
#define PSN_JUMP     0x400000u /* a quarter of all PSNs */

static uint64_t wait_ns(const struct proxy *p)
{
	return WAIT_NS + 2 * proxy_rtt_ns(p);
}

/* The other direction of the connection, if it was used. */
static const struct far_flow *reverse_of(struct proxy *p, const struct near_flow *f)
{
	const struct far_flow *r = pair_find(p, &f->dst, &f->src, f->dest_qpn);

	return r && !r->failed && r->dest_qpn == f->requester_qpn ? r : NULL;
}

/* The host does not take what is there for it. Twice stall_ns, for that may wait by the barrier for what another queue
 * pair does not take: it is let go once that one counts as stalled, and that is found when it is repeated. */
static bool is_stuck(const struct proxy *p, const struct far_flow *r)
{
	return p->now_ns - r->last_progress_ns >= 2 * p->cfg.stall_ns;
}

/* Something of the other direction is, or may be, on its way to the host. */
static bool more_comes(const struct proxy *p, const struct far_flow *r)
{
	return p->now_ns - r->last_progress_ns < wait_ns(p) || (r->pos_acked < r->pos_rx_max && !is_stuck(p, r));
}

/* Whether the other direction of another connection between the two hosts was used with the requester's QPN since the flow
 * failed. */
static bool qpn_answers(struct proxy *p, const struct near_flow *f)
{
	uint32_t i = far_dest_hash(&f->dst, &f->src, f->requester_qpn);
	const struct far_flow *r;

	while ((r = far_by_dest(p, &f->dst, &f->src, f->requester_qpn, &i)))
		if (r->requester_qpn != f->dest_qpn && r->last_progress_ns > f->error_ns)
			return true;
	return false;
}

static void error_delivered(struct proxy *p, struct near_flow *f)
{
	p->telling -= f->tell == TELL_ASKED;
	f->tell = TELL_NOTHING;
	f->error_due = false;
	timer_cancel(&p->timers, &f->fail_timer);
	near_store(p, f);
}

static void give_up_telling(struct proxy *p, struct near_flow *f)
{
	proxy_event_push(p, EV_REQUESTER_UNREACHABLE, f, NULL, f->fail_pos, 0);
	error_delivered(p, f);
}

/* A younger flow between the two hosts may have the requester's QPN. Its responder's answer says whether it has, and
 * comes before GiveUp or never. */
static void wait_for_pair(struct proxy *p, struct near_flow *f)
{
	uint64_t waited_ns = p->now_ns - f->error_ns;

	if (waited_ns > TELL_MAX_NS + 2 * p->cfg.give_up_ns)
		give_up_telling(p, f);
	else
		timer_set(&p->timers, &f->fail_timer,
		          p->now_ns + max_u64(wait_ns(p), min_u64(waited_ns / 8, PAIR_LOOK_MAX_NS)));
}

/* Whether the host may be asked now. If not, what is to be done instead is done. A host that asks for something is
 * refused that, and one whose queue pair has begun another connection to the same host knows of the failure: both need
 * not be told. */
static bool may_ask(struct proxy *p, struct near_flow *f)
{
	enum requester_owner owner = near_requester_owner(p, f);

	if (f->newer || f->pos_max > f->fail_pos || owner == REQUESTER_YOUNGER || qpn_answers(p, f))
		error_delivered(p, f);
	else if (owner == REQUESTER_ELSEWHERE || (f->tell == TELL_ASKED && p->now_ns > f->asked_ns + TRIES_NS))
		give_up_telling(p, f);
	else if (near_unpaired_younger(p, f))
		wait_for_pair(p, f);
	else
		return true;
	return false;
}

static void ask(struct proxy *p, struct near_flow *f)
{
	if (f->error_tries == TRIES) {
		give_up_telling(p, f);
		return;
	}
	timer_set(&p->timers, &f->fail_timer, p->now_ns + (FIRST_GAP_NS << f->error_tries));
	f->error_tries++;
	f->error_due = true;
	near_ack_schedule(p, f, f->due);
}

void near_error_begin(struct proxy *p, struct near_flow *f)
{
	if (f->tell != TELL_NOTHING || f->pairing == PAIR_LEARNING || f->newer || FAULT(FAULT_IDLE_UNTOLD))
		return;
	f->tell = TELL_LATER;
	f->error_ns = p->now_ns;
	f->error_tries = 0;
	near_error_later(p, f);
}

void near_error_resume(struct proxy *p, struct near_flow *f, uint64_t failed_ns)
{
	near_error_begin(p, f);
	if (failed_ns > p->now_ns || p->now_ns - failed_ns > TELL_MAX_NS) /* the first: of another boot */
		give_up_telling(p, f);
}

/* A host whose ACKs were lost repeats what it need not. That is refused, or meets silence as from a dead responder: it
 * comes to its own end then. */
void near_error_later(struct proxy *p, struct near_flow *f)
{
	if (f->tell == TELL_LATER)
		timer_set(&p->timers, &f->fail_timer, p->now_ns + IDLE_NS + 2 * proxy_rtt_ns(p));
}

void near_error_end(struct proxy *p, struct near_flow *f)
{
	timer_cancel(&p->timers, &f->fail_timer);
	if (f->tell != TELL_NOTHING)
		error_delivered(p, f);
}

void near_error_on_timer(struct proxy *p, struct near_flow *f)
{
	const struct far_flow *r = reverse_of(p, f);

	if (!may_ask(p, f))
		return;
	if (f->tell == TELL_LATER && r && more_comes(p, r)) {
		timer_set(&p->timers, &f->fail_timer, p->now_ns + wait_ns(p));
		return;
	}
	if (f->tell == TELL_LATER) {
		f->tell = TELL_ASKED;
		f->asked_ns = p->now_ns;
		f->error_hint = NONE;
		f->error_psn = r ? pos_psn(r->pos_acked) : (uint32_t)hash_mix(f->born) & ROCE_PSN_MASK;
		p->telling++;
	} else if (f->error_tries % 2 == 0) {
		f->error_psn ^= PSN_HALF;
	}
	ask(p, f);
}

/* What the host may expect, now that it has called error_psn a repetition, or has taken it. */
static uint32_t psn_after_ack(struct near_flow *f, uint32_t acked)
{
	uint32_t next = (acked + 1) & ROCE_PSN_MASK;

	/* rxe says PSN -1 to everything behind if it was never asked for anything: ahead it names what it expects */
	if (next == f->error_hint)
		return (f->error_psn + PSN_JUMP) & ROCE_PSN_MASK;
	f->error_hint = next;
	return next;
}

bool near_error_answered(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	struct near_flow *f = near_find(p, &pkt->src, &pkt->dst, pkt->dest_qpn, vlan_tci);

	if (!f || f->tell != TELL_ASKED || pkt->opcode != RC_ACK)
		return false;
	if ((pkt->aeth_syndrome & AETH_TYPE_MASK) == AETH_NAK && pkt->aeth_syndrome != AETH_NAK_PSN_SEQ) {
		count(p, CTR_REQUESTER_QPS_FAILED, 1);
		proxy_event_push(p, EV_REQUESTER_QP_FAILED, f, NULL, f->fail_pos, 0);
		error_delivered(p, f);
		return true;
	}
	f->error_psn = (pkt->aeth_syndrome & AETH_TYPE_MASK) == AETH_ACK ? psn_after_ack(f, pkt->psn) : pkt->psn;
	if (may_ask(p, f))
		ask(p, f);
	return true;
}

/* --- what becomes of a flow whose responder refused, or is gone.
 *
 * Theory of operation
 *
 * The responder refused, or has not answered for very long (syndrome 0): what is held can reach nobody any more. With a
 * syndrome the host is told so at the place that was refused, which acknowledges all before it (IBTA 9.7.5.1); without
 * one it meets silence, as it would from a dead responder. Where that place was ACKed early, and the host asks for
 * nothing more, see above.
 *
 *     refused --> READs and ATOMICs before that place are answered --> failed
 *
 * What the responder executed before it refused is completed first: the answers are on their way across, and a NAK
 * behind an operation without its answer would take them from the host. They come, as the far edge has committed them;
 * only if that edge loses its memory meanwhile they do not. */

#define ANSWERS_NS 2000000000ull /* then the NAK goes to the first operation that has no answer */

static bool awaits_answers(const struct near_flow *f)
{
	const struct rd_op *op = near_op_open(f);

	return op && op->pos < f->fail_pos && (roce_op(op->opcode)->flags & ROP_VALID);
}

static void fail_now(struct proxy *p, struct near_flow *f)
{
	const struct rd_op *op = near_op_open(f);
	bool late = f->fail_pos < f->pos_acked;
	uint64_t pos = max_u64(min_u64(f->fail_pos, f->pos_next), f->pos_acked);

	near_settle(p, f);
	if (op && op->pos < pos)
		pos = op->pos;
	f->fail_msn = near_msn_at(p, f, pos);
	f->fail_pos = pos;
	f->failing = false;
	f->failed = true;
	timer_cancel(&p->timers, &f->fail_timer);
	near_turn_leave(p, f);
	if (!f->nak_syndrome)
		near_unpaired_given_up(p, f);
	if (late)
		near_error_begin(p, f);
	if (!FAULT(FAULT_FAILURE_STORED_LAST)) /* after a kill nothing else would say that it has failed */
		near_store(p, f);
	near_free_slots(p, f);
	f->ooo_pkts = 0;
	f->pos_lacking = 0;
	f->pos_settled = f->pos_wan = f->pos_next;
	f->msn_settled = f->msn_next;
	barrier_mark(p, f); /* nothing waits for it any more */
	if (FAULT(FAULT_FAILURE_STORED_LAST))
		near_store(p, f);
	if (f->nak_syndrome)
		near_ack_schedule(p, f, DUE_NAK);
}

static void refused(struct proxy *p, struct near_flow *f, uint64_t pos, uint8_t syndrome, enum proxy_failure why)
{
	if (f->failed || f->failing || FAULT(FAULT_REFUSAL_UNTOLD))
		return;
	f->failing = true;
	f->fail_pos = pos;
	f->nak_syndrome = syndrome;
	if (f->pos_acked > pos || why == FAILURE_BUFFER_LOST || why == FAILURE_DAMAGED) {
		count(p, CTR_BYTES_FAILED, near_held(f));
		proxy_failure_push(p, why, f, NULL, pos, near_held(f));
	}
	timer_set(&p->timers, &f->fail_timer, p->now_ns + ANSWERS_NS);
	near_fail_if_answered(p, f);
}

void near_refused(struct proxy *p, struct near_flow *f, uint64_t pos, uint8_t syndrome)
{
	refused(p, f, pos, syndrome, syndrome ? FAILURE_REFUSED : FAILURE_SILENT);
}

void near_buffer_lost(struct proxy *p, struct near_flow *f, uint64_t pos)
{
	refused(p, f, pos, 0, FAILURE_BUFFER_LOST);
}

void near_damaged(struct proxy *p, struct near_flow *f)
{
	refused(p, f, f->pos_next, 0, FAILURE_DAMAGED);
}

void near_fail_if_answered(struct proxy *p, struct near_flow *f)
{
	if (f->failing && !awaits_answers(f))
		fail_now(p, f);
}

void near_fail_on_timer(struct proxy *p, struct near_flow *f)
{
	if (f->failing)
		fail_now(p, f);
	else if (f->failed)
		near_error_on_timer(p, f);
}
