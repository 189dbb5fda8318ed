/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_recv.h"

#include <string.h>

void wan_recv_init(struct wan_recv *r, uint64_t *bits)
{
	memset(r, 0, sizeof(*r));
	r->bits = bits;
	r->lowest = r->resume = UINT64_MAX;
}

void wan_recv_reset(struct wan_recv *r)
{
	memset(r->bits, 0, WAN_RECV_WORDS * sizeof(uint64_t));
	wan_recv_init(r, r->bits);
}

static uint64_t *word_of(const struct wan_recv *r, uint64_t pn)
{
	return &r->bits[(pn / 64) % WAN_RECV_WORDS];
}

bool wan_recv_seen(const struct wan_recv *r, uint64_t pn)
{
	if (pn >= r->next)
		return false;
	/* The word that holds `next` may be half cleared for new numbers: it is not in the window. */
	if (r->next - pn > WAN_RX_BITS - 64)
		return true;
	return *word_of(r, pn) >> (pn % 64) & 1;
}

/* Clears the bits between the highest number so far and pn. */
static void open_up_to(struct wan_recv *r, uint64_t pn)
{
	uint64_t w = (r->next + 63) / 64, last = pn / 64;

	if (last >= WAN_RECV_WORDS && w < last - WAN_RECV_WORDS + 1)
		w = last - WAN_RECV_WORDS + 1;
	for (; w <= last; w++)
		r->bits[w % WAN_RECV_WORDS] = 0;
	r->next = pn + 1;
}

void wan_recv_mark(struct wan_recv *r, uint64_t pn, uint64_t now_ns, bool wants_report)
{
	if (pn >= r->next) {
		open_up_to(r, pn);
		r->largest_ns = now_ns;
	}
	*word_of(r, pn) |= 1ull << (pn % 64);
	if (pn < r->lowest)
		r->lowest = pn;
	if (wants_report && r->unreported++ == 0)
		r->first_unreported_ns = now_ns;
}

void wan_recv_mark_rebuilt(struct wan_recv *r, uint64_t pn, uint64_t now_ns, bool wants_report)
{
	uint64_t lowest = r->lowest;

	wan_recv_mark(r, pn, now_ns, wants_report);
	r->lowest = lowest;
}

bool wan_recv_refuse(struct wan_recv *r, uint64_t pn)
{
	if (!r->refused_bits)
		r->refused_base = pn & ~63ull;
	if ((pn & ~63ull) != r->refused_base)
		return false;
	r->refused_bits |= 1ull << (pn % 64);
	return true;
}

void wan_recv_probe(struct wan_recv *r, uint64_t pn, uint64_t now_ns)
{
	if (r->next && r->next - 1 < pn)
		pn = r->next - 1;
	if (pn < r->lowest)
		r->lowest = pn;
	if (r->unreported++ == 0)
		r->first_unreported_ns = now_ns;
}

bool wan_recv_report(struct wan_recv *r, uint64_t now_ns, unsigned told, struct wan_report *rep, uint64_t *words,
                     uint32_t max_words)
{
	uint64_t begin = r->resume != UINT64_MAX ? r->resume : r->ended[REPORTS_TOLD - told];
	uint64_t from = begin < r->lowest ? begin : r->lowest;
	uint64_t oldest = r->next > WAN_RX_BITS - 64 ? r->next - (WAN_RX_BITS - 64) : 0;
	uint64_t nwords;

	if (!r->next)
		return false;
	if (from < oldest)
		from = oldest;
	if (from >= r->next)
		from = r->next - 1;
	rep->base = from & ~63ull;
	nwords = (r->next - 1) / 64 - rep->base / 64 + 1;
	rep->words = (uint16_t)(nwords < max_words ? nwords : max_words);
	rep->largest = r->next - 1;
	rep->delay_ns = now_ns - r->largest_ns;
	rep->ecn = r->ecn;
	for (uint32_t w = 0; w < rep->words; w++)
		words[w] = *word_of(r, rep->base + 64ull * w);
	if (nwords > max_words) {
		r->resume = rep->base + 64ull * max_words;
		r->lowest = UINT64_MAX;
		return true;
	}
	for (unsigned i = 1; i < REPORTS_TOLD; i++)
		r->ended[i - 1] = r->ended[i];
	r->ended[REPORTS_TOLD - 1] = r->next;
	r->lowest = r->resume = UINT64_MAX;
	r->unreported = 0;
	return true;
}
