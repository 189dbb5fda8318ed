/* SPDX-License-Identifier: Apache-2.0 */
/* responder.h - the receiving side of a QP: order, execution, answers. */
#ifndef RCPERF_RESPONDER_H
#define RCPERF_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

#include "plan.h"
#include "proxy/roce/roce.h"

struct engine;
struct qp;

enum responder_limits {
	ANSWERS_MAX = 256, /* answers waiting to be sent, a power of two */
	RECV_BUFFERS = 8,  /* memory behind the posted receives: the program is done with one at once */
};

enum answer_kind { ANSWER_ACK, ANSWER_NAK, ANSWER_READ, ANSWER_ATOMIC };

/* One answer waiting to be sent; they leave in order. */
struct answer {
	enum answer_kind kind;
	uint8_t syndrome;
	uint32_t psn, msn;
	uint64_t va;   /* READ: where the next packet's bytes are */
	uint32_t left; /* READ: bytes to go */
	bool started;  /* READ: its first packet has gone */
	uint64_t orig; /* ATOMIC */
};

/* What a duplicate READ or atomic is answered from. */
struct saved {
	bool atomic;
	uint8_t opcode;
	uint32_t psn, npsn;
	uint64_t va, operand, compare;
	uint32_t len;
	uint64_t orig;
};

struct responder {
	uint32_t epsn, msn;
	uint64_t due;  /* number of the next message to begin */
	bool nak_sent; /* since the last packet in order */
	bool failed;   /* a request was refused for good: nothing is answered any more */
	/* the message being received */
	bool in_msg, is_send;
	struct plan_msg plan;
	uint8_t *dst;
	uint32_t total, done; /* bytes; total is unknown for a SEND */
	/* memory */
	uint8_t *mem;
	uint64_t mem_bytes, va;
	uint32_t rkey;
	uint64_t seed, init_seed;
	/* receives */
	uint32_t posted, held; /* held: not posted again because the program is frozen */
	uint64_t frozen_until_ns;
	bool froze;
	uint8_t *recv_mem;
	/* READs and atomics */
	struct saved saved[128];
	uint32_t nsaved;
	/* answers */
	struct answer answers[ANSWERS_MAX];
	uint32_t answer_head, answer_n;
};

int rsp_init(struct engine *e, struct qp *qp, uint64_t init_seed, uint32_t rkey, uint64_t va);
void rsp_free(struct responder *r);

/* A request packet for this QP. */
void rsp_request(struct engine *e, struct qp *qp, const uint8_t *l3, const struct roce_pkt *pkt);

/* The queue of answers (answer.c). push_ack acknowledges everything executed so far. */
struct answer *answer_push(struct engine *e, struct qp *qp, enum answer_kind kind, uint32_t psn);
void answer_push_ack(struct engine *e, struct qp *qp);
void answer_push_nak(struct engine *e, struct qp *qp, uint8_t syndrome);
bool answers_full(const struct responder *r);

/* Sends waiting answers. True if more could go now. */
bool rsp_pump(struct engine *e, struct qp *qp, unsigned budget);

/* Timers; returns when to look again. */
uint64_t rsp_timer(struct engine *e, struct qp *qp);

/* memory.c: digest of the exposed memory, and the same worked out from the plan: what it must be after `msgs`
 * messages. */
uint64_t rsp_memory_digest(const struct responder *r);
uint64_t rsp_expected_digest(const struct plan *p, uint64_t seed, uint64_t init_seed, uint64_t msgs,
                             const uint64_t words[ATOMIC_WORDS]);

#endif
