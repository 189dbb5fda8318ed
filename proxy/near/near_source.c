/* SPDX-License-Identifier: Apache-2.0 */
/* near_source.c - near as a source of the transport.
 *
 * Theory of operation
 *
 * Requests of near flows cross as slots, which stay until the responder has them. FLOW_OPEN, READ_AGAIN, RESP_CREDIT
 * and FLOW_CLOSE cross as frames. Flows that have something to send are in lane.ready[SOURCE_NEAR] and take turns of
 * one datagram each. */
#include "near_priv.h"

#include "proxy/wan/share.h"
#include "proxy/wan/wan_lane.h"

#define AGAIN_FRAME_MAX 160 /* IPv6, UDP, BTH, RETH, ICRC behind the frame's own fields */

/* --- frames --- */

void near_queue_close(struct proxy *p, struct lane *l, uint32_t flow, uint32_t inc)
{
	struct rd_op *op = rd_op_take(p, OP_FOR_CLOSE); /* an rd_op serves as the record of flow and incarnation */

	if (!op)
		return; /* the far edge keeps an idle descriptor until its table is full */
	op->pos = (uint64_t)flow << 32 | inc;
	dlist_append(&p->near_lanes[l->id].closes, &op->node);
	wan_lane_schedule(p, l);
}

static void put_closes(struct proxy *p, struct lane *l, struct wan_build *b, uint64_t until_ns)
{
	struct dnode *closes = &p->near_lanes[l->id].closes;

	(void)until_ns; /* a close is due at once */
	while (!dlist_empty(closes) && wan_build_places(b)) {
		struct rd_op *op = dlist_entry(dlist_first(closes), struct rd_op, node);
		struct wan_flow_close c = {.flow = (uint32_t)(op->pos >> 32), .inc = (uint32_t)op->pos};
		size_t room;
		uint8_t *at = wan_build_room(b, &room);
		size_t n = wan_flow_close_put(at, room, &c);

		if (!n)
			return;
		/* Not repaired: a far flow that is never closed is idle and superseded when its index is used again. */
		wan_build_frame(b, n, WF_FLOW_CLOSE, c.flow, 0);
		rd_op_give(p, op);
	}
}

/* False: does not fit. */
static bool put_open(struct proxy *p, struct wan_build *b, struct near_flow *f)
{
	struct wan_flow_close over = {.flow = f->replaced_flow, .inc = f->replaced_inc};
	struct wan_flow_open o;
	size_t room, n, before = 0;
	uint8_t *at = wan_build_room(b, &room);

	if (!wan_build_places(b))
		return false;
	/* FLOW_CLOSE of the incarnation before goes in front: its packets must not reach the queue pair any more. */
	if (f->replaces && !f->older)
		before = wan_flow_close_put(at, room, &over);
	near_open_frame(p, f, &o);
	n = wan_flow_open_put(at + before, room - before, &o);
	if (!n)
		return false;
	wan_build_frame(b, before + n, WF_FLOW_OPEN, f->idx, (uint16_t)f->inc);
	f->announce = ANNOUNCE_DONE;
	return true;
}

/* A READ_AGAIN of the flow, if one is due. False: there is no room for it in this datagram. */
static bool put_again(struct proxy *p, struct wan_build *b, struct near_flow *f)
{
	uint8_t packet[LAN_PKT_MAX], *at;
	struct wan_read_again r;
	size_t room;

	at = wan_build_room(b, &room);
	if (!wan_build_places(b) || room < AGAIN_FRAME_MAX)
		return false;
	if (!near_again_frame(p, f, packet, &r))
		return true;
	wan_build_frame(b, wan_read_again_put(at, room, &r), WF_READ_AGAIN, f->idx, (uint16_t)f->inc);
	count(p, CTR_READS_AGAIN, 1);
	return true;
}

/* False: does not fit. */
static bool put_credit(struct proxy *p, struct wan_build *b, struct near_flow *f)
{
	struct wan_resp_credit c;
	size_t room, n;
	uint8_t *at = wan_build_room(b, &room);

	if (!wan_build_places(b))
		return false;
	near_credit_frame(p, f, &c);
	n = wan_resp_credit_put(at, room, &c);
	if (!n)
		return false;
	wan_build_frame(b, n, WF_RESP_CREDIT, f->idx, (uint16_t)f->inc);
	near_credit_sent(p, f, &c);
	return true;
}

static void frame_lost(struct proxy *p, struct lane *l, uint8_t type, uint32_t id, uint16_t gen)
{
	struct near_flow *f = &p->near[id];

	(void)l;
	if (type == WF_FLOW_CLOSE || !near_in_use(f) || (uint16_t)f->inc != gen)
		return;
	if (type == WF_READ_AGAIN) {
		near_again_lost(p, f);
		return;
	}
	if (type == WF_RESP_CREDIT)
		f->resp_credit_due = true;
	else
		near_announce(f);
	near_wan_schedule(p, f);
}

static bool on_frame(struct proxy *p, struct lane *l, const struct wan_frame *f)
{
	struct wan_flow_report report;
	struct wan_flow_pair pair;
	bool ok;

	if (f->type == WF_FLOW_REPORT) {
		if ((ok = wan_flow_report_get(f, &report)))
			near_on_report(p, l, &report);
	} else {
		if ((ok = wan_flow_pair_get(f, &pair)))
			near_on_pair(p, &pair);
	}
	return ok;
}

/* --- packets --- */

static void name_packet(struct proxy *p, const struct slot_hdr *h, struct wan_packet *w)
{
	w->kind = WP_REQUEST;
	w->flow = near_wire_id(p, &p->near[h->flow]);
}

/* True if the flow has nothing more that may be sent. A flow that waits for the lane's window stays on the list
 * (false), because progress of other flows opens the window and does not schedule this flow. */
static bool put_flow(struct proxy *p, struct wan_build *b, struct near_flow *f)
{
	bool begins = f->announce == ANNOUNCE_FIRST;
	uint32_t slot;

	if (near_open_is_due(f) && !put_open(p, b, f))
		return false;
	if (f->resp_credit_due && !put_credit(p, b, f))
		return false;
	while (f->agains_due && !near_wan_waits_for_older(f))
		if (!put_again(p, b, f))
			return false;
	while (!near_wan_waits_for_older(f) && near_wan_next(p, f, &slot)) {
		if (!wan_build_slot(b, slot))
			return false;
		near_wan_sent(f, arena_hdr(p->arena, slot));
		if (begins && f->pairing == PAIR_LEARNING)
			return false; /* the far edge probes with one packet: let other flows begin, too */
		if (!wan_build_pieces(b))
			return false; /* a large packet goes in pieces, before what is behind it */
	}
	if (f->resp_credit_due && !put_credit(p, b, f)) /* a READ that has just gone may ask for one */
		return false;
	return near_wan_waits_for_older(f) || !near_wan_awaits_lane(p, f);
}

static void put_new(struct proxy *p, struct lane *l, struct wan_build *b)
{
	struct dnode *flows = &l->ready[SOURCE_NEAR], *n;

	while (!wan_build_full(b) && (n = dlist_first(flows))) {
		struct near_flow *f = dlist_entry(n, struct near_flow, wan_node);

		if (!put_flow(p, b, f)) {
			if (f->goes_first && near_open_is_due(f))
				return; /* it did not fit */
			l->nfirst -= f->goes_first;
			f->goes_first = false;
			dlist_rotate(flows);
			return;
		}
		near_wan_leave(p, f);
	}
}

static void slot_held(struct proxy *p, uint32_t slot, const struct slot_hdr *h, int64_t bytes)
{
	struct near_flow *f = &p->near[h->flow];

	(void)slot;
	if (h->kind != SLOT_REQ_NEAR)
		return;
	if (bytes > 0 && near_held(f) == 0)
		share_begin(p, &f->share);
	near_count_held(p, f, bytes, 0);
	if (dnode_on(&f->unpaired_node))
		p->unpaired.bytes += (uint64_t)bytes;
	if (bytes < 0)
		near_place_left(p, f);
}

static void slot_out(struct proxy *p, const struct slot_hdr *h, int64_t bytes)
{
	if (h->kind == SLOT_REQ_NEAR)
		p->near[h->flow].out_bytes += (uint64_t)bytes;
}

static uint64_t waiting_behind(const struct proxy *p, const struct slot_hdr *h)
{
	return p->near[h->flow].out_bytes;
}

static enum wan_due control_due(const struct proxy *p, const struct lane *l)
{
	return dlist_empty(&p->near_lanes[l->id].closes) ? WAN_DUE_NOT : WAN_DUE;
}

/* proxy_session_start() puts the flows that have something to send on the list again. */
static void session_start(struct proxy *p, struct lane *l)
{
	while (!dlist_empty(&l->ready[SOURCE_NEAR]))
		near_wan_leave(p, dlist_entry(dlist_first(&l->ready[SOURCE_NEAR]), struct near_flow, wan_node));
}

static uint32_t wanting(const struct proxy *p)
{
	return p->near_wanting;
}

const struct wan_source near_source = {
    .name = "near",
    .frames_sent = 1ull << WF_FLOW_OPEN | 1ull << WF_READ_AGAIN | 1ull << WF_RESP_CREDIT | 1ull << WF_FLOW_CLOSE,
    .frames_taken = 1ull << WF_FLOW_REPORT | 1ull << WF_FLOW_PAIR,
    .packets_taken = 1u << WP_RESPONSE,
    .slot_kinds = 1u << SLOT_REQ_NEAR | 1u << SLOT_RESP_NEAR,
    .keeps_slots = true,
    .control_due = control_due,
    .put_control = put_closes,
    .put_new = put_new,
    .name_packet = name_packet,
    .waiting_behind = waiting_behind,
    .frame_lost = frame_lost,
    .on_packet = near_on_packet,
    .on_frame = on_frame,
    .wanting = wanting,
    .session_start = session_start,
    .slot_held = slot_held,
    .slot_out = slot_out,
};
