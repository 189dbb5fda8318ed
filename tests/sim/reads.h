/* SPDX-License-Identifier: Apache-2.0 */
/* reads.h - named runs: READs at full scale. Returns an exit code. */
#ifndef SIM_READS_H
#define SIM_READS_H

/* "list" lists, "all" runs all. */
int reads_run(const char *name);

#endif
