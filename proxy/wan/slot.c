/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: slots are taken and given back here and nowhere else, so that the bytes held per flow, per lane
 * and in flight cannot drift from what the arena holds.
 *
 * The last eighth of each pool is for urgent packets: the one that a flow waits for next. Out-of-order packets of many
 * flows could otherwise fill a pool while every flow lacks its next packet, and nothing would ever drain. Free bytes in
 * chunks of smaller slots are no room for a packet: so URGENT_SLOTS of the packet's own size stay free, too. */
#include "wan.h"

#define URGENT_SLOTS 8 /* slots of each size that only urgent packets may take */
#define LOOKS_PER_WORK 32 /* entries of the arena's index, which one unit of CALL_WORK pays for */
#define GIVEN_STEP  8 /* given responses that alloc() frees at a time */
#define GIVEN_NS         1000000000ull /* given responses stay this long: longer than hosts take to notice a loss at LAN
                                        * distance */
#define GIVEN_PORTION    64 /* given responses freed in one call of the timer */
#define GIVEN_PORTION_NS 50000ull /* time until the timer frees the next portion */
#define GIVEN_TRIES 4 /* times that alloc() frees GIVEN_STEP responses for one slot */

/* Room reserved for awaited responses (reserved_bytes) that this kind may not take. Requests from the peer may take it:
 * their credit was perhaps granted before the reservation. */
static uint64_t room_of_others(const struct proxy *p, enum slot_kind kind)
{
	return arena_pool_of(kind) == POOL_WAN && kind != SLOT_REQ_FAR ? p->reserved_bytes : 0;
}

static bool leaves_urgent_room(const struct proxy *p, enum slot_kind kind, uint16_t len)
{
	enum arena_pool pool = arena_pool_of(kind);
	uint32_t bytes = arena_class_bytes(len);
	uint64_t urgent = URGENT_SLOTS * bytes, given = pool == POOL_WAN ? p->given_bytes : 0;

	return pool_free(p, pool) >= pool_reserve(p, pool) + bytes + room_of_others(p, kind) &&
	       (given > urgent || arena_has_room(p->arena, pool, len, urgent - given));
}

void slot_given(struct proxy *p, uint32_t slot)
{
	struct slot_meta *m = arena_meta(p->arena, slot);

	dlist_remove(&m->node);
	dlist_append(&p->given_resps, &m->node);
	m->queued = SQ_GIVEN;
	m->due_ns = p->now_ns + GIVEN_NS;
	if (!timer_armed(&p->given_timer))
		timer_set(&p->timers, &p->given_timer, m->due_ns);
	p->given_bytes += arena_class_bytes(arena_hdr(p->arena, slot)->len);
}

void slot_given_release(struct proxy *p, uint32_t slot)
{
	p->given_bytes -= arena_class_bytes(arena_hdr(p->arena, slot)->len);
	slot_release(p, slot);
}

bool slot_given_free(struct proxy *p, unsigned n)
{
	bool any = !dlist_empty(&p->given_resps);

	for (; n > 0 && !dlist_empty(&p->given_resps); n--)
		slot_given_release(p,
		                   slot_of_meta(p, dlist_entry(dlist_first(&p->given_resps), struct slot_meta, node)));
	return any;
}

/* Notes since when a pool is full, so that only urgent packets get a slot, without any slot being freed. */
static void look_stuck(struct proxy *p, enum arena_pool pool)
{
	bool full = pool_free(p, pool) < pool_reserve(p, pool) + arena_class_bytes(LAN_PKT_MAX);

	if (!full || p->released[pool] != p->released_then[pool]) {
		p->full_ns[pool] = 0;
		p->stuck[pool] = false;
	} else if (!p->full_ns[pool]) {
		p->full_ns[pool] = p->now_ns;
	} else if (!p->stuck[pool] && p->now_ns >= p->full_ns[pool] + POOL_STUCK_MS * 1000000ull) {
		p->stuck[pool] = true;
		proxy_event_push(p, EV_POOL_STUCK, NULL, NULL, (uint64_t)pool, arena_used(p->arena, pool));
	}
	p->released_then[pool] = p->released[pool];
}

void slot_look_stuck(struct proxy *p)
{
	look_stuck(p, POOL_LAN);
	look_stuck(p, POOL_WAN);
}

void slot_given_on_timer(struct proxy *p)
{
	struct dnode *n;

	for (unsigned i = 0; i < GIVEN_PORTION && (n = dlist_first(&p->given_resps)); i++) {
		struct slot_meta *m = dlist_entry(n, struct slot_meta, node);

		if (p->now_ns < m->due_ns) {
			timer_set(&p->timers, &p->given_timer, m->due_ns);
			return;
		}
		slot_given_release(p, slot_of_meta(p, m));
	}
	if (!dlist_empty(&p->given_resps))
		timer_set(&p->timers, &p->given_timer, p->now_ns + GIVEN_PORTION_NS);
}

/* Allocates a slot. If there is none, frees responses that hosts were given: their slots, or whole chunks that the
 * other pool can take. */
static uint32_t alloc(struct proxy *p, enum slot_kind kind, uint32_t flow, uint32_t inc, uint64_t pos, uint16_t len)
{
	uint32_t slot = arena_alloc(p->arena, kind, flow, inc, pos, len);

	for (unsigned tries = 0; slot == SLOT_NONE && tries < GIVEN_TRIES && slot_given_free(p, GIVEN_STEP); tries++)
		slot = arena_alloc(p->arena, kind, flow, inc, pos, len);
	return slot;
}

uint32_t slot_take(struct proxy *p, enum slot_kind kind, uint32_t flow, uint32_t inc, uint64_t pos, uint16_t len,
                   uint16_t lane, bool urgent)
{
	enum arena_pool pool = arena_pool_of(kind);
	uint32_t bytes = arena_class_bytes(len), slot;
	const struct wan_source *s;

	if (FAULT(FAULT_RESERVE_UNUSED))
		urgent = false;
	if (!urgent && !leaves_urgent_room(p, kind, len))
		return SLOT_NONE;
	slot = alloc(p, kind, flow, inc, pos, len);
	if (slot == SLOT_NONE)
		return SLOT_NONE;
	arena_meta(p->arena, slot)->lane = (uint8_t)lane;
	s = p->wan->transport.of_slot[kind];
	if (s->slot_held)
		s->slot_held(p, slot, arena_hdr(p->arena, slot), bytes);
	if (pool == POOL_WAN)
		lane_of(p, lane)->rx_held_bytes += bytes;
	return slot;
}

/* Copies through the caches although most of the packet is not read again for a round trip: the cipher reads it in a
 * moment. A copy past the caches saves half of what fetching the bytes back would cost. */
struct slot_hdr *slot_fill(struct proxy *p, uint32_t *slot, const uint8_t *l3, const struct roce_pkt *pkt,
                           uint16_t vlan_tci)
{
	struct slot_hdr *h;
	uint8_t *data;

	if (l3 == p->landed.l3)
		*slot = slot_adopt_landed(p, *slot);
	h = arena_hdr(p->arena, *slot);
	data = arena_data_of(p->arena, *slot, h);
	if (data != l3)
		memcpy(data, l3, pkt->len);
	roce_forward(data, pkt);
	slot_describe(h, pkt, vlan_tci);
	return h;
}

void slot_describe(struct slot_hdr *h, const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	uint16_t op = roce_op(pkt->opcode)->flags;

	h->opcode = pkt->opcode;
	h->bth_off = pkt->bth_off;
	h->hdr_len = pkt->hdr_len;
	h->pad = pkt->pad;
	h->vlan_tci = vlan_tci;
	h->psns = 1;
	h->flags = 0;
	if (pkt->ack_req)
		h->flags |= SF_ACK_REQ;
	if (op & ROP_START)
		h->flags |= SF_MSG_START;
	if (op & ROP_END)
		h->flags |= SF_MSG_END;
	if (pkt->class == ROCE_RC_UNKNOWN || (op & ROP_OWN_RESPONSE))
		h->flags |= SF_OWN_RESPONSE;
}

void slot_keep(struct proxy *p, uint32_t slot)
{
	struct slot_meta *m = arena_meta(p->arena, slot);

	dlist_remove(&m->node);
	slot_unsent(p, slot);
	*m = (struct slot_meta){.next = m->next, .gen = (uint16_t)(m->gen + 1), .lane = m->lane, .pins = m->pins};
}

static void count_out(struct proxy *p, const struct slot_hdr *h, uint8_t lane, int64_t bytes)
{
	const struct wan_source *s = p->wan->transport.of_slot[h->kind];

	lane_of(p, lane)->out_bytes += (uint64_t)bytes;
	if (s->slot_out)
		s->slot_out(p, h, bytes);
}

void slot_sent(struct proxy *p, const struct slot_hdr *h, struct slot_meta *m)
{
	m->sends = 1;
	count_out(p, h, m->lane, arena_class_bytes(h->len));
}

static void mark_unsent(struct proxy *p, const struct slot_hdr *h, struct slot_meta *m)
{
	if (!m->sends)
		return;
	m->sends = 0;
	count_out(p, h, m->lane, -(int64_t)arena_class_bytes(h->len));
}

void slot_unsent(struct proxy *p, uint32_t slot)
{
	mark_unsent(p, arena_hdr(p->arena, slot), arena_meta(p->arena, slot));
}

/* True for the queues whose slots go as soon as the lane may send. Further copies and refused slots wait for their
 * time. */
static bool is_to_go(uint8_t q)
{
	return q == SQ_FIRST || q == SQ_REPAIR || q == SQ_ALONE;
}

static void tell_waits(struct proxy *p, const struct slot_hdr *h, bool waits)
{
	const struct wan_source *s = p->wan->transport.of_slot[h->kind];

	if (s->slot_waits)
		s->slot_waits(p, h, waits);
}

void slot_set_queue(struct proxy *p, uint32_t slot, enum slot_queue q)
{
	struct slot_meta *m = arena_meta(p->arena, slot);
	bool waited = is_to_go(m->queued), waits = is_to_go((uint8_t)q);

	m->queued = (uint8_t)q;
	if (waits != waited)
		tell_waits(p, arena_hdr(p->arena, slot), waits);
}

void slot_waits_no_more(struct proxy *p, uint32_t slot)
{
	if (is_to_go(arena_meta(p->arena, slot)->queued))
		tell_waits(p, arena_hdr(p->arena, slot), false);
}

void slot_release(struct proxy *p, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct slot_meta *m = arena_meta(p->arena, slot);
	struct lane *l = lane_of(p, m->lane);
	uint32_t bytes = arena_class_bytes(h->len);
	const struct wan_source *s = p->wan->transport.of_slot[h->kind];

	dlist_remove(&m->node);
	if (is_to_go(m->queued))
		tell_waits(p, h, false);
	p->released[arena_pool_of(h->kind)]++;
	if (arena_pool_of(h->kind) == POOL_WAN)
		l->rx_held_bytes -= bytes;
	else
		mark_unsent(p, h, m);
	if (s->slot_held)
		s->slot_held(p, slot, h, -(int64_t)bytes);
	work_done(p, arena_free(p->arena, slot) / LOOKS_PER_WORK);
}

void slot_to_tx(const struct proxy *p, uint32_t slot, const struct slot_hdr *h, struct lan_tx *tx)
{
	const uint8_t *data = arena_data_of(p->arena, slot, h);

	memcpy(tx->hdr, data, h->hdr_len);
	tx->slot = slot;
	tx->hdr_len = h->hdr_len;
	tx->body = data + h->hdr_len;
	tx->body_len = (uint16_t)(slot_packet_len(h) - h->hdr_len - ROCE_ICRC_LEN);
	memcpy(tx->trailer, data + slot_packet_len(h) - ROCE_ICRC_LEN, ROCE_ICRC_LEN);
	tx->trailer_len = ROCE_ICRC_LEN;
}
