/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proxy/wan/cc/wan_pacer.h"

#define GBPS     1000000000ull
#define MS       1000000ull
#define SEC      (1000 * MS)
#define PAYLOAD  8934u
#define OVERHEAD 66u
#define WIRE     (PAYLOAD + OVERHEAD)
#define PENDING  (1u << 18)

/* A line with a queue without end: what is sent is told of a round trip and its wait in the queue later. */
struct line {
	uint64_t bps, rtt_ns, free_ns, now_ns;
	uint32_t lose_every; /* 0: none */
	uint32_t mark_every;
	uint64_t wakes_ns; /* the sender has the processor only so often; 0: always */
	struct wan_pacer pacer;
	struct told {
		uint64_t at_ns, sent_ns;
		struct rate_mark mark;
		bool lost;
	} * told;
	uint64_t head, tail, rounds, round_end, delivered, least_in_flight;
};

static void line_start(struct line *l, uint64_t bps, uint64_t rtt_ns, uint64_t ceiling_bps)
{
	*l = (struct line){.bps = bps, .rtt_ns = rtt_ns, .now_ns = SEC, .least_in_flight = UINT64_MAX};
	l->told = calloc(PENDING, sizeof(*l->told));
	assert_non_null(l->told);
	wan_pacer_init(&l->pacer, ceiling_bps, OVERHEAD, 20000);
	rate_choose(&l->pacer.control, RATE_auto, ceiling_bps);
}

static void line_end(struct line *l)
{
	free(l->told);
}

static void line_send_of(struct line *l, uint32_t payload)
{
	struct told *t = &l->told[l->tail % PENDING];

	assert_true(l->tail - l->head < PENDING);
	*t = (struct told){.sent_ns = l->now_ns, .lost = l->lose_every && l->tail % l->lose_every == 1};
	rate_on_sent(&l->pacer.control, &t->mark, l->now_ns, payload + OVERHEAD);
	wan_pacer_take(&l->pacer, l->now_ns, payload);
	if (l->free_ns < l->now_ns)
		l->free_ns = l->now_ns;
	l->free_ns += (payload + OVERHEAD) * 8 * SEC / l->bps;
	t->at_ns = l->free_ns + l->rtt_ns;
	l->tail++;
}

static void line_send(struct line *l)
{
	line_send_of(l, PAYLOAD);
}

static void line_tell(struct line *l)
{
	struct told *t = &l->told[l->head % PENDING];
	struct rate_pick pick = {.sent_ns = 0};

	if (t->lost) {
		rate_on_lost(&l->pacer.control, &t->mark, l->now_ns);
	} else {
		rate_on_arrived(&l->pacer.control, &pick, &t->mark, t->sent_ns, l->now_ns);
		rate_on_report(&l->pacer.control, &pick, l->now_ns, l->now_ns - t->sent_ns,
		               l->mark_every && l->head % l->mark_every == 0);
		l->delivered += WIRE;
		if (t->sent_ns >= l->round_end) {
			l->round_end = l->now_ns;
			l->rounds++;
		}
	}
	l->head++;
}

/* The next thing that happens, if it does before until_ns. hungry: there is always something to send. */
static bool line_step(struct line *l, uint64_t until_ns, bool hungry)
{
	uint64_t told_ns = l->head == l->tail ? UINT64_MAX : l->told[l->head % PENDING].at_ns;
	uint64_t send_ns = UINT64_MAX;

	if (hungry && rate_has_room(&l->pacer.control))
		send_ns = wan_pacer_next_ns(&l->pacer) > l->now_ns ? wan_pacer_next_ns(&l->pacer) : l->now_ns;
	if (l->wakes_ns && send_ns != UINT64_MAX)
		send_ns += (l->wakes_ns - send_ns % l->wakes_ns) % l->wakes_ns;
	if (told_ns > until_ns && send_ns > until_ns) {
		l->now_ns = until_ns;
		return false;
	}
	l->now_ns = told_ns <= send_ns ? told_ns : send_ns;
	if (told_ns <= send_ns)
		line_tell(l);
	else
		line_send(l);
	if (atomic_load(&l->pacer.control.in_flight_bytes) < l->least_in_flight)
		l->least_in_flight = atomic_load(&l->pacer.control.in_flight_bytes);
	return true;
}

static void line_run(struct line *l, uint64_t ns, bool hungry)
{
	uint64_t until_ns = l->now_ns + ns;

	while (line_step(l, until_ns, hungry))
		;
}

static uint64_t pace(const struct line *l)
{
	return atomic_load(&l->pacer.rate_bps);
}

static const char *state(const struct line *l)
{
	return atomic_load(&l->pacer.control.state_name);
}

/* Share of the line in percent, over a time. */
static uint64_t share(struct line *l, uint64_t ns)
{
	uint64_t before = l->delivered;

	line_run(l, ns, true);
	return rate_from(l->delivered - before, ns) * 100 / l->bps;
}

/* --- what feeds controllers --- */

static void rate__table_has_both(void **unused)
{
	(void)unused;
	assert_ptr_equal(rate_ops_of(RATE_fixed), &rate_fixed);
	assert_ptr_equal(rate_ops_of(RATE_auto), &rate_auto);
#define X(row, ops) assert_string_equal(rate_ops_of(RATE_##row)->name, #row);
	RATE_CONTROLLERS(X)
#undef X
}

static void rate__fixed_looks_at_nothing(void **unused)
{
	struct wan_pacer p;
	struct rate_mark m = {.bytes = 0};

	(void)unused;
	wan_pacer_init(&p, 10 * GBPS, OVERHEAD, 0);
	assert_false(rate_tracks(&p.control));
	rate_on_sent(&p.control, &m, SEC, WIRE);
	assert_int_equal(m.bytes, 0);
	assert_int_equal(atomic_load(&p.control.in_flight_bytes), 0);
	assert_true(rate_has_room(&p.control));
	rate_choose(&p.control, RATE_fixed, 3 * GBPS); /* a new Rate= */
	assert_int_equal(atomic_load(&p.rate_bps), 3 * GBPS);
}

static void rate__in_flight_goes_down_whatever_becomes_of_it(void **unused)
{
	struct wan_pacer p;
	struct rate_mark m[3];
	struct rate_pick pick = {.sent_ns = 0};

	(void)unused;
	wan_pacer_init(&p, 10 * GBPS, OVERHEAD, 0);
	rate_choose(&p.control, RATE_auto, 10 * GBPS);
	for (int i = 0; i < 3; i++)
		rate_on_sent(&p.control, &m[i], SEC, WIRE);
	assert_int_equal(atomic_load(&p.control.in_flight_bytes), 3 * WIRE);
	rate_on_arrived(&p.control, &pick, &m[0], SEC, SEC + MS);
	rate_on_lost(&p.control, &m[1], SEC + MS);
	rate_on_gone(&p.control, m[2].bytes);
	assert_int_equal(atomic_load(&p.control.in_flight_bytes), 0);
	assert_int_equal(atomic_load(&p.control.delivered_bytes), WIRE);
	assert_int_equal(atomic_load(&p.control.lost_bytes), WIRE);
}

/* All of a flight told at once at the end: the rate is that over the round trip, not over the instant. */
static void rate__bunched_reports_make_no_rate(void **unused)
{
	struct wan_pacer p;
	struct rate_mark m[10];
	struct rate_pick pick = {.sent_ns = 0};

	(void)unused;
	wan_pacer_init(&p, 10 * GBPS, OVERHEAD, 0);
	rate_choose(&p.control, RATE_auto, 10 * GBPS);
	for (int i = 0; i < 10; i++)
		rate_on_sent(&p.control, &m[i], SEC + (uint64_t)i * 1000, WIRE);
	for (int i = 0; i < 10; i++)
		rate_on_arrived(&p.control, &pick, &m[i], SEC + (uint64_t)i * 1000, SEC + 10 * MS);
	rate_on_report(&p.control, &pick, SEC + 10 * MS, 10 * MS, 0);
	/* startup: 2.77 x what was delivered: 90,000 bytes in 10 ms */
	assert_in_range(pace(&(struct line){.pacer = p}), 190000000, 200000000);
}

static void rate__choice_is_in_effect_at_once_and_back(void **unused)
{
	struct wan_pacer p;
	struct rate_mark m = {.bytes = 0};

	(void)unused;
	wan_pacer_init(&p, 10 * GBPS, OVERHEAD, 0);
	rate_choose(&p.control, RATE_auto, 10 * GBPS);
	assert_true(rate_tracks(&p.control));
	rate_on_sent(&p.control, &m, SEC, WIRE);
	rate_choose(&p.control, RATE_fixed, 10 * GBPS);
	assert_int_equal(atomic_load(&p.rate_bps), 10 * GBPS);
	rate_on_lost(&p.control, &m, SEC); /* sent under the other one */
	assert_int_equal(atomic_load(&p.control.in_flight_bytes), 0);
}

/* Unused time is the application's, unless something waited to be sent; with one shard waiting of two, too. */
static void rate__unused_time_is_late_while_something_waits(void **unused)
{
	struct wan_pacer p;
	struct rate_mark m;

	(void)unused;
	for (int waiting = 0; waiting <= 2; waiting++) {
		wan_pacer_init(&p, 10 * GBPS, OVERHEAD, 0);
		rate_choose(&p.control, RATE_auto, 10 * GBPS);
		for (int i = 0; i < 2; i++)
			rate_waits(&p.control, true);
		for (int i = waiting; i < 2; i++)
			rate_waits(&p.control, false);
		wan_pacer_take(&p, SEC, PAYLOAD);
		wan_pacer_take(&p, 2 * SEC, PAYLOAD);
		rate_on_sent(&p.control, &m, 2 * SEC, WIRE);
		assert_int_equal(m.late, waiting > 0);
		assert_int_equal(m.app_limited, waiting == 0);
	}
}

static void rate__room_is_asked_for_again(void **unused)
{
	struct wan_pacer p;
	struct rate_mark m;

	(void)unused;
	wan_pacer_init(&p, 10 * GBPS, OVERHEAD, 0);
	rate_choose(&p.control, RATE_auto, 10 * GBPS);
	while (rate_has_room(&p.control))
		rate_on_sent(&p.control, &m, SEC, WIRE);
	assert_false(wan_pacer_ready(&p, 2 * SEC));
	assert_in_range(wan_pacer_look_ns(&p, 2 * SEC), 2 * SEC + 1, 2 * SEC + MS);
	rate_on_gone(&p.control, WIRE);
	assert_true(wan_pacer_ready(&p, 2 * SEC));
}

/* --- auto --- */

/* At the rate of the line nothing ever queues but what the pacer saves up. */
static void rate_auto__no_burst_at_the_ceiling(void **unused)
{
	struct line l;
	uint64_t most_ns = 0;

	(void)unused;
	line_start(&l, 10 * GBPS, 10 * MS, 10 * GBPS);
	l.lose_every = 1000;
	for (uint64_t until_ns = l.now_ns + 10 * SEC; l.now_ns < until_ns;) {
		line_step(&l, until_ns, true);
		if (l.free_ns > l.now_ns && l.free_ns - l.now_ns > most_ns)
			most_ns = l.free_ns - l.now_ns;
	}
	assert_true(most_ns <= l.pacer.burst_ns + 2 * WIRE * 8 / 10);
	line_end(&l);
}

static void rate_auto__startup_finds_400g_within_16_rounds(void **unused)
{
	struct line l;

	(void)unused;
	line_start(&l, 400 * GBPS, 10 * MS, 800 * GBPS);
	while (l.rounds < 16)
		line_step(&l, UINT64_MAX - 1, true);
	assert_in_range(share(&l, 100 * MS), 90, 100);
	line_end(&l);
}

static void rate_auto__never_passes_the_ceiling(void **unused)
{
	struct line l;

	(void)unused;
	line_start(&l, 40 * GBPS, 10 * MS, 10 * GBPS);
	for (int i = 0; i < 200; i++) {
		line_run(&l, MS, true);
		assert_true(pace(&l) <= 10 * GBPS);
	}
	l.bps = 10 * GBPS; /* of the ceiling */
	assert_in_range(share(&l, SEC), 96, 100);
	line_end(&l);
}

static void rate_auto__fills_the_line_without_a_queue(void **unused)
{
	struct line l;
	uint64_t waits = 0;

	(void)unused;
	line_start(&l, GBPS, 20 * MS, 4 * GBPS);
	line_run(&l, 3 * SEC, true);
	assert_in_range(share(&l, 5 * SEC), 96, 100);
	for (int i = 0; i < 1000; i++) {
		line_run(&l, 5 * MS, true);
		waits += l.free_ns > l.now_ns ? l.free_ns - l.now_ns : 0;
	}
	assert_true(waits / 1000 < 2 * MS); /* a tenth of the round trip, on average */
	line_end(&l);
}

static void rate_auto__random_loss_does_not_matter(void **unused)
{
	struct line l;

	(void)unused;
	line_start(&l, GBPS, 20 * MS, 4 * GBPS);
	l.lose_every = 100;
	line_run(&l, 3 * SEC, true);
	assert_in_range(share(&l, 10 * SEC), 94, 100);
	line_end(&l);
}

/* As if a router marked one datagram in 200: no queue, no loss, and less is sent all the same. */
static void rate_auto__marks_are_obeyed(void **unused)
{
	struct line l;
	uint64_t before;

	(void)unused;
	line_start(&l, GBPS, 20 * MS, 4 * GBPS);
	line_run(&l, 3 * SEC, true);
	before = share(&l, 3 * SEC);
	l.mark_every = 200;
	line_run(&l, SEC, true);
	assert_in_range(before, 96, 100);
	assert_in_range(share(&l, 3 * SEC), 10, 90);
	l.mark_every = 0;
	line_run(&l, 3 * SEC, true);
	assert_in_range(share(&l, 3 * SEC), 94, 100);
	line_end(&l);
}

/* A tenth of the line is asked for, for long; then all of it. */
static void rate_auto__who_asks_for_little_is_not_taken_for_slow(void **unused)
{
	struct line l;

	(void)unused;
	line_start(&l, GBPS, 20 * MS, 4 * GBPS);
	line_run(&l, 3 * SEC, true);
	assert_true(pace(&l) >= 9 * GBPS / 10 * 8 / 10);
	for (int i = 0; i < 5000; i++) { /* 9,000 bytes each 2 ms: 36 Mbit/s for 10 s */
		line_send(&l);
		line_run(&l, 2 * MS, false);
	}
	assert_true(pace(&l) >= 9 * GBPS / 10 * 8 / 10);
	assert_in_range(share(&l, 200 * MS), 80, 100);
	line_end(&l);
}

/* Pings and reports are all that crosses at first, and they go past the pacer: the first data finds sending time all
 * the same, and not what 160 bytes in a round trip make of the rate. */
static void rate_auto__a_little_control_first_costs_the_data_nothing(void **unused)
{
	struct line l;

	(void)unused;
	line_start(&l, GBPS, 40 * MS, GBPS);
	for (int i = 0; i < 200; i++) {
		line_send_of(&l, 100);
		line_run(&l, (i % 50 ? 1 : 45) * MS, false);
		assert_true(wan_pacer_next_ns(&l.pacer) < l.now_ns + MS);
	}
	line_run(&l, SEC, true);
	assert_in_range(share(&l, 200 * MS), 80, 100);
	line_end(&l);
}

/* A sender that gets the processor every 3 ms, and has something to send all the time: startup ends, and what was found
 * is no bound when it comes in time again. */
static void rate_auto__a_late_sender_ends_startup(void **unused)
{
	struct line l;

	(void)unused;
	line_start(&l, GBPS, 20 * MS, 4 * GBPS);
	rate_waits(&l.pacer.control, true);
	l.wakes_ns = 3 * MS;
	line_run(&l, 2 * SEC, true);
	assert_string_not_equal(state(&l), "startup");
	l.wakes_ns = 0;
	line_run(&l, 8 * SEC, true);
	assert_in_range(share(&l, SEC), 90, 100);
	line_end(&l);
}

/* In time now and then is enough: what was found then is not lowered by late samples. */
static void rate_auto__lateness_does_not_lower_what_was_found(void **unused)
{
	struct line l;
	uint64_t found;

	(void)unused;
	line_start(&l, GBPS, 20 * MS, 4 * GBPS);
	rate_waits(&l.pacer.control, true);
	line_run(&l, 3 * SEC, true);
	found = pace(&l);
	l.wakes_ns = 3 * MS;
	line_run(&l, 10 * SEC, true);
	assert_true(pace(&l) >= found * 75 / 100);
	line_end(&l);
}

static void rate_auto__follows_a_line_that_becomes_slower_and_faster(void **unused)
{
	struct line l;

	(void)unused;
	line_start(&l, GBPS, 20 * MS, 4 * GBPS);
	line_run(&l, 2 * SEC, true);
	l.bps = GBPS / 4;
	line_run(&l, 3 * SEC, true);
	assert_true(pace(&l) < GBPS * 35 / 100);
	l.bps = GBPS;
	line_run(&l, 10 * SEC, true);
	assert_in_range(share(&l, SEC), 90, 100);
	line_end(&l);
}

/* The way became longer: the old least round trip is given up for what is there, in bounded time, and what that costs
 * is bounded. */
static void rate_auto__longer_way_is_believed(void **unused)
{
	struct line l;

	(void)unused;
	line_start(&l, GBPS, 10 * MS, 4 * GBPS);
	line_run(&l, 3 * SEC, true);
	l.rtt_ns = 40 * MS;
	line_run(&l, 12 * SEC, true);
	assert_in_range(share(&l, 5 * SEC), 94, 100);
	line_end(&l);
}

/* Somebody else's queue never goes: half of the line's content for a round is all that looking for the least costs. */
static void rate_auto__looking_for_the_least_costs_one_percent(void **unused)
{
	struct line l;
	uint64_t in_probe = 0, n = 0;

	(void)unused;
	line_start(&l, GBPS, 20 * MS, 4 * GBPS);
	line_run(&l, 2 * SEC, true);
	l.rtt_ns = 30 * MS; /* as if */
	for (int i = 0; i < 60000; i++, n++) {
		line_run(&l, MS, true);
		in_probe += state(&l)[0] == 'p';
		l.rtt_ns += i % 1000 == 0 ? 20000 : 0; /* never the least again */
	}
	assert_true(in_probe > 0);
	assert_true(in_probe * 50 <= n); /* at half the rate for a fiftieth of the time */
	line_end(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rate__table_has_both),
	    cmocka_unit_test(rate__fixed_looks_at_nothing),
	    cmocka_unit_test(rate__in_flight_goes_down_whatever_becomes_of_it),
	    cmocka_unit_test(rate__bunched_reports_make_no_rate),
	    cmocka_unit_test(rate__choice_is_in_effect_at_once_and_back),
	    cmocka_unit_test(rate__unused_time_is_late_while_something_waits),
	    cmocka_unit_test(rate__room_is_asked_for_again),
	    cmocka_unit_test(rate_auto__startup_finds_400g_within_16_rounds),
	    cmocka_unit_test(rate_auto__no_burst_at_the_ceiling),
	    cmocka_unit_test(rate_auto__never_passes_the_ceiling),
	    cmocka_unit_test(rate_auto__fills_the_line_without_a_queue),
	    cmocka_unit_test(rate_auto__random_loss_does_not_matter),
	    cmocka_unit_test(rate_auto__marks_are_obeyed),
	    cmocka_unit_test(rate_auto__who_asks_for_little_is_not_taken_for_slow),
	    cmocka_unit_test(rate_auto__a_little_control_first_costs_the_data_nothing),
	    cmocka_unit_test(rate_auto__a_late_sender_ends_startup),
	    cmocka_unit_test(rate_auto__lateness_does_not_lower_what_was_found),
	    cmocka_unit_test(rate_auto__follows_a_line_that_becomes_slower_and_faster),
	    cmocka_unit_test(rate_auto__longer_way_is_believed),
	    cmocka_unit_test(rate_auto__looking_for_the_least_costs_one_percent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
