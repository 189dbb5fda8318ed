/* SPDX-License-Identifier: Apache-2.0 */
/* faults.h - the deliberate bugs of proxy/fault_list.h by name, and how soon the seeds find each. */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include <stdbool.h>

#include "runner.h"

/* False: there is none of that name. */
bool faults_set(const char *name);
void faults_list(void);
/* Each fault alone over the seeds until one fails. Exit code: 1 if a fault is never found. */
int faults_table(const struct run_options *o);

#endif
