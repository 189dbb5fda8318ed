// SPDX-License-Identifier: Apache-2.0
#include "plan.h"

#include <string.h>

#include "pattern.h"

enum {
	MIX_CYCLE = 8,
	READ_LOOKBACK = 2, /* a READ of the mix looks at the slot of the message at most this far before it */
};

static const char *const kind_names[PLAN_KINDS] = {
    [PLAN_WRITE] = "write", [PLAN_SEND] = "send",           [PLAN_READ] = "read",
    [PLAN_FADD] = "fadd",   [PLAN_WRITE_IMM] = "write-imm", [PLAN_MIX] = "mix",
};

static const enum rc_op kind_ops[PLAN_KINDS] = {
    [PLAN_WRITE] = OP_WRITE, [PLAN_SEND] = OP_SEND,           [PLAN_READ] = OP_READ,
    [PLAN_FADD] = OP_FADD,   [PLAN_WRITE_IMM] = OP_WRITE_IMM,
};

/* The mix: each READ finds what was written one or two messages before. */
static const struct {
	enum rc_op op;
	uint8_t lookback;
} mix[MIX_CYCLE] = {
    {OP_WRITE, 0},     {OP_READ, 1},  {OP_SEND, 0}, {OP_FADD, 0},
    {OP_WRITE_IMM, 0}, {OP_CSWAP, 0}, {OP_READ, 2}, {OP_SEND_IMM, 0},
};

const char *plan_kind_name(enum plan_kind kind)
{
	return kind_names[kind];
}

bool plan_kind_parse(const char *name, enum plan_kind *kind)
{
	for (int k = 0; k < PLAN_KINDS; k++) {
		if (strcmp(name, kind_names[k]) == 0) {
			*kind = (enum plan_kind)k;
			return true;
		}
	}
	return false;
}

void plan_init(struct plan *p, enum plan_kind kind, uint32_t size, uint32_t pmtu, uint32_t depth, uint64_t max_bytes)
{
	uint64_t fit;

	p->kind = kind;
	p->size = size;
	p->pmtu = pmtu;
	p->slot_bytes = (size + 63) / 64 * 64;
	if (p->slot_bytes == 0)
		p->slot_bytes = 64;
	fit = max_bytes / p->slot_bytes;
	p->nslots = depth + READ_LOOKBACK + 1;
	if (p->nslots > fit)
		p->nslots = (uint32_t)fit;
	if (p->nslots < SLOTS_MIN)
		p->nslots = SLOTS_MIN;
}

/* Half of the mix has the full size; the rest sits on the edges of packets. */
static uint32_t mix_len(const struct plan *p, uint64_t no)
{
	uint64_t r = pat_mix(no);
	uint32_t len;

	switch (r & 7) {
	case 0:
		len = 0;
		break;
	case 1:
		len = (uint32_t)(r >> 8) % 64;
		break;
	case 2:
		len = p->pmtu * (uint32_t)(1 + (r >> 8) % 4);
		break;
	case 3:
		len = p->pmtu * (uint32_t)(1 + (r >> 8) % 4) + (uint32_t)(r >> 16) % 9;
		break;
	default:
		len = p->size;
		break;
	}
	return len < p->size ? len : p->size;
}

static void mix_get(const struct plan *p, uint64_t no, struct plan_msg *m)
{
	uint32_t back = mix[no % MIX_CYCLE].lookback;

	m->op = mix[no % MIX_CYCLE].op;
	m->source = no - back;
	m->slot = (uint32_t)(m->source % p->nslots);
	m->len = mix_len(p, m->source);
}

void plan_get(const struct plan *p, uint64_t no, struct plan_msg *m)
{
	m->op = kind_ops[p->kind < PLAN_MIX ? p->kind : 0];
	m->len = p->size;
	m->slot = (uint32_t)(no % p->nslots);
	m->word = (uint32_t)(no % ATOMIC_WORDS);
	m->source = PLAN_INITIAL;
	m->operand = 0;
	if (p->kind == PLAN_MIX)
		mix_get(p, no, m);
	if (rc_op_is_atomic(m->op)) {
		m->len = 8;
		m->operand = m->op == OP_FADD ? 1 + (no & 0xff) : pat_mix(~no);
	}
}

uint32_t plan_depth(const struct plan *p, uint32_t depth)
{
	uint32_t most = p->nslots - READ_LOOKBACK - 1;

	if (p->kind != PLAN_MIX)
		return depth;
	return depth < most ? depth : most;
}

uint64_t plan_region_bytes(const struct plan *p)
{
	return (uint64_t)p->nslots * p->slot_bytes + ATOMIC_WORDS * 8;
}
