/* SPDX-License-Identifier: Apache-2.0 */
/* A responder refuses: what was executed before that is completed first, and the NAK says how much that was. */
#include "core_fixture.h"

#include "proxy/near/near_priv.h"

static void respond(struct core *c, uint32_t psn, uint32_t msn)
{
	assert_int_equal(core_in(&c->b, core_answer(RC_ATOMIC_ACK, CORE_QPN, psn, AETH_ACK_NO_CREDITS, msn), 0, 0),
	                 DROP_NONE);
	core_pump(c);
}

/* A NIC that checks the MSN would not hear another one (IBTA 9.7.5.1.1). */
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

/* What was ACKed early and failed behind an answer that never came: words of the host wait for it no longer. */
static void near_fail__nothing_waits_for_what_failed_by_time(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 1);
	core_send(c, RC_FETCH_ADD, 2);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	assert_true(dnode_on(&core_near(c)->lag_node));
	near_refused(c->a.p, core_near(c), core_near(c)->pos_next, AETH_NAK_REM_ACCESS);
	assert_true(core_near(c)->failing);
	near_fail_on_timer(c->a.p, core_near(c)); /* no report of the far edge comes any more that would look at it */
	assert_true(core_near(c)->failed);
	assert_false(dnode_on(&core_near(c)->lag_node));
}

/* The answers of two ATOMICs are lost on the WAN, the news of the refusal behind them is not. */
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
	assert_true(core_near(c)->failing);
	assert_int_equal(core_pending(&c->a), 0);
	lose = false;
	core_wait(c, 50 * CORE_MS);
	core_expect(&c->a, RC_ATOMIC_ACK, 1);
	core_expect(&c->a, RC_ATOMIC_ACK, 2);
	k = core_expect_aeth(&c->a, 3, AETH_NAK_REM_ACCESS);
	assert_int_equal(k->h.aeth_msn, 3);
	assert_true(core_near(c)->failed);
}

/* Meanwhile the host asks for an answer that is forgotten: that ends no flow whose responder has refused already, and
 * the refusal is still what the host hears. */
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
	assert_true(core_near(c)->failing);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(core_send(c, RC_FETCH_ADD, 1), DROP_LAN_FAILED);
		core_wait(c, 5 * CORE_MS);
	}
	assert_int_equal(core_ctr(&c->a, CTR_DOUBTS), 0);
	lose = false;
	core_wait(c, 50 * CORE_MS);
	core_expect(&c->a, RC_ATOMIC_ACK, 2);
	core_expect_aeth(&c->a, 3, AETH_NAK_REM_ACCESS);
	assert_true(core_near(c)->failed);
}

/* An answer that is lost on the responder's LAN does not come any more: what it would have answered is what is
 * refused. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(near_fail__nak_counts_what_was_executed),
	    CORE_TEST(near_fail__nothing_waits_for_what_failed_by_time),
	    CORE_TEST(near_fail__answers_come_first),
	    CORE_TEST(near_fail__a_forgotten_answer_does_not_hide_the_refusal),
	    CORE_TEST(near_fail__what_has_no_answer_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
