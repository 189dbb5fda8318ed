/* SPDX-License-Identifier: Apache-2.0 */
/* roce.c - the RoCEv2 packet codec.
 *
 * Theory of operation
 *
 * A packet is IPv4 or IPv6, UDP to port 4791, BTH, the extended headers of its opcode, payload, pad, ICRC. The opcode
 * table says which extended headers an opcode has; they always follow each other in one order (enum ext_len, from top
 * to bottom), so a cursor that walks the list both reads and writes them and no offset is written by hand.
 *
 * Packets of hosts are hostile until proven otherwise: each layer is read only after the length check of that layer,
 * and the IP length, not the length of the frame, is the truth about where the packet ends. */
#include "roce.h"

#include <string.h>

#include "proxy/util/bytes.h"
#include "icrc.h"
#include "proxy/util/limits.h"

#define IP4_LEN        20
#define IP6_LEN        40
#define UDP_LEN        8
#define IP4_DF         0x4000
#define IP4_FRAG_MASK  0x3fff /* more fragments, or an offset */
#define IPPROTO_UDP_NR 17

/* Lengths of the extended headers, in the order in which they follow the BTH. IBTA 9.3. */
enum ext_len {
	DETH_LEN = 8,
	FETH_LEN = 4,
	RETH_LEN = 16,
	ATOMICETH_LEN = 28,
	AETH_LEN = 4,
	ATOMICACKETH_LEN = 8,
	IMM_LEN = 4,
	IETH_LEN = 4,
};

#define EXT_IF(flags, which) (((flags)&ROP_##which) != 0 ? which##_LEN : 0)
#define EXT_LEN(flags)                                                                                                 \
	(EXT_IF(flags, DETH) + EXT_IF(flags, FETH) + EXT_IF(flags, RETH) + EXT_IF(flags, ATOMICETH) +                  \
	 EXT_IF(flags, AETH) + EXT_IF(flags, ATOMICACKETH) + EXT_IF(flags, IMM) + EXT_IF(flags, IETH))

_Static_assert(IP6_LEN + UDP_LEN + ROCE_BTH_LEN + ATOMICETH_LEN <= ROCE_HDR_MAX, "ROCE_HDR_MAX holds any header");

#define OP(code, text, f) [code] = {.name = text, .flags = ROP_VALID | (f), .ext_len = EXT_LEN(f)}
#define REQ               ROP_REQUEST
#define RESP              ROP_RESPONSE
#define START             ROP_START
#define END               ROP_END
#define DATA              ROP_PAYLOAD
#define OWN               ROP_OWN_RESPONSE

/* IBTA table 38. READ, ATOMIC and FLUSH requests are whole messages. An ACK is not a part of a message. */
const struct roce_opinfo roce_ops[256] = {
    OP(RC_SEND_FIRST, "SEND_FIRST", REQ | START | DATA),
    OP(RC_SEND_MIDDLE, "SEND_MIDDLE", REQ | DATA),
    OP(RC_SEND_LAST, "SEND_LAST", REQ | END | DATA),
    OP(RC_SEND_LAST_IMM, "SEND_LAST_IMM", REQ | END | DATA | ROP_IMM),
    OP(RC_SEND_ONLY, "SEND_ONLY", REQ | START | END | DATA),
    OP(RC_SEND_ONLY_IMM, "SEND_ONLY_IMM", REQ | START | END | DATA | ROP_IMM),
    OP(RC_WRITE_FIRST, "WRITE_FIRST", REQ | START | DATA | ROP_RETH),
    OP(RC_WRITE_MIDDLE, "WRITE_MIDDLE", REQ | DATA),
    OP(RC_WRITE_LAST, "WRITE_LAST", REQ | END | DATA),
    OP(RC_WRITE_LAST_IMM, "WRITE_LAST_IMM", REQ | END | DATA | ROP_IMM),
    OP(RC_WRITE_ONLY, "WRITE_ONLY", REQ | START | END | DATA | ROP_RETH),
    OP(RC_WRITE_ONLY_IMM, "WRITE_ONLY_IMM", REQ | START | END | DATA | ROP_RETH | ROP_IMM),
    OP(RC_READ_REQUEST, "READ_REQUEST", REQ | START | END | OWN | ROP_RETH),
    OP(RC_READ_RESP_FIRST, "READ_RESP_FIRST", RESP | START | DATA | ROP_AETH),
    OP(RC_READ_RESP_MIDDLE, "READ_RESP_MIDDLE", RESP | DATA),
    OP(RC_READ_RESP_LAST, "READ_RESP_LAST", RESP | END | DATA | ROP_AETH),
    OP(RC_READ_RESP_ONLY, "READ_RESP_ONLY", RESP | START | END | DATA | ROP_AETH),
    OP(RC_ACK, "ACK", RESP | ROP_AETH),
    OP(RC_ATOMIC_ACK, "ATOMIC_ACK", RESP | ROP_AETH | ROP_ATOMICACKETH),
    OP(RC_CMP_SWAP, "CMP_SWAP", REQ | START | END | OWN | ROP_ATOMICETH),
    OP(RC_FETCH_ADD, "FETCH_ADD", REQ | START | END | OWN | ROP_ATOMICETH),
    OP(RC_SEND_LAST_INV, "SEND_LAST_INV", REQ | END | DATA | ROP_IETH),
    OP(RC_SEND_ONLY_INV, "SEND_ONLY_INV", REQ | START | END | DATA | ROP_IETH),
    OP(RC_FLUSH, "FLUSH", REQ | START | END | OWN | ROP_FETH | ROP_RETH),
    OP(RC_ATOMIC_WRITE, "ATOMIC_WRITE", REQ | START | END | OWN | DATA | ROP_RETH),
    OP(UD_SEND_ONLY, "UD_SEND_ONLY", START | END | DATA | ROP_DETH),
    OP(UD_SEND_ONLY_IMM, "UD_SEND_ONLY_IMM", START | END | DATA | ROP_DETH | ROP_IMM),
    /* its 16 reserved bytes count as payload */
    OP(ROCE_CNP, "CNP", DATA),
};

bool roce_answers(uint8_t request, uint8_t response)
{
	switch (request) {
	case RC_READ_REQUEST:
		return response >= RC_READ_RESP_FIRST && response <= RC_READ_RESP_ONLY;
	case RC_FLUSH:
	case RC_ATOMIC_WRITE:
		return response == RC_READ_RESP_ONLY;
	default:
		return response == RC_ATOMIC_ACK;
	}
}

static enum roce_class class_of(uint8_t opcode)
{
	if (opcode == ROCE_CNP)
		return ROCE_CNP_CLASS;
	if (opcode >> 5 != 0)
		return ROCE_OTHER;
	if (roce_ops[opcode].flags & ROP_REQUEST)
		return ROCE_RC_REQUEST;
	return roce_ops[opcode].flags & ROP_RESPONSE ? ROCE_RC_RESPONSE : ROCE_RC_UNKNOWN;
}

/* --- reading --- */

static void addr_from_ip4(struct ip_addr *a, const uint8_t *b)
{
	put_be64(a->b, 0);
	put_be64(a->b + 8, 0xffff00000000 | get_be32(b));
}

/* Sets addresses, tos, ttl, len and bth_off. */
static enum proxy_drop parse_ip4(const uint8_t *l3, size_t len, struct roce_pkt *pkt)
{
	size_t total;

	if (len < IP4_LEN)
		return DROP_LAN_TRUNCATED;
	if (l3[0] != 0x45)
		return DROP_LAN_NOT_IP;
	total = get_be16(l3 + 2);
	if (total > len)
		return DROP_LAN_TRUNCATED;
	if (get_be16(l3 + 6) & IP4_FRAG_MASK)
		return DROP_LAN_FRAGMENT;
	if (l3[9] != IPPROTO_UDP_NR)
		return DROP_LAN_NOT_ROCE;
	pkt->len = (uint16_t)total;
	pkt->bth_off = IP4_LEN + UDP_LEN;
	pkt->tos = l3[1];
	pkt->ttl = l3[8];
	addr_from_ip4(&pkt->src, l3 + 12);
	addr_from_ip4(&pkt->dst, l3 + 16);
	return DROP_NONE;
}

/* The drop reason of an IPv6 packet whose next header is not UDP. */
static enum proxy_drop drop_for_next_header(uint8_t next)
{
	switch (next) {
	case 44: /* fragment */
		return DROP_LAN_FRAGMENT;
	case 0:  /* hop by hop */
	case 43: /* routing */
	case 50: /* ESP */
	case 51: /* AH */
	case 60: /* destination options */
		return DROP_LAN_NOT_IP;
	default:
		return DROP_LAN_NOT_ROCE;
	}
}

static enum proxy_drop parse_ip6(const uint8_t *l3, size_t len, struct roce_pkt *pkt)
{
	size_t total;

	if (len < IP6_LEN)
		return DROP_LAN_TRUNCATED;
	if (l3[6] != IPPROTO_UDP_NR)
		return drop_for_next_header(l3[6]);
	total = (size_t)IP6_LEN + get_be16(l3 + 4);
	if (total > len)
		return DROP_LAN_TRUNCATED;
	if (total > UINT16_MAX) /* would not fit pkt->len; larger than any slot anyway */
		return DROP_LAN_TOO_BIG;
	pkt->ip6 = true;
	pkt->len = (uint16_t)total;
	pkt->bth_off = IP6_LEN + UDP_LEN;
	pkt->tos = (uint8_t)(get_be16(l3) >> 4);
	pkt->ttl = l3[7];
	memcpy(pkt->src.b, l3 + 8, 16);
	memcpy(pkt->dst.b, l3 + 24, 16);
	return DROP_NONE;
}

static enum proxy_drop parse_ip(const uint8_t *l3, size_t len, struct roce_pkt *pkt)
{
	if (len == 0)
		return DROP_LAN_TRUNCATED;
	switch (l3[0] >> 4) {
	case 4:
		return parse_ip4(l3, len, pkt);
	case 6:
		return parse_ip6(l3, len, pkt);
	default:
		return DROP_LAN_NOT_IP;
	}
}

/* The UDP header ends where the BTH begins. */
static enum proxy_drop parse_udp(const uint8_t *l3, struct roce_pkt *pkt)
{
	const uint8_t *udp = l3 + pkt->bth_off - UDP_LEN;

	if (pkt->len < pkt->bth_off)
		return DROP_LAN_TRUNCATED;
	if (get_be16(udp + 2) != ROCE_UDP_PORT)
		return DROP_LAN_NOT_ROCE;
	if (get_be16(udp + 4) != pkt->len - pkt->bth_off + UDP_LEN)
		return DROP_LAN_BAD_LENGTH;
	if (pkt->len > LAN_PKT_MAX)
		return DROP_LAN_TOO_BIG;
	pkt->udp_sport = get_be16(udp);
	return DROP_NONE;
}

static enum proxy_drop parse_bth(const uint8_t *l3, struct roce_pkt *pkt)
{
	const uint8_t *bth = l3 + pkt->bth_off;

	if (pkt->len < pkt->bth_off + ROCE_BTH_LEN + ROCE_ICRC_LEN)
		return DROP_LAN_TRUNCATED;
	if (bth[1] & 0x0f)
		return DROP_LAN_BAD_VERSION;
	pkt->opcode = bth[0];
	pkt->class = class_of(bth[0]);
	pkt->solicited = bth[1] & 0x80;
	pkt->migreq = bth[1] & BTH_MIGREQ;
	pkt->pad = bth[1] >> 4 & 3;
	pkt->pkey = get_be16(bth + 2);
	pkt->becn = bth[4] & 0x40;
	pkt->dest_qpn = get_be24(bth + 5);
	pkt->ack_req = bth[8] & 0x80;
	pkt->psn = get_be24(bth + 9);
	pkt->ext_off = (uint8_t)(pkt->bth_off + ROCE_BTH_LEN);
	return DROP_NONE;
}

static enum proxy_drop check_tail(struct roce_pkt *pkt)
{
	int rest = pkt->len - pkt->ext_off - roce_op(pkt->opcode)->ext_len - ROCE_ICRC_LEN;

	if (rest < 0)
		return DROP_LAN_TRUNCATED;
	if (rest < pkt->pad)
		return DROP_LAN_BAD_LENGTH;
	pkt->hdr_len = (uint8_t)(pkt->ext_off + roce_op(pkt->opcode)->ext_len);
	pkt->payload_len = (uint16_t)(rest - pkt->pad);
	return DROP_NONE;
}

static const uint8_t *get_deth(const uint8_t *p, struct roce_pkt *pkt)
{
	pkt->deth_qkey = get_be32(p);
	pkt->deth_src_qpn = get_be24(p + 5);
	return p + DETH_LEN;
}

static const uint8_t *get_reth(const uint8_t *p, struct roce_pkt *pkt)
{
	pkt->reth_va = get_be64(p);
	pkt->reth_rkey = get_be32(p + 8);
	pkt->reth_len = get_be32(p + 12);
	return p + RETH_LEN;
}

static const uint8_t *get_atomiceth(const uint8_t *p, struct roce_pkt *pkt)
{
	pkt->atomic_va = get_be64(p);
	pkt->atomic_rkey = get_be32(p + 8);
	pkt->atomic_swap_add = get_be64(p + 12);
	pkt->atomic_compare = get_be64(p + 20);
	return p + ATOMICETH_LEN;
}

static const uint8_t *get_aeth(const uint8_t *p, struct roce_pkt *pkt)
{
	pkt->aeth_syndrome = p[0];
	pkt->aeth_msn = get_be24(p + 1);
	return p + AETH_LEN;
}

/* Order as in enum ext_len. */
static void get_ext(const uint8_t *p, struct roce_pkt *pkt)
{
	unsigned flags = roce_op(pkt->opcode)->flags;

	if (!roce_op(pkt->opcode)->ext_len)
		return;
	if (flags & ROP_DETH)
		p = get_deth(p, pkt);
	if (flags & ROP_FETH) {
		pkt->feth = get_be32(p);
		p += FETH_LEN;
	}
	if (flags & ROP_RETH)
		p = get_reth(p, pkt);
	if (flags & ROP_ATOMICETH)
		p = get_atomiceth(p, pkt);
	if (flags & ROP_AETH)
		p = get_aeth(p, pkt);
	if (flags & ROP_ATOMICACKETH) {
		pkt->atomic_orig = get_be64(p);
		p += ATOMICACKETH_LEN;
	}
	if (flags & ROP_IMM) {
		pkt->imm = get_be32(p);
		p += IMM_LEN;
	}
	if (flags & ROP_IETH)
		pkt->ieth_rkey = get_be32(p);
}

enum proxy_drop roce_parse(const uint8_t *l3, size_t len, struct roce_pkt *pkt)
{
	enum proxy_drop drop;

	memset(pkt, 0, sizeof(*pkt));
	drop = parse_ip(l3, len, pkt);
	if (drop == DROP_NONE)
		drop = parse_udp(l3, pkt);
	if (drop == DROP_NONE)
		drop = parse_bth(l3, pkt);
	if (drop == DROP_NONE)
		drop = check_tail(pkt);
	if (drop == DROP_NONE)
		get_ext(l3 + pkt->ext_off, pkt);
	return drop;
}

/* --- writing --- */

/* The Internet checksum of an IPv4 header whose checksum field is 0. RFC 1071. */
static uint16_t ip4_checksum(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < IP4_LEN; i += 2)
		sum += get_be16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	return (uint16_t)~sum;
}

static void put_ip4(uint8_t *p, const struct roce_pkt *pkt)
{
	p[0] = 0x45;
	p[1] = pkt->tos;
	put_be16(p + 2, pkt->len);
	put_be16(p + 4, 0);
	put_be16(p + 6, IP4_DF);
	p[8] = pkt->ttl;
	p[9] = IPPROTO_UDP_NR;
	put_be16(p + 10, 0);
	memcpy(p + 12, pkt->src.b + 12, 4);
	memcpy(p + 16, pkt->dst.b + 12, 4);
	put_be16(p + 10, ip4_checksum(p));
}

static void put_ip6(uint8_t *p, const struct roce_pkt *pkt)
{
	put_be32(p, 6u << 28 | (uint32_t)pkt->tos << 20);
	put_be16(p + 4, (uint16_t)(pkt->len - IP6_LEN));
	p[6] = IPPROTO_UDP_NR;
	p[7] = pkt->ttl;
	memcpy(p + 8, pkt->src.b, 16);
	memcpy(p + 24, pkt->dst.b, 16);
}

static void put_udp(uint8_t *p, const struct roce_pkt *pkt)
{
	put_be16(p, pkt->udp_sport);
	put_be16(p + 2, ROCE_UDP_PORT);
	put_be16(p + 4, (uint16_t)(pkt->len - pkt->bth_off + UDP_LEN));
	put_be16(p + 6, 0);
}

static void put_bth(uint8_t *p, const struct roce_pkt *pkt)
{
	p[0] = pkt->opcode;
	p[1] = (uint8_t)((pkt->solicited ? 0x80 : 0) | (pkt->migreq ? BTH_MIGREQ : 0) | pkt->pad << 4);
	put_be16(p + 2, pkt->pkey);
	put_be32(p + 4, (pkt->becn ? 1u << 30 : 0) | (pkt->dest_qpn & ROCE_QPN_MASK));
	put_be32(p + 8, (pkt->ack_req ? 1u << 31 : 0) | (pkt->psn & ROCE_PSN_MASK));
}

static uint8_t *put_deth(uint8_t *p, const struct roce_pkt *pkt)
{
	put_be32(p, pkt->deth_qkey);
	put_be32(p + 4, pkt->deth_src_qpn & ROCE_QPN_MASK);
	return p + DETH_LEN;
}

static uint8_t *put_reth(uint8_t *p, const struct roce_pkt *pkt)
{
	put_be64(p, pkt->reth_va);
	put_be32(p + 8, pkt->reth_rkey);
	put_be32(p + 12, pkt->reth_len);
	return p + RETH_LEN;
}

static uint8_t *put_atomiceth(uint8_t *p, const struct roce_pkt *pkt)
{
	put_be64(p, pkt->atomic_va);
	put_be32(p + 8, pkt->atomic_rkey);
	put_be64(p + 12, pkt->atomic_swap_add);
	put_be64(p + 20, pkt->atomic_compare);
	return p + ATOMICETH_LEN;
}

static uint8_t *put_aeth(uint8_t *p, uint8_t syndrome, uint32_t msn)
{
	put_be32(p, (uint32_t)syndrome << 24 | (msn & 0xffffff));
	return p + AETH_LEN;
}

/* Order as in enum ext_len. */
static void put_ext(uint8_t *p, const struct roce_pkt *pkt)
{
	unsigned flags = roce_op(pkt->opcode)->flags;

	if (!roce_op(pkt->opcode)->ext_len)
		return;
	if (flags & ROP_DETH)
		p = put_deth(p, pkt);
	if (flags & ROP_FETH) {
		put_be32(p, pkt->feth);
		p += FETH_LEN;
	}
	if (flags & ROP_RETH)
		p = put_reth(p, pkt);
	if (flags & ROP_ATOMICETH)
		p = put_atomiceth(p, pkt);
	if (flags & ROP_AETH)
		p = put_aeth(p, pkt->aeth_syndrome, pkt->aeth_msn);
	if (flags & ROP_ATOMICACKETH) {
		put_be64(p, pkt->atomic_orig);
		p += ATOMICACKETH_LEN;
	}
	if (flags & ROP_IMM) {
		put_be32(p, pkt->imm);
		p += IMM_LEN;
	}
	if (flags & ROP_IETH)
		put_be32(p, pkt->ieth_rkey);
}

/* Works out offsets and lengths. False if the packet fits neither `cap` nor a slot. */
static bool lay_out(struct roce_pkt *pkt, size_t payload_len, size_t cap)
{
	size_t total;

	if (payload_len > LAN_PKT_MAX)
		return false;
	pkt->class = class_of(pkt->opcode);
	pkt->pad = (uint8_t)(-payload_len & 3);
	pkt->bth_off = (uint8_t)((pkt->ip6 ? IP6_LEN : IP4_LEN) + UDP_LEN);
	pkt->ext_off = (uint8_t)(pkt->bth_off + ROCE_BTH_LEN);
	pkt->hdr_len = (uint8_t)(pkt->ext_off + roce_op(pkt->opcode)->ext_len);
	total = pkt->hdr_len + payload_len + pkt->pad + ROCE_ICRC_LEN;
	if (total > cap || total > LAN_PKT_MAX)
		return false;
	pkt->payload_len = (uint16_t)payload_len;
	pkt->len = (uint16_t)total;
	return true;
}

size_t roce_build(uint8_t *buf, size_t cap, struct roce_pkt *pkt, const uint8_t *payload, size_t payload_len)
{
	if (!lay_out(pkt, payload_len, cap))
		return 0;
	/* payload first: it may lie in buf */
	if (payload_len > 0)
		memmove(buf + pkt->hdr_len, payload, payload_len);
	memset(buf + pkt->hdr_len + payload_len, 0, pkt->pad);
	if (pkt->ip6)
		put_ip6(buf, pkt);
	else
		put_ip4(buf, pkt);
	put_udp(buf + pkt->bth_off - UDP_LEN, pkt);
	put_bth(buf + pkt->bth_off, pkt);
	put_ext(buf + pkt->ext_off, pkt);
	icrc_store(buf, pkt, icrc_compute(buf, pkt));
	return pkt->len;
}

/* --- changing in place --- */

/* The checksum after a 16-bit word of the header changed from `old` to `new`. RFC 1624, equation 3. */
static uint16_t ip4_checksum_mend(uint16_t check, uint16_t old, uint16_t new)
{
	uint32_t sum = (uint16_t)~check + (uint32_t)(uint16_t)~old + new;

	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	return (uint16_t)~sum;
}

bool roce_dec_ttl(uint8_t *l3, const struct roce_pkt *pkt)
{
	uint8_t *ttl = l3 + (pkt->ip6 ? 7 : 8);
	uint16_t old;

	if (*ttl <= 1)
		return false;
	if (pkt->ip6) {
		--*ttl;
		return true;
	}
	old = get_be16(ttl);
	--*ttl;
	put_be16(l3 + 10, ip4_checksum_mend(get_be16(l3 + 10), old, get_be16(ttl)));
	return true;
}

void roce_clear_ce(uint8_t *l3, const struct roce_pkt *pkt)
{
	uint16_t old = get_be16(l3);

	if ((pkt->tos & ECN_MASK) != ECN_CE)
		return;
	put_be16(l3, (uint16_t)(old & ~(pkt->ip6 ? 1u << 4 : 1u)));
	if (!pkt->ip6)
		put_be16(l3 + 10, ip4_checksum_mend(get_be16(l3 + 10), old, get_be16(l3)));
}

void roce_forward(uint8_t *l3, const struct roce_pkt *pkt)
{
	roce_dec_ttl(l3, pkt);
	roce_clear_ce(l3, pkt);
}

/* --- RNR timer --- */

/* IBTA table 45, in units of 10 us. Code 0 is the longest; the other codes rise. */
static const uint32_t rnr_timer_10us[32] = {
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

uint64_t roce_rnr_timer_ns(uint8_t code)
{
	return rnr_timer_10us[code & 31] * UINT64_C(10000);
}

uint8_t roce_rnr_timer_code(uint64_t ns)
{
	for (uint8_t code = 1; code < 32; code++)
		if (roce_rnr_timer_ns(code) >= ns)
			return code;
	return 0;
}
