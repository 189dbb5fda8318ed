/* SPDX-License-Identifier: Apache-2.0 */
/* fec_plan.h - which groups fit a path: k, m and depth from measured losses. Pure.
 *
 * Theory of operation
 *
 * Sums of numbers, losses and bursts come from the receiver (wan_arrivals.h). They are halved now and then, so that
 * what was long ago fades.
 *
 * Depth follows the mean length of bursts: 4 times it, because their lengths vary (a geometric one of mean 8 is
 * longer than 32 in 1.4 of 100). Then losses of a group are nearly independent, and the share of losses beyond repair
 * is that of a Poisson distribution with mean (k + m) x loss above m. k is as large as the line fills in a quarter of a
 * round trip (a group that takes longer saves little), and m the least that leaves no more than FEC_LEFT of the losses.
 *
 * Hysteresis: more protection at once, less only when the losses were 1.5 times what they are it would still do, and
 * not sooner than FEC_HOLD_NS after the last change; off below half the loss that switches it on. */
#ifndef PROXY_FEC_PLAN_H
#define PROXY_FEC_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "fec_config.h"
#include "limits.h"

#define FEC_LEFT    0.004     /* share of losses that `auto` leaves to repetition */
#define FEC_ON_LOSS 5e-5      /* below half of that a loss in a message of 64 KiB is one in 5,000 */
#define FEC_HOLD_NS 2000000000ull
#define FEC_BURST_UNKNOWN 8 /* mean length of bursts, before one is known: what begins with a loss is not to begin with a stall */

struct fec_measure {
	double numbers, lost, bursts; /* faded sums */
};

/* Growth of the receiver's sums. */
void fec_measure_add(struct fec_measure *m, uint64_t numbers, uint64_t lost, uint64_t bursts);
/* Share of lost datagrams, and mean length of bursts in datagrams, at least 1; FEC_BURST_UNKNOWN while it is not known. */
double fec_measure_loss(const struct fec_measure *m);
double fec_measure_burst(const struct fec_measure *m);

/* Share of losses that groups k + m leave over at that loss rate, bursts spread. */
double fec_left_over(unsigned k, unsigned m, double loss);

/* The line as far as it matters: datagrams that it carries in a quarter of a round trip. */
struct fec_line {
	double quarter_rtt_datagrams;
};

/* The plan for now; *plan holds the one before and *changed_ns when it last changed. */
void fec_plan_update(struct fec_plan *plan, uint64_t *changed_ns, const struct fec_config *c,
                     const struct fec_measure *m, const struct fec_line *line, uint64_t now_ns);

#endif
