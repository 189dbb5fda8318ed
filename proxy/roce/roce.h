/* SPDX-License-Identifier: Apache-2.0 */
/* roce.h - the RoCEv2 packet codec: IPv4/IPv6, UDP, BTH and the extended headers of RC.
 *
 * One parse per packet: everything else in longreach reads struct roce_pkt. The opcode table lists the headers of each
 * opcode; all offsets are derived from that list. Source of the formats: InfiniBand Architecture Specification vol. 1,
 * chapter 9 (BTH 9.2, opcodes table 38, extended headers 9.3), annexes A17 (RoCEv2) and A19 (FLUSH, ATOMIC WRITE). */
#ifndef PROXY_ROCE_H
#define PROXY_ROCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/util/counters.h"
#include "proxy/util/ip_addr.h"

#define ROCE_UDP_PORT 4791
#define ROCE_BTH_LEN  12
#define BTH_MIGREQ    0x40 /* in the second byte of the BTH */
#define ROCE_ICRC_LEN 4
#define ROCE_PSN_MASK 0xffffffu
#define ROCE_QPN_MASK 0xffffffu
#define ROCE_HDR_MAX  112 /* longest L3..last extended header: 40 + 8 + 12 + 28 (AtomicETH), rounded up */

#define ROCE_CNP_PAYLOAD 16 /* reserved, zero: IBTA A17.9.3 */

/* ECN field of an IP header, RFC 3168. */
#define ECN_MASK 3
#define ECN_ECT0 2
#define ECN_CE   3

enum roce_opcode {
	RC_SEND_FIRST = 0x00,
	RC_SEND_MIDDLE = 0x01,
	RC_SEND_LAST = 0x02,
	RC_SEND_LAST_IMM = 0x03,
	RC_SEND_ONLY = 0x04,
	RC_SEND_ONLY_IMM = 0x05,
	RC_WRITE_FIRST = 0x06,
	RC_WRITE_MIDDLE = 0x07,
	RC_WRITE_LAST = 0x08,
	RC_WRITE_LAST_IMM = 0x09,
	RC_WRITE_ONLY = 0x0a,
	RC_WRITE_ONLY_IMM = 0x0b,
	RC_READ_REQUEST = 0x0c,
	RC_READ_RESP_FIRST = 0x0d,
	RC_READ_RESP_MIDDLE = 0x0e,
	RC_READ_RESP_LAST = 0x0f,
	RC_READ_RESP_ONLY = 0x10,
	RC_ACK = 0x11,
	RC_ATOMIC_ACK = 0x12,
	RC_CMP_SWAP = 0x13,
	RC_FETCH_ADD = 0x14,
	RC_RESERVED_15 = 0x15,
	RC_SEND_LAST_INV = 0x16,
	RC_SEND_ONLY_INV = 0x17,
	RC_FLUSH = 0x1c,
	RC_ATOMIC_WRITE = 0x1d,
	UD_SEND_ONLY = 0x64,
	UD_SEND_ONLY_IMM = 0x65,
	ROCE_CNP = 0x81,
};

/* The class of an opcode and the headers that follow its BTH. */
enum roce_op_flags {
	ROP_VALID = 1 << 0,
	ROP_REQUEST = 1 << 1,  /* requester to responder */
	ROP_RESPONSE = 1 << 2, /* responder to requester */
	ROP_START = 1 << 3,    /* first packet of a message */
	ROP_END = 1 << 4,      /* last packet of a message */
	ROP_PAYLOAD = 1 << 5,
	ROP_OWN_RESPONSE = 1 << 6, /* READ, ATOMIC, FLUSH: answered by a response of its own, not by an ACK */
	ROP_RETH = 1 << 7,
	ROP_AETH = 1 << 8,
	ROP_IMM = 1 << 9,
	ROP_IETH = 1 << 10,
	ROP_ATOMICETH = 1 << 11,
	ROP_ATOMICACKETH = 1 << 12,
	ROP_DETH = 1 << 13,
	ROP_FETH = 1 << 14,
};

struct roce_opinfo {
	char name[28];   /* empty: unknown */
	uint16_t flags;  /* enum roce_op_flags */
	uint8_t ext_len; /* bytes of extended headers, derived from flags */
};

/* The table row of an opcode; never NULL: an unknown opcode has an empty row, without ROP_VALID. */
extern const struct roce_opinfo roce_ops[256];
static inline const struct roce_opinfo *roce_op(uint8_t opcode)
{
	return &roce_ops[opcode];
}

static inline bool roce_is_write(uint8_t opcode)
{
	return opcode >= RC_WRITE_FIRST && opcode <= RC_WRITE_ONLY_IMM;
}

/* True if a request with that opcode may come right behind one with the opcode before it: a message is a FIRST, MIDDLEs
 * and a LAST of one kind with nothing between, or one packet. IBTA 9.7.4.1.3. An unknown opcode may stand anywhere. */
static inline bool roce_may_follow(uint8_t before, uint8_t opcode)
{
	uint16_t was = roce_op(before)->flags, is = roce_op(opcode)->flags;

	if (!(was & ROP_REQUEST) || !(is & ROP_REQUEST))
		return true;
	if (was & ROP_END)
		return is & ROP_START;
	return !(is & ROP_START) && roce_is_write(before) == roce_is_write(opcode);
}

/* True if a packet with the opcode `response` can be an answer to a request with an own response: READ by READ
 * responses, FLUSH and ATOMIC WRITE by a READ RESPONSE ONLY without payload (IBTA annex A19; rxe_resp.c), all else by an
 * ATOMIC acknowledge. */
bool roce_answers(uint8_t request, uint8_t response);

enum roce_class {
	ROCE_RC_REQUEST,  /* known RC request */
	ROCE_RC_RESPONSE, /* ACK, READ response, ATOMIC ACK */
	ROCE_RC_UNKNOWN,  /* RC class bits (opcode >> 5 == 0) but not in the table */
	ROCE_CNP_CLASS,   /* congestion notification */
	ROCE_OTHER,       /* UC, RD, UD, XRC, vendor: carried as it is */
};

/* AETH syndromes, IBTA 9.7.5.2.1 (table 44..46). */
#define AETH_ACK            0x00 /* bits 7..5 = 000, low five bits credits */
#define AETH_ACK_NO_CREDITS 0x1f /* "credits invalid": what longreach always sends */
#define AETH_RNR_NAK        0x20 /* bits 7..5 = 001, low five bits timer */
#define AETH_NAK            0x60 /* bits 7..5 = 011, low five bits code */
#define AETH_NAK_PSN_SEQ    0x60
#define AETH_NAK_INV_REQ    0x61
#define AETH_NAK_REM_ACCESS 0x62
#define AETH_NAK_REM_OP     0x63
#define AETH_NAK_INV_RD     0x64
#define AETH_TYPE_MASK      0xe0

#define RNR_RETRY_INFINITE 7 /* RNR Retry Count, IBTA 9.7.5.2.8: for ever */

/* A parsed packet. Offsets count from the first byte of the IP header. */
struct roce_pkt {
	struct ip_addr src, dst;
	enum roce_class class;
	uint16_t len;         /* IP header to ICRC inclusive, taken from the IP length: padding behind it is cut */
	uint16_t payload_len; /* without pad bytes and ICRC */
	uint16_t pkey;
	uint16_t udp_sport;
	uint8_t bth_off;
	uint8_t ext_off; /* first extended header */
	uint8_t hdr_len; /* offset of the payload */
	uint8_t opcode;
	uint8_t pad; /* BTH PadCnt 0..3 */
	uint8_t ttl;
	uint8_t tos; /* DSCP and ECN */
	bool ip6;
	bool solicited;
	bool migreq;
	bool becn; /* "you cause congestion": in CNPs. IBTA A17.9.3 */
	bool ack_req;
	uint32_t dest_qpn;
	uint32_t psn;
	/* valid if the opcode has the header */
	uint64_t reth_va;
	uint32_t reth_rkey;
	uint32_t reth_len;
	uint32_t feth; /* FLUSH: placement type in bits 3..0, selectivity level in bits 5..4 */
	uint32_t imm;
	uint32_t ieth_rkey;
	uint8_t aeth_syndrome;
	uint32_t aeth_msn;
	uint64_t atomic_va;
	uint32_t atomic_rkey;
	uint64_t atomic_swap_add;
	uint64_t atomic_compare;
	uint64_t atomic_orig; /* AtomicAckETH */
	uint32_t deth_qkey;
	uint32_t deth_src_qpn;
};

/* Parses one packet that starts at its IP header. `len` may exceed the IP length (Ethernet padding). Checks every
 * length; does not check the ICRC (icrc.h). Unknown RC opcodes and other classes parse with the payload starting behind
 * the BTH. Returns DROP_NONE, or the reason if the packet is malformed. */
enum proxy_drop roce_parse(const uint8_t *l3, size_t len, struct roce_pkt *pkt);

/* Builds a packet into `buf` (capacity `cap`) from the fields of `pkt` (src, dst, ip6, tos, ttl, udp_sport,
 * opcode, flags, pkey, dest_qpn, psn, and the extended headers of the opcode) and `payload`; pad bytes, lengths,
 * IPv4 checksum (ID 0, DF) and ICRC are worked out, UDP checksum is 0. Fills in pkt's offsets and len.
 * Returns the length, or 0 if it does not fit. */
size_t roce_build(uint8_t *buf, size_t cap, struct roce_pkt *pkt, const uint8_t *payload, size_t payload_len);

/* Takes one hop from TTL or hop limit, mending the IPv4 checksum. False if none is left. */
bool roce_dec_ttl(uint8_t *l3, const struct roce_pkt *pkt);

/* Turns a CE mark back into ECT(0), mending the IPv4 checksum; the ICRC does not cover it. */
void roce_clear_ce(uint8_t *l3, const struct roce_pkt *pkt);

/* Both, as a packet leaves the LAN that it came from. */
void roce_forward(uint8_t *l3, const struct roce_pkt *pkt);

/* READ of `len` bytes at `pmtu` owns this many PSNs (at least 1). IBTA 9.7.4.1.  */
static inline uint32_t roce_read_psns(uint32_t len, uint32_t pmtu)
{
	return len == 0 ? 1 : (uint32_t)(((uint64_t)len + pmtu - 1) / pmtu);
}

/* RNR NAK timer field to nanoseconds and back (smallest code that waits at least ns). IBTA table 45. */
uint64_t roce_rnr_timer_ns(uint8_t code);
uint8_t roce_rnr_timer_code(uint64_t ns);

static inline bool ip_addr_is4(const struct ip_addr *a)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return __builtin_memcmp(a->b, mapped, sizeof(mapped)) == 0;
}

static inline bool ip_addr_eq(const struct ip_addr *a, const struct ip_addr *b)
{
	return __builtin_memcmp(a, b, sizeof(*a)) == 0;
}

#endif
