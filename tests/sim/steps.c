/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

#include <stdbool.h>
#include <time.h>

#include "proxy/arena/arena_priv.h"

void __sanitizer_cov_trace_pc(void);

struct steps_call steps_most, steps_longest;

/* Of a function's code, in front of its first step; with ASan it puts up its guards there. A later step that lies so near
 * is one more place to be killed at. */
#ifdef __SANITIZE_ADDRESS__
#define ENTRY_LEN 768
#else
#define ENTRY_LEN 64
#endif

#define NEVER (UINT64_MAX / 2)

/* Counted down from one look to the next, which makes a step an instruction or two: look_at - left steps until now. */
static uint64_t left = NEVER, look_at = NEVER;
static uint64_t steps_before, ns_before, kill_at = NEVER;
static uint32_t kill_stores;
static jmp_buf *kill_where;

static uint64_t steps_now(void)
{
	return look_at - left;
}

static void look_after(uint64_t n)
{
	look_at = steps_now() + n;
	left = n;
}

static bool enters(uintptr_t pc, uintptr_t function)
{
	return pc - function < ENTRY_LEN;
}

/* A step that has just begun is the first one of a function by which the arena changes. */
static bool is_store(uintptr_t pc)
{
	return enters(pc, (uintptr_t)arena_desc_store) || enters(pc, (uintptr_t)arena_commit) ||
	       enters(pc, (uintptr_t)arena_amend) || enters(pc, (uintptr_t)arena_slot_drop);
}

/* This step is the one to be killed at, or the next look is set. */
static __attribute__((noinline)) void look(uintptr_t pc)
{
	if (steps_now() < kill_at && (!kill_stores || !is_store(pc) || --kill_stores)) {
		look_after(kill_stores ? 1 : kill_at - steps_now());
		return;
	}
	steps_kill_never();
	longjmp(*kill_where, 1);
}

void __sanitizer_cov_trace_pc(void)
{
	if (--left == 0)
		look((uintptr_t)__builtin_return_address(0));
}

void steps_kill_after(uint64_t n, uint32_t stores, jmp_buf *where)
{
	kill_at = n ? steps_now() + n : NEVER;
	kill_stores = stores;
	kill_where = where;
	look_after(stores ? 1 : kill_at - steps_now());
}

void steps_kill_never(void)
{
	kill_at = NEVER;
	kill_stores = 0;
	look_after(NEVER - steps_now());
}

uint32_t steps_kill_stores(void)
{
	return kill_stores;
}

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void steps_begin(void)
{
	ns_before = clock_ns();
	steps_before = steps_now();
}

uint64_t steps_end(const char *what)
{
	struct steps_call c = {.what = what, .steps = steps_now() - steps_before, .ns = clock_ns() - ns_before};

	if (c.steps > steps_most.steps)
		steps_most = c;
	if (c.ns > steps_longest.ns)
		steps_longest = c;
	return c.steps;
}
