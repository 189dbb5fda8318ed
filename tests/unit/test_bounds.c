/* SPDX-License-Identifier: Apache-2.0 */
/* What ends where: positions, and how much work one call into the core does. The core of this test is the simulator's,
 * which counts its steps and lets positions begin anywhere. */
#include "core_fixture.h"

#include "tests/sim/steps.h"

/* --- positions --- */

static int begin_in_the_field(void **state)
{
	proxy_pos_origin = 1ull << 40;
	return core_done(state);
}

#define POSITION_TEST(t) cmocka_unit_test_teardown(t, begin_in_the_field)

/* A flow is written across, and read, over the end of so many bits of position. */
static void passes(void **state, uint8_t bits)
{
	struct core *c;

	proxy_pos_origin = (1ull << bits) - 0x1000000;
	c = core_given(state, ACK_MODE_NEAR);
	core_pair(c, 0xfffff0);
	for (uint32_t i = 1; i < 40; i++) {
		uint32_t psn = (0xfffff0 + i) & ROCE_PSN_MASK;

		assert_int_equal(core_send(c, RC_WRITE_ONLY, psn), DROP_NONE);
		core_expect_aeth(&c->a, psn, AETH_ACK_NO_CREDITS);
		core_expect(&c->b, RC_WRITE_ONLY, psn);
		core_ack(c, psn, AETH_ACK_NO_CREDITS, 1 + i);
	}
	core_wait(c, CORE_MS);
	assert_int_equal(core_near(c)->pos_settled, (1ull << bits) + 24);
	assert_int_equal(core_drops(&c->b, DROP_WAN_BAD_FRAME), 0);
}

static void bounds__positions_pass_32_bits(void **state)
{
	passes(state, 32);
}

static void bounds__positions_pass_42_bits(void **state)
{
	passes(state, 42);
}

static void bounds__positions_pass_48_bits(void **state)
{
	passes(state, 48);
}

/* Nothing in the field comes so far, and what claims to is refused. */
static void bounds__positions_end(void **state)
{
	struct core *c;

	proxy_pos_origin = POS_END - 0x1000000;
	c = core_given(state, ACK_MODE_NEAR);
	core_pair(c, 0xffffff);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 0), DROP_NONE);
	assert_int_equal(core_pending(&c->b), 0);
	assert_true(core_drops(&c->b, DROP_WAN_BAD_FRAME) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    POSITION_TEST(bounds__positions_pass_32_bits),
	    POSITION_TEST(bounds__positions_pass_42_bits),
	    POSITION_TEST(bounds__positions_pass_48_bits),
	    POSITION_TEST(bounds__positions_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
