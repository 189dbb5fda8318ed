/* SPDX-License-Identifier: Apache-2.0 */
/* The requester's role beside the responder: window, AckReq, retries, answers. */
#include "core_fixture.h"
#include "proxy/far/far_priv.h"
#include "proxy/near/near_priv.h"

static void set_window(struct core *c, uint32_t bytes)
{
	c->b.cfg.lan_window_bytes = bytes;
	assert_int_equal(proxy_reconfigure(c->b.p, &c->b.cfg, c->now_ns), 0);
}

/* n WRITEs without any AckReq of the host's own. */
static void run_quiet(struct core *c, uint32_t psn, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct roce_pkt h = core_req(RC_WRITE_ONLY, psn + i);

		h.ack_req = false;
		assert_int_equal(core_in(&c->a, h, CORE_PMTU, 0), DROP_NONE);
	}
	core_pump(c);
}

static void read_request(struct core *c, uint32_t psn, uint32_t packets)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, psn);

	h.reth_len = packets * CORE_PMTU;
	assert_int_equal(core_in(&c->a, h, 0, 0), DROP_NONE);
	core_pump(c);
}

static enum proxy_drop respond(struct core *c, uint8_t opcode, uint32_t psn, uint32_t msn)
{
	enum proxy_drop d = core_in(&c->b, core_answer(opcode, CORE_QPN, psn, AETH_ACK_NO_CREDITS, msn), CORE_PMTU, 0);

	core_pump(c);
	return d;
}

/* --- window and AckReq --- */

static void far__window_bounds_what_is_out(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint32_t n = 0;

	set_window(c, 4300); /* four packets, fewer than a datagram brings */
	core_far(c)->window_bytes = 4300;
	run_quiet(c, 1, 20);
	for (; (k = core_take(&c->b)); n++) {
		assert_int_equal(k->h.psn, 1 + n);
		assert_int_equal(k->h.ack_req, n == 3); /* AckReq where the window ends */
	}
	assert_int_equal(n, 4);
	core_ack(c, 2, AETH_ACK_NO_CREDITS, 3); /* half of the window */
	for (n = 0; (k = core_take(&c->b)); n++)
		assert_int_equal(k->h.psn, 5 + n);
	assert_int_equal(n, 2);
}

/* The far edge keeps the host's AckReq, adds AckReq now and then, and adds it to the last packet, after which none
 * could ask for an ACK. */
static void far__ackreq_is_added(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint32_t asked = 0;

	c->cut = true;
	run_quiet(c, 1, 50);
	c->cut = false;
	core_wait(c, 15 * CORE_MS);
	for (uint32_t psn = 1; psn <= 50; psn++) {
		k = core_expect(&c->b, RC_WRITE_ONLY, psn); /* the fixture has checked its ICRC */
		asked += k->h.ack_req;
		if (psn == 50)
			assert_true(k->h.ack_req);
		assert_memory_equal(k->l3 + k->h.hdr_len, core_payload(0, psn), CORE_PMTU);
	}
	assert_in_range(asked, 2, 15);
}

/* A bit flipped in an edge's memory must reach the host as a wrong ICRC, also where AckReq was patched. */
static void far__flipped_bit_stays_visible(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct lan_tx tx;
	struct roce_pkt pkt;
	uint8_t l3[LAN_PKT_MAX];
	uint32_t slot;
	size_t n;

	set_window(c, LAN_PKT_MAX);
	core_far(c)->window_bytes = 100;
	run_quiet(c, 1, 2); /* PSN 1 is sent, PSN 2 waits */
	slot = arena_find(c->b.p->arena, SLOT_REQ_FAR, core_far(c)->idx, POS_ORIGIN + 2);
	assert_true(slot != SLOT_NONE);
	arena_data(c->b.p->arena, slot)[500] ^= 4;
	assert_int_equal(core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2), 0, 0), DROP_NONE);
	n = proxy_lan_tx(c->b.p, c->now_ns, &tx);
	assert_true(n > 0);
	memcpy(l3, tx.hdr, tx.hdr_len);
	memcpy(l3 + tx.hdr_len, tx.body, tx.body_len);
	memcpy(l3 + tx.hdr_len + tx.body_len, tx.trailer, tx.trailer_len);
	assert_int_equal(roce_parse(l3, n, &pkt), DROP_NONE);
	assert_true(pkt.ack_req);
	assert_false(icrc_check(l3, &pkt, NULL));
}

/* --- what the responder says --- */

static void far__ack_frees_both_edges(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_deliver(c, 1, 10);
	assert_int_equal(core_ctr(&c->b, CTR_BYTES_DELIVERED), 11 * CORE_PMTU);
}

static void far__nak_goes_back(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send_run(c, 1, 6);
	core_forget(&c->b);
	core_ack(c, 4, AETH_NAK_PSN_SEQ, 4);
	for (uint32_t psn = 4; psn <= 6; psn++)
		core_expect(&c->b, RC_WRITE_ONLY, psn);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(core_ctr(&c->b, CTR_LAN_RETRIES), 3);
	assert_int_equal(core_far(c)->pos_acked, POS_ORIGIN + 4); /* a NAK acknowledges all PSNs before it */
}

/* Packets sent before their receive is posted are lost: after the RNR wait the far edge sends one packet, then more. */
static void far__goes_on_gently_after_rnr(void **state)
{
	uint8_t code = 5;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send_run(c, 1, 30);
	core_forget(&c->b);
	core_ack(c, 1, AETH_RNR_NAK | code, 1);
	core_wait(c, roce_rnr_timer_ns(code));
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	assert_int_equal(core_pending(&c->b), 0);
	core_ack(c, 1, AETH_ACK_NO_CREDITS, 2);
	assert_in_range(core_pending(&c->b), 1, 3);
	core_forget(&c->b);
	core_ack(c, 2, AETH_RNR_NAK | code, 2);
	core_wait(c, roce_rnr_timer_ns(code));
	core_expect(&c->b, RC_WRITE_ONLY, 2);
	assert_int_equal(core_pending(&c->b), 0);
	for (uint32_t psn = 2; psn <= 30; psn++) {
		core_ack(c, psn, AETH_ACK_NO_CREDITS, psn + 1);
		core_forget(&c->b);
	}
	assert_int_equal(core_far(c)->rnr_bytes, 0);
}

static void far__rnr_wait_is_honoured(void **state)
{
	const uint8_t code = 14; /* 1.28 ms */
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint32_t window;

	core_send_run(c, 1, 5);
	core_forget(&c->b);
	window = core_far(c)->window_bytes;
	core_ack(c, 3, AETH_RNR_NAK | code, 3);
	core_ack(c, 3, AETH_NAK_PSN_SEQ, 3); /* rxe sends this NAK at once for the packets after it */
	core_send(c, RC_WRITE_ONLY, 6);
	core_wait(c, roce_rnr_timer_ns(code) - 1);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 1);
	core_expect(&c->b, RC_WRITE_ONLY, 3);
	assert_int_equal(core_far(c)->window_bytes, window); /* RNR of a responder does not count as a loss */
}

/* The responder is silent: the far edge repeats from the oldest packet, each time after twice the wait, up to
 * sixteen times the first wait. */
static void far__timeout_backs_off(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint64_t last, gap = 0;

	last = c->now_ns;
	core_send_run(c, 1, 3);
	core_forget(&c->b);
	for (int i = 0; i < 6; i++) {
		const struct core_pkt *k;
		uint64_t before = gap;

		while (!core_pending(&c->b))
			core_wait(c, CORE_MS);
		k = core_expect(&c->b, RC_WRITE_ONLY, 1);
		gap = k->at_ns - last;
		last = k->at_ns;
		core_forget(&c->b);
		if (i == 0)
			assert_in_range(gap, c->b.cfg.lan_timeout_ns - CORE_MS, c->b.cfg.lan_timeout_ns + CORE_MS);
		else if (i < 5)
			assert_in_range(gap, 2 * before - CORE_MS, 2 * before + CORE_MS);
		else
			assert_in_range(gap, before - CORE_MS, before + CORE_MS);
	}
}

/* The window halves on loss, once per loss, and grows with ACKs. */
static void far__window_halves_once_per_loss(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint32_t w;

	w = core_far(c)->window_bytes;
	core_send_run(c, 1, 10);
	core_ack(c, 2, AETH_NAK_PSN_SEQ, 2);
	assert_int_equal(core_far(c)->window_bytes, w / 2);
	core_ack(c, 3, AETH_NAK_PSN_SEQ, 3);
	assert_true(core_far(c)->window_bytes < w * 3 / 4);
	assert_true(core_far(c)->window_bytes >= w / 2);
	core_ack(c, 10, AETH_ACK_NO_CREDITS, 11);
	assert_true(core_far(c)->window_bytes > w / 2);
}

static void far__ack_of_unsent_is_dropped(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send_run(c, 1, 3);
	core_forget(&c->a);
	assert_int_equal(core_ack(c, 4, AETH_ACK_NO_CREDITS, 5), DROP_LAN_ACK_UNSENT);
	assert_int_equal(core_ack(c, 5, AETH_NAK_PSN_SEQ, 5), DROP_LAN_ACK_UNSENT);
	assert_int_equal(core_ack(c, 0x700000, AETH_ACK_NO_CREDITS, 5), DROP_LAN_ACK_UNSENT);
	assert_int_equal(core_far(c)->pos_acked, POS_ORIGIN + 1);
	assert_int_equal(core_ack(c, 0, AETH_ACK_NO_CREDITS, 1), DROP_LAN_ACK_STALE);
	assert_int_equal(core_ack(c, 3, AETH_ACK_NO_CREDITS, 4), DROP_NONE);
}

/* A fatal NAK reaches the requester with the responder's own code, and the edge reports the loss of ACKed bytes. */
static void far__fatal_nak_reaches_the_requester(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	core_send_run(c, 1, 4);
	core_forget(&c->a);
	core_ack(c, 2, AETH_NAK_REM_ACCESS, 2);
	core_wait(c, CORE_MS);
	k = core_expect_aeth(&c->a, 2, AETH_NAK_REM_ACCESS); /* PSN 1 is delivered */
	assert_int_equal(k->h.aeth_msn, 2);
	assert_true(core_event(&c->b, EV_FLOW_FAILED));
	assert_int_equal(core_ctr(&c->b, CTR_ERR_NAKS_RX), 1);
}

/* No answer for stall_ns: the far edge reports it, and the near edge sends no early ACKs until the responder answers
 * again. */
static void far__stall_demotes_to_host(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	core_event(&c->b, EV_COUNT);
	core_wait(c, c->b.cfg.stall_ns + 400 * CORE_MS);
	assert_true(core_event(&c->b, EV_FLOW_STALLED));
	assert_true(near_is_stalled(core_near(c)));
	core_send(c, RC_WRITE_ONLY, 2);
	assert_int_equal(core_pending(&c->a), 0);
	core_ack(c, 1, AETH_ACK_NO_CREDITS, 2);
	core_wait(c, CORE_MS);
	assert_true(core_event(&c->b, EV_FLOW_RESUMED));
	assert_false(near_is_stalled(core_near(c)));
	core_expect_aeth(&c->a, 2, AETH_ACK_NO_CREDITS);
}

/* --- READ and ATOMIC --- */

static void far__read_crosses_and_comes_back(void **state)
{
	static const uint8_t ops[] = {RC_READ_RESP_FIRST, RC_READ_RESP_MIDDLE, RC_READ_RESP_LAST};
	const struct core_pkt *k;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	read_request(c, 2, 3);
	core_expect(&c->b, RC_READ_REQUEST, 2);
	core_send(c, RC_WRITE_ONLY, 5); /* a READ of three packets owns three PSNs */
	core_expect(&c->b, RC_WRITE_ONLY, 5);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(respond(c, ops[i], 2 + i, 2), DROP_NONE);
		k = core_expect(&c->a, ops[i], 2 + i);
		assert_memory_equal(k->l3 + k->h.hdr_len, core_payload(0, 2 + i), CORE_PMTU);
		assert_int_equal(k->h.ttl, 63);
	}
	core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS);
	core_ack(c, 5, AETH_ACK_NO_CREDITS, 3);
	core_wait(c, 2 * CORE_MS);
	/* for a retry, as is the answer */
	assert_int_equal(arena_used(c->a.p->arena, POOL_LAN), arena_class_bytes(100));
	assert_int_equal(arena_used(c->a.p->arena, POOL_WAN), 3 * arena_class_bytes(CORE_PMTU + 60));
	assert_int_equal(core_used(&c->b), 0);
}

/* Responses that overtake each other on the LAN reach the host in PSN order. */
static void far__responses_are_put_in_order(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	read_request(c, 2, 3);
	assert_int_equal(respond(c, RC_READ_RESP_LAST, 4, 2), DROP_NONE);
	assert_int_equal(respond(c, RC_READ_RESP_MIDDLE, 3, 2), DROP_NONE);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(respond(c, RC_READ_RESP_FIRST, 2, 2), DROP_NONE);
	core_expect(&c->a, RC_READ_RESP_FIRST, 2);
	core_expect(&c->a, RC_READ_RESP_MIDDLE, 3);
	core_expect(&c->a, RC_READ_RESP_LAST, 4);
}

/* The first response is lost, and the second response is the first answer of the flow: its MSN counts the READ, at
 * whatever offset in the READ. */
static void far__first_answer_from_inside_a_read(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	read_request(c, 0, 2);
	core_expect(&c->b, RC_READ_REQUEST, 0);
	assert_int_equal(respond(c, RC_READ_RESP_LAST, 1, 1), DROP_LAN_RESP_ORDER);
	assert_int_equal(respond(c, RC_READ_RESP_FIRST, 0, 1), DROP_NONE);
	assert_int_equal(respond(c, RC_READ_RESP_LAST, 1, 1), DROP_NONE);
	assert_int_equal(core_expect(&c->a, RC_READ_RESP_FIRST, 0)->h.aeth_msn, 1);
}

/* A response is lost: the far edge repeats the READ from there on, with the address moved on. It drops responses
 * that it has already, and gives the host the other responses with the opcodes of the host's own READ. */
static void far__lost_response_repeats_the_read(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	read_request(c, 2, 3);
	core_forget(&c->b);
	respond(c, RC_READ_RESP_FIRST, 2, 2);
	respond(c, RC_READ_RESP_LAST, 4, 2);
	core_wait(c, 30 * CORE_MS);
	k = core_expect(&c->b, RC_READ_REQUEST, 3);
	assert_int_equal(k->h.reth_len, 2 * CORE_PMTU);
	assert_int_equal(k->h.reth_va, 0x7000 + CORE_PMTU);
	assert_int_equal(k->h.reth_rkey, 9);
	assert_true(k->h.ack_req && k->h.migreq && k->h.pkey == 0xffff && k->h.udp_sport == 0xc123);
	assert_int_equal(respond(c, RC_READ_RESP_FIRST, 2, 2), DROP_LAN_ACK_STALE);
	assert_int_equal(respond(c, RC_READ_RESP_FIRST, 3, 2), DROP_NONE);
	core_expect(&c->a, RC_READ_RESP_FIRST, 2);
	core_expect(&c->a, RC_READ_RESP_MIDDLE, 3);
	core_expect(&c->a, RC_READ_RESP_LAST, 4);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_drops(&c->a, DROP_WAN_POSITION_OLD), 0); /* the first response did not cross twice */
}

/* An ACK of a PSN after a READ without response is an implied NAK of the READ: it acknowledges all requests before
 * the READ, and the far edge repeats the READ. */
static void far__ack_past_a_read_is_an_implied_nak(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_HOST);

	core_send(c, RC_WRITE_ONLY, 2);
	read_request(c, 3, 1);
	core_send(c, RC_WRITE_ONLY, 4);
	core_forget(&c->b);
	core_wait(c, CORE_MS); /* long enough that the response cannot be under way */
	core_ack(c, 4, AETH_ACK_NO_CREDITS, 4);
	core_wait(c, CORE_MS);
	core_expect(&c->b, RC_READ_REQUEST, 3);
	assert_int_equal(core_far(c)->pos_acked, POS_ORIGIN + 3);
	core_expect_aeth(&c->a, 2, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_pending(&c->a), 0); /* no ACK past the READ */
	respond(c, RC_READ_RESP_ONLY, 3, 3);
	core_expect(&c->a, RC_READ_RESP_ONLY, 3);
}

/* A packet that has come but is not counted yet, as the call had no work left, is not sent: its ACK would free its
 * slot, the packet could not be counted any more, and the flow would wait for it for ever. */
static void far__sends_only_what_is_counted(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct far_flow *f = core_far(c);

	core_send_run(c, 1, 3);
	core_ack(c, 3, AETH_ACK_NO_CREDITS, 3);
	core_forget(&c->b);
	f->rnr = true; /* the packet comes, and is not sent */
	core_send(c, RC_WRITE_ONLY, 4);
	assert_int_equal(core_pending(&c->b), 0);
	f->rnr = false;
	f->pos_rx--;
	far_schedule(c->b.p, f);
	core_pump(c);
	assert_int_equal(core_pending(&c->b), 0);
	dlist_append_once(&c->b.p->far_work, &f->work_node);
	core_wait(c, CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 4);
	assert_true(f->pos_rx == f->pos_tx);
}

/* A READ of unknown length was sent uncounted. Its response counts it, however little work is left for the packets
 * after it. */
static void far__response_counts_its_read_without_work(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);
	struct far_flow *f = core_far(c);
	uint64_t pos;

	read_request(c, 1, 2);
	assert_true(f->pos_tx == f->pos_rx + 1);
	pos = f->pos_rx;
	c->b.p->work_left = 0;
	far_learn_from_response(c->b.p, f, &(struct roce_pkt){.opcode = RC_READ_RESP_FIRST, .payload_len = CORE_PMTU});
	assert_true(f->pos_rx == pos + 2 && f->pos_tx == pos + 2);
}

static void far__atomic_is_answered_once(void **state)
{
	struct roce_pkt r = core_answer(RC_ATOMIC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2);
	const struct core_pkt *k;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_long_life(c);
	core_send(c, RC_FETCH_ADD, 1);
	core_expect(&c->b, RC_FETCH_ADD, 1);
	r.atomic_orig = 0x1122334455667788;
	assert_int_equal(core_in(&c->b, r, 0, 0), DROP_NONE);
	core_pump(c);
	k = core_expect(&c->a, RC_ATOMIC_ACK, 1);
	assert_true(k->h.atomic_orig == 0x1122334455667788);
	c->now_ns += 5 * CORE_MS;
	core_send(c, RC_FETCH_ADD, 1); /* its answer was lost on the LAN: the edge repeats it from memory */
	k = core_expect(&c->a, RC_ATOMIC_ACK, 1);
	assert_true(k->h.atomic_orig == 0x1122334455667788);
	assert_int_equal(core_pending(&c->b), 0);
}

/* A response of the wrong kind does not answer an operation. */
static void far__wrong_kind_of_response(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	core_send(c, RC_FETCH_ADD, 2);
	assert_int_equal(respond(c, RC_READ_RESP_ONLY, 2, 2), DROP_LAN_ACK_UNSENT);
	assert_int_equal(respond(c, RC_READ_RESP_ONLY, 3, 2), DROP_LAN_ACK_UNSENT);
	assert_int_equal(core_pending(&c->a), 0);
}

/* --- what comes over the WAN --- */

/* The far edge keeps packets that come before their FLOW_OPEN, and sends none: it does not know where the flow
 * begins. */
static bool lose_first_open(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	size_t off = WAN_HDR_LEN;
	struct wan_frame f;
	int *lost = c->arg;

	while (from == &c->a && !*lost && wan_frame_next(dgram, len - WAN_TAG_LEN, &off, &f) > 0)
		if (f.type == WF_FLOW_OPEN) {
			(*lost)++;
			return false;
		}
	return true;
}

static void far__waits_for_the_open(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	int lost = 0;

	c->wan = lose_first_open;
	c->arg = &lost;
	core_send(c, RC_WRITE_ONLY, 0);
	core_send(c, RC_WRITE_ONLY, 1);
	assert_int_equal(lost, 1);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 50 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	core_ack(c, 0, AETH_ACK_NO_CREDITS, 1);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
}

/* A flow that is closed while it waits for its FLOW_OPEN leaves no state and no slots. */
static void far__closed_before_it_was_open(void **state)
{
	struct wan_packet w = {.flow = 3, .inc = 9, .pos = POS_ORIGIN + 5, .kind = WP_REQUEST};
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 5);
	uint8_t l3[LAN_PKT_MAX];
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct lane *l;

	l = lane_of(c->b.p, proxy_lane(&h.src, &h.dst, c->b.cfg.nlanes));
	w.total = w.len = (uint16_t)roce_build(l3, sizeof(l3), &h, core_payload(0, 5), 100);
	w.data = l3;
	assert_true(far_on_packet(c->b.p, l, &w));
	assert_true(core_used(&c->b) > 0);
	far_on_close(c->b.p, &(struct wan_flow_close){.flow = 3, .inc = 9});
	core_pump(c);
	assert_int_equal(core_used(&c->b), 0);
	assert_int_equal(c->b.p->far_used, 0);
}

/* Frames of an earlier life are dropped by their incarnation. */
static void far__stale_incarnation(void **state)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 1);
	struct wan_packet w = {.kind = WP_REQUEST, .pos = POS_ORIGIN + 1};
	uint8_t l3[LAN_PKT_MAX];
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct far_flow *f;

	f = core_far(c);
	w.flow = f->peer_flow;
	w.inc = f->inc - 1;
	w.total = w.len = (uint16_t)roce_build(l3, sizeof(l3), &h, core_payload(0, 1), 100);
	w.data = l3;
	assert_true(far_on_packet(c->b.p, lane_of(c->b.p, f->lane), &w));
	assert_int_equal(core_drops(&c->b, DROP_WAN_STALE_INCARNATION), 1);
	assert_int_equal(core_used(&c->b), 0);
}

/* A packet whose PSN does not match its position, or that is no request, never reaches the host. */
static void far__wrong_contents_are_dropped(void **state)
{
	static const uint8_t ops[] = {RC_ACK, RC_READ_RESP_ONLY, UD_SEND_ONLY, RC_WRITE_ONLY};
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct far_flow *f;

	f = core_far(c);
	for (size_t i = 0; i < sizeof(ops); i++) {
		struct roce_pkt h = core_req(ops[i], ops[i] == RC_WRITE_ONLY ? 2 : 1);
		struct wan_packet w = {.kind = WP_REQUEST, .flow = f->peer_flow, .inc = f->inc, .pos = POS_ORIGIN + 1};
		uint8_t l3[LAN_PKT_MAX];

		w.total = w.len = (uint16_t)roce_build(l3, sizeof(l3), &h, core_payload(0, 1), 100);
		w.data = l3;
		assert_true(far_on_packet(c->b.p, lane_of(c->b.p, f->lane), &w));
		assert_int_equal(core_used(&c->b), 0);
	}
	assert_int_equal(core_drops(&c->b, DROP_WAN_BAD_FRAME), sizeof(ops));
}

/* A peer can open flows only between its hosts and this site's, on the lane of the host pair, at a valid index. */
static void far__impossible_opens_are_refused(void **state)
{
	struct wan_flow_open good = {.flow = 3, .inc = 9, .pos_base = POS_ORIGIN, .dest_qpn = 5}, o;
	struct core *c = core_given(state, ACK_MODE_NEAR);
	uint16_t lane;

	good.src = core_ip(1, 2);
	good.dst = core_ip(2, 2);
	lane = proxy_lane(&good.src, &good.dst, c->b.cfg.nlanes);
	o = good;
	o.dst = core_ip(9, 9);
	far_on_open(c->b.p, lane_of(c->b.p, proxy_lane(&o.src, &o.dst, c->b.cfg.nlanes)), &o);
	o = good;
	o.src = core_ip(2, 3);
	far_on_open(c->b.p, lane_of(c->b.p, proxy_lane(&o.src, &o.dst, c->b.cfg.nlanes)), &o);
	far_on_open(c->b.p, lane_of(c->b.p, !lane), &good);
	assert_int_equal(c->b.p->far_used, 0);
	assert_int_equal(core_drops(&c->b, DROP_WAN_BAD_FRAME), 3);
	far_on_open(c->b.p, lane_of(c->b.p, lane), &good);
	assert_int_equal(c->b.p->far_used, 1);
	o = good;
	o.pos_base = POS_ORIGIN - (1u << 20); /* no near edge extends a flow so far below its base */
	far_on_open(c->b.p, lane_of(c->b.p, lane), &o);
	o = good;
	o.dest_qpn = 6; /* another QPN under the same index */
	far_on_open(c->b.p, lane_of(c->b.p, lane), &o);
	assert_int_equal(core_drops(&c->b, DROP_WAN_BAD_FRAME), 5);
	assert_int_equal(far_by_peer(c->b.p, 3)->pos_base, POS_ORIGIN);
}

/* A request with the flow's index and incarnation, but for another host or QP, never reaches a host. */
static void far__packets_bear_the_flow_s_name(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct far_flow *f;

	f = core_far(c);
	for (int i = 0; i < 3; i++) {
		struct wan_packet w = {.kind = WP_REQUEST, .flow = f->peer_flow, .inc = f->inc, .pos = POS_ORIGIN + 1};
		struct roce_pkt h = core_req(RC_WRITE_ONLY, 1);
		uint8_t l3[LAN_PKT_MAX];

		h.src = core_ip(1, i == 0 ? 3 : 2);
		h.dst = core_ip(2, i == 1 ? 3 : 2);
		h.dest_qpn = i == 2 ? CORE_QPN + 1 : CORE_QPN;
		w.total = w.len = (uint16_t)roce_build(l3, sizeof(l3), &h, core_payload(0, 1), 100);
		w.data = l3;
		assert_true(far_on_packet(c->b.p, lane_of(c->b.p, f->lane), &w));
	}
	assert_int_equal(core_drops(&c->b, DROP_WAN_BAD_FRAME), 3);
	assert_int_equal(core_used(&c->b), 0);
}

/* A copy of a packet that comes after the end of its flow opens no flow that stays. */
static void far__late_copy_goes_again(void **state)
{
	struct wan_packet w = {.kind = WP_REQUEST, .flow = 5, .inc = 3, .pos = POS_ORIGIN, .total = 200, .len = 64};
	uint8_t data[64] = {0};
	struct core *c = core_given(state, ACK_MODE_NEAR);

	w.data = data;
	assert_true(far_on_packet(c->b.p, lane_of(c->b.p, 0), &w));
	assert_int_equal(c->b.p->far_used, 1);
	assert_true(core_used(&c->b) > 0);
	core_wait(c, 1100 * CORE_MS);
	assert_int_equal(c->b.p->far_used, 0);
	assert_int_equal(core_used(&c->b), 0);
}

/* The FLOW_CLOSE of a flow is lost on the WAN: the far edge finds out. */
static void far__lost_close_is_repaired(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	c->cut = true;
	near_close(c->a.p, core_near(c));
	core_pump(c);
	c->cut = false;
	assert_int_equal(c->b.p->far_used, 1);
	core_wait(c, 61000 * CORE_MS);
	assert_int_equal(c->b.p->far_used, 0);
}

/* --- CNPs --- */

static enum proxy_drop cnp(struct core *c)
{
	struct roce_pkt h = core_answer(ROCE_CNP, CORE_QPN, 0, 0, 0);
	enum proxy_drop d;

	h.becn = true;
	d = core_in(&c->b, h, ROCE_CNP_PAYLOAD, 0);
	core_pump(c);
	return d;
}

/* Returns how many packets host B gets in that time; host B answers all of them. */
static uint32_t delivered_in(struct core *c, uint64_t ns)
{
	uint64_t end = c->now_ns + ns;
	uint32_t n = 0;

	while (c->now_ns < end) {
		for (const struct core_pkt *k; (k = core_take(&c->b)); n++)
			if (k->h.ack_req)
				core_in(&c->b,
				        core_answer(RC_ACK, CORE_QPN, k->h.psn, AETH_ACK_NO_CREDITS, k->h.psn + 1),
				        0, 0);
		core_wait(c, 10 * CORE_US);
	}
	return n;
}

/* A CNP halves the rate, the next CNP that counts reduces it less, and the rate recovers with time; no CNP crosses. */
static void far__cnp_is_obeyed(void **state)
{
	struct core c;
	uint64_t line;
	uint32_t n;

	(void)state;
	core_open_with(&c, ACK_MODE_NEAR, 200);
	core_pair(&c, 0);
	line = c.b.cfg.rate_hint_bps;
	assert_int_equal(core_far(&c)->rate.rate_bps, 0);
	assert_int_equal(cnp(&c), DROP_NONE);
	assert_int_equal(core_far(&c)->rate.rate_bps, line / 2);
	c.now_ns += 10 * CORE_US;
	cnp(&c); /* too soon after the first CNP to count */
	assert_int_equal(core_far(&c)->rate.rate_bps, line / 2);
	c.now_ns += 50 * CORE_US;
	cnp(&c);
	assert_in_range(core_far(&c)->rate.rate_bps, line / 4, line * 26 / 100);
	assert_int_equal(core_ctr(&c.b, CTR_CNPS_RX), 3);
	assert_int_equal(core_pending(&c.a), 0);
	for (uint32_t psn = 1; psn <= 150; psn++) {
		struct roce_pkt h = core_req(RC_WRITE_ONLY, psn);

		assert_int_equal(core_in(&c.a, h, CORE_PMTU, 0), DROP_NONE);
	}
	n = delivered_in(&c, 250 * CORE_US); /* 1 Gbit/s: 8.7 us each, and a quarter of that rate */
	assert_in_range(n, 5, 9);
	n += delivered_in(&c, 5 * CORE_MS);
	assert_int_equal(n, 150);
	core_wait(&c, 400 * CORE_MS);
	core_send(&c, RC_WRITE_ONLY, 151);
	assert_int_equal(core_far(&c)->rate.rate_bps, 0); /* the rate is unlimited again */
	core_close(&c);
}

/* In mode host only the requester itself can slow the flow down for long: there the CNP crosses as well. */
static void far__cnp_crosses_in_mode_host(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	assert_int_equal(cnp(c), DROP_NONE);
	core_expect(&c->a, ROCE_CNP, 0);
	assert_true(core_far(c)->rate.rate_bps > 0);
}

/* With CNPs without end the flow becomes slow, but never stops. */
static void far__cnp_never_stops_a_flow(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	for (int i = 0; i < 1000; i++) {
		cnp(c);
		core_wait(c, 50 * CORE_US);
	}
	assert_in_range(core_far(c)->rate.rate_bps, c->b.cfg.rate_hint_bps >> 10, c->b.cfg.rate_hint_bps / 100);
	core_send(c, RC_WRITE_ONLY, 1);
	core_wait(c, 20 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
}

static bool nothing_from_b(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)dgram;
	return from == &c->a || len == 0;
}

/* The responder of core_connect() has all PSNs up to psn. */
static void answered(struct core *c, uint32_t psn)
{
	core_in(&c->b, core_answer(RC_ACK, 0x21, psn, AETH_ACK_NO_CREDITS, psn), 0, 0);
	core_pump(c);
}

/* When the far edge loses its memory, the responder has more packets than the near edge was told: it answers
 * repeated packets with an ACK of its last PSN, which this life of the far edge has not sent. */
static void far__responder_ahead_of_a_lost_memory(void **state)
{
	const uint32_t n = 200;
	uint32_t last = 0;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_connect(c, 1, 100, 7);
	core_send(c, RC_WRITE_ONLY, 1);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	answered(c, 1);
	core_wait(c, 50 * CORE_MS);
	c->wan = nothing_from_b; /* edge A gets no more reports of delivery */
	core_send_run(c, 2, n - 1);
	for (const struct core_pkt *k; (k = core_take(&c->b));) {
		last = k->h.psn;
		answered(c, last);
	}
	assert_in_range(last, 20, n);
	c->wan = NULL;
	core_lose(c, &c->b, 2);
	assert_true(core_pending(&c->b) > 0); /* the packet comes again, and is answered: */
	core_forget(&c->b);
	answered(c, last);
	assert_true(pos_psn(core_far(c)->pos_acked) > 20);
	for (int i = 0; i < 50 && pos_psn(core_far(c)->pos_acked) <= n; i++) {
		core_wait(c, 10 * CORE_MS);
		for (const struct core_pkt *k; (k = core_take(&c->b));)
			if (k->h.opcode != RC_ACK)
				last = k->h.psn > last ? k->h.psn : last;
		answered(c, last);
	}
	assert_int_equal(pos_psn(core_far(c)->pos_acked), n + 1);
}

/* The edges started when the responder had all packets already, so that no edge knows that its ACK may be right: the
 * far edge believes the ACK when it is repeated. */
static void far__responder_that_insists_on_being_ahead(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	set_window(c, 4300);
	core_far(c)->window_bytes = 4300;
	run_quiet(c, 1, 20);
	for (int i = 0; i < 2; i++) /* a late ACK of another life, and its copy */
		assert_int_equal(core_ack(c, 18, AETH_ACK_NO_CREDITS, 19), DROP_LAN_ACK_UNSENT);
	core_wait(c, 3 * c->b.cfg.lan_timeout_ns + CORE_MS); /* the far edge repeats twice */
	assert_int_equal(core_far(c)->retries, 2);
	assert_int_equal(core_ack(c, 17, AETH_ACK_NO_CREDITS, 18), DROP_LAN_ACK_UNSENT);
	assert_int_equal(core_ack(c, 18, AETH_ACK_NO_CREDITS, 19), DROP_LAN_ACK_UNSENT);
	core_forget(&c->b);
	assert_int_equal(core_ack(c, 18, AETH_ACK_NO_CREDITS, 19), DROP_NONE);
	core_wait(c, CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 19);
	assert_int_equal(core_ack(c, 20, AETH_ACK_NO_CREDITS, 21), DROP_NONE);
	assert_false(core_far(c)->resumed);
}

/* The ACK names PSNs after an unanswered READ, of packets that come only later and are not sent any more. */
static void far__responder_ahead_behind_a_read(void **state)
{
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);
	struct roce_pkt h = core_req(RC_READ_REQUEST, 2);

	h.reth_len = 2 * CORE_PMTU;
	core_in(&c->a, h, 0, 0);
	core_pump(c);
	core_far(c)->resumed = true;
	core_ack(c, 7, AETH_ACK_NO_CREDITS, 5);
	core_far(c)->window_bytes = 1; /* the READ is sent, and no further packet */
	core_send_run(c, 4, 4);
	for (uint32_t i = 0; i < 2; i++)
		core_in(&c->b, core_answer(i ? RC_READ_RESP_LAST : RC_READ_RESP_FIRST, CORE_QPN, 2 + i, AETH_ACK_NO_CREDITS, 2),
		        CORE_PMTU, 0);
	core_pump(c);
	assert_int_equal(proxy_audit(c->b.p), 0);
	assert_int_equal(pos_psn(core_far(c)->pos_acked), 8);
	assert_int_equal(core_far(c)->pos_tx_max, core_far(c)->pos_acked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(far__window_bounds_what_is_out),
	    CORE_TEST(far__ackreq_is_added),
	    CORE_TEST(far__flipped_bit_stays_visible),
	    CORE_TEST(far__ack_frees_both_edges),
	    CORE_TEST(far__nak_goes_back),
	    CORE_TEST(far__rnr_wait_is_honoured),
	    CORE_TEST(far__goes_on_gently_after_rnr),
	    CORE_TEST(far__timeout_backs_off),
	    CORE_TEST(far__window_halves_once_per_loss),
	    CORE_TEST(far__ack_of_unsent_is_dropped),
	    CORE_TEST(far__fatal_nak_reaches_the_requester),
	    CORE_TEST(far__stall_demotes_to_host),
	    CORE_TEST(far__read_crosses_and_comes_back),
	    CORE_TEST(far__responses_are_put_in_order),
	    CORE_TEST(far__first_answer_from_inside_a_read),
	    CORE_TEST(far__lost_response_repeats_the_read),
	    CORE_TEST(far__ack_past_a_read_is_an_implied_nak),
	    CORE_TEST(far__sends_only_what_is_counted),
	    CORE_TEST(far__response_counts_its_read_without_work),
	    CORE_TEST(far__atomic_is_answered_once),
	    CORE_TEST(far__wrong_kind_of_response),
	    CORE_TEST(far__waits_for_the_open),
	    CORE_TEST(far__closed_before_it_was_open),
	    CORE_TEST(far__stale_incarnation),
	    CORE_TEST(far__wrong_contents_are_dropped),
	    CORE_TEST(far__impossible_opens_are_refused),
	    CORE_TEST(far__packets_bear_the_flow_s_name),
	    CORE_TEST(far__late_copy_goes_again),
	    CORE_TEST(far__lost_close_is_repaired),
	    cmocka_unit_test(far__cnp_is_obeyed),
	    CORE_TEST(far__cnp_crosses_in_mode_host),
	    CORE_TEST(far__cnp_never_stops_a_flow),
	    CORE_TEST(far__responder_ahead_of_a_lost_memory),
	    CORE_TEST(far__responder_that_insists_on_being_ahead),
	    CORE_TEST(far__responder_ahead_behind_a_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
