/* SPDX-License-Identifier: Apache-2.0 */
/* The responder's role beside the requester: order, gaps, duplicates, strangers, and how far it may be ACKed. */
#include "core_fixture.h"
#include "proxy/near/near_priv.h"

#define RNR_TYPE(s) ((s)&AETH_TYPE_MASK)

/* A WRITE at a PSN without AckReq. */
static struct roce_pkt quiet(uint32_t psn)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, psn);

	h.ack_req = false;
	return h;
}

static enum proxy_drop in_quiet(struct core *c, uint32_t psn)
{
	enum proxy_drop d = core_in(&c->a, quiet(psn), CORE_PMTU, 0);

	core_pump(c);
	return d;
}

/* --- order and ACKs --- */

static void near__in_order_is_carried_and_acked(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_pair(c, 100);
	for (uint32_t psn = 101; psn < 105; psn++) {
		assert_int_equal(core_send(c, RC_WRITE_ONLY, psn), DROP_NONE);
		core_expect_aeth(&c->a, psn, AETH_ACK_NO_CREDITS);
		core_expect(&c->b, RC_WRITE_ONLY, psn);
	}
}

/* What arrives at the responder is what the requester sent, hop and AckReq bit aside. */
static void near__bytes_are_the_host_s(void **state)
{
	struct core *c = core_given(state, ACK_MODE_HOST);
	const struct core_pkt *k;
	struct roce_pkt h = core_req(RC_WRITE_ONLY_IMM, 100);

	h.imm = 0xabcdef01;
	h.tos = 0x6a;
	h.pkey = 0x8001;
	h.migreq = false;
	h.solicited = true;
	assert_int_equal(core_in(&c->a, h, 333, 0x2005), DROP_NONE);
	core_pump(c);
	k = core_expect(&c->b, RC_WRITE_ONLY_IMM, 100);
	assert_int_equal(k->vlan_tci, 0x2005);
	assert_int_equal(k->h.ttl, 63);
	assert_int_equal(k->h.tos, 0x6a);
	assert_int_equal(k->h.pkey, 0x8001);
	assert_false(k->h.migreq);
	assert_true(k->h.solicited);
	assert_int_equal(k->h.imm, 0xabcdef01);
	assert_int_equal(k->h.udp_sport, 0xc123);
	assert_int_equal(k->h.payload_len, 333);
	assert_memory_equal(k->l3 + k->h.hdr_len, core_payload(0, 100), 333);
}

static void near__nothing_is_acked_while_learning(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (uint32_t psn = 0; psn < 10; psn++)
		core_send(c, RC_WRITE_ONLY, psn);
	for (int i = 0; i < 5; i++)
		core_send(c, RC_WRITE_ONLY, 0); /* also not if the host asks again */
	assert_int_equal(core_pending(&c->a), 0);
}

/* Mode near: what is committed. Without AckReq an ACK comes at least every ACK_EVERY_PKTS. */
static void near__acks_are_coalesced(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	for (uint32_t psn = 1; psn < ACK_EVERY_PKTS; psn++)
		assert_int_equal(in_quiet(c, psn), DROP_NONE);
	assert_int_equal(core_pending(&c->a), 0);
	in_quiet(c, ACK_EVERY_PKTS);
	core_expect_aeth(&c->a, ACK_EVERY_PKTS, AETH_ACK_NO_CREDITS);
}

static void near__one_ack_for_a_burst(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	for (uint32_t psn = 1; psn <= 20; psn++)
		core_in(&c->a, core_req(RC_WRITE_ONLY, psn), CORE_PMTU, 0);
	core_pump(c);
	core_expect_aeth(&c->a, 20, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_pending(&c->a), 0);
}

/* Mode near does not wait for the WAN; mode host waits for the responder. */
static void near__mode_near_acks_over_a_cut(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	c->cut = true;
	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
}

static void near__mode_host_waits_for_the_responder(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	core_send_run(c, 1, 5);
	assert_int_equal(core_pending(&c->a), 0);
	core_ack(c, 3, AETH_ACK_NO_CREDITS, 4);
	core_expect_aeth(&c->a, 3, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_pending(&c->a), 0);
	core_ack(c, 5, AETH_ACK_NO_CREDITS, 6);
	core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS);
}

static void near__mismatch_is_never_acked_early(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct proxy_session s;

	s = c->a.p->session;
	s.mismatch = true;
	proxy_session_start(c->a.p, &s, c->now_ns);
	proxy_session_start(c->b.p, &c->b.p->session, c->now_ns);
	core_pump(c);
	core_send(c, RC_WRITE_ONLY, 1);
	assert_int_equal(core_pending(&c->a), 0);
	core_ack(c, 1, AETH_ACK_NO_CREDITS, 2);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
}

/* The MSN counts messages, not packets, from what the responder said first. */
static void near__msn_counts_messages(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	const struct core_pkt *k;

	core_send(c, RC_WRITE_ONLY, 100);
	core_expect(&c->b, RC_WRITE_ONLY, 100);
	core_ack(c, 100, AETH_ACK_NO_CREDITS, 0xfffffe); /* wraps soon */
	k = core_expect_aeth(&c->a, 100, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 0xfffffe);
	core_send(c, RC_SEND_ONLY, 101);
	k = core_expect_aeth(&c->a, 101, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 0xffffff);
	core_in(&c->a, core_req(RC_WRITE_FIRST, 102), CORE_PMTU, 0);
	core_in(&c->a, core_req(RC_WRITE_MIDDLE, 103), CORE_PMTU, 0);
	core_send(c, RC_WRITE_LAST, 104);
	k = core_expect_aeth(&c->a, 104, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 0);
}

/* --- gaps --- */

static void near__short_reordering_is_no_gap(void **state)
{
	static const uint32_t order[] = {3, 1, 2, 6, 5, 4};
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(in_quiet(c, order[i]), DROP_NONE);
		c->now_ns += CORE_US;
	}
	core_wait(c, CORE_MS);
	assert_int_equal(core_ctr(&c->a, CTR_NAKS_TX), 0);
	for (uint32_t psn = 1; psn <= 6; psn++)
		core_expect(&c->b, RC_WRITE_ONLY, psn);
	core_send(c, RC_WRITE_ONLY, 7);
	assert_int_equal(core_expect_aeth(&c->a, 7, AETH_ACK_NO_CREDITS)->h.aeth_msn, 8);
}

/* Patience, then one NAK at the gap, then silence until it is mended; then everything held counts. */
static void near__gap_is_naked_once(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	const struct core_pkt *k;

	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	in_quiet(c, 3);
	in_quiet(c, 4);
	core_wait(c, c->a.cfg.reorder_ns - 1);
	assert_int_equal(core_pending(&c->a), 0);
	core_wait(c, 1);
	k = core_expect_aeth(&c->a, 2, AETH_NAK_PSN_SEQ);
	assert_int_equal(k->h.aeth_msn, 2);
	in_quiet(c, 5);
	core_wait(c, 10 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	core_forget(&c->b);
	core_send(c, RC_WRITE_ONLY, 2);
	core_expect_aeth(&c->a, 4, AETH_ACK_NO_CREDITS); /* 3 and 4 were kept; 5 was not: the host sends it again */
	assert_int_equal(core_ctr(&c->a, CTR_NAKS_TX), 1);
}

/* Many packets behind a gap are a loss at once. */
static void near__patience_ends_by_packets(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	for (uint32_t i = 0; i < PATIENCE_PKTS - 1; i++)
		in_quiet(c, 2 + i);
	assert_int_equal(core_pending(&c->a), 0);
	in_quiet(c, 2 + PATIENCE_PKTS - 1);
	core_expect_aeth(&c->a, 1, AETH_NAK_PSN_SEQ);
}

/* The host went back, and what was missing got lost again. */
static void near__second_loss_is_naked_again(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	for (uint32_t psn = 2; psn < 8; psn++)
		in_quiet(c, psn);
	core_wait(c, CORE_MS);
	core_expect_aeth(&c->a, 1, AETH_NAK_PSN_SEQ);
	for (uint32_t psn = 2; psn < 8; psn++)
		core_in(&c->a, quiet(psn), CORE_PMTU, 0);
	core_wait(c, CORE_MS);
	core_expect_aeth(&c->a, 1, AETH_NAK_PSN_SEQ);
	assert_int_equal(core_pending(&c->a), 0);
}

/* What was dropped after a NAK comes again for that NAK: it is no second loss until the host can have gone back. */
static void near__one_nak_until_the_host_can_have_gone_back(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	for (uint32_t psn = 2; psn < 8; psn++)
		in_quiet(c, psn);
	core_wait(c, 2 * c->a.cfg.reorder_ns);
	core_expect_aeth(&c->a, 1, AETH_NAK_PSN_SEQ);
	in_quiet(c, 8);                 /* dropped */
	core_send(c, RC_WRITE_ONLY, 1); /* it was only late */
	core_expect_aeth(&c->a, 7, AETH_ACK_NO_CREDITS);
	for (uint32_t psn = 9; psn < 9 + PATIENCE_PKTS; psn++)
		in_quiet(c, psn);
	assert_int_equal(core_pending(&c->a), 0);
	core_wait(c, CORE_MS);
	core_expect_aeth(&c->a, 8, AETH_NAK_PSN_SEQ); /* it has not */
	assert_int_equal(core_ctr(&c->a, CTR_NAKS_TX), 2);
}

/* A request of a kind that is not held beyond a gap proves the gap as well: no other packet may ever follow it. */
static void gap_before(void **state, uint8_t opcode)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	for (int round = 0; round < 2; round++) { /* the host repeats it behind the same gap: that is still one NAK */
		assert_int_equal(core_send(c, opcode, 2), round ? DROP_LAN_GAP : DROP_NONE);
		core_wait(c, round ? 4000 * CORE_MS : c->a.cfg.reorder_ns);
	}
	core_expect_aeth(&c->a, 1, AETH_NAK_PSN_SEQ);
	assert_int_equal(core_pending(&c->a), 0);
	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	core_wait(c, 100 * CORE_MS); /* the NAK told the host to send all again: it is waited for in silence */
	assert_int_equal(core_ctr(&c->a, CTR_NAKS_TX), 1);
}

static void near__gap_before_a_read_is_naked(void **state)
{
	gap_before(state, RC_READ_REQUEST);
}

static void near__gap_before_an_atomic_is_naked(void **state)
{
	gap_before(state, RC_CMP_SWAP);
}

static void near__gap_before_an_unknown_is_naked(void **state)
{
	gap_before(state, RC_RESERVED_15);
}

/* Each round of the host has a gap, and all NAKs have the PSN of the ATOMIC in front, whose answer has a way to go.
 * After three the host is sent away until the answer can be here. With the answer NAKs go on. */
static void near__no_naks_without_end_in_front_of_an_atomic(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint32_t naks = 0, rnr = 0;

	assert_int_equal(core_in(&c->a, core_req(RC_FETCH_ADD, 1), 0, 0), DROP_NONE);
	for (uint32_t round = 0; round < 10; round++) {
		for (uint32_t psn = 2; psn < 3 + 2 * round; psn++)
			in_quiet(c, psn);
		in_quiet(c, 4 + 2 * round); /* behind a gap */
		core_wait(c, CORE_MS / 2);
		for (const struct core_pkt *k; (k = core_take(&c->a));) {
			assert_int_equal(k->h.psn, 1);
			naks += k->h.aeth_syndrome == AETH_NAK_PSN_SEQ;
			rnr += (k->h.aeth_syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK;
		}
	}
	assert_int_equal(naks, 3);
	assert_in_range(rnr, 1, 20);
	core_in(&c->b, core_answer(RC_ATOMIC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2), 0, 0);
	core_wait(c, 100 * CORE_MS);
	naks = 0;
	for (const struct core_pkt *k; (k = core_take(&c->a));)
		naks += k->h.psn == 21 && k->h.aeth_syndrome == AETH_NAK_PSN_SEQ;
	assert_int_equal(naks, 1);
	core_forget(&c->b);
}

/* The packet that a READ overtook has come, but the READ itself was not held: a NAK asks for it, as the host has no
 * other reason to repeat it. */
static void near__read_that_overtook_is_asked_for(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_in(&c->a, core_req(RC_READ_REQUEST, 2), 0, 0);
	in_quiet(c, 1);
	core_forget(&c->a); /* perhaps an ACK of 1 */
	core_wait(c, CORE_MS);
	core_expect_aeth(&c->a, 2, AETH_NAK_PSN_SEQ);
	core_send(c, RC_READ_REQUEST, 2);
	core_wait(c, 100 * CORE_MS);
	assert_int_equal(core_ctr(&c->a, CTR_NAKS_TX), 1);
}

/* A NAK also acknowledges: in mode host it must not do that for what the responder lacks. */
static void near__nak_stays_at_the_ceiling(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	core_send_run(c, 1, 3);
	in_quiet(c, 6);
	core_wait(c, CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->a));)
		assert_true(k->h.psn <= 1); /* 1 is the oldest that the responder has not ACKed */
}

static void near__far_psn_is_refused(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	assert_int_equal(in_quiet(c, 1 + FLOW_SPAN_MAX + 1), DROP_LAN_WINDOW);
	assert_int_equal(in_quiet(c, 0x800000), DROP_LAN_WINDOW);
}

static void near__psn_wraps(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_pair(c, 0xfffffd);
	for (uint32_t i = 0; i < 6; i++) {
		uint32_t psn = (0xfffffe + i) & ROCE_PSN_MASK;

		assert_int_equal(core_send(c, RC_WRITE_ONLY, psn), DROP_NONE);
		core_expect(&c->b, RC_WRITE_ONLY, psn);
		core_expect_aeth(&c->a, psn, AETH_ACK_NO_CREDITS);
		core_ack(c, psn, AETH_ACK_NO_CREDITS, 2 + i);
	}
	core_wait(c, CORE_MS);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_used(&c->b), 0);
}

/* --- beginnings --- */

/* The first packet seen was overtaken: lower ones move the base down, and the responder gets them first. */
static void near__base_extends_downwards(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	c->cut = true;
	assert_int_equal(in_quiet(c, 103), DROP_NONE);
	assert_int_equal(in_quiet(c, 101), DROP_NONE);
	assert_int_equal(in_quiet(c, 100), DROP_NONE);
	assert_int_equal(in_quiet(c, 102), DROP_NONE);
	assert_int_equal(core_near(c)->pos_base, POS_ORIGIN + 100);
	assert_int_equal(core_near(c)->pos_next, POS_ORIGIN + 104);
	assert_int_equal(core_ctr(&c->a, CTR_BASE_LOWERED), 2);
	c->cut = false;
	core_wait(c, 100 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 100);
	core_ack(c, 100, AETH_ACK_NO_CREDITS, 1);
	for (uint32_t psn = 101; psn < 104; psn++)
		core_expect(&c->b, RC_WRITE_ONLY, psn);
}

/* Also after they were sent on: the far edge begins again further down. */
static void near__base_extends_after_sending(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	in_quiet(c, 101);
	core_expect(&c->b, RC_WRITE_ONLY, 101); /* the responder expects 100 and says nothing, or NAKs */
	in_quiet(c, 100);
	core_expect(&c->b, RC_WRITE_ONLY, 100);
	core_ack(c, 100, AETH_ACK_NO_CREDITS, 1);
	core_wait(c, CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 101);
	core_ack(c, 101, AETH_ACK_NO_CREDITS, 2);
	core_wait(c, CORE_MS);
	assert_int_equal(core_used(&c->a), 0);
}

/* The responder is dead, and the host gives up. Its queue pair is recovered and begins at a lower PSN: it is sent no
 * ACK of what only the life before has sent, and no byte of that life reaches the responder. */
static void life_below(void **state, bool overtaken)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	const struct core_pkt *k;

	for (uint32_t psn = 102; psn < 105; psn++)
		in_quiet(c, psn);
	core_wait(c, 60 * CORE_MS);
	core_forget(&c->b);
	c->salt = 7;
	if (overtaken)
		in_quiet(c, 105);
	in_quiet(c, 100);
	in_quiet(c, 101);
	while (core_pending(&c->b) == 0 && c->now_ns < CORE_START + 1000 * CORE_MS)
		core_wait(c, CORE_MS); /* the turn of the life before, and its quarantine */
	core_expect(&c->b, RC_WRITE_ONLY, 100);
	core_ack(c, 100, AETH_ACK_NO_CREDITS, 1);
	core_expect_aeth(&c->a, 101, AETH_ACK_NO_CREDITS);
	core_expect(&c->b, RC_WRITE_ONLY, 101);
	assert_int_equal(core_pending(&c->b), 0);
	core_send(c, RC_WRITE_ONLY, 102);
	core_expect_aeth(&c->a, 102, AETH_ACK_NO_CREDITS);
	k = core_expect(&c->b, RC_WRITE_ONLY, 102);
	assert_memory_equal(k->l3 + k->h.hdr_len, core_payload(7, 102), CORE_PMTU);
	core_ack(c, 102, AETH_ACK_NO_CREDITS, 3);
	core_wait(c, CORE_MS);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_used(&c->b), 0);
}

static void near__life_below_takes_nothing_of_the_one_before(void **state)
{
	life_below(state, false);
}

/* A packet of the new life that has overtaken its first one ends no silence. */
static void near__overtaken_life_below_takes_nothing_of_the_one_before(void **state)
{
	life_below(state, true);
}

/* The table is full, and the flow of the life before gives its place. */
static void near__life_below_in_a_full_table(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	in_quiet(c, 102);
	core_wait(c, 60 * CORE_MS);
	core_forget(&c->b);
	while (!dlist_empty(&c->a.p->near_free))
		dlist_remove(dlist_first(&c->a.p->near_free));
	for (uint32_t round = 0; round < 3; round++) {
		in_quiet(c, 100);
		core_wait(c, 2 * CORE_MS);
	}
	assert_int_equal(core_near(c)->pos_base, POS_ORIGIN + 100);
	core_wait(c, 200 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 100);
}

/* In a full table the place of a flow whose failure nobody has fetched is not given to another one, though the flow was
 * silent for longest. Once the failure was fetched, it is. */
static void near__failure_keeps_its_place_in_a_full_table(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct near_cm_info ci = {
	    .src = core_ip(1, 3), .dst = core_ip(2, 2), .dest_qpn = 0x100, .requester_qpn = 0x200, .pmtu = CORE_PMTU};
	uint32_t idx = core_near(c)->idx;

	core_send(c, RC_WRITE_ONLY, 1);
	core_wait(c, CORE_MS);
	for (; !dlist_empty(&c->a.p->near_free); ci.dest_qpn++, ci.requester_qpn++, ci.tag++)
		near_cm_open(c->a.p, &ci);
	core_wait(c, 1100 * CORE_MS); /* all are idle */
	near_refused(c->a.p, core_near(c), core_near(c)->pos_base + 1, AETH_NAK_REM_ACCESS);
	assert_true(near_loss_is_fresh(c->a.p, core_near(c)));
	near_cm_open(c->a.p, &ci);
	assert_non_null(near_find(c->a.p, &ci.src, &ci.dst, ci.dest_qpn, 0));
	assert_true(c->a.p->near[idx].state == NEAR_FAILED);
	core_wait(c, 200 * CORE_MS);
	for (uint32_t i = 0; i < CORE_FLOWS && c->a.p->near[idx].state == NEAR_FAILED; i++) {
		ci.dest_qpn++, ci.requester_qpn++, ci.tag++;
		near_cm_open(c->a.p, &ci);
	}
	assert_false(c->a.p->near[idx].state == NEAR_FAILED);
}

/* Nor if the flow has no pair. */
static void near__failure_without_a_pair_keeps_its_place(void **state)
{
	struct core *c = core_given(state, ACK_MODE_FAR);
	struct near_flow *f;

	core_send(c, RC_WRITE_ONLY, 0);
	core_wait(c, 150 * CORE_MS);
	f = core_near(c);
	assert_int_equal(f->pairing, PAIR_LEARNING);
	near_buffer_lost(c->a.p, f, f->pos_base);
	assert_true(f->state == NEAR_FAILED && near_loss_is_fresh(c->a.p, f));
	assert_false(near_unpaired_evict(c->a.p));
	core_wait(c, 100 * CORE_MS);
	assert_true(near_unpaired_evict(c->a.p));
	assert_false(near_in_use(f));
}

/* The far edge repeats a request of the life before, and the recovered responder asks for the lower PSN before its
 * requester has sent anything: after silence, or while the near edge was down. */
static void nak_of_the_next_life(void **state, bool restart)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (uint32_t psn = 102; psn < 105; psn++)
		in_quiet(c, psn);
	if (!restart) {
		core_wait(c, 400 * CORE_MS);
		core_forget(&c->b);
	}
	while (core_pending(&c->b) == 0 && c->now_ns < CORE_START + 1000 * CORE_MS)
		core_wait(c, CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 102);
	if (restart) {
		core_rebuild(&c->a);
		core_session(c);
	}
	core_ack(c, 100, AETH_NAK_PSN_SEQ, 0);
	core_wait(c, 200 * CORE_MS); /* the quarantine of the life before */
	core_forget(&c->a);
	core_forget(&c->b);
	c->salt = 7;
	in_quiet(c, 100);
	in_quiet(c, 101);
	core_expect(&c->b, RC_WRITE_ONLY, 100);
	core_ack(c, 100, AETH_ACK_NO_CREDITS, 1);
	core_expect(&c->b, RC_WRITE_ONLY, 101);
	core_ack(c, 101, AETH_ACK_NO_CREDITS, 2);
	core_wait(c, CORE_MS);
	core_expect_aeth(&c->a, 101, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_pending(&c->b), 0);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_used(&c->b), 0);
}

static void near__nak_of_the_next_life_keeps_nothing_of_the_one_before(void **state)
{
	nak_of_the_next_life(state, false);
}

static void near__nak_of_the_next_life_after_a_restart(void **state)
{
	nak_of_the_next_life(state, true);
}

/* A lower PSN comes too late if the responder has taken the first packet: it had the lower ones before this
 * flow, and the far edge begins at the first packet for good. The host, which has lost the answers, begins
 * another incarnation. */
static void near__base_extends_after_an_answer(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	in_quiet(c, 102);
	core_expect(&c->b, RC_WRITE_ONLY, 102);
	c->cut = true;
	core_ack(c, 102, AETH_ACK_NO_CREDITS, 3);
	for (uint32_t psn = 100; psn < 103; psn++)
		in_quiet(c, psn);
	c->cut = false;
	core_wait(c, 100 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	for (uint32_t psn = 100; psn < 103; psn++)
		in_quiet(c, psn);
	core_expect(&c->b, RC_WRITE_ONLY, 100);
	core_ack(c, 102, AETH_ACK_NO_CREDITS, 3);
	assert_int_equal(core_expect_aeth(&c->a, 102, AETH_ACK_NO_CREDITS)->h.aeth_msn, 3);
	core_wait(c, CORE_MS);
	assert_int_equal(core_used(&c->a), 0);
}

/* The responder waits for a PSN below what was ever seen: the requester is told. */
static void near__nak_below_the_base_reaches_the_host(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	in_quiet(c, 101);
	core_expect(&c->b, RC_WRITE_ONLY, 101);
	core_ack(c, 99, AETH_NAK_PSN_SEQ, 0);
	core_expect_aeth(&c->a, 99, AETH_NAK_PSN_SEQ);
	assert_int_equal(core_ctr(&c->a, CTR_BASE_LOWERED), 1);
	for (uint32_t psn = 99; psn < 102; psn++) {
		in_quiet(c, psn);
		core_wait(c, CORE_MS);
	}
	core_forget(&c->a);
	for (uint32_t psn = 99; psn < 102; psn++)
		core_expect(&c->b, RC_WRITE_ONLY, psn);
	core_ack(c, 101, AETH_ACK_NO_CREDITS, 3);
	core_wait(c, CORE_MS);
	assert_int_equal(core_used(&c->a), 0);
}

/* --- duplicates and strangers --- */

static void near__duplicate_is_acked_again(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send_run(c, 1, 5);
	core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS);
	core_forget(&c->b);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 3), DROP_LAN_DUPLICATE); /* its AckReq bit differs: no matter */
	core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_pending(&c->b), 0); /* and does not cross again */
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 0);
}

/* Also when the bytes are long delivered and only the ring of fingerprints remembers. */
static void near__settled_duplicate_is_known_by_fingerprint(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_long_life(c);
	core_deliver(c, 1, 5);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 4), DROP_LAN_DUPLICATE);
	core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_ctr(&c->a, CTR_DOUBTS), 0);
}

/* Mode host: a duplicate of what the responder has not ACKed is not ACKed by being repeated. */
static void near__duplicate_does_not_pass_the_ceiling(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	core_send(c, RC_WRITE_ONLY, 1);
	for (int i = 0; i < 6; i++) {
		core_send(c, RC_WRITE_ONLY, 1);
		c->now_ns += CORE_MS;
	}
	for (const struct core_pkt *k; (k = core_take(&c->a));)
		assert_true(RNR_TYPE(k->h.aeth_syndrome) == AETH_RNR_NAK && k->h.psn == 1);
}

/* A host that waits for an edge which has just been started, and has not met the other one yet, is held off: silence
 * would end its queue pair. */
static void near__held_off_before_the_first_session(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	core_send(c, RC_WRITE_ONLY, 1);
	c->now_ns += c->a.cfg.give_up_ns;
	core_rebuild(&c->a);
	c->now_ns += CORE_MS;
	core_send(c, RC_WRITE_ONLY, 1);
	assert_true(RNR_TYPE(core_take(&c->a)->h.aeth_syndrome) == AETH_RNR_NAK);
}

/* Same PSNs, other bytes: the QP was reset. The new life is neither sent nor ACKed before the old one's bytes are the
 * responder's. */
static void near__stranger_waits_for_the_old_life(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct near_flow *f;

	core_send_run(c, 1, 4);
	core_expect_aeth(&c->a, 4, AETH_ACK_NO_CREDITS);
	for (uint32_t psn = 1; psn <= 4; psn++)
		core_expect(&c->b, RC_WRITE_ONLY, psn);
	c->salt = 1;
	assert_int_equal(core_insist(c, RC_WRITE_ONLY, 0), DROP_NONE);
	f = core_near(c);
	assert_non_null(f->older);
	assert_true(core_event(&c->a, EV_FLOW_RESET));
	core_wait(c, 5 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0); /* the old life is in flight */
	assert_int_equal(core_pending(&c->a), 0);
	core_ack(c, 4, AETH_ACK_NO_CREDITS, 5);
	core_wait(c, CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(core_pending(&c->a), 0); /* ACKed only after the responder has answered in the new life */
	core_ack(c, 0, AETH_ACK_NO_CREDITS, 1);
	assert_int_equal(core_expect_aeth(&c->a, 0, AETH_ACK_NO_CREDITS)->h.aeth_msn, 1);
	assert_null(core_near(c)->older);
}

/* Nothing is left of the old life: the new one goes at once. */
static void near__stranger_after_silence_goes_at_once(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_wait(c, 1001 * CORE_MS);
	c->salt = 1;
	core_send(c, RC_WRITE_ONLY, 0);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(core_pending(&c->a), 0);
	core_ack(c, 0, AETH_ACK_NO_CREDITS, 1);
	core_expect_aeth(&c->a, 0, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 1);
}

/* A responder that is gone does not hold the new life for ever, and the loss is said. */
static void near__old_life_fails_loudly(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send_run(c, 1, 4);
	core_forget(&c->b);
	c->salt = 1;
	core_insist(c, RC_WRITE_ONLY, 0);
	core_event(&c->a, EV_COUNT);
	core_wait(c, 2000 * CORE_MS);
	assert_true(core_event(&c->a, EV_FLOW_FAILED));
	assert_true(core_ctr(&c->a, CTR_BYTES_FAILED) > 0);
	assert_null(core_near(c)->older);
}

/* A job was killed with bytes under way and begins again with the same queue pairs: its responder's silence until now
 * counts, so that the new life is met with hardly any. */
static void near__long_stalled_life_gives_way_at_once(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send_run(c, 1, 4);
	core_forget(&c->b);
	core_wait(c, 10000 * CORE_MS);
	core_forget(&c->a);
	core_forget(&c->b);
	core_event(&c->a, EV_COUNT);
	c->salt = 1;
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 0), DROP_NONE);
	core_wait(c, 20 * CORE_MS);
	assert_true(core_event(&c->a, EV_FLOW_FAILED));
	assert_true(core_ctr(&c->a, CTR_BYTES_FAILED) > 0);
	assert_memory_equal(core_expect(&c->b, RC_WRITE_ONLY, 0)->l3 + 56, core_payload(1, 0), 100);
}

/* While the line is cut nobody knows whether the responder is silent: nothing that was ACKed is given up. */
static void near__old_life_outlasts_a_cut(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	c->cut = true;
	core_send_run(c, 1, 4);
	core_wait(c, 1001 * CORE_MS);
	c->salt = 1;
	core_insist(c, RC_WRITE_ONLY, 0);
	core_wait(c, 5000 * CORE_MS);
	assert_int_equal(core_ctr(&c->a, CTR_BYTES_FAILED), 0);
	c->cut = false;
	core_wait(c, 100 * CORE_MS);
	for (uint32_t psn = 1; psn <= 4; psn++) {
		core_expect(&c->b, RC_WRITE_ONLY, psn);
		core_ack(c, psn, AETH_ACK_NO_CREDITS, psn + 1);
	}
	assert_int_equal(core_ctr(&c->a, CTR_BYTES_FAILED), 0);
}

/* A third life while the first still drains: the second never began. */
static void near__second_stranger_replaces_the_first(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send_run(c, 1, 4);
	core_forget(&c->b);
	c->salt = 1;
	core_insist(c, RC_WRITE_ONLY, 0);
	c->salt = 2;
	core_insist(c, RC_WRITE_ONLY, 0);
	core_forget(&c->b);
	core_ack(c, 4, AETH_ACK_NO_CREDITS, 5);
	core_wait(c, CORE_MS);
	assert_memory_equal(core_expect(&c->b, RC_WRITE_ONLY, 0)->l3 + 56, core_payload(2, 0), 100);
	assert_int_equal(core_pending(&c->b), 0);
}

/* CM tells of another connection to the same responder. */
static void cm_opens(struct core *c, uint32_t psn)
{
	near_cm_open(c->a.p, &(struct near_cm_info){.src = core_ip(1, 2),
	                                            .dst = core_ip(2, 2),
	                                            .dest_qpn = CORE_QPN,
	                                            .requester_qpn = 0x31,
	                                            .start_psn = psn,
	                                            .pmtu = CORE_PMTU,
	                                            .pkey = 0xffff,
	                                            .rnr_retry = 7});
}

/* What the first life has sent is lost on the line, so that it drains, and CM opens a second one at PSN 500. */
static void given_second_life(struct core *c)
{
	c->cut = true;
	core_send_run(c, 1, 4);
	c->cut = false;
	core_forget(&c->a);
	core_forget(&c->b);
	core_connect(c, 500, 900, 7);
}

/* CM has told the second life's pair, so that it is ACKed early while the first one drains: the third life ends it, and
 * says what it owed. */
static void near__second_life_that_was_acked_fails_loudly(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct proxy_event ev;
	uint64_t failed = 0;

	given_second_life(c);
	core_send(c, RC_WRITE_ONLY, 500);
	core_expect_aeth(&c->a, 500, AETH_ACK_NO_CREDITS);
	assert_non_null(core_near(c)->older);
	core_event(&c->a, EV_COUNT);
	cm_opens(c, 700);
	while (proxy_event_next(c->a.p, &ev))
		if (ev.type == EV_FLOW_FAILED)
			failed += ev.value;
	assert_true(failed >= CORE_PMTU);
	assert_int_equal(core_ctr(&c->a, CTR_BYTES_FAILED), failed);
}

/* Requests of the first life that were not executed do not reach the queue pair that CM has connected anew, whether
 * they are at the far edge or cross later. Answers of the new connection do not count for them. */
static void near__cm_ends_what_the_far_edge_holds(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct proxy_event ev;
	unsigned failures = 0;

	core_send_run(c, 1, 4);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	core_forget(&c->a);
	core_forget(&c->b);
	core_event(&c->b, EV_COUNT);
	core_connect(c, 1, 900, 7); /* at the same PSN */
	while (proxy_event_next(c->b.p, &ev))
		failures += ev.type == EV_FLOW_FAILED && ev.failure == FAILURE_REPLACED;
	assert_int_equal(failures, 1);
	core_wait(c, 100 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	c->salt = 1;
	core_send(c, RC_WRITE_ONLY, 1);
	assert_memory_equal(core_expect(&c->b, RC_WRITE_ONLY, 1)->l3 + 56, core_payload(1, 1), 100);
	for (int i = 0; i < 40 && core_near(c)->pos_reported == core_near(c)->pos_base; i++) {
		/* the first ones may be late answers to the life before */
		core_in(&c->b, core_answer(RC_ACK, 0x21, 1, AETH_ACK_NO_CREDITS, 1), 0, 0);
		core_wait(c, CORE_MS);
	}
	assert_false(core_near(c)->state == NEAR_FAILED);
	assert_true(core_near(c)->pos_reported > core_near(c)->pos_base);
}

static void near__cm_ends_what_crosses_later(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_connect(c, 1, 900, 7);
	core_send_run(c, 1, 2);
	core_ack(c, 2, AETH_ACK_NO_CREDITS, 2);
	core_forget(&c->a);
	core_forget(&c->b);
	core_far(c)->replaced_by = 1; /* its REP went by while these were on the line */
	core_send_run(c, 3, 2);
	core_wait(c, 100 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	assert_true(far_has_failed(core_far(c)));
}

/* The far edge saw the set-up before its restart, and sees it again: a REQ that was not acknowledged is sent and
 * answered once more. It is the same connection. */
static void near__set_up_repeated_after_a_far_restart(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_connect(c, 1, 900, 7);
	core_send_run(c, 1, 3);
	core_rebuild(&c->b);
	core_session(c);
	core_forget(&c->a);
	core_forget(&c->b);
	core_connect(c, 1, 900, 7);
	core_wait(c, CORE_MS);
	assert_false(far_has_failed(core_far(c)));
	assert_false(core_near(c)->state == NEAR_FAILED);
	assert_int_equal(core_in(&c->b, core_answer(RC_ACK, 0x21, 3, AETH_ACK_NO_CREDITS, 3), 0, 0), DROP_NONE);
	core_wait(c, CORE_MS);
	assert_int_equal(pos_psn(core_near(c)->pos_reported), 4);
}

/* The near edge's own restart: it knows the connection again, and its flow goes on. */
static void near__set_up_repeated_after_a_near_restart(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	uint32_t inc;

	core_connect(c, 1, 900, 7);
	core_send_run(c, 1, 3);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
	core_forget(&c->a);
	core_forget(&c->b);
	inc = core_near(c)->inc;
	core_rebuild(&c->a);
	core_session(c);
	core_forget(&c->a);
	core_forget(&c->b);
	core_connect(c, 1, 900, 7);
	core_wait(c, CORE_MS);
	assert_int_equal(core_near(c)->inc, inc);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 0);
	assert_false(far_has_failed(core_far(c)));
}

/* Which connection began a flow outlives a restart at both edges: what the host repeats of its set-up then is no other
 * connection, which would fail the flow. */
static void near__connection_outlives_a_restart(void **state)
{
	struct core *c = core_given(state, ACK_MODE_FAR);
	uint32_t tag;

	core_connect(c, 1, 900, 7);
	core_send_run(c, 1, 3);
	tag = core_near(c)->cm_tag;
	assert_int_not_equal(tag, 0);
	core_rebuild(&c->a);
	core_rebuild(&c->b);
	assert_int_equal(core_near(c)->cm_tag, tag);
	assert_int_equal(core_far(c)->cm_tag, tag);
}

/* Only a certain reset ends the second life: a packet that may be its own repetition waits for the end of the first. */
static void near__second_life_that_was_acked_outlasts_a_doubt(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint64_t failed_bytes;

	given_second_life(c);
	c->cut = true;
	core_send(c, RC_WRITE_ONLY, 500);
	core_expect_aeth(&c->a, 500, AETH_ACK_NO_CREDITS);
	core_wait(c, 600 * CORE_MS);
	core_forget(&c->a);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 500), DROP_LAN_RESET_SUSPECTED);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_ctr(&c->a, CTR_DOUBTS), 0);
	failed_bytes = core_ctr(&c->a, CTR_BYTES_FAILED);
	assert_int_equal(failed_bytes, 0);
	c->cut = false;
	core_wait(c, 200 * CORE_MS); /* the first life's bytes come too late for its queue pair */
	core_expect(&c->b, RC_WRITE_ONLY, 500);
	assert_in_range(core_ctr(&c->a, CTR_BYTES_FAILED), 4 * CORE_PMTU, 5 * CORE_PMTU);
}

/* A flow that meets a lane whose window others have filled has nothing under way that could wake it: it must get its
 * turn when theirs is delivered. */
static void near__waits_for_the_lane_s_window(void **state)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);
	uint32_t seen = 0;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	lane_of(c->a.p, core_near(c)->lane)->window_bytes = 2 * arena_class_bytes(CORE_PMTU + 84);
	core_send_run(c, 1, 2);
	h.dest_qpn = 0x99;
	assert_int_equal(core_in(&c->a, h, CORE_PMTU, 0), DROP_NONE);
	core_wait(c, CORE_MS);
	assert_int_equal(core_pending(&c->b), 2);
	core_forget(&c->b);
	core_ack(c, 2, AETH_ACK_NO_CREDITS, 3);
	core_wait(c, 5 * CORE_MS);
	for (const struct core_pkt *k; (k = core_take(&c->b));)
		seen += k->h.dest_qpn == 0x99;
	assert_true(seen > 0);
}

/* A restart while two lives are there: the younger one is the one that is spoken to, whatever their places. */
static void near__lives_keep_their_order_over_a_restart(void **state)
{
	uint32_t old_idx;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (uint32_t i = 0; i < CORE_FLOWS - 1; i++)
		dlist_rotate(&c->a.p->near_free); /* the last place comes first */
	core_pair(c, 0);
	old_idx = core_near(c)->idx;
	c->cut = true;
	core_send(c, RC_WRITE_ONLY, 1); /* ACKed, and not delivered */
	core_wait(c, 1001 * CORE_MS);
	c->salt = 1;
	core_send(c, RC_WRITE_ONLY, 0);
	assert_true(core_near(c)->idx < old_idx);
	core_rebuild(&c->a);
	assert_int_equal(core_near(c)->older->idx, old_idx);
	assert_int_equal(core_near(c)->born, c->a.p->births);
}

/* The ring of fingerprints is in order after a restart, too: what is noted again from its slot is there once. */
static void near__ring_is_in_order_after_a_restart(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint32_t noted;

	c->cut = true;
	core_send_run(c, 1, 6);
	noted = core_near(c)->fp_count;
	core_rebuild(&c->a);
	assert_int_equal(core_near(c)->fp_count, noted);
	for (uint32_t psn = 1; psn <= 6; psn++)
		assert_int_equal(core_send(c, RC_WRITE_ONLY, psn), DROP_LAN_DUPLICATE);
}

/* What was seen before the base moved below it goes with the flow, however far behind the base it lies. */
static void near__overtakers_go_with_their_flow(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 1000);
	core_send(c, RC_WRITE_ONLY, 0);
	assert_int_equal(core_near(c)->ooo_pkts, 1);
	near_close(c->a.p, core_near(c));
	for (int k = 0; k < 10; k++)
		core_pump(c); /* in portions */
	assert_int_equal(core_used(&c->a), 0);
	core_pump(c);
}

static void near__overtakers_go_after_a_restart(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 1000);
	core_send(c, RC_WRITE_ONLY, 0);
	core_rebuild(&c->a);
	core_session(c);
	assert_int_equal(core_near(c)->ooo_pkts, 1);
	near_close(c->a.p, core_near(c));
	for (int k = 0; k < 10; k++)
		core_pump(c); /* in portions */
	assert_int_equal(core_used(&c->a), 0);
	core_pump(c);
}

/* One packet after the other, each a little below: one life spans so much at most, then the next begins. */
static void near__base_sinks_so_far_only(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 256);

	for (uint32_t psn = 10 * BASE_REACH; psn > BASE_REACH; psn -= BASE_REACH - 1) {
		assert_int_equal(core_send(c, RC_WRITE_ONLY, psn), DROP_NONE);
		assert_true(core_near(c)->pos_held - core_near(c)->pos_base <= HELD_SPAN);
	}
	assert_true(core_ctr(&c->a, CTR_INCARNATIONS) > 0);
}

/* --- READ and ATOMIC --- */

/* ACKs stop in front of an unanswered READ, also in mode near; its response opens the way. */
static void near__ceiling_stands_in_front_of_a_read(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct roce_pkt h = core_req(RC_READ_REQUEST, 1), r;

	h.reth_len = CORE_PMTU;
	assert_int_equal(core_in(&c->a, h, 0, 0), DROP_NONE);
	core_pump(c);
	core_near(c)->pmtu = CORE_PMTU;
	core_send(c, RC_WRITE_ONLY, 2);
	core_wait(c, CORE_MS);
	assert_int_equal(core_pending(&c->a), 0);
	core_expect(&c->b, RC_READ_REQUEST, 1);
	core_forget(&c->b);
	r = core_answer(RC_READ_RESP_ONLY, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2);
	assert_int_equal(core_in(&c->b, r, CORE_PMTU, 0), DROP_NONE);
	core_pump(c);
	core_expect(&c->a, RC_READ_RESP_ONLY, 1);
	core_expect_aeth(&c->a, 2, AETH_ACK_NO_CREDITS);
}

/* A host that goes back to before an answered READ gets no ACK that ends on it or passes it: rxe would take that for
 * the answer. It is ACKed up to the READ, asks again, and gets the answer. */
static void near__ack_of_repetition_stops_before_an_answer(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct roce_pkt h = core_req(RC_READ_REQUEST, 2), r;

	core_long_life(c);
	core_near(c)->pmtu = CORE_PMTU;
	core_send(c, RC_WRITE_ONLY, 1);
	h.reth_len = CORE_PMTU;
	assert_int_equal(core_in(&c->a, h, 0, 0), DROP_NONE);
	core_send(c, RC_WRITE_ONLY, 3);
	core_wait(c, CORE_MS);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	r = core_answer(RC_READ_RESP_ONLY, CORE_QPN, 2, AETH_ACK_NO_CREDITS, 3);
	assert_int_equal(core_in(&c->b, r, CORE_PMTU, 0), DROP_NONE);
	core_pump(c);
	core_expect(&c->a, RC_READ_RESP_ONLY, 2);
	core_expect_aeth(&c->a, 3, AETH_ACK_NO_CREDITS);
	core_forget(&c->a);
	c->now_ns += CORE_MS;
	core_send(c, RC_WRITE_ONLY, 1);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_in(&c->a, h, 0, 0), DROP_LAN_READ_RETRY);
	core_pump(c);
	core_expect(&c->a, RC_READ_RESP_ONLY, 2);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 3);
	core_expect_aeth(&c->a, 3, AETH_ACK_NO_CREDITS);
}

/* --- what the peer says --- */

/* A report or pair of an earlier life means nothing to this one. */
static void near__stale_incarnation(void **state)
{
	struct wan_flow_report r = {.received = POS_ORIGIN + 2, .delivered = POS_ORIGIN + 2};
	struct core *c = core_given_pair(state, ACK_MODE_HOST);
	struct near_flow *f;

	core_send(c, RC_WRITE_ONLY, 1);
	f = core_near(c);
	r.flow = near_wire_id(c->a.p, f);
	r.inc = f->inc - 1;
	near_on_report(c->a.p, lane_of(c->a.p, 0), &r);
	core_pump(c);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_drops(&c->a, DROP_WAN_STALE_INCARNATION), 1);
	r.flow += 1;
	near_on_report(c->a.p, lane_of(c->a.p, 0), &r);
	r.flow = 5u << 24; /* another shard's */
	near_on_report(c->a.p, lane_of(c->a.p, 0), &r);
	assert_int_equal(core_drops(&c->a, DROP_WAN_UNKNOWN_FLOW), 2);
}

/* A report of more than was sent acknowledges no more than is here. */
static void near__report_beyond_what_is_here(void **state)
{
	struct wan_flow_report r = {.received = 1ull << 61, .delivered = 1ull << 61, .credit = 1ull << 61};
	struct core *c = core_given_pair(state, ACK_MODE_HOST);
	struct near_flow *f;

	core_send(c, RC_WRITE_ONLY, 1);
	f = core_near(c);
	r.flow = near_wire_id(c->a.p, f);
	r.inc = f->inc;
	near_on_report(c->a.p, lane_of(c->a.p, 0), &r);
	core_pump(c);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_near(c)->pos_reported, POS_ORIGIN + 2);
}

/* The template of a pair must be an ACK between the flow's own hosts. */
static void near__foreign_template_is_refused(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct near_flow *f;

	core_send(c, RC_WRITE_ONLY, 0);
	f = core_near(c);
	for (int i = 0; i < 4; i++) {
		struct roce_pkt h = core_answer(i == 0 ? RC_WRITE_ONLY : RC_ACK, 0x33, 0, AETH_ACK_NO_CREDITS, 1);
		struct wan_flow_pair r = {.flow = near_wire_id(c->a.p, f),
		                          .inc = f->inc,
		                          .pos_base = POS_ORIGIN,
		                          .at_pos = POS_ORIGIN,
		                          .requester_qpn = 0x33};
		uint8_t t[TEMPLATE_MAX];

		if (i == 1)
			h.dst = core_ip(1, 9);
		if (i == 2)
			h.src = core_ip(2, 9);
		r.template = t;
		r.template_len = (uint16_t)roce_build(t, sizeof(t), &h, NULL, 0);
		if (i == 3)
			r.template_len = 20;
		near_on_pair(c->a.p, &r);
		assert_int_equal(f->pairing, PAIR_LEARNING);
	}
	assert_int_equal(core_drops(&c->a, DROP_WAN_BAD_FRAME), 4);
}

/* A response for an operation that the flow has not reached (its base moved down meanwhile) waits. */
static void near__response_beyond_the_next_waits(void **state)
{
	struct roce_pkt h = core_answer(RC_READ_RESP_ONLY, 0x33, 10, AETH_ACK_NO_CREDITS, 1);
	struct roce_pkt a = core_answer(RC_ACK, 0x33, 0, AETH_ACK_NO_CREDITS, 1);
	struct wan_packet w = {.kind = WP_RESPONSE, .pos = POS_ORIGIN + 10};
	struct wan_flow_pair r = {.pos_base = POS_ORIGIN + 8, .at_pos = POS_ORIGIN + 8, .requester_qpn = 0x33};
	uint8_t t[TEMPLATE_MAX], l3[LAN_PKT_MAX], dgram[WAN_MTU_MAX];
	struct wan_hdr wh = {.wan_pn = 1000};
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct near_flow *f;
	size_t n;

	core_send(c, RC_READ_REQUEST, 10);
	f = core_near(c);
	r.flow = w.flow = near_wire_id(c->a.p, f);
	r.inc = w.inc = f->inc;
	r.template = t;
	r.template_len = (uint16_t)roce_build(t, sizeof(t), &a, NULL, 0);
	near_on_pair(c->a.p, &r);
	assert_int_equal(f->pos_next, POS_ORIGIN + 8);
	w.total = w.len = (uint16_t)roce_build(l3, sizeof(l3), &h, core_payload(0, 10), 100);
	w.data = l3;
	wh.lane = (uint8_t)f->lane;
	wh.epoch = c->a.p->session.epoch_rx;
	n = wan_hdr_put(dgram, &wh);
	n += wan_packet_put(dgram + n, 4000, &w);
	n = wan_seal(dgram, n);
	assert_int_equal(proxy_wan_rx(c->a.p, c->now_ns, dgram, n, false), DROP_NONE);
	core_pump(c); /* audits */
	assert_true(f->pos_acked <= f->pos_next);
}

/* The far edge says, by a report without credit, that it has not heard where the flow begins. */
static void near__missing_open_is_sent_again(void **state)
{
	struct wan_flow_report r = {0};
	struct near_flow *f;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint64_t before;

	f = core_near(c);
	r.flow = near_wire_id(c->a.p, f);
	r.inc = f->inc;
	before = c->dgrams;
	near_on_report(c->a.p, lane_of(c->a.p, f->lane), &r);
	assert_true(near_open_is_due(f));
	core_pump(c);
	assert_false(near_open_is_due(f));
	assert_true(c->dgrams > before);
}

/* A report about a flow that is not known here is answered with its end; one about another shard's is not. */
static void near__unknown_flow_is_closed(void **state)
{
	struct wan_flow_report r = {.flow = 7, .inc = 1, .credit = 1};
	struct lane *l;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	l = lane_of(c->a.p, 0);
	near_on_report(c->a.p, l, &r);
	assert_false(dlist_empty(&c->a.p->near_lanes[l->id].closes));
	core_pump(c);
	assert_true(dlist_empty(&c->a.p->near_lanes[l->id].closes));
	r.flow |= 5u << 24;
	near_on_report(c->a.p, l, &r);
	assert_true(dlist_empty(&c->a.p->near_lanes[l->id].closes));
}

/* A CE mark is answered with a CNP here and does not cross. */
static void near__ce_is_answered(void **state)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 1);
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	h.tos = 0x60 | ECN_CE;
	assert_int_equal(core_in(&c->a, h, CORE_PMTU, 0), DROP_NONE);
	core_pump(c);
	core_expect(&c->a, ROCE_CNP, 0);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_expect(&c->b, RC_WRITE_ONLY, 1)->h.tos, 0x62); /* ECT(0); its DSCP is as it was */
	core_ack(c, 1, AETH_ACK_NO_CREDITS, 2);
	h.psn = 2;
	h.tos = 0x62;
	core_in(&c->a, h, CORE_PMTU, 0);
	core_pump(c);
	core_expect_aeth(&c->a, 2, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_expect(&c->b, RC_WRITE_ONLY, 2)->h.tos, 0x62);
}

static const struct CMUnitTest tests[] = {
    CORE_TEST(near__in_order_is_carried_and_acked),
    CORE_TEST(near__bytes_are_the_host_s),
    CORE_TEST(near__nothing_is_acked_while_learning),
    CORE_TEST(near__acks_are_coalesced),
    CORE_TEST(near__one_ack_for_a_burst),
    CORE_TEST(near__mode_near_acks_over_a_cut),
    CORE_TEST(near__mode_host_waits_for_the_responder),
    CORE_TEST(near__mismatch_is_never_acked_early),
    CORE_TEST(near__msn_counts_messages),
    CORE_TEST(near__short_reordering_is_no_gap),
    CORE_TEST(near__gap_is_naked_once),
    CORE_TEST(near__patience_ends_by_packets),
    CORE_TEST(near__second_loss_is_naked_again),
    CORE_TEST(near__one_nak_until_the_host_can_have_gone_back),
    CORE_TEST(near__gap_before_a_read_is_naked),
    CORE_TEST(near__gap_before_an_atomic_is_naked),
    CORE_TEST(near__gap_before_an_unknown_is_naked),
    CORE_TEST(near__no_naks_without_end_in_front_of_an_atomic),
    CORE_TEST(near__read_that_overtook_is_asked_for),
    CORE_TEST(near__nak_stays_at_the_ceiling),
    CORE_TEST(near__far_psn_is_refused),
    CORE_TEST(near__psn_wraps),
    CORE_TEST(near__base_extends_downwards),
    CORE_TEST(near__base_extends_after_sending),
    CORE_TEST(near__life_below_takes_nothing_of_the_one_before),
    CORE_TEST(near__overtaken_life_below_takes_nothing_of_the_one_before),
    CORE_TEST(near__life_below_in_a_full_table),
    CORE_TEST(near__failure_keeps_its_place_in_a_full_table),
    CORE_TEST(near__failure_without_a_pair_keeps_its_place),
    CORE_TEST(near__nak_of_the_next_life_keeps_nothing_of_the_one_before),
    CORE_TEST(near__nak_of_the_next_life_after_a_restart),
    CORE_TEST(near__base_extends_after_an_answer),
    CORE_TEST(near__nak_below_the_base_reaches_the_host),
    CORE_TEST(near__duplicate_is_acked_again),
    CORE_TEST(near__settled_duplicate_is_known_by_fingerprint),
    CORE_TEST(near__duplicate_does_not_pass_the_ceiling),
    CORE_TEST(near__held_off_before_the_first_session),
    CORE_TEST(near__stranger_waits_for_the_old_life),
    CORE_TEST(near__stranger_after_silence_goes_at_once),
    CORE_TEST(near__old_life_fails_loudly),
    CORE_TEST(near__second_stranger_replaces_the_first),
    CORE_TEST(near__second_life_that_was_acked_fails_loudly),
    CORE_TEST(near__second_life_that_was_acked_outlasts_a_doubt),
    CORE_TEST(near__cm_ends_what_the_far_edge_holds),
    CORE_TEST(near__cm_ends_what_crosses_later),
    CORE_TEST(near__set_up_repeated_after_a_far_restart),
    CORE_TEST(near__set_up_repeated_after_a_near_restart),
    CORE_TEST(near__connection_outlives_a_restart),
    CORE_TEST(near__waits_for_the_lane_s_window),
    CORE_TEST(near__long_stalled_life_gives_way_at_once),
    CORE_TEST(near__old_life_outlasts_a_cut),
    CORE_TEST(near__lives_keep_their_order_over_a_restart),
    CORE_TEST(near__ring_is_in_order_after_a_restart),
    CORE_TEST(near__overtakers_go_with_their_flow),
    CORE_TEST(near__overtakers_go_after_a_restart),
    CORE_TEST(near__base_sinks_so_far_only),
    CORE_TEST(near__ceiling_stands_in_front_of_a_read),
    CORE_TEST(near__ack_of_repetition_stops_before_an_answer),
    CORE_TEST(near__stale_incarnation),
    CORE_TEST(near__missing_open_is_sent_again),
    CORE_TEST(near__unknown_flow_is_closed),
    CORE_TEST(near__report_beyond_what_is_here),
    CORE_TEST(near__foreign_template_is_refused),
    CORE_TEST(near__response_beyond_the_next_waits),
    CORE_TEST(near__ce_is_answered),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
