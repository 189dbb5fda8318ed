/* SPDX-License-Identifier: Apache-2.0 */
/* faults.h - the deliberate bugs of proxy/fault_list.h by name. */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include <stdbool.h>

#include "proxy/util/fault.h"

/* False: there is none of that name. */
bool faults_set(const char *name);
/* This one, no other; FAULT_COUNT: none at all. */
void faults_only(int fault);
/* Those that are on; off: none from now on. */
struct fault_set {
	bool on[FAULT_COUNT];
};
struct fault_set faults_off(void);
void faults_on(const struct fault_set *set);
/* Exit code: 1 if a fault has neither violations of its own nor a unit test that tells of it. */
int faults_list(void);
/* The violations that a fault is known by, as a list: those of its rule, and what nobody but its rule keeps from
 * happening. What else may go wrong behind it does not tell that the rule is checked. NULL: none. */
const char *faults_shown_by(int fault);
/* A violation, as world.violation has it, is such a one of a fault that is on. */
bool faults_show(const char *violation);
/* The name is valid until the next call. */
const char *faults_name(int fault);
const char *faults_rule(int fault);

#endif
