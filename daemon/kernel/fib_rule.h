/* SPDX-License-Identifier: Apache-2.0 */
/* fib_rule.h - rules in front of the kernel's routing tables. They are the second lock: with them the kernel drops a
 * link's RoCEv2 that it would forward. Unlike nft tables they are not flushed by accident, so RoCEv2 stays closed
 * between `nft flush ruleset` and steer_watch.h's repair. They also lead to the IP port (ip_port.h) of a link with a
 * barrier. They carry FIB_RULE_PROTOCOL, which `ip rule` shows. */
#ifndef DAEMON_FIB_RULE_H
#define DAEMON_FIB_RULE_H

#include "daemon/config/config.h"

#define FIB_RULE_PROTOCOL 191 /* not used in /etc/iproute2/rt_protos */

/* The kernel drops a link's RoCEv2, both directions; all_ip: it looks up all IP from the local hosts to the remote ones
 * in ip_port_table(). UDP fragments from local hosts, whose port no rule can see, are dropped together with RoCEv2
 * unless all_ip. 1; 0 if the rules were so already; negative errno of the first rule that could not be set. */
int fib_rule_set(const struct link_config *c, bool all_ip);

/* Removes all rules of a link, but for those that one of `kept` (n of them) asks for as well: a rule has prefixes and
 * no link's name. 1; 0 if there were none; negative errno of the first rule that could not be removed. */
int fib_rule_remove(const struct link_config *c, const struct link_config *kept, uint32_t n);

/* closed: the kernel drops all RoCEv2 that it would forward, of any address, while a link file cannot be understood. 1;
 * 0 if the rules were so already; negative errno. */
int fib_rule_set_all(bool closed);

/* Removes the rules of ours that none of these links asks for, however many. 0 or negative errno: some are left, -EBUSY
 * if they are listed and cannot be removed. */
int fib_rule_sweep(const struct link_config *links, uint32_t n);

#endif
