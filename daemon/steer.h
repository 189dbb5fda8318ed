/* SPDX-License-Identifier: Apache-2.0 */
/* steer.h - keeping the kernel from forwarding what a link takes.
 *
 * A packet socket only gets a copy. So while a link exists two nft tables named after it drop RoCEv2 between its
 * prefixes: one at the ingress of the LAN ports (behind the packet sockets, in front of the routing code), one at
 * forwarding, in either direction and on any interface. If the daemon dies without a word the tables stay, on
 * purpose: a retransmission must not slip past bytes that were acknowledged. The next start replaces them. */
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
