/* SPDX-License-Identifier: Apache-2.0 */
/* wan_filter.h - which of the sockets on a WAN port takes a datagram, as a classic BPF program.
 *
 * Each worker has two, bound one after the other: one for datagrams that may be of this session, one for strays, which
 * cannot be because of their source address, their length or their header (version, path, epoch). The lane decides the
 * worker.
 *
 * The program sees only the first of the datagrams that the kernel has joined (UDP_GRO), and the others may differ. So
 * strays are not lost: they are delivered later. */
#ifndef DAEMON_WAN_FILTER_H
#define DAEMON_WAN_FILTER_H

#include <linux/filter.h>
#include <stdint.h>

#include "proxy/proxy.h"

#define WAN_FILTER_MAX 32

/* Where a datagram has them (wan_frame.h). */
#define WAN_LANE_BYTE  1
#define WAN_PATH_BYTE  2
#define WAN_EPOCH_WORD 4

struct wan_filter_spec {
	struct ip_addr remote;
	uint32_t nshards;
	uint32_t epoch; /* epoch of received datagrams */
	uint8_t path;
};

/* Index of a shard's sockets in the order of binding. */
static inline uint32_t wan_filter_ours(uint32_t shard)
{
	return shard * 2;
}

static inline uint32_t wan_filter_unmatched(uint32_t shard)
{
	return shard * 2 + 1;
}

/* Writes the program, which answers with the socket's place. Returns its length in instructions. */
uint16_t wan_filter_build(const struct wan_filter_spec *s, struct sock_filter prog[WAN_FILTER_MAX]);

#endif
