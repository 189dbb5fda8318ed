/* SPDX-License-Identifier: Apache-2.0 */
/* slow_icrc.h - the invariant CRC once more, bit by bit and straight from the bytes of a packet.
 *
 * Shares nothing with icrc.c: it does not use the parser, a table or a library, so that tests and fuzzers can hold
 * the two against each other. */
#ifndef TESTS_UNIT_SLOW_ICRC_H
#define TESTS_UNIT_SLOW_ICRC_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t slow_crc_byte(uint32_t reg, uint8_t byte)
{
	reg ^= byte;
	for (int bit = 0; bit < 8; bit++)
		reg = reg & 1 ? reg >> 1 ^ 0xedb88320u : reg >> 1;
	return reg;
}

static inline uint32_t slow_crc(uint32_t reg, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		reg = slow_crc_byte(reg, p[i]);
	return reg;
}

/* Bits of byte `i` of a packet that do not count. */
static inline uint8_t slow_icrc_mask(const uint8_t *l3, size_t i)
{
	size_t ip_len = l3[0] >> 4 == 6 ? 40 : 20;

	if (l3[0] >> 4 == 6 && i == 0)
		return 0x0f; /* half of the traffic class */
	if (l3[0] >> 4 == 6 && (i <= 3 || i == 7))
		return 0xff; /* traffic class, flow label, hop limit */
	if (l3[0] >> 4 == 4 && (i == 1 || i == 8 || i == 10 || i == 11))
		return 0xff; /* ToS, TTL, checksum */
	if (i == ip_len + 6 || i == ip_len + 7)
		return 0xff; /* UDP checksum */
	if (i == ip_len + 8 + 4)
		return 0xff; /* BTH resv8a */
	return 0;
}

/* len: from the IP header to the ICRC inclusive. */
static inline uint32_t slow_icrc(const uint8_t *l3, size_t len)
{
	uint32_t reg = 0xffffffffu;

	for (int i = 0; i < 8; i++)
		reg = slow_crc_byte(reg, 0xff);
	for (size_t i = 0; i + 4 < len; i++)
		reg = slow_crc_byte(reg, l3[i] | slow_icrc_mask(l3, i));
	return ~reg;
}

#endif
