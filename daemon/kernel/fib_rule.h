/* SPDX-License-Identifier: Apache-2.0 */
/* fib_rule.h - rules in front of the kernel's routing tables. They are the second lock: by them the kernel drops a
 * link's RoCEv2 where it would forward it. Other than nft tables nobody flushes them in passing, so that stays closed
 * in the moment between `nft flush ruleset` and steer_watch.h. And by them it finds the IP port (ip_port.h) of a link
 * with a barrier. They carry FIB_RULE_PROTOCOL, by which `ip rule` shows whose they are. */
#ifndef DAEMON_FIB_RULE_H
#define DAEMON_FIB_RULE_H

#include "daemon/config/config.h"

#define FIB_RULE_PROTOCOL 191 /* of nobody in /etc/iproute2/rt_protos */

/* Has a link's RoCEv2 dropped, both directions, or lets go of it; and has all IP from its hosts here to those there
 * looked up in ip_port_table(), or not. Pieces of datagrams of UDP from here, which show rules no port, are dropped
 * with RoCEv2 unless they are looked up there. 0, or negative errno of the first rule that could not be set. */
int fib_rule_set(const struct link_config *c, bool roce, bool all_ip);

/* Has the RoCEv2 of all addresses dropped that the kernel would forward, or lets go of it: while a link file cannot be
 * understood. 0 or negative errno. */
int fib_rule_set_all(bool closed);

/* Removes those of ours that none of these links asks for, however many there are. 0 or negative errno: some are left,
 * -EBUSY if they are listed and cannot be removed. */
int fib_rule_sweep(const struct link_config *links, uint32_t n);

#endif
