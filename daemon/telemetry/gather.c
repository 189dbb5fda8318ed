/* SPDX-License-Identifier: Apache-2.0 */
/* gather.c - each link asks its workers; the last answer calls back.
 *
 * The client may be gone by then, and a link may have been stopped: a gathering outlives both, and finds links by
 * name. */
#include "gather.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One link's part. */
struct answer {
	struct gather *gather;
	char name[LINK_NAME_MAX];
	bool have;
	struct link_snapshot snap;
};

struct gather {
	struct gather **handle; /* NULL: nobody waits for it any more */
	struct sites *sites;
	gather_fn fn;
	void *arg;
	uint32_t missing;
	uint32_t n;
	struct answer answers[SITES_MAX];
};

static void tell(struct gather *g)
{
	struct gathered links[SITES_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->n; i++) {
		const struct answer *a = &g->answers[i];
		const struct site *s = sites_find(g->sites, a->name);

		if (s != NULL)
			links[n++] = (struct gathered){s, a->have ? &a->snap : NULL};
	}
	*g->handle = NULL;
	g->fn(g->arg, links, n);
}

static void settle(struct gather *g)
{
	if (--g->missing > 0)
		return;
	if (g->handle != NULL)
		tell(g);
	for (uint32_t i = 0; i < g->n; i++) {
		free(g->answers[i].snap.flows);
		free(g->answers[i].snap.views.list);
	}
	free(g);
}

static void on_snapshot(void *arg, struct link *l, struct link_snapshot *snap)
{
	struct answer *a = arg;

	(void)l;
	if (snap != NULL) {
		a->snap = *snap;
		a->have = true;
	}
	settle(a->gather);
}

static void ask(struct gather *g, const struct site *s, bool with_flows, const struct flow_filter *views)
{
	struct answer *a = &g->answers[g->n++];

	a->gather = g;
	snprintf(a->name, sizeof(a->name), "%s", site_config(s)->name);
	if (site_link(s) == NULL)
		return;
	g->missing++;
	link_snapshot(site_link(s), with_flows, views, on_snapshot, a);
}

int gather_start(struct gather **handle, struct sites *sites, const char *name, bool with_flows,
                 const struct flow_filter *views, gather_fn fn, void *arg)
{
	struct gather *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return -ENOMEM;
	g->handle = handle;
	g->sites = sites;
	g->fn = fn;
	g->arg = arg;
	*handle = g;
	g->missing = 1; /* held until every link was asked: some answer at once */
	for (uint32_t i = 0; i < sites->n; i++)
		if (name == NULL || strcmp(site_config(sites->list[i])->name, name) == 0)
			ask(g, sites->list[i], with_flows, views);
	settle(g);
	return 0;
}

void gather_forget(struct gather **handle)
{
	if (*handle == NULL)
		return;
	(*handle)->handle = NULL;
	*handle = NULL;
}
