/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proxy/wan/cc/cubic_window.h"

#define SEC     1000000000ull
#define SEGMENT 1000u

static void cube_root__is_the_largest_below(void **unused)
{
	(void)unused;
	assert_int_equal(cube_root(0), 0);
	assert_int_equal(cube_root(7), 1);
	assert_int_equal(cube_root(8), 2);
	assert_int_equal(cube_root(26), 2);
	assert_int_equal(cube_root(1000000000000000000), 1000000);
	assert_in_range(cube_root(UINT64_MAX), 2000000, 2097151); /* no overflow on the way */
}

static void cubic_window_cut__keeps_seven_tenths(void **unused)
{
	struct cubic_window w;

	(void)unused;
	cubic_window_start(&w, SEC, 1000 * SEGMENT, SEGMENT);
	cubic_window_cut(&w, 2 * SEC);
	assert_int_equal(w.bytes, 700 * SEGMENT);
	assert_int_equal(w.most_bytes, 1000 * SEGMENT);
	/* K = cbrt(300 / 0.4) = 9.086 s */
	assert_in_range(w.flat_after_ms, 9080, 9090);
	cubic_window_cut(&w, 3 * SEC); /* below the last one: makes room sooner */
	assert_int_equal(w.bytes, 490 * SEGMENT);
	assert_int_equal(w.most_bytes, 595 * SEGMENT);
}

/* RFC 9438, figure 1: steep, flat at W_max, steep. */
static void cubic_window_grow__follows_the_cube(void **unused)
{
	struct cubic_window w;
	uint64_t at_half, at_k, later;

	(void)unused;
	cubic_window_start(&w, SEC, 10000 * SEGMENT, SEGMENT);
	cubic_window_cut(&w, SEC); /* K = cbrt(3000 / 0.4) = 19.57 s */
	for (uint64_t ms = 100; ms <= 9787; ms += 100)
		cubic_window_grow(&w, SEC + ms * 1000000);
	at_half = w.bytes;
	for (uint64_t ms = 9800; ms <= 19574; ms += 100)
		cubic_window_grow(&w, SEC + ms * 1000000);
	at_k = w.bytes;
	for (uint64_t ms = 19600; ms <= 29361; ms += 100)
		cubic_window_grow(&w, SEC + ms * 1000000);
	later = w.bytes;
	assert_in_range(at_half, 9600 * SEGMENT, 9640 * SEGMENT); /* 10000 - 3000 / 8 */
	assert_in_range(at_k, 9990 * SEGMENT, 10010 * SEGMENT);
	assert_in_range(later, 10360 * SEGMENT, 10390 * SEGMENT);
}

static void cubic_window_grow__is_not_below_reno(void **unused)
{
	struct cubic_window w;

	(void)unused;
	cubic_window_start(&w, SEC, 20 * SEGMENT, SEGMENT);
	cubic_window_cut(&w, SEC);
	for (int i = 1; i <= 12; i++) /* round trips of 1 ms: the cube has hardly begun */
		cubic_window_grow(&w, SEC + (uint64_t)i * 1000000);
	assert_in_range(w.bytes, 20 * SEGMENT, 21 * SEGMENT);
}

static void cubic_window_grow__at_most_half_more_in_a_round(void **unused)
{
	struct cubic_window w;

	(void)unused;
	cubic_window_start(&w, SEC, 100 * SEGMENT, SEGMENT);
	cubic_window_grow(&w, 3600 * SEC);
	assert_int_equal(w.bytes, 150 * SEGMENT);
	cubic_window_grow(&w, UINT64_MAX / 2);
	assert_int_equal(w.bytes, 225 * SEGMENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(cube_root__is_the_largest_below),
	    cmocka_unit_test(cubic_window_cut__keeps_seven_tenths),
	    cmocka_unit_test(cubic_window_grow__follows_the_cube),
	    cmocka_unit_test(cubic_window_grow__is_not_below_reno),
	    cmocka_unit_test(cubic_window_grow__at_most_half_more_in_a_round),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
