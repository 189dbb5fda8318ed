/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A worker runs to completion. One turn of its loop takes a bounded batch from the WAN, reads the clock once, takes
 * bounded batches from the LAN ports, lets the core's timers run, and sends what the core has to send. Batches are
 * small enough that no source waits long for another, large enough to make system calls cheap.
 *
 * After a turn that did something the next one follows at once: the worker polls while busy. After a turn that did
 * nothing, or only dropped datagrams, the worker sleeps in epoll until input comes or until the core's next deadline;
 * with cores to spare it spins over waits of a few microseconds instead. epoll only wakes the worker: each turn looks
 * at every source anyway, except for strays (wan_port.h). Strays do not wake the worker. They are taken every other
 * millisecond while the worker is awake, and a timer wakes the worker for them: the more strays there are, the more
 * often.
 *
 * Files: worker.c the loop, worker_lan.c packets for hosts, worker_command.c commands of the main thread, worker_open.c
 * open and close. */
#define _GNU_SOURCE /* epoll_pwait2, CPU affinity */
#include "worker_priv.h"

#include <sched.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/lan/burst_ring.h"
#include "daemon/util/sched_latency.h"
#include "daemon/util/log.h"

#define NICE (-10) /* a thread that wakes late sends late: nine times the usual weight */

/* --- packets in --- */

static enum proxy_drop tapped_lan_packet(struct worker *w, const uint8_t *l3, size_t len, uint16_t vlan_tci)
{
	struct iovec whole = {(void *)(uintptr_t)l3, len};
	enum proxy_drop d;

	pcap_packet(w->pcap_lan, w->wall_ns, PCAP_IN, &whole, 1);
	if (w->watch)
		flow_watch_look(w->watch, w->core, w->now_ns);
	d = proxy_lan_rx(w->core, w->now_ns, l3, len, vlan_tci);
	if (w->watch)
		flow_watch_in(w->watch, w->core, w->now_ns, l3, len, d);
	return d;
}

/* When the current frame came, by the kernel's receive time. If the wall clock was set in between, the time is not
 * usable. */
static uint64_t lan_came_ns(const struct worker *w)
{
	const struct burst_ring *r = w->lan_ops[w->lan_rx]->bursts(w->lan[w->lan_rx]);
	uint64_t waited_ns = worker_clock_ns(CLOCK_REALTIME) - r->frame_ns;

	return worker_clock_ns(CLOCK_MONOTONIC) - (waited_ns < LATENCY_MOST_NS ? waited_ns : 0);
}

/* The core has answered d for a packet that has come. */
static void follow_latency(struct worker *w, const uint8_t *l3, size_t len, uint16_t vlan_tci, enum proxy_drop d)
{
	if (latency_wants(&w->latency, FLOW_NEAR, w->now_ns) && d == DROP_NONE &&
	    latency_request(&w->latency, w->core, w->now_ns, l3, len, vlan_tci))
		w->latency.side[FLOW_NEAR].began_ns = lan_came_ns(w);
}

static void on_lan_packet(void *arg, const uint8_t *l3, size_t len, uint16_t vlan_tci)
{
	struct worker *w = arg;
	enum stage was = stage_enter(&w->stages, STAGE_LAN_TAKE);
	enum proxy_drop d;

	if (w->tapped)
		d = tapped_lan_packet(w, l3, len, vlan_tci);
	else
		d = proxy_lan_rx(w->core, w->now_ns, l3, len, vlan_tci);
	follow_latency(w, l3, len, vlan_tci, d);
	stage_packet(&w->stages, STAGE_LAN_TAKE);
	stage_enter(&w->stages, was);
}

void worker_lan_landed(void *arg, uint32_t *slot, uint16_t off, size_t len, uint16_t vlan_tci)
{
	struct worker *w = arg;
	struct iovec whole = {proxy_blank_data(w->core, *slot) + off, len};
	enum stage was = stage_enter(&w->stages, STAGE_LAN_TAKE);
	enum proxy_drop d;

	if (w->pcap_lan)
		pcap_packet(w->pcap_lan, w->wall_ns, PCAP_IN, &whole, 1);
	if (w->watch)
		flow_watch_look(w->watch, w->core, w->now_ns);
	d = proxy_lan_rx_slot(w->core, w->now_ns, slot, off, len, vlan_tci);
	/* the bytes are still valid, whether core or port owns the slot now */
	if (w->watch)
		flow_watch_in(w->watch, w->core, w->now_ns, whole.iov_base, len, d);
	follow_latency(w, whole.iov_base, len, vlan_tci, d);
	stage_packet(&w->stages, STAGE_LAN_TAKE);
	stage_enter(&w->stages, was);
}

static bool on_wan_datagram(void *arg, uint8_t path, uint16_t sport, uint8_t *dgram, size_t len, uint8_t ecn)
{
	struct worker *w = arg;
	const struct path_config *c = &w->config.paths[path];
	enum stage was = stage_enter(&w->stages, STAGE_WAN_TAKE);
	bool kept;

	if (w->pcap_wan)
		pcap_udp(w->pcap_wan, w->wall_ns, PCAP_IN, &c->remote, sport, &c->local, c->port, dgram, len,
		         ecn == ECN_CE);
	kept = proxy_wan_rx(w->core, w->now_ns, dgram, len, ecn) == DROP_NONE;
	stage_packet(&w->stages, STAGE_WAN_TAKE);
	stage_enter(&w->stages, was);
	return kept;
}

static unsigned receive_lan(struct worker *w)
{
	unsigned n = 0;

	for (w->lan_rx = 0; w->lan_rx < w->nlan; w->lan_rx++)
		n += w->lan_ops[w->lan_rx]->rx_batch(w->lan[w->lan_rx], LAN_RX_BUDGET, on_lan_packet, w);
	return n;
}

/* --- packets out --- */

static void capture_wan_tx(struct worker *w, const struct wan_tx *tx, const uint8_t *dgram, size_t len)
{
	const struct path_config *c = &w->config.paths[tx->path];

	pcap_udp(w->pcap_wan, w->wall_ns, PCAP_OUT, &c->local, w->wan_ops->lane_sport(w->wan, tx), &c->remote, c->port,
	         dgram, len, false);
}

static size_t build_datagram(struct worker *w, uint8_t *buf, size_t cap, struct wan_tx *tx)
{
	enum stage was = stage_enter(&w->stages, STAGE_WAN_BUILD);
	size_t len = proxy_wan_tx(w->core, w->now_ns, buf, cap, tx);

	if (len)
		stage_packet(&w->stages, STAGE_WAN_BUILD);
	stage_enter(&w->stages, was);
	return len;
}

/* Fills the staging buffer once and sends it. */
static unsigned send_wan(struct worker *w)
{
	struct wan_tx tx;
	unsigned n = 0;
	size_t cap, len;
	uint8_t *buf;

	stage_enter(&w->stages, STAGE_WAN_SEND);
	if (w->wan_ops->blocked(w->wan))
		w->wan_ops->flush(w->wan);
	while ((buf = w->wan_ops->stage(w->wan, &cap)) && (len = build_datagram(w, buf, cap, &tx))) {
		if (w->pcap_wan)
			capture_wan_tx(w, &tx, buf, len);
		w->wan_ops->staged(w->wan, &tx, len);
		n++;
	}
	if (n)
		w->wan_ops->flush(w->wan);
	return n;
}

/* --- the loop --- */

static void drain_fd(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
}

/* Reads the error that an interface which went down leaves on its socket: epoll reports it until it is read. */
static void clear_error(int fd)
{
	int e;
	socklen_t len = sizeof(e);

	getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &len);
}

static void look_at_fds(struct worker *w, const struct timespec *timeout)
{
	struct epoll_event ev[LAN_PORTS_MAX + 1 + PATHS_MAX + 2];
	int n = epoll_pwait2(w->epoll_fd, ev, (int)(sizeof(ev) / sizeof(ev[0])), timeout, NULL);

	for (int i = 0; i < n; i++) {
		if (ev[i].events & EPOLLERR)
			clear_error(ev[i].data.fd);
		if (ev[i].data.fd == w->command_fd || ev[i].data.fd == route_fd(w->routes))
			drain_fd(ev[i].data.fd);
	}
}

static bool blocked(struct worker *w)
{
	return w->wan_ops->blocked(w->wan) || worker_lan_blocked(w);
}

/* How long the worker may sleep unless input comes. */
static uint64_t time_to_sleep(struct worker *w)
{
	uint64_t next = proxy_next_wake(w->core, w->now_ns);
	uint64_t wake = next < w->unmatched_latest_ns ? next : w->unmatched_latest_ns;
	uint64_t wait = wake > w->now_ns ? wake - w->now_ns : 0;

	if (w->polled && wait > POLL_NS)
		wait = POLL_NS;
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
	w->now_ns = worker_clock_ns(CLOCK_MONOTONIC); /* strays may have become due */
}

/* Plans the next look at strays: the fewer there were, the later. */
static void plan_strays(struct worker *w, enum wan_port_batch got)
{
	if (got == WAN_BATCH_FULL) {
		w->unmatched_gap_ns = STRAYS_NS / 2;
		return;
	}
	if (w->unmatched_gap_ns < STRAYS_IDLE_NS)
		w->unmatched_gap_ns *= 2;
	w->unmatched_at_ns = w->now_ns + STRAYS_NS;
	w->unmatched_latest_ns = w->now_ns + w->unmatched_gap_ns;
}

/* Called after the packets of a turn came in, before any of them is acknowledged. */
void worker_say_owed(struct worker *w)
{
	bool owed = proxy_holds(w->core), early = w->acks_early || (owed && w->early_said);

	if (owed != w->owed_said)
		arena_file_say_owed(&w->arena, owed);
	if (early != w->early_said)
		arena_file_say_early(&w->arena, early);
	w->owed_said = owed;
	w->early_said = early;
}

/* Takes datagrams out of the sockets, and then reads the clock: a round trip that began in this turn must not seem to end
 * before it began. */
static unsigned receive_wan(struct worker *w)
{
	bool look = w->now_ns >= w->unmatched_at_ns, more;
	enum wan_port_batch strays;

	stage_enter(&w->stages, STAGE_WAN_RECEIVE);
	more = w->wan_ops->receive(w->wan) == WAN_BATCH_FULL;
	strays = look ? w->wan_ops->receive_unmatched(w->wan) : WAN_BATCH_EMPTY;
	stage_enter(&w->stages, STAGE_REST);
	w->now_ns = worker_clock_ns(CLOCK_MONOTONIC);
	if (w->params.pcap_dir)
		w->wall_ns = worker_clock_ns(CLOCK_REALTIME);
	if (look)
		plan_strays(w, strays);
	return more || strays == WAN_BATCH_FULL;
}

/* Gives the core what has come, and lets its timers run. */
static unsigned take_packets(struct worker *w)
{
	unsigned n;

	stage_enter(&w->stages, STAGE_WAN_RECEIVE);
	n = w->wan_ops->deliver(w->wan, on_wan_datagram, w);
	stage_enter(&w->stages, STAGE_LAN_RECEIVE);
	n += receive_lan(w);
	stage_enter(&w->stages, STAGE_TIMERS);
	proxy_tick(w->core, w->now_ns);
	stage_enter(&w->stages, STAGE_REST);
	return n;
}

static unsigned send_packets(struct worker *w)
{
	unsigned n;

	stage_enter(&w->stages, STAGE_RELAY);
	n = worker_run_relay(w);
	stage_enter(&w->stages, STAGE_LAN_SEND);
	n += worker_send_lan(w);
	n += send_wan(w);
	stage_enter(&w->stages, STAGE_REST);
	return n;
}

static unsigned take_turn(struct worker *w)
{
	unsigned n = receive_wan(w);

	n += worker_run_commands(w);
	n += take_packets(w);
	if (w->watch)
		flow_watch_look(w->watch, w->core, w->now_ns);
	worker_say_owed(w);
	route_take(w->routes, w->now_ns);
	n += send_packets(w);
	if (latency_follows(&w->latency))
		latency_look(&w->latency, w->core, worker_clock_ns(CLOCK_MONOTONIC));
	n += worker_pass_events(w);
	trace_look(&w->trace, w->core, w->seal, w->now_ns);
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
	if (sched_setaffinity(0, sizeof(set), &set) != 0) /* 0: this thread, all that the sandbox lets through */
		log_warn("link %s: cannot run a worker on CPU %d of CPUs=", w->label, w->params.cpu);
}

void *worker_main(void *arg)
{
	static const struct timespec now = {0};
	struct worker *w = arg;

	name_thread(w);
	pin_thread(w);
	sched_low_latency(NICE);
	stage_meter_start(&w->stages, worker_clock_ns(CLOCK_MONOTONIC));
	while (!atomic_load_explicit(&w->stop, memory_order_acquire)) {
		unsigned n;

		atomic_fetch_add_explicit(&w->turns, 1, memory_order_relaxed);
		stage_turn_begin(&w->stages);
		n = take_turn(w);
		stage_turn_end(&w->stages, n != 0);
		if (n == 0)
			sleep_until_work(w);
		else if (++w->turn % LOOK_EVERY == 0)
			look_at_fds(w, &now);
	}
	return NULL;
}
