/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_udp.h"

#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "proxy/util/bytes.h"

#define IP4_LEN  20
#define IP6_LEN  40
#define UDP_LEN  8
#define TAG_LEN  4
#define TTL      64 /* RFC 1700, and the kernel's own */
#define IP4_DF   0x4000
#define IP4_MF   0x2000
#define IP4_OFF  0x1fff
#define ECN_BITS 3u

#define SUM_BLOCK 32 /* bytes */

/* --- checksums (RFC 1071): the sum is the same in either byte order, as long as it is stored as it was read --- */

/* Halves of 64 bits into four sums, none of which waits for another: 0.6 of the time that one sum takes. */
static uint64_t sum_blocks(const uint8_t *p, size_t len, uint64_t sum)
{
	uint64_t even[2] = {0}, odd[2] = {0}, word[SUM_BLOCK / 8];

	for (; len >= SUM_BLOCK; p += SUM_BLOCK, len -= SUM_BLOCK) {
		memcpy(word, p, SUM_BLOCK);
		even[0] += (uint32_t)word[0];
		odd[0] += word[0] >> 32;
		even[1] += (uint32_t)word[1];
		odd[1] += word[1] >> 32;
		even[0] += (uint32_t)word[2];
		odd[0] += word[2] >> 32;
		even[1] += (uint32_t)word[3];
		odd[1] += word[3] >> 32;
	}
	return sum + even[0] + even[1] + odd[0] + odd[1];
}

static uint64_t sum_bytes(const uint8_t *p, size_t len, uint64_t sum)
{
	uint32_t word;
	uint16_t half;

	sum = sum_blocks(p, len, sum);
	p += len / SUM_BLOCK * SUM_BLOCK;
	len %= SUM_BLOCK;
	for (; len >= sizeof(word); p += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		sum += word;
	}
	for (; len; p += sizeof(half), len = len > sizeof(half) ? len - sizeof(half) : 0) {
		half = 0;
		memcpy(&half, p, len < sizeof(half) ? len : sizeof(half));
		sum += half;
	}
	return sum;
}

static uint16_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static void put_sum(uint8_t *p, uint16_t sum)
{
	memcpy(p, &sum, sizeof(sum));
}

/* Over pseudo header, UDP header and payload. `len` is UDP's length; both addresses stand at `addrs`. */
static uint16_t sum_udp(const uint8_t *addrs, size_t addrs_len, const uint8_t *udp, size_t len)
{
	uint8_t pseudo[4] = {0, IPPROTO_UDP};

	put_be16(pseudo + 2, (uint16_t)len);
	return fold(sum_bytes(udp, len, sum_bytes(addrs, addrs_len, sum_bytes(pseudo, sizeof(pseudo), 0))));
}

/* --- building --- */

static void put_udp(uint8_t *udp, uint16_t sport, uint16_t dport, size_t len, const uint8_t *addrs, size_t addrs_len)
{
	uint16_t sum;

	put_be16(udp, sport);
	put_be16(udp + 2, dport);
	put_be16(udp + 4, (uint16_t)len);
	put_be16(udp + 6, 0);
	sum = (uint16_t)~sum_udp(addrs, addrs_len, udp, len);
	put_sum(udp + 6, sum ? sum : 0xffff); /* 0 says that there is none */
}

static void put_ip4(const struct wan_udp_ends *ends, uint8_t tos, uint8_t *ip, size_t udp_len)
{
	ip[0] = 0x45;
	ip[1] = tos;
	put_be16(ip + 2, (uint16_t)(IP4_LEN + udp_len));
	put_be16(ip + 4, 0);
	put_be16(ip + 6, IP4_DF);
	ip[8] = TTL;
	ip[9] = IPPROTO_UDP;
	put_be16(ip + 10, 0);
	memcpy(ip + 12, ends->local.b + 12, 4);
	memcpy(ip + 16, ends->remote.b + 12, 4);
	put_sum(ip + 10, (uint16_t)~fold(sum_bytes(ip, IP4_LEN, 0)));
}

static uint32_t flow_label(uint16_t sport, uint16_t dport)
{
	return (((uint32_t)sport << 16 | dport) * 0x9e3779b1u) >> 12;
}

static void put_ip6(const struct wan_udp_ends *ends, uint8_t tos, uint16_t sport, uint8_t *ip, size_t udp_len)
{
	put_be32(ip, 6u << 28 | (uint32_t)tos << 20 | flow_label(sport, ends->port));
	put_be16(ip + 4, (uint16_t)udp_len);
	ip[6] = IPPROTO_UDP;
	ip[7] = TTL;
	memcpy(ip + 8, ends->local.b, 16);
	memcpy(ip + 24, ends->remote.b, 16);
}

size_t wan_udp_put(const struct wan_udp_ends *ends, uint16_t sport, uint8_t tos, uint8_t *payload, size_t len)
{
	uint8_t *udp = payload - UDP_LEN;
	size_t udp_len = UDP_LEN + len;

	if (ip_addr_is4(&ends->remote)) {
		put_ip4(ends, tos, udp - IP4_LEN, udp_len);
		put_udp(udp, sport, ends->port, udp_len, udp - 8, 8);
		return IP4_LEN + UDP_LEN;
	}
	put_ip6(ends, tos, sport, udp - IP6_LEN, udp_len);
	put_udp(udp, sport, ends->port, udp_len, udp - 32, 32);
	return IP6_LEN + UDP_LEN;
}

/* --- reading --- */

/* The common part of both families. */
struct ip_packet {
	const uint8_t *addrs; /* source, then destination */
	size_t addr_len;      /* of one */
	uint8_t *udp;
	size_t have;   /* bytes of the frame from `udp` on */
	size_t says;   /* bytes from `udp` on, by the IP header */
	uint8_t ecn;
	bool fragment; /* the first of several */
	bool bad_sum;  /* of the IPv4 header */
};

/* read_ip4(), read_ip6(): false if the packet cannot be UDP for this machine. */
static bool read_ip4(uint8_t *ip, size_t len, struct ip_packet *p)
{
	size_t hdr_len, total;
	uint16_t frag;

	if (len < IP4_LEN + UDP_LEN || ip[0] >> 4 != 4 || ip[9] != IPPROTO_UDP)
		return false;
	hdr_len = (size_t)(ip[0] & 0xf) * 4;
	frag = get_be16(ip + 6);
	if (hdr_len < IP4_LEN || hdr_len + UDP_LEN > len || frag & IP4_OFF)
		return false;
	total = get_be16(ip + 2);
	*p = (struct ip_packet){.addrs = ip + 12,
	                        .addr_len = 4,
	                        .udp = ip + hdr_len,
	                        .have = len - hdr_len,
	                        .says = total > hdr_len ? total - hdr_len : 0,
	                        .ecn = ip[1] & ECN_BITS,
	                        .fragment = (frag & IP4_MF) != 0,
	                        .bad_sum = fold(sum_bytes(ip, hdr_len, 0)) != 0xffff};
	return true;
}

static bool read_ip6(uint8_t *ip, size_t len, struct ip_packet *p)
{
	if (len < IP6_LEN + UDP_LEN || ip[0] >> 4 != 6 || ip[6] != IPPROTO_UDP)
		return false;
	*p = (struct ip_packet){.addrs = ip + 8,
	                        .addr_len = 16,
	                        .udp = ip + IP6_LEN,
	                        .have = len - IP6_LEN,
	                        .says = get_be16(ip + 4),
	                        .ecn = ip[1] >> 4 & ECN_BITS};
	return true;
}

static bool is_addr(const struct ip_packet *p, const uint8_t *at, const struct ip_addr *a)
{
	return memcmp(at, a->b + sizeof(a->b) - p->addr_len, p->addr_len) == 0;
}

static bool good_checksum(const struct ip_packet *p, size_t udp_len)
{
	if (p->bad_sum)
		return false;
	if (get_be16(p->udp + 6) == 0)
		return p->addr_len == 4; /* none; IPv6 always has one (RFC 8200 8.1) */
	return sum_udp(p->addrs, 2 * p->addr_len, p->udp, udp_len) == 0xffff;
}

static enum wan_udp_kind read_udp(const struct wan_udp_ends *ends, const struct ip_packet *p,
                                     struct wan_udp_in *in)
{
	size_t udp_len = get_be16(p->udp + 4);

	if (!is_addr(p, p->addrs + p->addr_len, &ends->local) || get_be16(p->udp + 2) != ends->port)
		return WAN_UDP_NOT_OURS;
	if (!is_addr(p, p->addrs, &ends->remote))
		return WAN_UDP_FOREIGN;
	if (p->fragment || p->says > p->have || udp_len > p->says || udp_len < UDP_LEN)
		return WAN_UDP_BAD_LENGTH;
	if (!good_checksum(p, udp_len))
		return WAN_UDP_BAD_CHECKSUM;
	*in = (struct wan_udp_in){
	    .payload = p->udp + UDP_LEN, .len = udp_len - UDP_LEN, .sport = get_be16(p->udp), .ecn = p->ecn};
	return WAN_UDP_OURS;
}

enum wan_udp_kind wan_udp_get(const struct wan_udp_ends *ends, uint8_t *frame, size_t len,
                                    struct wan_udp_in *in)
{
	bool v4 = ip_addr_is4(&ends->local);
	size_t eth_len = ETH_HLEN;
	struct ip_packet p = {0};

	if (len < ETH_HLEN + TAG_LEN || memcmp(frame, ends->mac, ETH_ALEN) != 0)
		return WAN_UDP_NOT_OURS;
	if (get_be16(frame + 2 * ETH_ALEN) == ETH_P_8021Q)
		eth_len += TAG_LEN;
	if (get_be16(frame + eth_len - 2) != (v4 ? ETH_P_IP : ETH_P_IPV6))
		return WAN_UDP_NOT_OURS;
	if (!(v4 ? read_ip4(frame + eth_len, len - eth_len, &p) : read_ip6(frame + eth_len, len - eth_len, &p)))
		return WAN_UDP_NOT_OURS;
	return read_udp(ends, &p, in);
}
