/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* struct ucred */
#include "close_watch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>

#include "daemon/closed/closed.h"
#include "daemon/closed/steer_watch.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "systemd.h"

#define UNIX_LISTENS 0x10000 /* in the column Flags of /proc/net/unix */

enum close_waits {
	SETTLE_MS = 20, /* a flush is many messages, and a daemon that starts opens its socket first */
	LEAST_MS = 100, /* from one examination to the next, however often rules change */
	RETRY_MS = 2000,
	UNREAD_MS = 5000, /* a file that cannot be understood may point to a file system that is mounted later */
	ENDED_MS = 1000,  /* systemd starts a daemon again after 100 ms, the daemon's parent its child at once */
	POLL_MS = 1000,
};

struct close_watch {
	const struct options *o;
	struct event_base *base;
	struct steer_watch *rules;
	struct watchdog *watchdog; /* NULL: nobody asked for one */
	struct event *look, *on_hup, *on_term, *on_int;
	struct close_timing timing;
	bool asked;               /* the next examination does all that --close does */
	int daemon;               /* pidfd of the daemon that keeps the rules; -1: none */
	struct event *daemon_end; /* NULL: none */
	char said[SITES_REPORT_MAX];
};

uint64_t close_watch_due(const struct close_timing *t, enum close_cause cause, uint64_t now_ns)
{
	static const uint32_t wait_ms[] = {
	    [CLOSE_CHANGED] = SETTLE_MS, [CLOSE_RELOAD] = 0,          [CLOSE_FAILED] = RETRY_MS,
	    [CLOSE_ENDED] = ENDED_MS,    [CLOSE_UNWATCHED] = POLL_MS, [CLOSE_UNREAD] = UNREAD_MS,
	};
	uint64_t at = now_ns + wait_ms[cause] * NS_PER_MS, least = t->looked_ns + LEAST_MS * NS_PER_MS;

	if (cause == CLOSE_CHANGED && t->looked_ns != 0 && at < least)
		at = least;
	return t->due_ns == 0 || at < t->due_ns ? at : t->due_ns;
}

static void plan(struct close_watch *w, enum close_cause cause)
{
	uint64_t now = clock_now_ns(), wait_us;

	w->timing.due_ns = close_watch_due(&w->timing, cause, now);
	wait_us = w->timing.due_ns > now ? (w->timing.due_ns - now) / 1000 : 0;
	event_add(w->look, &(struct timeval){.tv_sec = (time_t)(wait_us / 1000000),
	                                     .tv_usec = (suseconds_t)(wait_us % 1000000)});
}

/* --- a daemon --- */

static void forget_daemon(struct close_watch *w)
{
	if (w->daemon_end != NULL)
		event_free(w->daemon_end);
	if (w->daemon >= 0)
		close(w->daemon);
	w->daemon_end = NULL;
	w->daemon = -1;
}

static void on_daemon_end(evutil_socket_t fd, short what, void *arg)
{
	struct close_watch *w = arg;

	(void)fd;
	(void)what;
	forget_daemon(w);
	plan(w, CLOSE_ENDED);
}

/* Hears of the end of the daemon's process, or looks again in a moment. */
static void watch_daemon(struct close_watch *w, int connected)
{
	struct ucred who = {0};
	socklen_t len = sizeof(who);

	if (getsockopt(connected, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.pid > 0)
		w->daemon = (int)syscall(SYS_pidfd_open, who.pid, 0);
	if (w->daemon >= 0)
		w->daemon_end = event_new(w->base, w->daemon, EV_READ, on_daemon_end, w);
	if (w->daemon_end != NULL && event_add(w->daemon_end, NULL) == 0)
		return;
	forget_daemon(w);
	plan(w, CLOSE_UNWATCHED);
}

/* True if some process listens at the socket, for one that only another user may connect to. */
static bool listens(const char *path)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[256], name[128];
	bool found = false;
	unsigned flags;

	while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
		found = sscanf(line, "%*s %*s %*s %x %*s %*s %*s %127s", &flags, name) == 2 && (flags & UNIX_LISTENS) != 0 &&
		        strcmp(name, path) == 0;
	if (f != NULL)
		fclose(f);
	return found;
}

/* True if a daemon answers at the control socket, or has not ended since it did. */
static bool daemon_runs(struct close_watch *w)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	bool answers;
	int fd;

	if (w->daemon_end != NULL)
		return true;
	if ((size_t)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", w->o->control_path) >= sizeof(sun.sun_path))
		return false; /* no daemon can have it */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	/* EAGAIN: it has not accepted earlier clients yet */
	answers = connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) == 0 || errno == EAGAIN;
	if (answers) {
		watch_daemon(w, fd);
	} else if (errno == EACCES && listens(w->o->control_path)) {
		plan(w, CLOSE_UNWATCHED);
		answers = true;
	}
	close(fd);
	return answers;
}

/* --- the rules --- */

static const char *state_text(int r)
{
	switch (r) {
	case 0:
		return "RoCE between the prefixes of the link files is closed";
	case -EINVAL:
		return "a link file, or an option of longreachd, has an error: no RoCE is forwarded at all; the log "
		       "says which";
	default:
		return "rules cannot be set, and RoCE may be forwarded; the log says why";
	}
}

/* 0, or negative errno as closed_apply(). */
static int examine(struct close_watch *w)
{
	static char report[SITES_REPORT_MAX];
	bool asked = w->asked;
	int r;

	w->asked = false;
	w->timing.due_ns = 0;
	if (daemon_runs(w)) {
		if (asked)
			log_notice("longreachd runs and keeps the rules: `longreach reload` makes it read the link files");
		closed_forget();
		w->said[0] = '\0';
		systemd_closed("longreachd runs and keeps the rules");
		return 0;
	}
	r = asked ? closed_apply(&w->o->sources, NULL, report) : closed_restore(&w->o->sources, report);
	w->timing.looked_ns = clock_now_ns();
	if (asked || (r == 0 && !closed_all()))
		w->said[0] = '\0';
	closed_log(report, w->said);
	if (r < 0 && r != -EINVAL)
		plan(w, CLOSE_FAILED);
	if (closed_all())
		plan(w, CLOSE_UNREAD);
	systemd_closed(state_text(r == 0 && closed_all() ? -EINVAL : r));
	return r;
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	examine(arg);
}

static void on_change(void *arg)
{
	plan(arg, CLOSE_CHANGED);
}

static void on_hangup(evutil_socket_t sig, short what, void *arg)
{
	struct close_watch *w = arg;

	(void)sig;
	(void)what;
	w->asked = true;
	plan(w, CLOSE_RELOAD);
}

static void on_stop(evutil_socket_t sig, short what, void *arg)
{
	struct close_watch *w = arg;

	(void)sig;
	(void)what;
	event_base_loopbreak(w->base);
}

static struct event *catch_signal(struct close_watch *w, int sig, event_callback_fn fn)
{
	struct event *ev = evsignal_new(w->base, sig, fn, w);

	if (ev != NULL && event_add(ev, NULL) < 0) {
		event_free(ev);
		ev = NULL;
	}
	return ev;
}

/* False: out of memory. Hears of changes from here on. */
static bool set_up(struct close_watch *w)
{
	static const struct sites none; /* the watchdog asks no worker */

	w->base = event_base_new();
	if (w->base == NULL)
		return false;
	w->look = evtimer_new(w->base, on_look, w);
	w->on_hup = catch_signal(w, SIGHUP, on_hangup);
	w->on_term = catch_signal(w, SIGTERM, on_stop);
	w->on_int = catch_signal(w, SIGINT, on_stop);
	return w->look != NULL && w->on_hup != NULL && w->on_term != NULL && w->on_int != NULL &&
	       systemd_watchdog_start(&w->watchdog, w->base, &none) == 0 &&
	       steer_watch_open(&w->rules, w->base, on_change, w) == 0;
}

static void tear_down(struct close_watch *w)
{
	struct event *const events[] = {w->look, w->on_hup, w->on_term, w->on_int};

	systemd_stopping();
	forget_daemon(w);
	steer_watch_close(w->rules);
	systemd_watchdog_stop(w->watchdog);
	for (unsigned i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (events[i] != NULL)
			event_free(events[i]);
	if (w->base != NULL)
		event_base_free(w->base);
}

int close_watch_run(const struct options *o)
{
	static struct close_watch w;
	int r;

	w = (struct close_watch){.o = o, .daemon = -1, .asked = true};
	if (!set_up(&w)) {
		static char report[SITES_REPORT_MAX];

		log_err("no memory to watch the kernel's rules");
		closed_apply(&o->sources, NULL, report);
		closed_log(report, w.said);
		tear_down(&w);
		return EXIT_FAILURE;
	}
	r = examine(&w);
	if (r == 0 || r == -EINVAL)
		r = event_base_dispatch(w.base) == 0 && event_base_got_break(w.base) ? 0 : -EIO;
	tear_down(&w);
	return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
