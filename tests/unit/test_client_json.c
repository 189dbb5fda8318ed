/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/buffer.h>

#include "daemon/client/client_json.c"
#include "daemon/telemetry/json.c"

static void parse(struct jdoc *d, char *buf, size_t cap, const char *text)
{
	assert_true(strlen(text) < cap);
	strcpy(buf, text);
	assert_int_equal(jdoc_parse(d, buf), 0);
}

static void jdoc_parse__reads_what_it_is_given(void **state)
{
	struct jdoc d;
	char buf[256];
	const struct jnode *root, *links, *l;

	(void)state;
	parse(&d, buf, sizeof(buf),
	      "{\"ok\":true,\"n\":18446744073709551615,\"r\":0.25,\"links\":[{\"name\":\"a\\\"b\\n\"},{\"name\":\"c\"},"
	      "{}],"
	      "\"none\":[],\"z\":null}");
	root = jdoc_root(&d);
	assert_true(j_bool(root, "ok"));
	assert_true(j_uint(root, "n") == UINT64_MAX);
	assert_true(j_number(root, "r") == 0.25);
	links = j_get(root, "links");
	l = j_next(links, NULL);
	assert_string_equal(j_text(l, "name"), "a\"b\n");
	l = j_next(links, l);
	assert_string_equal(j_text(l, "name"), "c");
	l = j_next(links, l);
	assert_string_equal(j_text(l, "name"), "");
	assert_null(j_next(links, l));
	assert_null(j_next(j_get(root, "none"), NULL));
	jdoc_free(&d);
}

static void jdoc_parse__what_is_missing_reads_as_nothing(void **state)
{
	struct jdoc d;
	char buf[64];

	(void)state;
	parse(&d, buf, sizeof(buf), "{\"a\":\"text\",\"n\":1}");
	assert_null(j_get(jdoc_root(&d), "b"));
	assert_null(j_get(j_get(jdoc_root(&d), "b"), "c"));
	assert_int_equal(j_uint(jdoc_root(&d), "a"), 0);
	assert_string_equal(j_text(jdoc_root(&d), "n"), "");
	assert_false(j_bool(NULL, "x"));
	jdoc_free(&d);
}

static void jdoc_parse__refuses_what_is_none(void **state)
{
	static const char *const bad[] = {"",        "{",          "[1",    "{\"a\"}", "{\"a\":}", "[1,]",
	                                  "[,1]",    "{\"a\":1,}", "\"abc", "tru",     "1 2",      "{a:1}",
	                                  "\"\\x\"", "\"\\u12\"",  "]",     "nulll",   "\"a\nb\"", "\"\\"};
	struct jdoc d;
	char buf[64];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		strcpy(buf, bad[i]);
		if (jdoc_parse(&d, buf) != -EINVAL)
			fail_msg("taken: %s", bad[i]);
	}
}

static void jdoc_parse__depth_is_bounded(void **state)
{
	struct jdoc d;
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
	const struct jnode *root, *list;
	struct jdoc d;
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
	json_bool(&j, "last", false);
	json_object_end(&j);
	evbuffer_add(j.out, "\n", 1);
	text = evbuffer_readln(j.out, NULL, EVBUFFER_EOL_LF);
	assert_int_equal(evbuffer_get_length(j.out), 0); /* one line */
	assert_int_equal(jdoc_parse(&d, text), 0);
	root = jdoc_root(&d);
	assert_string_equal(j_text(root, "s"), nasty);
	assert_true(j_uint(root, "u") == UINT64_MAX);
	assert_true(j_number(root, "r") == 0.001);
	list = j_get(root, "list");
	assert_int_equal(list->count, 2);
	assert_true(j_next(list, NULL)->truth);
	assert_non_null(j_get(root, "last"));
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
	    cmocka_unit_test(json__can_be_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
