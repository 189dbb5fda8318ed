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

/* A path's pacer lets no more than this out at once (one UDP_SEGMENT send); reports and other control go past it. */
#define PACER_BURST   16
#define CONTROL_BURST 16

struct world;
struct world_cfg;

/* Has the pacer save up time for PACER_BURST datagrams. */
void fullscale_pace(struct world_cfg *c);
/* Datagrams that stood in front of the wire from site A at most, in full ones; and whether that is within the bound. */
double fullscale_burst(const struct world *w, bool *ok);

#endif
