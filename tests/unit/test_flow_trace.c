/* SPDX-License-Identifier: Apache-2.0 */
/* The time line of a flow that is watched: which packets are its, what became of them, and what a full ring costs. */
#include "core_fixture.h"

#include "daemon/worker/flow_trace.h"
#include "proxy/near/near_priv.h"

static struct flow_watch *watch_of(uint32_t qpn)
{
	struct flow_key key = {.src = core_ip(1, 2), .dst = core_ip(2, 2), .dest_qpn = qpn};
	struct flow_watch *w = flow_watch_new(&key);

	assert_non_null(w);
	return w;
}

/* As a worker does. */
static void show_in(struct flow_watch *w, struct core_edge *e, struct roce_pkt h, size_t payload_len)
{
	uint8_t buf[LAN_PKT_MAX + 64];
	size_t n = roce_build(buf, sizeof(buf), &h, core_payload(e->c->salt, h.psn), payload_len);

	flow_watch_look(w, e->p, e->c->now_ns);
	flow_watch_in(w, e->p, e->c->now_ns, buf, n, proxy_lan_rx(e->p, e->c->now_ns, buf, n, 0));
}

static void show_out(struct flow_watch *w, struct core_edge *e)
{
	struct lan_tx tx;

	while (proxy_lan_tx(e->p, e->c->now_ns, &tx))
		flow_watch_out(w, e->p, e->c->now_ns, &tx);
}

static struct flow_trace_row next(struct flow_watch *w)
{
	struct flow_trace_row row;

	assert_true(spsc_take(&w->rows, &row));
	return row;
}

static void trace__a_request_and_its_ack(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct flow_watch *w = watch_of(CORE_QPN);
	struct flow_trace_row row;

	show_in(w, &c->a, core_req(RC_WRITE_ONLY, 1), CORE_PMTU);
	show_out(w, &c->a);
	row = next(w);
	assert_int_equal(row.what, FLOW_TRACE_STATE);
	assert_true(row.marks & 1u << FLOW_TRACE_BEGINS);
	row = next(w);
	assert_int_equal(row.what, FLOW_TRACE_IN);
	assert_int_equal(row.side, FLOW_NEAR);
	assert_int_equal(row.opcode, RC_WRITE_ONLY);
	assert_int_equal(row.psn, 1);
	assert_int_equal(row.drop, DROP_NONE);
	assert_int_equal(row.why, CEILING_COMMITTED);
	assert_int_equal(row.pos_next - row.pos_acked, 1);
	row = next(w);
	assert_int_equal(row.what, FLOW_TRACE_OUT);
	assert_int_equal(row.opcode, RC_ACK);
	assert_true(row.aeth);
	assert_int_equal(row.syndrome, AETH_ACK_NO_CREDITS);
	assert_int_equal(row.pos_next - row.pos_acked, 0);
	assert_false(spsc_take(&w->rows, &row));
	flow_watch_free(w);
}

static void trace__the_far_side_and_what_is_resent(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct flow_watch *w = watch_of(CORE_QPN);
	struct flow_trace_row row;
	uint8_t buf[WAN_MTU_MAX];
	struct wan_tx tx;
	size_t len;

	core_in(&c->a, core_req(RC_WRITE_ONLY, 1), CORE_PMTU, 0);
	flow_watch_look(w, c->b.p, c->now_ns);
	next(w);
	while ((len = proxy_wan_tx(c->a.p, c->now_ns, buf, sizeof(buf), &tx)))
		proxy_wan_rx(c->b.p, c->now_ns, buf, len, 0);
	flow_watch_look(w, c->b.p, c->now_ns);
	assert_int_equal(next(w).marks, 1u << FLOW_TRACE_ARRIVED);
	show_out(w, &c->b);
	row = next(w);
	assert_int_equal(row.side, FLOW_FAR);
	assert_int_equal(row.what, FLOW_TRACE_OUT);
	assert_int_equal(row.marks, 0);
	show_in(w, &c->b, core_answer(RC_ACK, CORE_QPN, 1, AETH_NAK_PSN_SEQ, 1), 0);
	assert_int_equal(next(w).syndrome, AETH_NAK_PSN_SEQ);
	show_out(w, &c->b);
	row = next(w);
	assert_int_equal(row.psn, 1);
	assert_int_equal(row.marks, 1u << FLOW_TRACE_RESENT);
	flow_watch_free(w);
}

static void trace__of_other_flows_nothing(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct flow_watch *w = watch_of(CORE_QPN + 1);
	struct flow_trace_row row;

	show_in(w, &c->a, core_req(RC_WRITE_ONLY, 1), CORE_PMTU);
	show_out(w, &c->a);
	show_in(w, &c->b, core_answer(RC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 1), 0);
	assert_false(spsc_take(&w->rows, &row));
	flow_watch_free(w);
}

/* Another queue pair of the same two hosts is answered. The watched one is not: a row would show its responder alive.
 */
static void trace__no_answer_of_another_flow_while_it_learns(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_FAR);
	struct flow_watch *a = watch_of(CORE_QPN + 1), *b = watch_of(CORE_QPN + 1);
	struct roce_pkt mute = core_req(RC_WRITE_ONLY, 1000);
	struct flow_trace_row row;

	mute.dest_qpn = CORE_QPN + 1;
	core_in(&c->a, mute, CORE_PMTU, 0);
	core_send(c, RC_WRITE_ONLY, 1);
	core_forget(&c->b);
	flow_watch_look(a, c->a.p, c->now_ns);
	flow_watch_look(b, c->b.p, c->now_ns);
	assert_true(next(a).marks & 1u << FLOW_TRACE_BEGINS);
	assert_true(next(b).marks & 1u << FLOW_TRACE_BEGINS);
	show_in(b, &c->b, core_answer(RC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2), 0);
	assert_false(spsc_take(&b->rows, &row));
	core_carry(c, &c->b, &c->a);
	show_out(a, &c->a);
	while (spsc_take(&a->rows, &row))
		assert_int_equal(row.what, FLOW_TRACE_STATE);
	flow_watch_free(a);
	flow_watch_free(b);
}

static void trace__the_answer_that_pairs(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct flow_watch *w = watch_of(CORE_QPN);
	struct flow_trace_row row;

	core_send(c, RC_WRITE_ONLY, 0);
	flow_watch_look(w, c->b.p, c->now_ns);
	next(w);
	show_in(w, &c->b, core_answer(RC_ACK, CORE_QPN, 0, AETH_ACK_NO_CREDITS, 1), 0);
	row = next(w);
	assert_int_equal(row.what, FLOW_TRACE_IN);
	assert_int_equal(row.opcode, RC_ACK);
	assert_true(row.marks & 1u << FLOW_TRACE_PAIRED);
	flow_watch_free(w);
}

static void trace__a_full_ring_loses_rows_and_counts_them(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct flow_watch *w = watch_of(CORE_QPN);

	for (uint32_t i = 0; i < FLOW_TRACE_ROWS + 10; i++)
		show_in(w, &c->a, core_req(RC_WRITE_ONLY, 0), CORE_PMTU);
	assert_int_equal(w->missed, 11); /* and the row with which the flow began */
	flow_watch_free(w);
}

/* The flow goes while it is watched. */
static void trace__the_end(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct flow_watch *w = watch_of(CORE_QPN);

	flow_watch_look(w, c->a.p, c->now_ns);
	next(w);
	near_close(c->a.p, core_near(c));
	flow_watch_look(w, c->a.p, c->now_ns);
	assert_int_equal(next(w).marks, 1u << FLOW_TRACE_ENDED);
	flow_watch_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(trace__a_request_and_its_ack),
	    CORE_TEST(trace__the_far_side_and_what_is_resent),
	    CORE_TEST(trace__of_other_flows_nothing),
	    CORE_TEST(trace__no_answer_of_another_flow_while_it_learns),
	    CORE_TEST(trace__the_answer_that_pairs),
	    CORE_TEST(trace__a_full_ring_loses_rows_and_counts_them),
	    CORE_TEST(trace__the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
