/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h - the control channel of a link: TCP between the two edges, on the main thread. */
#ifndef DAEMON_PEER_H
#define DAEMON_PEER_H

#include "hello.h"
#include "tls.h"

struct event_base;
struct peer;

#define PEER_WHY_MAX 320

/* Callbacks of the control channel. */
struct peer_user {
	/* Both edges have said hello and can carry: begin a session. tx: the secret to seal with, NULL: not sealed. */
	void (*session)(void *arg, const struct proxy_session *s, const struct seal_secret *tx);
	/* The other edge is about to seal with rx. When all workers have its keys: peer_keys_taken(). If some worker
	 * cannot take them, call peer_take_keys_again() after a while; until then the other edge sends nothing. */
	void (*keys)(void *arg, const struct seal_secret *rx, uint32_t serial);
	/* Tells, at each hello and before it is acted on, whether the edges agree. If they do not, the session in force
	 * is one that they agreed on before; it goes on until another one begins, if one can. May be NULL. Must not
	 * stop the peer. */
	void (*agreed)(void *arg, bool agreed);
	/* Tells, at each hello, the other edge's barrier, and whether it is on because its buffer owes packets. May be
	 * NULL. Must not stop the peer. */
	void (*barrier)(void *arg, enum barrier_mode there, bool owed);
	void *arg;
};

/* Does everything that may fail: reads the keys, and takes the ports if this edge listens. Incoming connections are
 * answered once the event loop runs, which must be after peer_run(). 0, or negative errno with err a sentence. */
int peer_open(const struct link_config *c, struct event_base *base, const struct peer_user *user, struct peer **p,
              char err[CONFIG_ERR_MAX]);
/* c: as given to peer_open(). From now on listens or connects, and says hello, with this epoch of the arena. */
void peer_run(struct peer *p, const struct link_config *c, const struct arena_life *life);
/* The keys of that serial number are in place. */
void peer_keys_taken(struct peer *p, uint32_t serial);
/* Calls peer_user.keys once more for the offer of a key that was not answered yet. False: no offer waits, because its
 * connection has ended; the other edge repeats the offer over the next one. */
bool peer_take_keys_again(struct peer *p);
/* Reads the key files again, which may be new under their old names. True: the keys have changed, and the other edge
 * must prove itself under them: see `Reauthentication` in peer.c. */
bool peer_reread_keys(struct peer *p, const struct link_config *c);
/* Sends a new hello if the other edge must know the change; a new session begins then. */
void peer_reconfigure(struct peer *p, const struct link_config *c);
/* Some worker is not in the last session: begins another session with the same edge, if the edge is connected and none
 * is being begun. If the last one was the session without a peer (begin_void_session()), begins that once more. */
void peer_renew(struct peer *p);
/* The way to the other edge may be there again: an edge that connects and is not connected tries at once. */
void peer_retry(struct peer *p);
/* Call before peer_stop() if an operator stops the link or removes its file: tells the other edge, so that it raises no
 * alert. */
void peer_say_stopped(struct peer *p);
void peer_stop(struct peer *p);

/* Whether the session in force was proven under the keys in force: X(enumerator, printed name, what it means) */
#define REAUTH_STATES(X)                                                                                               \
	X(NONE, "none", "it was")                                                                                      \
	X(ASKED, "asked", "it was, but the other edge's keys have changed: this edge has to prove itself again")       \
	X(DUE, "due", "the keys here have changed: session and connection go on for ReauthWithin=")                    \
	X(FAILED, "failed", "there is no session: the other edge did not prove itself within ReauthWithin=")

#define X(e, name, text) REAUTH_##e,
enum peer_reauth { REAUTH_STATES(X) };
#undef X

struct peer_status {
	bool connected;               /* control channel up, hello received */
	bool met;                     /* hello received in this life of the link */
	bool in_session;              /* a session was begun */
	bool settling;                /* the session has just replaced another one with the same edge: silence does not
	                               * mean a dead edge yet */
	bool stopped_there;           /* the other edge's last message: an operator has stopped the link there */
	enum hello_verdict verdict;   /* of the last hello; valid if met */
	char text[HELLO_TEXT_MAX];    /* why not HELLO_AGREED */
	char rates[HELLO_TEXT_MAX];   /* hello_rates(): empty if there is nothing to say */
	struct hello there;           /* valid if met */
	struct proxy_session session; /* valid if in_session */
	uint64_t sessions;            /* begun so far */
	uint64_t offer_age_ns;        /* for how long the connected edge has not taken the keys of the next session; 0:
	                               * it has */
	uint64_t rtt_ns;              /* of the control channel; 0: not measured */
	uint64_t refused_connections; /* from other addresses, or too many, or with bytes that no edge sends */
	uint64_t unproven_connections; /* accepted although their first bytes proved nothing */
	struct tls_expiry expiry;      /* of the keys in force */
	bool clock_known;
	int64_t clock_ahead_ns;     /* the other edge's wall clock less this one's; valid if clock_known */
	uint64_t clock_jumps;       /* of this machine's wall clock, since the link began */
	int64_t clock_jump_ns;      /* the last of them; negative: backwards */
	uint64_t clock_jump_age_ns; /* since then */
	char trouble[PEER_WHY_MAX];   /* why the last connection failed; empty while connected */
	enum peer_reauth reauth;
	uint64_t reauth_left_ns;           /* valid if REAUTH_DUE */
	char reauth_trouble[PEER_WHY_MAX]; /* why the last second connection (reauthentication) failed; empty: none
	                                    * did */
};

void peer_status(const struct peer *p, struct peer_status *s);

#endif
