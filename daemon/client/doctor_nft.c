/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_nft.c - the doctor's checks of nft's rules: the link's own, and a firewall in front of its port.
 *
 * Theory of operation
 *
 * To find out whether a firewall drops the link's datagrams, a model packet passes the rules of each chain at the hook
 * in order, as in the kernel. A match that this code does not know may be true or false: an accepting rule with such a
 * match ends the search without a finding, a dropping rule is skipped. So every finding is certain. */
#include "doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/kernel/nft.h"
#include "daemon/machine/machine.h"
#include "daemon/util/addr.h"

#define JUMPS_MAX 8

/* --- the link's own rules --- */

static bool table_is_there(const char *link, bool *unknown)
{
	char name[16 + LINK_NAME_MAX], why[NFT_OUTPUT_MAX];
	const char *const args[] = {"list", "table", "inet", name, NULL};
	char *text;
	bool there;

	snprintf(name, sizeof(name), "longreach_%s", link);
	text = nft_ask(args, why);
	there = text != NULL && strstr(text, "4791") != NULL;
	*unknown = text == NULL && strstr(why, "No such file") == NULL;
	free(text);
	return there;
}

void doctor_nft_rules(struct doctor *d, const struct doctor_link *l)
{
	bool unknown;

	if (l->now != NULL && strcmp(j_text(l->now, "state"), "open") == 0) {
		doctor_find(d,
		            "the kernel may forward RoCE around the link: %s\nfind out what removes or refuses the nft "
		            "rules; until they are set no packet is acknowledged early",
		            j_text(l->now, "error"));
		return;
	}
	if (geteuid() != 0) {
		doctor_cannot(d, "only root can read the rules of nft");
		return;
	}
	if (table_is_there(l->name, &unknown) || (unknown && l->now != NULL))
		return;
	if (unknown)
		doctor_cannot(d, "cannot read the rules of nft: check that nft is installed");
	else
		doctor_find(d,
		            "the nft table inet longreach_%s is gone: the kernel may forward RoCE between the prefixes "
		            "unsealed\nrun `longreachd --close`, enable longreach-closed.service, and find out what "
		            "flushes the rules",
		            l->name);
}

/* --- a packet on its way through a firewall --- */

struct packet {
	const char *hook; /* input or output */
	bool udp;
	uint16_t dport;
	struct ip_addr src, dst;
	char ifname[IF_NAMESIZE]; /* "": not known */
};

enum truth { NO, MAYBE, YES };
enum verdict { GO_ON, ACCEPTED, DROPPED, NOT_KNOWN, RETURNED };

struct walk {
	const struct json_object *ruleset; /* the array of nft's JSON */
	const struct packet *p;
	char by[224]; /* the rule or chain that dropped the packet */
};

static enum truth truth(bool b)
{
	return b ? YES : NO;
}

/* Whether a value of the packet matches the right side: equal, or in a set, a range, a prefix. */
static enum truth value_is(const struct json_object *right, const char *text, uint64_t number, const struct ip_addr *a);

static enum truth in_list(const struct json_object *list, const char *text, uint64_t number, const struct ip_addr *a)
{
	const struct json_object *item;
	enum truth most = NO;

	for (size_t i = 0; (item = j_at(list, i)) != NULL; i++) {
		enum truth t = value_is(item, text, number, a);

		most = t > most ? t : most;
	}
	return most;
}

static enum truth in_prefix(const struct json_object *prefix, const struct ip_addr *a)
{
	char text[ADDR_TEXT_MAX + 16];
	struct ip_prefix p;

	snprintf(text, sizeof(text), "%.60s/%" PRIu64, j_text(prefix, "addr"), j_uint(prefix, "len"));
	return a != NULL && addr_read_prefix(text, &p) == 0 ? truth(ip_prefix_holds(&p, a)) : MAYBE;
}

static enum truth value_is(const struct json_object *right, const char *text, uint64_t number, const struct ip_addr *a)
{
	const struct json_object *range = j_get(right, "range"), *set = j_get(right, "set"),
	                         *prefix = j_get(right, "prefix");
	const char *word = j_string(right);
	struct ip_addr other;

	if (set != NULL || j_at(right, 0) != NULL)
		return in_list(set != NULL ? set : right, text, number, a);
	if (prefix != NULL)
		return in_prefix(prefix, a);
	if (range != NULL)
		return text == NULL && a == NULL
		           ? truth(number >= j_value(j_at(range, 0)) && number <= j_value(j_at(range, 1)))
		           : MAYBE;
	if (word[0] == '@')
		return MAYBE;
	if (a != NULL)
		return addr_read(word, &other) == 0 ? truth(ip_addr_eq(a, &other)) : MAYBE;
	if (text != NULL)
		return truth(strcmp(word, text) == 0);
	return word[0] != '\0' ? MAYBE : truth(j_value(right) == number);
}

static enum truth payload_is(const struct packet *p, const struct json_object *payload, const struct json_object *right)
{
	const char *protocol = j_text(payload, "protocol"), *field = j_text(payload, "field");
	bool ip4 = ip_addr_is4(&p->src);

	if (strcmp(protocol, "udp") == 0 || strcmp(protocol, "tcp") == 0 || strcmp(protocol, "th") == 0) {
		if (protocol[1] != 'h' && (protocol[0] == 'u') != p->udp)
			return NO;
		return strcmp(field, "dport") == 0 ? value_is(right, NULL, p->dport, NULL) : MAYBE;
	}
	if (strcmp(protocol, "icmp") == 0 || strcmp(protocol, "icmpv6") == 0)
		return NO;
	if (strcmp(protocol, "ip") != 0 && strcmp(protocol, "ip6") != 0)
		return MAYBE;
	if ((strcmp(protocol, "ip") == 0) != ip4)
		return NO;
	if (strcmp(field, "saddr") == 0)
		return value_is(right, NULL, 0, &p->src);
	if (strcmp(field, "daddr") == 0)
		return value_is(right, NULL, 0, &p->dst);
	if (strcmp(field, "protocol") == 0 || strcmp(field, "nexthdr") == 0)
		return value_is(right, p->udp ? "udp" : "tcp", 0, NULL);
	return MAYBE;
}

static enum truth meta_is(const struct packet *p, const char *key, const struct json_object *right)
{
	const char *mine = strcmp(p->hook, "input") == 0 ? "iif" : "oif";

	if (strcmp(key, "l4proto") == 0)
		return value_is(right, p->udp ? "udp" : "tcp", 0, NULL);
	if (strcmp(key, "nfproto") == 0)
		return value_is(right, ip_addr_is4(&p->src) ? "ipv4" : "ipv6", 0, NULL);
	if (strncmp(key, mine, 3) == 0 && p->ifname[0] != '\0' && strpbrk(j_string(right), "*") == NULL &&
	    (strcmp(key + 3, "name") == 0 || key[3] == '\0'))
		return value_is(right, p->ifname, 0, NULL);
	return MAYBE;
}

/* Whether a match holds for the first packet of a connection (ct state new). */
static enum truth match_is(const struct packet *p, const struct json_object *match)
{
	const struct json_object *left = j_get(match, "left"), *right = j_get(match, "right");
	const char *op = j_text(match, "op");
	enum truth t = MAYBE;

	if (j_get(left, "payload") != NULL)
		t = payload_is(p, j_get(left, "payload"), right);
	else if (j_get(left, "meta") != NULL)
		t = meta_is(p, j_text(j_get(left, "meta"), "key"), right);
	else if (strcmp(j_text(j_get(left, "ct"), "key"), "state") == 0)
		t = value_is(right, "new", 0, NULL);
	if (strcmp(op, "!=") == 0)
		return t == MAYBE ? MAYBE : t == YES ? NO : YES;
	return strcmp(op, "==") == 0 || strcmp(op, "in") == 0 ? t : MAYBE;
}

static enum verdict walk_chain(struct walk *w, const char *family, const char *table, const char *chain, int jumps);

/* The verdict of a rule's statement, if the rule's matches may be true. */
static enum verdict decide(struct walk *w, const struct json_object *rule, const struct json_object *expr,
                           enum truth so, int jumps)
{
	const struct json_object *to = j_has(expr, "jump") ? j_get(expr, "jump") : j_get(expr, "goto");
	enum verdict v;

	if (j_has(expr, "accept"))
		return so == YES ? ACCEPTED : NOT_KNOWN;
	if (j_has(expr, "drop") || j_has(expr, "reject")) {
		if (so != YES)
			return GO_ON;
		snprintf(w->by, sizeof(w->by), "a rule of chain %.60s in table %.16s %.60s", j_text(rule, "chain"),
		         j_text(rule, "family"), j_text(rule, "table"));
		return DROPPED;
	}
	if (j_has(expr, "return"))
		return so == YES ? RETURNED : NOT_KNOWN;
	if (j_has(expr, "vmap") || j_has(expr, "queue") || j_has(expr, "tproxy"))
		return NOT_KNOWN;
	if (to == NULL)
		return GO_ON;
	if (jumps == JUMPS_MAX || so != YES)
		return NOT_KNOWN;
	v = walk_chain(w, j_text(rule, "family"), j_text(rule, "table"), j_text(to, "target"), jumps + 1);
	return v != RETURNED ? v : j_has(expr, "goto") ? RETURNED : GO_ON;
}

/* Statements that let each packet go on to the next one, and verdicts. Others depend on more than the packet: limits,
 * quotas, connection counts, sets, xt matches. */
static bool always_true(const struct json_object *statement)
{
	static const char *const names[] = {"counter", "log",  "mangle", "notrack", "accept", "drop",  "reject",
	                                    "return",  "jump", "goto",   "vmap",    "queue",  "tproxy"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (j_has(statement, names[i]))
			return true;
	return false;
}

static enum verdict walk_rule(struct walk *w, const struct json_object *rule, int jumps)
{
	const struct json_object *list = j_get(rule, "expr"), *e;
	enum verdict v = GO_ON;
	enum truth so = YES;

	for (size_t i = 0; v == GO_ON && (e = j_at(list, i)) != NULL; i++) {
		enum truth t = j_get(e, "match") != NULL ? match_is(w->p, j_get(e, "match")) : always_true(e) ? YES : MAYBE;

		so = t < so ? t : so;
		if (so == NO)
			return GO_ON;
		v = decide(w, rule, e, so, jumps);
	}
	return v;
}

static enum verdict walk_chain(struct walk *w, const char *family, const char *table, const char *chain, int jumps)
{
	const struct json_object *item, *rule;
	enum verdict v = GO_ON;

	for (size_t i = 0; v == GO_ON && (item = j_at(w->ruleset, i)) != NULL; i++) {
		rule = j_get(item, "rule");
		if (rule != NULL && strcmp(j_text(rule, "family"), family) == 0 &&
		    strcmp(j_text(rule, "table"), table) == 0 && strcmp(j_text(rule, "chain"), chain) == 0)
			v = walk_rule(w, rule, jumps);
	}
	return v;
}

/* A chain at the hook: its rules, then its policy. True: it drops the packet. */
static bool chain_drops(struct walk *w, const struct json_object *c)
{
	const char *family = j_text(c, "family");
	bool of_family = strcmp(family, "inet") == 0 || strcmp(family, ip_addr_is4(&w->p->src) ? "ip" : "ip6") == 0;
	enum verdict v;

	if (!of_family || strcmp(j_text(c, "hook"), w->p->hook) != 0 || strcmp(j_text(c, "type"), "filter") != 0)
		return false;
	v = walk_chain(w, family, j_text(c, "table"), j_text(c, "name"), 0);
	if ((v == GO_ON || v == RETURNED) && strcmp(j_text(c, "policy"), "drop") == 0) {
		snprintf(w->by, sizeof(w->by), "the policy of chain %.60s in table %.16s %.60s", j_text(c, "name"),
		         family, j_text(c, "table"));
		return true;
	}
	return v == DROPPED;
}

static void look_for_firewall(struct doctor *d, const struct json_object *ruleset, const struct packet *p)
{
	struct walk w = {.ruleset = ruleset, .p = p};
	const struct json_object *item, *c;
	char t[ADDR_TEXT_MAX];
	bool in = strcmp(p->hook, "input") == 0;

	for (size_t i = 0; (item = j_at(ruleset, i)) != NULL; i++) {
		c = j_get(item, "chain");
		if (c == NULL || !chain_drops(&w, c))
			continue;
		doctor_find(d, "a firewall of this machine drops %s Port=%u %s %s: %s\nallow %s in that chain",
		            p->udp ? "UDP" : "TCP", p->dport, in ? "from" : "to",
		            addr_write(in ? &p->src : &p->dst, t, sizeof(t)), w.by,
		            in ? "UDP and TCP of that port from the other edge"
		               : "UDP and TCP of that port to the other edge");
		return;
	}
}

static void look_at_path(struct doctor *d, const struct json_object *ruleset, const struct path_config *path)
{
	struct packet p = {.dport = path->port};

	if (!machine_port_of(&path->local, p.ifname))
		p.ifname[0] = '\0';
	for (int i = 0; i < 4; i++) {
		p.hook = i < 2 ? "input" : "output";
		p.udp = i % 2 == 0;
		p.src = i < 2 ? path->remote : path->local;
		p.dst = i < 2 ? path->local : path->remote;
		look_for_firewall(d, ruleset, &p);
	}
}

/* Looks only at links that do not work: a working link's datagrams pass the firewall. */
void doctor_firewall(struct doctor *d, const struct doctor_link *l)
{
	static const char *const args[] = {"-j", "list", "ruleset", NULL};
	const char *state = j_text(l->now, "state");
	char why[NFT_OUTPUT_MAX], *text;
	struct json_object *doc = NULL;

	if (!l->has_config || l->now == NULL || strcmp(state, "up") == 0 || strcmp(state, "failed") == 0 ||
	    geteuid() != 0)
		return;
	text = nft_ask(args, why);
	if (text != NULL && jdoc_parse(&doc, text) == 0)
		for (uint32_t i = 0; i < l->config.npaths; i++)
			look_at_path(d, j_get(doc, "nftables"), &l->config.paths[i]);
	else
		doctor_cannot(d, "cannot read the rules of nft as JSON%s%s", text == NULL ? ": " : "",
		              text == NULL ? why : "");
	if (doc != NULL)
		jdoc_free(&doc);
	free(text);
}
