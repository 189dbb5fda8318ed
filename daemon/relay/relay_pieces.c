/* SPDX-License-Identifier: Apache-2.0 */
/* relay_pieces.c - an operation of several pieces: where each byte of it comes from and goes to. */
#include "relay_pieces.h"

#include <stdlib.h>

struct relay_pieces *relay_pieces_new(uint32_t n)
{
	struct relay_pieces *p = calloc(1, sizeof(*p) + n * sizeof(p->piece[0]));

	if (p) {
		p->refs = 1;
		p->n = n;
	}
	return p;
}

struct relay_pieces *relay_pieces_ref(struct relay_pieces *p)
{
	if (p)
		p->refs++;
	return p;
}

void relay_pieces_unref(struct relay_pieces *p)
{
	if (p && --p->refs == 0)
		free(p);
}

bool relay_pieces_set(struct relay_pieces *p, uint32_t i, uint64_t source, uint64_t target, uint64_t length)
{
	uint64_t at = i > 0 ? p->piece[i - 1].at + p->piece[i - 1].length : 0;

	p->piece[i] = (struct relay_piece){at, source, target, length};
	return length > 0 && length <= INT64_MAX - at;
}

/* The last piece that begins at or before that byte. */
const struct relay_piece *relay_pieces_at(const struct relay_pieces *p, uint64_t at)
{
	uint32_t low = 0, high = p->n;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (p->piece[middle].at <= at)
			low = middle;
		else
			high = middle;
	}
	return &p->piece[low];
}

uint64_t relay_pieces_source(const struct relay_pieces *p, uint64_t at)
{
	const struct relay_piece *i = p ? relay_pieces_at(p, at) : NULL;

	return i ? i->source + (at - i->at) : at;
}

uint64_t relay_pieces_target(const struct relay_pieces *p, uint64_t at)
{
	const struct relay_piece *i = p ? relay_pieces_at(p, at) : NULL;

	return i ? i->target + (at - i->at) : at;
}

uint64_t relay_pieces_run(const struct relay_pieces *p, uint64_t at, uint64_t left)
{
	const struct relay_piece *i = p ? relay_pieces_at(p, at) : NULL;
	uint64_t run = i ? i->length - (at - i->at) : left;

	return run < left ? run : left;
}

void relay_pieces_span(const struct relay_pieces *p, uint64_t *offset, uint64_t *length)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (uint32_t i = 0; i < p->n; i++) {
		low = p->piece[i].target < low ? p->piece[i].target : low;
		high = p->piece[i].target + p->piece[i].length > high ? p->piece[i].target + p->piece[i].length : high;
	}
	*offset = low;
	*length = high - low;
}
