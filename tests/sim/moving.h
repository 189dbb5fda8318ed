/* SPDX-License-Identifier: Apache-2.0 */
/* moving.h - lines whose rate or delay changes under RateControl=auto, and lines that reorder: runs of `lrsim --rate`. */
#ifndef SIM_MOVING_H
#define SIM_MOVING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* NULL: there is no such one. */
const char *moving_name(size_t i);
/* False: a figure is missed, or a rule violated; it has said so. trace: NULL, or where each TRACE_NS is written to. */
bool moving_run(size_t i, FILE *trace);

#endif
