/* SPDX-License-Identifier: Apache-2.0 */
/* Two control channels in one event loop, over loopback addresses of this process' own. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/units.c"
#include "daemon/addr.c"
#include "daemon/hello.c"
#include "daemon/log.c"
#include "daemon/peer.c"

#define PORT 47901

struct edge {
	struct link_config config;
	struct peer *peer;
	unsigned sessions;
	struct proxy_session last;
};

struct lab {
	struct event_base *base;
	struct edge a, b; /* a has the lower address: it connects */
};

static void set_prefix(struct ip_prefix *list, uint32_t *n, const char *text)
{
	*n = 1;
	assert_int_equal(addr_read_prefix(text, list), 0);
}

static void on_test_session(void *arg, const struct proxy_session *s)
{
	struct edge *e = arg;

	e->sessions++;
	e->last = *s;
}

static int start_edge(struct lab *l, struct edge *e)
{
	char err[CONFIG_ERR_MAX];

	return peer_start(&e->config, 7, l->base, on_test_session, e, &e->peer, err);
}

static void stop_edge(struct edge *e)
{
	peer_stop(e->peer);
	e->peer = NULL;
}

static void make_config(struct link_config *c, const char *name, unsigned last_byte, unsigned other_last_byte)
{
	unsigned pid = (unsigned)getpid();
	char text[32];

	memset(c, 0, sizeof(*c));
	snprintf(c->name, sizeof(c->name), "%s", name);
	snprintf(text, sizeof(text), "127.%u.%u.%u", 64 + (pid >> 8 & 0x3f), pid & 0xff, last_byte);
	assert_int_equal(addr_read(text, &c->wan_local), 0);
	snprintf(text, sizeof(text), "127.%u.%u.%u", 64 + (pid >> 8 & 0x3f), pid & 0xff, other_last_byte);
	assert_int_equal(addr_read(text, &c->wan_remote), 0);
	c->wan_port = PORT;
	c->lanes = 64;
	c->wan_mtu = 1500;
	c->ack_mode = ACK_MODE_NEAR;
}

static int set_up(void **state)
{
	struct lab *l = test_calloc(1, sizeof(*l));

	l->base = event_base_new();
	assert_non_null(l->base);
	make_config(&l->a.config, "to-b", 1, 2);
	make_config(&l->b.config, "to-a", 2, 1);
	set_prefix(l->a.config.local, &l->a.config.nlocal, "10.1.0.0/16");
	set_prefix(l->a.config.remote, &l->a.config.nremote, "10.2.0.0/16");
	set_prefix(l->b.config.local, &l->b.config.nlocal, "10.2.0.0/16");
	set_prefix(l->b.config.remote, &l->b.config.nremote, "10.1.0.0/16");
	*state = l;
	return 0;
}

static int tear_down(void **state)
{
	struct lab *l = *state;

	if (l->a.peer != NULL)
		stop_edge(&l->a);
	if (l->b.peer != NULL)
		stop_edge(&l->b);
	event_base_free(l->base);
	test_free(l);
	return 0;
}

/* Runs the loop until `done` says so; fails after `limit_ms`. */
static void run_until(struct lab *l, bool (*done)(const struct lab *l), unsigned limit_ms)
{
	uint64_t end_ns = clock_now_ns() + limit_ms * NS_PER_MS;
	const struct timeval step = {.tv_usec = 5000};

	while (!done(l)) {
		if (clock_now_ns() > end_ns)
			fail_msg("not within %u ms", limit_ms);
		event_base_loopexit(l->base, &step);
		event_base_dispatch(l->base);
	}
}

static void run_for(struct lab *l, unsigned ms)
{
	const struct timeval t = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	event_base_loopexit(l->base, &t);
	event_base_dispatch(l->base);
}

static struct peer_status status_of(const struct edge *e)
{
	struct peer_status s;

	peer_status(e->peer, &s);
	return s;
}

static bool both_met(const struct lab *l)
{
	return status_of(&l->a).connected && status_of(&l->b).connected;
}

static bool second_session(const struct lab *l)
{
	return l->a.sessions == 2 && l->b.sessions == 2;
}

static bool a_lost(const struct lab *l)
{
	return !status_of(&l->a).connected;
}

static void bring_up(struct lab *l)
{
	assert_int_equal(start_edge(l, &l->b), 0);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, both_met, 2000);
	assert_int_equal(l->a.sessions, 1);
	assert_int_equal(l->b.sessions, 1);
}

static void assert_crosswise(const struct lab *l)
{
	assert_int_equal(l->a.last.epoch_tx, l->b.last.epoch_rx);
	assert_int_equal(l->a.last.epoch_rx, l->b.last.epoch_tx);
	assert_int_equal(l->a.last.mismatch, l->b.last.mismatch);
}

static void peer__both_begin_one_session_with_crosswise_epochs(void **state)
{
	struct lab *l = *state;

	bring_up(l);
	assert_crosswise(l);
	assert_false(l->a.last.mismatch);
	assert_string_equal(status_of(&l->a).there.name, "to-a");
}

static void peer__the_connecting_edge_may_be_first(void **state)
{
	struct lab *l = *state;

	assert_int_equal(start_edge(l, &l->a), 0);
	run_for(l, 50);
	assert_int_equal(start_edge(l, &l->b), 0);
	run_until(l, both_met, 3000);
	assert_crosswise(l);
}

static void peer__broken_connection_leaves_the_session(void **state)
{
	struct lab *l = *state;
	struct proxy_session before;

	bring_up(l);
	before = l->a.last;
	conn_fail(l->b.peer->conn, "test");
	run_until(l, a_lost, 1000);
	run_until(l, both_met, 3000);
	assert_int_equal(l->a.sessions, 1);
	assert_int_equal(l->b.sessions, 1);
	assert_int_equal(l->a.last.epoch_tx, before.epoch_tx);
}

static void peer__restarted_edge_begins_a_new_session(void **state)
{
	struct lab *l = *state;
	struct proxy_session before;

	bring_up(l);
	before = l->a.last;
	stop_edge(&l->b);
	assert_int_equal(start_edge(l, &l->b), 0);
	run_until(l, second_session, 5000);
	assert_crosswise(l);
	assert_int_not_equal(l->a.last.epoch_tx, before.epoch_tx);
	assert_int_not_equal(l->a.last.epoch_rx, before.epoch_rx);
}

/* The listening edge sees the restart while it still believes in the old connection. */
static void peer__half_open_connection_gives_way(void **state)
{
	struct lab *l = *state;
	int fd;

	bring_up(l);
	/* A crashed edge leaves its connection behind without a word: take it away from the event loop. */
	fd = dup(bufferevent_getfd(l->a.peer->conn->bev));
	assert_true(fd >= 0);
	stop_edge(&l->a);
	run_for(l, 20);
	assert_true(status_of(&l->b).connected);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, second_session, 3000);
	assert_crosswise(l);
	close(fd);
}

static void peer__reload_begins_a_session_with_mismatch_and_back(void **state)
{
	struct lab *l = *state;

	l->a.config.barrier = l->b.config.barrier = BARRIER_SAYS_PAIR;
	bring_up(l);
	l->a.config.ack_mode = ACK_MODE_HOST;
	peer_reconfigure(l->a.peer, &l->a.config);
	run_until(l, second_session, 1000);
	assert_crosswise(l);
	assert_true(l->a.last.mismatch);
	assert_string_equal(status_of(&l->a).text, "AckMode= is host here and near there");
	l->b.config.ack_mode = ACK_MODE_HOST;
	peer_reconfigure(l->b.peer, &l->b.config);
	run_for(l, 100);
	assert_int_equal(l->a.sessions, 3);
	assert_crosswise(l);
	assert_false(l->a.last.mismatch);
	assert_false(l->b.last.mismatch);
	/* A rate is each end's own business. */
	l->b.config.rate_bps = 77;
	peer_reconfigure(l->b.peer, &l->b.config);
	run_for(l, 50);
	assert_int_equal(l->a.sessions, 3);
	assert_int_equal(l->b.sessions, 3);
}

static void peer__lanes_that_differ_mean_no_session(void **state)
{
	struct lab *l = *state;

	l->b.config.lanes = 32;
	assert_int_equal(start_edge(l, &l->b), 0);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, both_met, 2000);
	assert_int_equal(l->a.sessions, 0);
	assert_int_equal(l->b.sessions, 0);
	assert_int_equal(status_of(&l->a).verdict, HELLO_REFUSED);
	assert_string_equal(status_of(&l->b).text, "Lanes= is 32 here and 64 there");
}

/* A plain socket to the listening edge, from an address. */
static int knock(const struct lab *l, const struct ip_addr *from)
{
	struct sockaddr_storage to;
	socklen_t len = addr_to_sockaddr(&l->b.config.wan_local, PORT, &to);
	int fd = bound_socket(from, 0);

	assert_true(fd >= 0);
	assert_true(connect(fd, (struct sockaddr *)&to, len) == 0 || errno == EINPROGRESS);
	return fd;
}

static void peer__strangers_are_refused(void **state)
{
	struct lab *l = *state;
	struct ip_addr stranger;
	char byte;
	int fd;

	assert_int_equal(start_edge(l, &l->b), 0);
	assert_int_equal(addr_read("127.0.0.1", &stranger), 0);
	fd = knock(l, &stranger);
	run_for(l, 50);
	assert_int_equal(recv(fd, &byte, 1, 0), 0); /* closed, without a hello */
	assert_int_equal(status_of(&l->b).refused_connections, 1);
	close(fd);
}

static void peer__garbage_does_not_disturb_the_session(void **state)
{
	static const char garbage[] = "GET / HTTP/1.1\r\nHost: longreach\r\n\r\n";
	struct lab *l = *state;
	char buf[4096];
	int fd;

	bring_up(l);
	fd = knock(l, &l->a.config.wan_local);
	run_for(l, 50);
	assert_int_equal(send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL), sizeof(garbage));
	run_for(l, 50);
	assert_true(recv(fd, buf, sizeof(buf), 0) > 0); /* its hello */
	assert_true(recv(fd, buf, sizeof(buf), 0) <= 0);
	close(fd);
	assert_true(both_met(l));
	assert_int_equal(l->b.sessions, 1);
}

static void peer__a_flood_of_connections_is_cut(void **state)
{
	struct lab *l = *state;
	int fd[3 * ACCEPTS_PER_S];

	bring_up(l);
	for (unsigned i = 0; i < 3 * ACCEPTS_PER_S; i++) {
		fd[i] = knock(l, &l->a.config.wan_local);
		run_for(l, 2);
	}
	run_for(l, 20);
	assert_in_range(status_of(&l->b).refused_connections, ACCEPTS_PER_S, 3 * ACCEPTS_PER_S);
	assert_true(both_met(l));
	for (unsigned i = 0; i < 3 * ACCEPTS_PER_S; i++)
		close(fd[i]);
}

static void peer__a_port_in_use_is_an_error(void **state)
{
	struct lab *l = *state;
	struct edge second = {.config = l->b.config};
	char err[CONFIG_ERR_MAX];

	assert_int_equal(start_edge(l, &l->b), 0);
	assert_int_equal(peer_start(&second.config, 7, l->base, on_test_session, &second, &second.peer, err),
	                 -EADDRINUSE);
	assert_non_null(strstr(err, "cannot listen on LocalAddress=127."));
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(peer__both_begin_one_session_with_crosswise_epochs),
	    TEST(peer__the_connecting_edge_may_be_first),
	    TEST(peer__broken_connection_leaves_the_session),
	    TEST(peer__restarted_edge_begins_a_new_session),
	    TEST(peer__half_open_connection_gives_way),
	    TEST(peer__reload_begins_a_session_with_mismatch_and_back),
	    TEST(peer__lanes_that_differ_mean_no_session),
	    TEST(peer__strangers_are_refused),
	    TEST(peer__garbage_does_not_disturb_the_session),
	    TEST(peer__a_flood_of_connections_is_cut),
	    TEST(peer__a_port_in_use_is_an_error),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
