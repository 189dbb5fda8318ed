/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h - deliberate bugs, to show that the simulator finds them.
 *
 * Only in builds with -DPROXY_FAULTS (the simulator's): a normal build has no trace of them. */
#ifndef PROXY_FAULT_H
#define PROXY_FAULT_H

enum proxy_fault {
	FAULT_ACK_TOO_FAR = 1 << 0,       /* an ACK one PSN beyond the ceiling */
	FAULT_DROP_SLOT = 1 << 1,         /* a committed slot vanishes now and then */
	FAULT_WRONG_MSN = 1 << 2,         /* MSN one too high */
	FAULT_MISPAIR = 1 << 3,           /* a probe's answer is given to another flow */
	FAULT_STALE_INCARNATION = 1 << 4, /* incarnations are not told apart */
	FAULT_UNPAIRED_UNBOUNDED = 1 << 5, /* flows without a pair may fill the table */
	FAULT_STRANGER_BELIEVED = 1 << 6,  /* a packet unlike the one that was there is a new life at once */
};

#ifdef PROXY_FAULTS
extern unsigned proxy_faults; /* mask of enum proxy_fault; 0 at start */
#define FAULT(f) ((proxy_faults & (f)) != 0)
#else
#define FAULT(f) 0
#endif

#endif
