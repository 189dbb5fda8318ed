/* SPDX-License-Identifier: Apache-2.0 */
/* core_fixture.h - two edges joined by a function, hosts whose packets a test writes by hand.
 *
 *     host A (requester) --lan_in--> edge a ==pump==> edge b --take--> host B (responder)
 *                        <--take--                           <--lan_in--
 *
 * Arenas are tiny, the WAN takes no time, loses what the test's hook says, and time stands still but in core_wait().
 * Whatever leaves an edge for a host is parsed and its ICRC checked; after every pump both shards are audited. */
#ifndef TESTS_CORE_FIXTURE_H
#define TESTS_CORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/wan/wan.h"
#include "proxy/far/far.h"
#include "proxy/near/ack_tx.h"
#include "proxy/near/near.h"
#include "proxy/proxy.h"
#include "proxy/carry/raw.h"
#include "proxy/wan/dgram/wan_frame.h"
#include "proxy/wan/wan_lane.h"
#include "proxy/wan/wan_seal.h"

#ifndef CORE_FLOWS
#define CORE_FLOWS 32 /* places in each table of flows; a test may want more */
#endif

enum { CORE_QUEUE = 1024, CORE_CHUNK = 1 << 16, CORE_PMTU = 1024, CORE_PUMP_MAX = 20000, CORE_QPN = 0x11 };

#ifndef CORE_FEC
#define CORE_FEC                                                                                                       \
	{                                                                                                              \
		.mode = FEC_OFF                                                                                        \
	}
#endif

#define CORE_MS    1000000ull
#define CORE_US    1000ull
#define CORE_START 1000000000ull

/* A packet that left an edge for a host. */
struct core_pkt {
	struct roce_pkt h;
	uint16_t vlan_tci;
	uint64_t at_ns;
	size_t len;
	uint8_t l3[LAN_IP_MAX];
};

struct core;

struct core_edge {
	struct core *c;
	struct proxy *p;
	struct proxy_config cfg;
	struct arena_geometry g;
	void *heap, *region;
	struct wan_pacer pacer, second;
	struct core_pkt *out; /* ring of CORE_QUEUE */
	uint32_t out_head, out_tail;
	bool no_hop; /* it does not know yet where its hosts are */
};

struct core {
	struct core_edge a, b;
	uint64_t now_ns;
	uint32_t epoch;
	uint32_t npaths; /* 2, or else 1 */
	bool cut; /* the WAN carries nothing */
	/* Looks at a datagram of `from`; false: it gets lost. */
	bool (*wan)(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len);
	void *arg;
	uint64_t dgrams; /* carried */
	uint32_t salt;   /* makes payloads differ between lives of a QP */
};

static inline struct ip_addr core_ip(uint8_t site, uint8_t host)
{
	return (struct ip_addr){.b = {[10] = 0xff, 0xff, 10, site, 0, host}};
}

static inline struct ip_prefix core_prefix(uint8_t site)
{
	return (struct ip_prefix){.addr = core_ip(site, 0), .len = 96 + 16};
}

/* --- edges --- */

static inline void core_edge_heap(struct core_edge *e)
{
	size_t len = proxy_heap_size(&e->cfg, &e->g);

	assert_int_not_equal(len, 0);
	free(e->heap);
	e->heap = aligned_alloc(64, len);
	assert_non_null(e->heap);
	memset(e->heap, 0, len);
}

/* Begins anew, with its configuration as it is now and an empty arena. */
static inline void core_begin(struct core_edge *e, uint64_t arena_epoch)
{
	core_edge_heap(e);
	assert_int_equal(
	    proxy_init(&e->p, e->heap, e->region, &e->cfg, &e->g, PROXY_START_FRESH, arena_epoch, e->c->now_ns), 0);
}

static inline void core_edge_open(struct core *c, struct core_edge *e, uint8_t site, enum ack_mode mode,
                                  uint32_t chunks)
{
	memset(e, 0, sizeof(*e));
	e->c = c;
	wan_pacer_init(&e->pacer, 1000000000000ull, 66, 1000000);
	wan_pacer_init(&e->second, 1000000000000ull, 66, 1000000);
	proxy_config_defaults(&e->cfg);
	e->cfg.nlanes = 2;
	e->cfg.mode = mode;
	e->cfg.max_flows = CORE_FLOWS;
	e->cfg.nlocal = e->cfg.nremote = 1;
	e->cfg.local[0] = core_prefix(site);
	e->cfg.remote[0] = core_prefix((uint8_t)(3 - site));
	e->cfg.path[0].pacer = &e->pacer;
	e->cfg.path[1].pacer = &e->second;
	e->cfg.npaths = c->npaths ? c->npaths : 1;
	e->cfg.rate_hint_bps = 1000000000ull;
	e->cfg.rtt_hint_ns = 1 * CORE_MS;
	e->cfg.fec = (struct fec_config)CORE_FEC;
	e->g = (struct arena_geometry){.chunk_size = CORE_CHUNK, .max_flows = CORE_FLOWS, .reserve_percent = 25};
	e->g.len = arena_min_len(CORE_CHUNK, CORE_FLOWS) + (uint64_t)chunks * CORE_CHUNK;
	e->region = aligned_alloc(CORE_CHUNK, (e->g.len + CORE_CHUNK - 1) / CORE_CHUNK * CORE_CHUNK);
	e->out = calloc(CORE_QUEUE, sizeof(*e->out));
	assert_true(e->region && e->out);
	memset(e->region, 0xa5, e->g.len);
	core_begin(e, 77u + site);
}

/* Power off and on again: the heap is lost, the arena stays. */
static inline void core_rebuild(struct core_edge *e)
{
	core_edge_heap(e);
	assert_int_equal(proxy_init(&e->p, e->heap, e->region, &e->cfg, &e->g, PROXY_START_REBUILD, 0, e->c->now_ns),
	                 0);
	assert_int_equal(proxy_audit(e->p), 0);
}

static inline void core_pump(struct core *c);

/* Both edges have said hello (again), and which life of their arena it is; 0: not said. */
static inline void core_hello(struct core *c, uint64_t arena_a, uint64_t arena_b)
{
	struct proxy_session sa = {.epoch_tx = ++c->epoch, .epoch_rx = 0x10000 + c->epoch, .peer_arena_epoch = arena_b};
	struct proxy_session sb = {.epoch_tx = sa.epoch_rx, .epoch_rx = sa.epoch_tx, .peer_arena_epoch = arena_a};

	proxy_session_start(c->a.p, &sa, c->now_ns);
	proxy_session_start(c->b.p, &sb, c->now_ns);
	core_pump(c);
}

static inline void core_session(struct core *c)
{
	core_hello(c, 0, 0);
}

/* Both know which life of the other's arena they talk to. */
static inline void core_know_epochs(struct core *c)
{
	core_hello(c, 1, 1);
}

/* The edge's arena is made anew; the hellos say so. */
static inline void core_lose(struct core *c, struct core_edge *e, uint64_t epoch)
{
	core_begin(e, epoch);
	core_hello(c, e == &c->a ? epoch : 1, e == &c->b ? epoch : 1);
}

static inline void core_edges_open(struct core *c, enum ack_mode mode, uint32_t chunks_a, uint32_t chunks_b)
{
	core_edge_open(c, &c->a, 1, mode, chunks_a);
	core_edge_open(c, &c->b, 2, mode, chunks_b);
}

static inline void core_open_with(struct core *c, enum ack_mode mode, uint32_t chunks)
{
	memset(c, 0, sizeof(*c));
	c->now_ns = CORE_START;
	core_edges_open(c, mode, chunks, chunks);
	core_session(c);
}

static inline void core_open(struct core *c, enum ack_mode mode)
{
	core_open_with(c, mode, 32);
}

static inline void core_close(struct core *c)
{
	struct core_edge *e[2] = {&c->a, &c->b};

	for (int i = 0; i < 2; i++) {
		assert_int_equal(proxy_audit(e[i]->p), 0);
		free(e[i]->heap);
		free(e[i]->region);
		free(e[i]->out);
	}
}

static inline uint64_t core_used(const struct core_edge *e)
{
	return arena_used(e->p->arena, POOL_LAN) + arena_used(e->p->arena, POOL_WAN);
}

static inline uint64_t core_ctr(const struct core_edge *e, enum proxy_counter k)
{
	return proxy_counters(e->p)->ctr[k];
}

static inline uint64_t core_drops(const struct core_edge *e, enum proxy_drop d)
{
	return proxy_counters(e->p)->drop[d];
}

/* Takes the edge's events; true if `type` was among them. */
static inline bool core_event(struct core_edge *e, enum proxy_event_type type)
{
	struct proxy_event ev;
	bool seen = false;

	while (proxy_event_next(e->p, &ev))
		seen |= ev.type == type;
	return seen;
}

/* --- moving packets --- */

static inline void core_collect(struct core_edge *e)
{
	struct lan_tx tx;
	size_t len;

	while ((len = proxy_lan_tx(e->p, e->c->now_ns, &tx)) > 0) {
		struct core_pkt *k;

		if (e->no_hop && tx.probe) {
			proxy_lan_unsent(e->p, e->c->now_ns, &tx);
			continue;
		}
		k = &e->out[e->out_head++ % CORE_QUEUE];
		assert_true(e->out_head - e->out_tail <= CORE_QUEUE);
		assert_int_equal(len, tx.hdr_len + tx.body_len + tx.trailer_len);
		assert_true(len <= LAN_IP_MAX);
		k->len = len;
		memcpy(k->l3, tx.hdr, tx.hdr_len);
		if (tx.body_len)
			memcpy(k->l3 + tx.hdr_len, tx.body, tx.body_len);
		memcpy(k->l3 + tx.hdr_len + tx.body_len, tx.trailer, tx.trailer_len);
		k->vlan_tci = tx.vlan_tci;
		k->at_ns = e->c->now_ns;
		memset(&k->h, 0, sizeof(k->h));
		if (roce_parse(k->l3, len, &k->h) == DROP_LAN_NOT_ROCE && e->cfg.barrier != BARRIER_OFF)
			continue; /* IP that is not RoCEv2 */
		assert_int_equal(roce_parse(k->l3, len, &k->h), DROP_NONE);
		assert_int_equal(k->h.len, len);
		assert_true(icrc_check(k->l3, &k->h, NULL));
		assert_true(ip_addr_eq(&k->h.dst, &tx.dst));
	}
}

static inline bool core_carry(struct core *c, struct core_edge *from, struct core_edge *to)
{
	uint8_t buf[WAN_MTU_MAX];
	struct wan_tx tx;
	size_t len = proxy_wan_tx(from->p, c->now_ns, buf, sizeof(buf), &tx);

	if (!len)
		return false;
	assert_true(len <= from->cfg.path[0].payload_max);
	if (c->cut || (c->wan && !c->wan(c, from, buf, len)))
		return true;
	c->dgrams++;
	proxy_wan_rx(to->p, c->now_ns, buf, len, false);
	return true;
}

/* The edge's shard is one of two, which has the lanes with odd numbers or those with even ones, as that lane: the fixture
 * itself knows of one shard, and so n is 1 at the end of a test. */
static inline void core_one_of(struct core_edge *e, uint8_t n, uint16_t lane)
{
	e->p->cfg.nshards = n;
	e->p->cfg.shard = (uint8_t)(lane % n);
}

/* Until nothing moves any more at this moment. */
static inline void core_pump(struct core *c)
{
	bool more = true;
	int n = 0;

	while (more) {
		proxy_tick(c->a.p, c->now_ns);
		proxy_tick(c->b.p, c->now_ns);
		core_collect(&c->a);
		core_collect(&c->b);
		more = core_carry(c, &c->a, &c->b);
		more |= core_carry(c, &c->b, &c->a);
		assert_true(++n < CORE_PUMP_MAX);
	}
	assert_int_equal(proxy_audit(c->a.p), 0);
	assert_int_equal(proxy_audit(c->b.p), 0);
}

/* Lets time pass, from one deadline to the next. */
static inline void core_wait(struct core *c, uint64_t ns)
{
	uint64_t end = c->now_ns + ns, next;

	core_pump(c);
	for (;;) {
		next = min_u64(proxy_next_wake(c->a.p, c->now_ns), proxy_next_wake(c->b.p, c->now_ns));
		if (next > end)
			break;
		c->now_ns = max_u64(next, c->now_ns + 1);
		core_pump(c);
	}
	c->now_ns = end;
	core_pump(c);
}

/* The oldest packet that the edge has sent to a host; NULL if there is none. Valid until the next pump. */
static inline const struct core_pkt *core_take(struct core_edge *e)
{
	if (e->out_tail == e->out_head)
		return NULL;
	return &e->out[e->out_tail++ % CORE_QUEUE];
}

static inline uint32_t core_pending(const struct core_edge *e)
{
	return e->out_head - e->out_tail;
}

static inline void core_forget(struct core_edge *e)
{
	e->out_tail = e->out_head;
}

/* The next packet must be of that opcode and PSN. */
static inline const struct core_pkt *core_expect(struct core_edge *e, uint8_t opcode, uint32_t psn)
{
	const struct core_pkt *k = core_take(e);

	if (!k)
		fail_msg("expected %s psn %u, nothing was sent", roce_op(opcode)->name, psn);
	else if (k->h.opcode != opcode || k->h.psn != psn)
		fail_msg("expected %s psn %u, got %s psn %u", roce_op(opcode)->name, psn, roce_op(k->h.opcode)->name,
		         k->h.psn);
	return k;
}

static inline const struct core_pkt *core_expect_aeth(struct core_edge *e, uint32_t psn, uint8_t syndrome)
{
	const struct core_pkt *k = core_expect(e, RC_ACK, psn);

	if (k->h.aeth_syndrome != syndrome)
		fail_msg("psn %u: syndrome %02x, expected %02x", psn, k->h.aeth_syndrome, syndrome);
	return k;
}

/* --- what hosts send --- */

static inline const uint8_t *core_payload(uint32_t salt, uint32_t psn)
{
	static uint8_t buf[LAN_PKT_MAX];

	for (uint32_t i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)(hash_mix((uint64_t)salt << 32 | psn) >> (i % 8 * 8)) + (uint8_t)(i / 8);
	return buf;
}

/* Writes the 40 bytes in front of the data of a TCP segment from host A to host B. */
static inline void core_tcp_header(uint8_t *l3, uint8_t flags, size_t data)
{
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);
	uint32_t sum = 0;

	memset(l3, 0, 40);
	l3[0] = 0x45;
	put_be16(l3 + 2, (uint16_t)(40 + data));
	l3[8] = 64;
	l3[9] = 6;
	memcpy(l3 + 12, src.b + 12, 4);
	memcpy(l3 + 16, dst.b + 12, 4);
	for (int i = 0; i < 20; i += 2)
		sum += get_be16(l3 + i);
	sum = (sum & 0xffff) + (sum >> 16);
	put_be16(l3 + 10, (uint16_t) ~((sum & 0xffff) + (sum >> 16)));
	l3[32] = 5 << 4;
	l3[33] = flags;
}

/* A request of host A to host B's CORE_QPN; whoever wants it different changes fields. */
static inline struct roce_pkt core_req(uint8_t opcode, uint32_t psn)
{
	return (struct roce_pkt){.src = core_ip(1, 2),
	                         .dst = core_ip(2, 2),
	                         .ttl = 64,
	                         .tos = 0x60,
	                         .udp_sport = 0xc123,
	                         .opcode = opcode,
	                         .pkey = 0xffff,
	                         .migreq = true,
	                         .dest_qpn = CORE_QPN,
	                         .psn = psn & ROCE_PSN_MASK,
	                         .ack_req = (roce_op(opcode)->flags & ROP_END) != 0,
	                         .reth_va = 0x7000,
	                         .reth_rkey = 9,
	                         .reth_len = CORE_PMTU};
}

static inline size_t core_len(uint8_t opcode)
{
	return roce_op(opcode)->flags & ROP_PAYLOAD ? CORE_PMTU : 0;
}

/* Puts a packet into the edge's LAN side without letting anything else happen. */
static inline enum proxy_drop core_in(struct core_edge *e, struct roce_pkt h, size_t payload_len, uint16_t vlan_tci)
{
	uint8_t buf[LAN_PKT_MAX + 64];
	size_t n = roce_build(buf, sizeof(buf), &h, core_payload(e->c->salt, h.psn), payload_len);

	assert_true(n > 0);
	return proxy_lan_rx(e->p, e->c->now_ns, buf, n, vlan_tci);
}

static inline enum proxy_drop core_send(struct core *c, uint8_t opcode, uint32_t psn)
{
	enum proxy_drop d = core_in(&c->a, core_req(opcode, psn), core_len(opcode), 0);

	core_pump(c);
	return d;
}

/* The host sends it, and as nobody answers, again after its timeout: as one that has reset its QP does. */
static inline enum proxy_drop core_insist(struct core *c, uint8_t opcode, uint32_t psn)
{
	core_send(c, opcode, psn);
	core_wait(c, 4 * CORE_MS);
	return core_send(c, opcode, psn);
}

/* n single-packet WRITEs from psn on, without AckReq but for the last. */
static inline void core_send_run(struct core *c, uint32_t psn, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct roce_pkt h = core_req(RC_WRITE_ONLY, psn + i);

		h.ack_req = i + 1 == n;
		assert_int_equal(core_in(&c->a, h, CORE_PMTU, 0), DROP_NONE);
	}
	core_pump(c);
}

/* An answer of host B to host A's QPN `to_qpn`. */
static inline struct roce_pkt core_answer(uint8_t opcode, uint32_t to_qpn, uint32_t psn, uint8_t syndrome, uint32_t msn)
{
	struct roce_pkt h = core_req(opcode, psn);

	h.src = core_ip(2, 2);
	h.dst = core_ip(1, 2);
	h.udp_sport = 0xc777;
	h.tos = 0x28;
	h.ack_req = false;
	h.dest_qpn = to_qpn;
	h.aeth_syndrome = syndrome;
	h.aeth_msn = msn;
	return h;
}

static inline enum proxy_drop core_ack(struct core *c, uint32_t psn, uint8_t syndrome, uint32_t msn)
{
	enum proxy_drop d = core_in(&c->b, core_answer(RC_ACK, CORE_QPN, psn, syndrome, msn), 0, 0);

	core_pump(c);
	return d;
}

/* --- the flows as the edges see them --- */

static inline struct near_flow *core_near(struct core *c)
{
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);
	struct near_flow *f = near_find(c->a.p, &src, &dst, CORE_QPN, 0);

	assert_non_null(f);
	return f;
}

static inline struct far_flow *core_far(struct core *c)
{
	struct near_flow *n = core_near(c);
	struct far_flow *f = far_by_peer(c->b.p, near_wire_id(c->a.p, n));

	assert_non_null(f);
	return f;
}

/* One WRITE of psn, delivered and answered with msn 1: the pair is learned, and both sides are idle. */
static inline void core_pair(struct core *c, uint32_t psn)
{
	assert_int_equal(core_send(c, RC_WRITE_ONLY, psn), DROP_NONE);
	core_expect(&c->b, RC_WRITE_ONLY, psn);
	assert_int_equal(core_ack(c, psn, AETH_ACK_NO_CREDITS, 1), DROP_NONE);
	core_expect_aeth(&c->a, psn, AETH_ACK_NO_CREDITS);
	assert_int_equal(core_pending(&c->a), 0);
	assert_int_equal(core_pending(&c->b), 0);
}

/* n WRITEs from psn on, delivered and answered: nothing of them is left. Each MSN is its PSN + 1, as behind PSN 0. */
static inline void core_deliver(struct core *c, uint32_t psn, uint32_t n)
{
	core_send_run(c, psn, n);
	core_ack(c, psn + n - 1, AETH_ACK_NO_CREDITS, psn + n);
	core_wait(c, CORE_MS);
	assert_int_equal(core_used(&c->a), 0);
	assert_int_equal(core_used(&c->b), 0);
	core_forget(&c->a);
	core_forget(&c->b);
}

/* The same by a message of two packets, so that the PMTU is known on both sides; the next PSN is 2, the next MSN 2. */
static inline void core_pair_with_pmtu(struct core *c)
{
	assert_int_equal(core_send(c, RC_WRITE_FIRST, 0), DROP_NONE);
	assert_int_equal(core_send(c, RC_WRITE_LAST, 1), DROP_NONE);
	core_expect(&c->b, RC_WRITE_FIRST, 0);
	core_ack(c, 0, AETH_ACK_NO_CREDITS, 0);
	core_expect(&c->b, RC_WRITE_LAST, 1);
	core_ack(c, 1, AETH_ACK_NO_CREDITS, 1);
	core_wait(c, CORE_MS);
	core_forget(&c->a);
	core_forget(&c->b);
}

/* --- what a test begins with: `struct core *c = core_given(state, mode);`; CORE_TEST() in its list closes them --- */

/* Two edges that have said hello, their arenas of so many chunks. */
static inline struct core *core_given_chunks(void **state, enum ack_mode mode, uint32_t chunks)
{
	struct core *c = malloc(sizeof(*c));

	assert_non_null(c);
	core_open_with(c, mode, chunks);
	*state = c;
	return c;
}

static inline struct core *core_given(void **state, enum ack_mode mode)
{
	return core_given_chunks(state, mode, 32);
}

/* And a WAN whose datagrams have no room for a whole packet. */
static inline struct core *core_given_small_mtu(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);

	c->a.cfg.path[0].payload_max = c->b.cfg.path[0].payload_max = 1472;
	core_begin(&c->a, 1);
	core_begin(&c->b, 1);
	core_session(c);
	return c;
}

/* And a flow whose PSN 0 is delivered. */
static inline struct core *core_given_pair(void **state, enum ack_mode mode)
{
	struct core *c = core_given(state, mode);

	core_pair(c, 0);
	return c;
}

/* And a flow whose PMTU is known: its next PSN is 2, its next MSN 2. */
static inline struct core *core_given_pmtu(void **state, enum ack_mode mode)
{
	struct core *c = core_given(state, mode);

	core_pair_with_pmtu(c);
	return c;
}

/* The flow is far from where its queue pair's lives begin: what it repeats can be of no other life. */
static inline void core_long_life(struct core *c)
{
	core_near(c)->psn_origin = 0x800000;
}

static inline int core_done(void **state)
{
	if (*state)
		core_close(*state);
	free(*state);
	return 0;
}

#define CORE_TEST(t) cmocka_unit_test_teardown(t, core_done)

/* Slots of one small packet in each of many chunks. */
struct core_scatter {
	uint32_t slot[8192], n;
};

#define CORE_SCATTER 64 /* of so many slots one is kept */

/* Most bytes of the near edge's POOL_WAN are free, and no slot for a large packet is. */
static inline void core_scatter(struct core *c, struct core_scatter *s)
{
	struct proxy *p = c->a.p;
	uint32_t slot;

	s->n = 0;
	while ((slot = slot_take(p, SLOT_RAW_WAN, 0, 0, s->n, 100, 0, true)) != SLOT_NONE) {
		assert_true(s->n < sizeof(s->slot) / sizeof(s->slot[0]));
		s->slot[s->n++] = slot;
	}
	for (uint32_t i = 0; i < s->n; i++)
		if (i % CORE_SCATTER)
			slot_release(p, s->slot[i]);
	assert_true(pool_free(p, POOL_WAN) > arena_capacity(p->arena, POOL_WAN) / 10 * 9);
}

static inline void core_gather(struct core *c, const struct core_scatter *s)
{
	for (uint32_t i = 0; i < s->n; i += CORE_SCATTER)
		slot_release(c->a.p, s->slot[i]);
}

/* --- connection management --- */

struct core_cm {
	uint8_t type; /* attribute: 0x10 REQ, 0x13 REP, 0x14 RTU, 0x15 DREQ, 0x16 DREP */
	uint32_t local_id, remote_id;
	uint32_t qpn, psn; /* DREQ: qpn is the receiver's */
	uint8_t rnr_retry;
	uint16_t vlan_tci;
};

static inline enum proxy_drop core_cm_in(struct core_edge *e, const struct core_cm *m)
{
	struct roce_pkt h = core_req(UD_SEND_ONLY, 0);
	uint8_t mad[256] = {1, 7, 2, 3}, *d = mad + 24, buf[512];
	size_t n;

	if (e == &e->c->b) {
		h.src = core_ip(2, 2);
		h.dst = core_ip(1, 2);
	}
	h.dest_qpn = 1;
	h.deth_qkey = 0x80010000;
	h.deth_src_qpn = 1;
	mad[15] = 0x2a;
	mad[17] = m->type;
	put_be32(d, m->local_id);
	put_be32(d + 4, m->remote_id);
	if (m->type == 0x10) {
		put_be32(d + 4, 0);
		put_be24(d + 32, m->qpn);
		put_be24(d + 44, m->psn);
		d[47] = 7;
		put_be16(d + 48, 0xffff);
		d[50] = (uint8_t)(3 << 4 | m->rnr_retry); /* PMTU 1024 */
	} else if (m->type == 0x13) {
		put_be24(d + 12, m->qpn);
		put_be24(d + 20, m->psn);
		d[27] = (uint8_t)(m->rnr_retry << 5);
	} else if (m->type == 0x15) {
		put_be24(d + 8, m->qpn);
	}
	n = roce_build(buf, sizeof(buf), &h, mad, sizeof(mad));
	assert_true(n > 0);
	return proxy_lan_rx(e->p, e->c->now_ns, buf, n, m->vlan_tci);
}

/* A connects to B: A's QPN 0x21 begins at psn_a, B's QPN CORE_QPN at psn_b. Messages are taken off the queues. */
static inline void core_connect(struct core *c, uint32_t psn_a, uint32_t psn_b, uint8_t rnr_retry)
{
	assert_int_equal(
	    core_cm_in(
	        &c->a,
	        &(struct core_cm){.type = 0x10, .local_id = 5, .qpn = 0x21, .psn = psn_b, .rnr_retry = rnr_retry}),
	    DROP_NONE);
	core_pump(c);
	core_expect(&c->b, UD_SEND_ONLY, 0);
	assert_int_equal(core_cm_in(&c->b, &(struct core_cm){.type = 0x13,
	                                                     .local_id = 6,
	                                                     .remote_id = 5,
	                                                     .qpn = CORE_QPN,
	                                                     .psn = psn_a,
	                                                     .rnr_retry = rnr_retry}),
	                 DROP_NONE);
	core_pump(c);
	core_expect(&c->a, UD_SEND_ONLY, 0);
	assert_int_equal(core_cm_in(&c->a, &(struct core_cm){.type = 0x14, .local_id = 5, .remote_id = 6}), DROP_NONE);
	core_pump(c);
	core_expect(&c->b, UD_SEND_ONLY, 0);
}

#endif
