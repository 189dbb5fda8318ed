/* SPDX-License-Identifier: Apache-2.0 */
/* The transport alone: two shards of it, with two sources that are neither near nor far, over a line that loses, doubles
 * and overtakes. Nothing but proxy/wan/ and what lies below it is linked (the Makefile sees to that), so this is the
 * proof that the transport knows no role; and it is the shortest complete user of transport.h.
 *
 *   letters   packets in slots, numbered, of all lengths: each must arrive whole, with its bytes. The transport repairs
 *             them; a letter that comes twice is recognised by its number.
 *   gauge     a frame with a number that grows, of which only the newest counts: a lost one is never repaired, but said
 *             anew; and a second frame, expendable, that is never repaired at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proxy/util/bytes.h"
#include "proxy/wan/dgram/wan_units.h"
#include "proxy/wan/slot.h"
#include "proxy/wan/wan.h"
#include "proxy/wan/wan_lane.h"
#include "proxy/wan/wan_seal.h"
#include "proxy/wan/wan_path_sched.h"

enum { LETTERS, GAUGE };               /* source ids */
enum { WF_GAUGE = 0x20, WF_TICK = 0x21 }; /* frame types */

#define KIND_OUT  SLOT_RAW_LAN /* of slots: letters on their way out, and letters that come */
#define KIND_IN   SLOT_RAW_WAN
#define NLETTERS  2000
#define ARENA_LEN (8u << 20)
#define PAYLOAD   1400 /* of a datagram: long letters go in pieces */
#define ONE_WAY   1500000ull /* ns */
#define ON_LINE   4096
#define RING_LEN  1024
#define SENT_PAGES 512

static uint64_t seed = 1;

static uint32_t rnd(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % n;
}

/* --- one end --- */

struct end {
	struct proxy p;
	struct wan wan;
	struct lane lane;
	struct wan_pacer pacer;
	struct timer *heap[64];
	struct sent_page pages[SENT_PAGES];
	uint32_t ring[RING_LEN];
	uint64_t rx_bits[WAN_RECV_WORDS];
	void *region, *arena_heap;
	/* letters */
	uint32_t written, got;
	bool seen[NLETTERS];
	/* gauge */
	struct dnode waits; /* in lane.ready[GAUGE] while a tick is to go */
	uint64_t value, told, ticks_sent, ticks_got, gauges_lost;
	bool due;
};

static struct end *end_of(struct proxy *p)
{
	return (struct end *)((char *)p - offsetof(struct end, p));
}

static uint8_t letter_byte(uint64_t number, uint32_t i)
{
	return (uint8_t)(number * 31 + i);
}

static uint16_t letter_len(uint64_t number)
{
	return (uint16_t)(1 + number * 37 % 4000);
}

/* --- source: letters --- */

static void name_letter(struct proxy *p, const struct slot_hdr *h, struct wan_packet *w)
{
	(void)p;
	(void)h;
	w->kind = 0;
	w->flow = 7;
}

static bool on_letter(struct proxy *p, struct lane *l, const struct wan_packet *w)
{
	struct end *e = end_of(p);
	uint32_t slot = arena_find(p->arena, KIND_IN, 0, w->pos);

	assert_int_equal(w->flow, 7);
	assert_true(w->pos < NLETTERS && w->total == letter_len(w->pos));
	if (e->seen[w->pos])
		return true;
	if (slot == SLOT_NONE)
		slot = slot_take(p, KIND_IN, 0, 0, w->pos, w->total, l->id, false);
	if (slot == SLOT_NONE)
		return false;
	if (!wan_piece_take(p, slot, w))
		return true;
	for (uint32_t i = 0; i < w->total; i++)
		assert_int_equal(arena_data(p->arena, slot)[i], letter_byte(w->pos, i));
	e->seen[w->pos] = true;
	e->got++;
	slot_release(p, slot);
	return true;
}

static const struct wan_source letters = {
    .name = "letters",
    .packets_taken = 1,
    .slot_kinds = 1u << KIND_OUT | 1u << KIND_IN,
    .name_packet = name_letter,
    .on_packet = on_letter,
};

static bool write_letter(struct end *e)
{
	uint64_t n = e->written;
	uint32_t slot = slot_take(&e->p, KIND_OUT, 0, 0, n, letter_len(n), 0, false);

	if (slot == SLOT_NONE)
		return false;
	for (uint32_t i = 0; i < letter_len(n); i++)
		arena_data(e->p.arena, slot)[i] = letter_byte(n, i);
	arena_commit(e->p.arena, slot);
	wan_lane_queue_first(&e->p, &e->lane, slot);
	e->written++;
	return true;
}

/* --- source: gauge --- */

static size_t put_number(uint8_t *at, size_t room, uint8_t type, uint64_t number)
{
	uint8_t *b = wan_frame_begin(at, room, type, 0, 8);

	if (!b)
		return 0;
	put_be64(b, number);
	return WAN_FRAME_HDR_LEN + 8;
}

static void put_gauge(struct proxy *p, struct lane *l, struct wan_build *b, uint64_t until_ns)
{
	struct end *e = end_of(p);
	size_t room, n;
	uint8_t *at = wan_build_room(b, &room);

	(void)l;
	(void)until_ns;
	if (!e->due || !wan_build_places(b) || (n = put_number(at, room, WF_GAUGE, e->value)) == 0)
		return;
	wan_build_frame(b, n, WF_GAUGE, 5, 9);
	e->due = false;
}

static void put_tick(struct proxy *p, struct lane *l, struct wan_build *b)
{
	struct end *e = end_of(p);
	size_t room, n;
	uint8_t *at = wan_build_room(b, &room);

	if (dlist_empty(&l->ready[GAUGE]) || (n = put_number(at, room, WF_TICK, e->ticks_sent)) == 0)
		return;
	wan_build_expendable(b, n);
	e->ticks_sent++;
	dlist_remove(&e->waits);
}

static void set_gauge(struct end *e, uint64_t value)
{
	e->value = value;
	e->due = true;
	dlist_append_once(&e->lane.ready[GAUGE], &e->waits);
	wan_lane_schedule(&e->p, &e->lane);
}

static void gauge_lost(struct proxy *p, struct lane *l, uint8_t type, uint32_t id, uint16_t gen)
{
	assert_int_equal(type, WF_GAUGE);
	assert_int_equal(id, 5);
	assert_int_equal(gen, 9);
	end_of(p)->gauges_lost++;
	end_of(p)->due = true;
	wan_lane_schedule(p, l);
}

static bool on_number(struct proxy *p, struct lane *l, const struct wan_frame *f)
{
	struct end *e = end_of(p);

	(void)l;
	if (f->len != 8)
		return false;
	if (f->type == WF_TICK)
		e->ticks_got++;
	else if (get_be64(f->body) > e->told)
		e->told = get_be64(f->body);
	return true;
}

static const struct wan_source gauge = {
    .name = "gauge",
    .frames_sent = 1ull << WF_GAUGE,
    .frames_taken = 1ull << WF_GAUGE | 1ull << WF_TICK,
    .frames_quiet = 1ull << WF_TICK,
    .put_control = put_gauge,
    .put_new = put_tick,
    .frame_lost = gauge_lost,
    .on_frame = on_number,
};

/* --- the line --- */

struct datagram {
	uint64_t at_ns;
	size_t len;
	int to;
	uint8_t bytes[PAYLOAD];
};

struct world {
	struct end end[2];
	struct datagram *line;
	uint32_t on_line;
	uint64_t now_ns;
	uint32_t lose, doubles, late; /* percent */
};

static void open_end(struct end *e)
{
	struct arena_geometry g = {.len = ARENA_LEN, .chunk_size = 65536, .max_flows = 4, .reserve_percent = 25};
	struct wan_path_config path = {.pacer = &e->pacer, .payload_max = PAYLOAD, .weight = 1};

	e->p.wan = &e->wan;
	e->p.cfg = (struct proxy_config){.nlanes = 1, .nshards = 1, .npaths = 1, .rate_hint_bps = 1000000000, .rtt_hint_ns = 2 * ONE_WAY, .keepalive_ns = 100000000};
	e->p.cfg.path[0] = path;
	e->region = aligned_alloc(1 << 21, g.len);
	memset(e->region, 0, g.len);
	e->arena_heap = aligned_alloc(64, (arena_heap_size(&g) + 63) & ~(size_t)63);
	memset(e->arena_heap, 0, arena_heap_size(&g));
	assert_int_equal(arena_format(&e->p.arena, e->region, &g, 1, e->arena_heap), 0);
	timer_heap_init(&e->p.timers, e->heap, 64);
	timer_init(&e->p.given_timer, TK_GIVEN, 0);
	dlist_init(&e->p.given_resps);
	dlist_init(&e->wan.lane_list);
	e->wan.lanes = &e->lane;
	e->wan.npaths = 1;
	wan_pacer_init(&e->pacer, 1000000000, 66, 100000);
	sent_pool_init(&e->wan.sent_pool, e->pages, SENT_PAGES, 1);
	wan_path_init(&e->wan.path[0], 0, &path, 2 * ONE_WAY);
	transport_register(&e->wan.transport, LETTERS, &letters);
	transport_register(&e->wan.transport, GAUGE, &gauge);
	wan_lane_init(&e->p, &e->lane, 0, e->ring, RING_LEN, e->rx_bits);
	e->p.session_on = e->p.wan_up = true;
	e->p.session.epoch_tx = e->p.session.epoch_rx = 3;
	e->p.work_left = UINT32_MAX;
	wan_paths_session_start(&e->p);
	wan_lane_session_start(&e->p, &e->lane);
}

static void put_on_line(struct world *w, int to, const uint8_t *bytes, size_t len)
{
	struct datagram *d;

	if (rnd(100) < w->lose)
		return;
	assert_true(w->on_line < ON_LINE);
	d = &w->line[w->on_line++];
	d->at_ns = w->now_ns + ONE_WAY + (rnd(100) < w->late ? rnd(400000) : 0);
	d->len = len;
	d->to = to;
	memcpy(d->bytes, bytes, len);
}

static void send_all(struct world *w, int from)
{
	struct end *e = &w->end[from];
	uint8_t buf[PAYLOAD + WAN_TAG_LEN];
	struct wan_path *by;
	bool held;
	size_t len;

	while (!dlist_empty(&e->wan.lane_list)) {
		len = wan_path_sched_build(&e->p, &e->lane, buf, sizeof(buf), &by, &held);
		if (!len) {
			if (!held)
				dlist_remove(&e->lane.node);
			return;
		}
		wan_pacer_take(by->pacer, w->now_ns, len);
		put_on_line(w, !from, buf, len);
		if (rnd(100) < w->doubles)
			put_on_line(w, !from, buf, len);
	}
}

static void deliver(struct world *w, struct datagram d)
{
	struct end *e = &w->end[d.to];
	struct wan_hdr h;

	assert_int_equal(wan_hdr_get(d.bytes, d.len, &h), DROP_NONE);
	assert_int_equal(wan_open_datagram(&e->p.cfg, &h, d.bytes, &d.len), DROP_NONE);
	wan_lane_rx(&e->p, &e->lane, &h, d.bytes, d.len, 0);
}

static void step(struct world *w)
{
	w->now_ns += 5000;
	for (int i = 0; i < 2; i++)
		w->end[i].p.now_ns = w->now_ns;
	for (uint32_t i = 0; i < w->on_line;) {
		struct datagram d = w->line[i];

		if (d.at_ns > w->now_ns) {
			i++;
			continue;
		}
		w->line[i] = w->line[--w->on_line]; /* and so some overtake others */
		deliver(w, d);
	}
	for (int i = 0; i < 2; i++) {
		while (timer_pop(&w->end[i].p.timers, w->now_ns))
			wan_lane_on_timer(&w->end[i].p, &w->end[i].lane);
		send_all(w, i);
	}
}

static int open_world(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->line = calloc(ON_LINE, sizeof(*w->line));
	w->now_ns = 1000000000;
	for (int i = 0; i < 2; i++) {
		w->end[i].p.now_ns = w->now_ns;
		open_end(&w->end[i]);
	}
	seed = 88172645463325252ull;
	*state = w;
	return 0;
}

static int close_world(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 2; i++) {
		free(w->end[i].region);
		free(w->end[i].arena_heap);
	}
	free(w->line);
	free(w);
	return 0;
}

/* Both ends write letters and turn their gauges, until all of it is known at the other end. */
static void run(struct world *w)
{
	uint64_t until_ns = w->now_ns + 20000000000ull;
	bool done = false;

	while (!done && w->now_ns < until_ns) {
		done = true;
		for (int i = 0; i < 2; i++) {
			struct end *e = &w->end[i], *other = &w->end[!i];

			for (int n = 0; n < 2 && e->written < NLETTERS && write_letter(e); n++)
				;
			if (e->written % 10 == 0 && e->written < NLETTERS)
				set_gauge(e, e->value + 1);
			done &= e->written == NLETTERS && other->got == NLETTERS && other->told == e->value &&
			        arena_used(e->p.arena, POOL_LAN) == 0;
		}
		step(w);
	}
	for (int i = 0; i < 2; i++) {
		struct end *e = &w->end[i], *other = &w->end[!i];

		assert_int_equal(other->got, NLETTERS);
		assert_int_equal(other->told, e->value);
		assert_int_equal(arena_used(e->p.arena, POOL_LAN), 0); /* all slots came back */
		assert_int_equal(arena_used(e->p.arena, POOL_WAN), 0);
		assert_int_equal(e->lane.out_bytes, 0);
		assert_int_equal(arena_audit(e->p.arena), 0);
		assert_true(e->value > 0 && e->ticks_sent > 0);
	}
}

static void transport__a_clean_line(void **state)
{
	struct world *w = *state;

	run(w);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(w->end[i].p.counters.ctr[CTR_WAN_REPAIRS], 0);
		assert_int_equal(w->end[i].gauges_lost, 0);
		assert_int_equal(w->end[!i].ticks_got, w->end[i].ticks_sent);
	}
}

static void transport__loss_doubling_and_overtaking(void **state)
{
	struct world *w = *state;

	w->lose = 10;
	w->doubles = 5;
	w->late = 20;
	run(w);
	for (int i = 0; i < 2; i++) {
		assert_true(w->end[i].p.counters.ctr[CTR_WAN_REPAIRS] > 0);
		assert_true(w->end[i].gauges_lost > 0); /* and told anew by its source */
		assert_true(w->end[!i].ticks_got < w->end[i].ticks_sent); /* not repaired */
	}
}

/* A line that is cut for longer than a probe timeout: what was under way goes again. */
static void transport__a_cut(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 200; i++) {
		write_letter(&w->end[0]);
		step(w);
	}
	w->lose = 100;
	for (int i = 0; i < 20000; i++)
		step(w);
	w->lose = 0;
	run(w);
}

/* A frame or a packet of nobody is counted and harms nothing. */
static void transport__what_is_nobodys(void **state)
{
	struct world *w = *state;
	struct proxy *p = &w->end[0].p;
	uint8_t buf[PAYLOAD];
	struct wan_hdr h = {.epoch = 3, .wan_pn = 1000000};
	struct wan_packet packet = {.kind = 2, .total = 5, .len = 5, .data = (const uint8_t *)"hello"};
	size_t n = wan_hdr_put(buf, &h);

	n += put_number(buf + n, sizeof(buf) - n, 0x3f, 1);
	n += put_number(buf + n, sizeof(buf) - n, 0xff, 1);
	n += wan_packet_put(buf + n, sizeof(buf) - n, &packet);
	wan_lane_rx(p, &w->end[0].lane, &h, buf, n, 0);
	assert_int_equal(p->counters.drop[DROP_WAN_UNKNOWN_FRAME], 2);
	assert_int_equal(arena_used(p->arena, POOL_WAN), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(transport__##name, open_world, close_world)
	    TEST(a_clean_line),
	    TEST(loss_doubling_and_overtaking),
	    TEST(a_cut),
	    TEST(what_is_nobodys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
