/* SPDX-License-Identifier: Apache-2.0 */
/* test_review.c - what a reading of the core found: kills between stores, and CM in the middle of a doubt. */
#include "core_fixture.h"

#include "proxy/arena/arena_priv.h"
#include "proxy/near/near_priv.h"
#include "proxy/shard/flow_frame.h"

/* Takes back the descriptor store that was the last one: as a kill in front of it leaves the arena. */
static void forget_last_store(struct core_edge *e, enum desc_table t, uint32_t idx)
{
	struct arena *a = e->p->arena;
	struct arena_desc_copy *d = a->desc + 2 * ((size_t)t * a->max_flows + idx);

	(d[0].seq > d[1].seq ? &d[0] : &d[1])->word = 0;
}

/* near_on_pair() stores a flow as paired before it knows by how much the responder counts more. */
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

/* near_absorb_held() writes a header's msn, and arena_amend() its CRC behind that: a kill in between is taken for damaged
 * memory, and each flow with a gap fails for it. (With an arena_amend() that writes both, this is to be a kill within it.) */
static void amend__a_kill_within_is_no_damage(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint32_t slot;

	core_in(&c->a, core_req(RC_WRITE_ONLY, 3), CORE_PMTU, 0);
	core_in(&c->a, core_req(RC_WRITE_ONLY, 4), CORE_PMTU, 0);
	slot = arena_find(c->a.p->arena, SLOT_REQ_NEAR, core_near(c)->idx, core_near(c)->pos_next + 2);
	assert_int_not_equal(slot, SLOT_NONE);
	arena_hdr(c->a.p->arena, slot)->msn++;
	core_rebuild(&c->a);
	assert_false(core_event(&c->a, EV_ARENA_DAMAGED));
	assert_false(core_near(c)->failed);
}

/* The host repeats something late, nobody answers, and then CM connects a new queue pair with the number. */
static void cm__a_new_queue_pair_is_in_no_doubt(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	const struct core_pkt *k;

	core_send(c, RC_WRITE_ONLY, 0);
	core_ack(c, 0, AETH_ACK_NO_CREDITS, 41); /* it has counted 40 before */
	core_send_run(c, 1, 10);
	core_ack(c, 10, AETH_ACK_NO_CREDITS, 51);
	core_wait(c, 300 * CORE_MS);
	core_send(c, RC_WRITE_ONLY, 10);
	assert_true(core_near(c)->doubted);
	core_wait(c, CORE_MS);
	core_forget(&c->a);
	core_forget(&c->b);
	core_connect(c, 500, 100, 7);
	assert_int_equal(pos_psn(core_near(c)->pos_base), 500);
	core_send(c, RC_WRITE_ONLY, 500);
	k = core_expect_aeth(&c->a, 500, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 1);
	assert_false(core_near(c)->doubted);
	assert_false(core_near(c)->sent_before);
}

/* far_rx() stores a flow as paired before it has the template and the count that the near edge is to be told. */
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

/* fail_now() frees what was ACKed before the descriptor says that the flow has failed. */
static void failure__a_kill_leaves_what_was_acked_or_the_failure(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint32_t idx = core_near(c)->idx;
	uint64_t acked;

	core_know_epochs(c);
	core_send_run(c, 1, 4);
	core_expect_aeth(&c->a, 4, AETH_ACK_NO_CREDITS);
	acked = core_near(c)->pos_acked;
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	assert_true(core_near(c)->failed);
	forget_last_store(&c->a, DESC_NEAR, idx);
	core_rebuild(&c->a);
	if (!core_near(c)->failed)
		assert_int_equal(core_near(c)->pos_next, acked);
}

/* A connection of which one direction was never used, and whose end was lost; then another one of the same two numbers. */
static void cm__the_next_connection_of_an_unused_pair_begins_where_it_says(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct near_cm_info ci = {.src = core_ip(1, 2),
	                          .dst = core_ip(2, 2),
	                          .dest_qpn = CORE_QPN,
	                          .requester_qpn = 0x21,
	                          .start_psn = 500,
	                          .pmtu = CORE_PMTU,
	                          .pkey = 0xffff,
	                          .rnr_retry = 7};

	near_cm_open(c->a.p, &ci);
	core_pump(c);
	ci.start_psn = 9000;
	near_cm_open(c->a.p, &ci);
	core_pump(c);
	assert_int_equal(pos_psn(core_near(c)->pos_base), 9000);
	core_send(c, RC_WRITE_ONLY, 9000);
	core_expect_aeth(&c->a, 9000, AETH_ACK_NO_CREDITS);
}

/* An operator takes early ACKs back (AckMode=host) and starts anew, with bytes in the buffer that were ACKed early. */
static void restart__another_mode_knows_what_was_acked(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint64_t acked;

	c->cut = true;
	core_send_run(c, 1, 4);
	core_expect_aeth(&c->a, 4, AETH_ACK_NO_CREDITS);
	acked = core_near(c)->pos_acked;
	c->a.cfg.mode = ACK_MODE_HOST;
	core_rebuild(&c->a);
	assert_int_equal(core_near(c)->pos_acked, acked);
}

/* The same by a reload, and a kill behind it. */
static void restart__a_reload_to_another_mode_keeps_what_was_acked(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint64_t acked;

	c->cut = true;
	core_send_run(c, 1, 4);
	core_expect_aeth(&c->a, 4, AETH_ACK_NO_CREDITS);
	acked = core_near(c)->pos_acked;
	c->a.cfg.mode = ACK_MODE_HOST;
	assert_int_equal(proxy_reconfigure(c->a.p, &c->a.cfg, c->now_ns), 0);
	assert_int_equal(core_near(c)->pos_acked, acked);
	core_rebuild(&c->a);
	assert_int_equal(core_near(c)->pos_acked, acked);
}

/* A far flow that has failed gives its slots back in later ticks: what a kill leaves of them is nobody's. */
static void failure__a_kill_at_the_far_edge_leaves_no_slots(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_know_epochs(c);
	core_send_run(c, 1, 4);
	assert_int_equal(core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 1, AETH_NAK_REM_ACCESS, 1), 0, 0), DROP_NONE);
	assert_true(core_far(c)->failed);
	core_rebuild(&c->b);
	core_know_epochs(c);
	core_wait(c, 1000 * CORE_MS);
	assert_int_equal(arena_used(c->b.p->arena, POOL_WAN), 0);
}

/* The packet that was missing is committed, and those behind the gap, which were counted without it, are not yet taken. */
static void restart__what_was_held_is_counted_anew(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 1);
	uint8_t buf[LAN_PKT_MAX];
	const struct core_pkt *k;
	size_t len;

	core_in(&c->a, core_req(RC_WRITE_ONLY, 2), CORE_PMTU, 0);
	core_in(&c->a, core_req(RC_WRITE_ONLY, 3), CORE_PMTU, 0);
	len = roce_build(buf, sizeof(buf), &h, core_payload(c->salt, 1), CORE_PMTU);
	assert_int_equal(roce_parse(buf, len, &h), DROP_NONE);
	assert_int_not_equal(near_commit(c->a.p, core_near(c), buf, &h, core_near(c)->pos_next, 1, 77, 0), SLOT_NONE);
	core_rebuild(&c->a);
	assert_int_equal(pos_psn(core_near(c)->pos_next), 4);
	assert_int_equal(core_near(c)->msn_next, 4);
	core_session(c);
	core_send(c, RC_WRITE_ONLY, 4);
	k = core_expect_aeth(&c->a, 4, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 5);
}

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
	    CORE_TEST(pair__a_kill_keeps_pair_and_count_together),
	    CORE_TEST(pair__a_kill_at_the_far_edge_keeps_the_pair_whole),
	    CORE_TEST(failure__a_kill_leaves_what_was_acked_or_the_failure),
	    CORE_TEST(amend__a_kill_within_is_no_damage),
	    CORE_TEST(cm__the_next_connection_of_an_unused_pair_begins_where_it_says),
	    CORE_TEST(restart__another_mode_knows_what_was_acked),
	    CORE_TEST(restart__a_reload_to_another_mode_keeps_what_was_acked),
	    CORE_TEST(failure__a_kill_at_the_far_edge_leaves_no_slots),
	    CORE_TEST(restart__what_was_held_is_counted_anew),
	    CORE_TEST(cm__a_new_queue_pair_is_in_no_doubt),
	    CORE_TEST(restart__the_same_words_behind_it_are_doubted),
	    CORE_TEST(life__the_same_words_after_a_while_are_doubted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
