/* SPDX-License-Identifier: Apache-2.0 */
/* What the child asks arrives at the parent's functions as it was meant, and nothing that could mean something else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "daemon/util/addr.c"
#include "daemon/privileged/privileged_wire.c"
#include "daemon/privileged/held_sockets.c"
#include "daemon/privileged/privileged.c"
#include "daemon/privileged/privileged_serve.c"
#include "daemon/util/rtnl.c"
#include "daemon/util/tcp_socket.c"
#include "daemon/util/units.c"
#include "no_log.h"

/* --- the parent's functions, which note what they were asked for --- */

static struct {
	char what[32];
	struct link_config link;
	enum steer_extent extent;
	char names[256];
	uint32_t n;
	char ifname[IF_NAMESIZE];
	int answer;
} seen;

static void note(const char *what)
{
	snprintf(seen.what, sizeof(seen.what), "%s", what);
}

int steer_install(const struct link_config *c, enum steer_extent extent, char *err, size_t errlen)
{
	note("install");
	seen.link = *c;
	seen.extent = extent;
	if (seen.answer < 0)
		snprintf(err, errlen, "nft is not to be had");
	if (seen.answer == 1)
		snprintf(err, errlen, "the nft table inet longreach_tokyo");
	return seen.answer;
}

int steer_keep_routing(const struct link_config *c, bool rules, char *err, size_t errlen)
{
	(void)err;
	(void)errlen;
	note(rules ? "keep port and rules" : "keep port");
	seen.link = *c;
	return seen.answer;
}

void steer_remove(const struct link_config *c, const struct link_config *kept, uint32_t n)
{
	note("remove");
	seen.link = *c;
	seen.n = n;
	snprintf(seen.names, sizeof(seen.names), "%s", n > 0 ? kept[n - 1].name : "");
}

int steer_all(bool closed, char *err, size_t errlen)
{
	(void)err;
	(void)errlen;
	note(closed ? "close all" : "open all");
	return 0;
}

bool steer_all_stands(void)
{
	note("all stands");
	return true;
}

void steer_sweep(const char *const *links, uint32_t n)
{
	note("sweep");
	seen.n = n;
	seen.names[0] = '\0';
	for (uint32_t i = 0; i < n && i < 4; i++)
		strcat(strcat(seen.names, links[i]), " ");
}

bool steer_stands(const struct link_config *c)
{
	note("stands");
	seen.link = *c;
	return seen.answer == 1;
}

int fib_rule_sweep(const struct link_config *links, uint32_t n)
{
	note("sweep rules");
	seen.n = n;
	seen.link = links[n - 1];
	return seen.answer;
}

void offload_acquire(const char *ifname)
{
	note("acquire");
	snprintf(seen.ifname, IF_NAMESIZE, "%s", ifname);
}

void offload_refresh(const char *ifname)
{
	note("refresh");
	snprintf(seen.ifname, IF_NAMESIZE, "%s", ifname);
}

void offload_release(const char *ifname)
{
	note("release");
	snprintf(seen.ifname, IF_NAMESIZE, "%s", ifname);
}

void offload_release_all(void)
{
	note("release all");
}

/* --- a parent that serves on another thread --- */

static int asks[2], tells[2];
static pthread_t server;

static void *serve(void *arg)
{
	while (privileged_serve_ask(asks[1]))
		;
	return arg;
}

static int set_up(void **state)
{
	(void)state;
	memset(&seen, 0, sizeof(seen));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, asks) < 0 || socketpair(AF_UNIX, SOCK_DGRAM, 0, tells) < 0)
		return -1;
	privileged_ask_over(asks[0], tells[0]);
	return pthread_create(&server, NULL, serve, NULL);
}

static int tear_down(void **state)
{
	(void)state;
	shutdown(asks[0], SHUT_RDWR);
	pthread_join(server, NULL);
	for (int i = 0; i < 2; i++) {
		close(asks[i]);
		close(tells[i]);
	}
	privileged_ask_over(-1, -1);
	return 0;
}

static struct link_config link_of(void)
{
	struct link_config c = {.name = "sapporo-wakkanai", .nlan_ports = 2, .nlocal = 1, .nremote = 2};

	strcpy(c.lan_ports[0], "eth2");
	strcpy(c.lan_ports[1], "eth3.100");
	c.local[0].addr.b[10] = c.local[0].addr.b[11] = 0xff;
	c.local[0].len = 96 + 16;
	c.remote[0] = c.local[0];
	c.remote[0].addr.b[13] = 1;
	c.remote[1].addr.b[0] = 0x20;
	c.remote[1].len = 64;
	c.barrier = BARRIER_SAYS_CAUSAL;
	strcpy(c.psk_file, "/etc/longreach/secret");
	return c;
}

static void privileged__install_arrives_without_what_it_does_not_need(void **state)
{
	struct link_config c = link_of();
	char err[CONFIG_ERR_MAX] = "";

	(void)state;
	assert_int_equal(privileged_steer_install(&c, STEER_AT_REST, err, sizeof(err)), 0);
	assert_string_equal(seen.what, "install");
	assert_string_equal(seen.link.name, "sapporo-wakkanai");
	assert_string_equal(seen.link.lan_ports[1], "eth3.100");
	assert_int_equal(seen.link.nremote, 2);
	assert_int_equal(seen.link.remote[1].len, 64);
	assert_int_equal(config_barrier(&seen.link), BARRIER_PAIR);
	assert_int_equal(seen.extent, STEER_AT_REST);
	assert_string_equal(seen.link.psk_file, "");
}

static void privileged__errors_come_back_as_sentences(void **state)
{
	struct link_config c = link_of();
	char err[CONFIG_ERR_MAX] = "";

	(void)state;
	seen.answer = -EIO;
	assert_int_equal(privileged_steer_install(&c, STEER_RUNNING, err, sizeof(err)), -EIO);
	assert_string_equal(err, "nft is not to be had");
	assert_false(privileged_steer_stands(&c));
	seen.answer = 1;
	assert_true(privileged_steer_stands(&c));
	assert_int_equal(privileged_steer_install(&c, STEER_RUNNING, err, sizeof(err)), 1);
	assert_string_equal(err, "the nft table inet longreach_tokyo");
}

static void privileged__ip_port_knows_the_wan_addresses(void **state)
{
	struct link_config c = link_of();
	char err[CONFIG_ERR_MAX] = "";

	(void)state;
	c.npaths = 2;
	c.paths[1].remote.b[15] = 9;
	assert_int_equal(privileged_steer_keep_routing(&c, true, err, sizeof(err)), 0);
	assert_string_equal(seen.what, "keep port and rules");
	assert_int_equal(seen.link.npaths, 2);
	assert_int_equal(seen.link.paths[1].remote.b[15], 9);
}

static void privileged__sweeps(void **state)
{
	static struct link_config links[SITES_MAX];
	const char *names[] = {"a", "b"};

	(void)state;
	privileged_steer_sweep(names, 2);
	assert_string_equal(seen.names, "a b ");
	assert_int_equal(seen.n, 2);
	for (unsigned i = 0; i < SITES_MAX; i++) {
		links[i] = link_of();
		snprintf(links[i].name, LINK_NAME_MAX, "link%u", i);
	}
	assert_int_equal(privileged_fib_rule_sweep(links, SITES_MAX), 0);
	assert_int_equal(seen.n, SITES_MAX);
	assert_string_equal(seen.link.name, "link63");
}

/* A removal with a cut list would remove rules of a link that is not listed. */
static void privileged__removal_knows_all_links_that_stay(void **state)
{
	static struct link_config links[SITES_MAX + 1];
	struct link_config c = link_of();

	(void)state;
	for (unsigned i = 0; i <= SITES_MAX; i++) {
		links[i] = link_of();
		snprintf(links[i].name, LINK_NAME_MAX, "link%u", i);
	}
	privileged_steer_remove(&c, links, SITES_MAX);
	assert_string_equal(seen.what, "remove");
	assert_string_equal(seen.link.name, "sapporo-wakkanai");
	assert_int_equal(seen.n, SITES_MAX);
	assert_string_equal(seen.names, "link63");
	seen.what[0] = '\0';
	privileged_steer_remove(&c, links, SITES_MAX + 1);
	assert_string_equal(seen.what, "");
	privileged_steer_remove(&c, NULL, 0);
	assert_string_equal(seen.what, "remove");
	assert_int_equal(seen.n, 0);
}

static void privileged__ports(void **state)
{
	(void)state;
	privileged_offload_acquire("eth0");
	assert_string_equal(seen.what, "acquire");
	privileged_offload_refresh("eth1");
	assert_string_equal(seen.what, "refresh");
	privileged_offload_release("eth2");
	assert_string_equal(seen.what, "release");
	assert_string_equal(seen.ifname, "eth2");
}

static void privileged__sockets_come_as_descriptors(void **state)
{
	int fd = privileged_rules_socket(), domain = 0;
	socklen_t len = sizeof(domain);

	(void)state;
	if (fd == -EPERM) /* not root: refused by the kernel, and told */
		skip();
	assert_true(fd >= 0);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len), 0);
	assert_int_equal(domain, AF_NETLINK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	assert_int_equal(privileged_packet_socket(INT32_MAX), -EINVAL);
}

static void privileged__buffers_of_udp_sockets_only(void **state)
{
	int udp = socket(AF_INET, SOCK_DGRAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0), before, after;
	socklen_t len = sizeof(int);

	(void)state;
	getsockopt(tcp, SOL_SOCKET, SO_SNDBUF, &before, &len);
	privileged_send_buffer(udp, 8 << 20);
	privileged_send_buffer(tcp, 8 << 20);
	privileged_send_buffer(tcp, -1);
	privileged_serve_tell(tells[1]);
	getsockopt(tcp, SOL_SOCKET, SO_SNDBUF, &after, &len);
	assert_int_equal(before, after);
	getsockopt(udp, SOL_SOCKET, SO_SNDBUF, &after, &len);
	if (geteuid() == 0)
		assert_int_equal(after, 16 << 20); /* the kernel doubles it */
	close(udp);
	close(tcp);
}

/* The next child finds the socket itself, not one like it. */
static void privileged__sockets_are_held(void **state)
{
	int udp = socket(AF_INET, SOCK_DGRAM, 0), pipes[2], again;
	struct sockaddr_in any = {.sin_family = AF_INET}, is = {0};
	socklen_t len = sizeof(is);

	(void)state;
	assert_int_equal(bind(udp, (struct sockaddr *)&any, sizeof(any)), 0);
	getsockname(udp, (struct sockaddr *)&any, &len);
	assert_int_equal(privileged_held("udp one."), -ENOENT);
	privileged_hold("udp one.", udp);
	close(udp);
	again = privileged_held("udp one.");
	assert_true(again >= 0);
	assert_int_equal(getsockname(again, (struct sockaddr *)&is, &len), 0);
	assert_int_equal(is.sin_port, any.sin_port);
	close(again);
	privileged_let_go("udp o");
	assert_int_equal(privileged_held("udp one."), -ENOENT);
	udp = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(bind(udp, (struct sockaddr *)&any, sizeof(any)), 0); /* nobody has the port any more */
	close(udp);

	assert_int_equal(pipe(pipes), 0); /* no socket: not held */
	privileged_hold("pipe", pipes[0]);
	assert_int_equal(privileged_held("pipe"), -ENOENT);
	close(pipes[0]);
	close(pipes[1]);
}

/* A port that no link file names any more is nobody's business to keep. */
static void privileged__sockets_of_links_that_are_gone(void **state)
{
	struct link_config c = link_of();
	int kept, gone = socket(AF_INET, SOCK_DGRAM, 0);
	char name[HELD_NAME_MAX];

	(void)state;
	c.npaths = 1;
	c.paths[0].port = 4790;
	privileged_hold(strcat(held_name(&c.paths[0].local, 4790, name), " tcp."), gone);
	privileged_hold(held_name(&c.paths[0].local, 4791, name), gone);
	close(gone);
	for (int i = 0; i < 2; i++) {
		privileged_hold_only(&c, 1);
		assert_int_equal(privileged_held(name), -ENOENT);
		kept = privileged_held(strcat(held_name(&c.paths[0].local, 4790, name), " tcp."));
		assert_true(kept >= 0);
		close(kept);
		held_name(&c.paths[0].local, 4791, name);
	}
	privileged_hold_only(&c, 0);
	assert_int_equal(privileged_held(strcat(held_name(&c.paths[0].local, 4790, name), " tcp.")), -ENOENT);
}

static void privileged__too_many_are_not_held(void **state)
{
	int udp = socket(AF_INET, SOCK_DGRAM, 0), r = 0;
	char name[HELD_NAME_MAX];

	(void)state;
	for (int i = 0; i <= HELD_MAX && r == 0; i++) {
		snprintf(name, sizeof(name), "socket %d", i);
		r = held_put(name, -1);
	}
	assert_int_equal(r, -ENOSPC);
	held_drop("");
	close(udp);
}

/* --- a child that was taken over --- */

static unsigned open_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* The kernel hands over as many as there is room for, also where nobody looks at the second. */
static void privileged__two_descriptors_at_once(void **state)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	static struct ask a = {.what = ASK_HOLD, .name = "two"};
	struct iovec iov = {&a, offsetof(struct ask, links)};
	struct msghdr m = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.room)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	unsigned before = open_descriptors();
	struct ask_answer answer;
	int fd;

	(void)state;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(2 * sizeof(int));
	memcpy(CMSG_DATA(c), asks, 2 * sizeof(int));
	for (int i = 0; i < 3; i++) {
		assert_true(sendmsg(asks[0], &m, 0) > 0);
		assert_int_equal(privileged_wire_receive(asks[0], &answer, sizeof(answer), &fd, 0), sizeof(answer));
		assert_int_equal(answer.result, -EINVAL);
	}
	assert_int_equal(open_descriptors(), before);
}

static int say(const struct ask *a, size_t len)
{
	struct ask_answer answer;
	int fd;

	assert_int_equal(privileged_wire_send(asks[0], a, len, -1, 0), (ssize_t)len);
	assert_int_equal(privileged_wire_receive(asks[0], &answer, sizeof(answer), &fd, 0), sizeof(answer));
	assert_int_equal(fd, -1);
	return answer.result;
}

static void privileged__lengths_that_do_not_fit(void **state)
{
	static struct ask a;
	size_t head = offsetof(struct ask, links);

	(void)state;
	a.what = ASK_STEER_REMOVE;
	assert_int_equal(say(&a, 1), -EINVAL);
	assert_int_equal(say(&a, head), -EINVAL); /* no link */
	a.n = 1;
	assert_int_equal(say(&a, head), -EINVAL);
	a.n = SITES_MAX + 1;
	assert_int_equal(say(&a, head), -EINVAL);
	a.n = UINT32_MAX;
	assert_int_equal(say(&a, sizeof(a)), -EINVAL);
	a.what = ASK_WHATS;
	a.n = 0;
	assert_int_equal(say(&a, head), -EINVAL);
	assert_string_equal(seen.what, "");
}

static void privileged__links_that_could_say_something_else(void **state)
{
	struct link_config c = link_of(), out;
	struct ask_link good, l;
	struct ask *a = new_ask(ASK_STEER_INSTALL);

	(void)state;
	add_link(a, &c);
	good = a->links[0];
	assert_true(privileged_read_link(&good, &out));

#define REFUSED(change)                                                                                                \
	do {                                                                                                           \
		l = good;                                                                                              \
		change;                                                                                                \
		assert_false(privileged_read_link(&l, &out));                                                          \
	} while (0)
	REFUSED(memset(l.name, 'x', sizeof(l.name)));
	REFUSED(l.name[0] = '\0');
	REFUSED(strcpy(l.name, "a\"x"));
	REFUSED(strcpy(l.name, "a;flush"));
	REFUSED(strcpy(l.name, ".a"));
	REFUSED(memset(l.lan_ports[0], 'x', IF_NAMESIZE));
	REFUSED(strcpy(l.lan_ports[0], "a\" ; flush"));
	REFUSED(strcpy(l.lan_ports[0], "a\nb"));
	REFUSED(strcpy(l.lan_ports[0], "../x"));
	REFUSED(l.lan_ports[1][0] = '\0');
	REFUSED(l.nlan_ports = LAN_PORTS_MAX + 1);
	REFUSED(l.nlocal = PREFIXES_MAX + 1);
	REFUSED(l.nremote = UINT32_MAX);
	REFUSED(l.local[0].len = 129);
	REFUSED(l.local[0].len = 96); /* 0.0.0.0/0 */
	REFUSED(l.remote[1].len = 0);
	REFUSED(l.remote[0] = l.local[0]);
	REFUSED(l.remote[1] = l.remote[0]);
	REFUSED(l.npaths = PATHS_MAX + 1);
	REFUSED(l.barrier = 2);
#undef REFUSED
}

static void privileged__numbers_out_of_range(void **state)
{
	struct link_config c = link_of();
	struct ask *a = new_ask(ASK_STEER_INSTALL);

	(void)state;
	add_link(a, &c);
	a->number = 7;
	assert_int_equal(say(a, ask_length(a)), -EINVAL);
	a = new_ask(ASK_OFFLOAD_ACQUIRE);
	assert_int_equal(say(a, ask_length(a)), -EINVAL);
	a = new_ask(ASK_PACKET_SOCKET);
	a->number = -1;
	assert_int_equal(say(a, ask_length(a)), -EINVAL);
	assert_string_equal(seen.what, "");
}

/* A parent that is gone is an error at once, no wait for ever. */
static void privileged__parent_that_is_gone(void **state)
{
	struct link_config c = link_of();
	char err[CONFIG_ERR_MAX] = "";

	(void)state;
	shutdown(asks[1], SHUT_RDWR);
	assert_true(privileged_steer_install(&c, STEER_RUNNING, err, sizeof(err)) < 0);
	assert_true(privileged_packet_socket(0) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(privileged__##name, set_up, tear_down)
	    TEST(install_arrives_without_what_it_does_not_need),
	    TEST(errors_come_back_as_sentences),
	    TEST(ip_port_knows_the_wan_addresses),
	    TEST(sweeps),
	    TEST(removal_knows_all_links_that_stay),
	    TEST(ports),
	    TEST(sockets_come_as_descriptors),
	    TEST(buffers_of_udp_sockets_only),
	    TEST(sockets_are_held),
	    TEST(sockets_of_links_that_are_gone),
	    TEST(too_many_are_not_held),
	    TEST(two_descriptors_at_once),
	    TEST(lengths_that_do_not_fit),
	    TEST(links_that_could_say_something_else),
	    TEST(numbers_out_of_range),
	    TEST(parent_that_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
