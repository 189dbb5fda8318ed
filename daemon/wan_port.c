/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Batches are the lever of the WAN side: one sendmsg with UDP_SEGMENT, one recvmsg with UDP_GRO carry a dozen
 * datagrams through the kernel for about the price of one. A batch is a run of datagrams of one lane and one size; a
 * shorter one may end it. The staging buffer holds several batches one behind another, each datagram where
 * proxy_wan_tx() built it: nothing is copied before the kernel does.
 *
 * Blocking: when a socket is full the rest of the staging buffer simply stays. The core is not asked for
 * more meanwhile, so nothing is lost and nothing grows.
 *
 * Errors: a datagram that the kernel refuses is counted and dropped; to the transport it is one more loss. An error
 * left on the socket by an ICMP message is reported by the next send instead of sending, so a failed send is tried
 * twice. */
#define _GNU_SOURCE /* recvmmsg */
#include "wan_port.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define STAGE_LEN       (256 << 10)
#define BATCHES_MAX     64
#define BATCH_BYTES_MAX 65000 /* an IP packet's 64 KiB less headers */
#define BATCH_SEGS_MAX  16    /* back-to-back burst that a shallow switch queue has to take */
#define RX_MSGS         8
#define RX_BUF_LEN      65536
#define RCV_BUFFER      (32 << 20) /* milliseconds of a fast line while a worker is held up */
#define SND_BUFFER      (4 << 20)  /* the pacer keeps it nearly empty */
#define LANE_BYTE       1          /* offset of the lane in a datagram */

struct wan_batch {
	uint32_t off, len;
	uint16_t seg_len; /* of all datagrams but the last */
	uint16_t segs;
	uint8_t lane;
	bool closed; /* ended by a shorter datagram */
};

union sock_addr {
	struct sockaddr sa;
	struct sockaddr_in in4;
	struct sockaddr_in6 in6;
};

struct rx_control {
	_Alignas(struct cmsghdr) uint8_t bytes[CMSG_SPACE(sizeof(int)) * 3];
};

struct rx_batch {
	struct mmsghdr msgs[RX_MSGS];
	struct iovec iov[RX_MSGS];
	union sock_addr from[RX_MSGS];
	struct rx_control control[RX_MSGS];
	unsigned n; /* messages that hold something */
};

struct wan_port {
	struct wan_port_params params;
	union sock_addr local, remote;
	socklen_t addr_len;
	int rx_fd;
	int lane_fd[LANES_MAX]; /* -1: not opened yet */
	uint16_t lane_sport[LANES_MAX];
	uint16_t payload_max;
	bool gso;
	bool blocked;
	uint8_t *stage;
	struct wan_batch batch[BATCHES_MAX];
	unsigned nbatches, next_batch;
	uint8_t *rx_buf;
	struct rx_batch rx;
	struct wan_port_stats stats;
};

static bool is4(const struct ip_addr *a)
{
	return ip_addr_is4(a);
}

uint16_t wan_port_payload_max(const struct ip_addr *remote, uint16_t mtu)
{
	return (uint16_t)(mtu - (is4(remote) ? WAN_UDP_IP4_HDR : WAN_UDP_IP6_HDR));
}

static socklen_t to_sockaddr(union sock_addr *sa, const struct ip_addr *a, uint16_t port)
{
	memset(sa, 0, sizeof(*sa));
	if (is4(a)) {
		sa->in4.sin_family = AF_INET;
		sa->in4.sin_port = htons(port);
		memcpy(&sa->in4.sin_addr, a->b + 12, 4);
		return sizeof(sa->in4);
	}
	sa->in6.sin6_family = AF_INET6;
	sa->in6.sin6_port = htons(port);
	memcpy(&sa->in6.sin6_addr, a->b, 16);
	return sizeof(sa->in6);
}

static bool same_host(const union sock_addr *a, const union sock_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in4.sin_addr.s_addr == b->in4.sin_addr.s_addr;
	return memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, 16) == 0;
}

static uint16_t port_of(const union sock_addr *a)
{
	return ntohs(a->sa.sa_family == AF_INET ? a->in4.sin_port : a->in6.sin6_port);
}

static int set_int(int fd, int level, int opt, int value)
{
	return setsockopt(fd, level, opt, &value, sizeof(value));
}

static int open_socket(const struct wan_port *p)
{
	return socket(p->local.sa.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int fail(char *err, size_t errlen, const struct wan_port *p, const char *what)
{
	int e = errno;

	snprintf(err, errlen, "WAN port %u: %s: %s", p->params.port, what, strerror(e));
	return -e;
}

/* --- receiving --- */

/* Sockets that share a port join it unasked, also those of another link or program of ours, and then datagrams go
 * astray. So the first one makes sure that it is alone. */
static int check_port_free(const struct wan_port *p)
{
	int fd = open_socket(p);
	int r = fd < 0 ? -1 : bind(fd, &p->local.sa, p->addr_len);
	int e = errno;

	if (fd >= 0)
		close(fd);
	errno = e;
	return r;
}

static int attach_steering(const struct wan_port *p)
{
	struct sock_filter prog[] = {
	    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, LANE_BYTE),
	    BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, p->params.nshards),
	    BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog f = {.len = sizeof(prog) / sizeof(prog[0]), .filter = prog};

	return setsockopt(p->rx_fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &f, sizeof(f));
}

static int open_rx(struct wan_port *p, char *err, size_t errlen)
{
	bool v4 = is4(&p->params.remote);

	if (p->params.shard == 0 && check_port_free(p) < 0)
		return fail(err, errlen, p, "cannot bind the local address (each link needs a port of its own)");
	p->rx_fd = open_socket(p);
	if (p->rx_fd < 0)
		return fail(err, errlen, p, "cannot open a socket");
	set_int(p->rx_fd, SOL_SOCKET, SO_RCVBUFFORCE, RCV_BUFFER);
	if (set_int(p->rx_fd, SOL_UDP, UDP_GRO, 1) < 0)
		log_warn("WAN port %u: this kernel has no UDP_GRO: receiving will be slow", p->params.port);
	if (set_int(p->rx_fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_RECVTOS : IPV6_RECVTCLASS, 1) < 0 ||
	    set_int(p->rx_fd, SOL_SOCKET, SO_REUSEPORT, 1) < 0 || bind(p->rx_fd, &p->local.sa, p->addr_len) < 0)
		return fail(err, errlen, p, "cannot bind the local address");
	if (attach_steering(p) < 0)
		return fail(err, errlen, p, "cannot steer lanes to workers");
	return 0;
}

static void prepare_rx(struct wan_port *p)
{
	struct rx_batch *b = &p->rx;

	for (unsigned i = 0; i < RX_MSGS; i++) {
		b->iov[i] = (struct iovec){p->rx_buf + (size_t)i * RX_BUF_LEN, RX_BUF_LEN};
		b->msgs[i].msg_hdr = (struct msghdr){.msg_name = &b->from[i],
		                                     .msg_namelen = sizeof(b->from[i]),
		                                     .msg_iov = &b->iov[i],
		                                     .msg_iovlen = 1,
		                                     .msg_control = b->control[i].bytes,
		                                     .msg_controllen = sizeof(b->control[i].bytes)};
		b->msgs[i].msg_len = 0;
	}
}

/* Size of the datagrams in a message (its whole length if it is a single one) and whether they carry CE. */
static size_t read_control(struct msghdr *m, size_t len, bool *ce)
{
	size_t seg = len;

	*ce = false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			int v;

			memcpy(&v, CMSG_DATA(c), sizeof(v));
			if (v > 0)
				seg = (size_t)v;
		} else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) ||
		           (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)) {
			*ce = (*(const uint8_t *)CMSG_DATA(c) & 3) == 3; /* IPV6_TCLASS is an int: low byte first */
		}
	}
	return seg;
}

static void deliver_message(struct wan_port *p, unsigned i, wan_rx_fn fn, void *arg)
{
	struct rx_batch *b = &p->rx;
	size_t len = b->msgs[i].msg_len;
	uint8_t *data = p->rx_buf + (size_t)i * RX_BUF_LEN;
	bool ce;
	size_t seg = read_control(&b->msgs[i].msg_hdr, len, &ce);

	if (!same_host(&b->from[i], &p->remote)) {
		p->stats.rx_foreign++;
		return;
	}
	if (b->msgs[i].msg_hdr.msg_flags & MSG_TRUNC) {
		p->stats.rx_truncated++;
		return;
	}
	for (size_t off = 0; off < len; off += seg)
		fn(arg, port_of(&b->from[i]), data + off, len - off < seg ? len - off : seg, ce);
}

unsigned wan_port_receive(struct wan_port *p)
{
	int n;

	prepare_rx(p);
	n = recvmmsg(p->rx_fd, p->rx.msgs, RX_MSGS, MSG_DONTWAIT, NULL);
	p->rx.n = n > 0 ? (unsigned)n : 0;
	return p->rx.n;
}

void wan_port_deliver(struct wan_port *p, wan_rx_fn fn, void *arg)
{
	for (unsigned i = 0; i < p->rx.n; i++)
		deliver_message(p, i, fn, arg);
	p->rx.n = 0;
}

int wan_port_rx_fd(const struct wan_port *p)
{
	return p->rx_fd;
}

/* --- sending --- */

static void learn_sport(struct wan_port *p, uint8_t lane)
{
	union sock_addr own;
	socklen_t len = sizeof(own);

	if (getsockname(p->lane_fd[lane], &own.sa, &len) == 0)
		p->lane_sport[lane] = port_of(&own);
}

static int open_lane(struct wan_port *p, uint8_t lane)
{
	bool v4 = is4(&p->params.remote);
	union sock_addr own = p->local;
	int fd = open_socket(p);

	if (fd < 0)
		return -errno;
	if (v4)
		own.in4.sin_port = 0;
	else
		own.in6.sin6_port = 0;
	set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, SND_BUFFER);
	/* never fragment, and take the configured MTU's word over what ICMP says */
	if (set_int(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER,
	            v4 ? IP_PMTUDISC_PROBE : IPV6_PMTUDISC_PROBE) < 0 ||
	    bind(fd, &own.sa, p->addr_len) < 0 || connect(fd, &p->remote.sa, p->addr_len) < 0) {
		int e = errno;

		close(fd);
		return -e;
	}
	p->lane_fd[lane] = fd;
	learn_sport(p, lane);
	return 0;
}

/* One sendmsg. 0, or negative errno. */
static int send_once(int fd, uint8_t *data, size_t len, uint16_t seg_len)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(uint16_t))] = {0};
	struct iovec iov = {data, len};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (seg_len && seg_len < len) {
		struct cmsghdr *c = (struct cmsghdr *)(void *)control;

		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		c->cmsg_level = SOL_UDP;
		c->cmsg_type = UDP_SEGMENT;
		c->cmsg_len = CMSG_LEN(sizeof(seg_len));
		memcpy(CMSG_DATA(c), &seg_len, sizeof(seg_len));
	}
	return sendmsg(fd, &m, MSG_DONTWAIT) < 0 ? -errno : 0;
}

static bool would_block(int r)
{
	return r == -EAGAIN || r == -EWOULDBLOCK || r == -ENOBUFS || r == -ENOMEM;
}

static int send_twice(int fd, uint8_t *data, size_t len, uint16_t seg_len)
{
	int r = send_once(fd, data, len, seg_len);

	return r == 0 || would_block(r) ? r : send_once(fd, data, len, seg_len);
}

/* Datagrams one by one, for kernels or devices without segmentation. 0 when done, or -EAGAIN with b cut down to the
 * rest. */
static int send_singly(struct wan_port *p, struct wan_batch *b)
{
	while (b->segs > 0) {
		uint32_t len = b->len < b->seg_len ? b->len : b->seg_len;
		int r = send_twice(p->lane_fd[b->lane], p->stage + b->off, len, 0);

		if (would_block(r))
			return -EAGAIN;
		if (r < 0)
			p->stats.tx_errors++;
		b->off += len;
		b->len -= len;
		b->segs--;
	}
	return 0;
}

/* 0 when the batch is done with (sent or counted), -EAGAIN if it must wait. */
static int send_batch(struct wan_port *p, struct wan_batch *b)
{
	int r = p->lane_fd[b->lane] < 0 ? open_lane(p, b->lane) : 0;

	if (r < 0) {
		p->stats.tx_errors += b->segs;
		return 0;
	}
	if (!p->gso)
		return send_singly(p, b);
	r = send_twice(p->lane_fd[b->lane], p->stage + b->off, b->len, b->seg_len);
	if (would_block(r))
		return -EAGAIN;
	if ((r == -EIO || r == -EINVAL || r == -ENOPROTOOPT) && b->segs > 1) {
		log_warn("WAN port %u: no UDP segmentation here (%s): sending will be slow", p->params.port,
		         strerror(-r));
		p->gso = false;
		return send_singly(p, b);
	}
	if (r < 0)
		p->stats.tx_errors += b->segs;
	return 0;
}

uint8_t *wan_port_stage(struct wan_port *p, size_t *cap)
{
	const struct wan_batch *last = p->nbatches ? &p->batch[p->nbatches - 1] : NULL;
	size_t used = last ? last->off + last->len : 0;

	if (p->blocked || p->nbatches == BATCHES_MAX || STAGE_LEN - used < p->payload_max)
		return NULL;
	*cap = p->payload_max;
	return p->stage + used;
}

static bool fits_batch(const struct wan_batch *b, uint8_t lane, size_t len)
{
	return !b->closed && b->lane == lane && len <= b->seg_len && b->segs < BATCH_SEGS_MAX &&
	       b->len + len <= BATCH_BYTES_MAX;
}

void wan_port_staged(struct wan_port *p, uint8_t lane, size_t len)
{
	struct wan_batch *b = p->nbatches ? &p->batch[p->nbatches - 1] : NULL;
	uint32_t off = b ? b->off + b->len : 0;

	if (b && fits_batch(b, lane, len)) {
		b->len += (uint32_t)len;
		b->segs++;
		b->closed = len < b->seg_len;
		return;
	}
	p->batch[p->nbatches++] = (struct wan_batch){
	    .off = off, .len = (uint32_t)len, .seg_len = (uint16_t)len, .segs = 1, .lane = lane};
}

void wan_port_flush(struct wan_port *p)
{
	p->blocked = false;
	for (; p->next_batch < p->nbatches; p->next_batch++) {
		if (send_batch(p, &p->batch[p->next_batch]) < 0) {
			p->blocked = true;
			return;
		}
	}
	p->next_batch = p->nbatches = 0;
}

bool wan_port_blocked(const struct wan_port *p)
{
	return p->blocked;
}

uint16_t wan_port_lane_sport(const struct wan_port *p, uint8_t lane)
{
	return p->lane_sport[lane];
}

/* --- life --- */

/* A path MTU above the interface's would make every full datagram fail: better said now. */
static int check_mtu(const struct wan_port *p, char *err, size_t errlen)
{
	bool v4 = is4(&p->params.remote);
	int fd = open_socket(p), mtu = 0;
	socklen_t len = sizeof(mtu);
	int r = -1;

	if (fd >= 0 && connect(fd, &p->remote.sa, p->addr_len) == 0)
		r = getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &len);
	if (fd >= 0)
		close(fd);
	if (r == 0 && mtu > 0 && mtu < p->params.mtu) {
		snprintf(err, errlen,
		         "WAN port %u: the route to the other edge has MTU %d, the path is configured with %u",
		         p->params.port, mtu, p->params.mtu);
		return -EMSGSIZE;
	}
	return 0; /* no route yet: not now an error */
}

int wan_port_open(struct wan_port **port, const struct wan_port_params *params, char *err, size_t errlen)
{
	struct wan_port *p = calloc(1, sizeof(*p));
	int r;

	if (p) {
		p->stage = malloc(STAGE_LEN);
		p->rx_buf = malloc((size_t)RX_MSGS * RX_BUF_LEN);
	}
	if (!p || !p->stage || !p->rx_buf) {
		snprintf(err, errlen, "WAN port %u: out of memory", params->port);
		if (p)
			free(p->stage);
		free(p);
		return -ENOMEM;
	}
	p->params = *params;
	p->rx_fd = -1;
	p->gso = true;
	memset(p->lane_fd, 0xff, sizeof(p->lane_fd));
	p->payload_max = wan_port_payload_max(&params->remote, params->mtu);
	p->addr_len = to_sockaddr(&p->local, &params->local, params->port);
	to_sockaddr(&p->remote, &params->remote, params->port);
	r = open_rx(p, err, errlen);
	if (r == 0)
		r = check_mtu(p, err, errlen);
	if (r < 0) {
		wan_port_close(p);
		return r;
	}
	*port = p;
	return 0;
}

void wan_port_close(struct wan_port *p)
{
	for (unsigned i = 0; i < LANES_MAX; i++)
		if (p->lane_fd[i] >= 0)
			close(p->lane_fd[i]);
	if (p->rx_fd >= 0)
		close(p->rx_fd);
	free(p->stage);
	free(p->rx_buf);
	free(p);
}

void wan_port_stats(struct wan_port *p, struct wan_port_stats *s)
{
	uint32_t info[SK_MEMINFO_VARS];
	socklen_t len = sizeof(info);

	if (getsockopt(p->rx_fd, SOL_SOCKET, SO_MEMINFO, info, &len) == 0 && len > SK_MEMINFO_DROPS * sizeof(info[0]))
		p->stats.rx_kernel_drops = info[SK_MEMINFO_DROPS];
	*s = p->stats;
}
