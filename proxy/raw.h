/* SPDX-License-Identifier: Apache-2.0 */
/* raw.h - carries what is not RC, or has no flow (UD, UC, QP1, vendor opcodes) as it is, and reads the CM messages among it. */
#ifndef PROXY_RAW_H
#define PROXY_RAW_H

#include "core.h"
#include "wan_frame.h"

/* From a host. */
enum proxy_drop raw_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci);
/* From the other edge. False: no room. */
bool raw_on_packet(struct proxy *p, struct lane *l, const struct wan_packet *w);

/* RC packets that have waited for long enough for those that they overtook go on: TK_RAW_HOLD. */
void raw_on_timer(struct proxy *p);

/* Gives up the packets that lack pieces, and waits for none: a new session begins. */
void raw_forget_partial(struct proxy *p, struct lane *l);

#endif
