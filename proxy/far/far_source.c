/* SPDX-License-Identifier: Apache-2.0 */
/* far_source.c - far as a source of the transport.
 *
 * Theory of operation
 *
 * Responses cross as slots, which are freed once the near edge has them. FLOW_REPORT and FLOW_PAIR cross as frames, in
 * the order in which reports are due. After the loss of a report a new one is sent, with the flow's newest state. */
#include "far_priv.h"

#include "proxy/wan/share.h"
#include "proxy/wan/wan_lane.h"

/* --- frames --- */

static bool put_pair(struct wan_build *b, struct far_flow *f)
{
	struct wan_flow_pair pair;
	size_t room, n;
	uint8_t *at = wan_build_room(b, &room);

	if (wan_build_places(b) < 2) /* its report goes with it */
		return false;
	far_pair_frame(f, &pair);
	n = wan_flow_pair_put(at, room, &pair);
	if (!n)
		return false;
	wan_build_frame(b, n, WF_FLOW_PAIR, f->idx, (uint16_t)f->inc);
	f->pair_due = false;
	return true;
}

static bool put_report(struct proxy *p, struct wan_build *b, struct far_flow *f)
{
	struct wan_flow_report r;
	size_t room, n;
	uint8_t *at;

	if (!wan_build_places(b) || (f->pair_due && !put_pair(b, f)))
		return false;
	far_report_frame(p, f, &r);
	at = wan_build_room(b, &room);
	n = wan_flow_report_put(at, room, &r);
	if (!n)
		return false;
	wan_build_frame(b, n, WF_FLOW_REPORT, f->idx, (uint16_t)f->inc);
	return true;
}

static void put_reports(struct proxy *p, struct lane *l, struct wan_build *b, uint64_t until_ns)
{
	struct dnode *reports = &p->far_lanes[l->id].reports, *n;

	while ((n = dlist_first(reports))) {
		struct far_flow *f = dlist_entry(n, struct far_flow, report_node);

		if (f->report_at_ns > until_ns) {
			wan_lane_wake_at(p, l, f->report_at_ns);
			return;
		}
		if (!put_report(p, b, f))
			return;
		dlist_remove(n);
	}
}

static enum wan_due control_due(const struct proxy *p, const struct lane *l)
{
	const struct dnode *n = dlist_first(&p->far_lanes[l->id].reports);
	const struct far_flow *f = n ? dlist_entry(n, struct far_flow, report_node) : NULL;

	if (f && f->pair_due)
		return WAN_DUE_AT_ONCE; /* its host's retries run */
	return f && f->report_at_ns <= p->now_ns ? WAN_DUE : WAN_DUE_NOT;
}

static void on_timer(struct proxy *p, struct lane *l)
{
	struct dnode *n = dlist_first(&p->far_lanes[l->id].reports);
	struct far_flow *f = n ? dlist_entry(n, struct far_flow, report_node) : NULL;

	if (!f)
		return;
	if (f->report_at_ns <= p->now_ns)
		wan_lane_schedule(p, l);
	else
		wan_lane_wake_at(p, l, f->report_at_ns);
}

static void frame_lost(struct proxy *p, struct lane *l, uint8_t type, uint32_t id, uint16_t gen)
{
	struct far_flow *f = &p->far[id];

	(void)l;
	if (f->state == FAR_FREE || (uint16_t)f->inc != gen)
		return;
	f->pair_due |= type == WF_FLOW_PAIR;
	far_report(p, f, true);
}

static bool on_frame(struct proxy *p, struct lane *l, const struct wan_frame *f)
{
	union {
		struct wan_flow_open open;
		struct wan_flow_close close;
		struct wan_read_again again;
		struct wan_resp_credit credit;
	} u;
	bool ok;

	switch (f->type) {
	case WF_FLOW_OPEN:
		if ((ok = wan_flow_open_get(f, &u.open)))
			far_on_open(p, l, &u.open);
		break;
	case WF_FLOW_CLOSE:
		if ((ok = wan_flow_close_get(f, &u.close)))
			far_on_close(p, &u.close);
		break;
	case WF_RESP_CREDIT:
		if ((ok = wan_resp_credit_get(f, &u.credit)))
			far_on_resp_credit(p, l, &u.credit);
		break;
	default:
		if ((ok = wan_read_again_get(f, &u.again)))
			far_on_again(p, l, &u.again);
		break;
	}
	return ok;
}

/* --- packets --- */

static void name_packet(struct proxy *p, const struct slot_hdr *h, struct wan_packet *w)
{
	w->kind = WP_RESPONSE;
	w->flow = p->far[h->flow].peer_flow;
}

static bool packet_over(const struct proxy *p, const struct slot_hdr *h)
{
	const struct far_flow *f = &p->far[h->flow];

	return f->state == FAR_FREE || f->stale_epoch;
}

static void slot_held(struct proxy *p, uint32_t slot, const struct slot_hdr *h, int64_t bytes)
{
	struct far_flow *f = &p->far[h->flow];

	if (h->kind == SLOT_RESP_FAR && bytes > 0) {
		far_response_here(f, h->pos);
	} else if (h->kind == SLOT_RESP_FAR) {
		f->nresps--;
	} else {
		if (f->held_bytes == 0)
			share_begin(p, &f->share);
		f->held_bytes += (uint64_t)bytes;
		if (bytes > 0)
			dlist_append(&f->slots, &arena_meta(p->arena, slot)->node);
	}
	if (bytes < 0)
		far_place_left(p, f);
}

/* nwaiting counts flows with a response to send now; a flow whose responses are all under way has none. */
static void slot_waits(struct proxy *p, const struct slot_hdr *h, bool waits)
{
	struct far_flow *f = &p->far[h->flow];
	uint32_t before = f->resps_to_go;

	if (waits)
		f->resps_to_go++;
	else if (before)
		f->resps_to_go--;
	lane_of(p, f->lane)->nwaiting[SOURCE_FAR] += (uint32_t)((f->resps_to_go != 0) - (before != 0));
}

const struct wan_source far_source = {
    .name = "far",
    .frames_sent = 1ull << WF_FLOW_REPORT | 1ull << WF_FLOW_PAIR,
    .frames_taken = 1ull << WF_FLOW_OPEN | 1ull << WF_READ_AGAIN | 1ull << WF_RESP_CREDIT | 1ull << WF_FLOW_CLOSE,
    .packets_taken = 1u << WP_REQUEST,
    .slot_kinds = 1u << SLOT_REQ_FAR | 1u << SLOT_RESP_FAR,
    .control_due = control_due,
    .put_control = put_reports,
    .name_packet = name_packet,
    .packet_over = packet_over,
    .refused_first = far_refused_first,
    .frame_lost = frame_lost,
    .on_packet = far_on_packet,
    .on_frame = on_frame,
    .slot_held = slot_held,
    .slot_waits = slot_waits,
    .on_timer = on_timer,
};
