/* SPDX-License-Identifier: Apache-2.0 */
/* fec_rx.h - erasure groups at the receiver: received members are kept for a while, lost ones are rebuilt.
 *
 * Theory of operation
 *
 * Members of groups (the header says so) are kept after they were opened, in a ring over all lanes and paths: a newer
 * one takes the place of the oldest. For each packet number space a short ring of cells tells where each received
 * number is kept, or that it was no member.
 *
 * A repair tells its group. Each place of the group came, is empty, is lost, or came and is not kept any more. If a
 * place is not kept any more, the group cannot be solved. If no place is lost, nothing is to be done. If no more places
 * are lost than there are repairs, they are rebuilt at once. Otherwise the repair is kept like a datagram, and a small
 * table (struct fec_wait) remembers it until the group's next repair comes.
 *
 * A lost place may have been empty: then the rebuilt symbol has length 0. A rebuilt datagram goes to the caller, who
 * treats it like a received one: this module does not look into it. */
#ifndef PROXY_FEC_RX_H
#define PROXY_FEC_RX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fec_code.h"
#include "fec_tx.h"
#include "proxy/wan/dgram/wan_frame.h"
#include "proxy/wan/dgram/wan_recv.h"

#define FEC_WAITS 256 /* groups that have too few repairs */

struct fec_kept {
	uint64_t pn, came_ns;
	uint32_t space; /* space of the packet number; UINT32_MAX: none */
	uint16_t len;   /* of the symbol */
};

struct fec_wait {
	uint64_t base;
	uint32_t space; /* UINT32_MAX: free */
	uint16_t span, len;
	uint8_t depth, group, rows;
	uint8_t n;                 /* repairs that are kept */
	uint8_t row[FEC_M_MAX];
	uint64_t pn[FEC_M_MAX];    /* packet numbers of the datagrams that brought the repairs: their names in the
	                            * ring */
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

/* Memory of the numbers of one packet number space: a ring of fec_rx_cells() words. */
struct fec_seen {
	uint32_t space; /* a number of its own */
	uint64_t *cell; /* number << 16 | (place in the ring + 1, or NO_MEMBER); 0: nothing */
};

/* Words of memory that a space needs, a power of two, for nkept datagrams that are kept (at most 60,000). */
uint32_t fec_rx_cells(uint32_t nkept);
/* data: nkept x stride, kept: nkept; out: FEC_M_MAX x (stride + WAN_HDR_LEN). */
void fec_rx_init(struct fec_rx *rx, const struct fec_code *code, struct fec_solver *solver, uint8_t *data,
                 struct fec_kept *kept, uint32_t nkept, uint32_t stride, uint8_t *out);
/* A new session: fec_rx_reset() forgets everything, fec_seen_reset() what one space had. */
void fec_rx_reset(struct fec_rx *rx);
void fec_seen_reset(const struct fec_rx *rx, struct fec_seen *seen);

/* A datagram came: fec_rx_keep() takes a member, with its frames; fec_rx_no_member() any other. */
void fec_rx_keep(struct fec_rx *rx, struct fec_seen *seen, uint64_t pn, const uint8_t *frames, size_t len,
                 uint64_t now_ns);
void fec_rx_no_member(struct fec_rx *rx, struct fec_seen *seen, uint64_t pn);
/* The frames of a member, valid until the next fec_rx_keep() or fec_rx_repair(). NULL: it is not kept. */
const uint8_t *fec_rx_kept(const struct fec_rx *rx, const struct fec_seen *seen, uint64_t pn, size_t *len);

enum fec_outcome {
	FEC_NOT_NEEDED, /* no member of the group is lost */
	FEC_WAITS_FOR_MORE,
	FEC_BEYOND, /* the group's last repair came, and the repairs are too few */
	FEC_FORGOTTEN, /* a member came so long ago that it is not kept any more */
	FEC_SOLVED,
	FEC_NONSENSE, /* the repair contradicts itself or another repair */
};

/* dgram: WAN_HDR_LEN bytes of room, then the frames; due_ns: when its neighbour in the group came, 0: it has none. The
 * caller keeps it (fec_rx_keep()) and takes it like a received one, now or later. */
typedef void (*fec_rebuilt_fn)(void *arg, uint64_t pn, uint8_t *dgram, size_t len, uint64_t due_ns);

/* A repair came in the datagram pn. recv: the numbers that have arrived in this space. Calls rebuilt() for each
 * datagram that the repair makes up for. */
enum fec_outcome fec_rx_repair(struct fec_rx *rx, struct fec_seen *seen, const struct wan_recv *recv, uint64_t pn,
                               const struct wan_fec *f, fec_rebuilt_fn rebuilt, void *arg);

#endif
