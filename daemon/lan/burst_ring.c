/* SPDX-License-Identifier: Apache-2.0 */
#include "burst_ring.h"

#include <stdlib.h>

bool burst_ring_init(struct burst_ring *r)
{
	r->cells = calloc(BURST_CELLS, sizeof(*r->cells));
	return r->cells != NULL;
}

void burst_ring_free(struct burst_ring *r)
{
	free(r->cells);
	r->cells = NULL;
}

/* A reader that sees the word of cell n also sees head n, and so knows that cell n - BURST_CELLS is overwritten. */
static void write_cell(struct burst_ring *r, unsigned priority)
{
	uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	uint64_t bytes = r->bytes[priority] < BURST_BYTES_MAX ? r->bytes[priority] : BURST_BYTES_MAX;
	uint64_t whose = r->begin_ns / BURST_BIN_NS << BURST_PRIORITY_BITS | priority;

	atomic_store_explicit(&r->cells[head % BURST_CELLS], whose << BURST_BYTES_BITS | bytes, memory_order_release);
	atomic_store_explicit(&r->head, head + 1, memory_order_release);
	r->bytes[priority] = 0;
}

void burst_ring_flush(struct burst_ring *r)
{
	for (unsigned i = 0; i < BURST_PRIORITIES; i++)
		if (r->bytes[i] != 0)
			write_cell(r, i);
}

void burst_ring_next(struct burst_ring *r, uint64_t ns)
{
	burst_ring_flush(r);
	r->begin_ns = ns - ns % BURST_BIN_NS;
}

uint64_t burst_ring_end(const struct burst_ring *r)
{
	return atomic_load_explicit(&r->head, memory_order_acquire);
}

bool burst_ring_read(const struct burst_ring *r, uint64_t *cursor, uint64_t *missed, struct burst_cell *c)
{
	uint64_t head = burst_ring_end(r), word;

	while (*cursor < head) {
		word = atomic_load_explicit(&r->cells[*cursor % BURST_CELLS], memory_order_acquire);
		head = burst_ring_end(r);
		if (head - *cursor < BURST_CELLS) {
			c->index = word >> (64 - BURST_INDEX_BITS);
			c->priority = (unsigned)(word >> BURST_BYTES_BITS) % BURST_PRIORITIES;
			c->bytes = (uint32_t)(word & BURST_BYTES_MAX);
			++*cursor;
			return true;
		}
		*missed += head - (BURST_CELLS - 1) - *cursor;
		*cursor = head - (BURST_CELLS - 1);
	}
	return false;
}
