/* SPDX-License-Identifier: Apache-2.0 */
/* Sending time: never more than the rate over any stretch but the burst, whoever shares it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "proxy/wan_pacer.h"

#define GBPS 1000000000ull

enum { OVERHEAD = 66, PAYLOAD = 8972 - 38, WIRE = OVERHEAD + PAYLOAD };

/* Datagrams that one eager sender gets out in [from, to). */
static uint64_t drain(struct wan_pacer *p, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t n = 0;

	for (uint64_t t = from_ns; t<to_ns; t = wan_pacer_next_ns(p)> t ? wan_pacer_next_ns(p) : t + 1) {
		if (!wan_pacer_ready(p, t))
			continue;
		wan_pacer_take(p, t, PAYLOAD);
		n++;
	}
	return n;
}

static void wan_pacer__keeps_the_rate(void **state)
{
	struct wan_pacer p;
	uint64_t n;

	(void)state;
	wan_pacer_init(&p, 10 * GBPS, OVERHEAD, 0);
	n = drain(&p, 1000, 1000 + 10000000);
	assert_in_range(n * WIRE * 8, 99900000, 100100000); /* 10 ms of 10 Gbit/s, a datagram more or less */
}

/* A datagram lasts 180.76 ns: in whole nanoseconds this would be 0.4 % too fast. */
static void wan_pacer__keeps_fast_rates(void **state)
{
	struct wan_pacer p;
	uint64_t n;

	(void)state;
	wan_pacer_init(&p, 400 * GBPS, OVERHEAD, 2000);
	n = drain(&p, 1000000, 1000000 + 10000000);
	assert_in_range(n * WIRE * 8, 3996000000ull, 4002000000ull); /* 10 ms, and the burst */
}

static void wan_pacer__burst_is_bounded(void **state)
{
	struct wan_pacer p;
	uint64_t t = 1000000000, n = 0;

	(void)state;
	wan_pacer_init(&p, 10 * GBPS, OVERHEAD, 100000); /* 100 us: 125 kB */
	for (; wan_pacer_ready(&p, t); n++)
		wan_pacer_take(&p, t, PAYLOAD);
	assert_in_range(n * WIRE, 125000, 125000 + 2 * WIRE);
	n = 0;
	for (t += 1000000000; wan_pacer_ready(&p, t); n++) /* a whole idle second saves no more */
		wan_pacer_take(&p, t, PAYLOAD);
	assert_in_range(n * WIRE, 125000, 125000 + 2 * WIRE);
}

static void wan_pacer__says_when(void **state)
{
	struct wan_pacer p;

	(void)state;
	wan_pacer_init(&p, 8 * GBPS, 0, 0); /* a byte per nanosecond */
	assert_true(wan_pacer_ready(&p, 5000));
	wan_pacer_take(&p, 5000, 1500);
	assert_int_equal(wan_pacer_next_ns(&p), 6500);
	assert_false(wan_pacer_ready(&p, 6499));
	assert_true(wan_pacer_ready(&p, 6500));
	wan_pacer_take(&p, 6500, 0);
	assert_int_equal(wan_pacer_next_ns(&p), 6500);
}

static void wan_pacer__overhead_counts(void **state)
{
	struct wan_pacer p;

	(void)state;
	wan_pacer_init(&p, 8 * GBPS, 100, 0);
	wan_pacer_take(&p, 1000, 50);
	assert_int_equal(wan_pacer_next_ns(&p), 1150);
}

static void wan_pacer__rate_may_change(void **state)
{
	struct wan_pacer p;

	(void)state;
	wan_pacer_init(&p, 8 * GBPS, 0, 0);
	atomic_store(&p.rate_bps, 4 * GBPS);
	wan_pacer_take(&p, 1000, 100);
	assert_int_equal(wan_pacer_next_ns(&p), 1200);
	atomic_store(&p.rate_bps, 0); /* nobody divides by it */
	wan_pacer_take(&p, 2000, 1);
	assert_true(wan_pacer_next_ns(&p) > 1000000000);
}

/* Two shards take turns at odd moments: together they get the rate, no more, and one alone gets all of it. */
static void wan_pacer__two_shards_share(void **state)
{
	struct wan_pacer p;
	uint64_t sent[2] = {0, 0}, end = 20000000;

	(void)state;
	wan_pacer_init(&p, 10 * GBPS, OVERHEAD, 0);
	for (uint64_t t = 1; t < end; t += 97) {
		unsigned who = t < end / 2 ? (t / 97) % 2 : 0;

		if (!wan_pacer_ready(&p, t))
			continue;
		wan_pacer_take(&p, t, PAYLOAD);
		sent[who]++;
	}
	assert_in_range((sent[0] + sent[1]) * WIRE * 8, 196000000, 200100000);
	assert_in_range(sent[1] * WIRE * 8, 40000000, 60000000);
}

enum { TAKES = 200000 };

static void *take_many(void *arg)
{
	for (int i = 0; i < TAKES; i++)
		wan_pacer_take(arg, 1000, 100);
	return NULL;
}

static void wan_pacer__no_time_is_lost_between_threads(void **state)
{
	struct wan_pacer p;
	pthread_t a, b;

	(void)state;
	wan_pacer_init(&p, 8 * GBPS, 0, 0);
	assert_int_equal(pthread_create(&a, NULL, take_many, &p), 0);
	assert_int_equal(pthread_create(&b, NULL, take_many, &p), 0);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	assert_int_equal(wan_pacer_next_ns(&p), 1000 + 2ull * TAKES * 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wan_pacer__keeps_the_rate),
	    cmocka_unit_test(wan_pacer__keeps_fast_rates),
	    cmocka_unit_test(wan_pacer__burst_is_bounded),
	    cmocka_unit_test(wan_pacer__says_when),
	    cmocka_unit_test(wan_pacer__overhead_counts),
	    cmocka_unit_test(wan_pacer__rate_may_change),
	    cmocka_unit_test(wan_pacer__two_shards_share),
	    cmocka_unit_test(wan_pacer__no_time_is_lost_between_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
