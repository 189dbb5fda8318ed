/* SPDX-License-Identifier: Apache-2.0 */
/* relay_rate.h - one put on a channel of the relay, beside what the line carries. */
#ifndef SIM_RELAY_RATE_H
#define SIM_RELAY_RATE_H

/* Runs one by its name, `list` lists them, `all` runs all. 0 if each reached what it must. */
int relay_rate_run(const char *name);

#endif
