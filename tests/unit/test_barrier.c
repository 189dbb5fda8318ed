/* SPDX-License-Identifier: Apache-2.0 */
/* What is not RC does not arrive before the RC bytes that were ACKed early before it; and what is exempt, waived, late,
 * large or hostile. */
#include "core_fixture.h"

#include "proxy/carry/barrier.h"
#include "proxy/carry/ip_carry.h"
#include "proxy/shard/flow_find.h"

enum { TCP_ACK_FLAG = 0x10, TCP_PSH = 0x18, TCP_SYN = 0x02, TCP_FIN = 0x11, POOL = 4 << 20, L3_MAX = 9300 };

static struct core *given_barrier(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (int i = 0; i < 2; i++) {
		struct core_edge *e = i ? &c->b : &c->a;

		e->cfg.barrier = BARRIER_PAIR;
		e->cfg.ip_pool_bytes = POOL;
		core_begin(e, 77u + (unsigned)i);
	}
	core_session(c);
	core_forget(&c->a);
	core_forget(&c->b);
	return c;
}

/* A TCP segment from host 2 of site 1 to host 2 of site 2. */
static size_t tcp(uint8_t *l3, uint8_t flags, uint16_t dport, size_t data)
{
	core_tcp_header(l3, flags, data);
	put_be16(l3 + 20, 40000);
	put_be16(l3 + 22, dport);
	for (size_t i = 0; i < data; i++)
		l3[40 + i] = (uint8_t)(i * 7 + i / 256);
	return 40 + data;
}

static enum proxy_drop say(struct core *c, uint8_t flags, uint16_t dport, size_t data)
{
	uint8_t l3[L3_MAX];
	size_t len = tcp(l3, flags, dport, data);
	enum proxy_drop d = proxy_lan_rx(c->a.p, c->now_ns, l3, len, 7);

	core_pump(c);
	return d;
}

/* The next packet for host B must be that segment, a hop older and else as it was. */
static void expect_tcp(struct core *c, uint8_t flags, uint16_t dport, size_t data)
{
	const struct core_pkt *k = core_take(&c->b);
	uint8_t want[L3_MAX];
	size_t len = tcp(want, flags, dport, data);

	assert_non_null(k);
	assert_int_equal(k->len, len);
	assert_int_equal(k->vlan_tci, 7);
	assert_int_equal(k->l3[8], 64); /* hops are the kernels' */
	assert_memory_equal(k->l3, want, 8);
	assert_memory_equal(k->l3 + 12, want + 12, len - 12);
}

static bool nothing_for_b(const struct core *c)
{
	return core_pending(&c->b) == 0;
}

/* A flow with one WRITE that host A believes complete and host B has not answered. */
static void write_500(struct core *c)
{
	core_connect(c, 500, 900, 7);
	core_send(c, RC_WRITE_ONLY, 500);
	core_expect_aeth(&c->a, 500, AETH_ACK_NO_CREDITS);
	core_expect(&c->b, RC_WRITE_ONLY, 500);
}

static struct core *given_write_500(void **state)
{
	struct core *c = given_barrier(state);

	write_500(c);
	return c;
}

static void answer(struct core *c, uint32_t psn, uint8_t syndrome)
{
	core_in(&c->b, core_answer(RC_ACK, 0x21, psn, syndrome, 1), 0, 0);
	core_pump(c);
}

static void barrier__tcp_waits_for_what_was_acked_before_it(void **state)
{
	struct core *c = given_write_500(state);

	assert_int_equal(say(c, TCP_PSH, 5000, 100), DROP_NONE);
	assert_true(nothing_for_b(c));
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_HELD), 1);
	core_send(c, RC_WRITE_ONLY, 501); /* later than the word: not waited for */
	core_expect(&c->b, RC_WRITE_ONLY, 501);
	answer(c, 500, AETH_ACK_NO_CREDITS);
	expect_tcp(c, TCP_PSH, 5000, 100);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 0);
}

static void barrier__nothing_acked_nothing_waited_for(void **state)
{
	struct core *c = given_barrier(state);

	say(c, TCP_PSH, 5000, 1);
	expect_tcp(c, TCP_PSH, 5000, 1);
	write_500(c);
	answer(c, 500, AETH_ACK_NO_CREDITS);
	core_wait(c, CORE_MS);
	say(c, TCP_PSH, 5000, 2);
	expect_tcp(c, TCP_PSH, 5000, 2);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_HELD), 0);
}

/* Order is kept among those that wait, and what opens or closes a connection is a word too. */
static void barrier__order_is_kept(void **state)
{
	struct core *c = given_write_500(state);

	say(c, TCP_SYN, 5000, 0);
	core_send(c, RC_WRITE_ONLY, 501);
	core_expect(&c->b, RC_WRITE_ONLY, 501);
	say(c, TCP_PSH, 5000, 3000);
	say(c, TCP_FIN, 5000, 0);
	assert_true(nothing_for_b(c));
	answer(c, 500, AETH_ACK_NO_CREDITS);
	expect_tcp(c, TCP_SYN, 5000, 0);
	assert_true(nothing_for_b(c));
	answer(c, 501, AETH_ACK_NO_CREDITS);
	expect_tcp(c, TCP_PSH, 5000, 3000);
	expect_tcp(c, TCP_FIN, 5000, 0);
}

static void barrier__exempt_packets_overtake(void **state)
{
	struct core *c = given_write_500(state);

	say(c, TCP_PSH, 5000, 10);
	say(c, TCP_ACK_FLAG, 5000, 0);
	expect_tcp(c, TCP_ACK_FLAG, 5000, 0);
	say(c, TCP_PSH, 22, 10);
	expect_tcp(c, TCP_PSH, 22, 10);
	assert_true(nothing_for_b(c));
	assert_int_equal(core_ctr(&c->a, CTR_BARRIER_EXEMPT), 2);
	answer(c, 500, AETH_ACK_NO_CREDITS);
	expect_tcp(c, TCP_PSH, 5000, 10);
}

/* UD waits as well; a CNP does not. */
static void barrier__roce_that_is_not_rc(void **state)
{
	struct roce_pkt h = core_req(UD_SEND_ONLY, 3);
	struct core *c = given_write_500(state);

	h.dest_qpn = 77;
	core_in(&c->a, h, 256, 0);
	h.opcode = ROCE_CNP;
	core_in(&c->a, h, 16, 0);
	core_pump(c);
	core_expect(&c->b, ROCE_CNP, 3);
	assert_true(nothing_for_b(c));
	answer(c, 500, AETH_ACK_NO_CREDITS);
	core_expect(&c->b, UD_SEND_ONLY, 3);
}

/* A UD packet that fills its slot has no room for a snapshot there: it goes the way of IP. */
static void barrier__large_ud_takes_its_snapshot_along(void **state)
{
	struct roce_pkt h = core_req(UD_SEND_ONLY, 3);
	struct core *c = given_barrier(state);

	for (uint32_t q = 0; q < 6; q++) {
		core_cm_in(&c->a, &(struct core_cm){
		                     .type = 0x10, .local_id = 50 + q, .qpn = 0x30 + q, .psn = 900, .rnr_retry = 7});
		core_cm_in(&c->b, &(struct core_cm){.type = 0x13,
		                                   .local_id = 60 + q,
		                                   .remote_id = 50 + q,
		                                   .qpn = 0x40 + q,
		                                   .psn = 500,
		                                   .rnr_retry = 7});
		core_pump(c);
		h = core_req(RC_WRITE_ONLY, 500);
		h.dest_qpn = 0x40 + q;
		h.ack_req = true;
		assert_int_equal(core_in(&c->a, h, 64, 0), DROP_NONE);
		core_pump(c);
	}
	core_forget(&c->a);
	core_forget(&c->b);
	assert_int_equal(barrier_lagging(c->a.p, &h.src, &h.dst), 6);
	h = core_req(UD_SEND_ONLY, 3);
	h.dest_qpn = 77;
	assert_int_equal(core_in(&c->a, h, 4096, 0), DROP_NONE);
	core_pump(c);
	assert_int_equal(core_ctr(&c->a, CTR_IP_CARRIED), 1);
	for (uint32_t q = 0; q < 6; q++) {
		assert_true(nothing_for_b(c));
		assert_int_equal(core_in(&c->b, core_answer(RC_ACK, 0x30 + q, 500, AETH_ACK_NO_CREDITS, 1), 0, 0),
		                 DROP_NONE);
		core_pump(c);
	}
	core_expect(&c->b, UD_SEND_ONLY, 3);
}

static void barrier__is_waived_in_rnr(void **state)
{
	struct core *c = given_write_500(state);

	say(c, TCP_PSH, 5000, 10);
	assert_true(nothing_for_b(c));
	answer(c, 500, AETH_RNR_NAK | 20);
	expect_tcp(c, TCP_PSH, 5000, 10);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 1);
}

static void barrier__is_waived_when_refused(void **state)
{
	struct core *c = given_write_500(state);

	say(c, TCP_PSH, 5000, 10);
	answer(c, 500, AETH_NAK_REM_ACCESS);
	expect_tcp(c, TCP_PSH, 5000, 10);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 1);
}

/* Host B disconnects: nothing has to reach its queue pair any more. */
static void barrier__is_waived_when_the_host_leaves(void **state)
{
	struct core *c = given_write_500(state);

	say(c, TCP_PSH, 5000, 10);
	assert_true(nothing_for_b(c));
	core_cm_in(&c->b, &(struct core_cm){.type = 0x15, .local_id = 6, .remote_id = 5, .qpn = 0x21});
	core_pump(c);
	expect_tcp(c, TCP_PSH, 5000, 10);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 1);
}

static void host_b_sends_dreq(struct core *c)
{
	core_cm_in(&c->b, &(struct core_cm){.type = 0x15, .local_id = 6, .remote_id = 5, .qpn = 0x21});
	core_pump(c);
}

/* Both hosts disconnect at once: the DREQ of host A, which waits here, has ended the connection for CM. */
static void barrier__is_waived_when_both_hosts_leave(void **state)
{
	struct core *c = given_write_500(state);

	say(c, TCP_PSH, 5000, 10);
	core_cm_in(&c->a, &(struct core_cm){.type = 0x15, .local_id = 5, .remote_id = 6, .qpn = CORE_QPN});
	core_pump(c);
	assert_true(nothing_for_b(c));
	host_b_sends_dreq(c);
	expect_tcp(c, TCP_PSH, 5000, 10);
}

/* The set-up of the connection was not seen, as after a restart: the DREQ's QPN alone tells the flow. */
static void barrier__is_waived_by_a_dreq_of_unknown_ids(void **state)
{
	struct core *c = given_write_500(state);

	say(c, TCP_PSH, 5000, 10);
	core_cm_in(&c->b, &(struct core_cm){.type = 0x15, .local_id = 66, .remote_id = 55, .qpn = 0x21});
	core_pump(c);
	expect_tcp(c, TCP_PSH, 5000, 10);
}

/* A DREQ of unknown ids was an earlier connection's: the responder has requests that came after the DREQ. */
static void barrier__waits_again_for_a_host_that_did_not_leave(void **state)
{
	struct core *c = given_write_500(state);

	core_cm_in(&c->b, &(struct core_cm){.type = 0x15, .local_id = 66, .remote_id = 55, .qpn = 0x21});
	core_pump(c);
	answer(c, 500, AETH_ACK_NO_CREDITS); /* came before the DREQ: proves nothing */
	assert_true(core_far(c)->leaving);
	core_send(c, RC_WRITE_ONLY, 501);
	core_expect(&c->b, RC_WRITE_ONLY, 501);
	answer(c, 501, AETH_ACK_NO_CREDITS);
	core_send(c, RC_WRITE_ONLY, 502);
	core_expect(&c->b, RC_WRITE_ONLY, 502);
	say(c, TCP_PSH, 5000, 10);
	assert_true(nothing_for_b(c));
	answer(c, 502, AETH_ACK_NO_CREDITS);
	expect_tcp(c, TCP_PSH, 5000, 10);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 0);
}

/* Host A connects to host B again: the same QPN at A, with other ids. */
static void connect_again(struct core *c, uint32_t qpn_b)
{
	core_cm_in(&c->a, &(struct core_cm){.type = 0x10, .local_id = 7, .qpn = 0x21, .psn = 950, .rnr_retry = 7});
	core_pump(c);
	core_cm_in(&c->b, &(struct core_cm){
	                      .type = 0x13, .local_id = 8, .remote_id = 7, .qpn = qpn_b, .psn = 600, .rnr_retry = 7});
	core_pump(c);
	core_cm_in(&c->a, &(struct core_cm){.type = 0x14, .local_id = 7, .remote_id = 8});
	core_pump(c);
	core_forget(&c->a);
	core_forget(&c->b);
}

/* Host B repeats its DREQ, as the DREP was lost, and the QPN is a later connection's by then. */
static void late_dreq_of_the_connection_before(void **state, uint32_t qpn_b)
{
	struct core *c = given_write_500(state);
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 600);

	answer(c, 500, AETH_ACK_NO_CREDITS);
	core_wait(c, 10 * CORE_MS);
	host_b_sends_dreq(c);
	connect_again(c, qpn_b);
	h.dest_qpn = qpn_b;
	h.ack_req = true;
	assert_int_equal(core_in(&c->a, h, 64, 0), DROP_NONE);
	core_pump(c);
	core_expect_aeth(&c->a, 600, AETH_ACK_NO_CREDITS);
	core_expect(&c->b, RC_WRITE_ONLY, 600);
	host_b_sends_dreq(c);
	say(c, TCP_PSH, 5000, 10);
	assert_true(nothing_for_b(c));
	host_b_sends_dreq(c);
	assert_true(nothing_for_b(c));
	answer(c, 600, AETH_ACK_NO_CREDITS);
	expect_tcp(c, TCP_PSH, 5000, 10);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 0);
}

static void barrier__a_late_dreq_means_no_later_connection(void **state)
{
	late_dreq_of_the_connection_before(state, CORE_QPN + 1);
}

static void barrier__a_late_dreq_means_no_later_connection_of_both_qpns(void **state)
{
	late_dreq_of_the_connection_before(state, CORE_QPN);
}

/* A responder that answers something, but never this. */
static void barrier__ends_after_barrier_max(void **state)
{
	bool there = false;
	struct core *c = given_barrier(state);

	c->b.cfg.stall_ns = 100 * 1000 * CORE_MS;
	c->b.cfg.give_up_ns = 200 * 1000 * CORE_MS;
	assert_int_equal(proxy_reconfigure(c->b.p, &c->b.cfg, c->now_ns), 0);
	write_500(c);
	say(c, TCP_PSH, 5000, 10);
	core_wait(c, c->b.cfg.barrier_max_ns - CORE_MS);
	while (core_pending(&c->b))
		assert_int_equal(core_take(&c->b)->h.opcode, RC_WRITE_ONLY);
	core_wait(c, 2 * CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->b));)
		there |= k->len == 50;
	assert_true(there);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_EXPIRED), 1);
	assert_true(core_event(&c->b, EV_BARRIER_EXPIRED));
}

/* The far edge has not heard of the flow yet: the word is the first to arrive. */
static bool lose_all_but_ip(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)len;
	return from != &c->a || dgram[WAN_HDR_LEN] == WF_IP;
}

static void barrier__waits_for_a_flow_that_is_not_known_yet(void **state)
{
	struct core *c = given_barrier(state);

	core_connect(c, 500, 900, 7);
	c->wan = lose_all_but_ip;
	core_send(c, RC_WRITE_ONLY, 500);
	core_expect_aeth(&c->a, 500, AETH_ACK_NO_CREDITS);
	say(c, TCP_PSH, 5000, 10);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_HELD), 1);
	c->wan = NULL;
	core_wait(c, 200 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 500);
	core_forget(&c->b);
	answer(c, 500, AETH_ACK_NO_CREDITS);
	expect_tcp(c, TCP_PSH, 5000, 10);
}

/* Jumbo frames over a WAN of 1500, in pieces; and one of which a piece is lost never arrives, and holds nobody up. */
static bool lose_third(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)len;
	return from != &c->a || dgram[WAN_HDR_LEN] != WF_IP || ++*(int *)c->arg != 3;
}

static void ip__jumbo_in_pieces(void **state)
{
	int n = 0;
	struct core *c = given_barrier(state);

	c->a.cfg.path[0].payload_max = c->a.p->wan->path[0].payload_max = 1472;
	for (size_t data = 8000; data < 8130; data++) {
		say(c, TCP_PSH, 5000, data);
		expect_tcp(c, TCP_PSH, 5000, data);
	}
	say(c, TCP_PSH, 5000, LAN_IP_MAX - 40);
	expect_tcp(c, TCP_PSH, 5000, LAN_IP_MAX - 40);
	assert_int_equal(say(c, TCP_PSH, 5000, LAN_IP_MAX - 39), DROP_LAN_TOO_BIG);
	c->wan = lose_third;
	c->arg = &n;
	say(c, TCP_PSH, 5000, 8000);
	assert_true(nothing_for_b(c));
	for (int i = 0; i < IP_PARTIAL_MAX + 2; i++) {
		n = i < IP_PARTIAL_MAX ? 0 : 100;
		say(c, TCP_PSH, 5000, 8000);
	}
	assert_true(core_drops(&c->b, DROP_IP_PIECES) > 0);
	assert_int_equal(core_pending(&c->b), 2);
}

/* What TCP sends cannot take RC's room, and what is not wanted any more goes. */
static void ip__is_bounded_and_expendable(void **state)
{
	uint8_t l3[L3_MAX];
	size_t len = tcp(l3, TCP_PSH, 5000, 1400);
	uint32_t taken = 0;
	struct core *c = given_write_500(state);

	c->cut = true;
	while (proxy_lan_rx(c->a.p, c->now_ns, l3, len, 0) == DROP_NONE)
		taken++;
	assert_true(taken > 100 && taken * len < POOL / 2);
	assert_int_equal(core_drops(&c->a, DROP_LAN_IP_NO_ROOM), 1);
	core_send(c, RC_WRITE_ONLY, 501); /* RC does not notice */
	core_expect_aeth(&c->a, 501, AETH_ACK_NO_CREDITS);
	c->now_ns += 1100 * CORE_MS;
	c->cut = false;
	core_wait(c, 10 * CORE_MS);
	while (core_pending(&c->b))
		assert_int_equal(core_take(&c->b)->h.opcode, RC_WRITE_ONLY);
}

static void ip__only_between_the_prefixes(void **state)
{
	uint8_t l3[L3_MAX];
	size_t len = tcp(l3, TCP_PSH, 5000, 10);
	struct core *c = given_barrier(state);

	l3[8] = 0;
	assert_int_equal(proxy_lan_rx(c->a.p, c->now_ns, l3, len, 0), DROP_LAN_TTL);
	tcp(l3, TCP_PSH, 5000, 10);
	l3[17] = 99;
	assert_int_equal(proxy_lan_rx(c->a.p, c->now_ns, l3, len, 0), DROP_LAN_FOREIGN);
	tcp(l3, TCP_PSH, 5000, 10);
	assert_int_equal(proxy_lan_rx(c->a.p, c->now_ns, l3, len - 1, 0), DROP_LAN_TRUNCATED);
}

static void ip__does_not_cross_with_the_barrier_off(void **state)
{
	uint8_t l3[L3_MAX];
	size_t len = tcp(l3, TCP_PSH, 5000, 10);
	struct core *c = core_given(state, ACK_MODE_NEAR);

	assert_int_equal(proxy_lan_rx(c->a.p, c->now_ns, l3, len, 0), DROP_LAN_NOT_ROCE);
}

static bool frame(struct core *c, struct wan_ip w)
{
	uint8_t buf[WAN_MTU_MAX * 2];
	size_t off = 0, len = wan_ip_put(buf, sizeof(buf), &w);
	struct wan_frame f;
	bool ok;

	assert_int_equal(wan_frame_next(buf, len, &off, &f), 1);
	ok = ip_source.on_frame(c->b.p, &c->b.p->wan->lanes[0], &f) && ip_source.on_frame(c->b.p, &c->b.p->wan->lanes[1], &f);
	core_pump(c);
	return ok;
}

static void ip__hostile_frames(void **state)
{
	static uint8_t data[WAN_MTU_MAX];
	size_t len = tcp(data, TCP_PSH, 5000, 100);
	const struct wan_ip good = {.seq = 5, .total = (uint16_t)len, .len = (uint16_t)len, .data = data};
	struct wan_ip w;
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 1);
	struct core *c = given_barrier(state);

	w = good;
	w.total = IP_BUF_MAX + 1;
	assert_false(frame(c, w));
	w = good;
	w.offset = 32; /* no unit begins there */
	assert_false(frame(c, w));
	w = good;
	w.offset = 64; /* goes beyond the end */
	assert_false(frame(c, w));
	w = good;
	w.entries = (uint16_t)(len / BARRIER_ENTRY_LEN + 1); /* more snapshot than bytes */
	assert_false(frame(c, w));
	w = good;
	w.entries = 3; /* in front of the packet stands no snapshot: what follows is no packet */
	assert_false(frame(c, w));
	w = good;
	w.len = w.total = (uint16_t)(len - 1); /* shorter than its IP header says */
	assert_false(frame(c, w));
	data[19] = 99; /* of another lane, or to a host that is not there */
	data[16] = 11;
	assert_false(frame(c, good));
	h.ttl = 64;
	w = good;
	w.len = w.total = (uint16_t)roce_build(data, sizeof(data), &h, core_payload(0, 1), 64);
	assert_false(frame(c, w)); /* RC has a way of its own */
	assert_true(nothing_for_b(c));
	for (uint64_t seq = 100; seq < 100 + 3 * IP_PARTIAL_MAX; seq++) { /* beginnings without an end */
		w = (struct wan_ip){.seq = seq, .total = 9000, .len = 64, .data = data};
		frame(c, w);
	}
	assert_true(c->b.p->ip_lanes[0].npartial == IP_PARTIAL_MAX);
	core_session(c);
	assert_int_equal(c->b.p->barrier.ip_far.used_bytes, 0);
}

/* --- causal: messages on other queue pairs --- */

enum { FLAG_QPN = 0x99, FLAG_FROM = 0x31 };

static struct core *given_causal(void **state)
{
	struct core *c = given_barrier(state);

	c->a.cfg.barrier = c->b.cfg.barrier = BARRIER_CAUSAL;
	c->a.p->cfg = c->a.cfg;
	c->b.p->cfg = c->b.cfg;
	return c;
}

/* A second connection between the two hosts: A's QPN FLAG_FROM begins at 700. */
static void connect_flag(struct core *c)
{
	core_cm_in(&c->a,
	           &(struct core_cm){.type = 0x10, .local_id = 15, .qpn = FLAG_FROM, .psn = 900, .rnr_retry = 7});
	core_pump(c);
	core_cm_in(&c->b, &(struct core_cm){.type = 0x13,
	                                    .local_id = 16,
	                                    .remote_id = 15,
	                                    .qpn = FLAG_QPN,
	                                    .psn = 700,
	                                    .rnr_retry = 7});
	core_pump(c);
	core_cm_in(&c->a, &(struct core_cm){.type = 0x14, .local_id = 15, .remote_id = 16});
	core_pump(c);
	core_forget(&c->a);
	core_forget(&c->b);
}

static void send_flag(struct core *c, uint8_t opcode, uint32_t psn, size_t len)
{
	struct roce_pkt h = core_req(opcode, psn);

	h.dest_qpn = FLAG_QPN;
	h.reth_len = 8;
	assert_int_equal(core_in(&c->a, h, len, 0), DROP_NONE);
	core_pump(c);
}

/* A responder in RNR is waited for by the disconnect of its own queue pair, which would take the bytes along, and by no
 * other. */
static void barrier__dreq_waits_in_rnr_for_its_own_queue_pair(void **state)
{
	struct core *c = given_barrier(state);

	connect_flag(c);
	write_500(c);
	answer(c, 500, AETH_RNR_NAK | 20);
	core_cm_in(&c->a, &(struct core_cm){.type = 0x15, .local_id = 15, .remote_id = 16, .qpn = FLAG_QPN});
	core_pump(c);
	core_expect(&c->b, UD_SEND_ONLY, 0);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 1);
	core_cm_in(&c->a, &(struct core_cm){.type = 0x15, .local_id = 5, .remote_id = 6, .qpn = CORE_QPN});
	core_pump(c);
	assert_true(nothing_for_b(c));
	answer(c, 500, AETH_ACK_NO_CREDITS);
	core_expect(&c->b, UD_SEND_ONLY, 0);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 1);
}

/* By host B: the flag is there. */
static void answer_flag(struct core *c)
{
	core_in(&c->b, core_answer(RC_ACK, FLAG_FROM, 700, AETH_ACK_NO_CREDITS, 1), 0, 0);
	core_pump(c);
}

/* Both connections, with a WRITE on the first one that host A believes complete and host B has not answered. */
static struct core *given_flag_and_write_500(void **state)
{
	struct core *c = given_causal(state);

	connect_flag(c);
	write_500(c);
	return c;
}

static void causal__a_flag_waits_for_data_on_another_qp(void **state)
{
	const struct core_pkt *k;
	struct core *c = given_flag_and_write_500(state);

	send_flag(c, RC_WRITE_ONLY, 700, 8);
	core_expect_aeth(&c->a, 700, AETH_ACK_NO_CREDITS); /* its own completion is early all the same */
	assert_true(nothing_for_b(c));
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_HELD), 1);
	core_send(c, RC_WRITE_ONLY, 501); /* begun later, and of the flow that is waited for */
	answer(c, 500, AETH_ACK_NO_CREDITS);
	for (int seen = 0; seen < 2;) { /* 501 waits for the flag, which was ACKed before it */
		k = core_take(&c->b);
		assert_non_null(k);
		assert_int_equal(k->h.psn, seen == 0 ? 700 : 501);
		if (k->h.psn == 700) {
			assert_int_equal(k->len, 20 + 8 + 12 + 16 + 8 + 4); /* the packet alone */
			answer_flag(c);
		}
		seen++;
	}
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 0);
}

/* Its own queue pair has an order of its own. */
static void causal__only_other_qps(void **state)
{
	struct core *c = given_flag_and_write_500(state);

	core_send(c, RC_WRITE_ONLY, 501);
	core_expect(&c->b, RC_WRITE_ONLY, 501);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_HELD), 0);
}

static void barrier__pair_leaves_rc_alone(void **state)
{
	struct core *c = given_barrier(state);

	connect_flag(c);
	write_500(c);
	send_flag(c, RC_WRITE_ONLY, 700, 8);
	assert_int_equal(core_pending(&c->b), 1);
}

static void causal__is_waived_in_rnr(void **state)
{
	struct core *c = given_flag_and_write_500(state);

	send_flag(c, RC_WRITE_ONLY, 700, 8);
	assert_true(nothing_for_b(c));
	answer(c, 500, AETH_RNR_NAK | 1); /* a program may be about to post receives */
	assert_int_equal(core_pending(&c->b), 1);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 1);
}

static void causal__ends_after_barrier_max(void **state)
{
	struct core *c = given_causal(state);

	c->b.cfg.barrier_max_ns = c->b.p->cfg.barrier_max_ns = 50 * CORE_MS;
	connect_flag(c);
	write_500(c);
	send_flag(c, RC_WRITE_ONLY, 700, 8);
	core_wait(c, 30 * CORE_MS);
	core_forget(&c->b); /* 500 again */
	core_wait(c, 25 * CORE_MS);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_EXPIRED), 1);
	assert_true(core_event(&c->b, EV_BARRIER_EXPIRED));
	assert_true(core_pending(&c->b) > 0);
}

/* What is behind the bytes of a message is not part of them: lost and repaired, kept over a restart of either edge. */
static void causal__outlives_restarts(void **state)
{
	struct core *c = given_flag_and_write_500(state);

	c->cut = true;
	send_flag(c, RC_WRITE_ONLY, 700, 8);
	c->cut = false;
	core_rebuild(&c->a);
	core_session(c);
	core_forget(&c->b);
	core_wait(c, 5 * CORE_MS);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_HELD), 1);
	core_rebuild(&c->b);
	core_session(c);
	core_forget(&c->b);
	answer(c, 500, AETH_ACK_NO_CREDITS);
	core_wait(c, CORE_MS);
	assert_int_equal(core_take(&c->b)->h.psn, 700);
}

/* The far edge has forgotten the flow that a flag waits for, before it came or while it waits: nothing to wait for. */
static void causal__flow_closed_meanwhile(void **state)
{
	struct wan_flow_close over;
	struct core *c = given_flag_and_write_500(state);

	over = (struct wan_flow_close){near_wire_id(c->a.p, core_near(c)), core_near(c)->inc};
	send_flag(c, RC_WRITE_ONLY, 700, 8);
	assert_true(nothing_for_b(c));
	far_on_close(c->b.p, &over);
	core_pump(c);
	assert_int_equal(core_take(&c->b)->h.psn, 700);
	send_flag(c, RC_WRITE_ONLY, 701, 8); /* the near edge does not know yet */
	assert_int_equal(core_take(&c->b)->h.psn, 701);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_HELD), 1);
}

/* The near edge has lost its arena, and its names mean something else now. What it left behind keeps its own: a message
 * goes as soon as what it waits for is delivered, ... */
static void causal__outlives_the_near_edge(void **state)
{
	struct core *c = given_causal(state);

	core_know_epochs(c);
	connect_flag(c);
	write_500(c);
	send_flag(c, RC_WRITE_ONLY, 700, 8);
	core_lose(c, &c->a, 99);
	assert_false(dlist_empty(&c->b.p->stale_flows));
	core_expect(&c->b, RC_WRITE_ONLY, 500); /* the new session has it sent again */
	assert_true(nothing_for_b(c));
	answer(c, 500, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_take(&c->b)->h.psn, 700);
	answer_flag(c);
	core_wait(c, CORE_MS);
	assert_true(dlist_empty(&c->b.p->stale_flows));
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 0);
}

/* What host A believes complete is the far edge's alone, which has sent it again in the new session. */
static void lose_near_edge_after_write_500(struct core *c)
{
	core_know_epochs(c);
	write_500(c);
	core_lose(c, &c->a, 99);
	core_expect(&c->b, RC_WRITE_ONLY, 500);
}

/* What begins in the new life of the near edge has no snapshot that could name the old one's. */
static void barrier__waits_for_what_a_lost_near_edge_has_left(void **state)
{
	struct core *c = given_barrier(state);

	lose_near_edge_after_write_500(c);
	say(c, TCP_PSH, 5000, 10);
	assert_true(nothing_for_b(c));
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_HELD), 1);
	say(c, TCP_ACK_FLAG, 5000, 0);
	expect_tcp(c, TCP_ACK_FLAG, 5000, 0);
	answer(c, 500, AETH_ACK_NO_CREDITS);
	expect_tcp(c, TCP_PSH, 5000, 10);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 0);
}

static void barrier__what_is_left_is_not_waited_for_in_rnr(void **state)
{
	struct core *c = given_barrier(state);

	lose_near_edge_after_write_500(c);
	say(c, TCP_PSH, 5000, 10);
	answer(c, 500, AETH_RNR_NAK | 20);
	expect_tcp(c, TCP_PSH, 5000, 10);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 1);
}

/* ... until RNR is over: what comes then waits again. */
static void barrier__what_is_left_is_waited_for_after_rnr(void **state)
{
	struct core *c = given_barrier(state);

	lose_near_edge_after_write_500(c);
	answer(c, 500, AETH_RNR_NAK | 20); /* 10.24 ms */
	say(c, TCP_PSH, 5000, 10);
	expect_tcp(c, TCP_PSH, 5000, 10);
	core_wait(c, 11 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 500);
	say(c, TCP_PSH, 5000, 11);
	assert_true(nothing_for_b(c));
	answer(c, 500, AETH_ACK_NO_CREDITS);
	expect_tcp(c, TCP_PSH, 5000, 11);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 1);
}

/* The disconnect of the queue pair waits in RNR, and of another one does not. */
static void barrier__dreq_waits_for_what_is_left_of_its_queue_pair(void **state)
{
	struct core *c = given_barrier(state);

	core_know_epochs(c);
	connect_flag(c);
	write_500(c);
	core_lose(c, &c->a, 99);
	core_expect(&c->b, RC_WRITE_ONLY, 500);
	answer(c, 500, AETH_RNR_NAK | 20);
	core_cm_in(&c->a, &(struct core_cm){.type = 0x15, .local_id = 15, .remote_id = 16, .qpn = FLAG_QPN});
	core_pump(c);
	core_expect(&c->b, UD_SEND_ONLY, 0);
	core_cm_in(&c->a, &(struct core_cm){.type = 0x15, .local_id = 5, .remote_id = 6, .qpn = CORE_QPN});
	core_pump(c);
	assert_true(nothing_for_b(c));
	answer(c, 500, AETH_ACK_NO_CREDITS);
	core_expect(&c->b, UD_SEND_ONLY, 0);
}

/* The far edge starts again: the flow becomes stale a second time, with the next hello. */
static void barrier__what_is_left_outlives_the_far_edge(void **state)
{
	struct core *c = given_barrier(state);

	lose_near_edge_after_write_500(c);
	core_rebuild(&c->b);
	core_hello(c, 99, 1);
	core_expect(&c->b, RC_WRITE_ONLY, 500);
	assert_false(dlist_empty(&c->b.p->stale_flows));
	say(c, TCP_PSH, 5000, 10);
	assert_true(nothing_for_b(c));
	answer(c, 500, AETH_ACK_NO_CREDITS);
	expect_tcp(c, TCP_PSH, 5000, 10);
}

/* A flow that makes no progress fails, and is nobody's any more. */
static void barrier__what_is_left_may_fail(void **state)
{
	struct core *c = given_barrier(state);

	lose_near_edge_after_write_500(c);
	assert_int_equal(c->b.p->barrier.far_pairs.used, 1);
	core_wait(c, 3 * c->b.cfg.stall_ns);
	assert_true(dlist_empty(&c->b.p->stale_flows));
	assert_int_equal(c->b.p->barrier.far_pairs.used, 0);
	core_forget(&c->b);
	say(c, TCP_PSH, 5000, 10);
	expect_tcp(c, TCP_PSH, 5000, 10);
}

/* A connection of which a WRITE is not answered, and the near edge loses its arena. */
static void leave_write(struct core *c, uint32_t qpn, uint64_t epoch)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 500);

	core_cm_in(&c->a, &(struct core_cm){.type = 0x10, .local_id = qpn, .qpn = qpn, .psn = 900, .rnr_retry = 7});
	core_pump(c);
	core_cm_in(&c->b, &(struct core_cm){
	                      .type = 0x13, .local_id = qpn, .remote_id = qpn, .qpn = qpn, .psn = 500, .rnr_retry = 7});
	core_pump(c);
	h.dest_qpn = qpn;
	h.reth_len = 8;
	assert_int_equal(core_in(&c->a, h, 8, 0), DROP_NONE);
	core_pump(c);
	core_lose(c, &c->a, epoch);
	core_forget(&c->a);
	core_forget(&c->b);
}

/* A packet does not wait for flows that became stale after it came, in whatever order flows leave RNR. */
static void barrier__what_was_left_three_times(void **state)
{
	static const uint32_t qpns[] = {0x41, 0x42, 0x43};
	struct core *c = given_barrier(state);

	core_know_epochs(c);
	leave_write(c, qpns[0], 97);
	leave_write(c, qpns[1], 98);
	say(c, TCP_PSH, 5000, 10);
	leave_write(c, qpns[2], 99);
	say(c, TCP_PSH, 5000, 11);
	assert_true(nothing_for_b(c));
	for (int i = 0; i < 3; i++) { /* 0x42 leaves RNR first, and then is in the middle again */
		core_in(&c->b, core_answer(RC_ACK, qpns[i], 500, AETH_RNR_NAK | (i == 1 ? 1 : 20), 1), 0, 0);
		if (i < 2)
			core_wait(c, 5 * CORE_MS / 2);
		core_pump(c);
		core_forget(&c->b);
	}
	core_wait(c, 20 * CORE_MS);
	core_forget(&c->b);
	core_in(&c->b, core_answer(RC_ACK, qpns[0], 500, AETH_ACK_NO_CREDITS, 1), 0, 0);
	core_in(&c->b, core_answer(RC_ACK, qpns[1], 500, AETH_ACK_NO_CREDITS, 1), 0, 0);
	core_pump(c);
	core_in(&c->b, core_answer(RC_ACK, qpns[2], 500, AETH_ACK_NO_CREDITS, 1), 0, 0);
	core_wait(c, CORE_MS);
	assert_true(dlist_empty(&c->b.p->stale_flows));
	assert_int_equal(c->b.p->barrier.far_pairs.used, 0);
}

static void causal__waits_for_what_a_lost_near_edge_has_left(void **state)
{
	struct core *c = given_causal(state);

	lose_near_edge_after_write_500(c);
	connect_flag(c); /* CM goes at once */
	send_flag(c, RC_WRITE_ONLY, 700, 8);
	assert_true(nothing_for_b(c));
	answer(c, 500, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_take(&c->b)->h.psn, 700);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 0);
}

/* ... or is not waited for any more, as it had not come and never will. */
static void causal__what_the_near_edge_took_along(void **state)
{
	struct core *c = given_causal(state);

	core_know_epochs(c);
	connect_flag(c);
	core_connect(c, 500, 900, 7);
	c->cut = true;
	core_send(c, RC_WRITE_ONLY, 500);
	c->cut = false;
	core_expect_aeth(&c->a, 500, AETH_ACK_NO_CREDITS);
	send_flag(c, RC_WRITE_ONLY, 700, 8);
	assert_true(nothing_for_b(c));
	core_lose(c, &c->a, 99);
	assert_int_equal(core_take(&c->b)->h.psn, 700);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 1);
}

/* More flows lag than a full packet of the largest path MTU has room for: as many as fit, and it is counted. */
static void causal__as_many_as_fit(void **state)
{
	struct near_flow *f;
	uint8_t entries[2 * BARRIER_ENTRY_LEN];
	struct core *c = given_flag_and_write_500(state);
	bool more;

	f = core_near(c);
	assert_int_equal(barrier_snapshot_others(c->a.p, f, entries, 2, &more), 0); /* none but itself */
	assert_false(more);
	send_flag(c, RC_WRITE_ONLY, 700, 8);
	assert_int_equal(barrier_snapshot_others(c->a.p, f, entries, 0, &more), 0);
	assert_true(more);
	assert_int_equal(barrier_snapshot_others(c->a.p, f, entries, 2, &more), 1);
	assert_false(more);
}

/* Two addresses of one machine: the word comes from the other one. */
static void barrier__aliases_are_one_machine(void **state)
{
	struct ip_addr one = core_ip(1, 2), other = core_ip(1, 9);
	uint8_t l3[L3_MAX];
	size_t len = tcp(l3, TCP_PSH, 5000, 10);
	struct core *c = given_barrier(state);

	for (int i = 0; i < 2; i++) {
		struct core_edge *e = i ? &c->b : &c->a;

		e->cfg.alias[0] = (struct host_alias){other, one};
		e->cfg.naliases = 1;
		e->p->cfg = e->cfg;
	}
	write_500(c);
	l3[15] = 9;
	assert_int_equal(proxy_lan_rx(c->a.p, c->now_ns, l3, len, 0), DROP_NONE);
	core_pump(c);
	assert_true(nothing_for_b(c));
	answer(c, 500, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_pending(&c->b), 1);
}

/* The near edge comes back with its arena: what it may have ACKed before counts as ACKed. */
static void barrier__after_a_restart_of_the_near_edge(void **state)
{
	struct core *c = given_write_500(state);

	core_rebuild(&c->a);
	core_session(c);
	core_forget(&c->b);
	say(c, TCP_PSH, 5000, 10);
	assert_true(nothing_for_b(c));
	answer(c, 500, AETH_ACK_NO_CREDITS);
	expect_tcp(c, TCP_PSH, 5000, 10);
}

/* The far edge has forgotten the flow because the near edge closed it: nothing to wait for. */
static void barrier__flow_closed_meanwhile(void **state)
{
	struct core *c = given_write_500(state);

	say(c, TCP_PSH, 5000, 10);
	assert_true(nothing_for_b(c));
	far_on_close(c->b.p, &(struct wan_flow_close){near_wire_id(c->a.p, core_near(c)), core_near(c)->inc});
	core_pump(c);
	expect_tcp(c, TCP_PSH, 5000, 10);
}

/* The near edge has lost its arena; a flow of its new life has the name of the one that is waited for. */
static void barrier__names_of_two_lives(void **state)
{
	struct core *c = given_barrier(state);

	core_know_epochs(c);
	write_500(c);
	say(c, TCP_PSH, 5000, 10);
	core_lose(c, &c->a, 99);
	core_expect(&c->b, RC_WRITE_ONLY, 500);
	connect_flag(c);
	send_flag(c, RC_WRITE_ONLY, 700, 8);
	core_expect(&c->b, RC_WRITE_ONLY, 700);
	assert_int_equal(c->b.p->far[0].peer_flow, c->b.p->far[1].peer_flow);
	assert_true(c->b.p->far[0].stale_epoch);
	answer_flag(c);
	assert_true(nothing_for_b(c));
	answer(c, 500, AETH_ACK_NO_CREDITS);
	expect_tcp(c, TCP_PSH, 5000, 10);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_WAIVED), 0);
}

/* --- the audit --- */

/* Each of the barrier's lists and counts, put out of step with the rest, is found; and put right again, is not. */
static void barrier_audit__finds_what_is_out_of_step(void **state)
{
	struct core *c = given_barrier(state);
	struct proxy *a, *b;
	struct near_flow *f;
	struct barrier_pair *bp;

	core_pair(c, 0);
	core_send(c, RC_WRITE_ONLY, 1); /* ACKed, and not delivered */
	say(c, TCP_PSH, 5000, 10);      /* waits for it */
	a = c->a.p;
	b = c->b.p;
	f = core_near(c);
	bp = barrier_find(a, &a->barrier.pairs, &f->src, &f->dst);
	assert_non_null(bp);
	assert_int_equal(bp->nlagging, 1);
	assert_int_equal(b->barrier.waiting, 1);
	assert_int_equal(barrier_audit(a), 0);
	assert_int_equal(barrier_audit(b), 0);

	f->pos_acked -= 1; /* lags no more, but is listed */
	assert_int_equal(barrier_audit(a), -131);
	f->pos_acked += 1;
	bp->nlagging++;
	assert_int_equal(barrier_audit(a), -132);
	bp->nlagging--;
	dlist_append(&a->barrier.pairs.free, &bp->way.free_node); /* lags, and no pair knows */
	assert_int_equal(barrier_audit(a), -133);
	dlist_remove(&bp->way.free_node);
	assert_int_equal(barrier_audit(a), 0);

	b->barrier.waiting++;
	assert_true(barrier_audit(b) < 0);
	b->barrier.waiting--;
	dlist_append(&b->barrier.starts, &core_far(c)->start_node); /* waits, and no timer runs */
	assert_int_equal(barrier_audit(b), -136);
	timer_set(&b->timers, &b->barrier.starts_limit, c->now_ns + CORE_MS);
	assert_int_equal(barrier_audit(b), -137); /* its pair of machines does not know */
	core_far(c)->state = FAR_FREE; /* a flow that is gone waits */
	assert_int_equal(barrier_audit(b), -135);
	core_far(c)->state = FAR_OPEN;
	timer_cancel(&b->timers, &b->barrier.starts_limit);
	dlist_remove(&core_far(c)->start_node);
	assert_int_equal(barrier_audit(b), 0);

	assert_int_equal(proxy_audit(b), 0); /* and the whole audit asks it */
	b->barrier.waiting++;
	assert_true(proxy_audit(b) < 0);
	b->barrier.waiting--;
}

static int lose_next;

static bool lose_request(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)dgram;
	if (from != &c->a || len < 900 || !lose_next)
		return true;
	lose_next--;
	return false;
}

/* A WRITE of another host of site A, which its responder answers. */
static void another_writes(struct core *c, uint8_t host)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0), a = core_answer(RC_ACK, CORE_QPN, 0, AETH_ACK_NO_CREDITS, 1);

	h.src = a.dst = core_ip(1, host);
	core_in(&c->a, h, CORE_PMTU, 0);
	core_pump(c);
	core_in(&c->b, a, 0, 0);
	core_pump(c);
}

/* The far edge has had no place left, and has evicted the idle flow. */
static struct core *given_evicted_flow(void **state)
{
	struct core *c = given_barrier(state);

	c->b.cfg.max_flows = c->b.g.max_flows = 16;
	core_begin(&c->b, 78);
	core_hello(c, 1, 1);
	core_pair(c, 0);
	core_wait(c, CORE_MS);
	for (uint8_t i = 0; i < 15; i++)
		another_writes(c, (uint8_t)(10 + i));
	core_wait(c, 1100 * CORE_MS);
	another_writes(c, 40);
	core_wait(c, CORE_MS);
	assert_null(far_by_peer(c->b.p, near_wire_id(c->a.p, core_near(c))));
	core_forget(&c->a);
	core_forget(&c->b);
	c->wan = lose_request;
	return c;
}

/* Returns after how many ms a word came that host A said behind a WRITE that was ACKed early; -1: it came in front of the
 * WRITE. */
static int word_behind_a_write(struct core *c)
{
	bool write = false;

	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	say(c, TCP_PSH, 4000, 100);
	for (int ms = 0; ms < 2000; ms++) {
		for (const struct core_pkt *k; (k = core_take(&c->b));) {
			if (k->h.opcode == RC_WRITE_ONLY && k->h.psn == 1 && k->h.src.b[15] == 2) {
				write = true;
				core_ack(c, 1, AETH_ACK_NO_CREDITS, 2);
			} else if (k->l3[9] == 6) {
				return write ? ms : -1;
			}
		}
		core_wait(c, CORE_MS);
	}
	return 2000;
}

/* Its next WRITE is lost on the WAN, the word behind it is not. */
static void barrier__an_evicted_flow_is_not_done(void **state)
{
	struct core *c = given_evicted_flow(state);

	lose_next = 1;
	assert_in_range(word_behind_a_write(c), 0, 200);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_EXPIRED) + core_ctr(&c->b, CTR_BARRIER_WAIVED), 0);
}

/* Nothing is lost, but the far edge has to ask for FLOW_OPEN: at once, not after the time in which words expire. */
static void barrier__an_evicted_flow_is_opened_at_once(void **state)
{
	struct core *c = given_evicted_flow(state);

	lose_next = 0;
	assert_in_range(word_behind_a_write(c), 0, 200);
	assert_int_equal(core_ctr(&c->b, CTR_BARRIER_EXPIRED) + core_ctr(&c->b, CTR_BARRIER_WAIVED), 0);
}

/* The same of stale flows, and of messages that wait. */
static void barrier_audit__finds_stale_flows_out_of_step(void **state)
{
	struct core *c = given_causal(state);
	struct barrier_far_pair *bp;
	struct far_flow *f, *flag;
	struct proxy *b;

	core_know_epochs(c);
	connect_flag(c);
	write_500(c);
	send_flag(c, RC_WRITE_ONLY, 700, 8);
	core_lose(c, &c->a, 99);
	b = c->b.p;
	f = dlist_entry(dlist_first(&b->stale_flows), struct far_flow, stale_node);
	flag = dlist_entry(dlist_first(&b->barrier.starts), struct far_flow, start_node);
	bp = f->barrier_pair;
	assert_ptr_equal(flag->barrier_pair, bp);
	assert_int_equal(bp->users, 3); /* two stale flows, of which one waits */
	assert_int_equal(barrier_audit(b), 0);

	f->rnr = true; /* waited for no more, and listed so */
	assert_int_equal(barrier_audit(b), -138);
	f->rnr = false;
	f->stale_class = STALE_STUCK;
	assert_int_equal(barrier_audit(b), -138);
	f->stale_class = STALE_AWAITED;
	bp->users++;
	assert_int_equal(barrier_audit(b), -138);
	bp->users--;
	bp->nstarts++;
	assert_int_equal(barrier_audit(b), -138);
	bp->nstarts--;
	bp->to_wake = 1; /* and no timer goes on */
	assert_int_equal(barrier_audit(b), -138);
	bp->to_wake = 0;
	idx_hash_del(&b->barrier.stale_by_dest, far_dest_hash(b, &bp->way.src, &bp->way.dst, f->dest_qpn), f->idx);
	assert_int_equal(barrier_audit(b), -137);
	idx_hash_put(&b->barrier.stale_by_dest, far_dest_hash(b, &bp->way.src, &bp->way.dst, f->dest_qpn), f->idx);
	f->barrier_pair = NULL;
	assert_int_equal(barrier_audit(b), -137);
	f->barrier_pair = bp;
	assert_int_equal(barrier_audit(b), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(barrier__tcp_waits_for_what_was_acked_before_it),
	    CORE_TEST(barrier__an_evicted_flow_is_not_done),
	    CORE_TEST(barrier__an_evicted_flow_is_opened_at_once),
	    CORE_TEST(barrier__nothing_acked_nothing_waited_for),
	    CORE_TEST(barrier__order_is_kept),
	    CORE_TEST(barrier__exempt_packets_overtake),
	    CORE_TEST(barrier__roce_that_is_not_rc),
	    CORE_TEST(barrier__large_ud_takes_its_snapshot_along),
	    CORE_TEST(barrier__is_waived_in_rnr),
	    CORE_TEST(barrier__dreq_waits_in_rnr_for_its_own_queue_pair),
	    CORE_TEST(barrier__is_waived_when_refused),
	    CORE_TEST(barrier__is_waived_when_the_host_leaves),
	    CORE_TEST(barrier__is_waived_when_both_hosts_leave),
	    CORE_TEST(barrier__is_waived_by_a_dreq_of_unknown_ids),
	    CORE_TEST(barrier__waits_again_for_a_host_that_did_not_leave),
	    CORE_TEST(barrier__a_late_dreq_means_no_later_connection),
	    CORE_TEST(barrier__a_late_dreq_means_no_later_connection_of_both_qpns),
	    CORE_TEST(barrier__ends_after_barrier_max),
	    CORE_TEST(barrier__waits_for_a_flow_that_is_not_known_yet),
	    CORE_TEST(barrier__aliases_are_one_machine),
	    CORE_TEST(causal__a_flag_waits_for_data_on_another_qp),
	    CORE_TEST(causal__only_other_qps),
	    CORE_TEST(barrier__pair_leaves_rc_alone),
	    CORE_TEST(causal__is_waived_in_rnr),
	    CORE_TEST(causal__ends_after_barrier_max),
	    CORE_TEST(causal__outlives_restarts),
	    CORE_TEST(causal__flow_closed_meanwhile),
	    CORE_TEST(barrier__waits_for_what_a_lost_near_edge_has_left),
	    CORE_TEST(barrier__what_is_left_is_not_waited_for_in_rnr),
	    CORE_TEST(barrier__what_is_left_is_waited_for_after_rnr),
	    CORE_TEST(barrier__dreq_waits_for_what_is_left_of_its_queue_pair),
	    CORE_TEST(barrier__what_is_left_outlives_the_far_edge),
	    CORE_TEST(barrier__what_is_left_may_fail),
	    CORE_TEST(barrier__what_was_left_three_times),
	    CORE_TEST(causal__waits_for_what_a_lost_near_edge_has_left),
	    CORE_TEST(causal__outlives_the_near_edge),
	    CORE_TEST(causal__what_the_near_edge_took_along),
	    CORE_TEST(causal__as_many_as_fit),
	    CORE_TEST(barrier__after_a_restart_of_the_near_edge),
	    CORE_TEST(barrier__flow_closed_meanwhile),
	    CORE_TEST(barrier__names_of_two_lives),
	    CORE_TEST(ip__jumbo_in_pieces),
	    CORE_TEST(ip__is_bounded_and_expendable),
	    CORE_TEST(ip__only_between_the_prefixes),
	    CORE_TEST(ip__does_not_cross_with_the_barrier_off),
	    CORE_TEST(ip__hostile_frames),
	    CORE_TEST(barrier_audit__finds_what_is_out_of_step),
	    CORE_TEST(barrier_audit__finds_stale_flows_out_of_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
