/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario_paths.h"

#include "rng.h"

#define MS 1000000ull

static uint64_t scaled(struct rng *r, uint64_t v, uint64_t from_percent, uint64_t to_percent)
{
	return (uint64_t)((double)v * (double)rng_log_range(r, from_percent, to_percent) / 100);
}

static void pick_path(struct scenario *s, struct rng *r, uint32_t i)
{
	static const uint16_t mtu[] = {1500, 4000, 9000, 9000};
	struct world_cfg *c = &s->cfg;
	struct link_cfg *l = &c->more[i].wan;

	*l = c->wan;
	l->ncuts = 0;
	l->rate_bps = scaled(r, c->wan.rate_bps, 25, 200);
	l->delay_ns = scaled(r, c->wan.delay_ns, 30, 300);
	if (rng_chance(r, 0.5))
		l->loss = rng_chance(r, 0.5) ? (double)rng_log_range(r, 100, 30000) / 1e6 : 0;
	if (rng_chance(r, 0.3))
		l->reorder = (double)rng_log_range(r, 1000, 200000) / 1e6;
	c->more[i].pacer_bps = l->rate_bps;
	c->more[i].payload_max = rng_chance(r, 0.5) ? c->wan_payload_max : (uint16_t)(mtu[rng_below(r, 4)] - 28);
	c->more[i].weight = rng_chance(r, 0.1) ? 0 : (uint32_t)rng_range(r, 1, 3);
}

/* Dies for a while, once or twice. */
static void pick_deaths(struct link_cfg *l, struct rng *r)
{
	uint64_t at_ns = rng_log_range(r, 100000, 50 * MS);

	for (uint64_t n = rng_range(r, 1, 2); n > 0 && l->ncuts < LINK_CUTS; n--) {
		l->cut[l->ncuts].from_ns = at_ns;
		l->cut[l->ncuts].to_ns = at_ns + rng_log_range(r, 5 * MS, 2000 * MS);
		at_ns = l->cut[l->ncuts++].to_ns + rng_log_range(r, 1 * MS, 300 * MS);
	}
}

/* A wire that carries less than is configured, from the beginning or from some time on. */
static void pick_mtu(struct link_cfg *l, struct rng *r, uint16_t payload_max)
{
	if (!rng_chance(r, 0.5))
		return;
	l->mtu = (uint32_t)rng_range(r, 1200, payload_max);
	l->mtu_from_ns = rng_chance(r, 0.5) ? 0 : rng_log_range(r, 100000, 100 * MS);
}

static void pick_mtus(struct scenario *s, uint64_t seed)
{
	struct world_cfg *c = &s->cfg;
	struct rng r;

	rng_init(&r, rng_hash(seed, 0x8899));
	c->mtu_search = !c->direct && rng_chance(&r, 0.25);
	if (!c->mtu_search)
		return;
	pick_mtu(&c->wan, &r, c->wan_payload_max);
	for (uint32_t i = 0; i < c->nmore; i++)
		pick_mtu(&c->more[i].wan, &r, c->more[i].payload_max);
}

const char *scenario_paths(struct scenario *s, uint64_t seed)
{
	struct world_cfg *c = &s->cfg;
	bool one_dies = false;
	struct rng r;

	rng_init(&r, rng_hash(seed, 0x9a745));
	if (c->direct || !rng_chance(&r, 0.3)) {
		pick_mtus(s, seed);
		return c->mtu_search ? ", MTU search" : "";
	}
	c->nmore = (uint32_t)rng_log_range(&r, 1, SIM_PATHS_MAX - 1);
	for (uint32_t i = 0; i < c->nmore; i++) {
		pick_path(s, &r, i);
		if (!rng_chance(&r, 0.5))
			continue;
		pick_deaths(&c->more[i].wan, &r);
		one_dies = true;
	}
	if (c->wan.ncuts == 0 && !one_dies && rng_chance(&r, 0.5)) { /* the others live: nobody may notice */
		pick_deaths(&c->wan, &r);
		c->paths_survive = true;
	}
	pick_mtus(s, seed);
	return c->mtu_search    ? ", paths with MTU search"
	       : c->nmore > 1 ? ", many paths"
	                      : ", two paths";
}
