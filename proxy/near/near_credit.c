/* SPDX-License-Identifier: Apache-2.0 */
/* near_credit.c - tells the far edge up to which position this edge has room for the responses of a large READ.
 *
 * Theory of operation
 *
 * A READ larger than the room that one READ may have (near_reserve_most()) is taken a window at a time. The window
 * moves as the host is given responses:
 *
 *     op->pos      next                next + most                 pos + psns
 *        | given    | here, or on its way | refused (near_resp.c)      |
 *                                            ^ the credit
 *
 * Without the credit the far edge would send all of the READ, have the rest refused, and send it again. RESP_CREDIT
 * carries the credit as a position, each time the window has moved by a sixteenth; a newer one replaces an older one.
 * While no such READ is open the credit is RESP_CREDIT_ALL, and no RESP_CREDIT is sent. The credit does not bind this
 * edge: responses beyond the window are refused whatever the credit was, and the response that the host waits for
 * always finds a slot. So the credit is a quarter of the window more, as the window will have moved when RESP_CREDIT
 * arrives: with 1 % loss a line then carries 0.61 of what it could, without that 0.57. */
#include "near_priv.h"

#define CREDIT_STEPS 16

static uint64_t resp_window(const struct proxy *p, const struct near_flow *f, const struct rd_op *op)
{
	return max_u64(near_reserve_most(p, f, op), 1);
}

static uint64_t credit_of(const struct proxy *p, const struct near_flow *f, const struct rd_op *op)
{
	return op ? op->next + resp_window(p, f, op) / 4 * 5 : RESP_CREDIT_ALL;
}

/* The first READ that is owed to the host and has more responses left than the window. NULL: there is none. */
static const struct rd_op *first_windowed_read(const struct proxy *p, const struct near_flow *f)
{
	const struct rd_op *op = near_op_due(f);

	for (const struct dnode *n = op ? &op->node : &f->ops; n != &f->ops; n = n->next) {
		op = dlist_entry(n, struct rd_op, node);
		if (op->due && op->opcode == RC_READ_REQUEST && op->pos + op->psns - op->next > resp_window(p, f, op))
			return op;
	}
	return NULL;
}

static uint64_t last_credit_sent(const struct near_flow *f)
{
	return f->resp_credit_round ? f->resp_credit_sent : RESP_CREDIT_ALL;
}

static void schedule_resp_credit(struct proxy *p, struct near_flow *f)
{
	f->resp_credit_due = true;
	near_wan_schedule(p, f);
}

void near_credit_look(struct proxy *p, struct near_flow *f)
{
	const struct rd_op *op;
	uint64_t credit;

	if (f->resp_credit_due || FAULT(FAULT_CREDIT_UNTOLD))
		return;
	op = first_windowed_read(p, f);
	credit = credit_of(p, f, op);
	if (credit == last_credit_sent(f))
		return;
	if (op && last_credit_sent(f) != RESP_CREDIT_ALL && credit > last_credit_sent(f) &&
	    credit - last_credit_sent(f) < resp_window(p, f, op) / CREDIT_STEPS)
		return;
	schedule_resp_credit(p, f);
}

void near_credit_moved(struct proxy *p, struct near_flow *f, const struct rd_op *op)
{
	if (op->windowed || last_credit_sent(f) != RESP_CREDIT_ALL)
		near_credit_look(p, f);
}

void near_credit_exceeded(struct proxy *p, struct near_flow *f, uint64_t pos)
{
	if (pos < last_credit_sent(f) || p->now_ns < f->resp_credit_ns + 2 * proxy_rtt_ns(p) ||
	    FAULT(FAULT_CREDIT_UNTOLD))
		near_credit_look(p, f);
	else
		schedule_resp_credit(p, f);
}

void near_credit_frame(struct proxy *p, struct near_flow *f, struct wan_resp_credit *c)
{
	const struct rd_op *op = first_windowed_read(p, f);

	*c = (struct wan_resp_credit){.flow = near_wire_id(p, f), .inc = f->inc, .round = f->resp_credit_round + 1};
	c->credit = credit_of(p, f, op);
}

void near_credit_sent(struct proxy *p, struct near_flow *f, const struct wan_resp_credit *c)
{
	f->resp_credit_sent = c->credit;
	f->resp_credit_round = c->round;
	f->resp_credit_ns = p->now_ns;
	f->resp_credit_due = false;
}

void near_credit_session_start(struct proxy *p, struct near_flow *f)
{
	f->resp_credit_round = 0;
	f->resp_credit_due = false;
	near_credit_look(p, f);
}
