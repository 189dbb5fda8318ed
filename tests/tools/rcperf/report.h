/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - the verdict, as a line for people or an object for programs. */
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
