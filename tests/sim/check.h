/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - what must be true at every moment, whatever the network does.
 *
 * The first violation stops the world. Each is named; the names are printed with the seed. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "pkt.h"
#include "proxy/roce/roce.h"

struct world;
struct host;
struct qp;
struct conn;
struct wqe;
struct proxy_event;

void check_fail(struct world *w, const char *invariant, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Violations of these (a list) do not count: to look behind a known one. */
void check_ignore(const char *invariants);
/* Whether a list of invariants, with commas or blanks between, has that one: its name ends where `invariant` does or has
 * a colon, as in world.violation. */
bool check_named(const char *list, const char *invariant);

/* A packet from a host reaches the edge of `site`, which is up. */
void check_edge_rx(struct world *w, const struct pkt *p, const struct roce_pkt *pkt);
/* A packet leaves the edge of `site` for a host there. */
void check_edge_tx(struct world *w, uint8_t site, uint8_t host, const struct pkt *p);
/* A packet of an attacker, or one damaged on a LAN, that is no RoCEv2 (any more): it is carried as the IP that it
 * is. */
bool check_odd_ip(const struct world *w, const struct pkt *p);
/* A packet came to a host for which there is no queue pair with that peer. */
void check_stray(struct host *h, const struct roce_pkt *pkt);
/* A requester completed a message. */
void check_completion(struct qp *q, const struct wqe *w);
/* A plain ACK names a READ or ATOMIC without an answer: rxe would take it for the answer. */
void check_ack_of_answer(struct qp *q, const struct wqe *w);
void check_implied_nak(struct qp *q, uint64_t last_ns);
/* A requester was sent away more often than it stands: its edge knows how often that is. */
void check_rnr_spent(struct qp *q);
void check_qp_error(struct qp *q, const char *why);
/* An edge has made q's queue pair fail, as its requester's work had failed. */
void check_told(struct qp *q);
/* What the side has completed must be executed: the connection is not excused, or only by the loss of an arena that
 * mode far outlives. */
bool check_relies(const struct conn *c, int side);
/* The edges may have waited for as long as they are to (barrier), and let go what had to wait for this connection. */
bool check_waits_in_vain(const struct conn *c);
/* DREQ arrived at side 1. */
void check_dreq(struct conn *c);
/* "Done" arrived over UD at side 1. */
void check_ud_done(struct conn *c);
/* Edges (bit 0: site A) are about to stop; lost: with their arenas. And what must be executed long after such a
 * loss. */
void check_crash(struct world *w, uint8_t sites, bool lost);
void check_outlived(struct conn *c);
/* It is still open, and has been for as long as it may. */
void check_late(struct conn *c);
/* A round of a connection is over. */
void check_conn_done(struct conn *c);
/* An edge has reported something. */
void check_event(struct world *w, const struct proxy_event *ev);
/* All shards, all pairings. */
void check_audit(struct world *w);
/* At the end. */
void check_end(struct world *w);

#endif
