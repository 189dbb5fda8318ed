/* SPDX-License-Identifier: Apache-2.0 */
/* fullscale.h - the named runs: sizes as in the field, numbers instead of yes and no. Each returns an exit code. */
#ifndef SIM_FULLSCALE_H
#define SIM_FULLSCALE_H

#include <stdint.h>

/* One queue pair at 400 Gbit/s x 1000 km. "list" lists, "all" runs all. */
int fullscale_run(const char *name);
/* n queue pairs from PSN 0 with equal QPNs at both ends must all be paired rightly. */
int fullscale_many_qps(uint32_t n);
/* Completion latency over distance. */
int fullscale_latency(void);

#endif
