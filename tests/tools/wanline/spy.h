/* SPDX-License-Identifier: Apache-2.0 */
/* spy.h - what somebody who reads along on the line would see of the hosts' traffic. */
#ifndef WANLINE_SPY_H
#define WANLINE_SPY_H

#include <stdbool.h>

#include "line.h"

/* A RoCEv2 packet as a host sends it: UDP to port 4791 over IPv4 or IPv6, with or without a VLAN tag in the frame. */
bool spy_is_roce(const struct line_frame *f);
/* Holds 160 bytes or more of what rcperf sends as payload, anywhere and at any alignment: three words in a row of its
 * pattern, looked for every 128 bytes. */
bool spy_is_payload(const struct line_frame *f);
/* Holds the text anywhere. text NULL: no. */
bool spy_holds(const struct line_frame *f, const char *text);

#endif
