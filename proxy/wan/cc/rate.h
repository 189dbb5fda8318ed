/* SPDX-License-Identifier: Apache-2.0 */
/* rate.h - how fast a path may be sent on: the table of rate controllers, and what feeds them.
 *
 * Theory of operation
 *
 * A controller is a row of functions (struct rate_ops) that are told what became of what was sent, and set two numbers:
 * the rate that the path's pacer hands out and how many bytes may be in flight. There is one per path, in its
 * wan_pacer, shared by all shards of the link. What is counted (delivered, lost, in flight) are single atomic words.
 * The controller itself runs in whichever shard finds nobody else in it; one that finds it busy leaves its sample out
 * and waits for nothing. So there is no lock, and what a controller sees of a link with one shard is
 * deterministic.
 *
 * Delivery rate (draft-cheng-iccrg-delivery-rate-estimation): each datagram notes how much had been delivered when it
 * was sent (struct rate_mark, in its entry of the sent map). When it is known to have arrived, what was delivered
 * since then, over the longer of the time it took to send and the time it took to be told, is a sample: no report that
 * bunches arrivals can make it too high. A sample is application-limited if the pacer had time to give in that
 * flight that nobody took, other than for want of room in flight, and nothing waited to be sent. If something did, it
 * is the processor that came late: such a sample is late, unless the pacer makes up for it. It says as little about the
 * line, but that more was asked for and no more came.
 *
 * Bytes are those of the line, overhead included, so that rates can be compared with the pacer's. What is never
 * acknowledged (reports, FEC repairs) is counted with the next datagram that is: a share of repairs must not look like
 * a slower line.
 *
 * A new controller: one file with a `const struct rate_ops`, one row in RATE_CONTROLLERS. */
#ifndef PROXY_RATE_H
#define PROXY_RATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rate_control;
struct wan_pacer;

/* Name in link files, structure. */
#define RATE_CONTROLLERS(X)                                                                                            \
	X(fixed, rate_fixed) /* the configured rate, whatever happens: owned fibre */                                  \
	X(auto, rate_auto)   /* what the line is found to carry, up to the configured rate: shared ones */

enum rate_controller {
#define X(name, ops) RATE_##name,
	RATE_CONTROLLERS(X)
#undef X
	    RATE_COUNT
};

/* What a datagram notes when it is sent. bytes 0: the controller does not look. */
struct rate_mark {
	uint64_t delivered_bytes, delivered_ns; /* in total until then, and when that was */
	uint64_t first_sent_ns;                 /* when the one was sent whose delivery was the last known then */
	uint64_t in_flight_bytes;               /* itself included */
	uint32_t bytes;
	bool app_limited, late;
};

/* What is known after a report. */
struct rate_sample {
	uint64_t now_ns;
	uint64_t bw_bps;          /* delivery rate; 0: no sample */
	uint64_t rtt_ns;          /* 0: no sample */
	uint64_t acked_bytes;     /* delivered since the last sample */
	uint64_t lost_bytes;      /* lost since then */
	uint64_t spurious_bytes;  /* found since then to have arrived, though they had been called lost */
	uint64_t delivered_bytes; /* in total */
	uint64_t prior_bytes; /* delivered when the latest of those that arrived was sent: for counting round trips */
	uint64_t datagram_bytes;       /* of the latest of those that arrived */
	uint64_t in_flight_bytes;      /* now */
	uint64_t sent_in_flight_bytes; /* when that one was sent */
	uint64_t ce;                   /* datagrams that came with the ECN mark CE, since the last sample */
	bool app_limited, late;
};

struct rate_ops {
	const char *name;
	/* The structure is zeroed; rate and in-flight limit are to be set. `now_ns` may be the only chance there is. */
	void (*init)(struct rate_control *c, uint64_t now_ns);
	/* NULL: what becomes of datagrams is not looked at, and costs nothing. */
	void (*on_acked)(struct rate_control *c, const struct rate_sample *s);
	/* Bytes were sent; found lost, that were sent with so much in flight; sending begins with nothing in flight.
	 * Each may be NULL. */
	void (*on_sent)(struct rate_control *c, uint64_t now_ns, uint32_t bytes);
	void (*on_lost)(struct rate_control *c, uint64_t now_ns, const struct rate_mark *m);
	void (*on_idle)(struct rate_control *c, uint64_t now_ns);
	/* What it is doing, a word. */
	const char *(*state)(const struct rate_control *c);
};

#define RATE_STATE_WORDS 80

struct rate_control {
	_Atomic(const struct rate_ops *) ops, wanted; /* the second comes with the next report */
	struct wan_pacer *pacer;
	_Atomic uint64_t ceiling_bps;
	_Atomic uint64_t in_flight_max_bytes;
	_Atomic uint64_t catch_up_ns;
	_Atomic uint64_t delivered_bytes, lost_bytes, spurious_bytes, in_flight_bytes, ce;
	_Atomic uint64_t delivered_ns, first_sent_ns;
	_Atomic uint64_t app_limited_until, late_until; /* delivered_bytes and lost_bytes; 0: it is not */
	_Atomic uint32_t waiting;           /* shards with something to send that may not go yet */
	_Atomic bool full;                  /* as much is in flight as may be: idle time is not the application's */
	atomic_flag busy;
	/* of whoever holds `busy` */
	uint64_t seen_delivered, seen_lost, seen_spurious, seen_ce;
	_Atomic(const char *) state_name;
	uint64_t state[RATE_STATE_WORDS];
};

/* The row of that number. */
const struct rate_ops *rate_ops_of(enum rate_controller which);

/* --- of the pacer's owner (any thread) --- */

/* Begins with rate_fixed. */
void rate_init(struct rate_control *c, struct wan_pacer *pacer, uint64_t ceiling_bps);
/* Another controller, ceiling, or both; in effect with the next report at the latest. Before traffic: at once. */
void rate_choose(struct rate_control *c, enum rate_controller which, uint64_t ceiling_bps);

/* --- of the shards --- */

static inline bool rate_tracks(struct rate_control *c)
{
	return atomic_load_explicit(&c->ops, memory_order_relaxed)->on_acked != NULL;
}

/* False: as much is in flight as may be. */
bool rate_has_room(struct rate_control *c);
/* A shard has more to send than may go, or has no longer. */
void rate_waits(struct rate_control *c, bool waits);
/* Some shard has. */
bool rate_is_waited_for(const struct rate_control *c);
/* The pacer had time that nobody took; was it for want of neither data nor room, but of the processor? */
void rate_time_unused(struct rate_control *c);
bool rate_is_late(struct rate_control *c);
static inline uint64_t rate_catch_up_ns(struct rate_control *c)
{
	return atomic_load_explicit(&c->catch_up_ns, memory_order_relaxed);
}
static inline uint64_t rate_ceiling_bps(struct rate_control *c)
{
	return atomic_load_explicit(&c->ceiling_bps, memory_order_relaxed);
}
static inline void rate_time_taken(struct rate_control *c)
{
	atomic_store_explicit(&c->full, false, memory_order_relaxed);
}
/* bytes: of the line. */
void rate_on_sent(struct rate_control *c, struct rate_mark *m, uint64_t now_ns, uint32_t bytes);

/* Of one report, the newest datagram that it tells of. */
struct rate_pick {
	struct rate_mark mark;
	uint64_t sent_ns;
};

void rate_on_arrived(struct rate_control *c, struct rate_pick *pick, const struct rate_mark *m, uint64_t sent_ns,
                     uint64_t now_ns);
void rate_on_lost(struct rate_control *c, const struct rate_mark *m, uint64_t now_ns);
/* Bytes that were found lost have arrived. */
void rate_on_spurious(struct rate_control *c, uint64_t bytes);
/* Neither of the two will be known. */
void rate_on_gone(struct rate_control *c, uint64_t bytes);
/* All of a report is told. rtt_ns: 0: none was measured; ce: marks that it tells of. */
void rate_on_report(struct rate_control *c, const struct rate_pick *pick, uint64_t now_ns, uint64_t rtt_ns,
                    uint64_t ce);
/* The path is another now. */
void rate_again(struct rate_control *c, uint64_t now_ns);

/* --- of controllers --- */

extern const struct rate_ops rate_fixed, rate_auto;

/* What the pacer hands out, never above the ceiling, and what may be in flight (UINT64_MAX: anything). */
void rate_set(struct rate_control *c, uint64_t bps, uint64_t in_flight_max_bytes);
/* How much of the time that the processor was late the pacer makes up for, by sending half as fast again. It begins
 * with none. */
void rate_catch_up(struct rate_control *c, uint64_t ns);
/* Bytes that a rate carries in a time. */
uint64_t rate_bytes(uint64_t bps, uint64_t ns);
/* The rate of bytes in a time that is not 0. */
uint64_t rate_from(uint64_t bytes, uint64_t ns);

#endif
