/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h - how much work one call into the core does. For the simulator, the fuzzers, test_bounds.c and test_kill.c.
 *
 * The compiler counts: the core of these builds has -fsanitize-coverage=trace-pc, which calls us at the beginning of
 * each stretch of code without a branch. So no loop of the core can be forgotten, and the count is the same on every
 * machine. A step takes 1 ns if what it needs is in the cache, and some 20 ns where each one looks at another packet
 * that is not. */
#ifndef SIM_STEPS_H
#define SIM_STEPS_H

#include <setjmp.h>
#include <stdint.h>

/* The most that one call may take: some hundred microseconds, whatever came in. An ordinary one takes 100 to 1,000;
 * 256 packets that one call works off (CALL_WORK) take 40,000. */
#define STEPS_MAX 60000u

struct steps_call {
	const char *what; /* name of the call */
	uint64_t steps, ns;
};

/* Of all calls since the process began: the one with most steps, and the one that took longest. */
extern struct steps_call steps_most, steps_longest;

void steps_begin(void);
/* Steps since steps_begin(). */
uint64_t steps_end(const char *what);

/* kill -9 in the middle of a call: the n-th step from now on, or the n-th time that the arena is to be written where a
 * rebuild looks, goes to `where` instead. 0: never by this. */
void steps_kill_after(uint64_t n, uint32_t stores, jmp_buf *where);
void steps_kill_never(void);
/* Of those stores, how many are left. */
uint32_t steps_kill_stores(void);

#endif
