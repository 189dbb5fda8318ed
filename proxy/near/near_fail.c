/* SPDX-License-Identifier: Apache-2.0 */
/* near_fail.c - what becomes of a flow whose responder refused, or is gone.
 *
 * Theory of operation
 *
 * The responder refused, or has not answered for very long (syndrome 0): what is held can reach nobody any more. With a
 * syndrome the host is told so at the place that was refused, which acknowledges all before it (IBTA 9.7.5.1); without
 * one it meets silence, as it would from a dead responder. Where that place was ACKed early, and the host asks for
 * nothing more, see near_error.c.
 *
 *     refused --> READs and ATOMICs before that place are answered --> failed
 *
 * What the responder executed before it refused is completed first: the answers are on their way across, and a NAK
 * behind an operation without its answer would take them from the host. They come, as the far edge has committed them;
 * only if that edge loses its memory meanwhile they do not. */
#include "near_priv.h"

#include "proxy/carry/barrier.h"

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
	near_free_slots(p, f);
	f->ooo_pkts = 0;
	f->pos_lacking = 0;
	f->pos_settled = f->pos_wan = f->pos_next;
	f->msn_settled = f->msn_next;
	if (late)
		near_error_begin(p, f);
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
	barrier_mark(p, f); /* nothing waits for it */
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
