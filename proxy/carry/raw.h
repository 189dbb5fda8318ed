/* SPDX-License-Identifier: Apache-2.0 */
/* raw.h - carries RoCEv2 packets that are not RC (UD, UC, QP1, vendor opcodes) or have no flow, unchanged, and reads
 * the CM messages among them. */
#ifndef PROXY_RAW_H
#define PROXY_RAW_H

#include "proxy/wan/wan.h"
#include "proxy/shard/flow_frame.h"

/* Takes a packet from a host. */
enum proxy_drop raw_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci);
extern const struct wan_source raw_source;

/* Called by TK_RAW_HOLD: delivers RC packets that have waited for long enough for those that they overtook. */
void raw_on_timer(struct proxy *p);

#endif
