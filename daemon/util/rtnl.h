/* SPDX-License-Identifier: Apache-2.0 */
/* rtnl.h - one question to the kernel's routing socket, and its answer. Main thread only, but for
 * addresses. */
#ifndef DAEMON_RTNL_H
#define DAEMON_RTNL_H

#include <libmnl/libmnl.h>

#include "proxy/roce/roce.h"

#define RTNL_MSG_MAX 1024

/* Room for a message; h comes first. */
union rtnl_msg {
	struct nlmsghdr h;
	char bytes[RTNL_MSG_MAX];
};

/* NULL with errno. mnl_socket_close() it. */
struct mnl_socket *rtnl_open(void);
/* A socket that hears of changes to the rules in front of the routing tables; not blocking, close-on-exec. The
 * descriptor, or negative errno. */
int rtnl_rules_socket(void);
/* Begins a request that the kernel answers with an ACK or an error; flags beside those two. */
struct nlmsghdr *rtnl_begin(union rtnl_msg *msg, uint16_t type, uint16_t flags);
/* Sends what rtnl_begin() began. 0, or negative errno as the kernel answers. */
int rtnl_talk(struct mnl_socket *s, struct nlmsghdr *h);
/* The same for a request that is answered by messages: calls fn for each. Begin it with NLM_F_DUMP for a list, with
 * NLM_F_ACK for one object. */
int rtnl_ask(struct mnl_socket *s, struct nlmsghdr *h, mnl_cb_t fn, void *arg);
/* Adds an address attribute, IPv4 in 4 bytes. */
void rtnl_put_addr(struct nlmsghdr *h, uint16_t type, const struct ip_addr *a);
/* Reads an address attribute. False if it has neither length. */
bool rtnl_get_addr(struct ip_addr *a, const void *bytes, size_t len);

#endif
