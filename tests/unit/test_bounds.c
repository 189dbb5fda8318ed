/* SPDX-License-Identifier: Apache-2.0 */
/* What ends where: positions, and how much work one call into the core does. The core of this test is the simulator's,
 * which counts its steps and lets positions begin anywhere. */
#define CORE_FLOWS 4096
#include "core_fixture.h"

#include "proxy/arena/arena_priv.h"
#include "proxy/carry/ip_carry.h"
#include "proxy/far/far_priv.h"
#include "proxy/near/near_priv.h"
#include "proxy/util/loss_runs.h"
#include "proxy/wan/wan_fec.h"
#include "proxy/wan/wan_lane_priv.h"
#include "tests/sim/steps.h"

/* --- positions --- */

static int begin_in_the_field(void **state)
{
	proxy_pos_origin = 1ull << 40;
	return core_done(state);
}

#define POSITION_TEST(t) cmocka_unit_test_teardown(t, begin_in_the_field)

/* A flow is written across, and read, over the end of so many bits of position. */
static void passes(void **state, uint8_t bits)
{
	struct core *c;

	proxy_pos_origin = (1ull << bits) - 0x1000000;
	c = core_given(state, ACK_MODE_NEAR);
	core_pair(c, 0xfffff0);
	for (uint32_t i = 1; i < 40; i++) {
		uint32_t psn = (0xfffff0 + i) & ROCE_PSN_MASK;

		assert_int_equal(core_send(c, RC_WRITE_ONLY, psn), DROP_NONE);
		core_expect_aeth(&c->a, psn, AETH_ACK_NO_CREDITS);
		core_expect(&c->b, RC_WRITE_ONLY, psn);
		core_ack(c, psn, AETH_ACK_NO_CREDITS, 1 + i);
	}
	core_wait(c, CORE_MS);
	assert_int_equal(core_near(c)->pos_settled, (1ull << bits) + 24);
	assert_int_equal(core_drops(&c->b, DROP_WAN_BAD_FRAME), 0);
}

static void bounds__positions_pass_32_bits(void **state)
{
	passes(state, 32);
}

static void bounds__positions_pass_42_bits(void **state)
{
	passes(state, 42);
}

static void bounds__positions_pass_48_bits(void **state)
{
	passes(state, 48);
}

/* Nothing in the field comes so far, and what claims to is refused. */
static void bounds__positions_end(void **state)
{
	struct core *c;

	proxy_pos_origin = POS_END - 0x1000000;
	c = core_given(state, ACK_MODE_NEAR);
	core_pair(c, 0xffffff);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 0), DROP_NONE);
	assert_int_equal(core_pending(&c->b), 0);
	assert_true(core_drops(&c->b, DROP_WAN_BAD_FRAME) > 0);
}

/* --- work --- */

static uint64_t worst; /* steps of a call since the test began */

static void called(const char *what)
{
	uint64_t steps = steps_end(what);

	if (steps > worst)
		worst = steps;
}

static bool carry(struct core *c, struct core_edge *from, struct core_edge *to)
{
	uint8_t buf[WAN_MTU_MAX];
	struct wan_tx tx;
	size_t len;

	steps_begin();
	len = proxy_wan_tx(from->p, c->now_ns, buf, sizeof(buf), &tx);
	called("proxy_wan_tx");
	if (!len)
		return false;
	steps_begin();
	proxy_wan_rx(to->p, c->now_ns, buf, len, false);
	called("proxy_wan_rx");
	return true;
}

static bool tick(struct core_edge *e)
{
	if (proxy_next_wake(e->p, e->c->now_ns) > e->c->now_ns)
		return false;
	steps_begin();
	proxy_tick(e->p, e->c->now_ns);
	called("proxy_tick");
	return true;
}

/* Until nothing moves any more; what leaves for hosts is looked at by nobody. */
static void run(struct core *c)
{
	struct core_edge *edges[] = {&c->a, &c->b};
	bool more = true;

	while (more) {
		more = false;
		for (int i = 0; i < 2; i++) {
			struct lan_tx tx;
			size_t len;

			more |= tick(edges[i]);
			do {
				steps_begin();
				len = proxy_lan_tx(edges[i]->p, c->now_ns, &tx);
				called("proxy_lan_tx");
			} while (len);
			more |= carry(c, edges[i], edges[!i]);
		}
	}
	assert_int_equal(proxy_audit(c->a.p), 0);
	assert_int_equal(proxy_audit(c->b.p), 0);
}

static uint32_t places(const struct dnode *list)
{
	uint32_t n = 0;

	for (const struct dnode *d = list->next; d != list; d = d->next)
		n++;
	return n;
}

/* A host that nobody answers asks for as much as a flow may have open, in a few packets, on eight QPs, and is heard no
 * more: all of them are forgotten in one moment. */
static void bounds__forgetting_long_reads(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	worst = 0;
	c->cut = true;
	for (uint32_t qp = 0; qp < 8; qp++) {
		for (uint32_t i = 0; i < 4; i++) {
			static const uint8_t ops[] = {RC_WRITE_FIRST, RC_WRITE_LAST, RC_READ_REQUEST, RC_READ_REQUEST};
			struct roce_pkt h = core_req(ops[i], i < 3 ? i : 2 + (1u << 20));

			h.dest_qpn = 0x100 + qp;
			h.reth_len = (1u << 20) * CORE_PMTU;
			assert_int_equal(core_in(&c->a, h, core_len(ops[i]), 0), DROP_NONE);
		}
	}
	assert_int_equal(c->a.p->near_used, 8);
	c->now_ns += 6000 * CORE_MS;
	for (int i = 0; i < 100 && core_used(&c->a); i++)
		tick(&c->a);
	assert_int_equal(c->a.p->near_used, 0);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(places(&c->a.p->near_free), CORE_FLOWS);
	assert_in_range(worst, 1, STEPS_MAX * 2 / 3);
}

/* As many small packets, from PSN 1 on, as a flow may hold; all go to the responder, who answers none. */
static uint32_t send_many(struct core *c)
{
	for (uint32_t psn = 1;; psn++) {
		struct roce_pkt h = core_req(RC_WRITE_ONLY, psn);

		h.ack_req = false;
		h.reth_len = 16;
		if (psn % 100 == 0)
			run(c);
		if (psn == 5000 || core_in(&c->a, h, 16, 0) != DROP_NONE) {
			run(c);
			return psn - 1;
		}
	}
}

/* One ACK is about all that a flow holds, as it may be after a restart. */
static void bounds__one_ack_for_many(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 512);
	uint32_t n;

	core_pair(c, 0);
	send_many(c);
	core_rebuild(&c->b);
	core_session(c);
	core_forget(&c->b);
	n = (uint32_t)(core_far(c)->pos_rx - POS_ORIGIN) - 1; /* as many as credit lets across */
	assert_in_range(n, 2 * CALL_WORK, 5000);
	worst = 0;
	steps_begin();
	core_in(&c->b, core_answer(RC_ACK, CORE_QPN, n, AETH_ACK_NO_CREDITS, n + 1), 0, 0);
	called("proxy_lan_rx");
	run(c);
	c->now_ns += 10 * CORE_MS;
	run(c);
	assert_true(core_far(c)->pos_acked > POS_ORIGIN + n);
	assert_true(core_near(c)->pos_settled > POS_ORIGIN + n);
	assert_in_range(worst, 1, STEPS_MAX * 2 / 3);
}

/* A flow that holds much ends. */
static void bounds__closing_a_long_flow(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 512);

	core_pair(c, 0);
	assert_in_range(send_many(c), 2000, 5000);
	worst = 0;
	steps_begin();
	near_close(c->a.p, core_near(c));
	called("near_close");
	run(c);
	assert_int_equal(c->b.p->far_used, 0);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_used(&c->b), 0);
	assert_int_equal(places(&c->b.p->far_free), CORE_FLOWS);
	assert_in_range(worst, 1, STEPS_MAX * 2 / 3);
}

/* What no place is free for does not look at all of them. */
static void bounds__full_far_table(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct lane *l;
	struct wan_flow_open o = {.inc = 1, .pos_base = POS_ORIGIN, .src = core_ip(1, 2), .dst = core_ip(2, 2)};
	bool full;

	l = lane_of(c->b.p, proxy_lane_between(&c->b.cfg, &o.src, &o.dst));
	for (o.flow = 0; o.flow < CORE_FLOWS; o.flow++) {
		o.dest_qpn = 0x100 + o.flow;
		far_on_open(c->b.p, l, &o);
	}
	assert_int_equal(c->b.p->far_used, CORE_FLOWS);
	for (int i = 0; i < 3; i++) {
		c->b.p->work_left = CALL_WORK;
		steps_begin();
		assert_null(far_flow_for(c->b.p, l, CORE_FLOWS + 7, 1, &full));
		assert_in_range(steps_end("far_flow_for"), 1, STEPS_MAX / 8); /* a datagram may name several */
	}
	assert_true(full);
	c->now_ns += 3000 * CORE_MS; /* they are idle now: one is found sooner or later */
	c->b.p->now_ns = c->now_ns;
	for (int i = 0; i < CORE_FLOWS && full; i++) {
		c->b.p->work_left = CALL_WORK;
		far_flow_for(c->b.p, l, CORE_FLOWS + 7, 1, &full);
	}
	assert_false(full);
}

/* --- what one call finds lost: as many datagrams as it works off --- */

static void bounds__losses_in_a_row(void **state)
{
	static struct loss_runs r;

	(void)state;
	steps_begin();
	for (uint64_t i = 0; i < 2 * CALL_WORK; i++)
		loss_runs_note(&r, 1000 + i);
	assert_in_range(steps_end("loss_runs_note"), 1, STEPS_MAX / 3);
	assert_int_equal(r.runs, 1);
}

/* Each asked for a part of one of its flow's READs again. */
static void bounds__lost_requests_to_read_again(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	struct near_flow *f = core_near(c);
	struct roce_pkt h = core_req(RC_READ_REQUEST, 2);

	for (uint32_t i = 0; i < 128; i++) {
		struct rd_op *op = near_op_new(c->a.p, f, &h, f->pos_next + i, 1, 1 + i, 0, OP_FOR_NEAR);

		assert_non_null(op);
		near_op_insert(f, op);
		op->reread = true;
		op->seen_upto = op->again_upto = op->pos + 1;
		op->again_from = op->pos;
	}
	c->a.p->work_left = CALL_WORK;
	steps_begin();
	for (uint32_t i = 0; i < CALL_WORK; i++)
		near_again_lost(c->a.p, f);
	assert_in_range(steps_end("near_again_lost"), 1, STEPS_MAX / 6);
	assert_int_equal(f->agains_due, 128);
}

/* The flow has as many READs as it may have, and holds a response of each; those came in this order, or turned about. */
static void hold_responses(struct core *c, struct near_flow *f, bool backwards)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, 2);
	uint64_t base = f->pos_next;

	for (uint32_t i = 0; i < READS_PER_FLOW - 1; i++) {
		struct rd_op *op = near_op_new(c->a.p, f, &h, base + i, 1, 1 + i, 0, OP_FOR_NEAR);

		assert_non_null(op);
		near_op_insert(f, op);
	}
	for (uint32_t i = 0; i < READS_PER_FLOW - 1; i++) {
		uint64_t pos = base + (backwards ? READS_PER_FLOW - 2 - i : i);
		uint32_t slot = slot_take(c->a.p, SLOT_RESP_NEAR, f->idx, f->inc, pos, 100, f->lane, true);

		assert_int_not_equal(slot, SLOT_NONE);
		near_resp_taken(c->a.p, f, slot);
	}
}

/* Such flows are looked after in the same tick. */
static void bounds__responses_of_many_reads(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	struct near_flow *f = core_near(c);

	hold_responses(c, f, false);
	c->a.p->work_left = CALL_WORK;
	steps_begin();
	for (; c->a.p->work_left > CALL_WORK / 2; work_done(c->a.p, 4)) /* as proxy_tick() does for each timer */
		near_ops_retire(c->a.p, f, false);
	assert_in_range(steps_end("near_ops_retire"), 1, STEPS_MAX / 2);
}

/* The response that the host waits for needs room, and none that is freed for it gives any: its chunk holds others. */
static void frees_many(void **state, bool backwards, uint32_t at_least)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	struct near_flow *f = core_near(c);
	uint64_t pos = f->pos_next;
	uint32_t freed = 0;

	hold_responses(c, f, backwards);
	c->a.p->work_left = CALL_WORK;
	steps_begin();
	while (work_take(c->a.p) && near_resp_evict(c->a.p, f, pos))
		freed++;
	assert_in_range(steps_end("near_resp_evict"), 1, STEPS_MAX * 2 / 3);
	assert_in_range(freed, at_least, CALL_WORK);
}

static void bounds__room_among_responses_of_many_reads(void **state)
{
	frees_many(state, false, 32);
}

static void bounds__room_among_responses_that_came_backwards(void **state)
{
	frees_many(state, true, 2);
}

/* Very many slots wait for the time of their second copy, which is the same for all. */
static void bounds__copies_due_at_once(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 512);
	struct lane *l = lane_of(c->a.p, 0);
	uint32_t n = 0;

	core_pair(c, 0);
	c->cut = true;
	for (uint64_t pos = POS_ORIGIN + 100; n < 3000; n++) {
		uint32_t slot = slot_take(c->a.p, SLOT_REQ_NEAR, core_near(c)->idx, core_near(c)->inc, pos + n, 100, 0, true);

		assert_int_not_equal(slot, SLOT_NONE);
		wan_queue_slot(c->a.p, &l->spaced, slot, SQ_SPACED);
	}
	worst = 0;
	wan_lane_wake_at(c->a.p, l, c->now_ns);
	for (n = 0; n < 100 && !dlist_empty(&l->spaced); n++)
		assert_true(tick(&c->a));
	assert_in_range(n, 3000 / CALL_WORK, 99);
	assert_in_range(worst, 1, STEPS_MAX / 2);
}

/* Freeing slots whose entries stand side by side in the arena's index costs looks at many of them: the call has less work
 * left then. Here every run has the same home. */
static void bounds__slots_side_by_side_in_the_index(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 512);
	struct proxy *p = c->a.p;
	uint32_t mask = p->arena->index.mask, slots[1024], n = 0, freed = 0, flow;

	core_pair(c, 0);
	flow = core_near(c)->idx;
	for (uint64_t pos = POS_ORIGIN & ~31ull; n < 1024; pos += ARENA_INDEX_RUN) {
		if (arena_index_tag(SLOT_REQ_NEAR, flow, pos) & mask & ~255u)
			continue;
		for (uint32_t i = 0; i < ARENA_INDEX_RUN; i++) {
			slots[n] = slot_take(p, SLOT_REQ_NEAR, flow, core_near(c)->inc, pos + i, 100, 0, true);
			assert_int_not_equal(slots[n++], SLOT_NONE);
		}
	}
	p->work_left = CALL_WORK;
	steps_begin();
	while (work_take(p))
		slot_release(p, slots[freed++]);
	assert_in_range(steps_end("slot_release"), 1, STEPS_MAX);
	assert_in_range(freed, 4, CALL_WORK / 2);
}

/* Which lane sends next is decided for each datagram: with as many lanes as there may be, too, a turn costs
 * little, whether all are alike or some have many flows. Returns steps of a turn, on average. */
static uint64_t steps_of_turns(struct proxy *p, struct lane *lanes, uint32_t heavy_every)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < LANES_MAX; i++)
		wan_lane_schedule(p, &lanes[i]);
	for (uint32_t i = 0; i < 100 * LANES_MAX; i++) {
		struct lane *l = dlist_entry(dlist_first(&p->wan->lane_list), struct lane, node);

		steps_begin();
		wan_lane_took_turn(p, l, 9000, (uint32_t)(l - lanes) % heavy_every ? 1 : 30);
		all += steps_end("wan_lane_took_turn");
	}
	for (uint32_t i = 0; i < LANES_MAX; i++)
		dlist_remove(&lanes[i].node);
	return all / (100 * LANES_MAX);
}

static void bounds__turns_of_lanes(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct lane *lanes = calloc(LANES_MAX, sizeof(*lanes));

	assert_non_null(lanes);
	while (dlist_first(&c->a.p->wan->lane_list))
		dlist_remove(dlist_first(&c->a.p->wan->lane_list));
	for (uint32_t i = 0; i < LANES_MAX; i++)
		lanes[i].id = (uint8_t)i;
	assert_in_range(steps_of_turns(c->a.p, lanes, LANES_MAX + 1), 1, 20); /* all alike */
	assert_in_range(steps_of_turns(c->a.p, lanes, 16), 1, 60);            /* one of 16 has 30 flows */
	assert_in_range(steps_of_turns(c->a.p, lanes, 2), 1, 200);            /* every other one */
	free(lanes);
}

/* Host A opens n flows to another host, which nobody answers. */
static void open_unpaired(struct core *c, const struct ip_addr *src, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);

		h.src = *src;
		h.dst = core_ip(2, 9);
		h.dest_qpn = 0x1000 + i;
		h.reth_len = 16;
		core_in(&c->a, h, 16, 0);
		run(c);
	}
}

/* The requester's number was in very many connections before, of which all but the last are forgotten: a late error is
 * told, and whether it may be costs little. */
static void bounds__late_error_of_a_number_used_often(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 64);
	bool told = false;

	for (uint32_t i = 0; i < 1000; i++)
		near_cm_open(c->a.p, &(struct near_cm_info){.src = core_ip(1, 2),
		                                            .dst = core_ip(2, 9),
		                                            .dest_qpn = 0x1000 + i,
		                                            .requester_qpn = CORE_QPN,
		                                            .pmtu = CORE_PMTU,
		                                            .pkey = 0xffff,
		                                            .rnr_retry = 7});
	core_pair(c, 0);
	core_send(c, RC_WRITE_ONLY, 1);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	assert_true(core_near(c)->state == NEAR_FAILED);
	c->a.p->now_ns = c->now_ns += 150 * CORE_MS;
	steps_begin();
	near_fail_on_timer(c->a.p, core_near(c));
	assert_in_range(steps_end("near_fail_on_timer"), 1, STEPS_MAX / 32); /* a tick may have as many timers */
	core_pump(c);
	for (const struct core_pkt *k; (k = core_take(&c->a));)
		told |= k->h.opcode == RC_SEND_MIDDLE || k->h.opcode == RC_WRITE_MIDDLE;
	assert_true(told);
}

/* A late error is told, and whether it may be costs little, however many flows to other hosts have no pair. */
static void bounds__late_error_among_unpaired_flows(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 64);
	struct ip_addr a = core_ip(1, 2), beside = core_ip(1, 3);
	bool told = false;

	core_pair(c, 0);
	core_send(c, RC_WRITE_ONLY, 1);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
	assert_true(core_near(c)->state == NEAR_FAILED);
	core_forget(&c->a);
	open_unpaired(c, &a, 200);
	open_unpaired(c, &beside, 100);
	assert_true(c->a.p->unpaired.n[UNPAIRED_ALL] >= 250);
	c->a.p->now_ns = c->now_ns += 150 * CORE_MS;
	c->a.p->work_left = CALL_WORK;
	near_fail_on_timer(c->a.p, core_near(c));
	assert_in_range(c->a.p->work_left, CALL_WORK * 3 / 4, CALL_WORK);
	core_pump(c);
	for (const struct core_pkt *k; (k = core_take(&c->a));)
		told |= k->h.opcode == RC_SEND_MIDDLE || k->h.opcode == RC_WRITE_MIDDLE;
	assert_true(told);
}

/* As many flows as there may be wait for room for their READs. */
static void wait_for_room(struct core *c, uint8_t rnr_retry)
{
	struct proxy *p = c->a.p;

	for (uint32_t i = 1; i < CORE_FLOWS; i++) {
		struct near_flow *f = &p->near[i];

		f->older = p->near; /* so that none is given to a lane */
		f->pos_next = 1;
		f->rnr_retry = rnr_retry;
		f->pairing = PAIR_CONFIRMED;
		f->reserve_wait_ns = f->unheld_look_ns = c->now_ns;
		dlist_append(&p->reserve_waiting, &f->reserve_node);
		if (rnr_retry != RNR_RETRY_INFINITE)
			dlist_append(&p->reserve_unheld, &f->unheld_node);
	}
	near_reserve_freed(p);
	worst = 0;
}

static void nobody_waits(struct core *c)
{
	for (uint32_t i = 1; i < CORE_FLOWS; i++) {
		dlist_remove(&c->a.p->near[i].reserve_node);
		dlist_remove(&c->a.p->near[i].unheld_node);
		c->a.p->near[i].older = NULL;
	}
}

static void bounds__many_wait_for_room(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	wait_for_room(c, RNR_RETRY_INFINITE);
	tick(&c->a);
	assert_in_range(worst, 1, STEPS_MAX / 60);
	nobody_waits(c);
}

/* Hosts that cannot be held off are looked at one by one, each of them again after a while. */
static void bounds__many_wait_whose_hosts_give_up(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	uint32_t calls = 0;

	wait_for_room(c, 0);
	while (dlist_entry(dlist_first(&c->a.p->reserve_unheld), struct near_flow, unheld_node)->unheld_look_ns <= c->now_ns) {
		tick(&c->a);
		calls++;
		assert_in_range(calls, 1, 3 * CORE_FLOWS / CALL_WORK);
	}
	assert_in_range(worst, 1, STEPS_MAX / 3);
	nobody_waits(c);
}

/* Two hosts begin one connection after the other from one QPN, by CM. */
static void bounds__one_requester_number_in_many_connections(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 64);
	struct near_cm_info cm = {.src = core_ip(1, 2),
	                          .dst = core_ip(2, 9),
	                          .requester_qpn = CORE_QPN,
	                          .pmtu = CORE_PMTU,
	                          .pkey = 0xffff,
	                          .rnr_retry = 7};

	worst = 0;
	for (cm.dest_qpn = 0x1000; cm.dest_qpn < 0x1000 + CORE_FLOWS - 6; cm.dest_qpn++) {
		steps_begin();
		near_cm_open(c->a.p, &cm);
		called("near_cm_open");
	}
	assert_int_equal(c->a.p->near_used, CORE_FLOWS - 6);
	assert_in_range(worst, 1, STEPS_MAX / 8);
	assert_int_equal(core_ctr(&c->a, CTR_REQUESTERS_SUPERSEDED), CORE_FLOWS - 7);
}

/* The same without CM, each paired by one answer, which is not certain: of very many the oldest ones are superseded. */
static void bounds__one_requester_number_never_certain(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct proxy *p = c->a.p;

	worst = 0;
	for (uint32_t i = 1; i < CORE_FLOWS; i++) {
		struct near_flow *f = &p->near[i];

		f->src = core_ip(1, 2);
		f->dst = core_ip(2, 2);
		f->dest_qpn = 0x1000 + i;
		f->requester_qpn = CORE_QPN;
		f->pairing = PAIR_PROVISIONAL;
		f->idx = i;
		f->born = i;
		steps_begin();
		near_requester_enter(p, f);
		called("near_requester_enter");
	}
	assert_in_range(worst, 1, STEPS_MAX / 8);
	assert_int_equal(core_ctr(&c->a, CTR_REQUESTERS_SUPERSEDED), CORE_FLOWS - 1 - UNCERTAIN_MOST - 1);
	assert_false(p->near[CORE_FLOWS - 1].superseded);
	for (uint32_t i = 1; i < CORE_FLOWS; i++)
		near_requester_leave(p, &p->near[i]);
}

/* Ten REQs fit into a datagram. A host that has REQs of its choice in all places of the table sends ten more: the sum
 * of id and transaction is always the same. */
static enum proxy_drop cm_req(struct core_edge *e, uint32_t id)
{
	struct roce_pkt h = core_req(UD_SEND_ONLY, 0);
	uint8_t mad[256] = {1, 7, 2, 3, [17] = 0x10}, *d = mad + 24, buf[512];
	enum proxy_drop drop;
	size_t n;

	h.dest_qpn = 1;
	h.deth_qkey = 0x80010000;
	h.deth_src_qpn = 1;
	put_be64(mad + 8, 0x123456789abcull - id);
	put_be32(d, id);
	put_be24(d + 32, 0x100 + id);
	put_be16(d + 48, 0xffff);
	d[50] = 3 << 4 | 7;
	n = roce_build(buf, sizeof(buf), &h, mad, sizeof(mad));
	steps_begin();
	drop = proxy_lan_rx(e->p, e->c->now_ns, buf, n, 0);
	called("proxy_lan_rx");
	return drop;
}

static void bounds__cm_ids_of_one_sum(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 64);

	worst = 0;
	for (uint32_t id = 1; id < CM_CONNS + 200; id += 10) {
		for (uint32_t i = 0; i < 10; i++)
			assert_int_equal(cm_req(&c->a, id + i), DROP_NONE);
		while (carry(c, &c->a, &c->b))
			;
		core_wait(c, CORE_MS);
		core_forget(&c->b);
	}
	assert_in_range(worst, 1, STEPS_MAX / 6);
}

/* --- datagrams rebuilt --- */

#define REBUILT_MOST 16

/* From now on a group is of consecutive datagrams. */
static void plan_without_depth(struct core *c)
{
	struct wan_path *path = &c->a.p->wan->path[0];

	path->fec.look.next_ns = UINT64_MAX; /* the plan stays */
	path->fec.plan.depth = 1;
	core_wait(c, 20 * CORE_MS); /* blocks that have begun are closed */
	core_forget(&c->a);
	core_forget(&c->b);
}

/* Two edges with repairs of their own for each member. */
static struct core *given_repairs(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 400);

	for (int i = 0; i < 2; i++) {
		struct core_edge *e = i ? &c->b : &c->a;

		e->cfg.barrier = BARRIER_PAIR;
		e->cfg.ip_pool_bytes = 16 << 20;
		e->cfg.fec = (struct fec_config){.mode = FEC_FIXED, .k = REBUILT_MOST, .m = REBUILT_MOST};
		core_begin(e, 1);
	}
	core_hello(c, 1, 1);
	plan_without_depth(c);
	return c;
}

/* Until the last repair of a group has come, and of its members none. Returns these. */
static uint32_t lose_a_group(struct core *c)
{
	uint8_t buf[WAN_MTU_MAX];
	uint32_t lost = 0, repairs = 0;
	struct wan_tx tx;

	worst = 0;
	for (uint32_t i = 0; i < 20000 && repairs < REBUILT_MOST; i++) {
		size_t len = proxy_wan_tx(c->a.p, c->now_ns, buf, sizeof(buf), &tx);
		struct wan_hdr h;

		if (!len) {
			c->now_ns += 10 * CORE_US;
			proxy_tick(c->a.p, c->now_ns);
			continue;
		}
		assert_int_equal(wan_hdr_get(buf, len, &h), DROP_NONE);
		lost += (h.flags & WAN_FLAG_FEC) != 0;
		if (h.flags & WAN_FLAG_FEC)
			continue;
		repairs += buf[WAN_HDR_LEN] == WF_FEC;
		steps_begin();
		proxy_wan_rx(c->b.p, c->now_ns, buf, len, false);
		called("proxy_wan_rx");
	}
	assert_int_equal(repairs, REBUILT_MOST);
	return lost;
}

/* Writes a TCP segment of one byte from that host of site 1 to the same of site 2. Returns its bytes. */
static size_t tcp_byte(uint8_t *l3, uint8_t host)
{
	struct ip_addr src = core_ip(1, host), dst = core_ip(2, host);
	uint8_t h[41] = {0x45, [3] = sizeof(h), [8] = 64, [9] = 6, [20] = 99, [22] = 99, [32] = 5 << 4, [33] = 0x18};
	uint32_t sum = 0;

	memcpy(h + 12, src.b + 12, 4);
	memcpy(h + 16, dst.b + 12, 4);
	for (int i = 0; i < 20; i += 2)
		sum += get_be16(h + i);
	put_be16(h + 10, (uint16_t) ~((sum & 0xffff) + (sum >> 16)));
	memcpy(l3, h, sizeof(h));
	return sizeof(h);
}

static uint32_t ip_delivered(struct core *c)
{
	struct lan_tx tx;
	uint32_t n = 0;

	while (tick(&c->b) || proxy_lan_tx(c->b.p, c->now_ns, &tx))
		while (proxy_lan_tx(c->b.p, c->now_ns, &tx))
			n += tx.routed;
	return n;
}

/* One repair makes up for sixteen datagrams full of small packets. */
static void bounds__many_rebuilt_at_once(void **state)
{
	struct core *c = given_repairs(state);
	uint8_t l3[41];
	uint32_t n = 2000, got = 0, lost;

	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(proxy_lan_rx(c->a.p, c->now_ns, l3, tcp_byte(l3, 2), 0), DROP_NONE);
	lost = lose_a_group(c);
	assert_true(lost >= 12);
	assert_true(wan_fec_has_rebuilt(c->b.p));
	got = ip_delivered(c);
	assert_false(wan_fec_has_rebuilt(c->b.p));
	assert_int_equal(core_ctr(&c->b, CTR_FEC_REBUILT), lost);
	assert_true(got >= 1000);
	assert_in_range(worst, 1, STEPS_MAX * 2 / 3);
}

/* The session ends while rebuilt datagrams are queued. They were not told as received: their packets come again. */
static void bounds__a_session_ends_among_rebuilt(void **state)
{
	struct core *c = given_repairs(state);
	uint32_t n = 300, lost;

	core_pair(c, 0);
	plan_without_depth(c);
	for (uint32_t i = 1; i <= n; i++) {
		struct roce_pkt h = core_req(RC_WRITE_ONLY, i);
		uint8_t buf[200];
		size_t len;

		h.reth_len = 8;
		len = roce_build(buf, sizeof(buf), &h, core_payload(0, i), 8);
		assert_int_equal(proxy_lan_rx(c->a.p, c->now_ns, buf, len, 0), DROP_NONE);
	}
	lost = lose_a_group(c);
	assert_true(lost >= 4);
	assert_true(wan_fec_has_rebuilt(c->b.p));
	assert_true(core_far(c)->pos_rx < core_near(c)->pos_next);
	core_session(c);
	assert_false(wan_fec_has_rebuilt(c->b.p));
	core_wait(c, 20 * CORE_MS);
	assert_int_equal(core_near(c)->pos_next, POS_ORIGIN + 1 + n);
	assert_int_equal(core_far(c)->pos_rx, POS_ORIGIN + 1 + n);
	assert_in_range(worst, 1, STEPS_MAX * 2 / 3);
}

/* A host chooses the address that it sends to, the queue pair and the VLAN, and each changes the hash. */
static void bounds__keys_make_up_for_no_address(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);
	uint32_t first = near_key_hash(c->a.p, &src, &dst, 0, 0), same = 0;

	for (uint32_t i = 1; i < 256; i++) {
		dst = core_ip(2, 2);
		dst.b[8] ^= (uint8_t)i; /* in a register the lowest byte, as is that of the QPN */
		same += near_key_hash(c->a.p, &src, &dst, i, 0) == first;
		dst = core_ip(2, 2);
		dst.b[12] ^= (uint8_t)i;
		same += near_key_hash(c->a.p, &src, &dst, 0, (uint16_t)i) == first;
	}
	assert_int_equal(same, 0);
}

/* --- the barrier --- */

enum { WRITER_QPN = 0x1000, WRITTEN_QPN = 0x5000, WRITE_PSN = 700 };

/* Host A has written something on each of n connections to host B, which has not answered. */
static struct core *given_many_writes(void **state, enum barrier_mode mode, uint32_t n)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 400);

	for (int i = 0; i < 2; i++) {
		struct core_edge *e = i ? &c->b : &c->a;

		e->cfg.barrier = mode;
		e->cfg.ip_pool_bytes = 16 << 20;
		e->cfg.barrier_max_ns = 100 * 1000 * CORE_MS;
		core_begin(e, 1);
	}
	core_know_epochs(c);
	for (uint32_t i = 0; i < n; i++) {
		core_cm_in(
		    &c->a,
		    &(struct core_cm){
		        .type = 0x10, .local_id = WRITER_QPN + i, .qpn = WRITER_QPN + i, .psn = 900, .rnr_retry = 7});
		while (carry(c, &c->a, &c->b))
			;
		core_cm_in(&c->b, &(struct core_cm){.type = 0x13,
		                                    .local_id = WRITTEN_QPN + i,
		                                    .remote_id = WRITER_QPN + i,
		                                    .qpn = WRITTEN_QPN + i,
		                                    .psn = WRITE_PSN,
		                                    .rnr_retry = 7});
		while (carry(c, &c->b, &c->a))
			;
		if (i % 64 == 0)
			core_wait(c, CORE_MS);
		core_forget(&c->a);
		core_forget(&c->b);
	}
	core_wait(c, CORE_MS);
	core_forget(&c->b);
	for (uint32_t i = 0; i < n; i++) {
		struct roce_pkt h = core_req(RC_WRITE_ONLY, WRITE_PSN);

		h.dest_qpn = WRITTEN_QPN + i;
		h.reth_len = 8;
		assert_int_equal(core_in(&c->a, h, 8, 0), DROP_NONE);
		if (i % 32 == 0)
			core_wait(c, 10 * CORE_US);
		core_forget(&c->a);
	}
	core_wait(c, 500 * CORE_US);
	core_forget(&c->a);
	return c;
}

/* Host B answers the WRITE on connection i. False: once more. */
static bool answer_write(struct core *c, uint32_t i, uint8_t syndrome)
{
	struct roce_pkt h = core_answer(RC_ACK, WRITER_QPN + i, WRITE_PSN, syndrome, 1);
	uint8_t buf[200];
	size_t n = roce_build(buf, sizeof(buf), &h, core_payload(0, 0), 0);
	enum proxy_drop d;

	steps_begin();
	d = proxy_lan_rx(c->b.p, c->now_ns, buf, n, 0);
	called("proxy_lan_rx");
	return d == DROP_NONE;
}

/* n such segments, as many as fit in each datagram. */
static void small_tcp(struct core *c, uint8_t host, uint32_t n)
{
	uint8_t l3[64];
	size_t len = tcp_byte(l3, host);

	while (n--)
		assert_int_equal(proxy_lan_rx(c->a.p, c->now_ns, l3, len, 0), DROP_NONE);
	while (carry(c, &c->a, &c->b))
		;
	core_pump(c);
}

/* The near edge has lost its arena while many flows of two hosts had requests here. What others send does not look at
 * these flows one by one, nor do packets of the two, whatever state the flows are in. */
static void bounds__packets_beside_many_stale_flows(void **state)
{
	const uint32_t n = 300;
	struct core *c = given_many_writes(state, BARRIER_PAIR, n);

	core_lose(c, &c->a, 99);
	assert_int_equal(places(&c->b.p->stale_flows), n);
	core_forget(&c->b);
	worst = 0;
	small_tcp(c, 7, 100);
	assert_int_equal(core_pending(&c->b), 100);
	small_tcp(c, 2, 100);
	assert_int_equal(core_pending(&c->b), 100);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_HELD), 100);
	assert_in_range(worst, 1, STEPS_MAX);

	for (uint32_t i = 0; i < n; i++)
		assert_true(answer_write(c, i, AETH_RNR_NAK | 28)); /* 164 ms */
	core_pump(c);
	assert_int_equal(core_pending(&c->b), 200);
	small_tcp(c, 2, 100);
	assert_int_equal(core_pending(&c->b), 300);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_HELD), 100);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 200);
	for (uint32_t i = 0; i < 30; i++)
		core_cm_in(&c->a, &(struct core_cm){.type = 0x15, .local_id = 1, .remote_id = 2, .qpn = 0x9000 + i});
	while (carry(c, &c->a, &c->b))
		;
	assert_in_range(worst, 1, STEPS_MAX);

	core_forget(&c->b);
	core_wait(c, 200 * CORE_MS); /* RNR is over: all are sent again, and waited for */
	small_tcp(c, 2, 1);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_HELD), 101);
	assert_int_equal(c->b.p->barrier.waiting, 1);
	for (uint32_t i = 0; i < n; i++)
		assert_true(answer_write(c, i, AETH_ACK_NO_CREDITS));
	core_wait(c, CORE_MS);
	assert_int_equal(c->b.p->barrier.waiting, 0);
	assert_true(dlist_empty(&c->b.p->stale_flows));
	assert_int_equal(c->b.p->barrier.far_pairs.used, 0);
	assert_in_range(worst, 1, STEPS_MAX);
}

/* Many messages wait for one, or for each other. Each answer lets all of them look again, and none is forgotten. */
static void bounds__one_ack_wakes_many_messages(void **state)
{
	const uint32_t n = 700;
	struct core *c = given_many_writes(state, BARRIER_CAUSAL, n);
	uint32_t delivered = 0;
	const struct core_pkt *k;

	assert_int_equal(places(&c->b.p->barrier.starts), n - 1);
	worst = 0;
	while ((k = core_take(&c->b))) {
		delivered += answer_write(c, k->h.dest_qpn - WRITTEN_QPN, AETH_ACK_NO_CREDITS);
		for (bool more = true; more; core_collect(&c->b))
			more = !dlist_empty(&c->b.p->barrier.waking) && tick(&c->b);
		if (delivered % 64 == 0)
			assert_int_equal(proxy_audit(c->b.p), 0);
	}
	assert_int_equal(delivered, n);
	assert_true(dlist_empty(&c->b.p->barrier.starts));
	assert_int_equal(c->b.p->barrier.far_pairs.used, 0);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_EXPIRED), 0);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 0);
	assert_in_range(worst, 1, STEPS_MAX);
}

/* A DREQ whose snapshot has no room for all flows between its hosts waits for its own, also in RNR. */
static void bounds__dreq_among_many_writes_waits_for_its_own(void **state)
{
	const uint32_t n = 300, last = n - 1;
	struct core *c = given_many_writes(state, BARRIER_PAIR, n);

	for (uint32_t i = 0; i < n; i++)
		assert_true(answer_write(c, i, AETH_RNR_NAK | 28)); /* 164 ms */
	core_pump(c);
	core_forget(&c->b);
	core_cm_in(&c->a, &(struct core_cm){.type = 0x15,
	                                    .local_id = WRITER_QPN + last,
	                                    .remote_id = WRITTEN_QPN + last,
	                                    .qpn = WRITTEN_QPN + last});
	core_wait(c, 50 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(core_ctr(&c->a, CTR_IP_CARRIED), 0);
	core_wait(c, 150 * CORE_MS);
	core_forget(&c->b);
	assert_true(answer_write(c, last, AETH_ACK_NO_CREDITS));
	for (uint32_t i = 0; i < last; i++)
		assert_true(answer_write(c, i, AETH_RNR_NAK | 28));
	core_wait(c, CORE_MS);
	core_expect(&c->b, UD_SEND_ONLY, 0);
}

/* Many messages have waited for too long at the same time. */
static void bounds__many_messages_expire(void **state)
{
	const uint32_t n = 1200;
	struct core *c = given_many_writes(state, BARRIER_CAUSAL, n);
	struct proxy *p = c->b.p;

	assert_int_equal(places(&p->barrier.starts), n - 1);
	worst = 0;
	p->cfg.barrier_max_ns = 1;
	timer_set(&p->timers, &p->barrier.starts_limit, c->now_ns);
	for (int i = 0; i < 100 && !dlist_empty(&p->barrier.starts); i++)
		tick(&c->b);
	assert_true(dlist_empty(&p->barrier.starts));
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_EXPIRED), n - 1);
	assert_in_range(worst, 1, STEPS_MAX);
}

/* The snapshot of a packet names many flows that were forgotten long ago. */
static void bounds__entries_of_forgotten_flows(void **state)
{
	enum { ENTRIES = 500 };
	static uint8_t data[WAN_MTU_MAX], buf[2 * WAN_MTU_MAX];
	struct core *c = given_many_writes(state, BARRIER_PAIR, 0);
	struct proxy *p = c->b.p;
	struct wan_ip w = {.seq = 5, .entries = ENTRIES, .data = data};
	struct wan_frame f;
	size_t off = 0, len;

	for (p->barrier.ngone = 0; p->barrier.ngone < BARRIER_GONE; p->barrier.ngone++) {
		p->barrier.gone[p->barrier.ngone].peer_epoch = 1;
		p->barrier.gone[p->barrier.ngone].peer_flow = p->barrier.ngone;
		p->barrier.gone[p->barrier.ngone].upto = UINT64_MAX;
	}
	for (uint32_t i = 0; i < ENTRIES; i++)
		put_be32(data + i * BARRIER_ENTRY_LEN, BARRIER_GONE - 1);
	w.len = w.total = (uint16_t)(ENTRIES * BARRIER_ENTRY_LEN + tcp_byte(data + ENTRIES * BARRIER_ENTRY_LEN, 2));
	len = wan_ip_put(buf, sizeof(buf), &w);
	assert_int_equal(wan_frame_next(buf, len, &off, &f), 1);
	worst = 0;
	proxy_tick(p, c->now_ns); /* a call's work */
	steps_begin();
	assert_true(ip_source.on_frame(p, &p->wan->lanes[0], &f) || ip_source.on_frame(p, &p->wan->lanes[1], &f));
	called("on_frame");
	while (tick(&c->b) && p->barrier.waiting)
		;
	core_pump(c);
	assert_int_equal(core_pending(&c->b), 1);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_HELD), 1);
	assert_in_range(worst, 1, STEPS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    POSITION_TEST(bounds__positions_pass_32_bits),
	    POSITION_TEST(bounds__positions_pass_42_bits),
	    POSITION_TEST(bounds__positions_pass_48_bits),
	    POSITION_TEST(bounds__positions_end),
	    CORE_TEST(bounds__forgetting_long_reads),
	    CORE_TEST(bounds__one_ack_for_many),
	    CORE_TEST(bounds__closing_a_long_flow),
	    CORE_TEST(bounds__full_far_table),
	    cmocka_unit_test(bounds__losses_in_a_row),
	    CORE_TEST(bounds__lost_requests_to_read_again),
	    CORE_TEST(bounds__responses_of_many_reads),
	    CORE_TEST(bounds__room_among_responses_of_many_reads),
	    CORE_TEST(bounds__room_among_responses_that_came_backwards),
	    CORE_TEST(bounds__copies_due_at_once),
	    CORE_TEST(bounds__slots_side_by_side_in_the_index),
	    CORE_TEST(bounds__many_wait_for_room),
	    CORE_TEST(bounds__many_wait_whose_hosts_give_up),
	    CORE_TEST(bounds__one_requester_number_in_many_connections),
	    CORE_TEST(bounds__one_requester_number_never_certain),
	    CORE_TEST(bounds__late_error_among_unpaired_flows),
	    CORE_TEST(bounds__late_error_of_a_number_used_often),
	    CORE_TEST(bounds__turns_of_lanes),
	    CORE_TEST(bounds__packets_beside_many_stale_flows),
	    CORE_TEST(bounds__one_ack_wakes_many_messages),
	    CORE_TEST(bounds__dreq_among_many_writes_waits_for_its_own),
	    CORE_TEST(bounds__many_messages_expire),
	    CORE_TEST(bounds__entries_of_forgotten_flows),
	    CORE_TEST(bounds__cm_ids_of_one_sum),
	    CORE_TEST(bounds__many_rebuilt_at_once),
	    CORE_TEST(bounds__a_session_ends_among_rebuilt),
	    CORE_TEST(bounds__keys_make_up_for_no_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
