/* SPDX-License-Identifier: Apache-2.0 */
/* config_machine.h - whether a link file fits the machine that it is on. */
#ifndef DAEMON_CONFIG_MACHINE_H
#define DAEMON_CONFIG_MACHINE_H

#include "daemon/config/config.h"

/* Each function adds to r what does not fit. */
void config_machine_check(const struct link_config *c, struct config_reading *r); /* all of the following */
void config_machine_lan_ports(const struct link_config *c,
                              struct config_reading *r);                           /* there, Ethernet, not the WAN's */
void config_machine_paths(const struct link_config *c, struct config_reading *r);  /* addresses, the interface's MTU */
void config_machine_buffer(const struct link_config *c, struct config_reading *r); /* its directory and size */

/* Bytes that the existing files of the link's buffer take; 0 if the caller may not look. */
uint64_t config_machine_buffer_taken(const struct link_config *c);

#endif
