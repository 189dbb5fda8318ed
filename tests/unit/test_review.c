/* SPDX-License-Identifier: Apache-2.0 */
/* test_review.c - what a reading of the core found, and test_kill.c does not have: the same words behind a restart. */
#include "core_fixture.h"

/* Programs begin their lives with the same words: nothing was heard since the restart that a round could go on from. */
static void restart__the_same_words_behind_it_are_doubted(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	core_rebuild(&c->a);
	core_session(c);
	core_wait(c, 300 * CORE_MS);
	core_send(c, RC_WRITE_ONLY, 1);
	assert_true(core_near(c)->doubted);
}

/* The same without a restart. */
static void life__the_same_words_after_a_while_are_doubted(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	core_wait(c, 300 * CORE_MS);
	core_send(c, RC_WRITE_ONLY, 1);
	assert_true(core_near(c)->doubted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(restart__the_same_words_behind_it_are_doubted),
	    CORE_TEST(life__the_same_words_after_a_while_are_doubted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
