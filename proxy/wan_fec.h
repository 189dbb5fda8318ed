/* SPDX-License-Identifier: Apache-2.0 */
/* wan_fec.h - FEC on a lane's datagrams: what fec_tx.c, fec_rx.c, fec_plan.c and wan_arrivals.c are for.
 *
 * Theory of operation
 *
 * Sending: a datagram is finished (wan_build.c), added to its block, and sealed. The groups are of plaintext: both ends
 * compute on what an AEAD has vouched for, and repairs are sealed like everything else. Repairs carry a number of
 * their own and nothing that must arrive.
 *
 * Receiving: what is rebuilt is taken like a datagram that came (wan_lane_rx()): same window of numbers, same parser.
 * REPORT says then that it arrived, and REBUILT that FEC did it.
 *
 * Loss detection waits for FEC: a member counts as sent when the last repair of its block was (wan_sent.h), a round
 * trip after it was sent itself at the latest. A block closes by count, or when it is hold_ns() old and the budget
 * has something left, or after a quarter of a round trip whatever is left. So no loss waits for a block that does not
 * close. On a slow line, where few datagrams come together, blocks may be older; but what has nothing behind it in its
 * lane closes one as soon as it would be old enough on a fast line: mostly it ends a message.
 *
 * Groups are of one path, and so are their repairs. What counts is how many of the k + m are lost, and repairs are few
 * of them: on another path they would be spared what hits a twentieth of the group, would come as late as the slower of
 * two paths, and a path that dies takes more members than m repairs make up for wherever those are. What is under way
 * on a dead path goes again on the others (wan_path.c). So each path has the groups that fit its own losses, bursts,
 * load and round trip (fec_plan.h): a clean one has none. */
#ifndef PROXY_WAN_FEC_H
#define PROXY_WAN_FEC_H

#include "core.h"
#include "fec_rx.h"
#include "wan_lane_priv.h"

#define FEC_BLOCKS 256 /* of a space: when each went out; they outlive a round trip */

/* FEC of a lane on a path. */
struct fec_space {
	struct fec_tx tx;
	struct fec_seen seen;
	uint64_t done_ns[FEC_BLOCKS];
};

/* FEC of a shard. */
struct fec_shard {
	struct fec_code code;
	struct fec_solver solver;
	struct fec_pool pool;
	struct fec_rx rx;
};

/* Sizes of a shard's memory; 0 with FEC off. */
uint32_t wan_fec_stride(const struct proxy_config *c);
uint32_t wan_fec_pool_bufs(const struct proxy_config *c);
uint32_t wan_fec_kept(const struct proxy_config *c);

void wan_fec_init_space(struct pn_space *s, struct fec_space *f, uint64_t *cells, uint32_t id);
/* A new session: of the shard, of a lane's space. */
void wan_fec_session_start(struct proxy *p);
void wan_fec_reset_space(struct proxy *p, struct lane *l, struct pn_space *s);
/* FEC= has changed, from and to something that is not off. Blocks that have begun end as they began. */
void wan_fec_reconfigured(struct proxy *p);
/* The path is dead: what is protected goes again on another. */
void wan_fec_abandon(struct proxy *p, struct lane *l, struct pn_space *s);

/* Bytes of the next datagram that stay free for what a repair has in front of it; none if it is for no group. */
static inline size_t wan_fec_room(const struct wan_path *path, const struct pn_space *s)
{
	return s->fec && (s->fec->tx.filling || path->fec.plan.k) ? FEC_ROOM : 0;
}

/* Sending. There is a repair to go, before anything else. */
bool wan_fec_waiting(const struct pn_space *s);
/* The next repair, instead of frames. */
void wan_fec_put(struct wan_build *b);
/* The datagram is finished and not sealed yet: into a group with it. */
void wan_fec_protect(struct wan_build *b);
/* It goes out, with so many bytes. */
void wan_fec_note_load(struct wan_build *b, size_t len);
void wan_fec_on_timer(struct proxy *p, struct lane *l, struct pn_space *s);

/* 0, or -140: buffers for repairs are lost or counted twice. */
int wan_fec_audit(const struct proxy *p);

/* A datagram was found lost: the first of all switches FEC=auto on. */
void wan_fec_found_lost(struct proxy *p, struct wan_path *path);

/* Receiving. A datagram was opened. */
void wan_fec_came(struct proxy *p, struct pn_space *s, const struct wan_hdr *h, const uint8_t *dgram, size_t len);
/* It is a repair. False: malformed. *hole: something of its group is missing still. */
bool wan_fec_on_repair(struct proxy *p, struct lane *l, struct pn_space *s, const struct wan_hdr *h,
                       const struct wan_frame *f, bool *hole);
/* REBUILT and ARRIVALS of the peer. False: malformed. */
bool wan_fec_on_arrivals(struct proxy *p, struct pn_space *s, const struct wan_frame *f);

#endif
