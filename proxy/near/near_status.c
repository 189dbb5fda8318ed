/* SPDX-License-Identifier: Apache-2.0 */
/* near_status.c - status and facts of a near flow, on request: its key, its history, and its ceiling with the
 * reason. */
#include "near_priv.h"

#include "proxy/shard/flow_history.h"

void near_flow_status(const struct proxy *p, const struct near_flow *f, struct proxy_flow_status *s)
{
	*s = (struct proxy_flow_status){
	    .side = FLOW_NEAR,
	    .flow = f->idx,
	    .inc = f->inc,
	    .src = f->src,
	    .dst = f->dst,
	    .vlan_tci = f->vlan_tci,
	    .dest_qpn = f->dest_qpn,
	    .requester_qpn = f->requester_qpn,
	    .pairing = f->pairing,
	    .mode = near_mode(p, f),
	    .pmtu = f->pmtu,
	    .pos_base = f->pos_base,
	    .pos_next = f->pos_next,
	    .pos_acked = f->pos_acked,
	    .pos_delivered = f->pos_reported,
	    .buffered_bytes = near_held(f),
	    .bytes = f->bytes,
	    .messages = f->messages,
	    .rnr_back_pressure = f->rnr_back_pressure,
	    .stalled = near_is_stalled(f),
	};
}

static enum ceiling_reason mode_reason(const struct proxy *p, const struct near_flow *f)
{
	enum ack_mode mode = near_mode(p, f);

	if (mode != f->mode)
		return CEILING_DEMOTED;
	return mode == ACK_MODE_NEAR ? CEILING_COMMITTED : mode == ACK_MODE_FAR ? CEILING_FAR_COMMITTED : CEILING_DELIVERED;
}

/* The case of near_ceiling_in() that decides. */
static enum ceiling_reason ceiling_reason(const struct proxy *p, const struct near_flow *f, uint64_t ceiling)
{
	const struct rd_op *op = near_op_open(f);

	if (f->pairing == PAIR_LEARNING || f->msn == MSN_UNKNOWN)
		return CEILING_LEARNING;
	if (f->state == NEAR_FAILED)
		return CEILING_FAILED;
	if (f->msn == MSN_LATE)
		return CEILING_COUNT_UNKNOWN;
	if (op && ceiling >= op->pos && ceiling < op->pos + op->psns)
		return CEILING_OPERATION;
	return mode_reason(p, f);
}

static bool lacks_end(const struct near_flow *f)
{
	return f->op_known && !(roce_op(f->op_last)->flags & (ROP_END | ROP_OWN_RESPONSE));
}

void near_flow_facts(const struct proxy *p, const struct near_flow *f, struct flow_facts *s)
{
	uint64_t ceiling = near_ceiling(p, f);

	*s = (struct flow_facts){
	    .n = f->notes.n,
	    .why = ceiling_reason(p, f, ceiling),
	    .opened_ns = f->notes.opened_ns,
	    .paired_ns = f->notes.paired_ns,
	    .host_ns = f->last_rx_ns,
	    .responder_ns = f->heard_ns,
	    .acked_ns = f->acked_ns,
	    .repeat_ns = f->notes.repeat_ns,
	    .rnr_ns = f->notes.rnr_ns,
	    .begun_repeat_ns = f->notes.begun_repeat_ns,
	    .most_unacked = max_u64(f->notes.most_unacked, f->pos_next - f->pos_acked),
	    .unacked = f->pos_next - f->pos_acked,
	    .undelivered = f->pos_next - min_u64(f->pos_reported, f->pos_next),
	    .gap_packets = f->ooo_pkts,
	    .open_reads = f->nops - f->ops_done,
	    .wan_unsent = f->pos_next - min_u64(f->pos_wan, f->pos_next),
	    .credit = f->credit_known ? f->pos_credit - min_u64(f->pos_credit, f->pos_reported) : 0,
	    .pos_max = f->pos_max,
	    .pos_far = f->pos_far,
	    .pos_settled = f->pos_settled,
	    .pos_ceiling = ceiling,
	    .fail_pos = near_is_refused(f) ? f->fail_pos : 0,
	    .psn_expected = pos_psn(f->pos_next),
	    .msn = f->msn_next,
	    .syndrome = f->nak_syndrome,
	    .failed = near_is_refused(f),
	    .doubted = f->doubted,
	    .demoted = f->demotion != DEMOTED_NOT,
	    .superseded = f->superseded,
	    .draining = f->newer != NULL,
	    .in_message = lacks_end(f),
	};
}

static enum flow_end end_of(const struct near_flow *f)
{
	if (near_is_refused(f))
		return FLOW_END_FAILED;
	if (f->newer)
		return FLOW_END_REPLACED;
	return f->pairing == PAIR_LEARNING ? FLOW_END_UNANSWERED : FLOW_END_FORGOTTEN;
}

void near_note_end(struct proxy *p, const struct near_flow *f)
{
	struct proxy_flow_view v;

	near_flow_status(p, f, &v.status);
	near_flow_facts(p, f, &v.facts);
	v.facts.end = end_of(f);
	flow_history_add(p, &v);
}

/* A repetition after a shorter pause is not by the host's ACK timer: the host was asked to repeat by a NAK, its RNR
 * wait ended, or it had gone back already. */
#define SILENCE_MIN_NS 400000u

void near_note_repeat(const struct proxy *p, struct near_flow *f, uint64_t pos)
{
	uint64_t before_ns = p->now_ns - f->silent_ns, waited_ns;
	bool asked = f->rnr_sent_ns > before_ns || f->naked_ns > before_ns;

	f->notes.n.repeats++;
	f->notes.n.repeats_acked += pos < f->pos_acked;
	f->notes.repeat_ns = p->now_ns;
	if (pos > f->pos_last_rx || f->silent_ns < SILENCE_MIN_NS || asked)
		return;
	/* the host's timer began at the last ACK or at its last repetition, even if it has sent more since */
	waited_ns = max_u64(f->acked_ns, f->notes.round_ns);
	waited_ns = waited_ns ? p->now_ns - waited_ns : f->silent_ns;
	f->notes.round_ns = p->now_ns;
	f->notes.n.silent_repeats++;
	if (!f->notes.begun_repeat_ns || waited_ns < f->notes.begun_repeat_ns)
		f->notes.begun_repeat_ns = waited_ns;
}
