/* SPDX-License-Identifier: Apache-2.0 */
/* hist.h - a histogram of latencies in nanoseconds, 0.4 % wide buckets. */
#ifndef RCPERF_HIST_H
#define RCPERF_HIST_H

#include <stdint.h>

#define HIST_SUB_BITS 8
#define HIST_SUB      (1 << HIST_SUB_BITS) /* buckets per power of two */

struct hist {
	uint64_t n;
	uint64_t max_ns;
	uint64_t bucket[(65 - HIST_SUB_BITS) * HIST_SUB];
};

void hist_add(struct hist *h, uint64_t ns);

/* Upper edge of the bucket in which this share (0..1) of all values is reached; 0 if there are none. */
uint64_t hist_quantile(const struct hist *h, double share);

#endif
