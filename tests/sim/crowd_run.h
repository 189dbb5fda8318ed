/* SPDX-License-Identifier: Apache-2.0 */
/* crowd_run.h - named runs: many queue pairs over little memory. Returns an exit code. */
#ifndef SIM_CROWD_RUN_H
#define SIM_CROWD_RUN_H

/* "list" lists, "all" runs all; "short" those that are cheap, "grid" those of a table over queue pairs, buffers and
 * rates. */
int crowd_run(const char *name);

#endif
