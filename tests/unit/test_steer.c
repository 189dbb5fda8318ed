/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel rules and Ethernet headers: what is written for a given configuration. */
#define _GNU_SOURCE /* nft.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "daemon/kernel/steer.c"
#include "daemon/kernel/vlan.c"

#include "daemon/util/next_hop.c"
#include "daemon/kernel/fib_rule.c"
#include "daemon/kernel/ip_port.c"
#include "daemon/util/addr.c"
#include "daemon/util/units.c"
#include "daemon/util/rtnl.c"
#include "daemon/kernel/nft.c"
#include "no_log.h"

static struct link_config link_of(void)
{
	struct link_config c = {.name = "sapporo-wakkanai", .nlan_ports = 2, .nlocal = 2, .nremote = 2};

	strcpy(c.lan_ports[0], "eth2");
	strcpy(c.lan_ports[1], "eth3.100");
	for (int i = 0; i < 2; i++)
		c.local[0].addr.b[10 + i] = c.remote[0].addr.b[10 + i] = 0xff;
	inet_pton(AF_INET, "10.1.0.0", c.local[0].addr.b + 12);
	c.local[0].len = 96 + 16;
	inet_pton(AF_INET, "10.2.3.4", c.remote[0].addr.b + 12);
	c.remote[0].len = 128;
	inet_pton(AF_INET6, "fd00:1::", c.local[1].addr.b);
	c.local[1].len = 64;
	inet_pton(AF_INET6, "fd00:2::", c.remote[1].addr.b);
	c.remote[1].len = 48;
	return c;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

static bool is_there(const char *ifname)
{
	(void)ifname;
	return true;
}

static bool is_eth2(const char *ifname)
{
	return strcmp(ifname, "eth2") == 0;
}

static char *script_of(const struct link_config *c, enum steer_extent extent, steer_port_fn there)
{
	return steer_script(c, extent, there, &(struct vlans){0});
}

static void steer__drops_at_every_port_and_both_ways_at_forwarding(void **state)
{
	struct link_config c = link_of();
	char *s = script_of(&c, STEER_RUNNING, is_there);

	(void)state;
	assert_non_null(s);
	assert_int_equal(count(s, "device \"eth2\""), 1);
	assert_int_equal(count(s, "device \"eth3.100\""), 1);
	/* two ports and one direction of forwarding */
	assert_int_equal(count(s, "ip saddr { 10.1.0.0/16 } ip daddr { 10.2.3.4/32 } udp dport 4791 counter drop"), 3);
	assert_int_equal(count(s, "ip saddr { 10.2.3.4/32 } ip daddr { 10.1.0.0/16 } udp dport 4791 counter drop"), 1);
	assert_int_equal(count(s, "ip6 saddr { fd00:1::/64 } ip6 daddr { fd00:2::/48 } udp dport 4791 counter drop"),
	                 3);
	assert_int_equal(count(s, "ip6 saddr { fd00:2::/48 } ip6 daddr { fd00:1::/64 } udp dport 4791 counter drop"),
	                 1);
	free(s);
}

static void steer__all_ip_with_the_barrier_on(void **state)
{
	struct link_config c = link_of();
	char *s;

	(void)state;
	c.barrier = BARRIER_SAYS_PAIR;
	s = script_of(&c, STEER_RUNNING, is_there);
	/* through the IP port alone, where it is forwarded and where this machine says it */
	assert_int_equal(count(s, "ip saddr { 10.1.0.0/16 } ip daddr { 10.2.3.4/32 } oifname != \"lr-sapp-"), 2);
	/* what comes from there: its own edge decides about all IP */
	assert_int_equal(count(s, "ip saddr { 10.2.3.4/32 } ip daddr { 10.1.0.0/16 }"), 1);
	assert_int_equal(count(s, "ip daddr { 10.2.3.4/32 } icmp type { 3, 11, 12 } oifname != \"lr-sapp-"), 1);
	assert_int_equal(count(s, "ip6 daddr { fd00:2::/48 } icmpv6 type { 1, 2, 3, 4 } oifname != \"lr-sapp-"), 1);
	/* and from there to LAN ports */
	assert_int_equal(count(s, "oifname != { \"eth2\", \"eth3.100\" } counter drop"), 1);
	assert_int_equal(count(s, "4791"), 8); /* RoCE as without */
	free(s);
}

/* By name: of this machine's other VLANs some may lead to the other site. */
static void steer__vlans_on_lan_ports(void **state)
{
	static char names[][IF_NAMESIZE] = {"eth2.7", "hosts"};
	const struct vlans vlans = {names, 2};
	struct link_config c = link_of();
	char *s = steer_script(&c, STEER_RUNNING, is_there, &vlans);

	(void)state;
	assert_int_equal(count(s, "oifname != { \"eth2\", \"eth3.100\", \"eth2.7\", \"hosts\" } counter drop"), 1);
	assert_null(strstr(s, "oifkind"));
	free(s);
}

/* The other edge's WAN address is none of a host there, though a prefix covers it. */
static void steer__the_link_s_own_traffic_passes(void **state)
{
	struct link_config c = link_of();
	char *s;

	(void)state;
	c.barrier = BARRIER_SAYS_PAIR;
	c.npaths = 2;
	c.paths[0].remote = c.remote[0].addr;
	c.paths[1].remote = c.local[0].addr;
	s = script_of(&c, STEER_RUNNING, is_there);
	assert_int_equal(count(s, "ip daddr { 10.2.3.4/32 } ip daddr != 10.2.3.4/32 oifname != "), 1);
	assert_int_equal(count(s, "ip daddr != 10.2.3.4/32 icmp type"), 1);
	assert_int_equal(count(s, "daddr !="), 2);
	free(s);
}

/* RoCE stays closed, IP that owes nothing is the kernel's again. */
static void steer__only_roce_at_rest(void **state)
{
	struct link_config c = link_of();
	char *s, *off;

	(void)state;
	off = script_of(&c, STEER_AT_REST, is_there);
	c.barrier = BARRIER_SAYS_PAIR;
	s = script_of(&c, STEER_AT_REST, is_there);
	assert_string_equal(s, off);
	assert_null(strstr(s, "lr-sapp-"));
	assert_int_equal(count(s, "counter drop\n"),
	                 count(s, "udp dport 4791 counter drop\n") + count(s, "frag-off") + count(s, "frag nexthdr {"));
	free(s);
	free(off);
}

static void assert_fragments_are_closed(const struct link_config *c, enum steer_extent extent, unsigned times)
{
	char *s = script_of(c, extent, is_there);

	assert_int_equal(count(s, "ip saddr { 10.1.0.0/16 } ip daddr { 10.2.3.4/32 } ip protocol udp ip frag-off & 0x1fff != 0 "
	                          "counter drop\n"),
	                 times);
	assert_int_equal(count(s, "ip6 saddr { fd00:1::/64 } ip6 daddr { fd00:2::/48 } frag nexthdr udp frag frag-off != 0 "
	                          "counter drop\n"),
	                 times);
	assert_int_equal(count(s, "ip6 saddr { fd00:1::/64 } ip6 daddr { fd00:2::/48 } frag nexthdr { 0, 43, 44, 51, 60, 135 } "
	                          "counter drop\n"),
	                 times);
	assert_int_equal(count(s, "frag"), 5 * times); /* none in the other direction, none at ingress */
	free(s);
}

/* The port of a later piece nobody knows. Of those that come from there the first piece is dropped; and what the IP port
 * has carried may be in pieces. */
static void steer__pieces_of_udp_take_no_other_way(void **state)
{
	struct link_config c = link_of();

	(void)state;
	assert_fragments_are_closed(&c, STEER_AT_REST, 1);
	assert_fragments_are_closed(&c, STEER_RUNNING, 1);
	c.barrier = BARRIER_SAYS_PAIR;
	assert_fragments_are_closed(&c, STEER_AT_REST, 1);
	assert_fragments_are_closed(&c, STEER_RUNNING, 0);
}

/* A chain for a port that does not exist would make nft refuse all of it. */
static void steer__port_that_is_missing(void **state)
{
	struct link_config c = link_of();
	char *s = script_of(&c, STEER_RUNNING, is_eth2);

	(void)state;
	assert_int_equal(count(s, "device"), 1);
	assert_int_equal(count(s, "device \"eth2\""), 1);
	assert_int_equal(count(s, "hook forward"), 1);
	free(s);
}

static void steer__stale_tables(void **state)
{
	static const char *const links[] = {"sapporo", "a b"};

	(void)state;
	assert_true(is_stale("table inet longreach_tokyo", links, 2));
	assert_true(is_stale("table netdev longreach_sapporo2", links, 2));
	assert_false(is_stale("table netdev longreach_sapporo", links, 2));
	assert_false(is_stale("table inet longreach_a_b", links, 2));
	assert_false(is_stale("table inet longreach", links, 2));
	assert_false(is_stale("table ip longreach_tokyo", links, 2));
	assert_false(is_stale("table inet filter", links, 2));
}

/* A name of nft's may be longer than any of ours. */
static void steer__stale_table_with_the_longest_name(void **state)
{
	static const char *const links[] = {"tokyo"};
	char ours[300], other[300];

	(void)state;
	snprintf(ours, sizeof(ours), "table inet longreach_%.*d", NFT_TABLE_MAXNAMELEN - 1 - 10, 0);
	snprintf(other, sizeof(other), "table inet %.*d", NFT_TABLE_MAXNAMELEN - 1, 0);
	assert_true(is_stale(ours, links, 1));
	assert_false(is_stale(other, links, 1));
}

/* What is listed after somebody was quicker is not what was asked for. */
static void steer__listed_without_a_rule_or_a_chain(void **state)
{
	struct link_config c = link_of();
	char *s = script_of(&c, STEER_RUNNING, is_there), *rule;

	(void)state;
	assert_true(is_whole(s, s));
	assert_false(is_whole("(none)\n(none)\n", s));
	rule = strdup(s);
	memcpy(strstr(rule, "counter drop"), "counter acpt", 12);
	assert_false(is_whole(rule, s));
	free(rule);
	free(s);
}

static void steer__replaces_what_an_earlier_life_left(void **state)
{
	struct link_config c = link_of();
	char *s = script_of(&c, STEER_RUNNING, is_there), *r = steer_removal_script(&c);

	(void)state;
	assert_ptr_equal(strstr(s, r), s); /* an installation begins with a removal */
	assert_string_equal(r, "add table netdev longreach_sapporo-wakkanai\n"
	                       "delete table netdev longreach_sapporo-wakkanai\n"
	                       "add table inet longreach_sapporo-wakkanai\n"
	                       "delete table inet longreach_sapporo-wakkanai\n");
	free(s);
	free(r);
}

static void steer__names_cannot_leave_the_identifier(void **state)
{
	struct link_config c = link_of();
	char *s;

	(void)state;
	strcpy(c.name, "a; flush ruleset\n#");
	s = steer_removal_script(&c);
	assert_null(strstr(s, ";"));
	assert_null(strstr(s, "flush ruleset"));
	assert_non_null(strstr(s, "longreach_a__flush_ruleset__\n"));
	free(s);
}

static void steer__one_family_only(void **state)
{
	struct link_config c = link_of();
	char *s;

	(void)state;
	c.nlocal = 1;
	s = script_of(&c, STEER_RUNNING, is_there);
	assert_null(strstr(s, "ip6"));
	assert_null(strstr(s, "{  }"));
	free(s);
}

/* An operator reads what was gone. A chain at ingress is gone with its port, and nobody has removed it. */
static void steer__names_what_another_program_removed(void **state)
{
	static const char netdev[] = "table netdev longreach_tokyo {\n\tchain port0 {\n}\n}\n",
	                  no_port[] = "table netdev longreach_tokyo {\n}\n",
	                  inet[] = "table inet longreach_tokyo {\n\tA counter drop\n\tB counter drop\n}\n",
	                  less[] = "table inet longreach_tokyo {\n\tA counter drop\n}\n", none[] = "(none)\n";
	static const struct {
		const char *parts[2];
		bool rules;
		const char *gone;
	} cases[] = {
	    {{netdev, inet}, false, ""},
	    {{no_port, inet}, false, ""},
	    {{none, inet}, false, "the nft table netdev longreach_tokyo"},
	    {{netdev, none}, false, "the nft table inet longreach_tokyo"},
	    {{none, none}, false, "the nft tables netdev and inet longreach_tokyo"},
	    {{netdev, less}, false, "rules of the nft table inet longreach_tokyo"},
	    {{netdev, inet}, true, "rules of `ip rule`"},
	    {{no_port, none}, true, "the nft table inet longreach_tokyo and rules of `ip rule`"},
	};
	char was[512], is[512], gone[CONFIG_ERR_MAX];
	struct noted n = {.link = "tokyo", .text = was};

	(void)state;
	snprintf(was, sizeof(was), "%s%s", netdev, inet);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(is, sizeof(is), "%s%s", cases[i].parts[0], cases[i].parts[1]);
		assert_int_equal(name_removed(&n, is, cases[i].rules, gone, sizeof(gone)), cases[i].gone[0] != 0);
		assert_string_equal(gone, cases[i].gone);
	}
}

/* --- Ethernet header --- */

static const struct next_hop plain = {.dst_mac = {2, 1, 1, 1, 1, 1}, .src_mac = {2, 2, 2, 2, 2, 2}};

static void eth__untagged(void **state)
{
	uint8_t e[NEXT_HOP_ETH_MAX];

	(void)state;
	assert_int_equal(next_hop_eth(&plain, false, 0, e), 14);
	assert_memory_equal(e, "\2\1\1\1\1\1\2\2\2\2\2\2\x08\x00", 14);
	assert_int_equal(next_hop_eth(&plain, true, 0, e), 14);
	assert_memory_equal(e + 12, "\x86\xdd", 2);
}

static void eth__vlan_is_this_site_s_and_priority_the_host_s(void **state)
{
	struct next_hop tagged = plain;
	uint8_t e[NEXT_HOP_ETH_MAX];

	(void)state;
	tagged.vid = 100;
	assert_int_equal(next_hop_eth(&tagged, false, 3 << 13 | 55, e), 18);
	assert_memory_equal(e + 12, "\x81\x00\x60\x64\x08\x00", 6);
	/* the other site's VLAN means nothing here */
	assert_int_equal(next_hop_eth(&plain, false, 3 << 13 | 55, e), 14);
	/* but a mere priority does */
	assert_int_equal(next_hop_eth(&plain, false, 3 << 13, e), 18);
	assert_memory_equal(e + 12, "\x81\x00\x60\x00\x08\x00", 6);
}

/* --- rules in front of the routing tables --- */

static void fib__roce_both_ways_and_all_ip_from_here(void **state)
{
	struct link_config c = link_of();
	uint32_t roce = 0, all_ip = 0, icmp = 0, n = 0;
	struct pair pair;
	bool skip;

	(void)state;
	for (; nth_pair(&c, n, &pair, &skip); n++) {
		if (skip)
			continue;
		roce += pair.dport.start == 4791;
		all_ip += pair.table != 0 && !pair.port;
		icmp += pair.table != 0 && pair.port;
		assert_true(pair.table != 0 || (pair.family == AF_INET ? pair.from_len <= 32 : pair.from_len > 32));
		assert_true(wanted(&c, 1, &pair));
	}
	assert_int_equal(n, WAYS * 4 + 2); /* 2 x 2 prefixes, of two families; 2 for ICMP */
	assert_int_equal(roce, 4);
	assert_int_equal(all_ip, 2);
	assert_int_equal(icmp, 2);
	nth_pair(&c, 0, &pair, &skip);
	pair.to_len--;
	assert_false(wanted(&c, 1, &pair));
	nth_pair(&c, 8, &pair, &skip);
	pair.table++;
	assert_false(wanted(&c, 1, &pair));
	c.nremote = 0;
	assert_false(nth_pair(&c, 0, &pair, &skip));
}

/* What follows one rule of a kernel's list, and what it does to a packet that has a port, or none. */
static bool takes(const struct pair *p, uint16_t sport, uint16_t dport, bool from_here)
{
	return (!p->port || from_here) && (!p->sport.start || (sport >= p->sport.start && sport <= p->sport.end)) &&
	       (!p->dport.start || (dport >= p->dport.start && dport <= p->dport.end));
}

/* UDP from here to there, as the kernel goes through rules of the first two prefixes: by priority, from a goto to its
 * target. Of pieces it knows no port. */
static bool is_dropped(const struct link_config *c, uint16_t sport, uint16_t dport, bool from_here)
{
	uint32_t at = 0;
	struct pair p;
	bool skip;

	for (uint32_t priority = PRIORITY_ROCE; priority <= PRIORITY_PASS; priority++)
		for (uint32_t way = ROCE_OUT; way < WAYS; way++) {
			if (way == ROCE_IN || way == ALL_IP || !nth_pair(c, way * pairs_of(c), &p, &skip) || skip ||
			    p.priority != priority || priority < at || !takes(&p, sport, dport, from_here))
				continue;
			assert_true(p.proto == IPPROTO_UDP || p.action == FR_ACT_NOP || p.port);
			if (p.action == FR_ACT_BLACKHOLE)
				return true;
			at = p.action == FR_ACT_GOTO ? PRIORITY_PASS : at;
		}
	return false;
}

static void fib__pieces_are_dropped_and_datagrams_with_a_port_are_not(void **state)
{
	struct link_config c = link_of();

	(void)state;
	assert_true(is_dropped(&c, 0, 0, false));
	assert_false(is_dropped(&c, 0, 0, true));
	assert_true(is_dropped(&c, 50000, 4791, false));
	assert_false(is_dropped(&c, 50000, 4790, false));
	assert_false(is_dropped(&c, 4791, 9999, false));
	assert_false(is_dropped(&c, 65535, 53, false));
	assert_false(is_dropped(&c, 53, 65535, false));
	assert_true(is_dropped(&c, 65535, 65535, false)); /* no rule may name that port */
	assert_true(PIECES_DROP == WAYS - 1);             /* put in force last */
}

/* --- the IP port --- */

static void ip_port__names_fit_and_tell_links_apart(void **state)
{
	char a[IF_NAMESIZE], b[IF_NAMESIZE];

	(void)state;
	ip_port_name(a, "wakkanai");
	ip_port_worker_name(b, "wakkanai");
	assert_string_equal(a, "lr-wakkanai");
	assert_string_equal(b, "lrd-wakkanai");
	ip_port_worker_name(b, "elevenchars");
	assert_string_equal(b, "lrd-elevenchars");
	ip_port_name(a, "sapporo-wakkanai");
	ip_port_name(b, "sapporo-wakkana1");
	assert_int_equal(strlen(a), 14);
	assert_string_not_equal(a, b);
	ip_port_worker_name(b, "abcdefghijklmnopqrstuvwxyz01234");
	assert_int_equal(strlen(b), 15);
	assert_int_not_equal(ip_port_table("a"), ip_port_table("b"));
}

static void ip_port__frames_are_for_the_kernel_s_end(void **state)
{
	struct next_hop hop = ip_port_hop(3);

	(void)state;
	assert_int_equal(hop.port, 3);
	assert_int_equal(hop.vid, 0);
	assert_memory_equal(hop.dst_mac, kernel_mac, 6);
	assert_memory_not_equal(hop.src_mac, kernel_mac, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(steer__drops_at_every_port_and_both_ways_at_forwarding),
	    cmocka_unit_test(steer__all_ip_with_the_barrier_on),
	    cmocka_unit_test(steer__vlans_on_lan_ports),
	    cmocka_unit_test(steer__the_link_s_own_traffic_passes),
	    cmocka_unit_test(steer__only_roce_at_rest),
	    cmocka_unit_test(steer__pieces_of_udp_take_no_other_way),
	    cmocka_unit_test(steer__port_that_is_missing),
	    cmocka_unit_test(steer__stale_tables),
	    cmocka_unit_test(steer__stale_table_with_the_longest_name),
	    cmocka_unit_test(steer__listed_without_a_rule_or_a_chain),
	    cmocka_unit_test(steer__replaces_what_an_earlier_life_left),
	    cmocka_unit_test(steer__names_cannot_leave_the_identifier),
	    cmocka_unit_test(steer__one_family_only),
	    cmocka_unit_test(steer__names_what_another_program_removed),
	    cmocka_unit_test(fib__roce_both_ways_and_all_ip_from_here),
	    cmocka_unit_test(fib__pieces_are_dropped_and_datagrams_with_a_port_are_not),
	    cmocka_unit_test(ip_port__names_fit_and_tell_links_apart),
	    cmocka_unit_test(ip_port__frames_are_for_the_kernel_s_end),
	    cmocka_unit_test(eth__untagged),
	    cmocka_unit_test(eth__vlan_is_this_site_s_and_priority_the_host_s),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
