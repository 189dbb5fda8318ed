/* SPDX-License-Identifier: Apache-2.0 */
/* fec_code.h - the arithmetic of erasure groups: Reed-Solomon over GF(256), by ISA-L.
 *
 * Place i of a group weighs 1 / (i + (255 - row)) in repair `row` (+ is XOR): a Cauchy matrix, of which every square
 * part can be inverted, so that any n repairs make up for any n losses. A weight depends on its place and row only: a
 * group may end early, and may have empty places, which add nothing. Lengths may differ: bytes behind a datagram's end
 * count as zero. */
#ifndef PROXY_FEC_CODE_H
#define PROXY_FEC_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/util/limits.h"

#define FEC_SOURCES_MAX (FEC_PLACES_MAX + FEC_M_MAX)

struct fec_code {
	uint8_t tables[32 * FEC_M_MAX * FEC_PLACES_MAX]; /* ISA-L's form of the weights */
};

void fec_code_init(struct fec_code *c);
/* Adds the symbol at a place of the group to the group's first m repairs. */
void fec_code_add(const struct fec_code *c, unsigned place, const uint8_t *src, size_t len, uint8_t *const *repair,
                  unsigned m);

/* The lost places as sums over the received ones. */
struct fec_solver {
	unsigned sources, lost;
	uint8_t weight[FEC_M_MAX * FEC_SOURCES_MAX];
	uint8_t tables[32 * FEC_M_MAX * FEC_SOURCES_MAX];
};

/* nlost lost places, as many different rows of received repairs, nhave received places (without empty ones). False:
 * cannot be solved (never happens if all arguments are valid). */
bool fec_solver_begin(struct fec_solver *s, const uint8_t *lost, unsigned nlost, const uint8_t *row,
                      const uint8_t *have, unsigned nhave);
/* Adds a source to all outputs, which are zero at first: source i < nhave is the symbol at have[i]; sources from nhave
 * on are the repairs, in the order of row[]. */
void fec_solver_add(const struct fec_solver *s, unsigned source, const uint8_t *src, size_t len, uint8_t *const *out);

#endif
