/* SPDX-License-Identifier: Apache-2.0 */
/* fec_run.h - what FEC is worth at 400 Gbit/s x 1000 km, and on a slow line (fec_slow.h). */
#ifndef SIM_FEC_RUN_H
#define SIM_FEC_RUN_H

/* A run by name, "all", or "list". Exit code. */
int fec_run(const char *name);

#endif
