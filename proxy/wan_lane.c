/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A lane has its own packet numbers, sent map, receive window and reports; the round trip is the path's. What goes into
 * a datagram, in this order: report and refusals, probe, credits, flow frames, repairs, responses and expendable
 * packets, new requests (flows take turns, a datagram each). Each reliable thing leaves a reference in the sent map;
 * when the datagram is lost the reference says what to send again - its newest state, never the old bytes of a frame.
 *
 * Packets are cut only if they do not fit an empty datagram; pieces are multiples of 64 bytes, and both ends keep
 * bitmaps of units, so pieces may be cut differently when they are sent again.
 *
 * Repairs are doubled: one loss makes two copies, a second loss three, spaced by a part of the round trip so that one
 * burst does not take all of them. A copy is not sent any more once the peer has the packet.
 *
 * Probe timeout: the peer is asked about everything from the oldest unresolved number on. Its report names what is
 * missing, and only that makes a loss.
 *
 * All that a lane does by time is in one timer (wan_lane_on_timer): report delay, spaced copies, flow reports, probe.
 */
#include "wan_lane.h"

#include "far.h"
#include "near.h"
#include "raw.h"
#include "wan_seal.h"

#define REPORT_EVERY       64
#define REPORT_DELAY_MIN   50000ull
#define REPORT_DELAY_MAX   1000000ull
#define REORDER_MIN_NS     50000ull
#define SPACING_MIN_NS     50000ull
#define SPACING_MAX_NS     2000000ull
#define PTO_CAP_NS         100000000ull
#define WINDOW_FIRST_BYTES (4u << 20)
#define REFUSED_WAIT_NS    500000ull
#define REPAIR_SENDS_MAX   200
#define RAW_SENDS_MAX      6

struct build {
	struct proxy *p;
	struct lane *l;
	uint8_t *buf;
	size_t cap, off;
	struct sent_entry *e;
	uint64_t pn;
	bool data;     /* has packets in it */
	bool reported; /* has a REPORT in it */
};

/* --- small things --- */

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
	l->out_bytes = 0;
	l->granted_bytes = 0;
	l->window_bytes = WINDOW_FIRST_BYTES;
	l->flow_initial_bytes = CREDIT_MIN_BYTES;
	l->reorder_ns = REORDER_MIN_NS;
	l->pto_count = 0;
	l->last_progress_ns = p->now_ns;
	l->probe_due = l->report_due = false;
	l->ping_due = l->credit_due = true;
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

static void queue_slot(struct proxy *p, struct dnode *list, uint32_t slot, enum slot_queue q)
{
	struct slot_meta *m = arena_meta(p->arena, slot);

	dlist_remove(&m->node);
	m->queued = (uint8_t)q;
	dlist_append(list, &m->node);
}

static void unqueue(struct slot_meta *m)
{
	dlist_remove(&m->node);
	m->queued = SQ_NONE;
}

void wan_lane_queue_first(struct proxy *p, struct lane *l, uint32_t slot)
{
	queue_slot(p, &l->first, slot, SQ_FIRST);
	wan_lane_kick(p, l);
}

void wan_lane_queue_close(struct proxy *p, struct lane *l, uint32_t flow, uint32_t inc)
{
	struct rd_op *op = rd_op_take(p); /* a small record that is at hand: flow and incarnation */

	if (!op)
		return; /* the far edge keeps an idle descriptor until its table is full */
	op->pos = (uint64_t)flow << 32 | inc;
	dlist_append(&l->closes, &op->node);
	wan_lane_kick(p, l);
}

static uint64_t clamp(uint64_t v, uint64_t lo, uint64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

static uint64_t report_delay(const struct proxy *p)
{
	return clamp(wan_rtt_min_ns(&p->rtt) / 16, REPORT_DELAY_MIN, REPORT_DELAY_MAX);
}

static uint64_t spacing(const struct proxy *p)
{
	return clamp(wan_rtt_min_ns(&p->rtt) / 16, SPACING_MIN_NS, SPACING_MAX_NS);
}

/* Units of a packet as a bitmap of 128 bits. */
static unsigned units_of(uint16_t len)
{
	return (len + PIECE_UNIT - 1u) / PIECE_UNIT;
}

static void units_mask(unsigned off, unsigned n, uint64_t mask[2])
{
	unsigned __int128 m = n >= 128 ? ~(unsigned __int128)0 : (((unsigned __int128)1 << n) - 1) << off;

	mask[0] = (uint64_t)m;
	mask[1] = (uint64_t)(m >> 64);
}

static bool units_all(const uint64_t units[2], unsigned n)
{
	uint64_t want[2];

	units_mask(0, n, want);
	return (units[0] & want[0]) == want[0] && (units[1] & want[1]) == want[1];
}

/* First run of set bits at or after `from`; false if there is none. */
static bool next_run(const uint64_t bits[2], unsigned limit, unsigned from, unsigned *start, unsigned *n)
{
	unsigned i = from;

	while (i < limit && !(bits[i / 64] >> (i % 64) & 1))
		i++;
	*start = i;
	while (i < limit && (bits[i / 64] >> (i % 64) & 1))
		i++;
	*n = i - *start;
	return *n > 0;
}

bool wan_piece_take(struct proxy *p, uint32_t slot, const struct wan_packet *w)
{
	struct slot_meta *m = arena_meta(p->arena, slot);
	uint64_t mask[2];

	memcpy(arena_data(p->arena, slot) + w->offset, w->data, w->len);
	units_mask(w->offset / PIECE_UNIT, units_of(w->len), mask);
	m->units[0] |= mask[0];
	m->units[1] |= mask[1];
	return units_all(m->units, units_of(w->total));
}

/* --- outgoing: frames --- */

static bool add_ref(struct build *b, enum wan_ref_kind kind, uint32_t id, uint16_t gen, unsigned off, unsigned n)
{
	if (b->e->nrefs >= WAN_REFS_MAX)
		return false;
	b->e->ref[b->e->nrefs++] = (struct wan_ref){
	    .id = id, .gen = gen, .off = (uint8_t)off, .n = (uint8_t)n, .kind = (uint8_t)kind};
	return true;
}

static bool refs_full(const struct build *b)
{
	return b->e->nrefs >= WAN_REFS_MAX;
}

static void put_report(struct build *b)
{
	struct wan_report rep;
	uint64_t words[WAN_REPORT_WORDS_MAX];
	size_t room = b->cap - b->off, n;
	uint32_t max_words;

	if (room < WAN_FRAME_HDR_LEN + WAN_REPORT_BODY_LEN + 8)
		return;
	max_words = (uint32_t)((room - WAN_FRAME_HDR_LEN - WAN_REPORT_BODY_LEN) / 8);
	if (max_words > WAN_REPORT_WORDS_MAX)
		max_words = WAN_REPORT_WORDS_MAX;
	b->l->report_due = false;
	if (!wan_recv_report(&b->l->recv, b->p->now_ns, &rep, words, max_words))
		return;
	n = wan_report_put(b->buf + b->off, room, WF_REPORT, &rep, words);
	b->off += n;
	b->reported = true;
	if (b->l->recv.unreported)
		b->l->report_due = true; /* there is more to tell */
}

static void put_refused(struct build *b)
{
	struct wan_recv *r = &b->l->recv;
	struct wan_report rep = {.base = r->refused_base, .largest = r->next ? r->next - 1 : 0, .words = 1};
	size_t n = wan_report_put(b->buf + b->off, b->cap - b->off, WF_REFUSED, &rep, &r->refused_bits);

	if (n)
		r->refused_bits = 0;
	b->off += n;
}

static void put_probe(struct build *b)
{
	uint64_t from = 0, sent_ns;
	size_t n;

	if (!wan_sent_oldest(&b->l->sent, &from, &sent_ns))
		from = b->pn; /* all has arrived meanwhile */
	n = wan_probe_put(b->buf + b->off, b->cap - b->off, from);
	if (n && add_ref(b, REF_PING, 0, 0, 0, 0)) {
		b->off += n;
		b->l->probe_due = false;
	}
}

static void put_ping(struct build *b)
{
	size_t n = wan_ping_put(b->buf + b->off, b->cap - b->off);

	if (n && add_ref(b, REF_PING, 0, 0, 0, 0)) {
		b->off += n;
		b->l->ping_due = false;
	}
}

/* The window that the lane may have now: what it holds already, and half of what is free. */
static uint64_t lane_window(const struct proxy *p, const struct lane *l)
{
	uint64_t half = pool_free(p, POOL_WAN) / 2;

	return l->rx_held_bytes + (half > 2 * CREDIT_MIN_BYTES ? half : 2 * CREDIT_MIN_BYTES);
}

static void put_credit(struct build *b)
{
	struct lane *l = b->l;
	uint64_t window = lane_window(b->p, l);
	uint64_t diff = window > l->granted_bytes ? window - l->granted_bytes : l->granted_bytes - window;
	struct wan_lane_credit c = {.window_bytes = window};
	size_t n;

	if (!l->credit_due && diff <= l->granted_bytes / 8)
		return;
	c.flow_initial_bytes = (uint32_t)clamp(pool_free(b->p, POOL_WAN) / 64, CREDIT_MIN_BYTES, 16u << 20);
	if (refs_full(b))
		return;
	n = wan_lane_credit_put(b->buf + b->off, b->cap - b->off, &c);
	if (!n)
		return;
	add_ref(b, REF_LANE_CREDIT, 0, 0, 0, 0);
	b->off += n;
	l->granted_bytes = window;
	l->credit_due = false;
}

static void put_closes(struct build *b)
{
	while (!dlist_empty(&b->l->closes) && !refs_full(b)) {
		struct rd_op *op = dlist_entry(dlist_first(&b->l->closes), struct rd_op, node);
		struct wan_flow_close c = {.flow = (uint32_t)(op->pos >> 32), .inc = (uint32_t)op->pos};
		size_t n = wan_flow_close_put(b->buf + b->off, b->cap - b->off, &c);

		if (!n)
			return;
		b->off += n;
		add_ref(b, REF_FLOW_CLOSE, c.flow, 0, 0, 0);
		/* Not repaired: a far flow that is never closed is idle and superseded when its index is used again. */
		rd_op_give(b->p, op);
	}
}

static bool put_flow_report(struct build *b, struct far_flow *f)
{
	struct wan_flow_report r;
	size_t n;

	if (refs_full(b))
		return false;
	if (f->pair_due) {
		struct wan_flow_pair pr;

		if (b->e->nrefs + 2 > WAN_REFS_MAX)
			return false;
		far_pair_frame(f, &pr);
		n = wan_flow_pair_put(b->buf + b->off, b->cap - b->off, &pr);
		if (!n)
			return false;
		b->off += n;
		add_ref(b, REF_FLOW_PAIR, f->idx, (uint16_t)f->inc, 0, 0);
		f->pair_due = false;
	}
	far_report_frame(b->p, f, &r);
	n = wan_flow_report_put(b->buf + b->off, b->cap - b->off, &r);
	if (!n)
		return false;
	b->off += n;
	add_ref(b, REF_FLOW_REPORT, f->idx, (uint16_t)f->inc, 0, 0);
	return true;
}

static void put_flow_reports(struct build *b)
{
	struct dnode *n;

	while ((n = dlist_first(&b->l->reports))) {
		struct far_flow *f = dlist_entry(n, struct far_flow, report_node);

		if (f->report_at_ns > b->p->now_ns) {
			wan_lane_wake_at(b->p, b->l, f->report_at_ns);
			return;
		}
		if (!put_flow_report(b, f))
			return;
		dlist_remove(n);
	}
}

static bool put_open(struct build *b, struct near_flow *f)
{
	struct wan_flow_open o;
	size_t n;

	if (refs_full(b))
		return false;
	near_open_frame(b->p, f, &o);
	n = wan_flow_open_put(b->buf + b->off, b->cap - b->off, &o);
	if (!n)
		return false;
	b->off += n;
	add_ref(b, REF_FLOW_OPEN, f->idx, (uint16_t)f->inc, 0, 0);
	f->open_due = false;
	f->open_sent = true;
	return true;
}

/* --- outgoing: packets --- */

static void packet_name(struct proxy *p, const struct slot_hdr *h, struct wan_packet *w)
{
	w->inc = h->inc;
	w->pos = h->pos;
	w->total = h->len;
	w->vlan_tci = h->vlan_tci;
	if (h->kind == SLOT_REQ_NEAR) {
		w->kind = WP_REQUEST;
		w->flow = near_wire_id(p, &p->near[h->flow]);
	} else if (h->kind == SLOT_RESP_FAR) {
		w->kind = WP_RESPONSE;
		w->flow = p->far[h->flow].peer_flow;
	} else {
		w->kind = WP_RAW;
		w->flow = 0;
	}
}

/* One piece: units off .. off + n of the slot. False if it does not fit. */
static bool put_piece(struct build *b, uint32_t slot, unsigned off, unsigned n)
{
	struct proxy *p = b->p;
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct slot_meta *m = arena_meta(p->arena, slot);
	struct wan_packet w;
	size_t put;

	if (refs_full(b))
		return false;
	packet_name(p, h, &w);
	w.offset = (uint16_t)(off * PIECE_UNIT);
	w.len = (uint16_t)(w.offset + n * PIECE_UNIT > h->len ? (unsigned)(h->len - w.offset) : n * PIECE_UNIT);
	w.data = arena_data(p->arena, slot) + w.offset;
	put = wan_packet_put(b->buf + b->off, b->cap - b->off, &w);
	if (!put)
		return false;
	b->off += put;
	b->data = true;
	add_ref(b, REF_SLOT, slot, m->gen, off, n);
	if (m->in_flight < UINT8_MAX)
		m->in_flight++;
	return true;
}

static void first_send(struct build *b, uint32_t slot)
{
	struct slot_meta *m = arena_meta(b->p->arena, slot);

	if (m->sends)
		return; /* again, because the flow's base moved */
	m->sends = 1;
	b->l->out_bytes += arena_class_bytes(arena_hdr(b->p->arena, slot)->len);
}

static bool fits_any(const struct proxy *p, uint16_t len)
{
	return (size_t)len + WAN_PACKET_OVERHEAD + WAN_HDR_LEN + WAN_TAG_LEN <= p->cfg.wan_payload_max;
}

/* Sends a slot for the first time, whole; or, if no datagram can hold it, hands it to the repair list to go in pieces.
 * False: does not fit any more. */
static bool put_first(struct build *b, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(b->p->arena, slot);
	struct slot_meta *m = arena_meta(b->p->arena, slot);
	unsigned units = units_of(h->len);

	if (!fits_any(b->p, h->len)) {
		units_mask(0, units, m->lost);
		m->copies = 1;
		first_send(b, slot);
		queue_slot(b->p, &b->l->repair, slot, SQ_REPAIR);
		return true;
	}
	if (!put_piece(b, slot, 0, units))
		return false;
	first_send(b, slot);
	return true;
}

/* A pass over a repaired slot is complete: another copy later, or done. */
static void pass_done(struct build *b, uint32_t slot)
{
	struct slot_meta *m = arena_meta(b->p->arena, slot);
	unsigned units = units_of(arena_hdr(b->p->arena, slot)->len);
	uint64_t all[2];

	m->lost[0] = m->lost[1] = 0;
	if (m->copies)
		m->copies--;
	if (!m->copies) {
		unqueue(m);
		return;
	}
	units_mask(0, units, all);
	m->lost[0] = all[0] & ~m->units[0];
	m->lost[1] = all[1] & ~m->units[1];
	m->due_ns = b->p->now_ns + spacing(b->p);
	queue_slot(b->p, &b->l->spaced, slot, SQ_SPACED);
	wan_lane_wake_at(b->p, b->l, m->due_ns);
}

/* Units of the slot that are still to go. False if the datagram is full. */
static bool put_repair(struct build *b, uint32_t slot)
{
	struct slot_meta *m = arena_meta(b->p->arena, slot);
	unsigned units = units_of(arena_hdr(b->p->arena, slot)->len), from = 0, start, n;

	m->lost[0] &= ~m->units[0];
	m->lost[1] &= ~m->units[1];
	while (next_run(m->lost, units, from, &start, &n)) {
		size_t room = b->cap - b->off;
		unsigned fit = room > WAN_PACKET_OVERHEAD ? (unsigned)((room - WAN_PACKET_OVERHEAD) / PIECE_UNIT) : 0u;
		uint64_t mask[2];

		if (start + n == units && fit + 1 == n &&
		    room - WAN_PACKET_OVERHEAD + start * PIECE_UNIT >= arena_hdr(b->p->arena, slot)->len)
			fit = n; /* the last unit is a short one */
		if (fit < n && (fits_any(b->p, arena_hdr(b->p->arena, slot)->len) || fit == 0))
			return false;
		if (n > fit)
			n = fit;
		if (!put_piece(b, slot, start, n))
			return false;
		if (m->sends > 1)
			count(b->p, CTR_WAN_REPAIRS, 1);
		units_mask(start, n, mask);
		m->lost[0] &= ~mask[0];
		m->lost[1] &= ~mask[1];
		from = start + n;
	}
	pass_done(b, slot);
	return true;
}

static void put_repairs(struct build *b)
{
	struct dnode *n;

	while ((n = dlist_first(&b->l->repair)))
		if (!put_repair(b, slot_of_meta(b->p, dlist_entry(n, struct slot_meta, node))))
			return;
}

static bool full(const struct build *b)
{
	return refs_full(b) || b->cap - b->off < WAN_PACKET_OVERHEAD + PIECE_UNIT;
}

static void put_firsts(struct build *b)
{
	struct dnode *n;

	while ((n = dlist_first(&b->l->first))) {
		struct slot_meta *m = dlist_entry(n, struct slot_meta, node);
		uint32_t slot = slot_of_meta(b->p, m);

		if (!put_first(b, slot))
			return;
		if (m->queued == SQ_FIRST)
			unqueue(m);
	}
}

/* True if the flow has nothing more that may go. */
static bool put_flow(struct build *b, struct near_flow *f)
{
	uint32_t slot;

	if (f->open_due && !put_open(b, f))
		return false;
	while (!f->older && near_wan_next(b->p, f, &slot)) {
		if (!put_first(b, slot))
			return false;
		near_wan_sent(f, arena_hdr(b->p->arena, slot));
		if (!dlist_empty(&b->l->repair)) {
			put_repairs(b); /* a large packet goes in pieces, before what is behind it */
			if (!dlist_empty(&b->l->repair))
				return false;
		}
	}
	return true;
}

static void put_requests(struct build *b)
{
	struct dnode *n;

	while (!full(b) && (n = dlist_first(&b->l->near_list))) {
		struct near_flow *f = dlist_entry(n, struct near_flow, wan_node);

		if (!put_flow(b, f)) {
			dlist_rotate(&b->l->near_list);
			return;
		}
		dlist_remove(n);
	}
}

static bool begin(struct build *b)
{
	struct wan_hdr h = {.lane = b->l->id, .epoch = b->p->session.epoch_tx};

	if (!wan_sent_has_room(&b->l->sent))
		return false;
	b->e = wan_sent_push(&b->l->sent, b->p->now_ns, &b->pn);
	h.wan_pn = b->pn;
	b->off = wan_hdr_put(b->buf, &h);
	return true;
}

static void finish(struct build *b)
{
	struct lane *l = b->l;

	b->e->bytes = (uint32_t)b->off;
	l->sent.bytes_in_flight += b->off;
	count(b->p, CTR_WAN_TX_DGRAMS, 1);
	count(b->p, CTR_WAN_TX_BYTES, b->off);
	if (!b->data)
		count(b->p, CTR_WAN_TX_CONTROL, 1);
	if (b->e->nrefs)
		wan_lane_wake_at(b->p, l,
		                 b->p->now_ns + (wan_rtt_pto_ns(&b->p->rtt) << (l->pto_count < 8 ? l->pto_count : 8)));
	else
		wan_sent_forget_last(&l->sent);
}

size_t wan_lane_build(struct proxy *p, struct lane *l, uint8_t *buf, size_t cap, bool data_ok)
{
	struct build b = {.p = p, .l = l, .buf = buf};

	b.cap = (cap < p->cfg.wan_payload_max ? cap : p->cfg.wan_payload_max) - WAN_TAG_LEN;
	if (!begin(&b))
		return 0;
	if (l->report_due)
		put_report(&b);
	if (l->recv.refused_bits)
		put_refused(&b);
	if (l->probe_due)
		put_probe(&b);
	if (l->ping_due)
		put_ping(&b);
	put_closes(&b);
	put_flow_reports(&b);
	if (data_ok) {
		put_repairs(&b);
		put_firsts(&b);
		put_requests(&b);
	}
	if (b.off > WAN_HDR_LEN || l->credit_due)
		put_credit(&b);
	if (b.off == WAN_HDR_LEN) {
		wan_sent_unpush(&l->sent);
		return 0;
	}
	b.off = wan_seal(buf, b.off);
	finish(&b);
	return b.off;
}

bool wan_lane_has_data(const struct lane *l)
{
	return !dlist_empty(&l->repair) || !dlist_empty(&l->first) || !dlist_empty(&l->near_list);
}

/* --- what became of datagrams --- */

struct lane_ctx {
	struct proxy *p;
	struct lane *l;
};

static bool ref_slot(struct proxy *p, const struct wan_ref *r, struct slot_meta **m)
{
	*m = arena_meta(p->arena, r->id);
	if ((*m)->gen != r->gen)
		return false;
	if ((*m)->in_flight)
		(*m)->in_flight--;
	return true;
}

static void slot_acked(struct proxy *p, const struct wan_ref *r)
{
	struct slot_meta *m;
	const struct slot_hdr *h = arena_hdr(p->arena, r->id);
	uint64_t mask[2];

	if (!ref_slot(p, r, &m))
		return;
	units_mask(r->off, r->n, mask);
	m->units[0] |= mask[0];
	m->units[1] |= mask[1];
	m->lost[0] &= ~mask[0];
	m->lost[1] &= ~mask[1];
	if (!units_all(m->units, units_of(h->len)))
		return;
	if (h->kind != SLOT_REQ_NEAR)
		slot_release(p, r->id); /* the peer has it: it is its now */
	else if (m->queued)
		unqueue(m);
}

static void slot_lost(struct proxy *p, struct lane *l, const struct wan_ref *r, bool refused)
{
	struct slot_meta *m;
	const struct slot_hdr *h = arena_hdr(p->arena, r->id);
	uint64_t mask[2];
	bool whole;

	if (!ref_slot(p, r, &m))
		return;
	units_mask(r->off, r->n, mask);
	mask[0] &= ~m->units[0];
	mask[1] &= ~m->units[1];
	if (!(mask[0] | mask[1]))
		return;
	if (h->kind == SLOT_RAW_LAN && m->sends >= RAW_SENDS_MAX) {
		slot_release(p, r->id);
		return;
	}
	m->lost[0] |= mask[0];
	m->lost[1] |= mask[1];
	if (m->sends < REPAIR_SENDS_MAX)
		m->sends++;
	whole = r->off == 0 && r->n == units_of(h->len);
	if (whole && (m->in_flight || m->queued == SQ_SPACED))
		return; /* another copy is under way */
	if (refused) {
		m->copies = 1;
		m->due_ns = p->now_ns + REFUSED_WAIT_NS;
		queue_slot(p, &l->spaced, r->id, SQ_SPACED);
		wan_lane_wake_at(p, l, m->due_ns);
		return;
	}
	m->copies = m->sends == 2 ? 2 : 3;
	if (m->queued != SQ_REPAIR)
		queue_slot(p, &l->repair, r->id, SQ_REPAIR);
	wan_lane_kick(p, l);
}

static void control_lost(struct proxy *p, struct lane *l, const struct wan_ref *r)
{
	switch (r->kind) {
	case REF_FLOW_OPEN:
		if (p->near[r->id].used && (uint16_t)p->near[r->id].inc == r->gen) {
			p->near[r->id].open_due = true;
			near_wan_kick(p, &p->near[r->id]);
		}
		break;
	case REF_FLOW_PAIR:
		if (p->far[r->id].used && (uint16_t)p->far[r->id].inc == r->gen)
			p->far[r->id].pair_due = true;
		/* fall through */
	case REF_FLOW_REPORT:
		if (p->far[r->id].used && (uint16_t)p->far[r->id].inc == r->gen)
			far_report(p, &p->far[r->id], true);
		break;
	case REF_LANE_CREDIT:
		l->credit_due = true;
		wan_lane_kick(p, l);
		break;
	default:
		break;
	}
}

static void entry_acked(void *arg, const struct sent_entry *e)
{
	struct lane_ctx *c = arg;

	for (unsigned i = 0; i < e->nrefs; i++)
		if (e->ref[i].kind == REF_SLOT)
			slot_acked(c->p, &e->ref[i]);
}

static void entry_gone(struct lane_ctx *c, const struct sent_entry *e, bool refused)
{
	for (unsigned i = 0; i < e->nrefs; i++) {
		if (e->ref[i].kind == REF_SLOT)
			slot_lost(c->p, c->l, &e->ref[i], refused);
		else
			control_lost(c->p, c->l, &e->ref[i]);
	}
}

static void entry_lost(void *arg, const struct sent_entry *e)
{
	struct lane_ctx *c = arg;

	count(c->p, CTR_WAN_LOST, 1);
	entry_gone(c, e, false);
}

static void entry_refused(void *arg, const struct sent_entry *e)
{
	struct lane_ctx *c = arg;

	count(c->p, CTR_WAN_REFUSED, 1);
	entry_gone(c, e, true);
}

static void adapt_reorder(struct proxy *p, struct lane *l, const struct wan_sent_result *res)
{
	uint64_t most = clamp(wan_rtt_min_ns(&p->rtt) / 4, REORDER_MIN_NS, UINT64_MAX);

	if (res->spurious) {
		count(p, CTR_WAN_SPURIOUS, res->spurious);
		l->reorder_ns = clamp(res->spurious_ns + res->spurious_ns / 4, 2 * l->reorder_ns, UINT64_MAX);
	} else {
		l->reorder_ns -= l->reorder_ns / 1024;
	}
	l->reorder_ns = clamp(l->reorder_ns, REORDER_MIN_NS, most);
}

static void detect(struct proxy *p, struct lane *l)
{
	struct lane_ctx c = {p, l};
	uint64_t rtt = wan_rtt_ns(&p->rtt);

	if (p->now_ns > rtt)
		wan_sent_detect(&l->sent, p->now_ns, l->reorder_ns, rtt, entry_lost, &c);
	wan_sent_advance(&l->sent, p->now_ns, rtt);
	if (wan_sent_any_missing(&l->sent))
		wan_lane_wake_at(p, l, p->now_ns + l->reorder_ns);
}

static void on_report(struct proxy *p, struct lane *l, const struct wan_report *r)
{
	struct lane_ctx c = {p, l};
	struct wan_sent_result res;

	wan_sent_report(&l->sent, r, entry_acked, &c, &res);
	if (res.largest_sent_ns && p->now_ns > res.largest_sent_ns)
		wan_rtt_sample(&p->rtt, p->now_ns, p->now_ns - res.largest_sent_ns, r->delay_ns);
	if (res.newly_acked) {
		l->pto_count = 0;
		l->last_progress_ns = p->now_ns;
	}
	adapt_reorder(p, l, &res);
	detect(p, l);
	if (!dlist_empty(&l->near_list) || !dlist_empty(&l->repair) || !dlist_empty(&l->first))
		wan_lane_kick(p, l); /* the sent map may have been full */
}

/* --- incoming --- */

static bool on_response(struct proxy *p, struct lane *l, const struct wan_packet *w)
{
	struct near_flow *f = near_by_id(p, w->flow, w->inc);
	struct rd_op *op = f ? near_op_at(f, w->pos) : NULL;
	struct roce_pkt pkt;
	uint32_t slot;

	if (!f)
		return true;
	if (!op && f->psns_unknown)
		op = near_op_open(f); /* its length in PSNs comes with the first response */
	slot = arena_find(p->arena, SLOT_RESP_NEAR, f->idx, w->pos);
	if (!op || (op->done_ns && slot == SLOT_NONE)) {
		drop(p, DROP_WAN_POSITION_OLD);
		return true;
	}
	if (slot == SLOT_NONE)
		slot = slot_take(p, SLOT_RESP_NEAR, f->idx, f->inc, w->pos, w->total, l->id, w->pos == f->resp_pos);
	if (slot == SLOT_NONE) {
		near_ops_retire(p, f, false);
		return false;
	}
	if (arena_hdr(p->arena, slot)->state == SLOT_COMMITTED || arena_hdr(p->arena, slot)->len != w->total) {
		drop(p, DROP_WAN_POSITION_OLD);
		return true;
	}
	if (!wan_piece_take(p, slot, w))
		return true;
	if (roce_parse(arena_data(p->arena, slot), w->total, &pkt) != DROP_NONE || pkt.len != w->total ||
	    pkt.class != ROCE_RC_RESPONSE || pkt.opcode == RC_ACK || pkt.psn != pos_psn(w->pos) ||
	    !ip_addr_eq(&pkt.src, &f->dst) || !ip_addr_eq(&pkt.dst, &f->src)) {
		slot_release(p, slot);
		drop(p, DROP_WAN_BAD_FRAME);
		return true;
	}
	slot_describe(p, slot, &pkt, w->vlan_tci);
	arena_commit(p->arena, slot);
	near_on_response(p, f, slot, &pkt);
	return true;
}

/* False: refused. */
static bool on_packet(struct proxy *p, struct lane *l, const struct wan_frame *f)
{
	struct wan_packet w;

	if (!wan_packet_get(f, &w)) {
		drop(p, DROP_WAN_BAD_FRAME);
		return true;
	}
	switch (w.kind) {
	case WP_REQUEST:
		return far_on_packet(p, l, &w);
	case WP_RESPONSE:
		return on_response(p, l, &w);
	default:
		return raw_on_packet(p, l, &w);
	}
}

/* Control frames. False: malformed. */
static bool on_control(struct proxy *p, struct lane *l, const struct wan_frame *f)
{
	struct lane_ctx c = {p, l};
	union {
		struct wan_flow_open open;
		struct wan_flow_report report;
		struct wan_flow_pair pair;
		struct wan_flow_close close;
		struct wan_lane_credit credit;
		struct wan_report lane_report;
		uint64_t pn;
	} u;
	bool ok = true;

	switch (f->type) {
	case WF_FLOW_OPEN:
		if ((ok = wan_flow_open_get(f, &u.open)))
			far_on_open(p, l, &u.open);
		break;
	case WF_FLOW_REPORT:
		if ((ok = wan_flow_report_get(f, &u.report)))
			near_on_report(p, &u.report);
		break;
	case WF_FLOW_PAIR:
		if ((ok = wan_flow_pair_get(f, &u.pair)))
			near_on_pair(p, &u.pair);
		break;
	case WF_FLOW_CLOSE:
		if ((ok = wan_flow_close_get(f, &u.close)))
			far_on_close(p, &u.close);
		break;
	case WF_LANE_CREDIT:
		if ((ok = wan_lane_credit_get(f, &u.credit))) {
			l->window_bytes = u.credit.window_bytes;
			l->flow_initial_bytes = u.credit.flow_initial_bytes;
			wan_lane_kick(p, l);
		}
		break;
	case WF_REPORT:
		if ((ok = wan_report_get(f, &u.lane_report)))
			on_report(p, l, &u.lane_report);
		break;
	case WF_REFUSED:
		if ((ok = wan_report_get(f, &u.lane_report)))
			wan_sent_refused(&l->sent, &u.lane_report, entry_refused, &c);
		break;
	case WF_PROBE:
		if ((ok = wan_probe_get(f, &u.pn))) {
			wan_recv_probe(&l->recv, u.pn, p->now_ns);
			l->report_due = true;
			wan_lane_kick(p, l);
		}
		break;
	case WF_PING:
		break;
	default:
		drop(p, DROP_WAN_UNKNOWN_FRAME);
		break;
	}
	return ok;
}

static void ask_for_report(struct proxy *p, struct lane *l)
{
	if (l->recv.unreported >= REPORT_EVERY) {
		l->report_due = true;
		wan_lane_kick(p, l);
	} else if (l->recv.unreported) {
		wan_lane_wake_at(p, l, l->recv.first_unreported_ns + report_delay(p));
	}
}

enum proxy_drop wan_lane_rx(struct proxy *p, struct lane *l, const struct wan_hdr *h, const uint8_t *dgram, size_t len)
{
	size_t off = WAN_HDR_LEN;
	struct wan_frame f;
	bool wants_report = false, refused = false;
	enum proxy_drop d = DROP_NONE;
	int more;

	if (wan_recv_seen(&l->recv, h->wan_pn))
		return drop(p, DROP_WAN_DUPLICATE);
	while ((more = wan_frame_next(dgram, len, &off, &f)) > 0) {
		if (f.type != WF_REPORT && f.type != WF_REFUSED)
			wants_report = true;
		if (f.type == WF_PACKET)
			refused |= !on_packet(p, l, &f);
		else if (!on_control(p, l, &f))
			d = drop(p, DROP_WAN_BAD_FRAME);
	}
	if (more < 0)
		d = drop(p, DROP_WAN_TRUNCATED);
	if (refused) {
		drop(p, DROP_WAN_NO_ROOM);
		l->report_due |= wan_recv_refuse(&l->recv, h->wan_pn);
		wan_lane_kick(p, l);
		return DROP_WAN_NO_ROOM;
	}
	wan_recv_mark(&l->recv, h->wan_pn, p->now_ns, wants_report);
	ask_for_report(p, l);
	return d;
}

/* --- by time --- */

static void release_spaced(struct proxy *p, struct lane *l)
{
	struct dnode *n;

	while ((n = dlist_first(&l->spaced))) {
		struct slot_meta *m = dlist_entry(n, struct slot_meta, node);

		if (m->due_ns > p->now_ns) {
			wan_lane_wake_at(p, l, m->due_ns);
			return;
		}
		queue_slot(p, &l->repair, slot_of_meta(p, m), SQ_REPAIR);
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
	if (!wan_sent_has_room(&l->sent)) {
		struct lane_ctx c = {p, l};

		wan_sent_give_up_oldest(&l->sent, p->now_ns, entry_lost, &c);
		wan_sent_advance(&l->sent, p->now_ns, 0);
	}
	wan_lane_kick(p, l);
	wan_lane_wake_at(p, l, p->now_ns + pto);
}

void wan_lane_on_timer(struct proxy *p, struct lane *l)
{
	struct dnode *n = dlist_first(&l->reports);

	if (!p->session_on)
		return;
	if (l->recv.unreported) {
		uint64_t due = l->recv.first_unreported_ns + report_delay(p);

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
	detect(p, l);
	release_spaced(p, l);
	check_pto(p, l);
}
