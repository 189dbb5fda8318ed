/* SPDX-License-Identifier: Apache-2.0 */
/* near_error.c - delivers a responder's refusal to its requester, busy or idle.
 *
 * Theory of operation
 *
 * A responder may refuse a request, or vanish, when its requester has been ACKed already. A requester with requests
 * outstanding gets a NAK of the next one, or silence as from a dead responder. An idle requester has no request that
 * could be refused, and would believe its completions for ever. But the requester's queue pair is a responder as well:
 * its responder half refuses a request that no requester can have sent as invalid, and the whole queue pair fails. The
 * posted work requests of that queue pair are flushed, and the NIC may raise an event (IBTA 9.7.4.1.3, 9.9.3;
 * check_op_seq() of rxe_resp.c).
 *
 *     failed --wait--> idle still, nothing on its way to it? --MIDDLE--> the host's answer
 *                                                               ^            | sequence NAK: the PSN that it expects
 *                                                               |            | ACK: too old, or taken
 *                                                               +------------+ any other NAK: it is told
 *
 * The invalid request is a MIDDLE where no message has begun. The host refuses it only at the PSN that it expects next.
 * That PSN is known if the other direction was used; else the host's answer to the first try names it. A host whose
 * sequence NAK was lost sends no second NAK for PSNs ahead, but still ACKs PSNs behind, so every other try is half of
 * all PSNs away. A host within a message that its peer never finished may accept one kind of MIDDLE, so SEND and WRITE
 * alternate. Neither has a payload, so no byte of the host's memory can change.
 *
 * The invalid request must not reach another queue pair that has got the QPN meanwhile:
 *   - once another flow between the two hosts has the QPN, no request is sent;
 *   - while a younger flow between them has no pair yet, no request is sent, as the flow may have the QPN;
 *   - once the QPN was seen in a connection with another host, the operator is told instead of the requester.
 * The tries are over after a second, and are not resumed later than TRIES_NS. An edge that was down for longer than
 * TELL_MAX_NS does not begin to tell. The first PSN is one at which a queue pair is not likely to begin.
 *
 * A younger flow without a pair gets its pair, or is closed when its requester has given up (near.c), or is given up by
 * its far edge after GiveUp. A flow that was given up is not waited for: no responder answers its requester any more,
 * whatever the QPN. So the wait for younger flows ends soon after GiveUp, unless more and more of them begin. After
 * twice that time the operator is told instead of the requester. The interval between two looks grows with the wait. */
#include "near_priv.h"

#include "proxy/carry/barrier.h"

#define IDLE_NS 100000000ull     /* and two round trips: a host whose last requests were lost repeats them, after */
                                 /* 67 ms with the usual timeout of 14, and the repetitions can be refused */
#define WAIT_NS      10000000ull /* and two round trips: the responder's last packets before its QP failed arrive */
#define FIRST_GAP_NS 4000000ull  /* between tries that are not answered; doubles */
#define TRIES        8
#define TRIES_NS     2000000000ull /* all of them are over by then */
#define PAIR_LOOK_MAX_NS 1000000000ull /* between two looks whether younger flows have their pairs */
#define TELL_MAX_NS  5000000000ull /* after the failure another queue pair may have the QPN, and no flow shows it if */
				   /* the edge was down meanwhile */
#define PSN_JUMP     0x400000u /* a quarter of all PSNs */

static uint64_t wait_ns(const struct proxy *p)
{
	return WAIT_NS + 2 * proxy_rtt_ns(p);
}

/* The far flow of the connection's other direction; NULL: not used, or failed. */
static const struct far_flow *reverse_of(struct proxy *p, const struct near_flow *f)
{
	const struct far_flow *r = pair_find(p, &f->dst, &f->src, f->dest_qpn);

	return r && !far_has_failed(r) && r->dest_qpn == f->requester_qpn ? r : NULL;
}

/* True if the host does not take the requests of the other direction. Twice stall_ns: with the barrier a request may
 * wait for another queue pair until that one counts as stalled. */
static bool is_stuck(const struct proxy *p, const struct far_flow *r)
{
	return p->now_ns - r->last_progress_ns >= 2 * p->cfg.stall_ns;
}

/* True if a request of the other direction is, or may be, on its way to the host. */
static bool more_comes(const struct proxy *p, const struct far_flow *r)
{
	return p->now_ns - r->last_progress_ns < wait_ns(p) || (r->pos_acked < r->pos_rx_max && !is_stuck(p, r));
}

/* True if another connection between the two hosts has used the requester's QPN as its responder since the flow
 * failed. */
static bool qpn_answers(struct proxy *p, const struct near_flow *f)
{
	uint32_t i = far_dest_hash(p, &f->dst, &f->src, f->requester_qpn);
	const struct far_flow *r;

	while ((r = far_by_dest(p, &f->dst, &f->src, f->requester_qpn, &i)))
		if (r->requester_qpn != f->dest_qpn && r->last_progress_ns > f->error_ns)
			return true;
	return false;
}

static void error_delivered(struct proxy *p, struct near_flow *f)
{
	p->telling -= near_is_telling(f);
	f->tell = TELL_NOTHING;
	timer_cancel(&p->timers, &f->fail_timer);
	near_store(p, f);
}

static void give_up_telling(struct proxy *p, struct near_flow *f)
{
	proxy_event_push(p, EV_REQUESTER_UNREACHABLE, f, NULL, f->fail_pos, 0);
	error_delivered(p, f);
}

/* Called while a younger flow between the two hosts may have the requester's QPN. The answer of that flow's responder
 * tells, and comes before GiveUp or never. */
static void wait_for_pair(struct proxy *p, struct near_flow *f)
{
	uint64_t waited_ns = p->now_ns - f->error_ns;

	if (waited_ns > TELL_MAX_NS + 2 * p->cfg.give_up_ns)
		give_up_telling(p, f);
	else
		timer_set(&p->timers, &f->fail_timer,
		          p->now_ns + max_u64(wait_ns(p), min_u64(waited_ns / 8, PAIR_LOOK_MAX_NS)));
}

/* True if an invalid request may be sent now; else ends the telling, or waits. A host that sends requests gets a NAK of
 * them, and a host whose queue pair has begun another connection to the same host knows of the failure: neither need be
 * told. */
static bool may_send_invalid_request(struct proxy *p, struct near_flow *f)
{
	enum requester_owner owner = near_requester_owner(p, f);

	if (f->newer || f->pos_max > f->fail_pos || owner == REQUESTER_YOUNGER || qpn_answers(p, f))
		error_delivered(p, f);
	else if (owner == REQUESTER_ELSEWHERE || (near_is_telling(f) && p->now_ns > f->tell_since_ns + TRIES_NS))
		give_up_telling(p, f);
	else if (near_unpaired_younger(p, f))
		wait_for_pair(p, f);
	else
		return true;
	return false;
}

static void schedule_invalid_request(struct proxy *p, struct near_flow *f)
{
	if (f->error_tries == TRIES) {
		give_up_telling(p, f);
		return;
	}
	timer_set(&p->timers, &f->fail_timer, p->now_ns + (FIRST_GAP_NS << f->error_tries));
	f->error_tries++;
	f->tell = TELL_DUE;
	near_ack_schedule(p, f, f->due);
}

void near_error_begin(struct proxy *p, struct near_flow *f)
{
	if (f->tell != TELL_NOTHING || f->pairing == PAIR_LEARNING || f->newer || FAULT(FAULT_IDLE_UNTOLD))
		return;
	f->tell = TELL_LATER;
	f->error_ns = f->failed_ns = p->now_ns;
	f->error_tries = 0;
	near_error_later(p, f);
}

void near_error_resume(struct proxy *p, struct near_flow *f, uint64_t failed_ns)
{
	near_error_begin(p, f);
	f->failed_ns = min_u64(failed_ns, p->now_ns);
	if (failed_ns > p->now_ns || p->now_ns - failed_ns > TELL_MAX_NS) /* in the future: a time of another boot */
		give_up_telling(p, f);
}

/* A host that still repeats requests gets the NAK, or silence as from a dead responder, and its QP fails by that. */
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

	if (f->loss.ns && !near_loss_is_fresh(p, f)) { /* it was fetched: a rebuild need not raise it again */
		f->loss.ns = 0;
		near_store(p, f);
	}
	if (!may_send_invalid_request(p, f))
		return;
	if (f->tell == TELL_LATER && r && more_comes(p, r)) {
		timer_set(&p->timers, &f->fail_timer, p->now_ns + wait_ns(p));
		return;
	}
	if (f->tell == TELL_LATER) {
		f->tell = TELL_TRYING;
		f->tell_since_ns = p->now_ns;
		f->error_hint = NONE;
		f->error_psn = r ? pos_psn(r->pos_acked) : (uint32_t)hash_mix(f->born) & ROCE_PSN_MASK;
		p->telling++;
	} else if (f->error_tries % 2 == 0) {
		f->error_psn ^= PSN_HALF;
	}
	schedule_invalid_request(p, f);
}

/* The PSN to try next, after the host has ACKed `acked`: it took error_psn for a repetition, or accepted it. */
static uint32_t psn_after_ack(struct near_flow *f, uint32_t acked)
{
	uint32_t next = (acked + 1) & ROCE_PSN_MASK;

	/* rxe ACKs PSN -1 for everything behind if it never got a request; for a PSN ahead it NAKs the expected one */
	if (next == f->error_hint)
		return (f->error_psn + PSN_JUMP) & ROCE_PSN_MASK;
	f->error_hint = next;
	return next;
}

bool near_error_answered(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	struct near_flow *f = near_find(p, &pkt->src, &pkt->dst, pkt->dest_qpn, vlan_tci);

	if (!f || !near_is_telling(f) || pkt->opcode != RC_ACK)
		return false;
	if ((pkt->aeth_syndrome & AETH_TYPE_MASK) == AETH_NAK && pkt->aeth_syndrome != AETH_NAK_PSN_SEQ) {
		count(p, CTR_REQUESTER_QPS_FAILED, 1);
		proxy_event_push(p, EV_REQUESTER_QP_FAILED, f, NULL, f->fail_pos, 0);
		error_delivered(p, f);
		return true;
	}
	f->error_psn = (pkt->aeth_syndrome & AETH_TYPE_MASK) == AETH_ACK ? psn_after_ack(f, pkt->psn) : pkt->psn;
	if (may_send_invalid_request(p, f))
		schedule_invalid_request(p, f);
	return true;
}

/* --- a flow whose responder refused, or is gone.
 *
 * Theory of operation
 *
 * The responder refused a request, or has been silent until GiveUp (syndrome 0): held requests cannot be delivered any
 * more. With a syndrome the host gets a NAK at the refused position, which acknowledges everything before it (IBTA
 * 9.7.5.1). Without a syndrome the host gets silence, as from a dead responder. If the refused request was ACKed early
 * and the host is idle, see above.
 *
 *     refused --> READs and ATOMICs before that place are answered --> failed
 *
 * Operations that the responder executed before the refusal are answered first: their responses are on the WAN, and a
 * NAK behind an operation would take its response from the host. The far edge has committed these responses, so they
 * come unless that edge loses its arena meanwhile. */

static bool awaits_answers(const struct near_flow *f)
{
	const struct rd_op *op = near_op_open(f);

	return op && op->pos < f->fail_pos && (roce_op(op->opcode)->flags & ROP_VALID);
}

void near_loss_wait(struct proxy *p, struct near_flow *f)
{
	if (f->tell == TELL_NOTHING && near_loss_is_fresh(p, f))
		timer_set(&p->timers, &f->fail_timer, f->loss.ns + LOSS_FETCHED_NS);
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
	near_become(p, f, NEAR_FAILED);
	near_turn_leave(p, f);
	if (!f->nak_syndrome)
		near_unpaired_given_up(p, f);
	if (late)
		near_error_begin(p, f);
	near_loss_wait(p, f);
	if (!FAULT(FAULT_FAILURE_STORED_LAST)) /* before slots are freed: after a kill only this tells of it */
		near_store(p, f);
	near_free_slots(p, f);
	f->ooo_pkts = 0;
	f->pos_lacking = 0;
	f->pos_settled = f->pos_wan = f->pos_next;
	f->msn_settled = f->msn_next;
	barrier_mark(p, f); /* no packet waits for the flow any more */
	if (FAULT(FAULT_FAILURE_STORED_LAST))
		near_store(p, f);
	if (f->nak_syndrome)
		near_ack_schedule(p, f, DUE_NAK);
}

/* Events are in memory only, so the descriptor names the failure until the daemon has surely fetched the event
 * (near_store()). */
void near_loss_raise(struct proxy *p, struct near_flow *f, enum proxy_failure why, uint64_t pos, uint64_t bytes)
{
	count(p, CTR_BYTES_FAILED, bytes);
	proxy_failure_push(p, why, f, NULL, pos, bytes);
	f->loss = (struct near_loss){.ns = p->now_ns, .pos = pos, .bytes = bytes, .why = why};
}

bool near_loss_is_fresh(const struct proxy *p, const struct near_flow *f)
{
	return f->loss.ns && p->now_ns < f->loss.ns + LOSS_FETCHED_NS;
}

static void flow_refused(struct proxy *p, struct near_flow *f, uint64_t pos, uint8_t syndrome, enum proxy_failure why)
{
	if (near_is_refused(f) || FAULT(FAULT_REFUSAL_UNTOLD))
		return;
	near_become(p, f, NEAR_FAILING);
	f->fail_pos = pos;
	f->nak_syndrome = syndrome;
	if (f->pos_acked > pos || why == FAILURE_BUFFER_LOST || why == FAILURE_DAMAGED)
		near_loss_raise(p, f, why, pos, near_held(f));
	near_fail_if_answered(p, f);
}

void near_refused(struct proxy *p, struct near_flow *f, uint64_t pos, uint8_t syndrome)
{
	flow_refused(p, f, pos, syndrome, syndrome ? FAILURE_REFUSED : FAILURE_SILENT);
}

void near_buffer_lost(struct proxy *p, struct near_flow *f, uint64_t pos)
{
	flow_refused(p, f, pos, 0, FAILURE_BUFFER_LOST);
}

void near_damaged(struct proxy *p, struct near_flow *f)
{
	flow_refused(p, f, f->pos_next, 0, FAILURE_DAMAGED);
}

void near_fail_if_answered(struct proxy *p, struct near_flow *f)
{
	if (f->state == NEAR_FAILING && !awaits_answers(f))
		fail_now(p, f);
}

void near_fail_on_timer(struct proxy *p, struct near_flow *f)
{
	if (f->state == NEAR_FAILING)
		fail_now(p, f);
	else if (f->state == NEAR_FAILED && f->tell == TELL_NOTHING)
		near_store(p, f); /* without the failure, which was fetched */
	else if (f->state == NEAR_FAILED)
		near_error_on_timer(p, f);
}
