/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams of the WAN with their headers: what is built is what is read, and nothing else is taken for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "daemon/lan/l4_csum.c" /* another way to the same checksum */
#include "daemon/wan/wan_udp.c"

enum { SPORT = 50001, PORT = 4790, LEN = 1401, AT = 128, ETH = 14 };

static const struct wan_udp_ends a4 = {.local = {.b = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 1}},
                                          .remote = {.b = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 2}},
                                          .port = PORT,
                                          .mac = {2, 0, 0, 0, 0, 1}};
static const struct wan_udp_ends b4 = {.local = {.b = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 2}},
                                          .remote = {.b = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 1}},
                                          .port = PORT,
                                          .mac = {2, 0, 0, 0, 0, 2}};
static const struct wan_udp_ends a6 = {.local = {.b = {0x20, 1, 0xd, 0xb8, [15] = 1}},
                                          .remote = {.b = {0x20, 1, 0xd, 0xb8, [15] = 2}},
                                          .port = PORT,
                                          .mac = {2, 0, 0, 0, 0, 1}};
static const struct wan_udp_ends b6 = {.local = {.b = {0x20, 1, 0xd, 0xb8, [15] = 2}},
                                          .remote = {.b = {0x20, 1, 0xd, 0xb8, [15] = 1}},
                                          .port = PORT,
                                          .mac = {2, 0, 0, 0, 0, 2}};

static uint8_t room[AT + LEN + 64];
static uint8_t *frame, *ip;
static size_t frame_len, hdr_len;
static struct wan_udp_in in;

static void add_eth(const uint8_t mac[6], uint16_t type, bool tagged)
{
	frame = ip - (tagged ? ETH + 4 : ETH);
	memset(frame, 0, ETH);
	memcpy(frame, mac, 6);
	put_be16(ip - 2, type);
	if (tagged) {
		put_be16(frame + 12, ETH_P_8021Q);
		put_be16(frame + 14, 100);
	}
	frame_len = (size_t)(room + AT + LEN - frame);
}

static void build(const struct wan_udp_ends *from, const struct wan_udp_ends *to, uint8_t tos, bool tagged)
{
	memset(room, 0xee, sizeof(room));
	for (unsigned i = 0; i < LEN; i++)
		room[AT + i] = (uint8_t)(i * 7 + 1);
	hdr_len = wan_udp_put(from, SPORT, tos, room + AT, LEN);
	ip = room + AT - hdr_len;
	add_eth(to->mac, ip_addr_is4(&from->local) ? ETH_P_IP : ETH_P_IPV6, tagged);
}

static void build4(void)
{
	build(&a4, &b4, 0, false);
}

static enum wan_udp_kind read4(void)
{
	return wan_udp_get(&b4, frame, frame_len, &in);
}

static enum wan_udp_kind read6(void)
{
	return wan_udp_get(&b6, frame, frame_len, &in);
}

/* The IPv4 header's checksum after a change to it. */
static void mend_ip4(void)
{
	put_be16(ip + 10, 0);
	put_sum(ip + 10, (uint16_t)~fold(sum_bytes(ip, IP4_LEN, 0)));
}

/* --- cases --- */

static void is_payload(void)
{
	assert_ptr_equal(in.payload, room + AT);
	assert_int_equal(in.len, LEN);
	assert_int_equal(in.sport, SPORT);
}

static void wan_udp_put__is_what_get_reads(void **state)
{
	(void)state;
	for (unsigned tagged = 0; tagged < 2; tagged++) {
		build(&a4, &b4, 0, tagged);
		assert_int_equal(hdr_len, 28);
		assert_int_equal(read4(), WAN_UDP_OURS);
		is_payload();
		build(&a6, &b6, 0, tagged);
		assert_int_equal(hdr_len, 48);
		assert_int_equal(read6(), WAN_UDP_OURS);
		is_payload();
	}
}

static void wan_udp_put__writes_the_headers(void **state)
{
	/* RFC 791: 192.0.2.1 > 192.0.2.2, DF, TTL 64, 1,429 bytes; its checksum is from another program */
	static const uint8_t expected[] = {0x45, 0xb8, 0x05, 0x95, 0,   0, 0x40, 0, 64,  17,
	                                   0xb0, 0x9c, 192,  0,    2,   1, 192,  0, 2,   2,
	                                   0xc3, 0x51, 0x12, 0xb6, 0x05, 0x81};
	uint32_t label;

	(void)state;
	build(&a4, &b4, 46 << 2, false);
	assert_memory_equal(ip, expected, sizeof(expected));
	build(&a6, &b6, 46 << 2, false);
	assert_int_equal(get_be32(ip) >> 20, 6u << 8 | 46 << 2);
	assert_int_equal(get_be16(ip + 4), LEN + 8);
	assert_int_equal(ip[6], IPPROTO_UDP);
	assert_int_equal(ip[7], 64);
	label = get_be32(ip) & 0xfffff;
	wan_udp_put(&a6, SPORT + 1, 0, room + AT, LEN);
	assert_int_not_equal(get_be32(ip) & 0xfffff, label);
}

static void checksum_is_that_of(const struct wan_udp_ends *from, const struct wan_udp_ends *to)
{
	uint8_t sum[2];

	build(from, to, 0, false);
	memcpy(sum, room + AT - 2, 2);
	memset(room + AT - 2, 0x55, 2);
	assert_true(l4_csum_fill(ip, hdr_len + LEN));
	assert_memory_equal(room + AT - 2, sum, 2);
}

static void wan_udp_put__checksum_is_the_other_functions(void **state)
{
	(void)state;
	checksum_is_that_of(&a4, &b4);
	checksum_is_that_of(&a6, &b6);
}

/* A sum of 0 is sent as 0xffff: 0 would say that there is none. */
static void wan_udp_put__a_checksum_of_0_is_ffff(void **state)
{
	uint16_t sum;

	(void)state;
	memset(room, 0, sizeof(room));
	wan_udp_put(&a4, SPORT, 0, room + AT, 2);
	sum = get_be16(room + AT - 2);
	put_be16(room + AT, sum);
	wan_udp_put(&a4, SPORT, 0, room + AT, 2);
	assert_int_equal(get_be16(room + AT - 2), 0xffff);
	ip = room + AT - 28;
	add_eth(b4.mac, ETH_P_IP, false);
	assert_int_equal(read4(), WAN_UDP_OURS);
	assert_int_equal(in.len, 2);
}

static void wan_udp_get__gives_ecn(void **state)
{
	(void)state;
	for (uint8_t ecn = 0; ecn < 4; ecn++) {
		build(&a4, &b4, (uint8_t)(10 << 2 | ecn), false);
		assert_int_equal(read4(), WAN_UDP_OURS);
		assert_int_equal(in.ecn, ecn);
		build(&a6, &b6, (uint8_t)(10 << 2 | ecn), false);
		assert_int_equal(read6(), WAN_UDP_OURS);
		assert_int_equal(in.ecn, ecn);
	}
}

static void wan_udp_get__leaves_what_is_the_kernels(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
	} changes[] = {
	    {9, 6},          /* TCP: the control channel */
	    {9, 1},          /* ICMP */
	    {19, 9},         /* another address */
	    {0, 0x65},       /* another version */
	    {0, 0x44},       /* a header of 16 bytes */
	    {0, 0x4f},       /* options where the UDP header is: another port stands there */
	    {7, 1},          /* a later fragment */
	    {22, PORT >> 8 ^ 1}, /* another port */
	    {23, (PORT & 0xff) ^ 1},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		build4();
		ip[changes[i].at] = changes[i].value;
		mend_ip4();
		assert_int_equal(read4(), WAN_UDP_NOT_OURS);
	}
	build4();
	frame[0] ^= 4; /* to another MAC address */
	assert_int_equal(read4(), WAN_UDP_NOT_OURS);
	build4();
	put_be16(ip - 2, ETH_P_ARP);
	assert_int_equal(read4(), WAN_UDP_NOT_OURS);
	build4();
	assert_int_equal(read6(), WAN_UDP_NOT_OURS);
	build(&a6, &b6, 0, false);
	ip[6] = 44; /* a fragment header */
	assert_int_equal(read6(), WAN_UDP_NOT_OURS);
	assert_int_equal(read4(), WAN_UDP_NOT_OURS);
}

/* Its last word would be taken for the ports, and an address may look like them. */
static void wan_udp_get__refuses_a_header_that_is_too_short(void **state)
{
	struct wan_udp_ends from = a4, to = b4;

	(void)state;
	put_be16(to.local.b + 14, PORT);
	from.remote = to.local;
	build(&from, &to, 0, false);
	assert_int_equal(wan_udp_get(&to, frame, frame_len, &in), WAN_UDP_OURS);
	ip[0] = 0x44;
	assert_int_equal(wan_udp_get(&to, frame, frame_len, &in), WAN_UDP_NOT_OURS);
}

static void wan_udp_get__names_foreigners(void **state)
{
	(void)state;
	build4();
	ip[15] = 77;
	assert_int_equal(read4(), WAN_UDP_FOREIGN);
	build(&a6, &b6, 0, false);
	ip[23] = 77;
	assert_int_equal(read6(), WAN_UDP_FOREIGN);
}

static void wan_udp_get__refuses_bad_lengths(void **state)
{
	(void)state;
	build4();
	put_be16(ip + 2, 28 + LEN + 1); /* more than the frame has */
	mend_ip4();
	assert_int_equal(read4(), WAN_UDP_BAD_LENGTH);
	build4();
	put_be16(ip + 2, 27);
	mend_ip4();
	assert_int_equal(read4(), WAN_UDP_BAD_LENGTH);
	build4();
	put_be16(ip + 24, LEN + 9); /* UDP's more than IP's */
	assert_int_equal(read4(), WAN_UDP_BAD_LENGTH);
	build4();
	put_be16(ip + 24, 7);
	assert_int_equal(read4(), WAN_UDP_BAD_LENGTH);
	build4();
	ip[6] |= 0x20; /* the first fragment */
	mend_ip4();
	assert_int_equal(read4(), WAN_UDP_BAD_LENGTH);
	build(&a6, &b6, 0, false);
	put_be16(ip + 4, LEN + 9);
	assert_int_equal(read6(), WAN_UDP_BAD_LENGTH);
	put_be16(ip + 4, LEN + 7);
	assert_int_equal(read6(), WAN_UDP_BAD_LENGTH);
}

/* Cut anywhere, it is read no further than it goes (sanitizers look on), and is never taken for whole. */
static void wan_udp_get__reads_no_further_than_the_frame(void **state)
{
	(void)state;
	for (size_t len = 0; len < ETH + 48 + LEN; len++) {
		uint8_t *cut = malloc(len ? len : 1);

		build4();
		memcpy(cut, frame, len < frame_len ? len : frame_len);
		if (len < frame_len)
			assert_int_not_equal(wan_udp_get(&b4, cut, len, &in), WAN_UDP_OURS);
		if (len > ETH && len < frame_len) {
			cut[ETH] = 0x4f; /* options to beyond the end, where it is short */
			assert_int_not_equal(wan_udp_get(&b4, cut, len, &in), WAN_UDP_OURS);
		}
		build(&a6, &b6, 0, false);
		memcpy(cut, frame, len);
		assert_int_not_equal(wan_udp_get(&b6, cut, len, &in), WAN_UDP_OURS);
		free(cut);
	}
}

/* Ethernet pads short frames, and UDP may be shorter than its IP packet. */
static void wan_udp_get__leaves_padding_out(void **state)
{
	(void)state;
	build4();
	frame_len += 20;
	assert_int_equal(read4(), WAN_UDP_OURS);
	assert_int_equal(in.len, LEN);
}

static void wan_udp_get__refuses_bad_checksums(void **state)
{
	(void)state;
	for (size_t i = 0; i < 28 + LEN; i += 13) {
		enum wan_udp_kind kind;

		build4();
		ip[i] ^= 0x10;
		kind = read4();
		assert_int_not_equal(kind, WAN_UDP_OURS);
		if (i >= 28 || i == 10)
			assert_int_equal(kind, WAN_UDP_BAD_CHECKSUM);
	}
	build4();
	ip[8]--; /* a TTL without the checksum that goes with it */
	assert_int_equal(read4(), WAN_UDP_BAD_CHECKSUM);
	build4();
	put_be16(ip + 26, 0); /* there is none */
	assert_int_equal(read4(), WAN_UDP_OURS);
	build(&a6, &b6, 0, false);
	put_be16(ip + 46, 0);
	assert_int_equal(read6(), WAN_UDP_BAD_CHECKSUM);
	build(&a6, &b6, 0, false);
	room[AT + LEN - 1] ^= 1;
	assert_int_equal(read6(), WAN_UDP_BAD_CHECKSUM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wan_udp_put__is_what_get_reads),
	    cmocka_unit_test(wan_udp_put__writes_the_headers),
	    cmocka_unit_test(wan_udp_put__checksum_is_the_other_functions),
	    cmocka_unit_test(wan_udp_put__a_checksum_of_0_is_ffff),
	    cmocka_unit_test(wan_udp_get__gives_ecn),
	    cmocka_unit_test(wan_udp_get__leaves_what_is_the_kernels),
	    cmocka_unit_test(wan_udp_get__refuses_a_header_that_is_too_short),
	    cmocka_unit_test(wan_udp_get__names_foreigners),
	    cmocka_unit_test(wan_udp_get__refuses_bad_lengths),
	    cmocka_unit_test(wan_udp_get__reads_no_further_than_the_frame),
	    cmocka_unit_test(wan_udp_get__leaves_padding_out),
	    cmocka_unit_test(wan_udp_get__refuses_bad_checksums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
