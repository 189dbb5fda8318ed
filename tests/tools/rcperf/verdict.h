/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.h - the last lines of a session. */
#ifndef RCPERF_VERDICT_H
#define RCPERF_VERDICT_H

#include "session.h"

/* Compares, exchanges counts, prints. Returns the exit status: 0 everything right, 1 not. */
int verdict_reach(struct session *s);

#endif
