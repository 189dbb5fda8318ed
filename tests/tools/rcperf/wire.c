// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* accept4 */
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "addr.h"
#include "engine.h"
#include "stop.h"

enum {
	SEND_PATIENCE_MS = 20000,
	CONNECT_PAUSE_US = 50000,
};

int wire_listen(const struct ip_addr *addr, uint16_t port)
{
	struct sockaddr_storage ss;
	socklen_t len = addr_to_sockaddr(addr, port, &ss);
	int one = 1, fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&ss, len) < 0 || listen(fd, 4) < 0) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

static void init(struct wire *w, int fd)
{
	int one = 1;

	w->fd = fd;
	w->begin = w->end = 0;
	w->closed = false;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
}

int wire_accept(struct wire *w, int listen_fd)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return -errno;
	init(w, fd);
	return 0;
}

static int try_connect(const struct ip_addr *from, const struct ip_addr *to, uint16_t port)
{
	struct sockaddr_storage src, dst;
	socklen_t src_len = addr_to_sockaddr(from, 0, &src), dst_len = addr_to_sockaddr(to, port, &dst);
	int fd = socket(dst.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&src, src_len) == 0 && connect(fd, (struct sockaddr *)&dst, dst_len) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int wire_connect(struct wire *w, const struct ip_addr *from, const struct ip_addr *to, uint16_t port, uint64_t wait_ns)
{
	uint64_t until = clock_ns() + wait_ns;
	int fd;

	do {
		fd = try_connect(from, to, port);
		if (fd >= 0) {
			init(w, fd);
			return 0;
		}
		usleep(CONNECT_PAUSE_US);
	} while (!stop_wanted() && clock_ns() < until);
	return fd;
}

void wire_close(struct wire *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
	w->closed = true;
}

static void send_all(struct wire *w, const char *data, size_t len)
{
	struct pollfd p = {.fd = w->fd, .events = POLLOUT};

	while (len > 0 && !w->closed) {
		ssize_t n = send(w->fd, data, len, MSG_NOSIGNAL);

		if (n > 0) {
			data += n;
			len -= (size_t)n;
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR) || poll(&p, 1, SEND_PATIENCE_MS) <= 0) {
			w->closed = true;
		}
	}
}

void wire_send(struct wire *w, const char *fmt, ...)
{
	char line[WIRE_LINE_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n] = '\n';
	send_all(w, line, (size_t)n + 1);
}

static char *take_line(struct wire *w)
{
	char *from = w->in + w->begin;
	char *nl = memchr(from, '\n', w->end - w->begin);

	if (nl == NULL)
		return NULL;
	*nl = 0;
	w->begin = (size_t)(nl + 1 - w->in);
	return from;
}

static void receive(struct wire *w)
{
	ssize_t n;

	memmove(w->in, w->in + w->begin, w->end - w->begin);
	w->end -= w->begin;
	w->begin = 0;
	if (w->end == sizeof(w->in)) {
		w->closed = true; /* no line is that long */
		return;
	}
	n = recv(w->fd, w->in + w->end, sizeof(w->in) - w->end, 0);
	if (n > 0)
		w->end += (size_t)n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		w->closed = true;
}

char *wire_poll(struct wire *w)
{
	char *line = take_line(w);

	if (line != NULL || w->closed)
		return line;
	receive(w);
	return take_line(w);
}

char *wire_wait(struct wire *w, uint64_t wait_ns)
{
	uint64_t until = clock_ns() + wait_ns;

	for (;;) {
		struct pollfd p = {.fd = w->fd, .events = POLLIN};
		char *line = wire_poll(w);

		if (line != NULL || w->closed || stop_wanted() || clock_ns() >= until)
			return line;
		(void)poll(&p, 1, 100);
	}
}

bool wire_is(const char *line, const char *word)
{
	size_t n = strlen(word);

	return strncmp(line, word, n) == 0 && (line[n] == ' ' || line[n] == 0);
}

const char *wire_rest(const char *line, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = strchr(line, ' '); p != NULL; p = strchr(p + 1, ' '))
		if (strncmp(p + 1, key, n) == 0 && p[1 + n] == '=')
			return p + n + 2;
	return NULL;
}

uint64_t wire_u64(const char *line, const char *key, uint64_t otherwise)
{
	const char *text = wire_rest(line, key);
	char *end;
	uint64_t v;

	if (text == NULL)
		return otherwise;
	errno = 0;
	v = strtoull(text, &end, 0);
	return end == text || errno != 0 ? otherwise : v;
}
