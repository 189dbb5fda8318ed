/* SPDX-License-Identifier: Apache-2.0 */
/* lan_match.h - which frames a LAN port without a packet socket takes: lan_filter.h's rules in C. */
#ifndef DAEMON_LAN_MATCH_H
#define DAEMON_LAN_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lan_filter.h"

#define LAN_MAC_LEN 6

enum lan_verdict {
	LAN_OURS,
	LAN_NOT_OURS, /* another MAC, no IP, no RoCEv2, or not between the prefixes */
	LAN_TOO_LONG, /* ours by these rules, but longer than any packet may be */
};

struct lan_matched {
	const uint8_t *l3; /* the IP header, in the frame */
	size_t len;
	uint16_t vlan_tci; /* 0: untagged */
};

/* frame: from the Ethernet header on. stripped_tci: the tag that the device took out of it; 0: none. Lanes are not
 * checked: such a link has one worker (nshards is 1). Pure. */
enum lan_verdict lan_match(const struct lan_filter_spec *s, const uint8_t mac[LAN_MAC_LEN], const uint8_t *frame,
                           size_t len, uint16_t stripped_tci, struct lan_matched *m);

#endif
