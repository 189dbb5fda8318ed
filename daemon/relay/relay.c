/* SPDX-License-Identifier: Apache-2.0 */
/* relay.c - the relay's thread: rings, sockets, and the order of its work. */
#define _GNU_SOURCE /* pthread_setname_np */
#include "relay_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/config/link_plan.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "daemon/util/thread.h"

#define NOTES_TURN 512 /* of a worker: between looks at the sockets */

/* --- the thread --- */

static void on_note(struct relay_thread *r, uint32_t worker, const struct relay_note *n)
{
	if (n->type == RELAY_CAME)
		relay_execute(r, &n->chunk);
	else if (n->type == RELAY_LINE) {
		r->line[worker].pace_bps = n->line.pace_bps;
		r->line[worker].free_bps = n->line.free_bps;
		r->line[worker].rtt_ns = n->line.rtt_ns;
	} else {
		relay_channel_note(r, n);
	}
}

/* stalled: a worker is behind with its commands, so its notes wait. */
static unsigned take_notes(struct relay_thread *r, bool *stalled)
{
	struct relay_note n;
	unsigned taken = 0;

	for (uint32_t w = 0; w < r->nworkers; w++)
		for (unsigned i = 0; i < NOTES_TURN; i++) {
			*stalled |= !relay_port_has_room(r->port[w]);
			if (!relay_port_has_room(r->port[w]) || !relay_port_note(r->port[w], &n))
				break;
			on_note(r, w, &n);
			taken++;
		}
	return taken;
}

static void drain(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
}

static void on_event(struct relay_thread *r, const struct epoll_event *ev)
{
	if (ev->data.u32 == EV_LISTEN)
		relay_client_accept(r);
	else if (ev->data.u32 == EV_NOTIFY)
		drain(r->notify_fd);
	else if (ev->data.u32 == EV_RDMA)
		relay_rdma_ready(r);
	else if (r->client[ev->data.u32].used)
		relay_client_ready(r, &r->client[ev->data.u32], ev->events);
}

static void wake_workers(struct relay_thread *r)
{
	for (uint32_t i = 0; i < r->nworkers; i++) {
		if (r->wake[i])
			relay_port_wake(r->worker[i]);
		r->wake[i] = false;
	}
}

void relay_say_hello(struct relay_thread *r)
{
	struct relay_head h = {.fence = true, .type = RW_HELLO, .value = r->instance, .length = RELAY_KNOWS_PIECES | RELAY_KNOWS_SPREAD};
	const struct dnode *messages = &r->channel[1].messages;

	for (const struct dnode *n = messages->next; n != messages; n = n->next)
		if (dlist_entry(n, struct relay_message, node)->head.type == RW_HELLO)
			return; /* a queued RW_HELLO tells the same */
	relay_say(&r->channel[1], &h, NULL, 0, 0);
}

/* Milliseconds to wait at most, for work without an event. */
static int how_long(const struct relay_thread *r, bool stalled)
{
	return stalled ? 1 : dlist_empty(&r->deferred) ? 1000 : 20;
}

static void *relay_main(void *arg)
{
	struct relay_thread *r = arg;
	struct epoll_event ev[32];
	char name[16]; /* the kernel keeps 15 characters */

	snprintf(name, sizeof(name), "lr:%.7s:rel", r->config.name);
	pthread_setname_np(pthread_self(), name);
	relay_say_hello(r);
	relay_rdma_open(r, NULL);
	while (!atomic_load_explicit(&r->stop, memory_order_acquire)) {
		bool stalled = false;
		unsigned busy = take_notes(r, &stalled);
		int n;

		stalled |= relay_gpu_turn(r);
		stalled |= relay_files_turn(r);
		stalled |= relay_rdma_turn(r);
		relay_execute_deferred(r);
		relay_channels_pump(r);
		wake_workers(r);
		n = epoll_wait(r->epoll_fd, ev, (int)(sizeof(ev) / sizeof(ev[0])), busy ? 0 : how_long(r, stalled));
		for (int i = 0; i < n; i++)
			on_event(r, &ev[i]);
	}
	return NULL;
}

/* --- life --- */

static int watch(struct relay_thread *r, int fd, uint32_t data)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = data};

	return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int open_all(struct relay_thread *r, char err[CONFIG_ERR_MAX])
{
	int rc = 0;

	r->region = calloc(RELAY_REGIONS, sizeof(*r->region));
	r->notify_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (!r->region || r->notify_fd < 0 || r->epoll_fd < 0 ||
	    getrandom(&r->instance, sizeof(r->instance), 0) != sizeof(r->instance))
		rc = -ENOMEM;
	r->instance |= 1; /* never 0 */
	for (uint32_t i = 0; rc == 0 && i < r->nworkers; i++) {
		r->port[i] = relay_port_new(r->notify_fd);
		if (!r->port[i])
			rc = -ENOMEM;
	}
	if (rc < 0) {
		snprintf(err, CONFIG_ERR_MAX, "no memory for the relay: %s", strerror(-rc));
		return rc;
	}
	rc = relay_client_listen(r, err);
	if (rc < 0)
		return rc;
	r->listen_fd = rc;
	rc = watch(r, r->listen_fd, EV_LISTEN);
	if (rc == 0)
		rc = watch(r, r->notify_fd, EV_NOTIFY);
	if (rc < 0)
		snprintf(err, CONFIG_ERR_MAX, "cannot wait for the relay's clients: %s", strerror(-rc));
	return rc;
}

int relay_open(struct relay_thread **out, const struct link_config *c, struct worker *const *workers, uint32_t nworkers,
               char err[CONFIG_ERR_MAX])
{
	struct relay_thread *r = calloc(1, sizeof(*r));
	int rc;

	if (!r) {
		snprintf(err, CONFIG_ERR_MAX, "no memory for the relay");
		return -ENOMEM;
	}
	r->config = *c;
	r->worker = workers;
	r->started_ns = clock_now_ns();
	r->nworkers = nworkers;
	r->nchannels = config_relay_channels(c);
	r->listen_fd = r->notify_fd = r->epoll_fd = -1;
	link_plan_relay_socket(c, r->path, sizeof(r->path));
	relay_thread_init(r);
	*out = r;
	rc = open_all(r, err);
	for (uint32_t i = 0; rc == 0 && i < nworkers; i++)
		worker_relay_open(workers[i], r->port[i]);
	return rc;
}

int relay_run(struct relay_thread *r, char err[CONFIG_ERR_MAX])
{
	int rc = thread_start(&r->thread, relay_main, r);

	if (rc < 0) {
		snprintf(err, CONFIG_ERR_MAX, "cannot start the relay's thread: %s", strerror(-rc));
		return rc;
	}
	r->running = true;
	return 0;
}

void relay_counts(const struct relay_thread *r, struct relay_counts *c)
{
#define X(name, text) c->name = atomic_load_explicit(&r->count.name, memory_order_relaxed);
	RELAY_COUNTERS(X)
#undef X
	c->rdma_clients = atomic_load_explicit(&r->count.rdma_clients, memory_order_relaxed);
	c->unclosed = relay_files_unclosed(r);
	relay_files_silent(r, c->silent_file);
}

void relay_stop(struct relay_thread *r)
{
	static const uint64_t one = 1;

	if (!r || !r->running)
		return;
	atomic_store_explicit(&r->stop, true, memory_order_release);
	if (write(r->notify_fd, &one, sizeof(one)) < 0)
		log_err("link %s: cannot wake the relay's thread: %s", r->config.name, strerror(errno));
	pthread_join(r->thread, NULL);
	r->running = false;
}

static void free_deferred(struct relay_thread *r)
{
	struct dnode *n;

	while ((n = dlist_first(&r->deferred))) {
		dlist_remove(n);
		free(dlist_entry(n, struct relay_deferred, node));
	}
}

static void free_ops(struct relay_thread *r)
{
	for (uint32_t i = 0; i < RELAY_OPS; i++) {
		struct relay_op *op = r->op[i];

		if (!op)
			continue;
		if (op->memory)
			relay_memory_unref(r, op->memory);
		relay_file_unref(op->file);
		relay_pieces_unref(op->pieces);
		free(op->request);
		free(op->reply);
		free(op);
	}
	for (uint32_t i = 0; i < RELAY_CALLS; i++)
		free(r->call[i].data);
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void relay_close(struct relay_thread *r)
{
	if (!r)
		return;
	if (r->listen_fd >= 0)
		unlink(r->path);
	for (uint32_t i = 0; i < RELAY_CLIENTS; i++)
		relay_client_drop(r, &r->client[i]);
	relay_rdma_close(r);
	free_deferred(r);
	for (uint32_t i = 0; i < r->nchannels; i++)
		relay_channel_free(r, &r->channel[i]);
	free_ops(r);
	relay_gpu_close(r);
	relay_files_close(r); /* last: everything before it may close descriptors */
	for (uint32_t i = 0; i < r->nworkers; i++)
		relay_port_free(r->port[i]);
	close_fd(r->listen_fd);
	close_fd(r->notify_fd);
	close_fd(r->epoll_fd);
	free(r->region);
	free(r);
}
