/* SPDX-License-Identifier: Apache-2.0 */
/* client_conn.h - one request to the daemon and its answer. */
#ifndef DAEMON_CLIENT_CONN_H
#define DAEMON_CLIENT_CONN_H

#include <sys/types.h>

/* Sends "longreach/1 REQUEST". Returns the answer's line, malloc'ed; NULL after a message on stderr. */
char *client_ask(const char *path, const char *request);

/* The same for an answer of many lines: the socket to read them from; -1 after a message on stderr. */
int client_open(const char *path, const char *request);

/* client_ask() for callers that can go on without a daemon. NULL with *why NULL: no process listens there; NULL with
 * *why, malloc'ed: *why says what else is wrong. *pid: the process that listens, 0: not known. */
char *client_ask_quietly(const char *path, const char *request, pid_t *pid, char **why);

#endif
