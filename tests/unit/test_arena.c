/* SPDX-License-Identifier: Apache-2.0 */
/* Slots: classes, pools and their reserves, chunks that change class, the index, and a long random run against a
 * model. */
#include "arena_fixture.h"

static const uint16_t class_lens[ARENA_CLASSES] = {512, 1152, 2176, 4224};
static const uint16_t strides[ARENA_CLASSES] = {512, 1152, 2176, ARENA_BLANK_BYTES};

/* Allocates and commits until the pool refuses. Positions go on from *pos. */
static uint32_t fill_pool(struct arena *a, enum slot_kind kind, uint16_t len, uint64_t *pos)
{
	uint32_t n = 0;

	while (fix_put(a, kind, 1, 1, *pos, len) != SLOT_NONE) {
		(*pos)++;
		n++;
	}
	return n;
}

/* Slots for packets of a class in so many chunks of a pool that had none: one chunk is of the largest class. */
static uint32_t slots_in(const struct arena *a, uint32_t chunks, unsigned class)
{
	return (chunks - 1) * a->lay.class[class].nslots + a->lay.class[ARENA_LARGEST].nslots;
}

static void free_range(struct arena *a, enum slot_kind kind, uint64_t from, uint64_t to)
{
	for (; from < to; from++)
		arena_free(a, arena_find(a, kind, 1, from));
}

static void heap_size__impossible_geometry_is_zero(void **state)
{
	(void)state;
	const struct arena_geometry good = {
	    .len = arena_min_len(1 << 16, 16), .chunk_size = 1 << 16, .max_flows = 16, .reserve_percent = 25};
	struct arena_geometry g;

	assert_int_not_equal(arena_heap_size(&good), 0);
#define REFUSED(field, value)                                                                                          \
	do {                                                                                                           \
		g = good;                                                                                              \
		g.field = (value);                                                                                     \
		assert_int_equal(arena_heap_size(&g), 0);                                                              \
	} while (0)
	REFUSED(len, good.len - 1);
	REFUSED(len, 0);
	REFUSED(chunk_size, 0);
	REFUSED(chunk_size, (1 << 16) + 64);
	REFUSED(chunk_size, 1 << 15);
	REFUSED(chunk_size, 1 << 22);
	REFUSED(max_flows, 0);
	REFUSED(max_flows, FLOWS_MAX + 1);
	REFUSED(reserve_percent, 9);
	REFUSED(reserve_percent, 51);
	REFUSED(len, UINT64_MAX);
	REFUSED(len, 3ull << 40); /* more slots than 31 bits can number */
#undef REFUSED
	g = good;
	g.len = 1ull << 40;
	g.chunk_size = 2 << 20;
	assert_int_not_equal(arena_heap_size(&g), 0);
}

static void min_len__has_a_chunk_for_every_class_and_pool(void **state)
{
	(void)state;
	for (uint32_t size = 1 << 16; size <= 2 << 20; size *= 2) {
		for (uint32_t flows = 1; flows < 3000; flows = flows * 3 + 1) {
			struct arena_geometry g = {.len = arena_min_len(size, flows),
			                           .chunk_size = size,
			                           .max_flows = flows,
			                           .reserve_percent = 10};
			struct arena_layout l;

			assert_true(arena_layout_of(&g, &l));
			assert_int_equal(l.nchunks, ARENA_CHUNKS_MIN);
			assert_true(l.chunks_off >= l.table_off + l.nchunks * sizeof(uint64_t));
			assert_int_equal(l.chunks_off % size, 0);
			assert_true(l.chunks_off + (uint64_t)l.nchunks * size <= g.len);
			assert_true(l.index_entries >= 2ull * l.nchunks * l.class[0].nslots);
		}
	}
}

static void format__refuses_what_it_cannot_use(void **state)
{
	(void)state;
	struct fixture f;
	struct arena *a = NULL;

	fix_open(&f, FIX_CHUNK, 8, 25);
	assert_int_equal(arena_format(&a, f.region + 8, &f.g, 1, f.heap), -EINVAL);
	assert_int_equal(arena_format(&a, NULL, &f.g, 1, f.heap), -EINVAL);
	assert_int_equal(arena_format(&a, f.region, &f.g, 1, NULL), -EINVAL);
	f.g.max_flows = 0;
	assert_int_equal(arena_format(&a, f.region, &f.g, 1, f.heap), -EINVAL);
	assert_null(a);
	fix_close(&f);
}

static void alloc__gives_a_blank_slot(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t slot;
	struct slot_hdr *h, blank = {0};
	struct slot_meta *m;

	fix_open(&f, FIX_CHUNK, 8, 25);
	slot = arena_alloc(f.a, SLOT_RESP_NEAR, 3, 5, 1ull << 40, 700);
	assert_int_not_equal(slot, SLOT_NONE);
	h = arena_hdr(f.a, slot);
	assert_int_equal(h->state, SLOT_FILLING);
	blank.state = SLOT_FILLING;
	blank.kind = SLOT_RESP_NEAR;
	blank.flow = 3;
	blank.inc = 5;
	blank.pos = 1ull << 40;
	blank.len = 700;
	assert_memory_equal(h, &blank, sizeof(blank));
	m = arena_meta(f.a, slot);
	assert_int_equal(m->next, SLOT_NONE);
	assert_int_equal(m->units[0] | m->units[1] | m->due_ns | m->sends | m->queued, 0);
	assert_int_equal((uintptr_t)arena_data(f.a, slot) % 64, 0);
	assert_int_equal(arena_find(f.a, SLOT_RESP_NEAR, 3, 1ull << 40), slot);
	fix_close(&f);
}

static void alloc__clears_what_an_earlier_packet_left(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t first, second;
	uint16_t gen;
	struct slot_meta *m;

	fix_open(&f, FIX_CHUNK, 8, 25);
	first = fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 1, 100);
	memset(arena_meta(f.a, first), 0xff, sizeof(struct slot_meta));
	arena_meta(f.a, first)->pins = 0;
	arena_meta(f.a, first)->gen = gen = 41;
	arena_hdr(f.a, first)->flags = SF_ACK_REQ;
	arena_free(f.a, first);
	assert_int_equal(arena_meta(f.a, first)->gen, gen + 1);
	second = arena_alloc(f.a, SLOT_REQ_NEAR, 1, 1, 2, 100);
	assert_int_equal(second, first);
	m = arena_meta(f.a, second);
	assert_int_equal(m->next, SLOT_NONE);
	assert_int_equal(m->units[0] | m->units[1] | m->due_ns | m->sends | m->queued, 0);
	assert_int_equal(m->gen, gen + 1);
	assert_int_equal(arena_hdr(f.a, second)->flags, 0);
	fix_close(&f);
}

static void alloc__bad_kind_or_length_is_refused_and_seen(void **state)
{
	(void)state;
	static const struct {
		int kind;
		uint16_t len;
	} bad[] = {{SLOT_REQ_NEAR, 0}, {SLOT_REQ_NEAR, LAN_PKT_MAX + 1}, {0, 100}, {SLOT_KINDS, 100}};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fixture f;

		fix_open(&f, FIX_CHUNK, 8, 25);
		assert_int_equal(arena_alloc(f.a, (enum slot_kind)bad[i].kind, 1, 1, 1, bad[i].len), SLOT_NONE);
		assert_int_not_equal(arena_audit(f.a), 0);
		fix_close(&f);
	}
}

static void class_bytes__smallest_that_fits(void **state)
{
	(void)state;
	for (uint32_t len = 1; len <= LAN_PKT_MAX; len++) {
		uint32_t want = len <= 512 ? 512 : len <= 1152 ? 1152 : len <= 2176 ? 2176 : ARENA_BLANK_BYTES;

		assert_int_equal(arena_class_bytes((uint16_t)len), want);
	}
}

/* A pool without chunks to take still has what is free in those of larger classes, and gives it out. */
static void alloc__takes_a_larger_slot_when_its_class_has_none(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t slot, first = SLOT_NONE;
	uint64_t pos = 0, used, capacity;

	fix_open(&f, FIX_CHUNK, 8, 25);
	while ((slot = fix_put(f.a, SLOT_RESP_NEAR, 1, 1, pos, 2000)) != SLOT_NONE)
		first = pos++ == 0 ? slot : first;
	arena_free(f.a, first);
	used = arena_used(f.a, POOL_WAN);
	capacity = arena_capacity(f.a, POOL_WAN);
	slot = arena_alloc(f.a, SLOT_RESP_NEAR, 2, 1, 7, 100);
	assert_int_equal(slot, first);
	fix_fill(f.a, slot);
	arena_commit(f.a, slot);
	assert_int_equal(arena_used(f.a, POOL_WAN), used + 512);
	assert_int_equal(arena_capacity(f.a, POOL_WAN), capacity - (2176 - 512)); /* the rest of the slot is of use to nobody */
	assert_int_equal(arena_alloc(f.a, SLOT_RESP_NEAR, 2, 1, 8, 100), SLOT_NONE);
	assert_int_equal(arena_audit(f.a), 0);
	fix_reattach(&f);
	assert_int_equal(arena_hdr(f.a, arena_find(f.a, SLOT_RESP_NEAR, 2, 7))->len, 100);
	arena_free(f.a, arena_find(f.a, SLOT_RESP_NEAR, 2, 7));
	assert_int_equal(arena_used(f.a, POOL_WAN), used);
	assert_int_equal(arena_audit(f.a), 0);
	fix_close(&f);
}

/* Every slot of a full arena keeps its own bytes: none overlaps another, or headers, or other chunks. */
static void data__slots_do_not_overlap(void **state)
{
	(void)state;
	for (unsigned class = 0; class < ARENA_CLASSES; class ++) {
		struct fixture f;
		uint64_t lan = 0, wan = 0;
		uint32_t cursor = 0, slot, n = 0;

		fix_open(&f, FIX_CHUNK, 9, 25);
		fill_pool(f.a, SLOT_REQ_NEAR, class_lens[class], &lan);
		fill_pool(f.a, SLOT_REQ_FAR, class_lens[class], &wan);
		while ((slot = arena_next_committed(f.a, &cursor)) != SLOT_NONE) {
			const uint8_t *end = arena_data(f.a, slot) + strides[class];

			assert_true(end <= f.region + f.g.len);
			fix_check(f.a, slot);
			n++;
		}
		assert_int_equal(n, lan + wan);
		assert_int_equal(n, slots_in(f.a, 6, class) + slots_in(f.a, 3, class));
		assert_int_equal(arena_audit(f.a), 0);
		fix_close(&f);
	}
}

static void capacity__is_never_less_than_used(void **state)
{
	(void)state;
	for (uint32_t size = 1 << 16; size <= 2 << 20; size *= 2) {
		for (unsigned class = 0; class < ARENA_CLASSES; class ++) {
			struct fixture f;
			uint64_t pos = 0;
			uint32_t n;

			fix_open(&f, size, 8, 25);
			n = fill_pool(f.a, SLOT_REQ_NEAR, class_lens[class], &pos);
			assert_int_equal(arena_used(f.a, POOL_LAN), (uint64_t)n * strides[class]);
			assert_true(arena_used(f.a, POOL_LAN) <= arena_capacity(f.a, POOL_LAN));
			assert_int_equal(n, slots_in(f.a, 6, class));
			fix_close(&f);
		}
	}
}

/* Packets of each size find a place in as much as is said, wherever smaller ones are left over. */
static void room__is_what_packets_of_that_size_find_a_place_in(void **state)
{
	(void)state;
	for (unsigned left = 0; left < ARENA_CLASSES; left++) {
		for (unsigned class = 0; class < ARENA_CLASSES; class ++) {
			uint32_t per_chunk = FIX_CHUNK / (strides[left] + 64u);
			uint64_t pos = 0, room, kept;
			struct fixture f;

			fix_open(&f, FIX_CHUNK, 12, 25);
			kept = slots_in(f.a, 9, left);
			assert_int_equal(fill_pool(f.a, SLOT_REQ_FAR, class_lens[left], &pos), kept);
			assert_int_equal(arena_room(f.a, POOL_WAN, class_lens[class]), 0);
			for (uint64_t i = 0; i < 6 * per_chunk; i++)
				if (i % per_chunk)
					free_range(f.a, SLOT_REQ_FAR, i, i + 1);
			free_range(f.a, SLOT_REQ_FAR, 6 * per_chunk, pos);
			fix_reattach(&f);
			room = arena_room(f.a, POOL_WAN, class_lens[class]);
			assert_int_equal(room % strides[class], 0);
			assert_int_equal(fill_pool(f.a, SLOT_RESP_NEAR, class_lens[class], &pos),
			                 room / strides[class]);
			assert_true(class > left ? room <= 3 * FIX_CHUNK : room > 3 * FIX_CHUNK);
			assert_int_equal(arena_audit(f.a), 0);
			fix_close(&f);
		}
	}
}

static void pools__one_full_leaves_the_other_its_reserve(void **state)
{
	(void)state;
	static const uint8_t percents[] = {10, 25, 33, 50};

	for (size_t i = 0; i < sizeof(percents); i++) {
		struct fixture f;
		uint64_t lan = 0, wan = 0, capacity;
		uint32_t per_chunk = FIX_CHUNK / (ARENA_BLANK_BYTES + 64), reserve = 40u * percents[i] / 100;

		fix_open(&f, FIX_CHUNK, 40, percents[i]);
		capacity = arena_capacity(f.a, POOL_WAN);
		assert_int_equal(capacity, (uint64_t)(40 - reserve) * f.a->lay.chunk_bytes);
		assert_int_equal(fill_pool(f.a, SLOT_REQ_NEAR, 4224, &lan), (40 - reserve) * per_chunk);
		assert_int_equal(arena_capacity(f.a, POOL_WAN), (uint64_t)reserve * f.a->lay.chunk_bytes);
		assert_int_equal(fill_pool(f.a, SLOT_REQ_FAR, 4224, &wan), reserve * per_chunk);
		assert_int_equal(arena_audit(f.a), 0);
		/* What one gives back the other may have, but for the reserve of the one. */
		free_range(f.a, SLOT_REQ_NEAR, 0, lan);
		assert_int_equal(fill_pool(f.a, SLOT_REQ_FAR, 4224, &wan), (40 - 2 * reserve) * per_chunk);
		assert_int_equal(arena_audit(f.a), 0);
		fix_close(&f);
	}
}

/* Nothing is said to be free where no packet finds a slot, however small the packets, and however large the slots that
 * they are in, as that of the chunk that is kept for the largest ones. */
static void pools__capacity_is_what_fits(void **state)
{
	(void)state;
	for (size_t class = 0; class < ARENA_CLASSES; class ++) {
		struct fixture f;
		uint64_t pos = 0;

		fix_open(&f, FIX_CHUNK, 40, 25);
		assert_true(fill_pool(f.a, SLOT_REQ_FAR, class_lens[class], &pos) > 0);
		assert_true(arena_capacity(f.a, POOL_WAN) == arena_used(f.a, POOL_WAN));
		assert_int_equal(arena_audit(f.a), 0);
		fix_close(&f);
	}
}

/* Smaller packets hold a chunk of each of their classes, and the other pool has taken all that it may. */
static void pools__packets_of_each_size_find_a_slot_in_the_least_arena(void **state)
{
	(void)state;
	static const enum slot_kind kinds[] = {SLOT_REQ_NEAR, SLOT_REQ_FAR};

	for (uint32_t chunks = ARENA_CHUNKS_MIN; chunks < 20; chunks++) {
		for (size_t i = 0; i < 2; i++) {
			enum arena_pool pool = arena_pool_of(kinds[i]);
			struct fixture f;
			uint64_t pos = 100;

			fix_open(&f, FIX_CHUNK, chunks, 25);
			for (unsigned class = 0; class < ARENA_LARGEST; class ++)
				assert_int_not_equal(fix_put(f.a, kinds[i], 1, 1, class, class_lens[class]), SLOT_NONE);
			fill_pool(f.a, kinds[1 - i], 4224, &pos);
			fix_reattach(&f);
			assert_true(arena_room(f.a, pool, 4224) > 0);
			assert_int_not_equal(fix_put(f.a, kinds[i], 1, 1, ARENA_LARGEST, 4224), SLOT_NONE);
			assert_int_equal(arena_audit(f.a), 0);
			fix_close(&f);
		}
	}
}

/* The chunk of the largest class has gone back, and the other pool wants every chunk. */
static void pools__a_chunk_for_the_largest_packets_stays_when_it_was_given_back(void **state)
{
	(void)state;
	struct fixture f;
	uint64_t pos = 100, from;

	fix_open(&f, FIX_CHUNK, 12, 25);
	for (unsigned class = 0; class < ARENA_CLASSES; class ++)
		assert_int_not_equal(fix_put(f.a, SLOT_REQ_FAR, 1, 1, class, class_lens[class]), SLOT_NONE);
	fill_pool(f.a, SLOT_REQ_NEAR, 4224, &pos);
	free_range(f.a, SLOT_REQ_FAR, ARENA_LARGEST, ARENA_LARGEST + 1);
	assert_int_equal(fill_pool(f.a, SLOT_REQ_NEAR, 4224, &pos), 0);
	from = pos;
	assert_int_equal(fill_pool(f.a, SLOT_REQ_FAR, 4224, &pos), f.a->lay.class[ARENA_LARGEST].nslots);
	free_range(f.a, SLOT_REQ_FAR, from, pos);
	assert_int_equal(arena_audit(f.a), 0);
	fix_close(&f);
}

static void free__chunks_move_between_classes(void **state)
{
	(void)state;
	struct fixture f;
	uint64_t pos = 0, from;

	fix_open(&f, FIX_CHUNK, 20, 25);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned class = 0; class < ARENA_CLASSES; class ++) {
			from = pos;
			assert_int_equal(fill_pool(f.a, SLOT_REQ_NEAR, class_lens[class], &pos),
			                 slots_in(f.a, 15, class));
			free_range(f.a, SLOT_REQ_NEAR, from, pos);
			assert_int_equal(arena_used(f.a, POOL_LAN), 0);
			assert_int_equal(arena_audit(f.a), 0);
		}
	}
	fix_close(&f);
}

/* Each class and pool has been used and keeps an empty chunk at hand: that must not cost anyone else memory. */
static void free__spare_chunks_are_no_ones(void **state)
{
	(void)state;
	struct fixture f;
	uint64_t pos = 100;

	fix_open(&f, FIX_CHUNK, 8, 10);
	for (unsigned class = 0; class < ARENA_CLASSES; class ++) {
		arena_free(f.a, fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 1, class_lens[class]));
		arena_free(f.a, fix_put(f.a, SLOT_REQ_FAR, 1, 1, 1, class_lens[class]));
		assert_int_equal(arena_audit(f.a), 0);
	}
	assert_int_equal(fill_pool(f.a, SLOT_REQ_FAR, 4224, &pos), 7 * (FIX_CHUNK / (ARENA_BLANK_BYTES + 64)));
	assert_int_equal(arena_audit(f.a), 0);
	assert_int_not_equal(fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 1, 512), SLOT_NONE);
	assert_int_equal(arena_audit(f.a), 0);
	fix_close(&f);
}

static void free__twice_is_ignored_and_seen(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t slot, other;

	fix_open(&f, FIX_CHUNK, 8, 25);
	slot = fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 1, 100);
	other = fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 2, 100);
	arena_free(f.a, slot);
	assert_int_equal(arena_audit(f.a), 0);
	arena_free(f.a, slot);
	arena_free(f.a, SLOT_NONE);
	assert_int_not_equal(arena_audit(f.a), 0);
	assert_int_equal(arena_used(f.a, POOL_LAN), 512);
	assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, 2), other);
	fix_close(&f);
}

static void commit__twice_or_after_free_is_seen(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t slot;

	fix_open(&f, FIX_CHUNK, 8, 25);
	slot = fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 1, 100);
	arena_commit(f.a, slot);
	assert_int_not_equal(arena_audit(f.a), 0);
	fix_close(&f);

	fix_open(&f, FIX_CHUNK, 8, 25);
	slot = fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 1, 100);
	arena_free(f.a, slot);
	arena_commit(f.a, slot);
	assert_int_equal(fix_count_committed(f.a), 0);
	assert_int_not_equal(arena_audit(f.a), 0);
	fix_close(&f);
}

/* The audit itself: each kind of disorder, made by hand, must be named. */
static void audit__sees_what_is_broken(void **state)
{
	(void)state;
	struct fixture f;
	struct arena saved;
	struct arena_chunk *c;
	uint32_t slot, freed;

	fix_open(&f, FIX_CHUNK, 8, 25);
	freed = fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 9, 100);
	slot = fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 1, 100);
	fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 2, 100);
	arena_free(f.a, freed);
	assert_int_equal(arena_audit(f.a), 0);
	c = &f.a->chunks[slot >> f.a->lay.shift];
	saved = *f.a;
#define BROKEN(what, undo)                                                                                             \
	do {                                                                                                           \
		what;                                                                                                  \
		assert_int_not_equal(arena_audit(f.a), 0);                                                             \
		undo;                                                                                                  \
		assert_int_equal(arena_audit(f.a), 0);                                                                 \
	} while (0)
	BROKEN(arena_hdr(f.a, slot)->state = SLOT_FREE, arena_hdr(f.a, slot)->state = SLOT_COMMITTED);
	BROKEN(arena_hdr(f.a, slot)->state = 7, arena_hdr(f.a, slot)->state = SLOT_COMMITTED);
	BROKEN(arena_hdr(f.a, slot)->pos ^= 1, arena_hdr(f.a, slot)->pos ^= 1);
	BROKEN(arena_hdr(f.a, slot)->flags ^= 1, arena_hdr(f.a, slot)->flags ^= 1);
	BROKEN(arena_hdr(f.a, slot)->len = 1000, arena_hdr(f.a, slot)->len = 100);
	BROKEN(arena_hdr(f.a, freed)->state = SLOT_COMMITTED, arena_hdr(f.a, freed)->state = SLOT_FREE);
	BROKEN(arena_meta(f.a, freed)->next = freed, arena_meta(f.a, freed)->next = SLOT_NONE);
	BROKEN(arena_meta(f.a, freed)->next = slot, arena_meta(f.a, freed)->next = SLOT_NONE);
	BROKEN(c->free_head = SLOT_NONE, c->free_head = freed);
	BROKEN(c->used++, c->used--);
	BROKEN(c->fresh++, c->fresh--);
	BROKEN(c->pool = POOL_WAN, c->pool = POOL_LAN);
	BROKEN(c->class = 2, c->class = 0);
	BROKEN(f.a->index.n++, *f.a = saved);
	BROKEN(f.a->used_bytes[1]++, *f.a = saved);
	BROKEN(f.a->owned[0]++, *f.a = saved);
	BROKEN(f.a->nfree++, *f.a = saved);
	BROKEN(f.a->free_head = CHUNK_NONE, *f.a = saved);
	BROKEN(f.a->room[0][0].head = CHUNK_NONE, *f.a = saved);
	BROKEN(f.a->room[0][0].tail = CHUNK_NONE, *f.a = saved);
	BROKEN(f.a->room[1][0].head = 0, *f.a = saved);
	BROKEN(f.a->room[1][3].spare = 5, *f.a = saved);
	BROKEN(f.a->table[0] ^= 1, f.a->table[0] ^= 1);
#undef BROKEN
	fix_close(&f);
}

static void find__tells_kind_flow_and_position_apart(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t a, b, c, d;

	fix_open(&f, FIX_CHUNK, 8, 25);
	a = fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 5, 100);
	b = fix_put(f.a, SLOT_RESP_FAR, 1, 1, 5, 100);
	c = fix_put(f.a, SLOT_REQ_NEAR, 2, 1, 5, 100);
	d = fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 5 + (1ull << 32), 100);
	assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, 5), a);
	assert_int_equal(arena_find(f.a, SLOT_RESP_FAR, 1, 5), b);
	assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 2, 5), c);
	assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, 5 + (1ull << 32)), d);
	assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, 6), SLOT_NONE);
	assert_int_equal(arena_find(f.a, SLOT_REQ_FAR, 1, 5), SLOT_NONE);
	arena_free(f.a, a);
	assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, 5), SLOT_NONE);
	assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, 5 + (1ull << 32)), d);
	fix_close(&f);
}

static void find__two_incarnations_live_side_by_side(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t old, new;

	fix_open(&f, FIX_CHUNK, 8, 25);
	old = fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 5, 100);
	new = fix_put(f.a, SLOT_REQ_NEAR, 1, 2, 5, 100);
	assert_int_not_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, 5), SLOT_NONE);
	arena_free(f.a, old);
	assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, 5), new);
	assert_int_equal(arena_audit(f.a), 0);
	arena_free(f.a, new);
	assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, 5), SLOT_NONE);
	assert_int_equal(arena_audit(f.a), 0);
	fix_close(&f);
}

/* Mean and worst distance of an entry from its home. */
static double index_displacement(const struct arena_index *ix, uint32_t *worst)
{
	uint64_t sum = 0;

	*worst = 0;
	for (uint64_t i = 0; i <= ix->mask; i++) {
		uint32_t d;

		if (!ix->tab[i].slot1)
			continue;
		d = ((uint32_t)i - ix->tab[i].tag) & ix->mask;
		sum += d;
		if (d > *worst)
			*worst = d;
	}
	return ix->n ? (double)sum / ix->n : 0;
}

/* 100,000 packets of the smallest class: the index at its fullest. Strides as of messages of READs. */
static void index__sequential_positions_spread(void **state)
{
	(void)state;
	static const uint32_t flow_counts[] = {1, 7, 1000};
	static const uint32_t all[] = {1, 16, 1 << 16};

	for (unsigned c = 0; c < 9; c++) {
		uint32_t flows = flow_counts[c / 3], stride = all[c % 3], worst;
		struct fixture f;
		double mean;

		fix_open(&f, 2 << 20, 28 * 4 / 3 + 1, 25);
		for (uint32_t i = 0; i < 100000; i++)
			assert_int_not_equal(
			    arena_alloc(f.a, SLOT_REQ_NEAR, i % flows, 1, (uint64_t)(i / flows) * stride, 60),
			    SLOT_NONE);
		for (uint32_t i = 0; i < 100000; i++) {
			uint32_t slot = arena_find(f.a, SLOT_REQ_NEAR, i % flows, (uint64_t)(i / flows) * stride);

			assert_int_not_equal(slot, SLOT_NONE);
			assert_int_equal(arena_hdr(f.a, slot)->pos, (uint64_t)(i / flows) * stride);
		}
		mean = index_displacement(&f.a->index, &worst);
		if (mean > 8 || worst > 512)
			fail_msg("%u flows, stride %u: entries %.1f from home on average, %u at worst", flows, stride,
			         mean, worst);
		fix_close(&f);
	}
}

/* Small packets of two flows whose runs have the same home: the first flow's entries go one by one from the front, and
 * each removal says how many entries it looked at. */
static void free__says_how_many_entries_it_looked_at(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t mask, looks = 0, most = 0;
	uint64_t other = ARENA_INDEX_RUN;

	fix_open(&f, FIX_CHUNK, 64, 25);
	mask = f.a->index.mask;
	while ((arena_index_tag(SLOT_REQ_NEAR, 1, other) & mask) != (arena_index_tag(SLOT_REQ_NEAR, 1, 0) & mask))
		other += ARENA_INDEX_RUN;
	for (uint64_t i = 0; i < ARENA_INDEX_RUN; i++)
		assert_int_not_equal(fix_put(f.a, SLOT_REQ_NEAR, 1, 1, i, 60), SLOT_NONE);
	for (uint64_t i = 0; i < ARENA_INDEX_RUN; i++)
		assert_int_not_equal(fix_put(f.a, SLOT_REQ_NEAR, 1, 1, other + i, 60), SLOT_NONE);
	for (uint64_t i = 0; i < ARENA_INDEX_RUN; i++) {
		uint32_t n = arena_free(f.a, arena_find(f.a, SLOT_REQ_NEAR, 1, i));

		looks += n;
		most = n > most ? n : most;
	}
	assert_in_range(most, ARENA_INDEX_RUN, 2 * ARENA_INDEX_RUN); /* all behind the one that goes */
	assert_in_range(looks, ARENA_INDEX_RUN * ARENA_INDEX_RUN / 2, 2 * ARENA_INDEX_RUN * ARENA_INDEX_RUN);
	assert_int_equal(arena_free(f.a, arena_find(f.a, SLOT_REQ_NEAR, 1, other + ARENA_INDEX_RUN - 1)), 0);
	for (uint64_t i = 0; i + 1 < ARENA_INDEX_RUN; i++)
		assert_int_not_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, other + i), SLOT_NONE);
	fix_close(&f);
}

/* --- against a model --- */

enum { MODEL_MAX = 20000 };

struct model_slot {
	uint32_t slot, flow, inc;
	uint64_t pos;
	uint16_t len;
	uint8_t kind;
	bool committed;
};

struct model {
	struct model_slot s[MODEL_MAX];
	uint32_t n;
	uint64_t used[POOL_COUNT], next_pos;
};

static uint16_t random_len(struct rng *r)
{
	/* Mostly the sizes of full PMTUs and of headers alone, as on a wire. */
	static const uint16_t usual[] = {4156, 2108, 1084, 60};

	if (rng_below(r, 3))
		return usual[rng_below(r, 4)];
	return (uint16_t)(1 + rng_below(r, LAN_PKT_MAX));
}

static void model_alloc(struct model *m, struct arena *a, struct rng *r)
{
	struct model_slot *s = &m->s[m->n];

	*s = (struct model_slot){.flow = rng_below(r, FIX_FLOWS),
	                         .inc = rng_below(r, 4),
	                         .pos = m->next_pos++,
	                         .len = random_len(r),
	                         .kind = (uint8_t)(1 + rng_below(r, 6))};
	s->slot = arena_alloc(a, s->kind, s->flow, s->inc, s->pos, s->len);
	if (s->slot == SLOT_NONE)
		return;
	fix_fill(a, s->slot);
	m->used[arena_pool_of(s->kind)] += arena_class_bytes(s->len);
	m->n++;
}

static void model_free(struct model *m, struct arena *a, uint32_t i)
{
	struct model_slot *s = &m->s[i];

	assert_int_equal(arena_find(a, s->kind, s->flow, s->pos), s->slot);
	fix_check(a, s->slot);
	m->used[arena_pool_of(s->kind)] -= arena_class_bytes(s->len);
	arena_free(a, s->slot);
	assert_int_equal(arena_find(a, s->kind, s->flow, s->pos), SLOT_NONE);
	*s = m->s[--m->n];
}

static void model_step(struct model *m, struct arena *a, struct rng *r, bool filling)
{
	uint32_t dice = rng_below(r, 100);

	if (!m->n || (dice < (filling ? 60u : 40u) && m->n < MODEL_MAX)) {
		model_alloc(m, a, r);
	} else {
		uint32_t i = rng_below(r, m->n);

		if (!m->s[i].committed && dice & 1) {
			arena_commit(a, m->s[i].slot);
			m->s[i].committed = true;
		} else {
			model_free(m, a, i);
		}
	}
}

static void model_check(const struct model *m, struct arena *a)
{
	uint32_t committed = 0;

	assert_int_equal(arena_audit(a), 0);
	for (unsigned pool = 0; pool < POOL_COUNT; pool++) {
		assert_int_equal(arena_used(a, pool), m->used[pool]);
		assert_true(arena_capacity(a, pool) >= m->used[pool]);
	}
	for (uint32_t i = 0; i < m->n; i++) {
		assert_int_equal(arena_find(a, m->s[i].kind, m->s[i].flow, m->s[i].pos), m->s[i].slot);
		committed += m->s[i].committed;
	}
	assert_int_equal(fix_count_committed(a), committed);
}

static void alloc_commit_free__random_against_a_model(void **state)
{
	(void)state;
	static struct model m;
	struct rng r = rng_seeded(1);
	struct fixture f;

	fix_open(&f, FIX_CHUNK, 50, 25);
	for (uint32_t i = 0; i < 200000; i++) {
		model_step(&m, f.a, &r, i / 20000 % 2 == 0);
		if (i % 1000 == 0)
			model_check(&m, f.a);
	}
	while (m.n)
		model_free(&m, f.a, m.n - 1);
	model_check(&m, f.a);
	assert_int_equal(f.a->nfree, 50);
	fix_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(heap_size__impossible_geometry_is_zero),
	    cmocka_unit_test(min_len__has_a_chunk_for_every_class_and_pool),
	    cmocka_unit_test(format__refuses_what_it_cannot_use),
	    cmocka_unit_test(alloc__gives_a_blank_slot),
	    cmocka_unit_test(alloc__clears_what_an_earlier_packet_left),
	    cmocka_unit_test(alloc__bad_kind_or_length_is_refused_and_seen),
	    cmocka_unit_test(class_bytes__smallest_that_fits),
	    cmocka_unit_test(alloc__takes_a_larger_slot_when_its_class_has_none),
	    cmocka_unit_test(data__slots_do_not_overlap),
	    cmocka_unit_test(capacity__is_never_less_than_used),
	    cmocka_unit_test(room__is_what_packets_of_that_size_find_a_place_in),
	    cmocka_unit_test(pools__one_full_leaves_the_other_its_reserve),
	    cmocka_unit_test(pools__capacity_is_what_fits),
	    cmocka_unit_test(pools__packets_of_each_size_find_a_slot_in_the_least_arena),
	    cmocka_unit_test(pools__a_chunk_for_the_largest_packets_stays_when_it_was_given_back),
	    cmocka_unit_test(free__chunks_move_between_classes),
	    cmocka_unit_test(free__spare_chunks_are_no_ones),
	    cmocka_unit_test(free__twice_is_ignored_and_seen),
	    cmocka_unit_test(commit__twice_or_after_free_is_seen),
	    cmocka_unit_test(audit__sees_what_is_broken),
	    cmocka_unit_test(find__tells_kind_flow_and_position_apart),
	    cmocka_unit_test(find__two_incarnations_live_side_by_side),
	    cmocka_unit_test(index__sequential_positions_spread),
	    cmocka_unit_test(free__says_how_many_entries_it_looked_at),
	    cmocka_unit_test(alloc_commit_free__random_against_a_model),
	};

	return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
