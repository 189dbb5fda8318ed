/* SPDX-License-Identifier: Apache-2.0 */
/* proxy_config.c - the config of a shard: defaults, possible values, and those that may change while it runs. */
#include "proxy/near/near.h"
#include "proxy/wan/wan_fec.h"

void proxy_config_defaults(struct proxy_config *c)
{
	memset(c, 0, sizeof(*c));
	c->nshards = 1;
	c->nlanes = 64;
	c->mode = ACK_MODE_HOST;
	c->max_flows = 16384;
	c->npaths = 1;
	for (uint32_t i = 0; i < PATHS_MAX; i++)
		c->path[i] = (struct wan_path_config){.payload_max = 9000 - 28, .weight = 1};
	c->rtt_hint_ns = 10000000;
	c->rate_hint_bps = 10000000000ull;
	c->dead_peer_ns = 2000000000ull;
	c->keepalive_ns = 250000000ull;
	c->reorder_ns = 30000;
	c->lan_window_bytes = 1u << 20;
	c->lan_host_window_bytes = 4u << 20;
	c->lan_timeout_ns = 20000000ull;
	c->stall_ns = 500000000ull;
	c->give_up_ns = 60000000000ull;
	c->barrier_max_ns = 1000000000ull;
	c->barrier_skip[0] = 22;
	c->nbarrier_skip = 1;
	c->quarantine_ns = 100000000ull;
	c->rnr_retry_infinite = true;
	c->relay_window = 1u << 16;
	c->relay_percent = 25;
	c->relay_weight = 16;
}

static bool pair_modes_sane(const struct proxy_config *c)
{
	for (uint32_t i = 0; i < c->npair_modes && i < PAIR_MODES_MAX; i++)
		if (c->pair_modes[i].mode > ACK_MODE_FAR)
			return false;
	return c->npair_modes <= PAIR_MODES_MAX;
}

static bool paths_sane(const struct proxy_config *c)
{
	for (uint32_t i = 0; i < c->npaths && i < PATHS_MAX; i++)
		if (c->path[i].payload_max < WAN_MTU_MIN - 48 || c->path[i].payload_max > WAN_MTU_MAX ||
		    c->path[i].weight > PATH_WEIGHT_MAX)
			return false;
	return c->npaths >= 1 && c->npaths <= PATHS_MAX;
}

static bool fec_sane(const struct fec_config *f)
{
	if (f->mode != FEC_FIXED)
		return f->mode == FEC_OFF || f->mode == FEC_AUTO;
	return f->k >= 1 && f->k <= FEC_K_MAX && f->m >= 1 && f->m <= FEC_M_MAX && f->m <= f->k;
}

/* Aliases are ascending by address, for the search, and the `host` of an alias is not an alias itself. */
static bool aliases_sane(const struct proxy_config *c)
{
	for (uint32_t i = 0; i < c->naliases && i < HOST_ALIASES_MAX; i++)
		if ((i > 0 && memcmp(c->alias[i - 1].addr.b, c->alias[i].addr.b, 16) >= 0) ||
		    proxy_machine(c, &c->alias[i].host) != &c->alias[i].host)
			return false;
	return c->naliases <= HOST_ALIASES_MAX;
}

static bool relay_sane(const struct proxy_config *c)
{
	uint32_t w = c->relay_window;

	return !c->relay_channels || (c->relay_channels <= RELAY_CHANNELS_MAX && c->relay_channels <= c->max_flows && w >= 64 &&
	                              w <= 1u << 20 && !(w & (w - 1)) && c->relay_percent >= 1 && c->relay_percent <= 75 &&
	                              c->relay_weight >= 1);
}

bool proxy_config_sane(const struct proxy_config *c)
{
	return c->nshards >= 1 && c->nshards <= SHARDS_MAX && c->shard < c->nshards && c->nlanes >= 1 &&
	       c->nlanes <= LANES_MAX && c->nlanes >= c->nshards && c->mode <= ACK_MODE_FAR &&
	       c->nlocal <= PREFIXES_MAX && c->nremote <= PREFIXES_MAX && pair_modes_sane(c) && c->max_flows >= 16 &&
	       c->max_flows <= FLOWS_MAX && paths_sane(c) && c->rate_hint_bps > 0 && c->rtt_hint_ns > 0 &&
	       fec_sane(&c->fec) && c->barrier <= BARRIER_CAUSAL &&
	       (c->barrier == BARRIER_OFF || c->ip_pool_bytes >= IP_POOL_MIN) && c->nbarrier_skip <= BARRIER_SKIP_MAX &&
	       aliases_sane(c) && relay_sane(c) && c->lan_window_bytes >= LAN_PKT_MAX && c->lan_host_window_bytes >= LAN_PKT_MAX &&
	       c->lan_timeout_ns > 0 && c->keepalive_ns > 0;
}

bool ip_prefix_holds(const struct ip_prefix *p, const struct ip_addr *a)
{
	uint64_t hi = get_be64(p->addr.b) ^ get_be64(a->b), lo = get_be64(p->addr.b + 8) ^ get_be64(a->b + 8);

	if (p->len <= 64)
		return p->len == 0 || hi >> (64 - p->len) == 0;
	return p->len <= 128 && hi == 0 && lo >> (128 - p->len) == 0;
}

bool ip_prefix_any(const struct ip_prefix *list, uint32_t n, const struct ip_addr *a)
{
	for (uint32_t i = 0; i < n; i++)
		if (ip_prefix_holds(&list[i], a))
			return true;
	return false;
}

enum ack_mode proxy_mode_for(const struct proxy_config *c, const struct ip_addr *local, const struct ip_addr *remote)
{
	for (uint32_t i = 0; i < c->npair_modes; i++)
		if (ip_prefix_holds(&c->pair_modes[i].local, local) &&
		    ip_prefix_holds(&c->pair_modes[i].remote, remote))
			return c->pair_modes[i].mode;
	return c->mode;
}

static bool same_paths(const struct proxy_config *a, const struct proxy_config *b)
{
	for (uint32_t i = 0; i < a->npaths; i++)
		if (a->path[i].pacer != b->path[i].pacer || a->path[i].payload_max != b->path[i].payload_max)
			return false;
	return a->npaths == b->npaths;
}

int proxy_reconfigure(struct proxy *p, const struct proxy_config *c, uint64_t now_ns)
{
	struct proxy_config want = *c;
	bool fec, early_acks;

	if (!proxy_config_sane(c) || c->shard != p->cfg.shard || c->nshards != p->cfg.nshards ||
	    c->nlanes != p->cfg.nlanes || c->max_flows != p->cfg.max_flows || !same_paths(c, &p->cfg) ||
	    (c->fec.mode == FEC_OFF) != (p->cfg.fec.mode == FEC_OFF) || c->seal != p->cfg.seal ||
	    c->seal_ctx != p->cfg.seal_ctx || c->barrier != p->cfg.barrier ||
	    c->ip_pool_bytes != p->cfg.ip_pool_bytes || c->relay_channels != p->cfg.relay_channels ||
	    c->relay_window != p->cfg.relay_window || c->naliases != p->cfg.naliases ||
	    memcmp(c->alias, p->cfg.alias, sizeof(c->alias)) != 0 || c->nlocal != p->cfg.nlocal ||
	    c->nremote != p->cfg.nremote || memcmp(c->local, p->cfg.local, sizeof(c->local)) != 0 ||
	    memcmp(c->remote, p->cfg.remote, sizeof(c->remote)) != 0)
		return -EINVAL;
	want.rtt_hint_ns = p->cfg.rtt_hint_ns; /* they sized memory at the start */
	want.rate_hint_bps = p->cfg.rate_hint_bps;
	want.hash_seed = p->cfg.hash_seed; /* what is in the tables was put there by it */
	p->now_ns = now_ns;
	fec = c->fec.mode != p->cfg.fec.mode || c->fec.k != p->cfg.fec.k || c->fec.m != p->cfg.fec.m;
	early_acks = c->no_early_acks != p->cfg.no_early_acks;
	p->cfg = want;
	if (fec)
		wan_fec_reconfigured(p);
	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		struct near_flow *f = &p->near[i];
		enum ack_mode mode = near_in_use(f) ? proxy_mode_for(&want, &f->src, &f->dst) : f->mode;

		if (near_in_use(f))
			near_early_look(p, f);
		if (f->mode == mode && !(near_in_use(f) && early_acks))
			continue;
		if (f->mode != mode)
			near_take_mode(p, f, mode);
		near_announce(f); /* the far edge reports as the mode needs */
		near_wan_schedule(p, f);
		near_ack_schedule(p, f, DUE_ACK);
	}
	return 0;
}
