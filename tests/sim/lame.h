/* SPDX-License-Identifier: Apache-2.0 */
/* lame.h - named runs: lines of which a part is dead and the rest is not. Each returns an exit code. */
#ifndef SIM_LAME_H
#define SIM_LAME_H

/* "list" lists, "all" runs all. */
int lame_run(const char *name);

#endif
