/* SPDX-License-Identifier: Apache-2.0 */
/* near_again.c - reads again at the responder those responses of a READ that its host lost and this edge no longer has.
 *
 * Theory of operation
 *
 * A response that the host was given is not kept for long (near_keep.c). If the host lost the response on its LAN, the
 * host asks again. If the response is not here any more, the responder is asked again: it executes a repeated READ anew
 * (IBTA 9.7.5.1.3).
 *
 *     op->pos           next             given                  pos + psns
 *        | the host has it | lost, was here | has not come, is on its way |
 *                          |<- again_from .. again_upto ->|
 *
 * READ_AGAIN carries the host's own request, changed for [again_from, again_upto): PSN and address moved on, length
 * cut. For rxe as responder the request begins where the host's latest one began (rd_op_ask_from()). The far edge sends
 * the request to the responder, and the responses cross to their positions like all others. Only as many responses are
 * asked for at a time as there is room for. Repetitions of the host drive this; no response is asked for twice within a
 * round trip and a half. After a restart the edge does not know what the host was given. Then all of the READ may be
 * read again, once the host has asked from some position.
 * A response that has not come yet is asked for by the far edge until it comes. If that edge was killed it does not know
 * where the host had asked from, and rxe answers nothing from before that. So each time the host asks, READ_AGAIN for
 * this one response tells (near_again_tell()); the far edge asks the responder for the rest then, if nothing has come
 * for a while, else it comes anyway. */
#include "near_priv.h"

#define LOOK_AHEAD    256 /* responses that are looked up at most */
#define AGAIN_MORE_NS 1000000ull

/* The end of the responses that may be read again. */
static uint64_t given_end(const struct rd_op *op)
{
	return op->resumed ? op->pos + op->psns : op->seen_upto;
}

/* True if the part of the READ that each position stands for is known: by the PMTU, or because one response was all. */
static bool parts_known(const struct near_flow *f, const struct rd_op *op)
{
	return f->pmtu || (op->psns == 1 && !(f->psns_unknown && op->pos + 1 == f->pos_next));
}

static bool response_is_missing(struct proxy *p, const struct near_flow *f, const struct rd_op *op)
{
	return op->opcode == RC_READ_REQUEST && parts_known(f, op) && op->due && op->reread &&
	       op->next < given_end(op) && !near_resp_at_hand(p, f, op->next);
}

/* True if the far edge waits for responses of rxe, and may not know where the host asked last: it may have been killed
 * since, and rxe answers nothing from before that (rd_op_ask_from()). */
static bool is_to_be_told(struct proxy *p, const struct near_flow *f, const struct rd_op *op)
{
	return f->forward_only && op->opcode == RC_READ_REQUEST && f->pmtu && op->due && op->next == op->from &&
	       op->from > op->pos && op->next >= given_end(op) && !near_resp_at_hand(p, f, op->next);
}

static bool read_again_under_way(const struct proxy *p, const struct rd_op *op)
{
	return op->next >= op->again_from && op->next < op->again_upto &&
	       p->now_ns < op->again_heard_ns + proxy_rtt_ns(p) / 2 * 3 + AGAIN_MORE_NS;
}

static void schedule_read_again(struct near_flow *f, struct rd_op *op)
{
	f->agains_due += !op->again_due;
	op->again_due = true;
}

/* READ_AGAIN for n responses from op->next on is to go. */
static void read_again(struct proxy *p, struct near_flow *f, struct rd_op *op, uint32_t n)
{
	op->again_from = op->next;
	op->again_upto = op->next + n;
	op->again_heard_ns = p->now_ns;
	schedule_read_again(f, op);
	near_wan_schedule(p, f);
}

void near_again_look(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	uint64_t upto = op->next + 1, end = given_end(op);

	if (!response_is_missing(p, f, op) || read_again_under_way(p, op) || FAULT(FAULT_NOT_READ_AGAIN))
		return;
	while (upto < end && upto - op->next < LOOK_AHEAD && !near_resp_at_hand(p, f, upto))
		upto++;
	if (upto - op->next == LOOK_AHEAD)
		upto = end;
	read_again(p, f, op, near_reserve_again(p, f, op, (uint32_t)(upto - op->next)));
}

void near_again_tell(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	if (!is_to_be_told(p, f, op) || read_again_under_way(p, op) || FAULT(FAULT_NOT_READ_AGAIN))
		return;
	read_again(p, f, op, 1);
}

const struct rd_op *near_again_awaited(struct proxy *p, const struct near_flow *f)
{
	const struct rd_op *op = near_op_due(f);

	return op && response_is_missing(p, f, op) ? op : NULL;
}

void near_again_end(struct near_flow *f, struct rd_op *op)
{
	f->agains_due -= op->again_due;
	op->again_due = false;
}

/* Builds the host's request for that part of the READ. The stored ICRC is checked before a new one is made. */
static size_t build_read_again(struct proxy *p, const struct near_flow *f, const struct rd_op *op, uint8_t *buf)
{
	uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, op->pos);
	uint64_t from = f->forward_only ? rd_op_ask_from(op, op->again_from, f->pmtu, 0) : op->again_from;
	uint64_t skip = (from - op->pos) * f->pmtu, most = (op->again_upto - from) * f->pmtu;
	const uint8_t *data;
	struct roce_pkt pkt;

	if (slot == SLOT_NONE)
		return 0;
	data = arena_data(p->arena, slot);
	if (roce_parse(data, slot_packet_len(arena_hdr(p->arena, slot)), &pkt) != DROP_NONE ||
	    pkt.opcode != RC_READ_REQUEST || !icrc_check(data, &pkt, NULL) || skip > pkt.reth_len)
		return 0;
	pkt.psn = pos_psn(from);
	pkt.reth_va += skip;
	pkt.reth_len = (uint32_t)(f->pmtu ? min_u64(pkt.reth_len - skip, most) : pkt.reth_len);
	return roce_build(buf, LAN_PKT_MAX, &pkt, NULL, 0);
}

bool near_again_frame(struct proxy *p, struct near_flow *f, uint8_t *buf, struct wan_read_again *r)
{
	for (struct dnode *n = f->ops.next; f->agains_due && n != &f->ops; n = n->next) {
		struct rd_op *op = dlist_entry(n, struct rd_op, node);

		if (!op->again_due)
			continue;
		near_again_end(f, op);
		*r = (struct wan_read_again){.flow = near_wire_id(p, f),
		                             .inc = f->inc,
		                             .pos = op->again_from,
		                             .psns = (uint32_t)(op->again_upto - op->again_from),
		                             .packet_len = (uint16_t)build_read_again(p, f, op, buf),
		                             .forward_only = f->forward_only,
		                             .packet = buf};
		if (r->packet_len)
			return true;
	}
	f->agains_due = 0;
	return false;
}

/* One call may find many frames of the flow lost: the operations are walked once per call. */
void near_again_lost(struct proxy *p, struct near_flow *f)
{
	if (f->again_lost_ns == p->now_ns)
		return;
	f->again_lost_ns = p->now_ns;
	for (struct dnode *n = f->ops.next; n != &f->ops; n = n->next) {
		struct rd_op *op = dlist_entry(n, struct rd_op, node);

		if (op->next < op->again_from || op->next >= op->again_upto ||
		    (!response_is_missing(p, f, op) && !is_to_be_told(p, f, op)))
			continue;
		op->again_heard_ns = p->now_ns;
		schedule_read_again(f, op);
	}
	near_wan_schedule(p, f);
}
