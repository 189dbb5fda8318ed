/* SPDX-License-Identifier: Apache-2.0 */
/* Bins of what hosts send: what a worker writes, and what the main thread makes of several workers' bins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/lan/burst_ring.c"
#include "daemon/link/bursts.c"

#define T0 1700000000u /* seconds; a multiple of the bin */

static struct burst_ring ring[4]; /* port * 2 + worker */
static struct bursts bursts;

static int setup(void **state)
{
	(void)state;
	memset(ring, 0, sizeof(ring));
	memset(&bursts, 0, sizeof(bursts));
	for (unsigned i = 0; i < 4; i++)
		assert_true(burst_ring_init(&ring[i]));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		burst_ring_free(&ring[i]);
	return 0;
}

static uint64_t wall(double ms)
{
	return T0 * 1000000000ull + (uint64_t)(ms * 1e6);
}

static void frame_of(unsigned priority, unsigned r, double ms, uint32_t bytes)
{
	uint64_t ns = wall(ms);

	burst_ring_add(&ring[r], (uint32_t)(ns / 1000000000u), (uint32_t)(ns % 1000000000u), priority, bytes);
}

static void frame(unsigned r, double ms, uint32_t bytes)
{
	frame_of(3, r, ms, bytes);
}

/* Of all priorities. */
static const struct burst_sum *sum_at(const struct burst_series *series, uint32_t i)
{
	return &burst_second_at(series, i)->sum[BURST_ALL];
}

/* All rings are flushed, as a snapshot does, and looked at. */
static void look(double ms)
{
	const struct burst_ring *list[4];

	for (unsigned i = 0; i < bursts.nports * bursts.nworkers; i++) {
		burst_ring_flush(&ring[i]);
		list[i] = &ring[i];
	}
	bursts_look(&bursts, list, wall(ms));
}

static void burst_ring__a_bin_ends_with_the_first_frame_of_another(void **state)
{
	uint64_t cursor = 0, missed = 0;
	struct burst_cell c;

	(void)state;
	frame(0, 1.000, 100);
	frame(0, 1.0999, 20);
	assert_false(burst_ring_read(&ring[0], &cursor, &missed, &c));
	frame(0, 1.100, 7);
	assert_true(burst_ring_read(&ring[0], &cursor, &missed, &c));
	assert_int_equal(c.bytes, 120);
	assert_int_equal(c.index, (T0 * 10000ull + 10) & ((1ull << BURST_INDEX_BITS) - 1));
	assert_false(burst_ring_read(&ring[0], &cursor, &missed, &c));
	burst_ring_flush(&ring[0]);
	burst_ring_flush(&ring[0]); /* nothing more */
	assert_true(burst_ring_read(&ring[0], &cursor, &missed, &c));
	assert_int_equal(c.bytes, 7);
	assert_false(burst_ring_read(&ring[0], &cursor, &missed, &c));
	assert_int_equal(missed, 0);
}

/* RFC 2474: DSCP is the upper six bits of the second byte in IPv4, and of bits 4 to 11 in IPv6. */
static void burst_priority__is_the_tag_s_and_else_the_dscp_s(void **state)
{
	const uint8_t ip4[2] = {0x45, 26 << 2 | 2}, ip6[2] = {0x60 | 48 >> 2, (48 << 2 & 15) << 4}, none[2] = {0x45, 1};

	(void)state;
	assert_int_equal(burst_priority(ip4, 0), 3);
	assert_int_equal(burst_priority(ip6, 0), 6);
	assert_int_equal(burst_priority(none, 0), 0);
	assert_int_equal(burst_priority(ip4, 5 << 13 | 1 << 12 | 100), 5);
	assert_int_equal(burst_priority(ip4, 100), 0); /* a tag without priority: priority 0, whatever the DSCP is */
	assert_int_equal(burst_priority(ip6, 7 << 13), 7);
}

/* A cell for each priority that had frames in the bin. */
static void burst_ring__a_bin_has_a_cell_for_each_priority(void **state)
{
	uint64_t cursor = 0, missed = 0;
	struct burst_cell c;

	(void)state;
	frame_of(7, 0, 1.000, 5);
	frame_of(0, 0, 1.010, 100);
	frame_of(7, 0, 1.020, 6);
	burst_ring_flush(&ring[0]);
	assert_true(burst_ring_read(&ring[0], &cursor, &missed, &c));
	assert_int_equal(c.priority, 0);
	assert_int_equal(c.bytes, 100);
	assert_true(burst_ring_read(&ring[0], &cursor, &missed, &c));
	assert_int_equal(c.priority, 7);
	assert_int_equal(c.bytes, 11);
	assert_int_equal(c.index, (T0 * 10000ull + 10) & ((1ull << BURST_INDEX_BITS) - 1));
	assert_false(burst_ring_read(&ring[0], &cursor, &missed, &c));
}

static void burst_ring__overwritten_cells_are_missed(void **state)
{
	uint64_t cursor = 0, missed = 0, n = 0;
	struct burst_cell c = {0};

	(void)state;
	for (unsigned i = 0; i < BURST_CELLS + 100; i++)
		frame(0, i * 0.1, i + 1);
	burst_ring_flush(&ring[0]);
	while (burst_ring_read(&ring[0], &cursor, &missed, &c))
		n++;
	assert_int_equal(n, BURST_CELLS - 1);
	assert_int_equal(n + missed, BURST_CELLS + 100);
	assert_int_equal(c.bytes, BURST_CELLS + 100);
}

static void burst_ring__bytes_saturate(void **state)
{
	uint64_t cursor = 0, missed = 0;
	struct burst_cell c;

	(void)state;
	frame(0, 1, UINT32_MAX);
	burst_ring_flush(&ring[0]);
	assert_true(burst_ring_read(&ring[0], &cursor, &missed, &c));
	assert_int_equal(c.bytes, BURST_BYTES_MAX);
	assert_int_equal(c.index, (T0 * 10000ull + 10) & ((1ull << BURST_INDEX_BITS) - 1));
}

/* Two workers of two ports in the same bin: each port has its own, the link has all. */
static void bursts_look__workers_and_ports_are_added_bin_by_bin(void **state)
{
	const struct burst_sum *s;

	(void)state;
	bursts_init(&bursts, 2, 2, wall(0));
	frame(0, 500.01, 1000);
	frame(1, 500.09, 200);
	frame(2, 500.05, 30);
	frame(3, 700.00, 1100); /* alone in its bin: less than the three above */
	look(1000);
	assert_int_equal(burst_second_at(&bursts.port[0], 0)->unix_s, T0);
	s = sum_at(&bursts.port[0], 0);
	assert_int_equal(s->bytes, 1200);
	assert_int_equal(s->most_bytes[BURST_100US], 1200);
	assert_int_equal(s->most_ns[BURST_100US], wall(500));
	s = sum_at(&bursts.port[1], 0);
	assert_int_equal(s->most_bytes[BURST_100US], 1100);
	assert_int_equal(s->most_ns[BURST_100US], wall(700));
	s = sum_at(&bursts.port[2], 0);
	assert_int_equal(s->bytes, 2330);
	assert_int_equal(s->most_bytes[BURST_100US], 1230);
	assert_int_equal(s->most_ns[BURST_100US], wall(500));
	assert_int_equal(bursts.missed, 0);
}

/* 1 ms is aligned to the clock, not to the burst. */
static void bursts_look__ten_bins_are_a_millisecond(void **state)
{
	const struct burst_sum *s;

	(void)state;
	bursts_init(&bursts, 1, 1, wall(0));
	for (int i = 0; i < 15; i++)
		frame(0, 100.5 + i * 0.1, 1000);
	look(1000);
	s = sum_at(&bursts.port[0], 0);
	assert_int_equal(s->most_bytes[BURST_100US], 1000);
	assert_int_equal(s->most_bytes[BURST_1MS], 10000);
	assert_int_equal(s->most_ns[BURST_1MS], wall(101));
	assert_int_equal(burst_bps(1000, BURST_100US), 80000000);
	assert_int_equal(burst_bps(10000, BURST_1MS), 80000000);
}

/* Each priority has its own fullest bins, at its own times: neither is the fullest of all. */
static void bursts_look__priorities_have_sums_of_their_own(void **state)
{
	const struct burst_second *s;

	(void)state;
	bursts_init(&bursts, 2, 2, wall(0));
	frame_of(3, 0, 100.0, 700);
	frame_of(5, 1, 100.0, 400); /* another worker, the same bin: 1100 of all */
	frame_of(3, 0, 200.0, 800);
	frame_of(5, 0, 300.0, 300);
	frame_of(5, 0, 300.1, 300); /* the same millisecond */
	frame_of(5, 2, 300.1, 200); /* the other port */
	look(1000);
	s = burst_second_at(&bursts.port[0], 0);
	assert_int_equal(s->sum[BURST_ALL].most_bytes[BURST_100US], 1100);
	assert_int_equal(s->sum[3].most_bytes[BURST_100US], 800);
	assert_int_equal(s->sum[3].most_ns[BURST_100US], wall(200));
	assert_int_equal(s->sum[3].bytes, 1500);
	assert_int_equal(s->sum[5].most_bytes[BURST_100US], 400);
	assert_int_equal(s->sum[5].most_ns[BURST_100US], wall(100));
	assert_int_equal(s->sum[5].most_bytes[BURST_1MS], 600);
	assert_int_equal(s->sum[5].most_ns[BURST_1MS], wall(300));
	assert_int_equal(s->sum[0].bytes, 0);
	s = burst_second_at(&bursts.port[2], 0);
	assert_int_equal(s->sum[5].most_bytes[BURST_100US], 500);
	assert_int_equal(s->sum[5].most_bytes[BURST_1MS], 800);
	assert_int_equal(bursts.port[2].bytes[5], 1200);
	assert_int_equal(bursts.port[2].bytes[6], 0);
}

/* A millisecond that ends behind a look is whole, though its priority has no frame in the next one. */
static void bursts_look__a_millisecond_of_a_priority_goes_on(void **state)
{
	(void)state;
	bursts_init(&bursts, 1, 1, wall(0));
	frame_of(4, 0, 100.0, 500);
	look(200.5); /* up to 100.5 ms */
	assert_int_equal(burst_second_at(&bursts.port[0], 0)->sum[4].most_bytes[BURST_1MS], 0);
	frame_of(6, 0, 100.7, 1);
	look(300);
	assert_int_equal(burst_second_at(&bursts.port[0], 0)->sum[4].most_bytes[BURST_1MS], 500);
	assert_int_equal(burst_second_at(&bursts.port[0], 0)->sum[6].most_bytes[BURST_1MS], 1);
	frame_of(4, 0, 300.0, 20);
	look(500);
	assert_int_equal(burst_second_at(&bursts.port[0], 0)->sum[4].most_bytes[BURST_1MS], 500);
}

/* A bin that may still grow waits for the next look, and one that a flush has cut in two is whole. */
static void bursts_look__a_bin_counts_once_it_is_whole(void **state)
{
	(void)state;
	bursts_init(&bursts, 1, 1, wall(0));
	frame(0, 450.01, 500);
	look(500); /* up to 400 ms */
	assert_int_equal(bursts.port[0].bytes[BURST_ALL], 0);
	frame(0, 450.02, 700);
	look(600);
	assert_int_equal(bursts.port[0].bytes[BURST_ALL], 1200);
	assert_int_equal(sum_at(&bursts.port[0], 0)->most_bytes[BURST_100US], 1200);
	frame(0, 450.03, 9); /* later than the margin: named, not counted */
	look(700);
	assert_int_equal(bursts.port[0].bytes[BURST_ALL], 1200);
	assert_int_equal(bursts.missed, 1);
}

static void bursts_look__histogram_has_every_bin(void **state)
{
	const uint64_t *h;
	uint64_t n = 0, ms = 0;

	(void)state;
	bursts_init(&bursts, 1, 1, wall(0));
	frame(0, 100, 125);     /* 10 Mbit/s, not above the bound */
	frame(0, 200, 126);     /* just above it */
	frame(0, 300, 1250000); /* 100 Gbit/s */
	frame(0, 400, 12500000); /* 1 Tbit/s: above all bounds */
	look(1100);
	h = bursts.port[0].histogram[BURST_100US];
	for (unsigned i = 0; i <= BURST_BOUND_COUNT; i++) {
		n += h[i];
		ms += bursts.port[0].histogram[BURST_1MS][i];
	}
	assert_int_equal(n, 10000);
	assert_int_equal(ms, 1000);
	assert_int_equal(h[0], 9996);
	assert_int_equal(h[1], 1);
	assert_int_equal(h[2], 1);
	assert_int_equal(h[11], 1);
	assert_int_equal(burst_bounds_bps[11], 100000000000ull);
	assert_int_equal(h[BURST_BOUND_COUNT], 1);
}

static void bursts_look__history_is_bounded(void **state)
{
	const struct burst_second *s;

	(void)state;
	bursts_init(&bursts, 1, 1, wall(0));
	for (int i = 0; i < 100; i++) {
		frame(0, i * 1000 + 500, 100 + (uint32_t)i);
		look(i * 1000 + 1100);
	}
	s = burst_second_at(&bursts.port[0], 0);
	assert_int_equal(s->unix_s, T0 + 100 - BURSTS_HISTORY);
	assert_null(burst_second_at(&bursts.port[0], BURSTS_HISTORY));
	s = burst_second_at(&bursts.port[0], BURSTS_HISTORY - 1);
	assert_int_equal(s->unix_s, T0 + 99);
	assert_int_equal(s->sum[BURST_ALL].bytes, 199);
	assert_ptr_equal(burst_sum_most(&bursts.port[0], BURST_ALL, BURST_100US), &s->sum[BURST_ALL]);
	assert_int_equal(bursts.port[0].histogram[BURST_100US][0], 100 * 10000 - 100);
}

/* Neither wedges it, nor makes bins up. */
static void bursts_look__the_clock_is_set(void **state)
{
	(void)state;
	bursts_init(&bursts, 1, 1, wall(3600000));
	frame(0, 3600000, 100);
	look(3600200);
	assert_int_equal(bursts.port[0].bytes[BURST_ALL], 100);
	look(100); /* an hour back */
	frame(0, 150, 50);
	look(300);
	assert_int_equal(bursts.port[0].bytes[BURST_ALL], 150);
	frame(0, 7200000, 7); /* two hours on */
	look(7200200);
	assert_int_equal(bursts.port[0].bytes[BURST_ALL], 157);
	assert_int_equal(bursts.missed, 0);
	assert_in_range(bursts.port[0].histogram[BURST_100US][0], 1000, 3000 + BURST_CELLS);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(burst_ring__a_bin_ends_with_the_first_frame_of_another),
	    TEST(burst_priority__is_the_tag_s_and_else_the_dscp_s),
	    TEST(burst_ring__a_bin_has_a_cell_for_each_priority),
	    TEST(burst_ring__overwritten_cells_are_missed),
	    TEST(burst_ring__bytes_saturate),
	    TEST(bursts_look__workers_and_ports_are_added_bin_by_bin),
	    TEST(bursts_look__ten_bins_are_a_millisecond),
	    TEST(bursts_look__priorities_have_sums_of_their_own),
	    TEST(bursts_look__a_millisecond_of_a_priority_goes_on),
	    TEST(bursts_look__a_bin_counts_once_it_is_whole),
	    TEST(bursts_look__histogram_has_every_bin),
	    TEST(bursts_look__history_is_bounded),
	    TEST(bursts_look__the_clock_is_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
