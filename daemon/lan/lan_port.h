/* SPDX-License-Identifier: Apache-2.0 */
/* lan_port.h - one worker's view of one LAN interface: packets from hosts in, packets to hosts out.
 *
 * A table of functions, so that there can be ports other than AF_PACKET. One worker owns a port object; every function
 * is called from that worker's thread, except open and close (before it starts, after it ended). */
#ifndef DAEMON_LAN_PORT_H
#define DAEMON_LAN_PORT_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "burst_ring.h"
#include "lan_filter.h"
#include "proxy/proxy.h"

#define LAN_ETH_MAX 18 /* Ethernet header with one VLAN tag */

/* Longest frame that a port takes: of RoCEv2, and of any IP. */
#define LAN_FRAME_MAX    (LAN_ETH_MAX + LAN_PKT_MAX)
#define LAN_IP_FRAME_MAX (LAN_ETH_MAX + LAN_IP_MAX)

struct lan_port_params {
	const char *ifname;
	const char *device; /* LanDevice= of that interface; NULL: a packet socket */
	struct lan_filter_spec filter;
	uint32_t ring_frames; /* receive ring */
	bool may_come_later;  /* a packet socket opens without its interface too; rebind() follows when it is there */
};

/* A packet on its way to a host: the core's three parts behind an Ethernet header. */
struct lan_frame {
	uint8_t eth[LAN_ETH_MAX];
	uint8_t eth_len;
	uint8_t port; /* index of the worker's port */
	struct lan_tx pkt;
};

struct lan_port_stats {
	uint64_t rx_ring_drops; /* receive ring was full */
	uint64_t rx_truncated;  /* longer than any packet that could be ours */
	uint64_t rx_not_ours;   /* frames of a device that are not for this port; packet sockets never see such
	                         * frames */
	uint64_t tx_errors;     /* refused by the interface, dropped */
};

/* l3: from the IP header on, readable and valid until return. vlan_tci 0: untagged. */
typedef void (*lan_rx_fn)(void *arg, const uint8_t *l3, size_t len, uint16_t vlan_tci);

struct lan_port;

/* As lan_rx_fn, of a packet that lies `off` bytes behind the beginning of a blank of the core's: proxy_lan_rx_slot(). */
typedef void (*lan_rx_slot_fn)(void *arg, uint32_t *slot, uint16_t off, size_t len, uint16_t vlan_tci);

/* A worker's arena, for a port whose device receives into it and sends out of it. */
struct lan_lend {
	struct proxy *core;
	lan_rx_slot_fn fn; /* rx_batch() calls it with its arg, instead of its own fn, for packets that landed in a
	                    * blank */
};

struct lan_port_ops {
	const char *name;
	/* 0 or negative errno with err (of errlen bytes) a sentence. */
	int (*open)(struct lan_port **port, const struct lan_port_params *params, char *err, size_t errlen);
	/* The interface of that name has been made anew, or its MAC address has changed: socket, ring and filter of the
	 * port take packets from it. 0, or negative errno, and the port is as before. */
	int (*rebind)(struct lan_port *port, const char *ifname);
	/* Index of the interface that the port is bound to; negative: there is none, or it has gone. From any thread.
	 */
	int (*ifindex)(const struct lan_port *port);
	/* MAC address, 48 bits, whose frames the port takes. From any thread. NULL: the kernel compares addresses. */
	uint64_t (*mac)(const struct lan_port *port);
	/* For epoll: readable when packets wait. Negative: there is no descriptor, and the worker polls every
	 * POLL_NS. */
	int (*fd)(const struct lan_port *port);
	/* True if `frames` packets or more (at least 1) wait in the receive ring. From any thread. */
	bool (*rx_waits)(const struct lan_port *port, uint32_t frames);
	/* Lends the arena to the port until close(); before any other call but open(). 0; or negative errno with err a
	 * sentence that says why all packets are copied as before. NULL: they are always. */
	int (*lend)(struct lan_port *port, const struct lan_lend *l, char *err, size_t errlen);
	/* Hands at most `budget` packets to fn; returns how many frames were taken off the ring. */
	unsigned (*rx_batch)(struct lan_port *port, unsigned budget, lan_rx_fn fn, void *arg);
	/* Sends n frames (at most LAN_TX_BATCH) in order. All are taken. Bodies are valid until the next call into the
	 * core: what cannot be sent now is copied (or pinned: proxy_lan_pin()) and kept, and tx_blocked() is true until
	 * tx_retry() got rid of it; no tx_batch() meanwhile. */
	void (*tx_batch)(struct lan_port *port, const struct lan_frame *const *frames, unsigned n);
	bool (*tx_blocked)(const struct lan_port *port);
	void (*tx_retry)(struct lan_port *port);
	/* Drops what was kept; counts it in tx_errors. */
	void (*tx_drop)(struct lan_port *port);
	/* Reads the counts; also makes the current bin of bursts() readable. */
	void (*stats)(struct lan_port *port, struct lan_port_stats *s);
	/* Received bytes in bins of 100 us. From any thread. */
	const struct burst_ring *(*bursts)(const struct lan_port *port);
	/* Closes the port. Gives lent slots back by one more call of the core. */
	void (*close)(struct lan_port *port);
};

#define LAN_TX_BATCH 64

extern const struct lan_port_ops lan_packet_ops; /* AF_PACKET with a TPACKET_V2 ring */
extern const struct lan_port_ops lan_engine_ops; /* a plugin's devices: lan_engine.h */

#endif
