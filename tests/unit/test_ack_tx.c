/* SPDX-License-Identifier: Apache-2.0 */
/* The one place from which an AETH leaves: held to the ceiling, and in the responder's own words. */
#include "core_fixture.h"

/* Everything that carries an AETH acknowledges; none may pass what the flow's mode allows. */
static void check_aeths(struct core *c, uint64_t ceiling)
{
	for (const struct core_pkt *k; (k = core_take(&c->a));) {
		uint64_t pos = pos_near(ceiling, k->h.psn);

		if (!(roce_op(k->h.opcode)->flags & ROP_AETH))
			continue;
		if (k->h.opcode == RC_ACK && (k->h.aeth_syndrome & AETH_TYPE_MASK) == AETH_ACK)
			assert_true(pos < ceiling);
		else
			assert_true(pos <= ceiling);
	}
}

/* Whatever the host does in mode host, nothing passes what the responder has ACKed. */
static void ack_tx__nothing_beyond_the_ceiling(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);
	uint64_t s = 99, delivered = 1, next = 1;

	for (int i = 0; i < 2000; i++) {
		struct roce_pkt h;

		s = s * 6364136223846793005ull + 1442695040888963407ull;
		switch (s >> 60) {
		case 0: /* the responder ACKs some of it */
			delivered += (s >> 20) % (next - delivered + 1);
			if (delivered > 1)
				core_ack(c, (uint32_t)delivered - 1, AETH_ACK_NO_CREDITS, (uint32_t)delivered);
			break;
		case 1:
			core_wait(c, (s >> 20) % (2 * CORE_MS));
			break;
		case 2: /* ahead */
			core_in(&c->a, core_req(RC_WRITE_ONLY, (uint32_t)(next + 1 + (s >> 20) % 90)), CORE_PMTU, 0);
			break;
		case 3: /* again */
			core_in(&c->a,
			        core_req(RC_WRITE_ONLY, (uint32_t)(next - 1 - (s >> 20) % (next - delivered + 1))),
			        CORE_PMTU, 0);
			break;
		default:
			if (next > delivered + 40)
				break;
			h = core_req(RC_WRITE_ONLY, (uint32_t)next);
			h.ack_req = s >> 59 & 1;
			if (core_in(&c->a, h, CORE_PMTU, 0) == DROP_NONE && core_near(c)->pos_next > POS_ORIGIN + next)
				next = core_near(c)->pos_next - POS_ORIGIN;
			break;
		}
		core_pump(c);
		core_forget(&c->b);
		check_aeths(c, POS_ORIGIN + delivered);
	}
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 0);
}

/* MigReq, P_Key, DSCP, source port, addresses and VLAN are the responder's; credits are 31. */
static void ack_tx__template_is_kept(void **state)
{
	struct roce_pkt a = core_answer(RC_ACK, CORE_QPN, 0, 0x05, 1), h = core_req(RC_WRITE_ONLY, 0);
	const struct core_pkt *k;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_in(&c->a, h, CORE_PMTU, 0x6007);
	core_pump(c);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	a.migreq = false;
	a.pkey = 0x8123;
	a.tos = 0x6a;
	a.udp_sport = 0xdead;
	assert_int_equal(core_in(&c->b, a, 0, 0x6007), DROP_NONE);
	core_pump(c);
	core_expect_aeth(&c->a, 0, AETH_ACK_NO_CREDITS); /* the responder granted credits: not passed on */
	h.psn = 1;
	core_in(&c->a, h, CORE_PMTU, 0x6007);
	core_pump(c);
	k = core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
	assert_false(k->h.migreq);
	assert_int_equal(k->h.pkey, 0x8123);
	assert_int_equal(k->h.tos, 0x6a);
	assert_int_equal(k->h.udp_sport, 0xdead);
	assert_int_equal(k->vlan_tci, 0x6007);
	assert_int_equal(k->h.dest_qpn, CORE_QPN);
	assert_false(k->h.ack_req);
	assert_true(k->h.ttl > 1);
}

/* Before the responder has said anything, CM messages say what its packets look like. */
static void ack_tx__template_from_cm(void **state)
{
	struct near_cm_info ci = {.src = core_ip(1, 2),
	                          .dst = core_ip(2, 2),
	                          .dest_qpn = 0x11,
	                          .requester_qpn = 0x21,
	                          .pkey = 0x8055,
	                          .start_psn = 7,
	                          .responder = {.tos = 0x68, .migreq = true}};
	uint8_t buf[TEMPLATE_MAX];
	struct roce_pkt pkt;

	(void)state;
	for (int six = 0; six < 2; six++) {
		size_t n = ack_tx_template_from_cm(buf, &ci);

		assert_in_range(n, 40, TEMPLATE_MAX);
		assert_int_equal(roce_parse(buf, n, &pkt), DROP_NONE);
		assert_true(icrc_check(buf, &pkt, NULL));
		assert_int_equal(pkt.opcode, RC_ACK);
		assert_int_equal(pkt.dest_qpn, 0x21);
		assert_int_equal(pkt.pkey, 0x8055);
		assert_int_equal(pkt.tos, 0x68);
		assert_true(pkt.migreq);
		assert_true(ip_addr_eq(&pkt.src, &ci.dst));
		assert_true(ip_addr_eq(&pkt.dst, &ci.src));
		assert_int_equal(pkt.ip6, six);
		ci.src.b[0] = ci.dst.b[0] = 0xfd; /* and IPv6 */
	}
}

/* A READ response's AETH is rewritten like an ACK's: credits 31, MSN as the responder would count. */
static void ack_tx__response_is_rewritten(void **state)
{
	struct roce_pkt r = core_answer(RC_READ_RESP_ONLY, CORE_QPN, 1, 0x03, 0x41);
	const struct core_pkt *k;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_send(c, RC_WRITE_ONLY, 0);
	core_ack(c, 0, AETH_ACK_NO_CREDITS, 0x40);
	core_forget(&c->a);
	core_send(c, RC_READ_REQUEST, 1);
	assert_int_equal(core_in(&c->b, r, CORE_PMTU, 0), DROP_NONE);
	core_pump(c);
	k = core_expect(&c->a, RC_READ_RESP_ONLY, 1); /* the fixture checks the patched ICRC */
	assert_int_equal(k->h.aeth_syndrome, AETH_ACK_NO_CREDITS);
	assert_int_equal(k->h.aeth_msn, 0x41);
	assert_memory_equal(k->l3 + k->h.hdr_len, core_payload(0, 1), CORE_PMTU);
}

/* Buffer full: the requester is sent away by RNR NAK at the ceiling, with a time, and not by silence or NAKs. */
static void ack_tx__full_arena_means_rnr(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 8);
	uint32_t psn = 1, rnr = 0;
	enum proxy_drop d = DROP_NONE;

	core_pair(c, 0);
	c->cut = true;
	for (; psn < 5000 && d == DROP_NONE; psn++)
		d = core_send(c, RC_WRITE_ONLY, psn);
	psn--;
	assert_int_equal(d, DROP_LAN_NO_ROOM);
	assert_true(core_event(&c->a, EV_FLOW_RNR_BACK_PRESSURE));
	while ((k = core_take(&c->a))) {
		if (k->h.opcode == ROCE_CNP)
			continue;
		if (k->h.aeth_syndrome == AETH_ACK_NO_CREDITS) {
			assert_true(k->h.psn < psn);
			continue;
		}
		assert_int_equal(k->h.aeth_syndrome & AETH_TYPE_MASK, AETH_RNR_NAK);
		assert_int_equal(k->h.psn, psn);
		assert_true(roce_rnr_timer_ns(k->h.aeth_syndrome & 31) >= 500 * CORE_US);
		rnr++;
	}
	assert_int_equal(rnr, 1);
	for (uint32_t i = 1; i < 30; i++) /* what was behind it in flight */
		core_send(c, RC_WRITE_ONLY, psn + i);
	for (; (k = core_take(&c->a)); rnr++)
		assert_int_equal(k->h.aeth_syndrome & AETH_TYPE_MASK, AETH_RNR_NAK);
	assert_int_equal(rnr, 1); /* one for a burst */
	assert_int_equal(core_ctr(&c->a, CTR_NAKS_TX), 0);
	c->now_ns += 20 * CORE_MS;
	assert_int_equal(core_send(c, RC_WRITE_ONLY, psn), DROP_LAN_NO_ROOM); /* it comes back: away again */
	assert_int_equal(core_expect(&c->a, RC_ACK, psn)->h.aeth_syndrome & AETH_TYPE_MASK, AETH_RNR_NAK);
}

/* Long before it is sent away it is asked to send more slowly, and not more often than that can show. */
static void ack_tx__cnp_comes_before_rnr(void **state)
{
	const struct core_pkt *k;
	uint64_t last_ns = 0;
	uint32_t psn = 1, cnps = 0, first = 0;
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 60);

	core_pair(c, 0);
	c->cut = true;
	while (core_send(c, RC_WRITE_ONLY, psn) == DROP_NONE) {
		psn++;
		c->now_ns += 10 * CORE_US;
		while ((k = core_take(&c->a))) {
			if (k->h.opcode != ROCE_CNP)
				continue;
			assert_true(!last_ns || k->at_ns >= last_ns + 300 * CORE_US);
			last_ns = k->at_ns;
			first = cnps++ ? first : psn;
		}
	}
	assert_in_range(first, psn / 3, psn * 2 / 3);
	assert_true(cnps > 1);
}

/* One that may come back for ever is back within a round trip of new room: its waits do not grow beyond that. */
static void ack_tx__rnr_waits_are_bounded_by_the_round_trip(void **state)
{
	const struct core_pkt *k;
	uint64_t longest = 0;
	uint32_t psn = 1;
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 8);

	core_pair(c, 0);
	for (int i = -1; i < 8; i++) {
		for (uint32_t n = 0; n < PATHS_MAX; n++) /* what was under way while time jumped would be 20 ms */
			c->a.p->wan->path[n].rtt.smoothed_ns = c->a.p->wan->path[n].rtt.min_ns = 3 * CORE_MS;
		while (i < 0 && core_send(c, RC_WRITE_ONLY, psn) == DROP_NONE)
			psn++;
		c->now_ns += 20 * CORE_MS;
		core_send(c, RC_WRITE_ONLY, psn);
		while ((k = core_take(&c->a)))
			if ((k->h.aeth_syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK)
				longest = max_u64(longest, roce_rnr_timer_ns(k->h.aeth_syndrome & 31));
	}
	assert_int_equal(longest, 3840 * CORE_US); /* the next that IBTA has for 3 ms */
}

/* One that has much more here than the line needs is back when an eighth of that has gone, not each time that a packet
 * has; unless its returns are counted. */
static void ack_tx__rnr_wait_follows_the_backlog(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 60);
	struct near_flow *f;
	uint64_t wait[2] = {0};
	uint32_t psn = 1;

	core_pair(c, 0);
	f = core_near(c);
	for (uint32_t i = 0; i < PATHS_MAX; i++)
		c->a.p->wan->path[i].rtt.smoothed_ns = c->a.p->wan->path[i].rtt.min_ns = 3 * CORE_MS;
	atomic_store(&c->a.pacer.rate_bps, 1000000);
	while (core_send(c, RC_WRITE_ONLY, psn) == DROP_NONE)
		psn++;
	for (int i = 0; i < 2; i++) {
		core_forget(&c->a);
		c->now_ns += CORE_MS;
		f->rnr_retry = i ? 3 : RNR_RETRY_INFINITE;
		c->a.p->cfg.rate_hint_bps = near_unsent(f) * 100; /* an eighth of it: 10 ms */
		assert_int_equal(core_send(c, RC_WRITE_ONLY, psn), DROP_LAN_NO_ROOM);
		for (core_collect(&c->a); (k = core_take(&c->a));)
			if (k->h.opcode == RC_ACK && (k->h.aeth_syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK)
				wait[i] = roce_rnr_timer_ns(k->h.aeth_syndrome & 31);
	}
	assert_int_equal(wait[0], 10240 * CORE_US); /* the next that IBTA has */
	assert_true(wait[1] > 0 && wait[1] < wait[0]);
}

/* While the line is full a flow with a backlog is back when half of that has gone at the rate that it has. While the
 * line lacks bytes it is back sooner: it may be slow because it has no room. (lrsim --crowd 1000qp-1024m-400g tries
 * many flows.) */
static void ack_tx__rnr_wait_follows_the_rate_of_a_full_line(void **state)
{
	const struct core_pkt *k;
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 60);
	struct near_flow *f;
	uint64_t wait[2] = {0};
	uint32_t psn = 1;

	core_pair(c, 0);
	f = core_near(c);
	for (uint32_t i = 0; i < PATHS_MAX; i++)
		c->a.p->wan->path[i].rtt.smoothed_ns = c->a.p->wan->path[i].rtt.min_ns = 3 * CORE_MS;
	atomic_store(&c->a.pacer.rate_bps, c->a.p->cfg.rate_hint_bps);
	while (core_send(c, RC_WRITE_ONLY, psn) == DROP_NONE)
		psn++;
	c->a.p->cfg.rate_hint_bps = near_unsent(f) * 8000; /* all of it in 1 ms, were the line its own */
	atomic_store(&c->a.pacer.rate_bps, c->a.p->cfg.rate_hint_bps);
	for (int i = 0; i < 2; i++) {
		struct share *all = &c->a.p->turns.drain;

		core_forget(&c->a);
		c->now_ns += CORE_MS;
		f->rnr_row = 0;
		f->rnr_retry = RNR_RETRY_INFINITE;
		f->share = (struct share){.since_ns = 1, .span_ns = c->now_ns, .last_bytes = near_unsent(f) / 2};
		*all = (struct share){.span_ns = c->now_ns, .last_bytes = near_unsent(f) * (i ? 6 : 1)};
		assert_int_equal(core_send(c, RC_WRITE_ONLY, psn), DROP_LAN_NO_ROOM);
		for (core_collect(&c->a); (k = core_take(&c->a));)
			if (k->h.opcode == RC_ACK && (k->h.aeth_syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK)
				wait[i] = roce_rnr_timer_ns(k->h.aeth_syndrome & 31);
	}
	assert_true(wait[0] > 0 && wait[0] <= 3840 * CORE_US);
	assert_int_equal(wait[1], 7680 * CORE_US); /* the next that IBTA has for a span, 5.75 ms */
}

/* One that asks again for an answer that is still on its way is back just before that can be here. */
static void ack_tx__rnr_wait_ends_when_the_answer_is_due(void **state)
{
	struct roce_pkt read = core_req(RC_READ_REQUEST, 1);
	const struct core_pkt *k;
	uint64_t wait[3] = {0};
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	for (uint32_t i = 0; i < PATHS_MAX; i++)
		c->a.p->wan->path[i].rtt.smoothed_ns = c->a.p->wan->path[i].rtt.min_ns = 10 * CORE_MS;
	read.reth_len = CORE_PMTU;
	core_in(&c->a, read, 0, 0);
	for (int i = 0; i < 3; i++) { /* 2 ms, 10 ms and 18 ms later: soon; at any moment; 8 ms late */
		c->now_ns += (i ? 8 : 2) * CORE_MS;
		core_in(&c->a, read, 0, 0);
		core_in(&c->a, read, 0, 0);
		core_in(&c->a, read, 0, 0);
		for (core_collect(&c->a); (k = core_take(&c->a));)
			if (k->h.opcode == RC_ACK && (k->h.aeth_syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK)
				wait[i] = roce_rnr_timer_ns(k->h.aeth_syndrome & 31);
	}
	assert_int_equal(wait[0], 7680 * CORE_US);
	assert_int_equal(wait[1], 0); /* nothing is said: it would be away when the answer comes */
	assert_int_equal(wait[2], 1920 * CORE_US);
}

/* Once there is room again the host's next try is taken and ACKed. */
static void ack_tx__room_ends_the_hold_off(void **state)
{
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 8);
	uint32_t psn = 1;

	core_pair(c, 0);
	c->cut = true;
	while (core_send(c, RC_WRITE_ONLY, psn) == DROP_NONE)
		psn++;
	c->cut = false;
	core_forget(&c->a);
	for (int i = 0; i < 3000 && core_near(c)->pos_settled < POS_ORIGIN + psn; i++) {
		for (const struct core_pkt *k; (k = core_take(&c->b));)
			if (k->h.ack_req)
				core_ack(c, k->h.psn, AETH_ACK_NO_CREDITS, k->h.psn + 1);
		core_wait(c, CORE_MS);
	}
	core_forget(&c->a);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, psn), DROP_NONE);
	core_expect_aeth(&c->a, psn, AETH_ACK_NO_CREDITS);
}

/* A requester whose RNR retries are finite (CM says so) is not sent away for what would only take a moment. */
static void ack_tx__no_rnr_for_finite_retries_while_waiting(void **state)
{
	struct core *c = core_given(state, ACK_MODE_HOST);

	core_connect(c, 500, 900, 3);
	core_send(c, RC_WRITE_ONLY, 500);
	for (int i = 0; i < 10; i++) {
		c->now_ns += 5 * CORE_MS;
		core_send(c, RC_WRITE_ONLY, 500);
	}
	assert_int_equal(core_ctr(&c->a, CTR_RNR_NAKS_TX), 0);
}

/* Nor more often than it stands while there is no room for it. Progress gives it all of them anew. */
static void ack_tx__finite_rnr_retries_are_not_used_up(void **state)
{
	const struct core_pkt *k;
	uint32_t psn = 500, rnr = 0;
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 8);

	core_connect(c, 500, 900, 2);
	c->cut = true;
	while (core_send(c, RC_WRITE_ONLY, psn) == DROP_NONE)
		psn++;
	for (int i = 0; i < 10; i++) {
		c->now_ns += 20 * CORE_MS;
		assert_int_equal(core_send(c, RC_WRITE_ONLY, psn), DROP_LAN_NO_ROOM);
	}
	while ((k = core_take(&c->a)))
		rnr += (k->h.aeth_syndrome & AETH_TYPE_MASK) == AETH_RNR_NAK;
	assert_int_equal(rnr, 2);
	assert_int_equal(core_ctr(&c->a, CTR_NAKS_TX), 0);
	c->cut = false;
	for (int i = 0; i < 3000 && core_near(c)->pos_settled < POS_ORIGIN + psn; i++) {
		for (; (k = core_take(&c->b));)
			if (k->h.ack_req)
				core_in(&c->b, core_answer(RC_ACK, 0x21, k->h.psn, AETH_ACK_NO_CREDITS, k->h.psn - 499),
				        0, 0);
		core_wait(c, CORE_MS);
	}
	c->cut = true;
	while (core_send(c, RC_WRITE_ONLY, psn) == DROP_NONE)
		psn++;
	assert_int_equal(core_ctr(&c->a, CTR_RNR_NAKS_TX), 3);
}

/* Within one long message there is no progress that such a host need count, wherever it is held off. */
static void ack_tx__finite_rnr_retries_last_for_the_message(void **state)
{
	const struct core_pkt *k;
	uint32_t psn = 501;
	struct core *c = core_given_chunks(state, ACK_MODE_NEAR, 8);

	core_connect(c, 500, 900, 1);
	c->cut = true;
	core_send(c, RC_WRITE_FIRST, 500);
	while (core_send(c, RC_WRITE_MIDDLE, psn) == DROP_NONE)
		psn++;
	assert_int_equal(core_ctr(&c->a, CTR_RNR_NAKS_TX), 1);
	c->cut = false;
	for (int i = 0; i < 3000 && core_near(c)->pos_settled < POS_ORIGIN + psn; i++) {
		while ((k = core_take(&c->b)))
			if (k->h.ack_req)
				core_in(&c->b, core_answer(RC_ACK, 0x21, k->h.psn, AETH_ACK_NO_CREDITS, 0), 0, 0);
		core_wait(c, CORE_MS);
	}
	c->cut = true;
	assert_int_equal(core_send(c, RC_WRITE_MIDDLE, psn++), DROP_NONE);
	while (core_send(c, RC_WRITE_MIDDLE, psn) == DROP_NONE)
		psn++;
	assert_true(core_near(c)->rnr_back_pressure);
	assert_int_equal(core_ctr(&c->a, CTR_RNR_NAKS_TX), 1);
}

/* A CNP looks like the responder's packets too, and takes nothing from the ACK that is due. */
static void ack_tx__cnp_in_the_responders_words(void **state)
{
	static const uint8_t zeroes[ROCE_CNP_PAYLOAD];
	struct roce_pkt a = core_answer(RC_ACK, CORE_QPN, 0, 0x05, 1), h = core_req(RC_WRITE_ONLY, 0);
	const struct core_pkt *k;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_in(&c->a, h, CORE_PMTU, 0x6007);
	ack_tx_cnp(c->a.p, near_find(c->a.p, &h.src, &h.dst, CORE_QPN, 0x6007)); /* to whom? */
	core_pump(c);
	assert_int_equal(core_pending(&c->a), 0);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	a.pkey = 0x8123;
	a.tos = 0x6a;
	a.migreq = false;
	core_in(&c->b, a, 0, 0x6007);
	core_pump(c);
	core_forget(&c->a);
	h.psn = 1;
	core_in(&c->a, h, CORE_PMTU, 0x6007);
	ack_tx_cnp(c->a.p, near_find(c->a.p, &h.src, &h.dst, CORE_QPN, 0x6007));
	core_pump(c);
	k = core_expect(&c->a, ROCE_CNP, 0);
	assert_true(k->h.becn);
	assert_false(k->h.migreq || k->h.ack_req || k->h.solicited);
	assert_int_equal(k->h.dest_qpn, CORE_QPN);
	assert_int_equal(k->h.pkey, 0x8123);
	assert_int_equal(k->h.tos, 0x68); /* its DSCP, not ECN-capable */
	assert_int_equal(k->h.udp_sport, a.udp_sport);
	assert_int_equal(k->vlan_tci, 0x6007);
	assert_int_equal(k->h.payload_len, ROCE_CNP_PAYLOAD);
	assert_memory_equal(k->l3 + k->h.hdr_len, zeroes, ROCE_CNP_PAYLOAD);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
}

/* However often it is wished for. */
static void ack_tx__cnp_once_in_50_us(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint64_t last = 0;
	uint32_t n = 0;

	for (int i = 0; i < 500; i++) {
		const struct core_pkt *k;

		ack_tx_cnp(c->a.p, core_near(c));
		ack_tx_cnp(c->a.p, core_near(c));
		core_pump(c);
		for (; (k = core_take(&c->a)); n++) {
			assert_int_equal(k->h.opcode, ROCE_CNP);
			assert_true(!last || k->at_ns - last >= 50 * CORE_US);
			last = k->at_ns;
		}
		c->now_ns += CORE_US;
	}
	assert_int_equal(n, 10); /* 500 us */
	assert_int_equal(core_ctr(&c->a, CTR_CNPS_TX), n);
}

/* A stronger reason replaces the ACK that is due. Where that reason comes to nothing, the ACK goes all the same: else it
 * would come with the host's next timeout only. */
static void ack_tx__rnr_nak_that_is_not_sent_costs_no_ack(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	c->now_ns += CORE_MS;
	core_in(&c->a, core_req(RC_WRITE_ONLY, 1), CORE_PMTU, 0);
	core_near(c)->rnr_sent_ns = c->now_ns;
	near_ack_schedule(c->a.p, core_near(c), DUE_RNR);
	core_pump(c);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(ack_tx__nothing_beyond_the_ceiling),
	    CORE_TEST(ack_tx__template_is_kept),
	    cmocka_unit_test(ack_tx__template_from_cm),
	    CORE_TEST(ack_tx__response_is_rewritten),
	    CORE_TEST(ack_tx__full_arena_means_rnr),
	    CORE_TEST(ack_tx__cnp_comes_before_rnr),
	    CORE_TEST(ack_tx__rnr_waits_are_bounded_by_the_round_trip),
	    CORE_TEST(ack_tx__rnr_wait_follows_the_backlog),
	    CORE_TEST(ack_tx__rnr_wait_follows_the_rate_of_a_full_line),
	    CORE_TEST(ack_tx__rnr_wait_ends_when_the_answer_is_due),
	    CORE_TEST(ack_tx__room_ends_the_hold_off),
	    CORE_TEST(ack_tx__no_rnr_for_finite_retries_while_waiting),
	    CORE_TEST(ack_tx__finite_rnr_retries_are_not_used_up),
	    CORE_TEST(ack_tx__finite_rnr_retries_last_for_the_message),
	    CORE_TEST(ack_tx__cnp_in_the_responders_words),
	    CORE_TEST(ack_tx__cnp_once_in_50_us),
	    CORE_TEST(ack_tx__rnr_nak_that_is_not_sent_costs_no_ack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
