/* SPDX-License-Identifier: Apache-2.0 */
/* ip_frame.h - the frame that carries IP packets which are not RoCEv2. */
#ifndef PROXY_IP_FRAME_H
#define PROXY_IP_FRAME_H

#include "proxy/shard/ip_pool.h"
#include "proxy/wan/dgram/wan_frame.h"

#define WF_IP           0x07
#define WAN_IP_BODY_LEN 16 /* body of IP without its data */
#define WAN_IP_OVERHEAD (WAN_FRAME_HDR_LEN + WAN_IP_BODY_LEN)

/* IP: seq(8) total(2) offset(2) entries(2) vlan(2) data... An IP packet that is not RoCEv2, or a piece of one, behind
 * its snapshot: entries of flow(4) inc(4) pos(8), see barrier.c. Never repaired. */
struct wan_ip {
	uint64_t seq;     /* of the lane */
	uint16_t total;   /* snapshot and packet, 1..IP_BUF_MAX */
	uint16_t offset;  /* of this piece: a multiple of PIECE_UNIT */
	uint16_t entries; /* 0..BARRIER_ENTRIES_MAX */
	uint16_t vlan_tci;
	uint16_t len; /* of this piece: a multiple of PIECE_UNIT but for the last one */
	const uint8_t *data;
};

/* As those of wan_frame.h. */
size_t wan_ip_put(uint8_t *buf, size_t cap, const struct wan_ip *w);
bool wan_ip_get(const struct wan_frame *f, struct wan_ip *w);

#endif
