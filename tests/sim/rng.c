/* SPDX-License-Identifier: Apache-2.0 */
#include "rng.h"

#include <math.h>

static uint64_t splitmix(uint64_t *x)
{
	uint64_t z = *x += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint64_t rng_hash(uint64_t a, uint64_t b)
{
	uint64_t x = a;

	x = splitmix(&x) ^ b;
	return splitmix(&x);
}

void rng_init(struct rng *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		r->s[i] = splitmix(&seed);
}

static uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

uint64_t rng_u64(struct rng *r)
{
	uint64_t *s = r->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)rng_u64(r) * n) >> 64);
}

uint64_t rng_range(struct rng *r, uint64_t lo, uint64_t hi)
{
	return lo + rng_below(r, hi - lo + 1);
}

static double rng_unit(struct rng *r)
{
	return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

uint64_t rng_log_range(struct rng *r, uint64_t lo, uint64_t hi)
{
	double v = exp(log((double)lo) + rng_unit(r) * (log((double)hi + 1) - log((double)lo)));
	uint64_t n = (uint64_t)v;

	return n < lo ? lo : n > hi ? hi : n;
}

bool rng_chance(struct rng *r, double p)
{
	return p > 0 && rng_unit(r) < p;
}
