/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proxy/roce/roce.h"
#include "proxy/wan/dgram/wan_ecn.h"

#define NOW 1000000000ull

static struct wan_ecn e;
static struct wan_ecn_counts heard, told;

static int start(void **unused)
{
	(void)unused;
	wan_ecn_restart(&e);
	heard = told = (struct wan_ecn_counts){0};
	return wan_ecn_sends(&e, NOW, true) ? 0 : -1;
}

static uint32_t report(uint32_t ect0, uint32_t ce, uint32_t acked)
{
	told.ect0 = (told.ect0 + ect0) & ECN_COUNT_MASK;
	told.ce = (told.ce + ce) & ECN_COUNT_MASK;
	return wan_ecn_told(&e, &heard, told, acked);
}

static void wan_ecn_sends__only_what_is_obeyed(void **unused)
{
	(void)unused;
	assert_int_equal(e.state, ECN_TRYING);
	assert_int_equal(e.since_ns, NOW);
	assert_false(wan_ecn_sends(&e, 2 * NOW, false)); /* RateControl=fixed by a reload */
	assert_int_equal(report(0, 10, 10), 0);
	assert_true(wan_ecn_sends(&e, 3 * NOW, true));
	assert_int_equal(e.since_ns, 3 * NOW);
}

static void wan_ecn_came__counts_what_a_path_kept(void **unused)
{
	struct wan_ecn_counts c = {.ect0 = ECN_COUNT_MASK};

	(void)unused;
	wan_ecn_came(&c, 0);
	wan_ecn_came(&c, 1); /* ECT(1): nobody sends that */
	assert_int_equal(c.ect0, ECN_COUNT_MASK);
	wan_ecn_came(&c, ECN_ECT0);
	wan_ecn_came(&c, 0xb8 | ECN_CE); /* with a DSCP */
	assert_int_equal(c.ect0, 0);
	assert_int_equal(c.ce, 1);
}

static void wan_ecn_told__marks_are_counted_once(void **unused)
{
	(void)unused;
	assert_int_equal(report(100, 0, 100), 0);
	assert_int_equal(report(90, 10, 100), 10);
	assert_int_equal(report(0, 0, 0), 0);
	assert_int_equal(report(50, 3, 60), 3);
	assert_int_equal(e.state, ECN_USED);
}

static void wan_ecn_told__over_the_end_of_the_count(void **unused)
{
	(void)unused;
	told = heard = (struct wan_ecn_counts){ECN_COUNT_MASK - 5, ECN_COUNT_MASK};
	assert_int_equal(report(20, 4, 24), 4);
}

static void wan_ecn_told__an_overtaken_report_says_nothing(void **unused)
{
	struct wan_ecn_counts early = {100, 5};

	(void)unused;
	report(200, 10, 210);
	assert_int_equal(wan_ecn_told(&e, &heard, early, 0), 0);
	assert_int_equal(heard.ect0, 200);
	assert_int_equal(report(0, 2, 2), 2);
}

static void wan_ecn_told__bleached_is_found_out(void **unused)
{
	(void)unused;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(e.state, ECN_TRYING);
		report(0, 0, 128);
	}
	assert_int_equal(e.state, ECN_FAILED);
	assert_false(wan_ecn_sends(&e, 2 * NOW, true));
	assert_int_equal(report(0, 100, 100), 0); /* whoever marks that */
	wan_ecn_restart(&e);
	assert_true(wan_ecn_sends(&e, 3 * NOW, true)); /* another session, perhaps another way */
}

static void wan_ecn_told__bleached_later_is_found_out(void **unused)
{
	(void)unused;
	report(256, 0, 256);
	assert_int_equal(e.state, ECN_USED);
	report(0, 0, 256);
	assert_int_equal(e.state, ECN_FAILED);
}

static void wan_ecn_told__who_marks_all_is_not_believed(void **unused)
{
	(void)unused;
	report(0, 256, 256);
	assert_int_equal(e.state, ECN_FAILED);
}

static void wan_ecn_told__what_fec_made_up_for_is_no_bleaching(void **unused)
{
	(void)unused;
	report(240, 0, 256); /* the rest was rebuilt, never came */
	assert_int_equal(e.state, ECN_USED);
	report(0, 256, 256); /* a queue that stays full is possible, later */
	assert_int_equal(e.state, ECN_USED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(wan_ecn_sends__only_what_is_obeyed, start),
	    cmocka_unit_test_setup(wan_ecn_came__counts_what_a_path_kept, start),
	    cmocka_unit_test_setup(wan_ecn_told__marks_are_counted_once, start),
	    cmocka_unit_test_setup(wan_ecn_told__over_the_end_of_the_count, start),
	    cmocka_unit_test_setup(wan_ecn_told__an_overtaken_report_says_nothing, start),
	    cmocka_unit_test_setup(wan_ecn_told__bleached_is_found_out, start),
	    cmocka_unit_test_setup(wan_ecn_told__bleached_later_is_found_out, start),
	    cmocka_unit_test_setup(wan_ecn_told__who_marks_all_is_not_believed, start),
	    cmocka_unit_test_setup(wan_ecn_told__what_fec_made_up_for_is_no_bleaching, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
