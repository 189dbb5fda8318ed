/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h - deliberate bugs, to show that the simulator finds them: FAULT(FAULT_X) is true while X is switched on.
 *
 * FAULT() stands last in its condition: a run that never evaluates a fault is the same with the fault switched on, and
 * the simulator skips that run.
 *
 * Only in builds with -DPROXY_FAULTS (the simulator's): a normal build has no trace of them. */
#ifndef PROXY_FAULT_H
#define PROXY_FAULT_H

#include <stdbool.h>

enum proxy_fault {
#define X(name, rule, what) FAULT_##name,
#include "fault_list.h"
#undef X
	FAULT_COUNT
};

#ifdef PROXY_FAULTS
extern bool proxy_faults[FAULT_COUNT];      /* all false at start */
extern bool proxy_fault_asked[FAULT_COUNT]; /* true once evaluated; the simulator resets them */
#define FAULT(f) (proxy_fault_asked[f] = true, proxy_faults[f])
#else
#define FAULT(f) 0
#endif

#endif
