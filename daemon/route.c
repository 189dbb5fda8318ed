/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A set-associative table maps a destination to its next hop. On a miss, or when an entry is older than its life,
 * up to three questions go to the kernel: RTM_GETROUTE (which way), RTM_GETLINK (is that one of our LAN ports, or
 * a VLAN on one), RTM_GETNEIGH (what MAC). rtnetlink answers inside the send call, so nothing waits.
 *
 * Our packets pass the kernel's neighbour code by, so to it the neighbours look unused. Each time an entry is
 * looked up again we tell it "in use" (NTF_USE): that starts the resolution of an unknown neighbour and the check of a
 * stale one, exactly as a packet of its own would have. */
#include "route.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proxy/bytes.h"

#define SETS             1024
#define WAYS             4
#define LIFE_NS          1000000000ull
#define NEGATIVE_LIFE_NS 100000000ull
#define PORTS_MAX        8
#define LINKS_MAX        16
#define MSG_LEN          8192
#define NUD_USABLE       (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

struct entry {
	struct ip_addr dst;
	struct ip_addr via;  /* neighbour: gateway, or dst itself */
	uint64_t expires_ns; /* 0: empty */
	int ifindex;         /* of the neighbour, 0: no route */
	enum route_answer answer;
	struct next_hop hop;
};

struct link_info {
	int ifindex; /* 0: empty */
	bool ours;
	uint8_t port;
	uint16_t vid;
	uint8_t mac[6];
};

struct route_cache {
	struct mnl_socket *ask, *notify;
	uint32_t seq;
	int port_ifindex[PORTS_MAX];
	uint32_t nports;
	struct link_info links[LINKS_MAX];
	uint32_t next_link;
	struct entry entry[SETS][WAYS];
	char buf[MSG_LEN];
};

/* --- asking --- */

static struct nlmsghdr *start_request(struct route_cache *rc, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(rc->buf);

	h->nlmsg_type = type;
	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	h->nlmsg_seq = ++rc->seq;
	return h;
}

/* Sends the request in rc->buf and reads its one answer. 0, or negative errno (the kernel's own, if it refused). */
static int request(struct route_cache *rc, struct nlmsghdr *h, mnl_cb_t cb, void *arg)
{
	ssize_t n;

	if (mnl_socket_sendto(rc->ask, h, h->nlmsg_len) < 0)
		return -errno;
	for (;;) {
		n = mnl_socket_recvfrom(rc->ask, rc->buf, sizeof(rc->buf));
		if (n < 0)
			return -errno;
		/* an answer left over from a request that failed half way */
		if (((struct nlmsghdr *)(void *)rc->buf)->nlmsg_seq != rc->seq)
			continue;
		return mnl_cb_run(rc->buf, (size_t)n, rc->seq, mnl_socket_get_portid(rc->ask), cb, arg) < 0 ? -errno
		                                                                                            : 0;
	}
}

static unsigned char family_of(const struct ip_addr *a)
{
	return ip_addr_is4(a) ? AF_INET : AF_INET6;
}

static void put_addr(struct nlmsghdr *h, uint16_t type, const struct ip_addr *a)
{
	if (ip_addr_is4(a))
		mnl_attr_put(h, type, 4, a->b + 12);
	else
		mnl_attr_put(h, type, 16, a->b);
}

static bool get_addr(struct ip_addr *a, const void *bytes, size_t len)
{
	memset(a, 0, sizeof(*a));
	if (len == 4) {
		a->b[10] = a->b[11] = 0xff;
		memcpy(a->b + 12, bytes, 4);
	} else if (len == 16) {
		memcpy(a->b, bytes, 16);
	}
	return len == 4 || len == 16;
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
	struct entry *e = arg;
	const struct rtmsg *rtm = mnl_nlmsg_get_payload(h);
	struct attrs t;

	if (h->nlmsg_type != RTM_NEWROUTE || rtm->rtm_type != RTN_UNICAST)
		return MNL_CB_STOP;
	t = parse_attrs(h, sizeof(*rtm));
	e->ifindex = (int)attr_u32(&t, RTA_OIF);
	if (t.a[RTA_GATEWAY]) {
		get_addr(&e->via, mnl_attr_get_payload(t.a[RTA_GATEWAY]), mnl_attr_get_payload_len(t.a[RTA_GATEWAY]));
	} else if (t.a[RTA_VIA] && mnl_attr_get_payload_len(t.a[RTA_VIA]) > sizeof(uint16_t)) {
		/* an IPv4 route by way of an IPv6 router: address family, then address */
		const uint8_t *via = mnl_attr_get_payload(t.a[RTA_VIA]);

		get_addr(&e->via, via + 2, mnl_attr_get_payload_len(t.a[RTA_VIA]) - 2u);
	}
	return MNL_CB_STOP;
}

static int ask_route(struct route_cache *rc, struct entry *e)
{
	struct nlmsghdr *h = start_request(rc, RTM_GETROUTE, 0);
	struct rtmsg *rtm = mnl_nlmsg_put_extra_header(h, sizeof(*rtm));

	rtm->rtm_family = family_of(&e->dst);
	rtm->rtm_dst_len = ip_addr_is4(&e->dst) ? 32 : 128;
	put_addr(h, RTA_DST, &e->dst);
	e->ifindex = 0;
	e->via = e->dst;
	return request(rc, h, read_route, e);
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
	const struct route_cache *rc;
	struct link_info *l;
};

static bool find_port(const struct route_cache *rc, int ifindex, uint8_t *port)
{
	for (uint32_t i = 0; i < rc->nports; i++) {
		if (rc->port_ifindex[i] == ifindex) {
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
	if (find_port(ans->rc, l->ifindex, &l->port)) {
		l->ours = true; /* also a VLAN interface that is a LAN port itself: it adds its tag on its own */
		return MNL_CB_STOP;
	}
	l->vid = read_vlan(t.a[IFLA_LINKINFO]);
	l->ours = l->vid && find_port(ans->rc, (int)attr_u32(&t, IFLA_LINK), &l->port);
	return MNL_CB_STOP;
}

static const struct link_info *ask_link(struct route_cache *rc, int ifindex)
{
	struct link_info l = {.ifindex = ifindex};
	struct link_answer ans = {rc, &l};
	struct nlmsghdr *h;
	struct ifinfomsg *ifi;

	for (unsigned i = 0; i < LINKS_MAX; i++)
		if (rc->links[i].ifindex == ifindex)
			return &rc->links[i];
	h = start_request(rc, RTM_GETLINK, 0);
	ifi = mnl_nlmsg_put_extra_header(h, sizeof(*ifi));
	ifi->ifi_index = ifindex;
	if (request(rc, h, read_link, &ans) < 0)
		return NULL;
	rc->links[rc->next_link] = l;
	rc->next_link = (rc->next_link + 1) % LINKS_MAX;
	return &rc->links[(rc->next_link + LINKS_MAX - 1) % LINKS_MAX];
}

static int read_neigh(const struct nlmsghdr *h, void *arg)
{
	struct entry *e = arg;
	const struct ndmsg *ndm = mnl_nlmsg_get_payload(h);
	struct attrs t;
	const void *mac;

	if (h->nlmsg_type != RTM_NEWNEIGH || !(ndm->ndm_state & NUD_USABLE))
		return MNL_CB_STOP;
	t = parse_attrs(h, sizeof(*ndm));
	mac = attr_of(&t, NDA_LLADDR, sizeof(e->hop.dst_mac));
	if (mac) {
		memcpy(e->hop.dst_mac, mac, sizeof(e->hop.dst_mac));
		e->answer = ROUTE_OK;
	}
	return MNL_CB_STOP;
}

static struct nlmsghdr *neigh_request(struct route_cache *rc, const struct entry *e, uint16_t type, uint16_t flags,
                                      uint8_t ntf)
{
	struct nlmsghdr *h = start_request(rc, type, flags);
	struct ndmsg *ndm = mnl_nlmsg_put_extra_header(h, sizeof(*ndm));

	ndm->ndm_family = family_of(&e->via);
	ndm->ndm_ifindex = e->ifindex;
	ndm->ndm_flags = ntf;
	put_addr(h, NDA_DST, &e->via);
	return h;
}

static int no_answer(const struct nlmsghdr *h, void *arg)
{
	(void)h;
	(void)arg;
	return MNL_CB_STOP;
}

static void ask_neigh(struct route_cache *rc, struct entry *e)
{
	request(rc, neigh_request(rc, e, RTM_GETNEIGH, 0, 0), read_neigh, e);
	request(rc, neigh_request(rc, e, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, NTF_USE), no_answer, NULL);
}

/* --- the table --- */

static void resolve(struct route_cache *rc, struct entry *e, uint64_t now_ns)
{
	const struct link_info *l;

	e->answer = ROUTE_NONE;
	e->expires_ns = now_ns + NEGATIVE_LIFE_NS;
	if (ask_route(rc, e) < 0 || e->ifindex == 0)
		return;
	l = ask_link(rc, e->ifindex);
	if (!l || !l->ours)
		return;
	memcpy(e->hop.src_mac, l->mac, 6);
	e->hop.vid = l->vid;
	e->hop.port = l->port;
	e->answer = ROUTE_RESOLVING;
	ask_neigh(rc, e);
	if (e->answer == ROUTE_OK)
		e->expires_ns = now_ns + LIFE_NS;
}

static uint32_t set_of(const struct ip_addr *a)
{
	uint32_t x = get_be32(a->b) ^ get_be32(a->b + 4) ^ get_be32(a->b + 8) ^ get_be32(a->b + 12);

	return (x * 0x9E3779B1u) >> 22;
}

_Static_assert(SETS == 1 << (32 - 22), "set_of() shifts down to the number of sets");

enum route_answer route_lookup(struct route_cache *rc, const struct ip_addr *dst, uint64_t now_ns,
                               const struct next_hop **hop)
{
	struct entry *set = rc->entry[set_of(dst)];
	struct entry *e = &set[0];

	for (unsigned i = 0; i < WAYS; i++) {
		if (set[i].expires_ns && ip_addr_eq(&set[i].dst, dst)) {
			e = &set[i];
			goto found;
		}
		if (set[i].expires_ns < e->expires_ns)
			e = &set[i];
	}
	e->dst = *dst;
	e->expires_ns = 1;
found:
	if (e->expires_ns <= now_ns)
		resolve(rc, e, now_ns);
	*hop = &e->hop;
	return e->answer;
}

static void forget_all(struct route_cache *rc)
{
	memset(rc->links, 0, sizeof(rc->links));
	for (unsigned s = 0; s < SETS; s++)
		for (unsigned i = 0; i < WAYS; i++)
			if (rc->entry[s][i].expires_ns)
				rc->entry[s][i].expires_ns = 1;
}

static void forget_neigh(struct route_cache *rc, int ifindex, const struct ip_addr *via)
{
	for (unsigned s = 0; s < SETS; s++) {
		for (unsigned i = 0; i < WAYS; i++) {
			struct entry *e = &rc->entry[s][i];

			if (e->expires_ns && e->ifindex == ifindex && ip_addr_eq(&e->via, via))
				e->expires_ns = 1;
		}
	}
}

/* --- changes --- */

static void neigh_changed(struct route_cache *rc, const struct nlmsghdr *h)
{
	const struct ndmsg *ndm = mnl_nlmsg_get_payload(h);
	struct attrs t = parse_attrs(h, sizeof(*ndm));
	const struct nlattr *dst = t.a[NDA_DST];
	struct ip_addr via;

	if (dst && get_addr(&via, mnl_attr_get_payload(dst), mnl_attr_get_payload_len(dst)))
		forget_neigh(rc, ndm->ndm_ifindex, &via);
}

static int on_change(const struct nlmsghdr *h, void *arg)
{
	struct route_cache *rc = arg;

	if (h->nlmsg_type == RTM_NEWNEIGH || h->nlmsg_type == RTM_DELNEIGH)
		neigh_changed(rc, h);
	else
		forget_all(rc);
	return MNL_CB_OK;
}

int route_fd(const struct route_cache *rc)
{
	return mnl_socket_get_fd(rc->notify);
}

void route_changed(struct route_cache *rc)
{
	for (;;) {
		ssize_t n = mnl_socket_recvfrom(rc->notify, rc->buf, sizeof(rc->buf));

		if (n < 0 && errno == ENOBUFS) {
			forget_all(rc); /* the kernel had more to say than the socket could hold */
			continue;
		}
		if (n <= 0)
			return;
		mnl_cb_run(rc->buf, (size_t)n, 0, 0, on_change, rc);
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

int route_open(struct route_cache **out, const char (*ports)[IF_NAMESIZE], uint32_t nports, char *err, size_t errlen)
{
	struct route_cache *rc = calloc(1, sizeof(*rc));

	if (!rc) {
		snprintf(err, errlen, "route cache: out of memory");
		return -ENOMEM;
	}
	rc->nports = nports < PORTS_MAX ? nports : PORTS_MAX;
	for (uint32_t i = 0; i < rc->nports; i++)
		rc->port_ifindex[i] = (int)if_nametoindex(ports[i]);
	rc->ask = open_netlink();
	rc->notify = open_netlink();
	if (!rc->ask || !rc->notify || subscribe(rc->notify) < 0) {
		int e = errno;

		snprintf(err, errlen, "cannot read the kernel's routing tables: %s", strerror(e));
		route_close(rc);
		return -e;
	}
	*out = rc;
	return 0;
}

void route_close(struct route_cache *rc)
{
	if (rc->ask)
		mnl_socket_close(rc->ask);
	if (rc->notify)
		mnl_socket_close(rc->notify);
	free(rc);
}
