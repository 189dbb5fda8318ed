/* SPDX-License-Identifier: Apache-2.0 */
/* link_workers.c - commands from a link to its workers, and their answers.
 *
 * One eventfd tells the main thread that some worker has answers or events. A request that needs all workers (a
 * snapshot) counts their answers; the last one completes it. */
#include "link_priv.h"

#include <errno.h>
#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/config/link_plan.h"
#include "link_sum.h"
#include "daemon/util/log.h"
#include "daemon/privileged/privileged.h"

#define REQUESTS_MAX 64 /* commands with answers under way to a worker: far below what its rings hold */

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

static bool add_views(struct flow_views *sum, const struct flow_views *v)
{
	struct proxy_flow_view *all;

	sum->left_out += v->left_out;
	sum->running_ns = sum->running_ns && sum->running_ns < v->running_ns ? sum->running_ns : v->running_ns;
	for (unsigned i = 0; i < sizeof(v->heard_ns) / sizeof(v->heard_ns[0]); i++)
		sum->heard_ns[i] = sum->heard_ns[i] > v->heard_ns[i] ? sum->heard_ns[i] : v->heard_ns[i];
	if (v->n == 0)
		return true;
	all = realloc(sum->list, (sum->n + v->n) * sizeof(*all));
	if (!all)
		return false;
	memcpy(all + sum->n, v->list, v->n * sizeof(*all));
	sum->list = all;
	sum->n += v->n;
	return true;
}

static void add_answer(struct link *l, struct request *r, const struct worker_snapshot *s)
{
	link_sum_status(&r->sum.status, &s->status, r->missing == l->nworkers);
	r->sum.npaths = l->config.npaths;
	for (uint32_t i = 0; i < r->sum.npaths; i++)
		link_sum_path(&r->sum.paths[i], &s->paths[i], r->missing == l->nworkers, &r->path_rtts[i]);
	link_sum_rtt(&r->sum.status.rtt_smoothed_ns, &r->rtts, s->status.rtt_smoothed_ns);
	link_sum_counters(&r->sum.counters, &s->counters);
	if (s->out_of_memory || !add_flows(&r->sum, s) || !add_views(&r->sum.views, &s->views))
		r->failed = true;
	r->sum.lan_kernel_drops += s->lan_ring_drops;
	r->sum.lan_truncated += s->lan_truncated;
	r->sum.lan_not_ours += s->lan_not_ours;
	r->sum.lan_send_errors += s->lan_tx_errors;
	r->sum.wan_send_errors += s->wan_tx_errors;
	r->sum.wan_kernel_drops += s->wan_rx_drops;
	r->sum.wan_unmatched_drops += s->wan_unmatched_drops;
	r->sum.wan_no_socket += s->wan_no_socket;
	r->sum.wan_foreign += s->wan_foreign;
	r->sum.wan_not_ours += s->wan_not_ours;
	r->sum.wan_bad_length += s->wan_bad_length;
	r->sum.wan_bad_checksum += s->wan_bad_checksum;
	r->sum.wan_no_route += s->wan_no_route;
	r->sum.no_route += s->no_route;
	r->sum.unknown_hosts += s->unknown_hosts;
	r->sum.failures_unnamed += s->failures_unnamed;
	r->sum.seal.tx_updates += s->seal.tx_updates;
	r->sum.seal.rx_updates += s->seal.rx_updates;
	latencies_add(&r->sum.latency, &s->latency);
	r->sum.costs[s->shard] = s->costs;
	r->sum.nworkers = l->nworkers;
	r->sum.lan_pauses += s->pause.xoffs;
	r->sum.lan_pause_watchdog += s->pause.watchdogs;
}

static void look_at_bursts(struct link *l)
{
	const struct burst_ring *ring[LAN_PORTS_MAX * WORKERS_MAX];
	struct timespec ts;

	for (uint32_t i = 0; i < l->bursts.nports * l->nworkers; i++)
		ring[i] = worker_bursts(l->worker[i % l->nworkers], i / l->nworkers);
	clock_gettime(CLOCK_REALTIME, &ts);
	bursts_look(&l->bursts, ring, (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec);
}

const struct bursts *link_bursts(const struct link *l)
{
	return &l->bursts;
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
	if (!r->failed)
		look_at_bursts(l);
	r->sum.rules_restored = l->rules_restored;
	r->sum.lan_port_rebinds = l->lan_port_rebinds;
	if (l->relay)
		relay_counts(l->relay, &r->sum.relay);
	if (r->failed) {
		free(r->sum.flows);
		free(r->sum.views.list);
		r->fn(r->arg, l, NULL);
	} else {
		r->fn(r->arg, l, &r->sum);
	}
	free(r);
}

static bool ask_worker(struct worker *w, struct request *r, bool with_flows, const struct flow_filter *views)
{
	struct worker_snapshot *s = calloc(1, sizeof(*s));
	struct worker_cmd cmd = {.type = WORKER_SNAPSHOT, .snapshot = s};

	if (!s)
		return false;
	s->request = r;
	s->with_flows = with_flows;
	s->with_views = views != NULL;
	if (views)
		s->filter = *views;
	if (worker_command(w, &cmd))
		return true;
	free(s);
	return false;
}

void link_snapshot(struct link *l, bool with_flows, const struct flow_filter *views, link_snapshot_fn fn, void *arg)
{
	struct request *r = l->requests < REQUESTS_MAX ? calloc(1, sizeof(*r)) : NULL;

	if (!r) {
		fn(arg, l, NULL);
		return;
	}
	*r = (struct request){.fn = fn, .arg = arg, .missing = l->nworkers};
	l->requests++;
	for (uint32_t i = 0, n = l->nworkers; i < n; i++)
		if (!ask_worker(l->worker[i], r, with_flows, views))
			settle(l, r, NULL);
}

/* --- what comes back from workers --- */

static void keys_taken(struct link *l, uint32_t call)
{
	if (call == l->keys_call && --l->keys_missing == 0)
		l->keys_fn(l->event_arg, l, l->keys_serial);
}

/* carried_out: false if the link stops, whether the worker saw the command or not. */
static void take_answer(struct link *l, struct worker_cmd *cmd, bool carried_out)
{
	switch (cmd->type) {
	case WORKER_RECONFIGURE:
		free(cmd->config);
		return;
	case WORKER_SESSION: /* comes back only if the worker did not carry it out */
		seal_keys_free(cmd->keys);
		return;
	case WORKER_RX_KEYS:
		seal_keys_free(cmd->keys); /* if the worker did not take them */
		if (carried_out)
			keys_taken(l, cmd->serial);
		return;
	case WORKER_REBIND:
		l->rebinding--;
		if (carried_out && cmd->result < 0)
			l->rebind_error = cmd->result;
		return;
	case WORKER_WATCH:
		l->watches_out--;
		flow_watch_free(cmd->watch); /* the former watch; or the new one, if the worker did not take it */
		return;
	case WORKER_SNAPSHOT:
		break;
	}
	settle(l, cmd->snapshot->request, carried_out ? cmd->snapshot : NULL);
	free(cmd->snapshot->flows);
	free(cmd->snapshot->views.list);
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
	log_warn("link %s: %llu events are not in the log: they came faster than longreachd reads them", l->config.name,
	         (unsigned long long)(lost - l->events_lost_said));
	l->events_lost_said = lost;
}

void link_on_notify(int fd, short what, void *arg)
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

/* --- a flow that is watched --- */

static bool tell_watch(struct link *l, uint32_t worker, struct flow_watch *w)
{
	struct worker_cmd cmd = {.type = WORKER_WATCH, .watch = w};

	if (!worker_command(l->worker[worker], &cmd))
		return false;
	l->watches_out++;
	return true;
}

int link_watch_start(struct link *l, const struct flow_key *key)
{
	if (l->watches_out > 0 || l->watch[0])
		return -EBUSY;
	for (uint32_t i = 0; i < l->nworkers; i++) {
		l->watch[i] = flow_watch_new(key);
		if (l->watch[i] && tell_watch(l, i, l->watch[i]))
			continue;
		flow_watch_free(l->watch[i]);
		l->watch[i] = NULL;
		link_watch_stop(l);
		return -ENOMEM;
	}
	return 0;
}

/* A worker that takes no command keeps its watch, which fills and then counts missed rows, until the next stop or the
 * link's end. */
void link_watch_stop(struct link *l)
{
	for (uint32_t i = 0; i < l->nworkers; i++)
		if (l->watch[i] && tell_watch(l, i, NULL))
			l->watch[i] = NULL; /* freed with the answer */
}

struct flow_watch *link_watch(const struct link *l, uint32_t worker)
{
	return l->watch[worker];
}

/* --- commands --- */

void link_tell_workers(struct link *l)
{
	bool said = l->untold > 0;

	l->untold = 0;
	for (uint32_t i = 0; i < l->nworkers; i++) {
		struct worker_cmd cmd = {.type = WORKER_RECONFIGURE, .config = malloc(sizeof(*cmd.config))};

		if (cmd.config) {
			*cmd.config = link_plan_proxy(&l->config, i, l->pacers);
			cmd.config->no_early_acks = l->holds != 0;
			if (worker_command(l->worker[i], &cmd))
				continue;
			free(cmd.config);
		}
		l->untold++;
		if (!said)
			log_err("link %s: worker %u of %u does not take the new configuration and keeps the old one: "
			        "longreachd hands the new one over again every second",
			        l->config.name, i + 1, l->nworkers);
	}
	if (said && l->untold == 0)
		log_notice("link %s: all workers have taken the new configuration", l->config.name);
}

void link_tell_again(struct link *l)
{
	if (l->untold > 0)
		link_tell_workers(l);
}

uint32_t link_untold(const struct link *l)
{
	return l->untold;
}

bool link_holds_promises(const struct link *l)
{
	return l->holds != 0;
}

void link_hold_promises(struct link *l, enum link_hold why, bool hold)
{
	unsigned before = l->holds;

	l->holds = hold ? before | why : before & ~(unsigned)why;
	if ((l->holds != 0) != (before != 0))
		link_tell_workers(l);
}

static struct seal_keys *make_keys(const struct link *l, const struct seal_secret *s, enum seal_direction dir,
                                   uint32_t shard)
{
	struct seal_scope of = link_plan_seal(&l->config, shard);

	return seal_keys_new(s, dir, &of);
}

int link_session(struct link *l, const struct proxy_session *s, const struct seal_secret *tx, char err[CONFIG_ERR_MAX])
{
	int r = 0;

	err[0] = '\0';
	for (uint32_t i = 0; i < l->nworkers; i++) {
		struct worker_cmd cmd = {.type = WORKER_SESSION, .session = *s};

		if (tx)
			cmd.keys = make_keys(l, tx, SEAL_TX, i);
		if ((!tx || cmd.keys) && worker_command(l->worker[i], &cmd))
			continue;
		snprintf(err, CONFIG_ERR_MAX, "worker %u of %u has no session: %s", i + 1, l->nworkers,
		         tx && !cmd.keys ? "no memory for its keys" : "it takes no commands");
		seal_keys_free(cmd.keys);
		r = -EAGAIN;
	}
	return r;
}

/* A worker that does not take the keys keeps keys_missing from 0. */
int link_rx_keys(struct link *l, const struct seal_secret *rx, uint32_t serial, char err[CONFIG_ERR_MAX])
{
	int r = 0;

	err[0] = '\0';
	l->keys_serial = serial;
	l->keys_call++;
	l->keys_missing = l->nworkers;
	for (uint32_t i = 0; i < l->nworkers; i++) {
		struct worker_cmd cmd = {
		    .type = WORKER_RX_KEYS, .serial = l->keys_call, .keys = make_keys(l, rx, SEAL_RX, i)};

		if (cmd.keys && worker_command(l->worker[i], &cmd))
			continue;
		snprintf(err, CONFIG_ERR_MAX, "worker %u of %u cannot open the other edge's next datagrams: %s", i + 1,
		         l->nworkers, cmd.keys ? "it takes no commands" : "no memory for the keys");
		seal_keys_free(cmd.keys);
		r = -EAGAIN;
	}
	return r;
}

bool link_alive(struct link *l)
{
	bool alive = true;

	for (uint32_t i = 0; i < l->nworkers; i++)
		alive &= worker_alive(l->worker[i]);
	return alive;
}

void link_stop_workers(struct link *l)
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

/* --- LAN ports that are made again, or get another MAC address --- */

/* 48 bits; 0: the interface is gone. */
static uint64_t read_mac(const char *ifname)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {0};
	uint64_t mac = 0;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	if (fd >= 0 && ioctl(fd, SIOCGIFHWADDR, &ifr) == 0)
		for (unsigned i = 0; i < 6; i++)
			mac = mac << 8 | (uint8_t)ifr.ifr_hwaddr.sa_data[i];
	if (fd >= 0)
		close(fd);
	return mac;
}

/* What of its interface a worker's port does not follow yet, as words for the log; NULL: nothing. */
static const char *find_change(const struct worker *w, uint32_t port, int ifindex, uint64_t mac)
{
	int bound = worker_lan_ifindex(w, port);
	uint64_t taken = worker_lan_mac(w, port);

	if (bound != 0 && bound != ifindex)
		return "is a new interface";
	if (bound != 0 && taken != 0 && mac != 0 && taken != mac)
		return "has a new MAC address";
	return NULL;
}

/* Tells the workers whose ports do not follow the interface. Returns what has changed; NULL: all ports follow it. */
static const char *rebind(struct link *l, uint32_t port, int ifindex, uint64_t mac)
{
	struct worker_cmd cmd = {.type = WORKER_REBIND, .lan_port = port};
	const char *change = NULL;

	for (uint32_t i = 0; i < l->nworkers; i++) {
		const char *c = find_change(l->worker[i], port, ifindex, mac);

		if (!c)
			continue;
		change = c;
		if (worker_command(l->worker[i], &cmd))
			l->rebinding++;
	}
	return change;
}

/* True if an interface has gone that a worker's port was bound to. */
static bool is_unbound(const struct link *l, uint32_t port)
{
	for (uint32_t i = 0; i < l->nworkers; i++)
		if (worker_lan_ifindex(l->worker[i], port) < 0)
			return true;
	return false;
}

/* Rules, like sockets, do not outlive an interface that is deleted or moved to another namespace. A moved one that
 * comes back has the index that it had. */
static int follow_port(struct link *l, uint32_t port, char err[CONFIG_ERR_MAX])
{
	int ifindex, error = l->rebind_error;
	char ifname[IF_NAMESIZE];
	const char *change;

	worker_port_name(&l->config, port, ifname);
	ifindex = (int)if_nametoindex(ifname);
	if (ifindex == 0) {
		l->lan_ifindex[port] = 0;
		return 0;
	}
	if (l->lan_ifindex[port] != ifindex || (is_unbound(l, port) && error == 0)) {
		int r = privileged_steer_install(&l->config, STEER_RUNNING, err, CONFIG_ERR_MAX);

		if (r < 0)
			return r;
		l->lan_ifindex[port] = ifindex;
		l->lan_port_rebinds++;
	}
	if (port < l->config.nlan_ports) {
		privileged_offload_refresh(ifname);
		for (uint32_t i = 0; i < l->nworkers; i++)
			worker_follow_pause(l->worker[i], port);
	}
	l->rebind_error = 0;
	change = rebind(l, port, ifindex, read_mac(ifname));
	if (!change)
		return 0;
	snprintf(err, CONFIG_ERR_MAX, "LAN port %s: %s, and not all workers use it yet%s%s", ifname, change,
	         error ? ": " : "", error ? strerror(-error) : "");
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
