/* SPDX-License-Identifier: Apache-2.0 */
/* near_keep.c - keeps the results of operations for hosts that ask again.
 *
 * Theory of operation
 *
 * Answered operations are kept for a host whose response got lost on its LAN. The request of each stays in its slot in
 * the arena. A request below pos_settled was answered, so a rebuild knows which were (near_rebuild.c).
 *
 *   ATOMIC   its result stays in the arena as well, and is replayed: an ATOMIC is never executed twice
 *   READ     a responder executes a repeated READ anew (IBTA 9.7.5.1.3), so each response counts as free once the host
 *            was given it. Given responses stay, up to 1/KEPT_PART of the pool, and the oldest is freed first: a host
 *            that asks again within some LAN round trips gets them from here. Others are read again (near_again.c).
 *            If a packet finds no slot, slot.c frees given responses for it.
 *
 * Responses that were not given yet are on their flow's list `resps`. sweep_resps() frees, a few at a time, those that
 * no host will ask for any more: their host has gone on, or was silent for EXPIRE_NS.
 *
 * An operation is kept until one of
 *   - as many newer ones were answered as a host can have outstanding: the host must have had this answer before
 *   - KEEP_NS: longer than the local ACK timeout that rdma_cm picks (2.1 s), which a host may stretch fourfold
 *   - where memory or records are scarce, KEEP_SCARCE_NS: longer than all that hosts are known to take at LAN distance
 *     (ConnectX 2 to 16 ms, timeout 14 67 ms).
 *
 * Scarcity shortens the time, never the number kept. Answers come in bursts: those that waited for the pair, or behind
 * a lost one, are given at once, while the host's repetitions of all of them are already on their way. A host whose
 * request finds no free record gets RNR NAKs until one is old enough (near_take_next()). */
#include "near_priv.h"

#define KEPT_PART      16 /* given responses have at most this fraction of the pool */
#define SWEEP          32 /* responses looked at in one call */
#define OPS_PER_WORK   64 /* walking so many operations costs as much as one packet */
#define EXPIRE_NS      30000000000ull /* a host that is silent for so long has given up: retry counts end sooner */
#define OPS_KEPT       128 /* answered ones kept per flow: the most that a host has outstanding (rxe) */
#define KEEP_NS        10000000000ull
#define KEEP_SCARCE_NS 250000000ull
#define REPEAT_NS      100000000ull /* a host that lacks an answer repeats sooner */
#define KEEP_LOOK_NS   500000000ull /* memory may have become scarce meanwhile */

/* True if less than 1/part of the pool is free, counted in bytes or in whole chunks: kept answers are often little data
 * in many chunks. */
static bool pool_scarce(const struct proxy *p, enum arena_pool pool, uint32_t part)
{
	return min_u64(pool_free(p, pool),
	               arena_room(p->arena, pool, LAN_PKT_MAX) + (pool == POOL_WAN ? p->given_bytes : 0)) <
	       arena_capacity(p->arena, pool) / part;
}

static bool records_scarce(const struct proxy *p)
{
	return !rd_op_left(p, OP_FOR_KEPT) || pool_scarce(p, POOL_WAN, 2) || pool_scarce(p, POOL_LAN, 4);
}

static uint64_t keep_ns(const struct proxy *p)
{
	return records_scarce(p) ? KEEP_SCARCE_NS : KEEP_NS;
}

static bool op_is_kept(const struct proxy *p, const struct near_flow *f, const struct rd_op *op)
{
	if (op->due || FAULT(FAULT_ANSWERS_NOT_KEPT))
		return op->due;
	return f->ops_done <= (FAULT(FAULT_FEW_ANSWERS_KEPT) ? 16 : OPS_KEPT) && p->now_ns < op->done_ns + keep_ns(p);
}

/* Work of one near_op_at(). */
static uint32_t op_look_work(const struct near_flow *f)
{
	return 1 + f->nops / OPS_PER_WORK;
}

/* --- responses --- */

/* A response of an earlier incarnation of the flow's place is freed on the way. */
uint32_t near_resp_find(struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	uint32_t slot = arena_find(p->arena, SLOT_RESP_NEAR, f->idx, pos);

	if (slot == SLOT_NONE || arena_hdr(p->arena, slot)->inc == f->inc)
		return slot;
	slot_given_release(p, slot);
	return SLOT_NONE;
}

bool near_resp_at_hand(struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	uint32_t slot = near_resp_find(p, f, pos);

	return slot != SLOT_NONE && arena_hdr(p->arena, slot)->state == SLOT_COMMITTED;
}

void near_resp_taken(struct proxy *p, struct near_flow *f, uint32_t slot)
{
	dlist_append(&f->resps, &arena_meta(p->arena, slot)->node);
	f->resp_bytes += arena_class_bytes(arena_hdr(p->arena, slot)->len);
}

/* Stops counting the slot as the flow's. False: it is on the list of given responses instead. */
static bool resp_uncount(struct proxy *p, struct near_flow *f, uint32_t slot)
{
	if (arena_meta(p->arena, slot)->queued == SQ_GIVEN)
		return false;
	f->resp_bytes -= arena_class_bytes(arena_hdr(p->arena, slot)->len);
	return true;
}

void near_resp_drop(struct proxy *p, struct near_flow *f, uint32_t slot)
{
	if (resp_uncount(p, f, slot))
		slot_release(p, slot);
	else
		slot_given_release(p, slot);
}

void near_resp_drop_reread(struct proxy *p, struct near_flow *f, struct rd_op *op, uint32_t slot)
{
	op->seen_upto = op->pos + op->psns;
	op->reread = true;
	near_resp_drop(p, f, slot);
}

static bool given_is_much(const struct proxy *p)
{
	return FAULT(FAULT_ANSWERS_NOT_KEPT) || p->given_bytes > arena_capacity(p->arena, POOL_WAN) / KEPT_PART;
}

void near_resp_given(struct proxy *p, struct near_flow *f, uint32_t slot)
{
	if (resp_uncount(p, f, slot))
		slot_given(p, slot);
	if (given_is_much(p))
		slot_given_free(p, 2);
}

/* The slot of the response at n if it is a READ's beyond *pos, and moves *pos there; else `else_slot`. */
static uint32_t higher_read_resp(struct proxy *p, const struct near_flow *f, const struct dnode *n, uint64_t *pos,
                                 uint32_t else_slot)
{
	uint32_t slot = slot_of_meta(p, dlist_entry(n, struct slot_meta, node));
	uint64_t at = arena_hdr(p->arena, slot)->pos;
	const struct rd_op *op;

	if (at <= *pos)
		return else_slot;
	work_done(p, op_look_work(f));
	op = near_op_at(f, at);
	if (!op || op->opcode != RC_READ_REQUEST)
		return else_slot;
	*pos = at;
	return slot;
}

/* The highest response beyond pos, among the SWEEP / 2 that came last and as many that came first. The highest one
 * mostly came last: then the others need no look at their operations. SLOT_NONE: none. */
static uint32_t highest_resp_beyond(struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	const struct dnode *n = f->resps.prev;
	uint32_t slot = SLOT_NONE;

	for (unsigned i = 0; i < SWEEP / 2 && n != &f->resps; i++, n = n->prev)
		slot = higher_read_resp(p, f, n, &pos, slot);
	n = f->resps.next;
	for (unsigned i = 0; i < SWEEP / 2 && n != &f->resps; i++, n = n->next)
		slot = higher_read_resp(p, f, n, &pos, slot);
	return slot;
}

bool near_resp_evict(struct proxy *p, struct near_flow *f, uint64_t pos)
{
	uint32_t slot = highest_resp_beyond(p, f, pos);

	if (slot == SLOT_NONE)
		return false;
	near_resp_drop_reread(p, f, near_op_at(f, arena_hdr(p->arena, slot)->pos), slot);
	count(p, CTR_EVICTED, 1);
	return true;
}

/* Looks at a few responses of the flow in turn, and frees those that no operation waits for any more. */
static void sweep_resps(struct proxy *p, struct near_flow *f)
{
	bool silent = p->now_ns >= f->last_rx_ns + EXPIRE_NS;

	for (unsigned i = 0; i < SWEEP && p->work_left && !dlist_empty(&f->resps); i++) {
		struct dnode *n = dlist_first(&f->resps);
		uint32_t slot = slot_of_meta(p, dlist_entry(n, struct slot_meta, node));
		uint64_t pos = arena_hdr(p->arena, slot)->pos;
		struct rd_op *op = near_op_at(f, pos);
		bool read = op && op->opcode == RC_READ_REQUEST;

		work_done(p, op_look_work(f));
		if ((op || f->psns_unknown) && !(read && (silent || !near_resp_awaited(op, pos)))) {
			dlist_rotate(&f->resps);
			continue;
		}
		if (read)
			near_resp_drop_reread(p, f, op, slot);
		else
			near_resp_drop(p, f, slot);
	}
}

/* Moves all responses of the flow to the list of given ones: they count as free from here on. */
static void resps_to_given(struct proxy *p, struct near_flow *f)
{
	struct dnode *n = dlist_first(&f->resps);

	if (!n)
		return;
	p->given_bytes += f->resp_bytes;
	f->resp_bytes = 0;
	timer_set_earlier(&p->timers, &p->given_timer, p->now_ns);
	dlist_move_all(&p->given_resps, &f->resps);
}

/* --- operations --- */

/* A request at or beyond pos_freed is freed by free_below(), the responses by later ticks. */
void near_op_free(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, op->pos);

	if (slot != SLOT_NONE && op->pos < f->pos_freed) {
		near_count_held(p, f, 0, -(int64_t)arena_class_bytes(arena_hdr(p->arena, slot)->len));
		slot_release(p, slot);
	}
	rd_op_give(p, op);
}

static void op_forget(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	uint32_t slot = op->opcode == RC_READ_REQUEST ? SLOT_NONE : near_resp_find(p, f, op->pos);

	near_again_end(f, op);
	f->ops_done -= op->done_ns != 0;
	f->repeats -= op->done_ns && op->due;
	f->nops--;
	near_reserve_end(p, f, op);
	near_op_free(p, f, op); /* first the request: a rebuild takes one that it finds as answered */
	if (slot != SLOT_NONE)
		near_resp_drop(p, f, slot);
}

static void ops_forget_all(struct proxy *p, struct near_flow *f)
{
	for (struct dnode *n = f->ops.next; n != &f->ops; n = n->next)
		near_reserve_end(p, f, dlist_entry(n, struct rd_op, node));
	dlist_move_all(&f->ops_dead, &f->ops);
	f->op_open = NULL;
	f->nops = f->ops_done = f->repeats = f->agains_due = 0;
}

void near_next_answer(struct proxy *p, struct near_flow *f)
{
	const struct rd_op *due = near_op_due(f);

	if (due && near_resp_at_hand(p, f, due->next) && !FAULT(FAULT_NEXT_ANSWER_HELD))
		dlist_append_once(&p->resp_list, &f->resp_node);
}

static uint64_t repeat_ns(const struct proxy *p)
{
	return REPEAT_NS + 2 * proxy_rtt_ns(p);
}

void near_repeat_begins(struct proxy *p, struct near_flow *f)
{
	f->repeats++;
	timer_set_earlier(&p->timers, &f->retire, p->now_ns + repeat_ns(p));
}

/* Ends repeated answers whose hosts last asked so long ago that they must have the answer: the repeated request and the
 * answer had crossed. Such an answer would hold back all ACKs, and the answers behind it, which are here: the next one
 * is given now. A host that lacks the answer asks once more. */
static void end_repeats(struct proxy *p, struct near_flow *f)
{
	bool answers = p->wan_up && !near_is_stalled(f); /* else the host may lack what nobody can give now */

	for (struct dnode *n = f->ops.next; f->repeats && n != &f->ops && answers && work_take(p); n = n->next) {
		struct rd_op *op = dlist_entry(n, struct rd_op, node);
		uint64_t asked_ns = max_u64(op->again_ns, op->again_heard_ns);

		if (op->done_ns && op->due && p->now_ns >= asked_ns + repeat_ns(p) &&
		    !near_resp_at_hand(p, f, op->next))
			near_op_given(p, f, op);
	}
	near_next_answer(p, f);
	if (f->ack_owed && !f->repeats) {
		f->ack_owed = false;
		near_ack_schedule(p, f, DUE_ACK);
	}
}

void near_ops_retire(struct proxy *p, struct near_flow *f, bool all)
{
	if (all) {
		ops_forget_all(p, f);
	} else {
		sweep_resps(p, f);
		end_repeats(p, f);
	}
	while (!dlist_empty(&f->ops)) {
		struct rd_op *op = dlist_entry(dlist_first(&f->ops), struct rd_op, node);

		if (op_is_kept(p, f, op) || op->pos >= f->pos_freed)
			break; /* a request that near_work() has still to free would outlive its result */
		if (!work_take(p)) {
			timer_set(&p->timers, &f->retire, p->now_ns);
			return;
		}
		op_forget(p, f, op);
	}
	if (all)
		resps_to_given(p, f);
	if (!dlist_empty(&f->resps))
		timer_set(&p->timers, &f->retire, p->now_ns + KEEP_LOOK_NS);
	if (f->ops_done) {
		struct rd_op *op = dlist_entry(dlist_first(&f->ops), struct rd_op, node);

		timer_set(&p->timers, &f->retire,
		          min_u64(max_u64(op->done_ns + keep_ns(p), p->now_ns + KEEP_SCARCE_NS / 4),
		                  p->now_ns + KEEP_LOOK_NS));
	}
	if (f->repeats)
		timer_set_earlier(&p->timers, &f->retire, p->now_ns + REPEAT_NS / 2);
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
	op->resumed = true;
	op->seen_upto = op->pos + op->psns;
	op->done_ns = p->now_ns;
	f->ops_done++;
	near_op_insert(f, op);
	near_count_held(p, f, arena_class_bytes(h->len), arena_class_bytes(h->len));
}

void near_resp_adopt(struct proxy *p, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct near_flow *f = &p->near[h->flow];
	const struct rd_op *op = near_op_at(f, h->pos);
	bool unknown = f->psns_unknown && h->pos >= f->pos_next; /* of a READ whose end is not known */

	if (!unknown && !(op && (op->due || op->opcode != RC_READ_REQUEST))) {
		slot_release(p, slot);
		return;
	}
	near_resp_taken(p, f, slot);
	if (!FAULT(FAULT_RESP_LENGTH_NOT_ADOPTED))
		near_resp_tells(p, f, slot); /* a kill may have come before that was stored */
}
