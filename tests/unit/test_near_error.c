/* SPDX-License-Identifier: Apache-2.0 */
/* ACKed requests fail while their requester has no request outstanding that the edge could refuse. */
#include "core_fixture.h"

#include "proxy/near/near_priv.h"

#define WAIT (150 * CORE_MS) /* longer than the edge waits for a request that it can refuse */

/* PSN 1 is ACKed early, and its responder refuses it. */
static struct core *given_refused_late(void **state, uint8_t syndrome)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	core_ack(c, 1, syndrome, 1);
	assert_true(core_near(c)->state == NEAR_FAILED);
	assert_int_equal(core_pending(&c->a), 0);
	return c;
}

/* Host A's responder half answers the edge's request. */
static void answer(struct core *c, uint32_t psn, uint8_t syndrome)
{
	struct roce_pkt h = core_req(RC_ACK, psn);

	h.aeth_syndrome = syndrome;
	h.ack_req = false;
	assert_int_equal(core_in(&c->a, h, 0, 0), DROP_NONE);
	core_pump(c);
}

/* Host A must get one or more MIDDLEs without payload. Returns the PSN of the last one. */
static uint32_t expect_impossible(struct core *c, uint8_t *opcode)
{
	uint32_t psn = 0;

	assert_int_not_equal(core_pending(&c->a), 0);
	for (const struct core_pkt *k; (k = core_take(&c->a));) {
		assert_true(k->h.opcode == RC_SEND_MIDDLE || k->h.opcode == RC_WRITE_MIDDLE);
		assert_int_equal(k->h.payload_len, 0);
		assert_int_equal(k->h.dest_qpn, CORE_QPN);
		assert_true(k->h.ack_req);
		assert_int_equal(k->h.udp_sport, 0xc777); /* the responder's UDP source port */
		*opcode = k->h.opcode;
		psn = k->h.psn;
	}
	return psn;
}

static void near_error__idle_requester_is_made_to_fail(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);
	uint8_t op[3];

	core_wait(c, WAIT);
	expect_impossible(c, &op[0]);
	answer(c, 0x123456, AETH_NAK_PSN_SEQ); /* names the PSN that host A expects */
	assert_int_equal(expect_impossible(c, &op[1]), 0x123456);
	assert_int_not_equal(op[0], op[1]);
	answer(c, 0x123456, AETH_ACK_NO_CREDITS); /* host A was within a message of that kind */
	assert_int_equal(expect_impossible(c, &op[2]), 0x123457);
	assert_int_not_equal(op[1], op[2]);
	answer(c, 0x123457, AETH_NAK_INV_REQ);
	assert_true(core_event(&c->a, EV_REQUESTER_QP_FAILED));
	core_wait(c, 5000 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_pending(&c->b), 0); /* the responder got no packet of that */
	assert_int_equal(c->a.p->telling, 0);
}

/* A host that never got a request may ACK PSN -1, as it takes the edge's request for a repetition. */
static void near_error__an_ack_that_says_nothing_is_passed(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);
	uint32_t first;
	uint8_t op;

	core_wait(c, WAIT);
	expect_impossible(c, &op);
	answer(c, 0xffffff, AETH_ACK_NO_CREDITS);
	first = expect_impossible(c, &op);
	assert_int_equal(first, 0);
	answer(c, 0xffffff, AETH_ACK_NO_CREDITS);
	assert_int_equal(expect_impossible(c, &op), 0x400000);
	answer(c, 0xffffff, AETH_ACK_NO_CREDITS);
	assert_int_equal(expect_impossible(c, &op), 0x800000);
	answer(c, 77, AETH_NAK_PSN_SEQ);
	assert_int_equal(expect_impossible(c, &op), 77);
}

/* If the host sends a request before the edge asks, the edge refuses that request, which is enough. The request may
 * have been lost on the LAN and come after the host's timeout. */
static void near_error__a_request_is_refused_instead(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);

	core_wait(c, 75 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	core_send(c, RC_WRITE_ONLY, 2);
	core_expect_aeth(&c->a, 2, AETH_NAK_REM_ACCESS);
	core_wait(c, 5000 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
}

/* The ACKs to the requester were lost: it repeats ACKed requests, which the responder does not answer. The requester
 * is not idle until it stops. */
static void near_error__not_while_it_repeats(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);
	uint8_t op;

	core_near(c)->nak_syndrome = 0;
	for (int i = 0; i < 5; i++) {
		core_wait(c, 67 * CORE_MS);
		assert_int_equal(core_send(c, RC_WRITE_ONLY, 1), DROP_LAN_FAILED);
	}
	assert_int_equal(core_pending(&c->a), 0);
	core_wait(c, WAIT);
	expect_impossible(c, &op);
}

/* No failed request was ACKed: the refusal answers an outstanding request. */
static void near_error__not_where_the_refusal_is_in_time(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	core_send(c, RC_WRITE_ONLY, 1);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	core_expect_aeth(&c->a, 1, AETH_NAK_REM_ACCESS);
	core_wait(c, 5000 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
}

/* A responder that is gone sends no NAK, and its requester must learn of the failure, too. */
static void near_error__silence_of_the_responder_is_told(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint8_t op;

	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	core_wait(c, 70000 * CORE_MS);
	assert_true(core_near(c)->state == NEAR_FAILED);
	expect_impossible(c, &op);
}

/* Requests that the responder's host sent to host A before the failure arrive first, and the PSN after them is
 * known. */
static void near_error__what_was_sent_to_it_goes_first(void **state)
{
	struct roce_pkt h = core_req(RC_SEND_ONLY, 500);
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint8_t op;

	h.src = core_ip(2, 2);
	h.dst = core_ip(1, 2);
	for (int i = 0; i < 2; i++, h.psn++) {
		core_in(&c->b, h, CORE_PMTU, 0);
		core_pump(c);
		core_expect(&c->a, RC_SEND_ONLY, 500 + (uint32_t)i);
		if (i == 0)
			answer(c, 500, AETH_ACK_NO_CREDITS);
	}
	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	assert_true(core_near(c)->state == NEAR_FAILED);
	/* PSN 501 is repeated until host A takes it, here for longer than StallAfter=, which may end the wait */
	for (int i = 0; i < 90; i++) {
		core_wait(c, 10 * CORE_MS);
		for (const struct core_pkt *k; (k = core_take(&c->a));)
			assert_int_equal(k->h.opcode, RC_SEND_ONLY);
	}
	answer(c, 501, AETH_ACK_NO_CREDITS);
	core_wait(c, WAIT);
	assert_int_equal(expect_impossible(c, &op), 502);
}

/* The edge restarts before it has told the requester, and remembers the failure and the responder's syndrome. */
static void near_error__outlives_a_restart(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);
	uint8_t op;

	core_rebuild(&c->a);
	core_session(c);
	core_wait(c, WAIT);
	expect_impossible(c, &op);
	answer(c, 9, AETH_NAK_INV_REQ);
	core_rebuild(&c->a);
	core_session(c);
	core_wait(c, 1500 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0); /* the requester is told once */
	core_send(c, RC_WRITE_ONLY, 2);
	core_expect_aeth(&c->a, 2, AETH_NAK_REM_ACCESS);
}

/* After minutes without an edge the QPN may be that of another queue pair, which no edge has seen yet. */
static void near_error__not_after_a_long_outage(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);

	c->now_ns += 60000 * CORE_MS;
	core_rebuild(&c->a);
	assert_true(core_event(&c->a, EV_REQUESTER_UNREACHABLE));
	core_session(c);
	core_wait(c, 5000 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(c->a.p->telling, 0);
	core_rebuild(&c->a);
	assert_false(core_event(&c->a, EV_REQUESTER_UNREACHABLE)); /* the event was reported before */
}

/* The time since the failure counts, whatever was stored since: restarts do not add up. */
static void near_error__not_after_some_restarts(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);

	for (int i = 0; i < 2; i++) {
		c->now_ns += 3000 * CORE_MS;
		core_rebuild(&c->a);
		near_take_mode(c->a.p, core_near(c), ACK_MODE_HOST);
	}
	assert_true(core_event(&c->a, EV_REQUESTER_UNREACHABLE));
}

/* The machine has rebooted, and its monotonic clock starts anew. */
static void near_error__not_after_another_boot(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);

	c->now_ns = CORE_START / 2;
	core_rebuild(&c->a);
	assert_true(core_event(&c->a, EV_REQUESTER_UNREACHABLE));
	core_session(c);
	core_wait(c, 5000 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
}

/* The time of the failure counts, not the time when the host was last heard: a silent responder is given up after a
 * minute. */
static void near_error__silence_is_told_after_a_restart(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint8_t op;

	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	for (int i = 0; i < 700 && core_near(c)->state != NEAR_FAILED; i++)
		core_wait(c, 100 * CORE_MS);
	assert_true(core_near(c)->state == NEAR_FAILED);
	core_forget(&c->a);
	core_rebuild(&c->a);
	core_session(c);
	core_wait(c, WAIT);
	expect_impossible(c, &op);
}

/* The edge stops to ask a host that does not answer, as its queue pair is gone. */
static void near_error__ends_with_a_word(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);
	uint32_t first = 0;
	bool behind = false;
	int n = 0;

	core_wait(c, 20000 * CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->a)); n++) {
		first = n ? first : k->h.psn;
		behind |= k->h.psn == (first ^ PSN_HALF);
	}
	assert_in_range(n, 5, 20);
	assert_true(behind); /* a host that has sent its NAK answers only the PSN that it expects */
	assert_true(core_event(&c->a, EV_REQUESTER_UNREACHABLE));
	assert_int_equal(c->a.p->telling, 0);
}

/* Another flow between the two hosts begins, whose requester's QPN is unknown yet: it may be that of the failed
 * flow. */
static void begin_younger(struct core *c, uint32_t qpn)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);

	h.dest_qpn = qpn;
	core_in(&c->a, h, CORE_PMTU, 0);
	core_pump(c);
}

/* No responder answers this flow, and its requester repeats for so long. */
static void younger_asks_again(struct core *c, uint32_t qpn, uint32_t seconds)
{
	for (uint32_t s = 0; s < seconds; s++) {
		begin_younger(c, qpn);
		core_wait(c, 1000 * CORE_MS);
		core_forget(&c->b);
	}
}

/* The flow's responder answers the next probe, to that QPN. */
static void answer_younger(struct core *c, uint32_t qpn, uint32_t requester_qpn)
{
	core_forget(&c->b);
	core_forget(&c->a);
	for (int i = 0; i < 100 && !core_pending(&c->b); i++) {
		begin_younger(c, qpn);
		core_wait(c, 100 * CORE_MS);
	}
	assert_int_not_equal(core_pending(&c->b), 0);
	core_in(&c->b, core_answer(RC_ACK, requester_qpn, 0, AETH_ACK_NO_CREDITS, 1), 0, 0);
	core_pump(c);
	core_expect_aeth(&c->a, 0, AETH_ACK_NO_CREDITS);
}

static void near_error__waits_for_a_flow_without_a_pair(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);
	uint8_t op;

	for (int i = 0; i < 5; i++) {
		begin_younger(c, 0x99);
		core_wait(c, WAIT);
	}
	assert_int_equal(core_pending(&c->a), 0);
	answer_younger(c, 0x99, 0x77); /* the younger flow's requester has another QPN */
	core_wait(c, WAIT);
	expect_impossible(c, &op);
}

/* However late that answer comes, the failed flow's requester is told then ... */
static void near_error__waits_for_a_late_pair(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);
	uint8_t op;

	younger_asks_again(c, 0x99, 20);
	assert_int_equal(core_pending(&c->a), 0);
	assert_false(core_event(&c->a, EV_REQUESTER_UNREACHABLE));
	answer_younger(c, 0x99, 0x77);
	core_wait(c, 1000 * CORE_MS + WAIT);
	expect_impossible(c, &op);
}

/* ... unless the younger flow's requester has the same QPN. */
static void near_error__late_pair_has_the_number(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);

	younger_asks_again(c, 0x99, 20);
	answer_younger(c, 0x99, CORE_QPN);
	core_wait(c, 100000 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
}

/* The younger flow is never answered: the failure does not wait for it once it is given up. */
static void near_error__a_flow_that_was_given_up_is_not_waited_for(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);
	uint8_t op;

	younger_asks_again(c, 0x99, (uint32_t)(c->b.cfg.give_up_ns / (1000 * CORE_MS)) - 1);
	assert_int_equal(core_pending(&c->a), 0);
	younger_asks_again(c, 0x99, 10);
	expect_impossible(c, &op);
}

/* Younger flows come without end: the operator is told in the end. */
static void near_error__younger_flows_without_end(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);

	for (uint32_t i = 0; i < 31; i++) {
		assert_false(core_event(&c->a, EV_REQUESTER_UNREACHABLE));
		younger_asks_again(c, 0x99 + i, 4);
	}
	younger_asks_again(c, 0x99 + 31, 4);
	assert_true(core_event(&c->a, EV_REQUESTER_UNREACHABLE));
	assert_int_equal(core_pending(&c->a), 0);
}

/* The QPN has gone to another connection of the two hosts, which must not get the error. */
static void near_error__never_to_another_queue_pair(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);

	near_cm_open(c->a.p, &(struct near_cm_info){.src = core_ip(1, 2),
	                                            .dst = core_ip(2, 2),
	                                            .dest_qpn = 0x99,
	                                            .requester_qpn = CORE_QPN,
	                                            .pmtu = CORE_PMTU,
	                                            .pkey = 0xffff,
	                                            .rnr_retry = 7});
	core_wait(c, 5000 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
}

/* A host of the other site sends a request to host A's queue pair with that QPN, which answers or does not. */
static void third_host_asks(struct core *c, bool answered)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 900);

	h.src = core_ip(2, 3);
	h.dst = core_ip(1, 2);
	core_in(&c->b, h, CORE_PMTU, 0);
	core_pump(c);
	core_expect(&c->a, RC_WRITE_ONLY, 900);
	h = core_answer(RC_ACK, 0x55, 900, AETH_ACK_NO_CREDITS, 1);
	h.src = core_ip(1, 2);
	h.dst = core_ip(2, 3);
	if (answered)
		assert_int_equal(core_in(&c->a, h, 0, 0), DROP_NONE);
	core_pump(c);
}

/* The QPN has gone to a queue pair that another host sends requests to, and that sends no requests itself. */
static void near_error__never_to_a_responder_of_another_host(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);

	younger_asks_again(c, 0x99, 10);
	third_host_asks(c, true);
	answer_younger(c, 0x99, 0x77);
	core_wait(c, 5000 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	assert_true(core_event(&c->a, EV_REQUESTER_UNREACHABLE));
	assert_int_equal(c->a.p->telling, 0);
}

/* A request to that QPN proves nothing: any host may send one. */
static void near_error__a_request_of_another_host_is_no_answer(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);
	bool told = false;

	younger_asks_again(c, 0x99, 10);
	answer_younger(c, 0x99, 0x77);
	third_host_asks(c, false);
	core_wait(c, 1500 * CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->a));)
		told |= k->h.opcode == RC_SEND_MIDDLE || k->h.opcode == RC_WRITE_MIDDLE;
	assert_true(told);
}

/* Host A writes PSN 0 to a third host, whose answer goes to the QPN of the requester that failed. */
static void third_host_is_asked(struct core *c)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);

	h.dst = core_ip(2, 3);
	h.dest_qpn = 0x40;
	core_in(&c->a, h, CORE_PMTU, 0);
	core_pump(c);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	h = core_answer(RC_ACK, CORE_QPN, 0, AETH_ACK_NO_CREDITS, 1);
	h.src = core_ip(2, 3);
	core_in(&c->b, h, 0, 0);
	core_pump(c);
	core_expect_aeth(&c->a, 0, AETH_ACK_NO_CREDITS);
}

static void near_error__never_to_a_requester_of_another_host(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);

	third_host_is_asked(c);
	core_wait(c, 5000 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	assert_true(core_event(&c->a, EV_REQUESTER_UNREACHABLE));
}

/* Younger flows came after the edge had asked the host once. The QPN may be another queue pair's by now. */
static void near_error__is_not_resumed_after_a_long_wait(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);
	uint8_t op;

	core_wait(c, WAIT);
	expect_impossible(c, &op);
	younger_asks_again(c, 0x99, 10);
	answer_younger(c, 0x99, 0x77);
	core_wait(c, 5000 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	assert_true(core_event(&c->a, EV_REQUESTER_UNREACHABLE));
	assert_int_equal(c->a.p->telling, 0);
}

/* The same if the edge has stood still, and takes the host's answers of that time first. */
static void near_error__is_not_resumed_after_a_standstill(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);
	uint8_t op;

	core_wait(c, WAIT);
	expect_impossible(c, &op);
	c->now_ns += 10000 * CORE_MS;
	answer(c, 0x123456, AETH_NAK_PSN_SEQ);
	core_wait(c, 5000 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	assert_true(core_event(&c->a, EV_REQUESTER_UNREACHABLE));
}

/* The edge examines an error that waits for long only seldom. */
static void near_error__looks_less_and_less_often(void **state)
{
	struct core *c = given_refused_late(state, AETH_NAK_REM_ACCESS);
	uint32_t looks = 0;
	uint64_t when;

	younger_asks_again(c, 0x99, 20);
	when = core_near(c)->fail_timer.when_ns;
	for (int i = 0; i < 800; i++) {
		if (i % 200 == 0)
			begin_younger(c, 0x99);
		core_wait(c, 5 * CORE_MS);
		core_forget(&c->b);
		looks += core_near(c)->fail_timer.when_ns != when;
		when = core_near(c)->fail_timer.when_ns;
	}
	assert_in_range(looks, 3, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(near_error__idle_requester_is_made_to_fail),
	    CORE_TEST(near_error__an_ack_that_says_nothing_is_passed),
	    CORE_TEST(near_error__a_request_is_refused_instead),
	    CORE_TEST(near_error__not_while_it_repeats),
	    CORE_TEST(near_error__not_where_the_refusal_is_in_time),
	    CORE_TEST(near_error__silence_of_the_responder_is_told),
	    CORE_TEST(near_error__what_was_sent_to_it_goes_first),
	    CORE_TEST(near_error__outlives_a_restart),
	    CORE_TEST(near_error__not_after_a_long_outage),
	    CORE_TEST(near_error__not_after_some_restarts),
	    CORE_TEST(near_error__not_after_another_boot),
	    CORE_TEST(near_error__silence_is_told_after_a_restart),
	    CORE_TEST(near_error__waits_for_a_flow_without_a_pair),
	    CORE_TEST(near_error__waits_for_a_late_pair),
	    CORE_TEST(near_error__late_pair_has_the_number),
	    CORE_TEST(near_error__a_flow_that_was_given_up_is_not_waited_for),
	    CORE_TEST(near_error__younger_flows_without_end),
	    CORE_TEST(near_error__ends_with_a_word),
	    CORE_TEST(near_error__never_to_another_queue_pair),
	    CORE_TEST(near_error__never_to_a_responder_of_another_host),
	    CORE_TEST(near_error__a_request_of_another_host_is_no_answer),
	    CORE_TEST(near_error__never_to_a_requester_of_another_host),
	    CORE_TEST(near_error__is_not_resumed_after_a_long_wait),
	    CORE_TEST(near_error__is_not_resumed_after_a_standstill),
	    CORE_TEST(near_error__looks_less_and_less_often),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
