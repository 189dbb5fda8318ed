/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Starting: first the kernel rules, then the arenas (with a message for everything that can be wrong with them), then
 * sockets, then threads. So a link that cannot start is closed: its RoCE never takes the way around the seal.
 *
 * Stopping: threads, sockets, and then offloads are put right. Of the kernel rules what the buffers ask for stays
 * (closed_rest()), until the link's file is gone (site_remove()).
 *
 * One eventfd tells the main thread that some worker has answers or events. A request that needs all workers (a
 * snapshot) counts their answers; the last one completes it. */
#define _GNU_SOURCE
#include "link.h"

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
#include "link_sum.h"
#include "daemon/util/log.h"
#include "daemon/privileged/privileged.h"
#include "daemon/lan/route.h"
#include "daemon/worker/worker.h"

#define REQUESTS_MAX 64 /* commands with answers under way to a worker: far below what its rings hold */
#define SPARE_CPUS   3  /* beside the workers, before they may spin: main thread, interrupts, everyone else */

struct link {
	struct link_config config;
	uint64_t life;
	struct event_base *base;
	struct event *notify_event;
	int notify_fd;
	link_event_fn event_fn;
	void *event_arg;
	struct wan_pacer pacers[PATHS_MAX];
	struct routes *routes;
	struct worker *worker[WORKERS_MAX];
	uint32_t nworkers;
	link_keys_fn keys_fn;
	uint32_t keys_serial;  /* of the last link_rx_keys() */
	uint32_t keys_missing; /* workers that have not taken them */
	unsigned requests; /* under way, per worker */
	bool offloads_held, no_early_acks;
	uint64_t descriptors;           /* that were taken for it */
	int lan_ifindex[LAN_PORTS_MAX + 1]; /* of the workers' ports: that the rules are for */
	uint64_t lan_port_rebinds, rules_restored;
	unsigned rebinding; /* commands under way */
	int rebind_error;   /* of the last one that failed, 0: none since */
	uint64_t events_lost_said;
};

/* One snapshot under way. */
struct request {
	link_snapshot_fn fn;
	void *arg;
	uint32_t missing; /* workers that have not answered */
	uint32_t rtts;    /* workers that have measured a round trip ... */
	uint32_t path_rtts[PATHS_MAX]; /* ... on each path */
	bool failed;
	struct link_snapshot sum;
};

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* --- snapshots --- */

/* Of each path, what the worker says that has seen most of it lately. */
static void add_fec(struct proxy_link_status *sum, const struct proxy_link_status *s, bool first)
{
	sum->npaths = s->npaths;
	for (uint32_t i = 0; i < s->npaths; i++)
		if (first || s->fec[i].measured > sum->fec[i].measured)
			sum->fec[i] = s->fec[i];
}

static void add_status(struct proxy_link_status *sum, const struct proxy_link_status *s, bool first)
{
	sum->wan_up = first ? s->wan_up : sum->wan_up && s->wan_up;
	sum->mismatch |= s->mismatch;
	add_fec(sum, s, first);
	if (s->rtt_min_ns && (!sum->rtt_min_ns || s->rtt_min_ns < sum->rtt_min_ns))
		sum->rtt_min_ns = s->rtt_min_ns;
	sum->wan_in_flight_bytes += s->wan_in_flight_bytes;
	for (unsigned i = 0; i < POOL_COUNT; i++) {
		sum->pool_used[i] += s->pool_used[i];
		sum->pool_capacity[i] += s->pool_capacity[i];
		sum->pool_stuck[i] |= s->pool_stuck[i];
	}
	sum->near_flows += s->near_flows;
	sum->far_flows += s->far_flows;
	sum->max_flows += s->max_flows;
	sum->pairs_end_to_end += s->pairs_end_to_end;
	sum->flows_learning += s->flows_learning;
	sum->flows_held_off += s->flows_held_off;
	sum->flows_stalled += s->flows_stalled;
	sum->flows_rnr += s->flows_rnr;
	sum->barrier = s->barrier;
	sum->barrier_waiting += s->barrier_waiting;
	sum->ip_used_bytes += s->ip_used_bytes;
	sum->ip_capacity_bytes += s->ip_capacity_bytes;
}

static void add_counters(struct proxy_counters *sum, const struct proxy_counters *c)
{
	for (unsigned i = 0; i < DROP_COUNT; i++)
		sum->drop[i] += c->drop[i];
	for (unsigned i = 0; i < CTR_COUNT; i++)
		sum->ctr[i] += c->ctr[i];
}

static bool add_flows(struct link_snapshot *sum, const struct worker_snapshot *s)
{
	struct proxy_flow_status *all;

	if (s->nflows == 0)
		return true;
	all = realloc(sum->flows, (sum->nflows + s->nflows) * sizeof(*all));
	if (!all)
		return false;
	memcpy(all + sum->nflows, s->flows, s->nflows * sizeof(*all));
	sum->flows = all;
	sum->nflows += s->nflows;
	return true;
}

static void add_answer(struct link *l, struct request *r, const struct worker_snapshot *s)
{
	add_status(&r->sum.status, &s->status, r->missing == l->nworkers);
	r->sum.npaths = l->config.npaths;
	for (uint32_t i = 0; i < r->sum.npaths; i++)
		link_sum_path(&r->sum.paths[i], &s->paths[i], r->missing == l->nworkers, &r->path_rtts[i]);
	link_sum_rtt(&r->sum.status.rtt_smoothed_ns, &r->rtts, s->status.rtt_smoothed_ns);
	add_counters(&r->sum.counters, &s->counters);
	if (s->out_of_memory || !add_flows(&r->sum, s))
		r->failed = true;
	r->sum.lan_kernel_drops += s->lan_ring_drops;
	r->sum.lan_truncated += s->lan_truncated;
	r->sum.lan_send_errors += s->lan_tx_errors;
	r->sum.wan_send_errors += s->wan_tx_errors;
	r->sum.wan_kernel_drops += s->wan_rx_drops;
	r->sum.wan_stray_drops += s->wan_stray_drops;
	r->sum.wan_no_socket += s->wan_no_socket;
	r->sum.wan_foreign += s->wan_foreign;
	r->sum.no_route += s->no_route;
	r->sum.unknown_hosts += s->unknown_hosts;
	r->sum.failures_unnamed += s->failures_unnamed;
	r->sum.seal.tx_updates += s->seal.tx_updates;
	r->sum.seal.rx_updates += s->seal.rx_updates;
	r->sum.lan_pauses += s->pause.xoffs;
	r->sum.lan_pause_watchdog += s->pause.watchdogs;
}

/* One worker's part is settled (s NULL: it will not come). The last one completes the request. */
static void settle(struct link *l, struct request *r, const struct worker_snapshot *s)
{
	if (s)
		add_answer(l, r, s);
	else
		r->failed = true;
	if (--r->missing)
		return;
	l->requests--;
	r->sum.taken_ns = clock_ns();
	r->sum.rules_restored = l->rules_restored;
	r->sum.lan_port_rebinds = l->lan_port_rebinds;
	if (r->failed) {
		free(r->sum.flows);
		r->fn(r->arg, l, NULL);
	} else {
		r->fn(r->arg, l, &r->sum);
	}
	free(r);
}

static bool ask_worker(struct worker *w, struct request *r, bool with_flows)
{
	struct worker_snapshot *s = calloc(1, sizeof(*s));
	struct worker_cmd cmd = {.type = WORKER_SNAPSHOT, .snapshot = s};

	if (!s)
		return false;
	s->request = r;
	s->with_flows = with_flows;
	if (worker_command(w, &cmd))
		return true;
	free(s);
	return false;
}

void link_snapshot(struct link *l, bool with_flows, link_snapshot_fn fn, void *arg)
{
	struct request *r = l->requests < REQUESTS_MAX ? calloc(1, sizeof(*r)) : NULL;

	if (!r) {
		fn(arg, l, NULL);
		return;
	}
	*r = (struct request){.fn = fn, .arg = arg, .missing = l->nworkers};
	l->requests++;
	for (uint32_t i = 0, n = l->nworkers; i < n; i++)
		if (!ask_worker(l->worker[i], r, with_flows))
			settle(l, r, NULL);
}

/* --- what comes back from workers --- */

static void keys_taken(struct link *l, uint32_t serial)
{
	if (serial == l->keys_serial && --l->keys_missing == 0)
		l->keys_fn(l->event_arg, l, serial);
}

/* carried_out: false if the link stops, whether the worker saw the command or not. */
static void take_answer(struct link *l, struct worker_cmd *cmd, bool carried_out)
{
	switch (cmd->type) {
	case WORKER_RECONFIGURE:
		free(cmd->config);
		return;
	case WORKER_SESSION: /* comes back only if it was not carried out */
		seal_keys_free(cmd->keys);
		return;
	case WORKER_RX_KEYS:
		seal_keys_free(cmd->keys); /* if they were not taken */
		if (carried_out)
			keys_taken(l, cmd->serial);
		return;
	case WORKER_REBIND:
		l->rebinding--;
		if (carried_out && cmd->result < 0)
			l->rebind_error = cmd->result;
		return;
	case WORKER_SNAPSHOT:
		break;
	}
	settle(l, cmd->snapshot->request, carried_out ? cmd->snapshot : NULL);
	free(cmd->snapshot->flows);
	free(cmd->snapshot);
}

static void take_events(struct link *l, struct worker *w)
{
	struct proxy_event ev;

	while (worker_event(w, &ev))
		l->event_fn(l->event_arg, l, &ev);
}

static void say_lost_events(struct link *l)
{
	uint64_t lost = 0;

	for (uint32_t i = 0; i < l->nworkers; i++)
		lost += worker_events_lost(l->worker[i]);
	if (lost == l->events_lost_said)
		return;
	log_warn("link %s: %llu events came too fast to be reported", l->config.name,
	         (unsigned long long)(lost - l->events_lost_said));
	l->events_lost_said = lost;
}

static void on_notify(evutil_socket_t fd, short what, void *arg)
{
	struct link *l = arg;
	struct worker_cmd cmd;
	uint64_t count;

	(void)what;
	if (read(fd, &count, sizeof(count)) < 0)
		return;
	for (uint32_t i = 0; i < l->nworkers; i++) {
		take_events(l, l->worker[i]);
		while (worker_answer(l->worker[i], &cmd))
			take_answer(l, &cmd, true);
	}
	say_lost_events(l);
}

/* --- starting --- */

static bool may_spin(const struct link_config *c)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return c->ncpus > 0 && cpus >= (long)c->workers + SPARE_CPUS;
}

/* nft accepts a port that does not exist: so look first. */
static int check_ports(const struct link_config *c, char err[CONFIG_ERR_MAX])
{
	for (uint32_t i = 0; i < c->nlan_ports; i++) {
		if (if_nametoindex(c->lan_ports[i]))
			continue;
		snprintf(err, CONFIG_ERR_MAX, "LAN port %s: no such interface", c->lan_ports[i]);
		return -ENODEV;
	}
	return 0;
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

	if (r == 0)
		r = arena_file_check_others(c->arena_dir, c->name, c->workers, err, CONFIG_ERR_MAX);
	if (r == 0 && getrandom(&p.new_epoch, sizeof(p.new_epoch), 0) != sizeof(p.new_epoch)) {
		snprintf(err, CONFIG_ERR_MAX, "no random numbers: %s", strerror(errno));
		r = -errno;
	}
	for (p.shard = 0; r == 0 && p.shard < c->workers; p.shard++) {
		p.cpu = p.shard < c->ncpus ? c->cpus[p.shard] : -1;
		r = worker_open_arena(&l->worker[p.shard], &p, err, CONFIG_ERR_MAX);
		if (r == 0)
			l->nworkers++;
	}
	return r;
}

/* A hint, not an error: other traffic between the sites may well go another way; unless it may not. */
static void hint_forwarding(const struct link_config *c)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_forward", "re");
	int on = 1;

	if (f && fscanf(f, "%d", &on) == 1 && !on)
		log_at(
		    config_barrier(c) != BARRIER_OFF ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
		    "link %s: net.ipv4.ip_forward is 0: RoCE is carried, other traffic of the hosts is not forwarded",
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
		l->notify_event = event_new(l->base, l->notify_fd, EV_READ | EV_PERSIST, on_notify, l);
	if (l->notify_event && event_add(l->notify_event, NULL) == 0)
		return 0;
	snprintf(err, CONFIG_ERR_MAX, "%s: cannot make an event: %s", l->config.name, strerror(errno));
	return -ENOMEM;
}

static int bring_up(struct link *l, const char *pcap_dir, char err[CONFIG_ERR_MAX])
{
	const struct link_config *c = &l->config;
	int r = privileged_steer_install(c, STEER_RUNNING, err, CONFIG_ERR_MAX);

	if (r == 0)
		r = open_notify(l, err);
	for (uint32_t i = 0; i < c->npaths; i++) {
		wan_pacer_init(&l->pacers[i], c->paths[i].rate_bps, link_plan_overhead_bytes(&c->paths[i]),
		               link_plan_burst_ns(&c->paths[i], may_spin(c)));
		rate_choose(&l->pacers[i].control, c->paths[i].rate_control, c->paths[i].rate_bps);
	}
	if (r == 0)
		r = check_ports(c, err);
	if (r == 0) {
		r = descriptors_take(c, err);
		l->descriptors = r == 0 ? descriptors_of(c) : 0;
	}
	if (r == 0)
		r = open_arenas(l, pcap_dir, err);
	if (r == 0)
		take_over(l);
	if (r == 0)
		r = route_open(&l->routes, c->lan_ports, c->nlan_ports, l->nworkers, err, CONFIG_ERR_MAX);
	for (uint32_t i = 0; r == 0 && i < l->nworkers; i++)
		r = worker_open_ports(l->worker[i], route_worker(l->routes, i), err, CONFIG_ERR_MAX);
	if (r == 0)
		r = route_run(l->routes, err, CONFIG_ERR_MAX);
	for (uint32_t i = 0; r == 0 && i < l->nworkers; i++)
		r = worker_run(l->worker[i], err, CONFIG_ERR_MAX);
	return r;
}

int link_start(const struct link_config *c, struct event_base *base, const char *pcap_dir, link_event_fn fn,
               link_keys_fn keys_fn, void *arg, struct link **out, char err[CONFIG_ERR_MAX])
{
	static uint64_t lives;
	struct link *l = calloc(1, sizeof(*l));
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
		link_stop(l, false);
		return r;
	}
	*out = l;
	return 0;
}

/* --- running --- */

static void tell_workers(struct link *l)
{
	for (uint32_t i = 0; i < l->nworkers; i++) {
		struct worker_cmd cmd = {.type = WORKER_RECONFIGURE, .config = malloc(sizeof(*cmd.config))};

		if (cmd.config) {
			*cmd.config = link_plan_proxy(&l->config, i, l->pacers);
			cmd.config->no_early_acks = l->no_early_acks;
			if (worker_command(l->worker[i], &cmd))
				continue;
			free(cmd.config);
		}
		log_err("link %s: worker %u does not take the new configuration and keeps the old one", l->config.name,
		        i);
	}
}

void link_reconfigure(struct link *l, const struct link_config *c)
{
	l->config = *c;
	for (uint32_t i = 0; i < c->npaths; i++) {
		wan_pacer_set_burst(&l->pacers[i], link_plan_burst_ns(&c->paths[i], may_spin(c)));
		rate_choose(&l->pacers[i].control, c->paths[i].rate_control, c->paths[i].rate_bps);
	}
	tell_workers(l);
}

static void hold_promises(struct link *l, bool hold)
{
	if (l->no_early_acks == hold)
		return;
	l->no_early_acks = hold;
	tell_workers(l);
}

int link_keep_rules(struct link *l, char err[CONFIG_ERR_MAX])
{
	int r = 0;

	hold_promises(l, true);
	if (!privileged_steer_stands(&l->config)) {
		r = privileged_steer_install(&l->config, STEER_RUNNING, err, CONFIG_ERR_MAX);
		if (r == 0)
			r = 1;
	}
	l->rules_restored += r > 0;
	if (r >= 0)
		hold_promises(l, false);
	return r;
}

/* --- LAN ports that are made again --- */


/* True if a worker's port is bound to another interface: it is told, if it is not yet at it. */
static bool rebind(struct link *l, uint32_t port, int ifindex)
{
	struct worker_cmd cmd = {.type = WORKER_REBIND, .lan_port = port};
	bool wrong = false;

	for (uint32_t i = 0; i < l->nworkers; i++) {
		int bound = worker_lan_ifindex(l->worker[i], port);

		if (bound == ifindex || bound == 0)
			continue;
		wrong = true;
		if (worker_command(l->worker[i], &cmd))
			l->rebinding++;
	}
	return wrong;
}

static int follow_port(struct link *l, uint32_t port, char err[CONFIG_ERR_MAX])
{
	int ifindex, error = l->rebind_error;
	char ifname[IF_NAMESIZE];

	worker_port_name(&l->config, port, ifname);
	ifindex = (int)if_nametoindex(ifname);
	if (ifindex == 0)
		return 0;
	if (l->lan_ifindex[port] != ifindex) {
		int r = privileged_steer_install(&l->config, STEER_RUNNING, err, CONFIG_ERR_MAX);

		if (r < 0)
			return r;
		l->lan_ifindex[port] = ifindex;
		l->lan_port_rebinds++;
	}
	if (port < l->config.nlan_ports)
		privileged_offload_refresh(ifname);
	l->rebind_error = 0;
	if (!rebind(l, port, ifindex))
		return 0;
	snprintf(err, CONFIG_ERR_MAX, "LAN port %s: is made anew and not taken up yet%s%s", ifname, error ? ": " : "",
	         error ? strerror(-error) : "");
	return -EAGAIN;
}

int link_follow_ports(struct link *l, bool rules, char err[CONFIG_ERR_MAX])
{
	int worst;

	err[0] = '\0';
	worst = privileged_steer_keep_routing(&l->config, rules, err, CONFIG_ERR_MAX);
	for (uint32_t i = 0; l->rebinding == 0 && i < worker_ports(&l->config); i++) {
		int r = follow_port(l, i, err);

		worst = r < 0 ? r : worst;
	}
	if (l->rebinding > 0 && worst == 0)
		worst = -EAGAIN;
	return worst;
}

static struct seal_keys *make_keys(const struct link *l, const struct seal_secret *s, enum seal_direction dir,
                                   uint32_t shard)
{
	struct seal_scope of = link_plan_seal(&l->config, shard);

	return seal_keys_new(s, dir, &of);
}

void link_session(struct link *l, const struct proxy_session *s, const struct seal_secret *tx)
{
	for (uint32_t i = 0; i < l->nworkers; i++) {
		struct worker_cmd cmd = {.type = WORKER_SESSION, .session = *s};

		if (tx)
			cmd.keys = make_keys(l, tx, SEAL_TX, i);
		if ((!tx || cmd.keys) && worker_command(l->worker[i], &cmd))
			continue;
		seal_keys_free(cmd.keys);
		log_err("link %s: worker %u does not take the new session", l->config.name, i);
	}
}

void link_rx_keys(struct link *l, const struct seal_secret *rx, uint32_t serial)
{
	l->keys_serial = serial;
	l->keys_missing = l->nworkers;
	for (uint32_t i = 0; i < l->nworkers; i++) {
		struct worker_cmd cmd = {
		    .type = WORKER_RX_KEYS, .serial = serial, .keys = make_keys(l, rx, SEAL_RX, i)};

		if (cmd.keys && worker_command(l->worker[i], &cmd))
			continue;
		seal_keys_free(cmd.keys);
		log_err("link %s: worker %u does not take the new keys", l->config.name, i);
	}
}

bool link_alive(struct link *l)
{
	bool alive = true;

	for (uint32_t i = 0; i < l->nworkers; i++)
		alive &= worker_alive(l->worker[i]);
	return alive;
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

	/* arenas of different lives together are a life of their own */
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

/* --- stopping --- */

static void stop_workers(struct link *l)
{
	struct worker_cmd cmd;

	for (uint32_t i = 0; i < l->nworkers; i++)
		worker_stop(l->worker[i]);
	for (uint32_t i = 0; i < l->nworkers; i++) {
		take_events(l, l->worker[i]);
		while (worker_answer(l->worker[i], &cmd))
			take_answer(l, &cmd, false);
	}
}

static void hand_back(struct link *l)
{
	const struct link_config *c = &l->config;

	for (uint32_t i = 0; l->offloads_held && i < c->nlan_ports; i++)
		privileged_offload_release(c->lan_ports[i]);
}

/* The buffers are closed and say what is owed. */
static void rest(const struct link *l)
{
	char err[CONFIG_ERR_MAX];

	if (closed_rest(&l->config, err, sizeof(err)) < 0)
		log_err("link %s: %s", l->config.name, err);
}

void link_stop(struct link *l, bool comes_back)
{
	stop_workers(l);
	hand_back(l);
	for (uint32_t i = 0; i < l->nworkers; i++)
		worker_close(l->worker[i], comes_back);
	if (!comes_back)
		rest(l);
	route_close(l->routes);
	if (l->notify_event)
		event_free(l->notify_event);
	if (l->notify_fd >= 0)
		close(l->notify_fd);
	descriptors_release(l->descriptors);
	free(l);
}
