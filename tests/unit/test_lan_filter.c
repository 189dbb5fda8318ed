/* SPDX-License-Identifier: Apache-2.0 */
/* The packet filter of LAN ports, run by an interpreter of classic BPF and held against a plain rule. Each frame goes to
 * lan_match() as well, which must say the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/lan/lan_filter.c"
#include "daemon/lan/lan_match.c"

enum { FRAME_LEN = 100, NLANES = 64, NSHARDS = 3, SNAPLEN = 4242 };

struct frame {
	uint8_t b[FRAME_LEN];
	uint32_t len, pkttype, protocol;
};

/* --- interpreter: what the kernel does with the few instructions that the filter uses --- */

static uint32_t memory[BPF_MEMWORDS];

static bool load(const struct frame *f, uint32_t off, uint32_t n, uint32_t *a)
{
	if (off == (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)) {
		*a = f->pkttype;
		return true;
	}
	if (off == (uint32_t)(SKF_AD_OFF + SKF_AD_PROTOCOL)) {
		*a = f->protocol;
		return true;
	}
	if (off + n > f->len)
		return false;
	*a = n == 4 ? get_be32(f->b + off) : n == 2 ? get_be16(f->b + off) : f->b[off];
	return true;
}

static uint32_t alu(unsigned op, uint32_t a, uint32_t v)
{
	switch (op) {
	case BPF_AND:
		return a & v;
	case BPF_XOR:
		return a ^ v;
	case BPF_MUL:
		return a * v;
	case BPF_RSH:
		return a >> v;
	case BPF_MOD:
		return a % v;
	}
	fail_msg("unknown operation %#x", op);
	return 0;
}

static bool taken(unsigned op, uint32_t a, uint32_t k)
{
	return op == BPF_JEQ ? a == k : (a & k) != 0;
}

static unsigned width(uint16_t code)
{
	return BPF_SIZE(code) == BPF_W ? 4 : BPF_SIZE(code) == BPF_H ? 2 : 1;
}

static uint32_t run(const struct sock_filter *prog, uint16_t n, const struct frame *f)
{
	uint32_t a = 0, x = 0;

	for (uint32_t pc = 0;; pc++) {
		const struct sock_filter *i = &prog[pc];

		assert_in_range(pc, 0, n - 1u);
		switch (BPF_CLASS(i->code)) {
		case BPF_ST:
			memory[i->k] = a;
			break;
		case BPF_LD:
			if (BPF_MODE(i->code) == BPF_MEM)
				a = memory[i->k];
			else if (!load(f, i->k, width(i->code), &a))
				return 0;
			break;
		case BPF_ALU:
			a = alu(BPF_OP(i->code), a, BPF_SRC(i->code) == BPF_X ? x : i->k);
			break;
		case BPF_MISC:
			x = a;
			break;
		case BPF_JMP:
			pc += BPF_OP(i->code) == BPF_JA ? i->k : taken(BPF_OP(i->code), a, i->k) ? i->jt : i->jf;
			break;
		case BPF_RET:
			return i->k;
		default:
			fail_msg("unknown instruction %#x", i->code);
		}
	}
}

/* --- frames --- */

static struct ip_addr addr4(uint32_t a)
{
	struct ip_addr r = {.b = {[10] = 0xff, [11] = 0xff}};

	put_be32(r.b + 12, a);
	return r;
}

static struct ip_addr addr6(uint64_t hi, uint64_t lo)
{
	struct ip_addr r;

	put_be64(r.b, hi);
	put_be64(r.b + 8, lo);
	return r;
}

static struct frame frame4(uint32_t src, uint32_t dst)
{
	struct frame f = {.len = FRAME_LEN, .pkttype = PACKET_HOST, .protocol = ETH_P_IP};

	put_be16(f.b + 12, ETH_P_IP);
	f.b[14] = 0x45;
	f.b[23] = IPPROTO_UDP;
	put_be32(f.b + 26, src);
	put_be32(f.b + 30, dst);
	put_be16(f.b + 36, ROCE_UDP_PORT);
	return f;
}

static struct frame frame6(const struct ip_addr *src, const struct ip_addr *dst)
{
	struct frame f = {.len = FRAME_LEN, .pkttype = PACKET_HOST, .protocol = ETH_P_IPV6};

	put_be16(f.b + 12, ETH_P_IPV6);
	f.b[14] = 0x60;
	f.b[20] = IPPROTO_UDP;
	memcpy(f.b + 22, src->b, 16);
	memcpy(f.b + 38, dst->b, 16);
	put_be16(f.b + 56, ROCE_UDP_PORT);
	return f;
}

/* The lane as defined: XOR of the addresses' words, hashed. */
static uint32_t lane_of(const struct ip_addr *a, const struct ip_addr *b)
{
	uint32_t x = 0;

	for (unsigned i = ip_addr_is4(a) ? 12 : 0; i < 16; i += 4)
		x ^= get_be32(a->b + i) ^ get_be32(b->b + i);
	return ((x * 0x9E3779B1u) >> 16) % NLANES;
}

static struct ip_prefix local[3], remote[3];
static struct lan_filter_spec spec;
static struct sock_filter prog[LAN_FILTER_MAX];

static const uint8_t our_mac[LAN_MAC_LEN] = {2, 0, 0, 0, 0, 1};

/* The same frame without its metadata. */
static enum lan_verdict matched(const struct frame *f, struct lan_matched *m)
{
	struct frame whole = *f;

	memcpy(whole.b, our_mac, sizeof(our_mac));
	whole.b[5] ^= f->pkttype != PACKET_HOST;
	put_be16(whole.b + 12, (uint16_t)f->protocol);
	return lan_match(&spec, our_mac, whole.b, whole.len, 0, m);
}

/* Which shard takes the frame: -1 none, -2 more than one. */
static int taker(const struct frame *f)
{
	struct lan_matched m;
	int who = -1;

	for (spec.shard = 0; spec.shard < NSHARDS; spec.shard++) {
		uint16_t n = lan_filter_build(&spec, prog);
		uint32_t snap = run(prog, n, f);

		if (snap == 0)
			continue;
		assert_int_equal(snap, SNAPLEN);
		who = who == -1 ? (int)spec.shard : -2;
	}
	assert_int_equal(matched(f, &m), who == -1 ? LAN_NOT_OURS : LAN_OURS);
	return who;
}

static int set_up(void **state)
{
	(void)state;
	local[0] = (struct ip_prefix){addr4(0x0a010000), 96 + 16};
	local[1] = (struct ip_prefix){addr4(0xc0a80780), 96 + 25};
	local[2] = (struct ip_prefix){addr6(0xfd00000100000000, 0), 48};
	remote[0] = (struct ip_prefix){addr4(0x0a020304), 96 + 32};
	remote[1] = (struct ip_prefix){addr4(0x0a030000), 96 + 16};
	remote[2] = (struct ip_prefix){addr6(0xfd00000200010002, 0xaabbccdd00000000), 100};
	spec = (struct lan_filter_spec){.local = local,
	                                .remote = remote,
	                                .nlocal = 3,
	                                .nremote = 3,
	                                .nlanes = NLANES,
	                                .nshards = NSHARDS,
	                                .snaplen = SNAPLEN};
	return 0;
}

/* With the barrier on: any protocol, options, extensions, fragments; but still only between the prefixes. */
static void filter__all_ip(void **state)
{
	struct ip_addr sa = addr4(0x0a010001), da = addr4(0x0a030001);
	struct ip_addr s6 = addr6(0xfd00000100000000, 1), d6 = addr6(0xfd00000200010002, 0xaabbccdd00000001);
	struct frame f = frame4(0x0a010001, 0x0a030001), g = frame6(&s6, &d6);

	(void)state;
	f.b[14] = 0x46;             /* options */
	put_be16(f.b + 20, 0x2005); /* a fragment */
	f.b[23] = IPPROTO_TCP;
	g.b[20] = IPPROTO_FRAGMENT;
	assert_int_equal(taker(&f), -1);
	assert_int_equal(taker(&g), -1);
	spec.all_ip = true;
	assert_int_equal(taker(&f), lane_of(&sa, &da) % NSHARDS);
	assert_int_equal(taker(&g), lane_of(&s6, &d6) % NSHARDS);
	f.pkttype = PACKET_OTHERHOST;
	assert_int_equal(taker(&f), -1);
	spec.other_mac = true;
	assert_int_equal(taker(&f), lane_of(&sa, &da) % NSHARDS);
	assert_int_equal(taker(&g), -1);
	spec.other_mac = false;
	f = frame4(0x0a010001, 0x0a040001); /* to nobody at the other site */
	assert_int_equal(taker(&f), -1);
	f = frame4(0x0a030001, 0x0a010001); /* from there: it came over the link */
	assert_int_equal(taker(&f), -1);
}

static void filter__takes_each_lane_on_its_shard(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 500; i++) {
		uint32_t s = 0x0a010000 + i * 37, d = 0x0a030000 + i * 101;
		struct ip_addr sa = addr4(s), da = addr4(d);
		struct frame f = frame4(s, d);

		assert_int_equal(taker(&f), lane_of(&sa, &da) % NSHARDS);
	}
	for (uint32_t i = 0; i < 200; i++) {
		struct ip_addr sa = addr6(0xfd00000100000000 + i, i * 77u);
		struct ip_addr da = addr6(0xfd00000200010002, 0xaabbccdd00000000 + i * 3);
		struct frame f = frame6(&sa, &da);

		assert_int_equal(taker(&f), lane_of(&sa, &da) % NSHARDS);
	}
}

/* All addresses of a machine are on one lane, whichever family they are of; and the longest program is within
 * bounds. */
static void filter__machines_of_many_addresses(void **state)
{
	static struct proxy_config c;
	uint32_t moved = 0;

	(void)state;
	c.nlanes = NLANES;
	for (uint32_t i = 0; i < HOST_ALIASES_MAX; i++) { /* ascending: IPv4 stands in front of fd00:: */
		uint32_t third = HOST_ALIASES_MAX / 3;
		struct ip_addr addr = i < third         ? addr4(0x0a010100 + i)
		                      : i < 2 * third ? addr4(0x0a030100 + i)
		                                      : addr6(0xfd00000100000000, i);
		struct ip_addr host = i % 2
		                          ? addr4(i < third || i >= 2 * third ? 0x0a010001 + i % 7 : 0x0a030001 + i % 5)
		                          : addr6(i < third || i >= 2 * third ? 0xfd00000100000000 : 0xfd00000200010002,
		                                  i < third || i >= 2 * third ? 3 + i % 2 : 0xaabbccdd00000004);

		c.alias[c.naliases++] = (struct host_alias){addr, host};
	}
	spec.alias = c.alias;
	spec.naliases = c.naliases;
	assert_true(lan_filter_build(&spec, prog) <= BPF_MAXINSNS);
	for (uint32_t i = 0; i < 400; i++) {
		uint32_t s = 0x0a010100 + i % 150, d = 0x0a030100 + i * 3 % 200;
		struct ip_addr sa = addr4(s), da = addr4(d);
		struct ip_addr s6 = addr6(0xfd00000100000000, i % 250),
		               d6 = addr6(0xfd00000200010002, 0xaabbccdd00000000 + i);
		struct frame f = frame4(s, d), g = frame6(&s6, &d6);

		moved += proxy_lane_between(&c, &sa, &da) != proxy_lane(&sa, &da, NLANES);
		assert_int_equal(taker(&f), proxy_lane_between(&c, &sa, &da) % NSHARDS);
		assert_int_equal(taker(&g), proxy_lane_between(&c, &s6, &d6) % NSHARDS);
	}
	assert_true(moved > 50);
}

static void filter__agrees_with_the_core_about_lanes(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2000; i++) {
		struct ip_addr a = i % 2 ? addr4(i * 2654435761u)
		                         : addr6(i * 0x9e3779b97f4a7c15u, i * 0xc2b2ae3d27d4eb4fu);
		struct ip_addr b = i % 2 ? addr4(i * 40503u) : addr6(i * 0xd6e8feb86659fd93u, ~(uint64_t)i);

		assert_int_equal(proxy_lane(&a, &b, NLANES), lane_of(&a, &b));
		assert_int_equal(proxy_lane(&b, &a, NLANES), lane_of(&a, &b));
	}
}

static void filter__leaves_foreign_addresses(void **state)
{
	struct {
		uint32_t src, dst;
		bool ours;
	} c[] = {
	    {0x0a010203, 0x0a020304, true},  {0x0a010203, 0x0a020305, false}, {0x0a020304, 0x0a010203, false},
	    {0x0a000001, 0x0a020304, false}, {0xc0a807ff, 0x0a03ffff, true},  {0xc0a8077f, 0x0a03ffff, false},
	    {0xc0a80880, 0x0a030000, false}, {0xc0a80780, 0x0a040000, false},
	};
	struct ip_addr in6 = addr6(0xfd0000010000ffff, 1), out6 = addr6(0xfd00000100010000, 1);
	struct ip_addr to6 = addr6(0xfd00000200010002, 0xaabbccdd0fffffff),
	               past6 = addr6(0xfd00000200010002, 0xaabbccdd10000000);
	struct frame f;

	(void)state;
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		f = frame4(c[i].src, c[i].dst);
		assert_int_equal(taker(&f) >= 0, c[i].ours);
	}
	f = frame6(&in6, &to6);
	assert_true(taker(&f) >= 0);
	f = frame6(&out6, &to6);
	assert_int_equal(taker(&f), -1);
	f = frame6(&in6, &past6);
	assert_int_equal(taker(&f), -1);
}

static void filter__leaves_what_is_not_roce(void **state)
{
	static const struct {
		uint32_t off;
		uint8_t value;
	} spoil[] = {
	    {14, 0x46}, /* options */
	    {23, 6},    /* TCP */
	    {20, 0x20}, /* more fragments */
	    {21, 0x01}, /* a later fragment */
	    {37, 0xb8}, /* port 4792 */
	};
	struct frame f;

	(void)state;
	for (size_t i = 0; i < sizeof(spoil) / sizeof(spoil[0]); i++) {
		f = frame4(0x0a010203, 0x0a020304);
		f.b[spoil[i].off] = spoil[i].value;
		assert_int_equal(taker(&f), -1);
	}
	f = frame4(0x0a010203, 0x0a020304);
	f.b[20] = 0x40; /* don't fragment */
	assert_true(taker(&f) >= 0);
	f.pkttype = PACKET_OTHERHOST;
	assert_int_equal(taker(&f), -1);
	f.pkttype = PACKET_HOST;
	f.protocol = ETH_P_ARP;
	assert_int_equal(taker(&f), -1);
	f.protocol = ETH_P_IP;
	for (f.len = 0; f.len < 38; f.len++)
		assert_int_equal(taker(&f), -1);
}

static void filter__full_lists_fit(void **state)
{
	static struct ip_prefix many[PREFIXES_MAX];
	struct lan_filter_spec full = spec;
	struct ip_addr last = addr6(0xfd00000000000000 + PREFIXES_MAX - 1, 7);
	struct frame f = frame6(&last, &last);
	uint16_t n;

	(void)state;
	for (uint32_t i = 0; i < PREFIXES_MAX; i++)
		many[i] = (struct ip_prefix){addr6(0xfd00000000000000 + i, 7), 128};
	full.local = full.remote = many;
	full.nlocal = full.nremote = PREFIXES_MAX;
	full.nshards = 1;
	full.shard = 0;
	n = lan_filter_build(&full, prog);
	assert_in_range(n, 1, LAN_FILTER_MAX);
	assert_int_equal(run(prog, n, &f), SNAPLEN);
	f.b[22 + 15] = 8;
	assert_int_equal(run(prog, n, &f), 0);
}

static void filter__empty_lists_take_any_address(void **state)
{
	struct lan_filter_spec any = spec;
	struct frame f = frame4(0x01020304, 0x05060708);
	uint16_t n;

	(void)state;
	any.nlocal = any.nremote = 0;
	any.nshards = 1;
	any.shard = 0;
	n = lan_filter_build(&any, prog);
	assert_int_equal(run(prog, n, &f), SNAPLEN);
}

/* A device leaves the tag where it is or takes it out; either way the core hears of it, and of the IP packet. */
static void match__tags(void **state)
{
	struct frame f = frame4(0x0a010203, 0x0a020304), tagged = f;
	struct lan_matched m;

	(void)state;
	memcpy(tagged.b, our_mac, sizeof(our_mac));
	memcpy(f.b, our_mac, sizeof(our_mac));
	memmove(tagged.b + 16, f.b + 12, sizeof(f.b) - 16);
	put_be16(tagged.b + 12, ETH_P_8021Q);
	put_be16(tagged.b + 14, 0x6064);
	assert_int_equal(lan_match(&spec, our_mac, tagged.b, tagged.len, 0, &m), LAN_OURS);
	assert_int_equal(m.vlan_tci, 0x6064);
	assert_ptr_equal(m.l3, tagged.b + 18);
	assert_int_equal(m.len, FRAME_LEN - 18);
	assert_int_equal(lan_match(&spec, our_mac, f.b, f.len, 0x0064, &m), LAN_OURS);
	assert_int_equal(m.vlan_tci, 0x0064);
	assert_ptr_equal(m.l3, f.b + 14);
	/* two tags: the second one is no IP */
	assert_int_equal(lan_match(&spec, our_mac, tagged.b, tagged.len, 0x0064, &m), LAN_NOT_OURS);
	for (f.len = 0; f.len < 42; f.len++) /* up to the end of what is looked at */
		assert_int_equal(lan_match(&spec, our_mac, tagged.b, f.len, 0, &m), LAN_NOT_OURS);
}

static void match__longer_than_any_packet(void **state)
{
	static uint8_t b[SNAPLEN + 8];
	struct frame f = frame4(0x0a010203, 0x0a020304);
	struct lan_matched m;

	(void)state;
	memcpy(b, f.b, sizeof(f.b));
	memcpy(b, our_mac, sizeof(our_mac));
	assert_int_equal(lan_match(&spec, our_mac, b, SNAPLEN, 0, &m), LAN_OURS);
	assert_int_equal(lan_match(&spec, our_mac, b, SNAPLEN + 1, 0, &m), LAN_TOO_LONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(match__tags, set_up),
	    cmocka_unit_test_setup(match__longer_than_any_packet, set_up),
	    cmocka_unit_test_setup(filter__takes_each_lane_on_its_shard, set_up),
	    cmocka_unit_test_setup(filter__all_ip, set_up),
	    cmocka_unit_test_setup(filter__machines_of_many_addresses, set_up),
	    cmocka_unit_test_setup(filter__agrees_with_the_core_about_lanes, set_up),
	    cmocka_unit_test_setup(filter__leaves_foreign_addresses, set_up),
	    cmocka_unit_test_setup(filter__leaves_what_is_not_roce, set_up),
	    cmocka_unit_test_setup(filter__full_lists_fit, set_up),
	    cmocka_unit_test_setup(filter__empty_lists_take_any_address, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
