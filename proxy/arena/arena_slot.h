/* SPDX-License-Identifier: Apache-2.0 */
/* arena_slot.h - the look-ups in the arena that the core makes many times for each packet, as inline functions, and the
 * volatile state that they read.
 *
 * The members of struct arena are the arena's own: other folders call the functions below, and arena.h's. arena_priv.h
 * has the theory. */
#ifndef PROXY_ARENA_SLOT_H
#define PROXY_ARENA_SLOT_H

#include "arena.h"
#include "arena_index.h"

#define ARENA_CLASSES 4

struct arena_class {
	uint32_t stride;   /* bytes of a slot */
	uint32_t nslots;   /* in a chunk */
	uint32_t data_off; /* of slot 0 in the chunk */
};

/* The place of everything, computed from the geometry alone. Offsets are in bytes. */
struct arena_layout {
	uint64_t fp_off, table_off, chunks_off; /* in the region; descriptors follow the superblock */
	uint32_t nchunks;
	uint8_t chunk_log2, shift;
	struct arena_class class[ARENA_CLASSES];
	uint32_t chunk_bytes; /* slot bytes of a chunk in the class with the most slot bytes */
	uint64_t index_entries;
	size_t chunk_at, meta_at, index_at, seq_at, heap_len; /* in the heap */
};

enum arena_chunk_use { CHUNK_FREE, CHUNK_SPARE, CHUNK_USED };

struct arena_chunk {
	uint32_t next, prev; /* list links; a used chunk: chunks of this pool and class with room; a free chunk: `next`
	                      * alone */
	uint32_t free_head;  /* slots freed since the chunk was taken, linked by slot_meta.next */
	uint16_t fresh;      /* slots from here on were not handed out since the chunk was taken */
	uint16_t used;       /* slots in use */
	uint16_t nhdrs;      /* number of headers, by the class that the chunk has or had; 0: it never had one */
	uint8_t pool, class; /* meaningless while CHUNK_FREE */
	uint8_t use;         /* enum arena_chunk_use */
};

/* Described in arena_priv.h. */
struct arena {
	uint8_t *region;
	uint8_t *chunk0;
	struct arena_chunk *chunks;
	struct slot_meta *meta;
	struct arena_index index;
	struct arena_layout lay;
	uint32_t slot_mask;

	struct {
		uint32_t head, tail; /* used chunks with room */
		uint32_t spare;      /* CHUNK_NONE, or the free chunk kept in this class */
		uint32_t slots;      /* free ones in used chunks */
	} room[POOL_COUNT][ARENA_CLASSES];
	uint32_t free_head;         /* free chunks that are not spares */
	uint32_t nfree;             /* free chunks, spares included */
	uint32_t owned[POOL_COUNT]; /* used chunks */
	uint64_t owned_bytes[POOL_COUNT]; /* slot bytes of these, which are less in classes of small slots */
	uint32_t large[POOL_COUNT]; /* of these, chunks of ARENA_LARGEST */
	uint32_t reserve;           /* chunks that each pool can always reach */
	uint64_t used_bytes[POOL_COUNT];
	uint64_t wasted_bytes[POOL_COUNT]; /* of slots in use of a larger class than their packets */
	uint64_t lent_bytes[POOL_COUNT];     /* bytes of blanks and of pinned slots that were freed: no packet counts
	                                      * them */
	uint32_t blanks[POOL_COUNT];
	uint64_t capacity_bytes[POOL_COUNT]; /* follows from nfree, owned, owned_bytes, lent_bytes and
	                                      * wasted_bytes: arena_chunks_counted() */

	struct arena_desc_copy *desc; /* [table][index][copy] */
	uint32_t *desc_seq;           /* [table][index]: sequence of the newest copy, 0: none */
	uint32_t *fingerprints;
	uint64_t *table; /* a word per chunk */

	struct {
		uint32_t flow;
		uint64_t pos;
	} hurt[ARENA_HURT_MAX];
	uint32_t nhurt;
	uint64_t epoch;
	uint32_t max_flows;
	uint32_t crc_committed; /* CRC-32 of the one byte SLOT_COMMITTED */
	uint32_t damaged;
	uint32_t misused; /* calls that a correct core never makes: ignored; arena_audit() shows them */

	struct {
		uint64_t pos;
		uint32_t flow, slot;
		uint8_t kind;
		bool live; /* the slot still holds that packet */
		uint32_t step; /* last distance from a slot to the slot of the next position, modulo 2^32; 0: unknown */
	} found; /* the slot that was taken or found last */
	struct {
		const uint8_t *at, *end;
	} fetch; /* bytes that the next packet is likely to be written to and that are not fetched yet */
};

/* First byte of the chunk: its headers are there. */
static inline uint8_t *arena_chunk_base(const struct arena *a, uint32_t chunk)
{
	return a->chunk0 + ((size_t)chunk << a->lay.chunk_log2);
}

static inline struct slot_hdr *arena_hdr(const struct arena *a, uint32_t slot)
{
	return (struct slot_hdr *)(void *)arena_chunk_base(a, slot >> a->lay.shift) + (slot & a->slot_mask);
}

static inline struct slot_meta *arena_meta(const struct arena *a, uint32_t slot)
{
	return &a->meta[slot];
}

/* Where a packet that is copied into the slot begins. */
static inline uint8_t *arena_slot_bytes(const struct arena *a, const struct arena_class *class, uint32_t slot)
{
	return arena_chunk_base(a, slot >> a->lay.shift) + class->data_off +
	       (size_t)(slot & a->slot_mask) * class->stride;
}

/* The packet in the slot, of which h is the header; or the place for it. */
static inline uint8_t *arena_data_of(const struct arena *a, uint32_t slot, const struct slot_hdr *h)
{
	return arena_slot_bytes(a, &a->lay.class[a->chunks[slot >> a->lay.shift].class], slot) + h->data_off;
}

static inline uint8_t *arena_data(const struct arena *a, uint32_t slot)
{
	return arena_data_of(a, slot, arena_hdr(a, slot));
}

/* Not the slot that was taken or found last. */
uint32_t arena_find_other(struct arena *a, enum slot_kind kind, uint32_t flow, uint64_t pos);

/* The slot of that kind, flow and position (any incarnation), SLOT_NONE if there is none. O(1). The core looks for some
 * packets twice in a row. */
static inline uint32_t arena_find(struct arena *a, enum slot_kind kind, uint32_t flow, uint64_t pos)
{
	if (a->found.pos == pos && a->found.live && a->found.flow == flow && a->found.kind == kind)
		return a->found.slot;
	return arena_find_other(a, kind, flow, pos);
}

/* FP_RING fingerprints of a near flow. */
static inline uint32_t *arena_fingerprints(const struct arena *a, uint32_t idx)
{
	return &a->fingerprints[(size_t)idx * FP_RING];
}

/* --- room --- */

static inline uint8_t arena_class_of(uint16_t len)
{
	if (__builtin_expect(len > 2176, true)) /* most bytes are in packets of 4 KiB */
		return 3;
	return (uint8_t)((len > 512) + (len > 1152));
}

/* Bytes of the size class of a packet of len. In a full pool a packet may be in a slot of a larger class. */
static inline uint32_t arena_class_bytes(uint16_t len)
{
	static const uint16_t bytes[ARENA_CLASSES] = {512, 1152, 2176, ARENA_BLANK_BYTES};

	return bytes[arena_class_of(len)];
}

/* Slot bytes in use by a pool, as arena_class_bytes() counts them. */
static inline uint64_t arena_used(const struct arena *a, enum arena_pool pool)
{
	return a->used_bytes[pool];
}

/* The most slot bytes that a pool may use now: own chunks and the free ones that it may take, without what small
 * packets leave unused in larger slots. */
static inline uint64_t arena_capacity(const struct arena *a, enum arena_pool pool)
{
	return a->capacity_bytes[pool];
}

/* True if arena_room() is more than `bytes`: mostly the pool has so many free slots of the packet's own class. */
static inline bool arena_has_room(const struct arena *a, enum arena_pool pool, uint16_t len, uint64_t bytes)
{
	uint64_t own = (uint64_t)a->room[pool][arena_class_of(len)].slots * arena_class_bytes(len);

	return own > bytes || arena_room(a, pool, len) > bytes;
}

#endif
