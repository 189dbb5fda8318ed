/* SPDX-License-Identifier: Apache-2.0 */
/* privileged.h - operations that need rights which the process that hears hosts and peers does not have.
 *
 * longreachd is two processes (privsep.h). Its child takes packets, sessions, clients and link files apart and has no
 * capability at all; its parent has CAP_NET_ADMIN, CAP_NET_BIND_SERVICE, CAP_NET_RAW and CAP_SYS_NICE, hears nobody but
 * the child, and does only what is listed here. Each call of this header asks the parent and waits, unless its comment
 * says otherwise. Without a parent (`longreachd --close`, unit tests) the process does it itself.
 *
 * Main thread only, but for those that say otherwise. Errors are negative errno, with err (of errlen bytes) a sentence
 * where there is one; -EPIPE: the parent is gone. */
#ifndef DAEMON_PRIVILEGED_H
#define DAEMON_PRIVILEGED_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "held_sockets.h"
#include "daemon/kernel/steer.h"

/* From here on calls ask the parent over these two socket ends (privsep.c). */
void privileged_ask_over(int ask_fd, int tell_fd);

/* steer.h's, under the same conditions; err is written if the result is not 0. */
int privileged_steer_install(const struct link_config *c, enum steer_extent extent, char *err, size_t errlen);
int privileged_steer_keep_routing(const struct link_config *c, bool rules, char *err, size_t errlen);
void privileged_steer_remove(const struct link_config *c, const struct link_config *kept, uint32_t n);
int privileged_steer_all(bool closed, char *err, size_t errlen);
bool privileged_steer_all_stands(void);
void privileged_steer_sweep(const char *const *links, uint32_t n);
bool privileged_steer_stands(const struct link_config *c);
/* fib_rule.h's. */
int privileged_fib_rule_sweep(const struct link_config *links, uint32_t n);
/* offload.h's. */
void privileged_offload_acquire(const char *ifname);
void privileged_offload_refresh(const char *ifname);
void privileged_offload_release(const char *ifname);

/* A packet socket of type SOCK_RAW, close-on-exec, not blocking, bound to nothing, with a send buffer of so many bytes
 * (0: as it comes). The descriptor, or negative errno. */
int privileged_packet_socket(int sndbuf);
/* A NETLINK_NETFILTER socket that hears of changes to nftables, close-on-exec, not blocking. Likewise. */
int privileged_rules_socket(void);

/* tcp_socket.h's tcp_socket_reserved(). */
int privileged_reserved_socket(const struct ip_addr *addr);

/* The parent, if there is one, keeps a copy of the socket, so that the next process finds it (held_sockets.h). The name
 * tells everything that the socket is for. Let go of a socket that is closed for good, or its port stays taken. */
void privileged_hold(const char *name, int fd);
int privileged_held(const char *name);
void privileged_let_go(const char *prefix);
/* Lets go of all held sockets but those of these links. */
void privileged_hold_only(const struct link_config *links, uint32_t n);

/* Asks without waiting, from any thread: there is no answer, and the request is dropped if the parent is behind. */

/* A UDP socket's buffer, past what net.core.rmem_max or wmem_max allow. */
void privileged_receive_buffer(int fd, int bytes);
void privileged_send_buffer(int fd, int bytes);
/* Makes the kernel resolve a neighbour's link-layer address. addr: of family AF_INET (4 bytes) or AF_INET6 (16). */
void privileged_find_neighbour(int ifindex, int family, const void *addr);
/* The calling thread runs before all others that are not of real time (SCHED_FIFO, priority 1). It must sleep nearly
 * all the time. */
void privileged_run_first(void);

#endif
