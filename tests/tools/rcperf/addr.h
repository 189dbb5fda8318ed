/* SPDX-License-Identifier: Apache-2.0 */
/* addr.h - addresses as text and for the socket calls. */
#ifndef RCPERF_ADDR_H
#define RCPERF_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proxy/roce/roce.h"

#define ADDR_TEXT_MAX 64

bool addr_read(const char *text, struct ip_addr *a);
const char *addr_write(const struct ip_addr *a, char text[ADDR_TEXT_MAX]);
socklen_t addr_to_sockaddr(const struct ip_addr *a, uint16_t port, struct sockaddr_storage *ss);

static inline int addr_family(const struct ip_addr *a)
{
	return ip_addr_is4(a) ? AF_INET : AF_INET6;
}

#endif
