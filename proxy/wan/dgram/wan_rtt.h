/* SPDX-License-Identifier: Apache-2.0 */
/* wan_rtt.h - round trip estimate of a path (RFC 9002 section 5): minimum, smoothed, variation. */
#ifndef PROXY_WAN_RTT_H
#define PROXY_WAN_RTT_H

#include <stdbool.h>
#include <stdint.h>

#define RTT_BUCKETS 192 /* eight to each power of two from 1 us to 16 s */

struct wan_rtt {
	uint64_t min_ns; /* smallest in this window and the one before; 0: not measured yet */
	uint64_t window_min_ns, window_end_ns;
	uint64_t smoothed_ns, var_ns;
	uint64_t latest_ns, at_ns; /* the last measurement; when that was, 0: never */
	uint64_t hint_ns; /* stands in until the first measurement */
	uint32_t bucket[RTT_BUCKETS], samples; /* all are halved now and then: the recent distribution */
};

void wan_rtt_init(struct wan_rtt *r, uint64_t hint_ns);

/* One measurement: from sending a datagram to its report; the time that the report waited at the peer is subtracted. */
void wan_rtt_sample(struct wan_rtt *r, uint64_t now_ns, uint64_t rtt_ns, uint64_t peer_delay_ns);

/* A report that waited longer than that at the peer measures the two clocks rather than the path. */
bool wan_rtt_delay_counts(uint64_t peer_delay_ns);

/* The smoothed round trip, or the hint while nothing is measured. Never 0. */
static inline uint64_t wan_rtt_ns(const struct wan_rtt *r)
{
	return r->smoothed_ns ? r->smoothed_ns : r->hint_ns;
}

/* The least round trip that was measured, or the hint. */
static inline uint64_t wan_rtt_min_ns(const struct wan_rtt *r)
{
	return r->min_ns ? r->min_ns : r->hint_ns;
}

/* Probe timeout without backoff: smoothed + 4 x variation + peer's report delay. RFC 9002 6.2.1. */
uint64_t wan_rtt_pto_ns(const struct wan_rtt *r);

/* The round trip that so many of a thousand measurements stayed below, ns, to an eighth; 0: nothing is measured. */
uint64_t wan_rtt_quantile_ns(const struct wan_rtt *r, uint32_t permille);

/* Called when the path's route has changed: the measurements so far are only a hint. */
void wan_rtt_again(struct wan_rtt *r);

#endif
