/* SPDX-License-Identifier: Apache-2.0 */
/* sched_latency.h - a thread that packets wait for runs soon after it woke, on a machine that it shares. */
#ifndef DAEMON_SCHED_LATENCY_H
#define DAEMON_SCHED_LATENCY_H

#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Asks for a weight (nice, -20 to 19), for timers that are not rounded, and for the shortest slice that Linux grants
 * (6.12 and later): the scheduler runs this thread before others that wait, and interrupts longer slices for it.
 * SCHED_FIFO is not used, because the kernel stops such a thread for tens of milliseconds each second if it is busy all
 * the time. Requests that are not permitted are skipped. For the calling thread. */
static inline void sched_low_latency(int nice)
{
	/* as in sched_setattr(2); the kernel's header does not go with <sched.h> */
	const struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t slice_ns, deadline, period;
	} attr = {.size = sizeof(attr), .nice = nice, .slice_ns = 100000};

	prctl(PR_SET_TIMERSLACK, 1ul);
	if (syscall(SYS_sched_setattr, 0, &attr, 0u) < 0)
		setpriority(PRIO_PROCESS, 0, nice);
}

#endif
