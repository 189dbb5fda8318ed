/* SPDX-License-Identifier: Apache-2.0 */
/* arena_priv.h - interface between the arena's files. Only these files include it.
 *
 * Theory of operation
 *
 *   region (outlives the process)                      heap (volatile, rebuilt)
 *   +---------------------------+                      +----------------------------+
 *   | superblock                |                      | struct arena               |
 *   | descriptors, A and B      |                      | chunks: lists, counts      |
 *   | fingerprint rings         |                      | slot_meta, by slot id      |
 *   | chunk table: pool, class  |                      | index                      |
 *   +- chunk_size aligned ------+                      | newest descriptor numbers  |
 *   | chunk: headers | data     |                      +----------------------------+
 *   | chunk: headers | data     |
 *
 * A slot id is chunk << shift | slot in chunk, shift being enough for the class with the most slots.
 *
 * A kill may come at any instruction. For each object one single store decides whether it exists afterwards; that store
 * is a release after all the bytes that it makes valid:
 *
 *   slot            its state byte, after data, header and header CRC
 *   chunk           its 8-byte table word. Before it is written, the states of the headers it brings into force are
 *                   cleared: a header left by an earlier life, valid CRC and all, must never count
 *   descriptor      its 8-byte CRC and sequence word, zero while the copy is being written
 *   whole arena     the superblock's magic, zero while formatting
 *
 * Devices write into blanks and read from pinned slots while the core does other things. A blank is in no index and
 * belongs to no flow, so nothing that a device writes there counts before arena_adopt(). A pinned slot that is freed is
 * free for a rebuild at once (header) and gone from the index, but its chunk counts it as used until the last pin goes.
 * Blanks and such slots are *lent*: the pool's capacity is smaller by them, since no packet finds a place there.
 *
 * A chunk is *used* while it has a slot in use. All others are *free*, whatever class the table still says; a free
 * chunk needs no table store, since its headers all say SLOT_FREE. Up to one free chunk per pool and class is kept
 * aside, still in its class ("spare"), so that a packet that comes and goes alone does not take and return a chunk
 * each time. A spare counts as free and is taken from its class when nothing else is left. */
#ifndef PROXY_ARENA_PRIV_H
#define PROXY_ARENA_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <isa-l/crc.h>

#include "arena.h"
#include "arena_index.h"

enum {
	ARENA_CLASSES = 4,
	ARENA_LARGEST = ARENA_CLASSES - 1,             /* the class whose slots hold every packet */
	ARENA_SUPERBLOCK = 4096,                       /* bytes set aside: a page of its own */
	ARENA_CHUNKS_MIN = POOL_COUNT * ARENA_CLASSES, /* below that a pool could not hold every size at once */
	ARENA_CHUNK_LOG2_MIN = 16,
	ARENA_CHUNK_LOG2_MAX = 21,
	ARENA_SLOT_BITS = 31, /* slot + 1 must fit beside ARENA_INDEX_PASSED */
};

#define CHUNK_NONE UINT32_MAX

struct arena_superblock {
	uint64_t magic;  /* stored last */
	uint32_t layout; /* ARENA_LAYOUT_VERSION; this field and magic stay in place in every version */
	uint32_t crc;    /* CRC-32 of the fields behind it */
	uint64_t epoch;
	uint64_t len;
	uint32_t chunk_size;
	uint32_t max_flows;
	uint32_t nchunks;
	uint32_t reserved[5];
};
_Static_assert(sizeof(struct arena_superblock) == 64, "superblock fields are one cache line");

struct arena_desc_copy {
	union {
		struct {
			uint32_t crc; /* of len and data, begun with seq, table and index */
			uint32_t seq; /* its lowest bit is the copy's own number; 0: nothing there */
		};
		uint64_t word; /* both, so that one store makes the copy valid */
	};
	uint16_t len;
	uint16_t reserved[3];
	uint8_t data[ARENA_DESC_MAX];
};
_Static_assert(sizeof(struct arena_desc_copy) == 384, "descriptor copies are whole cache lines");

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

/* arena_layout.c. False: impossible geometry. */
bool arena_layout_of(const struct arena_geometry *g, struct arena_layout *l);

/* arena.c. Frees a slot in use, but leaves its chunk in whatever list it is. Returns what arena_free() does. */
uint32_t arena_slot_drop(struct arena *a, uint32_t slot);

/* arena.c. The slot's bytes are lent no more; puts the slot among the free slots of its chunk. */
void arena_slot_reclaim(struct arena *a, uint32_t slot);
/* A packet of that class comes into use (n: 1) or is freed (-1) in a chunk of a larger class. */
void arena_slot_wastes(struct arena *a, const struct arena_chunk *c, uint8_t class, int n);

/* arena_chunk.c */
uint64_t arena_table_word(uint32_t chunk, uint8_t pool, uint8_t class);
/* arena_chunks_capacity() works out the slot bytes of the chunks that the pool has or may take, without lent and wasted
 * ones. arena_chunks_counted() does this for both pools, after what it follows from has changed. arena_chunk_owned()
 * counts a chunk that becomes used (n: 1) or free (-1). */
uint64_t arena_chunks_capacity(const struct arena *a, enum arena_pool pool);
void arena_chunks_counted(struct arena *a);
void arena_chunk_owned(struct arena *a, const struct arena_chunk *c, int n);
/* Free chunks that the pool may take now. */
uint32_t arena_chunks_takeable(const struct arena *a, enum arena_pool pool);
/* Slots for packets of `class` that the pool can have from these chunks: the last chunk is of ARENA_LARGEST if the pool
 * has none yet. */
uint64_t arena_slots_takeable(const struct arena *a, enum arena_pool pool, uint8_t class);
/* Gives the pool and class a chunk with room, linked into its list. CHUNK_NONE: the pool is full. */
uint32_t arena_chunk_take(struct arena *a, enum arena_pool pool, uint8_t class);
/* The chunk's last used slot was freed. */
void arena_chunk_empty(struct arena *a, uint32_t chunk);
void arena_chunk_link(struct arena *a, uint32_t chunk);
void arena_chunk_unlink(struct arena *a, uint32_t chunk);
void arena_chunk_free_push(struct arena *a, uint32_t chunk);

/* arena_desc.c. Format: nothing is stored. Attach: finds the newest copies, counts and clears damaged ones. */
void arena_desc_clear_all(struct arena *a);
void arena_desc_attach_all(struct arena *a);

/* Descriptors of all tables. */
static inline uint32_t arena_desc_entries(uint32_t max_flows)
{
	return DESC_RELAY * max_flows + DESC_RELAY_ENTRIES;
}

static inline uint8_t arena_class_of(uint16_t len)
{
	if (__builtin_expect(len > 2176, true)) /* most bytes are in packets of 4 KiB */
		return 3;
	return (uint8_t)((len > 512) + (len > 1152));
}

/* Counts the bytes of a slot with a packet of that length that comes into use (n: 1) or is freed (-1). */
static inline void arena_slot_counted(struct arena *a, const struct arena_chunk *c, uint16_t len, int n)
{
	uint8_t class = arena_class_of(len);

	a->used_bytes[c->pool] += (uint64_t)((int64_t)a->lay.class[class].stride * n);
	if (class != c->class)
		arena_slot_wastes(a, c, class, n);
}

static inline bool arena_kind_known(uint8_t kind)
{
	return kind >= SLOT_REQ_NEAR && kind < SLOT_KINDS;
}

static inline bool arena_kind_is_raw(uint8_t kind)
{
	return kind == SLOT_RAW_LAN || kind == SLOT_RAW_WAN;
}

static inline uint8_t *arena_chunk_base(const struct arena *a, uint32_t chunk)
{
	return a->chunk0 + ((size_t)chunk << a->lay.chunk_log2);
}

static inline struct slot_hdr *arena_chunk_hdrs(const struct arena *a, uint32_t chunk)
{
	return (struct slot_hdr *)(void *)arena_chunk_base(a, chunk);
}

static inline struct slot_hdr *arena_slot_hdr(const struct arena *a, uint32_t slot)
{
	return arena_chunk_hdrs(a, slot >> a->lay.shift) + (slot & a->slot_mask);
}

static inline uint32_t arena_slot_id(const struct arena *a, uint32_t chunk, uint32_t in_chunk)
{
	return chunk << a->lay.shift | in_chunk;
}

static inline void arena_set_state(struct slot_hdr *h, enum slot_state state)
{
	__atomic_store_n(&h->state, (uint8_t)state, __ATOMIC_RELEASE);
}

/* CRC of the header, with SLOT_COMMITTED in place of its state. */
static inline uint32_t arena_hdr_crc(const struct arena *a, const struct slot_hdr *h)
{
	return crc32_gzip_refl(a->crc_committed, (const uint8_t *)h + 1, offsetof(struct slot_hdr, crc) - 1);
}

static inline void arena_meta_reset(struct slot_meta *m)
{
	uint16_t gen = m->gen;

	memset(m, 0, sizeof(*m));
	m->gen = gen;
	m->next = SLOT_NONE;
}

#endif
