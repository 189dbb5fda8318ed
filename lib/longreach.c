/* SPDX-License-Identifier: Apache-2.0 */
/* longreach.c - liblongreach: messages over a socket, and events that come between answers. */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "longreach.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "lr_edges.h"
#include "lr_rdma.h"
#include "lr_wire.h"

#define RUN_DIR "/run/longreach"

/* An event that came before an awaited answer. */
struct kept {
	struct kept *next;
	size_t len;
	uint8_t bytes[];
};

/* The starts of the relay in which the handle has exported a name without a gap. */
struct lived {
	struct lived *next;
	char name[LR_NAME_MAX];
	uint32_t start[LR_STARTS]; /* the last one first; 0: none */
};

struct lr {
	int fd;
	struct lr_rdma *rdma; /* NULL: the handle is of a socket */
	struct sockaddr_un relay;
	uint32_t start, start_before; /* of the relay: this one's number, and that of the connection before; 0: none */
	struct lived *lived;
	uint32_t serial;
	struct kept *first, **last;
	struct kept *out; /* the event that the caller has */
	uint8_t buf[LR_MSG_MAX];
};

/* --- messages --- */

static int send_msg(struct lr *h, struct lr_msg *m, const void *data, size_t len, int fd)
{
	struct iovec iov[2] = {{m, sizeof(*m)}, {(void *)(uintptr_t)data, len}};
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2};

	if (fd >= 0) {
		struct cmsghdr *c;

		mh.msg_control = control.bytes;
		mh.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	if (h->rdma)
		return -EOPNOTSUPP;
	m->serial = ++h->serial;
	while (sendmsg(h->fd, &mh, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Waits until the socket is readable, or until end_ms; -1: for ever. 1: it is; 0: not in time. Signals do not count. */
static int wait_readable(int fd, int64_t end_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (;;) {
		int64_t left = end_ms < 0 ? -1 : end_ms - now_ms();
		int r = poll(&p, 1, end_ms < 0 ? -1 : left > 0 ? (int)left : 0);

		if (r >= 0 || errno != EINTR)
			return r < 0 ? -errno : r;
	}
}

/* 1: the next message is in buf; 0: none came until end_ms (of CLOCK_MONOTONIC; -1: waits for ever). */
static int receive(struct lr *h, size_t *len, int64_t end_ms)
{
	ssize_t n;
	int r = wait_readable(h->fd, end_ms);
	bool was_reset = false;

	if (r <= 0)
		return r;
	for (;;) {
		n = recv(h->fd, h->buf, sizeof(h->buf), 0);
		if (n >= 0 || (errno != EINTR && (errno != ECONNRESET || was_reset)))
			break;
		/* a daemon that closes with a request unread: ECONNRESET comes once, before its messages */
		was_reset |= errno == ECONNRESET;
	}
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	if ((size_t)n < sizeof(struct lr_msg))
		return n == 0 ? -EPIPE : -EPROTO;
	*len = (size_t)n;
	return 1;
}

static int keep(struct lr *h, size_t len)
{
	struct kept *k = malloc(sizeof(*k) + len);

	if (!k)
		return -ENOMEM;
	k->next = NULL;
	k->len = len;
	memcpy(k->bytes, h->buf, len);
	*h->last = k;
	h->last = &k->next;
	return 0;
}

/* Receives the answer to the last request into buf. Returns its result, or negative errno. */
static int answer(struct lr *h, size_t *len)
{
	struct lr_msg m;
	size_t n = 0;
	int r;

	while ((r = receive(h, &n, -1)) == 1) {
		memcpy(&m, h->buf, sizeof(m));
		if (m.type == LRM_ANSWER && m.serial == h->serial) {
			*len = n;
			return m.result;
		}
		if (m.type == LRM_EVENT && (r = keep(h, n)) < 0)
			return r;
	}
	return r < 0 ? r : -EPROTO;
}

/* Sends a request and takes its answer; *op: the answer's id. A daemon that has closed the connection may have said
 * why. */
static int ask(struct lr *h, struct lr_msg *m, const void *data, size_t len, int fd, uint64_t *op)
{
	struct lr_msg a;
	size_t n;
	int r = send_msg(h, m, data, len, fd);

	if (r == 0 || r == -EPIPE)
		r = answer(h, &n);
	if (r >= 0 && op) {
		memcpy(&a, h->buf, sizeof(a));
		*op = a.id;
	}
	return r;
}

static int set_name(struct lr_msg *m, const char *name)
{
	size_t len = name ? strlen(name) : 0;

	if (len == 0 || len >= LR_NAME_MAX)
		return -EINVAL;
	memcpy(m->name, name, len);
	return 0;
}

/* --- life --- */

static int dial(const char *link, const char *path, struct sockaddr_un *sun)
{
	const char *given = path ? path : getenv("LONGREACH_RELAY");
	int n;

	if (given)
		n = snprintf(sun->sun_path, sizeof(sun->sun_path), "%s", given);
	else if (link && *link && !strchr(link, '/'))
		n = snprintf(sun->sun_path, sizeof(sun->sun_path), RUN_DIR "/%s.relay", link);
	else
		return -EINVAL;
	return n < 0 || (size_t)n >= sizeof(sun->sun_path) ? -ENAMETOOLONG : 0;
}

static int open_rdma(const char *address, struct lr **out)
{
	struct lr *h = calloc(1, sizeof(*h));
	int r = h ? lr_rdma_open(address, NULL, &h->rdma) : -ENOMEM;

	if (r < 0) {
		free(h);
		return r;
	}
	h->fd = -1;
	h->last = &h->first;
	*out = h;
	return 0;
}

/* Opens the relay at the site's edge, if the file of edges names it: this machine has no relay of this link. */
static int open_edge(const char *link, struct lr **out)
{
	const char *file = getenv("LONGREACH_EDGES"), *rdma = getenv("LONGREACH_RDMA");
	char address[128];
	int r = rdma && strcmp(rdma, "no") == 0 ? -ENOENT : lr_edges_find(file ? file : LR_EDGES_FILE, link, address, sizeof(address));

	return r < 0 ? r : open_rdma(address, out);
}

static int connect_relay(struct lr *h)
{
	struct lr_msg hello = {.type = LRM_HELLO, .id = LR_WIRE_VERSION};
	uint64_t start = 0;
	int r;

	h->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (h->fd < 0 || connect(h->fd, (struct sockaddr *)&h->relay, sizeof(h->relay)) < 0)
		return -errno;
	h->serial = 0; /* a refusal has 1 */
	r = ask(h, &hello, NULL, 0, -1, &start);
	h->start = (uint32_t)start;
	return r;
}

int lr_open(const char *link, const char *path, struct lr **out)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	const char *given = path ? path : getenv("LONGREACH_RELAY");
	struct lr *h;
	int r;

	if (given && strncmp(given, LR_RDMA_SCHEME, strlen(LR_RDMA_SCHEME)) == 0)
		return open_rdma(given + strlen(LR_RDMA_SCHEME), out);
	r = dial(link, path, &sun);

	if (r < 0)
		return r;
	h = calloc(1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	h->last = &h->first;
	h->relay = sun;
	r = connect_relay(h);
	if (r < 0) {
		lr_close(h);
		return r == -ENOENT && !given ? open_edge(link, out) : r;
	}
	*out = h;
	return 0;
}

static void forget_lived(struct lr *h, const char *name)
{
	struct lived **at = &h->lived, *l;

	while ((l = *at)) {
		if (name && strcmp(l->name, name) != 0) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		free(l);
	}
}

static int reopen_rdma(struct lr *h)
{
	struct lr_rdma *again;
	int r = lr_rdma_reopen(h->rdma, &again);

	if (r < 0)
		return r;
	lr_rdma_close(h->rdma);
	h->rdma = again;
	return 0;
}

int lr_reopen(struct lr *h)
{
	int r;

	if (h->rdma)
		return reopen_rdma(h);
	if (h->fd >= 0)
		close(h->fd);
	h->fd = -1;
	if (h->start)
		h->start_before = h->start;
	h->start = 0;
	r = connect_relay(h);
	if (r < 0 && h->fd >= 0) {
		close(h->fd);
		h->fd = -1;
	}
	if (r == 0 && h->start == h->start_before)
		forget_lived(h, NULL); /* the same relay has withdrawn the regions */
	return r;
}

void lr_close(struct lr *h)
{
	struct kept *k;

	if (!h)
		return;
	lr_rdma_close(h->rdma);
	if (h->fd >= 0)
		close(h->fd);
	free(h->out);
	forget_lived(h, NULL);
	while ((k = h->first)) {
		h->first = k->next;
		free(k);
	}
	free(h);
}

int lr_fd(const struct lr *h)
{
	return h->rdma ? lr_rdma_fd(h->rdma) : h->fd;
}

/* --- requests --- */

static struct lived *lived_of(struct lr *h, const char *name)
{
	struct lived *l = h->lived;

	while (l && strcmp(l->name, name) != 0)
		l = l->next;
	return l;
}

/* The region was exported: adds this start. Without memory for that, puts that began in it fail in the next start. */
static void note_lived(struct lr *h, const char *name)
{
	struct lived *l = lived_of(h, name);

	if (!l) {
		l = calloc(1, sizeof(*l));
		if (!l)
			return;
		memcpy(l->name, name, strlen(name));
		l->next = h->lived;
		h->lived = l;
	}
	memmove(l->start + 1, l->start, (LR_STARTS - 1) * sizeof(l->start[0]));
	l->start[0] = h->start;
}

static int export(struct lr *h, struct lr_msg *m, const void *data, size_t len, int fd)
{
	struct lived *l = lived_of(h, m->name);
	int r;

	if (l && l->start[0] != h->start && l->start[0] != h->start_before)
		forget_lived(h, m->name); /* a start came between, in which the handle did not export it */
	else if (l && l->start[0] != h->start)
		memcpy(m->local, l->start, sizeof(l->start));
	r = ask(h, m, data, len, fd, NULL);
	if (r == 0 && h->start)
		note_lived(h, m->name);
	return r;
}

int lr_export(struct lr *h, const char *name, int fd, uint64_t offset, uint64_t size, unsigned access)
{
	struct lr_msg m = {.type = LRM_EXPORT, .offset = offset, .length = size, .flags = access};
	int r = fd < 0 ? -EBADF : set_name(&m, name);

	if (r == 0 && h->rdma)
		return lr_rdma_export(h->rdma, name, fd, NULL, offset, size, access);
	return r < 0 ? r : export(h, &m, NULL, 0, fd);
}

int lr_export_memory(struct lr *h, const char *name, void *memory, uint64_t size, unsigned access)
{
	if (!memory)
		return -EINVAL;
	return h->rdma ? lr_rdma_export(h->rdma, name, -1, memory, 0, size, access) : -EOPNOTSUPP;
}

int lr_export_gpu(struct lr *h, const char *name, const struct lr_gpu *memory, unsigned access)
{
	struct lr_msg m = {.type = LRM_EXPORT_GPU, .flags = access};
	int r = set_name(&m, name);

	return r < 0 ? r : export(h, &m, memory, sizeof(*memory), -1);
}

int lr_export_gpu_fd(struct lr *h, const char *name, int fd, uint64_t allocation, const struct lr_gpu *memory, unsigned access)
{
	struct lr_msg m = {.type = LRM_EXPORT_GPU, .flags = access, .length = allocation};
	int r = fd < 0 ? -EBADF : set_name(&m, name);

	return r < 0 ? r : export(h, &m, memory, sizeof(*memory), fd);
}

int lr_unexport(struct lr *h, const char *name)
{
	struct lr_msg m = {.type = LRM_UNEXPORT};
	int r = set_name(&m, name);

	if (r < 0)
		return r;
	if (h->rdma)
		return lr_rdma_unexport(h->rdma, name);
	forget_lived(h, m.name);
	return ask(h, &m, NULL, 0, -1, NULL);
}

static int transfer(struct lr *h, uint32_t type, const struct lr_transfer *t, uint64_t *op)
{
	if (h->rdma)
		return lr_rdma_transfer(h->rdma, type, t, op);
	if (t->memory)
		return -EOPNOTSUPP;

	struct lr_msg m = {.type = type,
	                   .offset = t->offset,
	                   .length = t->length,
	                   .region_offset = t->region_offset,
	                   .flags = (uint32_t)t->promise,
	                   .after = t->after};
	int r = set_name(&m, t->region);

	size_t local = t->local ? strlen(t->local) : 0;
	bool has_fd = !local && (t->length > 0 || type == LRM_GET);

	if (r < 0 || t->notice_len > LR_NOTICE_MAX || local >= LR_NAME_MAX || (has_fd && t->fd < 0))
		return r < 0 ? r : -EINVAL;
	if (local)
		memcpy(m.local, t->local, local);
	return ask(h, &m, t->notice, t->notice_len, has_fd ? t->fd : -1, op);
}

int lr_put(struct lr *h, const struct lr_transfer *t, uint64_t *op)
{
	return transfer(h, LRM_PUT, t, op);
}

int lr_get(struct lr *h, const struct lr_transfer *t, uint64_t *op)
{
	return t->notice_len > 0 ? -EINVAL : transfer(h, LRM_GET, t, op);
}

static int vector(struct lr *h, uint32_t type, const struct lr_transfer *t, const struct lr_piece *piece, size_t n, uint64_t *op)
{
	struct lr_msg m = {.type = type, .flags = (uint32_t)t->promise, .after = t->after, .id = n};
	uint8_t data[LR_PIECES_MAX * sizeof(*piece) + LR_NOTICE_MAX];
	size_t local = t->local ? strlen(t->local) : 0;
	int r = set_name(&m, t->region);

	if (h->rdma || t->memory)
		return -EOPNOTSUPP;
	if (r < 0 || n == 0 || n > LR_PIECES_MAX || t->notice_len > LR_NOTICE_MAX || local >= LR_NAME_MAX ||
	    (!local && t->fd < 0) || t->offset || t->length || t->region_offset)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (piece[i].length == 0 || piece[i].length > INT64_MAX - m.length)
			return -EINVAL;
		m.length += piece[i].length;
	}
	if (local)
		memcpy(m.local, t->local, local);
	memcpy(data, piece, n * sizeof(*piece));
	if (t->notice_len > 0)
		memcpy(data + n * sizeof(*piece), t->notice, t->notice_len);
	return ask(h, &m, data, n * sizeof(*piece) + t->notice_len, local ? -1 : t->fd, op);
}

int lr_putv(struct lr *h, const struct lr_transfer *t, const struct lr_piece *piece, size_t n, uint64_t *op)
{
	return vector(h, LRM_PUTV, t, piece, n, op);
}

int lr_getv(struct lr *h, const struct lr_transfer *t, const struct lr_piece *piece, size_t n, uint64_t *op)
{
	return t->notice_len > 0 ? -EINVAL : vector(h, LRM_GETV, t, piece, n, op);
}

int lr_cancel(struct lr *h, uint64_t op)
{
	struct lr_msg m = {.type = LRM_CANCEL, .id = op};

	if (h->rdma)
		return lr_rdma_cancel(h->rdma, op);
	return ask(h, &m, NULL, 0, -1, NULL);
}

int lr_serve(struct lr *h, const char *service)
{
	struct lr_msg m = {.type = LRM_SERVE};
	int r = set_name(&m, service);

	return r < 0 ? r : ask(h, &m, NULL, 0, -1, NULL);
}

int lr_call(struct lr *h, const char *service, const void *request, size_t len, uint64_t *op)
{
	struct lr_msg m = {.type = LRM_CALL};
	int r = len > LR_CALL_MAX ? -EMSGSIZE : set_name(&m, service);

	return r < 0 ? r : ask(h, &m, request, len, -1, op);
}

int lr_reply(struct lr *h, uint64_t call, enum lr_status status, const void *reply, size_t len)
{
	struct lr_msg m = {.type = LRM_REPLY, .id = call, .flags = (uint32_t)status};

	return len > LR_CALL_MAX ? -EMSGSIZE : ask(h, &m, reply, len, -1, NULL);
}

int lr_rate(struct lr *h, struct lr_rate *rate)
{
	struct lr_msg m = {.type = LRM_RATE};
	size_t len = 0;
	int r = send_msg(h, &m, NULL, 0, -1);

	if (r == 0)
		r = answer(h, &len);
	if (r == 0 && len < sizeof(m) + sizeof(*rate))
		return -EPROTO;
	if (r == 0)
		memcpy(rate, h->buf + sizeof(m), sizeof(*rate));
	return r;
}

int lr_regions(struct lr *h, struct lr_region *list, size_t n)
{
	struct lr_msg m = {.type = LRM_REGIONS};
	size_t len = 0, fit;
	int r = send_msg(h, &m, NULL, 0, -1);

	if (r == 0)
		r = answer(h, &len);
	if (r < 0)
		return r;
	fit = (len - sizeof(m)) / sizeof(*list);
	fit = n < fit ? n : fit;
	memcpy(list, h->buf + sizeof(m), fit * sizeof(*list));
	for (size_t i = 0; i < fit; i++)
		list[i].name[LR_NAME_MAX - 1] = '\0';
	return r;
}

/* --- events --- */

static void fill(struct lr_event *ev, const uint8_t *bytes, size_t len)
{
	struct lr_msg m;

	memcpy(&m, bytes, sizeof(m));
	*ev = (struct lr_event){
	    .type = (enum lr_event_type)m.flags,
	    .id = m.id,
	    .status = (enum lr_status)m.status,
	    .promise = (enum lr_promise)m.promise,
	    .bytes = m.length,
	    .offset = m.offset,
	    .data = bytes + sizeof(m),
	    .len = len - sizeof(m),
	};
	memcpy(ev->name, m.name, LR_NAME_MAX);
	ev->name[LR_NAME_MAX - 1] = '\0';
}

int lr_wait(struct lr *h, struct lr_event *ev, int timeout_ms)
{
	int64_t end_ms = timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
	struct lr_msg m;
	size_t len = 0;
	int r;

	if (h->rdma)
		return lr_rdma_wait(h->rdma, ev, timeout_ms);
	free(h->out);
	h->out = h->first;
	if (h->out) {
		h->first = h->out->next;
		if (!h->first)
			h->last = &h->first;
		fill(ev, h->out->bytes, h->out->len);
		return 1;
	}
	while ((r = receive(h, &len, end_ms)) == 1) {
		memcpy(&m, h->buf, sizeof(m));
		if (m.type == LRM_EVENT) {
			fill(ev, h->buf, len);
			return 1;
		}
	}
	return r;
}
