/* SPDX-License-Identifier: Apache-2.0 */
/* route.h - the next hop towards a host, from the kernel's routing and neighbour tables.
 *
 * One cache per worker, bounded. The kernel is asked over rtnetlink on a miss and again every second or so; what it
 * says has changed (route_fd readable) is forgotten at once. A neighbour without an address is resolved by the
 * kernel: we only ask it to. */
#ifndef DAEMON_ROUTE_H
#define DAEMON_ROUTE_H

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>

#include "next_hop.h"
#include "proxy/roce.h"

struct route_cache;

/* 0 or negative errno with err (of errlen bytes) a sentence. */
int route_open(struct route_cache **rc, const char (*ports)[IF_NAMESIZE], uint32_t nports, char *err, size_t errlen);
void route_close(struct route_cache *rc);

enum route_answer {
	ROUTE_OK,
	ROUTE_RESOLVING, /* the way is known, the neighbour's address is being asked for */
	ROUTE_NONE,      /* no route, or one that leads out of no LAN port */
};

/* *hop is filled in with ROUTE_OK only, and valid until the next call. */
enum route_answer route_lookup(struct route_cache *rc, const struct ip_addr *dst, uint64_t now_ns,
                               const struct next_hop **hop);

/* Readable when the kernel has changes to tell; then call route_changed(). */
int route_fd(const struct route_cache *rc);
void route_changed(struct route_cache *rc);

#endif
