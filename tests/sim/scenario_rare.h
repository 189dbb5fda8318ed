/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_SCENARIO_RARE_H
#define SIM_SCENARIO_RARE_H

#include "scenario.h"

/* In some seeds: what has to come together to hurt, and by chance hardly ever does. Says what; "": this is none. */
const char *scenario_rare(struct scenario *s);

#endif
