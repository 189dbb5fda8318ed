/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h - the state of all links in Prometheus' text format (version 0.0.4). */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include "gather.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct evbuffer;

void metrics_write(struct evbuffer *out, const struct gathered *links, uint32_t n);
/* Since when the daemon runs. */
void metrics_write_process(struct evbuffer *out, const struct sites *s);
/* How many links there are, whether the link files are in force, and whether all RoCE is closed. */
void metrics_write_files(struct evbuffer *out, const struct sites *s);
/* How many buffers there are that no link will drain. */
void metrics_write_strays(struct evbuffer *out, const struct arena_stray *list, uint32_t n);

#endif
