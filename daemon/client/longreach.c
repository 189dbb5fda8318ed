/* SPDX-License-Identifier: Apache-2.0 */
/* longreach.c - the client: asks the daemon and shows what it says. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_conn.h"
#include "client_flow.h"
#include "client_json.h"
#include "client_keygen.h"
#include "client_relay.h"
#include "client_status.h"
#include "client_top.h"
#include "client_trace.h"
#include "client_wrap.h"
#include "copy/back/copy_pull.h"
#include "daemon/telemetry/control.h"
#include "doctor.h"
#include "explain.h"
#include "daemon/util/version.h"
#include "headroom/headroom.h"
#include "plan/plan.h"

/* Exit codes, documented in longreach(1). */
enum exit_codes {
	EXIT_OK = 0,
	EXIT_REFUSED = 1,   /* the daemon said no, or a link is not up (status --check) */
	EXIT_USAGE = 2,     /* the command line makes no sense */
	EXIT_NO_DAEMON = 3, /* not running, or it did not answer */
};

static const char usage[] =
    "usage: longreach status [LINK] [--flows] [--cycles] [--json] [--watch]\n"
    "                               [--check]\n"
    "       longreach doctor [LINK] [--json]\n"
    "       longreach explain [LINK] [FLOW|HOST] [--error N] [--json]\n"
    "       longreach top [LINK]\n"
    "       longreach failed [LINK] [--json]\n"
    "       longreach trace LINK [OPTION]...\n"
    "       longreach trace [LINK] FLOW [--seconds N] [--json]\n"
    "       longreach flow [LINK] FLOW|HOST [--json]\n"
    "       longreach reload\n"
    "       longreach start|stop|restart LINK\n"
    "       longreach version\n"
    "       longreach keygen LINK [OPTION]...\n"
    "       longreach headroom --km N --rate RATE [OPTION]...\n"
    "       longreach plan --model NAME --km N --rate RATE [OPTION]...\n"
    "       longreach put|get|export|regions|rate ...\n"
    "       longreach copy [OPTION]... SRC... LINK:EXPORT[/PATH]\n"
    "       longreach copy [OPTION]... LINK:EXPORT[/SRC]... DST\n"
    "       longreach help\n"
    "\n"
    "  status      the links: state, traffic, buffers, losses\n"
    "    --flows   show every flow as well\n"
    "    --cycles  show where the workers' processor time goes\n"
    "    --json    print JSON; longreach(1) describes the fields\n"
    "    --watch   print again every second\n"
    "    --check   exit code 0 if there is a link, every link (or LINK) is up and every buffer has a link\n"
    "              that will drain it; else 1, with the reason\n"
    "  doctor      finds faults and names remedies: longreach doctor --help\n"
    "  explain     says why a queue pair is dead, failed or slow (\"error 12\"): longreach explain --help\n"
    "  top         links, paths and flows on a terminal, live: key h explains the keys\n"
    "  failed      every flow whose acknowledged bytes could not be delivered, the oldest first\n"
    "  trace       samples of a link's paths over time, or the packets of one flow: longreach trace --help\n"
    "  flow        all that this edge knows of a flow: longreach flow --help\n"
    "  reload      reads the link files again\n"
    "  start, stop, restart\n"
    "              one link, others go on; a stopped link stays stopped, with RoCE between its prefixes closed\n"
    "  version     versions of this program and of the daemon; --version: of this program only\n"
    "  keygen      makes the certificates of a new link: longreach keygen --help\n"
    "  put, get, export, regions, rate\n"
    "              use the relay: longreach put --help\n"
    "  copy        copies files and directories to or from the other site: longreach copy --help\n"
    "  headroom    computes PFC headroom and buffers: longreach headroom --help\n"
    "  plan        computes what training across a line costs: longreach plan --help\n"
    "\n"
    "  --control PATH   the daemon's socket. Default: " CONTROL_PATH "\n";

struct request {
	const char *control_path;
	const char *command;
	const char *link; /* NULL: all */
	bool flows, cycles, json, watch, check;
};

static const struct option long_options[] = {
    {"flows", no_argument, NULL, 'f'},         {"cycles", no_argument, NULL, 'y'},
    {"json", no_argument, NULL, 'j'},
    {"watch", no_argument, NULL, 'w'},         {"check", no_argument, NULL, 'k'},
    {"control", required_argument, NULL, 'c'}, {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},       {NULL, 0, NULL, 0},
};

/* EXIT_OK, or another exit code after a message. */
static int ask(const char *path, const char *request, struct j_answer *a)
{
	const struct json_object *root;
	int parsed = j_answer_take(a, client_ask(path, request));

	if (a->text == NULL)
		return EXIT_NO_DAEMON;
	if (parsed < 0) {
		fprintf(stderr, "longreach: cannot read the daemon's answer: run `longreach version` to see whether "
		                "the daemon is of another version\n");
		j_answer_free(a);
		return EXIT_NO_DAEMON;
	}
	root = a->doc;
	if (j_bool(root, "ok"))
		return EXIT_OK;
	fprintf(stderr, "longreach: %s\n", j_text(root, "error"));
	j_answer_free(a);
	return EXIT_REFUSED;
}

static void status_request(const struct request *r, char *buf, size_t cap)
{
	snprintf(buf, cap, "status%s%s%s", r->flows ? " flows" : "", r->link != NULL ? " link " : "",
	         r->link != NULL ? r->link : "");
}

static int print_json(const char *control_path, const char *request)
{
	char *text = client_ask(control_path, request);
	struct j_answer a;
	int code;

	if (text == NULL)
		return EXIT_NO_DAEMON;
	puts(text);
	fflush(stdout);
	/* Parsed for the exit code only. */
	code = j_answer_take(&a, text) == 0 && j_bool(a.doc, "ok") ? EXIT_OK : EXIT_REFUSED;
	j_answer_free(&a);
	return code;
}

static int show_json(const struct request *r)
{
	char request[CONTROL_LINE_MAX];

	status_request(r, request, sizeof(request));
	return print_json(r->control_path, request);
}

/* status_show(), no wider than the terminal that it goes to. */
static void show_wrapped(const struct json_object *now, const struct json_object *before, bool cycles)
{
	unsigned columns = wrap_columns(stdout);
	char *text = NULL;
	size_t len;
	FILE *f = columns != 0 ? open_memstream(&text, &len) : NULL;

	status_show(f != NULL ? f : stdout, now, before, cycles);
	if (f == NULL)
		return;
	if (fclose(f) == 0)
		wrap_write(stdout, text, columns);
	free(text);
}

static int show_once(const struct request *r, struct j_answer *before)
{
	char request[CONTROL_LINE_MAX];
	struct j_answer now;
	int code;

	status_request(r, request, sizeof(request));
	code = ask(r->control_path, request, &now);
	if (code != EXIT_OK)
		return code;
	if (r->watch && isatty(STDOUT_FILENO))
		fputs("\033[H\033[J", stdout); /* top of an empty screen */
	show_wrapped(now.doc, before->doc, r->cycles);
	if (r->watch && !isatty(STDOUT_FILENO))
		putchar('\n');
	fflush(stdout);
	j_answer_free(before);
	*before = now;
	return EXIT_OK;
}

/* Rates of flows, and costs, need two answers: asks a first time, shows the second. */
static int show_table(const struct request *r)
{
	char request[CONTROL_LINE_MAX];
	struct j_answer before = {0};
	int code = EXIT_OK;

	status_request(r, request, sizeof(request));
	if ((r->flows || r->cycles) && !r->watch) {
		code = ask(r->control_path, request, &before);
		if (code == EXIT_OK)
			sleep(1);
	}
	while (code == EXIT_OK) {
		code = show_once(r, &before);
		if (!r->watch)
			break;
		sleep(1);
	}
	j_answer_free(&before);
	return code;
}

static int watch_json(const struct request *r)
{
	int code = show_json(r);

	while (r->watch && code == EXIT_OK) {
		sleep(1);
		code = show_json(r);
	}
	return code;
}

static int check_states(const struct request *r)
{
	char request[CONTROL_LINE_MAX];
	struct j_answer a;
	bool well;
	int code;

	status_request(r, request, sizeof(request));
	code = ask(r->control_path, request, &a);
	if (code != EXIT_OK)
		return code;
	well = status_is_well(stderr, a.doc);
	j_answer_free(&a);
	return well ? EXIT_OK : EXIT_REFUSED;
}

static int do_status(const struct request *r)
{
	if (r->check)
		return check_states(r);
	return r->json ? watch_json(r) : show_table(r);
}

static int do_failed(const struct request *r)
{
	char request[CONTROL_LINE_MAX];
	struct j_answer a;
	int code;

	snprintf(request, sizeof(request), "failed%s%s", r->link != NULL ? " link " : "",
	         r->link != NULL ? r->link : "");
	if (r->json)
		return print_json(r->control_path, request);
	code = ask(r->control_path, request, &a);
	if (code != EXIT_OK)
		return code;
	status_show_failed(stdout, a.doc);
	j_answer_free(&a);
	return EXIT_OK;
}

static int do_top(const struct request *r)
{
	return client_top(r->control_path, r->link);
}

static int do_reload(const struct request *r)
{
	struct j_answer a;
	int code = ask(r->control_path, "reload", &a);

	if (code == EXIT_REFUSED)
		fprintf(stderr, "longreach: nothing was changed\n");
	if (code == EXIT_OK)
		puts(j_text(a.doc, "report"));
	if (code == EXIT_OK && j_uint(a.doc, "held") > 0)
		code = EXIT_REFUSED; /* not all settings of the files are in force */
	j_answer_free(&a);
	return code;
}

/* `r->command` is start, stop or restart. */
static int do_verb(const struct request *r)
{
	char request[CONTROL_LINE_MAX];
	struct j_answer a;
	int code;

	if (r->link == NULL) {
		fprintf(stderr, "longreach: %s: expected a link's name: `longreach status` lists the links\n",
		        r->command);
		return EXIT_USAGE;
	}
	snprintf(request, sizeof(request), "%s %s", r->command, r->link);
	code = ask(r->control_path, request, &a);
	if (code == EXIT_OK)
		puts(j_text(a.doc, "report"));
	j_answer_free(&a);
	return code;
}

static int do_version(const struct request *r)
{
	struct j_answer a;
	int code;

	puts("longreach " LONGREACH_VERSION);
	fflush(stdout);
	code = ask(r->control_path, "version", &a);
	if (code == EXIT_OK)
		printf("longreachd %s\n", j_text(a.doc, "version"));
	j_answer_free(&a);
	return code;
}

/* Works without a daemon, too, for scripts that ask for the installed version. */
static int do_own_version(const struct request *r)
{
	(void)r;
	puts("longreach " LONGREACH_VERSION);
	return EXIT_OK;
}

static int do_help(const struct request *r)
{
	(void)r;
	fputs(usage, stdout);
	return EXIT_OK;
}

static const struct {
	const char *name;
	int (*run)(const struct request *r);
	bool takes_link;
} commands[] = {
    {"status", do_status, true},
    {"top", do_top, true},
    {"failed", do_failed, true},
    {"reload", do_reload, false},
    {"start", do_verb, true},
    {"stop", do_verb, true},
    {"restart", do_verb, true},
    {"version", do_version, false},
    {"help", do_help, false},
};

static int bad_usage(const char *what, const char *about)
{
	fprintf(stderr, "longreach: %s%s\nlongreach: `longreach help` lists the commands\n", what, about);
	return EXIT_USAGE;
}

static int run_command(const struct request *r)
{
	bool other_options = r->flows || r->cycles || r->watch || r->check;

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(r->command, commands[i].name) != 0)
			continue;
		if (r->link != NULL && !commands[i].takes_link)
			return bad_usage("expected no link after this command, not ", r->link);
		if ((other_options || (r->json && commands[i].run != do_failed)) && commands[i].run != do_status)
			return bad_usage("--flows, --cycles, --json, --watch and --check are options of status, not of ",
			                 r->command);
		return commands[i].run(r);
	}
	return bad_usage("there is no command ", r->command);
}

static void take_option(struct request *r, int opt)
{
	switch (opt) {
	case 'f':
		r->flows = true;
		break;
	case 'y':
		r->cycles = true;
		break;
	case 'j':
		r->json = true;
		break;
	case 'w':
		r->watch = true;
		break;
	case 'k':
		r->check = true;
		break;
	case 'c':
		r->control_path = optarg;
		break;
	case 'h': /* whatever other options are given */
		exit(do_help(r));
	case 'V':
		exit(do_own_version(r));
	default: /* getopt has printed the error */
		exit(EXIT_USAGE);
	}
}

/* Where the command stands: --control may be in front of it. */
static int command_at(int argc, char **argv)
{
	return argc > 1 && strcmp(argv[1], "--control") == 0         ? 3
	       : argc > 1 && strncmp(argv[1], "--control=", 10) == 0 ? 2
	                                                             : 1;
}

/* Commands that have options of their own, too. */
static bool is_command(int argc, char **argv, const char *name)
{
	int at = command_at(argc, argv);

	return at < argc && strcmp(argv[at], name) == 0;
}

static const char *control_before(int argc, char **argv)
{
	int at = command_at(argc, argv);

	return at == 3 ? argv[2] : at == 2 ? argv[1] + strlen("--control=") : CONTROL_PATH;
}

int main(int argc, char **argv)
{
	struct request r = {.control_path = CONTROL_PATH};
	int opt;

	if (argc > 1 && strcmp(argv[1], "headroom") == 0) /* has options of its own */
		return headroom_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "plan") == 0) /* likewise */
		return plan_main(argc - 1, argv + 1);
	if (argc > 1 && client_relay_knows(argv[1]))
		return client_relay(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "copy") == 0)
		return copy_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "keygen") == 0) /* likewise */
		return keygen_main(argc - 1, argv + 1);
	if (is_command(argc, argv, "doctor"))
		return doctor_main(argc - command_at(argc, argv), argv + command_at(argc, argv),
		                   control_before(argc, argv));
	if (is_command(argc, argv, "explain"))
		return explain_main(argc - command_at(argc, argv), argv + command_at(argc, argv),
		                    control_before(argc, argv));
	if (is_command(argc, argv, "flow"))
		return flow_main(argc - command_at(argc, argv), argv + command_at(argc, argv),
		                 control_before(argc, argv));
	if (is_command(argc, argv, "trace") &&
	    flow_trace_wanted(argc - command_at(argc, argv), argv + command_at(argc, argv)))
		return flow_trace_main(argc - command_at(argc, argv), argv + command_at(argc, argv),
		                       control_before(argc, argv));
	if (is_command(argc, argv, "trace"))
		return trace_main(argc, argv);
	while ((opt = getopt_long(argc, argv, "hV", long_options, NULL)) != -1)
		take_option(&r, opt);
	if (r.command == NULL && optind < argc)
		r.command = argv[optind++];
	if (r.command == NULL)
		return bad_usage("expected a command, such as status, doctor, explain or top", "");
	if (optind < argc)
		r.link = argv[optind++];
	if (optind < argc)
		return bad_usage("expected one link at most, not also ", argv[optind]);
	if (r.link != NULL && strpbrk(r.link, " \t\r\n") != NULL)
		return bad_usage("expected a link's name without blanks, not ", r.link);
	return run_command(&r);
}
