/* SPDX-License-Identifier: Apache-2.0 */
/* near_reset.c - recognises that a QP was reset, by what its packets contain.
 *
 * Theory of operation
 *
 * A host may reset its QP and begin again at any PSN, without a word that the edge could hear. What it sends then is a
 * stranger: another packet at a place that is taken, or one beyond all that could be expected. But not every stranger
 * is a new life:
 *
 *   - Linux rxe (6.1), when a timeout overtakes the completion of a message, sends what is left of that message: a
 * WRITE or SEND of no bytes at the PSN of the next message, and everything behind it numbered one too high. Its next
 * round is right again. To believe the stranger loses the bytes that were ACKed before it; to ACK it completes the
 * wrong messages; to take what comes at pos_next breaks the responder's order of opcodes.
 *   - A packet whose addresses are forged.
 *
 * What tells them apart is that a new life insists. So after a stranger the flow is deaf and silent until the host has
 * begun a new round: the same stranger again is a new life; a packet that is the known one at its place, or the
 * expected one, ends the suspicion, and so do SUSPECT_ROUNDS without the stranger. Two cases need no second witness: a
 * stranger after a long silence, and one further back than a host's window reaches.
 *
 * A packet that is the same as the one that was there need not be a repetition: programs begin their lives with the
 * same words, at the same PSN, and numbers of queue pairs come again. An ACK out of memory would then be a lie. It can
 * only be a repetition if it was never ACKed; if the host was heard, or ACKed, so shortly before that no queue pair can
 * have been reset since; if it goes on with the round that it was heard in; or if it lies far from where lives of this
 * queue pair begin, and within the time in which hosts repeat. Else nobody but the responder can tell, and the packet
 * crosses as the beginning of a life (near_succeed_in_doubt()).
 *
 * Ahead of pos_next it is the same in the other direction. A live QP always comes back to pos_next, as nothing beyond
 * it was ever ACKed. Rounds that begin with one and the same packet ahead of it are a new life (AHEAD_ROUNDS, as the
 * first packets of a round may get lost). */
#include "near_priv.h"

#include "near_fp.h"

#define REBIRTH_MIN_NS   200000000ull   /* no job is started again sooner, and hosts repeat sooner */
#define RETRY_MAX_NS     10000000000ull /* no host repeats later: rdma_cm picks 2.1 s, which may stretch fourfold */
#define ROUND_NS         1000000ull     /* no host repeats on its own account sooner */
#define ROUND_GOES_ON_NS 500000000ull   /* the rest of a round may wait so long in a queue, or for a processor */
#define ROUND_MAX_NS     20000000ull    /* what it sends so long after the beginning of a round need not be of it */
#define SILENCE_NS       1000000000ull  /* a host with something outstanding repeats sooner */
#define WINDOW_REACH     512 /* positions below what was ACKed; rxe, which gets confused, has 129 outstanding */
#define SUSPECT_ROUNDS   3
#define AHEAD_ROUNDS     3

/* Within reach of where the queue pair's lives begin, on either side: the first packet that was seen may have been
 * overtaken by others, and a new life's first ones may be lost. */
static bool near_origin(const struct near_flow *f, uint64_t pos)
{
	return ((pos_psn(pos) - f->psn_origin + WINDOW_REACH) & ROCE_PSN_MASK) < 2 * WINDOW_REACH;
}

bool near_surely_again(const struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	/* never ACKed: no answer depends on it but the responder's, which may be a refusal that is on its way */
	if (pos >= f->pos_acked || f->failing || FAULT(FAULT_MEMORY_DECIDES))
		return true;
	if (p->now_ns < max_u64(f->alive_ns, f->acked_ns) + REBIRTH_MIN_NS)
		return true;
	if (pos > f->alive_pos && p->now_ns < f->alive_ns + ROUND_GOES_ON_NS)
		return true;
	return p->now_ns < f->alive_ns + RETRY_MAX_NS && !near_origin(f, pos);
}

void near_reset_wait(const struct proxy *p, struct near_flow *f, uint64_t pos, uint32_t fp)
{
	f->reset = (struct near_reset){.waits = true, .pos = pos, .fp = fp, .pos_last = pos, .round_ns = p->now_ns};
}

enum near_life near_reset_below(struct proxy *p, struct near_flow *f, uint64_t pos, uint32_t fp)
{
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
	const struct near_reset *s = &f->reset;
	bool past = s->ahead_pos < f->pos_next && s->ahead_pos + FLOW_SPAN_MAX >= f->pos_next;

	return !past && p->now_ns < s->ahead_ns + ROUND_MAX_NS;
}

/* The last READ, of which nobody knows how many PSNs it owns, may own all in front of the packet; and while the line is
 * silent nobody can learn it. */
static bool behind_unknown_read(const struct proxy *p, const struct near_flow *f, uint64_t pos)
{
	const struct rd_op *op = f->psns_unknown ? near_op_at(f, f->pos_next - 1) : NULL;
	bool silent = p->now_ns > p->last_rx_ns + 2 * p->cfg.keepalive_ns;

	return op && pos >= f->pos_next && (silent || pos <= op->pos + roce_read_psns(op->len, 256));
}

enum near_life near_reset_ahead(struct proxy *p, struct near_flow *f, const struct roce_pkt *pkt, uint64_t pos,
                                uint32_t fp)
{
	struct near_reset *s = &f->reset;
	bool possible = pos <= f->pos_next + FLOW_SPAN_MAX && pos + FLOW_SPAN_MAX >= f->pos_next;

	if (!near_starts_message(pkt) || behind_unknown_read(p, f, pos))
		return LIFE_SAME;
	if (s->ahead_pos != pos || s->ahead_fp != fp) {
		if (s->ahead_rounds && pos > s->ahead_pos && ahead_stands(p, f))
			return LIFE_SAME; /* of the round that began there */
		s->ahead_pos = pos;
		s->ahead_fp = fp;
		s->ahead_rounds = 1;
		s->ahead_ns = p->now_ns;
		return LIFE_SAME;
	}
	if (p->now_ns < s->ahead_ns + ROUND_NS)
		return LIFE_SAME;
	s->ahead_ns = p->now_ns;
	s->ahead_rounds++;
	return s->ahead_rounds >= (possible ? AHEAD_ROUNDS : 2) ? LIFE_NEW : LIFE_SAME;
}

void near_reset_came_back(struct near_flow *f)
{
	f->reset.ahead_rounds = 0;
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
