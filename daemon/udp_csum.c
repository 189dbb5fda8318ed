/* SPDX-License-Identifier: Apache-2.0 */
#include "udp_csum.h"

#include <netinet/in.h>

#include "proxy/bytes.h"

#define UDP_HDR_LEN 8

static uint64_t sum_words(const uint8_t *p, size_t len, uint64_t sum)
{
	for (; len >= 2; p += 2, len -= 2)
		sum += get_be16(p);
	return len ? sum + ((uint64_t)p[0] << 8) : sum;
}

/* Offset of the UDP header and, through addr_off and addr_len, of the two addresses; 0 if it is not plain UDP. */
static size_t find_udp(const uint8_t *l3, size_t len, size_t *addr_off, size_t *addr_len)
{
	if (len >= 20 + UDP_HDR_LEN && l3[0] == 0x45 && l3[9] == IPPROTO_UDP) {
		*addr_off = 12;
		*addr_len = 8;
		return 20;
	}
	if (len >= 40 + UDP_HDR_LEN && l3[0] >> 4 == 6 && l3[6] == IPPROTO_UDP) {
		*addr_off = 8;
		*addr_len = 32;
		return 40;
	}
	return 0;
}

bool udp_csum_fill(uint8_t *l3, size_t len)
{
	size_t addr_off = 0, addr_len = 0;
	size_t udp = find_udp(l3, len, &addr_off, &addr_len);
	uint64_t sum;
	uint16_t udp_len;

	if (!udp)
		return false;
	udp_len = get_be16(l3 + udp + 4);
	if (udp_len < UDP_HDR_LEN || udp + udp_len > len)
		return false;
	put_be16(l3 + udp + 6, 0);
	sum = sum_words(l3 + addr_off, addr_len, (uint64_t)IPPROTO_UDP + udp_len);
	sum = sum_words(l3 + udp, udp_len, sum);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	/* 0 means "no checksum" on the wire, so a sum of 0 is sent as its other form (RFC 768) */
	put_be16(l3 + udp + 6, sum == 0xffff ? 0xffff : (uint16_t)~sum);
	return true;
}
