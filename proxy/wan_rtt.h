/* SPDX-License-Identifier: Apache-2.0 */
/* wan_rtt.h - round trip estimate of a path (RFC 9002 section 5): minimum, smoothed, variation. */
#ifndef PROXY_WAN_RTT_H
#define PROXY_WAN_RTT_H

#include <stdbool.h>
#include <stdint.h>

struct wan_rtt {
	uint64_t min_ns; /* smallest in this window and the one before; 0: not measured yet */
	uint64_t window_min_ns, window_end_ns;
	uint64_t smoothed_ns, var_ns;
	uint64_t latest_ns;
	uint64_t hint_ns; /* stands in until the first measurement */
};

void wan_rtt_init(struct wan_rtt *r, uint64_t hint_ns);

/* One measurement: from sending to hearing of it, less the time that the report waited at the peer. */
void wan_rtt_sample(struct wan_rtt *r, uint64_t now_ns, uint64_t rtt_ns, uint64_t peer_delay_ns);

/* Smoothed, or the hint while nothing is measured. Never 0. */
uint64_t wan_rtt_ns(const struct wan_rtt *r);
uint64_t wan_rtt_min_ns(const struct wan_rtt *r);

/* Probe timeout without backoff: smoothed + 4 x variation + peer's report delay. RFC 9002 6.2.1. */
uint64_t wan_rtt_pto_ns(const struct wan_rtt *r);

#endif
