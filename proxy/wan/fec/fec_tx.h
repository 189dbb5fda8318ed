/* SPDX-License-Identifier: Apache-2.0 */
/* fec_tx.h - erasure groups at the sender: one lane's datagrams on one path.
 *
 * Theory of operation
 *
 * Consecutive packet numbers from `base` on make a *block* of `depth` groups that take turns: number base + i is place
 * i / depth of group i % depth. So a burst of losses as long as the depth takes one datagram of each group, and a
 * repair datagram need not list its members. Datagrams that are not worth protecting (bare reports, repairs) leave
 * their places empty.
 *
 * Repairs are summed up while datagrams go out: no datagram is kept. When a block has k members for each group, or time
 * is up, its repairs go out before anything else, the first of each group, then the second of each: so a burst that
 * takes one repair of a group does not take its next one, just as it does not take two of its members. Repairs are not
 * spread between the datagrams of the next block: lost datagrams would wait for them twice as long, and they would take
 * places of the next block's groups. (At 400 Mbit/s x 1000 km and 80 % load that made the 99.9th percentile 1.4 times
 * as long, and nowhere the median shorter by more than a twentieth.) Reports that have to go in between fill the next
 * block; so there are two blocks, one that is filled and one that goes out.
 *
 * A caller that closes a block before it is full asks the budget (fec_budget): repairs of blocks without k members may
 * cost no more than m/k of the line. Thus FEC takes at most that share at any load, and the tail of a message on an
 * idle line is protected at once.
 *
 * A symbol, the content of a place: length(2) CRC-32(4) frames. The CRC is of the frames: no error on the way can
 * rebuild a datagram that was not sent. */
#ifndef PROXY_FEC_TX_H
#define PROXY_FEC_TX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fec_code.h"
#include "fec_config.h"
#include "proxy/util/limits.h"
#include "proxy/wan/dgram/wan_frame.h"

#define FEC_SYMBOL_HDR 6 /* length and CRC in front of the frames */
/* Bytes that a datagram leaves free, so that a repair of its group fits a datagram, too. */
#define FEC_ROOM (WAN_FEC_OVERHEAD + FEC_SYMBOL_HDR)

/* Buffers for the repairs of all lanes and paths of a shard. */
struct fec_pool {
	uint8_t *data;
	uint32_t stride; /* bytes of one */
	uint32_t nfree, n;
	uint32_t *free; /* n indexes */
};

void fec_pool_init(struct fec_pool *pool, uint8_t *data, uint32_t *free, uint32_t n, uint32_t stride);

struct fec_block {
	uint64_t base;      /* number of the first member */
	uint64_t opened_ns; /* when the first member was sent */
	uint32_t id;        /* the block's id in the sent map */
	uint32_t members;
	uint16_t span; /* numbers from base to the last member */
	struct fec_plan plan;
	uint8_t rows;                       /* repairs of each group that are to go out */
	bool paid;                          /* closed early: the budget was asked */
	uint16_t len[FEC_DEPTH_MAX];        /* of the longest symbol of each group; 0: it has no member */
	uint32_t buf[FEC_BLOCK_PARITY_MAX]; /* by group, then row */
};

struct fec_tx {
	bool filling, sending; /* whether `fill` and `out` hold a block */
	struct fec_block fill, out;
	uint16_t next;  /* repair of `out`, by row, then group */
	uint32_t last_id; /* of the block that the last member went into */
	uint32_t done_id; /* of the last block whose repairs are all out */
};

void fec_tx_init(struct fec_tx *t);
/* Forgets all (a new session); buffers go back. */
void fec_tx_reset(struct fec_tx *t, struct fec_pool *pool);

/* Writes the six bytes in front of the frames. */
void fec_symbol_hdr(uint8_t *symbol, size_t frames_len);

/* Adds datagram pn, with its symbol header, to the block that is being filled; opens a block by `plan`, with `id`, if
 * there is none. False: the datagram goes without protection. */
bool fec_tx_add(struct fec_tx *t, struct fec_pool *pool, const struct fec_code *code, const struct fec_plan *plan,
                uint32_t id, uint64_t pn, const uint8_t *symbol, size_t len, uint64_t now_ns);
/* Bytes of one row of repairs of the block that is being filled. */
size_t fec_tx_row_bytes(const struct fec_tx *t);
/* Closes the block that is being filled, to go out with so many rows of repairs, 0: without repairs. Not while another
 * block goes out. */
void fec_tx_close(struct fec_tx *t, struct fec_pool *pool, unsigned rows);

/* The next repair; its data stay valid until fec_tx_sent(). Only if `sending`. */
void fec_tx_next(const struct fec_tx *t, const struct fec_pool *pool, struct wan_fec *f);
/* Called when the repair was sent. True: it was the last one of block done_id. */
bool fec_tx_sent(struct fec_tx *t, struct fec_pool *pool);

/* --- the budget for blocks that are closed early --- */

struct fec_budget {
	uint64_t next_ns; /* a virtual clock, as in wan_pacer.c: all spending is paid for at this time */
};

/* The number of rows of `row_bytes` (at least `least`, at most plan->m) that may be sent now. 0: none, and *when_ns is
 * the time at which `least` rows may. share_bps: the part of the line's rate that this budget may count on. saved_ns:
 * most time that may be saved up. */
unsigned fec_budget_rows(struct fec_budget *b, const struct fec_plan *plan, unsigned least, size_t row_bytes,
                         uint64_t share_bps, uint64_t saved_ns, uint64_t now_ns, uint64_t *when_ns);
/* Counts a repair of a full block, which was due anyway. It puts off other repairs to most_ns at most: a shard with more
 * than its part of the line owes nothing for it once the line is free. */
void fec_budget_spend(struct fec_budget *b, const struct fec_plan *plan, size_t bytes, uint64_t share_bps,
                      uint64_t most_ns);

#endif
