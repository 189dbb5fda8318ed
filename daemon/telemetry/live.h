/* SPDX-License-Identifier: Apache-2.0 */
/* live.h - the web page's event of each second: the status of all links and their busiest flows, one line of JSON. */
#ifndef DAEMON_LIVE_H
#define DAEMON_LIVE_H

#include "gather.h"

#define LIVE_FLOWS_MAX  20000u /* of which rates are worked out */
#define LIVE_FLOWS_TOLD 12u
#define LIVE_FLOWS_MANY 2000u /* with more flows, they are requested only every LIVE_FLOWS_EVERY events */
#define LIVE_FLOWS_EVERY 10u

struct evbuffer;

struct live_flow {
	uint64_t key;
	uint64_t bytes;
	double bps; /* negative: not known yet */
	const struct proxy_flow_status *status; /* during live_write() */
	const char *link;
};

/* Zeroed memory. */
struct live {
	struct live_flow *before; /* by key */
	uint32_t nbefore;
	uint64_t before_ns;
	uint64_t turn;
};

/* True if the next live_write() needs the flows, too. */
bool live_wants_flows(const struct live *l);
/* with_flows: as it was asked; now_ns: CLOCK_MONOTONIC, wall_ns: CLOCK_REALTIME. */
void live_write(struct live *l, struct evbuffer *out, const struct gathered *links, uint32_t n, bool with_flows,
                uint64_t now_ns, uint64_t wall_ns);
void live_free(struct live *l);

#endif
