/* SPDX-License-Identifier: Apache-2.0 */
/* client_conn.h - one request to the daemon and its answer. */
#ifndef DAEMON_CLIENT_CONN_H
#define DAEMON_CLIENT_CONN_H

/* Sends "longreach/1 REQUEST". Returns the answer's line, malloc'ed; NULL after having said on stderr what is wrong. */
char *client_ask(const char *path, const char *request);

/* The same for an answer of many lines: the socket to read them from; -1 after having said what is wrong. */
int client_open(const char *path, const char *request);

#endif
