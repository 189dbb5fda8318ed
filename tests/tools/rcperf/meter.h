/* SPDX-License-Identifier: Apache-2.0 */
/* meter.h - goodput between two completions: the last one of the warm-up and the last one of the run. */
#ifndef RCPERF_METER_H
#define RCPERF_METER_H

#include <stdint.h>

struct meter {
	/* the warm-up lasts until both are passed */
	uint64_t warm_ns, warm_msgs;
	uint64_t end_ns; /* later completions do not count: the tail of a timed run is not full */
	uint64_t msgs, bytes;
	uint64_t first_ns, first_bytes, first_msgs;
	uint64_t last_ns, last_bytes, last_msgs;
};

/* A run of run_ns, or of so many messages if run_ns is 0, that starts now. */
void meter_start(struct meter *m, uint64_t now_ns, uint64_t run_ns, uint64_t msgs, double warmup);
void meter_add(struct meter *m, uint64_t now_ns, uint64_t bytes);
double meter_gbps(const struct meter *m);
double meter_msgs_per_s(const struct meter *m);

#endif
