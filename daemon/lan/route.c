/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * The kernel answers within the system call, but behind locks that others may hold for long: a process that adds a
 * thousand routes, or a driver that resets its device. So one thread per link asks, and no worker waits: a question
 * goes through one ring of a worker, the answer comes back through another, and meanwhile the worker uses what it knows
 * (route_table.c). Changes that the kernel notifies go the same way as answers, in the order in which they were seen.
 * If a ring is full, a question is repeated after a second; for answers and changes a flag makes the worker ask about
 * everything. */
#define _GNU_SOURCE /* a thread's name */
#include "route.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "route_ask.h"
#include "daemon/util/spsc.h"
#include "daemon/util/thread.h"

#define QUESTIONS (2 * ROUTE_ASKS_AT_ONCE)
#define NEWS      (2 * QUESTIONS)
#define NICE      (-10) /* as the workers: a host's first packet waits for it */

enum news_kind { NEWS_FOUND, NEWS_CHANGED, NEWS_CHANGED_ALL };

struct news {
	enum news_kind kind;
	struct ip_addr dst;       /* FOUND */
	struct route_found found; /* FOUND; CHANGED: ifindex and via */
};

struct route_worker {
	struct spsc questions; /* struct ip_addr */
	struct spsc news;
	_Atomic bool lost; /* news were dropped because the ring was full */
	int fd;
	int asked_fd;             /* of the thread */
	struct route_table table; /* the worker's */
};

struct routes {
	struct route_ask *ask;
	int asked_fd;
	_Atomic bool stop;
	pthread_t thread;
	bool running;
	uint32_t nworkers;
	struct route_worker worker[];
};

static void ring(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: the eventfd is readable already */
}

/* --- the worker --- */

struct route_worker *route_worker(struct routes *r, uint32_t i)
{
	return &r->worker[i];
}

int route_fd(const struct route_worker *w)
{
	return w->fd;
}

enum route_answer route_lookup(struct route_worker *w, const struct ip_addr *dst, uint64_t now_ns,
                               const struct next_hop **hop)
{
	struct route_entry *e = route_table_get(&w->table, dst, now_ns);

	if (!e)
		return ROUTE_REFUSED;
	if (route_table_ask(&w->table, e, now_ns) && spsc_put(&w->questions, dst))
		ring(w->asked_fd);
	*hop = &e->found.hop;
	return e->found.answer;
}

void route_take(struct route_worker *w, uint64_t now_ns)
{
	struct news n;

	while (spsc_take(&w->news, &n)) {
		if (n.kind == NEWS_FOUND)
			route_table_found(&w->table, &n.dst, &n.found, now_ns);
		else if (n.kind == NEWS_CHANGED)
			route_table_changed(&w->table, n.found.ifindex, &n.found.via);
		else
			route_table_changed_all(&w->table);
	}
	if (atomic_load_explicit(&w->lost, memory_order_relaxed) && atomic_exchange(&w->lost, false))
		route_table_changed_all(&w->table);
}

/* --- the thread --- */

static void tell(struct route_worker *w, const struct news *n)
{
	if (!spsc_put(&w->news, n))
		atomic_store(&w->lost, true);
	ring(w->fd);
}

static void on_change(void *arg, int ifindex, const struct ip_addr *via)
{
	struct routes *r = arg;
	struct news n = {.kind = NEWS_CHANGED_ALL};

	if (ifindex)
		n = (struct news){.kind = NEWS_CHANGED, .found = {.ifindex = ifindex, .via = *via}};
	for (uint32_t i = 0; i < r->nworkers; i++)
		tell(&r->worker[i], &n);
}

static bool stops(struct routes *r)
{
	return atomic_load_explicit(&r->stop, memory_order_acquire);
}

/* One question of a worker. False if it has none. */
static bool answer_one(struct routes *r, struct route_worker *w)
{
	struct news n = {.kind = NEWS_FOUND};

	if (!spsc_take(&w->questions, &n.dst))
		return false;
	route_ask(r->ask, &n.dst, &n.found);
	tell(w, &n);
	return true;
}

/* Answers the workers in turns, so that one worker's many questions do not delay the others. */
static void answer_all(struct routes *r)
{
	bool more = true;

	while (more && !stops(r)) {
		more = false;
		for (uint32_t i = 0; i < r->nworkers; i++)
			more |= answer_one(r, &r->worker[i]);
	}
}

static void *route_main(void *arg)
{
	struct routes *r = arg;
	struct pollfd fds[] = {{.fd = r->asked_fd, .events = POLLIN}, {.fd = route_ask_fd(r->ask), .events = POLLIN}};
	uint64_t count;

	pthread_setname_np(pthread_self(), "lr:routes");
	setpriority(PRIO_PROCESS, 0, NICE);
	while (!stops(r)) {
		if (poll(fds, 2, -1) <= 0)
			continue;
		if (fds[1].revents)
			route_ask_changes(r->ask, on_change, r);
		if (fds[0].revents && read(r->asked_fd, &count, sizeof(count)) > 0)
			answer_all(r);
	}
	return NULL;
}

/* --- life --- */

static bool open_worker(struct route_worker *w, int asked_fd)
{
	route_table_init(&w->table);
	w->asked_fd = asked_fd;
	w->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return w->fd >= 0 && spsc_init(&w->questions, QUESTIONS, sizeof(struct ip_addr)) &&
	       spsc_init(&w->news, NEWS, sizeof(struct news));
}

static bool open_workers(struct routes *r)
{
	bool ok = r->asked_fd >= 0;

	for (uint32_t i = 0; ok && i < r->nworkers; i++)
		ok = open_worker(&r->worker[i], r->asked_fd);
	return ok;
}

int route_open(struct routes **out, const char (*ports)[IF_NAMESIZE], uint32_t nports, uint32_t nworkers, char *err,
               size_t errlen)
{
	size_t len = sizeof(struct routes) + nworkers * sizeof(struct route_worker);
	struct routes *r = aligned_alloc(64, (len + 63) / 64 * 64);
	int e;

	if (!r) {
		snprintf(err, errlen, "next hops: out of memory");
		return -ENOMEM;
	}
	memset(r, 0, len);
	r->nworkers = nworkers;
	for (uint32_t i = 0; i < nworkers; i++)
		r->worker[i].fd = -1;
	r->asked_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	e = route_ask_open(&r->ask, ports, nports, err, errlen);
	if (e == 0 && !open_workers(r)) {
		snprintf(err, errlen, "next hops: out of memory or files");
		e = -ENOMEM;
	}
	if (e < 0) {
		route_close(r);
		return e;
	}
	*out = r;
	return 0;
}

void route_from(struct routes *r, const struct ip_addr *src)
{
	route_ask_from(r->ask, src);
}

int route_run(struct routes *r, char *err, size_t errlen)
{
	int e = thread_start(&r->thread, route_main, r);

	r->running = e == 0;
	if (e < 0)
		snprintf(err, errlen, "next hops: cannot start a thread: %s", strerror(-e));
	return e;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void route_close(struct routes *r)
{
	if (!r)
		return;
	if (r->running) {
		atomic_store_explicit(&r->stop, true, memory_order_release);
		ring(r->asked_fd);
		pthread_join(r->thread, NULL);
	}
	for (uint32_t i = 0; i < r->nworkers; i++) {
		close_fd(r->worker[i].fd);
		spsc_free(&r->worker[i].questions);
		spsc_free(&r->worker[i].news);
	}
	close_fd(r->asked_fd);
	if (r->ask)
		route_ask_close(r->ask);
	free(r);
}
