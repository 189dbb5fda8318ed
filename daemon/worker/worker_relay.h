/* SPDX-License-Identifier: Apache-2.0 */
/* worker_relay.h - the rings between the relay's thread and a worker, which alone calls the core.
 *
 * The relay's thread asks for slots, fills and commits them, and tells which chunks are done; the worker answers by
 * notes. The relay's thread owns a slot from its note until its command. */
#ifndef DAEMON_WORKER_RELAY_H
#define DAEMON_WORKER_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/proxy.h"

struct worker;
struct relay_port;

#define RELAY_TAKES_MAX 128 /* slots asked for on a channel and not received yet */

enum relay_command_type { RELAY_TAKE, RELAY_COMMIT, RELAY_GIVE_UP, RELAY_FINISH };

struct relay_command {
	enum relay_command_type type;
	uint32_t channel; /* TAKE, COMMIT */
	uint32_t slot;    /* the others */
	uint16_t len;     /* TAKE */
	bool answer;      /* TAKE: proxy_relay_take() */
	bool tell;        /* COMMIT: a note says when it is done */
	uint64_t token;   /* TAKE, COMMIT: comes back in the note */
};

enum relay_note_type {
	RELAY_TAKEN,     /* token, chunk */
	RELAY_REFUSED,   /* token: the peer has no relay */
	RELAY_COMMITTED, /* token */
	RELAY_CAME,      /* chunk: to be executed */
	RELAY_MOVED,     /* channel, status: it has changed */
	RELAY_LINE,      /* line: now and then */
};

struct relay_note {
	enum relay_note_type type;
	uint32_t channel;
	uint64_t token;
	union {
		struct relay_chunk chunk;
		struct relay_status status;
		struct {
			uint64_t pace_bps, free_bps; /* of the line, and what the worker left of it lately */
			uint64_t rtt_ns;
		} line;
	};
};

/* notify_fd: an eventfd that is written when there are notes. NULL: no memory. */
struct relay_port *relay_port_new(int notify_fd);
void relay_port_free(struct relay_port *r);
/* Relay's thread. Returns false if the ring is full: after relay_port_wake() there is room soon. */
bool relay_port_command(struct relay_port *r, const struct relay_command *c);
bool relay_port_note(struct relay_port *r, struct relay_note *n);
/* Relay's thread: true if the ring of commands has room for the commands that follow from one note, and for slot
 * requests on all channels. */
bool relay_port_has_room(struct relay_port *r);
/* Relay's thread: the worker looks at the commands. */
void relay_port_wake(struct worker *w);

/* The memory that chunks are in, for a device that is to reach it. */
void *worker_relay_arena(const struct worker *w, size_t *len);
/* worker_relay_open(): gives the worker its port, before it runs. worker_run_relay(): a turn's work for it. Returns how
 * many commands and notes there were. */
void worker_relay_open(struct worker *w, struct relay_port *r);
unsigned worker_run_relay(struct worker *w);

#endif
