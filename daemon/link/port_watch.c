/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * rtnetlink notifies changes; only the kind of change is used, and some milliseconds later the kernel is asked for the
 * state of the link's own ports and addresses. So a burst of changes costs one look, a lost message costs nothing, and
 * there is only one way to learn a state.
 *
 * An address is there if a socket can be bound to it: that is what the link needs, and it is also true of addresses
 * that no interface has (a local route) and false of those that IPv6 is still probing. The MTU is the interface's, not
 * that of the kernel's route cache: a forged ICMP message can make the cached one smaller. No MTU keeps a link from
 * starting: the path finds what it carries (DPLPMTUD), and the state says that the interface is too narrow. */
#include "port_watch.h"

#include <errno.h>
#include <ifaddrs.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "daemon/util/addr.h"

enum {
	SETTLE_MS = 50,     /* between a change and the look at it */
	MESSAGES_MAX = 256, /* thrown away in one go */
};

struct port_watch {
	struct mnl_socket *kernel;
	struct event *said, *timer;
	void (*fn)(void *arg);
	void *arg;
	struct port_view view;
	bool rules; /* those in front of the routing tables have changed */
	uint32_t lan_mtu[LAN_PORTS_MAX];
};

/* --- reading --- */

static void read_lan(struct port_view *v, uint32_t i, const char *ifname, int fd)
{
	struct ifreq ifr = {0};

	v->lan[i].ifindex = (int)if_nametoindex(ifname);
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	if (ioctl(fd, SIOCGIFFLAGS, &ifr) == 0) {
		v->lan[i].up = (ifr.ifr_flags & IFF_UP) != 0;
		v->lan[i].carrier = (ifr.ifr_flags & IFF_RUNNING) != 0;
	}
	if (ioctl(fd, SIOCGIFMTU, &ifr) == 0)
		v->lan[i].mtu = (uint32_t)ifr.ifr_mtu;
}

static int socket_with(const struct ip_addr *a)
{
	struct sockaddr_storage sa;
	socklen_t len = addr_to_sockaddr(a, 0, &sa);
	int fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, len) == 0)
		return fd;
	close(fd);
	return -1;
}

bool port_watch_has_address(const struct ip_addr *a)
{
	int fd = socket_with(a);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void read_path(struct port_view *v, uint32_t i, const struct path_config *p)
{
	struct sockaddr_storage remote;
	socklen_t len = addr_to_sockaddr(&p->remote, p->port, &remote);
	int fd = socket_with(&p->local);

	v->wan[i].address = fd >= 0;
	v->wan[i].route = fd >= 0 && connect(fd, (struct sockaddr *)&remote, len) == 0;
	if (fd >= 0)
		close(fd);
}

static uint32_t mtu_of(const char *ifname, int fd)
{
	struct ifreq ifr = {0};

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	return ioctl(fd, SIOCGIFMTU, &ifr) == 0 ? (uint32_t)ifr.ifr_mtu : 0;
}

static void read_wan_mtus(struct port_view *v, const struct link_config *c, int fd)
{
	struct ifaddrs *all, *a;
	struct ip_addr addr;

	if (getifaddrs(&all) < 0)
		return;
	for (a = all; a; a = a->ifa_next) {
		if (!a->ifa_addr || !addr_from_sockaddr(a->ifa_addr, &addr))
			continue;
		for (uint32_t i = 0; i < c->npaths; i++)
			if (ip_addr_eq(&addr, &c->paths[i].local))
				v->wan[i].mtu = mtu_of(a->ifa_name, fd);
	}
	freeifaddrs(all);
}

/* Asks the kernel. */
static void port_view_read(struct port_view *v, const struct link_config *c)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memset(v, 0, sizeof(*v));
	for (uint32_t i = 0; i < c->nlan_ports; i++)
		read_lan(v, i, c->lan_ports[i], fd);
	for (uint32_t i = 0; i < c->npaths; i++)
		read_path(v, i, &c->paths[i]);
	read_wan_mtus(v, c, fd);
	if (fd >= 0)
		close(fd);
}

/* --- judging --- */

/* True if there is a trouble. */
static bool lan_trouble(const struct port_view *v, uint32_t i, uint32_t mtu, const char *name,
                        char text[CONFIG_ERR_MAX])
{
	if (v->lan[i].ifindex == 0)
		snprintf(text, CONFIG_ERR_MAX, "LAN port %s: gone: this machine has no interface of that name", name);
	else if (!v->lan[i].up)
		snprintf(text, CONFIG_ERR_MAX, "LAN port %s: is down: `ip link set %s up`", name, name);
	else if (!v->lan[i].carrier)
		snprintf(text, CONFIG_ERR_MAX, "LAN port %s: no carrier", name);
	else if (v->lan[i].mtu < mtu)
		snprintf(text, CONFIG_ERR_MAX,
		         "LAN port %s: MTU %u, was %u when the link started: longer packets do not reach hosts; set "
		         "the MTU back, or accept it with `longreach reload`",
		         name, v->lan[i].mtu, mtu);
	else
		return false;
	return true;
}

static bool path_trouble(const struct port_view *v, uint32_t i, const struct path_config *p, char text[CONFIG_ERR_MAX])
{
	char t[ADDR_TEXT_MAX];

	if (!v->wan[i].address)
		snprintf(text, CONFIG_ERR_MAX, "LocalAddress=%s: this machine does not have that address",
		         addr_write(&p->local, t, sizeof(t)));
	else if (!v->wan[i].route)
		snprintf(text, CONFIG_ERR_MAX, "RemoteAddress=%s: no route leads there",
		         addr_write(&p->remote, t, sizeof(t)));
	else if (v->wan[i].mtu != 0 && v->wan[i].mtu < p->mtu)
		snprintf(text, CONFIG_ERR_MAX,
		         "LocalAddress=%s: its interface has MTU %u, less than MTU=%u of the path",
		         addr_write(&p->local, t, sizeof(t)), v->wan[i].mtu, p->mtu);
	else
		return false;
	return true;
}

void port_view_trouble(const struct port_view *v, const uint32_t lan_mtu[LAN_PORTS_MAX], const struct link_config *c,
                       char text[CONFIG_ERR_MAX])
{
	text[0] = '\0';
	for (uint32_t i = 0; i < c->nlan_ports; i++)
		if (lan_trouble(v, i, lan_mtu[i], c->lan_ports[i], text))
			return;
	for (uint32_t i = 0; i < c->npaths; i++) {
		if (!path_trouble(v, i, &c->paths[i], text)) {
			text[0] = '\0'; /* one working path is enough; status shows the others */
			return;
		}
	}
}

/* --- watching --- */

void port_watch_again(struct port_watch *w, unsigned ms)
{
	const struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	if (!evtimer_pending(w->timer, NULL))
		evtimer_add(w->timer, &wait);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct port_watch *w = arg;

	(void)fd;
	(void)what;
	w->fn(w->arg);
}

static void on_said(evutil_socket_t fd, short what, void *arg)
{
	struct port_watch *w = arg;
	union {
		struct nlmsghdr h;
		char bytes[8192];
	} msg;

	(void)fd;
	(void)what;
	/* an error counts as a message: the socket overflowed and messages were lost */
	for (int i = 0; i < MESSAGES_MAX; i++) {
		ssize_t n = mnl_socket_recvfrom(w->kernel, &msg, sizeof(msg));

		if (n < 0 && errno == EAGAIN)
			break;
		w->rules |= n < 0 || msg.h.nlmsg_type == RTM_NEWRULE || msg.h.nlmsg_type == RTM_DELRULE;
	}
	port_watch_again(w, SETTLE_MS);
}

static int subscribe(struct mnl_socket *s)
{
	static const int groups[] = {RTNLGRP_LINK,       RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE,
	                             RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV4_RULE,   RTNLGRP_IPV6_RULE};

	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		int g = groups[i];

		if (mnl_socket_setsockopt(s, NETLINK_ADD_MEMBERSHIP, &g, sizeof(g)) < 0)
			return -1;
	}
	return 0;
}

int port_watch_open(struct port_watch **out, struct event_base *base, void (*fn)(void *arg), void *arg)
{
	struct port_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->fn = fn;
	w->arg = arg;
	w->kernel = mnl_socket_open2(NETLINK_ROUTE, SOCK_NONBLOCK | SOCK_CLOEXEC);
	w->timer = evtimer_new(base, on_timer, w);
	if (w->kernel && mnl_socket_bind(w->kernel, 0, MNL_SOCKET_AUTOPID) == 0 && subscribe(w->kernel) == 0)
		w->said = event_new(base, mnl_socket_get_fd(w->kernel), EV_READ | EV_PERSIST, on_said, w);
	if (!w->timer || !w->said || event_add(w->said, NULL) < 0) {
		int e = errno ? errno : ENOMEM;

		port_watch_close(w);
		return -e;
	}
	*out = w;
	return 0;
}

void port_watch_close(struct port_watch *w)
{
	if (!w)
		return;
	if (w->said)
		event_free(w->said);
	if (w->timer)
		event_free(w->timer);
	if (w->kernel)
		mnl_socket_close(w->kernel);
	free(w);
}

bool port_watch_look(struct port_watch *w, const struct link_config *c)
{
	struct port_view before = w->view;

	port_view_read(&w->view, c);
	return memcmp(&before, &w->view, sizeof(before)) != 0;
}

bool port_watch_rules(struct port_watch *w)
{
	bool rules = w->rules;

	w->rules = false;
	return rules;
}

void port_watch_accept(struct port_watch *w)
{
	for (uint32_t i = 0; i < LAN_PORTS_MAX; i++)
		w->lan_mtu[i] = w->view.lan[i].mtu;
}

void port_watch_trouble(const struct port_watch *w, const struct link_config *c, char text[CONFIG_ERR_MAX])
{
	port_view_trouble(&w->view, w->lan_mtu, c, text);
}
