// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "port.h"
#include "units.h"

#define BLOCK_SIZE       (1u << 18)
#define ETHERTYPE_OFFSET 12
/* The ring's own header, the Ethernet header and what the kernel aligns in between. */
#define FRAME_HEADER ((uint32_t)(sizeof(struct tpacket2_hdr) + sizeof(struct sockaddr_ll)) + 96)

static int fail(char *err, size_t cap, const char *ifname, const char *what)
{
	int e = errno;

	snprintf(err, cap, "%s: %s: %s", ifname, what, strerror(e));
	return -e;
}

static int interface_mtu(int fd, const char *ifname, uint32_t *mtu)
{
	struct ifreq ifr = {0};

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	if (ioctl(fd, SIOCGIFMTU, &ifr) < 0)
		return -errno;
	*mtu = (uint32_t)ifr.ifr_mtu;
	return 0;
}

static int set_options(const struct port *p, unsigned int ifindex)
{
	struct packet_mreq promisc = {.mr_ifindex = (int)ifindex, .mr_type = PACKET_MR_PROMISC};
	int version = TPACKET_V2, one = 1, sndbuf = 16 << 20;

	if (setsockopt(p->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) < 0 ||
	    setsockopt(p->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) < 0 ||
	    setsockopt(p->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promisc, sizeof(promisc)) < 0)
		return -1;
	/* Both only make it faster. */
	setsockopt(p->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof(one));
	setsockopt(p->fd, SOL_SOCKET, SO_SNDBUFFORCE, &sndbuf, sizeof(sndbuf));
	return 0;
}

static int map_ring(struct port *p, uint32_t mtu, uint32_t frames)
{
	uint32_t need = FRAME_HEADER + mtu;
	struct tpacket_req req = {.tp_block_size = BLOCK_SIZE};

	p->block_size = BLOCK_SIZE;
	p->frame_size = (need + 63) & ~63u;
	p->frames_per_block = p->block_size / p->frame_size;
	req.tp_frame_size = p->frame_size;
	req.tp_block_nr = (frames + p->frames_per_block - 1) / p->frames_per_block;
	req.tp_frame_nr = p->frames = req.tp_block_nr * p->frames_per_block;
	if (setsockopt(p->fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)) < 0)
		return -1;
	p->ring_size = (size_t)req.tp_block_nr * p->block_size;
	p->ring = mmap(NULL, p->ring_size, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
	if (p->ring == MAP_FAILED) {
		p->ring = NULL;
		return -1;
	}
	return 0;
}

int port_open(struct port *p, const char *ifname, uint32_t frames, char *err, size_t err_cap)
{
	struct sockaddr_ll addr = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	unsigned int ifindex = if_nametoindex(ifname);
	uint32_t mtu = 0;
	int rc = 0;

	memset(p, 0, sizeof(*p));
	snprintf(p->name, sizeof(p->name), "%s", ifname);
	/* Protocol 0: nothing comes in before bind() has named the interface. */
	p->fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (p->fd < 0)
		return fail(err, err_cap, ifname, "packet socket");
	addr.sll_ifindex = (int)ifindex;
	if (ifindex == 0 || interface_mtu(p->fd, ifname, &mtu) < 0)
		rc = fail(err, err_cap, ifname, "interface");
	else if (set_options(p, ifindex) < 0)
		rc = fail(err, err_cap, ifname, "packet socket options");
	else if (map_ring(p, mtu, frames) < 0)
		rc = fail(err, err_cap, ifname, "receive ring");
	else if (bind(p->fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		rc = fail(err, err_cap, ifname, "bind");
	if (rc < 0)
		port_close(p);
	return rc;
}

void port_close(struct port *p)
{
	if (p->ring != NULL)
		munmap(p->ring, p->ring_size);
	if (p->fd >= 0)
		close(p->fd);
	p->ring = NULL;
	p->fd = -1;
}

static struct tpacket2_hdr *frame_at(const struct port *p, uint32_t i)
{
	size_t off = (size_t)(i / p->frames_per_block) * p->block_size +
	             (size_t)(i % p->frames_per_block) * p->frame_size;

	return (struct tpacket2_hdr *)(void *)(p->ring + off);
}

static uint16_t fold_sum(const uint8_t *data, uint32_t len)
{
	uint64_t sum = 0;

	for (; len >= 2; data += 2, len -= 2)
		sum += (uint64_t)(data[0] << 8 | data[1]);
	if (len > 0)
		sum += (uint64_t)(data[0] << 8);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* Finishes a checksum that the sending stack left to the interface: its field holds the pseudo header's sum. */
static void finish_checksum(uint8_t *frame, uint32_t len)
{
	uint16_t type = (uint16_t)(frame[ETHERTYPE_OFFSET] << 8 | frame[ETHERTYPE_OFFSET + 1]);
	uint32_t l4, at, end;
	uint8_t proto;
	uint16_t sum;

	if (type == ETH_P_IP && len >= 34) {
		proto = frame[23];
		l4 = 14 + (uint32_t)(frame[14] & 15) * 4;
		end = 14 + (uint32_t)(frame[16] << 8 | frame[17]);
	} else if (type == ETH_P_IPV6 && len >= 54) {
		proto = frame[20];
		l4 = 54;
		end = 54 + (uint32_t)(frame[18] << 8 | frame[19]);
	} else {
		return;
	}
	at = l4 + (proto == IPPROTO_TCP ? 16 : 6);
	if ((proto != IPPROTO_TCP && proto != IPPROTO_UDP) || end > len || at + 2 > end)
		return;
	sum = fold_sum(frame + l4, end - l4);
	if (sum == 0 && proto == IPPROTO_UDP)
		sum = 0xffff;
	frame[at] = (uint8_t)(sum >> 8);
	frame[at + 1] = (uint8_t)sum;
}

bool port_next(struct port *p, struct line_frame *f, uint64_t *at_real_ns, bool *cut_short)
{
	struct tpacket2_hdr *h = frame_at(p, p->next);
	uint32_t status = __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE);
	uint8_t *data = (uint8_t *)h + h->tp_mac;

	if ((status & TP_STATUS_USER) == 0)
		return false;
	f->data = data;
	f->len = h->tp_len;
	f->vlan_tpid = f->vlan_tci = 0;
	if (status & TP_STATUS_VLAN_VALID) {
		f->vlan_tpid = status & TP_STATUS_VLAN_TPID_VALID ? h->tp_vlan_tpid : ETH_P_8021Q;
		f->vlan_tci = h->tp_vlan_tci;
	}
	*at_real_ns = (uint64_t)h->tp_sec * NS_PER_S + h->tp_nsec;
	*cut_short = h->tp_snaplen < h->tp_len;
	if ((status & TP_STATUS_CSUMNOTREADY) && !*cut_short) {
		p->csum_seen = true;
		finish_checksum(data, f->len);
	}
	return true;
}

void port_done(struct port *p)
{
	struct tpacket2_hdr *h = frame_at(p, p->next);

	__atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	p->next = p->next + 1 == p->frames ? 0 : p->next + 1;
}

uint32_t port_send(struct port *p, const struct line_out *out, uint32_t n)
{
	struct mmsghdr msg[PORT_BATCH];
	struct iovec iov[PORT_BATCH];
	uint32_t sent = 0;

	memset(msg, 0, n * sizeof(msg[0]));
	for (uint32_t i = 0; i < n; i++) {
		iov[i].iov_base = (void *)(uintptr_t)out[i].data;
		iov[i].iov_len = out[i].len;
		msg[i].msg_hdr.msg_iov = &iov[i];
		msg[i].msg_hdr.msg_iovlen = 1;
	}
	while (sent < n) {
		int rc = sendmmsg(p->fd, msg + sent, n - sent, 0);

		if (rc <= 0)
			return sent;
		sent += (uint32_t)rc;
	}
	return sent;
}

uint64_t port_drops(struct port *p)
{
	struct tpacket_stats st = {0};
	socklen_t len = sizeof(st);

	if (getsockopt(p->fd, SOL_PACKET, PACKET_STATISTICS, &st, &len) < 0)
		return 0;
	return st.tp_drops;
}

bool port_gone(struct port *p)
{
	int error;
	socklen_t len = sizeof(error);

	getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return if_nametoindex(p->name) == 0;
}
