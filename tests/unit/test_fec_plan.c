/* SPDX-License-Identifier: Apache-2.0 */
/* FEC=auto: which groups fit a path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/fec_plan.h"

static const struct fec_config automatic = {.mode = FEC_AUTO};
static const struct fec_line wide = {.quarter_rtt_datagrams = 10000};

static struct fec_measure measured(double loss, double burst)
{
	struct fec_measure m = {0};

	fec_measure_add(&m, 200000, (uint64_t)(200000 * loss), (uint64_t)(200000 * loss / burst));
	return m;
}

static struct fec_plan plan_at(double loss, double burst, const struct fec_line *line)
{
	struct fec_measure m = measured(loss, burst);
	struct fec_plan p = {0};
	uint64_t changed = 0;

	fec_plan_update(&p, &changed, &automatic, &m, line, 1);
	return p;
}

static void fec_measure__old_losses_fade(void **state)
{
	struct fec_measure m = measured(0.01, 8);

	(void)state;
	assert_true(fec_measure_loss(&m) > 0.0099 && fec_measure_loss(&m) < 0.0101);
	assert_true(fec_measure_burst(&m) > 7.9 && fec_measure_burst(&m) < 8.1);
	for (int i = 0; i < 20; i++)
		fec_measure_add(&m, 100000, 0, 0);
	assert_true(fec_measure_loss(&m) < 0.00002);
}

static void fec_measure__nothing_is_no_loss(void **state)
{
	struct fec_measure m = {0};

	(void)state;
	assert_true(fec_measure_loss(&m) == 0 && fec_measure_burst(&m) == FEC_BURST_UNKNOWN);
	fec_measure_add(&m, 20000, 3, 3);
	assert_true(fec_measure_burst(&m) == 1);
}

/* Against sums worked out by hand: mean 1, 1 repair: losses in groups with 2 or more, 1 - e^-1 (1 x 1) = 0.632. */
static void fec_left_over__known_values(void **state)
{
	double v = fec_left_over(99, 1, 0.01);

	(void)state;
	assert_true(v > 0.630 && v < 0.634);
	assert_true(fec_left_over(64, 4, 0.01) > 0.004 && fec_left_over(64, 4, 0.01) < 0.007);
	assert_true(fec_left_over(64, 4, 0) == 0);
}

static void fec_plan__off_while_little_is_lost(void **state)
{
	(void)state;
	assert_int_equal(plan_at(0, 1, &wide).k, 0);
	assert_int_equal(plan_at(0.00003, 1, &wide).k, 0);
	assert_int_not_equal(plan_at(0.0001, 1, &wide).k, 0);
}

static void fec_plan__more_loss_more_repairs(void **state)
{
	static const double loss[] = {0.0001, 0.001, 0.003, 0.01, 0.03, 0.1};
	double before = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(loss) / sizeof(loss[0]); i++) {
		struct fec_plan p = plan_at(loss[i], 1, &wide);
		double share = (double)p.m / p.k;

		assert_true(p.k >= 8 && p.m >= 1 && p.m <= FEC_M_MAX && p.depth == 1);
		assert_true(share >= before);
		if (loss[i] <= 0.03)
			assert_true(fec_left_over(p.k, p.m, loss[i]) <= FEC_LEFT);
		before = share;
	}
	assert_true(before > 0.1 && before < 1);
}

static void fec_plan__bursts_make_depth(void **state)
{
	(void)state;
	assert_int_equal(plan_at(0.01, 1, &wide).depth, 1);
	assert_int_equal(plan_at(0.01, 8, &wide).depth, 32);
	assert_true(plan_at(0.01, 3, &wide).depth >= 9);
	assert_int_equal(plan_at(0.01, 500, &wide).depth, FEC_DEPTH_MAX);
}

/* A group that fills for longer than a quarter of a round trip saves little. */
static void fec_plan__slow_line_small_groups(void **state)
{
	struct fec_line slow = {.quarter_rtt_datagrams = 20}, slower = {.quarter_rtt_datagrams = 3};
	struct fec_plan p = plan_at(0.01, 8, &slow);

	(void)state;
	assert_true(p.k >= 8 && p.k * p.depth <= 20);
	assert_int_equal(plan_at(0.01, 8, &slower).k, 0);
}

static void fec_plan__hysteresis(void **state)
{
	struct fec_plan p = {0}, before;
	uint64_t changed = 0, now = 1;
	struct fec_measure m = measured(0.01, 1);

	(void)state;
	fec_plan_update(&p, &changed, &automatic, &m, &wide, now);
	before = p;
	for (int i = 0; i < 100; i++) { /* a rate that wavers changes nothing */
		m = measured(i % 2 ? 0.0095 : 0.0102, 1);
		now += FEC_HOLD_NS;
		fec_plan_update(&p, &changed, &automatic, &m, &wide, now);
	}
	assert_memory_equal(&p, &before, sizeof(p));
	m = measured(0.03, 1); /* more: at once */
	fec_plan_update(&p, &changed, &automatic, &m, &wide, ++now);
	assert_true(p.m * before.k > before.m * p.k);
	before = p;
	m = measured(0.001, 1); /* less: later */
	fec_plan_update(&p, &changed, &automatic, &m, &wide, ++now);
	assert_memory_equal(&p, &before, sizeof(p));
	now += FEC_HOLD_NS;
	fec_plan_update(&p, &changed, &automatic, &m, &wide, now);
	assert_true(p.k && p.m * before.k < before.m * p.k);
	m = measured(0.00003, 1); /* above half of what switches it on */
	now += FEC_HOLD_NS;
	fec_plan_update(&p, &changed, &automatic, &m, &wide, now);
	assert_int_not_equal(p.k, 0);
	m = measured(0.00001, 1);
	now += FEC_HOLD_NS;
	fec_plan_update(&p, &changed, &automatic, &m, &wide, now);
	assert_int_equal(p.k, 0);
}

static void fec_plan__fixed_keeps_its_numbers(void **state)
{
	const struct fec_config c = {.mode = FEC_FIXED, .k = 10, .m = 3};
	struct fec_measure m = measured(0, 1);
	struct fec_plan p = {0};
	uint64_t changed = 0;

	(void)state;
	fec_plan_update(&p, &changed, &c, &m, &wide, 1);
	assert_true(p.k == 10 && p.m == 3 && p.depth == 1);
	m = measured(0.05, 8);
	fec_plan_update(&p, &changed, &c, &m, &wide, 2);
	assert_true(p.k == 10 && p.m == 3 && p.depth == 32);
	m = measured(0.05, 1);
	fec_plan_update(&p, &changed, &c, &m, &wide, 3);
	assert_int_equal(p.depth, 32);
	fec_plan_update(&p, &changed, &c, &m, &wide, 3 + FEC_HOLD_NS);
	assert_true(p.depth < 32);
}

static void fec_plan__off_is_off(void **state)
{
	const struct fec_config c = {.mode = FEC_OFF};
	struct fec_measure m = measured(0.05, 8);
	struct fec_plan p = {.k = 3, .m = 1, .depth = 1};
	uint64_t changed = 0;

	(void)state;
	fec_plan_update(&p, &changed, &c, &m, &wide, 1);
	assert_int_equal(p.k, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fec_measure__old_losses_fade),
	    cmocka_unit_test(fec_measure__nothing_is_no_loss),
	    cmocka_unit_test(fec_left_over__known_values),
	    cmocka_unit_test(fec_plan__off_while_little_is_lost),
	    cmocka_unit_test(fec_plan__more_loss_more_repairs),
	    cmocka_unit_test(fec_plan__bursts_make_depth),
	    cmocka_unit_test(fec_plan__slow_line_small_groups),
	    cmocka_unit_test(fec_plan__hysteresis),
	    cmocka_unit_test(fec_plan__fixed_keeps_its_numbers),
	    cmocka_unit_test(fec_plan__off_is_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
