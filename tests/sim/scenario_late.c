/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_late.c - answers that come later than a turn of the far edge takes, and later than its quarantine: machines
 * that are not scheduled for a while, or NICs that PFC stops, which take and answer all of it afterwards; next hops
 * that are asked for for up to a second. Most of it happens while queue pairs begin, many of them at PSN 0 and between
 * the same two hosts. All hosts are rxe: others give up before the longest of these pauses ends, edges or not. Its own
 * stream of random numbers: other seeds stay what they are. */
#include "scenario_late.h"

#include "rng.h"

#define MSEC 1000000ull
#define SEC  1000000000ull

#define CHANCE 0.15

/* Time is promised in the others, or a life begins at once where the last one ended. */
static bool fits(const struct scenario *s)
{
	const struct world_cfg *c = &s->cfg;

	for (uint32_t i = 0; i < c->nconns; i++)
		if (s->conn[i].within_ns || s->conn[i].lives > 1 || s->conn[i].refuse_msg)
			return false;
	return !c->direct && !c->recycle && !c->attack_pps && c->host_dies_ns == SIM_NEVER && c->crowd.to_ns == 0 &&
	       c->edges_from_ns == 0;
}

/* At the beginning, where the pairs are found, or at any time. One after the other, each of another machine. */
static uint64_t pick_pauses(struct world_cfg *c, struct rng *r)
{
	uint64_t begin_ns = world_cfg_rtt_ns(c) * 3 / 2, longest_ns = 0;

	for (c->npauses = 0; c->npauses < rng_range(r, 1, 3); c->npauses++) {
		uint64_t for_ns = rng_range(r, 50, 300) * MSEC;

		c->pause[c->npauses].at_ns = begin_ns + rng_log_range(r, 1000, 50 * MSEC);
		c->pause[c->npauses].for_ns = for_ns;
		c->pause[c->npauses].site = (uint8_t)rng_below(r, 2);
		c->pause[c->npauses].host = (uint8_t)rng_below(r, c->nhosts[c->pause[c->npauses].site]);
		begin_ns = c->pause[c->npauses].at_ns + for_ns;
		longest_ns = for_ns > longest_ns ? for_ns : longest_ns;
	}
	return longest_ns;
}

static void from_psn_0(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = &s->cfg;
	uint32_t n = c->nconns;

	c->nconns = n < 12 ? 12 : n;
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &s->conn[i];

		if (i >= n)
			*k = s->conn[i % n];
		k->plan[0].nmsgs = 1 + k->plan[0].nmsgs / (c->nconns / n);
		k->host[0] = k->host[1] = 0;
		k->psn_start[0] = k->psn_start[1] = 0;
		k->cm = k->ud = false;
		k->rnr_retry = 7;
		if (rng_chance(r, 0.5))
			k->open_ns = rng_below(r, 200) * MSEC;
	}
}

const char *scenario_late(struct scenario *s)
{
	struct world_cfg *c = &s->cfg;
	uint64_t late_ns = 0;
	struct rng r;

	rng_init(&r, rng_hash(c->seed, 0x1a7e));
	if (!rng_chance(&r, CHANCE) || !fits(s))
		return "";
	c->ncrashes = 0;
	for (int site = 0; site < 2; site++) {
		for (uint32_t h = 0; h < c->nhosts[site]; h++)
			c->model[site][h] = &host_model_rxe;
		if (rng_chance(&r, 0.4))
			c->arp_ns[site] = rng_log_range(&r, 50 * MSEC, SEC);
	}
	if (rng_chance(&r, 0.7))
		late_ns = pick_pauses(c, &r);
	if (rng_chance(&r, 0.7))
		from_psn_0(s, &r);
	for (uint32_t i = 0; i < c->nconns; i++) { /* nothing of a life is still kept by a machine that stands still */
		s->conn[i].reuse = false;
		s->conn[i].pause_ns += late_ns + c->arp_ns[0] + c->arp_ns[1];
	}
	if (c->arp_ns[0] + c->arp_ns[1])
		c->lan_clean = false; /* few packets wait for a next hop, the others are lost */
	return late_ns ? ", machines stand still" : ", next hops late";
}
