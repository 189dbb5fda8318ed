/* SPDX-License-Identifier: Apache-2.0 */
/* Is it a new life of the QP, or a host that is confused for a moment? */
#include "core_fixture.h"

#include "proxy/near/near_priv.h"

/* One packet of a message of three, whose bytes are those of place `psn` of the life `salt`. */
static enum proxy_drop part(struct core *c, uint32_t psn, uint32_t of_message)
{
	static const uint8_t opcode[] = {RC_WRITE_FIRST, RC_WRITE_MIDDLE, RC_WRITE_LAST};
	struct roce_pkt h = core_req(opcode[of_message], psn);

	h.reth_len = 3 * CORE_PMTU;
	return core_in(&c->a, h, CORE_PMTU, 0);
}

/* Messages of three packets: PSNs 1..3, 4..6, ... */
static void messages(struct core *c, uint32_t first, uint32_t n)
{
	for (uint32_t psn = first; psn < first + 3 * n; psn++)
		assert_int_equal(part(c, psn, (psn - 1) % 3), DROP_NONE);
	core_pump(c);
}

static struct core *given_two_messages(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_long_life(c);
	messages(c, 1, 2);
	core_expect_aeth(&c->a, 6, AETH_ACK_NO_CREDITS);
	core_forget(&c->b);
	core_wait(c, 20 * CORE_MS);
	core_forget(&c->b);
	return c;
}

/* What rxe does: a WRITE of no bytes at the PSN of the second message, and that one and the next numbered one too high,
 * the last of which falls on what is expected. */
static void confused_window(struct core *c)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 4);

	h.reth_len = 0;
	assert_int_equal(core_in(&c->a, h, 0, 0), DROP_LAN_RESET_SUSPECTED);
	c->salt = 7; /* what is shifted is not what was there */
	for (uint32_t psn = 5; psn <= 7; psn++)
		assert_int_equal(part(c, psn, psn - 5), DROP_LAN_RESET_SUSPECTED);
	c->salt = 0;
	core_pump(c);
}

static void near_reset__confused_window_counts_for_nothing(void **state)
{
	struct near_flow *f;
	struct core *c = given_two_messages(state);

	f = core_near(c);
	confused_window(c);
	assert_int_equal(core_pending(&c->a), 0); /* and nothing of it is answered */
	assert_int_equal(core_drops(&c->a, DROP_LAN_RESET_SUSPECTED), 4);
	core_wait(c, 100 * CORE_MS);
	for (uint32_t psn = 4; psn <= 6; psn++) /* right again */
		assert_int_equal(part(c, psn, psn - 4), DROP_LAN_DUPLICATE);
	core_pump(c);
	core_expect_aeth(&c->a, 6, AETH_ACK_NO_CREDITS);
	messages(c, 7, 1);
	core_forget(&c->b);
	assert_ptr_equal(core_near(c), f);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 0);
}

/* What rxe does if an ACK reaches it in the middle of that: it stays one too high, and comes to what is expected with
 * the last packet of a message that is over. No responder takes that; without an answer it would repeat for ever. */
static void near_reset__host_that_lost_count_is_refused(void **state)
{
	struct core *c = given_two_messages(state);

	core_ack(c, 6, AETH_ACK_NO_CREDITS, 2);
	for (int round = 0; round < 2; round++) {
		core_wait(c, 70 * CORE_MS);
		assert_int_equal(part(c, 7, 2), DROP_LAN_SEQUENCE);
		part(c, 8, 0);                                      /* held behind the gap */
		assert_int_equal(part(c, 7, 2), DROP_LAN_SEQUENCE); /* a copy made on the LAN is no round */
		core_pump(c);
		assert_false(core_near(c)->state == NEAR_FAILED);
		core_forget(&c->a);
	}
	core_wait(c, 70 * CORE_MS);
	assert_int_equal(part(c, 7, 2), DROP_LAN_SEQUENCE);
	core_pump(c);
	core_expect_aeth(&c->a, 7, AETH_NAK_INV_REQ);
	assert_true(core_near(c)->state == NEAR_FAILED);
	assert_int_equal(core_pending(&c->b), 0); /* and its responder sees nothing of it */
}

static void same_words(struct core *c, uint32_t from)
{
	for (uint32_t psn = from; psn < 6; psn++)
		core_in(&c->a, core_req(RC_FETCH_ADD, psn), 0, 0);
	core_wait(c, 2 * CORE_MS);
}

/* Each request of the program is like the one before it, so that none is known one position lower only. */
static void near_reset__same_words_are_no_lost_count(void **state)
{
	struct core *c = core_given(state, ACK_MODE_HOST);

	same_words(c, 1); /* the first one was lost */
	core_wait(c, 10 * CORE_MS);
	same_words(c, 0);
	core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 0, AETH_NAK_PSN_SEQ, 0), 0, 0);
	core_wait(c, 2 * CORE_MS);
	core_forget(&c->b);
	for (uint32_t i = 0; i < 4; i++)
		same_words(c, 0);
	assert_false(core_near(c)->state == NEAR_FAILED);
	core_expect(&c->b, RC_FETCH_ADD, 0);
}

/* Nothing is refused before all in front of it is done: that NAK acknowledges it. */
static void near_reset__host_that_lost_count_hears_of_the_rest_first(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	messages(c, 1, 1);
	for (int round = 0; round < 5; round++) {
		core_wait(c, 70 * CORE_MS);
		assert_int_equal(part(c, 4, 2), DROP_LAN_SEQUENCE);
	}
	core_pump(c);
	assert_false(near_is_refused(core_near(c)));
	core_ack(c, 3, AETH_ACK_NO_CREDITS, 1);
	core_forget(&c->a);
	core_wait(c, 70 * CORE_MS);
	assert_int_equal(part(c, 4, 2), DROP_LAN_SEQUENCE);
	core_pump(c);
	core_expect_aeth(&c->a, 4, AETH_NAK_INV_REQ);
}

/* The host took an ACK of the first packet of a message for the end of the message before. It comes with the beginning
 * of the next one. That is no new life, for which ACKed requests could be given up. */
static void near_reset__host_that_lost_count_begins_the_next_message(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_long_life(c);
	messages(c, 1, 1);
	assert_int_equal(part(c, 4, 0), DROP_NONE);
	core_pump(c);
	core_forget(&c->b);
	for (int round = 0; round < 4; round++) { /* the responder is slow meanwhile */
		core_wait(c, 70 * CORE_MS);
		assert_int_equal(part(c, 5, 0), DROP_LAN_SEQUENCE);
	}
	core_pump(c);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 0);
	assert_int_equal(core_ctr(&c->a, CTR_BYTES_FAILED), 0);
	assert_false(core_near(c)->state == NEAR_FAILED);
	core_ack(c, 4, AETH_ACK_NO_CREDITS, 2);
	core_wait(c, 70 * CORE_MS);
	core_forget(&c->a);
	assert_int_equal(part(c, 5, 0), DROP_LAN_SEQUENCE);
	core_pump(c);
	core_expect_aeth(&c->a, 5, AETH_NAK_INV_REQ);
}

/* The packet before psn, numbered one too high. */
static enum proxy_drop one_too_high(struct core *c, uint8_t opcode, uint32_t psn)
{
	uint8_t buf[LAN_PKT_MAX + 64];
	struct roce_pkt h = core_req(opcode, psn - 1);
	size_t n;

	h.psn = psn;
	h.reth_len = 3 * CORE_PMTU;
	n = roce_build(buf, sizeof(buf), &h, core_payload(c->salt, psn - 1), CORE_PMTU);
	assert_true(n > 0);
	return proxy_lan_rx(c->a.p, c->now_ns, buf, n, 0);
}

/* It heard the ACK of PSN 4 and not those behind it, and repeats from there, one too high. */
static void near_reset__host_that_lost_count_below_what_is_expected(void **state)
{
	struct core *c = given_two_messages(state);

	for (int round = 0; round < 4; round++) {
		core_wait(c, 70 * CORE_MS);
		assert_int_not_equal(one_too_high(c, RC_WRITE_FIRST, 5), DROP_NONE);
	}
	core_pump(c);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 0);
	assert_int_equal(core_ctr(&c->a, CTR_BYTES_FAILED), 0);
	assert_false(core_near(c)->state == NEAR_FAILED);
	core_ack(c, 6, AETH_ACK_NO_CREDITS, 2);
	core_wait(c, 70 * CORE_MS);
	core_forget(&c->a);
	assert_int_not_equal(one_too_high(c, RC_WRITE_FIRST, 5), DROP_NONE);
	core_pump(c);
	core_expect_aeth(&c->a, 7, AETH_NAK_INV_REQ);
}

/* A new life with messages of two packets, whose end is that of a message before, one position lower. The rest of its
 * round tells it from a host that has lost count. */
static void near_reset__like_end_of_shorter_messages_is_no_lost_count(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	messages(c, 1, 3);
	core_ack(c, 9, AETH_ACK_NO_CREDITS, 4);
	core_wait(c, 400 * CORE_MS);
	core_forget(&c->a);
	core_forget(&c->b);
	for (int round = 0; round < 4 && core_ctr(&c->a, CTR_INCARNATIONS) == 0; round++) {
		for (uint32_t psn = 0; psn < 8; psn += 2) {
			c->salt = 7;
			core_in(&c->a, core_req(RC_WRITE_FIRST, psn), CORE_PMTU, 0);
			c->salt = 0;
			if (psn == 6)
				one_too_high(c, RC_WRITE_LAST, psn + 1);
			else
				core_in(&c->a, core_req(RC_WRITE_LAST, psn + 1), 8, 0);
		}
		core_wait(c, 2 * CORE_MS);
	}
	assert_false(core_near(c)->state == NEAR_FAILED);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 1);
	core_forget(&c->a);
	core_forget(&c->b);
}

/* The host got the ACK of PSN 5. The packet by which its PSN 6 is recognised is delivered before the host has repeated
 * often enough. */
static void near_reset__host_that_lost_count_in_a_message(void **state)
{
	struct core *c = given_two_messages(state);

	for (int round = 0; round < 4; round++) {
		core_wait(c, 70 * CORE_MS);
		assert_int_not_equal(one_too_high(c, RC_WRITE_MIDDLE, 6), DROP_NONE);
		if (round == 0)
			core_ack(c, 5, AETH_ACK_NO_CREDITS, 1);
	}
	core_pump(c);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 0);
	core_ack(c, 6, AETH_ACK_NO_CREDITS, 2);
	core_wait(c, 70 * CORE_MS);
	assert_int_not_equal(part(c, 7, 1), DROP_NONE); /* the next packets of its rounds */
	core_wait(c, 70 * CORE_MS);
	part(c, 7, 1);
	core_wait(c, 70 * CORE_MS);
	core_forget(&c->a);
	part(c, 7, 1);
	core_pump(c);
	core_expect_aeth(&c->a, 7, AETH_NAK_INV_REQ);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 0);
}

/* A queue pair that was reset in the middle of a message may begin where that one stopped. */
static void near_reset__in_the_middle_of_a_message_at_its_place(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_long_life(c);
	for (uint32_t psn = 1; psn < 3; psn++)
		assert_int_equal(part(c, psn, psn - 1), DROP_NONE);
	core_pump(c);
	core_ack(c, 2, AETH_ACK_NO_CREDITS, 0);
	core_wait(c, 2000 * CORE_MS);
	core_forget(&c->b);
	for (int round = 0; round < 2; round++) {
		core_wait(c, 70 * CORE_MS);
		assert_int_equal(part(c, 3, 0), DROP_LAN_SEQUENCE);
	}
	core_wait(c, 70 * CORE_MS);
	assert_int_equal(part(c, 3, 0), DROP_NONE);
	core_pump(c);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 1);
	core_expect(&c->b, RC_WRITE_FIRST, 3); /* the responder knows whether its queue pair was reset */
}

/* It has heard of all ACKs meanwhile and goes on at once. */
static void near_reset__host_goes_on_behind_it(void **state)
{
	struct core *c = given_two_messages(state);

	confused_window(c);
	core_wait(c, 100 * CORE_MS);
	messages(c, 7, 1);
	core_expect_aeth(&c->a, 9, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 0);
}

/* In the middle of a message longer than all that is outstanding there is no start to know it by. */
static void near_reset__suspicion_does_not_last(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_long_life(c);
	assert_int_equal(core_send(c, RC_WRITE_FIRST, 1), DROP_NONE);
	for (uint32_t psn = 2; psn < 8; psn++)
		assert_int_equal(core_send(c, RC_WRITE_MIDDLE, psn), DROP_NONE);
	core_ack(c, 7, AETH_ACK_NO_CREDITS, 1);
	core_forget(&c->a);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 5), DROP_LAN_RESET_SUSPECTED);
	for (int round = 0; round < 2; round++) {
		core_wait(c, 4 * CORE_MS);
		assert_int_equal(core_send(c, RC_WRITE_MIDDLE, 4), DROP_LAN_RESET_SUSPECTED);
		assert_int_equal(core_send(c, RC_WRITE_MIDDLE, 8), DROP_LAN_RESET_SUSPECTED);
	}
	core_wait(c, 4 * CORE_MS);
	assert_int_equal(core_send(c, RC_WRITE_MIDDLE, 4), DROP_LAN_DUPLICATE);
	assert_int_equal(core_send(c, RC_WRITE_MIDDLE, 8), DROP_NONE);
}

static void near_reset__that_insists_is_a_new_life(void **state)
{
	struct core *c = given_two_messages(state);

	c->salt = 1;
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 1), DROP_LAN_RESET_SUSPECTED);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 2),
	                 DROP_LAN_RESET_SUSPECTED); /* what follows it does not decide */
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 1), DROP_LAN_RESET_SUSPECTED); /* nor a copy made on the LAN */
	core_wait(c, 4 * CORE_MS);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 1), DROP_NONE);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 1);
	assert_int_equal(core_pending(&c->a), 0);
}

static void near_reset__after_silence_needs_no_witness(void **state)
{
	struct core *c = given_two_messages(state);

	core_wait(c, 1000 * CORE_MS);
	c->salt = 1;
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 1), DROP_NONE);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 1);
}

/* The first packet of a new life is lost: the second one is not known, and nothing is ACKed for it. The end of a
 * message that is known is. */
static void near_reset__whose_beginning_was_lost(void **state)
{
	struct core *c = given_two_messages(state);

	core_ack(c, 6, AETH_ACK_NO_CREDITS, 3);
	core_wait(c, 20 * CORE_MS);
	core_forget(&c->a);
	c->salt = 1;
	assert_int_equal(part(c, 5, 1), DROP_LAN_DUPLICATE);
	assert_int_equal(part(c, 6, 2), DROP_LAN_DUPLICATE);
	core_pump(c);
	assert_int_equal(core_pending(&c->a), 0);
	c->salt = 0;
	assert_int_equal(part(c, 5, 1), DROP_LAN_DUPLICATE);
	assert_int_equal(part(c, 6, 2), DROP_LAN_DUPLICATE);
	core_pump(c);
	core_expect_aeth(&c->a, 6, AETH_ACK_NO_CREDITS);
}

/* --- the same words: a repetition, or a new life? --- */

/* The responder has had one message and the host its ACK; then the host is silent for so long. */
static struct core *given_one_word(void **state, enum ack_mode mode, uint64_t silent_ns)
{
	struct core *c = core_given_pair(state, mode);

	core_deliver(c, 1, 1);
	core_wait(c, silent_ns - (silent_ns > CORE_MS ? CORE_MS : 0));
	core_forget(&c->a);
	core_forget(&c->b);
	return c;
}

/* Sends the first packet of all again. Only the responder knows whether it is a repetition, so the packet is sent to
 * it, and the host gets no answer before the responder has answered. */
static void says_it_again(struct core *c)
{
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 0), DROP_NONE);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_ctr(&c->a, CTR_DOUBTS), 1);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
}

static void again__new_life_with_the_same_words(void **state)
{
	static const enum ack_mode mode[] = {ACK_MODE_NEAR, ACK_MODE_HOST};

	for (int i = 0; i < 2; i++) {
		struct core *c = given_one_word(state, mode[i], i ? 60000 * CORE_MS : 300 * CORE_MS);

		says_it_again(c);
		/* The responder begins anew, and knows the requester by another number. */
		assert_int_equal(core_in(&c->b, core_answer(RC_ACK, 0x77, 0, AETH_ACK_NO_CREDITS, 1), 0, 0), DROP_NONE);
		core_pump(c);
		assert_int_equal(core_expect_aeth(&c->a, 0, AETH_ACK_NO_CREDITS)->h.dest_qpn, 0x77);
		assert_int_equal(core_send(c, RC_WRITE_ONLY, 1), DROP_NONE);
		core_expect(&c->b, RC_WRITE_ONLY, 1);
		if (i == 0) {
			core_done(state);
			*state = NULL;
		}
	}
}

/* It was a repetition of two messages whose ACK was lost: the responder answers the first with an ACK of all that it
 * has had, and the host goes on. */
static void again__repetition_is_what_the_responder_says(void **state)
{
	struct core *c = given_one_word(state, ACK_MODE_NEAR, 270 * CORE_MS);

	says_it_again(c);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 1), DROP_NONE);
	for (int i = 0; i < 4; i++) {
		core_wait(c, 3 * CORE_MS);
		core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2), 0, 0);
		core_pump(c);
	}
	assert_int_equal(core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS)->h.aeth_msn, 2);
	core_forget(&c->a);
	core_forget(&c->b);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 2), DROP_NONE);
	core_expect_aeth(&c->a, 2, AETH_ACK_NO_CREDITS);
	core_expect(&c->b, RC_WRITE_ONLY, 2);
}

/* A copy that comes at once, and a repetition that has crossed its ACK, are no new life. */
static void again__at_once_is_a_repetition(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send_run(c, 1, 1);
	core_ack(c, 1, AETH_ACK_NO_CREDITS, 2);
	core_wait(c, CORE_MS / 2);
	core_forget(&c->a);
	core_forget(&c->b);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 0), DROP_LAN_DUPLICATE);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_pending(&c->b), 0);
}

/* Far from where the queue pair's lives begin an ACK that was lost is said again, whenever the host comes back, but not
 * after a silence longer than any host's. */
static void again__in_the_middle_of_a_life(void **state)
{
	struct core *c = given_one_word(state, ACK_MODE_NEAR, 2000 * CORE_MS);

	core_long_life(c);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 1), DROP_LAN_DUPLICATE);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	core_wait(c, 11000 * CORE_MS);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 1), DROP_NONE);
	assert_int_equal(core_pending(&c->a), 0);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
}

/* A message longer than the host's window: the ACK of all that is outstanding was lost, and no end of a message comes
 * that could be ACKed instead. */
static void again__inside_a_long_message(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	assert_int_equal(core_send(c, RC_WRITE_FIRST, 1), DROP_NONE);
	for (uint32_t psn = 2; psn < 200; psn++)
		assert_int_equal(core_send(c, RC_WRITE_MIDDLE, psn), DROP_NONE);
	while (core_used(&c->a)) {
		core_forget(&c->b);
		core_ack(c, pos_psn(core_far(c)->pos_tx - 1), AETH_ACK_NO_CREDITS, 1);
		core_wait(c, CORE_MS);
	}
	core_long_life(c);
	for (int timeout = 0; timeout < 5; timeout++) {
		core_wait(c, 70 * CORE_MS);
		core_forget(&c->a);
		assert_int_equal(core_send(c, RC_WRITE_MIDDLE, 150), DROP_LAN_DUPLICATE);
		core_expect_aeth(&c->a, 199, AETH_ACK_NO_CREDITS);
	}
	core_near(c)->psn_origin = 0; /* and where a life might begin so, the responder says it */
	core_wait(c, 270 * CORE_MS);
	core_forget(&c->b);
	assert_int_equal(core_send(c, RC_WRITE_MIDDLE, 150), DROP_NONE);
	assert_int_equal(core_pending(&c->a), 0);
	core_expect(&c->b, RC_WRITE_MIDDLE, 150);
}

/* A new life for which the table has no place: what follows it must not be taken for the old life's, and ACKed. */
static void near_reset__no_place_for_it(void **state)
{
	struct core *c = given_two_messages(state);

	core_ack(c, 6, AETH_ACK_NO_CREDITS, 3);
	for (uint32_t i = 0; i < CORE_FLOWS; i++) {
		struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);

		h.dest_qpn = 0x1000 + i;
		core_in(&c->a, h, CORE_PMTU, 0);
	}
	core_wait(c, 1000 * CORE_MS);
	core_forget(&c->a);
	for (uint32_t i = 0; i < CORE_FLOWS; i++) {
		struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);

		h.dest_qpn = 0x2000 + i;
		core_in(&c->a, h, CORE_PMTU, 0);
	}
	c->salt = 1;
	assert_int_not_equal(part(c, 1, 0), DROP_NONE);
	assert_int_equal(part(c, 2, 1), DROP_LAN_RESET_SUSPECTED);
	assert_int_equal(part(c, 3, 2), DROP_LAN_RESET_SUSPECTED);
	core_pump(c);
	assert_int_equal(core_pending(&c->a), 0);
}

/* A QP is used again by another process, at a PSN ahead: it never comes back to what is expected. */
static void near_reset__ahead_that_insists_is_a_new_life(void **state)
{
	uint32_t ahead = 5000, rounds = 0;
	struct core *c = given_two_messages(state);

	for (; rounds < 8 && core_ctr(&c->a, CTR_INCARNATIONS) == 0; rounds++) {
		for (uint32_t i = 0; i < 3; i++)
			core_send(c, RC_WRITE_ONLY, ahead + i);
		core_wait(c, 4 * CORE_MS);
	}
	assert_in_range(rounds, 3, 4);
	assert_int_equal(core_near(c)->pos_base, POS_ORIGIN + ahead);
}

/* A host that was sent away comes back, and what was refused is lost on the LAN twice in a row: it is no new life. */
static void near_reset__what_was_refused_is_lost_again(void **state)
{
	uint32_t next, rounds = 0;
	struct core *c = given_two_messages(state);

	next = pos_psn(core_near(c)->pos_next);
	for (; rounds < 5; rounds++) {
		core_near(c)->rnr_back_pressure = true;
		for (uint32_t i = 3; i < 6; i++)
			core_send(c, RC_WRITE_ONLY, next + i);
		core_wait(c, 4 * CORE_MS);
	}
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 0);
	for (; rounds < 12 && core_ctr(&c->a, CTR_INCARNATIONS) == 0; rounds++) { /* but for ever it is one */
		core_near(c)->rnr_back_pressure = true;
		core_send(c, RC_WRITE_ONLY, next + 3);
		core_wait(c, 4 * CORE_MS);
	}
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 1);
}

/* A new life, and the one before ended in the middle of a gap, at a lower place. */
static void near_reset__ahead_of_an_unfilled_gap(void **state)
{
	uint32_t ahead = 5000, rounds = 0;
	struct core *c = given_two_messages(state);

	core_send(c, RC_WRITE_ONLY, 8); /* 7 is lost, and the QP is reset */
	for (; rounds < 12 && core_ctr(&c->a, CTR_INCARNATIONS) == 0; rounds++) {
		for (uint32_t i = 0; i < 3; i++)
			core_send(c, RC_WRITE_ONLY, ahead + i);
		core_wait(c, rounds < 4 ? 8 * CORE_MS : 70 * CORE_MS);
	}
	assert_in_range(rounds, 3, 6); /* a host repeats seven times */
	assert_int_equal(core_near(c)->pos_base, POS_ORIGIN + ahead);
}

/* The same, and what was ahead in the life before was taken without the host's coming back: the first response of a
 * READ told how many PSNs are its own. */
static void near_reset__ahead_of_what_was_taken_meanwhile(void **state)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, 1);
	uint32_t ahead = 5000, rounds = 0;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	h.reth_len = 2 * CORE_PMTU;
	core_in(&c->a, h, 0, 0);
	core_send(c, RC_SEND_ONLY, 3);
	core_in(&c->b, core_answer(RC_READ_RESP_FIRST, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
	core_pump(c);
	assert_int_equal(core_near(c)->pos_next, POS_ORIGIN + 4);
	for (; rounds < 8 && core_ctr(&c->a, CTR_INCARNATIONS) == 0; rounds++) {
		core_send(c, RC_WRITE_ONLY, ahead);
		core_wait(c, 4 * CORE_MS);
	}
	assert_int_equal(rounds, 3);
}

/* And at one so far away that it can be nothing else; but one forged packet is nothing. */
static void near_reset__far_away(void **state)
{
	uint32_t away = 7000000;
	struct core *c = given_two_messages(state);

	assert_int_equal(core_send(c, RC_WRITE_ONLY, away), DROP_LAN_WINDOW);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, away), DROP_LAN_WINDOW);
	core_wait(c, 4 * CORE_MS);
	messages(c, 7, 1);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, away), DROP_LAN_WINDOW);
	core_wait(c, 4 * CORE_MS);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, away), DROP_NONE);
	assert_int_equal(core_near(c)->pos_base, POS_ORIGIN + away);
}

/* The same with several messages in each round, and far below. */
static void near_reset__far_below(void **state)
{
	uint32_t away = 0x1000000 - 5000000;
	struct core *c = given_two_messages(state);

	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 5; i++)
			core_send(c, RC_WRITE_ONLY, away + i);
		core_wait(c, 4 * CORE_MS);
	}
	assert_int_equal(core_near(c)->pos_base, POS_ORIGIN + away);
}

/* A lost packet is no new life: the host comes back to it. */
static void near_reset__gap_is_no_new_life(void **state)
{
	struct core *c = given_two_messages(state);

	for (int round = 0; round < 10; round++) {
		for (uint32_t psn = 10; psn < 20; psn++)
			core_send(c, RC_WRITE_ONLY, psn);
		core_wait(c, 4 * CORE_MS);
		core_send(c, RC_WRITE_LAST, 6); /* of what the host repeats, this one arrives */
	}
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 0);
}

/* The responder would refuse it, and its QP be lost. IBTA 9.7.4.1.3. */
static void near_reset__opcodes_out_of_order_are_not_carried(void **state)
{
	struct core *c = given_two_messages(state);

	assert_int_equal(core_send(c, RC_WRITE_LAST, 7), DROP_LAN_SEQUENCE);
	assert_int_equal(core_send(c, RC_WRITE_FIRST, 7), DROP_NONE);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 8), DROP_LAN_SEQUENCE);
	assert_int_equal(core_send(c, RC_SEND_LAST, 8), DROP_LAN_SEQUENCE);
	assert_int_equal(core_send(c, RC_READ_REQUEST, 8), DROP_LAN_SEQUENCE);
	assert_int_equal(core_send(c, RC_WRITE_LAST_IMM, 8), DROP_NONE);
}

static void near_reset__opcode_order(void **state)
{
	(void)state;
	assert_true(roce_may_follow(RC_SEND_FIRST, RC_SEND_MIDDLE));
	assert_true(roce_may_follow(RC_SEND_MIDDLE, RC_SEND_LAST_INV));
	assert_true(roce_may_follow(RC_WRITE_LAST_IMM, RC_SEND_FIRST));
	assert_true(roce_may_follow(RC_READ_REQUEST, RC_FETCH_ADD));
	assert_true(roce_may_follow(RC_RESERVED_15, RC_WRITE_LAST)); /* who knows */
	assert_false(roce_may_follow(RC_SEND_FIRST, RC_WRITE_MIDDLE));
	assert_false(roce_may_follow(RC_WRITE_FIRST, RC_SEND_LAST_INV));
	assert_false(roce_may_follow(RC_WRITE_ONLY, RC_WRITE_LAST));
	assert_false(roce_may_follow(RC_WRITE_MIDDLE, RC_READ_REQUEST));
}

/* CM says that the requester's QP talks to another one now. */
static void connect_elsewhere(struct core *c, uint32_t requester_qpn)
{
	near_cm_open(c->a.p, &(struct near_cm_info){.src = core_ip(1, 2),
	                                            .dst = core_ip(2, 2),
	                                            .dest_qpn = 0x99,
	                                            .requester_qpn = requester_qpn,
	                                            .start_psn = 7,
	                                            .pmtu = CORE_PMTU,
	                                            .pkey = 0xffff,
	                                            .rnr_retry = 7});
}

/* The requester's QP has been connected elsewhere, and its old responder's QPN is another one's now: what that one
 * sends is a new life at once, and no word about the old one goes to the QP that has the number. */
static void near_reset__of_a_connection_that_is_gone(void **state)
{
	struct near_flow *old;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_connect(c, 1, 100, 7);
	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	old = core_near(c);
	connect_elsewhere(c, 0x21);
	assert_true(old->superseded);
	assert_int_equal(core_ctr(&c->a, CTR_REQUESTERS_SUPERSEDED), 1);
	core_send(c, RC_WRITE_ONLY, 5); /* a gap of the old life */
	core_wait(c, 20 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	assert_ptr_not_equal(core_near(c), old);
	assert_int_equal(core_near(c)->pairing, PAIR_LEARNING);
	core_expect(&c->b, RC_WRITE_ONLY, 1); /* what was ACKed is delivered all the same */
}

/* So is one that spoke once, whose pair no second answer has confirmed. */
static void near_reset__of_a_connection_that_spoke_once(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	assert_int_equal(core_near(c)->pairing, PAIR_PROVISIONAL);
	connect_elsewhere(c, core_near(c)->requester_qpn);
	assert_true(core_near(c)->superseded);
	core_send(c, RC_WRITE_ONLY, 5);
	core_wait(c, 20 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
}

/* The host repeats something late, nobody answers, and then CM connects a new queue pair with the number. */
static void near_reset__a_queue_pair_of_cm_is_in_no_doubt(void **state)
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

/* A connection of which one direction was never used, and whose end was lost; then another one of the same two numbers.
 */
static void near_reset__cm_after_a_queue_pair_that_was_never_used(void **state)
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

/* A life in doubt gets only rounds that begin ahead of it, as their first packets get lost. The next packet may belong
 * to the life before as well, and the number of messages in between is not known. So its host gets no RNR NAK, which
 * would need an MSN. */
static void near_reset__count_ahead_of_a_doubted_life_is_unknown(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_deliver(c, 1, 7);
	core_wait(c, 300 * CORE_MS);
	core_send(c, RC_WRITE_ONLY, 7);
	assert_true(core_near(c)->doubted);
	assert_int_equal(core_near(c)->msn_offset, 7);
	assert_int_not_equal(core_near(c)->template_len, 0);
	assert_non_null(near_succeed(c->a.p, core_near(c), 12, 0));
	assert_true(core_near(c)->doubted);
	assert_int_equal(core_near(c)->template_len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(near_reset__confused_window_counts_for_nothing),
	    CORE_TEST(near_reset__host_that_lost_count_is_refused),
	    CORE_TEST(near_reset__same_words_are_no_lost_count),
	    CORE_TEST(near_reset__host_that_lost_count_hears_of_the_rest_first),
	    CORE_TEST(near_reset__host_that_lost_count_begins_the_next_message),
	    CORE_TEST(near_reset__host_that_lost_count_below_what_is_expected),
	    CORE_TEST(near_reset__like_end_of_shorter_messages_is_no_lost_count),
	    CORE_TEST(near_reset__host_that_lost_count_in_a_message),
	    CORE_TEST(near_reset__in_the_middle_of_a_message_at_its_place),
	    CORE_TEST(near_reset__host_goes_on_behind_it),
	    CORE_TEST(near_reset__suspicion_does_not_last),
	    CORE_TEST(near_reset__that_insists_is_a_new_life),
	    CORE_TEST(near_reset__whose_beginning_was_lost),
	    CORE_TEST(near_reset__no_place_for_it),
	    CORE_TEST(near_reset__after_silence_needs_no_witness),
	    CORE_TEST(near_reset__ahead_that_insists_is_a_new_life),
	    CORE_TEST(near_reset__what_was_refused_is_lost_again),
	    CORE_TEST(near_reset__ahead_of_an_unfilled_gap),
	    CORE_TEST(near_reset__ahead_of_what_was_taken_meanwhile),
	    CORE_TEST(near_reset__far_away),
	    CORE_TEST(near_reset__far_below),
	    CORE_TEST(near_reset__of_a_connection_that_is_gone),
	    CORE_TEST(near_reset__of_a_connection_that_spoke_once),
	    CORE_TEST(near_reset__gap_is_no_new_life),
	    CORE_TEST(near_reset__opcodes_out_of_order_are_not_carried),
	    CORE_TEST(again__new_life_with_the_same_words),
	    CORE_TEST(again__repetition_is_what_the_responder_says),
	    CORE_TEST(again__at_once_is_a_repetition),
	    CORE_TEST(again__in_the_middle_of_a_life),
	    CORE_TEST(again__inside_a_long_message),
	    cmocka_unit_test(near_reset__opcode_order),
	    CORE_TEST(near_reset__a_queue_pair_of_cm_is_in_no_doubt),
	    CORE_TEST(near_reset__cm_after_a_queue_pair_that_was_never_used),
	    CORE_TEST(near_reset__count_ahead_of_a_doubted_life_is_unknown),
	};

	return cmocka_run_group_tests_name("near_reset", tests, NULL, NULL);
}
