/* SPDX-License-Identifier: Apache-2.0 */
/* READ and ATOMIC at the near edge: what the host is given when it asks again, and what survives of it. */
#include "core_fixture.h"

#include "proxy/far/far_priv.h"
#include "proxy/far/pair.h"
#include "proxy/near/near_priv.h"

static const uint8_t three[] = {RC_READ_RESP_FIRST, RC_READ_RESP_MIDDLE, RC_READ_RESP_LAST};

/* Asks for packets psn .. of a READ of `packets` that began at `first`. */
static enum proxy_drop ask(struct core *c, uint32_t first, uint32_t packets, uint32_t psn, bool migreq)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, psn);
	enum proxy_drop d;

	h.reth_va += (uint64_t)(psn - first) * CORE_PMTU;
	h.reth_len = (packets - (psn - first)) * CORE_PMTU;
	h.migreq = migreq;
	d = core_in(&c->a, h, 0, 0);
	core_pump(c);
	return d;
}

static void respond(struct core *c, uint8_t opcode, uint32_t psn, uint32_t msn)
{
	struct roce_pkt h = core_answer(opcode, CORE_QPN, psn, AETH_ACK_NO_CREDITS, msn);

	h.atomic_orig = 0x1122334455667788 + psn;
	assert_int_equal(core_in(&c->b, h, opcode == RC_ATOMIC_ACK ? 0 : CORE_PMTU, 0), DROP_NONE);
	core_pump(c);
}

static void expect_response(struct core *c, uint8_t opcode, uint32_t psn)
{
	const struct core_pkt *k = core_expect(&c->a, opcode, psn);

	assert_memory_equal(k->l3 + k->h.hdr_len, core_payload(0, psn), CORE_PMTU);
}

/* Of the i-th of n responses to a READ. */
static uint8_t resp_opcode(uint32_t i, uint32_t n)
{
	if (n == 1)
		return RC_READ_RESP_ONLY;
	return i == 0 ? RC_READ_RESP_FIRST : i == n - 1 ? RC_READ_RESP_LAST : RC_READ_RESP_MIDDLE;
}

static void read_three(struct core *c, uint32_t psn, uint32_t msn)
{
	assert_int_equal(ask(c, psn, 3, psn, true), DROP_NONE);
	core_expect(&c->b, RC_READ_REQUEST, psn);
	for (uint32_t i = 0; i < 3; i++) {
		respond(c, three[i], psn + i, msn);
		expect_response(c, three[i], psn + i);
	}
}

/* Of a READ of three from PSN 2 on the first packet has been given. */
static void begin_read(struct core *c, bool migreq)
{
	ask(c, 2, 3, 2, migreq);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	respond(c, RC_READ_RESP_FIRST, 2, 2);
	expect_response(c, RC_READ_RESP_FIRST, 2);
}

/* The host asks for the rest of it, and gets that framed anew. */
static void expect_the_rest(struct core *c)
{
	ask(c, 2, 3, 3, true);
	core_forget(&c->a);
	respond(c, RC_READ_RESP_MIDDLE, 3, 2);
	expect_response(c, RC_READ_RESP_FIRST, 3);
	respond(c, RC_READ_RESP_LAST, 4, 2);
	expect_response(c, RC_READ_RESP_LAST, 4);
}

static void lose_the_line(struct core *c)
{
	c->cut = true;
	core_wait(c, 2 * c->a.cfg.dead_peer_ns);
	core_forget(&c->a);
}

static void restart_near(struct core *c)
{
	core_rebuild(&c->a);
	core_session(c);
	core_wait(c, CORE_MS);
	core_forget(&c->a);
	core_forget(&c->b);
	core_long_life(c);
}

/* --- what survives --- */

/* That it was answered is known; the answer itself is read again. The host is kept meanwhile. */
static void reads__is_read_again_after_a_restart(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	read_three(c, 2, 2);
	core_wait(c, CORE_MS);
	restart_near(c);
	assert_int_equal(ask(c, 2, 3, 2, true), DROP_LAN_READ_RETRY);
	k = core_expect(&c->a, RC_ACK, 2);
	assert_int_equal(k->h.aeth_syndrome & AETH_TYPE_MASK, AETH_RNR_NAK);
	assert_int_equal(k->h.aeth_msn, 1);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	for (uint32_t i = 0; i < 3; i++) {
		respond(c, three[i], 2 + i, 2);
		expect_response(c, three[i], 2 + i);
	}
	c->now_ns += CORE_MS;
	assert_int_equal(ask(c, 2, 3, 4, true), DROP_LAN_READ_RETRY);
	expect_response(c, RC_READ_RESP_ONLY, 4);
	core_wait(c, CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	assert_false(core_near(c)->state == NEAR_FAILED);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 5), DROP_NONE); /* and the flow goes on */
	core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS);
}

static void reads__atomic_is_replayed_after_a_restart(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	assert_int_equal(core_send(c, RC_FETCH_ADD, 2), DROP_NONE);
	core_expect(&c->b, RC_FETCH_ADD, 2);
	respond(c, RC_ATOMIC_ACK, 2, 2);
	k = core_expect(&c->a, RC_ATOMIC_ACK, 2);
	assert_true(k->h.atomic_orig == 0x1122334455667788 + 2);
	restart_near(c);
	assert_int_equal(core_send(c, RC_FETCH_ADD, 2), DROP_LAN_READ_RETRY);
	k = core_expect(&c->a, RC_ATOMIC_ACK, 2);
	assert_true(k->h.atomic_orig == 0x1122334455667788 + 2);
	assert_int_equal(k->h.aeth_msn, 2);
	core_wait(c, 5 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0); /* never executed twice */
}

static size_t payload_of(uint8_t opcode)
{
	return opcode == RC_ATOMIC_WRITE ? 8 : 0;
}

static enum proxy_drop ask_once(struct core *c, uint8_t opcode, uint32_t psn)
{
	enum proxy_drop d = core_in(&c->a, core_req(opcode, psn), payload_of(opcode), 0);

	core_pump(c);
	return d;
}

static enum proxy_drop answer_empty(struct core *c, uint8_t opcode, uint32_t psn, uint32_t msn)
{
	enum proxy_drop d = core_in(&c->b, core_answer(opcode, CORE_QPN, psn, AETH_ACK_NO_CREDITS, msn), 0, 0);

	core_pump(c);
	return d;
}

/* FLUSH and ATOMIC WRITE are answered by a READ RESPONSE ONLY without a byte, and executed once. */
static void read_response_answers(void **state, uint8_t opcode)
{
	const struct core_pkt *k;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	assert_int_equal(ask_once(c, opcode, 2), DROP_NONE);
	k = core_expect(&c->b, opcode, 2);
	assert_int_equal(k->h.payload_len, payload_of(opcode));
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 3), DROP_NONE);
	core_expect(&c->b, RC_WRITE_ONLY, 3);
	assert_int_equal(core_pending(&c->a), 0); /* nothing is ACKed past it, in mode near either */
	assert_int_equal(answer_empty(c, RC_READ_RESP_ONLY, 2, 2), DROP_NONE);
	k = core_expect(&c->a, RC_READ_RESP_ONLY, 2);
	assert_int_equal(k->h.aeth_msn, 2);
	assert_int_equal(k->h.payload_len, 0);
	core_expect_aeth(&c->a, 3, AETH_ACK_NO_CREDITS);
	for (int life = 0; life < 2; life++) {
		core_long_life(c);
		core_wait(c, CORE_MS);
		assert_int_equal(ask_once(c, opcode, 2), DROP_LAN_READ_RETRY);
		k = core_expect(&c->a, RC_READ_RESP_ONLY, 2);
		assert_int_equal(k->h.aeth_msn, 2);
		core_wait(c, 5 * CORE_MS);
		assert_int_equal(core_pending(&c->b), 0); /* never executed twice */
		restart_near(c);
	}
}

static void reads__flush_is_answered(void **state)
{
	read_response_answers(state, RC_FLUSH);
}

static void reads__atomic_write_is_answered(void **state)
{
	read_response_answers(state, RC_ATOMIC_WRITE);
}

/* Each kind of request has its kind of answer. */
static void reads__an_answer_fits_its_request(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	ask_once(c, RC_FLUSH, 2);
	assert_int_equal(answer_empty(c, RC_ATOMIC_ACK, 2, 2), DROP_LAN_ACK_UNSENT);
	assert_int_equal(answer_empty(c, RC_READ_RESP_FIRST, 2, 2), DROP_LAN_ACK_UNSENT);
	assert_int_equal(answer_empty(c, RC_READ_RESP_ONLY, 2, 2), DROP_NONE);
	ask_once(c, RC_FETCH_ADD, 3);
	assert_int_equal(answer_empty(c, RC_READ_RESP_ONLY, 3, 3), DROP_LAN_ACK_UNSENT);
	assert_int_equal(answer_empty(c, RC_ATOMIC_ACK, 3, 3), DROP_NONE);
	assert_int_equal(ask(c, 4, 1, 4, true), DROP_NONE);
	assert_int_equal(answer_empty(c, RC_ATOMIC_ACK, 4, 4), DROP_LAN_ACK_UNSENT);
}

/* The responder's answer is lost on its LAN: an ACK past the request says so, and the far edge asks again. */
static void reads__lost_flush_answer_is_asked_for(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	ask_once(c, RC_FLUSH, 2);
	core_send(c, RC_WRITE_ONLY, 3);
	core_forget(&c->b);
	core_wait(c, CORE_MS);
	core_ack(c, 3, AETH_ACK_NO_CREDITS, 3);
	core_expect(&c->b, RC_FLUSH, 2);
	assert_int_equal(answer_empty(c, RC_READ_RESP_ONLY, 2, 2), DROP_NONE);
	core_expect(&c->a, RC_READ_RESP_ONLY, 2);
}

static bool lose_responses(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)dgram;
	return from != &c->b || len < CORE_PMTU || !*(const bool *)c->arg;
}

/* The packet at PSN 2 never comes. */
static bool all_but_the_first(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	struct wan_frame f;
	struct wan_packet w;
	size_t off = WAN_HDR_LEN;

	while (from == &c->b && wan_frame_next(dgram, len - WAN_TAG_LEN, &off, &f) > 0)
		if (f.type == WF_PACKET && wan_packet_get(&f, &w) && w.pos == POS_ORIGIN + 2)
			return false;
	return true;
}

/* The end of a READ has come, but not its beginning, which would tell the PMTU, and the near edge restarts. Responses
 * that the far edge knows to have arrived are still there, although the READ's length in PSNs is not known yet. */
static void reads__early_response_outlives_a_restart(void **state)
{
	bool lose = true;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	c->arg = &lose;
	c->wan = lose_responses;
	ask(c, 1, 2, 1, true);
	core_expect(&c->b, RC_READ_REQUEST, 1);
	respond(c, RC_READ_RESP_FIRST, 1, 2);
	lose = false;
	respond(c, RC_READ_RESP_LAST, 2, 2);
	lose = true;
	core_wait(c, 5 * CORE_MS);
	assert_int_equal(core_near(c)->pmtu, 0);
	restart_near(c);
	lose = false;
	core_wait(c, 20 * CORE_MS);
	expect_response(c, RC_READ_RESP_FIRST, 1);
	expect_response(c, RC_READ_RESP_LAST, 2);
}

/* The ATOMIC 1 has come, and its responder says that it waits for 0, which was lost before the edge: the ATOMIC lies
 * beyond a gap. */
static struct core *given_an_atomic_beyond_a_gap(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_send(c, RC_FETCH_ADD, 1);
	core_expect(&c->b, RC_FETCH_ADD, 1);
	core_ack(c, 0, AETH_NAK_PSN_SEQ, 0);
	core_wait(c, CORE_MS);
	return c;
}

/* The ATOMIC has crossed behind the WRITE, and its answer has come back. */
static void expect_write_and_atomic(struct core *c)
{
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	core_expect(&c->b, RC_FETCH_ADD, 1);
	respond(c, RC_ATOMIC_ACK, 1, 2);
	assert_int_equal(core_near(c)->pos_acked, POS_ORIGIN + 2);
}

/* A request of the host was lost, its ATOMIC behind it came, and the near edge restarts. When the gap is filled the
 * ATOMIC is in order, and waits for its answer as if it had just come. */
static void reads__operation_beyond_a_gap_outlives_a_restart(void **state)
{
	struct core *c = given_an_atomic_beyond_a_gap(state);

	assert_int_equal(core_near(c)->pos_base, POS_ORIGIN);
	restart_near(c);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 0), DROP_NONE);
	assert_int_equal(core_send(c, RC_FETCH_ADD, 1), DROP_LAN_READ_RETRY);
	expect_write_and_atomic(c);
	for (const struct core_pkt *k; (k = core_take(&c->a));)
		if (k->h.opcode == RC_ATOMIC_ACK)
			assert_int_equal(k->h.psn, 1);
}

/* Half of a READ was given before the restart: the rest comes as the host asks for it, framed anew. */
static void reads__half_given_read_goes_on_after_a_restart(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	begin_read(c, true);
	core_rebuild(&c->a);
	core_collect(&c->a);
	core_forget(&c->a);
	core_session(c);
	core_forget(&c->a);
	core_forget(&c->b); /* the request again, perhaps: its responder knows it */
	expect_the_rest(c);
}

/* Answers without their request, and the other way round, are swept up; nothing leaks once they have been kept long
 * enough. */
static void reads__kept_answers_go_in_time(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	read_three(c, 2, 2);
	read_three(c, 5, 3);
	core_wait(c, CORE_MS);
	restart_near(c);
	assert_int_equal(arena_used(c->a.p->arena, POOL_WAN), 0); /* those of READs are not kept over it */
	core_wait(c, 12000 * CORE_MS);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_near(c)->kept_bytes, 0);
}

/* --- responses are free as they are given --- */

static void reads__are_free_as_soon_as_they_were_given(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	struct proxy *p = c->a.p;

	read_three(c, 2, 2);
	assert_int_equal(p->given_bytes, 3 * arena_class_bytes(CORE_PMTU + 60));
	assert_int_equal(pool_free(p, POOL_WAN), arena_capacity(p->arena, POOL_WAN));
	core_wait(c, 1100 * CORE_MS); /* nobody has asked for them */
	assert_int_equal(arena_used(p->arena, POOL_WAN), 0);
}

/* The responder executes a READ: all that it asks for. */
static void execute(struct core *c, const struct core_pkt *k, uint32_t msn)
{
	uint32_t n = k->h.reth_len / CORE_PMTU, first = k->h.psn;

	for (uint32_t i = 0; i < n; i++) {
		core_in(&c->b, core_answer(resp_opcode(i, n), CORE_QPN, first + i, AETH_ACK_NO_CREDITS, msn), CORE_PMTU,
		        0);
	}
}

/* Two READs of three, from PSN 2 and 5 on, whose responses are not here any more. */
static struct core *given_two_reads_freed(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	read_three(c, 2, 2);
	read_three(c, 5, 3);
	core_wait(c, 1100 * CORE_MS);
	core_forget(&c->a);
	return c;
}

static void reads__what_is_not_here_any_more_is_read_again(void **state)
{
	const struct core_pkt *k;
	struct core *c = given_two_reads_freed(state);

	assert_int_equal(ask(c, 2, 3, 3, true), DROP_LAN_READ_RETRY);
	assert_int_equal(ask(c, 2, 3, 3, true), DROP_LAN_READ_RETRY); /* it insists, and crosses once */
	k = core_expect(&c->b, RC_READ_REQUEST, 3);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(k->h.reth_len, 2 * CORE_PMTU);
	assert_int_equal(k->h.reth_va, 0x7000 + CORE_PMTU);
	core_forget(&c->a); /* it was sent away */
	execute(c, k, 2);
	core_pump(c);
	expect_response(c, RC_READ_RESP_FIRST, 3);
	k = core_expect(&c->a, RC_READ_RESP_LAST, 4);
	assert_int_equal(k->h.aeth_msn, 2);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_near(c)->repeats, 0);
	assert_int_equal(c->a.p->reserved_bytes, 0);
	assert_int_equal(core_ctr(&c->a, CTR_READS_AGAIN), 1);
}

/* Late answers have made the far edge give up the pair. The flow has nothing to send by which it could learn the pair
 * anew, and its responder is asked all the same; but not while another flow may be the one that has the QPN. */
static void reads__is_read_again_without_a_pair(void **state)
{
	struct core *c = given_two_reads_freed(state);
	struct hostpair *hp = &c->b.p->pairs[core_far(c)->hostpair];
	const struct core_pkt *k;

	pair_remove(c->b.p, core_far(c));
	hp->prober = core_far(c)->idx + 1; /* as if another flow had its turn */
	ask(c, 2, 3, 3, true);
	assert_int_equal(core_pending(&c->b), 0);
	hp->prober = NONE;
	core_wait(c, 100 * CORE_MS);
	ask(c, 2, 3, 3, true);
	k = core_expect(&c->b, RC_READ_REQUEST, 3);
	core_forget(&c->a);
	execute(c, k, 2);
	core_pump(c);
	expect_response(c, RC_READ_RESP_FIRST, 3);
	core_expect(&c->a, RC_READ_RESP_LAST, 4);
	assert_int_equal(core_far(c)->requester_qpn, CORE_QPN);
}

/* A READ of six responses was answered; the host asks for the last five again, which nobody has any more. */
static struct core *given_five_to_read_again(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	ask(c, 2, 6, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	for (uint32_t i = 0; i < 6; i++)
		respond(c, resp_opcode(i, 6), 2 + i, 2);
	core_wait(c, 1100 * CORE_MS);
	core_forget(&c->a);
	assert_int_equal(ask(c, 2, 6, 3, true), DROP_LAN_READ_RETRY);
	core_expect(&c->b, RC_READ_REQUEST, 3);
	core_forget(&c->a);
	return c;
}

static void answer_again(struct core *c, uint32_t psn)
{
	core_in(&c->b, core_answer(RC_READ_RESP_MIDDLE, CORE_QPN, psn, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
	core_pump(c);
}

static void reads__what_is_read_again_may_overtake(void **state)
{
	static const uint32_t order[] = {4, 3, 7, 5, 5, 6};
	struct core *c = given_five_to_read_again(state);

	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++)
		answer_again(c, order[i]);
	for (uint32_t psn = 3; psn < 8; psn++)
		expect_response(c, resp_opcode(psn - 3, 5), psn);
	core_wait(c, 50 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0); /* that was all */
	assert_int_equal(core_far(c)->nagains, 0);
}

/* One of them is lost on the responder's LAN: it is asked for from there on, soon; a responder that says nothing at all
 * is asked after LanTimeout, a few times, and the host does the rest. */
static void reads__what_is_lost_of_it_is_asked_for_soon(void **state)
{
	struct core *c = given_five_to_read_again(state);
	const struct core_pkt *k;

	answer_again(c, 3);
	answer_again(c, 5);
	core_wait(c, CORE_MS);
	k = core_expect(&c->b, RC_READ_REQUEST, 4);
	assert_int_equal(k->h.reth_len, 4 * CORE_PMTU);
	for (uint32_t tries = 0; tries < 2; tries++) {
		core_wait(c, c->b.cfg.lan_timeout_ns);
		core_expect(&c->b, RC_READ_REQUEST, 4);
	}
	core_wait(c, 20 * c->b.cfg.lan_timeout_ns);
	assert_int_equal(core_pending(&c->b), 0);
	for (uint32_t psn = 4; psn < 8; psn++)
		answer_again(c, psn);
	assert_int_equal(core_far(c)->nagains, 0);
}

/* rxe leaves MigReq clear, and answers no READ from before where it was asked last. */
static void rxe_answers(struct core *c, uint8_t opcode, uint32_t psn)
{
	struct roce_pkt h = core_answer(opcode, CORE_QPN, psn, AETH_ACK_NO_CREDITS, 2);

	h.migreq = false;
	core_in(&c->b, h, CORE_PMTU, 0);
	core_pump(c);
}

/* Answers took half a second, as whole READs did. The rest of one is lost on rxe's LAN, and its host asks for it: rxe is asked
 * at once, not in half a second. */
static void reads__what_the_host_lacks_is_asked_for_however_long_answers_took(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	core_near(c)->forward_only = core_far(c)->forward_only = true;
	core_far(c)->lan_srtt_ns = 500 * CORE_MS;
	ask(c, 2, 6, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	for (uint32_t i = 0; i < 3; i++)
		rxe_answers(c, resp_opcode(i, 6), 2 + i);
	core_forget(&c->a);
	core_wait(c, c->b.cfg.lan_timeout_ns + CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	ask(c, 2, 6, 5, true);
	core_expect(&c->b, RC_READ_REQUEST, 5);
	ask(c, 2, 6, 5, true); /* asked a moment ago */
	assert_int_equal(core_pending(&c->b), 0);
	core_forget(&c->a); /* it was held off */
	for (uint32_t i = 3; i < 6; i++)
		rxe_answers(c, resp_opcode(i, 6), 2 + i);
	assert_int_equal(core_pending(&c->a), 3);
}

/* A responder that has died in the middle of a READ, whose host asks again and again, sooner than the far edge would ask. */
static void reads__a_host_that_asks_again_does_not_keep_a_dead_responder(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	c->b.p->cfg.give_up_ns = 1000 * CORE_MS;
	core_near(c)->forward_only = core_far(c)->forward_only = true;
	core_far(c)->lan_srtt_ns = 500 * CORE_MS;
	ask(c, 2, 6, 2, true);
	for (uint32_t i = 0; i < 3; i++)
		rxe_answers(c, resp_opcode(i, 6), 2 + i);
	for (uint64_t ns = 0; ns <= 1000 * CORE_MS; ns += 100 * CORE_MS) {
		ask(c, 2, 6, 5, true);
		core_wait(c, 100 * CORE_MS);
		core_forget(&c->a);
		core_forget(&c->b);
	}
	assert_true(far_has_failed(core_far(c)));
}

/* The host of rxe has lost all of a READ. What is lost of it on the responder's LAN once more is asked for together with
 * what came: the host may lose that, too. A responder that does not answer, as its machine stands still, is asked for the same:
 * if it were asked for the rest, it would answer all of these in turn, and after that nothing from before the rest. */
static void reads__rest_that_an_edge_lacks_is_not_asked_of_rxe(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	unsigned n = 0;

	core_long_life(c);
	ask(c, 2, 6, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	for (uint32_t i = 0; i < 6; i++)
		rxe_answers(c, resp_opcode(i, 6), 2 + i);
	core_wait(c, 1100 * CORE_MS);
	core_forget(&c->a);
	assert_int_equal(ask(c, 2, 6, 2, true), DROP_LAN_READ_RETRY);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	core_forget(&c->a);
	rxe_answers(c, RC_READ_RESP_FIRST, 2);
	rxe_answers(c, RC_READ_RESP_MIDDLE, 4);
	core_wait(c, CORE_MS);
	assert_int_equal(core_expect(&c->b, RC_READ_REQUEST, 2)->h.reth_len, 6 * CORE_PMTU);
	rxe_answers(c, RC_READ_RESP_FIRST, 2);
	core_wait(c, 4 * c->b.cfg.lan_timeout_ns);
	for (const struct core_pkt *k; (k = core_take(&c->b)); n++)
		assert_true(k->h.opcode == RC_READ_REQUEST && k->h.psn == 2);
	assert_true(n > 1);
	for (uint32_t i = 1; i < 6; i++)
		rxe_answers(c, resp_opcode(i, 6), 2 + i);
	for (uint32_t i = 0; i < 6; i++)
		expect_response(c, resp_opcode(i, 6), 2 + i);
	assert_int_equal(core_far(c)->nagains, 0);
}

/* Likewise of a READ that was never answered whole, and of one of which the near edge has the beginning. */
static void reads__rxe_is_asked_from_where_its_host_asked_last(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	const struct core_pkt *k;

	core_long_life(c);
	ask(c, 2, 6, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	rxe_answers(c, RC_READ_RESP_FIRST, 2);
	rxe_answers(c, RC_READ_RESP_MIDDLE, 4);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_expect(&c->b, RC_READ_REQUEST, 2)->h.reth_len, 6 * CORE_PMTU);
	core_forget(&c->b);
	for (uint32_t i = 0; i < 6; i++)
		rxe_answers(c, resp_opcode(i, 6), 2 + i);
	core_forget(&c->a);
	core_wait(c, 1100 * CORE_MS);
	core_forget(&c->b);
	ask(c, 2, 6, 3, true);
	k = core_expect(&c->b, RC_READ_REQUEST, 3);
	assert_int_equal(k->h.reth_len, 5 * CORE_PMTU);
	rxe_answers(c, RC_READ_RESP_MIDDLE, 3);
	rxe_answers(c, RC_READ_RESP_MIDDLE, 4);
	core_wait(c, 2 * c->b.cfg.lan_timeout_ns);
	k = core_expect(&c->b, RC_READ_REQUEST, 3);
	assert_int_equal(k->h.reth_va, 0x7000 + CORE_PMTU);
}

/* READ_AGAIN for positions [pos, upto) of a READ of ten packets that the host asks for again from `from` on. */
static void read_again(struct core *c, uint32_t from, uint32_t pos, uint32_t upto)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, from);
	uint8_t buf[LAN_PKT_MAX];
	struct wan_read_again r = {.flow = core_far(c)->peer_flow,
	                           .inc = core_far(c)->inc,
	                           .pos = POS_ORIGIN + pos,
	                           .psns = upto - pos,
	                           .forward_only = true,
	                           .packet = buf};

	h.reth_va += (uint64_t)(from - 2) * CORE_PMTU;
	h.reth_len = (upto - from) * CORE_PMTU;
	r.packet_len = (uint16_t)roce_build(buf, sizeof(buf), &h, NULL, 0);
	far_on_again(c->b.p, lane_of(c->b.p, core_far(c)->lane), &r);
	core_pump(c);
}

/* Two parts of a READ are read again, the second since the host has asked from further on. rxe answers nothing before
 * that any more, so the first one is asked for from there, too, and never from further on than its host has asked. */
static void reads__what_rxe_was_asked_from_counts_for_all_of_a_read(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	const struct core_pkt *k;
	unsigned n = 0;

	core_long_life(c);
	ask(c, 2, 10, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	for (uint32_t i = 0; i < 10; i++)
		rxe_answers(c, resp_opcode(i, 10), 2 + i);
	core_wait(c, 1100 * CORE_MS);
	core_forget(&c->a);
	core_forget(&c->b);
	core_far(c)->forward_only = false; /* as after an eviction: the near edge knows it */
	read_again(c, 2, 8, 12);
	assert_int_equal(core_expect(&c->b, RC_READ_REQUEST, 2)->h.reth_len, 10 * CORE_PMTU);
	read_again(c, 5, 5, 8);
	assert_int_equal(core_expect(&c->b, RC_READ_REQUEST, 5)->h.reth_len, 3 * CORE_PMTU);
	core_wait(c, 20 * c->b.cfg.lan_timeout_ns);
	for (; (k = core_take(&c->b)); n += k->h.reth_len == 7 * CORE_PMTU) {
		assert_true(k->h.opcode == RC_READ_REQUEST && k->h.psn == 5);
		assert_true(k->h.reth_va == core_req(RC_READ_REQUEST, 5).reth_va + 3 * CORE_PMTU);
	}
	assert_true(n > 0);
}

/* A pool without room drops what the responder answers: it has answered, and is asked from the same place. */
static void reads__rxe_that_answers_in_vain_is_not_asked_for_the_rest(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	struct wan_resp_credit little = {.flow = core_far(c)->peer_flow, .inc = core_far(c)->inc, .round = 1};

	core_long_life(c);
	ask(c, 2, 6, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	rxe_answers(c, RC_READ_RESP_FIRST, 2);
	for (uint32_t i = 0; i < 10; i++) {
		little.round = 2 * i + 1;
		little.credit = POS_ORIGIN + 3;
		far_on_resp_credit(c->b.p, lane_of(c->b.p, core_far(c)->lane), &little);
		rxe_answers(c, RC_READ_RESP_MIDDLE, 3);
		little.round++;
		little.credit = RESP_CREDIT_ALL;
		far_on_resp_credit(c->b.p, lane_of(c->b.p, core_far(c)->lane), &little);
		core_wait(c, 20 * CORE_MS);
		for (const struct core_pkt *k; (k = core_take(&c->b));)
			assert_int_equal(k->h.psn, 2);
	}
	core_forget(&c->a);
}

/* How large a READ is does not matter for that, only how far back its host asked last. */
static void reads__rxe_is_asked_for_a_large_read_from_where_its_host_asked_last(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	struct wan_resp_credit little = {
	    .flow = core_far(c)->peer_flow, .inc = core_far(c)->inc, .round = 1000, .credit = POS_ORIGIN + 5};

	core_long_life(c);
	ask(c, 2, (4 << 20) / CORE_PMTU, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	rxe_answers(c, RC_READ_RESP_FIRST, 2);
	rxe_answers(c, RC_READ_RESP_MIDDLE, 3);
	far_on_resp_credit(c->b.p, lane_of(c->b.p, core_far(c)->lane), &little);
	rxe_answers(c, RC_READ_RESP_MIDDLE, 5);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_expect(&c->b, RC_READ_REQUEST, 2)->h.reth_len, 3 * CORE_PMTU);
	core_forget(&c->a);
	core_forget(&c->b);
}

/* rxe was asked for the rest of a READ, as its host had asked for that. The far edge forgets this when it is killed,
 * asks for all of the READ, which rxe does not answer, and hears from the near edge where the host is. */
static void killed_far_edge_hears_where_the_host_of_rxe_asked_last(void **state, bool rxe_is_known)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct roce_pkt ack = core_answer(RC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 1);
	const struct core_pkt *k;
	unsigned n = 0;

	core_send(c, RC_WRITE_FIRST, 0);
	core_send(c, RC_WRITE_LAST, 1);
	ack.migreq = false;
	core_in(&c->b, ack, 0, 0);
	core_wait(c, CORE_MS);
	core_forget(&c->a);
	core_forget(&c->b);
	core_long_life(c);
	ask(c, 2, 6, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	for (uint32_t i = 0; i < 3; i++) {
		rxe_answers(c, resp_opcode(i, 6), 2 + i);
		expect_response(c, resp_opcode(i, 6), 2 + i);
	}
	ask(c, 2, 6, 5, true);
	core_rebuild(&c->b);
	core_far(c)->forward_only = rxe_is_known;
	core_session(c);
	core_wait(c, 4 * c->b.cfg.lan_timeout_ns);
	core_forget(&c->b);
	for (uint32_t i = 0; i < 4; i++) {
		ask(c, 2, 6, 5, true);
		core_wait(c, 2 * c->b.cfg.lan_timeout_ns);
	}
	while ((k = core_take(&c->b)))
		n += k->h.opcode == RC_READ_REQUEST && k->h.psn == 5 && k->h.reth_len == 3 * CORE_PMTU &&
		     k->h.reth_va == 0x7000 + 3 * CORE_PMTU;
	assert_true(n > 0);
	core_forget(&c->a);
	for (uint32_t i = 3; i < 6; i++)
		rxe_answers(c, resp_opcode(i, 6), 2 + i);
	expect_response(c, RC_READ_RESP_FIRST, 5);
	expect_response(c, RC_READ_RESP_MIDDLE, 6);
	expect_response(c, RC_READ_RESP_LAST, 7);
	assert_int_equal(core_far(c)->nagains, 0);
}

static void reads__a_far_edge_that_was_killed_hears_where_the_host_of_rxe_asked_last(void **state)
{
	killed_far_edge_hears_where_the_host_of_rxe_asked_last(state, true);
}

/* CM has opened the flow: the far edge keeps no answer of the responder. */
static void reads__a_far_edge_that_was_killed_hears_of_rxe(void **state)
{
	killed_far_edge_hears_where_the_host_of_rxe_asked_last(state, false);
}

/* A host that repeats from a later READ on has had the one before, of which the responder says nothing any more. */
static void reads__a_later_row_of_repetitions_ends_the_earlier_one(void **state)
{
	const struct core_pkt *k;
	struct core *c = given_two_reads_freed(state);

	assert_int_equal(ask(c, 2, 3, 3, true), DROP_LAN_READ_RETRY);
	core_expect(&c->b, RC_READ_REQUEST, 3);
	core_wait(c, 5 * CORE_MS);
	core_forget(&c->a);
	assert_int_equal(ask(c, 5, 3, 5, true), DROP_LAN_READ_RETRY);
	k = core_expect(&c->b, RC_READ_REQUEST, 5);
	core_forget(&c->a);
	execute(c, k, 3);
	core_pump(c);
	for (uint32_t i = 0; i < 3; i++)
		expect_response(c, three[i], 5 + i);
	assert_int_equal(core_near(c)->repeats, 0);
}

/* A repeated request that later ones have overtaken on the host's LAN, or a copy of one, begins no row: the host still
 * lacks the READ that its row began with, and would never get it if that counted as given in every row. */
static void reads__an_overtaken_repetition_begins_no_row(void **state)
{
	static const uint32_t late[] = {5, 8, 5};
	struct core *c = given_two_reads_freed(state);
	const struct core_pkt *k;

	read_three(c, 8, 4);
	core_wait(c, 1100 * CORE_MS);
	core_forget(&c->a);
	assert_int_equal(ask(c, 2, 3, 2, true), DROP_LAN_READ_RETRY);
	k = core_expect(&c->b, RC_READ_REQUEST, 2);
	assert_int_equal(ask(c, 8, 3, 8, true), DROP_LAN_READ_RETRY);
	for (size_t i = 0; i < sizeof(late) / sizeof(*late); i++) {
		core_wait(c, c->a.cfg.reorder_ns - 1);
		assert_int_equal(ask(c, late[i], 3, late[i], true), DROP_LAN_READ_RETRY);
	}
	core_forget(&c->a);
	execute(c, k, 4);
	core_pump(c);
	for (uint32_t i = 0; i < 3; i++)
		expect_response(c, three[i], 2 + i);
}

/* Where packets may overtake each other for long, a host that asks again for a READ is not taken for overtaken by what
 * it asked for AGAIN_ROW_NS before: a row begins, and the host has had the READ before. */
static void reads__a_row_begins_whatever_the_reordering(void **state)
{
	struct core *c = given_two_reads_freed(state);

	c->a.cfg.reorder_ns = 20 * CORE_MS;
	assert_int_equal(proxy_reconfigure(c->a.p, &c->a.cfg, c->now_ns), 0);
	assert_int_equal(ask(c, 2, 3, 2, true), DROP_LAN_READ_RETRY);
	assert_int_equal(ask(c, 5, 3, 5, true), DROP_LAN_READ_RETRY);
	assert_int_equal(core_near(c)->repeats, 2);
	core_wait(c, 5 * CORE_MS);
	assert_int_equal(ask(c, 5, 3, 5, true), DROP_LAN_READ_RETRY);
	assert_int_equal(core_near(c)->repeats, 1);
}

/* Its one response was all of it: that tells no PMTU, but what it owns. */
static void reads__one_response_is_read_again_without_a_pmtu(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_long_life(c);
	assert_int_equal(ask(c, 1, 1, 1, true), DROP_NONE);
	core_expect(&c->b, RC_READ_REQUEST, 1);
	respond(c, RC_READ_RESP_ONLY, 1, 2);
	expect_response(c, RC_READ_RESP_ONLY, 1);
	assert_int_equal(core_near(c)->pmtu, 0);
	core_wait(c, 1100 * CORE_MS);
	assert_int_equal(ask(c, 1, 1, 1, true), DROP_LAN_READ_RETRY);
	k = core_expect(&c->b, RC_READ_REQUEST, 1);
	assert_int_equal(k->h.reth_len, CORE_PMTU);
	core_forget(&c->a); /* it was sent away */
	respond(c, RC_READ_RESP_ONLY, 1, 2);
	expect_response(c, RC_READ_RESP_ONLY, 1);
}

static void reads__a_lost_request_to_read_again_goes_once_more(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	read_three(c, 2, 2);
	core_wait(c, 1100 * CORE_MS);
	c->cut = true;
	ask(c, 2, 3, 2, true);
	assert_int_equal(core_pending(&c->b), 0);
	c->cut = false;
	core_wait(c, 20 * CORE_MS);
	core_expect(&c->b, RC_READ_REQUEST, 2);
}

/* A READ larger than the pools: the far edge takes responses as it has room, and asks the responder for the rest in
 * parts; the near edge gives them to the host as they come. */
static void reads__one_that_is_larger_than_the_pool(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 12);
	uint32_t n = (uint32_t)(2 * arena_capacity(c->b.p->arena, POOL_LAN) / CORE_PMTU), next = 2, parts = 0;
	const struct core_pkt *k;

	core_pair_with_pmtu(c);
	ask(c, 2, n, 2, true);
	for (uint32_t rounds = 0; next < 2 + n; rounds++) {
		assert_true(rounds < 2000);
		while ((k = core_take(&c->b))) {
			if (k->h.opcode != RC_READ_REQUEST)
				continue;
			assert_true(parts == 0 || k->h.psn > 2); /* once whole, and then the rest */
			parts++;
			c->cut = true; /* it is quicker than the WAN */
			execute(c, k, 2);
			c->cut = false;
		}
		core_wait(c, CORE_MS);
		while ((k = core_take(&c->a))) {
			if (k->h.opcode == RC_ACK)
				continue;
			assert_int_equal(k->h.psn, next);
			assert_memory_equal(k->l3 + k->h.hdr_len, core_payload(0, next), CORE_PMTU);
			next++;
		}
	}
	assert_in_range(parts, 2, 100);
	core_wait(c, 1100 * CORE_MS);
	assert_null(near_op_open(core_near(c)));
	assert_int_equal(c->a.p->reserved_bytes, 0);
	assert_int_equal(arena_used(c->a.p->arena, POOL_WAN), 0);
	assert_int_equal(arena_used(c->b.p->arena, POOL_LAN), 0);
}

/* The pool is full of this READ's later responses and of other packets. The response that the host waits for finds room
 * nevertheless, and the response freed for it is read again. */
static void reads__next_response_finds_a_place_in_a_full_pool(void **state)
{
	bool lose = true;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	const struct core_pkt *k;

	c->arg = &lose;
	c->wan = lose_responses;
	ask(c, 2, 4, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	respond(c, RC_READ_RESP_FIRST, 2, 2);
	lose = false;
	respond(c, RC_READ_RESP_MIDDLE, 3, 2);
	respond(c, RC_READ_RESP_MIDDLE, 4, 2);
	respond(c, RC_READ_RESP_LAST, 5, 2);
	for (uint32_t i = 0; slot_take(c->a.p, SLOT_RAW_WAN, 0, 0, i, LAN_PKT_MAX, 0, true) != SLOT_NONE; i++)
		;
	for (uint32_t i = 0; slot_take(c->a.p, SLOT_RAW_WAN, 0, 0, 100000 + i, 100, 0, true) != SLOT_NONE; i++)
		;
	core_wait(c, 20 * CORE_MS);
	for (uint32_t psn = 2; psn < 5; psn++)
		assert_int_equal(core_take(&c->a)->h.psn, psn);
	k = core_expect(&c->b, RC_READ_REQUEST, 5);
	assert_int_equal(k->h.reth_len, CORE_PMTU);
	execute(c, k, 2);
	core_wait(c, CORE_MS);
	expect_response(c, RC_READ_RESP_LAST, 5);
}

/* Of a READ that is larger than what it may have here the first responses are lost. What fills their places is not what
 * lies far beyond: there would be no room for what comes in between. */
static void reads__nothing_beyond_the_window_is_taken(void **state)
{
	bool lose = true;
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 12);
	uint32_t n, most = 0, beyond = 0;
	struct roce_pkt h;

	core_pair_with_pmtu(c);
	n = (uint32_t)(arena_capacity(c->a.p->arena, POOL_WAN) / arena_class_bytes(CORE_PMTU + 60));
	ask(c, 2, n, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	most = near_reserve_most(c->a.p, core_near(c), near_op_open(core_near(c)));
	core_far(c)->resp_credit = RESP_CREDIT_ALL; /* it sends all of it */
	c->arg = &lose;
	c->wan = lose_responses;
	for (uint32_t i = 0; i < most + 40 && i < n - 1; i++) {
		lose = i < 20;
		h = core_answer(i ? RC_READ_RESP_MIDDLE : RC_READ_RESP_FIRST, CORE_QPN, 2 + i, AETH_ACK_NO_CREDITS, 2);
		core_in(&c->b, h, CORE_PMTU, 0);
		core_pump(c);
	}
	for (uint32_t i = 0; i < n; i++)
		if (arena_find(c->a.p->arena, SLOT_RESP_NEAR, core_near(c)->idx, POS_ORIGIN + 2 + i) != SLOT_NONE)
			beyond += POS_ORIGIN + 2 + i >= near_op_open(core_near(c))->next + most;
	assert_int_equal(beyond, 0);
	c->wan = NULL;
}

/* --- RESP_CREDIT --- */

static void grant(struct core *c, uint32_t round, uint64_t credit)
{
	struct wan_resp_credit g = {
	    .flow = core_far(c)->peer_flow, .inc = core_far(c)->inc, .round = round, .credit = credit};

	far_on_resp_credit(c->b.p, &c->b.p->wan->lanes[core_far(c)->lane], &g);
	core_pump(c);
}

/* The responses [from, upto) of a READ that owns [2, 12). */
static void respond_of_ten(struct core *c, uint32_t from, uint32_t upto)
{
	for (uint32_t psn = from; psn < upto; psn++)
		core_in(&c->b,
		        core_answer(resp_opcode(psn - from, upto - from), CORE_QPN, psn, AETH_ACK_NO_CREDITS, 2),
		        CORE_PMTU, 0);
	core_pump(c);
}

static void expect_part(struct core *c, uint32_t psn, uint32_t n)
{
	const struct core_pkt *k = core_expect(&c->b, RC_READ_REQUEST, psn);

	assert_int_equal(k->h.reth_len, n * CORE_PMTU);
	assert_int_equal(k->h.reth_va, 0x7000 + (psn - 2) * CORE_PMTU);
}

static void reads__responses_beyond_the_credit_are_read_when_there_is_one(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	struct wan_resp_credit none = {.flow = core_far(c)->peer_flow, .inc = core_far(c)->inc, .credit = RESP_CREDIT_ALL};

	ask(c, 2, 10, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	grant(c, 1, POS_ORIGIN + 2 + 3);
	respond_of_ten(c, 2, 12);
	assert_int_equal(core_pending(&c->a), 3);
	assert_int_equal(core_drops(&c->b, DROP_LAN_RESP_CREDIT), 7);
	core_wait(c, 50 * CORE_MS);
	assert_int_equal(arena_used(c->b.p->arena, POOL_LAN), 0);
	assert_int_equal(core_pending(&c->b), 0);

	grant(c, 2, POS_ORIGIN + 2 + 5);
	expect_part(c, 5, 2);
	grant(c, 1, RESP_CREDIT_ALL); /* it was overtaken */
	grant(c, 2, RESP_CREDIT_ALL); /* a copy */
	far_on_resp_credit(c->b.p, &c->b.p->wan->lanes[core_far(c)->lane], &none); /* rounds begin at 1 */
	assert_int_equal(core_drops(&c->b, DROP_WAN_BAD_FRAME), 1);
	respond_of_ten(c, 5, 7);
	assert_int_equal(core_pending(&c->a), 5);
	assert_int_equal(core_pending(&c->b), 0);

	grant(c, 3, RESP_CREDIT_ALL);
	expect_part(c, 7, 5);
	respond_of_ten(c, 7, 12);
	assert_int_equal(core_pending(&c->a), 10);
	assert_true(core_far(c)->pos_acked == POS_ORIGIN + 12);
}

/* Its host takes its time: the responder, which is asked nothing, is not called silent for it. */
static void reads__who_waits_for_credit_does_not_fail(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	ask(c, 2, 10, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	grant(c, 1, POS_ORIGIN + 2 + 3);
	respond_of_ten(c, 2, 12);
	core_send(c, RC_WRITE_ONLY, 12);
	core_wait(c, 2 * c->b.cfg.give_up_ns);
	assert_false(far_has_failed(core_far(c)));
	assert_false(core_far(c)->stalled);
	core_forget(&c->b);
	grant(c, 2, RESP_CREDIT_ALL);
	expect_part(c, 5, 7);
}

/* What the near edge has room for it says, again in each session, and no longer when the READ is over. */
static void reads__the_near_edge_grants_what_it_has_room_for(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 8);
	uint32_t most, packets;

	core_pair_with_pmtu(c);
	ask(c, 2, 2, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	assert_true(core_far(c)->resp_credit == RESP_CREDIT_ALL); /* it is small */
	respond(c, RC_READ_RESP_FIRST, 2, 2);
	most = near_reserve_most(c->a.p, core_near(c), near_op_open(core_near(c)));
	respond(c, RC_READ_RESP_LAST, 3, 2);
	core_forget(&c->a);

	packets = 2 * most;
	ask(c, 4, packets, 4, true);
	core_expect(&c->b, RC_READ_REQUEST, 4);
	assert_true(core_far(c)->resp_credit == POS_ORIGIN + 4 + most / 4 * 5);
	core_session(c);
	core_pump(c);
	assert_true(core_far(c)->resp_credit == POS_ORIGIN + 4 + most / 4 * 5);
	core_wait(c, CORE_MS);
	core_forget(&c->b);
	for (uint32_t i = 0; i < packets; i++)
		respond(c, resp_opcode(i, packets), 4 + i, 3);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_ctr(&c->b, CTR_WAN_REFUSED), 0);
	assert_true(core_far(c)->resp_credit == RESP_CREDIT_ALL);
	assert_int_equal(core_near(c)->ops_done, 2);
}

/* --- no record outlives its host --- */

/* The first response is lost for good, as the far edge has lost its memory of it, and the host has died. */
static void reads__answers_to_a_host_that_is_gone_go(void **state)
{
	bool lose = true;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	c->arg = &lose;
	c->wan = lose_responses;
	ask(c, 2, 3, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	respond(c, RC_READ_RESP_FIRST, 2, 2);
	lose = false;
	respond(c, RC_READ_RESP_MIDDLE, 3, 2);
	lose = true;
	core_wait(c, 20 * CORE_MS);
	assert_int_equal(core_near(c)->resp_bytes, arena_class_bytes(CORE_PMTU + 60));
	c->cut = true;
	core_wait(c, 29000 * CORE_MS);
	assert_int_equal(core_near(c)->resp_bytes, arena_class_bytes(CORE_PMTU + 60));
	core_wait(c, 2000 * CORE_MS);
	assert_int_equal(core_near(c)->resp_bytes, 0);
	assert_int_equal(arena_used(c->a.p->arena, POOL_WAN), 0);
}

static void reads__of_an_old_life_hold_up_nothing(void **state)
{
	struct near_flow *f;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	ask(c, 2, 3, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	respond(c, RC_READ_RESP_FIRST, 2, 2);
	f = near_succeed(c->a.p, core_near(c), 500, 0);
	assert_non_null(f);
	assert_null(f->older);
	core_wait(c, 1100 * CORE_MS);
	assert_int_equal(arena_used(c->a.p->arena, POOL_WAN), 0);
	assert_int_equal(c->a.p->reserved_bytes, 0);
}

/* With a PMTU of 256 two gigabytes are half of all PSNs. */
static void reads__of_too_many_psns_are_refused(void **state)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, 2);
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_near(c)->pmtu = 256;
	h.reth_len = 1u << 31;
	assert_int_equal(core_in(&c->a, h, 0, 0), DROP_LAN_BAD_LENGTH);
	core_pump(c);
	core_expect_aeth(&c->a, 2, AETH_NAK_INV_REQ);
	assert_int_equal(core_pending(&c->b), 0);
	assert_true(core_near(c)->state == NEAR_FAILED);
}

/* --- a peer without room --- */

static void reads__what_is_refused_again_and_again_is_paced(void **state)
{
	bool lose = true;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	uint64_t before;

	c->arg = &lose;
	c->wan = lose_responses;
	c->b.p->cfg.rate_hint_bps = 1000000000;
	ask(c, 2, 100, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	respond(c, RC_READ_RESP_FIRST, 2, 2);
	near_reserve_leave(c->a.p, core_near(c));
	c->a.p->reserved_bytes = arena_capacity(c->a.p->arena, POOL_WAN); /* as if for others */
	for (uint32_t i = 1; i < 100; i++)
		core_in(&c->b,
		        core_answer(RC_READ_RESP_MIDDLE, CORE_QPN, 2 + i, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
	c->wan = all_but_the_first;
	core_wait(c, 100 * CORE_MS);
	before = core_ctr(&c->b, CTR_WAN_REFUSED);
	assert_true(before > 0);
	core_wait(c, 100 * CORE_MS);
	/* 1.6 % of the line are 1,600 of them a second; each 500 us it would be 200,000 */
	assert_in_range(core_ctr(&c->b, CTR_WAN_REFUSED) - before, 20, 400);
	c->a.p->reserved_bytes = 0;
	core_wait(c, 100 * CORE_MS); /* and quick again as soon as there is room */
	assert_true(core_near(c)->resp_bytes >= 90 * arena_class_bytes(CORE_PMTU + 60)); /* some go with the first */
	c->wan = NULL;
}

/* The near edge is sent what its host waits for first, whichever of the refused ones may go. */
static void reads__of_those_refused_the_first_goes_first(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	struct slot_meta *m;
	uint32_t slot[6];

	for (uint32_t i = 0; i < 6; i++) {
		slot[i] = slot_take(c->b.p, SLOT_RESP_FAR, core_far(c)->idx, core_far(c)->inc, 100 + 2 * i, 100, 0, false);
		m = arena_meta(c->b.p->arena, slot[i]);
		m->queued = i == 1 ? SQ_REPAIR : SQ_REFUSED;
	}
	c->b.p->now_ns += 1000 * CORE_MS;
	assert_int_equal(far_refused_first(c->b.p, slot[5]), slot[0]);
	arena_meta(c->b.p->arena, slot[0])->queued = SQ_REPAIR;
	assert_int_equal(far_refused_first(c->b.p, slot[5]), slot[2]); /* the second one is under way */
	arena_meta(c->b.p->arena, slot[2])->due_ns = c->b.p->now_ns + 1;
	arena_meta(c->b.p->arena, slot[0])->queued = SQ_REFUSED;
	assert_int_equal(far_refused_first(c->b.p, slot[5]), slot[3]); /* each once in a round trip */
	c->b.p->now_ns += proxy_rtt_ns(c->b.p);
	assert_int_equal(far_refused_first(c->b.p, slot[5]), slot[0]);
	slot_release(c->b.p, slot[0]);
	slot_release(c->b.p, slot[1]);
	c->b.p->now_ns += proxy_rtt_ns(c->b.p);
	assert_int_equal(far_refused_first(c->b.p, slot[5]), slot[2]);
	assert_int_equal(core_far(c)->resp_una, 104);
	for (uint32_t i = 2; i < 6; i++)
		slot_release(c->b.p, slot[i]);
}

static void reads__a_pool_that_stays_full_is_an_event(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	struct proxy_link_status s;
	uint32_t slot, last = SLOT_NONE;

	for (uint32_t i = 0; (slot = slot_take(c->a.p, SLOT_RAW_WAN, 0, 0, i, 1000, 0, false)) != SLOT_NONE; i++)
		last = slot;
	core_wait(c, 4000 * CORE_MS);
	assert_false(core_event(&c->a, EV_POOL_STUCK));
	core_wait(c, 3000 * CORE_MS);
	assert_true(core_event(&c->a, EV_POOL_STUCK));
	proxy_link_status(c->a.p, c->now_ns, &s);
	assert_true(s.pool_stuck[POOL_WAN]);
	assert_false(s.pool_stuck[POOL_LAN]);
	slot_release(c->a.p, last);
	core_wait(c, 2000 * CORE_MS);
	proxy_link_status(c->a.p, c->now_ns, &s);
	assert_false(s.pool_stuck[POOL_WAN]);
}

/* --- when records are scarce --- */

/* Others have taken all but so many percent of the records. */
static void take_records(struct core *c, enum rd_op_use leave)
{
	while (rd_op_left(c->a.p, leave))
		assert_non_null(rd_op_take(c->a.p, leave));
}

/* n ATOMICs at once, and their answers in one burst, as after a pair was learned late. */
static void burst_of_atomics(struct core *c, uint32_t psn, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(core_send(c, RC_FETCH_ADD, psn + i), DROP_NONE);
	for (uint32_t i = 0; i < n; i++)
		core_expect(&c->b, RC_FETCH_ADD, psn + i);
	for (uint32_t i = 0; i < n; i++)
		respond(c, RC_ATOMIC_ACK, psn + i, psn + i);
	for (uint32_t i = 0; i < n; i++)
		core_expect(&c->a, RC_ATOMIC_ACK, psn + i);
}

/* The host's timeout has overtaken a burst of answers: it asks for all of them again, and must get them, however many
 * other flows keep theirs. */
static void reads__scarcity_forgets_nothing_that_a_host_may_ask_for(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	take_records(c, OP_FOR_KEPT);
	core_long_life(c);
	burst_of_atomics(c, 2, 128);
	core_wait(c, 70 * CORE_MS);
	core_forget(&c->a);
	for (uint32_t psn = 2; psn < 2 + 128; psn++) {
		assert_int_equal(core_send(c, RC_FETCH_ADD, psn), DROP_LAN_READ_RETRY);
		assert_true(core_expect(&c->a, RC_ATOMIC_ACK, psn)->h.atomic_orig == 0x1122334455667788u + psn);
	}
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 400 * CORE_MS); /* none of them holds a record longer than it must */
	assert_int_equal(core_near(c)->nops, 0);
}

/* Memory is scarce, too, when all chunks are taken, by little in each of them. */
static void reads__what_is_kept_gives_way_when_chunks_are_scarce(void **state)
{
	struct core_scatter small;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	read_three(c, 2, 2);
	core_wait(c, 1000 * CORE_MS);
	assert_int_equal(core_near(c)->nops, 1);
	core_scatter(c, &small);
	core_wait(c, 600 * CORE_MS);
	assert_int_equal(core_near(c)->nops, 0);
	core_gather(c, &small);
}

/* No record is left for one more: its host is sent away until old answers may go, and no answer goes for it. */
static void reads__without_a_record_the_host_waits(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	burst_of_atomics(c, 2, 20);
	take_records(c, OP_FOR_NEAR);
	assert_int_equal(core_send(c, RC_FETCH_ADD, 22), DROP_LAN_READS_FULL);
	k = core_expect(&c->a, RC_ACK, 22);
	assert_int_equal(k->h.aeth_syndrome & AETH_TYPE_MASK, AETH_RNR_NAK);
	assert_int_equal(core_send(c, RC_FETCH_ADD, 2), DROP_LAN_READ_RETRY);
	core_expect(&c->a, RC_ATOMIC_ACK, 2);
	core_wait(c, 800 * CORE_MS);
	core_forget(&c->a);
	assert_int_equal(core_send(c, RC_FETCH_ADD, 22), DROP_NONE);
	core_expect(&c->b, RC_FETCH_ADD, 22);
}

/* An ATOMIC is repeated whose answer is not kept any more. Nobody here can tell what it was: the responder gets it, which
 * executes no ATOMIC twice, and nothing is said before it has answered. */
static void reads__a_forgotten_answer_is_the_responders_to_give_again(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	burst_of_atomics(c, 2, 3);
	core_wait(c, 11000 * CORE_MS);
	core_forget(&c->a);
	core_forget(&c->b);
	assert_int_equal(core_near(c)->nops, 0);
	assert_int_equal(core_send(c, RC_FETCH_ADD, 3), DROP_NONE);
	core_pump(c);
	assert_int_equal(core_ctr(&c->a, CTR_DOUBTS), 1);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_pending(&c->b), 1);
}

/* An ATOMIC that began the flow before its base moved below it waits beyond a gap; when it goes for want of room, its
 * record goes with it. */
static void reads__what_is_given_up_beyond_a_gap_leaves_no_record(void **state)
{
	struct core *c = given_an_atomic_beyond_a_gap(state);

	assert_int_equal(core_near(c)->nops, 1);
	near_drop_held(c->a.p, core_near(c),
	               arena_find(c->a.p->arena, SLOT_REQ_NEAR, core_near(c)->idx, POS_ORIGIN + 1));
	assert_int_equal(core_near(c)->nops, 0);
	assert_null(near_op_open(core_near(c)));
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 0), DROP_NONE);
	assert_int_equal(core_send(c, RC_FETCH_ADD, 1), DROP_NONE);
	expect_write_and_atomic(c);
}

/* --- asking again --- */

/* A host that goes back asks for everything behind too: each is given once more, not once for each that is before
 * it. */
static void reads__a_repeated_request_costs_its_own_answer(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	for (uint32_t i = 0; i < 8; i++)
		read_three(c, 2 + 3 * i, 2 + i);
	core_wait(c, 2 * CORE_MS);
	core_forget(&c->a);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(ask(c, 2 + 3 * i, 3, 2 + 3 * i, true), DROP_LAN_READ_RETRY);
	for (uint32_t psn = 2; psn < 2 + 24; psn++)
		expect_response(c, three[(psn - 2) % 3], psn);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_pending(&c->b), 0);
}

/* Only the one that was lost is asked for: only it is given. */
static void reads__what_was_not_asked_for_is_not_repeated(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	read_three(c, 2, 2);
	read_three(c, 5, 3);
	core_wait(c, 2 * CORE_MS);
	core_forget(&c->a);
	ask(c, 2, 3, 3, true);
	expect_response(c, RC_READ_RESP_FIRST, 3);
	expect_response(c, RC_READ_RESP_LAST, 4);
	assert_int_equal(core_pending(&c->a), 0);
}

/* A repeated request and its answer have crossed: the host has the answer, and does not ask again. The repeated answer
 * that is owed does not hold back ACKs for long. */
static void reads__a_repetition_that_nobody_lacks_ends(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	read_three(c, 2, 2);
	core_wait(c, 1100 * CORE_MS);
	ask(c, 2, 3, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	core_forget(&c->a);
	assert_int_equal(core_near(c)->repeats, 1);
	core_send(c, RC_WRITE_ONLY, 5); /* the responder has lost that request; its host goes on */
	core_wait(c, 200 * CORE_MS);
	assert_int_equal(core_near(c)->repeats, 0);
	core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS);
}

/* As before, but the host's retries last for some milliseconds only. It repeats from the WRITE on, so it has had the
 * answer: the WRITE is ACKed then. */
static void reads__repeated_write_behind_one_ends_its_repetition(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	read_three(c, 2, 2);
	core_wait(c, 1100 * CORE_MS);
	ask(c, 2, 3, 2, true);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 5);
	assert_int_equal(core_near(c)->repeats, 1);
	core_wait(c, 2 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	core_send(c, RC_WRITE_ONLY, 5);
	assert_int_equal(core_near(c)->repeats, 0);
	core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS);
}

/* The host repeats the READ and a long row of WRITEs behind it, of which one is overtaken on the LAN. That says nothing
 * of the READ, and nor does a READ at the end of the row. */
static void reads__repeated_writes_of_the_same_row_end_no_repetition(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	read_three(c, 2, 2);
	for (uint32_t psn = 5; psn < 15; psn++)
		core_send(c, RC_WRITE_ONLY, psn);
	core_forget(&c->a);
	core_forget(&c->b);
	read_three(c, 15, 13);
	core_wait(c, 1100 * CORE_MS);
	ask(c, 2, 3, 2, true);
	core_wait(c, 2 * CORE_MS); /* a slow host */
	core_forget(&c->a);
	for (uint32_t psn = 5; psn < 15; psn++) {
		core_send(c, RC_WRITE_ONLY, psn == 9 ? 10 : psn == 10 ? 9 : psn);
		assert_int_equal(core_near(c)->repeats, 1);
		core_wait(c, CORE_MS / 2);
	}
	ask(c, 15, 3, 15, true);
	assert_int_equal(core_near(c)->repeats, 2);
}

/* It does not end while nobody can give what the host may lack: each ACK would cost the host one of its retries. */
static void reads__a_repetition_outlasts_a_cut_line(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	read_three(c, 2, 2);
	core_wait(c, 1100 * CORE_MS);
	lose_the_line(c);
	ask(c, 2, 3, 2, true);
	core_wait(c, 500 * CORE_MS);
	assert_int_equal(core_near(c)->repeats, 1);
}

/* A host that sends without a pause goes back, further than reordering does, to the WRITE behind the READ. */
static void reads__busy_host_that_goes_back_has_the_answer(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	read_three(c, 2, 2);
	core_wait(c, 1100 * CORE_MS);
	ask(c, 2, 3, 2, true);
	for (uint32_t psn = 5; psn < 105; psn++) {
		core_send(c, RC_WRITE_ONLY, psn);
		core_wait(c, CORE_MS / 4);
	}
	core_forget(&c->b);
	assert_int_equal(core_near(c)->repeats, 1);
	core_send(c, RC_WRITE_ONLY, 5);
	assert_int_equal(core_near(c)->repeats, 0);
}

/* A packet behind an open READ is lost twice. Each NAK has the PSN of the READ, so the host begins with that. */
static void reads__packet_lost_twice_behind_one_is_naked_twice(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	core_near(c)->rnr_retry = 1; /* so it gets no RNR NAK for the READ */
	ask(c, 2, 3, 2, true);
	core_send(c, RC_WRITE_ONLY, 6);
	core_send(c, RC_WRITE_ONLY, 7);
	core_wait(c, 2 * c->a.cfg.reorder_ns);
	core_expect_aeth(&c->a, 2, AETH_NAK_PSN_SEQ);
	core_wait(c, 5 * CORE_MS);
	core_forget(&c->a);
	ask(c, 2, 3, 2, true);
	core_send(c, RC_WRITE_ONLY, 6);
	core_send(c, RC_WRITE_ONLY, 7);
	core_wait(c, 2 * c->a.cfg.reorder_ns);
	core_expect_aeth(&c->a, 2, AETH_NAK_PSN_SEQ);
}

/* The host has asked for two READs again. The responder says nothing of the first, which ends: the second, which is
 * here, was waiting behind it and is given. Else it would be owed for ever and hold back the ACK of the WRITE, if the
 * host has both answers and repeats the WRITE alone. */
static void reads__what_waits_behind_one_that_ends_is_given(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	read_three(c, 2, 2);
	core_wait(c, 1100 * CORE_MS);
	read_three(c, 5, 3);
	ask(c, 2, 3, 2, true);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	ask(c, 5, 3, 5, true);
	core_forget(&c->a);
	assert_int_equal(core_near(c)->repeats, 2);
	core_send(c, RC_WRITE_ONLY, 8);
	core_wait(c, 900 * CORE_MS);
	core_send(c, RC_WRITE_ONLY, 8);
	assert_int_equal(core_near(c)->repeats, 0);
	for (uint32_t i = 0; i < 3; i++)
		expect_response(c, three[i], 5 + i);
	core_expect_aeth(&c->a, 8, AETH_ACK_NO_CREDITS);
}

/* Two READs and a WRITE were answered and ACKed; the host has lost some of the first, and that is not to be had again in
 * time. No ACK may name the first READ: rxe would complete it with whatever is in its memory. */
static void reads__no_ack_names_one_that_the_host_lacks(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	const struct core_pkt *k;

	core_long_life(c);
	read_three(c, 2, 2);
	read_three(c, 5, 3);
	core_send(c, RC_WRITE_ONLY, 8);
	core_ack(c, 8, AETH_ACK_NO_CREDITS, 4);
	core_wait(c, 1100 * CORE_MS);
	ask(c, 2, 3, 2, true); /* the responder does not answer */
	core_forget(&c->a);
	assert_int_equal(core_near(c)->repeats, 1);
	for (int i = 0; i < 200 && core_near(c)->repeats; i++)
		core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_near(c)->repeats, 0);
	assert_int_equal(core_near(c)->nops, 2);
	core_near(c)->pos_last_rx = core_near(c)->pos_base + 2; /* it asks in order, and has got no further */
	near_ack_schedule(c->a.p, core_near(c), DUE_ACK);
	core_wait(c, CORE_MS);
	while ((k = core_take(&c->a)))
		assert_false(k->h.opcode == RC_ACK && (k->h.aeth_syndrome & AETH_TYPE_MASK) == AETH_ACK && k->h.psn >= 2 && k->h.psn < 8);
}

/* The host loses another of the repeated responses at once, and asks from its PSN, where it expects a FIRST. */
static void reads__asked_from_further_on_is_no_copy(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	read_three(c, 2, 2);
	core_wait(c, 2 * CORE_MS);
	core_forget(&c->a);
	ask(c, 2, 3, 3, true);
	expect_response(c, RC_READ_RESP_FIRST, 3);
	expect_response(c, RC_READ_RESP_LAST, 4);
	c->now_ns += 1000;
	ask(c, 2, 3, 3, true); /* a copy of the request */
	assert_int_equal(core_pending(&c->a), 0);
	ask(c, 2, 3, 4, true);
	expect_response(c, RC_READ_RESP_ONLY, 4);
}

/* The first packet of a host asks for the rest of a READ, whose beginning the host had from an edge that has lost its
 * arena. The packet looks like a READ of its own. The edge cannot tell whether the responder's MSN counts that READ,
 * and a NAK in front of it would have to carry the MSN. So the gap behind the READ is NAKed when the MSN is known. */
static void reads__gap_behind_what_may_be_the_rest_of_one(void **state)
{
	struct core *c = core_given(state, ACK_MODE_FAR);
	const struct core_pkt *k;

	assert_int_equal(ask(c, 40, 3, 41, true), DROP_NONE);
	core_expect(&c->b, RC_READ_REQUEST, 41);
	respond(c, RC_READ_RESP_FIRST, 41, 50);
	expect_response(c, RC_READ_RESP_FIRST, 41);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 43), DROP_NONE);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 45), DROP_NONE);
	core_wait(c, 2 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	respond(c, RC_READ_RESP_LAST, 42, 50);
	expect_response(c, RC_READ_RESP_LAST, 42);
	core_wait(c, 2 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0); /* the responder may have meant 43 as well */
	core_ack(c, 43, AETH_ACK_NO_CREDITS, 51);
	k = core_expect(&c->a, RC_ACK, 44);
	assert_int_equal(k->h.aeth_syndrome, AETH_NAK_PSN_SEQ);
	assert_int_equal(k->h.aeth_msn, 51);
}

/* The gap is not NAKed right behind that READ, either: its response may count requests executed behind the READ. */
static void reads__gap_right_behind_what_may_be_the_rest_of_one(void **state)
{
	struct core *c = core_given(state, ACK_MODE_FAR);

	assert_int_equal(ask(c, 40, 3, 41, true), DROP_NONE);
	core_expect(&c->b, RC_READ_REQUEST, 41);
	respond(c, RC_READ_RESP_FIRST, 41, 51);
	expect_response(c, RC_READ_RESP_FIRST, 41);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 44), DROP_NONE);
	respond(c, RC_READ_RESP_LAST, 42, 51);
	expect_response(c, RC_READ_RESP_LAST, 42);
	core_wait(c, 2 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
}

/* A ConnectX is sent away if this takes long; an rxe that has had the beginning fails its QP on anything but a response. */
static void reads__what_may_be_the_rest_of_one_is_no_place_for_rxe(void **state)
{
	for (int i = 0; i < 4; i++) {
		struct core *c = core_given(state, ACK_MODE_NEAR);
		struct rd_op *op;
		int migreq = i % 2;

		assert_int_equal(ask(c, 40, 3, 41, migreq), DROP_NONE);
		core_expect(&c->b, RC_READ_REQUEST, 41);
		respond(c, RC_READ_RESP_FIRST, 41, 50);
		core_wait(c, 110 * CORE_MS);
		core_forget(&c->a);
		op = near_op_open(core_near(c));
		op->next = op->pos; /* as if it had got lost on the WAN, and the pair had not */
		core_near(c)->begins_inside = i > 1; /* known, as for a flow that succeeds one in doubt */
		near_ack_schedule(c->a.p, core_near(c), DUE_RNR);
		core_pump(c);
		assert_int_equal(core_pending(&c->a), migreq);
		core_done(state);
		*state = NULL;
	}
}

/* --- holding off --- */

/* Once the host has asked again, an RNR NAK at the place that it asked from keeps it. Not before. */
static void reads__begun_read_is_held_off_once_asked_again(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	begin_read(c, true);
	lose_the_line(c);
	core_in(&c->a, core_req(RC_WRITE_ONLY, 5), CORE_PMTU, 0);
	near_ack_schedule(c->a.p, core_near(c), DUE_RNR);
	core_pump(c);
	assert_int_equal(core_pending(&c->a), 0);
	ask(c, 2, 3, 3, true);
	k = core_expect(&c->a, RC_ACK, 3);
	assert_int_equal(k->h.aeth_syndrome & AETH_TYPE_MASK, AETH_RNR_NAK);
	assert_int_equal(k->h.aeth_msn, 2);
	c->cut = false;
	core_wait(c, 20 * CORE_MS);
	expect_the_rest(c);
	core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS);
}

/* Responses that a host had asked for again came after all, late. The host asks from a later PSN, and the RNR NAK must
 * carry that PSN: the host ignores an RNR NAK of a PSN that it has, and would repeat until its retries are used up. */
static void reads__asked_from_further_on_is_held_off_there(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	const struct core_pkt *k;

	core_long_life(c);
	read_three(c, 2, 2);
	core_wait(c, 1100 * CORE_MS); /* none of it is here any more */
	lose_the_line(c);
	for (uint32_t psn = 3; psn < 5; psn++) {
		ask(c, 2, 3, psn, true);
		k = core_expect(&c->a, RC_ACK, psn);
		assert_int_equal(k->h.aeth_syndrome & AETH_TYPE_MASK, AETH_RNR_NAK);
		core_wait(c, CORE_MS);
	}
}

/* rxe ends its QP on anything but a response within a READ, and asks for ever: silence is right for it. */
static void reads__begun_read_of_rxe_meets_silence(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	begin_read(c, false);
	lose_the_line(c);
	for (int i = 0; i < 4; i++) {
		ask(c, 2, 3, 3, false);
		core_wait(c, 70 * CORE_MS);
	}
	assert_int_equal(core_pending(&c->a), 0);
}

/* With the PMTU unknown a READ counts as one PSN. Its first response tells how many it owns, also if a later READ came
 * before it and began the flow. */
static void reads__length_is_learned_for_the_right_one(void **state)
{
	struct core *c = core_given(state, ACK_MODE_HOST);

	assert_int_equal(ask(c, 10, 3, 10, true), DROP_NONE);
	core_expect(&c->b, RC_READ_REQUEST, 10);
	core_ack(c, 7, AETH_NAK_PSN_SEQ, 0); /* the first one got lost on its way to the edge */
	core_wait(c, CORE_MS);
	core_forget(&c->a);
	assert_int_equal(ask(c, 7, 3, 7, true), DROP_NONE);
	core_expect(&c->b, RC_READ_REQUEST, 7);
	respond(c, three[0], 7, 1);
	assert_false(core_near(c)->psns_unknown);
	assert_int_equal(core_near(c)->pos_next, POS_ORIGIN + 13); /* and the later one's is right, too */
}

/* What comes behind it meanwhile, READs too, is kept, and goes on as soon as its length is known: no host has to repeat
 * it. */
static void reads__what_follows_one_of_unknown_length_is_kept(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	assert_int_equal(ask(c, 1, 3, 1, true), DROP_NONE);
	assert_int_equal(ask(c, 4, 3, 4, true), DROP_NONE);
	assert_int_equal(core_send(c, RC_FETCH_ADD, 7), DROP_NONE);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 8), DROP_NONE);
	core_expect(&c->b, RC_READ_REQUEST, 1);
	core_wait(c, 2 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0); /* nor is it asked to */
	respond(c, three[0], 1, 2);
	core_expect(&c->b, RC_READ_REQUEST, 4);
	core_expect(&c->b, RC_FETCH_ADD, 7);
	core_expect(&c->b, RC_WRITE_ONLY, 8);
	assert_int_equal(core_near(c)->pos_next, POS_ORIGIN + 9);
	assert_int_equal(near_op_at(core_near(c), POS_ORIGIN + 6)->psns, 3);
	respond(c, three[1], 2, 2);
	respond(c, three[2], 3, 2);
	for (uint32_t i = 0; i < 3; i++)
		respond(c, three[i], 4 + i, 3);
	respond(c, RC_ATOMIC_ACK, 7, 4);
	for (uint32_t i = 0; i < 6; i++)
		expect_response(c, three[i % 3], 1 + i);
	assert_int_equal(core_expect(&c->a, RC_ATOMIC_ACK, 7)->h.aeth_msn, 4);
	core_expect_aeth(&c->a, 8, AETH_ACK_NO_CREDITS);
}

/* A request whose PSN the READ owns, of a host that is wrong, is given up: it would keep its slot for ever. */
static void reads__what_lies_inside_one_of_unknown_length_is_given_up(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	assert_int_equal(ask(c, 1, 3, 1, true), DROP_NONE);
	core_expect(&c->b, RC_READ_REQUEST, 1);
	core_send(c, RC_WRITE_ONLY, 3);
	assert_int_equal(core_near(c)->ooo_pkts, 1);
	respond(c, three[0], 1, 2);
	assert_int_equal(core_near(c)->pos_next, POS_ORIGIN + 4);
	assert_int_equal(core_near(c)->ooo_pkts, 0);
	respond(c, three[1], 2, 2);
	respond(c, three[2], 3, 2);
	for (uint32_t i = 0; i < 3; i++)
		expect_response(c, three[i], 1 + i);
	assert_int_equal(near_held(core_near(c)), 0);
}

/* A READ with the same end asks for the rest of the first one, and is not taken: the host had the beginning before
 * there was an edge. */
static void reads__rest_of_one_of_unknown_length(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	assert_int_equal(ask(c, 1, 4, 1, true), DROP_NONE);
	core_expect(&c->b, RC_READ_REQUEST, 1);
	assert_int_equal(ask(c, 1, 4, 2, true), DROP_LAN_READ_RETRY);
	assert_int_equal(ask(c, 1, 4, 3, true), DROP_LAN_READ_RETRY);
	respond(c, RC_READ_RESP_FIRST, 1, 2);
	core_forget(&c->a);
	assert_int_equal(core_near(c)->nops, 1);
	assert_int_equal(core_near(c)->pos_next, POS_ORIGIN + 5);
	assert_int_equal(core_near(c)->ooo_pkts, 0);
	respond(c, RC_READ_RESP_MIDDLE, 2, 2);
	respond(c, RC_READ_RESP_MIDDLE, 3, 2);
	respond(c, RC_READ_RESP_LAST, 4, 2);
	core_forget(&c->a);
	assert_int_equal(ask(c, 1, 4, 3, true), DROP_LAN_READ_RETRY);
	expect_response(c, RC_READ_RESP_FIRST, 3);
	assert_int_equal(core_expect(&c->a, RC_READ_RESP_LAST, 4)->h.aeth_msn, 2);
}

/* The same behind a READ that is still held itself: the rest is given up once the held READ's length is known, ... */
static void reads__rest_of_one_that_is_held(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	ask(c, 1, 3, 1, true);
	ask(c, 4, 4, 4, true);
	ask(c, 4, 4, 6, true);
	assert_int_equal(core_near(c)->ooo_pkts, 2);
	respond(c, RC_READ_RESP_FIRST, 1, 2);
	assert_int_equal(core_near(c)->nops, 2);
	assert_int_equal(core_near(c)->ooo_pkts, 0);
	assert_int_equal(core_near(c)->pos_next, POS_ORIGIN + 8);
	core_wait(c, CORE_MS);
	core_expect(&c->b, RC_READ_REQUEST, 1);
	core_expect(&c->b, RC_READ_REQUEST, 4);
	assert_int_equal(core_pending(&c->b), 0);
}

/* ... or, while the length is not known, when the rest would be taken in order. */
static void reads__rest_of_one_that_was_held(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	ask(c, 1, 1, 1, true);
	ask(c, 3, 4, 3, true);
	ask(c, 3, 4, 4, true);
	assert_int_equal(core_near(c)->ooo_pkts, 2);
	core_send(c, RC_WRITE_ONLY, 2);
	assert_int_equal(core_near(c)->ooo_pkts, 0);
	assert_int_equal(core_near(c)->nops, 2);
	assert_int_equal(core_near(c)->pos_next, POS_ORIGIN + 4);
	assert_true(core_near(c)->psns_unknown);
}

/* The edge restarts while they wait: the same READs are held afterwards. */
static void reads__what_follows_outlives_a_restart(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	ask(c, 1, 3, 1, true);
	ask(c, 4, 3, 4, true);
	core_send(c, RC_WRITE_ONLY, 7);
	core_expect(&c->b, RC_READ_REQUEST, 1);
	restart_near(c);
	respond(c, three[0], 1, 2);
	core_expect(&c->b, RC_READ_REQUEST, 4);
	core_expect(&c->b, RC_WRITE_ONLY, 7);
}

/* The responder's first answer may name the last PSN of a READ, in the midst of what was sent. */
static void reads__first_answer_at_the_end_of_one(void **state)
{
	struct core *c = core_given(state, ACK_MODE_HOST);

	core_send(c, RC_WRITE_FIRST, 0);
	core_send(c, RC_WRITE_LAST, 1);
	assert_int_equal(ask(c, 2, 3, 2, true), DROP_NONE);
	core_send(c, RC_WRITE_ONLY, 5);
	core_ack(c, 4, AETH_ACK_NO_CREDITS, 2); /* WRITE and READ */
	core_wait(c, CORE_MS);
	assert_true(core_near(c)->msn != MSN_UNKNOWN);
	assert_int_equal(core_near(c)->msn_offset, 0);
}

/* The responder ACKs the last request it ever had to a far edge that has restarted and sent nothing yet. The far edge
 * has lost the READ's responses. */
static void reads__an_ack_is_no_response_after_a_restart(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 2);
	ask(c, 3, 3, 3, false);
	core_expect(&c->b, RC_WRITE_ONLY, 2);
	core_expect(&c->b, RC_READ_REQUEST, 3);
	core_rebuild(&c->b);
	assert_int_equal(core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 5, AETH_ACK_NO_CREDITS, 4), 0, 0), DROP_NONE);
	core_session(c);
	core_expect(&c->b, RC_READ_REQUEST, 3);
}

/* A host that has gone back is about to repeat its requests one after the other: a response behind these would be an
 * implied NAK of them. A host that repeats no more requests waits for a moment only. */
static void reads__no_response_ahead_of_what_is_asked_again(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_long_life(c);
	read_three(c, 2, 2);
	ask(c, 5, 3, 5, true);
	core_expect(&c->b, RC_READ_REQUEST, 5);
	core_wait(c, CORE_MS);
	assert_int_equal(ask(c, 2, 3, 2, true), DROP_LAN_READ_RETRY);
	for (uint32_t i = 0; i < 3; i++)
		expect_response(c, three[i], 2 + i);
	respond(c, RC_READ_RESP_FIRST, 5, 3);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(ask(c, 5, 3, 5, true), DROP_LAN_READ_RETRY); /* there it is */
	expect_response(c, RC_READ_RESP_FIRST, 5);
	core_wait(c, CORE_MS);
	assert_int_equal(ask(c, 2, 3, 2, true), DROP_LAN_READ_RETRY);
	core_forget(&c->a);
	respond(c, RC_READ_RESP_MIDDLE, 6, 3);
	assert_int_equal(core_pending(&c->a), 0);
	core_wait(c, CORE_MS);
	expect_response(c, RC_READ_RESP_FIRST, 5); /* begun anew, as the host has */
}

/* The edge has forgotten the flow, or never knew it. The host repeats a READ and requests behind it, all of which the
 * responder has executed. The READ's response carries the MSN of all messages executed by now (rxe does). The MSN of
 * the edge's ACKs is known when the responder has sent an ACK. */
static void reads__repeated_read_tells_a_count_of_now(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	const struct core_pkt *k;

	assert_int_equal(ask(c, 10, 1, 10, true), DROP_NONE);
	core_expect(&c->b, RC_READ_REQUEST, 10);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 11), DROP_NONE);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 12), DROP_NONE);
	respond(c, RC_READ_RESP_ONLY, 10, 23); /* 20 before it, and the two WRITEs */
	k = core_expect(&c->a, RC_READ_RESP_ONLY, 10);
	assert_in_range(k->h.aeth_msn, 21, 23);
	assert_int_equal(core_pending(&c->a), 0); /* nothing is ACKed with a count that may be wrong */
	near_ack_schedule(c->a.p, core_near(c), DUE_RNR); /* nor is the host sent away with one */
	core_pump(c);
	assert_int_equal(core_pending(&c->a), 0);
	core_forget(&c->b);
	assert_int_equal(core_ack(c, 12, AETH_ACK_NO_CREDITS, 23), DROP_NONE);
	assert_int_equal(core_expect_aeth(&c->a, 12, AETH_ACK_NO_CREDITS)->h.aeth_msn, 23);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 13), DROP_NONE); /* and early again */
	assert_int_equal(core_expect_aeth(&c->a, 13, AETH_ACK_NO_CREDITS)->h.aeth_msn, 24);
}

/* The same, and all that is open is a READ: its responder may never send an ACK. The host is not sent away with a count
 * that may be wrong in the time in which the READ's response is awaited. After that it must not be left alone. */
static void reads__no_rnr_nak_with_a_count_of_now(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	assert_int_equal(ask(c, 10, 1, 10, true), DROP_NONE);
	core_expect(&c->b, RC_READ_REQUEST, 10);
	respond(c, RC_READ_RESP_ONLY, 10, 23); /* 20 before it, and two messages behind it */
	core_expect(&c->a, RC_READ_RESP_ONLY, 10);
	assert_int_equal(ask(c, 11, 1, 11, true), DROP_NONE);
	core_wait(c, 50 * CORE_MS);
	near_ack_schedule(c->a.p, core_near(c), DUE_RNR);
	core_pump(c);
	assert_int_equal(core_pending(&c->a), 0);
	core_wait(c, 60 * CORE_MS);
	near_ack_schedule(c->a.p, core_near(c), DUE_RNR);
	core_pump(c);
	assert_int_equal(core_expect(&c->a, RC_ACK, 11)->h.aeth_syndrome & AETH_TYPE_MASK, AETH_RNR_NAK);
}

/* The MSN has moved, so the responder has executed a message that the edge has taken. The second READ is the last
 * message that the edge has taken, so the MSN is exact. */
static void reads__two_responses_tell_the_count(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	assert_int_equal(ask(c, 10, 1, 10, true), DROP_NONE);
	assert_int_equal(ask(c, 11, 1, 11, true), DROP_NONE);
	core_forget(&c->b);
	respond(c, RC_READ_RESP_ONLY, 10, 21);
	assert_int_equal(core_expect(&c->a, RC_READ_RESP_ONLY, 10)->h.aeth_msn, 21);
	assert_true(core_near(c)->msn == MSN_LATE);
	respond(c, RC_READ_RESP_ONLY, 11, 22);
	assert_int_equal(core_expect(&c->a, RC_READ_RESP_ONLY, 11)->h.aeth_msn, 22);
	assert_false(core_near(c)->msn == MSN_LATE);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 12), DROP_NONE);
	assert_int_equal(core_expect_aeth(&c->a, 12, AETH_ACK_NO_CREDITS)->h.aeth_msn, 23);
}

/* Two responses may agree by chance: the second READ's first response was lost, and one message executed in between.
 * The host is ACKed when the responder's ACK has told the MSN. */
static void reads__responses_that_agree_by_chance(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	assert_int_equal(ask(c, 10, 1, 10, true), DROP_NONE);
	assert_int_equal(ask(c, 11, 1, 11, true), DROP_NONE);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 12), DROP_NONE); /* 20 before, these three repeated: 23 by now */
	core_forget(&c->b);
	respond(c, RC_READ_RESP_ONLY, 10, 23);
	core_expect(&c->a, RC_READ_RESP_ONLY, 10);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 13), DROP_NONE); /* a new one: 24 */
	respond(c, RC_READ_RESP_ONLY, 11, 24);
	core_expect(&c->a, RC_READ_RESP_ONLY, 11);
	assert_true(core_near(c)->msn == MSN_LATE);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_ack(c, 13, AETH_ACK_NO_CREDITS, 24), DROP_NONE);
	assert_int_equal(core_expect_aeth(&c->a, 13, AETH_ACK_NO_CREDITS)->h.aeth_msn, 24);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 14), DROP_NONE);
	assert_int_equal(core_expect_aeth(&c->a, 14, AETH_ACK_NO_CREDITS)->h.aeth_msn, 25);
}

/* READs only, so the responder sends no ACK. The host repeats five READs, the third READ's response is lost, and the
 * responder executes two new ones before the third is asked for again. The MSNs of the second and the fourth response
 * differ as these READs do. The edge's responses carry no more than the responder's. The response to the last READ
 * tells the MSN. */
static void reads__responses_of_two_rounds_agree_by_chance(void **state)
{
	static const uint32_t said[] = {25, 25, 27, 27, 27, 27, 27};
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(ask(c, 10 + i, 1, 10 + i, true), DROP_NONE);
	for (uint32_t i = 0; i < 7; i++) {
		core_forget(&c->b);
		respond(c, RC_READ_RESP_ONLY, 10 + i, said[i]);
		assert_in_range(core_expect(&c->a, RC_READ_RESP_ONLY, 10 + i)->h.aeth_msn, 21 + i, said[i]);
		assert_true((core_near(c)->msn == MSN_LATE) == (i < 6));
		assert_int_equal(core_pending(&c->a), 0);
		if (i < 2)
			assert_int_equal(ask(c, 15 + i, 1, 15 + i, true), DROP_NONE);
	}
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 17), DROP_NONE);
	assert_int_equal(core_expect_aeth(&c->a, 17, AETH_ACK_NO_CREDITS)->h.aeth_msn, 28);
}

/* A responder that has counted nothing in front of the READ has counted nothing behind it either. */
static void reads__count_of_a_new_queue_pair_is_exact(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	assert_int_equal(ask(c, 10, 1, 10, true), DROP_NONE);
	core_forget(&c->b);
	respond(c, RC_READ_RESP_ONLY, 10, 1);
	assert_int_equal(core_expect(&c->a, RC_READ_RESP_ONLY, 10)->h.aeth_msn, 1);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 11), DROP_NONE);
	assert_int_equal(core_expect_aeth(&c->a, 11, AETH_ACK_NO_CREDITS)->h.aeth_msn, 2);
}

/* The lower of two counts is the nearer one; what is not known survives a restart of either edge. */
static void reads__count_stays_unsure_over_restarts(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	const struct core_pkt *k;

	assert_int_equal(ask(c, 10, 1, 10, true), DROP_NONE);
	assert_int_equal(ask(c, 11, 1, 11, true), DROP_NONE);
	core_forget(&c->b);
	respond(c, RC_READ_RESP_ONLY, 10, 22);
	assert_in_range(core_expect(&c->a, RC_READ_RESP_ONLY, 10)->h.aeth_msn, 21, 22);
	respond(c, RC_READ_RESP_ONLY, 11, 22);
	assert_int_equal(core_expect(&c->a, RC_READ_RESP_ONLY, 11)->h.aeth_msn, 22);
	for (int i = 0; i < 2; i++) {
		core_rebuild(i ? &c->b : &c->a);
		core_session(c);
		core_wait(c, CORE_MS);
		core_forget(&c->a);
		core_forget(&c->b);
		assert_int_equal(core_send(c, RC_WRITE_ONLY, 12 + (uint32_t)i), DROP_NONE);
		assert_int_equal(core_pending(&c->a), 0);
	}
	core_forget(&c->b);
	core_wait(c, CORE_MS);
	core_forget(&c->b);
	assert_int_equal(core_ack(c, 13, AETH_ACK_NO_CREDITS, 24), DROP_NONE);
	k = core_expect_aeth(&c->a, 13, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 24);
}

/* The same, also if the edge beside the requester has restarted in between: the wait begins anew with it. */
static void reads__no_rnr_nak_with_a_count_of_now_after_a_restart(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	assert_int_equal(ask(c, 10, 1, 10, true), DROP_NONE);
	core_expect(&c->b, RC_READ_REQUEST, 10);
	respond(c, RC_READ_RESP_ONLY, 10, 23); /* 20 before it, and two messages behind it: the count is 21 */
	core_expect(&c->a, RC_READ_RESP_ONLY, 10);
	assert_int_equal(ask(c, 11, 1, 11, true), DROP_NONE);
	core_wait(c, 5 * CORE_MS);
	core_forget(&c->a);
	core_rebuild(&c->a);
	core_session(c);
	assert_true(core_near(c)->msn == MSN_LATE);
	near_ack_schedule(c->a.p, core_near(c), DUE_RNR);
	core_pump(c);
	assert_null(core_take(&c->a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(reads__first_answer_at_the_end_of_one),
	    CORE_TEST(reads__repeated_read_tells_a_count_of_now),
	    CORE_TEST(reads__count_stays_unsure_over_restarts),
	    CORE_TEST(reads__no_rnr_nak_with_a_count_of_now),
	    CORE_TEST(reads__no_rnr_nak_with_a_count_of_now_after_a_restart),
	    CORE_TEST(reads__two_responses_tell_the_count),
	    CORE_TEST(reads__responses_that_agree_by_chance),
	    CORE_TEST(reads__responses_of_two_rounds_agree_by_chance),
	    CORE_TEST(reads__count_of_a_new_queue_pair_is_exact),
	    CORE_TEST(reads__length_is_learned_for_the_right_one),
	    CORE_TEST(reads__what_follows_one_of_unknown_length_is_kept),
	    CORE_TEST(reads__what_lies_inside_one_of_unknown_length_is_given_up),
	    CORE_TEST(reads__rest_of_one_of_unknown_length),
	    CORE_TEST(reads__rest_of_one_that_is_held),
	    CORE_TEST(reads__rest_of_one_that_was_held),
	    CORE_TEST(reads__what_follows_outlives_a_restart),
	    CORE_TEST(reads__is_read_again_after_a_restart),
	    CORE_TEST(reads__are_free_as_soon_as_they_were_given),
	    CORE_TEST(reads__what_is_not_here_any_more_is_read_again),
	    CORE_TEST(reads__is_read_again_without_a_pair),
	    CORE_TEST(reads__a_later_row_of_repetitions_ends_the_earlier_one),
	    CORE_TEST(reads__an_overtaken_repetition_begins_no_row),
	    CORE_TEST(reads__a_row_begins_whatever_the_reordering),
	    CORE_TEST(reads__one_response_is_read_again_without_a_pmtu),
	    CORE_TEST(reads__what_is_read_again_may_overtake),
	    CORE_TEST(reads__what_is_lost_of_it_is_asked_for_soon),
	    CORE_TEST(reads__what_the_host_lacks_is_asked_for_however_long_answers_took),
	    CORE_TEST(reads__a_host_that_asks_again_does_not_keep_a_dead_responder),
	    CORE_TEST(reads__rest_that_an_edge_lacks_is_not_asked_of_rxe),
	    CORE_TEST(reads__rxe_is_asked_from_where_its_host_asked_last),
	    CORE_TEST(reads__what_rxe_was_asked_from_counts_for_all_of_a_read),
	    CORE_TEST(reads__rxe_that_answers_in_vain_is_not_asked_for_the_rest),
	    CORE_TEST(reads__rxe_is_asked_for_a_large_read_from_where_its_host_asked_last),
	    CORE_TEST(reads__a_far_edge_that_was_killed_hears_where_the_host_of_rxe_asked_last),
	    CORE_TEST(reads__a_far_edge_that_was_killed_hears_of_rxe),
	    CORE_TEST(reads__responses_beyond_the_credit_are_read_when_there_is_one),
	    CORE_TEST(reads__who_waits_for_credit_does_not_fail),
	    CORE_TEST(reads__the_near_edge_grants_what_it_has_room_for),
	    CORE_TEST(reads__a_lost_request_to_read_again_goes_once_more),
	    CORE_TEST(reads__one_that_is_larger_than_the_pool),
	    CORE_TEST(reads__next_response_finds_a_place_in_a_full_pool),
	    CORE_TEST(reads__answers_to_a_host_that_is_gone_go),
	    CORE_TEST(reads__of_an_old_life_hold_up_nothing),
	    CORE_TEST(reads__of_too_many_psns_are_refused),
	    CORE_TEST(reads__what_is_refused_again_and_again_is_paced),
	    CORE_TEST(reads__nothing_beyond_the_window_is_taken),
	    CORE_TEST(reads__of_those_refused_the_first_goes_first),
	    CORE_TEST(reads__a_repetition_that_nobody_lacks_ends),
	    CORE_TEST(reads__repeated_write_behind_one_ends_its_repetition),
	    CORE_TEST(reads__repeated_writes_of_the_same_row_end_no_repetition),
	    CORE_TEST(reads__a_repetition_outlasts_a_cut_line),
	    CORE_TEST(reads__busy_host_that_goes_back_has_the_answer),
	    CORE_TEST(reads__packet_lost_twice_behind_one_is_naked_twice),
	    CORE_TEST(reads__what_waits_behind_one_that_ends_is_given),
	    CORE_TEST(reads__no_ack_names_one_that_the_host_lacks),
	    CORE_TEST(reads__asked_from_further_on_is_no_copy),
	    CORE_TEST(reads__gap_behind_what_may_be_the_rest_of_one),
	    CORE_TEST(reads__gap_right_behind_what_may_be_the_rest_of_one),
	    CORE_TEST(reads__what_may_be_the_rest_of_one_is_no_place_for_rxe),
	    CORE_TEST(reads__a_pool_that_stays_full_is_an_event),
	    CORE_TEST(reads__atomic_is_replayed_after_a_restart),
	    CORE_TEST(reads__flush_is_answered),
	    CORE_TEST(reads__atomic_write_is_answered),
	    CORE_TEST(reads__an_answer_fits_its_request),
	    CORE_TEST(reads__lost_flush_answer_is_asked_for),
	    CORE_TEST(reads__early_response_outlives_a_restart),
	    CORE_TEST(reads__operation_beyond_a_gap_outlives_a_restart),
	    CORE_TEST(reads__half_given_read_goes_on_after_a_restart),
	    CORE_TEST(reads__kept_answers_go_in_time),
	    CORE_TEST(reads__scarcity_forgets_nothing_that_a_host_may_ask_for),
	    CORE_TEST(reads__what_is_kept_gives_way_when_chunks_are_scarce),
	    CORE_TEST(reads__without_a_record_the_host_waits),
	    CORE_TEST(reads__a_forgotten_answer_is_the_responders_to_give_again),
	    CORE_TEST(reads__what_is_given_up_beyond_a_gap_leaves_no_record),
	    CORE_TEST(reads__a_repeated_request_costs_its_own_answer),
	    CORE_TEST(reads__what_was_not_asked_for_is_not_repeated),
	    CORE_TEST(reads__begun_read_is_held_off_once_asked_again),
	    CORE_TEST(reads__asked_from_further_on_is_held_off_there),
	    CORE_TEST(reads__begun_read_of_rxe_meets_silence),
	    CORE_TEST(reads__no_response_ahead_of_what_is_asked_again),
	    CORE_TEST(reads__an_ack_is_no_response_after_a_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
