/* SPDX-License-Identifier: Apache-2.0 */
/* near_fp.c - fingerprints of requests: what tells a repetition from another packet at its PSN.
 *
 * Theory of operation
 *
 * A host repeats what it holds to be unanswered, and it may reset its QP and begin again at the same PSNs. The first
 * must be ACKed again, the second must not. What tells them apart is the packet's fingerprint: opcode, PSN, length,
 * extended headers and payload.
 *
 * What is still held says its fingerprint itself (slot header). Of what is settled, the starts and ends of the last
 * messages are remembered, in position order, in the arena; that is more than a host has outstanding, whatever the
 * sizes. What lies between them is nobody's for certain: the first packet of a new life may be lost, and the second,
 * taken for a repetition, would get an ACK of all that the old life had. It is passed over in silence, which costs no
 * host anything: its ACK comes with the end of the message. But a host may have sent all that its window holds and no
 * end (rxe: 129 PSNs), and have lost the ACK of that. So what is inside the message that is not over yet is told apart.
 */
#include "near_fp.h"

#include <isa-l/crc.h>

#define MESSAGES  (FP_RING / 2) /* entries of two words: low half of the position, fingerprint */
#define FP_COUNTS 2u /* a bit of the second word that is no fingerprint: the MSN counts one more behind this packet */

static uint32_t *entry(struct proxy *p, const struct near_flow *f, uint32_t i)
{
	return arena_fingerprints(p->arena, f->idx) + 2 * (size_t)(i % MESSAGES);
}

uint32_t near_fp_of(const uint8_t *l3, const struct roce_pkt *pkt, uint32_t payload_crc)
{
	uint32_t fp = crc32_gzip_refl(payload_crc, l3 + pkt->ext_off, (uint64_t)(pkt->hdr_len - pkt->ext_off));

	/* never 0, which is what an unused place in the ring holds */
	return ((fp ^ (uint32_t)pkt->opcode << 24 ^ pkt->payload_len * 0x9e3779b1u ^ pkt->psn) & ~FP_COUNTS) | 1u;
}

void near_fp_reset(struct proxy *p, struct near_flow *f)
{
	memset(arena_fingerprints(p->arena, f->idx), 0, FP_RING * sizeof(uint32_t));
	f->fp_count = 0;
	f->fp_before = false;
}

/* By how many positions the entry lies before pos; more than half of all 32 bits: behind it. */
static uint32_t entry_before(struct proxy *p, const struct near_flow *f, uint32_t i, uint64_t pos)
{
	return (uint32_t)pos - entry(p, f, i)[0];
}

static bool is_before(uint32_t distance)
{
	return distance - 1 < (1u << 31) - 1;
}

void near_fp_save(struct proxy *p, const struct near_flow *f, uint64_t before, struct fp_memory *m)
{
	uint32_t lo = f->fp_count > MESSAGES ? f->fp_count - MESSAGES : 0, hi = f->fp_count;

	while (hi > lo && !is_before(entry_before(p, f, hi - 1, before)))
		hi--;
	m->n = hi - lo < MESSAGES / 2 ? hi - lo : MESSAGES / 2;
	for (uint32_t i = 0; i < m->n; i++)
		memcpy(m->words + 2 * i, entry(p, f, hi - m->n + i), 2 * sizeof(uint32_t));
}

void near_fp_restore(struct proxy *p, struct near_flow *f, const struct fp_memory *m, uint32_t shift)
{
	for (uint32_t i = 0; i < m->n; i++) {
		uint32_t *e = entry(p, f, i);

		e[0] = m->words[2 * i] + shift;
		e[1] = m->words[2 * i + 1];
	}
	f->fp_count = m->n;
	f->fp_before = m->n > 0;
}

void near_fp_trim(struct proxy *p, struct near_flow *f, uint64_t from)
{
	while (f->fp_count && !is_before(entry_before(p, f, f->fp_count - 1, from)))
		memset(entry(p, f, --f->fp_count), 0, 2 * sizeof(uint32_t));
}

void near_fp_note(struct proxy *p, struct near_flow *f, const struct slot_hdr *h)
{
	uint32_t *e;

	if (!(h->flags & (SF_MSG_START | SF_MSG_END | SF_OWN_RESPONSE)))
		return;
	e = entry(p, f, f->fp_count++);
	e[0] = (uint32_t)h->pos;
	e[1] = h->fp | (h->flags & (SF_MSG_END | SF_OWN_RESPONSE) ? FP_COUNTS : 0);
}

/* The newest remembered message that begins at or before pos; NULL if all are younger. */
static const uint32_t *message_at(struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	uint32_t lo = f->fp_count > MESSAGES ? f->fp_count - MESSAGES : 0, hi = f->fp_count;
	uint32_t back = (uint32_t)(f->pos_next - pos);

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if ((uint32_t)f->pos_next - entry(p, f, mid)[0] >= back)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0 || lo + MESSAGES == f->fp_count)
		return NULL;
	return entry(p, f, lo - 1);
}

bool near_fp_has(struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	const uint32_t *e = message_at(p, f, pos);

	return e && e[0] == (uint32_t)pos;
}

/* The packet in front of pos_next is not the last one of its message. */
static bool in_message(const struct near_flow *f)
{
	return f->op_known && !(roce_op(f->op_last)->flags & ROP_END);
}

enum fp_verdict near_fp_check(struct proxy *p, const struct near_flow *f, uint64_t pos, uint32_t fp,
                              bool starts_message)
{
	uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, pos);
	const uint32_t *e;

	if (slot != SLOT_NONE)
		return arena_hdr(p->arena, slot)->fp == fp ? FP_SAME : FP_STRANGE;
	e = pos >= f->pos_base || f->fp_before ? message_at(p, f, pos) : NULL;
	if (FAULT(FAULT_STALE_INCARNATION) || (e && !starts_message && FAULT(FAULT_MIDDLE_BELIEVED)))
		return FP_SAME;
	if (e && e[0] == (uint32_t)pos && (e[1] & ~FP_COUNTS) == fp)
		return FP_SAME;
	if (starts_message)
		return FP_STRANGE;
	return e && e[0] != (uint32_t)pos && e == entry(p, f, f->fp_count - 1) && in_message(f) ? FP_OPEN : FP_STALE;
}

bool near_fp_messages_from(struct proxy *p, const struct near_flow *f, uint64_t pos, uint32_t *n)
{
	uint32_t back = (uint32_t)(f->pos_next - pos), i = f->fp_count;

	*n = 0;
	while (i > 0 && f->fp_count - i < MESSAGES && (uint32_t)f->pos_next - entry(p, f, i - 1)[0] <= back)
		*n += (entry(p, f, --i)[1] & FP_COUNTS) != 0;
	return (pos >= f->pos_base || (f->fp_before && i > 0)) && f->fp_count - i < MESSAGES;
}

void near_fp_recover(struct proxy *p, struct near_flow *f)
{
	uint32_t best = UINT32_MAX, at = 0, used = 0;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		uint32_t back = entry_before(p, f, i, f->pos_settled);

		if (!entry(p, f, i)[1])
			continue;
		used++;
		if (is_before(back) && back - 1 < best) { /* others are noted again from their slots */
			best = back - 1;
			at = i + 1;
		}
	}
	f->fp_count = used < MESSAGES ? at : at + MESSAGES;
}
