/* SPDX-License-Identifier: Apache-2.0 */
/* What is not RC is carried as it is, once; DREQ and DREP wait for the bytes that were ACKed before them. */
#include "core_fixture.h"

static enum proxy_drop ud(struct core_edge *e, uint32_t psn, size_t len)
{
	struct roce_pkt h = core_req(UD_SEND_ONLY, psn);

	if (e == &e->c->b) {
		h.src = core_ip(2, 2);
		h.dst = core_ip(1, 2);
	}
	h.dest_qpn = 0x77;
	h.deth_qkey = 0x1234;
	h.deth_src_qpn = 0x88;
	return core_in(e, h, len, 0x3003);
}

static void raw__ud_is_carried_as_it_is(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	assert_int_equal(ud(&c->a, 5, 700), DROP_NONE);
	core_pump(c);
	k = core_expect(&c->b, UD_SEND_ONLY, 5);
	assert_int_equal(k->vlan_tci, 0x3003);
	assert_int_equal(k->h.ttl, 63);
	assert_int_equal(k->h.deth_src_qpn, 0x88);
	assert_memory_equal(k->l3 + k->h.hdr_len, core_payload(0, 5), 700);
	core_wait(c, 5 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_used(&c->b), 0);
}

/* UC, XRC, vendor opcodes, and a CNP about a queue pair that is no flow's. */
static void raw__other_classes_are_carried(void **state)
{
	static const uint8_t ops[] = {0x24, ROCE_CNP, 0xa4, 0xc1, 0xff};
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (size_t i = 0; i < sizeof(ops); i++) {
		assert_int_equal(core_in(&c->a, core_req(ops[i], 9), 64, 0), DROP_NONE);
		core_pump(c);
		core_expect(&c->b, ops[i], 9);
	}
}

/* Loses every third datagram and delivers every other one twice. */
static bool rough(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	static unsigned n;

	if (++n % 3 == 0)
		return false;
	if (n % 2) {
		struct core_edge *to = from == &c->a ? &c->b : &c->a;

		proxy_wan_rx(to->p, c->now_ns, dgram, len, false);
	}
	return true;
}

static void raw__once_over_a_rough_line(void **state)
{
	uint8_t seen[60] = {0};
	struct core *c = core_given(state, ACK_MODE_NEAR);

	c->wan = rough;
	for (uint32_t i = 0; i < 60; i++) {
		assert_int_equal(ud(&c->a, i, 300), DROP_NONE);
		core_wait(c, 500 * CORE_US);
	}
	core_wait(c, 500 * CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->b));)
		seen[k->h.psn]++;
	for (int i = 0; i < 60; i++)
		assert_int_equal(seen[i], 1);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_used(&c->b), 0);
}

/* A CNP speaks of a queue as it is now: one that was lost does not come later, with others of that time. */
static void raw__a_lost_cnp_is_not_repaired(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	c->cut = true;
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(core_in(&c->a, core_req(ROCE_CNP, 0), ROCE_CNP_PAYLOAD, 0), DROP_NONE);
		core_pump(c);
	}
	assert_int_equal(ud(&c->a, 7, 300), DROP_NONE);
	core_pump(c);
	c->cut = false;
	core_wait(c, 500 * CORE_MS);
	core_expect(&c->b, UD_SEND_ONLY, 7);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(c->a.p->counters.drop[DROP_RAW_LOST], 3);
	assert_int_equal(core_used(&c->a), 0);
}

/* Too large for one datagram: in pieces. */
static void raw__large_packet_over_a_small_mtu(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_small_mtu(state);

	assert_int_equal(ud(&c->a, 1, 4000), DROP_NONE);
	core_pump(c);
	k = core_expect(&c->b, UD_SEND_ONLY, 1);
	assert_int_equal(k->h.payload_len, 4000);
	assert_memory_equal(k->l3 + k->h.hdr_len, core_payload(0, 1), 4000);
}

/* Expendable: without a session, and when there is no room, it is dropped by name and never in the way. */
static void raw__is_expendable(void **state)
{
	enum proxy_drop d = DROP_NONE;
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 8);

	c->cut = true;
	for (uint32_t i = 0; i < 5000 && d == DROP_NONE; i++)
		d = ud(&c->a, i, 4000);
	assert_int_equal(d, DROP_LAN_RAW_NO_ROOM);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 0), DROP_NONE); /* there is a reserve for RC */
	core_wait(c, 10000 * CORE_MS);
}

/* Not for this site's hosts: a peer cannot send anywhere it likes. */
static void raw__foreign_destination_from_the_peer(void **state)
{
	struct roce_pkt h = core_req(UD_SEND_ONLY, 1);
	struct wan_packet w = {.kind = WP_RAW, .pos = 0};
	uint8_t l3[LAN_PKT_MAX];
	struct core *c = core_given(state, ACK_MODE_NEAR);

	h.dst = core_ip(9, 9);
	w.total = w.len = (uint16_t)roce_build(l3, sizeof(l3), &h, core_payload(0, 1), 100);
	w.data = l3;
	raw_source.on_packet(c->b.p, &c->b.p->wan->lanes[0], &w);
	core_pump(c);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(core_used(&c->b), 0);
	assert_int_equal(core_drops(&c->b, DROP_WAN_BAD_FRAME), 1);
}

/* A packet whose last pieces never come (the other edge gives it up) does not stay for ever. */
static void raw__unfinished_packets_are_bounded(void **state)
{
	struct wan_packet w = {.kind = WP_RAW, .len = 512};
	uint8_t l3[LAN_PKT_MAX];
	struct core *c = core_given(state, ACK_MODE_NEAR);
	uint64_t most = 0;

	for (uint32_t i = 0; i < 600; i++) {
		struct roce_pkt h = core_req(UD_SEND_ONLY, i);

		w.total = (uint16_t)roce_build(l3, sizeof(l3), &h, core_payload(0, i), 1000);
		w.data = l3;
		w.pos = i;
		assert_true(raw_source.on_packet(c->b.p, &c->b.p->wan->lanes[0], &w));
		most = max_u64(most, core_used(&c->b));
	}
	assert_true(most <= 128 * 1152);
	core_session(c);
	assert_int_equal(core_used(&c->b), 0);
}

/* A new session sends it again while the first copy still waits for the LAN. */
static void raw__again_in_a_new_session(void **state)
{
	struct proxy_session sa = {.epoch_tx = 77, .epoch_rx = 78}, sb = {.epoch_tx = 78, .epoch_rx = 77};
	uint8_t buf[WAN_MTU_MAX];
	struct wan_tx tx;
	struct core *c = core_given(state, ACK_MODE_NEAR);
	size_t n;

	core_wait(c, CORE_MS);
	ud(&c->a, 1, 200);
	while ((n = proxy_wan_tx(c->a.p, c->now_ns, buf, sizeof(buf), &tx)) > 0)
		proxy_wan_rx(c->b.p, c->now_ns, buf, n, false);
	proxy_session_start(c->a.p, &sa, c->now_ns);
	proxy_session_start(c->b.p, &sb, c->now_ns);
	while ((n = proxy_wan_tx(c->a.p, c->now_ns, buf, sizeof(buf), &tx)) > 0)
		proxy_wan_rx(c->b.p, c->now_ns, buf, n, false);
	core_pump(c);
	core_expect(&c->b, UD_SEND_ONLY, 1);
	assert_int_equal(core_pending(&c->b), 0);
}

/* Each edge as it says it has started. */
static void session_of_starts(struct core *c, uint32_t a, uint32_t b)
{
	struct proxy_session sa = {.epoch_tx = ++c->epoch, .epoch_rx = 0x10000 + c->epoch, .peer_boot_id = b};
	struct proxy_session sb = {.epoch_tx = sa.epoch_rx, .epoch_rx = sa.epoch_tx, .peer_boot_id = a};

	proxy_session_start(c->a.p, &sa, c->now_ns);
	proxy_session_start(c->b.p, &sb, c->now_ns);
	core_pump(c);
}

/* The host has them, and the other edge does not know it yet. */
static void deliver_unreported(struct core *c, uint32_t first, uint32_t n)
{
	uint8_t buf[WAN_MTU_MAX];
	struct wan_tx tx;
	size_t len;

	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(ud(&c->a, first + i, 200), DROP_NONE);
	while ((len = proxy_wan_tx(c->a.p, c->now_ns, buf, sizeof(buf), &tx)) > 0)
		proxy_wan_rx(c->b.p, c->now_ns, buf, len, false);
	core_collect(&c->b);
	for (uint32_t i = 0; i < n; i++)
		core_expect(&c->b, UD_SEND_ONLY, first + i);
}

/* Both have said something new since, or prove themselves anew: what a host has does not come again. */
static void raw__once_over_sessions_of_the_same_starts(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	session_of_starts(c, 5, 6);
	core_wait(c, CORE_MS);
	deliver_unreported(c, 1, 3);
	session_of_starts(c, 5, 6);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(core_drops(&c->b, DROP_WAN_POSITION_OLD), 3);
	ud(&c->a, 4, 200); /* the numbers go on */
	core_pump(c);
	core_expect(&c->b, UD_SEND_ONLY, 4);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_used(&c->b), 0);
}

/* The other edge has started again, and numbers from 0: none of its packets is taken for one of before. */
static void raw__numbers_start_over_with_the_other_edge(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	session_of_starts(c, 5, 6);
	core_wait(c, CORE_MS);
	deliver_unreported(c, 1, 3);
	core_begin(&c->a, 78);
	session_of_starts(c, 7, 6);
	core_wait(c, CORE_MS);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(ud(&c->a, 10 + i, 200), DROP_NONE);
		core_pump(c);
		core_expect(&c->b, UD_SEND_ONLY, 10 + i);
	}
	assert_int_equal(core_drops(&c->b, DROP_WAN_POSITION_OLD), 0);
}

/* A repair whose original arrived after all: another datagram number, the same packet. */
static void raw__spurious_repair_is_delivered_once(void **state)
{
	struct wan_packet w = {.kind = WP_RAW, .pos = 7};
	struct roce_pkt h = core_req(UD_SEND_ONLY, 1);
	uint8_t l3[LAN_PKT_MAX];
	struct core *c = core_given(state, ACK_MODE_NEAR);

	w.total = w.len = (uint16_t)roce_build(l3, sizeof(l3), &h, core_payload(0, 1), 100);
	w.data = l3;
	for (int i = 0; i < 2; i++) { /* at once, and after the host has it */
		assert_true(raw_source.on_packet(c->b.p, &c->b.p->wan->lanes[0], &w));
		assert_true(raw_source.on_packet(c->b.p, &c->b.p->wan->lanes[0], &w));
		core_pump(c);
	}
	core_expect(&c->b, UD_SEND_ONLY, 1);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(core_drops(&c->b, DROP_WAN_POSITION_OLD), 3);
	w.pos = 8 + RAW_SEEN_MAX; /* far ahead: what is older than the window counts as seen */
	raw_source.on_packet(c->b.p, &c->b.p->wan->lanes[0], &w);
	w.pos = 8;
	raw_source.on_packet(c->b.p, &c->b.p->wan->lanes[0], &w);
	core_pump(c);
	core_expect(&c->b, UD_SEND_ONLY, 1);
	assert_int_equal(core_pending(&c->b), 0);
}

/* Packets with these numbers come from the other edge, one after the other. */
static struct core *given_raw_in_order(void **state, const uint64_t *order, size_t n)
{
	struct wan_packet w = {.kind = WP_RAW};
	struct roce_pkt h = core_req(UD_SEND_ONLY, 1);
	uint8_t l3[LAN_PKT_MAX];
	struct core *c = core_given(state, ACK_MODE_NEAR);

	w.total = w.len = (uint16_t)roce_build(l3, sizeof(l3), &h, core_payload(0, 1), 100);
	w.data = l3;
	for (size_t i = 0; i < n; i++) {
		w.pos = order[i];
		assert_true(raw_source.on_packet(c->b.p, &c->b.p->wan->lanes[0], &w));
		core_pump(c);
	}
	return c;
}

/* A packet on a longer path, or one that was repaired, comes after thousands that were sent later. */
static void raw__overtaken_by_thousands_is_delivered(void **state)
{
	static const uint64_t order[] = {7, 5007, 8, 8, 64, 127, 128, 5007, 70000, 9000, 9000};
	struct core *c = given_raw_in_order(state, order, sizeof(order) / sizeof(*order));

	for (int i = 0; i < 8; i++)
		core_expect(&c->b, UD_SEND_ONLY, 1);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(core_drops(&c->b, DROP_WAN_POSITION_OLD), 3);
}

/* The oldest number of the window stands in the same word as the newest one, and is still known. */
static void raw__oldest_of_the_window_is_known(void **state)
{
	static const uint64_t order[] = {7, 7 + RAW_SEEN_MAX - 1, 7};
	struct core *c = given_raw_in_order(state, order, sizeof(order) / sizeof(*order));

	assert_int_equal(core_pending(&c->b), 2);
	assert_int_equal(core_drops(&c->b, DROP_WAN_POSITION_OLD), 1);
}

/* --- DREQ --- */

static const struct core_cm dreq = {.type = 0x15, .local_id = 5, .remote_id = 6, .qpn = CORE_QPN};

/* Host B has the WRITE of 500. */
static void answer_500(struct core *c)
{
	assert_int_equal(core_in(&c->b, core_answer(RC_ACK, 0x21, 500, AETH_ACK_NO_CREDITS, 1), 0, 0), DROP_NONE);
	core_pump(c);
}

static void raw__dreq_waits_for_the_bytes(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_connect(c, 500, 900, 7);
	core_send(c, RC_WRITE_ONLY, 500);
	core_expect_aeth(&c->a, 500, AETH_ACK_NO_CREDITS);
	core_expect(&c->b, RC_WRITE_ONLY, 500);
	assert_int_equal(core_cm_in(&c->a, &dreq), DROP_NONE);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0); /* the QP must live until 500 is there */
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_HELD), 1);
	answer_500(c);
	core_wait(c, CORE_MS);
	core_expect(&c->b, UD_SEND_ONLY, 0);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED) + core_ctr(&c->b, CTR_BARRIER_EXPIRED), 0);
}

static void raw__dreq_goes_at_once_when_all_is_delivered(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_connect(c, 500, 900, 7);
	core_send(c, RC_WRITE_ONLY, 500);
	answer_500(c);
	core_wait(c, CORE_MS);
	core_forget(&c->b);
	core_cm_in(&c->a, &dreq);
	core_pump(c);
	core_expect(&c->b, UD_SEND_ONLY, 0);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_HELD), 0);
}

/* Nor what a near edge that has lost its arena has left behind, of which it does not know when the DREQ comes. */
static void raw__dreq_waits_for_what_a_lost_near_edge_has_left(void **state)
{
	struct core *c = core_given(state, ACK_MODE_FAR);

	core_know_epochs(c);
	core_connect(c, 500, 900, 7);
	core_send(c, RC_WRITE_ONLY, 500);
	core_expect_aeth(&c->a, 500, AETH_ACK_NO_CREDITS);
	core_lose(c, &c->a, 99);
	core_forget(&c->b);
	core_cm_in(&c->a, &dreq);
	core_wait(c, CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->b));)
		assert_int_equal(k->h.opcode, RC_WRITE_ONLY);
	answer_500(c);
	core_wait(c, CORE_MS);
	core_expect(&c->b, UD_SEND_ONLY, 0);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED) + core_ctr(&c->b, CTR_BARRIER_EXPIRED), 0);
}

/* A responder that never takes the bytes does not hold the DREQ for ever; that it was let go is counted. */
static void raw__dreq_is_let_go_in_the_end(void **state)
{
	bool there = false;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_connect(c, 500, 900, 7);
	core_send(c, RC_WRITE_ONLY, 500);
	core_cm_in(&c->a, &dreq);
	core_wait(c, c->b.cfg.stall_ns - 10 * CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->b));)
		assert_int_equal(k->h.opcode, RC_WRITE_ONLY);
	core_wait(c, 300 * CORE_MS); /* the flow is found stalled at a retry */
	for (const struct core_pkt *k; (k = core_take(&c->b));)
		there |= k->h.opcode == UD_SEND_ONLY;
	assert_true(there);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 1);
}

/* The other end's DREP must not overtake what that end sent either. */
static void raw__drep_waits_too(void **state)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 900);
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_connect(c, 500, 900, 7);
	h.src = core_ip(2, 2);
	h.dst = core_ip(1, 2);
	h.dest_qpn = 0x21;
	assert_int_equal(core_in(&c->b, h, CORE_PMTU, 0), DROP_NONE); /* B's own WRITE to A */
	core_pump(c);
	core_expect_aeth(&c->b, 900, AETH_ACK_NO_CREDITS);
	core_expect(&c->a, RC_WRITE_ONLY, 900);
	core_cm_in(&c->a, &dreq);
	core_pump(c);
	core_expect(&c->b, UD_SEND_ONLY, 0);
	core_cm_in(&c->b, &(struct core_cm){.type = 0x16, .local_id = 6, .remote_id = 5});
	core_wait(c, 5 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	h = core_answer(RC_ACK, CORE_QPN, 900, AETH_ACK_NO_CREDITS, 1);
	h.src = core_ip(1, 2);
	h.dst = core_ip(2, 2);
	assert_int_equal(core_in(&c->a, h, 0, 0), DROP_NONE);
	core_wait(c, CORE_MS);
	core_expect(&c->a, UD_SEND_ONLY, 0);
}

/* A repeated REQ or REP changes nothing on a live flow. */
static void raw__repeated_cm_never_resets_a_flow(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	uint32_t inc;

	core_connect(c, 500, 900, 7);
	core_send_run(c, 500, 5);
	inc = core_near(c)->inc;
	core_cm_in(&c->a, &(struct core_cm){.type = 0x10, .local_id = 5, .qpn = 0x21, .psn = 900, .rnr_retry = 7});
	core_cm_in(&c->b, &(struct core_cm){.type = 0x13, .local_id = 6, .remote_id = 5, .qpn = CORE_QPN, .psn = 500});
	core_pump(c);
	assert_int_equal(core_near(c)->inc, inc);
	assert_int_equal(core_near(c)->pos_next, POS_ORIGIN + 505);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 0);
}

/* A connection that was closed before one side sent anything: who gets the QPN next, and begins at the same PSN without
 * CM, is not taken for its requester. The flow that was used stays. */
static void raw__the_end_of_a_connection_forgets_what_was_never_used(void **state)
{
	struct ip_addr from = core_ip(2, 2), to = core_ip(1, 2);
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_connect(c, 500, 900, 7);
	assert_non_null(near_find(c->b.p, &from, &to, 0x21, 0));
	core_send_run(c, 500, 5);
	core_cm_in(&c->a, &dreq);
	core_cm_in(&c->b, &(struct core_cm){.type = 0x16, .local_id = 6, .remote_id = 5});
	core_pump(c);
	assert_null(near_find(c->b.p, &from, &to, 0x21, 0));
	assert_non_null(core_near(c));
}

/* Each site has VLAN ids of its own: a flow is known by the one of its requester's LAN, whoever's message came last. */
static void raw__cm_opens_by_the_requester_s_vlan(void **state)
{
	struct ip_addr a = core_ip(1, 2), b = core_ip(2, 2);
	struct core *c = core_given(state, ACK_MODE_NEAR);
	const struct near_flow *f;
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 500);

	core_cm_in(&c->a, &(struct core_cm){.type = 0x10,
	                                    .local_id = 5,
	                                    .qpn = 0x21,
	                                    .psn = 900,
	                                    .rnr_retry = 3,
	                                    .vlan_tci = 0x6064}); /* PCP 3, VLAN 100 */
	core_pump(c);
	core_cm_in(&c->b, &(struct core_cm){.type = 0x13,
	                                    .local_id = 6,
	                                    .remote_id = 5,
	                                    .qpn = CORE_QPN,
	                                    .psn = 500,
	                                    .rnr_retry = 2,
	                                    .vlan_tci = 200});
	core_pump(c);
	core_forget(&c->a);
	core_forget(&c->b);
	f = near_find(c->a.p, &a, &b, CORE_QPN, 100);
	assert_non_null(f);
	assert_int_equal(f->pmtu, CORE_PMTU);
	assert_int_equal(f->rnr_retry, 2);
	assert_null(near_find(c->a.p, &a, &b, CORE_QPN, 200));
	f = near_find(c->b.p, &b, &a, 0x21, 200);
	assert_non_null(f);
	assert_int_equal(f->rnr_retry, 3);
	assert_null(near_find(c->b.p, &b, &a, 0x21, 100));
	core_in(&c->a, h, CORE_PMTU, 0x6064);
	core_pump(c);
	assert_int_equal(core_expect_aeth(&c->a, 500, AETH_ACK_NO_CREDITS)->vlan_tci, 0x6064); /* nothing to be learned */
	assert_int_equal(c->a.p->near_used, 1);
	core_cm_in(&c->b, &(struct core_cm){.type = 0x16, .local_id = 6, .remote_id = 5, .vlan_tci = 200});
	core_pump(c);
	assert_null(near_find(c->b.p, &b, &a, 0x21, 200)); /* never used: gone with its connection */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(raw__the_end_of_a_connection_forgets_what_was_never_used),
	    CORE_TEST(raw__ud_is_carried_as_it_is),
	    CORE_TEST(raw__other_classes_are_carried),
	    CORE_TEST(raw__once_over_a_rough_line),
	    CORE_TEST(raw__a_lost_cnp_is_not_repaired),
	    CORE_TEST(raw__large_packet_over_a_small_mtu),
	    CORE_TEST(raw__is_expendable),
	    CORE_TEST(raw__foreign_destination_from_the_peer),
	    CORE_TEST(raw__unfinished_packets_are_bounded),
	    CORE_TEST(raw__again_in_a_new_session),
	    CORE_TEST(raw__once_over_sessions_of_the_same_starts),
	    CORE_TEST(raw__numbers_start_over_with_the_other_edge),
	    CORE_TEST(raw__overtaken_by_thousands_is_delivered),
	    CORE_TEST(raw__oldest_of_the_window_is_known),
	    CORE_TEST(raw__spurious_repair_is_delivered_once),
	    CORE_TEST(raw__dreq_waits_for_the_bytes),
	    CORE_TEST(raw__dreq_goes_at_once_when_all_is_delivered),
	    CORE_TEST(raw__dreq_waits_for_what_a_lost_near_edge_has_left),
	    CORE_TEST(raw__dreq_is_let_go_in_the_end),
	    CORE_TEST(raw__drep_waits_too),
	    CORE_TEST(raw__repeated_cm_never_resets_a_flow),
	    CORE_TEST(raw__cm_opens_by_the_requester_s_vlan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
