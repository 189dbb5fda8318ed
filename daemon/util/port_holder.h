/* SPDX-License-Identifier: Apache-2.0 */
/* port_holder.h - finds the process that has a UDP or TCP port of this machine which a link cannot bind. */
#ifndef DAEMON_PORT_HOLDER_H
#define DAEMON_PORT_HOLDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proxy/proxy.h"

enum port_protocol { PORT_UDP, PORT_TCP };

#define PORT_HOLDER_TEXT_MAX 160

struct port_holder {
	uid_t uid;      /* of the socket */
	uint64_t inode; /* of the socket */
	pid_t pid;      /* 0: unknown, because this process may not look into other users' processes */
	char comm[16];  /* valid if pid */
};

/* Finds the socket that prevents binding this address and port, in this network namespace: bound to the address or to
 * any; for TCP a listening one. False: there is none. */
bool port_holder_find(enum port_protocol protocol, const struct ip_addr *addr, uint16_t port, struct port_holder *h);

/* "UDP port 4790 is held by process 1234 (socat) of uid 65534", or what is known of it; empty if nobody holds it. Returns
 * text. */
char *port_holder_text(enum port_protocol protocol, const struct ip_addr *addr, uint16_t port,
                       char text[PORT_HOLDER_TEXT_MAX]);

#endif
