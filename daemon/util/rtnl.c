/* SPDX-License-Identifier: Apache-2.0 */
#include "rtnl.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/rtnetlink.h>

#define RTNL_ANSWER_MAX (16 << 10)

struct mnl_socket *rtnl_open(void)
{
	struct mnl_socket *s = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);

	if (s && mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) < 0) {
		mnl_socket_close(s);
		s = NULL;
	}
	return s;
}

int rtnl_rules_socket(void)
{
	struct sockaddr_nl rules = {.nl_family = AF_NETLINK,
	                            .nl_groups = RTMGRP_IPV4_RULE | 1u << (RTNLGRP_IPV6_RULE - 1)};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE), r;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&rules, sizeof(rules)) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

struct nlmsghdr *rtnl_begin(union rtnl_msg *msg, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(msg);

	h->nlmsg_type = type;
	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	return h;
}

int rtnl_ask(struct mnl_socket *s, struct nlmsghdr *h, mnl_cb_t fn, void *arg)
{
	static char buf[RTNL_ANSWER_MAX];
	int r = MNL_CB_OK;

	if (mnl_socket_sendto(s, h, h->nlmsg_len) < 0)
		return -errno;
	while (r > MNL_CB_STOP) {
		ssize_t n = mnl_socket_recvfrom(s, buf, sizeof(buf));

		r = n < 0 ? MNL_CB_ERROR : mnl_cb_run(buf, (size_t)n, 0, 0, fn, arg);
	}
	return r < 0 ? -errno : 0;
}

int rtnl_talk(struct mnl_socket *s, struct nlmsghdr *h)
{
	h->nlmsg_flags |= NLM_F_ACK;
	return rtnl_ask(s, h, NULL, NULL);
}

void rtnl_put_addr(struct nlmsghdr *h, uint16_t type, const struct ip_addr *a)
{
	if (ip_addr_is4(a))
		mnl_attr_put(h, type, 4, a->b + 12);
	else
		mnl_attr_put(h, type, 16, a->b);
}

bool rtnl_get_addr(struct ip_addr *a, const void *bytes, size_t len)
{
	memset(a, 0, sizeof(*a));
	if (len == 4) {
		a->b[10] = a->b[11] = 0xff;
		memcpy(a->b + 12, bytes, 4);
	} else if (len == 16) {
		memcpy(a->b, bytes, 16);
	}
	return len == 4 || len == 16;
}
