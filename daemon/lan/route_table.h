/* SPDX-License-Identifier: Apache-2.0 */
/* route_table.h - what a worker knows of next hops: a bounded table, pure. route.h is what fills it.
 *
 *     route_table_get()      a packet is for that host: what is known of it
 *     route_table_ask()      true: it is time to ask about it
 *     route_table_found()    the answer
 *     route_table_changed()  the kernel says that an answer may be no longer true
 *
 * What is known is used until something else is. */
#ifndef DAEMON_ROUTE_TABLE_H
#define DAEMON_ROUTE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/util/next_hop.h"
#include "proxy/util/dlist.h"
#include "proxy/roce/roce.h"

enum route_limits {
	ROUTE_SETS = 1024, /* also of neighbours */
	ROUTE_WAYS = 4,
	/* Questions about hosts without a next hop, which any host can provoke by addresses that nobody has: each costs
	 * the kernel some 20 us and a place in its neighbour table, which has a thousand by default. */
	ROUTE_ASKS_PER_S = 1000,
	ROUTE_ASKS_AT_ONCE = 1024,
};

enum route_answer {
	ROUTE_OK,
	ROUTE_RESOLVING, /* it is being asked for: the way, or the neighbour's address */
	ROUTE_HERE,      /* it is this machine */
	ROUTE_NONE,      /* no route, or one that leads out of no LAN port */
	ROUTE_REFUSED,   /* nothing is known, and too much is being asked for */
};

/* What the kernel says of a host. */
struct route_found {
	enum route_answer answer;
	int ifindex;         /* of the neighbour, 0: no route */
	struct ip_addr via;  /* neighbour: gateway, or the host itself */
	struct next_hop hop; /* with ROUTE_OK */
};

struct route_entry {
	struct ip_addr dst;
	bool used;
	bool changed;      /* by the kernel: asking once more is free */
	uint64_t again_ns; /* it is asked about from then on */
	uint64_t asked_ns; /* a question is under way since then, 0: none */
	struct dnode node; /* in by_via, once a neighbour is known */
	struct route_found found;
};

struct route_table {
	uint64_t asks_until_ns; /* what was asked is paid for then */
	struct dnode by_via[ROUTE_SETS];
	struct route_entry entry[ROUTE_SETS][ROUTE_WAYS];
};

/* Nothing is known. The table is zeroed. */
void route_table_init(struct route_table *t);

/* What is known of a host; of one that is new: that it is being asked for. NULL: ROUTE_REFUSED. */
struct route_entry *route_table_get(struct route_table *t, const struct ip_addr *dst, uint64_t now_ns);
/* True if a question about it is to go now, which then is under way. */
bool route_table_ask(struct route_table *t, struct route_entry *e, uint64_t now_ns);
/* The answer to a question. Of a host that has lost its place meanwhile it is forgotten. */
void route_table_found(struct route_table *t, const struct ip_addr *dst, const struct route_found *f, uint64_t now_ns);
/* What leads to that neighbour is asked about again. */
void route_table_changed(struct route_table *t, int ifindex, const struct ip_addr *via);
/* Everything is; answers that are under way may have been lost. */
void route_table_changed_all(struct route_table *t);

#endif
