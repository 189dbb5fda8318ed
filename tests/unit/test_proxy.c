/* SPDX-License-Identifier: Apache-2.0 */
/* The entrance: who is let in, sessions, restarts from the arena, what an observer is told. */
#include "core_fixture.h"

#include "proxy/wan/wan_lane_priv.h"

/* --- the door --- */

static void proxy__foreign_addresses(void **state)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);
	struct core *c = core_given(state, ACK_MODE_NEAR);

	h.src = core_ip(3, 2);
	assert_int_equal(core_in(&c->a, h, 64, 0), DROP_LAN_FOREIGN);
	h = core_req(RC_WRITE_ONLY, 0);
	h.dst = core_ip(3, 2);
	assert_int_equal(core_in(&c->a, h, 64, 0), DROP_LAN_FOREIGN);
	h.dst = core_ip(1, 3); /* between two local hosts */
	assert_int_equal(core_in(&c->a, h, 64, 0), DROP_LAN_FOREIGN);
	assert_int_equal(core_in(&c->b, core_req(RC_WRITE_ONLY, 0), 64, 0), DROP_LAN_FOREIGN); /* wrong side */
	assert_int_equal(core_used(&c->a), 0);
}

static void proxy__ttl(void **state)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (uint8_t ttl = 0; ttl < 2; ttl++) {
		h.ttl = ttl;
		assert_int_equal(core_in(&c->a, h, 64, 0), DROP_LAN_TTL);
	}
	h.ttl = 2;
	assert_int_equal(core_in(&c->a, h, 64, 0), DROP_NONE);
	core_pump(c);
	assert_int_equal(core_expect(&c->b, RC_WRITE_ONLY, 0)->h.ttl, 1);
}

static void proxy__damaged_packets(void **state)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);
	uint8_t buf[300];
	struct core *c = core_given(state, ACK_MODE_NEAR);
	size_t n;

	n = roce_build(buf, sizeof(buf), &h, core_payload(0, 0), 128);
	for (size_t i = 0; i < n; i += 7) {
		buf[i] ^= 0x10;
		proxy_lan_rx(c->a.p, c->now_ns, buf, n, 0);
		buf[i] ^= 0x10;
	}
	for (size_t len = 0; len < n; len++)
		assert_int_not_equal(proxy_lan_rx(c->a.p, c->now_ns, buf, len, 0), DROP_NONE);
	core_pump(c);
	assert_true(core_drops(&c->a, DROP_LAN_BAD_ICRC) > 10);
	/* the mutable bytes (ToS, TTL, resv8a) may change on the way: nothing else got in, once at most */
	assert_true(core_ctr(&c->a, CTR_LAN_RX_PKTS) <= 3);
}

static void proxy__datagrams_of_another_session(void **state)
{
	uint8_t buf[200] = {0};
	struct wan_hdr h = {.wan_pn = 0};
	struct core *c = core_given(state, ACK_MODE_NEAR);
	size_t n;

	h.epoch = c->b.p->session.epoch_rx + 1;
	n = wan_seal(buf, wan_hdr_put(buf, &h));
	assert_int_equal(proxy_wan_rx(c->b.p, c->now_ns, buf, n, false), DROP_WAN_BAD_EPOCH);
	h.epoch--;
	h.lane = 2; /* two lanes: 0 and 1 */
	n = wan_seal(buf, wan_hdr_put(buf, &h));
	assert_int_equal(proxy_wan_rx(c->b.p, c->now_ns, buf, n, false), DROP_WAN_BAD_LANE);
	h.lane = 1;
	h.wan_pn = 1000;
	n = wan_seal(buf, wan_hdr_put(buf, &h));
	buf[9] ^= 1;
	assert_int_equal(proxy_wan_rx(c->b.p, c->now_ns, buf, n, false), DROP_WAN_BAD_TAG);
	buf[9] ^= 1;
	assert_int_equal(proxy_wan_rx(c->b.p, c->now_ns, buf, n, false), DROP_NONE);
	assert_int_equal(proxy_wan_rx(c->b.p, c->now_ns, buf, n, false), DROP_WAN_DUPLICATE);
	assert_int_equal(proxy_wan_rx(c->b.p, c->now_ns, buf, 15, false), DROP_WAN_TRUNCATED);
	h.wan_pn = 1ull << 62;
	n = wan_seal(buf, wan_hdr_put(buf, &h));
	assert_int_equal(proxy_wan_rx(c->b.p, c->now_ns, buf, n, false), DROP_WAN_BAD_FRAME);
}

static void proxy__lane_is_symmetric(void **state)
{
	uint32_t hits[7] = {0};

	(void)state;
	for (uint8_t i = 1; i < 200; i++) {
		struct ip_addr a = core_ip(1, i), b = core_ip(2, (uint8_t)(200 - i / 2));
		uint16_t lane = proxy_lane(&a, &b, 7);

		assert_true(lane < 7);
		assert_int_equal(lane, proxy_lane(&b, &a, 7));
		hits[lane]++;
	}
	for (int i = 0; i < 7; i++)
		assert_in_range(hits[i], 10, 60);
	assert_int_equal(proxy_wan_lane((const uint8_t[16]){WAN_VERSION, 5}, 16), 5);
	assert_int_equal(proxy_wan_lane((const uint8_t[16]){WAN_VERSION, 5}, 15), -1);
	assert_int_equal(proxy_wan_lane((const uint8_t[16]){WAN_VERSION + 1, 5}, 16), -1);
}

static void proxy__prefixes(void **state)
{
	struct ip_prefix p = {.addr = core_ip(1, 0), .len = 96 + 23};
	struct ip_addr a = core_ip(1, 7);

	(void)state;
	assert_true(ip_prefix_holds(&p, &a));
	a.b[14] = 1;
	assert_true(ip_prefix_holds(&p, &a));
	a.b[14] = 2;
	assert_false(ip_prefix_holds(&p, &a));
	p.len = 0;
	assert_true(ip_prefix_holds(&p, &a));
	p.len = 129;
	assert_false(ip_prefix_holds(&p, &a));
	p = (struct ip_prefix){.addr = a, .len = 128};
	assert_true(ip_prefix_holds(&p, &a));
	a.b[15] ^= 1;
	assert_false(ip_prefix_holds(&p, &a));
}

static void proxy__bad_configs(void **state)
{
	struct proxy_config good, bad;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	good = c->a.cfg;
	assert_true(proxy_heap_size(&good, &c->a.g) > 0);
#define REFUSED(change)                                                                                                \
	bad = good;                                                                                                    \
	bad.change;                                                                                                    \
	assert_int_equal(proxy_heap_size(&bad, &c->a.g), 0);                                                           \
	assert_int_equal(proxy_reconfigure(c->a.p, &bad, c->now_ns), -EINVAL)
	REFUSED(nshards = 0);
	REFUSED(shard = 1);
	REFUSED(nlanes = 0);
	REFUSED(nlanes = LANES_MAX + 1);
	REFUSED(mode = (enum ack_mode)7);
	REFUSED(max_flows = 15);
	REFUSED(max_flows = FLOWS_MAX + 1);
	REFUSED(nlocal = PREFIXES_MAX + 1);
	REFUSED(path[0].payload_max = 500);
	REFUSED(path[0].payload_max = 20000);
	REFUSED(lan_window_bytes = 100);
	REFUSED(lan_host_window_bytes = 100);
	REFUSED(lan_timeout_ns = 0);
#undef REFUSED
}

static void proxy__reconfigure_keeps_what_sizes_memory(void **state)
{
	struct proxy_config want;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	want = c->a.cfg;
	want.nlanes = 1;
	assert_int_equal(proxy_reconfigure(c->a.p, &want, c->now_ns), -EINVAL);
	want = c->a.cfg;
	want.local[0].len--;
	assert_int_equal(proxy_reconfigure(c->a.p, &want, c->now_ns), -EINVAL);
	want = c->a.cfg;
	want.reorder_ns = 77;
	want.rate_hint_bps = 1;
	assert_int_equal(proxy_reconfigure(c->a.p, &want, c->now_ns), 0);
	assert_int_equal(c->a.p->cfg.reorder_ns, 77);
	assert_int_not_equal(c->a.p->cfg.rate_hint_bps, 1);
}

/* near becomes host on a live flow: what is not delivered is not ACKed any more. */
static void proxy__mode_may_change_live(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	c->a.cfg.mode = ACK_MODE_HOST;
	assert_int_equal(proxy_reconfigure(c->a.p, &c->a.cfg, c->now_ns), 0);
	core_pump(c);
	core_forget(&c->a);
	core_send(c, RC_WRITE_ONLY, 1);
	assert_int_equal(core_pending(&c->a), 0);
	c->a.cfg.mode = ACK_MODE_NEAR;
	assert_int_equal(proxy_reconfigure(c->a.p, &c->a.cfg, c->now_ns), 0);
	core_pump(c);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
}

/* --- sessions --- */

static void proxy__nothing_crosses_without_a_session(void **state)
{
	struct wan_tx tx;
	uint8_t buf[WAN_MTU_MAX];
	struct core c;

	(void)state;
	memset(&c, 0, sizeof(c));
	c.now_ns = CORE_START;
	core_edges_open(&c, ACK_MODE_NEAR, 32, 32);
	assert_int_equal(core_send(&c, RC_WRITE_ONLY, 0), DROP_NONE); /* taken, kept */
	assert_int_equal(proxy_wan_tx(c.a.p, c.now_ns, buf, sizeof(buf), &tx), 0);
	core_session(&c);
	core_wait(&c, CORE_MS);
	core_expect(&c.b, RC_WRITE_ONLY, 0);
	core_close(&c);
}

/* Whatever the peer may lack goes again; what it has is not delivered twice. */
static void proxy__session_restart_resends(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send_run(c, 1, 5);
	for (uint32_t psn = 1; psn <= 5; psn++)
		core_expect(&c->b, RC_WRITE_ONLY, psn);
	c->cut = true;
	core_send_run(c, 6, 5);
	c->cut = false;
	core_session(c);
	core_wait(c, CORE_MS);
	for (uint32_t psn = 6; psn <= 10; psn++)
		core_expect(&c->b, RC_WRITE_ONLY, psn);
	assert_int_equal(core_pending(&c->b), 0);
	core_ack(c, 10, AETH_ACK_NO_CREDITS, 11);
	core_wait(c, CORE_MS);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_used(&c->b), 0);
}

static void proxy__dead_peer_is_noticed(void **state)
{
	struct proxy_link_status s;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_wait(c, 10 * CORE_MS);
	assert_true(core_event(&c->a, EV_WAN_UP));
	proxy_link_status(c->a.p, c->now_ns, &s);
	assert_true(s.wan_up);
	core_wait(c, 10000 * CORE_MS); /* idle, but alive */
	assert_false(core_event(&c->a, EV_WAN_DEAD));
	c->cut = true;
	core_wait(c, c->a.cfg.dead_peer_ns + 2 * c->a.cfg.keepalive_ns);
	assert_true(core_event(&c->a, EV_WAN_DEAD));
	proxy_link_status(c->a.p, c->now_ns, &s);
	assert_false(s.wan_up);
	c->cut = false;
	core_wait(c, 2000 * CORE_MS);
	assert_true(core_event(&c->a, EV_WAN_UP));
}

/* Host B takes what comes, from PSN `next` on, and ACKs where it is asked to. Returns the PSN it waits for then. */
static uint32_t respond_for(struct core *c, int for_ms, uint32_t next)
{
	for (int ms = 0; ms < for_ms; ms++) {
		for (const struct core_pkt *k; (k = core_take(&c->b));) {
			if (k->h.psn == next)
				next++;
			if (k->h.ack_req)
				core_ack(c, next - 1, AETH_ACK_NO_CREDITS, next);
		}
		core_wait(c, CORE_MS);
	}
	return next;
}

/* A line that was cut under load comes back: everything arrives once, and nothing waits for long. */
static void proxy__cut_line_heals(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_send_run(c, 1, 50);
	c->cut = true;
	core_send_run(c, 51, 200);
	core_wait(c, 1500 * CORE_MS);
	c->cut = false;
	assert_int_equal(respond_for(c, 1000, 1), 251);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_used(&c->b), 0);
}

/* Random loss and duplication both ways: in order, once, and no slot is left. */
static bool lossy(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	uint64_t *s = c->arg;

	*s = *s * 6364136223846793005ull + 1442695040888963407ull;
	if ((*s >> 33) % 10 == 0)
		return false;
	if ((*s >> 33) % 10 == 1)
		proxy_wan_rx(from == &c->a ? c->b.p : c->a.p, c->now_ns, dgram, len, false);
	return true;
}

/* The first datagram with a packet. */
static bool lose_first(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	bool *lost = c->arg;

	(void)dgram;
	if (from == &c->b || len < 200 || *lost)
		return true;
	*lost = true;
	return false;
}

/* What waits to be repaired when the session ends is sent anew in the next one, and repaired there if need be. */
static void proxy__loss_in_two_sessions(void **state)
{
	bool lost = false;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	struct lane *l;

	c->cut = true;
	core_send(c, RC_WRITE_ONLY, 1);
	l = &c->a.p->wan->lanes[core_near(c)->lane];
	wan_queue_slot(c->a.p, &l->repair, arena_find(c->a.p->arena, SLOT_REQ_NEAR, core_near(c)->idx, POS_ORIGIN + 1),
	               SQ_REPAIR);
	c->cut = false;
	c->wan = lose_first;
	c->arg = &lost;
	core_session(c);
	assert_true(lost);
	core_wait(c, 100 * CORE_MS);
	core_expect(&c->b, RC_WRITE_ONLY, 1);
}

/* The first datagram with a packet; and when it was found lost, all that the peer has to say. */
static bool lose_first_then_reports(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	if (from == &c->b)
		return !core_ctr(&c->a, CTR_WAN_REPAIRS);
	return lose_first(c, from, dgram, len);
}

/* A line that takes a millisecond for a packet, and 40 of them waiting when the second copy of a repair is due. Returns
 * the repairs that went while others waited. */
static uint64_t repairs_on_full_line(void **state, uint32_t loss_ppm)
{
	bool lost = false;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);
	uint64_t meanwhile;

	c->wan = lose_first_then_reports;
	c->arg = &lost;
	core_send_run(c, 1, 1);
	core_send_run(c, 2, 3);
	while (!core_ctr(&c->a, CTR_WAN_REPAIRS))
		core_wait(c, 10 * CORE_US);
	c->a.p->wan->path[0].loss_ppm = loss_ppm;
	atomic_store(&c->a.pacer.rate_bps, 9000000);
	core_send_run(c, 5, 40);
	core_wait(c, 10 * CORE_MS);
	meanwhile = core_ctr(&c->a, CTR_WAN_REPAIRS);
	assert_false(dlist_empty(&c->a.p->wan->lanes[core_near(c)->lane].ready[SOURCE_NEAR]));
	core_wait(c, 50 * CORE_MS);
	assert_int_equal(core_ctr(&c->a, CTR_WAN_REPAIRS), 2);
	return meanwhile;
}

/* The second copy of a repair goes behind what is new, unless much would wait if the first got lost as well. */
static void proxy__second_copy_gives_way(void **state)
{
	assert_int_equal(repairs_on_full_line(state, 10000), 1);
}

static void proxy__second_copy_is_worth_it(void **state)
{
	assert_int_equal(repairs_on_full_line(state, 900000), 2);
}

static void proxy__loss_is_repaired(void **state)
{
	uint64_t seed = 1;
	uint32_t next = 1;
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	c->wan = lossy;
	c->arg = &seed;
	for (uint32_t psn = 1; psn <= 600; psn += 20) {
		core_send_run(c, psn, 20);
		core_wait(c, 500 * CORE_US);
		for (const struct core_pkt *k; (k = core_take(&c->b));) {
			assert_int_equal(k->h.psn, next);
			assert_memory_equal(k->l3 + k->h.hdr_len, core_payload(0, next), CORE_PMTU);
			next++;
			if (k->h.ack_req)
				core_ack(c, next - 1, AETH_ACK_NO_CREDITS, next);
		}
	}
	assert_int_equal(respond_for(c, 500, next), 601);
	assert_true(core_ctr(&c->a, CTR_WAN_LOST) > 0);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_used(&c->b), 0);
}

/* What the pacer holds back is something that waits: the path's controller is told of it, and when it has gone. */
static void proxy__controllers_are_told_what_waits(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	atomic_store(&c->a.pacer.rate_bps, 1000000); /* a packet takes 9 ms */
	core_send_run(c, 1, 1);
	core_pump(c);
	assert_int_equal(atomic_load(&c->a.pacer.control.waiting), 0);
	core_send_run(c, 2, 3);
	core_pump(c);
	assert_int_equal(atomic_load(&c->a.pacer.control.waiting), 1);
	core_wait(c, 100 * CORE_MS);
	assert_int_equal(atomic_load(&c->a.pacer.control.waiting), 0);
}

/* The far edge has no room for what many flows send at once: it says so, nothing counts as lost, all of it arrives. */
static void proxy__refused_is_not_lost(void **state)
{
	enum { FLOWS = 24, EACH = 60 };
	uint32_t got[FLOWS] = {0}, done = 0;
	struct core c;

	(void)state;
	memset(&c, 0, sizeof(c));
	c.now_ns = CORE_START;
	/* all that a takes is within the share of unpaired flows */
	core_edges_open(&c, ACK_MODE_NEAR, 640, 4);
	core_session(&c);
	for (uint32_t psn = 0; psn < EACH; psn++)
		for (uint32_t i = 0; i < FLOWS; i++) {
			struct roce_pkt h = core_req(RC_WRITE_ONLY, psn);

			for (int l = 0; l < 2; l++) /* old grants */
				c.a.p->wan->lanes[l].window_bytes = c.a.p->wan->lanes[l].flow_initial_bytes = 1 << 30;
			h.dest_qpn = 0x100 + i;
			assert_int_equal(core_in(&c.a, h, CORE_PMTU, 0), DROP_NONE);
		}
	for (int ms = 0; ms < 4000 && done < FLOWS * EACH; ms++) {
		for (const struct core_pkt *k; (k = core_take(&c.b));) {
			uint32_t *n = &got[k->h.dest_qpn - 0x100];

			if (k->h.psn == *n) {
				(*n)++;
				done++;
			}
			if (k->h.ack_req)
				core_in(&c.b, core_answer(RC_ACK, k->h.dest_qpn, *n - 1, AETH_ACK_NO_CREDITS, *n), 0,
				        0);
		}
		core_wait(&c, CORE_MS);
	}
	assert_int_equal(done, FLOWS * EACH);
	assert_true(core_ctr(&c.a, CTR_WAN_REFUSED) > 0);
	assert_int_equal(core_ctr(&c.a, CTR_WAN_LOST), 0);
	core_close(&c);
}

/* --- one direction is dead --- */

static bool deaf;

static bool one_way(struct core *core, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)dgram, (void)len;
	return !(deaf && from == &core->a);
}

static bool both_up(struct core *c)
{
	struct proxy_link_status a, b;
	struct proxy_path_status path;

	proxy_link_status(c->a.p, c->now_ns, &a);
	proxy_link_status(c->b.p, c->now_ns, &b);
	proxy_path_status(c->a.p, 0, c->now_ns, &path);
	assert_int_equal(a.wan_up, path.state == PATH_UP);
	return a.wan_up && b.wan_up;
}

/* The edge that is not heard hears the other one, and says all the same that the line is dead, within three seconds. */
static void proxy__heard_and_not_answered_is_dead(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct proxy_link_status a;

	deaf = false;
	c->wan = one_way;
	for (int i = 0; i < 100; i++)
		core_wait(c, 10 * CORE_MS);
	assert_true(both_up(c));
	core_event(&c->a, EV_WAN_UNHEARD);
	deaf = true;
	for (int i = 0; i < 300; i++)
		core_wait(c, 10 * CORE_MS);
	proxy_link_status(c->a.p, c->now_ns, &a);
	assert_false(a.wan_up);
	assert_true(c->a.p->wan_up); /* it does hear */
	assert_false(both_up(c));
	assert_true(core_event(&c->a, EV_WAN_UNHEARD));
	deaf = false;
	for (int i = 0; i < 50; i++)
		core_wait(c, 10 * CORE_MS);
	assert_true(both_up(c));
}

/* A machine that stands still is deaf meanwhile: nobody else was silent. */
static void proxy__who_stood_still_calls_nobody_dead(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	deaf = false;
	c->wan = one_way;
	for (int i = 0; i < 100; i++)
		core_wait(c, 10 * CORE_MS);
	core_event(&c->a, EV_WAN_DEAD);
	core_event(&c->a, EV_WAN_UNHEARD);
	c->now_ns += 5000 * CORE_MS;
	proxy_tick(c->a.p, c->now_ns);
	assert_false(core_event(&c->a, EV_WAN_DEAD));
	assert_false(core_event(&c->a, EV_WAN_UNHEARD));
}

/* --- an outage in which many numbers pass --- */

/* One edge hears nothing while thousands of datagrams pass, then one: its report is long, but ends. */
static void proxy__long_report_ends(void **state)
{
	uint8_t buf[WAN_MTU_MAX];
	struct wan_hdr h = {.lane = 0, .wan_pn = 20000};
	struct wan_tx tx;
	struct core *c = core_given(state, ACK_MODE_NEAR);
	size_t n;
	int reports = 0;

	core_wait(c, CORE_MS);
	h.epoch = c->b.p->session.epoch_rx;
	n = wan_hdr_put(buf, &h);
	n += wan_ping_put(buf + n, 100);
	n = wan_seal(buf, n);
	assert_int_equal(proxy_wan_rx(c->b.p, c->now_ns, buf, n, false), DROP_NONE);
	c->now_ns += 10 * CORE_MS;
	proxy_tick(c->b.p, c->now_ns);
	while (proxy_wan_tx(c->b.p, c->now_ns, buf, sizeof(buf), &tx) > 0)
		assert_true(++reports < 100);
	assert_true(reports >= 20000 / 4096);
}

/* --- reports without a datagram of their own --- */

/* Edge b owes reports of a WRITE, due in 50 us. After `us` its host sends something that crosses anyway. Returns how
 * many datagrams of nothing but control edge b has sent for it. */
static uint64_t control_beside_data(unsigned us)
{
	struct roce_pkt h = core_answer(RC_WRITE_ONLY, CORE_QPN + 1, 7, 0, 0);
	uint64_t before;
	struct core c;

	core_open(&c, ACK_MODE_NEAR);
	core_pair(&c, 0);
	core_wait(&c, CORE_MS);
	before = core_ctr(&c.b, CTR_WAN_TX_CONTROL);
	core_send(&c, RC_WRITE_ONLY, 1);
	core_wait(&c, us * CORE_US);
	assert_int_equal(core_ctr(&c.b, CTR_WAN_TX_CONTROL), before);
	assert_int_equal(core_in(&c.b, h, CORE_PMTU, 0), DROP_NONE);
	core_wait(&c, (52 - us) * CORE_US);
	before = core_ctr(&c.b, CTR_WAN_TX_CONTROL) - before;
	core_close(&c);
	return before;
}

static void proxy__soon_due_reports_ride(void **state)
{
	(void)state;
	assert_int_equal(control_beside_data(30), 0);
	assert_int_equal(control_beside_data(10), 1); /* too soon: later ones would tell of the same again and again */
}

/* --- rebuild --- */

/* Takes what host B gets, in order, and answers what asks for it. */
static void serve(struct core *c, uint32_t *next)
{
	for (const struct core_pkt *k; (k = core_take(&c->b));) {
		if (k->h.opcode != RC_WRITE_ONLY)
			continue;
		if (k->h.psn == *next) {
			assert_memory_equal(k->l3 + k->h.hdr_len, core_payload(0, *next), CORE_PMTU);
			(*next)++;
		}
		if (k->h.ack_req)
			core_in(&c->b, core_answer(RC_ACK, CORE_QPN, *next - 1, AETH_ACK_NO_CREDITS, *next), 0, 0);
	}
}

/* Host A's view: what is ACKed is never asked for again. */
static uint32_t acked_upto(struct core *c, uint32_t acked)
{
	for (const struct core_pkt *k; (k = core_take(&c->a));) {
		uint32_t upto = k->h.psn;

		if ((k->h.aeth_syndrome & AETH_TYPE_MASK) == AETH_ACK)
			upto++;
		if (upto > acked)
			acked = upto;
	}
	return acked;
}

/* Either edge, or both, lose their memory at any moment; whatever was ACKed arrives, once and in order. */
static void rebuild_at(enum ack_mode mode, int when, bool a, bool b)
{
	uint32_t next = 0, acked = 0, sent = 0;
	struct core c;

	core_open(&c, mode);
	for (int step = 0; step < 400 && next < 60; step++) {
		if (sent < acked + 16 && sent < 60 && step % 2 == 0) {
			core_in(&c.a, core_req(RC_WRITE_ONLY, sent), CORE_PMTU, 0);
			sent++;
		}
		if (step % 20 == 19) /* the host's patience is at an end */
			sent = acked;
		if (step == when) {
			if (a)
				core_rebuild(&c.a);
			if (b)
				core_rebuild(&c.b);
			core_session(&c);
		}
		core_wait(&c, 300 * CORE_US);
		serve(&c, &next);
		acked = acked_upto(&c, acked);
	}
	core_wait(&c, 100 * CORE_MS);
	serve(&c, &next);
	core_wait(&c, 100 * CORE_MS);
	if (next < 60 || acked_upto(&c, acked) < 60)
		fail_msg("mode %d, rebuilt at %d (%d%d): responder has %u, requester knows of %u", mode, when, a, b,
		         next, acked);
	assert_int_equal(core_ctr(&c.a, CTR_INCARNATIONS), 0);
	assert_int_equal(core_used(&c.a), 0);
	assert_int_equal(core_used(&c.b), 0);
	core_close(&c);
}

static void proxy__rebuild_near_edge(void **state)
{
	(void)state;
	for (int when = 0; when < 60; when += 3) {
		rebuild_at(ACK_MODE_NEAR, when, true, false);
		rebuild_at(ACK_MODE_HOST, when, true, false);
	}
}

static void proxy__rebuild_far_edge(void **state)
{
	(void)state;
	for (int when = 0; when < 60; when += 3) {
		rebuild_at(ACK_MODE_NEAR, when, false, true);
		rebuild_at(ACK_MODE_HOST, when, false, true);
	}
}

static void proxy__rebuild_both_edges(void **state)
{
	(void)state;
	for (int when = 0; when < 60; when += 3)
		rebuild_at(ACK_MODE_NEAR, when, true, true);
}

/* The first ACK after a rebuild needs no WAN. */
static void proxy__rebuilt_edge_acks_before_the_wan_is_back(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	c->cut = true;
	core_send_run(c, 1, 5);
	core_forget(&c->a);
	core_rebuild(&c->a);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 3), DROP_LAN_DUPLICATE);
	assert_int_equal(core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS)->h.aeth_msn, 6);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 6), DROP_NONE);
	assert_int_equal(core_expect_aeth(&c->a, 6, AETH_ACK_NO_CREDITS)->h.aeth_msn, 7);
}

/* Nor does mode far, for what it has ACKed: a refusal of anything before that is none to the host. */
static void proxy__rebuilt_edge_knows_what_far_has_acked(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_FAR);

	core_send_run(c, 1, 5); /* the far edge has them, the responder has not answered */
	core_wait(c, CORE_MS);
	core_forget(&c->a);
	c->cut = true;
	core_send_run(c, 6, 2);
	core_rebuild(&c->a);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 5), DROP_LAN_DUPLICATE);
	assert_int_equal(core_expect_aeth(&c->a, 5, AETH_ACK_NO_CREDITS)->h.aeth_msn, 6);
}

/* Counting goes on where it was although nothing is held any more. */
static void proxy__rebuilt_idle_flow_keeps_counting(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	core_deliver(c, 1, 5);
	core_rebuild(&c->a);
	core_rebuild(&c->b);
	core_session(c);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 6), DROP_NONE);
	assert_int_equal(core_expect_aeth(&c->a, 6, AETH_ACK_NO_CREDITS)->h.aeth_msn, 7);
	core_expect(&c->b, RC_WRITE_ONLY, 6);
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 4), DROP_LAN_DUPLICATE);
	assert_int_equal(core_ctr(&c->a, CTR_INCARNATIONS), 0);
}

/* Loses the last of the pieces of a packet: the datagram that is shorter than the others. */
static bool lose_short_ones(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)dgram;
	return from == &c->b || len < 200 || len > 1400;
}

/* The far edge has half of a packet, said so, and loses its memory: it gets the whole packet again. */
static void proxy__half_a_packet_and_a_crash(void **state)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 1);
	struct core *c = core_given_small_mtu(state);

	core_pair(c, 0);
	c->wan = lose_short_ones;
	assert_int_equal(core_in(&c->a, h, 4000, 0), DROP_NONE);
	core_wait(c, 5 * CORE_MS);
	assert_int_equal(core_pending(&c->b), 0);
	assert_true(core_used(&c->b) > 0);
	c->wan = NULL;
	core_rebuild(&c->b);
	core_session(c);
	core_wait(c, 50 * CORE_MS);
	assert_int_equal(core_expect(&c->b, RC_WRITE_ONLY, 1)->h.payload_len, 4000);
}

/* --- what an observer is told --- */

static void proxy__flows_are_listed(void **state)
{
	struct proxy_flow_status s;
	uint32_t cursor = 0, n = 0;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	core_pair(c, 7);
	while (proxy_flow_next(c->a.p, &cursor, &s)) {
		assert_int_equal(s.side, FLOW_NEAR);
		assert_int_equal(s.dest_qpn, CORE_QPN);
		assert_int_equal(s.pos_next, POS_ORIGIN + 8);
		assert_int_equal(s.messages, 1);
		n++;
	}
	cursor = 0;
	while (proxy_flow_next(c->b.p, &cursor, &s)) {
		assert_int_equal(s.side, FLOW_FAR);
		assert_int_equal(s.pos_delivered, POS_ORIGIN + 8);
		n++;
	}
	assert_int_equal(n, 2);
}

static void proxy__events_are_bounded(void **state)
{
	struct proxy_event ev;
	struct core *c = core_given(state, ACK_MODE_NEAR);
	int n = 0;

	for (int i = 0; i < 3 * EVENT_RING; i++)
		proxy_event_push(c->a.p, EV_TABLE_FULL, NULL, NULL, 0, (uint64_t)i);
	while (proxy_event_next(c->a.p, &ev))
		n++;
	assert_int_equal(n, EVENT_RING);
	proxy_event_push(c->a.p, EV_REBUILT, NULL, NULL, 0, 5);
	assert_true(proxy_event_next(c->a.p, &ev));
	assert_int_equal(ev.type, EV_REBUILT);
}

/* However many events nobody has read: of each flow that the tables hold a failure is kept, and comes first. */
static void proxy__no_failed_flow_is_nameless(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct far_flow f = {.syndrome = AETH_NAK_REM_OP};
	struct proxy_event ev;

	while (proxy_event_next(c->a.p, &ev))
		;
	for (int i = 0; i < 3 * EVENT_RING; i++)
		proxy_event_push(c->a.p, EV_TABLE_FULL, NULL, NULL, 0, 0);
	assert_int_equal(proxy_events_lost(c->a.p), 2 * EVENT_RING);
	for (uint32_t i = 0; i < 2 * CORE_FLOWS + 3; i++) {
		f.dest_qpn = i;
		proxy_failure_push(c->a.p, FAILURE_REFUSED, NULL, &f, 7, 4096);
	}
	assert_int_equal(proxy_failures_lost(c->a.p), 3);
	for (uint32_t i = 0; i < 2 * CORE_FLOWS; i++) {
		assert_true(proxy_event_next(c->a.p, &ev));
		assert_int_equal(ev.type, EV_FLOW_FAILED);
		assert_int_equal(ev.dest_qpn, i);
		assert_int_equal(ev.failure, FAILURE_REFUSED);
		assert_int_equal(ev.syndrome, AETH_NAK_REM_OP);
		assert_int_equal(ev.side, FLOW_FAR);
	}
	assert_true(proxy_event_next(c->a.p, &ev));
	assert_int_equal(ev.type, EV_TABLE_FULL);
}

/* More flows than the table holds: carried without one (test_end_to_end.c); those that are there go on. */
static void proxy__flow_table_is_bounded(void **state)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 0);
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	for (uint32_t n = 0; n < 100; n++) {
		h.dest_qpn = 0x1000 + n;
		assert_int_equal(core_in(&c->a, h, 64, 0), DROP_NONE);
		core_pump(c);
	}
	assert_int_equal(c->a.p->near_used, CORE_FLOWS);
	assert_int_equal(core_ctr(&c->a, CTR_END_TO_END), 100 - (CORE_FLOWS - 1));
	assert_true(core_event(&c->a, EV_END_TO_END));
	assert_int_equal(core_send(c, RC_WRITE_ONLY, 1), DROP_NONE);
	core_expect_aeth(&c->a, 1, AETH_ACK_NO_CREDITS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(proxy__foreign_addresses),
	    CORE_TEST(proxy__ttl),
	    CORE_TEST(proxy__damaged_packets),
	    CORE_TEST(proxy__datagrams_of_another_session),
	    cmocka_unit_test(proxy__lane_is_symmetric),
	    cmocka_unit_test(proxy__prefixes),
	    CORE_TEST(proxy__bad_configs),
	    CORE_TEST(proxy__reconfigure_keeps_what_sizes_memory),
	    CORE_TEST(proxy__mode_may_change_live),
	    cmocka_unit_test(proxy__nothing_crosses_without_a_session),
	    CORE_TEST(proxy__session_restart_resends),
	    CORE_TEST(proxy__dead_peer_is_noticed),
	    CORE_TEST(proxy__cut_line_heals),
	    CORE_TEST(proxy__loss_is_repaired),
	    CORE_TEST(proxy__loss_in_two_sessions),
	    CORE_TEST(proxy__second_copy_gives_way),
	    CORE_TEST(proxy__second_copy_is_worth_it),
	    CORE_TEST(proxy__controllers_are_told_what_waits),
	    cmocka_unit_test(proxy__refused_is_not_lost),
	    CORE_TEST(proxy__heard_and_not_answered_is_dead),
	    CORE_TEST(proxy__who_stood_still_calls_nobody_dead), CORE_TEST(proxy__long_report_ends),
	    cmocka_unit_test(proxy__soon_due_reports_ride),
	    cmocka_unit_test(proxy__rebuild_near_edge),
	    cmocka_unit_test(proxy__rebuild_far_edge),
	    cmocka_unit_test(proxy__rebuild_both_edges),
	    CORE_TEST(proxy__rebuilt_edge_acks_before_the_wan_is_back),
	    CORE_TEST(proxy__rebuilt_edge_knows_what_far_has_acked),
	    CORE_TEST(proxy__rebuilt_idle_flow_keeps_counting),
	    CORE_TEST(proxy__half_a_packet_and_a_crash),
	    CORE_TEST(proxy__flows_are_listed),
	    CORE_TEST(proxy__no_failed_flow_is_nameless),
	    CORE_TEST(proxy__events_are_bounded),
	    CORE_TEST(proxy__flow_table_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
