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
 *             left; more, where a round trip holds so few datagrams that fewer than FEC_LEFT_RTT of them are left even
 *             so. The cheapest code that does it is taken, if the line has room for it beside what it carries.
 *   fewest    else, the code that leaves fewest over in the room that there is; none if it is worth little.
 *   full      A line that is full has no room: each repair takes the place of a datagram, and repetition, which costs
 *             the losses and no more, is always cheaper. But often it is full for a moment, and what fills it is what
 *             a loss held up. So where load is known well (a fast line) it goes down in steps to the cheapest code
 *             that leaves no more than FEC_LEFT_MOST, stays there for some looks, and then goes down to none. On a slow
 *             line, where a look is a twentieth of a second and small groups cost a tenth, it has none at once.
 *
 * What is not known. On a line that has lost nothing each repair is a cost and nothing else: where messages are small
 * and far apart a block closes with each of them, and repairs against a loss of 0.1 % that never came were 41 % of all
 * that a line carried. So before the first loss there are none, and what is lost first is sent again. From then on a line
 * is taken to lose one of 1,000 datagrams, and this guess fades as they are counted: from 100,000 without another loss
 * on it has no FEC again. To wait for more losses instead (8 of them tell 0.1 % from 0.01 %) took 3 s at 400 Mbit/s and
 * 0.1 %, and 30 s at 0.01 %, which each hurt the 99.9th percentile of messages of 64 KiB. Bursts are guessed too, but
 * only where a block is long enough for some depth: on a slow line that would cost more than it mends.
 *
 * Where a round trip holds only a few datagrams (a slow line to a near site) repetition is as quick, and hosts that wait
 * for each message would pay for the repairs: no FEC there. It ends as soon as the line is found to be like that.
 *
 * A plan is kept while it does what the best one does and costs less than KEEP_COST times that. More protection comes
 * at once, and so does less where the line is short; else less comes FEC_HOLD_NS after the last change at the soonest,
 * and none below half of the loss that switches FEC on. */
#ifndef PROXY_FEC_PLAN_H
#define PROXY_FEC_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "fec_config.h"
#include "limits.h"

#define FEC_LEFT_FEW  2e-5 /* shares of losses that `auto` leaves to repetition, if there is room: between this ... */
#define FEC_LEFT_MOST 4e-3 /* ... and that, ... */
#define FEC_LEFT_RTT  5e-4 /* ... so many of a round trip's datagrams */
#define FEC_ON_LOSS 2e-5      /* below half of that a loss in a message of 64 KiB is one in 10,000 */
#define FEC_HOLD_NS 2000000000ull
#define FEC_BURST_UNKNOWN 8 /* mean length of bursts before one is known: no stall for what begins with a loss */
#define FEC_BLOCK_PART 14 /* a block has this part of a round trip to fill, ... */
#define FEC_HOLD_PART  12 /* ... and is closed after this part: it may take all of the line, at 6/7 of its rate */
#define FEC_REPAIRS_PART 5 /* of a round trip's datagrams: so many repairs a block may have, and two in any case */
#define FEC_SLACK     0.001 /* how sure a load can be, at best */

struct fec_measure {
	double numbers, lost, bursts; /* faded sums */
	bool found; /* the sender has found a loss by itself: before the receiver has told */
};

/* Growth of the receiver's sums. */
void fec_measure_add(struct fec_measure *m, uint64_t numbers, uint64_t lost, uint64_t bursts);
/* Share of lost datagrams, and mean length of bursts in datagrams, at least 1; FEC_BURST_UNKNOWN while it is not
 * known. */
double fec_measure_loss(const struct fec_measure *m);
/* Share that has to be expected of a line of which no more is known: none before its first loss. */
double fec_measure_expected(const struct fec_measure *m);
double fec_measure_burst(const struct fec_measure *m);

/* Share of losses that such groups leave over. */
double fec_left_over(const struct fec_plan *plan, double loss, double burst);

/* The line as far as it matters. */
struct fec_line {
	double block_datagrams; /* that a lane sends while a block fills */
	double rtt_datagrams;   /* that the line carries in a round trip */
	double load;            /* share of the line's time that all but repairs takes ... */
	double slack;           /* ... and how far that may be off; FEC_SLACK at least */
	unsigned full;          /* with repairs it took all of the time, when it was looked at so many times in a row */
};

/* Shares of a line's time: what data and repairs may be planned to take, and from where on nothing was left. */
static inline double fec_load_most(const struct fec_line *line)
{
	return 1 - 1.2 * line->slack;
}

static inline double fec_load_full(double slack)
{
	return 1 - 0.6 * slack;
}

/* The plan for now; *plan holds the one before and *changed_ns when it last changed. */
void fec_plan_update(struct fec_plan *plan, uint64_t *changed_ns, const struct fec_config *c,
                     const struct fec_measure *m, const struct fec_line *line, uint64_t now_ns);

#endif
