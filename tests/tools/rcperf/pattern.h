/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.h - what the bytes of a message must be.
 *
 * The 64-bit little-endian word at byte 8*w of message `no` is seed + no*PAT_MSG + w*PAT_WORD (mod 2^64): fast to
 * make and to check with vectors, different for every message and every offset, and invertible: from foreign
 * bytes one can tell which message they belong to. */
#ifndef RCPERF_PATTERN_H
#define RCPERF_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAT_MSG  0x9e3779b97f4a7c15u
#define PAT_WORD 0xd1342543de82ef95u

static inline uint64_t pat_base(uint64_t seed, uint64_t no)
{
	return seed + no * PAT_MSG;
}

/* Bytes [off, off + len) of the message with this base; off is a multiple of 8. */
void pat_fill(uint8_t *dst, size_t len, uint64_t base, uint64_t off);
bool pat_check(const uint8_t *src, size_t len, uint64_t base, uint64_t off);

/* If all of src is the pattern of one message under this seed: its number. Needs len >= 16. */
bool pat_recognise(const uint8_t *src, size_t len, uint64_t seed, uint64_t off, uint64_t *no);

/* One step of splitmix64: independent seeds from one. */
uint64_t pat_mix(uint64_t x);

/* A digest of n bytes, n a multiple of 8. */
uint64_t pat_digest(uint64_t h, const uint8_t *p, size_t n);

#endif
