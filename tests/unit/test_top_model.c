/* SPDX-License-Identifier: Apache-2.0 */
/* What `longreach top` makes of answers: rates, order, filter, histories; and what a hostile one cannot do. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/client/client_top_model.c"

static struct top top;

static int setup(void **state)
{
	(void)state;
	memset(&top, 0, sizeof(top));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	top_free(&top);
	return 0;
}

static void take(const char *text)
{
	struct json_object *doc;

	assert_int_equal(jdoc_parse(&doc, text), 0);
	assert_true(top_take(&top, doc));
}

#define FLOW(id, src, bytes, more)                                                                                     \
	"{\"side\":\"near\",\"id\":" #id ",\"incarnation\":1,\"src\":\"" src "\",\"dst\":\"10.2.0.1\",\"dest_qpn\":26,"       \
	"\"bytes\":" #bytes more "}"
#define FLOWS(ns, list) "{\"links\":[{\"name\":\"a\",\"taken_ns\":" #ns ",\"flows\":[" list "],\"flows_left_out\":3}]}"

static void top_take__rates_are_against_the_answer_before(void **state)
{
	(void)state;
	take(FLOWS(1000000000, FLOW(1, "10.1.0.1", 1000, "") "," FLOW(2, "10.1.0.2", 500, "")));
	top_sort(&top, TOP_SORT_RATE, false, "");
	assert_int_equal(top.nshown, 2);
	assert_true(top.shown[0]->bps < 0);
	/* another order, one more, two seconds later */
	take(FLOWS(3000000000, FLOW(3, "10.1.0.3", 9, "") "," FLOW(2, "10.1.0.2", 1500, "") "," FLOW(1, "10.1.0.1", 1001, "")));
	top_sort(&top, TOP_SORT_RATE, false, "");
	assert_int_equal(top.nshown, 3);
	assert_true(top.shown[0]->bps == 4000);
	assert_string_equal(j_text(top.shown[0]->json, "src"), "10.1.0.2");
	assert_true(top.shown[1]->bps == 4);
	assert_true(top.shown[2]->bps < 0);
	assert_int_equal(top.left_out, 3);
	top_sort(&top, TOP_SORT_RATE, true, "");
	assert_string_equal(j_text(top.shown[0]->json, "src"), "10.1.0.3");
}

/* Another life of the same QP, or another link, has no rate yet. */
static void top_take__another_life_is_another_flow(void **state)
{
	(void)state;
	take(FLOWS(1000000000, FLOW(1, "10.1.0.1", 1000, "")));
	take("{\"links\":[{\"name\":\"a\",\"taken_ns\":2000000000,\"flows\":[{\"side\":\"near\",\"id\":1,\"incarnation\":2,"
	     "\"src\":\"10.1.0.1\",\"dst\":\"10.2.0.1\",\"dest_qpn\":26,\"bytes\":5000}]}]}");
	assert_true(top.flows[0].bps < 0);
	take("{\"links\":[{\"name\":\"b\",\"taken_ns\":3000000000,\"flows\":[{\"side\":\"near\",\"id\":1,\"incarnation\":2,"
	     "\"src\":\"10.1.0.1\",\"dst\":\"10.2.0.1\",\"dest_qpn\":26,\"bytes\":6000}]}]}");
	assert_true(top.flows[0].bps < 0);
}

static void top_sort__every_word_of_the_filter(void **state)
{
	(void)state;
	take(FLOWS(1, FLOW(1, "10.1.0.1", 1, ",\"stalled\":true") "," FLOW(2, "10.1.0.2", 2, ",\"rnr\":true") "," FLOW(
	                  3, "fd00::1", 3, "")));
	top_sort(&top, TOP_SORT_BYTES, false, "10.1.");
	assert_int_equal(top.nshown, 2);
	assert_string_equal(j_text(top.shown[0]->json, "src"), "10.1.0.2");
	top_sort(&top, TOP_SORT_BYTES, false, "10.1. STALL");
	assert_int_equal(top.nshown, 1);
	assert_string_equal(j_text(top.shown[0]->json, "src"), "10.1.0.1");
	assert_int_equal(top_find(&top, top.shown[0]->key), 0);
	top_sort(&top, TOP_SORT_BYTES, false, "0x1a fd00");
	assert_int_equal(top.nshown, 1);
	top_sort(&top, TOP_SORT_BYTES, false, "nobody");
	assert_int_equal(top.nshown, 0);
	assert_int_equal(top_find(&top, top.flows[0].key), -1);
	top_sort(&top, TOP_SORT_STATE, false, "");
	assert_string_equal(top_flow_state(top.shown[0]->json), "stalled");
}

static void top_take__links_come_and_go(void **state)
{
	(void)state;
	take("{\"links\":[{\"name\":\"a\",\"rates\":{\"lan_rx_bps\":5}},{\"name\":\"b\",\"buffer\":{\"from_lan\":"
	     "{\"used_bytes\":1,\"capacity_bytes\":4}}}]}");
	assert_int_equal(top.nlinks, 2);
	assert_true(top.link[0].out.v[0] == 5);
	assert_true(top.link[1].fill.v[0] == 0.25);
	take("{\"links\":[{\"name\":\"b\",\"flows\":[]}]}"); /* this one alone was asked for */
	assert_int_equal(top.nlinks, 2);
	assert_null(top.link[0].json);
	assert_int_equal(top.link[1].fill.n, 2);
	take("{\"links\":[{\"name\":\"b\"}]}");
	assert_int_equal(top.nlinks, 1);
	assert_string_equal(top.link[0].name, "b");
}

/* More links than there are, no names, wrong types, numbers beyond reason. */
static void top_take__nonsense(void **state)
{
	char text[TOP_LINKS_MAX * 64] = "{\"links\":[";

	(void)state;
	for (int i = 0; i < TOP_LINKS_MAX + 9; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s{\"name\":\"%d\"}", i ? "," : "", i);
	strcat(text, "]}");
	take(text);
	assert_int_equal(top.nlinks, TOP_LINKS_MAX);
	take("{\"links\":[{},{\"name\":7,\"rates\":[],\"buffer\":\"\"},3,{\"name\":\"x\",\"flows\":[{},{\"id\":\"y\","
	     "\"bytes\":1e300},null]},null]}");
	top_sort(&top, TOP_SORT_RATE, false, "near");
	top_sort(&top, TOP_SORT_HOST, true, "");
	assert_true(top.nshown >= 2);
	take("{}");
	assert_int_equal(top.nlinks, 0);
	assert_int_equal(top.nshown, 0);
}

static void top_spark__scales_and_aligns(void **state)
{
	struct top_series s = {0};
	char buf[64];

	(void)state;
	top_spark(buf, sizeof(buf), &s, 3, 0, false);
	assert_string_equal(buf, "   ");
	for (int i = 0; i < 4; i++)
		top_series_put(&s, i);
	top_spark(buf, sizeof(buf), &s, 6, 0, false);
	assert_string_equal(buf, "   -*@");
	top_spark(buf, sizeof(buf), &s, 2, 6, false);
	assert_string_equal(buf, "-+");
	top_spark(buf, sizeof(buf), &s, 1, 1, true);
	assert_string_equal(buf, "█");
	for (int i = 0; i < 1000; i++)
		top_series_put(&s, i);
	assert_int_equal(s.n, TOP_SERIES_MAX);
	assert_true(s.v[TOP_SERIES_MAX - 1] == 999);
	top_spark(buf, 8, &s, TOP_SERIES_MAX, 0, true); /* no room: cut, never beyond */
	assert_true(strlen(buf) < 8);
}

static void top_printable__moves_no_cursor(void **state)
{
	char buf[8];

	(void)state;
	assert_string_equal(top_printable(buf, sizeof(buf), "a\033[2J\xffz"), "a?[2J?z");
	assert_string_equal(top_printable(buf, sizeof(buf), "longer than that"), "longer ");
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(top_take__rates_are_against_the_answer_before),
	    TEST(top_take__another_life_is_another_flow),
	    TEST(top_sort__every_word_of_the_filter),
	    TEST(top_take__links_come_and_go),
	    TEST(top_take__nonsense),
	    TEST(top_spark__scales_and_aligns),
	    TEST(top_printable__moves_no_cursor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
