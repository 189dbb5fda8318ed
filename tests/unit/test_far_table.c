/* SPDX-License-Identifier: Apache-2.0 */
/* Which flow the far edge forgets when its table is full; the forgotten flow goes on with its next packet. */
#include "core_fixture.h"

#include "proxy/far/far_priv.h"

enum { PLACES = 16, QPN0 = 0x100, PEER0 = 0x900 };

/* Two edges; the far one has PLACES places for flows, the near one more. */
static struct core *given_places(void **state, enum ack_mode mode)
{
	struct core *c = core_given(state, mode);

	c->b.cfg.max_flows = c->b.g.max_flows = PLACES;
	core_begin(&c->b, 78);
	core_session(c);
	return c;
}

static enum proxy_drop send_to(struct core *c, uint32_t i, uint8_t opcode, uint32_t psn)
{
	struct roce_pkt h = core_req(opcode, psn);
	enum proxy_drop d;

	h.dest_qpn = QPN0 + i;
	d = core_in(&c->a, h, core_len(opcode), 0);
	core_pump(c);
	return d;
}

static void answer_of(struct core *c, uint32_t i, uint32_t psn)
{
	assert_int_equal(core_in(&c->b, core_answer(RC_ACK, PEER0 + i, psn, AETH_ACK_NO_CREDITS, psn + 1), 0, 0),
	                 DROP_NONE);
	core_pump(c);
}

static void expect_at(struct core *c, uint32_t i, uint32_t psn)
{
	assert_int_equal(core_expect(&c->b, RC_WRITE_ONLY, psn)->h.dest_qpn, QPN0 + i);
}

/* Sends a WRITE, which is delivered and answered. */
static void deliver(struct core *c, uint32_t i, uint32_t psn)
{
	assert_int_equal(send_to(c, i, RC_WRITE_ONLY, psn), DROP_NONE);
	expect_at(c, i, psn);
	answer_of(c, i, psn);
	core_wait(c, CORE_MS);
	core_forget(&c->a);
}

static struct near_flow *near_of(struct core *c, uint32_t i)
{
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);
	struct near_flow *f = near_find(c->a.p, &src, &dst, QPN0 + i, 0);

	assert_non_null(f);
	return f;
}

static struct far_flow *far_of(struct core *c, uint32_t i)
{
	return far_by_peer(c->b.p, near_wire_id(c->a.p, near_of(c, i)));
}

/* Fills the table with idle flows: flow 0 is idle for the shortest time, flow 1 for the longest. */
static struct core *given_idle_flows(void **state, enum ack_mode mode)
{
	struct core *c = given_places(state, mode);

	for (uint32_t i = 0; i < PLACES; i++) {
		deliver(c, i, 0);
		core_wait(c, 10 * CORE_MS);
	}
	deliver(c, 0, 1);
	core_wait(c, 1100 * CORE_MS);
	assert_int_equal(c->b.p->far_used, PLACES);
	return c;
}

static void far_table__the_longest_idle_flow_is_forgotten(void **state)
{
	struct core *c = given_idle_flows(state, ACK_MODE_NEAR);

	deliver(c, PLACES, 0);
	assert_int_equal(c->b.p->far_used, PLACES);
	for (uint32_t i = 0; i <= PLACES; i++)
		assert_true((far_of(c, i) == NULL) == (i == 1));
}

/* ConnectX gives up after 300 ms: a flow that has been idle for some tenths of a second makes room. */
static void far_table__a_host_does_not_wait_until_it_gives_up(void **state)
{
	struct core *c = given_places(state, ACK_MODE_NEAR);

	for (uint32_t i = 0; i < PLACES; i++)
		deliver(c, i, 0);
	core_wait(c, 150 * CORE_MS);
	deliver(c, PLACES, 0);
	assert_int_equal(c->b.p->far_used, PLACES);
	assert_non_null(far_of(c, PLACES));
}

/* A flow that has failed does not go on: the barrier waits for nothing of it, as for one that the near edge has closed. */
static void far_table__a_failed_flow_is_gone_for_good(void **state)
{
	struct core *c = given_idle_flows(state, ACK_MODE_NEAR);
	const struct barrier *b = &c->b.p->barrier;

	far_of(c, 1)->state = FAR_FAILED;
	deliver(c, PLACES, 0);
	assert_null(far_of(c, 1));
	assert_int_equal(b->gone[(b->ngone - 1) % BARRIER_GONE].upto, UINT64_MAX);
	core_wait(c, 1100 * CORE_MS);
	deliver(c, PLACES + 1, 0); /* of one that has not failed it waits for what its responder lacks */
	assert_int_equal(b->gone[(b->ngone - 1) % BARRIER_GONE].upto, POS_ORIGIN + 1);
}

/* The forgotten flow sends again, and gets the entry of another flow. */
static void far_table__a_forgotten_flow_goes_on(void **state)
{
	struct core *c = given_idle_flows(state, ACK_MODE_NEAR);

	deliver(c, PLACES, 0);
	assert_int_equal(send_to(c, 1, RC_WRITE_ONLY, 1), DROP_NONE);
	core_wait(c, 10 * CORE_MS); /* until the far edge has asked for FLOW_OPEN */
	expect_at(c, 1, 1);
	assert_int_equal(core_pending(&c->b), 0);
	answer_of(c, 1, 1);
	core_wait(c, CORE_MS);
	core_forget(&c->a);
	deliver(c, 1, 2);
	assert_null(far_of(c, 2));
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 0);
}

/* A flow whose responder has not answered is never forgotten: the new flow waits until another flow has been idle
 * for long enough. */
static void far_table__a_flow_with_bytes_stays(void **state)
{
	struct core *c = given_idle_flows(state, ACK_MODE_NEAR);

	for (uint32_t i = 0; i < PLACES; i++) {
		send_to(c, i, RC_WRITE_ONLY, i ? 1 : 2);
		core_forget(&c->b);
	}
	core_wait(c, 1100 * CORE_MS);
	core_forget(&c->b);
	send_to(c, PLACES, RC_WRITE_ONLY, 0);
	core_wait(c, 100 * CORE_MS);
	assert_true(core_drops(&c->b, DROP_WAN_FLOW_TABLE_FULL) > 0);
	for (uint32_t i = 0; i < PLACES; i++)
		assert_true(far_of(c, i)->held_bytes > 0);
	assert_null(far_of(c, PLACES));
	answer_of(c, 5, 1);
	core_wait(c, 90 * CORE_MS);
	assert_non_null(far_of(c, 5));
	core_wait(c, 20 * CORE_MS);
	assert_null(far_of(c, 5));
	assert_non_null(far_of(c, PLACES));
	for (uint32_t i = 0; i < PLACES; i++)
		assert_true(i == 5 || far_of(c, i)->held_bytes > 0);
}

/* The FLOW_OPEN of a flow found no place, and has arrived for the near edge: it is not repaired. When the flow's packet
 * finds a place, the far edge asks for FLOW_OPEN at once, not after the time in which words at the barrier expire. */
static void far_table__a_flow_without_a_place_is_opened_at_once(void **state)
{
	struct core *c = given_idle_flows(state, ACK_MODE_NEAR);

	for (uint32_t i = 0; i < PLACES; i++)
		send_to(c, i, RC_WRITE_ONLY, i ? 1 : 2);
	send_to(c, PLACES, RC_WRITE_ONLY, 0);
	core_wait(c, 100 * CORE_MS);
	assert_null(far_of(c, PLACES));
	answer_of(c, 5, 1);
	far_of(c, 5)->last_progress_ns = 0; /* as if it had been idle for long */
	core_forget(&c->b);
	core_wait(c, 100 * CORE_MS);
	assert_true(far_is_open(far_of(c, PLACES)));
	expect_at(c, PLACES, 0);
}

/* --- a flow that is forgotten before the near edge knows what was delivered --- */

static bool lose_all_from_b(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)dgram;
	(void)len;
	return from == &c->a;
}

/* Five WRITEs of flow 1 are delivered, the near edge hears of none, and the flow is forgotten. */
static struct core *given_forgotten_flow(void **state, enum ack_mode mode)
{
	struct core *c = given_idle_flows(state, mode);

	c->wan = lose_all_from_b;
	for (uint32_t psn = 1; psn <= 5; psn++) {
		send_to(c, 1, RC_WRITE_ONLY, psn);
		expect_at(c, 1, psn);
		answer_of(c, 1, psn);
	}
	assert_int_equal(near_of(c, 1)->pos_reported, POS_ORIGIN + 1);
	far_of(c, 1)->last_progress_ns = 0; /* as if the last progress were long ago */
	send_to(c, PLACES, RC_WRITE_ONLY, 0);
	assert_null(far_of(c, 1));
	c->wan = NULL;
	core_wait(c, 100 * CORE_MS);
	core_forget(&c->b);
	return c;
}

/* Host B, which expects PSN `next` of flow 1, answers for three seconds. Returns the PSN that host B expects then. */
static uint32_t answer_flow_1(struct core *c, uint32_t next)
{
	for (int i = 0; i < 30; i++) {
		core_wait(c, 100 * CORE_MS);
		for (const struct core_pkt *k; (k = core_take(&c->b));) {
			if (k->h.dest_qpn != QPN0 + 1)
				continue;
			next += k->h.psn == next;
			core_in(&c->b, core_answer(RC_ACK, PEER0 + 1, next - 1, AETH_ACK_NO_CREDITS, next), 0, 0);
		}
	}
	return next;
}

static void far_table__forgotten_before_the_near_edge_knew(void **state)
{
	struct core *c = given_forgotten_flow(state, ACK_MODE_NEAR);

	send_to(c, 1, RC_WRITE_ONLY, 6);
	assert_int_equal(answer_flow_1(c, 6), 7);
	assert_int_equal(near_of(c, 1)->pos_reported, POS_ORIGIN + 7);
	assert_int_equal(near_held(near_of(c, 1)), 0);
}

/* In mode host the requester sends nothing more before it gets its ACK. */
static void far_table__forgotten_with_nothing_left_to_send(void **state)
{
	struct core *c = given_forgotten_flow(state, ACK_MODE_HOST);

	core_forget(&c->a);
	assert_int_equal(answer_flow_1(c, 6), 6);
	assert_int_equal(near_of(c, 1)->pos_reported, POS_ORIGIN + 6);
	assert_int_equal(near_held(near_of(c, 1)), 0);
	core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS);
}

/* --- READs of a flow that finds no place --- */

static bool lose_responses(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)dgram;
	return from == &c->a || len < CORE_PMTU;
}

static void respond(struct core *c, uint32_t i, uint32_t psn)
{
	core_in(&c->b, core_answer(RC_READ_RESP_ONLY, PEER0 + i, psn, AETH_ACK_NO_CREDITS, psn + 1), CORE_PMTU, 0);
	core_pump(c);
}

/* Host A asks again every 100 ms, host B answers each READ that comes. Returns the responses that host A gets. */
static uint32_t read_again(struct core *c, uint32_t i, uint32_t psn)
{
	uint32_t got = 0;

	for (int n = 0; n < 10; n++) {
		core_wait(c, 100 * CORE_MS);
		send_to(c, i, RC_READ_REQUEST, psn);
		for (const struct core_pkt *k; (k = core_take(&c->b));)
			if (k->h.opcode == RC_READ_REQUEST && k->h.dest_qpn == QPN0 + i)
				respond(c, i, psn);
		for (const struct core_pkt *k; (k = core_take(&c->a));)
			got += k->h.opcode == RC_READ_RESP_ONLY && k->h.psn == psn;
	}
	return got;
}

/* The responder has answered the READ, and the near edge knows; the response is lost on the WAN and not repaired yet. */
static void far_table__a_flow_with_responses_stays(void **state)
{
	struct core *c = given_idle_flows(state, ACK_MODE_NEAR);

	assert_int_equal(send_to(c, 1, RC_READ_REQUEST, 1), DROP_NONE);
	core_expect(&c->b, RC_READ_REQUEST, 1);
	c->wan = lose_responses;
	respond(c, 1, 1);
	core_wait(c, CORE_MS);
	far_of(c, 1)->last_progress_ns = 0; /* as if the line had been cut for long */
	send_to(c, PLACES, RC_WRITE_ONLY, 0);
	c->wan = NULL;
	assert_non_null(far_of(c, 1));
	core_forget(&c->a);
	assert_true(read_again(c, 1, 1) > 0);
}

/* The near edge asks for a READ's responses again, which were lost on the LAN, and the far edge has forgotten the flow. */
static void far_table__a_read_again_of_a_forgotten_flow(void **state)
{
	struct core *c = given_idle_flows(state, ACK_MODE_NEAR);
	struct wan_read_again r = {.pos = POS_ORIGIN + 1, .psns = 1};

	deliver(c, PLACES, 0);
	assert_null(far_of(c, 1));
	r.flow = near_wire_id(c->a.p, near_of(c, 1));
	r.inc = near_of(c, 1)->inc;
	far_on_again(c->b.p, lane_of(c->b.p, near_of(c, 1)->lane), &r);
	core_pump(c);
	core_wait(c, CORE_MS);
	assert_non_null(far_of(c, 1));
	assert_true(far_is_open(far_of(c, 1))); /* the next one finds it */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(far_table__the_longest_idle_flow_is_forgotten),
	    CORE_TEST(far_table__a_host_does_not_wait_until_it_gives_up),
	    CORE_TEST(far_table__a_failed_flow_is_gone_for_good),
	    CORE_TEST(far_table__a_forgotten_flow_goes_on),
	    CORE_TEST(far_table__a_flow_with_bytes_stays),
	    CORE_TEST(far_table__a_flow_without_a_place_is_opened_at_once),
	    CORE_TEST(far_table__forgotten_before_the_near_edge_knew),
	    CORE_TEST(far_table__forgotten_with_nothing_left_to_send),
	    CORE_TEST(far_table__a_flow_with_responses_stays),
	    CORE_TEST(far_table__a_read_again_of_a_forgotten_flow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
