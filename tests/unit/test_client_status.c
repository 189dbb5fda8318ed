/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's status in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/client/client_status.c"
#include "daemon/link/site.h"

static char *text;

static int teardown(void **state)
{
	(void)state;
	free(text);
	text = NULL;
	return 0;
}

static void path(const char *json)
{
	struct json_object *doc;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(jdoc_parse(&doc, json), 0);
	show_path(out, doc);
	fclose(out);
	jdoc_free(&doc);
}

static void says(const char *what)
{
	if (strstr(text, what) == NULL)
		fail_msg("\"%s\" is missing in:\n%s", what, text);
}

static void status__a_line_that_loses_nothing_has_no_bursts(void **state)
{
	(void)state;
	path("{\"state\":\"up\",\"in_use\":true,\"rate_control\":\"fixed\",\"line_loss\":0,\"reordered\":3}");
	says("\n            the line loses 0 %; lost 0 in 0 bursts, longest 0; reordered 3; repaired 0, by FEC 0\n");
	assert_null(strstr(text, "in bursts of"));
}

static void status__a_line_that_loses(void **state)
{
	(void)state;
	path("{\"state\":\"up\",\"in_use\":true,\"rate_control\":\"fixed\",\"line_loss\":0.01,\"line_loss_burst\":2.5,\"lost\":12,"
	     "\"lost_spuriously\":2,\"loss_bursts\":4,\"loss_burst_longest\":5,\"repaired_by_retransmission\":10}");
	says("the line loses 1 %, in bursts of 2.5; lost 10 in 4 bursts, longest 5; reordered 0; repaired 10, by FEC 0\n");
	teardown(NULL);
	path("{\"state\":\"up\",\"in_use\":true,\"rate_control\":\"fixed\",\"line_loss\":0.01}"); /* too few to tell */
	says("the line loses 1 %; lost 0");
}

static bool well(const char *json)
{
	struct json_object *doc;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	bool is;

	assert_non_null(out);
	assert_int_equal(jdoc_parse(&doc, json), 0);
	is = status_is_well(out, doc);
	fclose(out);
	jdoc_free(&doc);
	return is;
}

/* It works, and after a reboot it would be another one. */
static void status__check_names_a_file_that_is_not_in_force(void **state)
{
	(void)state;
	assert_true(well("{\"links\":[{\"name\":\"tokyo\",\"state\":\"up\",\"restart_needed\":\"\"}]}"));
	assert_string_equal(text, "");
	teardown(NULL);
	assert_true(well("{\"links\":[{\"name\":\"tokyo\",\"state\":\"up\",\"restart_needed\":\"Size= was changed\"}]}"));
	assert_string_equal(text, "longreach: link tokyo: its link file is not in force: Size= was changed\n");
}

#define TOKYO "\"name\":\"tokyo\",\"state\":\"up\",\"workers\":4"

/* The link carries, and not as its file or the daemon asks for. */
static void status__check_names_workers_that_keep_a_former_configuration(void **state)
{
	(void)state;
	assert_true(well("{\"links\":[{" TOKYO ",\"workers_not_reconfigured\":0,\"early_acks_held\":true}]}"));
	assert_string_equal(text, "");
	teardown(NULL);
	assert_false(well("{\"links\":[{" TOKYO ",\"workers_not_reconfigured\":1}]}"));
	assert_string_equal(text, "longreach: link tokyo: 1 of 4 workers go on with the configuration before the last change: they are "
	                          "given the new one every second; if this lasts, `longreach restart tokyo`\n");
	teardown(NULL);
	assert_false(well("{\"links\":[{" TOKYO ",\"workers_not_reconfigured\":2,\"early_acks_held\":true}]}"));
	says("longreach: link tokyo: 2 of 4 workers go on");
	says(", and may acknowledge early, which the new one forbids: ");
}

static void shown(const char *json)
{
	struct json_object *doc;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(jdoc_parse(&doc, json), 0);
	status_show(out, doc, NULL, false);
	fclose(out);
	jdoc_free(&doc);
}

static void status__shows_workers_that_keep_a_former_configuration(void **state)
{
	(void)state;
	shown("{\"links\":[{" TOKYO ",\"workers_not_reconfigured\":1}]}");
	says("\n  workers   1 of 4 workers go on with the configuration before");
	teardown(NULL);
	shown("{\"links\":[{" TOKYO ",\"workers_not_reconfigured\":0}]}");
	assert_null(strstr(text, "go on with"));
}

/* The difference of two answers, and what they are about. */
static void costs(const char *now, const char *before)
{
	struct json_object *doc[2] = {NULL};
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(jdoc_parse(&doc[0], now), 0);
	if (before)
		assert_int_equal(jdoc_parse(&doc[1], before), 0);
	cost_show(out, doc[0], doc[1]);
	fclose(out);
	for (int i = 0; i < 2; i++)
		if (doc[i])
			jdoc_free(&doc[i]);
}

#define COST(running, busy, turns, sampled, sampled_ns, ns, packets)                                                   \
	"{\"worker_costs\":[{\"worker\":0,\"cpu\":3,\"running_ns\":" #running ",\"busy_ns\":" #busy                       \
	",\"busy_turns\":" #turns ",\"sampled_turns\":" #sampled ",\"sampled_ns\":" #sampled_ns                             \
	",\"ticks_per_ns\":3,\"stages\":[{\"stage\":\"lan_take\",\"ns\":" #ns ",\"packets\":" #packets                     \
	"},{\"stage\":\"timers\",\"ns\":500}]}]}"

/* One turn in 17 is in the sample: 17 times its 100 packets in two seconds, at 450 ns each. */
static void status__where_the_time_of_workers_goes(void **state)
{
	(void)state;
	costs(COST(5000000000, 1500000000, 2700, 200, 90000, 60000, 200),
	      COST(3000000000, 500000000, 1000, 100, 30000, 15000, 100));
	says("  worker 0 on CPU 3: busy 50.0 % of the time between two answers; of that:\n");
	says("            lan_take      75.0 %         850         450            1350\n");
	says("            timers         0.0 %\n");
	teardown(NULL);
	costs(COST(2000000000, 500000000, 1700, 100, 60000, 45000, 100), NULL);
	says("busy 25.0 % of its time; of that:\n");
	teardown(NULL);
	costs(COST(2000000000, 0, 0, 0, 0, 0, 0), NULL);
	says("  worker 0 on CPU 3: busy 0.0 % of its time, too little for a sample\n");
	teardown(NULL);
	costs(COST(0, 0, 0, 0, 0, 0, 0), NULL);
	says("has not run yet\n");
	teardown(NULL);
	costs("{}", NULL); /* an older daemon */
	assert_string_equal(text, "");
}

#define REFUSED "\"refused\":\"osaka.conf:3: Nonsense=\\nno RoCE at all\""

/* Links that run are as they were; after a reboot none would run. */
static void status__check_names_files_that_were_refused(void **state)
{
	(void)state;
	assert_true(well("{\"links\":[{" TOKYO "}]," REFUSED "}"));
	assert_string_equal(text, "longreach: the link files are not in force: osaka.conf:3: Nonsense=\n"
	                          "longreach: the link files are not in force: no RoCE at all\n");
	teardown(NULL);
	assert_false(well("{\"links\":[{" TOKYO "}],\"refused\":\"\",\"all_roce_closed\":true}"));
	says("longreach: all RoCE that this machine would forward is closed, because a link file cannot be understood");
	teardown(NULL);
	assert_false(well("{\"links\":[]," REFUSED "}"));
	says("longreach: no link is loaded: link files are refused\n");
}

static void status__shows_files_that_were_refused(void **state)
{
	(void)state;
	shown("{\"links\":[]," REFUSED ",\"all_roce_closed\":true}");
	assert_string_equal(text, "the link files are not in force; mend them, and run `longreach reload`:\n"
	                          "  osaka.conf:3: Nonsense=\n  no RoCE at all\n"
	                          "all RoCE that this machine would forward is closed, because a link file cannot be understood: mend "
	                          "it, and run `longreach reload`\n");
}

/* The links run all the same. */
static void status__shows_that_no_metrics_are_served(void **state)
{
#define UNSERVED "\"metrics_error\":\"--metrics 9470: cannot listen\""

	(void)state;
	assert_true(well("{\"links\":[{" TOKYO "}]," UNSERVED "}"));
	teardown(NULL);
	shown("{\"links\":[{" TOKYO "}]," UNSERVED "}");
	says("\n\nno metrics are served: --metrics 9470: cannot listen\n");
	teardown(NULL);
	shown("{\"links\":[{" TOKYO "}],\"metrics_error\":\"\"}");
	assert_null(strstr(text, "no metrics"));
}

/* A word such as "open" does not tell that something is wrong. */
static void status__says_what_each_state_means(void **state)
{
#define X(e, name, text) name,
	static const char *const states[] = {SITE_STATES(X)};
#undef X

	(void)state;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if (strcmp(states[i], "up") != 0 && strcmp(state_text(states[i]), states[i]) == 0)
			fail_msg("status says nothing of state %s", states[i]);
	assert_string_equal(state_text("up"), "up");
	assert_string_equal(state_text("new"), "new");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(status__a_line_that_loses_nothing_has_no_bursts, teardown),
	    cmocka_unit_test_teardown(status__a_line_that_loses, teardown),
	    cmocka_unit_test_teardown(status__check_names_a_file_that_is_not_in_force, teardown),
	    cmocka_unit_test_teardown(status__check_names_workers_that_keep_a_former_configuration, teardown),
	    cmocka_unit_test_teardown(status__shows_workers_that_keep_a_former_configuration, teardown),
	    cmocka_unit_test_teardown(status__check_names_files_that_were_refused, teardown),
	    cmocka_unit_test_teardown(status__where_the_time_of_workers_goes, teardown),
	    cmocka_unit_test_teardown(status__shows_files_that_were_refused, teardown),
	    cmocka_unit_test_teardown(status__shows_that_no_metrics_are_served, teardown),
	    cmocka_unit_test(status__says_what_each_state_means),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
