/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_SCENARIO_READS_H
#define SIM_SCENARIO_READS_H

#include "scenario.h"

/* One scenario in ten, by its seed, becomes one of READs and ATOMICs in trouble. */
void scenario_reads(struct scenario *s);
/* READs larger than the edges' pools. */
void scenario_big_reads(struct scenario *s);

#endif
