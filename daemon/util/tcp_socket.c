/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp_socket.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "addr.h"

enum {
	RESERVED_FROM = 600, /* as bindresvport(3) takes them: below are services' */
	TRIES = 8,
};

static int bound(const struct ip_addr *addr, uint16_t port, bool ahead)
{
	struct sockaddr_storage ss;
	socklen_t len = addr_to_sockaddr(addr, port, &ss);
	int one = 1, fd, saved;

	fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if ((!ahead || addr_bind_ahead(fd, ss.ss_family) == 0) && bind(fd, (struct sockaddr *)&ss, len) == 0)
		return fd;
	saved = errno;
	close(fd);
	return -saved;
}

int tcp_socket_bound(const struct ip_addr *addr, uint16_t port)
{
	return bound(addr, port, false);
}

int tcp_socket_ahead(const struct ip_addr *addr, uint16_t port)
{
	return bound(addr, port, true);
}

int tcp_socket_reserved(const struct ip_addr *addr)
{
	int fd = -EADDRINUSE;

	for (int i = 0; i < TRIES && fd == -EADDRINUSE; i++) {
		uint16_t port;

		if (getrandom(&port, sizeof(port), 0) != sizeof(port))
			return -EIO;
		fd = tcp_socket_bound(addr, (uint16_t)(RESERVED_FROM + port % (TCP_RESERVED_PORTS - RESERVED_FROM)));
	}
	return fd;
}
