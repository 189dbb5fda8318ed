/* SPDX-License-Identifier: Apache-2.0 */
/* wan_path_sched.h - chooses the path that a datagram takes. */
#ifndef PROXY_WAN_PATH_SCHED_H
#define PROXY_WAN_PATH_SCHED_H

#include "wan.h"

/* Builds the next datagram of a lane and chooses its path (*by). Returns its length; 0: nothing may go now, and *held
 * tells whether packets wait for a path's sending time. */
size_t wan_path_sched_build(struct proxy *p, struct lane *l, uint8_t *buf, size_t cap, struct wan_path **by,
                            bool *held);

/* True if the path has sending time for packets of this shard. begins: for a lane with the first packet of a flow
 * (lane.nfirst), which does not wait for the shard's part of the path. */
bool wan_path_sched_has_time(const struct wan_path *path, bool begins, uint64_t now_ns);

/* Chooses the paths that IP packets may take. Called now and then, and when a path has come or gone. */
void wan_path_sched_sort(struct proxy *p);
/* True if the lane's IP packets go by that path. */
bool wan_path_sched_keeps_order(const struct proxy *p, const struct lane *l, const struct wan_path *path);

/* The time at which a path that packets may take has sending time again. */
uint64_t wan_path_sched_next_ns(const struct proxy *p);
/* Largest datagram of any path, bytes. */
size_t wan_path_sched_payload_max(const struct proxy *p);

#endif
