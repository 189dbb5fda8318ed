/* SPDX-License-Identifier: Apache-2.0 */
/* The packet codec: packets made elsewhere, every opcode there and back, everything that must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/util/bytes.h"
#include "proxy/roce/icrc.h"
#include "proxy/util/limits.h"
#include "proxy/roce/roce.h"
#include "tests/unit/slow_icrc.h"

/* Made by another program with another CRC (zlib's), field by field from the specification.
 *
 * WRITE_ONLY as rdma_rxe sends it: 10.1.0.2 to 10.2.0.2, 13 bytes and 3 of pad, QPN 0x11, PSN 0x7a3c21, AckReq. */
static const uint8_t rxe_write_only[] = {
    0x45, 0x00, 0x00, 0x4c, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x11, 0x0a, 0x55, 0x0a, 0x01, 0x00, 0x02, 0x0a, 0x02, 0x00,
    0x02, 0xd2, 0xf1, 0x12, 0xb7, 0x00, 0x38, 0x00, 0x00, 0x0a, 0x30, 0xff, 0xff, 0x00, 0x00, 0x00, 0x11, 0x80, 0x7a,
    0x3c, 0x21, 0x00, 0x00, 0x7f, 0x12, 0x34, 0x56, 0x78, 0xa0, 0x00, 0x00, 0x11, 0x2a, 0x00, 0x00, 0x00, 0x0d, 0x6c,
    0x6f, 0x6e, 0x67, 0x72, 0x65, 0x61, 0x63, 0x68, 0x20, 0x33, 0x30, 0x30, 0x00, 0x00, 0x00, 0x92, 0x65, 0xa7, 0x7b,
};

/* SEND_ONLY_IMM over IPv6 with traffic class, flow label, solicited event, MigReq and a P_Key; 16 bytes 0..15. */
static const uint8_t ip6_send_only_imm[] = {
    0x66, 0x8a, 0xbc, 0xde, 0x00, 0x2c, 0x11, 0x3f, 0xfd, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xfd, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0xc1, 0x23, 0x12, 0xb7, 0x00, 0x2c, 0x00, 0x00, 0x05, 0xc0, 0x80,
    0x01, 0x00, 0xff, 0xff, 0xfe, 0x00, 0xff, 0xff, 0xff, 0xde, 0xad, 0xbe, 0xef, 0x00, 0x01, 0x02, 0x03,
    0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x44, 0x30, 0x5e, 0xff,
};

/* ACK of the first, credits invalid, MSN 7. */
static const uint8_t rxe_ack[] = {
    0x45, 0x02, 0x00, 0x30, 0x00, 0x01, 0x40, 0x00, 0x40, 0x11, 0x26, 0xb4, 0x0a, 0x02, 0x00, 0x02,
    0x0a, 0x01, 0x00, 0x02, 0xd2, 0xf1, 0x12, 0xb7, 0x00, 0x1c, 0x00, 0x00, 0x11, 0x00, 0xff, 0xff,
    0x00, 0x00, 0x00, 0x12, 0x00, 0x7a, 0x3c, 0x21, 0x1f, 0x00, 0x00, 0x07, 0x24, 0x89, 0x99, 0x8f,
};

/* A copy that ends where the heap block ends, so that a sanitizer sees any byte read behind it. */
static uint8_t *tight(const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);

	assert_non_null(copy);
	memcpy(copy, p, n);
	return copy;
}

/* Parses such a copy. */
static enum proxy_drop parse(const uint8_t *p, size_t n, struct roce_pkt *pkt)
{
	uint8_t *copy = tight(p, n);
	enum proxy_drop drop = roce_parse(copy, n, pkt);

	free(copy);
	return drop;
}

static struct ip_addr ip4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	return (struct ip_addr){.b = {[10] = 0xff, 0xff, a, b, c, d}};
}

/* All fields set, so that a header that is forgotten or exchanged shows. */
static struct roce_pkt sample(uint8_t opcode, bool ip6)
{
	struct roce_pkt pkt = {
	    .src = ip4(10, 1, 0, 2),
	    .dst = ip4(10, 2, 0, 3),
	    .ip6 = ip6,
	    .tos = 0x6a,
	    .ttl = 64,
	    .udp_sport = 0xd2f1,
	    .opcode = opcode,
	    .solicited = true,
	    .migreq = opcode & 1,
	    .becn = opcode >> 1 & 1,
	    .ack_req = opcode & 2,
	    .pkey = 0x8123,
	    .dest_qpn = 0xabcdef,
	    .psn = 0xfedcba,
	    .reth_va = 0x0102030405060708,
	    .reth_rkey = 0x11121314,
	    .reth_len = 0x21222324,
	    .feth = 0x25262728,
	    .imm = 0x31323334,
	    .ieth_rkey = 0x41424344,
	    .aeth_syndrome = 0x63,
	    .aeth_msn = 0x515253,
	    .atomic_va = 0x6162636465666768,
	    .atomic_rkey = 0x71727374,
	    .atomic_swap_add = 0x8182838485868788,
	    .atomic_compare = 0x9192939495969798,
	    .atomic_orig = 0xa1a2a3a4a5a6a7a8,
	    .deth_qkey = 0xb1b2b3b4,
	    .deth_src_qpn = 0xc1c2c3,
	};

	if (ip6) {
		memcpy(pkt.src.b, "\xfd\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02", 16);
		memcpy(pkt.dst.b, "\xfd\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03", 16);
	}
	return pkt;
}

/* A sound IPv4 WRITE_ONLY of `n` bytes to spoil. */
static size_t make(uint8_t *buf, struct roce_pkt *pkt, uint8_t opcode, bool ip6, size_t n)
{
	static const uint8_t payload[LAN_PKT_MAX];

	*pkt = sample(opcode, ip6);
	return roce_build(buf, LAN_PKT_MAX, pkt, payload, n);
}

/* --- table --- */

/* Extended headers as IBTA table 38 names them, lengths as in 9.3. */
static void roce_op__ext_len_of_every_opcode(void **state)
{
	static const struct {
		uint8_t opcode, ext_len;
	} rows[] = {
	    {RC_SEND_FIRST, 0},     {RC_SEND_MIDDLE, 0},     {RC_SEND_LAST, 0},
	    {RC_SEND_LAST_IMM, 4},  {RC_SEND_ONLY, 0},       {RC_SEND_ONLY_IMM, 4},
	    {RC_WRITE_FIRST, 16},   {RC_WRITE_MIDDLE, 0},    {RC_WRITE_LAST, 0},
	    {RC_WRITE_LAST_IMM, 4}, {RC_WRITE_ONLY, 16},     {RC_WRITE_ONLY_IMM, 20},
	    {RC_READ_REQUEST, 16},  {RC_READ_RESP_FIRST, 4}, {RC_READ_RESP_MIDDLE, 0},
	    {RC_READ_RESP_LAST, 4}, {RC_READ_RESP_ONLY, 4},  {RC_ACK, 4},
	    {RC_ATOMIC_ACK, 12},    {RC_CMP_SWAP, 28},       {RC_FETCH_ADD, 28},
	    {RC_SEND_LAST_INV, 4},  {RC_SEND_ONLY_INV, 4},   {UD_SEND_ONLY, 8},
	    {UD_SEND_ONLY_IMM, 12}, {RC_FLUSH, 20},          {RC_ATOMIC_WRITE, 16},
	    {ROCE_CNP, 0},
	};
	unsigned valid = 0;

	(void)state;
	for (unsigned op = 0; op < 256; op++)
		valid += (roce_op((uint8_t)op)->flags & ROP_VALID) != 0;
	assert_int_equal(valid, sizeof(rows) / sizeof(rows[0]));
	for (unsigned i = 0; i < valid; i++) {
		assert_true(roce_op(rows[i].opcode)->flags & ROP_VALID);
		assert_int_equal(roce_op(rows[i].opcode)->ext_len, rows[i].ext_len);
	}
}

static void roce_op__has_a_row_for_each_opcode(void **state)
{
	(void)state;
	for (unsigned op = 0; op < 256; op++) {
		const struct roce_opinfo *row = roce_op((uint8_t)op);

		assert_int_equal(row->name[0] != '\0', (row->flags & ROP_VALID) != 0);
		assert_true(memchr(row->name, '\0', sizeof(row->name)) != NULL);
	}
	assert_int_equal(roce_op(RC_RESERVED_15)->flags, 0);
}

/* A request starts a message, goes on or ends it; only READ, ATOMIC and FLUSH have responses of their own. */
static void roce_op__message_flags(void **state)
{
	(void)state;
	for (unsigned op = 0; op < 32; op++) {
		unsigned flags = roce_op((uint8_t)op)->flags;
		bool own = op == RC_READ_REQUEST || op == RC_CMP_SWAP || op == RC_FETCH_ADD || op == RC_FLUSH ||
		           op == RC_ATOMIC_WRITE;
		bool response = op >= RC_READ_RESP_FIRST && op <= RC_ATOMIC_ACK;

		if (!(flags & ROP_VALID))
			continue;
		assert_int_equal((flags & ROP_OWN_RESPONSE) != 0, own);
		assert_int_equal((flags & ROP_RESPONSE) != 0, response);
		assert_int_equal((flags & ROP_REQUEST) != 0, !response);
		assert_true(!own || (flags & (ROP_START | ROP_END)) == (ROP_START | ROP_END));
	}
	assert_int_equal(roce_op(RC_WRITE_FIRST)->flags & (ROP_START | ROP_END), ROP_START);
	assert_int_equal(roce_op(RC_WRITE_MIDDLE)->flags & (ROP_START | ROP_END), 0);
	assert_int_equal(roce_op(RC_SEND_LAST_INV)->flags & (ROP_START | ROP_END), ROP_END);
	assert_int_equal(roce_op(RC_SEND_ONLY_IMM)->flags & (ROP_START | ROP_END), ROP_START | ROP_END);
}

/* --- parse: golden packets --- */

static void roce_parse__rxe_write_only(void **state)
{
	struct ip_addr src = ip4(10, 1, 0, 2), dst = ip4(10, 2, 0, 2);
	struct roce_pkt pkt;
	uint32_t crc;

	(void)state;
	assert_int_equal(parse(rxe_write_only, sizeof(rxe_write_only), &pkt), DROP_NONE);
	assert_true(ip_addr_eq(&pkt.src, &src) && ip_addr_eq(&pkt.dst, &dst) && ip_addr_is4(&pkt.src));
	assert_int_equal(pkt.class, ROCE_RC_REQUEST);
	assert_int_equal(pkt.len, sizeof(rxe_write_only));
	assert_int_equal(pkt.bth_off, 28);
	assert_int_equal(pkt.ext_off, 40);
	assert_int_equal(pkt.hdr_len, 56);
	assert_int_equal(pkt.payload_len, 13);
	assert_int_equal(pkt.pad, 3);
	assert_int_equal(pkt.opcode, RC_WRITE_ONLY);
	assert_int_equal(pkt.ttl, 64);
	assert_int_equal(pkt.tos, 0);
	assert_int_equal(pkt.udp_sport, 0xd2f1);
	assert_int_equal(pkt.pkey, 0xffff);
	assert_int_equal(pkt.dest_qpn, 0x11);
	assert_int_equal(pkt.psn, 0x7a3c21);
	assert_true(pkt.ack_req && !pkt.solicited && !pkt.migreq && !pkt.ip6);
	assert_int_equal(pkt.reth_va, 0x7f12345678a0);
	assert_int_equal(pkt.reth_rkey, 0x112a);
	assert_int_equal(pkt.reth_len, 13);
	assert_memory_equal(rxe_write_only + pkt.hdr_len, "longreach 300", 13);
	assert_true(icrc_check(rxe_write_only, &pkt, &crc));
	assert_int_equal(slow_icrc(rxe_write_only, pkt.len), icrc_load(rxe_write_only, &pkt));
}

static void roce_parse__ip6_send_only_imm(void **state)
{
	struct roce_pkt pkt;

	(void)state;
	assert_int_equal(parse(ip6_send_only_imm, sizeof(ip6_send_only_imm), &pkt), DROP_NONE);
	assert_true(pkt.ip6 && !ip_addr_is4(&pkt.src));
	assert_int_equal(pkt.src.b[0], 0xfd);
	assert_int_equal(pkt.src.b[3], 1);
	assert_int_equal(pkt.dst.b[3], 2);
	assert_int_equal(pkt.tos, 0x68);
	assert_int_equal(pkt.ttl, 63);
	assert_int_equal(pkt.bth_off, 48);
	assert_int_equal(pkt.hdr_len, 64);
	assert_int_equal(pkt.payload_len, 16);
	assert_int_equal(pkt.pkey, 0x8001);
	assert_int_equal(pkt.dest_qpn, 0xfffffe);
	assert_int_equal(pkt.psn, 0xffffff);
	assert_true(pkt.solicited && pkt.migreq && !pkt.ack_req);
	assert_int_equal(pkt.imm, 0xdeadbeef);
	assert_true(icrc_check(ip6_send_only_imm, &pkt, NULL));
}

static void roce_parse__rxe_ack(void **state)
{
	struct roce_pkt pkt;

	(void)state;
	assert_int_equal(parse(rxe_ack, sizeof(rxe_ack), &pkt), DROP_NONE);
	assert_int_equal(pkt.class, ROCE_RC_RESPONSE);
	assert_int_equal(pkt.aeth_syndrome, AETH_ACK_NO_CREDITS);
	assert_int_equal(pkt.aeth_msn, 7);
	assert_int_equal(pkt.payload_len, 0);
	assert_true(icrc_check(rxe_ack, &pkt, NULL));
}

static void roce_parse__ethernet_padding_is_cut(void **state)
{
	uint8_t frame[sizeof(rxe_ack) + 12];
	struct roce_pkt pkt;

	(void)state;
	memset(frame, 0xee, sizeof(frame));
	memcpy(frame, rxe_ack, sizeof(rxe_ack));
	assert_int_equal(parse(frame, sizeof(frame), &pkt), DROP_NONE);
	assert_int_equal(pkt.len, sizeof(rxe_ack));
	assert_true(icrc_check(frame, &pkt, NULL));
}

/* --- parse: classes --- */

static void roce_parse__class_of_every_opcode(void **state)
{
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt pkt;

	(void)state;
	for (unsigned op = 0; op < 256; op++) {
		unsigned flags = roce_op((uint8_t)op)->flags;
		enum roce_class want = op == 0x81             ? ROCE_CNP_CLASS
		                       : op >= 0x20           ? ROCE_OTHER
		                       : flags & ROP_REQUEST  ? ROCE_RC_REQUEST
		                       : flags & ROP_RESPONSE ? ROCE_RC_RESPONSE
		                                              : ROCE_RC_UNKNOWN;
		size_t len = make(buf, &pkt, (uint8_t)op, op & 1, 16);

		assert_int_equal(pkt.class, want);
		assert_int_equal(parse(buf, len, &pkt), DROP_NONE);
		assert_int_equal(pkt.class, want);
		if (want == ROCE_RC_UNKNOWN || op == ROCE_CNP)
			assert_int_equal(pkt.hdr_len, pkt.bth_off + ROCE_BTH_LEN);
		assert_int_equal(pkt.payload_len, 16);
	}
}

/* --- parse: what is refused --- */

static void roce_parse__every_truncation(void **state)
{
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt pkt;

	(void)state;
	for (unsigned op = 0; op < 256; op++) {
		size_t len = make(buf, &pkt, (uint8_t)op, op & 1, op % 9);

		for (size_t cut = 0; cut < len; cut++)
			assert_int_equal(parse(buf, cut, &pkt), DROP_LAN_TRUNCATED);
	}
}

/* Cut short with lengths that admit it: down to BTH, extended headers, pad and ICRC it is sound, then it is not. */
static void roce_parse__every_honest_length(void **state)
{
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt pkt;

	(void)state;
	for (unsigned op = 0; op < 256; op++) {
		bool ip6 = op & 1;
		size_t len = make(buf, &pkt, (uint8_t)op, ip6, 7), ip_len = ip6 ? 40 : 20;
		size_t least = (size_t)pkt.hdr_len + 4;

		for (size_t cut = ip_len; cut <= len; cut++) {
			enum proxy_drop drop;

			put_be16(ip6 ? buf + 4 : buf + 2, (uint16_t)(ip6 ? cut - 40 : cut));
			if (cut >= ip_len + 8)
				put_be16(buf + ip_len + 4, (uint16_t)(cut - ip_len));
			drop = parse(buf, cut, &pkt);
			assert_int_equal(drop, cut < least       ? DROP_LAN_TRUNCATED
			                       : cut < least + 1 ? DROP_LAN_BAD_LENGTH /* pad is 1 */
			                                         : DROP_NONE);
			if (drop == DROP_NONE)
				assert_int_equal(pkt.payload_len, cut - least - 1);
		}
	}
}

static void roce_parse__refuses(void **state)
{
	static const struct {
		const char *what;
		bool ip6;
		uint8_t at, value;
		enum proxy_drop drop;
	} cases[] = {
	    {"IP version 5", false, 0, 0x55, DROP_LAN_NOT_IP},
	    {"IP options", false, 0, 0x46, DROP_LAN_NOT_IP},
	    {"IHL too short", false, 0, 0x44, DROP_LAN_NOT_IP},
	    {"more fragments", false, 6, 0x20, DROP_LAN_FRAGMENT},
	    {"fragment offset, high bits", false, 6, 0x01, DROP_LAN_FRAGMENT},
	    {"fragment offset, low bits", false, 7, 0x01, DROP_LAN_FRAGMENT},
	    {"TCP", false, 9, 6, DROP_LAN_NOT_ROCE},
	    {"another port", false, 23, 0xb8, DROP_LAN_NOT_ROCE},
	    {"IP length too long", false, 3, 0xff, DROP_LAN_TRUNCATED},
	    {"IP length too short", false, 3, 0x40, DROP_LAN_BAD_LENGTH},
	    {"UDP length too short", false, 25, 0x20, DROP_LAN_BAD_LENGTH},
	    {"UDP length too long", false, 25, 0xff, DROP_LAN_BAD_LENGTH},
	    {"transport version 1", false, 29, 0x01, DROP_LAN_BAD_VERSION},
	    {"transport version 8", false, 29, 0x08, DROP_LAN_BAD_VERSION},
	    {"IPv6 hop by hop", true, 6, 0, DROP_LAN_NOT_IP},
	    {"IPv6 routing", true, 6, 43, DROP_LAN_NOT_IP},
	    {"IPv6 fragment", true, 6, 44, DROP_LAN_FRAGMENT},
	    {"IPv6 ESP", true, 6, 50, DROP_LAN_NOT_IP},
	    {"IPv6 AH", true, 6, 51, DROP_LAN_NOT_IP},
	    {"IPv6 destination options", true, 6, 60, DROP_LAN_NOT_IP},
	    {"IPv6 TCP", true, 6, 6, DROP_LAN_NOT_ROCE},
	    {"IPv6 length too short", true, 5, 0x20, DROP_LAN_BAD_LENGTH},
	    {"IPv6 length too long", true, 5, 0xff, DROP_LAN_TRUNCATED},
	    {"IPv6 jumbogram", true, 5, 0, DROP_LAN_TRUNCATED},
	    {"IPv6 another port", true, 43, 0xb8, DROP_LAN_NOT_ROCE},
	};
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt pkt;

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t len = make(buf, &pkt, RC_WRITE_ONLY, cases[i].ip6, 24);

		buf[cases[i].at] = cases[i].value;
		if (parse(buf, len, &pkt) != cases[i].drop)
			fail_msg("%s: %s", cases[i].what, proxy_drop_name(parse(buf, len, &pkt)));
	}
}

static void roce_parse__nothing_and_noise(void **state)
{
	struct roce_pkt pkt;

	(void)state;
	assert_int_equal(roce_parse((const uint8_t *)"", 0, &pkt), DROP_LAN_TRUNCATED);
	assert_int_equal(parse((const uint8_t *)"\x45", 1, &pkt), DROP_LAN_TRUNCATED);
	assert_int_equal(parse((const uint8_t *)"\x60", 1, &pkt), DROP_LAN_TRUNCATED);
	assert_int_equal(parse((const uint8_t *)"\x00", 1, &pkt), DROP_LAN_NOT_IP);
}

static void roce_parse__too_big(void **state)
{
	static const size_t lens[] = {LAN_PKT_MAX, LAN_PKT_MAX + 1, 9000, 65535};
	static uint8_t buf[65536];
	struct roce_pkt pkt;

	(void)state;
	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		make(buf, &pkt, RC_WRITE_MIDDLE, false, 1024);
		put_be16(buf + 2, (uint16_t)lens[i]);
		put_be16(buf + 24, (uint16_t)(lens[i] - 20));
		assert_int_equal(parse(buf, lens[i], &pkt), i == 0 ? DROP_NONE : DROP_LAN_TOO_BIG);
	}
}

static void roce_parse__ip6_longer_than_16_bits(void **state)
{
	static uint8_t buf[40 + 65535];
	struct roce_pkt pkt;

	(void)state;
	make(buf, &pkt, RC_WRITE_MIDDLE, true, 1024);
	put_be16(buf + 4, 65535);
	put_be16(buf + 44, 65535);
	assert_int_equal(parse(buf, sizeof(buf), &pkt), DROP_LAN_TOO_BIG);
}

/* --- build --- */

static void assert_same_fields(const struct roce_pkt *got, const struct roce_pkt *want)
{
	unsigned flags = roce_op(want->opcode)->flags;

	assert_memory_equal(&got->src, &want->src, sizeof(got->src));
	assert_memory_equal(&got->dst, &want->dst, sizeof(got->dst));
	assert_int_equal(got->class, want->class);
	assert_int_equal(got->len, want->len);
	assert_int_equal(got->payload_len, want->payload_len);
	assert_int_equal(got->pkey, want->pkey);
	assert_int_equal(got->udp_sport, want->udp_sport);
	assert_int_equal(got->bth_off, want->bth_off);
	assert_int_equal(got->ext_off, want->ext_off);
	assert_int_equal(got->hdr_len, want->hdr_len);
	assert_int_equal(got->opcode, want->opcode);
	assert_int_equal(got->pad, want->pad);
	assert_int_equal(got->ttl, want->ttl);
	assert_int_equal(got->tos, want->tos);
	assert_int_equal(got->ip6, want->ip6);
	assert_int_equal(got->solicited, want->solicited);
	assert_int_equal(got->migreq, want->migreq);
	assert_int_equal(got->becn, want->becn);
	assert_int_equal(got->ack_req, want->ack_req);
	assert_int_equal(got->dest_qpn, want->dest_qpn);
	assert_int_equal(got->psn, want->psn);
	/* headers that the opcode has not read as 0 */
	assert_int_equal(got->reth_va, flags & ROP_RETH ? want->reth_va : 0);
	assert_int_equal(got->reth_rkey, flags & ROP_RETH ? want->reth_rkey : 0);
	assert_int_equal(got->reth_len, flags & ROP_RETH ? want->reth_len : 0);
	assert_int_equal(got->feth, flags & ROP_FETH ? want->feth : 0);
	assert_int_equal(got->imm, flags & ROP_IMM ? want->imm : 0);
	assert_int_equal(got->ieth_rkey, flags & ROP_IETH ? want->ieth_rkey : 0);
	assert_int_equal(got->aeth_syndrome, flags & ROP_AETH ? want->aeth_syndrome : 0);
	assert_int_equal(got->aeth_msn, flags & ROP_AETH ? want->aeth_msn : 0);
	assert_int_equal(got->atomic_va, flags & ROP_ATOMICETH ? want->atomic_va : 0);
	assert_int_equal(got->atomic_rkey, flags & ROP_ATOMICETH ? want->atomic_rkey : 0);
	assert_int_equal(got->atomic_swap_add, flags & ROP_ATOMICETH ? want->atomic_swap_add : 0);
	assert_int_equal(got->atomic_compare, flags & ROP_ATOMICETH ? want->atomic_compare : 0);
	assert_int_equal(got->atomic_orig, flags & ROP_ATOMICACKETH ? want->atomic_orig : 0);
	assert_int_equal(got->deth_qkey, flags & ROP_DETH ? want->deth_qkey : 0);
	assert_int_equal(got->deth_src_qpn, flags & ROP_DETH ? want->deth_src_qpn : 0);
}

static void roce_build__every_opcode_there_and_back(void **state)
{
	static const uint8_t payload[] = "what the host wrote";
	uint8_t buf[256];
	struct roce_pkt want, got;

	(void)state;
	for (unsigned i = 0; i < 512; i++)
		for (size_t n = 0; n < 10; n++) {
			size_t len;

			want = sample((uint8_t)(i / 2), i & 1);
			len = roce_build(buf, sizeof(buf), &want, payload, n);
			assert_int_equal(len, want.len);
			assert_int_equal((len - want.hdr_len) % 4, 0);
			assert_int_equal(parse(buf, len, &got), DROP_NONE);
			assert_same_fields(&got, &want);
			assert_memory_equal(buf + got.hdr_len, payload, n);
			assert_int_equal(icrc_load(buf, &got), slow_icrc(buf, len));
		}
}

/* What stands between BTH and payload, as the specification draws it, for each opcode that has anything there. */
static void roce_build__extended_headers_byte_by_byte(void **state)
{
#define FETH "\x25\x26\x27\x28"
#define RETH "\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x21\x22\x23\x24"
#define IMM  "\x31\x32\x33\x34"
#define IETH "\x41\x42\x43\x44"
#define AETH "\x63\x51\x52\x53"
#define ATOMIC                                                                                                         \
	"\x61\x62\x63\x64\x65\x66\x67\x68\x71\x72\x73\x74\x81\x82\x83\x84\x85\x86\x87\x88\x91\x92\x93\x94\x95\x96\x97" \
	"\x98"
#define ORIG "\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8"
#define DETH "\xb1\xb2\xb3\xb4\x00\xc1\xc2\xc3"
	static const struct {
		uint8_t opcode;
		const char *ext;
		size_t len;
	} rows[] = {
#define ROW(opcode, ext) {opcode, ext, sizeof(ext) - 1}
	    ROW(RC_SEND_LAST_IMM, IMM),
	    ROW(RC_SEND_ONLY_IMM, IMM),
	    ROW(RC_WRITE_FIRST, RETH),
	    ROW(RC_WRITE_LAST_IMM, IMM),
	    ROW(RC_WRITE_ONLY, RETH),
	    ROW(RC_WRITE_ONLY_IMM, RETH IMM),
	    ROW(RC_READ_REQUEST, RETH),
	    ROW(RC_READ_RESP_FIRST, AETH),
	    ROW(RC_READ_RESP_LAST, AETH),
	    ROW(RC_READ_RESP_ONLY, AETH),
	    ROW(RC_ACK, AETH),
	    ROW(RC_ATOMIC_ACK, AETH ORIG),
	    ROW(RC_CMP_SWAP, ATOMIC),
	    ROW(RC_FETCH_ADD, ATOMIC),
	    ROW(RC_SEND_LAST_INV, IETH),
	    ROW(RC_SEND_ONLY_INV, IETH),
	    ROW(RC_FLUSH, FETH RETH),
	    ROW(RC_ATOMIC_WRITE, RETH),
	    ROW(UD_SEND_ONLY, DETH),
	    ROW(UD_SEND_ONLY_IMM, DETH IMM),
	};
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt pkt;

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		make(buf, &pkt, rows[i].opcode, i & 1, 4);
		assert_int_equal(pkt.hdr_len - pkt.ext_off, rows[i].len);
		assert_memory_equal(buf + pkt.ext_off, rows[i].ext, rows[i].len);
	}
}

/* The header of a golden packet differs from a built one only in what roce_build does not take: the IP ID. */
static void roce_build__golden_write_only(void **state)
{
	uint8_t buf[256];
	struct roce_pkt pkt;

	(void)state;
	assert_int_equal(roce_parse(rxe_write_only, sizeof(rxe_write_only), &pkt), DROP_NONE);
	assert_int_equal(roce_build(buf, sizeof(buf), &pkt, rxe_write_only + 56, 13), sizeof(rxe_write_only));
	assert_int_equal(get_be16(buf + 4), 0);
	assert_memory_equal(buf, rxe_write_only, 4);
	assert_memory_equal(buf + 6, rxe_write_only + 6, 4);
	assert_memory_equal(buf + 12, rxe_write_only + 12, sizeof(rxe_write_only) - 12 - 4);
}

/* The one's complement sum over a sound header is 0xffff. */
static uint16_t ip4_sum(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += get_be16(ip + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static void roce_build__ip4_checksum(void **state)
{
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt pkt;

	(void)state;
	for (unsigned i = 0; i < 256; i++) {
		struct roce_pkt p = sample(RC_ACK, false);

		p.tos = (uint8_t)i;
		p.src.b[15] = (uint8_t)(i * 37);
		roce_build(buf, sizeof(buf), &p, NULL, 0);
		assert_int_equal(ip4_sum(buf), 0xffff);
	}
	make(buf, &pkt, RC_ACK, false, 0);
	assert_int_equal(get_be16(buf + 6), 0x4000);
	assert_int_equal(get_be16(buf + 26), 0);
}

static void roce_build__needs_room(void **state)
{
	static const uint8_t payload[LAN_PKT_MAX + 1];
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt pkt = sample(RC_WRITE_ONLY, true);
	size_t len = 40 + 8 + 12 + 16 + 8 + 4;

	(void)state;
	for (size_t cap = 0; cap < len; cap++) {
		uint8_t *tight_buf = malloc(cap ? cap : 1);

		assert_int_equal(roce_build(tight_buf, cap, &pkt, payload, 7), 0);
		free(tight_buf);
	}
	assert_int_equal(roce_build(buf, len, &pkt, payload, 7), len);
	assert_int_equal(roce_build(buf, SIZE_MAX, &pkt, payload, sizeof(payload)), 0);
	assert_int_equal(roce_build(buf, SIZE_MAX, &pkt, payload, SIZE_MAX), 0);
	assert_int_equal(roce_build(buf, SIZE_MAX, &pkt, payload, LAN_PKT_MAX - 80), LAN_PKT_MAX);
	assert_int_equal(roce_build(buf, SIZE_MAX, &pkt, payload, LAN_PKT_MAX - 79), 0);
}

static void roce_build__payload_in_the_same_buffer(void **state)
{
	uint8_t buf[256], want[256];
	struct roce_pkt pkt = sample(RC_WRITE_ONLY, false);
	size_t len;

	(void)state;
	for (size_t at = 0; at <= 100; at += 10) {
		memset(buf, 0x11, sizeof(buf));
		for (uint8_t i = 0; i < 99; i++)
			buf[at + i] = i;
		len = roce_build(want, sizeof(want), &pkt, memcpy((uint8_t[99]){0}, buf + at, 99), 99);
		assert_int_equal(roce_build(buf, sizeof(buf), &pkt, buf + at, 99), len);
		assert_memory_equal(buf, want, len);
	}
}

/* --- in place --- */

static void roce_dec_ttl__mends_the_checksum(void **state)
{
	uint8_t buf[LAN_PKT_MAX];

	(void)state;
	for (unsigned ttl = 2; ttl < 256; ttl++)
		for (unsigned tos = 0; tos < 256; tos++) {
			struct roce_pkt pkt = sample(RC_ACK, false);

			pkt.ttl = (uint8_t)ttl;
			pkt.tos = (uint8_t)tos;
			roce_build(buf, sizeof(buf), &pkt, NULL, 0);
			assert_true(roce_dec_ttl(buf, &pkt));
			assert_int_equal(buf[8], ttl - 1);
			assert_int_equal(ip4_sum(buf), 0xffff);
			assert_true(icrc_check(buf, &pkt, NULL));
		}
}

/* All checksums that a header can have, also those at the seam of one's complement. */
static void roce_dec_ttl__every_checksum(void **state)
{
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt pkt;

	(void)state;
	make(buf, &pkt, RC_ACK, false, 0);
	for (unsigned id = 0; id < 65536; id++) {
		put_be16(buf + 4, (uint16_t)id);
		buf[8] = 64;
		put_be16(buf + 10, 0);
		put_be16(buf + 10, (uint16_t)~ip4_sum(buf));
		assert_true(roce_dec_ttl(buf, &pkt));
		assert_int_equal(ip4_sum(buf), 0xffff);
	}
}

static void roce_dec_ttl__a_wrong_checksum_stays_wrong(void **state)
{
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt pkt;

	(void)state;
	make(buf, &pkt, RC_ACK, false, 0);
	buf[10] ^= 0x40;
	assert_true(roce_dec_ttl(buf, &pkt));
	assert_int_not_equal(ip4_sum(buf), 0xffff);
}

static void roce_dec_ttl__none_left(void **state)
{
	uint8_t buf[LAN_PKT_MAX], before[LAN_PKT_MAX];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct roce_pkt pkt = sample(RC_ACK, i & 1);
		size_t len;

		pkt.ttl = (uint8_t)(i / 2);
		len = roce_build(buf, sizeof(buf), &pkt, NULL, 0);
		memcpy(before, buf, len);
		assert_false(roce_dec_ttl(buf, &pkt));
		assert_memory_equal(buf, before, len);
	}
}

static void roce_dec_ttl__ip6(void **state)
{
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt pkt;

	(void)state;
	make(buf, &pkt, RC_ACK, true, 0);
	assert_true(roce_dec_ttl(buf, &pkt));
	assert_int_equal(buf[7], 63);
	assert_true(icrc_check(buf, &pkt, NULL));
}

/* --- small things --- */

static void roce_read_psns__counts(void **state)
{
	(void)state;
	assert_int_equal(roce_read_psns(0, 1024), 1);
	assert_int_equal(roce_read_psns(1, 1024), 1);
	assert_int_equal(roce_read_psns(1024, 1024), 1);
	assert_int_equal(roce_read_psns(1025, 1024), 2);
	assert_int_equal(roce_read_psns(1u << 31, 256), 1u << 23);
	assert_int_equal(roce_read_psns(UINT32_MAX, 4096), 1u << 20);
}

static void roce_rnr_timer_ns__table(void **state)
{
	(void)state;
	assert_int_equal(roce_rnr_timer_ns(0), 655360000);
	assert_int_equal(roce_rnr_timer_ns(1), 10000);
	assert_int_equal(roce_rnr_timer_ns(4), 40000);
	assert_int_equal(roce_rnr_timer_ns(5), 60000);
	assert_int_equal(roce_rnr_timer_ns(12), 640000);
	assert_int_equal(roce_rnr_timer_ns(14), 1280000);
	assert_int_equal(roce_rnr_timer_ns(20), 10240000);
	assert_int_equal(roce_rnr_timer_ns(31), 491520000);
	/* from 4 on, each is twice the one before the last */
	for (uint8_t code = 4; code < 32; code++)
		assert_int_equal(roce_rnr_timer_ns(code), 2 * roce_rnr_timer_ns((uint8_t)(code - 2)));
	assert_int_equal(roce_rnr_timer_ns(0x20), roce_rnr_timer_ns(0));
	assert_int_equal(roce_rnr_timer_ns(0x2e), roce_rnr_timer_ns(14));
}

static void roce_rnr_timer_code__smallest_that_waits_long_enough(void **state)
{
	(void)state;
	assert_int_equal(roce_rnr_timer_code(0), 1);
	assert_int_equal(roce_rnr_timer_code(10000), 1);
	assert_int_equal(roce_rnr_timer_code(10001), 2);
	for (uint8_t code = 1; code < 32; code++) {
		assert_int_equal(roce_rnr_timer_code(roce_rnr_timer_ns(code)), code);
		assert_int_equal(roce_rnr_timer_code(roce_rnr_timer_ns(code) + 1), (code + 1) % 32);
	}
	assert_int_equal(roce_rnr_timer_code(655360000), 0);
	assert_int_equal(roce_rnr_timer_code(UINT64_MAX), 0);
}

/* Both families: only the mark goes, checksum and ICRC stay right. */
static void roce_clear_ce__leaves_the_rest(void **state)
{
	(void)state;
	for (int six = 0; six < 2; six++) {
		for (unsigned tos = 0; tos < 256; tos++) {
			uint8_t buf[256], want[256];
			struct roce_pkt pkt = sample(RC_WRITE_ONLY, six), got;
			size_t n;

			pkt.tos = (uint8_t)((tos & ECN_MASK) == ECN_CE ? tos & ~1u : tos);
			n = roce_build(want, sizeof(want), &pkt, (const uint8_t *)"abcd", 4);
			pkt.tos = (uint8_t)tos;
			assert_int_equal(roce_build(buf, sizeof(buf), &pkt, (const uint8_t *)"abcd", 4), n);
			assert_int_equal(roce_parse(buf, n, &got), DROP_NONE);
			roce_clear_ce(buf, &got);
			assert_memory_equal(buf, want, n);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(roce_op__ext_len_of_every_opcode),
	    cmocka_unit_test(roce_op__has_a_row_for_each_opcode),
	    cmocka_unit_test(roce_op__message_flags),
	    cmocka_unit_test(roce_parse__rxe_write_only),
	    cmocka_unit_test(roce_parse__ip6_send_only_imm),
	    cmocka_unit_test(roce_parse__rxe_ack),
	    cmocka_unit_test(roce_parse__ethernet_padding_is_cut),
	    cmocka_unit_test(roce_parse__class_of_every_opcode),
	    cmocka_unit_test(roce_parse__every_truncation),
	    cmocka_unit_test(roce_parse__every_honest_length),
	    cmocka_unit_test(roce_parse__refuses),
	    cmocka_unit_test(roce_parse__nothing_and_noise),
	    cmocka_unit_test(roce_parse__too_big),
	    cmocka_unit_test(roce_parse__ip6_longer_than_16_bits),
	    cmocka_unit_test(roce_build__every_opcode_there_and_back),
	    cmocka_unit_test(roce_build__extended_headers_byte_by_byte),
	    cmocka_unit_test(roce_build__golden_write_only),
	    cmocka_unit_test(roce_build__ip4_checksum),
	    cmocka_unit_test(roce_build__needs_room),
	    cmocka_unit_test(roce_build__payload_in_the_same_buffer),
	    cmocka_unit_test(roce_dec_ttl__mends_the_checksum),
	    cmocka_unit_test(roce_dec_ttl__every_checksum),
	    cmocka_unit_test(roce_dec_ttl__a_wrong_checksum_stays_wrong),
	    cmocka_unit_test(roce_dec_ttl__none_left),
	    cmocka_unit_test(roce_dec_ttl__ip6),
	    cmocka_unit_test(roce_read_psns__counts),
	    cmocka_unit_test(roce_rnr_timer_ns__table),
	    cmocka_unit_test(roce_rnr_timer_code__smallest_that_waits_long_enough),
	    cmocka_unit_test(roce_clear_ce__leaves_the_rest),
	};

	return cmocka_run_group_tests_name("roce", tests, NULL, NULL);
}
