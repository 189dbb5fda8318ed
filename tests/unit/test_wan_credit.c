/* SPDX-License-Identifier: Apache-2.0 */
/* What a lane may have under way: told anew as the buffer fills with what nobody takes. */
#include "core_fixture.h"

/* What the lane may have beyond what is held. */
static uint64_t beyond(const struct core_edge *e)
{
	return max_u64(pool_free(e->p, POOL_WAN) / 2, 2 * CREDIT_MIN_BYTES);
}

/* A datagram goes, of those that may bring a credit along. */
static void tell(struct core_edge *e, struct lane *l)
{
	l->space[0].ping_due = true;
	wan_lane_schedule(e->p, l);
	while (core_carry(e->c, e, e == &e->c->a ? &e->c->b : &e->c->a))
		;
}

/* Whatever dead flows hold, the others of the lane may send half at least of what there is room for, to the end. */
static void wan_credit__what_the_dead_hold_uses_up_no_window(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 128);
	struct proxy *p = c->b.p;
	struct lane *l = &p->wan->lanes[0];

	for (uint64_t n = 0; arena_room(p->arena, POOL_WAN, LAN_PKT_MAX) > beyond(&c->b); n++) {
		assert_true(c->a.p->wan->lanes[l->id].window_bytes >= l->rx_held_bytes + beyond(&c->b) / 2);
		assert_int_not_equal(slot_take(p, SLOT_RAW_WAN, 0, 0, n, LAN_PKT_MAX, l->id, true), SLOT_NONE);
		tell(&c->b, l);
	}
	assert_true(l->rx_held_bytes > arena_capacity(p->arena, POOL_WAN) / 4 * 3);
}

/* Not from bytes that no slot could use; but as soon as there are slots. */
static void wan_credit__is_not_promised_from_scattered_bytes(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct lane *l = &c->a.p->wan->lanes[0];
	uint64_t held = 6 * arena_capacity(c->a.p->arena, POOL_WAN), granted;
	struct core_scatter small;

	core_scatter(c, &small);
	l->rx_held_bytes += held; /* as if */
	granted = l->granted_bytes = (l->rx_held_bytes + beyond(&c->a)) / 10 * 9;
	tell(&c->a, l);
	assert_int_equal(l->granted_bytes, granted);
	core_gather(c, &small);
	tell(&c->a, l);
	assert_int_equal(l->granted_bytes, l->rx_held_bytes + beyond(&c->a));
	assert_int_equal(c->b.p->wan->lanes[l->id].window_bytes, l->granted_bytes);
	l->rx_held_bytes -= held;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(wan_credit__what_the_dead_hold_uses_up_no_window),
	    CORE_TEST(wan_credit__is_not_promised_from_scattered_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
