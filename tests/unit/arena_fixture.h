/* SPDX-License-Identifier: Apache-2.0 */
/* arena_fixture.h - an arena in memory for the tests of arena*.c, and packets with contents that can be checked. */
#ifndef TESTS_ARENA_FIXTURE_H
#define TESTS_ARENA_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "proxy/arena/arena.h"
#include "proxy/arena/arena_priv.h"

enum { FIX_CHUNK = 1 << 16, FIX_FLOWS = 32, FIX_EPOCH = 77 };

struct fixture {
	struct arena_geometry g;
	uint8_t *region; /* shared with children, so that they can be killed over it */
	void *heap;
	struct arena *a;
};

/* xorshift64*: the same everywhere. */
struct rng {
	uint64_t s;
};

static inline uint64_t rng_next(struct rng *r)
{
	r->s ^= r->s >> 12;
	r->s ^= r->s << 25;
	r->s ^= r->s >> 27;
	return r->s * 0x2545f4914f6cdd1dull;
}

static inline uint32_t rng_below(struct rng *r, uint32_t n)
{
	return (uint32_t)((rng_next(r) >> 33) % n);
}

/* SEED= repeats a run; each use has its own stream. */
static inline struct rng rng_seeded(uint64_t stream)
{
	const char *env = getenv("SEED");
	uint64_t seed = env ? strtoull(env, NULL, 0) : 1;
	struct rng r = {(seed * 0x9e3779b97f4a7c15ull ^ stream << 32) | 1};

	rng_next(&r);
	return r;
}

static inline void *fix_map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* A fresh heap: whatever the arena knew outside of the region is gone. */
static inline void fix_new_heap(struct fixture *f)
{
	size_t len = arena_heap_size(&f->g);

	assert_int_not_equal(len, 0);
	free(f->heap);
	f->heap = aligned_alloc(64, len);
	assert_non_null(f->heap);
	memset(f->heap, 0, len);
	f->a = NULL;
}

/* An arena with that many chunks, in a region full of rubbish. */
static inline void fix_open(struct fixture *f, uint32_t chunk_size, uint32_t chunks, uint8_t reserve_percent)
{
	memset(f, 0, sizeof(*f));
	f->g = (struct arena_geometry){
	    .chunk_size = chunk_size, .max_flows = FIX_FLOWS, .reserve_percent = reserve_percent};
	f->g.len = arena_min_len(chunk_size, FIX_FLOWS) + (uint64_t)(chunks - ARENA_CHUNKS_MIN) * chunk_size;
	f->region = fix_map(f->g.len);
	memset(f->region, 0xa5, f->g.len);
	fix_new_heap(f);
	assert_int_equal(arena_format(&f->a, f->region, &f->g, FIX_EPOCH, f->heap), 0);
	assert_int_equal(f->a->lay.nchunks, chunks);
	assert_int_equal(arena_audit(f->a), 0);
}

static inline void fix_close(struct fixture *f)
{
	munmap(f->region, f->g.len);
	free(f->heap);
}

/* As a restart would. */
static inline void fix_reattach(struct fixture *f)
{
	fix_new_heap(f);
	assert_int_equal(arena_attach(&f->a, f->region, &f->g, f->heap), 0);
	assert_int_equal(arena_audit(f->a), 0);
}

/* The bytes of a packet: a ramp that begins where flow and position say. */
static inline const uint8_t *fix_bytes(const struct slot_hdr *h)
{
	static uint8_t ramp[256 + LAN_PKT_MAX];

	if (!ramp[1])
		for (size_t i = 0; i < sizeof(ramp); i++)
			ramp[i] = (uint8_t)i;
	return &ramp[(uint8_t)(h->flow * 31 + h->pos * 7)];
}

static inline void fix_fill(struct arena *a, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(a, slot);
	const uint8_t *from = fix_bytes(h);
	uint8_t *d = arena_data(a, slot);

	/* In pieces: a test that steps through instructions would stop at each byte of one long string move. */
	for (uint32_t i = 0, n; i < h->len; i += n) {
		n = h->len - i < 256 ? h->len - i : 256;
		memcpy(d + i, from + i, n);
	}
}

static inline void fix_check(struct arena *a, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(a, slot);

	if (memcmp(arena_data(a, slot), fix_bytes(h), h->len))
		fail_msg("slot %u: bytes of flow %u position %llu changed", slot, h->flow, (unsigned long long)h->pos);
}

static inline uint32_t fix_put(struct arena *a, enum slot_kind kind, uint32_t flow, uint32_t inc, uint64_t pos,
                               uint16_t len)
{
	uint32_t slot = arena_alloc(a, kind, flow, inc, pos, len);

	if (slot == SLOT_NONE)
		return slot;
	fix_fill(a, slot);
	arena_commit(a, slot);
	return slot;
}

static inline uint32_t fix_count_committed(struct arena *a)
{
	uint32_t n = 0, cursor = 0;

	while (arena_next_committed(a, &cursor) != SLOT_NONE)
		n++;
	return n;
}

#endif
