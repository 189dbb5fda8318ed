/* SPDX-License-Identifier: Apache-2.0 */
/* relay.h - the relay as a source of the transport: functions that the top of the core calls. The daemon's functions
 * are in proxy.h.
 *
 * Theory of operation
 *
 * A channel is two one-way streams of chunks. A chunk is a slot: SLOT_RELAY_OUT in POOL_LAN where it was taken,
 * SLOT_RELAY_IN in POOL_WAN where it came. A chunk has a position, counted from the beginning of its stream.
 *
 *     out   [done, next): taken and not known to be executed. Committed slots are kept until they are done.
 *     in    below done: executed. From there on: a bit for each position that is done, a slot for each chunk that has
 *           come.
 *
 * The receiver grants positions (RELAY_CREDIT). The sender sends in the order of positions; the transport repairs.
 *
 * A stream has a *life*, a number that the sender makes up when it starts with an empty arena or finds that the peer
 * has another arena than before. The life crosses as the incarnation of packets. When a new life begins, both ends
 * forget everything of the life before.
 *
 * Rules of order, for kill -9 at any instant:
 *
 *   - The receiver stores `done` before it tells the sender, because the sender then frees the chunks before `done`.
 *   - The receiver stores `done` before it hands a fence over, so that no chunk before a fence is executed after the
 *     fence.
 *   - After a rebuild the sender takes no position before the receiver has told `done`: chunks that were taken and not
 *     committed left holes, which are filled with void chunks. */
#ifndef PROXY_RELAY_H
#define PROXY_RELAY_H

#include "proxy/shard/core.h"
#include "proxy/wan/transport.h"

extern const struct wan_source relay_source;

/* Bytes of zeroed, 64-byte aligned heap for the relay of a shard. 0: the shard has no relay. */
size_t relay_heap_size(const struct proxy_config *c);
void relay_init(struct proxy *p, void *heap);
/* After an arena was taken up: relay_rebuild() reads the channels' descriptors, then relay_adopt() takes each slot of
 * the relay. */
void relay_rebuild(struct proxy *p);
void relay_adopt(struct proxy *p, uint32_t slot);
/* Called when all lanes have begun the session. */
void relay_session_start(struct proxy *p);
/* relay_work() goes on with the work that earlier calls have left; relay_has_work() tells whether there is any. */
void relay_work(struct proxy *p);
bool relay_has_work(const struct proxy *p);
/* Lists and counts agree with the arena. 0, or a negative number naming the check. Slow. */
int relay_audit(struct proxy *p);

static inline bool relay_slot(const struct slot_hdr *h)
{
	return h->kind == SLOT_RELAY_OUT || h->kind == SLOT_RELAY_IN;
}

#endif
