/* SPDX-License-Identifier: Apache-2.0 */
/* What the receiver sees of a line: losses, bursts, and what FEC made up for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/wan/dgram/wan_arrivals.h"

static struct wan_arrivals a;

static int fresh(void **state)
{
	(void)state;
	memset(&a, 0, sizeof(a));
	return 0;
}

static void wan_arrivals__counts_losses_and_bursts(void **state)
{
	(void)state;
	for (uint64_t pn = 0; pn < 64 * 100; pn++)
		if (!(pn >= 62 && pn < 70) && pn != 1000 && pn != 1002)
			wan_arrivals_note(&a, pn);
	assert_int_equal(a.sum.numbers, 64 * 100 - ARRIVALS_LAG);
	assert_int_equal(a.sum.lost, 10);
	assert_int_equal(a.sum.bursts, 3); /* the first one reaches over a word */
}

static void wan_arrivals__reordering_is_no_loss(void **state)
{
	(void)state;
	for (uint64_t pn = 0; pn < 6400; pn++) {
		if (pn % 10 != 3)
			wan_arrivals_note(&a, pn);
		if (pn >= 900 && (pn - 900) % 10 == 3)
			wan_arrivals_note(&a, pn - 900);
	}
	assert_true(a.sum.numbers > 5000);
	assert_int_equal(a.sum.lost, 0);
}

static void wan_arrivals__a_break_is_no_loss(void **state)
{
	(void)state;
	for (uint64_t pn = 0; pn < 2048; pn++)
		wan_arrivals_note(&a, pn);
	for (uint64_t pn = 1000000; pn < 1010000; pn++)
		wan_arrivals_note(&a, pn);
	assert_int_equal(a.sum.lost, 0);
	assert_true(a.sum.numbers > 9000);
	wan_arrivals_note(&a, UINT64_MAX >> 3); /* hostile */
	wan_arrivals_note(&a, 5);
	assert_int_equal(a.sum.lost, 0);
}

static void wan_arrivals__told_often(void **state)
{
	uint64_t n[WAN_REBUILT_MAX];

	(void)state;
	assert_int_equal(wan_arrivals_tell_rebuilt(&a, n, WAN_REBUILT_MAX), 0);
	wan_arrivals_rebuilt(&a, 7);
	for (int i = 0; i < ARRIVALS_TOLD; i++) {
		assert_int_equal(wan_arrivals_tell_rebuilt(&a, n, WAN_REBUILT_MAX), 1);
		assert_int_equal(n[0], 7);
	}
	assert_int_equal(wan_arrivals_tell_rebuilt(&a, n, WAN_REBUILT_MAX), 0);
}

static void wan_arrivals__many_are_told_in_parts(void **state)
{
	uint64_t n[WAN_REBUILT_MAX];

	(void)state;
	for (uint64_t pn = 0; pn < 100; pn++)
		wan_arrivals_rebuilt(&a, pn);
	assert_int_equal(wan_arrivals_tell_rebuilt(&a, n, 64), 64);
	assert_int_equal(n[63], 63);
	assert_int_equal(wan_arrivals_tell_rebuilt(&a, n, 64), 36);
	assert_int_equal(n[35], 99);
	for (uint64_t pn = 0; pn < 10 * ARRIVALS_REBUILT; pn++)
		wan_arrivals_rebuilt(&a, 1000 + pn);
	assert_int_equal(wan_arrivals_tell_rebuilt(&a, n, 64), 64);
	assert_int_equal(n[0], 1000 + 9 * ARRIVALS_REBUILT); /* the oldest are left out */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(wan_arrivals__counts_losses_and_bursts, fresh),
	    cmocka_unit_test_setup(wan_arrivals__reordering_is_no_loss, fresh),
	    cmocka_unit_test_setup(wan_arrivals__a_break_is_no_loss, fresh),
	    cmocka_unit_test_setup(wan_arrivals__told_often, fresh),
	    cmocka_unit_test_setup(wan_arrivals__many_are_told_in_parts, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
