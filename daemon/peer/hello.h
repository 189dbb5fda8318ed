/* SPDX-License-Identifier: Apache-2.0 */
/* hello.h - what the two edges of a link tell each other before they carry anything: the messages on the wire, and
 * whether two hellos fit together. Pure: no socket, no clock.
 *
 * The control channel is a byte stream of messages: 16-bit body length, 8-bit type, 8-bit zero, body; all big-endian. A
 * message of unknown type is skipped by its length. */
#ifndef DAEMON_HELLO_H
#define DAEMON_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/config/config.h"
#include "proxy/proxy.h"

#define PEER_VERSION     3 /* of the messages, of the WAN frames, and of what both mean */
#define PEER_VERSION_MIN 2 /* the oldest that this edge can still speak */

enum peer_msg_type {
	MSG_HELLO = 1,
	MSG_PING = 2, /* 8 bytes that come back in PONG */
	MSG_PONG = 3,
	MSG_KEY = 4,       /* serial(4) epoch(4): the sender is about to seal with the secret of this serial and
	                    * epoch */
	MSG_KEY_READY = 5, /* serial(4): the sender can open datagrams sealed with that key */
	MSG_STOPPED = 6,   /* no body: an operator has stopped the sender's link: its silence is no fault until the next
	                    * hello */
	MSG_CLOCK = 7,     /* 8 bytes: what the sender's CLOCK_REALTIME shows, in ns */
	MSG_REAUTH = 8,    /* no body: the sender's keys have changed since this connection was made: the sender asks
	                    * for another connection */
	MSG_TYPES,
};

#define PEER_HEADER_LEN 4
#define PEER_BODY_MAX   2048 /* a hello with all prefixes fits, and one of a later version with more in it */
#define PEER_PING_LEN   8
#define PEER_KEY_LEN    8
#define PEER_READY_LEN  4
#define PEER_CLOCK_LEN  8

struct peer_msg {
	uint8_t type;
	uint16_t len;
	const uint8_t *body;
};

/* Takes the next message from `len` bytes. Returns the message's length; 0: the message is incomplete; -EPROTO: no
 * correct peer sends this. */
int peer_msg_next(const uint8_t *data, size_t len, struct peer_msg *m);
/* Writes the header; the body follows at out + PEER_HEADER_LEN. */
void peer_msg_header(uint8_t out[PEER_HEADER_LEN], enum peer_msg_type type, uint16_t body_len);

/* What became of the buffer that an edge had before its present one. */
enum arena_former {
	FORMER_UNKNOWN, /* sent by a version without this field */
	FORMER_KEPT,    /* the former buffer is still in use, or was empty */
	FORMER_LOST,    /* a former buffer, if there was one, is lost with its contents, and the other edge may not
	                 * have heard so before the present buffer */
};

struct arena_life {
	uint64_t epoch;
	enum arena_former former; /* the same at each start on the arena of that epoch */
	uint64_t peer_epoch;      /* of the other edge's arena in the last session before this start; 0: not known */
};

struct hello {
	uint8_t version, version_min;
	uint32_t boot_id;          /* random, new whenever the link starts in a daemon */
	uint32_t session;          /* counts this edge's hellos in this boot: changes whenever its hello changes */
	uint64_t arena_epoch;      /* epoch of the buffer */
	uint8_t arena_former;      /* enum arena_former */
	uint64_t peer_arena_epoch; /* the other edge's in the last session; 0: there was none */
	uint64_t rate_bps;
	uint16_t wan_mtu;
	uint16_t lanes;
	uint8_t cipher;           /* enum seal_cipher */
	uint8_t fec;              /* enum fec_mode; off: received repairs are ignored */
	uint8_t relay_channels;   /* 0: no relay */
	uint8_t ack_mode;         /* enum ack_mode; later versions may know more */
	struct pair_mode pair_modes[PAIR_MODES_MAX];
	uint32_t npair_modes;
	uint8_t barrier;          /* enum barrier_mode */
	bool barrier_owed;        /* the barrier is on because the sender's buffer owes packets: the other edge's
	                           * Barrier=auto follows */
	char paths[PATHS_MAX][PATH_NAME_MAX]; /* names in order: a path's index is its number */
	uint32_t npaths;          /* 0: sent by a version that knows only one path */
	uint64_t host_groups;     /* host_groups_digest(); 0: none, or a version that knows none */
	char name[LINK_NAME_MAX]; /* the link's name at that edge: informative, not compared */
	struct ip_prefix local[PREFIXES_MAX], remote[PREFIXES_MAX];
	uint32_t nlocal, nremote;
};

void hello_from_config(struct hello *h, const struct link_config *c);
/* Returns the body's length; it always fits. */
uint16_t hello_encode(const struct hello *h, uint8_t body[PEER_BODY_MAX]);
/* 0, or -EPROTO. Ignores fields that a later version has added at the end. */
int hello_decode(const uint8_t *body, size_t len, struct hello *h);

enum hello_verdict {
	HELLO_AGREED,
	HELLO_MISMATCH, /* carried, but never acknowledged early */
	HELLO_REFUSED,  /* nothing can be carried */
};

#define HELLO_TEXT_MAX 384

/* Compares two hellos. text: which keys differ, with both values; empty if none does. */
enum hello_verdict hello_compare(const struct hello *here, const struct hello *there, char text[HELLO_TEXT_MAX]);

/* Rate= of the two edges may differ, for a line that is faster in one direction. text: the consequence if they differ
 * so much that it is probably a mistake, or that hosts will notice; else empty. */
void hello_rates(const struct hello *here, const struct hello *there, char text[HELLO_TEXT_MAX]);

/* Computes the session's epochs, crosswise the same at both edges and new whenever either edge has started or changed
 * its hello; and whether a buffer that the other edge knew is lost. */
void hello_epochs(const struct hello *here, const struct hello *there, struct proxy_session *s);

const char *ack_mode_name(unsigned mode);
const char *barrier_mode_name(unsigned mode);

#endif
