/* SPDX-License-Identifier: Apache-2.0 */
/* relay_out.c - the stream to the peer: chunks are taken, committed, sent, and kept until they are done. */
#include "relay_priv.h"

#include <errno.h>

#define WEIGHT_OF_FLOW 16       /* relay_weight of a channel that gets as much as a flow */
#define ALLOWANCE_MAX  (64 << 10)
#define FILL_AGAIN_NS  1000000ull /* void chunks that find no slot are tried again after this time */

/* The descriptor of the stream in the arena. */
struct out_desc {
	uint32_t life, reserved;
	uint64_t peer_epoch;
};

static uint32_t desc_idx(const struct relay_channel *c)
{
	return 2 * c->idx;
}

/* --- lives --- */

/* A life unlike the one before and, almost certainly, unlike those of other arenas. */
static uint32_t next_life(const struct proxy *p, const struct relay_out *o)
{
	uint64_t x = arena_epoch(p->arena) * 0x9e3779b97f4a7c15ull ^ (p->session.peer_arena_epoch + p->sessions);
	uint32_t life;

	x = (x ^ x >> 29) * 0xd6e8feb86659fd93ull;
	life = (uint32_t)(x >> 32) | 1;
	return life == o->life ? life + 2 : life;
}

static void begin_life(struct proxy *p, struct relay_channel *c)
{
	struct relay_out *o = &c->out;
	struct out_desc d = {.peer_epoch = p->session.peer_arena_epoch};
	uint64_t lost = o->next - o->done;

	if (o->life && lost > 0) {
		count(p, CTR_RELAY_LOST, lost);
		proxy_event_push(p, EV_RELAY_LOST, NULL, NULL, c->idx, lost);
	}
	o->life = d.life = next_life(p, o);
	o->peer_epoch = d.peer_epoch;
	o->done = o->received = o->sent = o->limit = o->next;
	o->rebuilt = o->credited = o->fill_waits = false;
	arena_desc_store(p->arena, DESC_RELAY, desc_idx(c), &d, sizeof(d));
	relay_work_later(p, c);
}

void relay_out_rebuild(struct proxy *p, struct relay_channel *c)
{
	struct relay_out *o = &c->out;
	struct out_desc d;

	if (!arena_desc_load(p->arena, DESC_RELAY, desc_idx(c), &d, sizeof(d)) || !d.life)
		return;
	o->life = d.life;
	o->peer_epoch = d.peer_epoch;
	o->rebuilt = true;
}

/* Slots come in any order: `done` becomes the first position of all and `next` the one behind the last, until the peer
 * tells its own positions. */
void relay_out_adopt(struct relay_channel *c, const struct slot_hdr *h)
{
	struct relay_out *o = &c->out;

	o->freed = o->done = o->next ? min_u64(o->done, h->pos) : h->pos;
	o->next = max_u64(o->next, h->pos + 1);
	o->sent = o->received = o->done;
}

static void open_due(struct proxy *p, struct relay_channel *c)
{
	dlist_append_once(&relay_frames_of(p, c)->opens, &c->out.open_node);
	wan_lane_schedule(p, relay_lane_of(p, c));
}

void relay_out_session_start(struct proxy *p, struct relay_channel *c)
{
	struct relay_out *o = &c->out;

	o->credited = false;
	o->limit = o->sent = o->done;
	if (c->idx >= p->session.peer_relay_channels || !p->session.peer_arena_epoch)
		return;
	if (!o->life || (o->peer_epoch != p->session.peer_arena_epoch && !FAULT(FAULT_RELAY_LIFE_KEPT)))
		begin_life(p, c);
	open_due(p, c);
}

/* --- chunks from the daemon --- */

/* Answers may use an eighth more than requests: requests may be kept until they are answered. */
static uint64_t take_budget(const struct proxy *p, bool answer)
{
	uint64_t budget = relay_budget(p, POOL_LAN);

	return answer ? budget + budget / 8 : budget;
}

int proxy_relay_take(struct proxy *p, uint64_t now_ns, uint32_t channel, uint16_t len, bool answer,
                     struct relay_chunk *out)
{
	struct relay_channel *c = relay_channel_at(p, channel);
	uint32_t bytes, slot;
	struct relay_out *o;

	if (!c || !len || len > RELAY_CHUNK_MAX)
		return -EINVAL;
	p->now_ns = now_ns;
	o = &c->out;
	if (p->session_on && channel >= p->session.peer_relay_channels)
		return -ENOTCONN;
	bytes = arena_class_bytes(len);
	if (!o->life || o->rebuilt || o->next - o->freed >= p->cfg.relay_window ||
	    p->relay->held_bytes[POOL_LAN] + bytes > take_budget(p, answer))
		return -EAGAIN;
	slot = slot_take(p, SLOT_RELAY_OUT, channel, o->life, o->next, len, relay_lane_of(p, c)->id, false);
	if (slot == SLOT_NONE)
		return -EAGAIN;
	*out = (struct relay_chunk){channel, slot, o->next++, arena_data(p->arena, slot), len};
	return 0;
}

/* The channel whose slot was lent. NULL: the slot was not lent, or its life is over; in the latter case it was
 * freed. */
static struct relay_channel *taken_back(struct proxy *p, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct relay_channel *c;

	if (h->kind != SLOT_RELAY_OUT || h->state != SLOT_FILLING)
		return NULL;
	c = &p->relay->channel[h->flow];
	if (h->inc == c->out.life)
		return c;
	slot_release(p, slot);
	return NULL;
}

static void committed(struct proxy *p, struct relay_channel *c, uint32_t slot)
{
	if (arena_hdr(p->arena, slot)->pos < c->out.done) {
		slot_release(p, slot); /* the peer calls a chunk done that was never sent: nothing would free its slot
		                        * later */
		return;
	}
	arena_commit(p->arena, slot);
	count(p, CTR_RELAY_TX, 1);
	relay_out_schedule(p, c);
}

void proxy_relay_commit(struct proxy *p, uint64_t now_ns, uint32_t slot)
{
	struct relay_channel *c = taken_back(p, slot);

	p->now_ns = now_ns;
	if (c)
		committed(p, c, slot);
}

void proxy_relay_void(struct proxy *p, uint64_t now_ns, uint32_t slot)
{
	struct relay_channel *c = taken_back(p, slot);

	p->now_ns = now_ns;
	if (!c)
		return;
	arena_data(p->arena, slot)[0] = RELAY_VOID;
	committed(p, c, slot);
}

/* --- to the peer --- */

static bool may_send(const struct relay_out *o)
{
	return o->credited && !o->rebuilt && o->sent < o->next && o->sent < o->limit;
}

static bool is_committed(struct proxy *p, uint32_t slot)
{
	return arena_hdr(p->arena, slot)->state == SLOT_COMMITTED;
}

void relay_out_schedule(struct proxy *p, struct relay_channel *c)
{
	struct lane *l = relay_lane_of(p, c);
	uint32_t slot;

	if (dnode_on(&c->out.wan_node) || !may_send(&c->out))
		return;
	slot = arena_find(p->arena, SLOT_RELAY_OUT, c->idx, c->out.sent);
	if (slot == SLOT_NONE || !is_committed(p, slot))
		return;
	dlist_append(&l->ready[SOURCE_RELAY], &c->out.wan_node);
	c->out.counts_as = (uint8_t)max_u64(p->cfg.relay_weight / WEIGHT_OF_FLOW, 1);
	l->nwaiting[SOURCE_RELAY] += c->out.counts_as;
	wan_lane_schedule(p, l);
}

static void leave_ready(struct lane *l, struct relay_channel *c)
{
	dlist_remove(&c->out.wan_node);
	l->nwaiting[SOURCE_RELAY] -= c->out.counts_as;
}

/* True if the channel has nothing more that may be sent. */
static bool put_channel(struct proxy *p, struct lane *l, struct wan_build *b, struct relay_channel *c)
{
	struct relay_out *o = &c->out;

	while (may_send(o)) {
		uint32_t slot = arena_find(p->arena, SLOT_RELAY_OUT, c->idx, o->sent);

		if (slot == SLOT_NONE || !is_committed(p, slot))
			return true;
		if (l->out_bytes >= l->window_bytes || !wan_build_slot(b, slot))
			return false;
		o->sent++;
		if (!wan_build_pieces(b))
			return false;
	}
	return true;
}

static uint32_t others_waiting(const struct lane *l)
{
	return wan_lane_waiting(l) - l->nwaiting[SOURCE_RELAY];
}

bool relay_out_allowed(const struct proxy *p, const struct lane *l, struct relay_lane *rl, size_t room)
{
	uint64_t ours = (uint64_t)l->nwaiting[SOURCE_RELAY] * min_u64(p->cfg.relay_weight, WEIGHT_OF_FLOW),
	         others = (uint64_t)others_waiting(l) * WEIGHT_OF_FLOW;

	if (!others || FAULT(FAULT_RELAY_UNWEIGHED)) {
		rl->allowance = 0;
		return true;
	}
	rl->allowance += (int64_t)(room * ours / (ours + others));
	if (rl->allowance > ALLOWANCE_MAX)
		rl->allowance = ALLOWANCE_MAX;
	return rl->allowance > 0;
}

void relay_out_put_new(struct proxy *p, struct lane *l, struct wan_build *b)
{
	struct relay_lane *rl = &p->relay->lane[l->id];
	struct dnode *channels = &l->ready[SOURCE_RELAY], *n;
	size_t before, after;

	if (dlist_empty(channels) || !relay_out_allowed(p, l, rl, wan_build_room_max(b)))
		return;
	wan_build_room(b, &before);
	while (!wan_build_full(b) && (n = dlist_first(channels))) {
		struct relay_channel *c = dlist_entry(n, struct relay_channel, out.wan_node);

		if (!put_channel(p, l, b, c)) {
			dlist_rotate(channels);
			break;
		}
		leave_ready(l, c);
	}
	wan_build_room(b, &after);
	if (others_waiting(l))
		rl->allowance -= (int64_t)(before - after);
}

/* --- from the peer --- */

/* Learns what a rebuild could not know: positions that the peer has executed are used up, and missing positions after
 * these are holes. */
static void learn_done(struct proxy *p, struct relay_channel *c, uint64_t done)
{
	struct relay_out *o = &c->out;

	if (o->next > 0 && done > o->next + p->cfg.relay_window) {
		begin_life(p, c); /* no correct peer of this life tells that */
		open_due(p, c);
		return;
	}
	o->next = max_u64(o->next, done);
	o->freed = min_u64(o->freed, done);
	o->done = o->received = o->sent = o->fill = done;
	relay_work_later(p, c);
}

void relay_out_credit(struct proxy *p, struct relay_channel *c, const struct wan_relay_credit *f)
{
	struct relay_out *o = &c->out;

	if (f->life != o->life) {
		drop(p, DROP_WAN_STALE_INCARNATION);
		return;
	}
	if (o->rebuilt && !o->credited)
		learn_done(p, c, f->done);
	if (f->life != o->life)
		return;
	o->credited = true;
	o->limit = max_u64(o->limit, f->limit);
	o->done = max_u64(o->done, min_u64(f->done, o->next));
	o->received = max_u64(max_u64(o->received, o->done), min_u64(f->received, o->next));
	o->sent = max_u64(o->sent, o->done);
	o->fill = max_u64(o->fill, o->done); /* a hole was never sent: the peer's `done` stops in front of it */
	if (!relay_out_work(p, c))
		relay_work_later(p, c);
	relay_out_schedule(p, c);
}

void relay_out_on_timer(struct proxy *p, struct relay_channel *c)
{
	if (!c->out.fill_waits)
		return;
	c->out.fill_waits = false;
	relay_work_later(p, c);
}

/* --- bounded work --- */

static void free_done(struct proxy *p, struct relay_channel *c)
{
	struct relay_out *o = &c->out;

	while (o->freed < o->done && work_take(p)) {
		uint32_t slot = arena_find(p->arena, SLOT_RELAY_OUT, c->idx, o->freed);

		if (!o->held_bytes) {
			o->freed = o->done;
			return;
		}
		if (slot != SLOT_NONE && is_committed(p, slot))
			slot_release(p, slot); /* else the daemon holds the slot, of a life that is over */
		o->freed++;
	}
}

static void fill_holes(struct proxy *p, struct relay_channel *c)
{
	struct relay_out *o = &c->out;

	for (; o->fill < o->next && work_take(p); o->fill++) {
		uint32_t slot;

		if (arena_find(p->arena, SLOT_RELAY_OUT, c->idx, o->fill) != SLOT_NONE ||
		    FAULT(FAULT_RELAY_HOLES_LEFT))
			continue;
		slot = slot_take(p, SLOT_RELAY_OUT, c->idx, o->life, o->fill, 1, relay_lane_of(p, c)->id, true);
		if (slot == SLOT_NONE) {
			o->fill_waits = true;
			wan_lane_wake_at(p, relay_lane_of(p, c), p->now_ns + FILL_AGAIN_NS);
			return;
		}
		arena_data(p->arena, slot)[0] = RELAY_VOID;
		arena_commit(p->arena, slot);
	}
	if (o->fill < o->next)
		return;
	o->rebuilt = false;
	relay_out_schedule(p, c);
}

bool relay_out_work(struct proxy *p, struct relay_channel *c)
{
	struct relay_out *o = &c->out;

	free_done(p, c);
	if (o->rebuilt && o->credited && !o->fill_waits)
		fill_holes(p, c);
	return o->freed >= o->done && !(o->rebuilt && o->credited && !o->fill_waits);
}
