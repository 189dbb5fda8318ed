/* SPDX-License-Identifier: Apache-2.0 */
#include "eventq.h"

#include <stdio.h>
#include <stdlib.h>

void eventq_reset(struct eventq *q)
{
	q->n = 0;
	q->now_ns = 0;
	q->seq = 0;
	q->fired = 0;
}

void eventq_free(struct eventq *q)
{
	free(q->heap);
	*q = (struct eventq){0};
}

static bool before(const struct event *a, const struct event *b)
{
	return a->when_ns != b->when_ns ? a->when_ns < b->when_ns : a->seq < b->seq;
}

static void grow(struct eventq *q)
{
	size_t cap = q->cap ? 2 * q->cap : 1024;

	q->heap = realloc(q->heap, cap * sizeof(*q->heap));
	if (!q->heap) {
		perror("lrsim: event queue");
		exit(2);
	}
	q->cap = cap;
}

void eventq_at(struct eventq *q, uint64_t when_ns, event_fn *fn, void *obj, uint64_t arg)
{
	struct event e = {when_ns < q->now_ns ? q->now_ns : when_ns, q->seq++, fn, obj, arg};
	size_t i;

	if (q->n == q->cap)
		grow(q);
	for (i = q->n++; i > 0; i = (i - 1) / 4) {
		struct event *parent = &q->heap[(i - 1) / 4];

		if (!before(&e, parent))
			break;
		q->heap[i] = *parent;
	}
	q->heap[i] = e;
}

/* Puts `e` where the root was. */
static void sift_down(struct eventq *q, const struct event *e)
{
	size_t i = 0;

	for (;;) {
		size_t first = 4 * i + 1, best = first;

		if (first >= q->n)
			break;
		for (size_t c = first + 1; c < first + 4 && c < q->n; c++)
			if (before(&q->heap[c], &q->heap[best]))
				best = c;
		if (!before(&q->heap[best], e))
			break;
		q->heap[i] = q->heap[best];
		i = best;
	}
	q->heap[i] = *e;
}

bool eventq_step(struct eventq *q)
{
	struct event e, last;

	if (q->n == 0)
		return false;
	e = q->heap[0];
	last = q->heap[--q->n];
	if (q->n > 0)
		sift_down(q, &last);
	q->now_ns = e.when_ns;
	q->fired++;
	e.fn(e.obj, e.arg);
	return true;
}

void evtimer_init(struct evtimer *t, struct eventq *q, void (*fn)(void *obj), void *obj)
{
	*t = (struct evtimer){q, fn, obj, SIM_NEVER, SIM_NEVER, 0};
}

static void evtimer_push(struct evtimer *t);

static void evtimer_fire(void *obj, uint64_t gen)
{
	struct evtimer *t = obj;

	if (gen != t->gen)
		return;
	t->pending_ns = SIM_NEVER;
	if (t->due_ns == SIM_NEVER)
		return;
	if (t->due_ns > t->q->now_ns) {
		evtimer_push(t);
		return;
	}
	t->due_ns = SIM_NEVER;
	t->fn(t->obj);
}

static void evtimer_push(struct evtimer *t)
{
	t->pending_ns = t->due_ns;
	eventq_at(t->q, t->due_ns, evtimer_fire, t, ++t->gen);
}

void evtimer_set(struct evtimer *t, uint64_t when_ns)
{
	t->due_ns = when_ns;
	if (when_ns < t->pending_ns)
		evtimer_push(t);
}

void evtimer_cancel(struct evtimer *t)
{
	t->due_ns = SIM_NEVER;
}
