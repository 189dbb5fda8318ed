/* SPDX-License-Identifier: Apache-2.0 */
/* fullscale.h - the named runs: sizes as in the field, numbers instead of yes and no. Each returns an exit code. */
#ifndef SIM_FULLSCALE_H
#define SIM_FULLSCALE_H

#include <stdbool.h>
#include <stdint.h>

#include "world.h"

/* One queue pair at 400 Gbit/s x 1000 km. "list" lists, "all" runs all. */
int fullscale_run(const char *name);
/* The same over two paths; *found is set if there is a run of that name. */
int fullscale_paths(const char *name, bool *found);
/* The payload ceiling of the first path's rate and framing, Gbit/s. */
double fullscale_ceiling_gbps(const struct world_cfg *c, uint16_t pmtu);
/* n queue pairs from PSN 0 with equal QPNs at both ends must all be paired rightly. */
int fullscale_many_qps(uint32_t n);
/* Completion latency over distance. */
int fullscale_latency(void);

#endif
