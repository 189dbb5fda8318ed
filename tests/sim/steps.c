/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

#include <time.h>

void __sanitizer_cov_trace_pc(void);

struct steps_call steps_most, steps_longest;

static uint64_t steps, steps_before, ns_before;

void __sanitizer_cov_trace_pc(void)
{
	steps++;
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
	steps_before = steps;
}

uint64_t steps_end(const char *what)
{
	struct steps_call c = {.what = what, .steps = steps - steps_before, .ns = clock_ns() - ns_before};

	if (c.steps > steps_most.steps)
		steps_most = c;
	if (c.ns > steps_longest.ns)
		steps_longest = c;
	return c.steps;
}
