/* SPDX-License-Identifier: Apache-2.0 */
/* fec_slow.h - what FEC=auto is worth, and what it costs, on a line of 400 Mbit/s. */
#ifndef SIM_FEC_SLOW_H
#define SIM_FEC_SLOW_H

#include <stdbool.h>
#include <stddef.h>

#include "world.h"

/* NULL: there are no more. */
const char *fec_slow_name(size_t i);
/* False: it missed what was wanted. */
bool fec_slow_run(struct world *w, size_t i);

#endif
