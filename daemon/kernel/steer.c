/* SPDX-License-Identifier: Apache-2.0 */
#include "steer.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/netfilter/nf_tables.h>

#include "fib_rule.h"
#include "ip_port.h"
#include "daemon/util/log.h"
#include "nft.h"
#include "vlan.h"
#include "daemon/config/site_paths.h"

#define INGRESS_PRIORITY (-500)
#define FORWARD_PRIORITY (-300)
#define TABLE_PREFIX     "longreach_"
#define TABLE_NAME_MAX   (sizeof(TABLE_PREFIX) + LINK_NAME_MAX)
#define ALL_TABLE        "table inet longreach" /* table of no link: closes all RoCE */
#define ROCE             "udp dport 4791"
#define NOTED_MAX        (2 * SITES_MAX) /* links, and those that a reload has stopped, until their rules are removed */

_Static_assert(ROCE_UDP_PORT == 4791, "as ROCE says");

/* An nft identifier from the link's name. */
static void name_table(char name[TABLE_NAME_MAX], const char *link)
{
	size_t n = (size_t)snprintf(name, TABLE_NAME_MAX, "%s%s", TABLE_PREFIX, link);

	for (size_t i = sizeof(TABLE_PREFIX) - 1; i < n && name[i]; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("_-.", name[i]))
			name[i] = '_';
}

static void put_table(FILE *f, const char *family, const struct link_config *c)
{
	char name[TABLE_NAME_MAX];

	name_table(name, c->name);
	fprintf(f, "table %s %s", family, name);
}

static uint32_t count_family(const struct ip_prefix *p, uint32_t n, bool v4)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++)
		count += ip_prefix_is4(&p[i]) == v4;
	return count;
}

static void put_prefix(FILE *f, const struct ip_prefix *p)
{
	char text[INET6_ADDRSTRLEN];
	bool v4 = ip_prefix_is4(p);

	inet_ntop(v4 ? AF_INET : AF_INET6, p->addr.b + (v4 ? 12 : 0), text, sizeof(text));
	fprintf(f, "%s/%d", text, v4 ? p->len - 96 : p->len);
}

static void put_match(FILE *f, const char *side, const struct ip_prefix *p, uint32_t n, bool v4)
{
	const char *comma = "";

	fprintf(f, "%s %s { ", v4 ? "ip" : "ip6", side);
	for (uint32_t i = 0; i < n; i++) {
		if (ip_prefix_is4(&p[i]) != v4)
			continue;
		fputs(comma, f);
		put_prefix(f, &p[i]);
		comma = ", ";
	}
	fputs(" } ", f);
}

/* what: the packets to drop, in nft's syntax. */
static void put_drop_family(FILE *f, bool v4, const struct ip_prefix *from, uint32_t nfrom, const struct ip_prefix *to,
                            uint32_t nto, const char *what)
{
	if (!count_family(from, nfrom, v4) || !count_family(to, nto, v4))
		return;
	fputs("\t\t", f);
	put_match(f, "saddr", from, nfrom, v4);
	put_match(f, "daddr", to, nto, v4);
	fprintf(f, "%s counter drop\n", what);
}

static void put_drop(FILE *f, const struct ip_prefix *from, uint32_t nfrom, const struct ip_prefix *to, uint32_t nto,
                     const char *what)
{
	put_drop_family(f, false, from, nfrom, to, nto, what);
	put_drop_family(f, true, from, nfrom, to, nto, what);
}

static void put_drop_out(FILE *f, const struct link_config *c, const char *what)
{
	put_drop(f, c->local, c->nlocal, c->remote, c->nremote, what);
}

static void put_drop_in(FILE *f, const struct link_config *c, const char *what)
{
	put_drop(f, c->remote, c->nremote, c->local, c->nlocal, what);
}

static bool takes_all_ip(const struct link_config *c, enum steer_extent extent)
{
	return extent == STEER_RUNNING && config_barrier(c) != BARRIER_OFF;
}

/* "add" comes first so that "delete" cannot fail if there is no old table. */
static void put_fresh_table(FILE *f, const char *family, const struct link_config *c)
{
	fputs("add ", f);
	put_table(f, family, c);
	fputs("\ndelete ", f);
	put_table(f, family, c);
	fputc('\n', f);
}

/* An ingress chain needs its device: put_forward() covers a port that is not there yet. Drops RoCEv2 only: other IP
 * must be routed. */
static void put_ingress(FILE *f, const struct link_config *c, steer_port_fn there)
{
	put_table(f, "netdev", c);
	fputs(" {\n", f);
	for (uint32_t i = 0; i < c->nlan_ports; i++) {
		if (!there(c->lan_ports[i]))
			continue;
		fprintf(f, "\tchain port%u {\n\t\ttype filter hook ingress device \"%s\" priority %d; policy accept;\n",
		        i, c->lan_ports[i], INGRESS_PRIORITY);
		put_drop_out(f, c, ROCE);
		fputs("\t}\n", f);
	}
	fputs("}\n", f);
}

/* Packets from the IP port may only leave by a LAN port or a VLAN on one: not by a default route while a LAN port is
 * missing, nor by a VLAN of the WAN because an operator's rule says so. */
static void put_only_lan(FILE *f, const struct link_config *c, const struct vlans *vlans, const char *port)
{
	fprintf(f, "\t\tiifname \"%s\" oifname != { ", port);
	for (uint32_t i = 0; i < c->nlan_ports; i++)
		fprintf(f, "%s\"%s\"", i > 0 ? ", " : "", c->lan_ports[i]);
	for (uint32_t i = 0; i < vlans->n; i++)
		fprintf(f, ", \"%s\"", vlans->name[i]);
	fputs(" } counter drop\n", f);
}

/* Only the first fragment of a datagram has the port. Later fragments of UDP, and IPv6 fragments whose port is behind
 * another header in some fragment, might be RoCEv2: none is forwarded outside the link. With a barrier they take the IP
 * port, sealed, as all IP does.
 *
 * The kernel is not made to reassemble packets first: conntrack, which does that, also tracks every connection of this
 * router, and drops packets when its table is full. If conntrack runs for other reasons, packets are whole at
 * forwarding, and none of these rules matches. At ingress packets are never reassembled, so these rules are at
 * forwarding. */
static void put_drop_fragments(FILE *f, const struct link_config *c)
{
	static const struct {
		bool v4;
		const char *what;
	} kinds[] = {
	    {true, "ip protocol udp ip frag-off & 0x1fff != 0"},
	    {false, "frag nexthdr udp frag frag-off != 0"},
	    {false, "frag nexthdr { 0, 43, 44, 51, 60, 135 }"}, /* extension headers that another header may follow */
	};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		put_drop_family(f, kinds[i].v4, c->local, c->nlocal, c->remote, c->nremote, kinds[i].what);
}

/* With a barrier, other IP to the other site takes the IP port or is dropped. IP from the other site may come by any
 * route: if that edge's barrier is off, its kernel forwards IP; if it is on, that edge prevents this itself.
 */
static void put_forward(FILE *f, const struct link_config *c, enum steer_extent extent, const struct vlans *vlans,
                        const char *port)
{
	char not_port[64];

	fprintf(f, "\tchain forward {\n\t\ttype filter hook forward priority %d; policy accept;\n", FORWARD_PRIORITY);
	put_drop_out(f, c, ROCE);
	put_drop_in(f, c, ROCE);
	snprintf(not_port, sizeof(not_port), "oifname != \"%s\"", port);
	if (takes_all_ip(c, extent))
		put_drop_out(f, c, not_port);
	else
		put_drop_fragments(f, c);
	if (extent == STEER_RUNNING)
		put_only_lan(f, c, vlans, port);
	fputs("\t}\n", f);
}

/* The other edge's WAN addresses are no hosts, even if a prefix covers them: the link itself sends to them. */
static void put_not_wan(FILE *f, const struct link_config *c, bool v4)
{
	struct ip_prefix a = {.len = 128};

	for (uint32_t i = 0; i < c->npaths; i++) {
		a.addr = c->paths[i].remote;
		if (ip_addr_is4(&a.addr) != v4 || !ip_prefix_any(c->remote, c->nremote, &a.addr))
			continue;
		fprintf(f, "%s daddr != ", v4 ? "ip" : "ip6");
		put_prefix(f, &a);
		fputc(' ', f);
	}
}

/* Packets that this machine sends to remote hosts in a local host's name (a refusal), or about the remote hosts'
 * packets (an ICMP error that quotes them), go through the IP port or are dropped. */
static void put_output(FILE *f, const struct link_config *c, const char *port)
{
	static const char *const errors[] = {"icmpv6 type { 1, 2, 3, 4 }", "icmp type { 3, 11, 12 }"};

	fprintf(f, "\tchain output {\n\t\ttype filter hook output priority %d; policy accept;\n", FORWARD_PRIORITY);
	for (int v4 = 0; v4 <= 1; v4++) {
		if (!count_family(c->remote, c->nremote, v4))
			continue;
		if (count_family(c->local, c->nlocal, v4)) {
			fputs("\t\t", f);
			put_match(f, "saddr", c->local, c->nlocal, v4);
			put_match(f, "daddr", c->remote, c->nremote, v4);
			put_not_wan(f, c, v4);
			fprintf(f, "oifname != \"%s\" counter drop\n", port);
		}
		fputs("\t\t", f);
		put_match(f, "daddr", c->remote, c->nremote, v4);
		put_not_wan(f, c, v4);
		fprintf(f, "%s oifname != \"%s\" counter drop\n", errors[v4], port);
	}
	fputs("\t}\n", f);
}

static void put_routed(FILE *f, const struct link_config *c, enum steer_extent extent, const struct vlans *vlans)
{
	char port[IF_NAMESIZE];

	ip_port_name(port, c->name);
	put_table(f, "inet", c);
	fputs(" {\n", f);
	put_forward(f, c, extent, vlans, port);
	if (takes_all_ip(c, extent))
		put_output(f, c, port);
	fputs("}\n", f);
}

/* there NULL: the script only removes the tables, as every script does at its beginning. */
static char *make_script(const struct link_config *c, enum steer_extent extent, steer_port_fn there,
                         const struct vlans *vlans)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	put_fresh_table(f, "netdev", c);
	put_fresh_table(f, "inet", c);
	if (there) {
		put_ingress(f, c, there);
		put_routed(f, c, extent, vlans);
	}
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

char *steer_script(const struct link_config *c, enum steer_extent extent, steer_port_fn there,
                   const struct vlans *vlans)
{
	return make_script(c, extent, there, vlans);
}

char *steer_removal_script(const struct link_config *c)
{
	return make_script(c, STEER_AT_REST, NULL, NULL);
}

/* --- putting them in force ---
 *
 * For each link, nft's listing of the rules in force is noted, to find out later whether somebody has changed them. */

static struct noted {
	char link[LINK_NAME_MAX];
	char *text;   /* NULL: a free place */
	char *script; /* the script that set these rules */
} noted[NOTED_MAX];

/* NULL: nothing is noted for the link. */
static struct noted *find_noted(const char *link)
{
	for (unsigned i = 0; i < NOTED_MAX; i++)
		if (noted[i].text && strcmp(noted[i].link, link) == 0)
			return &noted[i];
	return NULL;
}

static void clear(struct noted *n)
{
	free(n->text);
	free(n->script);
	n->text = n->script = NULL;
}

static void forget(const char *link)
{
	struct noted *n = find_noted(link);

	if (n)
		clear(n);
}

static unsigned occurrences(const char *text, const char *what)
{
	unsigned n = 0;

	while ((text = strstr(text, what))) {
		text += strlen(what);
		n++;
	}
	return n;
}

/* True if the listing has all chains and rules of the script. */
static bool is_whole(const char *listed, const char *script)
{
	return occurrences(listed, "\tchain ") == occurrences(script, "\tchain ") &&
	       occurrences(listed, "counter drop\n") == occurrences(script, "counter drop\n");
}

/* Notes the listing of the rules just set. If somebody has removed them already, nothing is noted, so that
 * steer_stands() is false. */
static void note(const struct link_config *c, const char *script)
{
	char *is = steer_in_force(c);

	forget(c->name);
	for (unsigned i = 0; is && is_whole(is, script) && i < NOTED_MAX; i++)
		if (!noted[i].text) {
			snprintf(noted[i].link, LINK_NAME_MAX, "%s", c->name);
			noted[i].text = is;
			noted[i].script = strdup(script);
			return;
		}
	free(is);
}

void steer_forget(void)
{
	for (unsigned i = 0; i < NOTED_MAX; i++)
		clear(&noted[i]);
}

/* The part of a listing of steer_in_force() from the table at forwarding on; NULL: there is no such table. */
static const char *forward_part(const char *listed)
{
	return strstr(listed, "table inet ");
}

/* Writes into text which rules another program has removed from the nft tables, which were as noted and are as listed
 * now. A chain at ingress does not count: it is gone when its port is. rules: rules of `ip rule` are gone, too. False:
 * nothing is. */
static bool name_removed(const struct noted *n, const char *listed, bool rules, char *text, size_t len)
{
	bool netdev = !strstr(listed, "table netdev "), inet = !forward_part(listed);
	char name[TABLE_NAME_MAX];

	name_table(name, n->link);
	text[0] = 0;
	if (netdev || inet)
		snprintf(text, len, "the nft table%s %s%s%s %s", netdev && inet ? "s" : "", netdev ? "netdev" : "",
		         netdev && inet ? " and " : "", inet ? "inet" : "", name);
	else if (!forward_part(n->text) || strcmp(forward_part(n->text), forward_part(listed)) != 0)
		snprintf(text, len, "rules of the nft table inet %s", name);
	if (rules)
		snprintf(text + strlen(text), len - strlen(text), "%srules of `ip rule`", text[0] ? " and " : "");
	return text[0] != 0;
}

bool steer_stands(const struct link_config *c)
{
	const struct noted *n = find_noted(c->name);
	char *is = n ? steer_in_force(c) : NULL;
	bool same = is && strcmp(n->text, is) == 0;

	free(is);
	return same;
}

static bool port_is_there(const char *ifname)
{
	return if_nametoindex(ifname) != 0;
}

/* True if some were missing. */
static bool set_fib_rules(const struct link_config *c, bool all_ip)
{
	int r = fib_rule_set(c, all_ip);

	if (r < 0)
		log_warn("link %s: cannot set `ip rule` for the packets that the link takes: %s; only the nft tables "
		         "keep the kernel from forwarding them",
		         c->name, strerror(-r));
	return r > 0;
}

/* Makes the IP port. A link without a barrier can run without it. */
static int set_ip_port(const struct link_config *c, char *err, size_t errlen)
{
	bool all_ip = takes_all_ip(c, STEER_RUNNING);
	char unsaid[CONFIG_ERR_MAX];
	int r = ip_port_set(c, all_ip, all_ip ? err : unsaid, all_ip ? errlen : sizeof(unsaid));

	return all_ip ? r : 0;
}

/* Runs the script, unless the rules in force are those that it has set. As steer_install(); rules: rules of `ip rule` were
 * missing. */
static int set_tables(const struct link_config *c, const char *script, bool rules, char *err, size_t errlen)
{
	const struct noted *n = find_noted(c->name);
	char text[NFT_OUTPUT_MAX], gone[CONFIG_ERR_MAX], *is = NULL;
	bool same, removed;
	int r = 0;

	if (n && n->script && strcmp(n->script, script) == 0)
		is = steer_in_force(c);
	same = is && strcmp(n->text, is) == 0;
	removed = is && name_removed(n, is, rules, gone, sizeof(gone));
	free(is);
	if (!same) {
		r = nft_run(script, text);
		if (r == 0)
			note(c, script);
	}
	if (r < 0)
		snprintf(err, errlen, "cannot keep the kernel from forwarding this link's packets: %s", text);
	else if (removed)
		snprintf(err, errlen, "%s", gone);
	return r < 0 ? r : removed;
}

/* The script for the interfaces that there are now, malloc'ed; NULL without memory. *listed: 0, or negative errno: the
 * script has no VLAN, as they could not be listed. */
static char *script_now(const struct link_config *c, enum steer_extent extent, int *listed)
{
	struct vlans vlans = {0};
	char *script;

	*listed = extent == STEER_RUNNING ? vlan_list(c, &vlans) : 0;
	if (*listed < 0)
		log_warn("link %s: cannot list VLANs on its LAN ports: %s", c->name, strerror(-*listed));
	script = steer_script(c, extent, port_is_there, &vlans);
	vlan_free(&vlans);
	return script;
}

/* The IP port is made before packets are routed into it, and removed when no route leads into it any more. */
int steer_install(const struct link_config *c, enum steer_extent extent, char *err, size_t errlen)
{
	int listed;
	char *script = script_now(c, extent, &listed);
	char text[CONFIG_ERR_MAX] = "out of memory";
	int port = extent == STEER_RUNNING ? set_ip_port(c, err, errlen) : 0, r = -ENOMEM;
	bool rules = set_fib_rules(c, takes_all_ip(c, extent));

	if (script)
		r = set_tables(c, script, rules, text, sizeof(text));
	free(script);
	if (r < 0 || (r > 0 && port == 0))
		snprintf(err, errlen, "%s", text);
	if (r >= 0 && extent != STEER_RUNNING)
		ip_port_remove(c->name);
	return r < 0 || port == 0 ? r : port;
}

/* Replaces the rules that this process set last if LAN ports or VLANs on them have come or gone since. Rules that
 * somebody has removed are for steer_install(). */
static int follow_vlans(const struct link_config *c, char *err, size_t errlen)
{
	const struct noted *n = find_noted(c->name);
	char *script;
	int listed, r;

	if (!n || !n->script)
		return 0;
	script = script_now(c, STEER_RUNNING, &listed);
	r = script ? listed : -ENOMEM;
	if (r < 0)
		snprintf(err, errlen, "cannot list VLANs on the LAN ports: %s", strerror(-r));
	else if (strcmp(script, n->script) != 0)
		r = set_tables(c, script, false, err, errlen);
	free(script);
	return r;
}

int steer_keep_routing(const struct link_config *c, bool rules, char *err, size_t errlen)
{
	char unsaid[CONFIG_ERR_MAX];
	int r = set_ip_port(c, err, errlen),
	    vlans = follow_vlans(c, r < 0 ? unsaid : err, r < 0 ? sizeof(unsaid) : errlen);

	if (rules)
		set_fib_rules(c, takes_all_ip(c, STEER_RUNNING));
	return r < 0 ? r : vlans;
}

void steer_remove(const struct link_config *c, const struct link_config *kept, uint32_t n)
{
	char *script = steer_removal_script(c);
	char text[NFT_OUTPUT_MAX];
	int r = fib_rule_remove(c, kept, n);

	forget(c->name);
	if (r < 0)
		log_warn("link %s: cannot remove its rules of `ip rule`: %s", c->name, strerror(-r));
	ip_port_remove(c->name);
	if (script && nft_run(script, text) < 0)
		log_warn("link %s: cannot remove its nft tables: %s", c->name, text);
	free(script);
}

/* nft's listing of the table, malloc'ed; NULL: there is no such table. */
static char *list_all_table(void)
{
	static const char *const args[] = {"-s", "list", "table", "inet", "longreach", NULL};
	char why[NFT_OUTPUT_MAX];

	return nft_ask(args, why);
}

static bool is_whole_all(const char *listed)
{
	return listed && strstr(listed, "hook forward") && strstr(listed, ROCE " counter drop\n");
}

bool steer_all_stands(void)
{
	char *is = list_all_table();
	bool whole = is_whole_all(is);

	free(is);
	return whole;
}

int steer_all(bool closed, char *err, size_t errlen)
{
	const char *script = closed ? "add " ALL_TABLE "\ndelete " ALL_TABLE "\n" ALL_TABLE
	                              " {\n\tchain forward {\n\t\ttype filter hook forward priority -300; policy "
	                              "accept;\n\t\tudp dport 4791 counter drop\n\t}\n}\n"
	                            : "add " ALL_TABLE "\ndelete " ALL_TABLE "\n";
	char why[NFT_OUTPUT_MAX], *is = list_all_table();
	bool stands = closed ? is_whole_all(is) : !is;
	int r = stands ? 0 : nft_run(script, why), rule = fib_rule_set_all(closed);

	free(is);
	if (r < 0)
		snprintf(err, errlen, "cannot keep the kernel from forwarding RoCE: %s", why);
	if (rule < 0 && closed)
		log_warn("cannot set `ip rule` for all RoCE: only the nft table keeps the kernel from forwarding RoCE, "
		         "and `nft flush ruleset` would remove it");
	return r < 0 ? r : !stands || rule > 0;
}

/* --- what is in force --- */

char *steer_in_force(const struct link_config *c)
{
	static const char *const families[] = {"netdev", "inet"};
	char name[TABLE_NAME_MAX], why[NFT_OUTPUT_MAX], *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	name_table(name, c->name);
	for (unsigned i = 0; f && i < 2; i++) {
		const char *args[] = {"-s", "list", "table", families[i], name, NULL};
		char *part = nft_ask(args, why);

		fputs(part ? part : "(none)\n", f);
		free(part);
	}
	if (!f || fclose(f) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static bool is_kept(const char *table, const char *const *links, uint32_t n)
{
	char name[TABLE_NAME_MAX];

	for (uint32_t i = 0; i < n; i++) {
		name_table(name, links[i]);
		if (strcmp(name, table) == 0)
			return true;
	}
	return false;
}

_Static_assert(NFT_TABLE_MAXNAMELEN == 256, "the width that is_stale() reads");

/* True for a line "table FAMILY NAME" of nft's listing that names a link which is not to be kept. */
static bool is_stale(const char *line, const char *const *links, uint32_t n)
{
	char family[16], table[NFT_TABLE_MAXNAMELEN];

	return sscanf(line, "table %15s %255s", family, table) == 2 &&
	       (strcmp(family, "netdev") == 0 || strcmp(family, "inet") == 0) &&
	       strncmp(table, TABLE_PREFIX, sizeof(TABLE_PREFIX) - 1) == 0 && !is_kept(table, links, n);
}

static bool is_named(const char *link, const char *const *links, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(links[i], link) == 0)
			return true;
	return false;
}

static void delete_table(char *line)
{
	char script[64 + NFT_TABLE_MAXNAMELEN], why[NFT_OUTPUT_MAX];

	snprintf(script, sizeof(script), "delete %s\n", line);
	if (nft_run(script, why) < 0)
		log_warn("nft %s: cannot remove it: %s", line, why);
	else
		log_notice("nft %s: removed: the link file is gone, and its buffer owes no packets", line);
}

void steer_sweep(const char *const *links, uint32_t n)
{
	static const char *const args[] = {"list", "tables", NULL};
	char why[NFT_OUTPUT_MAX], *text = nft_ask(args, why), *rest = text, *line;

	while (rest && (line = strsep(&rest, "\n")))
		if (is_stale(line, links, n))
			delete_table(line);
	free(text);
	for (unsigned i = 0; i < NOTED_MAX; i++)
		if (noted[i].text && !is_named(noted[i].link, links, n))
			clear(&noted[i]);
	ip_port_sweep(links, n);
}
