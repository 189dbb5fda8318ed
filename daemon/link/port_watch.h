/* SPDX-License-Identifier: Apache-2.0 */
/* port_watch.h - the kernel's state of what a link needs: LAN ports, WAN addresses, the routes between the edges.
 *
 * Main thread. port_watch_open(); the callback says that the kernel has changed something; port_watch_look() then reads
 * what there is now; port_watch_trouble() says in a sentence what keeps the link from working. */
#ifndef DAEMON_PORT_WATCH_H
#define DAEMON_PORT_WATCH_H

#include "daemon/config/config.h"

struct event_base;
struct port_watch;

struct port_view {
	struct {
		int ifindex; /* 0: there is no interface of that name */
		bool up, carrier;
		uint32_t mtu;
	} lan[LAN_PORTS_MAX];
	struct {
		bool address; /* LocalAddress= can be bound */
		bool route;   /* RemoteAddress= can be reached from it */
		uint32_t mtu; /* of the interface that has the address; 0: none has */
	} wan[PATHS_MAX];
};

/* Text: why the link cannot work, empty: it can. lan_mtu: MTU of each LAN port when the link began. The link works as
 * long as every LAN port and at least one path work. Pure. */
void port_view_trouble(const struct port_view *v, const uint32_t lan_mtu[LAN_PORTS_MAX], const struct link_config *c,
                       char text[CONFIG_ERR_MAX]);

/* True if this machine has the address now. */
bool port_watch_has_address(const struct ip_addr *a);

/* 0 or negative errno. fn is called some milliseconds after the kernel has changed links, addresses, routes or rules.
 */
int port_watch_open(struct port_watch **w, struct event_base *base, void (*fn)(void *arg), void *arg);
void port_watch_close(struct port_watch *w); /* NULL does nothing */
/* Reads the present state. True if it differs from the last one. */
bool port_watch_look(struct port_watch *w, const struct link_config *c);
/* True if rules in front of the routing tables have changed since the last call. */
bool port_watch_rules(struct port_watch *w);
/* The LAN ports' MTUs, as last seen, are those that the link is meant to have. */
void port_watch_accept(struct port_watch *w);
void port_watch_trouble(const struct port_watch *w, const struct link_config *c, char text[CONFIG_ERR_MAX]);
/* Calls fn once more in so many milliseconds. */
void port_watch_again(struct port_watch *w, unsigned ms);

#endif
