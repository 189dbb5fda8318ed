/* SPDX-License-Identifier: Apache-2.0 */
/* host_groups.h - [Host] Group=: which addresses are one machine. Pure. */
#ifndef DAEMON_HOST_GROUPS_H
#define DAEMON_HOST_GROUPS_H

#include "config.h"

/* Fills in, for each address that is not the first of its machine, the machine's first address; ascending, as the core
 * needs it. Items that share an address are one machine. Returns how many. */
uint32_t host_groups_aliases(const struct link_config *c, struct host_alias alias[HOST_ALIASES_MAX]);
/* A digest of all groups, independent of their order, so that edges can compare them; 0 if there are no groups. */
uint64_t host_groups_digest(const struct link_config *c);

#endif
