/* SPDX-License-Identifier: Apache-2.0 */
/* hist.h - a histogram of nanoseconds: powers of two cut into 16, so that a quantile is right to about 6 %. */
#ifndef WANLINE_HIST_H
#define WANLINE_HIST_H

#include <stdint.h>

#define HIST_SUB     16
#define HIST_BUCKETS (64 * HIST_SUB)

struct hist {
	uint64_t n, max_ns;
	uint64_t bucket[HIST_BUCKETS];
};

void hist_add(struct hist *h, uint64_t ns);
/* Upper edge of the bucket in which the share q (0..1) lies, never above max_ns; 0 if empty. */
uint64_t hist_quantile(const struct hist *h, double q);

#endif
