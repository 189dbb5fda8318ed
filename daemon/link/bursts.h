/* SPDX-License-Identifier: Apache-2.0 */
/* bursts.h - the greatest ingress of each LAN port and of the link, below a millisecond: history, histogram, priorities.
 *
 * Theory of operation
 *
 * Workers write bins of 100 us (lan/burst_ring.h). With each snapshot of the link the main thread adds the bins of all
 * workers, bin by bin, for each port and for all ports together, and sums up ten of them to a bin of 1 ms; all that for
 * each priority and for all priorities together, but for the histogram, which is of all. It adds bins that are at least
 * BURSTS_MARGIN_NS old: frames of younger bins may still wait in a receive ring. Bins that come later, or were
 * overwritten because no snapshot was taken for 3 s, are not in the sums but count as missed.
 *
 * Pure: the time and the rings are arguments. */
#ifndef DAEMON_BURSTS_H
#define DAEMON_BURSTS_H

#include "daemon/config/config.h"
#include "daemon/lan/burst_ring.h"

#define BURSTS_MARGIN_NS 100000000u
#define BURSTS_HISTORY   60u /* seconds */
#define BURSTS_PER_S     (1000000000u / BURST_BIN_NS)
#define BURSTS_PER_MS    (1000000u / BURST_BIN_NS)

/* Upper bounds of the histogram, bits per second: the first one is of bins without a frame, behind the last one come
 * all that are faster. */
#define BURST_BOUNDS(X)                                                                                                \
	X(0)                                                                                                           \
	X(10000000)                                                                                                    \
	X(100000000)                                                                                                   \
	X(200000000)                                                                                                   \
	X(500000000)                                                                                                   \
	X(1000000000)                                                                                                  \
	X(2000000000)                                                                                                  \
	X(5000000000)                                                                                                  \
	X(10000000000)                                                                                                 \
	X(20000000000)                                                                                                 \
	X(50000000000)                                                                                                 \
	X(100000000000)                                                                                                \
	X(200000000000)                                                                                                \
	X(400000000000)                                                                                                \
	X(800000000000)

#define X(bound) +1
enum { BURST_BOUND_COUNT = 0 BURST_BOUNDS(X) };
#undef X

extern const uint64_t burst_bounds_bps[BURST_BOUND_COUNT];

/* X(enumerator, printed name, its length in bins of 100 us) */
#define BURST_BINS(X)                                                                                                  \
	X(100US, "100us", 1)                                                                                           \
	X(1MS, "1ms", BURSTS_PER_MS)

#define X(e, name, bins) BURST_##e,
enum burst_bin { BURST_BINS(X) BURST_BIN_COUNT };
#undef X

const char *burst_bin_name(enum burst_bin bin);

#define BURST_ALL  BURST_PRIORITIES /* behind the priorities: all together */
#define BURST_SUMS (BURST_PRIORITIES + 1)

struct burst_sum {
	uint64_t bytes;
	/* of the bin with most: its bytes and when it began */
	uint64_t most_bytes[BURST_BIN_COUNT];
	uint64_t most_ns[BURST_BIN_COUNT];
};

/* One second by the wall clock. */
struct burst_second {
	uint64_t unix_s; /* 0: there is none */
	struct burst_sum sum[BURST_SUMS];
};

struct burst_series {
	struct burst_second history[BURSTS_HISTORY]; /* a ring; `seconds` were ever written */
	uint64_t seconds;
	uint64_t histogram[BURST_BIN_COUNT][BURST_BOUND_COUNT + 1]; /* bins ever seen, the last: above all bounds */
	uint64_t bytes[BURST_SUMS];    /* of a priority 0: no frame has ever had it */
	uint64_t ms_bytes[BURST_SUMS]; /* of the millisecond that is not over */
};

struct bursts {
	uint32_t nports, nworkers;
	uint64_t index;  /* all bins before it are in the series */
	uint64_t missed; /* bins with frames that are not in any series */
	uint64_t cursor[LAN_PORTS_MAX][WORKERS_MAX];
	struct burst_series port[LAN_PORTS_MAX + 1]; /* behind the ports: all together */
};

/* Of the main thread. Zeroed memory. */
void bursts_init(struct bursts *b, uint32_t nports, uint32_t nworkers, uint64_t wall_ns);

/* Takes up what the workers have written. ring[port * nworkers + worker], NULL: not open. */
void bursts_look(struct bursts *b, const struct burst_ring *const *ring, uint64_t wall_ns);

/* The i-th second kept, from the oldest; NULL: there are no more. The last one may not be over. */
const struct burst_second *burst_second_at(const struct burst_series *s, uint32_t i);
/* Of the seconds kept, that priority's sum with the greatest bin; NULL: none. priority: or BURST_ALL. */
const struct burst_sum *burst_sum_most(const struct burst_series *s, unsigned priority, enum burst_bin bin);
uint64_t burst_bps(uint64_t bytes, enum burst_bin bin);

#endif
