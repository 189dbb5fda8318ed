/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - the control channel of a link.
 *
 * Theory of operation
 *
 * The edge with the lower WAN address connects to the other one's Port=, which accepts from RemoteAddress= only. With
 * several paths it tries one after another until one carries the connection; any will do, it is for words only. Each
 * end sends hello as soon as the connection stands, and again whenever its configuration changes; pings go every
 * second, three seconds without a byte end the connection, and the connecting edge tries again after 100 ms to 2 s.
 *
 * Before that (accept_queue.h): an accepted connection is not answered until its first bytes are there. They are looked
 * at before TLS is: of a sealed link they carry a proof that the sender has the link's keys (tls_proof.h); of one that
 * is not, there is no secret to prove, and a source port below 1024 is all that tells an edge from a user of its
 * machine without rights. Whoever proves nothing may be an edge of an earlier version, or behind an address
 * translation: a few such are let through a second, and none of them displaces one that has proven itself, or is
 * further along.
 *
 * A connection that has not said hello is `pending` and displaces no session; with its hello it takes the place of the
 * one before, which is thereby known to be dead (the other edge has only one at a time). So neither a half-open
 * connection of a crashed edge nor one that says nothing can keep a good one out.
 *
 * A session is (boot id, session number) of both edges. A hello that repeats a known pair changes nothing: a broken
 * control connection does not touch the data path. The end that hears a new pair begins a session with epochs that both
 * work out alike; the other does the same when it hears it, and until then drops the new datagrams, which are repaired.
 *
 * Sealed links (tls.h): a connection speaks TLS before anything else. A session then needs keys. The end that would
 * begin one offers a key (MSG_KEY: a serial number and the epoch; the secret itself is what both ends export from this
 * connection for that number, epoch and direction); the other one derives, hands the keys to its workers, and says so
 * (MSG_KEY_READY); only then does the session begin here, so that no datagram is sent that cannot be opened. If the
 * connection breaks in between, the offer is made again on the next one under a new number. Keys outlive the connection
 * they came from: later ones of a session follow from the first without a word (seal.h). */
#include "peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <event2/util.h>
#include <openssl/crypto.h>

#include "accept_queue.h"
#include "daemon/util/addr.h"
#include "cert_days.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "daemon/privileged/privileged.h"
#include "daemon/util/tcp_socket.h"
#include "tls.h"
#include "proxy/util/bytes.h"
#include "seal/secret_mem.h"

enum peer_limits {
	PING_EVERY_MS = 1000,
	SILENCE_MAX_MS = 3000,
	HELLO_WITHIN_MS = 5000, /* connecting, and the first hello */
	BACKOFF_MIN_MS = 100,
	BACKOFF_MAX_MS = 2000,
	ACCEPTS_PER_S = 10,        /* of connections without a proof */
	ACCEPTS_PROVEN_PER_S = 50, /* and with one, which whoever sees the line can send once more */
	ACCEPTS_PER_TURN = 64,     /* of the event loop, which has others to serve */
	PENDING_MAX = 8,
	UNPROVEN_MAX = 2,         /* of these */
	CONNECT_WITHIN_MS = 2000, /* TCP: a new attempt gets through sooner than the fourth SYN of an old one */
	UNPROVEN_WITHIN_MS = 2000,
	TROUBLES_PER_MIN = 10,
	MESSAGES_PER_S = 50,                               /* pings and a few reloads; more is no sane peer */
	INPUT_MAX = 2 * (PEER_HEADER_LEN + PEER_BODY_MAX), /* bytes read but not yet understood */
	OUTPUT_MAX = 16 << 10,                             /* bytes that the other edge does not take */
	LISTEN_BACKLOG = 1024, /* that a flood has to fill; then the kernel answers with SYN cookies */
};

/* How much is known of who is at the other end: the more, the later it is displaced. */
enum conn_rank { CONN_UNPROVEN, CONN_PROVEN, CONN_AUTHENTICATED };

struct conn {
	struct peer *peer;
	enum conn_rank rank;
	bool stands; /* TCP does */
	struct bufferevent *bev;
	bool secure; /* speaks TLS */
	uint64_t opened_ns;
	uint64_t heard_ns;
	struct log_limit messages; /* taken per second */
};

struct peer {
	struct event_base *base;
	struct peer_user user;
	struct tls *tls; /* NULL: Encryption=none */
	char name[LINK_NAME_MAX];
	struct path_config paths[PATHS_MAX];
	uint32_t npaths;
	uint32_t tried; /* connecting edge: path of the last attempt */
	bool connects;  /* this edge has the lower address on the first path */

	struct evconnlistener *listeners[PATHS_MAX];
	struct event *retry; /* connecting edge: the next attempt */
	struct event *tick;  /* every second */
	uint32_t backoff_ms;
	struct event *resume; /* listeners that have paused for a turn of the event loop */
	uint32_t accepted;    /* since then */
	struct accept_queue *unjudged;
	struct conn *pending[PENDING_MAX]; /* no hello yet */
	struct conn *conn;                 /* the one in use */
	struct log_limit accepts, accepts_proven, strangers, troubles, news;

	struct hello here, there;
	struct peer_status status; /* without `there` */
	struct cert_days cert, ca;

	bool session_due;         /* agreed upon, waits for the key that was offered */
	struct seal_secret offer; /* what will seal it */
	uint32_t offer_serial;    /* counts offers of this life */
	uint32_t taking_serial;   /* of the other edge's last offer */
};

static void take_hello(struct peer *p, struct conn *c, const struct hello *h);
static void begin_session(struct peer *p, const struct seal_secret *tx);
static void retry_later(struct peer *p);
static void conn_close(struct conn *c);

/* --- connections --- */

static void forget_pending(const struct conn *c)
{
	for (unsigned i = 0; i < PENDING_MAX; i++)
		if (c->peer->pending[i] == c)
			c->peer->pending[i] = NULL;
}

static void close_pending(struct peer *p)
{
	for (unsigned i = 0; i < PENDING_MAX; i++)
		if (p->pending[i] != NULL)
			conn_close(p->pending[i]);
}

static void conn_close(struct conn *c)
{
	struct peer *p = c->peer;

	forget_pending(c);
	if (p->conn == c)
		p->conn = NULL;
	p->status.connected = p->conn != NULL;
	bufferevent_free(c->bev);
	free(c);
	if (p->connects && p->conn == NULL && p->pending[0] == NULL)
		retry_later(p);
}

/* Ends a connection and says why; attempts that fail one after the other are said once a minute. */
static void conn_fail(struct conn *c, const char *why)
{
	struct peer *p = c->peer;
	bool is_new = strcmp(why, p->status.trouble) != 0 && log_limit_pass(&p->news, clock_now_ns(), NULL);

	if (p->conn == c)
		log_warn("link %s: control connection lost: %s", p->name, why);
	else if (log_limit_pass(&p->troubles, clock_now_ns(), NULL) || is_new)
		log_at(p->tls != NULL ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "link %s: no control connection yet: %s",
		       p->name, why);
	snprintf(p->status.trouble, sizeof(p->status.trouble), "%s", why);
	conn_close(c);
}

static void conn_send(struct conn *c, enum peer_msg_type type, const uint8_t *body, uint16_t len)
{
	uint8_t header[PEER_HEADER_LEN];

	peer_msg_header(header, type, len);
	bufferevent_write(c->bev, header, sizeof(header));
	bufferevent_write(c->bev, body, len);
}

static void send_hello(struct conn *c)
{
	uint8_t body[PEER_BODY_MAX];

	conn_send(c, MSG_HELLO, body, hello_encode(&c->peer->here, body));
}

static void send_ping(struct conn *c)
{
	uint8_t stamp[PEER_PING_LEN];

	put_be64(stamp, clock_now_ns());
	conn_send(c, MSG_PING, stamp, sizeof(stamp));
}

static void take_pong(struct peer *p, const uint8_t *body)
{
	uint64_t sent_ns = get_be64(body), now_ns = clock_now_ns();

	if (sent_ns < now_ns && now_ns - sent_ns < SILENCE_MAX_MS * NS_PER_MS)
		p->status.rtt_ns = now_ns - sent_ns;
}

/* --- keys --- */

enum key_direction { KEY_FROM_CONNECTING, KEY_FROM_LISTENING };

static bool export_secret(const struct conn *c, enum key_direction from, uint32_t serial, struct seal_secret *s)
{
	uint8_t context[1 + 4 + 4];

	context[0] = (uint8_t)from;
	put_be32(context + 1, serial);
	put_be32(context + 5, s->epoch);
	s->cipher = (enum seal_cipher)c->peer->here.cipher;
	return tls_export(bufferevent_openssl_get_ssl(c->bev), context, sizeof(context), s->bytes);
}

static void offer_key(struct peer *p)
{
	uint8_t body[PEER_KEY_LEN];
	struct proxy_session s;

	p->session_due = true;
	if (p->conn == NULL)
		return; /* on the next connection */
	hello_epochs(&p->here, &p->there, &s);
	p->offer.epoch = s.epoch_tx;
	p->offer_serial++;
	if (!export_secret(p->conn, p->connects ? KEY_FROM_CONNECTING : KEY_FROM_LISTENING, p->offer_serial,
	                   &p->offer)) {
		log_err("link %s: no key can be had from TLS", p->name);
		return;
	}
	put_be32(body, p->offer_serial);
	put_be32(body + 4, p->offer.epoch);
	conn_send(p->conn, MSG_KEY, body, sizeof(body));
}

/* False: not now. */
static bool take_key(struct conn *c, const uint8_t *body)
{
	struct peer *p = c->peer;
	struct seal_secret s = {.epoch = get_be32(body + 4)};

	if (p->tls == NULL || p->conn != c)
		return false;
	p->taking_serial = get_be32(body);
	if (!export_secret(c, p->connects ? KEY_FROM_LISTENING : KEY_FROM_CONNECTING, p->taking_serial, &s))
		return false;
	p->user.keys(p->user.arg, &s, p->taking_serial);
	OPENSSL_cleanse(&s, sizeof(s));
	return true;
}

void peer_keys_taken(struct peer *p, uint32_t serial)
{
	uint8_t body[PEER_READY_LEN];

	if (p->conn == NULL || serial != p->taking_serial)
		return;
	put_be32(body, serial);
	conn_send(p->conn, MSG_KEY_READY, body, sizeof(body));
}

static void take_ready(struct conn *c, const uint8_t *body)
{
	struct peer *p = c->peer;

	if (!p->session_due || p->conn != c || get_be32(body) != p->offer_serial)
		return;
	p->session_due = false;
	begin_session(p, &p->offer);
	OPENSSL_cleanse(&p->offer, sizeof(p->offer));
}

/* False if the connection was closed. */
static bool take_message(struct conn *c, const struct peer_msg *m)
{
	struct hello h;

	if (!log_limit_pass(&c->messages, c->heard_ns, NULL)) {
		conn_fail(c, "too many messages");
		return false;
	}
	switch (m->type) {
	case MSG_HELLO:
		if (hello_decode(m->body, m->len, &h) < 0) {
			conn_fail(c, "the other end sent a hello that makes no sense");
			return false;
		}
		take_hello(c->peer, c, &h);
		return true;
	case MSG_PING:
		conn_send(c, MSG_PONG, m->body, m->len);
		return true;
	case MSG_PONG:
		take_pong(c->peer, m->body);
		return true;
	case MSG_KEY:
		if (take_key(c, m->body))
			return true;
		conn_fail(c, "the other end sent a key out of turn");
		return false;
	case MSG_KEY_READY:
		take_ready(c, m->body);
		return true;
	}
	return true; /* of a later version: skipped */
}

static const char not_ours[] = "the other end does not speak longreach's control protocol";

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
			conn_fail(c, not_ours);
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
		conn_fail(c, err != 0 ? evutil_socket_error_to_string(err) : "failed");
		return;
	}
	tls_why(c->peer->tls, tls_error, why);
	conn_fail(c, why);
}

/* An edge that refuses ours says why and closes. If our hello runs into that, the write fails first. */
static void conn_fail_for_eof(struct conn *c)
{
	struct ssl_st *ssl = c->secure ? bufferevent_openssl_get_ssl(c->bev) : NULL;
	unsigned long alert = ssl != NULL ? tls_last_words(ssl) : 0;
	char why[TLS_WHY_MAX] = "closed by the other edge";

	if (ssl != NULL && !tls_was_answered(ssl))
		snprintf(why, sizeof(why),
		         "closed by the other edge without a word: has it Encryption=none? "
		         "Its log tells");
	if (alert != 0)
		tls_why(c->peer->tls, alert, why);
	conn_fail(c, why);
}

static bool conn_secure(struct conn *c);

/* TCP stands, or TLS does. */
static void on_connected(struct conn *c)
{
	c->stands = true;
	if (c->peer->tls != NULL && !c->secure) {
		if (!conn_secure(c))
			conn_fail(c, "out of memory");
	} else if (c->secure && !tls_proven(c->peer->tls, bufferevent_openssl_get_ssl(c->bev))) {
		conn_fail(c, "the other end did not prove who it is");
	} else {
		if (c->secure)
			c->rank = CONN_AUTHENTICATED;
		send_hello(c);
	}
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	int err = EVUTIL_SOCKET_ERROR();
	struct conn *c = arg;

	(void)bev;
	if (what & BEV_EVENT_CONNECTED)
		on_connected(c);
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
	/* the plain one lets go of the socket first: only one may watch it */
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
	conn_listen_to(c);
	return true;
}

/* Takes the socket over, also if it fails. */
static struct conn *conn_open(struct peer *p, int fd)
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

/* The place that a connection of that rank takes: a free one, else that of the lowest rank, the oldest of them; those
 * without a proof have few of their own. NULL: all are worth more. */
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
		conn_close(*place);
	c = conn_open(p, fd);
	if (c != NULL)
		c->rank = rank;
	*place = c;
	return c;
}

/* --- connecting --- */

/* From a reserved port, if they let us: that is what no other user of this machine can have. */
static int connecting_socket(const struct ip_addr *from)
{
	int fd = privileged_reserved_socket(from);

	return fd == -EADDRINUSE || fd == -EACCES ? tcp_socket_bound(from, 0) : fd;
}

static void try_connect(struct peer *p)
{
	const struct path_config *path = &p->paths[p->tried = (p->tried + 1) % p->npaths];
	struct sockaddr_storage to;
	socklen_t len = addr_to_sockaddr(&path->remote, path->port, &to);
	int fd = connecting_socket(&path->local);
	struct conn *c;

	c = fd < 0 ? NULL : conn_open(p, fd);
	if (c == NULL) {
		if (log_limit_pass(&p->troubles, clock_now_ns(), NULL))
			log_warn("link %s: no socket for the control connection: %s", p->name,
			         strerror(fd < 0 ? -fd : ENOMEM));
		retry_later(p);
		return;
	}
	p->pending[0] = c;
	/* A failure at once may already have closed c from on_event(). */
	bufferevent_socket_connect(c->bev, (struct sockaddr *)&to, (int)len);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct peer *p = arg;

	(void)fd;
	(void)what;
	if (p->conn == NULL && p->pending[0] == NULL)
		try_connect(p);
}

static void retry_later(struct peer *p)
{
	struct timeval wait = {.tv_sec = p->backoff_ms / 1000, .tv_usec = p->backoff_ms % 1000 * 1000};

	event_add(p->retry, &wait);
	p->backoff_ms = p->backoff_ms * 2 < BACKOFF_MAX_MS ? p->backoff_ms * 2 : BACKOFF_MAX_MS;
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
			log_warn("link %s: control connection from %s refused: RemoteAddress= is another", p->name,
			         addr_write(&a, t, sizeof(t)));
		return false;
	}
	return true;
}

/* Closed by us before there was a connection to speak of. */
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

static bool from_privileged_port(int fd)
{
	uint8_t ends[TLS_PROOF_ENDS_LEN];

	/* the client's port, behind its address */
	return tls_ends(fd, false, ends) && get_be16(ends + TLS_PROOF_ENDS_LEN / 2 - 2) < TCP_RESERVED_PORTS;
}

/* How much the first bytes prove: an enum conn_rank, or negative: -EAGAIN for more bytes, -EPROTO for others' ways. */
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
		return refuse(p,
		              p->tls != NULL ? "the other end does not speak TLS: has it Encryption=none?" : not_ours);
	if (!log_limit_pass(limit, clock_now_ns(), NULL))
		return refuse(p, NULL);
	p->status.unproven_connections += rank == CONN_UNPROVEN;
	c = take_in(p, fd, (enum conn_rank)rank);
	if (c != NULL)
		on_connected(c);
	return ACCEPT_TAKEN;
}

static void on_dropped(void *arg)
{
	struct peer *p = arg;

	p->status.refused_connections++;
}

static void set_listening(struct peer *p, bool on)
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
	set_listening(p, true);
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
		set_listening(p, false);
	if (may_come_in(p, from)) {
		accept_queue_add(p->unjudged, fd);
		return;
	}
	p->status.refused_connections++;
	close(fd);
}

/* No file descriptors left, or the like: leave the listener alone for a second. */
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
	char t[ADDR_TEXT_MAX], name[HELD_NAME_MAX];
	int fd = privileged_held(name_listener(path, name));

	if (fd < 0)
		fd = tcp_socket_bound(&path->local, path->port);

	if (fd < 0) {
		snprintf(err, CONFIG_ERR_MAX, "cannot listen on LocalAddress=%s Port=%u (TCP): %s",
		         addr_write(&path->local, t, sizeof(t)), path->port, strerror(-fd));
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

static void stop_listening(struct peer *p)
{
	char name[HELD_NAME_MAX];

	for (uint32_t i = 0; i < p->npaths; i++) {
		if (p->listeners[i] == NULL)
			continue;
		evconnlistener_free(p->listeners[i]);
		privileged_let_go(name_listener(&p->paths[i], name));
	}
}

static int start_listening(struct peer *p, char err[CONFIG_ERR_MAX])
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

/* --- hello --- */

static void begin_session(struct peer *p, const struct seal_secret *tx)
{
	struct proxy_session *s = &p->status.session;

	hello_epochs(&p->here, &p->there, s);
	s->mismatch = p->status.verdict != HELLO_AGREED;
	p->status.in_session = true;
	p->status.sessions++;
	p->user.session(p->user.arg, s, tx);
}

static void log_verdict(const struct peer *p)
{
	const struct peer_status *s = &p->status;
	char t[ADDR_TEXT_MAX];

	addr_write(&p->paths[0].remote, t, sizeof(t));
	switch (s->verdict) {
	case HELLO_AGREED:
		log_notice("link %s: session with the other edge (%s at %s), ack mode %s", p->name, p->there.name, t,
		           ack_mode_name(p->here.ack_mode));
		break;
	case HELLO_MISMATCH:
		log_warn("link %s: the edges disagree, nothing is acknowledged early until they agree: %s", p->name,
		         s->text);
		break;
	case HELLO_REFUSED:
		log_err("link %s: nothing can be carried: %s", p->name, s->text);
		break;
	}
}

/* Said once for as long as it is true. */
static void look_at_rates(struct peer *p)
{
	bool said = p->status.rates[0] != '\0';

	hello_rates(&p->here, &p->there, p->status.rates);
	if (!said && p->status.rates[0] != '\0')
		log_warn("link %s: %s", p->name, p->status.rates);
}

/* An MTU that differs works as long as the path takes both, so it is only said. */
static void log_oddities(const struct peer *p)
{
	if (p->here.wan_mtu != p->there.wan_mtu)
		log_warn("link %s: MTU= is %u here and %u there: packets larger than the path takes would be lost",
		         p->name, p->here.wan_mtu, p->there.wan_mtu);
}

/* Something new was said at either end. */
static void reconsider(struct peer *p)
{
	p->status.verdict = hello_compare(&p->here, &p->there, p->status.text);
	log_verdict(p);
	p->session_due = false;
	if (p->status.verdict == HELLO_REFUSED)
		return;
	log_oddities(p);
	if (p->tls != NULL)
		offer_key(p);
	else
		begin_session(p, NULL);
}

static void take_place(struct peer *p, struct conn *c)
{
	struct conn *old = p->conn;

	forget_pending(c);
	p->conn = c;
	p->backoff_ms = BACKOFF_MIN_MS;
	if (old != NULL)
		conn_close(old);
	p->status.connected = true;
	p->status.trouble[0] = '\0';
}

static void take_hello(struct peer *p, struct conn *c, const struct hello *h)
{
	bool is_new = !p->status.met || h->boot_id != p->there.boot_id || h->session != p->there.session;
	bool was_lost = p->conn != c;

	if (was_lost)
		take_place(p, c);
	p->there = *h;
	p->status.met = true;
	look_at_rates(p);
	if (p->here.peer_arena_epoch != h->arena_epoch)
		p->here.peer_arena_epoch = h->arena_epoch; /* goes out with the next hello */
	if (is_new)
		reconsider(p);
	else if (was_lost && p->session_due)
		offer_key(p);
	else if (was_lost)
		log_info("link %s: control connection is back, the session goes on", p->name);
}

/* --- the clock --- */

static void check_conn(struct conn *c, uint64_t now_ns)
{
	if (now_ns - c->heard_ns >= SILENCE_MAX_MS * NS_PER_MS)
		conn_fail(c, "silence");
	else if (evbuffer_get_length(bufferevent_get_output(c->bev)) > OUTPUT_MAX)
		conn_fail(c, "the other edge does not read");
	else
		send_ping(c);
}

/* --- certificates that expire --- */

static void say_days(const struct peer *p, struct cert_days *d, const char *what)
{
	int64_t now_s = (int64_t)time(NULL), left = cert_days_left(d->expires_s, now_s);

	switch (cert_days_look(d, now_s)) {
	case -1:
		return;
	case 0:
		log_err("link %s: the %s has expired: the session goes on, the next connection to the other edge is "
		        "refused; `longreach keygen` makes new ones",
		        p->name, what);
		return;
	default:
		log_warn("link %s: the %s expires in %lld day%s: `longreach keygen` makes new ones", p->name, what,
		         (long long)left, left == 1 ? "" : "s");
	}
}

static void take_expiry(struct peer *p)
{
	p->status.expiry = tls_expiry(p->tls);
	cert_days_init(&p->cert, p->status.expiry.certificate_s);
	cert_days_init(&p->ca, p->status.expiry.ca_s);
}

static void look_at_days(struct peer *p)
{
	say_days(p, &p->cert, "certificate");
	say_days(p, &p->ca, "CA's certificate");
}

static uint64_t patience_ms(const struct conn *c)
{
	if (c->peer->connects)
		return c->stands ? HELLO_WITHIN_MS : CONNECT_WITHIN_MS;
	return c->rank == CONN_UNPROVEN ? UNPROVEN_WITHIN_MS : HELLO_WITHIN_MS;
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	uint64_t now_ns = clock_now_ns();
	struct peer *p = arg;

	(void)fd;
	(void)what;
	set_listening(p, true);
	for (unsigned i = 0; i < PENDING_MAX; i++)
		if (p->pending[i] != NULL &&
		    now_ns - p->pending[i]->opened_ns >= patience_ms(p->pending[i]) * NS_PER_MS)
			conn_fail(p->pending[i], "no answer");
	if (p->conn != NULL)
		check_conn(p->conn, now_ns);
	look_at_days(p);
}

/* --- from outside --- */

static int start_clock(struct peer *p)
{
	const struct timeval every = {.tv_sec = PING_EVERY_MS / 1000};

	p->retry = evtimer_new(p->base, on_retry, p);
	p->tick = event_new(p->base, -1, EV_PERSIST, on_tick, p);
	if (p->retry == NULL || p->tick == NULL || event_add(p->tick, &every) < 0)
		return -ENOMEM;
	return 0;
}

static void init_limits(struct peer *p)
{
	p->backoff_ms = BACKOFF_MIN_MS;
	p->accepts = (struct log_limit){.window_ns = NS_PER_S, .burst = ACCEPTS_PER_S};
	p->accepts_proven = (struct log_limit){.window_ns = NS_PER_S, .burst = ACCEPTS_PROVEN_PER_S};
	p->news = (struct log_limit){.window_ns = 60 * NS_PER_S, .burst = TROUBLES_PER_MIN};
	p->strangers = (struct log_limit){.window_ns = 60 * NS_PER_S, .burst = 1};
	p->troubles = (struct log_limit){.window_ns = 60 * NS_PER_S, .burst = 1};
}

static int new_boot_id(uint32_t *id)
{
	do {
		if (getrandom(id, sizeof(*id), 0) != sizeof(*id))
			return -EIO;
	} while (*id == 0);
	return 0;
}

int peer_start(const struct link_config *c, const struct arena_life *life, struct event_base *base,
               const struct peer_user *user, struct peer **out, char err[CONFIG_ERR_MAX])
{
	struct peer *p = secret_map(sizeof(*p)); /* it holds the key on offer */
	int r;

	snprintf(err, CONFIG_ERR_MAX, "cannot start the control channel");
	if (p == NULL)
		return -ENOMEM;
	p->base = base;
	p->user = *user;
	snprintf(p->name, sizeof(p->name), "%s", c->name);
	memcpy(p->paths, c->paths, sizeof(p->paths));
	p->npaths = c->npaths;
	p->tried = c->npaths - 1;
	p->connects = memcmp(&c->paths[0].local, &c->paths[0].remote, sizeof(c->paths[0].local)) < 0;
	init_limits(p);
	hello_from_config(&p->here, c);
	p->here.arena_epoch = life->epoch;
	p->here.arena_former = (uint8_t)life->former;
	p->here.session = 1;
	r = new_boot_id(&p->here.boot_id);
	if (r == 0)
		r = tls_open(c, &p->tls, err);
	if (r == 0 && p->tls != NULL && tls_proof_is_public(p->tls))
		log_info("link %s: CA=%s: may be read by others than its owner: with mode 600, no user of this "
		         "machine can pass for an edge before TLS finds out",
		         p->name, c->ca_file);
	if (r == 0)
		r = start_clock(p);
	if (r == 0 && !p->connects)
		r = start_listening(p, err);
	if (r < 0) {
		peer_stop(p);
		return r;
	}
	take_expiry(p);
	look_at_days(p);
	if (p->connects)
		try_connect(p);
	*out = p;
	return 0;
}

void peer_reread_keys(struct peer *p, const struct link_config *c)
{
	char err[CONFIG_ERR_MAX];
	struct tls *t;

	if (p->tls == NULL)
		return;
	if (tls_open(c, &t, err) < 0) {
		log_err("link %s: the old keys stay in use: %s", p->name, err);
		return;
	}
	close_pending(p); /* their handshakes ask what is about to be freed */
	tls_close(p->tls);
	p->tls = t;
	take_expiry(p);
	look_at_days(p);
}

void peer_reconfigure(struct peer *p, const struct link_config *c)
{
	struct hello next = p->here;

	peer_reread_keys(p, c);
	hello_from_config(&next, c);
	p->here.rate_bps = next.rate_bps; /* each end's own business: goes out with the next hello */
	if (p->status.met)
		look_at_rates(p);
	if (memcmp(&next, &p->here, sizeof(next)) == 0)
		return;
	next.session++;
	p->here = next;
	if (p->conn != NULL)
		send_hello(p->conn);
	for (unsigned i = 0; i < PENDING_MAX; i++)
		if (p->pending[i] != NULL && p->pending[i]->rank == CONN_AUTHENTICATED)
			send_hello(p->pending[i]);
	if (p->status.met)
		reconsider(p);
}

void peer_retry(struct peer *p)
{
	if (!p->connects || p->conn != NULL)
		return;
	p->backoff_ms = BACKOFF_MIN_MS;
	if (p->pending[0] != NULL)
		conn_close(p->pending[0]); /* its SYN may have gone nowhere; tries again */
	else
		retry_later(p);
}

void peer_stop(struct peer *p)
{
	p->connects = false; /* no new attempt */
	close_pending(p);
	if (p->conn != NULL)
		conn_close(p->conn);
	stop_listening(p);
	accept_queue_free(p->unjudged);
	if (p->resume != NULL)
		event_free(p->resume);
	tls_close(p->tls);
	if (p->retry != NULL)
		event_free(p->retry);
	if (p->tick != NULL)
		event_free(p->tick);
	secret_unmap(p, sizeof(*p));
}

void peer_status(const struct peer *p, struct peer_status *s)
{
	*s = p->status;
	s->there = p->there;
}
