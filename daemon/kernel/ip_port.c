/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Both ends have MACs of their own, and the kernel, which sends no ARP here (NOARP), addresses its frames to its own
 * end's MAC. So frames at the workers' end are for another MAC: a packet socket sees them, and the kernel's IP drops
 * them before any hook. No packet that was handed over is routed a second time, with or without nft rules.
 *
 * The table has, for each prefix of the other site, in the order of their metrics: a route through the port with a
 * source address of this machine that the other edge accepts, for ICMP errors; the same route without a source, as the
 * kernel removes the first one with its address; and a blackhole, for when the interface is gone. If a prefix covers
 * the other edge's WAN addresses, throw routes exclude them: the link's own datagrams must not enter the port.
 *
 * One gateway that does not exist stands for all hosts: otherwise each host would have an entry in the kernel's
 * neighbour table. The kernel never joins segments here (gso_max_segs): workers get packets of wire size. */
#include "ip_port.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>

#include "daemon/util/addr.h"
#include "fib_rule.h"
#include "daemon/util/log.h"
#include "daemon/util/rtnl.h"

#define NAME_PREFIX   "lr-"
#define WORKER_PREFIX "lrd-"
#define NAME_FITS     (IF_NAMESIZE - 1 - (sizeof(WORKER_PREFIX) - 1)) /* longest link name that fits */
#define NAME_CUT      4                                               /* characters of a longer name that are kept
                                                                       * before its hash */

enum {
	TABLE_BASE = 0x6c000000, /* plus a 24-bit hash of the link's name */
	TABLE_MASK = 0xffffff,
	MTU = LAN_IP_MAX,
};

enum metrics { METRIC_THROW = 1, METRIC_SOURCE, METRIC_PLAIN };
#define METRIC_LAST UINT32_MAX

/* Locally administered MACs; they identify our interfaces. */
static const uint8_t kernel_mac[6] = {0x02, 'l', 'r', 'i', 'p', 1}, worker_mac[6] = {0x02, 'l', 'r', 'i', 'p', 2};

/* An address on no network. */
static const struct ip_addr gateway4 = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 169, 254, 191, 1}};
static const struct ip_addr gateway6 = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

/* --- names --- */

/* FNV-1a */
static uint32_t hash_name(const char *s)
{
	uint32_t h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 16777619u;
	return h;
}

static void name_end(char ifname[IF_NAMESIZE], const char *prefix, const char *link)
{
	if (strlen(link) <= NAME_FITS)
		snprintf(ifname, IF_NAMESIZE, "%s%.*s", prefix, (int)NAME_FITS, link);
	else
		snprintf(ifname, IF_NAMESIZE, "%s%.*s-%06x", prefix, NAME_CUT, link, hash_name(link) & 0xffffff);
}

void ip_port_name(char ifname[IF_NAMESIZE], const char *link)
{
	name_end(ifname, NAME_PREFIX, link);
}

void ip_port_worker_name(char ifname[IF_NAMESIZE], const char *link)
{
	name_end(ifname, WORKER_PREFIX, link);
}

uint32_t ip_port_table(const char *link)
{
	return TABLE_BASE | (hash_name(link) & TABLE_MASK);
}

struct next_hop ip_port_hop(uint8_t port)
{
	struct next_hop hop = {.port = port};

	memcpy(hop.dst_mac, kernel_mac, sizeof(kernel_mac));
	memcpy(hop.src_mac, worker_mac, sizeof(worker_mac));
	return hop;
}

/* --- interfaces --- */

struct end {
	int ifindex; /* 0: there is none */
	bool ours, up;
};

static int read_mac(const struct nlattr *attr, void *arg)
{
	struct end *e = arg;
	const void *mac = mnl_attr_get_payload(attr);

	if (mnl_attr_get_type(attr) == IFLA_ADDRESS && mnl_attr_get_payload_len(attr) == sizeof(kernel_mac))
		e->ours = memcmp(mac, kernel_mac, sizeof(kernel_mac)) == 0 ||
		          memcmp(mac, worker_mac, sizeof(worker_mac)) == 0;
	return MNL_CB_OK;
}

static int on_end(const struct nlmsghdr *h, void *arg)
{
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(h);
	struct end *e = arg;

	e->ifindex = ifi->ifi_index;
	e->up = (ifi->ifi_flags & IFF_UP) != 0;
	mnl_attr_parse(h, sizeof(*ifi), read_mac, e);
	return MNL_CB_OK;
}

static struct end find_end(struct mnl_socket *s, const char *ifname)
{
	union rtnl_msg msg;
	struct nlmsghdr *h = rtnl_begin(&msg, RTM_GETLINK, NLM_F_ACK);
	struct end e = {0};

	mnl_nlmsg_put_extra_header(h, sizeof(struct ifinfomsg));
	mnl_attr_put_strz(h, IFLA_IFNAME, ifname);
	if (rtnl_ask(s, h, on_end, &e) < 0)
		e = (struct end){0};
	return e;
}

static void put_end(struct nlmsghdr *h, const char *ifname, const uint8_t mac[6])
{
	struct ifinfomsg *ifi = mnl_nlmsg_put_extra_header(h, sizeof(*ifi));

	ifi->ifi_flags = ifi->ifi_change = IFF_NOARP;
	mnl_attr_put_strz(h, IFLA_IFNAME, ifname);
	mnl_attr_put_u32(h, IFLA_MTU, MTU);
	mnl_attr_put_u32(h, IFLA_GSO_MAX_SEGS, 1);
	mnl_attr_put(h, IFLA_ADDRESS, 6, mac);
}

static int make_veth(struct mnl_socket *s, const char *kernel, const char *worker)
{
	union rtnl_msg msg;
	struct nlmsghdr *h = rtnl_begin(&msg, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
	struct nlattr *info, *data, *peer;

	put_end(h, kernel, kernel_mac);
	info = mnl_attr_nest_start(h, IFLA_LINKINFO);
	mnl_attr_put_str(h, IFLA_INFO_KIND, "veth");
	data = mnl_attr_nest_start(h, IFLA_INFO_DATA);
	peer = mnl_attr_nest_start(h, VETH_INFO_PEER);
	put_end(h, worker, worker_mac);
	mnl_attr_nest_end(h, peer);
	mnl_attr_nest_end(h, data);
	mnl_attr_nest_end(h, info);
	return rtnl_talk(s, h);
}

/* Turns off addresses of the interface, even link-local ones: no host is behind it. Without IPv6 there is nothing to
 do. */
static void without_addresses(struct mnl_socket *s, int ifindex)
{
	union rtnl_msg msg;
	struct nlmsghdr *h = rtnl_begin(&msg, RTM_SETLINK, 0);
	struct ifinfomsg *ifi = mnl_nlmsg_put_extra_header(h, sizeof(*ifi));
	struct nlattr *spec = mnl_attr_nest_start(h, IFLA_AF_SPEC), *ip6 = mnl_attr_nest_start(h, AF_INET6);

	ifi->ifi_index = ifindex;
	mnl_attr_put_u8(h, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
	mnl_attr_nest_end(h, ip6);
	mnl_attr_nest_end(h, spec);
	rtnl_talk(s, h);
}

static int set_end_up(struct mnl_socket *s, const struct end *e)
{
	union rtnl_msg msg;
	struct nlmsghdr *h;
	struct ifinfomsg *ifi;

	if (e->up)
		return 0;
	without_addresses(s, e->ifindex);
	h = rtnl_begin(&msg, RTM_SETLINK, 0);
	ifi = mnl_nlmsg_put_extra_header(h, sizeof(*ifi));
	ifi->ifi_index = e->ifindex;
	ifi->ifi_flags = ifi->ifi_change = IFF_UP;
	return rtnl_talk(s, h);
}

/* *ifindex: of the kernel's end. */
static int set_ends(struct mnl_socket *s, const char *link, int *ifindex)
{
	char kernel[IF_NAMESIZE], worker[IF_NAMESIZE];
	struct end k, w;
	int r = 0;

	ip_port_name(kernel, link);
	ip_port_worker_name(worker, link);
	k = find_end(s, kernel);
	if (k.ifindex == 0) {
		r = make_veth(s, kernel, worker);
		k = find_end(s, kernel);
	}
	w = find_end(s, worker);
	if (r == 0 && (!k.ours || !w.ours))
		r = -EEXIST; /* somebody else's */
	if (r == 0)
		r = set_end_up(s, &w);
	if (r == 0)
		r = set_end_up(s, &k);
	*ifindex = k.ifindex;
	return r;
}

static int delete_link(struct mnl_socket *s, int ifindex)
{
	union rtnl_msg msg;
	struct nlmsghdr *h = rtnl_begin(&msg, RTM_DELLINK, 0);
	struct ifinfomsg *ifi = mnl_nlmsg_put_extra_header(h, sizeof(*ifi));

	ifi->ifi_index = ifindex;
	return rtnl_talk(s, h);
}

/* --- routes --- */

struct route {
	uint8_t family, len, type; /* RTN_* */
	struct ip_addr to, source; /* source: unspecified, none */
	uint32_t table, metric;
	int ifindex; /* 0: none */
};

static struct nlmsghdr *build_route(union rtnl_msg *msg, uint16_t type, uint16_t flags, const struct route *r)
{
	struct nlmsghdr *h = rtnl_begin(msg, type, flags);
	struct rtmsg *rtm = mnl_nlmsg_put_extra_header(h, sizeof(*rtm));

	rtm->rtm_family = r->family;
	rtm->rtm_dst_len = r->len;
	rtm->rtm_type = r->type;
	rtm->rtm_protocol = FIB_RULE_PROTOCOL;
	rtm->rtm_scope = type == RTM_DELROUTE ? RT_SCOPE_NOWHERE : RT_SCOPE_UNIVERSE;
	if (r->len > 0)
		rtnl_put_addr(h, RTA_DST, &r->to);
	mnl_attr_put_u32(h, RTA_TABLE, r->table);
	mnl_attr_put_u32(h, RTA_PRIORITY, r->metric);
	if (r->ifindex) {
		mnl_attr_put_u32(h, RTA_OIF, (uint32_t)r->ifindex);
		rtm->rtm_flags = r->family == AF_INET ? RTNH_F_ONLINK : 0;
		rtnl_put_addr(h, RTA_GATEWAY, r->family == AF_INET ? &gateway4 : &gateway6);
	}
	if (!addr_is_unspecified(&r->source))
		rtnl_put_addr(h, RTA_PREFSRC, &r->source);
	return h;
}

/* Adds a route. A route that is there already is no error; a machine without IPv6 needs no IPv6 route. */
static int add_route(struct mnl_socket *s, const struct route *route)
{
	union rtnl_msg msg;
	int r = rtnl_talk(s, build_route(&msg, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, route));

	if (r == -EEXIST || (route->family == AF_INET6 && (r == -EAFNOSUPPORT || r == -EOPNOTSUPP || r == -EACCES)))
		return 0;
	return r;
}

static bool is_wan_address(const struct link_config *c, const struct ip_addr *a)
{
	for (uint32_t i = 0; i < c->npaths; i++)
		if (ip_addr_eq(a, &c->paths[i].local))
			return true;
	return false;
}

/* An address of this machine inside the local prefixes; a WAN address only if there is no other. Unspecified: none. */
static struct ip_addr find_source(const struct link_config *c, bool v4)
{
	struct ip_addr best = {0}, a;
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all) < 0)
		return best;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (!i->ifa_addr || !addr_from_sockaddr(i->ifa_addr, &a) || ip_addr_is4(&a) != v4 ||
		    !ip_prefix_any(c->local, c->nlocal, &a))
			continue;
		if (addr_is_unspecified(&best) || is_wan_address(c, &best))
			best = a;
	}
	freeifaddrs(all);
	return best;
}

static int add_prefix(struct mnl_socket *s, const struct ip_prefix *to, const struct ip_addr *source, uint32_t table,
                      int ifindex)
{
	struct route r = {.family = ip_prefix_is4(to) ? AF_INET : AF_INET6,
	                  .len = (uint8_t)(to->len - (ip_prefix_is4(to) ? 96 : 0)),
	                  .to = to->addr,
	                  .table = table};
	int last, plain;

	r.type = RTN_BLACKHOLE;
	r.metric = METRIC_LAST;
	last = add_route(s, &r);
	r.type = RTN_UNICAST;
	r.metric = METRIC_PLAIN;
	r.ifindex = ifindex;
	plain = add_route(s, &r);
	if (!addr_is_unspecified(source)) {
		r.metric = METRIC_SOURCE;
		r.source = *source;
		add_route(s, &r); /* fails if the address is not ready yet: tried again next time */
	}
	return last < 0 ? last : plain;
}

static int add_throw(struct mnl_socket *s, const struct ip_addr *to, uint32_t table)
{
	struct route r = {.family = ip_addr_is4(to) ? AF_INET : AF_INET6,
	                  .len = ip_addr_is4(to) ? 32 : 128,
	                  .type = RTN_THROW,
	                  .to = *to,
	                  .table = table,
	                  .metric = METRIC_THROW};

	return add_route(s, &r);
}

static int add_routes(struct mnl_socket *s, const struct link_config *c, int ifindex)
{
	struct ip_addr source4 = find_source(c, true), source6 = find_source(c, false);
	uint32_t table = ip_port_table(c->name);
	int worst = 0;

	for (uint32_t i = 0; worst == 0 && i < c->npaths; i++)
		if (ip_prefix_any(c->remote, c->nremote, &c->paths[i].remote))
			worst = add_throw(s, &c->paths[i].remote, table);
	for (uint32_t i = 0; worst == 0 && i < c->nremote; i++)
		worst = add_prefix(s, &c->remote[i], ip_prefix_is4(&c->remote[i]) ? &source4 : &source6, table,
		                   ifindex);
	return worst;
}

/* --- removing --- */

struct kept {
	const char *const *links;
	uint32_t n;
	bool (*goes)(const struct kept *k, uint32_t table);
	uint32_t table; /* of goes_one(); 0: all are looked at */
	struct route *found;
	uint32_t nfound;
};

static bool goes_one(const struct kept *k, uint32_t table)
{
	return table == k->table;
}

static bool goes_unless_kept(const struct kept *k, uint32_t table)
{
	for (uint32_t i = 0; i < k->n; i++)
		if (ip_port_table(k->links[i]) == table)
			return false;
	return (table & ~(uint32_t)TABLE_MASK) == TABLE_BASE;
}

static int on_route_attr(const struct nlattr *attr, void *arg)
{
	struct route *r = arg;

	switch (mnl_attr_get_type(attr)) {
	case RTA_TABLE:
		r->table = mnl_attr_get_u32(attr);
		break;
	case RTA_PRIORITY:
		r->metric = mnl_attr_get_u32(attr);
		break;
	case RTA_DST:
		rtnl_get_addr(&r->to, mnl_attr_get_payload(attr), mnl_attr_get_payload_len(attr));
		break;
	}
	return MNL_CB_OK;
}

static int on_route(const struct nlmsghdr *h, void *arg)
{
	const struct rtmsg *rtm = mnl_nlmsg_get_payload(h);
	struct route r = {.family = rtm->rtm_family, .len = rtm->rtm_dst_len, .type = rtm->rtm_type}, *more;
	struct kept *k = arg;

	if (h->nlmsg_type != RTM_NEWROUTE || rtm->rtm_protocol != FIB_RULE_PROTOCOL)
		return MNL_CB_OK;
	mnl_attr_parse(h, sizeof(*rtm), on_route_attr, &r);
	if (!k->goes(k, r.table))
		return MNL_CB_OK;
	more = realloc(k->found, (k->nfound + 1) * sizeof(r));
	if (!more)
		return MNL_CB_ERROR;
	k->found = more;
	k->found[k->nfound++] = r;
	return MNL_CB_OK;
}

static void remove_routes(struct mnl_socket *s, struct kept *k)
{
	static const uint8_t families[] = {AF_INET, AF_INET6};
	union rtnl_msg msg;
	int on = 1;

	/* lets the kernel filter by our protocol instead of listing a million other routes */
	mnl_socket_setsockopt(s, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
	for (unsigned i = 0; i < 2; i++) {
		struct nlmsghdr *h = rtnl_begin(&msg, RTM_GETROUTE, NLM_F_DUMP);
		struct rtmsg *rtm = mnl_nlmsg_put_extra_header(h, sizeof(*rtm));

		rtm->rtm_family = families[i];
		rtm->rtm_protocol = FIB_RULE_PROTOCOL;
		if (k->table)
			mnl_attr_put_u32(h, RTA_TABLE, k->table);
		rtnl_ask(s, h, on_route, k);
	}
	for (uint32_t i = 0; i < k->nfound; i++)
		rtnl_talk(s, build_route(&msg, RTM_DELROUTE, 0, &k->found[i]));
	free(k->found);
}

static void remove_table(struct mnl_socket *s, uint32_t table)
{
	struct kept k = {.goes = goes_one, .table = table};

	remove_routes(s, &k);
}

int ip_port_set(const struct link_config *c, bool routes, char *err, size_t errlen)
{
	struct mnl_socket *s = rtnl_open();
	char ifname[IF_NAMESIZE];
	int ifindex = 0, r = s ? set_ends(s, c->name, &ifindex) : -errno;

	ip_port_name(ifname, c->name);
	if (r == -EEXIST)
		snprintf(err, errlen,
		         "%s: an interface with this name exists and is not this link's: remove the interface", ifname);
	else if (r < 0)
		snprintf(err, errlen, "%s: cannot make the interface for the hosts' other IP (veth): %s", ifname,
		         strerror(-r));
	if (r == 0 && !routes)
		remove_table(s, ip_port_table(c->name));
	if (r == 0 && routes) {
		r = add_routes(s, c, ifindex);
		if (r < 0)
			snprintf(err, errlen, "%s: cannot make the routes through it: %s", ifname, strerror(-r));
	}
	if (s)
		mnl_socket_close(s);
	return r;
}

void ip_port_remove(const char *link)
{
	struct mnl_socket *s = rtnl_open();
	char ifname[IF_NAMESIZE];
	struct end e;

	if (!s)
		return;
	ip_port_name(ifname, link);
	e = find_end(s, ifname);
	if (e.ifindex && e.ours)
		delete_link(s, e.ifindex);
	remove_table(s, ip_port_table(link));
	mnl_socket_close(s);
}

static bool port_is_kept(const char *ifname, const char *const *links, uint32_t n)
{
	char kept[IF_NAMESIZE];

	for (uint32_t i = 0; i < n; i++) {
		ip_port_name(kept, links[i]);
		if (strcmp(kept, ifname) == 0)
			return true;
	}
	return false;
}

void ip_port_sweep(const char *const *links, uint32_t n)
{
	struct kept k = {.links = links, .n = n, .goes = goes_unless_kept};
	struct if_nameindex *all = if_nameindex();
	struct mnl_socket *s = rtnl_open();

	for (struct if_nameindex *i = all; s && i && i->if_index; i++) {
		struct end e;

		if (strncmp(i->if_name, NAME_PREFIX, sizeof(NAME_PREFIX) - 1) != 0 ||
		    port_is_kept(i->if_name, links, n))
			continue;
		e = find_end(s, i->if_name);
		if (e.ours && delete_link(s, e.ifindex) == 0)
			log_notice("%s: removed: the link file is gone, and its buffer owes no packets", i->if_name);
	}
	if (s) {
		remove_routes(s, &k);
		mnl_socket_close(s);
	}
	if (all)
		if_freenameindex(all);
}
