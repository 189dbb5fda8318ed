/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Starting: the arenas (with a message for everything that can be wrong with them), the sockets of the WAN, then the
 * kernel rules of a link that runs, then the LAN ports, then threads. The caller closes the link, at rest
 * (closed_rest()), before starting it: so the RoCE of a link that cannot start is never forwarded unsealed.
 *
 * Stopping: threads and sockets end, then offloads are restored. Of the kernel rules those stay that the buffers ask
 * for (closed_rest()), until the link's file is gone (site_remove()). */
#define _GNU_SOURCE
#include "link_priv.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/arena/arena_file.h"
#include "daemon/closed/closed.h"
#include "descriptors.h"
#include "daemon/config/link_plan.h"
#include "daemon/util/addr.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "daemon/privileged/privileged.h"
#include "daemon/lan/route.h"
#include "daemon/worker/worker.h"
#include "port_watch.h"

#define SPARE_CPUS   3  /* beside the workers, before they may spin: main thread, interrupts, everyone else */

/* --- starting --- */

static bool may_spin(const struct link_config *c)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return c->ncpus > 0 && cpus >= (long)c->workers + SPARE_CPUS;
}

/* One LAN port and one path are enough, as while a link runs: the others begin when their interfaces and addresses are
 * there. */
static int check_ports(const struct link_config *c, char err[CONFIG_ERR_MAX])
{
	for (uint32_t i = 0; i < c->nlan_ports; i++)
		if (if_nametoindex(c->lan_ports[i]))
			return 0;
	snprintf(err, CONFIG_ERR_MAX, "LAN port %s: no such interface", c->lan_ports[0]);
	return -ENODEV;
}

static int check_addresses(const struct link_config *c, char err[CONFIG_ERR_MAX])
{
	char t[ADDR_TEXT_MAX];

	for (uint32_t i = 0; i < c->npaths; i++)
		if (port_watch_has_address(&c->paths[i].local))
			return 0;
	snprintf(err, CONFIG_ERR_MAX, "LocalAddress=%s: this machine %s", addr_write(&c->paths[0].local, t, sizeof(t)),
	         c->npaths == 1 ? "does not have that address" : "has neither that address nor that of another path");
	return -EADDRNOTAVAIL;
}

static int make_dir(const struct link_config *c, char err[CONFIG_ERR_MAX])
{
	if (mkdir(c->arena_dir, 0700) == 0 || errno == EEXIST)
		return 0;
	snprintf(err, CONFIG_ERR_MAX, "%s: cannot make the buffer's directory: %s", c->arena_dir, strerror(errno));
	return -errno;
}

static int open_arenas(struct link *l, const char *pcap_dir, char err[CONFIG_ERR_MAX])
{
	const struct link_config *c = &l->config;
	struct worker_params p = {
	    .config = c, .pacers = l->pacers, .pcap_dir = pcap_dir, .notify_fd = l->notify_fd, .may_spin = may_spin(c)};
	int r = make_dir(c, err);

	p.nformer = arena_file_former(c->arena_dir, c->name);
	if (r == 0)
		r = arena_file_check_others(c->arena_dir, c->name, c->workers, &p.former_lost, err, CONFIG_ERR_MAX);
	if (r == 0 && getrandom(&p.new_epoch, sizeof(p.new_epoch), 0) != sizeof(p.new_epoch)) {
		snprintf(err, CONFIG_ERR_MAX, "no random numbers: %s", strerror(errno));
		r = -errno;
	}
	/* The first worker's file says how many there are, to the next start, too: it is made when all others are
	 * there. */
	for (uint32_t i = 0; r == 0 && i < c->workers; i++) {
		p.shard = c->workers - 1 - i;
		p.cpu = p.shard < c->ncpus ? c->cpus[p.shard] : -1;
		r = worker_open_arena(&l->worker[p.shard], &p, err, CONFIG_ERR_MAX);
	}
	l->nworkers = r == 0 ? c->workers : 0;
	l->took_up_buffer = r == 0 && !link_buffer_is_of(l, c);
	return r;
}

/* A hint, not an error: other IP between the sites may take another route. */
static void hint_forwarding(const struct link_config *c)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_forward", "re");
	int on = 1;

	if (f && fscanf(f, "%d", &on) == 1 && !on)
		log_at(config_barrier(c) != BARRIER_OFF ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
		       "link %s: net.ipv4.ip_forward is 0: the link carries RoCE, and the kernel forwards no other "
		       "traffic of the hosts",
		       c->name);
	if (f)
		fclose(f);
}

static void take_over(struct link *l)
{
	const struct link_config *c = &l->config;

	for (uint32_t i = 0; i < worker_ports(c); i++) {
		char ifname[IF_NAMESIZE];

		worker_port_name(c, i, ifname);
		l->lan_ifindex[i] = (int)if_nametoindex(ifname);
		if (i < c->nlan_ports)
			privileged_offload_acquire(ifname);
	}
	l->offloads_held = true;
	hint_forwarding(c);
}

static int open_notify(struct link *l, char err[CONFIG_ERR_MAX])
{
	l->notify_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (l->notify_fd >= 0)
		l->notify_event = event_new(l->base, l->notify_fd, EV_READ | EV_PERSIST, link_on_notify, l);
	if (l->notify_event && event_add(l->notify_event, NULL) == 0)
		return 0;
	snprintf(err, CONFIG_ERR_MAX, "%s: cannot make an event: %s", l->config.name, strerror(errno));
	return -ENOMEM;
}

/* The link stays closed at rest until all steps that often fail are done: from STEER_RUNNING on, a link with a barrier
 * takes the hosts' IP from the kernel, and an attempt that fails every two seconds would interrupt that IP each
 * time. */
static int bring_up(struct link *l, const char *pcap_dir, char err[CONFIG_ERR_MAX])
{
	const struct link_config *c = &l->config;
	int r = open_notify(l, err);
	struct timespec wall;

	for (uint32_t i = 0; i < c->npaths; i++) {
		wan_pacer_init(&l->pacers[i], c->paths[i].rate_bps, link_plan_overhead_bytes(&c->paths[i]),
		               link_plan_burst_ns(&c->paths[i], may_spin(c)));
		rate_choose(&l->pacers[i].control, c->paths[i].rate_control, c->paths[i].rate_bps);
	}
	if (r == 0)
		r = check_ports(c, err);
	if (r == 0)
		r = check_addresses(c, err);
	if (r == 0) {
		r = descriptors_take(c, err);
		l->descriptors = r == 0 ? descriptors_of(c) : 0;
	}
	if (r == 0)
		r = open_arenas(l, pcap_dir, err);
	for (uint32_t i = 0; r == 0 && i < l->nworkers; i++)
		r = worker_open_wan(l->worker[i], err, CONFIG_ERR_MAX);
	if (r == 0)
		r = privileged_steer_install(c, STEER_RUNNING, err, CONFIG_ERR_MAX);
	r = r > 0 ? 0 : r; /* 1: somebody had removed rules */
	if (r == 0)
		take_over(l);
	if (r == 0)
		r = route_open(&l->routes, c->lan_ports, c->nlan_ports, l->nworkers, err, CONFIG_ERR_MAX);
	for (uint32_t i = 0; r == 0 && i < l->nworkers; i++)
		r = worker_open_lan(l->worker[i], route_worker(l->routes, i), err, CONFIG_ERR_MAX);
	if (r == 0)
		r = route_run(l->routes, err, CONFIG_ERR_MAX);
	if (r == 0 && c->relay)
		r = relay_open(&l->relay, c, l->worker, l->nworkers, err);
	for (uint32_t i = 0; r == 0 && i < l->nworkers; i++)
		r = worker_run(l->worker[i], err, CONFIG_ERR_MAX);
	if (r == 0 && l->relay)
		r = relay_run(l->relay, err);
	clock_gettime(CLOCK_REALTIME, &wall);
	bursts_init(&l->bursts, c->nlan_ports, l->nworkers, (uint64_t)wall.tv_sec * NS_PER_S + (uint64_t)wall.tv_nsec);
	return r;
}

int link_start(const struct link_config *c, struct event_base *base, const char *pcap_dir, link_event_fn fn,
               link_keys_fn keys_fn, void *arg, struct link **out, char err[CONFIG_ERR_MAX])
{
	static uint64_t lives;
	struct link *l = calloc(1, sizeof(*l));
	char unclosed[CONFIG_ERR_MAX];
	int r;

	if (!l) {
		snprintf(err, CONFIG_ERR_MAX, "%s: out of memory", c->name);
		return -ENOMEM;
	}
	l->config = *c;
	l->life = ++lives;
	l->base = base;
	l->notify_fd = -1;
	l->event_fn = fn;
	l->keys_fn = keys_fn;
	l->event_arg = arg;
	r = bring_up(l, pcap_dir, err);
	if (r < 0) {
		if (link_stop(l, LINK_START_FAILED, unclosed) < 0)
			log_err("link %s: %s", c->name, unclosed);
		return r;
	}
	*out = l;
	return 0;
}

/* --- running --- */

void link_reconfigure(struct link *l, const struct link_config *c)
{
	l->config = *c;
	for (uint32_t i = 0; i < c->npaths; i++) {
		wan_pacer_set_burst(&l->pacers[i], link_plan_burst_ns(&c->paths[i], may_spin(c)));
		rate_choose(&l->pacers[i].control, c->paths[i].rate_control, c->paths[i].rate_bps);
	}
	link_tell_workers(l);
}

int link_keep_rules(struct link *l, char err[CONFIG_ERR_MAX])
{
	int r = 0;

	err[0] = '\0';
	link_hold_promises(l, LINK_HOLD_RULES, true);
	if (!privileged_steer_stands(&l->config)) {
		r = privileged_steer_install(&l->config, STEER_RUNNING, err, CONFIG_ERR_MAX);
		if (r == 0)
			r = 1;
	}
	l->rules_restored += r > 0;
	if (r >= 0)
		link_hold_promises(l, LINK_HOLD_RULES, false);
	return r;
}

const struct link_config *link_config(const struct link *l)
{
	return &l->config;
}

uint64_t link_life(const struct link *l)
{
	return l->life;
}

uint32_t link_workers(const struct link *l)
{
	return l->nworkers;
}

const struct trace *link_trace(const struct link *l, uint32_t worker)
{
	return worker_trace(l->worker[worker]);
}

uint64_t link_arena_epoch(const struct link *l)
{
	uint64_t epoch = worker_epoch(l->worker[0]);

	/* arenas with different epochs together make an epoch of their own */
	for (uint32_t i = 1; i < l->nworkers; i++)
		if (worker_epoch(l->worker[i]) != worker_epoch(l->worker[0]))
			epoch = epoch * 31 + worker_epoch(l->worker[i]);
	return epoch;
}

bool link_arena_kept(const struct link *l)
{
	for (uint32_t i = 0; i < l->nworkers; i++)
		if (!worker_arena_kept(l->worker[i]))
			return false;
	return true;
}

uint64_t link_peer_arena_epoch(const struct link *l)
{
	/* the last worker is the last one to be given a session */
	for (uint32_t i = l->nworkers; i-- > 0;)
		if (worker_peer_epoch(l->worker[i]) != 0)
			return worker_peer_epoch(l->worker[i]);
	return 0;
}

/* --- the buffer --- */

bool link_buffer_is_of(const struct link *l, const struct link_config *c)
{
	struct arena_geometry planned = link_plan_geometry(c);

	if (c->workers != l->nworkers || link_plan_lanes(c) != link_plan_lanes(&l->config) ||
	    strcmp(c->arena_dir, l->config.arena_dir) != 0)
		return false;
	for (uint32_t i = 0; i < l->nworkers; i++)
		if (!arena_file_same_geometry(worker_geometry(l->worker[i]), &planned))
			return false;
	return true;
}

bool link_took_up_buffer(const struct link *l)
{
	return l->took_up_buffer;
}

void link_buffer_size(const struct link *l, uint64_t *bytes, uint32_t *flows)
{
	*bytes = *flows = 0;
	for (uint32_t i = 0; i < l->nworkers; i++) {
		*bytes += worker_geometry(l->worker[i])->len;
		*flows += worker_geometry(l->worker[i])->max_flows;
	}
}

/* --- stopping --- */

static void hand_back(struct link *l)
{
	const struct link_config *c = &l->config;

	for (uint32_t i = 0; l->offloads_held && i < c->nlan_ports; i++)
		privileged_offload_release(c->lan_ports[i]);
}

/* The flows of one worker are only forgotten together with those of all others: the other edge ends all flows of a link
 * whose epoch has changed, and the epoch is that of all arenas together. */
static bool keeps_flows(const struct link *l, enum link_end end)
{
	bool keeps = end == LINK_RESTARTS;

	for (uint32_t i = 0; i < l->nworkers; i++)
		keeps |= !worker_drained(l->worker[i]);
	return keeps;
}

/* After a start that failed, some arenas may not be open. Those that were in use stay in use, as the others do. */
static void close_opened(struct link *l)
{
	for (uint32_t i = 0; i < l->config.workers; i++)
		if (l->worker[i] != NULL)
			worker_close(l->worker[i], worker_took_up(l->worker[i]));
}

static void close_workers(struct link *l, enum link_end end)
{
	bool keeps = keeps_flows(l, end);

	for (uint32_t i = 0; i < l->nworkers; i++)
		worker_close(l->worker[i], keeps);
}

int link_stop(struct link *l, enum link_end end, char err[CONFIG_ERR_MAX])
{
	int r = 0;

	relay_stop(l->relay);
	link_stop_workers(l);
	relay_close(l->relay);
	hand_back(l);
	if (end == LINK_START_FAILED)
		close_opened(l);
	else
		close_workers(l, end);
	if (end == LINK_ENDS || end == LINK_START_FAILED) /* the buffers are closed and tell what is owed */
		r = closed_rest(&l->config, err, CONFIG_ERR_MAX);
	route_close(l->routes);
	if (l->notify_event)
		event_free(l->notify_event);
	if (l->notify_fd >= 0)
		close(l->notify_fd);
	descriptors_release(l->descriptors);
	free(l);
	return r;
}
