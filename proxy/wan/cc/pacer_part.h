/* SPDX-License-Identifier: Apache-2.0 */
/* pacer_part.h - a shard's part of a path's sending time: in proportion to the flows of each shard. */
#ifndef PROXY_PACER_PART_H
#define PROXY_PACER_PART_H

#include "wan_pacer.h"

/* Of one shard and one path; zeroed at first. pacer_part.c explains it. */
struct pacer_part {
	uint64_t next;    /* when the shard has used up its part, in 1/PACER_FRACTION ns */
	uint64_t told_ns; /* when the shard last told its flows */
	uint32_t own, all; /* flows that want sending time, of this shard and of all shards together, as then told; equal:
	                    * the shard has the path for itself */
};

/* Returns true if the shard's flows are to be told (again). */
bool pacer_part_is_old(const struct pacer_part *q, uint64_t now_ns);
/* The shard has `flows` flows that want sending time. Tells the other shards so if it is active (it sends, or waits for
 * the pacer), else that it wants none, and learns theirs. shard < nshards <= SHARDS_MAX. */
void pacer_part_tell(struct pacer_part *q, struct wan_pacer *p, uint32_t shard, uint32_t nshards, uint32_t flows,
                     bool active, uint64_t now_ns);
/* The shard's part of bps; an equal part before pacer_part_tell(). A shard without flows counts as one flow. */
uint64_t pacer_part_bps(const struct pacer_part *q, uint32_t nshards, uint64_t bps);

/* wan_pacer_ready(), wan_pacer_look_ns(), wan_pacer_take() for a shard that has this part. */
bool pacer_part_ready(const struct pacer_part *q, struct wan_pacer *p, uint64_t now_ns);
uint64_t pacer_part_look_ns(const struct pacer_part *q, struct wan_pacer *p, uint64_t now_ns);
void pacer_part_take(struct pacer_part *q, struct wan_pacer *p, uint64_t now_ns, size_t payload_len);

#endif
