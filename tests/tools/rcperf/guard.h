/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h - keeps the kernel's own stack away from our RoCEv2 packets.
 *
 * A UDP socket on port 4791 that lets nothing in keeps the kernel from answering with ICMP port unreachable. Where nft
 * is installed, an ingress rule behind our tap drops the packets before the IP stack sees them: that saves the core
 * that receives a fifth of its time. The rule is named after interface and address; a killed endpoint leaves it, the
 * next one takes it over. */
#ifndef RCPERF_GUARD_H
#define RCPERF_GUARD_H

#include <stdbool.h>

#include "proxy/roce/roce.h"

struct guard {
	int udp_fd;
	char table[48]; /* nft table that is in place; empty: none */
};

/* 0 or -errno. */
int guard_open(struct guard *g, int ifindex, const char *dev, const struct ip_addr *addr);
void guard_close(struct guard *g);

#endif
