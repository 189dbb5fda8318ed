/* SPDX-License-Identifier: Apache-2.0 */
#include "client_flow.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "client_conn.h"
#include "client_json.h"
#include "daemon/telemetry/control.h"
#include "daemon/util/flow_filter.h"
#include "daemon/util/units.h"
#include "explain.h"
#include "proxy/roce/roce.h"

/* Exit codes as in longreach.c, documented in longreach(1). */
enum { EXIT_FINE = 0, EXIT_NO = 1, EXIT_BAD_USAGE = 2, EXIT_SILENCE = 3 };

static const char flow_usage[] =
    "usage: longreach flow [LINK] FLOW|HOST [--json] [--control PATH]\n"
    "\n"
    "  Prints all that this edge knows of a flow, also of one that has ended. FLOW and HOST: longreach explain --help.\n"
    "  longreach-counters(7), FACTS OF A FLOW, says what each line means.\n";

static const char trace_usage[] =
    "usage: longreach trace [LINK] FLOW [--seconds N] [--json] [--control PATH]\n"
    "\n"
    "  Prints the packets of one flow from and to hosts as they pass, what became of each, and how far ACKs may reach\n"
    "  and why. Headers only. FLOW (longreach explain --help) must name one requester, one responder, one queue pair.\n";

struct request {
	const char *control_path, *usage, *link, *target;
	struct flow_filter filter;
	double seconds; /* 0: for ever */
	bool json;
};

static int bad_usage(const struct request *r, const char *what, const char *about)
{
	fprintf(stderr, "longreach: %s%s\n%s", what, about, r->usage);
	return EXIT_BAD_USAGE;
}

/* EXIT_FINE: go on. */
static int take_line(struct request *r, int argc, char **argv)
{
	static const struct option options[] = {
	    {"json", no_argument, NULL, 'j'}, {"seconds", required_argument, NULL, 's'},
	    {"control", required_argument, NULL, 'c'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	const char *what;
	char *end;
	int opt;

	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (opt == 'h') {
			fputs(r->usage, stdout);
			exit(EXIT_FINE);
		}
		if (opt == 'j')
			r->json = true;
		else if (opt == 'c')
			r->control_path = optarg;
		else if (opt == 's' && r->usage == trace_usage)
			r->seconds = strtod(optarg, &end);
		else
			return opt == 's' ? bad_usage(r, "not an option of longreach flow: --seconds", "")
			                  : EXIT_BAD_USAGE;
		if (opt == 's' && (*end != '\0' || !(r->seconds > 0 && r->seconds < 1e8)))
			return bad_usage(r, "--seconds takes a number above 0, not ", optarg);
	}
	if (argc - optind == 2)
		r->link = argv[optind++];
	if (argc - optind != 1)
		return bad_usage(r, "expected [LINK] and a flow or a host", "");
	r->target = argv[optind];
	if (flow_filter_parse(&r->filter, r->target, &what) < 0)
		return bad_usage(r, "expected HOST, HOST:QPN, QPN, SRC>DST, near:N or far:N, not ", what);
	if (r->link != NULL && strpbrk(r->link, " \t\r\n") != NULL)
		return bad_usage(r, "expected a link's name without blanks, not ", r->link);
	return EXIT_FINE;
}

static void request_text(const struct request *r, char text[CONTROL_LINE_MAX])
{
	char words[CONTROL_LINE_MAX];

	snprintf(text, CONTROL_LINE_MAX, "flow%s%s%.200s", r->link != NULL ? " link " : "", r->link != NULL ? r->link : "",
	         flow_filter_write(&r->filter, words, sizeof(words)));
}

/* --- a flow whole --- */

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n > m && strcmp(text + n - m, end) == 0;
}

static void show_number(void *arg, const char *key, uint64_t value)
{
	char t[UNITS_TEXT_MAX];

	(void)arg;
	if (ends_with(key, "_age_ns"))
		printf("  %-28.*s %s ago\n", (int)(strlen(key) - strlen("_age_ns")), key, units_show_time(t, (double)value));
	else if (ends_with(key, "_ns"))
		printf("  %-28.*s %s\n", (int)(strlen(key) - strlen("_ns")), key, units_show_time(t, (double)value));
	else if (ends_with(key, "_qpn") || strcmp(key, "syndrome") == 0)
		printf("  %-28s 0x%" PRIx64 "\n", key, value);
	else
		printf("  %-28s %" PRIu64 "\n", key, value);
}

static void show_text(const struct json_object *o, const char *key)
{
	if (j_text(o, key)[0] != '\0')
		printf("  %-28s %s\n", key, j_text(o, key));
}

static void show_flags(const struct json_object *o, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (j_bool(o, names[i]))
			printf("  %-28s yes\n", names[i]);
}

static void show_flow(const struct json_object *link, const struct json_object *flow)
{
	static const char *const of_status[] = {"rnr_back_pressure", "stalled", "rnr", "ended"};
#define X(member, name, unit, text) IF_##unit(name)
#define IF_AGE(name)
#define IF_NS(name)
#define IF_BYTES(name)
#define IF_COUNT(name)
#define IF_POS(name)
#define IF_FLAG(name) name,
	static const char *const of_facts[] = {FLOW_VALUES(X)};
#undef X
	const struct json_object *facts = j_get(flow, "facts");
	char name[200];

	printf("%s: %s\n", j_text(link, "name"), explain_flow_name(flow, name, sizeof(name)));
	show_text(flow, "pairing");
	show_text(flow, "ack_mode");
	show_flags(flow, of_status, sizeof(of_status) / sizeof(of_status[0]));
	show_text(flow, "end_text");
	j_each_uint(flow, show_number, NULL);
	printf("  %-28s %s%s%s\n", "acks may reach", j_text(facts, "ceiling_text"), "", "");
	show_flags(facts, of_facts, sizeof(of_facts) / sizeof(of_facts[0]));
	j_each_uint(facts, show_number, NULL);
}

static int show_flows(const struct json_object *doc)
{
	const struct json_object *links = j_get(doc, "links"), *link, *flow;
	unsigned n = 0;

	for (size_t i = 0; (link = j_at(links, i)) != NULL; i++) {
		for (size_t k = 0; (flow = j_at(j_get(link, "flows"), k)) != NULL; k++, n++)
			show_flow(link, flow);
		if (j_uint(link, "flows_left_out") > 0)
			fprintf(stderr, "longreach: %" PRIu64 " more flows of link %s match: name a queue pair\n",
			        j_uint(link, "flows_left_out"), j_text(link, "name"));
	}
	if (n == 0)
		fprintf(stderr, "longreach: this edge knows no such flow: `longreach explain` says more\n");
	return n > 0 ? EXIT_FINE : EXIT_NO;
}

/* Asks the daemon and parses its answer. EXIT_FINE, or another exit code after a message. */
static int ask(const struct request *r, char **text, struct json_object **doc)
{
	char request[CONTROL_LINE_MAX];

	request_text(r, request);
	*text = client_ask(r->control_path, request);
	if (*text == NULL)
		return EXIT_SILENCE;
	if (jdoc_parse(doc, *text) < 0) {
		fprintf(stderr, "longreach: cannot read the daemon's answer: run `longreach version` to see whether "
		                "the daemon is of another version\n");
		return EXIT_SILENCE;
	}
	if (j_bool(*doc, "ok"))
		return EXIT_FINE;
	fprintf(stderr, "longreach: %s\n", j_text(*doc, "error"));
	return EXIT_NO;
}

int flow_main(int argc, char **argv, const char *control_path)
{
	struct request r = {.control_path = control_path, .usage = flow_usage};
	int code = take_line(&r, argc, argv);
	struct json_object *doc = NULL;
	char *text = NULL;

	if (code == EXIT_FINE)
		code = ask(&r, &text, &doc);
	if (code == EXIT_FINE && r.json)
		puts(text);
	else if (code == EXIT_FINE)
		code = show_flows(doc);
	if (doc != NULL)
		jdoc_free(&doc);
	free(text);
	return code;
}

/* --- the time line --- */

static volatile sig_atomic_t over;

static void on_signal(int sig)
{
	(void)sig;
	over = 1;
}

/* Interrupts a blocking read when the trace is to end. */
static void end_after(double seconds)
{
	const struct sigaction act = {.sa_handler = on_signal};
	struct itimerval t = {.it_value = {.tv_sec = (time_t)seconds}};

	t.it_value.tv_usec = (suseconds_t)((seconds - (double)t.it_value.tv_sec) * 1e6);
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGALRM, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (seconds > 0)
		setitimer(ITIMER_REAL, &t, NULL);
}

static const char *nak_name(uint8_t syndrome)
{
	switch (syndrome) {
	case AETH_NAK_PSN_SEQ:
		return "NAK sequence";
	case AETH_NAK_INV_REQ:
		return "NAK invalid request";
	case AETH_NAK_REM_ACCESS:
		return "NAK remote access";
	case AETH_NAK_REM_OP:
		return "NAK remote operational";
	default:
		return "NAK";
	}
}

/* The name of an answer (AETH). */
static const char *answer_name(const struct json_object *row, char *text, size_t cap)
{
	uint8_t syndrome = (uint8_t)j_uint(row, "syndrome");
	char t[UNITS_TEXT_MAX];

	if (strcmp(j_text(row, "opcode"), roce_op(RC_ACK)->name) != 0)
		snprintf(text, cap, "%s", j_text(row, "opcode"));
	else if ((syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK)
		snprintf(text, cap, "RNR NAK, %s", units_show_time(t, (double)roce_rnr_timer_ns(syndrome & 0x1f)));
	else
		snprintf(text, cap, "%s", (syndrome & AETH_TYPE_MASK) == AETH_ACK ? "ACK" : nak_name(syndrome));
	return text;
}

static const char *packet_name(const struct json_object *row, char *text, size_t cap)
{
	if (j_has(row, "syndrome"))
		return answer_name(row, text, cap);
	snprintf(text, cap, "%s%s", j_text(row, "opcode"), j_bool(row, "ack_req") ? ", AckReq" : "");
	return text;
}

static void show_row(const struct json_object *row, uint64_t first_ns)
{
	const char *what = j_text(row, "what"), *drop = j_text(row, "drop");
	const struct json_object *marks = j_get(row, "marks"), *mark;
	bool packet = strcmp(what, "state") != 0;
	char name[64] = "", psn[16] = "";

	if (packet) {
		packet_name(row, name, sizeof(name));
		snprintf(psn, sizeof(psn), "%" PRIu64, j_uint(row, "psn"));
	}
	printf("%12.6f %-4s %-3s %-26s %8s %6" PRIu64 " %6" PRIu64 " %-13s", (double)(j_uint(row, "now_ns") - first_ns) / 1e9,
	       j_text(row, "side"), packet ? what : "", name, psn, j_uint(row, "pos_next") - j_uint(row, "pos_acked"),
	       j_uint(row, "pos_next") - j_uint(row, "pos_delivered"), j_text(row, "ceiling_reason"));
	if (drop[0] != '\0')
		printf(" %s", strcmp(drop, "none") == 0 ? "taken" : drop);
	for (size_t i = 0; (mark = j_at(marks, i)) != NULL; i++)
		printf(" %s", j_string(mark));
	putchar('\n');
}

/* Handles one received line. EXIT_FINE: go on. */
static int take_row(const struct request *r, const char *line, uint64_t *first_ns, bool *greeted)
{
	struct json_object *doc;
	int code = EXIT_FINE;

	if (r->json)
		fputs(line, stdout);
	if (jdoc_parse(&doc, line) < 0)
		return EXIT_SILENCE;
	if (!*greeted && !j_bool(doc, "ok")) {
		fprintf(stderr, "longreach: %s\n", j_text(doc, "error"));
		code = EXIT_NO;
	} else if (!*greeted) {
		*first_ns = j_uint(doc, "now_ns");
		if (!r->json)
			printf("%12s %-4s %-3s %-26s %8s %6s %6s %-13s %s\n", "s", "side", "", "packet", "PSN", "unack", "undel",
			       "ACKs up to", "what happened");
	} else if (j_has(doc, "missed")) {
		fprintf(stderr, "longreach: %" PRIu64 " rows are missing: this program did not read them in time\n",
		        j_uint(doc, "missed"));
	} else if (!r->json) {
		show_row(doc, *first_ns);
	}
	*greeted = true;
	jdoc_free(&doc);
	fflush(stdout);
	return code;
}

static int listen_to(const struct request *r, int fd)
{
	FILE *in = fdopen(fd, "r");
	uint64_t first_ns = 0;
	bool greeted = false;
	char *line = NULL;
	size_t cap = 0;
	int code = in != NULL ? EXIT_FINE : EXIT_SILENCE;

	while (code == EXIT_FINE && !over && !ferror(stdout)) {
		if (getline(&line, &cap, in) < 0) {
			if (!over)
				fprintf(
				    stderr,
				    "longreach: the daemon has ended the trace: the link or the daemon has stopped\n");
			code = over ? EXIT_FINE : greeted ? EXIT_NO : EXIT_SILENCE;
			break;
		}
		code = take_row(r, line, &first_ns, &greeted);
	}
	free(line);
	if (in != NULL)
		fclose(in);
	return code;
}

/* Finds the one flow that the user means among the daemon's flows: puts its link and key into the request. */
static int find_key(const struct request *r, const struct json_object *doc, char text[CONTROL_LINE_MAX])
{
	const struct json_object *links = j_get(doc, "links"), *link, *flow, *found = NULL, *found_link = NULL;
	char name[200];

	for (size_t i = 0; (link = j_at(links, i)) != NULL; i++)
		for (size_t k = 0; (flow = j_at(j_get(link, "flows"), k)) != NULL; k++) {
			bool same = found != NULL && j_uint(found, "dest_qpn") == j_uint(flow, "dest_qpn") &&
			            strcmp(j_text(found, "src"), j_text(flow, "src")) == 0 &&
			            strcmp(j_text(found, "dst"), j_text(flow, "dst")) == 0;

			if (j_bool(flow, "ended") || same)
				continue;
			if (found != NULL) {
				fprintf(stderr, "longreach: %s fits several flows, %s among them: name one\n",
				        r->target, explain_flow_name(flow, name, sizeof(name)));
				return EXIT_NO;
			}
			found = flow;
			found_link = link;
		}
	if (found == NULL)
		return EXIT_NO;
	snprintf(text, CONTROL_LINE_MAX, "trace link %.60s src %.45s dst %.45s dst_qpn %" PRIu64 " vlan %" PRIu64,
	         j_text(found_link, "name"), j_text(found, "src"), j_text(found, "dst"), j_uint(found, "dest_qpn"),
	         j_uint(found, "vlan"));
	return EXIT_FINE;
}

/* The daemon does not know the flow yet: the user must have given its complete key and the link. */
static int own_key(const struct request *r, const struct json_object *doc, char text[CONTROL_LINE_MAX])
{
	const struct json_object *links = j_get(doc, "links");
	const struct flow_filter *f = &r->filter;
	char words[CONTROL_LINE_MAX];

	if (!f->has_src || !f->has_dst || !f->has_dst_qpn || j_at(links, 0) == NULL || j_at(links, 1) != NULL) {
		fprintf(stderr, "longreach: this edge has no such flow. Name a flow that has not begun yet as LINK "
		                "'SRC>DST:QPN'\n");
		return EXIT_NO;
	}
	snprintf(text, CONTROL_LINE_MAX, "trace link %.60s%.180s", j_text(j_at(links, 0), "name"),
	         flow_filter_write(f, words, sizeof(words)));
	return EXIT_FINE;
}

static bool has_live_flow(const struct json_object *doc)
{
	const struct json_object *links = j_get(doc, "links"), *link, *flow;

	for (size_t i = 0; (link = j_at(links, i)) != NULL; i++)
		for (size_t k = 0; (flow = j_at(j_get(link, "flows"), k)) != NULL; k++)
			if (!j_bool(flow, "ended"))
				return true;
	return false;
}

int flow_trace_main(int argc, char **argv, const char *control_path)
{
	struct request r = {.control_path = control_path, .usage = trace_usage};
	int code = take_line(&r, argc, argv), fd;
	char request[CONTROL_LINE_MAX], *text = NULL;
	struct json_object *doc = NULL;

	if (code == EXIT_FINE)
		code = ask(&r, &text, &doc);
	if (code == EXIT_FINE)
		code = has_live_flow(doc) ? find_key(&r, doc, request) : own_key(&r, doc, request);
	if (doc != NULL)
		jdoc_free(&doc);
	free(text);
	if (code != EXIT_FINE)
		return code;
	end_after(r.seconds);
	fd = client_open(r.control_path, request);
	return fd < 0 ? EXIT_SILENCE : listen_to(&r, fd);
}

bool flow_trace_wanted(int argc, char **argv)
{
	struct flow_filter f;
	const char *what, *last = NULL;
	int words = 0;

	for (int i = 1; i < argc; i++) {
		bool with_value = strcmp(argv[i], "--seconds") == 0 || strcmp(argv[i], "--path") == 0 ||
		                  strcmp(argv[i], "--every") == 0 || strcmp(argv[i], "--plot") == 0 ||
		                  strcmp(argv[i], "--control") == 0;

		if (argv[i][0] != '-') {
			last = argv[i];
			words++;
		}
		i += with_value;
	}
	return words == 2 || (last != NULL && flow_filter_parse(&f, last, &what) == 0);
}
