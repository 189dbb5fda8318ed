/* SPDX-License-Identifier: Apache-2.0 */
/* relay_peer.h - the daemons' side of relay channels, and what must be true of chunks.
 *
 * Beside each edge's core a program takes slots, fills and commits them late, gives some up, executes chunks late and in
 * any order; a crash of its edge takes all that it had in hand. */
#ifndef SIM_RELAY_PEER_H
#define SIM_RELAY_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "rng.h"

struct world;
struct edge_shard;

#define RELAY_PEER_CHANNELS 4
#define RELAY_PEER_HANDS    256 /* slots in hand, of all */

struct relay_record;

/* What one edge has sent on a channel in the life that runs. */
struct relay_stream {
	uint32_t life;
	uint32_t losses; /* arenas lost in this world when the life began */
	uint64_t base, left;
	struct relay_record *rec; /* of position base + i */
	uint64_t n, cap;
	uint64_t fences;   /* position behind the last fence that was handed over */
	uint64_t all_done; /* every committed chunk before is done */
	bool seen;         /* a chunk of this life was handed over */
};

/* A slot that a program has. */
struct relay_hand {
	bool used, executes;
	uint8_t site, shard;
	uint32_t restarts; /* of its edge */
	uint32_t channel, slot, life;
	uint64_t pos;
	uint8_t *data;
	uint16_t len;
};

struct relay_world {
	struct rng rng;
	struct relay_stream stream[2][RELAY_PEER_CHANNELS];
	struct relay_hand hand[RELAY_PEER_HANDS];
	uint32_t losses;
	bool waiting[2];
	uint64_t committed, executed, voided;
	uint64_t bytes; /* of data, of chunks that were executed in bulk */
};

void relay_peer_start(struct world *w);
/* The shard runs: chunks are taken and handed over. */
void relay_peer_run(struct edge_shard *s);
/* An edge stops; lost: with its arena. */
void relay_peer_crash(struct world *w, bool lost);
/* All that was committed is executed. */
void relay_peer_end(struct world *w);
void relay_peer_free(struct world *w);

#endif
