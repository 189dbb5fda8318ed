/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_arrivals.h"

#define TELL_EVERY 512 /* numbers */

/* Number of bits set; the compiler's builtin would be a call into its library. */
static unsigned ones(uint64_t w)
{
	w -= w >> 1 & 0x5555555555555555ull;
	w = (w & 0x3333333333333333ull) + (w >> 2 & 0x3333333333333333ull);
	w = (w + (w >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return (unsigned)((w * 0x0101010101010101ull) >> 56);
}

static void count_word(struct wan_arrivals *a)
{
	uint64_t *w = &a->came[a->done / 64 % ARRIVALS_WORDS];
	uint64_t lost = ~*w;

	a->sum.numbers += 64;
	a->sum.lost += ones(lost);
	a->sum.bursts += ones(lost & ~(lost << 1 | a->last_lost));
	a->last_lost = lost >> 63;
	*w = 0;
	a->done += 64;
}

/* A jump far ahead means that the line was cut: the numbers in between are not counted as losses. */
static void jump(struct wan_arrivals *a, uint64_t pn)
{
	for (unsigned i = 0; i < ARRIVALS_WORDS; i++)
		a->came[i] = 0;
	a->done = (pn & ~63ull) + 64; /* from the next whole word on */
	a->last_lost = false;
}

void wan_arrivals_note(struct wan_arrivals *a, uint64_t pn)
{
	if (pn >= a->done + 64 * ARRIVALS_WORDS)
		jump(a, pn);
	if (pn >= a->next)
		a->next = pn + 1;
	if (pn < a->done)
		return;
	a->came[pn / 64 % ARRIVALS_WORDS] |= 1ull << (pn % 64);
	while (a->next >= a->done + 64 + ARRIVALS_LAG)
		count_word(a);
}

void wan_arrivals_rebuilt(struct wan_arrivals *a, uint64_t pn)
{
	a->rebuilt[a->nrebuilt++ % ARRIVALS_REBUILT] = pn;
}

uint32_t wan_arrivals_tell_rebuilt(struct wan_arrivals *a, uint64_t *numbers, uint32_t max)
{
	uint64_t from = a->ended[0], n;

	if (a->nrebuilt - from > ARRIVALS_REBUILT)
		from = a->nrebuilt - ARRIVALS_REBUILT;
	n = a->nrebuilt - from < max ? a->nrebuilt - from : max;
	for (uint64_t i = 0; i < n; i++)
		numbers[i] = a->rebuilt[(from + i) % ARRIVALS_REBUILT];
	if (from + n == a->nrebuilt) {
		for (unsigned i = 1; i < ARRIVALS_TOLD; i++)
			a->ended[i - 1] = a->ended[i];
		a->ended[ARRIVALS_TOLD - 1] = a->nrebuilt;
	} else {
		a->ended[0] = from + n; /* the list is too long for one frame: its first part was told once, and reports
		                         * tell these numbers, too */
	}
	return (uint32_t)n;
}

bool wan_arrivals_due(const struct wan_arrivals *a)
{
	return a->sum.numbers >= a->told_numbers + TELL_EVERY;
}
