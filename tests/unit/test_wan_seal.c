/* SPDX-License-Identifier: Apache-2.0 */
/* The tag behind a datagram: the whole of it counts, and nothing of it may be missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/wan/wan_seal.h"

enum { LEN = 200 };

static size_t sealed(uint8_t *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (uint8_t)(i * 37);
	return wan_seal(buf, len);
}

static void wan_seal__opens_what_it_sealed(void **state)
{
	uint8_t buf[LEN + WAN_TAG_LEN];

	(void)state;
	for (size_t len = 0; len <= LEN; len++) {
		size_t n = sealed(buf, len);

		assert_int_equal(n, len + WAN_TAG_LEN);
		assert_int_equal(wan_open(buf, &n), DROP_NONE);
		assert_int_equal(n, len);
	}
}

static void wan_seal__every_flipped_bit_is_seen(void **state)
{
	uint8_t buf[LEN + WAN_TAG_LEN];
	size_t n = sealed(buf, LEN), len;

	(void)state;
	for (size_t bit = 0; bit < 8 * (LEN + 4); bit++) { /* the tag is four bytes so far, the rest is room */
		buf[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		len = n;
		assert_int_equal(wan_open(buf, &len), DROP_WAN_BAD_TAG);
		buf[bit / 8] ^= (uint8_t)(1u << (bit % 8));
	}
}

static void wan_seal__cut_off(void **state)
{
	uint8_t buf[LEN + WAN_TAG_LEN];
	size_t n = sealed(buf, LEN), len;

	(void)state;
	for (size_t cut = 0; cut < n; cut++) {
		len = cut;
		assert_int_equal(wan_open(buf, &len), cut < WAN_TAG_LEN ? DROP_WAN_TRUNCATED : DROP_WAN_BAD_TAG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wan_seal__opens_what_it_sealed),
	    cmocka_unit_test(wan_seal__every_flipped_bit_is_seen),
	    cmocka_unit_test(wan_seal__cut_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
