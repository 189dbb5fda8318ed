/* SPDX-License-Identifier: Apache-2.0 */
/* kill_fixture.h - kill -9 in front of one store into an arena after the other.
 *
 * Each call is made as often as it writes into an arena, and ends in front of one store after the other; at last it is
 * made as a whole. The core of these tests is the simulator's, in which it can be stopped. */
#ifndef KILL_FIXTURE_H
#define KILL_FIXTURE_H

#include "core_fixture.h"

#include "tests/sim/steps.h"

static jmp_buf killed;

/* Makes the call up to its n-th store. False: it has not so many. */
static bool kill_at(struct core *c, uint32_t n, void (*call)(struct core *c))
{
	if (setjmp(killed))
		return true;
	steps_kill_after(0, n, &killed);
	call(c);
	steps_kill_never();
	return false;
}

/* `then` finds the core as the kill has left it; at last as the whole call has. */
static void at_every_store(void **state, struct core *(*given)(void **state), void (*call)(struct core *c),
                           void (*then)(struct core *c))
{
	struct core *c;
	uint32_t n = 0;
	bool in_it;

	do {
		c = given(state);
		in_it = kill_at(c, ++n, call);
		then(c);
		core_done(state);
		*state = NULL;
	} while (in_it);
	assert_true(n > 1);
}

#endif
