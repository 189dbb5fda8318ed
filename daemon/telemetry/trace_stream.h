/* SPDX-License-Identifier: Apache-2.0 */
/* trace_stream.h - one client's view of a link's traces: lines of JSON, as long as it listens.
 *
 * First a line like every answer's: "protocol", "version", "ok", and "link", "paths" (names, by number), "now_ns" and
 * "unix_ns" of the same moment. Then a line for each sample, or
 *
 *     {"missed":N}      so many were overwritten before this client took them
 *     {"begins_again":true}   the link was restarted: sums begin at 0 */
#ifndef DAEMON_TRACE_STREAM_H
#define DAEMON_TRACE_STREAM_H

#include "daemon/util/json.h"
#include "daemon/link/sites.h"

struct trace_stream;

/* Of the site with that name. path: a path's name, NULL for all. past: begins with what the rings hold.
 * NULL: err says why, of errlen bytes. */
struct trace_stream *trace_stream_open(const struct sites *sites, const char *link, const char *path, bool past,
                                       char *err, size_t errlen);
void trace_stream_close(struct trace_stream *t);

/* The fields of the first line. */
void trace_stream_begin(const struct trace_stream *t, struct json *j);
/* Adds the samples since the last call, TRACE_STREAM_MAX at most. False: the link is gone. */
bool trace_stream_more(struct trace_stream *t, struct evbuffer *out);

#define TRACE_STREAM_MAX 4096

#endif
