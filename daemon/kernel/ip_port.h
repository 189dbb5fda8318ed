/* SPDX-License-Identifier: Apache-2.0 */
/* ip_port.h - the IP port of a link: by it the kernel hands over the other IP that a link with a barrier carries, and
 * takes IP that comes from the other site. Without a barrier the kernel hands nothing over, but the other edge's
 * barrier may be on. So all this IP passes this machine's own forwarding: chains, conntrack, TTL, next hops.
 *
 *     host -> LAN port -> kernel: FORWARD -> lr-NAME ==veth== lrd-NAME -> worker -> WAN
 *     host <- LAN port <- kernel: FORWARD <- lr-NAME ==veth== lrd-NAME <- worker <- WAN
 *
 * lr-NAME is the kernel's end, for rules and routes; lrd-NAME is the workers', a LAN port to them (lan_port.h). Both
 * ends stay until ip_port_remove(), even if the process ends. Main thread only. */
#ifndef DAEMON_IP_PORT_H
#define DAEMON_IP_PORT_H

#include <net/if.h>

#include "daemon/config/config.h"
#include "daemon/util/next_hop.h"

/* Pure. Names of the two ends, and the routing table that leads to the kernel's end (rules of fib_rule.h look
 * there). */
void ip_port_name(char ifname[IF_NAMESIZE], const char *link);
void ip_port_worker_name(char ifname[IF_NAMESIZE], const char *link);
uint32_t ip_port_table(const char *link);
/* From the workers' end to the kernel's. port: what the worker calls it. */
struct next_hop ip_port_hop(uint8_t port);

/* Makes missing interfaces and, if `routes`, missing routes; existing ones stay. Removes the routes if not `routes`. 0
 * or negative errno with err (of errlen bytes) a sentence. */
int ip_port_set(const struct link_config *c, bool routes, char *err, size_t errlen);
void ip_port_remove(const char *link);
/* Removes the IP ports of links that are not among the names. */
void ip_port_sweep(const char *const *links, uint32_t n);

#endif
