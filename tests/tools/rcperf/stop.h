/* SPDX-License-Identifier: Apache-2.0 */
/* stop.h - requests from outside: to end (SIGINT or SIGTERM), or to end a timed run in good order (SIGUSR1). */
#ifndef RCPERF_STOP_H
#define RCPERF_STOP_H

#include <stdbool.h>

void stop_catch_signals(void);
bool stop_wanted(void);
bool stop_time_is_over(void); /* as if --secs had passed */

#endif
