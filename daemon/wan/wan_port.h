/* SPDX-License-Identifier: Apache-2.0 */
/* wan_port.h - one worker's UDP sockets towards the other edge, on all paths; and the table of functions by which a worker
 * knows those or a device (wan_engine.h).
 *
 * Receiving: all workers of a link bind the same address and port; the kernel picks the socket by the header of the
 * datagram: the worker by its lane, and whether it can be of this session or is a stray (wan_filter.h).
 * wan_port_open() must therefore be called for shard 0, 1, 2... in that order.
 * Sending: one socket per lane and path (or several) with a source port of its own, which spreads lanes over equal-cost
 * routes. Datagrams are built in a staging buffer and leave in batches of equal size, lane and path (UDP_SEGMENT):
 *
 *     while ((buf = wan_port_stage(p, &cap)) && (len = proxy_wan_tx(..., buf, cap, &tx)))
 *         wan_port_staged(p, &tx, len);
 *     wan_port_flush(p);
 */
#ifndef DAEMON_WAN_PORT_H
#define DAEMON_WAN_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/proxy.h"

#define WAN_SPORTS_MAX 8

struct wan_port_path {
	struct ip_addr local, remote;
	uint16_t port; /* of both edges */
	uint16_t mtu;  /* IP MTU */
	uint8_t dscp;
	uint32_t source_ports; /* of each lane, 1..WAN_SPORTS_MAX */
	const char *device;    /* WanDevice= of the path; NULL: a UDP socket */
};

struct wan_port_params {
	struct wan_port_path path[PATHS_MAX];
	uint32_t npaths;
	uint32_t nshards, shard;
};

struct wan_port_stats {
	uint64_t tx_errors;  /* datagrams that the kernel or the device refused */
	uint64_t tx_no_socket; /* datagrams for which there was none */
	uint64_t rx_foreign; /* datagrams from another address than the other edge's, or of another path */
	uint64_t rx_truncated;
	uint64_t rx_kernel_drops; /* socket buffer was full */
	uint64_t rx_unmatched_drops; /* that of the strays was */
	/* of devices, which do what the kernel does for a socket */
	uint64_t rx_not_ours;     /* frames for anybody but this port; the kernel has its own copy of each */
	uint64_t rx_bad_length;   /* datagrams whose lengths contradict each other or the frame's */
	uint64_t rx_bad_checksum; /* datagrams with a wrong checksum */
	uint64_t tx_no_route;     /* datagrams without a next hop */
};

/* sport: the sender's source port; ecn: the field of the IP header. False: dropped. */
typedef bool (*wan_rx_fn)(void *arg, uint8_t path, uint16_t sport, uint8_t *dgram, size_t len,
                          uint8_t ecn);

struct wan_port;

/* 0 or negative errno with err (of errlen bytes) a sentence. */
int wan_port_open(struct wan_port **port, const struct wan_port_params *params, char *err, size_t errlen);
void wan_port_close(struct wan_port *p);

/* Another session has begun: before this call its datagrams are strays. Before the first session all datagrams are
 * strays. */
void wan_port_session(struct wan_port *p, uint32_t epoch);

/* Readable when datagrams wait that are no strays. */
int wan_port_rx_fd(const struct wan_port *p, uint32_t path);

enum wan_port_batch {
	WAN_BATCH_EMPTY,
	WAN_BATCH_PART,
	WAN_BATCH_FULL, /* more may wait */
};
/* Takes a bounded batch of waiting datagrams from the kernel. A call of its own so that the clock can be read before
 * wan_port_deliver(): a datagram's time must never be before its arrival. */
enum wan_port_batch wan_port_receive(struct wan_port *p);
/* Takes strays into the free places of the batch. */
enum wan_port_batch wan_port_receive_unmatched(struct wan_port *p);
/* Hands over the datagrams taken since the last call. Returns how many were not dropped. */
unsigned wan_port_deliver(struct wan_port *p, wan_rx_fn fn, void *arg);

/* Where to build the next datagram; NULL if a flush must come first or the port is blocked. */
uint8_t *wan_port_stage(struct wan_port *p, size_t *cap);
void wan_port_staged(struct wan_port *p, const struct wan_tx *tx, size_t len);
/* Sends what is staged. Datagrams that the kernel does not take now stay, and the port is blocked until a later flush
 * sends them. With several paths, those of a path that takes nothing for long are dropped: the other paths must not
 * wait. */
void wan_port_flush(struct wan_port *p);
bool wan_port_blocked(const struct wan_port *p);

/* Source port of a lane on a path, the first of them; 0 as long as nothing was sent on it. */
uint16_t wan_port_lane_sport(const struct wan_port *p, const struct wan_tx *tx);
void wan_port_stats(struct wan_port *p, struct wan_port_stats *s);

/* Each as the function above whose name it has. */
struct wan_port_ops {
	int (*open)(struct wan_port **port, const struct wan_port_params *params, char *err, size_t errlen);
	void (*close)(struct wan_port *p);
	void (*session)(struct wan_port *p, uint32_t epoch);
	/* Negative: there is no descriptor, and the worker polls every POLL_NS. */
	int (*rx_fd)(const struct wan_port *p, uint32_t path);
	enum wan_port_batch (*receive)(struct wan_port *p);
	enum wan_port_batch (*receive_unmatched)(struct wan_port *p);
	unsigned (*deliver)(struct wan_port *p, wan_rx_fn fn, void *arg);
	uint8_t *(*stage)(struct wan_port *p, size_t *cap);
	void (*staged)(struct wan_port *p, const struct wan_tx *tx, size_t len);
	void (*flush)(struct wan_port *p);
	bool (*blocked)(const struct wan_port *p);
	uint16_t (*lane_sport)(const struct wan_port *p, const struct wan_tx *tx);
	void (*stats)(struct wan_port *p, struct wan_port_stats *s);
};

extern const struct wan_port_ops wan_socket_ops;   /* UDP sockets: the functions above */
extern const struct wan_port_ops wan_engine_ops; /* a plugin's devices: wan_engine.h */

#endif
