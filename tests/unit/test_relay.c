/* SPDX-License-Identifier: Apache-2.0 */
/* Relay channels between two shards: what crosses, what a kill leaves, what a peer may not do. */
#include "core_fixture.h"

#include <errno.h>

#include "proxy/relay/relay_priv.h"

#define CHANNELS 4
#define CHUNK    4096

static struct core *given_window(void **state, uint32_t chunks, uint32_t window)
{
	struct core *c = calloc(1, sizeof(*c));
	struct core_edge *e[2];

	assert_non_null(c);
	*state = c;
	c->now_ns = CORE_START;
	core_edges_open(c, ACK_MODE_NEAR, chunks, chunks);
	e[0] = &c->a;
	e[1] = &c->b;
	for (int i = 0; i < 2; i++) {
		e[i]->cfg.relay_channels = CHANNELS;
		e[i]->cfg.relay_window = window;
		core_begin(e[i], 1);
	}
	return c;
}

static struct core *given(void **state, uint32_t chunks)
{
	return given_window(state, chunks, 256);
}

static void begin_session(struct core *c, uint64_t arena_a, uint64_t arena_b)
{
	struct proxy_session sa = {.epoch_tx = ++c->epoch,
	                           .epoch_rx = 0x10000 + c->epoch,
	                           .peer_arena_epoch = arena_b,
	                           .peer_relay_channels = CHANNELS};
	struct proxy_session sb = {.epoch_tx = sa.epoch_rx,
	                           .epoch_rx = sa.epoch_tx,
	                           .peer_arena_epoch = arena_a,
	                           .peer_relay_channels = CHANNELS};

	proxy_session_start(c->a.p, &sa, c->now_ns);
	proxy_session_start(c->b.p, &sb, c->now_ns);
}

static void meet(struct core *c, uint64_t arena_a, uint64_t arena_b)
{
	begin_session(c, arena_a, arena_b);
	core_wait(c, 10 * CORE_MS);
}

static struct core *given_met(void **state)
{
	struct core *c = given(state, 48);

	meet(c, 1, 1);
	return c;
}

/* Takes a chunk and fills it, without committing it. */
static struct relay_chunk take(struct core_edge *e, uint32_t channel, uint8_t flags, uint8_t byte, uint16_t len)
{
	struct relay_chunk k;

	assert_int_equal(proxy_relay_take(e->p, e->c->now_ns, channel, len, channel % 2, &k), 0);
	memset(k.data, byte, len);
	k.data[0] = flags;
	return k;
}

static void put(struct core_edge *e, uint32_t channel, uint8_t flags, uint8_t byte, uint16_t len)
{
	struct relay_chunk k = take(e, channel, flags, byte, len);

	proxy_relay_commit(e->p, e->c->now_ns, k.slot);
}

/* The next chunk handed over must hold that byte. */
static struct relay_chunk get(struct core_edge *e, uint8_t byte)
{
	struct relay_chunk k;

	assert_true(proxy_relay_next(e->p, e->c->now_ns, &k));
	assert_int_equal(k.data[k.len - 1], byte);
	return k;
}

static void none(struct core_edge *e)
{
	struct relay_chunk k;

	assert_false(proxy_relay_next(e->p, e->c->now_ns, &k));
}

static void done(struct core_edge *e, const struct relay_chunk *k)
{
	proxy_relay_done(e->p, e->c->now_ns, k->slot);
	core_wait(e->c, 10 * CORE_MS);
}

static struct relay_status status(struct core_edge *e, uint32_t channel)
{
	struct relay_status s;

	assert_true(proxy_relay_status(e->p, channel, &s));
	return s;
}

static void relay__chunks_cross_both_ways(void **state)
{
	struct core *c = given_met(state);
	struct relay_chunk k;

	put(&c->a, 0, 0, 'x', CHUNK);
	put(&c->b, 3, 0, 'y', 20);
	assert_int_equal(status(&c->a, 0).out_next, 1);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(status(&c->a, 0).out_received, 1);
	assert_int_equal(status(&c->a, 0).out_done, 0);
	k = get(&c->b, 'x');
	assert_true(k.channel == 0 && k.pos == 0 && k.len == CHUNK);
	none(&c->b);
	done(&c->b, &k);
	assert_int_equal(status(&c->a, 0).out_done, 1);
	k = get(&c->a, 'y');
	done(&c->a, &k);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_used(&c->b), 0);
}

static void relay__fence_waits_for_all_before(void **state)
{
	struct core *c = given_met(state);
	struct relay_chunk k[3];

	put(&c->a, 1, 0, 'a', 100);
	put(&c->a, 1, 0, 'b', 100);
	put(&c->a, 1, RELAY_FENCE, 'f', 100);
	core_wait(c, 10 * CORE_MS);
	k[0] = get(&c->b, 'a');
	k[1] = get(&c->b, 'b');
	none(&c->b);
	done(&c->b, &k[1]);
	none(&c->b);
	done(&c->b, &k[0]);
	k[2] = get(&c->b, 'f');
	done(&c->b, &k[2]);
	assert_int_equal(status(&c->a, 1).out_done, 3);
}

static void relay__void_chunks_are_not_handed_over(void **state)
{
	struct core *c = given_met(state);
	struct relay_chunk k = take(&c->a, 0, 0, 'v', CHUNK);

	proxy_relay_void(c->a.p, c->now_ns, k.slot);
	put(&c->a, 0, RELAY_FENCE, 'f', 9);
	core_wait(c, 10 * CORE_MS);
	k = get(&c->b, 'f');
	done(&c->b, &k);
	none(&c->b);
}

/* kill -9 of the sender: what was committed crosses, what was only taken is void. */
static void relay__committed_survives_the_sender(void **state)
{
	struct core *c = given_met(state);
	struct relay_chunk k, lent;

	c->cut = true;
	put(&c->a, 0, 0, 'a', CHUNK);
	lent = take(&c->a, 0, 0, 'l', CHUNK);
	put(&c->a, 0, RELAY_FENCE, 'f', 50);
	(void)lent;
	core_rebuild(&c->a);
	assert_int_equal(proxy_relay_take(c->a.p, c->now_ns, 0, 10, false, &k), -EAGAIN);
	c->cut = false;
	meet(c, 1, 1);
	k = get(&c->b, 'a');
	none(&c->b);
	done(&c->b, &k);
	k = get(&c->b, 'f');
	assert_int_equal(k.pos, 2);
	done(&c->b, &k);
	assert_int_equal(status(&c->a, 0).out_done, 3);
	put(&c->a, 0, 0, 'n', 10);
	core_wait(c, 10 * CORE_MS);
	k = get(&c->b, 'n');
	assert_int_equal(k.pos, 3);
	done(&c->b, &k);
}

static void put_many(struct core *c, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		put(&c->a, 0, 0, 'a', 100);
		if (i % 50 == 0)
			core_wait(c, 10 * CORE_MS);
	}
	core_wait(c, 100 * CORE_MS);
}

/* The daemon of edge b executes all chunks that it gets. Returns their number. */
static uint32_t execute_all(struct core *c)
{
	struct relay_chunk k;
	uint32_t n = 0;

	for (; proxy_relay_next(c->b.p, c->now_ns, &k); n++)
		proxy_relay_done(c->b.p, c->now_ns, k.slot);
	return n;
}

static void carry_all(struct core *c, struct core_edge *from, struct core_edge *to)
{
	while (core_carry(c, from, to))
		;
}

/* kill -9 of the sender: more chunks than one call searches for holes. The receiver executes its chunks, and says so,
 * before the sender has found its hole. */
static void relay__credit_comes_while_holes_are_filled(void **state)
{
	enum { SENT = 2 * CALL_WORK + 100, BEHIND = 50 };
	struct core *c = given_window(state, 120, 2048);
	const struct relay_out *o;

	meet(c, 1, 1);
	put_many(c, SENT);
	take(&c->a, 0, 0, 'l', 100);
	put_many(c, BEHIND);
	core_rebuild(&c->a);
	o = &c->a.p->relay->channel[0].out;
	begin_session(c, 1, 1);
	carry_all(c, &c->a, &c->b);
	carry_all(c, &c->b, &c->a);
	assert_true(o->credited && o->rebuilt && o->fill < SENT);
	assert_int_equal(execute_all(c), SENT);
	carry_all(c, &c->b, &c->a);
	assert_true(o->rebuilt);
	assert_int_equal(status(&c->a, 0).out_done, SENT);
	assert_int_equal(relay_audit(c->a.p), 0);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(execute_all(c), BEHIND);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(status(&c->a, 0).out_done, SENT + 1 + BEHIND);
	assert_int_equal(core_drops(&c->b, DROP_WAN_POSITION_OLD), 0);
	assert_int_equal(core_used(&c->a) + core_used(&c->b), 0);
	assert_int_equal(relay_audit(c->a.p), 0);
}

/* kill -9 of the receiver: what was done in front of a fence that was handed over does not come again; the fence does. */
static void relay__receiver_repeats_the_fence_alone(void **state)
{
	struct core *c = given_met(state);
	struct relay_chunk k;

	put(&c->a, 0, 0, 'a', CHUNK);
	put(&c->a, 0, RELAY_FENCE, 'f', 50);
	core_wait(c, 10 * CORE_MS);
	k = get(&c->b, 'a');
	done(&c->b, &k);
	k = get(&c->b, 'f');
	core_rebuild(&c->b);
	meet(c, 1, 1);
	k = get(&c->b, 'f');
	none(&c->b);
	done(&c->b, &k);
	core_rebuild(&c->b);
	meet(c, 1, 1);
	none(&c->b);
	assert_int_equal(status(&c->a, 0).out_done, 2);
	assert_int_equal(core_used(&c->a) + core_used(&c->b), 0);
}

/* The peer's arena is lost: a new life, said aloud; what is lent comes back without harm. */
static void relay__lost_arena_is_another_life(void **state)
{
	struct core *c = given_met(state);
	struct relay_chunk lent = take(&c->a, 0, 0, 'l', CHUNK), k;
	uint32_t life = status(&c->a, 0).life;

	put(&c->a, 0, 0, 'a', CHUNK);
	core_begin(&c->b, 9);
	core_event(&c->a, EV_RELAY_LOST);
	meet(c, 1, 9);
	assert_true(core_event(&c->a, EV_RELAY_LOST));
	assert_int_equal(core_ctr(&c->a, CTR_RELAY_LOST), 2);
	assert_true(status(&c->a, 0).life != life);
	none(&c->b);
	proxy_relay_commit(c->a.p, c->now_ns, lent.slot);
	core_wait(c, 10 * CORE_MS);
	none(&c->b);
	put(&c->a, 0, 0, 'n', CHUNK);
	core_wait(c, 10 * CORE_MS);
	k = get(&c->b, 'n');
	done(&c->b, &k);
	assert_int_equal(core_used(&c->a) + core_used(&c->b), 0);
}

/* The sender's arena is lost: what the receiver's daemon has in hand is of a life that is over. */
static void relay__old_life_in_hand_is_harmless(void **state)
{
	struct core *c = given_met(state);
	struct relay_chunk k, old;

	put(&c->a, 0, 0, 'o', CHUNK);
	core_wait(c, 10 * CORE_MS);
	old = get(&c->b, 'o');
	core_begin(&c->a, 9);
	meet(c, 9, 1);
	put(&c->a, 0, 0, 'n', CHUNK);
	core_wait(c, 10 * CORE_MS);
	none(&c->b); /* its place is still the old one's */
	done(&c->b, &old);
	core_wait(c, 200 * CORE_MS);
	k = get(&c->b, 'n');
	done(&c->b, &k);
	assert_int_equal(status(&c->a, 0).out_done, 1);
}

static uint32_t nth;

static bool lose_some(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)c;
	(void)from;
	(void)dgram;
	(void)len;
	return ++nth % 7 != 0;
}

static void relay__losses_are_repaired(void **state)
{
	struct core *c = given_met(state);
	struct relay_chunk k;
	uint32_t got = 0;

	c->wan = lose_some;
	for (int i = 0; i < 60; i++)
		put(&c->a, 2, 0, 'x', (uint16_t)(1000 + 50 * i));
	for (int i = 0; i < 400 && got < 60; i++) {
		core_wait(c, 5 * CORE_MS);
		while (proxy_relay_next(c->b.p, c->now_ns, &k)) {
			assert_int_equal(k.data[k.len - 1], 'x');
			proxy_relay_done(c->b.p, c->now_ns, k.slot);
			got++;
		}
	}
	assert_int_equal(got, 60);
	c->wan = NULL;
	core_wait(c, 500 * CORE_MS);
	assert_int_equal(status(&c->a, 2).out_done, 60);
}

/* Chunks hold no more than their part of the pool, and the window of a channel. */
static void relay__bounded(void **state)
{
	struct core *c = given_met(state);
	struct relay_chunk k;
	uint32_t n = 0;
	int rc;

	c->cut = true;
	while ((rc = proxy_relay_take(c->a.p, c->now_ns, 0, CHUNK, false, &k)) == 0)
		n++;
	assert_int_equal(rc, -EAGAIN);
	assert_true(n > 0 && (uint64_t)n * arena_class_bytes(CHUNK) <= relay_budget(c->a.p, POOL_LAN));
	assert_int_equal(proxy_relay_take(c->a.p, c->now_ns, CHANNELS, CHUNK, false, &k), -EINVAL);
	assert_int_equal(proxy_relay_take(c->a.p, c->now_ns, 0, 0, false, &k), -EINVAL);
	assert_int_equal(proxy_relay_take(c->a.p, c->now_ns, 0, RELAY_CHUNK_MAX + 1, false, &k), -EINVAL);
}

/* Requests may be kept until they are answered: answers find room when requests have all of their part. */
static void relay__answers_have_room(void **state)
{
	struct core *c = given(state, 8);
	struct relay_chunk k;

	meet(c, 1, 1);
	c->cut = true;
	for (uint32_t channel = 0; channel < CHANNELS; channel += 2)
		while (proxy_relay_take(c->a.p, c->now_ns, channel, CHUNK, false, &k) == 0)
			;
	assert_true(c->a.p->relay->held_bytes[POOL_LAN] + CHUNK > relay_budget(c->a.p, POOL_LAN));
	assert_int_equal(proxy_relay_take(c->a.p, c->now_ns, 1, CHUNK, true, &k), 0);
}

/* A peer that calls done what was never sent: its slot is not kept for ever. */
static void relay__done_before_it_is_committed(void **state)
{
	struct core *c = given_met(state);
	struct relay_chunk k = take(&c->a, 0, 0, 'e', CHUNK);
	struct wan_relay_credit f = {.life = status(&c->a, 0).life, .done = 1, .received = 1, .limit = 64};

	relay_out_credit(c->a.p, &c->a.p->relay->channel[0], &f);
	proxy_relay_commit(c->a.p, c->now_ns, k.slot);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(status(&c->a, 0).out_held_bytes, 0);
	assert_int_equal(core_used(&c->a), 0);
}

static void relay__peer_without_a_relay(void **state)
{
	struct core *c = given(state, 32);
	struct relay_chunk k;

	core_know_epochs(c);
	assert_int_equal(proxy_relay_take(c->a.p, c->now_ns, 0, CHUNK, false, &k), -ENOTCONN);
}

/* A peer may say anything. */
static void relay__hostile_frames(void **state)
{
	struct core *c = given_met(state);
	struct proxy *p = c->a.p;
	struct lane *l = lane_of(p, 0);
	uint8_t body[64] = {0}, data[64] = {0};
	struct wan_frame f = {.body = body};
	struct wan_packet w = {.flow = 0, .inc = 1, .pos = 0, .total = 64, .len = 64, .data = data};

	for (f.type = WF_RELAY_OPEN; f.type <= WF_RELAY_CREDIT; f.type++)
		for (f.len = 0; f.len < sizeof(body); f.len++)
			assert_false(relay_source.on_frame(p, l, &f)); /* no life, or bad length */
	body[1] = CHANNELS;
	body[7] = 1;
	f.type = WF_RELAY_OPEN;
	f.len = 16;
	assert_false(relay_source.on_frame(p, l, &f)); /* no such channel */
	body[1] = 1;
	assert_false(relay_source.on_frame(p, l, &f)); /* of another lane */
	w.flow = CHANNELS;
	assert_true(relay_source.on_packet(p, l, &w));
	w.flow = 0;
	assert_true(relay_source.on_packet(p, l, &w)); /* no life of the peer's */
	w.inc = p->relay->channel[0].in.life;
	w.pos = p->relay->channel[0].in.limit;
	assert_false(relay_source.on_packet(p, l, &w));
	assert_int_equal(core_drops(&c->a, DROP_WAN_BEYOND_CREDIT), 1);
	assert_int_equal(core_used(&c->a), 0);
	proxy_relay_done(p, c->now_ns, 0); /* slots that nobody has */
	proxy_relay_commit(p, c->now_ns, 0);
	proxy_relay_void(p, c->now_ns, 0);
}

/* A chunk of that position comes to b, whole. */
static void arrive(struct core *c, uint64_t pos)
{
	uint8_t data[64] = {0};
	struct wan_packet w = {.flow = 0,
	                       .inc = c->b.p->relay->channel[0].in.life,
	                       .pos = pos,
	                       .total = sizeof(data),
	                       .len = sizeof(data),
	                       .data = data};

	c->b.p->work_left = CALL_WORK;
	assert_true(relay_source.on_packet(c->b.p, lane_of(c->b.p, 0), &w));
}

static void arrive_and_be_done(struct core *c, uint64_t pos)
{
	struct relay_chunk k;

	arrive(c, pos);
	assert_true(proxy_relay_next(c->b.p, c->now_ns, &k));
	proxy_relay_done(c->b.p, c->now_ns, k.slot);
}

/* A sender that repeats a chunk does not know that it is done: it is told again. */
static void relay__a_repeated_chunk_is_answered_with_credit(void **state)
{
	struct core *c = given_met(state);
	struct relay_out *o = &c->a.p->relay->channel[0].out;
	struct relay_chunk k;

	put(&c->a, 0, 0, 'x', CHUNK);
	core_wait(c, 10 * CORE_MS);
	k = get(&c->b, 'x');
	done(&c->b, &k);
	assert_int_equal(status(&c->a, 0).out_done, 1);
	o->done = o->received = o->sent = o->freed = 0; /* as if that credit had been lost on the way */
	arrive(c, 0);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_drops(&c->b, DROP_WAN_POSITION_OLD), 1);
	assert_int_equal(status(&c->a, 0).out_done, 1);
	none(&c->b);
}

/* Positions that b grants. */
static uint64_t limit(struct core *c)
{
	struct wan_relay_credit f;

	relay_in_credit_frame(c->b.p, &c->b.p->relay->channel[0], &f);
	return f.limit;
}

/* A chunk is lost, and its repairs as well. Those behind it come, are executed and hold nothing: there is credit for as
 * many more as at first, and the sender does not wait for the repair. */
static void relay__executed_behind_a_hole_takes_no_credit(void **state)
{
	struct core *c = given(state, 8);
	uint64_t first;

	meet(c, 1, 1);
	first = limit(c);
	assert_in_range(first, 65, 256 - 64);
	for (uint64_t pos = 1; pos <= 64; pos++)
		arrive_and_be_done(c, pos);
	assert_int_equal(c->b.p->relay->held_bytes[POOL_WAN], 0);
	assert_int_equal(limit(c), first + 64);
	arrive_and_be_done(c, 0);
	assert_int_equal(c->b.p->relay->channel[0].in.have, 65);
	assert_int_equal(limit(c), first + 65);
	assert_int_equal(relay_audit(c->b.p), 0);
}

/* Those that come and are not executed hold memory: there is credit for what is left of it, and the least. */
static void relay__held_behind_a_hole_takes_credit(void **state)
{
	struct core *c = given(state, 8);
	struct relay_in *in;
	uint64_t first, room;

	meet(c, 1, 1);
	in = &c->b.p->relay->channel[0].in;
	first = limit(c);
	for (uint64_t pos = 1; pos < first; pos++)
		arrive(c, pos);
	room = relay_budget(c->b.p, POOL_WAN) - in->held_bytes;
	assert_true(in->held_bytes > 0);
	assert_true(limit(c) > first);
	assert_true((limit(c) - first - 63) * arena_class_bytes(RELAY_CHUNK_MAX) <= room);
	assert_int_equal(relay_audit(c->b.p), 0);
}

/* A channel of a flow's weight, beside flows that wait: as much as each of them. */
static void relay__a_channel_has_a_flows_part(void **state)
{
	struct core *c = given_met(state);
	struct lane *l = lane_of(c->a.p, 0);
	struct relay_lane *rl = &c->a.p->relay->lane[0];
	uint64_t sent = 0;

	l->nwaiting[SOURCE_NEAR] = 3;
	l->nwaiting[SOURCE_RELAY] = 1;
	for (int i = 0; i < 4000; i++) {
		if (!relay_out_allowed(c->a.p, l, rl, 8000))
			continue;
		rl->allowance -= 8000;
		sent++;
	}
	assert_in_range(sent, 990, 1010);
	l->nwaiting[SOURCE_NEAR] = l->nwaiting[SOURCE_RELAY] = 0;
}

/* Weight= of a channel counts where lanes, and workers, share the line: as so many flows. */
static void relay__a_heavy_channel_counts_as_flows(void **state)
{
	struct core *c = given_met(state);
	struct lane *l = lane_of(c->a.p, 0);
	uint64_t next = atomic_load(&c->a.pacer.next), sent = 0;

	c->a.p->cfg.relay_weight = 5 * 16;
	atomic_store(&c->a.pacer.next, (c->now_ns + 10 * CORE_MS) * PACER_FRACTION);
	put(&c->a, 0, 0, 'x', CHUNK);
	assert_int_equal(wan_lane_waiting(l), 5);
	c->a.p->cfg.relay_weight = 16; /* a reload, while it waits */
	l->nwaiting[SOURCE_NEAR] = 10;
	for (int i = 0; i < 3000; i++)
		if (relay_out_allowed(c->a.p, l, &c->a.p->relay->lane[0], 8000)) {
			c->a.p->relay->lane[0].allowance -= 8000;
			sent++;
		}
	l->nwaiting[SOURCE_NEAR] = 0;
	assert_in_range(sent, 990, 1010);
	atomic_store(&c->a.pacer.next, next);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(wan_lane_waiting(l), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(relay__chunks_cross_both_ways),
	    CORE_TEST(relay__fence_waits_for_all_before),
	    CORE_TEST(relay__void_chunks_are_not_handed_over),
	    CORE_TEST(relay__committed_survives_the_sender),
	    CORE_TEST(relay__credit_comes_while_holes_are_filled),
	    CORE_TEST(relay__receiver_repeats_the_fence_alone),
	    CORE_TEST(relay__lost_arena_is_another_life),
	    CORE_TEST(relay__old_life_in_hand_is_harmless),
	    CORE_TEST(relay__losses_are_repaired),
	    CORE_TEST(relay__bounded),
	    CORE_TEST(relay__a_repeated_chunk_is_answered_with_credit),
	    CORE_TEST(relay__executed_behind_a_hole_takes_no_credit),
	    CORE_TEST(relay__held_behind_a_hole_takes_credit),
	    CORE_TEST(relay__answers_have_room),
	    CORE_TEST(relay__done_before_it_is_committed),
	    CORE_TEST(relay__peer_without_a_relay),
	    CORE_TEST(relay__hostile_frames),
	    CORE_TEST(relay__a_channel_has_a_flows_part),
	    CORE_TEST(relay__a_heavy_channel_counts_as_flows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
