/* SPDX-License-Identifier: Apache-2.0 */
#include "accept_queue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "daemon/util/clock.h"

enum accept_limits {
	PLACES = 64,
	PATIENCE_S = 2, /* seconds from accept to the last of the first bytes */
};

struct place {
	struct accept_queue *queue;
	struct event *event; /* NULL: free */
	int fd;
	size_t seen; /* bytes at the last look */
	uint64_t order, until_ns;
};

struct accept_queue {
	struct event_base *base;
	struct accept_judge judge;
	uint64_t count;
	struct place place[PLACES];
};

static void on_ready(evutil_socket_t fd, short what, void *arg);

struct accept_queue *accept_queue_new(struct event_base *base, const struct accept_judge *judge)
{
	struct accept_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->base = base;
	q->judge = *judge;
	return q;
}

static void leave(struct place *p)
{
	event_free(p->event);
	p->event = NULL;
}

void accept_queue_free(struct accept_queue *q)
{
	for (unsigned i = 0; q && i < PLACES; i++) {
		if (q->place[i].event) {
			leave(&q->place[i]);
			close(q->place[i].fd);
		}
	}
	free(q);
}

static void wake_at(int fd, int bytes)
{
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

/* Looks at the bytes that have come. *seen: as in struct place. */
static enum accept_verdict look(struct accept_queue *q, int fd, size_t *seen)
{
	uint8_t data[ACCEPT_LOOK_MAX];
	ssize_t n = recv(fd, data, sizeof(data), MSG_PEEK | MSG_DONTWAIT);
	enum accept_verdict v;

	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? ACCEPT_WAIT : ACCEPT_REFUSE;
	if ((size_t)n <= *seen)
		return ACCEPT_REFUSE; /* readable without more bytes: the other end has closed */
	if (*seen > 0)
		wake_at(fd, 1); /* the new owner must be woken by every byte */
	*seen = (size_t)n;
	v = q->judge.look(q->judge.arg, fd, data, (size_t)n);
	if (v == ACCEPT_WAIT && n == ACCEPT_LOOK_MAX)
		return ACCEPT_REFUSE;
	if (v == ACCEPT_WAIT)
		wake_at(fd, (int)n + 1); /* the bytes stay unread: only further bytes may wake the event */
	return v;
}

static void drop(struct place *p)
{
	leave(p);
	close(p->fd);
	p->queue->judge.dropped(p->queue->judge.arg);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct place *p = arg;
	enum accept_verdict v = what & EV_READ ? look(p->queue, fd, &p->seen) : ACCEPT_WAIT;

	/* bytes that come one by one do not extend the deadline */
	if (v == ACCEPT_WAIT && (what & EV_TIMEOUT || clock_now_ns() >= p->until_ns)) {
		drop(p);
	} else if (v != ACCEPT_WAIT) {
		leave(p);
		if (v == ACCEPT_REFUSE)
			close(fd);
	}
}

/* Makes room: looks at the oldest connection once more, and closes it if its first bytes are not there. */
static struct place *make_room(struct accept_queue *q)
{
	struct place *oldest = &q->place[0];
	enum accept_verdict v;
	size_t seen = 0;

	for (unsigned i = 0; i < PLACES; i++) {
		if (!q->place[i].event)
			return &q->place[i];
		if (q->place[i].order < oldest->order)
			oldest = &q->place[i];
	}
	v = look(q, oldest->fd, &seen);
	if (v == ACCEPT_WAIT) {
		drop(oldest);
	} else {
		leave(oldest);
		if (v == ACCEPT_REFUSE)
			close(oldest->fd);
	}
	return oldest;
}

void accept_queue_add(struct accept_queue *q, int fd)
{
	static const struct timeval patience = {.tv_sec = PATIENCE_S};
	uint64_t until_ns = clock_now_ns() + PATIENCE_S * NS_PER_S;
	size_t seen = 0;
	enum accept_verdict v = look(q, fd, &seen);
	struct place *p;

	if (v == ACCEPT_TAKEN)
		return;
	p = v == ACCEPT_WAIT ? make_room(q) : NULL;
	if (p) {
		*p = (struct place){.queue = q, .fd = fd, .seen = seen, .order = ++q->count, .until_ns = until_ns};
		p->event = event_new(q->base, fd, EV_READ | EV_PERSIST, on_ready, p);
		if (p->event && event_add(p->event, &patience) == 0)
			return;
		if (p->event)
			leave(p);
	}
	close(fd);
}
