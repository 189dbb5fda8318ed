/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_find.h"

#define AWAITED_NS 30000000000ull /* a host that is silent for so long has given up: its retries end sooner */

/* --- near flows --- */

uint32_t near_key_hash(const struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t qpn,
                       uint16_t vlan)
{
	uint64_t a, b, c, d, h = hash_mix(((uint64_t)vlan << 32 | qpn) ^ p->cfg.hash_seed);

	memcpy(&a, src->b, 8);
	memcpy(&b, src->b + 8, 8);
	memcpy(&c, dst->b, 8);
	memcpy(&d, dst->b + 8, 8);
	return (uint32_t)hash_mix(a ^ hash_mix(b ^ hash_mix(c ^ hash_mix(d ^ h))));
}

static bool has_key(const struct near_flow *f, const struct ip_addr *src, const struct ip_addr *dst, uint32_t qpn,
                    uint16_t vid)
{
	return f->dest_qpn == qpn && (f->vlan_tci & 0xfff) == vid && ip_addr_eq(&f->src, src) &&
	       ip_addr_eq(&f->dst, dst);
}

struct near_flow *near_find(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t dest_qpn,
                            uint16_t vlan_tci)
{
	uint16_t vid = vlan_tci & 0xfff;
	uint32_t h, i, idx;

	if (p->near_found && has_key(p->near_found, src, dst, dest_qpn, vid))
		return p->near_found;
	i = h = near_key_hash(p, src, dst, dest_qpn, vid);
	while ((idx = idx_hash_next(&p->near_by_key, h, &i)) != NONE)
		if (has_key(&p->near[idx], src, dst, dest_qpn, vid))
			return p->near_found = &p->near[idx];
	return NULL;
}

static uint32_t key_hash(const struct proxy *p, const struct near_flow *f)
{
	return near_key_hash(p, &f->src, &f->dst, f->dest_qpn, f->vlan_tci & 0xfff);
}

void near_key_put(struct proxy *p, const struct near_flow *f)
{
	idx_hash_put(&p->near_by_key, key_hash(p, f), f->idx);
	p->near_found = NULL;
}

void near_key_del(struct proxy *p, const struct near_flow *f)
{
	idx_hash_del(&p->near_by_key, key_hash(p, f), f->idx);
	p->near_found = NULL;
}

bool near_awaits(struct proxy *p, const struct ip_addr *requester, const struct ip_addr *responder, uint32_t qpn)
{
	uint32_t h = near_key_hash(p, requester, requester, qpn, 0), i = h, idx;

	while ((idx = idx_hash_next(&p->near_by_requester, h, &i)) != NONE) {
		const struct near_flow *f = &p->near[idx];

		if (f->requester_qpn == qpn && ip_addr_eq(&f->src, requester) && ip_addr_eq(&f->dst, responder) &&
		    f->state != NEAR_FAILED && p->now_ns < f->last_rx_ns + AWAITED_NS && (f->pos_acked < f->pos_max || f->repeats))
			return true;
	}
	return false;
}

void near_requester_answered(struct proxy *p, const struct ip_addr *host, uint32_t qpn, const struct ip_addr *peer)
{
	uint32_t h = near_key_hash(p, host, host, qpn, 0), i = h, idx;

	for (int n = 0; n < REQUESTER_LOOKS && (idx = idx_hash_next(&p->near_by_requester, h, &i)) != NONE; n++) {
		struct near_flow *f = &p->near[idx];

		if (f->requester_qpn == qpn && ip_addr_eq(&f->src, host) && !ip_addr_eq(&f->dst, peer))
			f->elsewhere_ns = p->now_ns;
	}
}

/* --- far flows --- */

uint32_t far_peer_hash(uint32_t peer_flow)
{
	return (uint32_t)hash_mix(peer_flow);
}

struct far_flow *far_by_peer(struct proxy *p, uint32_t peer_flow)
{
	uint32_t h = far_peer_hash(peer_flow), i = h, idx;

	while ((idx = idx_hash_next(&p->far_by_peer, h, &i)) != NONE)
		if (p->far[idx].peer_flow == peer_flow && !p->far[idx].stale_epoch)
			return &p->far[idx];
	return NULL;
}

uint64_t far_epoch(const struct proxy *p, uint64_t peer_epoch)
{
	return peer_epoch ? peer_epoch : p->session.peer_arena_epoch;
}

struct far_flow *far_by_peer_of(struct proxy *p, uint32_t peer_flow, uint64_t peer_epoch)
{
	uint32_t h = far_peer_hash(peer_flow), i = h, idx;

	while ((idx = idx_hash_next(&p->far_by_peer, h, &i)) != NONE)
		if (p->far[idx].peer_flow == peer_flow && far_epoch(p, p->far[idx].peer_epoch) == peer_epoch)
			return &p->far[idx];
	return NULL;
}

uint32_t far_dest_hash(const struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t dest_qpn)
{
	uint64_t seed = p->cfg.hash_seed;

	return (uint32_t)hash_mix(addr_hash(seed, src) ^ hash_mix((uint64_t)addr_hash(seed, dst) << 32 | dest_qpn));
}

struct far_flow *far_by_dest(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t dest_qpn,
                             uint32_t *i)
{
	uint32_t h = far_dest_hash(p, src, dst, dest_qpn), idx;

	while ((idx = idx_hash_next(&p->far_by_dest, h, i)) != NONE) {
		struct far_flow *f = &p->far[idx];

		if (f->dest_qpn == dest_qpn && ip_addr_eq(&f->src, src) && ip_addr_eq(&f->dst, dst))
			return f;
	}
	return NULL;
}

static uint64_t addr_word(const struct ip_addr *a, int half)
{
	uint64_t v;

	memcpy(&v, a->b + 8 * half, 8);
	return v;
}

uint32_t far_requester_hash(const struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t qpn)
{
	uint64_t h = hash_mix(addr_word(src, 0) ^ hash_mix(addr_word(src, 1) ^ hash_mix(qpn ^ p->cfg.hash_seed)));

	return (uint32_t)hash_mix(addr_word(dst, 0) ^ hash_mix(addr_word(dst, 1) ^ h));
}

struct far_flow *pair_find(struct proxy *p, const struct ip_addr *requester, const struct ip_addr *responder,
                           uint32_t requester_qpn)
{
	uint32_t h = far_requester_hash(p, requester, responder, requester_qpn), i = h, idx;

	while ((idx = idx_hash_next(&p->far_by_qpn, h, &i)) != NONE) {
		struct far_flow *f = &p->far[idx];

		if (f->requester_qpn == requester_qpn && ip_addr_eq(&f->src, requester) &&
		    ip_addr_eq(&f->dst, responder))
			return f;
	}
	return NULL;
}
