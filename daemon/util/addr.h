/* SPDX-License-Identifier: Apache-2.0 */
/* addr.h - IP addresses and prefixes as text, and for the socket calls. */
#ifndef DAEMON_ADDR_H
#define DAEMON_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "proxy/proxy.h"

#define ADDR_TEXT_MAX 64 /* longest IPv6 text, a prefix length, and room */

int addr_read(const char *text, struct ip_addr *a);          /* 0, -EINVAL */
int addr_read_prefix(const char *text, struct ip_prefix *p); /* a bare address is a prefix of its own; 0, -EINVAL */
const char *addr_write(const struct ip_addr *a, char *text, size_t cap);
const char *addr_write_prefix(const struct ip_prefix *p, char *text, size_t cap);

bool addr_is_unspecified(const struct ip_addr *a);
bool addr_is_multicast(const struct ip_addr *a);
bool addr_is_link_local(const struct ip_addr *a);

/* Clears the bits behind the prefix. */
void addr_mask(struct ip_prefix *p);
bool addr_prefixes_overlap(const struct ip_prefix *a, const struct ip_prefix *b);
bool addr_prefix_eq(const struct ip_prefix *a, const struct ip_prefix *b);
/* True for an IPv6 prefix that contains ::ffff:0:0/96, where IPv4 addresses are stored. */
bool addr_prefix_swallows_ip4(const struct ip_prefix *p);

socklen_t addr_to_sockaddr(const struct ip_addr *a, uint16_t port, struct sockaddr_storage *ss);
/* False if the family is neither IPv4 nor IPv6. */
bool addr_from_sockaddr(const struct sockaddr *sa, struct ip_addr *a);

/* The next bind() of the socket succeeds also if this machine does not have the address, as while an interface is
 * missing (ip(7), IP_FREEBIND): the socket receives from the moment the machine has it. 0, or -1 with errno. */
int addr_bind_ahead(int fd, int family);

/* Where to listen: "PORT" (of 127.0.0.1), "ADDRESS:PORT", or "[ADDRESS]:PORT" for IPv6. 0, -EINVAL. */
int addr_read_endpoint(const char *where, struct sockaddr_storage *ss, socklen_t *len);

#endif
