/* SPDX-License-Identifier: Apache-2.0 */
/* named.h - runs that have names: one, all of them, or their list. */
#ifndef SIM_NAMED_H
#define SIM_NAMED_H

#include <stdbool.h>
#include <stddef.h>

#include "world.h"

struct named_runs {
	size_t n;
	const char *option; /* of lrsim, as "--cut": for the message. These two are not asked for "all" */
	const char *(*name)(size_t i);
	bool (*run)(size_t i); /* false: a figure is missed, or a rule violated; it has said so */
};

/* "list" lists, "all" runs all. w: the world that they all use. An exit code. */
int named_run(const struct named_runs *r, const char *name, struct world *w);

#endif
