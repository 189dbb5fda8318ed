/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_SCENARIO_LIVES_H
#define SIM_SCENARIO_LIVES_H

#include "scenario.h"

/* One in three of the scenarios that are nothing else yet becomes, by its seed, one of programs that repeat themselves,
 * or of a LAN that is no better than a WAN. Returns what to call it, "" for none. */
const char *scenario_words(struct scenario *s);

#endif
