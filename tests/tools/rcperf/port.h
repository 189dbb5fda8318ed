/* SPDX-License-Identifier: Apache-2.0 */
/* port.h - RoCEv2 packets in and out of one interface: a packet socket with a receive ring, batches out.
 *
 * The kernel keeps the address (it answers ARP, ping and TCP); only UDP 4791 is ours. guard.h keeps the kernel from
 * answering it too. */
#ifndef RCPERF_PORT_H
#define RCPERF_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "guard.h"
#include "opt.h"

enum port_limits {
	PORT_BATCH = 64,   /* packets handed to the kernel in one call */
	PORT_FRAME = 4352, /* Ethernet header, largest packet, and room */
	PORT_ETH_LEN = 14,
	PORT_PAUSE_CLASSES = 8,
};

struct port {
	int fd;
	struct guard guard;
	int ifindex;
	uint8_t mac[6];
	/* receive ring */
	uint8_t *ring;
	size_t ring_bytes;
	uint32_t ring_frames, frames_per_block, ring_next;
	uint32_t block_bytes, frame_bytes;
	double drop;
	uint64_t rng;
	/* one batch out */
	struct mmsghdr *msgs;
	struct iovec iov[PORT_BATCH];
	uint8_t (*frames)[PORT_FRAME];
	uint32_t tx_n;   /* frames filled */
	bool tx_blocked; /* the kernel takes no more for now */
	double rate_bps;
	uint64_t tx_free_ns; /* pacing: when the line is free again */
	/* 802.1Qbb: port_tx_ready() looks for pause frames and honours them */
	int pause_fd; /* -1: no */
	uint64_t pause_look_ns;
	uint64_t paused_until_ns[PORT_PAUSE_CLASSES];
	uint8_t priority;
	uint64_t pauses;
	/* counted */
	uint64_t tx_packets, tx_bytes, rx_packets, rx_bytes, rx_dropped_at_will, rx_truncated;
};

/* Returns 0 or -errno, with a sentence in err. */
int port_open(struct port *p, const struct opt *o, char err[256]);
void port_close(struct port *p);

/* All packets go to this next hop. */
void port_set_peer_mac(struct port *p, const uint8_t mac[6], bool ip6);

/* May a packet be sent at this time? False while paced, paused or blocked. */
bool port_tx_ready(struct port *p, uint64_t now_ns);

/* Room for one packet from its IP header on (PORT_FRAME - PORT_ETH_LEN bytes); NULL if the kernel takes no more. */
uint8_t *port_tx_buf(struct port *p);
void port_tx_commit(struct port *p, size_t len, uint64_t now_ns);
void port_flush(struct port *p);

/* Hands up to max packets to fn; they are valid until it returns. Returns how many there were. */
unsigned port_rx(struct port *p, unsigned max, void (*fn)(void *ctx, const uint8_t *l3, size_t len), void *ctx);

/* Packets that the ring had no room for, since the last call. */
uint64_t port_ring_drops(struct port *p);

#endif
