/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - which message comes when: a pure function of the message number.
 *
 * Both ends know the plan, so the responder can tell for each message that it executes whether it is the one that
 * is due (operation, length, address, immediate value), not only whether its bytes are sound. */
#ifndef RCPERF_PLAN_H
#define RCPERF_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum rc_op { OP_WRITE, OP_WRITE_IMM, OP_SEND, OP_SEND_IMM, OP_READ, OP_FADD, OP_CSWAP };

enum plan_kind {
	PLAN_WRITE,
	PLAN_SEND,
	PLAN_READ,
	PLAN_FADD,
	PLAN_WRITE_IMM,
	PLAN_MIX, /* all of them, in all sizes; READs read what the message before them wrote */
	PLAN_KINDS
};

enum plan_limits {
	ATOMIC_WORDS = 8, /* counters behind the slots of each QP's memory */
	SLOTS_MIN = 8,
};

struct plan {
	enum plan_kind kind;
	uint32_t size;       /* bytes per message; in the mix the largest */
	uint32_t pmtu;       /* the mix likes sizes around it */
	uint32_t slot_bytes; /* memory per message slot, a multiple of 64 */
	uint32_t nslots;
};

/* One message. `slot` for WRITE and READ; `word` for atomics. */
struct plan_msg {
	enum rc_op op;
	uint32_t len;
	uint32_t slot;
	uint32_t word;
	uint64_t source;  /* READ: message whose bytes it finds, or PLAN_INITIAL */
	uint64_t operand; /* atomics: what to add, or to swap in */
};

#define PLAN_INITIAL UINT64_MAX /* the slot still has the bytes it had at the start */

const char *plan_kind_name(enum plan_kind kind);
bool plan_kind_parse(const char *name, enum plan_kind *kind);

/* Slots for messages of up to size bytes, `depth` of them in flight, in at most max_bytes of memory. */
void plan_init(struct plan *p, enum plan_kind kind, uint32_t size, uint32_t pmtu, uint32_t depth, uint64_t max_bytes);

void plan_get(const struct plan *p, uint64_t no, struct plan_msg *m);

/* Most messages in flight such that no WRITE touches a slot that an unfinished READ still looks at. */
uint32_t plan_depth(const struct plan *p, uint32_t depth);

/* Bytes of memory that one QP exposes: the slots, then the atomic words. */
uint64_t plan_region_bytes(const struct plan *p);

static inline bool rc_op_is_read(enum rc_op op)
{
	return op == OP_READ;
}

static inline bool rc_op_is_atomic(enum rc_op op)
{
	return op == OP_FADD || op == OP_CSWAP;
}

static inline bool rc_op_writes(enum rc_op op)
{
	return op == OP_WRITE || op == OP_WRITE_IMM;
}

static inline bool rc_op_has_imm(enum rc_op op)
{
	return op == OP_WRITE_IMM || op == OP_SEND_IMM;
}

#endif
