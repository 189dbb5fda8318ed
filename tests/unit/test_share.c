/* SPDX-License-Identifier: Apache-2.0 */
/* What a flow may hold of a pool, and what it gives back for others. */
#include "core_fixture.h"
#include "daemon/config/link_plan.h"
#include "proxy/wan/share.h"

static uint64_t limit(struct core *c, const struct share *s, uint64_t held)
{
	return share_limit(c->a.p, s, POOL_LAN, held, SHARE_PLAIN);
}

static void pass(struct core *c, uint64_t ns)
{
	c->now_ns += ns;
	c->a.p->now_ns = c->now_ns;
}

/* A flow that drains may hold some round trips of it; one that stops falls back to the open part of the pool. */
static void share__follows_the_drain(void **state)
{
	struct share s = {0};
	uint64_t open, rate_per_ms = 2000000, most = 0;
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 640);

	c->a.p->now_ns = c->now_ns;
	share_begin(c->a.p, &s);
	for (int ms = 0; ms < 100; ms++) {
		pass(c, CORE_MS);
		share_drained(c->a.p, &s, rate_per_ms, 100);
		most = max_u64(most, limit(c, &s, 1));
	}
	open = share_limit(c->a.p, &(struct share){0}, POOL_LAN, 1, SHARE_PLAIN);
	assert_true(most >= SHARE_PLAIN * 3 * rate_per_ms); /* of a round trip of 1 ms, and what hosts take */
	assert_true(open < most);
	assert_true(share_positions(c->a.p, &s, POOL_LAN, 1) >= 300);
	assert_false(share_stuck(c->a.p, &s, 1));
	pass(c, 100 * CORE_MS);
	assert_true(share_stuck(c->a.p, &s, 1));
	assert_int_equal(limit(c, &s, 1), open);
	assert_int_equal(share_positions(c->a.p, &s, POOL_LAN, 1), 0);
}

/* A young flow is trusted with what the line back carries: more would be a minute of a thin one, and others would wait
 * for it. What comes is granted by what the line may carry: of that nothing is known here. */
static void share__a_young_flow_is_trusted_by_the_line_that_was_found(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 640);
	struct share s = {0};
	uint64_t wide, thin, held = 64 << 20;

	core_pair(c, 0);
	c->a.p->wan->path[0].rtt.smoothed_ns = c->a.p->wan->path[0].rtt.min_ns = 100 * CORE_MS;
	c->a.p->cfg.rate_hint_bps = 4000000000ull;
	atomic_store(&c->a.pacer.rate_bps, 4000000000ull);
	c->a.p->now_ns = c->now_ns;
	share_begin(c->a.p, &s);
	wide = limit(c, &s, held);
	atomic_store(&c->a.pacer.rate_bps, 1000000);
	thin = limit(c, &s, held);
	assert_true(thin < wide);
	assert_int_equal(thin, share_open_part(c->a.p, POOL_LAN, held));
	assert_true(share_limit(c->a.p, &s, POOL_WAN, held, SHARE_PLAIN) >= wide / 2);
}

/* However full the pool: the minimum. And many that hold what they may leave room for one more. */
static void share__always_the_minimum(void **state)
{
	struct share s = {0};
	uint64_t before;
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 32);

	share_begin(c->a.p, &s);
	pass(c, 1000 * CORE_MS);
	before = limit(c, &s, 1);
	for (uint32_t pos = 0; share_left(c->a.p, POOL_LAN) > 0; pos++)
		assert_int_not_equal(arena_alloc(c->a.p->arena, SLOT_REQ_NEAR, 31, 1, pos, LAN_PKT_MAX), SLOT_NONE);
	assert_true(before > CREDIT_MIN_BYTES);
	assert_int_equal(limit(c, &s, 1), CREDIT_MIN_BYTES);
	for (uint32_t pos = 0; arena_find(c->a.p->arena, SLOT_REQ_NEAR, 31, pos) != SLOT_NONE; pos++)
		arena_free(c->a.p->arena, arena_find(c->a.p->arena, SLOT_REQ_NEAR, 31, pos));
}

/* The rest of a pool is for packets that flows wait for: else flows that lack one each could hold each other up. */
static void share__the_reserve_is_for_urgent_packets(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 32);
	uint32_t slot, n = 0, urgent = 0;

	core_pair(c, 0);
	for (; (slot = slot_take(c->a.p, SLOT_RAW_LAN, 0, 0, n, LAN_PKT_MAX, 0, false)) != SLOT_NONE; n++)
		;
	assert_true(pool_free(c->a.p, POOL_LAN) <= pool_reserve(c->a.p, POOL_LAN) + arena_class_bytes(LAN_PKT_MAX));
	for (; slot_take(c->a.p, SLOT_RAW_LAN, 0, 0, n + urgent, LAN_PKT_MAX, 0, true) != SLOT_NONE; urgent++)
		;
	assert_true(urgent >= 4);
	for (uint32_t pos = 0; pos < n + urgent; pos++)
		slot_release(c->a.p, arena_find(c->a.p->arena, SLOT_RAW_LAN, 0, pos));
	assert_int_equal(core_used(&c->a), 0);
}

/* A chunk of small packets, nearly empty, may be all that is free: a larger one that a flow waits for finds a place even
 * so. */
static void share__the_reserve_is_of_every_size(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 4);
	uint32_t n = 0;

	core_pair(c, 0);
	assert_int_not_equal(slot_take(c->a.p, SLOT_RAW_LAN, 0, 0, n++, 100, 0, false), SLOT_NONE);
	while (slot_take(c->a.p, SLOT_RAW_LAN, 0, 0, n, 1000, 0, false) != SLOT_NONE)
		n++;
	assert_true(n > 1);
	for (unsigned i = 0; i < 4; i++)
		assert_int_not_equal(slot_take(c->a.p, SLOT_RAW_LAN, 0, 0, n++, 1000, 0, true), SLOT_NONE);
	for (uint32_t pos = 0; pos < n; pos++)
		slot_release(c->a.p, arena_find(c->a.p->arena, SLOT_RAW_LAN, 0, pos));
	assert_int_equal(core_used(&c->a), 0);
}

/* Flows that drain as fast as can be and whose hosts send without end: each takes what it may. Doctor and alerts call
 * that full (LINK_BUFFER_FULL). Nine tenths, which they once asked for, are never reached. */
static void share__a_pool_that_holds_hosts_off_is_full(void **state)
{
	static const unsigned counts[] = {1, 4, 64};
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 640);
	uint32_t bytes = arena_class_bytes(LAN_PKT_MAX);

	core_pair(c, 0);
	for (unsigned k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		struct share s[64] = {0};
		uint64_t held[64] = {0}, cap = arena_capacity(c->a.p->arena, POOL_LAN), used;
		uint32_t n = 0;

		pass(c, 1000 * CORE_MS);
		for (unsigned i = 0; i < counts[k]; i++)
			share_drained(c->a.p, &s[i], 1ull << 32, 1 << 20);
		for (bool any = true; any;) {
			any = false;
			for (unsigned i = 0; i < counts[k]; i++) {
				if (held[i] + bytes > share_limit(c->a.p, &s[i], POOL_LAN, held[i], SHARE_REPAIRS) ||
				    slot_take(c->a.p, SLOT_RAW_LAN, 0, 0, n, LAN_PKT_MAX, 0, false) == SLOT_NONE)
					continue;
				held[i] += bytes;
				any = true;
				n++;
			}
		}
		used = arena_used(c->a.p->arena, POOL_LAN);
		if ((double)used < LINK_BUFFER_FULL * (double)cap || used >= cap / 10 * 9)
			fail_msg("%u flows fill %llu of %llu bytes", counts[k], (unsigned long long)used,
			         (unsigned long long)cap);
		while (n > 0)
			slot_release(c->a.p, arena_find(c->a.p->arena, SLOT_RAW_LAN, 0, --n));
	}
	assert_int_equal(core_used(&c->a), 0);
}

/* --- dead flows --- */

static struct roce_pkt write_to(uint32_t qpn, uint32_t psn)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, psn);

	h.dest_qpn = qpn;
	return h;
}

/* Host B answers what it gets for the QPNs from `from` on; the others are dead. Returns how many came in order. */
static uint32_t answer_from(struct core *c, uint32_t from, uint32_t *next)
{
	uint32_t n = 0;

	for (const struct core_pkt *k; (k = core_take(&c->b));) {
		uint32_t i = k->h.dest_qpn - CORE_QPN;

		if (k->h.dest_qpn < from)
			continue;
		if (k->h.psn == next[i])
			next[i]++, n++;
		if (k->h.ack_req || k->h.psn + 1 < next[i])
			core_in(&c->b, core_answer(RC_ACK, k->h.dest_qpn, next[i] - 1, AETH_ACK_NO_CREDITS, next[i]), 0,
			        0);
	}
	core_pump(c);
	return n;
}

/* As much of each flow as the near edge takes, a few packets per turn. */
static void feed(struct core *c, uint32_t from, uint32_t to, uint32_t *sent, uint32_t most)
{
	for (uint32_t i = from; i < to; i++)
		for (uint32_t k = 0; k < 40 && sent[i] < most; k++) {
			if (core_in(&c->a, write_to(CORE_QPN + i, sent[i]), CORE_PMTU, 0) != DROP_NONE)
				break;
			sent[i]++;
		}
	core_pump(c);
	core_forget(&c->a);
}

enum { DEAD = 12, LIVE = 4, FLOWS = DEAD + LIVE, MUCH = 3000 };

/* Responders die with the far edge full of their bytes. Others go on, new ones begin; when the dead come back nothing
 * has been lost of what they were to get. */
static void share__dead_flows_give_way(void **state)
{
	uint32_t sent[FLOWS] = {0}, next[FLOWS] = {0}, got = 0;
	uint64_t held = 0;
	struct core c;

	(void)state;
	memset(&c, 0, sizeof(c));
	c.now_ns = CORE_START;
	core_edges_open(&c, ACK_MODE_NEAR, 900, 60);
	core_session(&c);
	c.b.cfg.lan_window_bytes = 16384; /* bounds what the test has to hold */
	assert_int_equal(proxy_reconfigure(c.b.p, &c.b.cfg, c.now_ns), 0);
	for (int ms = 0; ms < 60; ms++) { /* all live */
		feed(&c, 0, DEAD, sent, 60);
		answer_from(&c, 0, next);
		core_wait(&c, CORE_MS);
	}
	for (uint32_t i = 0; i < DEAD; i++)
		assert_int_equal(next[i], 60);
	for (int ms = 0; ms < 100; ms++) {
		for (uint32_t i = 0; i < DEAD; i++)
			for (int l = 0; l < 2; l++) /* old grants */
				c.a.p->wan->lanes[l].window_bytes = 1 << 30;
		feed(&c, 0, DEAD, sent, 400);
		core_forget(&c.b);
		core_wait(&c, CORE_MS);
	}
	for (uint32_t i = 0; i < 32; i++)
		held = max_u64(held, c.b.p->far[i].held_bytes);
	assert_true(held > CREDIT_MIN_BYTES);
	for (int ms = 0; ms < 400 && got < LIVE * MUCH; ms++) { /* new ones */
		feed(&c, DEAD, FLOWS, sent, MUCH);
		got += answer_from(&c, CORE_QPN + DEAD, next);
		core_wait(&c, CORE_MS);
	}
	assert_int_equal(got, LIVE * MUCH);
	for (int ms = 0; ms < 4000; ms++) { /* they are back */
		answer_from(&c, 0, next);
		core_wait(&c, CORE_MS);
	}
	for (uint32_t i = 0; i < DEAD; i++)
		assert_int_equal(next[i], sent[i]);
	assert_int_equal(core_used(&c.a), 0);
	assert_int_equal(core_used(&c.b), 0);
	core_close(&c);
}

/* The far edge gives up what it has of a flow, with datagrams under way that it drops as they come: whatever becomes of
 * these, all of it comes again. */
static uint64_t lost_salt;

static bool lose_some(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)c;
	(void)from;
	(void)dgram;
	(void)len;
	lost_salt = lost_salt * 6364136223846793005ull + 1442695040888963407ull;
	return (lost_salt >> 60) > 2;
}

static void share__given_up_comes_again(void **state)
{
	uint32_t sent[1] = {0}, next[1] = {0};
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 320);

	c->wan = lose_some;
	for (int ms = 0; ms < 3000 && next[0] < MUCH; ms++) {
		struct far_flow *f;

		feed(c, 0, 1, sent, MUCH);
		f = core_far(c);
		if (ms % 7 == 3 && far_is_open(f) && f->pos_rx_max > f->pos_tx + 2) { /* as far_evict.c does it */
			for (uint64_t pos = f->pos_tx + 2; pos < f->pos_rx_max; pos++) {
				uint32_t slot = arena_find(c->b.p->arena, SLOT_REQ_FAR, f->idx, pos);

				if (slot != SLOT_NONE)
					slot_release(c->b.p, slot);
			}
			f->pos_rx_max = f->pos_credit = f->again_from = f->pos_tx + 2;
			f->pos_rx = min_u64(f->pos_rx, f->pos_rx_max);
			f->again_round++;
			far_report(c->b.p, f, true);
		}
		if (ms % 3 == 0)
			answer_from(c, 0, next);
		core_wait(c, CORE_MS);
	}
	assert_int_equal(next[0], MUCH);
	assert_true(core_ctr(&c->a, CTR_CREDIT_REVOKED) > 3);
}

/* A late report of an earlier round neither gives nor takes. */
static void share__old_round_says_nothing(void **state)
{
	struct near_flow *f;
	struct wan_flow_report r;
	uint64_t wan;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send_run(c, 1, 30);
	f = core_near(c);
	r = (struct wan_flow_report){.flow = near_wire_id(c->a.p, f),
	                             .inc = f->inc,
	                             .received = f->pos_reported,
	                             .delivered = f->pos_reported,
	                             .credit = f->pos_settled + 5,
	                             .again_from = f->pos_settled + 5,
	                             .again_round = 2};
	near_on_report(c->a.p, lane_of(c->a.p, f->lane), &r);
	assert_int_equal(f->pos_credit, f->pos_settled + 5);
	assert_int_equal(f->pos_wan, f->pos_settled + 5);
	wan = f->pos_wan;
	r.again_round = 1;
	r.credit += 100;
	near_on_report(c->a.p, lane_of(c->a.p, f->lane), &r);
	r.credit = 1;
	near_on_report(c->a.p, lane_of(c->a.p, f->lane), &r);
	assert_int_equal(f->pos_credit, f->pos_settled + 5);
	assert_int_equal(f->pos_wan, wan);
	r.again_round = 2;
	r.credit = f->pos_settled + 9;
	near_on_report(c->a.p, lane_of(c->a.p, f->lane), &r);
	assert_int_equal(f->pos_credit, f->pos_settled + 9);
	r.again_round = 3; /* hostile: neither below what is settled nor beyond what was sent */
	r.again_from = 0;
	near_on_report(c->a.p, lane_of(c->a.p, f->lane), &r);
	assert_int_equal(f->pos_wan, f->pos_settled);
	r.again_round = 4;
	r.again_from = UINT64_MAX;
	near_on_report(c->a.p, lane_of(c->a.p, f->lane), &r);
	assert_int_equal(f->pos_wan, f->pos_settled);
	core_pump(c);
}

/* Packets beyond a gap hold all that a flow may have; the one that is missing gets the place of the highest. */
static void share__next_one_is_admitted(void **state)
{
	struct near_flow *f;
	uint32_t ooo, pos = 0;
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 32);

	core_pair(c, 0);
	c->cut = true;
	f = core_near(c);
	for (uint32_t psn = 2; psn < 2 + PATIENCE_PKTS; psn++)
		assert_int_equal(core_in(&c->a, core_req(RC_WRITE_ONLY, psn), CORE_PMTU, 0), DROP_NONE);
	ooo = f->ooo_pkts;
	assert_true(f->held_bytes > CREDIT_MIN_BYTES);
	for (; share_left(c->a.p, POOL_LAN) > 0; pos++) /* others */
		assert_int_not_equal(arena_alloc(c->a.p->arena, SLOT_REQ_NEAR, 31, 1, pos, LAN_PKT_MAX), SLOT_NONE);
	assert_int_equal(core_in(&c->a, core_req(RC_WRITE_ONLY, 1), CORE_PMTU, 0), DROP_NONE);
	assert_true(f->pos_next > POS_ORIGIN + 2);
	assert_true(f->pos_next <= POS_ORIGIN + 2 + ooo - core_ctr(&c->a, CTR_EVICTED));
	assert_true(core_ctr(&c->a, CTR_EVICTED) > 0);
	while (pos--)
		arena_free(c->a.p->arena, arena_find(c->a.p->arena, SLOT_REQ_NEAR, 31, pos));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(share__follows_the_drain),
	    CORE_TEST(share__a_young_flow_is_trusted_by_the_line_that_was_found),
	    CORE_TEST(share__follows_the_drain),
	    CORE_TEST(share__always_the_minimum),
	    CORE_TEST(share__the_reserve_is_for_urgent_packets),
	    CORE_TEST(share__the_reserve_is_of_every_size),
	    CORE_TEST(share__a_pool_that_holds_hosts_off_is_full),
	    cmocka_unit_test(share__dead_flows_give_way),
	    CORE_TEST(share__given_up_comes_again),
	    CORE_TEST(share__old_round_says_nothing),
	    CORE_TEST(share__next_one_is_admitted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
