/* SPDX-License-Identifier: Apache-2.0 */
/* crowd.h - how many queue pairs of site A share a port: what each gets of it, and what the ports drop. */
#ifndef SIM_CROWD_H
#define SIM_CROWD_H

#include <stdint.h>

struct world;

/* What must be true of all connections from A together, between two moments. */
struct crowd_cfg {
	uint64_t from_ns, to_ns; /* to_ns 0: nothing must */
	uint32_t drops_most;     /* at the port of edge A, and at that of host 0 of site B */
	uint32_t jain_percent;   /* Jain's index, at least: of those that are paired */
	uint32_t unpaired_most;  /* so many may have had nothing yet: their hosts are in quarantine, as the first packets of
	                            one were lost and its responder has nothing to answer a probe with */
	uint32_t line_percent;   /* of the WAN, at most; 0: any */
};

struct crowd_seen {
	uint64_t bytes;                   /* executed, of all together */
	double jain;                      /* Jain's index of those paired: 1 is equal, 1/n one has all */
	double slowest;                   /* of an equal share */
	uint64_t dropped_in, dropped_out; /* at the port of edge A, at that of host 0 of site B */
};

/* What is seen counts from now. */
void crowd_mark(struct world *w);
void crowd_see(const struct world *w, struct crowd_seen *s);
/* Judges by w->cfg.crowd. */
void crowd_start(struct world *w);

#endif
