/* SPDX-License-Identifier: Apache-2.0 */
/* full_arena.h - named run: how soon hosts send again when there is room again. Returns an exit code. */
#ifndef SIM_FULL_ARENA_H
#define SIM_FULL_ARENA_H

int full_arena_run(void);

#endif
