/* SPDX-License-Identifier: Apache-2.0 */
/* wan_units.h - bitmaps of a packet's 64-byte units, 128 bits. */
#ifndef PROXY_WAN_UNITS_H
#define PROXY_WAN_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "proxy/util/limits.h"

/* The number of units of a packet of len bytes. */
static inline unsigned units_of(uint16_t len)
{
	return (len + PIECE_UNIT - 1u) / PIECE_UNIT;
}

static inline void units_mask(unsigned off, unsigned n, uint64_t mask[2])
{
	unsigned __int128 m = n >= 128 ? ~(unsigned __int128)0 : (((unsigned __int128)1 << n) - 1) << off;

	mask[0] = (uint64_t)m;
	mask[1] = (uint64_t)(m >> 64);
}

static inline bool units_all(const uint64_t units[2], unsigned n)
{
	uint64_t want[2];

	units_mask(0, n, want);
	return (units[0] & want[0]) == want[0] && (units[1] & want[1]) == want[1];
}

/* First run of set bits at or after `from`; false if there is none. */
static inline bool units_next_run(const uint64_t bits[2], unsigned limit, unsigned from, unsigned *start, unsigned *n)
{
	unsigned i = from;

	while (i < limit && !(bits[i / 64] >> (i % 64) & 1))
		i++;
	*start = i;
	while (i < limit && (bits[i / 64] >> (i % 64) & 1))
		i++;
	*n = i - *start;
	return *n > 0;
}

#endif
