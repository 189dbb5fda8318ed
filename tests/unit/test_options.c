/* SPDX-License-Identifier: Apache-2.0 */
/* test_options.c - command lines that are not understood. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/options.c"

#define PARSE(o, ...)                                                                                                  \
	do {                                                                                                           \
		char *argv[] = {(char *)"longreachd", __VA_ARGS__, NULL};                                              \
		parse((o), (int)(sizeof(argv) / sizeof(argv[0])) - 1, argv);                                           \
	} while (0)

static void parse(struct options *o, int argc, char **argv)
{
	optind = 0;
	options_parse(argc, argv, o);
}

static void options_parse__an_error_does_nothing(void **state)
{
	struct options o;

	(void)state;
	PARSE(&o, (char *)"--metrcis", (char *)"9470");
	assert_true(o.action == DO_EXIT && o.exit_status == 2);
	PARSE(&o, (char *)"--exports", (char *)"--new");
	assert_true(o.action == DO_EXIT && o.exit_status == 2);
	PARSE(&o, (char *)"--metrics");
	assert_true(o.action == DO_EXIT && o.exit_status == 2);
	PARSE(&o, (char *)"--watch");
	assert_true(o.action == DO_EXIT && o.exit_status == 2);
	PARSE(&o, (char *)"north.conf");
	assert_true(o.action == DO_EXIT && o.exit_status == 2);
}

static void assert_closes(const struct options *o, const char *dir)
{
	assert_int_equal(o->action, DO_CLOSE);
	assert_int_equal(o->exit_status, 2);
	assert_true(o->sources.doubtful);
	assert_string_equal(o->sources.dir, dir);
}

/* Options of /etc/default/longreach, as the units put them behind --close. */
static void options_parse__an_error_closes_all_the_same(void **state)
{
	struct options o;

	(void)state;
	PARSE(&o, (char *)"--close", (char *)"--watch", (char *)"--metrcis", (char *)"9470", (char *)"--config-dir",
	      (char *)"/srv/links", (char *)"--pcap");
	assert_closes(&o, "/srv/links");
	assert_true(o.watch);
	PARSE(&o, (char *)"--close", (char *)"--config-dri", (char *)"/srv/links");
	assert_closes(&o, "/etc/longreach");
	PARSE(&o, (char *)"--new", (char *)"--close");
	assert_closes(&o, "/etc/longreach");
	PARSE(&o, (char *)"--close", (char *)"-x");
	assert_closes(&o, "/etc/longreach");
	PARSE(&o, (char *)"--close", (char *)"--check-config", (char *)"north.conf");
	assert_closes(&o, "/etc/longreach");
	PARSE(&o, (char *)"--close", (char *)"--offline");
	assert_closes(&o, "/etc/longreach");
}

static void options_parse__what_is_understood(void **state)
{
	struct options o;

	(void)state;
	PARSE(&o, (char *)"--close", (char *)"--metrics", (char *)"9470");
	assert_true(o.action == DO_CLOSE && o.exit_status == 0 && !o.sources.doubtful && !o.watch);
	PARSE(&o, (char *)"--check-config", (char *)"--offline", (char *)"north.conf");
	assert_true(o.action == DO_CHECK && o.exit_status == 0 && o.sources.nfiles == 1);
	PARSE(&o, (char *)"--close", (char *)"--help");
	assert_true(o.action == DO_EXIT && o.exit_status == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(options_parse__an_error_does_nothing),
	    cmocka_unit_test(options_parse__an_error_closes_all_the_same),
	    cmocka_unit_test(options_parse__what_is_understood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
