/* SPDX-License-Identifier: Apache-2.0 */
/* A responder refuses a request: the requests executed before it are completed first, and the NAK's MSN counts them. */
#include "core_fixture.h"

#include "proxy/near/near_priv.h"

static void respond(struct core *c, uint32_t psn, uint32_t msn)
{
	assert_int_equal(core_in(&c->b, core_answer(RC_ATOMIC_ACK, CORE_QPN, psn, AETH_ACK_NO_CREDITS, msn), 0, 0),
	                 DROP_NONE);
	core_pump(c);
}

/* A NIC that checks the MSN would drop a NAK with another MSN (IBTA 9.7.5.1.1). */
static void near_fail__nak_counts_what_was_executed(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	for (uint32_t psn = 1; psn < 4; psn++) {
		core_send(c, RC_WRITE_ONLY, psn);
		core_expect(&c->b, RC_WRITE_ONLY, psn);
	}
	core_ack(c, 3, AETH_NAK_REM_ACCESS, 3);
	k = core_expect_aeth(&c->a, 3, AETH_NAK_REM_ACCESS);
	assert_int_equal(k->h.aeth_msn, 3);
}

static bool lose_from_far(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	struct wan_hdr h;
	struct wan_frame f;
	size_t at = WAN_HDR_LEN;

	if (from != &c->b || !*(const bool *)c->arg || wan_hdr_get(dgram, len, &h) != DROP_NONE)
		return true;
	while (wan_frame_next(dgram, len - WAN_TAG_LEN, &at, &f) == 1)
		if (f.type == WF_PACKET)
			return false;
	return true;
}

/* An early ACKed request failed after one whose answer never came: packets of the host no longer wait for it at the
 * barrier. */
static void near_fail__nothing_waits_for_what_failed_by_time(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 1);
	core_send(c, RC_FETCH_ADD, 2);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	assert_true(dnode_on(&core_near(c)->lag_node));
	near_refused(c->a.p, core_near(c), core_near(c)->pos_next, AETH_NAK_REM_ACCESS);
	assert_true(core_near(c)->state == NEAR_FAILING);
	near_fail_on_timer(c->a.p, core_near(c)); /* no report of the far edge comes any more */
	assert_true(core_near(c)->state == NEAR_FAILED);
	assert_false(dnode_on(&core_near(c)->lag_node));
}

/* The answers of two ATOMICs are lost on the WAN, the report of the refusal after them is not. */
static void near_fail__answers_come_first(void **state)
{
	const struct core_pkt *k;
	bool lose = true;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	c->arg = &lose;
	c->wan = lose_from_far;
	core_send(c, RC_FETCH_ADD, 1);
	core_send(c, RC_FETCH_ADD, 2);
	core_send(c, RC_WRITE_ONLY, 3);
	core_expect(&c->b, RC_FETCH_ADD, 1);
	core_expect(&c->b, RC_FETCH_ADD, 2);
	core_expect(&c->b, RC_WRITE_ONLY, 3);
	respond(c, 1, 2);
	respond(c, 2, 3);
	core_ack(c, 3, AETH_NAK_REM_ACCESS, 3);
	core_wait(c, 5 * CORE_MS);
	assert_true(core_near(c)->state == NEAR_FAILING);
	assert_int_equal(core_pending(&c->a), 0);
	lose = false;
	core_wait(c, 50 * CORE_MS);
	core_expect(&c->a, RC_ATOMIC_ACK, 1);
	core_expect(&c->a, RC_ATOMIC_ACK, 2);
	k = core_expect_aeth(&c->a, 3, AETH_NAK_REM_ACCESS);
	assert_int_equal(k->h.aeth_msn, 3);
	assert_true(core_near(c)->state == NEAR_FAILED);
}

/* Meanwhile the host repeats a request whose answer is forgotten: this does not end a flow whose responder has
 * refused already, and the host still gets the refusal. */
static void near_fail__a_forgotten_answer_does_not_hide_the_refusal(void **state)
{
	bool lose = false;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	c->arg = &lose;
	c->wan = lose_from_far;
	core_send(c, RC_FETCH_ADD, 1);
	respond(c, 1, 2);
	core_wait(c, 11000 * CORE_MS);
	assert_int_equal(core_near(c)->nops, 0);
	core_forget(&c->a);
	core_forget(&c->b);
	lose = true;
	core_send(c, RC_FETCH_ADD, 2);
	core_send(c, RC_WRITE_ONLY, 3);
	respond(c, 2, 3);
	core_ack(c, 3, AETH_NAK_REM_ACCESS, 3);
	core_wait(c, 5 * CORE_MS);
	assert_true(core_near(c)->state == NEAR_FAILING);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(core_send(c, RC_FETCH_ADD, 1), DROP_LAN_FAILED);
		core_wait(c, 5 * CORE_MS);
	}
	assert_int_equal(core_ctr(&c->a, CTR_DOUBTS), 0);
	lose = false;
	core_wait(c, 50 * CORE_MS);
	core_expect(&c->a, RC_ATOMIC_ACK, 2);
	core_expect_aeth(&c->a, 3, AETH_NAK_REM_ACCESS);
	assert_true(core_near(c)->state == NEAR_FAILED);
}

/* An answer that is lost on the responder's LAN does not come any more: the edge refuses the request that it would
 * have answered. */
static void near_fail__what_has_no_answer_is_refused(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_FETCH_ADD, 1);
	core_send(c, RC_WRITE_ONLY, 2);
	core_expect(&c->b, RC_FETCH_ADD, 1);
	core_expect(&c->b, RC_WRITE_ONLY, 2);
	core_ack(c, 2, AETH_NAK_REM_ACCESS, 2);
	core_expect_aeth(&c->a, 1, AETH_NAK_REM_ACCESS);
}

/* PSN 1 is ACKed early, and its responder refuses it; PSN 2 gets the NAK. */
static struct core *given_failed(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	assert_true(core_near(c)->state == NEAR_FAILED);
	core_forget(&c->b);
	core_send(c, RC_WRITE_ONLY, 2);
	core_expect_aeth(&c->a, 2, AETH_NAK_REM_ACCESS);
	return c;
}

/* The host recovers the queue pair and uses it again from its first PSN on: the NAK of the former life would
 * complete requests that the edge has not taken. */
static void near_fail__a_new_life_is_not_refused_in_the_old_one_s_name(void **state)
{
	struct core *c = given_failed(state);

	core_wait(c, 300 * CORE_MS);
	core_forget(&c->a);
	c->salt = 1;
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 0), DROP_NONE);
	assert_int_equal(core_pending(&c->a), 0);
	assert_memory_equal(core_expect(&c->b, RC_WRITE_ONLY, 0)->l3 + 56, core_payload(1, 0), 100);
	for (int i = 0; i < 40 && !core_pending(&c->a); i++) { /* first, late answers to the former life may come */
		core_ack(c, 0, AETH_ACK_NO_CREDITS, 1);
		core_wait(c, CORE_MS);
	}
	assert_int_equal(core_expect_aeth(&c->a, 0, AETH_ACK_NO_CREDITS)->h.aeth_msn, 1);
}

/* The new life may begin with the same bytes. */
static void near_fail__the_responder_decides_whose_words_these_are(void **state)
{
	struct core *c = given_failed(state);

	core_wait(c, 600 * CORE_MS);
	core_forget(&c->a);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 0), DROP_NONE);
	assert_int_equal(core_ctr(&c->a, CTR_DOUBTS), 1);
	assert_int_equal(core_pending(&c->a), 0);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
}

/* PSN 1 is refused, and was never ACKed. */
static struct core *given_refused(void **state, uint8_t opcode)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	core_send(c, opcode, 1);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	core_expect_aeth(&c->a, 1, AETH_NAK_REM_ACCESS);
	assert_true(core_near(c)->state == NEAR_FAILED);
	core_wait(c, 100 * CORE_MS);
	assert_int_equal(core_send(c, opcode, 1), DROP_LAN_FAILED); /* the NAK was lost */
	core_expect_aeth(&c->a, 1, AETH_NAK_REM_ACCESS);
	core_wait(c, 300 * CORE_MS);
	core_forget(&c->a);
	core_forget(&c->b);
	return c;
}

/* The next life begins with the bytes that were refused. */
static void near_fail__the_responder_decides_of_what_was_never_acked(void **state)
{
	struct core *c = given_refused(state, RC_WRITE_ONLY);

	assert_int_equal(core_send(c, RC_WRITE_ONLY, 1), DROP_NONE);
	assert_int_equal(core_pending(&c->a), 0);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
}

/* A READ of other memory at the PSN of a refused READ: the rest of that READ, or a READ of another life. */
static void near_fail__the_responder_decides_of_a_read(void **state)
{
	struct core *c = given_refused(state, RC_READ_REQUEST);

	c->salt = 1;
	assert_int_equal(core_send(c, RC_READ_REQUEST, 1), DROP_NONE);
	assert_int_equal(core_pending(&c->a), 0);
	core_expect(&c->b, RC_READ_REQUEST, 1);
}

/* The rest of a message whose beginning was lost may be of any life, and is not refused. */
static void near_fail__what_nobody_can_tell_is_not_refused(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_FIRST, 2);
	core_send(c, RC_WRITE_MIDDLE, 3);
	core_send(c, RC_WRITE_LAST, 4);
	core_send(c, RC_WRITE_ONLY, 5);
	core_ack(c, 5, AETH_NAK_REM_ACCESS, 3);
	assert_true(core_near(c)->state == NEAR_FAILED);
	core_wait(c, 20 * CORE_MS);
	core_send(c, RC_WRITE_ONLY, 6);
	core_forget(&c->a);
	core_forget(&c->b);
	c->salt = 1;
	assert_int_equal(core_send(c, RC_WRITE_MIDDLE, 3), DROP_LAN_FAILED);
	assert_int_equal(core_pending(&c->a), 0);
}

/* The NAK was lost: for any packet of the failed life that the host repeats, it gets the NAK again. */
static void near_fail__its_own_repetition_is_refused_again(void **state)
{
	struct core *c = given_failed(state);

	for (int i = 0; i < 40; i++) {
		core_wait(c, 67 * CORE_MS);
		core_forget(&c->a);
		for (uint32_t psn = 0; psn < 3; psn++) {
			assert_int_equal(core_send(c, RC_WRITE_ONLY, psn), DROP_LAN_FAILED);
			core_expect_aeth(&c->a, 2, AETH_NAK_REM_ACCESS);
		}
	}
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(core_ctr(&c->a, CTR_DOUBTS) + core_ctr(&c->a, CTR_INCARNATIONS), 0);
}

/* Packets of other flows do not keep the QPN from its next owner: the QPN is free so long after the failed life's
 * last packet. */
static void near_fail__the_quiet_counts_from_its_own_packets(void **state)
{
	struct core *c = given_failed(state);

	for (int i = 0; i < 4; i++) {
		core_wait(c, 600 * CORE_MS);
		core_forget(&c->a);
		core_forget(&c->b);
		c->salt = 1;
		core_send(c, RC_WRITE_ONLY, 40);
	}
	core_expect(&c->b, RC_WRITE_ONLY, 40);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(near_fail__nak_counts_what_was_executed),
	    CORE_TEST(near_fail__nothing_waits_for_what_failed_by_time),
	    CORE_TEST(near_fail__answers_come_first),
	    CORE_TEST(near_fail__a_forgotten_answer_does_not_hide_the_refusal),
	    CORE_TEST(near_fail__what_has_no_answer_is_refused),
	    CORE_TEST(near_fail__a_new_life_is_not_refused_in_the_old_one_s_name),
	    CORE_TEST(near_fail__the_responder_decides_whose_words_these_are),
	    CORE_TEST(near_fail__the_responder_decides_of_what_was_never_acked),
	    CORE_TEST(near_fail__the_responder_decides_of_a_read),
	    CORE_TEST(near_fail__what_nobody_can_tell_is_not_refused),
	    CORE_TEST(near_fail__its_own_repetition_is_refused_again),
	    CORE_TEST(near_fail__the_quiet_counts_from_its_own_packets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
