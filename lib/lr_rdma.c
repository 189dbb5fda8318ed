/* SPDX-License-Identifier: Apache-2.0 */
/* lr_rdma.c - the relay of a link over RDMA: a queue pair to the edge, and memory that the edge reads and writes itself.
 *
 * A transfer's memory is registered from the request to LR_EV_DONE, a region's until lr_unexport() returns; by then the
 * edge has ended all work that it had posted. A descriptor is mapped meanwhile; a dma-buf, which may be GPU memory, is
 * registered as it is. When the connection breaks, the library asks the edge for the reason
 * by another REQ with the same number, which the edge rejects with the reason.
 *
 * A queue pair that only has receives posted never notices that its peer has gone: an edge whose machine loses power,
 * or whose DREQ is lost, causes neither a completion nor an event. Hence a WRITE of no bytes after SILENCE_MS without a
 * completion (check_silence()). The library counts the time until its completion itself, because rxe retries for ever
 * with the retry count of 7. A timer in the epoll wakes programs that poll lr_fd(), too. */
#define _GNU_SOURCE
#include "lr_rdma.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "lr_rdma_wire.h"
#include "lr_verbs.h"

#define RECEIVES   (64 + LR_RDMA_NOTICES)
#define BUFFER     512
#define CONNECT_MS 5000
#define ANSWER_MS  30000
#define SILENCE_MS 10000 /* without a completion, until a probe is posted; for what is posted to complete */
#define WHY_TRIES  10 /* the edge may notice the end a little later than its client */
#define WHY_MS     100
#define TAKEN_MANY 16   /* the edge is told when so many notices were taken, */
#define TAKEN_MS   1000 /* or when it was told so long ago */

/* wr_id; receives, and what is sent from a buffer: its number */
enum { WR_REQUEST = RECEIVES, WR_TAKEN, BUFFERS, WR_PROBE = BUFFERS };

/* A transfer under way, or an event that waits for lr_wait(). */
struct transfer {
	struct transfer *next;
	uint64_t op;
	struct ibv_mr *mr;
	void *map;
	size_t map_len;
	bool ended_well;
	int file; /* a copy of the descriptor of a get that has enlarged its file from size_before to size; else -1 */
	off_t offset, size_before, size;
};

/* Memory that is exported. */
struct exported {
	struct exported *next;
	char name[LR_NAME_MAX];
	struct transfer memory;
};

struct waiting {
	struct waiting *next;
	struct lr_rdma_event event;
};

struct lr_rdma {
	struct lr_verbs v;
	struct sockaddr_storage to;
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buffers; /* BUFFERS */
	int epoll_fd;
	uint32_t number, serial;
	bool has_qp, over;
	bool is_cut; /* this end has disconnected */
	bool is_told; /* the program has got the events of the end */
	bool sending, telling, probing; /* WR_REQUEST, WR_TAKEN, WR_PROBE is in the send queue */
	int timer_fd;          /* expires at check_ms */
	int64_t heard_ms;      /* of the last completion, or of a post to the empty send queue */
	int64_t check_ms;      /* when check_silence() looks again */
	struct transfer *transfers;
	struct exported *exported;
	uint64_t knows;        /* LR_RDMA_KNOWS_* of the edge */
	struct waiting *first, **last;
	struct waiting *out;   /* the event that the program has */
	uint64_t nnotices, ntaken, ntold; /* notices that came; that the program has taken; that the edge was told of */
	int64_t told_ms;
	struct lr_rdma_event answer;
};

/* --- connecting --- */

static int read_address(const char *text, struct sockaddr_storage *to)
{
	struct sockaddr_in *in = (void *)to;
	struct sockaddr_in6 *in6 = (void *)to;
	char host[64];
	const char *port = NULL;
	size_t len = strlen(text);
	long n = LR_RDMA_PORT;
	char *end;

	if (text[0] == '[') {
		const char *close_at = strchr(text++, ']');

		if (!close_at || (close_at[1] != ':' && close_at[1] != '\0'))
			return -EINVAL;
		len = (size_t)(close_at - text);
		port = close_at[1] == ':' ? close_at + 2 : NULL;
	} else if (strchr(text, ':') && strchr(text, ':') == strrchr(text, ':')) {
		port = strchr(text, ':') + 1;
		len = (size_t)(port - 1 - text);
	}
	if (len >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, len);
	host[len] = '\0';
	if (port) {
		n = strtol(port, &end, 10);
		if (end == port || *end || n < 1 || n > 65535)
			return -EINVAL;
	}
	memset(to, 0, sizeof(*to));
	if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)n);
		return 0;
	}
	if (inet_pton(AF_INET6, host, &in6->sin6_addr) != 1)
		return -EINVAL;
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons((uint16_t)n);
	return 0;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The next event of rdma_cm, within CONNECT_MS. 0, or a negative errno. hello: of a REP or REJ, if it is sound. */
static int next_event(const struct lr_verbs *v, struct rdma_event_channel *ch, enum rdma_cm_event_type *type,
                      struct lr_rdma_hello *hello)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	struct rdma_cm_event *ev;
	int r;

	do
		r = poll(&p, 1, CONNECT_MS);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	if (v->get_cm_event(ch, &ev) != 0)
		return -errno;
	*type = ev->event;
	r = ev->status;
	if (!lr_rdma_hello_get(ev->param.conn.private_data, ev->param.conn.private_data_len, hello))
		*hello = (struct lr_rdma_hello){0};
	v->ack_cm_event(ev);
	if (*type == RDMA_CM_EVENT_ADDR_ERROR || *type == RDMA_CM_EVENT_ROUTE_ERROR || *type == RDMA_CM_EVENT_UNREACHABLE)
		return r < 0 ? r : -EHOSTUNREACH;
	return 0;
}

static int resolve(const struct lr_verbs *v, struct rdma_event_channel *ch, struct rdma_cm_id *id, struct sockaddr_storage *to)
{
	enum rdma_cm_event_type type;
	struct lr_rdma_hello hello;
	int r;

	if (v->resolve_addr(id, NULL, (struct sockaddr *)to, CONNECT_MS) != 0)
		return -errno;
	r = next_event(v, ch, &type, &hello);
	if (r < 0)
		return r;
	if (v->resolve_route(id, CONNECT_MS) != 0)
		return -errno;
	return next_event(v, ch, &type, &hello);
}

/* Sends a REQ with the number. 0: it was accepted. A negative errno: the edge's reason, also in *hello. */
static int connect_id(const struct lr_verbs *v, struct rdma_event_channel *ch, struct rdma_cm_id *id, uint32_t number,
                      struct lr_rdma_hello *hello)
{
	uint8_t data[LR_RDMA_HELLO_LEN];
	struct rdma_conn_param p = {.private_data = data,
	                            .private_data_len = sizeof(data),
	                            .responder_resources = 16,
	                            .retry_count = 7,
	                            .rnr_retry_count = 7};
	struct ibv_device_attr attr = {0};
	enum rdma_cm_event_type type;
	int r;

	if (v->query_device(id->verbs, &attr) == 0 && attr.max_qp_rd_atom < 16)
		p.responder_resources = (uint8_t)attr.max_qp_rd_atom;
	lr_rdma_hello_put(data, &(struct lr_rdma_hello){.value = number, .op = LR_RDMA_KNOWS_TAKEN});
	if (v->connect(id, &p) != 0)
		return -errno;
	r = next_event(v, ch, &type, hello);
	if (r < 0)
		return r;
	if (type == RDMA_CM_EVENT_ESTABLISHED)
		return 0;
	return hello->value > 0 && hello->value < 4096 ? -(int)hello->value : -ECONNREFUSED;
}

static int post_receive(struct lr_rdma *c, uint32_t i)
{
	struct ibv_sge sge = {.addr = (uintptr_t)(c->buffers + (size_t)i * BUFFER), .length = BUFFER, .lkey = c->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

	return c->v.post_recv(c->id->qp, &wr, &bad) == 0 ? 0 : -EIO;
}

static int watch(const struct lr_rdma *c, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* check_silence() looks when SILENCE_MS have passed since heard_ms. */
static void check_later(struct lr_rdma *c)
{
	struct itimerspec at;

	c->check_ms = c->heard_ms + SILENCE_MS;
	at = (struct itimerspec){.it_value = {.tv_sec = c->check_ms / 1000, .tv_nsec = c->check_ms % 1000 * 1000000}};
	timerfd_settime(c->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static int watch_silence(struct lr_rdma *c)
{
	c->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (c->timer_fd < 0)
		return -errno;
	c->heard_ms = now_ms();
	check_later(c);
	return watch(c, c->timer_fd);
}

static int equip(struct lr_rdma *c)
{
	size_t bytes = (size_t)BUFFERS * BUFFER;
	struct ibv_qp_init_attr qp = {
	    .qp_type = IBV_QPT_RC,
	    .cap = {.max_send_wr = 4, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1}};
	int r = 0;

	c->buffers = calloc(1, bytes);
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	c->pd = c->v.alloc_pd(c->id->verbs);
	if (!c->buffers || c->epoll_fd < 0 || !c->pd)
		return -ENOMEM;
	c->mr = c->v.reg_mr(c->pd, c->buffers, bytes, IBV_ACCESS_LOCAL_WRITE);
	c->completions = c->v.create_comp_channel(c->id->verbs);
	if (!c->mr || !c->completions)
		return -ENOMEM;
	c->cq = c->v.create_cq(c->id->verbs, RECEIVES + 4, c, c->completions, 0);
	if (!c->cq || c->v.req_notify_cq(c->cq, 0) != 0)
		return -ENOMEM;
	qp.send_cq = qp.recv_cq = c->cq;
	if (c->v.create_qp(c->id, c->pd, &qp) != 0)
		return -errno;
	c->has_qp = true;
	for (uint32_t i = 0; r == 0 && i < RECEIVES; i++)
		r = post_receive(c, i);
	return r;
}

/* verbs: NULL: the machine's. */
static int open_to(const struct sockaddr_storage *to, const struct lr_verbs *verbs, struct lr_rdma **out)
{
	struct lr_rdma *c = calloc(1, sizeof(*c));
	struct lr_rdma_hello hello;
	char why[256];
	int r = 0;

	if (!c)
		return -ENOMEM;
	c->to = *to;
	c->epoll_fd = c->timer_fd = -1;
	c->last = &c->first;
	if (verbs)
		c->v = *verbs;
	else
		r = lr_verbs_load(&c->v, why, sizeof(why));
	if (r < 0 || getrandom(&c->number, sizeof(c->number), 0) != sizeof(c->number)) {
		free(c);
		return r < 0 ? -ENODEV : -EIO;
	}
	c->number |= 1;
	c->events = c->v.create_event_channel();
	r = c->events ? 0 : -ENODEV;
	if (r == 0 && c->v.create_id(c->events, &c->id, NULL, RDMA_PS_TCP) != 0)
		r = -errno;
	if (r == 0)
		r = resolve(&c->v, c->events, c->id, &c->to);
	if (r == 0)
		r = equip(c);
	if (r == 0)
		r = connect_id(&c->v, c->events, c->id, c->number, &hello);
	if (r == 0)
		r = watch(c, c->events->fd);
	if (r == 0)
		r = watch(c, c->completions->fd);
	if (r == 0)
		r = watch_silence(c);
	if (r < 0) {
		lr_rdma_close(c);
		return r;
	}
	c->knows = hello.op;
	*out = c;
	return 0;
}

int lr_rdma_open(const char *address, const struct lr_verbs *verbs, struct lr_rdma **out)
{
	struct sockaddr_storage to;
	int r = read_address(address, &to);

	return r < 0 ? r : open_to(&to, verbs, out);
}

/* Afterwards the edge neither reads nor writes the program's memory, and notices that the client has gone. */
static void cut(struct lr_rdma *c)
{
	c->over = true;
	if (c->has_qp && !c->is_cut)
		c->v.disconnect(c->id);
	c->is_cut = true;
}

/* The edge gives the names of the old connection up when it has ended. */
int lr_rdma_reopen(struct lr_rdma *old, struct lr_rdma **out)
{
	cut(old);
	return open_to(&old->to, &old->v, out);
}

int lr_rdma_fd(const struct lr_rdma *c)
{
	return c->epoll_fd;
}

/* --- memory --- */

/* Enlarges the file of a get, so that it can be mapped. */
static int enlarge(struct transfer *t, const struct lr_transfer *what, off_t size_before)
{
	t->file = fcntl(what->fd, F_DUPFD_CLOEXEC, 0);
	if (t->file < 0)
		return -errno;
	t->offset = (off_t)what->offset;
	t->size_before = t->size = size_before;
	if (ftruncate(t->file, (off_t)(what->offset + what->length)) < 0)
		return -ERANGE;
	t->size = (off_t)(what->offset + what->length);
	return 0;
}

/* Takes back what enlarge() did for a get that has not ended well, unless the file has another size by now. Once the
 * get was under way (op), the program may have written in front of its bytes: what lies there stays. */
static void shrink(const struct transfer *t)
{
	off_t to = t->op && t->offset > t->size_before ? t->offset : t->size_before;
	struct stat st;

	if (fstat(t->file, &st) == 0 && st.st_size == t->size && to < t->size)
		(void)!ftruncate(t->file, to);
}

static void memory_release(struct lr_rdma *c, struct transfer *t)
{
	if (t->mr)
		c->v.dereg_mr(t->mr);
	if (t->map)
		munmap(t->map, t->map_len);
	if (t->file >= 0) {
		if (!t->ended_well)
			shrink(t);
		close(t->file);
	}
}

static void transfer_free(struct lr_rdma *c, struct transfer *t)
{
	memory_release(c, t);
	free(t);
}

static void transfer_over(struct lr_rdma *c, uint64_t op, enum lr_status status)
{
	for (struct transfer **at = &c->transfers; *at; at = &(*at)->next) {
		struct transfer *t = *at;

		if (t->op != op)
			continue;
		*at = t->next;
		t->ended_well = status == LR_OK;
		transfer_free(c, t);
		return;
	}
}

/* Finds the memory: the program's, or the mapped descriptor's. fixed: the file is long enough, or this fails; if it may
 * only be read, its pages are copied. Else it may be enlarged. */
static int find_memory(struct transfer *t, const struct lr_transfer *what, bool fixed, uint8_t **at)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skip = what->offset % page;
	bool writable = (fcntl(what->fd, F_GETFL) & O_ACCMODE) == O_RDWR;
	struct stat st;
	int r = 0;

	*at = what->memory;
	if (what->memory) {
		*at += what->offset;
		return 0;
	}
	if (what->fd < 0 || fstat(what->fd, &st) < 0)
		return -EBADF;
	if (what->length > INT64_MAX - what->offset)
		return -EINVAL;
	if ((uint64_t)st.st_size < what->offset + what->length)
		r = fixed ? -ERANGE : enlarge(t, what, st.st_size);
	if (r < 0)
		return r;
	t->map_len = (size_t)(what->length + skip);
	/* kernels up to 6.1 cannot register a read-only mapping; a private writable mapping is copied on
	 * registration */
	t->map = mmap(NULL, t->map_len, PROT_READ | PROT_WRITE, fixed && !writable ? MAP_PRIVATE : MAP_SHARED, what->fd,
	              (off_t)(what->offset - skip));
	if (t->map == MAP_FAILED) {
		t->map = NULL;
		return -errno;
	}
	*at = (uint8_t *)t->map + skip;
	return 0;
}

static bool is_dmabuf(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == DMA_BUF_MAGIC;
}

/* access: IBV_ACCESS_REMOTE_*. fixed: find_memory(). */
static int register_memory(struct lr_rdma *c, struct transfer *t, const struct lr_transfer *what, int access, bool fixed,
                           struct lr_rdma_request *q)
{
	bool dmabuf = !what->memory && is_dmabuf(what->fd);
	uint8_t *at = NULL;
	int r = dmabuf ? 0 : find_memory(t, what, fixed, &at);

	if (r < 0)
		return r;
	if (dmabuf && !c->v.reg_dmabuf_mr)
		return -EOPNOTSUPP;
	if (access & IBV_ACCESS_REMOTE_WRITE)
		access |= IBV_ACCESS_LOCAL_WRITE;
	errno = 0;
	/* a dma-buf has no address here: the edge addresses it by the offset */
	t->mr = dmabuf ? c->v.reg_dmabuf_mr(c->pd, what->offset, (size_t)what->length, what->offset, what->fd, access)
	               : c->v.reg_mr(c->pd, at, (size_t)what->length, access);
	if (!t->mr)
		return errno ? -errno : -ENOMEM;
	q->address = dmabuf ? what->offset : (uintptr_t)at;
	q->rkey = t->mr->rkey;
	return 0;
}

/* --- messages --- */

static void keep(struct lr_rdma *c, const struct lr_rdma_event *e)
{
	struct waiting *w = malloc(sizeof(*w));

	if (!w) {
		c->over = true;
		return;
	}
	*w = (struct waiting){.event = *e};
	*c->last = w;
	c->last = &w->next;
}

static void on_message(struct lr_rdma *c, const uint8_t *data, size_t len)
{
	struct lr_rdma_event e;

	if (!lr_rdma_event_get(data, len, &e)) {
		c->over = true;
	} else if (e.type == LRM_ANSWER) {
		c->answer = e;
	} else {
		if (e.kind == LR_EV_DONE)
			transfer_over(c, e.id, (enum lr_status)e.status);
		c->nnotices += e.kind == LR_EV_NOTICE;
		keep(c, &e);
	}
}

/* The time until the completion counts from here, unless an earlier work request has to complete first. */
static void note_posted(struct lr_rdma *c)
{
	if (!c->sending && !c->telling && !c->probing)
		c->heard_ms = now_ms();
}

/* Sends the request from the buffer of that number. */
static bool send_request(struct lr_rdma *c, uint32_t buffer, const struct lr_rdma_request *q)
{
	uint8_t *at = c->buffers + (size_t)buffer * BUFFER;
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = (uint32_t)lr_rdma_request_put(at, q), .lkey = c->mr->lkey};
	struct ibv_send_wr *bad,
	    wr = {.wr_id = buffer, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	if (c->v.post_send(c->id->qp, &wr, &bad) != 0)
		return false;
	note_posted(c);
	return true;
}

/* Tells the edge how many notices the program has taken: now and then, and when none is left, as the edge may wait for that. */
static void tell_taken(struct lr_rdma *c)
{
	const struct lr_rdma_request q = {.type = LR_RDMA_TAKEN, .id = c->ntaken};

	if (!(c->knows & LR_RDMA_KNOWS_TAKEN) || c->over || c->telling || c->ntaken == c->ntold ||
	    (c->ntaken < c->nnotices && c->ntaken - c->ntold < TAKEN_MANY && now_ms() - c->told_ms < TAKEN_MS))
		return;
	c->ntold = c->ntaken;
	c->told_ms = now_ms();
	if (send_request(c, WR_TAKEN, &q))
		c->telling = true;
	else
		c->over = true;
}

static void take_completions(struct lr_rdma *c)
{
	struct ibv_wc wc;
	int n;

	while (!c->over && (n = c->v.poll_cq(c->cq, 1, &wc)) != 0) {
		c->heard_ms = now_ms();
		if (n < 0 || wc.status != IBV_WC_SUCCESS) {
			c->over = true;
		} else if (wc.wr_id == WR_REQUEST) {
			c->sending = false;
		} else if (wc.wr_id == WR_TAKEN) {
			c->telling = false;
			tell_taken(c);
		} else if (wc.wr_id == WR_PROBE) {
			c->probing = false;
		} else {
			on_message(c, c->buffers + wc.wr_id * BUFFER, wc.byte_len);
			if (!c->over && post_receive(c, (uint32_t)wc.wr_id) < 0)
				c->over = true;
		}
	}
}

/* A WRITE of no bytes needs no key, and the responder's rdma_cm has enabled remote WRITEs on every queue pair. */
static void probe(struct lr_rdma *c)
{
	struct ibv_send_wr *bad, wr = {.wr_id = WR_PROBE, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

	if (c->v.post_send(c->id->qp, &wr, &bad) != 0) {
		c->over = true;
		return;
	}
	note_posted(c);
	c->probing = true;
}

/* Ends the connection of an edge that does not answer. Call this behind take_completions(): the program may have been
 * away for long. */
static void check_silence(struct lr_rdma *c)
{
	int64_t now = now_ms();

	if (now < c->check_ms)
		return;
	if (now >= c->heard_ms + SILENCE_MS) {
		if (c->sending || c->telling || c->probing)
			c->over = true;
		else
			probe(c);
	}
	if (!c->over)
		check_later(c);
}

/* Takes all completions. */
static void look(struct lr_rdma *c)
{
	struct rdma_cm_event *ev;
	struct ibv_cq *cq;
	void *context;

	while (c->v.get_cq_event(c->completions, &cq, &context) == 0) {
		c->v.ack_cq_events(cq, 1);
		c->v.req_notify_cq(cq, 0);
	}
	take_completions(c);
	while (c->v.get_cm_event(c->events, &ev) == 0) {
		if (ev->event == RDMA_CM_EVENT_DISCONNECTED || ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
			c->over = true;
		c->v.ack_cm_event(ev);
	}
	if (!c->over)
		check_silence(c);
}

/* Waits until completions may have come. 0: not in time, or a signal has come. */
static int wait_ready(struct lr_rdma *c, int timeout_ms)
{
	struct pollfd p = {.fd = c->epoll_fd, .events = POLLIN};
	int r = poll(&p, 1, timeout_ms);

	if (r < 0)
		return errno == EINTR ? 0 : -errno;
	return r;
}

/* The program hears -EPIPE. */
static int gone(struct lr_rdma *c)
{
	cut(c);
	return -EPIPE;
}

static int ask(struct lr_rdma *c, struct lr_rdma_request *q, uint64_t *id)
{
	int64_t end_ms = now_ms() + ANSWER_MS;

	look(c);
	if (c->over)
		return gone(c);
	q->serial = ++c->serial;
	if (!send_request(c, WR_REQUEST, q))
		return gone(c);
	c->sending = true;
	/* waits until the request is sent, too: the next request uses the same buffer */
	while (!c->over && (c->sending || c->answer.type != LRM_ANSWER || c->answer.serial != q->serial)) {
		int64_t left = end_ms - now_ms();

		if (left <= 0 || wait_ready(c, (int)left) < 0)
			c->over = true;
		else
			look(c);
	}
	if (c->answer.serial != q->serial)
		return gone(c);
	if (id)
		*id = c->answer.id;
	return c->answer.result;
}

int lr_rdma_transfer(struct lr_rdma *c, uint32_t type, const struct lr_transfer *what, uint64_t *op)
{
	size_t len = what->region ? strlen(what->region) : 0;
	bool put = type == LRM_PUT;
	struct lr_rdma_request q = {.type = (uint8_t)type,
	                            .promise = (uint8_t)what->promise,
	                            .after = what->after,
	                            .bytes = what->length,
	                            .region_offset = what->region_offset,
	                            .notice = what->notice,
	                            .notice_len = what->notice_len};
	struct transfer *t;
	uint64_t id = 0;
	int r = 0;

	if (len == 0 || len >= LR_NAME_MAX || what->notice_len > LR_NOTICE_MAX || what->local || (!put && what->length == 0) ||
	    what->promise > LR_DONE || what->length > INT64_MAX || what->region_offset > INT64_MAX - what->length)
		return -EINVAL;
	memcpy(q.name, what->region, len);
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->file = -1;
	if (what->length > 0)
		r = register_memory(c, t, what, put ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE, put, &q);
	if (r == 0)
		r = ask(c, &q, &id);
	if (r < 0) {
		transfer_free(c, t);
		return r;
	}
	t->op = id;
	t->next = c->transfers;
	c->transfers = t;
	/* the transfer may have ended before its answer was taken */
	for (const struct waiting *w = c->first; w; w = w->next)
		if (w->event.kind == LR_EV_DONE && w->event.id == id) {
			transfer_over(c, id, (enum lr_status)w->event.status);
			break;
		}
	*op = id;
	return 0;
}

/* --- regions --- */

static int set_name(struct lr_rdma_request *q, const char *name)
{
	size_t len = name ? strlen(name) : 0;

	if (len == 0 || len >= LR_NAME_MAX)
		return -EINVAL;
	memcpy(q->name, name, len);
	return 0;
}

/* A read-only descriptor would be mapped privately: the edge would read a copy. */
static bool is_shared(int fd)
{
	return is_dmabuf(fd) || (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
}

int lr_rdma_export(struct lr_rdma *c, const char *name, int fd, void *memory, uint64_t offset, uint64_t size, unsigned access)
{
	struct lr_transfer what = {.fd = fd, .memory = memory, .offset = offset, .length = size};
	struct lr_rdma_request q = {.type = LRM_EXPORT, .promise = (uint8_t)access, .bytes = size};
	int rights = (access & LR_PEER_READ ? IBV_ACCESS_REMOTE_READ : 0) | (access & LR_PEER_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0);
	struct exported *x;
	int r = set_name(&q, name);

	if (r < 0 || !lr_rdma_name_is_plain(name) || size == 0 || size > INT64_MAX || access == 0 || access > (LR_PEER_READ | LR_PEER_WRITE))
		return -EINVAL;
	if (!(c->knows & LR_RDMA_KNOWS_EXPORT))
		return -EOPNOTSUPP;
	if (!memory && !is_shared(fd))
		return -EACCES;
	x = calloc(1, sizeof(*x));
	if (!x)
		return -ENOMEM;
	memcpy(x->name, q.name, LR_NAME_MAX);
	x->memory.file = -1;
	r = register_memory(c, &x->memory, &what, rights, true, &q);
	if (r == 0)
		r = ask(c, &q, NULL);
	if (r < 0) {
		memory_release(c, &x->memory);
		free(x);
		return r;
	}
	x->next = c->exported;
	c->exported = x;
	return 0;
}

/* Once the memory is not registered any more no device reaches it, whatever the edge has answered. */
int lr_rdma_unexport(struct lr_rdma *c, const char *name)
{
	struct lr_rdma_request q = {.type = LRM_UNEXPORT};
	int r = set_name(&q, name);

	if (r < 0)
		return r;
	for (struct exported **at = &c->exported; *at; at = &(*at)->next) {
		struct exported *x = *at;

		if (strcmp(x->name, name) != 0)
			continue;
		r = ask(c, &q, NULL);
		*at = x->next;
		memory_release(c, &x->memory);
		free(x);
		return r;
	}
	return -ENOENT;
}

int lr_rdma_cancel(struct lr_rdma *c, uint64_t op)
{
	return ask(c, &(struct lr_rdma_request){.type = LRM_CANCEL, .id = op}, NULL);
}

/* --- the end --- */

/* Asks the edge once. 1: *hello has the reason; 0: the edge knows none yet; a negative errno: the edge does not
 * answer. */
static int ask_why(struct lr_rdma *c, struct lr_rdma_hello *hello)
{
	struct rdma_event_channel *events = c->v.create_event_channel();
	struct rdma_cm_id *id = NULL;
	struct ibv_qp_init_attr qp = {
	    .qp_type = IBV_QPT_RC,
	    .send_cq = c->cq,
	    .recv_cq = c->cq,
	    .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	int told = -ENODEV;

	if (!events || c->v.create_id(events, &id, NULL, RDMA_PS_TCP) != 0)
		id = NULL;
	if (id && resolve(&c->v, events, id, &c->to) == 0 && c->v.create_qp(id, c->pd, &qp) == 0) {
		int r = connect_id(&c->v, events, id, c->number, hello);

		told = r == -ECONNABORTED ? hello->status != LR_OK : r;
		if (r == 0)
			c->v.disconnect(id);
		c->v.destroy_qp(id);
	}
	if (id)
		c->v.destroy_id(id);
	if (events)
		c->v.destroy_event_channel(events);
	return told;
}

/* Disconnects, and ends all transfers under way, with the edge's reason if there is one. Of regions the program hears the
 * reason. */
static void end(struct lr_rdma *c)
{
	struct lr_rdma_hello hello = {0};
	int told = 0;

	cut(c);
	if (c->is_told)
		return;
	c->is_told = true;
	if (!c->transfers && !c->exported)
		return;
	for (unsigned i = 0; i < WHY_TRIES && told == 0; i++) {
		if (i > 0)
			usleep(WHY_MS * 1000);
		told = ask_why(c, &hello);
	}
	while (c->transfers) {
		struct transfer *t = c->transfers;
		bool its = told > 0 && (hello.op == 0 || hello.op == t->op);

		c->transfers = t->next;
		keep(c, &(struct lr_rdma_event){.type = LRM_EVENT,
		                                .kind = LR_EV_DONE,
		                                .id = t->op,
		                                .status = its ? hello.status : LR_CLIENT_GONE});
		transfer_free(c, t);
	}
	for (const struct exported *x = c->exported; told > 0 && x; x = x->next) {
		struct lr_rdma_event e = {.type = LRM_EVENT, .kind = LR_EV_LOST, .status = hello.status};

		memcpy(e.name, x->name, LR_NAME_MAX);
		if (hello.op == 0 || (hello.op == LR_RDMA_NO_OP && strcmp(hello.name, x->name) == 0))
			keep(c, &e);
	}
}

static bool take_event(struct lr_rdma *c, struct lr_event *ev)
{
	struct waiting *w = c->first;

	free(c->out);
	c->out = w;
	if (!w)
		return false;
	*ev = (struct lr_event){.type = (enum lr_event_type)w->event.kind,
	                        .id = w->event.id,
	                        .status = (enum lr_status)w->event.status,
	                        .promise = (enum lr_promise)w->event.promise,
	                        .bytes = w->event.bytes,
	                        .offset = w->event.offset,
	                        .data = w->event.notice,
	                        .len = w->event.notice_len};
	memcpy(ev->name, w->event.name, LR_NAME_MAX);
	c->first = w->next;
	if (!c->first)
		c->last = &c->first;
	if (w->event.kind == LR_EV_NOTICE) {
		c->ntaken++;
		if (c->telling)
			take_completions(c); /* perhaps that of the message before */
		tell_taken(c);
	}
	return true;
}

int lr_rdma_wait(struct lr_rdma *c, struct lr_event *ev, int timeout_ms)
{
	int64_t end_ms = now_ms() + timeout_ms;

	for (;;) {
		int64_t left = timeout_ms < 0 ? -1 : end_ms - now_ms();
		int r;

		if (take_event(c, ev))
			return 1;
		if (!c->over)
			look(c);
		if (c->over)
			end(c);
		if (take_event(c, ev))
			return 1;
		if (c->over)
			return -EPIPE;
		if (timeout_ms >= 0 && left <= 0)
			return 0;
		r = wait_ready(c, (int)left);
		if (r < 0)
			return r;
	}
}

/* Destroys the queue pair first: afterwards the edge cannot access the memory. */
void lr_rdma_close(struct lr_rdma *c)
{
	struct lr_event ev;
	struct transfer *t;
	struct exported *x;

	if (!c)
		return;
	cut(c);
	if (c->has_qp)
		c->v.destroy_qp(c->id);
	while ((t = c->transfers)) {
		c->transfers = t->next;
		transfer_free(c, t);
	}
	while ((x = c->exported)) {
		c->exported = x->next;
		memory_release(c, &x->memory);
		free(x);
	}
	while (take_event(c, &ev))
		;
	if (c->cq)
		c->v.destroy_cq(c->cq);
	if (c->completions)
		c->v.destroy_comp_channel(c->completions);
	if (c->mr)
		c->v.dereg_mr(c->mr);
	if (c->pd)
		c->v.dealloc_pd(c->pd);
	if (c->id)
		c->v.destroy_id(c->id);
	if (c->events)
		c->v.destroy_event_channel(c->events);
	if (c->timer_fd >= 0)
		close(c->timer_fd);
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	free(c->buffers);
	free(c);
}
