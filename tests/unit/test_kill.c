/* SPDX-License-Identifier: Apache-2.0 */
/* test_kill.c - kill -9 in the middle of a call: what the arena holds then belongs together.
 */
#include "kill_fixture.h"

#include "proxy/far/far_priv.h"
#include "proxy/near/near_priv.h"
#include "proxy/shard/flow_frame.h"

/* --- a pair --- */

static struct core *unpaired(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_know_epochs(c);
	core_send(c, RC_WRITE_ONLY, 0);
	core_send(c, RC_WRITE_ONLY, 1);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	return c;
}

static void hear_of_pair(struct core *c)
{
	const struct near_flow *f = core_near(c);
	struct roce_pkt ack = core_answer(RC_ACK, 0x21, 0, AETH_ACK_NO_CREDITS, 41);
	uint8_t template[TEMPLATE_MAX];
	struct wan_flow_pair r = {.flow = near_wire_id(c->a.p, f),
	                          .inc = f->inc,
	                          .requester_qpn = 0x21,
	                          .pos_base = f->pos_base,
	                          .at_pos = f->pos_base + 1,
	                          .msn = 41,
	                          .template = template,
	                          .template_len = (uint16_t)roce_build(template, TEMPLATE_MAX, &ack, NULL, 0)};

	near_on_pair(c->a.p, &r);
}

static void pair_has_its_count(struct core *c)
{
	core_rebuild(&c->a);
	if (core_near(c)->pairing != PAIR_LEARNING)
		assert_int_equal(core_near(c)->msn_offset, 40);
}

/* A pair without its count would name wrong MSNs for the rest of the life: nobody tells a pair again. */
static void kill__a_pair_at_the_near_edge_has_its_count(void **state)
{
	at_every_store(state, unpaired, hear_of_pair, pair_has_its_count);
}

static void answer_first(struct core *c)
{
	core_in(&c->b, core_answer(RC_ACK, 0x21, 0, AETH_ACK_NO_CREDITS, 41), 0, 0);
}

static void pair_is_told(struct core *c)
{
	core_rebuild(&c->b);
	core_know_epochs(c);
	core_wait(c, 200 * CORE_MS);
	if (core_far(c)->pairing == PAIR_LEARNING) /* it asks again */
		answer_first(c);
	core_wait(c, 200 * CORE_MS);
	assert_int_not_equal(core_near(c)->pairing, PAIR_LEARNING);
}

/* A pair that lacks what the near edge is to be told of it would never be told. */
static void kill__a_pair_at_the_far_edge_is_whole(void **state)
{
	at_every_store(state, unpaired, answer_first, pair_is_told);
}

/* --- a failure --- */

static struct core *four_acked(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_know_epochs(c);
	core_send_run(c, 1, 4);
	core_expect_aeth(&c->a, 4, AETH_ACK_NO_CREDITS);
	return c;
}

static void hear_of_failure(struct core *c)
{
	near_refused(c->a.p, core_near(c), core_near(c)->pos_base + 1, AETH_NAK_REM_ACCESS);
}

static void failed_or_all_there(struct core *c)
{
	core_rebuild(&c->a);
	if (core_near(c)->state != NEAR_FAILED)
		assert_int_equal(pos_psn(core_near(c)->pos_next), 5);
}

static void kill__a_failure_is_known_before_what_was_acked_is_gone(void **state)
{
	at_every_store(state, four_acked, hear_of_failure, failed_or_all_there);
}

static void failure_is_named(struct core *c)
{
	core_rebuild(&c->a);
	if (core_near(c)->state == NEAR_FAILED)
		assert_true(core_event(&c->a, EV_FLOW_FAILED));
}

/* The event was in memory only. */
static void kill__a_failure_is_named(void **state)
{
	at_every_store(state, four_acked, hear_of_failure, failure_is_named);
}

/* The host is still to be told, but the event was fetched: the next rebuild does not raise it again. */
static void kill__a_failure_that_was_fetched_is_not_raised_again(void **state)
{
	struct core *c = four_acked(state);

	hear_of_failure(c);
	assert_true(core_event(&c->a, EV_FLOW_FAILED));
	core_wait(c, 200 * CORE_MS);
	assert_int_equal(core_near(c)->tell, TELL_TRYING);
	core_rebuild(&c->a);
	assert_int_equal(core_near(c)->tell, TELL_LATER);
	assert_false(core_event(&c->a, EV_FLOW_FAILED));
}

static void refuse(struct core *c)
{
	core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 1, AETH_NAK_REM_ACCESS, 1), 0, 0);
	proxy_tick(c->b.p, c->now_ns);
}

static void nothing_is_held(struct core *c)
{
	core_rebuild(&c->b);
	core_know_epochs(c);
	core_wait(c, 10 * CORE_MS);
	if (!far_has_failed(core_far(c)))
		refuse(c);
	core_wait(c, 1000 * CORE_MS);
	assert_int_equal(arena_used(c->b.p->arena, POOL_WAN), 0);
}

/* A far flow that has failed gives its slots back a few at a time. */
static void kill__a_failed_far_flow_leaves_no_slots(void **state)
{
	at_every_store(state, four_acked, refuse, nothing_is_held);
}

/* --- a gap --- */

static struct core *two_behind_a_gap(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_in(&c->a, core_req(RC_WRITE_ONLY, 2), CORE_PMTU, 0);
	core_in(&c->a, core_req(RC_WRITE_ONLY, 3), CORE_PMTU, 0);
	return c;
}

static void fill_the_gap(struct core *c)
{
	core_in(&c->a, core_req(RC_WRITE_ONLY, 1), CORE_PMTU, 0);
}

static void counted_right(struct core *c)
{
	const struct core_pkt *k;

	core_rebuild(&c->a);
	core_session(c);
	assert_false(core_event(&c->a, EV_ARENA_DAMAGED));
	core_forget(&c->a);
	for (uint32_t psn = pos_psn(core_near(c)->pos_next); psn < 4; psn++) /* what the edge lacks, the host sends again */
		core_in(&c->a, core_req(RC_WRITE_ONLY, psn), CORE_PMTU, 0);
	core_wait(c, CORE_MS);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 4);
	k = core_expect_aeth(&c->a, 4, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 5);
}

/* What came behind the gap was counted without it. */
static void kill__what_was_held_is_counted_anew(void **state)
{
	at_every_store(state, two_behind_a_gap, fill_the_gap, counted_right);
}

/* --- a READ --- */

/* A READ of three packets that begins before the PMTU is known. */
static struct core *read_of_unknown_length(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct roce_pkt h = core_req(RC_READ_REQUEST, 1);

	h.reth_len = 3 * CORE_PMTU;
	core_in(&c->a, h, 0, 0);
	core_pump(c);
	core_expect(&c->b, RC_READ_REQUEST, 1);
	return c;
}

static const uint8_t three[] = {RC_READ_RESP_FIRST, RC_READ_RESP_MIDDLE, RC_READ_RESP_LAST};

/* The near edge takes a response from the WAN. Its MSN is the one of a flow of single packets. */
static void hear_of_response_at(struct core *c, uint32_t psn, uint8_t opcode, const uint8_t *payload, uint16_t len)
{
	struct roce_pkt h = core_answer(opcode, CORE_QPN, psn, AETH_ACK_NO_CREDITS, psn + 1);
	uint8_t l3[LAN_PKT_MAX];
	struct wan_packet w = {.flow = near_wire_id(c->a.p, core_near(c)),
	                       .inc = core_near(c)->inc,
	                       .pos = POS_ORIGIN + psn,
	                       .kind = WP_RESPONSE,
	                       .data = l3};

	w.len = w.total = (uint16_t)roce_build(l3, sizeof(l3), &h, payload, len);
	near_on_packet(c->a.p, lane_of(c->a.p, core_near(c)->lane), &w);
}

static void hear_of_response(struct core *c, uint8_t opcode, const uint8_t *payload, uint16_t len)
{
	hear_of_response_at(c, 1, opcode, payload, len);
}

/* The first response tells the PMTU. */
static void hear_of_first(struct core *c)
{
	hear_of_response(c, RC_READ_RESP_FIRST, core_payload(0, 1), CORE_PMTU);
}

static void host_gets_three(struct core *c)
{
	core_rebuild(&c->a);
	core_session(c);
	for (uint32_t i = 0; i < 3; i++)
		core_in(&c->b, core_answer(three[i], CORE_QPN, 1 + i, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
	core_wait(c, 10 * CORE_MS);
	for (uint32_t i = 0; i < 3; i++)
		core_expect(&c->a, three[i], 1 + i);
}

/* The response is in the arena, but what it tells is not stored yet: else the host would get it as all of the READ. */
static void kill__a_first_response_tells_the_pmtu(void **state)
{
	at_every_store(state, read_of_unknown_length, hear_of_first, host_gets_three);
}

/* --- what was held, and cannot follow --- */

/* A host that was wrong for a moment: no MIDDLE may follow an ONLY. */
static struct core *middle_behind_a_gap(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_in(&c->a, core_req(RC_WRITE_MIDDLE, 2), CORE_PMTU, 0);
	return c;
}

static void responder_gets_only(struct core *c)
{
	const struct core_pkt *k;

	core_rebuild(&c->a);
	core_session(c);
	if (pos_psn(core_near(c)->pos_next) == 1)
		fill_the_gap(c);
	core_wait(c, CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	assert_int_equal(core_pending(&c->b), 0);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 2);
	k = core_expect_aeth(&c->a, 2, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 3);
}

/* The responder would refuse it, and the queue pair would fail. */
static void kill__what_cannot_follow_is_not_taken(void **state)
{
	at_every_store(state, middle_behind_a_gap, fill_the_gap, responder_gets_only);
}

/* A READ whose length in PSNs is not known owned one, as the next request shows. */
static void kill__a_request_behind_a_read_tells_its_length(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_READ_REQUEST, 1);
	core_send(c, RC_WRITE_ONLY, 2);
	assert_false(core_near(c)->psns_unknown);
	core_rebuild(&c->a);
	core_session(c);
	core_in(&c->b, core_answer(RC_READ_RESP_ONLY, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
	core_wait(c, 10 * CORE_MS);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 4);
	core_wait(c, 10 * CORE_MS);
	core_expect_aeth(&c->a, 3, AETH_NAK_PSN_SEQ);
}

/* --- an ATOMIC --- */

static struct core *atomic_sent(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_FETCH_ADD, 1);
	core_expect(&c->b, RC_FETCH_ADD, 1);
	core_send(c, RC_WRITE_ONLY, 2);
	core_expect(&c->b, RC_WRITE_ONLY, 2);
	return c;
}

static void hear_of_result(struct core *c)
{
	hear_of_response(c, RC_ATOMIC_ACK, NULL, 0);
	proxy_tick(c->a.p, c->now_ns);
	core_collect(&c->a);
}

/* The host asks until it has its result, and never is the responder asked again. */
static void result_is_given(struct core *c)
{
	const struct core_pkt *k;

	core_rebuild(&c->a);
	core_session(c);
	core_in(&c->b, core_answer(RC_ATOMIC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2), 0, 0);
	core_ack(c, 2, AETH_ACK_NO_CREDITS, 3);
	core_wait(c, 10 * CORE_MS);
	core_forget(&c->a);
	core_send(c, RC_FETCH_ADD, 1);
	core_wait(c, 10 * CORE_MS);
	k = core_expect(&c->a, RC_ATOMIC_ACK, 1);
	assert_int_equal(k->h.aeth_msn, 2);
	core_forget(&c->a);
	assert_int_equal(core_pending(&c->b), 0);
	core_send(c, RC_WRITE_ONLY, 3);
	core_wait(c, CORE_MS);
	k = core_expect_aeth(&c->a, 3, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 4);
}

static void kill__a_result_is_given_and_kept(void **state)
{
	at_every_store(state, atomic_sent, hear_of_result, result_is_given);
}

static struct core *atomic_long_ago(void **state)
{
	struct core *c = atomic_sent(state);

	core_in(&c->b, core_answer(RC_ATOMIC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2), 0, 0);
	core_ack(c, 2, AETH_ACK_NO_CREDITS, 3);
	core_wait(c, CORE_MS);
	assert_int_equal(core_near(c)->ops_done, 1);
	core_forget(&c->a);
	c->now_ns += 11000 * CORE_MS;
	return c;
}

static void forget_result(struct core *c)
{
	c->a.p->now_ns = c->now_ns;
	near_ops_retire(c->a.p, core_near(c), false);
}

static void result_or_doubt(struct core *c)
{
	core_rebuild(&c->a);
	core_session(c);
	core_long_life(c);
	core_send(c, RC_FETCH_ADD, 1);
	core_wait(c, 10 * CORE_MS);
	if (core_pending(&c->b))
		core_expect(&c->b, RC_FETCH_ADD, 1); /* the responder has the result, and executes nothing */
	else
		core_expect(&c->a, RC_ATOMIC_ACK, 1);
}

/* An ATOMIC that counts as answered, and whose result is gone, would never be answered again. */
static void kill__a_result_goes_with_its_request(void **state)
{
	at_every_store(state, atomic_long_ago, forget_result, result_or_doubt);
}

/* The result is given in a call that has no work left for freeing what is settled. */
static struct core *atomic_not_freed(void **state)
{
	struct core *c = atomic_sent(state);
	struct lan_tx tx;

	core_in(&c->b, core_answer(RC_ATOMIC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2), 0, 0);
	core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 2, AETH_ACK_NO_CREDITS, 3), 0, 0);
	while (core_carry(c, &c->b, &c->a))
		proxy_tick(c->b.p, c->now_ns);
	c->a.p->work_left = 0;
	assert_int_not_equal(near_resp_tx(c->a.p, core_near(c), &tx), 0);
	assert_int_equal(core_near(c)->ops_done, 1);
	assert_true(core_near(c)->pos_freed <= POS_ORIGIN + 1);
	core_forget(&c->a);
	c->now_ns += 11000 * CORE_MS;
	return c;
}

static void forget_and_free(struct core *c)
{
	c->a.p->work_left = 100;
	forget_result(c);
	near_work(c->a.p, core_near(c));
	forget_result(c);
}

static void kill__a_result_goes_with_its_request_that_is_not_freed(void **state)
{
	at_every_store(state, atomic_not_freed, forget_and_free, result_or_doubt);
}

/* --- the last response of a READ --- */

static struct core *read_answered(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	struct roce_pkt h = core_req(RC_READ_REQUEST, 2);

	h.reth_len = 3 * CORE_PMTU;
	core_in(&c->a, h, 0, 0);
	core_send(c, RC_WRITE_ONLY, 5);
	core_forget(&c->b);
	for (uint32_t i = 0; i < 3; i++)
		core_in(&c->b, core_answer(three[i], CORE_QPN, 2 + i, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
	while (core_carry(c, &c->b, &c->a))
		proxy_tick(c->b.p, c->now_ns);
	return c;
}

static void give_three(struct core *c)
{
	core_collect(&c->a);
}

static void host_asks(struct core *c)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, 2);

	h.reth_len = 3 * CORE_PMTU;
	core_forget(&c->a);
	core_in(&c->a, h, 0, 0);
	core_wait(c, CORE_MS);
}

/* A host whose response must be read again gets an RNR NAK first. */
static void host_asks_for_three(struct core *c)
{
	const struct core_pkt *k;

	core_rebuild(&c->a);
	core_session(c);
	core_wait(c, 10 * CORE_MS);
	host_asks(c);
	while ((k = core_take(&c->b))) {
		if (k->h.opcode != RC_READ_REQUEST)
			continue;
		for (uint32_t i = 0; i < 3; i++)
			core_in(&c->b, core_answer(three[i], CORE_QPN, 2 + i, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
	}
	core_wait(c, 10 * CORE_MS);
	if (core_pending(&c->a) > 3)
		assert_int_equal(core_expect(&c->a, RC_ACK, 2)->h.aeth_syndrome & ~31, AETH_RNR_NAK);
	for (uint32_t i = 0; i < 3; i++)
		core_expect(&c->a, three[i], 2 + i);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 6);
	core_wait(c, 10 * CORE_MS);
	k = core_expect_aeth(&c->a, 6, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 4);
}

static void kill__the_last_response_is_given(void **state)
{
	at_every_store(state, read_answered, give_three, host_asks_for_three);
}

/* --- a READ, and what is held behind it --- */

static struct core *read_of_unknown_length_and_more(void **state)
{
	struct core *c = read_of_unknown_length(state);

	core_in(&c->a, core_req(RC_WRITE_ONLY, 4), CORE_PMTU, 0);
	core_in(&c->a, core_req(RC_FETCH_ADD, 5), 0, 0);
	core_in(&c->a, core_req(RC_WRITE_ONLY, 6), CORE_PMTU, 0);
	core_wait(c, CORE_MS);
	core_forget(&c->a);
	return c;
}

static void host_gets_all(struct core *c)
{
	const struct core_pkt *k;

	host_gets_three(c);
	core_forget(&c->a);
	for (uint32_t psn = pos_psn(core_near(c)->pos_next); psn < 7; psn++)
		core_send(c, psn == 5 ? RC_FETCH_ADD : RC_WRITE_ONLY, psn);
	core_expect(&c->b, RC_WRITE_ONLY, 4);
	core_expect(&c->b, RC_FETCH_ADD, 5);
	core_expect(&c->b, RC_WRITE_ONLY, 6);
	core_in(&c->b, core_answer(RC_ATOMIC_ACK, CORE_QPN, 5, AETH_ACK_NO_CREDITS, 4), 0, 0);
	core_ack(c, 6, AETH_ACK_NO_CREDITS, 5);
	core_wait(c, 10 * CORE_MS);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 7);
	core_wait(c, 10 * CORE_MS);
	k = core_expect_aeth(&c->a, 7, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 6);
}

static void kill__what_is_held_behind_a_read_is_counted(void **state)
{
	at_every_store(state, read_of_unknown_length_and_more, hear_of_first, host_gets_all);
}

enum { KEPT = 128, HELD = 200 }; /* more than a flow may have records */

/* A READ of PSN `psn` and `len` bytes. */
static void ask_for(struct core *c, uint32_t psn, uint32_t len)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, psn);

	h.reth_va += (uint64_t)psn * len;
	h.reth_len = len;
	core_in(&c->a, h, 0, 0);
}

/* Many READs were answered and are kept; many more are held behind one of unknown length. */
static struct core *many_reads(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	for (uint32_t psn = 1; psn <= KEPT; psn += KEPT / 2) { /* there is no room for the answers to all */
		for (uint32_t i = 0; i < KEPT / 2; i++)
			ask_for(c, psn + i, 256);
		core_pump(c);
		for (uint32_t i = 0; i < KEPT / 2; i++)
			core_in(&c->b, core_answer(RC_READ_RESP_ONLY, CORE_QPN, psn + i, AETH_ACK_NO_CREDITS, psn + i + 1),
			        256, 0);
		core_pump(c);
	}
	core_forget(&c->a);
	core_forget(&c->b);
	assert_int_equal(core_near(c)->ops_done, KEPT);
	ask_for(c, KEPT + 1, 3 * CORE_PMTU);
	for (uint32_t psn = KEPT + 4; psn < KEPT + 4 + HELD; psn++)
		ask_for(c, psn, 256);
	assert_int_equal(core_near(c)->ooo_pkts, HELD);
	return c;
}

static void hear_of_first_of_many(struct core *c)
{
	hear_of_response_at(c, KEPT + 1, RC_READ_RESP_FIRST, core_payload(0, KEPT + 1), CORE_PMTU);
}

/* A READ without a record is given up, as in a live edge. If it stayed, its repetition would get a second slot at the
 * same position. */
static void kill__what_finds_no_record_leaves_no_slot(void **state)
{
	for (uint32_t n = 1; n <= 12; n++) {
		struct core *c = many_reads(state);
		const struct near_flow *f;

		kill_at(c, n, hear_of_first_of_many);
		core_rebuild(&c->a);
		core_session(c);
		f = core_near(c);
		assert_int_equal(arena_find(c->a.p->arena, SLOT_REQ_NEAR, f->idx, f->pos_next), SLOT_NONE);
		core_done(state);
		*state = NULL;
	}
}

/* A READ of three fills the gap in front of what is held, and owns the PSN of one packet that is held by error. */
static struct core *gap_of_a_read(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_in(&c->a, core_req(RC_WRITE_ONLY, 3), CORE_PMTU, 0);
	core_in(&c->a, core_req(RC_WRITE_ONLY, 5), CORE_PMTU, 0);
	return c;
}

static void fill_with_read(struct core *c)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, 2);

	h.reth_len = 3 * CORE_PMTU;
	core_in(&c->a, h, 0, 0);
}

static void read_is_answered(struct core *c)
{
	const struct core_pkt *k;

	core_rebuild(&c->a);
	core_session(c);
	if (pos_psn(core_near(c)->pos_next) == 2)
		fill_with_read(c);
	if (pos_psn(core_near(c)->pos_next) == 5)
		core_in(&c->a, core_req(RC_WRITE_ONLY, 5), CORE_PMTU, 0);
	core_wait(c, CORE_MS);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	core_expect(&c->b, RC_WRITE_ONLY, 5);
	assert_int_equal(core_pending(&c->b), 0);
	for (uint32_t i = 0; i < 3; i++)
		core_in(&c->b, core_answer(three[i], CORE_QPN, 2 + i, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
	core_wait(c, 10 * CORE_MS);
	for (uint32_t i = 0; i < 3; i++)
		core_expect(&c->a, three[i], 2 + i);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 6);
	core_wait(c, 10 * CORE_MS);
	k = core_expect_aeth(&c->a, 6, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 4);
}

static void kill__a_read_owns_its_psns(void **state)
{
	at_every_store(state, gap_of_a_read, fill_with_read, read_is_answered);
}

/* --- a report --- */

/* The responder has everything before PSN `psn`. */
static void hear_of_delivery_before(struct core *c, uint32_t psn)
{
	struct wan_flow_report r = {.flow = near_wire_id(c->a.p, core_near(c)),
	                            .inc = core_near(c)->inc,
	                            .received = POS_ORIGIN + psn,
	                            .delivered = POS_ORIGIN + psn,
	                            .credit = POS_ORIGIN + 100};

	near_on_report(c->a.p, lane_of(c->a.p, core_near(c)->lane), &r);
	core_collect(&c->a);
}

static void hear_of_delivery(struct core *c)
{
	hear_of_delivery_before(c, 5);
}

static void nothing_acked_is_gone(struct core *c)
{
	const struct core_pkt *k;

	core_rebuild(&c->a);
	assert_int_equal(pos_psn(core_near(c)->pos_next), 5);
	core_know_epochs(c);
	core_ack(c, 4, AETH_ACK_NO_CREDITS, 5);
	core_wait(c, 10 * CORE_MS);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 5);
	core_ack(c, 5, AETH_ACK_NO_CREDITS, 6);
	core_wait(c, 10 * CORE_MS);
	k = core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 6);
}

static void kill__a_report_settles_what_is_stored(void **state)
{
	at_every_store(state, four_acked, hear_of_delivery, nothing_acked_is_gone);
}

static struct core *four_sent_in(void **state, enum ack_mode mode)
{
	struct core *c = core_given_pair(state, mode);

	core_know_epochs(c);
	core_send_run(c, 1, 4);
	return c;
}

static struct core *four_sent_far(void **state)
{
	return four_sent_in(state, ACK_MODE_FAR);
}

static struct core *four_sent_host(void **state)
{
	return four_sent_in(state, ACK_MODE_HOST);
}

static void kill__a_report_settles_in_mode_far(void **state)
{
	at_every_store(state, four_sent_far, hear_of_delivery, nothing_acked_is_gone);
}

static void kill__a_report_settles_in_mode_host(void **state)
{
	at_every_store(state, four_sent_host, hear_of_delivery, nothing_acked_is_gone);
}

/* --- what may follow when all before is settled --- */

static struct core *first_and_last(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_know_epochs(c);
	core_send(c, RC_WRITE_FIRST, 1);
	core_send(c, RC_WRITE_LAST, 2);
	return c;
}

static void hear_of_last(struct core *c)
{
	hear_of_delivery_before(c, 3);
}

/* `wrong` is not taken, `right` is. */
static void takes_what_follows(struct core *c, uint32_t psn, uint8_t wrong, uint8_t right)
{
	core_rebuild(&c->a);
	core_know_epochs(c);
	core_ack(c, psn - 1, AETH_ACK_NO_CREDITS, psn);
	core_wait(c, 10 * CORE_MS);
	core_forget(&c->a);
	core_forget(&c->b);
	assert_int_not_equal(core_in(&c->a, core_req(wrong, psn), 0, 0), DROP_NONE);
	core_wait(c, CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(core_send(c, right, psn), DROP_NONE);
	core_expect(&c->b, right, psn);
}

/* Linux rxe repeats the rest of a message at the PSN of the next one, as a request of no bytes. */
static void takes_no_rest(struct core *c)
{
	takes_what_follows(c, 3, RC_WRITE_LAST, RC_WRITE_ONLY);
}

static void kill__behind_a_message_another_one_begins(void **state)
{
	at_every_store(state, first_and_last, hear_of_last, takes_no_rest);
}

static struct core *first_only(void **state, uint8_t first)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_know_epochs(c);
	core_send(c, first, 1);
	return c;
}

static struct core *first_of_write(void **state)
{
	return first_only(state, RC_WRITE_FIRST);
}

static struct core *first_of_send(void **state)
{
	return first_only(state, RC_SEND_FIRST);
}

static void hear_of_first_request(struct core *c)
{
	hear_of_delivery_before(c, 2);
}

static void takes_rest_of_write(struct core *c)
{
	takes_what_follows(c, 2, RC_SEND_LAST, RC_WRITE_LAST);
}

static void takes_rest_of_send(struct core *c)
{
	takes_what_follows(c, 2, RC_SEND_ONLY, RC_SEND_LAST);
}

static void kill__a_write_goes_on(void **state)
{
	at_every_store(state, first_of_write, hear_of_first_request, takes_rest_of_write);
}

static void kill__a_send_goes_on(void **state)
{
	at_every_store(state, first_of_send, hear_of_first_request, takes_rest_of_send);
}

/* --- the base moves down --- */

static struct core *overtaken(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_in(&c->a, core_req(RC_WRITE_ONLY, 5), CORE_PMTU, 0);
	core_in(&c->a, core_req(RC_WRITE_ONLY, 6), CORE_PMTU, 0);
	return c;
}

static void first_comes_late(struct core *c)
{
	core_in(&c->a, core_req(RC_WRITE_ONLY, 4), CORE_PMTU, 0);
}

static void begins_at_the_lowest(struct core *c)
{
	const struct core_pkt *k;

	core_rebuild(&c->a);
	for (uint32_t psn = 4; psn < 7; psn++)
		core_in(&c->a, core_req(RC_WRITE_ONLY, psn), CORE_PMTU, 0);
	core_session(c);
	core_wait(c, 10 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 4);
	core_ack(c, 4, AETH_ACK_NO_CREDITS, 1);
	core_expect(&c->b, RC_WRITE_ONLY, 5);
	core_expect(&c->b, RC_WRITE_ONLY, 6);
	core_ack(c, 6, AETH_ACK_NO_CREDITS, 3);
	core_wait(c, 10 * CORE_MS);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 7);
	k = core_expect_aeth(&c->a, 7, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 4);
}

static void kill__a_base_that_moved_down_is_stored(void **state)
{
	at_every_store(state, overtaken, first_comes_late, begins_at_the_lowest);
}

/* --- another incarnation --- */

static struct core *reset_suspected(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_deliver(c, 1, 4);
	c->salt = 1;
	core_send(c, RC_WRITE_ONLY, 3);
	core_wait(c, 4 * CORE_MS);
	core_forget(&c->a);
	return c;
}

static void reset_is_certain(struct core *c)
{
	core_in(&c->a, core_req(RC_WRITE_ONLY, 3), CORE_PMTU, 0);
}

static void new_life_goes_on(struct core *c)
{
	const struct core_pkt *k;

	core_rebuild(&c->a);
	core_session(c);
	for (uint32_t i = 0; i < 4; i++) {
		core_wait(c, 4 * CORE_MS);
		core_send(c, RC_WRITE_ONLY, 3);
	}
	core_forget(&c->a);
	core_expect(&c->b, RC_WRITE_ONLY, 3);
	core_ack(c, 3, AETH_ACK_NO_CREDITS, 1);
	core_wait(c, 10 * CORE_MS);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 4);
	k = core_expect_aeth(&c->a, 4, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 2);
}

static void kill__a_new_life_replaces_the_old_one(void **state)
{
	at_every_store(state, reset_suspected, reset_is_certain, new_life_goes_on);
}

/* The first PSN again, with the same bytes: a repetition, or a new incarnation. */
static struct core *delivered(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_deliver(c, 1, 4);
	c->now_ns += 5000 * CORE_MS;
	core_wait(c, CORE_MS);
	core_forget(&c->a);
	return c;
}

static void repeat_third(struct core *c)
{
	core_in(&c->a, core_req(RC_WRITE_ONLY, 3), CORE_PMTU, 0);
}

static void doubt_is_resolved(struct core *c)
{
	const struct core_pkt *k;

	core_rebuild(&c->a);
	core_session(c);
	core_wait(c, 4 * CORE_MS);
	core_send(c, RC_WRITE_ONLY, 3);
	core_wait(c, 4 * CORE_MS);
	if (core_pending(&c->b)) {
		core_expect(&c->b, RC_WRITE_ONLY, 3);
		core_forget(&c->a);
		core_ack(c, 4, AETH_ACK_NO_CREDITS, 5);
		core_wait(c, 4 * CORE_MS);
		core_send(c, RC_WRITE_ONLY, 3);
		core_send(c, RC_WRITE_ONLY, 4);
		core_wait(c, 4 * CORE_MS);
		core_ack(c, 4, AETH_ACK_NO_CREDITS, 5);
	}
	core_wait(c, 10 * CORE_MS);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 5);
	core_ack(c, 5, AETH_ACK_NO_CREDITS, 6);
	k = core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 6);
}

static void kill__a_doubt_is_stored_whole(void **state)
{
	at_every_store(state, delivered, repeat_third, doubt_is_resolved);
}

/* Four requests are ACKed early and not delivered; the host has reset its queue pair since. */
static struct core *acked_and_reset(void **state)
{
	struct core *c = four_acked(state);

	c->now_ns += 300 * CORE_MS;
	c->salt = 1;
	core_send(c, RC_WRITE_ONLY, 0);
	core_wait(c, 4 * CORE_MS);
	core_know_epochs(c);
	return c;
}

static void first_again(struct core *c)
{
	core_in(&c->a, core_req(RC_WRITE_ONLY, 0), CORE_PMTU, 0);
}

static void old_life_is_delivered_first(struct core *c)
{
	const struct core_pkt *k;

	core_rebuild(&c->a);
	core_know_epochs(c);
	core_forget(&c->b);
	for (int i = 0; i < 4; i++) {
		core_send(c, RC_WRITE_ONLY, 0);
		core_wait(c, 4 * CORE_MS);
	}
	while ((k = core_take(&c->b)))
		assert_int_not_equal(k->h.psn, 0);
	core_ack(c, 4, AETH_ACK_NO_CREDITS, 5);
	for (int i = 0; i < 4; i++) {
		core_wait(c, 4 * CORE_MS);
		core_send(c, RC_WRITE_ONLY, 0);
	}
	core_expect(&c->b, RC_WRITE_ONLY, 0);
}

static void kill__an_old_life_is_delivered_first(void **state)
{
	at_every_store(state, acked_and_reset, first_again, old_life_is_delivered_first);
}

static struct core *old_life_drains(void **state)
{
	struct core *c = acked_and_reset(state);

	first_again(c);
	assert_non_null(core_near(c)->older);
	return c;
}

static void hear_of_old_delivery(struct core *c)
{
	struct near_flow *old = core_near(c)->older;
	struct wan_flow_report r = {.flow = near_wire_id(c->a.p, old),
	                            .inc = old->inc,
	                            .received = POS_ORIGIN + 5,
	                            .delivered = POS_ORIGIN + 5,
	                            .credit = POS_ORIGIN + 100};

	near_on_report(c->a.p, lane_of(c->a.p, old->lane), &r);
}

static void new_life_crosses(struct core *c)
{
	core_rebuild(&c->a);
	core_forget(&c->b);
	core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 4, AETH_ACK_NO_CREDITS, 5), 0, 0);
	core_know_epochs(c);
	for (int i = 0; i < 4; i++) {
		core_wait(c, 4 * CORE_MS);
		core_send(c, RC_WRITE_ONLY, 0);
	}
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_null(core_near(c)->older);
}

/* The older incarnation is closed: its place is empty, or it is still there and drains. */
static void kill__an_old_life_ends_when_delivered(void **state)
{
	at_every_store(state, old_life_drains, hear_of_old_delivery, new_life_crosses);
}

/* In mode host nothing of the older incarnation was ACKed: it is closed as soon as the next one begins. */
static struct core *sent_and_reset(void **state)
{
	struct core *c = four_sent_host(state);

	c->now_ns += 300 * CORE_MS;
	c->salt = 1;
	core_send(c, RC_WRITE_ONLY, 3);
	core_wait(c, 4 * CORE_MS);
	core_know_epochs(c);
	return c;
}

static bool nothing_comes_back(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)dgram;
	(void)len;
	return from == &c->a;
}

static uint32_t far_flows(const struct core *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < CORE_FLOWS; i++)
		n += c->b.p->far[i].state != FAR_FREE && c->b.p->far[i].dest_qpn == CORE_QPN;
	return n;
}

static void old_life_is_over_at_the_far_edge(struct core *c)
{
	core_rebuild(&c->a);
	c->wan = nothing_comes_back;
	core_know_epochs(c);
	for (int i = 0; i < 4; i++) {
		core_wait(c, 4 * CORE_MS);
		core_send(c, RC_WRITE_ONLY, 3);
	}
	if (far_by_peer(c->b.p, near_wire_id(c->a.p, core_near(c)))) /* else the new incarnation still waits */
		assert_int_equal(far_flows(c), 1);
}

/* Else the far edge would send what the old incarnation left to the new one's queue pair. */
static void kill__the_far_edge_forgets_the_old_life_first(void **state)
{
	at_every_store(state, sent_and_reset, reset_is_certain, old_life_is_over_at_the_far_edge);
}

/* The near edge has requests in front of this PSN from that one on, all of one incarnation. */
static bool holds(const struct core *c, uint32_t first, uint32_t next)
{
	for (uint32_t i = 0; i < CORE_FLOWS; i++) {
		const struct near_flow *f = &c->a.p->near[i];

		if (near_in_use(f) && pos_psn(f->pos_settled) == first && pos_psn(f->pos_next) == next && near_held(f))
			return true;
	}
	return false;
}

/* The responder is silent, the line is not. */
static void drain_limit_passes(struct core *c)
{
	c->now_ns += 1000 * CORE_MS;
	c->a.p->last_rx_ns = c->now_ns;
	proxy_tick(c->a.p, c->now_ns);
}

/* The event was fetched: the next rebuild does not raise it again, and no place of the table is lost. */
static void is_named_once(struct core *c)
{
	uint32_t places = 0;

	core_wait(c, 200 * CORE_MS);
	core_rebuild(&c->a);
	assert_false(core_event(&c->a, EV_FLOW_FAILED));
	for (const struct dnode *n = c->a.p->near_free.next; n != &c->a.p->near_free; n = n->next)
		places++;
	assert_int_equal(places + c->a.p->near_used, CORE_FLOWS);
}

static void old_life_is_there_or_named(struct core *c)
{
	core_rebuild(&c->a);
	if (holds(c, 1, 5))
		return;
	assert_true(core_event(&c->a, EV_FLOW_FAILED));
	is_named_once(c);
}

static void kill__an_old_life_fails_by_name(void **state)
{
	at_every_store(state, old_life_drains, drain_limit_passes, old_life_is_there_or_named);
}

static struct core *old_life_drains_in_a_full_table(void **state)
{
	struct core *c = old_life_drains(state);

	for (uint32_t i = 0; !dlist_empty(&c->a.p->near_free); i++) {
		assert_true(i < CORE_FLOWS);
		near_cm_open(c->a.p, &(struct near_cm_info){.src = core_ip(1, 3),
		                                            .dst = core_ip(2, 2),
		                                            .dest_qpn = 0x100 + i,
		                                            .requester_qpn = 0x200 + i,
		                                            .tag = 100 + i,
		                                            .pmtu = CORE_PMTU,
		                                            .rnr_retry = 7});
	}
	return c;
}

static void place_is_given(struct core *c)
{
	drain_limit_passes(c);
	steps_kill_never();
	assert_false(dlist_empty(&c->a.p->near_free));
}

/* Until its place is free, the old incarnation is there or its failure is known. */
static void old_life_is_there_or_named_or_free(struct core *c)
{
	core_rebuild(&c->a);
	if (holds(c, 1, 5) || !dlist_empty(&c->a.p->near_free))
		return;
	assert_true(core_event(&c->a, EV_FLOW_FAILED));
	is_named_once(c);
}

static void kill__an_old_life_fails_by_name_in_a_full_table(void **state)
{
	at_every_store(state, old_life_drains_in_a_full_table, place_is_given, old_life_is_there_or_named_or_free);
}

/* A packet of the new incarnation is damaged in the buffer. */
static struct core *old_life_drains_beside_damage(void **state)
{
	struct core *c = old_life_drains(state);
	const struct near_flow *f = core_near(c);
	uint32_t slot = arena_find(c->a.p->arena, SLOT_REQ_NEAR, f->idx, f->pos_settled);

	assert_int_not_equal(slot, SLOT_NONE);
	arena_hdr(c->a.p->arena, slot)->crc ^= 1;
	return c;
}

/* What is left of the old incarnation is no damage: its failure was counted. */
static void old_life_failed_once(struct core *c)
{
	uint32_t failures = 0, ended = 0;
	struct proxy_event ev;

	core_rebuild(&c->a);
	assert_int_equal(core_ctr(&c->a, CTR_ARENA_DAMAGED), 1);
	for (uint32_t i = 0; i < CORE_FLOWS; i++)
		ended += c->a.p->near[i].state == NEAR_ENDED;
	while (proxy_event_next(c->a.p, &ev))
		failures += ev.type == EV_FLOW_FAILED;
	if (ended)
		assert_int_equal(failures, 1);
}

static void kill__what_is_left_of_an_old_life_is_no_damage(void **state)
{
	at_every_store(state, old_life_drains_beside_damage, drain_limit_passes, old_life_failed_once);
}

static void cm_connects(struct core *c, uint32_t tag)
{
	struct near_cm_info ci = {.src = core_ip(1, 2),
	                          .dst = core_ip(2, 2),
	                          .dest_qpn = CORE_QPN,
	                          .requester_qpn = 0x20 + tag,
	                          .start_psn = 100 * tag,
	                          .tag = tag,
	                          .pmtu = CORE_PMTU,
	                          .rnr_retry = 7};

	near_cm_open(c->a.p, &ci);
}

/* Two incarnations with requests that were ACKed early. */
static struct core *two_lives_owed(void **state)
{
	struct core *c = four_acked(state);

	cm_connects(c, 2);
	core_send_run(c, 200, 4);
	assert_non_null(core_near(c)->older);
	assert_int_equal(pos_psn(core_near(c)->pos_acked), 204);
	core_forget(&c->a);
	return c;
}

static void third_life_begins(struct core *c)
{
	cm_connects(c, 3);
}

static void both_are_there_or_named(struct core *c)
{
	core_rebuild(&c->a);
	assert_true(holds(c, 1, 5));
	if (holds(c, 200, 204))
		return;
	assert_true(core_event(&c->a, EV_FLOW_FAILED));
	is_named_once(c);
}

static void kill__a_second_life_fails_by_name(void **state)
{
	at_every_store(state, two_lives_owed, third_life_begins, both_are_there_or_named);
}

/* The responder refuses what an older incarnation is owed. */
static void hear_of_old_refusal(struct core *c)
{
	struct near_flow *old = core_near(c)->older;
	struct wan_flow_report r = {.flow = near_wire_id(c->a.p, old),
	                            .inc = old->inc,
	                            .received = POS_ORIGIN + 5,
	                            .delivered = POS_ORIGIN + 1,
	                            .credit = POS_ORIGIN + 100,
	                            .state = WFS_FAILED,
	                            .nak_pos = POS_ORIGIN + 1,
	                            .syndrome = AETH_NAK_REM_ACCESS};

	near_on_report(c->a.p, lane_of(c->a.p, old->lane), &r);
}

static void kill__a_refusal_of_an_old_life_is_named(void **state)
{
	at_every_store(state, old_life_drains, hear_of_old_refusal, old_life_is_there_or_named);
}

/* --- a base that the responder tells --- */

static struct core *begun_too_high(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 5);
	core_send(c, RC_WRITE_ONLY, 6);
	return c;
}

/* The responder waits for PSN 4. */
static void hear_of_lower_base(struct core *c)
{
	const struct near_flow *f = core_near(c);
	struct roce_pkt ack = core_answer(RC_ACK, CORE_QPN, 3, AETH_ACK_NO_CREDITS, 41);
	uint8_t template[TEMPLATE_MAX];
	struct wan_flow_pair r = {.flow = near_wire_id(c->a.p, f),
	                          .inc = f->inc,
	                          .requester_qpn = CORE_QPN,
	                          .pos_base = POS_ORIGIN + 4,
	                          .at_pos = POS_ORIGIN + 4,
	                          .msn = 41,
	                          .template = template,
	                          .template_len = (uint16_t)roce_build(template, TEMPLATE_MAX, &ack, NULL, 0)};

	if (f->pairing == PAIR_LEARNING)
		near_on_pair(c->a.p, &r);
	core_in(&c->a, core_req(RC_WRITE_ONLY, 4), CORE_PMTU, 0);
	core_collect(&c->a);
}

static void counted_from_lower_base(struct core *c)
{
	const struct core_pkt *k;

	core_rebuild(&c->a);
	if (core_near(c)->pairing == PAIR_LEARNING)
		return; /* its QP may have been reset while the edge was down: near__nak_of_the_next_life_after_a_restart */
	hear_of_lower_base(c);
	core_forget(&c->a);
	for (uint32_t psn = 4; psn < 7; psn++)
		core_in(&c->a, core_req(RC_WRITE_ONLY, psn), CORE_PMTU, 0);
	core_in(&c->a, core_req(RC_WRITE_ONLY, 7), CORE_PMTU, 0);
	core_collect(&c->a);
	while ((k = core_take(&c->a)) && k->h.psn != 7)
		;
	assert_non_null(k);
	assert_int_equal(k->h.aeth_syndrome, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 45);
}

static void kill__a_lower_base_has_its_count(void **state)
{
	at_every_store(state, begun_too_high, hear_of_lower_base, counted_from_lower_base);
}

/* --- connection management --- */

static struct core *cm_replied(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct core_cm req = {.type = 0x10, .local_id = 5, .qpn = 0x21, .psn = 50, .rnr_retry = 7};
	struct core_cm rep = {
	    .type = 0x13, .local_id = 6, .remote_id = 5, .qpn = CORE_QPN, .psn = 200, .rnr_retry = 7};

	core_deliver(c, 1, 4);
	core_cm_in(&c->a, &req);
	core_pump(c);
	core_cm_in(&c->b, &rep);
	while (core_carry(c, &c->b, &c->a))
		proxy_tick(c->b.p, c->now_ns);
	return c;
}

static void cm_is_ready(struct core *c)
{
	core_collect(&c->a);
	core_cm_in(&c->a, &(struct core_cm){.type = 0x14, .local_id = 5, .remote_id = 6});
}

static void connection_begins(struct core *c)
{
	const struct core_pkt *k;

	core_rebuild(&c->a);
	core_know_epochs(c);
	core_cm_in(&c->a, &(struct core_cm){.type = 0x14, .local_id = 5, .remote_id = 6});
	core_wait(c, CORE_MS);
	core_forget(&c->a);
	core_forget(&c->b);
	c->salt = 1;
	for (int i = 0; i < 4; i++) {
		core_send(c, RC_WRITE_ONLY, 200);
		core_wait(c, 4 * CORE_MS);
	}
	core_expect(&c->b, RC_WRITE_ONLY, 200);
	core_in(&c->b, core_answer(RC_ACK, 0x21, 200, AETH_ACK_NO_CREDITS, 1), 0, 0);
	core_wait(c, 4 * CORE_MS);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 201);
	k = core_expect_aeth(&c->a, 201, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 2);
	assert_int_equal(k->h.dest_qpn, 0x21);
}

static void kill__a_new_connection_begins(void **state)
{
	at_every_store(state, cm_replied, cm_is_ready, connection_begins);
}

/* A READ of three packets at PSN 2, or the rest of it from `psn` on. */
static void read_from(struct core *c, uint32_t psn)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, psn);

	h.reth_va = 0x9000 + (psn - 2) * CORE_PMTU;
	h.reth_len = (5 - psn) * CORE_PMTU;
	core_in(&c->a, h, 0, 0);
}

/* Behind a READ whose length is not known a READ is held. */
static struct core *rest_behind_a_gap(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_READ_REQUEST, 1);
	read_from(c, 3);
	assert_int_equal(core_near(c)->ooo_pkts, 1);
	return c;
}

static void fill_with_whole(struct core *c)
{
	read_from(c, 2);
}

static void host_gets_whole(struct core *c)
{
	core_rebuild(&c->a);
	core_session(c);
	if (pos_psn(core_near(c)->pos_next) == 2)
		read_from(c, 2);
	core_wait(c, CORE_MS);
	core_forget(&c->a);
	core_in(&c->b, core_answer(RC_READ_RESP_ONLY, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
	core_wait(c, 10 * CORE_MS);
	core_expect(&c->a, RC_READ_RESP_ONLY, 1);
	core_forget(&c->a);
	for (uint32_t i = 0; i < 3; i++)
		core_in(&c->b, core_answer(three[i], CORE_QPN, 2 + i, AETH_ACK_NO_CREDITS, 3), CORE_PMTU, 0);
	core_wait(c, 10 * CORE_MS);
	for (uint32_t i = 0; i < 3; i++)
		core_expect(&c->a, three[i], 2 + i);
}

/* It asks for the rest of the READ that fills the gap, whose first response would be given as all of it. */
static void kill__the_rest_of_a_read_is_no_other_read(void **state)
{
	at_every_store(state, rest_behind_a_gap, fill_with_whole, host_gets_whole);
}

/* --- a refusal behind a READ --- */

static struct core *refused_behind_read(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	struct roce_pkt h = core_req(RC_READ_REQUEST, 2);

	h.reth_len = 3 * CORE_PMTU;
	core_in(&c->a, h, 0, 0);
	core_send(c, RC_WRITE_ONLY, 5);
	core_send(c, RC_WRITE_ONLY, 6);
	for (uint32_t i = 0; i < 3; i++)
		core_in(&c->b, core_answer(three[i], CORE_QPN, 2 + i, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
	core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 5, AETH_NAK_REM_ACCESS, 2), 0, 0);
	core_forget(&c->a);
	while (core_carry(c, &c->b, &c->a))
		proxy_tick(c->b.p, c->now_ns);
	return c;
}

static void host_gets_nak(struct core *c)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, 2);
	const struct core_pkt *k;
	bool nak = false;

	core_rebuild(&c->a);
	core_know_epochs(c);
	core_wait(c, 10 * CORE_MS);
	h.reth_len = 3 * CORE_PMTU;
	core_in(&c->a, h, 0, 0);
	core_wait(c, 100 * CORE_MS);
	for (uint32_t psn = 5; psn < 7; psn++)
		core_send(c, RC_WRITE_ONLY, psn);
	core_wait(c, 10 * CORE_MS);
	while ((k = core_take(&c->a))) {
		if (k->h.opcode != RC_ACK)
			continue;
		assert_true(k->h.aeth_syndrome != AETH_ACK_NO_CREDITS || k->h.psn < 5);
		nak |= k->h.aeth_syndrome == AETH_NAK_REM_ACCESS;
	}
	assert_true(nak);
}

static void kill__a_refusal_behind_a_read_is_told(void **state)
{
	at_every_store(state, refused_behind_read, give_three, host_gets_nak);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(kill__a_pair_at_the_near_edge_has_its_count),
	    CORE_TEST(kill__a_pair_at_the_far_edge_is_whole),
	    CORE_TEST(kill__a_failure_is_known_before_what_was_acked_is_gone),
	    CORE_TEST(kill__a_failure_is_named),
	    CORE_TEST(kill__a_failure_that_was_fetched_is_not_raised_again),
	    CORE_TEST(kill__a_failed_far_flow_leaves_no_slots),
	    CORE_TEST(kill__what_was_held_is_counted_anew),
	    CORE_TEST(kill__a_first_response_tells_the_pmtu),
	    CORE_TEST(kill__what_cannot_follow_is_not_taken),
	    CORE_TEST(kill__a_request_behind_a_read_tells_its_length),
	    CORE_TEST(kill__a_result_is_given_and_kept),
	    CORE_TEST(kill__a_result_goes_with_its_request),
	    CORE_TEST(kill__a_result_goes_with_its_request_that_is_not_freed),
	    CORE_TEST(kill__the_last_response_is_given),
	    CORE_TEST(kill__what_is_held_behind_a_read_is_counted),
	    CORE_TEST(kill__what_finds_no_record_leaves_no_slot),
	    CORE_TEST(kill__a_read_owns_its_psns),
	    CORE_TEST(kill__a_report_settles_what_is_stored),
	    CORE_TEST(kill__a_report_settles_in_mode_far),
	    CORE_TEST(kill__a_report_settles_in_mode_host),
	    CORE_TEST(kill__behind_a_message_another_one_begins),
	    CORE_TEST(kill__a_write_goes_on),
	    CORE_TEST(kill__a_send_goes_on),
	    CORE_TEST(kill__a_base_that_moved_down_is_stored),
	    CORE_TEST(kill__a_new_life_replaces_the_old_one),
	    CORE_TEST(kill__a_doubt_is_stored_whole),
	    CORE_TEST(kill__an_old_life_is_delivered_first),
	    CORE_TEST(kill__an_old_life_ends_when_delivered),
	    CORE_TEST(kill__the_far_edge_forgets_the_old_life_first),
	    CORE_TEST(kill__an_old_life_fails_by_name),
	    CORE_TEST(kill__what_is_left_of_an_old_life_is_no_damage),
	    CORE_TEST(kill__an_old_life_fails_by_name_in_a_full_table),
	    CORE_TEST(kill__a_second_life_fails_by_name),
	    CORE_TEST(kill__a_refusal_of_an_old_life_is_named),
	    CORE_TEST(kill__a_lower_base_has_its_count),
	    CORE_TEST(kill__a_new_connection_begins),
	    CORE_TEST(kill__the_rest_of_a_read_is_no_other_read),
	    CORE_TEST(kill__a_refusal_behind_a_read_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
