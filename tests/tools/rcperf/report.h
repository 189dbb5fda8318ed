/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - the verdict, as a line for people or an object for programs.
 *
 * JSON (--json): one object on one line; with --interval each line before it is an object with t_s, gbps, messages and
 * retries. goodput_gbps is payload between completions of the requester, warm-up left out; "here" and "there" are the
 * two ends, each with its goodput_gbps (as requester), executed_gbps (as responder), latency_us and every row of
 * stats.h. drained_ms: from the last completion until the responder had executed everything; there.missing_at_done:
 * what it still lacked when the news of the last completion reached it. */
#ifndef RCPERF_REPORT_H
#define RCPERF_REPORT_H

#include "session.h"

void report_collect(const struct engine *e, struct end_report *r);
void report_send(struct wire *w, const struct end_report *r);
/* Takes a "stat" line; false if it is none. */
bool report_take(const char *line, struct end_report *r);

/* Everything that was posted is executed exactly once, in order, with the right bytes, and nothing BAD happened. */
bool report_ok(const struct session *s);
void report_print(const struct session *s);
void report_progress(struct session *s);

#endif
