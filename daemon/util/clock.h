/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the main thread's clock. */
#ifndef DAEMON_CLOCK_H
#define DAEMON_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S  1000000000ull
#define NS_PER_MS 1000000ull

static inline uint64_t clock_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Nanoseconds since 1970, of a clock that somebody may set at any time. */
static inline int64_t clock_wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * (int64_t)NS_PER_S + (int64_t)ts.tv_nsec;
}

#endif
