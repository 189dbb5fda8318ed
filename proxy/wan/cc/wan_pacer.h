/* SPDX-License-Identifier: Apache-2.0 */
/* wan_pacer.h - hands out sending time on a path. */
#ifndef PROXY_WAN_PACER_H
#define PROXY_WAN_PACER_H

#define PACER_FRACTION 64 /* of a nanosecond: a datagram lasts 180.8 of them at 400 Gbit/s */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rate.h"

/* One per path, shared by all shards of a link: a virtual clock that hands out sending time, and who sets its rate. */
struct wan_pacer {
	_Atomic uint64_t next;     /* when the line is free again, in 1/PACER_FRACTION ns */
	_Atomic uint64_t rate_bps; /* bits per second, on the wire as counted by overhead_bytes. Of the controller */
	_Atomic uint64_t behind;   /* time to catch up with, in 1/PACER_FRACTION ns */
	_Atomic uint64_t control_next; /* a clock of what goes past `next`, at half the rate, in 1/PACER_FRACTION ns */
	_Atomic uint64_t reports_next; /* a clock of datagrams without packets, at their part of the rate, ns */
	/* What FEC has to know of the line's load, ever: */
	_Atomic uint64_t data_bytes;  /* in datagrams with packets, without what is around */
	_Atomic uint64_t other_bytes; /* of the line, for datagrams without; FEC's repairs are neither */
	uint32_t overhead_bytes;   /* per datagram: UDP, IP and link layer */
	_Atomic uint32_t burst_ns; /* unused time that may be saved up */
	struct rate_control control;
};

/* rate_bps: bits per second, not 0. Controlled by rate_fixed; rate_choose() changes both, at any time. */
void wan_pacer_init(struct wan_pacer *p, uint64_t rate_bps, uint32_t overhead_bytes, uint32_t burst_ns);
/* At any time. */
void wan_pacer_set_burst(struct wan_pacer *p, uint32_t burst_ns);

/* When the line is free again. */
uint64_t wan_pacer_next_ns(struct wan_pacer *p);
/* When to look again: that, or a little later if as much is in flight as may be. */
uint64_t wan_pacer_look_ns(struct wan_pacer *p, uint64_t now_ns);
bool wan_pacer_ready(struct wan_pacer *p, uint64_t now_ns);
/* Takes line time for one datagram of payload_len bytes (overhead_bytes are added). */
void wan_pacer_take(struct wan_pacer *p, uint64_t now_ns, size_t payload_len);
/* The same for a datagram of control, which has not waited for it: no more than half of the line's time. */
void wan_pacer_take_past(struct wan_pacer *p, uint64_t now_ns, size_t payload_len);

/* Control has a part of the rate: REPORTS_PART of it, or REPORTS_LEAST_BPS on a line so slow that this is more, but a
 * quarter at most; half of it while no packets wait. A datagram without packets has gone: */
void wan_pacer_reported(struct wan_pacer *p, uint64_t now_ns, size_t payload_len);
/* How far control of all lanes and shards is ahead of its part, at most 150 ms; 0: not by much. What has waited for so
 * long may go: so the oldest goes first, and the thinner the line, the more is told in one. */
uint64_t wan_pacer_reports_ahead_ns(struct wan_pacer *p, uint64_t now_ns);

#endif
