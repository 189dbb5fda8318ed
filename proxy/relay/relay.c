/* SPDX-License-Identifier: Apache-2.0 */
/* relay.c - the channels of a shard, and the relay as a source of the transport. relay.h explains channels. */
#include "relay_priv.h"

/* --- memory --- */

static uint32_t own_channels(const struct proxy_config *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->relay_channels; i++)
		n += i % c->nlanes % c->nshards == c->shard;
	return n;
}

/* Rounded to cache lines. */
static size_t lines(size_t bytes)
{
	return (bytes + 63) & ~(size_t)63;
}

size_t relay_heap_size(const struct proxy_config *c)
{
	if (!c->relay_channels)
		return 0;
	return lines(sizeof(struct relay)) + lines(c->relay_channels * sizeof(struct relay_channel)) +
	       lines(c->nlanes * sizeof(struct relay_lane)) + (size_t)own_channels(c) * (c->relay_window / 8);
}

static void init_channel(struct relay_channel *c, uint32_t idx)
{
	c->idx = idx;
	dlist_init(&c->in.partial);
	dlist_init(&c->in.ready);
	dlist_init(&c->in.fences);
	dlist_init(&c->in.handed);
}

void relay_init(struct proxy *p, void *heap)
{
	const struct proxy_config *c = &p->cfg;
	struct relay *r = heap;
	uint8_t *at = heap;

	if (!c->relay_channels)
		return;
	p->relay = r;
	at += lines(sizeof(*r));
	r->nchannels = c->relay_channels;
	r->channel = (struct relay_channel *)(void *)at;
	at += lines(r->nchannels * sizeof(struct relay_channel));
	r->lane = (struct relay_lane *)(void *)at;
	at += lines(c->nlanes * sizeof(struct relay_lane));
	dlist_init(&r->ready);
	dlist_init(&r->work);
	for (uint32_t i = 0; i < c->nlanes; i++) {
		dlist_init(&r->lane[i].opens);
		dlist_init(&r->lane[i].credits);
	}
	for (uint32_t i = 0; i < r->nchannels; i++) {
		init_channel(&r->channel[i], i);
		if (!relay_channel_at(p, i))
			continue;
		r->channel[i].in.bits = (uint64_t *)(void *)at;
		at += c->relay_window / 8;
	}
}

/* --- a start with an arena, a session --- */

void relay_rebuild(struct proxy *p)
{
	struct relay_channel *c;

	for (uint32_t i = 0; p->relay && i < p->relay->nchannels; i++) {
		if (!(c = relay_channel_at(p, i)))
			continue;
		relay_out_rebuild(p, c);
		relay_in_rebuild(p, c);
	}
}

void relay_adopt(struct proxy *p, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	struct relay_channel *c = relay_channel_at(p, h->flow);
	uint32_t bytes = arena_class_bytes(h->len);

	if (!c || (h->kind == SLOT_RELAY_OUT && h->inc != c->out.life)) {
		count(p, CTR_RELAY_LOST, c == NULL);
		arena_free(p->arena, slot);
	} else if (h->kind == SLOT_RELAY_IN) {
		relay_in_adopt(p, c, slot);
	} else {
		arena_meta(p->arena, slot)->lane = relay_lane_of(p, c)->id;
		c->out.held_bytes += bytes;
		p->relay->held_bytes[POOL_LAN] += bytes;
		relay_out_adopt(c, h);
	}
}

void relay_session_start(struct proxy *p)
{
	struct relay_channel *c;

	for (uint32_t i = 0; p->relay && i < p->relay->nchannels; i++)
		if ((c = relay_channel_at(p, i)))
			relay_out_session_start(p, c);
}

/* --- bounded work --- */

void relay_work(struct proxy *p)
{
	struct dnode *n;

	while (p->relay && (n = dlist_first(&p->relay->work)) && work_take(p)) {
		struct relay_channel *c = dlist_entry(n, struct relay_channel, work_node);
		bool out = relay_out_work(p, c), in = relay_in_work(p, c);

		if (out && in)
			dlist_remove(n);
		else
			dlist_rotate(&p->relay->work);
	}
}

bool relay_has_work(const struct proxy *p)
{
	return p->relay && !dlist_empty(&p->relay->work);
}

/* --- the source --- */

/* False: it does not fit. */
static bool put_open(struct wan_build *b, const struct relay_channel *c)
{
	struct wan_relay_open o = {.channel = (uint16_t)c->idx, .life = c->out.life, .base = c->out.done};
	size_t room, n;
	uint8_t *at = wan_build_room(b, &room);

	if (!wan_build_places(b) || !(n = wan_relay_open_put(at, room, &o)))
		return false;
	wan_build_frame(b, n, WF_RELAY_OPEN, c->idx, (uint16_t)o.life);
	return true;
}

static bool put_credit(struct proxy *p, struct wan_build *b, struct relay_channel *c)
{
	struct wan_relay_credit f;
	size_t room, n;
	uint8_t *at = wan_build_room(b, &room);

	if (!wan_build_places(b))
		return false;
	relay_in_credit_frame(p, c, &f);
	if (!(n = wan_relay_credit_put(at, room, &f)))
		return false;
	wan_build_frame(b, n, WF_RELAY_CREDIT, c->idx, (uint16_t)f.life);
	return true;
}

static struct relay_channel *first_credit(const struct relay_lane *l)
{
	struct dnode *n = dlist_first(&l->credits);

	return n ? dlist_entry(n, struct relay_channel, in.credit_node) : NULL;
}

static void put_control(struct proxy *p, struct lane *l, struct wan_build *b, uint64_t until_ns)
{
	struct relay_lane *rl = &p->relay->lane[l->id];
	struct relay_channel *c;
	struct dnode *n;

	while ((n = dlist_first(&rl->opens))) {
		if (!put_open(b, dlist_entry(n, struct relay_channel, out.open_node)))
			return;
		dlist_remove(n);
	}
	while ((c = first_credit(rl))) {
		if (c->in.credit_ns > until_ns) {
			wan_lane_wake_at(p, l, c->in.credit_ns);
			return;
		}
		if (!put_credit(p, b, c))
			return;
		dlist_remove(&c->in.credit_node);
	}
}

static enum wan_due control_due(const struct proxy *p, const struct lane *l)
{
	const struct relay_lane *rl = &p->relay->lane[l->id];
	const struct relay_channel *c = first_credit(rl);

	return !dlist_empty(&rl->opens) || (c && c->in.credit_ns <= p->now_ns) ? WAN_DUE : WAN_DUE_NOT;
}

static void on_timer(struct proxy *p, struct lane *l)
{
	const struct relay_channel *c = first_credit(&p->relay->lane[l->id]);

	for (uint32_t i = l->id; i < p->relay->nchannels; i += p->cfg.nlanes)
		relay_out_on_timer(p, &p->relay->channel[i]);
	if (c && c->in.credit_ns > p->now_ns)
		wan_lane_wake_at(p, l, c->in.credit_ns);
	else if (c)
		wan_lane_schedule(p, l);
}

static void frame_lost(struct proxy *p, struct lane *l, uint8_t type, uint32_t id, uint16_t gen)
{
	struct relay_channel *c = &p->relay->channel[id];

	if (type == WF_RELAY_CREDIT && (uint16_t)c->in.life == gen) {
		relay_in_tell(p, c, true);
	} else if (type == WF_RELAY_OPEN && (uint16_t)c->out.life == gen && !c->out.credited) {
		dlist_append_once(&p->relay->lane[l->id].opens, &c->out.open_node);
		wan_lane_schedule(p, l);
	}
}

static bool on_frame(struct proxy *p, struct lane *l, const struct wan_frame *f)
{
	struct relay_channel *c;
	union {
		struct wan_relay_open open;
		struct wan_relay_credit credit;
	} u;

	if (f->type == WF_RELAY_OPEN) {
		if (!wan_relay_open_get(f, &u.open) || !(c = relay_channel_at(p, u.open.channel)) || relay_lane_of(p, c) != l)
			return false;
		relay_in_open(p, c, &u.open);
		return true;
	}
	if (!wan_relay_credit_get(f, &u.credit) || !(c = relay_channel_at(p, u.credit.channel)) || relay_lane_of(p, c) != l)
		return false;
	relay_out_credit(p, c, &u.credit);
	return true;
}

static void name_packet(struct proxy *p, const struct slot_hdr *h, struct wan_packet *w)
{
	(void)p;
	w->kind = WP_RELAY;
	w->flow = h->flow;
}

static bool packet_over(const struct proxy *p, const struct slot_hdr *h)
{
	const struct relay_channel *c = &p->relay->channel[h->flow];

	return h->inc != c->out.life || h->pos < c->out.done;
}

static void slot_held(struct proxy *p, uint32_t slot, const struct slot_hdr *h, int64_t bytes)
{
	struct relay_channel *c = &p->relay->channel[h->flow];
	bool out = h->kind == SLOT_RELAY_OUT;

	(void)slot;
	*(out ? &c->out.held_bytes : &c->in.held_bytes) += (uint64_t)bytes;
	p->relay->held_bytes[out ? POOL_LAN : POOL_WAN] += (uint64_t)bytes;
}

static void session_start(struct proxy *p, struct lane *l)
{
	struct relay_lane *rl = &p->relay->lane[l->id];
	struct dnode *n;

	while ((n = dlist_first(&rl->opens)) || (n = dlist_first(&rl->credits)))
		dlist_remove(n);
	rl->allowance = 0;
}

const struct wan_source relay_source = {
    .name = "relay",
    .frames_sent = 1ull << WF_RELAY_OPEN | 1ull << WF_RELAY_CREDIT,
    .frames_taken = 1ull << WF_RELAY_OPEN | 1ull << WF_RELAY_CREDIT,
    .packets_taken = 1u << WP_RELAY,
    .slot_kinds = 1u << SLOT_RELAY_OUT | 1u << SLOT_RELAY_IN,
    .keeps_slots = true,
    .control_due = control_due,
    .put_control = put_control,
    .put_new = relay_out_put_new,
    .name_packet = name_packet,
    .packet_over = packet_over,
    .frame_lost = frame_lost,
    .on_packet = relay_in_packet,
    .on_frame = on_frame,
    .slot_held = slot_held,
    .on_timer = on_timer,
    .session_start = session_start,
};

/* --- status --- */

bool proxy_relay_status(const struct proxy *p, uint32_t channel, struct relay_status *s)
{
	const struct relay_channel *c = relay_channel_at(p, channel);

	if (!c)
		return false;
	*s = (struct relay_status){
	    .life = c->out.rebuilt ? 0 : c->out.life,
	    .out_next = c->out.next,
	    .out_received = c->out.received,
	    .out_done = c->out.done,
	    .in_done = c->in.done,
	    .out_held_bytes = c->out.held_bytes,
	    .in_held_bytes = c->in.held_bytes,
	};
	return true;
}

static uint64_t list_bytes(struct proxy *p, const struct dnode *head, uint32_t life)
{
	uint64_t bytes = 0;

	for (const struct dnode *n = head->next; n != head; n = n->next) {
		const struct slot_hdr *h =
		    arena_hdr(p->arena, slot_of_meta(p, dlist_entry(n, struct slot_meta, node)));

		bytes += h->inc == life ? arena_class_bytes(h->len) : 0;
	}
	return bytes;
}

/* Each held slot of the running life is on one of the lists; other held slots wait to be freed. */
static int audit_channel(struct proxy *p, const struct relay_channel *c)
{
	const struct relay_in *in = &c->in;
	uint64_t bytes = list_bytes(p, &in->partial, in->life) + list_bytes(p, &in->ready, in->life) +
	                 list_bytes(p, &in->fences, in->life) + list_bytes(p, &in->handed, in->life);

	if (bytes > in->held_bytes || in->done > in->have || in->have > in->limit)
		return -141;
	if (c->out.freed > c->out.done || c->out.done > c->out.next || c->out.sent > c->out.next)
		return -142;
	if (in->ahead != relay_in_count_ahead(p, c))
		return -145;
	return dnode_on(&in->ready_node) == !dlist_empty(&in->ready) ? 0 : -143;
}

int relay_audit(struct proxy *p)
{
	uint64_t held[POOL_COUNT] = {0};
	int rc = 0;

	for (uint32_t i = 0; p->relay && i < p->relay->nchannels && rc == 0; i++) {
		held[POOL_LAN] += p->relay->channel[i].out.held_bytes;
		held[POOL_WAN] += p->relay->channel[i].in.held_bytes;
		if (relay_channel_at(p, i))
			rc = audit_channel(p, &p->relay->channel[i]);
	}
	if (rc == 0 && p->relay)
		for (unsigned pool = 0; pool < POOL_COUNT; pool++)
			if (held[pool] != p->relay->held_bytes[pool])
				rc = -144;
	return rc;
}
