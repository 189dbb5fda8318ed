/* SPDX-License-Identifier: Apache-2.0 */
/* route.h - next hops for the workers of a link, asked for by a thread of its own.
 *
 * Main thread: route_open(), route_run(), route_close(). Each worker has an end of its own, route_worker(), and calls
 * route_lookup() for each packet and route_take() once a turn. */
#ifndef DAEMON_ROUTE_H
#define DAEMON_ROUTE_H

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>

#include "route_table.h"

struct routes;
struct route_worker;

/* Both: 0 or negative errno with err (of errlen bytes) a sentence. */
int route_open(struct routes **r, const char (*ports)[IF_NAMESIZE], uint32_t nports, uint32_t nworkers, char *err,
               size_t errlen);
/* Before route_run(): route_ask_from(). */
void route_from(struct routes *r, const struct ip_addr *src);
int route_run(struct routes *r, char *err, size_t errlen);
/* After the workers have ended. NULL does nothing. */
void route_close(struct routes *r);

struct route_worker *route_worker(struct routes *r, uint32_t i);

/* Never waits. *hop is filled in with ROUTE_OK only, and valid until the next call. */
enum route_answer route_lookup(struct route_worker *w, const struct ip_addr *dst, uint64_t now_ns,
                               const struct next_hop **hop);
/* Takes up the thread's answers and changes. */
void route_take(struct route_worker *w, uint64_t now_ns);
/* An eventfd, readable when route_take() has something to take up. */
int route_fd(const struct route_worker *w);

#endif
