/* SPDX-License-Identifier: Apache-2.0 */
/* link_sum.h - what the workers of a link say of the same thing, made one: pure arithmetic. */
#ifndef DAEMON_LINK_SUM_H
#define DAEMON_LINK_SUM_H

#include "proxy/proxy.h"

/* One worker's smoothed round trip, 0: it has measured none. *mean_ns is the mean of the *n workers before it that have
 * measured one, and of itself afterwards. Both begin as 0. */
void link_sum_rtt(uint64_t *mean_ns, uint32_t *n, uint64_t rtt_ns);

/* One worker's view of a path to the others': counts are added; of states, losses and times the worst counts, of the
 * least round trip the least, of the smoothed one the mean. first: sum holds nothing yet. *rtts counts the workers in the
 * mean, and begins as 0. */
void link_sum_path(struct proxy_path_status *sum, const struct proxy_path_status *s, bool first, uint32_t *rtts);

#endif
