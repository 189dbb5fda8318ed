/* SPDX-License-Identifier: Apache-2.0 */
/* Notices to RDMA clients: when a put with a notice is done, and what a client that takes none delays. */
#define _GNU_SOURCE
#include "rdma_fixture.h"

#include "daemon/relay/relay_rdma_priv.h"

enum { PUT = 501, OTHER = 601 };

/* Ends of `n` puts without bytes come, with a notice each. */
static void ends_come(uint64_t op, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		end_comes(op + i, name, 0);
}

/* Notices that the program takes. */
static unsigned take(struct lr_rdma *c, unsigned most)
{
	struct lr_event ev;
	unsigned n = 0;

	while (n < most && lr_rdma_wait(c, &ev, 0) == 1) {
		assert_int_equal(ev.type, LR_EV_NOTICE);
		n++;
	}
	return n;
}

/* LR_DONE: the notice is delivered. */
static void notice__is_delivered_before_the_put_is_done(void **state)
{
	struct lr_rdma *c = exporter("ta", 3);
	uint32_t finished;

	(void)state;
	chunk_comes(PUT, "ta", 0, 4000);
	finished = r->port[0]->nfinished;
	fake.silent = true; /* the LAN fails now */
	end_comes(PUT, "ta", 4000);
	assert_int_equal(nsent(RW_STATUS), 0);
	assert_int_equal(r->port[0]->nfinished, finished); /* after a kill it is executed again */
	passes(9 * NS_PER_S);
	work();
	assert_int_equal(nsent(RW_STATUS), 0);
	passes(2 * NS_PER_S);
	work();
	assert_int_equal(nanswered(PUT, LR_NO_REGION), 1);
	assert_int_equal(nsent(RW_STATUS), 1);
	assert_int_equal(r->port[0]->nfinished, finished + 1);
	fake.silent = false;
	finish(c);
}

static void notice__of_a_client_that_goes(void **state)
{
	struct lr_rdma *c = exporter("ta", 3);

	(void)state;
	ends_come(PUT, LR_RDMA_NOTICES + 5, "ta");
	assert_int_equal(nanswered(0, LR_OK), LR_RDMA_NOTICES);
	finish(c);
	assert_int_equal(nanswered(0, LR_NO_REGION), 5);
	assert_int_equal(slots_in_use(), 0);
}

static void notice__of_a_region_that_is_withdrawn(void **state)
{
	struct lr_rdma *c = exporter("ta", 3);

	(void)state;
	ends_come(PUT, LR_RDMA_NOTICES + 5, "ta");
	assert_int_equal(lr_rdma_unexport(c, "ta"), 0);
	work();
	assert_int_equal(nanswered(0, LR_NO_REGION), 5);
	assert_int_equal(take(c, 100), LR_RDMA_NOTICES);
	finish(c);
}

/* No time passes: the program is busy while 400 small puts with notices end. */
static void notice__a_burst_is_delivered_as_the_program_takes_it(void **state)
{
	struct lr_rdma *c = exporter("ta", 3);

	(void)state;
	ends_come(PUT, 400, "ta");
	assert_int_equal(nanswered(0, LR_OK), LR_RDMA_NOTICES);
	assert_int_equal(take(c, 1000), 400);
	work();
	assert_int_equal(nanswered(0, LR_OK), 400);
	assert_int_equal(nsent(RW_STATUS), 400);
	assert_int_equal(counted(&r->count.relay_rdma_notices_refused), 0);
	finish(c);
}

/* It stays connected, and what others put with a notice is refused, at first after 10 s and then at once. */
static void notice__that_is_not_taken_for_10_s(void **state)
{
	struct lr_rdma *c = exporter("ta", 3);

	(void)state;
	ends_come(PUT, LR_RDMA_NOTICES + 1, "ta");
	passes(9 * NS_PER_S);
	work();
	assert_int_equal(nsent(RW_STATUS), LR_RDMA_NOTICES);
	passes(2 * NS_PER_S);
	work();
	assert_int_equal(nanswered(PUT + LR_RDMA_NOTICES, LR_NO_ROOM), 1);
	ends_come(OTHER, 3, "ta");
	assert_int_equal(nanswered(0, LR_NO_ROOM), 4);
	assert_int_equal(counted(&r->count.relay_rdma_notices_refused), 4);
	assert_int_equal(counted(&r->count.relay_rdma_broken), 0);
	chunk_comes(OTHER + 3, "ta", 0, 4000); /* without a notice */
	request_comes(0, (struct relay_head){.fence = true, .type = RW_PUT_END, .op = OTHER + 3, .length = 4000}, "ta", NULL, 0);
	assert_int_equal(nanswered(OTHER + 3, LR_OK), 1);
	assert_memory_equal(memory, expected, 4000);
	assert_int_equal(take(c, 1000), LR_RDMA_NOTICES);
	ends_come(OTHER + 4, 1, "ta");
	assert_int_equal(nanswered(OTHER + 4, LR_OK), 1);
	assert_int_equal(take(c, 1000), 1);
	finish(c);
}

/* Of a program that takes one notice in a second the edge hears each. */
static void notice__of_a_program_that_is_slow(void **state)
{
	struct lr_rdma *c = exporter("ta", 3);

	(void)state;
	ends_come(PUT, LR_RDMA_NOTICES + 8, "ta");
	for (unsigned i = 0; i < 8; i++) {
		passes(NS_PER_S);
		assert_int_equal(take(c, 1), 1);
		work();
	}
	assert_int_equal(nanswered(0, LR_OK), LR_RDMA_NOTICES + 8);
	finish(c);
}

/* No put waits longer than 10 s for those before it. */
static void notice__waits_for_10_s_at_most(void **state)
{
	struct lr_rdma *c = exporter("ta", 3);

	(void)state;
	ends_come(PUT, LR_RDMA_NOTICES + 20, "ta");
	for (unsigned i = 0; i < 11; i++) {
		passes(NS_PER_S);
		assert_int_equal(take(c, 1), 1);
		work();
	}
	assert_int_equal(nanswered(0, LR_OK) + nanswered(0, LR_NO_ROOM), LR_RDMA_NOTICES + 20);
	assert_true(nanswered(0, LR_NO_ROOM) > 0);
	finish(c);
}

/* The thread did not run for 11 s: what has come meanwhile counts. */
static void notice__does_not_pay_for_a_late_thread(void **state)
{
	struct lr_rdma *c = exporter("ta", 3);

	(void)state;
	ends_come(PUT, LR_RDMA_NOTICES + 1, "ta");
	fake.pump = NULL;
	assert_int_equal(take(c, 1000), LR_RDMA_NOTICES);
	passes(11 * NS_PER_S);
	fake.pump = work;
	working = true;
	relay_rdma_turn(r); /* before it has looked at completions */
	working = false;
	work();
	assert_int_equal(nanswered(0, LR_OK), LR_RDMA_NOTICES + 1);
	finish(c);
}

/* 32 notices that nobody takes leave the receives for what the program's own requests cause. */
static void notice__leaves_room_for_ends_of_own_operations(void **state)
{
	struct lr_rdma *c = exporter("ta", 3);
	uint64_t op[RDMA_OPS_OF_CLIENT];
	struct lr_event ev;
	unsigned ends = 0;

	(void)state;
	fake.hold = true;
	for (unsigned i = 0; i < RDMA_OPS_OF_CLIENT; i++)
		op[i] = begin(c, LRM_GET, LR_LINK);
	ends_come(PUT, 100, "ta");
	for (unsigned i = 0; i < RDMA_OPS_OF_CLIENT; i++) {
		data_comes(op[i], 0, 1000);
		fake_release();
		come(1, &(struct relay_head){.fence = true, .type = RW_GET_END, .op = op[i], .length = BYTES}, NULL, 0);
		work();
	}
	passes(11 * NS_PER_S);
	work();
	assert_non_null(relay_region_find(r, "ta"));
	while (lr_rdma_wait(c, &ev, 0) == 1)
		ends += ev.type == LR_EV_DONE;
	assert_int_equal(ends, RDMA_OPS_OF_CLIENT);
	finish(c);
}

/* --- older ends --- */

/* An older library tells nothing: as many notices as it has receives, and the next ends the connection after 10 s. */
static void notice__to_an_older_library(void **state)
{
	struct lr_rdma *c;

	(void)state;
	fake.unknown = LR_RDMA_KNOWS_TAKEN;
	c = exporter("ta", 3);
	ends_come(PUT, 3 * LR_RDMA_NOTICES + 1, "ta");
	assert_int_equal(nanswered(0, LR_OK), 3 * LR_RDMA_NOTICES);
	passes(11 * NS_PER_S);
	work();
	assert_int_equal(nanswered(0, LR_NO_REGION), 1);
	assert_int_equal(counted(&r->count.relay_rdma_broken), 1);
	finish(c);
}

/* An older edge ends the connection for a message that it does not know. */
static void notice__of_an_older_edge(void **state)
{
	struct lr_rdma *c;

	(void)state;
	fake.unknown = LR_RDMA_KNOWS_TAKEN;
	c = exporter("ta", 3);
	ends_come(PUT, 40, "ta");
	assert_int_equal(take(c, 1000), 40);
	work();
	assert_int_equal(counted(&r->count.relay_rdma_broken), 0);
	assert_int_equal(r->malformed, 0);
	finish(c);
}

static void taken__more_than_there_were_ends_the_connection(void **state)
{
	struct lr_rdma *c = exporter("ta", 3);

	(void)state;
	ends_come(PUT, 3, "ta");
	assert_false(relay_rdma_taken(relay_region_find(r, "ta")->client->rdma, 4));
	assert_true(relay_rdma_taken(relay_region_find(r, "ta")->client->rdma, 2));
	assert_false(relay_rdma_taken(relay_region_find(r, "ta")->client->rdma, 1));
	finish(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(notice__is_delivered_before_the_put_is_done),
	    TEST(notice__of_a_client_that_goes),
	    TEST(notice__of_a_region_that_is_withdrawn),
	    TEST(notice__a_burst_is_delivered_as_the_program_takes_it),
	    TEST(notice__that_is_not_taken_for_10_s),
	    TEST(notice__of_a_program_that_is_slow),
	    TEST(notice__waits_for_10_s_at_most),
	    TEST(notice__does_not_pay_for_a_late_thread),
	    TEST(notice__leaves_room_for_ends_of_own_operations),
	    TEST(notice__to_an_older_library),
	    TEST(notice__of_an_older_edge),
	    TEST(taken__more_than_there_were_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
