/* SPDX-License-Identifier: Apache-2.0 */
/* burst_ring.h - bytes that came in at a LAN port, by priority, in bins of 100 microseconds.
 *
 * Theory of operation
 *
 * The worker adds each frame's length to the bin of the frame's receive time in the kernel. The time of processing
 * would put all frames that waited in the ring into one bin. The bin has a sum for each priority, because PFC pauses,
 * and a switch's buffer is divided, by priority. A bin that is over goes into a ring of cells, a word for each priority
 * that had frames; a bin without frames writes nothing. The ring never stops the writer: the oldest cells are
 * overwritten. The main thread reads the ring (link/bursts.h) with a cursor of its own and learns how many cells it
 * missed. A frame costs one comparison, the reading of its priority and one addition; a bin costs a look at each sum
 * and two stores for each cell.
 *
 * The receive time is of CLOCK_REALTIME, which may be stepped. So a bin may be written in two pieces, or out of order:
 * a reader adds pieces of the same bin. */
#ifndef DAEMON_BURST_RING_H
#define DAEMON_BURST_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BURST_BIN_NS     100000u
#define BURST_PRIORITIES 8u     /* of IEEE 802.1Q */
#define BURST_CELLS      65536u /* kept: 3.3 s of a port on which two priorities (data, CNPs) are never idle */

/* A cell's word: bytes in the low bits, then the priority, then the low bits of the bin's number. BURST_BYTES_MAX in a
 * bin is 2.6 Tbit/s. */
#define BURST_BYTES_BITS    25
#define BURST_BYTES_MAX     ((1u << BURST_BYTES_BITS) - 1)
#define BURST_PRIORITY_BITS 3
#define BURST_INDEX_BITS    (64 - BURST_BYTES_BITS - BURST_PRIORITY_BITS)

struct burst_ring {
	uint64_t begin_ns;                /* CLOCK_REALTIME, of the bin that is being filled */
	uint64_t bytes[BURST_PRIORITIES]; /* bytes in the bin so far; all 0: no bin is being filled */
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
/* Writer: makes the current bin readable. */
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

/* Any thread. *cursor: cells read so far, at first burst_ring_end(). *missed grows by the cells that were overwritten.
 * False: there are no more cells now. */
bool burst_ring_read(const struct burst_ring *r, uint64_t *cursor, uint64_t *missed, struct burst_cell *c);
uint64_t burst_ring_end(const struct burst_ring *r);

#endif
