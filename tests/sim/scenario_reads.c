/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_reads.c - what hurts READs and ATOMICs most, made frequent: LANs that lose their responses while edges
 * restart, or while very many are outstanding, more at once than there is room for, READs that are larger than the pool,
 * and long cuts in the middle. Their own stream of random numbers: other seeds stay what they are. */
#include "scenario_reads.h"

#include <string.h>

#include "rng.h"

#define SEC 1000000000ull

static void mostly_reads(struct msg_plan *plan, struct rng *r)
{
	if (plan->nmsgs == 0)
		return;
	memset(plan->weight, 0, sizeof(plan->weight));
	plan->weight[OP_WRITE] = 1;
	plan->weight[OP_READ] = (uint8_t)rng_range(r, 2, 6);
	plan->weight[OP_FETCH_ADD] = (uint8_t)rng_range(r, 0, 3);
	plan->weight[OP_CMP_SWAP] = (uint8_t)rng_range(r, 0, 2);
}

static void lossy_lans(struct world_cfg *c, struct rng *r)
{
	c->lan.loss = (double)rng_log_range(r, 2000, 10000) / 1e6;
	c->lan_clean = false;
}

static void restarts(struct world_cfg *c, struct rng *r)
{
	uint64_t at_ns = 2 * c->wan.delay_ns + rng_log_range(r, 100000, 5000000);

	for (c->ncrashes = 0; c->ncrashes < 3; c->ncrashes++) {
		c->crash[c->ncrashes].at_ns = at_ns;
		c->crash[c->ncrashes].down_ns = rng_log_range(r, 10000, 10000000);
		c->crash[c->ncrashes].sites = (uint8_t)rng_range(r, 1, 3);
		c->crash[c->ncrashes].lost = false;
		at_ns += c->crash[c->ncrashes].down_ns + 4 * c->wan.delay_ns + rng_log_range(r, 100000, 10000000);
	}
}

/* So long that a cut meets most of them half given, and as many as the plan had packets. */
static void long_reads(struct conn_cfg *k, struct rng *r)
{
	for (int side = 0; side < 2; side++) {
		struct msg_plan *plan = &k->plan[side];
		uint32_t packets = (uint32_t)rng_range(r, 30, 100);

		if (plan->nmsgs == 0)
			continue;
		plan->len_min = plan->len_max = packets * k->pmtu - 5;
		plan->nmsgs = 20;
	}
	k->open_ns = 0;
}

static void long_cut(struct world_cfg *c, struct rng *r)
{
	c->mode = ACK_MODE_NEAR;
	c->wan.ncuts = 1;
	c->wan.cut[0].from_ns = 10 * c->wan.delay_ns + rng_log_range(r, 100000, 20000000);
	c->wan.cut[0].to_ns = c->wan.cut[0].from_ns + 10 * SEC;
}

/* As many small ones outstanding as rxe allows, so that each burst of answers is longer than what is cheap to keep. */
static void deep(struct conn_cfg *k, struct rng *r)
{
	for (int side = 0; side < 2; side++) {
		struct msg_plan *plan = &k->plan[side];

		k->depth[side] = 128;
		if (plan->nmsgs == 0)
			continue;
		memset(plan->weight, 0, sizeof(plan->weight));
		plan->weight[OP_READ] = (uint8_t)rng_range(r, 0, 1);
		plan->weight[OP_FETCH_ADD] = 1;
		plan->len_min = 0;
		plan->len_max = 2u * k->pmtu;
		plan->nmsgs = rng_range(r, 200, 800);
	}
	k->max_rd = 128;
}

/* More asked for at once than the near edge has room for. */
static void crowded(struct conn_cfg *k, struct rng *r)
{
	for (int side = 0; side < 2; side++) {
		struct msg_plan *plan = &k->plan[side];

		k->depth[side] = 32;
		if (plan->nmsgs == 0)
			continue;
		plan->weight[OP_WRITE] = 0;
		plan->len_min = 1;
		plan->len_max = (uint32_t)rng_range(r, 20, 80) * k->pmtu;
		plan->nmsgs = rng_range(r, 30, 60);
	}
	k->max_rd = 16;
	k->open_ns = 0;
}

void scenario_reads(struct scenario *s)
{
	struct world_cfg *c = &s->cfg;
	uint64_t kind;
	struct rng r;

	rng_init(&r, rng_hash(c->seed, 0x4ead));
	kind = rng_below(&r, 20);
	if (kind > 3 || c->direct || c->attack_pkts)
		return;
	if (kind == 0 || kind == 2)
		lossy_lans(c, &r);
	if (kind == 0)
		restarts(c, &r);
	if (kind == 1)
		long_cut(c, &r);
	if (kind == 3)
		c->arena_chunks = (uint32_t)rng_range(&r, 16, 24);
	for (uint32_t i = 0; i < c->nconns; i++) {
		mostly_reads(&s->conn[i].plan[0], &r);
		mostly_reads(&s->conn[i].plan[1], &r);
		if (kind == 1)
			long_reads(&s->conn[i], &r);
		if (kind == 2)
			deep(&s->conn[i], &r);
		if (kind == 3)
			crowded(&s->conn[i], &r);
		s->conn[i].reuse = false;
		s->conn[i].confuse = 0; /* with its first packet lost a confused window is the right one to everybody */
		s->conn[i].pause_ns += 2 * SEC; /* an edge asks again for lost ACKs in less */
	}
}

/* --- larger than the pool --- */

/* One that the pool of its edge cannot hold, a few of them; the others of the world ask for little. */
static void larger_than_the_pool(struct conn_cfg *k, uint32_t pool_bytes, struct rng *r)
{
	for (int side = 0; side < 2; side++) {
		struct msg_plan *plan = &k->plan[side];

		if (plan->nmsgs == 0)
			continue;
		memset(plan->weight, 0, sizeof(plan->weight));
		plan->weight[OP_READ] = 4;
		plan->weight[OP_WRITE] = (uint8_t)rng_range(r, 0, 1);
		plan->weight[OP_FETCH_ADD] = (uint8_t)rng_range(r, 0, 1);
		plan->len_min = pool_bytes / 4;
		plan->len_max = (uint32_t)rng_range(r, 1, 3) * pool_bytes;
		plan->nmsgs = rng_range(r, 2, 5);
		k->depth[side] = (uint32_t)rng_range(r, 1, 8);
	}
	k->max_rd = (uint32_t)rng_range(r, 1, 4);
}

void scenario_big_reads(struct scenario *s)
{
	struct world_cfg *c = &s->cfg;
	uint64_t kind;
	struct rng r;

	rng_init(&r, rng_hash(c->seed, 0xb16ead));
	kind = rng_below(&r, 45);
	if (kind > 2 || c->direct || c->attack_pkts)
		return;
	c->chunk_size = 64 << 10;
	c->arena_chunks = (uint32_t)rng_range(&r, 16, 24);
	c->wan.ncuts = 0;
	c->big_reads = true;
	if (kind == 1)
		lossy_lans(c, &r);
	if (kind == 2)
		restarts(c, &r);
	for (uint32_t i = 0; i < c->nconns; i++) {
		mostly_reads(&s->conn[i].plan[0], &r);
		mostly_reads(&s->conn[i].plan[1], &r);
		if (i % 2 == 0)
			larger_than_the_pool(&s->conn[i], c->arena_chunks * c->chunk_size / 2, &r);
		s->conn[i].reuse = false;
		s->conn[i].confuse = 0;
		s->conn[i].pause_ns += 2 * SEC;
	}
}
