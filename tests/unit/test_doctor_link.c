/* SPDX-License-Identifier: Apache-2.0 */
/* What the doctor finds in two answers of the daemon: the flows of a link with several workers, and with many flows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/client/doctor_link.c"

static char found[4096]; /* findings, a line each */

void doctor_find(struct doctor *d, const char *fmt, ...)
{
	size_t at = strlen(found);
	va_list ap;

	(void)d;
	va_start(ap, fmt);
	vsnprintf(found + at, sizeof(found) - at, fmt, ap);
	va_end(ap);
	strncat(found, "\n", sizeof(found) - strlen(found) - 1);
}

void doctor_cannot(struct doctor *d, const char *fmt, ...)
{
	(void)d;
	(void)fmt;
}

char *port_holder_text(enum port_protocol protocol, const struct ip_addr *addr, uint16_t port,
                       char text[PORT_HOLDER_TEXT_MAX])
{
	(void)protocol;
	(void)addr;
	(void)port;
	text[0] = '\0';
	return text;
}

/* A link's flows at the two looks. */
static struct {
	char *text[2];
	size_t len[2];
	FILE *out[2];
	unsigned n;
} flows;

/* nnear: idle near flows that stand in front. */
static void begin(unsigned nnear)
{
	found[0] = '\0';
	flows.n = nnear;
	for (int look = 0; look < 2; look++) {
		flows.out[look] = open_memstream(&flows.text[look], &flows.len[look]);
		fputs("{\"flows\":[", flows.out[look]);
		for (unsigned i = 0; i < nnear; i++)
			fprintf(flows.out[look],
			        "%s{\"side\":\"near\",\"id\":%u,\"incarnation\":1,\"pairing\":\"paired\"}",
			        i > 0 ? "," : "", i);
	}
}

/* A far flow of a worker: its number is one of that worker alone. */
static void far_flow(unsigned id, const char *host, const char *members)
{
	for (int look = 0; look < 2; look++)
		fprintf(flows.out[look],
		        "%s{\"side\":\"far\",\"id\":%u,\"incarnation\":1,\"src\":\"10.1.0.9\",\"dst\":\"%s\",\"dest_"
		        "qpn\":%u,%s}",
		        flows.n > 0 ? "," : "", id, host, 20 + flows.n, members);
	flows.n++;
}

static void look(void (*check)(struct doctor *d, const struct doctor_link *l))
{
	struct json_object *doc[2];
	static struct doctor_link l;

	for (int i = 0; i < 2; i++) {
		fputs("]}", flows.out[i]);
		fclose(flows.out[i]);
		assert_int_equal(jdoc_parse(&doc[i], flows.text[i]), 0);
		free(flows.text[i]);
	}
	l.before = doc[0];
	l.now = doc[1];
	check(NULL, &l);
	jdoc_free(&doc[0]);
	jdoc_free(&doc[1]);
}

static void finds(const char *text)
{
	if (strstr(found, text) == NULL)
		fail_msg("\"%s\" is missing in \"%s\"", text, found);
}

#define UNANSWERED "\"pairing\":\"learning\",\"pos_next\":2000,\"pos_delivered\":1000"
#define STALLED    "\"pairing\":\"paired\",\"stalled\":true,\"pos_next\":2000,\"pos_delivered\":1000"
#define WELL       "\"pairing\":\"paired\",\"pos_next\":7000,\"pos_delivered\":7000"

/* Each worker numbers its flows from 0. */
static void return_path__a_flow_of_the_second_worker(void **state)
{
	(void)state;
	begin(0);
	far_flow(0, "10.2.0.2", WELL);
	far_flow(0, "10.2.0.3", UNANSWERED);
	look(doctor_return_path);
	finds("1 flow(s) have had no answer through this edge from their responders: 10.2.0.3\n");
}

static void stalled__a_flow_of_the_second_worker(void **state)
{
	(void)state;
	begin(0);
	far_flow(0, "10.2.0.2", WELL);
	far_flow(0, "10.2.0.3", STALLED);
	look(doctor_stalled);
	finds("1 flow(s) make no progress: their responders answered earlier and are silent now: 10.2.0.3\n");
}

/* The daemon lists a worker's near flows first. */
static void return_path__behind_thousands_of_near_flows(void **state)
{
	(void)state;
	begin(5000);
	far_flow(0, "10.2.0.3", UNANSWERED);
	look(doctor_return_path);
	finds(": 10.2.0.3\n");
	begin(5000);
	far_flow(0, "10.2.0.3", STALLED);
	look(doctor_stalled);
	finds(": 10.2.0.3\n");
}

static void hosts__whose_address_begins_that_of_another(void **state)
{
	(void)state;
	begin(0);
	far_flow(0, "10.2.0.12", STALLED);
	far_flow(1, "10.2.0.1", STALLED);
	far_flow(2, "10.2.0.12", STALLED);
	look(doctor_stalled);
	finds(
	    "3 flow(s) make no progress: their responders answered earlier and are silent now: 10.2.0.12, 10.2.0.1\n");
}

static void flows__that_are_well(void **state)
{
	(void)state;
	begin(3);
	far_flow(0, "10.2.0.2", WELL);
	far_flow(0, "10.2.0.3", WELL);
	look(doctor_stalled);
	assert_string_equal(found, "");
}

/* --- a link's state --- */

static struct json_object *link_of(const char *members)
{
	struct json_object *doc;
	char text[2048];

	snprintf(text, sizeof(text), "{\"name\":\"tokyo\",%s}", members);
	assert_int_equal(jdoc_parse(&doc, text), 0);
	return doc;
}

static void look_twice(void (*check)(struct doctor *d, const struct doctor_link *l), const char *before,
                       const char *now)
{
	struct json_object *was = link_of(before), *is = link_of(now);
	static struct doctor_link l;

	found[0] = '\0';
	l.before = was;
	l.now = is;
	check(NULL, &l);
	jdoc_free(&was);
	jdoc_free(&is);
}

/* Both looks give the same link, of which `members` are shown. */
static void look_at(void (*check)(struct doctor *d, const struct doctor_link *l), const char *members)
{
	look_twice(check, members, members);
}

#define NO_MEMORY    "worker 2 of 4 has no session: no memory for its keys"
#define PATH_NEW(rx) "\"paths\":[{\"name\":\"\",\"state\":\"new\",\"in_use\":false,\"rx_datagrams\":" #rx "}]"
#define DEAD(why)    "\"state\":\"dead\",\"error\":\"" why "\","

/* The daemon knows why the link is dead: that is told, and neither line nor firewall is blamed. The other workers hear
 * datagrams. */
static void link_failed__a_worker_without_the_session(void **state)
{
	(void)state;
	look_at(doctor_link_failed, DEAD(NO_MEMORY) PATH_NEW(5));
	finds(NO_MEMORY);
	look_at(doctor_path_down, DEAD(NO_MEMORY) PATH_NEW(5));
	assert_string_equal(found, "");
	look_twice(doctor_path_asymmetric, DEAD(NO_MEMORY) PATH_NEW(5), DEAD(NO_MEMORY) PATH_NEW(9));
	assert_string_equal(found, "");
}

/* Nobody knows more than what arrives. */
static void path_down__without_a_reason(void **state)
{
	(void)state;
	look_at(doctor_link_failed, DEAD("") PATH_NEW(5));
	assert_string_equal(found, "");
	look_at(doctor_path_down, DEAD("") PATH_NEW(5));
	finds("no datagram arrives on the path");
	look_twice(doctor_path_asymmetric, DEAD("") PATH_NEW(5), DEAD("") PATH_NEW(9));
	finds("the path works in one direction only");
}

/* --- the link file --- */

/* The file's digest is 0x2a; 0: it has an error. */
static void look_at_file(uint64_t digest, const char *members)
{
	static struct config_reading reading;
	static struct doctor_link l = {.has_config = true, .reading = &reading};
	struct json_object *doc;

	found[0] = '\0';
	strcpy(l.config.path, "/etc/longreach/tokyo.conf");
	l.config.digest = digest;
	assert_int_equal(jdoc_parse(&doc, members), 0);
	l.now = l.before = doc;
	doctor_not_reloaded(NULL, &l);
	jdoc_free(&doc);
}

static void not_reloaded__by_the_digest(void **state)
{
	(void)state;
	look_at_file(0x2a, "{\"config_digest\":\"000000000000002b\",\"ack_mode\":\"near\"}");
	finds("/etc/longreach/tokyo.conf has other values than the daemon runs with");
	look_at_file(0x2a, "{\"config_digest\":\"000000000000002a\"}");
	assert_string_equal(found, "");
	look_at_file(0, "{\"config_digest\":\"000000000000002a\"}");
	assert_string_equal(found, "");
	/* no daemon, or one of an earlier version */
	look_at_file(0x2a, "{}");
	assert_string_equal(found, "");
	look_at_file(0x2a, "{\"config_digest\":\"000000000000002b\",\"restart_needed\":\"Lanes= cannot change\"}");
	finds("Lanes= cannot change");
	assert_null(strstr(found, "longreach reload"));
}

/* --- keys, workers --- */

#define WHY "the other edge's certificate is not signed by this CA"

static void keys__before_the_session_ends(void **state)
{
	(void)state;
	look_at(doctor_keys,
	        "\"state\":\"up\",\"peer\":{\"connected\":true,\"trouble\":\"\",\"reauthentication\":{\"state\":"
	        "\"due\",\"left_s\":240,\"trouble\":\"" WHY "\"}}");
	finds("its session ends in 240 s");
	finds(WHY);
	look_at(doctor_keys,
	        "\"state\":\"up\",\"peer\":{\"reauthentication\":{\"state\":\"asked\",\"trouble\":\"" WHY "\"}}");
	finds("this edge has not proven itself");
	look_at(doctor_keys,
	        "\"state\":\"waiting\",\"peer\":{\"reauthentication\":{\"state\":\"failed\",\"trouble\":\"" WHY "\"}}");
	finds("there is no session");
	/* no attempt has failed yet */
	look_at(doctor_keys,
	        "\"state\":\"up\",\"peer\":{\"reauthentication\":{\"state\":\"due\",\"left_s\":299,\"trouble\":\"\"}}");
	assert_string_equal(found, "");
	look_at(doctor_keys, "\"state\":\"up\",\"peer\":{\"reauthentication\":{\"state\":\"none\"}}");
	assert_string_equal(found, "");
}

static void workers__with_a_former_configuration(void **state)
{
	(void)state;
	look_at(doctor_workers,
	        "\"state\":\"up\",\"workers\":4,\"workers_not_reconfigured\":1,\"early_acks_held\":true");
	finds("1 of 4 workers go on with the configuration before the last change, and may acknowledge early");
	finds("longreach restart tokyo");
	look_at(doctor_workers, "\"state\":\"up\",\"workers\":4,\"workers_not_reconfigured\":0");
	assert_string_equal(found, "");
}

#define COSTS(running, busy, packets)                                                                                  \
	"\"name\":\"tokyo\",\"worker_costs\":[{\"worker\":0,\"running_ns\":" #running ",\"busy_ns\":1000},"                 \
	"{\"worker\":1,\"running_ns\":" #running ",\"busy_ns\":" #busy ",\"sampled_turns\":" #running                       \
	",\"stages\":[{\"stage\":\"lan_take\",\"packets\":" #packets "}]}]"

/* Ten packets a turn. */
static void load__a_worker_that_is_the_limit(void **state)
{
	(void)state;
	look_twice(doctor_load, COSTS(5000000000, 1000, 0), COSTS(6000000000, 970001000, 10000000000));
	finds("worker 1 had something to do 97 % of a second, 10 packets at a time: it limits what this link carries");
	finds("longreach status tokyo --cycles");
	assert_null(strstr(found, "worker 0"));
	look_twice(doctor_load, COSTS(5000000000, 1000, 0), COSTS(6000000000, 900001000, 10000000000));
	assert_string_equal(found, "");
	/* turns of a single packet are not the limit: they grow */
	look_twice(doctor_load, COSTS(5000000000, 1000, 0), COSTS(6000000000, 970001000, 1000000000));
	assert_string_equal(found, "");
	/* the link was started in between: that is no second */
	look_twice(doctor_load, COSTS(5000000000, 4000000000, 0), COSTS(100000000, 99000000, 10000000000));
	assert_string_equal(found, "");
	look_at(doctor_load, COSTS(5000000000, 1000, 0)); /* the same answer twice */
	assert_string_equal(found, "");
	look_at(doctor_load, "\"name\":\"tokyo\""); /* an older daemon */
	assert_string_equal(found, "");
}

static void end_to_end__queue_pairs_without_a_place(void **state)
{
	(void)state;
	look_at(doctor_end_to_end, "\"name\":\"tokyo\",\"flow_counts\":{\"near\":16384,\"far\":3,\"pairs_end_to_end\":5}");
	finds("queue pairs of 5 pairs of hosts found no place in the table of flows (MaxFlows=, 16387 in use)");
	finds("longreach restart tokyo");
	look_at(doctor_end_to_end, "\"flow_counts\":{\"near\":16384,\"pairs_end_to_end\":0}");
	assert_string_equal(found, "");
}

#define COUNTS(timers, again, gaps, strangers, lan, opened, learning)                                                  \
	"\"counters\":{\"rnr_timer_zero_rx\":" #timers ",\"lan_rx_packets\":" #lan ",\"flows_opened\":" #opened                \
	"},\"drops\":{\"lan_duplicate\":" #again ",\"lan_gap\":" #gaps ",\"lan_ack_unmatched\":" #strangers                   \
	"},\"flow_counts\":{\"learning\":" #learning "}"

/* One NAK of last week is no present fault. */
static void rnr_timer__of_now(void **state)
{
	(void)state;
	look_at(doctor_rnr_timer, COUNTS(7, 0, 0, 0, 1000, 1, 0));
	assert_string_equal(found, "");
	look_twice(doctor_rnr_timer, COUNTS(7, 0, 0, 0, 1000, 1, 0), COUNTS(9, 0, 0, 0, 1000, 1, 0));
	finds("2 RNR NAKs in a second");
}

/* What a host repeats after a NAK for a gap, its timeout has not caused. */
static void retry_early__or_a_lan_that_loses(void **state)
{
	(void)state;
	look_twice(doctor_retry_early, COUNTS(0, 0, 0, 0, 1000, 1, 0), COUNTS(0, 200, 0, 0, 2000, 1, 0));
	finds("raise their local ACK timeout");
	look_twice(doctor_retry_early, COUNTS(0, 0, 0, 0, 1000, 1, 0), COUNTS(0, 200, 40, 0, 2000, 1, 0));
	finds("40 came behind a gap: the LAN between hosts and this edge loses or reorders packets");
	assert_null(strstr(found, "timeout"));
}

/* While queue pairs are being paired, a few answers fit no flow. */
static void request_path__not_of_flows_that_begin(void **state)
{
	(void)state;
	look_twice(doctor_request_path, COUNTS(0, 0, 0, 5, 1000, 8, 0), COUNTS(0, 0, 0, 9, 2000, 8, 0));
	finds("4 answers of hosts here in a second belong to no flow");
	look_twice(doctor_request_path, COUNTS(0, 0, 0, 5, 1000, 8, 0), COUNTS(0, 0, 0, 9, 2000, 9, 0));
	assert_string_equal(found, "");
	look_twice(doctor_request_path, COUNTS(0, 0, 0, 5, 1000, 8, 2), COUNTS(0, 0, 0, 9, 2000, 8, 0));
	assert_string_equal(found, "");
	look_twice(doctor_request_path, COUNTS(0, 0, 0, 5, 1000, 8, 2), COUNTS(0, 0, 0, 505, 2000, 9, 2));
	finds("500 answers");
}

static void distance__not_of_a_line_that_is_cut(void **state)
{
#define FAR_OFF(stale) "\"counters\":{},\"distance\":{\"differs\":true,\"configured_m\":100000,\"measured_m\":300000,\"stale\":" #stale "}"
	(void)state;
	look_at(doctor_distance, FAR_OFF(false));
	finds("by the measured round trip the line is 300 km long");
	look_at(doctor_distance, FAR_OFF(true));
	assert_string_equal(found, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(return_path__a_flow_of_the_second_worker),
	    cmocka_unit_test(stalled__a_flow_of_the_second_worker),
	    cmocka_unit_test(return_path__behind_thousands_of_near_flows),
	    cmocka_unit_test(hosts__whose_address_begins_that_of_another),
	    cmocka_unit_test(flows__that_are_well),
	    cmocka_unit_test(link_failed__a_worker_without_the_session),
	    cmocka_unit_test(load__a_worker_that_is_the_limit),
	    cmocka_unit_test(end_to_end__queue_pairs_without_a_place),
	    cmocka_unit_test(rnr_timer__of_now),
	    cmocka_unit_test(retry_early__or_a_lan_that_loses),
	    cmocka_unit_test(request_path__not_of_flows_that_begin),
	    cmocka_unit_test(distance__not_of_a_line_that_is_cut),
	    cmocka_unit_test(path_down__without_a_reason),
	    cmocka_unit_test(not_reloaded__by_the_digest),
	    cmocka_unit_test(keys__before_the_session_ends),
	    cmocka_unit_test(workers__with_a_former_configuration),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
