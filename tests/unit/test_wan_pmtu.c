/* SPDX-License-Identifier: Apache-2.0 */
/* The search for the size of a path (alone), and a core whose path carries less than is configured. */
#include "core_fixture.h"

#include "proxy/wan/dgram/wan_pmtu.h"

#define RTT 10000000ull

/* A search that has just begun. */
static struct wan_pmtu begun(uint64_t now_ns)
{
	struct wan_pmtu m;

	wan_pmtu_init(&m, 8972, true);
	wan_pmtu_restart(&m, now_ns);
	return m;
}

/* Searches on a path that carries up to `carries`; returns how many probes it took. */
static unsigned search(struct wan_pmtu *m, unsigned carries, uint64_t *now_ns)
{
	unsigned probes = 0;
	uint16_t size;

	while ((size = wan_pmtu_due(m))) {
		assert_true(++probes < 100);
		wan_pmtu_sent(m);
		assert_int_equal(wan_pmtu_due(m), 0); /* one at a time */
		*now_ns += RTT;
		if (size <= carries)
			wan_pmtu_came(m, size, true, *now_ns);
		else
			wan_pmtu_lost(m, size, true, RTT, *now_ns);
	}
	return probes;
}

static void wan_pmtu__believed(void **state)
{
	struct wan_pmtu m;

	(void)state;
	wan_pmtu_init(&m, 8972, false);
	wan_pmtu_restart(&m, 1);
	assert_int_equal(m.size, 8972);
	assert_int_equal(wan_pmtu_due(&m), 0);
	for (int i = 0; i < 100; i++)
		assert_false(wan_pmtu_lost(&m, 8972, false, RTT, (uint64_t)i * (uint64_t)RTT));
	assert_int_equal(m.size, 8972);
}

static void wan_pmtu__finds_what_a_path_carries(void **state)
{
	(void)state;
	for (unsigned carries = PMTU_BASE; carries <= 8972; carries += 11) {
		uint64_t now_ns = 1;
		struct wan_pmtu m = begun(now_ns);
		unsigned probes;

		assert_int_equal(m.size, PMTU_BASE);
		probes = search(&m, carries, &now_ns);
		assert_true(m.size <= carries);
		assert_true(carries - m.size <= PMTU_CLOSE);
		assert_true(probes <= 36);
	}
}

static void wan_pmtu__the_likely_sizes_at_once(void **state)
{
	uint64_t now_ns = 1;
	struct wan_pmtu m = begun(now_ns);

	(void)state;
	assert_int_equal(search(&m, 8972, &now_ns), 1); /* all of it */
	assert_int_equal(m.size, 8972);
	m = begun(now_ns);
	for (int i = 0; i < PMTU_TRIES; i++) {
		assert_int_equal(wan_pmtu_due(&m), 8972);
		wan_pmtu_sent(&m);
		wan_pmtu_lost(&m, 8972, true, RTT, now_ns);
	}
	assert_int_equal(wan_pmtu_due(&m), 1472);
}

/* Losses among datagrams that come through are no black hole, however many in a row. */
static void wan_pmtu__black_hole(void **state)
{
	uint64_t now_ns = 1;
	struct wan_pmtu m = begun(now_ns);

	(void)state;
	search(&m, 8972, &now_ns);
	for (int i = 0; i < 1000; i++)
		assert_false(wan_pmtu_lost(&m, 8972, false, RTT, now_ns + 1));
	now_ns += 100 * RTT;
	wan_pmtu_came(&m, 8972, false, now_ns);
	for (int i = 0; i < 1000; i++)
		wan_pmtu_lost(&m, 8972, false, RTT, now_ns + RTT);
	assert_int_equal(m.size, 8972);
	assert_int_equal(m.holes, 0);
	/* none comes any more */
	wan_pmtu_came(&m, 8972, false, now_ns);
	for (int i = 1; i < PMTU_HOLE; i++)
		assert_false(wan_pmtu_lost(&m, 8972, false, RTT, now_ns + 2 * RTT));
	assert_true(wan_pmtu_lost(&m, 8972, false, RTT, now_ns + 2 * RTT));
	assert_int_equal(m.size, 8972); /* not before it was tried */
	for (int i = 0; i < 2 * PMTU_TRIES; i++) {
		assert_int_equal(m.holes, 0);
		assert_int_equal(wan_pmtu_due(&m), 8972);
		wan_pmtu_sent(&m);
		assert_true(wan_pmtu_lost(&m, 8972, true, RTT, now_ns));
	}
	assert_int_equal(m.size, PMTU_BASE);
	assert_int_equal(m.holes, 1);
	search(&m, 4000, &now_ns);
	assert_in_range(m.size, 4000 - PMTU_CLOSE, 4000);
	/* small ones that get lost, and late news of old ones, say nothing */
	now_ns += 100 * RTT;
	for (int i = 0; i < 100; i++) {
		wan_pmtu_lost(&m, PMTU_BASE, false, RTT, now_ns);
		wan_pmtu_lost(&m, 8972, false, RTT, now_ns);
	}
	assert_int_equal(m.holes, 1);
}

/* What a path carries has shrunk to something between the base and what is sent: the smaller ones come through as ever,
 * but for what chance takes. */
static void wan_pmtu__black_hole_for_large_ones_only(void **state)
{
	uint64_t now_ns = 1;
	struct wan_pmtu m = begun(now_ns);
	unsigned large = 0;

	(void)state;
	search(&m, 8972, &now_ns);
	for (unsigned i = 0; !wan_pmtu_due(&m) && i < 1000; i++) {
		now_ns += RTT / 10;
		if (i % 10 == 0) {
			wan_pmtu_lost(&m, 7280 + i % 7 * 200, false, RTT, now_ns);
			large++;
		} else if (i % 10 == 5) {
			wan_pmtu_lost(&m, 4200, false, RTT, now_ns);
		} else {
			assert_false(wan_pmtu_came(&m, 4200 + i % 10, false, now_ns));
		}
	}
	assert_in_range(large, PMTU_HOLE - 1, PMTU_HOLE);
	assert_in_range(m.probe, 7280, 8972);
	search(&m, 5000, &now_ns);
	assert_int_equal(m.holes, 1);
	assert_in_range(m.size, 5000 - PMTU_CLOSE, 5000);
}

/* A full queue has no room for the large ones, which are few, and takes those that are a little smaller: until one of
 * the probes comes through, or a datagram of that size. */
static void wan_pmtu__a_full_queue_is_no_black_hole(void **state)
{
	(void)state;
	for (unsigned by_probe = 0; by_probe < 2; by_probe++) {
		uint64_t now_ns = 1;
		struct wan_pmtu m = begun(now_ns);

		search(&m, 8972, &now_ns);
		for (unsigned doubts = 0; doubts < 100; doubts++) {
			now_ns += 10 * RTT;
			for (int i = 0; i < PMTU_HOLE; i++) {
				wan_pmtu_lost(&m, 8972, false, RTT, now_ns);
				wan_pmtu_came(&m, 8300, false, now_ns);
			}
			for (int i = 1; i < 2 * PMTU_TRIES; i++) {
				assert_int_equal(wan_pmtu_due(&m), 8972);
				wan_pmtu_sent(&m);
				wan_pmtu_came(&m, 8300, false, now_ns);
				wan_pmtu_lost(&m, 8972, true, RTT, now_ns);
			}
			wan_pmtu_sent(&m);
			wan_pmtu_came(&m, 8972, by_probe, now_ns);
			assert_int_equal(wan_pmtu_due(&m), 0);
		}
		assert_int_equal(m.size, 8972);
		assert_int_equal(m.holes, 0);
	}
}

/* While a size is doubted no data goes in it: one round trip of losses is enough for the rate controller. */
static void wan_pmtu__data_goes_in_no_size_in_doubt(void **state)
{
	uint64_t now_ns = 1;
	struct wan_pmtu m = begun(now_ns);

	(void)state;
	search(&m, 8972, &now_ns);
	assert_int_equal(wan_pmtu_in_force(&m), 8972);
	now_ns += 10 * RTT;
	for (int i = 0; i < PMTU_HOLE; i++)
		wan_pmtu_lost(&m, 8972, false, RTT, now_ns);
	assert_int_equal(wan_pmtu_due(&m), 8972);
	assert_int_equal(wan_pmtu_in_force(&m), PMTU_BASE);
	wan_pmtu_sent(&m);
	wan_pmtu_came(&m, 8972, true, now_ns);
	assert_int_equal(wan_pmtu_in_force(&m), 8972);
}

/* On a full line, where small ones are lost as well, it takes more probes to give up a size that had come through. */
static void wan_pmtu__size_in_doubt_on_a_full_line(void **state)
{
	uint64_t now_ns = 1;
	struct wan_pmtu m = begun(now_ns);

	(void)state;
	search(&m, 8972, &now_ns);
	now_ns += 10 * RTT;
	for (int i = 0; i < PMTU_HOLE; i++)
		wan_pmtu_lost(&m, 8972, false, RTT, now_ns);
	for (int i = 0; i < 4 * PMTU_TRIES; i++) {
		assert_int_equal(m.holes, 0);
		wan_pmtu_sent(&m);
		wan_pmtu_lost(&m, 8972, false, RTT, now_ns); /* sent before it was doubted: that says nothing */
		for (int n = 0; n < 10; n++)
			wan_pmtu_came(&m, PMTU_BASE, false, now_ns);
		wan_pmtu_lost(&m, PMTU_BASE, false, RTT, now_ns);
		wan_pmtu_lost(&m, 8972, true, RTT, now_ns);
	}
	assert_int_equal(m.holes, 1);
}

/* The more others are lost the less the loss of a probe says. */
static void wan_pmtu__a_line_that_loses_many(void **state)
{
	static const struct {
		unsigned came, lost, tries;
	} lines[] = {{0, 0, 3}, {100, 0, 3}, {100, 5, 3}, {100, 10, 6}, {100, 30, 6}, {100, 50, 12}, {0, 100, 12}};

	(void)state;
	for (size_t n = 0; n < sizeof(lines) / sizeof(lines[0]); n++) {
		struct wan_pmtu m = begun(1);

		for (unsigned i = 0; i < lines[n].tries; i++) {
			assert_int_equal(wan_pmtu_due(&m), 8972);
			wan_pmtu_sent(&m);
			for (unsigned k = 0; k < lines[n].came; k++)
				wan_pmtu_came(&m, 100, false, RTT);
			for (unsigned k = 0; k < lines[n].lost; k++)
				wan_pmtu_lost(&m, PMTU_BASE, false, RTT, RTT);
			wan_pmtu_lost(&m, 8972, true, RTT, RTT);
		}
		assert_int_equal(wan_pmtu_due(&m), 1472);
	}
}

static void wan_pmtu__tries_larger_ones_again(void **state)
{
	uint64_t now_ns = 1;
	struct wan_pmtu m = begun(now_ns);

	(void)state;
	search(&m, 1472, &now_ns);
	assert_false(wan_pmtu_on_timer(&m, now_ns + PMTU_RAISE_NS / 2));
	assert_true(wan_pmtu_on_timer(&m, now_ns + PMTU_RAISE_NS));
	search(&m, 8972, &now_ns);
	assert_int_equal(m.size, 8972);
	assert_false(wan_pmtu_on_timer(&m, now_ns + 2 * PMTU_RAISE_NS));
}

/* What a peer says of sizes that were never tried changes nothing. */
static void wan_pmtu__nonsense(void **state)
{
	uint64_t now_ns = 1;
	struct wan_pmtu m = begun(now_ns);

	(void)state;
	search(&m, 1472, &now_ns);
	assert_false(wan_pmtu_came(&m, 65000, true, now_ns));
	assert_false(wan_pmtu_came(&m, m.failed, true, now_ns));
	assert_false(wan_pmtu_lost(&m, 3000, true, RTT, now_ns));
	assert_in_range(m.size, 1472, 1472 + PMTU_CLOSE);
}

/* --- in a core --- */

static size_t carries_bytes;

static bool narrow(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)c;
	(void)from;
	(void)dgram;
	return len <= carries_bytes;
}

static void open_searching(struct core *c)
{
	memset(c, 0, sizeof(*c));
	c->now_ns = CORE_START;
	c->wan = narrow;
	core_edges_open(c, ACK_MODE_NEAR, 72, 72);
	c->a.cfg.path[0].payload_search = c->b.cfg.path[0].payload_search = true;
	core_begin(&c->a, 9);
	core_begin(&c->b, 9);
	core_session(c);
	core_pair(c, 0);
}

/* 100 WRITEs, the first of PSN 1, which are there after so long. */
static void expect_delivery(struct core *c, uint64_t within_ns)
{
	core_send_run(c, 1, 100);
	core_wait(c, within_ns);
	for (uint32_t psn = 1; psn <= 100; psn++)
		core_expect(&c->b, RC_WRITE_ONLY, psn);
}

static void wan_pmtu__core_searches_and_delivers(void **state)
{
	static const size_t sizes[] = {1200, 1472, 3000, 8972};
	struct core c;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		carries_bytes = sizes[i];
		open_searching(&c);
		core_wait(&c, 2000 * CORE_MS);
		assert_in_range(c.a.p->wan->path[0].payload_max, sizes[i] - PMTU_CLOSE, sizes[i]);
		assert_int_equal(core_ctr(&c.a, CTR_WAN_LOST), 0); /* probes are none */
		expect_delivery(&c, 10 * CORE_MS);
		core_close(&c);
	}
}

static void wan_pmtu__core_falls_into_a_black_hole(void **state)
{
	struct core c;

	(void)state;
	carries_bytes = 8972;
	open_searching(&c);
	core_wait(&c, 100 * CORE_MS);
	assert_int_equal(c.a.p->wan->path[0].payload_max, 8972);
	carries_bytes = 1400;
	core_event(&c.a, EV_PATH_NARROWER);
	expect_delivery(&c, 3000 * CORE_MS);
	assert_true(core_event(&c.a, EV_PATH_NARROWER));
	assert_in_range(c.a.p->wan->path[0].payload_max, 1400 - PMTU_CLOSE, 1400);
	core_close(&c);
}

/* The largest size is in force when the line becomes narrower. */
static void open_narrowing(struct core *c)
{
	carries_bytes = 8972;
	open_searching(c);
	core_wait(c, 100 * CORE_MS);
	carries_bytes = 1400;
}

/* The shard's first lane has nothing to send but the probe, and others take all of the line: it gets its turn. */
static void wan_pmtu__core_probe_waits_for_the_pacer(void **state)
{
	struct core c;
	unsigned ms = 0;

	(void)state;
	open_narrowing(&c);
	wan_pacer_init(&c.a.pacer, 2000000, 66, 16);
	core_send_run(&c, 1, 100);
	for (; ms < 5000 && c.a.p->wan->path[0].pmtu.size > 1400; ms++)
		core_wait(&c, CORE_MS);
	assert_true(c.a.p->wan->path[0].pmtu.size <= 1400);
	core_close(&c);
}

/* A rate controller that takes the losses of a black hole for a full line gives no more sending time: the size in doubt is
 * tried all the same. */
static void wan_pmtu__core_doubt_waits_for_no_pacer(void **state)
{
	struct core c;
	unsigned ms = 0;

	(void)state;
	open_narrowing(&c);
	core_send_run(&c, 1, 100);
	for (; ms < 1000 && !c.a.p->wan->path[0].pmtu.doubt; ms++)
		core_wait(&c, CORE_MS);
	assert_true(c.a.p->wan->path[0].pmtu.doubt);
	assert_int_equal(c.a.p->wan->path[0].payload_max, PMTU_BASE); /* and data goes in no such size */
	for (ms = 0; ms < 400 && c.a.p->wan->path[0].pmtu.size > 1400; ms++) {
		atomic_store(&c.a.pacer.next, (c.now_ns + 50 * CORE_MS) * PACER_FRACTION);
		core_wait(&c, CORE_MS);
	}
	assert_true(c.a.p->wan->path[0].pmtu.size <= 1400);
	core_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wan_pmtu__believed),
	    cmocka_unit_test(wan_pmtu__finds_what_a_path_carries),
	    cmocka_unit_test(wan_pmtu__the_likely_sizes_at_once),
	    cmocka_unit_test(wan_pmtu__black_hole),
	    cmocka_unit_test(wan_pmtu__black_hole_for_large_ones_only),
	    cmocka_unit_test(wan_pmtu__a_full_queue_is_no_black_hole),
	    cmocka_unit_test(wan_pmtu__data_goes_in_no_size_in_doubt),
	    cmocka_unit_test(wan_pmtu__size_in_doubt_on_a_full_line),
	    cmocka_unit_test(wan_pmtu__a_line_that_loses_many),
	    cmocka_unit_test(wan_pmtu__tries_larger_ones_again),
	    cmocka_unit_test(wan_pmtu__nonsense),
	    cmocka_unit_test(wan_pmtu__core_searches_and_delivers),
	    cmocka_unit_test(wan_pmtu__core_falls_into_a_black_hole),
	    cmocka_unit_test(wan_pmtu__core_probe_waits_for_the_pacer),
	    cmocka_unit_test(wan_pmtu__core_doubt_waits_for_no_pacer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
