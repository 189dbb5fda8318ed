/* SPDX-License-Identifier: Apache-2.0 */
/* next_hop.h - where a packet for a host goes next, and the Ethernet header that takes it there. */
#ifndef DAEMON_NEXT_HOP_H
#define DAEMON_NEXT_HOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct next_hop {
	uint8_t dst_mac[6], src_mac[6];
	uint16_t vid; /* VLAN id, 0: untagged */
	uint8_t port; /* index into the names of LAN ports */
};

/* Ethernet header for a packet to that hop; tci is the tag that the packet carried on the other site's LAN: keeps its
 * priority, but not its VLAN id, which each site chooses itself. Returns the header's length. */
#define NEXT_HOP_ETH_MAX 18
size_t next_hop_eth(const struct next_hop *hop, bool ip6, uint16_t tci, uint8_t eth[NEXT_HOP_ETH_MAX]);

#endif
