/* SPDX-License-Identifier: Apache-2.0 */
/* How long requests take, of one that is followed at each side. */
#include "core_fixture.h"

#include "daemon/worker/latency.c"

#define US 1000ull
#define MS 1000000ull

static struct latency_sampler sampler;

static int setup(void **state)
{
	memset(&sampler, 0, sizeof(sampler));
	*state = NULL;
	return 0;
}

static uint64_t samples(enum latency l)
{
	return latency_count(&sampler.sums.of[l]);
}

static uint64_t took_ns(enum latency l)
{
	if (samples(l) != 1)
		fail_msg("%s: %u samples", latency_name(l), (unsigned)samples(l));
	return sampler.sums.of[l].sum_ns;
}

/* As a worker does with a packet of a host. */
static bool show_in(struct core_edge *e, struct roce_pkt h, size_t payload_len)
{
	uint8_t buf[LAN_PKT_MAX + 64];
	size_t n = roce_build(buf, sizeof(buf), &h, core_payload(e->c->salt, h.psn), payload_len);

	return proxy_lan_rx(e->p, e->c->now_ns, buf, n, 0) == DROP_NONE && latency_wants(&sampler, FLOW_NEAR, e->c->now_ns) &&
	       latency_request(&sampler, e->p, e->c->now_ns, buf, n, 0);
}

static void show_out(struct core_edge *e)
{
	struct lan_tx tx;

	while (proxy_lan_tx(e->p, e->c->now_ns, &tx))
		if (latency_wants(&sampler, FLOW_FAR, e->c->now_ns))
			latency_outgoing(&sampler, e->p, e->c->now_ns, &tx);
}

static void carry(struct core_edge *from, struct core_edge *to)
{
	uint8_t buf[WAN_MTU_MAX];
	struct wan_tx tx;
	size_t len;

	while ((len = proxy_wan_tx(from->p, from->c->now_ns, buf, sizeof(buf), &tx)))
		proxy_wan_rx(to->p, to->c->now_ns, buf, len, 0);
}

static void later(struct core *c, uint64_t ns)
{
	c->now_ns += ns;
	proxy_tick(c->a.p, c->now_ns);
	proxy_tick(c->b.p, c->now_ns);
}

/* Acknowledged here after 30 us; at the other edge after 2 ms; delivered 5 ms after that, of which a report tells 2 ms later. */
static void latency__of_a_request_at_the_near_side(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	assert_true(show_in(&c->a, core_req(RC_WRITE_ONLY, 1), CORE_PMTU));
	assert_false(latency_wants(&sampler, FLOW_NEAR, c->now_ns + 5 * MS)); /* one at a time */
	latency_look(&sampler, c->a.p, c->now_ns);
	assert_int_equal(samples(LATENCY_ACKED), 0);
	later(c, 30 * US);
	show_out(&c->a);
	latency_look(&sampler, c->a.p, c->now_ns);
	assert_int_equal(took_ns(LATENCY_ACKED), 30 * US);
	later(c, 2 * MS);
	carry(&c->a, &c->b);
	core_collect(&c->b);
	later(c, 5 * MS);
	core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 1), 0, 0);
	latency_look(&sampler, c->a.p, c->now_ns);
	assert_int_equal(samples(LATENCY_DELIVERED), 0);
	later(c, 2 * MS);
	carry(&c->b, &c->a);
	latency_look(&sampler, c->a.p, c->now_ns);
	assert_int_equal(took_ns(LATENCY_DELIVERED), 9 * MS + 30 * US);
	assert_int_equal(samples(LATENCY_ACKED), 1);
	assert_int_equal(samples(LATENCY_INWARD), 0);
	assert_false(latency_follows(&sampler));
	assert_false(latency_wants(&sampler, FLOW_NEAR, c->now_ns));
	assert_true(latency_wants(&sampler, FLOW_NEAR, c->now_ns + LATENCY_EVERY_NS));
}

/* The second packet is followed: the first one shows which flow there is. */
static void latency__of_a_packet_at_the_far_side(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_in(&c->a, core_req(RC_WRITE_ONLY, 1), CORE_PMTU, 0);
	carry(&c->a, &c->b);
	show_out(&c->b);
	assert_true(sampler.side[FLOW_FAR].arrives);
	core_in(&c->a, core_req(RC_WRITE_ONLY, 2), CORE_PMTU, 0);
	later(c, 100 * US);
	carry(&c->a, &c->b);
	latency_look(&sampler, c->b.p, c->now_ns);
	assert_false(sampler.side[FLOW_FAR].arrives);
	core_collect(&c->b);
	core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 1), 0, 0);
	later(c, 40 * US);
	latency_look(&sampler, c->b.p, c->now_ns);
	assert_int_equal(samples(LATENCY_INWARD), 0); /* the packet before it */
	core_in(&c->b, core_answer(RC_ACK, CORE_QPN, 2, AETH_ACK_NO_CREDITS, 2), 0, 0);
	later(c, 40 * US);
	latency_look(&sampler, c->b.p, c->now_ns);
	assert_int_equal(took_ns(LATENCY_INWARD), 80 * US);
	assert_false(latency_follows(&sampler));
}

static void latency__what_is_not_followed(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct roce_pkt quiet = core_req(RC_WRITE_ONLY, 1);

	quiet.ack_req = false;
	assert_false(show_in(&c->a, quiet, CORE_PMTU));
	assert_false(latency_wants(&sampler, FLOW_NEAR, c->now_ns)); /* not each packet is looked at */
	later(c, LATENCY_AGAIN_NS);
	assert_false(show_in(&c->a, core_req(RC_WRITE_ONLY, 1), CORE_PMTU)); /* a repetition */
	later(c, LATENCY_AGAIN_NS);
	assert_false(show_in(&c->a, core_req(RC_WRITE_ONLY, 9), CORE_PMTU)); /* behind a gap */
	assert_false(latency_follows(&sampler));
}

static void latency__a_flow_that_ends_leaves_no_sample(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	assert_true(show_in(&c->a, core_req(RC_WRITE_ONLY, 1), CORE_PMTU));
	sampler.side[FLOW_NEAR].inc++; /* as if it were of another life */
	latency_look(&sampler, c->a.p, c->now_ns);
	assert_false(latency_follows(&sampler));
	for (unsigned i = 0; i < LATENCY_COUNT; i++)
		assert_int_equal(samples((enum latency)i), 0);
}

static void latency__what_never_ends_is_above_all_bounds(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);

	assert_true(show_in(&c->a, core_req(RC_WRITE_ONLY, 1), CORE_PMTU));
	sampler.side[FLOW_NEAR].began_ns -= LATENCY_MOST_NS;
	c->now_ns++;
	latency_look(&sampler, c->a.p, c->now_ns);
	assert_int_equal(sampler.sums.of[LATENCY_DELIVERED].n[LATENCY_BOUND_COUNT], 1);
	assert_false(latency_follows(&sampler));
}

/* The longer it takes the rarer the looks: few for a second, and none later than a 64th. */
static void latency__looks_become_rare(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_HOST);
	struct latency_probe *b = &sampler.side[FLOW_NEAR];
	unsigned looks = 0;
	uint64_t began;

	assert_true(show_in(&c->a, core_req(RC_WRITE_ONLY, 1), CORE_PMTU));
	began = c->now_ns;
	for (uint64_t now = began; now < began + 1000 * MS; now += 20 * US) {
		if (now < b->look_ns)
			continue;
		latency_look(&sampler, c->a.p, now);
		looks++;
		assert_true(b->look_ns <= now + (now - began) / 64);
	}
	assert_in_range(looks, 64, 700);
}

static void histogram__bounds_and_sums(void **state)
{
	struct latencies sum = {0}, one = {0};
	struct latency_histogram *h = &one.of[LATENCY_ACKED];

	(void)state;
	take_sample(h, 0);
	take_sample(h, 10000);
	take_sample(h, 10001);
	take_sample(h, 5000000000);
	assert_int_equal(h->n[0], 2);
	assert_int_equal(h->n[1], 1);
	assert_int_equal(h->n[LATENCY_BOUND_COUNT - 1], 1);
	latencies_add(&sum, &one);
	latencies_add(&sum, &one);
	assert_int_equal(latency_count(&sum.of[LATENCY_ACKED]), 8);
	assert_int_equal(sum.of[LATENCY_ACKED].sum_ns, 2 * (20001 + 5000000000));
	for (unsigned i = 1; i < LATENCY_BOUND_COUNT; i++)
		assert_true(latency_bounds_ns[i] > latency_bounds_ns[i - 1]);
}

int main(void)
{
#define CORE(t) cmocka_unit_test_setup_teardown(t, setup, core_done)
	const struct CMUnitTest tests[] = {
	    CORE(latency__of_a_request_at_the_near_side),
	    CORE(latency__of_a_packet_at_the_far_side),
	    CORE(latency__what_is_not_followed),
	    CORE(latency__a_flow_that_ends_leaves_no_sample),
	    CORE(latency__what_never_ends_is_above_all_bounds),
	    CORE(latency__looks_become_rare),
	    cmocka_unit_test(histogram__bounds_and_sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
