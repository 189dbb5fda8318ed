/* SPDX-License-Identifier: Apache-2.0 */
/* icrc.c - the invariant CRC of RoCEv2.
 *
 * Theory of operation
 *
 * A CRC register is a polynomial over GF(2) modulo P. In the reflected order used here bit 31 is the coefficient of
 * x^0. Feeding a byte multiplies the register by x^8 and adds the byte, so feeding n bytes is
 *
 *     register' = register * x^(8n) + crc0(bytes)            crc0: register that starts at 0, not inverted
 *
 * Everything here follows from that line:
 *  - the header with its masked fields goes through the CRC as a copy, the payload from where it lies;
 *  - the two are fed apart and put together at the price of one multiplication: crc0(payload) is wanted by itself;
 *  - a difference of some header bytes changes the end result by crc0(difference) * x^(8 * bytes behind it).
 *
 * So the only primitive is "multiply by x^(8n) mod P". x^(8n) comes from a table in two levels, n = 128 high + low, and
 * a product takes eight steps of four bits each: some 15 ns, whatever n. Most payloads are as long as a PMTU: for these
 * a product is the sum of eight entries of a table of its own. */
#include "icrc.h"

#include <string.h>

#include <isa-l/crc.h>

#include "proxy/util/bytes.h"

#define CRC_POLY  0xedb88320u /* reflected */
#define SPAN_LOW  128
#define SPAN_HIGH (ICRC_MAX_SPAN / SPAN_LOW + 1)

_Static_assert(ICRC_MAX_SPAN % SPAN_LOW == 0, "the largest span is an entry of the upper table");

/* x^(8i) mod P for i = 0..127 */
static const uint32_t x_to_bytes[SPAN_LOW] = {
    0x80000000, 0x00800000, 0x00008000, 0x00000080, 0xedb88320, 0x3b83984b, 0xe1351b80, 0xed59b63b, 0xb1e6b092,
    0x1eb014d8, 0x8816eaf2, 0x533b85da, 0x6655004f, 0xe6050901, 0x77e1359f, 0x60c76fe0, 0xa06a2517, 0x8373efe2,
    0x4e87f0bb, 0x5cfdedf4, 0xba8ccbe8, 0xae6be681, 0x9a11d850, 0x6bf1402c, 0x32b39da3, 0x4fed41cf, 0x0b943260,
    0x4db9f56a, 0xad2a31b3, 0x52c5c807, 0x9e36506b, 0xdafe8e80, 0xed627dae, 0x3183ec92, 0x1e307184, 0xeacb7748,
    0x78ed02d5, 0xf6c1cb59, 0x1241289b, 0x67cf0be4, 0xa700e96a, 0xadc088af, 0x46c47ef1, 0xcafc06f4, 0xba1aca03,
    0x99b34b70, 0x509cc277, 0xce31785d, 0x15141c31, 0x51cb1426, 0xd25c4ee9, 0xd9040692, 0x1ed8f66e, 0xaa1494a9,
    0xafa00fd8, 0x88a7fae9, 0xd95efd26, 0xd2d4db00, 0x00d2d4db, 0x1101d988, 0xe3720acb, 0x0c556932, 0xc8db04e9,
    0xd91e81d8, 0x88d14467, 0xd35e25bf, 0x5b0df038, 0x2859b56e, 0xaa2215ea, 0x40752973, 0xc94c55af, 0x46a0f22c,
    0x329ecc11, 0x6a82be3e, 0xc10b9f15, 0x6d1cef74, 0x5705a9ca, 0x7be62e07, 0x9e1f738d, 0x9397e0ee, 0x4721589f,
    0x60f7af8d, 0x93690832, 0xc8443888, 0xe3ab4f2a, 0xdb586299, 0x89087382, 0x033fea7f, 0xc0b95347, 0xe8786d60,
    0x4d5a1935, 0x56fe9e3a, 0xc65a272c, 0x321e36c4, 0x9c3b189f, 0x602cb5cd, 0xe5b592b8, 0xc55f8e2c, 0x321d336d,
    0x333100d6, 0x6f8346e1, 0xd76251a8, 0xd8da498b, 0x7ab280e1, 0xd777606e, 0xaadd3b3f, 0xb6ccf006, 0xe9d569c5,
    0xebe7e356, 0x82e31322, 0xd5e2a2f7, 0x230c851d, 0x6325605c, 0x62be38bf, 0x5bbc1025, 0x4b5f6857, 0xf5449b3f,
    0xb69369a6, 0x3f0395b4, 0xcc337400, 0x00cc3374, 0x57687916, 0xf483dd28, 0x35412b27, 0xa53ff440, 0x76797e64,
    0x4aa9dc3f, 0xb62c84e1,
};

/* x^(8 * 128 i) mod P for i = 0..72 */
static const uint32_t x_to_128_bytes[SPAN_HIGH] = {
    0x80000000, 0xd7bbfe6a, 0xec447f11, 0xb72d2b3c, 0x8e7ea170, 0x7e91368a, 0x05616c82, 0x3277f3e0, 0x6427800e,
    0xb1436b58, 0x5ef840e2, 0xb3a2be1c, 0xbf110f7e, 0x3ea21cf9, 0x118f848e, 0x34163bd1, 0x4d47bae0, 0x913d3ab9,
    0xa84bdc84, 0x81b96886, 0x0b19ae7f, 0x9a48a5c8, 0xaf5619bc, 0x7dfa90f7, 0x6347a4bd, 0x7f21b2ee, 0xd91ef3cb,
    0x92b4c92c, 0x13d40d42, 0x5a8c432b, 0x5b6cda72, 0xc1fa498f, 0x09fe548f, 0x0d63715d, 0x3a7f1119, 0x9af9f8f8,
    0x5f58ea19, 0x15310274, 0x0a872662, 0x078fe0c3, 0x923b0526, 0x927ab9af, 0xf27886e9, 0x9acf1f37, 0xced83e9e,
    0x4a227981, 0x3274df68, 0xc8dda805, 0x552d4042, 0x48432856, 0xb0aad506, 0x353c0375, 0x35f2abeb, 0xeb1fc44a,
    0x1e139bbc, 0xe01527f7, 0x63c21244, 0xdbd0768a, 0x6ffe4f05, 0x226e915c, 0x196613fe, 0x1058f25d, 0x513a9268,
    0x11021915, 0x83852d0f, 0x45ddd4b2, 0x3584c05e, 0x0c52aae5, 0x926483da, 0xe8672360, 0xb6be16b2, 0x800f67db,
    0x4d29b1c7,
};

/* times_x4[b]: the four bits b that leave the register at its highest powers, times x^4 mod P */
static const uint32_t times_x4[16] = {
    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
    0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};

/* sums of a, b, c, d: bit 0 of the index stands for a */
#define NIBBLE(a, b, c, d) \
	{0, a, b, (a) ^ (b), c, (a) ^ (c), (b) ^ (c), (a) ^ (b) ^ (c), \
	 d, (a) ^ (d), (b) ^ (d), (a) ^ (b) ^ (d), (c) ^ (d), (a) ^ (c) ^ (d), (b) ^ (c) ^ (d), (a) ^ (b) ^ (c) ^ (d)}

/* x^(8 * n) times each nibble of a register at its place, for n = 1024, 2048, 4096: the payloads of a whole PMTU */
static const uint32_t over_1024[8][16] = {
    NIBBLE(0xf891f16f, 0x2a52e49f, 0x54a5c93e, 0xa94b927c),
    NIBBLE(0x89e622b9, 0xc8bd4333, 0x4a0b8027, 0x9417004e),
    NIBBLE(0xf35f06dd, 0x3dcf0bfb, 0x7b9e17f6, 0xf73c2fec),
    NIBBLE(0x35095999, 0x6a12b332, 0xd4256664, 0x733bca89),
    NIBBLE(0xe6779512, 0x179e2c65, 0x2f3c58ca, 0x5e78b194),
    NIBBLE(0xbcf16328, 0xa293c011, 0x9e568663, 0xe7dc0a87),
    NIBBLE(0x14c9134f, 0x2992269e, 0x53244d3c, 0xa6489a78),
    NIBBLE(0x97e032b1, 0xf4b16323, 0x3213c007, 0x6427800e),
};
static const uint32_t over_2048[8][16] = {
    NIBBLE(0x88b6ba63, 0xca1c7287, 0x4f49e34f, 0x9e93c69e),
    NIBBLE(0xe6568b7d, 0x17dc10bb, 0x2fb82176, 0x5f7042ec),
    NIBBLE(0xbee085d8, 0xa6b00df1, 0x96111da3, 0xf7533d07),
    NIBBLE(0x35d77c4f, 0x6baef89e, 0xd75df13c, 0x75cae439),
    NIBBLE(0xeb95c872, 0x0c5a96a5, 0x18b52d4a, 0x316a5a94),
    NIBBLE(0x62d4b528, 0xc5a96a50, 0x5023d2e1, 0xa047a5c2),
    NIBBLE(0x9bfe4dc5, 0xec8d9dcb, 0x026a3dd7, 0x04d47bae),
    NIBBLE(0x09a8f75c, 0x1351eeb8, 0x26a3dd70, 0x4d47bae0),
};
static const uint32_t over_4096[8][16] = {
    NIBBLE(0x5ad8a92c, 0xb5b15258, 0xb013a2f1, 0xbb5643a3),
    NIBBLE(0xaddd8107, 0x80ca044f, 0xdae50edf, 0x6ebb1bff),
    NIBBLE(0xdd7637fe, 0x619d69bd, 0xc33ad37a, 0x5d04a0b5),
    NIBBLE(0xba09416a, 0xaf638495, 0x85b60f6b, 0xd01d1897),
    NIBBLE(0x7b4b376f, 0xf6966ede, 0x365ddbfd, 0x6cbbb7fa),
    NIBBLE(0xd9776ff4, 0x699fd9a9, 0xd33fb352, 0x7d0e60e5),
    NIBBLE(0xfa1cc1ca, 0x2f4885d5, 0x5e910baa, 0xbd221754),
    NIBBLE(0xa13528e9, 0x991b5793, 0xe947a967, 0x09fe548f),
};

static uint32_t times_x(uint32_t a)
{
	return a >> 1 ^ (CRC_POLY & -(a & 1));
}

/* a * b mod P. Horner's rule over the nibbles of a, highest power (lowest bits) first. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t bx = times_x(b), bx2 = times_x(bx), bx3 = times_x(bx2);
	/* nibble times b: bit 3 counts as x^0, bit 0 as x^3 */
	const uint32_t nibble_b[16] = {
	    0, bx3,     bx2,     bx2 ^ bx3,     bx,     bx ^ bx3,     bx ^ bx2,     bx ^ bx2 ^ bx3,
	    b, b ^ bx3, b ^ bx2, b ^ bx2 ^ bx3, b ^ bx, b ^ bx ^ bx3, b ^ bx ^ bx2, b ^ bx ^ bx2 ^ bx3,
	};
	uint32_t r = nibble_b[a & 15];

	for (unsigned shift = 4; shift < 32; shift += 4)
		r = r >> 4 ^ times_x4[r & 15] ^ nibble_b[a >> shift & 15];
	return r;
}

static uint32_t sum_of_nibbles(const uint32_t over[8][16], uint32_t reg)
{
	return over[0][reg & 15] ^ over[1][reg >> 4 & 15] ^ over[2][reg >> 8 & 15] ^ over[3][reg >> 12 & 15] ^
	       over[4][reg >> 16 & 15] ^ over[5][reg >> 20 & 15] ^ over[6][reg >> 24 & 15] ^ over[7][reg >> 28];
}

/* The register after n bytes of zeros. */
static uint32_t feed_zeros(uint32_t reg, size_t n)
{
	if (n == 4096)
		return sum_of_nibbles(over_4096, reg);
	if (n == 2048)
		return sum_of_nibbles(over_2048, reg);
	if (n == 1024)
		return sum_of_nibbles(over_1024, reg);
	for (; n > ICRC_MAX_SPAN; n -= ICRC_MAX_SPAN) /* no real packet is as long */
		reg = multiply(x_to_128_bytes[SPAN_HIGH - 1], reg);
	if (n >= SPAN_LOW)
		reg = multiply(x_to_128_bytes[n / SPAN_LOW], reg);
	if (n % SPAN_LOW != 0)
		reg = multiply(x_to_bytes[n % SPAN_LOW], reg);
	return reg;
}

/* ISA-L takes and gives the inverted register. */
static uint32_t feed(uint32_t reg, const uint8_t *p, size_t n)
{
	return ~crc32_gzip_refl(~reg, p, n);
}

static void mask_ip(uint8_t *ip, bool ip6)
{
	if (ip6) {
		ip[0] |= 0x0f; /* traffic class and flow label */
		memset(ip + 1, 0xff, 3);
		ip[7] = 0xff; /* hop limit */
	} else {
		ip[1] = 0xff; /* ToS */
		ip[8] = 0xff; /* TTL */
		memset(ip + 10, 0xff, 2);
	}
}

/* All bytes before the payload, with masked fields. */
struct pseudo_header {
	uint8_t bytes[8 + ROCE_HDR_MAX];
};

static void mask_header(struct pseudo_header *h, const uint8_t *l3, const struct roce_pkt *pkt)
{
	uint8_t *ip = h->bytes + 8;

	memset(h->bytes, 0xff, 8);
	if (pkt->len >= ROCE_HDR_MAX)
		memcpy(ip, l3, ROCE_HDR_MAX); /* a constant length is a few moves, not a call */
	else
		memcpy(ip, l3, pkt->hdr_len);
	mask_ip(ip, pkt->ip6);
	memset(ip + pkt->bth_off - 2, 0xff, 2); /* UDP checksum */
	ip[pkt->bth_off + 4] = 0xff;            /* resv8a */
}

/* Payload and pad. */
static size_t covered_tail(const struct roce_pkt *pkt)
{
	return (size_t)(pkt->len - pkt->hdr_len - ROCE_ICRC_LEN);
}

/* The header goes through the CRC after the payload: its bytes were written a few at a time, and reading them in larger
 * pieces waits until all earlier stores, even those of the packet before, have retired. */
static uint32_t compute(const uint8_t *l3, const struct roce_pkt *pkt, uint32_t *payload_crc)
{
	size_t tail = covered_tail(pkt);
	struct pseudo_header h;

	mask_header(&h, l3, pkt);
	*payload_crc = feed(0, l3 + pkt->hdr_len, tail);
	return ~(feed_zeros(feed(0xffffffff, h.bytes, 8 + (size_t)pkt->hdr_len), tail) ^ *payload_crc);
}

uint32_t icrc_compute(const uint8_t *l3, const struct roce_pkt *pkt)
{
	uint32_t payload_crc;

	return compute(l3, pkt, &payload_crc);
}

bool icrc_check(const uint8_t *l3, const struct roce_pkt *pkt, uint32_t *payload_crc)
{
	uint32_t crc;

	if (compute(l3, pkt, &crc) != icrc_load(l3, pkt))
		return false;
	if (payload_crc)
		*payload_crc = crc;
	return true;
}

uint32_t icrc_patch(uint32_t icrc, const uint8_t *diff, size_t n, size_t after)
{
	return icrc ^ feed_zeros(feed(0, diff, n), after);
}
