/* SPDX-License-Identifier: Apache-2.0 */
/* Four RDMA clients that export, put, get and go, and the other site that puts into their regions and gets out of them, in an
 * order that the seed draws. READs and WRITEs stay under way, rings are full, keys are void, the device goes. At the end no
 * slot, no get, no region and no object of the device is left, also if the daemon ends amid it.
 *
 *     test_relay_rdma_stress [SEED [SEEDS]] */
#define _GNU_SOURCE
#include "rdma_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/relay/relay_rdma_priv.h"

#define CLIENTS 4
#define RECENT  16 /* operations of the other site that more is asked of */
#define STEPS   6000
#define SEEDS   8

static unsigned seed, state_of_rng;
static struct lr_rdma *clients[CLIENTS];
static const char *const names[CLIENTS] = {"t0", "t1", "t2", "t3"};
static uint64_t recent[RECENT], last_op;

static unsigned below(unsigned n)
{
	state_of_rng = state_of_rng * 1103515245u + 12345u;
	return (state_of_rng >> 10) % n;
}

static bool has_room(void)
{
	return slots_in_use() < SLOTS - 100;
}

/* An operation that is new, once in n times one that was used before. */
static uint64_t draw_op(unsigned n)
{
	uint64_t *op = &recent[below(RECENT)];

	if (below(n) || *op == 0)
		*op = 1ull << 32 | ++last_op;
	return *op;
}

/* The library waits for what only this thread could do: time passes. */
int poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
	const struct timespec none = {0};
	int ready = (int)syscall(SYS_ppoll, p, n, &none, NULL, 0);

	if (ready == 0 && timeout_ms > 0) {
		passes((uint64_t)timeout_ms * 1000000);
		fake_pump();
	}
	return ready;
}

/* --- the other site --- */

static void comes(uint32_t channel, struct relay_head h, const char *name, const void *data, size_t len)
{
	if (name)
		snprintf(h.name, sizeof(h.name), "%s", name);
	if (has_room())
		come(channel, &h, data, len);
}

static void chunk_of_put(unsigned k)
{
	comes(2 * below(2), (struct relay_head){.type = RW_PUT, .op = draw_op(2), .offset = below(BYTES), .length = 4000, .value = 1},
	      names[k], expected, 4000);
}

static void end_of_put(unsigned k)
{
	comes(2 * below(2), (struct relay_head){.fence = true, .type = RW_PUT_END, .op = draw_op(2), .length = 10, .value = 1},
	      names[k], "note", 4);
}

static void get(unsigned k)
{
	comes(2 * below(2),
	      (struct relay_head){.type = RW_GET, .op = draw_op(4), .offset = below(1000), .length = below(BYTES - 1000)}, names[k],
	      NULL, 0);
}

static void cancel(void)
{
	comes(0, (struct relay_head){.fence = true, .type = RW_CANCEL, .op = draw_op(1)}, NULL, NULL, 0);
}

static void other_relay_starts(void)
{
	comes(1, (struct relay_head){.fence = true, .type = RW_HELLO, .value = 5 + below(1000), .length = 1}, NULL, NULL, 0);
}

/* --- the clients --- */

static void opens(unsigned k)
{
	if (!clients[k] && !fake.hold && lr_rdma_open("10.1.1.1", &fake_verbs, &clients[k]) == 0)
		work();
}

static void closes(unsigned k)
{
	lr_rdma_close(clients[k]);
	clients[k] = NULL;
}

static void withdraws(unsigned k)
{
	struct relay_region *g = relay_region_find(r, names[k]);

	if (g)
		relay_region_drop(r, g);
}

static void transfers(unsigned k)
{
	struct lr_transfer t = {.fd = -1,
	                        .memory = memory,
	                        .length = 1 + below(BYTES - 1),
	                        .region = "target",
	                        .promise = (enum lr_promise)below(4)};
	uint64_t op;

	if (!clients[k] || r->port[0]->full)
		return;
	if (lr_rdma_transfer(clients[k], below(2) ? LRM_PUT : LRM_GET, &t, &op) == 0 && below(2))
		status_comes(op, below(2) ? LR_OK : LR_NO_REGION);
}

static void waits(unsigned k)
{
	struct lr_event ev;

	for (unsigned i = below(40); clients[k] && i > 0 && lr_rdma_wait(clients[k], &ev, 0) == 1; i--)
		;
}

/* --- a step --- */

static void of_the_other_site(unsigned k)
{
	switch (below(10)) {
	case 0:
		cancel();
		break;
	case 1:
		if (below(8) == 0)
			other_relay_starts();
		break;
	case 2:
	case 3:
		get(k);
		break;
	case 4:
	case 5:
	case 6:
		end_of_put(k);
		break;
	default:
		chunk_of_put(k);
	}
}

static void of_the_edge(unsigned k)
{
	switch (below(6)) {
	case 0:
	case 1:
		fake.hold = true;
		break;
	case 2:
	case 3:
		fake_release();
		break;
	case 4:
		passes(below(4000) * 1000000ull);
		break;
	default:
		if (below(2))
			withdraws(k);
		else
			r->port[0]->full = !r->port[0]->full && below(3) == 0;
	}
}

static void of_a_client(unsigned k)
{
	switch (below(7)) {
	case 0:
		opens(k);
		break;
	case 1:
		if (below(4) == 0)
			closes(k);
		break;
	case 2:
		waits(k);
		if (below(40) == 0)
			void_all_keys();
		break;
	case 3:
		transfers(k);
		break;
	case 4:
		if (clients[k] && below(8) == 0)
			(void)lr_rdma_unexport(clients[k], names[k]);
		break;
	default:
		if (clients[k])
			(void)lr_rdma_export(clients[k], names[k], -1, memory, 0, BYTES, 3);
		else if (below(200) == 0 && fake.listener)
			fake_event(fake.listener, RDMA_CM_EVENT_DEVICE_REMOVAL, NULL);
	}
}

static void step(void)
{
	unsigned k = below(CLIENTS), who = below(3);

	working = who < 2; /* only a call of the library lets the edge run within it */
	if (who == 0)
		of_the_other_site(k);
	else if (who == 1)
		of_the_edge(k);
	else
		of_a_client(k);
	working = false;
	if (below(3)) {
		work();
	} else { /* not to the end */
		working = true;
		relay_rdma_ready(r);
		if (below(2))
			relay_rdma_turn(r);
		working = false;
	}
	if (r->port[0]->nsent > SENT_MAX - 700)
		r->port[0]->nsent = 0;
}

static void begin_steps(unsigned n)
{
	state_of_rng = seed * 7919;
	memset(recent, 0, sizeof(recent));
	last_op = 0;
	allow("10.1.1.0/24", RELAY_ALLOW_EXPORT, "t*");
	print_message("SEED=%u: test_relay_rdma_stress %u 1\n", seed, seed);
	for (unsigned i = 0; i < n; i++)
		step();
}

static void close_clients(void)
{
	for (unsigned k = 0; k < CLIENTS; k++)
		closes(k);
}

static void stress__nothing_is_left(void **state)
{
	(void)state;
	begin_steps(STEPS);
	r->port[0]->full = false;
	fake_release();
	close_clients();
	for (unsigned i = 0; i < 30; i++) {
		r->port[0]->nsent = 0;
		work();
		passes(NS_PER_S);
	}
	for (unsigned i = 0; i < RELAY_GETS; i++)
		assert_false(r->get[i].used);
	assert_int_equal(r->nregions, 0);
	assert_true(dlist_empty(&r->deferred));
}

/* As relay_close() does it. */
static void free_relay(void)
{
	struct dnode *n;

	relay_rdma_close(r);
	close_clients();
	while ((n = dlist_first(&r->deferred))) {
		dlist_remove(n);
		free(dlist_entry(n, struct relay_deferred, node));
	}
	for (uint32_t i = 0; i < r->nchannels; i++) {
		relay_channel_free(r, &r->channel[i]);
		assert_int_equal(r->channel[i].nremote, 0);
	}
	for (uint32_t i = 0; i < RELAY_OPS; i++) {
		if (!r->op[i])
			continue;
		relay_file_unref(r->op[i]->file);
		relay_pieces_unref(r->op[i]->pieces);
		free(r->op[i]);
		r->op[i] = NULL;
	}
}

static void stress__the_daemon_ends_amid_it(void **state)
{
	(void)state;
	begin_steps(200 + seed * 97 % 2000);
	fake.pump = NULL;
	working = true;
	free_relay();
	assert_int_equal(fake.live, 0);
	memset(r->channel, 0, sizeof(r->channel));
	for (uint32_t i = 0; i < r->nchannels; i++)
		relay_channel_init(r, i);
	r->port[0]->n = 0;
	memset(r->get, 0, sizeof(r->get));
	memset(slot_used, 0, sizeof(slot_used));
	working = false;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    TEST(stress__nothing_is_left),
	    TEST(stress__the_daemon_ends_amid_it),
	};
	unsigned first = argc > 1 ? (unsigned)atoi(argv[1]) : 1, n = argc > 2 ? (unsigned)atoi(argv[2]) : SEEDS;

	for (seed = first; seed < first + n; seed++)
		if (cmocka_run_group_tests(tests, NULL, NULL))
			return 1;
	return 0;
}
