/* SPDX-License-Identifier: Apache-2.0 */
/* peer_clock.h - how far the wall clocks of the two edges are apart, and whether this machine's was set while it ran.
 * Certificates begin and end by wall clocks, and logs of two edges are read side by side by them. Pure: both clocks are
 * arguments. */
#ifndef DAEMON_PEER_CLOCK_H
#define DAEMON_PEER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* A late message looks like a clock that is behind: of so many messages the quickest one counts. */
#define PEER_CLOCK_WORDS 8u

struct peer_clock {
	int64_t ahead_ns[PEER_CLOCK_WORDS]; /* the other clock as it was said, less this one when that came */
	uint32_t words;                     /* of this connection */
	bool looked;
	int64_t wall_ahead_ns; /* of the monotonic clock, at the last look */
	uint64_t jumps;
	int64_t jump_ns;     /* the last one; negative: backwards */
	uint64_t jump_at_ns; /* monotonic */
};

/* A new connection: forgets the messages of the older one. */
void peer_clock_begin(struct peer_clock *c);
/* Takes the time that the other edge has sent. */
void peer_clock_take(struct peer_clock *c, int64_t there_ns, int64_t here_ns);
/* False: too few messages yet. ahead_ns: the other edge's clock less this one's, give or take half of the round
 * trip. */
bool peer_clock_ahead(const struct peer_clock *c, uint64_t rtt_ns, int64_t *ahead_ns);

/* Call every second or so. Returns by how much this machine's wall clock was set since the last call; 0: it was not.
 * Slewing by chrony and others is no jump. */
int64_t peer_clock_look(struct peer_clock *c, int64_t wall_ns, uint64_t now_ns);

#endif
