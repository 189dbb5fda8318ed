/* SPDX-License-Identifier: Apache-2.0 */
/* What a flow tells of its own life, and what is remembered of those that have ended. */
#include "core_fixture.h"

#include "proxy/near/near_priv.h"

static struct proxy_flow_view view_of(struct core_edge *e, enum flow_side side)
{
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);
	struct proxy_flow_view v;

	assert_true(proxy_flow_find(e->p, side, &src, &dst, CORE_QPN, 0, &v));
	return v;
}

static struct flow_facts facts_of(struct core_edge *e, enum flow_side side)
{
	return view_of(e, side).facts;
}

static void facts__a_healthy_flow_has_nothing_to_tell(void **state)
{
	static const struct flow_counts none;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct flow_facts near, far;

	core_deliver(c, 1, 20);
	near = facts_of(&c->a, FLOW_NEAR);
	far = facts_of(&c->b, FLOW_FAR);
	assert_memory_equal(&near.n, &none, sizeof(none));
	assert_memory_equal(&far.n, &none, sizeof(none));
	assert_int_equal(near.undelivered, 0);
	assert_int_equal(near.why, CEILING_COMMITTED);
	assert_true(near.paired_ns != 0 && near.opened_ns != 0 && near.host_ns != 0);
	assert_int_equal(near.failed, 0);
}

/* A NAK brings the host back: what it repeats then was asked for, and is no timeout. */
static void facts__gaps_are_counted_and_are_no_timeouts(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 2);
	core_wait(c, CORE_MS);
	assert_int_equal(facts_of(&c->a, FLOW_NEAR).n.gaps, 1);
	core_send(c, RC_WRITE_ONLY, 1);
	core_send(c, RC_WRITE_ONLY, 2);
	assert_int_equal(facts_of(&c->a, FLOW_NEAR).n.silent_repeats, 0);
}

static void facts__a_timeout_of_the_host_is_measured(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);
	struct flow_facts f;

	core_send(c, RC_WRITE_ONLY, 1);
	core_wait(c, 9 * CORE_MS);
	core_send(c, RC_WRITE_ONLY, 1);
	core_wait(c, 4 * CORE_MS);
	core_send(c, RC_WRITE_ONLY, 1);
	f = facts_of(&c->a, FLOW_NEAR);
	assert_int_equal(f.n.repeats, 2);
	assert_int_equal(f.n.silent_repeats, 2);
	assert_int_equal(f.n.repeats_acked, 0);
	assert_true(f.begun_repeat_ns >= 4 * CORE_MS && f.begun_repeat_ns < 5 * CORE_MS);
	assert_int_equal(f.most_unacked, 1);
	assert_int_equal(f.why, CEILING_DELIVERED);
}

static void facts__what_was_acked_and_is_repeated(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 1);
	core_wait(c, CORE_MS);
	core_send(c, RC_WRITE_ONLY, 1);
	assert_int_equal(facts_of(&c->a, FLOW_NEAR).n.repeats_acked, 1);
}

static void facts__rnr_at_both_edges(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct flow_facts far;

	core_send(c, RC_SEND_ONLY, 1);
	core_ack(c, 1, AETH_RNR_NAK | 14, 1);
	core_wait(c, CORE_MS / 2);
	far = facts_of(&c->b, FLOW_FAR);
	assert_int_equal(far.n.rnr_naks, 1);
	assert_int_equal(far.rnr_timer_ns, roce_rnr_timer_ns(14));
	assert_int_equal(far.undelivered, 1);
	assert_true(facts_of(&c->a, FLOW_NEAR).n.rnr_told > 0);
}

static void facts__loss_and_silence_of_the_responder(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct flow_facts far;

	core_send_run(c, 1, 4);
	core_ack(c, 2, AETH_NAK_PSN_SEQ, 2);
	far = facts_of(&c->b, FLOW_FAR);
	assert_int_equal(far.n.seq_naks, 1);
	assert_true(far.n.repeats >= 1);
	core_wait(c, 2000 * CORE_MS);
	far = facts_of(&c->b, FLOW_FAR);
	assert_true(far.n.timeouts >= 2);
	assert_int_equal(far.n.stalls, 1);
	assert_int_equal(facts_of(&c->a, FLOW_NEAR).why, CEILING_DEMOTED);
}

static void facts__who_never_answers(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 0);
	assert_int_equal(facts_of(&c->a, FLOW_NEAR).why, CEILING_LEARNING);
	core_wait(c, 500 * CORE_MS);
	assert_true(facts_of(&c->b, FLOW_FAR).n.turns_unanswered >= 1);
	assert_int_equal(facts_of(&c->b, FLOW_FAR).n.unsent, 0);
}

static void facts__a_refusal(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);
	struct flow_facts f;

	core_send(c, RC_WRITE_ONLY, 1);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	f = facts_of(&c->a, FLOW_NEAR);
	assert_int_equal(f.failed, 1);
	assert_int_equal(f.syndrome, AETH_NAK_REM_ACCESS);
	assert_int_equal(f.why, CEILING_FAILED);
	assert_int_equal(f.fail_pos & ROCE_PSN_MASK, 1);
}

static void facts__the_first_open_read_bounds_acks(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_FETCH_ADD, 1);
	core_send(c, RC_WRITE_ONLY, 2);
	assert_int_equal(facts_of(&c->a, FLOW_NEAR).why, CEILING_OPERATION);
	assert_int_equal(facts_of(&c->a, FLOW_NEAR).open_reads, 1);
}

static uint32_t ended(struct core_edge *e, const struct proxy_flow_view **last)
{
	const struct proxy_flow_view *v;
	uint32_t cursor = 0, n = 0;

	while ((v = proxy_flow_ended_next(e->p, &cursor))) {
		*last = v;
		n++;
	}
	return n;
}

static void history__a_flow_that_has_ended_is_remembered(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);
	const struct proxy_flow_view *v = NULL;

	assert_int_equal(ended(&c->a, &v), 0);
	core_send(c, RC_WRITE_ONLY, 1);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	near_close(c->a.p, core_near(c));
	assert_int_equal(ended(&c->a, &v), 1);
	assert_int_equal(v->status.dest_qpn, CORE_QPN);
	assert_int_equal(v->facts.syndrome, AETH_NAK_REM_ACCESS);
	assert_int_equal(v->facts.end, FLOW_END_FAILED);
	assert_int_equal(v->facts.ended_ns, c->now_ns);
	core_pump(c);
	assert_int_equal(ended(&c->b, &v), 1); /* the close has crossed */
	assert_int_equal(v->facts.end, FLOW_END_FAILED);
}

/* A host that sprays QPNs, or a job with thousands of queue pairs that end well, pushes out nothing of what failed; and all of
 * it has its bound. */
static void history__what_failed_is_not_pushed_out(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);
	const struct proxy_flow_view *v;
	uint32_t cursor = 0, failed = 0, n = 0;

	core_send(c, RC_WRITE_ONLY, 1);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	near_close(c->a.p, core_near(c));
	for (uint32_t i = 0; i < 500; i++) {
		struct near_flow f = {.idx = 1, .pairing = i % 2 ? PAIR_LEARNING : PAIR_CONFIRMED, .dest_qpn = 1000 + i};

		dlist_init(&f.ops);
		near_note_end(c->a.p, &f);
	}
	while ((v = proxy_flow_ended_next(c->a.p, &cursor))) {
		n++;
		failed += v->facts.end == FLOW_END_FAILED;
	}
	assert_int_equal(failed, 1);
	assert_int_equal(n, 1 + FLOWS_ENDED_MIN);
}

static void history__hosts_that_opened_a_connection(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct ip_addr host = core_ip(1, 2), other = core_ip(1, 3);
	uint8_t syn[40] = {0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 1, 0, 2, 10, 2, 0, 2, 0x12, 0x34, 0x56, 0x78};

	c->a.cfg.barrier = BARRIER_PAIR;
	c->a.cfg.ip_pool_bytes = 1 << 20;
	core_begin(&c->a, 78);
	core_session(c);
	syn[32] = 0x50;
	syn[33] = 0x10; /* a bare ACK proves it as well, but comes with every segment: it is not noted */
	proxy_lan_rx(c->a.p, c->now_ns, syn, sizeof(syn), 0);
	assert_int_equal(proxy_host_heard(c->a.p, &host), 0);
	syn[33] = 0x02;
	proxy_lan_rx(c->a.p, c->now_ns, syn, sizeof(syn), 0);
	assert_int_equal(proxy_host_heard(c->a.p, &host), c->now_ns);
	assert_int_equal(proxy_host_heard(c->a.p, &other), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(facts__a_healthy_flow_has_nothing_to_tell),
	    CORE_TEST(facts__gaps_are_counted_and_are_no_timeouts),
	    CORE_TEST(facts__a_timeout_of_the_host_is_measured),
	    CORE_TEST(facts__what_was_acked_and_is_repeated),
	    CORE_TEST(facts__rnr_at_both_edges),
	    CORE_TEST(facts__loss_and_silence_of_the_responder),
	    CORE_TEST(facts__who_never_answers),
	    CORE_TEST(facts__a_refusal),
	    CORE_TEST(facts__the_first_open_read_bounds_acks),
	    CORE_TEST(history__a_flow_that_has_ended_is_remembered),
	    CORE_TEST(history__what_failed_is_not_pushed_out),
	    CORE_TEST(history__hosts_that_opened_a_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
