/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_SCENARIO_REFUSALS_H
#define SIM_SCENARIO_REFUSALS_H

#include "scenario.h"

/* One scenario in ten, by its seed, becomes one of responders that refuse, or are gone. */
void scenario_refusals(struct scenario *s);

#endif
