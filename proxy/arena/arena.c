/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - slots: from arena_alloc() over arena_commit() to arena_free().
 *
 * arena_priv.h describes the layout, and the stores by which the layout survives a kill.
 *
 * Theory of operation
 *
 * The states of a slot (slot_hdr.state):
 *
 *     SLOT_FREE --arena_alloc()--> SLOT_FILLING --arena_commit()--> SLOT_COMMITTED --arena_free()--> SLOT_FREE
 *     SLOT_FREE --arena_blank()--> SLOT_BLANK --arena_blank_return()--> SLOT_FREE
 *
 * Slots that are filling or committed are in use: the index finds them by kind, flow and position. arena_adopt() gives
 * a blank the header and the index entry of a filling slot, which becomes the blank. arena_amend() makes a committed
 * slot a filling one while it changes the header. After a kill only committed slots remain (arena_attach.c).
 *
 * arena_alloc() takes a slot of the smallest class that holds the packet: from a chunk with room, else from a chunk
 * that the pool may take (arena_chunk.c), else from a chunk of a larger class. A freed slot with pins joins the free
 * slots of its chunk with the last arena_unpin(). */
#include "arena.h"

#include "arena_priv.h"
#include "proxy/util/fault.h"

enum {
	CACHE_LINE = 64,
	FETCH_LINES = 13, /* lines fetched at once: a fifth of a packet with 4 KiB */
};

uint64_t arena_epoch(const struct arena *a)
{
	return a->epoch;
}

uint32_t arena_damaged(const struct arena *a)
{
	return a->damaged;
}

/* Filling or committed. */
static inline __attribute__((always_inline)) bool slot_in_use(const struct arena *a, uint32_t slot)
{
	uint32_t chunk = slot >> a->lay.shift;

	return chunk < a->lay.nchunks && a->chunks[chunk].use == CHUNK_USED &&
	       (slot & a->slot_mask) < a->chunks[chunk].fresh && arena_hdr(a, slot)->state - 1u < SLOT_COMMITTED;
}

static bool is_of(const struct slot_hdr *h, enum slot_kind kind, uint32_t flow, uint64_t pos)
{
	return h->pos == pos && h->flow == flow && h->kind == kind;
}

static uint32_t find_by_index(const struct arena *a, enum slot_kind kind, uint32_t flow, uint64_t pos)
{
	const struct arena_index *ix = &a->index;
	uint32_t tag = arena_index_tag((uint8_t)kind, flow, pos);

	for (uint32_t i = tag & ix->mask; arena_index_candidate(ix, tag, &i); i = (i + 1) & ix->mask) {
		uint32_t slot = arena_index_slot(ix, i);

		if (is_of(arena_hdr(a, slot), kind, flow, pos))
			return slot;
	}
	return SLOT_NONE;
}

static inline void note_found(struct arena *a, enum slot_kind kind, uint32_t flow, uint64_t pos, uint32_t slot)
{
	a->found.pos = pos;
	a->found.flow = flow;
	a->found.slot = slot;
	a->found.kind = (uint8_t)kind;
	a->found.live = true;
}

static __attribute__((noinline)) uint32_t find_anew(struct arena *a, enum slot_kind kind, uint32_t flow, uint64_t pos,
                                                    bool next)
{
	uint32_t slot = find_by_index(a, kind, flow, pos), step = slot - a->found.slot;

	if (slot == SLOT_NONE)
		return SLOT_NONE;
	if (next)
		a->found.step = step + 1 <= 2 ? step : 0; /* 1 or -1 */
	note_found(a, kind, flow, pos, slot);
	return slot;
}

/* Mostly the packets of a flow came in runs and lie side by side. The neighbouring slot is guessed only while the last
 * guess was right, because the neighbour's header may be in no cache. */
uint32_t arena_find_other(struct arena *a, enum slot_kind kind, uint32_t flow, uint64_t pos)
{
	bool next = a->found.pos + 1 == pos && a->found.flow == flow && a->found.kind == kind;
	uint32_t slot = a->found.slot + a->found.step;

	if (!next || !a->found.step || !slot_in_use(a, slot) || !is_of(arena_hdr(a, slot), kind, flow, pos))
		return find_anew(a, kind, flow, pos, next);
	a->found.pos = pos;
	a->found.slot = slot;
	a->found.live = true;
	return slot;
}

/* A free slot of that chunk, which has one. */
static uint32_t slot_take(struct arena *a, uint32_t chunk)
{
	struct arena_chunk *c = &a->chunks[chunk];
	const struct arena_class *class = &a->lay.class[c->class];
	uint32_t slot = c->free_head;

	if (slot != SLOT_NONE)
		c->free_head = a->meta[slot].next;
	else
		slot = arena_slot_id(a, chunk, c->fresh++);
	a->room[c->pool][c->class].slots--;
	if (++c->used == class->nslots)
		arena_chunk_unlink(a, chunk);
	return slot;
}

/* Fetches a cache line that is about to be written. Without the empty asm gcc drops calls of functions that do nothing
 * but prefetch. */
static inline void fetch(const void *line)
{
	__builtin_prefetch(line, 1);
	__asm__ volatile("");
}

void arena_fetch(struct arena *a)
{
	const uint8_t *at = a->fetch.at, *end = a->fetch.end;

	if (end - at > (FETCH_LINES - 1) * CACHE_LINE) {
#pragma GCC unroll 16
		for (int i = 0; i < FETCH_LINES; i++)
			fetch(at + i * CACHE_LINE);
		at += FETCH_LINES * CACHE_LINE;
	} else {
		for (; at < end; at += CACHE_LINE)
			fetch(at);
	}
	a->fetch.at = at;
}

/* Fetches the memory that is written if the next packet is like this one: its slot, in the same chunk, and now and then
 * its line of the index. That memory was not touched for a round trip, and a copy would wait for every line; so the
 * lines are fetched while there is other work to do. Fetching begins after this packet's copy, because both share the
 * processor's few line fill buffers. arena_fetch() fetches the data a part at a time, because processors drop
 * prefetches beyond these buffers. */
static void fetch_next(struct arena *a, uint32_t slot, const struct slot_hdr *h)
{
	uint32_t chunk = slot >> a->lay.shift, next;
	const struct arena_chunk *c = &a->chunks[chunk];
	const struct arena_class *class = &a->lay.class[c->class];

	if (h->pos % ARENA_INDEX_LINE == 0)
		fetch(arena_index_home(&a->index, arena_index_tag(h->kind, h->flow, h->pos + ARENA_INDEX_LINE)));
	if (c->used == class->nslots)
		return;
	next = c->free_head != SLOT_NONE ? c->free_head : arena_slot_id(a, chunk, c->fresh);
	fetch(arena_hdr(a, next));
	fetch(&a->meta[next]);
	a->fetch.at = arena_slot_bytes(a, class, next);
	a->fetch.end = a->fetch.at + (h->data_off ? 0 : h->len); /* a packet that a device wrote needs no copy */
	arena_fetch(a);
}

static void count_lent(struct arena *a, enum arena_pool pool, int64_t bytes)
{
	a->lent_bytes[pool] += (uint64_t)bytes;
	a->capacity_bytes[pool] = arena_chunks_capacity(a, pool);
}

void arena_slot_reclaim(struct arena *a, uint32_t slot)
{
	struct arena_chunk *c = &a->chunks[slot >> a->lay.shift];

	count_lent(a, (enum arena_pool)c->pool, -(int64_t)a->lay.class[c->class].stride);
	a->meta[slot].next = c->free_head;
	c->free_head = slot;
	c->used--;
	a->room[c->pool][c->class].slots++;
}

void arena_slot_wastes(struct arena *a, const struct arena_chunk *c, uint8_t class, int n)
{
	int64_t bytes = ((int64_t)a->lay.class[c->class].stride - a->lay.class[class].stride) * n;

	a->wasted_bytes[c->pool] += (uint64_t)bytes;
	a->capacity_bytes[c->pool] -= (uint64_t)bytes;
}

/* The state byte is stored first: a kill after that store leaves a free slot. */
uint32_t arena_slot_drop(struct arena *a, uint32_t slot)
{
	struct arena_chunk *c = &a->chunks[slot >> a->lay.shift];
	struct slot_hdr *h = arena_hdr(a, slot);
	uint32_t looks;

	arena_set_state(h, SLOT_FREE);
	a->found.live &= a->found.slot != slot;
	if (!arena_index_remove(&a->index, arena_index_tag(h->kind, h->flow, h->pos), slot, &looks))
		a->misused++;
	a->meta[slot].gen++;
	arena_slot_counted(a, c, h->len, -1);
	if (a->meta[slot].pins && FAULT(FAULT_PIN_IGNORED))
		a->meta[slot].pins = 0;
	if (a->meta[slot].pins) {
		count_lent(a, (enum arena_pool)c->pool, a->lay.class[c->class].stride);
		return looks;
	}
	a->meta[slot].next = c->free_head;
	c->free_head = slot;
	c->used--;
	a->room[c->pool][c->class].slots++;
	return looks;
}

/* A chunk with a free slot that is large enough. Chunks of larger classes are the last resort: their free slots count
 * as free bytes, so they must be usable. */
static uint32_t chunk_for(struct arena *a, enum arena_pool pool, uint8_t class)
{
	uint32_t chunk = a->room[pool][class].head;

	if (chunk == CHUNK_NONE)
		chunk = arena_chunk_take(a, pool, class);
	while (chunk == CHUNK_NONE && ++class < ARENA_CLASSES)
		chunk = a->room[pool][class].head;
	return chunk;
}

uint32_t arena_alloc(struct arena *a, enum slot_kind kind, uint32_t flow, uint32_t inc, uint64_t pos, uint16_t len)
{
	uint8_t class = arena_class_of(len);
	enum arena_pool pool = arena_pool_of(kind);
	uint32_t chunk, slot;
	struct slot_hdr *h;

	if (!arena_kind_known((uint8_t)kind) || !len || len > LAN_PKT_MAX) {
		a->misused++;
		return SLOT_NONE;
	}
	chunk = chunk_for(a, pool, class);
	if (chunk == CHUNK_NONE)
		return SLOT_NONE;
	slot = slot_take(a, chunk);
	arena_meta_reset(&a->meta[slot]);
	h = arena_hdr(a, slot);
	*h = (struct slot_hdr){
	    .state = SLOT_FILLING, .kind = (uint8_t)kind, .len = len, .flow = flow, .inc = inc, .pos = pos};
	arena_slot_counted(a, &a->chunks[chunk], len, 1);
	arena_index_insert(&a->index, arena_index_tag((uint8_t)kind, flow, pos), slot);
	note_found(a, kind, flow, pos, slot);
	return slot;
}

void arena_commit(struct arena *a, uint32_t slot)
{
	struct slot_hdr *h = arena_hdr(a, slot);

	if (!slot_in_use(a, slot) || h->state != SLOT_FILLING) {
		a->misused++;
		return;
	}
	h->crc = arena_hdr_crc(a, h);
	arena_set_state(h, SLOT_COMMITTED);
	fetch_next(a, slot, h);
}

/* A kill within leaves the slot SLOT_FILLING: the packet is gone, and nothing looks damaged. */
void arena_amend(struct arena *a, uint32_t slot, uint32_t psns, uint32_t msn)
{
	struct slot_hdr *h = arena_hdr(a, slot);

	if (!slot_in_use(a, slot) || h->state != SLOT_COMMITTED) {
		a->misused++;
		return;
	}
	arena_set_state(h, SLOT_FILLING);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	h->psns = psns;
	h->msn = msn;
	h->crc = arena_hdr_crc(a, h);
	arena_set_state(h, SLOT_COMMITTED);
}

uint32_t arena_free(struct arena *a, uint32_t slot)
{
	uint32_t chunk = slot >> a->lay.shift;
	struct arena_chunk *c = &a->chunks[chunk];
	uint32_t looks;
	bool full;

	if (!slot_in_use(a, slot)) {
		a->misused++;
		return 0;
	}
	full = c->used == a->lay.class[c->class].nslots;
	looks = arena_slot_drop(a, slot);
	if (full && c->used < a->lay.class[c->class].nslots)
		arena_chunk_link(a, chunk);
	if (!c->used)
		arena_chunk_empty(a, chunk);
	return looks;
}

/* --- blanks and pins --- */

uint32_t arena_blanks(const struct arena *a, enum arena_pool pool)
{
	return a->blanks[pool];
}

uint64_t arena_lent(const struct arena *a, enum arena_pool pool)
{
	return a->lent_bytes[pool];
}

static void become_blank(struct arena *a, uint32_t slot)
{
	struct slot_hdr *h = arena_hdr(a, slot);

	arena_meta_reset(&a->meta[slot]);
	h->data_off = 0;
	arena_set_state(h, SLOT_BLANK);
}

uint32_t arena_blank(struct arena *a, enum arena_pool pool)
{
	uint32_t chunk = chunk_for(a, pool, ARENA_CLASSES - 1), slot;

	if (chunk == CHUNK_NONE)
		return SLOT_NONE;
	slot = slot_take(a, chunk);
	become_blank(a, slot);
	a->blanks[pool]++;
	count_lent(a, pool, ARENA_BLANK_BYTES);
	return slot;
}

static bool slot_taken(const struct arena *a, uint32_t slot)
{
	uint32_t chunk = slot >> a->lay.shift;

	return chunk < a->lay.nchunks && a->chunks[chunk].use == CHUNK_USED &&
	       (slot & a->slot_mask) < a->chunks[chunk].fresh;
}

static bool slot_is_blank(const struct arena *a, uint32_t slot)
{
	return slot_taken(a, slot) && arena_hdr(a, slot)->state == SLOT_BLANK;
}

/* A kill may leave the blank's header torn, but its state never says SLOT_COMMITTED meanwhile. */
bool arena_adopt(struct arena *a, uint32_t slot, uint32_t blank, uint16_t data_off)
{
	struct slot_hdr *h = arena_hdr(a, slot), *b = arena_hdr(a, blank);
	uint8_t lane = a->meta[slot].lane;
	uint32_t at;

	if (!slot_is_blank(a, blank) || !slot_in_use(a, slot) || h->state != SLOT_FILLING ||
	    a->chunks[slot >> a->lay.shift].class != ARENA_CLASSES - 1 ||
	    a->chunks[slot >> a->lay.shift].pool != a->chunks[blank >> a->lay.shift].pool ||
	    data_off + h->len > ARENA_BLANK_BYTES || dnode_on(&a->meta[slot].node) ||
	    !arena_index_locate(&a->index, arena_index_tag(h->kind, h->flow, h->pos), slot, &at))
		return false;
	a->index.tab[at].slot1 = blank + 1;
	a->found.live = a->found.live && a->found.slot != slot;
	*b = *h;
	b->data_off = data_off;
	a->meta[slot].gen++;
	become_blank(a, slot);
	arena_meta_reset(&a->meta[blank]);
	a->meta[blank].lane = lane;
	return true;
}

/* Puts a slot that was in use in some way among the free slots of its chunk. */
static void slot_reclaim(struct arena *a, uint32_t slot)
{
	uint32_t chunk = slot >> a->lay.shift;
	struct arena_chunk *c = &a->chunks[chunk];

	if (c->used == a->lay.class[c->class].nslots)
		arena_chunk_link(a, chunk);
	arena_slot_reclaim(a, slot);
	if (!c->used)
		arena_chunk_empty(a, chunk);
}

void arena_blank_return(struct arena *a, uint32_t slot)
{
	if (!slot_is_blank(a, slot)) {
		a->misused++;
		return;
	}
	a->blanks[a->chunks[slot >> a->lay.shift].pool]--;
	arena_set_state(arena_hdr(a, slot), SLOT_FREE);
	slot_reclaim(a, slot);
}

bool arena_pin(struct arena *a, uint32_t slot)
{
	if (!slot_in_use(a, slot) || arena_hdr(a, slot)->state != SLOT_COMMITTED ||
	    a->meta[slot].pins == ARENA_PINS_MAX)
		return false;
	a->meta[slot].pins++;
	return true;
}

void arena_unpin(struct arena *a, uint32_t slot)
{
	if (!slot_taken(a, slot) || !a->meta[slot].pins) {
		a->misused += !FAULT(FAULT_PIN_IGNORED);
		return;
	}
	if (--a->meta[slot].pins == 0 && arena_hdr(a, slot)->state == SLOT_FREE)
		slot_reclaim(a, slot);
}

uint32_t arena_next_committed(struct arena *a, uint32_t *cursor)
{
	for (uint32_t chunk = *cursor >> a->lay.shift; chunk < a->lay.nchunks; chunk++) {
		const struct arena_chunk *c = &a->chunks[chunk];
		const struct slot_hdr *h = arena_chunk_hdrs(a, chunk);
		uint32_t i = *cursor >> a->lay.shift == chunk ? *cursor & a->slot_mask : 0;

		if (c->use != CHUNK_USED)
			continue;
		for (; i < c->fresh; i++) {
			if (h[i].state != SLOT_COMMITTED)
				continue;
			*cursor = arena_slot_id(a, chunk, i) + 1;
			return arena_slot_id(a, chunk, i);
		}
	}
	*cursor = a->lay.nchunks << a->lay.shift;
	return SLOT_NONE;
}
