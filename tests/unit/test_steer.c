/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel rules and Ethernet headers: what is written for a given configuration. */
#define _GNU_SOURCE /* nft.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "daemon/steer.c"

#include "daemon/next_hop.c"
#include "daemon/fib_rule.c"
#include "daemon/nft.c"
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

static void steer__drops_at_every_port_and_both_ways_at_forwarding(void **state)
{
	struct link_config c = link_of();
	char *s = steer_script(&c, STEER_RUNNING, is_there);

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
	s = steer_script(&c, STEER_RUNNING, is_there);
	assert_int_equal(count(s, "ip saddr { 10.1.0.0/16 } ip daddr { 10.2.3.4/32 } counter drop"), 3);
	/* what comes from there: its own edge decides about all IP */
	assert_int_equal(count(s, "ip6 saddr { fd00:2::/48 } ip6 daddr { fd00:1::/64 } udp dport 4791 counter drop"),
	                 1);
	assert_int_equal(count(s, "4791"), 2);
	free(s);
}

/* RoCE stays closed, IP that owes nothing is the kernel's again. */
static void steer__only_roce_at_rest(void **state)
{
	struct link_config c = link_of();
	char *s, *off;

	(void)state;
	off = steer_script(&c, STEER_RUNNING, is_there);
	c.barrier = BARRIER_SAYS_PAIR;
	s = steer_script(&c, STEER_AT_REST, is_there);
	assert_string_equal(s, off);
	free(s);
	free(off);
}

/* A chain for a port that does not exist would make nft refuse all of it. */
static void steer__port_that_is_missing(void **state)
{
	struct link_config c = link_of();
	char *s = steer_script(&c, STEER_RUNNING, is_eth2);

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
	char *s = steer_script(&c, STEER_RUNNING, is_there), *rule;

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
	char *s = steer_script(&c, STEER_RUNNING, is_there), *r = steer_removal_script(&c);

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
	s = steer_script(&c, STEER_RUNNING, is_there);
	assert_null(strstr(s, "ip6"));
	assert_null(strstr(s, "{  }"));
	free(s);
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

static void fib__pairs_of_one_family_both_ways_and_all_ip_of_each_port(void **state)
{
	struct link_config c = link_of();
	uint32_t roce = 0, all_ip = 0, n = 0;
	struct pair pair;
	bool skip;

	(void)state;
	for (; nth_pair(&c, n, &pair, &skip); n++) {
		if (skip)
			continue;
		roce += pair.port == NULL;
		all_ip += pair.port != NULL;
		assert_true(pair.family == AF_INET ? pair.from_len <= 32 : pair.from_len > 32);
		assert_true(wanted(&c, 1, &pair));
	}
	assert_int_equal(n, 16); /* 2 x 2 prefixes, two ways and two ports */
	assert_int_equal(roce, 4);
	assert_int_equal(all_ip, 4);
	nth_pair(&c, 0, &pair, &skip);
	pair.to_len--;
	assert_false(wanted(&c, 1, &pair));
	c.nremote = 0;
	assert_false(nth_pair(&c, 0, &pair, &skip));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(steer__drops_at_every_port_and_both_ways_at_forwarding),
	    cmocka_unit_test(steer__all_ip_with_the_barrier_on),
	    cmocka_unit_test(steer__only_roce_at_rest),
	    cmocka_unit_test(steer__port_that_is_missing),
	    cmocka_unit_test(steer__stale_tables),
	    cmocka_unit_test(steer__stale_table_with_the_longest_name),
	    cmocka_unit_test(steer__listed_without_a_rule_or_a_chain),
	    cmocka_unit_test(steer__replaces_what_an_earlier_life_left),
	    cmocka_unit_test(steer__names_cannot_leave_the_identifier),
	    cmocka_unit_test(steer__one_family_only),
	    cmocka_unit_test(fib__pairs_of_one_family_both_ways_and_all_ip_of_each_port),
	    cmocka_unit_test(eth__untagged),
	    cmocka_unit_test(eth__vlan_is_this_site_s_and_priority_the_host_s),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
