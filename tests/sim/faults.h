/* SPDX-License-Identifier: Apache-2.0 */
/* faults.h - the deliberate bugs of proxy/fault_list.h by name. */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include <stdbool.h>

/* False: there is none of that name. */
bool faults_set(const char *name);
/* This one, no other; FAULT_COUNT: none at all. */
void faults_only(int fault);
void faults_list(void);
/* The name is valid until the next call. */
const char *faults_name(int fault);
const char *faults_rule(int fault);

#endif
