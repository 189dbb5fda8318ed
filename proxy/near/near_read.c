/* SPDX-License-Identifier: Apache-2.0 */
/* near_read.c - operations (READ, ATOMIC, FLUSH, ATOMIC WRITE), from the request to the response.
 *
 * Theory of operation
 *
 * READ, ATOMIC and unknown requests own positions that only the responder can answer: the ceiling stands in front of
 * the first open one. An unknown request counts as answered once the responder has acknowledged it.
 *
 * An operation is owed to the host (`due`) from its request on. The responses of an operation are given in PSN order;
 * `next` is the next one. When a host asks again, possibly for the rest only, no response crosses the WAN again that is
 * here or on its way. There are two cases:
 *   - The response has not come yet. The host waits, and gets it framed as the host asked last (`from`).
 *   - The host has lost responses that it was given. The operation is owed again from the position asked for. Later
 *     operations are not; the host asks for each itself. If a later one was given in part, it starts over, as the host
 *     takes responses in order only. READ responses that are no longer here are read again (near_again.c).
 * So each request costs at most its own answer once, whatever a host repeats.
 *
 * FLUSH and ATOMIC WRITE are kept and replayed like ATOMICs, not read again like READs. IBTA lets a responder execute
 * neither twice (oA19-14, oA19-15). A responder that has forgotten them, as rxe forgets each FLUSH, drops the
 * repetition in silence.
 *
 * A READ owns as many PSNs as its response has packets. While the PMTU is not known the READ counts as one PSN, and
 * psns_unknown is set until a payload or the first response tells. Until then a READ behind it with the same end may
 * ask for the rest of it, if the host had its first responses before there was an edge. Such a READ is dropped, and its
 * host has to ask once more. near_keep.c tells how long answers are kept. */
#include "near_priv.h"

#define AGAIN_ROW_NS   1000000ull /* a host's repetitions of consecutive requests follow each other sooner */
#define AGAIN_QUIET_NS 200000ull /* a LAN round trip: repeated requests within it count as one */

static bool op_owns(const struct rd_op *op, uint64_t pos)
{
	return pos >= op->pos && pos < op->pos + op->psns;
}

/* Most calls look for the oldest open operation, whose responses come, or for the newest: a host may have a hundred
 * in between. */
struct rd_op *near_op_at(const struct near_flow *f, uint64_t pos)
{
	if (f->op_open && op_owns(f->op_open, pos))
		return f->op_open;
	for (struct dnode *n = f->ops.prev; n != &f->ops; n = n->prev) {
		struct rd_op *op = dlist_entry(n, struct rd_op, node);

		if (pos >= op->pos)
			return op_owns(op, pos) ? op : NULL;
	}
	return NULL;
}

struct rd_op *near_op_open(const struct near_flow *f)
{
	return f->op_open;
}

struct rd_op *near_op_due(const struct near_flow *f)
{
	for (struct dnode *n = f->ops.next; f->repeats && n != &f->ops; n = n->next) {
		struct rd_op *op = dlist_entry(n, struct rd_op, node);

		if (op->due)
			return op;
	}
	return f->op_open;
}

struct rd_op *near_op_new(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t psns,
                          uint32_t msn, uint32_t fp, enum rd_op_use use)
{
	struct rd_op *op = f->nops < READS_PER_FLOW ? rd_op_take(p, use) : NULL;

	if (!op)
		return NULL;
	*op = (struct rd_op){.node = op->node};
	op->pos = op->next = op->from = op->seen_upto = pos;
	op->psns = psns;
	op->msn = msn;
	op->len = pkt->opcode == RC_READ_REQUEST ? pkt->reth_len : 0;
	op->opcode = pkt->opcode;
	op->rkey = pkt->reth_rkey;
	op->end_va = pkt->reth_va + pkt->reth_len;
	op->fp = fp;
	op->begun_ns = p->now_ns;
	op->due = true;
	f->nops++;
	return op;
}

void near_op_insert(struct near_flow *f, struct rd_op *op)
{
	struct dnode *n = f->ops.prev;

	while (n != &f->ops && dlist_entry(n, struct rd_op, node)->pos > op->pos)
		n = n->prev;
	dlist_append(n->next, &op->node);
}

bool near_op_begin(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t psns,
                   uint32_t msn, uint32_t fp, enum rd_op_use use)
{
	struct rd_op *op;

	if (f->nops >= READS_PER_FLOW || !rd_op_left(p, use))
		near_ops_retire(p, f, false);
	op = near_op_new(p, f, pkt, pos, psns, msn, fp, use);
	if (!op)
		return false;
	near_op_insert(f, op);
	if (!f->op_open || pos < f->op_open->pos) /* the base moves down while it is not known */
		f->op_open = op;
	return true;
}

void near_op_measure(struct proxy *p, struct near_flow *f, struct rd_op *op, uint32_t slot)
{
	if (op->opcode != RC_READ_REQUEST)
		return;
	f->psns_unknown = !f->pmtu && op->len > 256;
	if (!f->pmtu)
		return;
	op->psns = roce_read_psns(op->len, f->pmtu);
	arena_amend(p->arena, slot, op->psns, arena_hdr(p->arena, slot)->msn);
}

bool near_op_begin_held(struct proxy *p, struct near_flow *f, uint32_t slot, enum rd_op_use use)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct roce_pkt pkt;

	if (roce_parse(arena_data(p->arena, slot), h->len, &pkt) != DROP_NONE ||
	    !near_op_begin(p, f, &pkt, f->pos_next, h->psns, f->msn_next + 1, h->fp, use))
		return false;
	near_op_measure(p, f, near_op_at(f, f->pos_next), slot);
	return true;
}

void near_op_unbegin(struct proxy *p, struct near_flow *f, uint64_t pos)
{
	struct rd_op *op = near_op_at(f, pos);
	struct dnode *next = op->node.next;

	if (f->op_open == op)
		f->op_open = next == &f->ops ? NULL : dlist_entry(next, struct rd_op, node);
	f->nops--;
	near_reserve_end(p, f, op);
	near_again_end(f, op);
	rd_op_give(p, op);
}

void near_op_given(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	struct dnode *next = op->node.next;

	op->due = false;
	near_reserve_end(p, f, op);
	near_again_end(f, op);
	if (op->done_ns) {
		f->repeats--;
	} else {
		f->ops_done++;
		f->op_open = next == &f->ops ? NULL : dlist_entry(next, struct rd_op, node);
	}
	op->done_ns = p->now_ns;
	near_credit_moved(p, f, op);
}

void near_set_psns(struct proxy *p, struct near_flow *f, uint32_t psns)
{
	struct rd_op *op = near_op_at(f, f->pos_next - 1); /* not the last of f->ops: later ones may be held */
	uint32_t slot;

	f->psns_unknown = false;
	if (!op || op->pos + 1 != f->pos_next)
		return;
	near_drop_inside(p, f, f->pos_next, op->pos + psns);
	slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, op->pos);
	op->psns = psns;
	near_reserve_resize(p, f, op);
	if (slot != SLOT_NONE)
		arena_amend(p->arena, slot, psns, arena_hdr(p->arena, slot)->msn);
	if (f->pos_wan == f->pos_next)
		f->pos_wan = op->pos + psns;
	f->pos_next = op->pos + psns;
	f->pos_max = max_u64(f->pos_max, f->pos_next);
	near_absorb_held(p, f);
	near_wan_schedule(p, f);
}

void near_learn_pmtu(struct proxy *p, struct near_flow *f, uint16_t pmtu)
{
	const struct rd_op *op = near_op_at(f, f->pos_next - 1);

	f->pmtu = pmtu;
	near_announce(f);
	near_store(p, f);
	if (f->psns_unknown && op)
		near_set_psns(p, f, roce_read_psns(op->len, pmtu));
	near_wan_schedule(p, f);
}

/* --- the host asks again --- */

/* A READ may be asked for again from its middle: then address and length differ, its end and key do not. */
static bool same_op(const struct rd_op *op, const struct roce_pkt *pkt, uint32_t fp)
{
	if (op->opcode != pkt->opcode)
		return false;
	if (pkt->opcode != RC_READ_REQUEST)
		return op->fp == fp;
	return op->rkey == pkt->reth_rkey && op->end_va == pkt->reth_va + pkt->reth_len;
}

bool near_op_is_rest(const struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos)
{
	const struct rd_op *op = pkt->opcode == RC_READ_REQUEST ? near_op_at(f, pos) : NULL;

	return op && op->pos < pos && same_op(op, pkt, 0);
}

bool near_op_may_be_rest(const struct near_flow *f, const struct roce_pkt *pkt)
{
	const struct rd_op *op = f->psns_unknown ? near_op_at(f, f->pos_next - 1) : NULL;

	return op && same_op(op, pkt, 0) && pkt->opcode == RC_READ_REQUEST && pkt->reth_len < op->len;
}

/* Later operations that were given in part start over: their responses came too early for a host that is at op. */
static void start_over_behind(struct near_flow *f, const struct rd_op *op)
{
	for (struct dnode *n = op->node.next; n != &f->ops; n = n->next) {
		struct rd_op *later = dlist_entry(n, struct rd_op, node);

		if (later->due)
			later->next = later->from = later->pos;
		if (later == f->op_open)
			break; /* nothing was given of those behind it */
	}
}

/* True if the host, which asks from pos beyond op->next, has the responses before pos: they came late after an earlier
 * repetition, or were given before a restart of this edge. */
static bool host_has_resps_before(struct proxy *p, const struct near_flow *f, const struct rd_op *op, uint64_t pos)
{
	return pos <= op->seen_upto || op->resumed || near_resp_at_hand(p, f, pos - 1);
}

/* True if the request at pos is of the row of repetitions that the host is sending, or a copy out of that row. At or
 * below the last operation of the row, pos was overtaken on the LAN (adaptive routing) or is a copy, if it comes within
 * reorder_ns. Requests without own response belong to the row, too: it lasts as long as the host is not silent, and does
 * not go back further than by reordering. A row that begins anew so soon is not recognised: its host then asks once
 * more, after its timeout. */
static bool row_goes_on(const struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	uint64_t within_ns = pos > f->asked_again ? AGAIN_ROW_NS : min_u64(p->cfg.reorder_ns, AGAIN_ROW_NS);

	bool streams = f->silent_ns < AGAIN_ROW_NS && pos + PATIENCE_PKTS >= f->pos_last_rx;

	return streams || p->now_ns < f->asked_again_ns + within_ns;
}

void near_row_begins(struct proxy *p, struct near_flow *f, uint64_t pos)
{
	struct dnode *n = f->ops.next, *next;

	if (!f->repeats || row_goes_on(p, f, pos))
		return;
	for (; n != &f->ops && f->repeats && work_take(p); n = next) {
		struct rd_op *earlier = dlist_entry(n, struct rd_op, node);

		if (earlier->pos + earlier->psns > pos)
			break;
		next = n->next;
		if (earlier->due && earlier->done_ns)
			near_op_given(p, f, earlier);
	}
	near_next_answer(p, f);
}

/* The host has asked for a response that is not here. */
static void wait_for_answer(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	near_again_look(p, f, op);
	near_again_tell(p, f, op);
	if (f->rnr_retry == RNR_RETRY_INFINITE && (!f->repeats || near_op_due(f) == op))
		near_ack_schedule(p, f, DUE_RNR);
}

bool near_op_again(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t fp)
{
	struct rd_op *op = near_op_at(f, pos);

	if (!op || !same_op(op, pkt, fp))
		return false;
	if (f->pairing == PAIR_LEARNING) {
		near_ack_schedule(p, f, DUE_RNR); /* only if near_may_back_pressure() */
		return true;
	}
	near_row_begins(p, f, pos);
	f->asked_again = pos;
	f->asked_again_ns = p->now_ns;
	if (op->due && f->pos_wan > op->pos && FAULT(FAULT_READ_CROSSES_AGAIN)) {
		f->pos_wan = op->pos;
		near_wan_schedule(p, f);
	}
	if (op->due && pos >= op->next) { /* the response is on its way */
		if (pos == op->next || host_has_resps_before(p, f, op, pos))
			op->next = op->from = pos;
		op->reread = true;
		near_credit_moved(p, f, op);
		if (near_resp_at_hand(p, f, op->next))
			dlist_append_once(&p->resp_list, &f->resp_node);
		else
			wait_for_answer(p, f, op);
		return true;
	}
	if (op->again_ns && p->now_ns < op->again_ns + AGAIN_QUIET_NS && pos <= op->from)
		return true; /* asking from beyond op->from is no copy: the host has lost a later response */
	op->again_ns = p->now_ns;
	op->next = op->from = pos;
	if (!op->due)
		near_repeat_begins(p, f);
	op->due = true;
	op->reread = true;
	start_over_behind(f, op);
	near_credit_moved(p, f, op);
	if (near_resp_at_hand(p, f, op->next))
		dlist_append_once(&p->resp_list, &f->resp_node);
	else
		wait_for_answer(p, f, op);
	return true;
}
