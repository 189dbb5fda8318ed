/* SPDX-License-Identifier: Apache-2.0 */
/* near_reset.c - recognises that a QP was reset, by what its packets contain.
 *
 * Theory of operation
 *
 * A host may reset its QP and begin again at any PSN, and nothing on the wire says so. A packet suggests it that is unlike
 * what was at its place, or that lies beyond all that could be expected. But not every such packet is the beginning of a
 * new incarnation:
 *
 *   - Linux rxe (6.1), when a timeout overtakes the completion of a message, sends what is left of that message: a
 *     WRITE or SEND of no bytes at the PSN of the next message, and everything behind it numbered one too high. Its next
 *     round is right again. A reset that is believed then loses the bytes that were ACKed before; an ACK of that packet
 *     completes the wrong messages; taking what comes at pos_next breaks the responder's order of opcodes. An ACK that
 *     was on its way before leaves the host one too high for ever: it comes to pos_next in the middle of a message, with
 *     the end of the one before or, if the ACK was of the first packet of a message, with the beginning of the next
 *     (near_reset_wrong_opcode()); or to a place below, with what is known one place lower (near_fp_one_too_high()). As no
 *     responder takes what comes of it, it is refused (refuse_lost_count()).
 *   - A packet may have forged addresses.
 *
 * A new incarnation comes again, round after round. So after such a packet the flow takes and says nothing until the host
 * has begun a new round. The same packet again confirms the reset. A packet that is the known one at its place, or the
 * expected one, ends the suspicion, and so do SUSPECT_ROUNDS without the first one. Two cases need no confirmation: a
 * packet after a long silence, and one further back than a host's window reaches.
 *
 * A packet that is the same as the one that was there need not be a repetition: programs begin their lives with the
 * same words, at the same PSN, and numbers of queue pairs come again. An ACK out of memory would then be a lie. It can
 * only be a repetition if it was never ACKed; if the host was heard, or ACKed, so shortly before that no queue pair can
 * have been reset since; if it goes on with the round that it was heard in; or if it lies far from where lives of this
 * queue pair begin, and within the time in which hosts repeat. Else nobody but the responder can tell, and the packet
 * crosses as the beginning of a life (near_succeed_in_doubt()). The arena knows when the host of a rebuilt flow was
 * heard last: its edge may have been down for as long as a job takes to be started again.
 *
 * Ahead of pos_next it is the same in the other direction. A live QP always comes back to pos_next, as nothing beyond
 * it was ever ACKed. Rounds that begin with one and the same packet ahead of it are a new life (AHEAD_ROUNDS, as the
 * first packets of a round may get lost). */
#include "near_priv.h"
#include "near_fp.h"

#include <isa-l/crc.h>

#define REBIRTH_MIN_NS   200000000ull   /* no job is started again sooner, and hosts repeat sooner */
#define REBIRTH_KILLED_NS 500000000ull /* with a restart of the edge in between, which takes 100 to 300 ms */
#define RETRY_MAX_NS     10000000000ull /* no host repeats later: rdma_cm picks 2.1 s, which may stretch fourfold */
#define ROUND_NS         1000000ull     /* no host repeats on its own account sooner */
#define ROUND_GOES_ON_NS 500000000ull   /* the rest of a round may wait so long in a queue, or for a processor */
#define ROUND_MAX_NS     20000000ull    /* what it sends so long after the beginning of a round need not be of it */
#define SILENCE_NS       1000000000ull  /* a host with something outstanding repeats sooner */
#define WINDOW_REACH     512 /* positions below what was ACKed; rxe, which gets confused, has 129 outstanding */
#define SUSPECT_ROUNDS   3
#define WRONG_ROUNDS     3
#define AT_PLACE_NS      2000000000ull /* a life that begins exactly at pos_next is rare, a host that has lost count less so */
#define AHEAD_ROUNDS     3
#define AHEAD_ROUNDS_AWAY 6 /* of a host that was sent away: 97 ms of a ConnectX, which gives up after 300 */

/* Within reach of where the queue pair's lives begin, on either side: the first packet that was seen may have been
 * overtaken by others, and a new life's first ones may be lost. */
static bool near_origin(const struct near_flow *f, uint64_t pos)
{
	return ((pos_psn(pos) - f->psn_origin + WINDOW_REACH) & ROCE_PSN_MASK) < 2 * WINDOW_REACH;
}

bool near_surely_again(const struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	uint64_t heard_ns = max_u64(f->alive_ns, f->acked_ns);
	bool in_this_life = heard_ns >= f->rebuilt_ns; /* of the edge */

	/* never ACKed: no answer depends on it but the responder's, which may be a refusal that is on its way; of a flow that
	 * has failed the refusal has been told, and its queue pair may have been recovered */
	if ((pos >= f->pos_acked && !f->failed) || f->failing || FAULT(FAULT_MEMORY_DECIDES))
		return true;
	if (p->now_ns < heard_ns + (in_this_life ? REBIRTH_MIN_NS : REBIRTH_KILLED_NS))
		return true;
	if (pos > f->alive_pos && p->now_ns < f->alive_ns + ROUND_GOES_ON_NS)
		return true;
	return p->now_ns < max_u64(f->alive_ns, f->rebuilt_ns) + RETRY_MAX_NS && !near_origin(f, pos);
}

void near_reset_wait(const struct proxy *p, struct near_flow *f, uint64_t pos, uint32_t fp)
{
	f->reset = (struct near_reset){.waits = true, .pos = pos, .fp = fp, .pos_last = pos, .round_ns = p->now_ns,
	                               .lost_count_ns = f->reset.lost_count_ns};
}

/* What it is known by goes with what is delivered, so it is looked for in each packet of a suspicion. */
static void look_for_lost_count(struct proxy *p, struct near_flow *f, uint64_t pos, uint32_t fp)
{
	if (near_fp_one_too_high(p, f, pos, fp))
		f->reset.lost_count_ns = p->now_ns;
}

bool near_reset_lost_count(const struct proxy *p, const struct near_flow *f)
{
	uint64_t seen_ns = f->reset.lost_count_ns;

	return seen_ns && p->now_ns < seen_ns + RETRY_MAX_NS;
}

enum near_life near_reset_below(struct proxy *p, struct near_flow *f, uint64_t pos, uint32_t fp)
{
	look_for_lost_count(p, f, pos, fp);
	if (f->silent_ns >= SILENCE_NS || pos + WINDOW_REACH < f->pos_acked || FAULT(FAULT_STRANGER_BELIEVED))
		return LIFE_NEW;
	near_reset_wait(p, f, pos, fp);
	return LIFE_UNSURE;
}

/* The round that was seen to begin ahead of pos_next may still go on. Not if the flow has gone past that place
 * meanwhile (the length of a READ was learned, and what was held behind it taken), nor after a while: its life may be
 * over. */
static bool ahead_stands(const struct proxy *p, const struct near_flow *f)
{
	const struct near_rounds *r = &f->reset.ahead;
	bool past = r->pos < f->pos_next && r->pos + FLOW_SPAN_MAX >= f->pos_next;

	return !past && p->now_ns < r->last_ns + ROUND_MAX_NS;
}

/* The last READ, of which nobody knows how many PSNs it owns, may own all in front of the packet; and while the line is
 * silent nobody can learn it. */
static bool behind_unknown_read(const struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	const struct rd_op *op = f->psns_unknown ? near_op_at(f, f->pos_next - 1) : NULL;
	bool silent = p->now_ns > p->last_rx_ns + 2 * p->cfg.keepalive_ns;

	return op && pos >= f->pos_next && (silent || pos <= op->pos + roce_read_psns(op->len, 256));
}

/* One packet more at pos. True if it begins a further round at the place where the one before began, with the same packet. */
static bool count_round(struct near_rounds *r, uint64_t pos, uint32_t fp, uint64_t now_ns)
{
	if (r->pos != pos || r->fp != fp) {
		*r = (struct near_rounds){.pos = pos, .fp = fp, .n = 1, .first_ns = now_ns, .last_ns = now_ns};
		return false;
	}
	if (now_ns < r->last_ns + ROUND_NS)
		return false;
	r->last_ns = now_ns;
	if (r->n < UINT8_MAX)
		r->n++;
	return true;
}

enum near_life near_reset_ahead(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos,
                                uint32_t fp)
{
	struct near_rounds *r = &f->reset.ahead;
	bool possible = pos <= f->pos_next + FLOW_SPAN_MAX && pos + FLOW_SPAN_MAX >= f->pos_next;

	if (!near_starts_message(pkt) || behind_unknown_read(p, f, pos))
		return LIFE_SAME;
	if (r->n && pos > r->pos && ahead_stands(p, f))
		return LIFE_SAME; /* of the round that began there */
	if (!count_round(r, pos, fp, p->now_ns))
		return LIFE_SAME;
	if (!possible)
		return r->n >= 2 ? LIFE_NEW : LIFE_SAME;
	/* The first round is what came behind the packet that was refused, and nobody is told of a gap behind that: where
	 * the LAN loses one packet in twenty the refused one is lost twice in a row, and the life was taken for over. The
	 * next one waited in silence for the end of the first, and its host gave up. */
	return r->n >= (f->rnr_back_pressure ? AHEAD_ROUNDS_AWAY : AHEAD_ROUNDS) ? LIFE_NEW : LIFE_SAME;
}

bool near_reset_wrong_opcode(struct proxy *p, struct near_flow *f, uint32_t fp)
{
	struct near_rounds *r = &f->reset.wrong;

	look_for_lost_count(p, f, f->pos_next, fp);
	return count_round(r, f->pos_next, fp, p->now_ns) && r->n >= WRONG_ROUNDS && !FAULT(FAULT_WRONG_OPCODE_UNSAID);
}

bool near_reset_too_soon(const struct near_flow *f)
{
	return f->reset.wrong.first_ns < f->alive_ns + AT_PLACE_NS;
}

void near_reset_came_back(struct near_flow *f)
{
	f->reset.ahead.n = 0;
}

/* Only the life that is known can have sent this. */
static bool known(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t fp,
                  bool begins_round)
{
	bool starts = near_starts_message(pkt);

	if (pos == f->pos_next)
		return begins_round && starts && near_in_sequence(f, pkt->opcode);
	if (pos > f->pos_next)
		return false;
	if (!starts && arena_find(p->arena, SLOT_REQ_NEAR, f->idx, pos) == SLOT_NONE)
		return false;
	return near_fp_check(p, f, pos, fp, starts) == FP_SAME;
}

enum near_life near_reset_judge(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos,
                                uint32_t fp)
{
	struct near_reset *s = &f->reset;
	bool begins_round = pos <= s->pos_last && p->now_ns >= s->round_ns + ROUND_NS;

	look_for_lost_count(p, f, pos, fp);
	s->pos_last = pos;
	if (begins_round) {
		s->rounds++;
		s->round_ns = p->now_ns;
	}
	if (!s->rounds)
		return LIFE_UNSURE;
	if (pos == s->pos && fp == s->fp)
		return LIFE_NEW;
	if (s->rounds < SUSPECT_ROUNDS && !known(p, f, pkt, pos, fp, begins_round))
		return LIFE_UNSURE;
	s->waits = false;
	return LIFE_SAME;
}

/* --- fingerprints of requests: what tells a repetition from another packet at its PSN.
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

bool near_fp_one_too_high(struct proxy *p, const struct near_flow *f, uint64_t pos, uint32_t fp)
{
	uint32_t before = ((fp ^ pos_psn(pos) ^ pos_psn(pos - 1)) & ~FP_COUNTS) | 1u;

	return pos > f->pos_base && pos <= f->pos_next && near_fp_check(p, f, pos - 1, before, true) == FP_SAME;
}

bool near_fp_messages_from(struct proxy *p, const struct near_flow *f, uint64_t pos, uint32_t *n)
{
	uint32_t back = (uint32_t)(f->pos_next - pos), i = f->fp_count;

	*n = 0;
	if (pos > f->pos_next)
		return false;
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
