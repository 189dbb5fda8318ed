/* SPDX-License-Identifier: Apache-2.0 */
/* client_wrap.h - text for a terminal that is narrower than its lines. */
#ifndef DAEMON_CLIENT_WRAP_H
#define DAEMON_CLIENT_WRAP_H

#include <stdio.h>

/* Columns of the terminal `out`; 0: `out` is no terminal, or its width is unknown. */
unsigned wrap_columns(FILE *out);

/* Writes text; breaks lines longer than `columns` at blanks and indents the rest. columns 0: writes the text
 * unchanged. */
void wrap_write(FILE *out, const char *text, unsigned columns);

#endif
