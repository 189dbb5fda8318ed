/* SPDX-License-Identifier: Apache-2.0 */
/* stage_cost.h - where a worker's processor time goes: the load, and ticks per stage of a packet's way.
 *
 * Theory of operation
 *
 * A worker polls while it is busy, so that its processor time says nothing of how busy it is. The turns that did
 * something do: their part of all time is the worker's load, and at 1 the worker is the limit. Every turn is measured
 * for that, by two reads of the processor's counter.
 *
 * One turn in STAGE_EVERY is a sampled turn: each time that the worker goes on to another stage, the ticks since the
 * last such time count for the stage that ends. Sampled turns that did nothing are not counted. Ports call back for each
 * packet, so that stages nest: stage_enter() returns the stage that the caller goes back to. Ticks during which the
 * kernel ran something else on that processor count, too. */
#ifndef DAEMON_STAGE_COST_H
#define DAEMON_STAGE_COST_H

#include <stdbool.h>

#include "daemon/util/ticks.h"

/* X(enumerator, printed name, the stage whose packets are its packets, what it does) */
#define STAGES(X)                                                                                                      \
	X(LAN_RECEIVE, "lan_receive", LAN_TAKE, "takes frames of hosts from the LAN ports")                            \
	X(LAN_TAKE, "lan_take", LAN_TAKE, "checks packets of hosts, and copies them into the buffer")                  \
	X(WAN_BUILD, "wan_build", WAN_BUILD, "builds datagrams for the other edge, and seals them")                    \
	X(WAN_SEND, "wan_send", WAN_BUILD, "gives datagrams to the WAN port")                                          \
	X(WAN_RECEIVE, "wan_receive", WAN_TAKE, "takes datagrams from the WAN port")                                   \
	X(WAN_TAKE, "wan_take", WAN_TAKE, "opens datagrams, and copies their packets into the buffer")                 \
	X(LAN_BUILD, "lan_build", LAN_BUILD, "makes packets for hosts, ACKs among them")                               \
	X(LAN_SEND, "lan_send", LAN_BUILD, "finds next hops, and gives packets to the LAN ports")                      \
	X(TIMERS, "timers", TIMERS, "runs the core's timers")                                                          \
	X(RELAY, "relay", RELAY, "moves chunks between the buffer and the relay's thread")                             \
	X(REST, "rest", REST, "commands, next hops, events, samples for status and metrics")

#define X(e, name, of, text) STAGE_##e,
enum stage { STAGES(X) STAGE_COUNT };
#undef X

#define STAGE_EVERY 17 /* a prime: what comes every so many turns is not always, or never, in the sample */

const char *stage_name(enum stage s);
/* True if the stage handles packets; `of` is then the stage that counts them. */
bool stage_has_packets(enum stage s, enum stage *of);

/* Sums since the worker started. */
struct stage_costs {
	uint64_t running_ns, running_ticks;
	uint64_t turns, busy_turns, sampled_turns; /* busy: did something; sampled: of these */
	uint64_t busy_ticks, sampled_ticks;        /* of busy turns; of sampled turns */
	uint64_t ticks[STAGE_COUNT];               /* of sampled turns */
	uint64_t packets[STAGE_COUNT];             /* in sampled turns; 0 for a stage that does not count them */
};

/* Nanoseconds of `ticks`, at the rate that the counter had since the worker started. 0: not known yet. */
double stage_ns(const struct stage_costs *c, uint64_t ticks);

struct stage_meter {
	struct stage_costs sums;
	uint64_t began_ticks; /* of the turn */
	uint64_t lap_ticks;   /* when `stage` was entered */
	uint64_t ticks[STAGE_COUNT], packets[STAGE_COUNT]; /* of this turn */
	uint64_t started_ns, started_ticks;
	enum stage stage; /* the worker is in, in a sampled turn */
	bool sampled;     /* this turn */
};

void stage_meter_start(struct stage_meter *m, uint64_t now_ns);
/* The sums as of now. */
void stage_meter_read(const struct stage_meter *m, uint64_t now_ns, struct stage_costs *c);

/* Around a turn. worked: the turn did something. */
void stage_turn_begin(struct stage_meter *m);
void stage_turn_end(struct stage_meter *m, bool worked);

void stage_lap(struct stage_meter *m, enum stage s);

/* The worker goes on to stage s. Returns the stage that it was in. */
static inline enum stage stage_enter(struct stage_meter *m, enum stage s)
{
	enum stage was = m->stage;

	if (m->sampled)
		stage_lap(m, s);
	return was;
}

/* Stage s has handled a packet; only the stages that count packets. */
static inline void stage_packet(struct stage_meter *m, enum stage s)
{
	m->packets[s]++;
}

#endif
