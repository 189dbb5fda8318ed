/* SPDX-License-Identifier: Apache-2.0 */
/* burst_ring.h - bytes that came in at a LAN port, in bins of 100 microseconds.
 *
 * Theory of operation
 *
 * The worker adds each frame's length to the bin that the kernel's receive time of the frame lies in: not the time at
 * which the worker got to it, which would make one bin of all that waited in the ring. A bin that is over goes into a
 * ring of cells, one word each; a bin without frames writes nothing. The ring never stops the writer: the oldest cells
 * are overwritten. The main thread reads it (link/bursts.h) with a cursor of its own and is told how many it missed.
 * A frame costs one comparison and one addition; a bin costs two stores.
 *
 * The receive time is of CLOCK_REALTIME, which may be stepped. A bin may so be written in two pieces, or out of order:
 * a reader adds pieces of the same bin. */
#ifndef DAEMON_BURST_RING_H
#define DAEMON_BURST_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BURST_BIN_NS     100000u
#define BURST_CELLS      32768u /* bins with frames that are kept: 3.3 s of a port that is never idle */
#define BURST_BYTES_BITS 28     /* of a cell: its bytes; above them the low bits of the bin's number */
#define BURST_BYTES_MAX  ((1u << BURST_BYTES_BITS) - 1)
#define BURST_INDEX_BITS (64 - BURST_BYTES_BITS)

struct burst_ring {
	uint64_t begin_ns;       /* CLOCK_REALTIME, of the bin that is being filled */
	uint64_t bytes;          /* in it so far; 0: none is being filled */
	uint64_t frame_ns;       /* CLOCK_REALTIME, of the last frame; of the writer alone */
	_Atomic uint64_t head;   /* cells ever written */
	_Atomic uint64_t *cells; /* BURST_CELLS */
};

struct burst_cell {
	uint64_t index; /* time / BURST_BIN_NS, its low BURST_INDEX_BITS bits */
	uint32_t bytes; /* at most BURST_BYTES_MAX */
};

/* Zeroed memory. False without memory. */
bool burst_ring_init(struct burst_ring *r);
void burst_ring_free(struct burst_ring *r);

/* Writer: the bin being filled is over, and the next one is that of ns. */
void burst_ring_next(struct burst_ring *r, uint64_t ns);
/* Writer: what has come so far can be read. */
void burst_ring_flush(struct burst_ring *r);

/* Writer: a frame of `bytes` at that time. */
static inline void burst_ring_add(struct burst_ring *r, uint32_t sec, uint32_t nsec, uint32_t bytes)
{
	uint64_t ns = sec * 1000000000ull + nsec;

	if (__builtin_expect(ns - r->begin_ns >= BURST_BIN_NS, 0))
		burst_ring_next(r, ns);
	r->bytes += bytes;
	r->frame_ns = ns;
}

/* Any thread. *cursor: cells taken so far, from burst_ring_end(). *missed grows by those that were overwritten. False:
 * there are no more now. */
bool burst_ring_read(const struct burst_ring *r, uint64_t *cursor, uint64_t *missed, struct burst_cell *c);
uint64_t burst_ring_end(const struct burst_ring *r);

#endif
