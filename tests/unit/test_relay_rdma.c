/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers of RDMA clients of the relay, who may connect, and what ends a connection. */
#define _GNU_SOURCE
#include "rdma_fixture.h"

/* --- what works --- */

static void put__crosses_whole_and_its_end_behind(void **state)
{
	struct lr_rdma *c = client();
	struct relay_port *p = r->port[0];
	uint64_t op, got = 0;
	struct lr_event ev;

	(void)state;
	memcpy(memory, expected, BYTES);
	op = begin(c, LRM_PUT, LR_DONE);
	work();
	assert_int_equal(nsent(RW_PUT), (BYTES + RELAY_DATA_MAX - 1) / RELAY_DATA_MAX);
	for (uint32_t i = 0; i < p->nsent; i++) {
		if (p->sent[i].head.type != RW_PUT)
			continue;
		assert_string_equal(p->sent[i].head.name, "target");
		assert_memory_equal(p->sent[i].data, expected + p->sent[i].head.offset - 7, p->sent[i].len);
		got += p->sent[i].len;
	}
	assert_int_equal(got, BYTES);
	assert_int_equal(counted(&r->count.relay_rdma_read_bytes), BYTES);
	assert_int_equal(counted(&r->count.relay_copied_bytes), 0);
	assert_int_equal(counted(&r->count.relay_rdma_connections), 1);
	assert_int_equal(r->count.rdma_clients, 1);
	assert_int_equal(p->sent[p->nsent - 1].head.type, RW_PUT_END);
	assert_memory_equal(p->sent[p->nsent - 1].data, "done", 4);
	assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
	status_comes(op, LR_OK);
	expect_end(c, op, LR_OK);
	finish(c);
	assert_int_equal(r->count.rdma_clients, 0);
	assert_int_equal(counted(&r->count.relay_rdma_requests), 1);
	assert_int_equal(counted(&r->count.relay_operations), 1);
	assert_int_equal(counted(&r->count.relay_operations_failed), 0);
	assert_int_equal(counted(&r->count.relay_rdma_broken), 0);
}

static void put__near_ends_when_it_is_committed(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_PUT, LR_NEAR);

	(void)state;
	work();
	expect_end(c, op, LR_OK);
	status_comes(op, LR_OK);
	finish(c);
}

/* The end of the put would count what is void as done. */
static void put__end_waits_for_reads(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op;

	(void)state;
	fake.hold = true;
	op = begin(c, LRM_PUT, LR_NEAR);
	work();
	assert_int_equal(nsent(RW_PUT) + nsent(RW_PUT_END), 0);
	assert_true(slots_in_use() > 0 && slots_in_use() <= RDMA_AHEAD);
	fake_release();
	work();
	assert_int_equal(nsent(RW_PUT_END), 1);
	expect_end(c, op, LR_OK);
	status_comes(op, LR_OK);
	finish(c);
}

static void get__is_written_and_each_slot_finished(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);

	(void)state;
	work();
	assert_int_equal(sent(RW_GET)->length, BYTES);
	fake.hold = true;
	data_comes(op, 0, BYTES);
	assert_int_equal(r->port[0]->nfinished, 0);
	fake_release();
	work();
	assert_int_equal(r->port[0]->nfinished, (BYTES + RELAY_DATA_MAX - 1) / RELAY_DATA_MAX);
	come(1, &(struct relay_head){.fence = true, .type = RW_GET_END, .op = op, .length = BYTES}, NULL, 0);
	work();
	expect_end(c, op, LR_OK);
	assert_memory_equal(memory, expected, BYTES);
	assert_int_equal(counted(&r->count.relay_rdma_written_bytes), BYTES);
	assert_int_equal(counted(&r->count.relay_copied_bytes), 0);
	finish(c);
}

static void put__of_a_file(void **state)
{
	struct lr_rdma *c = client();
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct lr_transfer t = {.fd = fd, .offset = 100, .length = 5000, .region = "target", .promise = LR_NEAR};
	uint64_t op;

	(void)state;
	assert_true(pwrite(fd, expected, 6000, 0) == 6000);
	assert_int_equal(lr_rdma_transfer(c, LRM_PUT, &t, &op), 0);
	work();
	assert_memory_equal(r->port[0]->sent[0].data, expected + 100, RELAY_DATA_MAX);
	expect_end(c, op, LR_OK);
	t.length = 7000;
	assert_int_equal(lr_rdma_transfer(c, LRM_PUT, &t, &op), -ERANGE);
	status_comes(sent(RW_PUT_END)->op, LR_OK);
	close(fd);
	finish(c);
}

static uint64_t get_into(struct lr_rdma *c, int fd, uint64_t offset)
{
	struct lr_transfer t = {.fd = fd, .offset = offset, .length = 5000, .region = "target"};
	uint64_t op;

	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &t, &op), 0);
	work();
	return op;
}

static void get_ends(struct lr_rdma *c, uint64_t op, enum lr_status status)
{
	come(1,
	     &(struct relay_head){
	         .fence = true, .type = RW_GET_END, .op = op, .status = (uint8_t)status, .length = 5000},
	     NULL, 0);
	work();
	expect_end(c, op, status);
}

/* A get that fails leaves its file as it was. */
static void get__into_a_file_that_is_shorter(void **state)
{
	struct lr_rdma *c = client();
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct lr_transfer refused = {.fd = fd, .offset = 2000, .length = 5000, .region = "other"};
	uint64_t op;

	(void)state;
	assert_int_equal(ftruncate(fd, 1000), 0);
	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &refused, &op), -EACCES);
	assert_int_equal(size_of(fd), 1000);
	op = get_into(c, fd, 500);
	assert_int_equal(size_of(fd), 5500);
	get_ends(c, op, LR_NO_REGION);
	assert_int_equal(size_of(fd), 1000);
	get_ends(c, get_into(c, fd, 500), LR_OK);
	assert_int_equal(size_of(fd), 5500);
	get_ends(c, get_into(c, fd, 0), LR_NO_REGION); /* it has not enlarged the file */
	assert_int_equal(size_of(fd), 5500);
	close(fd);
	finish(c);
}

/* What others have written in the meantime stays. */
static void get__that_fails_cuts_off_its_own_bytes_only(void **state)
{
	struct lr_rdma *c = client();
	int fd = memfd_create("test", MFD_CLOEXEC);
	uint64_t op, first, second;

	(void)state;
	op = get_into(c, fd, 6000);
	get_ends(c, get_into(c, fd, 0), LR_OK);
	get_ends(c, op, LR_NO_REGION);
	assert_int_equal(size_of(fd), 6000);
	first = get_into(c, fd, 6000);
	second = get_into(c, fd, 11000);
	get_ends(c, first, LR_NO_REGION);
	assert_int_equal(size_of(fd), 16000);
	get_ends(c, second, LR_NO_REGION);
	assert_int_equal(size_of(fd), 11000);
	get_into(c, fd, 11000); /* is given up with its handle */
	finish(c);
	assert_int_equal(size_of(fd), 11000);
	close(fd);
}

static void put__fails_at_the_other_site(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_PUT, LR_DONE);

	(void)state;
	work();
	status_comes(op, LR_NO_REGION);
	expect_end(c, op, LR_NO_REGION);
	finish(c);
}

/* --- memory that cannot be reached --- */

static void put__with_a_wrong_key(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op;

	(void)state;
	fake.hold = true;
	op = begin(c, LRM_PUT, LR_NEAR);
	void_all_keys();
	fake_release();
	work();
	assert_int_equal(nsent(RW_PUT_END), 0);
	expect_end(c, op, LR_CLIENT_MEMORY);
	assert_int_equal(counted(&r->count.relay_rdma_broken), 1);
	expect_over(c);
	finish(c);
}

static void get__with_a_wrong_key(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);

	(void)state;
	work();
	void_all_keys();
	data_comes(op, 0, BYTES);
	assert_int_equal(r->port[0]->nfinished, (BYTES + RELAY_DATA_MAX - 1) / RELAY_DATA_MAX);
	assert_int_equal(nsent(RW_CANCEL), 1);
	expect_end(c, op, LR_CLIENT_MEMORY);
	finish(c);
}

static void client_gone_while_it_is_read(void **state)
{
	struct lr_rdma *c = client();

	(void)state;
	fake.hold = true;
	begin(c, LRM_PUT, LR_NEAR);
	work();
	assert_true(slots_in_use() > 0);
	finish(c);
	assert_int_equal(slots_in_use(), 0);
	assert_int_equal(nsent(RW_PUT_END), 0);
	assert_true(r->port[0]->nvoid > 0);
}

static void client_gone_while_it_is_written(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);

	(void)state;
	work();
	fake.hold = true;
	data_comes(op, 0, BYTES);
	assert_true(slots_in_use() > 0);
	finish(c);
	assert_int_equal(slots_in_use(), 0);
}

/* The edge says that it is over before anything that it had not posted: the program may use its memory again. */
static void cancel__nothing_is_written_behind_it(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);
	unsigned before;

	(void)state;
	work();
	fake.hold = true;
	for (unsigned i = 0; i < 4; i++)
		data_comes(op, 0, BYTES); /* more than RDMA_WORKS */
	assert_true(slots_in_use() > RDMA_WORKS);
	assert_int_equal(lr_rdma_cancel(c, op), 0);
	expect_end(c, op, LR_CANCELLED);
	before = fake.nheld;
	work();
	assert_int_equal(fake.nheld, before);
	fake.hold = false;
	for (uint32_t k = 0; k < fake.nheld; k++) /* what was posted before: its key is void, and in truth it came before */
		if (fake.held[k].from)
			fake_complete(fake.held[k].from, fake.held[k].wr.wr_id, IBV_WC_SUCCESS, 0);
	fake.nheld = 0;
	work();
	assert_int_equal(slots_in_use(), 0);
	finish(c);
}

/* Rings that are full: what ended waits, and is ended later. */
static void completions__wait_for_room(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op;

	(void)state;
	fake.hold = true;
	op = begin(c, LRM_PUT, LR_NEAR);
	work();
	r->port[0]->full = true;
	fake_release();
	assert_true(relay_rdma_turn(r) || (relay_rdma_ready(r), relay_rdma_turn(r)));
	assert_int_equal(nsent(RW_PUT), 0);
	r->port[0]->full = false;
	work();
	expect_end(c, op, LR_OK);
	status_comes(op, LR_OK);
	finish(c);
}

/* --- who may --- */

static void open__from_elsewhere_is_refused(void **state)
{
	struct lr_rdma *c = NULL;
	uint32_t own = fake_client_address;

	(void)state;
	fake_client_address = 0x0202010au;
	assert_int_equal(lr_rdma_open("10.1.1.1", &fake_verbs, &c), -EACCES);
	fake_client_address = own;
	work();
	assert_int_equal(counted(&r->count.relay_rdma_refused_address), 1);
	assert_int_equal(counted(&r->count.relay_rdma_connections), 0);
	assert_int_equal(fake.live, base);
}

/* The address in the private data is an allowed one, and the path leads to another host of the LAN. */
static void open__by_another_name_is_refused(void **state)
{
	struct lr_rdma *c = NULL;
	uint32_t own = fake_client_gid;

	(void)state;
	fake_client_gid = 0x0202010au;
	assert_int_equal(lr_rdma_open("10.1.1.1", &fake_verbs, &c), -EACCES);
	fake_client_gid = own;
	work();
	assert_int_equal(counted(&r->count.relay_rdma_refused_address), 1);
	assert_int_equal(counted(&r->count.relay_rdma_connections), 0);
	assert_int_equal(fake.live, base);
}

static void transfer__of_regions_of_others_is_refused(void **state)
{
	struct lr_rdma *c = client();
	struct lr_transfer t = {.fd = -1, .memory = memory, .length = 10, .region = "other"};
	uint64_t op;

	(void)state;
	assert_int_equal(lr_rdma_transfer(c, LRM_PUT, &t, &op), -EACCES);
	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &t, &op), -EACCES);
	t.region = "readonly";
	assert_int_equal(lr_rdma_transfer(c, LRM_PUT, &t, &op), -EACCES);
	t.region = "readonly2";
	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &t, &op), -EACCES);
	assert_int_equal(counted(&r->count.relay_rdma_requests_refused_region), 4);
	t.region = "readonly";
	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &t, &op), 0);
	assert_int_equal(counted(&r->count.relay_rdma_requests), 5);
	assert_int_equal(lr_rdma_cancel(c, op + 1), -ENOENT);
	assert_int_equal(counted(&r->count.relay_rdma_requests_refused), 1);
	finish(c);
	assert_int_equal(counted(&r->count.relay_operations_failed), 1);
}

static void open__nobody_listens(void **state)
{
	struct lr_rdma *c = NULL;

	(void)state;
	fake.listener = NULL;
	assert_int_equal(lr_rdma_open("10.1.1.1", &fake_verbs, &c), -ECONNREFUSED);
	assert_int_equal(fake.live, base);
}

/* --- bounds --- */

static void open__too_many_of_a_host(void **state)
{
	struct lr_rdma *c[RDMA_CLIENTS_OF_HOST], *more = NULL;

	(void)state;
	for (unsigned i = 0; i < RDMA_CLIENTS_OF_HOST; i++)
		c[i] = client();
	assert_int_equal(lr_rdma_open("10.1.1.1", &fake_verbs, &more), -EMFILE);
	assert_int_equal(counted(&r->count.relay_rdma_refused_too_many), 1);
	assert_int_equal(r->count.rdma_clients, RDMA_CLIENTS_OF_HOST);
	for (unsigned i = 0; i < RDMA_CLIENTS_OF_HOST; i++)
		lr_rdma_close(c[i]);
	work();
	assert_int_equal(fake.live, base);
	finish(client());
}

static void transfer__too_many_under_way(void **state)
{
	struct lr_rdma *c = client();
	struct lr_transfer t = {.fd = -1, .memory = memory, .length = 10, .region = "target"};
	uint64_t op;

	(void)state;
	for (unsigned i = 0; i < RDMA_OPS_OF_CLIENT; i++)
		assert_int_equal(lr_rdma_transfer(c, LRM_GET, &t, &op), 0);
	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &t, &op), -EAGAIN);
	assert_int_equal(counted(&r->count.relay_rdma_requests_refused_too_many), 1);
	finish(c);
}

/* A put that is in the buffer stays until the other edge answers, and its client may go and connect again: while the
 * line is down, one host must not take the place of all others. */
static void transfer__too_many_of_clients_that_have_gone(void **state)
{
	struct lr_transfer t = {.fd = -1, .region = "target", .promise = LR_NEAR, .notice = "x", .notice_len = 1};
	struct lr_transfer get = {.fd = -1, .memory = memory, .length = 10, .region = "target"};
	uint64_t op, first = 0;
	struct lr_rdma *c;

	(void)state;
	for (unsigned i = 0; i < RELAY_OPS_GONE; i++) {
		if (i % RDMA_OPS_OF_CLIENT == 0)
			c = client();
		assert_int_equal(lr_rdma_transfer(c, LRM_PUT, &t, &op), 0);
		first = first ? first : op;
		if (i % RDMA_OPS_OF_CLIENT == RDMA_OPS_OF_CLIENT - 1) {
			work();
			lr_rdma_close(c);
			work();
			r->port[0]->nsent = 0;
		}
	}
	assert_int_equal(r->nops, RELAY_OPS_GONE);
	c = client();
	assert_int_equal(lr_rdma_transfer(c, LRM_PUT, &t, &op), -EAGAIN);
	assert_int_equal(counted(&r->count.relay_rdma_requests_refused_too_many), 1);
	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &get, &op), 0);
	assert_int_equal(lr_rdma_cancel(c, op), 0);
	status_comes(first, LR_OK);
	assert_int_equal(lr_rdma_transfer(c, LRM_PUT, &t, &op), 0);
	status_comes(op, LR_OK);
	nlogged = 0;
	for (uint32_t i = 0; i < RELAY_OPS; i++)
		if (r->op[i])
			status_comes(r->op[i]->id, LR_NO_REGION);
	assert_int_equal(nlogged, 10);
	finish(c);
}

/* --- a client that says anything --- */

struct raw {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t buffer[1024];
	bool connected;
};

static void raw_open(struct raw *w, const void *hello, uint8_t len, uint8_t reads)
{
	struct ibv_pd pd;
	struct rdma_conn_param p = {.private_data = hello, .private_data_len = len, .responder_resources = reads};
	struct ibv_qp_init_attr attr;
	struct rdma_cm_event *ev;

	w->events = fake_create_event_channel();
	fake_create_id(w->events, &w->id, NULL, RDMA_PS_TCP);
	w->comp = fake_create_comp_channel(NULL);
	w->cq = fake_create_cq(NULL, 1, NULL, w->comp, 0);
	attr = (struct ibv_qp_init_attr){.send_cq = w->cq, .recv_cq = w->cq};
	w->mr = fake_reg_mr(&pd, w->buffer, sizeof(w->buffer), IBV_ACCESS_LOCAL_WRITE);
	fake_create_qp(w->id, &pd, &attr);
	fake_connect(w->id, &p);
	assert_int_equal(fake_get_cm_event(w->events, &ev), 0);
	w->connected = ev->event == RDMA_CM_EVENT_ESTABLISHED;
	work();
}

static void raw_send(struct raw *w, const void *data, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)data, .length = len};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	fake_post_send(w->id->qp, &wr, &bad);
	work();
}

static void raw_close(struct raw *w)
{
	fake_disconnect(w->id);
	fake_destroy_qp(w->id);
	fake_dereg_mr(w->mr);
	fake_destroy_cq(w->cq);
	fake_destroy_comp_channel(w->comp);
	fake_destroy_id(w->id);
	fake_destroy_event_channel(w->events);
	work();
	assert_int_equal(fake.live, base);
}

static void hello_of(uint8_t out[LR_RDMA_HELLO_LEN], uint32_t number)
{
	lr_rdma_hello_put(out, &(struct lr_rdma_hello){.value = number});
}

static void open__of_another_version_is_refused(void **state)
{
	uint8_t hello[LR_RDMA_HELLO_LEN];
	struct raw w = {0};

	(void)state;
	for (unsigned byte = 0; byte < 8; byte++) { /* magic, version, length */
		memset(&w, 0, sizeof(w));
		hello_of(hello, 1);
		hello[byte] ^= 0x80;
		raw_open(&w, hello, sizeof(hello), 16);
		assert_false(w.connected);
		raw_close(&w);
	}
	memset(&w, 0, sizeof(w));
	raw_open(&w, NULL, 0, 16);
	assert_false(w.connected);
	raw_close(&w);
	assert_int_equal(counted(&r->count.relay_rdma_refused_version), 9);
}

static void open__that_cannot_be_read_is_refused(void **state)
{
	uint8_t hello[LR_RDMA_HELLO_LEN];
	struct raw w = {0};

	(void)state;
	hello_of(hello, 1);
	raw_open(&w, hello, sizeof(hello), 0);
	assert_false(w.connected);
	raw_close(&w);
	assert_int_equal(counted(&r->count.relay_rdma_refused_no_reads), 1);
}

static void request__that_is_none_ends_the_connection(void **state)
{
	struct lr_rdma_request good = {.type = LRM_PUT, .promise = LR_NEAR, .bytes = 10, .rkey = 1, .name = "target"}, q[13];
	uint8_t hello[LR_RDMA_HELLO_LEN], bytes[LR_RDMA_REQUEST_MAX];

	(void)state;
	for (unsigned i = 0; i < 13; i++)
		q[i] = good;
	q[0].type = LRM_SERVE;
	q[1].promise = LR_DONE + 1;
	q[2].bytes = (uint64_t)INT64_MAX + 1;
	q[3].region_offset = INT64_MAX;
	q[4].address = UINT64_MAX - 8;
	q[5].name[0] = '\0';
	q[6].type = LRM_GET, q[6].bytes = 0;
	for (unsigned i = 9; i < 13; i++)
		q[i].type = LRM_EXPORT;
	q[9].promise = 0;
	q[10].promise = (LR_PEER_READ | LR_PEER_WRITE) + 1;
	q[11].region_offset = 1;
	q[12].bytes = 0;
	for (unsigned i = 0; i < 13; i++) {
		size_t len = lr_rdma_request_put(bytes, &q[i]);
		struct raw w = {0};

		if (i == 7)
			len--; /* and says another length */
		if (i == 8)
			bytes[LR_RDMA_REQUEST_LEN - 1] = 'x'; /* a name without its end */
		hello_of(hello, i + 1); /* the end of one before is told to its own number */
		raw_open(&w, hello, sizeof(hello), 16);
		assert_true(w.connected);
		raw_send(&w, bytes, (uint32_t)len);
		assert_int_equal(r->malformed, i + 1);
		assert_false(((struct fake_id *)w.id)->connected);
		raw_close(&w);
	}
}

/* It posts no receives: messages wait, up to a bound. */
static void client__that_takes_no_messages_is_let_go(void **state)
{
	struct lr_rdma_request q = {.type = LRM_CANCEL, .id = 5};
	uint8_t hello[LR_RDMA_HELLO_LEN], bytes[LR_RDMA_REQUEST_MAX];
	struct raw w = {0};
	size_t len = lr_rdma_request_put(bytes, &q);

	(void)state;
	hello_of(hello, 1);
	raw_open(&w, hello, sizeof(hello), 16);
	for (unsigned i = 0; i < RDMA_SENDS + RDMA_UNSENT; i++)
		raw_send(&w, bytes, (uint32_t)len);
	assert_true(((struct fake_id *)w.id)->connected);
	raw_send(&w, bytes, (uint32_t)len);
	assert_false(((struct fake_id *)w.id)->connected);
	raw_close(&w);
}

/* --- time passes --- */

static void turn_after(uint64_t ns)
{
	passes(ns);
	relay_rdma_turn(r);
}

static bool is_connected(const struct raw *w)
{
	return ((struct fake_id *)w->id)->connected;
}

static void raw_takes(struct raw *w, unsigned n)
{
	struct ibv_sge sge = {.addr = (uintptr_t)w->buffer, .length = sizeof(w->buffer), .lkey = w->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	for (unsigned i = 0; i < n; i++)
		assert_int_equal(fake_post_recv(w->id->qp, &wr, &bad), 0);
}

/* The library refuses such names, too. */
static void export__a_name_that_no_line_can_hold(void **state)
{
	static const char *const names[] = {"t\033[2J", "t\n", "t\x7f", "t\xc3\xa9"};
	uint8_t hello[LR_RDMA_HELLO_LEN], bytes[LR_RDMA_REQUEST_MAX];
	struct lr_rdma_event e;
	struct raw w = {0};

	(void)state;
	allow("10.1.1.0/24", RELAY_ALLOW_EXPORT, "t*");
	hello_of(hello, 1);
	raw_open(&w, hello, sizeof(hello), 16);
	for (unsigned i = 0; i < 4; i++) {
		struct lr_rdma_request q = {.type = LRM_EXPORT, .promise = LR_PEER_READ, .bytes = 10};

		snprintf(q.name, sizeof(q.name), "%s", names[i]);
		raw_takes(&w, 1);
		raw_send(&w, bytes, (uint32_t)lr_rdma_request_put(bytes, &q));
		assert_true(lr_rdma_event_get(w.buffer, LR_RDMA_EVENT_LEN, &e));
		assert_int_equal(e.result, i < 3 ? -EINVAL : 0);
	}
	raw_close(&w);
}

/* A client that opens, and begins a put whose READs are under way. */
static void raw_put(struct raw *w)
{
	struct lr_rdma_request q = {.type = LRM_PUT,
	                            .promise = LR_NEAR,
	                            .bytes = 2 * RELAY_DATA_MAX,
	                            .address = (uintptr_t)memory,
	                            .name = "target"};
	uint8_t hello[LR_RDMA_HELLO_LEN], bytes[LR_RDMA_REQUEST_MAX];

	hello_of(hello, 1);
	raw_open(w, hello, sizeof(hello), 16);
	raw_takes(w, 16);
	q.rkey = fake_reg_mr((struct ibv_pd *)w, memory, sizeof(memory), IBV_ACCESS_REMOTE_READ)->rkey;
	fake.hold = true;
	raw_send(w, bytes, (uint32_t)lr_rdma_request_put(bytes, &q));
	assert_true(fake.nheld >= 2);
}

static void raw_end(struct raw *w)
{
	fake_release();
	work();
	for (uint32_t i = 0; i < FAKE_MRS; i++)
		if (fake.mr[i].pd == (struct ibv_pd *)w)
			fake_dereg_mr(&fake.mr[i]);
	raw_close(w);
}

/* An id does not take its listener's option, and the REQ's timeout is the client's. */
static void open__the_accepted_end_has_the_ack_timeout(void **state)
{
	uint8_t hello[LR_RDMA_HELLO_LEN];
	struct raw w = {0};

	(void)state;
	hello_of(hello, 1);
	raw_open(&w, hello, sizeof(hello), 16);
	assert_ptr_equal(fake.timeout_of, &((struct fake_id *)w.id)->peer->id);
	raw_close(&w);
}

/* Of what is posted each one has its time: others that complete say nothing of those behind them. */
static void client__that_completes_a_little_is_let_go(void **state)
{
	struct raw w = {0};

	(void)state;
	raw_put(&w);
	turn_after(9 * NS_PER_S);
	fake_run(&fake.held[0]);
	fake.held[0].from = NULL;
	relay_rdma_ready(r);
	turn_after(NS_PER_S / 2);
	assert_true(is_connected(&w));
	turn_after(NS_PER_S);
	assert_false(is_connected(&w));
	raw_end(&w);
}

/* A thread that did not run finds what has come meanwhile. */
static void client__does_not_pay_for_a_late_thread(void **state)
{
	struct raw w = {0};

	(void)state;
	raw_put(&w);
	fake_release();
	turn_after(11 * NS_PER_S);
	assert_true(is_connected(&w));
	raw_end(&w);
}

static void client__whose_rtu_is_lost_is_connected(void **state)
{
	struct lr_rdma_request q = {.type = LRM_CANCEL, .id = 5};
	uint8_t hello[LR_RDMA_HELLO_LEN], bytes[LR_RDMA_REQUEST_MAX];
	struct raw w = {0};

	(void)state;
	fake.rtu_is_lost = true;
	for (unsigned says = 0; says < 2; says++) {
		hello_of(hello, 1 + says);
		raw_open(&w, hello, sizeof(hello), 16);
		if (says) {
			raw_takes(&w, 1);
			raw_send(&w, bytes, (uint32_t)lr_rdma_request_put(bytes, &q));
		}
		turn_after(6 * NS_PER_S);
		assert_int_equal(is_connected(&w), says);
		raw_close(&w);
	}
}

static void request__that_is_too_long_ends_the_connection(void **state)
{
	uint8_t hello[LR_RDMA_HELLO_LEN], bytes[513] = {0};
	struct raw w = {0};

	(void)state;
	hello_of(hello, 1);
	raw_open(&w, hello, sizeof(hello), 16);
	raw_send(&w, bytes, sizeof(bytes));
	assert_false(is_connected(&w));
	assert_int_equal(r->malformed, 1);
	raw_close(&w);
}

/* A REQ may name a host that does not answer: rdma_accept() asks for it, and the thread stands still. */
static void open__the_thread_does_not_stand_still_for_ever(void **state)
{
	uint8_t hello[LR_RDMA_HELLO_LEN];
	struct raw w = {0};

	(void)state;
	hello_of(hello, 1);
	fake.accept_ns = NS_PER_S;
	raw_open(&w, hello, sizeof(hello), 16);
	assert_true(w.connected);
	raw_close(&w);
	fake.accept_ns = 0;
	passes(18 * NS_PER_S);
	raw_open(&w, hello, sizeof(hello), 16);
	assert_false(w.connected);
	raw_close(&w);
	passes(3 * NS_PER_S);
	raw_open(&w, hello, sizeof(hello), 16);
	assert_true(w.connected);
	raw_close(&w);
}

/* --- a device that fails --- */

static void open__each_call_that_fails(void **state)
{
	static const char *const names[] = {"reg_mr", "create_cq", "req_notify_cq", "create_qp", "post_recv", "query_device", "accept"};
	uint8_t hello[LR_RDMA_HELLO_LEN];

	(void)state;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct raw w = {0};

		hello_of(hello, 1);
		/* of those that the client makes as well, the edge's is the next */
		fake.fail = names[i];
		fake.fail_after = strcmp(names[i], "reg_mr") == 0 || strcmp(names[i], "create_cq") == 0 ||
		                  strcmp(names[i], "create_qp") == 0;
		raw_open(&w, hello, sizeof(hello), 16);
		fake.fail = NULL;
		if (w.connected)
			fail_msg("connected although %s failed", names[i]);
		raw_close(&w);
	}
	finish(client());
}

static void relay_rdma_open__each_call_that_fails(void **state)
{
	static const char *const names[] = {"create_event_channel", "create_id", "bind_addr", "device", "alloc_pd", "reg_mr",
	                                    "create_comp_channel", "listen"};

	(void)state;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		relay_rdma_close(r);
		fake.fail = names[i];
		relay_rdma_open(r, &fake_verbs);
		assert_int_equal(fake.live, 0);
		assert_null(fake.listener);
		fake.fail = NULL;
	}
	relay_rdma_close(r);
	relay_rdma_open(r, &fake_verbs);
	finish(client());
}

static void post__that_fails_ends_the_connection(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);

	(void)state;
	work();
	fake.fail = "post_send";
	data_comes(op, 0, BYTES);
	fake.fail = NULL;
	expect_end(c, op, LR_RDMA_FAILED);
	finish(c);
}

static void device__that_goes_takes_its_clients(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op;

	(void)state;
	fake.hold = true;
	op = begin(c, LRM_PUT, LR_NEAR);
	work();
	fake.fail = "create_event_channel"; /* it is not back yet */
	fake_event(fake.listener, RDMA_CM_EVENT_DEVICE_REMOVAL, NULL);
	work();
	assert_null(fake.listener);
	assert_int_equal(slots_in_use(), 0);
	expect_end(c, op, LR_CLIENT_GONE); /* nobody is there to say more */
	lr_rdma_close(c);
	assert_int_equal(fake.live, 0);
	assert_int_equal(r->nops, 0);
}

static unsigned nsignals;

static void on_signal(int n)
{
	(void)n;
	nsignals++;
}

/* A program may have signal handlers: they neither break the connection nor end the wait. */
static void wait__goes_on_after_a_signal(void **state)
{
	struct sigaction act = {.sa_handler = on_signal}, old;
	struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
	struct lr_rdma *c = client();
	uint64_t since = clock_now_ns();
	struct lr_event ev;
	int rc;

	(void)state;
	nsignals = 0;
	sigaction(SIGALRM, &act, &old);
	setitimer(ITIMER_REAL, &often, NULL);
	rc = lr_rdma_wait(c, &ev, 200);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	assert_int_equal(rc, 0);
	assert_true(nsignals > 0 && clock_now_ns() - since >= 190000000);
	finish(c);
}

/* --- an edge that goes without a word --- */

/* The edge's machine loses power: no DREQ comes, and the client's queue pair has nothing to send. */
static void finish_deaf(struct lr_rdma *c)
{
	lr_rdma_close(c);
	/* the edge is there after all, and has noticed by itself that the client has gone */
	fake.silent = false;
	assert_non_null(fake.deaf);
	fake_event(fake.deaf, RDMA_CM_EVENT_DISCONNECTED, NULL);
	work();
	assert_int_equal(fake.live, base);
}

static void wait__ends_when_the_edge_is_silent(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);
	struct lr_event ev;

	(void)state;
	work();
	assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
	fake.silent = true;
	passes(9 * NS_PER_S);
	assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
	assert_int_equal(fake.nheld, 0);
	passes(NS_PER_S);
	assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
	assert_int_equal(fake.nheld, 1);
	passes(9 * NS_PER_S);
	assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
	passes(NS_PER_S);
	expect_end(c, op, LR_CLIENT_GONE);
	expect_over(c);
	finish_deaf(c);
}

static bool is_readable(const struct lr_rdma *c, int ms)
{
	struct pollfd p = {.fd = lr_rdma_fd(c), .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* A program that waits in the library, or polls lr_fd(), is woken. */
static void fd__is_readable_when_the_edge_is_to_be_asked(void **state)
{
	struct lr_rdma *c = client();
	struct lr_event ev;

	(void)state;
	assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
	fake.silent = true;
	assert_false(is_readable(c, 0));
	passes(10 * NS_PER_S - 50000000);
	assert_int_equal(lr_rdma_wait(c, &ev, 200), 0);
	assert_int_equal(fake.nheld, 1);
	assert_false(is_readable(c, 0));
	passes(10 * NS_PER_S);
	assert_true(is_readable(c, 1000));
	expect_over(c);
	finish_deaf(c);
}

static void transfer__ends_when_the_edge_is_silent(void **state)
{
	struct lr_transfer t = {.fd = -1, .memory = memory, .length = 10, .region = "target"};
	struct lr_rdma *c = client();
	uint64_t op, since = clock_now_ns();

	(void)state;
	fake.silent = true;
	fake.silent_ns = 10 * NS_PER_S - 50000000;
	assert_int_equal(lr_rdma_transfer(c, LRM_GET, &t, &op), -EPIPE);
	assert_in_range(clock_now_ns() - since, 10 * NS_PER_S - 50000000, 20 * NS_PER_S);
	expect_over(c);
	finish_deaf(c);
}

/* An edge that has nothing to say for long, but answers; and a program that does not call the library for long. */
static void wait__goes_on_while_the_edge_answers(void **state)
{
	struct lr_rdma *c = client();
	uint64_t op = begin(c, LRM_GET, LR_LINK);
	struct lr_event ev;

	(void)state;
	work();
	for (unsigned i = 0; i < 4; i++) {
		/* posts a probe, and the next time takes its completion */
		assert_int_equal(lr_rdma_wait(c, &ev, 0), 0);
		assert_int_equal(fake.nprobes, (i + 1) / 2);
		passes(30 * NS_PER_S);
	}
	come(1, &(struct relay_head){.fence = true, .type = RW_GET_END, .op = op, .length = BYTES}, NULL, 0);
	work();
	expect_end(c, op, LR_OK);
	finish(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(put__crosses_whole_and_its_end_behind),
	    TEST(put__near_ends_when_it_is_committed),
	    TEST(put__end_waits_for_reads),
	    TEST(get__is_written_and_each_slot_finished),
	    TEST(put__of_a_file),
	    TEST(get__into_a_file_that_is_shorter),
	    TEST(get__that_fails_cuts_off_its_own_bytes_only),
	    TEST(put__fails_at_the_other_site),
	    TEST(put__with_a_wrong_key),
	    TEST(get__with_a_wrong_key),
	    TEST(client_gone_while_it_is_read),
	    TEST(client_gone_while_it_is_written),
	    TEST(cancel__nothing_is_written_behind_it),
	    TEST(completions__wait_for_room),
	    TEST(open__from_elsewhere_is_refused),
	    TEST(open__by_another_name_is_refused),
	    TEST(transfer__of_regions_of_others_is_refused),
	    TEST(open__nobody_listens),
	    TEST(open__too_many_of_a_host),
	    TEST(transfer__too_many_under_way),
	    TEST(transfer__too_many_of_clients_that_have_gone),
	    TEST(open__of_another_version_is_refused),
	    TEST(open__that_cannot_be_read_is_refused),
	    TEST(request__that_is_none_ends_the_connection),
	    TEST(client__that_takes_no_messages_is_let_go),
	    TEST(open__the_accepted_end_has_the_ack_timeout),
	    TEST(client__that_completes_a_little_is_let_go),
	    TEST(client__does_not_pay_for_a_late_thread),
	    TEST(client__whose_rtu_is_lost_is_connected),
	    TEST(request__that_is_too_long_ends_the_connection),
	    TEST(export__a_name_that_no_line_can_hold),
	    TEST(open__the_thread_does_not_stand_still_for_ever),
	    TEST(open__each_call_that_fails),
	    TEST(relay_rdma_open__each_call_that_fails),
	    TEST(post__that_fails_ends_the_connection),
	    TEST(device__that_goes_takes_its_clients),
	    TEST(wait__goes_on_after_a_signal),
	    TEST(wait__ends_when_the_edge_is_silent),
	    TEST(fd__is_readable_when_the_edge_is_to_be_asked),
	    TEST(transfer__ends_when_the_edge_is_silent),
	    TEST(wait__goes_on_while_the_edge_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
