/* SPDX-License-Identifier: Apache-2.0 */
/* wan_filter.h - which of the sockets on a WAN port takes a datagram, as a classic BPF program.
 *
 * Each worker has two, bound one after the other: one for datagrams that can be of this session, one for strays, which
 * by their source address, their length or their header (version, path, epoch) cannot. The worker is that of the lane.
 *
 * The program sees the first of the datagrams that the kernel has joined (UDP_GRO), which may not be of the same make
 * as those behind it. So strays are not lost, they come later. */
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
	uint32_t epoch; /* of what comes */
	uint8_t path;
};

/* Where in the order of binding a shard's sockets are. */
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
