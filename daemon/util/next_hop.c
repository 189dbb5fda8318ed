/* SPDX-License-Identifier: Apache-2.0 */
#include "next_hop.h"

#include <linux/if_ether.h>
#include <string.h>

#include "proxy/util/bytes.h"

#define TCI_VID_MASK 0x0fff

static uint16_t tag_for(uint16_t vid, uint16_t tci)
{
	if (vid)
		return (uint16_t)(vid | (tci & ~TCI_VID_MASK));
	return tci & TCI_VID_MASK ? 0 : tci; /* a priority tag without a VLAN id is kept */
}

size_t next_hop_eth(const struct next_hop *hop, bool ip6, uint16_t tci, uint8_t eth[NEXT_HOP_ETH_MAX])
{
	uint16_t tag = tag_for(hop->vid, tci);
	size_t n = 12;

	memcpy(eth, hop->dst_mac, 6);
	memcpy(eth + 6, hop->src_mac, 6);
	if (tag) {
		put_be16(eth + n, ETH_P_8021Q);
		put_be16(eth + n + 2, tag);
		n += 4;
	}
	put_be16(eth + n, ip6 ? ETH_P_IPV6 : ETH_P_IP);
	return n + 2;
}
