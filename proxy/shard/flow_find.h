/* SPDX-License-Identifier: Apache-2.0 */
/* flow_find.h - flows by their keys: near, far and carry look up flows in each other's tables by these. */
#ifndef PROXY_FLOW_FIND_H
#define PROXY_FLOW_FIND_H

#include "core.h"

/* --- near flows --- */

/* Of a key: hosts, destination QPN (24 bits), VLAN id (12 bits). */
uint32_t near_key_hash(const struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t qpn,
                       uint16_t vlan);
/* The newest incarnation of a key (VLAN id, hosts, destination QPN), NULL if there is none. */
struct near_flow *near_find(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t dest_qpn,
                            uint16_t vlan_tci);

/* Enters the flow into the table of keys; or removes it. */
void near_key_put(struct proxy *p, const struct near_flow *f);
void near_key_del(struct proxy *p, const struct near_flow *f);

/* True if a flow of that requester's QPN to that responder has unanswered requests: this edge answers them itself. */
bool near_awaits(struct proxy *p, const struct ip_addr *requester, const struct ip_addr *responder, uint32_t qpn);
/* Called when the host has answered a request of `peer` on that QPN: flows from this QPN to other hosts are of an
 * earlier queue pair. */
void near_requester_answered(struct proxy *p, const struct ip_addr *host, uint32_t qpn, const struct ip_addr *peer);

/* The flow's id on the WAN: shard and place. */
static inline uint32_t near_wire_id(const struct proxy *p, const struct near_flow *f)
{
	return (uint32_t)p->cfg.shard << 24 | f->idx;
}

/* --- far flows --- */

uint32_t far_peer_hash(uint32_t peer_flow);
/* The flow that the near edge calls peer_flow, NULL if there is none. */
struct far_flow *far_by_peer(struct proxy *p, uint32_t peer_flow);
/* The flow that the near edge called so in that epoch of its arena, stale flows included. */
struct far_flow *far_by_peer_of(struct proxy *p, uint32_t peer_flow, uint64_t peer_epoch);
/* The epoch to which ids noted with peer_epoch belong: the present one if none was known then. */
uint64_t far_epoch(const struct proxy *p, uint64_t peer_epoch);
/* The flow with that responder's QPN, stale flows included; *i begins with the hash. NULL: no other. */
struct far_flow *far_by_dest(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t dest_qpn,
                             uint32_t *i);
uint32_t far_dest_hash(const struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t dest_qpn);
uint32_t far_requester_hash(const struct proxy *p, const struct ip_addr *requester, const struct ip_addr *responder,
                            uint32_t requester_qpn);
/* The paired flow from requester to responder with that QPN (24 bits), NULL if there is none. */
struct far_flow *pair_find(struct proxy *p, const struct ip_addr *requester, const struct ip_addr *responder,
                           uint32_t requester_qpn);

#endif
