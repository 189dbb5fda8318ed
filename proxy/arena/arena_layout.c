/* SPDX-License-Identifier: Apache-2.0 */
/* arena_layout.c - computes from a geometry where everything lies in the region and in the heap. */
#include "arena_priv.h"

static uint64_t round_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) / to * to;
}

/* Bytes before the chunk table. */
static uint64_t table_offset(uint32_t max_flows)
{
	return ARENA_SUPERBLOCK + (uint64_t)arena_desc_entries(max_flows) * 2 * sizeof(struct arena_desc_copy) +
	       (uint64_t)max_flows * FP_RING * sizeof(uint32_t);
}

static uint64_t chunks_offset(uint32_t max_flows, uint64_t table_words, uint32_t chunk_size)
{
	return round_up(table_offset(max_flows) + table_words * sizeof(uint64_t), chunk_size);
}

uint64_t arena_min_len(uint32_t chunk_size, uint32_t max_flows)
{
	if (!chunk_size)
		return 0;
	/* One word more than chunks, because place_region() sizes the table before it rounds up. */
	return chunks_offset(max_flows, ARENA_CHUNKS_MIN + 1, chunk_size) + (uint64_t)ARENA_CHUNKS_MIN * chunk_size;
}

static bool geometry_is_sane(const struct arena_geometry *g)
{
	uint32_t size = g->chunk_size;

	return size >= 1u << ARENA_CHUNK_LOG2_MIN && size <= 1u << ARENA_CHUNK_LOG2_MAX && !(size & (size - 1)) &&
	       g->max_flows >= 1 && g->max_flows <= FLOWS_MAX && g->reserve_percent >= 10 && g->reserve_percent <= 50 &&
	       g->len >= arena_min_len(size, g->max_flows);
}

static void place_classes(struct arena_layout *l, uint32_t chunk_size)
{
	static const uint32_t strides[ARENA_CLASSES] = {512, 1152, 2176, ARENA_BLANK_BYTES};

	for (unsigned c = 0; c < ARENA_CLASSES; c++) {
		struct arena_class *class = &l->class[c];

		class->stride = strides[c];
		class->nslots = chunk_size / (strides[c] + (uint32_t)sizeof(struct slot_hdr));
		class->data_off = class->nslots * (uint32_t)sizeof(struct slot_hdr);
		if (class->nslots * class->stride > l->chunk_bytes)
			l->chunk_bytes = class->nslots * class->stride;
	}
	while (1u << l->shift < l->class[0].nslots)
		l->shift++;
}

static bool place_region(struct arena_layout *l, const struct arena_geometry *g)
{
	uint64_t at_most, n;

	l->fp_off = table_offset(g->max_flows) - (uint64_t)g->max_flows * FP_RING * sizeof(uint32_t);
	l->table_off = table_offset(g->max_flows);
	at_most = (g->len - l->table_off) >> l->chunk_log2;
	l->chunks_off = chunks_offset(g->max_flows, at_most, g->chunk_size);
	n = (g->len - l->chunks_off) >> l->chunk_log2;
	if (n << l->shift >= 1ull << ARENA_SLOT_BITS)
		return false;
	l->nchunks = (uint32_t)n;
	return true;
}

/* Takes `len` bytes of the heap, on a cache line. */
static size_t heap_take(struct arena_layout *l, size_t len)
{
	size_t at = l->heap_len;

	l->heap_len += round_up(len, 64);
	return at;
}

static void place_heap(struct arena_layout *l, uint32_t max_flows)
{
	l->index_entries = ARENA_INDEX_RUN;
	while (l->index_entries < 2ull * l->nchunks * l->class[0].nslots)
		l->index_entries *= 2;
	heap_take(l, sizeof(struct arena));
	l->chunk_at = heap_take(l, l->nchunks * sizeof(struct arena_chunk));
	l->seq_at = heap_take(l, (size_t)arena_desc_entries(max_flows) * sizeof(uint32_t));
	l->meta_at = heap_take(l, ((size_t)l->nchunks << l->shift) * sizeof(struct slot_meta));
	l->index_at = heap_take(l, l->index_entries * sizeof(struct arena_index_entry));
}

bool arena_layout_of(const struct arena_geometry *g, struct arena_layout *l)
{
	memset(l, 0, sizeof(*l));
	if (!geometry_is_sane(g))
		return false;
	l->chunk_log2 = (uint8_t)__builtin_ctz(g->chunk_size);
	place_classes(l, g->chunk_size);
	if (!place_region(l, g))
		return false;
	place_heap(l, g->max_flows);
	return true;
}

size_t arena_heap_size(const struct arena_geometry *g)
{
	struct arena_layout l;

	return arena_layout_of(g, &l) ? l.heap_len : 0;
}
