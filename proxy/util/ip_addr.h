/* SPDX-License-Identifier: Apache-2.0 */
/* ip_addr.h - addresses and prefixes, IPv4 as mapped IPv6. */
#ifndef PROXY_IP_ADDR_H
#define PROXY_IP_ADDR_H

#include <stdint.h>

/* An address of either family; IPv4 is stored v4-mapped (::ffff:a.b.c.d). */
struct ip_addr {
	uint8_t b[16];
};

#endif
