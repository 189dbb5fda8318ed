/* SPDX-License-Identifier: Apache-2.0 */
/* link_sum.h - combines the workers' figures about the same link: pure arithmetic. */
#ifndef DAEMON_LINK_SUM_H
#define DAEMON_LINK_SUM_H

#include "proxy/proxy.h"

/* Adds one worker's smoothed round trip, 0: not measured, to *mean_ns, the mean of the *n workers that have measured
 * one. Both begin as 0. */
void link_sum_rtt(uint64_t *mean_ns, uint32_t *n, uint64_t rtt_ns);

/* One worker's view of a path to the others': counts are added; of states, losses and times the worst counts, of the
 * least round trip the least, of the smoothed one the mean. first: sum holds nothing yet. *rtts counts the workers in the
 * mean, and begins as 0. */
void link_sum_path(struct proxy_path_status *sum, const struct proxy_path_status *s, bool first, uint32_t *rtts);

/* One worker's view of the link to the others'; the round trip is left to link_sum_rtt(). */
void link_sum_status(struct proxy_link_status *sum, const struct proxy_link_status *s, bool first);
void link_sum_counters(struct proxy_counters *sum, const struct proxy_counters *c);

#endif
