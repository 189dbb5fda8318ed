/* SPDX-License-Identifier: Apache-2.0 */
/* fault_table.h - how soon the seeds find each deliberate bug. */
#ifndef SIM_FAULT_TABLE_H
#define SIM_FAULT_TABLE_H

#include "runner.h"

/* Each fault alone over the seeds, in their order, until one fails. Exit code: 1 if a fault is never found. */
int fault_table(const struct run_options *o);

#endif
