/* SPDX-License-Identifier: Apache-2.0 */
/* eventq.h - virtual time: a heap of events, equal times in the order in which they were made. */
#ifndef SIM_EVENTQ_H
#define SIM_EVENTQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_NEVER UINT64_MAX

typedef void event_fn(void *obj, uint64_t arg);

struct event {
	uint64_t when_ns;
	uint64_t seq;
	event_fn *fn;
	void *obj;
	uint64_t arg;
};

struct eventq {
	struct event *heap;
	size_t n, cap;
	uint64_t now_ns;
	uint64_t seq;
	uint64_t fired;
};

/* Forgets all events, sets the clock to 0, keeps the memory. */
void eventq_reset(struct eventq *q);
void eventq_free(struct eventq *q);
/* fn(obj, arg) at when_ns, or now if that is past. */
void eventq_at(struct eventq *q, uint64_t when_ns, event_fn *fn, void *obj, uint64_t arg);
/* Runs the next event. False if there is none. */
bool eventq_step(struct eventq *q);

/* A deadline that moves often and fires rarely: moving it later costs nothing, because the event in the queue
 * looks at due_ns when it fires. */
struct evtimer {
	struct eventq *q;
	void (*fn)(void *obj);
	void *obj;
	uint64_t due_ns;     /* SIM_NEVER: idle */
	uint64_t pending_ns; /* when the valid event fires; SIM_NEVER: none in the queue */
	uint64_t gen;        /* of the valid event */
};

void evtimer_init(struct evtimer *t, struct eventq *q, void (*fn)(void *obj), void *obj);
void evtimer_set(struct evtimer *t, uint64_t when_ns);
void evtimer_cancel(struct evtimer *t);

static inline bool evtimer_armed(const struct evtimer *t)
{
	return t->due_ns != SIM_NEVER;
}

#endif
