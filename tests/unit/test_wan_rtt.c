/* SPDX-License-Identifier: Apache-2.0 */
/* Round trip estimate: what RFC 9002 says, and what a peer cannot make it believe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/wan/dgram/wan_rtt.h"

#define MS 1000000ull

static void wan_rtt__hint_until_measured(void **state)
{
	struct wan_rtt r;

	(void)state;
	wan_rtt_init(&r, 10 * MS);
	assert_int_equal(wan_rtt_ns(&r), 10 * MS);
	assert_int_equal(wan_rtt_min_ns(&r), 10 * MS);
	assert_in_range(wan_rtt_pto_ns(&r), 10 * MS, 13 * MS);
	wan_rtt_init(&r, 0);
	assert_true(wan_rtt_ns(&r) > 0);
}

static void wan_rtt__first_sample_counts_whole(void **state)
{
	struct wan_rtt r;

	(void)state;
	wan_rtt_init(&r, 10 * MS);
	wan_rtt_sample(&r, 5 * MS, 4 * MS, 0);
	assert_int_equal(wan_rtt_ns(&r), 4 * MS);
	assert_int_equal(wan_rtt_min_ns(&r), 4 * MS);
	assert_int_equal(r.var_ns, 2 * MS);
	assert_int_equal(wan_rtt_pto_ns(&r), 4 * MS + 8 * MS + 2 * MS);
}

static void wan_rtt__smooths_by_an_eighth(void **state)
{
	struct wan_rtt r;

	(void)state;
	wan_rtt_init(&r, 10 * MS);
	wan_rtt_sample(&r, 1 * MS, 8 * MS, 0);
	wan_rtt_sample(&r, 2 * MS, 16 * MS, 0);
	assert_int_equal(wan_rtt_ns(&r), 9 * MS);
	assert_int_equal(r.var_ns, (3 * 4 * MS + 8 * MS) / 4);
	assert_int_equal(wan_rtt_min_ns(&r), 8 * MS);
	assert_int_equal(r.latest_ns, 16 * MS);
}

static void wan_rtt__steady_path_has_a_tight_timeout(void **state)
{
	struct wan_rtt r;

	(void)state;
	wan_rtt_init(&r, 1 * MS);
	for (uint64_t i = 0; i < 100; i++)
		wan_rtt_sample(&r, i * MS, 10 * MS, 0);
	assert_int_equal(wan_rtt_ns(&r), 10 * MS);
	assert_in_range(wan_rtt_pto_ns(&r), 12 * MS, 12 * MS + 1000);
}

static void wan_rtt__peer_delay_is_taken_off(void **state)
{
	struct wan_rtt r;

	(void)state;
	wan_rtt_init(&r, 1 * MS);
	wan_rtt_sample(&r, 1 * MS, 11 * MS, 1 * MS);
	assert_int_equal(wan_rtt_ns(&r), 10 * MS);
}

/* RFC 9002 5.3: what the peer says it waited must not make the path shorter than it was ever seen, by much. */
static void wan_rtt__peer_cannot_shrink_the_path(void **state)
{
	struct wan_rtt r;

	(void)state;
	wan_rtt_init(&r, 1 * MS);
	wan_rtt_sample(&r, 1 * MS, 10 * MS, 0);
	wan_rtt_sample(&r, 2 * MS, 10 * MS, 10 * MS - 1);
	wan_rtt_sample(&r, 3 * MS, 10 * MS, UINT64_MAX);
	assert_int_equal(wan_rtt_min_ns(&r), 10 * MS);
	assert_int_equal(wan_rtt_ns(&r), 10 * MS);
}

static void wan_rtt__never_zero(void **state)
{
	struct wan_rtt r;

	(void)state;
	wan_rtt_init(&r, 1 * MS);
	wan_rtt_sample(&r, 1 * MS, 0, 0);
	assert_true(wan_rtt_ns(&r) > 0);
	assert_true(wan_rtt_min_ns(&r) > 0);
}

/* A protection switch to a longer fibre. */
static void wan_rtt__minimum_is_forgotten_after_two_windows(void **state)
{
	struct wan_rtt r;
	uint64_t now = 0;

	(void)state;
	wan_rtt_init(&r, 1 * MS);
	for (; now < 1500 * MS; now += 10 * MS)
		wan_rtt_sample(&r, now, 5 * MS, 0);
	for (; now < 1900 * MS; now += 10 * MS)
		wan_rtt_sample(&r, now, 9 * MS, 0);
	assert_int_equal(wan_rtt_min_ns(&r), 5 * MS);
	for (; now < 4500 * MS; now += 10 * MS)
		wan_rtt_sample(&r, now, 9 * MS, 0);
	assert_int_equal(wan_rtt_min_ns(&r), 9 * MS);
	wan_rtt_sample(&r, now, 7 * MS, 0); /* shorter is believed at once */
	assert_int_equal(wan_rtt_min_ns(&r), 7 * MS);
}

static void wan_rtt__survives_silence(void **state)
{
	struct wan_rtt r;

	(void)state;
	wan_rtt_init(&r, 1 * MS);
	wan_rtt_sample(&r, 1 * MS, 5 * MS, 0);
	wan_rtt_sample(&r, 60000 * MS, 6 * MS, 0);
	wan_rtt_sample(&r, 120000 * MS, 6 * MS, 0);
	assert_int_equal(wan_rtt_min_ns(&r), 6 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wan_rtt__hint_until_measured),
	    cmocka_unit_test(wan_rtt__first_sample_counts_whole),
	    cmocka_unit_test(wan_rtt__smooths_by_an_eighth),
	    cmocka_unit_test(wan_rtt__steady_path_has_a_tight_timeout),
	    cmocka_unit_test(wan_rtt__peer_delay_is_taken_off),
	    cmocka_unit_test(wan_rtt__peer_cannot_shrink_the_path),
	    cmocka_unit_test(wan_rtt__never_zero),
	    cmocka_unit_test(wan_rtt__minimum_is_forgotten_after_two_windows),
	    cmocka_unit_test(wan_rtt__survives_silence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
