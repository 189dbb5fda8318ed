/* SPDX-License-Identifier: Apache-2.0 */
/* test_kill.c - a kill in the middle of a call: what the arena holds then belongs together. */
#include "core_fixture.h"

#include "proxy/arena/arena_priv.h"
#include "proxy/shard/flow_frame.h"

/* Takes back the descriptor store that was the last one: as a kill in front of it leaves the arena. */
static void forget_last_store(struct core_edge *e, enum desc_table t, uint32_t idx)
{
	struct arena *a = e->p->arena;
	struct arena_desc_copy *d = a->desc + 2 * ((size_t)t * a->max_flows + idx);

	(d[0].seq > d[1].seq ? &d[0] : &d[1])->word = 0;
}

/* A pair without its count would name wrong MSNs for the rest of the life: nobody tells a pair again. */
static void pair__a_kill_keeps_pair_and_count_together(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct wan_flow_pair r = {0};
	struct roce_pkt ack = core_answer(RC_ACK, 0x21, 0, AETH_ACK_NO_CREDITS, 41);
	uint8_t template[TEMPLATE_MAX];
	struct near_flow *f;
	uint32_t idx;

	core_send(c, RC_WRITE_ONLY, 0);
	core_send(c, RC_WRITE_ONLY, 1);
	f = core_near(c);
	idx = f->idx;
	r.flow = near_wire_id(c->a.p, f);
	r.inc = f->inc;
	r.requester_qpn = 0x21;
	r.pos_base = f->pos_base;
	r.at_pos = f->pos_base + 1;
	r.msn = 41;
	r.template = template;
	r.template_len = (uint16_t)roce_build(template, TEMPLATE_MAX, &ack, NULL, 0);
	near_on_pair(c->a.p, &r);
	assert_int_equal(core_near(c)->msn_offset, 40);
	forget_last_store(&c->a, DESC_NEAR, idx);
	core_rebuild(&c->a);
	f = core_near(c);
	if (f->pairing != PAIR_LEARNING)
		assert_int_equal(f->msn_offset, 40);
}

/* A pair that lacks what the near edge is to be told of it would never be told. */
static void pair__a_kill_at_the_far_edge_keeps_the_pair_whole(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	uint32_t idx;

	core_know_epochs(c);
	core_send(c, RC_WRITE_ONLY, 0);
	idx = core_far(c)->idx;
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(core_in(&c->b, core_answer(RC_ACK, 0x21, 0, AETH_ACK_NO_CREDITS, 41), 0, 0), DROP_NONE);
	forget_last_store(&c->b, DESC_FAR, idx);
	core_rebuild(&c->b);
	core_know_epochs(c);
	core_wait(c, 200 * CORE_MS);
	if (core_far(c)->pairing == PAIR_LEARNING) /* it asks again */
		core_in(&c->b, core_answer(RC_ACK, 0x21, 0, AETH_ACK_NO_CREDITS, 41), 0, 0);
	core_wait(c, 200 * CORE_MS);
	assert_int_not_equal(core_near(c)->pairing, PAIR_LEARNING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(pair__a_kill_keeps_pair_and_count_together),
	    CORE_TEST(pair__a_kill_at_the_far_edge_keeps_the_pair_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
