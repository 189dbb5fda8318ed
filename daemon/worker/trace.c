/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct trace_sample) % sizeof(uint64_t) == 0, "copied word by word");

const char *trace_mark_name(enum trace_mark m)
{
#define X(e, name, text) [TRACE_##e] = name,
	static const char *const names[] = {TRACE_MARKS(X)};
#undef X

	return names[m];
}

/* --- the ring --- */

bool trace_init(struct trace *t, uint32_t npaths)
{
	uint64_t slots = TRACE_PATH_SLOTS;

	while (slots < (uint64_t)TRACE_PATH_SLOTS * npaths)
		slots *= 2;
	memset(t, 0, sizeof(*t));
	t->npaths = npaths;
	t->mask = slots - 1;
	t->cells = calloc(slots, sizeof(*t->cells));
	for (uint64_t i = 0; t->cells && i < slots; i++)
		atomic_store(&t->cells[i].word[0], 0); /* touches the page now, so that the ring does not take memory
		                                        * later */
	return t->cells != NULL;
}

void trace_free(struct trace *t)
{
	free(t->cells);
	t->cells = NULL;
}

/* A reader that sees a word of sample n also sees head n, and so knows that sample n - slots is overwritten. */
void trace_put(struct trace *t, const struct trace_sample *s)
{
	uint64_t head = atomic_load_explicit(&t->head, memory_order_relaxed), word[TRACE_WORDS];
	struct trace_cell *c = &t->cells[head & t->mask];

	memcpy(word, s, sizeof(word));
	for (size_t i = 0; i < TRACE_WORDS; i++)
		atomic_store_explicit(&c->word[i], word[i], memory_order_release);
	atomic_store_explicit(&t->head, head + 1, memory_order_release);
}

uint64_t trace_end(const struct trace *t)
{
	return atomic_load_explicit(&t->head, memory_order_acquire);
}

bool trace_next(const struct trace *t, uint64_t *cursor, uint64_t *missed, struct trace_sample *s)
{
	uint64_t word[TRACE_WORDS], head = trace_end(t);

	while (*cursor < head) {
		const struct trace_cell *c = &t->cells[*cursor & t->mask];

		for (size_t i = 0; i < TRACE_WORDS; i++)
			word[i] = atomic_load_explicit(&c->word[i], memory_order_acquire);
		head = trace_end(t);
		if (head - *cursor <= t->mask) {
			memcpy(s, word, sizeof(*s));
			++*cursor;
			return true;
		}
		*missed += head - t->mask - *cursor;
		*cursor = head - t->mask;
	}
	return false;
}

/* --- what is written --- */

static uint32_t bit(enum trace_mark m, bool set)
{
	return set ? 1u << m : 0;
}

/* Marks of sums that have grown. */
static uint32_t marks_of_stats(const struct trace_sample *last, const struct wan_path_stats *st)
{
	return bit(TRACE_LOST, st->lost != last->lost) | bit(TRACE_RESENT, st->repairs != last->resent) |
	       bit(TRACE_SPARED, st->spared != last->spared) | bit(TRACE_REBUILT, st->rebuilt != last->rebuilt) |
	       bit(TRACE_PROBE, st->probes != last->probes);
}

/* Marks of states that have changed. */
static uint32_t marks_of_state(const struct trace_sample *last, const struct trace_sample *s)
{
	uint64_t apart = s->pace_bps > last->pace_bps ? s->pace_bps - last->pace_bps : last->pace_bps - s->pace_bps;

	return bit(TRACE_RATE, apart > last->pace_bps / 8) | bit(TRACE_MTU, s->payload_max != last->payload_max) |
	       bit(TRACE_REKEY, s->rekeys != last->rekeys) | bit(TRACE_SESSION, s->epoch != last->epoch) |
	       bit(TRACE_UP, s->state == PATH_UP && last->state != PATH_UP) |
	       bit(TRACE_DEAD, s->state == PATH_DEAD && last->state != PATH_DEAD);
}

static void take(struct trace *t, const struct proxy *core, const struct seal *seal, uint32_t path, uint64_t now_ns)
{
	struct trace_sample *last = &t->last[path], s;
	struct proxy_path_status st;
	struct seal_stats keys = {0};

	if (!proxy_path_status(core, path, now_ns, &st))
		return;
	if (seal)
		seal_stats(seal, &keys);
	s = (struct trace_sample){.now_ns = now_ns,
	                          .epoch = st.epoch_tx,
	                          .path = (uint8_t)path,
	                          .state = (uint8_t)st.state,
	                          .payload_max = st.payload_max,
	                          .rekeys = keys.tx_updates + keys.rx_updates,
	                          .rtt_ns = st.rtt_smoothed_ns,
	                          .rtt_min_ns = st.rtt_min_ns,
	                          .pace_bps = st.pace_bps,
	                          .in_flight_bytes = st.in_flight_bytes,
	                          .control = st.control,
	                          .control_state = st.control_state};
#define X(field, name, member) s.field = st.stats.member;
	TRACE_SUMS(X)
#undef X
	s.marks = marks_of_stats(last, &st.stats);
	if (last->now_ns)
		s.marks |= marks_of_state(last, &s);
	*last = s;
	trace_put(t, &s);
}

void trace_look(struct trace *t, const struct proxy *core, const struct seal *seal, uint64_t now_ns)
{
	for (uint32_t i = 0; i < t->npaths; i++) {
		const struct wan_path_stats *st = proxy_path_stats(core, i);
		const struct trace_sample *last = &t->last[i];
		uint64_t since_ns = now_ns - last->now_ns;

		if (since_ns >= TRACE_EVERY_NS || (since_ns >= TRACE_SOON_NS && marks_of_stats(last, st)) ||
		    st->deaths != t->deaths[i])
			take(t, core, seal, i, now_ns);
		t->deaths[i] = st->deaths;
	}
}
