/* SPDX-License-Identifier: Apache-2.0 */
/* fd_pass.h - messages between processes over a Unix socket that keeps them apart, with a descriptor where need be. */
#ifndef DAEMON_FD_PASS_H
#define DAEMON_FD_PASS_H

#include <stddef.h>
#include <sys/types.h>

/* One message, with fd unless it is -1. flags: sendmsg(2)'s. Its length, or -1 with errno. */
ssize_t fd_pass_send(int over, const void *data, size_t len, int fd, int flags);

/* At most len bytes of one message. *fd: what came with it, close-on-exec, or -1. flags: recvmsg(2)'s. Its length,
 * 0: the other end is closed, -1 with errno; -1 and EMSGSIZE: it was longer. */
ssize_t fd_pass_receive(int over, void *data, size_t len, int *fd, int flags);

#endif
