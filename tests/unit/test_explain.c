/* SPDX-License-Identifier: Apache-2.0 */
/* What explain says of a flow, out of what the daemon tells of it: each cause by name, and nothing of a healthy one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/client/explain_causes.c"

#define LINK_UP "{\"name\":\"l\",\"state\":\"up\",\"rtt_ns\":3000000,\"rate_bps\":1000000000,\"barrier\":{\"mode\":\"pair\"}}"

/* The causes that explain would tell of it, each with a blank behind it. */
static const char *causes_of(struct explain_flow *f, char *text, size_t cap)
{
	struct explain_finding out;

	text[0] = '\0';
	for (uint32_t i = 0; i < explain_ncauses; i++) {
		size_t at = strlen(text);

		if (!explain_causes[i].look(f, &out))
			continue;
		assert_true(strlen(out.what) > 20 && strlen(out.what) < EXPLAIN_TEXT_MAX - 1);
		assert_true(strlen(out.todo) > 10 && strlen(out.todo) < EXPLAIN_TEXT_MAX - 1);
		snprintf(text + at, cap - at, "%s ", explain_causes[i].name);
		if (explain_causes[i].ends)
			break;
	}
	return text;
}

/* members: of the flow; facts: of it; both with a comma behind each. */
static void expect_at(const char *link, const char *side, const char *members, const char *facts, const char *expected)
{
	struct json_object *l, *flow;
	char doc[4096], found[512];
	struct explain_flow f = {.seconds = 1};

	snprintf(doc, sizeof(doc),
	         "{\"side\":\"%s\",\"id\":1,\"src\":\"10.1.0.2\",\"dst\":\"10.2.0.2\",\"dest_qpn\":21,\"requester_qpn\":18,"
	         "\"ack_mode\":\"near\",\"pmtu\":4096,\"pos_base\":1000,\"pos_next\":101000,\"bytes\":410000000,\"messages\":1000,"
	         "%s\"facts\":{%s\"opened_age_ns\":60000000000}}",
	         side, members, facts);
	assert_int_equal(jdoc_parse(&l, link), 0);
	assert_int_equal(jdoc_parse(&flow, doc), 0);
	f.link = l;
	f.flow = flow;
	f.facts = j_get(flow, "facts");
	f.near = strcmp(side, "near") == 0;
	causes_of(&f, found, sizeof(found));
	if (strcmp(found, expected) != 0)
		fail_msg("found \"%s\", expected \"%s\" of %s", found, expected, doc);
	jdoc_free(&flow);
	jdoc_free(&l);
}

static void expect(const char *side, const char *members, const char *facts, const char *expected)
{
	expect_at(LINK_UP, side, members, facts, expected);
}

#define PAIRED	 "\"pairing\":\"paired\","
#define LEARNING "\"pairing\":\"learning\","
#define HEARD	 "\"host_heard_age_ns\":1000000,\"responder_heard_age_ns\":1000000,\"paired_age_ns\":59990000000,"

static void explain__of_a_healthy_flow_nothing(void **state)
{
	(void)state;
	expect("near", PAIRED, HEARD "\"most_unacked\":128,", "");
	expect("far", PAIRED, "\"responder_heard_age_ns\":1000000,", "");
	/* idle since yesterday; some chance losses; a busy one with packets under way */
	expect("near", PAIRED, "\"host_heard_age_ns\":90000000000000,\"responder_heard_age_ns\":90000000000000,\"gaps\":4,", "");
	expect("far", PAIRED, "\"responder_heard_age_ns\":1000000,\"seq_naks\":9,\"timeouts\":3,\"undelivered\":100,", "");
	/* one that has ended well, a receive that came late long ago */
	expect("near", PAIRED "\"ended\":true,\"ended_age_ns\":1000000000,", HEARD "\"rnr_told\":3,\"rnr_age_ns\":40000000000,", "");
	/* one that has just begun */
	expect("far", LEARNING, "\"undelivered\":3,\"unsent\":2,", "");
}

static void explain__refusals(void **state)
{
	(void)state;
	expect("near", PAIRED, HEARD "\"failed\":true,\"syndrome\":98,\"fail_pos\":5,", "access ");
	expect("far", PAIRED, HEARD "\"failed\":true,\"syndrome\":97,", "invalid ");
	expect("near", PAIRED "\"ended\":true,\"ended_age_ns\":5,", HEARD "\"failed\":true,\"syndrome\":99,", "operational ");
}

static void explain__nobody_answered(void **state)
{
	(void)state;
	expect("near", LEARNING, "\"host_heard_age_ns\":1000000,\"repeats\":20,\"undelivered\":7,", "no_answer ");
	expect("far", LEARNING, "\"turns_unanswered\":5,\"undelivered\":7,", "return_route ");
	expect("far", LEARNING, "\"turns_unanswered\":5,\"undelivered\":7,\"connection_seen_age_ns\":61000000000,", "qp_or_gid ");
	/* a connection of long before proves nothing */
	expect("far", LEARNING, "\"turns_unanswered\":5,\"undelivered\":7,\"connection_seen_age_ns\":200000000000,", "return_route ");
	expect("far", LEARNING, "\"unsent\":40,\"turns_unanswered\":1,\"undelivered\":7,", "no_neighbour ");
}

static void explain__not_ready_or_gone(void **state)
{
	(void)state;
	expect("far", PAIRED, "\"rnr_naks\":50,\"rnr_age_ns\":20000000,\"rnr_timer_ns\":655360000,\"undelivered\":8,\"timeouts\":2,", "rnr ");
	expect("near", PAIRED, HEARD "\"rnr_told\":5,\"rnr_age_ns\":20000000,\"undelivered\":8,", "rnr ");
	expect("far", PAIRED "\"stalled\":true,", "\"responder_heard_age_ns\":4000000000,\"timeouts\":9,\"undelivered\":8,", "peer_gone ");
	expect("near", PAIRED "\"stalled\":true,", HEARD "\"undelivered\":8,", "peer_gone ");
	expect("near", PAIRED, HEARD "\"failed\":true,\"syndrome\":0,", "peer_gone ");
	/* it was silent for two seconds when the flow ended, an hour ago */
	expect("far", PAIRED "\"ended\":true,\"ended_age_ns\":3600000000000,",
	       "\"responder_heard_age_ns\":3602000000000,\"timeouts\":9,\"undelivered\":8,", "peer_gone ");
	expect("near", PAIRED, "\"host_heard_age_ns\":5000000000,\"in_message\":true,", "requester_gone ");
	expect("near", PAIRED, HEARD "\"repeats_acked\":40,\"silent_repeats\":7,\"repeated_age_ns\":1000000,", "acks_unheard ");
}

static void explain__line_down_comes_first(void **state)
{
	(void)state;
	expect_at("{\"name\":\"l\",\"state\":\"dead\"}", "near", PAIRED "\"stalled\":true,", HEARD "\"undelivered\":8,", "line_down ");
	/* nor has a queue pair that is idle a line; one that was refused before has its own reason */
	expect_at("{\"name\":\"l\",\"state\":\"dead\"}", "near", PAIRED, HEARD, "line_down ");
	expect_at("{\"name\":\"l\",\"state\":\"dead\"}", "near", PAIRED, HEARD "\"failed\":true,\"syndrome\":98,", "access ");
	/* while the edges disagree packets cross all the same */
	expect_at("{\"name\":\"l\",\"state\":\"mismatch\"}", "near", PAIRED, HEARD "\"undelivered\":8,", "");
	/* what ended before is not explained by what the line does now */
	expect_at("{\"name\":\"l\",\"state\":\"dead\"}", "near", PAIRED "\"ended\":true,\"ended_age_ns\":1000,", HEARD, "");
}

#define GONE PAIRED "\"stalled\":true,", HEARD "\"undelivered\":8,"

/* One of several LAN ports without carrier, or with a smaller MTU, makes the link "port"; the line carries all the
 * same, and the flow has a cause of its own. */
static void explain__a_lan_port_is_not_the_line(void **state)
{
	(void)state;
	expect_at("{\"name\":\"l\",\"state\":\"port\",\"paths\":[{\"state\":\"dead\",\"in_use\":false},"
	          "{\"state\":\"up\",\"in_use\":true}]}",
	          "near", GONE, "peer_gone ");
	expect_at("{\"name\":\"l\",\"state\":\"port\",\"paths\":[{\"state\":\"up\",\"in_use\":true}]}", "near", PAIRED,
	          HEARD, "");
	/* the WAN's address has gone, or the link does not run */
	expect_at("{\"name\":\"l\",\"state\":\"port\",\"paths\":[{\"state\":\"dead\",\"in_use\":false}]}", "near", GONE,
	          "line_down ");
	expect_at("{\"name\":\"l\",\"state\":\"port\"}", "near", GONE, "line_down ");
}

/* First answer 10 ms after the first packet; the host repeated after 1 ms and was heard last after 4. */
static void explain__gave_up_before_an_answer_can_come(void **state)
{
	(void)state;
	expect("near", PAIRED,
	       "\"host_heard_age_ns\":59996000000,\"paired_age_ns\":59990000000,\"silent_repeats\":3,\"repeat_after_ns\":1000000,",
	       "timeout ");
	/* so soon that it never fell silent; but what a gap made it repeat says nothing of its timer */
	expect("near", PAIRED, "\"host_heard_age_ns\":59996000000,\"paired_age_ns\":59990000000,\"repeats\":59,", "timeout ");
	expect("near", PAIRED, "\"host_heard_age_ns\":59996000000,\"paired_age_ns\":59990000000,\"repeats\":59,\"gaps\":2,", "");
	expect("near", PAIRED, HEARD "\"repeats\":59,", "");
	/* in mode host it goes on, but repeats too early all the time */
	expect("near", PAIRED "\"ack_mode\":\"host\",", HEARD "\"silent_repeats\":30,\"repeat_after_ns\":2000000,", "repeats_early ");
	expect("near", PAIRED "\"ack_mode\":\"host\",", HEARD "\"silent_repeats\":30,\"repeat_after_ns\":67000000,", "");
}

static void explain__slow(void **state)
{
	struct json_object *now, *then, *flow, *before;
	char found[512];
	struct explain_flow f = {.seconds = 1, .near = true};

	(void)state;
	expect("near", PAIRED, HEARD "\"gaps\":40,", "lan_loss ");
	expect("far", PAIRED, "\"responder_heard_age_ns\":1000000,\"seq_naks\":40,", "lan_loss ");
	/* 16 packets of 4100 bytes per 3 ms are 175 Mbit/s of a line of 1000: it runs at 5000 packets, 164 Mbit/s */
	assert_int_equal(jdoc_parse(&now, "{\"name\":\"l\",\"state\":\"up\",\"rtt_ns\":3000000,\"rate_bps\":1000000000,"
	                                  "\"counters\":{\"wan_tx_bytes\":121000000}}"), 0);
	assert_int_equal(jdoc_parse(&then, "{\"counters\":{\"wan_tx_bytes\":100000000}}"), 0);
	assert_int_equal(jdoc_parse(&flow, "{\"pairing\":\"paired\",\"side\":\"near\",\"ack_mode\":\"host\",\"pmtu\":4096,"
	                                   "\"pos_base\":0,\"pos_next\":100000,\"bytes\":410000000,"
	                                   "\"facts\":{\"most_unacked\":16,\"opened_age_ns\":20000000000,\"host_heard_age_ns\":1000}}"), 0);
	assert_int_equal(jdoc_parse(&before, "{\"pos_next\":95000,\"bytes\":389500000}"), 0);
	f.link = now, f.link_before = then, f.flow = flow, f.before = before, f.facts = j_get(flow, "facts");
	assert_string_equal(causes_of(&f, found, sizeof(found)), "window ");
	/* the same on a line of 200 Mbit/s that is full */
	jdoc_free(&now);
	assert_int_equal(jdoc_parse(&now, "{\"name\":\"l\",\"state\":\"up\",\"rtt_ns\":3000000,\"rate_bps\":190000000,"
	                                  "\"counters\":{\"wan_tx_bytes\":121000000}}"), 0);
	f.link = now;
	assert_string_equal(causes_of(&f, found, sizeof(found)), "line_full ");
	/* half of the paths is dead: the other half is full */
	jdoc_free(&now);
	assert_int_equal(jdoc_parse(&now, "{\"name\":\"l\",\"state\":\"up\",\"rtt_ns\":3000000,\"rate_bps\":380000000,"
	                                  "\"paths\":[{\"in_use\":true,\"pace_bps\":190000000},{\"in_use\":false,\"pace_bps\":190000000}],"
	                                  "\"counters\":{\"wan_tx_bytes\":121000000}}"), 0);
	f.link = now;
	assert_string_equal(causes_of(&f, found, sizeof(found)), "line_full ");
	jdoc_free(&now), jdoc_free(&then), jdoc_free(&flow), jdoc_free(&before);
}

/* In mode near no ACK waits for the line; small SENDs, and bytes that count from a restart only, are no READs. */
static void explain__small_packets_are_no_reads(void **state)
{
	struct json_object *now, *then, *flow, *before;
	char found[512];
	struct explain_flow f = {.seconds = 1, .near = true};

	(void)state;
	assert_int_equal(jdoc_parse(&now, "{\"name\":\"l\",\"state\":\"up\",\"ack_mode\":\"near\",\"rtt_ns\":3000000,"
	                                  "\"rate_bps\":10000000000,\"counters\":{\"wan_tx_bytes\":121000000}}"), 0);
	assert_int_equal(jdoc_parse(&then, "{\"counters\":{\"wan_tx_bytes\":100000000}}"), 0);
	assert_int_equal(jdoc_parse(&flow, "{\"pairing\":\"paired\",\"side\":\"near\",\"ack_mode\":\"near\",\"pmtu\":4096,"
	                                   "\"pos_base\":0,\"pos_next\":100000,\"bytes\":10800000,"
	                                   "\"facts\":{\"most_unacked\":16,\"opened_age_ns\":20000000000,\"host_heard_age_ns\":1000}}"), 0);
	assert_int_equal(jdoc_parse(&before, "{\"pos_next\":95000,\"bytes\":10260000}"), 0);
	f.link = now, f.link_before = then, f.flow = flow, f.before = before, f.facts = j_get(flow, "facts");
	assert_string_equal(causes_of(&f, found, sizeof(found)), "");
	jdoc_free(&now), jdoc_free(&then), jdoc_free(&flow), jdoc_free(&before);
}

/* A flow that the edge took up at its start has no times of before. */
static void explain__a_flow_of_before_the_start(void **state)
{
	struct json_object *link, *flow;
	char found[512];
	struct explain_flow f = {.seconds = 1, .near = true};

	(void)state;
	assert_int_equal(jdoc_parse(&link, LINK_UP), 0);
	f.link = link;
	for (int paired = 0; paired < 2; paired++) {
		assert_int_equal(jdoc_parse(&flow, paired ? "{\"side\":\"near\"," PAIRED "\"facts\":{\"undelivered\":8}}"
		                                          : "{\"side\":\"near\"," LEARNING "\"facts\":{\"undelivered\":8}}"), 0);
		f.flow = flow;
		f.facts = j_get(flow, "facts");
		assert_string_equal(causes_of(&f, found, sizeof(found)), "");
		jdoc_free(&flow);
	}
	jdoc_free(&link);
}

/* An answer that lacks everything, as of an older daemon. */
/* What a requester repeats after its queue pair was given up looks like a new one that nobody answers. */
static void explain__a_life_after_a_failed_one_has_no_cause_of_its_own(void **state)
{
	struct json_object *link, *flow;
	char found[512];
	struct explain_flow f = {.seconds = 1, .near = true};

	(void)state;
	assert_int_equal(jdoc_parse(&link, LINK_UP), 0);
	assert_int_equal(jdoc_parse(&flow, "{\"side\":\"near\"," LEARNING "\"ended\":true,\"facts\":{\"opened_age_ns\":60000000000,\"repeats\":3,"
	                                   "\"in_message\":true,\"host_heard_age_ns\":5000000000}}"), 0);
	f.link = link;
	f.flow = flow;
	f.facts = j_get(flow, "facts");
	assert_string_equal(causes_of(&f, found, sizeof(found)), "no_answer ");
	f.failed_before = true;
	assert_string_equal(causes_of(&f, found, sizeof(found)), "");
	jdoc_free(&flow);
	jdoc_free(&link);
}

static void explain__what_is_missing_is_no_finding(void **state)
{
	struct json_object *nothing;
	char found[512];
	struct explain_flow f = {.seconds = 1};

	(void)state;
	assert_int_equal(jdoc_parse(&nothing, "{}"), 0);
	for (int near = 0; near < 2; near++) {
		f.near = near;
		f.link = f.flow = f.facts = nothing;
		assert_string_equal(causes_of(&f, found, sizeof(found)), "");
	}
	jdoc_free(&nothing);
}

static void explain_error__by_number_and_name(void **state)
{
	static const char *const same[] = {"12", "RETRY_EXC_ERR", "IBV_WC_RETRY_EXC_ERR", "retry_exc", "ibv_wc_retry_exc"};

	(void)state;
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		assert_non_null(explain_error_find(same[i]));
		assert_int_equal(explain_error_find(same[i])->number, 12);
	}
	assert_null(explain_error_find("0"));
	assert_null(explain_error_find(""));
	assert_null(explain_error_find("012"));
	assert_null(explain_error_find("IBV_WC_"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(explain__of_a_healthy_flow_nothing),
	    cmocka_unit_test(explain__refusals),
	    cmocka_unit_test(explain__nobody_answered),
	    cmocka_unit_test(explain__not_ready_or_gone),
	    cmocka_unit_test(explain__line_down_comes_first),
	    cmocka_unit_test(explain__a_lan_port_is_not_the_line),
	    cmocka_unit_test(explain__gave_up_before_an_answer_can_come),
	    cmocka_unit_test(explain__slow),
	    cmocka_unit_test(explain__small_packets_are_no_reads),
	    cmocka_unit_test(explain__a_flow_of_before_the_start),
	    cmocka_unit_test(explain__a_life_after_a_failed_one_has_no_cause_of_its_own),
	    cmocka_unit_test(explain__what_is_missing_is_no_finding),
	    cmocka_unit_test(explain_error__by_number_and_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
