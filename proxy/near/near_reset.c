/* SPDX-License-Identifier: Apache-2.0 */
/* near_reset.c - recognises by the contents of packets that a QP was reset.
 *
 * Theory of operation
 *
 * A host may reset its QP and begin again at any PSN, and no message says so. Two kinds of packets suggest a reset: one
 * whose fingerprint differs from the packet that was at its position, and one beyond everything that can be expected.
 * But not every such packet begins a new incarnation:
 *
 *   - Linux rxe (6.1) sends the rest of a message again when a timeout overtakes the completion of that message. This
 *     rest is a WRITE or SEND of no bytes at the PSN of the next message, and all packets behind it have PSNs one too
 *     high. The next round of rxe is right again. If such a round were taken for a reset, the bytes ACKed before would
 *     be lost. If the first packet of the round were ACKed, rxe would complete the wrong messages. If the packet at
 *     pos_next were taken, the responder would see opcodes out of order. An ACK that was already on its way leaves
 *     rxe's PSNs one too high for ever. Such a host has lost count. The packet of such a host at pos_next, in the
 *     middle of a message, is the end of the message before; or the beginning of the next one, if the ACK was of the
 *     first packet of a message (near_reset_wrong_opcode()). The packet of such a host below pos_next is the one known
 *     one position lower (near_fp_one_too_high()). No responder takes such packets, so the host is refused
 *     (refuse_lost_count()). A new incarnation with messages of another length may send such a packet by chance; but
 *     then other packets of its round are not those of one position lower (near_fp_is_new()).
 *   - A packet may have forged addresses.
 *
 * A new incarnation repeats its first packet round after round. So after a suspicious packet the flow takes no packet
 * and sends no answer until the host has begun a new round. The same packet again confirms the reset. The known packet
 * at its position, or the expected one, ends the suspicion; so do SUSPECT_ROUNDS without the suspicious packet. Two
 * cases need no confirmation: a packet after a long silence, and one further back than a host's window reaches.
 *
 * A packet with the known fingerprint need not be a repetition: programs begin each run with the same bytes at the same
 * PSN, and QPNs are used again. An ACK from memory would then be false. The packet can only be a repetition in one of
 * these cases:
 *   - it was never ACKed;
 *   - the host was heard, or ACKed, so shortly before that no QP can have been reset since;
 *   - it continues the round in which the host was heard;
 *   - it lies far from the PSN where incarnations of this QP begin, and within the time in which hosts repeat.
 * In all other cases only the responder knows, and the packet crosses as the first of an incarnation in doubt
 * (near_succeed_in_doubt()). For a rebuilt flow the arena says when the host was heard last: the edge may have been
 * down for as long as a job takes to restart.
 *
 * A live QP always comes back to pos_next, as nothing beyond pos_next was ever ACKed. So several rounds that begin with
 * the same packet ahead of pos_next are a new incarnation (AHEAD_ROUNDS, as the first packets of a round may be
 * lost). */
#include "near_priv.h"
#include "near_fp.h"

#include <isa-l/crc.h>

#define REBIRTH_MIN_NS    200000000ull   /* no job is started again sooner, and hosts repeat sooner */
#define REBIRTH_KILLED_NS 500000000ull   /* with a restart of the edge in between, which takes 100 to 300 ms */
#define RETRY_MAX_NS      10000000000ull /* no host repeats later: rdma_cm picks 2.1 s, which may stretch fourfold */
#define ROUND_NS          1000000ull     /* no host repeats on its own account sooner */
#define ROUND_GOES_ON_NS  500000000ull   /* the rest of a round may wait so long in a queue, or for a processor */
#define ROUND_MAX_NS      20000000ull    /* a packet so long after the beginning of a round need not belong to it */
#define SILENCE_NS        1000000000ull  /* a host with something outstanding repeats sooner */
#define WINDOW_REACH      512 /* positions below what was ACKed; rxe, which gets confused, has 129 outstanding */
#define SUSPECT_ROUNDS    3
#define WRONG_ROUNDS      3
#define AT_PLACE_NS       2000000000ull /* until then a wrong opcode at pos_next means a host that has lost count */
#define AHEAD_ROUNDS      3
#define AHEAD_ROUNDS_AWAY 6 /* for a host that was sent an RNR NAK: 97 ms of a ConnectX, which gives up after 300 */

/* True if pos is within WINDOW_REACH of psn_origin on either side: the first packet seen may have overtaken others, and
 * the first packets of a new incarnation may be lost. */
static bool near_origin(const struct near_flow *f, uint64_t pos)
{
	return ((pos_psn(pos) - f->psn_origin + WINDOW_REACH) & ROCE_PSN_MASK) < 2 * WINDOW_REACH;
}

bool near_surely_again(const struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	uint64_t heard_ns = max_u64(f->alive_ns, f->acked_ns);
	bool in_this_life = heard_ns >= f->rebuilt_ns; /* of the edge */

	/* A packet that was never ACKed gets no ACK from memory, and a flow that is failing will tell the responder's
	 * refusal. The host of a failed flow has been told the refusal, and may have reset its QP since. */
	if ((pos >= f->pos_acked && f->state != NEAR_FAILED) || f->state == NEAR_FAILING || FAULT(FAULT_REPETITION_ASSUMED))
		return true;
	if (p->now_ns < heard_ns + (in_this_life ? REBIRTH_MIN_NS : REBIRTH_KILLED_NS))
		return true;
	if (pos > f->alive_pos && p->now_ns < f->alive_ns + ROUND_GOES_ON_NS)
		return true;
	return p->now_ns < max_u64(f->alive_ns, f->rebuilt_ns) + RETRY_MAX_NS && !near_origin(f, pos);
}

void near_reset_wait(const struct proxy *p, struct near_flow *f, uint64_t pos, uint32_t fp)
{
	f->reset = (struct near_reset){.suspected = true,
	                               .pos = pos,
	                               .fp = fp,
	                               .pos_last = pos,
	                               .round_ns = p->now_ns,
	                               .lost_count_ns = f->reset.lost_count_ns};
}

/* A host that has lost count is recognised by a packet known one position lower. That packet is forgotten once it is
 * delivered, so each packet of a suspicion is compared. */
static void look_for_lost_count(struct proxy *p, struct near_flow *f, uint64_t pos, uint32_t fp)
{
	if (near_fp_one_too_high(p, f, pos, fp))
		f->reset.lost_count_ns = p->now_ns;
}

/* Notes a packet of a suspicion that is not the one of one position lower. One in a round of a host that has lost count
 * is none of the packets before: mostly the first. */
static void look_for_count(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos, uint32_t fp)
{
	bool edge = near_starts_message(pkt) || (roce_op(pkt->opcode)->flags & ROP_END);

	if (!near_fp_is_new(p, f, pos, fp, edge))
		return;
	f->reset.counts |= f->reset.new_pos && f->reset.new_pos != pos;
	f->reset.new_pos = f->reset.new_pos ? f->reset.new_pos : pos;
}

bool near_reset_lost_count(const struct proxy *p, const struct near_flow *f)
{
	uint64_t seen_ns = f->reset.lost_count_ns;

	return seen_ns && p->now_ns < seen_ns + RETRY_MAX_NS && !f->reset.counts;
}

enum reset_verdict near_reset_below(struct proxy *p, struct near_flow *f, uint64_t pos, uint32_t fp)
{
	look_for_lost_count(p, f, pos, fp);
	if (f->silent_ns >= SILENCE_NS || pos + WINDOW_REACH < f->pos_acked || FAULT(FAULT_RESET_BY_ONE_PACKET))
		return RESET_YES;
	near_reset_wait(p, f, pos, fp);
	return RESET_SUSPECTED;
}

/* True if the round that began ahead of pos_next may still go on. False after ROUND_MAX_NS, when the host may have
 * reset its QP, and if pos_next has moved past that position because the length of a READ was learned. */
static bool ahead_stands(const struct proxy *p, const struct near_flow *f)
{
	const struct near_rounds *r = &f->reset.ahead;
	bool past = r->pos < f->pos_next && r->pos + FLOW_SPAN_MAX >= f->pos_next;

	return !past && p->now_ns < r->last_ns + ROUND_MAX_NS;
}

/* True if the last READ, whose length in PSNs is unknown, may own all PSNs up to pos. While the line is silent the
 * READ's length cannot be learned, so the READ may own any PSN. */
static bool behind_unknown_read(const struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	const struct rd_op *op = f->psns_unknown ? near_op_at(f, f->pos_next - 1) : NULL;
	bool silent = p->now_ns > p->last_rx_ns + 2 * p->cfg.keepalive_ns;

	return op && pos >= f->pos_next && (silent || pos <= op->pos + roce_read_psns(op->len, 256));
}

/* Counts a packet at pos. True if it begins a further round at the position of the round before, with the same
 * packet. */
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

enum reset_verdict near_reset_ahead(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos,
                                    uint32_t fp)
{
	struct near_rounds *r = &f->reset.ahead;
	bool possible = pos <= f->pos_next + FLOW_SPAN_MAX && pos + FLOW_SPAN_MAX >= f->pos_next;

	if (!near_starts_message(pkt) || behind_unknown_read(p, f, pos))
		return RESET_NO;
	if (r->n && pos > r->pos && ahead_stands(p, f))
		return RESET_NO; /* part of the round that began at r->pos */
	if (!count_round(r, pos, fp, p->now_ns))
		return RESET_NO;
	if (!possible)
		return r->n >= 2 ? RESET_YES : RESET_NO;
	/* After an RNR NAK the packets behind the refused one make the first round, and no NAK is sent for a gap there.
	 * Where the LAN loses one packet in twenty, the refused packet was lost twice in a row. With AHEAD_ROUNDS that
	 * counted as a reset; the new flow waited unanswered for the older one to drain, and its host gave up. */
	return r->n >= (f->rnr_back_pressure ? AHEAD_ROUNDS_AWAY : AHEAD_ROUNDS) ? RESET_YES : RESET_NO;
}

bool near_reset_wrong_opcode(struct proxy *p, struct near_flow *f, uint32_t fp)
{
	struct near_rounds *r = &f->reset.wrong;

	look_for_lost_count(p, f, f->pos_next, fp);
	return count_round(r, f->pos_next, fp, p->now_ns) && r->n >= WRONG_ROUNDS &&
	       !FAULT(FAULT_WRONG_OPCODE_UNANSWERED);
}

bool near_reset_too_soon(const struct near_flow *f)
{
	return f->reset.wrong.first_ns < f->alive_ns + AT_PLACE_NS;
}

bool near_reset_goes_back(const struct proxy *p, const struct near_flow *f)
{
	return p->now_ns - f->notes.opened_ns >= ROUND_NS; /* opened_ns is 0 after a restart */
}

/* An answer left the responder half a round trip ago. An answer to the packet that came last comes a round trip behind
 * that packet. */
bool near_reset_is_possible(const struct proxy *p, const struct near_flow *f)
{
	uint64_t rtt = proxy_rtt_ns(p);

	return f->reset_possible || f->last_rx_ns <= f->rebuilt_ns ||
	       p->now_ns >= f->last_rx_ns + max_u64(REBIRTH_MIN_NS + rtt / 2, REBIRTH_MIN_NS / 4 + rtt);
}

void near_reset_note_silence(struct near_flow *f)
{
	f->reset_possible |= f->silent_ns >= REBIRTH_MIN_NS;
}

/* True if only the known incarnation can have sent the packet. */
static bool known_incarnation_sent(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos,
                                   uint32_t fp, bool begins_round)
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

enum reset_verdict near_reset_judge(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos,
                                    uint32_t fp)
{
	struct near_reset *s = &f->reset;
	bool begins_round = pos <= s->pos_last && p->now_ns >= s->round_ns + ROUND_NS;

	look_for_lost_count(p, f, pos, fp);
	s->pos_last = pos;
	if (begins_round) {
		s->rounds++;
		s->round_ns = p->now_ns;
	} else {
		look_for_count(p, f, pkt, pos, fp);
	}
	if (!s->rounds)
		return RESET_SUSPECTED;
	if (pos == s->pos && fp == s->fp)
		return RESET_YES;
	if (s->rounds < SUSPECT_ROUNDS && !known_incarnation_sent(p, f, pkt, pos, fp, begins_round))
		return RESET_SUSPECTED;
	s->suspected = s->counts = false;
	s->new_pos = 0;
	return RESET_NO;
}

/* --- fingerprints of requests: they tell a repetition from another packet at its PSN.
 *
 * Theory of operation
 *
 * A host repeats packets that it believes unanswered, and it may reset its QP and begin again at the same PSNs. A
 * repetition must be ACKed again; a packet of a new incarnation must not. The fingerprint tells them apart: opcode,
 * PSN, length, extended headers and payload.
 *
 * The slot header of a held packet has its fingerprint. For settled packets a ring in the arena has the fingerprints of
 * the starts and ends of the last messages, in position order: more messages than a host has outstanding, whatever
 * their sizes. A packet between start and end of such a message is FP_STALE. Such a packet may belong to either
 * incarnation: if the first packet of a new incarnation was lost, and the second were taken for a repetition, the host
 * would get an ACK of everything that the old one had. FP_STALE packets get no answer, which costs no host anything:
 * the end of the message brings the ACK. But a host may have sent all that its window holds without an end (rxe: 129
 * PSNs), and have lost the ACK of that. So a packet inside the message that is not over yet is FP_OPEN instead.
 */

#define MESSAGES  (FP_RING / 2) /* entries of two words: low half of the position, fingerprint */
#define FP_COUNTS 2u /* a bit of the second word that is no fingerprint: the MSN counts one more behind this packet */

static uint32_t *fp_entry(struct proxy *p, const struct near_flow *f, uint32_t i)
{
	return arena_fingerprints(p->arena, f->idx) + 2 * (size_t)(i % MESSAGES);
}

uint32_t near_fp_of(const uint8_t *l3, const struct roce_pkt *pkt, uint32_t payload_crc)
{
	uint32_t fp = crc32_gzip_refl(payload_crc, l3 + pkt->ext_off, (uint64_t)(pkt->hdr_len - pkt->ext_off));

	/* never 0: an unused place in the ring holds 0 */
	return ((fp ^ (uint32_t)pkt->opcode << 24 ^ pkt->payload_len * 0x9e3779b1u ^ pkt->psn) & ~FP_COUNTS) | 1u;
}

void near_fp_reset(struct proxy *p, struct near_flow *f)
{
	memset(arena_fingerprints(p->arena, f->idx), 0, FP_RING * sizeof(uint32_t));
	f->fp_count = 0;
	f->fp_before = false;
}

/* Number of positions by which the entry lies before pos, modulo 2^32; 2^31 or more: the entry lies behind pos. */
static uint32_t entry_before(struct proxy *p, const struct near_flow *f, uint32_t i, uint64_t pos)
{
	return (uint32_t)pos - fp_entry(p, f, i)[0];
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
		memcpy(m->words + 2 * i, fp_entry(p, f, hi - m->n + i), 2 * sizeof(uint32_t));
}

void near_fp_restore(struct proxy *p, struct near_flow *f, const struct fp_memory *m, uint32_t shift)
{
	for (uint32_t i = 0; i < m->n; i++) {
		uint32_t *e = fp_entry(p, f, i);

		e[0] = m->words[2 * i] + shift;
		e[1] = m->words[2 * i + 1];
	}
	f->fp_count = m->n;
	f->fp_before = m->n > 0;
}

void near_fp_trim(struct proxy *p, struct near_flow *f, uint64_t from)
{
	while (f->fp_count && !is_before(entry_before(p, f, f->fp_count - 1, from)))
		memset(fp_entry(p, f, --f->fp_count), 0, 2 * sizeof(uint32_t));
}

void near_fp_note(struct proxy *p, struct near_flow *f, const struct slot_hdr *h)
{
	uint32_t *e;

	if (!(h->flags & (SF_MSG_START | SF_MSG_END | SF_OWN_RESPONSE)))
		return;
	e = fp_entry(p, f, f->fp_count++);
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

		if ((uint32_t)f->pos_next - fp_entry(p, f, mid)[0] >= back)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0 || lo + MESSAGES == f->fp_count)
		return NULL;
	return fp_entry(p, f, lo - 1);
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
		return arena_hdr(p->arena, slot)->fp == fp ? FP_SAME : FP_DIFFERENT;
	e = pos >= f->pos_base || f->fp_before ? message_at(p, f, pos) : NULL;
	if (FAULT(FAULT_STALE_INCARNATION) || (e && !starts_message && FAULT(FAULT_MIDDLE_IS_REPETITION)))
		return FP_SAME;
	if (e && e[0] == (uint32_t)pos && (e[1] & ~FP_COUNTS) == fp)
		return FP_SAME;
	if (starts_message)
		return FP_DIFFERENT;
	return e && e[0] != (uint32_t)pos && e == fp_entry(p, f, f->fp_count - 1) && in_message(f) ? FP_OPEN : FP_STALE;
}

/* True if the packet that was at `at` differs from the one that comes at pos only by its PSN. */
static bool differs_by_psn_only(struct proxy *p, const struct near_flow *f, uint64_t at, uint64_t pos, uint32_t fp)
{
	uint32_t there = ((fp ^ pos_psn(pos) ^ pos_psn(at)) & ~FP_COUNTS) | 1u;

	return near_fp_check(p, f, at, there, true) == FP_SAME;
}

bool near_fp_one_too_high(struct proxy *p, const struct near_flow *f, uint64_t pos, uint32_t fp)
{
	if (pos <= f->pos_base || pos > f->pos_next || !differs_by_psn_only(p, f, pos - 1, pos, fp))
		return false;
	return !differs_by_psn_only(p, f, pos, pos, fp) && !differs_by_psn_only(p, f, pos - 2, pos, fp);
}

bool near_fp_is_new(struct proxy *p, const struct near_flow *f, uint64_t pos, uint32_t fp, bool edge)
{
	if (pos <= f->pos_base || pos >= f->pos_next || differs_by_psn_only(p, f, pos - 1, pos, fp) ||
	    near_fp_check(p, f, pos, fp, true) == FP_SAME)
		return false;
	if (arena_find(p->arena, SLOT_REQ_NEAR, f->idx, pos - 1) != SLOT_NONE)
		return true;
	/* Of settled packets only starts and ends are known: the inside of a message may be what was at pos. */
	return edge && message_at(p, f, pos - 1);
}

bool near_fp_messages_from(struct proxy *p, const struct near_flow *f, uint64_t pos, uint32_t *n)
{
	uint32_t back = (uint32_t)(f->pos_next - pos), i = f->fp_count;

	*n = 0;
	if (pos > f->pos_next)
		return false;
	while (i > 0 && f->fp_count - i < MESSAGES && (uint32_t)f->pos_next - fp_entry(p, f, i - 1)[0] <= back)
		*n += (fp_entry(p, f, --i)[1] & FP_COUNTS) != 0;
	return (pos >= f->pos_base || (f->fp_before && i > 0)) && f->fp_count - i < MESSAGES;
}

void near_fp_recover(struct proxy *p, struct near_flow *f)
{
	uint32_t best = UINT32_MAX, at = 0, used = 0;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		uint32_t back = entry_before(p, f, i, f->pos_settled);

		if (!fp_entry(p, f, i)[1])
			continue;
		used++;
		if (is_before(back) && back - 1 < best) { /* later ones are noted again from their slots */
			best = back - 1;
			at = i + 1;
		}
	}
	f->fp_count = used < MESSAGES ? at : at + MESSAGES;
}
