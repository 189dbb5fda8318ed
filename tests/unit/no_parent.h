/* SPDX-License-Identifier: Apache-2.0 */
/* no_parent.h - privileged.h's sockets for tests of what uses them: made by the test itself, and held by nobody. */
#ifndef TESTS_UNIT_NO_PARENT_H
#define TESTS_UNIT_NO_PARENT_H

#include <errno.h>
#include <sys/socket.h>

#include "daemon/privileged/privileged.h"

int privileged_packet_socket(int sndbuf)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	(void)sndbuf;
	return fd < 0 ? -errno : fd;
}

void privileged_hold(const char *name, int fd)
{
	(void)name;
	(void)fd;
}

int privileged_held(const char *name)
{
	(void)name;
	return -ENOENT;
}

void privileged_let_go(const char *prefix)
{
	(void)prefix;
}

int privileged_reserved_socket(const struct ip_addr *addr)
{
	(void)addr;
	return -EACCES;
}

void privileged_receive_buffer(int fd, int bytes)
{
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
}

void privileged_send_buffer(int fd, int bytes)
{
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
}

#endif
