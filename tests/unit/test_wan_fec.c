/* SPDX-License-Identifier: Apache-2.0 */
/* FEC between two edges: what is lost within the budget is rebuilt and not sent again; what is beyond it is sent again;
 * and nothing hostile passes for a datagram. */
#define CORE_FEC                                                                                                       \
	{                                                                                                              \
		.mode = FEC_FIXED, .k = 8, .m = 2                                                                      \
	}
#include "core_fixture.h"

#include "proxy/wan/wan_fec.h"

static struct core c;
static uint64_t lose_from, lose_to; /* the numbers that get lost, a to b, each once */
static unsigned lost, repairs;

static uint8_t first_frame(const uint8_t *dgram)
{
	return dgram[WAN_HDR_LEN];
}

static bool lossy(struct core *core, struct core_edge *from, uint8_t *dgram, size_t len)
{
	struct wan_hdr h;

	assert_int_equal(wan_hdr_get(dgram, len, &h), DROP_NONE);
	if (from != &core->a)
		return true;
	repairs += first_frame(dgram) == WF_FEC;
	if (h.wan_pn < lose_from || h.wan_pn >= lose_to || first_frame(dgram) == WF_FEC)
		return true;
	lost++;
	return false;
}

static struct pn_space *space_a(void)
{
	return &c.a.p->wan->lanes[proxy_lane(&(struct ip_addr){.b = {[10] = 0xff, 0xff, 10, 1, 0, 2}},
	                                &(struct ip_addr){.b = {[10] = 0xff, 0xff, 10, 2, 0, 2}}, 2)]
	            .space[0];
}

/* A pair that is known, and a quiet line. */
static void open_pair(void)
{
	core_open(&c, ACK_MODE_NEAR);
	core_send(&c, RC_WRITE_ONLY, 0);
	core_ack(&c, 0, AETH_ACK_NO_CREDITS, 1);
	core_send(&c, RC_WRITE_ONLY, 1);
	core_ack(&c, 1, AETH_ACK_NO_CREDITS, 2);
	core_wait(&c, 20 * CORE_MS);
	core_forget(&c.a);
	core_forget(&c.b);
	c.wan = lossy;
	lost = repairs = 0;
	lose_from = lose_to = 0;
}

static void expect_writes(uint32_t psn, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct core_pkt *k = core_expect(&c.b, RC_WRITE_ONLY, psn + i);

		assert_memory_equal(k->l3 + k->h.hdr_len, core_payload(0, psn + i), CORE_PMTU);
	}
}

static void wan_fec__loss_is_rebuilt_and_not_sent_again(void **state)
{
	(void)state;
	open_pair();
	lose_from = space_a()->sent.pn_next + 1;
	lose_to = lose_from + 1;
	core_send_run(&c, 2, 40);
	core_wait(&c, 5 * CORE_MS);
	assert_int_equal(lost, 1);
	expect_writes(2, 40);
	assert_int_equal(core_ctr(&c.b, CTR_FEC_REBUILT), 1);
	assert_int_equal(core_ctr(&c.a, CTR_FEC_RETRANSMITS_SAVED), 1);
	assert_int_equal(core_ctr(&c.a, CTR_WAN_LOST), 0);
	assert_int_equal(core_ctr(&c.a, CTR_WAN_REPAIRS), 0);
	assert_int_equal(core_ctr(&c.b, CTR_FEC_BEYOND), 0);
	core_close(&c);
}

/* The last datagram of all: nothing that follows tells of it, but the repair does. */
static void wan_fec__tail_is_protected(void **state)
{
	uint64_t before;

	(void)state;
	open_pair();
	lose_from = space_a()->sent.pn_next;
	lose_to = lose_from + 1;
	before = c.now_ns;
	core_send_run(&c, 2, 1);
	assert_int_equal(lost, 1);
	while (!core_pending(&c.b))
		core_wait(&c, 10 * CORE_US);
	assert_true(c.now_ns - before <= 100 * CORE_US);
	expect_writes(2, 1);
	core_wait(&c, 5 * CORE_MS);
	assert_int_equal(core_ctr(&c.a, CTR_WAN_REPAIRS), 0);
	core_close(&c);
}

static void wan_fec__beyond_repair_is_sent_again(void **state)
{
	(void)state;
	open_pair();
	c.a.p->wan->path[0].fec.plan.depth = 1;
	lose_from = space_a()->sent.pn_next + 1;
	lose_to = lose_from + 4;
	core_send_run(&c, 2, 60);
	core_wait(&c, 20 * CORE_MS);
	assert_true(lost == 4);
	expect_writes(2, 60);
	assert_true(core_ctr(&c.b, CTR_FEC_BEYOND) >= 1);
	assert_int_equal(core_ctr(&c.a, CTR_FEC_SENT_AGAIN), 4);
	assert_int_equal(core_ctr(&c.a, CTR_WAN_LOST), 4);
	core_close(&c);
}

/* n x 40 writes from psn on, delivered and acknowledged. */
static void write_many(uint32_t psn, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, psn += 40) {
		core_send_run(&c, psn, 40);
		core_wait(&c, CORE_MS / 2);
		expect_writes(psn, 40);
		core_ack(&c, psn + 39, AETH_ACK_NO_CREDITS, psn + 40);
	}
}

/* The same until the other edge has told of a loss. Returns the PSN that is next. */
static uint32_t write_until_told(uint32_t psn)
{
	for (uint32_t i = 0; i < 100 && c.a.p->wan->path[0].fec.measure.lost == 0; i++, psn += 400)
		write_many(psn, 10);
	assert_true(c.a.p->wan->path[0].fec.measure.lost > 0);
	return psn;
}

/* What FEC made up for is a loss of the line all the same. */
static void wan_fec__the_loss_is_seen(void **state)
{
	(void)state;
	open_pair();
	lose_from = space_a()->sent.pn_next + 1;
	lose_to = lose_from + 1;
	write_many(2, 200);
	assert_int_equal(core_ctr(&c.a, CTR_FEC_RETRANSMITS_SAVED), 1);
	assert_true(c.a.p->wan->path[0].fec.measure.numbers >= 512);
	assert_true(c.a.p->wan->path[0].fec.measure.lost == 1);
	core_close(&c);
}

/* FEC=auto spends nothing on a line that has lost nothing, however little it carries. From the first loss on it does. */
static void wan_fec__auto_begins_with_the_first_loss(void **state)
{
	struct proxy_config cfg;

	(void)state;
	open_pair();
	cfg = c.a.cfg;
	cfg.fec = (struct fec_config){.mode = FEC_AUTO};
	assert_int_equal(proxy_reconfigure(c.a.p, &cfg, c.now_ns), 0);
	repairs = 0;
	write_many(2, 200);
	assert_int_equal(repairs, 0);
	lose_from = space_a()->sent.pn_next + 1;
	lose_to = lose_from + 1;
	write_many(write_until_told(8002), 1);
	assert_int_equal(lost, 1);
	assert_int_equal(core_ctr(&c.a, CTR_WAN_LOST), 1);
	assert_int_not_equal(c.a.p->wan->path[0].fec.plan.k, 0);
	assert_true(repairs > 0);
	core_close(&c);
}

/* A datagram that was rebuilt comes after all: dropped as any second one. */
static uint8_t held[WAN_MTU_MAX];
static size_t held_len;

static bool holds_back(struct core *core, struct core_edge *from, uint8_t *dgram, size_t len)
{
	struct wan_hdr h;

	wan_hdr_get(dgram, len, &h);
	if (from != &core->a || h.wan_pn != lose_from)
		return true;
	memcpy(held, dgram, len);
	held_len = len;
	return false;
}

static void wan_fec__late_original_is_a_duplicate(void **state)
{
	(void)state;
	open_pair();
	lose_from = space_a()->sent.pn_next + 1;
	c.wan = holds_back;
	core_send_run(&c, 2, 40);
	core_wait(&c, 5 * CORE_MS);
	assert_int_equal(core_ctr(&c.b, CTR_FEC_REBUILT), 1);
	assert_int_equal(proxy_wan_rx(c.b.p, c.now_ns, held, held_len, false), DROP_WAN_DUPLICATE);
	core_pump(&c);
	expect_writes(2, 40);
	assert_int_equal(core_pending(&c.b), 0);
	core_close(&c);
}

/* FEC=auto; one datagram is overtaken by so much that it is found lost, and repaired. Returns the PSN that is next. */
static uint32_t one_is_overtaken(void)
{
	struct proxy_config cfg;

	open_pair();
	cfg = c.a.cfg;
	cfg.fec = (struct fec_config){.mode = FEC_AUTO};
	assert_int_equal(proxy_reconfigure(c.a.p, &cfg, c.now_ns), 0);
	c.wan = holds_back;
	lose_from = space_a()->sent.pn_next + 1;
	core_send_run(&c, 2, 40);
	core_wait(&c, 2 * CORE_MS);
	expect_writes(2, 40);
	core_ack(&c, 41, AETH_ACK_NO_CREDITS, 42);
	assert_int_equal(core_ctr(&c.a, CTR_WAN_LOST), 1);
	assert_int_not_equal(c.a.p->wan->path[0].fec.measure.found, 0);
	return 42;
}

/* A datagram that was found lost, and was only late, switches FEC=auto on for as short as it can. */
static void wan_fec__a_late_one_is_no_loss(void **state)
{
	uint32_t psn = one_is_overtaken();

	(void)state;
	assert_int_not_equal(c.a.p->wan->path[0].fec.plan.k, 0);
	proxy_wan_rx(c.b.p, c.now_ns, held, held_len, false);
	core_wait(&c, 2 * CORE_MS);
	assert_int_equal(core_ctr(&c.a, CTR_WAN_SPURIOUS), 1);
	assert_int_equal(c.a.p->wan->path[0].fec.measure.found, 0);
	core_wait(&c, 2 * FEC_HOLD_NS);
	write_many(psn, 20);
	assert_true(c.a.p->wan->path[0].fec.measure.lost == 0);
	assert_int_equal(c.a.p->wan->path[0].fec.plan.k, 0);
	core_close(&c);
}

/* What was found lost in the last session says nothing of this one, in which nobody can tell of it any more. */
static void wan_fec__a_new_session_has_lost_nothing(void **state)
{
	(void)state;
	one_is_overtaken();
	core_session(&c);
	assert_int_equal(c.a.p->wan->path[0].fec.measure.found, 0);
	core_close(&c);
}

/* --- hostile --- */

static enum proxy_drop give(const void *frames, size_t n, uint64_t pn, uint8_t flags)
{
	uint8_t buf[WAN_MTU_MAX];
	struct wan_hdr h = {.lane = space_a() == &c.a.p->wan->lanes[1].space[0], .epoch = c.b.p->session.epoch_rx,
	                    .flags = flags, .wan_pn = pn};

	wan_hdr_put(buf, &h);
	memcpy(buf + WAN_HDR_LEN, frames, n);
	return proxy_wan_rx(c.b.p, c.now_ns, buf, wan_seal(buf, WAN_HDR_LEN + n), false);
}

/* A repair inside a rebuilt datagram would have rebuilding call itself. */
static void wan_fec__no_repair_in_a_rebuilt_one(void **state)
{
	static uint8_t symbol[200], inner[200], frame[300];
	uint8_t junk[50] = {1};
	struct wan_fec in = {.base = 1, .span = 2, .depth = 1, .rows = 1, .len = 50, .data = junk}, out;
	struct fec_tx tx;
	struct fec_plan plan = {.k = 1, .m = 1, .depth = 1};
	uint64_t pn, bad;
	size_t n;

	(void)state;
	open_pair();
	pn = space_a()->sent.pn_next + 100;
	n = wan_fec_frame_put(inner, sizeof(inner), &in);
	memcpy(symbol + FEC_SYMBOL_HDR, inner, n);
	fec_symbol_hdr(symbol, n);
	fec_tx_init(&tx);
	assert_true(fec_tx_add(&tx, &c.a.p->wan->fec->pool, &c.a.p->wan->fec->code, &plan, 1, pn, symbol, n + FEC_SYMBOL_HDR, 0));
	fec_tx_next(&tx, &c.a.p->wan->fec->pool, &out);
	n = wan_fec_frame_put(frame, sizeof(frame), &out);
	bad = core_drops(&c.b, DROP_WAN_BAD_FRAME);
	assert_int_equal(give(frame, n, pn + 1, 0), DROP_NONE);
	assert_int_equal(core_ctr(&c.b, CTR_FEC_REBUILT), 1);
	assert_int_equal(core_drops(&c.b, DROP_WAN_BAD_FRAME), bad + 1);
	fec_tx_reset(&tx, &c.a.p->wan->fec->pool);
	core_close(&c);
}

static void wan_fec__arrivals_that_cannot_be(void **state)
{
	struct wan_arrivals_frame a = {.numbers = 1ull << 40, .lost = 1ull << 39, .bursts = 5};
	uint8_t frame[64];
	size_t n;

	(void)state;
	open_pair();
	n = wan_arrivals_put(frame, sizeof(frame), &a);
	assert_int_equal(give(frame, n, 5000, 0), DROP_WAN_BAD_FRAME); /* of more than was ever sent */
	assert_true(c.b.p->wan->path[0].fec.measure.numbers < 1000);
	core_close(&c);
}

static void wan_fec__a_new_session_forgets(void **state)
{
	uint32_t nfree;

	(void)state;
	open_pair();
	nfree = c.a.p->wan->fec->pool.nfree;
	c.cut = true;
	core_send_run(&c, 2, 3);
	assert_true(c.a.p->wan->fec->pool.nfree < nfree);
	c.cut = false;
	core_session(&c);
	core_wait(&c, 20 * CORE_MS);
	expect_writes(2, 3);
	assert_int_equal(c.a.p->wan->fec->pool.nfree, nfree);
	core_close(&c);
}

/* All reports of a while are lost, later ones come: what they told of is asked for, and its numbers are given back. */
static bool no_reports;

static bool without_reports(struct core *core, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)dgram;
	(void)len;
	return from == &core->a || !no_reports;
}

static void wan_lane__untold_numbers_are_asked_for(void **state)
{
	uint32_t psn = 2;

	(void)state;
	open_pair();
	c.wan = without_reports;
	for (unsigned i = 0; i < 600; i++, psn++) {
		no_reports = i < 70;
		core_send_run(&c, psn, 1);
		core_wait(&c, 25 * CORE_US);
		expect_writes(psn, 1);
		core_ack(&c, psn, AETH_ACK_NO_CREDITS, psn + 1);
	}
	assert_true(core_ctr(&c.a, CTR_WAN_ASKED) >= 1);
	assert_true(space_a()->sent.pn_next - space_a()->sent.pn_floor <= 128);
	assert_int_equal(core_ctr(&c.a, CTR_WAN_LOST), 0);
	core_close(&c);
}

/* One of two paths loses: it has groups, the other none, and all of its repairs are its own. */
#define CLEAN 120000

static unsigned fec_on[2], sent_on[2];

static bool second_loses(struct core *core, struct core_edge *from, uint8_t *dgram, size_t len)
{
	struct wan_hdr h;

	assert_int_equal(wan_hdr_get(dgram, len, &h), DROP_NONE);
	if (from != &core->a)
		return true;
	sent_on[h.path]++;
	fec_on[h.path] += first_frame(dgram) == WF_FEC;
	return h.path == 0 || h.wan_pn % 25 != 7;
}

static void wan_fec__each_path_has_groups_of_its_own(void **state)
{
	struct proxy_config cfg;
	uint32_t psn = 0;

	(void)state;
	memset(&c, 0, sizeof(c));
	c.now_ns = CORE_START;
	c.npaths = 2;
	core_edges_open(&c, ACK_MODE_NEAR, 64, 64);
	core_session(&c);
	core_pair(&c, 0);
	core_wait(&c, 3 * CORE_MS);
	core_forget(&c.a);
	core_forget(&c.b);
	for (unsigned i = 0; i < 2; i++)
		fec_measure_add(&c.a.p->wan->path[i].fec.measure, CLEAN, 0, 0); /* so far neither has lost any */
	cfg = c.a.cfg;
	cfg.fec = (struct fec_config){.mode = FEC_AUTO};
	assert_int_equal(proxy_reconfigure(c.a.p, &cfg, c.now_ns), 0);
	wan_pacer_init(&c.a.pacer, 1000000000000ull, 66, 50); /* so that a burst takes both */
	wan_pacer_init(&c.a.second, 1000000000000ull, 66, 50);
	c.wan = second_loses;
	for (unsigned i = 0; i < 1200; i++) {
		core_send_run(&c, psn + 1, 40);
		for (unsigned ms = 0; ms < 8 && core_pending(&c.b) < 40; ms++)
			core_wait(&c, CORE_MS); /* the first losses are sent again */
		core_forget(&c.a);
		expect_writes(psn + 1, 40);
		psn += 40;
		core_ack(&c, psn, AETH_ACK_NO_CREDITS, psn + 1);
	}
	assert_true(sent_on[0] > 3000 && sent_on[1] > 3000);
	assert_int_equal(c.a.p->wan->path[0].fec.plan.k, 0);
	assert_true(c.a.p->wan->path[0].fec.measure.numbers > CLEAN + 1000 && c.a.p->wan->path[0].fec.measure.lost == 0);
	assert_int_not_equal(c.a.p->wan->path[1].fec.plan.k, 0);
	assert_int_equal(fec_on[0], 0);
	assert_true(fec_on[1] > 100);
	assert_true(core_ctr(&c.b, CTR_FEC_REBUILT) > 20);
	core_close(&c);
}

/* Other groups from the next block on, on a line that has lost something; nothing that is under way suffers. Not on or
 * off: memory was made for it. */
static void wan_fec__groups_change_while_it_runs(void **state)
{
	static const struct fec_config change[] = {{FEC_FIXED, 4, 4}, {FEC_AUTO, 0, 0}, {FEC_FIXED, 16, 1}};
	struct proxy_config cfg;
	uint32_t psn = 2;

	(void)state;
	open_pair();
	for (size_t i = 0; i < 3; i++) {
		core_send_run(&c, psn, 5); /* a block that has begun */
		cfg = c.a.cfg;
		cfg.fec = change[i];
		assert_int_equal(proxy_reconfigure(c.a.p, &cfg, c.now_ns), 0);
		lose_from = space_a()->sent.pn_next + 1;
		lose_to = lose_from + 1;
		core_send_run(&c, psn + 5, 35);
		core_wait(&c, 5 * CORE_MS);
		expect_writes(psn, 40);
		core_ack(&c, psn + 39, AETH_ACK_NO_CREDITS, psn + 40);
		psn += 40;
		if (change[i].mode == FEC_FIXED)
			assert_int_equal(c.a.p->wan->path[0].fec.plan.k, change[i].k);
		else
			assert_int_not_equal(c.a.p->wan->path[0].fec.plan.k, 0);
		psn = write_until_told(psn);
	}
	assert_int_equal(core_ctr(&c.b, CTR_FEC_REBUILT), 3);
	cfg.fec = (struct fec_config){.mode = FEC_OFF};
	assert_int_equal(proxy_reconfigure(c.a.p, &cfg, c.now_ns), -EINVAL);
	core_close(&c);
}

static void wan_fec__config_is_checked(void **state)
{
	static const struct fec_config bad[] = {{FEC_FIXED, 0, 1},
	                                        {FEC_FIXED, 8, 0},
	                                        {FEC_FIXED, 4, 5},
	                                        {FEC_FIXED, FEC_K_MAX + 1, 1},
	                                        {FEC_FIXED, 100, FEC_M_MAX + 1},
	                                        {(enum fec_mode)7, 8, 2}};

	(void)state;
	core_open(&c, ACK_MODE_NEAR);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct proxy_config cfg = c.a.cfg;

		cfg.fec = bad[i];
		assert_int_equal(proxy_heap_size(&cfg, &c.a.g), 0);
		assert_int_equal(proxy_reconfigure(c.a.p, &cfg, c.now_ns), -EINVAL);
	}
	core_close(&c);
}

/* Repairs go by paths in use only, so a standby path has no blocks: neither of its probes, nor of packets that went by it
 * before another path was back. */
static bool no_blocks_of(uint32_t path)
{
	bool none = true;

	for (int i = 0; i < 2; i++)
		for (uint32_t lane = 0; lane < 2; lane++) {
			const struct lane *l = &(i ? &c.b : &c.a)->p->wan->lanes[lane];

			none &= !l->space[path].fec->tx.filling && !l->space[path].fec->tx.sending;
		}
	return none;
}

static bool cut_first_path;

static bool not_the_first(struct core *core, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)core;
	(void)from;
	(void)len;
	return dgram[2] != 0 || !cut_first_path;
}

static void wan_fec__standby_has_no_blocks(void **state)
{
	struct wan_path *path;

	(void)state;
	memset(&c, 0, sizeof(c));
	c.now_ns = CORE_START;
	c.npaths = 2;
	c.wan = not_the_first;
	cut_first_path = false;
	core_edges_open(&c, ACK_MODE_NEAR, 64, 64);
	c.a.p->wan->path[1].weight = c.b.p->wan->path[1].weight = 0;
	core_session(&c);
	core_pair(&c, 0);
	core_wait(&c, 3 * CORE_MS);
	path = c.a.p->wan->path;
	assert_int_equal(path[1].state, PATH_UP);
	assert_true(path[1].fec.plan.k > 0);
	assert_int_equal(wan_paths_usable(c.a.p), 1);
	core_wait(&c, 2 * c.a.cfg.keepalive_ns);
	assert_true(no_blocks_of(1));
	cut_first_path = true;
	core_send_run(&c, 1, 20);
	core_wait(&c, 100 * CORE_MS);
	assert_int_equal(wan_paths_usable(c.a.p), 2);
	core_send_run(&c, 21, 5);
	assert_false(no_blocks_of(1)); /* in use, it has */
	path[0].state = PATH_DEAD;
	path[0].answers = 100;
	wan_path_answered(c.a.p, &path[0], &(struct wan_sent_result){.newly_acked = 1});
	assert_int_equal(wan_paths_usable(c.a.p), 1);
	cut_first_path = false;
	core_wait(&c, 100 * CORE_MS);
	assert_true(no_blocks_of(1));
	core_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wan_fec__loss_is_rebuilt_and_not_sent_again),
	    cmocka_unit_test(wan_fec__tail_is_protected),
	    cmocka_unit_test(wan_fec__beyond_repair_is_sent_again),
	    cmocka_unit_test(wan_fec__the_loss_is_seen),
	    cmocka_unit_test(wan_fec__auto_begins_with_the_first_loss),
	    cmocka_unit_test(wan_fec__late_original_is_a_duplicate),
	    cmocka_unit_test(wan_fec__a_late_one_is_no_loss),
	    cmocka_unit_test(wan_fec__a_new_session_has_lost_nothing),
	    cmocka_unit_test(wan_fec__no_repair_in_a_rebuilt_one),
	    cmocka_unit_test(wan_fec__arrivals_that_cannot_be),
	    cmocka_unit_test(wan_fec__a_new_session_forgets),
	    cmocka_unit_test(wan_lane__untold_numbers_are_asked_for),
	    cmocka_unit_test(wan_fec__each_path_has_groups_of_its_own),
	    cmocka_unit_test(wan_fec__groups_change_while_it_runs),
	    cmocka_unit_test(wan_fec__standby_has_no_blocks),
	    cmocka_unit_test(wan_fec__config_is_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
