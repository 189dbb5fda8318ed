/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that are sent away for want of room come back one after the other. */
#define CORE_FLOWS 128
#include "core_fixture.h"

#include "headroom/headroom.h"
#include "proxy/carry/barrier.h"
#include "proxy/near/near_priv.h"
#include "proxy/wan/share.h"

#define FLOWS 20u
#define MANY  100u /* who bring more than the buffer takes */

/* Flows of whom nothing but their turns matters. */
static struct near_flow *flow(struct core *c, uint32_t i)
{
	return &c->a.p->near[1 + i];
}

/* The buffer is half full and drains at about the line's rate: 10 Mbit/s. */
static uint64_t fill(struct core *c)
{
	struct proxy *p = c->a.p;
	uint64_t pos = 0;

	for (; arena_used(p->arena, POOL_LAN) + ARENA_BLANK_BYTES <= arena_capacity(p->arena, POOL_LAN) / 2; pos++)
		assert_int_not_equal(arena_alloc(p->arena, SLOT_REQ_NEAR, 31, 1, pos, LAN_PKT_MAX), SLOT_NONE);
	share_drained(p, &p->turns.drain, 5000, 2);
	return pos;
}

static void empty(struct core *c, uint64_t pos)
{
	while (pos--)
		arena_free(c->a.p->arena, arena_find(c->a.p->arena, SLOT_REQ_NEAR, 31, pos));
}

static void slow_line(struct core *c)
{
	c->a.p->now_ns = c->now_ns;
	c->a.p->cfg.rate_hint_bps = 10000000;
	for (uint32_t i = 0; i < MANY; i++) {
		near_flow_init(c->a.p, flow(c, i), 1 + i);
		flow(c, i)->state = NEAR_OPEN;
		timer_cancel(&c->a.p->timers, &flow(c, i)->retire);
	}
}

static struct core *given_slow_line(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 32);

	slow_line(c);
	return c;
}

static void all_go(struct core *c)
{
	for (uint32_t i = 0; i < MANY; i++) {
		near_turn_leave(c->a.p, flow(c, i));
		flow(c, i)->state = NEAR_FREE;
	}
	assert_int_equal(c->a.p->turns.away, 0);
	assert_int_equal(c->a.p->near_wanting, 0);
	assert_int_equal(c->a.p->turns.bytes, 0);
	for (uint32_t i = 0; i < TURN_BINS; i++)
		assert_int_equal(c->a.p->turns.due[i], 0);
}

/* Each is away for as long as those need who were sent away before. */
static void near_turn__one_after_the_other(void **state)
{
	struct core *c = given_slow_line(state);
	struct proxy *p = c->a.p;
	uint64_t wait[FLOWS], bytes = 0, most = 0, filled = fill(c);

	for (uint32_t i = 0; i < FLOWS; i++) {
		wait[i] = near_turn_book(p, flow(c, i));
		near_turn_away(p, flow(c, i), wait[i]);
		bytes += flow(c, i)->turn_bytes;
		most = max_u64(most, wait[i]);
	}
	assert_int_equal(p->turns.away, FLOWS);
	assert_int_equal(p->near_wanting, FLOWS); /* of the line's time: their hosts will come (pacer_part.c) */
	assert_int_equal(p->turns.bytes, bytes);
	assert_true(near_turn_quantum(p) > 0);
	assert_true(most >= 100 * CORE_MS);
	empty(c, filled);
	all_go(c);
}

/* One that comes before its turn is sent away for the rest of the time, but not while there is little to send. */
static void near_turn__not_before_its_turn(void **state)
{
	struct core *c = given_slow_line(state);
	struct proxy *p = c->a.p;
	struct near_flow *last = flow(c, FLOWS - 1);
	uint64_t filled = fill(c), wait = 0;

	for (uint32_t i = 0; i < FLOWS; i++) {
		wait = near_turn_book(p, flow(c, i));
		near_turn_away(p, flow(c, i), wait);
	}
	last->turn_ns = p->now_ns + 100 * CORE_MS;
	assert_true(near_turn_comes_early(p, last));
	p->now_ns += 100 * CORE_MS;
	share_drained(p, &p->turns.drain, 5000, 2);
	assert_false(near_turn_comes_early(p, last));
	last->turn_ns = p->now_ns + 100 * CORE_MS;
	empty(c, filled);
	assert_false(near_turn_comes_early(p, last));
	all_go(c);
}

/* Few more or less that are away do not switch turns on and off: they end when rounds have been short for some time. */
static void near_turn__stay_in_force(void **state)
{
	struct core *c = given_slow_line(state);
	struct proxy *p = c->a.p;
	uint32_t away = 0;
	uint64_t round_ns;

	near_turn_book(p, flow(c, away++));
	near_turn_book(p, flow(c, away++));
	assert_true(near_turn_quantum(p) > 0);
	round_ns = 2 * near_turn_quantum(p) * 8000000000ull / p->cfg.rate_hint_bps;
	p->cfg.rate_hint_bps = p->cfg.rate_hint_bps * round_ns /
	                       (15 * CORE_MS); /* a round takes about 15 ms from now on */
	p->now_ns += 90 * CORE_MS;
	near_turn_book(p, flow(c, away++));
	near_turn_leave(p, flow(c, --away));
	p->now_ns += 90 * CORE_MS;
	assert_true(near_turn_quantum(p) > 0);
	p->now_ns += 20 * CORE_MS;
	assert_int_equal(near_turn_quantum(p), 0);
	near_turn_leave(p, flow(c, 0));
	near_turn_book(p, flow(c, 0));
	assert_int_equal(near_turn_quantum(p), 0); /* such a round does not begin them */
	all_go(c);
}

/* The largest sum of bytes that hosts bring whose waits end within 2.5 ms of each other. */
static uint64_t together(const struct core *c)
{
	const struct near_flow *f = c->a.p->near + 1;
	uint64_t most = 0;

	for (uint32_t i = 0; i < MANY; i++) {
		uint64_t bytes = 0;

		for (uint32_t j = 0; j < MANY; j++)
			bytes += f[j].back_ns / 2500000 == f[i].back_ns / 2500000 ? f[j].turn_bytes : 0;
		most = max_u64(most, bytes);
	}
	return most;
}

/* A round may take longer than the longest wait: hosts that are told the longest wait do not all come together. */
static void near_turn__long_rounds_are_spread(void **state)
{
	struct core *c = given_slow_line(state);
	struct proxy *p = c->a.p;
	uint64_t filled = fill(c);

	p->cfg.rate_hint_bps = 100000000;
	share_drained(p, &p->turns.drain, 45000, 2);
	p->turns.bytes += 16 << 20; /* of others: more than a second of the line */
	for (uint32_t i = 0; i < MANY; i++) {
		uint64_t wait = near_turn_book(p, flow(c, i));

		near_turn_away(p, flow(c, i), roce_rnr_timer_ns(roce_rnr_timer_code(wait))); /* 655 ms at most */
	}
	assert_true(near_turn_quantum(p) > 0);
	assert_true(p->turns.bytes - (16 << 20) > arena_capacity(p->arena, POOL_LAN));
	assert_true(together(c) < arena_capacity(p->arena, POOL_LAN));
	p->turns.bytes -= 16 << 20;
	empty(c, filled);
	all_go(c);
}

/* Hosts that came at their turn and found no room are not all told to come back soon, to a buffer that is as full. */
static void near_turn__no_room_is_no_reason_to_hurry(void **state)
{
	struct core *c = given_slow_line(state);
	struct proxy *p = c->a.p;
	uint64_t filled = fill(c), brought = 0, all = arena_capacity(p->arena, POOL_LAN);

	p->cfg.rate_hint_bps = 100000000;
	share_drained(p, &p->turns.drain, 45000, 2);
	for (uint32_t i = 0; i < MANY; i++)
		near_turn_away(p, flow(c, i), near_turn_book(p, flow(c, i)));
	for (uint32_t i = 0; i < MANY; i++) {
		flow(c, i)->turn_ns = p->now_ns;
		near_turn_away(p, flow(c, i), near_turn_book(p, flow(c, i)));
		brought += flow(c, i)->back_ns <= p->now_ns + 21 * CORE_MS ? flow(c, i)->turn_bytes : 0;
	}
	assert_true(brought > 0);
	assert_true(all / 2 + brought <= all + all / 8); /* drained by then: less than an eighth */
	empty(c, filled);
	all_go(c);
}

/* What is under way on the line waits for nothing but its report: while the buffer holds little more, it is low. */
static void near_turn__low_is_what_the_line_needs(void **state)
{
	struct core *c = given_slow_line(state);
	struct proxy *p = c->a.p;
	struct near_flow *last = flow(c, FLOWS - 1);
	uint64_t filled = fill(c), third = arena_used(p->arena, POOL_LAN) * 2 / 3;

	for (uint32_t i = 0; i < FLOWS; i++)
		near_turn_away(p, flow(c, i), near_turn_book(p, flow(c, i)));
	last->turn_ns = p->now_ns + 100 * CORE_MS;
	assert_true(near_turn_comes_early(p, last));
	for (uint32_t i = 0; i < PATHS_MAX; i++) /* all that is held is one round trip of the line */
		p->wan->path[i].rtt.smoothed_ns = p->wan->path[i].rtt.min_ns = third * 800 * 3 / 2;
	share_drained(p, &p->turns.drain, third, 2);
	p->now_ns += 2 * CORE_MS;
	assert_true(near_turn_quantum(p) > 0);
	assert_false(near_turn_comes_early(p, last));
	empty(c, filled);
	all_go(c);
}

/* The less is held, the more a host may bring at its turn, up to two quanta: it fills the lull in front of it. */
static void near_turn__fills_a_lull(void **state)
{
	struct core *c = given_slow_line(state);
	struct proxy *p = c->a.p;
	uint64_t filled = fill(c), q;

	for (uint32_t i = 0; i < FLOWS; i++)
		near_turn_away(p, flow(c, i), near_turn_book(p, flow(c, i)));
	q = near_turn_quantum(p);
	assert_false(near_turn_admits(p, flow(c, 0), q + q / 4));
	while (arena_used(p->arena, POOL_LAN) > arena_capacity(p->arena, POOL_LAN) / 6)
		arena_free(p->arena, arena_find(p->arena, SLOT_REQ_NEAR, 31, --filled));
	q = near_turn_quantum(p);
	assert_true(near_turn_admits(p, flow(c, 0), q + q / 4));
	for (uint64_t took = 0; took < q; took += arena_class_bytes(2048))
		near_turn_took(p, flow(c, 0), 2048);
	assert_true(near_turn_admits(p, flow(c, 0), q / 4));
	assert_false(near_turn_admits(p, flow(c, 0), 2 * q));
	empty(c, filled);
	all_go(c);
}

/* A host that does not come back is not waited for. */
static void near_turn__is_forgotten(void **state)
{
	struct core *c = given_slow_line(state);
	struct proxy *p = c->a.p;

	near_turn_book(p, flow(c, 0));
	near_turn_away(p, flow(c, 0), CORE_MS);
	assert_int_equal(p->turns.away, 1);
	p->now_ns += 1000 * CORE_MS;
	near_turn_on_timer(p, flow(c, 0));
	assert_int_equal(p->turns.away, 0);
	all_go(c);
}

/* A host is due when it was told to come, however far away its turn is: one that has gone by then is not waited for. */
static void near_turn__of_a_host_that_is_gone_lapses(void **state)
{
	struct core *c = given_slow_line(state);
	struct proxy *p = c->a.p;
	struct near_flow *gone = flow(c, 0);

	near_turn_book(p, gone);
	gone->turn_ns = p->now_ns + 10000 * CORE_MS;
	near_turn_away(p, gone, CORE_MS);
	proxy_tick(p, c->now_ns + CORE_MS);
	assert_int_equal(p->turns.away, 1);
	proxy_tick(p, c->now_ns + 50 * CORE_MS);
	assert_int_equal(p->turns.away, 0);
	assert_int_equal(p->turns.bytes, 0);
	all_go(c);
}

/* Other hosts may bring at once the bytes of those that do not come: they are not sent away a last time. */
static void near_turn__of_those_who_are_gone_is_others(void **state)
{
	struct core *c = given_slow_line(state);
	struct proxy *p = c->a.p;
	struct near_flow *last = flow(c, FLOWS - 1);
	uint64_t filled = fill(c);

	for (uint32_t i = 0; i < FLOWS; i++)
		near_turn_away(p, flow(c, i), near_turn_book(p, flow(c, i)));
	last->turn_ns = p->now_ns + 400 * CORE_MS;
	assert_true(near_turn_comes_early(p, last));
	for (uint32_t i = 0; i < FLOWS - 1; i++)
		near_turn_leave(p, flow(c, i));
	assert_int_not_equal(near_turn_quantum(p), 0);
	assert_false(near_turn_comes_early(p, last));
	empty(c, filled);
	all_go(c);
}

/* Hosts whose responders take nothing come back again and again. They bring nothing, so they make no round long. */
static void near_turn__not_of_the_stuck(void **state)
{
	struct core *c = given_slow_line(state);
	struct proxy *p = c->a.p;
	uint64_t filled = fill(c);

	for (uint32_t i = 0; i < FLOWS; i++) {
		flow(c, i)->held_bytes = CREDIT_MIN_BYTES;
		near_turn_away(p, flow(c, i), near_turn_book(p, flow(c, i)));
	}
	assert_int_equal(p->turns.away, FLOWS);
	p->now_ns += 5000 * CORE_MS; /* the whole buffer has drained twice */
	for (uint32_t i = 0; i < FLOWS; i++) {
		share_drained(p, &p->turns.drain, 5000, 2);
		assert_true(near_turn_stuck(p, flow(c, i)));
		near_turn_away(p, flow(c, i), near_turn_book(p, flow(c, i)));
	}
	assert_int_equal(p->turns.away, 0);
	assert_int_equal(p->turns.bytes, 0);
	p->now_ns += 200 * CORE_MS; /* turns stay in force for a while */
	share_drained(p, &p->turns.drain, 5000, 2);
	assert_int_equal(near_turn_book(p, flow(c, FLOWS)), 0);
	for (uint32_t i = 0; i < FLOWS; i++)
		flow(c, i)->held_bytes = 0;
	empty(c, filled);
	all_go(c);
}

static void near_turn__ends_with_a_failure(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct near_flow *f = core_near(c);

	near_turn_away(c->a.p, f, near_turn_book(c->a.p, f));
	near_refused(c->a.p, f, f->pos_next, AETH_NAK_INV_REQ);
	assert_true(f->state == NEAR_FAILED);
	assert_int_equal(c->a.p->turns.away, 0);
}

/* A life that drains has no host any more. */
static void near_turn__ends_with_the_life(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct near_flow *f = core_near(c);

	c->cut = true;
	core_send(c, RC_WRITE_ONLY, 1);
	near_turn_away(c->a.p, f, near_turn_book(c->a.p, f));
	assert_int_equal(c->a.p->turns.away, 1);
	assert_non_null(near_succeed(c->a.p, f, 0, 0));
	assert_true(near_in_use(f) && f->newer);
	assert_int_equal(c->a.p->turns.away, 0);
}

/* Slots that a failed or closed flow gives up do not count as drained: the line has carried none of them. */
static void near_turn__what_is_given_up_has_not_drained(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct near_flow *f = core_near(c);
	struct share *drain = &c->a.p->turns.drain;
	uint64_t bytes = drain->bytes, one = arena_class_bytes(CORE_PMTU + 60);

	core_send_run(c, 1, 8);
	core_ack(c, 2, AETH_ACK_NO_CREDITS, 3);
	core_wait(c, CORE_MS);
	assert_int_equal(near_held(f), 6 * one);
	assert_int_equal(drain->last_bytes + drain->bytes - bytes, 2 * one);
	bytes = drain->last_bytes + drain->bytes;
	c->a.p->work_left = 3; /* the rest of it in later calls */
	near_refused(c->a.p, f, f->pos_settled, AETH_NAK_INV_REQ);
	barrier_mark(c->a.p, f);
	assert_int_equal(near_held(f), 3 * one);
	core_wait(c, CORE_US);
	assert_int_equal(near_held(f), 0);
	assert_int_equal(drain->last_bytes + drain->bytes, bytes);
}

/* Requests of answered operations that are kept for a host that may ask again make no flow busy. */
static void near_turn__kept_requests_make_nobody_busy(void **state)
{
	struct roce_pkt atomic = core_req(RC_FETCH_ADD, 1);
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct proxy *p = c->a.p;

	assert_int_equal(p->near_busy, 0);
	core_in(&c->a, atomic, 0, 0);
	assert_int_equal(p->near_wanting, 1);
	core_pump(c);
	assert_int_equal(p->near_busy, 1);
	assert_int_equal(p->near_wanting, 0); /* of the line: all that the flow has is under way */
	core_in(&c->b, core_answer(RC_ATOMIC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2), 0, 0);
	core_wait(c, 5 * CORE_MS);
	assert_int_not_equal(core_near(c)->kept_bytes, 0);
	assert_int_equal(p->near_busy, 0);
	core_send(c, RC_WRITE_ONLY, 2);
	assert_int_equal(p->near_busy, 1);
	core_rebuild(&c->a);
	assert_int_not_equal(core_near(c)->kept_bytes, 0);
	assert_int_equal(c->a.p->near_busy, 1);
	core_session(c);
	core_wait(c, 5 * CORE_MS);
	core_ack(c, 2, AETH_ACK_NO_CREDITS, 3);
	core_wait(c, 20000 * CORE_MS);
	assert_int_equal(core_near(c)->held_bytes, 0);
	assert_int_equal(c->a.p->near_busy, 0);
}

/* A host that waits for what is being read again waits for no room: it gets no turn, and no more than a round trip. */
static void near_turn__not_for_an_answer_that_is_read_again(void **state)
{
	struct roce_pkt read = core_req(RC_READ_REQUEST, 2);
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	struct proxy *p = c->a.p;
	const struct core_pkt *k;
	struct near_flow *f;
	uint64_t filled;

	core_long_life(c);
	f = core_near(c);
	core_in(&c->a, read, 0, 0);
	core_pump(c);
	core_in(&c->b, core_answer(RC_READ_RESP_ONLY, CORE_QPN, 2, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
	core_wait(c, 1100 * CORE_MS); /* given, and gone */
	core_forget(&c->a);
	slow_line(c);
	filled = fill(c);
	for (uint32_t i = 0; i < FLOWS; i++)
		near_turn_away(p, flow(c, i), near_turn_book(p, flow(c, i)));
	f->rnr_back_pressure = true;
	for (uint32_t i = 0; i < PATHS_MAX; i++)
		p->wan->path[i].rtt.smoothed_ns = p->wan->path[i].rtt.min_ns = 3 * CORE_MS;
	core_in(&c->a, read, 0, 0);
	core_collect(&c->a);
	k = core_expect(&c->a, RC_ACK, 2);
	assert_int_equal(k->h.aeth_syndrome & AETH_TYPE_MASK, AETH_RNR_NAK);
	assert_int_equal(roce_rnr_timer_ns(k->h.aeth_syndrome & 31), 2560 * CORE_US); /* the last that ends within 3 ms */
	assert_int_equal(f->turn_ns, 0);
	f->rnr_back_pressure = false;
	assert_true(near_wants_line(f)); /* for a READ_AGAIN */
	near_wan_leave(p, f);
	empty(c, filled);
	all_go(c);
}

/* However many flows: a packet for each, as long as half of the reserve has one. Few have CREDIT_MIN_BYTES. */
static void near_turn__minimum(void **state)
{
	struct core *c = given_slow_line(state);
	struct proxy *p = c->a.p;
	uint32_t busy = p->near_busy;

	p->near_busy = 1;
	assert_true(near_turn_minimum(p) <= CREDIT_MIN_BYTES);
	assert_true(near_turn_minimum(p) >= min_u64(CREDIT_MIN_BYTES, pool_reserve(p, POOL_LAN) / 2));
	p->near_busy = 1000000;
	assert_int_equal(near_turn_minimum(p), arena_class_bytes(LAN_PKT_MAX));
	/* What users are told (headroom/deep.c) is what holds: so many have a packet each in half of the reserve. */
	assert_in_range(pool_reserve(p, POOL_LAN) / 2 / arena_class_bytes(LAN_PKT_MAX) -
	                    headroom_qps_at_once(arena_capacity(p->arena, POOL_LAN)),
	                0, 1);
	assert_int_equal(arena_class_bytes(LAN_PKT_MAX), HEADROOM_SLOT_BYTES);
	p->near_busy = busy;
	all_go(c);
}

/* Where few wait, or rounds are short, shares decide; but a host that is sent away while the line is full gets as many
 * CNPs before it comes back as bring it from the line's rate to its own, and none while the line lacks bytes. In mode
 * host its own window is its brake. */
static void near_turn__cnps_without_turns(void **state)
{
	struct core *c = given_slow_line(state);
	struct proxy *p = c->a.p;
	uint64_t filled = fill(c);

	p->cfg.rate_hint_bps = 1000000000;
	for (uint32_t i = 0; i < 3; i++)
		near_turn_book(p, flow(c, i));
	flow(c, 0)->mode = ACK_MODE_NEAR;
	flow(c, 0)->share = (struct share){.span_ns = p->now_ns, .last_bytes = 150000};
	assert_int_equal(near_turn_quantum(p), 0);
	near_turn_away(p, flow(c, 0), CORE_MS);
	assert_int_equal(flow(c, 0)->turn_cnps, 0);
	share_drained(p, &p->turns.drain, 500000, 200); /* in a span of a little more than 2 ms */
	assert_int_equal(near_turn_quantum(p), 0);
	assert_true(near_turn_line_full(p));
	near_turn_away(p, flow(c, 0), CORE_MS);
	assert_int_equal(flow(c, 0)->turn_cnps, 2); /* the rate is a little less than half of the line's */
	flow(c, 0)->share.last_bytes = 10000;
	near_turn_away(p, flow(c, 0), CORE_MS);
	assert_in_range(flow(c, 0)->turn_cnps, 5, 7);
	flow(c, 0)->mode = ACK_MODE_HOST;
	near_turn_away(p, flow(c, 0), CORE_MS);
	assert_int_equal(flow(c, 0)->turn_cnps, 0);
	flow(c, 0)->mode = ACK_MODE_NEAR;
	near_turn_away(p, flow(c, 0), CORE_MS / 2); /* no time for them */
	assert_int_equal(flow(c, 0)->turn_cnps, 0);
	empty(c, filled);
	all_go(c);
}

/* A worker of four that drains a quarter of the line drains all of its part; so does one that drains the line as the
 * controller has found it, which is less than was configured. */
static void near_turn__part_of_the_line(void **state)
{
	struct core *c = given_slow_line(state);
	struct proxy *p = c->a.p;
	uint64_t filled = fill(c);
	uint8_t nshards = p->cfg.nshards;

	for (uint32_t i = 0; i < FLOWS; i++)
		near_turn_book(p, flow(c, i));
	assert_true(near_turn_line_full(p));
	p->cfg.rate_hint_bps *= 5;
	assert_false(near_turn_line_full(p));
	assert_int_equal(near_turn_quantum(p), 0);
	p->cfg.nshards = 5;
	assert_true(near_turn_line_full(p));
	assert_int_not_equal(near_turn_quantum(p), 0);
	p->cfg.nshards = nshards;
	atomic_store(&c->a.pacer.rate_bps, p->cfg.rate_hint_bps / 5);
	assert_true(near_turn_line_full(p));
	assert_int_not_equal(near_turn_quantum(p), 0);
	empty(c, filled);
	all_go(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(near_turn__one_after_the_other),
	    CORE_TEST(near_turn__not_before_its_turn),
	    CORE_TEST(near_turn__stay_in_force),
	    CORE_TEST(near_turn__long_rounds_are_spread),
	    CORE_TEST(near_turn__no_room_is_no_reason_to_hurry),
	    CORE_TEST(near_turn__low_is_what_the_line_needs),
	    CORE_TEST(near_turn__fills_a_lull),
	    CORE_TEST(near_turn__is_forgotten),
	    CORE_TEST(near_turn__of_a_host_that_is_gone_lapses),
	    CORE_TEST(near_turn__of_those_who_are_gone_is_others),
	    CORE_TEST(near_turn__not_of_the_stuck),
	    CORE_TEST(near_turn__ends_with_a_failure),
	    CORE_TEST(near_turn__ends_with_the_life),
	    CORE_TEST(near_turn__what_is_given_up_has_not_drained),
	    CORE_TEST(near_turn__kept_requests_make_nobody_busy),
	    CORE_TEST(near_turn__not_for_an_answer_that_is_read_again),
	    CORE_TEST(near_turn__minimum),
	    CORE_TEST(near_turn__cnps_without_turns),
	    CORE_TEST(near_turn__part_of_the_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
