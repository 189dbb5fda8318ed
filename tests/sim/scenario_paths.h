/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_paths.h - several paths between the edges. */
#ifndef SIM_SCENARIO_PATHS_H
#define SIM_SCENARIO_PATHS_H

#include "scenario.h"

/* Gives some of the seeds further paths, which differ from the first, and lets some of them die and come back. Draws from
 * a generator of its own. Returns what to say of it: "" if there is one path. */
const char *scenario_paths(struct scenario *s, uint64_t seed);

#endif
