/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.h - from a seed to a world: every number in it, and nothing else, comes from the seed. */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include "world.h"

#define SCENARIO_CONNS_MAX 96

/* An edge asks again, and gets the ACK that was lost, or came while it was down, in less than that. */
#define LOST_ACK_NS 2000000000ull

struct scenario {
	struct world_cfg cfg;
	struct conn_cfg conn[SCENARIO_CONNS_MAX];
	char text[384]; /* one line about it */
};

void scenario_make(struct scenario *s, uint64_t seed, bool direct);

/* A quiet world of one host per site: what the named runs start from. */
void scenario_plain(struct scenario *s, uint64_t rate_bps, uint64_t one_way_ns, uint16_t pmtu);

/* Hosts behind ports of that rate with a shallow queue, which marks from an eighth of it on; and an edge whose own port
 * is four times as fast. */
void scenario_shallow_ports(struct world_cfg *c, uint64_t rate_bps, uint64_t queue_bytes);

#endif
