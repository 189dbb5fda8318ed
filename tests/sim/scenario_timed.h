/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_SCENARIO_TIMED_H
#define SIM_SCENARIO_TIMED_H

#include "scenario.h"

/* In some seeds: a world of which it is known how soon all must be done, or how much each must have got. Says which;
 * "": this is none, and stays what it is. */
const char *scenario_timed(struct scenario *s);

#endif
