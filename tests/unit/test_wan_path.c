/* SPDX-License-Identifier: Apache-2.0 */
/* Two paths between two edges: what is spread, what dies, what comes back. A path is cut by losing its datagrams. */
#include "core_fixture.h"

#include "proxy/wan/wan_path.h"
#include "proxy/wan/wan_seal.h"
#include "proxy/wan/wan_path_sched.h"

struct cuts {
	bool cut[2];
	uint64_t data[2]; /* datagrams with packets, from A */
	bool hold;        /* what B sends on the second path comes later: the last of it is kept */
	uint8_t held[WAN_MTU_MAX];
	size_t held_len;
};

static bool carries(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	struct cuts *k = c->arg;

	assert_true(dgram[2] < 2);
	if (from == &c->a && len > 200)
		k->data[dgram[2]]++;
	if (k->hold && from == &c->b && dgram[2] == 1) {
		memcpy(k->held, dgram, len);
		k->held_len = len;
		return false;
	}
	return !k->cut[dgram[2]];
}

/* A flow whose PSN 0 is delivered, and time for both paths to come up; c->arg cuts them. */
static struct core *given_two_paths(void **state)
{
	static struct cuts cuts;
	struct core *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	cuts = (struct cuts){0};
	c->now_ns = CORE_START;
	c->npaths = 2;
	c->wan = carries;
	c->arg = &cuts;
	core_edges_open(c, ACK_MODE_NEAR, 64, 64);
	core_session(c);
	core_pair(c, 0);
	core_wait(c, 3 * CORE_MS);
	*state = c;
	return c;
}

static enum path_state state_of(const struct core_edge *e, uint32_t path)
{
	return e->p->wan->path[path].state;
}

static void expect_run(struct core *c, uint32_t psn, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		core_expect(&c->b, RC_WRITE_ONLY, psn + i);
}

static void wan_path__both_are_up_after_a_round_trip(void **state)
{
	struct core *c = given_two_paths(state);

	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(state_of(&c->a, i), PATH_UP);
		assert_int_equal(state_of(&c->b, i), PATH_UP);
	}
	assert_int_equal(wan_paths_usable(c->a.p), 3);
}

/* Each takes what its pacer gives it. */
static void wan_path__a_full_line_uses_each_at_its_rate(void **state)
{
	struct core *c = given_two_paths(state);
	struct cuts *k = c->arg;

	wan_pacer_init(&c->a.pacer, 3000000000ull, 66, 1000);
	wan_pacer_init(&c->a.second, 1000000000ull, 66, 1000);
	memset(k->data, 0, sizeof(k->data));
	for (uint32_t at = 0; at < 400; at += 50) {
		core_send_run(c, 1 + at, 50);
		core_wait(c, CORE_MS);
		core_forget(&c->a);
		expect_run(c, 1 + at, 50);
		core_ack(c, at + 50, AETH_ACK_NO_CREDITS, at + 51);
	}
	assert_true(k->data[1] > 10);
	assert_in_range(k->data[0], 2 * k->data[1], 4 * k->data[1]);
}

/* 20 packets while the second path is the quicker one: who takes them? */
static void send_20_and_count(struct core *c, uint32_t psn)
{
	struct cuts *k = c->arg;

	c->a.p->wan->path[0].rtt.smoothed_ns = 5 * CORE_MS;
	c->a.p->wan->path[1].rtt.smoothed_ns = 2 * CORE_MS;
	memset(k->data, 0, sizeof(k->data));
	core_send_run(c, psn, 20);
}

static void wan_path__without_need_the_quickest(void **state)
{
	struct core *c = given_two_paths(state);
	struct cuts *k = c->arg;

	send_20_and_count(c, 1);
	assert_true(k->data[1] > 0);
	assert_int_equal(k->data[0], 0);
	/* a weight makes up for three times the round trip, a loss of one in two for more than that */
	c->a.p->wan->path[0].weight = 3;
	send_20_and_count(c, 21);
	assert_int_equal(k->data[1], 0);
	c->a.p->wan->path[0].loss_ppm = 500000;
	send_20_and_count(c, 41);
	assert_int_equal(k->data[0], 0);
}

/* Found within the stated time, and what was under way is there at once; nobody is told of a loss. */
static void wan_path__death(void **state)
{
	struct core *c = given_two_paths(state);
	struct cuts *k = c->arg;
	uint64_t cut_ns, patience;

	core_event(&c->a, EV_PATH_DEAD);
	c->a.p->wan->path[1].weight = 100; /* all go by the second */
	k->cut[1] = true;
	cut_ns = c->now_ns;
	patience = wan_path_patience_ns(c->a.p, &c->a.p->wan->path[1]);
	assert_true(patience <= 3 * wan_rtt_ns(&c->a.p->wan->path[1].rtt) + 10 * CORE_MS + 4 * c->a.p->wan->path[1].rtt.var_ns);
	core_send_run(c, 1, 20);
	assert_int_equal(core_pending(&c->b), 0);
	core_wait(c, patience - 1);
	assert_int_equal(state_of(&c->a, 1), PATH_UP);
	core_wait(c, 2);
	assert_int_equal(state_of(&c->a, 1), PATH_DEAD);
	assert_true(c->a.p->wan->path[1].since_ns <= cut_ns + patience + 1);
	assert_true(core_event(&c->a, EV_PATH_DEAD));
	expect_run(c, 1, 20);
	assert_true(c->a.p->wan->path[1].stats.moved >= 2);
	assert_int_equal(core_ctr(&c->a, CTR_WAN_LOST), 0);
	/* and from now on by the other at once */
	core_send_run(c, 21, 5);
	expect_run(c, 21, 5);
}

/* An edge whose processor is taken away is late, not gone: it is used again with its first word, and given more
 * time. */
static void wan_path__slow_is_not_dead(void **state)
{
	struct core *c = given_two_paths(state);
	struct cuts *k = c->arg;
	uint64_t patience;

	c->a.p->wan->path[1].weight = 100;
	patience = wan_path_patience_ns(c->a.p, &c->a.p->wan->path[1]);
	k->hold = true;
	core_send_run(c, 1, 20);
	core_wait(c, patience + 1);
	assert_int_equal(state_of(&c->a, 1), PATH_DEAD);
	assert_true(k->held_len > 0);
	k->hold = false;
	proxy_wan_rx(c->a.p, c->now_ns, k->held, k->held_len, false);
	assert_int_equal(state_of(&c->a, 1), PATH_UP);
	assert_int_equal(core_ctr(&c->a, CTR_WAN_PATH_SLOW), 1);
	assert_true(wan_path_patience_ns(c->a.p, &c->a.p->wan->path[1]) >= patience + 5 * CORE_MS);
	/* the same again is told once */
	proxy_wan_rx(c->a.p, c->now_ns, k->held, k->held_len, false);
	assert_int_equal(core_ctr(&c->a, CTR_WAN_PATH_SLOW), 1);
	core_wait(c, CORE_MS);
	expect_run(c, 1, 20);
}

/* Much that nobody answers is no accident: one round trip is enough. */
static void wan_path__much_unanswered_shortens_patience(void **state)
{
	struct wan_path path = {.state = PATH_UP, .waiting = 31};

	(void)state;
	wan_rtt_init(&path.rtt, 10 * CORE_MS);
	assert_int_equal(wan_path_patience_ns(NULL, &path), 30 * CORE_MS);
	path.waiting = 32;
	assert_int_equal(wan_path_patience_ns(NULL, &path), 20 * CORE_MS);
	path.rtt.var_ns = 3 * CORE_MS; /* a line that wavers is given more */
	assert_int_equal(wan_path_patience_ns(NULL, &path), 22 * CORE_MS);
}

/* Each datagram that arrived counts, however many one report tells of. */
static void wan_path__loss_is_of_all_datagrams(void **state)
{
	struct core *c = given_two_paths(state);
	struct wan_path *path = &c->a.p->wan->path[1];

	path->loss_ppm = 0;
	for (int i = 0; i < 100; i++) { /* 5 of 500 */
		for (int n = 0; n < 5; n++)
			wan_path_lost(path, path->places++);
		wan_path_answered(c->a.p, path, &(struct wan_sent_result){.newly_acked = 495});
	}
	assert_in_range(path->loss_ppm, 4000, 11000); /* behind 495 that arrived */
	for (int n = 0; n < 5; n++)
		wan_path_lost(path, path->places++);
	assert_in_range(path->loss_ppm, 9000, 18000);
}

/* Of one that has never answered only a hint is known; it is given as much time as the longest of the others takes, at
 * most. */
static void wan_path__a_new_one_is_like_the_others(void **state)
{
	struct core *c = given_two_paths(state);
	struct wan_path *path;

	path = c->a.p->wan->path;
	wan_rtt_init(&path[1].rtt, 100 * CORE_MS);
	path[0].rtt.smoothed_ns = 30 * CORE_MS;
	assert_int_equal(wan_path_patience_ns(c->a.p, &path[1]), 210 * CORE_MS);
	path[1].state = PATH_NEW;
	assert_int_equal(wan_path_patience_ns(c->a.p, &path[1]), 70 * CORE_MS);
	path[0].rtt.smoothed_ns = 200 * CORE_MS;
	assert_int_equal(wan_path_patience_ns(c->a.p, &path[1]), 210 * CORE_MS);
	path[0].state = PATH_NEW;
	path[0].rtt.smoothed_ns = 30 * CORE_MS;
	assert_int_equal(wan_path_patience_ns(c->a.p, &path[1]), 210 * CORE_MS);
}

/* One that never answers is found dead in that time. */
static void wan_path__stillborn(void **state)
{
	struct cuts k = {.cut[1] = true};
	struct core c = {.now_ns = CORE_START, .npaths = 2, .wan = carries, .arg = &k};

	(void)state;
	core_edges_open(&c, ACK_MODE_NEAR, 64, 64);
	wan_rtt_init(&c.a.p->wan->path[0].rtt, 1000 * CORE_MS);
	wan_rtt_init(&c.a.p->wan->path[1].rtt, 1000 * CORE_MS);
	core_session(&c);
	core_wait(&c, 3 * CORE_MS);
	assert_int_equal(state_of(&c.a, 0), PATH_UP);
	assert_int_equal(state_of(&c.a, 1), PATH_NEW);
	core_wait(&c, 12 * CORE_MS);
	assert_int_equal(state_of(&c.a, 1), PATH_DEAD);
	core_close(&c);
}

static void wan_path__an_idle_path_is_missed_too(void **state)
{
	struct core *c = given_two_paths(state);
	struct cuts *k = c->arg;

	k->cut[1] = true;
	core_wait(c, c->a.cfg.keepalive_ns + 40 * CORE_MS);
	assert_int_equal(state_of(&c->a, 1), PATH_DEAD);
	assert_int_equal(state_of(&c->b, 1), PATH_DEAD);
	assert_int_equal(state_of(&c->a, 0), PATH_UP);
}

static void wan_path__one_way_is_no_way(void **state)
{
	struct core *c = given_two_paths(state);
	struct cuts *k = c->arg;

	c->b.p->wan->path[1].state = PATH_UP;
	k->cut[1] = true;
	core_wait(c, 300 * CORE_MS);
	/* B is heard on it, but answers nothing of what A sends there */
	c->wan = NULL;
	c->a.p->wan->path[1].stats.rx_dgrams = 0;
	for (int i = 0; i < 20; i++) {
		uint8_t dgram[WAN_HDR_LEN + WAN_FRAME_HDR_LEN + WAN_TAG_LEN];
		struct wan_hdr h = {.path = 1, .epoch = c->a.p->session.epoch_rx, .wan_pn = 500u + (unsigned)i};
		size_t n = wan_hdr_put(dgram, &h);

		n += wan_ping_put(dgram + n, sizeof(dgram) - n);
		n = wan_seal_datagram(&c->a.cfg, &h, dgram, n, NULL, 0);
		assert_int_equal(proxy_wan_rx(c->a.p, c->now_ns, dgram, n, false), DROP_NONE);
	}
	assert_int_equal(c->a.p->wan->path[1].stats.rx_dgrams, 20);
	assert_int_equal(state_of(&c->a, 1), PATH_DEAD);
}

static void wan_path__comes_back(void **state)
{
	struct core *c = given_two_paths(state);
	struct cuts *k = c->arg;

	k->cut[1] = true;
	core_wait(c, 5000 * CORE_MS);
	assert_int_equal(state_of(&c->a, 1), PATH_DEAD);
	assert_true(c->a.p->wan->lanes[0].space[1].sent.entries_in_flight <= 128); /* of probes */
	core_event(&c->a, EV_PATH_UP);
	k->cut[1] = false;
	core_wait(c, c->a.cfg.keepalive_ns + 100 * CORE_MS);
	assert_int_equal(state_of(&c->a, 1), PATH_UP);
	assert_true(core_event(&c->a, EV_PATH_UP));
	assert_int_equal(wan_paths_usable(c->a.p), 3);
}

/* The member of a bundle below the source port of the probes is dead, the others live: the probes change the port until
 * they are answered, and only as long. */
static void wan_path__probes_leave_a_dead_member(void **state)
{
	struct core *c = given_two_paths(state);
	struct cuts *k = c->arg;
	struct pn_space *a = &c->a.p->wan->lanes[0].space[1], *b = &c->b.p->wan->lanes[0].space[1];
	uint8_t from_a = a->moves, from_b = b->moves;

	k->cut[1] = true;
	for (int i = 0; i < 300 && (a->moves == from_a || b->moves == from_b); i++)
		core_wait(c, 10 * CORE_MS);
	assert_int_equal(state_of(&c->a, 1), PATH_DEAD);
	assert_int_equal(a->moves, from_a + 1);
	assert_int_equal(c->a.p->wan->lanes[0].space[0].moves, 0);
	core_wait(c, 2000 * CORE_MS); /* the next port's member is dead, too */
	assert_in_range(a->moves, from_a + 4, from_a + 7);
	k->cut[1] = false;
	from_a = a->moves;
	core_wait(c, c->a.cfg.keepalive_ns + 300 * CORE_MS);
	assert_int_equal(state_of(&c->a, 1), PATH_UP);
	assert_int_equal(a->moves, from_a);
}

/* A worker that was held up has not heard what waits in its sockets: no path is dead for that. */
static void wan_path__own_standstill(void **state)
{
	struct core *c = given_two_paths(state);
	struct cuts *k = c->arg;

	c->a.p->wan->path[1].weight = 100;
	k->cut[1] = true;
	core_send_run(c, 1, 20);
	c->now_ns += wan_path_patience_ns(c->a.p, &c->a.p->wan->path[1]) + 50 * CORE_MS;
	proxy_tick(c->a.p, c->now_ns);
	assert_int_equal(state_of(&c->a, 1), PATH_UP);
	core_wait(c, 2 * CORE_MS); /* but if it is silent still */
	assert_int_equal(state_of(&c->a, 1), PATH_DEAD);
}

/* But one whose every timer is late finds a death all the same. */
static void wan_path__always_late(void **state)
{
	struct core *c = given_two_paths(state);
	struct cuts *k = c->arg;

	c->a.p->wan->path[1].weight = 100;
	k->cut[1] = true;
	core_send_run(c, 1, 20);
	for (int i = 0; i < 20 && state_of(&c->a, 1) == PATH_UP; i++) {
		c->now_ns += 5 * CORE_MS;
		proxy_tick(c->a.p, c->now_ns);
	}
	assert_int_equal(state_of(&c->a, 1), PATH_DEAD);
}

/* What went out on a path of which nothing was known yet is asked about once it answers. */
static void wan_path__new_one_answers_after_all(void **state)
{
	struct core *c = given_two_paths(state);
	struct cuts *k = c->arg;
	struct wan_path *path = &c->a.p->wan->path[1];
	struct lane *l = &c->a.p->wan->lanes[proxy_lane_between(&c->a.cfg, &core_near(c)->src, &core_near(c)->dst)];

	path->weight = 100;
	k->cut[1] = true;
	core_send_run(c, 1, 20);
	assert_true(l->space[1].sent.entries_in_flight > 0);
	path->state = PATH_NEW; /* as if its first packets had been these */
	timer_cancel(&c->a.p->timers, &l->service);
	k->cut[1] = false;
	wan_path_answered(c->a.p, path, &(struct wan_sent_result){.newly_acked = 1}); /* those of another lane */
	assert_int_equal(path->state, PATH_UP);
	core_wait(c, 20 * CORE_MS);
	expect_run(c, 1, 20);
}

/* A path that dies again and again has to answer longer each time. */
static void wan_path__flapping(void **state)
{
	struct core *c = given_two_paths(state);
	struct cuts *k = c->arg;
	uint64_t took_ns[4];

	for (int i = 0; i < 4; i++) {
		uint64_t from_ns;

		k->cut[1] = true;
		core_wait(c, 2000 * CORE_MS);
		assert_int_equal(state_of(&c->a, 1), PATH_DEAD);
		k->cut[1] = false;
		from_ns = c->now_ns;
		while (state_of(&c->a, 1) == PATH_DEAD && c->now_ns < from_ns + 5000 * CORE_MS)
			core_wait(c, CORE_MS);
		assert_int_equal(state_of(&c->a, 1), PATH_UP);
		took_ns[i] = c->now_ns - from_ns;
	}
	assert_true(took_ns[3] > took_ns[0] + 50 * CORE_MS);
	assert_true(took_ns[3] < 1000 * CORE_MS);
}

/* All dead: nothing is given up, and whichever comes back carries it. */
static void all_die_and_one_returns(void **state, uint32_t path)
{
	struct core *c = given_two_paths(state);
	struct cuts *k = c->arg;

	k->cut[0] = k->cut[1] = true;
	core_send_run(c, 1, 30);
	core_wait(c, 3000 * CORE_MS);
	assert_int_equal(state_of(&c->a, 0), PATH_DEAD);
	assert_int_equal(state_of(&c->a, 1), PATH_DEAD);
	assert_int_not_equal(wan_paths_usable(c->a.p), 0);
	assert_true(core_event(&c->a, EV_WAN_DEAD));
	k->cut[path] = false;
	core_wait(c, 1000 * CORE_MS);
	expect_run(c, 1, 30);
}

static void wan_path__all_dead_and_the_first_returns(void **state)
{
	all_die_and_one_returns(state, 0);
}

static void wan_path__all_dead_and_the_second_returns(void **state)
{
	all_die_and_one_returns(state, 1);
}

static void wan_path__standby(void **state)
{
	struct core *c = given_two_paths(state);
	struct cuts *k = c->arg;

	c->a.p->wan->path[1].weight = 0;
	core_session(c);
	core_wait(c, 3 * CORE_MS);
	wan_pacer_init(&c->a.pacer, 1000000000ull, 66, 1000); /* however full the other is */
	memset(k->data, 0, sizeof(k->data));
	core_send_run(c, 1, 40);
	core_wait(c, 5 * CORE_MS);
	assert_int_equal(k->data[1], 0);
	core_forget(&c->b);
	k->cut[0] = true;
	core_send_run(c, 41, 40);
	core_wait(c, 100 * CORE_MS);
	assert_true(k->data[1] > 0);
	expect_run(c, 41, 40);
}

/* The last packets that went by a standby path were lost there, and another path is in use again: the lane asks about
 * them, as no later datagram of it goes by the standby path. */
static void wan_path__standby_that_is_no_longer_needed(void **state)
{
	struct core *c = given_two_paths(state);
	struct wan_path *path = c->a.p->wan->path;
	struct cuts *k = c->arg;

	path[1].weight = 0;
	core_session(c);
	core_wait(c, 3 * CORE_MS);
	k->cut[0] = true;
	core_send_run(c, 1, 20);
	core_wait(c, 100 * CORE_MS);
	expect_run(c, 1, 20);
	core_ack(c, 20, AETH_ACK_NO_CREDITS, 21);
	core_forget(&c->b);
	assert_int_equal(state_of(&c->a, 0), PATH_DEAD);
	k->cut[1] = true;
	core_send_run(c, 21, 20);
	k->cut[0] = k->cut[1] = false;
	for (int i = 0; i < 8 && path[0].state != PATH_UP; i++)
		wan_path_answered(c->a.p, &path[0], &(struct wan_sent_result){.newly_acked = 1});
	wan_path_answered(c->a.p, &path[1], &(struct wan_sent_result){.newly_acked = 1}); /* to another lane */
	assert_int_equal(wan_paths_usable(c->a.p), 1);
	core_wait(c, 500 * CORE_MS);
	assert_int_equal(path[1].stats.deaths, 0); /* then all would go again */
	expect_run(c, 21, 20);
}

/* The sent map holds what the line does, also where the search for a size ends at the least. */
static void wan_path__sent_map_suits_small_datagrams(void **state)
{
	struct core *c = given_two_paths(state);
	uint64_t line_bytes = 25000000000ull / 8 * 40 / 1000;

	c->a.cfg.rate_hint_bps = 25000000000ull;
	c->a.cfg.rtt_hint_ns = 40 * CORE_MS;
	core_begin(&c->a, 1);
	assert_true(c->a.p->wan->sent_pool.n * 64ull * c->a.cfg.path[0].payload_max >= 4 * line_bytes);
	c->a.cfg.path[0].payload_search = true;
	core_begin(&c->a, 1);
	assert_true(c->a.p->wan->sent_pool.n * 64ull * PMTU_BASE >= 2 * line_bytes);
	assert_true(c->a.p->wan->sent_pool.n * sizeof(struct sent_page) < 64u << 20);
}

/* The same number on two paths names two datagrams. */
static void wan_path__numbers_are_the_paths_own(void **state)
{
	struct core *c = given_two_paths(state);
	uint8_t dgram[WAN_HDR_LEN + WAN_FRAME_HDR_LEN + WAN_TAG_LEN];

	for (uint8_t path = 0; path < 3; path++) {
		struct wan_hdr h = {.path = path, .epoch = c->b.p->session.epoch_rx, .wan_pn = 1000};
		size_t n = wan_hdr_put(dgram, &h);
		enum proxy_drop d;

		n += wan_ping_put(dgram + n, sizeof(dgram) - n);
		n = wan_seal_datagram(&c->b.cfg, &h, dgram, n, NULL, 0);
		d = proxy_wan_rx(c->b.p, c->now_ns, dgram, n, false);
		assert_int_equal(d, path < 2 ? DROP_NONE : DROP_WAN_BAD_PATH);
		if (path < 2)
			assert_int_equal(proxy_wan_rx(c->b.p, c->now_ns, dgram, n, false), DROP_WAN_DUPLICATE);
	}
}

/* TCP takes reordering for loss: one lane's IP packets go by one path, which may be any that is nearly as quick. */
static void wan_path__ip_keeps_to_one(void **state)
{
	struct core *c = given_two_paths(state);
	struct proxy *p;

	p = c->a.p;
	p->wan->path[0].rtt.smoothed_ns = 10 * CORE_MS;
	p->wan->path[1].rtt.smoothed_ns = 11 * CORE_MS;
	wan_path_sched_sort(p);
	for (uint32_t lane = 0; lane < 2; lane++)
		assert_true(wan_path_sched_keeps_order(p, &p->wan->lanes[lane], &p->wan->path[0]) !=
		            wan_path_sched_keeps_order(p, &p->wan->lanes[lane], &p->wan->path[1]));
	assert_true(wan_path_sched_keeps_order(p, &p->wan->lanes[1], &p->wan->path[1]));
	p->wan->path[1].rtt.smoothed_ns = 20 * CORE_MS;
	wan_path_sched_sort(p);
	assert_true(wan_path_sched_keeps_order(p, &p->wan->lanes[1], &p->wan->path[0]));
}

/* The worker has had its part of the line long ago, and others have flows: a flow's first packet goes all the same. */
static void wan_path__a_first_packet_does_not_wait_for_the_part(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct proxy *p = c->a.p;
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);

	core_one_of(&c->a, 2, proxy_lane(&src, &dst, p->cfg.nlanes));
	wan_pacer_set_burst(&c->a.pacer, 40000000);
	for (int first = 1; first >= 0; first--) {
		c->now_ns += CORE_MS;
		p->wan->path[0].part = (struct pacer_part){.next = (c->now_ns + 700 * CORE_MS) * PACER_FRACTION,
		                                           .told_ns = c->now_ns,
		                                           .own = 1,
		                                           .all = 1001};
		atomic_store(&c->a.pacer.next, c->now_ns * PACER_FRACTION);
		assert_int_equal(core_send(c, RC_WRITE_ONLY, first ? 0 : 1), DROP_NONE);
		for (int i = 0; i < 20; i++, c->now_ns += CORE_US)
			core_pump(c);
		assert_int_equal(core_pending(&c->b), first);
		core_forget(&c->b);
	}
	core_one_of(&c->a, 1, 0);
	core_wait(c, CORE_MS);
}

/* Flows are told on the paths that the worker uses: on a dead one they would take parts from workers that it carries. */
static void wan_path__flows_are_told_where_they_may_go(void **state)
{
	struct core *c = given_two_paths(state);
	struct proxy *p = c->a.p;

	core_one_of(&c->a, 2, 0);
	for (int dead = 0; dead < 2; dead++) {
		p->wan->paths_usable = dead ? 1 : 3;
		p->near_wanting += 5;
		p->wan->packets_sent_ns = p->now_ns = c->now_ns += CORE_MS;
		wan_paths_tell_flows(p);
		p->near_wanting -= 5;
		assert_int_equal((uint32_t)atomic_load(&c->a.pacer.flows[0]), 5);
		assert_int_equal((uint32_t)atomic_load(&c->a.second.flows[0]), dead ? 0 : 5);
	}
	/* The part of the line is that of a path in use: with the other shard's 15 flows it is a quarter. */
	p->wan->paths_usable = 2;
	atomic_store(&c->a.second.flows[1], (c->now_ns + CORE_MS) >> 20 << 32 | 15);
	p->near_wanting += 5;
	p->wan->packets_sent_ns = p->now_ns = c->now_ns += CORE_MS;
	wan_paths_tell_flows(p);
	p->near_wanting -= 5;
	assert_int_equal(wan_line_flows(p), 20);
	assert_in_range(wan_line_part_bps(p), wan_line_bps(p) / 4, wan_line_bps(p) / 4 + 1);
	p->wan->paths_usable = 3;
	core_one_of(&c->a, 1, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(wan_path__both_are_up_after_a_round_trip),
	    CORE_TEST(wan_path__a_full_line_uses_each_at_its_rate),
	    CORE_TEST(wan_path__without_need_the_quickest),
	    CORE_TEST(wan_path__death),
	    CORE_TEST(wan_path__slow_is_not_dead),
	    cmocka_unit_test(wan_path__much_unanswered_shortens_patience),
	    CORE_TEST(wan_path__loss_is_of_all_datagrams),
	    CORE_TEST(wan_path__a_new_one_is_like_the_others),
	    cmocka_unit_test(wan_path__stillborn),
	    CORE_TEST(wan_path__an_idle_path_is_missed_too),
	    CORE_TEST(wan_path__one_way_is_no_way),
	    CORE_TEST(wan_path__comes_back),
	    CORE_TEST(wan_path__probes_leave_a_dead_member),
	    CORE_TEST(wan_path__own_standstill),
	    CORE_TEST(wan_path__always_late),
	    CORE_TEST(wan_path__new_one_answers_after_all),
	    CORE_TEST(wan_path__flapping),
	    CORE_TEST(wan_path__all_dead_and_the_first_returns),
	    CORE_TEST(wan_path__all_dead_and_the_second_returns),
	    CORE_TEST(wan_path__standby),
	    CORE_TEST(wan_path__standby_that_is_no_longer_needed),
	    CORE_TEST(wan_path__sent_map_suits_small_datagrams),
	    CORE_TEST(wan_path__numbers_are_the_paths_own),
	    CORE_TEST(wan_path__ip_keeps_to_one),
	    CORE_TEST(wan_path__a_first_packet_does_not_wait_for_the_part),
	    CORE_TEST(wan_path__flows_are_told_where_they_may_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
