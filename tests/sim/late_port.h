/* SPDX-License-Identifier: Apache-2.0 */
/* late_port.h - a LAN port whose device lands packets in the arena and sends from it, and takes its time. */
#ifndef SIM_LATE_PORT_H
#define SIM_LATE_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "pkt.h"
#include "proxy/proxy.h"

struct edge_shard;

#define LATE_PORT_BLANKS 8
#define LATE_PORT_SENDS  64

struct late_send {
	struct lan_tx tx; /* body lies in the arena until it is sent, or in `copy` */
	bool pinned;
	uint64_t at_ns;
	uint8_t copy[LAN_IP_MAX];
};

/* Of one shard. Zeroed: the port has neither blanks nor packets. */
struct late_port {
	uint32_t blank[LATE_PORT_BLANKS]; /* the first one is filled next */
	uint32_t nblanks;
	uint32_t writes; /* what the device wrote last, for other bytes each time */
	struct late_send send[LATE_PORT_SENDS];
	uint32_t first, nsends;
	uint64_t life; /* sends of a life before are not this one's */
};

/* The shard has started: the device gets its blanks. */
void late_port_open(struct edge_shard *s);
/* The process dies. The device writes into what it has until it is closed, which is before anything is rebuilt. */
void late_port_kill(struct edge_shard *s);
enum proxy_drop late_port_rx(struct edge_shard *s, const struct pkt *p);
/* Sends it later, behind all others: out of its slot, if it lies in one. */
void late_port_tx(struct edge_shard *s, const struct lan_tx *tx);

#endif
