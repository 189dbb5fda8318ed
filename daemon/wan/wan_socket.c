/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/privileged/privileged.h"
#include "daemon/util/addr.h"
#include "daemon/util/port_holder.h"

socklen_t wan_sock_addr(union sock_addr *sa, const struct ip_addr *a, uint16_t port)
{
	memset(sa, 0, sizeof(*sa));
	if (ip_addr_is4(a)) {
		sa->in4.sin_family = AF_INET;
		sa->in4.sin_port = htons(port);
		memcpy(&sa->in4.sin_addr, a->b + 12, 4);
		return sizeof(sa->in4);
	}
	sa->in6.sin6_family = AF_INET6;
	sa->in6.sin6_port = htons(port);
	memcpy(&sa->in6.sin6_addr, a->b, 16);
	return sizeof(sa->in6);
}

uint16_t wan_sock_port(const union sock_addr *a)
{
	return ntohs(a->sa.sa_family == AF_INET ? a->in4.sin_port : a->in6.sin6_port);
}

int wan_socket(const union sock_addr *a)
{
	return socket(a->sa.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

int wan_socket_bind(int fd, const union sock_addr *a, socklen_t len)
{
	return addr_bind_ahead(fd, a->sa.sa_family) < 0 ? -1 : bind(fd, &a->sa, len);
}

uint16_t wan_socket_port(int fd)
{
	union sock_addr own;
	socklen_t len = sizeof(own);

	return getsockname(fd, &own.sa, &len) == 0 ? wan_sock_port(&own) : 0;
}

int wan_socket_bind_failed(const struct wan_port_path *path, char *err, size_t errlen)
{
	char holder[PORT_HOLDER_TEXT_MAX] = "", at[ADDR_TEXT_MAX];
	int e = errno;

	if (e == EADDRINUSE)
		port_holder_text(PORT_UDP, &path->local, path->port, holder);
	snprintf(err, errlen, "WAN port %u: cannot bind LocalAddress=%s: %s%s%s%s", path->port,
	         addr_write(&path->local, at, sizeof(at)), strerror(e), holder[0] != '\0' ? ": " : "", holder,
	         e == EADDRINUSE && holder[0] == '\0' ? " (each link and path needs its own port)" : "");
	return -e;
}

void wan_socket_let_go(const struct wan_port_path *path)
{
	char way[HELD_NAME_MAX], name[HELD_NAME_MAX];

	snprintf(name, sizeof(name), "%.60s" WAN_SOCKET_NAME, held_name(&path->local, path->port, way));
	privileged_let_go(name);
}
