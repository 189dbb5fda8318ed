/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_SCENARIO_LATE_H
#define SIM_SCENARIO_LATE_H

#include "scenario.h"

/* In some seeds: answers later than an edge's turns and quarantines. Its word for the scenario's text, "" in others. */
const char *scenario_late(struct scenario *s);

#endif
