/* SPDX-License-Identifier: Apache-2.0 */
/* steer.h - keeping the kernel from forwarding what a link takes.
 *
 * A packet socket only gets a copy. So as long as a link's file is there two nft tables named after it drop RoCEv2 between its
 * prefixes: one at the ingress of the LAN ports (behind the packet sockets, in front of the routing code), one at
 * forwarding, in either direction and on any interface. They are the first thing of a start, and stay when the start
 * fails, the daemon stops or dies: nothing leaves unsealed, and no retransmission slips past bytes that were
 * acknowledged. The next start replaces them. Where a LAN port is missing, forwarding alone is closed. */
#ifndef DAEMON_STEER_H
#define DAEMON_STEER_H

#include <stddef.h>

#include "config.h"

/* 0 or negative errno with err (of errlen bytes) a sentence. Main thread only. */
int steer_install(const struct link_config *c, char *err, size_t errlen);
void steer_remove(const struct link_config *c);

/* The nft script that steer_install() runs, and the one that removes it. malloc'ed; NULL without memory. */
char *steer_script(const struct link_config *c);
char *steer_removal_script(const struct link_config *c);

#endif
