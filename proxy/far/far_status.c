/* SPDX-License-Identifier: Apache-2.0 */
/* far_status.c - status and facts of a far flow, on request: its key and its history. */
#include "far_priv.h"

#include "proxy/shard/flow_history.h"

void far_flow_status(const struct far_flow *f, struct proxy_flow_status *s)
{
	*s = (struct proxy_flow_status){
	    .side = FLOW_FAR,
	    .flow = f->idx,
	    .inc = f->inc,
	    .src = f->src,
	    .dst = f->dst,
	    .vlan_tci = f->vlan_tci,
	    .dest_qpn = f->dest_qpn,
	    .requester_qpn = f->requester_qpn,
	    .pairing = f->pairing,
	    .mode = f->mode,
	    .pmtu = f->pmtu,
	    .pos_base = f->pos_base,
	    .pos_next = f->pos_rx,
	    .pos_acked = f->pos_tx,
	    .pos_delivered = f->pos_acked,
	    .buffered_bytes = f->held_bytes,
	    .bytes = f->bytes,
	    .messages = f->messages,
	    .stalled = f->stalled,
	    .rnr = f->rnr,
	};
}

void far_flow_facts(const struct far_flow *f, struct flow_facts *s)
{
	const struct flow_notes *n = &f->notes;

	*s = (struct flow_facts){
	    .n = n->n,
	    .opened_ns = n->opened_ns,
	    .responder_ns = f->last_progress_ns,
	    .repeat_ns = f->retried_ns,
	    .rnr_ns = n->rnr_ns,
	    .rnr_timer_ns = n->n.rnr_naks ? roce_rnr_timer_ns(n->rnr_timer) : 0,
	    .lan_rtt_ns = f->lan_srtt_ns,
	    .undelivered = f->pos_rx - min_u64(f->pos_acked, f->pos_rx),
	    .in_flight = f->pos_tx - min_u64(f->pos_acked, f->pos_tx),
	    .open_reads = f->nops,
	    .credit = f->pos_credit - min_u64(f->pos_credit, f->pos_acked),
	    .window_bytes = f->window_bytes,
	    .pos_max = f->pos_rx_max,
	    .fail_pos = far_has_failed(f) ? f->nak_pos : 0,
	    .psn_expected = pos_psn(f->pos_acked),
	    .msn = f->msgs_acked,
	    .syndrome = f->syndrome,
	    .failed = far_has_failed(f),
	    .leaving = f->leaving,
	    .doubted = f->doubted,
	};
}

void far_note_end(struct proxy *p, const struct far_flow *f)
{
	struct proxy_flow_view v;

	if (!far_is_keyed(f))
		return;
	far_flow_status(f, &v.status);
	far_flow_facts(f, &v.facts);
	v.facts.end = far_has_failed(f) ? FLOW_END_FAILED : FLOW_END_CLOSED;
	flow_history_add(p, &v);
}
