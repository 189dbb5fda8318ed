/* SPDX-License-Identifier: Apache-2.0 */
/* fec_rx.h - erasure groups at the receiver: what came is kept for a while, what did not is rebuilt.
 *
 * Theory of operation
 *
 * Members of groups (the header says so) are kept after they were opened, in a ring over all lanes and paths: a
 * newer one takes the place of the oldest. For each packet number space a short ring of cells tells of each number
 * that came where it is kept, or that it was no member.
 *
 * A repair tells its group. The places of the group came, or are empty, or are lost, or came and are not kept any
 * more. In the last case nothing can be done; if none is lost, nothing need be; if no more are lost than there are
 * repairs, they are rebuilt at once. Otherwise the repair is kept like a datagram, and a small table (struct fec_wait)
 * remembers it until the next one comes.
 *
 * A lost place may have been empty: then what is rebuilt has length 0. What is rebuilt goes to the caller, who treats
 * it as any datagram that came: nothing here looks into it. */
#ifndef PROXY_FEC_RX_H
#define PROXY_FEC_RX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fec_code.h"
#include "fec_tx.h"
#include "proxy/wan/dgram/wan_frame.h"
#include "proxy/wan/dgram/wan_recv.h"

#define FEC_WAITS 256 /* groups that have repairs, and not enough of them */

struct fec_kept {
	uint64_t pn, came_ns;
	uint32_t space; /* whose number it is; UINT32_MAX: nobody's */
	uint16_t len;   /* of the symbol */
};

struct fec_wait {
	uint64_t base;
	uint32_t space; /* UINT32_MAX: free */
	uint16_t span, len;
	uint8_t depth, group, rows;
	uint8_t n;                 /* repairs that are kept */
	uint8_t row[FEC_M_MAX];
	uint64_t pn[FEC_M_MAX];    /* of the datagrams that brought them: their names in the ring */
	uint32_t at[FEC_M_MAX];    /* places in the ring */
};

struct fec_rx {
	const struct fec_code *code;
	struct fec_solver *solver;
	uint8_t *data; /* nkept x stride */
	uint32_t stride, nkept, next;
	struct fec_kept *kept;
	uint8_t *out[FEC_M_MAX]; /* stride + WAN_HDR_LEN bytes each */
	uint32_t cell_mask;
	struct fec_wait wait[FEC_WAITS];
};

/* What is remembered of the numbers of one space: a ring of fec_rx_cells() words. */
struct fec_seen {
	uint32_t space; /* a number of its own */
	uint64_t *cell; /* number << 16 | (place in the ring + 1, or NO_MEMBER); 0: nothing */
};

/* Words of memory that a space needs, a power of two, for nkept datagrams that are kept (at most 60,000). */
uint32_t fec_rx_cells(uint32_t nkept);
/* data: nkept x stride, kept: nkept; out: FEC_M_MAX x (stride + WAN_HDR_LEN). */
void fec_rx_init(struct fec_rx *rx, const struct fec_code *code, struct fec_solver *solver, uint8_t *data,
                 struct fec_kept *kept, uint32_t nkept, uint32_t stride, uint8_t *out);
/* A new session: forgets all; and what one space had. */
void fec_rx_reset(struct fec_rx *rx);
void fec_seen_reset(const struct fec_rx *rx, struct fec_seen *seen);

/* A datagram came: a member, with its frames; or none. */
void fec_rx_keep(struct fec_rx *rx, struct fec_seen *seen, uint64_t pn, const uint8_t *frames, size_t len,
                 uint64_t now_ns);
void fec_rx_no_member(struct fec_rx *rx, struct fec_seen *seen, uint64_t pn);

enum fec_outcome {
	FEC_NOT_NEEDED, /* all of the group is here */
	FEC_WAITS_FOR_MORE,
	FEC_BEYOND, /* the group's last repair, and it is not enough */
	FEC_FORGOTTEN, /* a member came too long ago */
	FEC_SOLVED,
	FEC_NONSENSE, /* contradicts itself or another repair */
};

/* dgram: WAN_HDR_LEN bytes of room, then the frames; due_ns: when its neighbour in the group came, 0: it has none. The
 * caller does with it as with what came, fec_rx_keep() too. */
typedef void (*fec_rebuilt_fn)(void *arg, uint64_t pn, uint8_t *dgram, size_t len, uint64_t due_ns);

/* A repair came, in the datagram pn. recv: what has arrived in this space. Calls rebuilt() for each datagram that it
 * makes up for. */
enum fec_outcome fec_rx_repair(struct fec_rx *rx, struct fec_seen *seen, const struct wan_recv *recv, uint64_t pn,
                               const struct wan_fec *f, fec_rebuilt_fn rebuilt, void *arg);

#endif
