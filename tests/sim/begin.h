/* SPDX-License-Identifier: Apache-2.0 */
/* begin.h - named runs: how soon a queue pair is answered whose first packet went wrong. Each returns an exit code. */
#ifndef SIM_BEGIN_H
#define SIM_BEGIN_H

/* "list" lists, "all" runs all. */
int begin_run(const char *name);

#endif
