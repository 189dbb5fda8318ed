/* SPDX-License-Identifier: Apache-2.0 */
/* ticks.h - the processor's own counter of time: a read costs some 25 cycles, half of what a clock costs. */
#ifndef DAEMON_TICKS_H
#define DAEMON_TICKS_H

#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include "clock.h"
#endif

/* Ticks since some moment, at a constant rate that the caller has to measure against a clock: on x86 the time stamp
 * counter, elsewhere nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#else
	return clock_now_ns();
#endif
}

#endif
