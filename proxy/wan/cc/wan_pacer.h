/* SPDX-License-Identifier: Apache-2.0 */
/* wan_pacer.h - hands out sending time on a path. */
#ifndef PROXY_WAN_PACER_H
#define PROXY_WAN_PACER_H

#define PACER_FRACTION 64 /* of a nanosecond: a datagram lasts 180.8 of them at 400 Gbit/s */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/util/limits.h"
#include "rate.h"

/* One per path, shared by all shards of a link: a virtual clock that hands out sending time, and the rate's
 * controller. */
struct wan_pacer {
	_Atomic uint64_t next;     /* when the line is free again, in 1/PACER_FRACTION ns */
	_Atomic uint64_t rate_bps; /* bits per second on the wire, overhead_bytes included; the controller writes it */
	_Atomic uint64_t behind;   /* time to catch up with, in 1/PACER_FRACTION ns */
	_Atomic uint64_t control_next; /* clock of control, which goes past `next`, at half the rate, in
	                                * 1/PACER_FRACTION ns */
	_Atomic uint64_t reports_next; /* a clock of datagrams without packets, at their part of the rate, ns */
	/* For FEC, the line's load since the start: */
	_Atomic uint64_t data_bytes;  /* frame bytes of datagrams with packets, without headers and overhead */
	_Atomic uint64_t other_bytes; /* line bytes of datagrams without packets; FEC's repairs count in neither */
	uint32_t overhead_bytes;   /* per datagram: UDP, IP and link layer */
	_Atomic uint32_t burst_ns; /* unused time that may be saved up */
	_Atomic uint64_t flows[SHARDS_MAX]; /* of each shard: flows that want sending time, and when it said so
	                                     * (pacer_part.c) */
	struct rate_control control;
};

/* rate_bps: bits per second, not 0. The controller is rate_fixed at first; rate_choose() changes both, at any time. */
void wan_pacer_init(struct wan_pacer *p, uint64_t rate_bps, uint32_t overhead_bytes, uint32_t burst_ns);
/* May be called at any time. */
void wan_pacer_set_burst(struct wan_pacer *p, uint32_t burst_ns);

/* The time at which the line is free again. */
uint64_t wan_pacer_next_ns(struct wan_pacer *p);
/* The time at which to look again: wan_pacer_next_ns(), or a little later than now if the in-flight limit is
 * reached. */
uint64_t wan_pacer_look_ns(struct wan_pacer *p, uint64_t now_ns);
bool wan_pacer_ready(struct wan_pacer *p, uint64_t now_ns);
/* The line time of a datagram of payload_len bytes (overhead_bytes are added), in 1/PACER_FRACTION ns. */
uint64_t wan_pacer_cost(const struct wan_pacer *p, size_t payload_len);
/* Takes the line time of one datagram. */
void wan_pacer_take(struct wan_pacer *p, uint64_t now_ns, size_t payload_len);
/* Like wan_pacer_take(), for a datagram of control, which has not waited for the clock: no more than half of the line's
 * time. */
void wan_pacer_take_past(struct wan_pacer *p, uint64_t now_ns, size_t payload_len);

/* Control has a part of the rate: REPORTS_PART of it, or REPORTS_LEAST_BPS on a line so slow that this is more, but a
 * quarter at most; half of it while no packets wait. Notes that a datagram without packets was sent. */
void wan_pacer_reported(struct wan_pacer *p, uint64_t now_ns, size_t payload_len);
/* The time by which control of all lanes and shards is ahead of its part, at most 150 ms; 0: not by much. Control that
 * has waited for so long may go: so the oldest goes first, and on a slower line each report tells more. */
uint64_t wan_pacer_reports_ahead_ns(struct wan_pacer *p, uint64_t now_ns);

#endif
