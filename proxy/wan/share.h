/* SPDX-License-Identifier: Apache-2.0 */
/* share.h - the bound on the part of a pool that one flow may hold: the bytes that it drains in a few round trips.
 * share.c explains it. */
#ifndef PROXY_SHARE_H
#define PROXY_SHARE_H

#include "wan.h"

/* Called when the flow begins to hold something. */
void share_begin(const struct proxy *p, struct share *s);
/* Called when so many slot bytes, which owned so many positions, have left the flow for good. */
void share_drained(const struct proxy *p, struct share *s, uint64_t bytes, uint64_t positions);
/* The number of round trips of its drain that a flow may hold. */
enum share_depth {
	SHARE_BACKLOG = 1, /* not sent yet: enough to keep the line busy */
	SHARE_PLAIN = 2,   /* in all, if the flow waits for its responder */
	SHARE_REPAIRS =
	    4, /* in all, if the flow may wait for repairs: each loss on the WAN delays all packets behind it by a round
	        * trip */
};

/* Slot bytes that a flow which holds `held` of that pool may hold in any case, even if it drains nothing. */
uint64_t share_open_part(const struct proxy *p, enum arena_pool pool, uint64_t held);
/* Slot bytes that a flow which holds `held` of that pool may hold in all. Never below CREDIT_MIN_BYTES. */
uint64_t share_limit(const struct proxy *p, const struct share *s, enum arena_pool pool, uint64_t held,
                     enum share_depth depth);
/* Positions that the flow drains in SHARE_REPAIRS round trips: with small packets and READs these are more than its
 * bytes suggest. */
uint64_t share_positions(const struct proxy *p, const struct share *s, enum arena_pool pool, uint64_t held);
/* Bytes per second that the flow drains; 0: it has drained nothing for two spans. */
uint64_t share_rate(const struct proxy *p, const struct share *s);
/* True if the flow holds something and has not drained for some round trips. */
bool share_stuck(const struct proxy *p, const struct share *s, uint64_t held);

/* Bytes of a pool that are free beyond its reserve and beyond the room reserved for awaited responses. */
static inline uint64_t share_left(const struct proxy *p, enum arena_pool pool)
{
	uint64_t free_bytes = pool_free(p, pool),
	         reserve = pool_reserve(p, pool) + (pool == POOL_WAN ? p->reserved_bytes : 0);

	return free_bytes > reserve ? free_bytes - reserve : 0;
}

#endif
