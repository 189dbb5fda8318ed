/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_core.h - two edges that live through a script, for fuzz_wan.c and fuzz_lan.c.
 *
 * The input is a script of steps. Most of them are ordinary life: hosts send and answer, datagrams cross or get lost,
 * time passes, a session begins again, an edge is rebuilt from its arena. In between come the hostile steps of the
 * fuzzer that includes this. So hostile bytes meet flows in every state.
 *
 * Checked: no call into the core does more work than one may, neither edge ever emits without end at one moment, nothing leaves for a host outside the edge's own
 * prefixes, every AETH packet has a right ICRC, both shards pass their audit. Memory is bounded by construction: all of
 * it is given at the start, and the address sanitizer guards its edges. */
#ifndef TESTS_FUZZ_CORE_H
#define TESTS_FUZZ_CORE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "proxy/roce/ip.h"
#include "proxy/wan/wan.h"
#include "proxy/far/far.h"
#include "proxy/near/near.h"
#include "proxy/proxy.h"
#include "proxy/roce/roce.h"
#include "proxy/wan/dgram/wan_frame.h"
#include "proxy/wan/wan_lane.h"
#include "proxy/wan/wan_seal.h"
#include "tests/sim/steps.h"

enum {
	FZ_CHUNK = 1 << 16,
	FZ_CHUNKS = 8,
	FZ_FLOWS = 16,
	FZ_STEPS_MAX = 400,
	FZ_AUDIT_EVERY = 32,
	FZ_BURST_MAX = 4096, /* packets or datagrams at one moment: more than the arenas hold */
	FZ_QPNS = 3,
	FZ_PMTU = 256,
};

#define FZ_BPS 100000000000ull

/* The sanitizers' own checks are steps, too. */
#define FZ_STEPS_MAX (3 * STEPS_MAX)

struct input {
	const uint8_t *data;
	size_t left;
};

static inline uint8_t in_u8(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->data++;
}

static inline uint16_t in_u16(struct input *in)
{
	uint16_t hi = in_u8(in);

	return (uint16_t)(hi << 8 | in_u8(in));
}

static inline uint32_t in_u32(struct input *in)
{
	uint32_t hi = in_u16(in);

	return hi << 16 | in_u16(in);
}

static inline uint64_t in_u64(struct input *in)
{
	uint64_t hi = in_u32(in);

	return hi << 32 | in_u32(in);
}

/* Up to cap bytes. */
static inline size_t in_bytes(struct input *in, uint8_t *buf, size_t cap)
{
	size_t n = in->left < cap ? in->left : cap;

	memcpy(buf, in->data, n);
	in->data += n;
	in->left -= n;
	return n;
}

struct fz_edge {
	struct proxy *p;
	struct proxy_config cfg;
	struct arena_geometry g;
	void *heap, *region;
	size_t heap_len;
	struct wan_pacer pacer;
	enum rate_controller control;
	uint8_t site;
	uint32_t psn[FZ_QPNS]; /* next PSN of the site's own requester per QPN */
	/* what the site's responder got last */
	struct roce_pkt last;
	bool got;
};

struct fz {
	struct fz_edge e[2];
	uint64_t now_ns;
	uint32_t epoch;
	uint8_t dgram[WAN_MTU_MAX];
	uint64_t hostile_pn; /* numbers that hostile datagrams use */
};

static struct fz fz;

static inline void fz_called(const char *what)
{
	uint64_t steps = steps_end(what);

	if (steps > FZ_STEPS_MAX)
		fprintf(stderr, "%s took %llu steps\n", what, (unsigned long long)steps);
	REQUIRE(steps <= FZ_STEPS_MAX);
}

static inline void fz_wan_rx(struct fz_edge *to, size_t len, uint8_t ecn)
{
	steps_begin();
	proxy_wan_rx(to->p, fz.now_ns, fz.dgram, len, ecn);
	fz_called("proxy_wan_rx");
}

static inline void fz_lan_rx(struct fz_edge *e, const uint8_t *l3, size_t len, uint16_t vlan)
{
	steps_begin();
	proxy_lan_rx(e->p, fz.now_ns, l3, len, vlan);
	fz_called("proxy_lan_rx");
}

static inline size_t fz_lan_tx(struct fz_edge *e, struct lan_tx *tx)
{
	size_t len;

	steps_begin();
	len = proxy_lan_tx(e->p, fz.now_ns, tx);
	fz_called("proxy_lan_tx");
	return len;
}

static inline struct ip_addr fz_ip(unsigned site, unsigned host)
{
	return (struct ip_addr){.b = {[10] = 0xff, 0xff, 10, (uint8_t)site, 0, (uint8_t)host}};
}

static inline void fz_memory(struct fz_edge *e, unsigned site)
{
	proxy_config_defaults(&e->cfg);
	e->site = (uint8_t)site;
	e->cfg.nlanes = 1;
	e->cfg.max_flows = FZ_FLOWS;
	e->cfg.nlocal = e->cfg.nremote = 1;
	e->cfg.local[0] = (struct ip_prefix){.addr = fz_ip(site, 0), .len = 96 + 24};
	e->cfg.remote[0] = (struct ip_prefix){.addr = fz_ip(3 - site, 0), .len = 96 + 24};
	e->cfg.path[0].pacer = &e->pacer;
	e->cfg.rate_hint_bps = 100000000;
	e->cfg.rtt_hint_ns = 1000000;
	e->cfg.ip_pool_bytes = IP_POOL_MIN;
	e->cfg.path[0].payload_max = 1472;
	e->g = (struct arena_geometry){.chunk_size = FZ_CHUNK, .max_flows = FZ_FLOWS, .reserve_percent = 25};
	e->g.len = arena_min_len(FZ_CHUNK, FZ_FLOWS) + (uint64_t)FZ_CHUNKS * FZ_CHUNK;
	e->cfg.fec = (struct fec_config){.mode = FEC_FIXED, .k = 4, .m = 2}; /* what takes most */
	e->heap_len = proxy_heap_size(&e->cfg, &e->g);
	REQUIRE(e->heap_len);
	e->heap = aligned_alloc(64, e->heap_len);
	e->region = aligned_alloc(FZ_CHUNK, (e->g.len + FZ_CHUNK - 1) / FZ_CHUNK * FZ_CHUNK);
	REQUIRE(e->heap && e->region);
}

static inline void fz_start(struct fz_edge *e, enum proxy_start start)
{
	wan_pacer_init(&e->pacer, FZ_BPS, 66, 1000000); /* lives as long as its shard */
	rate_choose(&e->pacer.control, e->control, FZ_BPS);
	REQUIRE(proxy_heap_size(&e->cfg, &e->g) <= e->heap_len);
	memset(e->heap, 0, proxy_heap_size(&e->cfg, &e->g));
	REQUIRE(proxy_init(&e->p, e->heap, e->region, &e->cfg, &e->g, start, 1, fz.now_ns) == 0);
	REQUIRE(proxy_audit(e->p) == 0);
}

static inline void fz_session(void)
{
	struct proxy_session s = {.epoch_tx = 1, .epoch_rx = 1};

	s.epoch_tx = s.epoch_rx = ++fz.epoch;
	proxy_session_start(fz.e[0].p, &s, fz.now_ns);
	proxy_session_start(fz.e[1].p, &s, fz.now_ns);
	fz.hostile_pn = 1 << 20;
}

static inline void fz_begin(uint8_t how)
{
	if (!fz.e[0].heap) {
		fz_memory(&fz.e[0], 1);
		fz_memory(&fz.e[1], 2);
	}
	fz.now_ns = 1000000000;
	fz.epoch = 0;
	for (int i = 0; i < 2; i++) {
		struct fz_edge *e = &fz.e[i];

		e->control = how & 32 ? RATE_auto : RATE_fixed; /* auto sends ECT(0), and obeys marks */
		e->cfg.mode = how & 1 ? ACK_MODE_NEAR : ACK_MODE_HOST;
		e->cfg.barrier = how & 4 ? BARRIER_PAIR : how & 16 ? BARRIER_CAUSAL : BARRIER_OFF;
		e->cfg.fec.mode = how & 8 ? FEC_FIXED : FEC_OFF;
		memset(e->psn, how & 2 ? 0xff : 0, sizeof(e->psn)); /* near the wrap */
		e->got = false;
		fz_start(e, PROXY_START_FRESH);
	}
	fz_session();
}

static inline void fz_audit(void)
{
	for (int i = 0; i < 2; i++) {
		int rc = proxy_audit(fz.e[i].p);

		if (rc)
			fprintf(stderr, "audit of edge %d: %d\n", i, rc);
		REQUIRE(rc == 0);
	}
}

/* --- packets --- */

static inline void fz_check_out(const struct fz_edge *e, const struct lan_tx *tx, size_t len)
{
	static uint8_t l3[LAN_IP_MAX + 128];
	struct roce_pkt pkt;
	struct ip_pkt ip;

	REQUIRE(len == (size_t)tx->hdr_len + tx->body_len + tx->trailer_len && len <= LAN_IP_MAX);
	memcpy(l3, tx->hdr, tx->hdr_len);
	if (tx->body_len)
		memcpy(l3 + tx->hdr_len, tx->body, tx->body_len);
	memcpy(l3 + tx->hdr_len + tx->body_len, tx->trailer, tx->trailer_len);
	REQUIRE(ip_parse(l3, len, &ip) == DROP_NONE && ip.len == len);
	REQUIRE(ip_addr_eq(&ip.dst, &tx->dst));
	REQUIRE(ip_prefix_holds(&e->cfg.local[0], &ip.dst));
	if (!ip.to_roce && e->cfg.barrier != BARRIER_OFF)
		return;
	REQUIRE(roce_parse(l3, len, &pkt) == DROP_NONE);
	REQUIRE(ip_addr_eq(&pkt.dst, &tx->dst));
	REQUIRE(ip_prefix_holds(&e->cfg.local[0], &pkt.dst));
	if (pkt.opcode == RC_ACK)
		REQUIRE(icrc_check(l3, &pkt, NULL));
}

/* Takes what the edge has for its hosts. */
static inline void fz_take(struct fz_edge *e)
{
	struct lan_tx tx;
	size_t len;
	int n = 0;

	while ((len = fz_lan_tx(e, &tx)) > 0) {
		struct roce_pkt pkt;

		fz_check_out(e, &tx, len);
		if (tx.probe && (fz.now_ns >> 10) % 8 == 0)
			proxy_lan_unsent(e->p, fz.now_ns, &tx);
		if (roce_parse(tx.hdr, len, &pkt) == DROP_NONE && pkt.class == ROCE_RC_REQUEST) {
			e->last = pkt;
			e->got = true;
		}
		REQUIRE(++n < FZ_BURST_MAX);
	}
}

static inline void fz_settle(void)
{
	struct proxy_event ev;

	for (int i = 0; i < 2; i++) {
		steps_begin();
		proxy_tick(fz.e[i].p, fz.now_ns);
		fz_called("proxy_tick");
		fz_take(&fz.e[i]);
		while (proxy_event_next(fz.e[i].p, &ev))
			;
	}
}

/* The next datagram of an edge, 0 if it has none; the ECN field that it leaves with. */
static inline size_t fz_dgram(struct fz_edge *from, uint8_t *ecn)
{
	struct wan_tx tx = {.ect = false};
	size_t n;

	steps_begin();
	n = proxy_wan_tx(from->p, fz.now_ns, fz.dgram, sizeof(fz.dgram), &tx);
	fz_called("proxy_wan_tx");
	REQUIRE(n <= from->cfg.path[0].payload_max);
	REQUIRE(!tx.ect || from->control == RATE_auto);
	*ecn = tx.ect ? ECN_ECT0 : 0;
	return n;
}

/* Everything that an edge has to say crosses, but for every `lose`th; and of what may be marked a fourth is. */
static inline void fz_cross(struct fz_edge *from, struct fz_edge *to, unsigned lose)
{
	size_t n;
	unsigned k = 0;
	uint8_t ecn;

	while ((n = fz_dgram(from, &ecn)) > 0) {
		REQUIRE(++k < FZ_BURST_MAX);
		if (lose && k % lose == 0)
			continue;
		fz_wan_rx(to, n, ecn && k % 4 == 0 ? ECN_CE : ecn);
	}
}

static inline struct roce_pkt fz_hdr(const struct fz_edge *e, uint8_t opcode, uint32_t qpn, uint32_t psn)
{
	return (struct roce_pkt){.src = fz_ip(e->site, 2),
	                         .dst = fz_ip(3u - e->site, 2),
	                         .ttl = 64,
	                         .udp_sport = 0xc001,
	                         .opcode = opcode,
	                         .pkey = 0xffff,
	                         .dest_qpn = qpn,
	                         .psn = psn & ROCE_PSN_MASK,
	                         .ack_req = true,
	                         .reth_len = FZ_PMTU};
}

static inline void fz_lan(struct fz_edge *e, struct roce_pkt h, size_t payload_len, uint16_t vlan)
{
	static uint8_t buf[LAN_PKT_MAX + 128], payload[LAN_PKT_MAX];
	size_t n;

	memset(payload, (int)(h.psn & 0xff), payload_len);
	n = roce_build(buf, sizeof(buf), &h, payload, payload_len);
	if (n)
		fz_lan_rx(e, buf, n, vlan);
}

/* --- ordinary life --- */

static inline size_t fz_payload_len(uint8_t opcode)
{
	return roce_op(opcode)->flags & ROP_PAYLOAD ? FZ_PMTU : 0;
}

static inline void fz_host_sends(struct fz_edge *e, uint8_t what)
{
	static const uint8_t ops[] = {RC_WRITE_ONLY, RC_SEND_ONLY,    RC_WRITE_FIRST, RC_WRITE_MIDDLE,
	                              RC_WRITE_LAST, RC_READ_REQUEST, RC_FETCH_ADD,   RC_WRITE_ONLY};
	unsigned qpn = what >> 3 & 3;
	uint8_t op = ops[what & 7];
	struct roce_pkt h;

	if (qpn >= FZ_QPNS)
		qpn = 0;
	h = fz_hdr(e, op, 0x10 + qpn, e->psn[qpn]);
	if (op == RC_READ_REQUEST)
		h.reth_len = (1u + (what >> 5)) * FZ_PMTU;
	e->psn[qpn] += op == RC_READ_REQUEST ? roce_read_psns(h.reth_len, FZ_PMTU) : 1;
	fz_lan(e, h, fz_payload_len(op), 0);
}

/* The responder answers what it got last. */
static inline void fz_host_answers(struct fz_edge *e)
{
	struct roce_pkt h = fz_hdr(e, RC_ACK, e->last.dest_qpn, e->last.psn);

	if (!e->got)
		return;
	h.aeth_syndrome = AETH_ACK_NO_CREDITS;
	h.aeth_msn = e->last.psn;
	if (e->last.opcode == RC_READ_REQUEST)
		h.opcode = e->last.reth_len <= FZ_PMTU ? RC_READ_RESP_ONLY : RC_READ_RESP_FIRST;
	if (e->last.opcode == RC_FETCH_ADD || e->last.opcode == RC_CMP_SWAP)
		h.opcode = RC_ATOMIC_ACK;
	if (e->last.opcode == RC_FLUSH || e->last.opcode == RC_ATOMIC_WRITE) {
		h.opcode = RC_READ_RESP_ONLY;
		fz_lan(e, h, 0, 0);
		return;
	}
	fz_lan(e, h, fz_payload_len(h.opcode), 0);
	for (uint32_t i = 1; h.opcode != RC_ACK && i < roce_read_psns(e->last.reth_len, FZ_PMTU) && i < 8; i++) {
		h.psn = (h.psn + 1) & ROCE_PSN_MASK;
		h.opcode = (i + 1) * FZ_PMTU >= e->last.reth_len ? RC_READ_RESP_LAST : RC_READ_RESP_MIDDLE;
		fz_lan(e, h, FZ_PMTU, 0);
	}
}

/* One step. False if `what` is none of these: the fuzzer's own then. */
static inline bool fz_life(uint8_t what, struct input *in)
{
	struct fz_edge *e = &fz.e[what & 1], *other = &fz.e[!(what & 1)];

	switch (what >> 1) {
	case 0:
		fz_host_sends(e, in_u8(in));
		break;
	case 1:
		fz_host_answers(e);
		break;
	case 2:
		fz_cross(e, other, 0);
		break;
	case 3:
		fz_cross(e, other, 1 + in_u8(in) % 8u);
		break;
	case 4:
		fz.now_ns += 1000ull << in_u8(in) % 21;
		break;
	case 5:
		e->psn[in_u8(in) % FZ_QPNS] -= in_u8(in); /* the host goes back, or starts anew */
		break;
	case 6:
		if (in_u8(in) % 4 == 0)
			fz_session();
		break;
	case 7:
		if (in_u8(in) % 8 == 0) {
			fz_start(e, PROXY_START_REBUILD);
			fz_session();
		}
		break;
	default:
		return false;
	}
	return true;
}

enum { FZ_LIFE = 16 };

/* Runs a script; hostile() is called with the steps that are not ordinary life. */
static inline void fz_run(const uint8_t *data, size_t size, void (*hostile)(uint8_t what, struct input *in))
{
	struct input in = {data, size};

	fz_begin(in_u8(&in));
	for (int step = 1; in.left && step <= FZ_STEPS_MAX; step++) {
		uint8_t what = in_u8(&in) % 32;

		if (!fz_life(what, &in))
			hostile((uint8_t)(what - FZ_LIFE), &in);
		fz_settle();
		if (step % FZ_AUDIT_EVERY == 0)
			fz_audit();
	}
	for (int i = 0; i < 20; i++) { /* it all comes to rest */
		fz_cross(&fz.e[0], &fz.e[1], 0);
		fz_cross(&fz.e[1], &fz.e[0], 0);
		fz_settle();
		fz.now_ns += 50000000;
	}
	fz_audit();
}

#endif
