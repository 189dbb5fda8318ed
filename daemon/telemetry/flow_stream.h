/* SPDX-License-Identifier: Apache-2.0 */
/* flow_stream.h - one client's view of a watched flow (flow_trace.h): lines of JSON, as long as the client reads.
 *
 * First a line like every answer's: "protocol", "version", "ok", and "link", "now_ns" and "unix_ns" of the same moment.
 * Then a line for each row, or {"missed":N}: so many were lost, as this client took too few. */
#ifndef DAEMON_FLOW_STREAM_H
#define DAEMON_FLOW_STREAM_H

#include "daemon/util/json.h"
#include "daemon/link/sites.h"

struct flow_stream;

/* NULL: err says why, of errlen bytes: no such link, it does not run, or another flow of it is watched. */
struct flow_stream *flow_stream_open(const struct sites *sites, const char *link, const struct flow_key *key, char *err,
                                     size_t errlen);
void flow_stream_close(struct flow_stream *t);

/* The fields of the first line. */
void flow_stream_begin(const struct flow_stream *t, struct json *j);
/* Adds the rows since the last call, FLOW_STREAM_MAX at most. False: the link has stopped. */
bool flow_stream_more(struct flow_stream *t, struct evbuffer *out);

#define FLOW_STREAM_MAX 4096

#endif
