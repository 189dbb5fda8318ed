/* SPDX-License-Identifier: Apache-2.0 */
/* The ICRC against a bitwise one, and its patches against recomputing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/roce/icrc.h"
#include "proxy/util/limits.h"
#include "tests/unit/slow_icrc.h"

static uint64_t rnd_state;

static uint32_t rnd(void)
{
	rnd_state = rnd_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(rnd_state >> 32);
}

static int seed_rnd(void **state)
{
	(void)state;
	rnd_state = 1;
	return 0;
}

static void fill(uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)rnd();
}

/* A sound packet with random fields; returns its length. */
static size_t make(uint8_t *buf, struct roce_pkt *pkt, uint8_t opcode, bool ip6, size_t payload_len)
{
	uint8_t payload[LAN_PKT_MAX];
	size_t len;

	memset(pkt, 0, sizeof(*pkt));
	fill(pkt->src.b + 12, 4);
	fill(pkt->dst.b + 12, 4);
	pkt->ip6 = ip6;
	pkt->opcode = opcode;
	pkt->tos = (uint8_t)rnd();
	pkt->ttl = (uint8_t)rnd();
	pkt->udp_sport = (uint16_t)rnd();
	pkt->pkey = (uint16_t)rnd();
	pkt->ack_req = rnd() & 1;
	pkt->dest_qpn = rnd() & ROCE_QPN_MASK;
	pkt->psn = rnd() & ROCE_PSN_MASK;
	pkt->reth_va = rnd();
	fill(payload, payload_len);
	len = roce_build(buf, LAN_PKT_MAX, pkt, payload, payload_len);
	assert_true(len > 0);
	return len;
}

static void icrc_compute__agrees_with_bitwise(void **state)
{
	static const size_t payload_lens[] = {0, 1, 2, 3, 4, 5, 64, 255, 1024, 2048, 4096};
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt pkt;

	(void)state;
	for (unsigned op = 0; op < 256; op++)
		for (unsigned i = 0; i < 2 * sizeof(payload_lens) / sizeof(payload_lens[0]); i++) {
			size_t len = make(buf, &pkt, (uint8_t)op, i & 1, payload_lens[i / 2]);

			assert_int_equal(icrc_compute(buf, &pkt), slow_icrc(buf, len));
			assert_int_equal(icrc_load(buf, &pkt), slow_icrc(buf, len));
		}
}

static void icrc_store__is_little_endian(void **state)
{
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt pkt;
	size_t len = make(buf, &pkt, RC_ACK, false, 0);

	(void)state;
	icrc_store(buf, &pkt, 0x01020304);
	assert_memory_equal(buf + len - 4, ((uint8_t[]){4, 3, 2, 1}), 4);
	assert_int_equal(icrc_load(buf, &pkt), 0x01020304);
}

/* Every single bit: those that routers change do not matter, all others do. */
static void icrc_check__each_flipped_bit(void **state)
{
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt pkt;

	(void)state;
	for (int ip6 = 0; ip6 < 2; ip6++) {
		size_t len = make(buf, &pkt, RC_WRITE_ONLY_IMM, ip6, 37);

		for (size_t bit = 0; bit < len * 8; bit++) {
			uint8_t mask = (uint8_t)(1 << bit % 8);
			bool mutable = slow_icrc_mask(buf, bit / 8) & mask;

			buf[bit / 8] ^= mask;
			assert_int_equal(icrc_check(buf, &pkt, NULL), mutable);
			buf[bit / 8] ^= mask;
		}
	}
}

static void icrc_check__payload_crc_covers_payload_and_pad(void **state)
{
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt pkt;

	(void)state;
	for (size_t n = 0; n <= 4096; n += n < 300 ? 1 : 61) {
		size_t len = make(buf, &pkt, RC_SEND_ONLY, n & 1, n);
		uint32_t crc = 0;

		assert_true(icrc_check(buf, &pkt, &crc));
		assert_int_equal(crc, slow_crc(0, buf + pkt.hdr_len, len - pkt.hdr_len - 4));
	}
}

static void icrc_check__payload_crc_same_for_retransmission(void **state)
{
	uint8_t a[LAN_PKT_MAX], b[LAN_PKT_MAX];
	uint32_t crc_a = 1, crc_b = 2, crc_c = 3;
	struct roce_pkt pkt;

	(void)state;
	make(a, &pkt, RC_WRITE_MIDDLE, false, 1024);
	assert_true(icrc_check(a, &pkt, &crc_a));
	pkt.psn ^= 0x5a5a5a;
	pkt.ack_req = !pkt.ack_req;
	roce_build(b, sizeof(b), &pkt, a + pkt.hdr_len, 1024);
	assert_true(icrc_check(b, &pkt, &crc_b));
	assert_int_equal(crc_a, crc_b);
	b[pkt.hdr_len + 500] ^= 0x10;
	icrc_store(b, &pkt, icrc_compute(b, &pkt));
	assert_true(icrc_check(b, &pkt, &crc_c));
	assert_int_not_equal(crc_a, crc_c);
}

static void icrc_check__wrong_icrc_leaves_payload_crc(void **state)
{
	uint8_t buf[LAN_PKT_MAX];
	uint32_t crc = 77;
	struct roce_pkt pkt;

	(void)state;
	make(buf, &pkt, RC_SEND_ONLY, false, 8);
	buf[pkt.len - 1] ^= 1;
	assert_false(icrc_check(buf, &pkt, &crc));
	assert_int_equal(crc, 77);
}

/* Each entry of the power tables is used by some span. */
static void icrc_patch__every_span(void **state)
{
	static const uint8_t diff[3] = {0x80, 0x01, 0x5c};
	uint32_t reg = slow_crc(0, diff, sizeof(diff));

	(void)state;
	for (size_t after = 0; after <= ICRC_MAX_SPAN; after++) {
		assert_int_equal(icrc_patch(0xcafef00d, diff, sizeof(diff), after), 0xcafef00d ^ reg);
		reg = slow_crc_byte(reg, 0);
	}
}

/* Beyond the promise it is slower, not wrong. */
static void icrc_patch__beyond_the_largest_span(void **state)
{
	uint32_t reg = slow_crc_byte(0, 0xa5);

	(void)state;
	for (size_t i = 0; i < 2 * ICRC_MAX_SPAN + 5; i++)
		reg = slow_crc_byte(reg, 0);
	assert_int_equal(icrc_patch(0, (uint8_t[]){0xa5}, 1, 2 * ICRC_MAX_SPAN + 5), reg);
}

static void icrc_patch__no_difference(void **state)
{
	static const uint8_t diff[16];

	(void)state;
	for (size_t n = 1; n <= sizeof(diff); n++)
		assert_int_equal(icrc_patch(0x12345678, diff, n, 4000), 0x12345678);
}

static void icrc_patch__agrees_with_recomputing(void **state)
{
	uint8_t buf[LAN_PKT_MAX], diff[16];
	struct roce_pkt pkt;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		size_t len = make(buf, &pkt, RC_WRITE_FIRST, rnd() & 1, 64 + rnd() % 1000);
		size_t n = 1 + rnd() % sizeof(diff);
		/* anywhere behind the masked fields */
		size_t first = pkt.bth_off + 5u, last = len - 4 - n;
		size_t at = first + rnd() % (last - first + 1);

		fill(diff, n);
		for (size_t i = 0; i < n; i++)
			buf[at + i] ^= diff[i];
		icrc_store(buf, &pkt, icrc_patch(icrc_load(buf, &pkt), diff, n, len - 4 - at - n));
		assert_true(icrc_check(buf, &pkt, NULL));
		assert_int_equal(icrc_load(buf, &pkt), slow_icrc(buf, len));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(icrc_compute__agrees_with_bitwise, seed_rnd),
	    cmocka_unit_test_setup(icrc_store__is_little_endian, seed_rnd),
	    cmocka_unit_test_setup(icrc_check__each_flipped_bit, seed_rnd),
	    cmocka_unit_test_setup(icrc_check__payload_crc_covers_payload_and_pad, seed_rnd),
	    cmocka_unit_test_setup(icrc_check__payload_crc_same_for_retransmission, seed_rnd),
	    cmocka_unit_test_setup(icrc_check__wrong_icrc_leaves_payload_crc, seed_rnd),
	    cmocka_unit_test(icrc_patch__every_span),
	    cmocka_unit_test(icrc_patch__beyond_the_largest_span),
	    cmocka_unit_test(icrc_patch__no_difference),
	    cmocka_unit_test_setup(icrc_patch__agrees_with_recomputing, seed_rnd),
	};

	return cmocka_run_group_tests_name("icrc", tests, NULL, NULL);
}
