/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_answer.h"
#include "client_conn.h"
#include "daemon/config/site_paths.h"
#include "daemon/telemetry/control.h"
#include "daemon/util/json.h"

/* longreach(1) promises them. */
enum { EXIT_HEALTHY = 0, EXIT_ILL = 1, EXIT_CANNOT_LOOK = 2 };

#define FINDINGS_MAX 200
#define TEXT_MAX     640
#define CONFIG_DIR   "/etc/longreach"
#define BETWEEN_S    1 /* seconds between the two requests to the daemon */

static const char usage[] =
    "usage: longreach doctor [LINK] [--json] [--config-dir DIR] [--list] [--control PATH]\n"
    "\n"
    "Examines a link, or all links, at this edge: prints a line for each fault that it finds\n"
    "and what to do about it. Run it as root, at both edges.\n"
    "\n"
    "  --json            print JSON\n"
    "  --config-dir DIR  the directory of the link files, used if no daemon runs. Default: " CONFIG_DIR "\n"
    "  --list            list the checks\n"
    "\n"
    "Exit code: 0 no fault found; 1 faults found; 2 some checks could not run.\n";

struct finding {
	char link[LINK_NAME_MAX]; /* empty: of no link */
	const char *check;
	char what[TEXT_MAX], todo[TEXT_MAX];
};

struct doctor {
	struct finding *found;
	uint32_t n, left_out;
	bool could_not; /* somewhere */
	bool quiet;     /* only the JSON lists checks that could not be made */
	pid_t daemon;
	/* the check that is running, for doctor_find() */
	const char *check;
	const char *link;
};

/* --- findings --- */

static void format_finding(struct finding *f, const char *fmt, va_list ap)
{
	char text[2 * TEXT_MAX], *todo;

	vsnprintf(text, sizeof(text), fmt, ap);
	todo = strchr(text, '\n');
	if (todo != NULL)
		*todo++ = '\0';
	snprintf(f->what, sizeof(f->what), "%.*s", TEXT_MAX - 1, text);
	snprintf(f->todo, sizeof(f->todo), "%.*s", TEXT_MAX - 1, todo != NULL ? todo : "");
}

void doctor_find(struct doctor *d, const char *fmt, ...)
{
	struct finding *f = &d->found[d->n];
	va_list ap;

	if (d->n == FINDINGS_MAX) {
		d->left_out++;
		return;
	}
	snprintf(f->link, sizeof(f->link), "%s", d->link);
	f->check = d->check;
	va_start(ap, fmt);
	format_finding(f, fmt, ap);
	va_end(ap);
	d->n++;
}

void doctor_cannot(struct doctor *d, const char *fmt, ...)
{
	va_list ap;

	d->could_not = true;
	if (d->quiet)
		return;
	fprintf(stderr, "longreach doctor: %s%s%s: ", d->link, d->link[0] != '\0' ? ": " : "", d->check);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

pid_t doctor_daemon(const struct doctor *d)
{
	return d->daemon;
}

static void print_text(const struct doctor *d)
{
	for (uint32_t i = 0; i < d->n; i++) {
		const struct finding *f = &d->found[i];

		printf("%s%s%s: %s%s%s\n", f->link, f->link[0] != '\0' ? ": " : "", f->check, f->what,
		       f->todo[0] != '\0' ? " -> " : "", f->todo);
	}
	if (d->left_out > 0)
		printf("and %u more\n", d->left_out);
	if (d->n == 0 && isatty(STDOUT_FILENO))
		printf(d->could_not ? "nothing found by the checks that could look\n" : "nothing is wrong\n");
}

static void print_json(const struct doctor *d)
{
	struct json j = {.stream = stdout};

	json_object(&j, NULL);
	json_bool(&j, "healthy", d->n == 0 && !d->could_not);
	json_bool(&j, "looked_at_all", !d->could_not);
	json_uint(&j, "left_out", d->left_out);
	json_array(&j, "findings");
	for (uint32_t i = 0; i < d->n; i++) {
		json_object(&j, NULL);
		json_string(&j, "link", d->found[i].link);
		json_string(&j, "check", d->found[i].check);
		json_string(&j, "what", d->found[i].what);
		json_string(&j, "do", d->found[i].todo);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_object_end(&j);
	putchar('\n');
}

/* --- the daemon --- */

struct request {
	const char *control_path, *link, *config_dir;
	bool json;
};

/* Asks the daemon. EXIT_HEALTHY: a is filled in; EXIT_ILL: no daemon; EXIT_CANNOT_LOOK: after a message. */
static int ask(struct doctor *d, const struct request *r, struct j_answer *a)
{
	char *why = NULL;
	int parsed = j_answer_take(a, client_ask_quietly(r->control_path, "status flows", &d->daemon, &why));

	if (a->text == NULL && why != NULL) {
		fprintf(stderr, "longreach doctor: %s\n", why);
		free(why);
		return EXIT_CANNOT_LOOK;
	}
	if (a->text == NULL)
		return EXIT_ILL;
	if (parsed == 0 && j_bool(a->doc, "ok"))
		return EXIT_HEALTHY;
	fprintf(stderr, "longreach doctor: cannot read the daemon's answer: run `longreach version` to see whether the "
	                "daemon is of another version\n");
	return EXIT_CANNOT_LOOK;
}

/* --- looking --- */

static void look_at_link(struct doctor *d, struct doctor_link *l)
{
	d->link = l->name;
	for (uint32_t i = 0; i < doctor_nchecks; i++) {
		d->check = doctor_checks[i].name;
		doctor_checks[i].look(d, l);
	}
	d->link = "";
}

static void read_config(struct doctor_link *l, const char *path)
{
	config_load_all(path, &l->config, l->reading);
	l->has_config = l->config.path[0] != '\0';
}

/* Findings about the daemon as a whole. */
static void look_at_strays(struct doctor *d, const struct j_answer *a)
{
	const struct json_object *strays = j_get(a->doc, "stray_buffers"), *s;

	d->check = "stray_buffer";
	for (size_t i = 0; (s = j_at(strays, i)) != NULL; i++)
		doctor_find(
		    d, "%s\nput its link file back to deliver the packets, or remove the buffer's file to lose them",
		    j_text(s, "text"));
}

static void look_at_refused(struct doctor *d, const struct j_answer *a)
{
	const char *why = j_text(a->doc, "refused");

	d->check = "files_refused";
	if (why[0] != '\0')
		doctor_find(d, "the link files are not in force since they were read last: %.*s%s\nmend that, and `longreach reload`",
		            (int)strcspn(why, "\n"), why,
		            j_bool(a->doc, "all_roce_closed") ? "; all RoCE that this machine would forward is closed" : "");
}

static void look_at_metrics(struct doctor *d, const struct j_answer *a)
{
	const char *why = j_text(a->doc, "metrics_error");

	d->check = "metrics";
	if (why[0] != '\0')
		doctor_find(d, "no metrics are served: %s\nnobody is alerted meanwhile: free that place, or give --metrics another",
		            why);
}

static void look_at_lsm(struct doctor *d)
{
	d->check = "lsm";
	doctor_lsm(d, NULL);
}

static int look_at_running(struct doctor *d, const struct request *r, struct doctor_link *l,
                           const struct j_answer *before, const struct j_answer *now)
{
	const struct json_object *links = j_get(now->doc, "links"), *link;
	bool found = false;

	for (size_t i = 0; (link = j_at(links, i)) != NULL; i++) {
		const char *name = j_text(link, "name");

		if (r->link != NULL && strcmp(r->link, name) != 0)
			continue;
		found = true;
		snprintf(l->name, sizeof(l->name), "%s", name);
		l->now = link;
		l->before = answer_link(before->doc, name);
		read_config(l, j_text(link, "config"));
		look_at_link(d, l);
	}
	if (!found && r->link != NULL) {
		look_at_refused(d, now);
		fprintf(stderr, "longreach doctor: there is no link %s\n", r->link);
		return EXIT_CANNOT_LOOK;
	}
	if (r->link == NULL) {
		look_at_refused(d, now);
		look_at_metrics(d, now);
	}
	if (!found && j_text(now->doc, "refused")[0] == '\0') {
		d->check = "no_link";
		doctor_find(d, "the daemon runs and has no link\nput a link file NAME.conf into " CONFIG_DIR
		               " and run `longreach reload`");
	}
	if (r->link == NULL)
		look_at_strays(d, now);
	look_at_lsm(d);
	return EXIT_HEALTHY;
}

/* The name of the link of a file. */
static void name_of(const char *path, char name[LINK_NAME_MAX])
{
	const char *base = strrchr(path, '/');
	size_t len;

	base = base != NULL ? base + 1 : path;
	len = strlen(base) - strlen(".conf");
	snprintf(name, LINK_NAME_MAX, "%.*s", (int)len, base);
}

/* Without a daemon: checks the link files and the machine. */
static int look_at_files(struct doctor *d, const struct request *r, struct doctor_link *l)
{
	const struct site_sources sources = {.dir = r->config_dir};
	static struct site_paths paths;
	static char report[SITES_REPORT_MAX];
	bool found = r->link == NULL;

	d->check = "no_daemon";
	doctor_find(d,
	            "longreachd does not run: no process answers at %s\nrun `systemctl start longreachd` and read "
	            "`journalctl -u longreachd`",
	            r->control_path);
	if (site_paths_read(&sources, &paths, report) < 0)
		doctor_cannot(d, "%s", report);
	look_at_lsm(d);
	for (uint32_t i = 0; i < paths.n; i++) {
		name_of(paths.path[i], l->name);
		if (r->link != NULL && strcmp(r->link, l->name) != 0)
			continue;
		found = true;
		read_config(l, paths.path[i]);
		look_at_link(d, l);
	}
	if (found)
		return EXIT_HEALTHY;
	fprintf(stderr, "longreach doctor: there is no link file %s/%s.conf\n", r->config_dir, r->link);
	return EXIT_CANNOT_LOOK;
}

static int look(struct doctor *d, const struct request *r, struct doctor_link *l)
{
	struct j_answer before = {0}, now = {0};
	int code = ask(d, r, &before);

	if (code == EXIT_HEALTHY) {
		sleep(BETWEEN_S);
		code = ask(d, r, &now);
	}
	if (code == EXIT_HEALTHY)
		code = look_at_running(d, r, l, &before, &now);
	else if (code == EXIT_ILL)
		code = look_at_files(d, r, l);
	j_answer_free(&before);
	j_answer_free(&now);
	return code;
}

static int examine(const struct request *r)
{
	struct doctor d = {.link = "", .check = "", .quiet = r->json, .found = calloc(FINDINGS_MAX, sizeof(*d.found))};
	struct doctor_link *l = calloc(1, sizeof(*l));
	int code = EXIT_CANNOT_LOOK;

	if (l != NULL)
		l->reading = calloc(1, sizeof(*l->reading));
	if (l != NULL && l->reading != NULL && d.found != NULL)
		code = look(&d, r, l);
	else
		fputs("longreach doctor: not enough memory\n", stderr);
	if (code == EXIT_HEALTHY) {
		(r->json ? print_json : print_text)(&d);
		code = d.n > 0 ? EXIT_ILL : d.could_not ? EXIT_CANNOT_LOOK : EXIT_HEALTHY;
	}
	if (l != NULL)
		free(l->reading);
	free(l);
	free(d.found);
	return code;
}

/* --- the command --- */

static int list_checks(void)
{
	puts("no_daemon: longreachd does not run");
	puts("no_link: the daemon runs and has no link");
	puts("files_refused: link files that the daemon refused when it read them last");
	puts("metrics: an address of --metrics where longreachd cannot listen");
	for (uint32_t i = 0; i < doctor_nchecks; i++)
		printf("%s: %s\n", doctor_checks[i].name, doctor_checks[i].text);
	puts("lsm: a refusal of SELinux or AppArmor to longreachd in the audit log or the kernel's log");
	puts("stray_buffer: a buffer that no link will drain, with packets that hosts believe delivered");
	return EXIT_HEALTHY;
}

static int bad_usage(const char *what, const char *about)
{
	fprintf(stderr, "longreach doctor: %s%s\n%s", what, about, usage);
	return EXIT_CANNOT_LOOK;
}

int doctor_main(int argc, char **argv, const char *control_path)
{
	static const struct option options[] = {
	    {"json", no_argument, NULL, 'j'}, {"config-dir", required_argument, NULL, 'd'},
	    {"list", no_argument, NULL, 'l'}, {"control", required_argument, NULL, 'c'},
	    {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	struct request r = {.control_path = control_path, .config_dir = CONFIG_DIR};
	int opt;

	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (opt == 'h') {
			fputs(usage, stdout);
			return EXIT_HEALTHY;
		}
		if (opt == 'l')
			return list_checks();
		if (opt == 'j')
			r.json = true;
		else if (opt == 'd')
			r.config_dir = optarg;
		else if (opt == 'c')
			r.control_path = optarg;
		else
			return EXIT_CANNOT_LOOK;
	}
	if (optind < argc)
		r.link = argv[optind++];
	if (optind < argc)
		return bad_usage("expected at most one link, not also ", argv[optind]);
	return examine(&r);
}
