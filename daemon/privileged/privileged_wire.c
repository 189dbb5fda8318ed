/* SPDX-License-Identifier: Apache-2.0 */
#include "privileged_wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(sizeof(int))];
};

ssize_t privileged_wire_send(int over, const void *data, size_t len, int fd, int flags)
{
	struct iovec iov = {(void *)(size_t)data, len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	union control control = {0};
	ssize_t n;

	if (fd >= 0) {
		struct cmsghdr *c;

		m.msg_control = &control;
		m.msg_controllen = sizeof(control.room);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	do
		n = sendmsg(over, &m, flags | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n;
}

ssize_t privileged_wire_receive(int over, void *data, size_t len, int *fd, int flags)
{
	struct iovec iov = {data, len};
	union control control;
	/* not CMSG_SPACE(): it has room for two descriptors, and the kernel would use it */
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_LEN(sizeof(int))};
	struct cmsghdr *c;
	ssize_t n;

	*fd = -1;
	do
		n = recvmsg(over, &m, flags | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return n;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	if (!(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return n;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = EMSGSIZE;
	return -1;
}
