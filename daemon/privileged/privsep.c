/* SPDX-License-Identifier: Apache-2.0 */
/* privsep.c - starting the child, waiting on it, starting it again.
 *
 * The parent has one thread and no state but rules that it has noted and offloads that it holds, so each child begins
 * as the first did. It hears signals by a descriptor (signalfd), between two questions of the child. */
#include "privsep.h"

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "held_sockets.h"
#include "privileged.h"
#include "privileged_serve.h"
#include "sandbox.h"
#include "seal/secret_mem.h"

#define RESTARTS_MAX      5 /* restarts in RESTART_WINDOW_NS; after that the parent exits, and systemd restarts it */
#define RESTART_WINDOW_NS (60 * NS_PER_S)
#define PARENT_COMM       "longreachd-priv"
#define CHILD_COMM        "longreachd"

enum end { PARENT, CHILD, ENDS };

struct parent {
	const struct sandbox_user *user;
	unsigned (*with_rights)(void *arg);
	void *arg;
	sigset_t before; /* the signals that were blocked when it began */
	int signals;
	int ask[ENDS], tell[ENDS];
	pid_t child;   /* 0: there is none */
	bool stopping; /* a signal to stop was passed on */
	unsigned restarts;
	uint64_t restarts_since_ns;
};

/* --- the child --- */

static void close_pair(int pair[ENDS])
{
	for (int i = 0; i < ENDS; i++)
		if (pair[i] >= 0)
			close(pair[i]);
	pair[PARENT] = pair[CHILD] = -1;
}

/* Called before anything else, so that the parent's death is never missed. Changing the user clears the setting, so it
 * is set again afterwards. */
static void die_with_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
}

static void be_child(struct parent *p, pid_t parent)
{
	unsigned more = 0;
	char err[256];

	die_with_parent(parent);
	prctl(PR_SET_NAME, CHILD_COMM);
	close(p->signals);
	close(p->ask[PARENT]);
	close(p->tell[PARENT]);
	held_drop(""); /* closes the child's copies: they would keep the ports taken after the parent has closed its
	                * own */
	sigprocmask(SIG_SETMASK, &p->before, NULL);
	secret_openssl(); /* here, in the child: locked memory does not survive fork(2) */
	/* sd_watchdog_enabled(3) compares it with its own PID; the watchdog is for this child */
	unsetenv("WATCHDOG_PID");
	if (p->with_rights != NULL)
		more = p->with_rights(p->arg);
	if (sandbox_enter(p->user, more, err, sizeof(err)) < 0) {
		log_err("%s", err);
		_exit(EXIT_FAILURE);
	}
	die_with_parent(parent);
	privileged_ask_over(p->ask[CHILD], p->tell[CHILD]);
}

/* --- the parent --- */

/* 0 in the child. */
static pid_t start_child(struct parent *p)
{
	pid_t parent = getpid();

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->ask) < 0 ||
	    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, p->tell) < 0)
		return -1;
	p->child = fork();
	if (p->child == 0) {
		be_child(p, parent);
		return 0;
	}
	close(p->ask[CHILD]);
	close(p->tell[CHILD]);
	p->ask[CHILD] = p->tell[CHILD] = -1;
	privileged_serve_begin(p->child);
	return p->child;
}

/* May be called twice. */
static void be_parent(const struct parent *p)
{
	int r = sandbox_keep_network_rights(p->user);

	prctl(PR_SET_NAME, PARENT_COMM);
	if (r < 0)
		log_warn("the privileged process keeps all its capabilities: %s", strerror(-r));
}

/* Passes a signal on to the child. A terminal signals a running child itself, but not one that is started a moment
 * later; a second signal does no harm. */
static void pass_on(struct parent *p)
{
	struct signalfd_siginfo s;

	while (read(p->signals, &s, sizeof(s)) == sizeof(s)) {
		if (s.ssi_signo == SIGCHLD)
			continue;
		p->stopping |= s.ssi_signo != SIGHUP;
		if (p->child > 0)
			kill(p->child, (int)s.ssi_signo);
	}
}

/* Serves until the child has ended. Returns its status as waitpid(2) has it. */
static int attend(struct parent *p)
{
	struct pollfd fds[] = {{.fd = p->signals, .events = POLLIN},
	                       {.fd = p->ask[PARENT], .events = POLLIN},
	                       {.fd = p->tell[PARENT], .events = POLLIN}};
	int status;

	while (waitpid(p->child, &status, WNOHANG) == 0) {
		if (poll(fds, 3, -1) < 0)
			continue;
		if (fds[0].revents)
			pass_on(p);
		if (fds[2].revents & POLLIN)
			privileged_serve_tell(p->tell[PARENT]);
		else if (fds[2].revents)
			fds[2].fd = -1;
		if (fds[1].revents && !privileged_serve_ask(p->ask[PARENT])) {
			close(p->ask[PARENT]); /* a child that waits for an answer gets an error */
			p->ask[PARENT] = fds[1].fd = -1;
		}
	}
	return status;
}

static bool may_restart(struct parent *p)
{
	uint64_t now = clock_now_ns();

	if (p->restarts == 0 || now - p->restarts_since_ns > RESTART_WINDOW_NS) {
		p->restarts = 0;
		p->restarts_since_ns = now;
	}
	return ++p->restarts <= RESTARTS_MAX;
}

/* Exits if there is to be no other child. */
static void after_child(struct parent *p, int status)
{
	if (WIFEXITED(status))
		exit(WEXITSTATUS(status));
	if (p->stopping && (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT))
		exit(EXIT_SUCCESS); /* the child was told to stop before it could handle that signal */
	log_err("the process that carries packets was ended by signal %d (%s)%s", WTERMSIG(status),
	        strsignal(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
	if (p->stopping)
		exit(EXIT_FAILURE);
	if (!may_restart(p)) {
		log_err("the process that carries packets has ended %d times within a minute: stopping",
		        RESTARTS_MAX + 1);
		exit(EXIT_FAILURE);
	}
	log_notice("starting the process that carries packets again; acknowledged packets are in the buffers");
}

static int hear_signals(struct parent *p)
{
	static const int passed_on[] = {SIGHUP, SIGINT, SIGTERM, SIGABRT, SIGCHLD};
	sigset_t set;

	signal(SIGPIPE, SIG_IGN); /* a log that nobody reads any more */
	sigemptyset(&set);
	for (unsigned i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaddset(&set, passed_on[i]);
	if (sigprocmask(SIG_BLOCK, &set, &p->before) < 0)
		return -errno;
	p->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return p->signals < 0 ? -errno : 0;
}

static int find_user(const char *name, struct sandbox_user *user, char *err, size_t errlen)
{
	const struct passwd *pw = getpwnam(name);

	if (pw == NULL) {
		snprintf(err, errlen, "--user %s: there is no such user", name);
		return -ENOENT;
	}
	*user = (struct sandbox_user){.uid = pw->pw_uid, .gid = pw->pw_gid};
	return 0;
}

int privsep_split(const char *user, unsigned (*with_rights)(void *arg), void *arg, char *err, size_t errlen)
{
	struct parent p = {.with_rights = with_rights, .arg = arg, .ask = {-1, -1}, .tell = {-1, -1}};
	struct sandbox_user who;
	int r = user != NULL ? find_user(user, &who, err, errlen) : 0;

	if (r < 0)
		return r;
	p.user = user != NULL ? &who : NULL;
	r = hear_signals(&p);
	if (r < 0) {
		snprintf(err, errlen, "cannot hear signals: %s", strerror(-r));
		return r;
	}
	sandbox_raise_limits();
	for (;;) {
		pid_t pid = start_child(&p);
		int status;

		if (pid == 0)
			return 0;
		if (pid < 0) {
			snprintf(err, errlen, "cannot start the process that carries packets: %s", strerror(errno));
			return -errno;
		}
		be_parent(&p);
		status = attend(&p);
		p.child = 0;
		close_pair(p.ask);
		close_pair(p.tell);
		privileged_serve_end();
		pass_on(&p); /* a signal to stop may have come meanwhile */
		after_child(&p, status);
	}
}
