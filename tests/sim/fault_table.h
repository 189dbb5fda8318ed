/* SPDX-License-Identifier: Apache-2.0 */
/* fault_table.h - how soon the seeds find each deliberate bug. */
#ifndef SIM_FAULT_TABLE_H
#define SIM_FAULT_TABLE_H

#include "runner.h"

/* The unit test that tells of a fault which no seed shows; NULL: seeds show it. */
const char *fault_table_unit_test(int fault);
/* Each fault alone over the seeds, in their order, until one fails as the fault
 * must (faults_shown_by). Exit code: 1 if a fault is never found. */
int fault_table(const struct run_options *o);

#endif
