/* SPDX-License-Identifier: Apache-2.0 */
#include "l4_csum.h"

#include <netinet/in.h>

#include "proxy/util/bytes.h"

#define UDP_HDR_LEN  8
#define UDP_CSUM_OFF 6
#define TCP_HDR_LEN  20
#define TCP_CSUM_OFF 16

struct l4 {
	size_t off, len;
	size_t addr_off, addr_len; /* both addresses */
	uint8_t proto;
};

static uint64_t sum_words(const uint8_t *p, size_t len, uint64_t sum)
{
	for (; len >= 2; p += 2, len -= 2)
		sum += get_be16(p);
	return len ? sum + ((uint64_t)p[0] << 8) : sum;
}

static bool find_l4(const uint8_t *l3, size_t len, struct l4 *l4)
{
	size_t end;

	if (len >= 20 && l3[0] >> 4 == 4 && !(get_be16(l3 + 6) & 0x3fff)) {
		*l4 = (struct l4){.off = (size_t)(l3[0] & 0xf) * 4, .addr_off = 12, .addr_len = 8, .proto = l3[9]};
		end = get_be16(l3 + 2);
	} else if (len >= 40 && l3[0] >> 4 == 6) {
		*l4 = (struct l4){.off = 40, .addr_off = 8, .addr_len = 32, .proto = l3[6]};
		end = 40 + (size_t)get_be16(l3 + 4);
	} else {
		return false;
	}
	if (end > len || l4->off < 20 || end < l4->off)
		return false;
	l4->len = end - l4->off;
	return true;
}

bool l4_csum_fill(uint8_t *l3, size_t len)
{
	struct l4 l4;
	size_t csum;
	uint64_t sum;

	if (!find_l4(l3, len, &l4))
		return false;
	if (l4.proto == IPPROTO_UDP && l4.len >= UDP_HDR_LEN && get_be16(l3 + l4.off + 4) == l4.len)
		csum = l4.off + UDP_CSUM_OFF;
	else if (l4.proto == IPPROTO_TCP && l4.len >= TCP_HDR_LEN)
		csum = l4.off + TCP_CSUM_OFF;
	else
		return false;
	put_be16(l3 + csum, 0);
	sum = sum_words(l3 + l4.addr_off, l4.addr_len, (uint64_t)l4.proto + l4.len);
	sum = sum_words(l3 + l4.off, l4.len, sum);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	/* 0 means "no checksum" in UDP, so there a sum of 0 is sent as its other form (RFC 768) */
	put_be16(l3 + csum, sum == 0xffff && l4.proto == IPPROTO_UDP ? 0xffff : (uint16_t)~sum);
	return true;
}
