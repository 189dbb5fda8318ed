/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_text.h - pieces of Prometheus' text format. */
#ifndef DAEMON_METRICS_TEXT_H
#define DAEMON_METRICS_TEXT_H

struct evbuffer;

/* HELP and TYPE of the family longreach_FAMILYSUFFIX. */
void metrics_head(struct evbuffer *out, const char *family, const char *suffix, const char *type, const char *help);
/* A label's value in its quotes: what a link file or the other edge chose. */
void metrics_quoted(struct evbuffer *out, const char *text);

#endif
