/* SPDX-License-Identifier: Apache-2.0 */
/* link_plan.h - works out, from a link's configuration, the numbers that its parts are started with. Pure. */
#ifndef DAEMON_LINK_PLAN_H
#define DAEMON_LINK_PLAN_H

#include "config.h"

struct headroom_deep;

/* Round trip to expect before it is measured: 5 us per km each way, and a little for the machines. */
uint64_t link_plan_rtt_ns(const struct link_config *c);

/* Works out the size that one direction of the deep buffer should have at that round trip, and what a size means for
 * `flows` flows: capacity_bytes, or 0 for the size that it should have. 0, or -EINVAL for a round trip of nothing or
 * beyond 10 s. */
int link_plan_deep(const struct link_config *c, uint64_t rtt_ns, uint64_t capacity_bytes, unsigned flows,
                   struct headroom_deep *d);

/* Share of a pool's capacity from which the pool is called full, by the doctor and by alerts: the fill that hosts are
 * held off at, less the lull until they come back. One flow on a full line reaches 49/64 of the capacity, many flows
 * reach 7/8 (share.c, slot.c), and queue pairs in turns (near_turn.c) go up and down. Means measured with a buffer
 * of 2.5 bandwidth-delay products and hosts that ignore CNPs: 0.74 (1 flow), 0.82 (4), 0.65 (32 and 128). With 8
 * bandwidth-delay products, where nobody is held off for lack of room, 128 flows fill 0.47. */
#define LINK_BUFFER_FULL 0.6

/* [Buffer] Size=auto for that round trip: both directions. */
uint64_t link_plan_arena_bytes(const struct link_config *c, uint64_t rtt_ns);

/* All settings that decide which lane a flow is on, as one number, not 0. */
uint64_t link_plan_lanes(const struct link_config *c);

/* Gives c the Workers= and Lanes= by which files of its buffer are in use: as many workers, and lanes by
 * link_plan_lanes(), 0: as c has them. CPUs= for another number of workers go. False, c unchanged: c cannot run so, as
 * it has other groups in [Host], or another engine. */
bool link_plan_spread_as(struct link_config *c, uint32_t workers, uint64_t lanes);

/* Arena of one shard. */
struct arena_geometry link_plan_geometry(const struct link_config *c);

/* Configuration of one shard's core. */
struct proxy_config link_plan_proxy(const struct link_config *c, uint32_t shard, struct wan_pacer *pacers);

/* The purpose that a shard's keys are derived for. */
/* Where the relay's socket is. */
#define RELAY_SOCKET_DEFAULT "/run/longreach/%s.relay"
void link_plan_relay_socket(const struct link_config *c, char *path, size_t cap);

struct seal_scope link_plan_seal(const struct link_config *c, uint32_t shard);

/* Header bytes of a WAN datagram on the wire, Ethernet's preamble and gap included: what Rate= counts. */
uint32_t link_plan_overhead_bytes(const struct path_config *c);

/* How much unused sending time the path's pacer may save up, ns: what a late worker may make up for. At a fixed rate at
 * least 16 of the largest datagrams: a slow line must be filled even if the scheduler wakes the worker a time slice
 * late. Not with RateControl=auto: in a shared queue bursts cause losses, and the sender with larger bursts gets
 * less. */
uint32_t link_plan_burst_ns(const struct path_config *c, bool may_spin);

#endif
