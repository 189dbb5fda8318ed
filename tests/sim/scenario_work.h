/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_work.h - programs and lives of queue pairs, drawn over what scenario.c drew. */
#ifndef SIM_SCENARIO_WORK_H
#define SIM_SCENARIO_WORK_H

#include "rng.h"
#include "scenario.h"

/* Programs instead of chance; in some worlds. Returns their name, "" for none. */
const char *scenario_programs(struct scenario *s, struct rng *r);
/* Also these, in some worlds: first-lost (the first packet of a life), old-cm (old CM messages come again), late-edges
 * (the edges come when the hosts have begun), failed (what scenario_failed.c says is open), lost-count (a host that is
 * one PSN too high for ever, as rxe can be). */
void scenario_hard(const char *names);
/* Whether that one is asked for. */
bool scenario_is_hard(const char *name);
/* Resets, QPNs taken again, old CM messages, edges that come late; in some worlds. */
void scenario_lives(struct scenario *s, struct rng *r);

#endif
