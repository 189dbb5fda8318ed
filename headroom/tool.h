/* SPDX-License-Identifier: Apache-2.0 */
/* tool.h - `longreach headroom` on given streams, so that tests can read them. For headroom/ alone. */
#ifndef HEADROOM_TOOL_H
#define HEADROOM_TOOL_H

#include <stdio.h>

int tool_run(int argc, char **argv, FILE *out, FILE *err);

#endif
