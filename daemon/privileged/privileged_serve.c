/* SPDX-License-Identifier: Apache-2.0 */
/* privileged_serve.c - the parent does what the child asks for.
 *
 * A compromised child may ask for anything that is listed here: so each field (names, numbers, lengths) is checked for
 * values that would change a rule's meaning, and nft rules can only drop. Such a child can open what its own links
 * close; it can have sockets that see the packets of this machine's interfaces. By prefixes of links with a barrier it
 * can route IP packets that this machine sends or forwards to a link's IP port, and so read, change and answer them:
 * are_apart() refuses only prefixes that no link file may have. It cannot write a file, start a program, set an
 * address or any other route, or reach the tables of others. */
#include "privileged_serve.h"

#include <ctype.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/kernel/fib_rule.h"
#include "daemon/util/addr.h"
#include "daemon/util/log.h"
#include "daemon/kernel/offload.h"
#include "daemon/util/rtnl.h"
#include "daemon/util/tcp_socket.h"

#define BUFFER_MAX      (64 << 20) /* bytes that a child may ask for a socket */
#define TELLS_AT_ONCE   64
#define PREFIX_BITS_MAX 128

/* --- what is carried out --- */

int privileged_open_packet_socket(int sndbuf)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (sndbuf > 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &sndbuf, sizeof(sndbuf));
	return fd;
}

int privileged_open_rules_socket(void)
{
	struct sockaddr_nl any = {.nl_family = AF_NETLINK};
	int group = NFNLGRP_NFTABLES, r;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_NETFILTER);

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0 &&
	    setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

static bool is_udp(int fd)
{
	int protocol = 0;
	socklen_t len = sizeof(protocol);

	return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 && protocol == IPPROTO_UDP;
}

/* Makes the kernel resolve the neighbour as if it had a packet for it (NTF_USE). */
static void find_neighbour(int ifindex, int family, const uint8_t *addr)
{
	static struct mnl_socket *kernel;
	union rtnl_msg msg;
	struct nlmsghdr *h = rtnl_begin(&msg, RTM_NEWNEIGH, NLM_F_CREATE);
	struct ndmsg *ndm = mnl_nlmsg_put_extra_header(h, sizeof(*ndm));

	if (kernel == NULL)
		kernel = rtnl_open();
	if (kernel == NULL)
		return;
	ndm->ndm_family = (uint8_t)family;
	ndm->ndm_ifindex = ifindex;
	ndm->ndm_flags = NTF_USE;
	mnl_attr_put(h, NDA_DST, family == AF_INET ? 4 : 16, addr);
	rtnl_talk(kernel, h); /* fails for an interface that is gone: ignored */
}

static pid_t served; /* 0: no child, this process */

void privileged_serve_begin(pid_t child)
{
	served = child;
}

static void run_first(pid_t thread)
{
	static const struct sched_param first = {.sched_priority = 1};

	if (syscall(SYS_tgkill, served ? served : getpid(), thread, 0) == 0) /* checks that the thread belongs to the
	                                                                      * child */
		sched_setscheduler(thread, SCHED_FIFO, &first);
}

void privileged_do(const struct tell *t, int fd)
{
	int opt = t->what == TELL_SEND_BUFFER ? SO_SNDBUFFORCE : SO_RCVBUFFORCE;

	switch (t->what) {
	case TELL_RECEIVE_BUFFER:
	case TELL_SEND_BUFFER:
		if (is_udp(fd) && t->number > 0 && t->number <= BUFFER_MAX)
			setsockopt(fd, SOL_SOCKET, opt, &t->number, sizeof(t->number));
		break;
	case TELL_FIND_NEIGHBOUR:
		if (t->family == AF_INET || t->family == AF_INET6)
			find_neighbour(t->number, t->family, t->addr);
		break;
	case TELL_RUN_FIRST:
		run_first(t->number);
		break;
	default:
		break;
	}
}

void privileged_serve_tell(int tell_fd)
{
	struct tell t;
	int fd;

	for (int i = 0; i < TELLS_AT_ONCE; i++) {
		ssize_t n = privileged_wire_receive(tell_fd, &t, sizeof(t), &fd, MSG_DONTWAIT);

		if (n == sizeof(t))
			privileged_do(&t, fd);
		if (fd >= 0)
			close(fd);
		if (n <= 0)
			break;
	}
}

/* --- what the child says --- */

static bool is_string(const char *s, size_t room)
{
	return memchr(s, '\0', room) != NULL;
}

/* An interface's name that can stand in quotes in an nft script. */
static bool is_port(const char name[IF_NAMESIZE])
{
	if (!is_string(name, IF_NAMESIZE) || name[0] == '\0')
		return false;
	for (const char *p = name; *p != '\0'; p++)
		if (!isgraph((unsigned char)*p) || *p == '"' || *p == '\\' || *p == '/')
			return false;
	return true;
}

static bool are_prefixes(const struct ip_prefix *p, uint32_t n)
{
	if (n > PREFIXES_MAX)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (p[i].len > PREFIX_BITS_MAX)
			return false;
	return true;
}

/* As in a link file: a host is at one site only. With overlapping prefixes (of length 0, say) the rules in front of the
 * routing tables would send a link's IP port also packets between hosts of one site. */
static bool are_apart(const struct ask_link *l)
{
	for (uint32_t i = 0; i < l->nlocal + l->nremote; i++) {
		const struct ip_prefix *p = i < l->nlocal ? &l->local[i] : &l->remote[i - l->nlocal];

		for (uint32_t j = 0; j < i; j++)
			if (addr_prefixes_overlap(p, j < l->nlocal ? &l->local[j] : &l->remote[j - l->nlocal]))
				return false;
	}
	return true;
}

/* Its name stands in quotes in an nft script, as part of its IP port's. */
static bool is_link_name(const char name[LINK_NAME_MAX])
{
	return is_string(name, LINK_NAME_MAX) && link_name_is_sound(name, strlen(name));
}

bool privileged_read_link(const struct ask_link *l, struct link_config *c)
{
	if (!is_link_name(l->name) || l->nlan_ports > LAN_PORTS_MAX || l->npaths > PATHS_MAX ||
	    !are_prefixes(l->local, l->nlocal) || !are_prefixes(l->remote, l->nremote) || !are_apart(l) ||
	    l->barrier > 1)
		return false;
	for (uint32_t i = 0; i < l->nlan_ports; i++)
		if (!is_port(l->lan_ports[i]))
			return false;
	*c = (struct link_config){.nlan_ports = l->nlan_ports,
	                          .nlocal = l->nlocal,
	                          .nremote = l->nremote,
	                          .npaths = l->npaths,
	                          .barrier = l->barrier ? BARRIER_SAYS_PAIR : BARRIER_SAYS_OFF};
	memcpy(c->name, l->name, sizeof(c->name));
	memcpy(c->lan_ports, l->lan_ports, sizeof(c->lan_ports));
	memcpy(c->local, l->local, sizeof(c->local));
	memcpy(c->remote, l->remote, sizeof(c->remote));
	for (uint32_t i = 0; i < l->npaths; i++) {
		c->paths[i].local = l->wan_local[i];
		c->paths[i].remote = l->wan_remote[i];
	}
	return true;
}

/* True if the message has the length that its n gives. */
static bool is_whole(const struct ask *a, size_t len)
{
	uint32_t max = a->what == ASK_STEER_SWEEP ? ASK_NAMES_MAX : ASK_LINKS_MAX;

	return len >= offsetof(struct ask, links) && a->what < ASK_WHATS && a->n <= max && len == ask_length(a);
}

static int sweep_tables(const struct ask *a)
{
	const char *names[ASK_NAMES_MAX];

	for (uint32_t i = 0; i < a->n; i++) {
		if (!is_string(a->names[i], LINK_NAME_MAX))
			return -EINVAL;
		names[i] = a->names[i];
	}
	steer_sweep(names, a->n);
	return 0;
}

static struct link_config asked[ASK_LINKS_MAX];

/* Into asked[]. */
static bool read_links(const struct ask *a)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (!privileged_read_link(&a->links[i], &asked[i]))
			return false;
	return true;
}

static int sweep_rules(const struct ask *a)
{
	return read_links(a) ? fib_rule_sweep(asked, a->n) : -EINVAL;
}

static int remove_link(const struct ask *a)
{
	if (a->n == 0 || !read_links(a))
		return -EINVAL;
	steer_remove(&asked[0], &asked[1], a->n - 1);
	return 0;
}

static int do_link(const struct ask *a, char err[CONFIG_ERR_MAX])
{
	struct link_config c;

	if (a->n != 1 || !privileged_read_link(&a->links[0], &c))
		return -EINVAL;
	switch (a->what) {
	case ASK_STEER_INSTALL:
		if (a->number != STEER_RUNNING && a->number != STEER_AT_REST)
			return -EINVAL;
		return steer_install(&c, (enum steer_extent)a->number, err, CONFIG_ERR_MAX);
	case ASK_STEER_KEEP_ROUTING:
		return steer_keep_routing(&c, a->number != 0, err, CONFIG_ERR_MAX);
	default:
		return steer_stands(&c);
	}
}

static int do_port(const struct ask *a)
{
	if (!is_port(a->ifname))
		return -EINVAL;
	if (a->what == ASK_OFFLOAD_ACQUIRE)
		offload_acquire(a->ifname);
	else if (a->what == ASK_OFFLOAD_REFRESH)
		offload_refresh(a->ifname);
	else
		offload_release(a->ifname);
	return 0;
}

/* 0 with *fd, or negative errno. */
static int do_socket(const struct ask *a, int *fd)
{
	if (a->what == ASK_PACKET_SOCKET && (a->number < 0 || a->number > BUFFER_MAX))
		return -EINVAL;
	switch (a->what) {
	case ASK_PACKET_SOCKET:
		*fd = privileged_open_packet_socket(a->number);
		break;
	case ASK_RULES_SOCKET:
		*fd = privileged_open_rules_socket();
		break;
	case ASK_RESERVED_SOCKET:
		*fd = tcp_socket_reserved(&a->addr);
		break;
	default:
		*fd = is_string(a->name, sizeof(a->name)) ? held_get(a->name) : -EINVAL;
	}
	return *fd < 0 ? *fd : 0;
}

static bool is_inet(int fd)
{
	int domain = 0;
	socklen_t len = sizeof(domain);

	return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
	       (domain == AF_INET || domain == AF_INET6);
}

/* Takes `with` over if it is to be held. */
static int hold(const struct ask *a, int *with)
{
	int r = -EINVAL;

	if (is_string(a->name, sizeof(a->name)) && a->name[0] != '\0' && is_inet(*with))
		r = held_put(a->name, *with);
	if (r == 0)
		*with = -1;
	return r;
}

static int look_over_held(const struct ask *a)
{
	if (!is_string(a->name, sizeof(a->name)))
		return -EINVAL;
	if (a->what == ASK_LET_GO)
		held_drop(a->name);
	else if (a->what == ASK_WANT)
		held_want(a->name);
	else
		held_drop_unwanted();
	return 0;
}

/* with: what came with the question, *fd: what goes with the answer. */
static int carry_out(const struct ask *a, int *with, char err[CONFIG_ERR_MAX], int *fd)
{
	switch (a->what) {
	case ASK_STEER_INSTALL:
	case ASK_STEER_KEEP_ROUTING:
	case ASK_STEER_STANDS:
		return do_link(a, err);
	case ASK_STEER_REMOVE:
		return remove_link(a);
	case ASK_STEER_ALL:
		return steer_all(a->number != 0, err, CONFIG_ERR_MAX);
	case ASK_STEER_ALL_STANDS:
		return steer_all_stands();
	case ASK_STEER_SWEEP:
		return sweep_tables(a);
	case ASK_FIB_SWEEP:
		return sweep_rules(a);
	case ASK_OFFLOAD_ACQUIRE:
	case ASK_OFFLOAD_REFRESH:
	case ASK_OFFLOAD_RELEASE:
		return do_port(a);
	case ASK_PACKET_SOCKET:
	case ASK_RULES_SOCKET:
	case ASK_RESERVED_SOCKET:
	case ASK_HELD:
		return do_socket(a, fd);
	case ASK_HOLD:
		return hold(a, with);
	case ASK_LET_GO:
	case ASK_WANT:
	case ASK_LET_GO_UNWANTED:
		return look_over_held(a);
	default:
		return -EINVAL;
	}
}

bool privileged_serve_ask(int ask_fd)
{
	static struct ask a;
	struct ask_answer answer = {0};
	int with, fd = -1;
	ssize_t n = privileged_wire_receive(ask_fd, &a, sizeof(a), &with, 0);

	if (n == 0 || (n < 0 && errno != EMSGSIZE))
		return false;
	answer.result = n > 0 && is_whole(&a, (size_t)n) ? carry_out(&a, &with, answer.err, &fd) : -EINVAL;
	if (with >= 0)
		close(with);
	if (answer.result == -EINVAL && answer.err[0] == '\0')
		snprintf(answer.err, sizeof(answer.err), "longreachd's privileged process refuses the request");
	n = privileged_wire_send(ask_fd, &answer, sizeof(answer), fd, MSG_DONTWAIT); /* a child that does not read loses
	                                                                              * the answer */
	if (fd >= 0)
		close(fd);
	return n == sizeof(answer);
}

void privileged_serve_end(void)
{
	offload_release_all();
}
