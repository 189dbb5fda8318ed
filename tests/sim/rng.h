/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - chance that a seed decides: xoshiro256**, seeded with splitmix64. The simulator has no other, wanline neither.
 *
 * Each link and each decision-maker has a generator of its own, so that one more draw in one place does not
 * change what happens everywhere else: a failing seed stays recognisable while it is being debugged. */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t s[4];
};

/* A good 64-bit mix of two numbers: seeds, payload keys, message descriptions. */
uint64_t rng_hash(uint64_t a, uint64_t b);

void rng_init(struct rng *r, uint64_t seed);
uint64_t rng_u64(struct rng *r);
/* 0..n-1; n > 0 */
uint64_t rng_below(struct rng *r, uint64_t n);
/* lo..hi, both included */
uint64_t rng_range(struct rng *r, uint64_t lo, uint64_t hi);
/* lo..hi, each factor of two equally likely; lo > 0 */
uint64_t rng_log_range(struct rng *r, uint64_t lo, uint64_t hi);
/* True with probability p (0..1). p == 0 draws nothing. */
bool rng_chance(struct rng *r, double p);

#endif
