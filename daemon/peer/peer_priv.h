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
	BACKOFF_MAX_MS = 200,      /* a refused SYN costs nothing; traffic waits for an accepted one */
	ACCEPTS_PER_S = 10,        /* of connections without a proof */
	ACCEPTS_PROVEN_PER_S = 50, /* connections with a proof, which an observer of the line can replay */
	ACCEPTS_PER_TURN = 64,     /* in one turn of the event loop, which has other work, too */
	PENDING_MAX = 8,
	UNPROVEN_MAX = 2,         /* pending connections without a proof */
	SESSION_SETTLES_MS = 1000, /* the first datagram of a session that follows another comes within a round trip */
	OFFER_WITHIN_MS = 3000, /* an offered key is taken within a round trip and some milliseconds; else it is offered again */
	REAUTH_EVERY_MS = 1000,   /* interval of attempts at a second connection, and of requests for one */
	CONNECT_WITHIN_MS = 2000, /* TCP: a new attempt connects sooner than the fourth SYN of an old one */
	UNPROVEN_WITHIN_MS = 2000,
	TROUBLES_PER_MIN = 10,
	MESSAGES_PER_S = 50,                               /* pings and a few reloads; a correct peer sends no more */
	INPUT_MAX = 2 * (PEER_HEADER_LEN + PEER_BODY_MAX), /* bytes read but not yet understood */
	OUTPUT_MAX = 16 << 10,                             /* most bytes that wait for the other edge to read */
	LISTEN_BACKLOG = 1024, /* a flood must fill it first; then the kernel answers with SYN cookies */
};

/* How far the other end is proven: a higher rank is displaced later. */
enum conn_rank { CONN_UNPROVEN, CONN_PROVEN, CONN_AUTHENTICATED };

struct conn {
	struct peer *peer;
	enum conn_rank rank;
	bool stands; /* TCP is connected */
	struct bufferevent *bev;
	bool secure; /* speaks TLS */
	uint8_t keys[TLS_FINGERPRINT_LEN]; /* fingerprint of the keys that it was made with, if secure */
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
	struct event *resume; /* enables listeners that have paused for a turn of the event loop */
	uint32_t accepted;    /* since then */
	struct accept_queue *unjudged;
	struct conn *pending[PENDING_MAX]; /* no hello yet */
	struct conn *conn;                 /* the one in use */
	struct log_limit accepts, accepts_proven, strangers, floods, troubles, news, verdicts;

	struct hello here, there;
	struct peer_status status; /* without `there` */
	struct cert_days cert, ca;
	struct peer_clock clock;

	bool session_due;         /* agreed upon, waits for the key that was offered */
	struct seal_secret offer; /* what will seal it */
	uint32_t offer_serial;    /* counts offers of this life */
	uint64_t offered_ns;      /* when the offer was last tried */
	uint64_t due_since_ns;    /* since when session_due has waited; outlives connections */
	uint32_t taking_serial;   /* of the other edge's last offer */
	uint32_t taking_epoch;    /* the epoch in that offer */
	bool taking;              /* the offer came over `conn`, and is not answered yet */

	uint8_t session_keys[TLS_FINGERPRINT_LEN]; /* fingerprint of the keys that the session in force was proven
	                                            * under */
	uint32_t session_boot_id;     /* of the other edge in that session; 0: there is none */
	bool is_void;                 /* the workers' session is that of begin_void_session(), and there is no other */
	uint64_t settled_ns;          /* after this time silence means that the other edge is dead */
	uint64_t reauth_within_ns;
	uint64_t reauth_since_ns; /* since when session_keys, or the connection's keys, differ from those in force; 0:
	                           * they do not */
	uint64_t reauth_asked_ns; /* when the other edge last asked for a new connection; 0: not since the present one
	                           * was made */
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
/* Hands waiting bytes to the kernel, as far as it takes them: a last message before peer_conn_close(). */
void peer_conn_flush(struct conn *c);
/* Takes the connection out of the pending ones. */
void peer_conn_forget(const struct conn *c);
void peer_conn_close(struct conn *c);
void peer_conn_close_pending(struct peer *p);
/* Ends a connection and says why; attempts that fail one after the other are said once a minute. */
void peer_conn_fail(struct conn *c, const char *why);

/* --- peer_accept.c --- */

/* 0, or negative errno with err a sentence. */
int peer_listen(struct peer *p, char err[CONFIG_ERR_MAX]);
void peer_listen_stop(struct peer *p);
/* Enables or disables the listeners. */
void peer_listen_enable(struct peer *p, bool on);

/* --- peer.c --- */

/* False: c was closed. */
bool peer_take_hello(struct peer *p, struct conn *c, const struct hello *h);
/* False: c was closed. */
bool peer_take_key(struct conn *c, const uint8_t *body);
void peer_take_ready(struct conn *c, const uint8_t *body);
void peer_take_stopped(struct peer *p);
void peer_take_reauth(struct peer *p);
/* True if keys have changed, here or there, and no connection was made under them yet. */
bool peer_wants_proof(const struct peer *p);
/* Connecting edge: true if there is no connection, or a newer one must replace it. */
bool peer_wants_conn(const struct peer *p);
void peer_retry_later(struct peer *p);

#endif
