/* SPDX-License-Identifier: Apache-2.0 */
/* client_relay.h - longreach put, get, export, regions and rate: the relay from a shell. */
#ifndef DAEMON_CLIENT_RELAY_H
#define DAEMON_CLIENT_RELAY_H

/* client_relay_knows(): true if the command is one of these. client_relay(): runs it; argv[0] is the command; returns
 * the exit code. */
int client_relay_knows(const char *command);
int client_relay(int argc, char **argv);

#endif
