/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks at the sender, groups at the receiver, and a line between them that loses what a test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/wan/fec/fec_rx.h"
#include "proxy/wan/fec/fec_tx.h"

enum { STRIDE = 512, BUFS = 600, KEPT = 600, PN_MAX = 4096, SPACE = 7 };

static struct {
	struct fec_code code;
	struct fec_solver solver;
	struct fec_pool pool;
	struct fec_tx tx;
	struct fec_rx rx;
	struct fec_seen seen;
	struct wan_recv recv;
	struct fec_plan plan;
	uint64_t pn, now_ns;
	uint32_t blocks;
	uint8_t pool_data[BUFS * STRIDE], kept_data[KEPT * STRIDE], out[FEC_M_MAX * (STRIDE + WAN_HDR_LEN)];
	uint32_t pool_free[BUFS];
	struct fec_kept kept[KEPT];
	uint64_t bits[WAN_RECV_WORDS];
	uint64_t *cells;
	uint8_t sent[PN_MAX][STRIDE]; /* symbols; length 0: no member */
	size_t sent_len[PN_MAX];
	bool lost[PN_MAX], rebuilt[PN_MAX];
	unsigned nrebuilt, outcomes[FEC_NONSENSE + 1];
} t;

static int open_all(void **state)
{
	(void)state;
	free(t.cells);
	memset(&t, 0, sizeof(t));
	fec_code_init(&t.code);
	fec_pool_init(&t.pool, t.pool_data, t.pool_free, BUFS, STRIDE);
	fec_tx_init(&t.tx);
	fec_rx_init(&t.rx, &t.code, &t.solver, t.kept_data, t.kept, KEPT, STRIDE, t.out);
	t.cells = calloc(fec_rx_cells(KEPT), sizeof(*t.cells));
	assert_non_null(t.cells);
	t.seen = (struct fec_seen){.space = SPACE, .cell = t.cells};
	wan_recv_init(&t.recv, t.bits);
	t.plan = (struct fec_plan){.k = 8, .m = 2, .depth = 1};
	t.now_ns = 1000;
	return 0;
}

static void arrive(uint64_t pn, bool member)
{
	if (member)
		fec_rx_keep(&t.rx, &t.seen, pn, t.sent[pn] + FEC_SYMBOL_HDR, t.sent_len[pn] - FEC_SYMBOL_HDR, t.now_ns);
	else
		fec_rx_no_member(&t.rx, &t.seen, pn);
	wan_recv_mark(&t.recv, pn, t.now_ns, true);
}

static void on_rebuilt(void *arg, uint64_t pn, uint8_t *dgram, size_t len, uint64_t due_ns)
{
	(void)arg;
	assert_true(due_ns == 0 || due_ns == 1000);
	assert_true(pn < t.pn && t.lost[pn] && !t.rebuilt[pn]);
	assert_int_equal(len, t.sent_len[pn] - FEC_SYMBOL_HDR + WAN_HDR_LEN);
	assert_memory_equal(dgram + WAN_HDR_LEN, t.sent[pn] + FEC_SYMBOL_HDR, len - WAN_HDR_LEN);
	t.rebuilt[pn] = true;
	t.nrebuilt++;
	arrive(pn, true);
}

/* A member; true if it was taken into a block. */
static bool send_member(bool lose)
{
	uint64_t pn = t.pn++;
	size_t len = FEC_SYMBOL_HDR + 1 + (pn * 37) % (STRIDE - FEC_SYMBOL_HDR);
	bool in;

	for (size_t i = FEC_SYMBOL_HDR; i < len; i++)
		t.sent[pn][i] = (uint8_t)(pn * 131 + i * 7);
	fec_symbol_hdr(t.sent[pn], len - FEC_SYMBOL_HDR);
	t.sent_len[pn] = len;
	t.lost[pn] = lose;
	in = fec_tx_add(&t.tx, &t.pool, &t.code, &t.plan, ++t.blocks, pn, t.sent[pn], len, t.now_ns);
	if (!lose)
		arrive(pn, in);
	return in;
}

static void send_other(bool lose)
{
	uint64_t pn = t.pn++;

	t.lost[pn] = lose;
	if (!lose)
		arrive(pn, false);
}

/* The next repair; as a frame over the line unless it is lost. Returns true for the last of its block. */
static bool send_repair(bool lose)
{
	uint8_t buf[WAN_FEC_OVERHEAD + STRIDE];
	struct wan_fec f, got;
	struct wan_frame fr;
	uint64_t pn = t.pn++;
	size_t off = 0, n;

	assert_true(t.tx.sending);
	fec_tx_next(&t.tx, &t.pool, &f);
	n = wan_fec_frame_put(buf, sizeof(buf), &f);
	assert_int_not_equal(n, 0);
	t.lost[pn] = lose;
	if (!lose) {
		assert_int_equal(wan_frame_next(buf, n, &off, &fr), 1);
		assert_true(wan_fec_frame_get(&fr, &got));
		t.outcomes[fec_rx_repair(&t.rx, &t.seen, &t.recv, pn, &got, on_rebuilt, NULL)]++;
		arrive(pn, false);
	}
	return fec_tx_sent(&t.tx, &t.pool);
}

static void send_repairs(void)
{
	while (t.tx.sending)
		send_repair(false);
}

/* --- one group --- */

static void fec__nothing_lost_nothing_done(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++)
		assert_true(send_member(false));
	assert_true(t.tx.sending && !t.tx.filling);
	send_repairs();
	assert_int_equal(t.outcomes[FEC_NOT_NEEDED], 2);
	assert_int_equal(t.nrebuilt, 0);
	assert_int_equal(t.pool.nfree, BUFS);
}

static void fec__one_loss_by_the_first_repair(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++)
		send_member(i == 3);
	send_repairs();
	assert_int_equal(t.nrebuilt, 1);
	assert_int_equal(t.outcomes[FEC_SOLVED], 1);
	assert_int_equal(t.outcomes[FEC_NOT_NEEDED], 1);
}

static void fec__two_losses_wait_for_the_second_repair(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++)
		send_member(i == 0 || i == 7);
	send_repair(false);
	assert_int_equal(t.outcomes[FEC_WAITS_FOR_MORE], 1);
	assert_int_equal(t.nrebuilt, 0);
	send_repair(false);
	assert_int_equal(t.outcomes[FEC_SOLVED], 1);
	assert_int_equal(t.nrebuilt, 2);
}

static void fec__beyond_repair_is_said(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++)
		send_member(i < 3);
	send_repairs();
	assert_int_equal(t.outcomes[FEC_BEYOND], 1);
	assert_int_equal(t.nrebuilt, 0);
}

/* A repair that was lost counts as a loss of the group. */
static void fec__lost_repair(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++)
		send_member(i == 5);
	assert_false(send_repair(true));
	assert_true(send_repair(false));
	assert_int_equal(t.nrebuilt, 1);
}

/* Reports and repairs between members leave their places empty, lost or not. */
static void fec__empty_places(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		send_member(i == 2);
		send_other(i == 4);
	}
	assert_int_equal(t.tx.out.span, 15);
	send_repairs();
	assert_int_equal(t.nrebuilt, 1); /* of two lost places one was empty: nothing to hand over */
	assert_int_equal(t.outcomes[FEC_SOLVED], 1);
	assert_int_equal(t.outcomes[FEC_WAITS_FOR_MORE], 1);
}

static void fec__early_end_protects_the_tail(void **state)
{
	(void)state;
	send_member(true);
	assert_true(t.tx.filling && !t.tx.sending);
	assert_int_equal(fec_tx_row_bytes(&t.tx), t.sent_len[0]);
	fec_tx_close(&t.tx, &t.pool, 1);
	assert_true(send_repair(false));
	assert_int_equal(t.nrebuilt, 1);
	assert_int_equal(t.pool.nfree, BUFS);
}

static void fec__closed_without_repairs(void **state)
{
	(void)state;
	send_member(true);
	fec_tx_close(&t.tx, &t.pool, 0);
	assert_false(t.tx.filling || t.tx.sending);
	assert_int_equal(t.pool.nfree, BUFS);
}

/* --- groups that take turns --- */

static void fec__burst_as_long_as_the_depth(void **state)
{
	(void)state;
	t.plan = (struct fec_plan){.k = 8, .m = 1, .depth = 16};
	for (int i = 0; i < 8 * 16; i++)
		send_member(i >= 40 && i < 56);
	send_repairs();
	assert_int_equal(t.nrebuilt, 16);
	assert_int_equal(t.outcomes[FEC_BEYOND], 0);
}

static void fec__repairs_of_a_group_are_apart(void **state)
{
	struct wan_fec f;

	(void)state;
	t.plan = (struct fec_plan){.k = 4, .m = 2, .depth = 8};
	for (int i = 0; i < 4 * 8; i++)
		send_member(false);
	for (unsigned i = 0; t.tx.sending; i++) {
		fec_tx_next(&t.tx, &t.pool, &f);
		assert_int_equal(f.group, i % 8);
		assert_int_equal(f.row, i / 8);
		fec_tx_sent(&t.tx, &t.pool);
	}
}

/* What had to go between repairs fills a block of its own, which follows when they are out. */
static void fec__a_full_block_waits_for_the_one_going_out(void **state)
{
	(void)state;
	t.plan = (struct fec_plan){.k = 8, .m = 2, .depth = 1};
	for (int i = 0; i < 8; i++)
		send_member(false);
	assert_true(t.tx.sending && !t.tx.filling);
	send_repair(false);
	for (int i = 0; i < 8; i++)
		send_member(false);
	assert_true(t.tx.sending && t.tx.filling);
	assert_true(send_repair(false));
	assert_true(t.tx.sending && !t.tx.filling); /* its turn now */
}

static void fec__full_and_no_way_out_goes_unprotected(void **state)
{
	(void)state;
	for (int i = 0; i < 16; i++)
		assert_true(send_member(false));
	assert_false(send_member(false));
	send_repairs();
	assert_int_equal(t.outcomes[FEC_NOT_NEEDED], 4);
	assert_true(send_member(false));
}

/* --- bounds --- */

static void fec__few_buffers_less_depth(void **state)
{
	(void)state;
	t.pool.nfree = 12;
	t.plan = (struct fec_plan){.k = 8, .m = 2, .depth = 32};
	assert_true(send_member(false));
	assert_int_equal(t.tx.fill.plan.depth, 3);
	fec_tx_reset(&t.tx, &t.pool);
	assert_int_equal(t.pool.nfree, 12);
	t.pool.nfree = 1;
	assert_false(send_member(false));
	t.pool.nfree = 2;
	assert_true(send_member(false));
	assert_int_equal(t.tx.fill.plan.depth, 1);
}

static void fec__largest_block_stays_in_bounds(void **state)
{
	unsigned n = 0;

	(void)state;
	t.plan = (struct fec_plan){.k = FEC_K_MAX, .m = FEC_M_MAX, .depth = FEC_DEPTH_MAX};
	while (!t.tx.sending && t.pn < PN_MAX) {
		assert_true(send_member(false));
		n++;
	}
	assert_true(t.tx.out.span <= FEC_BLOCK_MAX);
	assert_true((unsigned)t.tx.out.plan.depth * t.tx.out.plan.m <= FEC_BLOCK_PARITY_MAX);
	assert_int_equal(n, (unsigned)t.tx.out.plan.depth * FEC_K_MAX);
}

/* Many others between the members: the block ends before places run out. */
static void fec__places_run_out(void **state)
{
	(void)state;
	send_member(true);
	for (int i = 1; i < FEC_PLACES_MAX; i++)
		send_other(false);
	assert_true(t.tx.filling);
	send_member(false); /* begins a new block */
	assert_true(t.tx.filling && t.tx.sending);
	assert_int_equal(t.tx.out.span, 1);
	send_repairs();
	assert_int_equal(t.nrebuilt, 1);
}

static void fec__forgotten_members_are_noticed(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++)
		send_member(i == 1);
	for (uint32_t i = 0; i < KEPT - 3; i++) /* other lanes fill the ring */
		fec_rx_keep(&t.rx, &(struct fec_seen){.space = 9, .cell = t.cells}, 3000 + i, t.sent[0], 10, 1);
	send_repairs();
	assert_int_equal(t.outcomes[FEC_FORGOTTEN], 2);
	assert_int_equal(t.nrebuilt, 0);
}

static void fec__session_forgets(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++)
		send_member(i == 1);
	fec_rx_reset(&t.rx);
	fec_seen_reset(&t.rx, &t.seen);
	send_repairs();
	assert_int_equal(t.nrebuilt, 0);
}

/* --- hostile repairs --- */

static enum fec_outcome give(const struct wan_fec *f, uint64_t pn)
{
	return fec_rx_repair(&t.rx, &t.seen, &t.recv, pn, f, on_rebuilt, NULL);
}

static void fec__hostile_repairs(void **state)
{
	uint8_t junk[STRIDE] = {1, 2, 3};
	struct wan_fec f = {.base = 0, .span = 4, .depth = 1, .rows = 2, .len = 100, .data = junk}, g;

	(void)state;
	arrive(0, false);
	assert_int_equal(give(&f, 3), FEC_NONSENSE); /* of numbers that were not sent before it */
	g = f;
	g.base = 5;
	assert_int_equal(give(&g, 1000000), FEC_NONSENSE); /* of long ago */
	g = f;
	g.len = FEC_SYMBOL_HDR;
	assert_int_equal(give(&g, 10), FEC_NONSENSE);
	assert_int_equal(give(&f, 10), FEC_WAITS_FOR_MORE);
	assert_int_equal(give(&f, 11), FEC_NONSENSE); /* the same row again */
	g = f;
	g.row = 1;
	g.len = 99;
	assert_int_equal(give(&g, 12), FEC_NONSENSE); /* another length */
	arrive(1, false);
	g = f;
	g.row = 1;
	assert_int_equal(give(&g, 13), FEC_NONSENSE); /* what comes out has no good CRC */
	assert_int_equal(t.nrebuilt, 0);
}

/* A member that is longer than the longest: the repair is of something else. */
static void fec__repair_shorter_than_a_member(void **state)
{
	uint8_t junk[STRIDE] = {1, 2, 3};
	struct wan_fec f = {.base = 0, .span = 2, .depth = 1, .rows = 1, .len = 20, .data = junk};

	(void)state;
	memset(t.sent[0], 5, 200);
	t.sent_len[0] = 200;
	arrive(0, true);
	assert_int_equal(give(&f, 10), FEC_NONSENSE);
}

/* --- what closing early may cost --- */

static void fec_budget__share_of_the_line(void **state)
{
	struct fec_plan plan = {.k = 64, .m = 4};
	struct fec_budget b = {0};
	uint64_t bits = 0, when = 0, end = 1000000000ull, rate = 1000000000ull;

	(void)state;
	for (uint64_t now = 1000000; now < end; now += 10000) {
		unsigned rows = fec_budget_rows(&b, &plan, 1, 9000, rate, 100000, now, &when);

		assert_true(rows <= plan.m);
		if (!rows)
			assert_true(when > now);
		bits += rows * 9000ull * 8;
	}
	assert_true(bits < rate * 4 / 64 + 5 * 9000 * 8); /* of one second */
	assert_true(bits > rate * 4 / 64 * 9 / 10);
}

/* One of eight shards that has all of the line spends eight times its part. A hold time after the last full block others
 * have repairs again. */
static void fec_budget__full_blocks_put_off_others_for_a_hold_time(void **state)
{
	struct fec_plan plan = {.k = 16, .m = 4};
	struct fec_budget b = {0};
	uint64_t now = 1000000000, when, share = 10000000000ull / 8, hold = 100000, row = 9000 * 8 * 4 * 8 / 10 + 1;

	(void)state;
	b.next_ns = now;
	for (int i = 0; i < 1000000; i++, now += 9000 * 8 * 4 / 10) /* a repair for four datagrams */
		fec_budget_spend(&b, &plan, 9000, share, now + hold);
	assert_int_equal(fec_budget_rows(&b, &plan, 1, 9000, share, hold, now, &when), 0);
	assert_true(when <= now + hold + row);
	assert_int_equal(fec_budget_rows(&b, &plan, 1, 9000, share, hold, when, &when), 1);
}

static void fec_budget__after_a_rest_all_rows(void **state)
{
	struct fec_plan plan = {.k = 64, .m = 4};
	struct fec_budget b = {0};
	uint64_t when = 0;

	(void)state;
	assert_int_equal(fec_budget_rows(&b, &plan, 1, 9000, 1000000, 0, 1000000000000ull, &when), 4);
	assert_int_equal(fec_budget_rows(&b, &plan, 1, 9000, 1000000, 0, 1000000000000ull, &when), 0);
	fec_budget_spend(&b, &plan, 9000, 1000000, UINT64_MAX);
	assert_int_equal(fec_budget_rows(&b, &plan, 1, 9000, 1000000, 0, when, &when), 0);
	assert_int_equal(fec_budget_rows(&b, &plan, 1, 9000, 1000000, 0, when, &when), 1);
}

#define CASE(f) cmocka_unit_test_setup(f, open_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(fec__nothing_lost_nothing_done),
	    CASE(fec__one_loss_by_the_first_repair),
	    CASE(fec__two_losses_wait_for_the_second_repair),
	    CASE(fec__beyond_repair_is_said),
	    CASE(fec__lost_repair),
	    CASE(fec__empty_places),
	    CASE(fec__early_end_protects_the_tail),
	    CASE(fec__closed_without_repairs),
	    CASE(fec__burst_as_long_as_the_depth),
	    CASE(fec__repairs_of_a_group_are_apart),
	    CASE(fec__a_full_block_waits_for_the_one_going_out),
	    CASE(fec__full_and_no_way_out_goes_unprotected),
	    CASE(fec__few_buffers_less_depth),
	    CASE(fec__largest_block_stays_in_bounds),
	    CASE(fec__places_run_out),
	    CASE(fec__forgotten_members_are_noticed),
	    CASE(fec__session_forgets),
	    CASE(fec__hostile_repairs),
	    CASE(fec__repair_shorter_than_a_member),
	    CASE(fec_budget__share_of_the_line),
	    CASE(fec_budget__after_a_rest_all_rows),
	    CASE(fec_budget__full_blocks_put_off_others_for_a_hold_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
