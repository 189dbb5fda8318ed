/* SPDX-License-Identifier: Apache-2.0 */
/* bench_arena.c - cost of a packet's life in the arena, beside the unavoidable copy.
 *
 * Packets pass in order, as in a flow, and the arena always holds `depth` packets. Each step adds a packet (alloc,
 * commit), looks up a packet in the middle, and frees the oldest. Each figure is the median of ROUNDS rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "proxy/arena/arena_slot.h"

enum { PKT_LEN = 4096 + 60, ROUNDS = 7, STEPS = 100000, FLOWS = 64, ARENA_MIB = 512, DESC_LEN = 208 };

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	madvise(p, len, MADV_HUGEPAGE);
	return p;
}

static const struct arena_geometry geometry = {
    .len = (uint64_t)ARENA_MIB << 20, .chunk_size = 2 << 20, .max_flows = FLOWS, .reserve_percent = 25};

static struct arena *make_arena(void *region)
{
	struct arena *a;

	if (arena_format(&a, region, &geometry, 1, map(arena_heap_size(&geometry)))) {
		fprintf(stderr, "arena_format failed\n");
		exit(1);
	}
	return a;
}

/* The held packets are first .. next - 1: packet n is position n / FLOWS of flow n % FLOWS. */
struct window {
	struct arena *a;
	uint64_t first, next;
	const uint8_t *payload; /* NULL: no copy */
};

static uint32_t find(struct window *w, uint64_t n)
{
	return arena_find(w->a, SLOT_REQ_NEAR, (uint32_t)(n % FLOWS), n / FLOWS);
}

static void take_in(struct window *w)
{
	uint64_t n = w->next++;
	uint32_t slot = arena_alloc(w->a, SLOT_REQ_NEAR, (uint32_t)(n % FLOWS), 1, n / FLOWS, PKT_LEN);

	if (slot == SLOT_NONE) {
		fprintf(stderr, "arena full\n");
		exit(1);
	}
	if (w->payload)
		memcpy(arena_data(w->a, slot), w->payload, PKT_LEN);
	arena_commit(w->a, slot);
}

static void step(struct window *w)
{
	take_in(w);
	if (find(w, (w->first + w->next) / 2) == SLOT_NONE)
		exit(1);
	arena_free(w->a, find(w, w->first++));
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), compare);
	return v[ROUNDS / 2];
}

static double bench_window(struct arena *a, uint32_t depth, const uint8_t *payload)
{
	struct window w = {.a = a, .payload = payload};
	double ns[ROUNDS];

	while (w.next < depth)
		take_in(&w);
	for (int r = 0; r < ROUNDS; r++) {
		uint64_t begin = now_ns();

		for (int i = 0; i < STEPS; i++)
			step(&w);
		ns[r] = (double)(now_ns() - begin) / STEPS;
	}
	while (w.first < w.next)
		arena_free(a, find(&w, w.first++));
	return median(ns);
}

/* Copies into a ring of `slots` slots. A ring of one slot stays in the first-level cache. */
static double bench_memcpy(uint8_t *ring, uint32_t slots, const uint8_t *payload)
{
	double ns[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		uint64_t begin = now_ns();

		for (uint32_t i = 0; i < STEPS; i++) {
			uint8_t *to = ring + (size_t)(i % slots) * LAN_PKT_MAX;

			memcpy(to, payload, PKT_LEN);
			__asm__ volatile("" : : "r"(to) : "memory");
		}
		ns[r] = (double)(now_ns() - begin) / STEPS;
	}
	return median(ns);
}

static double bench_desc(struct arena *a)
{
	uint8_t desc[DESC_LEN] = {0};
	double ns[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		uint64_t begin = now_ns();

		for (uint32_t i = 0; i < STEPS; i++) {
			memcpy(desc, &i, sizeof(i));
			arena_desc_store(a, DESC_NEAR, i % FLOWS, desc, sizeof(desc));
		}
		ns[r] = (double)(now_ns() - begin) / STEPS;
	}
	return median(ns);
}

/* Fills the arena and attaches it as a restart does. The heap's pages are touched before, because page faults are a
 * cost of the kernel. */
static void bench_attach(struct arena *a, void *region)
{
	struct window w = {.a = a};
	void *heap = map(arena_heap_size(&geometry));
	uint64_t begin, took;

	while (arena_used(a, POOL_LAN) < arena_capacity(a, POOL_LAN))
		take_in(&w);
	memset(heap, 0, arena_heap_size(&geometry));
	begin = now_ns();
	if (arena_attach(&a, region, &geometry, heap)) {
		fprintf(stderr, "arena_attach failed\n");
		exit(1);
	}
	took = now_ns() - begin;
	printf("attach with %llu packets held: %.2f ms, %.0f ns per packet\n", (unsigned long long)w.next,
	       (double)took / 1e6, (double)took / (double)w.next);
}

int main(void)
{
	static const uint32_t depths[] = {1, 1000, 50000};
	size_t ring_len = (size_t)depths[2] * LAN_PKT_MAX;
	void *region = map(geometry.len);
	struct arena *a = make_arena(region);
	uint8_t payload[PKT_LEN];
	uint8_t *ring = map(ring_len);

	memset(payload, 0x5a, sizeof(payload));
	memset(ring, 1, ring_len);
	printf("arena, %d-byte packets of %d flows, ns per packet (median of %d x %d)\n", PKT_LEN, FLOWS, ROUNDS,
	       STEPS);
	printf("%12s %30s %16s %16s\n", "packets held", "alloc+commit+find+find+free", "with copy in", "memcpy alone");
	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
		double bare = bench_window(a, depths[i], NULL), full = bench_window(a, depths[i], payload);

		printf("%12u %30.1f %16.1f %16.1f\n", depths[i], bare, full, bench_memcpy(ring, depths[i], payload));
	}
	printf("descriptor store, %d bytes: %.1f ns\n", DESC_LEN, bench_desc(a));
	if (arena_audit(a))
		return 1;
	bench_attach(a, region);
	return 0;
}
