/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* mkostemp */
#include "client_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client_conn.h"
#include "client_rows.h"
#include "daemon/telemetry/control.h"
#include "daemon/util/units.h"

/* As in longreach.c: longreach(1) promises them. */
enum { EXIT_FINE = 0, EXIT_NO = 1, EXIT_BAD_USAGE = 2, EXIT_SILENCE = 3 };

static const char usage[] =
    "usage: longreach trace LINK [--path NAME] [--seconds N] [--past] [--every MS]\n"
    "                       [--csv | --json | --plot FILE.svg] [--control PATH]\n"
    "\n"
    "  Prints samples of a link's paths as they are taken, until interrupted.\n"
    "\n"
    "  --path NAME      this path only\n"
    "  --seconds N      ends after N seconds\n"
    "  --past           begins with the samples of the last seconds that the daemon still has\n"
    "  --every MS       at most one row in MS milliseconds. Default: 200; with --csv and --plot every row\n"
    "  --csv            rows as CSV, for bench/plot_trace.gp and others\n"
    "  --json           the daemon's samples as JSON, a line each; longreach(1) describes the fields\n"
    "  --plot FILE.svg  draws the samples into FILE.svg at the end; needs gnuplot\n";

enum format { FORMAT_TABLE, FORMAT_CSV, FORMAT_JSON };

struct request {
	const char *control_path, *link, *path, *plot;
	double seconds; /* 0: for ever */
	double every_ms; /* below 0: not said */
	bool past;
	enum format format;
};

/* One trace while it is received. */
struct session {
	const struct request *r;
	FILE *out;
	int fd;
	char *buf; /* what has come, from `from` to `len` */
	size_t from, len, cap;
	struct rows rows;
	uint64_t rows_shown, missed;
	int64_t unix_less_mono_ns;
	bool greeted;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* --- what is shown --- */

static void show_table_row(struct session *s, const struct row *row)
{
	char t[4][UNITS_TEXT_MAX];

	if (s->rows_shown % 24 == 0)
		fprintf(s->out, "%9s  %-12s %-4s %12s %12s %10s %10s %8s %8s %8s  %s\n", "s", "path", "", "delivered",
		        "may send", "rtt", "in flight", "lost", "resent", "by FEC", "what happened");
	fprintf(s->out, "%9.3f  %-12s %-4s %12s %12s %10s %10s %8" PRIu64 " %8" PRIu64 " %8" PRIu64 "  %s\n", row->s,
	        row->path[0] != '\0' ? row->path : "-", row->state, units_show_rate(t[0], row->acked_bps),
	        units_show_rate(t[1], row->pace_bps), units_show_time(t[2], row->rtt_ns),
	        units_show_bytes(t[3], row->in_flight_bytes), row->sums.lost, row->sums.resent, row->sums.spared,
	        row->marks);
	fflush(s->out);
}

/* The first ten columns are those of `lrsim --trace`. */
static void show_csv_row(struct session *s, const struct row *row)
{
	if (s->rows_shown == 0)
		fprintf(s->out,
		        "run,flow,control,s,mbit_s,pace_mbit_s,rtt_ms,in_flight_bytes,lost,state,sent_mbit_s,resent,"
		        "spared_by_fec,rebuilt_by_fec,probe_timeouts,payload_max,unix_s,marks\n");
	fprintf(s->out,
	        "%s,%s,%s,%.6f,%.3f,%.3f,%.4f,%.0f,%" PRIu64 ",%s,%.3f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
	        ",%u,%.6f,%s\n",
	        s->r->link, row->path[0] != '\0' ? row->path : "-", row->control, row->s, row->acked_bps / 1e6,
	        row->pace_bps / 1e6, row->rtt_ns / 1e6, row->in_flight_bytes, row->sums.lost, row->state,
	        row->tx_bps / 1e6, row->sums.resent, row->sums.spared, row->sums.rebuilt, row->sums.probes,
	        row->payload_max, (double)((int64_t)row->now_ns + s->unix_less_mono_ns) / 1e9, row->marks);
}

static void show_row(struct session *s, const struct row *row)
{
	if (s->r->format == FORMAT_CSV)
		show_csv_row(s, row);
	else
		show_table_row(s, row);
	s->rows_shown++;
}

/* --- what comes --- */

/* Takes the first line, which says whether the daemon accepts the request. */
static int greet(struct session *s, const struct json_object *root)
{
	s->greeted = true;
	s->unix_less_mono_ns = (int64_t)j_uint(root, "unix_ns") - (int64_t)j_uint(root, "now_ns");
	if (j_bool(root, "ok"))
		return EXIT_FINE;
	fprintf(stderr, "longreach: %s\n", j_text(root, "error"));
	return EXIT_NO;
}

static int take_line(struct session *s, char *line)
{
	struct json_object *doc;
	const struct json_object *root;
	struct row row = {0};
	int code = EXIT_FINE;

	if (s->r->format == FORMAT_JSON)
		fprintf(s->out, "%s\n", line);
	if (jdoc_parse(&doc, line) < 0) {
		fprintf(stderr, "longreach: cannot read the daemon's answer: run `longreach version` to see whether "
		                "the daemon is of another version\n");
		return EXIT_SILENCE;
	}
	root = doc;
	s->missed += j_uint(root, "missed");
	if (!s->greeted)
		code = greet(s, root);
	else if (j_bool(root, "begins_again"))
		rows_begin_again(&s->rows);
	else if (s->r->format != FORMAT_JSON && j_get(root, "path") != NULL && rows_take(&s->rows, root, &row))
		show_row(s, &row);
	jdoc_free(&doc);
	return code;
}

static int take_lines(struct session *s)
{
	char *end;

	while ((end = memchr(s->buf + s->from, '\n', s->len - s->from)) != NULL) {
		char *line = s->buf + s->from;
		int code;

		*end = '\0';
		s->from = (size_t)(end - s->buf) + 1;
		code = take_line(s, line);
		if (code != EXIT_FINE)
			return code;
	}
	memmove(s->buf, s->buf + s->from, s->len - s->from);
	s->len -= s->from;
	s->from = 0;
	return EXIT_FINE;
}

/* Receives text. Above 0: more will come. */
static ssize_t receive(struct session *s)
{
	ssize_t n;

	if (s->len == s->cap) {
		char *bigger = s->cap < 1u << 20 ? realloc(s->buf, s->cap + (64u << 10)) : NULL;

		if (bigger == NULL)
			return -1;
		s->buf = bigger;
		s->cap += 64u << 10;
	}
	n = recv(s->fd, s->buf + s->len, s->cap - s->len, 0);
	if (n > 0)
		s->len += (size_t)n;
	return n < 0 && errno == EINTR ? 1 : n;
}

static int listen_to(struct session *s)
{
	uint64_t end_ns = s->r->seconds > 0 ? clock_ns() + (uint64_t)(s->r->seconds * 1e9) : UINT64_MAX;
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	int code = EXIT_FINE;

	while (code == EXIT_FINE && !interrupted && !ferror(s->out) && clock_ns() < end_ns) {
		if (poll(&p, 1, 50) <= 0)
			continue;
		if (receive(s) <= 0) {
			fprintf(stderr,
			        s->greeted
			            ? "longreach: the daemon has ended the trace: the link or the daemon has stopped\n"
			            : "longreach: the daemon did not answer\n");
			return s->greeted ? EXIT_NO : EXIT_SILENCE;
		}
		code = take_lines(s);
		if (s->r->format == FORMAT_JSON)
			fflush(s->out);
	}
	return code;
}

static int run(const struct request *r, FILE *out)
{
	struct session s = {.r = r, .out = out};
	char text[CONTROL_LINE_MAX];
	int code;

	s.rows.every_ns = (uint64_t)((r->every_ms >= 0 ? r->every_ms : r->format == FORMAT_TABLE ? 200 : 0) * 1e6);
	snprintf(text, sizeof(text), "trace link %s%s%s%s", r->link, r->path != NULL ? " path " : "",
	         r->path != NULL ? r->path : "", r->past ? " past" : "");
	s.fd = client_open(r->control_path, text);
	if (s.fd < 0)
		return EXIT_SILENCE;
	code = listen_to(&s);
	fflush(out);
	if (s.missed > 0)
		fprintf(stderr, "longreach: %" PRIu64 " samples are missing: this program did not read them in time\n",
		        s.missed);
	free(s.buf);
	close(s.fd);
	return code;
}

/* --- the picture --- */

/* Finds the plotting script: installed beside the program, or in the source tree. */
static bool find_script(char *path, size_t cap)
{
	static const char *const places[] = {"../share/longreach/plot_trace.gp", "../../bench/plot_trace.gp"};
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n < 0)
		return false;
	exe[n] = '\0';
	*strrchr(exe, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int len = snprintf(path, cap, "%s/%s", exe, places[i]);

		if (len > 0 && (size_t)len < cap && access(path, R_OK) == 0)
			return true;
	}
	return false;
}

static int draw(const struct request *r, const char *csv)
{
	char script[PATH_MAX + 64], vars[2 * PATH_MAX + 64];
	int status;
	pid_t pid;

	if (!find_script(script, sizeof(script))) {
		fprintf(stderr, "longreach: plot_trace.gp is not installed\n");
		return EXIT_NO;
	}
	snprintf(vars, sizeof(vars), "trace='%s'; out='%s'; run='%s'", csv, r->plot, r->link);
	pid = fork();
	if (pid == 0) {
		execlp("gnuplot", "gnuplot", "-e", vars, script, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(stderr, "longreach: gnuplot did not draw %s%s\n", r->plot,
		        pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127 ? ": check that gnuplot is installed"
		                                                                   : "");
		return EXIT_NO;
	}
	return EXIT_FINE;
}

static int run_and_draw(const struct request *r)
{
	char csv[] = "/tmp/longreach-trace.XXXXXX";
	int fd = mkostemp(csv, O_CLOEXEC), code;
	FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;

	if (out == NULL) {
		fprintf(stderr, "longreach: %s: %s\n", csv, strerror(errno));
		return EXIT_NO;
	}
	code = run(r, out);
	fclose(out);
	if (code == EXIT_FINE)
		code = draw(r, csv);
	unlink(csv);
	return code;
}

/* --- the command line --- */

static int bad_usage(const char *what, const char *about)
{
	fprintf(stderr, "longreach trace: %s%s\n%s", what, about, usage);
	return EXIT_BAD_USAGE;
}

/* A number that is not negative. */
static bool take_number(double *to, const char *text)
{
	char *end;

	*to = strtod(text, &end);
	return *text != '\0' && *end == '\0' && *to >= 0 && *to < 1e9;
}

static bool word(const char *name)
{
	return *name != '\0' && strlen(name) < 64 && strpbrk(name, " \t\r\n'\"") == NULL;
}

/* EXIT_FINE: go on. */
static int check(const struct request *r)
{
	if (r->link == NULL)
		return bad_usage("expected the name of one link", "");
	if (!word(r->link))
		return bad_usage("expected a link's name without blanks and quotes, not ", r->link);
	if (r->path != NULL && !word(r->path))
		return bad_usage("expected a path's name without blanks and quotes, not ", r->path);
	if (r->plot != NULL && (strchr(r->plot, '\'') != NULL || strlen(r->plot) >= PATH_MAX))
		return bad_usage("--plot: expected a file's name without quotes, not ", r->plot);
	return EXIT_FINE;
}

int trace_main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"path", required_argument, NULL, 'p'},    {"seconds", required_argument, NULL, 's'},
	    {"past", no_argument, NULL, 'b'},          {"every", required_argument, NULL, 'e'},
	    {"csv", no_argument, NULL, 'v'},           {"json", no_argument, NULL, 'j'},
	    {"plot", required_argument, NULL, 'g'},    {"control", required_argument, NULL, 'c'},
	    {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
	struct request r = {.control_path = CONTROL_PATH, .every_ms = -1};
	int opt, code;

	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (opt == 'h') {
			fputs(usage, stdout);
			return EXIT_FINE;
		}
		if (opt == 'p')
			r.path = optarg;
		else if (opt == 'b')
			r.past = true;
		else if (opt == 'v')
			r.format = FORMAT_CSV;
		else if (opt == 'j')
			r.format = FORMAT_JSON;
		else if (opt == 'g')
			r.plot = optarg;
		else if (opt == 'c')
			r.control_path = optarg;
		else if (opt == 's' && !take_number(&r.seconds, optarg))
			return bad_usage("--seconds: expected a number above 0, not ", optarg);
		else if (opt == 'e' && !take_number(&r.every_ms, optarg))
			return bad_usage("--every: expected milliseconds, not ", optarg);
		else if (opt == '?')
			return EXIT_BAD_USAGE;
	}
	if (optind + 2 == argc) /* "trace" is the first */
		r.link = argv[optind + 1];
	code = check(&r);
	if (code != EXIT_FINE)
		return code;
	if (r.plot != NULL)
		r.format = FORMAT_CSV;
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	signal(SIGPIPE, SIG_IGN); /* a reader that closes the pipe ends the trace normally */
	return r.plot != NULL ? run_and_draw(&r) : run(&r, stdout);
}
