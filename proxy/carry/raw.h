/* SPDX-License-Identifier: Apache-2.0 */
/* raw.h - carries what is not RC, or has no flow (UD, UC, QP1, vendor opcodes) as it is, and reads the CM messages among it. */
#ifndef PROXY_RAW_H
#define PROXY_RAW_H

#include "proxy/wan/wan.h"
#include "proxy/shard/flow_frame.h"

/* From a host. */
enum proxy_drop raw_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci);
extern const struct wan_source raw_source;

/* RC packets that have waited for long enough for those that they overtook go on: TK_RAW_HOLD. */
void raw_on_timer(struct proxy *p);

#endif
