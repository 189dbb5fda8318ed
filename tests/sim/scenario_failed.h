/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_SCENARIO_FAILED_H
#define SIM_SCENARIO_FAILED_H

#include "scenario.h"

/* In some seeds: queue pairs that failed are used again. Its word for the scenario's text, "" in others. */
const char *scenario_failed(struct scenario *s);

#endif
