/* SPDX-License-Identifier: Apache-2.0 */
#include "loss_runs.h"

#include <stdbool.h>

enum { WORDS = LOSS_RUNS_SPAN / 64, LOOK = 64 };

static bool lost(const struct loss_runs *r, uint64_t place)
{
	if (place >= r->end || place + LOSS_RUNS_SPAN < r->end)
		return false;
	return r->bits[place / 64 % WORDS] >> (place % 64) & 1;
}

/* Places before `end` are as they were, new ones are not lost. */
static void open_up_to(struct loss_runs *r, uint64_t place)
{
	uint64_t to = (place / 64 + 1) * 64, from = r->end;

	if (to > from + LOSS_RUNS_SPAN)
		from = to - LOSS_RUNS_SPAN;
	for (; from < to; from += 64)
		r->bits[from / 64 % WORDS] = 0;
	if (to > r->end)
		r->end = to;
}

void loss_runs_note(struct loss_runs *r, uint64_t place)
{
	uint32_t before = 0, after = 0;

	open_up_to(r, place);
	if (place + LOSS_RUNS_SPAN < r->end || lost(r, place))
		return;
	r->bits[place / 64 % WORDS] |= 1ull << (place % 64);
	while (before < LOOK && before < place && lost(r, place - before - 1))
		before++;
	while (after < LOOK && lost(r, place + after + 1))
		after++;
	r->lost++;
	if (!before && !after)
		r->runs++;
	else if (before && after)
		r->runs--; /* two became one */
	if (before + 1 + after > r->longest)
		r->longest = before + 1 + after;
}
