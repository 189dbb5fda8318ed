/* SPDX-License-Identifier: Apache-2.0 */
#include "fec_code.h"

#include <isa-l/erasure_code.h>
#include <string.h>

_Static_assert(FEC_PLACES_MAX + FEC_M_MAX <= 256, "places and rows are different elements of GF(256)");

static uint8_t weight(unsigned place, unsigned row)
{
	return gf_inv((uint8_t)(place ^ (255 - row)));
}

/* ISA-L's prototypes know no const; it does not write to these. */
static uint8_t *unconst(const uint8_t *p)
{
	return (uint8_t *)(uintptr_t)p;
}

void fec_code_init(struct fec_code *c)
{
	uint8_t w[FEC_M_MAX * FEC_PLACES_MAX];

	for (unsigned row = 0; row < FEC_M_MAX; row++)
		for (unsigned place = 0; place < FEC_PLACES_MAX; place++)
			w[row * FEC_PLACES_MAX + place] = weight(place, row);
	ec_init_tables(FEC_PLACES_MAX, FEC_M_MAX, w, c->tables);
}

void fec_code_add(const struct fec_code *c, unsigned place, const uint8_t *src, size_t len, uint8_t *const *repair,
                  unsigned m)
{
	ec_encode_data_update((int)len, FEC_PLACES_MAX, (int)m, (int)place, unconst(c->tables), unconst(src),
	                      (uint8_t **)(uintptr_t)repair);
}

/* A repair is the weighted sum of all places. Minus the places that came, it is the lost places times the matrix `a`;
 * so the lost places are the inverse of `a` times these differences. */
bool fec_solver_begin(struct fec_solver *s, const uint8_t *lost, unsigned nlost, const uint8_t *row,
                      const uint8_t *have, unsigned nhave)
{
	uint8_t a[FEC_M_MAX * FEC_M_MAX], inv[FEC_M_MAX * FEC_M_MAX];

	s->lost = nlost;
	s->sources = nhave + nlost;
	for (unsigned r = 0; r < nlost; r++)
		for (unsigned x = 0; x < nlost; x++)
			a[r * nlost + x] = weight(lost[x], row[r]);
	if (gf_invert_matrix(a, inv, (int)nlost) != 0)
		return false;
	for (unsigned x = 0; x < nlost; x++) {
		uint8_t *w = s->weight + x * s->sources;

		for (unsigned i = 0; i < nhave; i++) {
			w[i] = 0;
			for (unsigned r = 0; r < nlost; r++)
				w[i] ^= gf_mul(inv[x * nlost + r], weight(have[i], row[r]));
		}
		memcpy(w + nhave, inv + x * nlost, nlost);
	}
	ec_init_tables((int)s->sources, (int)nlost, s->weight, s->tables);
	return true;
}

void fec_solver_add(const struct fec_solver *s, unsigned source, const uint8_t *src, size_t len, uint8_t *const *out)
{
	ec_encode_data_update((int)len, (int)s->sources, (int)s->lost, (int)source, unconst(s->tables), unconst(src),
	                      (uint8_t **)(uintptr_t)out);
}
