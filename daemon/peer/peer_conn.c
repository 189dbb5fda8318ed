/* SPDX-License-Identifier: Apache-2.0 */
/* peer_conn.c - one connection between the edges: TCP, TLS where the link is sealed, and messages. */
#include "peer_priv.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <event2/util.h>

#include "daemon/util/clock.h"
#include "tls.h"
#include "proxy/util/bytes.h"

/* --- connections --- */

void peer_conn_forget(const struct conn *c)
{
	for (unsigned i = 0; i < PENDING_MAX; i++)
		if (c->peer->pending[i] == c)
			c->peer->pending[i] = NULL;
}

void peer_conn_close_pending(struct peer *p)
{
	for (unsigned i = 0; i < PENDING_MAX; i++)
		if (p->pending[i] != NULL)
			peer_conn_close(p->pending[i]);
}

void peer_conn_close(struct conn *c)
{
	struct peer *p = c->peer;

	peer_conn_forget(c);
	if (p->conn == c) {
		p->conn = NULL;
		p->taking = false;
	}
	p->status.connected = p->conn != NULL;
	bufferevent_free(c->bev);
	free(c);
	if (p->connects && p->pending[0] == NULL && peer_wants_conn(p))
		peer_retry_later(p);
}

/* Fails a connection beside the one in use: a proof under changed keys, or an unknown client. */
static void fail_beside(struct peer *p, const char *why)
{
	bool is_new = strcmp(why, p->status.reauth_trouble) != 0 && log_limit_pass(&p->news, clock_now_ns(), NULL);
	bool is_said = log_limit_pass(&p->troubles, clock_now_ns(), NULL) || is_new;

	if (is_said && (p->connects || peer_wants_proof(p)))
		log_warn("link %s: the second control connection, by which the edges prove themselves under the "
		         "changed keys, failed: %s; the first one goes on until ReauthWithin= has passed: give both "
		         "edges keys of one set, and run `longreach reload` at both",
		         p->name, why);
	else if (is_said)
		log_at(p->tls != NULL ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
		       "link %s: a second control connection from the other edge's address failed: %s; the connection "
		       "in use goes on: if this repeats, find out which program there connects to Port=",
		       p->name, why);
	snprintf(p->status.reauth_trouble, sizeof(p->status.reauth_trouble), "%s", why);
}

/* Ends a connection and says why; attempts that fail one after the other are said once a minute. */
void peer_conn_fail(struct conn *c, const char *why)
{
	struct peer *p = c->peer;
	bool is_new;

	if (p->conn != NULL && p->conn != c) {
		fail_beside(p, why);
		peer_conn_close(c);
		return;
	}
	is_new = strcmp(why, p->status.trouble) != 0 && log_limit_pass(&p->news, clock_now_ns(), NULL);
	if (p->conn == c)
		log_warn("link %s: control connection lost: %s", p->name, why);
	else if (log_limit_pass(&p->troubles, clock_now_ns(), NULL) || is_new)
		log_at(p->tls != NULL ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "link %s: no control connection yet: %s",
		       p->name, why);
	snprintf(p->status.trouble, sizeof(p->status.trouble), "%s", why);
	peer_conn_close(c);
}

void peer_conn_send(struct conn *c, enum peer_msg_type type, const uint8_t *body, uint16_t len)
{
	uint8_t header[PEER_HEADER_LEN];

	peer_msg_header(header, type, len);
	bufferevent_write(c->bev, header, sizeof(header));
	if (len > 0)
		bufferevent_write(c->bev, body, len);
}

void peer_conn_hello(struct conn *c)
{
	uint8_t body[PEER_BODY_MAX];

	peer_conn_send(c, MSG_HELLO, body, hello_encode(&c->peer->here, body));
}

void peer_conn_ping(struct conn *c)
{
	uint8_t stamp[PEER_PING_LEN];

	put_be64(stamp, clock_now_ns());
	peer_conn_send(c, MSG_PING, stamp, sizeof(stamp));
	put_be64(stamp, (uint64_t)clock_wall_ns());
	peer_conn_send(c, MSG_CLOCK, stamp, sizeof(stamp));
}

void peer_conn_flush(struct conn *c)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);
	size_t len = evbuffer_get_length(out);
	const uint8_t *data = evbuffer_pullup(out, -1);

	if (data == NULL)
		return;
	if (c->secure)
		tls_write_last(bufferevent_openssl_get_ssl(c->bev), data, len);
	else
		(void)!send(bufferevent_getfd(c->bev), data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void take_pong(struct peer *p, const uint8_t *body)
{
	uint64_t sent_ns = get_be64(body), now_ns = clock_now_ns();

	if (sent_ns < now_ns && now_ns - sent_ns < SILENCE_MAX_MS * NS_PER_MS)
		p->status.rtt_ns = now_ns - sent_ns;
}

/* --- messages --- */

/* False if the connection was closed. */
static bool take_message(struct conn *c, const struct peer_msg *m)
{
	struct hello h;

	if (!log_limit_pass(&c->messages, c->heard_ns, NULL)) {
		peer_conn_fail(c, "too many messages");
		return false;
	}
	switch (m->type) {
	case MSG_HELLO:
		if (hello_decode(m->body, m->len, &h) < 0) {
			peer_conn_fail(c, "the other end sent a hello that this edge cannot read");
			return false;
		}
		return peer_take_hello(c->peer, c, &h);
	case MSG_PING:
		peer_conn_send(c, MSG_PONG, m->body, m->len);
		return true;
	case MSG_PONG:
		take_pong(c->peer, m->body);
		return true;
	case MSG_KEY:
		return peer_take_key(c, m->body);
	case MSG_KEY_READY:
		peer_take_ready(c, m->body);
		return true;
	case MSG_CLOCK:
		peer_clock_take(&c->peer->clock, (int64_t)get_be64(m->body), clock_wall_ns());
		return true;
	case MSG_STOPPED:
		peer_take_stopped(c->peer);
		return true;
	case MSG_REAUTH:
		peer_take_reauth(c->peer);
		return true;
	}
	return true; /* a message of a later version: skipped */
}

const char peer_not_ours[] = "the other end does not speak longreach's control protocol";

static void on_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	struct conn *c = arg;

	c->heard_ns = clock_now_ns();
	for (;;) {
		size_t have = evbuffer_get_length(in);
		size_t want = have < PEER_HEADER_LEN + PEER_BODY_MAX ? have : PEER_HEADER_LEN + PEER_BODY_MAX;
		struct peer_msg m;
		int n;

		if (have == 0)
			return;
		n = peer_msg_next(evbuffer_pullup(in, (ev_ssize_t)want), want, &m);
		if (n == 0)
			return;
		if (n < 0 || (c->peer->conn != c && m.type != MSG_HELLO)) {
			peer_conn_fail(c, peer_not_ours);
			return;
		}
		if (!take_message(c, &m))
			return;
		evbuffer_drain(in, (size_t)n);
	}
}

static void conn_fail_for_error(struct conn *c, int err)
{
	unsigned long tls_error = c->secure ? bufferevent_get_openssl_error(c->bev) : 0;
	char why[TLS_WHY_MAX];

	if (!c->secure || (tls_error == 0 && err != 0)) {
		peer_conn_fail(c, err != 0 ? evutil_socket_error_to_string(err) : "failed");
		return;
	}
	tls_why(c->peer->tls, tls_error, why);
	peer_conn_fail(c, why);
}

/* An edge that refuses our certificate sends an alert and closes. If our hello is being written then, the write fails
 * first: reads the alert. */
static void conn_fail_for_eof(struct conn *c)
{
	struct ssl_st *ssl = c->secure ? bufferevent_openssl_get_ssl(c->bev) : NULL;
	unsigned long alert = ssl != NULL ? tls_last_words(ssl) : 0;
	char why[TLS_WHY_MAX] = "closed by the other edge";

	if (ssl != NULL && !tls_was_answered(ssl))
		snprintf(why, sizeof(why),
		         "closed by the other edge before it answered: read the other edge's log, and check that "
		         "Encryption= there is not none");
	if (alert != 0)
		tls_why(c->peer->tls, alert, why);
	peer_conn_fail(c, why);
}

static bool conn_secure(struct conn *c);

/* TCP is connected, or the TLS handshake is done. */
void peer_conn_connected(struct conn *c)
{
	c->stands = true;
	if (c->peer->tls != NULL && !c->secure) {
		if (!conn_secure(c))
			peer_conn_fail(c, "out of memory");
	} else if (c->secure && !tls_proven(c->peer->tls, bufferevent_openssl_get_ssl(c->bev))) {
		peer_conn_fail(c, "the other end did not prove its identity");
	} else {
		if (c->secure)
			c->rank = CONN_AUTHENTICATED;
		peer_conn_hello(c);
	}
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	int err = EVUTIL_SOCKET_ERROR();
	struct conn *c = arg;

	(void)bev;
	if (what & BEV_EVENT_CONNECTED)
		peer_conn_connected(c);
	else if (what & BEV_EVENT_EOF)
		conn_fail_for_eof(c);
	else if (what & BEV_EVENT_ERROR)
		conn_fail_for_error(c, err);
}

static void tune_socket(int fd)
{
	int one = 1, silence_ms = SILENCE_MAX_MS;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof(silence_ms));
}

static void conn_listen_to(struct conn *c)
{
	bufferevent_setcb(c->bev, on_read, NULL, on_event, c);
	bufferevent_setwatermark(c->bev, EV_READ, 0, INPUT_MAX);
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
}

/* Begins TLS on a connected socket. False: everything is as before. */
static bool conn_secure(struct conn *c)
{
	struct peer *p = c->peer;
	struct ssl_st *ssl = tls_connection(p->tls);
	evutil_socket_t fd = bufferevent_getfd(c->bev);
	struct bufferevent *tls;

	if (ssl == NULL)
		return false;
	/* the plain bufferevent releases the socket first: only one may watch it */
	bufferevent_setfd(c->bev, -1);
	bufferevent_free(c->bev);
	tls = bufferevent_openssl_socket_new(p->base, fd, ssl,
	                                     p->connects ? BUFFEREVENT_SSL_CONNECTING : BUFFEREVENT_SSL_ACCEPTING,
	                                     BEV_OPT_CLOSE_ON_FREE);
	if (tls == NULL)
		abort(); /* the event loop itself has no memory */
	bufferevent_openssl_set_allow_dirty_shutdown(tls, 1);
	c->bev = tls;
	c->secure = true;
	memcpy(c->keys, tls_fingerprint(p->tls), sizeof(c->keys));
	conn_listen_to(c);
	return true;
}

/* Takes the socket over, even if it fails. */
struct conn *peer_conn_open(struct peer *p, int fd)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (c != NULL)
		c->bev = bufferevent_socket_new(p->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (c == NULL || c->bev == NULL) {
		free(c);
		close(fd);
		return NULL;
	}
	tune_socket(fd);
	c->peer = p;
	c->opened_ns = c->heard_ns = clock_now_ns();
	c->messages = (struct log_limit){.window_ns = NS_PER_S, .burst = MESSAGES_PER_S};
	conn_listen_to(c);
	return c;
}
