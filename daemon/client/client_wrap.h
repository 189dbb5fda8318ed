/* SPDX-License-Identifier: Apache-2.0 */
/* client_wrap.h - text for a terminal that is narrower than its lines. */
#ifndef DAEMON_CLIENT_WRAP_H
#define DAEMON_CLIENT_WRAP_H

#include <stdio.h>

/* Columns of the terminal that out is; 0: it is none, or does not say. */
unsigned wrap_columns(FILE *out);

/* Writes text, a line that is longer than columns broken at blanks, its rest indented. columns 0: as it is. */
void wrap_write(FILE *out, const char *text, unsigned columns);

#endif
