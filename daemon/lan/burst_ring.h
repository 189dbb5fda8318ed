/* SPDX-License-Identifier: Apache-2.0 */
/* burst_ring.h - bytes that came in at a LAN port, by priority, in bins of 100 microseconds.
 *
 * Theory of operation
 *
 * The worker adds each frame's length to the bin that the kernel's receive time of the frame lies in: not the time at
 * which the worker got to it, which would make one bin of all that waited in the ring. The bin has a sum for each
 * priority, because PFC pauses, and a switch's buffer is divided, by priority. A bin that is over goes into a ring of
 * cells, a word for each priority that had frames; a bin without frames writes nothing. The ring never stops the writer:
 * the oldest cells are overwritten. The main thread reads it (link/bursts.h) with a cursor of its own and is told how
 * many it missed. A frame costs one comparison, the reading of its priority and one addition; a bin costs a look at each
 * sum and two stores for each cell.
 *
 * The receive time is of CLOCK_REALTIME, which may be stepped. A bin may so be written in two pieces, or out of order:
 * a reader adds pieces of the same bin. */
#ifndef DAEMON_BURST_RING_H
#define DAEMON_BURST_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BURST_BIN_NS     100000u
#define BURST_PRIORITIES 8u     /* of IEEE 802.1Q */
#define BURST_CELLS      65536u /* kept: 3.3 s of a port on which two priorities (data, CNPs) are never idle */

/* Of a cell's word: bytes in the low bits, then the priority, then the low bits of the bin's number. So many bytes are
 * 2.6 Tbit/s. */
#define BURST_BYTES_BITS    25
#define BURST_BYTES_MAX     ((1u << BURST_BYTES_BITS) - 1)
#define BURST_PRIORITY_BITS 3
#define BURST_INDEX_BITS    (64 - BURST_BYTES_BITS - BURST_PRIORITY_BITS)

struct burst_ring {
	uint64_t begin_ns;                /* CLOCK_REALTIME, of the bin that is being filled */
	uint64_t bytes[BURST_PRIORITIES]; /* in it so far; all 0: none is being filled */
	uint64_t frame_ns;                /* CLOCK_REALTIME, of the last frame; of the writer alone */
	_Atomic uint64_t head;            /* cells ever written */
	_Atomic uint64_t *cells;          /* BURST_CELLS */
};

/* One priority's part of a bin. */
struct burst_cell {
	uint64_t index;    /* time / BURST_BIN_NS, its low BURST_INDEX_BITS bits */
	unsigned priority; /* less than BURST_PRIORITIES */
	uint32_t bytes;    /* at most BURST_BYTES_MAX */
};

/* Zeroed memory. False without memory. */
bool burst_ring_init(struct burst_ring *r);
void burst_ring_free(struct burst_ring *r);

/* Writer: the bin being filled is over, and the next one is that of ns. */
void burst_ring_next(struct burst_ring *r, uint64_t ns);
/* Writer: what has come so far can be read. */
void burst_ring_flush(struct burst_ring *r);

/* The priority that switches and NICs give a frame from a host, 0 to 7: the PCP of its VLAN tag (IEEE 802.1Q), or without
 * a tag the upper three bits of its DSCP, the class selector of RFC 2474. l3: an IP header, two bytes of it are read.
 * vlan_tci 0: untagged, as everywhere. */
static inline unsigned burst_priority(const uint8_t *l3, uint16_t vlan_tci)
{
	if (vlan_tci != 0)
		return vlan_tci >> 13;
	return l3[0] >> 4 == 6 ? (l3[0] & 15u) >> 1 : l3[1] >> 5;
}

/* Writer: a frame of `bytes` at that time. priority: less than BURST_PRIORITIES. */
static inline void burst_ring_add(struct burst_ring *r, uint32_t sec, uint32_t nsec, unsigned priority, uint32_t bytes)
{
	uint64_t ns = sec * 1000000000ull + nsec;

	if (__builtin_expect(ns - r->begin_ns >= BURST_BIN_NS, 0))
		burst_ring_next(r, ns);
	r->bytes[priority] += bytes;
	r->frame_ns = ns;
}

/* Any thread. *cursor: cells taken so far, from burst_ring_end(). *missed grows by those that were overwritten. False:
 * there are no more now. */
bool burst_ring_read(const struct burst_ring *r, uint64_t *cursor, uint64_t *missed, struct burst_cell *c);
uint64_t burst_ring_end(const struct burst_ring *r);

#endif
