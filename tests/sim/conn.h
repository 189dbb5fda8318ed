/* SPDX-License-Identifier: Apache-2.0 */
/* conn.h - the life of a connection between a host at site A and one at site B, again and again.
 *
 *     WAITING -> OPENING -> OPEN -> CLOSING -> WAITING for the next round ... -> OVER
 *
 * A round is one life of a pair of queue pairs. With CM it is opened by REQ/REP/RTU and closed by DREQ/DREP; without,
 * QPNs cross out of band after a while (as perftest and NCCL do over TCP). The next round takes fresh QPNs, or resets
 * the same pair and begins again from PSN 0. Within a round a queue pair may have several lives: side 0 asks, resets
 * its queue pair as soon as all is complete there and asks on from PSN 0, whatever side 1 still lacks, which resets its
 * own when it has all. */
#ifndef SIM_CONN_H
#define SIM_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "eventq.h"
#include "host.h"
#include "payload.h"

struct conn_cfg {
	uint8_t host[2];
	bool ip6, cm;
	bool ud;            /* without CM: wired up over UD, as UCX does */
	bool reuse;         /* rounds reset the same queue pairs */
	uint8_t recur;      /* reuse: of these sides only, a bit each; the others take fresh ones. 0: of both */
	bool same_start;    /* and send the same first message */
	bool same_words;    /* and send the same all over */
	uint64_t gap_ns;    /* between two lives, beside what setting up takes */
	uint16_t pmtu_next; /* of every second life; 0: the same */
	uint16_t vlan_tci, pkey, pmtu;
	uint8_t tos;
	uint8_t rnr_timer;         /* code in RNR NAKs */
	bool first_lost;           /* the first packet of each life never reaches the edge */
	bool first_late;           /* the next ones overtake it */
	uint64_t answer_late_ns;   /* after the first packet that a responder hears */
	uint64_t cm_echo_ns;       /* CM messages come again so often, also of the life before; 0: not */
	uint8_t rnr_retry;         /* 7: for ever */
	bool ignores_cnps;         /* its queue pairs do not slow down */
	double confuse;            /* share of completions that a confused retry follows, where the model has those */
	bool loses_count;          /* and in the next round it is not right again, nor ever */
	uint64_t post_every_ns;    /* one message so often; 0: as many as the depth allows */
	uint64_t post_from_ns;     /* the first one at once, all others from then on */
	uint64_t receive_every_ns; /* 0: receives are always posted */
	uint32_t receives;
	uint32_t rounds;
	uint32_t psn_start[2];   /* of the first round, per requester's side */
	struct msg_plan plan[2]; /* what side 0 (1) asks the other one; keys are filled in */
	uint32_t depth[2];
	uint32_t max_rd;
	uint64_t refuse_msg;     /* side 1 refuses side 0's message of that number, from 1; 0: none. refuse.h */
	uint8_t refuse_syndrome; /* with that NAK; 0: without a word */
	bool leaves; /* both programs end leaves_ns after that refusal, or after they began without one, whatever
	                their queue pairs know or still lack */
	uint64_t leaves_ns;
	uint32_t heir_of;    /* opens open_ns after connection heir_of - 1 is over; 0: at open_ns */
	uint8_t inherits;    /* heir: it takes the QPNs of that one's queue pairs, of these sides, a bit each */
	bool inherits_words; /* and says the same, if it asks for the same */
	uint32_t lives;      /* of each round; 0: one */
	uint64_t dies_ns;    /* then the process is gone that is asked; 0: it lives */
	uint64_t within_ns;  /* of being open all of a round must be done, or it is late; 0: whenever */
	uint64_t open_ns;
	uint64_t pause_ns; /* after everything is done, before the queue pairs go */
};

#define DEATH_NS 2000000000ull /* after a death its peers get that long to notice */

enum conn_state { CONN_WAITING, CONN_OPENING, CONN_OPEN, CONN_CLOSING, CONN_OVER };

struct conn {
	struct world *w;
	struct conn_cfg cfg;
	uint32_t id, round;
	uint32_t life[2]; /* of this round: side 0 asks in its, side 1 takes in its */
	enum conn_state state;
	struct qp *qp[2];
	uint64_t opening_ns, opened_ns; /* of this round; the second 0: not open yet */
	struct evtimer step;            /* what the state waits for */
	bool excused;                   /* an end died or may fail: no promise about it */
	uint64_t abandoned_ns;          /* 0: it was not */
	bool given_up_later;            /* at a time that is set, whatever becomes of it */
	uint64_t refused_ns;            /* when side 1 refused; 0: not */
	uint32_t take_qpn[2];           /* heir: these; 0: any */
	bool named[2]; /* an edge has reported that bytes of that side's requester were not delivered */
	/* CM */
	uint32_t comm_id[2];
	uint64_t transaction, dreq_transaction;
	struct evtimer resend; /* REQ, REP or DREQ not answered yet */
	uint8_t resend_side;
	struct evtimer echo;
	struct pkt *mad[2], *old_mad[2]; /* REQ and REP of this life and of the one before */
	uint32_t echoes;
	bool rtu_seen, dreq_sent, dreq_seen, drep_sent;
	struct flag_note *flag_first[2], *flag_last[2]; /* flag.h */
	uint64_t dreq_completed;                        /* messages completed at side 0 when DREQ was first sent */
	uint64_t bytes_marked;                          /* crowd.c */
	uint64_t latency_sum_ns, latency_max_ns;        /* of completions, side 0 */
};

void conn_init(struct conn *c, struct world *w, uint32_t id, const struct conn_cfg *cfg);
/* A queue pair's requester completed a message; its responder executed one; heard anything at all. */
void conn_completed(struct conn *c, int side, const struct wqe *w);
void conn_executed(struct conn *c, int side);
void conn_heard(struct conn *c, int side);
/* Side 0 has ended the life of which side 1 still lacks some. */
bool conn_life_is_over(const struct conn *c);
/* CM did its part. */
void conn_ready(struct conn *c, int side, bool can_send);
void conn_disconnected(struct conn *c);

/* Sets the time when its programs end, if they do before it is done. */
void conn_leaves(struct conn *c);

/* Nothing more is expected of it: an end died, or a queue pair failed where that is allowed. */
void conn_abandon(struct conn *c);

/* All that one side asked for or was asked for is done, as that side sees it. */
bool conn_side_done(const struct conn *c, int side);

/* Of a connection whose one side asks the other: what that one has executed in this round. */
uint64_t conn_bytes_executed(const struct conn *c);

#endif
