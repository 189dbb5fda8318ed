/* SPDX-License-Identifier: Apache-2.0 */
/* arena_chunk.c - assignment of chunks to pools and size classes: lists and reserves.
 *
 * Each pool can always reach `reserve` chunks, and has a chunk of ARENA_LARGEST or can take one: chunks_needed() of the
 * other pool stay free. Without the second rule packets of smaller classes could hold all chunks of a pool in a small
 * arena, and a packet of 4 KiB for which they wait would never find a slot. */
#include "arena_priv.h"
#include "proxy/util/fault.h"

/* The table's word for a chunk that has a class: never zero, and invalid at any other chunk's place. */
uint64_t arena_table_word(uint32_t chunk, uint8_t pool, uint8_t class)
{
	uint32_t v[2] = {chunk, 0xc1000000u | (uint32_t) class << 8 | pool};

	return (uint64_t)crc32_gzip_refl(0, (const uint8_t *)v, sizeof(v)) << 32 | v[1];
}

void arena_chunk_free_push(struct arena *a, uint32_t chunk)
{
	struct arena_chunk *c = &a->chunks[chunk];

	c->use = CHUNK_FREE;
	c->next = a->free_head;
	a->free_head = chunk;
}

/* Links the chunk at the tail: the chunk at the head is filled up first, so that the others can run empty. */
void arena_chunk_link(struct arena *a, uint32_t chunk)
{
	struct arena_chunk *c = &a->chunks[chunk];
	uint32_t *tail = &a->room[c->pool][c->class].tail;

	c->next = CHUNK_NONE;
	c->prev = *tail;
	if (*tail == CHUNK_NONE)
		a->room[c->pool][c->class].head = chunk;
	else
		a->chunks[*tail].next = chunk;
	*tail = chunk;
}

void arena_chunk_unlink(struct arena *a, uint32_t chunk)
{
	struct arena_chunk *c = &a->chunks[chunk];

	if (c->prev == CHUNK_NONE)
		a->room[c->pool][c->class].head = c->next;
	else
		a->chunks[c->prev].next = c->next;
	if (c->next == CHUNK_NONE)
		a->room[c->pool][c->class].tail = c->prev;
	else
		a->chunks[c->next].prev = c->prev;
}

static bool lacks_largest(const struct arena *a, enum arena_pool pool)
{
	return !a->large[pool] && !FAULT(FAULT_LARGEST_UNKEPT);
}

/* Free chunks that the other pool may not take. */
static uint32_t chunks_needed(const struct arena *a, enum arena_pool pool)
{
	uint32_t owned = a->owned[pool];

	if (FAULT(FAULT_ONE_POOL))
		return 0;
	return owned < a->reserve ? a->reserve - owned : lacks_largest(a, pool);
}

uint32_t arena_chunks_takeable(const struct arena *a, enum arena_pool pool)
{
	uint32_t kept = chunks_needed(a, pool == POOL_LAN ? POOL_WAN : POOL_LAN);

	return a->nfree > kept ? a->nfree - kept : 0;
}

/* Slots for packets of `class` that the pool can have from chunks that it may take: the last chunk is of ARENA_LARGEST
 * if the pool has none yet. */
static uint64_t slots_takeable(const struct arena *a, enum arena_pool pool, uint8_t class)
{
	uint64_t chunks = arena_chunks_takeable(a, pool), largest = chunks && lacks_largest(a, pool);

	return (chunks - largest) * a->lay.class[class].nslots + largest * a->lay.class[ARENA_LARGEST].nslots;
}

uint64_t arena_room(const struct arena *a, enum arena_pool pool, uint16_t len)
{
	uint8_t class = arena_class_of(len);
	uint64_t slots = slots_takeable(a, pool, class);

	for (uint8_t c = class; c < ARENA_CLASSES; c++)
		slots += a->room[pool][c].slots;
	return slots * arena_class_bytes(len);
}

uint64_t arena_chunks_capacity(const struct arena *a, enum arena_pool pool)
{
	uint64_t bytes = a->owned_bytes[pool] + (uint64_t)arena_chunks_takeable(a, pool) * a->lay.chunk_bytes;
	uint64_t unusable = a->wasted_bytes[pool] + (FAULT(FAULT_LENT_COUNTED_FREE) ? 0 : a->lent_bytes[pool]);

	return bytes > unusable ? bytes - unusable : 0;
}

void arena_chunks_counted(struct arena *a)
{
	a->capacity_bytes[POOL_LAN] = arena_chunks_capacity(a, POOL_LAN);
	a->capacity_bytes[POOL_WAN] = arena_chunks_capacity(a, POOL_WAN);
}

void arena_chunk_owned(struct arena *a, const struct arena_chunk *c, int n)
{
	const struct arena_class *class = &a->lay.class[c->class];

	a->nfree -= (uint32_t)n;
	a->owned[c->pool] += (uint32_t)n;
	a->owned_bytes[c->pool] += (uint64_t)((int64_t)class->nslots * class->stride * n);
	a->large[c->pool] += c->class == ARENA_LARGEST ? (uint32_t)n : 0;
	a->room[c->pool][c->class].slots += class->nslots * (uint32_t)n;
}

/* Takes a spare chunk of any class: spares are empty. */
static uint32_t steal_spare(struct arena *a)
{
	for (unsigned pool = 0; pool < POOL_COUNT; pool++) {
		for (unsigned class = 0; class < ARENA_CLASSES; class ++) {
			uint32_t chunk = a->room[pool][class].spare;

			if (chunk == CHUNK_NONE)
				continue;
			a->room[pool][class].spare = CHUNK_NONE;
			return chunk;
		}
	}
	return CHUNK_NONE;
}

/* Clears headers first, then stores the word that brings them into force. Headers that the chunk's former class had as
 * well are free already; the places of its former data hold arbitrary bytes. */
static void assign(struct arena *a, uint32_t chunk, uint8_t pool, uint8_t class)
{
	struct arena_chunk *c = &a->chunks[chunk];
	struct slot_hdr *h = arena_chunk_hdrs(a, chunk);
	uint32_t nslots = a->lay.class[class].nslots;

	for (uint32_t i = c->nhdrs; i < nslots; i++)
		h[i].state = SLOT_FREE;
	c->nhdrs = (uint16_t)nslots;
	c->pool = pool;
	c->class = class;
	__atomic_store_n(&a->table[chunk], arena_table_word(chunk, pool, class), __ATOMIC_RELEASE);
}

static uint32_t take_free(struct arena *a, uint8_t pool, uint8_t class)
{
	uint32_t chunk = a->free_head;

	if (chunk != CHUNK_NONE)
		a->free_head = a->chunks[chunk].next;
	else
		chunk = steal_spare(a);
	if (chunk != CHUNK_NONE)
		assign(a, chunk, pool, class);
	return chunk;
}

uint32_t arena_chunk_take(struct arena *a, enum arena_pool pool, uint8_t class)
{
	uint32_t takeable = arena_chunks_takeable(a, pool), chunk;
	struct arena_chunk *c;

	if (!takeable)
		return CHUNK_NONE;
	if (takeable == 1 && lacks_largest(a, pool))
		class = ARENA_LARGEST;
	chunk = a->room[pool][class].spare;
	if (chunk != CHUNK_NONE)
		a->room[pool][class].spare = CHUNK_NONE;
	else
		chunk = take_free(a, (uint8_t)pool, class);
	if (chunk == CHUNK_NONE)
		return CHUNK_NONE;
	c = &a->chunks[chunk];
	c->use = CHUNK_USED;
	c->fresh = 0;
	c->free_head = SLOT_NONE;
	arena_chunk_owned(a, c, 1);
	arena_chunks_counted(a);
	arena_chunk_link(a, chunk);
	return chunk;
}

void arena_chunk_empty(struct arena *a, uint32_t chunk)
{
	struct arena_chunk *c = &a->chunks[chunk];
	uint32_t *spare = &a->room[c->pool][c->class].spare;

	arena_chunk_unlink(a, chunk);
	arena_chunk_owned(a, c, -1);
	arena_chunks_counted(a);
	if (*spare == CHUNK_NONE) {
		c->use = CHUNK_SPARE;
		*spare = chunk;
	} else {
		arena_chunk_free_push(a, chunk);
	}
}
