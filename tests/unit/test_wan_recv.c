/* SPDX-License-Identifier: Apache-2.0 */
/* The receive window: nothing counts twice, and every number is spoken of often enough. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/wan/dgram/wan_recv.h"

static uint64_t bits[WAN_RECV_WORDS];
static uint64_t words[WAN_REPORT_WORDS_MAX];
static struct wan_report rep;

static struct wan_recv fresh(void)
{
	struct wan_recv r;

	memset(bits, 0, sizeof(bits));
	wan_recv_init(&r, bits);
	return r;
}

static bool report(struct wan_recv *r, uint64_t now_ns)
{
	return wan_recv_report(r, now_ns, REPORTS_TOLD, &rep, words, WAN_REPORT_WORDS_MAX);
}

static bool spoken_of(uint64_t pn)
{
	return pn >= rep.base && pn < rep.base + 64ull * rep.words && pn <= rep.largest;
}

static bool called_received(uint64_t pn)
{
	return spoken_of(pn) && (words[(pn - rep.base) / 64] >> (pn % 64) & 1);
}

static void wan_recv__replay_is_seen(void **state)
{
	struct wan_recv r = fresh();

	(void)state;
	assert_false(wan_recv_seen(&r, 0));
	assert_false(wan_recv_seen(&r, 1000000));
	wan_recv_mark(&r, 5, 1, true);
	assert_true(wan_recv_seen(&r, 5));
	assert_false(wan_recv_seen(&r, 4));
	assert_false(wan_recv_seen(&r, 6));
	wan_recv_mark(&r, 4, 2, true);
	assert_true(wan_recv_seen(&r, 4));
	wan_recv_reset(&r);
	assert_false(wan_recv_seen(&r, 5));
}

/* What is older than the window counts as seen, what is within is known exactly, also after wrapping. */
static void wan_recv__window(void **state)
{
	struct wan_recv r = fresh();
	uint64_t top = 5ull * WAN_RX_BITS + 7;

	(void)state;
	for (uint64_t pn = 1; pn <= top; pn += 2)
		wan_recv_mark(&r, pn, pn, true);
	assert_true(wan_recv_seen(&r, 0));
	assert_true(wan_recv_seen(&r, top - WAN_RX_BITS));
	for (uint64_t pn = top - WAN_RX_BITS + 64; pn <= top; pn++)
		if (wan_recv_seen(&r, pn) != (pn % 2 == 1))
			fail_msg("number %llu", (unsigned long long)pn);
	assert_false(wan_recv_seen(&r, top + 1));
}

/* A jump forgets what was there before: no bit of an old number stands for a new one. */
static void wan_recv__jumps_leave_nothing_behind(void **state)
{
	static const uint64_t jumps[] = {1,
	                                 63,
	                                 64,
	                                 65,
	                                 WAN_RX_BITS - 65,
	                                 WAN_RX_BITS - 64,
	                                 WAN_RX_BITS - 1,
	                                 WAN_RX_BITS,
	                                 WAN_RX_BITS + 1,
	                                 1ull << 40,
	                                 (1ull << 62) - 1 - 128};

	(void)state;
	for (size_t i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++) {
		struct wan_recv r = fresh();

		for (uint64_t pn = 0; pn < 128; pn++)
			wan_recv_mark(&r, pn, 1, true);
		wan_recv_mark(&r, 127 + jumps[i], 2, true);
		for (uint64_t back = 1; back < jumps[i] && back < 3 * 64; back++)
			assert_false(wan_recv_seen(&r, 127 + jumps[i] - back));
		if (jumps[i] > WAN_RX_BITS - 64)
			continue;
		for (uint64_t pn = 128; pn < 127 + jumps[i]; pn++)
			if (wan_recv_seen(&r, pn))
				fail_msg("jump by %llu: number %llu", (unsigned long long)jumps[i],
				         (unsigned long long)pn);
		assert_true(wan_recv_seen(&r, 127));
	}
}

static void wan_recv__nothing_to_report_yet(void **state)
{
	struct wan_recv r = fresh();

	(void)state;
	assert_false(report(&r, 100));
	wan_recv_probe(&r, 0, 100);
	assert_false(report(&r, 100));
}

static void wan_recv__report_says_what_arrived(void **state)
{
	struct wan_recv r = fresh();

	(void)state;
	wan_recv_mark(&r, 0, 100, true);
	wan_recv_mark(&r, 3, 200, true);
	wan_recv_mark(&r, 70, 300, true);
	wan_recv_mark(&r, 2, 400, true); /* late: the delay counts from the largest */
	assert_int_equal(r.unreported, 4);
	assert_int_equal(r.first_unreported_ns, 100);
	assert_true(report(&r, 1000));
	assert_int_equal(rep.base, 0);
	assert_int_equal(rep.words, 2);
	assert_int_equal(rep.largest, 70);
	assert_int_equal(rep.delay_ns, 700);
	assert_true(words[0] == 0xd);
	assert_true(words[1] == 1ull << 6);
	assert_int_equal(r.unreported, 0);
}

/* Each number, arrived or not, is spoken of in at least three reports: the loss of two in a row tells nobody wrong. */
static void wan_recv__every_number_in_three_reports(void **state)
{
	enum { N = 20000 };
	struct wan_recv r = fresh();
	uint8_t *spoken = calloc(N, 1);
	uint64_t s = 12345, pn = 0;

	(void)state;
	assert_non_null(spoken);
	while (pn < N) {
		uint64_t n;

		s = s * 6364136223846793005ull + 1442695040888963407ull;
		n = (s >> 33) % 300 + 1;
		for (; n && pn < N; n--, pn++) {
			s = s * 6364136223846793005ull + 1442695040888963407ull;
			if ((s >> 33) % 5)
				wan_recv_mark(&r, pn, pn, true);
		}
		assert_true(report(&r, pn));
		for (uint64_t i = 0; i < pn; i++)
			if (spoken_of(i) && spoken[i] < 255) {
				spoken[i]++;
				assert_int_equal(called_received(i), wan_recv_seen(&r, i));
			}
	}
	for (int i = 0; i < 2; i++) {
		wan_recv_mark(&r, pn, pn, true);
		pn++;
		report(&r, pn);
		for (uint64_t k = 0; k < N; k++)
			spoken[k] = (uint8_t)(spoken[k] + (spoken_of(k) && spoken[k] < 255));
	}
	for (uint64_t i = 0; i + 1 < N; i++)
		if (spoken[i] < 3 && i < r.next)
			fail_msg("number %llu is in %u reports", (unsigned long long)i, spoken[i]);
	free(spoken);
}

/* A repair that arrives late is told of at once although it is far back. */
static void wan_recv__late_arrival_reaches_back(void **state)
{
	struct wan_recv r = fresh();

	(void)state;
	for (uint64_t pn = 0; pn < 1000; pn++) {
		if (pn != 130)
			wan_recv_mark(&r, pn, pn, true);
		if (pn % 100 == 99)
			report(&r, pn);
	}
	assert_false(spoken_of(130));
	wan_recv_mark(&r, 130, 2000, true);
	assert_true(report(&r, 2000));
	assert_true(called_received(130));
	assert_true(report(&r, 2001)); /* and then no more */
	assert_true(rep.base > 130);
}

static void wan_recv__probe_reaches_back(void **state)
{
	struct wan_recv r = fresh();

	(void)state;
	for (uint64_t pn = 0; pn < 2000; pn++) {
		if (pn % 7)
			wan_recv_mark(&r, pn, pn, true);
		if (pn % 100 == 99)
			report(&r, pn);
	}
	report(&r, 3000);
	assert_true(rep.base > 500);
	wan_recv_probe(&r, 500, 3000);
	assert_int_equal(r.unreported, 1);
	assert_true(report(&r, 3000));
	assert_true(rep.base <= 500);
	for (uint64_t pn = 500; pn < 2000; pn++)
		assert_int_equal(called_received(pn), pn % 7 != 0);
}

/* About numbers that never arrived: the highest that did is spoken of, so that the peer learns something. */
static void wan_recv__probe_ahead(void **state)
{
	struct wan_recv r = fresh();

	(void)state;
	wan_recv_mark(&r, 9, 1, true);
	report(&r, 1);
	wan_recv_probe(&r, 1ull << 61, 2);
	assert_true(report(&r, 3));
	assert_int_equal(rep.largest, 9);
	assert_true(called_received(9));
}

/* More words than a frame holds: the rest comes in the next one, nothing is left out. */
static void wan_recv__long_reports_are_continued(void **state)
{
	struct wan_recv r = fresh();
	uint64_t top = 64 * 200, expect = 0;
	int n = 0;

	(void)state;
	for (uint64_t pn = 0; pn < top; pn++)
		wan_recv_mark(&r, pn, pn, true);
	while (r.unreported) {
		assert_true(wan_recv_report(&r, top, REPORTS_TOLD, &rep, words, 10));
		assert_in_range(rep.words, 1, 10);
		assert_int_equal(rep.base, expect);
		expect = rep.base + 64ull * rep.words;
		assert_true(++n <= 20);
	}
	assert_int_equal(expect, top);
}

/* A peer that jumps to the end of its numbers makes no endless or unbounded report. */
static void wan_recv__hostile_jump_is_bounded(void **state)
{
	struct wan_recv r = fresh();
	int n = 0;

	(void)state;
	wan_recv_mark(&r, 0, 1, true);
	wan_recv_mark(&r, (1ull << 62) - 1, 2, true);
	while (r.unreported) {
		assert_true(report(&r, 3));
		assert_true(rep.largest - rep.base <= WAN_RX_BITS);
		assert_true(++n <= WAN_RX_BITS / 4096 + 1);
	}
	wan_recv_probe(&r, 0, 4);
	assert_true(report(&r, 5));
	assert_true(rep.largest - rep.base <= WAN_RX_BITS);
}

static void wan_recv__refused_stays_unseen(void **state)
{
	struct wan_recv r = fresh();

	(void)state;
	assert_true(wan_recv_refuse(&r, 130));
	assert_true(wan_recv_refuse(&r, 128));
	assert_false(wan_recv_refuse(&r, 127)); /* another word: only lost to the peer */
	assert_false(wan_recv_refuse(&r, 192));
	assert_int_equal(r.refused_base, 128);
	assert_true(r.refused_bits == 5);
	assert_false(wan_recv_seen(&r, 130));
	r.refused_bits = 0; /* told */
	assert_true(wan_recv_refuse(&r, 7));
	assert_int_equal(r.refused_base, 0);
}

static void wan_recv__only_what_wants_it_asks_for_a_report(void **state)
{
	struct wan_recv r = fresh();

	(void)state;
	wan_recv_mark(&r, 0, 5, false); /* a datagram with a report alone: reports of reports would never end */
	assert_int_equal(r.unreported, 0);
	wan_recv_mark(&r, 1, 6, true);
	wan_recv_mark(&r, 2, 7, true);
	assert_int_equal(r.unreported, 2);
	assert_int_equal(r.first_unreported_ns, 6);
}

/* Whatever is rebuilt far back, reports go on to what is new. */
static void wan_recv__rebuilt_holds_no_report_back(void **state)
{
	struct wan_recv r = fresh();
	uint64_t newest = 0;

	(void)state;
	for (uint64_t pn = 1; pn < 4000; pn += 2)
		wan_recv_mark(&r, pn, 5, true);
	for (int i = 0; i < 17 * REPORTS_TOLD; i++) /* all of them, so often */
		assert_true(wan_recv_report(&r, 6, REPORTS_TOLD, &rep, words, 4));
	for (uint64_t pn = 4001; pn < 5000; pn += 64) {
		wan_recv_mark(&r, pn, 7, true);
		wan_recv_mark_rebuilt(&r, pn - 3999, 7, true);
		assert_true(wan_recv_seen(&r, pn - 3999));
		assert_true(wan_recv_report(&r, 8, REPORTS_TOLD, &rep, words, 4));
		if (rep.base + 64ull * rep.words > newest)
			newest = rep.base + 64ull * rep.words;
	}
	assert_true(newest > 4900);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wan_recv__replay_is_seen),
	    cmocka_unit_test(wan_recv__window),
	    cmocka_unit_test(wan_recv__jumps_leave_nothing_behind),
	    cmocka_unit_test(wan_recv__nothing_to_report_yet),
	    cmocka_unit_test(wan_recv__report_says_what_arrived),
	    cmocka_unit_test(wan_recv__every_number_in_three_reports),
	    cmocka_unit_test(wan_recv__late_arrival_reaches_back),
	    cmocka_unit_test(wan_recv__probe_reaches_back),
	    cmocka_unit_test(wan_recv__probe_ahead),
	    cmocka_unit_test(wan_recv__long_reports_are_continued),
	    cmocka_unit_test(wan_recv__hostile_jump_is_bounded),
	    cmocka_unit_test(wan_recv__refused_stays_unseen),
	    cmocka_unit_test(wan_recv__rebuilt_holds_no_report_back),
	    cmocka_unit_test(wan_recv__only_what_wants_it_asks_for_a_report),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
