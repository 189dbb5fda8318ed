/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/link/link_sum.c"

#define MS 1000000ull

static uint64_t path_mean(const uint64_t *rtt_ms, uint32_t n)
{
	struct proxy_path_status sum = {0};
	uint32_t rtts = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct proxy_path_status s = {.rtt_smoothed_ns = rtt_ms[i] * MS, .rtt_min_ns = rtt_ms[i] * MS};

		link_sum_path(&sum, &s, i == 0, &rtts);
	}
	return sum.rtt_smoothed_ns;
}

/* Each worker counts as much as any other, in whichever order they answer. */
static void link_sum_path__mean_round_trip(void **state)
{
	static const uint64_t up[] = {1, 2, 3, 4}, down[] = {4, 3, 2, 1};

	(void)state;
	assert_int_equal(path_mean(up, 4), 2500000);
	assert_int_equal(path_mean(down, 4), 2500000);
	assert_int_equal(path_mean(up, 1), 1 * MS);
}

static void link_sum_path__who_has_measured_nothing_does_not_count(void **state)
{
	static const uint64_t gaps[] = {0, 2, 0, 4, 0};

	(void)state;
	assert_int_equal(path_mean(gaps, 5), 3 * MS);
	assert_int_equal(path_mean(gaps, 1), 0);
}

static void link_sum_path__counts_are_added_and_the_worst_told(void **state)
{
	struct proxy_path_status sum = {0}, a = {.state = PATH_UP,
	                                         .usable = true,
	                                         .rtt_min_ns = 3 * MS,
	                                         .rtt_p99_ns = 5 * MS,
	                                         .loss_ppm = 10,
	                                         .payload_max = 9000,
	                                         .delivery_bps = 100};
	struct proxy_path_status b = {.state = PATH_DEAD,
	                              .rtt_min_ns = 2 * MS,
	                              .rtt_p99_ns = 4 * MS,
	                              .loss_ppm = 20,
	                              .payload_max = 1472,
	                              .delivery_bps = 50};
	uint32_t rtts = 0;

	(void)state;
	a.stats.lost = 7;
	b.stats.lost = 5;
	link_sum_path(&sum, &a, true, &rtts);
	link_sum_path(&sum, &b, false, &rtts);
	assert_int_equal(sum.state, PATH_DEAD);
	assert_false(sum.usable);
	assert_int_equal(sum.rtt_min_ns, 2 * MS);
	assert_int_equal(sum.rtt_p99_ns, 5 * MS);
	assert_int_equal(sum.loss_ppm, 20);
	assert_int_equal(sum.payload_max, 1472);
	assert_int_equal(sum.delivery_bps, 150);
	assert_int_equal(sum.stats.lost, 12);
	assert_int_equal(rtts, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(link_sum_path__mean_round_trip),
	    cmocka_unit_test(link_sum_path__who_has_measured_nothing_does_not_count),
	    cmocka_unit_test(link_sum_path__counts_are_added_and_the_worst_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
