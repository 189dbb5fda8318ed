/* SPDX-License-Identifier: Apache-2.0 */
/* wan.h - what the transport holds of a shard: lanes, paths, the sources that are registered, and its slots. */
#ifndef PROXY_WAN_H
#define PROXY_WAN_H

#include "proxy/shard/core.h"
#include "slot.h"
#include "transport.h"
#include "wan_path.h"

/* What one lane sends, has sent, and has heard. Only the owning shard's are initialised. */
struct lane {
	uint8_t id;
	struct dnode node;                /* in wan.lane_list: lanes with something to send, ... */
	uint64_t place;                   /* ... by this: turn + 1; 0: it goes before other lanes */
	uint64_t turn;                    /* bytes sent for each flow that had something to send, in units of wan_lane.c */
	struct pn_space space[PATHS_MAX]; /* of the paths that the link has */
	struct timer service;             /* reports, spaced repairs, probes */
	uint8_t fec_sending;              /* spaces with repairs that are to go out */
	bool credit_due;                  /* a frame for the next datagram */
	uint64_t window_bytes;            /* slot bytes sent and not settled, as the peer granted */
	uint32_t flow_initial_bytes;      /* credit of a flow before its first report, as the peer granted */
	uint64_t out_bytes;               /* slot bytes sent, not settled */
	uint64_t granted_bytes;           /* what we granted last */
	struct dnode ready[WAN_SOURCES_MAX]; /* of each source: what has packets to send that were never sent */
	uint32_t nwaiting[WAN_SOURCES_MAX]; /* of each source: flows that have something to send. The source counts them */
	uint32_t nfirst;                  /* of what is in ready[]: so many go before other lanes. Their sources count them */
	uint8_t source_turn;              /* the source whose packets have the first place in the next datagram */
	struct dnode first;               /* slots to send for the first time */
	struct dnode repair;              /* slots with lost units */
	struct dnode spaced;              /* further copies of repairs, by due_ns */
	struct dnode refused;             /* slots that the peer had no room for, by due_ns */
	struct dnode copies;              /* those that are due, and go when nothing else would */
	uint64_t rx_held_bytes; /* slot bytes of the WAN pool that the lane holds */
};

struct wan {
	struct lane *lanes; /* nlanes; only those of the shard are used */
	struct transport transport;
	struct sent_pool sent_pool;
	struct wan_path path[PATHS_MAX];
	uint32_t npaths;
	struct fec_shard *fec; /* NULL: off */
	uint32_t paths_usable; /* bit mask: that packets may take, never 0 (wan_path.c) ... */
	uint32_t paths_ip;     /* ... and of these those that IP packets may (wan_path_sched.c) */
	uint8_t path_last;     /* that died last */
	struct dnode lane_list; /* lanes with something to send, by their turn */
	uint64_t lane_turn;     /* of the lane that has sent last, before it did */
	bool pacer_blocked;     /* what is on lane_list waits for the pacer */
	bool waits;             /* the paths' controllers were told that something does */
	uint64_t refused_next_ns;  /* slots that were refused: the next one goes then ... */
	uint64_t refused_look_ns;  /* ... and how fast changes once in a round trip, since then ... */
	uint8_t refused_slow;      /* ... which is the line's rate divided by 2 to the power of this */
	uint32_t refused_taken, refused_again; /* since then: slots sent again that were taken, and refused again */
};

/* Round trip to the other edge and back, of the slowest path: what to wait for that came by any. Never 0. */
static inline uint64_t proxy_rtt_ns(const struct proxy *p)
{
	uint64_t rtt = 0;

	for (uint32_t i = 0; i < p->wan->npaths; i++)
		rtt = max_u64(rtt, wan_rtt_ns(&p->wan->path[i].rtt));
	return rtt;
}

/* The least that was measured, of the fastest path. */
static inline uint64_t proxy_rtt_min_ns(const struct proxy *p)
{
	uint64_t rtt = UINT64_MAX;

	for (uint32_t i = 0; i < p->wan->npaths; i++)
		rtt = min_u64(rtt, wan_rtt_min_ns(&p->wan->path[i].rtt));
	return rtt;
}

static inline struct lane *lane_of(struct proxy *p, uint16_t lane)
{
	return &p->wan->lanes[lane];
}

#endif
