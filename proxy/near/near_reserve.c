/* SPDX-License-Identifier: Apache-2.0 */
/* near_reserve.c - reserves room for the responses of a READ before the READ crosses.
 *
 * Theory of operation
 *
 * A READ brings as many bytes as it asks for, even if the pool has no room for them. If all READs crossed at once,
 * their responses would meet a full pool, be refused and be sent again, and many READs would be here in part and none
 * complete. So a request crosses when there is room for all its responses:
 *
 *     free bytes of the pool of the WAN, above its reserve
 *     |-- reserved for answers that are on their way --|-- a quarter at least: for others --|
 *
 * The reservation is in bytes, not slots. Each response that arrives uses its part, and the last one gives back the
 * rest. Reserved bytes are given neither to other packets (slot_take()) nor as credit (share_left()). Free bytes in
 * chunks of smaller slots, where kept answers lie, are no room for large responses, so a request waits for slots of its
 * response's size as well.
 *
 * Flows that find no room wait in order of arrival, and their hosts get RNR NAKs when they ask again. A request for
 * more than half of the pool counts as half. No flow waits for ever: after WAIT_MAX_NS the first one crosses without
 * room, one per WAIT_MAX_NS, and none while the line is silent. If all flows crossed that a cut has kept waiting, the
 * pool would fill with incomplete answers. A request crosses after WAIT_UNHELD_NS if its host counts RNR NAKs, or has
 * no pair yet: such a host is not sent RNR NAKs, and its QP would fail. A request to a stalled responder crosses at
 * once without a reservation, which would keep the room from others for nothing. */
#include "near_priv.h"

#include "proxy/wan/share.h"

#define LOOK_NS        1000000ull
#define WAIT_MAX_NS    1000000000ull /* longer than answers are kept where memory is scarce (near_keep.c) */
#define WAIT_UNHELD_NS 100000000ull  /* ConnectX gives up after 300 ms of silence */
#define HEADERS        84            /* of a response: IPv6, UDP, BTH, AETH or AtomicAckETH, ICRC */

/* The number of responses that op brings, and the slot bytes of each. A PMTU that is not known counts as 1024. */
static uint32_t responses_of(const struct near_flow *f, const struct rd_op *op, uint32_t *each)
{
	uint16_t pmtu = f->pmtu ? f->pmtu : 1024;

	*each = arena_class_bytes((uint16_t)(HEADERS + (op->opcode == RC_READ_REQUEST ? pmtu : 8)));
	return op->opcode == RC_READ_REQUEST ? roce_read_psns(op->len, pmtu) : 1;
}

/* True if the host cannot be held off: it counts RNR NAKs, or its QPN is not known yet. */
static bool cannot_be_held_off(const struct near_flow *f)
{
	return f->rnr_retry != RNR_RETRY_INFINITE || f->pairing == PAIR_LEARNING;
}

bool near_reserve_waited_enough(const struct proxy *p, const struct near_flow *f)
{
	if (!dnode_on(&f->reserve_node))
		return false;
	if (cannot_be_held_off(f))
		return p->now_ns >= f->reserve_wait_ns + WAIT_UNHELD_NS;
	return dlist_first(&p->reserve_waiting) == &f->reserve_node &&
	       p->now_ns >= max_u64(f->reserve_wait_ns, p->room_exceeded_ns) + WAIT_MAX_NS &&
	       p->now_ns < p->last_rx_ns + 2 * p->cfg.keepalive_ns;
}

/* Free bytes beyond the pool's reserve and beyond reserved_bytes, as far as there are slots for such responses. */
static uint64_t room_left(const struct proxy *p, uint32_t each)
{
	uint64_t slots = arena_room(p->arena, POOL_WAN, (uint16_t)each) + p->given_bytes,
	         taken = pool_reserve(p, POOL_WAN) + p->reserved_bytes;

	return min_u64(share_left(p, POOL_WAN), slots > taken ? slots - taken : 0);
}

static bool responses_fit(const struct proxy *p, const struct near_flow *f, uint64_t need, uint32_t each)
{
	uint64_t for_answers = (room_left(p, each) + p->reserved_bytes) / 4 * 3;

	if (!dlist_empty(&p->reserve_waiting) && dlist_first(&p->reserve_waiting) != &f->reserve_node)
		return false;
	return p->reserved_bytes + min_u64(need, arena_capacity(p->arena, POOL_WAN) / 2) <= for_answers;
}

/* True if the request may cross: there is room, or it has waited for long enough. */
static bool may_go(struct proxy *p, const struct near_flow *f, uint64_t need, uint32_t each)
{
	if (responses_fit(p, f, need, each))
		return true;
	if (!near_reserve_waited_enough(p, f))
		return false;
	if (!cannot_be_held_off(f))
		p->room_exceeded_ns = p->now_ns;
	return true;
}

uint32_t near_reserve_most(const struct proxy *p, const struct near_flow *f, const struct rd_op *op)
{
	uint32_t each;

	responses_of(f, op, &each);
	return (uint32_t)(arena_capacity(p->arena, POOL_WAN) / 2 / each);
}

static void op_reserve(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	uint32_t each, n = responses_of(f, op, &each);

	op->room_each = (uint16_t)each;
	op->room = (uint32_t)min_u64(n, arena_capacity(p->arena, POOL_WAN) / 2 / each);
	op->windowed = op->room < n;
	f->reserved_bytes += (uint64_t)op->room * each;
	p->reserved_bytes += (uint64_t)op->room * each;
	near_credit_moved(p, f, op);
}

static void give_back(struct proxy *p, struct near_flow *f, struct rd_op *op, uint32_t n)
{
	f->reserved_bytes -= (uint64_t)n * op->room_each;
	p->reserved_bytes -= (uint64_t)n * op->room_each;
	op->room -= n;
}

static void look_at_unheld_later(struct proxy *p, struct near_flow *f)
{
	dlist_remove(&f->unheld_node);
	f->unheld_look_ns = p->now_ns + WAIT_UNHELD_NS;
	dlist_append(&p->reserve_unheld, &f->unheld_node);
}

static void wait_for_room(struct proxy *p, struct near_flow *f)
{
	if (!dnode_on(&f->reserve_node)) {
		dlist_append(&p->reserve_waiting, &f->reserve_node);
		f->reserve_wait_ns = p->now_ns;
		count(p, CTR_READS_HELD, 1);
	}
	if (cannot_be_held_off(f) && !dnode_on(&f->unheld_node))
		look_at_unheld_later(p, f);
	if (!timer_armed(&p->reserve_timer))
		timer_set(&p->timers, &p->reserve_timer, p->now_ns + LOOK_NS);
}

static void leave_lists(struct near_flow *f)
{
	dlist_remove(&f->reserve_node);
	dlist_remove(&f->unheld_node);
}

static void leave_waiting(struct proxy *p, struct near_flow *f)
{
	if (!dnode_on(&f->reserve_node))
		return;
	leave_lists(f);
	near_reserve_look(p);
}

bool near_reserve_take(struct proxy *p, struct near_flow *f, uint64_t pos)
{
	struct rd_op *op = near_op_at(f, pos);
	uint32_t each, n;

	if (!op || op->done_ns || op->room || !(roce_op(op->opcode)->flags & ROP_VALID) ||
	    FAULT(FAULT_ROOM_NOT_RESERVED))
		return true;
	n = responses_of(f, op, &each);
	if (!near_is_stalled(f) && !may_go(p, f, (uint64_t)n * each, each)) {
		wait_for_room(p, f);
		return false;
	}
	if (!near_is_stalled(f))
		op_reserve(p, f, op);
	leave_waiting(p, f);
	return true;
}

bool near_reserve_use(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	if (!op->room)
		return false;
	give_back(p, f, op, 1);
	return true;
}

/* For a READ larger than its room: the response that was just given has made room for one more, which is reserved. */
void near_reserve_renew(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	if (!op->windowed || near_is_stalled(f) || op->pos + op->psns - op->next <= op->room ||
	    op->room >= arena_capacity(p->arena, POOL_WAN) / 2 / op->room_each)
		return;
	op->room++;
	f->reserved_bytes += op->room_each;
	p->reserved_bytes += op->room_each;
}

uint32_t near_reserve_again(struct proxy *p, struct near_flow *f, struct rd_op *op, uint32_t n)
{
	uint32_t each, more = 0;

	responses_of(f, op, &each);
	if (!op->room)
		op->room_each = (uint16_t)each;
	if (n > op->room) /* room that op has already is for these, too */
		more = (uint32_t)clamp_u64(room_left(p, each) / 2 / each, op->room ? 0 : 1, n - op->room);
	op->room += more;
	f->reserved_bytes += (uint64_t)more * op->room_each;
	p->reserved_bytes += (uint64_t)more * op->room_each;
	return (uint32_t)min_u64(op->room, n);
}

void near_reserve_end(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	give_back(p, f, op, op->room);
	near_reserve_freed(p);
}

void near_reserve_resize(struct proxy *p, struct near_flow *f, struct rd_op *op)
{
	if (!op->room)
		return;
	give_back(p, f, op, op->room);
	op_reserve(p, f, op);
}

void near_reserve_leave(struct proxy *p, struct near_flow *f)
{
	for (struct dnode *n = f->ops.next; n != &f->ops; n = n->next)
		near_reserve_end(p, f, dlist_entry(n, struct rd_op, node));
	leave_waiting(p, f);
}

void near_reserve_freed(struct proxy *p)
{
	if (!dlist_empty(&p->reserve_waiting))
		timer_set(&p->timers, &p->reserve_timer, p->now_ns);
}

/* The first flow that waits for room, or NULL. A flow need not wait any more if its request was settled: the responder had
 * it when an edge came back. */
static struct near_flow *first_waiting(struct proxy *p)
{
	struct dnode *n;

	while ((n = dlist_first(&p->reserve_waiting))) {
		struct near_flow *f = dlist_entry(n, struct near_flow, reserve_node);

		if (f->pos_wan < f->pos_next || !work_take(p))
			return f;
		leave_lists(f);
	}
	return NULL;
}

/* Looks at the first flow, which alone may cross when there is room, and at those whose hosts give up: no call walks over
 * all that wait. */
void near_reserve_look(struct proxy *p)
{
	struct near_flow *f = first_waiting(p);
	struct dnode *n;

	if (!f)
		return;
	near_wan_schedule(p, f);
	while ((n = dlist_first(&p->reserve_unheld))) {
		f = dlist_entry(n, struct near_flow, unheld_node);
		if (p->now_ns < f->unheld_look_ns || !work_take(p))
			break;
		look_at_unheld_later(p, f);
		near_wan_schedule(p, f);
	}
	timer_set(&p->timers, &p->reserve_timer, p->work_left ? p->now_ns + LOOK_NS : p->now_ns);
}
