/* SPDX-License-Identifier: Apache-2.0 */
/* fec_code.h - the arithmetic of erasure groups: Reed-Solomon over GF(256), by ISA-L.
 *
 * Place i of a group weighs 1 / (i + (255 - row)) in repair `row` (+ is XOR): a Cauchy matrix, of which every square
 * part can be inverted, so that any n repairs make up for any n losses. A weight depends on its place and row only: a
 * group may end early, and may have empty places, which add nothing. Lengths may differ: what is behind a datagram's
 * end is zero. */
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
/* Adds what stands at a place of the group to its first m repairs. */
void fec_code_add(const struct fec_code *c, unsigned place, const uint8_t *src, size_t len, uint8_t *const *repair,
                  unsigned m);

/* What is lost as a sum over what came. */
struct fec_solver {
	unsigned sources, lost;
	uint8_t weight[FEC_M_MAX * FEC_SOURCES_MAX];
	uint8_t tables[32 * FEC_M_MAX * FEC_SOURCES_MAX];
};

/* nlost lost places, as many different rows of repairs that came, nhave places that came (empty ones left out). False:
 * cannot be solved (never, if the three name what they should). */
bool fec_solver_begin(struct fec_solver *s, const uint8_t *lost, unsigned nlost, const uint8_t *row,
                      const uint8_t *have, unsigned nhave);
/* Adds a source to all outputs, which were zero at first: source i < nhave is what stood at have[i], after those come
 * the repairs, in the order of row[]. */
void fec_solver_add(const struct fec_solver *s, unsigned source, const uint8_t *src, size_t len, uint8_t *const *out);

#endif
