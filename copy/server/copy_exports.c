/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* setresuid, O_PATH */
#include "copy_exports.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "copy_serve.h"
#include "daemon/config/link_plan.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"

#define SERVERS_MAX    (8 * EXPORTS_MAX) /* two of each export */
#define RETRY_FIRST_NS (50 * NS_PER_MS)
#define RETRY_MAX_NS   (5 * NS_PER_S)
#define LIVED_NS       (10 * NS_PER_S) /* then it is started again without delay */
#define CONNECT_NS     (200 * NS_PER_MS)

struct server {
	char link[LINK_NAME_MAX];
	char socket[LINK_FILE_MAX];
	struct export_config export;
	bool offers; /* sends what is there; else: writes and looks */
	bool wanted;
	pid_t pid; /* 0: it does not run */
	uint64_t started_ns, start_ns, retry_ns;
};

static struct server servers[SERVERS_MAX];
static uint32_t nservers;
static copy_offer_fn offer_copies;

/* --- the child --- */

static void pause_ns(uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};

	nanosleep(&ts, NULL);
}

/* Connects to the relay before changing the user, because the relay checks the connecting user. */
static struct lr *connect_relay(const struct server *s, pid_t parent)
{
	struct lr *h = NULL;
	int r;

	while ((r = lr_open(s->link, s->socket, &h)) < 0) {
		if (r != -ENOENT && r != -ECONNREFUSED && r != -EPIPE)
			log_warn("export %s of link %s: cannot connect to the relay: %s", s->export.name, s->link,
			         strerror(-r));
		pause_ns(CONNECT_NS);
		if (getppid() != parent)
			_exit(EXIT_SUCCESS);
	}
	return h;
}

/* Makes the directory this process's root, opened with the user's rights, not root's. */
static int confine(const struct passwd *pw, const char *path)
{
	int fd = -1, r = 0;

	if (initgroups(pw->pw_name, pw->pw_gid) < 0 || setegid(pw->pw_gid) < 0 || seteuid(pw->pw_uid) < 0)
		return -errno;
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		r = -errno;
	if (seteuid(0) < 0 || setegid(0) < 0)
		_exit(EXIT_FAILURE);
	if (r == 0 && (fchdir(fd) < 0 || chroot(".") < 0 || chdir("/") < 0))
		r = -errno;
	if (fd >= 0)
		close(fd);
	return r;
}

/* root: the directory that becomes this process's root, NULL: none. */
static int become(const char *name, const char *root)
{
	const struct passwd *pw = getpwnam(name);
	int r;

	if (!pw)
		return -ENOENT;
	if (root) {
		r = confine(pw, root);
		if (r == 0 && (setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0 ||
		               setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) < 0))
			r = -errno;
		return r;
	}
	if (pw->pw_uid == geteuid() && geteuid() != 0)
		return 0; /* the process has that user already, and could not change to another */
	if (initgroups(name, pw->pw_gid) < 0 || setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0 ||
	    setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) < 0)
		return -errno;
	return 0;
}

static void serve_export(const struct server *s, struct lr *h)
{
	struct copy_export e = {
	    .name = s->export.name, .path = s->export.path, .root = -1, .writable = s->export.writable};
	int r = open(s->export.path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	umask(0022);
	if (r < 0) {
		log_err("export %s of link %s: cannot open %s as the user %s: %s", s->export.name, s->link,
		        s->export.path, s->export.user, strerror(errno));
		_exit(EXIT_FAILURE);
	}
	close(r);
	log_info("export %s of link %s: serving %s, %s, as user %s", s->export.name, s->link, s->export.path,
	         s->export.writable ? "write" : "read", s->export.user);
	r = copy_serve(h, &e);
	if (r == -EEXIST)
		log_err("export %s of link %s: another process serves this export", s->export.name, s->link);
	_exit(r == -EPIPE ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void serve(const struct server *s, pid_t parent)
{
	char comm[16]; /* the kernel keeps 15 characters */
	struct lr *h;
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(comm, sizeof(comm), "%s:%.11s", s->offers ? "lr>" : "lr", s->export.name);
	prctl(PR_SET_NAME, comm);
	if (getppid() != parent)
		_exit(EXIT_SUCCESS);
	h = connect_relay(s, parent);
	r = become(s->export.user, s->offers ? s->export.path : NULL);
	if (r < 0) {
		log_err("export %s of link %s: cannot become the user %s%s%s: %s", s->export.name, s->link, s->export.user,
		        s->offers ? " in " : "", s->offers ? s->export.path : "", strerror(-r));
		_exit(EXIT_FAILURE);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* changing the user has cleared it */
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (getppid() != parent)
		_exit(EXIT_SUCCESS);
	if (!s->offers)
		serve_export(s, h);
	_exit(offer_copies(h, s->export.name) == -EPIPE ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* --- the parent --- */

static void start(struct server *s, const sigset_t *before)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0) {
		sigprocmask(SIG_SETMASK, before, NULL);
		serve(s, parent);
	}
	if (pid < 0)
		log_err("export %s of link %s: cannot start its server: %s", s->export.name, s->link, strerror(errno));
	s->pid = pid > 0 ? pid : 0;
	s->started_ns = clock_now_ns();
	s->start_ns = s->started_ns + s->retry_ns;
}

/* A server has ended. The daemon's end ends a server as well, so the first restart is immediate. */
static void ended(struct server *s)
{
	uint64_t now = clock_now_ns();

	s->pid = 0;
	if (now > s->started_ns + LIVED_NS)
		s->retry_ns = RETRY_FIRST_NS;
	else if (s->retry_ns < RETRY_MAX_NS)
		s->retry_ns *= 2;
	s->start_ns = now + s->retry_ns;
}

static void reap(void)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		for (uint32_t i = 0; i < nservers; i++)
			if (servers[i].pid == pid)
				ended(&servers[i]);
}

static struct server *known(const struct server *s)
{
	for (uint32_t i = 0; i < nservers; i++)
		if (servers[i].offers == s->offers && strcmp(servers[i].link, s->link) == 0 && strcmp(servers[i].socket, s->socket) == 0 &&
		    memcmp(&servers[i].export, &s->export, sizeof(s->export)) == 0)
			return &servers[i];
	return NULL;
}

static void want(const struct link_config *c, const struct export_config *e, bool offers)
{
	struct server s = {.export = *e, .offers = offers, .wanted = true, .retry_ns = RETRY_FIRST_NS}, *same;

	memcpy(s.link, c->name, sizeof(s.link));
	link_plan_relay_socket(c, s.socket, sizeof(s.socket));
	same = known(&s);
	if (same)
		same->wanted = true;
	else if (nservers == SERVERS_MAX)
		log_err("export %s of link %s: not served: the link files have more than %d exports", e->name, c->name,
		        SERVERS_MAX / 2);
	else
		servers[nservers++] = s;
}

/* Ends servers whose export is in no file any more. A malformed file leaves all servers as they are. */
static int read_links(const struct site_sources *sources)
{
	static struct link_config links[SITES_MAX];
	static struct site_paths paths;
	static char report[SITES_REPORT_MAX];
	char err[CONFIG_ERR_MAX];
	int r = site_paths_read(sources, &paths, report);

	if (r < 0)
		log_err("%s", report);
	for (uint32_t i = 0; r == 0 && i < paths.n; i++) {
		r = config_load(paths.path[i], &links[i], err);
		if (r < 0)
			log_err("%s", err);
	}
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < nservers; i++)
		servers[i].wanted = false;
	for (uint32_t i = 0; i < paths.n; i++)
		for (uint32_t j = 0; j < links[i].nexports; j++) {
			want(&links[i], &links[i].exports[j], false);
			if (geteuid() == 0) /* only root may confine a process */
				want(&links[i], &links[i].exports[j], true);
		}
	for (uint32_t i = 0; i < nservers; i++)
		if (!servers[i].wanted && servers[i].pid > 0)
			kill(servers[i].pid, SIGTERM);
	return 0;
}

static void drop_unwanted(void)
{
	for (uint32_t i = nservers; i-- > 0;)
		if (!servers[i].wanted && servers[i].pid == 0)
			servers[i] = servers[--nservers];
}

static void start_due(const sigset_t *before)
{
	uint64_t now = clock_now_ns();

	for (uint32_t i = 0; i < nservers; i++)
		if (servers[i].wanted && servers[i].pid == 0 && now >= servers[i].start_ns)
			start(&servers[i], before);
}

static void end_all(void)
{
	for (uint32_t i = 0; i < nservers; i++)
		if (servers[i].pid > 0) {
			kill(servers[i].pid, SIGTERM);
			waitpid(servers[i].pid, NULL, 0);
		}
}

static void on_child(int sig)
{
	(void)sig; /* a handler, so that the signal is not ignored and can be waited for */
}

int copy_exports_run(const struct site_sources *sources, copy_offer_fn offer)
{
	static const struct timespec soon = {.tv_nsec = 50 * NS_PER_MS};
	struct sigaction child = {.sa_handler = on_child};
	sigset_t set, before;
	int sig;

	offer_copies = offer;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, &before);
	sigaction(SIGCHLD, &child, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (read_links(sources) < 0)
		return EX_CONFIG;
	if (nservers == 0)
		log_notice("no link file has [Export NAME]: waiting for a reload");
	do {
		start_due(&before);
		sig = sigtimedwait(&set, NULL, &soon);
		reap();
		drop_unwanted();
		if (sig == SIGHUP && read_links(sources) < 0)
			log_err("the link files were not taken up: the exports stay as they were");
	} while (sig != SIGTERM && sig != SIGINT);
	end_all();
	return EXIT_SUCCESS;
}
