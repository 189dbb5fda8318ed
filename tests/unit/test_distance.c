/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/config/distance.c"

#define US 1000ull
#define KM 1000ull

/* A fibre's round trip with so much of the machines on top. */
static uint64_t km_ns(uint64_t km, uint64_t extra_us)
{
	return km * 10 * US + extra_us * US;
}

static void distance__auto_is_1000_km_until_measured(void **state)
{
	struct distance d;

	(void)state;
	distance_init(&d, 0);
	assert_int_equal(distance_in_force_m(&d), 1000 * KM);
	assert_int_equal(distance_in_force_rtt_ns(&d), 10200 * US);
	assert_int_equal(distance_measured_m(&d), 0);
	assert_int_equal(distance_sample(&d, 0), DISTANCE_SAME);
	assert_int_equal(distance_sample(&d, km_ns(300, 50)), DISTANCE_SAME);
	assert_int_equal(distance_sample(&d, km_ns(300, 50)), DISTANCE_MEASURED);
	assert_int_equal(distance_measured_m(&d), 305 * KM);
	assert_int_equal(distance_in_force_m(&d), 305 * KM);
	assert_int_equal(distance_in_force_rtt_ns(&d), km_ns(300, 50));
	assert_false(distance_differs(&d));
	assert_int_equal(d.steps, 0);
}

static void distance__least_of_ten_samples(void **state)
{
	struct distance d;

	(void)state;
	distance_init(&d, 0);
	distance_sample(&d, km_ns(300, 100));
	distance_sample(&d, km_ns(300, 30));
	for (int i = 0; i < DISTANCE_SAMPLES - 1; i++) {
		assert_int_equal(distance_sample(&d, km_ns(300, 120)), DISTANCE_SAME);
		assert_int_equal(d.least_ns, km_ns(300, 30));
	}
	distance_sample(&d, km_ns(300, 120));
	assert_int_equal(d.least_ns, km_ns(300, 120));
}

/* 300 to 340 km: five values in a row that are alike. One alone is a busy machine. */
static void distance__a_longer_way_is_believed_after_five(void **state)
{
	struct distance d;

	(void)state;
	distance_init(&d, 0);
	for (int i = 0; i < 20; i++)
		distance_sample(&d, km_ns(300, 50));
	assert_int_equal(distance_sample(&d, km_ns(900, 0)), DISTANCE_SAME);
	assert_int_equal(distance_sample(&d, km_ns(300, 60)), DISTANCE_SAME);
	for (int i = 1; i < DISTANCE_RISE; i++)
		assert_int_equal(distance_sample(&d, km_ns(340, 60)), DISTANCE_SAME);
	assert_int_equal(d.least_ns, km_ns(300, 50));
	assert_int_equal(distance_sample(&d, km_ns(340, 50)), DISTANCE_LONGER);
	assert_int_equal(d.least_ns, km_ns(340, 50));
	assert_int_equal(d.steps, 1);
	assert_int_equal(distance_sample(&d, km_ns(340, 55)), DISTANCE_SAME);
}

static void distance__a_shorter_way_is_believed_at_once(void **state)
{
	struct distance d;

	(void)state;
	distance_init(&d, 0);
	for (int i = 0; i < 5; i++)
		distance_sample(&d, km_ns(340, 50));
	assert_int_equal(distance_sample(&d, km_ns(300, 50)), DISTANCE_SHORTER);
	assert_int_equal(distance_in_force_m(&d), 305 * KM);
	assert_int_equal(d.steps, 1);
}

/* On a line of a few km 5 % is nothing beside what the machines do. */
static void distance__machines_are_no_step(void **state)
{
	struct distance d;

	(void)state;
	distance_init(&d, 5 * KM);
	for (int i = 0; i < 30; i++)
		assert_int_equal(distance_sample(&d, km_ns(5, 40 + (unsigned)i % 3 * 45)),
		                 i == 1 ? DISTANCE_MEASURED : DISTANCE_SAME);
	assert_false(distance_differs(&d));
	assert_int_equal(distance_in_force_m(&d), 5 * KM);
}

/* Two machines that sleep between a few packets a second: 50 to 800 us more, in one second of three as little. */
static void distance__a_quiet_pair_says_nothing(void **state)
{
	struct distance d;
	uint32_t random = 1;
	unsigned said = 0;

	(void)state;
	distance_init(&d, 300 * KM);
	for (int i = 0; i < 10000; i++) {
		uint64_t extra_us;

		random = random * 1664525u + 1013904223u;
		extra_us = random >> 30 == 0 ? 50 : 50 + (random >> 8) % 750;
		said += distance_sample(&d, km_ns(300, extra_us)) != DISTANCE_SAME;
	}
	assert_in_range(said, 1, 3);
}

static void distance__creeping_is_noticed(void **state)
{
	struct distance d;
	unsigned longer = 0;

	(void)state;
	distance_init(&d, 0);
	for (uint64_t km = 1000; km < 1200; km++)
		longer += distance_sample(&d, km_ns(km, 0)) == DISTANCE_LONGER;
	assert_in_range(longer, 2, 4);
}

/* The first second of a link on a machine that starts it: 0.7 ms too much, once. */
static void distance__one_sample_is_no_contradiction(void **state)
{
	struct distance d;

	(void)state;
	distance_init(&d, 300 * KM);
	assert_int_equal(distance_sample(&d, km_ns(300, 770)), DISTANCE_SAME);
	assert_false(distance_differs(&d));
	assert_int_equal(distance_sample(&d, km_ns(300, 60)), DISTANCE_SAME);
	assert_int_equal(distance_sample(&d, km_ns(300, 65)), DISTANCE_MEASURED);
	assert_false(distance_differs(&d));
	assert_int_equal(distance_in_force_m(&d), 300 * KM);
}

static uint32_t next_random(uint32_t *random)
{
	*random = *random * 1664525u + 1013904223u;
	return *random >> 8;
}

/* An idle link between two machines that are busy with other things now and then: for 20 to 80 seconds every packet takes
 * 300 to 900 us longer, much the same each time, and then not, for as long. 25 minutes of it. */
static void distance__busy_machines_are_no_news(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 40; seed++) {
		struct distance d;
		unsigned said = 0, differs = 0, left = 0;
		uint64_t busy_us = 0, jitter_us = 40;
		uint32_t random = seed;

		distance_init(&d, 300 * KM);
		for (int i = 0; i < 1500; i++) {
			if (left-- == 0) {
				left = 20 + next_random(&random) % 60;
				busy_us = busy_us ? 0 : 300 + next_random(&random) % 600;
				jitter_us = busy_us ? 20 + next_random(&random) % 400 : 40;
			}
			enum distance_news what =
			    distance_sample(&d, km_ns(300, 50 + busy_us + next_random(&random) % jitter_us));

			said += what == DISTANCE_LONGER || what == DISTANCE_SHORTER;
			differs += what != DISTANCE_SAME && distance_differs(&d);
		}
		if (said > DISTANCE_QUICK + 1500 / DISTANCE_QUICK_AGAIN)
			fail_msg("seed %u: %u times in 25 minutes, %u of them with Distance= in doubt", seed, said, differs);
	}
}

/* A smaller change than the noise is spoken of when it lasts, and only once. */
static void distance__a_change_within_the_noise_has_to_last(void **state)
{
	struct distance d;
	uint32_t random = 7;
	unsigned said = 0;
	int i;

	(void)state;
	distance_init(&d, 0);
	for (i = 0; i < 300; i++)
		distance_sample(&d, km_ns(300, next_random(&random) % 800));
	for (i = 0; i < 600 && said == 0; i++)
		said += distance_sample(&d, km_ns(360, next_random(&random) % 800)) == DISTANCE_LONGER;
	assert_int_equal(said, 1);
	assert_in_range(i, DISTANCE_PATIENCE, DISTANCE_PATIENCE + 2 * DISTANCE_SAMPLES);
	for (i = 0; i < 600; i++)
		assert_int_equal(distance_sample(&d, km_ns(360, next_random(&random) % 800)), DISTANCE_SAME);
}

static void distance__larger_of_the_two_rules(void **state)
{
	static const struct {
		uint64_t configured_km, real_km, extra_us;
		bool differs;
		uint64_t in_force_km;
	} cases[] = {
	    {300, 300, 50, false, 300},   {300, 300, 199, false, 300}, {300, 314, 0, false, 300},
	    {300, 336, 0, true, 336},     {300, 286, 0, false, 300},   {300, 284, 0, true, 300},
	    {100, 1000, 100, true, 1010}, {1, 1, 150, false, 1},       {1, 30, 0, true, 30},
	    {1000, 300, 50, true, 1000},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct distance d;

		distance_init(&d, cases[i].configured_km * KM);
		for (int j = 0; j < DISTANCE_FIRST; j++)
			distance_sample(&d, km_ns(cases[i].real_km, cases[i].extra_us));
		if (distance_differs(&d) != cases[i].differs || distance_in_force_m(&d) != cases[i].in_force_km * KM)
			fail_msg("row %zu: differs %d, %llu m", i, distance_differs(&d),
			         (unsigned long long)distance_in_force_m(&d));
	}
}

/* A line that is cut: the figure stays, and says how old it is. */
static void distance__grows_old(void **state)
{
	struct distance d;

	(void)state;
	distance_init(&d, 0);
	distance_sample(&d, 0);
	assert_int_equal(distance_age_ns(&d), 0); /* there is none */
	distance_sample(&d, km_ns(300, 50));
	distance_sample(&d, km_ns(300, 50));
	assert_int_equal(distance_age_ns(&d), 0);
	for (unsigned i = 1; i <= 4; i++) {
		distance_sample(&d, 0);
		assert_int_equal(distance_age_ns(&d), i * 1000000000ull);
		assert_int_equal(distance_stale(&d), i > 3);
	}
	assert_int_equal(distance_measured_m(&d), 305 * KM);
	distance_sample(&d, km_ns(300, 50));
	assert_int_equal(distance_age_ns(&d), 0);
	assert_false(distance_stale(&d));
}

/* Packets that queue on the line are all late, so a queue of 20 ms is 2000 km of fibre within half a minute: whatever
 * notices queues must compare with an older minimum (LongreachQueueOnTheLine compares with the least of a day). */
static void distance__a_standing_queue_looks_like_fibre(void **state)
{
	struct distance d;

	(void)state;
	distance_init(&d, 300 * KM);
	for (int i = 0; i < 60; i++)
		distance_sample(&d, km_ns(300, 0));
	assert_int_equal(d.least_ns, 3000 * US);
	for (uint64_t i = 0; i < 600; i++) {
		distance_sample(&d, km_ns(2200, i * 7919 % 2000)); /* 22 to 24 ms */
		assert_true(i < DISTANCE_SAMPLES || d.least_ns >= 22000 * US);
	}
	assert_true(distance_differs(&d));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(distance__auto_is_1000_km_until_measured),
	    cmocka_unit_test(distance__least_of_ten_samples),
	    cmocka_unit_test(distance__a_longer_way_is_believed_after_five),
	    cmocka_unit_test(distance__a_quiet_pair_says_nothing),
	    cmocka_unit_test(distance__a_shorter_way_is_believed_at_once),
	    cmocka_unit_test(distance__machines_are_no_step),
	    cmocka_unit_test(distance__busy_machines_are_no_news),
	    cmocka_unit_test(distance__a_change_within_the_noise_has_to_last),
	    cmocka_unit_test(distance__creeping_is_noticed),
	    cmocka_unit_test(distance__one_sample_is_no_contradiction),
	    cmocka_unit_test(distance__larger_of_the_two_rules),
	    cmocka_unit_test(distance__grows_old),
	    cmocka_unit_test(distance__a_standing_queue_looks_like_fibre),
	};

	return cmocka_run_group_tests_name("distance", tests, NULL, NULL);
}
