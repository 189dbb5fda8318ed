/* SPDX-License-Identifier: Apache-2.0 */
/* arena_attach.c - making an arena, and taking up one that an earlier process left.
 *
 * Theory of operation
 *
 * arena_attach() checks the superblock, finds the newest descriptors (arena_desc.c), and scans the headers of each
 * chunk that has a class:
 *
 *   - A committed slot whose header agrees with its CRC and its chunk is entered into the index.
 *   - A committed slot whose header disagrees was damaged: it is counted, and dropped.
 *   - All other slots become free: filling ones, blanks, and slots of raw packets, which do not survive a restart.
 *   - Of two slots for one position the one of the younger incarnation is kept.
 *
 * Chunks without a slot in use are free afterwards. The scan only makes slots free and clears damaged words of the
 * chunk table, so a kill during the scan leaves an arena that can be taken up again. */
#include <errno.h>

#include "arena_priv.h"
#include "proxy/util/fault.h"

static uint32_t superblock_crc(const struct arena_superblock *s)
{
	size_t from = offsetof(struct arena_superblock, epoch);

	return crc32_gzip_refl(0, (const uint8_t *)s + from, sizeof(*s) - from);
}

/* Chunks aligned to their size keep slots within huge pages; less alignment only costs time, less than 64 bytes breaks
 * atomics. */
static bool misaligned(const void *region, const void *heap)
{
	return !region || !heap || ((uintptr_t)region | (uintptr_t)heap) % 64;
}

static void init_lists(struct arena *a)
{
	for (unsigned pool = 0; pool < POOL_COUNT; pool++) {
		for (unsigned class = 0; class < ARENA_CLASSES; class ++) {
			a->room[pool][class].head = CHUNK_NONE;
			a->room[pool][class].tail = CHUNK_NONE;
			a->room[pool][class].spare = CHUNK_NONE;
		}
	}
	a->free_head = CHUNK_NONE;
}

static struct arena *init_heap(void *heap, void *region, const struct arena_geometry *g, const struct arena_layout *l)
{
	static const uint8_t committed = SLOT_COMMITTED;
	struct arena *a = heap;
	uint8_t *h = heap, *r = region;

	a->lay = *l;
	a->slot_mask = (1u << l->shift) - 1;
	a->region = r;
	a->chunk0 = r + l->chunks_off;
	a->desc = (struct arena_desc_copy *)(void *)(r + ARENA_SUPERBLOCK);
	a->fingerprints = (uint32_t *)(void *)(r + l->fp_off);
	a->table = (uint64_t *)(void *)(r + l->table_off);
	a->chunks = (struct arena_chunk *)(void *)(h + l->chunk_at);
	a->meta = (struct slot_meta *)(void *)(h + l->meta_at);
	a->desc_seq = (uint32_t *)(void *)(h + l->seq_at);
	a->index.tab = (struct arena_index_entry *)(void *)(h + l->index_at);
	a->index.mask = (uint32_t)(l->index_entries - 1);
	a->max_flows = g->max_flows;
	a->reserve = (uint32_t)((uint64_t)l->nchunks * g->reserve_percent / 100);
	if (!a->reserve)
		a->reserve = 1;
	a->nfree = l->nchunks;
	a->crc_committed = crc32_gzip_refl(0, &committed, 1);
	init_lists(a);
	return a;
}

int arena_format(struct arena **out, void *region, const struct arena_geometry *g, uint64_t epoch, void *heap)
{
	struct arena_superblock *s = region;
	struct arena_layout l;
	struct arena *a;

	if (!arena_layout_of(g, &l) || misaligned(region, heap))
		return -EINVAL;
	__atomic_store_n(&s->magic, 0, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	a = init_heap(heap, region, g, &l);
	a->epoch = epoch;
	arena_desc_clear_all(a);
	memset(a->table, 0, l.nchunks * sizeof(a->table[0]));
	for (uint32_t chunk = l.nchunks; chunk-- > 0;)
		arena_chunk_free_push(a, chunk);
	arena_chunks_counted(a);
	memset((uint8_t *)s + sizeof(s->magic), 0, sizeof(*s) - sizeof(s->magic));
	s->layout = ARENA_LAYOUT_VERSION;
	s->epoch = epoch;
	s->len = g->len;
	s->chunk_size = g->chunk_size;
	s->max_flows = g->max_flows;
	s->nchunks = l.nchunks;
	s->crc = superblock_crc(s);
	__atomic_store_n(&s->magic, ARENA_MAGIC, __ATOMIC_RELEASE);
	*out = a;
	return 0;
}

/* The reserve is policy, not layout: it may differ from the superblock's. */
static int check_superblock(const struct arena_superblock *s, const struct arena_geometry *g,
                            const struct arena_layout *l)
{
	if (s->magic != ARENA_MAGIC)
		return -ENOENT;
	if (s->layout != ARENA_LAYOUT_VERSION && !FAULT(FAULT_ANY_LAYOUT))
		return -EPROTO;
	if (s->crc != superblock_crc(s))
		return -EINVAL;
	if (s->len != g->len || s->chunk_size != g->chunk_size || s->max_flows != g->max_flows ||
	    s->nchunks != l->nchunks)
		return -EINVAL;
	return 0;
}

/* True if a header that says SLOT_COMMITTED agrees with its place in the arena. */
static bool hdr_believable(const struct arena *a, const struct arena_chunk *c, const struct slot_hdr *h)
{
	return h->crc == arena_hdr_crc(a, h) && arena_kind_known(h->kind) && arena_pool_of(h->kind) == c->pool &&
	       h->len && h->len <= LAN_PKT_MAX && arena_class_of(h->len) <= c->class &&
	       h->data_off + h->len <= a->lay.class[c->class].stride &&
	       (arena_kind_is_raw(h->kind) || h->flow < a->max_flows);
}

/* Notes which near flow a damaged slot belonged to, as far as its header tells. A wrong note harms no flow: a flow that
 * lacks no slot ignores it. */
static void note_hurt(struct arena *a, const struct slot_hdr *h)
{
	a->damaged++;
	if (h->kind != SLOT_REQ_NEAR || h->flow >= a->max_flows || a->nhurt == ARENA_HURT_MAX)
		return;
	a->hurt[a->nhurt].flow = h->flow;
	a->hurt[a->nhurt++].pos = h->pos;
}

bool arena_hurt(const struct arena *a, uint32_t i, uint32_t *flow, uint64_t *pos)
{
	if (i >= a->nhurt)
		return false;
	*flow = a->hurt[i].flow;
	*pos = a->hurt[i].pos;
	return true;
}

static bool slot_survives(struct arena *a, const struct arena_chunk *c, const struct slot_hdr *h)
{
	if (h->state == SLOT_FREE || h->state == SLOT_FILLING || (h->state == SLOT_BLANK && !FAULT(FAULT_BLANK_SURVIVES)))
		return false;
	if (h->state != SLOT_COMMITTED || !hdr_believable(a, c, h)) {
		note_hurt(a, h);
		return false;
	}
	return !arena_kind_is_raw(h->kind);
}

/* Of two slots for one position the younger incarnation counts; the same incarnation twice is damage. True if the slot
 * with header h is kept; then the other one was dropped. */
static bool wins_position(struct arena *a, const struct slot_hdr *h)
{
	uint32_t other = arena_find(a, h->kind, h->flow, h->pos);
	uint32_t other_inc;

	if (other == SLOT_NONE)
		return true;
	other_inc = arena_hdr(a, other)->inc;
	if (other_inc == h->inc)
		a->damaged++;
	if (other_inc >= h->inc)
		return false;
	(void)arena_slot_drop(a, other);
	return true;
}

/* In ascending order within a chunk: the slots passed over are free ones. */
static void slot_restore(struct arena *a, uint32_t slot, const struct slot_hdr *h)
{
	uint32_t chunk = slot >> a->lay.shift;
	struct arena_chunk *c = &a->chunks[chunk];

	while (c->fresh < (slot & a->slot_mask)) {
		uint32_t gap = arena_slot_id(a, chunk, c->fresh++);

		a->meta[gap].next = c->free_head;
		c->free_head = gap;
	}
	c->fresh++;
	c->used++;
	arena_slot_counted(a, c, h->len, 1);
	a->room[c->pool][c->class].slots--; /* chunks_sort_in() counts the slots of this chunk */
	arena_meta_reset(&a->meta[slot]);
	arena_index_insert(&a->index, arena_index_tag(h->kind, h->flow, h->pos), slot);
}

static void chunk_scan(struct arena *a, uint32_t chunk)
{
	struct arena_chunk *c = &a->chunks[chunk];
	struct slot_hdr *h = arena_chunk_hdrs(a, chunk);

	c->free_head = SLOT_NONE;
	c->nhdrs = (uint16_t)a->lay.class[c->class].nslots;
	for (uint32_t i = 0; i < c->nhdrs; i++) {
		if (slot_survives(a, c, &h[i]) && wins_position(a, &h[i]))
			slot_restore(a, arena_slot_id(a, chunk, i), &h[i]);
		else if (h[i].state != SLOT_FREE)
			arena_set_state(&h[i], SLOT_FREE);
	}
}

/* False: the chunk has no class, or not one that can be believed. */
static bool chunk_read_table(struct arena *a, uint32_t chunk)
{
	struct arena_chunk *c = &a->chunks[chunk];
	uint64_t word = a->table[chunk];

	c->pool = (uint8_t)word;
	c->class = (uint8_t)(word >> 8);
	if (c->pool < POOL_COUNT && c->class < ARENA_CLASSES && word == arena_table_word(chunk, c->pool, c->class))
		return true;
	if (word)
		a->damaged++;
	c->pool = 0;
	c->class = 0;
	a->table[chunk] = 0;
	return false;
}

/* Runs after all scans, because a younger duplicate in one chunk may take a slot out of another. Goes downwards, so
 * that the lowest chunk is the first to be taken again. */
static void chunks_sort_in(struct arena *a)
{
	for (uint32_t chunk = a->lay.nchunks; chunk-- > 0;) {
		struct arena_chunk *c = &a->chunks[chunk];

		if (!c->used) {
			arena_chunk_free_push(a, chunk);
			continue;
		}
		c->use = CHUNK_USED;
		arena_chunk_owned(a, c, 1);
		if (c->used < a->lay.class[c->class].nslots)
			arena_chunk_link(a, chunk);
	}
	arena_chunks_counted(a);
}

int arena_attach(struct arena **out, void *region, const struct arena_geometry *g, void *heap)
{
	const struct arena_superblock *s = region;
	struct arena_layout l;
	struct arena *a;
	int rc;

	if (!arena_layout_of(g, &l) || misaligned(region, heap))
		return -EINVAL;
	rc = check_superblock(s, g, &l);
	if (rc)
		return rc;
	a = init_heap(heap, region, g, &l);
	a->epoch = s->epoch;
	arena_desc_attach_all(a);
	for (uint32_t chunk = 0; chunk < l.nchunks; chunk++)
		if (chunk_read_table(a, chunk))
			chunk_scan(a, chunk);
	chunks_sort_in(a);
	*out = a;
	return 0;
}
