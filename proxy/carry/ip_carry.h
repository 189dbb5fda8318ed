/* SPDX-License-Identifier: Apache-2.0 */
/* ip_carry.h - carries IP packets that are not RoCEv2 across, with the snapshot that they wait behind. */
#ifndef PROXY_IP_CARRY_H
#define PROXY_IP_CARRY_H

#include "proxy/wan/wan.h"
#include "proxy/roce/ip.h"
#include "ip_frame.h"

/* An IP packet of a local host, from its IP header on, as a router hands it on: its TTL has been taken down; not_roce:
 * the reason for which roce_parse() has refused it. Returns DROP_NONE, or the drop reason, already counted. */
enum proxy_drop ip_rx(struct proxy *p, const uint8_t *l3, size_t len, uint16_t vlan_tci, enum proxy_drop not_roce);
/* Carries an IP packet behind the snapshot of its hosts. raw.c calls ip_carry() for a RoCEv2 packet whose own slot has
 * no room for so many entries. */
enum proxy_drop ip_carry(struct proxy *p, const uint8_t *l3, const struct ip_pkt *pkt, uint16_t vlan_tci, bool exempt);

extern const struct wan_source ip_source;

#endif
