/* SPDX-License-Identifier: Apache-2.0 */
/* stop.h - a request from outside to end: SIGINT or SIGTERM. */
#ifndef RCPERF_STOP_H
#define RCPERF_STOP_H

#include <stdbool.h>

void stop_catch_signals(void);
bool stop_wanted(void);

#endif
