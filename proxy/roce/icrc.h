/* SPDX-License-Identifier: Apache-2.0 */
/* icrc.h - the invariant CRC of RoCEv2: check, make, patch.
 *
 * CRC-32 (reflected, as Ethernet) over eight bytes of ones, then the packet from its IP header with the mutable fields
 * as ones: IPv4 ToS, TTL, checksum (IPv6 traffic class, flow label, hop limit), UDP checksum, BTH resv8a; stored
 * little-endian behind the payload. IBTA annex A17.3.3. CRC is linear over GF(2): changing bytes changes the ICRC by
 * the CRC of the difference, shifted by the number of bytes behind it. So header bits are patched without reading the
 * payload, and a payload bit that flipped in memory stays visible to the host. */
#ifndef PROXY_ICRC_H
#define PROXY_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/util/bytes.h"
#include "roce.h"

/* ICRC of a parsed packet, computed from its bytes (the stored ICRC is not read). */
uint32_t icrc_compute(const uint8_t *l3, const struct roce_pkt *pkt);

/* The ICRC stored in the packet. */
static inline uint32_t icrc_load(const uint8_t *l3, const struct roce_pkt *pkt)
{
	return __builtin_bswap32(get_be32(l3 + pkt->len - ROCE_ICRC_LEN));
}

static inline void icrc_store(uint8_t *l3, const struct roce_pkt *pkt, uint32_t icrc)
{
	put_be32(l3 + pkt->len - ROCE_ICRC_LEN, __builtin_bswap32(icrc));
}

/* True if the stored ICRC is right. Then *payload_crc (may be NULL) is the CRC-32 (initial value 0, no final
 * inversion) of payload and pad bytes alone: the same for every retransmission of the packet. */
bool icrc_check(const uint8_t *l3, const struct roce_pkt *pkt, uint32_t *payload_crc);

/* New ICRC after `n` (1..16) bytes were changed. diff[i] = old ^ new; `after` = bytes between the last changed
 * one and the ICRC, 0..ICRC_MAX_SPAN. Constant time, whatever the span. */
#define ICRC_MAX_SPAN 9216
uint32_t icrc_patch(uint32_t icrc, const uint8_t *diff, size_t n, size_t after);

#endif
