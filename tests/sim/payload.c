/* SPDX-License-Identifier: Apache-2.0 */
#include "payload.h"

#include <string.h>

#include "rng.h"
#include "workload.h"

static enum msg_op pick_op(const struct msg_plan *plan, uint64_t h)
{
	uint32_t sum = 0, x;

	for (int i = 0; i < OP_COUNT; i++)
		sum += plan->weight[i];
	if (sum == 0)
		return OP_WRITE;
	x = (uint32_t)(h % sum);
	for (int i = 0; i < OP_COUNT; i++) {
		if (x < plan->weight[i])
			return (enum msg_op)i;
		x -= plan->weight[i];
	}
	return OP_WRITE;
}

static uint32_t pick_len(const struct msg_plan *plan, uint64_t seed)
{
	struct rng r;

	if (plan->len_min == plan->len_max)
		return plan->len_max;
	rng_init(&r, seed);
	if (plan->len_min == 0 && rng_chance(&r, 0.03))
		return 0;
	return (uint32_t)rng_log_range(&r, plan->len_min ? plan->len_min : 1, plan->len_max);
}

uint64_t payload_key(const struct msg_plan *plan, uint64_t va)
{
	return plan->key_first && va >> MSG_VA_SHIFT == 1 ? plan->key_first : plan->key;
}

void msg_describe(const struct msg_plan *plan, uint64_t i, struct msg *m)
{
	uint64_t h;

	if (plan->constant)
		i = 0;
	h = rng_hash(payload_key(plan, (i + 1) << MSG_VA_SHIFT), i);

	*m = (struct msg){
	    .op = pick_op(plan, h >> 8),
	    .va = (i + 1) << MSG_VA_SHIFT,
	    .rkey = (uint32_t)(h >> 32),
	    .imm = (uint32_t)h,
	    .swap_add = h | 1,
	    .compare_hits = h & 0x40,
	    .compare = h >> 3,
	};
	if (!workload_message(plan, i, &m->op, &m->len))
		m->len = m->op == OP_FLUSH ? 0 : m->op >= OP_FETCH_ADD ? 8 : pick_len(plan, h);
}

/* Eight words from one mix: cheap, and still different for every block of every address. */
static void block(uint64_t key, uint64_t va, uint64_t out[8])
{
	uint64_t x = key + va * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	x ^= x >> 29;
	for (uint64_t i = 0; i < 8; i++)
		out[i] = x + i * 0xa0761d6478bd642full;
}

void payload_fill(uint64_t key, uint64_t va, uint8_t *buf, size_t len)
{
	uint64_t w[8];

	for (; len >= 64; len -= 64, buf += 64, va += 64) {
		block(key, va, w);
		memcpy(buf, w, 64);
	}
	if (len > 0) {
		block(key, va, w);
		memcpy(buf, w, len);
	}
}

bool payload_right(uint64_t key, uint64_t va, const uint8_t *buf, size_t len)
{
	uint64_t w[8];

	for (; len >= 64; len -= 64, buf += 64, va += 64) {
		block(key, va, w);
		if (memcmp(buf, w, 64) != 0)
			return false;
	}
	block(key, va, w);
	return memcmp(buf, w, len) == 0;
}
