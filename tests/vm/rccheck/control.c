/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - the TCP connection between the two processes: fixed-size messages of big-endian words. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rccheck.h"

int control_listen(uint16_t port)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int fd = socket(AF_INET6, SOCK_STREAM, 0), one = 1, zero = 0;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 1))
		fatal("listen on port %u: %s", port, strerror(errno));
	return fd;
}

static void no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int control_accept(int listener)
{
	int fd = accept(listener, NULL, NULL);

	if (fd < 0)
		fatal("accept: %s", strerror(errno));
	no_delay(fd);
	return fd;
}

int control_connect(const char *host, uint16_t port, uint32_t wait_s)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *ai;
	uint64_t end_ns = now_ns() + wait_s * 1000000000ULL;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(host, service, &hints, &ai))
		fatal("%s is not an IP address", host);
	for (;;) {
		int fd = socket(ai->ai_family, SOCK_STREAM, 0);

		if (!connect(fd, ai->ai_addr, ai->ai_addrlen)) {
			freeaddrinfo(ai);
			no_delay(fd);
			return fd;
		}
		close(fd);
		if (now_ns() >= end_ns)
			fatal("connect to %s port %u: %s", host, port, strerror(errno));
		usleep(100000);
	}
}

void control_send(struct check *c, const struct ctl *m)
{
	uint32_t be[1 + CTL_WORDS];

	be[0] = htonl(m->type);
	for (int i = 0; i < CTL_WORDS; i++)
		be[1 + i] = htonl(m->w[i]);
	if (send(c->control, be, sizeof(be), MSG_NOSIGNAL) != sizeof(be))
		fatal("the other side is gone: %s", strerror(errno));
}

void control_recv(struct check *c, struct ctl *m)
{
	uint32_t be[1 + CTL_WORDS];
	size_t got = 0;

	while (got < sizeof(be)) {
		struct pollfd p = {.fd = c->control, .events = POLLIN};
		ssize_t n;

		if (poll(&p, 1, (int)c->opt.stall_s * 1000) <= 0)
			fatal("no word from the other side for %u s", c->opt.stall_s);
		n = recv(c->control, (char *)be + got, sizeof(be) - got, 0);
		if (n <= 0)
			fatal("the other side is gone");
		got += (size_t)n;
	}
	m->type = ntohl(be[0]);
	for (int i = 0; i < CTL_WORDS; i++)
		m->w[i] = ntohl(be[1 + i]);
}

void control_expect(struct check *c, uint32_t type, struct ctl *m)
{
	control_recv(c, m);
	if (m->type != type)
		fatal("control message %u where %u was due", m->type, type);
}

void control_sync(struct check *c, uint32_t where)
{
	struct ctl m = {.type = CTL_SYNC, .w = {where}};

	control_send(c, &m);
	control_expect(c, CTL_SYNC, &m);
	if (m.w[0] != where)
		fatal("the other side is at %u, this one at %u", m.w[0], where);
}
