/* SPDX-License-Identifier: Apache-2.0 */
#include "link_plan.h"

#include "distance.h"
#include "headroom/headroom.h"
#include "host_groups.h"

#define CHUNKS_WANTED       128 /* two pools, four size classes, and some choice */
#define CHUNK_MAX           (2u << 20)
#define CHUNK_MIN           (64u << 10)
#define RESERVE_PERCENT     25
#define IP_POOL_FLOOR       (4u << 20)
#define IP_POOL_MAX         (128u << 20)
#define ETHERNET_WIRE_BYTES 38     /* header, FCS, preamble, gap */
#define BURST_SPIN_NS       20000  /* lateness of a spinning worker */
#define BURST_SLEEP_NS      400000 /* lateness of a sleeping worker */
#define BURST_DATAGRAMS     16     /* least burst at a fixed rate: any router's queue holds so many datagrams */

uint64_t link_plan_rtt_ns(const struct link_config *c)
{
	return distance_rtt_ns(c->distance_m ? c->distance_m : DISTANCE_UNKNOWN_M);
}

int link_plan_deep(const struct link_config *c, uint64_t rtt_ns, uint64_t capacity_bytes, unsigned flows,
                   struct headroom_deep *d)
{
	struct headroom_deep_in in = {.rate_bps = config_rate_bps(c),
	                              .rtt_ns = rtt_ns,
	                              .capacity_bytes = capacity_bytes,
	                              .alpha = HOLD_OFF_ALPHA,
	                              .flows = flows > 0 ? flows : 1};
	char why[HEADROOM_ERROR_MAX];

	return headroom_deep(&in, d, why);
}

uint64_t link_plan_arena_bytes(const struct link_config *c, uint64_t rtt_ns)
{
	return headroom_deep_arena_bytes(config_rate_bps(c), rtt_ns);
}

static uint64_t arena_bytes(const struct link_config *c)
{
	return c->arena_bytes ? c->arena_bytes : link_plan_arena_bytes(c, link_plan_rtt_ns(c));
}

uint64_t link_plan_lanes(const struct link_config *c)
{
	return (uint64_t)c->lanes ^ host_groups_digest(c) << 16; /* Lanes= has 9 bits and is not 0 */
}

bool link_plan_spread_as(struct link_config *c, uint32_t workers, uint64_t lanes)
{
	uint32_t before = c->lanes;

	if (workers < 1 || workers > WORKERS_MAX || (c->engine == ENGINE_DPDK && workers != 1))
		return false;
	if (lanes != 0) {
		c->lanes = (uint32_t)(lanes & UINT16_MAX);
		if (link_plan_lanes(c) != lanes || c->lanes > LANES_MAX || c->lanes < workers) {
			c->lanes = before;
			return false;
		}
	}
	c->workers = workers;
	if (c->ncpus != workers)
		c->ncpus = 0;
	return true;
}

/* Flows of a shard: by chance of the hash, one of several shards may get more than its share, but never more than
 * all. */
static uint32_t shard_flows(const struct link_config *c)
{
	uint64_t n = c->workers > 1 ? 2ull * c->max_flows / c->workers : c->max_flows;

	if (n > c->max_flows)
		n = c->max_flows;
	return n < 16 ? 16 : (uint32_t)n;
}

/* Bytes of all flows' descriptors and fingerprints: added to the buffer, not taken out of it, as the buffer may be
 * smaller than they are. */
static uint64_t tables_bytes(uint32_t max_flows)
{
	return arena_min_len(CHUNK_MIN, max_flows) - arena_min_len(CHUNK_MIN, 1);
}

struct arena_geometry link_plan_geometry(const struct link_config *c)
{
	struct arena_geometry g = {
	    .chunk_size = CHUNK_MAX, .max_flows = shard_flows(c), .reserve_percent = RESERVE_PERCENT};
	uint64_t len = arena_bytes(c) / c->workers;

	while (g.chunk_size > CHUNK_MIN && len / g.chunk_size < CHUNKS_WANTED)
		g.chunk_size /= 2;
	len += tables_bytes(g.max_flows);
	if (len < arena_min_len(g.chunk_size, g.max_flows))
		len = arena_min_len(g.chunk_size, g.max_flows);
	g.len = (len + g.chunk_size - 1) / g.chunk_size * g.chunk_size;
	return g;
}

/* A sixteenth of the buffer, but no more than TCP can use: a longer queue only adds delay. */
static uint32_t ip_pool_bytes(const struct link_config *c)
{
	uint64_t bytes = arena_bytes(c) / 16;

	bytes = bytes > IP_POOL_MAX ? IP_POOL_MAX : bytes < IP_POOL_FLOOR ? IP_POOL_FLOOR : bytes;
	return (uint32_t)(bytes / c->workers < IP_POOL_FLOOR ? IP_POOL_FLOOR : bytes / c->workers);
}

#define RELAY_WINDOW    (1u << 12) /* chunks of a channel, at least: 16 MiB */
#define RELAY_BDPS      4          /* products of rate and delay that a channel may have under way */
#define WEIGHT_OF_FLOW  16

void link_plan_relay_socket(const struct link_config *c, char *path, size_t cap)
{
	if (c->relay_socket[0])
		snprintf(path, cap, "%s", c->relay_socket);
	else
		snprintf(path, cap, RELAY_SOCKET_DEFAULT, c->name);
}

/* A power of two. */
static uint32_t relay_window(const struct link_config *c)
{
	double chunks = (double)config_rate_bps(c) / 8e9 * (double)link_plan_rtt_ns(c) * RELAY_BDPS / RELAY_CHUNK_MAX;
	uint32_t window = RELAY_WINDOW;

	while (window < chunks && window < 1u << 20)
		window *= 2;
	return window;
}

struct proxy_config link_plan_proxy(const struct link_config *c, uint32_t shard, struct wan_pacer *pacers)
{
	struct proxy_config p = {0};

	proxy_config_defaults(&p);
	p.shard = (uint8_t)shard;
	p.nshards = (uint8_t)c->workers;
	p.nlanes = (uint16_t)c->lanes;
	p.mode = c->ack_mode;
	memcpy(p.pair_modes, c->pair_modes, sizeof(p.pair_modes));
	p.npair_modes = c->npair_modes;
	memcpy(p.local, c->local, sizeof(p.local));
	memcpy(p.remote, c->remote, sizeof(p.remote));
	p.nlocal = c->nlocal;
	p.nremote = c->nremote;
	p.max_flows = shard_flows(c);
	p.npaths = c->npaths;
	for (uint32_t i = 0; i < c->npaths; i++)
		p.path[i] = (struct wan_path_config){
		    .pacer = &pacers[i],
		    .payload_max = config_payload_max(&c->paths[i].remote,
		                                        c->paths[i].path_mtu ? c->paths[i].path_mtu : c->paths[i].mtu),
		    .payload_search = c->paths[i].path_mtu == 0,
		    .weight = c->paths[i].weight};
	p.fec = c->fec;
	p.rtt_hint_ns = link_plan_rtt_ns(c);
	p.rate_hint_bps = config_rate_bps(c);
	p.dead_peer_ns = c->dead_peer_ns;
	p.keepalive_ns = c->keepalive_ns;
	p.reorder_ns = c->reorder_ns;
	p.lan_window_bytes = c->lan_window_bytes;
	p.lan_host_window_bytes = c->lan_host_window_bytes;
	p.lan_timeout_ns = c->lan_timeout_ns;
	p.stall_ns = c->stall_ns;
	p.give_up_ns = c->give_up_ns;
	p.barrier = config_barrier(c);
	p.barrier_max_ns = c->barrier_max_ns;
	memcpy(p.barrier_skip, c->barrier_skip, sizeof(p.barrier_skip));
	p.nbarrier_skip = c->nbarrier_skip;
	/* the minimum even with the barrier off: the other edge's barrier may be on until the files agree */
	p.ip_pool_bytes = p.barrier == BARRIER_OFF ? IP_POOL_FLOOR : ip_pool_bytes(c);
	p.naliases = host_groups_aliases(c, p.alias);
	p.quarantine_ns = c->quarantine_ns;
	p.rnr_retry_infinite = c->rnr_retry_infinite;
	p.relay_channels = (uint16_t)config_relay_channels(c);
	p.relay_window = relay_window(c);
	p.relay_percent = (uint8_t)c->relay_buffer;
	p.relay_weight = (uint8_t)(c->relay_weight * WEIGHT_OF_FLOW);
	return p;
}

struct seal_scope link_plan_seal(const struct link_config *c, uint32_t shard)
{
	return (struct seal_scope){.nlanes = (uint16_t)c->lanes,
	                           .npaths = (uint8_t)c->npaths,
	                           .shard = (uint8_t)shard,
	                           .nshards = (uint8_t)c->workers,
	                           .limits = {.datagrams = c->rekey_after, .bytes = SEAL_BYTES_MAX}};
}

uint32_t link_plan_overhead_bytes(const struct path_config *c)
{
	return ETHERNET_WIRE_BYTES + (ip_addr_is4(&c->remote) ? WAN_UDP_IP4_HDR : WAN_UDP_IP6_HDR);
}

uint32_t link_plan_burst_ns(const struct path_config *c, bool may_spin)
{
	uint64_t bits = 8ull * BURST_DATAGRAMS * (c->mtu + ETHERNET_WIRE_BYTES);
	uint64_t slow_ns = bits * 1000000000 / c->rate_bps; /* at 1 Mbit/s 1.2 s: no overflow */
	uint64_t late_ns = may_spin ? BURST_SPIN_NS : BURST_SLEEP_NS;

	return (uint32_t)(c->rate_control == RATE_fixed && slow_ns > late_ns ? slow_ns : late_ns);
}
