/* SPDX-License-Identifier: Apache-2.0 */
/* What each mode promises, which mode is in force, and what becomes of a promise when an edge loses its memory. */
#include "core_fixture.h"

static void reconfigure(struct core_edge *e)
{
	assert_int_equal(proxy_reconfigure(e->p, &e->cfg, e->c->now_ns), 0);
	core_pump(e->c);
	core_forget(e);
}

/* Host A believes PSNs 0 to 3 delivered, of which the responder has answered 0; each edge knows the other's arena. */
static struct core *given_three_acked_by_far(void **state)
{
	struct core *c = core_given(state, ACK_MODE_FAR);

	core_know_epochs(c);
	core_pair(c, 0);
	core_send_run(c, 1, 3);
	core_expect_aeth(&c->a, 3, AETH_ACK_NO_CREDITS);
	core_forget(&c->b);
	return c;
}

static void ack_mode__far_waits_for_the_far_edge_only(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_FAR);

	c->cut = true;
	core_send(c, RC_WRITE_ONLY, 1);
	assert_int_equal(core_pending(&c->a), 0); /* here, but not there */
	c->cut = false;
	core_wait(c, 20 * CORE_MS);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS); /* there, and not with the responder */
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	assert_int_equal(core_near(c)->pos_reported, POS_ORIGIN + 1);
}

/* A hole at the far edge: what is behind it is there, and not in order. */
static void ack_mode__far_counts_only_what_is_contiguous(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_FAR);

	c->cut = true;
	core_send(c, RC_WRITE_ONLY, 1);
	c->cut = false;
	core_send(c, RC_WRITE_ONLY, 2);
	assert_int_equal(core_far(c)->pos_rx, POS_ORIGIN + 1);
	assert_int_equal(core_pending(&c->a), 0);
	core_wait(c, 20 * CORE_MS);
	core_expect_aeth(&c->a, 2, AETH_ACK_NO_CREDITS);
}

/* What was ACKed is still at the near edge: it is sent once more, and meanwhile nothing new is ACKed. */
static void ack_mode__far_arena_lost_is_replayed(void **state)
{
	struct core *c = given_three_acked_by_far(state);

	c->cut = true;
	core_lose(c, &c->b, 99);
	core_send(c, RC_WRITE_ONLY, 4);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(near_ceiling(c->a.p, core_near(c)), POS_ORIGIN + 4); /* the promise made stays */
	c->cut = false;
	core_wait(c, 50 * CORE_MS);
	for (uint32_t psn = 1; psn <= 4; psn++)
		core_expect(&c->b, RC_WRITE_ONLY, psn);
	core_expect_aeth(&c->a, 4, AETH_ACK_NO_CREDITS);
}

/* The near edge comes back without its arena: what was ACKed is delivered by the far one, and then the host goes on. */
static void ack_mode__near_arena_lost_is_delivered(void **state)
{
	struct core *c = given_three_acked_by_far(state);
	uint32_t psn = 1;

	core_lose(c, &c->a, 99);
	assert_true(core_event(&c->b, EV_FLOW_EPOCH_STALE));
	core_send(c, RC_WRITE_ONLY, 4); /* the same queue pair goes on: behind what is left */
	core_wait(c, 25 * CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->b));)
		assert_in_range(k->h.psn, 1, 3);
	core_ack(c, 3, AETH_ACK_NO_CREDITS, 4);
	core_wait(c, CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->b));)
		psn = k->h.psn;
	assert_int_equal(psn, 4);
	core_ack(c, 4, AETH_ACK_NO_CREDITS, 5);
	core_wait(c, CORE_MS);
	core_expect_aeth(&c->a, 4, AETH_ACK_NO_CREDITS);
	assert_false(core_event(&c->b, EV_FLOW_FAILED));
	assert_true(dlist_empty(&c->b.p->stale_flows));
}

/* ... or it is said that it could not. */
static void ack_mode__orphan_without_answer_fails_loudly(void **state)
{
	struct core *c = given_three_acked_by_far(state);

	core_lose(c, &c->a, 99);
	core_wait(c, c->b.cfg.stall_ns + 500 * CORE_MS);
	assert_true(core_event(&c->b, EV_FLOW_FAILED));
	assert_int_equal(core_used(&c->b), 0);
	assert_int_equal(c->b.p->far_used, 0);
}

/* The failures that an edge has told since it was asked last. */
static uint32_t failures_of(struct core_edge *e)
{
	struct proxy_event ev;
	uint32_t n = 0;

	while (proxy_event_next(e->p, &ev))
		n += ev.type == EV_FLOW_FAILED;
	return n;
}

/* ... at once if it refuses. The host goes on meanwhile, and its new flow waits for the stale one. A refusal moves the
 * responder's queue pair to the error state, whichever life that was in. So nobody will answer the new flow either, and
 * what it holds must not reach the queue pair once that is recovered: it fails with the same NAK. Its host was ACKed up
 * to there, and is told there, with the count that the responder would have. */
static void ack_mode__orphan_refused_fails_once_and_goes(void **state)
{
	struct core *c = given_three_acked_by_far(state);
	const struct core_pkt *k;

	core_lose(c, &c->a, 99);
	assert_true(core_used(&c->b) > 0);
	core_send(c, RC_WRITE_ONLY, 4);
	core_forget(&c->b);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	assert_int_equal(failures_of(&c->b), 1);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(failures_of(&c->b), 1);
	assert_true(core_ctr(&c->b, CTR_BYTES_FAILED) > 0);
	assert_true(dlist_empty(&c->b.p->stale_flows));
	assert_int_equal(c->b.p->far_used, 1); /* the host's new flow */
	assert_true(core_near(c)->state == NEAR_FAILED);
	core_send(c, RC_WRITE_ONLY, 4);
	k = core_expect_aeth(&c->a, 4, AETH_NAK_REM_ACCESS);
	assert_int_equal(k->h.dest_qpn, CORE_QPN);
	assert_int_equal(k->h.aeth_msn, 4);
	core_wait(c, c->b.cfg.give_up_ns);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(failures_of(&c->b), 0);
	assert_int_equal(core_used(&c->b), 0);
}

/* A restart of the far edge does not part a stale flow from its successor. */
static void ack_mode__orphan_refused_after_a_far_restart(void **state)
{
	struct core *c = given_three_acked_by_far(state);

	core_lose(c, &c->a, 99);
	core_send(c, RC_WRITE_ONLY, 4);
	core_rebuild(&c->b);
	core_hello(c, 99, 1);
	core_pump(c);
	core_forget(&c->b);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	core_wait(c, 10 * CORE_MS);
	assert_true(core_near(c)->state == NEAR_FAILED);
	core_send(c, RC_WRITE_ONLY, 4);
	core_expect_aeth(&c->a, 4, AETH_NAK_REM_ACCESS);
	core_wait(c, c->b.cfg.give_up_ns);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(core_used(&c->b), 0);
}

/* A stale flow stays, as its responder is silent, and its successor is held. Turns begin a quarantine after the far
 * edge's restart; the hellos come hello_ns after that restart, and a packet of another flow of the hosts other_ns after
 * the hellos. */
static struct core *given_held_successor(void **state, uint64_t hello_ns, uint64_t other_ns)
{
	struct core *c = given_three_acked_by_far(state);
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);

	core_lose(c, &c->a, 99);
	core_send(c, RC_WRITE_ONLY, 4);
	core_rebuild(&c->b);
	core_wait(c, hello_ns);
	core_hello(c, 99, 1);
	core_wait(c, other_ns);
	core_forget(&c->b);
	h.dest_qpn = CORE_QPN + 1;
	core_in(&c->a, h, CORE_PMTU, 0);
	return c;
}

/* True if the other flow's packet reaches the responder within ns, while the successor is held. */
static bool other_is_sent(struct core *c, uint64_t ns)
{
	bool sent = false;

	core_wait(c, ns);
	for (const struct core_pkt *k; (k = core_take(&c->b));)
		sent |= k->h.dest_qpn == CORE_QPN + 1;
	assert_int_not_equal(core_far(c)->successor_of, NONE);
	return sent;
}

/* The successor waited for its turn when it was found. It gets none while it is held: the other flow has it at once. */
static void ack_mode__successor_held_before_its_turn(void **state)
{
	struct core *c = given_held_successor(state, 0, 110 * CORE_MS);

	assert_true(other_is_sent(c, CORE_MS));
}

/* The successor had its turn when it was found. The turn is taken back, and a quarantine follows: the responder may
 * answer what was sent in it. */
static void ack_mode__successor_held_in_its_turn(void **state)
{
	struct core *c = given_held_successor(state, 105 * CORE_MS, 0);

	assert_false(other_is_sent(c, c->b.cfg.quarantine_ns - CORE_MS));
	assert_true(other_is_sent(c, 2 * CORE_MS));
}

/* A near edge opens flows for the same queue pair in two lives of its arena, and loses both. CM has paired the second
 * one with the first one's QPN. The second waits for the first, so the first must not wait for the second. */
static void ack_mode__stale_flow_succeeds_no_other(void **state)
{
	struct core *c = given_three_acked_by_far(state);
	const struct near_cm_info ci = {.src = core_ip(1, 2),
	                                .dst = core_ip(2, 2),
	                                .dest_qpn = CORE_QPN,
	                                .requester_qpn = CORE_QPN,
	                                .start_psn = 200,
	                                .tag = 2,
	                                .pmtu = CORE_PMTU,
	                                .rnr_retry = 7};
	uint32_t psn = 0;

	core_lose(c, &c->a, 99);
	near_cm_open(c->a.p, &ci); /* the far edge did not see it */
	core_send(c, RC_WRITE_ONLY, 200);
	core_lose(c, &c->a, 100);
	core_forget(&c->b);
	core_wait(c, c->b.cfg.lan_timeout_ns / 2);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	core_ack(c, 3, AETH_ACK_NO_CREDITS, 4);
	core_wait(c, CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->b));)
		psn = k->h.psn;
	assert_int_equal(psn, 200);
}

/* The host had not been ACKed that far: it is told at the very packet that was refused. */
static void ack_mode__orphan_refused_within_its_successor(void **state)
{
	struct core *c = given_three_acked_by_far(state);

	core_lose(c, &c->a, 99);
	core_send_run(c, 1, 3);
	core_forget(&c->b);
	core_ack(c, 2, AETH_NAK_REM_OP, 2);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_expect_aeth(&c->a, 2, AETH_NAK_REM_OP)->h.aeth_msn, 2);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_pending(&c->b), 0);
}

/* What came first of the new flow lies beyond a hole, which its host may yet fill: the NAK acknowledges nothing in it. */
static void ack_mode__orphan_refused_in_front_of_a_hole(void **state)
{
	struct core *c = given_three_acked_by_far(state);

	core_lose(c, &c->a, 99);
	core_send(c, RC_WRITE_ONLY, 6);
	core_forget(&c->b);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	core_wait(c, 10 * CORE_MS);
	core_send(c, RC_WRITE_ONLY, 6);
	for (const struct core_pkt *k; (k = core_take(&c->a));) {
		assert_int_equal(k->h.psn, 4);
		assert_int_equal(k->h.aeth_syndrome, AETH_NAK_REM_ACCESS);
		assert_int_equal(k->h.aeth_msn, 4);
	}
	assert_true(core_near(c)->state == NEAR_FAILED);
	assert_int_equal(core_pending(&c->b), 0);
}

/* In mode host nothing behind the refused packet was ACKed, so its host comes back to that. */
static void ack_mode__orphan_refused_in_mode_host(void **state)
{
	struct core *c = core_given(state, ACK_MODE_HOST);

	core_know_epochs(c);
	core_pair(c, 0);
	core_send_run(c, 1, 3);
	core_forget(&c->b);
	core_lose(c, &c->a, 99);
	core_send(c, RC_WRITE_ONLY, 3); /* 1 and 2 were sent while the edge was down */
	core_forget(&c->b);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_expect_aeth(&c->a, 1, AETH_NAK_REM_ACCESS)->h.aeth_msn, 1);
	assert_int_equal(core_pending(&c->b), 0);
}

/* A flow that opens within a round trip of the refusal was begun before its host could hear of that. */
static void ack_mode__orphan_refused_before_its_successor_opens(void **state)
{
	struct core *c = given_three_acked_by_far(state);

	core_lose(c, &c->a, 99);
	core_forget(&c->b);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	core_wait(c, c->b.cfg.rtt_hint_ns / 2);
	core_send(c, RC_WRITE_ONLY, 4);
	core_wait(c, 10 * CORE_MS);
	assert_true(core_near(c)->state == NEAR_FAILED);
	core_send(c, RC_WRITE_ONLY, 4);
	core_expect_aeth(&c->a, 4, AETH_NAK_REM_ACCESS);
	assert_int_equal(core_pending(&c->b), 0);
}

/* Of many successors, as a peer may open them, no call fails more than it has work for. */
static void ack_mode__orphan_refused_with_many_successors(void **state)
{
	struct core *c = given_three_acked_by_far(state);
	struct far_flow *stale;
	uint32_t failed;

	core_lose(c, &c->a, 99);
	for (uint16_t vlan = 0; vlan < 4; vlan++)
		assert_int_equal(core_in(&c->a, core_req(RC_WRITE_ONLY, 4), 0, vlan), DROP_NONE);
	core_pump(c);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	stale = dlist_entry(dlist_first(&c->b.p->stale_flows), struct far_flow, stale_node);
	failures_of(&c->b);
	c->b.p->work_left = 2;
	far_on_timer(c->b.p, stale);
	failed = failures_of(&c->b);
	assert_in_range(failed, 1, 2);
	assert_false(dlist_empty(&c->b.p->stale_flows));
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(failed + failures_of(&c->b), 4);
	assert_true(dlist_empty(&c->b.p->stale_flows));
	core_forget(&c->b);
	core_wait(c, c->b.cfg.give_up_ns);
	assert_int_equal(core_pending(&c->b), 0);
}

/* One that opens later may be of the next life of the queue pair, which takes it. */
static void ack_mode__orphan_refused_and_recovered(void **state)
{
	struct core *c = given_three_acked_by_far(state);

	core_lose(c, &c->a, 99);
	core_forget(&c->b);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	core_wait(c, 10 * CORE_MS);
	core_send(c, RC_WRITE_ONLY, 4);
	core_wait(c, 25 * CORE_MS); /* what the NAK has overtaken comes before the next probe */
	core_expect(&c->b, RC_WRITE_ONLY, 4);
	core_ack(c, 4, AETH_ACK_NO_CREDITS, 1);
	core_wait(c, CORE_MS);
	core_expect_aeth(&c->a, 4, AETH_ACK_NO_CREDITS);
}

/* Nor does a refusal fail what CM has paired, which is of a later connection. */
static void ack_mode__orphan_refused_spares_what_cm_has_opened(void **state)
{
	struct core *c = given_three_acked_by_far(state);

	core_lose(c, &c->a, 99);
	core_forget(&c->b);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	core_connect(c, 0x700, 0x800, 7);
	core_send(c, RC_WRITE_ONLY, 0x700);
	core_wait(c, 10 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 0x700);
	assert_false(core_near(c)->state == NEAR_FAILED);
}

/* How much was lost is reckoned in packets of the PMTU, or of the largest where no packet has told it.
 *
 * The newest failure of an edge; its type is that of another event if there is none. */
static struct proxy_event failure_of(struct core_edge *e)
{
	struct proxy_event ev, last = {.type = EV_COUNT};

	while (proxy_event_next(e->p, &ev))
		if (ev.type == EV_FLOW_FAILED || ev.type == EV_FLOW_IN_DOUBT)
			last = ev;
	return last;
}

/* Mode near: messages 1 to 3 are ACKed to the host, and lie at the near edge alone when that loses its arena. */
static struct core *given_three_lost(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct proxy_event ev;

	core_know_epochs(c);
	core_forget(&c->a);
	core_forget(&c->b);
	c->cut = true;
	for (uint32_t psn = 1; psn <= 3; psn++) {
		core_send(c, RC_WRITE_ONLY, psn);
		core_expect_aeth(&c->a, psn, AETH_ACK_NO_CREDITS);
	}
	c->cut = false;
	failure_of(&c->b);
	core_lose(c, &c->a, 99);
	ev = failure_of(&c->b); /* nobody here can know that there was something */
	assert_int_equal(ev.type, EV_FLOW_IN_DOUBT);
	assert_int_equal(ev.failure, FAILURE_PERHAPS_LOST);
	assert_int_equal(ev.dest_qpn, CORE_QPN);
	assert_int_equal(ev.pos, POS_ORIGIN + 1);
	return c;
}

/* The host goes on behind what is lost: nothing of that is executed or ACKed, and the flow fails, by name, at both
 * edges. */
static void ack_mode__near_arena_lost_fails_by_name(void **state)
{
	struct core *c = given_three_lost(state);
	struct proxy_event a, b;
	bool said = false;

	for (int tries = 0; tries < 70; tries++) {
		core_send(c, RC_WRITE_ONLY, 4);
		core_wait(c, CORE_MS);
		while (core_take(&c->b)) {
			if (!said)
				core_ack(c, 1, AETH_NAK_PSN_SEQ, 1); /* responders say it once */
			said = true;
		}
		core_wait(c, 99 * CORE_MS);
	}
	for (const struct core_pkt *k; (k = core_take(&c->a));) {
		assert_int_equal(k->h.aeth_syndrome, AETH_NAK_PSN_SEQ); /* it was asked for what is missing */
		assert_int_equal(k->h.psn, 1);
	}
	a = failure_of(&c->a);
	b = failure_of(&c->b);
	assert_int_equal(b.type, EV_FLOW_FAILED);
	assert_int_equal(b.failure, FAILURE_BUFFER_LOST);
	assert_int_equal(b.dest_qpn, CORE_QPN);
	assert_int_equal(pos_psn(b.pos), 1);
	assert_int_equal(b.value, 3 * LAN_MTU_PAYLOAD_MAX);
	assert_int_equal(a.type, EV_FLOW_FAILED);
	assert_int_equal(a.failure, FAILURE_BUFFER_LOST);
	assert_int_equal(a.dest_qpn, CORE_QPN);
	assert_true(core_near(c)->state == NEAR_FAILED);
	assert_true(core_ctr(&c->a, CTR_BYTES_FAILED) > 0);
	assert_int_equal(core_ctr(&c->b, CTR_BYTES_FAILED), 3 * LAN_MTU_PAYLOAD_MAX);
}

/* An operator has changed the mode since: what counts is the mode in which the host was ACKed. Also if the far edge has
 * restarted behind that. */
static void lost_after_another_mode(void **state, bool far_restarts)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct proxy_event ev;

	core_know_epochs(c);
	core_forget(&c->a);
	c->cut = true;
	for (uint32_t psn = 1; psn <= 3; psn++) {
		core_send(c, RC_WRITE_ONLY, psn);
		core_expect_aeth(&c->a, psn, AETH_ACK_NO_CREDITS);
	}
	c->a.cfg.mode = c->b.cfg.mode = ACK_MODE_HOST;
	assert_int_equal(proxy_reconfigure(c->a.p, &c->a.cfg, c->now_ns), 0);
	assert_int_equal(proxy_reconfigure(c->b.p, &c->b.cfg, c->now_ns), 0);
	if (far_restarts)
		core_rebuild(&c->b);
	failure_of(&c->b);
	c->cut = false;
	core_lose(c, &c->a, 99);
	ev = failure_of(&c->b);
	assert_int_equal(ev.type, EV_FLOW_IN_DOUBT);
	assert_int_equal(ev.failure, FAILURE_PERHAPS_LOST);
	assert_int_equal(ev.pos, POS_ORIGIN + 1);
}

static void ack_mode__near_arena_lost_after_another_mode(void **state)
{
	lost_after_another_mode(state, false);
}

static void ack_mode__near_arena_lost_after_another_mode_and_a_far_restart(void **state)
{
	lost_after_another_mode(state, true);
}

/* Far more than could have been overtaken on a LAN is missing: the responder's NAK still tells where the life ended. */
static void ack_mode__near_arena_lost_behind_a_long_hole(void **state)
{
	struct core *c = given_three_lost(state);
	struct proxy_event b;
	bool said = false;

	for (int tries = 0; tries < 70; tries++) {
		core_send(c, RC_WRITE_ONLY, 3 * BELOW_BASE_REACH);
		core_wait(c, CORE_MS);
		while (core_take(&c->b)) {
			if (!said)
				core_ack(c, 1, AETH_NAK_PSN_SEQ, 1);
			said = true;
		}
		core_wait(c, 99 * CORE_MS);
	}
	assert_int_equal(core_pending(&c->a), 0);
	b = failure_of(&c->b);
	assert_int_equal(b.type, EV_FLOW_FAILED);
	assert_int_equal(b.failure, FAILURE_BUFFER_LOST);
	assert_int_equal(b.dest_qpn, CORE_QPN);
	assert_int_equal(failure_of(&c->a).failure, FAILURE_BUFFER_LOST);
}

/* It had not been ACKed after all: it repeats what is asked for, and goes on. */
static void ack_mode__near_arena_lost_and_nothing_owed(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_know_epochs(c);
	core_forget(&c->a);
	core_forget(&c->b);
	core_lose(c, &c->a, 99);
	failure_of(&c->b);
	core_send(c, RC_WRITE_ONLY, 2); /* 1 was lost on the LAN */
	core_wait(c, CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 2);
	core_ack(c, 1, AETH_NAK_PSN_SEQ, 1);
	core_wait(c, CORE_MS);
	core_expect_aeth(&c->a, 1, AETH_NAK_PSN_SEQ);
	core_send(c, RC_WRITE_ONLY, 1);
	core_send(c, RC_WRITE_ONLY, 2);
	core_wait(c, 10000 * CORE_MS); /* a slow responder is no loss */
	assert_int_not_equal(failure_of(&c->a).failure, FAILURE_BUFFER_LOST);
	assert_false(core_near(c)->state == NEAR_FAILED);
	core_ack(c, 2, AETH_ACK_NO_CREDITS, 3);
	core_wait(c, CORE_MS);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 3);
	core_wait(c, CORE_MS);
	core_expect_aeth(&c->a, 3, AETH_ACK_NO_CREDITS);
}

/* A queue pair that was reset goes on as any other. */
static void ack_mode__near_arena_lost_and_a_new_life(void **state)
{
	struct core *c = given_three_lost(state);
	uint32_t psn = 0x800001;

	core_send(c, RC_WRITE_ONLY, psn);
	core_wait(c, CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, psn);
	core_ack(c, psn, AETH_ACK_NO_CREDITS, 1);
	core_wait(c, 10000 * CORE_MS);
	core_expect_aeth(&c->a, psn, AETH_ACK_NO_CREDITS);
	core_send(c, RC_WRITE_ONLY, psn + 1);
	core_expect_aeth(&c->a, psn + 1, AETH_ACK_NO_CREDITS);
	assert_int_equal(failure_of(&c->b).type, EV_COUNT);
}

/* A hole at the far edge: what is behind it was accepted, so what is in it is lost for sure. */
static void ack_mode__near_arena_lost_with_a_hole(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct proxy_event ev;

	core_know_epochs(c);
	c->cut = true;
	core_send(c, RC_WRITE_ONLY, 1);
	c->cut = false;
	core_send(c, RC_WRITE_ONLY, 2);
	failure_of(&c->b);
	core_lose(c, &c->a, 99);
	ev = failure_of(&c->b);
	assert_int_equal(ev.type, EV_FLOW_FAILED);
	assert_int_equal(ev.failure, FAILURE_BUFFER_LOST);
	assert_int_equal(ev.pos, POS_ORIGIN + 1);
	assert_int_equal(ev.value, 2 * LAN_MTU_PAYLOAD_MAX);
	assert_int_equal(core_ctr(&c->b, CTR_BYTES_FAILED), 2 * LAN_MTU_PAYLOAD_MAX);
}

/* The buffer had drained when its edge stopped: nothing is owed, and nothing is said. */
static void ack_mode__drained_arena_is_no_loss(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct proxy_session s = {.epoch_tx = 77, .epoch_rx = 78, .peer_arena_epoch = 99, .peer_kept_arena = true};

	core_know_epochs(c);
	failure_of(&c->b);
	proxy_session_start(c->b.p, &s, c->now_ns);
	assert_int_equal(failure_of(&c->b).type, EV_COUNT);
}

/* The far edge restarts, then the near one loses its memory: what the far edge rebuilt is still of the life that was
 * lost. Names begin anew in the next life, and would mean these flows. */
static void ack_mode__rebuilt_flows_are_of_the_life_that_was_lost(void **state)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);
	struct core *c = given_three_acked_by_far(state);

	core_rebuild(&c->b);
	core_hello(c, 1, 1);
	core_forget(&c->b);
	core_rebuild(&c->b);
	core_begin(&c->a, 99);
	core_hello(c, 99, 1);
	assert_true(core_event(&c->b, EV_FLOW_EPOCH_STALE));
	core_ack(c, 3, AETH_ACK_NO_CREDITS, 4);
	core_wait(c, CORE_MS);
	assert_int_equal(c->b.p->far_used, 0);
	core_forget(&c->b);
	h.dest_qpn = CORE_QPN + 1; /* the first flow of the new life, with the name that the first of the old one had */
	assert_int_equal(core_in(&c->a, h, CORE_PMTU, 0), DROP_NONE);
	core_wait(c, 50 * CORE_MS);
	assert_int_equal(core_expect(&c->b, RC_WRITE_ONLY, 0)->h.dest_qpn, CORE_QPN + 1);
}

/* A report, be it of nothing new, is believed for what it names, not for what lies here. */
static void ack_mode__far_believes_what_is_reported(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_FAR);
	struct near_flow *f = core_near(c);
	struct wan_flow_report r;

	far_report_frame(c->b.p, core_far(c), &r);
	c->cut = true;
	core_send_run(c, 1, 3);
	near_on_report(c->a.p, lane_of(c->a.p, f->lane), &r);
	core_pump(c);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(near_ceiling(c->a.p, f), POS_ORIGIN + 1);
}

static void ack_mode__changes_for_live_flows(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	c->cut = true;
	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	c->a.cfg.mode = c->b.cfg.mode = ACK_MODE_FAR;
	reconfigure(&c->a);
	core_send(c, RC_WRITE_ONLY, 2);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(near_ceiling(c->a.p, core_near(c)), POS_ORIGIN + 2); /* 1 was promised */
	c->cut = false;
	core_wait(c, 20 * CORE_MS);
	core_expect_aeth(&c->a, 2, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_far(c)->mode, ACK_MODE_FAR);
	c->a.cfg.mode = ACK_MODE_HOST;
	reconfigure(&c->a);
	core_send(c, RC_WRITE_ONLY, 3);
	assert_int_equal(core_pending(&c->a), 0);
	core_ack(c, 3, AETH_ACK_NO_CREDITS, 4);
	core_expect_aeth(&c->a, 3, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_far(c)->mode, ACK_MODE_HOST);
}

/* In mode host the far edge may give up what it has received. After a change to mode far nothing is ACKed for that,
 * until the far edge has heard of the mode. */
static void ack_mode__far_only_once_the_far_edge_knows(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	core_send_run(c, 1, 3);
	core_ack(c, 1, AETH_ACK_NO_CREDITS, 2); /* of one; the far edge reports that it has received all */
	core_wait(c, 20 * CORE_MS);
	assert_int_equal(core_near(c)->pos_far, POS_ORIGIN + 4);
	core_forget(&c->a);
	c->cut = true;
	c->a.cfg.mode = c->b.cfg.mode = ACK_MODE_FAR;
	reconfigure(&c->a);
	core_wait(c, CORE_MS);
	assert_int_equal(near_ceiling(c->a.p, core_near(c)), POS_ORIGIN + 2);
	c->cut = false;
	core_wait(c, 20 * CORE_MS);
	assert_true(core_far(c)->keeps_all);
	assert_int_equal(near_ceiling(c->a.p, core_near(c)), POS_ORIGIN + 4);
	core_forget(&c->a);
	core_forget(&c->b);
}

/* The first prefix pair that fits decides, for new flows and for those that are open. */
static void ack_mode__per_prefix_pair(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct pair_mode all = {core_prefix(1), core_prefix(2), ACK_MODE_HOST},
	                 one = {{core_ip(1, 2), 128}, {core_ip(2, 2), 128}, ACK_MODE_FAR};

	c->a.cfg.pair_modes[0] = one;
	c->a.cfg.pair_modes[1] = all;
	c->a.cfg.npair_modes = 2;
	reconfigure(&c->a);
	core_pair(c, 0);
	assert_int_equal(core_near(c)->mode, ACK_MODE_FAR);
	c->a.cfg.pair_modes[0] = all;
	reconfigure(&c->a);
	assert_int_equal(core_near(c)->mode, ACK_MODE_HOST);
	c->a.cfg.npair_modes = 0;
	reconfigure(&c->a);
	assert_int_equal(core_near(c)->mode, ACK_MODE_NEAR);
	c->a.cfg.npair_modes = PAIR_MODES_MAX + 1;
	assert_int_equal(proxy_reconfigure(c->a.p, &c->a.cfg, c->now_ns), -EINVAL);
}

/* While the flow may still begin lower, the far edge's counts say nothing: its first packet may not be the first. */
static void ack_mode__reports_wait_for_the_base(void **state)
{
	struct core *c = core_given(state, ACK_MODE_HOST);

	core_send(c, RC_WRITE_ONLY, 6);
	core_wait(c, 5 * CORE_MS);
	assert_int_equal(core_near(c)->pos_reported, POS_ORIGIN + 6);
	core_forget(&c->b);
	core_ack(c, 0, AETH_NAK_PSN_SEQ, 0); /* the responder waits for 0, which was lost before the edge */
	core_wait(c, 5 * CORE_MS);
	assert_int_equal(core_near(c)->pos_base, POS_ORIGIN);
	assert_int_equal(core_near(c)->pos_reported, POS_ORIGIN);
	assert_int_equal(core_near(c)->pos_far, POS_ORIGIN);
}

/* The line is cut: what is committed here is ACKed, but not for ever, as nobody knows whether the responder lives. */
static void ack_mode__cut_demotes_until_it_is_heard(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_wait(c, 60000 * CORE_MS); /* idle: no debt */
	c->cut = true;
	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	c->now_ns += c->a.cfg.stall_ns - CORE_MS;
	core_send(c, RC_WRITE_ONLY, 2);
	core_expect_aeth(&c->a, 2, AETH_ACK_NO_CREDITS);
	assert_false(core_event(&c->a, EV_FLOW_DEMOTED));
	core_wait(c, 10 * CORE_MS);
	assert_true(core_event(&c->a, EV_FLOW_DEMOTED)); /* said when it is so, not when somebody asks */
	core_send(c, RC_WRITE_ONLY, 3);                  /* a keepalive, as it were */
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(near_mode(c->a.p, core_near(c)), ACK_MODE_HOST);
	c->cut = false;
	core_wait(c, 200 * CORE_MS);
	core_ack(c, 1, AETH_ACK_NO_CREDITS, 2);
	core_wait(c, CORE_MS);
	core_expect_aeth(&c->a, 3, AETH_ACK_NO_CREDITS);
	assert_int_equal(near_mode(c->a.p, core_near(c)), ACK_MODE_NEAR);
	assert_true(core_event(&c->a, EV_FLOW_RESUMED));
	assert_int_equal(core_ctr(&c->a, CTR_DEMOTIONS), 1);
}

/* While the whole line is silent one flow speaks for all; all count. */
static void ack_mode__a_silent_line_is_said_once(void **state)
{
	struct proxy_event ev;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint32_t said = 0;

	for (uint32_t psn = 0; psn < 2; psn++) {
		for (uint32_t qpn = 0x20; qpn < 0x24; qpn++) {
			struct roce_pkt h = core_req(RC_WRITE_ONLY, psn);

			h.dest_qpn = qpn;
			core_in(&c->a, h, CORE_PMTU, 0);
			core_pump(c);
			if (!c->cut)
				core_in(&c->b, core_answer(RC_ACK, qpn, psn, AETH_ACK_NO_CREDITS, psn + 1), 0, 0);
			core_wait(c, CORE_MS);
		}
		c->cut = true;
	}
	core_send(c, RC_WRITE_ONLY, 1);
	while (proxy_event_next(c->a.p, &ev))
		;
	core_wait(c, 700 * CORE_MS);
	while (proxy_event_next(c->a.p, &ev))
		said += ev.type == EV_FLOW_DEMOTED;
	assert_int_equal(said, 1);
	assert_int_equal(core_ctr(&c->a, CTR_DEMOTIONS), 5);
}

/* Idle for longer than GiveUp, then the first packet is lost on the far LAN: neither stalled nor failed by that. */
static void ack_mode__idleness_is_no_silence(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_wait(c, c->b.cfg.give_up_ns + 1000 * CORE_MS);
	core_send(c, RC_WRITE_ONLY, 1);
	core_forget(&c->b);
	core_wait(c, 30 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 1); /* again */
	assert_false(far_has_failed(core_far(c)) || core_far(c)->stalled);
	core_wait(c, c->b.cfg.stall_ns + 400 * CORE_MS);
	assert_true(core_far(c)->stalled);
}

/* One that stands still for seconds costs no queue pair: its requester is held off at the ceiling. One that is silent
 * for good is met with silence in the end, so that its requester fails over. */
static void ack_mode__a_silent_responder_is_held_for_ten_seconds(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint64_t rnrs;

	core_send(c, RC_WRITE_ONLY, 1);
	core_wait(c, c->b.cfg.stall_ns + 400 * CORE_MS);
	assert_true(near_is_stalled(core_near(c)));
	core_send(c, RC_WRITE_ONLY, 2); /* not ACKed any more */
	for (unsigned ms = 0; ms < 9000; ms += 500) {
		rnrs = core_ctr(&c->a, CTR_RNR_NAKS_TX);
		core_wait(c, 500 * CORE_MS);
		for (unsigned i = 0; i < 3; i++) /* the first two repetitions are met with silence */
			core_send(c, RC_WRITE_ONLY, 2);
		assert_true(core_ctr(&c->a, CTR_RNR_NAKS_TX) > rnrs);
	}
	core_wait(c, 2000 * CORE_MS);
	core_forget(&c->a);
	for (unsigned i = 0; i < 8; i++) {
		core_send(c, RC_WRITE_ONLY, 2);
		core_wait(c, 100 * CORE_MS);
	}
	assert_int_equal(core_pending(&c->a), 0);
	core_ack(c, 1, AETH_ACK_NO_CREDITS, 2); /* it was only slow */
	core_wait(c, CORE_MS);
	core_expect_aeth(&c->a, 2, AETH_ACK_NO_CREDITS);
}

/* A responder without receives lives, however long it takes. */
static void ack_mode__rnr_is_a_sign_of_life(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_SEND_ONLY, 1);
	for (int i = 0; i < 100; i++) {
		core_ack(c, 1, AETH_RNR_NAK | 20, 1); /* 10.24 ms */
		core_wait(c, 11 * CORE_MS);
	}
	core_forget(&c->a);
	core_send(c, RC_SEND_ONLY, 2);
	core_expect_aeth(&c->a, 2, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_ctr(&c->a, CTR_RNR_NAKS_TX), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(ack_mode__far_waits_for_the_far_edge_only),
	    CORE_TEST(ack_mode__far_counts_only_what_is_contiguous),
	    CORE_TEST(ack_mode__far_arena_lost_is_replayed),
	    CORE_TEST(ack_mode__near_arena_lost_is_delivered),
	    CORE_TEST(ack_mode__orphan_without_answer_fails_loudly),
	    CORE_TEST(ack_mode__orphan_refused_fails_once_and_goes),
	    CORE_TEST(ack_mode__orphan_refused_after_a_far_restart),
	    CORE_TEST(ack_mode__successor_held_before_its_turn),
	    CORE_TEST(ack_mode__successor_held_in_its_turn),
	    CORE_TEST(ack_mode__stale_flow_succeeds_no_other),
	    CORE_TEST(ack_mode__orphan_refused_within_its_successor),
	    CORE_TEST(ack_mode__orphan_refused_in_front_of_a_hole),
	    CORE_TEST(ack_mode__orphan_refused_in_mode_host),
	    CORE_TEST(ack_mode__orphan_refused_before_its_successor_opens),
	    CORE_TEST(ack_mode__orphan_refused_with_many_successors),
	    CORE_TEST(ack_mode__orphan_refused_and_recovered),
	    CORE_TEST(ack_mode__orphan_refused_spares_what_cm_has_opened),
	    CORE_TEST(ack_mode__near_arena_lost_fails_by_name),
	    CORE_TEST(ack_mode__near_arena_lost_after_another_mode),
	    CORE_TEST(ack_mode__near_arena_lost_after_another_mode_and_a_far_restart),
	    CORE_TEST(ack_mode__near_arena_lost_behind_a_long_hole),
	    CORE_TEST(ack_mode__near_arena_lost_and_nothing_owed),
	    CORE_TEST(ack_mode__near_arena_lost_and_a_new_life),
	    CORE_TEST(ack_mode__near_arena_lost_with_a_hole),
	    CORE_TEST(ack_mode__drained_arena_is_no_loss),
	    CORE_TEST(ack_mode__rebuilt_flows_are_of_the_life_that_was_lost),
	    CORE_TEST(ack_mode__far_believes_what_is_reported),
	    CORE_TEST(ack_mode__changes_for_live_flows),
	    CORE_TEST(ack_mode__far_only_once_the_far_edge_knows),
	    CORE_TEST(ack_mode__per_prefix_pair),
	    CORE_TEST(ack_mode__reports_wait_for_the_base),
	    CORE_TEST(ack_mode__cut_demotes_until_it_is_heard),
	    CORE_TEST(ack_mode__a_silent_line_is_said_once),
	    CORE_TEST(ack_mode__idleness_is_no_silence),
	    CORE_TEST(ack_mode__a_silent_responder_is_held_for_ten_seconds),
	    CORE_TEST(ack_mode__rnr_is_a_sign_of_life),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
