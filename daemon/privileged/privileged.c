/* SPDX-License-Identifier: Apache-2.0 */
/* privileged.c - the child's side: asks, and waits for the answer. The parent's is privileged_serve.c. */
#include "privileged.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/kernel/fib_rule.h"
#include "daemon/kernel/offload.h"
#include "privileged_serve.h"
#include "privileged_wire.h"
#include "daemon/util/tcp_socket.h"

static int ask_end = -1, tell_end = -1;

void privileged_ask_over(int ask_fd, int tell_fd)
{
	ask_end = ask_fd;
	tell_end = tell_fd;
}

static bool has_parent(void)
{
	return ask_end >= 0;
}

/* --- asking --- */

static struct ask *new_ask(enum ask_what what)
{
	static struct ask a; /* main thread only */

	memset(&a, 0, offsetof(struct ask, links));
	a.what = what;
	return &a;
}

static void add_link(struct ask *a, const struct link_config *c)
{
	struct ask_link *l = &a->links[a->n++];

	*l = (struct ask_link){.nlan_ports = c->nlan_ports,
	                       .nlocal = c->nlocal,
	                       .nremote = c->nremote,
	                       .npaths = c->npaths,
	                       .barrier = config_barrier(c) != BARRIER_OFF};
	memcpy(l->name, c->name, sizeof(l->name));
	memcpy(l->lan_ports, c->lan_ports, sizeof(l->lan_ports));
	memcpy(l->local, c->local, sizeof(l->local));
	memcpy(l->remote, c->remote, sizeof(l->remote));
	for (uint32_t i = 0; i < c->npaths; i++) {
		l->wan_local[i] = c->paths[i].local;
		l->wan_remote[i] = c->paths[i].remote;
	}
}

static struct ask *ask_about(enum ask_what what, const struct link_config *c)
{
	struct ask *a = new_ask(what);

	add_link(a, c);
	return a;
}

static struct ask *ask_about_port(enum ask_what what, const char *ifname)
{
	struct ask *a = new_ask(what);

	snprintf(a->ifname, sizeof(a->ifname), "%s", ifname);
	return a;
}

/* with: descriptor to send with the question, fd: descriptor that comes with the answer, -1: none. */
static int converse(const struct ask *a, int with, struct ask_answer *answer, int *fd)
{
	ssize_t n;

	*fd = -1;
	if (privileged_wire_send(ask_end, a, ask_length(a), with, 0) < 0)
		return -errno;
	n = privileged_wire_receive(ask_end, answer, sizeof(*answer), fd, 0);
	if (n < 0)
		return -errno;
	if (n != sizeof(*answer))
		return -EPIPE;
	answer->err[sizeof(answer->err) - 1] = '\0';
	return answer->result;
}

/* err may be NULL. */
static int ask(const struct ask *a, char *err, size_t errlen)
{
	struct ask_answer answer = {0};
	int fd, r = converse(a, -1, &answer, &fd);

	if (r == -EPIPE)
		snprintf(answer.err, sizeof(answer.err), "longreachd's privileged process does not answer");
	if (fd >= 0)
		close(fd);
	if (err != NULL && r != 0)
		snprintf(err, errlen, "%s", answer.err);
	return r;
}

static int ask_for_socket(const struct ask *a)
{
	struct ask_answer answer = {0};
	int fd, r = converse(a, -1, &answer, &fd);

	if (r == 0 && fd < 0)
		return -EPIPE;
	if (r < 0 && fd >= 0)
		close(fd);
	return r < 0 ? r : fd;
}

/* --- the kernel's rules --- */

int privileged_steer_install(const struct link_config *c, enum steer_extent extent, char *err, size_t errlen)
{
	struct ask *a;

	if (!has_parent())
		return steer_install(c, extent, err, errlen);
	a = ask_about(ASK_STEER_INSTALL, c);
	a->number = (int32_t)extent;
	return ask(a, err, errlen);
}

int privileged_steer_keep_routing(const struct link_config *c, bool rules, char *err, size_t errlen)
{
	struct ask *a;

	if (!has_parent())
		return steer_keep_routing(c, rules, err, errlen);
	a = ask_about(ASK_STEER_KEEP_ROUTING, c);
	a->number = rules;
	return ask(a, err, errlen);
}

void privileged_steer_remove(const struct link_config *c, const struct link_config *kept, uint32_t n)
{
	struct ask *a;

	if (!has_parent()) {
		steer_remove(c, kept, n);
		return;
	}
	a = ask_about(ASK_STEER_REMOVE, c);
	for (uint32_t i = 0; i < n && a->n < ASK_LINKS_MAX; i++)
		add_link(a, &kept[i]);
	if (a->n == n + 1) /* a removal with a cut list would remove rules of the links that are not listed */
		ask(a, NULL, 0);
}

int privileged_steer_all(bool closed, char *err, size_t errlen)
{
	struct ask *a;

	if (!has_parent())
		return steer_all(closed, err, errlen);
	a = new_ask(ASK_STEER_ALL);
	a->number = closed;
	return ask(a, err, errlen);
}

bool privileged_steer_all_stands(void)
{
	return has_parent() ? ask(new_ask(ASK_STEER_ALL_STANDS), NULL, 0) == 1 : steer_all_stands();
}

void privileged_steer_sweep(const char *const *links, uint32_t n)
{
	struct ask *a;

	if (!has_parent()) {
		steer_sweep(links, n);
		return;
	}
	a = new_ask(ASK_STEER_SWEEP);
	for (uint32_t i = 0; i < n && i < ASK_NAMES_MAX; i++)
		snprintf(a->names[a->n++], LINK_NAME_MAX, "%s", links[i]);
	if (n <= ASK_NAMES_MAX) /* a sweep with a cut list would remove links that are not named */
		ask(a, NULL, 0);
}

bool privileged_steer_stands(const struct link_config *c)
{
	return has_parent() ? ask(ask_about(ASK_STEER_STANDS, c), NULL, 0) == 1 : steer_stands(c);
}

int privileged_fib_rule_sweep(const struct link_config *links, uint32_t n)
{
	struct ask *a;

	if (!has_parent())
		return fib_rule_sweep(links, n);
	a = new_ask(ASK_FIB_SWEEP);
	for (uint32_t i = 0; i < n && i < SITES_MAX; i++)
		add_link(a, &links[i]);
	return n <= SITES_MAX ? ask(a, NULL, 0) : -E2BIG;
}

/* --- offloads --- */

void privileged_offload_acquire(const char *ifname)
{
	if (has_parent())
		ask(ask_about_port(ASK_OFFLOAD_ACQUIRE, ifname), NULL, 0);
	else
		offload_acquire(ifname);
}

void privileged_offload_refresh(const char *ifname)
{
	if (has_parent())
		ask(ask_about_port(ASK_OFFLOAD_REFRESH, ifname), NULL, 0);
	else
		offload_refresh(ifname);
}

void privileged_offload_release(const char *ifname)
{
	if (has_parent())
		ask(ask_about_port(ASK_OFFLOAD_RELEASE, ifname), NULL, 0);
	else
		offload_release(ifname);
}

/* --- sockets --- */

int privileged_packet_socket(int sndbuf)
{
	struct ask *a;

	if (!has_parent())
		return privileged_open_packet_socket(sndbuf);
	a = new_ask(ASK_PACKET_SOCKET);
	a->number = sndbuf;
	return ask_for_socket(a);
}

int privileged_rules_socket(void)
{
	return has_parent() ? ask_for_socket(new_ask(ASK_RULES_SOCKET)) : privileged_open_rules_socket();
}

int privileged_reserved_socket(const struct ip_addr *addr)
{
	struct ask *a;

	if (!has_parent())
		return tcp_socket_reserved(addr);
	a = new_ask(ASK_RESERVED_SOCKET);
	a->addr = *addr;
	return ask_for_socket(a);
}

/* --- sockets that are held --- */

static struct ask *ask_about_name(enum ask_what what, const char *name)
{
	struct ask *a = new_ask(what);

	snprintf(a->name, sizeof(a->name), "%s", name);
	return a;
}

void privileged_hold(const char *name, int fd)
{
	struct ask_answer answer;
	int none;

	if (has_parent())
		converse(ask_about_name(ASK_HOLD, name), fd, &answer, &none);
}

int privileged_held(const char *name)
{
	return has_parent() ? ask_for_socket(ask_about_name(ASK_HELD, name)) : -ENOENT;
}

void privileged_let_go(const char *prefix)
{
	if (has_parent())
		ask(ask_about_name(ASK_LET_GO, prefix), NULL, 0);
}

void privileged_hold_only(const struct link_config *links, uint32_t n)
{
	char name[HELD_NAME_MAX];

	if (!has_parent())
		return;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < links[i].npaths; j++)
			ask(ask_about_name(ASK_WANT, held_name(&links[i].paths[j].local, links[i].paths[j].port, name)), NULL, 0);
	ask(new_ask(ASK_LET_GO_UNWANTED), NULL, 0);
}

/* --- without an answer --- */

static void tell(const struct tell *t, int fd)
{
	if (tell_end >= 0)
		privileged_wire_send(tell_end, t, sizeof(*t), fd, MSG_DONTWAIT);
	else
		privileged_do(t, fd);
}

void privileged_receive_buffer(int fd, int bytes)
{
	tell(&(struct tell){.what = TELL_RECEIVE_BUFFER, .number = bytes}, fd);
}

void privileged_send_buffer(int fd, int bytes)
{
	tell(&(struct tell){.what = TELL_SEND_BUFFER, .number = bytes}, fd);
}

void privileged_find_neighbour(int ifindex, int family, const void *addr)
{
	struct tell t = {.what = TELL_FIND_NEIGHBOUR, .number = ifindex, .family = family};

	memcpy(t.addr, addr, family == AF_INET ? 4 : 16);
	tell(&t, -1);
}

void privileged_run_first(void)
{
	static const struct sched_param first = {.sched_priority = 1};

	/* with RLIMIT_RTPRIO the parent is not needed */
	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &first) != 0)
		tell(&(struct tell){.what = TELL_RUN_FIRST, .number = (int32_t)syscall(SYS_gettid)}, -1);
}
