/* SPDX-License-Identifier: Apache-2.0 */
/* How far the two edges' wall clocks are apart, and a wall clock that was set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/peer/peer_clock.c"

#define S  1000000000ll
#define MS 1000000ll
#define T0 (1800000000 * S)

/* A word that took late_ns from an edge whose clock is ahead by ahead_ns. */
static void word(struct peer_clock *c, int64_t ahead_ns, int64_t late_ns)
{
	peer_clock_take(c, T0 + ahead_ns, T0 + late_ns);
}

static void ahead__the_quickest_word_counts(void **state)
{
	struct peer_clock c = {0};
	int64_t ahead;

	(void)state;
	assert_false(peer_clock_ahead(&c, 0, &ahead));
	word(&c, 40 * S, 1500 * MS);
	assert_false(peer_clock_ahead(&c, 0, &ahead)); /* one may be late */
	word(&c, 40 * S, 2 * MS);
	assert_true(peer_clock_ahead(&c, 4 * MS, &ahead));
	assert_int_equal(ahead, 40 * S);
	word(&c, 40 * S, 900 * MS);
	assert_true(peer_clock_ahead(&c, 4 * MS, &ahead));
	assert_int_equal(ahead, 40 * S);
}

static void ahead__follows_the_other_clock(void **state)
{
	struct peer_clock c = {0};
	int64_t ahead;

	(void)state;
	for (unsigned i = 0; i < 3 * PEER_CLOCK_WORDS; i++)
		word(&c, 0, MS);
	word(&c, 3600 * S, MS);
	assert_true(peer_clock_ahead(&c, 2 * MS, &ahead));
	assert_int_equal(ahead, 3600 * S); /* forwards at once */
	for (unsigned i = 0; i < PEER_CLOCK_WORDS; i++)
		word(&c, -3600 * S, MS);
	assert_true(peer_clock_ahead(&c, 2 * MS, &ahead));
	assert_int_equal(ahead, -3600 * S); /* backwards when the older words are gone */
	peer_clock_begin(&c);
	assert_false(peer_clock_ahead(&c, 2 * MS, &ahead));
}

static void ahead__takes_any_number(void **state)
{
	struct peer_clock c = {0};
	int64_t ahead;

	(void)state;
	peer_clock_take(&c, INT64_MIN, T0);
	assert_false(peer_clock_ahead(&c, 0, &ahead));
	peer_clock_take(&c, INT64_MAX, 0);
	peer_clock_take(&c, INT64_MAX, 0);
	assert_true(peer_clock_ahead(&c, UINT64_MAX, &ahead));
	assert_int_equal(ahead, INT64_MAX);
}

static void look__sees_a_clock_that_was_set(void **state)
{
	struct peer_clock c = {0};
	uint64_t now = 77 * (uint64_t)S;
	int64_t wall = T0, ahead;

	(void)state;
	assert_int_equal(peer_clock_look(&c, wall, now), 0);
	for (int i = 0; i < 100; i++) /* slewed by a tenth, the most that chrony does */
		assert_int_equal(peer_clock_look(&c, wall += 1100 * MS, now += (uint64_t)S), 0);
	word(&c, 0, MS);
	word(&c, 0, MS);
	assert_true(peer_clock_ahead(&c, 0, &ahead));
	assert_int_equal(peer_clock_look(&c, wall += S - 3600 * S, now += (uint64_t)S), -3600 * S);
	assert_int_equal(c.jumps, 1);
	assert_int_equal(c.jump_ns, -3600 * S);
	assert_int_equal(c.jump_at_ns, now);
	assert_false(peer_clock_ahead(&c, 0, &ahead)); /* what was heard before was held against another clock */
	assert_int_equal(peer_clock_look(&c, wall += S, now += (uint64_t)S), 0);
	assert_int_equal(peer_clock_look(&c, wall += 2 * S, now += (uint64_t)S), S);
	assert_int_equal(c.jumps, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ahead__the_quickest_word_counts),
	    cmocka_unit_test(ahead__follows_the_other_clock),
	    cmocka_unit_test(ahead__takes_any_number),
	    cmocka_unit_test(look__sees_a_clock_that_was_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
