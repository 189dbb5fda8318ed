/* SPDX-License-Identifier: Apache-2.0 */
/* arena_audit.c - every slot in exactly one place, every count the sum of what it counts.
 *
 * A slot is in one place because: the states of a chunk's headers split it into used and free; the free chain holds
 * only free ones, no more than there are, and cannot repeat one without being endless; each used one is found in the
 * index, which has as many entries as there are used slots. */
#include "arena_priv.h"

enum audit_failure {
	AUDIT_OK = 0,
	AUDIT_MISUSE = -1,         /* slot freed twice, committed twice, key changed, bad argument */
	AUDIT_CHUNK_USE = -2,      /* no such use, pool or class */
	AUDIT_TABLE = -3,          /* the region's table disagrees about pool or class */
	AUDIT_CHUNK_COUNT = -4,    /* used slots of a chunk: count and headers disagree */
	AUDIT_STATE = -5,          /* header with no known state */
	AUDIT_NOT_CLEAN = -6,      /* header of a slot never handed out does not say free */
	AUDIT_FREE_CHAIN = -7,     /* a slot in use, or a foreign one, in a free chain */
	AUDIT_FREE_CHAIN_LEN = -8, /* free slots outside of the chain, or the chain is endless */
	AUDIT_HDR_PLACE = -9,      /* kind or length do not belong in that chunk */
	AUDIT_HDR_CRC = -10,       /* committed header changed afterwards */
	AUDIT_INDEX_MISSING = -11, /* used slot not in the index */
	AUDIT_INDEX_COUNT = -12,   /* index has more entries than there are used slots */
	AUDIT_USED_BYTES = -13,    /* bytes of a pool */
	AUDIT_OWNED = -14,         /* chunks of a pool */
	AUDIT_NFREE = -15,         /* free chunks */
	AUDIT_ROOM_LIST = -16,     /* list of chunks with room holds another one, or is broken */
	AUDIT_ROOM_LEN = -17,      /* a chunk with room is missing there */
	AUDIT_FREE_LIST = -18,     /* list of free chunks: wrong chunk, or not all of them */
	AUDIT_SPARE = -19,         /* spare chunk of another class or in use */
	AUDIT_CHUNK_EMPTY = -20,   /* chunk counts as used and is empty */
	AUDIT_CAPACITY = -21,      /* capacity_bytes of a pool */
	AUDIT_SLOTS = -22,         /* free slots in used chunks */
	AUDIT_LENT = -23,          /* blanks, or bytes lent */
	AUDIT_PINS = -24,          /* pins on a slot that was never committed */
};

struct audit {
	uint32_t index_n;
	uint32_t owned[POOL_COUNT], large[POOL_COUNT], with_room[POOL_COUNT][ARENA_CLASSES];
	uint32_t slots[POOL_COUNT][ARENA_CLASSES];
	uint32_t free, spare;
	uint64_t used_bytes[POOL_COUNT], lent_bytes[POOL_COUNT], owned_bytes[POOL_COUNT], wasted_bytes[POOL_COUNT];
	uint32_t blanks[POOL_COUNT];
};

static int audit_slot_used(const struct arena *a, const struct arena_chunk *c, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(a, slot);
	uint32_t place;

	if (h->state != SLOT_FILLING && h->state != SLOT_COMMITTED)
		return AUDIT_STATE;
	if (!arena_kind_known(h->kind) || arena_pool_of(h->kind) != c->pool || arena_class_of(h->len) > c->class)
		return AUDIT_HDR_PLACE;
	if (h->state == SLOT_COMMITTED && h->crc != arena_hdr_crc(a, h))
		return AUDIT_HDR_CRC;
	if (!arena_index_locate(&a->index, arena_index_tag(h->kind, h->flow, h->pos), slot, &place))
		return AUDIT_INDEX_MISSING;
	return AUDIT_OK;
}

static int audit_free_chain(const struct arena *a, uint32_t chunk, uint32_t nfree)
{
	const struct arena_chunk *c = &a->chunks[chunk];
	uint32_t n = 0;

	for (uint32_t slot = c->free_head; slot != SLOT_NONE; slot = a->meta[slot].next) {
		if (++n > nfree)
			return AUDIT_FREE_CHAIN_LEN;
		if (slot >> a->lay.shift != chunk || (slot & a->slot_mask) >= c->fresh ||
		    arena_hdr(a, slot)->state != SLOT_FREE || a->meta[slot].pins)
			return AUDIT_FREE_CHAIN;
	}
	return n == nfree ? AUDIT_OK : AUDIT_FREE_CHAIN_LEN;
}

static int audit_slots(const struct arena *a, uint32_t chunk, struct audit *sum)
{
	const struct arena_chunk *c = &a->chunks[chunk];
	const struct slot_hdr *h = arena_chunk_hdrs(a, chunk);
	uint32_t used = 0, lent = 0;

	for (uint32_t i = 0; i < c->fresh; i++) {
		uint8_t pins = a->meta[arena_slot_id(a, chunk, i)].pins;
		int rc;

		if (pins && h[i].state != SLOT_FREE && h[i].state != SLOT_COMMITTED)
			return AUDIT_PINS;
		if (h[i].state == SLOT_BLANK && c->class != ARENA_CLASSES - 1)
			return AUDIT_LENT;
		if (h[i].state == SLOT_BLANK || (h[i].state == SLOT_FREE && pins)) {
			lent++;
			sum->blanks[c->pool] += h[i].state == SLOT_BLANK;
			continue;
		}
		if (h[i].state == SLOT_FREE)
			continue;
		rc = audit_slot_used(a, c, arena_slot_id(a, chunk, i));
		if (rc)
			return rc;
		used++;
		sum->used_bytes[c->pool] += arena_class_bytes(h[i].len);
		sum->wasted_bytes[c->pool] += a->lay.class[c->class].stride - arena_class_bytes(h[i].len);
	}
	sum->index_n += used;
	sum->lent_bytes[c->pool] += (uint64_t)lent * a->lay.class[c->class].stride;
	used += lent;
	if (used != c->used)
		return AUDIT_CHUNK_COUNT;
	if (!used)
		return AUDIT_CHUNK_EMPTY;
	sum->owned[c->pool]++;
	sum->owned_bytes[c->pool] += (uint64_t)a->lay.class[c->class].nslots * a->lay.class[c->class].stride;
	sum->large[c->pool] += c->class == ARENA_LARGEST;
	sum->with_room[c->pool][c->class] += used < a->lay.class[c->class].nslots;
	sum->slots[c->pool][c->class] += a->lay.class[c->class].nslots - used;
	return audit_free_chain(a, chunk, c->fresh - used);
}

static int audit_clean(const struct arena *a, uint32_t chunk)
{
	const struct arena_chunk *c = &a->chunks[chunk];
	const struct slot_hdr *h = arena_chunk_hdrs(a, chunk);

	for (uint32_t i = c->use == CHUNK_USED ? c->fresh : 0; i < c->nhdrs; i++)
		if (h[i].state != SLOT_FREE)
			return AUDIT_NOT_CLEAN;
	return AUDIT_OK;
}

static int audit_chunk(const struct arena *a, uint32_t chunk, struct audit *sum)
{
	const struct arena_chunk *c = &a->chunks[chunk];

	if (c->use > CHUNK_USED || c->pool >= POOL_COUNT || c->class >= ARENA_CLASSES)
		return AUDIT_CHUNK_USE;
	if (c->use == CHUNK_FREE)
		sum->free++;
	else if (a->table[chunk] != arena_table_word(chunk, c->pool, c->class))
		return AUDIT_TABLE;
	if (c->use == CHUNK_SPARE) {
		sum->spare++;
		if (a->room[c->pool][c->class].spare != chunk)
			return AUDIT_SPARE;
	}
	if (c->use == CHUNK_USED) {
		int rc = audit_slots(a, chunk, sum);

		if (rc)
			return rc;
	}
	return audit_clean(a, chunk);
}

static int audit_room(const struct arena *a, uint8_t pool, uint8_t class, uint32_t with_room)
{
	uint32_t n = 0, prev = CHUNK_NONE;

	for (uint32_t i = a->room[pool][class].head; i != CHUNK_NONE; i = a->chunks[i].next) {
		const struct arena_chunk *c;

		if (++n > with_room)
			return AUDIT_ROOM_LEN;
		if (i >= a->lay.nchunks)
			return AUDIT_ROOM_LIST;
		c = &a->chunks[i];
		if (c->use != CHUNK_USED || c->pool != pool || c->class != class || c->prev != prev ||
		    c->used >= a->lay.class[class].nslots)
			return AUDIT_ROOM_LIST;
		prev = i;
	}
	if (a->room[pool][class].tail != prev)
		return AUDIT_ROOM_LIST;
	return n == with_room ? AUDIT_OK : AUDIT_ROOM_LEN;
}

static int audit_lists(const struct arena *a, const struct audit *sum)
{
	uint32_t nspare = 0, nfree = 0;

	for (uint8_t pool = 0; pool < POOL_COUNT; pool++) {
		for (uint8_t class = 0; class < ARENA_CLASSES; class ++) {
			int rc = audit_room(a, pool, class, sum->with_room[pool][class]);

			if (rc)
				return rc;
			nspare += a->room[pool][class].spare != CHUNK_NONE;
			if (a->room[pool][class].slots != sum->slots[pool][class])
				return AUDIT_SLOTS;
		}
	}
	if (nspare != sum->spare)
		return AUDIT_SPARE;
	for (uint32_t i = a->free_head; i != CHUNK_NONE; i = a->chunks[i].next)
		if (i >= a->lay.nchunks || a->chunks[i].use != CHUNK_FREE || ++nfree > sum->free)
			return AUDIT_FREE_LIST;
	return nfree == sum->free ? AUDIT_OK : AUDIT_FREE_LIST;
}

static int audit_sums(const struct arena *a, const struct audit *sum)
{
	if (a->index.n != sum->index_n)
		return AUDIT_INDEX_COUNT;
	for (unsigned pool = 0; pool < POOL_COUNT; pool++) {
		if (a->used_bytes[pool] != sum->used_bytes[pool] || a->wasted_bytes[pool] != sum->wasted_bytes[pool])
			return AUDIT_USED_BYTES;
		if (a->lent_bytes[pool] != sum->lent_bytes[pool] || a->blanks[pool] != sum->blanks[pool])
			return AUDIT_LENT;
		if (a->owned[pool] != sum->owned[pool] || a->large[pool] != sum->large[pool] ||
		    a->owned_bytes[pool] != sum->owned_bytes[pool])
			return AUDIT_OWNED;
		if (a->capacity_bytes[pool] != arena_chunks_capacity(a, (enum arena_pool)pool))
			return AUDIT_CAPACITY;
	}
	return a->nfree == sum->free + sum->spare ? AUDIT_OK : AUDIT_NFREE;
}

int arena_audit(struct arena *a)
{
	struct audit sum = {0};
	int rc;

	if (a->misused)
		return AUDIT_MISUSE;
	for (uint32_t chunk = 0; chunk < a->lay.nchunks; chunk++) {
		rc = audit_chunk(a, chunk, &sum);
		if (rc)
			return rc;
	}
	rc = audit_lists(a, &sum);
	return rc ? rc : audit_sums(a, &sum);
}
