/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - what the paths of a shard did in the last seconds, always recorded.
 *
 * Theory of operation
 *
 * The worker looks at its paths once in each turn (trace_look()) and writes a sample of a path every TRACE_EVERY_NS in
 * which it had a turn at all, or earlier if something happened: after TRACE_SOON_NS for losses and repairs, at once for
 * a death. A worker that sleeps writes nothing; nothing happens then.
 *
 * Samples go into a ring that never stops the writer: the oldest are overwritten. Readers (the main thread, as many as
 * it likes, each with a cursor of its own) take what they find and are told how many they missed. A sample is copied
 * word by word between two looks at `head`; a copy that the writer may have touched meanwhile is discarded. So neither
 * side waits, and there is no lock.
 *
 * Most of a sample are sums since the shard began: a missed sample loses no sums. */
#ifndef DAEMON_TRACE_H
#define DAEMON_TRACE_H

#include <stdatomic.h>

#include "proxy/proxy.h"
#include "trace_sums.h"
#include "seal/seal.h"

#define TRACE_EVERY_NS   5000000ull
#define TRACE_SOON_NS    2000000ull
#define TRACE_PATH_SLOTS 4096u /* of each path: 20 s, 8 s on a line that loses all the time */

/* X(enumerator, printed name, what happened since the sample before) */
#define TRACE_MARKS(X)                                                                                                 \
	X(LOST, "lost", "datagrams were found lost")                                                                   \
	X(RESENT, "resent", "packets or pieces were sent again")                                                       \
	X(SPARED, "spared", "the other edge rebuilt lost datagrams by FEC")                                            \
	X(REBUILT, "rebuilt", "this edge rebuilt lost datagrams of the other edge by FEC")                             \
	X(PROBE, "pto", "a probe timeout: the other edge has not reported the last datagrams")                         \
	X(RATE, "rate", "the rate at which the edge may send changed by an eighth or more")                            \
	X(MTU, "mtu", "datagrams may be larger, or must be smaller")                                                   \
	X(REKEY, "rekey", "the worker sealed or opened with a new key")                                                \
	X(SESSION, "session", "a new session began, with new datagram numbers and keys")                          \
	X(UP, "up", "the path answers")                                                                                \
	X(DEAD, "dead", "the path does not answer")

#define X(e, name, text) TRACE_##e,
enum trace_mark { TRACE_MARKS(X) TRACE_MARK_COUNT };
#undef X

const char *trace_mark_name(enum trace_mark m);

struct trace_sample {
	uint64_t now_ns; /* CLOCK_MONOTONIC */
	uint32_t marks;  /* bits of enum trace_mark */
	uint32_t epoch;  /* of the session */
	uint8_t path;
	uint8_t state; /* enum path_state */
	uint16_t payload_max;
	uint32_t spare;
#define X(field, name, member) uint64_t field;
	TRACE_SUMS(X)
#undef X
	uint64_t rekeys; /* of the worker */
	/* now */
	uint64_t rtt_ns, rtt_min_ns;
	uint64_t pace_bps, in_flight_bytes;
	const char *control, *control_state; /* constants of this program */
};

#define TRACE_WORDS (sizeof(struct trace_sample) / sizeof(uint64_t))

struct trace_cell {
	_Atomic uint64_t word[TRACE_WORDS];
};

struct trace {
	_Atomic uint64_t head; /* samples ever written */
	struct trace_cell *cells;
	uint64_t mask;
	uint32_t npaths;
	/* of the writer */
	struct trace_sample last[PATHS_MAX];
	uint64_t deaths[PATHS_MAX];
};

/* Zeroed memory. False without memory. */
bool trace_init(struct trace *t, uint32_t npaths);
void trace_free(struct trace *t);

/* Writer: at the end of a turn. seal NULL: not sealed. */
void trace_look(struct trace *t, const struct proxy *core, const struct seal *seal, uint64_t now_ns);
/* Puts one sample into the ring. */
void trace_put(struct trace *t, const struct trace_sample *s);

/* Any thread. *cursor: 0 for the oldest there is, trace_end() for what is still to come. *missed grows by the samples
 * that were overwritten. False: no more now. */
bool trace_next(const struct trace *t, uint64_t *cursor, uint64_t *missed, struct trace_sample *s);
uint64_t trace_end(const struct trace *t);

#endif
