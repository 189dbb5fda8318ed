/* SPDX-License-Identifier: Apache-2.0 */
/* route_ask.h - the next hop towards a host, from the kernel's routing and neighbour tables, over rtnetlink.
 *
 * The kernel is asked when somebody wants to know, and says itself what has changed. A neighbour without an address is
 * resolved by the kernel: we only ask it to. */
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

/* Routes are asked for as a packet from that address takes them: rules about source addresses count. Without: as one
 * whose source the kernel picks. */
void route_ask_from(struct route_ask *a, const struct ip_addr *src);

/* Asks about one host. The kernel answers within the call, which waits for locks that others hold there. */
void route_ask(struct route_ask *a, const struct ip_addr *dst, struct route_found *f);

/* What leads to a neighbour has changed; ifindex 0: anything may have. */
typedef void (*route_changed_fn)(void *arg, int ifindex, const struct ip_addr *via);

/* Readable when the kernel has changes to tell; then call route_ask_changes(). */
int route_ask_fd(const struct route_ask *a);
void route_ask_changes(struct route_ask *a, route_changed_fn fn, void *arg);

#endif
