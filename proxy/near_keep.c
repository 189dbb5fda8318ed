/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Answered operations are kept, with request and responses, for a host whose response got lost on its LAN. What is kept
 * is in the arena, in the slots where it came: a request below pos_settled is one that was answered, the responses at
 * its positions are its answer. So a restart forgets nothing (near_rebuild.c), and an ATOMIC is replayed, never
 * executed twice. The request's slot goes first, then the responses': an answer that is there in part would be none.
 *
 * Kept until one of
 *   - as many newer ones were answered as a host can have outstanding: it could not have asked for these without it
 *   - KEEP_NS: longer than the local ACK timeout that rdma_cm picks (2.1 s), which a host may stretch fourfold
 *   - where memory or records are scarce, KEEP_SCARCE_NS: longer than all that hosts are known to take at LAN distance
 *     (ConnectX 2 to 16 ms, timeout 14 67 ms).
 *
 * Scarcity never makes it fewer than a host can have outstanding. Answers come in bursts: all that waited for the pair,
 * or behind a lost one, are given at once, while the host's repetition of all of them is on its way already. Who needs
 * a record that is not there is held off until one is old enough (near_take_next()). */
#include "near_priv.h"

#define OPS_KEPT       128 /* answered ones kept per flow: the most that a host has outstanding (rxe) */
#define KEEP_NS        10000000000ull
#define KEEP_SCARCE_NS 250000000ull
#define KEEP_LOOK_NS   500000000ull /* it may have become scarce meanwhile */

/* Less than that part of it is left: of its chunks, too, as what is kept is often little of many of them. */
static bool pool_scarce(const struct proxy *p, enum arena_pool pool, uint32_t part)
{
	return min_u64(pool_free(p, pool), arena_room(p->arena, pool, LAN_PKT_MAX)) <
	       arena_capacity(p->arena, pool) / part;
}

static bool scarce(const struct proxy *p)
{
	return !rd_op_left(p, OP_FOR_KEPT) || pool_scarce(p, POOL_WAN, 2) || pool_scarce(p, POOL_LAN, 4);
}

static uint64_t keep_ns(const struct proxy *p)
{
	return scarce(p) ? KEEP_SCARCE_NS : KEEP_NS;
}

static bool keep(const struct proxy *p, const struct near_flow *f, const struct rd_op *op)
{
	if (op->due || FAULT(FAULT_NOT_KEPT))
		return op->due;
	return f->ops_done <= (FAULT(FAULT_FEW_ANSWERS_KEPT) ? 16 : OPS_KEPT) && p->now_ns < op->done_ns + keep_ns(p);
}

/* Its responses are freed by the next ticks. One whose request is not below pos_freed has it freed when that comes by. */
void near_op_free(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, op->pos);

	if (slot != SLOT_NONE && op->pos < f->pos_freed) {
		f->kept_bytes -= arena_class_bytes(arena_hdr(p->arena, slot)->len);
		slot_release(p, slot);
	}
	rd_op_give(p, op);
}

static void forget(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	f->ops_done -= op->done_ns != 0;
	f->repeats -= op->done_ns && op->due;
	f->nops--;
	near_room_end(p, f, op);
	near_op_free(p, f, op);
}

static void forget_all(struct proxy *p, struct near_flow *f)
{
	for (struct dnode *n = f->ops.next; n != &f->ops; n = n->next)
		near_room_end(p, f, dlist_entry(n, struct rd_op, node));
	dlist_move_all(&f->ops_dead, &f->ops);
	f->op_open = NULL;
	f->nops = f->ops_done = f->repeats = 0;
}

void near_ops_retire(struct proxy *p, struct near_flow *f, bool all)
{
	if (all)
		forget_all(p, f);
	while (!dlist_empty(&f->ops)) {
		struct rd_op *op = dlist_entry(dlist_first(&f->ops), struct rd_op, node);

		if (keep(p, f, op))
			break;
		if (!work_take(p)) {
			timer_set(&p->timers, &f->retire, p->now_ns);
			return;
		}
		forget(p, f, op);
	}
	if (f->ops_done) {
		struct rd_op *op = dlist_entry(dlist_first(&f->ops), struct rd_op, node);

		timer_set(&p->timers, &f->retire,
		          min_u64(max_u64(op->done_ns + keep_ns(p), p->now_ns + KEEP_SCARCE_NS / 4),
		                  p->now_ns + KEEP_LOOK_NS));
	}
}

/* --- after a restart --- */

void near_ops_adopt(struct proxy *p, struct near_flow *f, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct roce_pkt pkt;
	struct rd_op *op = NULL;

	if (roce_parse(arena_data(p->arena, slot), h->len, &pkt) == DROP_NONE && h->pos + h->psns <= f->pos_settled &&
	    !FAULT(FAULT_FORGET_ANSWERS))
		op = near_op_new(p, f, &pkt, h->pos, h->psns, h->msn, h->fp, OP_FOR_NEAR);
	if (!op) {
		arena_free(p->arena, slot);
		return;
	}
	op->due = false;
	op->done_ns = p->now_ns;
	f->ops_done++;
	near_op_insert(f, op);
	f->kept_bytes += arena_class_bytes(h->len);
	f->held_bytes += arena_class_bytes(h->len);
}

void near_resp_adopt(struct proxy *p, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct near_flow *f = &p->near[h->flow];
	struct rd_op *op = near_resp_op(f, h->pos);

	if (op)
		dlist_append(&op->resps, &arena_meta(p->arena, slot)->node);
	else
		slot_release(p, slot);
}
