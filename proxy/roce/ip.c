/* SPDX-License-Identifier: Apache-2.0 */
#include "ip.h"

#include <string.h>

#include "proxy/util/bytes.h"

#define PROTO_TCP   6
#define PROTO_UDP   17
#define IP4_LEN     20
#define IP6_LEN     40
#define TCP_LEN     20
#define UDP_LEN     8
#define TCP_TALKING 0x07 /* FIN, SYN, RST */
#define TCP_URG     0x20
#define TCP_ACK     0x10

struct l4 {
	size_t off;
	uint8_t proto; /* 0: unknown */
	bool whole;    /* no fragment */
};

static enum proxy_drop parse_ip4(const uint8_t *l3, size_t len, struct ip_pkt *pkt, struct l4 *l4)
{
	uint16_t frag = get_be16(l3 + 6) & 0x3fff; /* more fragments, offset */

	l4->off = (size_t)(l3[0] & 0xf) * 4;
	pkt->len = get_be16(l3 + 2);
	if (l4->off < IP4_LEN || pkt->len < l4->off || pkt->len > len)
		return DROP_LAN_TRUNCATED;
	pkt->tos = l3[1];
	pkt->ttl = l3[8];
	l4->proto = frag & 0x1fff ? 0 : l3[9]; /* a later fragment has no ports: its protocol is unknown */
	l4->whole = frag == 0;
	memset(pkt->src.b, 0, 10);
	memset(pkt->src.b + 10, 0xff, 2);
	pkt->dst = pkt->src;
	memcpy(pkt->src.b + 12, l3 + 12, 4);
	memcpy(pkt->dst.b + 12, l3 + 16, 4);
	pkt->hdr_len = IP4_LEN;
	return DROP_NONE;
}

static enum proxy_drop parse_ip6(const uint8_t *l3, size_t len, struct ip_pkt *pkt, struct l4 *l4)
{
	size_t total = IP6_LEN + (size_t)get_be16(l3 + 4);

	if (len < IP6_LEN || total > len)
		return DROP_LAN_TRUNCATED;
	if (total > UINT16_MAX)
		return DROP_LAN_TOO_BIG;
	l4->off = IP6_LEN;
	pkt->ip6 = true;
	pkt->len = (uint16_t)total;
	pkt->tos = (uint8_t)(get_be16(l3) >> 4);
	pkt->ttl = l3[7];
	l4->proto = l3[6];
	l4->whole = true;
	memcpy(pkt->src.b, l3 + 8, 16);
	memcpy(pkt->dst.b, l3 + 24, 16);
	pkt->hdr_len = IP6_LEN;
	return DROP_NONE;
}

static bool is_bare_ack(const uint8_t *tcp, size_t len)
{
	size_t hdr = (size_t)(tcp[12] >> 4) * 4;

	return hdr >= TCP_LEN && hdr == len && (tcp[13] & (TCP_TALKING | TCP_URG | TCP_ACK)) == TCP_ACK;
}

static void parse_ports(const uint8_t *l3, const struct l4 *l4, struct ip_pkt *pkt)
{
	size_t need = l4->proto == PROTO_TCP ? TCP_LEN : UDP_LEN;

	if ((l4->proto != PROTO_TCP && l4->proto != PROTO_UDP) || pkt->len < l4->off + need)
		return;
	pkt->has_ports = true;
	pkt->sport = get_be16(l3 + l4->off);
	pkt->dport = get_be16(l3 + l4->off + 2);
	pkt->to_roce = l4->proto == PROTO_UDP && pkt->dport == ROCE_UDP_PORT;
	pkt->begins_or_ends = l4->proto == PROTO_TCP && (l3[l4->off + 13] & TCP_TALKING);
	pkt->bare_ack = l4->proto == PROTO_TCP && l4->whole && is_bare_ack(l3 + l4->off, pkt->len - l4->off);
}

enum proxy_drop ip_parse(const uint8_t *l3, size_t len, struct ip_pkt *pkt)
{
	struct l4 l4 = {0};
	enum proxy_drop d;

	memset(pkt, 0, sizeof(*pkt));
	if (len < IP4_LEN)
		return DROP_LAN_TRUNCATED;
	if (l3[0] >> 4 == 4)
		d = parse_ip4(l3, len, pkt, &l4);
	else
		d = l3[0] >> 4 == 6 ? parse_ip6(l3, len, pkt, &l4) : DROP_LAN_NOT_IP;
	if (d == DROP_NONE)
		parse_ports(l3, &l4, pkt);
	return d;
}

bool ip_dec_ttl(uint8_t *l3, bool ip6)
{
	struct roce_pkt as = {.ip6 = ip6};

	return roce_dec_ttl(l3, &as);
}
