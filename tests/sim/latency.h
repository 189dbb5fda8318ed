/* SPDX-License-Identifier: Apache-2.0 */
/* latency.h - how long messages took from posting to being executed at the other host, or until the sender knew it: a
 * histogram with steps of 1/64 of the value. */
#ifndef SIM_LATENCY_H
#define SIM_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#define LATENCY_CELLS  (64 * 64)
#define LATENCY_SLICES 256

struct latency {
	uint64_t n;
	bool completed; /* until the sender knows, and of connection `conn` alone */
	uint32_t conn;
	uint64_t from_ns; /* messages that were posted earlier are left out */
	uint32_t cell[LATENCY_CELLS];
	/* When those were posted that took longer than late_ns: how many in each slice of time, from from_ns on. 0: not
	 * asked */
	uint64_t late_ns, slice_ns;
	uint32_t late[LATENCY_SLICES];
};

void latency_note(struct latency *l, uint64_t posted_ns, uint64_t now_ns);
/* The value that a share q of the messages stayed at or below, at most 1/64 too high. 0: there are none. */
uint64_t latency_quantile_ns(const struct latency *l, double q);

#endif
