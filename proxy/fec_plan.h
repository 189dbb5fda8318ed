/* SPDX-License-Identifier: Apache-2.0 */
/* fec_plan.h - which groups fit a path: k, m and depth from what it loses and what it has to spare. Pure.
 *
 * Theory of operation
 *
 * Sums of numbers, losses and bursts come from the receiver (wan_arrivals.h). They are halved now and then, so that
 * what was long ago fades.
 *
 * Bursts whose lengths are geometric with mean B hit a group of k + m numbers, of which every depth-th is its own, in
 * batches: their number is Poisson, and a batch goes on with probability q = (1 - 1/B)^depth. The sum is a geometric
 * Poisson (Polya-Aeppli) distribution, whose terms follow from the two before; from them comes the share of losses
 * that groups leave over. At random losses q is nearly 0, and it is Poisson's.
 *
 * A block of k x depth has to fill in FEC_BLOCK_PART of a round trip: a message waits for its repairs so long. So k and
 * depth compete for the same numbers, and which is worth more depends on the line: all pairs are tried.
 *
 *   few       A flow is in order: one datagram that nothing makes up for holds it up for a round trip, with all its
 *             messages of that time. To keep the 99.9th percentile of their latency, FEC_LEFT_FEW of the losses may be
 *             left. The cheapest code that does it is taken, if the line has room for it beside what it carries.
 *   fewest    else, the code that leaves fewest over in the room that there is;
 *   most      but no more than FEC_LEFT_MOST, whatever the line carries: the cheapest such code on a full line, where
 *             each repair takes the place of a datagram, if it costs no more than ten times the losses. Else what can
 *             be had for that; none if it is worth little.
 *
 * A plan is kept while it does what the best one does and costs less than KEEP_COST times that. More protection comes
 * at once, and so does less where the line is short, in steps as it nears the least that does; else less comes
 * FEC_HOLD_NS after the last change at the soonest, and none below half of the loss that switches FEC on. */
#ifndef PROXY_FEC_PLAN_H
#define PROXY_FEC_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "fec_config.h"
#include "limits.h"

#define FEC_LEFT_FEW  2e-5 /* shares of losses that `auto` leaves to repetition: if the line has room, ... */
#define FEC_LEFT_MOST 4e-3 /* ... and at any load */
#define FEC_ON_LOSS 5e-5      /* below half of that a loss in a message of 64 KiB is one in 5,000 */
#define FEC_HOLD_NS 2000000000ull
#define FEC_BURST_UNKNOWN 8 /* mean length of bursts before one is known: no stall for what begins with a loss */
#define FEC_BLOCK_PART 14 /* a block has this part of a round trip to fill, ... */
#define FEC_HOLD_PART  12 /* ... and is closed after this part: it may take all of the line, at 6/7 of its rate */
#define FEC_LOAD_MOST 0.9988 /* of a line's time, that data and repairs together may be planned to take, ... */
#define FEC_LOAD_FULL 0.9994 /* ... and from where on nothing was left of it */

struct fec_measure {
	double numbers, lost, bursts; /* faded sums */
};

/* Growth of the receiver's sums. */
void fec_measure_add(struct fec_measure *m, uint64_t numbers, uint64_t lost, uint64_t bursts);
/* Share of lost datagrams, and mean length of bursts in datagrams, at least 1; FEC_BURST_UNKNOWN while it is not
 * known. */
double fec_measure_loss(const struct fec_measure *m);
double fec_measure_burst(const struct fec_measure *m);

/* Share of losses that such groups leave over. */
double fec_left_over(const struct fec_plan *plan, double loss, double burst);

/* The line as far as it matters. */
struct fec_line {
	double block_datagrams; /* that a lane sends while a block fills */
	double load;            /* share of the line's time that all but repairs takes */
	bool full;              /* with repairs, it takes all of it */
};

/* The plan for now; *plan holds the one before and *changed_ns when it last changed. */
void fec_plan_update(struct fec_plan *plan, uint64_t *changed_ns, const struct fec_config *c,
                     const struct fec_measure *m, const struct fec_line *line, uint64_t now_ns);

#endif
