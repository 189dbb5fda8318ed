/* SPDX-License-Identifier: Apache-2.0 */
/* config_machine.h - whether a link file fits the machine that it is on. */
#ifndef DAEMON_CONFIG_MACHINE_H
#define DAEMON_CONFIG_MACHINE_H

#include "daemon/config/config.h"

/* Each adds what does not fit to r. */
void config_machine_check(const struct link_config *c, struct config_reading *r);     /* all of the following */
void config_machine_lan_ports(const struct link_config *c, struct config_reading *r); /* there, Ethernet, not the WAN's */
void config_machine_paths(const struct link_config *c, struct config_reading *r);     /* addresses, the interface's MTU */
void config_machine_buffer(const struct link_config *c, struct config_reading *r);    /* its directory and size */

/* What the buffer's files take, and the room that there is for them with those that are there already. */
uint64_t config_machine_buffer_bytes(const struct link_config *c, uint64_t page_bytes);
uint64_t config_machine_buffer_taken(const struct link_config *c);

#endif
