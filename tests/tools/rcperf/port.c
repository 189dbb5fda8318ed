// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* sendmmsg */
#include "port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "addr.h"
#include "pattern.h"
#include "proxy/util/bytes.h"

enum {
	RING_BLOCK = 1 << 20,
	RING_HDR_ROOM = 128, /* ring header, its alignment and the Ethernet header in front of each packet */
	SEND_BUFFER = 16 << 20,
	PAUSE_OPCODE = 0x0101,
	QUANTUM_PS = 51200, /* 512 bit times at 10 Gbit/s, which is what veth says it has */
	PAUSE_LOOK_NS = 10000,
};

static int fail(char err[256], int e, const char *what)
{
	snprintf(err, 256, "%s: %s", what, strerror(e));
	return -e;
}

/* UDP to port 4791 for our own address, unfragmented. Offsets from the Ethernet header. */
static int attach_filter(int fd, const struct ip_addr *addr)
{
	bool ip6 = !ip_addr_is4(addr);
	uint32_t low = get_be32(addr->b + 12);
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ip6 ? ETH_P_IPV6 : ETH_P_IP, 0, 8),
	    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ip6 ? 14 + 6 : 14 + 9),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 6),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ip6 ? 14 + 24 + 12 : 14 + 16),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, low, 0, 4),
	    /* options would move the port; the codec refuses them anyway */
	    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, (ip6 ? 14 + 40 : 14 + 20) + 2),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_UDP_PORT, 0, 2),
	    BPF_STMT(BPF_RET | BPF_K, 0x40000),
	    BPF_STMT(BPF_RET | BPF_K, 0),
	    BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

static int map_ring(struct port *p, const struct opt *o)
{
	int version = TPACKET_V2;
	struct tpacket_req req = {0};

	p->frame_bytes = (uint32_t)TPACKET_ALIGN(PORT_FRAME + RING_HDR_ROOM);
	p->block_bytes = RING_BLOCK;
	p->frames_per_block = p->block_bytes / p->frame_bytes;
	req.tp_block_size = p->block_bytes;
	req.tp_block_nr = o->ring_bytes / RING_BLOCK;
	req.tp_frame_size = p->frame_bytes;
	req.tp_frame_nr = req.tp_block_nr * p->frames_per_block;
	p->ring_frames = req.tp_frame_nr;
	p->ring_bytes = (size_t)req.tp_block_nr * RING_BLOCK;
	if (setsockopt(p->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) < 0 ||
	    setsockopt(p->fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)) < 0)
		return -1;
	p->ring = mmap(NULL, p->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, p->fd, 0);
	return p->ring == MAP_FAILED ? -1 : 0;
}

static int find_interface(struct port *p, const struct opt *o, char err[256])
{
	struct ifreq req = {0};
	int need = (int)o->mtu + (ip_addr_is4(&o->addr) ? 20 : 40) + 8 + ROCE_BTH_LEN + 16 + 4 +
	           ROCE_ICRC_LEN; /* RETH, ImmDt */

	p->ifindex = (int)if_nametoindex(o->dev);
	if (p->ifindex == 0)
		return fail(err, errno, o->dev);
	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", o->dev);
	if (ioctl(p->fd, SIOCGIFHWADDR, &req) < 0)
		return fail(err, errno, o->dev);
	memcpy(p->mac, req.ifr_hwaddr.sa_data, 6);
	if (ioctl(p->fd, SIOCGIFMTU, &req) < 0)
		return fail(err, errno, o->dev);
	if (req.ifr_mtu < need) {
		snprintf(err, 256, "%s has MTU %d: too small for path MTU %u, it takes %d", o->dev, req.ifr_mtu, o->mtu,
		         need);
		return -EMSGSIZE;
	}
	return 0;
}

static int bind_port(const struct port *p)
{
	struct sockaddr_ll ll = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = p->ifindex};

	return bind(p->fd, (struct sockaddr *)&ll, sizeof(ll));
}

static int set_up_tx(struct port *p)
{
	int bytes = SEND_BUFFER, one = 1;

	p->frames = aligned_alloc(64, (size_t)PORT_BATCH * PORT_FRAME);
	p->msgs = calloc(PORT_BATCH, sizeof(*p->msgs));
	if (p->frames == NULL || p->msgs == NULL)
		return -1;
	memset(p->frames, 0, (size_t)PORT_BATCH * PORT_FRAME);
	for (int i = 0; i < PORT_BATCH; i++) {
		p->iov[i].iov_base = p->frames[i];
		p->msgs[i].msg_hdr.msg_iov = &p->iov[i];
		p->msgs[i].msg_hdr.msg_iovlen = 1;
	}
	(void)setsockopt(p->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one));
	return setsockopt(p->fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
}

static int open_pause(struct port *p, uint8_t priority)
{
	struct sockaddr_ll ll = {
	    .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_PAUSE), .sll_ifindex = p->ifindex};

	p->priority = priority;
	p->pause_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_PAUSE));
	return p->pause_fd < 0 ? -1 : bind(p->pause_fd, (struct sockaddr *)&ll, sizeof(ll));
}

/* MAC control, opcode 0x0101, classes, and for each its quanta of 512 bit times. */
static void take_pause(struct port *p, const uint8_t *f, uint64_t now_ns)
{
	if (get_be16(f + 14) != PAUSE_OPCODE)
		return;
	for (unsigned i = 0; i < PORT_PAUSE_CLASSES; i++)
		if ((get_be16(f + 16) >> i & 1) != 0)
			p->paused_until_ns[i] = now_ns + (uint64_t)get_be16(f + 18 + 2 * i) * QUANTUM_PS / 1000;
	p->pauses++;
}

static void look_for_pauses(struct port *p, uint64_t now_ns)
{
	uint8_t f[64];

	if (p->pause_fd < 0 || now_ns < p->pause_look_ns)
		return;
	p->pause_look_ns = now_ns + PAUSE_LOOK_NS;
	while (recv(p->pause_fd, f, sizeof(f), 0) >= 18 + 2 * PORT_PAUSE_CLASSES)
		take_pause(p, f, now_ns);
}

int port_open(struct port *p, const struct opt *o, char err[256])
{
	int e;

	*p = (struct port){.fd = -1, .pause_fd = -1, .guard = {.udp_fd = -1}, .drop = o->drop, .rate_bps = o->rate_bps};
	p->rng = pat_mix(o->seed ^ (o->server ? 0x5e : 0xc1));
	p->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->fd < 0)
		return fail(err, errno, "packet socket (needs CAP_NET_RAW)");
	e = find_interface(p, o, err);
	if (e != 0)
		return e;
	if (attach_filter(p->fd, &o->addr) < 0)
		return fail(err, errno, "packet filter");
	if (map_ring(p, o) < 0)
		return fail(err, errno, "receive ring");
	if (set_up_tx(p) < 0)
		return fail(err, errno, "send buffer");
	e = guard_open(&p->guard, p->ifindex, o->dev, &o->addr);
	if (e != 0)
		return fail(err, -e, "UDP port 4791 on --addr");
	if (bind_port(p) < 0)
		return fail(err, errno, "bind to the interface");
	if (o->pfc != 0 && open_pause(p, (uint8_t)(o->pfc - 1)) < 0)
		return fail(err, errno, "socket for pause frames");
	return 0;
}

void port_close(struct port *p)
{
	if (p->ring != NULL && p->ring != MAP_FAILED)
		munmap(p->ring, p->ring_bytes);
	if (p->fd >= 0)
		close(p->fd);
	if (p->pause_fd >= 0)
		close(p->pause_fd);
	guard_close(&p->guard);
	free(p->frames);
	free(p->msgs);
	p->ring = NULL;
	p->frames = NULL;
	p->fd = -1;
}

void port_set_peer_mac(struct port *p, const uint8_t mac[6], bool ip6)
{
	for (int i = 0; i < PORT_BATCH; i++) {
		memcpy(p->frames[i], mac, 6);
		memcpy(p->frames[i] + 6, p->mac, 6);
		put_be16(p->frames[i] + 12, ip6 ? ETH_P_IPV6 : ETH_P_IP);
	}
}

bool port_tx_ready(struct port *p, uint64_t now_ns)
{
	look_for_pauses(p, now_ns);
	if (now_ns < p->paused_until_ns[p->priority] || now_ns < p->tx_free_ns)
		return false;
	return !p->tx_blocked;
}

uint8_t *port_tx_buf(struct port *p)
{
	if (p->tx_n == PORT_BATCH)
		port_flush(p);
	return p->tx_n < PORT_BATCH ? p->frames[p->tx_n] + PORT_ETH_LEN : NULL;
}

/* Pacing lets 100 us of line time gather: a sleeping process cannot wake more precisely. */
static void charge_line(struct port *p, size_t len, uint64_t now_ns)
{
	const uint64_t burst_ns = 100000;

	if (p->rate_bps <= 0)
		return;
	if (p->tx_free_ns + burst_ns < now_ns)
		p->tx_free_ns = now_ns - burst_ns;
	p->tx_free_ns += (uint64_t)((double)len * 8e9 / p->rate_bps);
}

void port_tx_commit(struct port *p, size_t len, uint64_t now_ns)
{
	p->iov[p->tx_n].iov_len = len + PORT_ETH_LEN;
	p->tx_n++;
	p->tx_packets++;
	p->tx_bytes += len;
	charge_line(p, len, now_ns);
}

/* What the kernel did not take stays at the head of the batch. */
static void keep_unsent(struct port *p, uint32_t sent)
{
	if (sent == 0)
		return;
	for (uint32_t i = sent; i < p->tx_n; i++) {
		uint32_t to = i - sent;

		memcpy(p->frames[to], p->frames[i], p->iov[i].iov_len);
		p->iov[to].iov_len = p->iov[i].iov_len;
	}
	p->tx_n -= sent;
}

void port_flush(struct port *p)
{
	uint32_t sent = 0;

	while (sent < p->tx_n) {
		int n = sendmmsg(p->fd, p->msgs + sent, p->tx_n - sent, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
			p->tx_blocked = true;
			break;
		}
		sent += n > 0 ? (uint32_t)n : 1; /* an interface that is down: the packet is lost, as on a wire */
	}
	if (sent == p->tx_n) {
		p->tx_n = 0;
		p->tx_blocked = false;
		return;
	}
	keep_unsent(p, sent);
}

static struct tpacket2_hdr *ring_frame(struct port *p, uint32_t i)
{
	size_t off = (size_t)(i / p->frames_per_block) * p->block_bytes +
	             (size_t)(i % p->frames_per_block) * p->frame_bytes;

	return (void *)(p->ring + off);
}

static bool drop_at_will(struct port *p)
{
	if (p->drop <= 0)
		return false;
	p->rng = pat_mix(p->rng);
	return (double)(p->rng >> 11) * 0x1p-53 < p->drop;
}

static void take_frame(struct port *p, struct tpacket2_hdr *h, void (*fn)(void *, const uint8_t *, size_t), void *ctx)
{
	const uint8_t *l3 = (uint8_t *)h + h->tp_net;
	size_t len = h->tp_snaplen - (size_t)(h->tp_net - h->tp_mac);

	p->rx_packets++;
	p->rx_bytes += len;
	if (h->tp_snaplen < h->tp_len || h->tp_net < h->tp_mac || h->tp_snaplen < PORT_ETH_LEN)
		p->rx_truncated++;
	else if (drop_at_will(p))
		p->rx_dropped_at_will++;
	else
		fn(ctx, l3, len);
}

unsigned port_rx(struct port *p, unsigned max, void (*fn)(void *ctx, const uint8_t *l3, size_t len), void *ctx)
{
	unsigned n = 0;

	while (n < max) {
		struct tpacket2_hdr *h = ring_frame(p, p->ring_next);

		if ((__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) == 0)
			break;
		take_frame(p, h, fn, ctx);
		__atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		if (++p->ring_next == p->ring_frames)
			p->ring_next = 0;
		n++;
	}
	return n;
}

uint64_t port_ring_drops(struct port *p)
{
	struct tpacket_stats s;
	socklen_t len = sizeof(s);

	if (getsockopt(p->fd, SOL_PACKET, PACKET_STATISTICS, &s, &len) < 0)
		return 0;
	return s.tp_drops;
}
