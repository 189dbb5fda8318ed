/* SPDX-License-Identifier: Apache-2.0 */
/* wan_fec.h - FEC on a lane's datagrams: connects fec_tx.c, fec_rx.c, fec_plan.c and wan_arrivals.c with lanes and
 * paths.
 *
 * Theory of operation
 *
 * Sending: a datagram is finished (wan_build.c), added to its block, and sealed. Groups are of plaintext: both ends
 * compute on bytes that an AEAD has vouched for, and repairs are sealed like every datagram. Repairs have packet
 * numbers of their own and hold nothing that must arrive.
 *
 * Receiving: a rebuilt datagram is taken like a received one (wan_lane_rx_rebuilt()): same window of numbers, same
 * parser. REPORT then tells the peer that it arrived, and REBUILT that FEC rebuilt it.
 *
 * One repair rebuilds up to FEC_M_MAX datagrams. They are kept like members and queued (fec_shard.rebuilt), and a call
 * takes only as many as the rest of its work allows; proxy_tick() goes on. Until a datagram is taken it counts as
 * missing. So nothing is owed to a datagram that leaves the queue otherwise: with its session, or because newer ones
 * have taken its place in the ring. The peer sends the contents again.
 *
 * Loss detection waits for FEC: a member counts as sent when the last repair of its block was (wan_sent.h), but at most
 * a round trip after the member itself. A block closes by count, or when it is hold_ns() old and the budget has
 * something left, or after a quarter of a round trip in any case. So no loss waits for a block that does not close. On
 * a slow line, where few datagrams come together, blocks may be older; but if the lane has no further packets, its
 * block closes at the age of a fast line (hold_dry_ns()): the last datagram mostly ends a message.
 *
 * Groups are of one path, and so are their repairs. The number of losses among the k + m datagrams counts, and repairs
 * are few of these: sending them on another path would protect a twentieth of the group from the path's losses, would
 * make rebuilding as late as the slower path, and would not help if the path dies, which loses more members than m
 * repairs make up for. Datagrams under way on a dead path go again on the other paths (wan_path.c). So each path has
 * the groups that fit its own losses, bursts, load and round trip (fec_plan.h): a clean path has none. */
#ifndef PROXY_WAN_FEC_H
#define PROXY_WAN_FEC_H

#include "wan.h"
#include "proxy/wan/fec/fec_rx.h"
#include "wan_lane_priv.h"

#define FEC_BLOCKS 256 /* blocks of a space whose sending time is kept: more than a round trip has */

/* FEC of a lane on a path. */
struct fec_space {
	struct fec_tx tx;
	struct fec_seen seen;
	uint64_t done_ns[FEC_BLOCKS];
};

#define FEC_REBUILT_MAX 256 /* a power of two; less than FEC_KEEP_MIN */

/* A datagram that was rebuilt and is not taken yet. */
struct fec_rebuilt {
	uint64_t pn, due_ns; /* due_ns: about when it would have come; 0: not known */
	uint8_t lane, path;
};

/* FEC of a shard. */
struct fec_shard {
	struct fec_code code;
	struct fec_solver solver;
	struct fec_pool pool;
	struct fec_rx rx;
	struct fec_rebuilt rebuilt[FEC_REBUILT_MAX];
	uint32_t rebuilt_head, rebuilt_tail; /* queued, taken */
};

/* Sizes of a shard's memory; 0 with FEC off. */
uint32_t wan_fec_stride(const struct proxy_config *c);
uint32_t wan_fec_pool_bufs(const struct proxy_config *c);
uint32_t wan_fec_kept(const struct proxy_config *c);

void wan_fec_init_space(struct pn_space *s, struct fec_space *f, uint64_t *cells, uint32_t id);
/* A new session: of the shard, of a lane's space. */
void wan_fec_session_start(struct proxy *p);
void wan_fec_reset_space(struct proxy *p, struct lane *l, struct pn_space *s);
/* Called when FEC= has changed; neither the old nor the new value is off. Blocks that have begun keep their plan. */
void wan_fec_reconfigured(struct proxy *p);
/* Called when the path is dead or out of use: gives up the blocks of the lane's space. Their datagrams count as sent
 * without repairs to come; those of a dead path go again on another one. */
void wan_fec_abandon(struct proxy *p, struct lane *l, struct pn_space *s);

/* Bytes of the next datagram that stay free, for the bytes that a repair has in front of its data; 0 if the datagram is
 * in no group. */
static inline size_t wan_fec_room(const struct wan_path *path, const struct pn_space *s)
{
	return s->fec && (s->fec->tx.filling || path->fec.plan.k) ? FEC_ROOM : 0;
}

/* Sending. True if a repair is to go, before anything else. */
bool wan_fec_waiting(const struct pn_space *s);
/* Writes the next repair into the datagram, instead of frames. */
void wan_fec_put(struct wan_build *b);
/* Adds a finished datagram that is not sealed yet to its group. */
void wan_fec_protect(struct wan_build *b);
/* Called when the datagram goes out, with `len` bytes: counts it for the load of the path. */
void wan_fec_note_load(struct wan_build *b, size_t len);
void wan_fec_on_timer(struct proxy *p, struct lane *l, struct pn_space *s);

/* Returns 0, or -140: buffers for repairs are lost or counted twice. */
int wan_fec_audit(const struct proxy *p);

/* Called when a datagram was found lost: the first loss switches FEC=auto on. */
void wan_fec_found_lost(struct proxy *p, struct wan_path *path);
/* Called when so many datagrams that were found lost came after all. */
void wan_fec_found_late(struct proxy *p, struct wan_path *path, uint64_t n);

/* Receiving. Called when a datagram was opened. */
void wan_fec_came(struct proxy *p, struct pn_space *s, const struct wan_hdr *h, const uint8_t *frames, size_t len);
/* Takes datagrams that were rebuilt, while more than `rest` of the call's work is left. */
void wan_fec_take_rebuilt(struct proxy *p, uint32_t rest);

/* True if datagrams that were rebuilt wait for the next call. */
static inline bool wan_fec_has_rebuilt(const struct proxy *p)
{
	return p->wan->fec && p->wan->fec->rebuilt_head != p->wan->fec->rebuilt_tail;
}

/* Takes a repair. False: malformed. *hole: a member of its group is still missing. */
bool wan_fec_on_repair(struct proxy *p, struct lane *l, struct pn_space *s, const struct wan_hdr *h,
                       const struct wan_frame *f, bool *hole);
/* Takes REBUILT and ARRIVALS of the peer. False: malformed. */
bool wan_fec_on_arrivals(struct proxy *p, struct pn_space *s, const struct wan_frame *f);

#endif
