/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Up to three questions go to the kernel: RTM_GETROUTE (which way), RTM_GETLINK (is that one of our LAN ports, or a
 * VLAN on one; remembered), RTM_GETNEIGH (what MAC). rtnetlink answers inside the send call, so there is always an
 * answer to read.
 *
 * Our packets bypass the kernel's neighbour code, so neighbours look unused to the kernel. With each question about a
 * neighbour we tell the kernel "in use" (NTF_USE): this starts the resolution of an unknown neighbour and the check of
 * a stale one, exactly as one of the kernel's own packets would. */
#include "route_ask.h"

#include <errno.h>
#include <libmnl/libmnl.h>

#include "daemon/privileged/privileged.h"
#include "daemon/util/rtnl.h"
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PORTS_MAX  8
#define LINKS_MAX  16
#define MSG_LEN    8192
#define NUD_USABLE (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

struct link_info {
	int ifindex; /* 0: empty */
	bool ours;
	uint8_t port;
	uint16_t vid;
	uint8_t mac[6];
};

struct route_ask {
	struct mnl_socket *ask, *notify;
	uint32_t seq;
	char port_name[PORTS_MAX][IF_NAMESIZE];
	int port_ifindex[PORTS_MAX]; /* 0: there is no such interface now */
	uint32_t nports;
	bool has_src;
	struct ip_addr src;
	struct link_info links[LINKS_MAX];
	uint32_t next_link;
	char buf[MSG_LEN];
};

/* --- asking --- */

static struct nlmsghdr *start_request(struct route_ask *a, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(a->buf);

	h->nlmsg_type = type;
	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	h->nlmsg_seq = ++a->seq;
	return h;
}

/* Sends the request in a->buf and reads its one answer. 0, or negative errno (the kernel's own, if it refused). */
static int request(struct route_ask *a, struct nlmsghdr *h, mnl_cb_t cb, void *arg)
{
	ssize_t n;

	if (mnl_socket_sendto(a->ask, h, h->nlmsg_len) < 0)
		return -errno;
	for (;;) {
		n = mnl_socket_recvfrom(a->ask, a->buf, sizeof(a->buf));
		if (n < 0)
			return -errno;
		/* skips answers left over from a request that failed half way */
		if (((struct nlmsghdr *)(void *)a->buf)->nlmsg_seq != a->seq)
			continue;
		return mnl_cb_run(a->buf, (size_t)n, a->seq, mnl_socket_get_portid(a->ask), cb, arg) < 0 ? -errno : 0;
	}
}

static unsigned char family_of(const struct ip_addr *a)
{
	return ip_addr_is4(a) ? AF_INET : AF_INET6;
}

/* --- reading answers --- */

#define ATTRS_MAX 64

struct attrs {
	const struct nlattr *a[ATTRS_MAX];
};

static int collect(const struct nlattr *a, void *arg)
{
	struct attrs *t = arg;

	if (mnl_attr_get_type(a) < ATTRS_MAX)
		t->a[mnl_attr_get_type(a)] = a;
	return MNL_CB_OK;
}

/* Payload of an attribute of exactly len bytes, or NULL. */
static const void *attr_of(const struct attrs *t, uint16_t type, size_t len)
{
	const struct nlattr *a = t->a[type];

	return a && mnl_attr_get_payload_len(a) == len ? mnl_attr_get_payload(a) : NULL;
}

static uint32_t attr_u32(const struct attrs *t, uint16_t type)
{
	const void *v = attr_of(t, type, sizeof(uint32_t));
	uint32_t u = 0;

	if (v)
		memcpy(&u, v, sizeof(u));
	return u;
}

static struct attrs parse_attrs(const struct nlmsghdr *h, size_t fixed_len)
{
	struct attrs t = {0};

	mnl_attr_parse(h, (unsigned)fixed_len, collect, &t);
	return t;
}

static struct attrs parse_nested(const struct nlattr *nest)
{
	struct attrs t = {0};

	if (nest)
		mnl_attr_parse_nested(nest, collect, &t);
	return t;
}

static int read_route(const struct nlmsghdr *h, void *arg)
{
	struct route_found *f = arg;
	const struct rtmsg *rtm = mnl_nlmsg_get_payload(h);
	struct attrs t;

	if (h->nlmsg_type == RTM_NEWROUTE && rtm->rtm_type == RTN_LOCAL)
		f->answer = ROUTE_HERE;
	if (h->nlmsg_type != RTM_NEWROUTE || rtm->rtm_type != RTN_UNICAST)
		return MNL_CB_STOP;
	t = parse_attrs(h, sizeof(*rtm));
	f->ifindex = (int)attr_u32(&t, RTA_OIF);
	if (t.a[RTA_GATEWAY]) {
		rtnl_get_addr(&f->via, mnl_attr_get_payload(t.a[RTA_GATEWAY]), mnl_attr_get_payload_len(t.a[RTA_GATEWAY]));
	} else if (t.a[RTA_VIA] && mnl_attr_get_payload_len(t.a[RTA_VIA]) > sizeof(uint16_t)) {
		/* an IPv4 route by way of an IPv6 router: address family, then address */
		const uint8_t *via = mnl_attr_get_payload(t.a[RTA_VIA]);

		rtnl_get_addr(&f->via, via + 2, mnl_attr_get_payload_len(t.a[RTA_VIA]) - 2u);
	}
	return MNL_CB_STOP;
}

static int ask_route(struct route_ask *a, const struct ip_addr *dst, struct route_found *f)
{
	struct nlmsghdr *h = start_request(a, RTM_GETROUTE, 0);
	struct rtmsg *rtm = mnl_nlmsg_put_extra_header(h, sizeof(*rtm));

	rtm->rtm_family = family_of(dst);
	rtm->rtm_dst_len = ip_addr_is4(dst) ? 32 : 128;
	rtnl_put_addr(h, RTA_DST, dst);
	if (a->has_src) {
		rtm->rtm_src_len = rtm->rtm_dst_len;
		rtnl_put_addr(h, RTA_SRC, &a->src);
	}
	f->ifindex = 0;
	f->via = *dst;
	return request(a, h, read_route, f);
}

/* VLAN id of an interface that is a VLAN, 0 of any other. */
static uint16_t read_vlan(const struct nlattr *linkinfo)
{
	struct attrs info = parse_nested(linkinfo), data;
	const void *id;
	uint16_t vid = 0;

	if (!info.a[IFLA_INFO_KIND] || strncmp(mnl_attr_get_str(info.a[IFLA_INFO_KIND]), "vlan", 5) != 0)
		return 0;
	data = parse_nested(info.a[IFLA_INFO_DATA]);
	id = attr_of(&data, IFLA_VLAN_ID, sizeof(vid));
	if (id)
		memcpy(&vid, id, sizeof(vid));
	return vid;
}

struct link_answer {
	const struct route_ask *ask;
	struct link_info *l;
};

static bool find_port(const struct route_ask *a, int ifindex, uint8_t *port)
{
	for (uint32_t i = 0; i < a->nports; i++) {
		if (a->port_ifindex[i] == ifindex) {
			*port = (uint8_t)i;
			return true;
		}
	}
	return false;
}

static int read_link(const struct nlmsghdr *h, void *arg)
{
	struct link_answer *ans = arg;
	struct link_info *l = ans->l;
	struct attrs t = parse_attrs(h, sizeof(struct ifinfomsg));
	const void *mac = attr_of(&t, IFLA_ADDRESS, sizeof(l->mac));

	if (!mac)
		return MNL_CB_STOP;
	memcpy(l->mac, mac, sizeof(l->mac));
	if (find_port(ans->ask, l->ifindex, &l->port)) {
		l->ours = true; /* a VLAN interface may be a LAN port itself: it adds its own tag */
		return MNL_CB_STOP;
	}
	l->vid = read_vlan(t.a[IFLA_LINKINFO]);
	l->ours = l->vid && find_port(ans->ask, (int)attr_u32(&t, IFLA_LINK), &l->port);
	return MNL_CB_STOP;
}

static const struct link_info *ask_link(struct route_ask *a, int ifindex)
{
	struct link_info l = {.ifindex = ifindex};
	struct link_answer ans = {a, &l};
	struct nlmsghdr *h;
	struct ifinfomsg *ifi;

	for (unsigned i = 0; i < LINKS_MAX; i++)
		if (a->links[i].ifindex == ifindex)
			return &a->links[i];
	h = start_request(a, RTM_GETLINK, 0);
	ifi = mnl_nlmsg_put_extra_header(h, sizeof(*ifi));
	ifi->ifi_index = ifindex;
	if (request(a, h, read_link, &ans) < 0)
		return NULL;
	a->links[a->next_link] = l;
	a->next_link = (a->next_link + 1) % LINKS_MAX;
	return &a->links[(a->next_link + LINKS_MAX - 1) % LINKS_MAX];
}

static int read_neigh(const struct nlmsghdr *h, void *arg)
{
	struct route_found *f = arg;
	const struct ndmsg *ndm = mnl_nlmsg_get_payload(h);
	struct attrs t;
	const void *mac;

	if (h->nlmsg_type != RTM_NEWNEIGH || !(ndm->ndm_state & NUD_USABLE))
		return MNL_CB_STOP;
	f->is_fixed = ndm->ndm_state & (NUD_PERMANENT | NUD_NOARP);
	t = parse_attrs(h, sizeof(*ndm));
	mac = attr_of(&t, NDA_LLADDR, sizeof(f->hop.dst_mac));
	if (mac) {
		memcpy(f->hop.dst_mac, mac, sizeof(f->hop.dst_mac));
		f->answer = ROUTE_OK;
	}
	return MNL_CB_STOP;
}

/* Asks for the neighbour's MAC, and makes the kernel resolve an unknown one. */
static void ask_neigh(struct route_ask *a, struct route_found *f)
{
	struct nlmsghdr *h = start_request(a, RTM_GETNEIGH, 0);
	struct ndmsg *ndm = mnl_nlmsg_put_extra_header(h, sizeof(*ndm));

	ndm->ndm_family = family_of(&f->via);
	ndm->ndm_ifindex = f->ifindex;
	rtnl_put_addr(h, NDA_DST, &f->via);
	request(a, h, read_neigh, f);
	if (f->is_fixed)
		return; /* NTF_USE would make an operator's permanent entry one that is resolved, and may not be found */
	privileged_find_neighbour(f->ifindex, family_of(&f->via), f->via.b + (ip_addr_is4(&f->via) ? 12 : 0));
}

void route_ask(struct route_ask *a, const struct ip_addr *dst, struct route_found *f)
{
	const struct link_info *l;

	*f = (struct route_found){.answer = ROUTE_NONE};
	if (ask_route(a, dst, f) < 0 || f->ifindex == 0)
		return;
	l = ask_link(a, f->ifindex);
	if (!l || !l->ours)
		return;
	memcpy(f->hop.src_mac, l->mac, 6);
	f->hop.vid = l->vid;
	f->hop.port = l->port;
	f->answer = ROUTE_RESOLVING;
	ask_neigh(a, f);
}

/* --- changes --- */

struct listener {
	struct route_ask *a;
	route_changed_fn fn;
	void *arg;
};

static void find_ports(struct route_ask *a)
{
	for (uint32_t i = 0; i < a->nports; i++)
		a->port_ifindex[i] = (int)if_nametoindex(a->port_name[i]);
}

static void all_changed(const struct listener *l)
{
	memset(l->a->links, 0, sizeof(l->a->links));
	find_ports(l->a); /* a port may have been made anew, with another index */
	l->fn(l->arg, 0, NULL);
}

static void neigh_changed(const struct listener *l, const struct nlmsghdr *h)
{
	const struct ndmsg *ndm = mnl_nlmsg_get_payload(h);
	struct attrs t = parse_attrs(h, sizeof(*ndm));
	const struct nlattr *dst = t.a[NDA_DST];
	struct ip_addr via;

	if (dst && rtnl_get_addr(&via, mnl_attr_get_payload(dst), mnl_attr_get_payload_len(dst)))
		l->fn(l->arg, ndm->ndm_ifindex, &via);
}

static int on_change(const struct nlmsghdr *h, void *arg)
{
	if (h->nlmsg_type == RTM_NEWNEIGH || h->nlmsg_type == RTM_DELNEIGH)
		neigh_changed(arg, h);
	else
		all_changed(arg);
	return MNL_CB_OK;
}

int route_ask_fd(const struct route_ask *a)
{
	return mnl_socket_get_fd(a->notify);
}

void route_ask_changes(struct route_ask *a, route_changed_fn fn, void *arg)
{
	struct listener l = {a, fn, arg};

	for (;;) {
		ssize_t n = mnl_socket_recvfrom(a->notify, a->buf, sizeof(a->buf));

		if (n < 0 && errno == ENOBUFS) {
			all_changed(&l); /* the socket's buffer overflowed: messages were lost */
			continue;
		}
		if (n <= 0)
			return;
		mnl_cb_run(a->buf, (size_t)n, 0, 0, on_change, &l);
	}
}

/* --- life --- */

static struct mnl_socket *open_netlink(void)
{
	struct mnl_socket *s = mnl_socket_open2(NETLINK_ROUTE, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (s && mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) < 0) {
		mnl_socket_close(s);
		return NULL;
	}
	return s;
}

static int subscribe(struct mnl_socket *s)
{
	static const int groups[] = {RTNLGRP_LINK,       RTNLGRP_NEIGH,     RTNLGRP_IPV4_ROUTE,
	                             RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE};

	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		int g = groups[i];

		if (mnl_socket_setsockopt(s, NETLINK_ADD_MEMBERSHIP, &g, sizeof(g)) < 0)
			return -1;
	}
	return 0;
}

int route_ask_open(struct route_ask **out, const char (*ports)[IF_NAMESIZE], uint32_t nports, char *err, size_t errlen)
{
	struct route_ask *a = calloc(1, sizeof(*a));

	if (!a) {
		snprintf(err, errlen, "next hops: out of memory");
		return -ENOMEM;
	}
	a->nports = nports < PORTS_MAX ? nports : PORTS_MAX;
	for (uint32_t i = 0; i < a->nports; i++)
		snprintf(a->port_name[i], sizeof(a->port_name[i]), "%s", ports[i]);
	find_ports(a);
	a->ask = open_netlink();
	a->notify = open_netlink();
	if (!a->ask || !a->notify || subscribe(a->notify) < 0) {
		int e = errno;

		snprintf(err, errlen, "cannot read the kernel's routing tables: %s", strerror(e));
		route_ask_close(a);
		return -e;
	}
	*out = a;
	return 0;
}

void route_ask_from(struct route_ask *a, const struct ip_addr *src)
{
	a->has_src = true;
	a->src = *src;
}

void route_ask_close(struct route_ask *a)
{
	if (a->ask)
		mnl_socket_close(a->ask);
	if (a->notify)
		mnl_socket_close(a->notify);
	free(a);
}
