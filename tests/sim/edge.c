/* SPDX-License-Identifier: Apache-2.0 */
#include "edge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"
#include "proxy/roce/ip.h"
#include "steps.h"
#include "world.h"

/* Runs without time passing before it counts as a spin. */
#define SPINS_MAX 1000
#define TICK_PORTS 16 /* a busy worker looks after its ports so many times between two ticks */
/* How late a worker comes that spins, and one that sleeps: what its pacers save up, as link_plan_burst_ns() says. */
#define LATE_SPIN_NS  20000
#define LATE_SLEEP_NS 400000
/* One restart in so many follows an attempt of a version that has another layout. The field stays in its place. */
#define OTHER_VERSION_ONE_IN 4
/* One rebuild in so many is killed once before, after so many steps at most. */
#define REBUILD_KILLED_ONE_IN 4
#define REBUILD_STEPS_MAX     1000000
#define LAYOUT_OFF 8
#define REGION_ALIGN (2u << 20)

static uint64_t now_of(const struct edge *e)
{
	return e->w->q.now_ns;
}

static jmp_buf kill_point;

static void begin_call(const struct edge *e)
{
	steps_begin();
	if (e->kill_after || e->kill_stores)
		steps_kill_after(e->kill_after, e->kill_stores, &kill_point);
}

static uint64_t end_call(struct edge *e, const char *call)
{
	uint64_t steps = steps_end(call);

	e->kill_stores = steps_kill_stores();
	steps_kill_never();
	if (e->kill_after)
		e->kill_after -= steps;
	return steps;
}

/* A call into the core has returned: did it do more work than one may? */
static void end_short_call(struct edge *e, const char *call)
{
	uint64_t steps = end_call(e, call);

	if (steps > STEPS_MAX)
		check_fail(e->w, "steps", "%s of edge %c took %llu steps", call, 'A' + e->site,
		           (unsigned long long)steps);
}

/* The statement calls the core, which may be killed in the middle of it: then the edge is down behind it. */
#define UNTIL_KILLED(e, statement)                            \
	do {                                                  \
		begin_call(e);                                \
		if (setjmp(kill_point) == 0) {                \
			statement;                            \
		} else {                                      \
			world_edge_killed((e)->w, (e)->site); \
		}                                             \
	} while (0)

#define IN_CORE(e, call, statement) UNTIL_KILLED(e, statement; end_short_call(e, call))

/* --- packets out --- */

/* The edge knows where the host is from now on. */
static void on_hop(void *obj, uint64_t arg)
{
	struct edge *e = obj;

	(void)arg;
	for (uint32_t i = 0; i < e->nshards && !e->down; i++)
		edge_shard_run(&e->shard[i]);
}

/* Asks, like the daemon's workers, when the first packet for it is there. */
static bool hop_known(struct edge *e, const struct ip_addr *dst)
{
	uint64_t wait_ns = e->w->cfg.arp_ns[e->site], *hop_ns;
	uint8_t site, host;

	if (!wait_ns || !world_host_of(e->w, dst, &site, &host) || site != e->site)
		return true;
	hop_ns = &e->w->hop_ns[site][host];
	if (!*hop_ns) {
		*hop_ns = now_of(e) + wait_ns;
		eventq_at(&e->w->q, *hop_ns, on_hop, e, 0);
	}
	return now_of(e) >= *hop_ns;
}

void edge_emit_lan(struct edge *e, const struct lan_tx *tx)
{
	struct pkt *p = pkt_new((size_t)tx->hdr_len + tx->body_len + tx->trailer_len);
	uint8_t site, host;

	memcpy(p->data, tx->hdr, tx->hdr_len);
	if (tx->body_len)
		memcpy(p->data + tx->hdr_len, tx->body, tx->body_len);
	memcpy(p->data + tx->hdr_len + tx->body_len, tx->trailer, tx->trailer_len);
	p->len = (uint32_t)tx->hdr_len + tx->body_len + tx->trailer_len;
	p->vlan_tci = tx->vlan_tci;
	if (!world_host_of(e->w, &tx->dst, &site, &host) || site != e->site) {
		if (!check_odd_ip(e->w, p))
			check_fail(e->w, "next-hop", "edge %c sends to an address that is not on its LAN",
			           'A' + e->site);
		pkt_free(p);
		return;
	}
	world_lan_send(e->w, site, host, p);
}

/* As send_waiting() of the daemon. */
static void emit_waiting(struct edge_shard *s)
{
	struct lan_tx tx = {.hdr_len = 0};

	for (uint32_t i = 0; i < s->waiting.n;) {
		const struct waiting_packet *p = lan_wait_at(&s->waiting, i);

		if (hop_known(s->edge, &p->dst) && p->until_ns > now_of(s->edge)) {
			tx.body = p->bytes;
			tx.body_len = p->len;
			tx.vlan_tci = p->vlan_tci;
			tx.dst = p->dst;
			edge_emit_lan(s->edge, &tx);
		} else if (p->until_ns > now_of(s->edge)) {
			i++;
			continue;
		}
		lan_wait_remove(&s->waiting, i);
	}
}

static void emit_now(struct edge_shard *s, const struct lan_tx *tx)
{
	if (s->edge->w->cfg.late_ports)
		late_port_tx(s, tx);
	else
		edge_emit_lan(s->edge, tx);
}

static void emit_all_lan(struct edge_shard *s)
{
	struct lan_tx tx;
	volatile size_t len = 0;

	emit_waiting(s);
	do {
		IN_CORE(s->edge, "proxy_lan_tx", len = proxy_lan_tx(s->p, now_of(s->edge), &tx));
		if (s->edge->down || !len)
			break;
		if (hop_known(s->edge, &tx.dst) && !lan_wait_holds(&s->waiting, &tx.dst))
			emit_now(s, &tx);
		else if (tx.probe)
			proxy_lan_unsent(s->p, now_of(s->edge), &tx);
		else
			lan_wait_put(&s->waiting, &tx, now_of(s->edge));
	} while (s->edge->w->violation[0] == 0);
}

static uint16_t largest_payload(const struct proxy_config *c)
{
	uint16_t most = 0;

	for (uint32_t i = 0; i < c->npaths; i++)
		if (c->path[i].payload_max > most)
			most = c->path[i].payload_max;
	return most;
}

uint8_t edge_member(uint16_t lane, uint8_t moves)
{
	return (uint8_t)rng_hash(lane, moves);
}

static void emit_all_wan(struct edge_shard *s)
{
	struct world *w = s->edge->w;
	uint8_t site = s->edge->site;
	struct wan_tx tx;

	for (;;) {
		struct pkt *p = pkt_new(largest_payload(&s->cfg));

		IN_CORE(s->edge, "proxy_wan_tx",
		        p->len = (uint32_t)proxy_wan_tx(s->p, w->q.now_ns, p->data, p->cap, &tx));
		if (s->edge->down || p->len == 0) {
			pkt_free(p);
			return;
		}
		p->dgram = true;
		p->ecn = tx.ect ? 2 : 0;
		p->member = edge_member(tx.lane, tx.moves);
		if (p->len > s->cfg.path[tx.path].payload_max)
			check_fail(w, "wan-mtu", "datagram of %u bytes, allowed are %u", p->len,
			           s->cfg.path[tx.path].payload_max);
		world_log(w, LOG_WAN, "wan tx", s->edge->site, PKTLOG_EDGE, p);
		link_send(tx.path ? &w->more[site][tx.path - 1] : &w->wan[site], p);
	}
}

static void take_events(struct edge_shard *s)
{
	struct proxy_event ev;

	while (proxy_event_next(s->p, &ev)) {
		s->edge->events[ev.type]++;
		check_event(s->edge->w, &ev);
		world_note(s->edge->w, s->edge->site, "event %s: flow %u QPN %06x pos %llu value %llu",
		           proxy_event_name(ev.type), ev.flow, ev.dest_qpn, (unsigned long long)ev.pos,
		           (unsigned long long)ev.value);
	}
}

/* A shard that asks to be called again at once must get somewhere by it. */
static void watch_spin(struct edge_shard *s, uint64_t wake_ns)
{
	uint64_t now_ns = now_of(s->edge);

	if (wake_ns > now_ns || now_ns > s->woken_ns + 1000) {
		s->spins = 0;
		s->woken_ns = now_ns;
	} else if (++s->spins > SPINS_MAX) {
		check_fail(s->edge->w, "spin", "shard %u of edge %c asks to be woken at once, again and again",
		           s->cfg.shard, 'A' + s->edge->site);
	}
}

void edge_shard_run(struct edge_shard *s)
{
	uint64_t now_ns = now_of(s->edge), wake_ns;

	if (proxy_next_wake(s->p, now_ns) <= now_ns && now_ns >= s->tick_ns) {
		IN_CORE(s->edge, "proxy_tick", proxy_tick(s->p, now_ns));
		s->tick_ns = now_ns + s->edge->w->cfg.tick_late_ns;
	}
	if (!s->edge->down)
		emit_all_lan(s);
	if (!s->edge->down && s->cfg.relay_channels)
		relay_peer_run(s);
	if (!s->edge->down)
		emit_all_wan(s);
	if (s->edge->down)
		return;
	take_events(s);
	wake_ns = proxy_next_wake(s->p, now_ns);
	if (wake_ns < s->tick_ns) { /* what is due by time waits, but ports are looked after */
		uint64_t ports_ns = now_ns + s->edge->w->cfg.tick_late_ns / TICK_PORTS;

		if (wake_ns < ports_ns)
			wake_ns = ports_ns < s->tick_ns ? ports_ns : s->tick_ns;
	}
	watch_spin(s, wake_ns);
	if (wake_ns == UINT64_MAX)
		evtimer_cancel(&s->wake);
	else
		evtimer_set(&s->wake, wake_ns > now_ns ? wake_ns : now_ns + 1);
}

static void on_wake(void *obj)
{
	struct edge_shard *s = obj;

	if (!s->edge->down && !s->edge->paused)
		edge_shard_run(s);
}

void edge_pause(struct edge *e)
{
	e->paused = true;
}

void edge_resume(struct edge *e)
{
	e->paused = false;
	for (uint32_t i = 0; i < e->nshards && !e->down; i++)
		edge_shard_run(&e->shard[i]);
}

/* --- packets in --- */

struct edge_shard *edge_shard_of(struct edge *e, const struct ip_addr *a, const struct ip_addr *b)
{
	return &e->shard[proxy_lane_between(&e->shard[0].cfg, a, b) % e->nshards];
}

void edge_lan_rx(struct edge *e, uint8_t host, struct pkt *p)
{
	if (e->down || e->paused) {
		world_log(e->w, LOG_LAN, "(down)", e->site, host, p);
	} else {
		struct roce_pkt pkt;
		struct ip_pkt ip;
		struct edge_shard *s;
		volatile enum proxy_drop d = roce_parse(p->data, p->len, &pkt);

		if (d == DROP_NONE)
			check_edge_rx(e->w, p, &pkt);
		if (ip_parse(p->data, p->len, &ip) != DROP_NONE)
			ip.src = ip.dst = (struct ip_addr){0}; /* broken packets go to any */
		s = edge_shard_of(e, &ip.src, &ip.dst);
		IN_CORE(e, "proxy_lan_rx",
		        d = e->w->cfg.late_ports ? late_port_rx(s, p)
		                                 : proxy_lan_rx(s->p, now_of(e), p->data, p->len, p->vlan_tci));
		world_log(e->w, LOG_LAN, e->down ? "(killed)" : d == DROP_NONE ? "edge rx" : proxy_drop_name(d), e->site,
		          PKTLOG_EDGE, p);
		if (!e->down)
			edge_shard_run(s);
	}
	pkt_free(p);
}

void edge_wan_rx(struct edge *e, struct pkt *p)
{
	int lane = proxy_wan_lane(p->data, p->len);

	if (e->down || e->paused || lane < 0) {
		world_log(e->w, LOG_WAN, e->down ? "(down)" : "no lane", e->site, PKTLOG_EDGE, p);
	} else {
		struct edge_shard *s = &e->shard[(uint32_t)lane % e->nshards];
		volatile enum proxy_drop d = DROP_NONE;

		IN_CORE(e, "proxy_wan_rx", d = proxy_wan_rx(s->p, now_of(e), p->data, p->len, p->ecn));
		world_log(e->w, LOG_WAN, e->down ? "(killed)" : d == DROP_NONE ? "wan rx" : proxy_drop_name(d), e->site,
		          PKTLOG_EDGE, p);
		if (!e->down)
			edge_shard_run(s);
	}
	pkt_free(p);
}

/* --- life --- */

static struct ip_prefix site_prefix(uint8_t site, bool ip6)
{
	struct ip_prefix x = {.addr = world_addr(site, 0, ip6), .len = ip6 ? 32 : 96 + 16};

	memset(x.addr.b + (ip6 ? 4 : 14), 0, ip6 ? 12 : 2);
	return x;
}

static int by_address(const void *a, const void *b)
{
	return memcmp(((const struct host_alias *)a)->addr.b, ((const struct host_alias *)b)->addr.b, 16);
}

static void group_addresses(const struct world *w, struct proxy_config *c)
{
	for (uint8_t site = 0; site < 2 && w->cfg.groups != GROUPS_NONE; site++)
		for (uint8_t host = 0; host < w->cfg.nhosts[site]; host++)
			for (int six = 0; six < 2; six++) {
				uint8_t first = w->cfg.groups == GROUPS_SITE ? 0 : host;

				if (six || host != first)
					c->alias[c->naliases++] = (struct host_alias){world_addr(site, host, six),
					                                              world_addr(site, first, false)};
			}
	qsort(c->alias, c->naliases, sizeof(c->alias[0]), by_address);
}

static void shard_config(struct edge_shard *s, uint8_t index)
{
	const struct world_cfg *wc = &s->edge->w->cfg;
	uint8_t site = s->edge->site;
	struct proxy_config *c = &s->cfg;

	proxy_config_defaults(c);
	c->shard = index;
	c->nshards = (uint8_t)s->edge->nshards;
	c->nlanes = wc->nlanes;
	c->mode = wc->mode;
	c->barrier = wc->barrier;
	c->ip_pool_bytes = wc->barrier == BARRIER_OFF ? 0 : 4 << 20;
	for (uint32_t six = 0; six < 2; six++) {
		c->local[six] = site_prefix(site, six);
		c->remote[six] = site_prefix(!site, six);
	}
	c->nlocal = c->nremote = 2;
	c->max_flows = site && wc->max_flows_b ? wc->max_flows_b : wc->max_flows;
	c->path[0].pacer = &s->edge->pacer[0];
	c->path[0].payload_max = wc->wan_payload_max;
	c->rtt_hint_ns = world_rtt_ns(s->edge->w);
	c->fec = wc->fec;
	for (uint32_t i = 0; i < wc->nmore; i++)
		c->path[++c->npaths - 1] = (struct wan_path_config){.pacer = &s->edge->pacer[i + 1],
		                                                    .payload_max = wc->more[i].payload_max,
		                                                    .weight = wc->more[i].weight};
	for (uint32_t i = 0; i < c->npaths; i++)
		c->path[i].payload_search = wc->mtu_search;
	c->rate_hint_bps = world_cfg_pacers_bps(wc);
	if (wc->lan_window_bytes)
		c->lan_window_bytes = wc->lan_window_bytes;
	if (wc->give_up_ns)
		c->give_up_ns = wc->give_up_ns;
	if (wc->reorder_ns)
		c->reorder_ns = wc->reorder_ns;
	c->hash_seed = wc->seed;
	c->relay_channels = wc->relay_channels;
	c->relay_window = wc->relay_bulk ? 1u << 19 : 256;
	group_addresses(s->edge->w, c);
}

/* At least four times the product of rate and delay in each direction (DESIGN: what repairs need). */
static uint64_t arena_len(const struct world *w)
{
	const struct world_cfg *c = &w->cfg;
	uint64_t bdp = (uint64_t)((double)world_cfg_pacers_bps(c) / 8e9 * (double)world_rtt_ns(w));
	uint64_t len = arena_min_len(c->chunk_size, c->max_flows) + 10 * bdp + 32ull * c->chunk_size;

	if (c->arena_chunks)
		len = arena_min_len(c->chunk_size, c->max_flows) + (uint64_t)c->arena_chunks * c->chunk_size;
	if (c->arena_len)
		len = c->arena_len;
	return (len + c->chunk_size - 1) / c->chunk_size * c->chunk_size;
}

/* Memory is kept from world to world, but not the much that a few worlds need. */
#define KEPT_MAX (32u << 20)

static bool is_kept(size_t cap, size_t len)
{
	return cap >= len && (cap <= KEPT_MAX || cap / 2 <= len);
}

static void region_free(struct edge_shard *s)
{
	if (s->region_map)
		munmap(s->region_map, s->region_cap + REGION_ALIGN);
	s->region = s->region_map = NULL;
	s->region_cap = 0;
}

/* Aligned to the largest chunk by asking for one more. */
static void region_map(struct edge_shard *s, size_t len)
{
	s->region_map = mmap(NULL, len + REGION_ALIGN, PROT_READ | PROT_WRITE,
	                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->region_map == MAP_FAILED) {
		perror("lrsim: arena");
		exit(2);
	}
	s->region = (void *)(((uintptr_t)s->region_map + REGION_ALIGN - 1) & ~(uintptr_t)(REGION_ALIGN - 1));
	s->region_cap = len;
}

static void heap_free(struct edge_shard *s)
{
	free(s->heap);
	s->heap = NULL;
	s->heap_cap = 0;
}

static void shard_memory(struct edge_shard *s)
{
	if (!is_kept(s->region_cap, s->geometry.len)) {
		region_free(s);
		region_map(s, s->geometry.len);
	}
	s->heap_len = (proxy_heap_size(&s->cfg, &s->geometry) + 63) & ~(size_t)63;
	if (s->heap_len == 0) {
		fprintf(stderr, "lrsim: the core refuses the configuration of seed %llu\n",
		        (unsigned long long)s->edge->w->cfg.seed);
		exit(2);
	}
	if (!is_kept(s->heap_cap, s->heap_len)) {
		heap_free(s);
		s->heap = aligned_alloc(64, s->heap_len);
		s->heap_cap = s->heap_len;
	}
	if (!s->heap) {
		perror("lrsim: heap");
		exit(2);
	}
}

static void shard_init(struct edge_shard *s, enum proxy_start start)
{
	struct edge *e = s->edge;
	int err;

	memset(s->heap, 0, s->heap_len);
	lan_wait_init(&s->waiting);
	err = proxy_init(&s->p, s->heap, s->region, &s->cfg, &s->geometry, start,
	                 rng_hash(e->w->cfg.seed, e->site + 2 * e->restarts), now_of(e));
	if (err)
		check_fail(e->w, "init", "proxy_init(%s) of edge %c: %d",
		           start == PROXY_START_FRESH ? "fresh" : "rebuild", 'A' + e->site, err);
	else if (e->w->cfg.late_ports)
		late_port_open(s);
}

/* A busy worker looks after its ports every tick_late_ns / TICK_PORTS, which scenario.c keeps to LATE_SLEEP_NS. If its
 * pacers saved up less, it would send one datagram each time, and most of the line would stay unused. */
static uint32_t pacer_burst_ns(const struct world_cfg *wc, uint32_t path)
{
	if (path == 0 && wc->pacer_burst_ns)
		return wc->pacer_burst_ns;
	return wc->tick_late_ns / TICK_PORTS > LATE_SPIN_NS ? LATE_SLEEP_NS : LATE_SPIN_NS;
}

static void pacers_init(struct edge *e)
{
	const struct world_cfg *wc = &e->w->cfg;

	for (uint32_t i = 0; i <= wc->nmore; i++) {
		uint64_t bps = i ? wc->more[i - 1].pacer_bps : wc->pacer_bps;

		wan_pacer_init(&e->pacer[i], bps, wc->wan_overhead, pacer_burst_ns(wc, i));
		rate_choose(&e->pacer[i].control, wc->control, bps);
	}
}

void edge_start(struct edge *e, struct world *w, uint8_t site)
{
	const struct world_cfg *wc = &w->cfg;

	e->w = w;
	e->site = site;
	e->nshards = wc->nshards[site];
	e->down = e->paused = false;
	e->restarts = 0;
	e->killed_within = false;
	edge_kill_after(e, 0, 0);
	e->waived = 0;
	e->arena_lives = 1;
	memset(e->events, 0, sizeof(e->events));
	pacers_init(e);
	for (uint32_t i = e->nshards; i < EDGE_SHARDS_MAX; i++) {
		region_free(&e->shard[i]);
		heap_free(&e->shard[i]);
	}
	for (uint32_t i = 0; i < e->nshards; i++) {
		struct edge_shard *s = &e->shard[i];

		s->edge = e;
		s->spins = 0;
		s->woken_ns = s->tick_ns = 0;
		memset(&s->port, 0, sizeof(s->port));
		evtimer_init(&s->wake, &w->q, on_wake, s);
		shard_config(s, (uint8_t)i);
		s->geometry = (struct arena_geometry){.len = arena_len(w),
		                                      .chunk_size = wc->chunk_size,
		                                      .max_flows = s->cfg.max_flows,
		                                      .reserve_percent = 25};
		shard_memory(s);
		shard_init(s, PROXY_START_FRESH);
	}
}

static void begin_session(struct edge_shard *s, const struct proxy_session *session)
{
	/* once a session: it looks at all flows, so no STEPS_MAX holds */
	UNTIL_KILLED(s->edge, proxy_session_start(s->p, session, now_of(s->edge));
	             end_call(s->edge, "proxy_session_start"); edge_shard_run(s));
}

void edge_session(struct edge *e, uint32_t epoch_tx, uint32_t epoch_rx)
{
	struct proxy_session session = {.epoch_tx = epoch_tx,
	                                .epoch_rx = epoch_rx,
	                                .peer_arena_epoch = e->w->edge[!e->site].arena_lives,
	                                .peer_boot_id = 1 + e->w->edge[!e->site].restarts,
	                                .peer_relay_channels = e->w->cfg.relay_channels};

	for (uint32_t i = 0; i < e->nshards && !e->down; i++)
		begin_session(&e->shard[i], &session);
}

uint64_t edge_waived(const struct edge *e)
{
	return e->waived + (e->down ? 0 : edge_counter(e, CTR_BARRIER_WAIVED) + edge_counter(e, CTR_BARRIER_EXPIRED));
}

void edge_kill_after(struct edge *e, uint64_t steps, uint32_t stores)
{
	e->kill_after = steps;
	e->kill_stores = stores;
}

void edge_crash(struct edge *e)
{
	edge_kill_after(e, 0, 0);
	e->waived = edge_waived(e);
	e->down = true;
	world_note(e->w, e->site, "the edge stops");
	for (uint32_t i = 0; i < e->nshards; i++) {
		evtimer_cancel(&e->shard[i].wake);
		if (e->w->cfg.late_ports)
			late_port_kill(&e->shard[i]);
		memset(e->shard[i].heap, 0xa5, e->shard[i].heap_len);
		e->shard[i].p = NULL;
	}
}

/* Its first attempt to come back is killed as well, somewhere in it. */
static void kill_rebuild(struct edge_shard *s)
{
	struct edge *e = s->edge;
	struct rng r;

	rng_init(&r, rng_hash(e->w->cfg.seed, 0x4b12 + 16 * e->restarts + 8 * e->site + s->cfg.shard));
	if (rng_below(&r, REBUILD_KILLED_ONE_IN))
		return;
	memset(s->heap, 0, s->heap_len);
	if (setjmp(kill_point) == 0) {
		steps_kill_after(rng_log_range(&r, 1, REBUILD_STEPS_MAX), 0, &kill_point);
		(void)proxy_init(&s->p, s->heap, s->region, &s->cfg, &s->geometry, PROXY_START_REBUILD, rng_u64(&r), now_of(e));
		steps_kill_never();
	}
}

/* A version that does not know the layout of the arenas is started first, and must leave them alone. */
static void refuse_layout(struct edge *e)
{
	uint64_t id = rng_hash(e->w->cfg.seed, 0x1a70 + 2 * e->restarts + e->site);

	if (id % OTHER_VERSION_ONE_IN)
		return;
	for (uint32_t i = 0; i < e->nshards; i++) {
		struct edge_shard *s = &e->shard[i];
		uint32_t *layout = (void *)((uint8_t *)s->region + LAYOUT_OFF), known = *layout;
		int err;

		*layout = known + 1;
		memset(s->heap, 0, s->heap_len);
		err = proxy_init(&s->p, s->heap, s->region, &s->cfg, &s->geometry, PROXY_START_REBUILD, id, now_of(e));
		if (err != -EPROTO)
			check_fail(e->w, "layout", "proxy_init() of edge %c with an arena of layout %u: %d",
			           'A' + e->site, known + 1, err);
		*layout = known;
	}
}

void edge_restart(struct edge *e, enum proxy_start start)
{
	e->down = false;
	e->up_ns = e->w->q.now_ns;
	e->restarts++;
	e->arena_lives += start == PROXY_START_FRESH;
	world_note(e->w, e->site, "the edge starts again, %s",
	           start == PROXY_START_FRESH ? "afresh" : "from its arena");
	if (start == PROXY_START_REBUILD)
		refuse_layout(e);
	pacers_init(e);
	for (uint32_t i = 0; i < e->nshards && e->w->violation[0] == 0 && !e->down; i++) {
		if (start == PROXY_START_REBUILD)
			kill_rebuild(&e->shard[i]);
		shard_init(&e->shard[i], start);
		if (e->w->violation[0] == 0 && proxy_counters(e->shard[i].p)->ctr[CTR_ARENA_DAMAGED])
			check_fail(e->w, "damaged", "edge %c finds slots of its arena damaged after a kill", 'A' + e->site);
		if (e->w->violation[0] == 0)
			edge_shard_run(&e->shard[i]);
	}
}

void edge_free(struct edge *e)
{
	for (uint32_t i = 0; i < EDGE_SHARDS_MAX; i++) {
		region_free(&e->shard[i]);
		heap_free(&e->shard[i]);
	}
}

/* --- what the core says of itself --- */

uint64_t edge_counter(const struct edge *e, enum proxy_counter c)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < e->nshards; i++)
		n += proxy_counters(e->shard[i].p)->ctr[c];
	return n;
}

uint64_t edge_drops(const struct edge *e, enum proxy_drop d)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < e->nshards; i++)
		n += proxy_counters(e->shard[i].p)->drop[d];
	return n;
}

bool edge_holds(const struct edge *e)
{
	for (uint32_t i = 0; i < e->nshards; i++)
		if (proxy_holds(e->shard[i].p))
			return true;
	return false;
}

uint64_t edge_used(const struct edge *e)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < e->nshards; i++) {
		struct proxy_link_status st;

		proxy_link_status(e->shard[i].p, now_of(e), &st);
		n += st.pool_used[POOL_LAN] + st.pool_used[POOL_WAN];
	}
	return n;
}
