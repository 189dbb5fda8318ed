/* SPDX-License-Identifier: Apache-2.0 */
#include "fib_rule.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>

#include "ip_port.h"
#include "daemon/util/rtnl.h"

/* In front of the tables main and default, behind local: what is for this machine gets there. */
enum priorities { PRIORITY_ROCE = 90, PRIORITY_IP };

enum { OURS_MAX = 4096 };

#define THIS_MACHINE "lo" /* the interface that what it sends itself comes from */

/* One rule: from one prefix to another of the same family. */
struct pair {
	uint8_t family, from_len, to_len;
	uint8_t proto;  /* 0: all IP; UDP: to ROCE_UDP_PORT */
	uint32_t table; /* that such packets are looked up in; 0: they are dropped */
	struct ip_addr from, to;
	const char *port; /* where they come in; NULL: anywhere */
};

/* from NULL: from anywhere. */
static bool make_pair(struct pair *pair, const struct ip_prefix *from, const struct ip_prefix *to)
{
	bool v4 = ip_prefix_is4(to);
	uint8_t skip = v4 ? 96 : 0;

	memset(pair, 0, sizeof(*pair));
	pair->family = v4 ? AF_INET : AF_INET6;
	pair->to_len = (uint8_t)(to->len - skip);
	pair->to = to->addr;
	if (!from)
		return true;
	pair->from_len = (uint8_t)(from->len - skip);
	pair->from = from->addr;
	return ip_prefix_is4(from) == v4;
}

/* The n-th rule of a link: RoCEv2 from here, RoCEv2 from there, all IP from here, and what this machine itself has to
 * say by ICMP to hosts there, errors about packets of the link among it. False: there are no more. *skip: that number
 * is none. */
static bool nth_pair(const struct link_config *c, uint32_t n, struct pair *pair, bool *skip)
{
	uint32_t per_way = c->nlocal * c->nremote, i = per_way ? n % per_way : 0, way = per_way ? n / per_way : 0;
	const struct ip_prefix *here, *there;

	if (per_way == 0 || n >= 3 * per_way + c->nremote)
		return false;
	if (way >= 3) {
		*skip = !make_pair(pair, NULL, &c->remote[n - 3 * per_way]);
		pair->proto = pair->family == AF_INET ? IPPROTO_ICMP : IPPROTO_ICMPV6;
		pair->table = ip_port_table(c->name);
		pair->port = THIS_MACHINE;
		return true;
	}
	here = &c->local[i / c->nremote];
	there = &c->remote[i % c->nremote];
	*skip = way == 1 ? !make_pair(pair, there, here) : !make_pair(pair, here, there);
	pair->proto = way < 2 ? IPPROTO_UDP : 0;
	pair->table = way < 2 ? 0 : ip_port_table(c->name);
	return true;
}

/* --- netlink --- */

static struct nlmsghdr *build_rule(union rtnl_msg *msg, uint16_t type, uint16_t flags, const struct pair *p)
{
	struct fib_rule_port_range port = {.start = ROCE_UDP_PORT, .end = ROCE_UDP_PORT};
	struct nlmsghdr *h = rtnl_begin(msg, type, flags);
	struct fib_rule_hdr *rule = mnl_nlmsg_put_extra_header(h, sizeof(*rule));

	rule->family = p->family;
	rule->src_len = p->from_len;
	rule->dst_len = p->to_len;
	rule->action = p->table ? FR_ACT_TO_TBL : FR_ACT_BLACKHOLE;
	if (p->from_len > 0)
		rtnl_put_addr(h, FRA_SRC, &p->from);
	if (p->to_len > 0)
		rtnl_put_addr(h, FRA_DST, &p->to);
	mnl_attr_put_u32(h, FRA_PRIORITY, p->table ? PRIORITY_IP : PRIORITY_ROCE);
	mnl_attr_put_u8(h, FRA_PROTOCOL, FIB_RULE_PROTOCOL);
	if (p->table)
		mnl_attr_put_u32(h, FRA_TABLE, p->table);
	if (p->port)
		mnl_attr_put_strz(h, FRA_IIFNAME, p->port);
	if (p->proto)
		mnl_attr_put_u8(h, FRA_IP_PROTO, p->proto);
	if (p->proto == IPPROTO_UDP)
		mnl_attr_put(h, FRA_DPORT_RANGE, sizeof(port), &port);
	return h;
}

/* Adds it, or removes it; being there or gone already is as good. */
static int set(struct mnl_socket *s, const struct pair *pair, bool there)
{
	union rtnl_msg msg;
	int r = rtnl_talk(s, there ? build_rule(&msg, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, pair)
	                           : build_rule(&msg, RTM_DELRULE, 0, pair));

	return r == (there ? -EEXIST : -ENOENT) ? 0 : r;
}

int fib_rule_set(const struct link_config *c, bool roce, bool all_ip)
{
	struct mnl_socket *s = rtnl_open();
	struct pair pair;
	int worst = s ? 0 : -errno;
	bool skip;

	for (uint32_t i = 0; s && nth_pair(c, i, &pair, &skip); i++) {
		int r = skip ? 0 : set(s, &pair, pair.table ? all_ip : roce);

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
	case FRA_IP_PROTO:
		found->pair.proto = mnl_attr_get_u8(attr);
		break;
	case FRA_TABLE:
		found->pair.table = mnl_attr_get_u32(attr);
		break;
	case FRA_IIFNAME:
		snprintf(found->port, sizeof(found->port), "%.*s", (int)mnl_attr_get_payload_len(attr),
		         mnl_attr_get_str(attr));
		break;
	case FRA_SRC:
		rtnl_get_addr(&found->pair.from, mnl_attr_get_payload(attr), mnl_attr_get_payload_len(attr));
		break;
	case FRA_DST:
		rtnl_get_addr(&found->pair.to, mnl_attr_get_payload(attr), mnl_attr_get_payload_len(attr));
		break;
	}
	return MNL_CB_OK;
}

static int on_rule(const struct nlmsghdr *h, void *arg)
{
	const struct fib_rule_hdr *rule = mnl_nlmsg_get_payload(h);
	struct found found = {.pair = {.family = rule->family, .from_len = rule->src_len, .to_len = rule->dst_len}};
	struct ours *ours = arg;

	if (h->nlmsg_type != RTM_NEWRULE)
		return MNL_CB_OK;
	if (mnl_attr_parse(h, sizeof(*rule), on_attr, &found) < 0)
		return MNL_CB_ERROR;
	if (!found.is_ours || ours->n == OURS_MAX)
		return MNL_CB_OK;
	if (rule->action != FR_ACT_TO_TBL)
		found.pair.table = 0;
	memcpy(ours->port[ours->n], found.port, IFNAMSIZ);
	ours->pair[ours->n] = found.pair;
	ours->pair[ours->n].port = found.port[0] ? ours->port[ours->n] : NULL;
	ours->n++;
	return MNL_CB_OK;
}

static int list_ours(struct mnl_socket *s, struct ours *ours)
{
	union rtnl_msg msg;
	struct nlmsghdr *h = rtnl_begin(&msg, RTM_GETRULE, NLM_F_DUMP);
	struct fib_rule_hdr *rule = mnl_nlmsg_put_extra_header(h, sizeof(*rule));

	rule->family = AF_UNSPEC;
	return rtnl_ask(s, h, on_rule, ours);
}

static bool same_port(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_pair(const struct pair *a, const struct pair *b)
{
	return same_port(a->port, b->port) && a->family == b->family && a->from_len == b->from_len &&
	       a->to_len == b->to_len && a->proto == b->proto && a->table == b->table &&
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
	struct mnl_socket *s = rtnl_open();
	union rtnl_msg msg;
	int r = ours && s ? list_ours(s, ours) : -ENOMEM;

	for (uint32_t i = 0; r == 0 && i < ours->n; i++)
		if (!wanted(links, n, &ours->pair[i]))
			r = rtnl_talk(s, build_rule(&msg, RTM_DELRULE, 0, &ours->pair[i]));
	if (s)
		mnl_socket_close(s);
	free(ours);
	return r;
}
