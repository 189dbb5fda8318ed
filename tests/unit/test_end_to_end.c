/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs beyond MaxFlows=: carried without a flow, in both directions, and never ACKed by an edge. */
#define CORE_FLOWS 16
#include "core_fixture.h"
#include "proxy/carry/barrier.h"

#include "proxy/carry/end_to_end.h"
#include "proxy/near/near_priv.h"

enum { PLACED = 0x100, BEYOND = 0x700, REQUESTERS = 0x1000 }; /* a requester's QPN is its responder's and that more */

static enum proxy_drop send_to(struct core *c, uint8_t opcode, uint32_t qpn, uint32_t psn)
{
	struct roce_pkt h = core_req(opcode, psn);
	enum proxy_drop d;

	h.dest_qpn = qpn;
	d = core_in(&c->a, h, core_len(opcode), 0);
	core_pump(c);
	return d;
}

static enum proxy_drop answer_of(struct core *c, uint8_t opcode, uint32_t qpn, uint32_t psn, uint32_t msn)
{
	enum proxy_drop d = core_in(
	    &c->b, core_answer(opcode, REQUESTERS + qpn, psn, AETH_ACK_NO_CREDITS, msn), opcode == RC_ACK ? 0 : CORE_PMTU, 0);

	core_pump(c);
	return d;
}

/* The host's own packet, of that QP, with its payload. */
static void expect_request(struct core *c, uint8_t opcode, uint32_t qpn, uint32_t psn)
{
	const struct core_pkt *k = core_expect(&c->b, opcode, psn);

	assert_int_equal(k->h.dest_qpn, qpn);
	assert_memory_equal(k->l3 + k->h.hdr_len, core_payload(0, psn), core_len(opcode));
}

static void place(struct core *c, uint32_t qpn)
{
	assert_int_equal(send_to(c, RC_WRITE_ONLY, qpn, 0), DROP_NONE);
	expect_request(c, RC_WRITE_ONLY, qpn, 0);
	assert_int_equal(answer_of(c, RC_ACK, qpn, 0, 1), DROP_NONE);
	core_expect_aeth(&c->a, 0, AETH_ACK_NO_CREDITS);
}

/* A packet of the flow, which is answered until it has its pair: some requests without a flow may be answered late. */
static void answer_until_placed(struct core *c, uint32_t qpn)
{
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);

	send_to(c, RC_WRITE_ONLY, qpn, 0);
	for (int i = 0; i < 100 && near_find(c->a.p, &src, &dst, qpn, 0)->pairing == PAIR_LEARNING; i++) {
		core_forget(&c->b);
		answer_of(c, RC_ACK, qpn, 0, 1);
	}
	assert_int_equal(near_find(c->a.p, &src, &dst, qpn, 0)->requester_qpn, REQUESTERS + qpn);
	core_forget(&c->a);
}

/* All places but so many have paired flows that were heard a moment ago. */
static struct core *given_full_but(void **state, uint32_t places)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (uint32_t i = 0; i < CORE_FLOWS - places; i++)
		place(c, PLACED + i);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_pending(&c->b), 0);
	return c;
}

/* In mode near, too, the first who says ACK is the responder, and what it says is what its requester gets. */
static void end_to_end__beyond_the_table(void **state)
{
	struct core *c = given_full_but(state, 0);
	const struct core_pkt *k;

	for (uint32_t psn = 7; psn < 12; psn++) {
		assert_int_equal(send_to(c, RC_WRITE_ONLY, BEYOND, psn), DROP_NONE);
		expect_request(c, RC_WRITE_ONLY, BEYOND, psn);
	}
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(answer_of(c, RC_ACK, BEYOND, 11, 77), DROP_NONE);
	k = core_expect_aeth(&c->a, 11, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.dest_qpn, REQUESTERS + BEYOND);
	assert_int_equal(k->h.aeth_msn, 77);
	assert_int_equal(core_ctr(&c->a, CTR_END_TO_END), 5);
	assert_int_equal(core_ctr(&c->b, CTR_END_TO_END), 1);
	assert_int_equal(core_ctr(&c->a, CTR_RAW_CARRIED), 0);
	assert_true(core_event(&c->a, EV_END_TO_END));
	assert_int_equal(end_to_end_pairs(c->a.p, c->now_ns), 1);
	core_wait(c, 5 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_used(&c->a) + core_used(&c->b), 0);
	assert_int_equal(c->a.p->end_to_end.held_bytes, 0);
	assert_int_equal(send_to(c, RC_WRITE_ONLY, PLACED, 1), DROP_NONE); /* the others go on as before */
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
}

static void end_to_end__reads_and_naks(void **state)
{
	struct core *c = given_full_but(state, 0);
	const struct core_pkt *k;

	assert_int_equal(send_to(c, RC_READ_REQUEST, BEYOND, 7), DROP_NONE);
	core_expect(&c->b, RC_READ_REQUEST, 7);
	assert_int_equal(answer_of(c, RC_READ_RESP_ONLY, BEYOND, 7, 1), DROP_NONE);
	k = core_expect(&c->a, RC_READ_RESP_ONLY, 7);
	assert_memory_equal(k->l3 + k->h.hdr_len, core_payload(0, 7), CORE_PMTU);
	assert_int_equal(send_to(c, RC_RESERVED_15, BEYOND, 8), DROP_NONE);
	core_expect(&c->b, RC_RESERVED_15, 8);
	core_in(&c->b, core_answer(RC_ACK, REQUESTERS + BEYOND, 8, AETH_NAK_INV_REQ, 1), 0, 0);
	core_pump(c);
	core_expect_aeth(&c->a, 8, AETH_NAK_INV_REQ);
}

static bool lose_one(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	int *left = c->arg;

	(void)dgram;
	return from != &c->a || len < CORE_PMTU || (*left)-- <= 0;
}

static void end_to_end__loss_on_the_wan_is_repaired(void **state)
{
	struct core *c = given_full_but(state, 0);
	int left = 1;

	c->arg = &left;
	c->wan = lose_one;
	send_to(c, RC_WRITE_ONLY, BEYOND, 7);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 50 * CORE_MS);
	expect_request(c, RC_WRITE_ONLY, BEYOND, 7);
	assert_int_equal(core_pending(&c->b), 0);
}

/* A responder would call what comes too early a loss. */
static void end_to_end__order_over_a_loss(void **state)
{
	struct core *c = given_full_but(state, 0);
	int left = 1;

	c->arg = &left;
	c->wan = lose_one;
	for (uint32_t psn = 7; psn < 12; psn++)
		send_to(c, RC_WRITE_ONLY, BEYOND, psn);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 50 * CORE_MS);
	for (uint32_t psn = 7; psn < 12; psn++)
		expect_request(c, RC_WRITE_ONLY, BEYOND, psn);
	assert_int_equal(core_pending(&c->b), 0);
}

/* What does not come at all is not waited for long: then the responder says so, and the host sends it again. */
static void end_to_end__order_is_not_waited_for_in_vain(void **state)
{
	struct core *c = given_full_but(state, 0);
	int left = 1000;

	c->arg = &left;
	c->wan = lose_one;
	send_to(c, RC_WRITE_ONLY, BEYOND, 6);
	send_to(c, RC_READ_REQUEST, BEYOND + 1, 0); /* too small to be lost here */
	send_to(c, RC_READ_REQUEST, BEYOND, 7);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 2);
	core_expect(&c->b, RC_READ_REQUEST, 0);
	core_expect(&c->b, RC_READ_REQUEST, 7);
}

/* A place that becomes free is not for a queue pair whose packets are under way: only after a second of quiet. */
static void end_to_end__no_flow_while_its_packets_are_under_way(void **state)
{
	struct core *c = given_full_but(state, 0);

	send_to(c, RC_WRITE_ONLY, BEYOND, 0);
	expect_request(c, RC_WRITE_ONLY, BEYOND, 0);
	for (uint32_t i = 0; i < CORE_FLOWS; i += 2) {
		struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);

		near_close(c->a.p, near_find(c->a.p, &src, &dst, PLACED + i, 0));
	}
	core_pump(c);
	for (uint32_t psn = 1; psn < 4; psn++) {
		core_wait(c, 900 * CORE_MS);
		assert_int_equal(send_to(c, RC_WRITE_ONLY, BEYOND, psn), DROP_NONE);
		expect_request(c, RC_WRITE_ONLY, BEYOND, psn);
		assert_int_equal(c->a.p->near_used, CORE_FLOWS / 2);
		send_to(c, RC_WRITE_ONLY, BEYOND + 1, psn); /* nor for others between these hosts, which would learn */
		expect_request(c, RC_WRITE_ONLY, BEYOND + 1, psn);
		assert_int_equal(c->a.p->near_used, CORE_FLOWS / 2);
	}
	assert_int_equal(core_pending(&c->a), 0);
	core_wait(c, 1000 * CORE_MS);
	assert_int_equal(end_to_end_pairs(c->a.p, c->now_ns), 0);
	answer_until_placed(c, BEYOND + 2);
	assert_int_equal(c->a.p->near_used, CORE_FLOWS / 2 + 1);
}

/* Its answer comes after more than a second, while another flow between these hosts is probed: that flow is paired by
 * its own answers, of which there are more than can be late. */
static void end_to_end__late_answers_are_in_doubt(void **state)
{
	struct core *c = given_full_but(state, 0);
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);

	send_to(c, RC_WRITE_ONLY, BEYOND, 0);
	expect_request(c, RC_WRITE_ONLY, BEYOND, 0);
	near_close(c->a.p, near_find(c->a.p, &src, &dst, PLACED, 0));
	core_pump(c);
	core_wait(c, 1100 * CORE_MS);
	send_to(c, RC_WRITE_ONLY, BEYOND + 2, 0);
	expect_request(c, RC_WRITE_ONLY, BEYOND + 2, 0);
	answer_of(c, RC_ACK, BEYOND, 0, 1);
	assert_int_equal(near_find(c->a.p, &src, &dst, BEYOND + 2, 0)->pairing, PAIR_LEARNING);
	answer_until_placed(c, BEYOND + 2);
}

/* With Barrier=causal a packet that nearly fills its slot waits for as many other queue pairs as there is room for. */
static void end_to_end__large_packet_behind_many_that_lag(void **state)
{
	struct core *c = given_full_but(state, 0);
	struct roce_pkt h = core_req(RC_WRITE_MIDDLE, 7);
	bool delivered = false;

	c->a.cfg.barrier = c->b.cfg.barrier = BARRIER_CAUSAL;
	c->a.p->cfg = c->a.cfg;
	c->b.p->cfg = c->b.cfg;
	for (uint32_t i = 0; i < CORE_FLOWS; i++)
		send_to(c, RC_WRITE_ONLY, PLACED + i, 1);
	core_forget(&c->a);
	core_forget(&c->b);
	h.dest_qpn = BEYOND;
	assert_true(barrier_lagging(c->a.p, &h.src, &h.dst) > 5);
	assert_int_equal(core_in(&c->a, h, 4096, 0), DROP_NONE);
	core_pump(c);
	assert_int_equal(core_pending(&c->b), 0);
	for (uint32_t i = 0; i < CORE_FLOWS; i++)
		answer_of(c, RC_ACK, PLACED + i, 1, 2);
	core_wait(c, 10 * CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->b));)
		delivered |= k->h.opcode == RC_WRITE_MIDDLE;
	assert_true(delivered);
	assert_int_equal(core_ctr(&c->a, CTR_BARRIER_WAIVED), 1);
}

/* A flow is idle but for a READ that its host has lost and that is read again: the answer is the flow's. */
static void end_to_end__read_again_beside_it(void **state)
{
	struct core *c = given_full_but(state, 0);
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);

	near_find(c->a.p, &src, &dst, PLACED, 0)->psn_origin = 0x800000; /* of a long life */
	send_to(c, RC_READ_REQUEST, PLACED, 1);
	answer_of(c, RC_READ_RESP_ONLY, PLACED, 1, 2);
	core_wait(c, 1100 * CORE_MS);
	send_to(c, RC_WRITE_ONLY, BEYOND, 7);
	core_forget(&c->a);
	core_forget(&c->b);
	send_to(c, RC_READ_REQUEST, PLACED, 1);
	core_expect(&c->b, RC_READ_REQUEST, 1);
	core_forget(&c->a);
	answer_of(c, RC_READ_RESP_ONLY, PLACED, 1, 2);
	core_expect(&c->a, RC_READ_RESP_ONLY, 1);
}

/* A dead flow keeps no answers from a queue pair that has its requester's number now. */
static void end_to_end__answer_past_a_dead_flow(void **state)
{
	struct core *c = given_full_but(state, 0);
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);
	struct near_flow *f = near_find(c->a.p, &src, &dst, PLACED, 0);

	f->pos_max = f->pos_acked + 1; /* as after a packet that it has sent away */
	assert_true(near_awaits(c->a.p, &src, &dst, REQUESTERS + PLACED));
	f->state = NEAR_FAILED;
	assert_false(near_awaits(c->a.p, &src, &dst, REQUESTERS + PLACED));
	f->state = NEAR_OPEN;
	c->a.p->now_ns = f->last_rx_ns + 31000 * CORE_MS;
	assert_false(near_awaits(c->a.p, &src, &dst, REQUESTERS + PLACED));
	f->pos_max = f->pos_acked;
}

/* An answer to a request without a flow looks like the answer that a probed flow waits for: it pairs nobody. */
static void end_to_end__an_answer_pairs_nobody(void **state)
{
	struct core *c = given_full_but(state, 1);
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);
	const struct far_flow *far;

	send_to(c, RC_WRITE_ONLY, PLACED + 0x80, 0); /* the last place: learns */
	expect_request(c, RC_WRITE_ONLY, PLACED + 0x80, 0);
	far = far_by_peer(c->b.p, near_wire_id(c->a.p, near_find(c->a.p, &src, &dst, PLACED + 0x80, 0)));
	send_to(c, RC_WRITE_ONLY, BEYOND, 0);
	expect_request(c, RC_WRITE_ONLY, BEYOND, 0);
	assert_int_equal(answer_of(c, RC_ACK, BEYOND, 0, 5), DROP_NONE);
	assert_int_equal(core_expect_aeth(&c->a, 0, AETH_ACK_NO_CREDITS)->h.dest_qpn, REQUESTERS + BEYOND);
	assert_int_equal(far->pairing, PAIR_LEARNING);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(answer_of(c, RC_ACK, PLACED + 0x80, 0, 6), DROP_NONE); /* and its own goes end to end, too */
	assert_int_equal(core_expect_aeth(&c->a, 0, AETH_ACK_NO_CREDITS)->h.dest_qpn, REQUESTERS + PLACED + 0x80);
	core_wait(c, 10 * CORE_MS);
	core_forget(&c->b);
	send_to(c, RC_WRITE_ONLY, PLACED + 0x80, 1); /* nothing of it was ACKed here: it goes on like the others */
	expect_request(c, RC_WRITE_ONLY, PLACED + 0x80, 1);
	assert_null(near_find(c->a.p, &src, &dst, PLACED + 0x80, 0));
	assert_int_equal(core_pending(&c->a), 0);
}

/* Between other hosts nothing changes. */
static void end_to_end__other_hosts_learn(void **state)
{
	struct core *c = given_full_but(state, 1);
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);

	h.dest_qpn = BEYOND;
	c->a.p->end_to_end.begun_ns[0] = c->b.p->end_to_end.asked_ns[0] = 0;
	send_to(c, RC_WRITE_ONLY, PLACED + 0x80, 0);
	send_to(c, RC_WRITE_ONLY, BEYOND, 0);
	assert_true(end_to_end_begun(c->a.p, &h.src, &h.dst));
	h.src = core_ip(1, 3);
	assert_false(end_to_end_begun(c->a.p, &h.src, &h.dst));
	assert_false(end_to_end_asked(c->b.p, &h.src, &h.dst));
}

/* The other edge cannot have a host told anything that it did not ask for: nobody was carried. */
static void end_to_end__an_answer_to_nobody(void **state)
{
	struct core *c = given_full_but(state, 1);
	uint64_t begun;

	send_to(c, RC_WRITE_ONLY, PLACED + 0x80, 0);
	send_to(c, RC_WRITE_ONLY, BEYOND, 0);
	core_forget(&c->b);
	begun = core_drops(&c->a, DROP_WAN_UNKNOWN_FLOW);
	memset(c->a.p->end_to_end.begun_ns, 0, sizeof(c->a.p->end_to_end.begun_ns)); /* as after a restart */
	assert_int_equal(answer_of(c, RC_ACK, BEYOND, 0, 1), DROP_NONE);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_drops(&c->a, DROP_WAN_UNKNOWN_FLOW), begun + 1);
}

/* A flow answers its requester itself, whatever its responder says to others. */
static void end_to_end__an_answer_to_a_flow_s_requester(void **state)
{
	struct core *c = given_full_but(state, 0);
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);

	send_to(c, RC_WRITE_ONLY, BEYOND, 0);
	assert_true(end_to_end_begun(c->a.p, &src, &dst));
	assert_false(near_awaits(c->a.p, &src, &dst, REQUESTERS + PLACED)); /* idle: a stale ACK does no harm */
	c->cut = true;
	send_to(c, RC_READ_REQUEST, PLACED, 1);
	assert_true(near_awaits(c->a.p, &src, &dst, REQUESTERS + PLACED));
	assert_false(near_awaits(c->a.p, &src, &dst, REQUESTERS + BEYOND));
}

/* Their window is all that paces such hosts: flows must not starve for them. */
static void end_to_end__memory_is_bounded(void **state)
{
	struct core *c = given_full_but(state, 0);
	uint64_t most = arena_capacity(c->a.p->arena, POOL_LAN) / 8;
	enum proxy_drop d = DROP_NONE;

	c->cut = true;
	for (uint32_t psn = 0; psn < 1000; psn++)
		d = send_to(c, RC_WRITE_ONLY, BEYOND, psn);
	assert_int_equal(d, DROP_LAN_RAW_NO_ROOM);
	assert_true(arena_used(c->a.p->arena, POOL_LAN) <= most);
	assert_int_equal(send_to(c, RC_WRITE_ONLY, PLACED, 1), DROP_NONE);
}

/* Packets of no flow want sending time as well: each lane with some counts as one flow for the other workers. */
static void end_to_end__wants_its_part_of_the_line(void **state)
{
	struct core *c = given_full_but(state, 0);
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);
	_Atomic uint64_t *told;
	uint8_t buf[WAN_MTU_MAX];
	struct wan_tx tx;

	core_one_of(&c->a, 2, proxy_lane(&src, &dst, c->a.p->cfg.nlanes));
	told = &c->a.pacer.flows[c->a.p->cfg.shard];
	core_pump(c);
	assert_int_equal((uint32_t)atomic_load(told), 0);
	c->now_ns += CORE_MS;
	atomic_store(&c->a.pacer.next, (c->now_ns + 10 * CORE_MS) * PACER_FRACTION);
	assert_int_equal(core_in(&c->a, core_req(RC_WRITE_ONLY, 7), core_len(RC_WRITE_ONLY), 0), DROP_NONE);
	for (int i = 0; i < 2; i++, c->now_ns += CORE_MS)
		proxy_wan_tx(c->a.p, c->now_ns, buf, sizeof(buf), &tx);
	assert_true(c->a.p->wan->pacer_blocked);
	assert_int_equal((uint32_t)atomic_load(told), 1);
	core_one_of(&c->a, 1, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(end_to_end__beyond_the_table),
	    CORE_TEST(end_to_end__reads_and_naks),
	    CORE_TEST(end_to_end__loss_on_the_wan_is_repaired),
	    CORE_TEST(end_to_end__order_over_a_loss),
	    CORE_TEST(end_to_end__order_is_not_waited_for_in_vain),
	    CORE_TEST(end_to_end__no_flow_while_its_packets_are_under_way),
	    CORE_TEST(end_to_end__late_answers_are_in_doubt),
	    CORE_TEST(end_to_end__an_answer_pairs_nobody),
	    CORE_TEST(end_to_end__other_hosts_learn),
	    CORE_TEST(end_to_end__an_answer_to_nobody),
	    CORE_TEST(end_to_end__large_packet_behind_many_that_lag),
	    CORE_TEST(end_to_end__answer_past_a_dead_flow),
	    CORE_TEST(end_to_end__read_again_beside_it),
	    CORE_TEST(end_to_end__an_answer_to_a_flow_s_requester),
	    CORE_TEST(end_to_end__memory_is_bounded),
	    CORE_TEST(end_to_end__wants_its_part_of_the_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
