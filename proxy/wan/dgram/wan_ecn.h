/* SPDX-License-Identifier: Apache-2.0 */
/* wan_ecn.h - marks on the WAN's datagrams (ECN, RFC 3168): which datagrams are sent as ECT(0), whether a path keeps
 * the field, how many marks came.
 *
 * Theory of operation
 *
 * A path whose controller obeys marks sends ECT(0). The peer counts, per packet number space, the datagrams that came
 * as ECT(0) and as CE, and tells both sums in each REPORT, modulo 2^24. These sums must keep up with the datagrams that
 * the peer reports as received (RFC 9000 13.4.2). If after ECN_TRIAL datagrams less than half of them were counted, the
 * path bleaches or changes the field, or the other edge does not know ECN. If all datagrams of the first trial came
 * back marked, something marks every datagram. In both cases the path sends without ECT(0) until the next session. The
 * bound is half, because numbers that FEC made up for are reported as received and were never counted. */
#ifndef PROXY_WAN_ECN_H
#define PROXY_WAN_ECN_H

#include <stdbool.h>
#include <stdint.h>

#define ECN_TRIAL      256u
#define ECN_COUNT_MASK 0xffffffu

enum ecn_state { ECN_UNUSED, ECN_TRYING, ECN_USED, ECN_FAILED };

/* "unused", "trying", "used", "failed" */
const char *ecn_state_name(enum ecn_state s);

/* Of a path. */
struct wan_ecn {
	enum ecn_state state;
	uint64_t since_ns;               /* ECT(0) is sent */
	uint32_t acked, counted, marked; /* in this trial: datagrams reported as received; counted as ECT(0) or CE; of
	                                  * these, as CE */
};

/* Sums of a packet number space: as this edge counts them, or as last heard from the peer. */
struct wan_ecn_counts {
	uint32_t ect0, ce;
};

/* Called when a session begins. */
void wan_ecn_restart(struct wan_ecn *e);
/* True if the next datagram is sent as ECT(0). Called once for each datagram. obeyed: the controller obeys marks. */
bool wan_ecn_sends(struct wan_ecn *e, uint64_t now_ns, bool obeyed);
/* Counts a datagram that came with that ECN field. */
void wan_ecn_came(struct wan_ecn_counts *c, uint8_t ecn);
/* Takes the sums `told` of a report; the report before told `heard`; `acked` datagrams sent since since_ns are now
 * received. Returns the number of marks to be obeyed. */
uint32_t wan_ecn_told(struct wan_ecn *e, struct wan_ecn_counts *heard, struct wan_ecn_counts told, uint32_t acked);

#endif
