/* SPDX-License-Identifier: Apache-2.0 */
/* Where a worker's time goes: turns, and laps between stages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/util/ticks.h"

static uint64_t now_ticks;

/* The test's time. */
#define ticks_now() now_ticks
#include "daemon/worker/stage_cost.c"

static struct stage_meter meter;

static int setup(void **state)
{
	(void)state;
	now_ticks = 1000000;
	stage_meter_start(&meter, 5000);
	return 0;
}

static void in_stage(enum stage s, uint64_t ticks, unsigned packets)
{
	enum stage was = stage_enter(&meter, s);

	now_ticks += ticks;
	for (unsigned i = 0; i < packets; i++)
		stage_packet(&meter, s);
	stage_enter(&meter, was);
}

/* A turn of 100 ticks: 20 + 30 around a port's callbacks of 10 each, 40 in no stage. */
static void turn(bool worked)
{
	stage_turn_begin(&meter);
	now_ticks += 15;
	stage_enter(&meter, STAGE_LAN_RECEIVE);
	now_ticks += 20;
	in_stage(STAGE_LAN_TAKE, 10, 1);
	now_ticks += 20;
	in_stage(STAGE_LAN_TAKE, 10, 1);
	stage_enter(&meter, STAGE_REST);
	now_ticks += 25;
	stage_turn_end(&meter, worked);
}

static struct stage_costs costs(void)
{
	struct stage_costs c;

	stage_meter_read(&meter, 5000 + (now_ticks - 1000000) / 2, &c); /* two ticks a nanosecond */
	return c;
}

static void costs__of_one_turn_in_so_many(void **state)
{
	struct stage_costs c;

	(void)state;
	for (unsigned i = 0; i < STAGE_EVERY * 3; i++)
		turn(true);
	c = costs();
	assert_int_equal(c.turns, STAGE_EVERY * 3);
	assert_int_equal(c.busy_turns, STAGE_EVERY * 3);
	assert_int_equal(c.busy_ticks, 100 * STAGE_EVERY * 3);
	assert_int_equal(c.sampled_turns, 3);
	assert_int_equal(c.sampled_ticks, 300);
	assert_int_equal(c.ticks[STAGE_LAN_RECEIVE], 3 * 40);
	assert_int_equal(c.ticks[STAGE_LAN_TAKE], 3 * 20);
	assert_int_equal(c.ticks[STAGE_REST], 3 * 40);
	assert_int_equal(c.packets[STAGE_LAN_TAKE], 3 * 2);
	assert_true(stage_ns(&c, c.busy_ticks) > 49.9 * STAGE_EVERY * 3 && stage_ns(&c, c.busy_ticks) < 50.1 * STAGE_EVERY * 3);
}

/* A worker that polls is not busy: such a turn is no load, in the sample or not. */
static void costs__turns_that_did_nothing_are_no_load(void **state)
{
	struct stage_costs c;

	(void)state;
	for (unsigned i = 0; i < STAGE_EVERY * 2; i++)
		turn(false);
	c = costs();
	assert_int_equal(c.turns, STAGE_EVERY * 2);
	assert_int_equal(c.busy_turns, 0);
	assert_int_equal(c.busy_ticks, 0);
	assert_int_equal(c.sampled_turns, 0);
	for (unsigned s = 0; s < STAGE_COUNT; s++)
		assert_int_equal(c.ticks[s] + c.packets[s], 0);
	turn(true); /* sampled */
	c = costs();
	assert_int_equal(c.sampled_ticks, 100);
	assert_int_equal(c.packets[STAGE_LAN_TAKE], 2);
}

/* The other processor's counter is a little behind. */
static void costs__time_that_goes_back_counts_as_none(void **state)
{
	struct stage_costs c;

	(void)state;
	stage_turn_begin(&meter);
	stage_enter(&meter, STAGE_WAN_SEND);
	now_ticks -= 50;
	stage_enter(&meter, STAGE_REST);
	stage_turn_end(&meter, true);
	c = costs();
	assert_int_equal(c.busy_ticks, 0);
	assert_int_equal(c.ticks[STAGE_WAN_SEND], 0);
}

static void stages__which_count_packets(void **state)
{
	enum stage of;

	(void)state;
	assert_true(stage_has_packets(STAGE_LAN_RECEIVE, &of) && of == STAGE_LAN_TAKE);
	assert_true(stage_has_packets(STAGE_LAN_SEND, &of) && of == STAGE_LAN_BUILD);
	assert_false(stage_has_packets(STAGE_TIMERS, &of));
	assert_false(stage_has_packets(STAGE_REST, &of));
	assert_string_equal(stage_name(STAGE_WAN_BUILD), "wan_build");
	assert_string_equal(stage_name(STAGE_COUNT), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(costs__of_one_turn_in_so_many, setup),
	    cmocka_unit_test_setup(costs__turns_that_did_nothing_are_no_load, setup),
	    cmocka_unit_test_setup(costs__time_that_goes_back_counts_as_none, setup),
	    cmocka_unit_test(stages__which_count_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
