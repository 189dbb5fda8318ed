/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/util/loss_runs.h"

static struct loss_runs r;

static int fresh(void **state)
{
	(void)state;
	memset(&r, 0, sizeof(r));
	return 0;
}

static void note(uint64_t from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		loss_runs_note(&r, from + i);
}

static void loss_runs__one_by_one(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		note(10 * i, 1);
	assert_int_equal(r.lost, 5);
	assert_int_equal(r.runs, 5);
	assert_int_equal(r.longest, 1);
}

static void loss_runs__in_a_row(void **state)
{
	(void)state;
	note(60, 8); /* across a word */
	note(100, 2);
	assert_int_equal(r.lost, 10);
	assert_int_equal(r.runs, 2);
	assert_int_equal(r.longest, 8);
}

/* Two lanes find theirs one after the other: the run is one. */
static void loss_runs__grown_together(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 8; i += 2)
		note(1000 + i, 1);
	assert_int_equal(r.runs, 4);
	for (uint64_t i = 1; i < 8; i += 2)
		note(1000 + i, 1);
	assert_int_equal(r.runs, 1);
	assert_int_equal(r.lost, 8);
	assert_int_equal(r.longest, 8);
}

static void loss_runs__told_twice_and_too_late(void **state)
{
	(void)state;
	note(5, 1);
	note(5, 1);
	assert_int_equal(r.lost, 1);
	note(5 + 10 * LOSS_RUNS_SPAN, 1); /* far ahead: what lay there before is forgotten */
	note(6, 1);
	assert_int_equal(r.lost, 2);
	assert_int_equal(r.runs, 2);
	note(5 + 10 * LOSS_RUNS_SPAN + 1, 1);
	assert_int_equal(r.runs, 2);
	loss_runs_note(&r, 4 + 10 * LOSS_RUNS_SPAN);
	assert_int_equal(r.runs, 2);
	assert_int_equal(r.longest, 3);
}

static void loss_runs__first_place(void **state)
{
	(void)state;
	note(0, 3);
	assert_int_equal(r.runs, 1);
	assert_int_equal(r.longest, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(loss_runs__one_by_one, fresh),
	    cmocka_unit_test_setup(loss_runs__in_a_row, fresh),
	    cmocka_unit_test_setup(loss_runs__grown_together, fresh),
	    cmocka_unit_test_setup(loss_runs__told_twice_and_too_late, fresh),
	    cmocka_unit_test_setup(loss_runs__first_place, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
