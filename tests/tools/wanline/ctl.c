// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl.h"
#include "relay.h"

#define REQUEST_MAX 512
#define ANSWER_MAX  4096

static bool address(const char *path, struct sockaddr_un *sa)
{
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(sa->sun_path))
		return false;
	strcpy(sa->sun_path, path);
	return true;
}

int ctl_listen(const char *path, char *err, size_t err_cap)
{
	struct sockaddr_un sa;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), e;

	if (fd >= 0 && address(path, &sa)) {
		unlink(path);
		if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
			return fd;
	}
	e = errno != 0 ? errno : ENAMETOOLONG;
	snprintf(err, err_cap, "%s: control socket: %s", path, strerror(e));
	if (fd >= 0)
		close(fd);
	return -e;
}

static void do_cut(struct relay *r, const char *which, bool cut, FILE *out)
{
	if (which == NULL || strcmp(which, "ab") == 0)
		relay_cut(r, DIR_AB, cut);
	if (which == NULL || strcmp(which, "ba") == 0)
		relay_cut(r, DIR_BA, cut);
	fprintf(out, "ok\n");
}

static void do_set(struct relay *r, char **save, FILE *out)
{
	char err[PARAMS_ERR_MAX], *word, *value;

	while ((word = strtok_r(NULL, " \n", save)) != NULL) {
		value = strchr(word, '=');
		if (value == NULL) {
			fprintf(out, "error: \"%s\": set takes KEY=VALUE\n", word);
			return;
		}
		*value++ = '\0';
		if (!relay_set(r, word, value, err)) {
			fprintf(out, "error: %s\n", err);
			return;
		}
	}
	fprintf(out, "ok\n");
}

static void do_show(struct relay *r, FILE *out)
{
	char text[128];

	for (int i = 0; i < DIR_COUNT; i++) {
		params_describe(&r->line[i].p, text, sizeof(text));
		fprintf(out, "%s: %s%s\n", i == DIR_AB ? "a>b" : "b>a", text, r->line[i].cut ? ", cut" : "");
	}
}

static void do_quit(struct relay *r, FILE *out)
{
	r->stop = true;
	fprintf(out, "ok\n");
}

static void execute(struct relay *r, char *text, FILE *out)
{
	char *save, *word = strtok_r(text, " \n", &save);

	if (word == NULL)
		fprintf(out, "error: nothing asked\n");
	else if (strcmp(word, "cut") == 0)
		do_cut(r, strtok_r(NULL, " \n", &save), true, out);
	else if (strcmp(word, "uncut") == 0)
		do_cut(r, strtok_r(NULL, " \n", &save), false, out);
	else if (strcmp(word, "set") == 0)
		do_set(r, &save, out);
	else if (strcmp(word, "stats") == 0)
		relay_json(r, out);
	else if (strcmp(word, "show") == 0)
		do_show(r, out);
	else if (strcmp(word, "quit") == 0)
		do_quit(r, out);
	else
		fprintf(out, "error: \"%s\" is not cut, uncut, set, stats, show or quit\n", word);
}

void ctl_answer(struct relay *r, int fd)
{
	char request[REQUEST_MAX + 1], *answer = NULL;
	struct sockaddr_un from;
	socklen_t from_len = sizeof(from);
	size_t answer_len = 0;
	ssize_t n = recvfrom(fd, request, REQUEST_MAX, 0, (struct sockaddr *)&from, &from_len);
	FILE *out;

	if (n < 0)
		return;
	request[n] = '\0';
	out = open_memstream(&answer, &answer_len);
	if (out == NULL)
		return;
	execute(r, request, out);
	fclose(out);
	if (sendto(fd, answer, answer_len, MSG_DONTWAIT, (struct sockaddr *)&from, from_len) < 0)
		fprintf(stderr, "wanline: cannot answer on the control socket: %s\n", strerror(errno));
	free(answer);
}

static size_t join(char *text, size_t cap, int argc, char **argv)
{
	size_t len = 0;

	for (int i = 0; i < argc; i++) {
		int n = snprintf(text + len, cap - len, "%s%s", i > 0 ? " " : "", argv[i]);

		if (n < 0 || (size_t)n >= cap - len)
			return 0;
		len += (size_t)n;
	}
	return len;
}

/* The answer needs a way back. Not an abstract name: those do not reach into another network namespace. */
static int client_socket(const char *path, struct sockaddr_un *own)
{
	struct timeval patience = {.tv_sec = 2};
	char name[sizeof(own->sun_path) + 16];
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(name, sizeof(name), "%.100s.%d", path, getpid());
	if (fd < 0 || !address(name, own) || bind(fd, (struct sockaddr *)own, sizeof(*own)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		return -1;
	return fd;
}

int ctl_client(const char *path, int argc, char **argv)
{
	char request[REQUEST_MAX], answer[ANSWER_MAX] = "";
	struct sockaddr_un sa, own;
	size_t len = join(request, sizeof(request), argc, argv);
	int fd = client_socket(path, &own), rc = 1;
	ssize_t n = -1;

	if (fd >= 0 && len > 0 && address(path, &sa) &&
	    sendto(fd, request, len, 0, (struct sockaddr *)&sa, sizeof(sa)) >= 0)
		n = recv(fd, answer, sizeof(answer), 0);
	if (n < 0) {
		fprintf(stderr, "wanline ctl: %s: %s\n", path, strerror(errno));
	} else {
		fwrite(answer, 1, (size_t)n, stdout);
		rc = strncmp(answer, "error", 5) == 0;
	}
	if (fd >= 0) {
		unlink(own.sun_path);
		close(fd);
	}
	return rc;
}
