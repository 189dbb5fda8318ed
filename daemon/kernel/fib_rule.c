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
#include "daemon/util/log.h"
#include "daemon/util/rtnl.h"

/* Priorities before the tables main and default, after local: packets for this machine reach it.
 *
 * The kernel gives rules no port for fragments, not even for the first one, which has the port: all fragments of RoCEv2
 * pass PRIORITY_ROCE. Nor can a rule match fragments, or port 0. So packets with a port skip PRIORITY_PIECES:
 *
 *     89  ipproto udp dport 4791 blackhole                       while a link file cannot be understood
 *     90  from HERE to THERE ipproto udp dport 4791 blackhole
 *     91  from HERE to THERE lookup TABLE                        with a barrier, and none of what follows
 *     92  from HERE to THERE iif lo goto 94                      what this machine sends, and its rp_filter for itself
 *     92  from HERE to THERE ipproto udp sport 1-65534 goto 94
 *     92  from HERE to THERE ipproto udp dport 1-65534 goto 94
 *     93  from HERE to THERE ipproto udp blackhole               pieces; and what is both from and to port 65535
 *     94  from HERE to THERE nop
 *
 * The kernel takes a rule without prefixes for the same as a rule of its priority with prefixes: it could not be added
 * beside a link's rules at 90, and removing it would remove one of those. */
enum priorities { PRIORITY_ALL = 89, PRIORITY_ROCE, PRIORITY_IP, PRIORITY_PORTS, PRIORITY_PIECES, PRIORITY_PASS };

enum {
	STALE_MAX = 4096,  /* rules that are removed between two listings */
	LISTINGS_MAX = 10, /* attempts at a list while somebody else changes rules */
	PORT_MAX = 65534, /* the largest port that a rule may name */
};

#define THIS_MACHINE "lo" /* the input interface of packets that this machine sends itself */

/* One rule: from one prefix to another of the same family. */
struct pair {
	uint8_t family, from_len, to_len;
	uint8_t proto;  /* 0: all IP */
	uint8_t action; /* FR_ACT_GOTO: to PRIORITY_PASS */
	uint32_t priority;
	uint32_t table;                          /* FR_ACT_TO_TBL: the table that such packets are looked up in; else
	                                          * 0 */
	struct fib_rule_port_range sport, dport; /* of UDP; zeros: any, or none */
	struct ip_addr from, to;
	const char *port; /* input interface; NULL: any */
};

/* The rules of two prefixes, in the order in which they are numbered. Among the rules about fragments the dropping one
 * is set last and removed first: without the others it would drop all UDP. */
enum way {
	ROCE_OUT,
	ROCE_IN,
	ALL_IP,
	PIECES_PASS,
	PIECES_OF_HERE,
	PIECES_FROM_PORT,
	PIECES_TO_PORT,
	PIECES_DROP,
	WAYS
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

static void make_roce(struct pair *pair)
{
	pair->proto = IPPROTO_UDP;
	pair->dport = (struct fib_rule_port_range){ROCE_UDP_PORT, ROCE_UDP_PORT};
	pair->priority = PRIORITY_ROCE;
	pair->action = FR_ACT_BLACKHOLE;
}

static void make_lookup(struct pair *pair, const struct link_config *c)
{
	pair->priority = PRIORITY_IP;
	pair->action = FR_ACT_TO_TBL;
	pair->table = ip_port_table(c->name);
}

static void make_pieces(struct pair *pair, enum way way)
{
	static const struct fib_rule_port_range any = {1, PORT_MAX};

	pair->priority = way == PIECES_PASS ? PRIORITY_PASS : way == PIECES_DROP ? PRIORITY_PIECES : PRIORITY_PORTS;
	pair->action = way == PIECES_PASS ? FR_ACT_NOP : way == PIECES_DROP ? FR_ACT_BLACKHOLE : FR_ACT_GOTO;
	if (way == PIECES_OF_HERE)
		pair->port = THIS_MACHINE;
	else if (way != PIECES_PASS)
		pair->proto = IPPROTO_UDP;
	if (way == PIECES_FROM_PORT)
		pair->sport = any;
	if (way == PIECES_TO_PORT)
		pair->dport = any;
}

static void make_way(struct pair *pair, const struct link_config *c, enum way way)
{
	if (way == ROCE_OUT || way == ROCE_IN)
		make_roce(pair);
	else if (way == ALL_IP)
		make_lookup(pair, c);
	else
		make_pieces(pair, way);
}

static uint32_t pairs_of(const struct link_config *c)
{
	return c->nlocal * c->nremote;
}

/* The n-th rule of a link: for each enum way the rules of each two prefixes; then the rules for ICMP that this machine
 * itself sends to hosts there, such as errors about packets of the link. False: there are no more rules. *skip: no rule
 * has that number. */
static bool nth_pair(const struct link_config *c, uint32_t n, struct pair *pair, bool *skip)
{
	uint32_t per_way = pairs_of(c), i = per_way ? n % per_way : 0, way = per_way ? n / per_way : 0;
	const struct ip_prefix *here, *there;

	if (per_way == 0 || n >= WAYS * per_way + c->nremote)
		return false;
	if (way >= WAYS) {
		*skip = !make_pair(pair, NULL, &c->remote[n - WAYS * per_way]);
		make_lookup(pair, c);
		pair->proto = pair->family == AF_INET ? IPPROTO_ICMP : IPPROTO_ICMPV6;
		pair->port = THIS_MACHINE;
		return true;
	}
	here = &c->local[i / c->nremote];
	there = &c->remote[i % c->nremote];
	*skip = way == ROCE_IN ? !make_pair(pair, there, here) : !make_pair(pair, here, there);
	make_way(pair, c, (enum way)way);
	return true;
}

/* --- netlink --- */

static struct nlmsghdr *build_rule(union rtnl_msg *msg, uint16_t type, uint16_t flags, const struct pair *p)
{
	struct nlmsghdr *h = rtnl_begin(msg, type, flags);
	struct fib_rule_hdr *rule = mnl_nlmsg_put_extra_header(h, sizeof(*rule));

	rule->family = p->family;
	rule->src_len = p->from_len;
	rule->dst_len = p->to_len;
	rule->action = p->action;
	if (p->from_len > 0)
		rtnl_put_addr(h, FRA_SRC, &p->from);
	if (p->to_len > 0)
		rtnl_put_addr(h, FRA_DST, &p->to);
	mnl_attr_put_u32(h, FRA_PRIORITY, p->priority);
	mnl_attr_put_u8(h, FRA_PROTOCOL, FIB_RULE_PROTOCOL);
	if (p->table)
		mnl_attr_put_u32(h, FRA_TABLE, p->table);
	if (p->port)
		mnl_attr_put_strz(h, FRA_IIFNAME, p->port);
	if (p->proto)
		mnl_attr_put_u8(h, FRA_IP_PROTO, p->proto);
	if (p->sport.start)
		mnl_attr_put(h, FRA_SPORT_RANGE, sizeof(p->sport), &p->sport);
	if (p->dport.start)
		mnl_attr_put(h, FRA_DPORT_RANGE, sizeof(p->dport), &p->dport);
	if (p->action == FR_ACT_GOTO)
		mnl_attr_put_u32(h, FRA_GOTO, PRIORITY_PASS);
	return h;
}

/* Adds or removes a rule. 1; 0 if it was there, or gone, already; negative errno. */
static int change(struct mnl_socket *s, const struct pair *pair, bool there)
{
	union rtnl_msg msg;
	int r = rtnl_talk(s, there ? build_rule(&msg, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, pair)
	                           : build_rule(&msg, RTM_DELRULE, 0, pair));

	return r == 0 ? 1 : r == (there ? -EEXIST : -ENOENT) ? 0 : r;
}

/* Of two results: the first error, else 1 if either is 1. */
static int both(int a, int b)
{
	return a < 0 ? a : b < 0 ? b : a | b;
}

/* Rules n to end - 1 of the link. 1; 0 if they were so already; the first error, and all rules are tried in any case. */
static int set_range(struct mnl_socket *s, const struct link_config *c, uint32_t n, uint32_t end, bool there)
{
	struct pair pair;
	int r = 0;
	bool skip;

	for (; n < end && nth_pair(c, n, &pair, &skip); n++)
		r = skip ? r : both(r, change(s, &pair, there));
	return r;
}

static int set_pieces(struct mnl_socket *s, const struct link_config *c, bool closed)
{
	uint32_t first = PIECES_PASS * pairs_of(c), drop = PIECES_DROP * pairs_of(c), end = drop + pairs_of(c);
	int r = closed ? set_range(s, c, first, drop, true) : set_range(s, c, drop, end, false);

	if (r < 0)
		return r;
	return both(r, closed ? set_range(s, c, drop, end, true) : set_range(s, c, first, drop, false));
}

int fib_rule_set(const struct link_config *c, bool all_ip)
{
	struct mnl_socket *s = rtnl_open();
	uint32_t pairs = pairs_of(c);
	int r[4], all = 0;

	if (!s)
		return -errno;
	r[0] = set_range(s, c, 0, ALL_IP * pairs, true);
	r[1] = all_ip ? 0 : set_pieces(s, c, true);
	r[2] = set_range(s, c, ALL_IP * pairs, PIECES_PASS * pairs, all_ip);
	r[3] = set_range(s, c, WAYS * pairs, UINT32_MAX, all_ip);
	if (all_ip) /* fragments take the IP port */
		r[1] = set_pieces(s, c, false);
	mnl_socket_close(s);
	for (unsigned i = 0; i < 4; i++)
		all = both(all, r[i]);
	return all;
}

int fib_rule_set_all(bool closed)
{
	static const uint8_t families[] = {AF_INET, AF_INET6};
	struct mnl_socket *s = rtnl_open();
	int worst = s ? 0 : -errno, changed = 0;

	for (unsigned i = 0; s && i < 2; i++) {
		struct pair any = {.family = families[i]};
		int r;

		make_roce(&any);
		any.priority = PRIORITY_ALL;
		r = change(s, &any, closed);
		/* a kernel without IPv6 forwards no IPv6 */
		if (r < 0 && r != -EAFNOSUPPORT && worst == 0)
			worst = r;
		changed |= r > 0;
	}
	if (s)
		mnl_socket_close(s);
	return worst < 0 ? worst : changed;
}

/* --- those that there are --- */

/* Rules of ours that no link asks for: as many as there is room for, from one listing. */
struct stale {
	const struct link_config *links;
	uint32_t nlinks;
	bool drops; /* lists dropping rules; else the others */
	struct {
		struct pair pair;
		char port[IFNAMSIZ];
	} rule[STALE_MAX];
	uint32_t n;
	uint64_t seen; /* rules of ours that no link asks for, including those without room */
};

struct found {
	struct pair pair;
	char port[IFNAMSIZ];
	bool is_ours;
};

static void get_range(struct fib_rule_port_range *range, const struct nlattr *attr)
{
	if (mnl_attr_get_payload_len(attr) >= sizeof(*range))
		memcpy(range, mnl_attr_get_payload(attr), sizeof(*range));
}

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
	case FRA_PRIORITY:
		found->pair.priority = mnl_attr_get_u32(attr);
		break;
	case FRA_SPORT_RANGE:
		get_range(&found->pair.sport, attr);
		break;
	case FRA_DPORT_RANGE:
		get_range(&found->pair.dport, attr);
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

static bool same_port(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_range(const struct fib_rule_port_range *a, const struct fib_rule_port_range *b)
{
	return a->start == b->start && a->end == b->end;
}

static bool same_pair(const struct pair *a, const struct pair *b)
{
	return same_port(a->port, b->port) && a->family == b->family && a->from_len == b->from_len &&
	       a->to_len == b->to_len && a->proto == b->proto && a->table == b->table && a->action == b->action &&
	       a->priority == b->priority && same_range(&a->sport, &b->sport) && same_range(&a->dport, &b->dport) &&
	       (a->from_len == 0 || memcmp(&a->from, &b->from, sizeof(a->from)) == 0) &&
	       (a->to_len == 0 || memcmp(&a->to, &b->to, sizeof(a->to)) == 0);
}

/* p's from or to is that prefix. */
static bool is_prefix(const struct ip_prefix *prefix, const struct pair *p, bool from)
{
	uint8_t len = from ? p->from_len : p->to_len;
	struct pair is;

	make_pair(&is, NULL, prefix);
	return is.family == p->family && is.to_len == len &&
	       (len == 0 || memcmp(&is.to, from ? &p->from : &p->to, sizeof(is.to)) == 0);
}

static uint32_t find_prefix(const struct ip_prefix *list, uint32_t n, const struct pair *p, bool from)
{
	uint32_t i = 0;

	while (i < n && !is_prefix(&list[i], p, from))
		i++;
	return i;
}

static bool is_nth(const struct link_config *c, uint32_t n, const struct pair *p)
{
	struct pair is;
	bool skip;

	return nth_pair(c, n, &is, &skip) && !skip && same_pair(&is, p);
}

/* Whether a link asks for this rule. Does not try all numbers: with hundreds of prefixes, each of thousands of rules
 * would be compared with thousands. */
static bool asks_for(const struct link_config *c, const struct pair *p)
{
	uint32_t per_way = pairs_of(c);

	for (uint32_t i = 0; p->from_len == 0 && i < c->nremote; i++)
		if (is_nth(c, WAYS * per_way + i, p))
			return true;
	for (unsigned inwards = 0; inwards < 2; inwards++) {
		uint32_t here = find_prefix(c->local, c->nlocal, p, !inwards);
		uint32_t there = here < c->nlocal ? find_prefix(c->remote, c->nremote, p, inwards) : c->nremote;

		for (uint32_t way = 0; there < c->nremote && way < WAYS; way++)
			if (is_nth(c, way * per_way + here * c->nremote + there, p))
				return true;
	}
	return false;
}

static bool wanted(const struct link_config *links, uint32_t n, const struct pair *p)
{
	for (uint32_t i = 0; i < n; i++)
		if (asks_for(&links[i], p))
			return true;
	return false;
}

/* Removes rules n to end - 1 of c that no kept link asks for. As set_range(). */
static int remove_range(struct mnl_socket *s, const struct link_config *c, uint32_t n, uint32_t end,
                        const struct link_config *kept, uint32_t nkept)
{
	struct pair pair;
	int r = 0;
	bool skip;

	for (; n < end && nth_pair(c, n, &pair, &skip); n++)
		r = skip || wanted(kept, nkept, &pair) ? r : both(r, change(s, &pair, false));
	return r;
}

/* Removes rules that drop fragments first: see enum way. */
int fib_rule_remove(const struct link_config *c, const struct link_config *kept, uint32_t n)
{
	struct mnl_socket *s = rtnl_open();
	uint32_t drop = PIECES_DROP * pairs_of(c);
	int r;

	if (!s)
		return -errno;
	r = remove_range(s, c, drop, drop + pairs_of(c), kept, n);
	if (r >= 0)
		r = both(r, remove_range(s, c, 0, UINT32_MAX, kept, n));
	mnl_socket_close(s);
	return r;
}

static int on_rule(const struct nlmsghdr *h, void *arg)
{
	const struct fib_rule_hdr *rule = mnl_nlmsg_get_payload(h);
	struct found found = {
	    .pair = {
	        .family = rule->family, .from_len = rule->src_len, .to_len = rule->dst_len, .action = rule->action}};
	struct stale *s = arg;

	if (h->nlmsg_type != RTM_NEWRULE)
		return MNL_CB_OK;
	if (mnl_attr_parse(h, sizeof(*rule), on_attr, &found) < 0)
		return MNL_CB_ERROR;
	if (!found.is_ours || (rule->action == FR_ACT_BLACKHOLE) != s->drops)
		return MNL_CB_OK;
	if (rule->action != FR_ACT_TO_TBL)
		found.pair.table = 0;
	found.pair.port = found.port[0] ? found.port : NULL;
	if (wanted(s->links, s->nlinks, &found.pair))
		return MNL_CB_OK;
	s->seen++;
	if (s->n == STALE_MAX)
		return MNL_CB_OK;
	s->rule[s->n].pair = found.pair;
	memcpy(s->rule[s->n].port, found.port, IFNAMSIZ);
	s->rule[s->n].pair.port = found.port[0] ? s->rule[s->n].port : NULL;
	s->n++;
	return MNL_CB_OK;
}

/* Lists stale rules; repeats if rules changed meanwhile, because such a list may be incomplete. */
static int list_stale(struct mnl_socket *sock, struct stale *s)
{
	union rtnl_msg msg;
	int r = -EINTR;

	for (unsigned i = 0; r == -EINTR && i < LISTINGS_MAX; i++) {
		struct nlmsghdr *h = rtnl_begin(&msg, RTM_GETRULE, NLM_F_DUMP);
		struct fib_rule_hdr *rule = mnl_nlmsg_put_extra_header(h, sizeof(*rule));

		rule->family = AF_UNSPEC;
		s->n = 0;
		s->seen = 0;
		r = rtnl_ask(sock, h, on_rule, s);
	}
	return r;
}

/* Removes stale rules, and repeats while there are more than there is room for. Stops if a pass does not reduce their
 * number, as a listed rule may be impossible to remove. */
static int sweep(struct mnl_socket *sock, struct stale *s, bool drops)
{
	uint64_t before = UINT64_MAX;

	s->drops = drops;
	for (;;) {
		int r = list_stale(sock, s), worst = 0;

		if (r < 0 || s->seen == 0)
			return r;
		if (s->seen >= before)
			return -EBUSY;
		before = s->seen;
		for (uint32_t i = 0; i < s->n; i++) {
			r = change(sock, &s->rule[i].pair, false);
			worst = worst == 0 && r < 0 ? r : worst;
		}
		if (worst < 0)
			return worst;
	}
}

/* Removes dropping rules first: see enum way. */
int fib_rule_sweep(const struct link_config *links, uint32_t n)
{
	struct stale *s = calloc(1, sizeof(*s));
	struct mnl_socket *sock = rtnl_open();
	int r = s && sock ? 0 : -ENOMEM;

	if (r == 0) {
		s->links = links;
		s->nlinks = n;
		r = sweep(sock, s, true);
	}
	if (r == 0)
		r = sweep(sock, s, false);
	if (r < 0)
		log_warn("cannot remove rules of `ip rule` whose link files are gone: %s; traffic that these rules "
		         "drop stays closed; `ip rule show` and `ip -6 rule show` list them with protocol %d",
		         strerror(-r), FIB_RULE_PROTOCOL);
	if (sock)
		mnl_socket_close(sock);
	free(s);
	return r;
}
