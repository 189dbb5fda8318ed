/* SPDX-License-Identifier: Apache-2.0 */
/* near_state.c - the life of a near flow: which state follows which, and what every such step does.
 *
 *     FREE --> OPEN --> FAILING --> FAILED       OPEN, FAILING, FAILED --near_close()--> FREE, or ENDED --> FREE
 *
 * A rebuild enters OPEN, FAILED and ENDED from FREE: NEAR_FAILING lasts ANSWERS_NS at most and is not stored. After a
 * kill such a flow is OPEN. The far edge reports a refusal of the responder again; what this edge itself had refused it
 * refuses again when the host's packet comes. */
#include "near_priv.h"

#include "proxy/util/probe.h"

#define ANSWERS_NS 2000000000ull /* then the NAK goes to the first operation that has no answer */

bool near_may_become(enum near_state from, enum near_state to)
{
	static const uint8_t follows[NEAR_STATES] = {
	    [NEAR_FREE] = 1u << NEAR_OPEN | 1u << NEAR_FAILED | 1u << NEAR_ENDED,
	    [NEAR_ENDED] = 1u << NEAR_FREE,
	    [NEAR_OPEN] = 1u << NEAR_FAILING | 1u << NEAR_ENDED | 1u << NEAR_FREE,
	    [NEAR_FAILING] = 1u << NEAR_FAILED | 1u << NEAR_ENDED | 1u << NEAR_FREE,
	    [NEAR_FAILED] = 1u << NEAR_ENDED | 1u << NEAR_FREE,
	};

	return follows[from] >> to & 1;
}

void near_become(struct proxy *p, struct near_flow *f, enum near_state to)
{
	bool was_used = near_in_use(f);

#ifdef PROXY_FAULTS
	if (!near_may_become(f->state, to))
		__builtin_trap();
#endif
	PROBE4(near_state, f->idx, f->inc, f->state, to);
	f->state = to;
	p->near_used += near_in_use(f) && !was_used;
	p->near_used -= !near_in_use(f) && was_used;
	if (to == NEAR_FAILING)
		timer_set(&p->timers, &f->fail_timer, p->now_ns + ANSWERS_NS);
	else
		timer_cancel(&p->timers, &f->fail_timer);
}
