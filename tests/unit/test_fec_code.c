/* SPDX-License-Identifier: Apache-2.0 */
/* Erasure groups: any n repairs make up for any n losses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/wan/fec/fec_code.h"

enum { LEN_MAX = 700 };

static struct fec_code code;
static struct fec_solver solver;
static uint8_t data[FEC_PLACES_MAX][LEN_MAX], repair[FEC_M_MAX][LEN_MAX], out[FEC_M_MAX][LEN_MAX];
static size_t len_of[FEC_PLACES_MAX];
static uint32_t state = 1;

static uint32_t draw(uint32_t n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n;
}

static void encode(unsigned k, unsigned m)
{
	uint8_t *rows[FEC_M_MAX];

	memset(repair, 0, sizeof(repair));
	for (unsigned r = 0; r < m; r++)
		rows[r] = repair[r];
	for (unsigned i = 0; i < k; i++) {
		len_of[i] = 1 + draw(LEN_MAX);
		memset(data[i], 0, LEN_MAX);
		for (size_t b = 0; b < len_of[i]; b++)
			data[i][b] = (uint8_t)draw(256);
		fec_code_add(&code, i, data[i], len_of[i], rows, m);
	}
}

/* Loses n places, keeps n repairs, both at random, and compares. */
static void lose_and_solve(unsigned k, unsigned m, unsigned n)
{
	uint8_t lost[FEC_M_MAX], row[FEC_M_MAX], have[FEC_PLACES_MAX], *o[FEC_M_MAX];
	bool gone[FEC_PLACES_MAX] = {false}, taken[FEC_M_MAX] = {false};
	unsigned nlost = 0, nrow = 0, nhave = 0;

	while (nlost < n) {
		unsigned x = draw(k);

		if (!gone[x]) {
			gone[x] = true;
			lost[nlost++] = (uint8_t)x;
		}
	}
	while (nrow < n) {
		unsigned r = draw(m);

		if (!taken[r]) {
			taken[r] = true;
			row[nrow++] = (uint8_t)r;
		}
	}
	for (unsigned i = 0; i < k; i++)
		if (!gone[i])
			have[nhave++] = (uint8_t)i;
	assert_true(fec_solver_begin(&solver, lost, n, row, have, nhave));
	memset(out, 0, sizeof(out));
	for (unsigned x = 0; x < n; x++)
		o[x] = out[x];
	for (unsigned i = 0; i < nhave; i++)
		fec_solver_add(&solver, i, data[have[i]], len_of[have[i]], o);
	for (unsigned r = 0; r < n; r++)
		fec_solver_add(&solver, nhave + r, repair[row[r]], LEN_MAX, o);
	for (unsigned x = 0; x < n; x++)
		assert_memory_equal(out[x], data[lost[x]], LEN_MAX);
}

static void fec_code__any_losses_by_any_repairs(void **s)
{
	(void)s;
	for (unsigned round = 0; round < 60; round++) {
		unsigned k = 1 + draw(FEC_PLACES_MAX), m = 1 + draw(FEC_M_MAX), most = m < k ? m : k;

		encode(k, m);
		lose_and_solve(k, m, 1 + draw(most));
		lose_and_solve(k, m, most);
	}
}

static void fec_code__largest_group(void **s)
{
	(void)s;
	encode(FEC_PLACES_MAX, FEC_M_MAX);
	for (unsigned round = 0; round < 20; round++)
		lose_and_solve(FEC_PLACES_MAX, FEC_M_MAX, FEC_M_MAX);
}

/* One place and its repairs: each repair alone brings it back. */
static void fec_code__single_place(void **s)
{
	(void)s;
	encode(1, 4);
	for (unsigned r = 0; r < 10; r++)
		lose_and_solve(1, 4, 1);
}

/* Every pair of rows over every pair of neighbours: no square part is singular. */
static void fec_code__no_pair_is_singular(void **s)
{
	(void)s;
	for (unsigned a = 0; a + 1 < FEC_PLACES_MAX; a++)
		for (unsigned r = 0; r + 1 < FEC_M_MAX; r++) {
			uint8_t lost[2] = {(uint8_t)a, (uint8_t)(a + 1)}, row[2] = {(uint8_t)r, (uint8_t)(r + 1)};

			assert_true(fec_solver_begin(&solver, lost, 2, row, NULL, 0));
		}
}

/* The same row twice is no two repairs. */
static void fec_code__same_row_twice_is_refused(void **s)
{
	uint8_t lost[2] = {0, 1}, row[2] = {3, 3};

	(void)s;
	assert_false(fec_solver_begin(&solver, lost, 2, row, NULL, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(fec_code__any_losses_by_any_repairs),
	    cmocka_unit_test(fec_code__largest_group),
	    cmocka_unit_test(fec_code__single_place),
	    cmocka_unit_test(fec_code__no_pair_is_singular),
	    cmocka_unit_test(fec_code__same_row_twice_is_refused),
	};

	fec_code_init(&code);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
