/* SPDX-License-Identifier: Apache-2.0 */
/* rate_run.h - how rate controllers share a bottleneck. */
#ifndef SIM_RATE_RUN_H
#define SIM_RATE_RUN_H

#include <stdint.h>

/* "list" lists, "all" runs what takes half a minute, "grid" more lines from more seeds (some minutes); "moving" and
 * "beside" the runs of these files; or a spot, as "1g-20ms-4bdp"; or two there, as "auto-cubic-1g-20ms-4bdp". jobs:
 * processes. trace: NULL, or where a CSV of each flow over time goes. Returns an exit code. */
int rate_run(const char *name, uint32_t jobs, const char *trace);

#endif
