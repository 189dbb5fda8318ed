/* SPDX-License-Identifier: Apache-2.0 */
/* Two control channels in one event loop, over loopback addresses of this process' own. */
#define _GNU_SOURCE /* nftw */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>

#include "daemon/util/units.c"
#include "daemon/util/addr.c"
#include "daemon/peer/hello.c"
#include "daemon/config/host_groups.c"
#include "daemon/util/log.c"
#include "daemon/peer/accept_queue.c"
#include "daemon/peer/cert_days.c"
#include "daemon/peer/peer_clock.c"
#include "daemon/privileged/held_sockets.c"
#include "daemon/peer/peer.c"
#include "daemon/peer/peer_accept.c"
#include "daemon/peer/peer_conn.c"
#include "daemon/util/port_holder.c"
#include "daemon/util/tcp_socket.c"
#include "daemon/peer/tls.c"
#include "daemon/peer/tls_proof.c"
#include "daemon/client/client_keygen.c"
#include "no_parent.h"

#define PORT 47901

struct edge {
	struct link_config config;
	struct peer *peer;
	unsigned sessions;
	struct proxy_session last;
	struct seal_secret tx, rx; /* of the last session, of the last offer */
	unsigned offers;
	bool slow_keys; /* the workers do not answer */
	bool disagrees;
	struct arena_life life;
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

static void on_test_session(void *arg, const struct proxy_session *s, const struct seal_secret *tx)
{
	struct edge *e = arg;

	e->sessions++;
	e->last = *s;
	assert_int_equal(tx != NULL, e->config.encryption != SEAL_NONE);
	if (tx != NULL)
		e->tx = *tx;
}

static void on_test_keys(void *arg, const struct seal_secret *rx, uint32_t serial)
{
	struct edge *e = arg;

	e->rx = *rx;
	e->offers++;
	if (!e->slow_keys)
		peer_keys_taken(e->peer, serial);
}

static void on_test_agreed(void *arg, bool agreed)
{
	struct edge *e = arg;

	e->disagrees = !agreed;
}

static int start_edge(struct lab *l, struct edge *e)
{
	const struct peer_user user = {
	    .session = on_test_session, .keys = on_test_keys, .agreed = on_test_agreed, .arg = e};
	char err[CONFIG_ERR_MAX];
	int r = peer_open(&e->config, l->base, &user, &e->peer, err);

	if (r == 0)
		peer_run(e->peer, &e->config, &e->life);
	return r;
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
	assert_int_equal(addr_read(text, &c->paths[0].local), 0);
	snprintf(text, sizeof(text), "127.%u.%u.%u", 64 + (pid >> 8 & 0x3f), pid & 0xff, other_last_byte);
	assert_int_equal(addr_read(text, &c->paths[0].remote), 0);
	c->npaths = 1;
	c->paths[0].port = PORT;
	c->lanes = 64;
	c->paths[0].mtu = 1500;
	c->ack_mode = ACK_MODE_NEAR;
	c->reauth_ns = 300 * NS_PER_S;
}

static int set_up(void **state)
{
	struct lab *l = test_calloc(1, sizeof(*l));

	l->base = event_base_new();
	assert_non_null(l->base);
	make_config(&l->a.config, "to-b", 1, 2);
	make_config(&l->b.config, "to-a", 2, 1);
	l->a.life.epoch = l->b.life.epoch = 7;
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

static bool third_session(const struct lab *l)
{
	return l->a.sessions == 3 && l->b.sessions == 3;
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
	peer_conn_fail(l->b.peer->conn, "test");
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

/* Edge b lost its buffer, and edge b's first start after that ends before a hello. Edge a is restarted meanwhile. Both
 * edges hear of the loss in the next session, and not again in the session after it. */
static void peer__a_lost_buffer_is_heard_of_after_restarts_of_both(void **state)
{
	struct lab *l = *state;

	l->a.life.former = l->b.life.former = FORMER_KEPT;
	bring_up(l);
	stop_edge(&l->b);
	l->b.life = (struct arena_life){.epoch = 99, .former = FORMER_LOST};
	stop_edge(&l->a);
	assert_int_equal(start_edge(l, &l->b), 0);
	stop_edge(&l->b);
	l->a.life.peer_epoch = l->a.last.peer_arena_epoch; /* from its buffer */
	assert_int_equal(start_edge(l, &l->b), 0);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, second_session, 5000);
	assert_true(l->b.last.arena_lost);
	assert_false(l->a.last.peer_kept_arena);
	assert_int_equal(l->a.last.peer_arena_epoch, 99);
	stop_edge(&l->b);
	assert_int_equal(start_edge(l, &l->b), 0);
	run_until(l, third_session, 5000);
	assert_false(l->b.last.arena_lost);
}

static bool both_have_two(const struct lab *l)
{
	return l->a.sessions == 2 && l->b.sessions == 2;
}

/* A worker was left without the first one. */
static void peer__renewed_session_is_another_one_at_both_edges(void **state)
{
	struct lab *l = *state;
	struct proxy_session before;

	bring_up(l);
	before = l->b.last;
	peer_renew(l->b.peer);
	run_until(l, both_have_two, 1000);
	assert_crosswise(l);
	assert_int_not_equal(l->b.last.epoch_tx, before.epoch_tx);
	assert_int_not_equal(l->b.last.epoch_rx, before.epoch_rx);
	assert_int_equal(l->b.last.peer_boot_id, before.peer_boot_id);
	assert_true(both_met(l));
}

/* An operator's stop is told before the connection ends, and is of the past when the other edge says hello again. */
static void stop_is_told(struct lab *l)
{
	assert_false(status_of(&l->a).stopped_there);
	peer_say_stopped(l->b.peer);
	stop_edge(&l->b);
	run_until(l, a_lost, 1000);
	assert_true(status_of(&l->a).stopped_there);
	assert_int_equal(start_edge(l, &l->b), 0);
	run_until(l, second_session, 5000);
	assert_false(status_of(&l->a).stopped_there);
	/* Without a word it is a fault; nothing can be told without a connection. */
	stop_edge(&l->b);
	run_until(l, a_lost, 1000);
	assert_false(status_of(&l->a).stopped_there);
	peer_say_stopped(l->a.peer);
}

static void peer__a_stop_by_an_operator_is_told(void **state)
{
	struct lab *l = *state;

	bring_up(l);
	stop_is_told(l);
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
	l->b.config.paths[0].rate_bps = 77;
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
	socklen_t len = addr_to_sockaddr(&l->b.config.paths[0].local, PORT, &to);
	int fd = tcp_socket_bound(from, 0);

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
	fd = knock(l, &l->a.config.paths[0].local);
	run_for(l, 50);
	assert_int_equal(send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL), sizeof(garbage));
	run_for(l, 50);
	assert_true(recv(fd, buf, sizeof(buf), 0) <= 0); /* closed without a word */
	close(fd);
	assert_true(both_met(l));
	assert_int_equal(l->b.sessions, 1);
}

/* They tell each other what their clocks show, once a second. Of a connection that has just begun nothing is known. */
static void peer__clocks_are_compared(void **state)
{
	struct lab *l = *state;
	struct peer_status s;

	bring_up(l);
	assert_false(status_of(&l->a).clock_known);
	for (int i = 0; i < 2; i++) {
		on_tick(-1, 0, l->b.peer);
		run_for(l, 20);
	}
	s = status_of(&l->a);
	assert_true(s.clock_known);
	assert_true(s.clock_ahead_ns > -(int64_t)NS_PER_S && s.clock_ahead_ns < (int64_t)NS_PER_S);
	assert_int_equal(s.clock_jumps, 0);
	l->b.peer->clock.wall_ahead_ns += 5 * (int64_t)NS_PER_S; /* as if it had been so at the last look */
	on_tick(-1, 0, l->b.peer);
	assert_int_equal(status_of(&l->b).clock_jumps, 1);
	assert_true(status_of(&l->b).clock_jump_ns < -4 * (int64_t)NS_PER_S);
	stop_edge(&l->b);
	run_until(l, a_lost, 1000);
	assert_false(status_of(&l->a).clock_known);
}

/* Who has not said hello is not listened to. */
static void peer__a_stop_is_not_believed_from_strangers(void **state)
{
	struct lab *l = *state;
	uint8_t text[PEER_HEADER_LEN];
	int fd;

	bring_up(l);
	fd = knock(l, &l->a.config.paths[0].local);
	run_for(l, 50);
	peer_msg_header(text, MSG_STOPPED, 0);
	assert_int_equal(send(fd, text, sizeof(text), MSG_NOSIGNAL), sizeof(text));
	run_for(l, 50);
	assert_false(status_of(&l->b).stopped_there);
	assert_true(both_met(l));
	close(fd);
}

static struct place *first_unjudged(const struct lab *l)
{
	for (unsigned i = 0; i < PLACES; i++)
		if (l->b.peer->unjudged->place[i].event != NULL)
			return &l->b.peer->unjudged->place[i];
	return NULL;
}

/* Whoever accepts and says nothing, or connects and says nothing, is given HELLO_WITHIN_MS and no more. The clock is
 * set back instead of waiting for it. */
static void peer__who_never_says_hello_is_given_up(void **state)
{
	struct lab *l = *state;
	struct conn *waits;
	int fd, silent = tcp_socket_bound(&l->b.config.paths[0].local, PORT);

	assert_true(silent >= 0);
	assert_int_equal(listen(silent, 4), 0);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_for(l, 50);
	waits = l->a.peer->pending[0];
	assert_non_null(waits); /* TCP stands, nobody speaks */
	on_tick(-1, 0, l->a.peer);
	assert_ptr_equal(l->a.peer->pending[0], waits);
	waits->opened_ns -= HELLO_WITHIN_MS * NS_PER_MS;
	on_tick(-1, 0, l->a.peer);
	assert_null(l->a.peer->pending[0]);
	assert_string_equal(status_of(&l->a).trouble, "no answer");
	close(silent);
	assert_int_equal(start_edge(l, &l->b), 0); /* the other edge comes: it is tried again */
	run_until(l, both_met, 5000);
	fd = knock(l, &l->a.config.paths[0].local);
	run_for(l, 50);
	assert_non_null(first_unjudged(l));
	first_unjudged(l)->until_ns -= PATIENCE_S * NS_PER_S;
	assert_int_equal(send(fd, "", 1, MSG_NOSIGNAL), 1);
	run_for(l, 50);
	assert_null(first_unjudged(l));
	assert_true(both_met(l));
	close(fd);
}

/* Say nothing and hold all places: nobody who speaks is kept out. */
static void peer__connections_that_say_nothing_displace_each_other_only(void **state)
{
	struct lab *l = *state;
	int fd[2 * PLACES];

	assert_int_equal(start_edge(l, &l->b), 0);
	for (unsigned i = 0; i < 2 * PLACES; i++) {
		fd[i] = knock(l, &l->a.config.paths[0].local);
		run_for(l, 1);
	}
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, both_met, 1000);
	assert_true(status_of(&l->b).refused_connections >= PLACES);
	for (unsigned i = 0; i < 2 * PLACES; i++)
		close(fd[i]);
}

/* A header that a hello may come behind. */
static int knock_with_hello(const struct lab *l)
{
	struct hello h = {.boot_id = 1};
	uint8_t text[PEER_HEADER_LEN + PEER_BODY_MAX];
	uint16_t len;
	int fd = knock(l, &l->a.config.paths[0].local);

	hello_from_config(&h, &l->a.config);
	len = hello_encode(&h, text + PEER_HEADER_LEN);
	peer_msg_header(text, MSG_HELLO, len);
	for (int tries = 0; send(fd, text, PEER_HEADER_LEN + len, MSG_NOSIGNAL) < 0 && tries < 100; tries++)
		usleep(1000);
	return fd;
}

static void peer__connections_without_a_proof_are_few(void **state)
{
	struct lab *l = *state;
	int fd[3 * ACCEPTS_PER_S];

	assert_int_equal(start_edge(l, &l->b), 0);
	for (unsigned i = 0; i < 3 * ACCEPTS_PER_S; i++) {
		fd[i] = knock_with_hello(l);
		run_for(l, 2);
	}
	run_for(l, 20);
	assert_in_range(status_of(&l->b).unproven_connections, 1, 2 * ACCEPTS_PER_S);
	assert_in_range(status_of(&l->b).refused_connections, ACCEPTS_PER_S, 3 * ACCEPTS_PER_S);
	for (unsigned i = 0; i < 3 * ACCEPTS_PER_S; i++)
		close(fd[i]);
}

/* A user without rights of the other edge's machine says hello to a link that is not sealed. */
static void peer__who_proves_nothing_does_not_displace_who_did(void **state)
{
	struct lab *l = *state;
	struct proxy_session before;
	struct conn *c;
	int fd;

	bring_up(l);
	l->b.peer->conn->rank = CONN_PROVEN; /* as if from a port below 1024 */
	before = l->b.last;
	c = l->b.peer->conn;
	fd = knock_with_hello(l);
	run_for(l, 100);
	assert_ptr_equal(l->b.peer->conn, c);
	assert_int_equal(l->b.sessions, 1);
	assert_int_equal(l->b.last.epoch_rx, before.epoch_rx);
	assert_true(both_met(l));
	close(fd);
	/* behind an address translation no edge proves anything, and it comes back as it was */
	c->rank = CONN_UNPROVEN;
	fd = knock_with_hello(l);
	run_for(l, 100);
	assert_int_not_equal(l->b.sessions, 1);
	close(fd);
}

static struct conn *pending_of(struct peer *p, enum conn_rank rank, uint64_t opened_ns)
{
	struct conn **place = pending_place(p, rank);

	if (place == NULL)
		return NULL;
	free(*place);
	*place = calloc(1, sizeof(**place));
	(*place)->rank = rank;
	(*place)->opened_ns = opened_ns;
	return *place;
}

static unsigned count_rank(const struct peer *p, enum conn_rank rank)
{
	unsigned n = 0;

	for (unsigned i = 0; i < PENDING_MAX; i++)
		n += p->pending[i] != NULL && p->pending[i]->rank == rank;
	return n;
}

static void pending_place__nobody_displaces_who_has_proven_more(void **state)
{
	static struct peer p;

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		assert_non_null(pending_of(&p, CONN_UNPROVEN, i));
	assert_int_equal(count_rank(&p, CONN_UNPROVEN), UNPROVEN_MAX);
	for (unsigned i = 0; i < PENDING_MAX; i++)
		assert_non_null(pending_of(&p, CONN_PROVEN, 100 + i));
	assert_int_equal(count_rank(&p, CONN_PROVEN), PENDING_MAX);
	assert_null(pending_of(&p, CONN_UNPROVEN, 200));
	assert_non_null(pending_of(&p, CONN_PROVEN, 200)); /* in the place of the oldest one */
	for (unsigned i = 0; i < PENDING_MAX; i++)
		assert_true(p.pending[i]->opened_ns > 100);
	for (unsigned i = 0; i < PENDING_MAX; i++)
		assert_non_null(pending_of(&p, CONN_AUTHENTICATED, 300 + i));
	assert_null(pending_of(&p, CONN_PROVEN, 400));
	for (unsigned i = 0; i < PENDING_MAX; i++)
		free(p.pending[i]);
}

static void peer__a_port_in_use_is_an_error(void **state)
{
	struct lab *l = *state;
	struct edge second = {.config = l->b.config};
	const struct peer_user user = {.session = on_test_session, .arg = &second};
	char err[CONFIG_ERR_MAX], holder[64];

	assert_int_equal(start_edge(l, &l->b), 0);
	assert_int_equal(peer_open(&second.config, l->base, &user, &second.peer, err), -EADDRINUSE);
	assert_non_null(strstr(err, "cannot listen on LocalAddress=127."));
	snprintf(holder, sizeof(holder), "TCP port %u is held by process %d (", PORT, (int)getpid());
	assert_non_null(strstr(err, holder));
}

/* --- sealed --- */

static char keys_dir[64];

/* `longreach keygen`, into keys_dir/SET. */
static void make_keys(const char *set)
{
	char dir[96];
	char *argv[] = {(char *)(uintptr_t) "keygen", (char *)(uintptr_t) "link1", (char *)(uintptr_t) "--dir", dir,
	                NULL};
	int out = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

	snprintf(dir, sizeof(dir), "%s/%s", keys_dir, set);
	fflush(stdout);
	dup2(nowhere, STDOUT_FILENO);
	optind = 0;
	assert_int_equal(keygen_main(4, argv), 0);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	close(out);
	close(nowhere);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	(void)st;
	(void)flag;
	(void)f;
	return remove(path);
}

static int make_key_sets(void **state)
{
	(void)state;
	snprintf(keys_dir, sizeof(keys_dir), "/tmp/lr-keys.XXXXXX");
	assert_non_null(mkdtemp(keys_dir));
	make_keys("right");
	make_keys("wrong");
	make_keys("next");
	return 0;
}

static int remove_key_sets(void **state)
{
	(void)state;
	return nftw(keys_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void use_keys(struct link_config *c, const char *set, char site)
{
	c->encryption = SEAL_AES_256_GCM;
	snprintf(c->certificate_file, sizeof(c->certificate_file), "%s/%s/%c/link1.crt", keys_dir, set, site);
	snprintf(c->key_file, sizeof(c->key_file), "%s/%s/%c/link1.key", keys_dir, set, site);
	snprintf(c->ca_file, sizeof(c->ca_file), "%s/%s/%c/link1.ca.crt", keys_dir, set, site);
	snprintf(c->peer_name, sizeof(c->peer_name), "%c.link1", site == 'a' ? 'b' : 'a');
}

static int set_up_sealed(void **state)
{
	struct lab *l;
	int r = set_up(state);

	l = *state;
	use_keys(&l->a.config, "right", 'a');
	use_keys(&l->b.config, "right", 'b');
	return r;
}

static bool both_in_session(const struct lab *l)
{
	return l->a.sessions > 0 && l->b.sessions > 0;
}

static void bring_up_sealed(struct lab *l)
{
	assert_int_equal(start_edge(l, &l->b), 0);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, both_in_session, 3000);
}

static void assert_same_secrets(const struct lab *l)
{
	assert_memory_equal(l->a.tx.bytes, l->b.rx.bytes, SEAL_SECRET_LEN);
	assert_memory_equal(l->b.tx.bytes, l->a.rx.bytes, SEAL_SECRET_LEN);
	assert_memory_not_equal(l->a.tx.bytes, l->b.tx.bytes, SEAL_SECRET_LEN);
	assert_int_equal(l->a.tx.epoch, l->a.last.epoch_tx);
	assert_int_equal(l->a.rx.epoch, l->a.last.epoch_rx);
	assert_int_equal(l->b.tx.epoch, l->b.last.epoch_tx);
}

static void sealed__both_have_the_same_secrets_one_per_direction(void **state)
{
	struct lab *l = *state;

	bring_up_sealed(l);
	assert_crosswise(l);
	assert_same_secrets(l);
	assert_int_equal(l->a.sessions, 1);
	assert_int_equal(l->b.sessions, 1);
}

static void sealed__a_stop_by_an_operator_is_told(void **state)
{
	struct lab *l = *state;

	bring_up_sealed(l);
	stop_is_told(l);
}

/* A TLS handshake that both edges' keys stand behind is known as such before it begins; an edge of an earlier version,
 * which sends no proof, is let in all the same. */
static void sealed__proof_comes_first(void **state)
{
	struct lab *l = *state;

	bring_up_sealed(l);
	assert_int_equal(status_of(&l->b).unproven_connections, 0);
	stop_edge(&l->a);
	assert_int_equal(start_edge(l, &l->a), 0);
	l->a.peer->tls->nproof_keys = 0;
	run_until(l, second_session, 5000);
	assert_int_equal(status_of(&l->b).unproven_connections, 1);
}

/* What is logged until said_since() is called. */
static int listen_to_log(void)
{
	int before = dup(STDERR_FILENO), to = memfd_create("log", MFD_CLOEXEC);

	assert_true(before >= 0 && to >= 0 && dup2(to, STDERR_FILENO) == STDERR_FILENO);
	close(to);
	return before;
}

static void said_since(int before, char *text, size_t cap)
{
	ssize_t n = pread(STDERR_FILENO, text, cap - 1, 0);

	assert_true(n >= 0);
	text[n] = '\0';
	assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
	close(before);
}

/* --- the proof's secret stays at the edges --- */

static X509 *read_cert(const char *path)
{
	FILE *f = fopen(path, "r");
	X509 *cert;

	assert_non_null(f);
	cert = PEM_read_X509(f, NULL, NULL, NULL);
	fclose(f);
	assert_non_null(cert);
	return cert;
}

static void assert_ca_not_shown(SSL *ssl, const struct link_config *c)
{
	const STACK_OF(X509) *shown = SSL_get_peer_cert_chain(ssl);
	X509 *ca = read_cert(c->ca_file);

	assert_true(sk_X509_num(shown) > 0 || SSL_get0_peer_certificate(ssl) != NULL);
	for (int i = 0; i < sk_X509_num(shown); i++)
		assert_int_not_equal(X509_cmp(sk_X509_value(shown, i), ca), 0);
	X509_free(ca);
}

/* Connects to edge b as a program without keys, which takes any certificate. */
static void assert_stranger_sees_no_ca(struct lab *l)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	int fd = knock(l, &l->a.config.paths[0].local), r = 0;

	assert_int_equal(SSL_set_fd(ssl, fd), 1);
	for (int i = 0; i < 50 && r != 1; i++) {
		r = SSL_connect(ssl);
		run_for(l, 10);
	}
	assert_int_equal(r, 1);
	assert_ca_not_shown(ssl, &l->b.config);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fd);
}

static SSL *ssl_of(const struct edge *e)
{
	return bufferevent_openssl_get_ssl(e->peer->conn->bev);
}

static void sealed__the_ca_is_not_sent(void **state)
{
	struct lab *l = *state;

	assert_int_equal(start_edge(l, &l->b), 0);
	assert_stranger_sees_no_ca(l);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, both_in_session, 3000);
	assert_ca_not_shown(ssl_of(&l->a), &l->a.config);
	assert_ca_not_shown(ssl_of(&l->b), &l->b.config);
	assert_int_equal(status_of(&l->b).unproven_connections, 1); /* the stranger's */
}

static void write_certs(char path[LINK_FILE_MAX], const char *name, X509 *const *cert, unsigned n)
{
	FILE *f;

	snprintf(path, LINK_FILE_MAX, "%s/%s", keys_dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(PEM_write_X509(f, cert[i]), 1);
	assert_int_equal(fchmod(fileno(f), 0600), 0);
	fclose(f);
}

/* Certificate= is a file with the CA behind the edge's own certificate. */
static void append_ca(struct link_config *c, const char *name)
{
	X509 *const certs[] = {read_cert(c->certificate_file), read_cert(c->ca_file)};

	write_certs(c->certificate_file, name, certs, 2);
	X509_free(certs[0]);
	X509_free(certs[1]);
}

static void sealed__the_ca_in_a_certificate_file_is_not_sent(void **state)
{
	struct lab *l = *state;
	char text[8192], want[LINK_FILE_MAX + 80];
	int before;

	append_ca(&l->a.config, "full-a");
	append_ca(&l->b.config, "full-b");
	before = listen_to_log();
	assert_int_equal(start_edge(l, &l->b), 0);
	said_since(before, text, sizeof(text));
	snprintf(want, sizeof(want), "Certificate=%s: contains a root certificate", l->b.config.certificate_file);
	assert_non_null(strstr(text, want));
	assert_stranger_sees_no_ca(l);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, both_in_session, 3000);
	assert_ca_not_shown(ssl_of(&l->b), &l->b.config);
}

/* A CA, as keygen makes them, that another one has signed; issuer NULL: by itself. */
static struct identity make_test_ca(const struct request *r, const char *name, const struct identity *issuer)
{
	struct identity ca = {.key = new_key(r), .cert = X509_new()};

	if (issuer == NULL)
		issuer = &ca;
	assert_true(fill_in(r, ca.cert, ca.key, name));
	assert_int_equal(X509_set_issuer_name(ca.cert, X509_get_subject_name(issuer->cert)), 1);
	assert_true(add_extension(ca.cert, issuer->cert, NID_basic_constraints, "critical,CA:TRUE"));
	assert_true(add_extension(ca.cert, issuer->cert, NID_key_usage, "critical,keyCertSign"));
	assert_true(add_extension(ca.cert, issuer->cert, NID_subject_key_identifier, "hash"));
	assert_true(sign(r, ca.cert, issuer->key));
	return ca;
}

static void use_identity(struct link_config *c, const struct request *r, const struct identity *ca, unsigned site,
                         X509 *root)
{
	char name[16];
	struct identity id;

	assert_true(make_edge(r, ca, site, &id));
	snprintf(name, sizeof(name), "chain%u.crt", site);
	write_certs(c->certificate_file, name, (X509 *const[]){id.cert, ca->cert}, 2);
	snprintf(name, sizeof(name), "root%u.crt", site);
	write_certs(c->ca_file, name, &root, 1);
	snprintf(c->key_file, sizeof(c->key_file), "%s/chain%u.key", keys_dir, site);
	unlink(c->key_file);
	assert_int_equal(write_key(c->key_file, id.key), EXIT_DONE);
	forget(&id);
}

/* An intermediate CA is sent, proves nothing where it is in CA=, and the proof is that of the root. */
static void sealed__intermediate_ca(void **state)
{
	struct request r = {.link = "link1", .site = {"a", "b"}, .days = 10};
	struct identity other = make_test_ca(&r, "other root", NULL);
	struct identity root = make_test_ca(&r, "root", NULL), middle = make_test_ca(&r, "middle", &root);
	struct lab *l = *state;

	use_identity(&l->a.config, &r, &middle, 0, root.cert);
	use_identity(&l->b.config, &r, &middle, 1, root.cert);
	write_certs(l->a.config.ca_file, "roots.crt", (X509 *const[]){other.cert, middle.cert, root.cert}, 3);
	bring_up_sealed(l);
	assert_int_equal(sk_X509_num(SSL_get_peer_cert_chain(ssl_of(&l->a))), 2);
	assert_int_equal(status_of(&l->b).unproven_connections, 0);
	assert_int_equal(l->a.peer->tls->nproof_keys, 2);
	assert_int_equal(tls_expiry(l->b.peer->tls).ca_s, not_after(root.cert));
	forget(&middle);
	forget(&root);
	forget(&other);
}

static void sealed__certificate_that_its_own_key_has_signed(void **state)
{
	struct request r = {.link = "link1", .days = 10};
	struct identity own = make_test_ca(&r, "a", NULL);
	struct lab *l = *state;
	struct link_config c = l->a.config;
	char err[CONFIG_ERR_MAX];
	struct tls *t;

	write_certs(c.certificate_file, "own.crt", &own.cert, 1);
	snprintf(c.key_file, sizeof(c.key_file), "%s/own.key", keys_dir);
	assert_int_equal(write_key(c.key_file, own.key), EXIT_DONE);
	assert_int_equal(tls_open(&c, &t, err), -EINVAL);
	assert_non_null(
	    strstr(err, "own.crt: is signed by its own key: expected one that the CA of both edges has signed"));
	forget(&own);
}

static void sealed__too_many_proven_connections_are_said(void **state)
{
	struct lab *l = *state;
	char text[8192];
	int before;

	bring_up_sealed(l);
	l->b.peer->accepts_proven.burst = 1;
	l->b.peer->accepts_proven.window_ns = 60 * NS_PER_S;
	before = listen_to_log();
	for (int i = 0; i < 3; i++) {
		stop_edge(&l->a);
		assert_int_equal(start_edge(l, &l->a), 0);
		run_for(l, 50);
	}
	said_since(before, text, sizeof(text));
	assert_true(status_of(&l->b).refused_connections > 0);
	assert_non_null(strstr(text, "refused_connections"));
	assert_null(strstr(strstr(text, "refused_connections") + 1, "refused_connections"));
}

static void sealed__every_session_has_new_secrets(void **state)
{
	struct lab *l = *state;
	struct seal_secret a, b;

	bring_up_sealed(l);
	a = l->a.tx;
	b = l->b.tx;
	l->a.config.ack_mode = ACK_MODE_HOST;
	peer_reconfigure(l->a.peer, &l->a.config);
	run_until(l, second_session, 2000);
	assert_crosswise(l);
	assert_same_secrets(l);
	assert_memory_not_equal(a.bytes, l->a.tx.bytes, SEAL_SECRET_LEN);
	assert_memory_not_equal(b.bytes, l->b.tx.bytes, SEAL_SECRET_LEN);
	stop_edge(&l->b);
	l->b.sessions = 1;
	l->a.sessions = 1;
	a = l->a.tx;
	assert_int_equal(start_edge(l, &l->b), 0);
	run_until(l, second_session, 5000);
	assert_same_secrets(l);
	assert_memory_not_equal(a.bytes, l->a.tx.bytes, SEAL_SECRET_LEN);
}

static void sealed__broken_connection_leaves_the_session(void **state)
{
	struct lab *l = *state;
	unsigned offers;

	bring_up_sealed(l);
	run_for(l, 20);
	offers = l->a.offers;
	peer_conn_fail(l->b.peer->conn, "test");
	run_until(l, a_lost, 1000);
	run_until(l, both_met, 3000);
	run_for(l, 50);
	assert_int_equal(l->a.sessions, 1);
	assert_int_equal(l->b.sessions, 1);
	assert_int_equal(l->a.offers, offers);
}

static bool a_was_offered(const struct lab *l)
{
	return l->a.offers > 0 && l->b.sessions == 0 && l->a.sessions == 1;
}

static bool b_was_offered(const struct lab *l)
{
	return l->b.offers > 0 && l->a.sessions == 0 && l->b.sessions == 1;
}

/* The connection breaks when one edge has its session and the other one's key is not taken yet. */
static void sealed__offer_is_made_again_on_the_next_connection(void **state)
{
	struct lab *l = *state;

	l->a.slow_keys = true;
	assert_int_equal(start_edge(l, &l->b), 0);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, a_was_offered, 3000);
	run_for(l, 30);
	assert_int_equal(l->b.sessions, 0); /* nothing is sent that cannot be opened */
	peer_conn_fail(l->b.peer->conn, "test");
	l->a.slow_keys = false;
	run_until(l, both_in_session, 4000);
	assert_crosswise(l);
	assert_same_secrets(l);
	assert_int_equal(l->a.sessions, 1);
}

/* Edge a has had edge b's hello, but the session never began: edge a still tells the next start that another buffer was
 * known. */
static void sealed__a_lost_buffer_is_heard_of_after_a_hello_without_a_session(void **state)
{
	struct lab *l = *state;

	l->b.life = (struct arena_life){.epoch = 99, .former = FORMER_LOST};
	l->a.life.peer_epoch = 98;
	l->b.slow_keys = true;
	assert_int_equal(start_edge(l, &l->b), 0);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, both_met, 3000);
	run_for(l, 30);
	assert_int_equal(l->a.sessions, 0); /* its core does not know of the loss, but it has had the hello */
	l->b.sessions = 0;
	stop_edge(&l->b);
	l->b.slow_keys = false;
	assert_int_equal(start_edge(l, &l->b), 0);
	run_until(l, both_in_session, 5000);
	assert_true(l->b.last.arena_lost);
	assert_false(l->a.last.peer_kept_arena);
}

/* Workers of this edge could not have the keys, over a connection that stays: the same ones are made again. */
static void sealed__keys_that_workers_did_not_take_are_made_again(void **state)
{
	struct lab *l = *state;
	struct seal_secret first;

	l->a.slow_keys = true;
	assert_int_equal(start_edge(l, &l->b), 0);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, a_was_offered, 3000);
	run_for(l, 30);
	assert_int_equal(l->b.sessions, 0);
	first = l->a.rx;
	l->a.slow_keys = false;
	assert_true(peer_take_keys_again(l->a.peer));
	assert_memory_equal(first.bytes, l->a.rx.bytes, SEAL_SECRET_LEN);
	assert_int_equal(first.epoch, l->a.rx.epoch);
	run_until(l, both_in_session, 200);
	assert_crosswise(l);
	assert_same_secrets(l);
	assert_false(peer_take_keys_again(l->a.peer)); /* nothing waits */
	peer_conn_fail(l->b.peer->conn, "test");
	run_until(l, a_lost, 1000);
	assert_false(peer_take_keys_again(l->a.peer));
}

static bool b_was_offered_twice(const struct lab *l)
{
	return l->b.offers == 2;
}

/* The other edge does not answer an offer, as one of the version before that had no memory: it is offered again, over the
 * connection that there is, and meanwhile status tells. The clock is set back instead of waiting. */
static void sealed__offer_that_is_not_answered_is_made_again(void **state)
{
	struct lab *l = *state;

	l->b.slow_keys = true;
	assert_int_equal(start_edge(l, &l->b), 0);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, b_was_offered, 3000);
	run_for(l, 20);
	assert_int_equal(l->a.sessions, 0);
	on_tick(-1, 0, l->a.peer);
	run_for(l, 20);
	assert_int_equal(l->b.offers, 1); /* it has a while */
	l->a.peer->offered_ns -= OFFER_WITHIN_MS * NS_PER_MS;
	l->a.peer->due_since_ns -= OFFER_WITHIN_MS * NS_PER_MS;
	assert_true(status_of(&l->a).offer_age_ns >= OFFER_WITHIN_MS * NS_PER_MS);
	on_tick(-1, 0, l->a.peer);
	run_until(l, b_was_offered_twice, 200);
	assert_true(status_of(&l->a).offer_age_ns >= OFFER_WITHIN_MS * NS_PER_MS); /* the second one is no better */
	l->b.slow_keys = false;
	l->a.peer->offered_ns -= OFFER_WITHIN_MS * NS_PER_MS;
	on_tick(-1, 0, l->a.peer);
	run_until(l, both_in_session, 200);
	assert_crosswise(l);
	assert_same_secrets(l);
	assert_int_equal(status_of(&l->a).offer_age_ns, 0);
	assert_true(both_met(l));
}

static bool a_disagrees(const struct lab *l)
{
	return l->a.disagrees;
}

/* The other edge changes its mind, and the keys of the session that says so are never taken. */
static void sealed__disagreement_is_told_without_a_session(void **state)
{
	struct lab *l = *state;

	bring_up_sealed(l);
	run_for(l, 20);
	assert_false(l->a.disagrees || l->b.disagrees);
	l->a.slow_keys = l->b.slow_keys = true;
	l->b.config.ack_mode = ACK_MODE_HOST;
	peer_reconfigure(l->b.peer, &l->b.config);
	assert_true(l->b.disagrees);
	run_until(l, a_disagrees, 500);
	assert_int_equal(l->a.sessions + l->b.sessions, 2);
	l->a.slow_keys = l->b.slow_keys = false;
	l->b.config.ack_mode = ACK_MODE_NEAR;
	peer_reconfigure(l->b.peer, &l->b.config);
	assert_false(l->b.disagrees);
	run_for(l, 200);
	assert_false(l->a.disagrees);
	assert_crosswise(l);
	assert_false(l->a.last.mismatch);
}

static bool b_in_trouble(const struct lab *l)
{
	return status_of(&l->b).trouble[0] != '\0';
}

static bool a_in_trouble(const struct lab *l)
{
	return status_of(&l->a).trouble[0] != '\0';
}

static void expect_trouble(struct lab *l, const char *at_a, const char *at_b)
{
	assert_int_equal(start_edge(l, &l->b), 0);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, a_in_trouble, 3000);
	run_until(l, b_in_trouble, 3000);
	run_for(l, 300);
	if (strstr(status_of(&l->a).trouble, at_a) == NULL)
		assert_string_equal(status_of(&l->a).trouble, at_a);
	if (strstr(status_of(&l->b).trouble, at_b) == NULL)
		assert_string_equal(status_of(&l->b).trouble, at_b);
	assert_int_equal(l->a.sessions + l->b.sessions, 0);
	assert_false(status_of(&l->a).met);
	assert_false(status_of(&l->b).met);
}

static void sealed__wrong_ca(void **state)
{
	struct lab *l = *state;

	use_keys(&l->a.config, "wrong", 'a');
	expect_trouble(
	    l, "the other edge's certificate is not signed by CA=", "the other edge refuses this edge's certificate");
}

/* Only the listening edge can see it: a's CA file is the right one, its certificate is not. */
static void sealed__wrong_ca_of_the_connecting_edge(void **state)
{
	struct lab *l = *state;

	use_keys(&l->a.config, "wrong", 'a');
	snprintf(l->a.config.ca_file, sizeof(l->a.config.ca_file), "%s/right/a/link1.ca.crt", keys_dir);
	expect_trouble(l, "the other edge refuses this edge's certificate: its CA= did not sign it",
	               "the other edge's certificate is not signed by CA=");
}

static void sealed__wrong_name(void **state)
{
	struct lab *l = *state;

	snprintf(l->b.config.peer_name, sizeof(l->b.config.peer_name), "c.link1");
	expect_trouble(l, "the other edge refuses this edge's certificate: its PeerName= is another name",
	               "the other edge's certificate is for a.link1: PeerName=c.link1 is expected");
}

/* A certificate of the right CA, but of the other role: an edge cannot be led to talk to itself. */
static void sealed__own_name(void **state)
{
	struct lab *l = *state;

	use_keys(&l->b.config, "right", 'a');
	expect_trouble(l, "the other edge's certificate is for a.link1: PeerName=b.link1 is expected", "");
}

static void sealed__unsealed_peer(void **state)
{
	struct lab *l = *state;

	l->b.config.encryption = SEAL_NONE;
	expect_trouble(l,
	               "closed by the other edge before it answered: read the other edge's log, and check that "
	               "Encryption= there is not none",
	               "control protocol");
}

static void sealed__encryption_differs(void **state)
{
	struct lab *l = *state;

	l->b.config.encryption = SEAL_CHACHA20_POLY1305;
	assert_int_equal(start_edge(l, &l->b), 0);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, both_met, 3000);
	assert_int_equal(status_of(&l->a).verdict, HELLO_REFUSED);
	assert_string_equal(status_of(&l->a).text, "Encryption= is aes-256-gcm here and chacha20-poly1305 there");
	assert_int_equal(l->a.sessions + l->b.sessions, 0);
}

static void use_psk_file(struct link_config *c, const char *name, const char *hex, unsigned mode)
{
	int fd;

	c->encryption = SEAL_AES_128_GCM;
	c->certificate_file[0] = c->key_file[0] = c->ca_file[0] = c->peer_name[0] = '\0';
	snprintf(c->psk_file, sizeof(c->psk_file), "%s/%s", keys_dir, name);
	fd = open(c->psk_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, hex, strlen(hex)), strlen(hex));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

#define PSK_A "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define PSK_B "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e20"

static void sealed__pre_shared_key(void **state)
{
	struct lab *l = *state;

	use_psk_file(&l->a.config, "psk-a", PSK_A "\n", 0600);
	use_psk_file(&l->b.config, "psk-b", PSK_A "\n", 0600);
	bring_up_sealed(l);
	assert_same_secrets(l);
}

static void sealed__pre_shared_keys_differ(void **state)
{
	struct lab *l = *state;

	use_psk_file(&l->a.config, "psk-a", PSK_A "\n", 0600);
	use_psk_file(&l->b.config, "psk-b", PSK_B "\n", 0600);
	expect_trouble(l, "its PSKFile= has another", "the other end has another pre-shared key in its PSKFile=");
}

static void sealed__pre_shared_key_against_certificates(void **state)
{
	struct lab *l = *state;

	use_psk_file(&l->a.config, "psk-a", PSK_A "\n", 0600);
	expect_trouble(l, "", "");
}

/* Whoever is on the line can show a certificate: it does not stand in for the key. */
static void sealed__pre_shared_key_is_not_replaced_by_a_certificate(void **state)
{
	struct lab *l = *state;

	use_psk_file(&l->a.config, "psk-a", PSK_A "\n", 0600);
	assert_int_equal(start_edge(l, &l->b), 0);
	SSL_CTX_set_verify(l->b.peer->tls->ctx, SSL_VERIFY_NONE, NULL); /* takes anybody */
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, a_in_trouble, 3000);
	assert_string_equal(
	    status_of(&l->a).trouble,
	    "the other end shows a certificate, and this edge has a PSKFile=: expected the same at both edges");
	assert_int_equal(l->a.sessions + l->b.sessions, 0);
}

/* --- keys that change while a session runs --- */

/* As `cp` of a new set over the one in use, and a reload. */
static void reload_keys(struct edge *e, const char *set, char site)
{
	use_keys(&e->config, set, site);
	peer_reread_keys(e->peer, &e->config);
}

static bool both_reauthenticated(const struct lab *l)
{
	return l->a.sessions >= 2 && l->b.sessions >= 2 && status_of(&l->a).reauth == REAUTH_NONE &&
	       status_of(&l->b).reauth == REAUTH_NONE;
}

static bool b_is_asked(const struct lab *l)
{
	return status_of(&l->b).reauth == REAUTH_ASKED;
}

static bool a_is_asked(const struct lab *l)
{
	return status_of(&l->a).reauth == REAUTH_ASKED;
}

static bool second_came_to_nothing(const struct lab *l)
{
	return status_of(&l->a).reauth_trouble[0] != '\0' && status_of(&l->b).reauth_trouble[0] != '\0';
}

/* Whoever knocks beside a connection in use has nothing to do with changed keys. */
static void fail_beside__says_whether_keys_or_a_stranger_are_to_be_looked_at(void **state)
{
	struct lab *l = *state;
	char text[8192];
	int before;

	bring_up_sealed(l);
	run_for(l, 20);
	before = listen_to_log();
	fail_beside(l->b.peer, "it is garbage");
	said_since(before, text, sizeof(text));
	assert_non_null(
	    strstr(text, "a second control connection from the other edge's address failed: it is garbage; the "
	                 "connection in use goes on: if this repeats, find out which program there connects to Port="));
	reload_keys(&l->b, "next", 'b');
	before = listen_to_log();
	fail_beside(l->b.peer, "its certificate is another one");
	said_since(before, text, sizeof(text));
	assert_non_null(
	    strstr(text, "the second control connection, by which the edges prove themselves under the changed keys, "
	                 "failed: its certificate is another one; the first one goes on until ReauthWithin= has "
	                 "passed: give both edges keys of one set, and run `longreach reload` at both"));
}

static struct edge *edge_of(struct lab *l, char site)
{
	return site == 'a' ? &l->a : &l->b;
}

/* A whole new set, CA and all, at one edge and then at the other: the old session goes on in between. */
static void rotate(struct lab *l, char first, bool (*other_is_asked)(const struct lab *l))
{
	char second = first == 'a' ? 'b' : 'a';
	uint32_t epoch;
	struct seal_secret tx;

	bring_up_sealed(l);
	run_for(l, 20);
	tx = l->a.tx;
	epoch = l->a.last.epoch_tx;
	reload_keys(edge_of(l, first), "next", first);
	run_until(l, other_is_asked, 1000);
	run_until(l, second_came_to_nothing, 2000);
	assert_int_equal(status_of(edge_of(l, first)).reauth, REAUTH_DUE);
	on_tick(-1, 0, l->a.peer);
	on_tick(-1, 0, l->b.peer);
	assert_true(second_came_to_nothing(l)); /* what is wrong stays said until it is put right */
	assert_true(both_met(l)); /* never without a connection */
	assert_int_equal(l->a.sessions, 1);
	assert_int_equal(l->b.sessions, 1);
	reload_keys(edge_of(l, second), "next", second);
	run_until(l, both_reauthenticated, 2500);
	assert_true(both_met(l));
	assert_crosswise(l);
	assert_same_secrets(l);
	assert_int_not_equal(l->a.last.epoch_tx, epoch);
	assert_memory_not_equal(tx.bytes, l->a.tx.bytes, SEAL_SECRET_LEN);
	assert_memory_equal(l->a.peer->conn->keys, tls_fingerprint(l->a.peer->tls), TLS_FINGERPRINT_LEN);
	assert_memory_equal(l->b.peer->conn->keys, tls_fingerprint(l->b.peer->tls), TLS_FINGERPRINT_LEN);
}

static void reauth__the_connecting_edge_has_new_keys_first(void **state)
{
	rotate(*state, 'a', b_is_asked);
}

static void reauth__the_listening_edge_has_new_keys_first(void **state)
{
	rotate(*state, 'b', a_is_asked);
}

/* Files that say the same are no reason for anything. */
static void reauth__the_same_keys_leave_the_session(void **state)
{
	struct lab *l = *state;

	bring_up_sealed(l);
	assert_false(peer_reread_keys(l->a.peer, &l->a.config));
	assert_false(peer_reread_keys(l->b.peer, &l->b.config));
	run_for(l, 300);
	assert_true(both_met(l));
	assert_int_equal(l->a.sessions + l->b.sessions, 2);
	assert_int_equal(status_of(&l->a).reauth, REAUTH_NONE);
}

/* Keys that turn out wrong are put right before the time is over. */
static void reauth__the_former_keys_are_taken_back(void **state)
{
	struct lab *l = *state;

	bring_up_sealed(l);
	reload_keys(&l->b, "wrong", 'b');
	assert_int_equal(status_of(&l->b).reauth, REAUTH_DUE);
	run_for(l, 300);
	reload_keys(&l->b, "right", 'b');
	assert_int_equal(status_of(&l->b).reauth, REAUTH_NONE);
	run_for(l, 1500);
	assert_true(both_met(l));
	assert_int_equal(l->a.sessions + l->b.sessions, 2);
}

static bool b_gave_up(const struct lab *l)
{
	return status_of(&l->b).reauth == REAUTH_FAILED;
}

static bool a_gave_up(const struct lab *l)
{
	return status_of(&l->a).reauth == REAUTH_FAILED;
}

/* The other edge never gets the new keys. The clock is set back instead of waiting. */
static void give_up(struct lab *l, char site, bool (*gave_up)(const struct lab *l))
{
	struct edge *e = edge_of(l, site);
	struct proxy_session before;
	struct peer_status s;
	struct seal_secret tx;

	bring_up_sealed(l);
	run_for(l, 20);
	before = e->last;
	tx = e->tx;
	reload_keys(e, "next", site);
	run_until(l, second_came_to_nothing, 2500);
	e->peer->reauth_since_ns -= 299 * NS_PER_S;
	assert_int_equal(e->sessions, 1);
	run_until(l, gave_up, 4000);
	s = status_of(e);
	assert_false(s.met);
	assert_false(s.connected);
	assert_false(s.in_session);
	assert_non_null(
	    strstr(s.trouble, "did not prove itself under the changed keys within ReauthWithin=: the other edge"));
	/* what runs in the workers is a session of nobody */
	assert_int_equal(e->sessions, 2);
	assert_true(e->last.mismatch);
	assert_int_not_equal(e->last.epoch_rx, before.epoch_rx);
	assert_int_not_equal(e->last.epoch_tx, before.epoch_tx);
	assert_int_equal(e->last.peer_boot_id, before.peer_boot_id); /* it may come back */
	assert_memory_not_equal(e->tx.bytes, tx.bytes, SEAL_SECRET_LEN);
	run_for(l, 500);
	assert_false(both_met(l));
	assert_int_equal(e->sessions, 2);
	reload_keys(edge_of(l, site == 'a' ? 'b' : 'a'), "next", site == 'a' ? 'b' : 'a');
	e->sessions = 1; /* the void one does not count */
	run_until(l, both_reauthenticated, 3000);
	assert_crosswise(l);
	assert_same_secrets(l);
	assert_false(e->last.mismatch);
	assert_int_equal(e->last.peer_boot_id, before.peer_boot_id);
}

/* A worker did not hear that the session has ended, and would believe the former keys for ever. */
static void reauth__the_end_of_a_session_is_said_until_all_workers_heard_it(void **state)
{
	struct lab *l = *state;
	struct proxy_session first;

	bring_up_sealed(l);
	run_for(l, 20);
	peer_stop(l->a.peer);
	l->a.peer = NULL;
	run_for(l, 20);
	reload_keys(&l->b, "next", 'b');
	l->b.peer->reauth_since_ns -= 300 * NS_PER_S;
	run_until(l, b_gave_up, 2500);
	assert_int_equal(l->b.sessions, 2);
	first = l->b.last;
	peer_renew(l->b.peer);
	assert_int_equal(l->b.sessions, 3);
	assert_true(l->b.last.mismatch);
	assert_int_not_equal(l->b.last.epoch_rx, first.epoch_rx);
	assert_false(status_of(&l->b).in_session);
}

static void reauth__the_connecting_edge_ends_the_session(void **state)
{
	give_up(*state, 'a', a_gave_up);
}

static void reauth__the_listening_edge_ends_the_session(void **state)
{
	give_up(*state, 'b', b_gave_up);
}

/* Without a control connection, too: a line that is cut does not make keys last longer. */
static void reauth__the_session_ends_without_a_connection(void **state)
{
	struct lab *l = *state;

	bring_up_sealed(l);
	stop_edge(&l->a);
	run_for(l, 20);
	assert_false(status_of(&l->b).connected);
	reload_keys(&l->b, "next", 'b');
	assert_int_equal(status_of(&l->b).reauth, REAUTH_DUE);
	l->b.peer->reauth_since_ns -= 300 * NS_PER_S;
	run_until(l, b_gave_up, 2500);
	assert_true(l->b.last.mismatch);
}

/* The holder of the former keys has a connection and says hello, but answers the offer of a key only when the time is
 * over. */
static void offer_is_answered_late(struct lab *l)
{
	if (l->a.peer->reauth_since_ns != 0) /* the clock is set back instead of waiting */
		l->a.peer->reauth_since_ns -= 300 * NS_PER_S;
	on_tick(-1, 0, l->a.peer);
	peer_keys_taken(l->b.peer, l->b.peer->taking_serial);
	run_for(l, 100);
	assert_int_equal(l->a.sessions, 0);
	assert_false(status_of(&l->a).connected);
	assert_false(status_of(&l->a).met);
	assert_int_equal(status_of(&l->a).reauth, REAUTH_FAILED);
	assert_non_null(
	    strstr(status_of(&l->a).trouble, "did not prove itself under the changed keys within ReauthWithin="));
}

static void connect_without_a_session_at_a(struct lab *l)
{
	l->b.slow_keys = true;
	assert_int_equal(start_edge(l, &l->b), 0);
	assert_int_equal(start_edge(l, &l->a), 0);
	run_until(l, b_was_offered, 3000);
	run_for(l, 20);
	assert_true(both_met(l));
}

static void reauth__no_session_begins_under_former_keys_when_the_time_is_over(void **state)
{
	struct lab *l = *state;

	connect_without_a_session_at_a(l);
	reload_keys(&l->a, "next", 'a');
	offer_is_answered_late(l);
	l->b.slow_keys = false;
	reload_keys(&l->b, "next", 'b');
	l->b.sessions = 0;
	run_until(l, both_in_session, 3000);
	assert_crosswise(l);
	assert_same_secrets(l);
	assert_int_equal(status_of(&l->a).reauth, REAUTH_NONE);
}

static bool a_is_not_due(const struct lab *l)
{
	return status_of(&l->a).reauth == REAUTH_NONE;
}

/* A connection of the keys in force, or none, ends the wait: nothing is left that the former keys would bound. */
static void reauth__without_a_session_the_clock_is_the_connections(void **state)
{
	struct lab *l = *state;

	connect_without_a_session_at_a(l);
	reload_keys(&l->a, "next", 'a');
	assert_int_equal(status_of(&l->a).reauth, REAUTH_DUE);
	assert_true(status_of(&l->a).reauth_left_ns > 290 * NS_PER_S);
	reload_keys(&l->b, "next", 'b');
	run_until(l, a_is_not_due, 2500);
	assert_true(both_met(l));
	assert_int_equal(l->a.sessions, 0);
	reload_keys(&l->a, "right", 'a');
	assert_int_equal(status_of(&l->a).reauth, REAUTH_DUE);
	stop_edge(&l->b);
	run_until(l, a_lost, 1000);
	run_until(l, a_is_not_due, 2500);
	assert_int_equal(l->a.sessions, 0);
}

/* Keys that were changed and taken back leave a session that is proven, on a connection that is not: it alone is closed. */
static void reauth__a_proven_session_outlives_the_connection(void **state)
{
	struct lab *l = *state;
	uint32_t epoch;

	bring_up_sealed(l);
	run_for(l, 20);
	epoch = l->a.last.epoch_tx;
	memset(l->a.peer->conn->keys, 0, TLS_FINGERPRINT_LEN);
	l->a.peer->connects = false; /* no second connection */
	on_tick(-1, 0, l->a.peer);
	assert_int_equal(status_of(&l->a).reauth, REAUTH_DUE);
	l->a.peer->reauth_since_ns -= 300 * NS_PER_S;
	on_tick(-1, 0, l->a.peer);
	assert_false(status_of(&l->a).connected);
	assert_true(status_of(&l->a).in_session);
	assert_int_equal(status_of(&l->a).reauth, REAUTH_NONE);
	l->a.peer->connects = true;
	peer_retry(l->a.peer);
	run_until(l, both_met, 3000);
	run_for(l, 50);
	assert_int_equal(l->a.sessions, 1);
	assert_int_equal(l->a.last.epoch_tx, epoch);
}

static void reauth__pre_shared_keys(void **state)
{
	struct lab *l = *state;

	use_psk_file(&l->a.config, "psk-a", PSK_A "\n", 0600);
	use_psk_file(&l->b.config, "psk-b", PSK_A "\n", 0600);
	bring_up_sealed(l);
	use_psk_file(&l->b.config, "psk-b", PSK_B "\n", 0600);
	assert_true(peer_reread_keys(l->b.peer, &l->b.config));
	run_until(l, second_came_to_nothing, 2500);
	assert_true(both_met(l));
	use_psk_file(&l->a.config, "psk-a", PSK_B "\n", 0600);
	assert_true(peer_reread_keys(l->a.peer, &l->a.config));
	run_until(l, both_reauthenticated, 2500);
	assert_same_secrets(l);
}

/* PeerName= is one of the things that decide who is let in. */
static void reauth__another_name_of_the_other_edge(void **state)
{
	struct lab *l = *state;

	bring_up_sealed(l);
	snprintf(l->b.config.peer_name, sizeof(l->b.config.peer_name), "c.link1");
	peer_reconfigure(l->b.peer, &l->b.config);
	run_until(l, second_came_to_nothing, 2500);
	assert_true(both_met(l));
	assert_int_equal(status_of(&l->b).reauth, REAUTH_DUE);
	assert_string_equal(status_of(&l->b).reauth_trouble,
	                    "the other edge's certificate is for a.link1: PeerName=c.link1 is expected");
}

static void expect_open_error(const struct link_config *c, const char *want)
{
	char err[CONFIG_ERR_MAX] = "";
	struct tls *t;

	assert_int_equal(tls_open(c, &t, err), -EINVAL);
	if (strstr(err, want) == NULL)
		assert_string_equal(err, want);
}

static void tls_open__says_what_is_wrong_with_files(void **state)
{
	struct lab *l = *state;
	struct link_config c = l->a.config;

	snprintf(c.ca_file, sizeof(c.ca_file), "/nowhere");
	expect_open_error(&c, "CA=/nowhere: cannot be read: No such file or directory");
	c = l->a.config;
	snprintf(c.key_file, sizeof(c.key_file), "%s", l->b.config.key_file);
	expect_open_error(&c, "key values mismatch");
	c = l->a.config;
	assert_int_equal(chmod(c.key_file, 0640), 0);
	expect_open_error(&c, "others than its owner may use it (mode 640): expected 600");
	assert_int_equal(chmod(c.key_file, 0600), 0);
	use_psk_file(&c, "psk-bad", "0011", 0600);
	expect_open_error(&c, "expected 32 to 64 random bytes in hexadecimal");
	use_psk_file(&c, "psk-bad", PSK_A "zz", 0600);
	expect_open_error(&c, "expected 32 to 64 random bytes in hexadecimal");
	use_psk_file(&c, "psk-bad", PSK_A, 0644);
	expect_open_error(&c, "others than its owner may use it (mode 644): expected 600");
}

#define SERVICE_UID 65534

static void give_to(const char *path, uid_t uid)
{
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(chown(path, uid, (gid_t)-1), 0);
	assert_int_equal(seteuid(SERVICE_UID), 0);
}

static void let_pass(const char *file)
{
	char dir[LINK_FILE_MAX];

	for (snprintf(dir, sizeof(dir), "%s", file); strcmp(dir, keys_dir) != 0;) {
		*strrchr(dir, '/') = '\0';
		assert_int_equal(chmod(dir, 0711), 0);
	}
}

/* Root's files of `longreach keygen`, as a copy by root leaves them. */
static void tls_open__says_whose_the_files_should_be(void **state)
{
	struct lab *l = *state;
	const struct link_config *c = &l->a.config;

	if (geteuid() != 0)
		skip();
	let_pass(c->key_file);
	assert_int_equal(chmod(c->certificate_file, 0600), 0);
	give_to(c->key_file, SERVICE_UID);
	expect_open_error(
	    c, "ca.crt: user 65534, whom longreachd runs as, cannot read it: Permission denied: `chown 65534` it");
	give_to(c->ca_file, SERVICE_UID);
	expect_open_error(
	    c, "link1.crt: user 65534, whom longreachd runs as, cannot read it: Permission denied: `chown 65534` it");
	give_to(c->key_file, 0);
	give_to(c->ca_file, 0);
	assert_int_equal(seteuid(0), 0);
}

/* A client that offers no more than TLS 1.2, from the right address and with the right keys. */
static void sealed__older_tls(void **state)
{
	struct lab *l = *state;
	struct tls *t;
	char err[CONFIG_ERR_MAX];
	SSL *ssl;
	int fd, r = -1;

	assert_int_equal(start_edge(l, &l->b), 0);
	fd = knock(l, &l->a.config.paths[0].local);
	assert_int_equal(tls_open(&l->a.config, &t, err), 0);
	ssl = tls_connection(t);
	SSL_set_min_proto_version(ssl, TLS1_2_VERSION);
	SSL_set_max_proto_version(ssl, TLS1_2_VERSION);
	SSL_set_fd(ssl, fd);
	for (int i = 0; i < 20 && r != 0; i++) {
		ERR_clear_error();
		r = SSL_connect(ssl);
		assert_int_not_equal(r, 1);
		if (SSL_get_error(ssl, r) == SSL_ERROR_SSL)
			break;
		run_for(l, 20);
	}
	assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_TLSV1_ALERT_PROTOCOL_VERSION);
	run_for(l, 20);
	assert_string_equal(status_of(&l->b).trouble, "the other end speaks an older TLS only: 1.3 is expected");
	SSL_free(ssl);
	tls_close(t);
	close(fd);
}

/* Whoever can connect chooses the names in what he shows, and a terminal shows why he was refused. */
static void names_of__are_harmless_to_a_terminal(void **state)
{
	X509 *cert = X509_new();
	GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
	GENERAL_NAME *name = GENERAL_NAME_new();
	ASN1_IA5STRING *text = ASN1_IA5STRING_new();
	char out[96];

	(void)state;
	assert_int_equal(ASN1_STRING_set(text, "\x1b[2Jup\x9b", -1), 1);
	GENERAL_NAME_set0_value(name, GEN_DNS, text);
	sk_GENERAL_NAME_push(names, name);
	assert_int_equal(X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, 0), 1);
	names_of(cert, out, sizeof(out));
	assert_string_equal(out, "?[2Jup?");
	GENERAL_NAMES_free(names);
	X509_free(cert);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(peer__both_begin_one_session_with_crosswise_epochs),
	    TEST(peer__the_connecting_edge_may_be_first),
	    TEST(peer__broken_connection_leaves_the_session),
	    TEST(peer__restarted_edge_begins_a_new_session),
	    TEST(peer__a_lost_buffer_is_heard_of_after_restarts_of_both),
	    TEST(peer__renewed_session_is_another_one_at_both_edges),
	    TEST(peer__a_stop_by_an_operator_is_told),
	    TEST(peer__clocks_are_compared),
	    TEST(peer__a_stop_is_not_believed_from_strangers),
	    TEST(peer__half_open_connection_gives_way),
	    TEST(peer__reload_begins_a_session_with_mismatch_and_back),
	    TEST(peer__lanes_that_differ_mean_no_session),
	    TEST(peer__strangers_are_refused),
	    TEST(peer__garbage_does_not_disturb_the_session),
	    TEST(peer__who_never_says_hello_is_given_up),
	    TEST(peer__connections_that_say_nothing_displace_each_other_only),
	    TEST(peer__connections_without_a_proof_are_few),
	    TEST(peer__who_proves_nothing_does_not_displace_who_did),
	    cmocka_unit_test(pending_place__nobody_displaces_who_has_proven_more),
	    TEST(peer__a_port_in_use_is_an_error),
#define SEALED(t) cmocka_unit_test_setup_teardown(t, set_up_sealed, tear_down)
	    SEALED(sealed__both_have_the_same_secrets_one_per_direction),
	    SEALED(sealed__proof_comes_first),
	    SEALED(sealed__the_ca_is_not_sent),
	    SEALED(sealed__the_ca_in_a_certificate_file_is_not_sent),
	    SEALED(sealed__intermediate_ca),
	    SEALED(sealed__certificate_that_its_own_key_has_signed),
	    SEALED(sealed__too_many_proven_connections_are_said),
	    SEALED(sealed__a_stop_by_an_operator_is_told),
	    SEALED(sealed__every_session_has_new_secrets),
	    SEALED(sealed__broken_connection_leaves_the_session),
	    SEALED(sealed__offer_is_made_again_on_the_next_connection),
	    SEALED(sealed__a_lost_buffer_is_heard_of_after_a_hello_without_a_session),
	    SEALED(sealed__keys_that_workers_did_not_take_are_made_again),
	    SEALED(sealed__offer_that_is_not_answered_is_made_again),
	    SEALED(sealed__disagreement_is_told_without_a_session),
	    SEALED(sealed__wrong_ca),
	    SEALED(sealed__wrong_ca_of_the_connecting_edge),
	    SEALED(sealed__wrong_name),
	    SEALED(sealed__own_name),
	    SEALED(sealed__older_tls),
	    SEALED(sealed__unsealed_peer),
	    SEALED(sealed__encryption_differs),
	    SEALED(sealed__pre_shared_key),
	    SEALED(sealed__pre_shared_keys_differ),
	    SEALED(sealed__pre_shared_key_against_certificates),
	    SEALED(sealed__pre_shared_key_is_not_replaced_by_a_certificate),
	    SEALED(reauth__the_connecting_edge_has_new_keys_first),
	    SEALED(reauth__the_listening_edge_has_new_keys_first),
	    SEALED(reauth__the_same_keys_leave_the_session),
	    SEALED(reauth__the_former_keys_are_taken_back),
	    SEALED(fail_beside__says_whether_keys_or_a_stranger_are_to_be_looked_at),
	    SEALED(reauth__the_connecting_edge_ends_the_session),
	    SEALED(reauth__the_listening_edge_ends_the_session),
	    SEALED(reauth__the_session_ends_without_a_connection),
	    SEALED(reauth__the_end_of_a_session_is_said_until_all_workers_heard_it),
	    SEALED(reauth__no_session_begins_under_former_keys_when_the_time_is_over),
	    SEALED(reauth__without_a_session_the_clock_is_the_connections),
	    SEALED(reauth__a_proven_session_outlives_the_connection),
	    SEALED(reauth__pre_shared_keys),
	    SEALED(reauth__another_name_of_the_other_edge),
	    SEALED(tls_open__says_what_is_wrong_with_files),
	    SEALED(tls_open__says_whose_the_files_should_be),
	    cmocka_unit_test(names_of__are_harmless_to_a_terminal),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, make_key_sets, remove_key_sets);
}
