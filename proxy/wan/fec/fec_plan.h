/* SPDX-License-Identifier: Apache-2.0 */
/* fec_plan.h - the plan of the groups on a path: k, m and depth from its losses and its spare rate. Pure functions.
 *
 * Theory of operation
 *
 * Sums of numbers, losses and bursts come from the receiver (wan_arrivals.h). These sums are halved now and then, so
 * that old losses fade.
 *
 * Bursts whose lengths are geometric with mean B hit a group of k + m numbers, of which every depth-th is its own, in
 * batches: their number is Poisson, and a batch goes on with probability q = (1 - 1/B)^depth. The sum is a geometric
 * Poisson (Polya-Aeppli) distribution, whose terms follow from the two before; they give the share of losses that
 * groups leave over. With random losses q is nearly 0, and the distribution is Poisson's.
 *
 * A block of k x depth has to fill in 1/FEC_BLOCK_PART of a round trip: that is how long a message waits for its
 * repairs. So k and depth compete for the same numbers, and their worth depends on the line: all pairs are tried.
 *
 *   few       A flow is in order: one datagram that FEC cannot rebuild holds the flow up for a round trip, with all its
 *             messages of that time. To keep the 99.9th percentile of their latency, FEC_LEFT_FEW of the losses may be
 *             left; more, if a round trip holds so few datagrams that less than FEC_LEFT_RTT of them are left even so.
 *             The cheapest such code is taken, if the line has room for it beside its load.
 *   fewest    else, the code that leaves fewest losses within the line's room; none if it is worth little.
 *   full      A line that is full has no room: each repair takes the place of a datagram, and repetition, which costs
 *             the losses and no more, is always cheaper. But often a line is full only for a moment, with packets that
 *             a loss had held up. So if load is known well (a fast line), the plan goes down in steps to the cheapest
 *             code that leaves no more than FEC_LEFT_MOST, stays there for some looks, and then goes to none. On a slow
 *             line, where a look takes a twentieth of a second and small groups cost a tenth, the plan goes to none at
 *             once.
 *
 * Unknown lines. On a line that has lost nothing each repair only costs: with small messages far apart a block closes
 * with each message, and repairs against a loss of 0.1 % that never came were 41 % of all bytes on a line. So there are
 * no repairs before the first loss, and the first lost datagrams are sent again. From then on a line is assumed to lose
 * one of 1,000 datagrams, and this guess fades as datagrams are counted: after 100,000 without another loss the line
 * has no FEC again. A loss that the sender has found counts unless the datagram turns out to be only late. Waiting for
 * more losses instead (8 of them tell 0.1 % from 0.01 %) took 3 s at 400 Mbit/s and 0.1 %, and 30 s at 0.01 %, and each
 * hurt the 99.9th percentile of messages of 64 KiB. Bursts are guessed too, but only if a block is long enough for some
 * depth: on a slow line depth would cost more than it saves.
 *
 * If a round trip holds only a few datagrams (a slow line to a near site), repetition is as quick, and hosts that wait
 * for each message would pay for the repairs: such a line has no FEC. FEC ends as soon as the line is found to be like
 * that.
 *
 * A plan is kept while it protects as well as the best one and costs less than KEEP_COST times as much. More protection
 * comes at once; less protection comes at once if the line lacks room, otherwise FEC_HOLD_NS after the last change at
 * the soonest. FEC ends below half of the loss that switches it on. */
#ifndef PROXY_FEC_PLAN_H
#define PROXY_FEC_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "fec_config.h"
#include "proxy/util/limits.h"

#define FEC_LEFT_FEW  2e-5 /* share of losses that FEC=auto may leave, if the line has room */
#define FEC_LEFT_MOST 4e-3 /* largest share of losses that FEC=auto may leave */
#define FEC_LEFT_RTT  5e-4 /* datagrams that FEC=auto may leave lost, of those of a round trip */
#define FEC_ON_LOSS 2e-5      /* below half of that a loss in a message of 64 KiB is one in 10,000 */
#define FEC_HOLD_NS 2000000000ull
#define FEC_BURST_UNKNOWN 8 /* assumed mean length of bursts before one is known: a first burst does not stall flows */
#define FEC_BLOCK_PART 14 /* a block has 1/14 of a round trip to fill */
#define FEC_HOLD_PART  12 /* a block is closed after 1/12: 6/7 of the line's rate fills it */
#define FEC_REPAIRS_PART 5 /* a block may have repairs for 1/5 of a round trip's datagrams, and two in any case */
#define FEC_SLACK     0.001 /* least uncertainty of a load */

struct fec_measure {
	double numbers, lost, bursts; /* faded sums */
	uint64_t found; /* datagrams of this session that the sender has found lost, without the spurious ones: known
	                   before the receiver tells */
};

/* Adds the growth of the receiver's sums. */
void fec_measure_add(struct fec_measure *m, uint64_t numbers, uint64_t lost, uint64_t bursts);
/* Share of lost datagrams, and mean length of bursts in datagrams, at least 1; FEC_BURST_UNKNOWN while it is not
 * known. */
double fec_measure_loss(const struct fec_measure *m);
/* Share of lost datagrams to expect of a line while little is known: 0 before its first loss. */
double fec_measure_expected(const struct fec_measure *m);
double fec_measure_burst(const struct fec_measure *m);

/* Share of losses that such groups leave over. */
double fec_left_over(const struct fec_plan *plan, double loss, double burst);

/* Properties of the line on which a plan depends. */
struct fec_line {
	double block_datagrams; /* datagrams that a lane sends while a block fills */
	double rtt_datagrams;   /* datagrams that the line carries in a round trip */
	double load;            /* share of the line's time that all but repairs takes */
	double slack;           /* possible error of load; FEC_SLACK at least */
	unsigned full;          /* looks in a row that found all of the line's time taken, repairs included */
};

/* Shares of a line's time. fec_load_most(): the share that a plan may give to data and repairs. fec_load_full(): the
 * share from which on no time was left. */
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
