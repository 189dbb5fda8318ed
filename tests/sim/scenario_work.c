/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario_work.h"

#include <string.h>

#include "workload.h"

#define PROGRAM_PACKETS 6000 /* in all connections together */

static uint64_t packets_per_group(const struct conn_cfg *k, uint8_t group, uint32_t len)
{
	return (uint64_t)group * (len / k->pmtu + 1) + 2;
}

/* Several queue pairs between the same two hosts. */
static void nccl(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = &s->cfg;
	uint8_t group = (uint8_t)rng_range(r, 2, 5), window = (uint8_t)rng_range(r, 1, 8);
	uint32_t len = (uint32_t)rng_log_range(r, 64, 24ull * s->conn[0].pmtu);

	c->nconns = (uint32_t)rng_range(r, 2, 6);
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &s->conn[i];
		uint64_t groups = 1 + PROGRAM_PACKETS / c->nconns / packets_per_group(&s->conn[0], group, len);

		*k = s->conn[0];
		k->cm = false;
		k->rnr_retry = 7;
		k->psn_start[0] = k->psn_start[1] = 0;
		k->rounds = (uint32_t)rng_range(r, 1, 3);
		k->reuse = c->lan_clean && c->ncrashes == 0 && k->rounds > 1;
		k->depth[0] = k->depth[1] = 64;
		workload_nccl(k->plan, 1 + groups / k->rounds, group, window, len);
	}
}

static void nvme(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = &s->cfg;

	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &s->conn[i];
		uint8_t group = (uint8_t)rng_range(r, 2, 4), window = (uint8_t)rng_range(r, 1, 32);
		uint32_t len = (uint32_t)rng_log_range(r, 512, 32ull * k->pmtu);

		k->cm = true;
		k->reuse = false;
		k->depth[0] = k->depth[1] = 64;
		workload_nvme(k->plan, 1 + PROGRAM_PACKETS / c->nconns / packets_per_group(k, group, len), group,
		              window, len);
	}
}

static void ucx(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = &s->cfg;

	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &s->conn[i];
		uint8_t group = (uint8_t)rng_range(r, 4, 64);
		uint32_t len = (uint32_t)rng_log_range(r, 512, 32ull * k->pmtu);

		k->cm = k->reuse = false;
		k->ud = true;
		k->rnr_retry = 7;
		workload_ucx(k->plan, 1 + PROGRAM_PACKETS / c->nconns / packets_per_group(k, group, len), group, len);
	}
}

const char *scenario_programs(struct scenario *s, struct rng *r)
{
	uint64_t kind = rng_below(r, 100);

	if (kind < 12) {
		nccl(s, r);
		return ", NCCL";
	}
	if (kind < 24) {
		nvme(s, r);
		return ", NVMe-oF";
	}
	if (kind < 36) {
		ucx(s, r);
		return ", UCX";
	}
	return "";
}

static const char *hard; /* a list of names */

void scenario_hard(const char *names)
{
	hard = names;
}

bool scenario_is_hard(const char *name)
{
	return hard && strstr(hard, name);
}

void scenario_lives(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = &s->cfg;

	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &s->conn[i];

		k->first_lost = !c->direct && scenario_is_hard("first-lost") && rng_chance(r, 0.3);
		if (rng_chance(r, 0.1))
			k->answer_late_ns = rng_log_range(r, 100000, 30000000);
		if (k->answer_late_ns) /* what waits in a queue pair, or has no place there, ends with it: lost ACKs */
			k->pause_ns += LOST_ACK_NS;
		if (k->cm && scenario_is_hard("old-cm") && rng_chance(r, 0.5))
			k->cm_echo_ns = rng_log_range(r, 200000, 100000000);
	}
	if (!c->direct && c->ncrashes == 0 && c->wan.ncuts == 0 && scenario_is_hard("late-edges") && rng_chance(r, 0.3))
		c->edges_from_ns = world_cfg_rtt_ns(c) * 2 + rng_log_range(r, 1000, 20000000);
	/* An answer to what went past the edges that comes late, and before all others, with the PSN that is being probed:
	 * no edge can tell it. Who moves routes is told not to while hosts talk (README). */
	for (uint32_t i = 0; i < c->nconns && c->edges_from_ns; i++)
		s->conn[i].answer_late_ns = 0;
	if (!c->direct && rng_chance(r, 0.1))
		c->arena_chunks = (uint32_t)rng_range(r, 16, 40);
	/* Packets that the edge had no room for, or lost with its life, make a confused window the right one. So do
	 * those that went past it; and where none is in the way yet the responder executes it: rxe harms itself. */
	for (uint32_t i = 0; i < c->nconns && (c->arena_chunks || c->wan.ncuts || c->ncrashes || c->edges_from_ns); i++)
		s->conn[i].confuse = 0;
	if (scenario_is_hard("lost-count") && !c->direct && c->lan_clean && !c->arena_chunks && !c->wan.ncuts &&
	    !c->ncrashes && !c->edges_from_ns)
		for (uint32_t i = 0; i < c->nconns; i++) {
			struct conn_cfg *k = &s->conn[i];

			k->loses_count = rng_chance(r, 0.5);
			k->confuse = k->loses_count ? 0.05 : 0;
			for (int side = 0; side < 2 && k->loses_count; side++) { /* what is one too high must not fit by chance */
				memset(k->plan[side].weight, 0, sizeof(k->plan[side].weight));
				k->plan[side].weight[OP_WRITE] = 1;
				k->plan[side].len_min = k->plan[side].len_max = (uint32_t)rng_range(r, 2, 8) * k->pmtu;
				k->plan[side].workload = WORK_CHANCE;
			}
		}
	c->recycle = c->lan_clean && c->ncrashes == 0 && rng_chance(r, 0.15);
	for (uint32_t i = 0; i < c->nconns && c->recycle; i++) {
		struct conn_cfg *k = &s->conn[i];

		k->reuse = false;
		k->rounds = k->rounds < 3 ? 3 : k->rounds;
		k->vlan_tci = s->conn[0].vlan_tci; /* an old answer in other clothes would say nothing */
		k->pkey = s->conn[0].pkey;
		k->tos = s->conn[0].tos;
	}
}
