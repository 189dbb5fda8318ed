/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h - the control channel of a link: TCP between the two edges, on the main thread. */
#ifndef DAEMON_PEER_H
#define DAEMON_PEER_H

#include "hello.h"
#include "tls.h"

struct event_base;
struct peer;

#define PEER_WHY_MAX 320

/* What the control channel wants done. */
struct peer_user {
	/* Both edges have said hello and can carry: begin a session. tx: what to seal with, NULL: not sealed. */
	void (*session)(void *arg, const struct proxy_session *s, const struct seal_secret *tx);
	/* The other edge is about to seal with rx. When all workers have its keys: peer_keys_taken(). If some cannot have them:
	 * peer_take_keys_again(), after a while; until then the other edge sends nothing. */
	void (*keys)(void *arg, const struct seal_secret *rx, uint32_t serial);
	/* Whether the edges agree, at each hello, before anything is made of it: where they do not, the session in force is one that
	 * they agreed upon before, and goes on until another one begins, if one can. May be NULL. Must not stop the peer. */
	void (*agreed)(void *arg, bool agreed);
	/* What the other edge's barrier is, and whether for what its buffer owes; as often as it says hello. May be NULL. Must
	 * not stop the peer. */
	void (*barrier)(void *arg, enum barrier_mode there, bool owed);
	void *arg;
};

/* All that a start may fail for: reads the keys, and takes the ports if this edge is the one that listens. What comes in
 * is answered once the event loop turns, which has to be behind peer_run(). 0, or negative errno with err a sentence. */
int peer_open(const struct link_config *c, struct event_base *base, const struct peer_user *user, struct peer **p,
              char err[CONFIG_ERR_MAX]);
/* c as it was opened with. Says hello from now on, with this life of the arena: listens or connects, and goes on doing
 * so. */
void peer_run(struct peer *p, const struct link_config *c, const struct arena_life *life);
/* The keys of that serial number are in place. */
void peer_keys_taken(struct peer *p, uint32_t serial);
/* Calls peer_user.keys once more for the offer of a key that was not answered yet. False: none waits, as the connection
 * that it came over has ended; the other edge makes it again over the next one. */
bool peer_take_keys_again(struct peer *p);
/* The key files may be new ones under their old names. If they say something new, the other edge has to prove itself under
 * them: see `reauthentication` in peer.c. True: they do. */
bool peer_reread_keys(struct peer *p, const struct link_config *c);
/* Says what has changed, if the other edge should know; a new session begins then. */
void peer_reconfigure(struct peer *p, const struct link_config *c);
/* Some worker was left without the last session: begins another one with the same edge, if that is connected and none is
 * being begun; or, where the last was the session of nobody that ends an unproven one, that once more. */
void peer_renew(struct peer *p);
/* The way to the other edge may be there again: an edge that connects and is not connected tries at once. */
void peer_retry(struct peer *p);
/* Before peer_stop(), where an operator stops the link or takes its file away: the other edge is told, so that it wakes
 * nobody. */
void peer_say_stopped(struct peer *p);
void peer_stop(struct peer *p);

/* Whether the session in force was proven under the keys in force: X(enumerator, printed name, what it means) */
#define REAUTH_STATES(X)                                                                                               \
	X(NONE, "none", "it was")                                                                                      \
	X(ASKED, "asked", "it was, but the other edge's keys have changed and it wants a new proof")                   \
	X(DUE, "due", "the keys here have changed: session and connection go on for ReauthWithin=")                    \
	X(FAILED, "failed", "there is no session, as the other edge did not prove itself in time")

#define X(e, name, text) REAUTH_##e,
enum peer_reauth { REAUTH_STATES(X) };
#undef X

struct peer_status {
	bool connected;               /* control channel up, hello received */
	bool met;                     /* hello received in this life of the link */
	bool in_session;              /* a session was begun */
	bool settling;                /* it has just taken the place of another with the same edge: not yet heard is not dead */
	bool stopped_there;           /* the other edge's last word: an operator has stopped the link there */
	enum hello_verdict verdict;   /* of the last hello; valid if met */
	char text[HELLO_TEXT_MAX];    /* why not HELLO_AGREED */
	char rates[HELLO_TEXT_MAX];   /* hello_rates(): empty if there is nothing to say */
	struct hello there;           /* valid if met */
	struct proxy_session session; /* valid if in_session */
	uint64_t sessions;            /* begun so far */
	uint64_t offer_age_ns;        /* how long the other edge, which is connected, has not taken the keys of the next one; 0: it has */
	uint64_t rtt_ns;              /* of the control channel; 0: not measured */
	uint64_t refused_connections; /* from strangers, or too many, or not what an edge sends */
	uint64_t unproven_connections; /* looked at though their first bytes proved nothing */
	struct tls_expiry expiry;      /* of the keys in force */
	bool clock_known;
	int64_t clock_ahead_ns;     /* the other edge's wall clock less this one's; valid if clock_known */
	uint64_t clock_jumps;       /* of this machine's wall clock, since the link began */
	int64_t clock_jump_ns;      /* the last of them; negative: backwards */
	uint64_t clock_jump_age_ns; /* since then */
	char trouble[PEER_WHY_MAX];   /* why the last connection came to nothing; empty while connected */
	enum peer_reauth reauth;
	uint64_t reauth_left_ns;           /* valid if REAUTH_DUE */
	char reauth_trouble[PEER_WHY_MAX]; /* why the last connection beside one in use came to nothing; empty: none did */
};

void peer_status(const struct peer *p, struct peer_status *s);

#endif
