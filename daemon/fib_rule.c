/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fib_rule.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <libmnl/libmnl.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>

enum {
	PRIORITY = 90,     /* in front of the tables main and default, behind local: what is for this machine gets there */
	RULE_MAX = 512,
	DUMP_MAX = 16 << 10,
	OURS_MAX = 4096,
};

/* One rule: from one prefix to another of the same family. */
struct pair {
	uint8_t family, from_len, to_len;
	struct ip_addr from, to;
	const char *port; /* all IP that comes in there; NULL: RoCEv2, wherever it comes from */
};

static bool make_pair(struct pair *pair, const struct ip_prefix *from, const struct ip_prefix *to)
{
	uint8_t skip = ip_prefix_is4(from) ? 96 : 0;

	if (ip_prefix_is4(from) != ip_prefix_is4(to))
		return false;
	memset(pair, 0, sizeof(*pair));
	pair->family = ip_prefix_is4(from) ? AF_INET : AF_INET6;
	pair->from_len = (uint8_t)(from->len - skip);
	pair->to_len = (uint8_t)(to->len - skip);
	pair->from = from->addr;
	pair->to = to->addr;
	return true;
}

/* The n-th rule of a link: RoCEv2 from here, RoCEv2 from there, then all IP from each LAN port. False: there are no more.
 * *skip: that number is none. */
static bool nth_pair(const struct link_config *c, uint32_t n, struct pair *pair, bool *skip)
{
	uint32_t per_way = c->nlocal * c->nremote, i = per_way ? n % per_way : 0, way = per_way ? n / per_way : 0;
	const struct ip_prefix *here, *there;

	if (per_way == 0 || way >= 2 + c->nlan_ports)
		return false;
	here = &c->local[i / c->nremote];
	there = &c->remote[i % c->nremote];
	*skip = way != 1 ? !make_pair(pair, here, there) : !make_pair(pair, there, here);
	pair->port = way >= 2 ? c->lan_ports[way - 2] : NULL;
	return true;
}

/* --- netlink --- */

static void put_addr(struct nlmsghdr *h, uint16_t type, const struct pair *p, const struct ip_addr *a)
{
	if (p->family == AF_INET)
		mnl_attr_put(h, type, 4, a->b + 12);
	else
		mnl_attr_put(h, type, 16, a->b);
}

static void build(struct nlmsghdr *h, uint16_t type, uint16_t flags, const struct pair *p)
{
	struct fib_rule_port_range port = {.start = ROCE_UDP_PORT, .end = ROCE_UDP_PORT};
	struct fib_rule_hdr *rule;

	h->nlmsg_type = type;
	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
	rule = mnl_nlmsg_put_extra_header(h, sizeof(*rule));
	rule->family = p->family;
	rule->src_len = p->from_len;
	rule->dst_len = p->to_len;
	rule->action = FR_ACT_BLACKHOLE;
	if (p->from_len > 0)
		put_addr(h, FRA_SRC, p, &p->from);
	if (p->to_len > 0)
		put_addr(h, FRA_DST, p, &p->to);
	mnl_attr_put_u32(h, FRA_PRIORITY, PRIORITY);
	mnl_attr_put_u8(h, FRA_PROTOCOL, FIB_RULE_PROTOCOL);
	if (p->port) {
		mnl_attr_put_strz(h, FRA_IIFNAME, p->port);
	} else {
		mnl_attr_put_u8(h, FRA_IP_PROTO, IPPROTO_UDP);
		mnl_attr_put(h, FRA_DPORT_RANGE, sizeof(port), &port);
	}
}

static struct mnl_socket *open_kernel(void)
{
	struct mnl_socket *s = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);

	if (s && mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) < 0) {
		mnl_socket_close(s);
		s = NULL;
	}
	return s;
}

/* 0 or negative errno, as the kernel answers. */
static int talk(struct mnl_socket *s, uint16_t type, uint16_t flags, const struct pair *p)
{
	union {
		struct nlmsghdr h;
		char bytes[RULE_MAX];
	} msg;
	struct nlmsghdr *h = mnl_nlmsg_put_header(&msg);
	ssize_t n;

	build(h, type, flags, p);
	if (mnl_socket_sendto(s, h, h->nlmsg_len) < 0)
		return -errno;
	n = mnl_socket_recvfrom(s, &msg, sizeof(msg));
	if (n < 0 || mnl_cb_run(&msg, (size_t)n, 0, 0, NULL, NULL) < 0)
		return -errno;
	return 0;
}

/* Adds it, or removes it; being there or gone already is as good. */
static int set(struct mnl_socket *s, const struct pair *pair, bool closed)
{
	int r = talk(s, closed ? RTM_NEWRULE : RTM_DELRULE, closed ? NLM_F_CREATE | NLM_F_EXCL : 0, pair);

	return r == (closed ? -EEXIST : -ENOENT) ? 0 : r;
}

int fib_rule_set(const struct link_config *c, bool roce, bool all_ip)
{
	struct mnl_socket *s = open_kernel();
	struct pair pair;
	int worst = s ? 0 : -errno;
	bool skip;

	for (uint32_t i = 0; s && nth_pair(c, i, &pair, &skip); i++) {
		int r = skip ? 0 : set(s, &pair, pair.port ? all_ip : roce);

		if (r < 0 && worst == 0)
			worst = r;
	}
	if (s)
		mnl_socket_close(s);
	return worst;
}

/* --- those that there are --- */

struct ours {
	struct pair pair[OURS_MAX];
	char port[OURS_MAX][IFNAMSIZ];
	uint32_t n;
};

static void get_addr(struct ip_addr *a, uint8_t family, const struct nlattr *attr)
{
	size_t want = family == AF_INET ? 4 : 16;

	memset(a, 0, sizeof(*a));
	if (family == AF_INET)
		a->b[10] = a->b[11] = 0xff;
	if (mnl_attr_get_payload_len(attr) == want)
		memcpy(a->b + 16 - want, mnl_attr_get_payload(attr), want);
}

struct found {
	struct pair pair;
	char port[IFNAMSIZ];
	bool is_ours;
};

static int on_attr(const struct nlattr *attr, void *arg)
{
	struct found *found = arg;

	switch (mnl_attr_get_type(attr)) {
	case FRA_PROTOCOL:
		found->is_ours = mnl_attr_get_u8(attr) == FIB_RULE_PROTOCOL;
		break;
	case FRA_IIFNAME:
		snprintf(found->port, sizeof(found->port), "%.*s", (int)mnl_attr_get_payload_len(attr),
		         mnl_attr_get_str(attr));
		break;
	case FRA_SRC:
		get_addr(&found->pair.from, found->pair.family, attr);
		break;
	case FRA_DST:
		get_addr(&found->pair.to, found->pair.family, attr);
		break;
	}
	return MNL_CB_OK;
}

static int on_rule(const struct nlmsghdr *h, void *arg)
{
	const struct fib_rule_hdr *rule = mnl_nlmsg_get_payload(h);
	struct found found = {
	    .pair = {.family = rule->family, .from_len = rule->src_len, .to_len = rule->dst_len}};
	struct ours *ours = arg;

	if (h->nlmsg_type != RTM_NEWRULE)
		return MNL_CB_OK;
	if (mnl_attr_parse(h, sizeof(*rule), on_attr, &found) < 0)
		return MNL_CB_ERROR;
	if (!found.is_ours || ours->n == OURS_MAX)
		return MNL_CB_OK;
	memcpy(ours->port[ours->n], found.port, IFNAMSIZ);
	ours->pair[ours->n] = found.pair;
	ours->pair[ours->n].port = found.port[0] ? ours->port[ours->n] : NULL;
	ours->n++;
	return MNL_CB_OK;
}

static int list_ours(struct mnl_socket *s, struct ours *ours)
{
	static char buf[DUMP_MAX]; /* main thread only */
	struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
	struct fib_rule_hdr *rule;
	ssize_t n;
	int r = 1;

	h->nlmsg_type = RTM_GETRULE;
	h->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	rule = mnl_nlmsg_put_extra_header(h, sizeof(*rule));
	rule->family = AF_UNSPEC;
	if (mnl_socket_sendto(s, h, h->nlmsg_len) < 0)
		return -errno;
	while (r > MNL_CB_STOP) {
		n = mnl_socket_recvfrom(s, buf, sizeof(buf));
		r = n < 0 ? MNL_CB_ERROR : mnl_cb_run(buf, (size_t)n, 0, 0, on_rule, ours);
	}
	return r < 0 ? -errno : 0;
}

static bool same_port(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_pair(const struct pair *a, const struct pair *b)
{
	return same_port(a->port, b->port) && a->family == b->family && a->from_len == b->from_len &&
	       a->to_len == b->to_len &&
	       (a->from_len == 0 || memcmp(&a->from, &b->from, sizeof(a->from)) == 0) &&
	       (a->to_len == 0 || memcmp(&a->to, &b->to, sizeof(a->to)) == 0);
}

static bool wanted(const struct link_config *links, uint32_t n, const struct pair *p)
{
	struct pair is;
	bool skip;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; nth_pair(&links[i], k, &is, &skip); k++)
			if (!skip && same_pair(&is, p))
				return true;
	return false;
}

int fib_rule_sweep(const struct link_config *links, uint32_t n)
{
	struct ours *ours = calloc(1, sizeof(*ours));
	struct mnl_socket *s = open_kernel();
	int r = ours && s ? list_ours(s, ours) : -ENOMEM;

	for (uint32_t i = 0; r == 0 && i < ours->n; i++)
		if (!wanted(links, n, &ours->pair[i]))
			r = talk(s, RTM_DELRULE, 0, &ours->pair[i]);
	if (s)
		mnl_socket_close(s);
	free(ours);
	return r;
}
