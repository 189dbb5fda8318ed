/* SPDX-License-Identifier: Apache-2.0 */
#include "loss_runs.h"

enum { WORDS = LOSS_RUNS_SPAN / 64, LOOK = 64 };

/* The word of 64 places around this one; places that are not remembered count as not lost. */
static uint64_t word(const struct loss_runs *r, uint64_t place)
{
	place -= place % 64;
	return place >= r->end || place + LOSS_RUNS_SPAN < r->end ? 0 : r->bits[place / 64 % WORDS];
}

/* The LOOK places from this one on. */
static uint64_t from_on(const struct loss_runs *r, uint64_t place)
{
	unsigned shift = place % 64;

	return shift ? word(r, place) >> shift | word(r, place + 64) << (64 - shift) : word(r, place);
}

/* The LOOK places before this one, the last one in the highest bit. */
static uint64_t up_to(const struct loss_runs *r, uint64_t place)
{
	return place >= LOOK ? from_on(r, place - LOOK) : place ? word(r, 0) << (64 - place) : 0;
}

/* Opens places up to this one: places before `end` stay as they are, new ones are not lost. */
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

static uint32_t ones_below(uint64_t x)
{
	return ~x ? (uint32_t)__builtin_ctzll(~x) : LOOK;
}

static uint32_t ones_above(uint64_t x)
{
	return ~x ? (uint32_t)__builtin_clzll(~x) : LOOK;
}

void loss_runs_note(struct loss_runs *r, uint64_t place)
{
	uint64_t bit = 1ull << (place % 64);
	uint32_t before, after;

	open_up_to(r, place);
	if (place + LOSS_RUNS_SPAN < r->end || word(r, place) & bit)
		return;
	r->bits[place / 64 % WORDS] |= bit;
	before = ones_above(up_to(r, place));
	after = ones_below(from_on(r, place + 1));
	r->lost++;
	if (!before && !after)
		r->runs++;
	else if (before && after)
		r->runs--; /* two runs became one */
	if (before + 1 + after > r->longest)
		r->longest = before + 1 + after;
}
