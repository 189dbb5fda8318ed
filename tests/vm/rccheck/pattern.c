/* SPDX-License-Identifier: Apache-2.0 */
/* pattern.c - every byte of every message, worked out from who it is.
 *
 * A message is the 64-bit words key, key + step, key + 2 step ...: cheap enough for an emulated processor, and a word
 * at a wrong place or of another message is wrong in nearly every byte. */
#include <string.h>

#include "rccheck.h"

#define STEP 0x9e3779b97f4a7c15ULL

uint64_t mix64(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

uint64_t message_key(const struct check *c, bool from_server, uint32_t qp, uint32_t seq)
{
	uint64_t k = mix64(c->opt.seed + STEP);

	k = mix64(k ^ ((uint64_t)from_server << 32 | qp));
	if (c->opt.same && c->phase < PHASES)
		return k;
	k = mix64(k ^ ((uint64_t)c->phase << 32 | c->round));
	return mix64(k ^ (0x100000000ULL | seq));
}

uint32_t message_len(const struct check *c, uint64_t key)
{
	uint64_t h = mix64(key ^ STEP);
	uint32_t len;

	if (c->phase == PHASE_LAT)
		return c->opt.size < 64 ? c->opt.size : 64;
	if (c->opt.fixed_size)
		return c->opt.size;
	switch (h & 7) {
	case 0:
		len = c->opt.mtu;
		break;
	case 1:
		len = c->opt.mtu + 1;
		break;
	case 2:
		len = c->opt.mtu - 1;
		break;
	case 3:
		len = (h >> 8) % 16 ? (uint32_t)(h >> 16) % 256 : 0;
		break;
	case 4:
		len = c->opt.size;
		break;
	default:
		len = (uint32_t)(h >> 16) % c->opt.size + 1;
	}
	return len < c->opt.size ? len : c->opt.size;
}

void pattern_fill(uint8_t *p, size_t len, uint64_t key)
{
	size_t i;

	for (i = 0; i + 8 <= len; i += 8, key += STEP)
		memcpy(p + i, &key, 8);
	memcpy(p + i, &key, len - i);
}

static size_t first_difference(const uint8_t *p, size_t from, size_t len, uint64_t word)
{
	size_t n = len - from < 8 ? len - from : 8;

	for (size_t i = 0; i < n; i++)
		if (p[from + i] != (uint8_t)(word >> 8 * i))
			return from + i;
	return len;
}

size_t pattern_check(const uint8_t *p, size_t len, uint64_t key)
{
	uint64_t w;
	size_t i;

	for (i = 0; i + 8 <= len; i += 8, key += STEP) {
		memcpy(&w, p + i, 8);
		if (w != key)
			return first_difference(p, i, len, key);
	}
	return i < len ? first_difference(p, i, len, key) : len;
}

size_t fill_check(const uint8_t *p, size_t len, uint8_t value)
{
	uint64_t want = 0x0101010101010101ULL * value, w;
	size_t i;

	for (i = 0; i + 8 <= len; i += 8) {
		memcpy(&w, p + i, 8);
		if (w != want)
			return first_difference(p, i, len, want);
	}
	return i < len ? first_difference(p, i, len, want) : len;
}
