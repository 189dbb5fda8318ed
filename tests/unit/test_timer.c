/* SPDX-License-Identifier: Apache-2.0 */
/* Timers against a list that is searched from end to end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/util/timer.h"

enum { TIMERS = 300, STEPS = 200000 };

struct bench {
	struct timer_heap h;
	struct timer *place[TIMERS];
	struct timer t[TIMERS];
	uint64_t want[TIMERS]; /* the model; TIMER_NEVER: not armed */
	uint64_t now;
	uint64_t seed;
};

static uint32_t rnd(struct bench *b, uint32_t n)
{
	b->seed = b->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(b->seed >> 33) % n;
}

static void setup(struct bench *b, uint64_t seed)
{
	memset(b, 0, sizeof(*b));
	b->seed = seed;
	timer_heap_init(&b->h, b->place, TIMERS);
	for (uint32_t i = 0; i < TIMERS; i++) {
		timer_init(&b->t[i], (uint8_t)(i % 7), i);
		b->want[i] = TIMER_NEVER;
	}
}

static uint64_t seed_of_run(void)
{
	const char *env = getenv("SEED");

	return env ? strtoull(env, NULL, 0) : 1;
}

static uint64_t model_next(const struct bench *b)
{
	uint64_t next = TIMER_NEVER;

	for (uint32_t i = 0; i < TIMERS; i++)
		if (b->want[i] < next)
			next = b->want[i];
	return next;
}

/* Every armed timer knows its place, none wakes before its parent. */
static void check(const struct bench *b)
{
	uint32_t armed = 0;

	for (uint32_t i = 0; i < TIMERS; i++) {
		assert_int_equal(timer_armed(&b->t[i]), b->want[i] != TIMER_NEVER);
		if (!timer_armed(&b->t[i]))
			continue;
		armed++;
		assert_int_equal(b->t[i].when_ns, b->want[i]);
		assert_ptr_equal(b->place[b->t[i].heap_pos], &b->t[i]);
		assert_int_equal(b->t[i].owner, i);
		assert_int_equal(b->t[i].kind, i % 7);
	}
	assert_int_equal(b->h.n, armed);
	assert_int_equal(timer_next(&b->h), model_next(b));
}

static void pop_one(struct bench *b)
{
	uint64_t next = model_next(b);
	struct timer *t = timer_pop(&b->h, b->now);

	if (next > b->now) {
		assert_null(t);
		return;
	}
	assert_non_null(t);
	assert_false(timer_armed(t));
	assert_int_equal(t->when_ns, next);
	assert_int_equal(b->want[t->owner], next);
	b->want[t->owner] = TIMER_NEVER;
}

static void step(struct bench *b)
{
	uint32_t i = rnd(b, TIMERS);
	uint64_t when = b->now + rnd(b, 50); /* few values: many equal deadlines */

	switch (rnd(b, 6)) {
	case 0:
	case 1:
		timer_set(&b->h, &b->t[i], when);
		b->want[i] = when;
		break;
	case 2:
		timer_set_earlier(&b->h, &b->t[i], when);
		if (when < b->want[i])
			b->want[i] = when;
		break;
	case 3:
		timer_cancel(&b->h, &b->t[i]);
		b->want[i] = TIMER_NEVER;
		break;
	case 4:
		b->now += rnd(b, 4);
		break;
	default:
		pop_one(b);
	}
}

static void timers__random_against_a_list(void **state)
{
	(void)state;
	static struct bench b;

	setup(&b, seed_of_run());
	for (uint32_t i = 0; i < STEPS; i++) {
		step(&b);
		if (i % 16 == 0)
			check(&b);
	}
	b.now = TIMER_NEVER - 1;
	while (b.h.n)
		pop_one(&b);
	check(&b);
}

static void pop__in_order_of_deadlines(void **state)
{
	(void)state;
	static struct bench b;
	uint64_t last = 0;
	struct timer *t;

	setup(&b, 5);
	for (uint32_t i = 0; i < TIMERS; i++)
		timer_set(&b.h, &b.t[i], rnd(&b, 1000));
	assert_int_equal(b.h.n, b.h.cap);
	while ((t = timer_pop(&b.h, 1000))) {
		assert_true(t->when_ns >= last);
		last = t->when_ns;
	}
	assert_int_equal(b.h.n, 0);
}

static void pop__not_before_its_time(void **state)
{
	(void)state;
	static struct bench b;

	setup(&b, 1);
	assert_null(timer_pop(&b.h, TIMER_NEVER));
	assert_int_equal(timer_next(&b.h), TIMER_NEVER);
	timer_set(&b.h, &b.t[4], 100);
	assert_null(timer_pop(&b.h, 99));
	assert_true(timer_armed(&b.t[4]));
	assert_ptr_equal(timer_pop(&b.h, 100), &b.t[4]);
	assert_false(timer_armed(&b.t[4]));
	assert_null(timer_pop(&b.h, 200));
}

static void set__moves_both_ways(void **state)
{
	(void)state;
	static struct bench b;

	setup(&b, 1);
	for (uint32_t i = 0; i < 10; i++)
		timer_set(&b.h, &b.t[i], 100 + i);
	timer_set(&b.h, &b.t[9], 50);
	assert_int_equal(timer_next(&b.h), 50);
	timer_set(&b.h, &b.t[9], 500);
	assert_int_equal(timer_next(&b.h), 100);
	timer_set_earlier(&b.h, &b.t[9], 600);
	assert_int_equal(b.t[9].when_ns, 500);
	timer_set_earlier(&b.h, &b.t[9], 10);
	assert_ptr_equal(timer_pop(&b.h, 10), &b.t[9]);
	timer_set_earlier(&b.h, &b.t[9], 700);
	assert_int_equal(b.t[9].when_ns, 700);
	assert_int_equal(b.h.n, 10);
}

static void cancel__of_an_idle_timer_does_nothing(void **state)
{
	(void)state;
	static struct bench b;

	setup(&b, 1);
	timer_set(&b.h, &b.t[0], 1);
	timer_cancel(&b.h, &b.t[1]);
	assert_int_equal(b.h.n, 1);
	timer_cancel(&b.h, &b.t[0]);
	timer_cancel(&b.h, &b.t[0]);
	assert_int_equal(b.h.n, 0);
	assert_int_equal(timer_next(&b.h), TIMER_NEVER);
}

/* The same calls give the same order, equal deadlines too: simulations repeat. */
static void pop__repeats_exactly(void **state)
{
	(void)state;
	static struct bench a, b;

	setup(&a, 9);
	setup(&b, 9);
	for (uint32_t i = 0; i < TIMERS; i++) {
		timer_set(&a.h, &a.t[i], rnd(&a, 5));
		timer_set(&b.h, &b.t[i], rnd(&b, 5));
	}
	while (a.h.n)
		assert_int_equal(timer_pop(&a.h, 5)->owner, timer_pop(&b.h, 5)->owner);
	assert_null(timer_pop(&b.h, 5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(timers__random_against_a_list),
	    cmocka_unit_test(pop__in_order_of_deadlines),
	    cmocka_unit_test(pop__not_before_its_time),
	    cmocka_unit_test(set__moves_both_ways),
	    cmocka_unit_test(cancel__of_an_idle_timer_does_nothing),
	    cmocka_unit_test(pop__repeats_exactly),
	};

	return cmocka_run_group_tests_name("timer", tests, NULL, NULL);
}
