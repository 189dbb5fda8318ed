/* SPDX-License-Identifier: Apache-2.0 */
/* Which flow an answer belongs to: many flows of one host pair, all from PSN 0, with equal QPNs at both ends. */
#include "core_fixture.h"

enum { FLOWS = 24, QPN0 = 0x100 };

static enum proxy_drop send_to(struct core *c, uint32_t qpn, uint32_t psn)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, psn);
	enum proxy_drop d;

	h.dest_qpn = qpn;
	d = core_in(&c->a, h, CORE_PMTU, 0);
	core_pump(c);
	return d;
}

/* Host B answers for its QPN: the requester's is a permutation of the same numbers. */
static uint32_t peer_of(uint32_t qpn)
{
	return QPN0 + (qpn - QPN0) * 7 % FLOWS;
}

static enum proxy_drop ack_to(struct core *c, uint32_t requester_qpn, uint32_t psn, uint32_t msn)
{
	enum proxy_drop d = core_in(&c->b, core_answer(RC_ACK, requester_qpn, psn, AETH_ACK_NO_CREDITS, msn), 0, 0);

	core_pump(c);
	return d;
}

static struct near_flow *near_of(struct core *c, uint32_t qpn)
{
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);
	struct near_flow *f = near_find(c->a.p, &src, &dst, qpn, 0);

	assert_non_null(f);
	return f;
}

static struct far_flow *far_of(struct core *c, uint32_t qpn)
{
	struct far_flow *f = far_by_peer(c->b.p, near_wire_id(c->a.p, near_of(c, qpn)));

	assert_non_null(f);
	return f;
}

/* A flow to host B's QPN `qpn`, whose PSN 0 is answered to host A's. */
static struct core *given_pair(void **state, uint32_t qpn, uint32_t requester_qpn)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, qpn, 0);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	ack_to(c, requester_qpn, 0, 1);
	return c;
}

static uint32_t answer_until_paired(struct core *c, uint32_t qpn, uint32_t requester_qpn);

/* The far edge probes one flow at a time, and pairs each flow with the QPN that its responder answers to. */
static void pair__equal_qpns_from_psn_0(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	const struct core_pkt *k;

	for (uint32_t i = 0; i < FLOWS; i++)
		send_to(c, QPN0 + i, 0);
	for (uint32_t i = 0; i < FLOWS; i++) {
		assert_int_equal(core_pending(&c->b), 1); /* one probe is sent, all other flows wait */
		k = core_take(&c->b);
		assert_int_equal(k->h.psn, 0);
		assert_true(k->h.ack_req);
		assert_int_equal(ack_to(c, peer_of(k->h.dest_qpn), 0, 1), DROP_NONE);
	}
	for (uint32_t i = 0; i < FLOWS; i++)
		assert_int_equal(near_of(c, QPN0 + i)->requester_qpn, peer_of(QPN0 + i));
	assert_int_equal(core_pending(&c->a), FLOWS);
	while ((k = core_take(&c->a)))
		assert_int_equal(k->h.aeth_syndrome, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_ctr(&c->b, CTR_PAIR_QUARANTINES), 0);
}

/* An unpaired flow has only one unanswered packet. */
static void pair__probe_is_one_packet(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	uint32_t n = 0;

	for (uint32_t psn = 0; psn < 5; psn++)
		send_to(c, QPN0, psn);
	send_to(c, QPN0 + 1, 0);
	for (const struct core_pkt *k; (k = core_take(&c->b)); n++)
		assert_int_equal(k->h.dest_qpn, QPN0); /* no packet of the other flow */
	assert_true(n >= 1);
}

/* A host pair does not wait for the probe of another host pair. */
static void pair__host_pairs_are_independent(void **state)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, QPN0, 0);
	h.src = core_ip(1, 3);
	h.dest_qpn = QPN0;
	core_in(&c->a, h, CORE_PMTU, 0);
	core_pump(c);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
}

/* No answer comes in time: no other flow is probed for a while, since a late answer would count for that flow. */
static void pair__unanswered_probe_means_quarantine(void **state)
{
	const struct core_pkt *k;
	uint64_t unanswered;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, QPN0, 0);
	send_to(c, QPN0 + 1, 0);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	core_wait(c, c->b.cfg.lan_timeout_ns);
	for (int repeat = 0; repeat < 3; repeat++)
		assert_int_equal(core_expect(&c->b, RC_WRITE_ONLY, 0)->h.dest_qpn, QPN0);
	unanswered = c->now_ns;
	assert_int_equal(core_ctr(&c->b, CTR_PAIR_QUARANTINES), 1);
	core_wait(c, c->b.cfg.quarantine_ns - CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 2 * CORE_MS);
	k = core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(k->h.dest_qpn, QPN0 + 1); /* the other flow's turn */
	assert_true(k->at_ns >= unanswered + c->b.cfg.quarantine_ns);
	ack_to(c, 0x77, 0, 1);
	answer_until_paired(c, QPN0 + 1, 0x77);
	assert_int_equal(near_of(c, QPN0)->pairing, PAIR_LEARNING);
}

/* A flow that ends in its turn may still be answered: no other flow is probed before the quarantine is over, even if
 * the flow was the only one between its hosts. */
static void pair__end_in_its_turn_means_quarantine(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, QPN0, 0);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	far_on_close(c->b.p, &(struct wan_flow_close){.flow = near_wire_id(c->a.p, near_of(c, QPN0)),
	                                              .inc = near_of(c, QPN0)->inc});
	send_to(c, QPN0 + 1, 0);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(ack_to(c, peer_of(QPN0), 0, 1), DROP_LAN_ACK_UNMATCHED);
	assert_int_equal(near_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
	core_wait(c, 101 * CORE_MS);
	answer_until_paired(c, QPN0 + 1, peer_of(QPN0 + 1));
}

/* A responder that is not ready to receive yet is probed again before its requester gives up (ConnectX: 300 ms),
 * then after longer waits. */
static void pair__next_try_comes_later_and_later(void **state)
{
	static const uint32_t quarantines[] = {0, 1, 1, 2, 4};
	const struct core_pkt *k;
	uint64_t last_ns = 0, gap_ns;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, QPN0, 0);
	for (int turn = 0; turn < 5; turn++) {
		for (int ms = 0; ms < 2000 && !core_pending(&c->b); ms++)
			core_wait(c, CORE_MS);
		k = core_expect(&c->b, RC_WRITE_ONLY, 0);
		gap_ns = k->at_ns - last_ns;
		last_ns = k->at_ns;
		if (turn)
			assert_in_range(gap_ns, c->b.cfg.quarantine_ns * quarantines[turn],
			                c->b.cfg.quarantine_ns * quarantines[turn] + 2 * c->b.cfg.lan_timeout_ns);
		core_wait(c, c->b.cfg.lan_timeout_ns);
		core_forget(&c->b); /* repetitions of the same turn */
	}
	assert_true(core_event(&c->b, EV_PAIR_QUARANTINED));
}

/* The probe, or its answer, is lost on the LAN: the far edge repeats the probe within the turn, without a
 * quarantine. */
static void pair__lost_probe_is_repeated(void **state)
{
	uint32_t more = 0;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (uint32_t psn = 0; psn < 3; psn++)
		send_to(c, QPN0, psn);
	send_to(c, QPN0 + 1, 0);
	core_forget(&c->b);
	core_wait(c, c->b.cfg.lan_timeout_ns / 8);
	assert_int_equal(core_expect(&c->b, RC_WRITE_ONLY, 0)->h.dest_qpn, QPN0);
	assert_int_equal(core_pending(&c->b), 0); /* one packet, not all packets of the flow */
	assert_int_equal(ack_to(c, 0x77, 0, 1), DROP_NONE);
	assert_int_equal(near_of(c, QPN0)->requester_qpn, 0x77);
	assert_int_equal(core_ctr(&c->b, CTR_PAIR_QUARANTINES), 0);
	for (const struct core_pkt *k; (k = core_take(&c->b));)
		more += k->h.dest_qpn == QPN0;
	assert_int_equal(more, 2); /* the paired flow sends all packets of its window */
}

/* A flow that is never answered gets later turns; it does not hold up the other flows for ever. */
static void pair__a_dead_qp_does_not_block_the_others(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	uint32_t paired = 0;

	for (uint32_t i = 0; i < 4; i++)
		send_to(c, QPN0 + i, 0);
	for (int ms = 0; ms < 3000; ms++) {
		for (const struct core_pkt *k; (k = core_take(&c->b));)
			if (k->h.dest_qpn != QPN0)
				ack_to(c, peer_of(k->h.dest_qpn), 0, 1);
		core_wait(c, CORE_MS);
	}
	for (uint32_t i = 0; i < 4; i++)
		paired += near_of(c, QPN0 + i)->pairing != PAIR_LEARNING;
	assert_int_equal(paired, 3);
	for (uint32_t i = 1; i < 4; i++)
		assert_int_equal(near_of(c, QPN0 + i)->requester_qpn, peer_of(QPN0 + i));
}

/* An ACK to a QPN that is paired says nothing about the flow that is being probed. */
static void pair__ack_to_a_paired_qpn_decides_nothing(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x51);

	send_to(c, QPN0, 1); /* in flight, unanswered */
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	send_to(c, QPN0 + 1, 0);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	ack_to(c, 0x51, 0, 1); /* a late copy of the first answer */
	assert_int_equal(near_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
	assert_int_equal(core_drops(&c->b, DROP_LAN_ACK_STALE), 1);
	ack_to(c, 0x52, 0, 1);
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x52);
	assert_int_equal(near_of(c, QPN0)->requester_qpn, 0x51);
}

/* An answer that no flow waits for is dropped. */
static void pair__unexpected_answers_are_dropped(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	assert_int_equal(ack_to(c, 0x51, 0, 1), DROP_LAN_ACK_UNMATCHED); /* there is no flow */
	core_wait(c, 20 * CORE_MS);
	send_to(c, QPN0, 0);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(ack_to(c, 0x51, 5, 1), DROP_LAN_ACK_UNMATCHED); /* not the PSN that was sent */
	assert_int_equal(ack_to(c, 0x51, 0x800000, 1), DROP_LAN_ACK_UNMATCHED);
	assert_int_equal(near_of(c, QPN0)->pairing, PAIR_LEARNING);
}

/* Hosts that sent packets around the edges until now: answers to these packets come while flows with similar PSNs
 * begin. No flow has its turn before these answers are over; ... */
static void pair__answers_to_what_went_past_the_edges(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	ack_to(c, 0x51, 0, 1);
	core_wait(c, 15 * CORE_MS);
	send_to(c, QPN0, 0);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(ack_to(c, 0x52, 0, 1), DROP_LAN_ACK_UNMATCHED);
	core_wait(c, 15 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 6 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(ack_to(c, 0x53, 0, 1), DROP_NONE);
	assert_int_equal(near_of(c, QPN0)->requester_qpn, 0x53);
}

/* ... the flow that had its turn has it again afterwards, before all others: its answers may still be under way. */
static void pair__answers_past_the_edges_take_a_turn_back(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, QPN0, 5);
	core_expect(&c->b, RC_WRITE_ONLY, 5);
	assert_int_equal(ack_to(c, 0x51, 3, 4), DROP_LAN_ACK_UNMATCHED); /* another flow's; it will name PSN 5, too */
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(ack_to(c, 0x51, 5, 6), DROP_LAN_ACK_UNMATCHED);
	send_to(c, QPN0 + 1, 5);
	core_wait(c, 19 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 2 * CORE_MS);
	k = core_expect(&c->b, RC_WRITE_ONLY, 5);
	assert_int_equal(k->h.dest_qpn, QPN0);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(ack_to(c, 0x52, 5, 6), DROP_NONE);
	assert_int_equal(near_of(c, QPN0)->requester_qpn, 0x52);
	assert_int_equal(core_expect(&c->b, RC_WRITE_ONLY, 5)->h.dest_qpn, QPN0 + 1);
}

/* An answer whose PSN is far from the probed flow's, or that comes while no flow is probed, delays no turn: such
 * answers may be forged. */
static void pair__stray_answers_hold_nobody_up(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x51);

	assert_int_equal(ack_to(c, 0x66, 0, 1), DROP_LAN_ACK_UNMATCHED);
	send_to(c, QPN0 + 1, 0x10000);
	core_expect(&c->b, RC_WRITE_ONLY, 0x10000);
	assert_int_equal(ack_to(c, 0x66, 0x10000 - BELOW_BASE_REACH - 1, 1), DROP_LAN_ACK_UNMATCHED);
	assert_int_equal(ack_to(c, 0x52, 0x10000, 1), DROP_NONE);
}

/* Nor does one whose PSN is far from those of all flows that wait for the first turn between two hosts: the turn comes
 * 20 ms after the last answer before these flows, though such answers go on. */
static void pair__stray_answers_put_off_no_first_turn(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	ack_to(c, 0x66, 0x700000, 1);
	send_to(c, QPN0, 0x10000);
	send_to(c, QPN0 + 1, 0x600000);
	for (uint32_t ms = 0; ms < 19; ms++) {
		ack_to(c, 0x66, 0x800000 + ms, 1);
		ack_to(c, 0x66, 0x10000 - BELOW_BASE_REACH - 1, 1);
		core_wait(c, CORE_MS);
	}
	assert_int_equal(core_pending(&c->b), 0);
	ack_to(c, 0x66, 0x800000, 1);
	core_wait(c, 2 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 0x600000);
	assert_int_equal(ack_to(c, 0x51, 0x600000, 1), DROP_NONE);
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x51);
	core_expect(&c->b, RC_WRITE_ONLY, 0x10000);
}

/* ... but an answer that may pass for that of any waiting flow does. */
static void pair__answers_near_one_that_waits_put_off_the_first_turn(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	ack_to(c, 0x66, 0x700000, 1);
	send_to(c, QPN0, 0x10000);
	send_to(c, QPN0 + 1, 0x600000);
	core_wait(c, 15 * CORE_MS);
	ack_to(c, 0x66, 0x600000 - BELOW_BASE_REACH, 1);
	core_wait(c, 19 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	ack_to(c, 0x66, 0x10001, 1);
	core_wait(c, 19 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 2 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 0x600000);
}

/* A flow in doubt takes any ACK that is further on, so such an ACK to others puts off its first turn as well. */
static void pair__answers_that_one_in_doubt_would_take_put_off_the_first_turn(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	ack_to(c, 0x66, 0x700000, 1);
	send_to(c, QPN0, 0x10000);
	core_wait(c, 15 * CORE_MS);
	far_of(c, QPN0)->doubted = true;
	ack_to(c, 0x66, 0x710000, 1);
	core_wait(c, 19 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 2 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 0x10000);
}

/* If the flow whose turn was taken back ends, the quarantine is that of a flow that ended in its turn. */
static void pair__end_after_a_turn_taken_back_means_quarantine(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, QPN0, 5);
	core_expect(&c->b, RC_WRITE_ONLY, 5);
	ack_to(c, 0x51, 3, 4);
	far_on_close(c->b.p, &(struct wan_flow_close){.flow = near_wire_id(c->a.p, near_of(c, QPN0)),
	                                              .inc = near_of(c, QPN0)->inc});
	send_to(c, QPN0 + 1, 5);
	core_wait(c, 99 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 2 * CORE_MS);
	assert_int_equal(core_expect(&c->b, RC_WRITE_ONLY, 5)->h.dest_qpn, QPN0 + 1);
}

/* An ACK of a PSN before the first packet seen does not answer that packet, and gives the QPN no new owner. */
static void pair__ack_of_what_was_before_is_no_answer(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x51);

	core_wait(c, 300 * CORE_MS);
	send_to(c, QPN0 + 1, 5);
	core_expect(&c->b, RC_WRITE_ONLY, 5);
	assert_int_equal(ack_to(c, 0x51, 4, 5), DROP_LAN_ACK_UNSENT);
	assert_int_equal(ack_to(c, 0x52, 4, 5), DROP_LAN_ACK_UNMATCHED);
	assert_int_equal(near_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
	assert_int_equal(ack_to(c, 0x52, 5, 6), DROP_NONE); /* no doubt: the hosts are known for long */
}

/* A host repeats packets that its responder has and the edges do not know. The responder ACKs the last of them,
 * although only the first was sent: a flow without an answer is probed again with one packet. */
static void pair__responder_that_is_ahead(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	c->b.p->cfg.lan_window_bytes = 1;
	for (uint32_t psn = 6; psn < 8; psn++)
		send_to(c, QPN0, psn);                                   /* the first packet goes to the host */
	assert_int_equal(ack_to(c, 0x51, 7, 8), DROP_LAN_ACK_UNMATCHED); /* the host has repeated no packet yet */
	core_wait(c, c->b.cfg.lan_timeout_ns);
	for (uint32_t psn = 0; psn < 8; psn++)
		send_to(c, QPN0, psn);
	core_forget(&c->b);
	c->b.p->cfg.lan_window_bytes = c->b.cfg.lan_window_bytes;
	core_wait(c, c->b.cfg.quarantine_ns + CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 2 * CORE_MS); /* the host went back: another flow, which is probed once more */
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(ack_to(c, 0x51, 8, 9), DROP_LAN_ACK_UNMATCHED); /* the edge lacks these packets */
	assert_int_equal(ack_to(c, 0x51, 5, 6), DROP_NONE);
	assert_int_equal(near_of(c, QPN0)->requester_qpn, 0x51);
	assert_int_equal(core_expect_aeth(&c->a, 7, AETH_ACK_NO_CREDITS)->h.aeth_msn, 8);
	core_expect(&c->b, RC_WRITE_ONLY, 6);
	assert_int_equal(ack_to(c, 0x51, 7, 8), DROP_NONE);
}

/* If the responder ACKs a PSN beyond all packets at the edge, the edge sends all of them, and a READ among them gets
 * its own response. */
static void pair__responder_that_is_far_ahead(void **state)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, 1);
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, QPN0, 0);
	h.dest_qpn = QPN0;
	h.reth_len = 3 * CORE_PMTU;
	core_in(&c->a, h, 0, 0);
	core_pump(c);
	core_wait(c, c->b.cfg.lan_timeout_ns);
	core_forget(&c->b);
	core_wait(c, c->b.cfg.quarantine_ns + CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(ack_to(c, 0x51, 40, 30), DROP_LAN_ACK_UNMATCHED);
	core_expect(&c->b, RC_READ_REQUEST, 1);
	core_in(&c->b, core_answer(RC_READ_RESP_FIRST, 0x51, 1, AETH_ACK_NO_CREDITS, 2), CORE_PMTU, 0);
	core_pump(c);
	assert_int_equal(near_of(c, QPN0)->requester_qpn, 0x51);
}

/* ... but forged answers cannot keep the flows from their turns for ever. */
static void pair__forged_answers_do_not_hold_it_for_ever(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (uint64_t from_ns = c->now_ns; core_pending(&c->b) == 0; core_wait(c, 10 * CORE_MS)) {
		ack_to(c, 0x51, 0, 1);
		if (c->now_ns == from_ns)
			send_to(c, QPN0, 0);
		assert_true(c->now_ns <= from_ns + 200 * CORE_MS);
	}
}

/* --- the table of host pairs --- */

/* An unsolicited answer; each i is another pair of hosts. */
static void unasked(struct core *c, uint32_t i)
{
	struct roce_pkt h = core_answer(RC_ACK, 0x51, 0, AETH_ACK_NO_CREDITS, 1);

	h.src = core_ip(2, (uint8_t)(10 + i));
	h.dst = core_ip(1, (uint8_t)(100 + i));
	assert_int_equal(core_in(&c->b, h, 0, 0), DROP_LAN_ACK_UNMATCHED);
	core_pump(c);
}

static bool remembered(struct core *c, uint32_t i)
{
	struct ip_addr requester = core_ip(1, (uint8_t)(100 + i));

	for (uint32_t k = 0; k < CORE_FLOWS; k++)
		if (c->b.p->pairs[k].used && ip_addr_eq(&c->b.p->pairs[k].src, &requester))
			return true;
	return false;
}

/* The table is full of host pairs made by unsolicited answers: the oldest of them is evicted, and host pairs with
 * flows never are. */
static void pair__a_full_table_gives_the_oldest_place(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x51);

	for (uint32_t i = 0; i < CORE_FLOWS - 1; i++)
		unasked(c, i);
	for (uint32_t i = 0; i < CORE_FLOWS - 1; i++)
		assert_true(remembered(c, i));
	for (uint32_t i = 0; i < 2 * CORE_FLOWS; i++) {
		unasked(c, CORE_FLOWS - 1 + i);
		assert_true(remembered(c, CORE_FLOWS - 1 + i));
		assert_false(remembered(c, i));
		assert_true(remembered(c, i + 1));
	}
	assert_int_not_equal(far_by_peer(c->b.p, near_wire_id(c->a.p, near_of(c, QPN0)))->hostpair, NONE);
}

/* A host pair in quarantine after a flow's turn is evicted only when no host pair made by unsolicited answers is
 * left. */
static void pair__what_answers_made_gives_its_place_first(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct ip_addr requester = core_ip(1, 2);

	send_to(c, QPN0, 0);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	far_on_close(c->b.p, &(struct wan_flow_close){.flow = near_wire_id(c->a.p, near_of(c, QPN0)),
	                                              .inc = near_of(c, QPN0)->inc});
	for (uint32_t i = 0; i < 3 * CORE_FLOWS; i++)
		unasked(c, i);
	send_to(c, QPN0 + 1, 0);
	assert_int_equal(core_pending(&c->b), 0);
	assert_true(ip_addr_eq(&c->b.p->pairs[0].src, &requester));
}

/* All host pairs have flows: an unsolicited answer makes no entry, and evicts none. */
static void pair__a_table_without_places_remembers_nothing(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x51);

	for (uint32_t i = 0; i < CORE_FLOWS - 1; i++) {
		struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);

		h.src = core_ip(1, (uint8_t)(10 + i));
		core_in(&c->a, h, CORE_PMTU, 0);
		core_pump(c);
		core_wait(c, CORE_MS);
	}
	assert_true(dlist_empty(&c->b.p->pairs_free));
	unasked(c, 1);
	assert_false(remembered(c, 1));
	assert_int_equal(near_of(c, QPN0)->requester_qpn, 0x51);
}

/* Host pairs leave in any order: every entry becomes free again. */
static void pair__places_come_back(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < CORE_FLOWS; i++)
			unasked(c, i);
		assert_true(dlist_empty(&c->b.p->pairs_free));
		core_wait(c, 100 * CORE_MS);
		for (uint32_t i = 0; i < CORE_FLOWS; i++)
			assert_false(c->b.p->pairs[i].used || c->b.p->lan_hosts[i].used);
	}
}

/* A responder may expect a PSN shortly before the first packet seen, which that packet has overtaken, but not one of
 * long ago: a stray or forged NAK would end the turn, and the true answer would not count. */
static void pair__stray_nak_is_no_answer(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, QPN0, 0x10000);
	core_expect(&c->b, RC_WRITE_ONLY, 0x10000);
	core_in(&c->b, core_answer(RC_ACK, 0x66, 0x10000 - BELOW_BASE_REACH - 1, AETH_NAK_PSN_SEQ, 0), 0, 0);
	core_in(&c->b, core_answer(RC_ACK, 0x66, 0x10002, AETH_NAK_PSN_SEQ, 0), 0, 0); /* never sent */
	core_in(&c->b, core_answer(RC_ACK, 0x66, 0x610000, AETH_NAK_PSN_SEQ, 0), 0, 0);
	core_pump(c);
	assert_int_equal(core_drops(&c->b, DROP_LAN_ACK_UNMATCHED), 3);
	assert_int_equal(near_of(c, QPN0)->pairing, PAIR_LEARNING);
	assert_int_equal(ack_to(c, 0x51, 0x10000, 1), DROP_NONE);
	assert_int_equal(near_of(c, QPN0)->requester_qpn, 0x51);
}

/* A pair is provisional until a second answer at another PSN. */
static void pair__second_answer_confirms(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x51);

	assert_int_equal(near_of(c, QPN0)->pairing, PAIR_PROVISIONAL);
	ack_to(c, 0x51, 0, 1);
	core_wait(c, CORE_MS);
	assert_int_equal(near_of(c, QPN0)->pairing, PAIR_PROVISIONAL);
	send_to(c, QPN0, 1);
	ack_to(c, 0x51, 1, 2);
	send_to(c, QPN0, 2);
	ack_to(c, 0x51, 2, 3);
	core_wait(c, CORE_MS);
	assert_int_equal(near_of(c, QPN0)->pairing, PAIR_CONFIRMED);
}

/* A requester's QPN comes back with another flow: the new flow gets the QPN, the old pair is void. */
static void pair__reused_requester_qpn(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x51);

	core_wait(c, 100 * CORE_MS);
	send_to(c, QPN0 + 1, 0); /* the host destroyed the first QP and made a new QP with the same QPN */
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(ack_to(c, 0x51, 0, 1), DROP_NONE);
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x51);
}

/* A restart does not give the QPN back, whichever of the two flows it finds first. */
static void pair__reused_requester_qpn_after_a_restart(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, QPN0, 0); /* it has the first place in the table, and gets no answer */
	core_wait(c, c->b.cfg.lan_timeout_ns);
	send_to(c, QPN0 + 1, 0);
	core_forget(&c->b);
	core_wait(c, c->b.cfg.quarantine_ns);
	answer_until_paired(c, QPN0 + 1, 0x51);
	core_wait(c, c->b.cfg.quarantine_ns);
	core_forget(&c->b);
	answer_until_paired(c, QPN0, 0x51);
	assert_true(far_of(c, QPN0)->idx < far_of(c, QPN0 + 1)->idx);
	assert_int_equal(far_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
	core_rebuild(&c->b);
	assert_int_not_equal(far_of(c, QPN0)->pairing, PAIR_LEARNING);
	assert_int_equal(far_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
}

static bool nothing_comes_back(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)dgram;
	(void)len;
	return from == &c->a;
}

/* Which life a flow is in is doubted until its responder has answered it. The near edge has not heard of the answer,
 * and says so again after the pair is void: the far edge knows better. */
static void pair__doubt_ends_with_the_first_answer(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	c->wan = nothing_comes_back;
	send_to(c, QPN0, 0);
	near_of(c, QPN0)->doubted = true;
	ack_to(c, 0x51, 0, 1);
	core_wait(c, 100 * CORE_MS);
	send_to(c, QPN0 + 1, 0);
	ack_to(c, 0x51, 0, 1);
	assert_int_equal(far_of(c, QPN0)->pairing, PAIR_LEARNING);
	assert_true(far_of(c, QPN0)->pos_acked > far_of(c, QPN0)->pos_base);
	core_session(c);
	assert_true(near_of(c, QPN0)->doubted);
	assert_false(far_of(c, QPN0)->doubted || far_of(c, QPN0)->resumed);
}

/* Another flow may have the QPN. As long as it has not got it, the old pair holds: an idle flow would never be asked for
 * its pair again. */
static void pair__void_only_once_another_has_the_qpn(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x51);

	send_to(c, QPN0 + 1, 0);
	send_to(c, QPN0 + 2, 0);
	core_wait(c, 121 * CORE_MS);
	core_forget(&c->b);
	assert_true(far_of(c, QPN0 + 2)->probing);
	assert_int_equal(ack_to(c, 0x51, 0, 1), DROP_LAN_ACK_UNMATCHED); /* it may be for the flow in between */
	assert_int_equal(far_of(c, QPN0 + 2)->pairing, PAIR_LEARNING);
	assert_int_not_equal(far_of(c, QPN0)->pairing, PAIR_LEARNING);
	answer_until_paired(c, QPN0 + 2, 0x51);
	assert_int_equal(far_of(c, QPN0)->pairing, PAIR_LEARNING);
}

/* The first packet of the new QP was lost: its responder waits for a PSN in front of all that is here. */
static void pair__reused_requester_qpn_expects_an_earlier_psn(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x51);

	core_wait(c, 100 * CORE_MS);
	send_to(c, QPN0 + 1, 1);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	assert_int_equal(core_in(&c->b, core_answer(RC_ACK, 0x51, 0, AETH_NAK_PSN_SEQ, 0), 0, 0), DROP_NONE);
	core_pump(c);
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x51);
	assert_int_equal(pos_psn(near_of(c, QPN0 + 1)->pos_base), 0);
}

/* A copy of an ACK to an idle flow does not say that the flow that is asked is behind its responder. */
static void pair__late_ack_to_an_idle_owner_is_not_ahead(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x51);

	for (uint32_t psn = 1; psn < 4; psn++)
		send_to(c, QPN0, psn);
	ack_to(c, 0x51, 3, 4);
	core_wait(c, 100 * CORE_MS);
	send_to(c, QPN0 + 1, 0);
	core_wait(c, c->b.cfg.lan_timeout_ns / 2); /* the probe is repeated within its turn */
	for (uint32_t psn = 1; psn < 4; psn++)
		send_to(c, QPN0 + 1, psn);
	assert_true(far_of(c, QPN0 + 1)->probing && far_of(c, QPN0 + 1)->probe_repeats);
	assert_int_equal(far_of(c, QPN0 + 1)->pos_tx_max, far_of(c, QPN0 + 1)->pos_base + 1);
	ack_to(c, 0x51, 2, 4);
	assert_int_not_equal(far_of(c, QPN0)->pairing, PAIR_LEARNING);
	assert_int_equal(far_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
	assert_int_equal(far_of(c, QPN0 + 1)->pos_acked, far_of(c, QPN0 + 1)->pos_base);
}

/* The old flow has repeated packets, but so long ago that no answer to them can come: an ACK of a PSN beyond the probed
 * packet says that the responder is ahead, and the flow's window decides whose it is. */
static void pair__repetitions_of_long_ago_hide_no_new_owner(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x51);

	for (uint32_t psn = 1; psn < 6; psn++)
		send_to(c, QPN0, psn);
	core_wait(c, c->b.cfg.lan_timeout_ns);
	ack_to(c, 0x51, 5, 6);
	assert_true(far_of(c, QPN0)->repeated > 0);
	core_wait(c, 31000 * CORE_MS);
	send_to(c, QPN0 + 1, 0);
	core_wait(c, c->b.cfg.lan_timeout_ns / 2);
	for (uint32_t psn = 1; psn < 4; psn++)
		send_to(c, QPN0 + 1, psn);
	assert_true(far_of(c, QPN0 + 1)->probing && far_of(c, QPN0 + 1)->probe_repeats);
	assert_int_equal(far_of(c, QPN0 + 1)->pos_tx_max, far_of(c, QPN0 + 1)->pos_base + 1);
	ack_to(c, 0x51, 3, 4);
	core_wait(c, CORE_MS);
	assert_int_equal(far_of(c, QPN0 + 1)->pos_tx_max, far_of(c, QPN0 + 1)->pos_base + 4);
	ack_to(c, 0x51, 3, 4);
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x51);
}

/* The old flow has repeated a packet a moment ago: a late answer to the repetition may still come, but no answer of
 * a PSN that the flow never sent. */
static void pair__reused_requester_qpn_at_another_psn(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x51);

	send_to(c, QPN0, 1);
	core_wait(c, c->b.cfg.lan_timeout_ns); /* repeats the packet */
	ack_to(c, 0x51, 1, 2);
	core_forget(&c->b);
	send_to(c, QPN0 + 1, 0);
	assert_int_equal(ack_to(c, 0x51, 0, 1), DROP_LAN_ACK_STALE);
	send_to(c, QPN0 + 2, 5000); /* its turn comes after the other flow's */
	core_wait(c, c->b.cfg.lan_timeout_ns + c->b.cfg.quarantine_ns);
	far_by_peer(c->b.p, near_wire_id(c->a.p, near_of(c, QPN0)))->retried_ns = c->now_ns;
	assert_int_equal(ack_to(c, 0x51, 5000, 1), DROP_NONE);
	assert_int_equal(near_of(c, QPN0 + 2)->requester_qpn, 0x51);
}

/* Answers overtake each other on the LAN: a late answer to an idle flow does not count for the next flow. */
static void pair__overtaken_answer_decides_nothing(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (uint32_t psn = 0; psn < 3; psn++)
		send_to(c, QPN0, psn);
	ack_to(c, 0x51, 0, 1);
	ack_to(c, 0x51, 2, 3);
	for (uint32_t psn = 0; psn < 3; psn++)
		send_to(c, QPN0 + 1, psn);
	core_forget(&c->b);
	assert_int_equal(ack_to(c, 0x51, 1, 2), DROP_LAN_ACK_STALE);
	assert_int_equal(near_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
	assert_int_equal(ack_to(c, 0x52, 0, 1), DROP_NONE);
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x52);
}

/* --- answers that are late --- */

/* Answers the packets of the flow to `qpn`, to `requester_qpn`, until the flow is paired. Returns how many answers
 * that took. */
static uint32_t answer_until_paired(struct core *c, uint32_t qpn, uint32_t requester_qpn)
{
	uint32_t n = 0;

	while (near_of(c, qpn)->pairing == PAIR_LEARNING && n < 200) {
		const struct core_pkt *k = core_take(&c->b);

		if (!k) {
			core_wait(c, CORE_MS);
			continue;
		}
		if (k->h.dest_qpn != qpn) { /* a packet of a silent owner */
			assert_int_not_equal(near_of(c, k->h.dest_qpn)->pairing, PAIR_LEARNING);
			continue;
		}
		ack_to(c, requester_qpn, k->h.psn, k->h.psn + 1);
		n++;
	}
	assert_int_equal(near_of(c, qpn)->requester_qpn, requester_qpn);
	core_forget(&c->b);
	return n;
}

/* Makes n flows from QPN0 on, each with one packet at PSN 0; they have their turns, and no responder answers for so
 * long. */
static struct core *given_unanswered(void **state, uint32_t n, uint64_t ns)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (uint32_t i = 0; i < n; i++)
		send_to(c, QPN0 + i, 0);
	core_wait(c, ns);
	return c;
}

/* Answers the flow that has the turn, until all flows are paired. */
static void answer_all(struct core *c, uint32_t n)
{
	uint32_t paired = 0;

	for (int ms = 0; ms < 3000 && paired < n; ms++) {
		for (const struct core_pkt *k; (k = core_take(&c->b));)
			ack_to(c, peer_of(k->h.dest_qpn), k->h.psn, k->h.psn + 1);
		core_wait(c, CORE_MS);
		paired = 0;
		for (uint32_t i = 0; i < n; i++)
			paired += near_of(c, QPN0 + i)->pairing != PAIR_LEARNING;
	}
	for (uint32_t i = 0; i < n; i++) {
		assert_int_not_equal(near_of(c, QPN0 + i)->pairing, PAIR_LEARNING);
		assert_int_equal(near_of(c, QPN0 + i)->requester_qpn, peer_of(QPN0 + i));
	}
}

/* In quarantine no other flow has been probed: a late answer belongs to the last probed flow. */
static void pair__late_answer_in_quarantine(void **state)
{
	struct core *c = given_unanswered(state, 2, 60 * CORE_MS);

	assert_int_equal(ack_to(c, peer_of(QPN0), 0, 1), DROP_NONE);
	assert_int_equal(near_of(c, QPN0)->requester_qpn, peer_of(QPN0));
	core_forget(&c->b);
	core_wait(c, 5 * CORE_MS); /* the quarantine is over */
	assert_int_equal(core_pending(&c->b), 2);
	assert_int_equal(answer_until_paired(c, QPN0 + 1, peer_of(QPN0 + 1)), 1);
}

/* The first of four late answers pairs the flow. The others come when it is idle and another flow has its turn. */
static void pair__late_answers_to_a_flow_paired_since(void **state)
{
	struct core *c = given_unanswered(state, 1, 60 * CORE_MS);

	assert_int_equal(core_pending(&c->b), 4);
	assert_int_equal(ack_to(c, 0x51, 0, 1), DROP_NONE);
	core_wait(c, 100 * CORE_MS);
	send_to(c, QPN0 + 1, 0);
	core_forget(&c->b);
	for (int i = 0; i < 6; i++) /* three, each doubled */
		assert_int_equal(ack_to(c, 0x51, 0, 1), DROP_LAN_ACK_STALE);
	assert_int_not_equal(far_of(c, QPN0)->pairing, PAIR_LEARNING);
	assert_int_equal(near_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
	assert_int_equal(answer_until_paired(c, QPN0 + 1, 0x52), 1);
}

/* The same after very many turns: all of these answers may come. */
static void pair__late_answers_to_many_probes_of_a_flow_paired_since(void **state)
{
	struct core *c = given_unanswered(state, 1, 60 * CORE_MS);

	far_of(c, QPN0)->probes_sent[0] = 40;
	ack_to(c, 0x51, 0, 1);
	core_wait(c, 100 * CORE_MS);
	send_to(c, QPN0 + 1, 0);
	for (int i = 0; i < 2 * 39; i++)
		ack_to(c, 0x51, 0, 1);
	assert_int_not_equal(far_of(c, QPN0)->pairing, PAIR_LEARNING);
	assert_int_equal(near_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
	ack_to(c, 0x51, 0, 1);
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x51);
	assert_int_equal(far_of(c, QPN0)->pairing, PAIR_LEARNING);
}

/* A flow is paired by a late answer while it waits for another turn: it must lose that turn, which would never end. */
static void pair__late_answer_to_one_that_waits(void **state)
{
	struct core *c = given_unanswered(state, 3, 60 * CORE_MS);

	send_to(c, QPN0, 1);
	core_forget(&c->b);
	assert_int_equal(ack_to(c, peer_of(QPN0), 0, 1), DROP_NONE);
	answer_all(c, 3);
	send_to(c, QPN0 + 3, 0);
	answer_all(c, 4);
}

/* A host that stood still for longer than the quarantine answers all probes in the turn of another flow. */
static void pair__late_answers_after_quarantine(void **state)
{
	struct core *c = given_unanswered(state, 2, 121 * CORE_MS);

	core_forget(&c->b);
	for (int i = 0; i < 4; i++) /* as often as the flow was probed */
		assert_int_equal(ack_to(c, peer_of(QPN0), 0, 1), DROP_LAN_ACK_UNMATCHED);
	assert_int_equal(near_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
	assert_in_range(answer_until_paired(c, QPN0 + 1, peer_of(QPN0 + 1)), 9, 9); /* twice 4 answers, and one more */
	core_wait(c, 200 * CORE_MS);
	assert_int_equal(answer_until_paired(c, QPN0, peer_of(QPN0)), 1); /* the answer can be for no other flow */
}

/* Each of these answers may be duplicated on the LAN. */
static void pair__late_answers_doubled(void **state)
{
	struct core *c = given_unanswered(state, 2, 121 * CORE_MS);

	for (int i = 0; i < 8; i++)
		assert_int_equal(ack_to(c, peer_of(QPN0), 0, 1), DROP_LAN_ACK_UNMATCHED);
	assert_int_equal(near_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
}

/* Packets that a flow sent at once in its turn, few of them with AckReq, do not count towards the limit of packets
 * sent in doubt. */
static void pair__many_sent_before_the_doubt(void **state)
{
	struct core *c = given_unanswered(state, 2, 121 * CORE_MS);

	far_by_peer(c->b.p, near_wire_id(c->a.p, near_of(c, QPN0 + 1)))->probes = 100;
	core_forget(&c->b);
	assert_int_equal(ack_to(c, peer_of(QPN0), 0, 1), DROP_LAN_ACK_UNMATCHED);
	assert_int_equal(answer_until_paired(c, QPN0 + 1, peer_of(QPN0 + 1)), 9);
}

static void ask_read_of(struct core *c, uint32_t qpn, uint32_t len)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, 0);

	h.dest_qpn = qpn;
	h.reth_len = len;
	core_in(&c->a, h, 0, 0);
	core_pump(c);
}

static void ask_read(struct core *c, uint32_t qpn)
{
	ask_read_of(c, qpn, 2 * CORE_PMTU);
}

/* The answer to a READ has two packets that each could count: it counts once. */
static void pair__late_answers_to_reads(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	ask_read(c, QPN0);
	ask_read(c, QPN0 + 1);
	core_wait(c, 121 * CORE_MS);
	for (int i = 0; i < 8; i++) {
		core_in(&c->b, core_answer(RC_READ_RESP_FIRST, 0x51, 0, AETH_ACK_NO_CREDITS, 1), CORE_PMTU, 0);
		core_pump(c); /* the flow is probed again */
		core_in(&c->b, core_answer(RC_READ_RESP_LAST, 0x51, 1, AETH_ACK_NO_CREDITS, 1), CORE_PMTU, 0);
		core_pump(c);
	}
	assert_int_equal(near_of(c, QPN0)->pairing, PAIR_LEARNING);
	assert_int_equal(near_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
	core_in(&c->b, core_answer(RC_READ_RESP_FIRST, 0x51, 0, AETH_ACK_NO_CREDITS, 1), CORE_PMTU, 0);
	core_pump(c);
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x51);
}

/* rxe answers the last packet of a READ that it has executed with LAST, never with ONLY. */
static void pair__number_used_again_for_the_rest_of_a_read(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	ask_read_of(c, QPN0, CORE_PMTU);
	ask_read_of(c, QPN0 + 1, CORE_PMTU);
	core_wait(c, 121 * CORE_MS);
	for (int i = 0; i < 8; i++) {
		core_in(&c->b, core_answer(RC_READ_RESP_LAST, 0x51, 0, AETH_ACK_NO_CREDITS, 1), CORE_PMTU, 0);
		core_pump(c);
	}
	assert_int_equal(near_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
	core_in(&c->b, core_answer(RC_READ_RESP_LAST, 0x51, 0, AETH_ACK_NO_CREDITS, 1), CORE_PMTU, 0);
	core_pump(c);
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x51);
}

/* The same with three packets left and a PMTU that is not known yet: MIDDLE has no AETH, and LAST has a PSN beyond all
 * that the far edge knows to be asked. */
static void pair__by_the_rest_of_a_read_of_unknown_pmtu(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	uint64_t end;

	ask_read_of(c, QPN0, 3 * CORE_PMTU);
	for (int ms = 0; ms < 400 && near_of(c, QPN0)->ops.next != &near_of(c, QPN0)->ops; ms++) {
		for (const struct core_pkt *k; (k = core_take(&c->b));) {
			if (k->h.opcode != RC_READ_REQUEST)
				continue;
			for (uint32_t psn = k->h.psn; psn < 3; psn++)
				core_in(&c->b,
				        core_answer(psn < 2 ? RC_READ_RESP_MIDDLE : RC_READ_RESP_LAST, 0x51, psn,
				                    AETH_ACK_NO_CREDITS, 1),
				        CORE_PMTU, 0);
		}
		core_wait(c, CORE_MS);
	}
	assert_int_equal(near_of(c, QPN0)->requester_qpn, 0x51);
	end = near_of(c, QPN0)->pos_next;
	assert_int_equal(far_of(c, QPN0)->pos_acked, end);
	assert_int_equal(end, POS_ORIGIN + 3);
	core_forget(&c->a);
	core_forget(&c->b);
}

/* The far edge probes a flow that has more packets with its next packet: the answer names a PSN that no other flow
 * was probed with. */
static void pair__psn_that_no_other_was_asked(void **state)
{
	struct core *c = given_unanswered(state, 2, 60 * CORE_MS);

	for (uint32_t psn = 1; psn < 3; psn++)
		send_to(c, QPN0 + 1, psn);
	far_by_peer(c->b.p, near_wire_id(c->a.p, near_of(c, QPN0 + 1)))->window_bytes = 1;
	core_forget(&c->b);
	core_wait(c, 61 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(ack_to(c, peer_of(QPN0), 0, 1), DROP_LAN_ACK_UNMATCHED);
	assert_true(core_expect(&c->b, RC_WRITE_ONLY, 1)->h.ack_req);
	assert_int_equal(ack_to(c, peer_of(QPN0), 0, 1), DROP_LAN_ACK_UNMATCHED);
	assert_int_equal(ack_to(c, peer_of(QPN0 + 1), 1, 2), DROP_NONE);
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, peer_of(QPN0 + 1));
}

/* All flows were probed, and all answers come at once after a second; or the host was down, and answers from then
 * on. */
static void pair__host_that_stood_still(void **state)
{
	struct core *c = given_unanswered(state, 12, 1000 * CORE_MS);

	answer_all(c, 12);
}

static void pair__host_that_was_not_there(void **state)
{
	struct core *c = given_unanswered(state, 12, 1000 * CORE_MS);

	core_forget(&c->b);
	answer_all(c, 12);
}

/* More unanswered flows than the far edge remembers singly. */
static void pair__many_unanswered(void **state)
{
	struct core *c = given_unanswered(state, FLOWS, 1500 * CORE_MS);

	assert_int_equal(ack_to(c, 0x51, 0, 1), DROP_LAN_ACK_UNMATCHED);
	answer_all(c, FLOWS);
}

/* The flow has gone, and was the last flow between its hosts: its answer may come for half a minute. */
static void pair__answers_to_a_flow_that_has_gone(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, QPN0, 0);
	far_on_close(c->b.p, &(struct wan_flow_close){.flow = near_wire_id(c->a.p, near_of(c, QPN0)),
	                                              .inc = near_of(c, QPN0)->inc});
	core_wait(c, 1000 * CORE_MS);
	core_forget(&c->b);
	send_to(c, QPN0 + 1, 0);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(ack_to(c, peer_of(QPN0), 0, 1), DROP_LAN_ACK_UNMATCHED);
	assert_int_equal(answer_until_paired(c, QPN0 + 1, peer_of(QPN0 + 1)), 3);
}

/* A paired flow has gone after it had repeated a packet: its QPN has a new owner, and the answers may be those of
 * the old flow. */
static void pair__answers_to_a_pair_that_has_gone(void **state)
{
	uint32_t n = 0;
	struct core *c = given_pair(state, QPN0, 0x51);

	send_to(c, QPN0, 1);
	core_wait(c, c->b.cfg.lan_timeout_ns); /* repeats the packet */
	ack_to(c, 0x51, 1, 2);
	core_forget(&c->b);
	far_on_close(c->b.p, &(struct wan_flow_close){.flow = near_wire_id(c->a.p, near_of(c, QPN0)),
	                                              .inc = near_of(c, QPN0)->inc});
	send_to(c, QPN0 + 1, 1);
	while (near_of(c, QPN0 + 1)->pairing == PAIR_LEARNING && ++n < 50)
		ack_to(c, 0x51, 1, 2);
	assert_in_range(n, 3, 5);
	send_to(c, QPN0 + 2, 1);
	assert_int_equal(ack_to(c, 0x52, 1, 2), DROP_NONE); /* no answer of the old flow can come to this QPN */
}

static void pair__nobody_answers_after_half_a_minute(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, QPN0, 0);
	far_on_close(c->b.p, &(struct wan_flow_close){.flow = near_wire_id(c->a.p, near_of(c, QPN0)),
	                                              .inc = near_of(c, QPN0)->inc});
	core_wait(c, 31000 * CORE_MS);
	core_forget(&c->b);
	send_to(c, QPN0 + 1, 0);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(ack_to(c, peer_of(QPN0 + 1), 0, 1), DROP_NONE);
}

/* After a restart the far edge does not know which flows were probed before. */
static void pair__late_answers_after_a_restart(void **state)
{
	struct core *c = given_unanswered(state, 2, CORE_MS);

	core_rebuild(&c->b);
	core_session(c);
	core_forget(&c->b);
	core_wait(c, 99 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 26 * CORE_MS);
	core_forget(&c->b);
	for (int i = 0; i < 4; i++)
		assert_int_equal(ack_to(c, peer_of(QPN0 + 2), 0, 1), DROP_LAN_ACK_UNMATCHED);
	answer_all(c, 2);
}

/* The QPN of a flow that repeated a packet lately has a new owner: more answers than the old flow can have show it. */
static void pair__reused_requester_qpn_after_a_retry(void **state)
{
	uint32_t n = 0;
	struct core *c = given_pair(state, QPN0, 0x51);

	send_to(c, QPN0, 1);
	core_wait(c, c->b.cfg.lan_timeout_ns); /* repeats the packet twice */
	ack_to(c, 0x51, 1, 2);
	core_wait(c, 100 * CORE_MS);
	core_forget(&c->b);
	send_to(c, QPN0 + 1, 1);
	while (near_of(c, QPN0 + 1)->pairing == PAIR_LEARNING && ++n < 50)
		ack_to(c, 0x51, 1, 2);
	assert_in_range(n, 2, 5);
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x51);
}

/* --- a flow that has failed --- */

static void refuse(struct core *c, uint32_t requester_qpn, uint32_t psn)
{
	enum proxy_drop d = core_in(&c->b, core_answer(RC_ACK, requester_qpn, psn, AETH_NAK_REM_ACCESS, psn), 0, 0);

	core_pump(c);
	assert_int_equal(d, DROP_NONE);
}

/* Makes a flow to QPN0, paired with 0x51, whose responder has refused PSN 1 ns ago. */
static struct core *given_refused(void **state, uint64_t ns)
{
	struct core *c = given_pair(state, QPN0, 0x51);

	send_to(c, QPN0, 1);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	refuse(c, 0x51, 1);
	core_wait(c, ns);
	core_forget(&c->b);
	return c;
}

/* The host makes a new queue pair with the QPN of the failed flow: the first answer pairs the new flow with this
 * QPN, also at the PSN that was refused. */
static void pair__requester_qpn_of_a_failed_flow(void **state)
{
	struct core *c = given_refused(state, 100 * CORE_MS);

	send_to(c, QPN0 + 1, 1);
	assert_int_equal(answer_until_paired(c, QPN0 + 1, 0x51), 1);
	send_to(c, QPN0 + 1, 2);
	core_expect(&c->b, RC_WRITE_ONLY, 2);
	assert_int_equal(ack_to(c, 0x51, 2, 2), DROP_NONE);
	assert_true(near_of(c, QPN0)->state == NEAR_FAILED);
	assert_false(near_of(c, QPN0 + 1)->state == NEAR_FAILED);
}

/* The new queue pair's responder refuses the same request. The responder sends its NAK once, and the requester gets
 * it. */
static void pair__refused_again_in_the_next_life(void **state)
{
	const struct core_pkt *k;
	struct core *c = given_refused(state, 100 * CORE_MS);

	send_to(c, QPN0 + 1, 1);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	core_forget(&c->a);
	refuse(c, 0x51, 1);
	assert_true(far_has_failed(far_of(c, QPN0 + 1)));
	k = core_expect_aeth(&c->a, 1, AETH_NAK_REM_ACCESS);
	assert_int_equal(k->h.dest_qpn, 0x51);
}

/* Answers that the NAK has overtaken come soon after the NAK. Until then no flow is probed, and these answers count
 * for no flow. */
static void pair__answers_that_a_refusal_has_overtaken(void **state)
{
	struct core *c = given_refused(state, CORE_MS);

	send_to(c, QPN0 + 1, 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(ack_to(c, 0x51, 1, 1), DROP_LAN_ACK_UNMATCHED);
	core_wait(c, 18 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 2 * CORE_MS);
	assert_int_equal(answer_until_paired(c, QPN0 + 1, 0x51), 1);
}

/* Makes n paired flows, to QPN0 and following, with requester QPNs from 0x200. */
static struct core *given_pairs(void **state, uint32_t n)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (uint32_t i = 0; i < n; i++) {
		send_to(c, QPN0 + i, 0);
		answer_until_paired(c, QPN0 + i, 0x200 + i);
	}
	return c;
}

/* The responder of flow i refuses PSN 1. */
static void send_and_refuse(struct core *c, uint32_t i)
{
	send_to(c, QPN0 + i, 1);
	refuse(c, 0x200 + i, 1);
}

/* Another refusal has overtaken answers as well ... */
static void pair__answers_that_two_refusals_have_overtaken(void **state)
{
	struct core *c = given_pairs(state, 3);

	send_and_refuse(c, 0);
	core_wait(c, 1000 * CORE_MS);
	send_and_refuse(c, 1);
	core_wait(c, 15 * CORE_MS);
	send_and_refuse(c, 2);
	core_forget(&c->b);
	send_to(c, QPN0 + 3, 1);
	core_wait(c, 19 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	refuse(c, 0x202, 1);
	assert_true(far_has_failed(far_of(c, QPN0 + 3)));
}

/* ... but refusals without end do not keep a flow from its turn. */
static void pair__refusals_hold_nobody_up_for_ever(void **state)
{
	struct core *c = given_pairs(state, FLOWS);
	uint32_t probes = 0;

	send_and_refuse(c, 0);
	send_to(c, QPN0 + FLOWS, 0);
	for (uint32_t i = 1; i < FLOWS; i++) {
		core_wait(c, 10 * CORE_MS);
		for (const struct core_pkt *k; (k = core_take(&c->b));)
			probes += k->h.dest_qpn == QPN0 + FLOWS;
		assert_int_equal(probes > 0, i >= 20);
		send_and_refuse(c, i);
	}
}

/* The flow to QPN0 + 3, which waits for its turn, is not probed for `ns`; then its responder refuses, with one NAK. */
static void expect_no_turn_before(struct core *c, uint64_t ns)
{
	core_forget(&c->b);
	core_wait(c, ns - CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 2 * CORE_MS);
	assert_int_equal(core_expect(&c->b, RC_WRITE_ONLY, 1)->h.dest_qpn, QPN0 + 3);
	refuse(c, 0x200, 1);
	assert_true(far_has_failed(far_of(c, QPN0 + 3)));
}

/* A late answer to the last turn ends the quarantine, but answers that another flow's refusal has overtaken still
 * may come. */
static void pair__late_answer_does_not_end_the_wait_after_a_refusal(void **state)
{
	struct core *c = given_pairs(state, 2);

	send_to(c, QPN0 + 2, 1);
	core_wait(c, c->b.cfg.lan_timeout_ns);
	assert_int_equal(core_ctr(&c->b, CTR_PAIR_QUARANTINES), 1);
	send_to(c, QPN0 + 3, 1);
	core_wait(c, 90 * CORE_MS);
	send_and_refuse(c, 0);
	assert_int_equal(ack_to(c, 0x250, 1, 1), DROP_NONE);
	assert_int_equal(near_of(c, QPN0 + 2)->requester_qpn, 0x250);
	expect_no_turn_before(c, 20 * CORE_MS);
}

/* A probe has no next hop while another flow is refused: the flow is not probed again before the wait after the
 * refusal is over. */
static void pair__unsent_does_not_end_the_wait_after_a_refusal(void **state)
{
	struct core *c = given_pairs(state, 2);

	c->b.no_hop = true;
	send_to(c, QPN0 + 3, 1);
	send_to(c, QPN0, 1);
	c->now_ns += 2 * CORE_MS;
	proxy_tick(c->b.p, c->now_ns);
	assert_true(far_of(c, QPN0 + 3)->probing);
	refuse(c, 0x200, 1);
	assert_false(far_of(c, QPN0 + 3)->probing);
	c->b.no_hop = false;
	expect_no_turn_before(c, 20 * CORE_MS);
}

/* An unanswered turn has delayed the next turn for longer than a row of refusals may. A refusal at the end of that
 * delay begins a row of its own. */
static void pair__refusal_at_the_end_of_a_long_quarantine(void **state)
{
	struct core *c = given_pairs(state, 2);

	c->b.p->cfg.quarantine_ns = 500 * CORE_MS;
	send_to(c, QPN0 + 2, 500);
	send_and_refuse(c, 1);
	core_wait(c, c->b.cfg.lan_timeout_ns);
	assert_int_equal(core_ctr(&c->b, CTR_PAIR_QUARANTINES), 1);
	send_to(c, QPN0 + 3, 1);
	core_wait(c, 490 * CORE_MS);
	send_and_refuse(c, 0);
	expect_no_turn_before(c, 20 * CORE_MS);
}

/* The far edge restarts after the refusal, and still counts late answers for no flow. */
static void pair__late_answers_to_a_failed_flow_after_a_restart(void **state)
{
	struct core *c = given_refused(state, 100 * CORE_MS);

	core_rebuild(&c->b);
	core_session(c);
	core_forget(&c->b);
	send_to(c, QPN0 + 1, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ack_to(c, 0x51, 1, 1), DROP_LAN_ACK_UNMATCHED);
	assert_int_equal(near_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
	answer_until_paired(c, QPN0 + 1, 0x51);
}

/* Both the failed flow and the new owner of its QPN survive a restart, in whichever order of the table. */
static void pair__new_owner_keeps_its_qpn_over_a_restart(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, QPN0 + 1, 5000); /* the first index; its responder is not ready yet */
	send_to(c, QPN0, 0);
	core_wait(c, 121 * CORE_MS);
	core_forget(&c->b);
	ack_to(c, 0x51, 0, 1);
	answer_until_paired(c, QPN0, 0x51);
	send_to(c, QPN0, 1);
	core_in(&c->b, core_answer(RC_ACK, 0x51, 1, AETH_NAK_REM_ACCESS, 1), 0, 0);
	core_pump(c);
	core_forget(&c->b);
	answer_until_paired(c, QPN0 + 1, 0x51);
	assert_true(far_by_peer(c->b.p, near_wire_id(c->a.p, near_of(c, QPN0 + 1)))->idx <
	            far_by_peer(c->b.p, near_wire_id(c->a.p, near_of(c, QPN0)))->idx);
	core_rebuild(&c->b);
	core_session(c);
	core_forget(&c->b);
	send_to(c, QPN0 + 1, 5001);
	core_expect(&c->b, RC_WRITE_ONLY, 5001);
	assert_int_equal(ack_to(c, 0x51, 5001, 2), DROP_NONE);
}

/* The near edge has not got the pair when the far edge restarts: the far edge reports the pair, and the host gets
 * its NAK. */
static void pair__failed_flow_tells_its_pair_after_a_restart(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, QPN0, 0);
	c->cut = true;
	core_in(&c->b, core_answer(RC_ACK, 0x51, 0, AETH_NAK_REM_ACCESS, 0), 0, 0);
	core_pump(c);
	core_rebuild(&c->b);
	c->cut = false;
	core_session(c);
	core_wait(c, 20 * CORE_MS);
	k = core_expect_aeth(&c->a, 0, AETH_NAK_REM_ACCESS);
	assert_int_equal(k->h.dest_qpn, 0x51);
}

/* --- an owner that does not answer --- */

/* Makes a flow to QPN0, paired with 0x51, whose responder has PSN 0 and does not answer PSNs 1 to 3. */
static struct core *given_silent(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x51);

	for (uint32_t psn = 1; psn <= 3; psn++)
		send_to(c, QPN0, psn);
	while (far_of(c, QPN0)->retries < 2)
		core_wait(c, CORE_MS);
	core_forget(&c->b);
	return c;
}

/* The bytes of the silent flow were not delivered, and its flow_failed reports them. */
static void expect_loud_end(struct core *c)
{
	struct proxy_event ev;
	uint64_t bytes = 0;

	assert_int_equal(far_of(c, QPN0)->pos_acked, POS_ORIGIN + 1);
	core_wait(c, c->b.cfg.give_up_ns + 10000 * CORE_MS);
	while (proxy_event_next(c->b.p, &ev))
		if (ev.type == EV_FLOW_FAILED && ev.failure == FAILURE_SILENT && ev.dest_qpn == QPN0)
			bytes += ev.value;
	assert_true(bytes >= 3ull * CORE_PMTU);
	assert_true(far_has_failed(far_of(c, QPN0)));
}

/* The responder's process is gone, and the host has a new queue pair with the same QPN, to another responder.
 * Answers to the new flow are ahead of the old flow's packets: the edge does not take them for answers of an old
 * responder that is ahead ... */
static void pair__silent_owner_is_not_ahead(void **state)
{
	struct core *c = given_silent(state);

	send_to(c, QPN0 + 1, 5000);
	answer_until_paired(c, QPN0 + 1, 0x51);
	expect_loud_end(c);
	assert_false(near_of(c, QPN0 + 1)->state == NEAR_FAILED);
}

/* ... or name the same PSNs: pairing the new flow takes more answers than the old responder can give ... */
static void pair__silent_owner_at_the_same_psn(void **state)
{
	struct core *c = given_silent(state);
	uint32_t sent = 3 + far_of(c, QPN0)->repeated;

	assert_true(sent > 5); /* all three packets once more, then the first of them */
	send_to(c, QPN0 + 1, 1);
	assert_true(answer_until_paired(c, QPN0 + 1, 0x51) > 2 * sent);
	expect_loud_end(c);
	assert_false(near_of(c, QPN0 + 1)->state == NEAR_FAILED);
}

/* ... or name PSNs that the old responder has acknowledged. */
static void pair__silent_owner_has_had_the_psn(void **state)
{
	struct core *c = given_silent(state);

	send_to(c, QPN0 + 1, 0);
	answer_until_paired(c, QPN0 + 1, 0x51);
	expect_loud_end(c);
}

/* The silent flow was given up, but its responder may be slow: late answers of that responder do not count for the
 * new owner. */
static void pair__late_answers_to_a_flow_that_was_given_up(void **state)
{
	struct core *c = given_silent(state);

	core_wait(c, c->b.cfg.give_up_ns + 10000 * CORE_MS);
	assert_true(far_has_failed(far_of(c, QPN0)));
	core_forget(&c->b);
	send_to(c, QPN0 + 1, 1);
	for (int i = 0; i < 6; i++) /* three packets, each answer duplicated */
		assert_int_equal(ack_to(c, 0x51, 1, 1), DROP_LAN_ACK_UNMATCHED);
	assert_int_equal(near_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
	answer_until_paired(c, QPN0 + 1, 0x51);
}

/* The responder was slow, and its answers can be for no other flow. */
static void pair__silent_owner_is_heard(void **state)
{
	struct core *c = given_silent(state);

	assert_int_equal(ack_to(c, 0x51, 1, 2), DROP_NONE);
	while (far_of(c, QPN0)->retries < 2)
		core_wait(c, CORE_MS);
	core_forget(&c->b);
	send_to(c, QPN0 + 1, 5000); /* has its turn, but was not probed with that PSN */
	core_expect(&c->b, RC_WRITE_ONLY, 5000);
	assert_int_equal(ack_to(c, 0x51, 3, 4), DROP_NONE);
	assert_int_equal(far_of(c, QPN0)->pos_acked, POS_ORIGIN + 4);
	assert_int_equal(ack_to(c, 0x52, 5000, 1), DROP_NONE);
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x52);
}

/* A slow responder answers every packet of its flow; another flow with the same PSNs gets no answer. After that
 * flow's turn the slow flow is probed alone, and keeps its pair. */
static void pair__silent_owner_is_asked_alone(void **state)
{
	struct core *c = given_silent(state);

	for (uint32_t psn = 1; psn <= 3; psn++)
		send_to(c, QPN0 + 1, psn);
	core_forget(&c->b);
	assert_int_equal(ack_to(c, 0x51, 3, 4), DROP_LAN_ACK_UNMATCHED);
	assert_int_equal(far_of(c, QPN0)->pos_acked, POS_ORIGIN + 1);
	for (int ms = 0; ms < 1000 && far_of(c, QPN0)->pos_acked < POS_ORIGIN + 4; ms++) {
		for (const struct core_pkt *k; (k = core_take(&c->b));)
			if (k->h.dest_qpn == QPN0)
				ack_to(c, 0x51, 3, 4);
		core_wait(c, CORE_MS);
	}
	assert_int_equal(far_of(c, QPN0)->pos_acked, POS_ORIGIN + 4);
	assert_int_equal(near_of(c, QPN0)->requester_qpn, 0x51);
	assert_int_equal(near_of(c, QPN0 + 1)->pairing, PAIR_LEARNING);
	core_forget(&c->b);
	for (int ms = 0; ms < 1000 && near_of(c, QPN0 + 1)->pairing == PAIR_LEARNING; ms++) {
		for (const struct core_pkt *k; (k = core_take(&c->b));)
			if (k->h.dest_qpn == QPN0 + 1)
				ack_to(c, 0x52, k->h.psn, k->h.psn + 1);
		core_wait(c, CORE_MS);
	}
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x52);
}

/* A number is used again whose last owner had all PSNs that the new flow asks for. The responder executed a SEND and a
 * READ at once, and answers the SEND again with the ACK of the READ's last PSN, which is beyond what the flow has sent.
 */
static void number_used_again(void **state, bool owner_repeated)
{
	struct core *c = given_pair(state, QPN0, 0x51);
	struct roce_pkt read = core_req(RC_READ_REQUEST, 1);

	for (uint32_t psn = 1; psn < 41; psn++)
		send_to(c, QPN0, psn);
	if (owner_repeated) {
		core_wait(c, c->b.cfg.lan_timeout_ns + CORE_MS);
		assert_true(far_of(c, QPN0)->repeated > 0);
	}
	ack_to(c, 0x51, 40, 41);
	core_forget(&c->b);
	send_to(c, QPN0 + 1, 0);
	read.dest_qpn = QPN0 + 1;
	read.reth_len = 20 * CORE_PMTU;
	core_in(&c->a, read, 0, 0);
	core_pump(c);
	core_forget(&c->b);
	ack_to(c, 0x51, 0, 1); /* may be a late one of the old owner's */
	for (int ms = 0; ms < 200 && near_of(c, QPN0 + 1)->pairing == PAIR_LEARNING; ms++) {
		for (const struct core_pkt *k; (k = core_take(&c->b));) {
			if (k->h.dest_qpn == QPN0 + 1 && k->h.opcode == RC_WRITE_ONLY)
				ack_to(c, 0x51, 20, 2);
			if (k->h.dest_qpn == QPN0 + 1 && k->h.opcode == RC_READ_REQUEST)
				core_in(&c->b, core_answer(RC_READ_RESP_FIRST, 0x51, 1, AETH_ACK_NO_CREDITS, 2),
				        CORE_PMTU, 0);
		}
		core_wait(c, CORE_MS);
	}
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x51);
	core_forget(&c->a);
	core_forget(&c->b);
}

static void pair__number_used_again_of_a_flow_that_had_the_psns(void **state)
{
	number_used_again(state, false);
}

/* The last owner's packets were sent twice: answers to them may be late, and the number of answers decides. */
static void pair__number_used_again_of_a_flow_that_repeated_the_psns(void **state)
{
	number_used_again(state, true);
}

/* The responder takes longer than a turn, and its answers may be late ones of a flow before: the turn goes on in its
 * quarantine until their number decides. */
static void pair__turn_goes_on_while_late_answers_are_in_doubt(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	uint64_t due_ns[256] = {0};
	uint32_t asked = 0, answered = 0;

	ask_read_of(c, QPN0, CORE_PMTU);
	core_wait(c, 121 * CORE_MS);
	ask_read_of(c, QPN0 + 1, CORE_PMTU);
	for (int ms = 0; ms < 500 && near_of(c, QPN0 + 1)->pairing == PAIR_LEARNING; ms++) {
		for (const struct core_pkt *k; (k = core_take(&c->b)) && asked < 256;)
			if (k->h.dest_qpn == QPN0 + 1)
				due_ns[asked++] = c->now_ns + c->b.cfg.lan_timeout_ns * 3 / 2;
		for (; answered < asked && c->now_ns >= due_ns[answered]; answered++)
			core_in(&c->b, core_answer(RC_READ_RESP_ONLY, 0x51, 0, AETH_ACK_NO_CREDITS, 1), CORE_PMTU, 0);
		core_wait(c, CORE_MS);
	}
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x51);
	core_forget(&c->a);
	core_forget(&c->b);
}

/* Two such responders: both flows are probed after the other flow's turn, at the same time. */
static void pair__silent_owners_are_asked_together(void **state)
{
	struct core *c = given_silent(state);

	send_to(c, QPN0 + 1, 0);
	for (int ms = 0; ms < 1000 && far_of(c, QPN0 + 1)->pairing == PAIR_LEARNING; ms++) {
		for (const struct core_pkt *k; (k = core_take(&c->b));)
			if (k->h.dest_qpn == QPN0 + 1)
				ack_to(c, 0x52, 0, 1);
		core_wait(c, CORE_MS);
	}
	for (uint32_t psn = 1; psn <= 3; psn++)
		send_to(c, QPN0 + 1, psn);
	while (far_of(c, QPN0 + 1)->retries < 3)
		core_wait(c, CORE_MS);
	for (uint32_t psn = 1; psn <= 3; psn++)
		send_to(c, QPN0 + 2, psn);
	core_forget(&c->b);
	assert_int_equal(ack_to(c, 0x51, 3, 4), DROP_LAN_ACK_UNMATCHED);
	assert_int_equal(ack_to(c, 0x52, 3, 4), DROP_LAN_ACK_UNMATCHED);
	while (!dlist_empty(&c->b.p->pairs[far_of(c, QPN0)->hostpair].doubted_owners)) {
		core_forget(&c->b);
		core_wait(c, CORE_MS);
	}
	for (int ms = 0; ms < 20; ms++) {
		for (const struct core_pkt *k; (k = core_take(&c->b));)
			if (k->h.dest_qpn == QPN0 || k->h.dest_qpn == QPN0 + 1)
				ack_to(c, k->h.dest_qpn - QPN0 + 0x51, 3, 4);
		core_wait(c, CORE_MS);
	}
	assert_int_equal(far_of(c, QPN0)->pos_acked, POS_ORIGIN + 4);
	assert_int_equal(far_of(c, QPN0 + 1)->pos_acked, POS_ORIGIN + 4);
}

/* Seven such responders, more than the edge counts answers of: all are heard within seconds. */
static void pair__many_silent_owners(void **state)
{
	enum { OWNERS = 7 };
	struct core *c = given_silent(state);
	uint32_t heard = 0;

	for (uint32_t i = 1; i < OWNERS; i++) {
		send_to(c, QPN0 + i, 0);
		for (int ms = 0; ms < 2000 && far_of(c, QPN0 + i)->pairing == PAIR_LEARNING; ms++) {
			for (const struct core_pkt *k; (k = core_take(&c->b));)
				if (k->h.dest_qpn == QPN0 + i)
					ack_to(c, 0x51 + i, 0, 1);
			core_wait(c, CORE_MS);
		}
		for (uint32_t psn = 1; psn <= 3; psn++)
			send_to(c, QPN0 + i, psn);
	}
	while (far_of(c, QPN0 + OWNERS - 1)->retries < 3)
		core_wait(c, CORE_MS);
	for (uint32_t psn = 1; psn <= 3; psn++)
		send_to(c, QPN0 + OWNERS, psn);
	core_forget(&c->b);
	for (int ms = 0; ms < 3000 && heard < OWNERS; ms++) {
		for (const struct core_pkt *k; (k = core_take(&c->b));)
			if (k->h.dest_qpn < QPN0 + OWNERS)
				ack_to(c, k->h.dest_qpn - QPN0 + 0x51, 3, 4);
		core_wait(c, CORE_MS);
		heard = 0;
		for (uint32_t i = 0; i < OWNERS; i++)
			heard += far_of(c, QPN0 + i)->pos_acked == POS_ORIGIN + 4;
	}
	assert_int_equal(heard, OWNERS);
}

/* The same when many unanswered queue pairs have their turns, one after the other, without end. */
static void pair__silent_owner_among_many_that_are_dead(void **state)
{
	struct core *c = given_silent(state);

	for (uint32_t i = 1; i < FLOWS; i++)
		for (uint32_t psn = 1; psn <= 3; psn++)
			send_to(c, QPN0 + i, psn);
	core_forget(&c->b);
	for (int ms = 0; ms < 5000 && far_of(c, QPN0)->pos_acked < POS_ORIGIN + 4; ms++) {
		for (const struct core_pkt *k; (k = core_take(&c->b));)
			if (k->h.dest_qpn == QPN0)
				ack_to(c, 0x51, 3, 4);
		core_wait(c, CORE_MS);
	}
	assert_int_equal(far_of(c, QPN0)->pos_acked, POS_ORIGIN + 4);
	assert_int_equal(near_of(c, QPN0)->requester_qpn, 0x51);
}

/* The new owner's responder answers after its turn, in another flow's turn: the edge does not count the answer for
 * the old flow, but repeats the old flow's packets, and counts answers for it once there are more than the new flow
 * can have. */
static void pair__late_answers_are_not_the_silent_owners(void **state)
{
	uint32_t asked = 0, answers = 0;
	struct core *c = given_silent(state);

	send_to(c, QPN0 + 1, 1);
	send_to(c, QPN0 + 2, 5000);
	core_wait(c, 121 * CORE_MS);
	core_forget(&c->b);
	assert_true(far_of(c, QPN0 + 2)->probing);
	for (int i = 0; i < 8; i++) { /* as often as the flow was probed, and each duplicated */
		assert_int_equal(ack_to(c, 0x51, 1, 2), DROP_LAN_ACK_UNMATCHED);
		for (const struct core_pkt *k; (k = core_take(&c->b));)
			asked += k->h.dest_qpn == QPN0 && k->h.psn == 1;
	}
	assert_true(asked >= 8);
	assert_int_equal(far_of(c, QPN0)->pos_acked, POS_ORIGIN + 1);
	assert_int_equal(near_of(c, QPN0 + 2)->pairing, PAIR_LEARNING);
	while (far_of(c, QPN0)->pos_acked == POS_ORIGIN + 1 && ++answers < 50)
		ack_to(c, 0x51, 1, 2);
	assert_in_range(answers, 1, 2);
	assert_int_equal(far_of(c, QPN0)->pos_acked, POS_ORIGIN + 2);
}

/* --- a probe that has no next hop --- */

/* ARP takes a second: no probe is sent before, and then each flow is probed once. */
static void pair__probes_do_not_wait_for_a_next_hop(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	c->b.no_hop = true;
	for (uint32_t i = 0; i < 12; i++)
		send_to(c, QPN0 + i, 0);
	core_wait(c, 1000 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	assert_in_range(core_ctr(&c->b, CTR_PAIRS_UNSENT), 20, 60);
	c->b.no_hop = false;
	while (!core_pending(&c->b))
		core_wait(c, CORE_MS);
	assert_true(c->now_ns <= CORE_START + 1033 * CORE_MS);
	for (uint32_t i = 0; i < 12; i++) {
		const struct core_pkt *k = core_take(&c->b);

		assert_non_null(k);
		assert_int_equal(ack_to(c, peer_of(k->h.dest_qpn), 0, 1), DROP_NONE);
	}
	answer_all(c, 12);
	assert_int_equal(core_ctr(&c->b, CTR_PAIR_QUARANTINES), 0);
	assert_int_equal(core_ctr(&c->b, CTR_PAIR_DOUBTS), 0);
}

/* A probe that could not be sent has no answer that other flows must wait for, or could be paired by. */
static void pair__unsent_leaves_nothing(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	c->b.no_hop = true;
	send_to(c, QPN0, 0);
	core_wait(c, 200 * CORE_MS);
	c->b.no_hop = false;
	far_on_close(c->b.p, &(struct wan_flow_close){.flow = near_wire_id(c->a.p, near_of(c, QPN0)),
	                                              .inc = near_of(c, QPN0)->inc});
	send_to(c, QPN0 + 1, 0);
	core_wait(c, 33 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(ack_to(c, peer_of(QPN0 + 1), 0, 1), DROP_NONE);
}

/* A probe sent in the same turn before the next hop was lost may be answered late. */
static void pair__way_lost_within_a_turn(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	send_to(c, QPN0, 0);
	c->b.no_hop = true;
	core_wait(c, 50 * CORE_MS);
	c->b.no_hop = false;
	far_on_close(c->b.p, &(struct wan_flow_close){.flow = near_wire_id(c->a.p, near_of(c, QPN0)),
	                                              .inc = near_of(c, QPN0)->inc});
	send_to(c, QPN0 + 1, 0);
	core_wait(c, 101 * CORE_MS);
	core_forget(&c->b);
	assert_int_equal(ack_to(c, peer_of(QPN0), 0, 1), DROP_LAN_ACK_UNMATCHED);
	assert_int_equal(answer_until_paired(c, QPN0 + 1, peer_of(QPN0 + 1)), 3); /* one probe was sent */
}

/* The host never gets a next hop: the edge reports flow_stalled, and gives the flow up as one whose responder never
 * answers. */
static void pair__host_without_a_next_hop_is_given_up(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	c->b.no_hop = true;
	c->b.p->cfg.give_up_ns = 5000 * CORE_MS;
	send_to(c, QPN0, 0);
	core_wait(c, c->b.cfg.stall_ns + 100 * CORE_MS);
	assert_true(core_event(&c->b, EV_FLOW_STALLED));
	for (int i = 0; i < 9; i++) { /* the requester has not given up */
		core_wait(c, 500 * CORE_MS);
		send_to(c, QPN0, 0);
		if (i == 6)
			send_to(c, QPN0 + 1, 0);
	}
	assert_true(core_event(&c->b, EV_FLOW_FAILED));
	c->b.no_hop = false; /* other flows are not given up with this one */
	core_wait(c, 40 * CORE_MS);
	assert_int_equal(answer_until_paired(c, QPN0 + 1, peer_of(QPN0 + 1)), 1);
}

/* --- a pair that was wrong --- */

/* A FLOW_PAIR as the far edge sends it when the flow's requester is another one. */
static void say_pair(struct core *c, uint32_t requester_qpn)
{
	struct near_flow *n = near_of(c, QPN0);
	struct roce_pkt ack = core_answer(RC_ACK, requester_qpn, 0, AETH_ACK_NO_CREDITS, 1);
	uint8_t template[TEMPLATE_MAX];
	struct wan_flow_pair r = {.flow = near_wire_id(c->a.p, n),
	                          .inc = n->inc,
	                          .requester_qpn = requester_qpn,
	                          .pos_base = n->pos_base,
	                          .at_pos = n->pos_base,
	                          .msn = 0,
	                          .template = template};

	r.template_len = (uint8_t)roce_build(template, sizeof(template), &ack, NULL, 0);
	near_on_pair(c->a.p, &r);
	core_pump(c);
}

static void pair__corrected_before_anything_was_said(void **state)
{
	struct core *c = core_given(state, ACK_MODE_HOST);

	send_to(c, QPN0, 0);
	say_pair(c, 0x66);
	assert_int_equal(near_of(c, QPN0)->requester_qpn, 0x66);
	assert_int_equal(core_pending(&c->a), 0);
	say_pair(c, 0x51);
	assert_int_equal(near_of(c, QPN0)->requester_qpn, 0x51);
	assert_int_equal(core_ctr(&c->a, CTR_PAIRS_CORRECTED), 1);
	assert_false(core_event(&c->a, EV_PAIR_WRONG));
	ack_to(c, 0x51, 0, 1);
	assert_int_equal(core_expect_aeth(&c->a, 0, AETH_ACK_NO_CREDITS)->h.dest_qpn, 0x51);
	assert_true(near_of(c, QPN0)->requester_known);
}

static void pair__wrong_after_an_ack_fails(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x66);

	core_expect_aeth(&c->a, 0, AETH_ACK_NO_CREDITS);
	say_pair(c, 0x51);
	assert_true(core_event(&c->a, EV_PAIR_WRONG));
	assert_true(near_of(c, QPN0)->state == NEAR_FAILED);
	send_to(c, QPN0, 1);
	core_wait(c, 5 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0); /* the near edge sends no further ACK of this flow */
}

/* The far edge finds a new owner of the QPN, and then that the old flow's responder answers to another QPN. */
static void pair__answers_of_another_fail_it(void **state)
{
	struct core *c = given_pair(state, QPN0, 0x66);

	core_wait(c, 100 * CORE_MS);
	send_to(c, QPN0 + 1, 0);
	assert_int_equal(ack_to(c, 0x66, 0, 1), DROP_NONE);
	assert_int_equal(near_of(c, QPN0 + 1)->requester_qpn, 0x66);
	core_forget(&c->b);
	send_to(c, QPN0, 1);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	ack_to(c, 0x51, 1, 2);
	assert_true(core_event(&c->b, EV_PAIR_WRONG));
	core_wait(c, CORE_MS);
	assert_true(near_of(c, QPN0)->state == NEAR_FAILED);
}

/* CM tells both QPNs: the flow needs no probe, and may send at once. */
static void pair__cm_needs_no_probe(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_connect(c, 500, 900, 7);
	core_send(c, RC_WRITE_ONLY, 500);
	assert_int_equal(core_expect_aeth(&c->a, 500, AETH_ACK_NO_CREDITS)->h.dest_qpn, 0x21);
	assert_int_equal(near_of(c, CORE_QPN)->pairing, PAIR_CONFIRMED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(pair__equal_qpns_from_psn_0),
	    CORE_TEST(pair__probe_is_one_packet),
	    CORE_TEST(pair__host_pairs_are_independent),
	    CORE_TEST(pair__unanswered_probe_means_quarantine),
	    CORE_TEST(pair__end_in_its_turn_means_quarantine),
	    CORE_TEST(pair__next_try_comes_later_and_later),
	    CORE_TEST(pair__lost_probe_is_repeated),
	    CORE_TEST(pair__a_dead_qp_does_not_block_the_others),
	    CORE_TEST(pair__ack_to_a_paired_qpn_decides_nothing),
	    CORE_TEST(pair__unexpected_answers_are_dropped),
	    CORE_TEST(pair__stray_nak_is_no_answer),
	    CORE_TEST(pair__second_answer_confirms),
	    CORE_TEST(pair__reused_requester_qpn),
	    CORE_TEST(pair__reused_requester_qpn_after_a_restart),
	    CORE_TEST(pair__doubt_ends_with_the_first_answer),
	    CORE_TEST(pair__void_only_once_another_has_the_qpn),
	    CORE_TEST(pair__reused_requester_qpn_expects_an_earlier_psn),
	    CORE_TEST(pair__late_ack_to_an_idle_owner_is_not_ahead),
	    CORE_TEST(pair__repetitions_of_long_ago_hide_no_new_owner),
	    CORE_TEST(pair__reused_requester_qpn_at_another_psn),
	    CORE_TEST(pair__overtaken_answer_decides_nothing),
	    CORE_TEST(pair__cm_needs_no_probe),
	    CORE_TEST(pair__answers_to_what_went_past_the_edges),
	    CORE_TEST(pair__answers_past_the_edges_take_a_turn_back),
	    CORE_TEST(pair__stray_answers_hold_nobody_up),
	    CORE_TEST(pair__stray_answers_put_off_no_first_turn),
	    CORE_TEST(pair__answers_near_one_that_waits_put_off_the_first_turn),
	    CORE_TEST(pair__answers_that_one_in_doubt_would_take_put_off_the_first_turn),
	    CORE_TEST(pair__end_after_a_turn_taken_back_means_quarantine),
	    CORE_TEST(pair__ack_of_what_was_before_is_no_answer),
	    CORE_TEST(pair__responder_that_is_ahead),
	    CORE_TEST(pair__responder_that_is_far_ahead),
	    CORE_TEST(pair__forged_answers_do_not_hold_it_for_ever),
	    CORE_TEST(pair__a_full_table_gives_the_oldest_place),
	    CORE_TEST(pair__what_answers_made_gives_its_place_first),
	    CORE_TEST(pair__a_table_without_places_remembers_nothing),
	    CORE_TEST(pair__places_come_back),
	    CORE_TEST(pair__late_answer_in_quarantine),
	    CORE_TEST(pair__late_answers_to_a_flow_paired_since),
	    CORE_TEST(pair__late_answers_to_many_probes_of_a_flow_paired_since),
	    CORE_TEST(pair__late_answer_to_one_that_waits),
	    CORE_TEST(pair__late_answers_after_quarantine),
	    CORE_TEST(pair__late_answers_doubled),
	    CORE_TEST(pair__late_answers_to_reads),
	    CORE_TEST(pair__many_sent_before_the_doubt),
	    CORE_TEST(pair__psn_that_no_other_was_asked),
	    CORE_TEST(pair__host_that_stood_still),
	    CORE_TEST(pair__host_that_was_not_there),
	    CORE_TEST(pair__many_unanswered),
	    CORE_TEST(pair__answers_to_a_flow_that_has_gone),
	    CORE_TEST(pair__answers_to_a_pair_that_has_gone),
	    CORE_TEST(pair__nobody_answers_after_half_a_minute),
	    CORE_TEST(pair__late_answers_after_a_restart),
	    CORE_TEST(pair__reused_requester_qpn_after_a_retry),
	    CORE_TEST(pair__requester_qpn_of_a_failed_flow),
	    CORE_TEST(pair__refused_again_in_the_next_life),
	    CORE_TEST(pair__answers_that_a_refusal_has_overtaken),
	    CORE_TEST(pair__answers_that_two_refusals_have_overtaken),
	    CORE_TEST(pair__refusals_hold_nobody_up_for_ever),
	    CORE_TEST(pair__late_answer_does_not_end_the_wait_after_a_refusal),
	    CORE_TEST(pair__unsent_does_not_end_the_wait_after_a_refusal),
	    CORE_TEST(pair__refusal_at_the_end_of_a_long_quarantine),
	    CORE_TEST(pair__late_answers_to_a_failed_flow_after_a_restart),
	    CORE_TEST(pair__new_owner_keeps_its_qpn_over_a_restart),
	    CORE_TEST(pair__failed_flow_tells_its_pair_after_a_restart),
	    CORE_TEST(pair__silent_owner_is_not_ahead),
	    CORE_TEST(pair__silent_owner_at_the_same_psn),
	    CORE_TEST(pair__silent_owner_has_had_the_psn),
	    CORE_TEST(pair__late_answers_to_a_flow_that_was_given_up),
	    CORE_TEST(pair__silent_owner_is_heard),
	    CORE_TEST(pair__silent_owner_is_asked_alone),
	    CORE_TEST(pair__silent_owners_are_asked_together),
	    CORE_TEST(pair__many_silent_owners),
	    CORE_TEST(pair__by_the_rest_of_a_read_of_unknown_pmtu),
	    CORE_TEST(pair__number_used_again_for_the_rest_of_a_read),
	    CORE_TEST(pair__turn_goes_on_while_late_answers_are_in_doubt),
	    CORE_TEST(pair__number_used_again_of_a_flow_that_had_the_psns),
	    CORE_TEST(pair__number_used_again_of_a_flow_that_repeated_the_psns),
	    CORE_TEST(pair__silent_owner_among_many_that_are_dead),
	    CORE_TEST(pair__late_answers_are_not_the_silent_owners),
	    CORE_TEST(pair__probes_do_not_wait_for_a_next_hop),
	    CORE_TEST(pair__unsent_leaves_nothing),
	    CORE_TEST(pair__way_lost_within_a_turn),
	    CORE_TEST(pair__host_without_a_next_hop_is_given_up),
	    CORE_TEST(pair__corrected_before_anything_was_said),
	    CORE_TEST(pair__wrong_after_an_ack_fails),
	    CORE_TEST(pair__answers_of_another_fail_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
