/* SPDX-License-Identifier: Apache-2.0 */
/* peer_priv.h - what the files of the control channel share: peer.c (sessions, keys, the clock), peer_conn.c (a
 * connection), peer_accept.c (those that come in). */
#ifndef DAEMON_PEER_PRIV_H
#define DAEMON_PEER_PRIV_H

#include "peer.h"

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#include "accept_queue.h"
#include "cert_days.h"
#include "peer_clock.h"
#include "daemon/util/log.h"

enum peer_limits {
	PING_EVERY_MS = 1000,
	SILENCE_MAX_MS = 3000,
	HELLO_WITHIN_MS = 5000, /* connecting, and the first hello */
	BACKOFF_MIN_MS = 100,
	BACKOFF_MAX_MS = 200,      /* a SYN that is refused costs nothing; traffic waits for one that is not */
	ACCEPTS_PER_S = 10,        /* of connections without a proof */
	ACCEPTS_PROVEN_PER_S = 50, /* and with one, which whoever sees the line can send once more */
	ACCEPTS_PER_TURN = 64,     /* of the event loop, which has others to serve */
	PENDING_MAX = 8,
	UNPROVEN_MAX = 2,         /* of these */
	SESSION_SETTLES_MS = 1000, /* the first datagram of a session that follows another comes within a round trip */
	OFFER_WITHIN_MS = 3000, /* an offered key is taken within a round trip and some milliseconds; else it is offered again */
	REAUTH_EVERY_MS = 1000,   /* attempts beside a connection that is in use, and requests for one */
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
	uint8_t keys[TLS_FINGERPRINT_LEN]; /* those that it was made with, if it does */
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
	struct log_limit accepts, accepts_proven, strangers, troubles, news, verdicts;

	struct hello here, there;
	struct peer_status status; /* without `there` */
	struct cert_days cert, ca;
	struct peer_clock clock;

	bool session_due;         /* agreed upon, waits for the key that was offered */
	struct seal_secret offer; /* what will seal it */
	uint32_t offer_serial;    /* counts offers of this life */
	uint64_t offered_ns;      /* the last try of it, made or not */
	uint64_t due_since_ns;    /* the first one of a session_due; it outlives connections */
	uint32_t taking_serial;   /* of the other edge's last offer */
	uint32_t taking_epoch;    /* what it said with it */
	bool taking;              /* it came over `conn`, and is not answered */

	uint8_t session_keys[TLS_FINGERPRINT_LEN]; /* those that the session in force was proven under */
	uint32_t session_boot_id;     /* of the other edge in that session; 0: there is none */
	bool is_void;                 /* the workers' session is that of begin_void_session(), and there is no other */
	uint64_t settled_ns;          /* from then on silence means that the other edge is dead */
	uint64_t reauth_within_ns;
	uint64_t reauth_since_ns; /* since then they, or the connection's, are not the ones in force; 0: they are */
	uint64_t reauth_asked_ns; /* the other edge's last request for a new connection; 0: the one there is came after it */
};

/* --- peer_conn.c --- */

extern const char peer_not_ours[]; /* why a connection is closed that speaks another protocol */

/* Takes the socket over, also if it fails. */
struct conn *peer_conn_open(struct peer *p, int fd);
/* TCP stands, or TLS does. */
void peer_conn_connected(struct conn *c);
void peer_conn_send(struct conn *c, enum peer_msg_type type, const uint8_t *body, uint16_t len);
void peer_conn_hello(struct conn *c);
/* A ping, and what this machine's wall clock shows. */
void peer_conn_ping(struct conn *c);
/* Hands the kernel what waits to be written, as far as it takes it: the last word before peer_conn_close(). */
void peer_conn_flush(struct conn *c);
/* It is not pending any more. */
void peer_conn_forget(const struct conn *c);
void peer_conn_close(struct conn *c);
void peer_conn_close_pending(struct peer *p);
/* Ends a connection and says why; attempts that fail one after the other are said once a minute. */
void peer_conn_fail(struct conn *c, const char *why);

/* --- peer_accept.c --- */

/* 0, or negative errno with err a sentence. */
int peer_listen(struct peer *p, char err[CONFIG_ERR_MAX]);
void peer_listen_stop(struct peer *p);
/* On, or not for a while. */
void peer_listen_enable(struct peer *p, bool on);

/* --- peer.c --- */

/* False: c was closed. */
bool peer_take_hello(struct peer *p, struct conn *c, const struct hello *h);
/* False: c was closed. */
bool peer_take_key(struct conn *c, const uint8_t *body);
void peer_take_ready(struct conn *c, const uint8_t *body);
void peer_take_stopped(struct peer *p);
void peer_take_reauth(struct peer *p);
/* Keys have changed, here or there, and no connection was made under them yet. */
bool peer_wants_proof(const struct peer *p);
/* Connecting edge: there is none, or a newer one has to take its place. */
bool peer_wants_conn(const struct peer *p);
void peer_retry_later(struct peer *p);

#endif
