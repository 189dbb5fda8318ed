/* SPDX-License-Identifier: Apache-2.0 */
/* apply_netlink.c - the way to the kernel, by libmnl; and what drives an interface. */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "headroom/apply.h"
#include "headroom/audit.h"

#define ANSWER_WAIT_S 10 /* the kernel answers late if the link goes down and up */

/* An RTM_GETDCB is answered and, because it requests an ACK, ACKed too: skips older answers, which have another
 * number. */
static int ask(void *arg, const void *msg, size_t len, uint32_t seq, void *answer)
{
	struct mnl_socket *s = arg;

	if (mnl_socket_sendto(s, msg, len) < 0)
		return -errno;
	for (;;) {
		struct nlmsghdr h;
		ssize_t n = mnl_socket_recvfrom(s, answer, DCB_ANSWER_MAX);

		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		if ((size_t)n < sizeof(h))
			return -EBADMSG;
		memcpy(&h, answer, sizeof(h));
		if (h.nlmsg_seq == seq)
			return (int)n;
	}
}

static struct mnl_socket *open_socket(void)
{
	struct timeval wait = {.tv_sec = ANSWER_WAIT_S};
	struct mnl_socket *s = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);

	if (s == NULL)
		return NULL;
	if (mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) == 0 &&
	    setsockopt(mnl_socket_get_fd(s), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) == 0)
		return s;
	mnl_socket_close(s);
	return NULL;
}

enum apply_result apply_netlink(const struct report *rep, FILE *out, FILE *err)
{
	struct mnl_socket *s = open_socket();
	struct dcb_talk talk = {ask, s};
	enum apply_result r;

	if (s == NULL) {
		options_complain(err, "no netlink socket: %s", strerror(errno));
		return APPLY_REFUSED;
	}
	r = apply(rep, &talk, out, err);
	mnl_socket_close(s);
	return r;
}

int audit_read(struct audit_port *p)
{
	struct mnl_socket *s = open_socket();
	struct dcb_talk talk = {ask, s};
	char driver[OPTIONS_NAME_MAX];
	int r;

	if (s == NULL)
		return -errno;
	r = apply_read(&talk, p->dev, &p->is);
	mnl_socket_close(s);
	p->delay_is_length = strncmp(apply_driver(p->dev, driver, sizeof(driver)), "mlx5", 4) == 0;
	return r;
}

const char *apply_driver(const char *dev, char *name, size_t cap)
{
	char path[OPTIONS_NAME_MAX + 64], target[512];
	const char *base;
	ssize_t n;

	name[0] = '\0';
	snprintf(path, sizeof(path), "/sys/class/net/%s/device/driver", dev);
	n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return name;
	target[n] = '\0';
	base = strrchr(target, '/');
	snprintf(name, cap, "%.*s", (int)cap - 1, base != NULL ? base + 1 : target);
	return name;
}
