/* SPDX-License-Identifier: Apache-2.0 */
#include "named.h"

#include <stdio.h>
#include <string.h>

#include "runner.h"

int named_run(const struct named_runs *r, const char *name, struct world *w)
{
	bool list = strcmp(name, "list") == 0, all = strcmp(name, "all") == 0, found = list, ok = true;

	pktlog_init(&w->log, 1024);
	w->log_packets = false;
	run_guard(w);
	for (size_t i = 0; i < r->n; i++) {
		if (list)
			printf("%s\n", r->name(i));
		if (!all && strcmp(name, r->name(i)) != 0)
			continue;
		found = true;
		ok &= r->run(i);
	}
	world_free(w);
	if (!found) {
		fprintf(stderr, "lrsim: no run is called '%s'; try %s list\n", name, r->option);
		return 2;
	}
	return ok ? 0 : 1;
}
