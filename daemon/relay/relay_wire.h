/* SPDX-License-Identifier: Apache-2.0 */
/* relay_wire.h - messages between the relays of the two edges: the head of each chunk.
 *
 * Big-endian: flags(1, the core's) type(1) status(1) version(1) value(4) op(8) offset(8) length(8) name(32), then data.
 * A data chunk is self-contained, so that a receiver that starts again needs no memory of an operation: it names
 * region, offset, and the operation that an error belongs to. version is 1, and 2 for an RW_GET of pieces: a relay that
 * does not know pieces ignores it instead of misreading it. */
#ifndef DAEMON_RELAY_WIRE_H
#define DAEMON_RELAY_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/longreach.h"
#include "proxy/proxy.h"

#define RELAY_HEAD_LEN 64
#define RELAY_DATA_MAX 4096 /* of a chunk: pages of files go as pages */
_Static_assert(RELAY_HEAD_LEN + RELAY_DATA_MAX <= RELAY_CHUNK_MAX, "a chunk fits its slot");

/* Channels 2k and 2k+1 are a pair: requests go on one, their answers on the other, so that an answer never waits for room
 * that only a request of the other side could free. Requests go on the even channel. Between two relays that know
 * RELAY_KNOWS_SPREAD they go on 2k plus the parity of k's bits: 0, 3, 5, 6, 9, ... Then the channels of requests, and with
 * them the bytes of puts, are spread over any number of workers that is a power of two; even channels reach half of
 * these. */
enum relay_type {
	RW_PUT = 1,  /* bytes for a region: name, offset. value: the receiver's start, as known when the put began; 0: none */
	RW_PUT_END,  /* fence: all bytes of the put are there. name, offset, length, value; data: its notice */
	RW_GET,      /* name, offset, length; 0: to the end. value: so many pieces, in data: offset(8) length(8) each; length: of all */
	RW_CALL,     /* name: of the service; offset: of this part, value: length of all parts */
	RW_CANCEL,   /* op */
	RW_ANSWERS,  /* types from here on are answers */
	RW_HELLO = RW_ANSWERS, /* value: of this start of the relay; length: RELAY_KNOWS_* */
	RW_STATUS,   /* of a put that has ended, or of a get or call that cannot be carried out: status, length */
	RW_GET_DATA, /* offset: from the beginning of the get */
	RW_GET_END,  /* fence: status, length */
	RW_REPLY,    /* like RW_CALL; status */
	RW_TYPES
};

/* Features that a relay understands beyond the first version's. */
#define RELAY_KNOWS_PIECES 1u
#define RELAY_KNOWS_SPREAD 2u

#define RELAY_PIECE_LEN 16 /* of a piece in RW_GET */

struct relay_head {
	bool fence;
	uint8_t type;   /* enum relay_type */
	uint8_t status; /* enum lr_status */
	uint32_t value;
	uint64_t op;
	uint64_t offset, length;
	char name[LR_NAME_MAX];
};

/* True if chunks of that type (enum relay_type) may come on the channel, by either numbering. */
static inline bool relay_may_carry(uint32_t channel, uint8_t type)
{
	bool odd = channel % 2, odd_parity = __builtin_parity(channel);

	return type < RW_ANSWERS ? !odd || !odd_parity : odd || odd_parity;
}

void relay_head_put(uint8_t out[RELAY_HEAD_LEN], const struct relay_head *h);
/* data, data_len: the bytes behind the head. Returns false if no correct peer sends this. */
bool relay_head_get(const uint8_t *chunk, size_t len, struct relay_head *h, const uint8_t **data, size_t *data_len);

#endif
