/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "lan_pause.h"

#include <arpa/inet.h>
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

#define LOOK_NS          100000 /* interval of looks at the ring */
#define MAC_LEN          6
#define RATE_UNKNOWN_BPS 100000000000ull

struct watched {
	const struct lan_port *port;
	struct pfc pfc;
	_Atomic int ifindex;
	_Atomic uint64_t mac; /* the source MAC's bytes, the first one highest; the last frame of a pause may still have
	                       * the old MAC */
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
		mbps = ethtool_cmd_speed(&cmd);
	close(fd);
	return mbps == 0 || mbps == (uint32_t)SPEED_UNKNOWN ? 0 : mbps * 1000000;
}

int lan_pause_plan(struct pfc_plan *p, const char *ifname, uint64_t watchdog_ns)
{
	uint64_t rate_bps = rate_of(ifname);

	return pfc_plan(p, rate_bps ? rate_bps : RATE_UNKNOWN_BPS, LOOK_NS, watchdog_ns);
}

int lan_pause_open(struct lan_pause **out, const struct lan_pause_params *params, char *err, size_t errlen)
{
	struct lan_pause *l = calloc(1, sizeof(*l));
	int one = 1;

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

int lan_pause_watch(struct lan_pause *l, const struct lan_port *port, const char *ifname, const struct pfc_plan *plan,
                    char *err, size_t errlen)
{
	struct watched *w = &l->ports[l->nports];
	int r;

	*w = (struct watched){.port = port, .pfc = {.plan = *plan}};
	r = lan_pause_follow(l, l->nports, ifname);
	if (r < 0)
		snprintf(err, errlen, "LAN port %s: cannot read its address: %s", ifname, strerror(-r));
	else
		l->nports++;
	return r;
}

int lan_pause_follow(struct lan_pause *l, uint32_t port, const char *ifname)
{
	struct watched *w = &l->ports[port];
	struct ifreq ifr = {0};
	uint64_t mac = 0;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	if (ioctl(l->fd, SIOCGIFHWADDR, &ifr) < 0)
		return -errno;
	for (unsigned i = 0; i < MAC_LEN; i++)
		mac = mac << 8 | (uint8_t)ifr.ifr_hwaddr.sa_data[i];
	atomic_store_explicit(&w->mac, mac, memory_order_relaxed);
	atomic_store_explicit(&w->ifindex, (int)if_nametoindex(ifname), memory_order_relaxed);
	return 0;
}

/* Sends a pause frame. A frame that the device does not take now is lost; the next refresh repeats it. */
static void say(struct lan_pause *l, const struct watched *w, enum pfc_say what)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_halen = MAC_LEN};
	uint64_t from = atomic_load_explicit(&w->mac, memory_order_relaxed);
	uint8_t frame[PFC_FRAME_BYTES], mac[MAC_LEN];

	to.sll_ifindex = atomic_load_explicit(&w->ifindex, memory_order_relaxed);
	for (unsigned i = 0; i < MAC_LEN; i++)
		mac[i] = (uint8_t)(from >> 8 * (MAC_LEN - 1 - i));
	pfc_frame(frame, mac, l->params.priority, what == PFC_XOFF ? PFC_QUANTA_MAX : 0);
	memcpy(to.sll_addr, frame, 6);
	if (sendto(l->fd, frame, sizeof(frame), MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to)) < 0)
		return;
}

static void look(struct lan_pause *l, struct watched *w)
{
	const struct pfc_plan *p = &w->pfc.plan;
	enum pfc_say what = pfc_look(&w->pfc, now(), l->params.ops->rx_waits(w->port, p->xoff_frames),
	                             !l->params.ops->rx_waits(w->port, p->xon_frames));

	if (what != PFC_NOTHING)
		say(l, w, what);
}

static void publish(struct lan_pause *l)
{
	uint64_t xoffs = 0, watchdogs = 0;

	for (unsigned i = 0; i < l->nports; i++) {
		xoffs += l->ports[i].pfc.xoffs;
		watchdogs += l->ports[i].pfc.watchdogs;
	}
	atomic_store_explicit(&l->xoffs, xoffs, memory_order_relaxed);
	atomic_store_explicit(&l->watchdogs, watchdogs, memory_order_relaxed);
}

static void *watch_rings(void *arg)
{
	static const struct timespec nap = {.tv_nsec = LOOK_NS};
	struct lan_pause *l = arg;

	pthread_setname_np(pthread_self(), "lr:pause");
	prctl(PR_SET_TIMERSLACK, 1ul);
	privileged_run_first(); /* runs before any thread that keeps a worker from its ring */
	while (!atomic_load_explicit(&l->stop, memory_order_acquire)) {
		for (unsigned i = 0; i < l->nports; i++)
			look(l, &l->ports[i]);
		publish(l);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	}
	for (unsigned i = 0; i < l->nports; i++)
		if (l->ports[i].pfc.paused)
			say(l, &l->ports[i], PFC_XON);
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
	close(l->fd);
	free(l);
}
