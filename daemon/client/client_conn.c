/* SPDX-License-Identifier: Apache-2.0 */
/* client_conn.c - one request to the daemon and its answer. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* struct ucred */
#endif
#include "client_conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/telemetry/control.h"

#define ANSWER_MAX      (64u << 20)
#define ANSWER_WITHIN_S 10

static void explain(const char *path, int err)
{
	if (err == ENOENT || err == ECONNREFUSED)
		fprintf(stderr,
		        "longreach: the daemon is not running (no process answers at %s)\nlongreach: start it with "
		        "`systemctl start longreachd`, or run `longreachd` and read its log\n",
		        path);
	else if (err == EACCES || err == EPERM)
		fprintf(stderr,
		        "longreach: %s: not allowed: run longreach as root; members of the daemon's group (longreach) "
		        "may read the status\n",
		        path);
	else
		fprintf(stderr, "longreach: %s: %s\n", path, strerror(err));
}

static int open_one(const char *path)
{
	const struct timeval within = {.tv_sec = ANSWER_WITHIN_S};
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd, e;

	if (strlen(path) >= sizeof(sun.sun_path))
		return -ENAMETOOLONG;
	memcpy(sun.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0) {
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &within, sizeof(within));
		return fd;
	}
	e = errno;
	if (fd >= 0)
		close(fd);
	return -e;
}

/* Opens the control socket, or the read-only one for users without the right to the first. The socket or negative
 * errno. */
static int open_socket(const char *path)
{
	char looks[CONTROL_PATH_CAP];
	int fd = open_one(path), other;

	if (fd != -EACCES)
		return fd;
	other = open_one(control_status_path(path, looks));
	return other >= 0 ? other : fd;
}

static int connect_to(const char *path)
{
	int fd = open_socket(path);

	if (fd >= 0)
		return fd;
	explain(path, -fd);
	return -1;
}

static int send_request(int fd, const char *request)
{
	char line[CONTROL_LINE_MAX];
	int n = snprintf(line, sizeof(line), CONTROL_PROTOCOL " %s\n", request);

	if (n < 0 || (size_t)n >= sizeof(line)) {
		fprintf(stderr, "longreach: the request is too long\n");
		return -1;
	}
	if (send(fd, line, (size_t)n, MSG_NOSIGNAL) == n)
		return 0;
	fprintf(stderr, "longreach: the daemon does not take requests: %s\n", strerror(errno));
	return -1;
}

/* Room for at least one more byte and the end; false if the answer is out of bounds. */
static int grow(char **text, size_t *cap)
{
	size_t bigger = *cap == 0 ? 64u << 10 : *cap * 2;
	char *t = bigger <= ANSWER_MAX ? realloc(*text, bigger) : NULL;

	if (t == NULL)
		return -1;
	*text = t;
	*cap = bigger;
	return 0;
}

/* Reads until the daemon closes the connection. An answer without a final newline was cut off. */
static char *read_answer(int fd)
{
	char *text = NULL;
	size_t len = 0, cap = 0;
	ssize_t n = 0;
	bool large = false;

	for (;;) {
		if (len + 1 >= cap && grow(&text, &cap) < 0) {
			large = true;
			break;
		}
		n = recv(fd, text + len, cap - len - 1, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	if (len > 0 && text[len - 1] == '\n') {
		text[len - 1] = '\0';
		return text;
	}
	free(text);
	if (large)
		fprintf(stderr, "longreach: the daemon's answer is larger than %u MiB: name a link or a host\n", ANSWER_MAX >> 20);
	else if (len > 0)
		fprintf(stderr, "longreach: the daemon's answer was cut off: it ended, or took longer than %d s\n", ANSWER_WITHIN_S);
	else if (n == 0)
		fprintf(stderr, "longreach: the daemon closed the connection: it ended, or has too many clients; try again, and "
		                "read `journalctl -u longreachd`\n");
	else
		fprintf(stderr, "longreach: the daemon did not answer within %d s: read `journalctl -u longreachd`\n",
		        ANSWER_WITHIN_S);
	return NULL;
}

int client_open(const char *path, const char *request)
{
	int fd = connect_to(path);

	if (fd < 0 || send_request(fd, request) == 0)
		return fd;
	close(fd);
	return -1;
}

char *client_ask(const char *path, const char *request)
{
	int fd = client_open(path, request);
	char *answer;

	if (fd < 0)
		return NULL;
	answer = read_answer(fd);
	close(fd);
	return answer;
}

static char *reason(const char *path, int err)
{
	char text[512];

	snprintf(text, sizeof(text), "%.400s: %s", path,
	         err == EACCES || err == EPERM ? "not allowed: run longreach as root" : strerror(err));
	return strdup(text);
}

char *client_ask_quietly(const char *path, const char *request, pid_t *pid, char **why)
{
	int fd = open_socket(path);
	struct ucred who;
	socklen_t len = sizeof(who);
	char *answer = NULL;

	*why = NULL;
	*pid = 0;
	if (fd < 0) {
		if (fd != -ENOENT && fd != -ECONNREFUSED)
			*why = reason(path, -fd);
		return NULL;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0)
		*pid = who.pid;
	if (send_request(fd, request) == 0)
		answer = read_answer(fd);
	close(fd);
	if (answer == NULL)
		*why = reason(path, ETIMEDOUT);
	return answer;
}
