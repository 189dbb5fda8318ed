/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * The last host of each site, which has no work of its own, sends packets that are right in form (addresses within the
 * prefixes, lengths, ICRC) and wrong in meaning:
 *
 *   spoof      WRITEs to random QPNs, from random addresses of its site
 *   spray      the same from its own address
 *   false ACK  answers about PSNs that were never sent, with the address of another host of its site
 *   soup       any opcode, any PSN, any length, to the first few QPNs
 *   garbage    one of the above with bits flipped
 *
 * An answer to a PSN that is outstanding, with another host's address, would be believed, as RC itself would: who can
 * forge addresses on a LAN can end any QP on it. Nor can a host get its first pair while another one forges all
 * addresses of the site; the named run lets every host have one before. */
#include "attack.h"

#include <stdio.h>
#include <string.h>

#include "runner.h"
#include "scenario.h"

enum { SPOOF, SPRAY, FALSE_ACK, SOUP, GARBAGE };

static struct rng rng;
static uint32_t left[2]; /* packets, of each site */

static struct roce_pkt write_to(const struct world *w, uint8_t site)
{
	uint8_t other = (uint8_t)(w->cfg.nhosts[!site] - 1);
	struct roce_pkt h = {
	    .src = world_addr(site, (uint8_t)(w->cfg.nhosts[site] - 1), false),
	    .dst = world_addr(!site, (uint8_t)rng_below(&rng, other), false),
	    .ttl = 64,
	    .udp_sport = (uint16_t)(0xc000 | rng_below(&rng, 0x4000)),
	    .opcode = RC_WRITE_ONLY,
	    .pkey = 0xffff,
	    .migreq = true,
	    .ack_req = true,
	    .dest_qpn = (uint32_t)rng_below(&rng, 1 << 24),
	    .psn = (uint32_t)rng_below(&rng, 1 << 24),
	    .reth_va = 0x1000,
	    .reth_rkey = 1,
	};

	return h;
}

static struct roce_pkt make(const struct world *w, uint8_t site, uint64_t kind)
{
	struct roce_pkt h = write_to(w, site);

	switch (kind) {
	case SPOOF:
		h.src.b[14] = (uint8_t)rng_below(&rng, 256);
		h.src.b[15] = (uint8_t)rng_below(&rng, 256);
		break;
	case FALSE_ACK:
		h.src = world_addr(site, (uint8_t)rng_below(&rng, w->cfg.nhosts[site] - 1), false);
		h.opcode = rng_chance(&rng, 0.5) ? RC_ACK : RC_READ_RESP_ONLY;
		h.dest_qpn = (uint32_t)rng_range(&rng, 0x10, 0x40);
		/* half of the PSN space away from where the work goes on */
		h.psn = (uint32_t)((w->cfg.conn[0].psn_start[!site] + (1 << 23) - (1 << 20) +
		                    rng_below(&rng, 1 << 21)) &
		                   ROCE_PSN_MASK);
		h.aeth_syndrome = (uint8_t)rng_below(&rng, 256);
		break;
	case SOUP:
		h.opcode = (uint8_t)rng_below(&rng, 256);
		h.dest_qpn = (uint32_t)rng_below(&rng, 0x40);
		break;
	default:
		break;
	}
	return h;
}

static void fire(void *obj, uint64_t site)
{
	struct world *w = obj;
	uint8_t host = (uint8_t)(w->cfg.nhosts[site] - 1), payload[256] = {0};
	struct pkt *p = pkt_new(PKT_MAX);
	uint64_t kind = rng_range(&rng, w->cfg.attack_spoofs ? SPOOF : SPRAY, GARBAGE);
	struct roce_pkt h = make(w, (uint8_t)site, kind == GARBAGE ? rng_range(&rng, SPRAY, SOUP) : kind);

	h.reth_len = (uint32_t)rng_below(&rng, sizeof(payload));
	p->len = (uint32_t)roce_build(p->data, PKT_MAX, &h, payload, kind == SOUP ? rng_below(&rng, 256) : h.reth_len);
	for (uint64_t i = kind == GARBAGE ? rng_range(&rng, 1, 8) : 0; i && p->len; i--)
		p->data[rng_below(&rng, p->len)] ^= (uint8_t)(1 << rng_below(&rng, 8));
	if (p->len)
		link_send(&w->up[site][host], p);
	else
		pkt_free(p);
	if (!w->done_ns && --left[site])
		eventq_at(&w->q, w->q.now_ns + 1000000000ull / w->cfg.attack_pps, fire, w, site);
}

void attack_start(struct world *w)
{
	if (!w->cfg.attack_pps)
		return;
	rng_init(&rng, rng_hash(w->cfg.seed, 0xa77ac4));
	left[0] = left[1] = w->cfg.attack_pkts;
	/* Nothing stands between a forged answer and its host before there are edges. */
	for (uint64_t site = 0; site < 2; site++)
		eventq_at(&w->q, w->cfg.attack_ns + w->cfg.edges_from_ns, fire, w, site);
}

/* --- the named run --- */

enum { CONNS = 16, ATTACK_PPS = 500000 };

static struct world world;

/* 16 QPs between two hosts and two, opened one after the other while it goes on. Seconds, negative: a violation. */
static double seconds(uint64_t pps)
{
	struct conn_cfg conn[CONNS];
	struct scenario s;
	double took;

	scenario_plain(&s, 10000000000ull, 1500000, 4096);
	s.cfg.nhosts[0] = s.cfg.nhosts[1] = 3;
	for (int h = 0; h < 3; h++)
		s.cfg.model[0][h] = s.cfg.model[1][h] = &host_model_cx;
	s.cfg.max_flows = 1024;
	s.cfg.attack_pps = pps;
	s.cfg.attack_spoofs = true;
	s.cfg.attack_pkts = UINT32_MAX;
	s.cfg.attack_ns = 20000000; /* each host has a pair by then */
	s.cfg.audit = true;
	s.cfg.deadline_ns = 60000000000ull;
	s.cfg.conn = conn;
	s.cfg.nconns = CONNS;
	for (uint32_t i = 0; i < CONNS; i++) {
		conn[i] = s.conn[0];
		conn[i].host[0] = (uint8_t)(i % 2);
		conn[i].host[1] = (uint8_t)(i / 2 % 2);
		conn[i].plan[0].nmsgs = 100;
		conn[i].open_ns = i * 2000000ull;
	}
	world_start(&world, &s.cfg);
	world_run(&world);
	took = world.violation[0] ? -1 : (double)world.done_ns / 1e9;
	if (world.violation[0])
		run_report(&world, "attack", false);
	return took;
}

static void print_drops(uint8_t site)
{
	printf("  edge %c:", 'A' + site);
	for (enum proxy_drop d = DROP_NONE + 1; d < DROP_COUNT; d++)
		if (edge_drops(&world.edge[site], d))
			printf(" %s %llu", proxy_drop_name(d), (unsigned long long)edge_drops(&world.edge[site], d));
	printf("\n");
}

int attack_run(void)
{
	double quiet, harmed;

	pktlog_init(&world.log, 1024);
	run_guard(&world);
	quiet = seconds(0);
	world_end(&world);
	harmed = quiet < 0 ? -1 : seconds(ATTACK_PPS);
	if (harmed > 0) {
		printf("attack: %d QPs at 10 Gbit/s over 300 km, and a host at each site that sends %d packets a "
		       "second to do harm:\n  %.1f ms, without it %.1f ms: %.3f of the rate (at least 0.9 expected)\n",
		       CONNS, ATTACK_PPS, harmed * 1e3, quiet * 1e3, quiet / harmed);
		print_drops(0);
		print_drops(1);
	}
	world_end(&world);
	world_free(&world);
	return harmed > 0 && quiet / harmed >= 0.9 ? 0 : 1;
}
