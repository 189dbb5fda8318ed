/* SPDX-License-Identifier: Apache-2.0 */
/* accept_queue.h - accepted connections whose first bytes have not been judged yet.
 *
 * A connection costs a descriptor and a few dozen bytes of memory here. It is judged when it comes, when bytes come,
 * and once more before it has to make room: a connection whose first bytes are there is never closed unjudged. */
#ifndef DAEMON_ACCEPT_QUEUE_H
#define DAEMON_ACCEPT_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct accept_queue;
struct event_base;

#define ACCEPT_LOOK_MAX 2048 /* first bytes that are looked at */

enum accept_verdict {
	ACCEPT_WAIT,   /* for more bytes */
	ACCEPT_REFUSE, /* is closed */
	ACCEPT_TAKEN,  /* the judge has it now */
};

struct accept_judge {
	/* data: the first bytes, which are still to be read from fd. */
	enum accept_verdict (*look)(void *arg, int fd, const uint8_t *data, size_t len);
	/* A connection was closed unjudged: too late, or to make room. */
	void (*dropped)(void *arg);
	void *arg;
};

struct accept_queue *accept_queue_new(struct event_base *base, const struct accept_judge *judge); /* NULL: no memory */
void accept_queue_free(struct accept_queue *q); /* closes what waits; NULL does nothing */
/* Takes fd over. */
void accept_queue_add(struct accept_queue *q, int fd);

#endif
