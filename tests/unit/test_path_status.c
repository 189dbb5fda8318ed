/* SPDX-License-Identifier: Apache-2.0 */
/* What is shown of a path has an age: on a line that is cut nothing is measured, and the figures say so. */
#include "core_fixture.h"

#include "daemon/link/link_sum.c"

static bool carries(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	const bool *cut = c->arg;

	(void)from;
	(void)dgram;
	(void)len;
	return !*cut;
}

static struct core *given_a_line(void **state, bool *cut)
{
	struct core *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->now_ns = CORE_START;
	c->wan = carries;
	c->arg = cut;
	core_edges_open(c, ACK_MODE_NEAR, 64, 64);
	*state = c;
	return c;
}

static struct proxy_path_status status_of(const struct core *c)
{
	struct proxy_path_status s;

	assert_true(proxy_path_status(c->a.p, 0, c->now_ns, &s));
	return s;
}

static void path_status__has_no_age_before_anything_was_measured(void **state)
{
	bool cut = false;
	const struct core *c = given_a_line(state, &cut);
	struct proxy_path_status s = status_of(c);

	assert_int_equal(s.rtt_age_ns, 0);
	assert_int_equal(s.loss_age_ns, 0);
	assert_false(path_rtt_stale(&s));
	assert_false(path_loss_stale(&s));
}

static void path_status__grows_old_on_a_line_that_is_cut(void **state)
{
	bool cut = false;
	struct core *c = given_a_line(state, &cut);
	struct proxy_path_status s;

	core_session(c);
	core_pair(c, 0);
	core_wait(c, 1000 * CORE_MS);
	s = status_of(c);
	assert_in_range(s.rtt_age_ns, 1, 1000 * CORE_MS);
	assert_in_range(s.loss_age_ns, 0, 1500 * CORE_MS);
	assert_false(path_loss_stale(&s));
	cut = true;
	core_wait(c, 4000 * CORE_MS);
	s = status_of(c);
	assert_true(s.rtt_age_ns >= 3500 * CORE_MS && path_rtt_stale(&s));
	assert_true(s.loss_age_ns >= 3500 * CORE_MS && path_loss_stale(&s));
	assert_int_equal(s.delivery_bps, 0);
	cut = false;
	core_wait(c, 1000 * CORE_MS);
	s = status_of(c);
	assert_false(path_loss_stale(&s)); /* a round trip that takes no time is not measured */
}

/* The first path by name may be dead, and its last figures stand for ever. */
static void link_status__has_the_round_trip_of_the_fastest_path_in_use(void **state)
{
	bool cut = false;
	struct core *c = given_a_line(state, &cut);
	struct wan *w = c->a.p->wan;
	struct proxy_link_status s;
	static const uint64_t ms_by_usable[] = {3, 3, 30, 3};

	core_session(c);
	w->npaths = 2;
	for (uint32_t i = 0; i < 2; i++)
		w->path[i].rtt = (struct wan_rtt){.samples = 9,
		                                  .smoothed_ns = (i ? 30 : 3) * CORE_MS,
		                                  .min_ns = (i ? 29 : 2) * CORE_MS};
	for (uint32_t usable = 1; usable < 4; usable++) {
		w->paths_usable = usable;
		proxy_link_status(c->a.p, c->now_ns, &s);
		assert_int_equal(s.rtt_smoothed_ns, ms_by_usable[usable] * CORE_MS);
		assert_int_equal(s.rtt_min_ns, (ms_by_usable[usable] - 1) * CORE_MS);
	}
	w->paths_usable = w->npaths = 1;
}

/* Shards see the same path: the latest that any of them knows. */
static void path_status__of_several_shards_is_as_old_as_the_youngest(void **state)
{
	struct proxy_path_status sum = {0}, none = {0}, old = {.loss_age_ns = 5000 * CORE_MS},
	                         young = {.loss_age_ns = 10 * CORE_MS};
	uint32_t rtts = 0;

	(void)state;
	old.stats.acked_bytes = young.stats.acked_bytes = 1;
	link_sum_path(&sum, &none, true, &rtts);
	link_sum_path(&sum, &old, false, &rtts);
	assert_int_equal(sum.loss_age_ns, 5000 * CORE_MS);
	link_sum_path(&sum, &young, false, &rtts);
	assert_int_equal(sum.loss_age_ns, 10 * CORE_MS);
	link_sum_path(&sum, &old, false, &rtts);
	assert_int_equal(sum.loss_age_ns, 10 * CORE_MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(path_status__has_no_age_before_anything_was_measured),
	    CORE_TEST(path_status__grows_old_on_a_line_that_is_cut),
	    CORE_TEST(link_status__has_the_round_trip_of_the_fastest_path_in_use),
	    cmocka_unit_test(path_status__of_several_shards_is_as_old_as_the_youngest),
	};

	return cmocka_run_group_tests_name("path_status", tests, NULL, NULL);
}
