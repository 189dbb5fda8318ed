/* SPDX-License-Identifier: Apache-2.0 */
/* host_groups.h - [Host] Group=: which addresses are one machine. Pure. */
#ifndef DAEMON_HOST_GROUPS_H
#define DAEMON_HOST_GROUPS_H

#include "config.h"

/* For each address that is not the first of its machine, that first one; ascending, as the core wants it. Items that
 * share an address are one machine. Returns how many. */
uint32_t host_groups_aliases(const struct link_config *c, struct host_alias alias[HOST_ALIASES_MAX]);
/* The same at both edges if they say the same, in whatever order; 0 if nothing is said. */
uint64_t host_groups_digest(const struct link_config *c);

#endif
