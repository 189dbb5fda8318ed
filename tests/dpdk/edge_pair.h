/* SPDX-License-Identifier: Apache-2.0 */
/* edge_pair.h - two edges of one link in one process, each with a LAN port of net_vhost, between two hosts that are
 * ports of net_virtio_user. Neither rights, nor namespaces, nor huge pages are needed.
 *
 *     host A (virtio 0) --- vhost 0, edge A === memory === edge B, vhost 1 --- host B (virtio 1)
 *
 * lan_engine.c, the plugin and the core are those of the daemon. The hosts' memory and the arenas are shared with other
 * processes, so this one can be killed and another one goes on: pair_open(), pair_turn() again and again, pair_close().
 */
#ifndef TESTS_EDGE_PAIR_H
#define TESTS_EDGE_PAIR_H

#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int pair_ioctl(int fd, unsigned long request, void *arg);
#define ioctl pair_ioctl
#include "daemon/lan/burst_ring.c"
#include "daemon/lan/lan_engine.c"
#undef ioctl
#include "daemon/lan/lan_device.c"
#include "daemon/lan/lan_match.c"
#include "proxy/shard/core.h"
#include "seal/seal.h"

enum {
	PAIR_BATCH = 32,
	PAIR_WINDOW = 256, /* packets that host A sends without an answer */
	PAIR_QPN = 0x11,
	PAIR_DGRAM_MAX = 8972,
	PAIR_LINE = 512, /* datagrams on the line */
	PAIR_ETH = 14,
	PAIR_AGAIN_NS = 50000000,
};

#define PAIR_ARENA (64ull << 20)

/* The hosts: it survives the process. */
struct pair_hosts {
	_Atomic uint32_t next, acked; /* of host A: PSNs */
	_Atomic uint32_t expected;    /* of host B */
	_Atomic uint32_t wrong;       /* packets whose bytes are not what host A sent */
	_Atomic bool running;
	uint64_t moved_ns; /* host A's last news */
};

struct pair_dgrams {
	uint8_t buf[PAIR_LINE][PAIR_DGRAM_MAX];
	uint16_t len[PAIR_LINE];
	unsigned n;
};

struct pair_edge {
	struct proxy *p;
	struct proxy_config cfg;
	struct arena_geometry g;
	struct wan_pacer pacer;
	struct lan_port *port;
	struct nic_device *host;
	struct pair_dgrams out;
	uint64_t landed, copied;
};

/* Time stamps of one turn's stages: tests leave them out. */
enum pair_stage { PAIR_NEAR_IN, PAIR_ACKS, PAIR_SEAL, PAIR_OPEN, PAIR_OUT, PAIR_STAGES };

struct pair {
	struct pair_edge a, b;
	struct pair_hosts *hosts;
	uint64_t now_ns;
	uint16_t payload; /* of each packet; 0: all lengths */
	void (*lap)(struct pair *t,
	            enum pair_stage s); /* NULL: nobody measures. Called behind each stage, -1: before the first */
};

static const uint8_t pair_mac[6] = {2, 0, 0, 0, 0, 7};

static int pair_ioctl(int fd, unsigned long request, void *arg)
{
	struct ifreq *ifr = arg;

	(void)fd;
	if (request == SIOCGIFINDEX) {
		ifr->ifr_ifindex = 3;
		return 0;
	}
	ifr->ifr_hwaddr.sa_family = ARPHRD_ETHER;
	memcpy(ifr->ifr_hwaddr.sa_data, pair_mac, sizeof(pair_mac));
	return 0;
}

static uint64_t pair_clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct ip_addr pair_host(uint8_t site)
{
	return (struct ip_addr){.b = {[10] = 0xff, 0xff, 10, site, 0, 2}};
}

/* --- set-up --- */

static void *pair_map(size_t len, int flags)
{
	uint8_t *p = mmap(NULL, len + (2 << 20), PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : (void *)(((uintptr_t)p + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
}

static struct seal *pair_seal(enum seal_cipher cipher, uint8_t site)
{
	struct seal_scope of = {.nlanes = 1, .nshards = 1, .limits = {SEAL_DATAGRAMS_MAX, SEAL_BYTES_MAX}};
	struct seal_secret out = {.cipher = cipher, .epoch = site, .bytes = {site}};
	struct seal_secret in = {.cipher = cipher, .epoch = 3u - site, .bytes = {(uint8_t)(3 - site)}};
	struct seal *s = seal_new();

	seal_take_tx(s, seal_keys_new(&out, SEAL_TX, &of));
	seal_take_rx(s, seal_keys_new(&in, SEAL_RX, &of), 0);
	return s;
}

static bool pair_open_core(struct pair_edge *e, uint8_t site, void *region, uint64_t len, unsigned life,
                           enum seal_cipher cipher, uint64_t now_ns)
{
	struct proxy_session s = {
	    .epoch_tx = 2 * life + site, .epoch_rx = 2 * life + 3u - site, .peer_arena_epoch = 3u - site};

	wan_pacer_init(&e->pacer, 100000000000ull, 66, 1000000);
	proxy_config_defaults(&e->cfg);
	e->cfg.mode = ACK_MODE_NEAR;
	e->cfg.nlanes = 1;
	e->cfg.max_flows = 64;
	e->cfg.nlocal = e->cfg.nremote = 1;
	e->cfg.local[0] = (struct ip_prefix){.addr = pair_host(site), .len = 128};
	e->cfg.remote[0] = (struct ip_prefix){.addr = pair_host((uint8_t)(3 - site)), .len = 128};
	e->cfg.path[0].pacer = &e->pacer;
	e->cfg.rate_hint_bps = 10000000000ull;
	e->cfg.path[0].payload_max = PAIR_DGRAM_MAX;
	if (cipher != SEAL_NONE) { /* in its first life only: keys belong to a session */
		e->cfg.seal = &seal_ops;
		e->cfg.seal_ctx = pair_seal(cipher, site);
		s.epoch_tx = site;
		s.epoch_rx = 3u - site;
	}
	e->g = (struct arena_geometry){.len = len, .chunk_size = 1 << 20, .max_flows = 64, .reserve_percent = 25};
	if (proxy_init(&e->p, pair_map(proxy_heap_size(&e->cfg, &e->g), MAP_PRIVATE), region, &e->cfg, &e->g,
	               life ? PROXY_START_REBUILD : PROXY_START_FRESH, site, now_ns) != 0)
		return false;
	proxy_session_start(e->p, &s, now_ns);
	return true;
}

static void pair_landed(void *arg, uint32_t *slot, uint16_t off, size_t len, uint16_t vlan_tci)
{
	struct pair_edge *e = arg;

	e->landed++;
	proxy_lan_rx_slot(e->p, pair_clock_ns(), slot, off, len, vlan_tci);
}

static void pair_copied(void *arg, const uint8_t *l3, size_t len, uint16_t vlan_tci)
{
	struct pair_edge *e = arg;

	e->copied++;
	proxy_lan_rx(e->p, pair_clock_ns(), l3, len, vlan_tci);
}

static bool pair_open_port(struct pair_edge *e, const char *device, bool lend, char *err, size_t errlen)
{
	struct lan_port_params params = {.ifname = "eth1",
	                                 .device = device,
	                                 .filter = {.local = e->cfg.local,
	                                            .remote = e->cfg.remote,
	                                            .nlocal = 1,
	                                            .nremote = 1,
	                                            .nshards = 1,
	                                            .nlanes = 1,
	                                            .snaplen = LAN_FRAME_MAX}};
	struct lan_lend l = {.core = e->p, .fn = pair_landed};

	return lan_engine_ops.open(&e->port, &params, err, errlen) == 0 &&
	       (!lend || lan_engine_ops.lend(e->port, &l, err, errlen) == 0);
}

struct pair_params {
	const char *plugins, *dir; /* of the plugin; for sockets */
	void *region[2];           /* of len bytes each, shared */
	uint64_t len;
	unsigned life; /* 0: arenas are formatted */
	bool lend;     /* else all is copied */
	enum seal_cipher cipher;
};

/* False with err a sentence. */
static bool pair_open(struct pair *t, const struct pair_params *pp, struct pair_hosts *hosts, char *err, size_t errlen)
{
	struct lan_engine_options o = {.plugins = pp->plugins, .arguments = "--no-huge -m 256"};
	static struct link_config c;

	t->hosts = hosts;
	t->now_ns = pair_clock_ns();
	c.engine = ENGINE_DPDK;
	c.nlan_devices = 4;
	for (unsigned i = 0; i < 2; i++) {
		snprintf(c.lan_devices[i], LAN_DEVICE_MAX, "net_vhost%u,iface=%s/%u", i, pp->dir, i);
		snprintf(c.lan_devices[2 + i], LAN_DEVICE_MAX,
		         "net_virtio_user%u,path=%s/%u,queue_size=1024,mrg_rxbuf=0", i, pp->dir, i);
	}
	lan_engine_start(&o, &c, 1);
	snprintf(err, errlen, "%s", engine.err);
	for (unsigned i = 0; i < 4 && !err[0]; i++)
		snprintf(err, errlen, "%s", engine.device[i].err);
	if (err[0])
		return false;
	snprintf(err, errlen, "the core does not start");
	t->a.host = engine.device[2].nic;
	t->b.host = engine.device[3].nic;
	return pair_open_core(&t->a, 1, pp->region[0], pp->len, pp->life, pp->cipher, t->now_ns) &&
	       pair_open_core(&t->b, 2, pp->region[1], pp->len, pp->life, pp->cipher, t->now_ns) &&
	       pair_open_port(&t->a, c.lan_devices[0], pp->lend, err, errlen) &&
	       pair_open_port(&t->b, c.lan_devices[1], pp->lend, err, errlen);
}

/* What is wrong afterwards; NULL: nothing. */
static const char *pair_close(struct pair *t)
{
	struct pair_edge *edges[] = {&t->a, &t->b};

	for (unsigned i = 0; i < 2; i++) {
		lan_engine_ops.close(edges[i]->port);
		for (unsigned pool = 0; pool < POOL_COUNT; pool++)
			if (arena_lent(edges[i]->p->arena, (enum arena_pool)pool) != 0)
				return "something is lent still";
		if (proxy_audit(edges[i]->p) != 0)
			return "the audit of the core fails";
	}
	lan_engine_stop();
	return NULL;
}

/* --- hosts --- */

static uint16_t pair_payload_len(const struct pair *t, uint32_t psn)
{
	return t->payload ? t->payload : (uint16_t)(psn % 5 == 0 ? 4 * (psn % 400) + 4 : 4096 - 4 * (psn % 300));
}

/* Each word says which packet and which word: no two packets have a line in common. */
static void pair_fill(uint8_t *at, uint16_t len, uint32_t psn)
{
	for (uint32_t i = 0; i < len; i += 4) {
		uint32_t word = psn * 2654435761u + i;

		memcpy(at + i, &word, 4);
	}
}

static void pair_send(struct nic_device *host, uint8_t bytes[][LAN_FRAME_MAX], const size_t *len, unsigned n)
{
	struct nic_frame f[NIC_TX_BATCH];

	for (unsigned i = 0; i < n; i++) {
		memcpy(bytes[i], pair_mac, 6);
		put_be16(bytes[i] + 12, 0x0800);
		f[i] = (struct nic_frame){.part = {{bytes[i], len[i]}}, .nparts = 1, .lent = NIC_NO_PART};
	}
	if (n)
		engine.nic->tx(host, f, n);
}

static void pair_requests(struct pair *t, unsigned most)
{
	static uint8_t bytes[PAIR_BATCH][LAN_FRAME_MAX], payload[4096];
	struct pair_hosts *h = t->hosts;
	size_t len[PAIR_BATCH];
	unsigned n = 0;

	if (engine.nic->tx_pending(t->a.host)) {
		engine.nic->tx_retry(t->a.host);
		return;
	}
	if (h->next != h->acked && t->now_ns - h->moved_ns > PAIR_AGAIN_NS) { /* as RC does */
		h->next = h->acked;
		h->moved_ns = t->now_ns;
	}
	for (; n < most && n < PAIR_BATCH && h->next - h->acked < PAIR_WINDOW; n++, h->next++) {
		struct roce_pkt r = {.src = pair_host(1),
		                     .dst = pair_host(2),
		                     .ttl = 64,
		                     .udp_sport = 0xc011,
		                     .opcode = RC_WRITE_ONLY,
		                     .pkey = 0xffff,
		                     .dest_qpn = PAIR_QPN,
		                     .psn = h->next & ROCE_PSN_MASK,
		                     .ack_req = h->next % 16 == 15,
		                     .reth_len = pair_payload_len(t, h->next)};

		pair_fill(payload, pair_payload_len(t, h->next), h->next);
		len[n] = PAIR_ETH +
		         roce_build(bytes[n] + PAIR_ETH, LAN_PKT_MAX, &r, payload, pair_payload_len(t, h->next));
	}
	pair_send(t->a.host, bytes, len, n);
}

static void pair_answer(void *arg, const uint8_t *frame, size_t len, uint16_t tci, struct nic_place *place)
{
	struct pair *t = arg;
	struct pair_hosts *h = t->hosts;
	struct roce_pkt r;

	(void)tci;
	(void)place;
	if (len < PAIR_ETH || roce_parse(frame + PAIR_ETH, len - PAIR_ETH, &r) != DROP_NONE || r.opcode != RC_ACK)
		return;
	if ((r.aeth_syndrome & AETH_TYPE_MASK) != 0) {
		if (r.aeth_syndrome == AETH_NAK_PSN_SEQ && r.psn >= h->acked && r.psn <= h->next)
			h->next = h->acked = r.psn;
		return;
	}
	if (r.psn >= h->acked && r.psn < h->acked + 2 * PAIR_WINDOW) {
		h->acked = r.psn + 1;
		if (h->next < h->acked) /* of a life before: this host has forgotten that it had sent so far */
			h->next = h->acked;
		h->moved_ns = t->now_ns;
	}
}

struct pair_arrivals {
	struct pair *t;
	uint32_t asked[PAIR_BATCH];
	unsigned n;
};

static void pair_arrival(void *arg, const uint8_t *frame, size_t len, uint16_t tci, struct nic_place *place)
{
	struct pair_arrivals *in = arg;
	struct pair_hosts *h = in->t->hosts;
	static uint8_t want[4096];
	struct roce_pkt r;

	(void)tci;
	(void)place;
	if (len < PAIR_ETH || roce_parse(frame + PAIR_ETH, len - PAIR_ETH, &r) != DROP_NONE ||
	    !icrc_check(frame + PAIR_ETH, &r, NULL)) {
		h->wrong++;
		return;
	}
	if (r.opcode != RC_WRITE_ONLY)
		return;
	if (r.psn == h->expected) {
		pair_fill(want, pair_payload_len(in->t, r.psn), r.psn);
		if (r.payload_len != pair_payload_len(in->t, r.psn) ||
		    memcmp(frame + PAIR_ETH + r.hdr_len, want, r.payload_len) != 0)
			h->wrong++;
		h->expected++;
	}
	if (r.ack_req && r.psn < h->expected && in->n < PAIR_BATCH)
		in->asked[in->n++] = h->expected - 1;
}

static void pair_responses(struct pair *t)
{
	static uint8_t bytes[PAIR_BATCH][LAN_FRAME_MAX];
	struct pair_arrivals in = {.t = t};
	size_t len[PAIR_BATCH];

	if (engine.nic->tx_pending(t->b.host))
		engine.nic->tx_retry(t->b.host);
	if (engine.nic->tx_pending(t->b.host))
		return;
	engine.nic->rx(t->b.host, PAIR_BATCH, pair_arrival, &in);
	for (unsigned i = 0; i < in.n; i++) {
		struct roce_pkt r = {.src = pair_host(2),
		                     .dst = pair_host(1),
		                     .ttl = 64,
		                     .udp_sport = 0xc011,
		                     .opcode = RC_ACK,
		                     .pkey = 0xffff,
		                     .dest_qpn = PAIR_QPN,
		                     .psn = in.asked[i],
		                     .aeth_syndrome = AETH_ACK_NO_CREDITS,
		                     .aeth_msn = in.asked[i] + 1};

		len[i] = PAIR_ETH + roce_build(bytes[i] + PAIR_ETH, LAN_PKT_MAX, &r, NULL, 0);
	}
	pair_send(t->b.host, bytes, len, in.n);
}

/* --- edges --- */

static void pair_to_host(struct pair_edge *e, uint64_t now_ns)
{
	static struct lan_frame frames[LAN_TX_BATCH];
	const struct lan_frame *list[LAN_TX_BATCH];
	unsigned n = 0;

	if (lan_engine_ops.tx_blocked(e->port))
		lan_engine_ops.tx_retry(e->port);
	if (lan_engine_ops.tx_blocked(e->port))
		return;
	while (n < LAN_TX_BATCH && proxy_lan_tx(e->p, now_ns, &frames[n].pkt)) {
		frames[n].eth_len = PAIR_ETH;
		put_be16(frames[n].eth + 12, 0x0800);
		list[n] = &frames[n];
		n++;
	}
	if (n)
		lan_engine_ops.tx_batch(e->port, list, n);
}

static void pair_to_line(struct pair_edge *e, uint64_t now_ns)
{
	struct wan_tx tx;

	for (e->out.n = 0; e->out.n < PAIR_LINE; e->out.n++) {
		e->out.len[e->out.n] = (uint16_t)proxy_wan_tx(e->p, now_ns, e->out.buf[e->out.n], PAIR_DGRAM_MAX, &tx);
		if (e->out.len[e->out.n] == 0)
			return;
	}
}

static void pair_from_line(struct pair_edge *e, struct pair_edge *from, uint64_t now_ns)
{
	for (unsigned i = 0; i < from->out.n; i++)
		proxy_wan_rx(e->p, now_ns, from->out.buf[i], from->out.len[i], 0);
	from->out.n = 0;
}

static void pair_lap(struct pair *t, int stage)
{
	if (t->lap)
		t->lap(t, (enum pair_stage)stage);
}

/* One turn of everybody. `requests`: most new packets of host A. */
static void pair_turn(struct pair *t, unsigned requests)
{
	t->now_ns = pair_clock_ns();
	pair_requests(t, requests);
	engine.nic->rx(t->a.host, NIC_TX_BATCH, pair_answer, t);
	pair_lap(t, -1);
	lan_engine_ops.rx_batch(t->a.port, PAIR_BATCH, pair_copied, &t->a);
	proxy_tick(t->a.p, t->now_ns);
	pair_lap(t, PAIR_NEAR_IN);
	pair_to_host(&t->a, t->now_ns);
	pair_lap(t, PAIR_ACKS);
	pair_to_line(&t->a, t->now_ns);
	pair_lap(t, PAIR_SEAL);
	pair_from_line(&t->b, &t->a, t->now_ns);
	proxy_tick(t->b.p, t->now_ns);
	pair_lap(t, PAIR_OPEN);
	pair_to_host(&t->b, t->now_ns);
	pair_lap(t, PAIR_OUT);
	pair_responses(t);
	lan_engine_ops.rx_batch(t->b.port, PAIR_BATCH, pair_copied, &t->b);
	pair_to_line(&t->b, t->now_ns);
	pair_from_line(&t->a, &t->b, t->now_ns);
}

#endif
