/* SPDX-License-Identifier: Apache-2.0 */
/* peer_clock.c - the least delayed of the last messages tells how far two wall clocks are apart; a wall clock that
 * jumps against the monotonic one was set. */
#include "peer_clock.h"

#define WORDS_LEAST 2u
#define JUMP_NS     500000000ll /* slewing takes a quarter of an hour for it */

void peer_clock_begin(struct peer_clock *c)
{
	c->words = 0;
}

void peer_clock_take(struct peer_clock *c, int64_t there_ns, int64_t here_ns)
{
	int64_t ahead_ns;

	if (__builtin_sub_overflow(there_ns, here_ns, &ahead_ns))
		return; /* no valid time */
	c->ahead_ns[c->words++ % PEER_CLOCK_WORDS] = ahead_ns;
}

bool peer_clock_ahead(const struct peer_clock *c, uint64_t rtt_ns, int64_t *ahead_ns)
{
	uint32_t n = c->words < PEER_CLOCK_WORDS ? c->words : PEER_CLOCK_WORDS;
	int64_t most = INT64_MIN;

	if (n < WORDS_LEAST)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (c->ahead_ns[i] > most)
			most = c->ahead_ns[i];
	if (__builtin_add_overflow(most, (int64_t)(rtt_ns / 2), ahead_ns))
		*ahead_ns = most;
	return true;
}

int64_t peer_clock_look(struct peer_clock *c, int64_t wall_ns, uint64_t now_ns)
{
	int64_t ahead_ns = wall_ns - (int64_t)now_ns, moved_ns = ahead_ns - c->wall_ahead_ns;
	bool first = !c->looked;

	c->looked = true;
	c->wall_ahead_ns = ahead_ns;
	if (first || (moved_ns < JUMP_NS && moved_ns > -JUMP_NS))
		return 0;
	c->jumps++;
	c->jump_ns = moved_ns;
	c->jump_at_ns = now_ns;
	peer_clock_begin(c); /* earlier messages were compared with the old clock */
	return moved_ns;
}
