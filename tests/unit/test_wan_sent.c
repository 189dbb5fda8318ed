/* SPDX-License-Identifier: Apache-2.0 */
/* The sent map: what becomes of datagrams, by what reports say and never by what they leave out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/util/bytes.h"
#include "proxy/wan/dgram/wan_sent.h"

enum { PAGES = 8, RING = 16, GAP_NS = 1000, REORDER_NS = 10000, RTT_NS = 1000000, LOG_MAX = 2048 };

struct fix {
	struct sent_pool pool;
	struct sent_page *pages;
	uint32_t ring[RING];
	struct wan_sent s;
	uint64_t now_ns;
	/* numbers that the callbacks were called for: the tests keep them in the id of the first reference */
	uint32_t acked[LOG_MAX], lost[LOG_MAX], refused[LOG_MAX];
	uint32_t nacked, nlost, nrefused;
	struct wan_sent_result res;
};

static void open_fix(struct fix *f, uint32_t pages)
{
	memset(f, 0, sizeof(*f));
	f->pages = calloc(pages ? pages : 1, sizeof(*f->pages));
	assert_non_null(f->pages);
	sent_pool_init(&f->pool, f->pages, pages, 1);
	wan_sent_init(&f->s, &f->pool, f->ring, RING);
	f->now_ns = 1000000;
}

static void close_fix(struct fix *f)
{
	free(f->pages);
}

/* A lane that has sent nothing, and a pool of so many pages; TEST() closes it. */
static struct fix *given(void **state, uint32_t pages)
{
	struct fix *f = malloc(sizeof(*f));

	assert_non_null(f);
	open_fix(f, pages);
	*state = f;
	return f;
}

static int done(void **state)
{
	if (*state)
		close_fix(*state);
	free(*state);
	return 0;
}

#define TEST(t) cmocka_unit_test_teardown(t, done)

/* Datagram n goes at its own time, a gap after the one before. */
static void send_n(struct fix *f, uint32_t n)
{
	while (n--) {
		uint64_t pn;
		struct sent_entry *e;

		assert_true(wan_sent_has_room(&f->s));
		e = wan_sent_push(&f->s, f->now_ns, &pn);
		e->nrefs = 1;
		e->ref[0].id = (uint32_t)pn;
		e->bytes = 100;
		f->s.bytes_in_flight += 100;
		f->now_ns += GAP_NS;
	}
}

static void on_acked(void *arg, const struct sent_entry *e)
{
	struct fix *f = arg;

	assert_true(f->nacked < LOG_MAX);
	f->acked[f->nacked++] = e->ref[0].id;
}

static void on_lost(void *arg, const struct sent_entry *e)
{
	struct fix *f = arg;

	assert_true(f->nlost < LOG_MAX);
	f->lost[f->nlost++] = e->ref[0].id;
}

static void on_refused(void *arg, const struct sent_entry *e)
{
	struct fix *f = arg;

	assert_true(f->nrefused < LOG_MAX);
	f->refused[f->nrefused++] = e->ref[0].id;
}

static struct wan_report make(uint64_t base, uint64_t largest, const uint64_t *words, uint16_t n)
{
	static uint8_t bits[8 * WAN_REPORT_WORDS_MAX];

	for (uint16_t i = 0; i < n; i++)
		put_be64(bits + 8 * i, words[i]);
	return (struct wan_report){.base = base, .largest = largest, .words = n, .bits = bits};
}

static void report(struct fix *f, uint64_t base, uint64_t largest, const uint64_t *words, uint16_t n)
{
	struct wan_report r = make(base, largest, words, n);

	wan_sent_report(&f->s, &r, on_acked, f, &f->res);
}

static void report1(struct fix *f, uint64_t base, uint64_t largest, uint64_t word)
{
	report(f, base, largest, &word, 1);
}

/* The far edge had no room for those. Returns how many count as refused by that. */
static uint64_t refuse(struct fix *f, uint64_t base, uint64_t largest, const uint64_t *words, uint16_t n)
{
	struct wan_report r = make(base, largest, words, n);

	return wan_sent_refused(&f->s, &r, on_refused, f);
}

static uint64_t detect(struct fix *f)
{
	return wan_sent_detect(&f->s, f->now_ns, REORDER_NS, RTT_NS, on_lost, f);
}

#define BITS(n) ((n) == 64 ? ~0ull : (1ull << (n)) - 1)

static void wan_sent__acked_once(void **state)
{
	struct fix *f = given(state, PAGES);

	send_n(f, 10);
	report1(f, 0, 9, BITS(10));
	assert_int_equal(f->nacked, 10);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(f->acked[i], i);
	assert_int_equal(f->res.newly_acked, 10);
	assert_true(f->res.largest_sent_ns == 1000000 + 9 * GAP_NS);
	assert_int_equal(f->s.entries_in_flight, 0);
	assert_int_equal(f->s.bytes_in_flight, 0);
	report1(f, 0, 9, BITS(10));
	assert_int_equal(f->nacked, 10);
	assert_int_equal(f->res.newly_acked, 0);
	assert_true(f->res.largest_sent_ns == 0); /* a second time is no measurement of the round trip */
	assert_int_equal(detect(f), 0);
}

/* A report's own number is resolved when it is sent. It measures the round trip all the same: else none is measured
 * where each report is told of with a report's number as the largest. */
static void wan_sent__what_is_resolved_when_sent_measures_the_round_trip(void **state)
{
	struct fix *f = given(state, PAGES);

	send_n(f, 2);
	wan_sent_forget_last(&f->s);
	report1(f, 0, 1, BITS(2));
	assert_int_equal(f->res.newly_acked, 1);
	assert_true(f->res.largest_sent_ns == 1000000 + 1 * GAP_NS);
	report1(f, 0, 1, BITS(2));
	assert_true(f->res.largest_sent_ns == 0);
}

/* Numbers that no report speaks of are never lost, however much later ones arrive. */
static void wan_sent__absence_is_no_loss(void **state)
{
	struct fix *f = given(state, PAGES);

	send_n(f, 192);
	report1(f, 128, 191, BITS(64));
	f->now_ns += 1000 * (uint64_t)RTT_NS;
	assert_int_equal(detect(f), 0);
	assert_int_equal(f->s.entries_in_flight, 128);
}

/* Named missing, and something sent a reordering window later has arrived. */
static void wan_sent__missing_is_lost_after_the_window(void **state)
{
	struct fix *f = given(state, PAGES);

	send_n(f, 40);
	report1(f, 0, 9, BITS(10) & ~4ull); /* number 2 is missing; 9 was sent 7 gaps later: less than the window */
	assert_true(wan_sent_any_missing(&f->s));
	assert_int_equal(detect(f), 0);
	report1(f, 0, 12, BITS(13) & ~4ull); /* 10 gaps later */
	assert_int_equal(detect(f), 1);
	assert_int_equal(f->lost[0], 2);
	assert_false(wan_sent_any_missing(&f->s));
	assert_int_equal(detect(f), 0);
	assert_int_equal(f->s.entries_in_flight, 27);
}

/* The last ones of a burst have nothing behind them that could arrive: time alone decides. */
static void wan_sent__missing_tail_is_lost_by_time(void **state)
{
	struct fix *f = given(state, PAGES);

	send_n(f, 3);
	report1(f, 0, 2, 5); /* 1 is missing, between two that arrived at once */
	f->now_ns = 1000000 + GAP_NS + RTT_NS + REORDER_NS - 1;
	assert_int_equal(detect(f), 0);
	f->now_ns++;
	assert_int_equal(detect(f), 1);
	assert_int_equal(f->lost[0], 1);
}

/* A zero at or beyond the largest number received means nothing yet. */
static void wan_sent__zeros_beyond_largest_are_not_missing(void **state)
{
	struct fix *f = given(state, PAGES);

	send_n(f, 64);
	report1(f, 0, 3, 0xf);
	f->now_ns += 10 * (uint64_t)RTT_NS;
	assert_int_equal(detect(f), 0);
}

static void wan_sent__reordered_arrival_mends_missing(void **state)
{
	struct fix *f = given(state, PAGES);

	send_n(f, 30);
	report1(f, 0, 5, BITS(6) & ~2ull);
	report1(f, 0, 29, BITS(30)); /* number 1 came after all, in time */
	assert_int_equal(detect(f), 0);
	assert_int_equal(f->nlost, 0);
	assert_int_equal(f->nacked, 30);
	assert_int_equal(f->res.spurious, 0);
}

static void wan_sent__late_arrival_is_spurious(void **state)
{
	struct fix *f = given(state, PAGES);

	send_n(f, 64);
	report1(f, 0, 20, BITS(21) & ~2ull);
	assert_int_equal(detect(f), 1);
	report1(f, 0, 40, BITS(41));
	assert_int_equal(f->res.spurious, 1);
	assert_true(f->res.spurious_ns == 39 * GAP_NS); /* 40 was sent so much later than 1 */
	assert_int_equal(f->nacked, 40);                /* not told as acked: it was settled as lost */
	report1(f, 0, 40, BITS(41));
	assert_int_equal(f->res.spurious, 0);
}

/* Losses come out in order of sending whatever order they were named in, and each once. */
static void wan_sent__many_losses_once_each(void **state)
{
	struct fix *f = given(state, PAGES);
	uint64_t w[3] = {0x5555555555555555, 0, BITS(64)};

	send_n(f, 192);
	report(f, 0, 191, w, 3);
	report(f, 0, 191, w, 3);
	assert_int_equal(detect(f), 96);
	for (uint32_t i = 0; i < 96; i++)
		assert_int_equal(f->lost[i], i < 32 ? 2 * i + 1 : i + 32);
	assert_int_equal(f->nacked, 96);
	assert_int_equal(f->s.entries_in_flight, 0);
}

static void wan_sent__floor_follows_and_pages_return(void **state)
{
	struct fix *f = given(state, PAGES);

	send_n(f, 200);
	assert_int_equal(f->pool.free_count, PAGES - 4);
	report1(f, 64, 127, BITS(64));
	wan_sent_advance(&f->s, f->now_ns, RTT_NS);
	assert_int_equal(f->s.pn_floor, 0); /* 0..63 are open */
	report1(f, 0, 127, BITS(64));
	wan_sent_advance(&f->s, f->now_ns, RTT_NS);
	assert_int_equal(f->s.pn_floor, 128);
	assert_int_equal(f->pool.free_count, PAGES - 2);
}

/* Pages with losses stay for a while, so that a late arrival is noticed. */
static void wan_sent__lost_page_is_kept_a_while(void **state)
{
	struct fix *f = given(state, PAGES);

	send_n(f, 128);
	report1(f, 0, 63, BITS(64) & ~1ull);
	assert_int_equal(detect(f), 1);
	wan_sent_advance(&f->s, f->now_ns, RTT_NS);
	assert_int_equal(f->s.pn_floor, 0);
	wan_sent_advance(&f->s, f->now_ns + RTT_NS, RTT_NS);
	assert_int_equal(f->s.pn_floor, 64);
}

static void wan_sent__lost_page_goes_when_pages_run_short(void **state)
{
	struct fix *f = given(state, PAGES);

	send_n(f, 64 * 7);
	report1(f, 0, 63, BITS(64) & ~1ull);
	assert_int_equal(detect(f), 1);
	wan_sent_advance(&f->s, f->now_ns, RTT_NS);
	assert_int_equal(f->s.pn_floor, 64);
}

static void wan_sent__full_pool_has_no_room(void **state)
{
	struct fix *f = given(state, 2);

	send_n(f, 128);
	assert_false(wan_sent_has_room(&f->s));
	report1(f, 0, 127, BITS(64));
	wan_sent_advance(&f->s, f->now_ns, RTT_NS);
	assert_true(wan_sent_has_room(&f->s));
	send_n(f, 64);
	assert_false(wan_sent_has_room(&f->s));
}

static void wan_sent__empty_pool_has_no_room(void **state)
{
	struct fix *f = given(state, 0);

	assert_false(wan_sent_has_room(&f->s));
}

/* The ring of pages bounds a lane even if the pool has more. */
static void wan_sent__ring_bounds_a_lane(void **state)
{
	struct fix *f = given(state, 4 * RING);
	uint32_t n = 0;

	for (; wan_sent_has_room(&f->s) && n < 64 * 64; n++)
		send_n(f, 1);
	assert_int_equal(n, 64 * RING);
}

static void wan_sent__unpush_gives_the_page_back(void **state)
{
	struct fix *f = given(state, 1);
	uint64_t pn;

	for (int i = 0; i < 3; i++) {
		wan_sent_push(&f->s, f->now_ns, &pn);
		assert_int_equal(pn, 0);
		assert_int_equal(f->pool.free_count, 0);
		wan_sent_unpush(&f->s);
		assert_int_equal(f->pool.free_count, 1);
		assert_int_equal(f->s.entries_in_flight, 0);
	}
	send_n(f, 63);
	wan_sent_push(&f->s, f->now_ns, &pn);
	wan_sent_unpush(&f->s);
	assert_int_equal(f->pool.free_count, 0);
}

static void wan_sent__forgotten_is_neither_lost_nor_acked(void **state)
{
	struct fix *f = given(state, PAGES);
	uint64_t pn, sent_ns;

	send_n(f, 1);
	wan_sent_forget_last(&f->s);
	assert_int_equal(f->s.entries_in_flight, 0);
	assert_false(wan_sent_oldest(&f->s, &pn, &sent_ns));
	send_n(f, 30);
	report1(f, 0, 30, BITS(31) & ~1ull);
	assert_int_equal(f->nacked, 30);
	assert_int_equal(detect(f), 0);
}

static void wan_sent__refused_is_its_own_thing(void **state)
{
	struct fix *f = given(state, PAGES);
	uint64_t w = 0x12;

	send_n(f, 40);
	assert_int_equal(refuse(f, 0, 39, &w, 1), 2);
	assert_int_equal(f->refused[0], 1);
	assert_int_equal(f->refused[1], 4);
	assert_int_equal(refuse(f, 0, 39, &w, 1), 0);
	report1(f, 0, 39, BITS(40) & ~0x12ull); /* and is not found missing as well */
	assert_int_equal(detect(f), 0);
	assert_int_equal(f->s.entries_in_flight, 0);
}

/* Refused after it was named missing: not lost as well, and the FIFO goes on behind it. */
static void wan_sent__refused_while_missing(void **state)
{
	struct fix *f = given(state, PAGES);
	uint64_t w = 2;

	send_n(f, 60);
	report1(f, 0, 10, BITS(11) & ~6ull);
	assert_int_equal(refuse(f, 0, 39, &w, 1), 1);
	report1(f, 0, 59, BITS(60) & ~6ull);
	assert_int_equal(detect(f), 1);
	assert_int_equal(f->lost[0], 2);
}

static void wan_sent__oldest(void **state)
{
	struct fix *f = given(state, PAGES);
	uint64_t pn, sent_ns;

	assert_false(wan_sent_oldest(&f->s, &pn, &sent_ns));
	send_n(f, 130);
	report1(f, 0, 129, BITS(64));
	report1(f, 64, 129, BITS(64));
	assert_true(wan_sent_oldest(&f->s, &pn, &sent_ns));
	assert_int_equal(pn, 128);
	assert_true(sent_ns == 1000000 + 128 * GAP_NS);
	report1(f, 128, 129, 3);
	assert_false(wan_sent_oldest(&f->s, &pn, &sent_ns));
}

/* What a broken or hostile peer may report: numbers never sent, words far outside, settled long ago. */
static void wan_sent__hostile_reports(void **state)
{
	struct fix *f = given(state, PAGES);
	uint64_t all[WAN_REPORT_WORDS_MAX];

	memset(all, 0xff, sizeof(all));
	send_n(f, 70);
	report(f, 0, 70, all, 2); /* 70 was never sent: nothing that the report says is believed */
	assert_int_equal(f->nacked, 0);
	report(f, 1ull << 61, 69, all, WAN_REPORT_WORDS_MAX);
	assert_int_equal(refuse(f, 1ull << 61, 69, all, WAN_REPORT_WORDS_MAX), 0);
	assert_int_equal(f->nacked, 0);
	report(f, 64, 69, all, WAN_REPORT_WORDS_MAX); /* bits beyond what was sent */
	assert_int_equal(f->nacked, 6);
	report1(f, 0, 69, BITS(64));
	wan_sent_advance(&f->s, f->now_ns, RTT_NS);
	assert_int_equal(f->s.pn_floor, 64);
	report1(f, 0, 69, BITS(64)); /* its page is somebody else's now */
	assert_int_equal(f->nacked, 70);
	assert_int_equal(detect(f), 0);
}

static void wan_sent__reset_gives_all_pages_back(void **state)
{
	struct fix *f = given(state, PAGES);

	send_n(f, 150);
	report1(f, 0, 100, 5);
	wan_sent_reset(&f->s);
	assert_int_equal(f->pool.free_count, PAGES);
	assert_int_equal(f->s.pn_next, 0);
	assert_false(wan_sent_any_missing(&f->s));
	send_n(f, 64 * PAGES);
	assert_false(wan_sent_has_room(&f->s));
}

/* A lane that holds nothing gets its own pages, however much another has in flight. */
static void wan_sent__a_lane_keeps_its_own_pages(void **state)
{
	uint32_t ring[RING];
	struct wan_sent other;
	struct fix *f = given(state, PAGES);
	uint64_t pn;

	sent_pool_init(&f->pool, f->pages, PAGES, 2);
	wan_sent_init(&other, &f->pool, ring, RING);
	while (wan_sent_has_room(&f->s))
		send_n(f, 1);
	assert_int_equal(f->s.pn_next, 64 * (PAGES - SENT_PAGES_OWN)); /* all but what the other may claim */
	for (int i = 0; i < 64 * SENT_PAGES_OWN; i++) {
		assert_true(wan_sent_has_room(&other));
		wan_sent_push(&other, f->now_ns, &pn);
	}
	assert_false(wan_sent_has_room(&other));
}

/* Full and nothing heard: the oldest page is given up, each entry once, and what was named missing with it. */
static void wan_sent__gives_up_the_oldest_page(void **state)
{
	struct fix *f = given(state, 2);

	assert_int_equal(wan_sent_give_up_oldest(&f->s, f->now_ns, on_lost, f), 0);
	send_n(f, 128);
	report1(f, 0, 5, 0x31); /* 1 to 3 are named missing */
	assert_int_equal(wan_sent_give_up_oldest(&f->s, f->now_ns, on_lost, f), 61);
	for (uint32_t i = 0; i < 61; i++)
		assert_int_equal(f->lost[i], i < 3 ? i + 1 : i + 3); /* 0, 4 and 5 had arrived */
	assert_int_equal(detect(f), 0);
	wan_sent_advance(&f->s, f->now_ns, 0);
	assert_true(wan_sent_has_room(&f->s));
	assert_int_equal(f->s.entries_in_flight, 64);
}

static uint32_t draw(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*seed >> 33);
}

/* Random losses and reports that arrive, or do not, in any state: every number comes out exactly once. */
static void wan_sent__everything_ends_once(void **state)
{
	uint64_t seed = 0x9e3779b97f4a7c15ull;

	(void)state;
	for (int round = 0; round < 50; round++) {
		uint8_t arrived[1024] = {0}, ended[1024] = {0};
		struct fix f;
		uint64_t next = 0;

		open_fix(&f, 32);
		while (next < 1000) {
			uint64_t w[WAN_REPORT_WORDS_MAX] = {0}, highest = 0;

			for (int i = 0; i < 20 && next < 1000; i++, next++) {
				send_n(&f, 1);
				arrived[next] = draw(&seed) % 10 != 0 || next > 980;
			}
			if (draw(&seed) % 2 && next < 1000)
				continue; /* the report got lost */
			for (uint64_t pn = 0; pn < next; pn++) {
				w[pn / 64] |= (uint64_t)arrived[pn] << (pn % 64);
				highest = arrived[pn] ? pn : highest;
			}
			report(&f, 0, highest, w, (uint16_t)(highest / 64 + 1));
			detect(&f);
			wan_sent_advance(&f.s, f.now_ns, RTT_NS);
		}
		f.now_ns += 2 * (uint64_t)RTT_NS;
		detect(&f);
		for (uint32_t i = 0; i < f.nacked; i++)
			assert_int_equal(ended[f.acked[i]]++, 0);
		for (uint32_t i = 0; i < f.nlost; i++) {
			assert_int_equal(ended[f.lost[i]]++, 0);
			assert_int_equal(arrived[f.lost[i]], 0);
		}
		assert_int_equal(f.nacked + f.nlost, 1000);
		assert_int_equal(f.s.bytes_in_flight, 0);
		assert_int_equal(f.s.entries_in_flight, 0);
		wan_sent_advance(&f.s, f.now_ns + RTT_NS, RTT_NS);
		assert_int_equal(f.pool.free_count, 31); /* the last page is begun */
		close_fix(&f);
	}
}

/* --- members of erasure groups --- */

/* The lane remembers when four groups were done, the one of number `newest` and those before it. */
static void remember_groups(struct fix *f, uint64_t done_ns[4], uint32_t newest)
{
	f->s.block_done_ns = done_ns;
	f->s.nblocks = 4;
	f->s.block = newest;
}

static void put_in_group_1(struct fix *f, uint64_t pn)
{
	f->pool.pages[f->s.page_of[0]].entry[pn].block = 1;
}

/* A member is lost only when something sent after its group's last repair says so. */
static void wan_sent__a_member_waits_for_its_group(void **state)
{
	uint64_t done_ns[4] = {0};
	struct fix *f = given(state, PAGES);

	remember_groups(f, done_ns, 1);
	done_ns[1] = UINT64_MAX;
	send_n(f, 64);
	put_in_group_1(f, 5);
	report1(f, 0, 63, BITS(64) & ~(1ull << 5) & ~(1ull << 6));
	assert_int_equal(detect(f), 0); /* 6 is none, but stands behind 5 */
	done_ns[1] = f->now_ns;
	assert_int_equal(detect(f), 0);
	f->now_ns += REORDER_NS + GAP_NS;
	send_n(f, 1);
	report1(f, 64, 64, 1);
	assert_int_equal(detect(f), 2);
}

/* If its group is never done, it waits for a round trip and no longer. */
static void wan_sent__grace_ends(void **state)
{
	uint64_t done_ns[4] = {0};
	struct fix *f = given(state, PAGES);

	remember_groups(f, done_ns, 1);
	done_ns[1] = UINT64_MAX;
	send_n(f, 2);
	put_in_group_1(f, 0);
	report1(f, 0, 1, 2);
	f->now_ns += RTT_NS;
	assert_int_equal(detect(f), 0);
	f->s.told_ns = RTT_NS / 8;
	f->now_ns += RTT_NS + REORDER_NS;
	assert_int_equal(detect(f), 0); /* news of it may still be under way */
	f->now_ns += RTT_NS / 8;
	assert_int_equal(detect(f), 1);
}

/* Blocks that are older than what is remembered are done. */
static void wan_sent__old_groups_are_done(void **state)
{
	uint64_t done_ns[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
	struct fix *f = given(state, PAGES);

	remember_groups(f, done_ns, 5);
	send_n(f, 64);
	put_in_group_1(f, 5);
	report1(f, 0, 63, BITS(64) & ~(1ull << 5));
	assert_int_equal(detect(f), 1);
	wan_sent_reset(&f->s);
	assert_ptr_equal(f->s.block_done_ns, done_ns);
	assert_int_equal(f->s.nblocks, 4);
}

static void wan_sent__rebuilt_is_acked_and_never_spurious(void **state)
{
	struct fix *f = given(state, PAGES);

	send_n(f, 64);
	report1(f, 0, 63, BITS(64) & ~3ull);
	assert_int_equal(wan_sent_rebuilt(&f->s, 0, on_acked, f), 1);
	assert_int_equal(f->nacked, 63);
	assert_int_equal(detect(f), 1); /* number 1 */
	assert_int_equal(wan_sent_rebuilt(&f->s, 0, on_acked, f), 0);
	assert_int_equal(wan_sent_rebuilt(&f->s, 1, on_acked, f), 2);
	report1(f, 0, 63, BITS(64));
	assert_int_equal(f->res.spurious, 0);
	assert_int_equal(f->nacked, 63);
	assert_int_equal(wan_sent_rebuilt(&f->s, 64, on_acked, f), 0); /* never sent */
	assert_int_equal(wan_sent_rebuilt(&f->s, UINT64_MAX, on_acked, f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(wan_sent__acked_once),
	    TEST(wan_sent__absence_is_no_loss),
	    TEST(wan_sent__missing_is_lost_after_the_window),
	    TEST(wan_sent__missing_tail_is_lost_by_time),
	    TEST(wan_sent__zeros_beyond_largest_are_not_missing),
	    TEST(wan_sent__reordered_arrival_mends_missing),
	    TEST(wan_sent__what_is_resolved_when_sent_measures_the_round_trip),
	    TEST(wan_sent__late_arrival_is_spurious),
	    TEST(wan_sent__many_losses_once_each),
	    TEST(wan_sent__floor_follows_and_pages_return),
	    TEST(wan_sent__lost_page_is_kept_a_while),
	    TEST(wan_sent__lost_page_goes_when_pages_run_short),
	    TEST(wan_sent__full_pool_has_no_room),
	    TEST(wan_sent__empty_pool_has_no_room),
	    TEST(wan_sent__ring_bounds_a_lane),
	    TEST(wan_sent__unpush_gives_the_page_back),
	    TEST(wan_sent__forgotten_is_neither_lost_nor_acked),
	    TEST(wan_sent__refused_is_its_own_thing),
	    TEST(wan_sent__refused_while_missing),
	    TEST(wan_sent__oldest),
	    TEST(wan_sent__hostile_reports),
	    TEST(wan_sent__reset_gives_all_pages_back),
	    TEST(wan_sent__a_lane_keeps_its_own_pages),
	    TEST(wan_sent__gives_up_the_oldest_page),
	    cmocka_unit_test(wan_sent__everything_ends_once),
	    TEST(wan_sent__a_member_waits_for_its_group),
	    TEST(wan_sent__grace_ends),
	    TEST(wan_sent__old_groups_are_done),
	    TEST(wan_sent__rebuilt_is_acked_and_never_spurious),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
