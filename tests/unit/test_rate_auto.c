/* SPDX-License-Identifier: Apache-2.0 */
/* What rate_auto makes of a queue that is somebody else's, from what each probe-rtt sees of it. The rest, on a line,
 * is in test_rate.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proxy/wan/cc/rate_auto.c"

#define MS       1000000ull
#define SEC      (1000 * MS)
#define MB       1000000ull
#define LINE_BPS 1000000000ull
#define LEAST_NS (20 * MS) /* round trip without a queue */

/* Cruising, for long, beside somebody who fills the queue; has met losses, and they are rare. */
static struct auto_state given_contended(void)
{
	return (struct auto_state){.phase = PROBE_BW_CRUISE,
	                           .now_ns = 100 * SEC,
	                           .empty_at_ns = 50 * SEC,
	                           .min_rtt_ns = LEAST_NS,
	                           .min_rtt_stamp = 50 * SEC,
	                           .probe_rtt_stamp = 90 * SEC,
	                           .rtt_ns = NONE,
	                           .max_bw_filter = {LINE_BPS, LINE_BPS},
	                           .segment_bytes = SEGMENT_BYTES,
	                           .window_known = true,
	                           .looked = LOOK_ROUNDS,
	                           .random = 1};
}

static void see(struct auto_state *a, uint64_t rtt_ns, uint64_t in_flight, uint64_t delivered)
{
	struct rate_sample s = {.now_ns = a->now_ns,
	                        .rtt_ns = rtt_ns,
	                        .in_flight_bytes = in_flight,
	                        .sent_in_flight_bytes = in_flight,
	                        .delivered_bytes = delivered,
	                        .prior_bytes = delivered};

	update_min_rtt(a, &s);
}

/* From one probe-rtt to the end of the next: a round trip before it, then one with `left` in flight. */
static void probe(struct auto_state *a, uint64_t before_bytes, uint64_t before_rtt_ns, uint64_t left, uint64_t rtt_ns)
{
	a->phase = PROBE_BW_CRUISE;
	a->now_ns += 10 * SEC;
	a->queued_rtt_ns = before_rtt_ns;
	a->most_in_flight = before_bytes;
	a->window.bytes = before_bytes;
	see(a, before_rtt_ns, 10 * bdp(a), 0);
	assert_int_equal(a->phase, PROBE_RTT);
	a->now_ns += before_rtt_ns;
	see(a, before_rtt_ns, left, 100 * MB); /* as little is in flight as is wanted */
	assert_int_equal(a->phase, PROBE_RTT);
	a->now_ns += rtt_ns;
	see(a, rtt_ns, left, 200 * MB);
	assert_int_equal(a->phase, PROBE_BW_REFILL);
}

/* Of a queue that ours and theirs make together. */
static uint64_t rtt_of(uint64_t ours, uint64_t theirs)
{
	return (ours + theirs) * 8 * SEC / LINE_BPS;
}

static uint64_t window_after(struct auto_state a, uint64_t ours, uint64_t theirs)
{
	probe(&a, ours, rtt_of(ours, theirs), MB / 2, rtt_of(MB / 2, theirs));
	return a.window.bytes;
}

static void assert_about(uint64_t bytes, uint64_t wanted)
{
	assert_in_range(bytes, wanted - wanted / 100, wanted + wanted / 100);
}

/* --- weigh_window() --- */

static void rate_auto__who_has_less_goes_to_two_thirds_of_the_others(void **unused)
{
	(void)unused;
	assert_about(window_after(given_contended(), 2 * MB, 4 * MB), percent(4 * MB, WEIGHED));
	assert_about(window_after(given_contended(), 3 * MB, 5 * MB), percent(5 * MB, WEIGHED));
}

static void rate_auto__who_has_more_goes_to_as_much_as_the_others(void **unused)
{
	(void)unused;
	assert_about(window_after(given_contended(), 4 * MB, 3 * MB), 3 * MB);
	assert_about(window_after(given_contended(), 6 * MB, 4 * MB), 4 * MB);
}

/* Between the two it is left alone. */
static void rate_auto__a_fair_window_is_kept(void **unused)
{
	(void)unused;
	assert_int_equal(window_after(given_contended(), 4 * MB, 5 * MB), 4 * MB);
	assert_int_equal(window_after(given_contended(), 5 * MB, 5 * MB + MB / 10), 5 * MB);
}

/* One probe may be wrong: it halves or doubles at most. */
static void rate_auto__one_probe_changes_it_by_two_at_most(void **unused)
{
	(void)unused;
	assert_int_equal(window_after(given_contended(), 1 * MB, 9 * MB), 2 * MB);
	assert_int_equal(window_after(given_contended(), 8 * MB, 3 * MB), 4 * MB);
}

/* Nobody else's queue; no losses of its own yet; losses that go on whatever is given (BBR version 1). */
static void rate_auto__weighs_only_where_a_window_counts(void **unused)
{
	struct auto_state own = given_contended(), unknown = own, frequent = own;

	(void)unused;
	own.empty_at_ns = own.now_ns + 10 * SEC;
	assert_int_equal(window_after(own, 1 * MB, 9 * MB), MB);
	unknown.window_known = false;
	assert_int_equal(window_after(unknown, 1 * MB, 9 * MB), MB);
	frequent.lossy = frequent.looked / 4;
	assert_int_equal(window_after(frequent, 1 * MB, 9 * MB), MB);
}

/* A window that nothing has ended yet does not wait for losses, which in a long queue are far: BBR has two products there,
 * whatever ours is. */
static void rate_auto__before_losses_it_goes_down_to_the_others(void **unused)
{
	struct auto_state a = given_contended();

	(void)unused;
	a.window_known = false;
	assert_about(window_after(a, 6 * MB, 4 * MB), 4 * MB);
}

/* Until the others are weighed again it grows to little more than they have. */
static void rate_auto__a_window_does_not_outgrow_the_others(void **unused)
{
	struct auto_state a = given_contended(), unweighed = a;

	(void)unused;
	cubic_window_start(&a.window, a.now_ns, 2 * MB, 9000);
	unweighed.window = a.window;
	a.weighed_bytes = 2 * MB;
	for (int i = 0; i < 3000; i++) {
		unweighed.now_ns = a.now_ns += 10 * MS;
		unweighed.empty_at_ns = a.empty_at_ns = 1;
		keep_window(&a, false);
		keep_window(&unweighed, false);
	}
	assert_true(unweighed.window.bytes > 4 * MB);
	assert_in_range(a.window.bytes, percent(2 * MB, OUTWEIGHS), percent(2 * MB, OUTWEIGHS + 5));
}

/* Who takes no notice of losses has no window that only losses would end. */
static void rate_auto__deaf_it_has_no_window(void **unused)
{
	struct auto_state a = given_contended();

	(void)unused;
	cubic_window_start(&a.window, a.now_ns, 2 * MB, 9000);
	a.deaf_rounds = 10;
	keep_window(&a, false);
	assert_int_equal(a.window.bytes, 0);
}

/* The round trip did not fall, or nothing of ours left the queue: that says nothing about others. */
static void rate_auto__what_says_nothing_changes_nothing(void **unused)
{
	struct auto_state a = given_contended(), b = a;

	(void)unused;
	probe(&a, 1 * MB, 50 * MS, MB / 4, 60 * MS);
	assert_int_equal(a.window.bytes, MB);
	probe(&b, 1 * MB, 50 * MS, 1 * MB, 40 * MS);
	assert_int_equal(b.window.bytes, MB);
}

/* A fall that is hardly to be seen is not divided by: 7 MB left the queue in 4 ms, a sixteenth of the way, and not in
 * 1 us. */
static void rate_auto__a_small_fall_is_bounded(void **unused)
{
	struct auto_state a = {.before_bytes = 8 * MB, .before_rtt_ns = 64 * MS};
	struct rate_sample s = {.sent_in_flight_bytes = MB, .rtt_ns = 64 * MS - 1000};

	(void)unused;
	assert_about(others_bytes(&a, &s), 7 * MB * 16 - MB);
}

/* --- reports that come late --- */

/* Of a line of 1 Gbit/s, alone on it, a report each millisecond. */
static struct auto_state given_reports(void)
{
	struct auto_state a = given_contended();

	a.empty_at_ns = a.now_ns;
	for (int i = 0; i < 100; i++) {
		a.now_ns += MS;
		update_ack_aggregation(&a, &(struct rate_sample){.now_ns = a.now_ns, .acked_bytes = MB / 8});
	}
	return a;
}

static void told_late(struct auto_state *a, uint64_t ms)
{
	a->now_ns += ms * MS;
	update_ack_aggregation(a, &(struct rate_sample){.now_ns = a->now_ns, .acked_bytes = ms * MB / 8});
	a->now_ns += MS;
	update_ack_aggregation(a, &(struct rate_sample){.now_ns = a->now_ns, .acked_bytes = MB / 8});
}

static void rate_auto__late_reports_have_room_in_flight(void **unused)
{
	struct auto_state a = given_reports();

	(void)unused;
	assert_in_range(extra_acked_bytes(&a), 0, MB / 8);
	told_late(&a, 6);
	assert_int_equal(extra_acked_bytes(&a), 6 * MB / 8);
	told_late(&a, 4);
	assert_int_equal(extra_acked_bytes(&a), 6 * MB / 8);
	told_late(&a, 30);
	assert_int_equal(extra_acked_bytes(&a), percent(bdp(&a), EXTRA_ACKED_MOST));
}

/* A worker is late by some milliseconds, however long the way is. */
static void rate_auto__late_reports_have_no_more_room_on_a_longer_way(void **unused)
{
	struct auto_state a = given_reports();

	(void)unused;
	a.min_rtt_ns = 100 * MS;
	told_late(&a, 30);
	assert_int_equal(extra_acked_bytes(&a), rate_bytes(LINE_BPS, EXTRA_ACKED_MOST_NS));
}

/* Probes, and a queue that ran over, need none; and what is over is forgotten. */
static void rate_auto__late_reports_have_no_room_for_ever(void **unused)
{
	struct auto_state a = given_reports(), over = a, up = a;

	(void)unused;
	told_late(&a, 6);
	for (int i = 0; i < 2 * EXTRA_ACKED_FILTER_LEN; i++) {
		assert_true(extra_acked_bytes(&a) > 0);
		age_extra_acked(&a);
	}
	assert_int_equal(extra_acked_bytes(&a), 0);
	told_late(&over, 6);
	over.bw_shortterm = NONE;
	adapt_lower_bounds(&over);
	assert_int_equal(extra_acked_bytes(&over), 0);
	told_late(&up, 6);
	enter_phase(&up, PROBE_BW_UP, up.now_ns);
	assert_int_equal(extra_acked_bytes(&up), 0);
}

/* --- the least round trip --- */

/* What the probe saw; little is in flight, and the window is not looked at. */
static uint64_t least_after(struct auto_state *a, uint64_t rtt_ns)
{
	probe(a, 4 * MB, rtt_ns, MB, rtt_ns);
	return a->min_rtt_ns;
}

/* CUBIC's queue rises and falls. However long the old least was not seen, it is kept. */
static void rate_auto__a_queue_that_rises_and_falls_is_no_longer_way(void **unused)
{
	static const uint64_t ms[] = {40, 30, 45, 36, 50, 31, 40, 40, 40, 33, 40, 40, 40};
	struct auto_state a = given_contended();

	(void)unused;
	for (size_t i = 0; i < sizeof(ms) / sizeof(ms[0]); i++)
		assert_int_equal(least_after(&a, ms[i] * MS), LEAST_NS);
}

/* The same four times is a longer way: with the fourth, and not before. */
static void rate_auto__four_probes_alike_are_a_longer_way(void **unused)
{
	static const uint64_t tenths[] = {400, 410, 395, 402};
	struct auto_state a = given_contended();

	(void)unused;
	assert_int_equal(least_after(&a, 30 * MS), LEAST_NS);
	for (int i = 0; i < 3; i++)
		assert_int_equal(least_after(&a, tenths[i] * MS / 10), LEAST_NS);
	assert_int_equal(least_after(&a, tenths[3] * MS / 10), tenths[3] * MS / 10);
}

/* A tenth is alike, and more is not. */
static void rate_auto__alike_is_within_a_tenth(void **unused)
{
	struct auto_state in = given_contended(), out = in;

	(void)unused;
	for (int i = 0; i < 3; i++) {
		least_after(&in, 40 * MS);
		least_after(&out, 40 * MS);
	}
	assert_int_equal(least_after(&in, 44 * MS), 44 * MS);
	assert_int_equal(least_after(&out, 45 * MS), LEAST_NS);
}

/* Where the queue is nobody else's one probe is enough; in either case not before MIN_RTT_FILTER_LEN_NS. */
static void rate_auto__without_contention_one_probe_is_believed(void **unused)
{
	struct auto_state a = given_contended(), early = a;

	(void)unused;
	a.empty_at_ns = a.now_ns + 10 * SEC;
	assert_int_equal(least_after(&a, 40 * MS), 40 * MS);
	early.empty_at_ns = early.now_ns + 10 * SEC;
	early.min_rtt_stamp = early.now_ns;
	assert_int_equal(least_after(&early, 40 * MS), LEAST_NS);
}

/* --- losses without a queue --- */

/* Cruising, with the line to itself. */
static struct auto_state given_alone(void)
{
	struct auto_state a = given_contended();

	a.empty_at_ns = a.now_ns;
	a.window_known = false;
	a.looked = 0;
	a.bw_shortterm = a.inflight_longterm = NONE;
	a.clear_bps = LINE_BPS;
	a.rounds = 4;
	a.wait_rounds = UINT32_MAX;
	a.cycle_stamp = a.now_ns;
	a.wait_ns = 1000 * SEC;
	return a;
}

/* A round without a queue, of which so many percent are lost. */
static void lose(struct auto_state *a, uint64_t bps, uint64_t lost_percent)
{
	a->now_ns = a->empty_at_ns += LEAST_NS;
	a->rtt_ns = a->most_rtt_ns = a->rtts_ns = LEAST_NS;
	a->nrtts = 1;
	a->round_bps = bps;
	a->lost = lost_percent * MB / 100;
	a->acked = MB - a->lost;
	on_round(a, a->now_ns);
}

/* What a policer lets through is kept to, though its bucket was full for half of the first round, and is not taken for
 * somebody who does not give. */
static void rate_auto__a_policer_is_kept_to(void **unused)
{
	struct auto_state a = given_alone();

	(void)unused;
	lose(&a, LINE_BPS / 10 * 8, 30);
	assert_int_equal(a.bw_shortterm, percent(LINE_BPS / 10 * 8, POLICED));
	for (int i = 0; i < POLICED_ROUNDS; i++)
		lose(&a, LINE_BPS / 2, 30); /* sent before */
	assert_int_equal(a.bw_shortterm, percent(LINE_BPS / 10 * 8, POLICED));
	lose(&a, LINE_BPS / 2, 30);
	assert_int_equal(a.bw_shortterm, percent(LINE_BPS / 2, POLICED));
	for (int i = 0; i < 4 * LOOK_ROUNDS; i++)
		lose(&a, LINE_BPS / 2, 6);
	assert_int_equal(a.deaf_rounds, 0);
	assert_int_equal(a.bw_shortterm, percent(LINE_BPS / 2, POLICED));
}

/* Where as much is lost of less, it is the line's own: to give is of no use. */
static void rate_auto__losses_at_random_are_none_of_a_policer(void **unused)
{
	struct auto_state a = given_alone();
	int i;

	(void)unused;
	for (i = 0; i < 4 * LOOK_ROUNDS && !a.deaf_rounds; i++)
		lose(&a, LINE_BPS / 10 * 7, 30);
	assert_in_range(i, 1 + 2 * POLICED_ROUNDS, 2 * LOOK_ROUNDS);
}

/* A probe that finds room goes on from what it has brought; with a queue, or losses, not before its round is over. */
static void rate_auto__a_probe_goes_on_from_what_it_brings(void **unused)
{
	struct auto_state a = given_alone();
	struct rate_sample s = {.now_ns = a.now_ns + LEAST_NS, .rtt_ns = LEAST_NS, .bw_bps = 5 * LINE_BPS / 4};

	(void)unused;
	a.phase = PROBE_BW_UP;
	a.rounds = 1;
	a.most_rtt_ns = LEAST_NS;
	assert_true(brings_more(&a, &s));
	a.most_rtt_ns = LEAST_NS + LEAST_NS / 5;
	assert_false(brings_more(&a, &s));
	a.most_rtt_ns = LEAST_NS;
	a.lost = 1;
	assert_false(brings_more(&a, &s));
	a.lost = 0;
	a.rounds = 0;
	assert_false(brings_more(&a, &s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rate_auto__late_reports_have_room_in_flight),
	    cmocka_unit_test(rate_auto__late_reports_have_no_more_room_on_a_longer_way),
	    cmocka_unit_test(rate_auto__late_reports_have_no_room_for_ever),
	    cmocka_unit_test(rate_auto__who_has_less_goes_to_two_thirds_of_the_others),
	    cmocka_unit_test(rate_auto__who_has_more_goes_to_as_much_as_the_others),
	    cmocka_unit_test(rate_auto__a_fair_window_is_kept),
	    cmocka_unit_test(rate_auto__one_probe_changes_it_by_two_at_most),
	    cmocka_unit_test(rate_auto__weighs_only_where_a_window_counts),
	    cmocka_unit_test(rate_auto__before_losses_it_goes_down_to_the_others),
	    cmocka_unit_test(rate_auto__a_window_does_not_outgrow_the_others),
	    cmocka_unit_test(rate_auto__deaf_it_has_no_window),
	    cmocka_unit_test(rate_auto__what_says_nothing_changes_nothing),
	    cmocka_unit_test(rate_auto__a_small_fall_is_bounded),
	    cmocka_unit_test(rate_auto__a_queue_that_rises_and_falls_is_no_longer_way),
	    cmocka_unit_test(rate_auto__four_probes_alike_are_a_longer_way),
	    cmocka_unit_test(rate_auto__alike_is_within_a_tenth),
	    cmocka_unit_test(rate_auto__without_contention_one_probe_is_believed),
	    cmocka_unit_test(rate_auto__a_policer_is_kept_to),
	    cmocka_unit_test(rate_auto__losses_at_random_are_none_of_a_policer),
	    cmocka_unit_test(rate_auto__a_probe_goes_on_from_what_it_brings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
