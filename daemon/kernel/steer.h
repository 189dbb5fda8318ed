/* SPDX-License-Identifier: Apache-2.0 */
/* steer.h - keeps the kernel from forwarding the packets that a link takes.
 *
 * A packet socket only gets a copy of each packet. So as long as a link's file exists, two nft tables named after the
 * link drop RoCEv2 between its prefixes: one at the ingress of the LAN ports (behind the packet sockets, in front of
 * the routing code), one at forwarding, in either direction and on any interface. A start sets the tables first, and
 * they stay when the start fails, the daemon stops or dies: nothing leaves unsealed, and no retransmission slips past
 * bytes that were acknowledged. The table at forwarding covers a missing LAN port.
 *
 * With a barrier the link carries the hosts' other IP, too. The kernel routes it into the link's IP port (ip_port.h),
 * and out of the IP port at the other site: so it passes the operator's own chains at forwarding. The table at
 * forwarding blocks any other way.
 *
 * Main thread only: each call waits for nft. Errors are negative errno with err (of errlen bytes) a sentence. */
#ifndef DAEMON_STEER_H
#define DAEMON_STEER_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/config/config.h"
#include "vlan.h"

enum steer_extent {
	STEER_RUNNING, /* drops RoCE and, with a barrier, all IP from local to remote hosts that does not take the IP
	                * port */
	STEER_AT_REST, /* drops RoCE only: nothing is owed that other IP could overtake; no IP port */
};

/* Replaces the rules in force for this link, unless they are those that this process set last. 0, or 1: this process had
 * set the same rules, another program has removed some since, and they are in force again; err then names what was gone
 * ("the nft table inet longreach_tokyo and rules of `ip rule`"). */
int steer_install(const struct link_config *c, enum steer_extent extent, char *err, size_t errlen);
/* Restores missing parts since steer_install(STEER_RUNNING): the IP port, its routes and, if `rules`, the rules in
 * front of the routing tables. The nft tables follow LAN ports and VLANs on them that have come or gone since. */
int steer_keep_routing(const struct link_config *c, bool rules, char *err, size_t errlen);
/* Removes the link's rules, but for rules of `ip rule` that one of `kept` (n of them) asks for as well. */
void steer_remove(const struct link_config *c, const struct link_config *kept, uint32_t n);

/* closed: drops all RoCE that the kernel would forward, of any address, while a link file cannot be understood: by an
 * nft table and by rules in front of the routing tables. 1: something of that was missing, or (closed false) in force;
 * 0: nothing was to be done. */
int steer_all(bool closed, char *err, size_t errlen);
/* True if the nft table of steer_all(true) is in force, whichever process set it. */
bool steer_all_stands(void);

/* Another process sets the rules: steer_install() takes none of them for removed because this process had set others. */
void steer_forget(void);

/* Removes the tables and IP ports of links that are not among the names. */
void steer_sweep(const char *const *links, uint32_t n);

/* True if the link's rules are in force as this process set them last; false if somebody removed them right then. */
bool steer_stands(const struct link_config *c);

/* The link's rules as nft lists them, without counters. malloc'ed; NULL without memory. */
char *steer_in_force(const struct link_config *c);

/* The nft script that steer_install() runs, and the one that removes it. malloc'ed; NULL without memory. */
typedef bool (*steer_port_fn)(const char *ifname); /* whether the port is there */
char *steer_script(const struct link_config *c, enum steer_extent extent, steer_port_fn there,
                   const struct vlans *vlans);
char *steer_removal_script(const struct link_config *c);

#endif
