/* SPDX-License-Identifier: Apache-2.0 */
/* unix_socket.h - makes a listening Unix socket, with its directory, and replaces one that nobody answers at. */
#ifndef DAEMON_UNIX_SOCKET_H
#define DAEMON_UNIX_SOCKET_H

#include <sys/stat.h>
#include <sys/un.h>

#include "daemon/config/config.h"

#define UNIX_SOCKET_PATH_MAX sizeof(((struct sockaddr_un *)0)->sun_path)

/* A bound, non-blocking stream socket, or negative errno with err a sentence. `what` is for that: "the control
 * socket". The directory gets mode 0755. */
int unix_socket_open(const char *path, mode_t mode, const char *what, char err[CONFIG_ERR_MAX]);

#endif
