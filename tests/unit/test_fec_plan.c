/* SPDX-License-Identifier: Apache-2.0 */
/* FEC=auto: which groups fit a path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/wan/fec/fec_plan.h"

static const struct fec_config automatic = {.mode = FEC_AUTO};
static const struct fec_line wide = {.block_datagrams = 4000, .rtt_datagrams = 55000, .slack = FEC_SLACK};
static const struct fec_line slow = {.block_datagrams = 11, .rtt_datagrams = 55, .slack = 30 * FEC_SLACK};

static struct fec_measure measured(double loss, double burst)
{
	return (struct fec_measure){.numbers = 200000, .lost = 200000 * loss, .bursts = 200000 * loss / burst};
}

static struct fec_plan plan_at(double loss, double burst, const struct fec_line *line)
{
	struct fec_measure m = measured(loss, burst);
	struct fec_plan p = {0};
	uint64_t changed = 0;

	fec_plan_update(&p, &changed, &automatic, &m, line, 1);
	return p;
}

static double cost(const struct fec_plan *p)
{
	return (double)p->m / p->k;
}

static double left(unsigned k, unsigned m, unsigned depth, double loss, double burst)
{
	return fec_left_over(&(struct fec_plan){.k = (uint8_t)k, .m = (uint8_t)m, .depth = (uint8_t)depth}, loss,
	                     burst);
}

static void assert_near(double v, double want, double share)
{
	if (v < want * (1 - share) || v > want * (1 + share))
		fail_msg("%g is not within %g %% of %g", v, 100 * share, want);
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
	(void)state;
	assert_near(left(99, 1, 1, 0.01, 1), 0.632, 0.002);
	assert_near(left(99, 2, 1, 1 / 101.0, 1), 0.2642, 0.002); /* 1 - e^-1 (1 + 1) */
	assert_near(left(240, 12, 1, 0.01, 1), 1.4e-5, 0.05);     /* by a sum over Poisson's terms */
	assert_true(left(64, 4, 1, 0, 1) == 0);
}

static uint32_t draw(void)
{
	static uint64_t x = 1;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 33);
}

static bool chance(double p)
{
	return draw() < p * 2147483648.0;
}

/* Groups on a line that loses all in its bad state: geometric bursts. */
static double lost_beyond(const struct fec_plan *p, double loss, double burst, unsigned blocks)
{
	unsigned n[FEC_DEPTH_MAX], span = ((unsigned)p->k + p->m) * p->depth;
	double lost = 0, beyond = 0;
	bool bad = false;

	while (blocks--) {
		memset(n, 0, sizeof(n));
		for (unsigned i = 0; i < span; i++) {
			bad = bad ? !chance(1 / burst) : chance(loss / (1 - loss) / burst);
			n[i % p->depth] += bad;
		}
		for (unsigned g = 0; g < p->depth; g++) {
			lost += n[g];
			beyond += n[g] > p->m ? n[g] : 0;
		}
	}
	return beyond / lost;
}

static void fec_left_over__bursts(void **state)
{
	static const struct fec_plan plans[] = {{64, 4, 1},   {64, 4, 8},  {64, 4, 16},
	                                        {120, 8, 12}, {16, 2, 32}, {240, 8, 16}};

	(void)state;
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		double v = fec_left_over(&plans[i], 0.01, 8);
		double is = lost_beyond(&plans[i], 0.01, 8, 20000000u / ((unsigned)plans[i].k * plans[i].depth));

		if (v < 0.8 * is || v > 1.7 * is) /* a line like that leaves a gap between bursts: somewhat fewer */
			fail_msg("%u+%u x %u: %g, and %g on the line", plans[i].k, plans[i].m, plans[i].depth, v, is);
	}
}

static void fec_plan__off_while_little_is_lost(void **state)
{
	(void)state;
	assert_int_equal(plan_at(0, 1, &wide).k, 0);
	assert_int_equal(plan_at(0.00001, 1, &wide).k, 0);
	assert_int_not_equal(plan_at(0.0001, 1, &wide).k, 0);
}

/* Nothing is spent on a line that has lost nothing. After the first loss more are expected; when none come, FEC goes. */
static void fec_plan__the_first_loss_switches_it_on(void **state)
{
	static const struct fec_line *const lines[] = {&wide, &slow};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct fec_measure m = {0};
		struct fec_plan p = {0};
		uint64_t changed = 0, now = 1;

		fec_plan_update(&p, &changed, &automatic, &m, lines[i], now);
		assert_int_equal(p.k, 0);
		fec_measure_add(&m, 1000, 1, 1);
		fec_plan_update(&p, &changed, &automatic, &m, lines[i], now);
		assert_int_not_equal(p.k, 0);
		assert_true(fec_left_over(&p, 0.001, 1) <= FEC_LEFT_MOST && cost(&p) <= 0.25);
		fec_measure_add(&m, 20000, 0, 0);
		fec_plan_update(&p, &changed, &automatic, &m, lines[i], now += FEC_HOLD_NS);
		assert_int_not_equal(p.k, 0);
		fec_measure_add(&m, 240000, 0, 0);
		fec_plan_update(&p, &changed, &automatic, &m, lines[i], now += FEC_HOLD_NS);
		assert_int_equal(p.k, 0);
	}
}

static void fec_plan__more_loss_more_repairs(void **state)
{
	static const double loss[] = {0.0001, 0.001, 0.003, 0.01, 0.03, 0.1};
	double before = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(loss) / sizeof(loss[0]); i++) {
		struct fec_plan p = plan_at(loss[i], 1, &wide);

		assert_true(p.k >= 8 && p.m >= 1 && p.m <= FEC_M_MAX && p.depth == 1);
		assert_true(cost(&p) >= before);
		assert_true(fec_left_over(&p, loss[i], 1) <= FEC_LEFT_FEW);
		before = cost(&p);
	}
	assert_true(before > 0.1 && before < 1);
}

/* A line with room gets what makes up for nearly all losses, and never more than there is room for. */
static void fec_plan__as_much_as_there_is_room(void **state)
{
	static const double bursts[] = {1, 8};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct fec_line line = wide;
		struct fec_plan idle = plan_at(0.01, bursts[i], &line), p;

		assert_true(fec_left_over(&idle, 0.01, bursts[i]) <= FEC_LEFT_FEW && cost(&idle) < 0.065);
		for (line.load = 0.5; line.load < 0.99; line.load += 0.01) {
			p = plan_at(0.01, bursts[i], &line);
			assert_true(!p.k || line.load * (1 + cost(&p)) <= fec_load_most(&line));
			assert_true(line.load > 0.955 ||
			            (p.k && fec_left_over(&p, 0.01, bursts[i]) <= FEC_LEFT_MOST));
		}
	}
}

/* Groups that take turns are cheaper than more repairs, as far as a block may go. */
static void fec_plan__bursts_make_depth(void **state)
{
	struct fec_line narrow = {.block_datagrams = 300, .rtt_datagrams = 3600};
	struct fec_plan p = plan_at(0.01, 8, &wide), n = plan_at(0.01, 8, &narrow);

	(void)state;
	assert_int_equal(plan_at(0.01, 1, &wide).depth, 1);
	assert_true(p.depth >= 12 && cost(&p) < 0.065);
	assert_true(left(p.k, p.m, 4, 0.01, 8) > 100 * FEC_LEFT_FEW);
	assert_true(n.depth > 1 && n.k * n.depth <= 300 && cost(&n) > 3 * cost(&p));
	assert_true(plan_at(0.01, 100, &wide).depth == FEC_DEPTH_MAX);
}

/* A block that fills for longer saves little. */
static void fec_plan__slow_line_small_groups(void **state)
{
	struct fec_line slower = {.block_datagrams = 4, .rtt_datagrams = 5};
	struct fec_line slowest = {.block_datagrams = 3, .rtt_datagrams = 5};
	struct fec_plan p = plan_at(0.01, 1, &slow);

	(void)state;
	assert_true(p.k >= 8 && p.k * p.depth <= 11);
	assert_true(fec_left_over(&p, 0.01, 1) <= FEC_LEFT_RTT / (0.01 * slow.rtt_datagrams));
	p = plan_at(0.01, 1, &slower);
	assert_true(p.k == 4 && p.m <= 2);
	assert_int_equal(plan_at(0.01, 1, &slowest).k, 0);
}

/* Where a round trip is over before a block is full, repetition is as quick; a plan for a line that was taken for a
 * longer one ends at once, not after FEC_HOLD_NS. */
static void fec_plan__short_line_none(void **state)
{
	struct fec_measure m = {.numbers = 100000, .lost = 1000, .bursts = 1000};
	struct fec_line line = slow;
	struct fec_plan p = {0};
	uint64_t changed = 0;

	(void)state;
	line.rtt_datagrams = 4;
	fec_plan_update(&p, &changed, &automatic, &m, &line, 1);
	assert_int_equal(p.k, 0);
	line.rtt_datagrams = 5;
	fec_plan_update(&p, &changed, &automatic, &m, &line, 2);
	assert_int_not_equal(p.k, 0);
	line.rtt_datagrams = 4; /* a little less than it was: that is how it is measured */
	fec_plan_update(&p, &changed, &automatic, &m, &line, 3);
	assert_int_not_equal(p.k, 0);
	line.rtt_datagrams = 3;
	fec_plan_update(&p, &changed, &automatic, &m, &line, 4);
	assert_int_equal(p.k, 0);
}

/* What comes behind a block waits until its repairs are out. */
static void fec_plan__a_message_does_not_wait_long_for_repairs(void **state)
{
	struct fec_line line = slow;

	(void)state;
	for (line.rtt_datagrams = 20; line.rtt_datagrams < 2000; line.rtt_datagrams *= 2) {
		for (double burst = 1; burst < 10; burst++) {
			struct fec_plan p = plan_at(0.02, burst, &line);

			assert_true(p.m * p.depth <= 2 || p.m * p.depth <= line.rtt_datagrams / 5);
		}
	}
}

/* Depth for bursts that nobody has seen would cost a slow line more than all that is lost. */
static void fec_plan__bursts_nobody_has_seen(void **state)
{
	struct fec_measure m = {0};
	struct fec_plan p = {0};
	uint64_t changed = 0;

	(void)state;
	fec_measure_add(&m, 1000, 1, 1);
	fec_plan_update(&p, &changed, &automatic, &m, &wide, 1);
	assert_true(p.depth > 4);
	p = (struct fec_plan){0};
	fec_plan_update(&p, &changed, &automatic, &m, &slow, 1);
	assert_int_equal(p.depth, 1);
}

/* Half of the rate for 1 % of losses would be too much, and for bursts longer than a block of no use. */
static void fec_plan__costs_no_more_than_it_is_worth(void **state)
{
	struct fec_line line = {.block_datagrams = 40, .rtt_datagrams = 600, .load = 0.9};
	struct fec_plan p;

	(void)state;
	assert_int_equal(plan_at(0.01, 30, &line).k, 0);
	assert_int_not_equal(plan_at(0.01, 1, &line).k, 0);
	line.block_datagrams = 300;
	p = plan_at(0.01, 8, &line);
	assert_true(p.k && 0.9 * (1 + cost(&p)) <= 1);
}

static void fec_plan__hysteresis(void **state)
{
	struct fec_plan p = {0}, before;
	uint64_t changed = 0, now = 1;
	struct fec_measure m = measured(0.01, 1);
	struct fec_line line = wide;

	(void)state;
	line.load = 0.94;
	fec_plan_update(&p, &changed, &automatic, &m, &line, now);
	before = p;
	for (int i = 0; i < 100; i++) { /* what wavers changes nothing */
		m = measured(i % 2 ? 0.0095 : 0.0103, i % 3 ? 1 : 1.03);
		line.load = i % 5 ? 0.941 : 0.938;
		now += FEC_HOLD_NS;
		fec_plan_update(&p, &changed, &automatic, &m, &line, now);
	}
	assert_memory_equal(&p, &before, sizeof(p));
	m = measured(0.03, 1); /* more: at once */
	line.load = 0.5;
	fec_plan_update(&p, &changed, &automatic, &m, &line, ++now);
	assert_true(p.m * before.k > before.m * p.k);
	before = p;
	m = measured(0.001, 1); /* less: later */
	fec_plan_update(&p, &changed, &automatic, &m, &line, ++now);
	assert_memory_equal(&p, &before, sizeof(p));
	now += FEC_HOLD_NS;
	fec_plan_update(&p, &changed, &automatic, &m, &line, now);
	assert_true(p.k && p.m * before.k < before.m * p.k);
	m = measured(0.00001, 1); /* above half of what switches it on */
	now += FEC_HOLD_NS;
	fec_plan_update(&p, &changed, &automatic, &m, &line, now);
	assert_int_not_equal(p.k, 0);
	m = measured(0, 1);
	now += FEC_HOLD_NS;
	fec_plan_update(&p, &changed, &automatic, &m, &line, now);
	assert_int_equal(p.k, 0);
}

/* Where data wait for repairs, less comes at once. */
static void fec_plan__a_line_that_fills_up(void **state)
{
	struct fec_measure m = measured(0.01, 8);
	struct fec_line line = wide;
	struct fec_plan p = {0}, before;
	uint64_t changed = 0;

	(void)state;
	fec_plan_update(&p, &changed, &automatic, &m, &line, 1);
	before = p;
	line.load = 0.95;
	line.full = 1;
	fec_plan_update(&p, &changed, &automatic, &m, &line, 2);
	assert_true(cost(&p) < cost(&before) && fec_left_over(&p, 0.01, 8) <= FEC_LEFT_MOST);
	line.full = 0;
	line.load = 0.5;
	fec_plan_update(&p, &changed, &automatic, &m, &line, 3);
	assert_true(fec_left_over(&p, 0.01, 8) <= FEC_LEFT_FEW);
}

/* One that stays full has none in the end: repetition costs it the losses, and groups several times as much. It goes in
 * steps, for often what makes it full is over soon. */
static void fec_plan__a_line_that_stays_full(void **state)
{
	struct fec_measure m = measured(0.01, 1);
	struct fec_line line = wide;
	struct fec_plan p = {0};
	uint64_t changed = 0;
	double sum = 0;

	(void)state;
	fec_plan_update(&p, &changed, &automatic, &m, &line, 1);
	line.load = 0.95;
	for (line.full = 1; line.full <= 100; line.full++) {
		fec_plan_update(&p, &changed, &automatic, &m, &line, 1 + line.full);
		assert_true(line.full > 30 || fec_left_over(&p, 0.01, 1) <= 2 * FEC_LEFT_MOST);
		sum += p.k ? cost(&p) : 0;
	}
	assert_int_equal(p.k, 0);
	assert_true(sum < 2); /* looks: of 10 ms each at 1000 km */
	fec_plan_update(&p, &changed, &automatic, &m, &line, 200);
	assert_int_equal(p.k, 0);
}

/* A slow line has none at once: what is known of its load says nothing of steps. */
static void fec_plan__a_slow_line_that_fills_up(void **state)
{
	struct fec_measure m = measured(0.01, 1);
	struct fec_line line = slow;
	struct fec_plan p = {0};
	uint64_t changed = 0;

	(void)state;
	fec_plan_update(&p, &changed, &automatic, &m, &line, 1);
	assert_int_not_equal(p.k, 0);
	line.full = 1;
	fec_plan_update(&p, &changed, &automatic, &m, &line, 2);
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
	m = measured(0.01, 8);
	fec_plan_update(&p, &changed, &c, &m, &wide, 2);
	assert_true(p.k == 10 && p.m == 3 && p.depth >= 24);
	m = measured(0.01, 1);
	fec_plan_update(&p, &changed, &c, &m, &wide, 3);
	assert_true(p.depth >= 24);
	fec_plan_update(&p, &changed, &c, &m, &wide, 3 + FEC_HOLD_NS);
	assert_int_equal(p.depth, 1);
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
	    cmocka_unit_test(fec_plan__the_first_loss_switches_it_on),
	    cmocka_unit_test(fec_plan__more_loss_more_repairs),
	    cmocka_unit_test(fec_left_over__bursts),
	    cmocka_unit_test(fec_plan__as_much_as_there_is_room),
	    cmocka_unit_test(fec_plan__costs_no_more_than_it_is_worth),
	    cmocka_unit_test(fec_plan__a_line_that_fills_up),
	    cmocka_unit_test(fec_plan__a_line_that_stays_full),
	    cmocka_unit_test(fec_plan__a_slow_line_that_fills_up),
	    cmocka_unit_test(fec_plan__a_message_does_not_wait_long_for_repairs),
	    cmocka_unit_test(fec_plan__bursts_nobody_has_seen),
	    cmocka_unit_test(fec_plan__bursts_make_depth),
	    cmocka_unit_test(fec_plan__slow_line_small_groups),
	    cmocka_unit_test(fec_plan__short_line_none),
	    cmocka_unit_test(fec_plan__hysteresis),
	    cmocka_unit_test(fec_plan__fixed_keeps_its_numbers),
	    cmocka_unit_test(fec_plan__off_is_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
