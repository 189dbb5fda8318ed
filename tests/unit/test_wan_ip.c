/* SPDX-License-Identifier: Apache-2.0 */
/* A lane that carries nothing but TCP hears what becomes of it, though no packet is repaired: for the path's rate, for
 * its key, and to find that its source port brings nothing. */
#include "core_fixture.h"

#include "proxy/carry/ip_frame.h"
#include "proxy/wan/wan_lane_priv.h"

enum { POOL = 4 << 20, DATA = 200, OVERHEAD = 66 };

struct line {
	int lane;             /* -1: any */
	uint32_t lose;        /* further datagrams from A that get lost */
	uint64_t data;        /* datagrams with packets, from A */
	uint64_t most, bytes; /* of them: the largest, and all, with what a line adds */
};

static bool carries(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	struct line *k = c->arg;
	struct wan_hdr h;

	assert_int_equal(wan_hdr_get(dgram, len, &h), DROP_NONE);
	if (from != &c->a || (k->lane >= 0 && h.lane != k->lane))
		return true;
	if (len > DATA) {
		k->data++;
		k->most = max_u64(k->most, len);
		k->bytes += len + OVERHEAD;
	}
	if (!k->lose)
		return true;
	k->lose--;
	return false;
}

static struct lane *tcp_lane(const struct core *c)
{
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);

	return lane_of(c->a.p, proxy_lane_between(&c->a.cfg, &src, &dst));
}

static struct pn_space *space_of(const struct core *c)
{
	return &tcp_lane(c)->space[0];
}

/* Two edges that carry IP, at a rate that is looked for, and a quiet line. */
static struct core *given_tcp(void **state)
{
	static struct line line;
	struct core *c = core_given(state, ACK_MODE_NEAR);

	for (int i = 0; i < 2; i++) {
		struct core_edge *e = i ? &c->b : &c->a;

		e->cfg.barrier = BARRIER_PAIR;
		e->cfg.ip_pool_bytes = POOL;
		rate_choose(&e->pacer.control, RATE_auto, 1000000000000ull);
		core_begin(e, 77u + (unsigned)i);
	}
	core_session(c);
	core_wait(c, 10 * CORE_MS);
	line = (struct line){.lane = -1};
	c->arg = &line;
	c->wan = carries;
	return c;
}

/* A TCP segment with so many bytes. */
static void say_only(struct core *c, size_t data)
{
	uint8_t l3[LAN_IP_MAX] = {0};

	assert_true(40 + data <= sizeof(l3));
	core_tcp_header(l3, 0x18, data);
	assert_int_equal(proxy_lan_rx(c->a.p, c->now_ns, l3, 40 + data, 0), DROP_NONE);
}

/* And it leaves A at once. */
static void say(struct core *c, size_t data)
{
	say_only(c, data);
	core_pump(c);
}

static uint64_t delivered(const struct core *c)
{
	return atomic_load(&c->a.pacer.control.delivered_bytes);
}

static uint64_t lost(const struct core *c)
{
	return atomic_load(&c->a.pacer.control.lost_bytes);
}

static void wan_ip__is_counted_as_delivered(void **state)
{
	struct core *c = given_tcp(state);
	struct line *k = c->arg;
	uint64_t before = delivered(c);

	for (int i = 0; i < 10; i++) {
		for (int n = 0; n < 10; n++)
			say(c, DATA);
		core_wait(c, CORE_MS);
	}
	say(c, DATA);
	core_wait(c, CORE_MS);
	assert_int_equal(k->data, 101);
	assert_in_range(delivered(c) - before, k->bytes, k->bytes + 2000);
	assert_int_equal(lost(c), 0);
	assert_int_equal(atomic_load(&c->a.pacer.control.in_flight_bytes), 0);
	assert_true(space_of(c)->sent.entries_in_flight == 0);
}

/* An edge changes its key only when the peer has told of datagrams under the last one. */
static void wan_ip__numbers_are_told(void **state)
{
	struct core *c = given_tcp(state);
	uint64_t before = space_of(c)->acked_end;

	for (int i = 0; i < 10; i++)
		say(c, DATA);
	core_wait(c, CORE_MS);
	say(c, DATA);
	core_wait(c, CORE_MS);
	assert_true(space_of(c)->acked_end >= before + 11);
}

/* What asks goes along, and is answered with one report for all. */
static void wan_ip__asks_in_passing(void **state)
{
	struct core *c = given_tcp(state);
	uint64_t before = c->dgrams;
	struct line *k = c->arg;

	for (int i = 0; i < 100; i++)
		say(c, DATA);
	core_wait(c, 5 * CORE_MS);
	assert_int_equal(k->data, 100);
	assert_in_range(c->dgrams - before, 101, 103);
}

/* A lost one is not sent again, and stands for the few that did not ask before it. */
static void wan_ip__lost_ping_stands_for_few(void **state)
{
	struct core *c = given_tcp(state);
	struct line *k = c->arg;
	uint64_t before = delivered(c);

	for (int n = 0; n < 20; n++)
		say(c, DATA);
	core_wait(c, CORE_MS);
	k->lose = 1;
	for (int n = 0; n < 21; n++)
		say(c, DATA);
	core_wait(c, 50 * CORE_MS);
	assert_in_range(lost(c), 1, 8 * (k->most + OVERHEAD));
	assert_int_equal(core_ctr(&c->a, CTR_WAN_LOST), 1);
	assert_int_equal(core_ctr(&c->a, CTR_WAN_REPAIRS), 0);
	say(c, DATA);
	core_wait(c, CORE_MS);
	assert_int_equal(k->data, 42);
	assert_in_range(delivered(c) + lost(c) - before, k->bytes, k->bytes + 2000);
	assert_int_equal(atomic_load(&c->a.pacer.control.in_flight_bytes), 0);
}

/* No packet is cut for a PING. */
static void wan_ip__full_datagram_stays_whole(void **state)
{
	struct core *c = given_tcp(state);
	struct line *k = c->arg;
	size_t room = c->a.p->wan->path[0].payload_max - WAN_HDR_LEN - WAN_TAG_LEN - WAN_IP_OVERHEAD - 40;
	uint64_t before = space_of(c)->acked_end;

	say(c, room);
	core_wait(c, CORE_MS);
	assert_int_equal(k->data, 1);
	assert_int_equal(k->most, c->a.p->wan->path[0].payload_max);
	assert_true(space_of(c)->acked_end >= before + 2);
	assert_int_equal(core_pending(&c->b), 1);
}

/* Its member of a bundle delivers nothing, others do. */
static void wan_ip__lane_moves_off_a_dead_member(void **state)
{
	struct core *c = given_tcp(state);
	struct line *k = c->arg;
	struct lane *other = &c->a.p->wan->lanes[1 - tcp_lane(c)->id];

	k->lane = tcp_lane(c)->id;
	k->lose = UINT32_MAX;
	for (int i = 0; i < 50; i++) {
		say(c, DATA);
		other->space[0].ping_due = true;
		wan_lane_schedule(c->a.p, other);
		core_wait(c, 10 * CORE_MS);
	}
	assert_true(space_of(c)->moves > 0);
	assert_true(core_event(&c->a, EV_LANE_MOVED));
}

/* --- a line of 1 Gbit/s and 10 ms that TCP would overfill --- */

#define LINE_BPS 1000000000ull
#define ONE_WAY  (5 * CORE_MS)
#define BUFFER   (10 * CORE_MS)

struct under_way {
	size_t len;
	uint64_t at_ns;
	uint8_t dgram[WAN_MTU_MAX];
};

static struct way {
	struct under_way ring[4096];
	uint32_t head, tail;
	uint64_t busy_ns; /* the line is, until then */
} ways[2];

static bool on_line(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	struct way *w = &ways[from == &c->b];
	struct under_way *u = &w->ring[w->head % 4096];

	w->busy_ns = max_u64(w->busy_ns, c->now_ns);
	if (w->busy_ns - c->now_ns > BUFFER)
		return false;
	w->busy_ns += (len + OVERHEAD) * 8000000000ull / LINE_BPS;
	assert_true(++w->head - w->tail <= 4096);
	u->at_ns = w->busy_ns + ONE_WAY;
	u->len = len;
	memcpy(u->dgram, dgram, len);
	return false; /* it comes later */
}

static uint64_t next_ns(const struct core *c)
{
	uint64_t next = min_u64(proxy_next_wake(c->a.p, c->now_ns), proxy_next_wake(c->b.p, c->now_ns));

	for (int i = 0; i < 2; i++)
		if (ways[i].head != ways[i].tail)
			next = min_u64(next, ways[i].ring[ways[i].tail % 4096].at_ns);
	return max_u64(next, c->now_ns + 1);
}

static void arrive(struct core *c)
{
	for (int i = 0; i < 2; i++)
		for (struct way *w = &ways[i]; w->head != w->tail; w->tail++) {
			struct under_way *u = &w->ring[w->tail % 4096];

			if (u->at_ns > c->now_ns)
				break;
			proxy_wan_rx(i ? c->a.p : c->b.p, c->now_ns, u->dgram, u->len, false);
		}
}

/* More than the line takes is always there. Returns the bytes that came to host B until then. */
static uint64_t carry_until(struct core *c, uint64_t end_ns)
{
	struct lan_tx tx;
	uint64_t bytes = 0;
	size_t n;

	for (; c->now_ns < end_ns; c->now_ns = next_ns(c), arrive(c)) {
		proxy_tick(c->a.p, c->now_ns);
		proxy_tick(c->b.p, c->now_ns);
		for (bool more = true; more; more |= core_carry(c, &c->b, &c->a)) {
			for (int i = 0; i < 8 && dlist_empty(&tcp_lane(c)->ready[SOURCE_IP]); i++)
				say_only(c, 8000);
			more = core_carry(c, &c->a, &c->b);
		}
		while ((n = proxy_lan_tx(c->b.p, c->now_ns, &tx)) > 0)
			bytes += n;
	}
	return bytes;
}

static void wan_ip__auto_finds_the_line(void **state)
{
	struct core *c = given_tcp(state);
	uint64_t bytes, begin;

	memset(ways, 0, sizeof(ways));
	for (int i = 0; i < 2; i++) {
		struct core_edge *e = i ? &c->b : &c->a;

		wan_pacer_init(&e->pacer, 10 * LINE_BPS, OVERHEAD, 20000);
		rate_choose(&e->pacer.control, RATE_auto, 10 * LINE_BPS);
		e->cfg.rate_hint_bps = 10 * LINE_BPS;
		e->cfg.rtt_hint_ns = 2 * ONE_WAY;
		core_begin(e, 77u + (unsigned)i);
	}
	c->wan = on_line;
	core_session(c);
	begin = c->now_ns;
	carry_until(c, begin + 1000 * CORE_MS);
	bytes = carry_until(c, begin + 3000 * CORE_MS);
	assert_in_range(bytes * 8 / 2, LINE_BPS / 10 * 9, LINE_BPS);
	assert_in_range(atomic_load(&c->a.pacer.rate_bps), LINE_BPS / 10 * 7, LINE_BPS / 10 * 13);
	c->wan = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(wan_ip__is_counted_as_delivered),   CORE_TEST(wan_ip__numbers_are_told),
	    CORE_TEST(wan_ip__asks_in_passing),           CORE_TEST(wan_ip__lost_ping_stands_for_few),
	    CORE_TEST(wan_ip__full_datagram_stays_whole), CORE_TEST(wan_ip__lane_moves_off_a_dead_member),
	    CORE_TEST(wan_ip__auto_finds_the_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
