/* SPDX-License-Identifier: Apache-2.0 */
/* route.h - the Ethernet address of the next hop, as the kernel sees it (directly or by a gateway). */
#ifndef RCPERF_ROUTE_H
#define RCPERF_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "proxy/roce/roce.h"

/* Asks the kernel's route and neighbour tables, waiting up to a few seconds for the neighbour to answer.
 * Returns 0 or -errno: -ENETUNREACH no route, -EHOSTUNREACH the next hop does not answer. */
int route_next_hop(int ifindex, const struct ip_addr *src, const struct ip_addr *dst, uint8_t mac[6]);

#endif
