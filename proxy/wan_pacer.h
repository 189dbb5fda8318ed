/* SPDX-License-Identifier: Apache-2.0 */
/* wan_pacer.h - hands out sending time on a path (struct wan_pacer is in proxy.h). */
#ifndef PROXY_WAN_PACER_H
#define PROXY_WAN_PACER_H

#define PACER_FRACTION 64 /* of a nanosecond: a datagram lasts 180.8 of them at 400 Gbit/s */

#include "proxy.h"

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
/* How far control of all lanes and shards is ahead of its part, ns; 0: not by much. What has waited for so long may
 * go: so the oldest goes first, and the thinner the line, the more is told in one. */
uint64_t wan_pacer_reports_ahead_ns(struct wan_pacer *p, uint64_t now_ns);

#endif
