/* SPDX-License-Identifier: Apache-2.0 */
#include "latency.h"

/* Below 64: the value itself; above: 64 steps for each power of two. */
static unsigned cell_of(uint64_t v)
{
	unsigned shift = 0;

	while (v >> shift >= 128)
		shift++;
	return v < 64 ? (unsigned)v : 64 * shift + (unsigned)(v >> shift);
}

static uint64_t end_of(unsigned cell)
{
	unsigned shift = cell < 128 ? 0 : cell / 64 - 1;

	return ((uint64_t)(cell - 64 * shift) + 1) << shift;
}

void latency_note(struct latency *l, uint64_t posted_ns, uint64_t now_ns)
{
	if (posted_ns < l->from_ns)
		return;
	l->cell[cell_of(now_ns - posted_ns)]++;
	l->n++;
	if (l->slice_ns && now_ns - posted_ns > l->late_ns && (posted_ns - l->from_ns) / l->slice_ns < LATENCY_SLICES)
		l->late[(posted_ns - l->from_ns) / l->slice_ns]++;
}

uint64_t latency_quantile_ns(const struct latency *l, double q)
{
	uint64_t seen = 0;

	for (unsigned i = 0; i < LATENCY_CELLS; i++) {
		seen += l->cell[i];
		if (l->n && (double)seen >= q * (double)l->n)
			return end_of(i);
	}
	return 0;
}
