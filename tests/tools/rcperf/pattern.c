// SPDX-License-Identifier: Apache-2.0
#include "pattern.h"

#include <string.h>

/* Four words a step; the compiler turns this into whatever vectors the machine has. */
struct vec {
	uint64_t __attribute__((vector_size(16))) a, b;
};

#define LANES 4

static inline struct vec first_words(uint64_t w)
{
	return (struct vec){{w, w + PAT_WORD}, {w + 2 * PAT_WORD, w + 3 * PAT_WORD}};
}

static inline void advance(struct vec *v)
{
	v->a += LANES * PAT_WORD;
	v->b += LANES * PAT_WORD;
}

void pat_fill(uint8_t *dst, size_t len, uint64_t base, uint64_t off)
{
	uint64_t w = base + off / 8 * PAT_WORD;
	struct vec v = first_words(w);
	size_t i = 0;

	for (; i + sizeof(v) <= len; i += sizeof(v), advance(&v))
		memcpy(dst + i, &v, sizeof(v));
	memcpy(dst + i, &v, len - i);
}

bool pat_check(const uint8_t *src, size_t len, uint64_t base, uint64_t off)
{
	uint64_t w = base + off / 8 * PAT_WORD;
	struct vec v = first_words(w), got, wrong = {0};
	size_t i = 0;

	for (; i + sizeof(v) <= len; i += sizeof(v), advance(&v)) {
		memcpy(&got, src + i, sizeof(got));
		wrong.a |= got.a ^ v.a;
		wrong.b |= got.b ^ v.b;
	}
	return (wrong.a[0] | wrong.a[1] | wrong.b[0] | wrong.b[1]) == 0 && memcmp(src + i, &v, len - i) == 0;
}

static uint64_t inverse(uint64_t odd)
{
	uint64_t x = odd;

	for (int i = 0; i < 6; i++) /* Newton: correct bits double each time */
		x *= 2 - odd * x;
	return x;
}

bool pat_recognise(const uint8_t *src, size_t len, uint64_t seed, uint64_t off, uint64_t *no)
{
	uint64_t w;

	if (len < 16)
		return false;
	memcpy(&w, src, sizeof(w));
	*no = (w - off / 8 * PAT_WORD - seed) * inverse(PAT_MSG);
	return pat_check(src, len, pat_base(seed, *no), off);
}

uint64_t pat_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

uint64_t pat_digest(uint64_t h, const uint8_t *p, size_t n)
{
	uint64_t w;

	for (size_t i = 0; i + 8 <= n; i += 8) {
		memcpy(&w, p + i, 8);
		h = (h ^ w) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return h;
}
