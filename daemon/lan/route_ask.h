/* SPDX-License-Identifier: Apache-2.0 */
/* route_ask.h - the next hop towards a host, from the kernel's routing and neighbour tables, over rtnetlink.
 *
 * The kernel answers questions and notifies changes. The kernel resolves neighbours without a MAC: we only request
 * it. */
#ifndef DAEMON_ROUTE_ASK_H
#define DAEMON_ROUTE_ASK_H

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>

#include "route_table.h"

struct route_ask;

/* 0 or negative errno with err (of errlen bytes) a sentence. */
int route_ask_open(struct route_ask **a, const char (*ports)[IF_NAMESIZE], uint32_t nports, char *err, size_t errlen);
void route_ask_close(struct route_ask *a);

/* Asks for the routes of packets from that address: rules about source addresses count. Without this call: as for a
 * packet whose source the kernel picks. */
void route_ask_from(struct route_ask *a, const struct ip_addr *src);

/* Asks about one host. The kernel answers within the call, which waits for locks that others hold there. */
void route_ask(struct route_ask *a, const struct ip_addr *dst, struct route_found *f);

/* Called when the way to a neighbour has changed; ifindex 0: any of them may have. */
typedef void (*route_changed_fn)(void *arg, int ifindex, const struct ip_addr *via);

/* Readable when the kernel has changes to tell; then call route_ask_changes(). */
int route_ask_fd(const struct route_ask *a);
void route_ask_changes(struct route_ask *a, route_changed_fn fn, void *arg);

#endif
