/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Batches are the lever of the WAN side: one sendmsg with UDP_SEGMENT, one recvmsg with UDP_GRO carry a dozen
 * datagrams through the kernel for about the price of one. A batch is a run of datagrams of one lane and one size; a
 * shorter one may end it. The staging buffer holds several batches one behind another, each datagram where
 * proxy_wan_tx() built it: nothing is copied before the kernel does.
 *
 * Blocking: when a socket is full, the datagrams staged for its path stay. The core is not asked for more meanwhile, so
 * nothing is lost and nothing grows. With other paths, which must not wait for long, the staged datagrams are dropped
 * after a while, and repaired like any loss.
 *
 * Strays: a datagram that cannot be of this session, by its header, is sorted out by the kernel (wan_filter.h) into a
 * socket of its own that wakes nobody: a flood of garbage costs no wakeups, and does not fill the buffer in which ours
 * wait. Strays are delivered all the same, later and many at a time: to count why they are dropped, and because the
 * kernel judges only the first of joined datagrams, and learns of a new session a little late.
 *
 * Missing addresses: a path whose address this machine does not have, at a start or later, is like a line that is cut.
 * Its receivers are bound all the same (addr_bind_ahead()), and its lanes get their sockets when the address is there;
 * until then their datagrams are dropped and counted.
 *
 * Errors: a datagram that the kernel refuses is counted and dropped; to the transport it is one more loss. An error
 * left on the socket by an ICMP message is reported by the next send instead of sending, so a failed send is tried
 * twice. */
#define _GNU_SOURCE /* recvmmsg */
#include "wan_port.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/config/config.h"
#include "daemon/util/addr.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "daemon/privileged/privileged.h"
#include "seal/secret_mem.h"
#include "wan_filter.h"
#include "wan_socket.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define STAGE_LEN       (256 << 10)
#define BATCHES_MAX     64
#define BATCH_BYTES_MAX 65000 /* an IP packet's 64 KiB less headers */
#define BATCH_SEGS_MAX  16    /* largest back-to-back burst: a shallow switch queue must hold it */
#define RX_MSGS         8
#define RX_BUF_LEN      65536
#define RX_BYTES        ((size_t)RX_MSGS * RX_BUF_LEN)
#define RCV_BUFFER      (32 << 20) /* milliseconds of a fast line while a worker is held up */
#define STRAY_BUFFER    (8 << 20)  /* 200,000 datagrams a second, when they begin after a rest; then millions */
#define SND_BUFFER      (4 << 20)  /* the pacer keeps it nearly empty */
#define GSO_AGAIN_NS    (10 * NS_PER_S) /* between tries of a segmentation that did not work */
#define BLOCKED_TRIES   40         /* flushes, 50 us apart, before datagrams for a path that takes nothing are
                                    * dropped */

struct wan_batch {
	uint32_t off, len;
	uint16_t seg_len; /* of all datagrams but the last */
	uint16_t segs;
	uint8_t lane, path, moves;
	bool closed; /* ended by a shorter datagram */
	bool ect;
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

/* One path. */
struct way {
	struct wan_port_path params;
	uint16_t payload_max;
	union sock_addr local, remote;
	socklen_t addr_len;
	int rx_fd, stray_fd;
	int lane_fd[LANES_MAX][WAN_SPORTS_MAX];   /* -1: not opened yet */
	uint8_t turn[LANES_MAX];                  /* of the source ports */
	uint16_t lane_sport[LANES_MAX];           /* of the first one */
	uint8_t lane_moves[LANES_MAX];            /* struct wan_tx: of its sockets */
	bool lane_ect[LANES_MAX][WAN_SPORTS_MAX]; /* it sends ECT(0) */
	uint64_t no_gso_until_ns;                 /* 0: the kernel segments */
	bool no_gso_said;
	unsigned blocked; /* flushes in a row in which the path took nothing */
	uint8_t *rx_buf;
	struct rx_batch rx;
	uint32_t rx_drops, stray_drops; /* of the kernel */
	struct log_limit no_socket_said;
};

struct wan_port {
	struct wan_port_params params;
	uint16_t payload_max; /* of any path */
	bool blocked;
	uint8_t *stage;
	struct wan_batch batch[BATCHES_MAX];
	unsigned nbatches;
	struct wan_port_stats stats;
	struct way way[];
};

static bool is4(const struct ip_addr *a)
{
	return ip_addr_is4(a);
}

static bool same_host(const union sock_addr *a, const union sock_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in4.sin_addr.s_addr == b->in4.sin_addr.s_addr;
	return memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, 16) == 0;
}

static int set_int(int fd, int level, int opt, int value)
{
	return setsockopt(fd, level, opt, &value, sizeof(value));
}

static int fail(char *err, size_t errlen, const struct way *w, const char *what)
{
	int e = errno;

	snprintf(err, errlen, "WAN port %u: %s: %s", w->params.port, what, strerror(e));
	return -e;
}

/* --- receiving --- */

/* Any socket with SO_REUSEPORT of the same user may join the port, also one of another link or daemon, and then takes
 * some of the datagrams. So the first socket checks that it is alone. */
static int check_port_free(const struct way *w)
{
	int fd = wan_socket(&w->local);
	int r = fd < 0 ? -1 : wan_socket_bind(fd, &w->local, w->addr_len);
	int e = errno;

	if (fd >= 0)
		close(fd);
	errno = e;
	return r;
}

static int attach_filter(struct way *w, uint32_t nshards, uint8_t path, uint32_t epoch)
{
	struct wan_filter_spec spec = {.remote = w->params.remote, .nshards = nshards, .path = path, .epoch = epoch};
	struct sock_filter prog[WAN_FILTER_MAX];
	struct sock_fprog f = {.len = wan_filter_build(&spec, prog), .filter = prog};

	return setsockopt(w->rx_fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &f, sizeof(f));
}

enum receiver { OF_SHARD, OF_STRAYS };

/* The name under which the parent holds the socket (privileged_hold()). */
static void name_receiver(const struct wan_port *p, const struct way *w, enum receiver of, char name[HELD_NAME_MAX])
{
	char way[HELD_NAME_MAX];

	snprintf(name, HELD_NAME_MAX, "%.60s" WAN_SOCKET_NAME " worker %u of %u, %s.", held_name(&w->params.local, w->params.port, way),
	         p->params.shard, p->params.nshards, of == OF_SHARD ? "lanes" : "strays");
}

/* A socket that the parent kept from an earlier process with as many workers: it is unchanged, and in its place among
 * those that share the port. -ENOENT: there is none. */
static int held_receiver(const struct wan_port *p, const struct way *w, enum receiver of)
{
	char name[HELD_NAME_MAX];

	name_receiver(p, w, of, name);
	return privileged_held(name);
}

/* Sets up a receiving socket. All sockets that share the port set UDP_GRO, because the kernel joins datagrams before it
 * picks the socket. *fd not negative: the socket is open already. */
static int open_rx(const struct wan_port *p, const struct way *w, enum receiver of, int *fd, int buffer)
{
	bool v4 = is4(&w->params.remote);
	char name[HELD_NAME_MAX];

	if (*fd >= 0)
		return 0;
	*fd = wan_socket(&w->local);
	if (*fd < 0)
		return -1;
	privileged_receive_buffer(*fd, buffer);
	if (set_int(*fd, SOL_UDP, UDP_GRO, 1) < 0)
		log_warn("WAN port %u: this kernel has no UDP_GRO: datagrams are received more slowly", w->params.port);
	if (set_int(*fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_RECVTOS : IPV6_RECVTCLASS, 1) < 0 ||
	    set_int(*fd, SOL_SOCKET, SO_REUSEPORT, 1) < 0)
		return -1;
	if (wan_socket_bind(*fd, &w->local, w->addr_len) < 0)
		return -1;
	name_receiver(p, w, of, name);
	privileged_hold(name, *fd);
	return 0;
}

/* Opens the receivers in the order in which the filter counts them. */
static int open_receivers(const struct wan_port *p, uint8_t path, struct way *w, char *err, size_t errlen)
{
	w->rx_fd = held_receiver(p, w, OF_SHARD);
	if (p->params.shard == 0 && w->rx_fd < 0) {
		wan_socket_let_go(&w->params);
		if (check_port_free(w) < 0)
			return wan_socket_bind_failed(&w->params, err, errlen);
	}
	w->stray_fd = held_receiver(p, w, OF_STRAYS);
	if (open_rx(p, w, OF_SHARD, &w->rx_fd, RCV_BUFFER) < 0 ||
	    open_rx(p, w, OF_STRAYS, &w->stray_fd, STRAY_BUFFER) < 0)
		return fail(err, errlen, w, "cannot open a socket on the local address");
	if (attach_filter(w, p->params.nshards, path, 0) < 0)
		return fail(err, errlen, w, "cannot steer lanes to workers");
	return 0;
}

void wan_port_session(struct wan_port *p, uint32_t epoch)
{
	for (uint8_t i = 0; i < p->params.npaths; i++)
		if (attach_filter(&p->way[i], p->params.nshards, i, epoch) < 0)
			log_warn("WAN port %u: cannot steer the session's datagrams to their workers, which receive "
			         "them later: %s",
			         p->way[i].params.port, strerror(errno));
}

static void prepare_rx(struct way *w)
{
	struct rx_batch *b = &w->rx;

	for (unsigned i = 0; i < RX_MSGS; i++) {
		b->iov[i] = (struct iovec){w->rx_buf + (size_t)i * RX_BUF_LEN, RX_BUF_LEN};
		b->msgs[i].msg_hdr = (struct msghdr){.msg_name = &b->from[i],
		                                     .msg_namelen = sizeof(b->from[i]),
		                                     .msg_iov = &b->iov[i],
		                                     .msg_iovlen = 1,
		                                     .msg_control = b->control[i].bytes,
		                                     .msg_controllen = sizeof(b->control[i].bytes)};
		b->msgs[i].msg_len = 0;
	}
}

/* Size of the datagrams in a message (its whole length if it is a single one) and their ECN field: the kernel joins
 * only such as have the same. */
static size_t read_control(struct msghdr *m, size_t len, uint8_t *ecn)
{
	size_t seg = len;

	*ecn = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			int v;

			memcpy(&v, CMSG_DATA(c), sizeof(v));
			if (v > 0)
				seg = (size_t)v;
		} else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) ||
		           (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)) {
			*ecn = *(const uint8_t *)CMSG_DATA(c) & ECN_MASK; /* IPV6_TCLASS is an int: low byte first */
		}
	}
	return seg;
}

/* How many of its datagrams were taken. */
static unsigned deliver_message(struct wan_port *p, uint8_t path, unsigned i, wan_rx_fn fn, void *arg)
{
	struct way *w = &p->way[path];
	struct rx_batch *b = &w->rx;
	size_t len = b->msgs[i].msg_len;
	uint8_t *data = w->rx_buf + (size_t)i * RX_BUF_LEN;
	uint8_t ecn;
	size_t seg = read_control(&b->msgs[i].msg_hdr, len, &ecn);
	unsigned taken = 0;

	if (!same_host(&b->from[i], &w->remote)) {
		p->stats.rx_foreign++;
		return 0;
	}
	if (b->msgs[i].msg_hdr.msg_flags & MSG_TRUNC) {
		p->stats.rx_truncated++;
		return 0;
	}
	for (size_t off = 0; off < len; off += seg) {
		size_t n = len - off < seg ? len - off : seg;

		if (n > WAN_PATH_BYTE && data[off + WAN_PATH_BYTE] != path)
			p->stats.rx_foreign++;
		else
			taken += fn(arg, path, wan_sock_port(&b->from[i]), data + off, n, ecn);
	}
	return taken;
}

/* Receives into the free places of the batch. */
static enum wan_port_batch receive(struct way *w, int fd)
{
	int n = w->rx.n < RX_MSGS ? recvmmsg(fd, w->rx.msgs + w->rx.n, RX_MSGS - w->rx.n, MSG_DONTWAIT, NULL) : 0;

	w->rx.n += n > 0 ? (unsigned)n : 0;
	return w->rx.n == RX_MSGS ? WAN_BATCH_FULL : n > 0 ? WAN_BATCH_PART : WAN_BATCH_EMPTY;
}

enum wan_port_batch wan_port_receive(struct wan_port *p)
{
	enum wan_port_batch most = WAN_BATCH_EMPTY;

	for (uint32_t i = 0; i < p->params.npaths; i++) {
		enum wan_port_batch b;

		prepare_rx(&p->way[i]);
		b = receive(&p->way[i], p->way[i].rx_fd);
		most = b > most ? b : most;
	}
	return most;
}

enum wan_port_batch wan_port_receive_unmatched(struct wan_port *p)
{
	enum wan_port_batch most = WAN_BATCH_EMPTY;

	for (uint32_t i = 0; i < p->params.npaths; i++) {
		enum wan_port_batch b = receive(&p->way[i], p->way[i].stray_fd);

		most = b > most ? b : most;
	}
	return most;
}

unsigned wan_port_deliver(struct wan_port *p, wan_rx_fn fn, void *arg)
{
	unsigned taken = 0;

	for (uint8_t path = 0; path < p->params.npaths; path++) {
		for (unsigned i = 0; i < p->way[path].rx.n; i++)
			taken += deliver_message(p, path, i, fn, arg);
		p->way[path].rx.n = 0;
	}
	return taken;
}

int wan_port_rx_fd(const struct wan_port *p, uint32_t path)
{
	return p->way[path].rx_fd;
}

/* --- sending --- */

static void set_tos(const struct way *w, int fd, bool ect)
{
	bool v4 = is4(&w->params.remote);

	set_int(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS,
	        w->params.dscp << 2 | (ect ? ECN_ECT0 : 0));
}

static int open_lane(struct way *w, uint8_t lane, uint32_t turn)
{
	bool v4 = is4(&w->params.remote);
	union sock_addr own = w->local;
	int fd = wan_socket(&w->local);

	if (fd < 0)
		return -errno;
	if (v4)
		own.in4.sin_port = 0;
	else
		own.in6.sin6_port = 0;
	privileged_send_buffer(fd, SND_BUFFER);
	set_tos(w, fd, false);
	w->lane_ect[lane][turn] = false;
	/* never fragment, and trust the configured MTU, not ICMP messages */
	if (set_int(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER,
	            v4 ? IP_PMTUDISC_PROBE : IPV6_PMTUDISC_PROBE) < 0 ||
	    bind(fd, &own.sa, w->addr_len) < 0 || connect(fd, &w->remote.sa, w->addr_len) < 0) {
		int e = errno;

		close(fd);
		return -e;
	}
	w->lane_fd[lane][turn] = fd;
	if (turn == 0)
		w->lane_sport[lane] = wan_socket_port(fd);
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

/* Datagrams one by one, when there is no segmentation. 0 when done, or -EAGAIN with b cut down to the rest. */
static int send_singly(struct wan_port *p, int fd, struct wan_batch *b)
{
	while (b->segs > 0) {
		uint32_t len = b->len < b->seg_len ? b->len : b->seg_len;
		int r = send_twice(fd, p->stage + b->off, len, 0);

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

/* Changes a lane's source ports: closes its sockets, so that the next one gets a new port. */
static void move_lane(struct way *w, uint8_t lane, uint8_t moves)
{
	uint16_t before = w->lane_sport[lane];

	for (uint32_t i = 0; i < w->params.source_ports; i++) {
		if (w->lane_fd[lane][i] >= 0)
			close(w->lane_fd[lane][i]);
		w->lane_fd[lane][i] = -1;
	}
	w->lane_moves[lane] = moves;
	if (before && open_lane(w, lane, 0) == 0)
		log_warn("WAN port %u: the other edge does not answer lane %u and answers other lanes: source port %u "
		         "instead of %u",
		         w->params.port, lane, w->lane_sport[lane], before);
}

static void say_no_socket(struct way *w, int r)
{
	char at[ADDR_TEXT_MAX];

	if (log_limit_pass(&w->no_socket_said, clock_now_ns(), NULL))
		log_err("WAN port %u: cannot send from LocalAddress=%s: %s", w->params.port,
		        addr_write(&w->params.local, at, sizeof(at)), strerror(-r));
}

/* The kernel refuses the segmentation of a batch. Older kernels refuse it also if the interface's MTU is below the
 * segment, or if its checksum offload is off for a moment: so the datagrams themselves tell, and later batches try
 * again. As send_singly(). */
static int send_unsegmented(struct wan_port *p, struct way *w, int fd, struct wan_batch *b, int refused)
{
	uint64_t before = p->stats.tx_errors + b->segs;
	int r = send_singly(p, fd, b);

	if (p->stats.tx_errors + b->segs == before)
		return r; /* none went through, either */
	w->no_gso_until_ns = clock_now_ns() + GSO_AGAIN_NS;
	if (!w->no_gso_said)
		log_warn("WAN port %u: the kernel does no UDP segmentation (%s): datagrams are sent more slowly; "
		         "longreachd tries again every %d s",
		         w->params.port, strerror(-refused), (int)(GSO_AGAIN_NS / NS_PER_S));
	w->no_gso_said = true;
	return r;
}

static void note_segmented(struct way *w)
{
	w->no_gso_until_ns = 0;
	if (!w->no_gso_said)
		return;
	w->no_gso_said = false;
	log_notice("WAN port %u: the kernel does UDP segmentation again", w->params.port);
}

static bool may_segment(const struct way *w)
{
	return w->no_gso_until_ns == 0 || clock_now_ns() >= w->no_gso_until_ns;
}

/* Sends a batch. 0: sent, or dropped and counted; -EAGAIN: it must wait. */
static int send_batch(struct wan_port *p, struct wan_batch *b)
{
	struct way *w = &p->way[b->path];
	uint32_t turn = w->turn[b->lane] % w->params.source_ports;
	int r, fd;

	if (w->lane_moves[b->lane] != b->moves)
		move_lane(w, b->lane, b->moves);
	r = w->lane_fd[b->lane][turn] < 0 ? open_lane(w, b->lane, turn) : 0;
	fd = w->lane_fd[b->lane][turn];
	if (r < 0) {
		p->stats.tx_no_socket += b->segs;
		say_no_socket(w, r);
		return 0;
	}
	if (w->lane_ect[b->lane][turn] != b->ect) {
		set_tos(w, fd, b->ect);
		w->lane_ect[b->lane][turn] = b->ect;
	}
	if (!may_segment(w))
		return send_singly(p, fd, b);
	r = send_twice(fd, p->stage + b->off, b->len, b->seg_len);
	if (would_block(r))
		return -EAGAIN;
	w->turn[b->lane]++;
	if ((r == -EIO || r == -EINVAL || r == -ENOPROTOOPT) && b->segs > 1)
		return send_unsegmented(p, w, fd, b, r);
	if (r == 0 && b->segs > 1)
		note_segmented(w);
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

static bool fits_batch(const struct wan_batch *b, const struct wan_tx *tx, size_t len)
{
	return !b->closed && b->lane == tx->lane && b->path == tx->path && b->ect == tx->ect && b->moves == tx->moves &&
	       len <= b->seg_len &&
	       b->segs < BATCH_SEGS_MAX && b->len + len <= BATCH_BYTES_MAX;
}

void wan_port_staged(struct wan_port *p, const struct wan_tx *tx, size_t len)
{
	struct wan_batch *b = p->nbatches ? &p->batch[p->nbatches - 1] : NULL;
	uint32_t off = b ? b->off + b->len : 0;

	if (b && fits_batch(b, tx, len)) {
		b->len += (uint32_t)len;
		b->segs++;
		b->closed = len < b->seg_len;
		return;
	}
	p->batch[p->nbatches++] = (struct wan_batch){.off = off,
	                                             .len = (uint32_t)len,
	                                             .seg_len = (uint16_t)len,
	                                             .segs = 1,
	                                             .lane = tx->lane,
	                                             .path = tx->path,
	                                             .moves = tx->moves,
	                                             .ect = tx->ect};
}

/* True if the batch stays: its path does not take it now. */
static bool must_wait(struct wan_port *p, struct wan_batch *b, uint32_t *blocked)
{
	struct way *w = &p->way[b->path];

	if (*blocked & 1u << b->path)
		return true;
	if (send_batch(p, b) == 0) {
		w->blocked = 0;
		return false;
	}
	if (p->params.npaths > 1 && ++w->blocked > BLOCKED_TRIES) {
		p->stats.tx_errors += b->segs;
		return false;
	}
	*blocked |= 1u << b->path;
	return true;
}

void wan_port_flush(struct wan_port *p)
{
	uint32_t blocked = 0;
	unsigned kept = 0;

	for (unsigned i = 0; i < p->nbatches; i++)
		if (must_wait(p, &p->batch[i], &blocked))
			p->batch[kept++] = p->batch[i];
	p->nbatches = kept;
	p->blocked = kept > 0;
}

bool wan_port_blocked(const struct wan_port *p)
{
	return p->blocked;
}

uint16_t wan_port_lane_sport(const struct wan_port *p, const struct wan_tx *tx)
{
	return p->way[tx->path].lane_sport[tx->lane];
}

/* --- life --- */

static void init_way(struct way *w, const struct wan_port_path *params)
{
	w->params = *params;
	w->rx_fd = w->stray_fd = -1;
	w->no_socket_said = (struct log_limit){.window_ns = 60 * NS_PER_S, .burst = 1};
	memset(w->lane_fd, 0xff, sizeof(w->lane_fd));
	w->payload_max = config_payload_max(&params->remote, params->mtu);
	w->addr_len = wan_sock_addr(&w->local, &params->local, params->port);
	wan_sock_addr(&w->remote, &params->remote, params->port);
}

/* A buffer that the hosts' packets pass through: excluded from core dumps, with all its pages taken from the start. */
static uint8_t *make_buffer(size_t len)
{
	uint8_t *b = secret_map(len);

	return b ? memset(b, 0xff, len) : NULL;
}

int wan_port_open(struct wan_port **port, const struct wan_port_params *params, char *err, size_t errlen)
{
	struct wan_port *p = calloc(1, sizeof(*p) + params->npaths * sizeof(p->way[0]));
	bool enough = p && (p->stage = make_buffer(STAGE_LEN));
	int r = 0;

	for (uint32_t i = 0; p && i < params->npaths; i++) {
		init_way(&p->way[i], &params->path[i]);
		p->way[i].rx_buf = make_buffer(RX_BYTES);
		enough &= p->way[i].rx_buf != NULL;
		if (p->way[i].payload_max > p->payload_max)
			p->payload_max = p->way[i].payload_max;
	}
	if (p)
		p->params = *params;
	if (!enough) {
		snprintf(err, errlen, "WAN port %u: out of memory", params->path[0].port);
		r = -ENOMEM;
	}
	for (uint8_t i = 0; i < params->npaths && r == 0; i++)
		r = open_receivers(p, i, &p->way[i], err, errlen);
	if (r < 0) {
		if (p)
			wan_port_close(p);
		return r;
	}
	*port = p;
	return 0;
}

static void close_receiver(const struct wan_port *p, const struct way *w, enum receiver of, int fd)
{
	char name[HELD_NAME_MAX];

	if (fd < 0)
		return;
	name_receiver(p, w, of, name);
	privileged_let_go(name);
	close(fd);
}

static void close_way(const struct wan_port *p, struct way *w)
{
	for (unsigned i = 0; i < LANES_MAX; i++)
		for (unsigned j = 0; j < WAN_SPORTS_MAX; j++)
			if (w->lane_fd[i][j] >= 0)
				close(w->lane_fd[i][j]);
	close_receiver(p, w, OF_SHARD, w->rx_fd);
	close_receiver(p, w, OF_STRAYS, w->stray_fd);
	secret_unmap(w->rx_buf, RX_BYTES);
}

void wan_port_close(struct wan_port *p)
{
	for (uint32_t i = 0; i < p->params.npaths; i++)
		close_way(p, &p->way[i]);
	secret_unmap(p->stage, STAGE_LEN);
	free(p);
}

static void read_drops(int fd, uint32_t *drops)
{
	uint32_t info[SK_MEMINFO_VARS];
	socklen_t len = sizeof(info);

	if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len) == 0 && len > SK_MEMINFO_DROPS * sizeof(info[0]))
		*drops = info[SK_MEMINFO_DROPS];
}

void wan_port_stats(struct wan_port *p, struct wan_port_stats *s)
{
	p->stats.rx_kernel_drops = p->stats.rx_unmatched_drops = 0;
	for (uint32_t i = 0; i < p->params.npaths; i++) {
		struct way *w = &p->way[i];

		read_drops(w->rx_fd, &w->rx_drops);
		read_drops(w->stray_fd, &w->stray_drops);
		p->stats.rx_kernel_drops += w->rx_drops;
		p->stats.rx_unmatched_drops += w->stray_drops;
	}
	*s = p->stats;
}

const struct wan_port_ops wan_socket_ops = {
    .open = wan_port_open,
    .close = wan_port_close,
    .session = wan_port_session,
    .rx_fd = wan_port_rx_fd,
    .receive = wan_port_receive,
    .receive_unmatched = wan_port_receive_unmatched,
    .deliver = wan_port_deliver,
    .stage = wan_port_stage,
    .staged = wan_port_staged,
    .flush = wan_port_flush,
    .blocked = wan_port_blocked,
    .lane_sport = wan_port_lane_sport,
    .stats = wan_port_stats,
};
