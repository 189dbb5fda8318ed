/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between two edges: what is written can be read, what is cut off or impossible is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/util/bytes.h"
#include "proxy/shard/flow_frame.h"
#include "proxy/carry/ip_frame.h"

enum { CAP = 10000, FUZZ_ROUNDS = 20000 };

static uint8_t buf[CAP];

static struct wan_frame frame_in(const uint8_t *b, size_t n)
{
	struct wan_frame f;
	size_t off = 0;

	assert_int_equal(wan_frame_next(b, n, &off, &f), 1);
	assert_int_equal(off, n);
	return f;
}

static struct ip_addr addr(uint8_t last)
{
	return (struct ip_addr){.b = {[10] = 0xff, 0xff, 10, 0, 0, last}};
}

/* --- writers by number, each with contents in which every field differs --- */

static uint8_t data[LAN_PKT_MAX];
static uint64_t words[WAN_REPORT_WORDS_MAX];

static const struct wan_packet a_packet = {.flow = 0x01020304,
                                           .inc = 0x05060708,
                                           .pos = 0x1122334455667788,
                                           .total = 4150,
                                           .offset = 64,
                                           .vlan_tci = 0xa123,
                                           .kind = WP_RESPONSE,
                                           .len = 128,
                                           .data = data};
static const struct wan_flow_report a_flow_report = {.flow = 1,
                                                     .inc = 2,
                                                     .received = 30,
                                                     .delivered = 20,
                                                     .credit = 40,
                                                     .nak_pos = 50,
                                                     .state = WFS_FAILED,
                                                     .syndrome = 0x62,
                                                     .again_round = 0x7172,
                                                     .again_from = 60};
static const struct wan_flow_pair a_pair = {.flow = 1,
                                            .inc = 2,
                                            .pos_base = 3,
                                            .at_pos = 4,
                                            .msn = 5,
                                            .requester_qpn = 6,
                                            .confirmed = true,
                                            .template_len = 60,
                                            .template = data};
static const struct wan_report a_report = {
    .base = 128, .largest = 300, .delay_ns = 77, .words = 3, .ecn = {0xfedcba, 0x123456}};

static struct wan_flow_open an_open(void)
{
	return (struct wan_flow_open){.flow = 1,
	                              .inc = 2,
	                              .pos_base = 3ull << 40,
	                              .dest_qpn = 0x123456,
	                              .requester_qpn = 0x654321,
	                              .vlan_tci = 0xb00b,
	                              .pmtu = 4096,
	                              .cm_tag = 0xfedcba98,
	                              .flags = WOF_BASE_FIXED | WOF_HOST_MODE,
	                              .src = addr(1),
	                              .dst = addr(2)};
}

static size_t put_frame(int which, uint8_t *b, size_t cap)
{
	struct wan_flow_open o = an_open();
	struct wan_flow_close c = {.flow = 9, .inc = 8};
	struct wan_lane_credit lc = {.window_bytes = 1ull << 33, .flow_initial_bytes = 65536};

	switch (which) {
	case 0:
		return wan_packet_put(b, cap, &a_packet);
	case 1:
		return wan_flow_open_put(b, cap, &o);
	case 2:
		return wan_flow_report_put(b, cap, &a_flow_report);
	case 3:
		return wan_flow_pair_put(b, cap, &a_pair);
	case 4:
		return wan_flow_close_put(b, cap, &c);
	case 5:
		return wan_lane_credit_put(b, cap, &lc);
	case 6:
		return wan_report_put(b, cap, WF_REPORT, &a_report, words);
	case 7:
		return wan_probe_put(b, cap, 0x0102030405060708);
	default:
		return wan_ping_put(b, cap);
	}
}

static bool get_frame(const struct wan_frame *f)
{
	struct wan_packet p;
	struct wan_flow_open o;
	struct wan_flow_report fr;
	struct wan_flow_pair fp;
	struct wan_flow_close c;
	struct wan_lane_credit lc;
	struct wan_report r;
	uint64_t pn;

	switch (f->type) {
	case WF_PACKET:
		return wan_packet_get(f, &p);
	case WF_FLOW_OPEN:
		return wan_flow_open_get(f, &o);
	case WF_FLOW_REPORT:
		return wan_flow_report_get(f, &fr);
	case WF_FLOW_PAIR:
		return wan_flow_pair_get(f, &fp);
	case WF_FLOW_CLOSE:
		return wan_flow_close_get(f, &c);
	case WF_LANE_CREDIT:
		return wan_lane_credit_get(f, &lc);
	case WF_REPORT:
	case WF_REFUSED:
		return wan_report_get(f, &r);
	case WF_PROBE:
		return wan_probe_get(f, &pn);
	default:
		return true;
	}
}

enum { FRAMES = 9, PING = 8 };

static void wan_frame__header_round_trip(void **state)
{
	struct wan_hdr h = {.lane = 250, .path = 3, .flags = 0x81, .epoch = 0xdeadbeef, .wan_pn = 0x0123456789abcdef},
	               r;

	(void)state;
	assert_int_equal(wan_hdr_put(buf, &h), WAN_HDR_LEN);
	assert_int_equal(wan_hdr_get(buf, WAN_HDR_LEN, &r), DROP_NONE);
	assert_int_equal(r.lane, h.lane);
	assert_int_equal(r.path, h.path);
	assert_int_equal(r.flags, h.flags);
	assert_int_equal(r.epoch, h.epoch);
	assert_true(r.wan_pn == h.wan_pn);
}

static void wan_frame__header_refused(void **state)
{
	struct wan_hdr h = {.lane = 1}, r;

	(void)state;
	wan_hdr_put(buf, &h);
	for (size_t n = 0; n < WAN_HDR_LEN; n++)
		assert_int_equal(wan_hdr_get(buf, n, &r), DROP_WAN_TRUNCATED);
	for (unsigned v = 0; v < 256; v++) {
		buf[0] = (uint8_t)v;
		assert_int_equal(wan_hdr_get(buf, WAN_HDR_LEN, &r),
		                 v == WAN_VERSION ? DROP_NONE : DROP_WAN_BAD_VERSION);
	}
}

static void wan_frame__packet_round_trip(void **state)
{
	size_t n = wan_packet_put(buf, CAP, &a_packet);
	struct wan_frame f = frame_in(buf, n);
	struct wan_packet p;

	(void)state;
	assert_int_equal(n, WAN_PACKET_OVERHEAD + 128);
	assert_int_equal(f.type, WF_PACKET);
	assert_true(wan_packet_get(&f, &p));
	assert_int_equal(p.flow, a_packet.flow);
	assert_int_equal(p.inc, a_packet.inc);
	assert_true(p.pos == a_packet.pos);
	assert_int_equal(p.total, a_packet.total);
	assert_int_equal(p.offset, a_packet.offset);
	assert_int_equal(p.vlan_tci, a_packet.vlan_tci);
	assert_int_equal(p.kind, a_packet.kind);
	assert_int_equal(p.len, a_packet.len);
	assert_memory_equal(p.data, data, 128);
}

/* total, offset, len, kind -> sound? */
static void wan_frame__packet_pieces(void **state)
{
	static const struct {
		uint16_t total, offset, len;
		uint8_t kind;
		bool ok;
	} t[] = {
	    {60, 0, 60, WP_REQUEST, true},       {4224, 0, 4224, WP_RAW, true},
	    {4224, 4160, 64, WP_RAW, true},      {4150, 4096, 54, WP_REQUEST, true},
	    {4150, 64, 64, WP_REQUEST, true},    {4225, 0, 4225, WP_REQUEST, false}, /* larger than a slot */
	    {4150, 63, 64, WP_REQUEST, false},                                       /* offset between units */
	    {4150, 0, 63, WP_REQUEST, false},    /* ends between units before the end */
	    {4150, 4096, 55, WP_REQUEST, false}, /* beyond the end */
	    {100, 128, 1, WP_REQUEST, false},    /* begins beyond the end */
	    {64, 65472, 64, WP_REQUEST, false},  /* 16 bits would wrap */
	    {60, 0, 60, WP_KINDS, false},        {60, 0, 60, 255, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct wan_packet p = {.total = t[i].total, .offset = t[i].offset, .len = t[i].len, .kind = t[i].kind};
		struct wan_frame f;
		uint8_t big[4300] = {0};

		p.data = big;
		f = frame_in(buf, wan_packet_put(buf, CAP, &p));
		if (wan_packet_get(&f, &p) != t[i].ok)
			fail_msg("case %zu", i);
	}
}

static void wan_frame__flow_open_round_trip(void **state)
{
	struct wan_flow_open o = an_open(), r;
	struct wan_frame f = frame_in(buf, wan_flow_open_put(buf, CAP, &o));

	(void)state;
	assert_true(wan_flow_open_get(&f, &r));
	assert_int_equal(r.flow, o.flow);
	assert_int_equal(r.inc, o.inc);
	assert_true(r.pos_base == o.pos_base);
	assert_int_equal(r.dest_qpn, o.dest_qpn);
	assert_int_equal(r.requester_qpn, o.requester_qpn);
	assert_int_equal(r.vlan_tci, o.vlan_tci);
	assert_int_equal(r.pmtu, o.pmtu);
	assert_int_equal(r.cm_tag, o.cm_tag);
	assert_int_equal(r.flags, o.flags);
	assert_true(ip_addr_eq(&r.src, &o.src));
	assert_true(ip_addr_eq(&r.dst, &o.dst));
}

static void wan_frame__flow_open_hostile(void **state)
{
	struct wan_flow_open o = an_open(), r;
	struct wan_frame f;

	(void)state;
	o.pos_base = 1ull << 62;
	f = frame_in(buf, wan_flow_open_put(buf, CAP, &o));
	assert_false(wan_flow_open_get(&f, &r));
	o = an_open();
	o.dest_qpn = o.requester_qpn = 0xff000001; /* a QPN has 24 bits */
	f = frame_in(buf, wan_flow_open_put(buf, CAP, &o));
	assert_true(wan_flow_open_get(&f, &r));
	assert_int_equal(r.dest_qpn, 1);
	assert_int_equal(r.requester_qpn, 1);
}

static void wan_frame__flow_report_round_trip(void **state)
{
	struct wan_frame f = frame_in(buf, wan_flow_report_put(buf, CAP, &a_flow_report));
	struct wan_flow_report r;

	(void)state;
	assert_true(wan_flow_report_get(&f, &r));
	assert_int_equal(r.flow, 1);
	assert_int_equal(r.inc, 2);
	assert_int_equal(r.received, 30);
	assert_int_equal(r.delivered, 20);
	assert_int_equal(r.credit, 40);
	assert_int_equal(r.nak_pos, 50);
	assert_int_equal(r.state, WFS_FAILED);
	assert_int_equal(r.syndrome, 0x62);
	assert_int_equal(r.again_round, 0x7172);
	assert_int_equal(r.again_from, 60);
}

static void wan_frame__flow_report_hostile(void **state)
{
	struct wan_flow_report r = a_flow_report;
	struct wan_frame f;

	(void)state;
	r.delivered = r.received + 1; /* delivered what never arrived */
	f = frame_in(buf, wan_flow_report_put(buf, CAP, &r));
	assert_false(wan_flow_report_get(&f, &r));
	r = a_flow_report;
	r.state = WFS_FAILED + 1;
	f = frame_in(buf, wan_flow_report_put(buf, CAP, &r));
	assert_false(wan_flow_report_get(&f, &r));
}

static void wan_frame__flow_pair_round_trip(void **state)
{
	struct wan_frame f = frame_in(buf, wan_flow_pair_put(buf, CAP, &a_pair));
	struct wan_flow_pair r;

	(void)state;
	assert_true(wan_flow_pair_get(&f, &r));
	assert_int_equal(r.flow, 1);
	assert_int_equal(r.inc, 2);
	assert_int_equal(r.pos_base, 3);
	assert_int_equal(r.at_pos, 4);
	assert_int_equal(r.msn, 5);
	assert_int_equal(r.requester_qpn, 6);
	assert_true(r.confirmed);
	assert_false(r.msn_late);
	assert_int_equal(r.template_len, 60);
	assert_memory_equal(r.template, data, 60);
	r = a_pair;
	r.confirmed = false;
	r.msn_late = true;
	f = frame_in(buf, wan_flow_pair_put(buf, CAP, &r));
	assert_true(wan_flow_pair_get(&f, &r));
	assert_true(r.msn_late);
	assert_false(r.confirmed);
}

static void wan_frame__flow_pair_hostile(void **state)
{
	struct wan_flow_pair r = a_pair;
	struct wan_frame f;

	(void)state;
	r.template_len = TEMPLATE_MAX + 1;
	f = frame_in(buf, wan_flow_pair_put(buf, CAP, &r));
	assert_false(wan_flow_pair_get(&f, &r));
	f = frame_in(buf, wan_flow_pair_put(buf, CAP, &a_pair));
	put_be16(buf + WAN_FRAME_HDR_LEN + 32, 61); /* template longer than the frame */
	assert_false(wan_flow_pair_get(&f, &r));
	put_be16(buf + WAN_FRAME_HDR_LEN + 32, 59);
	assert_false(wan_flow_pair_get(&f, &r));
	r = a_pair;
	r.pos_base = r.at_pos + 1;
	f = frame_in(buf, wan_flow_pair_put(buf, CAP, &r));
	assert_false(wan_flow_pair_get(&f, &r));
}

static void wan_frame__close_credit_probe_ping_round_trip(void **state)
{
	struct wan_flow_close c;
	struct wan_lane_credit lc;
	struct wan_frame f;
	uint64_t pn;

	(void)state;
	f = frame_in(buf, put_frame(4, buf, CAP));
	assert_true(wan_flow_close_get(&f, &c));
	assert_int_equal(c.flow, 9);
	assert_int_equal(c.inc, 8);
	f = frame_in(buf, put_frame(5, buf, CAP));
	assert_true(wan_lane_credit_get(&f, &lc));
	assert_true(lc.window_bytes == 1ull << 33);
	assert_int_equal(lc.flow_initial_bytes, 65536);
	f = frame_in(buf, put_frame(7, buf, CAP));
	assert_true(wan_probe_get(&f, &pn));
	assert_true(pn == 0x0102030405060708);
	f = frame_in(buf, put_frame(PING, buf, CAP));
	assert_int_equal(f.type, WF_PING);
	assert_int_equal(f.len, 0);
}

static void wan_frame__report_round_trip(void **state)
{
	uint64_t w[3] = {1, 0x8000000000000000, 0x0123456789abcdef};
	struct wan_frame f = frame_in(buf, wan_report_put(buf, CAP, WF_REFUSED, &a_report, w));
	struct wan_report r;

	(void)state;
	assert_int_equal(f.type, WF_REFUSED);
	assert_true(wan_report_get(&f, &r));
	assert_int_equal(r.base, 128);
	assert_int_equal(r.largest, 300);
	assert_int_equal(r.delay_ns, 77);
	assert_int_equal(r.words, 3);
	assert_int_equal(r.ecn.ect0, 0xfedcba);
	assert_int_equal(r.ecn.ce, 0x123456);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(wan_report_word(&r, i) == w[i]);
}

static void wan_frame__report_hostile(void **state)
{
	struct wan_report r = a_report;
	struct wan_frame f;

	(void)state;
	r.base = 129; /* between words */
	f = frame_in(buf, wan_report_put(buf, CAP, WF_REPORT, &r, words));
	assert_false(wan_report_get(&f, &r));
	r = a_report;
	r.base = 1ull << 62;
	f = frame_in(buf, wan_report_put(buf, CAP, WF_REPORT, &r, words));
	assert_false(wan_report_get(&f, &r));
	r = a_report;
	r.largest = UINT64_MAX;
	f = frame_in(buf, wan_report_put(buf, CAP, WF_REPORT, &r, words));
	assert_false(wan_report_get(&f, &r));
	r = a_report;
	r.words = 0;
	f = frame_in(buf, wan_report_put(buf, CAP, WF_REPORT, &r, words));
	assert_false(wan_report_get(&f, &r));
	f = frame_in(buf, wan_report_put(buf, CAP, WF_REPORT, &a_report, words));
	put_be16(buf + WAN_FRAME_HDR_LEN + 24, 4); /* more words than bytes */
	assert_false(wan_report_get(&f, &r));
	put_be16(buf + WAN_FRAME_HDR_LEN + 24, 0xffff);
	assert_false(wan_report_get(&f, &r));
}

static void wan_frame__writers_keep_to_the_room(void **state)
{
	(void)state;
	for (int i = 0; i < FRAMES; i++) {
		size_t n = put_frame(i, buf, CAP);

		assert_true(n > 0);
		for (size_t cap = 0; cap < n; cap++) {
			memset(buf, 0xee, n + 1);
			assert_int_equal(put_frame(i, buf, cap), 0);
			assert_int_equal(buf[cap], 0xee);
		}
		memset(buf, 0xee, n + 1);
		assert_int_equal(put_frame(i, buf, n), n);
		assert_int_equal(buf[n], 0xee);
	}
}

/* A frame whose header says fewer bytes than its type needs, for each number of bytes. */
static void wan_frame__short_bodies_are_refused(void **state)
{
	(void)state;
	for (int i = 0; i < FRAMES - 1; i++) { /* PING has no body */
		size_t n = put_frame(i, buf, CAP);
		uint8_t *copy = malloc(n);

		assert_non_null(copy);
		memcpy(copy, buf, n);
		assert_true(get_frame(&(struct wan_frame){
		    .type = copy[0], .len = (uint16_t)(n - WAN_FRAME_HDR_LEN), .body = copy + WAN_FRAME_HDR_LEN}));
		free(copy);
		for (size_t len = 0; len + WAN_FRAME_HDR_LEN < n; len++) {
			/* as large as it says, so that a sanitizer sees who reads on */
			uint8_t *body = malloc(len + 1);

			assert_non_null(body);
			memcpy(body + 1, buf + WAN_FRAME_HDR_LEN, len);
			/* a PACKET may end at any whole unit */
			if (get_frame(&(struct wan_frame){.type = buf[0], .len = (uint16_t)len, .body = body + 1}) &&
			    !(buf[0] == WF_PACKET && len == WAN_PACKET_BODY_LEN + 64))
				fail_msg("frame %d is taken with %zu bytes", i, len);
			free(body);
		}
	}
}

static void wan_frame__next_steps_and_stops(void **state)
{
	size_t n = 0, off = 0;
	struct wan_frame f;

	(void)state;
	for (int i = 0; i < FRAMES; i++)
		n += put_frame(i, buf + n, CAP - n);
	buf[n] = 0x77; /* an unknown type is stepped over */
	buf[n + 1] = 0;
	put_be16(buf + n + 2, 3);
	n += 7;
	for (int i = 0; i < FRAMES + 1; i++)
		assert_int_equal(wan_frame_next(buf, n, &off, &f), 1);
	assert_int_equal(f.type, 0x77);
	assert_int_equal(wan_frame_next(buf, n, &off, &f), 0);
	assert_int_equal(off, n);
}

static void wan_frame__next_truncated(void **state)
{
	size_t n = put_frame(4, buf, CAP);
	struct wan_frame f;

	(void)state;
	for (size_t len = 1; len < n; len++) {
		size_t off = 0;

		assert_int_equal(wan_frame_next(buf, len, &off, &f), -1);
	}
	put_be16(buf + 2, 0xffff);
	n = 0;
	assert_int_equal(wan_frame_next(buf, 100, &n, &f), -1);
}

/* Whatever a reader takes must be within the bounds that the rest of the core relies on. */
static void wan_frame__random_bodies(void **state)
{
	uint64_t s = 88172645463325252ull;

	(void)state;
	for (int i = 0; i < FUZZ_ROUNDS; i++) {
		struct wan_packet p;
		struct wan_flow_pair fp;
		struct wan_frame f = {.body = buf};

		for (size_t k = 0; k < 200; k++) {
			s ^= s << 13;
			s ^= s >> 7;
			s ^= s << 17;
			buf[k] = k % 3 ? (uint8_t)s : 0;
		}
		f.len = (uint16_t)(s % 200);
		if (wan_packet_get(&f, &p)) {
			assert_in_range(p.total, 1, LAN_PKT_MAX);
			assert_in_range(p.offset + p.len, 1, p.total);
			assert_true(p.data + p.len == buf + f.len);
		}
		if (wan_flow_pair_get(&f, &fp)) {
			assert_in_range(fp.template_len, 0, TEMPLATE_MAX);
			assert_true(fp.template + fp.template_len == buf + f.len);
		}
	}
}

/* --- FEC --- */

static bool fec_of(uint8_t *bytes, const struct wan_fec *w, struct wan_fec *got)
{
	struct wan_frame f;
	size_t off = 0, n = wan_fec_frame_put(bytes, 300, w);

	assert_int_equal(n, WAN_FEC_OVERHEAD + w->len);
	assert_int_equal(wan_frame_next(bytes, n, &off, &f), 1);
	return wan_fec_frame_get(&f, got);
}

static void wan_frame__fec_round_trip(void **state)
{
	uint8_t bytes[300];
	struct wan_fec w = {.base = 0x0102030405060708 >> 2, .span = 600, .depth = 32, .group = 31, .row = 3, .rows = 4,
	                    .len = 100, .data = data}, got;

	(void)state;
	assert_true(fec_of(bytes, &w, &got));
	assert_true(got.base == w.base && got.span == 600 && got.depth == 32 && got.group == 31 && got.row == 3 &&
	            got.rows == 4 && got.len == 100);
	assert_memory_equal(got.data, data, 100);
}

static void wan_frame__fec_hostile(void **state)
{
	static const struct wan_fec bad[] = {
	    {.span = 8, .depth = 0, .rows = 1},
	    {.span = 80, .depth = FEC_DEPTH_MAX + 1, .rows = 1},
	    {.span = 8, .depth = 2, .group = 2, .rows = 1},
	    {.span = 1, .depth = 2, .group = 1, .rows = 1},               /* a group without a place */
	    {.span = 0, .depth = 1, .rows = 1},
	    {.span = FEC_BLOCK_MAX + 1, .depth = 32, .rows = 1},
	    {.span = FEC_PLACES_MAX + 1, .depth = 1, .rows = 1},
	    {.span = 8, .depth = 1, .row = 1, .rows = 1},
	    {.span = 8, .depth = 1, .rows = FEC_M_MAX + 1},
	    {.span = 8, .depth = 1, .rows = 0},
	    {.span = 8, .depth = 1, .rows = 1, .base = 1ull << 62},
	};
	uint8_t bytes[300];
	struct wan_fec got, w;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		w = bad[i];
		w.len = 10;
		w.data = data;
		assert_false(fec_of(bytes, &w, &got));
	}
	w = (struct wan_fec){.span = 8, .depth = 1, .rows = 1, .len = 0, .data = data};
	assert_false(fec_of(bytes, &w, &got));
}

static void wan_frame__rebuilt_and_arrivals(void **state)
{
	uint8_t bytes[600];
	uint64_t numbers[WAN_REBUILT_MAX] = {1, 1ull << 50};
	struct wan_arrivals_frame a = {1000, 20, 3}, ga;
	struct wan_rebuilt r;
	struct wan_frame f;
	size_t off = 0;

	(void)state;
	assert_int_equal(wan_rebuilt_put(bytes, sizeof(bytes), numbers, 2), 20);
	assert_int_equal(wan_frame_next(bytes, 20, &off, &f), 1);
	assert_true(wan_rebuilt_get(&f, &r) && r.n == 2);
	assert_true(wan_rebuilt_number(&r, 0) == 1 && wan_rebuilt_number(&r, 1) == 1ull << 50);
	f.len = 0;
	assert_false(wan_rebuilt_get(&f, &r));
	f.len = 12;
	assert_false(wan_rebuilt_get(&f, &r));
	f.len = 8 * (WAN_REBUILT_MAX + 1);
	assert_false(wan_rebuilt_get(&f, &r));
	assert_int_equal(wan_arrivals_put(bytes, 27, &a), 0);
	assert_int_equal(wan_arrivals_put(bytes, 28, &a), 28);
	off = 0;
	assert_int_equal(wan_frame_next(bytes, 28, &off, &f), 1);
	assert_true(wan_arrivals_get(&f, &ga) && ga.numbers == 1000 && ga.lost == 20 && ga.bursts == 3);
	a.lost = 2000;
	wan_arrivals_put(bytes, 28, &a);
	assert_false(wan_arrivals_get(&f, &ga)); /* more lost than there were */
}

static void wan_frame__resp_credit_round_trip(void **state)
{
	struct wan_resp_credit in = {.flow = 9, .inc = 8, .round = 0x01020304, .credit = 0x1122334455667788}, out;
	struct wan_frame f;

	(void)state;
	f = frame_in(buf, wan_resp_credit_put(buf, CAP, &in));
	assert_int_equal(f.type, WF_RESP_CREDIT);
	assert_true(wan_resp_credit_get(&f, &out));
	assert_true(in.flow == out.flow && in.inc == out.inc && in.round == out.round && in.credit == out.credit);
	for (f.len = 0; f.len < 24; f.len++)
		assert_int_equal(wan_resp_credit_get(&f, &out), f.len == 20);
	assert_int_equal(wan_resp_credit_put(buf, 20, &in), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wan_frame__resp_credit_round_trip),
	    cmocka_unit_test(wan_frame__header_round_trip),
	    cmocka_unit_test(wan_frame__header_refused),
	    cmocka_unit_test(wan_frame__packet_round_trip),
	    cmocka_unit_test(wan_frame__packet_pieces),
	    cmocka_unit_test(wan_frame__flow_open_round_trip),
	    cmocka_unit_test(wan_frame__flow_open_hostile),
	    cmocka_unit_test(wan_frame__flow_report_round_trip),
	    cmocka_unit_test(wan_frame__flow_report_hostile),
	    cmocka_unit_test(wan_frame__flow_pair_round_trip),
	    cmocka_unit_test(wan_frame__flow_pair_hostile),
	    cmocka_unit_test(wan_frame__close_credit_probe_ping_round_trip),
	    cmocka_unit_test(wan_frame__report_round_trip),
	    cmocka_unit_test(wan_frame__report_hostile),
	    cmocka_unit_test(wan_frame__writers_keep_to_the_room),
	    cmocka_unit_test(wan_frame__short_bodies_are_refused),
	    cmocka_unit_test(wan_frame__next_steps_and_stops),
	    cmocka_unit_test(wan_frame__next_truncated),
	    cmocka_unit_test(wan_frame__random_bodies),
	    cmocka_unit_test(wan_frame__fec_round_trip),
	    cmocka_unit_test(wan_frame__fec_hostile),
	    cmocka_unit_test(wan_frame__rebuilt_and_arrivals),
	};

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
