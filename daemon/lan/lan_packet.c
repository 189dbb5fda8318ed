/* SPDX-License-Identifier: Apache-2.0 */
/* lan_packet.c - a LAN port by AF_PACKET: a TPACKET_V2 ring to receive, sendmmsg to send.
 *
 * Theory of operation
 *
 * One socket does both. The socket is made with protocol 0, so it receives nothing before filter and ring are set, and
 * then bound with ETH_P_ALL: such sockets see a packet before tc and nft's ingress hooks, so that an nft drop can keep
 * the kernel from forwarding the packets taken here. Frames that leave this machine are not looped back
 * (IGNORE_OUTGOING).
 *
 * TPACKET_V2, not V3: V3 hands over whole blocks when a timer says so, which costs tens of microseconds of latency. The
 * frame size is that of the largest packet that can be ours, not of the interface's MTU: the filter takes no other
 * packets. Longer ones (joined by GRO, or by TSO of a sender on the same machine) are dropped and counted.
 *
 * When the interface disappears, the kernel unbinds the socket and sets an error on it; filter and ring stay. The
 * socket is bound again when an interface of the same name appears.
 *
 * Sending skips the queueing discipline: a full device queue then comes back as ENOBUFS and the frame is sent again,
 * where fq_codel would drop it and leave RC to find out. Frames that the device does not take are copied, because their
 * bodies lie in the arena and are only valid until the core is called again. */
#define _GNU_SOURCE /* sendmmsg */
#include "lan_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "l4_csum.h"
#include "daemon/privileged/privileged.h"
#include "seal/secret_mem.h"

#define TX_PARTS      4
#define TX_SNDBUF     (8 << 20)
#define BLOCK_SIZE    32768 /* of the ring; a frame never crosses a block */
#define RING_HDR_ROOM 128   /* tpacket2_hdr, sockaddr_ll and the alignment in front of the frame */

struct kept_frame {
	uint16_t len;
	uint8_t bytes[LAN_ETH_MAX + LAN_IP_MAX];
};

#define KEPT_BYTES (LAN_TX_BATCH * sizeof(struct kept_frame))

struct lan_port {
	int fd;
	uint8_t *ring;
	size_t ring_len;
	uint32_t frame_size, frames_per_block, nblocks;
	uint32_t block, frame; /* the ring position to look at next */
	_Atomic uint32_t next; /* the same position, counted over all blocks: for other threads */
	struct lan_port_stats stats;
	struct burst_ring bursts;
	/* frames that the device would not take */
	struct kept_frame *kept;
	unsigned nkept, kept_next;
};

static int fail(char *err, size_t errlen, const char *ifname, const char *what)
{
	int e = errno;

	snprintf(err, errlen, "LAN port %s: %s: %s", ifname, what, strerror(e));
	return -e;
}

/* The ifindex; -ENODEV: no such interface; -EMEDIUMTYPE: not an Ethernet interface. */
static int find_interface(const struct lan_port *p, const char *ifname, int *ifindex)
{
	struct ifreq ifr = {0};

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	if (ioctl(p->fd, SIOCGIFINDEX, &ifr) < 0)
		return -errno;
	*ifindex = ifr.ifr_ifindex;
	if (ioctl(p->fd, SIOCGIFHWADDR, &ifr) < 0)
		return -errno;
	return ifr.ifr_hwaddr.sa_family == ARPHRD_ETHER ? 0 : -EMEDIUMTYPE;
}

static int open_interface(struct lan_port *p, const char *ifname, int *ifindex, char *err, size_t errlen)
{
	int r = find_interface(p, ifname, ifindex);

	if (r == -EMEDIUMTYPE)
		snprintf(err, errlen, "LAN port %s: is not an Ethernet interface", ifname);
	else if (r < 0)
		snprintf(err, errlen, "LAN port %s: no such interface: %s", ifname, strerror(-r));
	return r;
}

static int attach_filter(int fd, const struct lan_filter_spec *spec)
{
	static struct sock_filter prog[LAN_FILTER_MAX]; /* main thread only */
	struct lan_filter_spec open_spec = *spec;
	struct sock_fprog f = {.len = lan_filter_build(spec, prog), .filter = prog};

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &f, sizeof(f)) == 0)
		return 0;
	if (errno != ENOMEM)
		return -1;
	/* many prefixes exceed net.core.optmem_max: takes all RoCEv2 of our lanes, and the core drops packets outside
	 * the prefixes */
	open_spec.nlocal = open_spec.nremote = 0;
	f.len = lan_filter_build(&open_spec, prog);
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &f, sizeof(f));
}

static int set_int(int fd, int level, int opt, int value)
{
	return setsockopt(fd, level, opt, &value, sizeof(value));
}

static int map_ring(struct lan_port *p, uint32_t ring_frames, uint32_t frame_max)
{
	struct tpacket_req req;

	p->frame_size = (frame_max + RING_HDR_ROOM + 63u) & ~63u;
	p->frames_per_block = BLOCK_SIZE / p->frame_size;
	p->nblocks = (ring_frames + p->frames_per_block - 1) / p->frames_per_block;
	req = (struct tpacket_req){
	    .tp_block_size = BLOCK_SIZE,
	    .tp_block_nr = p->nblocks,
	    .tp_frame_size = p->frame_size,
	    .tp_frame_nr = p->nblocks * p->frames_per_block,
	};
	p->ring_len = (size_t)BLOCK_SIZE * p->nblocks;
	if (set_int(p->fd, SOL_PACKET, PACKET_VERSION, TPACKET_V2) < 0 ||
	    setsockopt(p->fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)) < 0)
		return -1;
	p->ring = mmap(NULL, p->ring_len, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
	if (p->ring == MAP_FAILED) {
		p->ring = NULL;
		return -1;
	}
	secret_hide(p->ring, p->ring_len);
	return 0;
}

static int bind_port(struct lan_port *p, int ifindex)
{
	struct sockaddr_ll sll = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = ifindex};

	return bind(p->fd, (struct sockaddr *)&sll, sizeof(sll));
}

static int packet_rebind(struct lan_port *p, const char *ifname)
{
	int ifindex, r = find_interface(p, ifname, &ifindex);

	if (r == 0 && bind_port(p, ifindex) < 0)
		r = -errno;
	return r;
}

/* The kernel's answer: an interface that leaves unbinds the socket, and may come back with the index that it had. A
 * socket that was never bound has 0. */
static int packet_ifindex(const struct lan_port *p)
{
	struct sockaddr_ll sll;
	socklen_t len = sizeof(sll);

	return getsockname(p->fd, (struct sockaddr *)&sll, &len) == 0 && sll.sll_ifindex > 0 ? sll.sll_ifindex : -1;
}

static int set_up(struct lan_port *p, const struct lan_port_params *params, char *err, size_t errlen)
{
	int ifindex, r;
	bool later;

	p->fd = privileged_packet_socket(TX_SNDBUF);
	if (p->fd < 0) {
		errno = -p->fd;
		return fail(err, errlen, params->ifname, "cannot open a packet socket");
	}
	r = open_interface(p, params->ifname, &ifindex, err, errlen);
	later = r == -ENODEV && params->may_come_later;
	if (r < 0 && !later)
		return r;
	if (attach_filter(p->fd, &params->filter) < 0)
		return fail(err, errlen, params->ifname, "cannot attach the packet filter");
	if (set_int(p->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) < 0)
		return fail(err, errlen, params->ifname, "cannot ignore outgoing packets (Linux 4.20 or later)");
	if (map_ring(p, params->ring_frames, params->filter.snaplen) < 0)
		return fail(err, errlen, params->ifname, "cannot map the receive ring");
	/* optional: without it sending is only a little slower */
	set_int(p->fd, SOL_PACKET, PACKET_QDISC_BYPASS, 1);
	if (!later && bind_port(p, ifindex) < 0)
		return fail(err, errlen, params->ifname, "cannot bind the packet socket");
	return 0;
}

static void packet_close(struct lan_port *p)
{
	if (p->ring)
		munmap(p->ring, p->ring_len);
	if (p->fd >= 0)
		close(p->fd);
	secret_unmap(p->kept, KEPT_BYTES);
	burst_ring_free(&p->bursts);
	free(p);
}

static int packet_open(struct lan_port **port, const struct lan_port_params *params, char *err, size_t errlen)
{
	struct lan_port *p = calloc(1, sizeof(*p));
	int r = -ENOMEM;

	if (!p || !burst_ring_init(&p->bursts) || !(p->kept = secret_map(KEPT_BYTES))) {
		snprintf(err, errlen, "LAN port %s: out of memory", params->ifname);
		if (p)
			burst_ring_free(&p->bursts);
		free(p);
		return r;
	}
	p->fd = -1;
	r = set_up(p, params, err, errlen);
	if (r < 0) {
		packet_close(p);
		return r;
	}
	*port = p;
	return 0;
}

static int packet_fd(const struct lan_port *p)
{
	return p->fd;
}

static void take_frame(struct lan_port *p, struct tpacket2_hdr *h, uint32_t status, lan_rx_fn fn, void *arg)
{
	uint8_t *l3 = (uint8_t *)h + h->tp_net;
	uint16_t tci = status & TP_STATUS_VLAN_VALID ? h->tp_vlan_tci : 0;
	size_t len;

	if (h->tp_snaplen < h->tp_len) {
		p->stats.rx_truncated++;
		return;
	}
	if (h->tp_net < h->tp_mac || (size_t)(h->tp_net - h->tp_mac) > h->tp_snaplen)
		return;
	len = h->tp_snaplen - (size_t)(h->tp_net - h->tp_mac);
	burst_ring_add(&p->bursts, h->tp_sec, h->tp_nsec, burst_priority(l3, tci), h->tp_len);
	/* from a socket on this machine (containers): the checksum was left to hardware that does not exist here */
	if (status & TP_STATUS_CSUMNOTREADY)
		l4_csum_fill(l3, len);
	fn(arg, l3, len, tci);
}

static struct tpacket2_hdr *frame_at(const struct lan_port *p, uint32_t block, uint32_t frame)
{
	return (struct tpacket2_hdr *)(void *)(p->ring + (size_t)block * BLOCK_SIZE + (size_t)frame * p->frame_size);
}

/* The kernel fills the ring in order: if the frame at that distance is there, so are all before it. */
static bool packet_rx_waits(const struct lan_port *p, uint32_t frames)
{
	uint32_t total = p->nblocks * p->frames_per_block;
	uint32_t at = (atomic_load_explicit(&p->next, memory_order_relaxed) + frames - 1) % total;
	const struct tpacket2_hdr *h = frame_at(p, at / p->frames_per_block, at % p->frames_per_block);

	return frames <= total && (__atomic_load_n(&h->tp_status, __ATOMIC_RELAXED) & TP_STATUS_USER) != 0;
}

static void next_frame(struct lan_port *p)
{
	if (++p->frame == p->frames_per_block) {
		p->frame = 0;
		if (++p->block == p->nblocks)
			p->block = 0;
	}
	atomic_store_explicit(&p->next, p->block * p->frames_per_block + p->frame, memory_order_relaxed);
}

static unsigned packet_rx_batch(struct lan_port *p, unsigned budget, lan_rx_fn fn, void *arg)
{
	unsigned n;

	for (n = 0; n < budget; n++) {
		struct tpacket2_hdr *h = frame_at(p, p->block, p->frame);
		uint32_t status = __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE);

		if (!(status & TP_STATUS_USER))
			break;
		take_frame(p, h, status, fn, arg);
		__atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		next_frame(p);
	}
	return n;
}

/* --- sending --- */

static unsigned fill_iov(struct iovec iov[TX_PARTS], const struct lan_frame *f)
{
	unsigned n = 0;

	iov[n++] = (struct iovec){(void *)(uintptr_t)f->eth, f->eth_len};
	iov[n++] = (struct iovec){(void *)(uintptr_t)f->pkt.hdr, f->pkt.hdr_len};
	if (f->pkt.body_len)
		iov[n++] = (struct iovec){(void *)(uintptr_t)f->pkt.body, f->pkt.body_len};
	if (f->pkt.trailer_len)
		iov[n++] = (struct iovec){(void *)(uintptr_t)f->pkt.trailer, f->pkt.trailer_len};
	return n;
}

static bool would_block(int e)
{
	return e == EAGAIN || e == EWOULDBLOCK || e == ENOBUFS || e == ENOMEM;
}

/* Sends messages in order. Returns how many were sent or refused; fewer than n if the device takes no more now. */
static unsigned send_all(struct lan_port *p, struct mmsghdr *msgs, unsigned n)
{
	unsigned done = 0;

	while (done < n) {
		int r = sendmmsg(p->fd, msgs + done, n - done, MSG_DONTWAIT);

		if (r > 0) {
			done += (unsigned)r;
			continue;
		}
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 && would_block(errno))
			break;
		/* the kernel refuses this frame for good (interface down, frame too long): goes on with the next */
		p->stats.tx_errors++;
		done++;
	}
	return done;
}

static void keep_frame(struct lan_port *p, const struct msghdr *m)
{
	struct kept_frame *k = &p->kept[p->nkept];
	size_t len = 0;

	for (size_t i = 0; i < m->msg_iovlen; i++) {
		if (len + m->msg_iov[i].iov_len > sizeof(k->bytes)) {
			p->stats.tx_errors++;
			return;
		}
		memcpy(k->bytes + len, m->msg_iov[i].iov_base, m->msg_iov[i].iov_len);
		len += m->msg_iov[i].iov_len;
	}
	k->len = (uint16_t)len;
	p->nkept++;
}

static void packet_tx_batch(struct lan_port *p, const struct lan_frame *const *frames, unsigned n)
{
	struct iovec iov[LAN_TX_BATCH][TX_PARTS];
	struct mmsghdr msgs[LAN_TX_BATCH];
	unsigned done;

	for (unsigned i = 0; i < n; i++)
		msgs[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = iov[i], .msg_iovlen = fill_iov(iov[i], frames[i])}};
	done = send_all(p, msgs, n);
	p->nkept = p->kept_next = 0;
	for (unsigned i = done; i < n; i++)
		keep_frame(p, &msgs[i].msg_hdr);
}

static bool packet_tx_blocked(const struct lan_port *p)
{
	return p->kept_next < p->nkept;
}

static void packet_tx_retry(struct lan_port *p)
{
	struct iovec iov[LAN_TX_BATCH];
	struct mmsghdr msgs[LAN_TX_BATCH];
	unsigned n = p->nkept - p->kept_next;

	for (unsigned i = 0; i < n; i++) {
		struct kept_frame *k = &p->kept[p->kept_next + i];

		iov[i] = (struct iovec){k->bytes, k->len};
		msgs[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &iov[i], .msg_iovlen = 1}};
	}
	p->kept_next += send_all(p, msgs, n);
}

static void packet_tx_drop(struct lan_port *p)
{
	p->stats.tx_errors += p->nkept - p->kept_next;
	p->kept_next = p->nkept;
}

static void packet_stats(struct lan_port *p, struct lan_port_stats *s)
{
	struct tpacket_stats now;
	socklen_t len = sizeof(now);

	/* the kernel's counts start again with each read */
	if (getsockopt(p->fd, SOL_PACKET, PACKET_STATISTICS, &now, &len) == 0)
		p->stats.rx_ring_drops += now.tp_drops;
	*s = p->stats;
	burst_ring_flush(&p->bursts);
}

static const struct burst_ring *packet_bursts(const struct lan_port *p)
{
	return &p->bursts;
}

const struct lan_port_ops lan_packet_ops = {
    .name = "packet",
    .open = packet_open,
    .rebind = packet_rebind,
    .ifindex = packet_ifindex,
    .fd = packet_fd,
    .rx_waits = packet_rx_waits,
    .rx_batch = packet_rx_batch,
    .tx_batch = packet_tx_batch,
    .tx_blocked = packet_tx_blocked,
    .tx_retry = packet_tx_retry,
    .tx_drop = packet_tx_drop,
    .stats = packet_stats,
    .bursts = packet_bursts,
    .close = packet_close,
};
