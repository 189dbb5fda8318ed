/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that RDMA clients of the relay export: what the other site puts into it and gets out of it, and how it is
 * withdrawn. */
#define _GNU_SOURCE
#include "rdma_fixture.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include "proxy/util/bytes.h"

#define CHUNKS ((BYTES + RELAY_DATA_MAX - 1) / RELAY_DATA_MAX)

enum { REQUESTS = 0, ANSWERS = 1, PUT = 501, GET = 502 };

static int dmabuf_fd = -1;

int fstatfs(int fd, struct statfs *fs)
{
	int rc = (int)syscall(SYS_fstatfs, fd, fs);

	if (rc == 0 && fd == dmabuf_fd)
		fs->f_type = DMA_BUF_MAGIC;
	return rc;
}

static int export(struct lr_rdma *c, const char *name, unsigned access)
{
	return lr_rdma_export(c, name, -1, memory, 0, BYTES, access);
}

/* A client that exports `memory` as tmine. */
static struct lr_rdma *exporting(unsigned access)
{
	struct lr_rdma *c;

	allow("10.1.1.0/24", RELAY_ALLOW_EXPORT, "t*");
	c = client();
	assert_int_equal(export(c, "tmine", access), 0);
	return c;
}

/* The other site puts `expected` into tmine, from one offset to another. */
static void put_comes(uint64_t op, uint32_t from, uint32_t to)
{
	for (uint32_t at = from; at < to; at += RELAY_DATA_MAX) {
		size_t len = to - at < RELAY_DATA_MAX ? to - at : RELAY_DATA_MAX;
		const struct relay_head h = {.type = RW_PUT, .op = op, .name = "tmine", .offset = at, .length = len};

		come(REQUESTS, &h, expected + at, len);
	}
	work();
}

static void put_end_comes(uint64_t op, uint64_t length)
{
	const struct relay_head h = {.fence = true, .type = RW_PUT_END, .op = op, .name = "tmine", .length = length};

	come(REQUESTS, &h, "over", 4);
	work();
}

static void get_comes(uint64_t op, uint64_t offset, uint64_t length)
{
	come(REQUESTS, &(struct relay_head){.type = RW_GET, .op = op, .name = "tmine", .offset = offset, .length = length}, NULL,
	     0);
	work();
}

/* The other site hears of the operation's end, perhaps for each of its chunks, and of no other end. */
static void expect_status(uint64_t op, enum lr_status status)
{
	assert_true(nsent(RW_STATUS) > 0);
	for (uint32_t i = 0; i < r->port[0]->nsent; i++) {
		const struct relay_head *h = &r->port[0]->sent[i].head;

		if (h->type != RW_STATUS)
			continue;
		assert_int_equal(h->op, op);
		assert_int_equal(h->status, status);
	}
}

/* The program hears why its region has gone. */
static void expect_lost(struct lr_rdma *c, const char *name, enum lr_status status)
{
	struct lr_event ev;

	assert_int_equal(lr_rdma_wait(c, &ev, 0), 1);
	assert_int_equal(ev.type, LR_EV_LOST);
	assert_string_equal(ev.name, name);
	assert_int_equal(ev.status, status);
}

/* --- what works --- */

static void region__a_put_is_written_and_its_notice_comes(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_WRITE);
	struct lr_event ev;

	(void)state;
	fake.hold = true;
	put_comes(PUT, 0, BYTES);
	assert_int_equal(r->port[0]->nfinished, 0); /* a fence behind them waits */
	fake_release();
	work();
	assert_int_equal(r->port[0]->nfinished, CHUNKS);
	assert_memory_equal(memory, expected, BYTES);
	put_end_comes(PUT, BYTES);
	expect_status(PUT, LR_OK);
	assert_int_equal(lr_rdma_wait(c, &ev, 0), 1);
	assert_int_equal(ev.type, LR_EV_NOTICE);
	assert_string_equal(ev.name, "tmine");
	assert_int_equal(ev.offset, 0);
	assert_int_equal(ev.bytes, BYTES);
	assert_int_equal(ev.len, 4);
	assert_memory_equal(ev.data, "over", 4);
	assert_int_equal(counted(&r->count.relay_rdma_written_bytes), BYTES);
	assert_int_equal(counted(&r->count.relay_copied_bytes), 0);
	assert_int_equal(relay_region_find(r, "tmine")->bytes_in, BYTES);
	assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
	finish(c);
}

static void region__a_get_reads_it(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_READ);
	struct relay_port *p = r->port[0];
	uint64_t got = 0;

	(void)state;
	memcpy(memory, expected, BYTES);
	get_comes(GET, 1000, BYTES - 1000);
	for (uint32_t i = 0; i < p->nsent; i++) {
		if (p->sent[i].head.type != RW_GET_DATA)
			continue;
		assert_int_equal(p->sent[i].head.op, GET);
		assert_memory_equal(p->sent[i].data, expected + 1000 + p->sent[i].head.offset, p->sent[i].len);
		got += p->sent[i].len;
	}
	assert_int_equal(got, BYTES - 1000);
	assert_int_equal(nsent(RW_GET_END), 1);
	assert_int_equal(sent(RW_GET_END)->status, LR_OK);
	assert_int_equal(counted(&r->count.relay_copied_bytes), 0);
	finish(c);
}

static void region__a_get_of_pieces(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_READ);
	const struct relay_head h = {.type = RW_GET, .op = GET, .name = "tmine", .length = 3000, .value = 2};
	uint8_t pieces[2 * RELAY_PIECE_LEN];

	(void)state;
	memcpy(memory, expected, BYTES);
	for (unsigned i = 0; i < 2; i++) {
		put_be64(pieces + i * RELAY_PIECE_LEN, i ? 100 : 50000);
		put_be64(pieces + i * RELAY_PIECE_LEN + 8, i ? 2000 : 1000);
	}
	come(REQUESTS, &h, pieces, sizeof(pieces));
	work();
	assert_int_equal(nsent(RW_GET_DATA), 2);
	for (uint32_t i = 0; i < r->port[0]->nsent; i++)
		if (r->port[0]->sent[i].head.type == RW_GET_DATA)
			assert_memory_equal(r->port[0]->sent[i].data,
			                    r->port[0]->sent[i].head.offset ? expected + 100 : expected + 50000,
			                    r->port[0]->sent[i].len);
	finish(c);
}

static void region__of_a_file(void **state)
{
	struct lr_rdma *c = client();
	int fd = memfd_create("test", MFD_CLOEXEC), readable;
	char path[64], back[5000];

	(void)state;
	allow("10.1.1.0/24", RELAY_ALLOW_EXPORT, "t*");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	readable = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, 6000), 0);
	assert_int_equal(lr_rdma_export(c, "tmine", fd, NULL, 1000, 6000, 3), -ERANGE);
	assert_int_equal(size_of(fd), 6000);
	assert_int_equal(lr_rdma_export(c, "tmine", readable, NULL, 1000, 5000, 1), -EACCES); /* it would be a copy */
	assert_int_equal(lr_rdma_export(c, "tmine", fd, NULL, 1000, 5000, 3), 0);
	put_comes(PUT, 0, 5000);
	assert_int_equal(pread(fd, back, sizeof(back), 1000), 5000);
	assert_memory_equal(back, expected, 5000);
	assert_int_equal(lr_rdma_unexport(c, "tmine"), 0);
	close(fd);
	close(readable);
	finish(c);
}

/* A dma-buf is registered as it is, and has no address of the program's. */
static void region__of_a_dma_buf(void **state)
{
	struct lr_rdma *c = client();

	(void)state;
	allow("10.1.1.0/24", RELAY_ALLOW_EXPORT, "t*");
	dmabuf_fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(dmabuf_fd, 8192), 0);
	assert_int_equal(lr_rdma_export(c, "tmine", dmabuf_fd, NULL, 4096, 4096, 3), 0);
	put_comes(PUT, 0, 4096);
	assert_int_equal(fake.dmabuf_offset, 4096);
	assert_memory_equal(fake.dmabuf + 4096, expected, 4096);
	finish(c);
	close(dmabuf_fd);
	dmabuf_fd = -1;
}

/* --- bounds and rights --- */

static void region__out_of_bounds(void **state)
{
	struct lr_rdma *c = exporting(3);

	(void)state;
	come(REQUESTS, &(struct relay_head){.type = RW_PUT, .op = PUT, .name = "tmine", .offset = BYTES - 5, .length = 10},
	     expected, 10);
	work();
	expect_status(PUT, LR_OUT_OF_BOUNDS);
	assert_int_equal(fake.nwrites, 0);
	finish(c);
}

static void region__may_not_be_read(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_WRITE);

	(void)state;
	get_comes(GET, 0, 10);
	expect_status(GET, LR_PERMISSION);
	assert_int_equal(fake.nreads, 0);
	finish(c);
}

static void export__who_may(void **state)
{
	struct lr_rdma *c = client();

	(void)state;
	assert_int_equal(export(c, "target", 3), -EACCES); /* puts and gets of that name give no right to be it */
	allow("10.1.1.0/24", RELAY_ALLOW_EXPORT, "t*");
	allow("10.1.1.0/24", RELAY_ALLOW_EXPORT, "copy*");
	assert_int_equal(export(c, "other", 3), -EACCES);
	assert_int_equal(export(c, "copy.x", 3), -EACCES); /* [Export]'s */
	assert_int_equal(export(c, "target", 0), -EINVAL);
	assert_int_equal(export(c, "tar\nget", 3), -EINVAL); /* a list of regions has a line for each */
	assert_int_equal(export(c, "target", 3), 0);
	assert_int_equal(export(c, "target", 3), -EEXIST);
	assert_int_equal(counted(&r->count.relay_rdma_requests_refused_region), 3);
	assert_int_equal(lr_rdma_unexport(c, "other"), -ENOENT);
	finish(c);
	assert_null(relay_region_find(r, "target"));
}

static void export__too_many(void **state)
{
	struct lr_rdma *c = client();
	char name[LR_NAME_MAX];

	(void)state;
	allow("10.1.1.0/24", RELAY_ALLOW_EXPORT, "t*");
	for (unsigned i = 0; i < RDMA_REGIONS_OF_CLIENT; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		assert_int_equal(export(c, name, 3), 0);
	}
	assert_int_equal(export(c, "tmore", 3), -ENOSPC);
	assert_int_equal(lr_rdma_unexport(c, "t0"), 0);
	assert_int_equal(export(c, "tmore", 3), 0);
	finish(c);
}

/* An edge that does not know it would end the connection. */
static void export__an_older_edge(void **state)
{
	struct lr_rdma *c;

	(void)state;
	allow("10.1.1.0/24", RELAY_ALLOW_EXPORT, "t*");
	fake.unknown = UINT64_MAX;
	c = client();
	assert_int_equal(export(c, "target", 3), -EOPNOTSUPP);
	assert_int_equal(counted(&r->count.relay_rdma_requests), 0);
	finish(c);
}

/* --- what is withdrawn --- */

static bool was_answered;

/* The edge has the request to withdraw the region: it answers when what was posted has ended. */
static void work_and_release(void)
{
	unsigned before = fake.nsends;

	fake.pump = work;
	work();
	was_answered = fake.nsends != before;
	fake_release();
	work();
}

static void unexport__waits_for_what_is_under_way(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_WRITE);

	(void)state;
	fake.hold = true;
	for (unsigned i = 0; i < 4; i++)
		put_comes(PUT, 0, BYTES);
	assert_int_equal(fake.nheld, RDMA_WORKS);
	fake.pump = work_and_release;
	assert_int_equal(lr_rdma_unexport(c, "tmine"), 0);
	assert_false(was_answered);
	assert_int_equal(fake.nwrites, RDMA_WORKS); /* nothing was posted behind the request */
	work();
	assert_int_equal(slots_in_use(), 0);
	expect_status(PUT, LR_NO_REGION);
	finish(c);
}

static void unexport__ends_a_get(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_READ);

	(void)state;
	fake.hold = true;
	get_comes(GET, 0, BYTES);
	assert_true(fake.nheld > 0);
	fake.pump = work_and_release;
	assert_int_equal(lr_rdma_unexport(c, "tmine"), 0);
	assert_false(was_answered);
	work();
	expect_status(GET, LR_NO_REGION);
	assert_int_equal(nsent(RW_GET_DATA) + nsent(RW_GET_END), 0);
	assert_int_equal(slots_in_use(), 0);
	finish(c);
}

/* The same name again is other memory: a put that has begun does not go on in it. */
static void unexport__a_put_does_not_go_on_in_the_next(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_WRITE);

	(void)state;
	put_comes(PUT, 0, 10000);
	assert_int_equal(lr_rdma_unexport(c, "tmine"), 0);
	assert_int_equal(export(c, "tmine", 3), 0);
	put_comes(PUT, 10000, 20000);
	expect_status(PUT, LR_NO_REGION);
	finish(c);
}

static void client_gone_while_its_region_is_written(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_WRITE);

	(void)state;
	fake.hold = true;
	for (unsigned i = 0; i < 4; i++)
		put_comes(PUT, 0, BYTES);
	finish(c);
	assert_int_equal(slots_in_use(), 0);
	expect_status(PUT, LR_NO_REGION);
	assert_null(relay_region_find(r, "tmine"));
}

static void client_gone_while_its_region_is_read(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_READ);

	(void)state;
	fake.hold = true;
	get_comes(GET, 0, BYTES);
	finish(c);
	assert_int_equal(slots_in_use(), 0);
	expect_status(GET, LR_NO_REGION);
}

/* Withdrawn, and gone before it was answered. */
static void client_gone_while_its_region_is_withdrawn(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_WRITE);

	(void)state;
	fake.hold = true;
	put_comes(PUT, 0, BYTES);
	assert_int_equal(relay_region_remove(r, relay_region_find(r, "tmine")->client, "tmine", 9), 1);
	finish(c);
	assert_int_equal(slots_in_use(), 0);
}

static void region__with_a_wrong_key(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_WRITE);

	(void)state;
	void_all_keys();
	put_comes(PUT, 0, BYTES);
	assert_int_equal(sent(RW_STATUS)->status, LR_IO_REMOTE); /* the first counts there; the region is gone with its client */
	assert_int_equal(slots_in_use(), 0);
	expect_lost(c, "tmine", LR_CLIENT_MEMORY);
	expect_over(c);
	finish(c);
}

/* Answers need room: what has ended waits for it. */
static void region__completions_wait_for_room(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_WRITE);

	(void)state;
	fake.hold = true;
	put_comes(PUT, 0, BYTES);
	r->port[0]->full = true;
	fake_release();
	work();
	assert_int_equal(r->port[0]->nfinished, 0);
	r->port[0]->full = false;
	work();
	assert_int_equal(r->port[0]->nfinished, CHUNKS);
	finish(c);
}

/* A handle that connects again exports again. */
static void reopen__exports_again(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_WRITE), *again;

	(void)state;
	void_all_keys();
	put_comes(PUT, 0, BYTES);
	expect_lost(c, "tmine", LR_CLIENT_MEMORY);
	expect_over(c);
	assert_int_equal(lr_rdma_reopen(c, &again), 0);
	work();
	assert_int_equal(export(again, "tmine", 3), 0);
	lr_rdma_close(c);
	put_comes(PUT + 1, 0, BYTES);
	assert_memory_equal(memory, expected, BYTES);
	finish(again);
}

/* As lr_reopen() does it: the edge has not dropped the old connection when the new one exports. */
static void reopen__exports_its_names_again_at_once(void **state)
{
	struct lr_rdma *c = exporting(3), *again;

	(void)state;
	assert_int_equal(lr_rdma_reopen(c, &again), 0);
	assert_int_equal(export(again, "tmine", 3), 0);
	lr_rdma_close(c);
	work();
	put_comes(PUT, 0, BYTES);
	assert_memory_equal(memory, expected, BYTES);
	finish(again);
}

/* The edge hears of the end and of the request in one turn. */
static void export__of_a_name_of_a_connection_that_has_broken(void **state)
{
	struct lr_rdma *c = exporting(3), *other = client();

	(void)state;
	lr_rdma_close(c);
	assert_int_equal(export(other, "tmine", 3), 0);
	finish(other);
}

static void open__connections_that_have_broken_do_not_count(void **state)
{
	struct lr_rdma *c[RDMA_CLIENTS_OF_HOST], *more;

	(void)state;
	for (unsigned i = 0; i < RDMA_CLIENTS_OF_HOST; i++)
		c[i] = client();
	lr_rdma_close(c[0]);
	assert_int_equal(lr_rdma_open("10.1.1.1", &fake_verbs, &more), 0);
	for (unsigned i = 1; i < RDMA_CLIENTS_OF_HOST; i++)
		lr_rdma_close(c[i]);
	finish(more);
}

/* --- who hears of a failure --- */

/* The region's memory fails while a put of the same client is under way. */
static void region__that_fails_is_not_the_fault_of_a_put(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_WRITE);
	uint64_t op;

	(void)state;
	assert_int_equal(lr_rdma_export(c, "tother", -1, memory, 0, BYTES, LR_PEER_READ), 0);
	fake.hold = true;
	op = begin(c, LRM_PUT, LR_DONE);
	put_comes(PUT, 0, 4000);
	for (uint32_t i = 0; i < FAKE_MRS; i++)
		fake.access[i] &= ~IBV_ACCESS_REMOTE_WRITE; /* the region's only */
	fake_release();
	work();
	expect_end(c, op, LR_CLIENT_GONE);
	expect_lost(c, "tmine", LR_CLIENT_MEMORY);
	expect_over(c);
	finish(c);
}

/* It has no transfers. */
static void region__its_client_hears_why_the_connection_has_ended(void **state)
{
	struct lr_rdma *c = exporting(LR_PEER_WRITE);

	(void)state;
	assert_int_equal(lr_rdma_export(c, "tother", -1, memory, 0, BYTES, LR_PEER_READ), 0);
	fake.silent = true;
	put_comes(PUT, 0, 4000);
	passes(11 * NS_PER_S);
	work();
	fake.silent = false;
	fake_event(fake.deaf, RDMA_CM_EVENT_DISCONNECTED, NULL);
	expect_lost(c, "tother", LR_CLIENT_GONE);
	expect_lost(c, "tmine", LR_CLIENT_GONE);
	expect_over(c);
	finish(c);
}

static void late_and_pass(void)
{
	work();
	passes(31 * NS_PER_S);
}

/* The program may use its memory again when it hears that the connection has ended. */
static void region__is_withdrawn_when_lr_wait_says_so(void **state)
{
	static uint8_t other[10000];
	struct lr_rdma *c = exporting(3);
	struct lr_event ev;

	(void)state;
	assert_int_equal(lr_rdma_export(c, "tother", -1, other, 0, sizeof(other), 3), 0);
	fake.hold = true;
	chunk_comes(PUT, "tother", 0, 4000);
	r->port[0]->full = true;
	fake_release();
	fake.pump = late_and_pass;
	assert_int_equal(lr_rdma_unexport(c, "tother"), -EPIPE); /* the edge's answer is late */
	fake.pump = work;
	r->port[0]->full = false;
	assert_int_equal(lr_rdma_wait(c, &ev, 0), -EPIPE);
	work();
	put_comes(PUT + 1, 0, 4000);
	assert_memory_not_equal(memory, expected, 4000);
	assert_null(relay_region_find(r, "tmine"));
	finish(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(region__a_put_is_written_and_its_notice_comes),
	    TEST(region__a_get_reads_it),
	    TEST(region__a_get_of_pieces),
	    TEST(region__of_a_file),
	    TEST(region__of_a_dma_buf),
	    TEST(region__out_of_bounds),
	    TEST(region__may_not_be_read),
	    TEST(export__who_may),
	    TEST(export__too_many),
	    TEST(export__an_older_edge),
	    TEST(unexport__waits_for_what_is_under_way),
	    TEST(unexport__ends_a_get),
	    TEST(unexport__a_put_does_not_go_on_in_the_next),
	    TEST(client_gone_while_its_region_is_written),
	    TEST(client_gone_while_its_region_is_read),
	    TEST(client_gone_while_its_region_is_withdrawn),
	    TEST(region__with_a_wrong_key),
	    TEST(region__completions_wait_for_room),
	    TEST(reopen__exports_again),
	    TEST(reopen__exports_its_names_again_at_once),
	    TEST(export__of_a_name_of_a_connection_that_has_broken),
	    TEST(open__connections_that_have_broken_do_not_count),
	    TEST(region__that_fails_is_not_the_fault_of_a_put),
	    TEST(region__its_client_hears_why_the_connection_has_ended),
	    TEST(region__is_withdrawn_when_lr_wait_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
