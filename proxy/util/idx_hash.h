/* SPDX-License-Identifier: Apache-2.0 */
/* idx_hash.h - open-addressing hash from a 32-bit hash value to a table index; the caller compares keys.
 *
 * Linear probing, deletion by shifting back: no tombstones, so the table never degrades. The number of cells is a power
 * of two, at least twice the number of entries. */
#ifndef PROXY_IDX_HASH_H
#define PROXY_IDX_HASH_H

#include <stdint.h>
#include <string.h>

#include "ip_addr.h"

struct idx_hash_cell {
	uint32_t hash;
	uint32_t idx; /* UINT32_MAX: empty */
};

struct idx_hash {
	struct idx_hash_cell *cells;
	uint32_t mask;
};

static inline uint64_t hash_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	return x ^ x >> 32;
}

/* Hosts choose most keys, addresses included. hash_mix() is no secret and can be computed backwards, so a host that
 * knew all of a hash could give any number of keys one value, and each look at the table would walk past all of them.
 * The seed (proxy_config.hash_seed) goes in before anything that a host chooses. */
static inline uint32_t addr_hash(uint64_t seed, const struct ip_addr *a)
{
	uint64_t hi, lo;

	memcpy(&hi, a->b, 8);
	memcpy(&lo, a->b + 8, 8);
	return (uint32_t)hash_mix(hi ^ hash_mix(lo ^ seed));
}

/* Power of two that holds n entries at half load. */
static inline uint32_t idx_hash_size(uint32_t n)
{
	uint32_t size = 16;

	while (size < 2 * n)
		size *= 2;
	return size;
}

static inline void idx_hash_init(struct idx_hash *h, struct idx_hash_cell *cells, uint32_t size)
{
	h->cells = cells;
	h->mask = size - 1;
	for (uint32_t i = 0; i < size; i++)
		cells[i].idx = UINT32_MAX;
}

static inline void idx_hash_put(struct idx_hash *h, uint32_t hash, uint32_t idx)
{
	uint32_t i = hash & h->mask;

	while (h->cells[i].idx != UINT32_MAX)
		i = (i + 1) & h->mask;
	h->cells[i] = (struct idx_hash_cell){hash, idx};
}

/* Walks the candidates: for (i = hash; (idx = idx_hash_next(h, hash, &i)) != UINT32_MAX;) compare key of idx */
static inline uint32_t idx_hash_next(const struct idx_hash *h, uint32_t hash, uint32_t *i)
{
	for (;;) {
		const struct idx_hash_cell *c = &h->cells[*i & h->mask];

		if (c->idx == UINT32_MAX)
			return UINT32_MAX;
		(*i)++;
		if (c->hash == hash)
			return c->idx;
	}
}

static inline void idx_hash_del(struct idx_hash *h, uint32_t hash, uint32_t idx)
{
	uint32_t i = hash & h->mask, j;

	while (h->cells[i].idx != idx || h->cells[i].hash != hash) {
		if (h->cells[i].idx == UINT32_MAX)
			return;
		i = (i + 1) & h->mask;
	}
	for (j = (i + 1) & h->mask; h->cells[j].idx != UINT32_MAX; j = (j + 1) & h->mask) {
		uint32_t home = h->cells[j].hash & h->mask;

		if (((j - home) & h->mask) >= ((j - i) & h->mask)) {
			h->cells[i] = h->cells[j];
			i = j;
		}
	}
	h->cells[i].idx = UINT32_MAX;
}

#endif
