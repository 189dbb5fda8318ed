/* SPDX-License-Identifier: Apache-2.0 */
/* Sending time: never more than the rate over any stretch but the burst, whoever shares it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "proxy/wan/cc/wan_pacer.h"

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

/* However much control goes past the clock, data gets half of the line; what is little counts in full. */
static void wan_pacer__control_leaves_half_to_data(void **state)
{
	struct wan_pacer p;
	uint64_t n = 0;

	(void)state;
	wan_pacer_init(&p, 8 * GBPS / 1000, 0, 0); /* a byte per microsecond */
	for (uint64_t t = 1000000000; t < 2000000000; t += 50000) {
		wan_pacer_take_past(&p, t, 100); /* twice what the line carries */
		if (!wan_pacer_ready(&p, t))
			continue;
		wan_pacer_take(&p, t, 100);
		n++;
	}
	assert_in_range(n, 4500, 5100);
	wan_pacer_init(&p, 8 * GBPS, 0, 0);
	for (unsigned i = 0; i < 64; i++)
		wan_pacer_take_past(&p, 5000, 1000);
	assert_int_equal(wan_pacer_next_ns(&p), 5000 + 64 * 1000);
}

/* Datagrams of control per second, of lanes that always have some: each sends when it has waited for as long as all
 * together are ahead. *most_ns: the longest that one has waited. */
static uint64_t control_of(struct wan_pacer *p, unsigned lanes, uint64_t *most_ns)
{
	uint64_t since[32] = {0}, n = 0;

	*most_ns = 0;
	for (uint64_t t = 1000000000; t < 2000000000; t += 10000) {
		for (unsigned i = 0; i < lanes; i++) {
			uint64_t waited = t - (since[i] ? since[i] : 1000000000);

			if (waited < wan_pacer_reports_ahead_ns(p, t))
				continue;
			wan_pacer_reported(p, t, 200);
			*most_ns = waited > *most_ns ? waited : *most_ns;
			since[i] = t;
			n++;
		}
	}
	return n;
}

/* However many lanes report, control has a twentieth of the line while packets wait, and half while none do. On a slow
 * line it has 250 kbit/s, or a quarter if that is less. All lanes get the same. */
static void wan_pacer__control_has_its_part(void **state)
{
	static const struct {
		uint64_t bps, part;
		unsigned lanes;
	} lines[] = {{10 * GBPS / 1000, 500000, 32},
	             {100 * GBPS / 1000, 5000000, 32},
	             {4 * GBPS / 1000, 250000, 16},
	             {800000, 200000, 16}};
	struct wan_pacer p;
	uint64_t waited_ns;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		uint64_t part = lines[i].part / 1600; /* datagrams of 200 bytes */

		wan_pacer_init(&p, lines[i].bps, 0, 0);
		rate_waits(&p.control, true);
		assert_in_range(control_of(&p, lines[i].lanes, &waited_ns), part, part + part / 8 + 33);
		assert_true(waited_ns <= 2ull * lines[i].lanes * 1000000000 / part);
		wan_pacer_init(&p, lines[i].bps, 0, 0);
		part = lines[i].bps / 2 / 1600;
		assert_in_range(control_of(&p, lines[i].lanes, &waited_ns), part, part + part / 8 + 33);
	}
	wan_pacer_init(&p, 400 * GBPS, 0, 0); /* a fast line never lets any wait */
	rate_waits(&p.control, true);
	for (unsigned i = 0; i < 64; i++) {
		wan_pacer_reported(&p, 5000, 1000);
		assert_int_equal(wan_pacer_reports_ahead_ns(&p, 5000), 0);
	}
}

/* Probes of both edges go whatever control's part is, and ask for reports. Those must not wait for them. */
static void wan_pacer__reports_do_not_wait_for_ever(void **state)
{
	struct wan_pacer p;

	(void)state;
	wan_pacer_init(&p, 400000, 0, 0);
	rate_waits(&p.control, true);
	for (unsigned i = 0; i < 100; i++)
		wan_pacer_reported(&p, 1000000000, 9000);
	assert_in_range(wan_pacer_reports_ahead_ns(&p, 1000000000), 100000000, 150000000);
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

/* --- lateness --- */

enum { BYTE_NS = 2, SIZE = 1000, LAST_NS = SIZE * BYTE_NS };

/* Two nanoseconds to a byte. The first datagram went at 1 ms, something waits, and up to that much is made up for. */
static void late_start(struct wan_pacer *p, uint64_t ceiling_bps, uint64_t catch_up_ns)
{
	wan_pacer_init(p, 4 * GBPS, 0, 0);
	wan_pacer_take(p, 1000000, SIZE);
	rate_choose(&p->control, RATE_auto, ceiling_bps);
	atomic_store(&p->rate_bps, 4 * GBPS);
	rate_catch_up(&p->control, catch_up_ns);
	rate_waits(&p->control, true);
}

/* When the line is free after so many, the first of them late by 3 datagrams. */
static uint64_t free_after(struct wan_pacer *p, int n)
{
	uint64_t t = 1000000 + 4 * LAST_NS;

	for (int i = 0; i < n; i++, t = wan_pacer_next_ns(p))
		wan_pacer_take(p, t, SIZE);
	return t - 1000000;
}

/* Half as fast again until it is as if nobody had been late, and no faster then. Whole nanoseconds are rounded up. */
static void wan_pacer__makes_up_for_lateness(void **state)
{
	struct wan_pacer p;

	(void)state;
	late_start(&p, 40 * GBPS, 1000000);
	assert_in_range(free_after(&p, 1), 4 * LAST_NS + LAST_NS * 2 / 3, 4 * LAST_NS + LAST_NS * 2 / 3 + 1);
	late_start(&p, 40 * GBPS, 1000000);
	assert_in_range(free_after(&p, 9), 10 * LAST_NS, 10 * LAST_NS + 9);
	late_start(&p, 40 * GBPS, 1000000);
	assert_in_range(free_after(&p, 20), 21 * LAST_NS, 21 * LAST_NS + 9);
}

static void wan_pacer__makes_up_for_no_more_than_it_may(void **state)
{
	struct wan_pacer p;

	(void)state;
	late_start(&p, 40 * GBPS, LAST_NS);
	assert_in_range(free_after(&p, 20), 23 * LAST_NS, 23 * LAST_NS + 1);
	late_start(&p, 40 * GBPS, 0);
	assert_int_equal(free_after(&p, 20), 24 * LAST_NS);
}

static void wan_pacer__makes_up_below_the_ceiling(void **state)
{
	struct wan_pacer p;

	(void)state;
	late_start(&p, 4 * GBPS, 1000000);
	assert_int_equal(free_after(&p, 20), 24 * LAST_NS);
	late_start(&p, 5 * GBPS, 1000000); /* a fifth less time for each */
	assert_in_range(free_after(&p, 1), 4 * LAST_NS + LAST_NS * 4 / 5, 4 * LAST_NS + LAST_NS * 4 / 5 + 1);
}

/* For want of data, or of room in flight. */
static void wan_pacer__makes_up_for_nothing_but_lateness(void **state)
{
	struct wan_pacer p;
	struct rate_mark m;

	(void)state;
	late_start(&p, 40 * GBPS, 1000000);
	rate_waits(&p.control, false);
	assert_int_equal(free_after(&p, 20), 24 * LAST_NS);
	late_start(&p, 40 * GBPS, 1000000);
	while (rate_has_room(&p.control))
		rate_on_sent(&p.control, &m, 1000000, SIZE);
	assert_int_equal(free_after(&p, 20), 24 * LAST_NS);
}

/* What is made up for is not missing in the delivery rate; what is not, is. */
static void wan_pacer__says_what_is_lost(void **state)
{
	struct wan_pacer p;
	struct rate_mark m;

	(void)state;
	late_start(&p, 40 * GBPS, 3 * LAST_NS);
	free_after(&p, 1);
	rate_on_sent(&p.control, &m, 1010000, SIZE);
	assert_false(m.late || m.app_limited);
	late_start(&p, 40 * GBPS, 3 * LAST_NS - 1);
	free_after(&p, 1);
	rate_on_sent(&p.control, &m, 1010000, SIZE);
	assert_true(m.late);
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
	    cmocka_unit_test(wan_pacer__control_leaves_half_to_data),
	    cmocka_unit_test(wan_pacer__control_has_its_part),
	    cmocka_unit_test(wan_pacer__reports_do_not_wait_for_ever),
	    cmocka_unit_test(wan_pacer__burst_is_bounded),
	    cmocka_unit_test(wan_pacer__says_when),
	    cmocka_unit_test(wan_pacer__overhead_counts),
	    cmocka_unit_test(wan_pacer__rate_may_change),
	    cmocka_unit_test(wan_pacer__two_shards_share),
	    cmocka_unit_test(wan_pacer__makes_up_for_lateness),
	    cmocka_unit_test(wan_pacer__makes_up_for_no_more_than_it_may),
	    cmocka_unit_test(wan_pacer__makes_up_below_the_ceiling),
	    cmocka_unit_test(wan_pacer__makes_up_for_nothing_but_lateness),
	    cmocka_unit_test(wan_pacer__says_what_is_lost),
	    cmocka_unit_test(wan_pacer__no_time_is_lost_between_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
