/* SPDX-License-Identifier: Apache-2.0 */
/* payload.h - what is sent: messages and their bytes as pure functions, so that nobody has to store them.
 *
 * A direction of a connection in one incarnation has a key. Message `i` of it is described by msg_describe(); the
 * byte at address `va` is payload(key, va), and every message has addresses of its own: a byte of another message, of
 * another offset, of another connection or of an earlier incarnation is a wrong byte. */
#ifndef SIM_PAYLOAD_H
#define SIM_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum msg_op {
	OP_SEND,
	OP_SEND_IMM,
	OP_WRITE,
	OP_WRITE_IMM,
	OP_READ,
	OP_FETCH_ADD,
	OP_CMP_SWAP,
	OP_FLUSH,
	OP_ATOMIC_WRITE,
	OP_COUNT
};

#define MSG_VA_SHIFT 24 /* addresses per message: 16 MiB */

/* Which program asks: workload.h. Chance: every message is drawn on its own. */
enum workload {
	WORK_CHANCE,
	WORK_NCCL_SENDER,
	WORK_NCCL_RECEIVER,
	WORK_NVME_HOST,
	WORK_NVME_TARGET,
	WORK_UCX,
};

/* What one direction of a connection is asked to do. */
struct msg_plan {
	uint64_t key;
	uint64_t nmsgs;
	uint32_t len_min, len_max; /* each factor of two equally likely; zero lengths now and then if len_min is 0 */
	uint8_t weight[OP_COUNT];  /* how often each operation; all 0: WRITE */
	bool constant;             /* every message is the first one again, to its last byte */
	uint64_t key_first;        /* of the first message, instead of key: the same in every incarnation. 0: no */
	enum workload workload;
	uint8_t group, peer_group, window;
};

struct msg {
	enum msg_op op;
	uint32_t len; /* bytes; 8 for ATOMIC, 0 for FLUSH */
	uint64_t va;
	uint32_t rkey;
	uint32_t imm;
	uint64_t swap_add; /* ATOMIC WRITE: what it writes */
	bool compare_hits; /* CMP_SWAP: compares with what the counter holds then */
	uint64_t compare;  /* else with this; FLUSH: FETH, and in the upper half the length of its range */
};

void msg_describe(const struct msg_plan *plan, uint64_t i, struct msg *m);

static inline bool msg_own_response(const struct msg *m)
{
	return m->op >= OP_READ;
}

/* Answered by a READ response without a byte. */
static inline bool msg_empty_response(const struct msg *m)
{
	return m->op == OP_FLUSH || m->op == OP_ATOMIC_WRITE;
}

/* The counter that ATOMICs work on, once this one has been executed. */
static inline uint64_t msg_counter_after(const struct msg *m, uint64_t counter)
{
	switch (m->op) {
	case OP_FETCH_ADD:
		return counter + m->swap_add;
	case OP_CMP_SWAP:
		return m->compare_hits || m->compare == counter ? m->swap_add : counter;
	case OP_ATOMIC_WRITE:
		return m->swap_add;
	default:
		return counter;
	}
}

static inline bool msg_takes_receive(const struct msg *m)
{
	return m->op == OP_SEND || m->op == OP_SEND_IMM || m->op == OP_WRITE_IMM;
}

/* The key of the message that has this address. */
uint64_t payload_key(const struct msg_plan *plan, uint64_t va);
/* va is a multiple of 64. */
void payload_fill(uint64_t key, uint64_t va, uint8_t *buf, size_t len);
bool payload_right(uint64_t key, uint64_t va, const uint8_t *buf, size_t len);

#endif
