/* SPDX-License-Identifier: Apache-2.0 */
/* wan_ecn.h - marks on the WAN's datagrams (ECN, RFC 3168): who may ask for them, whether a path keeps them, how many
 * came.
 *
 * Theory of operation
 *
 * A path whose controller obeys marks sends ECT(0). The peer counts, per packet number space, what came as ECT(0) and
 * as CE, and says so in each REPORT, modulo 2^24. What it counts must keep up with what it says to have (RFC
 * 9000 13.4.2): after each ECN_TRIAL datagrams less than half of them means that the path, or an edge that knows
 * nothing of this, bleaches or changes the field; and a first trial that came back marked to the last one, that
 * something marks everything. Then that path sends without, until the next session. Half, because numbers that FEC made
 * up for are said to be there and were never counted. */
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
	uint32_t acked, counted, marked; /* in this trial: said to be there; came as ECT(0) or CE; of these as CE */
};

/* Of a packet number space: what was counted, as told or last heard. */
struct wan_ecn_counts {
	uint32_t ect0, ce;
};

/* A session begins. */
void wan_ecn_restart(struct wan_ecn *e);
/* To be asked for each datagram: is it sent as ECT(0)? obeyed: the controller obeys marks. */
bool wan_ecn_sends(struct wan_ecn *e, uint64_t now_ns, bool obeyed);
/* A datagram came with that ECN field. */
void wan_ecn_came(struct wan_ecn_counts *c, uint8_t ecn);
/* A report tells of `told`, after `heard`, and of `acked` datagrams sent since since_ns that are there now. How many
 * marks are to be obeyed. */
uint32_t wan_ecn_told(struct wan_ecn *e, struct wan_ecn_counts *heard, struct wan_ecn_counts told, uint32_t acked);

#endif
