/* SPDX-License-Identifier: Apache-2.0 */
/* relay_in.c - the stream from the peer: chunks come, are handed over, and are done. */
#include "relay_priv.h"

#define LIMIT_LEAST     64           /* positions beyond what has come that are always granted */
#define TELL_EVERY      256          /* so many newly done positions are told at once */
#define TELL_MIN_NS     50000ull     /* else after 1/16 of the round trip, between these bounds */
#define TELL_MAX_NS     2000000ull

/* The descriptor of the stream in the arena. */
struct in_desc {
	uint32_t life, reserved;
	uint64_t done;
};

static uint32_t desc_idx(const struct relay_channel *c)
{
	return 2 * c->idx + 1;
}

static void store_done(struct proxy *p, struct relay_channel *c, uint64_t done)
{
	struct in_desc d = {.life = c->in.life, .done = done};

	c->in.stored = done;
	arena_desc_store(p->arena, DESC_RELAY, desc_idx(c), &d, sizeof(d));
}

/* --- credit --- */

/* The position to grant: there must be room for the chunks that have not come. Chunks behind a missing one need no
 * credit: they are executed and hold nothing, or count in held_bytes. Otherwise a repair that is lost again would use
 * up all credit in front of empty memory. */
static uint64_t position_to_grant(const struct proxy *p, struct relay_in *in)
{
	uint64_t budget = relay_budget(p, POOL_WAN), held = p->relay->held_bytes[POOL_WAN],
	         room = budget > held ? (budget - held) / 4 * 3 / arena_class_bytes(RELAY_CHUNK_MAX) : 0;

	in->limit = max_u64(in->limit,
	                    min_u64(in->have + in->ahead + LIMIT_LEAST + room, in->done + p->cfg.relay_window));
	return in->limit;
}

void relay_in_tell(struct proxy *p, struct relay_channel *c, bool at_once)
{
	struct relay_in *in = &c->in;
	struct relay_lane *rl = relay_frames_of(p, c);

	if (!in->life || !p->session_on)
		return;
	if (at_once || in->done - in->told_done >= TELL_EVERY) {
		if (dnode_on(&in->credit_node) && in->credit_ns <= p->now_ns)
			return;
		dlist_remove(&in->credit_node);
		in->credit_ns = p->now_ns;
		dlist_insert_before(rl->credits.next, &in->credit_node);
		wan_lane_schedule(p, relay_lane_of(p, c));
	} else if (!dnode_on(&in->credit_node)) {
		in->credit_ns = p->now_ns + clamp_u64(proxy_rtt_ns(p) / 16, TELL_MIN_NS, TELL_MAX_NS);
		dlist_append(&rl->credits, &in->credit_node);
		wan_lane_wake_at(p, relay_lane_of(p, c), in->credit_ns);
	}
}

void relay_in_credit_frame(struct proxy *p, struct relay_channel *c, struct wan_relay_credit *f)
{
	struct relay_in *in = &c->in;

	if (in->stored != in->done && !FAULT(FAULT_RELAY_DONE_UNSTORED))
		store_done(p, c, in->done);
	*f = (struct wan_relay_credit){.channel = (uint16_t)c->idx,
	                               .life = in->life,
	                               .done = in->done,
	                               .received = in->have,
	                               .limit = position_to_grant(p, in)};
	in->told_done = in->done;
	in->told_limit = in->limit;
}

/* --- lives --- */

void relay_in_rebuild(struct proxy *p, struct relay_channel *c)
{
	struct relay_in *in = &c->in;
	struct in_desc d;

	if (!arena_desc_load(p->arena, DESC_RELAY, desc_idx(c), &d, sizeof(d)))
		return;
	in->life = d.life;
	in->done = in->stored = in->have = in->limit = in->told_done = d.done;
}

static void free_later(struct proxy *p, struct dnode *list)
{
	struct dnode *n;

	while ((n = dlist_first(list))) {
		dlist_remove(n);
		dlist_append(&p->dead_slots, n);
	}
}

/* Forgets the life before. Slots of that life that the daemon holds come back by proxy_relay_done() and are freed
 * then. */
static void begin_life(struct proxy *p, struct relay_channel *c, uint32_t life, uint64_t base)
{
	struct relay_in *in = &c->in;

	if (in->held_bytes > 0) {
		count(p, CTR_RELAY_LOST, 1);
		proxy_event_push(p, EV_RELAY_LOST, NULL, NULL, c->idx, 1);
	}
	free_later(p, &in->partial);
	free_later(p, &in->ready);
	free_later(p, &in->fences);
	dlist_remove(&in->ready_node);
	memset(in->bits, 0, p->cfg.relay_window / 8);
	in->life = life;
	in->done = in->have = in->limit = in->told_done = base;
	in->ahead = 0;
	in->advancing = false;
	store_done(p, c, base);
}

void relay_in_open(struct proxy *p, struct relay_channel *c, const struct wan_relay_open *f)
{
	if (f->life != c->in.life)
		begin_life(p, c, f->life, f->base);
	relay_in_tell(p, c, true);
}

/* --- done --- */

static bool bit_at(const struct proxy *p, const struct relay_in *in, uint64_t pos)
{
	uint64_t at = pos & (p->cfg.relay_window - 1);

	return in->bits[at / 64] >> (at % 64) & 1;
}

static void flip_bit(const struct proxy *p, struct relay_in *in, uint64_t pos)
{
	uint64_t at = pos & (p->cfg.relay_window - 1);

	in->bits[at / 64] ^= 1ull << (at % 64);
}

static bool is_whole(struct proxy *p, uint32_t slot)
{
	uint8_t q = arena_meta(p->arena, slot)->queued;

	return q == SQ_RELAY_IN || q == SQ_RELAY_HANDED;
}

static uint32_t slot_at(const struct proxy *p, const struct relay_channel *c, uint64_t pos)
{
	uint32_t slot = arena_find(p->arena, SLOT_RELAY_IN, c->idx, pos);

	return slot != SLOT_NONE && arena_hdr(p->arena, slot)->inc == c->in.life ? slot : SLOT_NONE;
}

static void put_ready(struct proxy *p, struct relay_channel *c, uint32_t slot)
{
	dlist_append(&c->in.ready, &arena_meta(p->arena, slot)->node);
	dlist_append_once(&p->relay->ready, &c->in.ready_node);
}

/* Makes the chunk at `done` ready if it is a fence that waits. */
static void look_fence(struct proxy *p, struct relay_channel *c)
{
	uint32_t slot = slot_at(p, c, c->in.done);

	if (slot == SLOT_NONE || arena_meta(p->arena, slot)->queued != SQ_RELAY_IN ||
	    !(arena_data(p->arena, slot)[0] & RELAY_FENCE))
		return;
	dlist_remove(&arena_meta(p->arena, slot)->node);
	put_ready(p, c, slot);
}

/* Notes that each position before `pos` has come. */
static void have_until(struct relay_in *in, uint64_t pos)
{
	if (pos <= in->have)
		return;
	in->ahead -= pos - in->have;
	in->have = pos;
}

static void advance_done(struct proxy *p, struct relay_channel *c)
{
	struct relay_in *in = &c->in;
	uint64_t from = in->done;
	uint32_t slot;

	while (bit_at(p, in, in->done) && work_take(p)) {
		flip_bit(p, in, in->done);
		in->done++;
	}
	have_until(in, in->done);
	while (in->have < in->limit && work_take(p) &&
	       (bit_at(p, in, in->have) ||
	        ((slot = slot_at(p, c, in->have)) != SLOT_NONE && is_whole(p, slot))))
		have_until(in, in->have + 1);
	in->advancing = !p->work_left;
	if (in->advancing)
		relay_work_later(p, c);
	if (in->done > from)
		look_fence(p, c);
	relay_in_tell(p, c, false);
}

static void done_at(struct proxy *p, struct relay_channel *c, uint32_t slot)
{
	uint64_t pos = arena_hdr(p->arena, slot)->pos;

	slot_release(p, slot);
	flip_bit(p, &c->in, pos);
	count(p, CTR_RELAY_DONE, 1);
	advance_done(p, c);
}

uint64_t relay_in_count_ahead(struct proxy *p, const struct relay_channel *c)
{
	uint64_t n = 0;

	for (uint64_t pos = c->in.have; pos < c->in.limit; pos++) {
		uint32_t slot = slot_at(p, c, pos);

		n += bit_at(p, &c->in, pos) || (slot != SLOT_NONE && is_whole(p, slot));
	}
	return n;
}

bool relay_in_work(struct proxy *p, struct relay_channel *c)
{
	if (c->in.advancing)
		advance_done(p, c);
	return !c->in.advancing;
}

/* --- chunks that come --- */

/* Takes a chunk that has come whole. A void chunk is done at once. */
static void take_whole(struct proxy *p, struct relay_channel *c, uint32_t slot)
{
	uint8_t flags = arena_data(p->arena, slot)[0];

	arena_meta(p->arena, slot)->queued = SQ_RELAY_IN;
	c->in.ahead++;
	if (flags & RELAY_VOID)
		done_at(p, c, slot);
	else if ((flags & RELAY_FENCE) && arena_hdr(p->arena, slot)->pos != c->in.done &&
	         !FAULT(FAULT_RELAY_FENCE_EARLY))
		dlist_append(&c->in.fences, &arena_meta(p->arena, slot)->node);
	else
		put_ready(p, c, slot);
}

void relay_in_adopt(struct proxy *p, struct relay_channel *c, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	uint32_t bytes = arena_class_bytes(h->len);

	if (h->inc != c->in.life || h->pos < c->in.done || h->pos - c->in.done >= p->cfg.relay_window) {
		arena_free(p->arena, slot);
		return;
	}
	arena_meta(p->arena, slot)->lane = relay_lane_of(p, c)->id;
	relay_lane_of(p, c)->rx_held_bytes += bytes;
	c->in.held_bytes += bytes;
	p->relay->held_bytes[POOL_WAN] += bytes;
	c->in.limit = max_u64(c->in.limit, h->pos + 1);
	take_whole(p, c, slot);
}

/* Takes a slot for a chunk whose first piece has come. The next chunk in order may exceed the budget. */
static uint32_t begin_chunk(struct proxy *p, struct relay_channel *c, const struct wan_packet *w)
{
	bool next = w->pos == c->in.have;
	uint32_t slot;

	if (!next && p->relay->held_bytes[POOL_WAN] + arena_class_bytes(w->total) > relay_budget(p, POOL_WAN))
		return SLOT_NONE;
	slot = slot_take(p, SLOT_RELAY_IN, c->idx, w->inc, w->pos, w->total, relay_lane_of(p, c)->id, next);
	if (slot != SLOT_NONE)
		dlist_append(&c->in.partial, &arena_meta(p->arena, slot)->node);
	return slot;
}

bool relay_in_packet(struct proxy *p, struct lane *l, const struct wan_packet *w)
{
	struct relay_channel *c = relay_channel_at(p, w->flow);
	uint32_t slot;

	if (!c || relay_lane_of(p, c) != l || w->pos >> 62 || w->total > RELAY_CHUNK_MAX) {
		drop(p, DROP_WAN_BAD_FRAME);
		return true;
	}
	if (w->inc != c->in.life || !w->inc) {
		drop(p, DROP_WAN_STALE_INCARNATION);
		return true;
	}
	if (w->pos >= c->in.limit) {
		drop(p, DROP_WAN_BEYOND_CREDIT);
		return false;
	}
	slot = arena_find(p->arena, SLOT_RELAY_IN, c->idx, w->pos);
	if (slot != SLOT_NONE && arena_hdr(p->arena, slot)->inc != w->inc)
		return false; /* a slot of the life before: it is freed soon */
	if (w->pos < c->in.done || bit_at(p, &c->in, w->pos) || (slot != SLOT_NONE && is_whole(p, slot))) {
		drop(p, DROP_WAN_POSITION_OLD);
		relay_in_tell(p, c, false); /* perhaps the peer does not know: nothing else would make credit due */
		return true;
	}
	if (slot == SLOT_NONE && (slot = begin_chunk(p, c, w)) == SLOT_NONE)
		return false;
	if (arena_hdr(p->arena, slot)->len != w->total || !wan_piece_take(p, slot, w))
		return true;
	dlist_remove(&arena_meta(p->arena, slot)->node);
	arena_commit(p->arena, slot);
	count(p, CTR_RELAY_RX, 1);
	take_whole(p, c, slot);
	if (w->pos == c->in.have)
		advance_done(p, c);
	else
		relay_in_tell(p, c, false);
	return true;
}

/* --- to the daemon and back --- */

bool proxy_relay_next(struct proxy *p, uint64_t now_ns, struct relay_chunk *out)
{
	struct relay_channel *c;
	struct slot_hdr *h;
	struct dnode *n;
	uint32_t slot;

	if (!p->relay || !(n = dlist_first(&p->relay->ready)))
		return false;
	p->now_ns = now_ns;
	c = dlist_entry(n, struct relay_channel, in.ready_node);
	n = dlist_first(&c->in.ready);
	slot = slot_of_meta(p, dlist_entry(n, struct slot_meta, node));
	dlist_remove(n);
	dlist_append(&c->in.handed, n);
	dlist_remove(&c->in.ready_node);
	if (!dlist_empty(&c->in.ready))
		dlist_append(&p->relay->ready, &c->in.ready_node);
	arena_meta(p->arena, slot)->queued = SQ_RELAY_HANDED;
	h = arena_hdr(p->arena, slot);
	*out = (struct relay_chunk){c->idx, slot, h->pos, arena_data(p->arena, slot), h->len};
	if ((out->data[0] & RELAY_FENCE) && c->in.stored != c->in.done)
		store_done(p, c, c->in.done);
	return true;
}

void proxy_relay_done(struct proxy *p, uint64_t now_ns, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct relay_channel *c;

	if (h->kind != SLOT_RELAY_IN || arena_meta(p->arena, slot)->queued != SQ_RELAY_HANDED)
		return;
	p->now_ns = now_ns;
	p->work_left = CALL_WORK;
	c = &p->relay->channel[h->flow];
	if (h->inc != c->in.life) {
		slot_release(p, slot);
		return;
	}
	if (arena_data(p->arena, slot)[0] & RELAY_FENCE)
		store_done(p, c, h->pos + 1); /* before the fence's slot is freed and chunks behind it are done */
	done_at(p, c, slot);
}
