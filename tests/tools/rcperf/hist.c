// SPDX-License-Identifier: Apache-2.0
#include "hist.h"

#include <stddef.h>

/* Values below HIST_SUB have a bucket each; above, the leading bit picks the row and the next bits the column. */
static size_t bucket_of(uint64_t ns)
{
	unsigned top;

	if (ns < HIST_SUB)
		return (size_t)ns;
	top = 63 - (unsigned)__builtin_clzll(ns);
	return (size_t)(top - HIST_SUB_BITS + 1) * HIST_SUB + (size_t)((ns >> (top - HIST_SUB_BITS)) & (HIST_SUB - 1));
}

static uint64_t upper_edge(size_t b)
{
	size_t row = b / HIST_SUB, col = b % HIST_SUB;

	if (row == 0)
		return b;
	return ((uint64_t)(HIST_SUB + col + 1) << (row - 1)) - 1;
}

void hist_add(struct hist *h, uint64_t ns)
{
	h->bucket[bucket_of(ns)]++;
	h->n++;
	if (ns > h->max_ns)
		h->max_ns = ns;
}

uint64_t hist_quantile(const struct hist *h, double share)
{
	uint64_t need = h->n > 0 ? (uint64_t)(share * (double)(h->n - 1)) : 0, seen = 0;

	for (size_t i = 0; i < sizeof(h->bucket) / sizeof(h->bucket[0]); i++) {
		seen += h->bucket[i];
		if (seen > need || (seen == h->n && seen > 0))
			return upper_edge(i) < h->max_ns ? upper_edge(i) : h->max_ns;
	}
	return 0;
}
