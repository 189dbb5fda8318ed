/* SPDX-License-Identifier: Apache-2.0 */
/* Which lane sends next. */
#include "core_fixture.h"

#include "proxy/wan/wan_lane_priv.h"

#define DATAGRAM 9000u

static struct lane *first_lane(const struct proxy *p)
{
	return dlist_entry(dlist_first(&p->wan->lane_list), struct lane, node);
}

static void take_turn(struct proxy *p, struct lane *l)
{
	wan_lane_took_turn(p, l, DATAGRAM, wan_lane_waiting(l));
}

/* Neither lane has anything to send, so what is said of them is all that counts. */
static struct proxy *given_two_lanes(void **state, uint32_t flows_of_first, uint32_t flows_of_second)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 32);
	struct proxy *p = c->a.p;

	while (dlist_first(&p->wan->lane_list))
		dlist_remove(dlist_first(&p->wan->lane_list));
	p->wan->lanes[0].nwaiting[SOURCE_NEAR] = flows_of_first;
	p->wan->lanes[1].nwaiting[SOURCE_NEAR] = flows_of_second;
	return p;
}

static void all_go(struct proxy *p)
{
	p->wan->lanes[0].nwaiting[SOURCE_NEAR] = p->wan->lanes[1].nwaiting[SOURCE_NEAR] = p->wan->lanes[0].nwaiting[SOURCE_FAR] = 0;
}

/* Datagrams of the first lane, of so many in all. */
static uint32_t turns_of_first(struct proxy *p, uint32_t datagrams)
{
	uint32_t n = 0;

	wan_lane_schedule(p, &p->wan->lanes[0]);
	wan_lane_schedule(p, &p->wan->lanes[1]);
	for (uint32_t i = 0; i < datagrams; i++) {
		struct lane *l = first_lane(p);

		n += l == &p->wan->lanes[0];
		take_turn(p, l);
	}
	return n;
}

/* Each flow gets as much, whatever lanes the hash of host pairs has put them into. */
static void wan_lane__turns_by_flows(void **state)
{
	struct proxy *p = given_two_lanes(state, 30, 10);

	assert_in_range(turns_of_first(p, 400), 299, 301);
	all_go(p);
}

static void wan_lane__responses_count(void **state)
{
	struct proxy *p = given_two_lanes(state, 1, 10);

	p->wan->lanes[0].nwaiting[SOURCE_FAR] = 29;
	assert_in_range(turns_of_first(p, 400), 299, 301);
	all_go(p);
}

/* What is no flow's (raw packets, control) has a turn as if it were one flow's. */
static void wan_lane__turns_without_flows(void **state)
{
	struct proxy *p = given_two_lanes(state, 0, 1);

	assert_in_range(turns_of_first(p, 100), 49, 51);
	all_go(p);
}

/* One that had nothing to say does not wait for a round of all others, and does not catch up on what it missed. */
static void wan_lane__a_newcomer_is_next(void **state)
{
	struct proxy *p = given_two_lanes(state, 30, 1);
	uint32_t n = 0;

	wan_lane_schedule(p, &p->wan->lanes[0]);
	for (uint32_t i = 0; i < 1000; i++)
		take_turn(p, &p->wan->lanes[0]);
	wan_lane_schedule(p, &p->wan->lanes[1]);
	assert_ptr_equal(first_lane(p), &p->wan->lanes[1]);
	take_turn(p, &p->wan->lanes[1]);
	for (; first_lane(p) == &p->wan->lanes[0]; n++)
		take_turn(p, &p->wan->lanes[0]);
	assert_in_range(n, 29, 32);
	all_go(p);
}

/* Turns wrap around after 18 PB of a flow: nobody starves then. */
static void wan_lane__turns_wrap_around(void **state)
{
	struct proxy *p = given_two_lanes(state, 30, 10);

	p->wan->lane_turn = p->wan->lanes[0].turn = p->wan->lanes[1].turn = UINT64_MAX - 50 * DATAGRAM * 1024ull / 10;
	assert_in_range(turns_of_first(p, 400), 299, 301);
	assert_true(p->wan->lanes[0].turn < UINT64_MAX / 2 && p->wan->lanes[1].turn < UINT64_MAX / 2);
	all_go(p);
}

/* What was idle for longer than half of all turns seems to be ahead, and is next all the same. */
static void wan_lane__idle_for_half_of_all_turns(void **state)
{
	struct proxy *p = given_two_lanes(state, 1, 1);

	p->wan->lanes[0].turn = p->wan->lane_turn = (1ull << 63) + 12345;
	p->wan->lanes[1].turn = p->wan->lane_turn + (1ull << 40);
	wan_lane_schedule(p, &p->wan->lanes[0]);
	take_turn(p, &p->wan->lanes[0]);
	wan_lane_schedule(p, &p->wan->lanes[1]);
	assert_ptr_equal(first_lane(p), &p->wan->lanes[1]);
	assert_in_range(turns_of_first(p, 100), 49, 51);
	all_go(p);
}

/* A REFUSED is no more work than a call has, and what an edge says in one is worked off with the next call. */
static void wan_lane__refused_in_portions(void **state)
{
	struct core *c = core_given_small_mtu(state);
	struct lane *l;
	struct pn_space *s;
	uint8_t bits[8 * 64];
	struct wan_report r = {.words = 64, .bits = bits};
	uint64_t in_flight;

	core_pair(c, 0);
	core_wait(c, CORE_MS);
	l = &c->a.p->wan->lanes[core_near(c)->lane];
	s = &l->space[0];
	memset(bits, 0xff, sizeof(bits));
	r.base = s->sent.pn_next / 64 * 64;
	c->cut = true;
	core_send_run(c, 1, 80);
	in_flight = s->sent.entries_in_flight;
	assert_true(in_flight > 64);
	c->a.p->work_left = 1;
	wan_on_refused(c->a.p, l, s, &r);
	assert_in_range(core_ctr(&c->a, CTR_WAN_REFUSED), 1, 64);
	c->cut = false;
	core_pump(c);
	assert_int_equal(core_ctr(&c->a, CTR_WAN_REFUSED), in_flight);
	core_wait(c, 100 * CORE_MS);
	for (uint32_t psn = 1; psn <= 80; psn++)
		core_expect(&c->b, RC_WRITE_ONLY, psn);
}

/* The peer refuses everything that this edge has sent so far. */
static void refuse_all(struct core_edge *e, struct lane *l)
{
	static const uint8_t bits[8 * 64] = {[0 ... 8 * 64 - 1] = 0xff};
	struct pn_space *s = &l->space[0];
	struct wan_report r = {.words = 64, .bits = bits};

	r.base = s->sent.pn_next > 64 * 63 ? s->sent.pn_next / 64 * 64 - 64 * 63 : 0;
	wan_on_refused(e->p, l, s, &r);
}

/* True if b has the first answer of that flow and has sent it so often. */
static bool sent_again(struct core *c, uint32_t flow, unsigned times)
{
	uint32_t slot = arena_find(c->b.p->arena, SLOT_RESP_FAR, flow, POS_ORIGIN + 2);

	return slot != SLOT_NONE && arena_meta(c->b.p->arena, slot)->sends >= times;
}

/* There is no room for the many answers of one queue pair. Its first one is tried again and again, and each time the
 * answer of another one gets its turn, too. */
static void wan_lane__refused_slots_of_all_flows_have_their_turns(void **state)
{
	enum { MANY = 200 };
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 32);
	struct roce_pkt h = core_req(RC_READ_REQUEST, 2);
	struct lane *l;
	unsigned i;

	core_pair_with_pmtu(c);
	h.reth_len = MANY * CORE_PMTU;
	core_in(&c->a, h, 0, 0);
	h.reth_len = CORE_PMTU;
	h.dest_qpn++;
	core_in(&c->a, h, 0, 0);
	core_pump(c);
	l = &c->b.p->wan->lanes[core_far(c)->lane];
	c->cut = true;
	for (i = 0; i < MANY; i++)
		core_in(&c->b, core_answer(i ? RC_READ_RESP_MIDDLE : RC_READ_RESP_FIRST, CORE_QPN, 2 + i, AETH_ACK_NO_CREDITS, 2),
		        CORE_PMTU, 0);
	core_in(&c->b, core_answer(RC_READ_RESP_ONLY, CORE_QPN + 1, 2, AETH_ACK_NO_CREDITS, 1), CORE_PMTU, 0);
	for (i = 0; i < 1000 && !sent_again(c, core_far(c)->idx + 1, 4); i++) {
		core_wait(c, CORE_MS);
		refuse_all(&c->b, l);
	}
	assert_true(i < 1000);
	assert_true(sent_again(c, core_far(c)->idx, 4));
}

/* c->arg: which lanes' datagrams of edge a get lost, a bit each */
static bool lanes_get_lost(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)len;
	return from != &c->a || !(*(const unsigned *)c->arg >> dgram[1] & 1);
}

/* How often edge a asks on lane 1, of which nothing arrives, in the time of so many probe timeouts. */
static uint64_t probes_in_vain(struct core *c, unsigned lost, unsigned timeouts)
{
	uint64_t before, once, until;
	struct proxy *p = c->a.p;

	c->arg = &lost;
	c->wan = lanes_get_lost;
	core_wait(c, 50 * CORE_MS); /* nothing is under way */
	before = p->wan->path[0].stats.probes;
	once = wan_rtt_pto_ns(&p->wan->path[0].rtt);
	until = c->now_ns + timeouts * once;
	p->wan->lanes[1].space[0].probe_due = true;
	wan_lane_schedule(p, &p->wan->lanes[1]);
	while (c->now_ns < until) {
		p->wan->lanes[0].space[0].ping_due = true;
		wan_lane_schedule(p, &p->wan->lanes[0]);
		core_wait(c, once / 4);
	}
	c->arg = NULL;
	c->wan = NULL;
	return p->wan->path[0].stats.probes - before;
}

/* A lane that is not answered doubles its probe timeout, but not while other lanes of the path are answered: with losses
 * of its own it would be silent for longer than its hosts wait. */
static void wan_lane__no_backoff_while_others_are_answered(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 32);

	assert_in_range(probes_in_vain(c, 2, 40), 30, 45);
	core_wait(c, 1000 * CORE_MS);
	assert_in_range(probes_in_vain(c, 3, 40), 1, 12); /* of both lanes */
}

/* The flows that count are those with requests that may go. */
static void wan_lane__counts_flows(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 32);
	struct lane *l;

	core_pair(c, 0);
	l = &c->a.p->wan->lanes[core_near(c)->lane];
	assert_int_equal(l->nwaiting[SOURCE_NEAR], 0);
	core_near(c)->agains_due = true;
	near_wan_schedule(c->a.p, core_near(c));
	near_wan_schedule(c->a.p, core_near(c));
	assert_int_equal(l->nwaiting[SOURCE_NEAR], 1);
	core_near(c)->agains_due = false;
	near_wan_leave(c->a.p, core_near(c));
	near_wan_leave(c->a.p, core_near(c));
	assert_int_equal(l->nwaiting[SOURCE_NEAR], 0);
}

/* A response of host B that is the far edge's; it has not left for the near edge yet. */
static void respond(struct core *c, uint32_t psn)
{
	struct roce_pkt h = core_answer(RC_READ_RESP_ONLY, CORE_QPN, psn, AETH_ACK_NO_CREDITS, psn);

	assert_int_equal(core_in(&c->b, h, CORE_PMTU, 0), DROP_NONE);
}

static uint32_t far_waiting(struct core *c)
{
	return c->b.p->wan->lanes[core_far(c)->lane].nwaiting[SOURCE_FAR];
}

static struct core *given_reads(void **state, uint32_t n)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	for (uint32_t psn = 2; psn < 2 + n; psn++) {
		core_in(&c->a, core_req(RC_READ_REQUEST, psn), 0, 0);
		core_pump(c);
		core_expect(&c->b, RC_READ_REQUEST, psn);
	}
	return c;
}

/* Nor those whose responses are all under way: their lane would have turns for them without anything to send. */
static void wan_lane__responses_under_way_do_not_count(void **state)
{
	struct core *c = given_reads(state, 3);

	assert_int_equal(far_waiting(c), 0);
	respond(c, 2);
	respond(c, 3);
	assert_int_equal(far_waiting(c), 1); /* a flow, however many there are */
	c->cut = true;
	core_pump(c);
	assert_int_equal(core_far(c)->nresps, 2);
	assert_int_equal(far_waiting(c), 0);
	c->cut = false;
	respond(c, 4);
	assert_int_equal(far_waiting(c), 1);
	core_wait(c, 100 * CORE_MS); /* two were lost, and have gone again */
	assert_true(core_ctr(&c->b, CTR_WAN_REPAIRS) >= 2);
	assert_int_equal(core_far(c)->nresps, 0);
	assert_int_equal(far_waiting(c), 0);
}

/* One that was found lost waits again; those of a flow that ends do not. */
static void wan_lane__responses_that_go_again_count(void **state)
{
	struct core *c = given_reads(state, 2);
	struct lane *l = &c->b.p->wan->lanes[core_far(c)->lane];

	c->cut = true;
	respond(c, 2);
	core_pump(c);
	c->b.p->now_ns = c->now_ns;
	wan_move_all(c->b.p, l, &l->space[0]);
	assert_int_equal(l->nwaiting[SOURCE_FAR], 1);
	respond(c, 3);
	assert_int_equal(l->nwaiting[SOURCE_FAR], 1);
	far_on_close(c->b.p, &(struct wan_flow_close){.flow = core_far(c)->peer_flow, .inc = core_far(c)->inc});
	core_pump(c);
	assert_int_equal(l->nwaiting[SOURCE_FAR], 0);
	c->cut = false;
}

/* A new session sends again what waits for the near edge, and a rebuilt edge has nothing to send before there is one. */
static void wan_lane__responses_count_once_in_a_new_session(void **state)
{
	struct core *c = given_reads(state, 2);
	struct proxy_session s = c->b.p->session;

	c->cut = true;
	respond(c, 2);
	core_pump(c);
	respond(c, 3);
	for (int i = 0; i < 2; i++) {
		s.epoch_tx++;
		proxy_session_start(c->b.p, &s, c->now_ns);
		assert_int_equal(far_waiting(c), 1);
	}
	core_rebuild(&c->b);
	assert_int_equal(core_far(c)->nresps, 2);
	assert_int_equal(far_waiting(c), 0);
	c->cut = false;
	core_session(c);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_far(c)->nresps, 0);
	assert_int_equal(far_waiting(c), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(wan_lane__turns_by_flows),
	    CORE_TEST(wan_lane__responses_count),
	    CORE_TEST(wan_lane__turns_without_flows),
	    CORE_TEST(wan_lane__a_newcomer_is_next),
	    CORE_TEST(wan_lane__turns_wrap_around),
	    CORE_TEST(wan_lane__refused_in_portions),
	    CORE_TEST(wan_lane__refused_slots_of_all_flows_have_their_turns),
	    CORE_TEST(wan_lane__idle_for_half_of_all_turns),
	    CORE_TEST(wan_lane__no_backoff_while_others_are_answered),
	    CORE_TEST(wan_lane__counts_flows),
	    CORE_TEST(wan_lane__responses_under_way_do_not_count),
	    CORE_TEST(wan_lane__responses_that_go_again_count),
	    CORE_TEST(wan_lane__responses_count_once_in_a_new_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
