/* SPDX-License-Identifier: Apache-2.0 */
/* held_sockets.h - sockets that the parent holds on to while there is no child, by name: nobody else can have their
 * ports meanwhile, and what arrives waits. One thread. */
#ifndef DAEMON_HELD_SOCKETS_H
#define DAEMON_HELD_SOCKETS_H

#include <stdint.h>

#include "proxy/proxy.h"

#define HELD_NAME_MAX 96

/* What the names of all sockets of one address and port begin with. Returns name. */
char *held_name(const struct ip_addr *local, uint16_t port, char name[HELD_NAME_MAX]);

/* Takes fd over, in place of one that had the name. 0, or negative errno: fd is the caller's still. */
int held_put(const char *name, int fd);
/* A copy of its own, close-on-exec; -ENOENT: none has that name. */
int held_get(const char *name);
/* Lets go of all whose names begin so. */
void held_drop(const char *prefix);
/* All whose names begin so are wanted still. */
void held_want(const char *prefix);
/* Lets go of what nobody has said is wanted since the last time. */
void held_drop_unwanted(void);

#endif
