/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/stream_copy.h"

static void stream_copy__copies_any_length_and_nothing_else(void **state)
{
	static _Alignas(STREAM_LINE) uint8_t to[5 * STREAM_LINE];
	uint8_t from[4 * STREAM_LINE + 3];

	(void)state;
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7 + 1);
	for (size_t n = 0; n <= 4 * STREAM_LINE; n++)
		for (size_t skew = 0; skew < 4; skew++) {
			memset(to, 0xee, sizeof(to));
			stream_copy(to, from + skew, n);
			assert_memory_equal(to, from + skew, n);
			for (size_t i = n; i < sizeof(to); i++)
				assert_int_equal(to[i], 0xee);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(stream_copy__copies_any_length_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
