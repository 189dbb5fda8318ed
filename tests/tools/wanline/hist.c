// SPDX-License-Identifier: Apache-2.0
#include "hist.h"

static unsigned int bucket_of(uint64_t ns)
{
	unsigned int exp;

	if (ns < HIST_SUB)
		return (unsigned int)ns;
	exp = 63u - (unsigned int)__builtin_clzll(ns);
	return (exp - 3) * HIST_SUB + (unsigned int)((ns >> (exp - 4)) & (HIST_SUB - 1));
}

static uint64_t upper_edge(unsigned int b)
{
	unsigned int exp;

	if (b < HIST_SUB)
		return b;
	exp = b / HIST_SUB + 3;
	return ((uint64_t)(HIST_SUB + b % HIST_SUB + 1) << (exp - 4)) - 1;
}

void hist_add(struct hist *h, uint64_t ns)
{
	h->n++;
	h->bucket[bucket_of(ns)]++;
	if (ns > h->max_ns)
		h->max_ns = ns;
}

uint64_t hist_quantile(const struct hist *h, double q)
{
	uint64_t want = (uint64_t)(q * (double)h->n), seen = 0;

	for (unsigned int b = 0; b < HIST_BUCKETS; b++) {
		seen += h->bucket[b];
		if (seen > want || seen == h->n)
			return h->n == 0 ? 0 : upper_edge(b) < h->max_ns ? upper_edge(b) : h->max_ns;
	}
	return h->max_ns;
}
