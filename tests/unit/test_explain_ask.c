/* SPDX-License-Identifier: Apache-2.0 */
/* What explain asks the daemon for, and what it says of what the daemon's answer leaves out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/client/explain.c"

#define FAR(qpn, members, facts)                                                                                       \
	"{\"side\":\"far\",\"id\":" #qpn                                                                               \
	",\"incarnation\":1,\"src\":\"10.1.0.2\",\"dst\":\"10.2.0.2\",\"dest_qpn\":" #qpn "," members                  \
	",\"facts\":{" facts "\"opened_age_ns\":60000000000}}"
#define SILENT                                                                                                         \
	FAR(21, "\"pairing\":\"learning\",\"pos_base\":10,\"pos_delivered\":10",                                       \
	    "\"turns_unanswered\":5,\"undelivered\":7,")
#define ANSWERED(members, heard_ns)                                                                                    \
	FAR(22, "\"pairing\":\"paired\",\"pos_base\":10,\"pos_delivered\":900" members, "\"responder_heard_age_ns\":" #heard_ns ",")
#define ANSWERS ANSWERED("", 1000000)

/* Of host 10.2.0.2 there are a queue pair that never answered and one that does. */
static const char *of_all = SILENT "," ANSWERS;
static const char *left_out = "0";
static const char *of_link = "\"state\":\"up\",\"counters\":{}";
static unsigned asked;

char *client_ask(const char *path, const char *request)
{
	bool all = strcmp(request, "flow") == 0 || strcmp(request, "flow host 10.2.0.2") == 0;
	char *text = malloc(4096);

	(void)path;
	asked++;
	assert_non_null(text);
	snprintf(text, 4096,
	         "{\"ok\":true,\"links\":[{\"name\":\"l\",%s,\"rtt_ns\":3000000,\"barrier\":{\"mode\":"
	         "\"off\"},\"local_prefixes\":[\"10.2.0.0/16\"],\"remote_prefixes\":[\"10.1.0.0/16\"],"
	         "\"flows_left_out\":%s,\"flows\":[%s]}]}",
	         of_link, left_out, all ? of_all : SILENT);
	return text;
}

bool doctor_host_is_deaf(const struct ip_addr *host)
{
	(void)host;
	return false;
}

unsigned sleep(unsigned s)
{
	(void)s;
	return 0;
}

static char *text;

/* Runs `longreach explain` with these words, and keeps what it prints; returns its exit status. */
static int explains(const char *word, const char *option)
{
	char name[] = "explain", words[2][64] = {"", ""}, *argv[4] = {name};
	FILE *out = tmpfile(), *was = stdout;
	size_t len = 0;
	int argc = 1, code;

	snprintf(words[0], sizeof(words[0]), "%s", word);
	snprintf(words[1], sizeof(words[1]), "%s", option);
	for (int i = 0; i < 2; i++)
		if (words[i][0] != '\0')
			argv[argc++] = words[i];
	asked = 0;
	optind = 1;
	stdout = out;
	code = explain_main(argc, argv, "/control");
	stdout = was;
	rewind(out);
	free(text);
	text = NULL;
	assert_true(getdelim(&text, &len, '\0', out) >= 0);
	fclose(out);
	return code;
}

static void says(const char *what)
{
	if (strstr(text, what) == NULL)
		fail_msg("\"%s\" is missing in:\n%s", what, text);
}

/* `longreach explain HOST:QPN` is what no_answer asks for at the responder's edge. */
static void explain__of_one_queue_pair_knows_the_hosts_other_ones(void **state)
{
	static const char *const words[] = {"10.2.0.2:21", "21", "far:21", "10.1.0.2>10.2.0.2:21", "10.2.0.2", ""};

	(void)state;
	left_out = "0";
	of_all = SILENT "," ANSWERS;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		assert_int_equal(explains(words[i], ""), 1);
		says("qp_or_gid: far:21");
		says("its other queue pairs answer");
		assert_true(asked <= 3);
	}
}

static void explain__of_the_only_queue_pair(void **state)
{
	(void)state;
	left_out = "0";
	of_all = SILENT;
	assert_int_equal(explains("10.2.0.2:21", ""), 1);
	says("return_route: far:21");
}

static void explain__flows_that_were_left_out_are_not_healthy(void **state)
{
	(void)state;
	left_out = "1200";
	of_all = ANSWERS;
	assert_int_equal(explains("", ""), 2);
	says("nothing is wrong with 1 flow here\n");
	says("1200 more flows were not looked at");
	assert_int_equal(explains("", "--json"), 2);
	says("\"healthy\": false");
	says("\"flows_left_out\": 1200");
	of_all = SILENT;
	assert_int_equal(explains("", ""), 1);
	says("1200 more flows were not looked at");
	left_out = "0";
	of_all = ANSWERS;
	assert_int_equal(explains("", ""), 0);
	assert_int_equal(explains("", "--json"), 0);
	says("\"healthy\": true");
}

/* The host worked yesterday: its route may be gone today. */
static void explain__answers_of_long_ago_prove_no_route(void **state)
{
	(void)state;
	left_out = "0";
	of_all = SILENT "," ANSWERED("", 86400000000000);
	assert_int_equal(explains("10.2.0.2:21", ""), 1);
	says("return_route: far:21");
	of_all = SILENT "," ANSWERED(",\"ended\":true,\"ended_age_ns\":1000000", 1000000);
	assert_int_equal(explains("", ""), 1);
	says("return_route: far:21");
}

/* What ended yesterday does not stand for what fails now. */
static void explain__ended_flows_stand_for_no_live_ones(void **state)
{
#define LOSES(qpn, members) FAR(qpn, "\"pairing\":\"paired\",\"pos_base\":0,\"pos_next\":100000" members, "\"seq_naks\":900,")
	(void)state;
	left_out = "0";
	of_all = LOSES(31, ",\"ended\":true,\"ended_age_ns\":72000000000000") "," LOSES(32, "") "," LOSES(33, "");
	assert_int_equal(explains("", ""), 1);
	says("lan_loss: far:31 10.1.0.2:0x0 > 10.2.0.2:0x1f (ended 72000 s ago): ");
	says("lan_loss: far:32 10.1.0.2:0x0 > 10.2.0.2:0x20 and 1 more between these hosts");
}

static void explain__a_link_that_does_not_run(void **state)
{
	(void)state;
	left_out = "0";
	of_all = "";
	of_link = "\"state\":\"failed\",\"error\":\"no memory for its buffer\"";
	assert_int_equal(explains("", ""), 1);
	says("l: line_down: line: no packet crosses between the edges now: the link does not run (failed: no memory for its buffer)");
	of_all = SILENT;
	assert_int_equal(explains("10.2.0.7", ""), 1);
	says("line_down");
	assert_null(strstr(text, "route"));
	of_link = "\"state\":\"up\",\"counters\":{}";
}

static void explain__a_full_table_and_no_flow(void **state)
{
	(void)state;
	left_out = "0";
	of_all = "";
	of_link = "\"state\":\"up\",\"counters\":{},\"flow_counts\":{\"pairs_end_to_end\":3}";
	assert_int_equal(explains("10.2.0.2", ""), 1);
	says("no_place: no flow: this edge has no flow of 10.2.0.2, and its table is full: queue pairs of 3 pairs of hosts");
	assert_null(strstr(text, "its route does not lead here"));
	of_link = "\"state\":\"up\",\"counters\":{}";
	assert_int_equal(explains("10.2.0.2", ""), 1);
	says("route: this edge has no flow of 10.2.0.2 for the other site, and remembers none of the last that ended");
}

static int teardown(void **state)
{
	(void)state;
	free(text);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(explain__of_one_queue_pair_knows_the_hosts_other_ones),
	    cmocka_unit_test(explain__of_the_only_queue_pair),
	    cmocka_unit_test(explain__flows_that_were_left_out_are_not_healthy),
	    cmocka_unit_test(explain__answers_of_long_ago_prove_no_route),
	    cmocka_unit_test(explain__ended_flows_stand_for_no_live_ones),
	    cmocka_unit_test(explain__a_link_that_does_not_run),
	    cmocka_unit_test(explain__a_full_table_and_no_flow),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
