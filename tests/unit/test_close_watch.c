/* SPDX-License-Identifier: Apache-2.0 */
/* When the rules are examined while no daemon runs, and who sets them when one does. */
#define _GNU_SOURCE /* close_watch.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/close_watch.c"
#include "no_log.h"

#include <sys/wait.h>

static unsigned applied, restored, forgotten; /* calls of closed.h */
static int result;
static bool all_closed;
static const char *status;

int closed_apply(const struct site_sources *src, const struct closed_links *links, char *report)
{
	(void)src;
	assert_null(links);
	report[0] = '\0';
	applied++;
	return result;
}

int closed_restore(const struct site_sources *src, char *report)
{
	(void)src;
	report[0] = '\0';
	restored++;
	return result;
}

void closed_forget(void)
{
	forgotten++;
}

bool closed_all(void)
{
	return all_closed;
}

void closed_log(char *report, char *said)
{
	(void)report;
	(void)said;
}

int steer_watch_open(struct steer_watch **out, struct event_base *base, void (*fn)(void *arg), void *arg)
{
	(void)base;
	(void)fn;
	(void)arg;
	*out = NULL;
	return 0;
}

void steer_watch_close(struct steer_watch *w)
{
	(void)w;
}

int systemd_watchdog_start(struct watchdog **w, struct event_base *base, const struct sites *sites)
{
	(void)base;
	(void)sites;
	*w = NULL;
	return 0;
}

void systemd_watchdog_stop(struct watchdog *w)
{
	(void)w;
}

void systemd_stopping(void)
{
}

void systemd_closed(const char *state)
{
	status = state;
}

static void close_watch_due__soon_and_not_too_often(void **state)
{
	static const struct {
		uint64_t due_ms, looked_ms; /* 0: none */
		enum close_cause cause;
		uint64_t expected_ms; /* at 10000 ms */
	} cases[] = {
	    {0, 0, CLOSE_CHANGED, 10020},
	    {0, 9000, CLOSE_CHANGED, 10020},
	    {0, 9950, CLOSE_CHANGED, 10050},     /* 100 ms after the last time */
	    {0, 10000, CLOSE_CHANGED, 10100},    /* this process has changed the rules itself */
	    {10005, 9000, CLOSE_CHANGED, 10005}, /* a second message does not delay the first */
	    {9990, 9000, CLOSE_CHANGED, 9990},   /* due already */
	    {0, 10000, CLOSE_FAILED, 12000},
	    {12000, 10000, CLOSE_CHANGED, 10100}, /* somebody changes rules again before the next attempt */
	    {0, 9999, CLOSE_RELOAD, 10000},
	    {10100, 9999, CLOSE_RELOAD, 10000},
	    {0, 0, CLOSE_ENDED, 11000},
	    {11000, 0, CLOSE_CHANGED, 10020}, /* a flush behind the daemon's death */
	    {10020, 0, CLOSE_ENDED, 10020},
	    {0, 0, CLOSE_UNWATCHED, 11000},
	    {0, 9999, CLOSE_UNREAD, 15000},
	    {12000, 9999, CLOSE_UNREAD, 12000},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct close_timing t = {cases[i].due_ms * NS_PER_MS, cases[i].looked_ms * NS_PER_MS};

		assert_int_equal(close_watch_due(&t, cases[i].cause, 10000 * NS_PER_MS) / NS_PER_MS, cases[i].expected_ms);
	}
}

static char path[64];
static struct options options;
static struct close_watch w;

static int set_up_watch(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "/tmp/close_watch.%d", (int)getpid());
	options = (struct options){.action = DO_CLOSE, .watch = true, .control_path = path};
	w = (struct close_watch){.o = &options, .daemon = -1, .asked = true};
	applied = restored = forgotten = 0;
	result = 0;
	all_closed = false;
	return set_up(&w) ? 0 : -1;
}

static int tear_down_watch(void **state)
{
	(void)state;
	tear_down(&w);
	unlink(path);
	return 0;
}

/* A process that listens at the control socket until it is killed. */
static pid_t start_daemon(void)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int ready[2];
	char byte;
	pid_t pid;

	unlink(path);
	strcpy(sun.sun_path, path);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);

		if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 || listen(fd, 4) < 0 || write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void examine__the_start_does_all_and_a_change_restores(void **state)
{
	(void)state;
	assert_int_equal(examine(&w), 0);
	assert_int_equal(applied, 1);
	assert_false(event_pending(w.look, EV_TIMEOUT, NULL));
	on_change(&w);
	on_change(&w);
	assert_true(event_pending(w.look, EV_TIMEOUT, NULL));
	event_base_loop(w.base, EVLOOP_ONCE);
	assert_int_equal(restored, 1);
	assert_int_equal(applied, 1);
	assert_false(event_pending(w.look, EV_TIMEOUT, NULL));
	on_hangup(SIGHUP, 0, &w);
	event_base_loop(w.base, EVLOOP_ONCE);
	assert_int_equal(applied, 2);
	assert_int_equal(restored, 1);
}

/* A file may be on a file system that is mounted later. */
static void examine__looks_again_while_a_file_is_not_understood(void **state)
{
	(void)state;
	result = -EINVAL;
	all_closed = true;
	assert_int_equal(examine(&w), -EINVAL);
	assert_true(event_pending(w.look, EV_TIMEOUT, NULL));
	assert_non_null(strstr(status, "has an error"));
	result = 0; /* it can be understood, and may be half written */
	assert_int_equal(examine(&w), 0);
	assert_int_equal(restored, 1);
	assert_true(event_pending(w.look, EV_TIMEOUT, NULL));
	assert_non_null(strstr(status, "has an error"));
	event_del(w.look);
	all_closed = false;
	assert_int_equal(examine(&w), 0);
	assert_false(event_pending(w.look, EV_TIMEOUT, NULL));
	assert_null(strstr(status, "an error"));
}

static void examine__tries_again_what_failed(void **state)
{
	(void)state;
	assert_int_equal(examine(&w), 0);
	assert_false(event_pending(w.look, EV_TIMEOUT, NULL));
	result = -EIO;
	assert_int_equal(examine(&w), -EIO);
	assert_true(event_pending(w.look, EV_TIMEOUT, NULL));
	assert_non_null(strstr(status, "cannot be set"));
	assert_int_equal(applied, 1);
	assert_int_equal(restored, 1);
}

/* It sets its own rules, which may differ from those that the files ask for. */
static void examine__leaves_the_rules_to_a_daemon_until_its_end(void **state)
{
	pid_t pid = start_daemon();

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(examine(&w), 0);
	assert_int_equal(applied + restored, 0);
	assert_int_equal(forgotten, 3);
	assert_non_null(strstr(status, "longreachd runs"));
	assert_false(event_pending(w.look, EV_TIMEOUT, NULL));
	/* it stops in order: it closes the socket first, and sets its links' last rules behind that */
	unlink(path);
	assert_int_equal(examine(&w), 0);
	assert_int_equal(applied + restored, 0);
	kill(pid, SIGKILL);
	event_base_loop(w.base, EVLOOP_ONCE);
	waitpid(pid, NULL, 0);
	assert_true(event_pending(w.look, EV_TIMEOUT, NULL));
	assert_int_equal(examine(&w), 0);
	assert_int_equal(restored, 1);
}

/* A socket that a killed daemon left behind is none. */
static void examine__sees_no_daemon_in_a_socket_left_behind(void **state)
{
	pid_t pid = start_daemon();

	(void)state;
	assert_true(listens(path)); /* as seen by a user who may not connect */
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(access(path, F_OK), 0);
	assert_false(listens(path));
	assert_int_equal(examine(&w), 0);
	assert_int_equal(applied, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(close_watch_due__soon_and_not_too_often),
	    cmocka_unit_test_setup_teardown(examine__the_start_does_all_and_a_change_restores, set_up_watch,
	                                    tear_down_watch),
	    cmocka_unit_test_setup_teardown(examine__looks_again_while_a_file_is_not_understood, set_up_watch,
	                                    tear_down_watch),
	    cmocka_unit_test_setup_teardown(examine__tries_again_what_failed, set_up_watch, tear_down_watch),
	    cmocka_unit_test_setup_teardown(examine__leaves_the_rules_to_a_daemon_until_its_end, set_up_watch,
	                                    tear_down_watch),
	    cmocka_unit_test_setup_teardown(examine__sees_no_daemon_in_a_socket_left_behind, set_up_watch,
	                                    tear_down_watch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
