/* SPDX-License-Identifier: Apache-2.0 */
/* requester.h - the sending side of a QP: window, go-back-N, timers, finite retries. */
#ifndef RCPERF_REQUESTER_H
#define RCPERF_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "plan.h"
#include "reaction.h"
#include "proxy/roce/roce.h"

struct engine;
struct qp;

struct msg {
	struct plan_msg plan;
	uint64_t no;
	uint64_t pos;      /* position of its first packet */
	uint32_t npos;     /* packets; for a READ, of its response */
	uint32_t epoch;    /* READ, atomic: value of requester.epoch when it was last sent */
	uint64_t read_pos; /* READ: where its latest request starts */
	uint64_t posted_ns;
	uint64_t compare;       /* CMP_SWAP */
	uint64_t expected_orig; /* atomics: what must have been there */
};

/* Positions count packets from 0 in 64 bits; the PSN of a position is psn_base + position mod 2^24.
 *
 *   pos_una          pos_nxt            pos_max              pos_end
 *   oldest without   the next packet    one past the         one past what
 *   an answer        to send            furthest ever sent   is posted
 */
struct requester {
	struct msg *ring;
	uint32_t depth, ring_size;
	uint64_t goal; /* messages to post in all; more may come while this is NEVER */
	uint64_t msg_una, msg_cur, msg_end;
	uint64_t pos_una, pos_nxt, pos_max, pos_end;
	uint64_t started; /* messages of which a packet was ever sent */
	uint32_t psn_base;
	uint32_t epoch;                     /* counts go-backs */
	uint32_t reads_out;                 /* READs and atomics sent in this epoch and not answered */
	uint64_t deadline_ns, rnr_until_ns; /* 0: not armed */
	uint32_t retries, rnr_retries;      /* since the last progress */
	uint64_t progress_ns;               /* time of the last progress */
	uint64_t first_ns;                  /* with --every-ms: when the first message was due; 0: not yet */
	uint64_t went_back_to;              /* position of the last go-back, until there is progress */
	uint64_t words[ATOMIC_WORDS];       /* the peer's counters as they must be after all posted atomics */
	uint64_t seed, peer_init_seed;
	uint64_t peer_va;
	uint32_t peer_rkey;
	struct reaction reaction;           /* to CNPs, with --dcqcn */
	bool failed;
};

/* 0 or -ENOMEM. */
int req_init(struct engine *e, struct qp *qp, uint32_t psn_base);
void req_free(struct requester *r);

/* Sends up to `budget` packets. True if more could go now. */
bool req_pump(struct engine *e, struct qp *qp, unsigned budget);

/* An ACK, READ response or ATOMIC ACK for this QP (completer.c). */
void req_response(struct engine *e, struct qp *qp, const uint8_t *l3, const struct roce_pkt *pkt);

/* A CNP for this QP. */
void req_cnp(struct engine *e, struct qp *qp);

/* Looks at the timers; returns when to look again (NEVER: not needed). */
uint64_t req_timer(struct engine *e, struct qp *qp);

/* No further messages are posted. */
void req_stop(struct requester *r);

static inline struct msg *req_msg(const struct requester *r, uint64_t no)
{
	return &r->ring[no & (r->ring_size - 1)];
}

/* READs and atomics are answered by responses of their own, not by ACKs. */
static inline bool req_own_response(const struct msg *m)
{
	return rc_op_is_read(m->plan.op) || rc_op_is_atomic(m->plan.op);
}

static inline uint32_t req_psn(const struct requester *r, uint64_t pos)
{
	return (uint32_t)(r->psn_base + pos) & ROCE_PSN_MASK;
}

/* For completer.c: what answers make the requester do. */
void req_arm(struct engine *e, struct requester *r);
/* Everything from the oldest unanswered packet on is sent again. */
void req_go_back(struct engine *e, struct qp *qp);
/* The same at the cost of a retry; without any left the QP fails with these last words. */
void req_retry(struct engine *e, struct qp *qp, const char *last_words);
void req_fail(struct engine *e, struct qp *qp, const char *why);

#endif
