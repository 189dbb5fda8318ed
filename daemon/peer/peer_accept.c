/* SPDX-License-Identifier: Apache-2.0 */
/* peer_accept.c - incoming connections: which are accepted, and which connections they displace. */
#include "peer_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <event2/util.h>

#include "daemon/util/addr.h"
#include "daemon/util/clock.h"
#include "daemon/util/port_holder.h"
#include "daemon/privileged/privileged.h"
#include "daemon/util/tcp_socket.h"
#include "tls.h"
#include "proxy/util/bytes.h"

/* The place that a connection of that rank takes: a free one, else the oldest of the lowest rank; connections without a
 * proof have only a few places. NULL: all present connections rank higher. */
static struct conn **pending_place(struct peer *p, enum conn_rank rank)
{
	struct conn **place = NULL, **spare = NULL;
	unsigned unproven = 0;

	for (unsigned i = 0; i < PENDING_MAX; i++) {
		struct conn *c = p->pending[i];

		if (c == NULL) {
			spare = &p->pending[i];
			continue;
		}
		unproven += c->rank == CONN_UNPROVEN;
		if (c->rank <= rank && (place == NULL || c->rank < (*place)->rank ||
		                        (c->rank == (*place)->rank && c->opened_ns < (*place)->opened_ns)))
			place = &p->pending[i];
	}
	return spare != NULL && (rank != CONN_UNPROVEN || unproven < UNPROVEN_MAX) ? spare : place;
}

/* Takes over the socket of a connection that came in. */
static struct conn *take_in(struct peer *p, int fd, enum conn_rank rank)
{
	struct conn **place = pending_place(p, rank), *c;

	if (place == NULL) {
		close(fd);
		p->status.refused_connections++;
		return NULL;
	}
	if (*place != NULL)
		peer_conn_close(*place);
	c = peer_conn_open(p, fd);
	if (c != NULL)
		c->rank = rank;
	*place = c;
	return c;
}

/* --- listening --- */

static bool may_come_in(struct peer *p, const struct sockaddr *from)
{
	char t[ADDR_TEXT_MAX];
	struct ip_addr a;
	bool known = false;

	if (addr_from_sockaddr(from, &a))
		for (uint32_t i = 0; i < p->npaths; i++)
			known |= ip_addr_eq(&a, &p->paths[i].remote);
	if (!known) {
		if (log_limit_pass(&p->strangers, clock_now_ns(), NULL))
			log_warn("link %s: control connection from %s refused: no RemoteAddress= is that address",
			         p->name, addr_write(&a, t, sizeof(t)));
		return false;
	}
	return true;
}

/* Refuses a connection before its handshake. */
static enum accept_verdict refuse(struct peer *p, const char *why)
{
	p->status.refused_connections++;
	if (why != NULL && p->conn == NULL)
		snprintf(p->status.trouble, sizeof(p->status.trouble), "%s", why);
	if (why != NULL && log_limit_pass(&p->news, clock_now_ns(), NULL))
		log_at(p->tls != NULL ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "link %s: no control connection yet: %s",
		       p->name, why);
	return ACCEPT_REFUSE;
}

/* A flood of connections with a proof shares ACCEPTS_PROVEN_PER_S with the other edge's own connection. */
static void say_flood(struct peer *p)
{
	if (log_limit_pass(&p->floods, clock_now_ns(), NULL))
		log_warn(
		    "link %s: more than %d control connections within a second look like the other edge's: this edge "
		    "refuses the rest, perhaps the other edge's own one too (refused_connections in `longreach status "
		    "--json`): %s",
		    p->name, ACCEPTS_PROVEN_PER_S,
		    p->tls != NULL
		        ? "a program at the other edge's address has read CA= or PSKFile=, or repeats what it "
		          "saw on the line: find it, or give both edges new keys"
		        : "find the program at the other edge's address that connects to Port= from ports "
		          "below 1024");
}

static bool from_privileged_port(int fd)
{
	uint8_t ends[TLS_PROOF_ENDS_LEN];

	/* the client's port, behind its address */
	return tls_ends(fd, false, ends) && get_be16(ends + TLS_PROOF_ENDS_LEN / 2 - 2) < TCP_RESERVED_PORTS;
}

/* What the first bytes prove: an enum conn_rank; or -EAGAIN: more bytes are needed, -EPROTO: another protocol. */
static int judge_tls(const struct peer *p, int fd, const uint8_t *data, size_t len)
{
	uint8_t ends[TLS_PROOF_ENDS_LEN];
	struct tls_first_flight f;
	int r = tls_first_flight_read(data, len, &f);

	if (r <= 0)
		return r < 0 ? r : -EAGAIN;
	return tls_ends(fd, false, ends) && tls_first_flight_proven(p->tls, &f, ends) ? CONN_PROVEN : CONN_UNPROVEN;
}

static int judge_hello(int fd, const uint8_t *data, size_t len)
{
	struct peer_msg m;
	int n = peer_msg_next(data, len, &m);

	if (n <= 0)
		return n < 0 ? n : -EAGAIN;
	if (m.type != MSG_HELLO)
		return -EPROTO;
	return from_privileged_port(fd) ? CONN_PROVEN : CONN_UNPROVEN;
}

static enum accept_verdict judge(void *arg, int fd, const uint8_t *data, size_t len)
{
	struct peer *p = arg;
	int rank = p->tls != NULL ? judge_tls(p, fd, data, len) : judge_hello(fd, data, len);
	struct log_limit *limit = rank == CONN_UNPROVEN ? &p->accepts : &p->accepts_proven;
	struct conn *c;

	if (rank == -EAGAIN)
		return ACCEPT_WAIT;
	if (rank < 0)
		return refuse(p, p->tls != NULL
		                     ? "the other end does not speak TLS: check that Encryption= there is not none"
		                     : peer_not_ours);
	if (!log_limit_pass(limit, clock_now_ns(), NULL)) {
		if (rank == CONN_PROVEN)
			say_flood(p);
		return refuse(p, NULL);
	}
	p->status.unproven_connections += rank == CONN_UNPROVEN;
	c = take_in(p, fd, (enum conn_rank)rank);
	if (c != NULL)
		peer_conn_connected(c);
	return ACCEPT_TAKEN;
}

static void on_dropped(void *arg)
{
	struct peer *p = arg;

	p->status.refused_connections++;
}

void peer_listen_enable(struct peer *p, bool on)
{
	for (uint32_t i = 0; i < p->npaths; i++) {
		if (p->listeners[i] == NULL)
			continue;
		if (on)
			evconnlistener_enable(p->listeners[i]);
		else
			evconnlistener_disable(p->listeners[i]);
	}
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct peer *p = arg;

	(void)fd;
	(void)what;
	p->accepted = 0;
	peer_listen_enable(p, true);
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *from, int from_len, void *arg)
{
	static const struct timeval at_once = {0};
	struct peer *p = arg;

	(void)l;
	(void)from_len;
	if (p->accepted++ == 0)
		event_add(p->resume, &at_once);
	else if (p->accepted == ACCEPTS_PER_TURN)
		peer_listen_enable(p, false);
	if (may_come_in(p, from)) {
		accept_queue_add(p->unjudged, fd);
		return;
	}
	p->status.refused_connections++;
	close(fd);
}

/* No file descriptors left, or the like: disables the listener for a second. */
static void on_accept_error(struct evconnlistener *l, void *arg)
{
	struct peer *p = arg;

	if (log_limit_pass(&p->troubles, clock_now_ns(), NULL))
		log_warn("link %s: cannot accept control connections: %s", p->name,
		         evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
	evconnlistener_disable(l); /* tick enables it again */
}

static const char *name_listener(const struct path_config *path, char name[HELD_NAME_MAX])
{
	char way[HELD_NAME_MAX];

	snprintf(name, HELD_NAME_MAX, "%.60s tcp.", held_name(&path->local, path->port, way));
	return name;
}

static int listen_on(struct peer *p, uint32_t i, char err[CONFIG_ERR_MAX])
{
	const struct path_config *path = &p->paths[i];
	char t[ADDR_TEXT_MAX], name[HELD_NAME_MAX], holder[PORT_HOLDER_TEXT_MAX] = "";
	int fd = privileged_held(name_listener(path, name));

	if (fd < 0)
		fd = tcp_socket_ahead(&path->local, path->port);
	if (fd == -EADDRINUSE)
		port_holder_text(PORT_TCP, &path->local, path->port, holder);

	if (fd < 0) {
		snprintf(err, CONFIG_ERR_MAX, "cannot listen on LocalAddress=%s Port=%u (TCP): %s%s%s",
		         addr_write(&path->local, t, sizeof(t)), path->port, strerror(-fd), holder[0] != '\0' ? ": " : "",
		         holder);
		return fd;
	}
	privileged_hold(name, fd);
	p->listeners[i] = evconnlistener_new(p->base, on_accept, p, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC,
	                                     LISTEN_BACKLOG, fd);
	if (p->listeners[i] == NULL) {
		snprintf(err, CONFIG_ERR_MAX, "cannot listen for the other edge: %s", strerror(errno));
		privileged_let_go(name);
		close(fd);
		return -ENOMEM;
	}
	evconnlistener_set_error_cb(p->listeners[i], on_accept_error);
	return 0;
}

void peer_listen_stop(struct peer *p)
{
	char name[HELD_NAME_MAX];

	for (uint32_t i = 0; i < p->npaths; i++) {
		if (p->listeners[i] == NULL)
			continue;
		evconnlistener_free(p->listeners[i]);
		privileged_let_go(name_listener(&p->paths[i], name));
	}
}

int peer_listen(struct peer *p, char err[CONFIG_ERR_MAX])
{
	const struct accept_judge j = {.look = judge, .dropped = on_dropped, .arg = p};
	int r = 0;

	p->unjudged = accept_queue_new(p->base, &j);
	p->resume = evtimer_new(p->base, on_resume, p);
	if (p->unjudged == NULL || p->resume == NULL)
		return -ENOMEM;

	for (uint32_t i = 0; i < p->npaths && r == 0; i++)
		r = listen_on(p, i, err);
	return r;
}
