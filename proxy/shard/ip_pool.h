/* SPDX-License-Identifier: Apache-2.0 */
/* ip_pool.h - memory for IP packets that are not RoCEv2, apart from the arena: TCP can take no room from RC, and these
 * packets need not survive a restart.
 *
 * A packet lies in one piece, in a buffer of the smallest class that has one free. */
#ifndef PROXY_IP_POOL_H
#define PROXY_IP_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/util/dlist.h"
#include "proxy/util/limits.h"

#define BARRIER_ENTRY_LEN 16
#define IP_BUF_MAX        (LAN_IP_MAX + BARRIER_ENTRIES_MAX * BARRIER_ENTRY_LEN) /* a packet and its snapshot */
#define IP_BUF_UNITS      ((IP_BUF_MAX + PIECE_UNIT - 1) / PIECE_UNIT)
#define IP_CLASSES        4
#define IP_POOL_MIN       (1u << 20) /* of both pools together: some of each class */

struct ip_buf {
	struct dnode node; /* free list, lane.ready[SOURCE_IP] or ip_lane.partial; off all of them: a held packet's */
	uint8_t *data;     /* the snapshot's entries, then the packet */
	uint64_t taken_ns;
	uint64_t seq;                             /* far: of the lane */
	uint64_t units[(IP_BUF_UNITS + 63) / 64]; /* far: that have come */
	uint32_t units_got;
	uint16_t total;   /* bytes used */
	uint16_t entries; /* of the snapshot */
	uint16_t sent;    /* near: bytes that went to the WAN */
	uint16_t vlan_tci;
	uint8_t size_class;
};

struct ip_pool {
	struct ip_buf *bufs;
	uint32_t n;
	struct dnode free[IP_CLASSES];
	uint64_t used_bytes, capacity_bytes;
};

/* The number of buffers of a pool of so many bytes, and of the bytes behind these buffers. */
uint32_t ip_pool_bufs(uint32_t bytes);
size_t ip_pool_data_bytes(uint32_t bytes);

/* bufs and data have the sizes that these two functions return; bufs is zeroed. */
void ip_pool_init(struct ip_pool *pool, struct ip_buf *bufs, uint8_t *data, uint32_t bytes);
/* A buffer for len bytes, at most IP_BUF_MAX; NULL: no room. */
struct ip_buf *ip_pool_take(struct ip_pool *pool, size_t len);
/* Gives a buffer back, and takes it off its list. The bytes of the buffer stay as they are until it is taken again. */
void ip_pool_give(struct ip_pool *pool, struct ip_buf *b);

#endif
