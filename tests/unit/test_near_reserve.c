/* SPDX-License-Identifier: Apache-2.0 */
/* A READ crosses when there is room for all that it brings. */
#include "core_fixture.h"

#include "proxy/near/near_priv.h"
#include "proxy/wan/share.h"

#define EACH ((uint64_t)arena_class_bytes(CORE_PMTU + 60))

static const uint8_t three[] = {RC_READ_RESP_FIRST, RC_READ_RESP_MIDDLE, RC_READ_RESP_LAST};

static void ask(struct core *c, uint32_t psn)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, psn);

	h.reth_len = 3 * CORE_PMTU;
	core_in(&c->a, h, 0, 0);
	core_pump(c);
}

static void respond(struct core *c, uint32_t i, uint32_t psn, uint32_t msn)
{
	assert_int_equal(
	    core_in(&c->b, core_answer(three[i], CORE_QPN, psn + i, AETH_ACK_NO_CREDITS, msn), CORE_PMTU, 0),
	    DROP_NONE);
	core_pump(c);
}

/* As if answers of other flows were awaited for all of the room. */
static uint64_t crowd(struct core *c)
{
	return c->a.p->reserved_bytes = arena_capacity(c->a.p->arena, POOL_WAN);
}

/* Their answers have come; the READ has kept room of its own. */
static void crowd_goes(struct core *c, uint64_t others)
{
	assert_int_equal(c->a.p->reserved_bytes, others + 3 * EACH);
	c->a.p->reserved_bytes -= others;
}

static void ask_and_be_held(struct core *c)
{
	ask(c, 2);
	core_wait(c, 20 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(core_ctr(&c->a, CTR_READS_HELD), 1);
}

/* The READ has not crossed after so long, and has a little later. */
static void expect_read_after(struct core *c, uint64_t wait_ns, uint64_t later_ns)
{
	core_wait(c, wait_ns);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, later_ns);
	core_expect(&c->b, RC_READ_REQUEST, 2);
}

static void near_reserve__is_reserved_and_given_back(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	ask(c, 2);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	assert_int_equal(c->a.p->reserved_bytes, 3 * EACH);
	respond(c, 0, 2, 2);
	assert_int_equal(c->a.p->reserved_bytes, 2 * EACH);
	respond(c, 1, 2, 2);
	respond(c, 2, 2, 2);
	assert_int_equal(c->a.p->reserved_bytes, 0);
	core_send(c, RC_FETCH_ADD, 5);
	assert_int_equal(c->a.p->reserved_bytes, arena_class_bytes(92));
}

static void near_reserve__without_it_the_request_waits_and_its_host_is_held_off(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	crowd(c);
	ask_and_be_held(c);
	ask(c, 2);
	k = core_expect(&c->a, RC_ACK, 2);
	assert_int_equal(k->h.aeth_syndrome & AETH_TYPE_MASK, AETH_RNR_NAK);
	c->a.p->reserved_bytes = 0;
	core_wait(c, 2 * CORE_MS);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	assert_int_equal(c->a.p->reserved_bytes, 3 * EACH);
	assert_true(dlist_empty(&c->a.p->reserve_waiting));
}

/* A READ without room for a second crosses all the same: it can never have room, or other READs do not end. */
static void near_reserve__nobody_waits_for_ever(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	uint64_t others;

	others = crowd(c);
	ask(c, 2);
	expect_read_after(c, 900 * CORE_MS, 200 * CORE_MS);
	crowd_goes(c, others);
}

/* Nothing is known of the pair: no RNR NAK can be said, and its host would give up. */
static void near_reserve__a_host_that_cannot_be_told_does_not_wait_long(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	crowd(c);
	ask(c, 2);
	expect_read_after(c, 90 * CORE_MS, 20 * CORE_MS);
}

/* As if those of another flow were waiting behind the first one, since so long ago. */
static void another_waits(struct core *c, uint64_t ns)
{
	dlist_append(&c->a.p->reserve_waiting, &c->a.p->near[1].reserve_node);
	c->a.p->near[1].reserve_wait_ns = c->now_ns - ns;
	c->a.p->near[1].pos_next = 1; /* it has something to send, but does not: it is none */
	c->a.p->near[1].older = c->a.p->near;
}

/* They go one by one: were all to go that have waited for long enough, each would find the others' answers in its
 * way. */
static void near_reserve__without_room_one_goes_at_a_time(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	uint64_t others;

	others = crowd(c);
	c->a.p->room_exceeded_ns = c->now_ns + 800 * CORE_MS; /* so long after the READ */
	ask(c, 2);
	expect_read_after(c, 1700 * CORE_MS, 200 * CORE_MS);
	assert_in_range(c->a.p->room_exceeded_ns, c->now_ns - 200 * CORE_MS, c->now_ns);
	c->a.p->reserved_bytes -= others;
}

static void near_reserve__the_first_in_the_queue_goes_first(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	crowd(c);
	another_waits(c, 0);
	ask(c, 2);
	core_wait(c, 1500 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	dlist_remove(&c->a.p->near[1].reserve_node);
	core_wait(c, 2 * CORE_MS);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	c->a.p->reserved_bytes = 3 * EACH;
}

/* A cut keeps answers from coming, which is no reason to ask for more of them. */
static void near_reserve__a_line_that_is_cut_hurries_nobody(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	uint64_t others;

	others = crowd(c);
	ask(c, 2);
	core_wait(c, 100 * CORE_MS);
	c->cut = true;
	core_wait(c, 1500 * CORE_MS);
	assert_int_equal(c->a.p->reserved_bytes, others);
	c->cut = false;
	core_wait(c, 500 * CORE_MS);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	crowd_goes(c, others);
}

/* What is kept is little of many chunks: most bytes of the pool are free, and no slot is that could take an answer. */
static void near_reserve__is_slots_of_the_right_size(void **state)
{
	struct core_scatter small;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_scatter(c, &small);
	ask_and_be_held(c);
	core_gather(c, &small);
	core_wait(c, 2 * CORE_MS);
	core_expect(&c->b, RC_READ_REQUEST, 2);
}

/* A host that counts RNR NAKs is not sent away, and its QP fails after some silence: it does not wait for so long, nor
 * for others in front of it that can. */
static void near_reserve__who_cannot_be_held_off_waits_for_less(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	uint64_t others;

	others = crowd(c);
	dlist_append(&c->a.p->reserve_waiting, &c->a.p->near[1].reserve_node);
	c->a.p->near[1].reserve_wait_ns = UINT64_MAX / 2;
	c->a.p->near[0].rnr_retry = 5;
	ask(c, 2);
	expect_read_after(c, 90 * CORE_MS, 20 * CORE_MS);
	crowd_goes(c, others);
	dlist_remove(&c->a.p->near[1].reserve_node);
}

/* Reserved room is given neither to packets that no host waits for, nor as credit. */
static void near_reserve__others_do_not_get_it(void **state)
{
	uint64_t left;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	left = share_left(c->a.p, POOL_WAN);
	ask(c, 2);
	assert_int_equal(share_left(c->a.p, POOL_WAN), left - 3 * EACH);
	crowd(c);
	assert_int_equal(share_left(c->a.p, POOL_WAN), 0);
	assert_int_equal(slot_take(c->a.p, SLOT_RAW_WAN, 0, 1, 1, 1000, 0, false), SLOT_NONE);
	c->a.p->reserved_bytes = 3 * EACH;
}

/* The length in PSNs of the first READ is not known: room for about as many bytes, and then for what it is. */
static void near_reserve__follows_the_pmtu(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	ask(c, 1);
	assert_int_equal(core_near(c)->pmtu, 0);
	assert_true(c->a.p->reserved_bytes >= 3 * CORE_PMTU);
	near_learn_pmtu(c->a.p, core_near(c), 512);
	assert_int_equal(c->a.p->reserved_bytes, 6 * arena_class_bytes(512 + 84));
}

/* A responder that is silent keeps no room from others. */
static void near_reserve__is_lost_with_a_silent_responder(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	ask(c, 2);
	assert_int_equal(c->a.p->reserved_bytes, 3 * EACH);
	core_wait(c, 2000 * CORE_MS);
	assert_true(near_is_stalled(core_near(c)));
	assert_int_equal(c->a.p->reserved_bytes, 0);
	core_forget(&c->b);
	for (uint32_t i = 0; i < 3; i++) /* it was only slow */
		respond(c, i, 2, 2);
	assert_null(near_op_open(core_near(c)));
}

/* The lane's window is full just when it may go: it goes when there is room in it, not after waiting once more. */
static void near_reserve__who_cannot_be_held_off_keeps_its_turn(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	struct lane *l = lane_of(c->a.p, core_near(c)->lane);

	crowd(c);
	another_waits(c, 0);
	c->a.p->near[1].reserve_wait_ns = UINT64_MAX / 2;
	core_near(c)->rnr_retry = 5;
	ask(c, 2);
	core_wait(c, 95 * CORE_MS);
	l->out_bytes += 1 << 30;
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	l->out_bytes -= 1 << 30;
	wan_lane_schedule(c->a.p, l);
	core_wait(c, 20 * CORE_MS);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	dlist_remove(&c->a.p->near[1].reserve_node);
	c->a.p->near[1].older = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(near_reserve__is_reserved_and_given_back),
	    CORE_TEST(near_reserve__without_it_the_request_waits_and_its_host_is_held_off),
	    CORE_TEST(near_reserve__nobody_waits_for_ever),
	    CORE_TEST(near_reserve__a_host_that_cannot_be_told_does_not_wait_long),
	    CORE_TEST(near_reserve__without_room_one_goes_at_a_time),
	    CORE_TEST(near_reserve__the_first_in_the_queue_goes_first),
	    CORE_TEST(near_reserve__a_line_that_is_cut_hurries_nobody),
	    CORE_TEST(near_reserve__is_slots_of_the_right_size),
	    CORE_TEST(near_reserve__who_cannot_be_held_off_waits_for_less),
	    CORE_TEST(near_reserve__who_cannot_be_held_off_keeps_its_turn),
	    CORE_TEST(near_reserve__others_do_not_get_it),
	    CORE_TEST(near_reserve__follows_the_pmtu),
	    CORE_TEST(near_reserve__is_lost_with_a_silent_responder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
