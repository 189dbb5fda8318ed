/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Restarts in worlds where something is used up: what an edge gave up for want of room, and what the other edge knows
 * of that, must not differ after one of them has come back. Three waves of connections:
 *
 *     0 ms                       over a second later                again a second later
 *     many, slow responders      others: the far edge's table       the first ones speak again, which
 *     that fill the far edge     is full, the idle ones go          the far edge may have forgotten
 *
 * The far edge has the smallest table that there is, and a few chunks; edges restart when a wave has just begun, with
 * or without their arena. */
#include "scenario_scarce.h"

#include <string.h>

#include "rng.h"

#define MSEC    1000000ull
#define ONE_IN  20
#define TABLE   16            /* places in the far edge's table: no edge takes less */
#define FIRST   12            /* connections of the first wave */
#define WAVE_NS (1600 * MSEC) /* to the next wave: longer than an idle flow keeps its place */
#define TALKERS 4             /* of the first wave: they have a word left for the third */

static void only(struct conn_cfg *k, enum msg_op op, uint32_t len, uint64_t nmsgs)
{
	memset(k->plan, 0, sizeof(k->plan));
	k->plan[0].weight[op] = 1;
	k->plan[0].len_min = k->plan[0].len_max = len;
	k->plan[0].nmsgs = nmsgs;
}

static void plain_conn(struct world_cfg *c, struct rng *r, struct conn_cfg *k)
{
	*k = c->conn[0];
	k->host[0] = (uint8_t)rng_below(r, c->nhosts[0]);
	k->host[1] = (uint8_t)rng_below(r, c->nhosts[1]);
	k->cm = rng_chance(r, 0.5);
	k->ud = k->reuse = k->same_start = k->first_lost = k->first_late = false;
	k->psn_start[0] = (uint32_t)rng_u64(r) & ROCE_PSN_MASK;
	k->answer_late_ns = k->post_every_ns = k->post_from_ns = k->receive_every_ns = 0;
	k->confuse = 0;
	k->rnr_retry = 7;
	k->rounds = k->lives = 1;
	k->refuse_msg = k->dies_ns = k->within_ns = 0;
	k->pause_ns = 3 * WAVE_NS;
}

/* The first wave: responders that take a message now and then, and some that have the last one in the third wave. */
static void first_wave(struct world_cfg *c, struct rng *r, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct conn_cfg *k = &c->conn[i];

		plain_conn(c, r, k);
		k->open_ns = i * 200000ull;
		if (i < TALKERS) {
			only(k, OP_WRITE, (uint32_t)rng_range(r, 1, 3) * k->pmtu, 3);
			k->post_from_ns = 2 * WAVE_NS + rng_range(r, 0, 20) * MSEC;
			k->depth[0] = 3;
			continue;
		}
		only(k, OP_SEND, (uint32_t)rng_range(r, 4, 20) * k->pmtu, 12);
		k->receive_every_ns = rng_range(r, 2, 8) * MSEC;
		k->receives = 1;
		k->depth[0] = 12;
	}
}

static void second_wave(struct world_cfg *c, struct rng *r, uint32_t from, uint32_t n)
{
	static const enum msg_op op[] = {OP_WRITE, OP_SEND, OP_READ, OP_FETCH_ADD};

	for (uint32_t i = from; i < from + n; i++) {
		struct conn_cfg *k = &c->conn[i];

		plain_conn(c, r, k);
		k->open_ns = WAVE_NS + rng_range(r, 0, 5) * MSEC;
		only(k, op[rng_below(r, 4)], (uint32_t)rng_range(r, 1, 8) * k->pmtu, rng_range(r, 2, 20));
		k->depth[0] = 8;
		k->max_rd = 4;
	}
}

static void crash(struct world_cfg *c, struct rng *r, uint64_t from_ns)
{
	uint32_t i = c->ncrashes++;

	c->crash[i].at_ns = from_ns + rng_range(r, 200, 20000) * 1000;
	c->crash[i].down_ns = rng_log_range(r, 10000, 5 * MSEC);
	c->crash[i].sites = (uint8_t)rng_range(r, 1, 3);
	c->crash[i].lost = rng_chance(r, 0.25);
	c->crash[i].ring_lost = false;
}

/* One table, no other troubles than loss. */
static void bare(struct world_cfg *c, struct rng *r)
{
	struct link_cfg *l = &c->wan;

	*l = (struct link_cfg){.rate_bps = l->rate_bps, .delay_ns = l->delay_ns, .overhead_bytes = l->overhead_bytes};
	l->loss = rng_chance(r, 0.5) ? 0.01 : 0;
	c->lan.loss = c->lan.corrupt = c->lan.reorder = c->lan.duplicate = 0;
	c->lan_clean = true;
	c->nshards[0] = c->nshards[1] = 1;
	c->nmore = 0;
	c->paths_survive = false;
	c->host_dies_ns = SIM_NEVER;
	c->edges_from_ns = 0;
	c->word_every = 0;
	c->mode = rng_chance(r, 0.6) ? ACK_MODE_NEAR : ACK_MODE_FAR;
	c->arena_chunks = (uint32_t)rng_range(r, 8, 16);
	c->give_up_ns = 1000 * MSEC; /* what is left of queue pairs that died holds nobody up for long */
	c->max_flows = 64;
	c->max_flows_b = TABLE;
}

const char *scenario_scarce(struct scenario *s)
{
	struct world_cfg *c = &s->cfg;
	uint32_t second;
	struct rng r;

	rng_init(&r, rng_hash(c->seed, 0x5ca4));
	if (rng_below(&r, ONE_IN) || c->direct || c->attack_pkts)
		return "";
	bare(c, &r);
	second = (uint32_t)rng_range(&r, 3, 8);
	first_wave(c, &r, FIRST);
	second_wave(c, &r, FIRST, second);
	c->nconns = FIRST + second;
	c->ncrashes = 0;
	if (rng_chance(&r, 0.7))
		crash(c, &r, 6 * c->wan.delay_ns);
	if (rng_chance(&r, 0.7))
		crash(c, &r, WAVE_NS);
	if (rng_chance(&r, 0.4))
		crash(c, &r, 2 * WAVE_NS);
	return ", scarce";
}
