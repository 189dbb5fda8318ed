/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/buffer.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/client/client_json.h"
#include "daemon/util/json.h"

static void jdoc_parse__reads_what_it_is_given(void **state)
{
	struct json_object *d;
	const struct json_object *links, *l;

	(void)state;
	assert_int_equal(
	    jdoc_parse(&d, "{\"ok\":true,\"n\":18446744073709551615,\"r\":0.25,"
	                   "\"links\":[{\"name\":\"a\\\"b\\n\"},{\"name\":\"c\"},{}],\"none\":[],\"z\":null}"),
	    0);
	assert_true(j_bool(d, "ok"));
	assert_true(j_uint(d, "n") == UINT64_MAX);
	assert_true(j_number(d, "r") == 0.25);
	links = j_get(d, "links");
	l = j_at(links, 0);
	assert_string_equal(j_text(l, "name"), "a\"b\n");
	l = j_at(links, 1);
	assert_string_equal(j_text(l, "name"), "c");
	l = j_at(links, 2);
	assert_string_equal(j_text(l, "name"), "");
	assert_null(j_at(links, 3));
	assert_null(j_at(j_get(d, "none"), 0));
	assert_null(j_at(d, 0));
	jdoc_free(&d);
}

static void jdoc_parse__what_is_missing_reads_as_nothing(void **state)
{
	struct json_object *d;

	(void)state;
	assert_int_equal(jdoc_parse(&d, "{\"a\":\"12\",\"n\":1}"), 0);
	assert_null(j_get(d, "b"));
	assert_null(j_get(j_get(d, "b"), "c"));
	assert_int_equal(j_uint(d, "a"), 0);
	assert_true(j_number(d, "a") == 0);
	assert_string_equal(j_text(d, "n"), "");
	assert_false(j_bool(NULL, "x"));
	jdoc_free(&d);
}

static void jdoc_parse__refuses_what_is_none(void **state)
{
	static const char *const bad[] = {"",        "{",          "[1",    "{\"a\"}", "{\"a\":}", "[1,]",
	                                  "[,1]",    "{\"a\":1,}", "\"abc", "tru",     "1 2",      "{a:1}",
	                                  "\"\\x\"", "\"\\u12\"",  "]",     "nulll",   "\"\\"};
	struct json_object *d;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (jdoc_parse(&d, bad[i]) != -EINVAL || d != NULL)
			fail_msg("taken: %s", bad[i]);
}

static void j_answer_take__owns_its_text_whatever_it_says(void **state)
{
	struct j_answer a;

	(void)state;
	assert_int_equal(j_answer_take(&a, strdup("{\"ok\":true}")), 0);
	assert_true(j_bool(a.doc, "ok"));
	assert_string_equal(a.text, "{\"ok\":true}");
	j_answer_free(&a);
	assert_null(a.doc);
	j_answer_free(&a);
	assert_int_equal(j_answer_take(&a, strdup("no")), -EINVAL);
	assert_string_equal(a.text, "no");
	assert_null(a.doc);
	j_answer_free(&a);
	assert_int_equal(j_answer_take(&a, NULL), -ENOENT);
	assert_null(a.text);
	j_answer_free(&a);
}

static void jdoc_parse__depth_is_bounded(void **state)
{
	struct json_object *d;
	char buf[64];

	(void)state;
	memset(buf, '[', sizeof(buf) - 1);
	buf[sizeof(buf) - 1] = '\0';
	assert_int_equal(jdoc_parse(&d, buf), -EINVAL);
}

/* The daemon's writer and the client's reader agree. */
static void json__can_be_read_back(void **state)
{
	static const char nasty[] = "\"quoted\" \\ back\nnext\ttab \x01 \xc3\xa9";
	struct json j = {.out = evbuffer_new()};
	const struct json_object *list;
	struct json_object *d;
	char *text;

	(void)state;
	json_object(&j, NULL);
	json_string(&j, "s", nasty);
	json_uint(&j, "u", UINT64_MAX);
	json_real(&j, "r", 0.001);
	json_array(&j, "list");
	json_bool(&j, NULL, true);
	json_object(&j, NULL);
	json_object_end(&j);
	json_array_end(&j);
	json_bool(&j, "yes", true);
	json_bool(&j, "last", false);
	json_object_end(&j);
	evbuffer_add(j.out, "\n", 1);
	text = evbuffer_readln(j.out, NULL, EVBUFFER_EOL_LF);
	assert_int_equal(evbuffer_get_length(j.out), 0); /* one line */
	assert_int_equal(jdoc_parse(&d, text), 0);
	assert_string_equal(j_text(d, "s"), nasty);
	assert_true(j_uint(d, "u") == UINT64_MAX);
	assert_true(j_number(d, "r") == 0.001);
	list = j_get(d, "list");
	assert_non_null(j_at(list, 1));
	assert_null(j_at(list, 2));
	assert_true(j_bool(d, "yes"));
	assert_non_null(j_get(d, "last"));
	jdoc_free(&d);
	free(text);
	evbuffer_free(j.out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(jdoc_parse__reads_what_it_is_given),
	    cmocka_unit_test(jdoc_parse__what_is_missing_reads_as_nothing),
	    cmocka_unit_test(jdoc_parse__refuses_what_is_none),
	    cmocka_unit_test(jdoc_parse__depth_is_bounded),
	    cmocka_unit_test(j_answer_take__owns_its_text_whatever_it_says),
	    cmocka_unit_test(json__can_be_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
