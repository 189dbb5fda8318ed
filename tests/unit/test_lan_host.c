/* SPDX-License-Identifier: Apache-2.0 */
/* Many queue pairs to one host: what they have under way together, and whose turn it is. */
#include "core_fixture.h"

#define PKT 1084u /* WRITE ONLY of CORE_PMTU bytes over IPv4 */

static struct roce_pkt write_of(uint8_t requester, uint32_t qpn, uint32_t psn)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, psn);

	h.src = core_ip(1, requester);
	h.dest_qpn = qpn;
	h.ack_req = false;
	return h;
}

static struct roce_pkt answer_to(uint8_t requester, uint32_t qpn, uint32_t psn, uint8_t syndrome)
{
	struct roce_pkt h = core_answer(RC_ACK, qpn, psn, syndrome, psn + 1);

	h.dst = core_ip(1, requester);
	return h;
}

/* Queue pairs are paired by their first WRITE; all answer to their own number. */
static void pair_one(struct core *c, uint8_t requester, uint32_t qpn)
{
	assert_int_equal(core_in(&c->a, write_of(requester, qpn, 0), CORE_PMTU, 0), DROP_NONE);
	core_pump(c);
	core_expect(&c->b, RC_WRITE_ONLY, 0);
	assert_int_equal(core_in(&c->b, answer_to(requester, qpn, 0, AETH_ACK_NO_CREDITS), 0, 0), DROP_NONE);
	core_wait(c, CORE_MS);
	core_forget(&c->a);
}

static struct core *given_host(void **state)
{
	return core_given_chunks(state, ACK_MODE_NEAR, 200);
}

static struct lan_host *host_b(struct core *c)
{
	for (uint32_t i = 0; i < CORE_FLOWS; i++)
		if (c->b.p->lan_hosts[i].used)
			return &c->b.p->lan_hosts[i];
	fail_msg("no host");
	return NULL;
}

static void give(struct core *c, uint8_t requester, uint32_t qpn, uint32_t psn, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(core_in(&c->a, write_of(requester, qpn, psn + i), CORE_PMTU, 0), DROP_NONE);
}

static void answer(struct core *c, uint8_t requester, uint32_t qpn, uint32_t psn, uint8_t syndrome)
{
	assert_int_equal(core_in(&c->b, answer_to(requester, qpn, psn, syndrome), 0, 0), DROP_NONE);
	core_pump(c);
}

static void lan_host__bounds_all_queue_pairs_together(void **state)
{
	const struct core_pkt *k;
	struct core *c = given_host(state);
	uint32_t n = 0;
	bool asked = false;

	for (uint32_t qpn = 1; qpn <= 4; qpn++)
		pair_one(c, 2, qpn);
	host_b(c)->window_bytes = 8 * PKT;
	for (uint32_t qpn = 1; qpn <= 4; qpn++)
		give(c, 2, qpn, 1, 10);
	core_pump(c);
	while ((k = core_take(&c->b))) {
		n++;
		asked = k->h.ack_req;
	}
	assert_int_equal(n, 8);
	assert_true(asked); /* the last one that fits asks for an answer: nothing else will */
	assert_int_equal(host_b(c)->bytes_out, 8 * PKT);
	assert_false(dlist_empty(&host_b(c)->waiting));
	answer(c, 2, 1, 2, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_pending(&c->b), 4); /* as many as were answered, and as much the window has grown */
}

/* Each has its quantum of bytes, then it is the next one's turn. */
static void lan_turn__queue_pairs_take_turns(void **state)
{
	const struct core_pkt *k;
	uint32_t n[3] = {0}, row = 0, last = 0;
	struct core *c = given_host(state);

	pair_one(c, 2, 1);
	pair_one(c, 2, 2);
	give(c, 2, 1, 1, 50);
	give(c, 2, 2, 1, 50);
	core_pump(c);
	while ((k = core_take(&c->b))) {
		row = k->h.dest_qpn == last ? row + 1 : 1;
		last = k->h.dest_qpn;
		n[last]++;
		assert_in_range(row, 1, 32);
		if (n[1] < 50 && n[2] < 50)
			assert_in_range(n[1] + 17 - n[2], 0, 34);
	}
	assert_int_equal(n[1], 50);
	assert_int_equal(n[2], 50);
}

/* A requester with three queue pairs gets as much as one with a single one. */
static void lan_turn__host_pairs_take_turns(void **state)
{
	uint32_t n[4] = {0};
	struct core *c = given_host(state);

	for (uint32_t qpn = 1; qpn <= 3; qpn++)
		pair_one(c, 2, qpn);
	pair_one(c, 3, 4);
	for (uint32_t qpn = 1; qpn <= 3; qpn++)
		give(c, 2, qpn, 1, 50);
	give(c, 3, 4, 1, 60);
	do /* all of it is there before the first one goes to the host: the order on the WAN is not what is looked at */
		proxy_tick(c->a.p, c->now_ns);
	while (core_carry(c, &c->a, &c->b));
	core_pump(c);
	for (uint32_t i = 0; i < 90; i++) {
		const struct core_pkt *k = core_take(&c->b);

		assert_non_null(k);
		n[k->h.src.b[15]]++;
	}
	assert_in_range(n[2], 38, 52);
	assert_in_range(n[3], 38, 52);
}

/* Doubles with what is acknowledged; one half less for a loss, and no second time for what was sent before that. */
static void lan_host__window_grows_and_is_halved_once(void **state)
{
	struct lan_host *h;
	struct core *c = given_host(state);

	pair_one(c, 2, 1);
	pair_one(c, 2, 2);
	h = host_b(c);
	h->window_bytes = 40 * PKT;
	give(c, 2, 1, 1, 30);
	give(c, 2, 2, 1, 30);
	core_wait(c, 10 * CORE_US);
	answer(c, 2, 1, 5, AETH_ACK_NO_CREDITS);
	assert_int_equal(h->window_bytes, 45 * PKT);
	answer(c, 2, 1, 8, AETH_NAK_PSN_SEQ);
	assert_int_equal(h->window_bytes, 47 * PKT - 47 * PKT / 2);
	answer(c, 2, 2, 4, AETH_NAK_PSN_SEQ); /* was lost beside it */
	assert_in_range(h->window_bytes, 47 * PKT - 47 * PKT / 2, 47 * PKT - 47 * PKT / 2 + LAN_PKT_MAX);
	core_wait(c, 10 * CORE_US);
}

static void lan_host__cnp_takes_an_eighth(void **state)
{
	struct roce_pkt cnp = core_answer(ROCE_CNP, 1, 0, 0, 0);
	struct lan_host *h;
	struct core *c = given_host(state);
	uint64_t was;

	pair_one(c, 2, 1);
	cnp.becn = true;
	h = host_b(c);
	was = h->window_bytes;
	assert_int_equal(core_in(&c->b, cnp, ROCE_CNP_PAYLOAD, 0), DROP_NONE);
	assert_int_equal(core_in(&c->b, cnp, ROCE_CNP_PAYLOAD, 0), DROP_NONE); /* says nothing new */
	assert_int_equal(h->window_bytes, was - was / 8);
	core_wait(c, CORE_MS);
	for (int i = 0; i < 200; i++) {
		core_in(&c->b, cnp, ROCE_CNP_PAYLOAD, 0);
		core_wait(c, CORE_MS);
	}
	assert_in_range(h->window_bytes, 4 * LAN_PKT_MAX, 4 * LAN_PKT_MAX + 1);
}

/* What a dead queue pair was sent keeps the others waiting for a millisecond, not for its retries. */
static void lan_host__dead_queue_pair_is_written_off(void **state)
{
	const struct core_pkt *k;
	struct core *c = given_host(state);
	uint32_t n = 0;

	pair_one(c, 2, 1);
	pair_one(c, 2, 2);
	host_b(c)->window_bytes = 10 * PKT;
	give(c, 2, 1, 1, 20);
	core_pump(c);
	assert_int_equal(core_pending(&c->b), 10);
	core_forget(&c->b);
	give(c, 2, 2, 1, 5);
	core_pump(c);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, 3 * CORE_MS);
	while ((k = core_take(&c->b)))
		n += k->h.dest_qpn == 2;
	assert_int_equal(n, 5);
}

/* READ responses to a host slow down as well when it says that they are marked. */
static void cnp_rate__slows_responses(void **state)
{
	struct roce_pkt read = core_req(RC_READ_REQUEST, 1), cnp = core_req(ROCE_CNP, 0);
	struct core *c = given_host(state);
	uint32_t n;

	core_pair(c, 0);
	read.reth_len = 40 * CORE_PMTU;
	core_near(c)->pmtu = CORE_PMTU;
	core_far(c)->pmtu = CORE_PMTU;
	assert_int_equal(core_in(&c->a, read, 0, 0), DROP_NONE);
	core_pump(c);
	core_expect(&c->b, RC_READ_REQUEST, 1);
	cnp.becn = true;
	cnp.ack_req = false;
	assert_int_equal(core_in(&c->a, cnp, ROCE_CNP_PAYLOAD, 0), DROP_NONE);
	assert_int_equal(core_near(c)->resp_rate.rate_bps, c->a.cfg.rate_hint_bps / 2);
	for (uint32_t i = 0; i < 40; i++) {
		struct roce_pkt r = core_answer(i == 0    ? RC_READ_RESP_FIRST
		                                : i == 39 ? RC_READ_RESP_LAST
		                                          : RC_READ_RESP_MIDDLE,
		                                CORE_QPN, 1 + i, AETH_ACK_NO_CREDITS, 2);

		assert_int_equal(core_in(&c->b, r, CORE_PMTU, 0), DROP_NONE);
	}
	core_wait(c, 175 * CORE_US); /* half of 1 Gbit/s: 17 us each */
	n = core_pending(&c->a);
	assert_in_range(n, 8, 13);
	core_wait(c, 2 * CORE_MS);
	assert_int_equal(core_pending(&c->a), 40);
	assert_int_equal(core_pending(&c->b), 0); /* it did not cross */
}

/* READ responses that a switch of the responder's LAN has marked: the responder is told, in the requester's words. */
static void far_cnp__tells_the_responder(void **state)
{
	struct roce_pkt read = core_req(RC_READ_REQUEST, 1);
	const struct core_pkt *k;
	struct core *c = given_host(state);

	core_pair(c, 0);
	read.reth_len = 3 * CORE_PMTU;
	core_near(c)->pmtu = core_far(c)->pmtu = CORE_PMTU;
	assert_int_equal(core_in(&c->a, read, 0, 0), DROP_NONE);
	core_pump(c);
	core_expect(&c->b, RC_READ_REQUEST, 1);
	for (uint32_t i = 0; i < 3; i++) {
		struct roce_pkt r = core_answer((uint8_t)(RC_READ_RESP_FIRST + i), CORE_QPN, 1 + i, AETH_ACK_NO_CREDITS,
		                                2);

		r.tos |= ECN_CE;
		assert_int_equal(core_in(&c->b, r, CORE_PMTU, 0), DROP_NONE);
		core_pump(c);
		c->now_ns += i ? 50 * CORE_US : CORE_US; /* the second is too soon */
	}
	for (int i = 0; i < 2; i++) {
		k = core_expect(&c->b, ROCE_CNP, 0);
		assert_true(k->h.becn && k->h.dest_qpn == CORE_QPN && k->h.payload_len == ROCE_CNP_PAYLOAD);
		assert_true(ip_addr_eq(&k->h.src, &read.src) && ip_addr_eq(&k->h.dst, &read.dst));
		assert_int_equal(k->h.tos, read.tos);
		assert_int_equal(k->h.udp_sport, read.udp_sport);
		assert_true(k->h.migreq);
	}
	assert_int_equal(core_pending(&c->b), 0);
	while ((k = core_take(&c->a)))
		assert_int_not_equal(k->h.tos & ECN_MASK, ECN_CE); /* the marks stay here */
}

/* Those who have a pair have filled the host's window, and more of them wait: who has none yet is asked all the same. */
static void lan_host__probe_goes_first(void **state)
{
	const struct core_pkt *k;
	struct core *c = given_host(state);
	uint32_t asked = 0;

	for (uint32_t qpn = 1; qpn <= 4; qpn++)
		pair_one(c, 2, qpn);
	host_b(c)->window_bytes = 4 * PKT;
	for (uint32_t qpn = 1; qpn <= 4; qpn++)
		give(c, 2, qpn, 1, 8);
	core_pump(c);
	core_forget(&c->b);
	assert_true(host_b(c)->bytes_out >= host_b(c)->window_bytes);
	give(c, 2, 9, 0, 2);
	core_pump(c);
	while ((k = core_take(&c->b)))
		asked += k->h.dest_qpn == 9;
	assert_true(asked > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(lan_host__bounds_all_queue_pairs_together),
	    CORE_TEST(lan_host__probe_goes_first),
	    CORE_TEST(lan_turn__queue_pairs_take_turns),
	    CORE_TEST(lan_turn__host_pairs_take_turns),
	    CORE_TEST(lan_host__window_grows_and_is_halved_once),
	    CORE_TEST(lan_host__cnp_takes_an_eighth),
	    CORE_TEST(lan_host__dead_queue_pair_is_written_off),
	    CORE_TEST(cnp_rate__slows_responses),
	    CORE_TEST(far_cnp__tells_the_responder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
