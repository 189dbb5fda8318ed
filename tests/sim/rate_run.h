/* SPDX-License-Identifier: Apache-2.0 */
/* rate_run.h - how rate controllers share a bottleneck. */
#ifndef SIM_RATE_RUN_H
#define SIM_RATE_RUN_H

/* "list" lists, "all" runs all that is asserted, "others" the same on other lines, which is only printed. trace: NULL,
 * or where a CSV of each flow over time goes. Returns an exit code. */
int rate_run(const char *name, const char *trace);

#endif
