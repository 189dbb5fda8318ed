/* SPDX-License-Identifier: Apache-2.0 */
/* far_report.c - FLOW_REPORT and FLOW_PAIR of a far flow: received, delivered, credit, state, pair.
 *
 * Reports of a flow are delayed and merged for a part of the round trip. Reports that a host waits for (mode host, a
 * refusal, a new pair) go at once. Credit is the part of the pool that the flow may hold (share.c). Credit is lowered
 * only by eviction of packets that have come already (far_evict.c). */
#include "far_priv.h"

#include "proxy/wan/share.h"
#include "proxy/wan/wan_lane.h"

#define REPORT_MIN_NS 50000ull
#define REPORT_MAX_NS 1000000ull

static uint64_t credit_for(const struct proxy *p, const struct far_flow *f)
{
	uint64_t bytes = share_limit(p, &f->share, POOL_WAN, f->held_bytes, SHARE_REPAIRS);
	uint32_t slot_bytes = arena_class_bytes((uint16_t)((f->pmtu ? f->pmtu : LAN_MTU_PAYLOAD_MAX) + 84));

	return f->pos_acked + max_u64(bytes / slot_bytes, share_positions(p, &f->share, POOL_WAN, f->held_bytes));
}

void far_report_frame(struct proxy *p, struct far_flow *f, struct wan_flow_report *r)
{
	uint64_t credit = min_u64(credit_for(p, f), f->pos_acked + FLOW_SPAN_MAX / 2);

	if (far_is_open(f))
		f->pos_credit = max_u64(f->pos_credit, credit); /* 0 says that FLOW_OPEN is missing */
	*r = (struct wan_flow_report){
	    .flow = f->peer_flow,
	    .inc = f->inc,
	    .received = f->base_fixed ? f->pos_rx : 0, /* else it may begin lower, and all of this be too high */
	    .delivered = f->base_fixed ? f->pos_acked : 0,
	    .credit = f->pos_credit,
	    .again_round = f->again_round,
	    .again_from = f->again_from,
	    .nak_pos = f->nak_pos,
	    .state = WFS_OK,
	    .syndrome = f->syndrome,
	    .lost = f->state == FAR_LOST,
	    .keeps_all = f->keeps_all,
	};
	if (f->rnr)
		r->state = WFS_RNR;
	if (f->stalled)
		r->state = WFS_STALLED;
	if (far_has_failed(f))
		r->state = WFS_FAILED;
}

void far_pair_frame(const struct far_flow *f, struct wan_flow_pair *r)
{
	*r = (struct wan_flow_pair){
	    .flow = f->peer_flow,
	    .inc = f->inc,
	    .pos_base = f->pos_base,
	    .at_pos = f->pair_at_pos,
	    .msn = f->pair_msn,
	    .requester_qpn = f->requester_qpn,
	    .confirmed = f->pairing == PAIR_CONFIRMED,
	    .msn_late = f->pair_count == COUNT_LATE,
	    .template_len = f->template_len,
	    .template = f->template,
	};
}

void far_report(struct proxy *p, struct far_flow *f, bool at_once)
{
	struct lane *l = lane_of(p, f->lane);
	struct dnode *reports = &p->far_lanes[f->lane].reports;
	uint64_t delay = proxy_rtt_min_ns(p) / 16;

	if (delay < REPORT_MIN_NS)
		delay = REPORT_MIN_NS;
	if (delay > REPORT_MAX_NS)
		delay = REPORT_MAX_NS;
	if (f->stale_epoch)
		return;
	if (!at_once) {
		if (dnode_on(&f->report_node))
			return;
		f->report_at_ns = p->now_ns + delay;
		dlist_append(reports, &f->report_node);
		wan_lane_wake_at(p, l, f->report_at_ns);
		return;
	}
	dlist_remove(&f->report_node);
	f->report_at_ns = 0;
	dlist_append(reports->next, &f->report_node); /* in front of the first */
	wan_lane_schedule(p, l);
}
