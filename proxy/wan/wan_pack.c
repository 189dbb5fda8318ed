/* SPDX-License-Identifier: Apache-2.0 */
/* wan_pack.c - packets in a datagram: pieces, repairs, copies.
 *
 * Theory of operation
 *
 * Packets are cut only if they do not fit an empty datagram; pieces are multiples of 64 bytes, and both ends keep
 * bitmaps of units, so pieces may be cut differently when they are sent again.
 *
 * Repairs are doubled: the first loss makes two copies, a second loss three. Copies are spaced by a part of the round
 * trip so that one burst does not take all of them. No copy is sent once the peer has the packet. The second copy after
 * a first loss may have to wait until nothing else would go (can_wait() in wan_lane.c). */
#include "wan_lane_priv.h"

#include "wan_fec.h"
#include "proxy/wan/dgram/wan_units.h"

#define SPACING_MIN_NS 50000ull
#define SPACING_MAX_NS 2000000ull

/* Puts in one piece: units off .. off + n of the slot. False if the piece does not fit. */
static bool put_piece(struct wan_build *b, uint32_t slot, const struct slot_hdr *h, struct slot_meta *m, unsigned off,
                      unsigned n)
{
	struct proxy *p = b->p;
	struct wan_packet w = {.inc = h->inc, .pos = h->pos, .total = h->len, .vlan_tci = h->vlan_tci};
	size_t put;

	if (wan_build_refs_full(b))
		return false;
	p->wan->transport.of_slot[h->kind]->name_packet(p, h, &w);
	w.offset = (uint16_t)(off * PIECE_UNIT);
	w.len = (uint16_t)(w.offset + n * PIECE_UNIT > h->len ? (unsigned)(h->len - w.offset) : n * PIECE_UNIT);
	w.data = arena_data(p->arena, slot) + w.offset;
	put = wan_packet_put_head(b->buf + b->off, b->cap - b->off, &w);
	if (!put)
		return false;
	b->part[b->nparts++] = (struct wan_seal_part){
	    .from = w.data, .off = (uint16_t)(b->off - WAN_HDR_LEN + WAN_PACKET_OVERHEAD), .len = w.len};
	b->off += put;
	b->data = true;
	wan_build_ref(b, REF_SLOT, slot, m->gen, off, n);
	if (m->in_flight < UINT8_MAX)
		m->in_flight++;
	return true;
}

static void first_send(struct wan_build *b, const struct slot_hdr *h, struct slot_meta *m)
{
	if (!m->sends) /* sends > 0: sent again, because the flow's base moved */
		slot_sent(b->p, h, m);
}

/* True if the whole packet fits an empty datagram of the path. */
static bool fits_any(const struct wan_build *b, uint16_t len)
{
	return (size_t)len + WAN_PACKET_OVERHEAD + WAN_HDR_LEN + WAN_TAG_LEN + b->fec_room <=
	       b->path->payload_max;
}

/* Sends a slot for the first time, whole; a packet that no datagram can hold goes to the repair list, to be sent in
 * pieces. False: this datagram has no room left. */
static bool put_first(struct wan_build *b, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(b->p->arena, slot);
	struct slot_meta *m = arena_meta(b->p->arena, slot);
	unsigned units = units_of(h->len);

	if (b->cap - b->off < WAN_PACKET_OVERHEAD + (size_t)h->len && fits_any(b, h->len))
		return false;
	if (!fits_any(b, h->len)) {
		units_mask(0, units, m->lost);
		m->copies = 1;
		first_send(b, h, m);
		wan_queue_slot(b->p, &b->l->repair, slot, SQ_REPAIR);
		return true;
	}
	if (!put_piece(b, slot, h, m, 0, units))
		return false;
	first_send(b, h, m);
	return true;
}

static uint64_t spacing_ns(const struct wan_path *path)
{
	return clamp_u64(wan_rtt_min_ns(&path->rtt) / 16, SPACING_MIN_NS, SPACING_MAX_NS);
}

/* All lost units of the slot were sent: queues the next copy, if any. */
static void pass_done(struct wan_build *b, uint32_t slot)
{
	struct slot_meta *m = arena_meta(b->p->arena, slot);
	unsigned units = units_of(arena_hdr(b->p->arena, slot)->len);
	uint64_t all[2];

	m->lost[0] = m->lost[1] = 0;
	if (m->copies)
		m->copies--;
	if (!m->copies) {
		wan_unqueue(b->p, m);
		return;
	}
	units_mask(0, units, all);
	m->lost[0] = all[0] & ~m->units[0];
	m->lost[1] = all[1] & ~m->units[1];
	m->due_ns = b->p->now_ns + spacing_ns(b->path);
	wan_queue_slot(b->p, &b->l->spaced, slot, SQ_SPACED);
	wan_lane_wake_at(b->p, b->l, m->due_ns);
}

/* Puts in lost units of the slot. False if the datagram is full. */
static bool put_repair(struct wan_build *b, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(b->p->arena, slot);
	struct slot_meta *m = arena_meta(b->p->arena, slot);
	unsigned units = units_of(h->len), from = 0, start, n;

	m->lost[0] &= ~m->units[0];
	m->lost[1] &= ~m->units[1];
	while (units_next_run(m->lost, units, from, &start, &n)) {
		size_t room = b->cap - b->off;
		unsigned fit = room > WAN_PACKET_OVERHEAD ? (unsigned)((room - WAN_PACKET_OVERHEAD) / PIECE_UNIT) : 0u;
		uint64_t mask[2];

		if (start + n == units && fit + 1 == n &&
		    room - WAN_PACKET_OVERHEAD + start * PIECE_UNIT >= h->len)
			fit = n; /* the last unit is a short one */
		if (fit < n && (fits_any(b, h->len) || fit == 0))
			return false;
		if (n > fit)
			n = fit;
		if (!put_piece(b, slot, h, m, start, n))
			return false;
		if (m->sends > 1) {
			count(b->p, CTR_WAN_REPAIRS, 1);
			b->path->stats.repairs++;
		}
		units_mask(start, n, mask);
		m->lost[0] &= ~mask[0];
		m->lost[1] &= ~mask[1];
		from = start + n;
	}
	pass_done(b, slot);
	return true;
}

/* Releases the slot of a packet that no flow waits for any more, instead of sending the packet. */
static bool drop_dead(struct proxy *p, uint32_t slot)
{
	if (!wan_packet_over(p, arena_hdr(p->arena, slot)))
		return false;
	work_done(p, 1);
	slot_release(p, slot);
	return true;
}

static void pack_again(struct wan_build *b, const struct dnode *list)
{
	struct dnode *n;

	while ((n = dlist_first(list)) && b->p->work_left) {
		uint32_t slot = slot_of_meta(b->p, dlist_entry(n, struct slot_meta, node));
		bool alone = arena_meta(b->p->arena, slot)->queued == SQ_ALONE;

		if (drop_dead(b->p, slot))
			continue;
		if ((alone && b->data) || !put_repair(b, slot))
			return;
		if (alone) {
			b->cap = b->off;
			return;
		}
	}
}

void wan_pack_repairs(struct wan_build *b)
{
	if (!dlist_empty(&b->l->repair))
		pack_again(b, &b->l->repair);
}

void wan_pack_copies(struct wan_build *b)
{
	if (!dlist_empty(&b->l->copies))
		pack_again(b, &b->l->copies);
}

void wan_pack_firsts(struct wan_build *b)
{
	struct dnode *n;

	while ((n = dlist_first(&b->l->first)) && b->p->work_left) {
		struct slot_meta *m = dlist_entry(n, struct slot_meta, node);
		uint32_t slot = slot_of_meta(b->p, m);

		if (drop_dead(b->p, slot))
			continue;
		if (!put_first(b, slot))
			return;
		if (m->queued == SQ_FIRST)
			wan_unqueue(b->p, m);
	}
}

/* --- for sources: transport.h --- */

bool wan_build_full(const struct wan_build *b)
{
	return wan_build_refs_full(b) || b->cap - b->off < WAN_PACKET_OVERHEAD + PIECE_UNIT;
}

bool wan_build_slot(struct wan_build *b, uint32_t slot)
{
	return put_first(b, slot);
}

bool wan_build_pieces(struct wan_build *b)
{
	if (!dlist_empty(&b->l->repair))
		wan_pack_repairs(b);
	return dlist_empty(&b->l->repair);
}

void wan_pack_new(struct wan_build *b)
{
	const struct transport *t = &b->p->wan->transport;
	struct lane *l = b->l;

	for (unsigned i = 0; i < t->nsenders; i++)
		t->source[t->sender[(l->source_turn + i) % t->nsenders]]->put_new(b->p, l, b);
	if (++l->source_turn >= t->nsenders)
		l->source_turn = 0;
}
