/* SPDX-License-Identifier: Apache-2.0 */
/* wan_arrivals.h - datagrams that came by themselves, and datagrams that FEC rebuilt: the losses of a line.
 *
 * The receiver sees the losses of a line best: it counts each word of 64 numbers once, ARRIVALS_LAG numbers later, so
 * that reordering does not count as loss. The sums go to the sender in ARRIVALS frames; a lost frame costs nothing,
 * because the sums are cumulative. */
#ifndef PROXY_WAN_ARRIVALS_H
#define PROXY_WAN_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>

#include "wan_frame.h"

#define ARRIVALS_WORDS   32 /* 2048 numbers */
#define ARRIVALS_LAG     1024
#define ARRIVALS_TOLD    12  /* how often a number is told: a burst of losses can take several frames */
#define ARRIVALS_REBUILT 256 /* more than are rebuilt between ARRIVALS_TOLD frames */

struct wan_arrivals {
	uint64_t came[ARRIVALS_WORDS]; /* bitmap of the latest numbers: came by themselves */
	uint64_t next;                 /* highest + 1 */
	uint64_t done;                 /* numbers below are counted; multiple of 64 */
	bool last_lost;                /* the number before `done` was lost */
	struct wan_arrivals_frame sum;
	uint64_t told_numbers; /* sum.numbers when it was last told */
	/* numbers that FEC rebuilt */
	uint64_t rebuilt[ARRIVALS_REBUILT];
	uint64_t nrebuilt; /* ever */
	uint64_t ended[ARRIVALS_TOLD]; /* nrebuilt at the last frames, oldest first */
};

/* Notes that number pn came by itself. */
void wan_arrivals_note(struct wan_arrivals *a, uint64_t pn);
/* Notes that number pn was rebuilt. */
void wan_arrivals_rebuilt(struct wan_arrivals *a, uint64_t pn);
/* Takes the numbers for the next REBUILT frame. Returns how many there are, at most `max`. */
uint32_t wan_arrivals_tell_rebuilt(struct wan_arrivals *a, uint64_t *numbers, uint32_t max);
/* True if there is something new to tell in an ARRIVALS frame. */
bool wan_arrivals_due(const struct wan_arrivals *a);

#endif
