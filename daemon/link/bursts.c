/* SPDX-License-Identifier: Apache-2.0 */
#include "bursts.h"

#include <string.h>

#define WINDOW 32768u                 /* bins that one look takes up at most */
#define AHEAD  (2ull * BURSTS_PER_S) /* bins further ahead than this mean that the clock was set back */

const uint64_t burst_bounds_bps[BURST_BOUND_COUNT] = {
#define X(bound) bound##ull,
    BURST_BOUNDS(X)
#undef X
};

static const uint32_t bins_of[BURST_BIN_COUNT] = {
#define X(e, name, bins) [BURST_##e] = (bins),
    BURST_BINS(X)
#undef X
};

const char *burst_bin_name(enum burst_bin bin)
{
#define X(e, name, bins) [BURST_##e] = name,
	static const char *const names[] = {BURST_BINS(X)};
#undef X

	return names[bin];
}

uint64_t burst_bps(uint64_t bytes, enum burst_bin bin)
{
	return bytes * 8 * BURSTS_PER_S / bins_of[bin];
}

void bursts_init(struct bursts *b, uint32_t nports, uint32_t nworkers, uint64_t wall_ns)
{
	b->nports = nports;
	b->nworkers = nworkers;
	b->index = wall_ns / BURST_BIN_NS;
}

/* --- one series --- */

static struct burst_second *second_of(struct burst_series *s, uint64_t unix_s)
{
	struct burst_second *last = &s->history[(s->seconds - 1) % BURSTS_HISTORY];

	if (s->seconds > 0 && last->unix_s == unix_s)
		return last;
	last = &s->history[s->seconds++ % BURSTS_HISTORY];
	*last = (struct burst_second){.unix_s = unix_s};
	return last;
}

static void count_bin(struct burst_series *s, enum burst_bin bin, uint64_t bytes)
{
	uint64_t bps = burst_bps(bytes, bin);
	unsigned i = 0;

	while (i < BURST_BOUND_COUNT && bps > burst_bounds_bps[i])
		i++;
	s->histogram[bin][i]++;
}

static void note_most(struct burst_sum *sum, enum burst_bin bin, uint64_t bytes, uint64_t begin_ns)
{
	if (bytes <= sum->most_bytes[bin])
		return;
	sum->most_bytes[bin] = bytes;
	sum->most_ns[bin] = begin_ns;
}

/* A bin of one priority, or of all, is over. */
static void add_bin(struct burst_series *s, struct burst_second *sec, unsigned priority, uint64_t bytes, uint64_t i)
{
	struct burst_sum *sum = &sec->sum[priority];

	sum->bytes += bytes;
	s->bytes[priority] += bytes;
	s->ms_bytes[priority] += bytes;
	note_most(sum, BURST_100US, bytes, i * BURST_BIN_NS);
	if (priority == BURST_ALL)
		count_bin(s, BURST_100US, bytes);
	if ((i + 1) % BURSTS_PER_MS != 0)
		return;
	note_most(sum, BURST_1MS, s->ms_bytes[priority], (i + 1 - BURSTS_PER_MS) * BURST_BIN_NS);
	if (priority == BURST_ALL)
		count_bin(s, BURST_1MS, s->ms_bytes[priority]);
	s->ms_bytes[priority] = 0;
}

/* Bins of a port, or of a link, by priority. */
struct bins {
	unsigned seen; /* a bit for each priority whose row is in use; the others are not written */
	uint32_t bytes[BURST_PRIORITIES][WINDOW];
};

static void put_bytes(struct bins *b, unsigned priority, uint64_t at, uint64_t n, uint32_t bytes)
{
	if ((b->seen >> priority & 1) == 0)
		memset(b->bytes[priority], 0, n * sizeof(b->bytes[0][0]));
	b->seen |= 1u << priority;
	b->bytes[priority][at] += bytes;
}

static void take_bins(struct burst_series *s, const struct bins *b, uint64_t from, uint64_t to)
{
	struct burst_second *sec = NULL;

	for (uint64_t i = from; i < to; i++) {
		uint64_t all = 0, bytes;

		if (sec == NULL || i % BURSTS_PER_S == 0)
			sec = second_of(s, i / BURSTS_PER_S);
		for (unsigned p = 0; p < BURST_PRIORITIES; p++) {
			bytes = b->seen >> p & 1 ? b->bytes[p][i - from] : 0;
			all += bytes;
			if (bytes != 0 || s->ms_bytes[p] != 0)
				add_bin(s, sec, p, bytes, i);
		}
		add_bin(s, sec, BURST_ALL, all, i);
	}
}

/* --- from the rings --- */

/* How many bins a cell lies behind `from`; negative: before it. */
static int64_t bins_behind(uint64_t from, const struct burst_cell *c)
{
	return (int64_t)((c->index - from) << (64 - BURST_INDEX_BITS)) >> (64 - BURST_INDEX_BITS);
}

static void take_ring(struct bursts *b, const struct burst_ring *r, uint64_t *cursor, uint64_t to, struct bins *bins)
{
	int64_t n = (int64_t)(to - b->index), at;
	struct burst_cell c;
	uint64_t next = *cursor;

	while (burst_ring_read(r, &next, &b->missed, &c)) {
		at = bins_behind(b->index, &c);
		if (at >= n && at < n + (int64_t)AHEAD)
			return; /* the bin may be incomplete: the next look takes it */
		*cursor = next;
		if (at < 0 || at >= n)
			b->missed++;
		else
			put_bytes(bins, c.priority, (uint64_t)at, (uint64_t)n, c.bytes);
	}
	*cursor = next;
}

/* Goes on at another bin: the millisecond that was being filled stays incomplete. */
static void jump(struct bursts *b, uint64_t index)
{
	for (uint32_t i = 0; i <= b->nports; i++)
		memset(b->port[i].ms_bytes, 0, sizeof(b->port[i].ms_bytes));
	b->index = index;
}

static void add_port(struct bins *link, const struct bins *port, uint64_t n)
{
	for (unsigned p = 0; p < BURST_PRIORITIES; p++)
		for (uint64_t i = 0; i < n && (port->seen >> p & 1) != 0; i++)
			put_bytes(link, p, i, n, port->bytes[p][i]);
}

void bursts_look(struct bursts *b, const struct burst_ring *const *ring, uint64_t wall_ns)
{
	static struct bins port, link; /* main thread only */
	uint64_t to = (wall_ns - BURSTS_MARGIN_NS) / BURST_BIN_NS;

	if (to + AHEAD < b->index) /* the clock was set back */
		jump(b, to);
	if (to > b->index + WINDOW) /* it was set forward, or nobody has looked for long */
		jump(b, to - WINDOW);
	if (to <= b->index)
		return;
	link.seen = 0;
	for (uint32_t p = 0; p < b->nports; p++) {
		port.seen = 0;
		for (uint32_t w = 0; w < b->nworkers; w++)
			if (ring[p * b->nworkers + w] != NULL)
				take_ring(b, ring[p * b->nworkers + w], &b->cursor[p][w], to, &port);
		take_bins(&b->port[p], &port, b->index, to);
		add_port(&link, &port, to - b->index);
	}
	take_bins(&b->port[b->nports], &link, b->index, to);
	b->index = to;
}

/* --- reading --- */

const struct burst_second *burst_second_at(const struct burst_series *s, uint32_t i)
{
	uint64_t kept = s->seconds < BURSTS_HISTORY ? s->seconds : BURSTS_HISTORY;

	return i < kept ? &s->history[(s->seconds - kept + i) % BURSTS_HISTORY] : NULL;
}

const struct burst_sum *burst_sum_most(const struct burst_series *s, unsigned priority, enum burst_bin bin)
{
	const struct burst_sum *most = NULL;
	const struct burst_second *sec;

	for (uint32_t i = 0; (sec = burst_second_at(s, i)) != NULL; i++)
		if (most == NULL || sec->sum[priority].most_bytes[bin] > most->most_bytes[bin])
			most = &sec->sum[priority];
	return most;
}
