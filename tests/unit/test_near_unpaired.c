/* SPDX-License-Identifier: Apache-2.0 */
/* How much of an edge's memory hosts may take by sending to QPNs that no responder answers for. */
#define CORE_FLOWS 512
#include "core_fixture.h"
#include "proxy/near/near_priv.h"

enum { SHARE = CORE_FLOWS / 8, HALF = SHARE / 2, QUIET_MS = 100 };

/* Makes a host known: it has a paired flow. */
static void know(struct core *c, uint8_t host)
{
	struct near_flow f = {.src = core_ip(1, host)};

	near_unpaired_over(c->a.p, &f, PAIR_CONFIRMED);
}

/* A WRITE of `host` to a QPN; packets cross only when the test calls core_pump(). */
static enum proxy_drop write_to(struct core *c, uint8_t host, uint32_t qpn)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);

	h.src = core_ip(1, host);
	h.dest_qpn = qpn;
	return core_in(&c->a, h, CORE_PMTU, 0);
}

/* Returns for how many of n QPNs the edge makes a flow. */
static uint32_t spray(struct core *c, uint8_t host, uint32_t first_qpn, uint32_t n)
{
	uint32_t taken = 0;

	for (uint32_t i = 0; i < n; i++)
		taken += write_to(c, host, first_qpn + i) == DROP_NONE;
	return taken;
}

/* Waits until every flow is quiet; drops the far edge's probes. */
static void quiet(struct core *c)
{
	core_wait(c, QUIET_MS * CORE_MS + 1);
	core_forget(&c->b);
}

static void unpaired__one_source_has_half_of_the_share(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 256);

	know(c, 2);
	assert_int_equal(spray(c, 9, 0x1000, 500), HALF);
	assert_int_equal(core_drops(&c->a, DROP_LAN_UNPAIRED_FULL), 500 - HALF);
	assert_int_equal(c->a.p->unpaired.n[UNPAIRED_ALL], HALF);
	core_pump(c);
	core_forget(&c->b);
	core_pair(c, 0); /* another host is served as before */
}

static void unpaired__all_sources_have_the_share(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 256);

	for (uint8_t host = 10; host < 60; host++) {
		know(c, host);
		spray(c, host, 0x1000, 20);
	}
	assert_int_equal(c->a.p->unpaired.n[UNPAIRED_ALL], SHARE);
	core_pump(c);
}

/* Hosts that were never seen take at most half of the table; a host with a paired flow still gets another flow. */
static void unpaired__unknown_sources_have_half_of_the_share(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 256);

	core_pair(c, 0);
	for (uint8_t host = 10; host < 250; host++)
		spray(c, host, 0x1000, 1);
	assert_int_equal(c->a.p->unpaired.n[UNPAIRED_UNKNOWN], HALF);
	assert_int_equal(core_drops(&c->a, DROP_LAN_UNPAIRED_FULL), 240 - HALF);
	assert_int_equal(write_to(c, 2, 0x999), DROP_NONE);
	core_pump(c);
}

static void unpaired__the_quiet_one_goes(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 256);

	assert_int_equal(spray(c, 9, 0x1000, HALF), HALF);
	quiet(c);
	assert_int_equal(write_to(c, 9, 0x1000), DROP_LAN_DUPLICATE); /* the first flow gets a packet again */
	assert_int_equal(write_to(c, 9, 0x2000), DROP_NONE);
	assert_int_equal(core_ctr(&c->a, CTR_UNPAIRED_EVICTED), 1);
	assert_int_equal(write_to(c, 9, 0x1000), DROP_LAN_DUPLICATE); /* the first flow is still there, */
	assert_int_equal(write_to(c, 9, 0x1001), DROP_NONE);          /* the second flow was evicted */
	core_pump(c);
}

/* A new host that comes when the table is full gets an entry of the source with most flows, not of a source with one
 * QP. */
static void unpaired__the_greediest_pays(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 256);

	for (uint8_t host = 10; host < 10 + HALF; host++)
		assert_int_equal(write_to(c, host, 0x1000), DROP_NONE);
	know(c, 9);
	know(c, 200);
	assert_int_equal(spray(c, 9, 0x1000, SHARE), SHARE - HALF);
	quiet(c);
	assert_int_equal(write_to(c, 200, 0x1000), DROP_NONE);
	for (uint8_t host = 10; host < 10 + HALF; host++)
		assert_int_equal(write_to(c, host, 0x1000), DROP_LAN_DUPLICATE);
	core_pump(c);
}

/* An unknown host gets its flows at once, however fast another unknown host opens flows. */
static void unpaired__a_sprayer_gives_way(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 256);

	assert_int_equal(spray(c, 9, 0x1000, 500), HALF);
	assert_int_equal(write_to(c, 2, 0x11), DROP_NONE);
	assert_int_equal(spray(c, 9, 0x2000, 500), 0);
	assert_int_equal(write_to(c, 2, 0x11), DROP_LAN_DUPLICATE);
	assert_int_equal(spray(c, 2, 0x100, HALF), HALF / 2 - 1); /* half for each of the two hosts, and no more */
	assert_int_equal(c->a.p->unpaired.n[UNPAIRED_ALL], HALF);
	core_pump(c);
}

/* A host gets its flow, however its address and that of a host that sprays QPNs are hashed. */
static void unpaired__no_source_pays_for_a_like_hash(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 256);
	struct ip_addr sprayer = core_ip(1, 9), beside = sprayer;
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);

	do
		beside.b[15]++, beside.b[14] = (uint8_t)(beside.b[14] + (beside.b[15] == 0));
	while ((addr_hash(0, &beside) ^ addr_hash(0, &sprayer)) % 256);
	know(c, 9);
	assert_int_equal(spray(c, 9, 0x1000, 500), HALF);
	h.src = beside;
	assert_int_equal(core_in(&c->a, h, CORE_PMTU, 0), DROP_NONE);
	assert_int_equal(c->a.p->unpaired.n[UNPAIRED_ALL], HALF + 1);
	core_pump(c);
}

static void unpaired__a_paired_flow_stays(void **state)
{
	struct near_flow *f;
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 256);
	uint32_t inc;

	core_pair(c, 0);
	f = core_near(c);
	inc = f->inc;
	for (uint32_t round = 1; round <= 5; round++) {
		for (uint8_t host = 10; host < 60; host++)
			spray(c, host, 0x1000 * round, 20);
		quiet(c);
	}
	assert_true(near_in_use(f) && f->inc == inc);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 1), DROP_NONE);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
}

static void unpaired__hold_a_sixteenth_of_the_pool(void **state)
{
	uint64_t cap;
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 64);

	c->cut = true;
	cap = arena_capacity(c->a.p->arena, POOL_LAN);
	for (uint32_t qpn = 0x1000; qpn < 0x1000 + HALF; qpn++) {
		for (uint32_t psn = 0; psn < 60; psn++) {
			struct roce_pkt h = core_req(RC_WRITE_ONLY, psn);

			h.dest_qpn = qpn;
			core_in(&c->a, h, CORE_PMTU, 0);
		}
	}
	assert_true(c->a.p->unpaired.bytes > cap / 32);
	assert_true(c->a.p->unpaired.bytes <= cap / 16 + HALF * (uint64_t)arena_class_bytes(CORE_PMTU + 84));
	assert_true(core_drops(&c->a, DROP_LAN_NO_ROOM) > 0);
}

static void unpaired__the_pair_frees_the_share(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 256);

	core_pair(c, 0);
	assert_int_equal(c->a.p->unpaired.n[UNPAIRED_ALL], 0);
	assert_int_equal(c->a.p->unpaired.bytes, 0);
	write_to(c, 9, 0x1000);
	assert_int_equal(c->a.p->unpaired.n[UNPAIRED_ALL], 1);
	core_rebuild(&c->a);
	assert_int_equal(c->a.p->unpaired.n[UNPAIRED_ALL], 1);
	assert_true(c->a.p->unpaired.bytes > 0);
	core_session(c);
}

/* A flow had more packets than it may hold without a pair. Once it has its pair the host is told to send them again. */
static void unpaired__refused_packets_are_asked_for_with_the_pair(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 64);
	uint32_t psn = 0;
	bool told = false;

	c->cut = true;
	while (core_in(&c->a, core_req(RC_WRITE_ONLY, psn), CORE_PMTU, 0) == DROP_NONE)
		psn++;
	assert_int_equal(core_drops(&c->a, DROP_LAN_NO_ROOM), 1);
	c->cut = false;
	core_wait(c, CORE_MS);
	assert_int_equal(core_ack(c, 0, AETH_ACK_NO_CREDITS, 1), DROP_NONE);
	core_wait(c, CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->a));)
		told |= k->h.psn == psn && (k->h.aeth_syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK;
	assert_true(told);
	core_forget(&c->b);
}

/* A host gave up: both edges remove its flow, also if the near edge was restarted meanwhile. */
static void unpaired__forsaken_after_a_restart(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 256);

	assert_int_equal(write_to(c, 9, 0x1000), DROP_NONE);
	core_pump(c);
	core_rebuild(&c->a);
	core_session(c);
	assert_true(core_used(&c->a) && core_used(&c->b));
	core_wait(c, FORSAKEN_NS + CORE_MS);
	assert_int_equal(c->a.p->near_used, 0);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_used(&c->b), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(unpaired__one_source_has_half_of_the_share),
	    CORE_TEST(unpaired__all_sources_have_the_share),
	    CORE_TEST(unpaired__unknown_sources_have_half_of_the_share),
	    CORE_TEST(unpaired__the_quiet_one_goes),
	    CORE_TEST(unpaired__the_greediest_pays),
	    CORE_TEST(unpaired__a_sprayer_gives_way),
	    CORE_TEST(unpaired__no_source_pays_for_a_like_hash),
	    CORE_TEST(unpaired__a_paired_flow_stays),
	    CORE_TEST(unpaired__hold_a_sixteenth_of_the_pool),
	    CORE_TEST(unpaired__the_pair_frees_the_share),
	    CORE_TEST(unpaired__refused_packets_are_asked_for_with_the_pair),
	    CORE_TEST(unpaired__forsaken_after_a_restart),
	};

	return cmocka_run_group_tests_name("near_unpaired", tests, NULL, NULL);
}
