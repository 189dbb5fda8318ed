/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A worker runs to completion. One turn of its loop takes a bounded batch from the WAN, reads the clock once, takes
 * bounded batches from the LAN ports, lets the core's timers run, and sends what the core has to send. Batches are
 * small enough that no source waits long for another, large enough to make system calls cheap.
 *
 * After a turn that did something comes the next one at once: polling while busy. After one that did nothing the worker
 * sleeps in epoll until input comes or until the core's next deadline; with cores to spare it spins over waits of a few
 * microseconds instead. epoll is only the alarm clock: each turn looks at every source anyway.
 *
 * A device or socket that takes nothing more makes its port "blocked": the core is then not asked for
 * packets in that direction, and the send is tried again after a short sleep. There is no event to wait for: a
 * full device queue has none.
 *
 * Packet bodies for hosts lie in the arena and are valid only until the core is called for something else, so a
 * batch of them is fetched, addressed, and sent or copied before anything else happens. */
#define _GNU_SOURCE /* epoll_pwait2, CPU affinity */
#include "worker.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "arena_file.h"
#include "lan_port.h"
#include "lan_wait.h"
#include "link_plan.h"
#include "log.h"
#include "pcap.h"
#include "route.h"
#include "spsc.h"
#include "wan_port.h"

enum worker_limits {
	COMMANDS = 256,
	EVENTS = 4096,
	LAN_RING_FRAMES = 4096, /* about a millisecond at 100 Gbit/s and 4 KiB */
	LAN_RX_BUDGET = 64,     /* per port and turn */
	EVENTS_BUDGET = 64,
	RETRY_NS = 50000,    /* a blocked port is tried again */
	SPIN_NS = 50000,     /* waits shorter than this are spun over, if at all */
	IDLE_TURNS_MAX = 16, /* turns without work although the core says "at once", before a short sleep */
	LOOK_EVERY = 256,    /* turns between looks at epoll while busy, for routes that changed */
};

struct worker {
	struct worker_params params;
	struct link_config config; /* as started with */
	char label[LINK_NAME_MAX + 8];
	/* core */
	struct proxy *core;
	struct proxy_config core_config; /* as started with */
	struct arena_file arena;
	void *heap;
	size_t heap_len;
	/* ports */
	const struct lan_port_ops *lan_ops;
	struct lan_port *lan[LAN_PORTS_MAX];
	uint32_t nlan;
	struct wan_port *wan;
	struct route_cache *routes;
	struct lan_frame frames[LAN_TX_BATCH];
	struct lan_wait waiting;
	uint64_t no_route;
	struct pcap *pcap_lan, *pcap_wan;
	uint64_t wall_ns; /* CLOCK_REALTIME of this turn, for captures */
	uint64_t now_ns;  /* of this turn */
	uint32_t turn, idle_turns;
	/* main thread */
	struct spsc commands, answers, events;
	_Atomic uint64_t events_lost;
	_Atomic bool stop;
	int command_fd, epoll_fd;
	bool tell_main; /* something was put into a ring this turn */
	pthread_t thread;
	bool running;
};

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* --- commands and events --- */

static void take_snapshot(struct worker *w, struct worker_snapshot *s)
{
	struct wan_port_stats wan;
	uint32_t cursor = 0, room = 0;
	struct proxy_flow_status flow;

	s->counters = *proxy_counters(w->core);
	proxy_link_status(w->core, w->now_ns, &s->status);
	s->no_route = w->no_route;
	for (uint32_t i = 0; i < w->nlan; i++) {
		struct lan_port_stats lan;

		w->lan_ops->stats(w->lan[i], &lan);
		s->lan_ring_drops += lan.rx_ring_drops;
		s->lan_truncated += lan.rx_truncated;
		s->lan_tx_errors += lan.tx_errors;
	}
	wan_port_stats(w->wan, &wan);
	s->wan_tx_errors = wan.tx_errors;
	s->wan_rx_drops = wan.rx_kernel_drops;
	s->wan_foreign = wan.rx_foreign;
	while (s->with_flows && proxy_flow_next(w->core, &cursor, &flow)) {
		if (s->nflows == room) {
			struct proxy_flow_status *more;

			room = room ? room * 2 : 64;
			more = realloc(s->flows, room * sizeof(*more));
			if (!more) {
				s->out_of_memory = true;
				return;
			}
			s->flows = more;
		}
		s->flows[s->nflows++] = flow;
	}
}

/* What only sizes tables or was drawn at start stays as it was, whatever the new file says. */
static void reconfigure(struct worker *w, struct proxy_config *pc)
{
	pc->random_seed = w->core_config.random_seed;
	pc->rtt_hint_ns = w->core_config.rtt_hint_ns;
	pc->rate_hint_bps = w->core_config.rate_hint_bps;
	if (proxy_reconfigure(w->core, pc, w->now_ns) < 0)
		log_err("link %s: the core refused the new configuration and keeps the old one", w->label);
}

static void carry_out(struct worker *w, struct worker_cmd *cmd)
{
	switch (cmd->type) {
	case WORKER_SESSION:
		proxy_session_start(w->core, &cmd->session, w->now_ns);
		return;
	case WORKER_RECONFIGURE:
		reconfigure(w, cmd->config);
		break;
	case WORKER_SNAPSHOT:
		take_snapshot(w, cmd->snapshot);
		break;
	}
	/* as many answers as commands fit: the main thread sends no more than it has taken answers for */
	spsc_put(&w->answers, cmd);
	w->tell_main = true;
}

static unsigned run_commands(struct worker *w)
{
	struct worker_cmd cmd;
	unsigned n = 0;

	while (spsc_take(&w->commands, &cmd)) {
		carry_out(w, &cmd);
		n++;
	}
	return n;
}

static void pass_events(struct worker *w)
{
	struct proxy_event ev;

	for (int i = 0; i < EVENTS_BUDGET && proxy_event_next(w->core, &ev); i++) {
		if (!spsc_put(&w->events, &ev))
			atomic_fetch_add_explicit(&w->events_lost, 1, memory_order_relaxed);
		w->tell_main = true;
	}
}

static void notify_main(struct worker *w)
{
	uint64_t one = 1;

	if (!w->tell_main)
		return;
	w->tell_main = false;
	if (write(w->params.notify_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: the main thread has been told already */
}

/* --- packets in --- */

static void on_lan_packet(void *arg, const uint8_t *l3, size_t len, uint16_t vlan_tci)
{
	struct worker *w = arg;
	struct iovec whole = {(void *)(uintptr_t)l3, len};

	pcap_packet(w->pcap_lan, w->wall_ns, PCAP_IN, &whole, 1);
	proxy_lan_rx(w->core, w->now_ns, l3, len, vlan_tci);
}

static void on_wan_datagram(void *arg, uint16_t sport, const uint8_t *dgram, size_t len, bool ce)
{
	struct worker *w = arg;

	if (w->pcap_wan)
		pcap_udp(w->pcap_wan, w->wall_ns, PCAP_IN, &w->config.wan_remote, sport, &w->config.wan_local,
		         w->config.wan_port, dgram, len, ce);
	proxy_wan_rx(w->core, w->now_ns, dgram, len, ce);
}

static unsigned receive_lan(struct worker *w)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < w->nlan; i++)
		n += w->lan_ops->rx_batch(w->lan[i], LAN_RX_BUDGET, on_lan_packet, w);
	return n;
}

/* --- packets out --- */

static void capture_lan_tx(struct worker *w, const struct lan_tx *t)
{
	struct iovec parts[3] = {{(void *)(uintptr_t)t->hdr, t->hdr_len},
	                         {(void *)(uintptr_t)t->body, t->body_len},
	                         {(void *)(uintptr_t)t->trailer, t->trailer_len}};

	pcap_packet(w->pcap_lan, w->wall_ns, PCAP_OUT, parts, 3);
}

/* Puts the Ethernet header in front. False if there is no way to that host now: the packet is dropped or waits. */
static bool address_frame(struct worker *w, struct lan_frame *f)
{
	const struct next_hop *hop;
	enum route_answer answer = route_lookup(w->routes, &f->pkt.dst, w->now_ns, &hop);

	if (answer != ROUTE_OK || lan_wait_holds(&w->waiting, &f->pkt.dst)) {
		if (answer == ROUTE_NONE || !lan_wait_put(&w->waiting, &f->pkt, w->now_ns))
			w->no_route++;
		return false;
	}
	f->port = hop->port;
	f->eth_len = (uint8_t)next_hop_eth(hop, !ip_addr_is4(&f->pkt.dst), f->pkt.vlan_tci, f->eth);
	return true;
}

/* Sends the frames of one port; they stay in order. */
static void send_port(struct worker *w, uint8_t port, unsigned n)
{
	const struct lan_frame *out[LAN_TX_BATCH];
	unsigned nout = 0;

	for (unsigned i = 0; i < n; i++)
		if (w->frames[i].port == port)
			out[nout++] = &w->frames[i];
	if (nout)
		w->lan_ops->tx_batch(w->lan[port], out, nout);
}

static void send_frames(struct worker *w, unsigned n)
{
	for (uint32_t port = 0; n && port < w->nlan; port++)
		send_port(w, (uint8_t)port, n);
}

/* One batch from the core to the ports. Returns how many packets the core gave. */
static unsigned send_lan_batch(struct worker *w)
{
	unsigned n = 0, got;

	for (got = 0; got < LAN_TX_BATCH; got++) {
		struct lan_frame *f = &w->frames[n];

		if (!proxy_lan_tx(w->core, w->now_ns, &f->pkt))
			break;
		if (w->pcap_lan)
			capture_lan_tx(w, &f->pkt);
		n += address_frame(w, f);
	}
	send_frames(w, n);
	return got;
}

/* A packet that waited, as a frame. False if its host is not known yet. */
static bool address_waiting(struct worker *w, const struct waiting_packet *p, struct lan_frame *f)
{
	const struct next_hop *hop;

	if (route_lookup(w->routes, &p->dst, w->now_ns, &hop) != ROUTE_OK)
		return false;
	f->port = hop->port;
	f->eth_len = (uint8_t)next_hop_eth(hop, !ip_addr_is4(&p->dst), p->vlan_tci, f->eth);
	f->pkt.hdr_len = f->pkt.trailer_len = 0;
	f->pkt.body = p->bytes;
	f->pkt.body_len = p->len;
	return true;
}

/* Sends those whose host has answered, forgets those that waited too long. */
static void send_waiting(struct worker *w)
{
	unsigned n = 0;

	_Static_assert(LAN_WAIT_MAX <= LAN_TX_BATCH, "all that wait fit into one batch");
	for (uint32_t i = 0; i < w->waiting.n;) {
		const struct waiting_packet *p = lan_wait_at(&w->waiting, i);

		if (address_waiting(w, p, &w->frames[n])) {
			n++;
		} else if (p->until_ns > w->now_ns) {
			i++;
			continue;
		} else {
			w->no_route++;
		}
		lan_wait_remove(&w->waiting, i);
	}
	send_frames(w, n);
}

static bool lan_blocked(struct worker *w)
{
	bool blocked = false;

	for (uint32_t i = 0; i < w->nlan; i++) {
		if (w->lan_ops->tx_blocked(w->lan[i]))
			w->lan_ops->tx_retry(w->lan[i]);
		blocked |= w->lan_ops->tx_blocked(w->lan[i]);
	}
	return blocked;
}

static unsigned send_lan(struct worker *w)
{
	if (lan_blocked(w))
		return 0;
	if (w->waiting.n) {
		send_waiting(w);
		if (lan_blocked(w))
			return 0;
	}
	return send_lan_batch(w);
}

static void capture_wan_tx(struct worker *w, uint8_t lane, const uint8_t *dgram, size_t len)
{
	pcap_udp(w->pcap_wan, w->wall_ns, PCAP_OUT, &w->config.wan_local, wan_port_lane_sport(w->wan, lane),
	         &w->config.wan_remote, w->config.wan_port, dgram, len, false);
}

/* Fills the staging buffer once and sends it. */
static unsigned send_wan(struct worker *w)
{
	struct wan_tx tx;
	unsigned n = 0;
	size_t cap, len;
	uint8_t *buf;

	if (wan_port_blocked(w->wan))
		wan_port_flush(w->wan);
	while ((buf = wan_port_stage(w->wan, &cap)) && (len = proxy_wan_tx(w->core, w->now_ns, buf, cap, &tx))) {
		if (w->pcap_wan)
			capture_wan_tx(w, tx.lane, buf, len);
		wan_port_staged(w->wan, tx.lane, len);
		n++;
	}
	if (n)
		wan_port_flush(w->wan);
	return n;
}

/* --- the loop --- */

static void drain_fd(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
}

/* An interface that went down leaves an error on its socket, and epoll reports that until somebody has read it. */
static void clear_error(int fd)
{
	int e;
	socklen_t len = sizeof(e);

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len);
}

static void look_at_fds(struct worker *w, const struct timespec *timeout)
{
	struct epoll_event ev[LAN_PORTS_MAX + 3];
	int n = epoll_pwait2(w->epoll_fd, ev, (int)(sizeof(ev) / sizeof(ev[0])), timeout, NULL);

	for (int i = 0; i < n; i++) {
		if (ev[i].events & EPOLLERR)
			clear_error(ev[i].data.fd);
		if (ev[i].data.fd == w->command_fd)
			drain_fd(w->command_fd);
		else if (ev[i].data.fd == route_fd(w->routes))
			route_changed(w->routes);
	}
}

static bool blocked(struct worker *w)
{
	return wan_port_blocked(w->wan) || lan_blocked(w);
}

/* How long there is nothing to do, unless something comes in. */
static uint64_t time_to_sleep(struct worker *w)
{
	uint64_t wake = proxy_next_wake(w->core, w->now_ns);
	uint64_t wait = wake > w->now_ns ? wake - w->now_ns : 0;

	if (blocked(w))
		return RETRY_NS;
	w->idle_turns = wait ? 0 : w->idle_turns + 1;
	return w->idle_turns > IDLE_TURNS_MAX ? RETRY_NS : wait;
}

static void sleep_until_work(struct worker *w)
{
	uint64_t wait = time_to_sleep(w);
	struct timespec ts = {.tv_sec = (time_t)(wait / 1000000000u), .tv_nsec = (long)(wait % 1000000000u)};

	if (wait == 0 || (w->params.may_spin && wait < SPIN_NS))
		return;
	pcap_flush(w->pcap_lan);
	pcap_flush(w->pcap_wan);
	look_at_fds(w, wait > INT64_MAX ? NULL : &ts);
}

static unsigned take_turn(struct worker *w)
{
	/* before the clock: a round trip that began in this turn must not seem to end before it began */
	unsigned n = wan_port_receive(w->wan);

	w->now_ns = clock_ns(CLOCK_MONOTONIC);
	if (w->params.pcap_dir)
		w->wall_ns = clock_ns(CLOCK_REALTIME);
	n += run_commands(w);
	wan_port_deliver(w->wan, on_wan_datagram, w);
	n += receive_lan(w);
	proxy_tick(w->core, w->now_ns);
	n += send_lan(w);
	n += send_wan(w);
	pass_events(w);
	notify_main(w);
	return n;
}

static void name_thread(const struct worker *w)
{
	char name[16]; /* the kernel keeps 15 characters */

	snprintf(name, sizeof(name), "lr:%.8s:%u", w->config.name, w->params.shard & 0xff);
	pthread_setname_np(pthread_self(), name);
}

static void pin_thread(const struct worker *w)
{
	cpu_set_t set;

	if (w->params.cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)w->params.cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0)
		log_warn("link %s: cannot run on CPU %d", w->label, w->params.cpu);
}

static void *worker_main(void *arg)
{
	static const struct timespec now = {0};
	struct worker *w = arg;

	name_thread(w);
	pin_thread(w);
	prctl(PR_SET_TIMERSLACK, 1ul);
	while (!atomic_load_explicit(&w->stop, memory_order_acquire)) {
		if (take_turn(w) == 0)
			sleep_until_work(w);
		else if (++w->turn % LOOK_EVERY == 0)
			look_at_fds(w, &now);
	}
	return NULL;
}

/* --- life, on the main thread --- */

static int open_rings(struct worker *w)
{
	return spsc_init(&w->commands, COMMANDS, sizeof(struct worker_cmd)) &&
	               spsc_init(&w->answers, COMMANDS, sizeof(struct worker_cmd)) &&
	               spsc_init(&w->events, EVENTS, sizeof(struct proxy_event))
	           ? 0
	           : -ENOMEM;
}

static int map_heap(struct worker *w, const struct proxy_config *pc, const struct arena_geometry *g, char *err,
                    size_t errlen)
{
	w->heap_len = proxy_heap_size(pc, g);
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
	madvise(w->heap, w->heap_len, MADV_HUGEPAGE);
	return 0;
}

static void say_core_refused(const struct worker *w, int r, char *err, size_t errlen)
{
	if (r == -EPROTO)
		snprintf(
		    err, errlen,
		    "%s: was written by another version of longreach; that version can drain it, or remove the file",
		    w->arena.path);
	else if (r == -EINVAL && !w->arena.fresh)
		snprintf(err, errlen, "%s: is damaged or does not fit the configuration; remove the file to lose it",
		         w->arena.path);
	else
		snprintf(err, errlen, "%s: the core does not start: %s", w->label, strerror(-r));
}

static int start_core(struct worker *w, const struct proxy_config *pc, const struct arena_geometry *g, char *err,
                      size_t errlen)
{
	enum proxy_start how = w->arena.fresh ? PROXY_START_FRESH : PROXY_START_REBUILD;
	int r = proxy_init(&w->core, w->heap, w->arena.region, pc, g, how, w->arena.epoch, clock_ns(CLOCK_MONOTONIC));

	if (r == -ENOENT)
		r = proxy_init(&w->core, w->heap, w->arena.region, pc, g, PROXY_START_FRESH, w->arena.epoch,
		               clock_ns(CLOCK_MONOTONIC));
	if (r < 0) {
		say_core_refused(w, r, err, errlen);
		return r;
	}
	arena_file_in_use(&w->arena);
	return 0;
}

static int open_arena(struct worker *w, char *err, size_t errlen)
{
	const struct link_config *c = &w->config;
	struct proxy_config pc = link_plan_proxy(c, w->params.shard, w->params.pacer);
	struct arena_geometry g = link_plan_geometry(c);
	struct arena_file_params fp = {.dir = c->arena_dir,
	                               .link = c->name,
	                               .shard = w->params.shard,
	                               .nshards = c->workers,
	                               .geometry = g,
	                               .new_epoch = w->params.new_epoch,
	                               .numa_ifname = c->nlan_ports ? c->lan_ports[0] : NULL};
	int r;

	pc.random_seed = (uint32_t)(w->params.new_epoch >> 32);
	w->core_config = pc;
	r = arena_file_open(&w->arena, &fp, err, errlen);
	if (r == 0)
		r = map_heap(w, &pc, &g, err, errlen);
	if (r == 0)
		r = start_core(w, &pc, &g, err, errlen);
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
	w->lan_ops = &lan_packet_ops;
	lan_wait_init(&w->waiting);
	snprintf(w->label, sizeof(w->label), "%s.%u", p->config->name, p->shard & 0xff);
	if (open_rings(w) < 0)
		snprintf(err, errlen, "%s: out of memory", w->label);
	else
		r = open_arena(w, err, errlen);
	if (r < 0) {
		worker_close(w);
		return r;
	}
	*out = w;
	return 0;
}

static int open_lan(struct worker *w, char *err, size_t errlen)
{
	const struct link_config *c = &w->config;
	struct lan_port_params lp = {.ring_frames = LAN_RING_FRAMES,
	                             .filter = {.local = c->local,
	                                        .remote = c->remote,
	                                        .nlocal = c->nlocal,
	                                        .nremote = c->nremote,
	                                        .nlanes = c->lanes,
	                                        .nshards = c->workers,
	                                        .shard = w->params.shard,
	                                        .snaplen = LAN_FRAME_MAX}};

	for (w->nlan = 0; w->nlan < c->nlan_ports; w->nlan++) {
		int r;

		lp.ifname = c->lan_ports[w->nlan];
		r = w->lan_ops->open(&w->lan[w->nlan], &lp, err, errlen);
		if (r < 0)
			return r;
	}
	return 0;
}

static int open_wan(struct worker *w, char *err, size_t errlen)
{
	struct wan_port_params wp = {.local = w->config.wan_local,
	                             .remote = w->config.wan_remote,
	                             .port = w->config.wan_port,
	                             .mtu = w->config.wan_mtu,
	                             .nshards = w->config.workers,
	                             .shard = w->params.shard};

	return wan_port_open(&w->wan, &wp, err, errlen);
}

static int open_captures(struct worker *w, char *err, size_t errlen)
{
	if (!w->params.pcap_dir)
		return 0;
	w->pcap_lan = pcap_open(w->params.pcap_dir, w->config.name, "lan", w->params.shard, err, errlen);
	if (w->pcap_lan)
		w->pcap_wan = pcap_open(w->params.pcap_dir, w->config.name, "wan", w->params.shard, err, errlen);
	return w->pcap_wan ? 0 : -EIO;
}

static int watch(struct worker *w, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static int open_epoll(struct worker *w, char *err, size_t errlen)
{
	int r;

	w->command_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r = w->command_fd < 0 || w->epoll_fd < 0 ? -1 : watch(w, w->command_fd);
	if (r == 0)
		r = watch(w, wan_port_rx_fd(w->wan));
	if (r == 0)
		r = watch(w, route_fd(w->routes));
	for (uint32_t i = 0; r == 0 && i < w->nlan; i++)
		r = watch(w, w->lan_ops->fd(w->lan[i]));
	if (r < 0) {
		r = -errno;
		snprintf(err, errlen, "%s: epoll: %s", w->label, strerror(errno));
	}
	return r;
}

int worker_open_ports(struct worker *w, char *err, size_t errlen)
{
	int r = route_open(&w->routes, w->config.lan_ports, w->config.nlan_ports, err, errlen);

	if (r == 0)
		r = open_captures(w, err, errlen);
	if (r == 0)
		r = open_wan(w, err, errlen);
	if (r == 0)
		r = open_lan(w, err, errlen);
	if (r == 0)
		r = open_epoll(w, err, errlen);
	return r;
}

int worker_run(struct worker *w, char *err, size_t errlen)
{
	sigset_t all, old;
	int r;

	/* signals are the main thread's */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&w->thread, NULL, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		snprintf(err, errlen, "%s: cannot start a thread: %s", w->label, strerror(r));
	w->running = r == 0;
	return -r;
}

static void wake(const struct worker *w)
{
	uint64_t one = 1;

	if (write(w->command_fd, &one, sizeof(one)) < 0)
		return; /* full counter: it is awake */
}

bool worker_command(struct worker *w, const struct worker_cmd *cmd)
{
	if (!spsc_put(&w->commands, cmd))
		return false;
	wake(w);
	return true;
}

bool worker_answer(struct worker *w, struct worker_cmd *cmd)
{
	if (spsc_take(&w->answers, cmd))
		return true;
	/* the thread has ended: what it left behind comes back as it is */
	return !w->running && spsc_take(&w->commands, cmd);
}

bool worker_event(struct worker *w, struct proxy_event *ev)
{
	return spsc_take(&w->events, ev);
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

bool worker_owes(const struct worker *w)
{
	struct proxy_flow_status f;
	uint32_t cursor = 0;

	while (w->core && proxy_flow_next(w->core, &cursor, &f))
		if (f.side == FLOW_NEAR && f.pos_acked > f.pos_delivered)
			return true;
	return false;
}

/* Nothing at all in the arena that a rebuild would want. */
static bool drained(const struct worker *w)
{
	struct proxy_link_status s;
	uint64_t used = 0;

	if (!w->core)
		return false;
	proxy_link_status(w->core, clock_ns(CLOCK_MONOTONIC), &s);
	for (unsigned i = 0; i < POOL_COUNT; i++)
		used += s.pool_used[i];
	return used == 0;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void worker_close(struct worker *w)
{
	bool empty = drained(w);

	for (uint32_t i = 0; i < w->nlan; i++)
		w->lan_ops->close(w->lan[i]);
	if (w->wan)
		wan_port_close(w->wan);
	if (w->routes)
		route_close(w->routes);
	pcap_close(w->pcap_lan);
	pcap_close(w->pcap_wan);
	close_fd(w->command_fd);
	close_fd(w->epoll_fd);
	arena_file_close(&w->arena, empty);
	if (w->heap)
		munmap(w->heap, w->heap_len);
	spsc_free(&w->commands);
	spsc_free(&w->answers);
	spsc_free(&w->events);
	free(w);
}

uint64_t worker_epoch(const struct worker *w)
{
	return w->arena.epoch;
}

bool worker_rebuilt(const struct worker *w)
{
	return !w->arena.fresh;
}
