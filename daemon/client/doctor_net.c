/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_net.c - the doctor's checks of routes, neighbours and what the kernel does with returns. */
#include "doctor.h"

#include <inttypes.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/machine/machine.h"
#include "daemon/util/addr.h"
#include "daemon/util/rtnl.h"

#define LINKS_DEPTH 4 /* a VLAN on a bond on ports, and one to spare */
/* mnl_attr_for_each(), whose length is a long that becomes an int */
#define EACH_ATTRIBUTE(a, h, fixed)                                                                                    \
	for ((a) = mnl_nlmsg_get_payload_offset(h, fixed);                                                             \
	     mnl_attr_ok(a, (int)((char *)mnl_nlmsg_get_payload_tail(h) - (char *)(a))); (a) = mnl_attr_next(a))

#define NUD_UNKNOWN (NUD_INCOMPLETE | NUD_FAILED)

/* --- which way --- */

struct way {
	bool found;
	unsigned oif;
	struct ip_addr via; /* the next hop: a gateway, or the address itself */
	bool unicast;
};

static int take_way(const struct nlmsghdr *h, void *arg)
{
	const struct rtmsg *r = mnl_nlmsg_get_payload(h);
	struct way *w = arg;
	struct nlattr *a;

	if (h->nlmsg_type != RTM_NEWROUTE)
		return MNL_CB_OK;
	w->found = true;
	w->unicast = r->rtm_type == RTN_UNICAST;
	EACH_ATTRIBUTE(a, h, sizeof(*r))
	{
		if (mnl_attr_get_type(a) == RTA_OIF && mnl_attr_get_payload_len(a) == sizeof(uint32_t))
			w->oif = mnl_attr_get_u32(a);
		if (mnl_attr_get_type(a) == RTA_GATEWAY)
			rtnl_get_addr(&w->via, mnl_attr_get_payload(a), mnl_attr_get_payload_len(a));
	}
	return MNL_CB_OK;
}

/* from NULL: from any address of ours; iif 0: from this machine. False: there is no way. */
static bool find_way(struct mnl_socket *s, const struct ip_addr *to, const struct ip_addr *from, unsigned iif,
                     struct way *w)
{
	union rtnl_msg msg = {0};
	struct nlmsghdr *h = rtnl_begin(&msg, RTM_GETROUTE, NLM_F_ACK);
	struct rtmsg *r = mnl_nlmsg_put_extra_header(h, sizeof(*r));

	memset(w, 0, sizeof(*w));
	w->via = *to;
	r->rtm_family = ip_addr_is4(to) ? AF_INET : AF_INET6;
	r->rtm_dst_len = ip_addr_is4(to) ? 32 : 128;
	rtnl_put_addr(h, RTA_DST, to);
	if (from != NULL) {
		r->rtm_src_len = r->rtm_dst_len;
		rtnl_put_addr(h, RTA_SRC, from);
	}
	if (iif != 0)
		mnl_attr_put_u32(h, RTA_IIF, iif);
	return rtnl_ask(s, h, take_way, w) == 0 && w->found && w->unicast;
}

/* --- interfaces that stand on others --- */

struct lower {
	unsigned index; /* asked about */
	unsigned lower; /* 0: it stands on none */
};

static int take_lower(const struct nlmsghdr *h, void *arg)
{
	struct lower *l = arg;
	struct nlattr *a;

	EACH_ATTRIBUTE(a, h, sizeof(struct ifinfomsg))
	if (mnl_attr_get_type(a) == IFLA_LINK && mnl_attr_get_payload_len(a) == sizeof(uint32_t))
		l->lower = mnl_attr_get_u32(a);
	return MNL_CB_OK;
}

static unsigned lower_of(struct mnl_socket *s, unsigned index)
{
	struct lower l = {.index = index};
	union rtnl_msg msg = {0};
	struct nlmsghdr *h = rtnl_begin(&msg, RTM_GETLINK, NLM_F_ACK);
	struct ifinfomsg *i = mnl_nlmsg_put_extra_header(h, sizeof(*i));

	i->ifi_index = (int)index;
	return rtnl_ask(s, h, take_lower, &l) == 0 ? l.lower : 0;
}

/* The interface is one of the link's LAN ports, or a VLAN on one. */
static bool is_lan(struct mnl_socket *s, const struct link_config *c, unsigned index)
{
	for (unsigned depth = 0; depth < LINKS_DEPTH && index != 0; depth++) {
		for (uint32_t i = 0; i < c->nlan_ports; i++)
			if (if_nametoindex(c->lan_ports[i]) == index)
				return true;
		index = lower_of(s, index);
	}
	return false;
}

/* --- routes that there are --- */

struct route_search {
	struct mnl_socket *s;
	const struct link_config *c;
	const struct ip_prefix *p;
	unsigned oif[64]; /* of routes to addresses of the prefix */
	uint32_t n;
};

static bool route_prefix(const struct nlmsghdr *h, struct ip_prefix *p, unsigned *oif)
{
	const struct rtmsg *r = mnl_nlmsg_get_payload(h);
	bool ip4 = r->rtm_family == AF_INET;
	struct nlattr *a;

	memset(p, 0, sizeof(*p));
	*oif = 0;
	if (ip4)
		p->addr.b[10] = p->addr.b[11] = 0xff;
	p->len = (uint8_t)(r->rtm_dst_len + (ip4 ? 96 : 0));
	EACH_ATTRIBUTE(a, h, sizeof(*r))
	{
		if (mnl_attr_get_type(a) == RTA_DST)
			rtnl_get_addr(&p->addr, mnl_attr_get_payload(a), mnl_attr_get_payload_len(a));
		if (mnl_attr_get_type(a) == RTA_OIF && mnl_attr_get_payload_len(a) == sizeof(uint32_t))
			*oif = mnl_attr_get_u32(a);
	}
	return r->rtm_type == RTN_UNICAST && *oif != 0;
}

static int take_route(const struct nlmsghdr *h, void *arg)
{
	struct route_search *rs = arg;
	struct ip_prefix p;
	unsigned oif;

	if (h->nlmsg_type == RTM_NEWROUTE && route_prefix(h, &p, &oif) && addr_prefixes_overlap(&p, rs->p) &&
	    rs->n < sizeof(rs->oif) / sizeof(rs->oif[0]))
		rs->oif[rs->n++] = oif;
	return MNL_CB_OK;
}

/* True if a route to some addresses of the prefix leaves by a LAN port: hosts of a prefix may be in several places, so
 * one such route is enough. */
static bool has_lan_route(struct mnl_socket *s, const struct link_config *c, const struct ip_prefix *p)
{
	struct route_search rs = {.s = s, .c = c, .p = p};
	union rtnl_msg msg = {0};
	struct nlmsghdr *h = rtnl_begin(&msg, RTM_GETROUTE, NLM_F_DUMP);
	struct rtmsg *r = mnl_nlmsg_put_extra_header(h, sizeof(*r));

	r->rtm_family = ip_prefix_is4(p) ? AF_INET : AF_INET6;
	if (rtnl_ask(s, h, take_route, &rs) < 0)
		return true; /* unknown: assume that there is one */
	for (uint32_t i = 0; i < rs.n; i++)
		if (is_lan(s, c, rs.oif[i]))
			return true;
	return rs.n == sizeof(rs.oif) / sizeof(rs.oif[0]);
}

/* Looks at hosts of one address family. A prefix may be configured for future hosts. */
static void look_at_family(struct doctor *d, struct mnl_socket *s, const struct link_config *c, bool ip4)
{
	const struct ip_prefix *first = NULL;
	char t[ADDR_TEXT_MAX];

	for (uint32_t i = 0; i < c->nlocal; i++) {
		if (ip_prefix_is4(&c->local[i]) != ip4)
			continue;
		if (has_lan_route(s, c, &c->local[i]))
			return;
		first = first != NULL ? first : &c->local[i];
	}
	if (first != NULL && c->nlan_ports > 0)
		doctor_find(
		    d,
		    "no route to LocalPrefix=%s leads out of a LAN port: the edge can deliver no packet there\ngive %s "
		    "an address of that network, or add a route by the site's router with `ip route add`",
		    addr_write_prefix(first, t, sizeof(t)), c->lan_ports[0]);
}

void doctor_local_route(struct doctor *d, const struct doctor_link *l)
{
	struct mnl_socket *s = l->has_config ? rtnl_open() : NULL;

	if (s == NULL)
		return;
	look_at_family(d, s, &l->config, true);
	look_at_family(d, s, &l->config, false);
	mnl_socket_close(s);
}

/* A host address of a prefix, not the network address. */
static struct ip_addr some_host(const struct ip_prefix *p)
{
	struct ip_addr a = p->addr;

	if (p->len < 127)
		a.b[15] |= 1;
	return a;
}

/* Checks routes to the remote prefixes. With a barrier the daemon has routes of its own; RoCE needs none. */
void doctor_remote_route(struct doctor *d, const struct doctor_link *l)
{
	struct mnl_socket *s = NULL;
	char t[ADDR_TEXT_MAX];
	struct way w;

	if (l->has_config && config_barrier(&l->config) == BARRIER_OFF)
		s = rtnl_open();
	for (uint32_t i = 0; s != NULL && i < l->config.nremote; i++) {
		struct ip_addr host = some_host(&l->config.remote[i]);

		if (!find_way(s, &host, NULL, 0, &w))
			doctor_find(
			    d,
			    "this edge has no route to RemotePrefix=%s: the link carries RoCE, and the kernel forwards "
			    "no other IP of the hosts (ping, TCP, NCCL's bootstrap)\nadd a route towards the other "
			    "site with `ip route add`, or set Barrier=pair at both edges, which needs none",
			    addr_write_prefix(&l->config.remote[i], t, sizeof(t)));
	}
	if (s != NULL)
		mnl_socket_close(s);
}

/* --- neighbours --- */

struct neighbour {
	const struct ip_addr *a;
	unsigned oif;   /* 0: any */
	uint16_t state; /* NUD_*; 0: the kernel has no entry */
	unsigned found_oif;
};

static int take_neighbour(const struct nlmsghdr *h, void *arg)
{
	const struct ndmsg *nd = mnl_nlmsg_get_payload(h);
	struct neighbour *n = arg;
	struct ip_addr a;
	struct nlattr *attr;

	if (n->oif != 0 && (unsigned)nd->ndm_ifindex != n->oif)
		return MNL_CB_OK;
	EACH_ATTRIBUTE(attr, h, sizeof(*nd))
	if (mnl_attr_get_type(attr) == NDA_DST &&
	    rtnl_get_addr(&a, mnl_attr_get_payload(attr), mnl_attr_get_payload_len(attr)) && ip_addr_eq(&a, n->a)) {
		n->state = nd->ndm_state;
		n->found_oif = (unsigned)nd->ndm_ifindex;
	}
	return MNL_CB_OK;
}

static uint16_t neighbour_state(struct mnl_socket *s, const struct ip_addr *a, unsigned oif)
{
	struct neighbour n = {.a = a, .oif = oif};
	union rtnl_msg msg = {0};
	struct nlmsghdr *h = rtnl_begin(&msg, RTM_GETNEIGH, NLM_F_DUMP);
	struct ndmsg *nd = mnl_nlmsg_put_extra_header(h, sizeof(*nd));

	nd->ndm_family = ip_addr_is4(a) ? AF_INET : AF_INET6;
	return rtnl_ask(s, h, take_neighbour, &n) == 0 ? n.state : 0;
}

static void look_at_wan(struct doctor *d, struct mnl_socket *s, const struct path_config *p)
{
	char t[2][ADDR_TEXT_MAX], ifname[IF_NAMESIZE] = "?";
	struct way w;

	addr_write(&p->remote, t[0], sizeof(t[0]));
	if (!find_way(s, &p->remote, &p->local, 0, &w)) {
		doctor_find(d,
		            "no route from LocalAddress=%s to RemoteAddress=%s\nadd a route to the other edge with `ip "
		            "route add`",
		            addr_write(&p->local, t[1], sizeof(t[1])), t[0]);
		return;
	}
	if (!(neighbour_state(s, &w.via, w.oif) & NUD_UNKNOWN))
		return;
	if_indextoname(w.oif, ifname);
	doctor_find(d,
	            "the next hop to RemoteAddress=%s does not answer %s: %s on %s\ncheck that the next hop is up, and "
	            "on the same cable, switch and VLAN",
	            t[0], ip_addr_is4(&w.via) ? "ARP" : "neighbour discovery", addr_write(&w.via, t[1], sizeof(t[1])),
	            ifname);
}

void doctor_wan_neighbour(struct doctor *d, const struct doctor_link *l)
{
	struct mnl_socket *s = l->has_config ? rtnl_open() : NULL;

	for (uint32_t i = 0; s != NULL && i < l->config.npaths; i++)
		if (machine_has_address(&l->config.paths[i].local))
			look_at_wan(d, s, &l->config.paths[i]);
	if (s != NULL)
		mnl_socket_close(s);
}

#define HOSTS_MAX 256 /* most hosts that are looked at */

struct seen {
	struct ip_addr a[HOSTS_MAX];
	uint32_t n;
};

/* True the first time. */
static bool see(struct seen *seen, const struct ip_addr *a)
{
	for (uint32_t i = 0; i < seen->n; i++)
		if (ip_addr_eq(&seen->a[i], a))
			return false;
	if (seen->n == HOSTS_MAX)
		return false;
	seen->a[seen->n++] = *a;
	return true;
}

static void look_at_host(struct doctor *d, struct mnl_socket *s, const char *host, const struct ip_addr *a)
{
	char t[ADDR_TEXT_MAX], ifname[IF_NAMESIZE] = "?";
	struct way w;

	if (!find_way(s, a, NULL, 0, &w) || !(neighbour_state(s, &w.via, w.oif) & NUD_UNKNOWN))
		return;
	if_indextoname(w.oif, ifname);
	doctor_find(d,
	            "host %s has flows, and %s%s does not answer %s on %s\ncheck that it is up, on that port's "
	            "network, with that address",
	            host, ip_addr_eq(a, &w.via) ? "it" : "its next hop ",
	            ip_addr_eq(a, &w.via) ? "" : addr_write(&w.via, t, sizeof(t)),
	            ip_addr_is4(a) ? "ARP" : "neighbour discovery", ifname);
}

bool doctor_host_is_deaf(const struct ip_addr *host)
{
	struct mnl_socket *s = rtnl_open();
	struct way w;
	bool deaf;

	if (s == NULL)
		return false;
	deaf = find_way(s, host, NULL, 0, &w) && (neighbour_state(s, &w.via, w.oif) & NUD_UNKNOWN);
	mnl_socket_close(s);
	return deaf;
}

/* Looks at local hosts that have flows: a host without flows may be switched off. */
void doctor_lan_neighbour(struct doctor *d, const struct doctor_link *l)
{
	const struct json_object *flows = j_get(l->now, "flows"), *f;
	struct mnl_socket *s = rtnl_open();
	static struct seen seen;
	struct ip_addr a;

	seen.n = 0;
	for (size_t i = 0; s != NULL && (f = j_at(flows, i)) != NULL; i++) {
		const char *host = j_text(f, strcmp(j_text(f, "side"), "near") == 0 ? "src" : "dst");

		if (addr_read(host, &a) == 0 && see(&seen, &a))
			look_at_host(d, s, host, &a);
	}
	if (s != NULL)
		mnl_socket_close(s);
}

/* --- rp_filter --- */

static int64_t rp_filter(const char *ifname)
{
	char path[96];
	int64_t all = 0, own = 0;

	machine_number("/proc/sys/net/ipv4/conf/all/rp_filter", &all);
	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/rp_filter", ifname);
	machine_number(path, &own);
	return all > own ? all : own;
}

/* With strict rp_filter, datagrams of the other edge must come in by the interface that the route to it uses. */
static void look_at_returns(struct doctor *d, struct mnl_socket *s, const struct path_config *p)
{
	char ifname[IF_NAMESIZE], out[IF_NAMESIZE] = "nowhere", t[2][ADDR_TEXT_MAX];
	struct way w;

	if (!ip_addr_is4(&p->remote) || !machine_port_of(&p->local, ifname) || rp_filter(ifname) != 1)
		return;
	/* the kernel's own lookup when a packet has come in there: the route back */
	if (find_way(s, &p->remote, &p->local, 0, &w) && w.oif == if_nametoindex(ifname))
		return;
	if (w.found && w.oif != 0)
		if_indextoname(w.oif, out);
	doctor_find(d,
	            "rp_filter=1 on %s drops packets from RemoteAddress=%s, as the route to that address leads to %s\nrun "
	            "`sysctl -w net.ipv4.conf.%s.rp_filter=2` (and conf.all), or add a route to %s by %s",
	            ifname, addr_write(&p->remote, t[0], sizeof(t[0])), out, ifname, t[0], ifname);
}

void doctor_rp_filter(struct doctor *d, const struct doctor_link *l)
{
	struct mnl_socket *s = l->has_config ? rtnl_open() : NULL;

	for (uint32_t i = 0; s != NULL && i < l->config.npaths; i++)
		look_at_returns(d, s, &l->config.paths[i]);
	if (s != NULL)
		mnl_socket_close(s);
}
