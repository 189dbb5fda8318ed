/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/lan/pfc.c"

#define US 1000ull
#define MS (1000 * US)

/* IEEE 802.3 31D: MAC control, opcode 0x0101, class-enable vector, eight timers. */
static void pfc_frame__golden(void **state)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 7};
	static const uint8_t golden[PFC_FRAME_BYTES] = {0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 7,    0x88,
	                                                0x08, 1,    1,    0, 8, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	uint8_t frame[PFC_FRAME_BYTES];

	(void)state;
	pfc_frame(frame, mac, 3, PFC_QUANTA_MAX);
	assert_memory_equal(frame, golden, sizeof(golden));
	pfc_frame(frame, mac, 7, 0);
	assert_int_equal(frame[17], 0x80);
	assert_int_equal(frame[18 + 14], 0);
}

static void pfc_plan__room_above_xoff(void **state)
{
	static const uint64_t rates[] = {10000000000, 25000000000, 100000000000, 400000000000};
	struct pfc_plan p;

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		assert_int_equal(pfc_plan(&p, rates[i], 100 * US, 5 * MS), 0);
		assert_false(p.tight);
		assert_true(p.xon_frames > 0 && p.xon_frames < p.xoff_frames && p.xoff_frames < p.ring_frames);
		/* three looks at line rate fit above it */
		assert_true((p.ring_frames - p.xoff_frames) * 1082ull > rates[i] / 8 / 10000 * 3);
	}
	assert_int_equal(pfc_plan(&p, 1600000000000, 100 * US, 5 * MS), 0);
	assert_true(p.tight && p.xoff_frames > 0);
	assert_true(pfc_plan(&p, 0, 100 * US, 5 * MS) < 0);
}

/* A pause lasts 65535 x 512 bits: it must be repeated by then, although the thread wakes up late. */
static void pfc_plan__pause_is_repeated_before_it_expires(void **state)
{
	static const uint64_t gbps[] = {1, 10, 100, 200, 400, 800};

	(void)state;
	for (size_t i = 0; i < sizeof(gbps) / sizeof(gbps[0]); i++)
		for (uint64_t late_ns = 0; late_ns <= 30 * US; late_ns += 2 * US) {
			uint64_t pause_ns = 65535ull * 512 / gbps[i], t = 10 * MS, said = t;
			struct pfc_port port = {0};
			struct pfc_plan plan;
			struct pfc_ring r = {.plan = &plan};

			assert_int_equal(pfc_plan(&plan, gbps[i] * 1000000000, 100 * US, 1000 * MS), 0);
			assert_false(plan.tight);
			assert_int_equal(pfc_look(&port, &r, t, true, false), PFC_XOFF);
			for (int look = 0; look < 1000; look++) {
				t += plan.paused_look_ns + late_ns;
				if (pfc_look(&port, &r, t, true, false) != PFC_XOFF)
					continue;
				assert_true(t - said <= pause_ns);
				said = t;
			}
			assert_true(t - said <= pause_ns);
		}
}

/* The rate is known once there is a carrier; the ring has been mapped by then. */
static void pfc_replan__thresholds_follow_the_rate(void **state)
{
	struct pfc_plan p, at_400g, before;

	(void)state;
	assert_int_equal(pfc_plan(&p, 100000000000, 100 * US, 5 * MS), 0);
	assert_int_equal(pfc_plan(&at_400g, 400000000000, 100 * US, 5 * MS), 0);
	before = p;
	assert_true(pfc_replan(&p, 0, 100 * US) < 0);
	assert_true(p.rate_bps == before.rate_bps && p.xoff_frames == before.xoff_frames);
	assert_int_equal(pfc_replan(&p, 400000000000, 100 * US), 0);
	assert_int_equal(p.ring_frames, before.ring_frames);
	assert_true(p.tight); /* the ring of 100G is too small */
	assert_true(p.refresh_ns == at_400g.refresh_ns && p.paused_look_ns == at_400g.paused_look_ns);
	assert_true(p.watchdog_ns == 5 * MS && p.rate_bps == 400000000000);
	assert_int_equal(pfc_replan(&p, 100000000000, 100 * US), 0);
	assert_true(p.xoff_frames == before.xoff_frames && p.refresh_ns == before.refresh_ns && !p.tight);
}

static struct pfc_ring make(void)
{
	static const struct pfc_plan plan = {
	    .ring_frames = 4096, .xoff_frames = 1000, .xon_frames = 500, .refresh_ns = 200 * US, .watchdog_ns = 5 * MS};
	struct pfc_ring r = {.plan = &plan};

	return r;
}

static void pfc_look__xoff_refresh_xon(void **state)
{
	struct pfc_ring r = make();
	struct pfc_port p = {0};
	uint64_t t = 10 * MS;

	(void)state;
	assert_int_equal(pfc_look(&p, &r, t, false, true), PFC_NOTHING);
	assert_int_equal(pfc_look(&p, &r, t, false, false), PFC_NOTHING);
	assert_int_equal(pfc_look(&p, &r, t, true, false), PFC_XOFF);
	assert_int_equal(pfc_look(&p, &r, t + 100 * US, true, false), PFC_NOTHING);
	assert_int_equal(pfc_look(&p, &r, t + 200 * US, false, false), PFC_XOFF); /* between the two: still paused */
	assert_int_equal(pfc_look(&p, &r, t + 300 * US, false, false), PFC_NOTHING);
	assert_int_equal(pfc_look(&p, &r, t + 350 * US, false, true), PFC_XON);
	assert_int_equal(pfc_look(&p, &r, t + 360 * US, false, true), PFC_NOTHING);
	assert_int_equal(r.xoffs, 1);
}

static void pfc_look__watchdog_ends_it_until_the_ring_has_emptied(void **state)
{
	struct pfc_ring r = make();
	struct pfc_port p = {0};
	uint64_t t = 10 * MS, end = t + 5 * MS;

	(void)state;
	assert_int_equal(pfc_look(&p, &r, t, true, false), PFC_XOFF);
	for (t += 100 * US; t < end; t += 100 * US)
		assert_int_not_equal(pfc_look(&p, &r, t, true, false), PFC_XON);
	assert_int_equal(pfc_look(&p, &r, t, true, false), PFC_XON);
	assert_int_equal(r.watchdogs, 1);
	for (int i = 0; i < 100; i++)
		assert_int_equal(pfc_look(&p, &r, t += 100 * US, true, false), PFC_NOTHING);
	assert_int_equal(pfc_look(&p, &r, t += 100 * US, false, true), PFC_NOTHING);
	assert_int_equal(pfc_look(&p, &r, t += 100 * US, true, false), PFC_XOFF);
}

/* A pause lasts until its last ring needs it no more; each ring's looks repeat it. */
static void pfc_look__rings_share_the_pause(void **state)
{
	struct pfc_ring a = make(), b = make();
	struct pfc_port p = {0};
	uint64_t t = 10 * MS;

	(void)state;
	assert_int_equal(pfc_look(&p, &a, t, true, false), PFC_XOFF);
	assert_int_equal(pfc_look(&p, &b, t + 10 * US, true, false), PFC_NOTHING);
	assert_int_equal(pfc_look(&p, &b, t + 100 * US, false, true), PFC_NOTHING);
	assert_int_equal(pfc_look(&p, &a, t + 200 * US, true, false), PFC_XOFF);
	assert_int_equal(pfc_look(&p, &b, t + 300 * US, true, false), PFC_NOTHING);
	assert_int_equal(pfc_look(&p, &b, t + 400 * US, true, false), PFC_XOFF);
	assert_int_equal(pfc_look(&p, &a, t + 450 * US, true, false), PFC_NOTHING);
	assert_int_equal(pfc_leave(&p, &a), PFC_NOTHING);
	assert_int_equal(pfc_leave(&p, &a), PFC_NOTHING);
	assert_int_equal(pfc_look(&p, &b, t + 500 * US, false, true), PFC_XON);
	assert_int_equal(a.xoffs + b.xoffs, 1);
}

/* However many rings take turns, hosts wait no longer than the watchdog's time. */
static void pfc_look__watchdog_counts_from_the_begin_of_the_pause(void **state)
{
	struct pfc_ring a = make(), b = make();
	struct pfc_port p = {0};
	uint64_t t = 10 * MS, end = t + 5 * MS;

	(void)state;
	assert_int_equal(pfc_look(&p, &a, t, true, false), PFC_XOFF);
	assert_int_equal(pfc_look(&p, &b, end - 1, true, false), PFC_NOTHING);
	assert_int_equal(pfc_look(&p, &a, end - 1, false, true), PFC_NOTHING);
	assert_int_equal(pfc_look(&p, &b, end, true, false), PFC_XON);
	assert_int_equal(a.watchdogs, 0);
	assert_int_equal(b.watchdogs, 1);
	assert_int_equal(pfc_look(&p, &a, end + 1, true, false), PFC_XOFF); /* this ring has emptied meanwhile */
}

static void pfc_sent__frames_that_overtook_each_other(void **state)
{
	struct pfc_port paused = {.asking = 1}, open = {0};

	(void)state;
	assert_int_equal(pfc_sent(&paused, PFC_XOFF), PFC_NOTHING);
	assert_int_equal(pfc_sent(&paused, PFC_XON), PFC_XOFF);
	assert_int_equal(pfc_sent(&open, PFC_XON), PFC_NOTHING);
	assert_int_equal(pfc_sent(&open, PFC_XOFF), PFC_XON);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pfc_frame__golden),
	    cmocka_unit_test(pfc_plan__room_above_xoff),
	    cmocka_unit_test(pfc_plan__pause_is_repeated_before_it_expires),
	    cmocka_unit_test(pfc_replan__thresholds_follow_the_rate),
	    cmocka_unit_test(pfc_look__xoff_refresh_xon),
	    cmocka_unit_test(pfc_look__watchdog_ends_it_until_the_ring_has_emptied),
	    cmocka_unit_test(pfc_look__rings_share_the_pause),
	    cmocka_unit_test(pfc_look__watchdog_counts_from_the_begin_of_the_pause),
	    cmocka_unit_test(pfc_sent__frames_that_overtook_each_other),
	};

	return cmocka_run_group_tests_name("pfc", tests, NULL, NULL);
}
