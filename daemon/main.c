/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - longreachd: one thread with an event loop for everything that is not the data path. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "copy/back/copy_push.h"
#include "copy/server/copy_exports.h"
#include "daemon/closed/closed.h"
#include "daemon/telemetry/control.h"
#include "daemon/telemetry/exporter.h"
#include "daemon/link/failed_record.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "check_config.h"
#include "close_watch.h"
#include "options.h"
#include "daemon/privileged/privsep.h"
#include "daemon/privileged/sandbox.h"
#include "daemon/closed/steer_watch.h"
#include "daemon/peer/tls.h"
#include "daemon/util/version.h"
#include "systemd.h"
#include "seal/secret_mem.h"

struct daemon {
	struct event_base *base;
	struct sites sites;
	struct control *control, *looks;
	const char *metrics;       /* where to serve them; NULL: no --metrics */
	struct exporter *exporter; /* NULL: metrics are not served */
	struct watchdog *watchdog; /* NULL: nobody asked for one */
	struct steer_watch *rules;
	struct event *on_hup, *on_term, *on_int;
	struct event *close_again;   /* repeats what could not be closed */
	struct event *serve_again;   /* repeats what could not be listened at */
	char said[SITES_REPORT_MAX]; /* by the last attempts to close */
};

#define CLOSE_AGAIN_S 2
#define SERVE_AGAIN_S 2

/* One log line for each line of a report. */
static void log_report(enum log_level level, const char *report)
{
	while (*report != '\0') {
		size_t len = strcspn(report, "\n");

		log_at(level, "%.*s", (int)len, report);
		report += len + (report[len] == '\n');
	}
}

/* closed_apply(), with its report in the log, but for what is in `said` already (SITES_REPORT_MAX). */
static int close_ways(const struct site_sources *sources, const struct sites *sites, char *said)
{
	static char report[SITES_REPORT_MAX];
	struct closed_links links = {.n = sites != NULL ? sites->n : 0};
	int r;

	if (sites != NULL && sites->gone != NULL) {
		links.gone = sites->gone->list;
		links.ngone = sites->gone->n;
	}
	for (uint32_t i = 0; i < links.n; i++) {
		links.list[i] = site_config(sites->list[i]);
		links.runs[i] = site_link(sites->list[i]) != NULL;
	}
	r = closed_apply(sources, &links, report);
	closed_log(report, said);
	return r;
}

/* For a process that runs no links: the whole report is logged. Returns the exit status. */
static int close_only(const struct options *o)
{
	char said[SITES_REPORT_MAX] = "";
	int r = close_ways(&o->sources, NULL, said);

	return o->exit_status != 0 ? o->exit_status : r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Rules could not be set: nothing may happen that makes the daemon try again. */
static void plan_close_again(const struct daemon *d)
{
	event_add(d->close_again, &(struct timeval){.tv_sec = CLOSE_AGAIN_S});
}

/* What is in d->said already is not logged. */
static void close_files(struct daemon *d)
{
	if (close_ways(&d->sites.sources, &d->sites, d->said) == -EIO)
		plan_close_again(d);
}

/* The same for the daemon, which has told why link files are refused. */
static void close_again(struct daemon *d)
{
	snprintf(d->said, sizeof(d->said), "%s", d->sites.refused);
	close_files(d);
}

/* The link files were refused: report says why, and is told what is closed for that reason. */
static void note_refused(struct daemon *d, char *report)
{
	if (close_ways(&d->sites.sources, &d->sites, report) == -EIO)
		plan_close_again(d);
	snprintf(d->sites.refused, sizeof(d->sites.refused), "%s", report);
	snprintf(d->said, sizeof(d->said), "%s", report);
}

static int reload(void *arg, char *report)
{
	struct daemon *d = arg;
	int r;

	systemd_reloading();
	log_notice("reading the link files again");
	r = sites_reload(&d->sites, report);
	if (r < 0) { /* else each link has logged its own result */
		log_report(LOG_LEVEL_ERR, report);
		log_err("the link files are not taken up: all links go on as they were");
		note_refused(d, report);
	} else {
		d->sites.refused[0] = '\0';
		d->sites.unstarted = false;
		close_again(d); /* the rules may have been changed, or a file was renamed, removed or corrected */
		sites_forget_gone(&d->sites);
	}
	systemd_ready(&d->sites);
	return r;
}

/* Removes rules that only the former file asked for. */
static void on_changed(void *arg)
{
	struct daemon *d = arg;

	close_again(d);
	systemd_ready(&d->sites);
}

static void on_hangup(evutil_socket_t sig, short what, void *arg)
{
	static char report[SITES_REPORT_MAX];

	(void)sig;
	(void)what;
	reload(arg, report);
}

static void on_stop(evutil_socket_t sig, short what, void *arg)
{
	struct daemon *d = arg;

	(void)what;
	log_notice("stopping on %s", sig == SIGTERM ? "SIGTERM" : "SIGINT");
	event_base_loopbreak(d->base);
}

static void keep_all_closed(const struct daemon *d)
{
	static struct log_limit said = {.window_ns = 10 * NS_PER_S, .burst = 3};
	char err[CONFIG_ERR_MAX] = "";

	if (closed_keep_all(&d->sites.sources, err) >= 0)
		return;
	plan_close_again(d);
	if (log_limit_pass(&said, clock_now_ns(), NULL))
		log_err("a link file has an error, and longreachd %s; it tries again every %d s", err, CLOSE_AGAIN_S);
}

static void on_close_again(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *d = arg;

	(void)fd;
	(void)what;
	keep_all_closed(d);
	close_files(d);
}

static void on_rules(void *arg)
{
	struct daemon *d = arg;

	keep_all_closed(d);
	for (uint32_t i = 0; i < d->sites.n; i++)
		site_look_at_rules(d->sites.list[i]);
	if (d->sites.refused[0] != '\0') /* rules of files whose links this daemon does not have */
		close_again(d);
}

static struct event *catch_signal(struct daemon *d, int sig, event_callback_fn fn)
{
	struct event *ev = evsignal_new(d->base, sig, fn, d);

	if (ev != NULL)
		event_add(ev, NULL);
	return ev;
}

/* An address that is missing or taken never keeps links from running: metrics are served once the address is free. */
static void serve_metrics(struct daemon *d)
{
	char *said = d->sites.unserved, err[CONFIG_ERR_MAX];

	if (exporter_start(&d->exporter, d->metrics, d->base, &d->sites, err) == 0) {
		said[0] = '\0';
		return;
	}
	if (strcmp(err, said) != 0)
		log_err("%s: no metrics are served; links run all the same, and it tries again every %d s", err,
		        SERVE_AGAIN_S);
	memcpy(said, err, sizeof(err));
	event_add(d->serve_again, &(struct timeval){.tv_sec = SERVE_AGAIN_S});
}

static void on_serve_again(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	serve_metrics(arg);
}

/* Beside the control socket. */
static void open_record(struct daemon *d, const char *control_path)
{
	const char *slash = strrchr(control_path, '/');
	char path[256];

	snprintf(path, sizeof(path), "%.*sfailed", slash != NULL ? (int)(slash + 1 - control_path) : 0, control_path);
	d->sites.failed = failed_record_open(path);
}

/* refused: why no link is started; empty: all are. */
static int set_up(struct daemon *d, const struct options *o, const struct site_configs *configs, char *refused)
{
	const struct control_user user = {.reload = reload, .changed = on_changed, .arg = d};
	char err[CONFIG_ERR_MAX], path[CONTROL_PATH_CAP];

	d->base = event_base_new();
	if (d->base == NULL) {
		log_err("cannot make an event loop");
		return -ENOMEM;
	}
	d->close_again = evtimer_new(d->base, on_close_again, d);
	d->serve_again = evtimer_new(d->base, on_serve_again, d);
	if (d->close_again == NULL || d->serve_again == NULL) {
		log_err("no memory for a timer");
		return -ENOMEM;
	}
	d->on_hup = catch_signal(d, SIGHUP, on_hangup);
	d->on_term = catch_signal(d, SIGTERM, on_stop);
	d->on_int = catch_signal(d, SIGINT, on_stop);
	d->sites.sources = o->sources;
	d->sites.base = d->base;
	d->sites.pcap_dir = o->pcap_dir;
	/* Opens the socket first: it shows whether another daemon runs before anything of that daemon is touched. */
	if (control_start(&d->control, o->control_path, CONTROL_ALL, d->base, &d->sites, &user, err) < 0) {
		log_err("%s", err);
		return -EINVAL;
	}
	if (control_start(&d->looks, control_status_path(o->control_path, path), CONTROL_LOOKS, d->base, &d->sites, &user,
	                  err) < 0)
		log_warn("only root can read the status: %s", err);
	d->metrics = o->metrics;
	if (d->metrics != NULL)
		serve_metrics(d);
	open_record(d, o->control_path);
	if (d->sites.unstarted)
		log_err("no link is started: mend that, and run `longreach reload`");
	else if (configs->n == 0)
		log_warn("no link files in %s: waiting for a reload", o->sources.dir);
	if (systemd_watchdog_start(&d->watchdog, d->base, &d->sites) < 0) {
		log_err("no memory for the watchdog");
		return -ENOMEM;
	}
	if (steer_watch_open(&d->rules, d->base, on_rules, d) < 0) {
		log_err("no memory to watch the kernel's rules");
		return -ENOMEM;
	}
	if (d->sites.unstarted)
		note_refused(d, refused);
	else
		close_again(d); /* a link that does not start logs that itself */
	return sites_start(&d->sites, configs);
}

static void tear_down(struct daemon *d)
{
	systemd_stopping();
	if (d->control != NULL)
		control_stop(d->control);
	if (d->looks != NULL)
		control_stop(d->looks);
	if (d->exporter != NULL)
		exporter_stop(d->exporter);
	systemd_watchdog_stop(d->watchdog);
	steer_watch_close(d->rules);
	sites_stop(&d->sites);
	failed_record_close(d->sites.failed);
	if (d->close_again != NULL)
		event_free(d->close_again);
	if (d->serve_again != NULL)
		event_free(d->serve_again);
	if (d->on_hup != NULL)
		event_free(d->on_hup);
	if (d->on_term != NULL)
		event_free(d->on_term);
	if (d->on_int != NULL)
		event_free(d->on_int);
	if (d->base != NULL)
		event_base_free(d->base);
}

/* Runs the event loop until a signal ends it. A loop that ends by itself is a failure: systemd starts the daemon
 * again. */
static int turn(const struct daemon *d)
{
	int r = event_base_dispatch(d->base);

	if (r == 0 && event_base_got_break(d->base))
		return 0;
	log_err("the event loop has ended without a signal (%d): stopping with an error", r);
	return -EIO;
}

/* refused: as with set_up(). */
static int run(const struct options *o, const struct site_configs *configs, char *refused)
{
	struct daemon d = {.sites.unstarted = refused[0] != '\0'};
	int r;

	log_notice("longreachd " LONGREACH_VERSION " starting");
	log_report(LOG_LEVEL_ERR, refused);
	r = set_up(&d, o, configs, refused);
	if (r == 0) {
		systemd_ready(&d.sites);
		r = turn(&d);
	}
	tear_down(&d);
	lan_engine_stop();
	return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

struct engine_start {
	const struct options *o;
	struct site_configs *configs; /* scratch: main() reads the files again and reports their errors */
};

/* Opens the devices: possible only now, while the process has its rights. Returns what the link files ask of the sandbox: also
 * if one of them is refused, since a reload starts the links when that file is mended, with this sandbox. */
static unsigned open_devices(void *arg)
{
	static char report[SITES_REPORT_MAX];
	const struct engine_start *s = arg;
	unsigned more = 0;

	if (sites_read(&s->o->sources, MISSING_IS_GONE, s->configs, report) == 0)
		lan_engine_start(&s->o->engine, s->configs->list, s->configs->n);
	for (uint32_t i = 0; i < s->configs->n; i++)
		more |= s->configs->list[i].relay_gpu ? SANDBOX_GPU : 0;
	return more;
}

static int print(const struct site_configs *configs)
{
	for (uint32_t i = 0; i < configs->n; i++) {
		if (i > 0)
			putchar('\n');
		config_print(&configs->list[i]);
	}
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static struct site_configs configs;
	static char report[SITES_REPORT_MAX];
	struct options o;
	struct engine_start start = {&o, &configs};

	options_parse(argc, argv, &o);
	if (o.action == DO_EXIT)
		return o.exit_status;
	log_init(o.verbose);
	if ((o.action == DO_RUN || o.action == DO_CLOSE) &&
	    sandbox_check_rights(o.action == DO_RUN ? SANDBOX_NEEDS_TO_RUN : SANDBOX_NEEDS_TO_CLOSE, report,
	                         sizeof(report)) < 0) {
		log_err("%s", report);
		return EXIT_FAILURE;
	}
	if (o.action == DO_CLOSE)
		return o.watch ? close_watch_run(&o) : close_only(&o);
	if (o.action == DO_OWED)
		return closed_list_owed(&o.sources, stdout) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	if (o.action == DO_EXPORTS)
		return copy_exports_run(&o.sources, copy_push_serve);
	if (o.action == DO_RUN && privsep_split(o.user, open_devices, &start, report, sizeof(report)) < 0) {
		log_err("%s", report);
		return EXIT_FAILURE;
	}
	if (o.action != DO_RUN)
		secret_openssl(); /* privsep_split() has done it */
	if (o.action == DO_CHECK)
		return check_config(&o);
	if (sites_read(&o.sources, MISSING_IS_ERROR, &configs, report) < 0) {
		if (o.action != DO_RUN) {
			fprintf(stderr, "%s\n", report);
			return EXIT_FAILURE;
		}
		configs.n = 0; /* runs all the same: nobody else puts back rules that are flushed */
	}
	if (o.action == DO_PRINT)
		return print(&configs);
	return run(&o, &configs, report);
}
