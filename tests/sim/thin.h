/* SPDX-License-Identifier: Apache-2.0 */
/* thin.h - named runs: a line that is much thinner one way than the other, full both ways. Each returns an exit code. */
#ifndef SIM_THIN_H
#define SIM_THIN_H

/* "list" lists, "all" runs all. */
int thin_run(const char *name);

#endif
