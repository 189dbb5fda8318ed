/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A lane has its own packet numbers, sent map, receive window and reports; the round trip is the path's. Its parts:
 * wan_build.c puts a datagram together, wan_pack.c the packets in it, wan_receive.c takes one apart, wan_outcome.c
 * does what follows from its arriving, being lost or refused. Here: the queues between them, and time.
 *
 * A slot that is to be sent is in at most one queue: first (responses and expendable packets that were never sent),
 * repair (units were lost), spaced (another copy, later). Requests are not queued slot by slot: their flows take turns
 * on near_list, and each knows the position it is at.
 *
 * All that a lane does by time is in one timer (wan_lane_on_timer): report delay, spaced copies, flow reports, probe.
 *
 * Probe timeout (RFC 9002 6.2): the peer is asked about everything from the oldest unresolved number on. Its report
 * names what is missing, and only that makes a loss. */
#include "wan_lane_priv.h"

#include "far.h"
#include "ip_carry.h"
#include "raw.h"

#define REPORT_DELAY_MIN   50000ull
#define REPORT_DELAY_MAX   1000000ull
#define PTO_CAP_NS         100000000ull
#define WINDOW_FIRST_BYTES (4u << 20)

void wan_lane_init(struct proxy *p, struct lane *l, uint8_t id, uint32_t *page_ring, uint32_t ring_len,
                   uint64_t *rx_bits)
{
	l->id = id;
	wan_sent_init(&l->sent, &p->sent_pool, page_ring, ring_len);
	wan_recv_init(&l->recv, rx_bits);
	timer_init(&l->service, TK_LANE, id);
	dlist_init(&l->near_list);
	dlist_init(&l->first);
	dlist_init(&l->repair);
	dlist_init(&l->spaced);
	dlist_init(&l->reports);
	dlist_init(&l->closes);
	dlist_init(&l->raw_partial);
	dlist_init(&l->ip_first);
	dlist_init(&l->ip_partial);
	l->reorder_ns = REORDER_MIN_NS;
	l->window_bytes = WINDOW_FIRST_BYTES;
	l->flow_initial_bytes = CREDIT_MIN_BYTES;
}

static void empty_list(struct dnode *head)
{
	while (!dlist_empty(head))
		dlist_remove(dlist_first(head));
}

void wan_lane_session_start(struct proxy *p, struct lane *l)
{
	wan_sent_reset(&l->sent);
	wan_recv_reset(&l->recv);
	empty_list(&l->near_list);
	empty_list(&l->repair);
	empty_list(&l->spaced);
	empty_list(&l->first);
	l->acked_end = 0;
	l->out_bytes = 0;
	l->granted_bytes = 0;
	l->window_bytes = WINDOW_FIRST_BYTES;
	l->flow_initial_bytes = CREDIT_MIN_BYTES;
	l->reorder_ns = REORDER_MIN_NS;
	l->pto_count = 0;
	l->last_progress_ns = p->now_ns;
	l->probe_due = l->report_due = false;
	l->ping_due = l->credit_due = true;
	raw_forget_partial(p, l);
	ip_session_start(p, l);
	l->raw_seq_rx = 0;
	memset(l->raw_seen, 0, sizeof(l->raw_seen));
	wan_lane_kick(p, l);
}

void wan_lane_kick(struct proxy *p, struct lane *l)
{
	if (p->session_on)
		dlist_append_once(&p->lane_list, &l->node);
}

void wan_lane_wake_at(struct proxy *p, struct lane *l, uint64_t when_ns)
{
	timer_set_earlier(&p->timers, &l->service, when_ns);
}

/* --- queues --- */

void wan_queue_slot(struct proxy *p, struct dnode *list, uint32_t slot, enum slot_queue q)
{
	struct slot_meta *m = arena_meta(p->arena, slot);

	dlist_remove(&m->node);
	m->queued = (uint8_t)q;
	dlist_append(list, &m->node);
}

void wan_unqueue(struct slot_meta *m)
{
	dlist_remove(&m->node);
	m->queued = SQ_NONE;
}

void wan_lane_queue_first(struct proxy *p, struct lane *l, uint32_t slot)
{
	wan_queue_slot(p, &l->first, slot, SQ_FIRST);
	wan_lane_kick(p, l);
}

void wan_lane_queue_close(struct proxy *p, struct lane *l, uint32_t flow, uint32_t inc)
{
	struct rd_op *op = rd_op_take(p, OP_FOR_CLOSE); /* a small record that is at hand: flow and incarnation */

	if (!op)
		return; /* the far edge keeps an idle descriptor until its table is full */
	op->pos = (uint64_t)flow << 32 | inc;
	dlist_append(&l->closes, &op->node);
	wan_lane_kick(p, l);
}

bool wan_lane_has_data(const struct lane *l)
{
	return !dlist_empty(&l->repair) || !dlist_empty(&l->first) || !dlist_empty(&l->near_list) ||
	       !dlist_empty(&l->ip_first);
}

/* --- by time --- */

uint64_t wan_report_delay(const struct proxy *p)
{
	return clamp_u64(wan_rtt_min_ns(&p->rtt) / 16, REPORT_DELAY_MIN, REPORT_DELAY_MAX);
}

static void release_spaced(struct proxy *p, struct lane *l)
{
	struct dnode *n;

	while ((n = dlist_first(&l->spaced))) {
		struct slot_meta *m = dlist_entry(n, struct slot_meta, node);

		if (m->due_ns > p->now_ns) {
			wan_lane_wake_at(p, l, m->due_ns);
			return;
		}
		wan_queue_slot(p, &l->repair, slot_of_meta(p, m), SQ_REPAIR);
		wan_lane_kick(p, l);
	}
}

static void check_pto(struct proxy *p, struct lane *l)
{
	uint64_t pn, sent_ns, deadline, pto;

	if (!wan_sent_oldest(&l->sent, &pn, &sent_ns))
		return;
	pto = wan_rtt_pto_ns(&p->rtt) << (l->pto_count < 8 ? l->pto_count : 8);
	if (pto > PTO_CAP_NS && pto > 2 * wan_rtt_pto_ns(&p->rtt))
		pto = max_u64(PTO_CAP_NS, 2 * wan_rtt_pto_ns(&p->rtt));
	deadline = max_u64(sent_ns, l->last_progress_ns) + pto;
	if (p->now_ns < deadline) {
		wan_lane_wake_at(p, l, deadline);
		return;
	}
	count(p, CTR_WAN_PROBES, 1);
	l->pto_count++;
	l->last_progress_ns = p->now_ns;
	l->probe_due = true;
	if (!wan_sent_has_room(&l->sent))
		wan_give_up_oldest(p, l);
	wan_lane_kick(p, l);
	wan_lane_wake_at(p, l, p->now_ns + pto);
}

void wan_lane_on_timer(struct proxy *p, struct lane *l)
{
	struct dnode *n = dlist_first(&l->reports);

	if (!p->session_on)
		return;
	if (l->recv.unreported) {
		uint64_t due = l->recv.first_unreported_ns + wan_report_delay(p);

		if (p->now_ns >= due) {
			l->report_due = true;
			wan_lane_kick(p, l);
		} else {
			wan_lane_wake_at(p, l, due);
		}
	}
	if (n) {
		struct far_flow *f = dlist_entry(n, struct far_flow, report_node);

		if (f->report_at_ns <= p->now_ns)
			wan_lane_kick(p, l);
		else
			wan_lane_wake_at(p, l, f->report_at_ns);
	}
	wan_detect_losses(p, l);
	release_spaced(p, l);
	check_pto(p, l);
	if (l->report_due || l->probe_due || wan_lane_has_data(l))
		wan_lane_kick(p, l); /* the sent map was full when it had its turn */
}
