/* SPDX-License-Identifier: Apache-2.0 */
/* steer.h - keeping the kernel from forwarding what a link takes.
 *
 * A packet socket only gets a copy. So as long as a link's file is there two nft tables named after it drop RoCEv2
 * between its prefixes: one at the ingress of the LAN ports (behind the packet sockets, in front of the routing code),
 * one at forwarding, in either direction and on any interface. They are the first thing of a start, and stay when the
 * start fails, the daemon stops or dies: nothing leaves unsealed, and no retransmission slips past bytes that were
 * acknowledged. A LAN port that is missing is covered by the one at forwarding.
 *
 * With a barrier the link carries the hosts' other IP, too. It is routed into the link's IP port (ip_port.h), and out
 * of the one at the other site: so it passes whatever chains the operator has at forwarding. The table there lets it
 * take no other way.
 *
 * Main thread only: each call waits for nft. Errors are negative errno with err (of errlen bytes) a sentence. */
#ifndef DAEMON_STEER_H
#define DAEMON_STEER_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/config/config.h"

enum steer_extent {
	STEER_RUNNING, /* RoCE, and with a barrier all IP from the hosts here to those there, but by the IP port */
	STEER_AT_REST, /* RoCE: nobody takes the rest, and nothing is owed that it could overtake; no IP port */
};

/* Replaces what is in force for this link, unless that is what this process put there last. */
int steer_install(const struct link_config *c, enum steer_extent extent, char *err, size_t errlen);
/* Puts back what has gone since steer_install(STEER_RUNNING) of the IP port, its routes, and, if asked for, the rules
 * in front of the routing tables. */
int steer_keep_routing(const struct link_config *c, bool rules, char *err, size_t errlen);
void steer_remove(const struct link_config *c);

/* All RoCE that the kernel would forward, whatever its addresses: while a link file cannot be understood. */
int steer_all(bool closed, char *err, size_t errlen);

/* Removes the tables and IP ports of links that are not among the names. */
void steer_sweep(const char *const *links, uint32_t n);

/* The link's rules are in force as this process put them there last; not if somebody removed them at that moment. */
bool steer_stands(const struct link_config *c);

/* The link's rules as nft lists them, without counters. malloc'ed; NULL without memory. */
char *steer_in_force(const struct link_config *c);

/* The nft script that steer_install() runs, and the one that removes it. malloc'ed; NULL without memory. */
typedef bool (*steer_port_fn)(const char *ifname); /* whether the port is there */
char *steer_script(const struct link_config *c, enum steer_extent extent, steer_port_fn there);
char *steer_removal_script(const struct link_config *c);

#endif
