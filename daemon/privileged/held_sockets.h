/* SPDX-License-Identifier: Apache-2.0 */
/* held_sockets.h - sockets, by name, that the parent keeps open while there is no child: no other process can take
 * their ports meanwhile, and datagrams wait in them. One thread. */
#ifndef DAEMON_HELD_SOCKETS_H
#define DAEMON_HELD_SOCKETS_H

#include <stdint.h>

#include "proxy/proxy.h"

#define HELD_NAME_MAX 96

/* Writes the common prefix of the names of all sockets of one address and port. Returns name. */
char *held_name(const struct ip_addr *local, uint16_t port, char name[HELD_NAME_MAX]);

/* Takes fd over, in place of a socket with the same name. 0, or negative errno: the caller keeps fd. */
int held_put(const char *name, int fd);
/* A duplicate of the socket, close-on-exec; -ENOENT: no socket has that name. */
int held_get(const char *name);
/* Closes all sockets whose names begin with the prefix. */
void held_drop(const char *prefix);
/* Marks all sockets whose names begin with the prefix as wanted. */
void held_want(const char *prefix);
/* Closes the sockets that were not marked as wanted since the last call. */
void held_drop_unwanted(void);

#endif
