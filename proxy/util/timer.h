/* SPDX-License-Identifier: Apache-2.0 */
/* timer.h - deadlines in virtual or real time: a 4-ary heap of embedded timers. */
#ifndef PROXY_TIMER_H
#define PROXY_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIMER_NEVER UINT64_MAX
#define TIMER_IDLE  UINT32_MAX /* heap_pos of a timer that is not armed */

/* Embedded in the object that it wakes. `kind` and `owner` are the caller's; timer.c only moves timers. */
struct timer {
	uint64_t when_ns;
	uint32_t heap_pos; /* TIMER_IDLE if not armed */
	uint32_t owner;
	uint8_t kind;
};

struct timer_heap {
	struct timer **heap; /* given by the caller, `cap` entries */
	uint32_t n, cap;
};

void timer_heap_init(struct timer_heap *h, struct timer **heap, uint32_t cap);
void timer_init(struct timer *t, uint8_t kind, uint32_t owner);

/* Arms, or moves if armed. Never fails: the heap has one place per timer that exists. */
void timer_set(struct timer_heap *h, struct timer *t, uint64_t when_ns);
/* As timer_set, but only if not armed yet or armed for later. */
void timer_set_earlier(struct timer_heap *h, struct timer *t, uint64_t when_ns);
void timer_cancel(struct timer_heap *h, struct timer *t);

static inline bool timer_armed(const struct timer *t)
{
	return t->heap_pos != TIMER_IDLE;
}

/* Earliest deadline, TIMER_NEVER if none. */
uint64_t timer_next(const struct timer_heap *h);
/* Takes the earliest timer that is due at now_ns, disarmed; NULL if none is. */
struct timer *timer_pop(struct timer_heap *h, uint64_t now_ns);

#endif
