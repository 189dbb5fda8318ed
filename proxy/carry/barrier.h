/* SPDX-License-Identifier: Apache-2.0 */
/* barrier.h - packets that are not RC do not arrive before RC requests that were ACKed early before them.
 *
 * In call order, near edge first:
 *
 *     barrier_mark()        pos_acked or pos_reported of a flow has changed             barrier.c
 *     barrier_snapshot()    a packet leaves: requests ACKed before it and not delivered
 *     barrier_admit()       the packet has come: it waits, or goes to its host          barrier_far.c
 *     barrier_progress()    a far flow has got further, or cannot go on
 *     held_packet_lan_tx()       packets for hosts that wait no more                         held_packet.c */
#ifndef PROXY_BARRIER_H
#define PROXY_BARRIER_H

#include "proxy/wan/wan.h"

/* --- near edge --- */

/* Called when pos_acked, pos_reported, failed or used of the flow has changed. */
void barrier_mark(struct proxy *p, struct near_flow *f);
/* The number of flows from src to dst that lag: a snapshot has an entry for each. */
uint32_t barrier_lagging(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst);
/* Writes the snapshot of all flows from src to dst, at most max entries of BARRIER_ENTRY_LEN bytes. Returns their
 * number. */
uint32_t barrier_snapshot(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint8_t *out,
                          uint32_t max);
/* barrier_snapshot() of the flows beside f, for a message of f. *more: there are more than max. */
uint32_t barrier_snapshot_others(struct proxy *p, const struct near_flow *f, uint8_t *out, uint32_t max, bool *more);
/* Writes the entry of one flow. */
void barrier_entry(const struct proxy *p, const struct near_flow *f, uint8_t *out);

/* --- far edge --- */

/* Takes a whole packet from src to dst: it waits behind its snapshot or is queued for its host. False: no room, the
 * caller frees it. */
bool barrier_admit(struct proxy *p, const struct held_packet *what, const struct ip_addr *src,
                   const struct ip_addr *dst);
/* True if the request in the slot, which is f's next, begins a message that must wait for other flows. When these flows
 * have moved on, role_calls.far_schedule is called for f. */
bool barrier_start_waits(struct proxy *p, struct far_flow *f, uint32_t slot);
/* Called when the first flow whose message waits has waited for barrier_max_ns, or a call had no work left to look at
 * all flows that may go on. */
void barrier_on_starts_timer(struct proxy *p);
/* Called when the responder of the flow has taken more, or cannot (RNR, stalled, failed, leaving). */
void barrier_progress(struct proxy *p, struct far_flow *f);
/* Called when the flow is forgotten: no packet waits for it any more. */
void barrier_flow_gone(struct proxy *p, struct far_flow *f, enum far_leaving how);
/* Called when the flow has become stale. Until barrier_flow_gone() packets between its machines wait for it. */
void barrier_flow_stale(struct proxy *p, struct far_flow *f);
/* Called when pos_acked, pos_rx, failed, stalled, leaving or rnr of a flow has changed, without barrier_progress(): the
 * flow may be stale. */
void barrier_mark_stale(struct proxy *p, struct far_flow *f);
/* True while a stale flow goes from src to that queue pair of dst. */
bool barrier_stale_flow_to(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t dest_qpn);
/* Called when the first packet of a queue has waited for barrier_max_ns. */
void barrier_on_timer(struct proxy *p, struct barrier_queue *q);

/* --- held packets --- */

/* The entries behind or in front of the packet. */
uint8_t *held_packet_entries(struct proxy *p, const struct held_packet *pc);
/* Next packet for a host. Returns its L3 length, 0: none. */
size_t held_packet_lan_tx(struct proxy *p, struct lan_tx *tx);

/* --- all --- */

/* With Barrier=causal: true if the packet begins a message, and so may have to wait for other queue pairs. */
static inline bool barrier_may_wait(const struct roce_pkt *pkt)
{
	return pkt->class == ROCE_RC_UNKNOWN || (roce_op(pkt->opcode)->flags & (ROP_START | ROP_OWN_RESPONSE));
}

/* n empty places of that size, each with a struct barrier_way in front; by_machines is made by the caller. */
void barrier_table_init(struct barrier_table *t, void *places, size_t size, uint32_t n);
struct barrier_way *barrier_way_at(const struct barrier_table *t, uint32_t idx);
/* The place of the way between two hosts' machines; NULL: it has none. */
void *barrier_find(struct proxy *p, const struct barrier_table *t, const struct ip_addr *src,
                   const struct ip_addr *dst);
/* A place for a way that has none: src and dst are set, all other members are as they were left. NULL: no place is
 * free. */
void *barrier_take(struct proxy *p, struct barrier_table *t, const struct ip_addr *src, const struct ip_addr *dst);
void barrier_release(struct proxy *p, struct barrier_table *t, struct barrier_way *w);

/* The tables are made already. */
void barrier_init(struct proxy *p, struct held_packet *held_packets, uint32_t nheld_packets);
/* The machine that has this address. */
const struct ip_addr *barrier_host(const struct proxy *p, const struct ip_addr *a);
/* Lists and counts agree. 0, or a negative number. Slow. */
int barrier_audit(struct proxy *p);
/* The part of the far edge. */
int barrier_far_audit(struct proxy *p);

#endif
