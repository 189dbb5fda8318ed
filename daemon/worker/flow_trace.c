/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_trace.h"

#include <stdlib.h>
#include <string.h>

#define BIT(m) (1u << FLOW_TRACE_##m)

const char *flow_trace_mark_name(enum flow_trace_mark m)
{
#define X(e, name, text) name,
	static const char *const names[] = {FLOW_TRACE_MARKS(X)};
#undef X

	return (unsigned)m < FLOW_TRACE_MARK_COUNT ? names[m] : "";
}

struct flow_watch *flow_watch_new(const struct flow_key *key)
{
	struct flow_watch *w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);

	if (w == NULL)
		return NULL;
	memset(w, 0, sizeof(*w));
	w->key = *key;
	if (spsc_init(&w->rows, FLOW_TRACE_ROWS, sizeof(struct flow_trace_row)))
		return w;
	free(w);
	return NULL;
}

void flow_watch_free(struct flow_watch *w)
{
	if (w == NULL)
		return;
	spsc_free(&w->rows);
	free(w);
}

/* --- rows --- */

static void put(struct flow_watch *w, struct flow_trace_row *row, const struct proxy_flow_view *v)
{
	if (v != NULL) {
		row->pos_next = v->status.pos_next;
		row->pos_acked = v->status.pos_acked;
		row->pos_delivered = v->status.pos_delivered;
		row->pos_ceiling = v->facts.pos_ceiling;
		row->why = (uint8_t)v->facts.why;
	}
	if (!spsc_put(&w->rows, row))
		atomic_fetch_add_explicit(&w->missed, 1, memory_order_relaxed);
}

static bool look(const struct flow_watch *w, struct proxy *p, enum flow_side side, struct proxy_flow_view *v)
{
	return proxy_flow_find(p, side, &w->key.src, &w->key.dst, w->key.dest_qpn, w->key.vlan_tci, v);
}

static uint32_t differences(const struct proxy_flow_view *a, const struct proxy_flow_view *b)
{
	uint32_t m = 0;

	m |= a->status.pairing == PAIR_LEARNING && b->status.pairing != PAIR_LEARNING ? BIT(PAIRED) : 0;
	m |= b->status.side == FLOW_NEAR && b->facts.pos_far > a->facts.pos_far ? BIT(CROSSED) : 0;
	m |= b->status.pos_delivered > a->status.pos_delivered ? BIT(DELIVERED) : 0;
	m |= b->status.side == FLOW_FAR && b->status.pos_next > a->status.pos_next ? BIT(ARRIVED) : 0;
	m |= b->facts.n.rnr_told > a->facts.n.rnr_told ? BIT(RNR) : 0;
	m |= b->status.stalled && !a->status.stalled ? BIT(STALLED) : 0;
	m |= !b->status.stalled && a->status.stalled ? BIT(RESUMED) : 0;
	m |= b->status.rnr_back_pressure && !a->status.rnr_back_pressure ? BIT(HELD_OFF) : 0;
	m |= !b->status.rnr_back_pressure && a->status.rnr_back_pressure ? BIT(LET_IN) : 0;
	m |= b->facts.why != a->facts.why ? BIT(CEILING) : 0;
	m |= b->facts.failed && !a->facts.failed ? BIT(FAILED) : 0;
	return m;
}

/* Returns the marks since the last look at that side, and takes a new look. v: NULL if the flow is not there. */
static uint32_t renew(struct flow_watch *w, enum flow_side side, const struct proxy_flow_view *v)
{
	bool was = w->here[side], same = was && v != NULL && w->last[side].status.inc == v->status.inc;
	uint32_t m = v == NULL ? (was ? BIT(ENDED) : 0) : same ? differences(&w->last[side], v) : BIT(BEGINS);

	w->here[side] = v != NULL;
	if (v != NULL)
		w->last[side] = *v;
	return m;
}

void flow_watch_look(struct flow_watch *w, struct proxy *p, uint64_t now_ns)
{
	for (int side = FLOW_NEAR; side <= FLOW_FAR; side++) {
		struct flow_trace_row row = {.now_ns = now_ns, .what = FLOW_TRACE_STATE, .side = (uint8_t)side};
		struct proxy_flow_view v;
		bool here = look(w, p, (enum flow_side)side, &v);

		row.marks = renew(w, (enum flow_side)side, here ? &v : NULL);
		if (row.marks != 0)
			put(w, &row, here ? &v : NULL);
	}
}

/* --- packets --- */

/* The mark of a request below the highest PSN sent already. */
static uint32_t resent(struct flow_watch *w, const struct roce_pkt *pkt, enum flow_side side)
{
	bool again = w->sent[side] && ((pkt->psn - w->sent_psn[side]) & ROCE_PSN_MASK) >= ROCE_PSN_MASK / 2;

	if (!again)
		w->sent_psn[side] = (pkt->psn + 1) & ROCE_PSN_MASK;
	w->sent[side] = true;
	return again ? BIT(RESENT) : 0;
}

static bool is_request(const struct roce_pkt *pkt)
{
	return pkt->class == ROCE_RC_REQUEST || pkt->class == ROCE_RC_UNKNOWN;
}

/* True for a request to the flow's queue pair, and for any answer of the responder's host to the requester's. */
static bool is_between_its_hosts(const struct flow_watch *w, const struct roce_pkt *pkt)
{
	if (is_request(pkt))
		return pkt->dest_qpn == w->key.dest_qpn && ip_addr_eq(&pkt->src, &w->key.src) &&
		       ip_addr_eq(&pkt->dst, &w->key.dst);
	return (pkt->class == ROCE_RC_RESPONSE || pkt->class == ROCE_CNP_CLASS) && ip_addr_eq(&pkt->src, &w->key.dst) &&
	       ip_addr_eq(&pkt->dst, &w->key.src);
}

static bool has_requester(const struct proxy_flow_view *v, uint32_t qpn)
{
	return v->status.pairing != PAIR_LEARNING && v->status.requester_qpn == qpn;
}

/* An answer names the requester's queue pair alone. While the flow learns that number, an answer between its hosts may
 * be any other flow's. v: the flow after the core has seen the packet, so that the answer that pairs the flow counts;
 * the look before counts as well, as the answer may have ended the flow. */
static bool is_its_answer(const struct flow_watch *w, const struct roce_pkt *pkt, enum flow_side side,
                          const struct proxy_flow_view *v)
{
	return (v != NULL && has_requester(v, pkt->dest_qpn)) ||
	       (w->here[side] && has_requester(&w->last[side], pkt->dest_qpn));
}

/* Writes the row of a packet if the packet is the flow's. A request concerns the near side when it comes and the far
 * side when it leaves, an answer the other way round. */
static void put_packet(struct flow_watch *w, struct proxy *p, struct flow_trace_row *row, const struct roce_pkt *pkt)
{
	enum flow_side side = is_request(pkt) == (row->what == FLOW_TRACE_OUT) ? FLOW_FAR : FLOW_NEAR;
	struct proxy_flow_view v;
	bool here;

	if (!is_between_its_hosts(w, pkt))
		return;
	here = look(w, p, side, &v);
	if (!is_request(pkt) && !is_its_answer(w, pkt, side, here ? &v : NULL))
		return;
	row->side = (uint8_t)side;
	row->opcode = pkt->opcode;
	row->psn = pkt->psn;
	row->ack_req = pkt->ack_req;
	row->len = pkt->len;
	row->aeth = pkt->class == ROCE_RC_RESPONSE && (roce_op(pkt->opcode)->flags & ROP_AETH);
	row->syndrome = row->aeth ? pkt->aeth_syndrome : 0;
	row->msn = row->aeth ? pkt->aeth_msn : 0;
	row->marks = renew(w, side, here ? &v : NULL);
	if (row->what == FLOW_TRACE_OUT && side == FLOW_FAR)
		row->marks |= resent(w, pkt, side);
	put(w, row, here ? &v : NULL);
}

void flow_watch_in(struct flow_watch *w, struct proxy *p, uint64_t now_ns, const uint8_t *l3, size_t len,
                   enum proxy_drop d)
{
	struct flow_trace_row row = {.now_ns = now_ns, .what = FLOW_TRACE_IN, .drop = (uint8_t)d};
	struct roce_pkt pkt;

	if (roce_parse(l3, len, &pkt) == DROP_NONE)
		put_packet(w, p, &row, &pkt);
}

void flow_watch_out(struct flow_watch *w, struct proxy *p, uint64_t now_ns, const struct lan_tx *tx)
{
	struct flow_trace_row row = {.now_ns = now_ns, .what = FLOW_TRACE_OUT};
	uint8_t l3[LAN_IP_MAX];
	struct roce_pkt pkt;
	size_t len = (size_t)tx->hdr_len + tx->body_len + tx->trailer_len;

	if (len > sizeof(l3) || tx->routed)
		return;
	memcpy(l3, tx->hdr, tx->hdr_len);
	if (tx->body_len != 0)
		memcpy(l3 + tx->hdr_len, tx->body, tx->body_len);
	memcpy(l3 + tx->hdr_len + tx->body_len, tx->trailer, tx->trailer_len);
	if (roce_parse(l3, len, &pkt) == DROP_NONE)
		put_packet(w, p, &row, &pkt);
}
