/* SPDX-License-Identifier: Apache-2.0 */
/* wan.h - the transport's state in a shard: lanes, paths, the sources that are registered, and slots. */
#ifndef PROXY_WAN_H
#define PROXY_WAN_H

#include "proxy/shard/core.h"
#include "slot.h"
#include "transport.h"
#include "wan_path.h"

/* One lane: its queues, and the packet numbers that it has sent and received. A shard initialises only the lanes that
 * it owns. */
struct lane {
	uint8_t id;
	struct dnode node;                /* in wan.lane_list: lanes with something to send */
	uint8_t before_others;            /* 1: on wan.lane_list among the lanes that go before other lanes */
	uint64_t place;                   /* order in wan.lane_list otherwise: the turn that the lane had */
	uint64_t turn;                    /* bytes sent for each flow that had something to send, in units of wan_lane.c;
	                                   * wraps around */
	struct pn_space space[PATHS_MAX]; /* of the paths that the link has */
	struct timer service;             /* reports, spaced repairs, probes */
	uint8_t fec_sending;              /* spaces with repairs that are to go out */
	bool credit_due;                  /* a frame for the next datagram */
	uint64_t window_bytes;            /* slot bytes sent and not settled, as the peer granted */
	uint32_t flow_initial_bytes;      /* credit of a flow before its first report, as the peer granted */
	uint64_t out_bytes;               /* slot bytes sent, not settled */
	uint64_t granted_bytes;           /* what we granted last */
	struct dnode ready[WAN_SOURCES_MAX]; /* of each source: nodes (such as flows) with packets that were never
	                                      * sent */
	uint32_t nwaiting[WAN_SOURCES_MAX]; /* of each source: flows that have something to send. The source counts them */
	uint32_t nfirst;                  /* nodes in ready[] that go before other lanes. Their sources count them */
	uint8_t source_turn;              /* the source whose packets have the first place in the next datagram */
	struct dnode first;               /* slots to send for the first time */
	struct dnode repair;              /* slots with lost units */
	struct dnode spaced;              /* further copies of repairs, by due_ns */
	struct dnode refused;             /* slots that the peer had no room for, in turn */
	struct dnode copies;              /* copies that are due, and go when nothing else would */
	uint64_t rx_held_bytes; /* slot bytes of the WAN pool that the lane holds */
};

struct wan {
	struct lane *lanes; /* nlanes; only those of the shard are used */
	struct transport transport;
	struct sent_pool sent_pool;
	struct wan_path path[PATHS_MAX];
	uint32_t npaths;
	struct fec_shard *fec; /* NULL: off */
	uint32_t paths_usable; /* bit mask of the paths that packets may take, never 0 (wan_path.c) */
	uint32_t paths_ip;     /* the paths of paths_usable that IP packets may take (wan_path_sched.c) */
	uint8_t path_last;     /* the path that died last */
	struct dnode lane_list; /* lanes with something to send, by their turn */
	uint64_t lane_turn;     /* turn that the lane that sent last had before it sent */
	bool keys_used_up;      /* since the session began, WAN_SEAL_USED_UP has kept a datagram back */
	bool pacer_blocked;     /* the lanes on lane_list wait for the pacer */
	uint64_t packets_sent_ns; /* when a lane with flows that wait last had its turn */
	bool rate_waits_told;   /* rate_waits() has told the paths' controllers that lanes wait */
	uint64_t refused_next_ns;  /* when the next refused slot goes */
	uint64_t refused_look_ns;  /* when the pace of refused slots was last changed: at most once in a round trip */
	uint8_t refused_slow;      /* that pace is the line's rate divided by 2 to the power of this */
	uint32_t refused_taken, refused_again; /* since refused_look_ns: slots sent again that were taken, and that were
	                                        * refused again */
};

/* Round trip to the other edge and back, of the slowest path: long enough for packets that may take any path. Never
 * 0. */
static inline uint64_t proxy_rtt_ns(const struct proxy *p)
{
	uint64_t rtt = 0;

	for (uint32_t i = 0; i < p->wan->npaths; i++)
		rtt = max_u64(rtt, wan_rtt_ns(&p->wan->path[i].rtt));
	return rtt;
}

/* The least round trip that was measured, of the fastest path. */
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
