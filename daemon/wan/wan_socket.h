/* SPDX-License-Identifier: Apache-2.0 */
/* wan_socket.h - sockets on a path's addresses, for both kinds of WAN ports. */
#ifndef DAEMON_WAN_SOCKET_H
#define DAEMON_WAN_SOCKET_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "wan_port.h"

union sock_addr {
	struct sockaddr sa;
	struct sockaddr_in in4;
	struct sockaddr_in6 in6;
};

/* Returns the address' length. */
socklen_t wan_sock_addr(union sock_addr *sa, const struct ip_addr *a, uint16_t port);
uint16_t wan_sock_port(const union sock_addr *a);

/* A UDP socket of that family. Negative: errno says why. */
int wan_socket(const union sock_addr *a);
/* Binds it also to an address that this machine does not have now. 0, or -1 with errno. */
int wan_socket_bind(int fd, const union sock_addr *a, socklen_t len);
/* The port that it is bound to; 0: none. */
uint16_t wan_socket_port(int fd);

/* Writes why the first socket of a path cannot bind its port, by errno: for EADDRINUSE with the port's owner, if known.
 * Returns negative errno. */
int wan_socket_bind_failed(const struct wan_port_path *path, char *err, size_t errlen);

/* Lets go of every socket that the parent holds for the path (privileged_hold()). */
void wan_socket_let_go(const struct wan_port_path *path);

#define WAN_SOCKET_NAME " udp" /* behind held_name() */

#endif
