/* SPDX-License-Identifier: Apache-2.0 */
/* Which packets the far edge gives up when its pool runs low, which ones it must keep, and a restart of either edge
 * after that. */
#include "core_fixture.h"
#include "proxy/wan/share.h"

enum { PKTS = 84, WINDOW = 4300, STUCK_MS = 30, ROUND_MS = 5 };

struct responder {
	uint32_t next; /* PSN that host B expects */
};

/* Host B answers all packets that have come, in PSN order. */
static void serve(struct core *c, struct responder *r)
{
	for (const struct core_pkt *k; (k = core_take(&c->b));) {
		if (k->h.opcode != RC_WRITE_ONLY || k->h.dest_qpn != CORE_QPN)
			continue;
		r->next += k->h.psn == r->next;
		core_in(&c->b, core_answer(RC_ACK, CORE_QPN, r->next - 1, AETH_ACK_NO_CREDITS, r->next), 0, 0);
	}
	core_pump(c);
}

static void serve_for(struct core *c, struct responder *r, uint32_t ms)
{
	for (uint32_t i = 0; i < ms; i++) {
		serve(c, r);
		core_wait(c, CORE_MS);
	}
}

/* Makes a flow whose responder has answered PSN 0 and is silent since; the far edge holds more of its bytes than the
 * minimum. */
static struct core *given_silent_responder(void **state, enum ack_mode mode)
{
	struct core *c = core_given(state, mode);

	core_know_epochs(c);
	c->b.cfg.lan_window_bytes = WINDOW; /* the far edge has sent little of the flow to the host */
	assert_int_equal(proxy_reconfigure(c->b.p, &c->b.cfg, c->now_ns), 0);
	core_pair(c, 0);
	core_send_run(c, 1, PKTS);
	core_wait(c, STUCK_MS * CORE_MS);
	assert_int_equal(core_far(c)->pos_rx, POS_ORIGIN + 1 + PKTS);
	assert_true(core_far(c)->held_bytes > CREDIT_MIN_BYTES);
	return c;
}

/* Other flows fill the far edge's pool up to the limit of unsolicited packets. Returns how many slots that takes. */
static uint32_t crowd(struct core *c)
{
	uint32_t n = 0;

	while (slot_take(c->b.p, SLOT_RAW_WAN, 0, 0, n, LAN_PKT_MAX, 0, false) != SLOT_NONE)
		n++;
	assert_true(n > 0);
	return n;
}

static void crowd_goes(struct core *c, uint32_t n)
{
	while (n--)
		slot_release(c->b.p, arena_find(c->b.p->arena, SLOT_RAW_WAN, 0, n));
}

/* Another flow's packet arrives: the far edge evicts packets to make room for it. */
static void another_arrives(struct core *c)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);

	h.dest_qpn = CORE_QPN + 1;
	assert_int_equal(core_in(&c->a, h, CORE_PMTU, 0), DROP_NONE);
	core_pump(c);
	core_wait(c, CORE_MS);
}

/* The pool runs low, and the far edge evicts nothing for that. */
static void nothing_is_evicted(struct core *c)
{
	uint32_t n = crowd(c);

	another_arrives(c);
	assert_int_equal(core_ctr(&c->b, CTR_EVICTED), 0);
	crowd_goes(c, n);
}

static void far_evict__gives_up_the_highest_and_gets_them_again(void **state)
{
	struct core *c = given_silent_responder(state, ACK_MODE_NEAR);
	struct responder host = {.next = 1};
	uint32_t n;

	n = crowd(c);
	another_arrives(c);
	assert_true(core_ctr(&c->b, CTR_EVICTED) > 0);
	assert_true(core_far(c)->pos_rx < POS_ORIGIN + 1 + PKTS);
	assert_true(core_far(c)->held_bytes >= CREDIT_MIN_BYTES); /* the far edge keeps the minimum */
	assert_int_equal(core_ctr(&c->a, CTR_CREDIT_REVOKED), 1);
	crowd_goes(c, n);
	serve_for(c, &host, 400);
	assert_int_equal(host.next, 1 + PKTS);
	assert_int_equal(near_held(core_near(c)), 0);
}

/* A far edge that restarts counts its rounds from 0. The near edge uses its credit at once: all granted packets
 * cross before the responder answers. */
static void far_evict__rounds_begin_anew_with_a_far_restart(void **state)
{
	struct core *c = given_silent_responder(state, ACK_MODE_NEAR);
	struct responder host = {.next = 1};
	uint64_t granted;

	crowd(c);
	another_arrives(c);
	assert_int_not_equal(core_near(c)->again_round, 0);
	core_rebuild(&c->b); /* the packets that filled the pool were not committed */
	core_hello(c, 1, 1);
	core_wait(c, ROUND_MS * CORE_MS);
	granted = min_u64(core_far(c)->pos_credit, core_near(c)->pos_next);
	assert_int_equal(core_near(c)->pos_wan, granted);
	assert_true(core_far(c)->pos_rx >= granted);
	serve_for(c, &host, 200);
	assert_int_equal(host.next, 1 + PKTS);
	assert_int_equal(near_held(core_near(c)), 0);
}

/* Mode far: the host has the ACK of a packet that the far edge committed. However low the pool, the packet stays,
 * and reaches the responder also if the near edge loses its memory. */
static void far_evict__mode_far_keeps_what_was_acked(void **state)
{
	struct core *c = given_silent_responder(state, ACK_MODE_FAR);
	struct responder host = {.next = 1};
	uint32_t acked = 0;

	for (const struct core_pkt *k; (k = core_take(&c->a));)
		acked = k->h.psn;
	assert_int_equal(acked, PKTS);
	nothing_is_evicted(c);
	core_lose(c, &c->a, 99);
	serve_for(c, &host, 200);
	assert_int_equal(host.next, 1 + PKTS);
}

/* The near edge opens the flow anew while the responder counts as silent. Mode far is in force again once it is heard: the
 * far edge keeps what the host was ACKed for since. */
static void far_evict__mode_far_after_an_outage(void **state)
{
	struct core *c = given_silent_responder(state, ACK_MODE_FAR);
	struct responder host = {.next = 1};
	uint32_t acked = 0, next = 1 + PKTS;

	serve_for(c, &host, 20);
	assert_int_equal(host.next, next);
	core_send(c, RC_WRITE_ONLY, next++); /* under way when the far edge stops */
	core_forget(&c->b);
	c->now_ns += c->a.cfg.stall_ns + 200 * CORE_MS;
	core_rebuild(&c->b);
	core_hello(c, 1, 1);
	serve_for(c, &host, 300);
	assert_int_equal(host.next, next);
	assert_int_equal(near_mode(c->a.p, core_near(c)), ACK_MODE_FAR);
	assert_int_equal(core_far(c)->mode, ACK_MODE_FAR);
	core_forget(&c->a);
	core_send_run(c, next, PKTS);
	core_wait(c, STUCK_MS * CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->a));)
		acked = k->h.psn;
	assert_int_equal(acked, next + PKTS - 1);
	nothing_is_evicted(c);
	core_lose(c, &c->a, 99);
	serve_for(c, &host, 400);
	assert_int_equal(host.next - 1, acked);
}

/* As long as nothing is ACKed early, the far edge reports as for mode host; what mode far has ACKed before stays. */
static void far_evict__mode_far_while_no_early_acks(void **state)
{
	struct core *c = given_silent_responder(state, ACK_MODE_FAR);

	c->a.cfg.no_early_acks = true;
	assert_int_equal(proxy_reconfigure(c->a.p, &c->a.cfg, c->now_ns), 0);
	core_wait(c, CORE_MS);
	assert_int_equal(core_far(c)->mode, ACK_MODE_HOST);
	nothing_is_evicted(c);
	c->a.cfg.no_early_acks = false;
	assert_int_equal(proxy_reconfigure(c->a.p, &c->a.cfg, c->now_ns), 0);
	core_wait(c, CORE_MS);
	assert_int_equal(core_far(c)->mode, ACK_MODE_FAR);
}

/* Of an overtaken report of a round before: the far edge has given up since what it had received then. */
static void far_evict__overtaken_report_of_an_older_round(void **state)
{
	struct core *c = given_silent_responder(state, ACK_MODE_FAR);
	struct near_flow *f = core_near(c);
	uint64_t at = f->pos_reported + 2;
	struct wan_flow_report r = {.flow = near_wire_id(c->a.p, f), .inc = f->inc, .delivered = f->pos_reported,
	                            .received = at, .credit = f->pos_credit, .again_from = at, .again_round = 1};

	near_on_report(c->a.p, lane_of(c->a.p, f->lane), &r);
	assert_int_equal(f->pos_far, at);
	r.again_round = 0;
	r.received = at + 5;
	near_on_report(c->a.p, lane_of(c->a.p, f->lane), &r);
	assert_int_equal(f->pos_far, at);
	r.again_round = 1;
	near_on_report(c->a.p, lane_of(c->a.p, f->lane), &r);
	assert_int_equal(f->pos_far, at + 5);
}

/* A flow that has many rounds behind it, and a near edge that comes back with its arena: both count from 0 again. */
static void many_rounds(void **state, enum ack_mode mode)
{
	struct core *c = given_silent_responder(state, mode);
	struct responder host = {.next = 1};
	uint32_t acked = 0, next = 1 + PKTS;

	core_far(c)->again_round = core_near(c)->again_round = 40000;
	core_far(c)->again_from = core_far(c)->pos_rx_max;
	core_rebuild(&c->a);
	core_hello(c, 1, 1);
	core_wait(c, ROUND_MS * CORE_MS);
	assert_true(core_near(c)->credit_known);
	serve_for(c, &host, 400);
	assert_int_equal(host.next, next);
	core_forget(&c->a);
	core_send_run(c, next, PKTS);
	core_wait(c, 5 * CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->a));)
		acked = k->h.psn;
	assert_int_equal(acked, next + PKTS - 1); /* before the responder answers */
	serve_for(c, &host, 400);
	assert_int_equal(host.next, next + PKTS);
}

static void far_evict__rounds_begin_anew_with_a_session_near(void **state)
{
	many_rounds(state, ACK_MODE_NEAR);
}

static void far_evict__rounds_begin_anew_with_a_session_far(void **state)
{
	many_rounds(state, ACK_MODE_FAR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(far_evict__gives_up_the_highest_and_gets_them_again),
	    CORE_TEST(far_evict__rounds_begin_anew_with_a_far_restart),
	    CORE_TEST(far_evict__mode_far_keeps_what_was_acked),
	    CORE_TEST(far_evict__mode_far_after_an_outage),
	    CORE_TEST(far_evict__mode_far_while_no_early_acks),
	    CORE_TEST(far_evict__overtaken_report_of_an_older_round),
	    CORE_TEST(far_evict__rounds_begin_anew_with_a_session_near),
	    CORE_TEST(far_evict__rounds_begin_anew_with_a_session_far),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
