/* SPDX-License-Identifier: Apache-2.0 */
/* Each shard's part of a path's sending time: in proportion to its flows, while nobody goes short of what others leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/wan/cc/pacer_part.h"

#define GBPS 1000000000ull
#define MSEC 1000000ull

enum { SHARDS = 3, PAYLOAD = 8972 - 38, OVERHEAD = 66, BURST_NS = 50000, STEP_NS = 500 };

struct shards {
	struct wan_pacer pacer;
	struct pacer_part part[SHARDS];
	uint32_t flows[SHARDS];
	uint64_t sent[SHARDS];
	uint64_t now_ns;
};

static void shards_begin(struct shards *s, uint32_t a, uint32_t b, uint32_t c)
{
	*s = (struct shards){.flows = {a, b, c}, .now_ns = 1000 * MSEC};
	wan_pacer_init(&s->pacer, 10 * GBPS, OVERHEAD, BURST_NS);
}

/* Shards of the set send as much as they may, until then. */
static void shards_send(struct shards *s, unsigned set, uint64_t for_ns)
{
	uint64_t to_ns = s->now_ns + for_ns;

	for (int i = 0; i < SHARDS; i++)
		s->sent[i] = 0;
	for (; s->now_ns < to_ns; s->now_ns += STEP_NS)
		for (uint32_t i = 0; i < SHARDS; i++) {
			if (!(set & 1u << i))
				continue;
			if (pacer_part_is_old(&s->part[i], s->now_ns))
				pacer_part_tell(&s->part[i], &s->pacer, i, SHARDS, s->flows[i], true, s->now_ns);
			while (pacer_part_ready(&s->part[i], &s->pacer, s->now_ns)) {
				pacer_part_take(&s->part[i], &s->pacer, s->now_ns, PAYLOAD);
				s->sent[i]++;
			}
		}
}

/* The shard has flows and sends nothing. */
static void shard_stands_still(struct shards *s, uint32_t i)
{
	pacer_part_tell(&s->part[i], &s->pacer, i, SHARDS, s->flows[i], false, s->now_ns);
}

/* The line's datagrams in so many ms. */
static uint64_t line(uint64_t ms)
{
	return ms * 10 * GBPS / 1000 / 8 / (PAYLOAD + OVERHEAD);
}

static void near_to(uint64_t is, uint64_t wanted)
{
	assert_in_range(is, wanted * 97 / 100, wanted * 103 / 100 + 1);
}

static void pacer_part__is_in_proportion_to_flows(void **state)
{
	struct shards s;

	(void)state;
	shards_begin(&s, 60, 30, 10);
	shards_send(&s, 7, 20 * MSEC);
	shards_send(&s, 7, 100 * MSEC);
	near_to(s.sent[0], line(60));
	near_to(s.sent[1], line(30));
	near_to(s.sent[2], line(10));
}

/* A shard that says that it wants a part, and then sends nothing, leaves it to the others. */
static void pacer_part__what_nobody_takes_is_lent(void **state)
{
	struct shards s;

	(void)state;
	shards_begin(&s, 1, 1000, 1);
	shards_send(&s, 2, MSEC);
	shards_send(&s, 1, 100 * MSEC);
	near_to(s.sent[0], line(100));
}

/* Two shards, with 30 and 10 flows, beside a third with 1,000 that has told them and sends no more. */
static void two_share_the_line(bool third_says_so)
{
	struct shards s;

	shards_begin(&s, 30, 1000, 10);
	shards_send(&s, 2, MSEC);
	if (third_says_so)
		shard_stands_still(&s, 1);
	shards_send(&s, 5, 20 * MSEC);
	shards_send(&s, 5, 100 * MSEC);
	near_to(s.sent[0], line(75));
	near_to(s.sent[2], line(25));
}

/* Flows of a shard that sends nothing take no part from those that do. */
static void pacer_part__flows_that_can_not_send_do_not_count(void **state)
{
	(void)state;
	two_share_the_line(true);
}

/* It has told its flows and says no more: it has nothing to do, or hangs. */
static void pacer_part__a_shard_that_sleeps_counts_no_longer(void **state)
{
	(void)state;
	two_share_the_line(false);
}

/* At 1 Mbit/s a datagram of one flow in 200 is a debt of 14 s. */
static void pacer_part__a_debt_is_no_more_than_the_line_asks_now(void **state)
{
	struct shards s;

	(void)state;
	shards_begin(&s, 1, 199, 0);
	atomic_store(&s.pacer.rate_bps, GBPS / 1000);
	pacer_part_tell(&s.part[1], &s.pacer, 1, SHARDS, 199, true, s.now_ns);
	shards_send(&s, 1, STEP_NS);
	assert_true(s.part[0].next > (s.now_ns + 10000 * MSEC) * PACER_FRACTION);
	atomic_store(&s.pacer.rate_bps, GBPS / 10);
	pacer_part_tell(&s.part[0], &s.pacer, 0, SHARDS, 1, true, s.now_ns);
	assert_true(s.part[0].next < (s.now_ns + 200 * MSEC) * PACER_FRACTION);
}

/* On a slow line much is saved up: the pacer is left to others for a datagram's time, not for a quarter of that. */
static void pacer_part__a_slow_line_is_left_for_a_datagram(void **state)
{
	struct shards s;
	uint64_t at_ns;

	(void)state;
	shards_begin(&s, 1, 9, 0);
	wan_pacer_set_burst(&s.pacer, 116 * MSEC);
	atomic_store(&s.pacer.rate_bps, GBPS / 100);
	shards_send(&s, 2, STEP_NS);
	shards_send(&s, 1, STEP_NS);
	at_ns = pacer_part_look_ns(&s.part[0], &s.pacer, s.now_ns);
	assert_in_range(at_ns, wan_pacer_next_ns(&s.pacer), wan_pacer_next_ns(&s.pacer) + 10 * MSEC);
}

static void pacer_part__what_was_lent_is_not_held_against_a_shard(void **state)
{
	struct shards s;

	(void)state;
	shards_begin(&s, 1, 9, 0);
	shards_send(&s, 2, MSEC);
	shards_send(&s, 1, 1000 * MSEC);
	shards_send(&s, 3, 10 * MSEC);
	assert_in_range(s.sent[0], line(10) / 20, line(10) / 5);
}

/* Its flows are not counted yet, or it has control to send. */
static void pacer_part__a_shard_without_flows_gets_through(void **state)
{
	struct shards s;

	(void)state;
	shards_begin(&s, 0, 100, 0);
	shards_send(&s, 2, MSEC);
	shards_send(&s, 3, 100 * MSEC);
	assert_in_range(s.sent[0], 10, line(10));
	near_to(s.sent[0] + s.sent[1], line(100));
}

static void pacer_part__is_told_as_a_rate(void **state)
{
	struct shards s;

	(void)state;
	shards_begin(&s, 1, 3, 0);
	assert_int_equal(pacer_part_bps(&s.part[0], 4, 4000), 1000);
	shards_send(&s, 2, STEP_NS);
	shards_send(&s, 5, STEP_NS);
	assert_int_equal(pacer_part_bps(&s.part[0], SHARDS, 4000), 1000);
	assert_int_equal(pacer_part_bps(&s.part[2], SHARDS, 4000), 800); /* as if it had one flow */
}

/* The time at which a shard that has had its part looks again is one at which it may send, if nobody else does. */
static void pacer_part__looks_when_it_may_send(void **state)
{
	struct shards s;
	uint64_t at_ns, turns = 0;

	(void)state;
	shards_begin(&s, 1, 9, 0);
	shards_send(&s, 2, STEP_NS);
	shards_send(&s, 3, MSEC);
	for (int i = 0; i < 100; i++) {
		if (pacer_part_ready(&s.part[0], &s.pacer, s.now_ns))
			pacer_part_take(&s.part[0], &s.pacer, s.now_ns, PAYLOAD);
		at_ns = pacer_part_look_ns(&s.part[0], &s.pacer, s.now_ns);
		assert_in_range(at_ns, s.now_ns, s.now_ns + 2 * BURST_NS);
		turns += at_ns > s.now_ns;
		s.now_ns = at_ns;
		assert_true(pacer_part_ready(&s.part[0], &s.pacer, s.now_ns));
	}
	assert_in_range(turns, 50, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pacer_part__is_in_proportion_to_flows),
	    cmocka_unit_test(pacer_part__what_nobody_takes_is_lent),
	    cmocka_unit_test(pacer_part__flows_that_can_not_send_do_not_count),
	    cmocka_unit_test(pacer_part__a_shard_that_sleeps_counts_no_longer),
	    cmocka_unit_test(pacer_part__a_debt_is_no_more_than_the_line_asks_now),
	    cmocka_unit_test(pacer_part__a_slow_line_is_left_for_a_datagram),
	    cmocka_unit_test(pacer_part__what_was_lent_is_not_held_against_a_shard),
	    cmocka_unit_test(pacer_part__a_shard_without_flows_gets_through),
	    cmocka_unit_test(pacer_part__is_told_as_a_rate),
	    cmocka_unit_test(pacer_part__looks_when_it_may_send),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
