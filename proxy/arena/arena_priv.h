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

#include "arena_slot.h"

enum {
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

static inline struct slot_hdr *arena_chunk_hdrs(const struct arena *a, uint32_t chunk)
{
	return (struct slot_hdr *)(void *)arena_chunk_base(a, chunk);
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
