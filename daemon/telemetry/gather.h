/* SPDX-License-Identifier: Apache-2.0 */
/* gather.h - asks all links for their state, and calls back when each has answered or has stopped. */
#ifndef DAEMON_GATHER_H
#define DAEMON_GATHER_H

#include <stdbool.h>

#include "daemon/link/sites.h"

struct gather;

struct gathered {
	const struct site *site;
	const struct link_snapshot *snap; /* NULL: the link does not run, or no snapshot could be taken */
};

/* The links are valid during the call only. */
typedef void (*gather_fn)(void *arg, const struct gathered *links, uint32_t n);

/* name NULL: all links. views: which flows are wanted with all facts, NULL: none. *handle is set until fn is called,
 * which may be before this returns. 0, -ENOMEM. */
int gather_start(struct gather **handle, struct sites *sites, const char *name, bool with_flows,
                 const struct flow_filter *views, gather_fn fn, void *arg);
/* Prevents the call of fn. *handle may be NULL. */
void gather_forget(struct gather **handle);

#endif
