/* SPDX-License-Identifier: Apache-2.0 */
/* lan_pause.c - the rings' requests for pauses, joined by interface and priority, and the thread that looks at them.
 *
 * Workers and links may share an interface, and each has its ring and its thread. A pause frame is obeyed by all hosts
 * behind the interface, whoever sent it: so the state of the pause is one per interface and priority (pause_ports), and
 * threads agree on it under pause_lock. Frames are sent without the lock, because the device may keep a sender for
 * milliseconds; pfc_sent() then finds frames that overtook each other.
 *
 * A pause frame is for the other end of a cable, and has no tag: a VLAN interface would tag it, and a bond would send
 * it on one cable only. So frames go out by the devices below the LAN port, those that have none below themselves. */
#define _GNU_SOURCE
#include "lan_pause.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/config/config.h"
#include "daemon/privileged/privileged.h"
#include "daemon/util/thread.h"

#define LOOK_NS     100000 /* between looks at a ring of a port that is not paused */
#define MAC_LEN     6
#define DEVICES_MAX 16
#define DEPTH_MAX   4 /* a VLAN on a bond on devices, and one to spare */
#ifndef SYS_NET
#define SYS_NET "/sys/class/net" /* tests have their own */
#endif
#define RATE_UNKNOWN_BPS 100000000000ull /* without carrier, until lan_pause_follow() knows it */

struct pause_port {
	struct pause_port *next;
	unsigned users;
	int ifindex;
	uint8_t priority;
	uint8_t mac[MAC_LEN]; /* source of the frames; the last frame of a pause may still have the old MAC */
	struct pfc_port pfc;
};

/* Of pause_ports, and of each struct watched once its thread runs. With priority inheritance: a thread that holds the
 * lock may be without a processor while the threads of real time want it. */
static pthread_mutex_t pause_lock;
static struct pause_port *pause_ports;

/* A device below the LAN port, or the LAN port itself. */
struct device {
	int ifindex;
	uint8_t mac[MAC_LEN];
};

struct devices {
	struct device at[DEVICES_MAX];
	unsigned n;
};

struct watched {
	const struct lan_port *port;
	struct pfc_plan plan;
	struct {
		struct pause_port *at; /* NULL: none */
		struct pfc_ring ring;
	} out[DEVICES_MAX];
};

struct lan_pause {
	struct lan_pause_params params;
	int fd;
	struct watched ports[LAN_PORTS_MAX];
	unsigned nports;
	_Atomic uint64_t xoffs, watchdogs;
	_Atomic bool stop;
	pthread_t thread;
	bool running;
};

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static uint64_t rate_of(const char *ifname)
{
	struct ethtool_cmd cmd = {.cmd = ETHTOOL_GSET};
	struct ifreq ifr = {.ifr_data = (void *)&cmd};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t mbps = 0;

	if (fd < 0)
		return 0;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	if (ioctl(fd, SIOCETHTOOL, &ifr) == 0)
		mbps = (uint32_t)cmd.speed_hi << 16 | cmd.speed; /* ethtool_cmd_speed() shifts an int too far */
	close(fd);
	return mbps == 0 || mbps == (uint32_t)SPEED_UNKNOWN ? 0 : mbps * 1000000;
}

int lan_pause_plan(struct pfc_plan *p, const char *ifname, uint64_t watchdog_ns)
{
	uint64_t rate_bps = rate_of(ifname);

	return pfc_plan(p, rate_bps ? rate_bps : RATE_UNKNOWN_BPS, LOOK_NS, watchdog_ns);
}

static void make_lock(void)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&pause_lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

int lan_pause_open(struct lan_pause **out, const struct lan_pause_params *params, char *err, size_t errlen)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct lan_pause *l = calloc(1, sizeof(*l));
	int one = 1;

	pthread_once(&once, make_lock);
	if (l)
		l->fd = privileged_packet_socket(0);
	if (!l || l->fd < 0) {
		snprintf(err, errlen, "no socket for pause frames: %s", strerror(l ? -l->fd : ENOMEM));
		free(l);
		return -ENOMEM;
	}
	l->params = *params;
	setsockopt(l->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one));
	*out = l;
	return 0;
}

/* --- ports; under the lock --- */

/* The port's state; NULL: no memory. */
static struct pause_port *share_port(int ifindex, uint8_t priority)
{
	struct pause_port *p = pause_ports;

	while (p && (p->ifindex != ifindex || p->priority != priority))
		p = p->next;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		*p = (struct pause_port){.next = pause_ports, .ifindex = ifindex, .priority = priority};
		pause_ports = p;
	}
	p->users++;
	return p;
}

static void release_port(struct pause_port *port)
{
	struct pause_port **p = &pause_ports;

	if (--port->users > 0)
		return;
	while (*p != port)
		p = &(*p)->next;
	*p = port->next;
	free(port);
}

/* --- frames --- */

/* Sends a pause frame. A frame that the device does not take now is lost; the next refresh repeats it. */
static void send_frame(int fd, const struct pause_port *port, enum pfc_say what)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_halen = MAC_LEN, .sll_ifindex = port->ifindex};
	uint8_t frame[PFC_FRAME_BYTES];

	pfc_frame(frame, port->mac, port->priority, what == PFC_XOFF ? PFC_QUANTA_MAX : 0);
	memcpy(to.sll_addr, frame, 6);
	if (sendto(fd, frame, sizeof(frame), MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to)) < 0)
		return;
}

/* Called and returns with the lock, and lets go of it while it sends. port stays: the caller is one of its users. */
static void say(int fd, struct pause_port *port, enum pfc_say what)
{
	for (; what != PFC_NOTHING; what = pfc_sent(&port->pfc, what)) {
		struct pause_port as_now = *port;

		pthread_mutex_unlock(&pause_lock);
		send_frame(fd, &as_now, what);
		pthread_mutex_lock(&pause_lock);
	}
}

/* --- rings --- */

/* With the lock. */
static void leave_port(struct lan_pause *l, struct watched *w, unsigned out)
{
	struct pause_port *port = w->out[out].at;

	if (!port)
		return;
	w->out[out].at = NULL;
	say(l->fd, port, pfc_leave(&port->pfc, &w->out[out].ring));
	release_port(port);
}

static bool has_device(const struct devices *d, int ifindex)
{
	for (unsigned i = 0; i < d->n; i++)
		if (d->at[i].ifindex == ifindex)
			return true;
	return false;
}

/* With the lock. The place of that device; the first free one if there is none; DEVICES_MAX: no place is free. */
static unsigned find_out(const struct watched *w, int ifindex)
{
	unsigned free = DEVICES_MAX;

	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		if (w->out[i].at && w->out[i].at->ifindex == ifindex)
			return i;
		if (!w->out[i].at && free == DEVICES_MAX)
			free = i;
	}
	return free;
}

/* With the lock. 0 or -ENOMEM. */
static int join_port(struct lan_pause *l, struct watched *w, const struct device *d)
{
	unsigned out = find_out(w, d->ifindex);

	if (out == DEVICES_MAX)
		return -ENOMEM;
	if (!w->out[out].at) {
		w->out[out].at = share_port(d->ifindex, l->params.priority);
		w->out[out].ring.plan = &w->plan;
	}
	if (!w->out[out].at)
		return -ENOMEM;
	memcpy(w->out[out].at->mac, d->mac, MAC_LEN);
	return 0;
}

/* With the lock. Leaves first: the new devices then find places. */
static int follow_devices(struct lan_pause *l, struct watched *w, const struct devices *d)
{
	int r = 0;

	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (w->out[i].at && !has_device(d, w->out[i].at->ifindex))
			leave_port(l, w, i);
	for (unsigned i = 0; r == 0 && i < d->n; i++)
		r = join_port(l, w, &d->at[i]);
	return r;
}

/* 0 or negative errno: no such interface. A device beyond DEVICES_MAX gets no pauses. */
static int add_device(int fd, const char *ifname, struct devices *d)
{
	struct device *new = &d->at[d->n];
	struct ifreq ifr = {0};

	if (d->n == DEVICES_MAX)
		return 0;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	if (ioctl(fd, SIOCGIFHWADDR, &ifr) < 0)
		return -errno;
	memcpy(new->mac, ifr.ifr_hwaddr.sa_data, MAC_LEN);
	new->ifindex = (int)if_nametoindex(ifname);
	d->n += !has_device(d, new->ifindex);
	return 0;
}

/* Adds the devices below an interface (sysfs: lower_NAME), those that have none below them. 0 or negative errno. */
static int find_devices(int fd, const char *ifname, unsigned depth, struct devices *d)
{
	bool has_lower = false;
	const struct dirent *e;
	char path[256];
	DIR *dir;
	int r = 0;

	snprintf(path, sizeof(path), "%s/%s", SYS_NET, ifname);
	dir = depth < DEPTH_MAX ? opendir(path) : NULL;
	while (dir && r == 0 && (e = readdir(dir))) {
		if (strncmp(e->d_name, "lower_", 6) != 0)
			continue;
		has_lower = true;
		r = find_devices(fd, e->d_name + 6, depth + 1, d);
	}
	if (dir)
		closedir(dir);
	return has_lower ? r : add_device(fd, ifname, d);
}

int lan_pause_watch(struct lan_pause *l, const struct lan_port *port, const char *ifname, const struct pfc_plan *plan,
                    char *err, size_t errlen)
{
	struct watched *w = &l->ports[l->nports];
	int r;

	*w = (struct watched){.port = port, .plan = *plan};
	r = lan_pause_follow(l, l->nports, ifname);
	if (r < 0)
		snprintf(err, errlen, "LAN port %s: cannot read its address: %s", ifname, strerror(-r));
	else
		l->nports++;
	return r < 0 ? r : 0;
}

/* With the lock. True if the rate is a new one, and the ring too small for it. An unknown rate is none. */
static bool follow_rate(struct watched *w, uint64_t rate_bps)
{
	struct pfc_plan *p = &w->plan;

	return rate_bps != 0 && rate_bps != p->rate_bps && pfc_replan(p, rate_bps, LOOK_NS) == 0 && p->tight;
}

int lan_pause_follow(struct lan_pause *l, uint32_t port, const char *ifname)
{
	uint64_t rate_bps = rate_of(ifname);
	struct devices d = {.n = 0};
	int r = find_devices(l->fd, ifname, 0, &d);

	if (r < 0)
		return r;
	pthread_mutex_lock(&pause_lock);
	r = follow_devices(l, &l->ports[port], &d);
	if (r == 0)
		r = follow_rate(&l->ports[port], rate_bps);
	pthread_mutex_unlock(&pause_lock);
	return r;
}

/* With the lock. True if the device is paused. */
static bool look_for_device(struct lan_pause *l, struct watched *w, unsigned out, bool above_xoff, bool below_xon)
{
	struct pause_port *port = w->out[out].at;
	bool paused;

	if (!port)
		return false;
	port->users++; /* say() lets others in */
	say(l->fd, port, pfc_look(&port->pfc, &w->out[out].ring, now(), above_xoff, below_xon));
	paused = port->pfc.asking > 0;
	release_port(port);
	return paused;
}

/* Returns the time until the next look, in ns. */
static uint64_t look(struct lan_pause *l, struct watched *w)
{
	bool above_xoff, below_xon, paused = false;
	uint64_t nap_ns;

	pthread_mutex_lock(&pause_lock);
	above_xoff = l->params.ops->rx_waits(w->port, w->plan.xoff_frames);
	below_xon = !l->params.ops->rx_waits(w->port, w->plan.xon_frames);
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		paused |= look_for_device(l, w, i, above_xoff, below_xon);
	nap_ns = paused ? w->plan.paused_look_ns : LOOK_NS;
	pthread_mutex_unlock(&pause_lock);
	return nap_ns;
}

static void publish(struct lan_pause *l)
{
	uint64_t xoffs = 0, watchdogs = 0;

	for (unsigned i = 0; i < l->nports; i++)
		for (unsigned j = 0; j < DEVICES_MAX; j++) {
			xoffs += l->ports[i].out[j].ring.xoffs;
			watchdogs += l->ports[i].out[j].ring.watchdogs;
		}
	atomic_store_explicit(&l->xoffs, xoffs, memory_order_relaxed);
	atomic_store_explicit(&l->watchdogs, watchdogs, memory_order_relaxed);
}

static void *watch_rings(void *arg)
{
	struct lan_pause *l = arg;

	pthread_setname_np(pthread_self(), "lr:pause");
	prctl(PR_SET_TIMERSLACK, 1ul);
	privileged_run_first(); /* runs before any thread that keeps a worker from its ring */
	while (!atomic_load_explicit(&l->stop, memory_order_acquire)) {
		struct timespec nap = {.tv_nsec = LOOK_NS};

		for (unsigned i = 0; i < l->nports; i++) {
			long nap_ns = (long)look(l, &l->ports[i]);

			if (nap_ns < nap.tv_nsec)
				nap.tv_nsec = nap_ns;
		}
		publish(l);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	}
	return NULL;
}

int lan_pause_run(struct lan_pause *l)
{
	int r = thread_start(&l->thread, watch_rings, l);

	l->running = r == 0;
	return r;
}

void lan_pause_stats(struct lan_pause *l, struct lan_pause_stats *s)
{
	s->xoffs = atomic_load_explicit(&l->xoffs, memory_order_relaxed);
	s->watchdogs = atomic_load_explicit(&l->watchdogs, memory_order_relaxed);
}

void lan_pause_stop(struct lan_pause *l)
{
	if (l->running) {
		atomic_store_explicit(&l->stop, true, memory_order_release);
		pthread_join(l->thread, NULL);
	}
	pthread_mutex_lock(&pause_lock);
	for (unsigned i = 0; i < LAN_PORTS_MAX; i++)
		for (unsigned j = 0; j < DEVICES_MAX; j++)
			leave_port(l, &l->ports[i], j);
	pthread_mutex_unlock(&pause_lock);
	close(l->fd);
	free(l);
}
