/* SPDX-License-Identifier: Apache-2.0 */
/* flow.h - what near and far flows have in common: positions, operations, shares of a pool, rates.
 *
 * A position is a packet's 64-bit place in its incarnation. The low 24 bits of a position are the PSN. The first packet
 * seen gets POS_ORIGIN + PSN, so that lower positions are left for packets that were overtaken. */
#ifndef PROXY_FLOW_H
#define PROXY_FLOW_H

#include "proxy/proxy.h"
#include "proxy/util/dlist.h"
#include "proxy/util/idx_hash.h"
#include "proxy/util/timer.h"

/* The first position, and a bound that no position reaches within a hundred years of a thousand million packets per
 * second. */
#ifdef PROXY_FAULTS
extern uint64_t proxy_pos_origin; /* the simulator begins just below values that may be a limit */
#define POS_ORIGIN proxy_pos_origin
#else
#define POS_ORIGIN (1ull << 40)
#endif
#define POS_END (1ull << 62)
#define RESP_AHEAD 512 /* READ responses may overtake each other by so many */
#define NONE       UINT32_MAX

/* An open or kept READ, ATOMIC or unknown request. The operation owns the positions [pos, pos + psns). Records come
 * from the shard's pool and are in order of positions in their flow's list. */
struct rd_op {
	struct dnode node; /* ops of its flow, or ops_free of the shard */
	uint64_t pos;
	uint32_t psns;     /* far: 0 while not known */
	uint32_t msn;      /* near: relative MSN with this operation counted. far: unused */
	uint32_t len;      /* READ: bytes asked for */
	uint64_t begun_ns; /* near: when the host asked first */
	uint64_t done_ns;  /* near: when the host was given the last response; 0: not yet */
	uint64_t again_ns; /* near: when the host last asked again. far: when it was last sent again */
	uint64_t next;     /* near: next response for the host, while `due` */
	uint64_t from;     /* near: where the host's latest request for it began: FIRST is there, LAST at the end. far:
	                      where a responder that is forward_only is asked from */
	uint64_t seen_upto; /* near, READ: responses before were here once; those not here any more are read again */
	uint64_t again_from, again_upto; /* near, READ: the range of the last READ_AGAIN */
	uint64_t again_heard_ns;         /* near: when that READ_AGAIN was due, or its last response came. far: last
	                                    progress */
	uint64_t again_got;              /* far, read again: responses that overtook `next`, a bit each from there on */
	uint32_t rkey;     /* near, READ: R_Key, and the end of the memory: the same in every repetition */
	uint64_t end_va;
	uint32_t fp;        /* near: fingerprint of the request */
	uint32_t room;      /* near: responses for which room is reserved, that have not come yet */
	uint16_t room_each; /* near: slot bytes of each of these responses */
	uint8_t opcode;
	bool due; /* near: the host is owed responses from `next` on; true while done_ns is 0. far: is to be sent */
	bool reread; /* near, READ: missing responses below `seen_upto` may be read again: the host has asked for them,
	                or they were given up here */
	bool again_due; /* near, READ: a READ_AGAIN frame for [again_from, again_upto) is to go */
	bool again_lost;     /* far, read again: a response came that found no room */
	uint8_t again_tries; /* far, read again: times it was sent again since it last progressed */
	bool resumed;   /* near: began before a restart of this edge, which does not know how much the host was given */
	bool windowed;  /* near, READ: needs more room than one READ may have, and is taken a window at a time */
};

/* Bytes and positions that a flow has drained lately, and the time since when it holds slots: share.c computes from
 * them how much the flow may hold. */
struct share {
	uint64_t since_ns;                   /* the flow holds slots since then */
	uint64_t span_ns;                    /* when the current span of counting began */
	uint64_t bytes, positions;           /* drained in the current span */
	uint64_t last_bytes, last_positions; /* drained in the span before */
};

/* How fast a flow may be sent to a host, after CNPs (cnp_rate.c). All zero: as fast as it can. */
struct cnp_rate {
	uint64_t rate_bps, target_bps;
	uint32_t alpha, steps;    /* estimate of congestion, in 1/65536; steps of recovery since the last CNP */
	uint64_t cnp_ns, step_ns; /* when the last CNP counted; up to when steps are made */
	uint64_t next_ns;         /* no packet before */
};

#endif
