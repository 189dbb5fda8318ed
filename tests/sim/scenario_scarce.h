/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_scarce.h - little memory, tables that are full, and edges that restart meanwhile: one seed in twenty. */
#ifndef TESTS_SIM_SCENARIO_SCARCE_H
#define TESTS_SIM_SCENARIO_SCARCE_H

#include "scenario.h"

/* Turns the scenario into such a world, if it is this seed's turn. Its own stream of random numbers: other seeds stay
 * what they are. Returns what to add to the scenario's text. */
const char *scenario_scarce(struct scenario *s);

#endif
