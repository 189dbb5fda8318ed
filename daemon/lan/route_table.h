/* SPDX-License-Identifier: Apache-2.0 */
/* route_table.h - what a worker knows of next hops: a bounded table, pure. route.h fills it.
 *
 *     route_table_get()      a packet is for that host: what is known of it
 *     route_table_ask()      true: it is time to ask about it
 *     route_table_found()    the answer
 *     route_table_changed()  the kernel says that an answer may be no longer true
 *
 * An answer is used until a newer one comes. */
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
	ROUTE_RESOLVING, /* the route, or the neighbour's MAC, is being asked for */
	ROUTE_HERE,      /* it is this machine */
	ROUTE_NONE,      /* no route, or one that leads out of no LAN port */
	ROUTE_REFUSED,   /* nothing is known, and too many questions were asked */
};

/* The kernel's answer about a host. */
struct route_found {
	enum route_answer answer;
	int ifindex;         /* of the neighbour, 0: no route */
	struct ip_addr via;  /* neighbour: gateway, or the host itself */
	struct next_hop hop; /* with ROUTE_OK */
	bool is_fixed;       /* the neighbour is a permanent entry, or needs none: the kernel never looks for it */
};

struct route_entry {
	struct ip_addr dst;
	bool used;
	bool changed;      /* changed by the kernel: asking once more is not rate-limited */
	uint64_t again_ns; /* a question is due from this time on */
	uint64_t asked_ns; /* a question is under way since then, 0: none */
	struct dnode node; /* in by_via, once a neighbour is known */
	struct route_found found;
};

struct route_table {
	uint64_t asks_until_ns; /* virtual clock of ROUTE_ASKS_PER_S: all questions so far are paid for at this time */
	struct dnode by_via[ROUTE_SETS];
	struct route_entry entry[ROUTE_SETS][ROUTE_WAYS];
};

/* Empties the table, which is zeroed. */
void route_table_init(struct route_table *t);

/* The entry of a host; a new host's entry is ROUTE_RESOLVING. NULL: ROUTE_REFUSED. */
struct route_entry *route_table_get(struct route_table *t, const struct ip_addr *dst, uint64_t now_ns);
/* True if a question about the entry is to be asked now; it then counts as under way. */
bool route_table_ask(struct route_table *t, struct route_entry *e, uint64_t now_ns);
/* Takes the answer to a question. Ignores it if the host has lost its place meanwhile. */
void route_table_found(struct route_table *t, const struct ip_addr *dst, const struct route_found *f, uint64_t now_ns);
/* Entries with that neighbour are asked about again. */
void route_table_changed(struct route_table *t, int ifindex, const struct ip_addr *via);
/* All entries are asked about again; answers under way may have been lost. */
void route_table_changed_all(struct route_table *t);

#endif
