/* SPDX-License-Identifier: Apache-2.0 */
/* What the edge posts to RDMA clients, and what has ended: which of it waits for which. */
#define _GNU_SOURCE
#include "rdma_fixture.h"

#include "daemon/relay/relay_rdma_priv.h"

enum { PUT = 501, GET = 502, OTHER = 503, MANY = 10000 };

/* Requests of others whose answers fill the answering channel's queue: behind what has a slot in it already. */
static void fill_answers(void)
{
	for (unsigned i = 0; i < 2000 && r->channel[1].nmessages < RELAY_MESSAGES; i++) {
		come(0, &(struct relay_head){.type = RW_GET, .op = MANY + i, .name = "tnone", .length = 10}, NULL, 0);
		if (i % 50 == 0)
			work();
	}
	work();
	assert_int_equal(r->channel[1].nmessages, RELAY_MESSAGES);
}

/* b's READs are slow, so the window of the answering channel is full, and answers queue; what else was under way has ended
 * meanwhile. Then b answers. */
static void a_slow_read(uint32_t chunks_of_a)
{
	struct lr_rdma *a = exporter("ta", 3), *b = exporter("tb", 3);

	out_window = 64;
	fake.hold = true;
	for (uint32_t i = 0; i < chunks_of_a; i++)
		chunk_comes(PUT, "ta", 4000 * i, 4000);
	get_comes_on(0, GET, "tb", BYTES);
	assert_int_equal(fake.nheld, 25 + chunks_of_a);
	fill_answers();
	fake_release();
	work();
	assert_int_equal(nsent(RW_GET_DATA), 25);
	assert_int_equal(r->channel[1].nmessages, 0);
	lr_rdma_close(a);
	finish(b);
}

static void read__is_committed_while_answers_wait(void **state)
{
	(void)state;
	a_slow_read(0);
}

/* Only the READs behind make room for answers. */
static void read__does_not_wait_behind_a_write(void **state)
{
	(void)state;
	a_slow_read(3);
}

/* A WRITE that has failed is answered, and so is a notice: both wait for room. The READs behind them make the room. */
static void read__does_not_wait_behind_what_is_answered(void **state)
{
	struct lr_rdma *a = exporter("ta", 3), *b = exporter("tb", 3);

	(void)state;
	out_window = 64;
	for (uint32_t i = 0; i < LR_RDMA_NOTICES + 1; i++)
		end_comes(OTHER + i, "ta", 0);
	fake.hold = true;
	for (uint32_t i = 0; i < 100; i++)
		chunk_comes(PUT, "ta", 0, 4000);
	get_comes_on(0, GET, "tb", BYTES);
	fill_answers();
	lr_rdma_close(a);
	work();
	assert_int_equal(nanswered(PUT, LR_NO_REGION), 0);
	fake_release();
	work();
	assert_int_equal(nsent(RW_GET_DATA), 25);
	assert_true(nanswered(PUT, LR_NO_REGION) > 0);
	assert_int_equal(nanswered(OTHER + LR_RDMA_NOTICES, LR_NO_REGION), 1);
	finish(b);
}

/* An answer of the other site is finished while a request of it has no room for its answer. */
static void write_of_get__does_not_wait_behind_a_put_that_failed(void **state)
{
	struct lr_rdma *a = exporter("ta", 3), *b = exporter("tb", 3), *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);
	uint32_t finished;

	(void)state;
	work();
	out_window = 64;
	fake.hold = true;
	chunk_comes(PUT, "ta", 0, 4000);
	get_comes_on(0, GET, "tb", BYTES);
	fill_answers();
	finished = r->port[0]->nfinished;
	lr_rdma_close(a);
	work();
	assert_int_equal(r->port[0]->nfinished, finished);
	data_comes(op, 0, 4000);
	for (uint32_t k = 0; k < fake.nheld; k++) /* c answers, b does not */
		if (fake.held[k].from && fake.held[k].wr.opcode == IBV_WR_RDMA_WRITE) {
			fake_run(&fake.held[k]);
			fake.held[k].from = NULL;
		}
	work();
	assert_int_equal(r->port[0]->nfinished, finished + 1);
	fake_release();
	work();
	lr_rdma_close(b);
	finish(c);
}

/* Requests of the other site for one client do not delay what it has answered to that client. */
static void write_of_get__is_posted_in_turn_with_those_of_puts(void **state)
{
	struct lr_rdma *c = exporter("ta", 3);
	uint64_t op = begin(c, LRM_GET, LR_LINK);
	uint32_t gets = 0;

	(void)state;
	work();
	fake.hold = true;
	for (unsigned i = 0; i < 200; i++)
		chunk_comes(PUT, "ta", 0, 4000);
	data_comes(op, 0, 10 * RELAY_DATA_MAX);
	fake_release();
	fake.hold = true;
	work();
	for (uint32_t k = 0; k < fake.nheld; k++)
		gets += fake.held[k].sge.length == RELAY_DATA_MAX;
	assert_int_equal(gets, 10);
	assert_int_equal(fake.nheld, RDMA_WORKS);
	fake_release();
	finish(c);
}

/* The exporter completes 64 WRITEs in 9 s, which no timeout ends; a READ has its slot, and somebody else's answer is behind
 * the READ. */
static struct lr_rdma *read_behind_writes(void)
{
	struct lr_rdma *c = exporter("ta", 3);

	out_window = 200;
	fake.hold = true;
	for (unsigned i = 0; i < 450; i++)
		chunk_comes(PUT, "ta", 0, 4000);
	get_comes_on(0, GET, "ta", 4000);
	get_comes_on(0, OTHER, "tnone", 10);
	assert_int_equal(nanswered(OTHER, LR_NO_REGION), 0);
	passes(9 * NS_PER_S);
	fake_release();
	fake.hold = true;
	work();
	return c;
}

static void read__is_posted_before_waiting_writes(void **state)
{
	struct lr_rdma *c = read_behind_writes();

	(void)state;
	assert_int_equal(fake.held[0].wr.opcode, IBV_WR_RDMA_READ);
	fake_release();
	work();
	assert_int_equal(nanswered(OTHER, LR_NO_REGION), 1);
	assert_int_equal(nsent(RW_GET_DATA), 1);
	finish(c);
}

/* The time that a READ has counts from its slot. */
static void read__takes_10_s_from_its_slot_at_most(void **state)
{
	struct lr_rdma *c = read_behind_writes();

	(void)state;
	passes(NS_PER_S / 2);
	work();
	assert_non_null(relay_region_find(r, "ta"));
	passes(NS_PER_S);
	work();
	assert_null(relay_region_find(r, "ta"));
	assert_int_equal(nanswered(OTHER, LR_NO_REGION), 1);
	fake_release();
	finish(c);
}

/* Of one client's memory, on two channels. */
static void get__that_is_small_does_not_wait_for_a_large_one(void **state)
{
	static uint8_t big[1 << 20];
	struct lr_rdma *c = client();
	unsigned before = 0;

	(void)state;
	allow("10.1.1.0/24", RELAY_ALLOW_EXPORT, "t*");
	assert_int_equal(lr_rdma_export(c, "ta", -1, big, 0, sizeof(big), 1), 0);
	come(0, &(struct relay_head){.type = RW_GET, .op = GET, .name = "ta"}, NULL, 0);
	come(2, &(struct relay_head){.type = RW_GET, .op = OTHER, .name = "ta", .length = 1000}, NULL, 0);
	work();
	while (before < r->port[0]->nsent && r->port[0]->sent[before].head.op != OTHER)
		before++;
	assert_true(before < 4 * RDMA_AHEAD);
	assert_int_equal(nsent(RW_GET_END), 2);
	finish(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(read__is_committed_while_answers_wait),
	    TEST(read__does_not_wait_behind_a_write),
	    TEST(read__does_not_wait_behind_what_is_answered),
	    TEST(write_of_get__does_not_wait_behind_a_put_that_failed),
	    TEST(write_of_get__is_posted_in_turn_with_those_of_puts),
	    TEST(read__is_posted_before_waiting_writes),
	    TEST(read__takes_10_s_from_its_slot_at_most),
	    TEST(get__that_is_small_does_not_wait_for_a_large_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
