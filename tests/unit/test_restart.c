/* SPDX-License-Identifier: Apache-2.0 */
/* What an edge knows of its flows is the same after a restart, and goes on to have its effect. */
#define _GNU_SOURCE /* memmem */
#include "core_fixture.h"
#include "proxy/near/near_priv.h"
#include "proxy/wan/share.h"

enum { VLAN = 0x2007 };

#define SAME(field) assert_int_equal(now->field, was.field)

static void same_near(const struct near_flow *now, struct near_flow was)
{
	SAME(idx);
	SAME(inc);
	SAME(born);
	SAME(lane);
	SAME(vlan_tci);
	SAME(dest_qpn);
	SAME(requester_qpn);
	SAME(pairing);
	SAME(mode);
	SAME(pmtu);
	SAME(base_fixed);
	SAME(state);
	SAME(msn);
	SAME(rnr_retry);
	SAME(pos_base);
	SAME(pos_next);
	SAME(pos_acked);
	SAME(pos_settled);
	SAME(msn_next);
	SAME(msn_acked);
	SAME(msn_settled);
	SAME(msn_offset);
	SAME(held_bytes);
	SAME(template_len);
	assert_memory_equal(now->template, was.template, was.template_len);
}

static void same_far(const struct far_flow *now, struct far_flow was)
{
	SAME(idx);
	SAME(inc);
	SAME(peer_flow);
	SAME(peer_epoch);
	SAME(lane);
	SAME(vlan_tci);
	SAME(dest_qpn);
	SAME(requester_qpn);
	SAME(pairing);
	SAME(mode);
	SAME(pmtu);
	SAME(base_fixed);
	SAME(pos_base);
	SAME(pos_acked);
	SAME(pos_rx);
	SAME(msgs_acked);
	SAME(pair_at_pos);
	SAME(pair_msn);
	SAME(held_bytes);
	SAME(template_len);
	assert_memory_equal(now->template, was.template, was.template_len);
}

/* A flow in a VLAN whose host counts RNR NAKs, of which all that can be known is known, with bytes on their way. */
static void restart__knows_what_it_knew(void **state)
{
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);
	const struct near_cm_info ci = {.src = src,
	                                .dst = dst,
	                                .dest_qpn = CORE_QPN,
	                                .requester_qpn = 0x21,
	                                .start_psn = 500,
	                                .pmtu = CORE_PMTU,
	                                .vlan_tci = VLAN,
	                                .pkey = 0xffff,
	                                .rnr_retry = 5};
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct near_flow *near;
	struct far_flow *far;
	struct near_flow near_was;
	struct far_flow far_was;

	core_know_epochs(c);
	near_cm_open(c->a.p, &ci);
	for (uint32_t psn = 500; psn < 510; psn++)
		assert_int_equal(core_in(&c->a, core_req(RC_WRITE_ONLY, psn), CORE_PMTU, VLAN), DROP_NONE);
	core_pump(c);
	core_in(&c->b, core_answer(RC_ACK, 0x21, 503, AETH_ACK_NO_CREDITS, 4), 0, VLAN);
	core_wait(c, CORE_MS);
	near = near_find(c->a.p, &src, &dst, CORE_QPN, VLAN);
	assert_non_null(near);
	far = far_by_peer(c->b.p, near_wire_id(c->a.p, near));
	assert_non_null(far);
	assert_int_equal(far->pmtu, CORE_PMTU);
	assert_int_equal(far->pos_acked, POS_ORIGIN + 504);
	near_was = *near;
	far_was = *far;
	core_rebuild(&c->a);
	core_rebuild(&c->b);
	same_near(&c->a.p->near[near_was.idx], near_was);
	same_far(&c->b.p->far[far_was.idx], far_was);
	assert_int_equal(c->a.p->near_used, 1);
	assert_int_equal(c->b.p->far_used, 1);
}

/* What a rebuilt far flow holds is not taken for stuck, and evicted, before it could drain. */
static void restart__far_flow_is_young(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_FAR);
	const struct far_flow *f;

	core_send_run(c, 1, 3);
	core_wait(c, 1000 * CORE_MS);
	core_rebuild(&c->b);
	f = core_far(c);
	assert_true(f->held_bytes > 0);
	assert_false(share_stuck(c->b.p, &f->share, f->held_bytes));
}

/* The far edge sends what it has, and has no answer to, without waiting for its peer. */
static void restart__far_edge_goes_on_by_itself(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send_run(c, 1, 3);
	core_forget(&c->b);
	core_rebuild(&c->b);
	core_pump(c);
	for (uint32_t psn = 1; psn <= 3; psn++)
		core_expect(&c->b, RC_WRITE_ONLY, psn);
}

/* Messages 1 to 4 are ACKed and lie at the near edge; the slot of one is damaged while the daemon is down. */
static void damage_one_of_four(struct core *c, uint64_t pos)
{
	uint32_t slot;

	c->cut = true;
	core_send_run(c, 1, 4);
	slot = arena_find(c->a.p->arena, SLOT_REQ_NEAR, core_near(c)->idx, pos);
	assert_int_not_equal(slot, SLOT_NONE);
	arena_hdr(c->a.p->arena, slot)->crc ^= 1;
	core_rebuild(&c->a);
}

static void expect_damage_named(struct core *c, uint64_t pos)
{
	struct proxy_event ev;

	assert_true(proxy_event_next(c->a.p, &ev));
	assert_int_equal(ev.type, EV_FLOW_FAILED);
	assert_int_equal(ev.failure, FAILURE_DAMAGED);
	assert_int_equal(ev.dest_qpn, CORE_QPN);
	assert_int_equal(ev.pos, pos);
	assert_true(core_event(&c->a, EV_ARENA_DAMAGED));
	assert_int_equal(core_ctr(&c->a, CTR_ARENA_DAMAGED), 1);
	assert_true(core_near(c)->state == NEAR_FAILED);
}

static void restart__damaged_packet_fails_its_flow(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	damage_one_of_four(c, POS_ORIGIN + 2);
	expect_damage_named(c, POS_ORIGIN + 2);
	assert_true(core_ctr(&c->a, CTR_BYTES_FAILED) > 0);
}

/* Nothing lies behind it that would show a hole. */
static void restart__damaged_last_packet_fails_its_flow(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	damage_one_of_four(c, POS_ORIGIN + 4);
	expect_damage_named(c, POS_ORIGIN + 4);
}

/* Both copies of its descriptor: who it was is in its packets. */
static void restart__damaged_flow_is_named_by_its_packets(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct proxy_event ev;
	uint8_t desc[ARENA_DESC_MAX], *at;

	c->cut = true;
	core_send_run(c, 1, 4);
	near_store(c->a.p, core_near(c)); /* so that both copies are there, and alike */
	near_store(c->a.p, core_near(c));
	assert_true(arena_desc_load(c->a.p->arena, DESC_NEAR, core_near(c)->idx, desc, sizeof(desc)));
	for (at = c->a.region; (at = memmem(at, c->a.g.len - (size_t)(at - (uint8_t *)c->a.region), desc, 32));)
		at[8] ^= 0xff;
	core_rebuild(&c->a);
	assert_int_equal(c->a.p->near_used, 0);
	for (int i = 0; i < 4; i++) {
		assert_true(proxy_event_next(c->a.p, &ev));
		assert_int_equal(ev.failure, FAILURE_DAMAGED);
		assert_int_equal(ev.dest_qpn, CORE_QPN);
	}
	assert_true(core_event(&c->a, EV_ARENA_DAMAGED));
}

/* Two lives of a key, the older one in front in the table. The younger one is spoken to, and the older one has its time
 * to drain, and no more. */
static void restart__old_life_drains(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint32_t old_idx = core_near(c)->idx;

	core_send_run(c, 1, 4);
	core_forget(&c->a);
	core_forget(&c->b);
	c->salt = 1;
	core_insist(c, RC_WRITE_ONLY, 0);
	assert_true(core_near(c)->idx > old_idx);
	core_rebuild(&c->a);
	core_session(c);
	assert_true(core_near(c)->idx > old_idx);
	assert_int_equal(core_near(c)->older->idx, old_idx);
	core_event(&c->a, EV_COUNT);
	core_wait(c, 600 * CORE_MS);
	assert_true(core_event(&c->a, EV_FLOW_FAILED));
	assert_null(core_near(c)->older);
	assert_int_equal(c->a.p->near_used, 1);
}

/* A refusal is said again with the same PSN and MSN. */
static void restart__refusal_is_the_same(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_pair(state, ACK_MODE_HOST);
	uint32_t msn;

	core_send_run(c, 1, 4);
	core_forget(&c->a);
	core_ack(c, 3, AETH_NAK_REM_ACCESS, 3);
	core_wait(c, CORE_MS);
	msn = core_expect_aeth(&c->a, 3, AETH_NAK_REM_ACCESS)->h.aeth_msn;
	assert_int_equal(msn, 3);
	core_rebuild(&c->a);
	core_session(c);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 3);
	k = core_expect_aeth(&c->a, 3, AETH_NAK_REM_ACCESS);
	assert_int_equal(k->h.aeth_msn, msn);
}

/* --- what ends leaves nothing --- */

static void read_of_two(struct core *c, uint32_t psn)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, psn);

	h.reth_len = 2 * CORE_PMTU;
	assert_int_equal(core_in(&c->a, h, 0, 0), DROP_NONE);
	core_pump(c);
}

/* The near edge has lost its arena. What was ACKed in mode far is delivered; the READ behind it, and what follows,
 * never was, and is not. */
static void restart__orphan_ends_in_front_of_a_read(void **state)
{
	struct core *c = core_given(state, ACK_MODE_FAR);

	core_know_epochs(c);
	core_pair_with_pmtu(c);
	core_send_run(c, 2, 3);
	read_of_two(c, 5);
	core_send_run(c, 7, 2);
	assert_int_equal(core_far(c)->pos_rx, POS_ORIGIN + 9);
	core_forget(&c->b);
	core_lose(c, &c->a, 99);
	assert_true(core_event(&c->b, EV_FLOW_EPOCH_STALE));
	core_wait(c, CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->b));)
		assert_in_range(k->h.psn, 2, 4);
	core_ack(c, 4, AETH_ACK_NO_CREDITS, 5);
	core_wait(c, CORE_MS);
	assert_int_equal(c->b.p->far_used, 0);
	assert_int_equal(core_used(&c->b), 0);
}

/* A flow ends while its responses wait for a line that is cut. */
static void restart__responses_go_with_their_flow(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	read_of_two(c, 2);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	c->cut = true;
	core_in(&c->b, core_answer(RC_READ_RESP_FIRST, CORE_QPN, 2, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
	core_in(&c->b, core_answer(RC_READ_RESP_LAST, CORE_QPN, 3, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
	assert_true(arena_used(c->b.p->arena, POOL_LAN) > 0); /* not sent yet */
	far_on_close(c->b.p, &(struct wan_flow_close){.flow = core_far(c)->peer_flow, .inc = core_far(c)->inc});
	c->cut = false;
	core_wait(c, 100 * CORE_MS); /* each goes when its turn to be sent comes */
	assert_int_equal(core_used(&c->b), 0);
	assert_int_equal(arena_used(c->a.p->arena, POOL_WAN), 0);
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

/* A host that comes back to an edge that was down need not be the one that it knew: a job takes less time to be started
 * again, and programs begin with the same words. */
static void same_words_after(void **state, uint64_t down_ns, uint64_t up_ns)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	c->now_ns += down_ns;
	core_rebuild(&c->a);
	core_session(c);
	core_wait(c, up_ns);
	core_send(c, RC_WRITE_ONLY, 1);
	assert_int_equal(core_near(c)->doubted, down_ns + up_ns >= 500 * CORE_MS);
}

static void restart__the_same_words_long_after_are_doubted(void **state)
{
	same_words_after(state, 2000 * CORE_MS, CORE_MS);
}

static void restart__the_same_words_behind_it_are_doubted(void **state)
{
	same_words_after(state, 200 * CORE_MS, 350 * CORE_MS);
}

static void restart__its_host_goes_on(void **state)
{
	same_words_after(state, 200 * CORE_MS, 100 * CORE_MS);
}

/* Both edges have said hello, and their configurations disagree. */
static void disagree(struct core *c)
{
	struct proxy_session s;

	core_session(c);
	s = c->a.p->session;
	s.mismatch = true;
	proxy_session_start(c->a.p, &s, c->now_ns);
	proxy_session_start(c->b.p, &c->b.p->session, c->now_ns);
	core_pump(c);
}

/* Mode near, but nothing may be ACKed early: what was not ACKed before a restart is not ACKed after it. */
static void restart__what_was_not_acked_is_not(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	disagree(c);
	core_send_run(c, 1, 2);
	assert_int_equal(core_pending(&c->a), 0);
	core_rebuild(&c->a);
	assert_int_equal(core_near(c)->pos_next, POS_ORIGIN + 3);
	assert_int_equal(core_near(c)->pos_acked, POS_ORIGIN + 1);
	disagree(c);
	for (uint32_t psn = 1; psn <= 2; psn++)
		assert_int_equal(core_send(c, RC_WRITE_ONLY, psn), DROP_LAN_DUPLICATE);
	core_wait(c, 20 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	core_forget(&c->b);
	core_ack(c, 2, AETH_ACK_NO_CREDITS, 3);
	core_expect_aeth(&c->a, 2, AETH_ACK_NO_CREDITS);
}

/* What was ACKed before the edges disagreed counts as ACKed, and no more than that. */
static void restart__early_acks_end_where_they_did(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send_run(c, 1, 2);
	core_expect_aeth(&c->a, 2, AETH_ACK_NO_CREDITS);
	disagree(c);
	core_send_run(c, 3, 2);
	core_rebuild(&c->a);
	assert_int_equal(core_near(c)->pos_next, POS_ORIGIN + 5);
	assert_int_equal(core_near(c)->pos_acked, POS_ORIGIN + 3);
}

/* They agree again: all that is here may have been ACKed. */
static void restart__early_acks_begin_again(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	disagree(c);
	core_send_run(c, 1, 2);
	core_rebuild(&c->a);
	core_session(c);
	core_forget(&c->b);
	core_ack(c, 2, AETH_ACK_NO_CREDITS, 3);
	core_wait(c, 5 * CORE_MS);
	core_forget(&c->a);
	core_send_run(c, 3, 2);
	core_expect_aeth(&c->a, 4, AETH_ACK_NO_CREDITS);
	core_rebuild(&c->a);
	assert_int_equal(core_near(c)->pos_acked, POS_ORIGIN + 5);
}

/* The responder is silent, and the flow demoted for that. */
static void restart__what_a_demoted_flow_owes_is_what_it_acked(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send_run(c, 1, 2);
	core_expect_aeth(&c->a, 2, AETH_ACK_NO_CREDITS);
	core_wait(c, 3000 * CORE_MS);
	assert_true(core_near(c)->demotion != DEMOTED_NOT);
	core_forget(&c->a);
	core_send_run(c, 3, 2);
	assert_int_equal(core_pending(&c->a), 0);
	core_rebuild(&c->a);
	assert_int_equal(core_near(c)->pos_next, POS_ORIGIN + 5);
	assert_int_equal(core_near(c)->pos_acked, POS_ORIGIN + 3);
	core_session(c);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 3), DROP_LAN_DUPLICATE);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 4), DROP_LAN_DUPLICATE);
	core_wait(c, 20 * CORE_MS);
	assert_int_equal(core_near(c)->pos_acked, POS_ORIGIN + 3);
	core_ack(c, 2, AETH_ACK_NO_CREDITS, 3); /* it lives */
	core_wait(c, 5 * CORE_MS);
	core_forget(&c->a);
	core_send_run(c, 5, 1);
	core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(restart__knows_what_it_knew),
	    CORE_TEST(restart__far_flow_is_young),
	    CORE_TEST(restart__far_edge_goes_on_by_itself),
	    CORE_TEST(restart__damaged_packet_fails_its_flow),
	    CORE_TEST(restart__damaged_last_packet_fails_its_flow),
	    CORE_TEST(restart__damaged_flow_is_named_by_its_packets),
	    CORE_TEST(restart__old_life_drains),
	    CORE_TEST(restart__refusal_is_the_same),
	    CORE_TEST(restart__orphan_ends_in_front_of_a_read),
	    CORE_TEST(restart__responses_go_with_their_flow),
	    CORE_TEST(restart__another_mode_knows_what_was_acked),
	    CORE_TEST(restart__a_reload_to_another_mode_keeps_what_was_acked),
	    CORE_TEST(restart__the_same_words_behind_it_are_doubted),
	    CORE_TEST(restart__the_same_words_long_after_are_doubted),
	    CORE_TEST(restart__its_host_goes_on),
	    CORE_TEST(restart__what_was_not_acked_is_not),
	    CORE_TEST(restart__early_acks_end_where_they_did),
	    CORE_TEST(restart__early_acks_begin_again),
	    CORE_TEST(restart__what_a_demoted_flow_owes_is_what_it_acked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
