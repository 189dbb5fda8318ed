/* SPDX-License-Identifier: Apache-2.0 */
/* beside.h - lines that change under `auto` and a neighbour, and several `auto` on one: runs of `lrsim --rate`. */
#ifndef SIM_BESIDE_H
#define SIM_BESIDE_H

#include <stdbool.h>
#include <stddef.h>

/* NULL: there is no such one. */
const char *beside_name(size_t i);
/* False: a figure is missed; it has said so. */
bool beside_run(size_t i);

#endif
