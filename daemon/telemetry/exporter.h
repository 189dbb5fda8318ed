/* SPDX-License-Identifier: Apache-2.0 */
/* exporter.h - metrics for Prometheus and a page for browsers over HTTP: read-only, without authentication. */
#ifndef DAEMON_EXPORTER_H
#define DAEMON_EXPORTER_H

#include <sys/socket.h>

#include "daemon/link/sites.h"

struct exporter;

/* Where: "PORT" (of 127.0.0.1), "ADDRESS:PORT", "[ADDRESS]:PORT" for IPv6, or "/PATH" of a Unix socket, mode 0666.
 * 0, or negative errno with err a sentence. */
int exporter_start(struct exporter **e, const char *where, struct event_base *base, struct sites *sites,
                   char err[CONFIG_ERR_MAX]);
void exporter_stop(struct exporter *e);

#endif
