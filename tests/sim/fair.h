/* SPDX-License-Identifier: Apache-2.0 */
/* fair.h - named runs: what one flow may take from another. Each returns an exit code. */
#ifndef SIM_FAIR_H
#define SIM_FAIR_H

/* "list" lists, "all" runs all. */
int fair_run(const char *name);

#endif
