/* SPDX-License-Identifier: Apache-2.0 */
/* params.h - the impairments by name: the same words on the command line and in `wanline ctl PATH set`. */
#ifndef WANLINE_PARAMS_H
#define WANLINE_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "line.h"

#define PARAMS_ERR_MAX 256

enum { DIR_AB, DIR_BA, DIR_COUNT };

void params_default(struct line_params p[DIR_COUNT]);

/* Sets one key. `value` may begin with "ab:" or "ba:" to name one direction. False with a sentence in err. */
bool params_set(struct line_params p[DIR_COUNT], const char *key, const char *value, char err[PARAMS_ERR_MAX]);

bool params_known(const char *key);
void params_help(FILE *f);
/* One line in words: what the line does. */
void params_describe(const struct line_params *p, char *buf, size_t cap);

#endif
