/* SPDX-License-Identifier: Apache-2.0 */
/* A queue pair begins a new life while the table of near flows, or its source's share of the table, is full. */
#define CORE_FLOWS 64
#include "core_fixture.h"
#include "proxy/near/near_priv.h"

enum { QPN0 = 0x100, SHARE = 32 /* unpaired flows of one source, in so small a table */, IDLE_MS = 11000 };

static enum proxy_drop send_to(struct core *c, uint32_t qpn, uint32_t psn)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, psn);

	h.dest_qpn = qpn;
	return core_in(&c->a, h, CORE_PMTU, 0);
}

/* CM opens a connection to that QPN; the requesters' QPNs begin at 0x21. */
static void cm_opens(struct core *c, uint32_t qpn, uint32_t psn)
{
	const struct near_cm_info ci = {.src = core_ip(1, 2),
	                                .dst = core_ip(2, 2),
	                                .dest_qpn = qpn,
	                                .requester_qpn = 0x21,
	                                .start_psn = psn,
	                                .pmtu = CORE_PMTU,
	                                .pkey = 0xffff,
	                                .rnr_retry = 7};

	near_cm_open(c->a.p, &ci);
	assert_int_equal(proxy_audit(c->a.p), 0);
}

/* Fills the table with flows of other hosts, known from CM, whose bytes no responder takes. */
static void fill_with_busy_ones(struct core *c)
{
	struct near_cm_info ci = {.src = core_ip(1, 3), .dst = core_ip(2, 3), .pmtu = CORE_PMTU, .rnr_retry = 7};

	while (c->a.p->near_used < CORE_FLOWS) {
		struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);

		h.src = ci.src;
		h.dst = ci.dst;
		h.dest_qpn = ci.dest_qpn = ci.requester_qpn = QPN0 + c->a.p->near_used;
		near_cm_open(c->a.p, &ci);
		assert_int_equal(core_in(&c->a, h, 100, 0), DROP_NONE);
	}
	core_pump(c);
	core_forget(&c->a);
	core_forget(&c->b);
}

/* No entry is free, and the only idle flow is the former life: the new life gets its entry. */
static void near_table__new_life_in_the_place_of_the_old_one(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint32_t idx = core_near(c)->idx, inc = core_near(c)->inc;

	fill_with_busy_ones(c);
	c->now_ns += IDLE_MS * CORE_MS;
	c->a.p->now_ns = c->b.p->now_ns = c->now_ns;
	cm_opens(c, CORE_QPN, 500);
	assert_int_equal(core_near(c)->idx, idx);
	assert_int_not_equal(core_near(c)->inc, inc);
	assert_null(core_near(c)->older);
	assert_null(core_near(c)->newer);
	assert_int_equal(c->a.p->near_used, CORE_FLOWS);
	core_send(c, RC_WRITE_ONLY, 500);
	core_expect_aeth(&c->a, 500, AETH_ACK_NO_CREDITS);
}

/* The former life never got an answer, and its source has its share of such flows: the former life is the longest
 * silent of them, and is evicted for the new life, which gets another entry. */
static void near_table__new_life_for_a_forgotten_one(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct near_flow *old;
	uint32_t qpn = QPN0;

	c->cut = true;
	assert_int_equal(send_to(c, CORE_QPN, 0), DROP_NONE);
	old = core_near(c);
	while (c->a.p->unpaired.n[UNPAIRED_ALL] < SHARE)
		assert_int_equal(send_to(c, qpn++, 0), DROP_NONE);
	c->now_ns += 101 * CORE_MS;
	c->a.p->now_ns = c->b.p->now_ns = c->now_ns;
	cm_opens(c, CORE_QPN, 500);
	assert_false(near_in_use(old));
	assert_true(core_near(c) != old);
	assert_null(core_near(c)->older);
	assert_int_equal(c->a.p->near_used, SHARE);
	c->cut = false;
	core_send(c, RC_WRITE_ONLY, 500);
	core_wait(c, 2000 * CORE_MS); /* longer than a former life drains */
	assert_int_equal(c->a.p->near_used, SHARE);
	assert_null(core_near(c)->older);
}

/* One life drains, a second waits, and there is no entry for a third: the next packet waits for the first life's
 * bytes. */
static void near_table__third_life_without_a_place(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct near_flow *first;
	uint32_t qpn = QPN0;

	core_send_run(c, 1, 4);
	core_forget(&c->a);
	core_forget(&c->b);
	first = core_near(c);
	cm_opens(c, CORE_QPN, 500);
	assert_ptr_equal(core_near(c)->older, first);
	c->cut = true;
	while (c->a.p->unpaired.n[UNPAIRED_ALL] < SHARE)
		assert_int_equal(send_to(c, qpn++, 0), DROP_NONE);
	assert_int_equal(core_in(&c->a, core_req(RC_WRITE_ONLY, 500), CORE_PMTU, 0), DROP_NONE);
	core_near(c)->superseded = true; /* the requester's QPN went to another connection */
	c->salt = 1;
	core_in(&c->a, core_req(RC_WRITE_ONLY, 0), CORE_PMTU, 0);
	assert_int_equal(proxy_audit(c->a.p), 0);
	assert_int_equal(core_drops(&c->a, DROP_LAN_UNPAIRED_FULL), 1);
	assert_ptr_equal(core_near(c), first);
	c->now_ns += 101 * CORE_MS; /* from now on another flow may be evicted */
	for (int i = 0; i < 4; i++) {
		c->now_ns += 4 * CORE_MS;
		core_in(&c->a, core_req(RC_WRITE_ONLY, 0), CORE_PMTU, 0);
	}
	assert_true(core_near(c) != first);
	assert_ptr_equal(core_near(c)->older, first);
	assert_int_equal(proxy_audit(c->a.p), 0);
	core_wait(c, 300 * CORE_MS);
	assert_int_equal(core_near(c)->pos_wan, core_near(c)->pos_base); /* no packet of this life crosses yet */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(near_table__new_life_in_the_place_of_the_old_one),
	    CORE_TEST(near_table__new_life_for_a_forgotten_one),
	    CORE_TEST(near_table__third_life_without_a_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
