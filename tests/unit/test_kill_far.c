/* SPDX-License-Identifier: Apache-2.0 */
/* test_kill_far.c - kill -9 of the far edge in the middle of a call: the flow goes on as if nothing had been. */
#include "kill_fixture.h"

#include "proxy/far/far_priv.h"
#include "proxy/near/near_priv.h"

static const uint8_t three[] = {RC_READ_RESP_FIRST, RC_READ_RESP_MIDDLE, RC_READ_RESP_LAST};

static void respond(struct core *c, uint32_t i)
{
	core_in(&c->b, core_answer(three[i], CORE_QPN, 1 + i, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
}

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

static void first_comes(struct core *c)
{
	respond(c, 0);
}

/* The responder answers the READ that it is sent again. */
static void host_gets_three(struct core *c)
{
	core_rebuild(&c->b);
	core_know_epochs(c);
	core_wait(c, 200 * CORE_MS);
	for (uint32_t i = 0; i < 3; i++)
		respond(c, i);
	core_wait(c, 200 * CORE_MS);
	for (uint32_t i = 0; i < 3; i++)
		core_expect(&c->a, three[i], 1 + i);
}

static void kill__a_far_edge_knows_the_length_of_a_read(void **state)
{
	at_every_store(state, read_of_unknown_length, first_comes, host_gets_three);
}

static struct core *two_of_three(void **state)
{
	struct core *c = read_of_unknown_length(state);

	respond(c, 0);
	respond(c, 1);
	return c;
}

static void last_comes(struct core *c)
{
	respond(c, 2);
}

static void read_ends(struct core *c)
{
	core_rebuild(&c->b);
	core_know_epochs(c);
	core_wait(c, 200 * CORE_MS);
	for (uint32_t i = 0; i < 3; i++)
		respond(c, i);
	core_wait(c, 1000 * CORE_MS);
	for (uint32_t i = 0; i < 3; i++)
		core_expect(&c->a, three[i], 1 + i);
	assert_int_equal(arena_used(c->b.p->arena, POOL_WAN), 0);
	assert_int_equal(arena_used(c->b.p->arena, POOL_LAN), 0);
}

static void kill__a_far_edge_ends_a_read(void **state)
{
	at_every_store(state, two_of_three, last_comes, read_ends);
}

static struct core *four_sent(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_know_epochs(c);
	core_send_run(c, 1, 4);
	return c;
}

static void ack_of_four(struct core *c)
{
	core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 4, AETH_ACK_NO_CREDITS, 5), 0, 0);
}

static void all_settled(struct core *c)
{
	core_rebuild(&c->b);
	core_know_epochs(c);
	core_wait(c, 200 * CORE_MS);
	ack_of_four(c);
	core_wait(c, 1000 * CORE_MS);
	assert_int_equal(arena_used(c->b.p->arena, POOL_WAN), 0);
	assert_false(far_has_failed(core_far(c)));
}

static void kill__an_ack_leaves_no_slots(void **state)
{
	at_every_store(state, four_sent, ack_of_four, all_settled);
}

/* --- a refusal --- */

static struct core *result_on_its_way(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	core_know_epochs(c);
	core_send(c, RC_FETCH_ADD, 1);
	core_send(c, RC_WRITE_ONLY, 2);
	core_forget(&c->a);
	core_in(&c->b, core_answer(RC_ATOMIC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2), 0, 0);
	return c;
}

static void refuse_second(struct core *c)
{
	core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 2, AETH_NAK_REM_ACCESS, 2), 0, 0);
}

/* The responder answers again what it is asked again. */
static void result_and_nak(struct core *c)
{
	core_rebuild(&c->b);
	core_know_epochs(c);
	core_wait(c, CORE_MS);
	if (!far_has_failed(core_far(c))) {
		core_in(&c->b, core_answer(RC_ATOMIC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2), 0, 0);
		refuse_second(c);
	}
	core_wait(c, 10 * CORE_MS);
	core_expect(&c->a, RC_ATOMIC_ACK, 1);
	core_expect_aeth(&c->a, 2, AETH_NAK_REM_ACCESS);
}

/* The result of what was executed in front of a refusal is given, and the NAK names what was refused. */
static void kill__a_refusal_keeps_its_place(void **state)
{
	at_every_store(state, result_on_its_way, refuse_second, result_and_nak);
}

static struct core *four_sent_in_host_mode(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	core_know_epochs(c);
	core_send_run(c, 1, 4);
	core_forget(&c->a);
	return c;
}

static void refuse_third(struct core *c)
{
	core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 3, AETH_NAK_REM_ACCESS, 3), 0, 0);
}

static void third_is_refused(struct core *c)
{
	const struct core_pkt *k, *last = NULL;

	core_rebuild(&c->b);
	core_know_epochs(c);
	core_wait(c, CORE_MS);
	if (!far_has_failed(core_far(c)))
		refuse_third(c);
	core_wait(c, 10 * CORE_MS);
	while ((k = core_take(&c->a)))
		last = k;
	assert_non_null(last);
	assert_int_equal(last->h.psn, 3);
	assert_int_equal(last->h.aeth_syndrome, AETH_NAK_REM_ACCESS);
	assert_false(core_event(&c->a, EV_FLOW_FAILED)); /* nothing that was ACKed is lost */
}

static void kill__a_refusal_in_host_mode_keeps_its_place(void **state)
{
	at_every_store(state, four_sent_in_host_mode, refuse_third, third_is_refused);
}

/* --- what is before a response --- */

static struct core *atomic_behind_three(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_know_epochs(c);
	core_send_run(c, 1, 3);
	core_send(c, RC_FETCH_ADD, 4);
	return c;
}

static void result_comes(struct core *c)
{
	core_in(&c->b, core_answer(RC_ATOMIC_ACK, CORE_QPN, 4, AETH_ACK_NO_CREDITS, 5), 0, 0);
}

static void what_is_before_is_settled(struct core *c)
{
	const struct far_flow *f;

	core_rebuild(&c->b);
	f = core_far(c);
	if (arena_find(c->b.p->arena, SLOT_RESP_FAR, f->idx, f->pos_base + 4) != SLOT_NONE)
		assert_true(f->pos_acked >= f->pos_base + 4);
	assert_true(f->pos_acked == f->pos_base + 1 || f->pos_acked >= f->pos_base + 4);
}

/* The near edge frees what is before a response that it has. */
static void kill__what_is_before_a_response_is_settled(void **state)
{
	at_every_store(state, atomic_behind_three, result_comes, what_is_before_is_settled);
}

/* --- a count --- */

static struct core *count_is_late(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct roce_pkt h = core_req(RC_READ_REQUEST, 10);

	core_know_epochs(c);
	h.reth_len = 1;
	core_in(&c->a, h, 0, 0);
	core_pump(c);
	core_send(c, RC_WRITE_ONLY, 11);
	core_send(c, RC_WRITE_ONLY, 12);
	core_in(&c->b, core_answer(RC_READ_RESP_ONLY, CORE_QPN, 10, AETH_ACK_NO_CREDITS, 23), 1, 0);
	core_pump(c);
	assert_true(core_near(c)->msn == MSN_LATE);
	core_forget(&c->a);
	core_forget(&c->b);
	return c;
}

static void ack_of_twelve(struct core *c)
{
	core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 12, AETH_ACK_NO_CREDITS, 23), 0, 0);
}

static void host_is_acked(struct core *c)
{
	core_rebuild(&c->b);
	core_know_epochs(c);
	core_wait(c, 200 * CORE_MS);
	if (pos_psn(core_far(c)->pos_acked) < 13)
		ack_of_twelve(c);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_expect_aeth(&c->a, 12, AETH_ACK_NO_CREDITS)->h.aeth_msn, 23);
}

/* A responder that has nothing more to acknowledge does not tell its count again. */
static void kill__an_exact_count_is_kept(void **state)
{
	at_every_store(state, count_is_late, ack_of_twelve, host_is_acked);
}

/* --- a doubt --- */

static struct core *in_doubt(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_know_epochs(c);
	core_deliver(c, 1, 4);
	c->now_ns += 5000 * CORE_MS;
	core_wait(c, CORE_MS);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 3);
	core_wait(c, 4 * CORE_MS);
	core_send(c, RC_WRITE_ONLY, 3);
	core_wait(c, 4 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 3);
	assert_true(core_near(c)->doubted);
	return c;
}

static void answer_ahead(struct core *c)
{
	core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 4, AETH_ACK_NO_CREDITS, 5), 0, 0);
}

/* The responder ACKs its last PSN to each packet that it had. */
static void doubt_ends(struct core *c)
{
	const struct core_pkt *k;

	core_rebuild(&c->b);
	core_know_epochs(c);
	for (unsigned i = 0; i < 40 && core_far(c)->pairing == PAIR_LEARNING; i++) {
		core_wait(c, 10 * CORE_MS);
		answer_ahead(c);
	}
	core_wait(c, 10 * CORE_MS);
	assert_int_not_equal(core_far(c)->pairing, PAIR_LEARNING);
	assert_int_not_equal(core_near(c)->pairing, PAIR_LEARNING);
	core_send(c, RC_WRITE_ONLY, 3);
	core_send(c, RC_WRITE_ONLY, 4);
	core_wait(c, 4 * CORE_MS);
	answer_ahead(c);
	core_wait(c, 10 * CORE_MS);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 5);
	core_ack(c, 5, AETH_ACK_NO_CREDITS, 6);
	k = core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 6);
}

static void kill__a_far_edge_remembers_a_doubt(void **state)
{
	at_every_store(state, in_doubt, answer_ahead, doubt_ends);
}

/* --- another connection --- */

static struct core *delivered_of_a_connection(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_know_epochs(c);
	core_connect(c, 1, 900, 7);
	core_send_run(c, 1, 2);
	core_in(&c->b, core_answer(RC_ACK, 0x21, 2, AETH_ACK_NO_CREDITS, 2), 0, 0);
	core_wait(c, 10 * CORE_MS);
	core_forget(&c->a);
	core_forget(&c->b);
	return c;
}

/* The REP of another connection goes by, while these requests are on the line. */
static void cm_opens_another(struct core *c)
{
	const struct far_flow *f = core_far(c);
	const struct near_cm_info ci = {.src = f->src, .dst = f->dst, .dest_qpn = f->dest_qpn, .tag = 1};

	far_cm_open(c->b.p, &ci);
}

/* A REP that was forwarded is known after a restart. One that was not is sent again. */
static void kill__another_connection_is_remembered(void **state)
{
	struct core *c = delivered_of_a_connection(state);

	cm_opens_another(c);
	assert_false(far_has_failed(core_far(c)));
	core_rebuild(&c->b);
	cm_opens_another(c); /* which of them does not matter any more */
	core_rebuild(&c->b);
	core_know_epochs(c);
	for (uint32_t psn = 3; psn < 5; psn++)
		core_in(&c->a, core_req(RC_WRITE_ONLY, psn), CORE_PMTU, 0);
	core_wait(c, 100 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	assert_true(far_has_failed(core_far(c)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(kill__a_far_edge_knows_the_length_of_a_read),
	    CORE_TEST(kill__a_far_edge_ends_a_read),
	    CORE_TEST(kill__an_ack_leaves_no_slots),
	    CORE_TEST(kill__a_refusal_keeps_its_place),
	    CORE_TEST(kill__a_refusal_in_host_mode_keeps_its_place),
	    CORE_TEST(kill__what_is_before_a_response_is_settled),
	    CORE_TEST(kill__an_exact_count_is_kept),
	    CORE_TEST(kill__a_far_edge_remembers_a_doubt),
	    CORE_TEST(kill__another_connection_is_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
