/* SPDX-License-Identifier: Apache-2.0 */
/* rate.h - rate controllers of paths: their table, and the measurements that feed them.
 *
 * Theory of operation
 *
 * A controller is a row of functions (struct rate_ops) that are told which datagrams were sent, delivered and lost, and
 * set two numbers: the rate that the path's pacer hands out and how many bytes may be in flight. There is one per path,
 * in its wan_pacer, shared by all shards of the link. The sums (delivered, lost, in flight) are single atomic words.
 * The controller itself runs in the shard that finds no other shard in it; a shard that finds the controller busy drops
 * its sample and does not wait. So there is no lock, and on a link with one shard the controller is deterministic.
 *
 * Delivery rate (draft-cheng-iccrg-delivery-rate-estimation): each datagram notes how much had been delivered when it
 * was sent (struct rate_mark, in its entry of the sent map). When a datagram is known to have arrived, the bytes
 * delivered since it was sent, divided by the longer of the time they took to be sent and the time they took to be
 * reported, are a sample: no report that bunches arrivals can make the sample too high. A sample is application-limited
 * if in its flight the pacer had unused time, not for want of room in flight, while nothing waited to be sent. If
 * something waited, the processor was late: such a sample is late, unless the pacer makes up for the time. A late
 * sample says as little about the line as an application-limited one, except that more was asked for and no more came.
 *
 * Bytes are those of the line, overhead included, so that rates can be compared with the pacer's. The bytes of
 * datagrams that are never acknowledged (reports, FEC repairs) count with the next datagram that is: a share of repairs
 * must not look like a slower line.
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
	X(fixed, rate_fixed) /* the configured rate, whatever is lost: for owned fibre */                              \
	X(auto, rate_auto)   /* the rate that the line is found to carry, up to the configured one: for shared lines */

enum rate_controller {
#define X(name, ops) RATE_##name,
	RATE_CONTROLLERS(X)
#undef X
	    RATE_COUNT
};

/* Values that a datagram notes when it is sent. bytes 0: the controller does not look at datagrams. */
struct rate_mark {
	uint64_t delivered_bytes, delivered_ns; /* delivered in total when the datagram was sent, and when that sum last
	                                         * changed */
	uint64_t first_sent_ns;                 /* when the datagram was sent that was last known to be delivered */
	uint64_t in_flight_bytes;               /* itself included */
	uint32_t bytes;
	bool app_limited, late;
};

/* The controller's input after a report. */
struct rate_sample {
	uint64_t now_ns;
	uint64_t bw_bps;          /* delivery rate; 0: no sample */
	uint64_t rtt_ns;          /* 0: no sample */
	uint64_t acked_bytes;     /* delivered since the last sample */
	uint64_t lost_bytes;      /* lost since then */
	uint64_t spurious_bytes;  /* found since then to have arrived, though they had been called lost */
	uint64_t delivered_bytes; /* in total */
	uint64_t prior_bytes; /* delivered in total when the latest datagram that arrived was sent: for counting round
	                       * trips */
	uint64_t datagram_bytes;       /* of the latest datagram that arrived */
	uint64_t in_flight_bytes;      /* now */
	uint64_t sent_in_flight_bytes; /* when the latest datagram that arrived was sent */
	uint64_t ce;                   /* datagrams that came with the ECN mark CE, since the last sample */
	bool app_limited, late;
};

struct rate_ops {
	const char *name;
	/* Sets rate and in-flight limit; the structure is zeroed. `now_ns` may be the only source of randomness. */
	void (*init)(struct rate_control *c, uint64_t now_ns);
	/* A report was taken. NULL: the fate of datagrams is not tracked, and costs nothing. */
	void (*on_acked)(struct rate_control *c, const struct rate_sample *s);
	/* on_sent: bytes were sent. on_lost: a datagram with this mark was found lost. on_idle: sending begins with
	 * nothing in flight. Each may be NULL. */
	void (*on_sent)(struct rate_control *c, uint64_t now_ns, uint32_t bytes);
	void (*on_lost)(struct rate_control *c, uint64_t now_ns, const struct rate_mark *m);
	void (*on_idle)(struct rate_control *c, uint64_t now_ns);
	/* The controller's state, in one word. */
	const char *(*state)(const struct rate_control *c);
};

#define RATE_STATE_WORDS 80

struct rate_control {
	_Atomic(const struct rate_ops *) ops, wanted; /* `wanted` comes into force with the next report */
	struct wan_pacer *pacer;
	_Atomic uint64_t ceiling_bps;
	_Atomic uint64_t in_flight_max_bytes;
	_Atomic uint64_t catch_up_ns;
	_Atomic uint64_t delivered_bytes, lost_bytes, spurious_bytes, in_flight_bytes, ce;
	_Atomic uint64_t delivered_ns, first_sent_ns;
	_Atomic uint64_t app_limited_until, late_until; /* limited (late) until delivered_bytes + lost_bytes pass this;
	                                                 * 0: not limited (late) */
	_Atomic uint32_t waiting;           /* shards with something to send that may not be sent yet */
	_Atomic bool full;                  /* the in-flight limit was reached: idle time does not make samples
	                                     * application-limited */
	atomic_flag busy;
	/* written by the holder of `busy` */
	uint64_t seen_delivered, seen_lost, seen_spurious, seen_ce;
	_Atomic(const char *) state_name;
	uint64_t state[RATE_STATE_WORDS];
};

/* The functions of a controller. */
const struct rate_ops *rate_ops_of(enum rate_controller which);

/* --- of the pacer's owner (any thread) --- */

/* Begins with rate_fixed. */
void rate_init(struct rate_control *c, struct wan_pacer *pacer, uint64_t ceiling_bps);
/* Sets another controller, ceiling, or both; in force with the next report at the latest, before any traffic at
 * once. */
void rate_choose(struct rate_control *c, enum rate_controller which, uint64_t ceiling_bps);

/* --- of the shards --- */

static inline bool rate_tracks(struct rate_control *c)
{
	return atomic_load_explicit(&c->ops, memory_order_relaxed)->on_acked != NULL;
}

/* False: the in-flight limit is reached. */
bool rate_has_room(struct rate_control *c);
/* Called when a shard begins (or ceases) to have more to send than may be sent. */
void rate_waits(struct rate_control *c, bool waits);
/* True if any shard waits in this sense. */
bool rate_is_waited_for(const struct rate_control *c);
/* rate_time_unused() is called when no datagram took the pacer's time. rate_is_late(): true if neither data nor room
 * was missing, so the processor came late. */
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

/* The newest datagram that a report tells to have arrived. */
struct rate_pick {
	struct rate_mark mark;
	uint64_t sent_ns;
};

void rate_on_arrived(struct rate_control *c, struct rate_pick *pick, const struct rate_mark *m, uint64_t sent_ns,
                     uint64_t now_ns);
void rate_on_lost(struct rate_control *c, const struct rate_mark *m, uint64_t now_ns);
/* Called when bytes that were found lost have arrived. */
void rate_on_spurious(struct rate_control *c, uint64_t bytes);
/* Called when it will never be known whether the bytes were delivered or lost. */
void rate_on_gone(struct rate_control *c, uint64_t bytes);
/* Called when a report was worked off completely. rtt_ns: 0: none was measured; ce: marks that the report tells of. */
void rate_on_report(struct rate_control *c, const struct rate_pick *pick, uint64_t now_ns, uint64_t rtt_ns,
                    uint64_t ce);
/* Called when the path's route has changed. */
void rate_again(struct rate_control *c, uint64_t now_ns);

/* --- of controllers --- */

extern const struct rate_ops rate_fixed, rate_auto;

/* Sets the rate that the pacer hands out, never above the ceiling, and the bytes that may be in flight (UINT64_MAX:
 * any). */
void rate_set(struct rate_control *c, uint64_t bps, uint64_t in_flight_max_bytes);
/* Sets the most lateness of the processor that the pacer makes up for, by sending half as fast again, ns. 0 at
 * first. */
void rate_catch_up(struct rate_control *c, uint64_t ns);
/* Bytes that a rate carries in `ns`. */
uint64_t rate_bytes(uint64_t bps, uint64_t ns);
/* The rate that carries `bytes` in `ns`, which is not 0. */
uint64_t rate_from(uint64_t bytes, uint64_t ns);

#endif
