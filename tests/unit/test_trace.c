/* SPDX-License-Identifier: Apache-2.0 */
/* The ring that a trace is kept in, with its reader on another thread; and rows out of samples. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "core_fixture.h"
#include "daemon/client/client_json.c"
#include "daemon/client/client_rows.c"
#undef STALE_NS
#include "daemon/worker/trace.c"

/* --- the ring --- */

static struct trace_sample numbered(uint64_t n)
{
	return (struct trace_sample){.now_ns = n, .tx_bytes = 3 * n, .in_flight_bytes = ~n};
}

static void assert_numbered(const struct trace_sample *s, uint64_t n)
{
	assert_int_equal(s->now_ns, n);
	assert_int_equal(s->tx_bytes, 3 * n);
	assert_int_equal(s->in_flight_bytes, ~n);
}

static void trace_next__in_order_then_none(void **state)
{
	struct trace t;
	struct trace_sample s;
	uint64_t cursor = 0, missed = 0;

	(void)state;
	assert_true(trace_init(&t, 1));
	assert_false(trace_next(&t, &cursor, &missed, &s));
	for (uint64_t i = 1; i <= 3; i++) {
		struct trace_sample one = numbered(i);

		trace_put(&t, &one);
	}
	for (uint64_t i = 1; i <= 3; i++) {
		assert_true(trace_next(&t, &cursor, &missed, &s));
		assert_numbered(&s, i);
	}
	assert_false(trace_next(&t, &cursor, &missed, &s));
	assert_int_equal(missed, 0);
	assert_int_equal(cursor, trace_end(&t));
	trace_free(&t);
}

/* One cell is always the writer's: a ring of n keeps n - 1. */
static void trace_next__overwritten_ones_are_counted(void **state)
{
	struct trace t;
	struct trace_sample s;
	uint64_t cursor = 0, missed = 0, n = 3 * TRACE_PATH_SLOTS + 17, got = 0;

	(void)state;
	assert_true(trace_init(&t, 1));
	for (uint64_t i = 0; i < n; i++) {
		struct trace_sample one = numbered(i);

		trace_put(&t, &one);
	}
	while (trace_next(&t, &cursor, &missed, &s))
		assert_numbered(&s, missed + got++);
	assert_int_equal(got, TRACE_PATH_SLOTS - 1);
	assert_int_equal(missed + got, n);
	trace_free(&t);
}

#define RACE 400000u

static void *write_many(void *arg)
{
	for (uint64_t i = 0; i < RACE; i++) {
		struct trace_sample one = numbered(i);

		trace_put(arg, &one);
	}
	return NULL;
}

/* Whatever the reader gets is whole, and it gets or misses each one. */
static void trace_next__beside_a_writer_samples_are_whole(void **state)
{
	struct trace t;
	struct trace_sample s;
	uint64_t cursor = 0, missed = 0, got = 0;
	pthread_t writer;

	(void)state;
	assert_true(trace_init(&t, 1));
	assert_int_equal(pthread_create(&writer, NULL, write_many, &t), 0);
	while (missed + got < RACE)
		if (trace_next(&t, &cursor, &missed, &s))
			assert_numbered(&s, missed + got++);
	pthread_join(writer, NULL);
	assert_int_equal(cursor, RACE);
	trace_free(&t);
}

/* --- what is written --- */

static bool lose(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)dgram;
	return from != &c->a || len < 1000;
}

static struct trace_sample newest(const struct trace *t)
{
	struct trace_sample s = {0};
	uint64_t cursor = trace_end(t) - 1, missed = 0;

	assert_true(trace_next(t, &cursor, &missed, &s));
	return s;
}

static void trace_look__every_so_often_and_sooner_for_losses(void **state)
{
	static struct core c;
	struct trace t;
	struct trace_sample s;

	(void)state;
	core_open(&c, ACK_MODE_NEAR);
	assert_true(trace_init(&t, 1));
	trace_look(&t, c.a.p, NULL, c.now_ns);
	assert_int_equal(trace_end(&t), 1);
	trace_look(&t, c.a.p, NULL, c.now_ns + TRACE_EVERY_NS - 1);
	assert_int_equal(trace_end(&t), 1);
	core_send_run(&c, 1, 20);
	core_wait(&c, TRACE_EVERY_NS);
	trace_look(&t, c.a.p, NULL, c.now_ns);
	assert_int_equal(trace_end(&t), 2);
	s = newest(&t);
	assert_int_equal(s.marks & 1u << TRACE_LOST, 0);
	assert_in_range(s.tx_bytes, 20 * CORE_PMTU, UINT64_MAX);
	assert_int_equal(s.tx_bytes, proxy_path_stats(c.a.p, 0)->tx_bytes);
	assert_in_range(s.acked_bytes, 20 * CORE_PMTU, s.tx_bytes);

	c.wan = lose;
	core_send_run(&c, 21, 4);
	c.wan = NULL;
	for (int i = 0; i < 400 && core_ctr(&c.a, CTR_WAN_LOST) == 0; i++) {
		core_wait(&c, CORE_MS);
		core_send(&c, RC_WRITE_ONLY, (uint32_t)(25 + i)); /* something to be told of */
	}
	assert_int_not_equal(core_ctr(&c.a, CTR_WAN_LOST), 0);
	t.last[0].now_ns = c.now_ns - TRACE_SOON_NS; /* as if it had just been looked at */
	trace_look(&t, c.a.p, NULL, c.now_ns);
	s = newest(&t);
	assert_int_not_equal(s.marks & 1u << TRACE_LOST, 0);
	assert_int_equal(s.lost, core_ctr(&c.a, CTR_WAN_LOST));
	trace_free(&t);
	core_close(&c);
}

static void trace_look__a_death_at_once(void **state)
{
	static struct core c;
	struct trace t;
	uint64_t before;

	(void)state;
	memset(&c, 0, sizeof(c));
	c.now_ns = CORE_START;
	c.npaths = 2;
	core_edges_open(&c, ACK_MODE_NEAR, 32, 32);
	core_session(&c);
	assert_true(trace_init(&t, 2));
	core_wait(&c, 3 * CORE_MS);
	core_send_run(&c, 1, 20);
	core_wait(&c, CORE_MS);
	trace_look(&t, c.a.p, NULL, c.now_ns);
	before = trace_end(&t);
	c.cut = true;
	core_send_run(&c, 21, 20);
	while (proxy_path_stats(c.a.p, 0)->deaths == 0) {
		core_wait(&c, CORE_MS);
		assert_in_range(c.now_ns, 0, CORE_START + 5000 * CORE_MS);
	}
	t.last[0].now_ns = t.last[1].now_ns = c.now_ns; /* looked at in this very moment */
	trace_look(&t, c.a.p, NULL, c.now_ns);
	assert_in_range(trace_end(&t), before + 1, before + 2);
	assert_int_not_equal(newest(&t).marks & 1u << TRACE_DEAD, 0);
	before = trace_end(&t);
	trace_look(&t, c.a.p, NULL, c.now_ns);
	assert_in_range(trace_end(&t), before, before + 1); /* the other one may have died as well */
	trace_free(&t);
	core_close(&c);
}

/* --- rows --- */

static bool feed(struct rows *r, struct row *row, unsigned worker, uint64_t ms, uint64_t acked, uint64_t lost,
                 const char *marks)
{
	char *text;
	struct jdoc doc = {0};
	bool is_row;

	assert_true(asprintf(&text,
	                     "{\"now_ns\":%llu,\"path\":\"p\",\"path_number\":0,\"worker\":%u,\"state\":\"up\","
	                     "\"acked_bytes\":%llu,\"lost\":%llu,\"in_flight_bytes\":1000,\"marks\":[%s]}",
	                     (unsigned long long)(1000000000 + ms * 1000000), worker, (unsigned long long)acked,
	                     (unsigned long long)lost, marks) > 0);
	assert_int_equal(jdoc_parse(&doc, text), 0);
	is_row = rows_take(r, jdoc_root(&doc), row);
	jdoc_free(&doc);
	free(text);
	return is_row;
}

static void rows_take__rates_and_sums_since_the_beginning(void **state)
{
	struct rows r = {0};
	struct row row;

	(void)state;
	assert_false(feed(&r, &row, 0, 0, 1000000, 7, "")); /* nothing is known of the time before */
	assert_true(feed(&r, &row, 0, 10, 1125000, 9, "\"lost\""));
	assert_float_equal(row.acked_bps, 1e8, 1);
	assert_int_equal(row.sums.lost, 2);
	assert_string_equal(row.marks, "lost");
	assert_float_equal(row.s, 0.01, 1e-9);
	assert_true(feed(&r, &row, 0, 20, 1125000, 9, ""));
	assert_float_equal(row.acked_bps, 0, 1);
	assert_string_equal(row.marks, "");
}

static void rows_take__workers_are_added_up(void **state)
{
	struct rows r = {0};
	struct row row;

	(void)state;
	feed(&r, &row, 0, 0, 0, 0, "");
	feed(&r, &row, 1, 1, 0, 100, "");
	feed(&r, &row, 0, 10, 125000, 0, "");
	assert_true(feed(&r, &row, 1, 11, 125000, 103, ""));
	assert_float_equal(row.acked_bps, 2e8, 1);
	assert_float_equal(row.in_flight_bytes, 2000, 1);
	assert_int_equal(row.sums.lost, 3);
	assert_true(feed(&r, &row, 0, 1500, 125000, 0, "")); /* the other one has nothing to do any more */
	assert_float_equal(row.in_flight_bytes, 1000, 1);
}

static void rows_take__thinned_rows_leave_nothing_out(void **state)
{
	struct rows r = {.every_ns = 50 * 1000000};
	struct row row;
	unsigned n = 0;

	(void)state;
	for (unsigned ms = 0; ms <= 200; ms += 5)
		if (feed(&r, &row, 0, ms, 1000 * ms, ms, ms == 25 ? "\"lost\"" : ms == 30 ? "\"rate\",\"lost\"" : "")) {
			n++;
			assert_float_equal(row.acked_bps, 8e6, 1);
			assert_string_equal(row.marks, n == 1 ? "lost rate" : "");
		}
	assert_int_equal(n, 4);
	assert_int_equal(row.sums.lost, 200);
}

static void rows_take__after_a_restart_sums_go_on(void **state)
{
	struct rows r = {0};
	struct row row;

	(void)state;
	feed(&r, &row, 0, 0, 1000, 50, "");
	assert_true(feed(&r, &row, 0, 10, 2000, 51, ""));
	rows_begin_again(&r);
	assert_false(feed(&r, &row, 0, 20, 0, 0, ""));
	assert_true(feed(&r, &row, 0, 30, 125000, 1, ""));
	assert_int_equal(row.sums.lost, 2);
	assert_float_equal(row.acked_bps, 1e8, 1);
}

static void rows_take__nonsense_is_no_row(void **state)
{
	struct rows r = {0};
	struct row row;

	(void)state;
	feed(&r, &row, 16, 0, 0, 0, "");
	assert_false(feed(&r, &row, 16, 10, 1, 1, ""));
	assert_false(feed(&r, &row, 4000000000u, 20, 1, 1, ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(trace_next__in_order_then_none),
	    cmocka_unit_test(trace_next__overwritten_ones_are_counted),
	    cmocka_unit_test(trace_next__beside_a_writer_samples_are_whole),
	    cmocka_unit_test(trace_look__every_so_often_and_sooner_for_losses),
	    cmocka_unit_test(trace_look__a_death_at_once),
	    cmocka_unit_test(rows_take__rates_and_sums_since_the_beginning),
	    cmocka_unit_test(rows_take__workers_are_added_up),
	    cmocka_unit_test(rows_take__thinned_rows_leave_nothing_out),
	    cmocka_unit_test(rows_take__after_a_restart_sums_go_on),
	    cmocka_unit_test(rows_take__nonsense_is_no_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
