/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_socket.h - TCP sockets with an address, not connected yet: not blocking, close-on-exec, address reusable. */
#ifndef DAEMON_TCP_SOCKET_H
#define DAEMON_TCP_SOCKET_H

#include "proxy/proxy.h"

/* Ports below it are privileged: no unprivileged user of that machine can have one. */
#define TCP_RESERVED_PORTS 1024

/* port 0: any. The descriptor, or negative errno. */
int tcp_socket_bound(const struct ip_addr *addr, uint16_t port);
/* The same to listen, also on an address that this machine does not have now (addr_bind_ahead()). */
int tcp_socket_ahead(const struct ip_addr *addr, uint16_t port);
/* With a reserved port, any of them; takes CAP_NET_BIND_SERVICE. */
int tcp_socket_reserved(const struct ip_addr *addr);

#endif
