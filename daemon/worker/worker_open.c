/* SPDX-License-Identifier: Apache-2.0 */
/* worker_open.c - opening and closing a worker, on the main thread: arena, core, sockets, thread. */
#define _GNU_SOURCE
#include "worker_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/config/host_groups.h"
#include "daemon/kernel/ip_port.h"
#include "daemon/config/link_plan.h"
#include "daemon/lan/lan_engine.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "daemon/arena/page_lock.h"
#include "seal/secret_mem.h"
#include "daemon/util/thread.h"

static int open_rings(struct worker *w)
{
	return spsc_init(&w->commands, COMMANDS, sizeof(struct worker_cmd)) &&
	               spsc_init(&w->answers, COMMANDS, sizeof(struct worker_cmd)) &&
	               spsc_init(&w->events, EVENTS, sizeof(struct proxy_event)) &&
	               trace_init(&w->trace, w->config.npaths)
	           ? 0
	           : -ENOMEM;
}

/* The interface on whose NUMA node the memory is placed. */
static const char *lan_ifname(const struct link_config *c)
{
	return c->nlan_ports ? c->lan_ports[0] : NULL;
}

/* Maps the core's tables, which fit the arena's geometry. */
static int map_heap(struct worker *w, char *err, size_t errlen)
{
	const struct arena_geometry *g = &w->arena.geometry;

	w->core_config.max_flows = g->max_flows;
	w->heap_len = proxy_heap_size(&w->core_config, g);
	if (w->heap_len == 0) {
		snprintf(err, errlen, "%s: a buffer of %llu bytes with MaxFlows %u per worker is not possible",
		         w->label, (unsigned long long)g->len, g->max_flows);
		return -EINVAL;
	}
	w->heap = mmap(NULL, w->heap_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w->heap == MAP_FAILED) {
		w->heap = NULL;
		snprintf(err, errlen, "%s: no memory for %zu MiB of tables", w->label, w->heap_len >> 20);
		return -ENOMEM;
	}
	page_lock_bind_node(w->heap, w->heap_len, lan_ifname(&w->config), w->label);
	madvise(w->heap, w->heap_len, MADV_HUGEPAGE);
	secret_hide(w->heap, w->heap_len); /* packets of hosts pass through it */
	return 0;
}

static void say_core_refused(const struct worker *w, int r, char *err, size_t errlen)
{
	if (r == -EPROTO)
		snprintf(err, errlen,
		         "%s: was written by another version of longreach: start that version until the buffer has "
		         "drained, or remove the file and lose its packets",
		         w->arena.path);
	else
		snprintf(err, errlen, "%s: the core does not start: %s", w->label, strerror(-r));
}

static int start_core(struct worker *w)
{
	enum proxy_start how = w->arena.fresh ? PROXY_START_FRESH : PROXY_START_REBUILD;
	int r = proxy_init(&w->core, w->heap, w->arena.region, &w->core_config, &w->arena.geometry, how, w->arena.epoch,
	                   worker_clock_ns(CLOCK_MONOTONIC));

	if (r < 0)
		return r;
	w->owed_said = proxy_holds(w->core);
	w->acks_early = worker_acks_early(&w->core_config);
	w->early_said = w->acks_early || (w->owed_said && arena_file_was_early(&w->arena));
	arena_file_say_early(&w->arena, w->early_said);
	arena_file_say_owed(&w->arena, w->owed_said);
	arena_file_in_use(&w->arena);
	return 0;
}

static void unmap_heap(struct worker *w)
{
	if (w->heap)
		munmap(w->heap, w->heap_len);
	w->heap = NULL;
}

/* Opens the file, and maps the heap that its arena needs. */
static int open_file(struct worker *w, const struct arena_file_params *fp, char *err, size_t errlen)
{
	int r = arena_file_open(&w->arena, fp, err, errlen);

	if (w->arena.set_aside[0] != '\0')
		spsc_put(&w->events, &(struct proxy_event){.type = EV_ARENA_SET_ASIDE});
	return r < 0 ? r : map_heap(w, err, errlen);
}

/* The trailer says that the file holds packets, but the core does not find its arena: sets the file aside and begins
 * anew. */
static int begin_anew(struct worker *w, const struct arena_file_params *fp, char *err, size_t errlen)
{
	int r = arena_file_set_aside(&w->arena, "the arena's superblock is damaged", err, errlen);

	if (r < 0)
		return r;
	spsc_put(&w->events, &(struct proxy_event){.type = EV_ARENA_SET_ASIDE});
	unmap_heap(w);
	return open_file(w, fp, err, errlen);
}

/* The file, the heap, and the core in both. */
static int open_memory(struct worker *w, const struct arena_file_params *fp, char *err, size_t errlen)
{
	int r = open_file(w, fp, err, errlen);

	if (r < 0)
		return r;
	r = start_core(w);
	if (!w->arena.fresh && (r == -ENOENT || r == -EINVAL)) {
		r = begin_anew(w, fp, err, errlen);
		if (r < 0)
			return r;
		r = start_core(w);
	}
	if (r < 0)
		say_core_refused(w, r, err, errlen);
	return r;
}

static int open_arena(struct worker *w, char *err, size_t errlen)
{
	const struct link_config *c = &w->config;
	struct proxy_config pc = link_plan_proxy(c, w->params.shard, w->params.pacers);
	struct arena_file_params fp = {.dir = c->arena_dir,
	                               .link = c->name,
	                               .on_disk = c->arena_on_disk,
	                               .shard = w->params.shard,
	                               .spread = {.nshards = c->workers, .lanes = link_plan_lanes(c)},
	                               .geometry = link_plan_geometry(c),
	                               .new_epoch = w->params.new_epoch,
	                               .former_lost = w->params.former_lost,
	                               .nformer = w->params.nformer,
	                               .numa_ifname = lan_ifname(c)};
	int r;

	if (c->encryption != SEAL_NONE) {
		w->seal = seal_new();
		if (!w->seal) {
			snprintf(err, errlen, "%s: no memory for keys", w->label);
			return -ENOMEM;
		}
		pc.seal = &seal_ops;
		pc.seal_ctx = w->seal;
	}
	if (getrandom(&pc.hash_seed, sizeof(pc.hash_seed), 0) != sizeof(pc.hash_seed)) {
		snprintf(err, errlen, "%s: no random numbers: %s", w->label, strerror(errno));
		return -EIO;
	}
	w->core_config = pc;
	r = open_memory(w, &fp, err, errlen);
	if (r == 0)
		w->page_lock = page_lock_start(
		    (struct page_lock_piece[PAGE_LOCK_PIECES]){{w->heap, w->heap_len},
		                                             {w->arena.region, w->arena.map_len}},
		    w->label);
	return r;
}

int worker_open_arena(struct worker **out, const struct worker_params *p, char *err, size_t errlen)
{
	struct worker *w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);
	int r = -ENOMEM;

	if (!w) {
		snprintf(err, errlen, "%s: out of memory", p->config->name);
		return r;
	}
	memset(w, 0, sizeof(*w));
	w->params = *p;
	w->config = *p->config;
	w->command_fd = w->epoll_fd = w->arena.fd = -1;
	w->unmatched_gap_ns = STRAYS_NS;
	lan_wait_init(&w->waiting);
	snprintf(w->label, sizeof(w->label), "%s.%u", p->config->name, p->shard & 0xff);
	if (open_rings(w) < 0)
		snprintf(err, errlen, "%s: out of memory", w->label);
	else
		r = open_arena(w, err, errlen);
	if (r < 0) {
		worker_close(w, worker_took_up(w));
		return r;
	}
	*out = w;
	return 0;
}

uint32_t worker_ports(const struct link_config *c)
{
	return c->nlan_ports + 1;
}

void worker_port_name(const struct link_config *c, uint32_t port, char ifname[IF_NAMESIZE])
{
	if (port < c->nlan_ports)
		snprintf(ifname, IF_NAMESIZE, "%s", c->lan_ports[port]);
	else
		ip_port_worker_name(ifname, c->name);
}

static void say_tight(const struct worker *w, const char *ifname)
{
	log_warn("link %s: LAN port %s: at its rate Pfc= does not always keep the receive ring from overflowing",
	         w->label, ifname);
}

/* Plans the ring size that Pfc= needs, if it is on. */
static int plan_pause(struct worker *w, const char *ifname, struct pfc_plan *plan, char *err, size_t errlen)
{
	if (!w->pause)
		return 0;
	if (if_nametoindex(ifname) == 0) {
		snprintf(err, errlen, "LAN port %s: no such interface, and Pfc= needs its rate", ifname);
		return -ENODEV;
	}
	if (lan_pause_plan(plan, ifname, w->config.pfc_watchdog_ns) < 0) {
		snprintf(err, errlen, "LAN port %s: Pfc= has no valid thresholds at its rate: expected Pfc=off",
		         ifname);
		return -EINVAL;
	}
	if (plan->tight)
		say_tight(w, ifname);
	return 0;
}

static int open_pause(struct worker *w, char *err, size_t errlen)
{
	struct lan_pause_params params = {.ops = &lan_packet_ops, .watchdog_ns = w->config.pfc_watchdog_ns};

	if (w->config.pfc == 0)
		return 0;
	params.priority = (uint8_t)(w->config.pfc - 1);
	return lan_pause_open(&w->pause, &params, err, errlen);
}

/* Opens a port. The IP port always uses AF_PACKET. */
static int open_port(struct worker *w, const struct lan_port_ops *ops, struct lan_port_params *lp, char *err,
                     size_t errlen)
{
	int r = ops->open(&w->lan[w->nlan], lp, err, errlen);

	if (r == 0) {
		w->lan_takes[w->nlan].said = (struct log_limit){.window_ns = 60 * NS_PER_S, .burst = 1};
		w->lan_ops[w->nlan++] = ops;
	}
	return r;
}

/* The functions of the link's LAN ports. */
static const struct lan_port_ops *lan_engine(const struct link_config *c)
{
	return c->engine == ENGINE_DPDK ? &lan_engine_ops : &lan_packet_ops;
}

/* Lends the arena to a port. A port that cannot use the arena copies. */
static void lend_arena(struct worker *w, uint32_t port, const char *ifname)
{
	const struct lan_lend lend = {.core = w->core, .fn = worker_lan_landed};
	char err[LAN_ENGINE_ERR_MAX];

	if (w->lan_ops[port]->lend && w->lan_ops[port]->lend(w->lan[port], &lend, err, sizeof(err)) < 0)
		log_notice(
		    "link %s: LAN port %s: longreachd copies packets instead of receiving them into the buffer: %s",
		    w->label, ifname, err);
}

static int open_lan_port(struct worker *w, struct lan_port_params *lp, char *err, size_t errlen)
{
	struct pfc_plan plan = {.ring_frames = LAN_RING_FRAMES};
	int r = plan_pause(w, lp->ifname, &plan, err, errlen);

	if (r < 0)
		return r;
	lp->ring_frames = plan.ring_frames;
	lp->may_come_later = !w->pause; /* Pfc= needs the interface's rate */
	lp->device = w->nlan < w->config.nlan_devices ? w->config.lan_devices[w->nlan] : NULL;
	r = open_port(w, lan_engine(&w->config), lp, err, errlen);
	if (r < 0)
		return r;
	lend_arena(w, w->nlan - 1, lp->ifname);
	return w->pause ? lan_pause_watch(w->pause, w->lan[w->nlan - 1], lp->ifname, &plan, err, errlen) : 0;
}

/* Opens the IP port. Its frames are for the MAC of the other interface, the kernel's end. Without a barrier no frames
 * come, and the link can run without the port. */
static int open_ip_port(struct worker *w, struct lan_port_params *lp, char *err, size_t errlen)
{
	bool barrier = config_barrier(&w->config) != BARRIER_OFF;
	int r;

	lp->ring_frames = barrier ? LAN_RING_FRAMES : 1;
	lp->may_come_later = false;
	lp->filter.all_ip = lp->filter.other_mac = true;
	lp->filter.snaplen = LAN_IP_FRAME_MAX;
	r = open_port(w, &lan_packet_ops, lp, err, errlen);
	return barrier ? r : 0;
}

static int open_lan(struct worker *w, char *err, size_t errlen)
{
	const struct link_config *c = &w->config;
	struct host_alias alias[HOST_ALIASES_MAX];
	char ifname[IF_NAMESIZE];
	struct lan_port_params lp = {.ifname = ifname,
	                             .filter = {.local = c->local,
	                                        .remote = c->remote,
	                                        .nlocal = c->nlocal,
	                                        .nremote = c->nremote,
	                                        .nlanes = c->lanes,
	                                        .nshards = c->workers,
	                                        .shard = w->params.shard,
	                                        .alias = alias,
	                                        .naliases = host_groups_aliases(c, alias),
	                                        .snaplen = LAN_FRAME_MAX}};
	int r = open_pause(w, err, errlen);

	for (uint32_t i = 0; r == 0 && i < worker_ports(c); i++) {
		worker_port_name(c, i, ifname);
		r = i == worker_ip_port(w) ? open_ip_port(w, &lp, err, errlen) : open_lan_port(w, &lp, err, errlen);
	}
	return r;
}

static int open_wan_port(struct worker *w, char *err, size_t errlen)
{
	struct wan_port_params wp = {
	    .npaths = w->config.npaths, .nshards = w->config.workers, .shard = w->params.shard};

	for (uint32_t i = 0; i < wp.npaths; i++) {
		const struct path_config *c = &w->config.paths[i];

		wp.path[i] = (struct wan_port_path){.local = c->local,
		                                    .remote = c->remote,
		                                    .port = c->port,
		                                    .mtu = c->mtu,
		                                    .dscp = (uint8_t)c->dscp,
		                                    .source_ports = c->source_ports,
		                                    .device = w->config.nwan_devices ? w->config.wan_devices[i] : NULL};
	}
	w->wan_ops = w->config.nwan_devices ? &wan_engine_ops : &wan_socket_ops;
	return w->wan_ops->open(&w->wan, &wp, err, errlen);
}

static int open_captures(struct worker *w, char *err, size_t errlen)
{
	if (!w->params.pcap_dir)
		return 0;
	w->pcap_lan = pcap_open(w->params.pcap_dir, w->config.name, "lan", w->params.shard, err, errlen);
	if (w->pcap_lan)
		w->pcap_wan = pcap_open(w->params.pcap_dir, w->config.name, "wan", w->params.shard, err, errlen);
	w->tapped = w->pcap_lan != NULL;
	return w->pcap_wan ? 0 : -EIO;
}

static int watch(struct worker *w, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

/* fd: negative if the port has none. */
static int watch_port(struct worker *w, int fd)
{
	w->polled |= fd < 0;
	return fd < 0 ? 0 : watch(w, fd);
}

static int open_epoll(struct worker *w, char *err, size_t errlen)
{
	int r;

	w->command_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r = w->command_fd < 0 || w->epoll_fd < 0 ? -1 : watch(w, w->command_fd);
	for (uint32_t i = 0; r == 0 && i < w->config.npaths; i++)
		r = watch_port(w, w->wan_ops->rx_fd(w->wan, i));
	if (r == 0)
		r = watch(w, route_fd(w->routes));
	for (uint32_t i = 0; r == 0 && i < w->nlan; i++)
		r = watch_port(w, w->lan_ops[i]->fd(w->lan[i]));
	if (r < 0) {
		r = -errno;
		snprintf(err, errlen, "%s: epoll: %s", w->label, strerror(errno));
	}
	return r;
}

int worker_open_wan(struct worker *w, char *err, size_t errlen)
{
	int r = open_captures(w, err, errlen);

	return r < 0 ? r : open_wan_port(w, err, errlen);
}

int worker_open_lan(struct worker *w, struct route_worker *routes, char *err, size_t errlen)
{
	int r;

	w->routes = routes;
	r = open_lan(w, err, errlen);
	return r < 0 ? r : open_epoll(w, err, errlen);
}

int worker_run(struct worker *w, char *err, size_t errlen)
{
	int r;

	w->started_ns = worker_clock_ns(CLOCK_MONOTONIC);
	r = thread_start(&w->thread, worker_main, w);

	w->running = r == 0;
	if (r == 0 && w->pause)
		r = lan_pause_run(w->pause);
	if (r < 0)
		snprintf(err, errlen, "%s: cannot start a thread: %s", w->label, strerror(-r));
	return r;
}

static void wake(const struct worker *w)
{
	uint64_t one = 1;

	if (write(w->command_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: the worker is awake */
}

bool worker_command(struct worker *w, const struct worker_cmd *cmd)
{
	if (!spsc_put(&w->commands, cmd))
		return false;
	wake(w);
	return true;
}

bool worker_alive(struct worker *w)
{
	uint64_t turns = atomic_load_explicit(&w->turns, memory_order_relaxed), before = w->turns_seen;

	w->turns_seen = turns;
	wake(w);
	return turns != before;
}

bool worker_answer(struct worker *w, struct worker_cmd *cmd)
{
	if (spsc_take(&w->answers, cmd))
		return true;
	/* after the thread has ended: commands that it did not carry out come back unchanged */
	return !w->running && spsc_take(&w->commands, cmd);
}

bool worker_event(struct worker *w, struct proxy_event *ev)
{
	/* after the thread has ended: its last events are still in the core */
	return spsc_take(&w->events, ev) || (!w->running && w->core && proxy_event_next(w->core, ev));
}

uint64_t worker_events_lost(const struct worker *w)
{
	return atomic_load_explicit(&w->events_lost, memory_order_relaxed);
}

void worker_stop(struct worker *w)
{
	if (!w->running)
		return;
	atomic_store_explicit(&w->stop, true, memory_order_release);
	wake(w);
	pthread_join(w->thread, NULL);
	w->running = false;
}

/* True if some host's bytes were acknowledged before its responder had them, or the relay has chunks that the other
 * edge does not have: a program may have been told that its put is done. */
static bool worker_owes(const struct worker *w)
{
	struct proxy_flow_status f;
	struct relay_status relay;
	uint32_t cursor = 0;

	for (uint32_t channel = 0; w->core && channel < w->core_config.relay_channels; channel++)
		if (proxy_relay_status(w->core, channel, &relay) && relay.out_next > relay.out_received)
			return true;

	while (w->core && proxy_flow_next(w->core, &cursor, &f))
		if (f.side == FLOW_NEAR && f.pos_acked > f.pos_delivered)
			return true;
	return false;
}

bool worker_drained(const struct worker *w)
{
	struct proxy_link_status s;
	uint64_t used = 0;

	if (!w->core)
		return false;
	proxy_link_status(w->core, worker_clock_ns(CLOCK_MONOTONIC), &s);
	for (unsigned i = 0; i < POOL_COUNT; i++)
		used += s.pool_used[i];
	return used == 0;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

bool worker_took_up(const struct worker *w)
{
	return !w->arena.fresh;
}

void worker_close(struct worker *w, bool keeps_flows)
{
	bool empty = !keeps_flows && worker_drained(w);

	if (w->core)
		arena_file_say_owed(&w->arena, worker_owes(w));

	if (w->pause)
		lan_pause_stop(w->pause);
	for (uint32_t i = 0; i < w->nlan; i++)
		w->lan_ops[i]->close(w->lan[i]);
	if (w->wan)
		w->wan_ops->close(w->wan);
	pcap_close(w->pcap_lan);
	pcap_close(w->pcap_wan);
	close_fd(w->command_fd);
	close_fd(w->epoll_fd);
	page_lock_stop(w->page_lock);
	arena_file_close(&w->arena, empty);
	unmap_heap(w);
	seal_free(w->seal);
	spsc_free(&w->commands);
	spsc_free(&w->answers);
	spsc_free(&w->events);
	trace_free(&w->trace);
	flow_watch_free(w->watch);
	free(w);
}

const struct burst_ring *worker_bursts(const struct worker *w, uint32_t lan_port)
{
	return lan_port < w->nlan ? w->lan_ops[lan_port]->bursts(w->lan[lan_port]) : NULL;
}

const struct trace *worker_trace(const struct worker *w)
{
	return &w->trace;
}

int worker_lan_ifindex(const struct worker *w, uint32_t lan_port)
{
	return lan_port < w->nlan ? w->lan_ops[lan_port]->ifindex(w->lan[lan_port]) : 0;
}

void worker_follow_pause(const struct worker *w, uint32_t lan_port)
{
	const char *ifname = w->config.lan_ports[lan_port];

	if (w->pause && lan_pause_follow(w->pause, lan_port, ifname) > 0)
		say_tight(w, ifname);
}

uint64_t worker_lan_mac(const struct worker *w, uint32_t lan_port)
{
	return lan_port < w->nlan && w->lan_ops[lan_port]->mac ? w->lan_ops[lan_port]->mac(w->lan[lan_port]) : 0;
}

const struct arena_geometry *worker_geometry(const struct worker *w)
{
	return &w->arena.geometry;
}

uint64_t worker_epoch(const struct worker *w)
{
	return w->arena.epoch;
}

bool worker_arena_kept(const struct worker *w)
{
	return w->arena.former_kept;
}

uint64_t worker_peer_epoch(const struct worker *w)
{
	return w->arena.peer_epoch;
}
