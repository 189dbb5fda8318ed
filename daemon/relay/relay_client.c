/* SPDX-License-Identifier: Apache-2.0 */
/* relay_client.c - programs of this site, at the relay's socket.
 *
 * The kernel's credentials of the other end (SO_PEERCRED, SO_PEERGROUPS) decide who may connect, not the socket's mode.
 * A program that does not read its events is disconnected when too many wait for it. */
#define _GNU_SOURCE /* accept4, struct ucred */
#include "relay_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/util/log.h"

#define BACKLOG    64
#define GROUPS_MAX 256
#define BATCH      32 /* requests of a client in a turn */

int relay_client_listen(struct relay_thread *r, char err[CONFIG_ERR_MAX])
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	struct stat st;
	int fd;

	if (strlen(r->path) >= sizeof(sun.sun_path)) {
		snprintf(err, CONFIG_ERR_MAX, "[Relay] Socket=%s: too long for a socket: at most %zu characters", r->path,
		         sizeof(sun.sun_path) - 1);
		return -ENAMETOOLONG;
	}
	memcpy(sun.sun_path, r->path, strlen(r->path));
	if (lstat(r->path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
		snprintf(err, CONFIG_ERR_MAX,
		         "[Relay] Socket=%s: exists and is no socket: remove the file, or name another path", r->path);
		return -EEXIST;
	}
	unlink(r->path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&sun, sizeof(sun)) == 0 && chmod(r->path, 0666) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	snprintf(err, CONFIG_ERR_MAX, "[Relay] Socket=%s: cannot make the socket: %s", r->path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -EIO;
}

/* root, the daemon's own user (*privileged), or somebody of the group. */
static bool is_allowed(const struct relay_thread *r, int fd, bool *privileged)
{
	gid_t groups[GROUPS_MAX];
	struct ucred who;
	socklen_t len = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
		return false;
	*privileged = who.uid == 0 || who.uid == geteuid();
	if (*privileged)
		return true;
	if (!r->config.relay_group)
		return false;
	if (who.gid == r->config.relay_group)
		return true;
	len = sizeof(groups);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0)
		return false;
	for (size_t i = 0; i < len / sizeof(groups[0]); i++)
		if (groups[i] == r->config.relay_group)
			return true;
	return false;
}

static struct relay_client *client_new(struct relay_thread *r)
{
	for (uint32_t i = 0; i < RELAY_CLIENTS; i++)
		if (!r->client[i].used)
			return &r->client[i];
	return NULL;
}

/* A refusal that the library can read. A socket that is closed with unread bytes makes the other end's next recv()
 * fail, so the request is read, if it has come. */
static void refuse(int fd, int why)
{
	struct lr_msg m = {.type = LRM_ANSWER, .serial = 1, .result = why};
	char byte;

	recv(fd, &byte, sizeof(byte), MSG_DONTWAIT);
	send(fd, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

void relay_client_accept(struct relay_thread *r)
{
	int fd = accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct relay_client *cl = client_new(r);
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = cl ? (uint32_t)(cl - r->client) : 0};
	bool privileged = false;

	if (fd < 0)
		return;
	if (!is_allowed(r, fd, &privileged) || !cl || epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0) {
		relay_count(&r->count.relay_programs_refused, 1);
		refuse(fd, cl ? -EACCES : -EMFILE);
		return;
	}
	relay_count(&r->count.relay_programs, 1);
	*cl = (struct relay_client){.used = true, .is_privileged = privileged, .fd = fd};
	cl->unsent_last = &cl->unsent;
	dlist_init(&cl->ops);
}

void relay_client_drop(struct relay_thread *r, struct relay_client *cl)
{
	struct relay_unsent *u;

	if (!cl->used)
		return;
	cl->used = false;
	close(cl->fd);
	relay_op_client_gone(r, cl);
	relay_execute_client_gone(r, cl);
	relay_region_client_gone(r, cl);
	relay_gpu_client_gone(r, cl);
	while ((u = cl->unsent)) {
		cl->unsent = u->next;
		free(u);
	}
}

/* --- to the program --- */

static void watch(struct relay_thread *r, struct relay_client *cl)
{
	struct epoll_event ev = {.events = EPOLLIN | (cl->unsent ? EPOLLOUT : 0u), .data.u32 = (uint32_t)(cl - r->client)};

	epoll_ctl(r->epoll_fd, EPOLL_CTL_MOD, cl->fd, &ev);
}

static bool send_now(struct relay_client *cl, const struct lr_msg *m, const void *data, size_t len)
{
	struct iovec iov[2] = {{(void *)(uintptr_t)m, sizeof(*m)}, {(void *)(uintptr_t)data, len}};
	struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2};

	return sendmsg(cl->fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

static void send_later(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, const void *data, size_t len)
{
	struct relay_unsent *u = cl->unsent_bytes < RELAY_UNSENT ? malloc(sizeof(*u) + sizeof(*m) + len) : NULL;

	if (!u) {
		log_warn("link %s: a program does not read the relay's events: the relay closes its connection",
		         r->config.name);
		shutdown(cl->fd, SHUT_RDWR); /* its end of file comes as an event */
		return;
	}
	u->next = NULL;
	u->len = sizeof(*m) + len;
	memcpy(u->bytes, m, sizeof(*m));
	if (len > 0)
		memcpy(u->bytes + sizeof(*m), data, len);
	*cl->unsent_last = u;
	cl->unsent_last = &u->next;
	cl->unsent_bytes += u->len;
	watch(r, cl);
}

void relay_client_event(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, const void *data,
                        size_t len)
{
	if (!cl->used)
		return; /* its socket is closed: the descriptor may be reused */
	if (cl->rdma) {
		relay_rdma_event(r, cl->rdma, m);
		return;
	}
	if (cl->unsent || !send_now(cl, m, data, len))
		send_later(r, cl, m, data, len);
}

static void send_unsent(struct relay_thread *r, struct relay_client *cl)
{
	struct relay_unsent *u;

	while ((u = cl->unsent) && send(cl->fd, u->bytes, u->len, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
		cl->unsent = u->next;
		if (!cl->unsent)
			cl->unsent_last = &cl->unsent;
		cl->unsent_bytes -= u->len;
		free(u);
	}
	if (!cl->unsent)
		watch(r, cl);
}

static void answer(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, int result, uint64_t id,
                   const void *data, size_t len)
{
	struct lr_msg a = {.type = LRM_ANSWER, .serial = m->serial, .result = result, .id = id};

	relay_client_event(r, cl, &a, data, len);
}

/* --- from the program --- */

static void answer_rate(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m)
{
	struct lr_rate rate = {0};

	for (uint32_t i = 0; i < r->nworkers; i++) {
		if (r->line[i].pace_bps > rate.line_bps)
			rate.line_bps = r->line[i].pace_bps; /* one line, which the workers share */
		if (i == 0 || r->line[i].free_bps < rate.free_bps)
			rate.free_bps = r->line[i].free_bps;
		if (r->line[i].rtt_ns > rate.rtt_ns)
			rate.rtt_ns = r->line[i].rtt_ns;
	}
	for (uint32_t i = 0; i < r->nchannels; i++)
		rate.queued_bytes += relay_channel_queued(&r->channel[i]);
	answer(r, cl, m, 0, 0, &rate, sizeof(rate));
}

static void answer_regions(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m)
{
	struct lr_region *list = r->list;
	size_t max = sizeof(r->list) / sizeof(r->list[0]);
	int n = 0;

	for (uint32_t i = 0; i < r->nregions; i++) {
		const struct relay_region *g = &r->region[i];

		if (!g->used || g->opening)
			continue;
		if ((size_t)n < max) {
			list[n] = (struct lr_region){
			    .size = g->size, .access = g->access, .bytes_in = g->bytes_in, .bytes_out = g->bytes_out};
			memcpy(list[n].name, g->name, LR_NAME_MAX);
		}
		n++;
	}
	answer(r, cl, m, n, 0, list, ((size_t)n < max ? (size_t)n : max) * sizeof(list[0]));
}

static int cancel(struct relay_thread *r, struct relay_client *cl, uint64_t id)
{
	struct relay_op *op = relay_op_find(r, id);

	if (!op || op->client != cl || op->told)
		return -ENOENT;
	relay_op_cancel(r, op);
	return 0;
}

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

/* copy:pull.NUMBER, of 16 hexadecimal digits. An [Export] may have a name that begins like it. */
static bool is_pull(const char *name)
{
	static const char prefix[] = "copy:pull.";
	const char *number = name + sizeof(prefix) - 1;

	return begins(name, prefix) && strspn(number, "0123456789abcdef") == 16 && number[16] == '\0';
}

/* Names of [Export NAME] (copy_wire.h) are for its processes, which connect as root or the daemon's user: another
 * program could be there first after a start. A copy from the other site comes to a program of any user, as
 * copy:pull.NUMBER. */
static bool may_serve(const struct relay_client *cl, const char *name)
{
	return cl->is_privileged || is_pull(name) || (!begins(name, "copy:") && !begins(name, "push:"));
}

bool relay_client_may_export(const struct relay_client *cl, const char *name)
{
	return cl->is_privileged || (cl->is_filled && begins(name, "copy.pull.")) || !begins(name, "copy.");
}

static int serve(struct relay_thread *r, struct relay_client *cl, const char *name)
{
	int rc = may_serve(cl, name) ? relay_execute_serve(r, cl, name) : -EPERM;

	cl->is_filled |= rc == 0 && is_pull(name);
	return rc;
}

/* Returns true if the descriptor is taken over. An operation is named to the program before it can end. */
static bool serve_request(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, const uint8_t *data, size_t len,
                  int fd)
{
	uint64_t id = 0;
	int rc;

	if (!cl->greeted && m->type != LRM_HELLO) {
		answer(r, cl, m, -EPROTO, 0, NULL, 0);
		return false;
	}
	switch (m->type) {
	case LRM_HELLO:
		cl->greeted = m->id == LR_WIRE_VERSION;
		answer(r, cl, m, cl->greeted ? 0 : -EPROTONOSUPPORT, r->instance, NULL, 0);
		return false;
	case LRM_EXPORT:
		rc = relay_client_may_export(cl, m->name) ? relay_region_add(r, cl, m, fd) : -EPERM;
		break;
	case LRM_UNEXPORT:
		rc = relay_region_remove(r, cl, m->name, m->serial);
		if (rc > 0)
			return false; /* answered when the GPU memory is closed */
		break;
	case LRM_EXPORT_GPU:
		rc = relay_client_may_export(cl, m->name) ? relay_gpu_export(r, cl, m, data, len, fd) : -EPERM;
		if (rc == 0)
			return false;
		break;
	case LRM_PUT:
	case LRM_GET:
	case LRM_PUTV:
	case LRM_GETV:
	case LRM_CALL:
		rc = relay_op_begin(r, cl, m, data, len, fd, &id);
		break;
	case LRM_CANCEL:
		rc = cancel(r, cl, m->id);
		break;
	case LRM_SERVE:
		rc = serve(r, cl, m->name);
		break;
	case LRM_REPLY:
		rc = relay_execute_reply(r, cl, m->id, (enum lr_status)m->flags, data, len);
		break;
	case LRM_RATE:
		answer_rate(r, cl, m);
		return false;
	case LRM_REGIONS:
		answer_regions(r, cl, m);
		return false;
	default:
		rc = -EOPNOTSUPP;
		break;
	}
	answer(r, cl, m, rc, id, NULL, 0);
	relay_op_begun(r, id);
	return rc == 0 && (m->type == LRM_EXPORT || relay_op_takes_fd(m));
}

/* The one descriptor that came with it, -1: none. All others are closed. */
static int descriptor_of(struct relay_thread *r, struct msghdr *mh)
{
	int fd = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int one;

			memcpy(&one, CMSG_DATA(c) + i * sizeof(int), sizeof(one));
			if (fd < 0)
				fd = one;
			else
				relay_file_close(r, one);
		}
	}
	return fd;
}

/* Refuses a request whose descriptor was not received, or whose mount has too many descriptors to close. */
static void refuse_descriptor(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, int fd)
{
	relay_file_close(r, fd);
	relay_count(&r->count.relay_descriptors_refused, 1);
	answer(r, cl, m, -EIO, 0, NULL, 0);
}

/* False: nothing more, or the program has gone. */
static bool receive(struct relay_thread *r, struct relay_client *cl)
{
	uint8_t *buf = r->message;
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {buf, LR_MSG_MAX};
	bool take = relay_files_take(r, cl->refused);
	struct msghdr mh = {.msg_iov = &iov,
	                    .msg_iovlen = 1,
	                    .msg_control = take ? control.bytes : NULL,
	                    .msg_controllen = take ? sizeof(control.bytes) : 0};
	ssize_t n = recvmsg(cl->fd, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	struct lr_msg m;
	int fd;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	fd = n >= 0 ? descriptor_of(r, &mh) : -1; /* an empty message may carry descriptors, too */
	if (n < (ssize_t)sizeof(m) || (mh.msg_flags & MSG_TRUNC)) {
		relay_file_close(r, fd);
		relay_client_drop(r, cl);
		return false;
	}
	memcpy(&m, buf, sizeof(m));
	m.name[LR_NAME_MAX - 1] = '\0';
	m.local[LR_NAME_MAX - 1] = '\0';
	if ((!take && mh.msg_flags & MSG_CTRUNC) || (fd >= 0 && relay_file_is_refused(r, fd, &cl->refused)))
		refuse_descriptor(r, cl, &m, fd);
	else if (!serve_request(r, cl, &m, buf + sizeof(m), (size_t)n - sizeof(m), fd))
		relay_file_close(r, fd);
	return cl->used;
}

void relay_client_ready(struct relay_thread *r, struct relay_client *cl, uint32_t events)
{
	if (events & EPOLLOUT)
		send_unsent(r, cl);
	for (unsigned i = 0; i < BATCH && cl->used && receive(r, cl); i++)
		;
}
