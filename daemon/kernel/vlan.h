/* SPDX-License-Identifier: Apache-2.0 */
/* vlan.h - the VLAN interfaces on a link's LAN ports. Main thread only. */
#ifndef DAEMON_VLAN_H
#define DAEMON_VLAN_H

#include <net/if.h>

#include "daemon/config/config.h"

struct vlans {
	char (*name)[IF_NAMESIZE]; /* by name; malloc'ed */
	uint32_t n;
};

/* Lists interfaces of kind vlan whose lower device (IFLA_LINK) is a LAN port of the link, or a VLAN on one (802.1ad).
 * An interface with a LocalAddress= of the link leads to the other site, and is none of them; nor is one whose name has
 * characters that nft takes for more than a name. 0, or negative errno with an empty list. */
int vlan_list(const struct link_config *c, struct vlans *out);
void vlan_free(struct vlans *v);

#endif
