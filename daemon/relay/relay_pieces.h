/* SPDX-License-Identifier: Apache-2.0 */
/* relay_pieces.h - an operation of several pieces (lr_putv, lr_getv): where each byte of it comes from and goes to.
 *
 * An operation's bytes are one row, piece behind piece. A chunk never holds bytes of two pieces, so that it has one
 * offset at each end. NULL means an operation of one piece: source and target advance with the row. */
#ifndef DAEMON_RELAY_PIECES_H
#define DAEMON_RELAY_PIECES_H

#include <stdbool.h>
#include <stdint.h>

struct relay_piece {
	uint64_t at;             /* of its first byte in the row */
	uint64_t source, target; /* of it in what is read, and in what is written */
	uint64_t length;         /* more than 0 */
};

/* Shared by an operation and its stream. */
struct relay_pieces {
	uint32_t refs, n;
	struct relay_piece piece[];
};

/* Of n pieces, zeros, with one reference. NULL: no memory. */
struct relay_pieces *relay_pieces_new(uint32_t n);
struct relay_pieces *relay_pieces_ref(struct relay_pieces *p);
void relay_pieces_unref(struct relay_pieces *p);
/* The next one behind those before it. Returns false if the row would be longer than INT64_MAX. */
bool relay_pieces_set(struct relay_pieces *p, uint32_t i, uint64_t source, uint64_t target, uint64_t length);
/* The piece that holds byte `at` of the row, which is in it. */
const struct relay_piece *relay_pieces_at(const struct relay_pieces *p, uint64_t at);
/* Of byte `at` in what is read or written, and how many bytes from there on are of the same piece: at most left. */
uint64_t relay_pieces_source(const struct relay_pieces *p, uint64_t at);
uint64_t relay_pieces_target(const struct relay_pieces *p, uint64_t at);
uint64_t relay_pieces_run(const struct relay_pieces *p, uint64_t at, uint64_t left);
/* The range of targets that encloses all pieces. */
void relay_pieces_span(const struct relay_pieces *p, uint64_t *offset, uint64_t *length);

#endif
