/* SPDX-License-Identifier: Apache-2.0 */
/* timer.c - a 4-ary heap of pointers: half as deep as a binary one, children in one cache line.
 *
 * Each timer knows its place, so that moving and cancelling need no search. Among equal deadlines the order depends
 * only on the earlier calls: runs repeat exactly. */
#include "timer.h"

enum { ARITY = 4 };

static void put(struct timer_heap *h, uint32_t pos, struct timer *t)
{
	h->heap[pos] = t;
	t->heap_pos = pos;
}

static void sift_up(struct timer_heap *h, uint32_t pos, struct timer *t)
{
	while (pos) {
		uint32_t parent = (pos - 1) / ARITY;

		if (h->heap[parent]->when_ns <= t->when_ns)
			break;
		put(h, pos, h->heap[parent]);
		pos = parent;
	}
	put(h, pos, t);
}

/* The earliest of pos's children; h->n if there is none. */
static uint32_t first_child(const struct timer_heap *h, uint32_t pos)
{
	uint32_t first = ARITY * pos + 1, best = first;

	if (first >= h->n)
		return h->n;
	for (uint32_t i = first + 1; i < first + ARITY && i < h->n; i++)
		if (h->heap[i]->when_ns < h->heap[best]->when_ns)
			best = i;
	return best;
}

static void sift_down(struct timer_heap *h, uint32_t pos, struct timer *t)
{
	for (;;) {
		uint32_t child = first_child(h, pos);

		if (child == h->n || h->heap[child]->when_ns >= t->when_ns)
			break;
		put(h, pos, h->heap[child]);
		pos = child;
	}
	put(h, pos, t);
}

/* Moves t up or down from pos to its place; pos is empty or holds t. */
static void settle(struct timer_heap *h, uint32_t pos, struct timer *t)
{
	if (pos && h->heap[(pos - 1) / ARITY]->when_ns > t->when_ns)
		sift_up(h, pos, t);
	else
		sift_down(h, pos, t);
}

void timer_heap_init(struct timer_heap *h, struct timer **heap, uint32_t cap)
{
	h->heap = heap;
	h->n = 0;
	h->cap = cap;
}

void timer_init(struct timer *t, uint8_t kind, uint32_t owner)
{
	t->when_ns = TIMER_NEVER;
	t->heap_pos = TIMER_IDLE;
	t->owner = owner;
	t->kind = kind;
}

void timer_set(struct timer_heap *h, struct timer *t, uint64_t when_ns)
{
	t->when_ns = when_ns;
	if (timer_armed(t)) {
		settle(h, t->heap_pos, t);
		return;
	}
	if (h->n == h->cap)
		__builtin_trap(); /* more timers than the caller counted: a lost deadline would hang a flow unseen */
	sift_up(h, h->n++, t);
}

void timer_set_earlier(struct timer_heap *h, struct timer *t, uint64_t when_ns)
{
	if (!timer_armed(t) || when_ns < t->when_ns)
		timer_set(h, t, when_ns);
}

void timer_cancel(struct timer_heap *h, struct timer *t)
{
	uint32_t pos = t->heap_pos;
	struct timer *last;

	if (!timer_armed(t))
		return;
	t->heap_pos = TIMER_IDLE;
	last = h->heap[--h->n];
	if (last != t)
		settle(h, pos, last);
}

uint64_t timer_next(const struct timer_heap *h)
{
	return h->n ? h->heap[0]->when_ns : TIMER_NEVER;
}

struct timer *timer_pop(struct timer_heap *h, uint64_t now_ns)
{
	struct timer *t;

	if (timer_next(h) > now_ns || !h->n)
		return NULL;
	t = h->heap[0];
	timer_cancel(h, t);
	return t;
}
