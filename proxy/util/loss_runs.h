/* SPDX-License-Identifier: Apache-2.0 */
/* loss_runs.h - runs of datagrams that a path loses in a row: their number and the longest one.
 *
 * Losses are found in no order: lanes hear of their losses one after another. So each loss is marked at its datagram's
 * place among all datagrams of the path, and runs that grow together are counted as one. */
#ifndef PROXY_LOSS_RUNS_H
#define PROXY_LOSS_RUNS_H

#include <stdint.h>

#define LOSS_RUNS_SPAN 16384 /* places remembered: runs of older ones are over */

struct loss_runs {
	uint64_t bits[LOSS_RUNS_SPAN / 64]; /* lost */
	uint64_t end;                       /* highest place noted + 1, to a multiple of 64 */
	uint64_t lost, runs;                /* ever */
	uint32_t longest;                   /* as far as seen within 64 places either way */
};

void loss_runs_note(struct loss_runs *r, uint64_t place);

#endif
