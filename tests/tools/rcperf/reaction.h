/* SPDX-License-Identifier: Apache-2.0 */
/* reaction.h - what a NIC's queue pair does on congestion notifications: DCQCN's reaction point. Of rcperf and of the
 * simulator's hosts. */
#ifndef RCPERF_REACTION_H
#define RCPERF_REACTION_H

#include <stdbool.h>
#include <stdint.h>

struct reaction {
	double rate_bps, target_bps, alpha; /* rate_bps 0: as fast as the NIC */
	uint32_t steps;                     /* since the last cut */
	uint64_t cut_ns, step_ns;           /* last cut, last step of recovery */
	uint64_t next_ns;                   /* the next packet goes no earlier */
	uint64_t cuts;                      /* CNPs that were obeyed */
};

/* A CNP came. nic_bps: the rate that the NIC recovers to. */
void reaction_cnp(struct reaction *r, double nic_bps, uint64_t now_ns);
/* When the next packet may go; 0: now. */
uint64_t reaction_next_ns(struct reaction *r, double nic_bps, uint64_t now_ns);
/* A packet of so many bytes was sent. */
void reaction_sent(struct reaction *r, uint32_t bytes, uint64_t now_ns);

#endif
